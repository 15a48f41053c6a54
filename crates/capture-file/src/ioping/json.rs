//! The JSON of ioping 1.2 on: an array of requests, windows, and all of the run at last. It is read object by object, so
//! a run that was killed and left no end is as good as any.

use super::{Events, Known, Sum, Totals};
use crate::Error;
use crate::input::Input;
use latscope_event::Anomaly;
use serde_json::Value;

/// No object of ioping is longer.
const LONGEST: usize = 1 << 16;

/// Whether it starts as such an array.
pub fn is_it(head: &[u8]) -> bool {
    let head = head.trim_ascii_start();
    let inside = head.strip_prefix(b"[").map(<[u8]>::trim_ascii_start);
    let near = &head[..head.len().min(4096)];
    let has = |key: &[u8]| memchr::memmem::find(near, key).is_some();
    inside.is_some_and(|inside| inside.starts_with(b"{"))
        && has(b"\"timestamp\"")
        && has(b"\"target\"")
        && has(b"\"device_size\"")
}

/// Reads the objects. Returns the number of the first line that was not understood.
pub fn read(input: Input, events: &mut Events) -> Result<Option<u64>, Error> {
    let (mut lines, mut chunk) = (input.lines(), Vec::new());
    let (mut number, mut first_bad, mut objects) = (0u64, None, Objects::default());
    let (mut requests, mut windows) = (false, Totals::default());
    while events.go_on.is_continue() && lines.next(&mut chunk).map_err(|error| lines.input.error(&error))? {
        for line in chunk.split_inclusive(|&byte| byte == b'\n') {
            number += 1;
            objects.line(line, &mut |text| match text.and_then(|text| serde_json::from_slice::<Value>(text).ok()) {
                Some(object) if object.get("io").is_some() => {
                    requests = true;
                    request(&object, events);
                }
                // Beside the requests themselves, a window is a second account of them.
                Some(object) if object.get("stat").is_some() => {
                    if !requests && let Some(before) = windows.next(object, totals) {
                        window(&before, events);
                    }
                }
                _ => {
                    events.context.tally.add(Anomaly::UnparsedLines, 1);
                    first_bad = first_bad.or(Some(number));
                }
            });
        }
    }
    if let Some(last) = windows.last.take().filter(|last| !requests && !windows.is_total(totals(last))) {
        window(&last, events);
    }
    if objects.depth > 0 {
        events.context.tally.add(Anomaly::Truncated, 1);
    }
    events.context.tally.add(Anomaly::UnparsedLines, lines.too_long);
    Ok(first_bad)
}

/// Cuts an array into its objects.
#[derive(Default)]
struct Objects {
    text: Vec<u8>,
    depth: u32,
    is_too_long: bool,
}

impl Objects {
    /// Another line; every object that ends in it goes to `take`, `None` for one that is too long. ioping does not escape
    /// quotes, but no text of JSON goes over the end of a line, so a stray quote spoils its own line only.
    fn line(&mut self, line: &[u8], take: &mut dyn FnMut(Option<&[u8]>)) {
        let (mut in_text, mut escaped) = (false, false);
        for &byte in line {
            if self.depth > 0 || byte == b'{' {
                self.is_too_long |= self.text.len() >= LONGEST;
                if !self.is_too_long {
                    self.text.push(byte);
                }
            }
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_text => escaped = true,
                b'"' => in_text = !in_text,
                b'{' if !in_text => self.depth = self.depth.saturating_add(1),
                b'}' if !in_text && self.depth > 0 => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        take(Some(&self.text[..]).filter(|_| !self.is_too_long));
                        self.text.clear();
                        self.is_too_long = false;
                    }
                }
                _ => {}
            }
        }
    }
}

fn number(object: &Value, keys: [&str; 2]) -> Option<u64> {
    object.get(keys[0])?.get(keys[1])?.as_u64().filter(|&number| number <= i64::MAX as u64)
}

fn totals(object: &Value) -> Sum {
    let of = |key| number(object, ["stat", key]).unwrap_or(0);
    Sum { count: of("count"), sum: of("time"), min: of("min"), max: of("max") }
}

/// When the object was written, Unix time. The fraction is cut to whole microseconds, as it is printed.
fn unix_ns(object: &Value) -> Option<i64> {
    let seconds = object.get("timestamp")?.as_f64().filter(|seconds| (0.0..9e9).contains(seconds))?;
    Some((seconds * 1e6).round() as i64 * 1000)
}

fn texts(object: &Value) -> Known<'_> {
    let text = |key: &str| object.get("target")?.get(key)?.as_str().map(str::as_bytes);
    Known { path: text("path"), device: text("device"), ..Known::default() }
}

fn request(object: &Value, events: &mut Events) {
    let (Some(end_ns), Some(latency_ns)) = (unix_ns(object), number(object, ["io", "time"])) else {
        events.context.tally.add(Anomaly::UnparsedLines, 1);
        return;
    };
    let io = &object["io"];
    let notice = io.get("notice").and_then(Value::as_str);
    let error = notice.filter(|notice| notice.starts_with('E')).map(str::as_bytes);
    if error.is_none() && io.get("ignored") == Some(&Value::Bool(true)) {
        events.left_out();
        return;
    }
    let kind = match io.get("operation").and_then(Value::as_str) {
        Some("read") => Some("read"),
        Some("write") => Some("write"),
        _ => None,
    };
    let (size, offset) = (number(object, ["io", "size"]), number(object, ["io", "offset"]));
    events.event(
        end_ns.saturating_sub_unsigned(latency_ns),
        latency_ns,
        &Known { kind, size, offset, error, ..texts(object) },
    );
}

fn window(object: &Value, events: &mut Events) {
    let of = |key| number(object, ["stat", key]);
    let (Some(count), Some(avg), Some(min), Some(max)) = (of("count"), of("avg"), of("min"), of("max")) else {
        events.context.tally.add(Anomaly::UnparsedLines, 1);
        return;
    };
    let Some(end_ns) = unix_ns(object).filter(|_| count > 0) else { return };
    if count > 1 && min != max {
        events.context.tally.add(Anomaly::WindowedRows, 1);
    }
    let size = of("size").map(|size| size / count);
    events.event(end_ns.saturating_sub_unsigned(avg), avg, &Known { size, ..texts(object) });
}
