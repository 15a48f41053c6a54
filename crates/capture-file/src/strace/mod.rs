//! Text of strace with the options for times: an event for each call that has a duration (`-T`) and a time (`-ttt`, `-tt`,
//! `-t` or `-r`).

mod line;
mod table;
mod threads;

use crate::call_rows::{self, CallRows, Caller};
use crate::input::Input;
use crate::text_rows::{NO_END, Piece, each_line, is_unended};
use crate::{Detected, Error, Position, ReadOptions, Sink};
use latscope_event::{Anomaly, Clock, Context, FieldSet};
use line::{Line, Stamp, What};
use std::ops::ControlFlow;
use table::Tables;
pub use threads::{is_of_thread, with_files_of_threads};

/// The fields that a call fills.
pub const FILLS: FieldSet = call_rows::FILLS;

/// How to record what can be read.
const RECORD: &str = "record with strace -f -ttt -T -y -o FILE";
/// Lines that are looked at to know the format.
const LOOKED_AT: usize = 30;
/// After so many calls without a duration, or without a time, no other will have one.
const GIVES_UP: u64 = 10_000;
/// How lines of stack traces start.
const STACK: &[u8] = b" > ";
const NS_PER_DAY: i64 = 86_400_000_000_000;

/// Not blank, nor a line of a stack trace (`-k`), which is about the call before.
fn is_looked_at(line: &[u8]) -> bool {
    !line.trim_ascii().is_empty() && !line.starts_with(STACK)
}

/// Nearly all lines are strace's, one of them a call.
pub fn detect(head: &[u8]) -> Detected {
    let whole = memchr::memrchr(b'\n', head).map_or(head, |end| &head[..end]);
    let (mut calls, mut others, mut strangers, mut tables) = (0, 0, 0, Tables::default());
    // Of -c there is nothing else.
    if whole.split(|&byte| byte == b'\n').find(|line| is_looked_at(line)).is_some_and(table::is_heading) {
        return Detected::Yes;
    }
    for line in whole.split(|&byte| byte == b'\n').filter(|line| is_looked_at(line)).take(LOOKED_AT) {
        match Line::parse(line).map(|line| line.what) {
            Some(What::Other | What::Ended) => others += 1,
            Some(_) => calls += 1,
            None => strangers += usize::from(!tables.has(line)),
        }
    }
    match (calls, others) {
        (0, 0) => Detected::No,
        (0, _) if strangers == 0 => Detected::NeedMore,
        _ if calls > 0 && strangers * 10 <= calls => Detected::Yes,
        _ => Detected::No,
    }
}

/// Reads the text; see the crate's `read`.
pub fn read(input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let name = input.name.clone();
    // -ff writes a file for each thread, FILE.TID, whose lines do not name it.
    let thread = input.path.as_deref().and_then(threads::thread_of);
    let context = Context::new(format!("strace, {name}"), Clock::unanchored("relative"));
    let mut reader = Reader {
        calls: CallRows::new(context, options.fields, options.all_syscalls, sink),
        thread,
        now_ns: 0,
        has_clock: false,
        timeless: 0,
        pending: None,
        others: 0,
        tables: Tables::default(),
        has_table: false,
    };
    each_line(input, |piece| match piece {
        Piece::Pause => Ok(reader.calls.rows.hand_on()),
        Piece::Line(number, line) => reader.line(&name, number, line),
    })?;
    reader.finish(&name)
}

struct Reader<'a, 'b> {
    calls: CallRows<'a, 'b>,
    /// The thread of lines that do not name one.
    thread: Option<i32>,
    /// The time of the last line, on the trace's clock.
    now_ns: i64,
    has_clock: bool,
    /// Calls without a time.
    timeless: u64,
    /// The thread of the line before, if it was the start of a call.
    pending: Option<Option<i32>>,
    /// Lines that are no calls with a latency.
    others: u64,
    tables: Tables,
    has_table: bool,
}

impl Reader<'_, '_> {
    fn line(&mut self, file: &str, number: u64, line: Result<&[u8], &'static str>) -> Result<ControlFlow<()>, Error> {
        // Duration and result are at the end: they may have been cut.
        if is_unended(number, line) {
            self.calls.rows.add_malformed(number, line, NO_END);
            return Ok(ControlFlow::Continue(()));
        }
        let text = line.unwrap_or_default();
        let Some(line) = Line::parse(text) else {
            if self.tables.has(text) {
                self.has_table = true;
                return Ok(ControlFlow::Continue(()));
            }
            let pending = self.pending.take();
            if let Some(tid) = pending.filter(|_| line.is_ok()) {
                // With -z and -e status= a call that another thread did not interrupt goes on without columns.
                let (rest, latency_ns) = line::split_latency(text.trim_ascii_end());
                return Ok(self.calls.continued(tid, rest, latency_ns));
            }
            if !text.starts_with(STACK) {
                self.calls.rows.add_malformed(number, line, "no call of strace");
            }
            return Ok(ControlFlow::Continue(()));
        };
        self.tables.leave();
        let tid = line.tid.or(self.thread);
        self.pending = matches!(line.what, What::Unfinished(_)).then_some(tid);
        let is_timed = line.stamp.is_some_and(|stamp| self.advance(stamp));
        let caller = Caller { start_ns: self.now_ns, tid, comm: line.comm };
        let go_on = match line.what {
            What::Other => {
                self.others += 1;
                ControlFlow::Continue(())
            }
            What::NeverReturns | What::Ended => {
                let count = u64::from(self.calls.close(tid) || line.what == What::NeverReturns);
                self.calls.count(Anomaly::NeverReturn, count);
                self.others += 1;
                ControlFlow::Continue(())
            }
            _ if !is_timed => {
                self.timeless += 1;
                ControlFlow::Continue(())
            }
            What::Unfinished(call) => {
                self.calls.start(caller, call);
                ControlFlow::Continue(())
            }
            What::Call(call, latency_ns) => self.calls.add(caller, latency_ns, &call),
            What::Resumed(name, rest, latency_ns) => self.calls.resume(caller, name, rest, latency_ns),
        };
        let in_vain = self.timeless.max(self.calls.endless);
        if in_vain >= GIVES_UP && self.calls.rows.count == 0 { Err(self.refusal(file)) } else { Ok(go_on) }
    }

    /// Goes on to the time of a line; false when it cannot be on the clock of the lines before.
    fn advance(&mut self, stamp: Stamp) -> bool {
        let context = &mut self.calls.rows.context;
        if !self.has_clock {
            self.has_clock = true;
            context.clock = match stamp {
                Stamp::Unix(_) => Clock::wall(),
                Stamp::OfDay(_) => Clock::unanchored("time of day"),
                Stamp::Relative(_) => Clock::unanchored("relative"),
            };
            context.start_ns = matches!(stamp, Stamp::Relative(_)).then_some(0);
        }
        let name = context.clock.name.as_str();
        let now_ns = match stamp {
            Stamp::Unix(ns) if name == "wall" => ns,
            Stamp::OfDay(ns) if name == "time of day" => {
                // Past midnight the time of day starts again. Lines of several threads may be a little out of order.
                let day = self.now_ns.div_euclid(NS_PER_DAY);
                let same = day * NS_PER_DAY + ns;
                if same < self.now_ns - NS_PER_DAY / 2 { same + NS_PER_DAY } else { same }
            }
            Stamp::Relative(ns) if name == "relative" => self.now_ns.saturating_add(ns),
            _ => return false,
        };
        self.now_ns = now_ns;
        // Room for a duration behind it.
        now_ns < i64::MAX / 2
    }

    /// Why no call has a latency or a time.
    fn refusal(&self, file: &str) -> Error {
        let message = match (self.calls.endless, self.timeless) {
            (0, 0) if self.has_table => {
                format!("This is the summary of strace -c, without single calls; {RECORD} (-C prints both).")
            }
            (0, 0) => "No system call of strace found.".to_string(),
            (0, _) => format!("The lines have no times; {RECORD}."),
            _ => format!("The calls have no durations (-T); {RECORD}."),
        };
        Error::new(file, Position::File, message)
    }

    fn finish(mut self, file: &str) -> Result<Context, Error> {
        let in_vain = self.timeless + self.calls.endless;
        let is_known = self.calls.rows.context.span_ns.is_some() || self.others > 0;
        if in_vain > 0 && self.calls.rows.context.span_ns.is_none() || !is_known {
            return Err(self.refusal(file));
        }
        self.calls.count(Anomaly::OtherRecords, in_vain);
        Ok(self.calls.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_event::Field;

    type Row = (i64, u64, String);

    fn read_text(text: &str) -> Result<(Vec<Row>, Context), Error> {
        let mut rows = Vec::new();
        let options = ReadOptions { all_syscalls: true, ..ReadOptions::new(FieldSet::EVERY) };
        let input = Input::from_bytes("test", text.as_bytes()).unwrap();
        let context = read(input, &options, &mut |_, batch| {
            rows.extend((0..batch.len()).map(|row| {
                let texts = [Field::Name, Field::Path, Field::Error].map(|field| batch.text(field, row).unwrap_or("-"));
                let numbers = [Field::Tid, Field::Fd, Field::Result].map(|field| batch.i64s(field).unwrap()[row]);
                (batch.time()[row], batch.latency()[row], format!("{texts:?} {numbers:?}"))
            }));
            ControlFlow::Continue(())
        })?;
        Ok((rows, context))
    }

    #[test]
    fn a_call_that_others_interrupt_is_one_event() {
        let text = "7 1795224275.100000 openat(AT_FDCWD, \"/a\", O_RDONLY <unfinished ...>\n\
            8 1795224275.200000 close(3) = 0 <0.000010>\n\
            7 1795224275.300000 <... openat resumed>) = 4 <0.250000>\n\
            8 1795224275.400000 <... futex resumed>) = 0 <0.100000>\n\
            9 1795224275.500000 read(5,  <unfinished ...>\n\
            7 1795224275.510000 read(5,  <unfinished ...>\n\
            7 1795224275.600000 +++ killed by SIGKILL +++\n\
            8 1795224275.700000 exit_group(0) = ?\n";
        let (rows, context) = read_text(text).unwrap();
        let start = 1_795_224_275_000_000_000;
        assert_eq!(
            rows,
            [
                (start + 200_000_000, 10_000, "[\"close\", \"-\", \"-\"] [8, 3, 0]".into()),
                (start + 100_000_000, 250_000_000, "[\"openat\", \"/a\", \"-\"] [7, 4, 4]".into()),
                (start + 300_000_000, 100_000_000, format!("[\"futex\", \"-\", \"-\"] [8, {}, 0]", i64::MIN)),
            ]
        );
        assert_eq!((context.tally.get(Anomaly::Unfinished), context.tally.get(Anomaly::NeverReturn)), (1, 2));
        assert_eq!((context.clock.clone(), context.unfinished[0].what.as_str()), (Clock::wall(), "read by thread 9"));
    }

    #[test]
    fn clocks_of_all_kinds() {
        let (rows, context) = read_text("23:59:59.5 close(3) = 0 <0.1>\n00:00:00.25 close(3) = 0 <0.1>\n").unwrap();
        assert_eq!(rows[1].0 - rows[0].0, 750_000_000);
        assert_eq!((context.clock.to_unix_ns, context.start_ns), (None, None));
        let (rows, context) = read_text(
            "     0.000000 close(3) = 0 <0.1>\n     0.500000 --- SIGCHLD {} ---\n     0.250000 close(3) = -1 EBADF (Bad file descriptor) <0.1>\n",
        )
        .unwrap();
        assert_eq!((rows[1].0, context.start_ns), (750_000_000, Some(0)));
        assert!(rows[1].2.ends_with("\"EBADF\"] [-9223372036854775808, 3, -9]"), "{rows:?}");
    }

    #[test]
    fn what_lacks_times_is_refused_with_the_way_out() {
        for (text, why) in [
            ("7 close(3) = 0 <0.1>\n", "The lines have no times; record with strace -f -ttt -T -y -o FILE."),
            ("7 1795224275.100000 close(3) = 0\n", "The calls have no durations (-T); record with"),
            ("nothing\n", "No system call of strace found."),
        ] {
            let message = read_text(text).unwrap_err().message;
            assert!(message.starts_with(why), "{message}");
        }
        let table = "% time     seconds  usecs/call     calls    errors syscall\n\
            ------ ----------- ----------- --------- --------- ----------------\n \
            66.67    0.000020          10         2         1 openat\n \
            33.33    0.000010          10         1           close\n\
            ------ ----------- ----------- --------- --------- ----------------\n\
            100.00    0.000030          10         3         1 total\n";
        assert_eq!(detect(table.as_bytes()), Detected::Yes);
        let message = read_text(table).unwrap_err().message;
        assert!(message.starts_with("This is the summary of strace -c, without single calls"), "{message}");
        let (rows, context) = read_text(&format!("1.5 close(3) = 0 <0.1>\n{table}hello\n")).unwrap();
        assert_eq!((rows.len(), context.tally.get(Anomaly::UnparsedLines)), (1, 1), "only what is no table");
        let (rows, context) = read_text("1.5 close(3) = 0 <0.1>\nhello\n1.5 read(3, \"a").unwrap();
        let counts = [Anomaly::UnparsedLines, Anomaly::Truncated].map(|anomaly| context.tally.get(anomaly));
        assert_eq!((rows.len(), counts), (1, [1, 1]));
    }

    #[test]
    fn a_last_line_that_is_cut_is_no_call() {
        for last in [
            "7 1.7 read(3, \"a\", 832) = 832 <0.000125>\n",
            "7 1.7 <... read resumed>\"a\", 832) = 832 <0.000125>\n",
            "7 1.7 read(3,  <unfinished ...>\n",
            "7 1.7 +++ exited with 0 +++\n",
        ] {
            let text = format!("7 1.5 close(3) = 0 <0.1>\n7 1.6 read(3,  <unfinished ...>\n{last}");
            for cut in 1..last.len() {
                let (rows, context) = read_text(&text[..text.len() - cut]).unwrap();
                let counts = [Anomaly::Truncated, Anomaly::Unfinished, Anomaly::UnparsedLines, Anomaly::OtherRecords];
                let counts = counts.map(|anomaly| context.tally.get(anomaly));
                assert_eq!((rows.len(), counts), (1, [1, 1, 0, 0]), "{last} {cut}");
            }
        }
    }

    #[test]
    fn detection() {
        for (text, expect) in [
            ("1.5 read(3, \"\", 9) = 0 <0.000012>\n1.6 close(3) = 0 <0.000010>\n", Detected::Yes),
            ("strace: Process 7 attached\n", Detected::NeedMore),
            ("7 close(3) = 0\n", Detected::Yes),
            ("     0.071 ( 0.012 ms): tar/20667 read(fd: 4, buf: 0x7ffe37a20828, count: 832) = 832\n", Detected::No),
            ("1 2\n3 4\n", Detected::No),
            ("int x = f(3) = 4;\nx = f(3) = 2\n", Detected::No),
            ("", Detected::No),
        ] {
            assert_eq!(detect(text.as_bytes()), expect, "{text}");
        }
    }
}
