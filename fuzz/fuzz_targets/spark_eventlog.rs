//! Any bytes as an event log of Spark: no panic, and the same events whatever is asked for.
#![no_main]

use latscope_capture_file::{Format, ReadOptions};
use latscope_event::FieldSet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let options = ReadOptions { format: Some(Format::SparkEventlog), ..ReadOptions::new(FieldSet::EVERY) };
    latscope_fuzz::check(bytes, &ReadOptions { all_of_spark: bytes.len() % 2 == 0, ..options });
});
