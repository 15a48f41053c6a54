//! Any text as histograms or records of PyLatencyMap: no panic, and histograms that agree with themselves.
#![no_main]

use latscope_capture_file::{Format, ReadOptions};
use latscope_event::FieldSet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let format = if first % 2 == 0 { Format::PyLatencyMap } else { Format::HistogramText };
    let mut options = ReadOptions { format: Some(format), ..ReadOptions::new(FieldSet::ALWAYS) };
    // The unit of some has to be given.
    options.two_columns.latency_unit_ns = (first & 0x80 == 0).then_some(1_000);
    latscope_fuzz::check_series(rest, &options);
});
