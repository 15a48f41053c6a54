//! Any bytes as a trace: no panic, bounded memory.
#![no_main]

use latscope_capture_file::{Format, ReadOptions, read_bytes};
use latscope_event::FieldSet;
use libfuzzer_sys::fuzz_target;
use std::ops::ControlFlow;

fuzz_target!(|bytes: &[u8]| {
    let mut options = ReadOptions::new(FieldSet::EVERY);
    options.format = Some(Format::Lat);
    let _ = read_bytes("fuzz", bytes, &options, &mut |_, batch| {
        assert_eq!(batch.time().len(), batch.latency().len());
        ControlFlow::Continue(())
    });
});
