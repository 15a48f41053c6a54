//! Any bytes as what others push by remote-write, as they come (snappy) and unpacked: no panic, and what is read has bounds.
#![no_main]

use latscope_wire::exports::incoming::remote_write::{decode, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, bytes)) = bytes.split_first() else { return };
    let version = 1 + kind % 2;
    let decoded = if kind & 2 == 0 { read(bytes, version) } else { decode(bytes, version) };
    if let Ok(decoded) = decoded {
        assert!(decoded.points.len() <= 20_000);
    }
});
