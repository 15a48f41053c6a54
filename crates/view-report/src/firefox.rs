//! Stacks with their times, for the profiler of Firefox (profiler.firefox.com): its processed profile format, version 55.

use crate::stack_files::Texts;
use flate2::Compression;
use flate2::write::GzEncoder;
use latscope_event::{Batch, Context, Field, FieldSet, FrameKind, MISSING_I64, Mask, frames};
use latscope_view::push_json_text;
use std::collections::HashMap;
use std::io::{self, Write};

/// The fields that a profile shows.
pub const FIELDS: FieldSet =
    FieldSet::ALWAYS.with(&[Field::Stack, Field::SampleWeight, Field::Pid, Field::Tid]).with(&SHOWN);
/// What a marker says of its event.
const SHOWN: [Field; 6] = [Field::Comm, Field::Kind, Field::Device, Field::State, Field::WaitClass, Field::Tags];
/// So many events are kept: a page that shows them has them all in memory.
const EVENTS_LIMIT: usize = 2_000_000;
const NONE: u32 = u32::MAX;
/// Categories are kinds of code.
const CATEGORIES: [(&str, &str); 6] = [
    ("Program", "blue"),
    ("Kernel", "orange"),
    ("Inlined", "lightblue"),
    ("Compiled at run time", "green"),
    ("Python", "yellow"),
    // The format demands a grey one, for what is in no other.
    ("Other", "grey"),
];

fn category(kind: FrameKind) -> usize {
    match kind {
        FrameKind::User => 0,
        FrameKind::Kernel => 1,
        FrameKind::Inlined => 2,
        FrameKind::Jit => 3,
        FrameKind::Python => 4,
    }
}

#[derive(Clone, Copy)]
struct Sample {
    start_ns: i64,
    latency_ns: u64,
    stack: u32,
    weight: u64,
    /// Texts of the thread, in the order of [`SHOWN`].
    shown: [u32; SHOWN.len()],
}

/// The events of a thread. Functions, frames and names have the same numbers.
#[derive(Default)]
struct Thread {
    pid: i64,
    tid: i64,
    texts: Texts,
    categories: HashMap<u32, usize>,
    /// Caller and text of the function.
    stacks: Vec<(u32, u32)>,
    numbers: HashMap<(u32, u32), u32>,
    samples: Vec<Sample>,
}

impl Thread {
    /// The number of a stack; each is its caller's and a function.
    fn stack(&mut self, text: &str) -> u32 {
        let mut caller = NONE;
        for frame in frames(text) {
            let name = self.texts.number(frame.name);
            self.categories.entry(name).or_insert(category(frame.kind));
            let next = self.stacks.len() as u32;
            caller = *self.numbers.entry((caller, name)).or_insert_with(|| {
                self.stacks.push((caller, name));
                next
            });
        }
        caller
    }
}

/// Collects the events of each thread.
#[derive(Default)]
pub struct FirefoxProfile {
    threads: Vec<Thread>,
    numbers: HashMap<(i64, i64), usize>,
    count: usize,
    /// Events for which there was no room.
    pub left_out: u64,
}

impl FirefoxProfile {
    /// Adds the events that the mask lets through.
    pub fn add(&mut self, batch: &Batch, mask: Option<&Mask>) {
        // The numbers of this batch's codes.
        let (mut stacks, mut texts) = (HashMap::new(), HashMap::new());
        let number = |field: Field, row: usize| {
            batch.i64s(field).map(|numbers| numbers[row]).filter(|&number| number != MISSING_I64)
        };
        let all = 0..batch.len();
        let rows: Box<dyn Iterator<Item = usize>> = match mask {
            Some(mask) => Box::new(mask.ones()),
            None => Box::new(all),
        };
        for row in rows {
            if self.count >= EVENTS_LIMIT {
                self.left_out += 1;
                continue;
            }
            self.count += 1;
            let (pid, tid) = (number(Field::Pid, row).unwrap_or(0), number(Field::Tid, row).unwrap_or(0));
            let next = self.threads.len();
            let at = *self.numbers.entry((pid, tid)).or_insert(next);
            if at == next {
                self.threads.push(Thread { pid, tid, ..Thread::default() });
            }
            let thread = &mut self.threads[at];
            let code = |field: Field| batch.codes(field).map(|codes| codes[row]);
            let stack = match (code(Field::Stack), batch.text(Field::Stack, row)) {
                (Some(code), Some(text)) => *stacks.entry((at, code)).or_insert_with(|| thread.stack(text)),
                _ => NONE,
            };
            let shown = SHOWN.map(|field| match (code(field), batch.text(field, row)) {
                (Some(code), Some(text)) => {
                    *texts.entry((at, field, code)).or_insert_with(|| thread.texts.number(text))
                }
                _ => NONE,
            });
            let weight = number(Field::SampleWeight, row).map_or(1, |weight| weight.max(1) as u64);
            let (start_ns, latency_ns) = (batch.time()[row], batch.latency()[row]);
            thread.samples.push(Sample { start_ns, latency_ns, stack, weight, shown });
        }
    }

    /// Writes the profile, packed with gzip. The weight of a sample is its latency in milliseconds, or where no event has one, how many events
    /// it stands for.
    ///
    /// # Errors
    /// When the disk is full or the pipe closed.
    pub fn write(&mut self, out: &mut dyn Write, context: &Context) -> io::Result<()> {
        let samples = || self.threads.iter().flat_map(|thread| &thread.samples);
        let first_ns = samples().map(|sample| sample.start_ns).min().unwrap_or(0);
        let has_times = samples().any(|sample| sample.latency_ns > 0);
        let unix_ns = context.clock.to_unix_ns.unwrap_or(0).saturating_add(first_ns);
        let mut out = GzEncoder::new(out, Compression::default());
        let categories = listed(CATEGORIES.iter().map(|(name, colour)| {
            format!("{{\"name\":\"{name}\",\"color\":\"{colour}\",\"subcategories\":[\"Other\"]}}")
        }));
        let fields = listed(SHOWN.iter().map(|field| {
            let name = field.name();
            format!("{{\"key\":\"{name}\",\"label\":\"{name}\",\"format\":\"string\",\"searchable\":true}}")
        }));
        write!(
            out,
            "{{\"meta\":{{\"categories\":[{categories}],\"debug\":false,\"extensions\":{{\"baseURL\":[],\"id\":[],\"length\":0,\"name\":[]}},\
             \"interval\":1,\"preprocessedProfileVersion\":55,\"version\":24,\"processType\":0,\"stackwalk\":1,\"product\":{},\"startTime\":{},\
             \"sampleUnits\":{{\"eventDelay\":\"ms\",\"threadCPUDelta\":\"µs\",\"time\":\"ms\"}},\"symbolicated\":true,\"pausedRanges\":[],\
             \"usesOnlyOneStackType\":true,\"sourceCodeIsNotOnSearchfox\":true,\
             \"markerSchema\":[{{\"name\":\"event\",\"display\":[\"marker-chart\",\"marker-table\"],\
             \"chartLabel\":\"{{marker.name}}\",\"tableLabel\":\"{{marker.name}}\",\"fields\":[{fields}]}}]}},\
             \"libs\":[],\"pages\":[],\"profilerOverhead\":[],\"counters\":[],\"threads\":[",
            quoted(&context.source),
            milliseconds(unix_ns),
        )?;
        for (number, thread) in self.threads.iter_mut().enumerate() {
            thread.samples.sort_by_key(|sample| sample.start_ns);
            if number > 0 {
                out.write_all(b",")?;
            }
            thread.write(&mut out, first_ns, has_times)?;
        }
        out.write_all(b"]}\n")?;
        out.finish().map(drop)
    }
}

impl Thread {
    fn write(&self, out: &mut dyn Write, first_ns: i64, has_times: bool) -> io::Result<()> {
        let text = |number: u32| self.texts.text(number).unwrap_or_default();
        let name = self.samples.iter().map(|sample| sample.shown[0]).find(|&name| name != NONE).map_or("", text);
        let since = |ns: i64| milliseconds(ns.saturating_sub(first_ns));
        let end_of = |sample: &Sample| sample.start_ns.saturating_add_unsigned(sample.latency_ns);
        let count = self.texts.len();
        let of_all = |value: &str| listed((0..count).map(|_| value.to_string()));
        let numbers = listed((0..count).map(|number| number.to_string()));
        let categories = |name: u32| self.categories.get(&name).copied().unwrap_or(0).to_string();
        let frame_categories = listed((0..count as u32).map(categories));
        let (zeros, nulls, falses, minus) = (of_all("0"), of_all("null"), of_all("false"), of_all("-1"));
        write!(
            out,
            "{{\"name\":{name},\"processName\":{name},\"isMainThread\":{},\"pid\":\"{}\",\"tid\":\"{}\",\"processType\":\"default\",\
             \"processStartupTime\":0,\"processShutdownTime\":null,\"registerTime\":0,\"unregisterTime\":null,\"pausedRanges\":[],\
             \"showMarkersInTimeline\":true,\
             \"nativeSymbols\":{{\"length\":0,\"address\":[],\"functionSize\":[],\"libIndex\":[],\"name\":[]}},\
             \"resourceTable\":{{\"length\":0,\"lib\":[],\"name\":[],\"host\":[],\"type\":[]}},\
             \"frameTable\":{{\"length\":{count},\"address\":[{minus}],\"inlineDepth\":[{zeros}],\"category\":[{frame_categories}],\
             \"subcategory\":[{zeros}],\"func\":[{numbers}],\"nativeSymbol\":[{nulls}],\"innerWindowID\":[{zeros}],\
             \"line\":[{nulls}],\"column\":[{nulls}]}},\
             \"funcTable\":{{\"length\":{count},\"name\":[{numbers}],\"isJS\":[{falses}],\"relevantForJS\":[{falses}],\"resource\":[{minus}],\
             \"fileName\":[{nulls}],\"lineNumber\":[{nulls}],\"columnNumber\":[{nulls}]}},",
            self.pid == self.tid,
            self.pid,
            self.tid,
            name = quoted(name),
        )?;
        let option = |number: u32| if number == NONE { "null".to_string() } else { number.to_string() };
        write!(
            out,
            "\"stackTable\":{{\"length\":{},\"prefix\":[{}],\"frame\":[{}]}},",
            self.stacks.len(),
            listed(self.stacks.iter().map(|stack| option(stack.0))),
            listed(self.stacks.iter().map(|stack| stack.1.to_string())),
        )?;
        let mut before_ns = first_ns;
        let deltas = self.samples.iter().map(|sample| {
            milliseconds(sample.start_ns.saturating_sub(std::mem::replace(&mut before_ns, sample.start_ns)))
        });
        let weight = |sample: &Sample| match has_times {
            true => milliseconds(
                i64::try_from(u128::from(sample.latency_ns) * u128::from(sample.weight)).unwrap_or(i64::MAX),
            ),
            false => sample.weight.to_string(),
        };
        write!(
            out,
            "\"samples\":{{\"length\":{},\"weightType\":\"{}\",\"timeDeltas\":[{}],\"stack\":[{}],\"weight\":[{}],\"threadCPUDelta\":[{}]}},",
            self.samples.len(),
            if has_times { "tracing-ms" } else { "samples" },
            listed(deltas),
            listed(self.samples.iter().map(|sample| option(sample.stack))),
            listed(self.samples.iter().map(weight)),
            listed(self.samples.iter().map(|_| "0".to_string())),
        )?;
        // An event is an interval, called by what it waited for, or by its kind.
        let event = self.texts.len() as u32;
        let names = self.samples.iter().map(|sample| {
            let name = [sample.shown[4], sample.shown[1]].into_iter().find(|&name| name != NONE);
            name.unwrap_or(event).to_string()
        });
        let data = self.samples.iter().map(|sample| {
            let mut data = "{\"type\":\"event\"".to_string();
            if sample.stack != NONE {
                data.push_str(&format!(",\"cause\":{{\"stack\":{}}}", sample.stack));
            }
            for (field, &number) in SHOWN.iter().zip(&sample.shown).filter(|(_, number)| **number != NONE) {
                data.push_str(&format!(",\"{}\":{}", field.name(), quoted(text(number))));
            }
            data + "}"
        });
        write!(
            out,
            "\"markers\":{{\"length\":{},\"name\":[{}],\"startTime\":[{}],\"endTime\":[{}],\"phase\":[{}],\"category\":[{}],\"data\":[{}]}},",
            self.samples.len(),
            listed(names),
            listed(self.samples.iter().map(|sample| since(sample.start_ns))),
            listed(self.samples.iter().map(|sample| since(end_of(sample)))),
            listed(self.samples.iter().map(|_| "1".to_string())),
            listed(self.samples.iter().map(|_| "0".to_string())),
            listed(data),
        )?;
        let texts = (0..event).map(|number| quoted(text(number))).chain(["\"event\"".to_string()]);
        write!(out, "\"stringArray\":[{}]}}", listed(texts))
    }
}

/// With commas between.
fn listed(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join(",")
}

fn quoted(text: &str) -> String {
    let mut quoted = Vec::new();
    push_json_text(&mut quoted, text);
    String::from_utf8_lossy(&quoted).into_owned()
}

/// Milliseconds, exact to the nanosecond.
fn milliseconds(ns: i64) -> String {
    let (whole, rest) = (ns.unsigned_abs() / 1_000_000, ns.unsigned_abs() % 1_000_000);
    let sign = if ns < 0 { "-" } else { "" };
    if rest == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{rest:06}") }
}
