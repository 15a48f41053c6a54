//! Any bytes as our own trace: no panic, bounded memory, and what was read can be written and read again.
#![no_main]

use latscope_capture_file::{Format, ReadOptions};
use latscope_event::FieldSet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let format = Some(Format::Lat);
    latscope_fuzz::check(bytes, &ReadOptions { format, ..ReadOptions::new(FieldSet::EVERY) });
});
