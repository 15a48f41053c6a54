//! Stored series as a source: files that hold histograms, no events.
//!
//! A filter may look at the interval's time, the latency (at bucket edges) and the group fields; to use the same
//! evaluation as for events, every bucket of every histogram stands as one row in a batch.

use crate::ages::Ages;
use crate::files::MOST_READERS;
use crate::named::name;
use crate::pass::trace_start;
use crate::starts::Starts;
use crate::{Error, Folding, Notice, Pipeline, series, workers};
use latscope_capture_file::{Format, Query, ReadOptions, SeriesHeader, SeriesReader, SeriesRow, is_pipe};
use latscope_event::{Anomaly, Batch, Clock, Context, Field, FieldSet, Mask, TraceStart};
use latscope_filter::Filter;
use latscope_histogram::{Sparse, Totals};
use latscope_series::{HistogramSeries, Interval, Run, SeriesBuilder, Stretch, Weight, next_wider, round_multiples};
use std::path::Path;
use std::sync::Arc;

impl Pipeline {
    /// The files, of which some hold histograms, as one series. The events of the others are folded and added.
    pub(crate) fn stored(&self, folding: &Folding, limit: u32) -> Result<(HistogramSeries, Vec<Context>, Ages), Error> {
        let formats = &self.formats;
        let is_series = |at: &usize| formats[*at].is_some_and(Format::is_series);
        let (mut files, events): (Vec<usize>, Vec<usize>) = (0..formats.len()).partition(is_series);
        let of_jobs = |at: &usize| formats[*at] == Some(Format::FioJson);
        let mut stored = Stored { pipeline: self, folding, starts: Starts::new(self)?, row_ns: None };
        if events.is_empty() && files.iter().all(of_jobs) {
            return stored.runs(&files).map(|(series, contexts)| (series, contexts, Ages::default()));
        }
        if folding.over_time {
            let jobs: Vec<usize> = files.extract_if(.., |at| of_jobs(at)).collect();
            if let [first, others @ ..] = &jobs[..] {
                let file = self.reading.files[*first].clone();
                self.control.notice(Notice::JobsLeftOut { file, more: others.len() });
            }
        }
        let new_builder = || series::new_builder(folding, limit);
        if files.is_empty() {
            let (builder, contexts) = self.fold_builders(&events, &new_builder)?;
            let series = builder.finish_over(self.covered_ns(&contexts));
            return Ok((series, contexts, Ages::default()));
        }
        if folding.interval.is_none() {
            stored.row_ns = files.iter().find_map(|&at| stored.first_row(at));
        }
        // Series of intervals of one width are put together in the order of the files.
        let is_even = |at: &usize| {
            matches!(formats[*at], Some(Format::Parquet | Format::ParquetSeries | Format::Frames | Format::History))
        };
        let workers = if files.iter().any(is_even) { 1 } else { MOST_READERS };
        let load = |sums: &mut Sums, at: usize, _| stored.load(sums, files[at]);
        let (mut sums, contexts) = workers::each_file(files.len(), workers, &Sums::default, load, Sums::merge)?;
        let ages = std::mem::take(&mut sums.ages);
        let mut series = stored.finish(sums)?;
        if let Some((from_ns, to_ns)) = self.covered_ns(&contexts).filter(|_| folding.interval.is_none())
            && !series.slices().is_empty()
        {
            series.reach(from_ns, to_ns);
        }
        let series = widened(series, folding, limit)?;
        if events.is_empty() {
            return Ok((series, contexts, ages));
        }
        let (builder, more) = self.fold_builders(&events, &new_builder)?;
        let mut numbered: Vec<_> = files.into_iter().chain(events).zip(contexts.into_iter().chain(more)).collect();
        numbered.sort_by_key(|&(at, _)| at);
        let contexts: Vec<Context> = numbered.into_iter().map(|(_, context)| context).collect();
        let sum = merged(series, builder.finish_over(self.covered_ns(&contexts)))?;
        Ok((if folding.interval.is_some() { sum } else { sum.fitted(limit) }, contexts, ages))
    }
}

/// Two series as one, in intervals that are whole multiples of those of both.
fn merged(mut series: HistogramSeries, mut other: HistogramSeries) -> Result<HistogramSeries, Error> {
    // One without anything in it has intervals of any length.
    if other.slices().is_empty() {
        return Ok(series);
    }
    if series.slices().is_empty() {
        return Ok(other);
    }
    let widths = [series.width_ns(), other.width_ns()];
    let multiples = round_multiples(widths[0]).chain(round_multiples(widths[1]));
    let common_ns = multiples.filter(|common| widths.iter().all(|&width_ns| common.is_multiple_of(width_ns))).min();
    for series in [&mut series, &mut other] {
        if let Some(wide) = common_ns.and_then(|width_ns| series.rebinned(width_ns)) {
            *series = wide;
        }
    }
    merge(&mut series, &other)?;
    Ok(series)
}

/// Files that are read.
pub(crate) struct Stored<'a> {
    pub pipeline: &'a Pipeline,
    pub folding: &'a Folding,
    pub starts: Starts<'a>,
    /// How wide the first of all rows of their own widths is.
    pub row_ns: Option<u64>,
}

/// What was read so far.
#[derive(Default)]
struct Sums {
    /// Of intervals of one width.
    even: Option<HistogramSeries>,
    /// Of rows of their own widths.
    uneven: Option<SeriesBuilder>,
    /// At the ends of intervals of one width.
    ages: Ages,
}

impl Sums {
    /// Takes over what another worker read, of rows of their own widths.
    fn merge(&mut self, other: Sums) {
        self.ages.merge(other.ages);
        match (&mut self.uneven, other.uneven) {
            (Some(mine), Some(theirs)) => mine.merge(theirs),
            (none @ None, theirs) => *none = theirs,
            (Some(_), None) => {}
        }
    }
}

impl Stored<'_> {
    /// Whether rows are counted as a whole where they completed, so that their counts can be weighted.
    fn has_octaves(&self, at: usize) -> bool {
        matches!(self.pipeline.formats[at], Some(Format::PyLatencyMap | Format::HistogramText | Format::Hlog))
    }

    fn open(&self, at: usize) -> Result<SeriesReader, Error> {
        let options = ReadOptions { query: self.query(), ..self.pipeline.options(at, FieldSet::ALWAYS) };
        let reader = SeriesReader::open(&self.pipeline.reading.files[at], &options)?;
        Ok(reader.counted_in(self.folding.count_by.per_event()))
    }

    /// What is asked of a hub: what the filter can let through, which then looks at it again.
    fn query(&self) -> Query {
        let Some(filter) = &self.pipeline.reading.filter else {
            return Query {
                width_ns: self.folding.interval,
                by_host: self.folding.by.contains(&Field::Host),
                follow: self.pipeline.reading.follow,
                ..Query::default()
            };
        };
        let start = trace_start(&Context::new("hub", Clock::wall()), None);
        // Buckets stand for events, which completed in the interval.
        let (from_ns, to_ns) = filter.clipped((i64::MIN, i64::MAX), start).unwrap_or((i64::MAX, i64::MIN));
        let by_host = self.folding.by.contains(&Field::Host) || filter.fields().contains(Field::Host);
        Query { from_ns, to_ns, width_ns: self.folding.interval, by_host, follow: self.pipeline.reading.follow }
    }

    /// The width of the first row, when it may have any; errors are reported when the file is read.
    fn first_row(&self, at: usize) -> Option<u64> {
        if is_pipe(&self.pipeline.reading.files[at]) {
            return None; // It can be read only once.
        }
        let mut reader = self.open(at).ok().filter(SeriesReader::is_uneven)?;
        reader.next()?.ok().map(|row| row.width_ns)
    }

    /// Whole jobs, each an interval.
    fn runs(&self, files: &[usize]) -> Result<(HistogramSeries, Vec<Context>), Error> {
        let mut runs = Vec::new();
        let mut take = |_: &Context, picked: Picked| {
            let (from_ns, group) = (picked.row.time_ns, picked.labels.to_vec());
            let to_ns = from_ns.saturating_add_unsigned(picked.row.width_ns);
            if picked.histogram.totals().count > 0 {
                runs.push(Run { from_ns, to_ns, group, histogram: picked.histogram.clone() });
            }
            Ok::<(), Error>(())
        };
        let contexts = files.iter().map(|&at| self.each_row(at, &mut take)).collect::<Result<Vec<_>, _>>()?;
        let Folding { quantity, weight, by, .. } = self.folding;
        let series = HistogramSeries::of_runs(*quantity, *weight, by.clone(), runs);
        series.map(|series| (series, contexts)).map_err(|error| Error::Series(error.to_string()))
    }

    /// Hands on the rows of a file, as far as the filter lets them through, with the context as known so far.
    pub(crate) fn each_row<E: From<Error>>(
        &self,
        at: usize,
        take: &mut impl FnMut(&Context, Picked) -> Result<(), E>,
    ) -> Result<Context, E> {
        let mut reader = self.open(at)?;
        let file = &self.pipeline.reading.files[at];
        // Counts become time by the middles of their buckets.
        let weighs_time = self.folding.weight == Weight::Time && self.has_octaves(at);
        let mut header = reader.header().clone();
        if weighs_time {
            header.weight = Weight::Time.word().into();
        }
        // Of a hub without agents, and of a file that was just started, nobody knows the groups.
        let is_unknown =
            self.pipeline.formats[at] == Some(Format::Frames) && !reader.context().properties.contains_key("source");
        let places = places(file, &header, self.folding, is_unknown)?;
        let mut pick = match &self.pipeline.reading.filter {
            None => None,
            Some(filter) => {
                let context = self.starts.context(at, reader.context().clone());
                let start_ns = self.starts.common_ns();
                Some(Picker::new(filter, &reader.header().group_fields, name(file), trace_start(&context, start_ns))?)
            }
        };
        let (is_uneven, shift_ns) = (reader.is_uneven(), self.starts.shift_ns(at, reader.context()));
        let mut start_ns = None;
        let mut group = Group { values: None, labels: vec![name(file); places.len()] };
        while let Some(row) = reader.next() {
            let mut row = row.map_err(Error::from)?;
            // Some formats know it from the first row on.
            start_ns = start_ns.or_else(|| self.starts.start_ns(at, reader.context()));
            row.time_ns = row.time_ns.saturating_add(shift_ns);
            let ages = row.waiting.take();
            // What an uneven row holds completed halfway through it, on the average.
            let moment = if is_uneven { row.time_ns.saturating_add_unsigned(row.width_ns / 2) } else { row.time_ns };
            let histogram = match &mut pick {
                Some(pick) => &pick.filtered(&row, moment)?,
                None => &row.histogram,
            };
            let histogram = if weighs_time { &by_time(histogram)? } else { histogram };
            let waiting = match (&mut pick, ages) {
                (Some(pick), Some(ages)) => {
                    let ages = pick.filtered(&SeriesRow { histogram: ages, ..row.clone() }, moment)?;
                    Some(ages).filter(|ages| ages.totals().count > 0)
                }
                (_, ages) => ages,
            };
            let labels = group.labels(&row.groups, &places);
            let usual_ns = reader.usual_ns();
            let waiting = waiting.as_ref();
            take(
                reader.context(),
                Picked { row: &row, moment, histogram, waiting, labels, is_uneven, usual_ns, start_ns },
            )?;
        }
        let mut context = self.starts.context(at, reader.context().clone());
        if self.pipeline.reading.filter.is_some() {
            // It may let only some of that time through.
            context.observed_ns.clear();
        }
        Ok(context)
    }

    fn load(&self, sums: &mut Sums, at: usize) -> Result<Context, Error> {
        let (file, folding) = (&self.pipeline.reading.files[at], self.folding);
        let mut even: Option<HistogramSeries> = None;
        let mut spread = 0;
        if let Some(builder) = &mut sums.uneven {
            builder.start_trace_number(at as u32);
        }
        let mut context = self.each_row(at, &mut |_: &Context, picked: Picked| {
            let Picked { row, moment, histogram, labels, .. } = picked;
            if picked.is_uneven {
                let builder = sums.uneven.get_or_insert_with(|| {
                    let mut builder = builder(folding, self.row_ns.unwrap_or(row.width_ns));
                    builder.start_trace_number(at as u32);
                    builder
                });
                builder.starts_at(picked.start_ns);
                let (from_ns, to_ns) = (row.time_ns, row.time_ns.saturating_add_unsigned(row.width_ns));
                let usual_ns = picked.usual_ns;
                let length_ns = usual_ns.unwrap_or(row.width_ns);
                spread += u64::from(folding.interval.is_some_and(|width_ns| length_ns > width_ns + width_ns / 4));
                builder.add_stretch(&Stretch { from_ns, to_ns, usual_ns, group: labels, histogram });
                return if builder.is_full() { Err(series::too_large()) } else { Ok(()) };
            }
            let series = even.get_or_insert_with(|| empty(folding, row.width_ns));
            if row.width_ns != series.width_ns() {
                return Err(Error::Widths(file.clone()));
            }
            if histogram.totals().count > 0 {
                series
                    .insert(moment.div_euclid(series.width_ns() as i64), labels.to_vec(), histogram)
                    .map_err(|error| Error::Series(format!("{}: {error}", file.display())))?;
            }
            if let Some(ages) = picked.waiting {
                let end_ns = row.time_ns.saturating_add_unsigned(row.width_ns);
                sums.ages.add(end_ns, labels, ages);
            }
            Ok(())
        })?;
        match (&mut sums.even, even) {
            (Some(sum), Some(series)) => {
                let both = merged(std::mem::replace(sum, empty(folding, 1)), series)?;
                *sum = both;
            }
            (none, Some(series)) => *none = Some(series),
            (_, None) => {}
        }
        context.tally.add(Anomaly::SpreadRows, spread);
        Ok(context)
    }

    fn finish(&self, sums: Sums) -> Result<HistogramSeries, Error> {
        match (sums.even, sums.uneven.map(SeriesBuilder::finish)) {
            (Some(mut even), Some(uneven)) => merge(&mut even, &uneven).map(|()| even),
            (Some(series), None) | (None, Some(series)) => Ok(series),
            (None, None) => Ok(empty(self.folding, self.folding.interval.unwrap_or(1_000_000_000))),
        }
    }
}

/// A row of a file.
pub(crate) struct Picked<'a> {
    /// At the common time.
    pub row: &'a SeriesRow,
    /// When its events completed, on the average where that is all that is known.
    pub moment: i64,
    /// What the filter lets through.
    pub histogram: &'a Sparse,
    /// Ages of what waited at its end, as far as the filter lets them through.
    pub waiting: Option<&'a Sparse>,
    /// The values of the asked groups.
    pub labels: &'a [String],
    pub is_uneven: bool,
    pub usual_ns: Option<u64>,
    pub start_ns: Option<i64>,
}

/// The labels of a row's group; most rows share theirs with the one before.
struct Group {
    values: Option<Arc<[String]>>,
    /// At first the name of the trace, which stays where a row has no label.
    labels: Vec<String>,
}

impl Group {
    fn labels(&mut self, values: &Arc<[String]>, places: &[Option<usize>]) -> &[String] {
        if !self.values.as_ref().is_some_and(|known| Arc::ptr_eq(known, values)) {
            let places = self.labels.iter_mut().zip(places);
            places
                .filter_map(|(label, at)| Some((label, (*at)?)))
                .for_each(|(label, at)| label.clone_from(&values[at]));
            self.values = Some(Arc::clone(values));
        }
        &self.labels
    }
}

fn merge(sum: &mut HistogramSeries, series: &HistogramSeries) -> Result<(), Error> {
    sum.merge(series).map_err(Error::Merge)
}

pub(crate) fn empty(folding: &Folding, width_ns: u64) -> HistogramSeries {
    HistogramSeries::new(folding.quantity, folding.weight, folding.by.clone(), width_ns).on_grid(folding.precision)
}

/// For rows of their own widths, of which the first is so wide.
pub(crate) fn builder(folding: &Folding, row_ns: u64) -> SeriesBuilder {
    let interval = Interval::Fixed(even_width(row_ns, folding));
    SeriesBuilder::new(folding.quantity, folding.weight, folding.by.clone(), interval)
        .count_by(folding.count_by)
        .on_grid(folding.precision)
}

/// Where in a row the asked groups are: any of the stored fields may be asked for, the others are summed over. `None`: the group
/// is the trace itself.
fn places(
    file: &Path,
    header: &SeriesHeader,
    folding: &Folding,
    is_unknown: bool,
) -> Result<Vec<Option<usize>>, Error> {
    let kind = |value: &str, weight: &str, by: &str| format!("{value} {by} {weight}");
    if header.value != folding.quantity.word() || header.weight != folding.weight.word() {
        return Err(Error::OtherSeries {
            file: file.into(),
            stored: kind(&header.value, &header.weight, "weighted by"),
            asked: kind(folding.quantity.word(), folding.weight.word(), "by"),
        });
    }
    let has = &header.group_fields;
    let place = |&field: &Field| match has.iter().position(|name| name == field.name()) {
        None if field != Field::Trace && !is_unknown => {
            Err(Error::NoGroup { file: file.into(), field, has: has.clone() })
        }
        at => Ok(at),
    };
    folding.by.iter().map(place).collect()
}

/// The width of the intervals that rows of their own widths are put into: as asked, or the next round one.
pub(crate) fn even_width(row_ns: u64, folding: &Folding) -> u64 {
    let round = std::iter::successors(Some(1_000_000), |&width_ns| Some(next_wider(width_ns)));
    folding
        .interval
        .unwrap_or_else(|| round.into_iter().find(|&width_ns| width_ns + width_ns / 4 >= row_ns).unwrap_or(row_ns))
}

/// The asked interval, or the shortest round one with which no more than `limit` are needed.
fn widened(series: HistogramSeries, folding: &Folding, limit: u32) -> Result<HistogramSeries, Error> {
    if let Some(width_ns) = folding.interval {
        let stored = series.width_ns();
        return series.rebinned(width_ns).ok_or(Error::Width(stored));
    }
    Ok(series.fitted(limit))
}

/// The same counts with the time that they took: that of the middles of the buckets, and together as much as is known.
fn by_time(histogram: &Sparse) -> Result<Sparse, Error> {
    let (grid, totals) = (histogram.grid(), *histogram.totals());
    let middles: Vec<f64> =
        histogram.buckets().map(|(index, count, _)| grid.middle(index) as f64 * count as f64).collect();
    let factor = totals.sum as f64 / middles.iter().sum::<f64>().max(1.0);
    let weights = middles.iter().map(|time_ns| (time_ns * factor).round() as u64).collect();
    let (indices, counts) = (histogram.indices().to_vec(), histogram.counts().to_vec());
    Sparse::from_parts(grid, indices, counts, Some(weights), totals).map_err(|error| Error::Series(error.to_string()))
}

/// Applies a filter to buckets.
struct Picker {
    bound: latscope_filter::BoundFilter,
    batch: Batch,
    groups: Vec<Field>,
    /// The name of the trace, where it is no group.
    trace: Option<String>,
    mask: Mask,
}

impl Picker {
    fn new(filter: &Filter, group_fields: &[String], trace: String, start: TraceStart) -> Result<Picker, Error> {
        let groups: Vec<Field> = group_fields.iter().filter_map(|name| Field::from_name(name)).collect();
        let trace = (!groups.contains(&Field::Trace)).then_some(trace);
        let known = groups.iter().copied().collect::<FieldSet>().union(FieldSet::ALWAYS).with(&[Field::Trace]);
        if let Some(field) = filter.fields().iter().find(|&field| !known.contains(field)) {
            return Err(Error::NotFilterable { field, has: group_fields.to_vec() });
        }
        let bound = filter.bind(start)?;
        Ok(Picker { bound, batch: Batch::new(known), groups, trace, mask: Mask::default() })
    }

    /// The buckets that the filter lets through. Their sum is no longer known exactly: a bucket counts with its middle.
    fn filtered(&mut self, row: &SeriesRow, moment: i64) -> Result<Sparse, Error> {
        self.batch.clear();
        let grid = row.histogram.grid();
        for &index in row.histogram.indices() {
            let lower = grid.lower(index as usize);
            self.batch.push_i64(Field::Time, moment.saturating_sub_unsigned(lower));
            self.batch.push_u64(Field::Latency, lower);
            for (field, text) in self.groups.iter().zip(row.groups.iter()) {
                self.batch.push_text(*field, (text != HistogramSeries::NO_VALUE).then_some(text.as_bytes()));
            }
            if let Some(trace) = &self.trace {
                self.batch.push_text(Field::Trace, Some(trace.as_bytes()));
            }
            self.batch.end_row();
        }
        self.bound.eval(&self.batch, &mut self.mask);
        if self.mask.count() == row.histogram.indices().len() {
            return Ok(row.histogram.clone());
        }
        let kept: Vec<usize> = self.mask.ones().collect();
        let of = |list: &[u64]| kept.iter().map(|&at| list[at]).collect::<Vec<u64>>();
        let indices: Vec<u32> = kept.iter().map(|&at| row.histogram.indices()[at]).collect();
        let counts = of(row.histogram.counts());
        let whole = row.histogram.totals();
        let totals = Totals {
            count: counts.iter().sum(),
            sum: indices
                .iter()
                .zip(&counts)
                .map(|(&index, &count)| u128::from(grid.middle(index as usize)) * u128::from(count))
                .sum(),
            min: indices.first().map_or(u64::MAX, |&index| grid.lower(index as usize).max(whole.min)),
            max: indices.last().map_or(0, |&index| grid.upper(index as usize).min(whole.max)),
            // Those of single buckets are not known.
            bytes: None,
        };
        Sparse::from_parts(grid, indices, counts, row.histogram.weights().map(of), totals)
            .map_err(|error| Error::Series(error.to_string()))
    }
}
