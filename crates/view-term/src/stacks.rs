//! A line for each stack: its share, the function of the program that leads there, and what its events have in common.

use crate::cell::wrap;
use crate::table::{Align, Room, Table, csv_line};
use crate::{Line, caption};
use latscope_event::{Context, Field, Frame, FrameKind, Wording, format_count, format_duration};
use latscope_series::{HistogramSeries, StackSum, StackTree, StackWidth, application_frame};
use latscope_view::json_text;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// `1 event`, `2,000 events`.
fn counted(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{} {one}s", format_count(count)) }
}

/// One stack of one group.
#[derive(Clone, PartialEq, Debug)]
pub struct StackRow {
    /// Values of the fields of `--by`.
    pub group: Vec<String>,
    /// What its events add up to.
    pub sum: StackSum,
    /// The share of all, from 0 to 1.
    pub share: f64,
    /// The ends of the 95 % interval of the share.
    pub interval: (f64, f64),
    /// The function to look at first.
    pub frame: String,
    /// Its callers, the nearest first.
    pub callers: Vec<String>,
    /// The whole stack, as text.
    pub stack: String,
    /// For each of [`StacksTable::COMMON`]: the value with the largest share of the row, and how many others there are.
    pub common: Vec<Option<(String, usize)>>,
}

/// The table of stacks.
#[derive(Clone, PartialEq, Debug)]
pub struct StacksTable {
    /// The fields of `--by`.
    pub by: Vec<Field>,
    /// What shares are shares of.
    pub width: StackWidth,
    /// The rows, the largest share first.
    pub rows: Vec<StackRow>,
    /// All rows together.
    pub total: StackSum,
    /// What has no stack.
    pub without: StackSum,
    /// What lacks its outer frames.
    pub truncated: StackSum,
    /// As many samples of equal weight the shares are from.
    pub samples: f64,
}

impl StacksTable {
    /// What the rows show of their events beside the stack.
    pub const COMMON: [Field; 4] = [Field::WaitClass, Field::State, Field::Comm, Field::Device];

    /// The fields that a tree must have for a table by these.
    #[must_use]
    pub fn fields(by: &[Field]) -> Vec<Field> {
        let common = Self::COMMON.into_iter().filter(|field| !by.contains(field));
        by.iter().copied().chain(common).collect()
    }

    /// The table of a tree below [`StacksTable::fields`], of which the first `groups` are those of `--by`.
    #[must_use]
    pub fn new(tree: &StackTree, groups: usize, width: StackWidth) -> StacksTable {
        let total = tree.total();
        let samples = tree.effective_samples(width);
        let shares = tree.shares(width);
        let fields = tree.by();
        let mut found: HashMap<(u32, Vec<u32>), Gathered> = HashMap::new();
        for (at, node) in tree.nodes().iter().enumerate().filter(|(_, node)| node.own.samples > 0) {
            let path = tree.path(at as u32);
            let (values, code) = path.split_at(fields.len().min(path.len()));
            let group = groups.checked_sub(1).and_then(|last| values.get(last)).copied().unwrap_or(0);
            let frames = code.iter().map(|&at| tree.nodes()[at as usize].frame).collect();
            let gathered = found.entry((group, frames)).or_insert_with(|| Gathered {
                end: at as u32,
                sum: StackSum::default(),
                common: vec![BTreeMap::new(); fields.len() - groups.min(fields.len())],
            });
            gathered.sum = gathered.sum.plus(node.own);
            for (common, &value) in gathered.common.iter_mut().zip(values.iter().skip(groups)) {
                let sum = common.entry(tree.nodes()[value as usize].frame).or_insert((0, value));
                sum.0 += node.own.amount(width).max(1);
            }
        }
        let value = |node: u32| {
            let name = tree.name(&tree.nodes()[node as usize]);
            name.split_once('=').map_or(name, |(_, value)| value).to_string()
        };
        let row = |gathered: Gathered| {
            let path = tree.path(gathered.end);
            let (values, code) = path.split_at(fields.len().min(path.len()));
            let texts: Vec<&str> = code.iter().map(|&at| tree.name(&tree.nodes()[at as usize])).collect();
            let frames: Vec<Frame> = texts.iter().map(|text| Frame::parse(text)).collect();
            let frame = application_frame(frames.iter().copied());
            let at = frame.and_then(|frame| frames.iter().rposition(|known| *known == frame)).unwrap_or(0);
            let common = StacksTable::COMMON.into_iter().map(|field| {
                let place = fields.iter().skip(groups).position(|&known| known == field)?;
                let values = &gathered.common[place];
                let (_, &(_, heaviest)) =
                    values.iter().max_by_key(|(frame, (sum, _))| (*sum, std::cmp::Reverse(**frame)))?;
                Some((value(heaviest), values.len() - 1)).filter(|(value, _)| value != HistogramSeries::NO_VALUE)
            });
            StackRow {
                group: values.iter().take(groups).map(|&node| value(node)).collect(),
                sum: gathered.sum,
                share: shares.share(gathered.sum),
                interval: shares.interval(gathered.sum),
                frame: frame.map_or("(empty)", |frame| frame.name).to_string(),
                callers: frames.iter().take(at).rev().map(|frame| frame.name.to_string()).collect(),
                stack: texts.join(";"),
                common: common.collect(),
            }
        };
        let mut rows: Vec<StackRow> = found.into_values().map(row).collect();
        rows.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| (&a.group, &a.stack).cmp(&(&b.group, &b.stack))));
        let by = fields[..groups.min(fields.len())].to_vec();
        StacksTable { by, width, rows, total, without: tree.without(), truncated: tree.truncated(), samples }
    }

    /// The table as lines, with at most so many stacks; whole stacks, a frame on each line, where `is_full` says so.
    #[must_use]
    pub fn lines(
        &self,
        context: &Context,
        wording: Wording,
        filter: &str,
        most: usize,
        is_full: bool,
        room: Room,
    ) -> Vec<Line> {
        let [what, more @ ..] = &self.sentences()[..] else { return Vec::new() };
        let mut lines = caption::head(what, context, filter, room.texts);
        lines.extend(more.iter().flat_map(|sentence| wrap(sentence, room.texts)));
        let shows: Vec<usize> =
            (0..Self::COMMON.len()).filter(|&at| self.rows.iter().any(|row| row.common[at].is_some())).collect();
        let is_timed = self.total.time_ns > 0;
        let mut columns = vec![("share", Align::Right), ("95 % interval", Align::Right)];
        columns.extend(is_timed.then_some(("time", Align::Right)));
        columns.push(("events", Align::Right));
        let waits = self.rows.iter().any(|row| row.sum.waiting > 0);
        columns.extend(waits.then_some(("waiting", Align::Right)));
        columns.extend(self.by.iter().map(|field| (field.name(), Align::Left)));
        columns.push(("function", Align::Left));
        columns.extend(shows.iter().map(|&at| (title(Self::COMMON[at]), Align::Left)));
        columns.extend((!is_full).then_some(("called by", Align::Left)));
        let mut table = Table::new(columns);
        let rows = &self.rows[..most.min(self.rows.len())];
        for row in rows {
            let (low, high) = row.interval;
            let mut cells = vec![percent(row.share), format!("{} to {}", percent(low), percent(high))];
            cells.extend(is_timed.then(|| time(row.sum)));
            cells.push(format_count(row.sum.events));
            cells
                .extend(waits.then(|| if row.sum.waiting > 0 { format_count(row.sum.waiting) } else { String::new() }));
            cells.extend(row.group.iter().cloned());
            cells.push(row.frame.clone());
            cells.extend(shows.iter().map(|&at| named(row.common[at].as_ref())));
            cells.extend((!is_full).then(|| row.callers.join(" < ")));
            table.push(cells);
        }
        lines.push(table.heading(room.tables));
        for (line, row) in table.take_lines(room.tables).into_iter().zip(rows) {
            lines.push(line);
            if is_full {
                for text in row.stack.split(';').filter(|text| !text.is_empty()).rev() {
                    let frame = Frame::parse(text);
                    let mut line = Line::new(&format!("        {}{}", frame.name, mark(frame.kind)));
                    line.truncate(room.tables, true);
                    lines.push(line);
                }
            }
        }
        if self.rows.len() > rows.len() {
            let rest = self.rows[rows.len()..].iter().map(|row| row.share).sum::<f64>();
            let text = format!(
                "and {} with {}; --top shows more",
                counted((self.rows.len() - rows.len()) as u64, "more stack"),
                percent(rest)
            );
            lines.extend(wrap(&text, room.texts));
        }
        lines.extend(caption::foot(context, wording, room.texts));
        lines
    }

    /// What the shares are of, and how good they are.
    fn sentences(&self) -> Vec<String> {
        let what = match self.width {
            StackWidth::Time => format!("{} in {}", time(self.total), counted(self.total.events, "event")),
            StackWidth::Events => counted(self.total.events, "event"),
            StackWidth::Samples => counted(self.total.samples, "sample"),
        };
        let samples = (self.samples.round() as u64).max(u64::from(self.total.samples > 0));
        let mut sentences = vec![match samples {
            0 => "no stacks".into(),
            1 => format!("shares of {what}, with 95 % intervals from one sample"),
            _ => {
                format!("shares of {what}, with 95 % intervals from {} samples of equal weight", format_count(samples))
            }
        }];
        if self.without.samples > 0 {
            let all_ns = self.without.time_ns + self.total.time_ns;
            let share = match self.without.time_ns as f64 / all_ns.max(1) as f64 {
                share if share > 0.0 => format!(" ({} of the time)", percent(share)),
                _ => String::new(),
            };
            sentences.push(format!(
                "without a stack, and in no share: {}, {}{share}",
                counted(self.without.events, "event"),
                time(self.without)
            ));
        }
        if self.truncated.samples > 0 {
            sentences.push(format!(
                "{} of {} ({}) {} outer frames",
                format_count(self.truncated.samples),
                counted(self.total.samples, "sample"),
                percent(self.truncated.samples as f64 / self.total.samples.max(1) as f64),
                if self.truncated.samples == 1 { "lacks its" } else { "lack their" }
            ));
        }
        if self.total.waiting > 0 {
            sentences.push(match self.total.waiting {
                1 => "1 still waits and counts with its age so far".into(),
                waiting => format!("{} still wait and count with their age so far", format_count(waiting)),
            });
        }
        sentences
    }

    /// The columns of CSV, which are also the keys of JSON after the fields of `--by`.
    fn columns() -> Vec<String> {
        let numbers =
            ["share", "share_low", "share_high", "time_ns", "events", "samples", "waiting", "function", "stack"];
        numbers.into_iter().map(String::from).chain(Self::COMMON.iter().map(|field| field.name().to_string())).collect()
    }

    fn values(row: &StackRow) -> Vec<(String, bool)> {
        let number = |text: String| (text, true);
        let mut values = vec![
            number(format!("{:.6}", row.share)),
            number(format!("{:.6}", row.interval.0)),
            number(format!("{:.6}", row.interval.1)),
            number(row.sum.time_ns.to_string()),
            number(row.sum.events.to_string()),
            number(row.sum.samples.to_string()),
            number(row.sum.waiting.to_string()),
            (row.frame.clone(), false),
            (row.stack.clone(), false),
        ];
        values.extend(
            row.common.iter().map(|common| (common.as_ref().map_or(String::new(), |(value, _)| value.clone()), false)),
        );
        values
    }

    /// All stacks as CSV, in base units.
    #[must_use]
    pub fn csv(&self) -> String {
        let common = Self::COMMON.map(Field::name);
        // A field of --by has its own column in front.
        let keeps = |name: &str| !(common.contains(&name) && self.by.iter().any(|field| field.name() == name));
        let columns = Self::columns();
        let heads = self
            .by
            .iter()
            .map(|field| field.name())
            .chain(columns.iter().map(|name| &name[..]).filter(|name| keeps(name)));
        let mut csv = csv_line(heads);
        for row in &self.rows {
            let values = Self::values(row);
            let kept = columns.iter().zip(&values).filter(|(name, _)| keeps(name)).map(|(_, (value, _))| &value[..]);
            csv += &csv_line(row.group.iter().map(String::as_str).chain(kept));
        }
        csv
    }

    /// All stacks as JSON, in base units.
    #[must_use]
    pub fn json(&self) -> String {
        let mut json = String::new();
        // Writing to a String does not fail.
        let _ = write!(
            json,
            "{{\"width\":{},\"time_ns\":{},\"events\":{},\"samples\":{},\"waiting\":{},\"effective_samples\":{:.1},\
             \"without_stack\":{{\"events\":{},\"time_ns\":{}}},\"truncated_samples\":{},\"stacks\":[",
            json_text(self.width.word()),
            self.total.time_ns,
            self.total.events,
            self.total.samples,
            self.total.waiting,
            self.samples,
            self.without.events,
            self.without.time_ns,
            self.truncated.samples
        );
        for (at, row) in self.rows.iter().enumerate() {
            json += if at > 0 { ",\n{" } else { "\n{" };
            let group = self
                .by
                .iter()
                .zip(&row.group)
                .map(|(field, value)| format!("{}:{}", json_text(field.name()), json_text(value)));
            let _ = write!(json, "\"group\":{{{}}}", group.collect::<Vec<_>>().join(","));
            for (name, (value, is_number)) in Self::columns().iter().zip(Self::values(row)) {
                let is_missing = !is_number && value.is_empty() && name != "stack";
                if !is_missing {
                    let value = if is_number { value } else { json_text(&value) };
                    let _ = write!(json, ",{}:{value}", json_text(name));
                }
            }
            json.push('}');
        }
        json += "]}\n";
        json
    }
}

struct Gathered {
    /// A node at which the stack ends.
    end: u32,
    sum: StackSum,
    /// For each field behind those of `--by`: values by their frame, with their sum and a node.
    common: Vec<BTreeMap<u32, (u128, u32)>>,
}

fn title(field: Field) -> &'static str {
    match field {
        Field::WaitClass => "waits for",
        Field::Comm => "thread",
        field => field.name(),
    }
}

/// `jbd2 +2`: the heaviest value and how many others there are.
fn named(common: Option<&(String, usize)>) -> String {
    match common {
        None => String::new(),
        Some((value, 0)) => value.clone(),
        Some((value, others)) => format!("{value} +{others}"),
    }
}

fn mark(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Kernel => " [kernel]",
        FrameKind::Jit => " [compiled at run time]",
        FrameKind::Inlined => " [inlined]",
        FrameKind::User | FrameKind::Python => "",
    }
}

/// A sum of time; a lower bound where some of it waits still.
fn time(sum: StackSum) -> String {
    let time = format_duration(u64::try_from(sum.time_ns).unwrap_or(u64::MAX));
    if sum.waiting > 0 { format!(">={time}") } else { time }
}

fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.0005 {
        return "< 0.1 %".into();
    }
    format!("{:.1} %", 100.0 * share)
}

#[cfg(test)]
#[path = "stacks_tests.rs"]
mod tests;
