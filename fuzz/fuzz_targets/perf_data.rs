//! Any bytes are refused with a sentence, or give events whose columns are whole.
#![no_main]

use latscope_capture_file::{Format, ReadOptions, read_bytes};
use latscope_event::FieldSet;
use libfuzzer_sys::fuzz_target;
use std::ops::ControlFlow;

fuzz_target!(|bytes: &[u8]| {
    let options =
        ReadOptions { format: Some(Format::PerfData), all_syscalls: true, ..ReadOptions::new(FieldSet::EVERY) };
    let mut events = 0;
    let result = read_bytes("fuzz", bytes, &options, &mut |_, batch| {
        assert!(batch.time().len() == batch.len() && batch.latency().len() == batch.len());
        events += batch.len();
        ControlFlow::Continue(())
    });
    match result {
        // A record takes eight bytes at least, and it takes two of them to make an event; compression multiplies.
        Ok(context) => assert!(context.span_ns.is_some() || events == 0),
        Err(error) => assert!(error.to_string().ends_with('.')),
    }
});
