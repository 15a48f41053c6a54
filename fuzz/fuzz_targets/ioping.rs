//! Any bytes as output of ioping: no panic, and the same events whatever is asked for.
#![no_main]

use latscope_capture_file::{Format, ReadOptions};
use latscope_event::FieldSet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let format = Some(Format::Ioping);
    latscope_fuzz::check(bytes, &ReadOptions { format, ..ReadOptions::new(FieldSet::EVERY) });
});
