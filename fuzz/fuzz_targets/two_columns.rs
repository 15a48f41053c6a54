//! Any text as two columns, in any unit: no panic, and every row an event whose completion is the number in the text.
#![no_main]

use latscope_capture_file::{Format, ReadOptions, TwoColumns};
use latscope_event::FieldSet;
use libfuzzer_sys::fuzz_target;

const UNITS: [u64; 4] = [1, 1_000, 1_000_000, 1_000_000_000];

fuzz_target!(|bytes: &[u8]| {
    let unit = |at: usize| UNITS[at % UNITS.len()];
    let latency_unit_ns = (bytes.len() % 5 > 0).then(|| unit(bytes.len() % 5 - 1));
    let unit_bytes = bytes.len().is_multiple_of(7).then_some(1 << 20);
    let two_columns = TwoColumns { time_unit_ns: unit(bytes.len()), latency_unit_ns, unit_bytes };
    let format = Some(Format::TwoColumns);
    latscope_fuzz::check(bytes, &ReadOptions { format, two_columns, ..ReadOptions::new(FieldSet::EVERY) });
});
