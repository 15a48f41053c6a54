//! What was typed.

mod compare;
mod convert;
mod events;
mod heatmap;
mod histogram;
mod lab;
mod live;
mod percentiles;
mod ping;
mod ping_units;
mod record;
mod spectrogram;
mod summary;

pub use compare::Compare;
pub use convert::Convert;
pub use events::{Events, Sort};
pub use heatmap::{Colors, Heatmap};
pub use histogram::Histogram;
pub use lab::Lab;
pub use live::{Live, Mode};
pub use percentiles::{CountBy as CountByRule, PercentileRule, Percentiles};
pub use ping::{Ping, PingWords};
pub use record::Record;
pub use spectrogram::{Color, Orient, Palette, Spectrogram};
pub use summary::Summary;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use std::path::{Path, PathBuf};

/// Makes I/O latency visible: heat maps, spectrograms, histograms and outliers from traces.
///
/// The grammar is that of tcpdump and sysdig: -r FILE reads, -w FILE writes, the words at the end are the filter.
#[derive(Parser, Debug)]
#[command(name = "latscope", version, propagate_version = true, after_help = EXAMPLES, max_term_width = 120)]
pub struct Arguments {
    #[command(subcommand)]
    pub verb: Verb,
}

impl Arguments {
    /// What was typed; ends the program where that makes no sense, or asks for help.
    pub fn typed(words: Vec<std::ffi::OsString>) -> Arguments {
        let mut command = Arguments::command();
        let has = |verb: &clap::Command, name: &str| verb.get_arguments().any(|argument| argument.get_id() == name);
        // Where nothing else is called so, columns are those of the logs.
        let verbs = command.get_subcommands().filter(|verb| has(verb, "log_columns") && !has(verb, "columns"));
        for verb in verbs.map(|verb| verb.get_name().to_string()).collect::<Vec<_>>() {
            command = command
                .mut_subcommand(verb, |verb| verb.mut_arg("log_columns", |argument| argument.visible_alias("columns")));
        }
        let matches = command.try_get_matches_from_mut(words).unwrap_or_else(|mut error| {
            // Words at the end are a filter, so clap would have any unknown option be one.
            error.remove(clap::error::ContextKind::Suggested);
            refuse(&error)
        });
        Arguments::from_arg_matches(&matches).unwrap_or_else(|error| refuse(&error))
    }
}

/// Ends the program with what clap has to say, which repeats what was typed.
fn refuse(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    if error.use_stderr() {
        crate::run::output::say(&text);
        std::process::exit(error.exit_code());
    }
    // Help that could not be written was not given.
    match crate::run::output::text(None, &text) {
        Err(failure @ crate::Failure::Input(_)) => {
            say!("latscope: {failure}");
            std::process::exit(3)
        }
        _ => std::process::exit(error.exit_code()),
    }
}

const EXAMPLES: &str = "\
Examples:
  latscope spectrogram                             # live: the block devices of this machine
  latscope record -s block -w t.lat --for 10s      # record first, look later
  latscope heatmap -r t.lat -o latency.svg         # the picture: latency over time
  latscope summary -r perf.data                    # a line per device, percentiles and outliers
  latscope ping -c 3 .                             # measure the disk below a directory
  latscope heatmap -r perf.data --weight time --by device -o waiting.svg
  perf script | latscope spectrogram -r - 'kind = read and lat > 1ms'

Exit status: 0 done, 1 a threshold was exceeded, 2 wrong usage, 3 input or capture failed.";

#[derive(Subcommand, Debug)]
pub enum Verb {
    /// SVG heat map: time across, latency (or size, offset, queue time) up, colour = event count
    Heatmap(Heatmap),
    /// Terminal spectrogram: a row of colour for every interval
    Spectrogram(Spectrogram),
    /// Latency distribution as text
    Histogram(Histogram),
    /// A line per group: count, rate, percentiles, share of all time; and outliers
    Summary(Summary),
    /// The events themselves
    Events(Events),
    /// Percentiles over time: a line for every interval and group, or an SVG line chart
    Percentiles(Percentiles),
    /// Compare traces: which one is slower, by how much, with confidence intervals
    Compare(Compare),
    /// Record live events into a trace
    Record(Record),
    /// Measure directories, files and devices actively; takes the options of ioping
    Ping(PingWords),
    /// Experiments in one or several directories, recorded and compared: storage, etcd, commit, curve, your own
    Lab(Lab),
    /// Change format: .lat, .parquet, .csv, .jsonl
    Convert(Convert),
    /// List the fields: name, type, meaning, and which sources fill them
    Fields(Json),
    /// List the formats that can be read
    Formats(Json),
}

#[derive(Args, Debug)]
pub struct Json {
    /// Machine-readable output
    #[arg(long)]
    pub json: bool,
}

/// How files are to be read.
#[derive(Args, Clone, Debug)]
pub struct Files {
    /// Format of the files; default: detected from the content (latscope formats lists them)
    #[arg(long, value_name = "NAME", help_heading = "Input")]
    pub format: Option<String>,
    /// Latency of block requests: from the last issue to the device, or from when the request began to wait
    #[arg(long, value_enum, default_value = "device", help_heading = "Input")]
    pub latency: Latency,
    /// Unit of the time column of two-column files: s, ms, us, ns
    #[arg(long = "unitstime", visible_alias = "time-unit", value_name = "UNIT", help_heading = "Input")]
    pub units_time: Option<String>,
    /// Unit of the second column of two-column files: of a latency as above (that of the time column when not given), of a size
    /// bytes, of an offset kbytes, Mbytes or Gbytes
    #[arg(long = "unitslat", visible_aliases = ["unitslabel", "unitslatency", "latency-unit"], value_name = "UNIT", help_heading = "Input")]
    pub units_latency: Option<String>,
    /// Correct coordinated omission: re-add the requests that a closed-loop generator skipped while it waited; INTERVAL is
    /// its period. For ioping, and latscope ping without --rate
    #[arg(long, value_name = "INTERVAL", help_heading = "Input")]
    pub correct_omission: Option<String>,
    /// Columns of fio logs, where they cannot be inferred: time,value,max,direction,size,offset,priority,issue in this
    /// order; omit those of max, offset, priority and issue that the log lacks
    #[arg(long, value_name = "NAMES", help_heading = "Input")]
    pub log_columns: Option<String>,
    /// Skip and count malformed rows of fio and smallfile logs instead of stopping at the first
    #[arg(long, help_heading = "Input")]
    pub lenient: bool,
}

/// Machine-readable output of a table.
#[derive(Args, Clone, Copy, Debug)]
pub struct Table {
    /// Comma separated values, base units
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// JSON, base units; events and percentiles as one object per line
    #[arg(long)]
    pub json: bool,
}

/// What every view takes.
#[derive(Args, Debug)]
pub struct Input {
    /// Read this file; repeatable, also as -r *.log; - is standard input. gzip and zstd are decompressed. Without it the
    /// view is live
    #[arg(short = 'r', long = "read", value_name = "FILE", help_heading = "Input")]
    pub read: Vec<PathBuf>,
    /// Live: what to capture (default: block). Files: which events to keep. Block requests, system calls that do I/O, or
    /// all system calls
    #[arg(short, long, value_enum, help_heading = "Input")]
    pub source: Option<Source>,
    /// Wait for more at the end of the file, as tail -F, until Ctrl-C; rows are printed as their intervals close. For text, logs of
    /// fio and .lat; perf.data and Parquet are readable only when they are complete
    #[arg(long, help_heading = "Input")]
    pub follow: bool,
    #[command(flatten)]
    pub files: Files,
    /// Per-host clock offsets: lines of "host milliseconds" or "host:job milliseconds". Default: fio logs are aligned by
    /// the job_start of the JSON beside them
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub offsets: Option<PathBuf>,
    #[command(flatten)]
    pub live: Live,
    /// Print how the filter was understood, and stop
    #[arg(long, help_heading = "Input")]
    pub explain_filter: bool,
    /// Which events to show, e.g. lat > 1ms and kind = write (quote < > ! and brackets for the shell; see docs/reference/filter.md)
    #[arg(value_name = "FILTER", help_heading = "Input")]
    pub filter: Vec<String>,
}

impl Input {
    /// `-r run/*.log` comes from the shell as one file behind `-r` and the others as words: those in front that are files
    /// that are there, and no names of fields, are read too.
    ///
    /// Without `-r`, files at the end are read too, as other programs have them: where what is before them is a whole filter.
    pub fn take_files(&mut self) {
        let is_filter = |words: &[String]| latscope_filter::Filter::parse(&words.join(" ")).is_ok();
        while self.read.is_empty()
            && let [before @ .., last] = &self.filter[..]
            && Path::new(last).is_file()
            && !before.is_empty()
            && !is_filter(&self.filter)
            && (is_filter(before) || before.iter().all(|word| Path::new(word).is_file()))
        {
            let file = PathBuf::from(last);
            self.filter.pop();
            self.read.insert(0, file);
        }
        let is_file = |word: &String| Path::new(word).exists() && latscope_event::Field::from_name(word).is_none();
        let files = self.filter.iter().take_while(|word| is_file(word)).count();
        self.read.extend(self.filter.drain(..files).map(PathBuf::from));
    }

    /// What is piped in is read, unless a capture is asked for.
    pub fn take_standard_input(&mut self) {
        if self.read.is_empty() && self.live.given().is_none() && latscope_capture_file::is_fed() {
            self.read.push("-".into());
        }
    }
}

/// What a view over time takes.
#[derive(Args, Debug)]
pub struct Fold {
    /// Length of an interval, e.g. 100ms, 1s; default, auto: chosen from the duration of the trace (percentiles -i auto: as
    /// long as each percentile needs)
    #[arg(short, long, value_name = "DURATION", help_heading = "Folding")]
    pub interval: Option<String>,
    /// Group by these fields, e.g. device or device,kind
    #[arg(long, value_name = "FIELD", value_delimiter = ',', help_heading = "Folding")]
    pub by: Vec<String>,
    /// What a cell adds up: events, time spent, or bytes
    #[arg(long, value_enum, default_value = "count", help_heading = "Folding")]
    pub weight: Weight,
    /// What the y axis shows
    #[arg(short = 'y', long = "y", value_enum, default_value = "latency", help_heading = "Folding")]
    pub quantity: Quantity,
    /// Smallest value on the axis, e.g. 10us or 4k; smaller values have a row of their own
    #[arg(long, visible_alias = "minlat", value_name = "VALUE", help_heading = "Folding")]
    pub min: Option<String>,
    /// Largest value on the axis; larger values have a row of their own
    #[arg(long, visible_alias = "maxlat", value_name = "VALUE", help_heading = "Folding")]
    pub max: Option<String>,
    /// Requests that still wait do not raise percentiles, mean and maximum
    #[arg(long, help_heading = "Folding")]
    pub completed_only: bool,
}

/// What every SVG picture takes.
#[derive(Args, Debug)]
pub struct Look {
    /// Heading of the picture
    #[arg(long, value_name = "TEXT", help_heading = "Picture")]
    pub title: Option<String>,
    /// Dark background; by default a picture follows the viewer's preference
    #[arg(long, help_heading = "Picture")]
    pub dark: bool,
    /// Light background, whatever the viewer prefers
    #[arg(long, conflicts_with = "dark", help_heading = "Picture")]
    pub light: bool,
    /// Width of the plot in pixels
    #[arg(long, value_name = "PX", default_value_t = 1000, help_heading = "Picture")]
    pub width: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Source {
    Block,
    Io,
    Syscall,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Latency {
    Device,
    Request,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Weight {
    Count,
    Time,
    Bytes,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Quantity {
    Latency,
    Size,
    Offset,
    Queue,
    /// Service time of a probe's target, from submission to completion
    Service,
    /// How late the machine made a probe's requests
    Lag,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Scale {
    Log,
    Sqrt,
    Linear,
}
