//! What ioping prints, of versions 0.6 to 1.3: a line for each request, raw lines (`-p`, `-P`, `-B`), or JSON.
//!
//! Only JSON has the time of a request. Of ten raw columns the last is the time since the line before, so their sum is a
//! time axis with an arbitrary zero; otherwise requests are put one behind the other.

mod json;
mod rows;

use crate::input::Input;
use crate::text_rows::is_unended;
use crate::{Detected, Error, Position, ReadOptions, Sink};
use latscope_event::{Anomaly, Batch, Clock, Context, Field, FieldSet};
use rows::{Raw, Request};
use std::ops::ControlFlow;

/// The fields of a request.
pub const FILLS: FieldSet =
    FieldSet::ALWAYS.with(&[Field::Kind, Field::Size, Field::Offset, Field::Device, Field::Path, Field::Error]);

/// Lines that are looked at to know the format.
const LOOKED_AT: usize = 20;

/// The whole lines of a head.
fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let whole = memchr::memrchr(b'\n', head).map_or(head, |end| &head[..end]);
    whole.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty())
}

/// JSON with ioping's keys, a request line among the first lines, or raw lines only.
pub fn detect(head: &[u8]) -> Detected {
    if json::is_it(head) {
        return Detected::Yes;
    }
    let mut first = lines(head).take(LOOKED_AT).peekable();
    if first.peek().is_none() {
        return Detected::No;
    }
    let (mut requests, mut raws, mut others) = (0, 0, 0);
    for line in first {
        match (Request::parse(line), Raw::parse(line)) {
            (Some(_), _) => requests += 1,
            (_, Some(_)) => raws += 1,
            _ => others += 1,
        }
    }
    if requests > 0 || raws > 0 && others == 0 { Detected::Yes } else { Detected::No }
}

/// Reads the file; see the crate's `read`.
pub fn read(input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let (file, is_json) = (input.name.clone(), json::is_it(input.head()));
    let clock = if is_json { Clock::wall() } else { Clock::unanchored("relative") };
    let context = Context::new(format!("ioping, {file}"), clock);
    let batch = Batch::new(options.fields.intersection(FILLS));
    let mut events = Events { context, batch, now_ns: 0, rows: 0, sink, go_on: ControlFlow::Continue(()) };
    let first_bad = if is_json { json::read(input, &mut events)? } else { read_lines(input, &mut events)? };
    if events.rows == 0 && events.context.tally.get(Anomaly::LeftOut) == 0 {
        let place = first_bad.map_or(Position::File, Position::Line);
        return Err(Error::new(file, place, "No request of ioping found."));
    }
    events.hand_on();
    Ok(events.context)
}

/// Text and raw lines. Returns the number of the first line that was not understood.
fn read_lines(input: Input, events: &mut Events) -> Result<Option<u64>, Error> {
    let is_stream = input.is_stream();
    let (mut lines, mut chunk) = (input.lines(), Vec::new());
    let (mut number, mut first_bad, mut texts) = (0u64, None, false);
    let mut raws = Totals::default();
    while events.go_on.is_continue() && lines.next(&mut chunk).map_err(|error| lines.input.error(&error))? {
        for line in chunk.split_inclusive(|&byte| byte == b'\n') {
            number += 1;
            let is_cut = is_unended(number, Ok(line));
            let line = line.trim_ascii();
            // A number that was cut would be another one; before the statistics all requests were printed.
            if is_cut && !rows::is_summary(line) {
                events.context.tally.add(Anomaly::Truncated, 1);
                first_bad = first_bad.or(Some(number));
            } else if let Some(request) = Request::parse(line) {
                texts = true;
                events.request(&request);
            } else if let Some(raw) = Raw::parse(line) {
                // Beside the requests themselves, a raw line is a second account of them.
                if !texts && let Some(raw) = raws.next(raw, Raw::total) {
                    events.raw(&raw);
                }
            } else if !rows::is_summary(line) {
                events.context.tally.add(Anomaly::UnparsedLines, 1);
                first_bad = first_bad.or(Some(number));
            }
        }
        if is_stream {
            events.hand_on();
        }
    }
    if let Some(raw) = raws.last.take().filter(|last| !raws.is_total(last.total())) {
        events.raw(&raw);
    }
    events.context.tally.add(Anomaly::UnparsedLines, lines.too_long);
    Ok(first_bad)
}

/// With `-p` and `-B` the last line adds up those before it, and what came after the last of them: lines are held back
/// until the next has come.
struct Totals<T> {
    last: Option<T>,
    before: Option<Sum>,
}

/// What a line sums up.
#[derive(Clone, Copy)]
struct Sum {
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

impl<T> Default for Totals<T> {
    fn default() -> Totals<T> {
        Totals { last: None, before: None }
    }
}

impl<T> Totals<T> {
    /// The line before this one.
    fn next(&mut self, line: T, of: impl Fn(&T) -> Sum) -> Option<T> {
        let before = self.last.replace(line)?;
        let more = of(&before);
        self.before = Some(self.before.map_or(more, |all| Sum {
            count: all.count.saturating_add(more.count),
            sum: all.sum.saturating_add(more.sum),
            min: all.min.min(more.min),
            max: all.max.max(more.max),
        }));
        Some(before)
    }

    /// Whether this, the last line, adds up the others. Windows of `-p` all have one count, so none exceeds the others
    /// together; what is as many is their total only if it took exactly as long.
    fn is_total(&self, last: Sum) -> bool {
        let Some(before) = self.before.filter(|_| last.count > 0) else { return false };
        let holds = last.sum >= before.sum && last.min <= before.min && last.max >= before.max;
        (last.count, last.sum) == (before.count, before.sum) || last.count > before.count && holds
    }
}

/// Events in the making.
struct Events<'a, 'b> {
    context: Context,
    batch: Batch,
    /// Where the next request without a time of its own starts.
    now_ns: i64,
    rows: u64,
    sink: &'a mut Sink<'b>,
    go_on: ControlFlow<()>,
}

/// What is known of an event beside its time.
#[derive(Default)]
struct Known<'a> {
    kind: Option<&'static str>,
    size: Option<u64>,
    offset: Option<u64>,
    device: Option<&'a [u8]>,
    path: Option<&'a [u8]>,
    error: Option<&'a [u8]>,
}

impl Events<'_, '_> {
    /// A line of text.
    fn request(&mut self, request: &Request) {
        if request.is_left_out() {
            self.left_out();
            return;
        }
        let known = Known {
            kind: Some(if request.write { "write" } else { "read" }),
            size: Some(request.size),
            device: Some(request.device).filter(|device| !device.is_empty()),
            path: Some(request.path),
            error: request.error,
            offset: None,
        };
        self.event(self.now_ns, request.latency_ns, &known);
        self.now_ns = self.now_ns.saturating_add_unsigned(request.latency_ns);
    }

    /// A raw line.
    fn raw(&mut self, raw: &Raw) {
        if raw.count == 0 {
            self.now_ns = self.now_ns.saturating_add_unsigned(raw.wall_ns.unwrap_or(0));
            return;
        }
        let end_ns = self.now_ns.saturating_add_unsigned(raw.wall_ns.unwrap_or(raw.sum_ns()));
        if raw.is_window() {
            self.context.tally.add(Anomaly::WindowedRows, 1);
        }
        let known = Known { size: raw.size(), ..Known::default() };
        self.event(end_ns.saturating_sub_unsigned(raw.latency_ns()), raw.latency_ns(), &known);
        self.now_ns = end_ns;
    }

    fn left_out(&mut self) {
        self.context.tally.add(Anomaly::LeftOut, 1);
    }

    fn event(&mut self, start_ns: i64, latency_ns: u64, known: &Known) {
        let Some(end_ns) = start_ns.checked_add_unsigned(latency_ns).filter(|_| start_ns > i64::MIN) else {
            self.context.tally.add(Anomaly::UnparsedLines, 1);
            return;
        };
        self.rows += 1;
        self.context.cover(start_ns);
        self.context.cover(end_ns);
        let batch = &mut self.batch;
        batch.push_i64(Field::Time, start_ns);
        batch.push_u64(Field::Latency, latency_ns);
        known.size.into_iter().for_each(|size| batch.push_u64(Field::Size, size));
        known.offset.into_iter().for_each(|offset| batch.push_u64(Field::Offset, offset));
        batch.push_text(Field::Kind, known.kind.map(str::as_bytes));
        batch.push_text(Field::Device, known.device);
        batch.push_text(Field::Path, known.path);
        batch.push_text(Field::Error, known.error);
        batch.end_row();
        if batch.is_full() {
            self.hand_on();
        }
    }

    /// Hands on the events that there are.
    fn hand_on(&mut self) {
        if self.go_on.is_continue() && !self.batch.is_empty() {
            self.go_on = (self.sink)(&self.context, &self.batch);
        }
        self.batch.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests, and how often the file ended in the middle of one; nothing else is counted.
    fn read_of(text: &str) -> (u64, u64) {
        let (input, mut requests) = (Input::from_bytes("test", text.as_bytes()).unwrap(), 0);
        let context = read(input, &ReadOptions::new(FieldSet::EVERY), &mut |_, batch| {
            requests += batch.len() as u64;
            ControlFlow::Continue(())
        });
        let tally = context.unwrap().tally;
        assert_eq!(tally.get(Anomaly::UnparsedLines), 0, "{text}");
        (requests, tally.get(Anomaly::Truncated))
    }

    #[test]
    fn a_last_line_that_is_cut_is_no_request() {
        let line = |number: u32| format!("4 KiB <<< . (ext4 /dev/vda 252.0 GiB): request={number} time=198.4 us\n");
        let raw = |ns: u64| {
            let per_s = 1_000_000_000 / ns;
            format!("1 {ns} {per_s} {} {ns} {ns} {ns} 0 2 10412785\n", 4096 * per_s)
        };
        for (before, last) in [(line(1) + &line(2), line(3)), (raw(374_622) + &raw(300_000), raw(250_000))] {
            let text = before + &last;
            assert_eq!(read_of(&text), (3, 0));
            for cut in 1..last.len() {
                assert_eq!(read_of(&text[..text.len() - cut]), (2, 1), "{cut}");
            }
        }
    }

    #[test]
    fn who_prints_statistics_has_printed_all_requests() {
        let line = "4 KiB <<< . (ext4 /dev/vda 252.0 GiB): request=1 time=198.4 us\n";
        let statistics = "\n--- . (ext4 /dev/vda 252.0 GiB) ioping statistics ---\n1 requests completed in 198.4 us";
        assert_eq!(read_of(&format!("{line}{statistics}")), (1, 0));
    }
}
