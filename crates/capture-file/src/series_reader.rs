//! Files that hold histograms instead of events, whatever their format.

use crate::fio::hist::FioHist;
use crate::fio::json::FioJson;
use crate::hlog::Hlog;
use crate::input::Input;
use crate::parquet::ParquetSeries;
use crate::{Error, Format, Place, ReadOptions, detect};
use latscope_event::Context;
use latscope_histogram::Sparse;
use std::path::Path;
use std::sync::Arc;

/// What a series is of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeriesHeader {
    /// Names of the fields that make a group; they are columns of the file.
    pub group_fields: Vec<String>,
    /// What the histograms are of: `latency`, `size` ...
    pub value: String,
    /// What the cells add up: `count`, `time` or `bytes`.
    pub weight: String,
}

/// The histogram of one interval and group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeriesRow {
    /// Start of the interval.
    pub time_ns: i64,
    /// Width of the interval; 0 for several rows of one moment, which fio's logs have.
    pub width_ns: u64,
    /// Values of the group fields; `-` where there is none. Many rows of a file share them.
    pub groups: Arc<[String]>,
    /// The histogram. A sum beyond `i64::MAX` (292 years of waiting in one interval) is stored as that.
    pub histogram: Sparse,
}

/// The rows of a series, one after the other. After an error there are no more.
pub struct SeriesReader(Rows);

enum Rows {
    Parquet(ParquetSeries),
    FioHist(Box<FioHist<'static>>),
    FioJson(FioJson),
    Hlog(Box<Hlog<'static>>),
}

impl SeriesReader {
    /// Opens a series, `-` for standard input. Of the options, the format, the unit of latencies (for histogram logs of which
    /// nothing else tells it), the results of fio and whether to be lenient apply.
    ///
    /// # Errors
    /// When it cannot be read, is damaged, or holds no series.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<SeriesReader, Error> {
        SeriesReader::of(Input::open(path, None)?, options)
    }

    /// Opens a series that lies in memory; `name` stands for it in messages.
    ///
    /// # Errors
    /// As [`SeriesReader::open`].
    pub fn from_bytes(name: &str, bytes: Vec<u8>, options: &ReadOptions) -> Result<SeriesReader, Error> {
        SeriesReader::of(Input::from_vec(name, bytes)?, options)
    }

    fn of(mut input: Input<'static>, options: &ReadOptions) -> Result<SeriesReader, Error> {
        let format = options.format.map_or_else(|| detect::detect(&mut input), Ok)?;
        Ok(SeriesReader(match format {
            Format::FioHist => Rows::FioHist(Box::new(FioHist::open(input, options)?)),
            Format::FioJson => Rows::FioJson(FioJson::open(input)?),
            Format::Hlog => Rows::Hlog(Box::new(Hlog::open(input, options))),
            Format::Parquet | Format::ParquetSeries => Rows::Parquet(ParquetSeries::open(input)?),
            _ => return Err(Error::new(&input.name, Place::File, "This file holds events, no histograms.")),
        }))
    }

    /// Lets every I/O of an uneven series count so many, so that it can be divided without loss.
    #[must_use]
    pub fn counted_in(mut self, per_event: u64) -> SeriesReader {
        match &mut self.0 {
            // Intervals of one width and whole jobs are never divided.
            Rows::Parquet(_) | Rows::FioJson(_) => {}
            Rows::FioHist(rows) => rows.count_in(per_event),
            Rows::Hlog(rows) => rows.count_in(per_event),
        }
        self
    }

    /// How long rows are as a rule, where the first completion after that time ends each of them; known from the first row on.
    pub fn usual_ns(&self) -> Option<u64> {
        match &self.0 {
            Rows::FioHist(rows) => rows.row_ns(),
            Rows::Parquet(_) | Rows::FioJson(_) | Rows::Hlog(_) => None,
        }
    }

    /// What the series is of.
    pub fn header(&self) -> &SeriesHeader {
        match &self.0 {
            Rows::Parquet(rows) => rows.header(),
            Rows::FioHist(rows) => rows.header(),
            Rows::FioJson(rows) => rows.header(),
            Rows::Hlog(rows) => rows.header(),
        }
    }

    /// What the trace says about itself; complete behind the last row.
    pub fn context(&self) -> &Context {
        match &self.0 {
            Rows::Parquet(rows) => rows.context(),
            Rows::FioHist(rows) => rows.context(),
            Rows::FioJson(rows) => rows.context(),
            Rows::Hlog(rows) => rows.context(),
        }
    }

    /// Whether intervals are what they happened to be, instead of multiples of one width.
    pub fn is_uneven(&self) -> bool {
        !matches!(self.0, Rows::Parquet(_))
    }
}

impl Iterator for SeriesReader {
    type Item = Result<SeriesRow, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Rows::Parquet(rows) => rows.next(),
            Rows::FioHist(rows) => rows.next(),
            Rows::FioJson(rows) => rows.next(),
            Rows::Hlog(rows) => rows.next(),
        }
    }
}
