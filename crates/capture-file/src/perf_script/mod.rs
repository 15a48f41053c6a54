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
    use latscope_event::{Anomaly, Wait};
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

    /// With stacks and without, which are dealt out in other chunks. What was in flight at the cut had waited until there.
    #[test]
    fn a_last_line_that_is_cut_is_no_record() {
        let line = |seconds: u32, rest: &str| format!("   fio 1 [001] {seconds}.000000: block:block_rq_{rest}\n");
        let stack = "\tffffffff81b047f9 blk_account_io_start+0x149 ([kernel.kallsyms])\n\n";
        let (issue, complete) = ("issue: 254,0 R 4096 () 8 + 8 [fio]", "complete: 254,0 R () 8 + 8 [0]");
        let before = [line(1, issue), line(2, complete), line(3, issue)];
        for (between, fields) in [("", FieldSet::ALWAYS), (stack, FieldSet::ALWAYS), (stack, FieldSet::EVERY)] {
            let last = line(4, complete);
            let text = before.iter().map(|record| format!("{record}{between}")).collect::<String>() + &last;
            for cut in 0..last.len() {
                let (input, mut events) = (Input::from_bytes("test", &text.as_bytes()[..text.len() - cut]).unwrap(), 0);
                let context = read(input, &ReadOptions::new(fields), &mut |_, batch| {
                    events += batch.len();
                    ControlFlow::Continue(())
                })
                .unwrap();
                let counts = [Anomaly::Truncated, Anomaly::UnparsedLines].map(|anomaly| context.tally.get(anomaly));
                let waits: Vec<Wait> = context.unfinished.iter().map(|request| request.wait).collect();
                let expected = if cut == 0 { (2, [0, 0], vec![]) } else { (1, [1, 0], vec![Wait::Counts]) };
                assert_eq!((events, counts, waits), expected, "{between} {cut}");
            }
        }
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
