//! Stacks and what they add up to, for viewers of profiles: folded stacks, pprof and speedscope.

use flate2::Compression;
use flate2::write::GzEncoder;
use latscope_event::{Batch, Field, FieldSet, MISSING_CODE, Mask, NO_STACK, frames};
use latscope_view::push_json_text;
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};

/// The dimensions of a sample, which pprof has as labels.
pub const LABELS: [Field; 6] = [Field::Device, Field::Kind, Field::Comm, Field::State, Field::WaitClass, Field::Tags];
/// The fields that are added up.
pub const FIELDS: FieldSet = FieldSet::ALWAYS.with(&[Field::Stack, Field::SampleWeight]).with(&LABELS);
/// So many different samples are kept; what more there are shares one without a stack.
const SAMPLES_LIMIT: usize = 1 << 20;

/// What a file of stacks has as the width of a stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StackWeight {
    /// Events.
    Events,
    /// Their latencies, added up, in microseconds.
    Time,
}

/// Numbers for texts.
#[derive(Default)]
pub(crate) struct Texts {
    numbers: HashMap<Box<str>, u32>,
    texts: Vec<Box<str>>,
}

impl Texts {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    /// The text of a number.
    pub(crate) fn text(&self, number: u32) -> Option<&str> {
        self.texts.get(number as usize).map(|text| &**text)
    }

    /// The number of a text.
    pub(crate) fn number(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.texts.len() as u32;
        self.numbers.insert(text.into(), number);
        self.texts.push(text.into());
        number
    }
}

/// The label of what had not ended: its time is a lower bound.
const UNFINISHED: &str = "unfinished";
/// Where in a key [`UNFINISHED`] is.
const AT_UNFINISHED: usize = 1 + LABELS.len();

/// A stack and its labels, and whether it had not ended, as numbers of texts or [`MISSING_CODE`].
type Key = [u32; AT_UNFINISHED + 1];
const NO_KEY: Key = [MISSING_CODE; AT_UNFINISHED + 1];

/// Adds up events by stack and labels.
#[derive(Default)]
pub struct StackTotals {
    texts: Texts,
    /// Events, and nanoseconds of all of them.
    totals: HashMap<Key, (u64, u128)>,
}

impl StackTotals {
    /// Adds the events that the mask lets through.
    pub fn add(&mut self, batch: &Batch, mask: Option<&Mask>) {
        self.add_rows(batch, mask, false);
    }

    /// Adds what had not ended, with its age.
    pub fn add_waiting(&mut self, batch: &Batch, mask: Option<&Mask>) {
        self.add_rows(batch, mask, true);
    }

    fn add_rows(&mut self, batch: &Batch, mask: Option<&Mask>, is_waiting: bool) {
        let unfinished = if is_waiting { self.texts.number("true") } else { MISSING_CODE };
        let fields: Vec<Field> = std::iter::once(Field::Stack).chain(LABELS).collect();
        // The numbers of this batch's codes, as far as they have come up.
        let mut known: Vec<Vec<u32>> = vec![Vec::new(); fields.len()];
        let weights = batch.i64s(Field::SampleWeight);
        let all = 0..batch.len();
        let rows: Box<dyn Iterator<Item = usize>> = match mask {
            Some(mask) => Box::new(mask.ones()),
            None => Box::new(all),
        };
        for row in rows {
            let mut key = NO_KEY;
            key[AT_UNFINISHED] = unfinished;
            for (at, &field) in fields.iter().enumerate() {
                let Some(&code) = batch.codes(field).and_then(|codes| codes.get(row)) else { continue };
                let Some(text) = batch.dictionary(field).text(code) else { continue };
                let known = &mut known[at];
                if known.len() <= code as usize {
                    known.resize(code as usize + 1, MISSING_CODE);
                }
                let number = &mut known[code as usize];
                if *number == MISSING_CODE {
                    *number = self.texts.number(text);
                }
                key[at] = *number;
            }
            if self.totals.len() >= SAMPLES_LIMIT && !self.totals.contains_key(&key) {
                key = NO_KEY;
            }
            let weight = weights.map_or(1, |weights| weights[row].max(1) as u64);
            let (events, ns) = self.totals.entry(key).or_default();
            *events = events.saturating_add(weight);
            *ns = ns.saturating_add(u128::from(weight) * u128::from(batch.latency()[row]));
        }
    }

    /// Adds so many events with a stack of this text, and their nanoseconds; whether some of them had not ended.
    pub fn insert(&mut self, stack: &str, events: u64, ns: u128, is_waiting: bool) {
        let mut key = NO_KEY;
        key[0] = self.texts.number(stack);
        if is_waiting {
            key[AT_UNFINISHED] = self.texts.number("true");
        }
        let sum = self.totals.entry(key).or_default();
        *sum = (sum.0.saturating_add(events), sum.1.saturating_add(ns));
    }

    /// Whether any event took time.
    #[must_use]
    pub fn has_time(&self) -> bool {
        self.totals.values().any(|&(_, ns)| ns > 0)
    }

    fn text(&self, number: u32) -> Option<&str> {
        self.texts.text(number)
    }

    fn stack(&self, key: &Key) -> &str {
        self.text(key[0]).filter(|stack| !stack.is_empty()).unwrap_or(NO_STACK)
    }

    /// Stacks in the order of their text, whatever order the events came in, without labels.
    fn by_stack(&self) -> Vec<(&str, u64, u128)> {
        let mut sums: HashMap<&str, (u64, u128)> = HashMap::new();
        for (key, &(events, ns)) in &self.totals {
            let sum = sums.entry(self.stack(key)).or_default();
            *sum = (sum.0.saturating_add(events), sum.1.saturating_add(ns));
        }
        let mut sums: Vec<_> = sums.into_iter().map(|(stack, (events, ns))| (stack, events, ns)).collect();
        sums.sort_unstable();
        sums
    }

    /// Writes folded stacks, a line for each stack that has a weight.
    ///
    /// # Errors
    /// When the disk is full or the pipe closed.
    pub fn write_folded(&self, out: &mut dyn Write, weight: StackWeight) -> io::Result<()> {
        for (stack, events, ns) in self.by_stack() {
            let value = match weight {
                StackWeight::Events => u128::from(events),
                StackWeight::Time => (ns + 500) / 1000,
            };
            if value > 0 {
                writeln!(out, "{} {value}", one_line(stack))?;
            }
        }
        Ok(())
    }

    /// Writes a profile of speedscope: one of the events, one of their time.
    ///
    /// # Errors
    /// As [`StackTotals::write_folded`].
    pub fn write_speedscope(&self, out: &mut dyn Write, name: &str) -> io::Result<()> {
        let (mut names, sums) = (Texts::default(), self.by_stack());
        let samples: Vec<Vec<u32>> =
            sums.iter().map(|(stack, ..)| stack.split(';').map(|frame| names.number(frame)).collect()).collect();
        let quoted = |text: &str| {
            let mut quoted = Vec::new();
            push_json_text(&mut quoted, text);
            String::from_utf8_lossy(&quoted).into_owned()
        };
        let listed = |texts: Vec<String>| texts.join(",");
        let frames = listed(names.texts.iter().map(|name| format!("{{\"name\":{}}}", quoted(name))).collect());
        let stacks = listed(samples.iter().map(|sample| format!("{sample:?}")).collect());
        let profile = |title: &str, unit: &str, weights: Vec<u128>| {
            let (end, weights) = (weights.iter().sum::<u128>(), format!("{weights:?}"));
            format!(
                "{{\"type\":\"sampled\",\"name\":{},\"unit\":\"{unit}\",\"startValue\":0,\"endValue\":{end},\"samples\":[{stacks}],\
                 \"weights\":{weights}}}",
                quoted(title)
            )
        };
        let events = profile("events", "none", sums.iter().map(|&(_, events, _)| u128::from(events)).collect());
        let time = profile("time", "nanoseconds", sums.iter().map(|&(.., ns)| ns).collect());
        writeln!(
            out,
            "{{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"latscope\",\"name\":{},\
             \"activeProfileIndex\":0,\"shared\":{{\"frames\":[{frames}]}},\"profiles\":[{events},{time}]}}",
            quoted(name)
        )
    }

    /// Writes a profile of pprof, packed with gzip: values are events and nanoseconds, dimensions are labels.
    ///
    /// # Errors
    /// As [`StackTotals::write_folded`].
    pub fn write_pprof(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut strings = Texts::default();
        // The format demands that the first string is empty.
        strings.number("");
        let (mut profile, mut frames_of) = (Vec::new(), Texts::default());
        for (kind, unit) in [("events", "count"), ("time", "nanoseconds")] {
            let (kind, unit) = (strings.number(kind), strings.number(unit));
            let mut value_type = Vec::new();
            number(&mut value_type, 1, kind.into());
            number(&mut value_type, 2, unit.into());
            bytes(&mut profile, 1, &value_type);
        }
        if !self.has_time() {
            // Viewers show the last one otherwise.
            number(&mut profile, 14, strings.number("events").into());
        }
        let mut is_bound = false;
        let mut keys: Vec<&Key> = self.totals.keys().collect();
        keys.sort_unstable_by_key(|key| key.map(|number| self.text(number)));
        for key in keys {
            let (events, ns) = self.totals[key];
            let mut sample = Vec::new();
            let (mut locations, mut values) = (Vec::new(), Vec::new());
            for frame in frames(self.stack(key)).rev() {
                let name = format!("{}{}", frame.name, frame.kind.suffix());
                varint(&mut locations, u64::from(frames_of.number(&name)) + 1);
            }
            for value in [u128::from(events), ns] {
                varint(&mut values, i64::try_from(value).unwrap_or(i64::MAX) as u64);
            }
            bytes(&mut sample, 1, &locations);
            bytes(&mut sample, 2, &values);
            for (field, &text) in LABELS.iter().zip(&key[1..AT_UNFINISHED]) {
                let Some(text) = self.text(text) else { continue };
                // Each tag is a label of its own.
                let pairs: Vec<(&str, &str)> = match field {
                    Field::Tags => text.split(';').filter_map(|tag| tag.split_once('=')).collect(),
                    field => vec![(field.name(), text)],
                };
                for (name, value) in pairs {
                    let mut label = Vec::new();
                    number(&mut label, 1, strings.number(name).into());
                    number(&mut label, 2, strings.number(value).into());
                    bytes(&mut sample, 3, &label);
                }
            }
            if let Some(text) = self.text(key[AT_UNFINISHED]) {
                let mut label = Vec::new();
                number(&mut label, 1, strings.number(UNFINISHED).into());
                number(&mut label, 2, strings.number(text).into());
                bytes(&mut sample, 3, &label);
                is_bound = true;
            }
            bytes(&mut profile, 2, &sample);
        }
        if is_bound {
            let comment = "Of samples with the label unfinished, the time is a lower bound: they had not ended.";
            number(&mut profile, 13, strings.number(comment).into());
        }
        for (at, name) in frames_of.texts.iter().enumerate() {
            let (id, name) = (at as u64 + 1, strings.number(name));
            let (mut line, mut location, mut function) = (Vec::new(), Vec::new(), Vec::new());
            number(&mut line, 1, id);
            number(&mut location, 1, id);
            bytes(&mut location, 4, &line);
            bytes(&mut profile, 4, &location);
            number(&mut function, 1, id);
            number(&mut function, 2, name.into());
            bytes(&mut profile, 5, &function);
        }
        for text in &strings.texts {
            bytes(&mut profile, 6, text.as_bytes());
        }
        let mut packed = GzEncoder::new(out, Compression::default());
        packed.write_all(&profile)?;
        packed.finish().map(drop)
    }
}

/// A stack whose names cannot end a line, nor turn the direction of its text: readers of folded stacks know no quotes.
fn one_line(stack: &str) -> Cow<'_, str> {
    let is_wild =
        |letter: char| letter.is_control() || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if stack.contains(is_wild) { Cow::Owned(stack.replace(is_wild, " ")) } else { Cow::Borrowed(stack) }
}

/// A number in the format of protocol buffers: seven bits a byte, the lowest first.
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}
