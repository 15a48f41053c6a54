//! Stored series as a source: files that hold histograms, no events.
//!
//! A filter may look at the interval's time, the latency (at bucket edges) and the group fields; to use the same
//! evaluation as for events, every bucket of every histogram stands as one row in a batch.

use crate::Failure;
use crate::plan::{Folding, Reading};
use latscope_capture_file::{Format, SeriesReader, SeriesRow, format_of};
use latscope_event::{Batch, Context, Field, FieldSet, Mask};
use latscope_filter::Filter;
use latscope_histogram::{Sparse, Totals};
use latscope_series::{HistogramSeries, next_wider};
use std::path::Path;

/// Reads the files as stored series, `None` when they hold events.
pub fn read(
    reading: &Reading,
    folding: &Folding,
    limit: u32,
) -> Result<Option<(HistogramSeries, Vec<Context>)>, Failure> {
    let stored = |file: &Path| {
        let format = || reading.format.or_else(|| format_of(file).ok());
        file != Path::new("-") && format().is_some_and(Format::is_series)
    };
    match reading.files.iter().filter(|file| stored(file)).count() {
        0 => return Ok(None),
        some if some < reading.files.len() => {
            return Err(Failure::Usage(
                "Files of events and files of stored histograms do not mix; give them to separate calls.".into(),
            ));
        }
        _ => {}
    }
    let mut sum: Option<HistogramSeries> = None;
    let mut contexts = Vec::new();
    for file in &reading.files {
        let (series, context) = load(file, reading, folding)?;
        contexts.push(context);
        match &mut sum {
            None => sum = Some(series),
            Some(sum) => sum.merge(&series).map_err(|error| Failure::Usage(format!("{}: {error}.", file.display())))?,
        }
    }
    let Some(series) = sum else { return Ok(None) };
    Ok(Some((widened(series, folding, limit)?, contexts)))
}

fn load(file: &Path, reading: &Reading, folding: &Folding) -> Result<(HistogramSeries, Context), Failure> {
    let input = |error: latscope_capture_file::Error| Failure::Input(error.to_string());
    let mut reader = SeriesReader::open(file, reading.format).map_err(input)?;
    let header = reader.header().clone();
    if header.value != folding.quantity.word() || header.weight != folding.weight.word() {
        return Err(Failure::Usage(format!(
            "{} holds histograms of {} weighted by {}; they cannot be shown as {} by {}.",
            file.display(),
            header.value,
            header.weight,
            folding.quantity.word(),
            folding.weight.word()
        )));
    }
    // Any of the stored group fields may be asked for; the others are summed over.
    let places: Vec<usize> = folding
        .by
        .iter()
        .map(|field| {
            header.group_fields.iter().position(|name| name == field.name()).ok_or_else(|| {
                Failure::Usage(format!(
                    "{} is not grouped by {}; it has: {}.",
                    file.display(),
                    field.name(),
                    header.group_fields.join(", ")
                ))
            })
        })
        .collect::<Result<_, _>>()?;
    let mut pick = match &reading.filter {
        None => None,
        Some(filter) => Some(Picker::new(filter, &header.group_fields, reader.context())?),
    };
    let mut series: Option<HistogramSeries> = None;
    while let Some(row) = reader.next() {
        let row = row.map_err(input)?;
        let is_uneven = reader.is_uneven();
        let series = series.get_or_insert_with(|| {
            let width_ns = if is_uneven { even_width(row.width_ns, folding) } else { row.width_ns };
            HistogramSeries::new(folding.quantity, folding.weight, folding.by.clone(), width_ns)
        });
        if !is_uneven && row.width_ns != series.width_ns() {
            return Err(Failure::Input(format!(
                "{}: Its intervals have different widths, which is not supported.",
                file.display()
            )));
        }
        // What an uneven row holds completed halfway through it, on the average.
        let moment = if is_uneven { row.time_ns.saturating_add_unsigned(row.width_ns / 2) } else { row.time_ns };
        let histogram = match &mut pick {
            Some(pick) => pick.filtered(&row, moment)?,
            None => row.histogram,
        };
        if histogram.totals().count > 0 {
            let group = places.iter().map(|&at| row.groups[at].clone()).collect();
            let interval = moment.div_euclid(series.width_ns() as i64);
            series
                .insert(interval, group, &histogram)
                .map_err(|error| Failure::Input(format!("{}: {error}.", file.display())))?;
        }
    }
    let series = series
        .unwrap_or_else(|| HistogramSeries::new(folding.quantity, folding.weight, folding.by.clone(), 1_000_000_000));
    Ok((series, reader.context().clone()))
}

/// The width of the intervals that rows of their own widths are put into: as asked, or the next round one.
fn even_width(row_ns: u64, folding: &Folding) -> u64 {
    let round = std::iter::successors(Some(1_000_000), |&width_ns| Some(next_wider(width_ns)));
    folding
        .interval
        .unwrap_or_else(|| round.into_iter().find(|&width_ns| width_ns + width_ns / 4 >= row_ns).unwrap_or(row_ns))
}

/// The asked interval, or the shortest round one with which no more than `limit` are needed.
fn widened(series: HistogramSeries, folding: &Folding, limit: u32) -> Result<HistogramSeries, Failure> {
    if let Some(width_ns) = folding.interval {
        let stored = series.width_ns();
        return series.rebinned(width_ns).ok_or_else(|| {
            let stored = latscope_event::format_duration_exact(stored);
            Failure::Usage(format!("The stored intervals are {stored} long; -i must be a whole multiple of that."))
        });
    }
    Ok(series.fitted(limit))
}

/// Applies a filter to buckets.
struct Picker {
    bound: latscope_filter::BoundFilter,
    batch: Batch,
    groups: Vec<Field>,
    mask: Mask,
}

impl Picker {
    fn new(filter: &Filter, group_fields: &[String], context: &Context) -> Result<Picker, Failure> {
        let groups: Vec<Field> = group_fields.iter().filter_map(|name| Field::from_name(name)).collect();
        let known = groups.iter().copied().collect::<FieldSet>().union(FieldSet::ALWAYS);
        if let Some(field) = filter.fields().iter().find(|&field| !known.contains(field)) {
            return Err(Failure::Usage(format!(
                "Stored histograms know time, latency and their groups ({}), so they cannot be filtered by {}.",
                group_fields.join(", "),
                field.name()
            )));
        }
        let bound = filter.bind(context.time_zero()).map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(Picker { bound, batch: Batch::new(known), groups, mask: Mask::default() })
    }

    /// The buckets that the filter lets through. Their sum is no longer known exactly: a bucket counts with its middle.
    fn filtered(&mut self, row: &SeriesRow, moment: i64) -> Result<Sparse, Failure> {
        self.batch.clear();
        let grid = row.histogram.grid();
        for &index in row.histogram.indices() {
            let lower = grid.lower(index as usize);
            self.batch.push_i64(Field::Time, moment.saturating_sub_unsigned(lower));
            self.batch.push_u64(Field::Latency, lower);
            for (field, text) in self.groups.iter().zip(&row.groups) {
                self.batch.push_text(*field, (text != HistogramSeries::NO_VALUE).then_some(text.as_bytes()));
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
        let middle = |index: u32| grid.lower(index as usize) / 2 + grid.upper(index as usize).div_ceil(2);
        let whole = row.histogram.totals();
        let totals = Totals {
            count: counts.iter().sum(),
            sum: indices
                .iter()
                .zip(&counts)
                .map(|(&index, &count)| u128::from(middle(index)) * u128::from(count))
                .sum(),
            min: indices.first().map_or(u64::MAX, |&index| grid.lower(index as usize).max(whole.min)),
            max: indices.last().map_or(0, |&index| grid.upper(index as usize).min(whole.max)),
        };
        Sparse::from_parts(grid, indices, counts, row.histogram.weights().map(of), totals)
            .map_err(|error| Failure::Input(error.to_string()))
    }
}
