//! What the words of `lab` mean.

use super::folding::duration;
use super::{Plan, theme};
use crate::world::World;
use crate::{Failure, args};
use latscope_capture_probe::{Cache, Lab as Experiments, Order, PRESETS, Pace, Probe, Work};
use latscope_event::parse_size;
use latscope_series::Threshold;
use latscope_view_report::Theme;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Plan of `lab`.
#[derive(Debug, PartialEq)]
pub struct Lab {
    pub lab: Experiments,
    pub directories: Vec<PathBuf>,
    /// The folder for results.
    pub output: PathBuf,
    pub dry_run: bool,
    pub fail_if: Option<Threshold>,
    /// Of each experiment: when a volume fails it, and how that is written.
    pub limits: Vec<Option<(Threshold, String)>>,
    pub json: bool,
    pub theme: Theme,
}

/// Plan of `lab scan`.
#[derive(Debug, PartialEq)]
pub struct Scan {
    /// How all of it is read.
    pub probe: Probe,
    /// The folder for traces.
    pub output: PathBuf,
    pub json: bool,
}

/// `--quick` takes this part of a turn.
const QUICK: u32 = 10;

/// Plans `lab`.
pub fn plan(typed: args::Lab, world: &World) -> Result<Plan, Failure> {
    let known = || PRESETS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    if typed.lab == "spark" {
        return super::spark_lab::plan(typed);
    }
    if typed.spark.is_given() {
        return Err(Failure::Usage("--scale, --queries, --conf, --against and --python are for lab spark.".into()));
    }
    if typed.lab == "scan" {
        return scan(typed, world);
    }
    if typed.speed.is_some() || typed.size.is_some() || typed.start.is_some() {
        return Err(Failure::Usage("--speed, --size and --start are for lab scan.".into()));
    }
    let mut directories = typed.paths;
    let mut lab = match typed.lab.as_str() {
        "list" if directories.is_empty() => return Ok(Plan::Labs(typed.json)),
        "list" => return Err(Failure::Usage("lab list takes no directory.".into())),
        "run" if directories.is_empty() => {
            return Err(Failure::Usage(
                "lab run needs a TOML file and then the directories; docs/reference/lab.md shows an example.".into(),
            ));
        }
        "run" => read(&directories.remove(0), world)?,
        name => Experiments::preset(name).ok_or_else(|| {
            Failure::Usage(format!(
                "Unknown lab {name}; known labs: {}. To run your own: latscope lab run FILE.",
                known()
            ))
        })?,
    };
    if directories.is_empty() {
        return Err(Failure::Usage(format!("No directory to measure; use latscope lab {} DIR...", typed.lab)));
    }
    if let Some(twice) = (1..directories.len()).find(|&at| directories[..at].contains(&directories[at])) {
        return Err(Failure::Usage(format!(
            "{} is given twice; to compare a directory with itself, write it differently, as DIR and DIR/.",
            directories[twice].display()
        )));
    }
    let turn = duration("--for", &typed.for_)?.map(Duration::from_nanos);
    for experiment in &mut lab.experiments {
        experiment.turn = turn.unwrap_or(experiment.turn / if typed.quick { QUICK } else { 1 });
    }
    lab.rounds = typed.rounds.unwrap_or(lab.rounds);
    let threshold = |what: &str, text: &str| match Threshold::parse(text) {
        Ok(threshold) if threshold.intervals() > 1 => {
            Err(Failure::Usage(format!("{what}: a lab is judged as a whole; remove \"for N intervals\".")))
        }
        Ok(threshold) if threshold.asks_what_waits() => {
            Err(Failure::Usage(format!("{what}: a lab waits for all its requests; remove oldest and waiting.")))
        }
        Ok(threshold) => Ok(threshold),
        Err(message) => Err(Failure::Usage(format!("{what}: {message}."))),
    };
    let fail_if = typed.fail_if.as_deref().map(|text| threshold("--fail-if", text)).transpose()?;
    let mut limits = Vec::new();
    for experiment in &lab.experiments {
        limits.push(match &experiment.limit {
            Some((text, line)) => Some((threshold(&format!("{}:{line}: limit", lab.name), text)?, text.clone())),
            None => None,
        });
    }
    let output = typed.output.unwrap_or_else(|| PathBuf::from(format!("lab-{}", lab.name)));
    let (dry_run, json, theme) = (typed.dry_run, typed.json, theme(typed.dark, false));
    Ok(Plan::Lab(Box::new(Lab { lab, directories, output, dry_run, fail_if, limits, json, theme })))
}

/// A device that is read once.
fn scan(typed: args::Lab, world: &World) -> Result<Plan, Failure> {
    let usage = |message: &str| Err(Failure::Usage(message.into()));
    let [target] = &typed.paths[..] else { return usage("lab scan reads one device or file; name it.") };
    let is_lab = typed.for_.is_some() || typed.quick || typed.rounds.is_some() || typed.dry_run;
    if is_lab || typed.fail_if.is_some() || typed.dark {
        return usage("lab scan takes --speed, --size, --start, -o and --json.");
    }
    if (world.is_dir)(target) {
        return usage("lab scan reads a device or a file, not a directory.");
    }
    let size = |option: &str, text: &Option<String>, default: u64| match text.as_deref().map(parse_size) {
        None => Ok(default),
        Some(Ok(bytes)) => Ok(bytes),
        Some(Err(error)) => Err(Failure::Usage(format!("--{option}: {error}."))),
    };
    let (bytes, speed) = (size("size", &typed.size, 1 << 20)?, size("speed", &typed.speed, 32 << 20)?);
    if bytes == 0 || !bytes.is_multiple_of(4096) || speed == 0 {
        return usage("--size must be a multiple of 4KiB, and --speed above zero.");
    }
    let work = Work {
        size: bytes,
        work_offset: size("start", &typed.start, 0)?,
        order: Order::Once,
        cache: Cache::Any,
        direct: true,
        ..Work::default()
    };
    let interval_ns = u128::from(bytes) * 1_000_000_000 / u128::from(speed);
    let pace = Pace::closed(u64::try_from(interval_ns).unwrap_or(u64::MAX), 0);
    let probe = Probe { work, pace, idle: true, seed: world.seed, ..Probe::new(target) };
    let output = typed.output.unwrap_or_else(|| "lab-scan".into());
    Ok(Plan::Scan(Box::new(Scan { probe, output, json: typed.json })))
}

/// Experiments of the user's own.
fn read(file: &Path, world: &World) -> Result<Experiments, Failure> {
    let text =
        (world.read)(file).map_err(|error| Failure::Usage(format!("{}: Cannot be read: {error}.", file.display())))?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    Experiments::parse(&name, &file.display().to_string(), &text).map_err(|error| Failure::Usage(error.to_string()))
}
