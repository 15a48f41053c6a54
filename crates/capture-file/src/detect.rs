//! Which format a file has, from its content only.

use crate::input::{CUT_SO_EARLY, Input};
use crate::{
    Error, Place, fio_hist, fio_json, fio_log, hlog, ioping, lat, parquet, perf_data, perf_script, smallfile,
    two_columns,
};
use latscope_event::{Field, FieldSet};

/// The answer of a format about the beginning of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detected {
    /// It is this format.
    Yes,
    /// It is not.
    No,
    /// Nothing speaks against it, but the beginning does not tell (comments only, for instance).
    NeedMore,
}

/// A format that can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Our own trace.
    Lat,
    /// Events in Parquet.
    Parquet,
    /// A series of histograms in Parquet: no events, see [`SeriesReader`](crate::SeriesReader).
    ParquetSeries,
    /// What `perf record` writes.
    PerfData,
    /// Text of `perf script`.
    PerfScript,
    /// A log of fio that holds histograms: no events, see [`SeriesReader`](crate::SeriesReader).
    FioHist,
    /// What fio prints as JSON: no events, see [`SeriesReader`](crate::SeriesReader).
    FioJson,
    /// A log of fio that holds every I/O.
    FioLog,
    /// What ioping prints.
    Ioping,
    /// An interval log of HdrHistogram: no events, see [`SeriesReader`](crate::SeriesReader).
    Hlog,
    /// Response times of smallfile.
    Smallfile,
    /// Two columns: time and latency.
    TwoColumns,
}

impl Format {
    /// All formats; detection asks them in this order, so the strictest come first.
    pub const ALL: &'static [Format] = &[
        Format::Lat,
        Format::Parquet,
        Format::ParquetSeries,
        Format::PerfData,
        Format::PerfScript,
        Format::FioJson,
        Format::Hlog,
        Format::FioHist,
        Format::FioLog,
        Format::Ioping,
        Format::Smallfile,
        Format::TwoColumns,
    ];

    /// The name for `--format`.
    pub fn name(self) -> &'static str {
        match self {
            Format::Lat => "lat",
            Format::Parquet => "parquet",
            Format::ParquetSeries => "parquet_series",
            Format::PerfData => "perf_data",
            Format::PerfScript => "perf_script",
            Format::FioHist => "fio_hist",
            Format::FioJson => "fio_json",
            Format::FioLog => "fio_log",
            Format::Ioping => "ioping",
            Format::Hlog => "hlog",
            Format::Smallfile => "smallfile",
            Format::TwoColumns => "two_columns",
        }
    }

    /// What it is, one line.
    pub fn meaning(self) -> &'static str {
        match self {
            Format::Lat => "our own trace: an Arrow IPC stream with the context of the trace",
            Format::Parquet => "events in Parquet",
            Format::ParquetSeries => "histograms over time in Parquet, as convert --series writes them",
            Format::PerfData => "what perf record writes: plain, compressed, piped, or a folder of threads",
            Format::PerfScript => "text of perf script, with whatever columns",
            Format::FioHist => "logs of fio's write_hist_log: histograms of completion latencies, of any version",
            Format::FioJson => "fio's --output-format=json+: a histogram for each job",
            Format::Ioping => "what ioping prints: request lines, raw lines or JSON, of version 0.6 on",
            Format::Hlog => "interval logs of HdrHistogram (.hlog): a histogram for each interval and tag",
            Format::Smallfile => "response times of smallfile (rsptimes_*.csv)",
            Format::FioLog => "logs of fio's write_lat_log: lat, slat and clat of every I/O, of any version",
            Format::TwoColumns => "text: time of completion and latency, as trace2heatmap reads it",
        }
    }

    /// Whether files of this format hold histograms, no events.
    pub fn is_series(self) -> bool {
        matches!(self, Format::ParquetSeries | Format::FioHist | Format::FioJson | Format::Hlog)
    }

    /// The fields that files of this format can fill.
    pub fn fills(self) -> FieldSet {
        let own = self.own_fields();
        // A batch without names of processes has those of threads in their place.
        if own.contains(Field::Comm) { own.with(&[Field::Process]) } else { own }
    }

    fn own_fields(self) -> FieldSet {
        match self {
            Format::Lat => lat::FILLS,
            Format::Parquet => parquet::FILLS,
            Format::ParquetSeries | Format::FioHist | Format::FioJson | Format::Hlog => FieldSet::default(),
            Format::PerfData => perf_data::FILLS,
            Format::PerfScript => perf_script::FILLS,
            Format::FioLog => fio_log::FILLS,
            Format::Ioping => ioping::FILLS,
            Format::Smallfile => smallfile::FILLS,
            Format::TwoColumns => two_columns::FILLS,
        }
    }

    fn detect(self, input: &Input) -> Detected {
        match self {
            Format::Lat => lat::detect(input.head()),
            Format::Parquet | Format::ParquetSeries => parquet::detect(input, self),
            Format::PerfData => perf_data::detect(input),
            Format::PerfScript => perf_script::detect(input.head()),
            Format::FioHist => fio_hist::detect(input),
            Format::FioJson => fio_json::detect(input.head()),
            Format::FioLog => fio_log::detect(input),
            Format::Ioping => ioping::detect(input.head()),
            Format::Hlog => hlog::detect(input.head()),
            Format::Smallfile => smallfile::detect(input),
            Format::TwoColumns => two_columns::detect(input.head()),
        }
    }
}

/// Asks every format.
pub fn detect(input: &mut Input) -> Result<Format, Error> {
    let name = input.name.clone();
    let fail = |message: &str| Err(Error::new(&name, Place::File, message));
    let is_directory = input.path.as_ref().is_some_and(|path| path.is_dir());
    let mut perhaps = None;
    for &format in Format::ALL {
        match format.detect(input) {
            // The first half of a row of more columns looks like this.
            Detected::Yes if format == Format::TwoColumns && input.is_cut() && !input.head().contains(&b'\n') => {
                return fail(CUT_SO_EARLY);
            }
            Detected::Yes => return Ok(format),
            Detected::NeedMore => perhaps = perhaps.or(Some(format)),
            Detected::No => {}
        }
    }
    // A log is one in spite of a first line that is none, of a million columns for example.
    if perhaps.is_none() && !is_directory && input.skip_long_lines()? {
        let logs = [Format::FioHist, Format::FioLog, Format::Smallfile];
        perhaps = logs.into_iter().find(|format| format.detect(input) == Detected::Yes);
    }
    match perhaps {
        _ if input.is_empty() && !is_directory => fail("The file is empty."),
        _ if is_directory => {
            fail("This folder is no recording; of folders only those that perf record --threads writes are known.")
        }
        Some(format) => Ok(format),
        None => fail("The format is not known; give it with --format (latscope formats lists them)."),
    }
}
