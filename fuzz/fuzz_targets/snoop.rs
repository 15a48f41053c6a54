//! Any text of biosnoop and iosnoop, or waits of Oracle: no panic, and the events of one trace however it is read.
#![no_main]

use latscope_capture_file::{Format, ReadOptions};
use latscope_event::FieldSet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let format = if first % 2 == 0 { Format::Snoop } else { Format::Oracle10046 };
    latscope_fuzz::check(rest, &ReadOptions { format: Some(format), ..ReadOptions::new(FieldSet::EVERY) });
});
