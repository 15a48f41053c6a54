//! What was typed.

mod agent;
mod alerts;
mod compare;
mod convert;
mod credentials;
mod events;
mod explain;
mod files;
mod flamegraph;
mod fold;
mod heatmap;
mod histogram;
mod hub;
mod lab;
mod live;
mod percentiles;
mod ping;
mod ping_units;
mod push;
mod record;
mod report;
mod serve;
mod shell;
mod spark;
mod spectrogram;
mod stack_capture;
mod stacks;
mod summary;
mod tagging;

pub use agent::Agent;
pub use alerts::{Alerts, Dialect};
pub use compare::Compare;
pub use convert::Convert;
pub use credentials::Credentials;
pub use events::{Events, Sort};
pub use explain::Explain;
pub use files::Files;
pub use flamegraph::{FlameColour, Flamegraph, StackWidth};
pub use fold::Fold;
pub use heatmap::Heatmap;
pub use histogram::Histogram;
pub use hub::Hub;
pub use lab::{Lab, LabSpark};
pub use live::{Live, Mode};
pub use percentiles::{CountBy as CountByRule, CsvLayout, PercentileRule, Percentiles};
pub use ping::{Ping, PingWords};
pub use push::Push;
pub use record::Record;
pub use report::Report;
pub use serve::Serve;
pub use shell::{Completions, FieldList, Man, Shell};
pub use spark::{Spark, SparkBy};
pub use spectrogram::{Color, Orient, Spectrogram};
pub use stack_capture::StackCapture;
pub use stacks::Stacks;
pub use summary::Summary;
pub use tagging::Tagging;

pub use latscope_pipeline::SourceChoice as Source;

use crate::world::World;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use latscope_capture_bpf::StackKinds;
use latscope_filter::filter_fields;
use latscope_series::Quantity;
use latscope_view::{Palette, Scale};
use std::path::{Path, PathBuf};

/// Shows I/O latency over time: live, from traces, and from the logs of fio and ioping.
///
/// As with tcpdump and sysdig, -r FILE reads, -w FILE writes, and the words at the end are a filter. Without -r, views
/// are live. Put filters in single quotes, because the shell interprets < > ! and parentheses.
#[derive(Parser, Debug)]
#[command(name = "latscope", version, propagate_version = true, after_help = EXAMPLES, max_term_width = 120)]
pub struct Arguments {
    #[command(subcommand)]
    pub verb: Verb,
}

impl Arguments {
    /// What was typed.
    ///
    /// # Errors
    /// Where that makes no sense, and with the text where help is asked for.
    pub fn typed(words: Vec<std::ffi::OsString>) -> Result<Arguments, clap::Error> {
        let words = tagging::spelled_out(words);
        let matches = Arguments::understood().try_get_matches_from_mut(words).map_err(|mut error| {
            // Words at the end are a filter, so clap would have any unknown option be one.
            error.remove(clap::error::ContextKind::Suggested);
            error
        })?;
        Arguments::from_arg_matches(&matches)
    }

    /// What can be typed.
    fn understood() -> clap::Command {
        let mut command = Arguments::command();
        let has = |verb: &clap::Command, name: &str| verb.get_arguments().any(|argument| argument.get_id() == name);
        // Where nothing else is called so, columns are those of the logs.
        let verbs = command.get_subcommands().filter(|verb| has(verb, "log_columns") && !has(verb, "columns"));
        for verb in verbs.map(|verb| verb.get_name().to_string()).collect::<Vec<_>>() {
            command = command
                .mut_subcommand(verb, |verb| verb.mut_arg("log_columns", |argument| argument.visible_alias("columns")));
        }
        command
    }
}

const EXAMPLES: &str = "\
Examples:
  latscope spectrogram                             # live: the block devices of this machine
  latscope events -s io 'lat > 10ms'               # live: slow system calls as they complete
  latscope record -s block -w t.lat --for 10s      # record now, look later
  latscope heatmap -r t.lat -o latency.svg         # draw latency over time
  latscope summary -r perf.data                    # a line per device
  latscope ping -c 3 .                             # measure the disk of this directory
  latscope heatmap -r perf.data --weight time --by device -o waiting.svg
  perf script | latscope spectrogram -r - 'kind = read and lat > 1ms'

Exit status: 0 done, 1 a --fail-if limit was exceeded, 2 wrong usage, 3 input or capture failed.
Run 'latscope COMMAND --help' for the options of a command.";

#[derive(Subcommand, Debug)]
pub enum Verb {
    Heatmap(Heatmap),
    Spectrogram(Spectrogram),
    Histogram(Histogram),
    Summary(Summary),
    Events(Events),
    Explain(Explain),
    Stacks(Stacks),
    Flamegraph(Flamegraph),
    Spark(Spark),
    Percentiles(Percentiles),
    Compare(Compare),
    Report(Report),
    Serve(Serve),
    Record(Record),
    Ping(PingWords),
    Lab(Lab),
    Convert(Convert),
    Agent(Agent),
    Hub(Hub),
    /// List the fields for filters, groups and columns
    Fields(FieldList),
    /// List the formats that can be read
    Formats(Json),
    Completions(Completions),
    Man(Man),
}

#[derive(Args, Debug)]
pub struct Json {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Machine-readable output of a table.
#[derive(Args, Clone, Copy, Debug)]
pub struct Table {
    /// Print CSV, in base units
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print JSON, in base units (events and percentiles: one object per line)
    #[arg(long)]
    pub json: bool,
}

/// What every view takes.
#[derive(Args, Debug)]
pub struct Input {
    /// Read this file or folder; without -r, the view is live
    ///
    /// Can be repeated, or followed by several files as in -r *.log. - is standard input. gzip and zstd are decompressed.
    /// hub://127.0.0.1:PORT and hub+unix:PATH read what a hub has, http://127.0.0.1:4040 a Spark application over its REST API.
    #[arg(short = 'r', long = "read", value_name = "FILE", help_heading = "Input")]
    pub read: Vec<PathBuf>,
    /// What to capture live: block, io, syscall, or stacks,offcpu,oncpu [default: block; of stacks and flamegraph: stacks]; with -r, which events to keep
    ///
    /// block: requests to block devices. io: system calls that do I/O, and io_uring. syscall: all system calls. stacks: samples of
    /// threads that wait for I/O. offcpu[=1ms]: every wait of at least this time. oncpu[=99hz]: threads that run. The last three can
    /// be combined, with each other and with one of the first, as in block,stacks. Of a file, offcpu keeps waits of threads, and
    /// oncpu what ran. spark: with -r, also the stages, jobs, SQL executions and executors of an event log, not only its tasks.
    #[arg(short, long, value_name = "SOURCE", value_parser = Source::parse, help_heading = "Input")]
    pub source: Option<Source>,
    /// Keep reading as the file grows, as tail -F does, until Ctrl-C
    ///
    /// Lines are printed as their intervals close. For text, fio logs and .lat; perf.data and Parquet can only be read when
    /// they are complete.
    #[arg(long, help_heading = "Input")]
    pub follow: bool,
    #[command(flatten)]
    pub files: Files,
    /// File with clock offsets of hosts: lines of "HOST MILLISECONDS" or "HOST:JOB MILLISECONDS"
    ///
    /// Without it, fio logs are aligned by the job_start of the JSON next to them.
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub offsets: Option<PathBuf>,
    /// Lay traces over each other: each counts from its own start
    ///
    /// For the same load at different times. Time of day is unknown then.
    #[arg(long, help_heading = "Input")]
    pub align_starts: bool,
    #[command(flatten)]
    pub tagging: Tagging,
    #[command(flatten)]
    pub live: Live,
    /// Print how the filter was understood, and exit
    #[arg(long, help_heading = "Input")]
    pub explain_filter: bool,
    /// Which events to show, e.g. 'lat > 1ms and kind = write'
    ///
    /// latscope fields lists the fields; docs/reference/filter.md describes the language.
    #[arg(value_name = "FILTER", help_heading = "Input")]
    pub filter: Vec<String>,
}

impl Input {
    /// `-r run/*.log` comes from the shell as one file behind `-r` and the others as words: those in front that are files
    /// that are there, and no names of fields, are read too.
    ///
    /// Without `-r`, files at the end are read too, as other programs have them: where what is before them is a whole filter.
    pub fn take_files(&mut self, world: &World) {
        let is_filter = |words: &[String]| latscope_filter::Filter::parse(&words.join(" ")).is_ok();
        while self.read.is_empty()
            && let [before @ .., last] = &self.filter[..]
            && (world.is_file)(Path::new(last))
            && !before.is_empty()
            && !is_filter(&self.filter)
            && (is_filter(before) || before.iter().all(|word| (world.is_file)(Path::new(word))))
        {
            let file = PathBuf::from(last);
            self.filter.pop();
            self.read.insert(0, file);
        }
        let is_file =
            |word: &String| (world.exists)(Path::new(word)) && latscope_event::Field::from_name(word).is_none();
        let files = self.filter.iter().take_while(|word| is_file(word)).count();
        self.read.extend(self.filter.drain(..files).map(PathBuf::from));
        // A path that leads nowhere is reported as that, not as a filter that cannot be parsed.
        let is_path = |word: &String| word.contains('/') && !word.contains(char::is_whitespace);
        while !self.read.is_empty() && self.filter.first().is_some_and(is_path) && !is_filter(&self.filter) {
            self.read.push(self.filter.remove(0).into());
        }
    }

    /// Where nothing else is asked for, stacks of waiting threads are captured.
    pub fn take_stacks(&mut self) {
        if self.read.is_empty() && self.source.is_none() && self.live.stacks.stacks.is_none() {
            let kinds = StackKinds { sampled: true, ..StackKinds::default() };
            self.source = Some(Source::Stacks { kinds, off_cpu_ns: None, on_cpu_hz: None });
        }
    }

    /// What is piped in is read, unless a capture is asked for.
    pub fn take_standard_input(&mut self, world: &World) {
        if self.read.is_empty() && self.live.given().is_none() && (world.is_fed)() {
            self.read.push("-".into());
        }
    }
}

/// What every SVG picture takes.
#[derive(Args, Debug)]
pub struct Look {
    /// Title of the picture
    #[arg(long, value_name = "TEXT", help_heading = "Picture")]
    pub title: Option<String>,
    /// Dark background [default: the viewer's preference]
    #[arg(long, help_heading = "Picture")]
    pub dark: bool,
    /// Light background [default: the viewer's preference]
    #[arg(long, conflicts_with = "dark", help_heading = "Picture")]
    pub light: bool,
    /// Width of the plot in pixels
    #[arg(long, value_name = "PX", default_value_t = 1000, help_heading = "Picture")]
    pub width: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Latency {
    /// At its last issue to the device
    Device,
    /// When it was created, so that time in queues counts
    Request,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Weight {
    /// Number of events
    Count,
    /// Their latencies: where the time went
    Time,
    /// Their sizes: where the data went
    Bytes,
}

/// What `-y` names.
fn quantity(word: &str) -> Result<Quantity, String> {
    let alias = || filter_fields().iter().find(|field| field.aliases().contains(&word));
    Quantity::from_word(word)
        .or_else(|| Quantity::from_word(alias()?.name()))
        .ok_or_else(|| "it is no duration and no size; latscope fields lists both under their types".to_string())
}

/// The words of scales.
fn scales() -> impl TypedValueParser<Value = Scale> {
    let words = PossibleValuesParser::new(Scale::ALL.iter().map(|scale| scale.word()));
    words.try_map(|word| Scale::from_word(&word).ok_or("unknown scale"))
}

/// The words of these palettes.
fn palettes(choice: &'static [Palette]) -> impl TypedValueParser<Value = Palette> {
    let described = |palette: &Palette| match palette {
        Palette::Sysdig => PossibleValue::new(palette.word()).help("Colours and columns of sysdig's chisel"),
        Palette::PyLatencyMap => {
            PossibleValue::new(palette.word()).help("The two maps of PyLatencyMap, frequency and intensity")
        }
        _ => PossibleValue::new(palette.word()),
    };
    let words = PossibleValuesParser::new(choice.iter().map(described));
    words.try_map(|word| Palette::from_word(&word).ok_or("unknown palette"))
}
