//! Evaluation over a batch: each term clears bits in a mask of the rows that are still in question.

use crate::comparison::Comparison;
use crate::fields::Clocked;
use crate::ranges::{Ranges, signed_key};
use crate::text::{Step, TextTest, apply, contains_any_case, passes};
use crate::tree::Match;
use latscope_event::{Batch, Column, Dictionary, Field, MISSING_I64, MISSING_U64, Mask};

/// A filter that is ready for the batches of one trace.
#[derive(Clone, Debug)]
pub struct BoundFilter {
    root: Node,
    spare: Vec<Mask>,
}

impl BoundFilter {
    pub(crate) fn new(root: Node) -> BoundFilter {
        BoundFilter { root, spare: Vec::new() }
    }

    /// Sets the bits of the events that pass. All batches must be of one trace: what a text of a dictionary came to
    /// is remembered by its code.
    pub fn eval(&mut self, batch: &Batch, out: &mut Mask) {
        out.reset(batch.len(), true);
        self.root.eval(batch, out, &mut self.spare);
    }
}

/// How two texts of a row are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pair {
    Compare(Comparison),
    Match(Match),
}

/// What is evaluated.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Const(bool),
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    Number(NumberAt, Ranges),
    Text(TextNode),
    Numbers(NumberAt, Comparison, NumberAt),
    Texts(TextsOf, Pair, TextsOf),
}

impl Node {
    /// Roughly what a row costs, for the order of terms.
    pub fn cost(&self) -> u32 {
        match self {
            Node::Const(_) => 0,
            Node::And(nodes) | Node::Or(nodes) => nodes.iter().map(Node::cost).fold(0, u32::saturating_add),
            Node::Not(node) => node.cost(),
            Node::Number(NumberAt::Column(_), _) => 1,
            Node::Number(..) => 2,
            Node::Text(text) => text.test.cost(),
            Node::Numbers(..) => 6,
            Node::Texts(..) => 10,
        }
    }

    /// Clears the bits of `mask` whose rows do not pass.
    fn eval(&mut self, batch: &Batch, mask: &mut Mask, spare: &mut Vec<Mask>) {
        match self {
            Node::Const(true) => {}
            Node::Const(false) => mask.reset(batch.len(), false),
            Node::And(nodes) => {
                for node in nodes {
                    if none(mask) {
                        return;
                    }
                    node.eval(batch, mask, spare);
                }
            }
            Node::Or(nodes) => {
                // `mask` gathers what passed, `left` is what no node has let through yet.
                let mut left = copy(mask, spare);
                mask.reset(batch.len(), false);
                for node in nodes {
                    if none(&left) {
                        break;
                    }
                    let mut passed = copy(&left, spare);
                    node.eval(batch, &mut passed, spare);
                    mask.or(&passed);
                    left.and_not(&passed);
                    spare.push(passed);
                }
                spare.push(left);
            }
            Node::Not(node) => {
                let mut passed = copy(mask, spare);
                node.eval(batch, &mut passed, spare);
                mask.and_not(&passed);
                spare.push(passed);
            }
            Node::Number(number, ranges) => number.keep(ranges, batch, mask),
            Node::Text(text) => text.eval(batch, mask),
            Node::Numbers(one, comparison, two) => {
                one.extend(batch);
                two.extend(batch);
                mask.retain(|row| match (one.value(batch, row), two.value(batch, row)) {
                    (Some(one), Some(two)) => comparison.holds(one.cmp(&two)),
                    _ => false,
                });
            }
            Node::Texts(one, pair, two) => {
                one.extend(batch);
                two.extend(batch);
                mask.retain(|row| match (one.text(batch, row), two.text(batch, row)) {
                    (Some(one), Some(two)) => pair.holds(one, two),
                    _ => false,
                });
            }
        }
    }
}

fn none(mask: &Mask) -> bool {
    mask.words().iter().all(|&word| word == 0)
}

/// With fewer set bits than this, a walk from bit to bit is faster than all 64 at once.
const SPARSE: u32 = 8;

/// Keeps the rows whose value passes. The test is made for rows that are no longer in question too: without a branch
/// that costs less than asking.
#[inline]
fn keep<T: Copy>(mask: &mut Mask, values: &[T], test: impl Fn(T) -> bool) {
    mask.retain_words(|at, word| {
        let values = word_of(values, at);
        if word.count_ones() < SPARSE {
            let (mut left, mut kept) = (word, 0);
            while left != 0 {
                let bit = left.trailing_zeros();
                left &= left - 1;
                kept |= u64::from(test(values[bit as usize])) << bit;
            }
            return kept;
        }
        match <&[T; 64]>::try_from(values) {
            // The length is known here, and with it how to unroll.
            Ok(values) => pack(values.iter().map(|&value| test(value))),
            Err(_) => pack(values.iter().map(|&value| test(value))),
        }
    });
}

/// Keeps the rows whose completion passes, given as a key.
#[inline]
fn keep_ends(batch: &Batch, mask: &mut Mask, test: impl Fn(u64) -> bool) {
    let (times, latencies) = (batch.time(), batch.latency());
    let holds = |(&time, &latency): (&i64, &u64)| {
        // No branch: the key of a missing time or latency is the one that is in no range.
        let known = time != MISSING_I64 && latency != MISSING_U64;
        test(if known { signed_key(time.saturating_add_unsigned(latency)) } else { signed_key(MISSING_I64) })
    };
    mask.retain_words(|at, _| {
        let (times, latencies) = (word_of(times, at), word_of(latencies, at));
        match (<&[i64; 64]>::try_from(times), <&[u64; 64]>::try_from(latencies)) {
            (Ok(times), Ok(latencies)) => pack(times.iter().zip(latencies).map(holds)),
            _ => pack(times.iter().zip(latencies).map(holds)),
        }
    });
}

/// The values of the rows of a word.
fn word_of<T>(values: &[T], at: usize) -> &[T] {
    &values[at * 64..values.len().min(at * 64 + 64)]
}

/// Up to 64 truths as the bits of a word, lowest first.
#[inline]
fn pack(truths: impl Iterator<Item = bool>) -> u64 {
    // Bytes first, which compiles to straight stores; then the multiplication puts eight of them side by side.
    let mut bytes = [0u8; 64];
    bytes.iter_mut().zip(truths).for_each(|(byte, truth)| *byte = u8::from(truth));
    let (eights, _) = bytes.as_chunks::<8>();
    let gather = |word, (at, eight): (usize, &[u8; 8])| {
        word | (u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * at)
    };
    eights.iter().enumerate().fold(0, gather)
}

/// A copy in the memory of a mask that is no longer used.
fn copy(mask: &Mask, spare: &mut Vec<Mask>) -> Mask {
    let mut copy = spare.pop().unwrap_or_default();
    copy.reset(mask.len(), false);
    copy.or(mask);
    copy
}

impl Pair {
    fn holds(self, one: &str, two: &str) -> bool {
        match self {
            Pair::Compare(comparison) => comparison.holds(one.cmp(two)),
            Pair::Match(Match::Contains) => one.contains(two),
            Pair::Match(Match::ContainsAnyCase) => contains_any_case(one, two),
            Pair::Match(Match::StartsWith) => one.starts_with(two),
            Pair::Match(Match::EndsWith) => one.ends_with(two),
            // Patterns come from the filter, never from a row.
            Pair::Match(Match::Glob | Match::GlobAnyCase | Match::Regex) => false,
        }
    }
}

/// Where a number of a row is found.
#[derive(Clone, Debug)]
pub(crate) enum NumberAt {
    Column(Field),
    End,
    SinceStart(i64),
    Part {
        base: Clocked,
        start: i64,
        nanos: bool,
    },
    Length(TextsOf),
    /// Of a period of so many nanoseconds.
    Phase(u64),
    One,
}

const NS_PER_S: i64 = 1_000_000_000;

/// When an event completed; `None` when its start or its latency is missing.
#[inline]
fn end(time: i64, latency: u64) -> Option<i64> {
    (time != MISSING_I64 && latency != MISSING_U64).then(|| time.saturating_add_unsigned(latency))
}

impl NumberAt {
    /// Whether its ranges are of unsigned values.
    pub fn is_unsigned(&self) -> bool {
        use latscope_event::FieldType::{Bytes, Duration};
        matches!(self, NumberAt::Column(field) if matches!(field.field_type(), Bytes | Duration))
    }

    /// Clears the bits of rows whose number is in none of the ranges.
    fn keep(&self, ranges: &Ranges, batch: &Batch, mask: &mut Mask) {
        match (self, ranges.as_slice()) {
            (_, []) => mask.reset(batch.len(), false),
            (NumberAt::Column(field), &[(from, to)]) => match batch.column(*field) {
                Some(Column::U64(values)) => keep(mask, values, |value| value.wrapping_sub(from) <= to - from),
                Some(Column::I64(values)) => {
                    keep(mask, values, |value| signed_key(value).wrapping_sub(from) <= to - from);
                }
                _ => mask.reset(batch.len(), false),
            },
            (NumberAt::Column(field), _) => match batch.column(*field) {
                Some(Column::U64(values)) => keep(mask, values, |value| ranges.holds(value)),
                Some(Column::I64(values)) => keep(mask, values, |value| ranges.holds(signed_key(value))),
                _ => mask.reset(batch.len(), false),
            },
            (NumberAt::End, &[(from, to)]) => keep_ends(batch, mask, |end| end.wrapping_sub(from) <= to - from),
            (NumberAt::End, _) => keep_ends(batch, mask, |end| ranges.holds(end)),
            _ => mask.retain(|row| {
                let value = self.value(batch, row).and_then(|value| i64::try_from(value).ok());
                value.is_some_and(|value| ranges.holds(signed_key(value)))
            }),
        }
    }

    /// The number of a row.
    fn value(&self, batch: &Batch, row: usize) -> Option<i128> {
        let end = || end(*batch.time().get(row)?, *batch.latency().get(row)?);
        match self {
            NumberAt::Column(field) => match batch.column(*field)? {
                Column::I64(values) => Some(values[row]).filter(|&value| value != MISSING_I64).map(i128::from),
                Column::U64(values) => Some(values[row]).filter(|&value| value != MISSING_U64).map(i128::from),
                Column::Text(_) => None,
            },
            NumberAt::End => end().map(i128::from),
            NumberAt::SinceStart(start) => end().map(|end| i128::from(end) - i128::from(*start)),
            NumberAt::Part { base, start, nanos } => {
                let value = match base {
                    Clocked::Latency => NumberAt::Column(Field::Latency).value(batch, row)?,
                    Clocked::End | Clocked::SinceStart => NumberAt::SinceStart(*start).value(batch, row)?,
                };
                let second = i128::from(NS_PER_S);
                Some(if *nanos { value.rem_euclid(second) } else { value.div_euclid(second) })
            }
            NumberAt::Length(texts) => texts.text(batch, row).map(|text| text.len() as i128),
            NumberAt::Phase(period_ns) => end().map(|end| i128::from(end).rem_euclid(i128::from(*period_ns))),
            NumberAt::One => Some(1),
        }
    }

    fn extend(&mut self, batch: &Batch) {
        if let NumberAt::Length(texts) = self {
            texts.extend(batch);
        }
    }
}

/// A test of a dictionary column. What an entry came to is remembered, so a row costs a look into a table of bytes.
#[derive(Clone, Debug)]
pub(crate) struct TextNode {
    field: Field,
    steps: Vec<Step>,
    test: TextTest,
    /// [`FAILED`], [`PASSED`] or [`UNKNOWN`] by code; behind them a failed one that stands for every missing text.
    outcomes: Vec<u8>,
    /// How many are unknown.
    unknown: usize,
}

const FAILED: u8 = 0;
const PASSED: u8 = 1;
/// Not asked yet.
const UNKNOWN: u8 = 2;

impl TextNode {
    pub fn new(field: Field, steps: Vec<Step>, test: TextTest) -> TextNode {
        TextNode { field, steps, test, outcomes: vec![FAILED], unknown: 0 }
    }

    fn eval(&mut self, batch: &Batch, mask: &mut Mask) {
        let Some(codes) = batch.codes(self.field) else { return mask.reset(batch.len(), false) };
        let dictionary = batch.dictionary(self.field);
        self.extend(dictionary.texts().len());
        if self.unknown > 0 {
            // Never ask more often than rows are in question: the terms before may have left few of many texts.
            if self.unknown > mask.count() {
                return mask.retain(|row| self.ask(codes[row], dictionary));
            }
            for code in 0..dictionary.texts().len() {
                self.ask(code as u32, dictionary);
            }
        }
        let outcomes = &self.outcomes[..];
        // There always is a last one; written this way, the loop needs no check of its own.
        if !outcomes.is_empty() {
            keep(mask, codes, |code| outcomes[(outcomes.len() - 1).min(code as usize)] == PASSED);
        }
    }

    /// Makes room for what the dictionary has gained.
    fn extend(&mut self, texts: usize) {
        let known = self.outcomes.len() - 1;
        if texts > known {
            self.outcomes[known] = UNKNOWN;
            self.outcomes.resize(texts, UNKNOWN);
            self.outcomes.push(FAILED);
            self.unknown += texts - known;
        }
    }

    /// Whether the text of a code passes, asked of the test the first time only.
    fn ask(&mut self, code: u32, dictionary: &Dictionary) -> bool {
        let Some(outcome) = self.outcomes.get_mut(code as usize) else { return false };
        if *outcome == UNKNOWN {
            let passed = dictionary.text(code).is_some_and(|text| passes(&self.steps, text, &self.test));
            *outcome = if passed { PASSED } else { FAILED };
            self.unknown -= 1;
        }
        *outcome == PASSED
    }
}

/// The texts of a column after some steps, worked out once for each entry of the dictionary.
#[derive(Clone, Debug)]
pub(crate) struct TextsOf {
    field: Field,
    steps: Vec<Step>,
    texts: Vec<Option<Box<str>>>,
}

impl TextsOf {
    pub fn new(field: Field, steps: Vec<Step>) -> TextsOf {
        TextsOf { field, steps, texts: Vec::new() }
    }

    /// Takes in what the dictionary has gained.
    fn extend(&mut self, batch: &Batch) {
        if !self.steps.is_empty() {
            let texts = batch.dictionary(self.field).texts();
            let new = texts.iter().skip(self.texts.len());
            self.texts.extend(new.map(|text| apply(&self.steps, text).map(|text| text.into())));
        }
    }

    fn text<'a>(&'a self, batch: &'a Batch, row: usize) -> Option<&'a str> {
        if self.steps.is_empty() {
            return batch.text(self.field, row);
        }
        self.texts.get(*batch.codes(self.field)?.get(row)? as usize)?.as_deref()
    }
}
