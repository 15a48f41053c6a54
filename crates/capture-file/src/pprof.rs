//! Profiles of pprof (`profile.proto`, gzip or plain), as Go, Parca, Pyroscope, `perf_to_profile` and latscope write them.
//!
//! A sample is a stack with values, of which one may be a number of events and one a time, and labels.

use crate::input::Input;
use crate::stack_rows::{self, Sample, StackRows, push_text_frame};
use crate::{Detected, Error, Position, ReadOptions, Sink};
use hashbrown::HashMap;
use latscope_event::{Context, Field, FieldSet, Frame, FrameKind, push_frame};
use std::io::Read;

/// The fields of a sample, as far as its labels have them.
pub const FILLS: FieldSet =
    stack_rows::FILLS.with(&[Field::Tags, Field::State, Field::Comm, Field::WaitClass, Field::Device]);

/// A profile is read as a whole. The largest that Go writes of a day are a tenth of this.
const BYTES_LIMIT: u64 = 256 << 20;
/// More frames, labels or values than a sample has.
const FRAMES_LIMIT: usize = 4096;
const LABELS_LIMIT: usize = 64;
const VALUES_LIMIT: usize = 32;
const TOO_LARGE: &str = "The profile has more than 256 MiB; split it by time where it is recorded.";

/// Fields of the message `Profile`.
mod field {
    pub const SAMPLE_TYPE: u64 = 1;
    pub const SAMPLE: u64 = 2;
    pub const MAPPING: u64 = 3;
    pub const LOCATION: u64 = 4;
    pub const FUNCTION: u64 = 5;
    pub const STRING: u64 = 6;
    pub const PERIOD_TYPE: u64 = 11;
    pub const LAST: u64 = 20;
}

/// A value of a message: a number, or bytes.
#[derive(Clone, Copy, Debug)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    fn number(self) -> u64 {
        if let Value::Number(number) = self { number } else { 0 }
    }

    fn bytes(self) -> &'a [u8] {
        if let Value::Bytes(bytes) = self { bytes } else { &[] }
    }
}

/// The fields of a message one after the other; an error with the offset where the bytes are not a message.
#[derive(Clone, Copy)]
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

fn fields(bytes: &[u8]) -> Fields<'_> {
    Fields { bytes, at: 0 }
}

fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

impl<'a> Fields<'a> {
    fn take(&mut self) -> Option<(u64, Value<'a>)> {
        let key = varint(self.bytes, &mut self.at)?;
        let fixed = |at: &mut usize, size: usize| {
            let bytes = self.bytes.get(*at..)?.get(..size)?;
            *at += size;
            let mut number = [0; 8];
            number[..size].copy_from_slice(bytes);
            Some(Value::Number(u64::from_le_bytes(number)))
        };
        let value = match key & 7 {
            0 => Value::Number(varint(self.bytes, &mut self.at)?),
            1 => fixed(&mut self.at, 8)?,
            2 => {
                let size = usize::try_from(varint(self.bytes, &mut self.at)?).ok()?;
                let bytes = self.bytes.get(self.at..)?.get(..size)?;
                self.at += size;
                Value::Bytes(bytes)
            }
            5 => fixed(&mut self.at, 4)?,
            _ => return None,
        };
        Some((key >> 3, value)).filter(|(number, _)| *number > 0)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), usize>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.at;
        if start >= self.bytes.len() {
            return None;
        }
        let taken = self.take();
        if taken.is_none() {
            self.at = self.bytes.len();
        }
        Some(taken.ok_or(start))
    }
}

/// The fields of a message that is one in its parts, too: what is no field ends it.
fn parts(bytes: &[u8]) -> impl Iterator<Item = (u64, Value<'_>)> {
    fields(bytes).map_while(Result::ok)
}

/// Numbers that follow each other, packed or one by one.
fn push_numbers(value: Value, into: &mut Vec<u64>, most: usize) {
    match value {
        Value::Number(number) => into.extend((into.len() < most).then_some(number)),
        Value::Bytes(bytes) => {
            let mut at = 0;
            while let Some(number) = varint(bytes, &mut at).filter(|_| into.len() < most) {
                into.push(number);
            }
        }
    }
}

/// A profile starts with the types of its values, before which Go writes when it was taken and its period, and has only fields that
/// profiles have.
pub fn detect(head: &[u8]) -> Detected {
    let is_type = |message: &[u8]| {
        (1..=16).contains(&message.len()) && fields(message).all(|part| matches!(part, Ok((1 | 2, Value::Number(_)))))
    };
    let (mut types, mut others) = (0, 0);
    for part in fields(head) {
        match part {
            Ok((field::SAMPLE_TYPE, Value::Bytes(message))) if is_type(message) => types += 1,
            Ok((field::PERIOD_TYPE, Value::Bytes(message))) if is_type(message) => others += 1,
            Ok((9..=field::LAST, Value::Number(_))) => others += 1,
            Ok((field::SAMPLE..=field::STRING, Value::Bytes(_)) | (7..=8, Value::Number(_)) | (13, _)) if types > 0 => {
                others += 1;
            }
            Ok(_) => return Detected::No,
            // The head ends somewhere.
            Err(_) => break,
        }
    }
    if types > 0 && (others > 0 || types > 1 || head.len() > 64) { Detected::Yes } else { Detected::No }
}

/// What a value counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Count,
    /// A time, in so many nanoseconds.
    Time(u64),
    Other,
}

/// What samples refer to.
#[derive(Default)]
struct Tables<'a> {
    strings: Vec<&'a [u8]>,
    /// Numbers of strings and units: of the type, and of its unit.
    types: Vec<(u64, u64)>,
    /// Number of the string by the identifier of the function.
    functions: HashMap<u64, u64>,
    locations: HashMap<u64, Location>,
    /// Start, offset and number of the string of the file.
    mappings: HashMap<u64, (u64, u64, u64)>,
}

#[derive(Default)]
struct Location {
    mapping: u64,
    address: u64,
    /// Identifiers of functions, the innermost of those that are inlined first.
    functions: Vec<u64>,
}

impl<'a> Tables<'a> {
    /// Of a whole profile; an error with the offset of the first malformed part.
    fn parse(profile: &'a [u8]) -> Result<Tables<'a>, usize> {
        let mut tables = Tables::default();
        for part in fields(profile) {
            let (number, value) = part?;
            let message = value.bytes();
            // The last of a field counts, as everywhere in such messages.
            let of = |wanted| {
                parts(message).filter(|(number, _)| *number == wanted).last().map_or(0, |(_, value)| value.number())
            };
            match number {
                field::SAMPLE_TYPE if tables.types.len() < VALUES_LIMIT => tables.types.push((of(1), of(2))),
                field::STRING => tables.strings.push(message),
                field::FUNCTION => drop(tables.functions.insert(of(1), of(2))),
                field::MAPPING => drop(tables.mappings.insert(of(1), (of(2), of(4), of(5)))),
                field::LOCATION => {
                    let lines = parts(message).filter(|(number, _)| *number == 4).take(FRAMES_LIMIT);
                    let function = |(_, line): (u64, Value<'a>)| {
                        parts(line.bytes()).find(|(number, _)| *number == 1).map_or(0, |(_, value)| value.number())
                    };
                    let location =
                        Location { mapping: of(2), address: of(3), functions: lines.map(function).collect() };
                    tables.locations.insert(of(1), location);
                }
                _ => {}
            }
        }
        Ok(tables)
    }

    fn string(&self, number: u64) -> std::borrow::Cow<'a, str> {
        let bytes = usize::try_from(number).ok().and_then(|number| self.strings.get(number)).copied();
        String::from_utf8_lossy(bytes.unwrap_or_default())
    }

    fn unit(&self, (kind, unit): (u64, u64)) -> Unit {
        match (&*self.string(kind), &*self.string(unit)) {
            (_, "count" | "samples") => Unit::Count,
            (_, "nanoseconds" | "ns") => Unit::Time(1),
            (_, "microseconds" | "us") => Unit::Time(1_000),
            (_, "milliseconds" | "ms") => Unit::Time(1_000_000),
            (_, "seconds" | "s") => Unit::Time(1_000_000_000),
            _ => Unit::Other,
        }
    }

    /// Adds the frames of a location, the outermost first.
    fn push_frames(&self, location: u64, stack: &mut String) {
        let Some(location) = self.locations.get(&location) else { return push_frame(stack, "", FrameKind::User) };
        for (at, function) in location.functions.iter().enumerate().rev() {
            let name = self.functions.get(function).map_or_else(Default::default, |&name| self.string(name));
            let is_inlined = at + 1 < location.functions.len() && Frame::parse(&name).kind == FrameKind::User;
            if is_inlined {
                push_frame(stack, &name, FrameKind::Inlined);
            } else {
                push_text_frame(stack, &name, false);
            }
        }
        if location.functions.is_empty() {
            let (start, offset, file) = self.mappings.get(&location.mapping).copied().unwrap_or_default();
            let (place, file) = (location.address.wrapping_sub(start).wrapping_add(offset), self.string(file));
            let file = file.rsplit('/').next().unwrap_or_default();
            let is_kernel = location.address >= 1 << 63 || file.starts_with("[kernel");
            let name =
                if file.is_empty() { format!("0x{:x}", location.address) } else { format!("{file}+0x{place:x}") };
            push_text_frame(stack, &name, is_kernel);
        }
    }
}

/// What a sample says, in buffers that are used again.
#[derive(Default)]
struct Buffers {
    locations: Vec<u64>,
    values: Vec<u64>,
    stack: String,
    tags: String,
    own: [String; 5],
}

/// Labels that are fields.
const OWN: [&str; 5] = ["kind", "device", "comm", "state", "wait_class"];

impl Buffers {
    fn read(&mut self, message: &[u8], tables: &Tables) {
        self.locations.clear();
        self.values.clear();
        self.tags.clear();
        self.stack.clear();
        self.own.iter_mut().for_each(String::clear);
        let mut labels = 0;
        for (number, value) in parts(message) {
            match number {
                1 => push_numbers(value, &mut self.locations, FRAMES_LIMIT),
                2 => push_numbers(value, &mut self.values, VALUES_LIMIT),
                3 if labels < LABELS_LIMIT => {
                    labels += 1;
                    self.label(value.bytes(), tables);
                }
                _ => {}
            }
        }
        for &location in self.locations.iter().rev() {
            tables.push_frames(location, &mut self.stack);
        }
    }

    fn label(&mut self, message: &[u8], tables: &Tables) {
        let (mut key, mut text, mut number, mut unit) = (0, 0, 0, 0);
        for (part, value) in parts(message) {
            match part {
                1 => key = value.number(),
                2 => text = value.number(),
                3 => number = value.number() as i64,
                4 => unit = value.number(),
                _ => {}
            }
        }
        let key = tables.string(key);
        let value = if text > 0 { tables.string(text) } else { format!("{number}{}", tables.string(unit)).into() };
        if let Some(own) = OWN.iter().position(|own| *own == key).filter(|&own| self.own[own].is_empty()) {
            self.own[own].push_str(&value);
        } else if !key.is_empty() {
            let separator = if self.tags.is_empty() { "" } else { ";" };
            self.tags.push_str(separator);
            self.tags.extend(key.chars().map(|letter| if matches!(letter, ';' | '=') { ':' } else { letter }));
            self.tags.push('=');
            self.tags.extend(value.chars().map(|letter| if letter == ';' { ':' } else { letter }));
        }
    }
}

/// Reads the file; see the crate's `read`.
pub fn read(mut input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let name = input.name.clone();
    let mut profile = Vec::new();
    let got = input.by_ref().take(BYTES_LIMIT + 1).read_to_end(&mut profile);
    got.map_err(|error| input.error(&error))?;
    if profile.len() as u64 > BYTES_LIMIT {
        return Err(Error::new(&name, Position::File, TOO_LARGE));
    }
    let damaged = |at: usize| {
        let message = "This is no part of a profile; the file is truncated or damaged, record it again.";
        Error::new(&name, Position::Byte(at as u64), message)
    };
    let tables = Tables::parse(&profile).map_err(damaged)?;
    let units: Vec<Unit> = tables.types.iter().map(|&kind| tables.unit(kind)).collect();
    let counts = units.iter().position(|unit| *unit == Unit::Count);
    let times = units.iter().position(|unit| matches!(unit, Unit::Time(_)));
    let mut rows = StackRows::new("profile of pprof", &name, FILLS, options, sink);
    let mut buffers = Buffers::default();
    for message in parts(&profile).filter(|(number, _)| *number == field::SAMPLE).map(|(_, value)| value.bytes()) {
        buffers.read(message, &tables);
        let value =
            |at: Option<usize>| at.and_then(|at| buffers.values.get(at)).map(|&value| (value as i64).max(0) as u64);
        let unit_ns = times.map_or(0, |at| if let Unit::Time(ns) = units[at] { ns } else { 0 });
        let time_ns = value(times).unwrap_or(0).saturating_mul(unit_ns);
        // A profile of bytes has nothing else to count.
        let other = value(Some(0)).filter(|_| times.is_none());
        let count = value(counts).or(other).unwrap_or(1);
        // As many events of the mean, and for what is left over of one nanosecond more: their sum is exact.
        let (each_ns, longer) = (time_ns / count.max(1), time_ns % count.max(1));
        let [kind, device, comm, state, wait_class] = texts(&buffers.own);
        let sample = Sample { stack: &buffers.stack, tags: &buffers.tags, state, comm, ..Sample::default() };
        let sample = Sample { kind, device, wait_class, ..sample };
        for (count, latency_ns) in [(count - longer.min(count), each_ns), (longer, each_ns + 1)] {
            let latency_ns = latency_ns.min(i64::MAX as u64);
            if count > 0 && rows.add(&Sample { count, latency_ns, ..sample }).is_break() {
                return rows.finish(&name, NOTHING);
            }
        }
    }
    rows.finish(&name, NOTHING)
}

const NOTHING: &str = "The profile has no sample.";

fn texts(own: &[String; 5]) -> [&str; 5] {
    own.each_ref().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ops::ControlFlow;

    fn message(number: u64, bytes: &[u8]) -> Vec<u8> {
        [&[(number << 3 | 2) as u8, bytes.len() as u8], bytes].concat()
    }

    /// Two samples: one of an inlined function in a library without a symbol, one of nothing but labels.
    fn made_up() -> Vec<u8> {
        let mut profile = [message(1, &[8, 1, 16, 2]), message(1, &[8, 3, 16, 4])].concat();
        // Locations 1 and 2; 3 events of 10 us; label 5=6 and a number.
        profile.extend(message(2, &[10, 2, 1, 2, 18, 2, 3, 10, 26, 4, 8, 5, 16, 6, 26, 6, 8, 7, 24, 42, 32, 8]));
        profile.extend(message(2, &[8, 3, 16, 1, 16, 7]));
        profile.extend(message(3, &[8, 1, 16, 100, 24, 200, 1, 32, 50, 40, 9]));
        profile.extend([message(4, &[8, 1, 34, 2, 8, 1, 34, 2, 8, 2]), message(4, &[8, 2, 16, 1, 24, 120])].concat());
        profile.extend([message(5, &[8, 1, 16, 10]), message(5, &[8, 2, 16, 11])].concat());
        let strings = [
            "",
            "samples",
            "count",
            "wait",
            "microseconds",
            "state",
            "running",
            "bytes",
            "kb",
            "/x/lib.so",
            "inner",
            "o;u",
        ];
        profile.extend(strings.iter().flat_map(|text| message(6, text.as_bytes())));
        profile
    }

    type Row = (String, u64, i64, String, String);

    fn rows_of(bytes: &[u8]) -> Result<Vec<Row>, Error> {
        let input = Input::from_bytes("test", bytes).unwrap();
        let mut rows = Vec::new();
        read(input, &ReadOptions::new(FieldSet::EVERY), &mut |_, batch| {
            for row in 0..batch.len() {
                let text = |field| batch.text(field, row).unwrap_or("").to_string();
                let weight = batch.i64s(Field::SampleWeight).unwrap()[row].max(1);
                rows.push((text(Field::Stack), batch.latency()[row], weight, text(Field::State), text(Field::Tags)));
            }
            ControlFlow::Continue(())
        })
        .map(|_| rows)
    }

    #[test]
    fn samples_have_frames_values_and_labels() {
        let profile = made_up();
        assert_eq!(detect(&profile), Detected::Yes);
        // Go 1.26 starts with the time or the period: profiles of the CPU, the heap and goroutines.
        let of_cpu = b"\x48\xb2\x8b\x8b\xa6\xab\xd0\xb5\xf5\x18\x0a\x04\x08\x01\x10\x02\x0a\x04\x08\x03\x10\x04\x50\xb4\xc7\x9e\xcb\x05";
        let of_heap = b"\x5a\x04\x08\x01\x10\x02\x60\x80\x80\x20\x0a\x04\x08\x03\x10\x04\x0a\x04\x08\x05\x10\x02";
        let of_goroutines = b"\x5a\x04\x08\x01\x10\x02\x60\x01\x0a\x04\x08\x01\x10\x02\x22\x10";
        for start in [&of_cpu[..], of_heap, of_goroutines] {
            assert_eq!(detect(start), Detected::Yes, "{start:?}");
            assert_eq!(detect(&[start, &profile].concat()), Detected::Yes);
        }
        let stack = "lib.so+0x46;o:u;inner_[i]".to_string();
        let row = |latency, weight| (stack.clone(), latency, weight, "running".to_string(), "bytes=42kb".to_string());
        // 10 us of three events: 3333 + 3333 + 3334 ns.
        let expected = [row(3333, 2), row(3334, 1), ("[unknown]".into(), 7000, 1, String::new(), String::new())];
        assert_eq!(rows_of(&profile).unwrap(), expected);
    }

    #[test]
    fn what_is_cut_is_refused_with_its_place() {
        let profile = made_up();
        let error = rows_of(&profile[..profile.len() - 1]).unwrap_err();
        assert!(matches!(error.position, Position::Byte(at) if at < profile.len() as u64), "{error:?}");
        for text in [&b"\n\nhello"[..], b"", b"a;b 1\n", b"\n\x04\x08\x01\x10\x02"] {
            assert_eq!(detect(text), Detected::No, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_profile_or_refused(bytes: Vec<u8>, at: usize, to: u8) {
            let _ = (detect(&bytes), rows_of(&bytes));
            let mut changed = made_up();
            let at = at % changed.len();
            changed[at] = to;
            let _ = (detect(&changed), rows_of(&changed));
        }
    }
}
