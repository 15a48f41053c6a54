//! Files that hold histograms instead of events, whatever their format.

use crate::input::Input;
use crate::series_rows::{SeriesHeader, SeriesRow, SeriesRows};
use crate::{Error, Position, ReadOptions, detect};
use latscope_event::Context;
use std::path::Path;

/// The rows of a series, one after the other. After an error there are no more.
pub struct SeriesReader(Box<dyn SeriesRows>);

impl SeriesReader {
    /// Opens a series, `-` for standard input. Of the options, the format, the unit of latencies (for histogram logs of which
    /// nothing else gives it), the results of fio and whether to be lenient apply.
    ///
    /// # Errors
    /// When it cannot be read, is damaged, or holds no series.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<SeriesReader, Error> {
        SeriesReader::new(Input::open(path, None)?, options)
    }

    /// Opens a series that lies in memory; `name` stands for it in messages.
    ///
    /// # Errors
    /// As [`SeriesReader::open`].
    pub fn from_bytes(name: &str, bytes: Vec<u8>, options: &ReadOptions) -> Result<SeriesReader, Error> {
        SeriesReader::new(Input::from_vec(name, bytes)?, options)
    }

    fn new(mut input: Input<'static>, options: &ReadOptions) -> Result<SeriesReader, Error> {
        let format = options.format.map_or_else(|| detect::detect(&mut input), Ok)?;
        match format.row().series {
            Some(open) => open(input, options).map(SeriesReader),
            None => Err(Error::new(&input.name, Position::File, "This file has events, not histograms.")),
        }
    }

    /// Lets every I/O of an uneven series count so many, so that it can be divided without loss.
    #[must_use]
    pub fn counted_in(mut self, per_event: u64) -> SeriesReader {
        self.0.count_in(per_event);
        self
    }

    /// How long rows are as a rule, where the first completion after that time ends each of them; known from the first row on.
    pub fn usual_ns(&self) -> Option<u64> {
        self.0.usual_ns()
    }

    /// What the series is of.
    pub fn header(&self) -> &SeriesHeader {
        self.0.header()
    }

    /// What the trace says about itself; complete behind the last row.
    pub fn context(&self) -> &Context {
        self.0.context()
    }

    /// Whether intervals are what they happened to be, instead of multiples of one width.
    pub fn is_uneven(&self) -> bool {
        self.0.is_uneven()
    }
}

impl Iterator for SeriesReader {
    type Item = Result<SeriesRow, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}
