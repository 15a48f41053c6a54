//! From lines of text to events, for perf and for ftrace, whose texts hold the same records in other columns.

use super::line::LineSource;
use super::parallel::{self, CallRecord, Entry, NO_TIME, Parsed, Wanted};
use crate::block_actions::{ActionRecord, BlockActions};
use crate::block_pairs::{self, BlockPairs, Record};
use crate::input::Input;
use crate::perf_sample::SampleRecord;
use crate::syscall_pairs::{End, SyscallPairs, SyscallRecord};
use crate::{Error, Position, ReadOptions, Sink};
use latscope_event::kernel::Machine;
use latscope_event::{Anomaly, Batch, Clock, Context, Field, LossRange, MISSING_CODE, TimeLiteral, TraceStart};
use std::ops::ControlFlow;

/// The description of a tool's text.
pub struct Source {
    /// Its name, for titles.
    pub tool: &'static str,
    /// The name of its clock.
    pub clock: &'static str,
    /// A sentence for text without events.
    pub nothing: &'static str,
    /// Whether the call stacks of records stand below them.
    pub has_stacks: bool,
    /// Whether samples are its events, as there are no pairs.
    pub has_samples: bool,
}

/// Reads the text of a tool.
pub fn read<P: LineSource + Send>(
    input: Input,
    source: &Source,
    options: &ReadOptions,
    sink: &mut Sink,
) -> Result<Context, Error> {
    let (name, is_stream) = (input.name.clone(), input.is_stream());
    let mut reader = Reader {
        context: Context::new(format!("{}, {name}", source.tool), Clock::unanchored(source.clock)),
        batch: Batch::new(options.fields.intersection(super::FILLS)),
        blocks: BlockPairs::default(),
        actions: BlockActions::new(options.each_request_once),
        has_actions: None,
        calls: SyscallPairs::new(Machine::default(), options.all_syscalls),
        all_syscalls: options.all_syscalls,
        anchored: Anchored::default(),
        last_ns: i64::MIN,
        other_ns: None,
        order: Order::default(),
        records: 0,
        stacks: Vec::new(),
    };
    let fields = reader.batch.fields();
    let wanted = Wanted {
        stacks: source.has_stacks && [Field::Stack, Field::StackSource].iter().any(|&field| fields.contains(field)),
        samples: source.has_samples,
    };
    let unread = parallel::parse_in_order::<P>(input, wanted, |parsed| reader.take(parsed, is_stream, sink))?;
    reader.context.tally.add(Anomaly::UnparsedLines, unread.too_long);
    let mut context = reader.finish(&name, source, sink)?;
    // Text is in the order of time, so this does not change what has waited until its end.
    context.tally.add(Anomaly::Truncated, u64::from(unread.is_cut));
    Ok(context)
}

struct Reader {
    context: Context,
    batch: Batch,
    blocks: BlockPairs,
    actions: BlockActions,
    /// Whether requests are those of the blk tracer; where it runs beside the block events, they are the same ones.
    has_actions: Option<bool>,
    calls: SyscallPairs,
    all_syscalls: bool,
    anchored: Anchored,
    last_ns: i64,
    /// When the last record was that is of no interest.
    other_ns: Option<i64>,
    order: Order,
    records: u64,
    /// The codes of the stacks of the lines that were parsed last.
    stacks: Vec<u32>,
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
    fn take<P: LineSource>(&mut self, parsed: &mut Parsed<P>, is_stream: bool, sink: &mut Sink) -> ControlFlow<()> {
        self.context.tally.add(Anomaly::UnparsedLines, parsed.unknown);
        self.context.tally.add(Anomaly::OtherRecords, parsed.other);
        self.other_ns = self.other_ns.max(parsed.other_ns);
        self.watch_order(parsed);
        self.stacks.clear();
        for stack in &parsed.stacks {
            self.stacks.push(self.batch.intern(Field::Stack, stack.as_bytes()));
        }
        if !parsed.is_sorted {
            // Text of a threads folder or of an old perf is nearly in order.
            parsed.sort();
        }
        for at in 0..parsed.entries.len() {
            self.entry(&parsed.entries[at], parsed);
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
    fn entry<P: LineSource>(&mut self, entry: &Entry, parsed: &Parsed<P>) {
        if let Some(time_ns) = parsed.time(entry) {
            self.records += 1;
            if time_ns < self.last_ns {
                self.context.tally.add(Anomaly::OutOfOrder, 1);
            }
            self.last_ns = self.last_ns.max(time_ns);
        }
        let shift = self.anchored.shift_ns;
        match entry {
            Entry::Block(record) if !*self.has_actions.get_or_insert(false) => {
                let stack = self.stack(record.stack);
                let record = Record { time_ns: record.time_ns.saturating_add(shift), stack, ..*record };
                self.blocks.push(&record, &mut self.batch, &mut self.context);
            }
            Entry::Action(at) if *self.has_actions.get_or_insert(true) => {
                let Some((record, comm)) = parsed.actions.get(*at as usize) else { return };
                let record = ActionRecord { time_ns: record.time_ns.saturating_add(shift), ..*record };
                self.actions.add(&record, *comm, &mut self.batch, &mut self.context);
            }
            Entry::Block(_) | Entry::Action(_) => self.context.tally.add(Anomaly::OtherRecords, 1),
            Entry::Call(at) => {
                let Some(record) = parsed.calls.get(*at as usize) else { return };
                self.call(record, shift);
            }
            Entry::Sample(at) => {
                let Some(record) = parsed.samples.get(*at as usize) else { return };
                let (time_ns, stack) = (record.time_ns.saturating_add(shift), self.stack(record.stack));
                SampleRecord { time_ns, stack, ..*record }.push(&mut self.batch, &mut self.context);
            }
            Entry::Lost(range) => {
                let mut range = *range;
                if range.end_ns == NO_TIME {
                    // Where the line stands is when it was.
                    if self.last_ns == i64::MIN {
                        return self.context.tally.add(Anomaly::LostRecords, range.records);
                    }
                    (range.start_ns, range.end_ns) = (self.last_ns, self.last_ns);
                }
                let (start_ns, end_ns) = (range.start_ns.saturating_add(shift), range.end_ns.saturating_add(shift));
                let range = LossRange { start_ns, end_ns, ..range };
                match self.has_actions {
                    Some(true) => self.actions.lose(range, &mut self.context),
                    _ => self.blocks.lost(range, &mut self.context),
                }
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
        let record = SyscallRecord {
            time_ns,
            pid: record.pid,
            tid: record.tid,
            call,
            end,
            comm,
            stack: self.stack(record.stack),
        };
        self.calls.push(&record, &mut self.batch, &mut self.context);
    }

    /// The code of a stack by its place among those of the parsed lines.
    fn stack(&self, place: u32) -> u32 {
        self.stacks.get(place as usize).copied().unwrap_or(MISSING_CODE)
    }

    fn header(&mut self, key: &str, value: &str) {
        match key {
            "hostname" => self.context.host = Some(value.into()),
            "arch" if self.records == 0 => {
                self.calls = SyscallPairs::new(Machine::from_arch(value), self.all_syscalls);
            }
            // Of a ring buffer that was full, the oldest are gone.
            "entries-in-buffer/entries-written" => {
                let counts = value.split_whitespace().next().and_then(|counts| counts.split_once('/'));
                let counts = counts.and_then(|(kept, all)| Some((kept.parse::<u64>().ok()?, all.parse::<u64>().ok()?)));
                let gone = counts.map_or(0, |(kept, all)| all.saturating_sub(kept));
                self.context.tally.add(Anomaly::LostRecords, gone);
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
    fn watch_order<P: LineSource>(&mut self, parsed: &Parsed<P>) {
        if self.order.looked_at > 0 {
            return;
        }
        let mut times = parsed.entries.iter().filter_map(|entry| parsed.time(entry)).take(1000);
        let Some(mut last) = times.next() else { return };
        for time in times {
            self.order.looked_at += 1;
            self.order.backwards += u32::from(time < last);
            last = time;
        }
    }

    fn finish(mut self, name: &str, source: &Source, sink: &mut Sink) -> Result<Context, Error> {
        let fail = |message: &str| Err(Error::new(name, Position::File, message));
        if self.order.looked_at >= 20 && self.order.backwards * 4 > self.order.looked_at {
            return fail(
                "The times go back and forth, as with perf script --deltatime; print the text without that option.",
            );
        }
        if self.records == 0 {
            return fail(source.nothing);
        }
        self.blocks.settle(&mut self.batch, &mut self.context);
        self.actions.settle(&mut self.batch, &mut self.context);
        if !self.batch.is_empty() {
            let _ = sink(&self.context, &self.batch);
        }
        // The trace goes on to its last record, of interest or not: what waits then has waited until there.
        if let (Some(other_ns), Some(_)) = (self.other_ns, self.context.span_ns) {
            self.context.cover(other_ns.saturating_add(self.anchored.shift_ns));
        }
        match self.has_actions {
            Some(true) => self.actions.finish(&mut self.context),
            _ => self.blocks.finish(&mut self.context),
        }
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
}
