//! Text of `perf script`, of every kernel since 3.x and with whatever columns `-F` chose.

mod line;
mod parallel;

use crate::block_pairs::BlockPairs;
use crate::input::Input;
use crate::syscall_pairs::{End, SyscallPairs, SyscallRecord};
use crate::{Detected, Error, Position, ReadOptions, Sink, block_pairs, syscall_pairs};
use latscope_event::kernel::Machine;
use latscope_event::{Anomaly, Batch, Clock, Context, FieldSet, LossRange, TimeLiteral, TraceStart};
use line::{CallName, Line};
use parallel::{CallRecord, Entry, Parsed};
use std::ops::ControlFlow;

/// The fields that perf script text can fill.
pub const FILLS: FieldSet = block_pairs::FILLS.union(syscall_pairs::FILLS);

/// A line with the anchor and an event makes it perf's.
pub fn detect(head: &[u8]) -> Detected {
    let mut lines = head.split(|&byte| byte == b'\n');
    let mut parser = line::LineParser::default();
    let understood =
        |line: &[u8]| matches!(parser.parse(line), Line::Block(_) | Line::Syscall(_) | Line::Other | Line::Lost { .. });
    if lines.any(understood) {
        return Detected::Yes;
    }
    // A long header (perf script --header) may fill the whole beginning.
    let is_header = head.starts_with(b"# ========\n# captured on");
    if is_header { Detected::Yes } else { Detected::No }
}

/// Reads the text; see the crate's `read`.
pub fn read(input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let (name, is_stream) = (input.name.clone(), input.is_stream());
    let mut reader = Reader {
        context: Context::new(format!("perf script, {name}"), Clock::unanchored("perf")),
        batch: Batch::new(options.fields.intersection(FILLS)),
        blocks: BlockPairs::default(),
        calls: SyscallPairs::new(Machine::default(), options.all_syscalls),
        all_syscalls: options.all_syscalls,
        anchored: Anchored::default(),
        last_ns: i64::MIN,
        order: Order::default(),
        records: 0,
    };
    let too_long = parallel::parse_in_order(input, |parsed| reader.take(parsed, is_stream, sink))?;
    reader.context.tally.add(Anomaly::UnparsedLines, too_long);
    reader.finish(&name, sink)
}

struct Reader {
    context: Context,
    batch: Batch,
    blocks: BlockPairs,
    calls: SyscallPairs,
    all_syscalls: bool,
    anchored: Anchored,
    last_ns: i64,
    order: Order,
    records: u64,
}

/// What the header gives about the clock.
#[derive(Default)]
struct Anchored {
    captured_unix_ns: Option<i64>,
    last_sample_ns: Option<i64>,
    /// Exact distance of the trace's clock to Unix time (`perf record -k`).
    shift_ns: i64,
}

/// Whether times ascend, as far as the beginning shows.
#[derive(Default)]
struct Order {
    looked_at: u32,
    backwards: u32,
}

impl Reader {
    fn take(&mut self, parsed: &mut Parsed, is_stream: bool, sink: &mut Sink) -> ControlFlow<()> {
        self.context.tally.add(Anomaly::UnparsedLines, parsed.unknown);
        self.context.tally.add(Anomaly::OtherRecords, parsed.other);
        let Parsed { entries, calls, is_sorted, .. } = parsed;
        self.watch_order(entries, calls);
        if !*is_sorted {
            // Text of a threads folder or of an old perf is nearly in order; records of one moment keep their order.
            entries.sort_by_key(|entry| entry.time(calls));
        }
        for entry in entries.iter_mut() {
            self.entry(entry, calls);
            if self.batch.is_full() {
                let go_on = sink(&self.context, &self.batch);
                self.batch.clear();
                go_on?;
            }
        }
        if is_stream && !self.batch.is_empty() {
            sink(&self.context, &self.batch)?;
            self.batch.clear();
        }
        ControlFlow::Continue(())
    }

    #[inline]
    fn entry(&mut self, entry: &mut Entry, calls: &[CallRecord]) {
        if let Some(time_ns) = entry.time(calls) {
            self.records += 1;
            if time_ns < self.last_ns {
                self.context.tally.add(Anomaly::OutOfOrder, 1);
            }
            self.last_ns = self.last_ns.max(time_ns);
        }
        let shift = self.anchored.shift_ns;
        match entry {
            Entry::Block(record) => {
                record.time_ns = record.time_ns.saturating_add(shift);
                self.blocks.push(record, &mut self.batch, &mut self.context);
            }
            Entry::Call(at) => {
                let Some(record) = calls.get(*at as usize) else { return };
                self.call(record, shift);
            }
            Entry::Lost(range) => {
                let (start_ns, end_ns) = (range.start_ns.saturating_add(shift), range.end_ns.saturating_add(shift));
                self.blocks.lost(LossRange { start_ns, end_ns, ..*range }, &mut self.context);
                self.calls.lost();
            }
            Entry::Header(key, value) => self.header(key, value),
        }
    }

    fn call(&mut self, record: &CallRecord, shift: i64) {
        let call = match record.name {
            Some(name) => self.calls.named(block_pairs::trimmed(&name)),
            None => self.calls.numbered(record.number),
        };
        let end = if record.enter { End::Enter(&record.values) } else { End::Exit(record.values[0] as i64) };
        let comm = block_pairs::trimmed(&record.comm);
        let time_ns = record.time_ns.saturating_add(shift);
        let record = SyscallRecord { time_ns, pid: record.pid, tid: record.tid, call, end, comm };
        self.calls.push(&record, &mut self.batch, &mut self.context);
    }

    fn header(&mut self, key: &str, value: &str) {
        match key {
            "hostname" => self.context.host = Some(value.into()),
            "arch" if self.records == 0 => {
                self.calls = SyscallPairs::new(Machine::from_arch(value), self.all_syscalls);
            }
            "captured on" => self.anchored.captured_unix_ns = captured_on(value),
            "time of last sample" => self.anchored.last_sample_ns = seconds(value),
            "clockid" => self.context.clock.name = value.split(' ').next().unwrap_or("perf").into(),
            "reference time" if self.records == 0 => {
                if let Some(shift_ns) = reference_time(value) {
                    self.anchored.shift_ns = shift_ns;
                    self.context.clock = Clock::wall();
                }
            }
            _ => {}
        }
        if let "os release" | "cmdline" | "perf version" | "arch" | "cpudesc" = key {
            self.context.properties.insert(key.replace(' ', "_"), value.chars().take(4096).collect());
        }
        if let (None, Some(captured), Some(last)) =
            (self.context.clock.to_unix_ns, self.anchored.captured_unix_ns, self.anchored.last_sample_ns)
        {
            // perf.data was closed about when the last sample was taken.
            self.context.clock.to_unix_ns = captured.checked_sub(last);
            self.context.clock.approximate = self.context.clock.to_unix_ns.is_some();
        }
    }

    /// `--deltatime` prints differences, from which nothing can be rebuilt when lines are missing.
    fn watch_order(&mut self, entries: &[Entry], calls: &[CallRecord]) {
        if self.order.looked_at > 0 {
            return;
        }
        let mut times = entries.iter().filter_map(|entry| entry.time(calls)).take(1000);
        let Some(mut last) = times.next() else { return };
        for time in times {
            self.order.looked_at += 1;
            self.order.backwards += u32::from(time < last);
            last = time;
        }
    }

    fn finish(mut self, name: &str, sink: &mut Sink) -> Result<Context, Error> {
        let fail = |message: &str| Err(Error::new(name, Position::File, message));
        if self.order.looked_at >= 20 && self.order.backwards * 4 > self.order.looked_at {
            return fail(
                "The times go back and forth, as with perf script --deltatime; print the text without that option.",
            );
        }
        if self.records == 0 {
            return fail(
                "The text has no block or system call events (text of ftrace and trace-cmd is not supported); \
                 record with perf record -e block:block_rq_issue -e block:block_rq_complete -a.",
            );
        }
        self.blocks.settle(&mut self.batch, &mut self.context);
        if !self.batch.is_empty() {
            let _ = sink(&self.context, &self.batch);
        }
        self.blocks.finish(&mut self.context);
        self.calls.finish(&mut self.context);
        Ok(self.context)
    }
}

/// `Sat Nov 21 01:10:17 2026`, the local time of the machine that ran perf script, taken as ours.
fn captured_on(text: &str) -> Option<i64> {
    let mut words = text.split_whitespace().skip(1);
    let (month, day, time, year) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|&name| name == month)? + 1;
    let literal = TimeLiteral::parse(&format!("{year}-{month:02}-{day:0>2}T{time}")).ok()?;
    literal.resolve(TraceStart { start_ns: None, to_unix_ns: Some(0) }).ok()
}

fn seconds(text: &str) -> Option<i64> {
    i64::try_from(latscope_event::parse_duration(&format!("{}s", text.trim())).ok()?).ok()
}

/// `2026-11-21 01:10:17.123456 = 1795223417.123456 (TOD) = 1217.943839667 (monotonic)`: how far Unix time is ahead.
fn reference_time(text: &str) -> Option<i64> {
    let mut parts = text.split('=').skip(1).map(|part| seconds(part.split('(').next()?));
    parts.next()??.checked_sub(parts.next()??)
}

fn owned(line: &line::SyscallLine) -> CallRecord {
    let (number, name) = match line.call {
        CallName::Number(number) => (number, None),
        CallName::Name(name) => (0, Some(block_pairs::padded(name))),
    };
    CallRecord {
        time_ns: line.time_ns,
        pid: line.who.pid,
        tid: line.who.tid,
        enter: line.enter,
        number,
        name,
        values: line.values,
        comm: block_pairs::padded(line.who.comm),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_of_headers() {
        assert_eq!(
            reference_time("2026-11-21 01:10:17.123456 = 1795223417.123456 (TOD) = 1217.943839667 (monotonic)"),
            Some(1_795_223_417_123_456_000 - 1_217_943_839_667)
        );
        assert_eq!(reference_time("nonsense"), None);
        assert!(captured_on("Sat Nov 21 01:10:17 2026").is_some());
        assert_eq!(captured_on("yesterday"), None);
    }

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
