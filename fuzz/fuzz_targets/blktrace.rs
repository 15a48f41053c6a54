//! Any recording of blktrace: no panic, and the events of one trace however it is read.
#![no_main]

use latscope_capture_file::{Format, ReadOptions};
use latscope_event::FieldSet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let format = Some(Format::Blktrace);
    latscope_fuzz::check(bytes, &ReadOptions { format, ..ReadOptions::new(FieldSet::EVERY) });
});
