//! Text of `perf script`, of every kernel since 3.x and with whatever columns `-F` chose.

pub mod callchain;
pub mod line;
mod parallel;
pub mod reader;

use crate::input::Input;
use crate::{Detected, Error, ReadOptions, Sink, block_pairs, syscall_pairs};
use latscope_event::{Context, FieldSet};
use line::{Line, LineParser, LineSource};
use reader::Source;

/// The fields that perf script text can fill.
pub const FILLS: FieldSet = block_pairs::FILLS.union(syscall_pairs::FILLS).union(block_pairs::OF_STACKS);

/// A line with the anchor and an event makes it perf's.
pub fn detect(head: &[u8]) -> Detected {
    let mut lines = head.split(|&byte| byte == b'\n');
    let mut parser = LineParser::default();
    let understood =
        |line: &[u8]| matches!(parser.parse(line), Line::Block(_) | Line::Syscall(_) | Line::Other | Line::Lost { .. });
    if lines.any(understood) {
        return Detected::Yes;
    }
    // A long header (perf script --header) may fill the whole beginning.
    let is_header = head.starts_with(b"# ========\n# captured on");
    if is_header { Detected::Yes } else { Detected::No }
}

/// Whether it starts with samples, and none of the records that pair: beside those they would be events without a latency.
fn has_samples(head: &[u8]) -> bool {
    let mut parser = LineParser::default();
    let mut has_samples = false;
    for line in head.split(|&byte| byte == b'\n') {
        match parser.parse(line) {
            Line::Block(_) | Line::Syscall(_) => return false,
            Line::Other => has_samples = has_samples || callchain::sample(line).is_some(),
            _ => {}
        }
    }
    has_samples
}

/// Reads the text; see the crate's `read`.
pub fn read(input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    const SOURCE: Source = Source {
        tool: "perf script",
        clock: "perf",
        nothing: "The text has no block or system call events; record with perf record -e block:block_rq_issue -e \
                  block:block_rq_complete -a.",
        has_stacks: true,
        has_samples: false,
    };
    let has_samples = has_samples(input.head());
    reader::read::<LineParser>(input, &Source { has_samples, ..SOURCE }, options, sink)
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_event::Anomaly;
    use std::ops::ControlFlow;

    #[test]
    fn times_at_the_end_of_what_can_be_counted_stay_there() {
        let text = "# captured on    : Sat Nov 21 01:10:17 2026\n\
            # time of last sample : 9223372036.854775807\n\
            # reference time : x = 9223372036.0 (TOD) = 0.1 (monotonic)\n\
            fio 1 [001] 9223372036.854775: block:block_rq_issue: 254,0 RS 4096 () 8 + 8 [fio]\n\
            fio 1 [001] 9223372036.999999: block:block_rq_complete: 254,0 RS () 8 + 8 [0]\n\
            fio 1 [001] 9223372036.854775: PERF_RECORD_LOST lost 18446744073709551615\n\
            fio 1 [001] 9223372036.854775: PERF_RECORD_LOST lost 18446744073709551615\n\
            fio 1 [001] 9223372036.854775: raw_syscalls:sys_enter: NR 0 (3, 0, 340, 0, 0, 0)\n";
        let options = ReadOptions::new(FieldSet::EVERY);
        let input = Input::from_bytes("test", text.as_bytes()).unwrap();
        let context = read(input, &options, &mut |_, _| ControlFlow::Continue(())).unwrap();
        assert_eq!(context.span_ns, Some((i64::MAX, i64::MAX)));
        assert_eq!(context.tally.get(Anomaly::UnparsedLines), 1, "a moment after the last that can be counted");
        assert_eq!(context.tally.get(Anomaly::LostRecords), u64::MAX);
    }

    #[test]
    fn detection() {
        for (text, expect) in [
            ("fio 1 [001]  1217.943839: block:block_rq_issue: 254,0 RS 4096 () 8 + 8 [fio]\n", Detected::Yes),
            ("# ========\n# captured on    : Sat Nov 21 01:10:17 2026\n", Detected::Yes),
            ("1 2\n3 4\n", Detected::No),
            ("hello\n", Detected::No),
        ] {
            assert_eq!(detect(text.as_bytes()), expect, "{text}");
        }
    }
}
