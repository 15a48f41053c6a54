//! An event log of Spark in chunks of LZF, as compress-lzf writes them: any bytes behind their magic, and the text of a log that is packed here.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::HashMap;

/// Copies of what has the same three bytes before, and single literals.
fn shorter(block: &[u8]) -> Vec<u8> {
    let (mut packed, mut seen, mut at) = (Vec::new(), HashMap::new(), 0);
    while at < block.len() {
        let from = block.get(at..at + 3).and_then(|three| seen.insert(three, at)).filter(|from| at - from <= 1 << 13);
        let Some(from) = from else {
            packed.extend([0, block[at]]);
            at += 1;
            continue;
        };
        let same = |&count: &usize| at + count < block.len() && block[from + count] == block[at + count];
        let (count, back) = ((0..264).take_while(same).count(), at - from - 1);
        match count - 2 {
            short @ ..7 => packed.push((short << 5 | back >> 8) as u8),
            long => packed.extend([(7 << 5 | back >> 8) as u8, (long - 7) as u8]),
        }
        packed.push(back as u8);
        at += count;
    }
    packed
}

fn pack(blocks: &[&[u8]]) -> Vec<u8> {
    let mut packed = Vec::new();
    for block in blocks {
        let (small, length) = (shorter(block), (block.len() as u16).to_be_bytes());
        if small.len() < block.len() {
            packed.extend([b"ZV\x01", &(small.len() as u16).to_be_bytes()[..], &length, &small].concat());
        } else {
            packed.extend([b"ZV\0", &length[..], block].concat());
        }
    }
    packed
}

fuzz_target!(|bytes: &[u8]| latscope_fuzz::check_packed(b"ZV", bytes, pack));
