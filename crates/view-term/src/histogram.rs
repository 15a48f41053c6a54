//! The distribution as bars of text, in the layout that users of bcc and SystemTap know.

use crate::caption::{Moments, TimeLabels};
use crate::marks::Marks;
use crate::rungs::Rungs;
use crate::{Line, caption};
use latscope_event::{Context, Wording, format_count, format_duration, format_size};
use latscope_histogram::{Histogram, Rule};
use latscope_series::{HistogramSeries, Quantity, Support, Waiting, Weight};

/// How histograms are drawn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HistogramOptions {
    /// Columns of the terminal; no line is wider.
    pub columns: usize,
    /// How notes are worded.
    pub wording: Wording,
    /// Rows to the octave: 1 for powers of two, 2, 4 ... 64 for finer ones.
    pub rows_per_octave: u32,
    /// Whether the terminal shows more than ASCII.
    pub unicode: bool,
    /// Groups beside one another where the terminal is wide enough, else below one another.
    pub side_by_side: bool,
    /// At most so many groups, those with the most events first; the rest is counted in a line.
    pub groups: usize,
    /// The lowest value with a row of its own; what lies below is counted in one line. `None`: that of the data.
    pub min: Option<u64>,
    /// The highest value, likewise.
    pub max: Option<u64>,
    /// A histogram for each interval instead of one of the whole time.
    pub per_interval: bool,
}

impl Default for HistogramOptions {
    fn default() -> HistogramOptions {
        HistogramOptions {
            columns: 80,
            wording: Wording::default(),
            rows_per_octave: 1,
            unicode: true,
            side_by_side: false,
            groups: 16,
            min: None,
            max: None,
            per_interval: false,
        }
    }
}

/// Where percent lines stand.
const MARKS: [(f64, &str); 3] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99")];
/// A bar is no longer than bcc's.
const LONGEST_BAR: usize = 40;
/// Blocks beside one another are at least this wide.
const NARROWEST_BLOCK: usize = 64;

/// The lines of a histogram for each group.
pub fn histogram(series: &HistogramSeries, context: &Context, filter: &str, options: &HistogramOptions) -> Vec<Line> {
    let mut lines = Vec::new();
    let taken = each_histogram_line(series, (context, filter), options, &mut |line| {
        lines.push(line);
        Ok::<(), std::convert::Infallible>(())
    });
    taken.map_or_else(|never| match never {}, |()| lines)
}

/// As [`histogram`], and hands on the lines one at a time: of many intervals there are more than fit into memory.
///
/// # Errors
/// Those of `take`, which end it.
pub fn each_histogram_line<E>(
    series: &HistogramSeries,
    (context, filter): (&Context, &str),
    options: &HistogramOptions,
    take: &mut impl FnMut(Line) -> Result<(), E>,
) -> Result<(), E> {
    let all = series.total(None);
    let count = all.totals().count;
    let what = match series.range() {
        Some((first, _)) if options.per_interval && !series.is_of_runs() => {
            let extent = caption::extent(count, series.width_ns(), series.start_ns(first), &context.clock);
            format!("{}, {extent}", series.quantity.word())
        }
        Some(_) => format!("{}, {}", series.quantity.word(), caption::events(count)),
        None => format!("{}, no events", series.quantity.word()),
    };
    caption::head(&what, context, filter, options.columns).into_iter().try_for_each(&mut *take)?;
    let mut marks = Marks::default();
    let mut pass = |lines: Vec<Line>| {
        lines.into_iter().try_for_each(|line| {
            marks.look_at(&line);
            take(line)
        })
    };
    let is_anything = count > 0 || series.has_waiting();
    if is_anything && options.per_interval {
        let range = series.range().map(|(first, last)| (series.start_ns(first), series.start_ns(last)));
        let axis_start_ns = context.axis_start_ns(range.map(|(first_ns, _)| first_ns), series.width_ns());
        let span_ns = range.map_or(0, |(_, last_ns)| last_ns.abs_diff(axis_start_ns));
        let moments = Moments::new(TimeLabels::Elapsed, &context.clock, axis_start_ns, series.width_ns(), span_ns);
        let label = |interval: i64| moments.label(series.span_of(interval, None).0);
        let mut next = None;
        for (&interval, slice) in series.slices() {
            let silent = next.filter(|&next| next < interval && !series.is_of_runs());
            let silence = silent.map(|from| match interval - from {
                1 => format!("at {}: 0 events", label(from)),
                _ => format!("from {} to {}: 0 events", label(from), label(interval)),
            });
            next = Some(series.after(interval));
            let waiting = series.waiting(interval, None);
            let is_silent = slice.groups.iter().all(|(_, sparse)| sparse.totals().count == 0);
            let silent = if is_silent { ": 0 events" } else { "" };
            let heading = format!("at {}{silent}", label(interval));
            for text in silence.into_iter().chain([heading]) {
                let mut heading = Line::new(&text);
                heading.truncate(options.columns, true);
                pass(vec![Line::default(), heading])?;
            }
            pass(blocks(series, &all, Some(interval), options))?;
            pass(waiting_line(&waiting, options.columns))?;
        }
    } else if is_anything {
        pass(blocks(series, &all, None, options))?;
    }
    if !options.per_interval {
        pass(waiting_line(&series.still_waiting(None), options.columns))?;
    }
    marks.key(options.columns).into_iter().try_for_each(&mut *take)?;
    caption::foot(context, options.wording, options.columns).into_iter().try_for_each(take)
}

/// The lines of one interval of a series that goes on: its start, and a histogram for each group. Rows reach from the least
/// to the greatest value of the interval.
pub fn interval_histogram(
    series: &HistogramSeries,
    interval: i64,
    context: &Context,
    options: &HistogramOptions,
) -> Vec<Line> {
    let one = series.only(interval);
    let all = one.total(None);
    let (start_ns, width_ns) = (one.start_ns(interval), one.width_ns());
    let axis_start_ns = context.axis_start_ns(Some(start_ns), width_ns);
    let moments = Moments::new(TimeLabels::Wall, &context.clock, axis_start_ns, width_ns, 0);
    let events = caption::events(all.totals().count);
    let mut lines = crate::cell::wrap(&format!("at {}: {events}", moments.label(start_ns)), options.columns);
    lines.extend(blocks(&one, &all, None, options));
    lines.extend(waiting_line(&one.still_waiting(None), options.columns));
    let mut marks = Marks::default();
    lines.iter().for_each(|line| marks.look_at(line));
    lines.extend(marks.key(options.columns));
    lines.push(Line::default());
    lines
}

/// What still waits, in words; nothing where nothing does.
fn waiting_line(waiting: &Waiting, columns: usize) -> Vec<Line> {
    let Some(oldest_ns) = waiting.oldest_ns() else { return Vec::new() };
    let text =
        format!("waiting: {}, the oldest for {} so far", format_count(waiting.count()), format_duration(oldest_ns));
    crate::cell::wrap(&text, columns)
}

/// The blocks of all groups, of one interval or of the whole time.
fn blocks(series: &HistogramSeries, all: &Histogram, interval: Option<i64>, options: &HistogramOptions) -> Vec<Line> {
    let waiting_of = |group| interval.map_or_else(|| series.still_waiting(group), |at| series.waiting(at, group));
    // Rows reach from the least to the greatest value, those that are still growing among them.
    let mut values = all.clone();
    series.still_waiting(None).bounds_ns().for_each(|bound_ns| values.record_many(bound_ns, 1, 0));
    if interval.is_some() {
        waiting_of(None).bounds_ns().for_each(|bound_ns| values.record_many(bound_ns, 1, 0));
    }
    if values.totals().count == 0 {
        return Vec::new();
    }
    let median = values.quantiles(&[0.5], Rule::Interpolated).map_or(0, |values| values[0]);
    // Groups and intervals share their rows, so that they can be compared.
    let rungs = Rungs::new(series.grid(), series.quantity, median, options.rows_per_octave);
    let low = rungs.row(values.totals().min.max(options.min.unwrap_or(0)));
    let rows = (low, rungs.row(values.totals().max.min(options.max.unwrap_or(u64::MAX))).max(low));
    let sum_of = |group: u32| interval.map_or_else(|| series.total(Some(group)), |at| series.at(at, Some(group)));
    let totals = match interval {
        None => series.group_totals(),
        Some(at) => (0..series.groups().len() as u32).map(|group| *series.at(at, Some(group)).totals()).collect(),
    };
    let is_shown =
        |group: &u32| totals[*group as usize].count > 0 || waiting_of(Some(*group)).bounds_ns().next().is_some();
    let mut groups: Vec<u32> = (0..totals.len() as u32).filter(is_shown).collect();
    groups.sort_by_key(|&group| std::cmp::Reverse(totals[group as usize].count));
    let left_out = groups.split_off(groups.len().min(options.groups.max(1)));

    let beside =
        if options.side_by_side { (options.columns / NARROWEST_BLOCK).clamp(1, groups.len().max(1)) } else { 1 };
    let width = (options.columns + 2) / beside - 2.min(options.columns);
    let mut lines = Vec::new();
    for band in groups.chunks(beside) {
        lines.push(Line::default());
        let blocks = band.iter().map(|&group| {
            let name = (!series.by.is_empty()).then(|| series.group_name(group));
            let block = Block {
                rungs: &rungs,
                rows,
                quantity: series.quantity,
                weight: series.weight,
                width,
                unicode: options.unicode,
            };
            block.lines(name, &Distribution { sum: sum_of(group), waiting: waiting_of(Some(group)) })
        });
        let blocks: Vec<Vec<Line>> = blocks.collect();
        for row in 0..blocks.iter().map(Vec::len).max().unwrap_or(0) {
            let mut line = Line::default();
            for (at, block) in blocks.iter().enumerate() {
                line.pad_to(at * (width + 2));
                line.cells.extend(block.get(row).into_iter().flat_map(|line| &line.cells));
            }
            line.truncate(options.columns, false);
            lines.push(line);
        }
    }
    if !left_out.is_empty() {
        let count: u64 = left_out.iter().map(|&group| totals[group as usize].count).sum();
        let groups = if left_out.len() == 1 { "group" } else { "groups" };
        let left_out = format_count(left_out.len() as u64);
        let text = format!("{left_out} more {groups} with {}", caption::events(count));
        lines.extend([Line::default()].into_iter().chain(crate::cell::wrap(&text, options.columns)));
    }
    lines
}

/// What one group holds.
struct Distribution {
    /// What completed.
    sum: Histogram,
    waiting: Waiting,
}

impl Distribution {
    /// Percentiles, raised by what waits, with their marks; empty without events.
    fn percentiles<const N: usize>(&self, quantiles: [f64; N]) -> Vec<Percentile> {
        let known = (self.sum.totals().count + self.waiting.bounds_ns().count() as u64) as f64;
        let raised = self.waiting.quantiles(&self.sum.to_sparse(), &quantiles, Rule::Interpolated).unwrap_or_default();
        let percentile = |(value, quantile): (latscope_series::Raised<u64>, f64)| Percentile {
            value: value.value,
            before: if value.at_least { ">=" } else { "" },
            behind: Support::new(quantile, known).mark(),
        };
        raised.into_iter().zip(quantiles).map(percentile).collect()
    }
}

/// A percentile and its marks.
struct Percentile {
    value: u64,
    before: &'static str,
    behind: &'static str,
}

/// The histogram of one group.
struct Block<'a> {
    rungs: &'a Rungs,
    rows: (usize, usize),
    quantity: Quantity,
    weight: Weight,
    width: usize,
    unicode: bool,
}

impl Block<'_> {
    fn lines(&self, name: Option<String>, distribution: &Distribution) -> Vec<Line> {
        let sum = &distribution.sum;
        let (first, last) = self.rows;
        // What lies outside of the rows is put into one more at either end.
        let mut weights = vec![0u64; last - first + 3];
        for (bucket, _, weight) in sum.buckets() {
            let row = self.rungs.row(sum.grid().lower(bucket)).clamp(first.saturating_sub(1), last + 1);
            let slot = &mut weights[row + 1 - first];
            *slot = slot.saturating_add(weight);
        }
        let waits = self.waits(&distribution.waiting);
        let whole = weights.iter().fold(0u64, |sum, &weight| sum.saturating_add(weight));
        let marks = self.marks(distribution);
        let labels: Vec<_> = (first..=last).map(|row| self.rungs.label(row)).collect();
        let width = |text: &dyn Fn(&(String, String)) -> usize| labels.iter().map(text).max().unwrap_or(0);
        let (low, high) = (width(&|label| label.0.len()), width(&|label| label.1.len()));
        let amounts: Vec<String> = weights.iter().map(|&weight| self.amount(weight)).collect();
        let most = weights.iter().zip(&waits).map(|(weight, waits)| weight.saturating_add(waits.1)).max().unwrap_or(0);
        let texts: Vec<String> = waits.iter().map(|waits| waiting_words(waits.0)).collect();
        let room = texts.iter().map(String::len).max().unwrap_or(0);
        let digits = amounts.iter().map(String::len).max().unwrap_or(0).max(5);
        // Beside the bar: `low -> high : count |`, `| 12.34%`, and room for a mark.
        let fixed = low + 4 + high + 3 + digits + 2 + 8 + 14 + room;
        let bar = self.width.saturating_sub(fixed).clamp(8, LONGEST_BAR);

        let mut lines: Vec<Line> = name.iter().map(|name| Line::new(name)).collect();
        let (unit, label) = (self.rungs.unit, low + 4 + high);
        lines.push(Line::new(&format!("{unit:>label$} : {:<digits$}  distribution", self.weight.word())));
        for (at, (&weight, amount)) in weights.iter().zip(&amounts).enumerate() {
            let range = match at {
                0 if weight == 0 && waits[at].0 == 0 => continue,
                0 => format!("{:>label$}", "below"),
                at if at == weights.len() - 1 && weight == 0 && waits[at].0 == 0 => continue,
                at if at == weights.len() - 1 => format!("{:>label$}", "above"),
                at => format!("{:>low$} -> {:<high$}", labels[at - 1].0, labels[at - 1].1),
            };
            let mut line = Line::new(&format!("{range} : {amount:<digits$} |"));
            let from = line.width();
            line.push(&self.bar(weight, most, bar));
            let (solid, ends) = (line.width() - from, (weight + waits[at].1) as f64 / most.max(1) as f64 * bar as f64);
            line.push(&self.hatched(waits[at].1 > 0, solid, ends.round() as usize, bar)).pad_to(from + bar);
            line.push("|").push(&share(weight, whole)).push(&texts[at]);
            if let Some(mark) = marks.iter().find(|(row, _)| *row + 1 == first + at) {
                line.push(&format!("  {}", mark.1));
            }
            lines.push(line);
        }
        lines.extend(crate::cell::wrap(&self.totals(distribution), self.width));
        lines.iter_mut().for_each(|line| {
            line.truncate(self.width, true);
        });
        lines
    }

    /// By row, how many requests of these ages wait, and their weight: that of what they moved is not known yet.
    fn waits(&self, waiting: &Waiting) -> Vec<(u64, u64)> {
        let (first, last) = self.rows;
        let mut waits = vec![(0u64, 0u64); last - first + 3];
        for bound_ns in waiting.bounds_ns() {
            let row = self.rungs.row(bound_ns).clamp(first.saturating_sub(1), last + 1);
            let (count, weight) = &mut waits[row + 1 - first];
            *count += 1;
            *weight = weight.saturating_add(match self.weight {
                Weight::Count => 1,
                Weight::Time => bound_ns,
                Weight::Bytes => 0,
            });
        }
        waits
    }

    /// The part of a bar behind so many cells that is of what waits, up to the end of both; never empty where anything waits,
    /// if there is room.
    fn hatched(&self, waits: bool, solid: usize, end: usize, width: usize) -> String {
        let cells = end.max(solid + usize::from(waits)).min(width).saturating_sub(solid);
        let cells = if waits { cells } else { 0 };
        (if self.unicode { "░" } else { ">" }).repeat(cells)
    }

    fn amount(&self, weight: u64) -> String {
        match self.weight {
            Weight::Count => weight.to_string(),
            Weight::Time => format_duration(weight),
            Weight::Bytes => format_size(weight),
        }
    }

    /// Never empty for a count above zero.
    fn bar(&self, count: u64, most: u64, width: usize) -> String {
        if count == 0 {
            return String::new();
        }
        let eighths = (count as f64 / most.max(1) as f64 * width as f64 * 8.0).round().max(1.0) as usize;
        if !self.unicode {
            return "*".repeat((eighths + 4).div_euclid(8).max(1));
        }
        let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
        "█".repeat(eighths / 8) + rest
    }

    /// The percentiles by the row in which they fall: `p50 123us`, names alone where several share a row.
    fn marks(&self, distribution: &Distribution) -> Vec<(usize, String)> {
        let values = distribution.percentiles(MARKS.map(|mark| mark.0));
        let placed = values.iter().zip(MARKS);
        let placed: Vec<_> = placed.map(|(found, (_, name))| (self.rungs.row(found.value), name, found)).collect();
        let text = |row: usize| {
            let here: Vec<_> = placed.iter().filter(|mark| mark.0 == row).collect();
            match here[..] {
                [(_, name, found)] => format!("{name} {}", self.marked(found)),
                _ => here.iter().map(|mark| mark.1).collect::<Vec<_>>().join(" "),
            }
        };
        placed.iter().map(|&(row, _, _)| (row, text(row))).collect()
    }

    fn totals(&self, distribution: &Distribution) -> String {
        let (totals, waiting) = (distribution.sum.totals(), &distribution.waiting);
        let completed = distribution.sum.to_sparse();
        let bound = |at_least: bool| if at_least { ">=" } else { "" };
        let mean = waiting.mean(&completed);
        let mean = mean.map(|mean| bound(mean.at_least).to_owned() + &self.value(mean.value.round() as u64));
        let max = waiting.max(&completed).map(|max| bound(max.at_least).to_owned() + &self.value(max.value));
        let [p50, p99] = [0.5, 0.99].map(|quantile| {
            let found = distribution.percentiles([quantile]);
            found.first().map_or(String::new(), |found| self.marked(found))
        });
        format!(
            "count {}, min {}, mean {}, p50 {p50}, p99 {p99}, max {}",
            format_count(totals.count),
            if totals.count > 0 { self.value(totals.min) } else { "-".into() },
            mean.unwrap_or_default(),
            max.unwrap_or_default()
        )
    }

    fn marked(&self, percentile: &Percentile) -> String {
        format!("{}{}{}", percentile.before, self.value(percentile.value), percentile.behind)
    }

    fn value(&self, value: u64) -> String {
        if self.quantity.is_bytes() { format_size(value) } else { format_duration(value) }
    }
}

/// How many wait in a row, in words.
fn waiting_words(waits: u64) -> String {
    if waits == 0 { String::new() } else { format!("  {} waiting", format_count(waits)) }
}

/// A share with as many digits as keep it above zero: ` 12.3%`, `<0.01%`.
pub(crate) fn share(part: u64, whole: u64) -> String {
    let percent = part as f64 * 100.0 / whole.max(1) as f64;
    match percent {
        _ if part == 0 => String::new(),
        0.0..0.01 => "  <0.01%".into(),
        0.01..1.0 => format!("{percent:>7.2}%"),
        _ => format!("{percent:>7.1}%"),
    }
}
