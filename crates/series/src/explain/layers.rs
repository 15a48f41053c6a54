//! Traces of system calls and of block requests at once: calls are compared with calls and requests with requests, and what was
//! beneath slow calls is named: the block requests that were in flight meanwhile.
//!
//! A set of requests covers a call for as long as at least one of them is between its issue and its completion, from the start
//! to the end of the call. Coverage is the sum of that over calls, so it compares with the time that they waited.

use super::condition::{Attribute, Condition};
use super::table::{Column, MISSING, Side, Table};
use latscope_event::{Batch, Field, MISSING_CODE, MISSING_I64};
use std::collections::BTreeMap;

/// So many sets of requests are reported.
const MOST: usize = 8;

/// Where in the system an event happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layer {
    /// A call of a program.
    SystemCall,
    /// A request of a block device.
    BlockRequest,
}

impl Layer {
    /// The filter of its events in a trace of both.
    pub fn filter(self) -> &'static str {
        match self {
            Layer::SystemCall => "not (disk.dev exists and not result exists)",
            Layer::BlockRequest => "disk.dev exists and not result exists",
        }
    }
}

/// Which block requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Requests {
    /// All of them.
    Any,
    /// Those of the thread that made the call.
    OwnThread,
    /// Those with these values: device, kind.
    With(Vec<Condition>),
}

/// How far some block requests cover system calls.
#[derive(Clone, PartialEq, Debug)]
pub struct Coverage {
    /// Which ones.
    pub requests: Requests,
    /// How many of them were in flight during a selected call.
    pub count: u64,
    /// For how long they were in flight during calls of the selection and of the baseline, nanoseconds.
    pub covered_ns: [u128; 2],
}

/// The block requests beneath system calls.
#[derive(Clone, PartialEq, Debug)]
pub struct Beneath {
    /// How long the calls of the selection and of the baseline waited, nanoseconds.
    pub waiting_ns: [u128; 2],
    /// All requests, those of the own thread, and then by device and kind: those first that cover the selection most.
    pub coverages: Vec<Coverage>,
}

impl Beneath {
    /// The covered part of the time that calls waited, of the selection and of the baseline.
    pub fn shares(&self, coverage: &Coverage) -> [f64; 2] {
        [0, 1].map(|side| match self.waiting_ns[side] {
            0 => 0.0,
            all => coverage.covered_ns[side] as f64 / all as f64,
        })
    }
}

/// Whether each row of a batch is a block request.
pub(super) fn are_requests(batch: &Batch) -> impl Fn(usize) -> bool {
    let (dev, result) = (batch.codes(Field::Dev), batch.i64s(Field::Result));
    move |row| {
        let has_dev = dev.is_some_and(|codes| codes[row] != MISSING_CODE);
        has_dev && result.is_none_or(|values| values[row] == MISSING_I64)
    }
}

impl Table {
    /// The layer of the selection, if the table has both.
    pub(super) fn layer(&self, sides: &[Side]) -> Option<Layer> {
        if !self.requests.contains(&true) || !self.requests.contains(&false) {
            return None;
        }
        let mut selected = (0..sides.len()).filter(|&row| sides[row] == Side::Selection).map(|row| self.requests[row]);
        let first = selected.next()?;
        let layer = if first { Layer::BlockRequest } else { Layer::SystemCall };
        selected.all(|is_request| is_request == first).then_some(layer)
    }

    /// The sides without the baseline's events of another layer.
    pub(super) fn of_layer(&self, sides: &[Side], layer: Layer) -> Vec<Side> {
        let is_in = |row: usize| self.requests[row] == (layer == Layer::BlockRequest);
        sides.iter().enumerate().map(|(row, &side)| if is_in(row) { side } else { Side::Neither }).collect()
    }

    /// What was beneath the calls of both sides.
    pub(super) fn beneath(&self, sides: &[Side]) -> Beneath {
        let calls = [Side::Selection, Side::Baseline].map(|side| {
            let rows = (0..self.len()).filter(|&row| sides[row] == side && !self.requests[row]);
            rows.collect::<Vec<usize>>()
        });
        let requests: Vec<usize> = (0..self.len()).filter(|&row| self.requests[row]).collect();
        let waited = |rows: &Vec<usize>| {
            rows.iter().map(|&row| u128::from(self.latency_ns[row]) * u128::from(self.weight(row))).sum()
        };
        let selected = Union::new(calls[0].iter().map(|&row| self.span(row)));
        let coverage = |requests: Requests, rows: &[usize], covered_ns| {
            let count = rows.iter().filter(|&&row| selected.meets(self.span(row))).map(|&row| self.weight(row)).sum();
            Coverage { requests, count, covered_ns }
        };
        let by_union = |union: &Union| {
            [0, 1].map(|side| {
                let covered = |&row: &usize| u128::from(union.covered(self.span(row))) * u128::from(self.weight(row));
                calls[side].iter().map(covered).sum()
            })
        };
        let union_of = |rows: &[usize]| Union::new(rows.iter().map(|&row| self.span(row)));
        let mut coverages = vec![coverage(Requests::Any, &requests, by_union(&union_of(&requests)))];
        coverages.extend(self.of_own_threads(&calls, &requests));
        let [device, kind] = [Field::Device, Field::Kind].map(|field| self.any_column(field));
        let code = |column: Option<&Column>, row: usize| column.map_or(MISSING, |column| column.codes.get(row));
        let mut groups: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
        for &row in &requests {
            groups.entry((code(device, row), code(kind, row))).or_default().push(row);
        }
        let mut of_groups: Vec<Coverage> = groups
            .into_iter()
            .map(|((of_device, of_kind), rows)| {
                let values = [condition(device, of_device), condition(kind, of_kind)];
                coverage(Requests::With(values.into_iter().flatten().collect()), &rows, by_union(&union_of(&rows)))
            })
            .filter(|coverage| coverage.covered_ns[0] > 0)
            .collect();
        of_groups.sort_by_key(|coverage| std::cmp::Reverse(coverage.covered_ns[0]));
        of_groups.truncate(MOST);
        coverages.extend(of_groups);
        Beneath { waiting_ns: [waited(&calls[0]), waited(&calls[1])], coverages }
    }

    /// How far the requests of the thread of each call cover it.
    fn of_own_threads(&self, calls: &[Vec<usize>; 2], requests: &[usize]) -> Option<Coverage> {
        let tid = self.any_column(Field::Tid)?;
        let by_thread = |rows: &[usize]| {
            let mut threads: BTreeMap<u32, Vec<(i64, i64)>> = BTreeMap::new();
            for &row in rows.iter().filter(|&&row| tid.codes.get(row) != MISSING) {
                threads.entry(tid.codes.get(row)).or_default().push(self.span(row));
            }
            let unions = threads.into_iter().map(|(thread, spans)| (thread, Union::new(spans.into_iter())));
            unions.collect::<BTreeMap<u32, Union>>()
        };
        let own = by_thread(requests);
        let selected = by_thread(&calls[0]);
        let covered_ns = [0, 1].map(|side: usize| {
            let covered = |&row: &usize| {
                let covered_ns = own.get(&tid.codes.get(row)).map_or(0, |union| union.covered(self.span(row)));
                u128::from(covered_ns) * u128::from(self.weight(row))
            };
            calls[side].iter().map(covered).sum()
        });
        let meets = |row: usize| selected.get(&tid.codes.get(row)).is_some_and(|union| union.meets(self.span(row)));
        let count = requests.iter().filter(|&&row| meets(row)).map(|&row| self.weight(row)).sum();
        Some(Coverage { requests: Requests::OwnThread, count, covered_ns })
    }

    /// Start and end of an event, nanoseconds.
    fn span(&self, row: usize) -> (i64, i64) {
        (self.end_ns[row].saturating_sub_unsigned(self.latency_ns[row]), self.end_ns[row])
    }

    /// The column of a field, also if all events have the same value.
    fn any_column(&self, field: Field) -> Option<&Column> {
        self.columns.iter().chain(&self.constant).find(|column| column.attribute == Attribute::Field(field))
    }
}

fn condition(column: Option<&Column>, code: u32) -> Option<Condition> {
    let column = column?;
    let label = column.labels.get(code as usize)?;
    Some(Condition::Is(column.attribute, label.to_string()))
}

/// A union of intervals, from here on and before there.
struct Union {
    /// Disjoint and ascending.
    spans: Vec<(i64, i64)>,
    /// The length of all before each.
    before_ns: Vec<u64>,
}

impl Union {
    fn new(spans: impl Iterator<Item = (i64, i64)>) -> Union {
        let mut sorted: Vec<(i64, i64)> = spans.filter(|(from, to)| from < to).collect();
        sorted.sort_unstable();
        let mut merged: Vec<(i64, i64)> = Vec::new();
        for (from, to) in sorted {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        let (mut before_ns, mut sum) = (Vec::with_capacity(merged.len()), 0);
        for &(from, to) in &merged {
            before_ns.push(sum);
            sum += from.abs_diff(to);
        }
        Union { spans: merged, before_ns }
    }

    /// The length of what is before a moment.
    fn until_ns(&self, moment: i64) -> u64 {
        let behind = self.spans.partition_point(|&(from, _)| from < moment);
        let Some(last) = behind.checked_sub(1) else { return 0 };
        let (from, to) = self.spans[last];
        self.before_ns[last] + from.abs_diff(to.min(moment))
    }

    /// For how much of an interval there is one.
    fn covered(&self, (from, to): (i64, i64)) -> u64 {
        self.until_ns(to).saturating_sub(self.until_ns(from))
    }

    /// Whether an interval shares a moment with one of these.
    fn meets(&self, (from, to): (i64, i64)) -> bool {
        let next = self.spans.partition_point(|&(_, end)| end <= from);
        self.spans.get(next).is_some_and(|&(start, _)| start < to.max(from.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_union_covers_what_any_of_its_intervals_does(
            spans in proptest::collection::vec((0i64..60, 0i64..12), 0..12), from in 0i64..60, length in 0i64..30
        ) {
            let spans: Vec<(i64, i64)> = spans.into_iter().map(|(from, length)| (from, from + length)).collect();
            let union = Union::new(spans.iter().copied());
            let is_in = |moment: i64| spans.iter().any(|&(from, to)| (from..to).contains(&moment));
            let covered = (from..from + length).filter(|&moment| is_in(moment)).count();
            prop_assert_eq!(union.covered((from, from + length)), covered as u64);
            prop_assert_eq!(union.meets((from, from + length)), (from..(from + length).max(from + 1)).any(is_in));
        }
    }
}
