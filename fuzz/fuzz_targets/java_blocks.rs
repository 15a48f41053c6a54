//! Any bytes behind the magic of each stream of compressed blocks: no panic, bounded memory, and errors that are sentences.
#![no_main]

use latscope_capture_file::{Format, ReadOptions, read_bytes};
use latscope_event::FieldSet;
use libfuzzer_sys::fuzz_target;
use std::ops::ControlFlow;

const MAGIC: [&[u8]; 4] = [b"LZ4Block", b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01", b"ZV\x01", b"ZV\0"];

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let packed = [MAGIC[usize::from(first) % MAGIC.len()], rest].concat();
    let options = ReadOptions { format: Some(Format::SparkEventlog), ..ReadOptions::new(FieldSet::ALWAYS) };
    if let Err(error) = read_bytes("fuzz", &packed, &options, &mut |_, _| ControlFlow::Continue(())) {
        assert!(error.to_string().ends_with('.'), "{error} is no sentence");
    }
});
