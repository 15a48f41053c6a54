//! Any bytes as histogram logs or JSON of fio, or a log of HdrHistogram: no panic, and histograms that agree with themselves.
#![no_main]

use latscope_capture_file::{Format, ReadOptions};
use latscope_event::FieldSet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let format = match first % 6 {
        0 | 2 => Format::FioHist,
        1 | 3 => Format::FioJson,
        _ => Format::Hlog,
    };
    let lenient = first & 0x80 == 0;
    let options = ReadOptions { format: Some(format), lenient, ..ReadOptions::new(FieldSet::ALWAYS) };
    latscope_fuzz::check_series(rest, &options);
});
