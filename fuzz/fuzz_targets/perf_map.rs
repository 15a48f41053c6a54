//! Any bytes as a perf map, in two parts as a map that grows: no panic, and every name lies at its address.
#![no_main]

use latscope_unwind::PerfMap;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let (one, two) = rest.split_at(rest.len() * usize::from(first) / 256);
    let mut map = PerfMap::default();
    map.add(one);
    let before = map.len();
    map.add(two);
    assert!(map.len() >= before && map.len() <= rest.split(|&byte| byte == b'\n').count() + 1);
    for word in rest.chunks_exact(8) {
        let address = u64::from_le_bytes(word.try_into().expect("eight bytes"));
        for address in [address, address >> 32, address >> 48] {
            assert!(map.find(address).is_none_or(|name| !name.is_empty()));
        }
    }
});
