//! The table of formats: a row for each, made of what its module offers. A new format is a module and a row.

use crate::input::Input;
use crate::omission::Omits;
use crate::series_rows::SeriesRows;
use crate::{
    Detected, Error, ReadOptions, Sink, blkparse, blktrace, bpftrace_stacks, csv, fio, folded, frames, ftrace,
    histogram_text, history, hlog, ioping, json_lines, lat, oracle_10046, parquet, perf_data, perf_script, perf_trace,
    pprof, pylatencymap, scap, smallfile, snoop, spark_eventlog, stap_stacks, strace, trace_dat, two_columns,
};
use latscope_event::{Context, Field, FieldSet};
use std::fs::File;

/// What a format offers.
pub struct Row {
    name: &'static str,
    meaning: &'static str,
    /// The fields of its events; none where files hold histograms.
    pub fills: FieldSet,
    /// Whether a file is of this format, by its beginning.
    pub detect: fn(&Input) -> Detected,
    pub events: Option<Events>,
    pub series: Option<Series>,
    /// Where parts start that can be read by themselves.
    pub parts: Option<Parts>,
    /// Whether files can be read while they are written: others have their index at the end.
    grows: bool,
    /// Whether files are known by the lines behind a first one that is too long to be any.
    pub is_log: bool,
    /// Whether requests may be missing that its generator left out.
    pub omits: Omits,
}

/// Reads all events.
pub type Events = fn(Input, &ReadOptions, &mut Sink) -> Result<Context, Error>;
/// Opens a series of histograms.
pub type Series = fn(Input<'static>, &ReadOptions) -> Result<Box<dyn SeriesRows>, Error>;

/// Bytes at which parts of a file start, in their order; `None` where that cannot be known.
pub type Parts = fn(&File) -> Option<Vec<u64>>;

/// What most formats are.
const PLAIN: Row = Row {
    name: "",
    meaning: "",
    fills: FieldSet::EMPTY,
    detect: |_| Detected::No,
    events: None,
    series: None,
    parts: None,
    grows: false,
    is_log: false,
    omits: Omits::Never,
};

macro_rules! formats {
    ($($format:ident($name:literal, $meaning:literal) { $($offer:tt)* })*) => {
        /// A format that can be read.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Format {
            $(#[doc = $meaning] $format,)*
        }

        impl Format {
            /// All formats; detection asks them in this order, so the strictest come first.
            pub const ALL: &'static [Format] = &[$(Format::$format),*];
        }

        /// By the order of the formats.
        const TABLE: &[Row] = &[$(Row { name: $name, meaning: $meaning, $($offer)* ..PLAIN }),*];
    };
}

formats! {
    Lat("lat", "latscope's own traces (.lat): Arrow IPC streams") {
        fills: lat::FILLS,
        detect: |input| lat::detect(input.head()),
        events: Some(lat::read),
        parts: Some(lat::parts),
        grows: true,
        omits: Omits::IfClosedLoop,
    }
    Frames("frames", "histograms over time as agents and hubs store them (.frames)") {
        detect: |input| frames::detect(input.head()),
        series: Some(frames::open),
    }
    History("history", "the folder of a hub (--data): histograms over time by day and host") {
        detect: history::detect,
        series: Some(history::open),
    }
    Parquet("parquet", "events in Parquet") {
        fills: parquet::FILLS,
        detect: |input| parquet::detect(input, false),
        events: Some(parquet::read),
        parts: Some(parquet::parts),
        // Of a pipe the end, which distinguishes the two, is out of reach.
        series: Some(parquet::open_series),
    }
    ParquetSeries("parquet_series", "histograms over time in Parquet, as written by convert --series") {
        detect: |input| parquet::detect(input, true),
        events: Some(parquet::read),
        series: Some(parquet::open_series),
    }
    PerfData("perf_data", "files of perf record: plain, compressed, piped, or a folder of threads") {
        fills: perf_data::FILLS,
        detect: perf_data::detect,
        events: Some(perf_data::read),
    }
    TraceDat("trace_dat", "recordings of trace-cmd (trace.dat), versions 6 and 7, compressed or not") {
        fills: trace_dat::FILLS,
        detect: |input| trace_dat::detect(input.head()),
        events: Some(trace_dat::read),
    }
    Blktrace("blktrace", "recordings of blktrace: the files of all CPUs, or one stream") {
        fills: blktrace::FILLS,
        detect: blktrace::detect,
        events: Some(blktrace::read),
        grows: true,
    }
    Blkparse("blkparse", "text of blkparse") {
        fills: blkparse::FILLS,
        detect: |input| blkparse::detect(input.head()),
        events: Some(blkparse::read),
        grows: true,
    }
    Scap("scap", "captures of sysdig and Falco (.scap), versions 1.0 to 1.2") {
        fills: scap::FILLS,
        detect: |input| scap::detect(input.head()),
        events: Some(scap::read),
    }
    Ftrace("ftrace", "text of ftrace: trace, trace_pipe, and trace-cmd report") {
        fills: ftrace::FILLS,
        detect: |input| ftrace::detect(input.head()),
        events: Some(ftrace::read),
        grows: true,
    }
    PerfScript("perf_script", "text of perf script, with any columns") {
        fills: perf_script::FILLS,
        detect: |input| perf_script::detect(input.head()),
        events: Some(perf_script::read),
        grows: true,
    }
    Strace("strace", "text of strace -T with -ttt, -tt, -t or -r") {
        fills: strace::FILLS,
        detect: |input| strace::detect(input.head()),
        events: Some(strace::read),
        grows: true,
    }
    PerfTrace("perf_trace", "text of perf trace") {
        fills: perf_trace::FILLS,
        detect: |input| perf_trace::detect(input.head()),
        events: Some(perf_trace::read),
        grows: true,
    }
    Snoop("snoop", "text of biosnoop (bcc, libbpf-tools, bpftrace) and iosnoop -ts") {
        fills: snoop::FILLS,
        detect: |input| snoop::detect(input.head()),
        events: Some(snoop::read),
        grows: true,
    }
    Oracle10046("oracle_10046", "trace files of Oracle databases with waits (event 10046)") {
        fills: oracle_10046::FILLS,
        detect: |input| oracle_10046::detect(input.head()),
        events: Some(oracle_10046::read),
        grows: true,
    }
    Csv("csv", "latscope's CSV of events, as written by events --csv and convert") {
        fills: csv::FILLS,
        detect: |input| csv::detect(input.head()),
        events: Some(csv::read),
        grows: true,
    }
    JsonLines("json_lines", "latscope's JSON lines of events, as written by events --json and convert") {
        fills: json_lines::FILLS,
        detect: |input| json_lines::detect(input.head()),
        events: Some(json_lines::read),
        grows: true,
    }
    SparkEventlog("spark_eventlog", "event logs of Spark, also compressed, rolled or in progress: tasks, stages, jobs") {
        fills: spark_eventlog::FILLS,
        detect: spark_eventlog::detect,
        events: Some(spark_eventlog::read),
        grows: true,
    }
    FioJson("fio_json", "fio's JSON (--output-format=json+): a histogram per job") {
        detect: |input| fio::results::detect(input.head()),
        series: Some(fio::json::open),
    }
    Hlog("hlog", "HdrHistogram interval logs (.hlog): a histogram per interval and tag") {
        detect: |input| hlog::detect(input.head()),
        series: Some(hlog::open),
    }
    PyLatencyMap("pylatencymap", "records of PyLatencyMap: cumulative counts by powers of two") {
        detect: |input| pylatencymap::detect(input.head()),
        series: Some(pylatencymap::open),
        grows: true,
    }
    HistogramText("histogram_text", "histograms printed by biolatency, bpftrace, SystemTap or DTrace") {
        detect: |input| histogram_text::detect(input.head()),
        series: Some(histogram_text::open),
        grows: true,
    }
    FioHist("fio_hist", "fio's histogram logs (write_hist_log), of any version") {
        detect: fio::hist::detect,
        series: Some(fio::hist::open),
        is_log: true,
    }
    FioLog("fio_log", "fio's latency logs (write_lat_log): lat, slat and clat of every I/O, of any version") {
        fills: fio::log::FILLS,
        detect: fio::log::detect,
        events: Some(fio::log::read),
        grows: true,
        is_log: true,
    }
    Ioping("ioping", "output of ioping: request lines, raw lines or JSON, from version 0.6") {
        fills: ioping::FILLS,
        detect: |input| ioping::detect(input.head()),
        events: Some(ioping::read),
        grows: true,
        omits: Omits::Always,
    }
    Smallfile("smallfile", "response times of smallfile (rsptimes_*.csv)") {
        fills: smallfile::FILLS,
        detect: smallfile::detect,
        events: Some(smallfile::read),
        grows: true,
        is_log: true,
    }
    Pprof("pprof", "profiles of pprof (.pb.gz): stacks with labels, as of Go, Parca and Pyroscope") {
        fills: pprof::FILLS,
        detect: |input| pprof::detect(input.head()),
        events: Some(pprof::read),
    }
    BpftraceStacks("bpftrace_stacks", "maps of bpftrace that have stacks as their keys, as text or JSON") {
        fills: bpftrace_stacks::FILLS,
        detect: |input| bpftrace_stacks::detect(input.head()),
        events: Some(bpftrace_stacks::read),
        grows: true,
    }
    StapStacks("stap_stacks", "stacks and their counts as SystemTap prints them, with states and wait events") {
        fills: stap_stacks::FILLS,
        detect: |input| stap_stacks::detect(input.head()),
        events: Some(stap_stacks::read),
        grows: true,
    }
    Folded("folded", "folded stacks and their counts, as of stackcollapse, bcc and async-profiler") {
        fills: folded::FILLS,
        detect: folded::detect,
        events: Some(folded::read),
        grows: true,
    }
    Difffolded("difffolded", "folded stacks with two counts, as of difffolded; only where --format says so") {
        fills: folded::FILLS,
        events: Some(folded::read_difference),
    }
    TwoColumns("two_columns", "text with two columns, time of completion and latency, as for trace2heatmap") {
        fills: two_columns::FILLS,
        detect: |input| two_columns::detect(input.head()),
        events: Some(two_columns::read),
        grows: true,
    }
}

impl Format {
    /// What the table says of it.
    pub(crate) fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// The name for `--format`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The format of this name.
    pub fn from_name(name: &str) -> Option<Format> {
        Format::ALL.iter().copied().find(|format| format.name() == name)
    }

    /// What it is, one line.
    pub fn meaning(self) -> &'static str {
        self.row().meaning
    }

    /// Whether files of this format hold histograms, not events: a [`SeriesReader`](crate::SeriesReader) reads them.
    pub fn is_series(self) -> bool {
        self.row().fills == FieldSet::EMPTY
    }

    /// Whether files of this format can be read while they are written: the others have their index at the end.
    pub fn is_read_as_it_grows(self) -> bool {
        self.row().grows
    }

    /// The fields that files of this format can fill.
    pub fn fills(self) -> FieldSet {
        let own = self.row().fills;
        // A batch without names of processes has those of threads in their place.
        if own.contains(Field::Comm) { own.with(&[Field::Process]) } else { own }.with_implied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_can_be_opened_and_names_are_of_one_format() {
        for &format in Format::ALL {
            let Row { events, series, .. } = format.row();
            assert!(if format.is_series() { series.is_some() } else { events.is_some() }, "{}", format.name());
            assert_eq!(Format::from_name(format.name()), Some(format));
        }
    }
}
