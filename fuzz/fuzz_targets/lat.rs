//! Any bytes as a trace: no panic, bounded memory.
#![no_main]

use latscope_capture_file::{Format, ReadOptions, read};
use latscope_event::FieldSet;
use libfuzzer_sys::fuzz_target;
use std::io::Write;
use std::ops::ControlFlow;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut file) = tempfile::NamedTempFile::new() else { return };
    if file.write_all(bytes).is_err() {
        return;
    }
    let mut options = ReadOptions::new(FieldSet::EVERY);
    options.format = Some(Format::Lat);
    let _ = read(file.path(), &options, &mut |_, batch| {
        assert_eq!(batch.time().len(), batch.latency().len());
        ControlFlow::Continue(())
    });
});
