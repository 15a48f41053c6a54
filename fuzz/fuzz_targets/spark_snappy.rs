//! An event log of Spark in blocks of Snappy, as snappy-java writes them: any bytes behind the header, and the text of a log that is packed here.
#![no_main]

use libfuzzer_sys::fuzz_target;

const HEADER: &[u8] = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";

fn pack(blocks: &[&[u8]]) -> Vec<u8> {
    let mut packed = HEADER.to_vec();
    for block in blocks {
        let small = snap::raw::Encoder::new().compress_vec(block).expect("a short block can be packed");
        packed.extend((small.len() as u32).to_be_bytes());
        packed.extend(small);
    }
    packed
}

fuzz_target!(|bytes: &[u8]| latscope_fuzz::check_packed(HEADER, bytes, pack));
