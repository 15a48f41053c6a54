//! An event log of Spark in frames of zstd: any bytes behind the magic, and the text of a log that is packed here.
#![no_main]

use libfuzzer_sys::fuzz_target;

fn pack(blocks: &[&[u8]]) -> Vec<u8> {
    let frame = |block: &&[u8]| zstd::encode_all(*block, 1).expect("a short block can be packed");
    blocks.iter().flat_map(frame).collect()
}

fuzz_target!(|bytes: &[u8]| latscope_fuzz::check_packed(b"\x28\xb5\x2f\xfd", bytes, pack));
