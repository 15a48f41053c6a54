//! The distribution as bars of text, in the layout that users of bcc and SystemTap know.

use crate::rungs::Rungs;
use crate::{Line, caption};
use latscope_event::{Context, format_count, format_duration, format_size};
use latscope_histogram::{Histogram, Rule};
use latscope_series::{HistogramSeries, Quantity};

/// How histograms are drawn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HistogramOptions {
    /// Columns of the terminal; no line is wider.
    pub columns: usize,
    /// Rows to the octave: 1 for powers of two, 2, 4 ... 64 for finer ones.
    pub rows_per_octave: u32,
    /// Whether the terminal shows more than ASCII.
    pub unicode: bool,
    /// Groups beside one another where the terminal is wide enough, else below one another.
    pub side_by_side: bool,
    /// At most so many groups, those with the most events first; the rest is counted in a line.
    pub groups: usize,
}

impl Default for HistogramOptions {
    fn default() -> HistogramOptions {
        HistogramOptions { columns: 80, rows_per_octave: 1, unicode: true, side_by_side: false, groups: 16 }
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
    let all = series.total(None);
    let what = match series.range() {
        Some((first, _)) => {
            let extent = caption::extent(all.totals().count, series.width_ns(), series.start_ns(first), &context.clock);
            format!("{}, {extent}", series.quantity.word())
        }
        None => format!("{}, no events", series.quantity.word()),
    };
    let mut lines = caption::head(&what, context, filter, options.columns);
    if all.totals().count > 0 {
        lines.extend(blocks(series, &all, options));
    }
    lines.extend(caption::foot(context, options.columns));
    lines
}

fn blocks(series: &HistogramSeries, all: &Histogram, options: &HistogramOptions) -> Vec<Line> {
    let median = all.quantiles(&[0.5], Rule::Interpolated).map_or(0, |values| values[0]);
    // Groups share their rows, so that they can be compared.
    let rungs = Rungs::new(series.grid(), series.quantity, median, options.rows_per_octave);
    let rows = (rungs.row(all.totals().min), rungs.row(all.totals().max));
    let totals = series.group_totals();
    let mut groups: Vec<u32> = (0..totals.len() as u32).filter(|&group| totals[group as usize].count > 0).collect();
    groups.sort_by_key(|&group| std::cmp::Reverse(totals[group as usize].count));
    let left_out = groups.split_off(groups.len().min(options.groups.max(1)));

    let beside = if options.side_by_side { (options.columns / NARROWEST_BLOCK).clamp(1, groups.len()) } else { 1 };
    let width = (options.columns + 2) / beside - 2.min(options.columns);
    let mut lines = Vec::new();
    for band in groups.chunks(beside) {
        lines.push(Line::default());
        let blocks = band.iter().map(|&group| {
            let name = (!series.by.is_empty()).then(|| series.group_name(group));
            let sum = series.total(Some(group));
            Block { rungs: &rungs, rows, quantity: series.quantity, width, unicode: options.unicode }.lines(name, &sum)
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
        let text = format!("{} more groups with {} events", format_count(left_out.len() as u64), format_count(count));
        lines.extend([Line::default()].into_iter().chain(crate::cell::wrap(&text, options.columns)));
    }
    lines
}

/// The histogram of one group.
struct Block<'a> {
    rungs: &'a Rungs,
    rows: (usize, usize),
    quantity: Quantity,
    width: usize,
    unicode: bool,
}

impl Block<'_> {
    fn lines(&self, name: Option<String>, sum: &Histogram) -> Vec<Line> {
        let (first, last) = self.rows;
        let mut counts = vec![0u64; last - first + 1];
        for (bucket, count, _) in sum.buckets() {
            let row = self.rungs.row(sum.grid().lower(bucket)).clamp(first, last);
            counts[row - first] += count;
        }
        let marks = self.marks(sum);
        let labels: Vec<_> = (first..=last).map(|row| self.rungs.label(row)).collect();
        let width = |text: &dyn Fn(&(String, String)) -> usize| labels.iter().map(text).max().unwrap_or(0);
        let (low, high) = (width(&|label| label.0.len()), width(&|label| label.1.len()));
        let most = counts.iter().copied().max().unwrap_or(0);
        let digits = most.to_string().len().max(5);
        // Beside the bar: `low -> high : count |`, `| 12.34%`, and room for a mark.
        let fixed = low + 4 + high + 3 + digits + 2 + 8 + 14;
        let bar = self.width.saturating_sub(fixed).clamp(8, LONGEST_BAR);

        let mut lines: Vec<Line> = name.iter().map(|name| Line::of(name)).collect();
        let heading =
            format!("{:>label$} : {:<digits$}  distribution", self.rungs.unit, "count", label = low + 4 + high);
        lines.push(Line::of(&heading));
        for (at, (&count, (from, to))) in counts.iter().zip(&labels).enumerate() {
            let mut line = Line::of(&format!("{from:>low$} -> {to:<high$} : {count:<digits$} |"));
            let from = line.width();
            line.push(&self.bar(count, most, bar)).pad_to(from + bar);
            line.push("|").push(&share(count, sum.totals().count));
            if let Some(mark) = marks.iter().find(|(row, _)| *row == first + at) {
                line.push(&format!("  {}", mark.1));
            }
            lines.push(line);
        }
        lines.extend(crate::cell::wrap(&self.totals(sum), self.width));
        lines.iter_mut().for_each(|line| {
            line.truncate(self.width, true);
        });
        lines
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
    fn marks(&self, sum: &Histogram) -> Vec<(usize, String)> {
        let values = sum.quantiles(&MARKS.map(|mark| mark.0), Rule::Interpolated).unwrap_or_default();
        let placed: Vec<_> =
            values.iter().zip(MARKS).map(|(&value, (_, name))| (self.rungs.row(value), name, value)).collect();
        let text = |row: usize| {
            let here: Vec<_> = placed.iter().filter(|mark| mark.0 == row).collect();
            match here[..] {
                [(_, name, value)] => format!("{name} {}", self.value(*value)),
                _ => here.iter().map(|mark| mark.1).collect::<Vec<_>>().join(" "),
            }
        };
        placed.iter().map(|&(row, _, _)| (row, text(row))).collect()
    }

    fn totals(&self, sum: &Histogram) -> String {
        let totals = sum.totals();
        let mean = totals.mean().map_or(String::new(), |mean| self.value(mean.round() as u64));
        let values = sum.quantiles(&[0.5, 0.99], Rule::Interpolated).unwrap_or_else(|| vec![0; 2]);
        format!(
            "count {}, min {}, mean {mean}, p50 {}, p99 {}, max {}",
            format_count(totals.count),
            self.value(totals.min),
            self.value(values[0]),
            self.value(values[1]),
            self.value(totals.max)
        )
    }

    fn value(&self, value: u64) -> String {
        if self.quantity.is_bytes() { format_size(value) } else { format_duration(value) }
    }
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
