//! An event log of Spark in blocks of LZ4, as lz4-java writes them: any bytes behind their magic, and the text of a log that is packed here.
#![no_main]

use libfuzzer_sys::fuzz_target;

fn pack(blocks: &[&[u8]]) -> Vec<u8> {
    let mut packed = Vec::new();
    for block in blocks {
        let small = lz4_flex::block::compress(block);
        // As lz4-java does: what does not become shorter stays as it is.
        let (method, bytes) = if small.len() < block.len() { (0x20, &small[..]) } else { (0x10, *block) };
        packed.extend_from_slice(b"LZ4Block");
        packed.push(method | 5);
        packed.extend([bytes.len() as u32, block.len() as u32, 0].into_iter().flat_map(u32::to_le_bytes));
        packed.extend_from_slice(bytes);
    }
    [&packed[..], b"LZ4Block\x15", &[0; 12]].concat()
}

fuzz_target!(|bytes: &[u8]| latscope_fuzz::check_packed(b"LZ4Block", bytes, pack));
