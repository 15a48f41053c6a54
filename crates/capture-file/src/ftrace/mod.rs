//! Text of ftrace: the files `trace` and `trace_pipe` of tracefs, and what `trace-cmd report` prints.
//!
//! Read are the block layer's events, system calls in both spellings, and the `blk` tracer. All that is not ftrace's own layout
//! of a line is shared with the text of perf.

mod line;

use crate::input::Input;
use crate::perf_script::reader::{self, Source};
use crate::{Detected, Error, ReadOptions, Sink, block_pairs, syscall_pairs};
use latscope_event::{Context, FieldSet};
use line::FtraceParser;

/// The fields that text of ftrace can fill.
pub const FILLS: FieldSet = block_pairs::FILLS.union(syscall_pairs::FILLS);

/// Lines in ftrace's layout, or its header.
pub fn detect(head: &[u8]) -> Detected {
    let is_header =
        [&b"# tracer: "[..], b"cpus=", b"version = 6\n", b"version = 7\n"].iter().any(|start| head.starts_with(start));
    let mut lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end).filter(|line| !line.is_empty());
    if is_header || lines.by_ref().take(50).any(line::is_certain) { Detected::Yes } else { Detected::No }
}

/// Reads the text; see the crate's `read`.
pub fn read(input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    const SOURCE: Source = Source {
        tool: "ftrace",
        clock: "trace",
        nothing: "The text has no block or system call events with times in seconds. Enable \
                  events/block/block_rq_issue and events/block/block_rq_complete, or record with trace-cmd record -e \
                  block, with a clock of seconds (not counter or x86-tsc), and report without --raw-ts.",
        has_stacks: false,
        has_samples: false,
    };
    let nothing = other_report(input.head()).unwrap_or(SOURCE.nothing);
    reader::read::<FtraceParser>(input, &Source { nothing, ..SOURCE }, options, sink)
}

/// A sentence for reports of trace-cmd that have no events.
fn other_report(head: &[u8]) -> Option<&'static str> {
    let has = |text: &[u8]| memchr::memmem::find(head, text).is_some();
    if has(b"Kernel buffer statistics:") {
        Some("These are the statistics of trace-cmd report --stat, without events; report without --stat.")
    } else if has(b"\ntask: ") && has(b"  Event: ") {
        Some("This is the profile of trace-cmd report --profile, without single events; report without --profile.")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detection() {
        for (text, expect) in [
            ("# tracer: nop\n#\n", Detected::Yes),
            ("cpus=2\n", Detected::Yes),
            ("  a-7     [000] .....  12: block_rq_issue: 8,0 R 4096 () 1000 + 8 be,0,4 [a]\n", Detected::Yes),
            ("version = 6\nregistering plugin: x\n", Detected::Yes),
            ("CPU:0 [LOST 41440 EVENTS]\n", Detected::Yes),
            ("  kworker/u8:2-35  [001] d..1.  12.500000: block_rq_issue: 8,0 R 4096 () 8 + 8 [fio]\n", Detected::Yes),
            ("  a b-35  (-----) [001] ....  12.500000: sys_read -> 0x340\n", Detected::Yes),
            ("kworker/-35      1...1.  1646.846788: block_rq_insert:      254,0 W 8 () 1 + 8 [x]\n", Detected::Yes),
            ("fio 1 [001]  1217.943839: block:block_rq_issue: 254,0 RS 4096 () 8 + 8 [fio]\n", Detected::No),
            ("fio-1 1 [001]  1217.943839: cpu-clock: 0\n", Detected::No),
            ("fio-job 12 1217.943839: context-switches: 0\n", Detected::No),
            ("1 2\n3 4\n", Detected::No),
            ("", Detected::No),
        ] {
            assert_eq!(detect(text.as_bytes()), expect, "{text}");
        }
    }
}
