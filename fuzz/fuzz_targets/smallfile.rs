//! Any bytes as response times of smallfile: no panic, and the same events whatever is asked for.
#![no_main]

use latscope_capture_file::{Format, ReadOptions};
use latscope_event::FieldSet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let format = Some(Format::Smallfile);
    // Strict reading ends at the first strange row, where lenient reading only starts.
    let lenient = !bytes.len().is_multiple_of(4);
    latscope_fuzz::check(bytes, &ReadOptions { format, lenient, ..ReadOptions::new(FieldSet::EVERY) });
});
