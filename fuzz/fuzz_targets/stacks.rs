//! Any bytes as a file of stacks: no panic, and the same events whatever is asked for. The first byte selects the format.
#![no_main]

use latscope_capture_file::{Format, ReadOptions};
use latscope_event::FieldSet;
use libfuzzer_sys::fuzz_target;

const FORMATS: [Format; 5] =
    [Format::Folded, Format::Difffolded, Format::StapStacks, Format::Pprof, Format::BpftraceStacks];

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let format = Some(FORMATS[usize::from(first) % FORMATS.len()]);
    latscope_fuzz::check(rest, &ReadOptions { format, ..ReadOptions::new(FieldSet::EVERY) });
});
