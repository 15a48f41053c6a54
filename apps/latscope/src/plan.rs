//! What was typed means this: plain values, comparable in tests. Nothing is opened here.

mod compare;
mod files;
mod lab;
mod percentiles;
mod ping;
mod rotation;

pub use compare::Compare;
pub use lab::Lab;
pub use percentiles::{Percentiles, percentile_list};
pub use ping::{Ping, PingShow, ioping};
pub use rotation::{Keep, Rotate};

use crate::Failure;
use crate::args::{self, Arguments, Verb};
use files::files;
use latscope_capture_bpf::{Sample, Source};
use latscope_capture_file::{FioColumns, Format, TwoColumns};
use latscope_event::{Field, FieldSet, FieldType, parse_duration, parse_size};
use latscope_filter::Filter;
use latscope_series::{CountBy, Interval, Quantity, Weight};
use latscope_view_report::Theme;
use latscope_view_report::rows::{RowColumn, Wall};
use std::path::{Path, PathBuf};

/// What to do.
#[derive(Debug)]
pub enum Plan {
    /// Print how a filter was understood.
    Explain(String),
    /// List fields or formats.
    Fields {
        json: bool,
    },
    Formats {
        json: bool,
    },
    Heatmap(Reading, Folding, args::Heatmap),
    Spectrogram(Reading, Folding, args::Spectrogram),
    Histogram(Reading, Folding, args::Histogram),
    Summary(Reading, Summary),
    Events(Reading, Events),
    Percentiles(Reading, Percentiles),
    Compare(Compare),
    Record(Reading, Recording),
    Convert(Reading, Conversion),
    Ping(Box<Ping>),
    Lab(Box<Lab>),
    /// List the labs, as JSON or not.
    Labs(bool),
    /// Print this and be done.
    Say(String),
}

impl Plan {
    /// What a view of one trace reads.
    pub fn reading(&self) -> Option<&Reading> {
        match self {
            Plan::Heatmap(reading, ..) | Plan::Spectrogram(reading, ..) | Plan::Histogram(reading, ..) => Some(reading),
            Plan::Summary(reading, _) | Plan::Events(reading, _) | Plan::Percentiles(reading, _) => Some(reading),
            Plan::Convert(reading, _) => Some(reading),
            _ => None,
        }
    }

    /// The files that are read, or measured, and the one that is written; none for standard output.
    pub fn reads_and_writes(&self) -> (Vec<PathBuf>, Option<&Path>) {
        let (readings, output): (Vec<&Reading>, &Option<PathBuf>) = match self {
            Plan::Heatmap(reading, _, typed) => (vec![reading], &typed.output),
            Plan::Spectrogram(reading, _, typed) => (vec![reading], &typed.output),
            Plan::Histogram(reading, _, typed) => (vec![reading], &typed.output),
            Plan::Summary(reading, plan) => (vec![reading], &plan.output),
            Plan::Events(reading, plan) => (vec![reading], &plan.output),
            Plan::Percentiles(reading, plan) => (vec![reading], &plan.output),
            Plan::Compare(plan) => (plan.sides.iter().flat_map(|(_, turns)| turns).collect(), &plan.output),
            Plan::Convert(reading, plan) => return (reading.inputs().collect(), Some(&plan.write)),
            Plan::Record(reading, plan) => return (reading.inputs().collect(), Some(&plan.write)),
            Plan::Ping(plan) => {
                // A trace may well lie in a folder that is measured.
                let files = plan.probes.iter().map(|probe| &probe.target).filter(|target| !target.is_dir());
                return (files.cloned().collect(), plan.trace.as_deref());
            }
            Plan::Explain(_) | Plan::Fields { .. } | Plan::Formats { .. } | Plan::Lab(_) | Plan::Labs(_) => {
                return (Vec::new(), None);
            }
            Plan::Say(_) => return (Vec::new(), None),
        };
        (readings.into_iter().flat_map(Reading::inputs).collect(), output.as_deref())
    }
}

/// Which events of which files, or of the running kernel.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Reading {
    pub files: Vec<PathBuf>,
    /// The end of the file is no end: more is waited for.
    pub follow: bool,
    /// `None` when files are read.
    pub live: Option<Live>,
    pub format: Option<Format>,
    pub all_syscalls: bool,
    pub two_columns: TwoColumns,
    pub fio_columns: Option<FioColumns>,
    pub lenient: bool,
    /// Latency counts from when a request began to wait.
    pub from_queue: bool,
    /// Where it says by how much the clocks of the hosts are moved.
    pub offsets: Option<PathBuf>,
    /// The interval of a generator that left requests out.
    pub omitted_every_ns: Option<u64>,
    pub filter: Option<Filter>,
    /// Averages over windows were chosen, in the place of histograms of whole jobs, for a view over time.
    pub takes_averages: bool,
}

impl Reading {
    /// All that is read.
    fn inputs(&self) -> impl Iterator<Item = PathBuf> {
        self.files.iter().chain(&self.offsets).cloned()
    }
}

/// How to capture live.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    pub source: Source,
    /// Until interrupted when not given.
    pub for_ns: Option<u64>,
    pub calls: Option<Vec<String>>,
    pub mode: args::Mode,
    pub sample: Option<Sample>,
}

/// How events become a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Folding {
    /// Given, or by the length of the trace.
    pub interval: Option<u64>,
    pub by: Vec<Field>,
    pub weight: Weight,
    pub quantity: Quantity,
    pub min: Option<u64>,
    pub max: Option<u64>,
    /// In how many intervals an event counts.
    pub count_by: CountBy,
    /// Nobody asks for bytes and for requests in flight.
    pub values_only: bool,
    /// What waits is shown, but does not count as latency.
    pub completed_only: bool,
    /// When it was is asked for, not only how much there was in all.
    pub over_time: bool,
}

impl Folding {
    /// Counts latencies of all events together.
    pub fn of_latencies(interval: Option<u64>) -> Folding {
        Folding {
            interval,
            by: Vec::new(),
            weight: Weight::Count,
            quantity: Quantity::Latency,
            min: None,
            max: None,
            count_by: CountBy::Completion,
            values_only: false,
            completed_only: false,
            over_time: interval.is_some(),
        }
    }

    /// The interval, at most so many when it is chosen by the length of the trace.
    pub fn interval_or(&self, limit: u32) -> Interval {
        self.interval.map_or(Interval::Auto(limit), Interval::Fixed)
    }
}

/// Plan of `summary`.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub folding: Folding,
    /// Nobody asked for these groups: where stored histograms do not have them, all are summed up.
    pub by_default: bool,
    pub over_ns: Option<u64>,
    /// Utilization, saturation and errors are asked for.
    pub shows_use: bool,
    pub sort: String,
    pub shape: Shape,
    pub output: Option<PathBuf>,
}

/// Plan of `record`.
#[derive(Debug, PartialEq)]
pub struct Recording {
    pub write: PathBuf,
    /// Whether an existing file is replaced.
    pub force: bool,
    pub rotate: Option<Rotate>,
    pub keep: Option<Keep>,
    /// Fields beyond the usual ones.
    pub with: FieldSet,
    pub command: Vec<String>,
}

/// Plan of `events`.
#[derive(Debug, PartialEq)]
pub struct Events {
    /// `None`: what the source fills.
    pub columns: Option<Vec<RowColumn>>,
    pub top: Option<usize>,
    pub sort: Option<args::Sort>,
    pub shape: Shape,
    pub output: Option<PathBuf>,
}

/// Plan of `convert`.
#[derive(Debug, PartialEq)]
pub struct Conversion {
    pub write: PathBuf,
    pub force: bool,
    pub target: Target,
    /// Write a series of this folding instead of events.
    pub series: Option<Folding>,
}

/// How a table is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    Text,
    Csv,
    Json,
}

/// A format that can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    Lat,
    Parquet,
    Csv,
    JsonLines,
    /// Histograms only.
    Hlog,
}

/// Makes a plan of what was typed.
///
/// # Errors
/// [`Failure::Usage`] when it makes no sense, [`Failure::Input`] when it asks for what this version cannot do.
pub fn plan(mut typed: Arguments) -> Result<Plan, Failure> {
    let over_time = matches!(typed.verb, Verb::Heatmap(_) | Verb::Spectrogram(_) | Verb::Percentiles(_));
    let input = match &mut typed.verb {
        Verb::Heatmap(typed) => &mut typed.input,
        Verb::Spectrogram(typed) => &mut typed.input,
        Verb::Histogram(typed) => &mut typed.input,
        Verb::Summary(typed) => &mut typed.input,
        Verb::Events(typed) => &mut typed.input,
        Verb::Percentiles(typed) => &mut typed.input,
        Verb::Record(_) => return record(typed),
        Verb::Ping(typed) => return ping::plan(&typed.words),
        Verb::Lab(_) => return lab::plan(typed),
        Verb::Compare(_) => return compare::plan(typed),
        Verb::Convert(typed) => &mut typed.input,
        Verb::Fields(typed) => return Ok(Plan::Fields { json: typed.json }),
        Verb::Formats(typed) => return Ok(Plan::Formats { json: typed.json }),
    };
    input.take_files();
    if !input.explain_filter {
        input.take_standard_input();
    }
    let input = &*input;
    if input.explain_filter {
        return Ok(Plan::Explain(
            filter(&input.filter, input.source.filter(|_| !input.read.is_empty()))?
                .map_or("(everything)".into(), |filter| filter.to_string()),
        ));
    }
    let reading = reading(input, over_time)?;
    Ok(match typed.verb {
        Verb::Heatmap(typed) => {
            let (typed, mut folding) = trace2heatmap(typed)?;
            // Offsets of different devices share nothing but their unit; two columns know no device.
            let has_devices = reading.two_columns.unit_bytes.is_none();
            if folding.quantity == Quantity::Offset && folding.by.is_empty() && has_devices {
                folding.by.push(Field::Device);
            }
            Plan::Heatmap(reading, folding, typed)
        }
        Verb::Spectrogram(typed) => Plan::Spectrogram(reading, folding(&typed.fold, &typed.input)?, typed),
        Verb::Histogram(typed) => {
            let folding = folding(&typed.fold, &typed.input)?;
            let over_time = folding.interval.is_some();
            Plan::Histogram(reading, Folding { over_time, ..folding }, typed)
        }
        Verb::Summary(typed) => Plan::Summary(reading, summary(typed)?),
        Verb::Events(typed) => Plan::Events(reading, events(typed)?),
        Verb::Percentiles(typed) => Plan::Percentiles(reading, percentiles::plan(typed)?),
        Verb::Convert(typed) => Plan::Convert(reading, conversion(typed)?),
        _ => unreachable!("planned above"),
    })
}

/// The options of trace2heatmap in the words of this program.
fn trace2heatmap(mut typed: args::Heatmap) -> Result<(args::Heatmap, Folding), Failure> {
    if let (Some(seconds), None) = (typed.step_seconds, &typed.fold.interval) {
        typed.fold.interval = Some(format!("{seconds}s"));
    }
    if let (Some(step), Some(max), None) = (typed.step_latency.filter(|&step| step > 0), &typed.fold.max, typed.rows) {
        let number = |text: &str| text.parse::<u64>().ok();
        let min = typed.fold.min.as_deref().map_or(Some(0), number);
        let (Some(max), Some(min)) = (number(max), min) else {
            let message = "--steplat goes with --minlat and --maxlat without units; else give --rows.";
            return Err(Failure::Usage(message.into()));
        };
        typed.rows = Some(u32::try_from(max.saturating_sub(min).div_ceil(step)).unwrap_or(u32::MAX).clamp(1, 1000));
        typed.scale = typed.scale.or(Some(latscope_view::Scale::Linear));
    }
    let without = [
        ("--maxcol", typed.maxcol.is_some(), "all columns are drawn; choose a time by a filter, such as time < +60s"),
        ("--boxsize", typed.boxsize.is_some(), "--width says how wide the picture is"),
        ("--fonttype", typed.fonttype.is_some(), "the picture takes the fonts of its viewer"),
        ("--fontsize", typed.fontsize.is_some(), "the picture scales with its text"),
        ("--accstats", typed.accstats, "tooltips have counts and percentiles of each column"),
    ];
    for (option, _, why) in without.iter().filter(|(_, is_given, _)| *is_given) {
        say!("latscope: {option} changes nothing: {why}.");
    }
    let folding = folding(&typed.fold, &typed.input)?;
    Ok((typed, folding))
}

fn reading(input: &args::Input, over_time: bool) -> Result<Reading, Failure> {
    let live = if input.read.is_empty() { Some(live(input.source, &input.live)?) } else { None };
    let typed = &input.files;
    let of_files = [
        ("--correct-omission", typed.correct_omission.is_some()),
        ("--log-columns", typed.log_columns.is_some()),
        ("--lenient", typed.lenient),
        ("--unitstime", typed.units_time.is_some()),
        ("--unitslat", typed.units_latency.is_some()),
        ("--format", typed.format.is_some()),
        ("--offsets", input.offsets.is_some()),
    ];
    if let Some((option, _)) = of_files.iter().find(|(_, given)| *given && live.is_some()) {
        return Err(Failure::Usage(format!("{option} is about files; say which with -r.")));
    }
    // Files at the end are files too, of which clap knows nothing.
    if let Some(option) = input.live.given().filter(|_| live.is_none()) {
        let file = input.read.first().map(|file| file.display().to_string()).unwrap_or_default();
        return Err(Failure::Usage(format!(
            "{option} is about live captures, and {file} is read; leave one of them out."
        )));
    }
    let format = match &typed.format {
        None => None,
        Some(name) => Some(Format::ALL.iter().copied().find(|format| format.name() == name).ok_or_else(|| {
            let known: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
            Failure::Usage(format!("There is no format {name}; known are {}.", known.join(", ")))
        })?),
    };
    let unit = |name: &Option<String>| match name {
        None => Ok(None),
        Some(name) => TwoColumns::unit(name)
            .map(Some)
            .ok_or_else(|| Failure::Usage(format!("{name} is not a unit of time; use s, ms, us or ns."))),
    };
    let unit_bytes = typed.units_latency.as_deref().and_then(TwoColumns::bytes);
    let two_columns = TwoColumns {
        time_unit_ns: unit(&typed.units_time)?.unwrap_or(TwoColumns::default().time_unit_ns),
        latency_unit_ns: if unit_bytes.is_some() { None } else { unit(&typed.units_latency)? },
        unit_bytes,
    };
    if input.follow && input.read.len() != 1 {
        return Err(Failure::Usage("--follow reads one file; give one -r.".into()));
    }
    let fio_columns = typed.log_columns.as_deref().map(fio_columns).transpose()?;
    let (files, takes_averages) = files(&input.read, format, over_time)?;
    Ok(Reading {
        files,
        takes_averages,
        follow: input.follow,
        live,
        // Whoever says what the columns of a log are says that it is one.
        format: format.or(fio_columns.map(|_| Format::FioLog)),
        all_syscalls: input.source == Some(args::Source::Syscall),
        two_columns,
        fio_columns,
        lenient: typed.lenient,
        from_queue: typed.latency == args::Latency::Request,
        offsets: input.offsets.clone(),
        omitted_every_ns: duration("--correct-omission", &typed.correct_omission)?,
        filter: filter(&input.filter, input.source.filter(|_| !input.read.is_empty()))?,
    })
}

fn fio_columns(names: &str) -> Result<FioColumns, Failure> {
    FioColumns::parse(names).ok_or_else(|| {
        Failure::Usage(format!(
            "--log-columns {names}: no fio writes such rows; of {} only max, offset, priority and issue may be missing, \
             and the order is this one.",
            FioColumns::NAMES.join(",")
        ))
    })
}

fn live(source: Option<args::Source>, typed: &args::Live) -> Result<Live, Failure> {
    let source = match source {
        None | Some(args::Source::Block) => Source::Block,
        Some(args::Source::Io) => Source::Io,
        Some(args::Source::Syscall) => Source::Syscall,
    };
    if source == Source::Block && !typed.calls.is_empty() {
        return Err(Failure::Usage("--calls is about system calls; give -s io or -s syscall with it.".into()));
    }
    let calls = (!typed.calls.is_empty()).then(|| typed.calls.clone());
    Ok(Live { source, for_ns: duration("--for", &typed.for_)?, calls, mode: typed.mode, sample: None })
}

/// No length of time is longer, so that sums of a few stay numbers: 73 years.
const LONGEST_NS: u64 = i64::MAX as u64 / 4;

/// A length of time above zero that was typed with its unit.
fn duration(option: &str, typed: &Option<String>) -> Result<Option<u64>, Failure> {
    let Some(text) = typed else { return Ok(None) };
    match parse_duration(text) {
        _ if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(Failure::Usage(format!("{option} {text} needs a unit: {text}s or {text}m.")))
        }
        Ok(0) => Err(Failure::Usage(format!("{option} must be longer than zero."))),
        Ok(ns) if ns <= LONGEST_NS => Ok(Some(ns)),
        Err(error) if !error.is_too_large() => Err(Failure::Usage(format!("{option}: {error}."))),
        _ => {
            let days = LONGEST_NS / 86_400_000_000_000;
            Err(Failure::Usage(format!("{option} {text} is too long; the longest is {days}d.")))
        }
    }
}

fn record(typed: Arguments) -> Result<Plan, Failure> {
    let Verb::Record(typed) = typed.verb else { unreachable!("planned for record only") };
    if typed.write.extension().is_none_or(|ending| ending != "lat") {
        let message = "-w takes a trace, whose name ends in .lat; latscope convert makes other files of it.";
        return Err(Failure::Usage(message.into()));
    }
    let mut live = live(Some(typed.source), &typed.live())?;
    if let Some(text) = &typed.sample {
        let one_in = text.strip_prefix("1/").and_then(|number| number.parse().ok()).filter(|&number: &u32| number > 0);
        let one_in = one_in
            .ok_or_else(|| Failure::Usage(format!("--sample {text} is not a ratio; write for instance 1/256.")))?;
        live.sample = Some(Sample { slow_ns: duration("--only-slow", &typed.only_slow)?.unwrap_or(u64::MAX), one_in });
    }
    let keep = typed.keep.as_deref().map(rotation::keep).transpose()?;
    let reading = Reading { live: Some(live), filter: filter(&typed.filter, None)?, ..Reading::default() };
    let rotate = typed.rotate.as_deref().map(rotation::rotate).transpose()?;
    let with = match &typed.with[..] {
        [all] if all == "all" => FieldSet::EVERY,
        names => names.iter().map(|name| column("--with", name.trim())).collect::<Result<_, _>>()?,
    };
    let recording = Recording { write: typed.write, force: typed.force, rotate, keep, with, command: typed.command };
    Ok(Plan::Record(reading, recording))
}

/// The filter of the words, and of `-s` with files: block requests have a device number, system calls have none.
pub fn filter(words: &[String], source: Option<args::Source>) -> Result<Option<Filter>, Failure> {
    let words = words.join(" ");
    let parse = |text: &str| Filter::parse(text).map_err(|error| Failure::Usage(format!("{error}\n{}", error.caret())));
    let mut filter = if words.trim().is_empty() { None } else { Some(parse(&words)?) };
    let source = match source {
        None => return Ok(filter),
        Some(args::Source::Block) => "disk.dev exists and not result exists",
        Some(args::Source::Io | args::Source::Syscall) => "not (disk.dev exists and not result exists)",
    };
    // The user's words were parsed alone first, so that an error points into them.
    filter = Some(match filter {
        None => parse(source)?,
        Some(filter) => parse(&format!("({source}) and ({filter})"))?,
    });
    Ok(filter)
}

fn folding(typed: &args::Fold, input: &args::Input) -> Result<Folding, Failure> {
    let unit_bytes = input.files.units_latency.as_deref().and_then(TwoColumns::bytes);
    let quantity = match (quantity(typed.quantity), unit_bytes) {
        // Sizes are told in bytes, offsets in larger units, on an axis that begins at zero.
        (Quantity::Latency, Some(1)) => Quantity::Size,
        (Quantity::Latency, Some(_)) => Quantity::Offset,
        (quantity, _) => quantity,
    };
    // trace2heatmap's --maxlat is a bare number in the unit of the file.
    let unit = input.files.units_latency.as_ref().or(input.files.units_time.as_ref()).filter(|_| !quantity.is_bytes());
    let bound = |name: &str, text: &Option<String>| match text {
        None => Ok(None),
        Some(text) if unit.is_some() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            let text = format!("{text}{}", unit.map_or("", String::as_str));
            parse_duration(&text).map(Some).map_err(|error| Failure::Usage(format!("--{name}: {error}.")))
        }
        Some(text) if unit_bytes.is_some() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            let bytes = text.parse::<u64>().ok().and_then(|value| value.checked_mul(unit_bytes.unwrap_or(1)));
            bytes.map(Some).ok_or_else(|| Failure::Usage(format!("--{name} {text} is too large.")))
        }
        Some(text) => {
            let value = if quantity.is_bytes() { parse_size(text) } else { parse_duration(text) };
            value.map(Some).map_err(|error| Failure::Usage(format!("--{name}: {error}.")))
        }
    };
    let (min, max) = (bound("min", &typed.min)?, bound("max", &typed.max)?);
    if let (Some(min), Some(max)) = (min, max)
        && min >= max
    {
        return Err(Failure::Usage("--min must be smaller than --max.".into()));
    }
    Ok(Folding {
        by: fields("--by", &typed.by)?,
        weight: match typed.weight {
            args::Weight::Count => Weight::Count,
            args::Weight::Time => Weight::Time,
            args::Weight::Bytes => Weight::Bytes,
        },
        quantity,
        min,
        max,
        completed_only: typed.completed_only,
        over_time: true,
        ..Folding::of_latencies(interval(&typed.interval)?)
    })
}

fn quantity(typed: args::Quantity) -> Quantity {
    match typed {
        args::Quantity::Latency => Quantity::Latency,
        args::Quantity::Size => Quantity::Size,
        args::Quantity::Offset => Quantity::Offset,
        args::Quantity::Queue => Quantity::Queue,
        args::Quantity::Service => Quantity::Service,
        args::Quantity::Lag => Quantity::Lag,
    }
}

/// Instead of an interval: find out which.
const AUTO: &str = "auto";

fn interval(typed: &Option<String>) -> Result<Option<u64>, Failure> {
    let Some(text) = typed.as_ref().filter(|text| *text != AUTO) else { return Ok(None) };
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Sysdig's chisel takes its interval as a bare number of milliseconds; a bare number here would be nanoseconds.
        return Err(Failure::Usage(format!("-i {text} needs a unit: {text}ms or {text}s.")));
    }
    duration("-i", typed)
}

fn fields(option: &str, names: &[String]) -> Result<Vec<Field>, Failure> {
    let field = |name: &String| {
        let field = column(option, name.trim())?;
        if option == "--by" && matches!(field.field_type(), FieldType::Time | FieldType::Duration) {
            let message =
                format!("--by {name} would make a group of every value; use -i for time, or --y for the axis.");
            return Err(Failure::Usage(message));
        }
        Ok(field)
    };
    names.iter().map(field).collect()
}

/// The column that is meant by a name: its own, one of the filter's, or a word of those who measure with probes.
fn column(option: &str, name: &str) -> Result<Field, Failure> {
    let name = if ["directory", "dir"].contains(&name) { Field::Job.name() } else { name };
    if let Some(field) = latscope_filter::column(name) {
        return Ok(field);
    }
    let known = latscope_filter::filter_fields();
    let is_known = known.iter().any(|field| field.name() == name || field.aliases().contains(&name));
    Err(Failure::Usage(match is_known {
        true => format!(
            "{option}: {name} is made of columns and exists in filters only; latscope fields lists the columns."
        ),
        false => {
            let meant = also_called(name).map(|meant| format!("did you mean {meant}? ")).unwrap_or_default();
            format!("{option}: there is no field {name}; {meant}latscope fields lists them.")
        }
    }))
}

/// The column that other programs call so.
fn also_called(name: &str) -> Option<&'static str> {
    const WORDS: [(&[&str], &str); 6] = [
        (&["direction", "ddir", "rw", "op", "operation", "type"], "kind"),
        (&["client", "server", "node", "hostname", "machine"], "host"),
        (&["jobname", "job_name", "volume", "worker"], "job"),
        (&["disk", "drive", "volume_name", "devname"], "device"),
        (&["thread", "thread_id"], "tid"),
        (&["file", "filename", "file_name"], "path"),
    ];
    let name = name.to_ascii_lowercase();
    WORDS.iter().find(|(words, _)| words.contains(&name.as_str())).map(|&(_, meant)| meant)
}

/// As asked, else by the ending of the file.
fn shape(typed: args::Table, output: &Option<PathBuf>) -> Shape {
    let ending = output.as_ref().and_then(|path| path.extension()).and_then(|ending| ending.to_str());
    match (typed.csv, typed.json, ending) {
        (true, ..) | (_, false, Some("csv")) => Shape::Csv,
        (_, true, _) | (.., Some("json" | "jsonl" | "ndjson")) => Shape::Json,
        _ => Shape::Text,
    }
}

fn summary(typed: args::Summary) -> Result<Summary, Failure> {
    let over_ns = match &typed.over {
        None => None,
        Some(text) => Some(parse_duration(text).map_err(|error| Failure::Usage(format!("--over: {error}.")))?),
    };
    if over_ns.is_some() && typed.shows_use && typed.interval.is_none() {
        return Err(Failure::Usage(
            "--use and --over have tables of their own; give one of them, or both with -i.".into(),
        ));
    }
    let by_default = typed.by.is_empty();
    let by = match &typed.by[..] {
        // Most calls have no device that says more than their file.
        [] if typed.input.read.is_empty() && calls(typed.input.source) => vec![Field::Name],
        [] => vec![Field::Device],
        [none] if none == "none" => Vec::new(),
        names => fields("--by", names)?,
    };
    let quantity = quantity(typed.quantity);
    let completed_only = typed.completed_only;
    let folding = Folding {
        by,
        weight: Weight::Bytes,
        quantity,
        completed_only,
        ..Folding::of_latencies(interval(&typed.interval)?)
    };
    let shows_use = typed.shows_use;
    Ok(Summary {
        folding,
        by_default,
        over_ns,
        shows_use,
        sort: typed.sort,
        shape: shape(typed.table, &typed.output),
        output: typed.output,
    })
}

/// Whether system calls are asked for.
fn calls(source: Option<args::Source>) -> bool {
    matches!(source, Some(args::Source::Io | args::Source::Syscall))
}

/// Whether a picture is asked for.
fn is_svg(output: &Option<PathBuf>) -> bool {
    output.as_ref().and_then(|path| path.extension()).is_some_and(|ending| ending.eq_ignore_ascii_case("svg"))
}

pub fn theme(dark: bool, light: bool) -> Theme {
    match (dark, light) {
        (true, _) => Theme::Dark,
        (_, true) => Theme::Light,
        _ => Theme::Adaptive,
    }
}

fn events(typed: args::Events) -> Result<Events, Failure> {
    // What the filter takes for the completion is a number or a text of wall-clock time here.
    let column = |name: &String| match name.trim() {
        "end_ns" | "end" | "ts" | "evt.rawtime" => Ok(RowColumn::End),
        "wall" | "evt.time" | "evt.datetime" | "evt.time.iso8601" => Ok(RowColumn::Wall(Wall::default())),
        name => column("--columns", name).map(RowColumn::Field),
    };
    let columns = typed.columns.iter().map(column).collect::<Result<Vec<_>, _>>()?;
    let columns = Some(columns).filter(|columns| !columns.is_empty());
    Ok(Events {
        columns,
        top: typed.top,
        sort: typed.sort,
        shape: shape(typed.table, &typed.output),
        output: typed.output,
    })
}

fn conversion(typed: args::Convert) -> Result<Conversion, Failure> {
    let ending = |path: &Path| path.extension().and_then(|ending| ending.to_str()).map(str::to_string);
    let name = typed.to.clone().or_else(|| ending(&typed.write));
    let target = match name.as_deref() {
        Some("lat") => Target::Lat,
        Some("parquet") => Target::Parquet,
        Some("csv") => Target::Csv,
        Some("hlog") => Target::Hlog,
        Some("jsonl" | "ndjson" | "json") => Target::JsonLines,
        _ => {
            return Err(Failure::Usage(
                "Say what to write: end the name in .lat, .parquet, .csv, .jsonl or .hlog, or give --to.".into(),
            ));
        }
    };
    let series = if typed.series || target == Target::Hlog {
        if !matches!(target, Target::Parquet | Target::Hlog) {
            let message = "--series is written as Parquet or for HdrHistogram; end the name in .parquet or .hlog.";
            return Err(Failure::Usage(message.into()));
        }
        let by = fields("--by", &typed.by)?;
        Some(Folding { by, over_time: true, ..Folding::of_latencies(interval(&typed.interval)?) })
    } else if typed.interval.is_some() || !typed.by.is_empty() {
        return Err(Failure::Usage("-i and --by are for histograms: give --series, or write a .hlog.".into()));
    } else {
        None
    };
    Ok(Conversion { write: typed.write, force: typed.force, target, series })
}

/// The columns that a filter needs.
pub fn filter_fields(reading: &Reading) -> FieldSet {
    let queue = if reading.from_queue { FieldSet::default().with(&[Field::Queue]) } else { FieldSet::default() };
    reading.filter.as_ref().map_or(queue, |filter| filter.fields().union(queue))
}
