//! Percentiles over time: a row for each interval and group, that can be printed while later intervals are still open.

use crate::marks::Marks;
use crate::table::csv_line;
use crate::{Align, Color, Line, Table};
use latscope_event::{Field, format_count, format_duration, format_elapsed, format_rate, format_size, format_wall};
use latscope_histogram::{Histogram, Rule, Sparse};
use latscope_series::{AskedPercentiles, Exact, HistogramSeries, Quantity, ShownPercentile, ShownPercentiles};

/// How percentiles are found and shown.
#[derive(Clone, Debug, Default)]
pub struct PercentileOptions {
    /// Where in its bucket a percentile lies.
    pub rule: Rule,
    /// Values that take the place of those from buckets.
    pub exact: Option<Exact>,
    /// Whether a line over all groups follows those of the groups.
    pub all: bool,
    /// Where elapsed time counts from; without it, the first interval that is shown.
    pub axis_start_ns: Option<i64>,
    /// What is in flight after this moment may be missing.
    pub complete_until_ns: Option<i64>,
    /// Whether doubtful values are grey.
    pub color: bool,
    /// Whether the table has columns of what waits. CSV and JSON always have them.
    pub waiting: bool,
}

/// The group of a line over all groups.
const ALL: &str = "all";
const GREY: Color = Color::Indexed(8);
/// So many lines of intervals without events are printed in all: with more, something is wrong with the times.
const EMPTY_ROWS: u64 = 100_000;
/// So many rows are read ahead for the widths of the columns.
const LOOK_AHEAD: usize = 1000;
/// From two days on, elapsed time is printed in days.
const DAYS_NS: i64 = 2 * 86_400 * 1_000_000_000;

/// Prints percentiles of one series after the other, which may be parts of one that goes on.
#[derive(Clone, Debug)]
pub struct Percentiles {
    asked: AskedPercentiles,
    /// Their names, `p50` and so on.
    names: Vec<String>,
    by: Vec<Field>,
    quantity: Quantity,
    options: PercentileOptions,
    /// What to add to a time for the time of day; without it times are elapsed ones.
    to_unix_ns: Option<i64>,
    axis_start_ns: Option<i64>,
    /// The interval behind the last one.
    next: Option<i64>,
    /// Intervals without events that had a line, and those that had none.
    empty: u64,
    left_out: u64,
    table: Table,
    marks: Marks,
    started: bool,
}

/// One line.
struct Row {
    time_ns: i64,
    width_ns: u64,
    group: Vec<String>,
    shown: ShownPercentiles,
    /// The least exact value; meaningless without events.
    min: u64,
    /// Whether events that were in flight in the interval may not be in it.
    is_open: bool,
    /// Whether the trace covers the interval only in part, and how much of it.
    is_partial: bool,
    covered_ns: u64,
    /// Events per second of what is covered.
    rate: Option<f64>,
}

impl Percentiles {
    /// For these percentiles (0 to 100) of series with these group fields.
    pub fn new(percentiles: &[f64], by: &[Field], quantity: Quantity, to_unix_ns: Option<i64>) -> Percentiles {
        let names: Vec<_> = percentiles.iter().map(|p| format!("p{p}")).collect();
        let quantiles = percentiles.iter().map(|p| p / 100.0).collect();
        let asked = AskedPercentiles { quantiles, ..AskedPercentiles::default() };
        let (axis_start_ns, next, options) = (None, None, PercentileOptions::default());
        let (empty, left_out) = (0, 0);
        let table = Percentiles::table(by, &names, false);
        Percentiles {
            asked,
            names,
            by: by.to_vec(),
            quantity,
            options,
            to_unix_ns,
            axis_start_ns,
            next,
            empty,
            left_out,
            table,
            marks: Marks::default(),
            started: false,
        }
    }

    /// Finds and shows them like this.
    #[must_use]
    pub fn with(self, mut options: PercentileOptions) -> Percentiles {
        let asked = AskedPercentiles { rule: options.rule, exact: options.exact.take(), ..self.asked };
        let table = Percentiles::table(&self.by, &self.names, options.waiting);
        Percentiles { asked, axis_start_ns: options.axis_start_ns, options, table, ..self }
    }

    /// Says that what is in flight after this moment may be missing, before the lines of intervals that end later.
    pub fn complete_until(&mut self, until_ns: Option<i64>) {
        self.options.complete_until_ns = until_ns;
    }

    fn table(by: &[Field], names: &[String], waiting: bool) -> Table {
        let mut titles = vec![("time", Align::Left)];
        titles.extend(by.iter().map(|field| (field.name(), Align::Left)));
        titles.extend(["count", "rate", "mean"].map(|title| (title, Align::Right)));
        titles.extend(names.iter().map(|title| (title.as_str(), Align::Right)));
        titles.push(("max", Align::Right));
        titles.extend(["waiting", "oldest"].into_iter().filter(|_| waiting).map(|title| (title, Align::Right)));
        Table::new(titles)
    }

    /// Hands on the rows one at a time, since there may be more of them than fit into memory: those of the groups that have
    /// events in an interval, and, where everything together has a line, those of intervals in which nothing happened.
    fn each_row<E>(
        &mut self,
        series: &HistogramSeries,
        take: &mut impl FnMut(&mut Percentiles, Row) -> Result<(), E>,
    ) -> Result<(), E> {
        let nothing = Histogram::new(series.grid(), false).to_sparse();
        let has_all = self.by.is_empty() || self.options.all;
        let all = (vec![ALL.to_string(); self.by.len()], None);
        for (&interval, slice) in series.slices() {
            let gap = self.next.unwrap_or(interval)..interval;
            // Between two runs there is nothing that could have been counted.
            let length = gap.end.saturating_sub(gap.start).max(0).unsigned_abs();
            if has_all && !series.is_of_runs() {
                let shown = if self.empty.saturating_add(length) <= EMPTY_ROWS { length } else { 0 };
                self.empty += shown;
                self.left_out = self.left_out.saturating_add(length - shown);
                for empty in gap.take(shown as usize) {
                    let row = self.row(series, empty, all.clone(), &nothing);
                    take(self, row)?;
                }
            }
            self.next = Some(series.after(interval));
            let mut groups: Vec<_> = slice
                .groups
                .iter()
                .map(|(number, sparse)| (&series.groups()[*number as usize], *number, sparse))
                .collect();
            groups.sort_by_key(|&(group, ..)| group);
            for (group, number, sparse) in groups {
                let row = self.row(series, interval, (group.clone(), Some(number)), sparse);
                take(self, row)?;
            }
            if self.options.all && !self.by.is_empty() {
                let row = self.row(series, interval, all.clone(), &series.at(interval, None).to_sparse());
                take(self, row)?;
            }
        }
        Ok(())
    }

    /// A sentence about the intervals without events that have no line; `None` where all have one.
    pub fn left_out(&self) -> Option<String> {
        let left_out = format_count(self.left_out);
        let sentence = format!("{left_out} intervals without events are not shown; use a longer interval (-i).");
        (self.left_out > 0).then_some(sentence)
    }

    fn row(
        &self,
        series: &HistogramSeries,
        interval: i64,
        (group, number): (Vec<String>, Option<u32>),
        sparse: &Sparse,
    ) -> Row {
        let (time_ns, width_ns) = series.span_of(interval, number);
        let end_ns = time_ns.saturating_add_unsigned(width_ns);
        let shown = self.asked.percentiles(series, interval, number, sparse);
        Row {
            time_ns,
            width_ns,
            group,
            rate: series.rate(interval, number, shown.count),
            shown,
            min: sparse.totals().min,
            is_partial: series.is_partial(interval),
            covered_ns: series.covered_of(interval, number),
            is_open: self.options.complete_until_ns.is_some_and(|until_ns| end_ns > until_ns),
        }
    }

    /// Hands on the lines of a table, its heading before the first; a column is as wide as the longest text so far and in the
    /// next thousand rows.
    ///
    /// # Errors
    /// Those of `take`, which end it.
    pub fn each_line<E>(
        &mut self,
        series: &HistogramSeries,
        columns: usize,
        take: &mut impl FnMut(&Line) -> Result<(), E>,
    ) -> Result<(), E> {
        self.each_row(series, &mut |printer, row| {
            printer.push(series, &row);
            if printer.table.len() >= LOOK_AHEAD { printer.take_lines(columns, take) } else { Ok(()) }
        })?;
        self.take_lines(columns, take)
    }

    fn take_lines<E>(&mut self, columns: usize, take: &mut impl FnMut(&Line) -> Result<(), E>) -> Result<(), E> {
        if self.table.len() > 0 && !std::mem::replace(&mut self.started, true) {
            take(&self.table.heading(columns))?;
        }
        self.table.take_lines(columns).iter().try_for_each(take)
    }

    /// The lines below the table, once it is complete: what its marks mean, of those that it has.
    pub fn legend(&self, columns: usize) -> Vec<Line> {
        self.marks.key(columns)
    }

    fn note_marks(&mut self, row: &Row) {
        let values = || row.shown.values.iter().flatten();
        let bounds = [row.shown.mean.is_some_and(|mean| mean.at_least), row.shown.max.is_some_and(|max| max.at_least)];
        let marks = &mut self.marks;
        marks.few |= values().any(|shown| shown.doubtful);
        marks.raised |=
            values().any(|shown| shown.at_least) || bounds.contains(&true) || row.shown.waiting.oldest_is_bound();
        marks.open |= row.is_open;
        marks.partial |= row.is_partial;
    }

    /// Puts a row into the table.
    fn push(&mut self, series: &HistogramSeries, row: &Row) {
        self.axis_start_ns.get_or_insert(row.time_ns);
        self.note_marks(row);
        let value = |value: u64| if self.quantity.is_bytes() { format_size(value) } else { format_duration(value) };
        let label = self.label(row.time_ns, series.width_ns());
        let length = series.is_of_runs().then(|| format!(" +{}", format_duration(row.width_ns)));
        let mut texts = vec![label + &length.unwrap_or_default()];
        texts.extend(row.group.iter().cloned());
        let shown = &row.shown;
        let count = if shown.count < 10.0 && shown.count.fract() > 0.0 {
            format!("{:.2}", shown.count)
        } else {
            format_count(shown.count.round() as u64)
        };
        texts.push(if row.is_open { format!("{count}+") } else { count });
        let partly = if row.is_partial { "*" } else { "" };
        texts.push(row.rate.map_or("-".into(), format_rate) + partly);
        texts.push(shown.mean.map_or("-".into(), |mean| bound(mean.at_least) + &value(mean.value.round() as u64)));
        let first = texts.len();
        let text = |shown: &Option<ShownPercentile>| match shown {
            Some(shown) => {
                let mark = if shown.doubtful { "?" } else { "" };
                bound(shown.at_least) + &value(shown.value.round() as u64) + mark
            }
            None => "-".into(),
        };
        texts.extend(shown.values.iter().map(text));
        texts.push(shown.max.map_or("-".into(), |max| bound(max.at_least) + &value(max.value)));
        if self.options.waiting {
            texts.push(format_count(shown.waiting.count()));
            let oldest = |age_ns| bound(shown.waiting.oldest_is_bound()) + &format_duration(age_ns);
            texts.push(shown.waiting.oldest_ns().map_or("-".into(), oldest));
        }
        let doubtful = |&at: &usize| shown.values[at].is_some_and(|shown| shown.doubtful);
        let grey = (0..shown.values.len()).filter(doubtful).map(|at| first + at);
        let grey: Vec<usize> = if self.options.color { grey.collect() } else { Vec::new() };
        self.table.push_colored(texts, &grey, GREY);
    }

    /// A moment as the table shows it, for intervals of this width.
    pub fn label(&self, time_ns: i64, width_ns: u64) -> String {
        let decimals = if width_ns.is_multiple_of(1_000_000_000) { 0 } else { 3 };
        match self.to_unix_ns {
            Some(to_unix_ns) => format_wall(time_ns.saturating_add(to_unix_ns), decimals, false),
            None => match time_ns.saturating_sub(self.axis_start_ns.unwrap_or(0)) {
                ns if ns >= DAYS_NS => format_elapsed(ns.unsigned_abs(), width_ns),
                ns => format!("{:.decimals$}s", ns as f64 / 1e9),
            },
        }
    }

    /// The names of the numbers in base units.
    fn keys(&self) -> Vec<String> {
        let unit = if self.quantity.is_bytes() { "bytes" } else { "ns" };
        let mut keys = ["time_ns", "width_ns", "count", "rate_per_s"].map(str::to_string).to_vec();
        keys.push(format!("mean_{unit}"));
        keys.extend(self.names.iter().map(|name| format!("{}_{unit}", name.replace('.', "_"))));
        keys.extend([format!("max_{unit}"), "trusted_p".into(), "incomplete".into()]);
        keys.extend(["waiting", "oldest_ns", "at_least", "covered_ns"].map(str::to_string));
        keys
    }

    /// The numbers in base units; a missing one is empty.
    fn numbers(&self, row: &Row) -> Vec<String> {
        let shown = &row.shown;
        let mut numbers = vec![
            row.time_ns.to_string(),
            row.width_ns.to_string(),
            shown.count.to_string(),
            row.rate.map_or(String::new(), |rate| rate.to_string()),
            shown.mean.map_or(String::new(), |mean| mean.value.to_string()),
        ];
        numbers.extend(shown.values.iter().map(|value| value.map_or(String::new(), |shown| shown.value.to_string())));
        numbers.push(shown.max.map_or(String::new(), |max| max.value.to_string()));
        numbers.push(shown.trusted.to_string());
        numbers.push((row.is_open || row.is_partial).to_string());
        numbers.push(shown.waiting.count().to_string());
        numbers.push(shown.waiting.oldest_ns().map_or(String::new(), |age_ns| age_ns.to_string()));
        numbers.push(self.lower_bounds(shown));
        numbers.push(row.covered_ns.to_string());
        numbers
    }

    /// The keys of the numbers that are lower bounds, raised by what waits.
    fn lower_bounds(&self, shown: &ShownPercentiles) -> String {
        let values = self.names.iter().zip(&shown.values);
        let values =
            values.filter(|(_, value)| value.is_some_and(|value| value.at_least)).map(|(name, _)| name.clone());
        let mean = shown.mean.filter(|mean| mean.at_least).map(|_| "mean".to_string());
        let max = shown.max.filter(|max| max.at_least).map(|_| "max".to_string());
        let oldest = shown.waiting.oldest_is_bound().then(|| "oldest".to_string());
        mean.into_iter().chain(values).chain(max).chain(oldest).collect::<Vec<_>>().join(" ")
    }

    /// Hands on lines of CSV in base units, with a heading before the first; a percentile without events is empty.
    ///
    /// # Errors
    /// Those of `take`, which end it.
    pub fn each_csv_line<E>(
        &mut self,
        series: &HistogramSeries,
        take: &mut impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        if !std::mem::replace(&mut self.started, true) {
            let keys = self.keys();
            take(&csv_line(self.by.iter().map(|field| field.name()).chain(keys.iter().map(String::as_str))))?;
        }
        self.each_row(series, &mut |printer, row| {
            let numbers = printer.numbers(&row);
            take(&csv_line(row.group.iter().chain(&numbers).map(String::as_str)))
        })
    }

    /// Hands on lines as fio's `fiologparser_hist.py` prints them, of the intervals that have events: the end of the
    /// interval in milliseconds on the clock of the log, then values in nanoseconds, or bytes. The first percentile is the median.
    ///
    /// # Errors
    /// Those of `take`, which end it.
    pub fn each_fiologparser_line<E>(
        &mut self,
        series: &HistogramSeries,
        take: &mut impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        if !std::mem::replace(&mut self.started, true) {
            let percentiles: String = self.names.iter().skip(1).map(|name| format!("{}%, ", &name[1..])).collect();
            take(&format!("end-time, samples, min, avg, median, {percentiles}max\n"))?;
        }
        self.each_row(series, &mut |_, row| {
            let (Some(mean), Some(max)) = (row.shown.mean, row.shown.max) else { return Ok(()) };
            let end_ns = row.time_ns.saturating_add_unsigned(row.width_ns);
            let end_ms = end_ns / 1_000_000;
            let values = row.shown.values.iter().flatten().map(|shown| format!("{:.3}, ", shown.value));
            let values: String = values.collect();
            // Parts of requests that outlast the interval may come to less than one.
            let (count, min, mean) = (row.shown.count.round().max(1.0), row.min.min(max.value), mean.value);
            take(&format!("{end_ms}, {count}, {min}, {mean:.3}, {values}{}\n", max.value))
        })
    }

    /// Hands on a JSON object per line, keys as in CSV; null for a percentile without events.
    ///
    /// # Errors
    /// Those of `take`, which end it.
    pub fn each_json_line<E>(
        &mut self,
        series: &HistogramSeries,
        take: &mut impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        let keys = self.keys();
        self.each_row(series, &mut |printer, row| {
            let texts = printer.by.iter().zip(&row.group);
            let texts = texts.map(|(field, value)| format!("\"{}\":{}", field.name(), latscope_view::json_text(value)));
            let numbers = keys.iter().zip(printer.numbers(&row));
            let numbers = numbers.map(|(key, value)| match key.as_str() {
                "at_least" => format!("\"{key}\":{}", latscope_view::json_text(&value)),
                _ => format!("\"{key}\":{}", if value.is_empty() { "null" } else { &value }),
            });
            take(&format!("{{{}}}\n", texts.chain(numbers).collect::<Vec<_>>().join(",")))
        })
    }
}

/// What stands before a lower bound.
fn bound(at_least: bool) -> String {
    if at_least { ">=".into() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_event::Batch;
    use latscope_series::{Interval, SeriesBuilder, Weight};
    use std::fmt::Write;

    fn series() -> HistogramSeries {
        let mut batch = Batch::new([Field::Device].into_iter().collect());
        for at in 0..300u64 {
            batch.push_i64(Field::Time, (at * 10_000_000) as i64);
            batch.push_u64(Field::Latency, if at % 100 == 99 { 5_000_000 } else { 100 });
            batch.push_text(Field::Device, Some(if at < 250 { b"vda" } else { b"vdb" }));
            batch.end_row();
        }
        let mut builder =
            SeriesBuilder::new(Quantity::Latency, Weight::Count, vec![Field::Device], Interval::Fixed(1_000_000_000));
        builder.add(&batch, None);
        builder.finish()
    }

    fn lines(printer: &mut Percentiles) -> Vec<Line> {
        let mut lines = Vec::new();
        let taken = printer.each_line(&series(), 100, &mut |line| {
            lines.push(line.clone());
            Ok::<(), ()>(())
        });
        taken.map(|()| lines).unwrap()
    }

    fn csv(printer: &mut Percentiles) -> String {
        let mut text = String::new();
        printer.each_csv_line(&series(), &mut |line| write!(text, "{line}")).unwrap();
        text
    }

    fn json(printer: &mut Percentiles) -> String {
        let mut text = String::new();
        printer.each_json_line(&series(), &mut |line| write!(text, "{line}")).unwrap();
        text
    }

    #[test]
    fn a_line_for_each_interval_and_group() {
        let mut printer = Percentiles::new(&[50.0, 99.0, 99.9], &[Field::Device], Quantity::Latency, None);
        let texts: Vec<_> = lines(&mut printer).iter().map(Line::text).collect();
        assert_eq!(
            texts,
            [
                "time  device  count   rate    mean    p50     p99   p99.9    max",
                "0s    vda       100  100/s  50.1us  100ns  100ns?    5ms?    5ms",
                "1s    vda       100  100/s  50.1us  100ns  100ns?    5ms?    5ms",
                "2s    vda        50   50/s   100ns  100ns  100ns?  100ns?  100ns",
                "2s    vdb        50   50/s   100us  100ns    5ms?    5ms?    5ms",
            ]
        );
        assert!(lines(&mut printer)[0].text().starts_with("0s"), "the heading stands once");
        let legend: Vec<_> = printer.legend(100).iter().map(Line::text).collect();
        assert_eq!(legend, ["? fewer than ten events beyond this percentile"], "what is printed, and nothing else");
        let mut plain = Percentiles::new(&[50.0], &[Field::Device], Quantity::Latency, None);
        lines(&mut plain);
        assert!(plain.legend(100).is_empty());
    }

    #[test]
    fn a_line_over_all_groups_and_marks_of_what_is_doubtful() {
        let options = PercentileOptions {
            all: true,
            color: true,
            complete_until_ns: Some(2_500_000_000),
            rule: Rule::Fio,
            ..PercentileOptions::default()
        };
        let quantity = Quantity::Latency;
        let mut printer = Percentiles::new(&[50.0, 90.0, 99.0], &[Field::Device], quantity, None).with(options);
        let lines = lines(&mut printer);
        let texts: Vec<_> = lines.iter().map(Line::text).collect();
        assert_eq!(
            texts,
            [
                "time  device  count   rate    mean    p50     p90      p99    max",
                "0s    vda       100  100/s  50.1us  100ns   100ns   100ns?    5ms",
                "0s    all       100  100/s  50.1us  100ns   100ns   100ns?    5ms",
                "1s    vda       100  100/s  50.1us  100ns   100ns   100ns?    5ms",
                "1s    all       100  100/s  50.1us  100ns   100ns   100ns?    5ms",
                "2s    vda       50+   50/s   100ns  100ns  100ns?   100ns?  100ns",
                "2s    vdb       50+   50/s   100us  100ns  100ns?  5.01ms?    5ms",
                "2s    all      100+  100/s  50.1us  100ns   100ns   100ns?    5ms",
            ]
        );
        let legend: Vec<_> = printer.legend(100).iter().map(Line::text).collect();
        let open = "+ the trace may lack events that were in flight at its end";
        assert_eq!(legend, ["? fewer than ten events beyond this percentile", open]);
        // Ten of a hundred lie beyond p90, one beyond p99; of fifty, five.
        let grey = |line: &Line| line.cells.iter().filter(|cell| cell.foreground == GREY).count();
        assert_eq!(lines.iter().map(grey).collect::<Vec<_>>(), [0, 6, 6, 6, 6, 12, 13, 6]);
        let json = json(&mut printer);
        let last: serde_json::Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
        assert_eq!(
            (last["device"].as_str(), last["count"].as_u64(), last["trusted_p"].as_u64()),
            (Some("all"), Some(100), Some(90))
        );
        assert_eq!((last["incomplete"].as_bool(), json.matches("\"incomplete\":false").count()), (Some(true), 4));
    }

    #[test]
    fn machines_get_base_units() {
        let mut printer = Percentiles::new(&[99.0], &[Field::Device], Quantity::Latency, None);
        let csv = csv(&mut printer);
        assert!(csv.starts_with("device,time_ns,width_ns,count,rate_per_s,mean_ns,p99_ns,max_ns,trusted_p,incomplete,waiting,oldest_ns,at_least,covered_ns\nvda,0,1000000000,100,100,50099,100,5000000,90,false,0,,,1000000000\n"), "{csv}");
        let json = json(&mut printer);
        let last: serde_json::Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
        assert_eq!((last["device"].as_str(), last["p99_ns"].as_u64()), (Some("vdb"), Some(5_000_000)));
    }
}
