//! Any bytes as a `.scap`: no panic, and the events of one trace however it is read.
#![no_main]

use latscope_capture_file::{Format, ReadOptions};
use latscope_event::FieldSet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let options = ReadOptions { format: Some(Format::Scap), ..ReadOptions::new(FieldSet::EVERY) };
    latscope_fuzz::check(bytes, &ReadOptions { only_io: bytes.len() % 2 == 0, ..options });
});
