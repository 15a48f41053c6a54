//! Folded stacks, a line for each: frames from the root with semicolons between, a blank, and how many samples there were.
//!
//! ```text
//! app;main;read_all;pread;-;vfs_read;io_schedule 12
//! ```
//!
//! A frame `-` stands where user code ends and the kernel starts, `--` where the stack of another thread does. Files of
//! `difffolded` have two counts; they are a format of their own, as nothing distinguishes them from names that end in a number.

use crate::input::Input;
use crate::stack_rows::{self, Sample, StackRows, push_text_frame};
use crate::text_rows::{NO_END, Piece, each_line, is_unended};
use crate::{Detected, Error, ReadOptions, Sink};
use latscope_event::{Context, Field, FieldSet, FrameKind, Note, push_frame};
use std::ops::ControlFlow;

/// The fields of a folded stack; the counts of a comparison have a tag.
pub const FILLS: FieldSet = stack_rows::FILLS.with(&[Field::Tags]);

const NO_COUNT: &str = "no count behind the stack";
const NO_TEXT: &str = "text that is not UTF-8";
/// The tags of the two counts of a comparison.
const SIDES: [&str; 2] = ["side=first", "side=second"];

/// The endings of names under which such files are known.
const ENDINGS: [&str; 2] = [".folded", ".collapsed"];

/// Whether it is one, by its content; where its name says so, too, stacks may have one frame.
pub fn detect(input: &Input) -> Detected {
    let name = input.name.strip_suffix(".gz").or(input.name.strip_suffix(".zst")).unwrap_or(&input.name);
    detect_head(input.head(), ENDINGS.iter().any(|ending| name.ends_with(ending)))
}

/// Lines of stacks and counts, of which one has more than a frame.
fn detect_head(head: &[u8], is_named: bool) -> Detected {
    let mut lines = head.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    // The last line of the head may be cut.
    let whole = lines.clone().count().saturating_sub(usize::from(!head.ends_with(b"\n"))).clamp(1, 100);
    let (mut rows, mut others, mut has_frames) = (0, 0, false);
    for line in lines.by_ref().take(whole) {
        match counted(line) {
            Some((stack, _)) if stack.iter().any(u8::is_ascii_alphabetic) => {
                rows += 1;
                has_frames |= stack.contains(&b';');
            }
            _ => others += 1,
        }
    }
    // A malformed line makes a short file no other format, unless it is half of it.
    let are_few = rows >= 9 * others || others == 1 && (rows > 1 || is_named);
    if (has_frames || is_named && rows > 0) && are_few { Detected::Yes } else { Detected::No }
}

/// The number behind a stack, which `stackcollapse` scripts may write with decimals.
#[derive(Clone, Copy)]
struct Count {
    whole: u64,
    billionths: u64,
}

impl Count {
    fn parse(text: &str) -> Option<Count> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let is_number = !whole.is_empty() && whole.bytes().chain(decimals.bytes()).all(|byte| byte.is_ascii_digit());
        let billionths = format!("{:0<9}", &decimals.get(..decimals.len().min(9))?).parse().ok()?;
        // Counts are signed numbers elsewhere.
        let whole = whole.parse().ok().filter(|&whole| is_number && whole < i64::MAX as u64)?;
        Some(Count { whole, billionths })
    }

    /// So many units, to the next whole number.
    fn times(self, unit: u64) -> u64 {
        let all = u128::from(self.whole) * 1_000_000_000 + u128::from(self.billionths);
        let rounded = (all * u128::from(unit) + 500_000_000) / 1_000_000_000;
        rounded.min(i64::MAX as u128) as u64
    }
}

/// A stack and the number behind it.
fn counted(line: &[u8]) -> Option<(&[u8], Count)> {
    let line = line.trim_ascii();
    let blank = line.iter().rposition(|byte| matches!(byte, b' ' | b'\t'))?;
    let (stack, count) = (line[..blank].trim_ascii_end(), std::str::from_utf8(&line[blank + 1..]).ok()?);
    Some((stack, Count::parse(count)?)).filter(|_| !stack.is_empty())
}

/// Whether all names end in a number, by those of the beginning.
fn have_numbers(head: &[u8]) -> bool {
    let lines = head.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n")).take(100);
    let mut of_two = lines.filter_map(counted).map(|(stack, _)| counted(stack).is_some()).peekable();
    of_two.peek().is_some() && of_two.all(|has_two| has_two)
}

/// Writes the stack as all others are written: without the frames that only separate, and with marks at those of the kernel.
fn normalize(text: &str, stack: &mut String) {
    stack.clear();
    let mut is_kernel = false;
    for frame in text.split(';').filter(|frame| !frame.is_empty()) {
        match frame {
            "-" => is_kernel = !is_kernel,
            "--" => push_frame(stack, frame, FrameKind::User),
            frame => push_text_frame(stack, frame, is_kernel),
        }
    }
}

/// Reads the file; see the crate's `read`.
pub fn read(input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    read_counts(input, options, sink, false)
}

/// Reads a file of `difffolded`, with two counts behind each stack.
pub fn read_difference(input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    read_counts(input, options, sink, true)
}

fn read_counts(input: Input, options: &ReadOptions, sink: &mut Sink, has_two: bool) -> Result<Context, Error> {
    let name = input.name.clone();
    let mut rows = StackRows::new("folded stacks", &name, FILLS, options, sink);
    if !has_two && have_numbers(input.head()) {
        rows.rows.context.note(Note::NumbersInNames);
    }
    let mut stack = String::new();
    each_line(input, |piece| {
        let Piece::Line(number, line) = piece else { return Ok(rows.rows.hand_on()) };
        let parse = || {
            // The count is at the end: it may have been cut.
            if is_unended(number, line) {
                return Err(NO_END);
            }
            let (text, last) = counted(line?).ok_or(NO_COUNT)?;
            let (text, first) = if has_two { counted(text).ok_or(NO_COUNT)? } else { (text, last) };
            let unit = options.two_columns.latency_unit_ns.unwrap_or(1);
            let (first, last) = (if has_two { first.times(unit) } else { 0 }, last.times(unit));
            Ok((std::str::from_utf8(text).map_err(|_| NO_TEXT)?, [first, last]))
        };
        let (text, counts) = match parse() {
            Ok(row) => row,
            Err(why) => {
                rows.rows.add_malformed(number, line, why);
                return Ok(ControlFlow::Continue(()));
            }
        };
        normalize(text, &mut stack);
        for (side, count) in SIDES.into_iter().zip(counts).filter(|&(_, count)| count > 0) {
            let sample = Sample { stack: &stack, tags: if has_two { side } else { "" }, ..Sample::default() };
            // A file of times: `--unitslat` is their unit.
            let sample = match options.two_columns.latency_unit_ns {
                Some(_) => Sample { count: 1, latency_ns: count, ..sample },
                None => Sample { count, ..sample },
            };
            if rows.add(&sample).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    rows.finish(&name, "No stack with a count found.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_event::Anomaly;

    fn rows_of(text: &str) -> (Vec<(String, i64, Option<String>)>, Context) {
        rows_by(read, text)
    }

    fn rows_by(read: crate::formats::Events, text: &str) -> (Vec<(String, i64, Option<String>)>, Context) {
        let input = Input::from_bytes("test", text.as_bytes()).unwrap();
        let mut rows = Vec::new();
        let context = read(input, &ReadOptions::new(FieldSet::EVERY), &mut |_, batch| {
            for row in 0..batch.len() {
                let count = batch.i64s(Field::SampleWeight).unwrap()[row].max(1);
                let text = |field| batch.text(field, row).map(str::to_string);
                rows.push((text(Field::Stack).unwrap(), count, text(Field::Tags)));
            }
            ControlFlow::Continue(())
        });
        (rows, context.unwrap())
    }

    #[test]
    fn separators_become_marks_of_the_kernel() {
        let (rows, context) = rows_of("a;b;-;k;c_[k] 3\na b;x_[j] 1.6\nt;-;k;--;w;-;u 2\n\nbad\n");
        assert_eq!(
            rows,
            [
                ("a;b;k_[k];c_[k]".to_string(), 3, None),
                ("a b;x_[j]".to_string(), 2, None),
                ("t;k_[k];--;w_[k];u".to_string(), 2, None)
            ]
        );
        assert_eq!(context.tally.get(Anomaly::UnparsedLines), 1);
    }

    #[test]
    fn a_count_that_is_cut_is_none() {
        let (rows, context) = rows_of("a;b 3\na;c 12");
        let counts = [Anomaly::Truncated, Anomaly::UnparsedLines].map(|anomaly| context.tally.get(anomaly));
        assert_eq!((rows.len(), counts), (1, [1, 0]));
    }

    #[test]
    fn two_counts_are_the_sides_of_a_comparison() {
        let (rows, _) = rows_by(read_difference, "a;b 0 145\na;c 146 1\n");
        let side = |stack: &str, count, side: &str| (stack.to_string(), count, Some(side.to_string()));
        assert_eq!(
            rows,
            [side("a;b", 145, "side=second"), side("a;c", 146, "side=first"), side("a;c", 1, "side=second")]
        );
    }

    #[test]
    fn names_may_end_in_a_number() {
        let (rows, context) = rows_of("main;worker 1 30\nmain;worker 2 10\n");
        assert_eq!(rows, [("main;worker 1".to_string(), 30, None), ("main;worker 2".to_string(), 10, None)]);
        assert!(context.notes.contains(&Note::NumbersInNames));
        assert!(!rows_of("main;worker 1 30\nmain;log 10\n").1.notes.contains(&Note::NumbersInNames));
    }

    #[test]
    fn decimals_of_times_are_kept() {
        let times = |text: &str, unit| {
            let mut options = ReadOptions::new(FieldSet::EVERY);
            options.two_columns.latency_unit_ns = Some(unit);
            let mut times = Vec::new();
            read(Input::from_bytes("test", text.as_bytes()).unwrap(), &options, &mut |_, batch| {
                times.extend_from_slice(batch.latency());
                ControlFlow::Continue(())
            })
            .unwrap();
            times
        };
        assert_eq!(times("a;b 1.4\nc;d 0.2\ne;f 3\n", 1_000_000), [1_400_000, 200_000, 3_000_000]);
        assert_eq!(times("a;b 1.4999\nc;d 0.5\n", 1), [1, 1]);
        assert_eq!(times("a;b 9223372036854775806\n", 1_000_000), [i64::MAX as u64]);
    }

    #[test]
    fn detection() {
        for (text, expect) in [
            ("a;b 1\n", Detected::Yes),
            ("idle 3\nmain;f(int, char) 1\n", Detected::Yes),
            ("idle 3\n", Detected::No),
            ("1;2 3\n", Detected::No),
            ("1.5 2.5\n", Detected::No),
            ("text; more text\n", Detected::No),
        ] {
            assert_eq!(detect_head(text.as_bytes(), false), expect, "{text}");
        }
        assert_eq!(detect(&Input::from_bytes("x.folded.gz", b"idle 3\n").unwrap()), Detected::Yes);
        assert_eq!(detect(&Input::from_bytes("x.folded", b"text\n").unwrap()), Detected::No);
        // A first line that is longer than what a format is known by.
        let long = format!("main;{} 3\nmain;b 2\n", "x".repeat(100_000));
        let found = crate::detect::detect(&mut Input::from_bytes("test", long.as_bytes()).unwrap());
        assert_eq!(found.unwrap(), crate::Format::Folded);
    }
}
