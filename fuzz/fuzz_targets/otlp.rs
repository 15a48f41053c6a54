//! Any bytes as what others push by OpenTelemetry: no panic, and what is read has bounds.
#![no_main]

use latscope_wire::exports::incoming::otlp::decode;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(decoded) = decode(bytes) {
        assert!(decoded.points.len() <= 20_000);
    }
});
