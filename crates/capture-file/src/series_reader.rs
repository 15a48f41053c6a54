//! Files that hold histograms instead of events, whatever their format.

use crate::formats::Format;
use crate::gzip::Unpacked;
use crate::input::Input;
use crate::series_rows::{SeriesHeader, SeriesRow, SeriesRows};
use crate::{Error, Position, ReadOptions, detect};
use latscope_event::Context;
use std::path::Path;
use std::sync::Arc;

/// The rows of a series, one after the other. After an error there are no more.
pub struct SeriesReader {
    rows: Box<dyn SeriesRows>,
    /// The format that was given, and the one that the content has.
    formats: [Option<Format>; 2],
    unpacked: Arc<Unpacked>,
    /// What the trace says in the end, if more is to be noted of it than its format does.
    noted: Option<Context>,
}

impl SeriesReader {
    /// Opens a series, `-` for standard input. Of the options, the format, the unit of latencies (for histogram logs of which
    /// nothing else gives it), the results of fio and whether to be lenient apply.
    ///
    /// # Errors
    /// When it cannot be read, is damaged, or holds no series.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<SeriesReader, Error> {
        let input = match latscope_wire::Address::of_input(path) {
            Some(address) => Input::ask(path, address, &options.query)?,
            None => Input::open(path, None)?,
        };
        SeriesReader::new(input, options)
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
        let unpacked = Arc::clone(&input.unpacked);
        let formats = [options.format, options.format.and_then(|_| detect::look(&input))];
        match format.row().series {
            Some(open) => match open(input, options) {
                Ok(rows) => Ok(SeriesReader { rows, formats, unpacked, noted: None }),
                Err(error) => Err(detect::name_other(error, formats)),
            },
            None => Err(Error::new(&input.name, Position::File, "This file has events, not histograms.")),
        }
    }

    /// Lets every I/O of an uneven series count so many, so that it can be divided without loss.
    #[must_use]
    pub fn counted_in(mut self, per_event: u64) -> SeriesReader {
        self.rows.count_in(per_event);
        self
    }

    /// How long rows are as a rule, where the first completion after that time ends each of them; known from the first row on.
    pub fn usual_ns(&self) -> Option<u64> {
        self.rows.usual_ns()
    }

    /// What the series is of.
    pub fn header(&self) -> &SeriesHeader {
        self.rows.header()
    }

    /// What the trace says about itself; complete behind the last row.
    pub fn context(&self) -> &Context {
        self.noted.as_ref().unwrap_or_else(|| self.rows.context())
    }

    /// Whether intervals are what they happened to be, instead of multiples of one width.
    pub fn is_uneven(&self) -> bool {
        self.rows.is_uneven()
    }
}

impl Iterator for SeriesReader {
    type Item = Result<SeriesRow, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.rows.next();
        if row.is_none() {
            let mut context = self.rows.context().clone();
            self.unpacked.note_trailing(&mut context);
            self.noted = Some(context);
        }
        row.map(|row| row.map_err(|error| detect::name_other(error, self.formats)))
    }
}
