//! An event log of Spark in members of gzip: any bytes behind the magic, and the text of a log that is packed here.
#![no_main]

use flate2::{Compression, write::GzEncoder};
use libfuzzer_sys::fuzz_target;
use std::io::Write;

fn pack(blocks: &[&[u8]]) -> Vec<u8> {
    let mut packed = Vec::new();
    for block in blocks {
        let mut member = GzEncoder::new(&mut packed, Compression::fast());
        member.write_all(block).and_then(|()| member.finish().map(drop)).expect("memory takes what is written");
    }
    packed
}

fuzz_target!(|bytes: &[u8]| latscope_fuzz::check_packed(b"\x1f\x8b", bytes, pack));
