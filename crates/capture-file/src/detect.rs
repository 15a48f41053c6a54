//! Which format a file has, from its content only.

use crate::input::{CUT_SO_EARLY, Input};
use crate::{
    Error, Place, csv, fio, hlog, ioping, json_lines, lat, parquet, perf_data, perf_script, smallfile, two_columns,
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
    /// Our own CSV of events.
    Csv,
    /// Our own JSON lines of events.
    JsonLines,
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
        Format::Csv,
        Format::JsonLines,
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
            Format::Csv => "csv",
            Format::JsonLines => "json_lines",
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
            Format::Csv => "our own CSV of events, as events --csv and convert write it",
            Format::JsonLines => "our own JSON lines of events, as events --json and convert write them",
            Format::TwoColumns => "text: time of completion and latency, as trace2heatmap reads it",
        }
    }

    /// Whether files of this format hold histograms, no events.
    pub fn is_series(self) -> bool {
        matches!(self, Format::ParquetSeries | Format::FioHist | Format::FioJson | Format::Hlog)
    }

    /// Whether files of this format can be read while they are written: the others have their index at the end.
    pub fn is_read_as_it_grows(self) -> bool {
        match self {
            Format::Lat | Format::PerfScript | Format::FioLog | Format::Csv | Format::JsonLines => true,
            Format::Ioping | Format::Smallfile | Format::TwoColumns => true,
            Format::Parquet | Format::ParquetSeries | Format::PerfData => false,
            Format::FioHist | Format::FioJson | Format::Hlog => false,
        }
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
            Format::FioLog => fio::log::FILLS,
            Format::Ioping => ioping::FILLS,
            Format::Smallfile => smallfile::FILLS,
            Format::Csv => csv::FILLS,
            Format::JsonLines => json_lines::FILLS,
            Format::TwoColumns => two_columns::FILLS,
        }
    }

    fn detect(self, input: &Input) -> Detected {
        match self {
            Format::Lat => lat::detect(input.head()),
            Format::Parquet | Format::ParquetSeries => parquet::detect(input, self),
            Format::PerfData => perf_data::detect(input),
            Format::PerfScript => perf_script::detect(input.head()),
            Format::FioHist => fio::hist::detect(input),
            Format::FioJson => fio::results::detect(input.head()),
            Format::FioLog => fio::log::detect(input),
            Format::Ioping => ioping::detect(input.head()),
            Format::Hlog => hlog::detect(input.head()),
            Format::Smallfile => smallfile::detect(input),
            Format::Csv => csv::detect(input.head()),
            Format::JsonLines => json_lines::detect(input.head()),
            Format::TwoColumns => two_columns::detect(input.head()),
        }
    }
}

/// What a file is that other programs know, and what to do instead of reading it.
fn unread(head: &[u8]) -> Option<(&'static str, &'static str)> {
    const PERF: &str = "record with perf record -e block:block_rq_issue -e block:block_rq_complete -a";
    let text = || String::from_utf8_lossy(&head[..head.len().min(4096)]);
    let first = |what: &[u8]| head.starts_with(what);
    let line = || head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let has = |words: &[&[u8]]| words.iter().all(|word| memchr::memmem::find(line(), word).is_some());
    const RESULTS: &str = "it holds results and no events; give the file that it was made of";
    Some(match () {
        () if has(&[b"width_ns", b"rate_per_s", b"trusted_p"]) => ("a table that latscope percentiles wrote", RESULTS),
        () if has(&[b"rate_per_s", b"bytes_per_s", b"share"])
            || first(b"{") && has(&[b"\"rate_per_s\"", b"\"groups\""]) =>
        {
            ("a table that latscope summary wrote", RESULTS)
        }
        () if first(b"\xfd7zXZ\0") => ("compressed with xz", "unpack it: xz -dc FILE | latscope ... -r -"),
        () if first(b"BZh") => ("compressed with bzip2", "unpack it: bzip2 -dc FILE | latscope ... -r -"),
        () if first(b"\x17\x08\x44tracing") => ("a trace.dat of trace-cmd", PERF),
        // Magic and version of the first record, in either byte order.
        () if head.get(1..4) == Some(b"\x74\x61\x65".as_slice()) || first(b"\x65\x61\x74") => {
            ("a recording of blktrace", PERF)
        }
        () if text().contains("# tracer:") => ("text of ftrace", PERF),
        () if text().lines().take(5).any(|line| line.contains("LAT(ms)") && line.contains("COMM")) => {
            ("text of biosnoop", PERF)
        }
        () if text().lines().filter(|line| is_of_strace(line)).count() >= 2 => {
            ("text of strace", "record with perf trace record or latscope record -s syscall")
        }
        () if text().lines().filter(|line| is_of_blkparse(line)).count() >= 2 => ("text of blkparse", PERF),
        () => return None,
    })
}

/// `openat(AT_FDCWD, "x", O_RDONLY) = 3 <0.000012>`, whatever stands before.
fn is_of_strace(line: &str) -> bool {
    line.contains(") = ") && line.contains('(') && line.trim_end().ends_with('>')
}

/// `254,0    1        1     0.000000000   123  D   W 2048 + 8 [fio]`.
fn is_of_blkparse(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let device = words.first().and_then(|word| word.split_once(','));
    device.is_some_and(|(major, minor)| is_number(major) && is_number(minor))
        && words.len() >= 7
        && words[1..3].iter().all(|word| is_number(word))
        && words[3].split_once('.').is_some_and(|(seconds, rest)| is_number(seconds) && rest.len() == 9)
}

/// Asks every format; of a stream that begins with too little, again when there is more.
pub fn detect(input: &mut Input) -> Result<Format, Error> {
    loop {
        let found = detect_head(input);
        if found.is_ok() || !input.await_more_head()? {
            return found;
        }
    }
}

fn detect_head(input: &mut Input) -> Result<Format, Error> {
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
        None if let Some((what, instead)) = unread(input.head()) => {
            fail(&format!("This is {what}, which is not read; {instead}."))
        }
        None => fail("The format is not known; give it with --format (latscope formats lists them)."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_programs_write_is_refused_by_name() {
        for (bytes, what) in [
            (&b"\xfd7zXZ\0\0\x04"[..], "compressed with xz"),
            (b"BZh91AY&SY", "compressed with bzip2"),
            (b"\x17\x08\x44tracing7\0", "trace-cmd"),
            (b"\x07\x74\x61\x65\x01\0\0\0", "blktrace"),
            (b"# tracer: nop\n#\n  fio-7 [001] d..1. 12.5: block_rq_issue: 8,0 R 4096 () 8 + 8 [fio]\n", "ftrace"),
            (b"TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)\n0.0 fio 7 vda R 8 4096 0.1\n", "biosnoop"),
            (b"1.5 read(3, \"\", 9) = 0 <0.000012>\n1.6 close(3) = 0 <0.000010>\n", "strace"),
            (
                b"254,0    1        1     0.000000000   123  D   W 2048 + 8 [fio]\n254,0    1        2     0.000100000   123  C   W 2048 + 8 [0]\n",
                "blkparse",
            ),
        ] {
            let said = detect(&mut Input::from_bytes("test", bytes).unwrap()).unwrap_err().message;
            assert!(said.contains(what) && said.contains("which is not read; "), "{what}: {said}");
        }
    }
}
