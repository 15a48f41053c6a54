//! Reading a lab from TOML.

use super::{Compare, Experiment, Lab, plain_work};
use crate::{AfterWrite, OpenSync, Operation, Order};
use latscope_event::{parse_duration, parse_size};
use serde::de::{Deserialize, Deserializer, Error as _};
use std::time::Duration;
use toml::Spanned;

/// A file that makes no lab.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct LabError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, with the way out; whole sentences.
    pub message: String,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: String,
    #[serde(default = "one")]
    rounds: Spanned<u32>,
    #[serde(default)]
    compare: Compare,
    experiment: Vec<Spanned<Written>>,
}

fn one() -> Spanned<u32> {
    Spanned::new(0..0, 1)
}

/// An experiment as it is written.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: Spanned<String>,
    about: String,
    operation: WrittenOperation,
    #[serde(default)]
    order: WrittenOrder,
    #[serde(deserialize_with = "size")]
    size: u64,
    #[serde(deserialize_with = "size")]
    work_size: u64,
    #[serde(default)]
    beyond_cache: bool,
    #[serde(default)]
    direct: bool,
    #[serde(default)]
    sync: WrittenSync,
    rate: Option<Spanned<f64>>,
    loads: Option<Spanned<Vec<u32>>>,
    #[serde(default = "once")]
    depth: u32,
    #[serde(default = "once")]
    threads: u32,
    #[serde(deserialize_with = "duration")]
    turn: Duration,
    limit: Option<Spanned<String>>,
}

fn once() -> u32 {
    1
}

#[derive(Clone, Copy, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenOperation {
    Read,
    Write,
    Alternate,
}

#[derive(Clone, Copy, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenOrder {
    #[default]
    Random,
    Linear,
    Append,
}

#[derive(Clone, Copy, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenSync {
    #[default]
    None,
    Fdatasync,
    Fsync,
    Dsync,
    Sync,
}

/// `"4k"`, `"1GiB"`, `"2300"`: bytes.
fn size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let text = String::deserialize(from)?;
    let bytes = parse_size(&text).map_err(D::Error::custom)?;
    if bytes == 0 { Err(D::Error::custom("a size must be above zero")) } else { Ok(bytes) }
}

/// `"15s"`, `"500ms"`.
fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(D::Error::custom(format!("{text} needs a unit: \"{text}s\"")));
    }
    match parse_duration(&text).map_err(D::Error::custom)? {
        0 => Err(D::Error::custom("a turn must be longer than zero")),
        ns if ns > LONGEST_NS => Err(D::Error::custom("a turn can be at most a day")),
        ns => Ok(Duration::from_nanos(ns)),
    }
}

const LONGEST_NS: u64 = 86_400_000_000_000;
const MOST_ROUNDS: u32 = 1000;
const MOST_EXPERIMENTS: usize = 100;

impl Lab {
    /// Reads a lab; `file` is named in errors.
    ///
    /// # Errors
    /// What is wrong in which line, and what to write instead.
    pub fn parse(name: &str, file: &str, text: &str) -> Result<Lab, LabError> {
        let line = |at: usize| 1 + text.as_bytes()[..at.min(text.len())].iter().filter(|&&byte| byte == b'\n').count();
        let fail =
            |at: usize, message: String| LabError { file: file.into(), line: line(at), message: sentence(&message) };
        let read: File = toml::from_str(text)
            .map_err(|error| fail(error.span().map_or(0, |span| span.start), error.message().into()))?;
        let rounds = *read.rounds.get_ref();
        if rounds == 0 || rounds > MOST_ROUNDS {
            return Err(fail(read.rounds.span().start, format!("rounds must be from 1 to {MOST_ROUNDS}")));
        }
        if read.experiment.is_empty() || read.experiment.len() > MOST_EXPERIMENTS {
            return Err(fail(0, format!("a lab must have 1 to {MOST_EXPERIMENTS} tables [[experiment]]")));
        }
        let mut experiments: Vec<Experiment> = Vec::new();
        for written in read.experiment {
            let at = written.span().start;
            let name_at = written.get_ref().name.span().start;
            let limit = written.get_ref().limit.as_ref();
            let limit = limit.map(|limit| (limit.get_ref().clone(), line(limit.span().start)));
            let experiment =
                written.into_inner().meant(limit).map_err(|(place, message)| fail(place.unwrap_or(at), message))?;
            if experiments.iter().any(|known| known.name == experiment.name) {
                let message = format!("two experiments are named {}; give them different names", experiment.name);
                return Err(fail(name_at, message));
            }
            experiments.push(experiment);
        }
        let (name, about, compare) = (name.to_string(), read.about, read.compare);
        Ok(Lab { name, about, rounds, compare, experiments })
    }
}

/// An error of ours: where it is, if not at the experiment, and what.
type Wrong = (Option<usize>, String);

impl Written {
    fn meant(self, limit: Option<(String, usize)>) -> Result<Experiment, Wrong> {
        let name = self.name.get_ref();
        let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
        if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
            let message = format!("the name \"{name}\" becomes part of a file name; use letters, digits, - and _");
            return Err((Some(self.name.span().start), message));
        }
        if self.work_size < self.size {
            return Err((None, "the work_size is smaller than a request; use a larger one".into()));
        }
        if let Some(rate) = self.rate.as_ref().filter(|rate| !(*rate.get_ref() > 0.0 && *rate.get_ref() <= 1e7)) {
            return Err((
                Some(rate.span().start),
                "the rate must be above zero and at most 10 million per second".into(),
            ));
        }
        if let Some(loads) = &self.loads {
            let wrong = if self.rate.is_some() {
                "loads are percentages of the maximum rate, so they cannot be combined with rate; remove one of them"
            } else if loads.get_ref().is_empty() || loads.get_ref().len() > 100 {
                "loads must be a list of 1 to 100 percentages, for example [10, 50, 90]"
            } else if loads.get_ref().iter().any(|load| !(1..=200).contains(load)) {
                "loads must be percentages from 1 to 200"
            } else {
                ""
            };
            if !wrong.is_empty() {
                return Err((Some(loads.span().start), wrong.into()));
            }
        }
        let append = matches!(self.order, WrittenOrder::Append);
        if append && !matches!(self.operation, WrittenOperation::Write) {
            return Err((None, "only writes can be appended; use order = \"linear\" or \"random\"".into()));
        }
        let reads = matches!(self.operation, WrittenOperation::Read);
        if reads && !matches!(self.sync, WrittenSync::None) {
            return Err((None, "sync needs writes, but this experiment only reads; remove it".into()));
        }
        if !(1..=1024).contains(&self.threads) || !(1..=4096).contains(&self.depth) {
            return Err((None, "threads must be from 1 to 1024, depth from 1 to 4096".into()));
        }
        Ok(self.experiment(limit))
    }

    fn experiment(self, limit: Option<(String, usize)>) -> Experiment {
        let (open_sync, after_write) = match self.sync {
            WrittenSync::None => (OpenSync::None, AfterWrite::None),
            WrittenSync::Fdatasync => (OpenSync::None, AfterWrite::Fdatasync),
            WrittenSync::Fsync => (OpenSync::None, AfterWrite::Fsync),
            WrittenSync::Dsync => (OpenSync::Dsync, AfterWrite::None),
            WrittenSync::Sync => (OpenSync::Sync, AfterWrite::None),
        };
        let mut work = plain_work();
        work.operation = match self.operation {
            WrittenOperation::Read => Operation::Read,
            WrittenOperation::Write => Operation::Write,
            WrittenOperation::Alternate => Operation::Alternate,
        };
        work.order = match self.order {
            WrittenOrder::Random => Order::Random,
            WrittenOrder::Linear => Order::Linear,
            WrittenOrder::Append => Order::Append,
        };
        (work.size, work.work_size, work.direct) = (self.size, Some(self.work_size), self.direct);
        (work.open_sync, work.after_write) = (open_sync, after_write);
        Experiment {
            name: self.name.into_inner(),
            about: self.about,
            turn: self.turn,
            rate: self.rate.map(Spanned::into_inner),
            loads: self.loads.map(Spanned::into_inner).unwrap_or_default(),
            limit,
            beyond_cache: self.beyond_cache,
            work,
            depth: self.depth,
            threads: self.threads,
        }
    }
}

/// With a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let text = text.trim().replace('\n', "; ");
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "about = 'x'\n[[experiment]]\nname = 'a'\nabout = 'y'\noperation = 'write'\nsize = '1k'\n\
        work_size = '1m'\nturn = '2s'\norder = 'append'\n";

    fn error(from: &str, to: &str) -> String {
        assert!(GOOD.contains(from), "{from}");
        Lab::parse("x", "x.toml", &GOOD.replace(from, to)).unwrap_err().to_string()
    }

    #[test]
    fn a_lab_is_read() {
        let lab = Lab::parse("x", "x.toml", GOOD).unwrap();
        assert_eq!((lab.rounds, lab.compare, lab.experiments.len()), (1, Compare::Directories, 1));
        let experiment = &lab.experiments[0];
        assert_eq!((experiment.work.size, experiment.work.work_size), (1024, Some(1 << 20)));
        assert_eq!((experiment.work.order, experiment.turn), (Order::Append, Duration::from_secs(2)));
    }

    #[test]
    fn errors_have_a_line_and_a_way_out() {
        for (from, to, line, words) in [
            ("'1k'", "'1 furlong'", 6, "furlong"),
            ("'2s'", "'2'", 8, "needs a unit"),
            ("'2s'", "'0s'", 8, "longer than zero"),
            ("'append'", "'sideways'", 9, "`append`"),
            ("order", "ordre", 9, "`order`"),
            ("'a'", "'a/../b'", 3, "letters, digits"),
            ("'1m'", "'1'", 2, "work_size"),
            ("'write'", "'read'", 2, "order = \"linear\""),
            ("'append'", "'append'\nrate = -1", 10, "above zero"),
            (
                "'write'\nsize = '1k'\nwork_size = '1m'\nturn = '2s'\norder = 'append'",
                "'read'\nsize = '1k'\nwork_size = '1m'\nturn = '2s'\nsync = 'fsync'",
                2,
                "only reads",
            ),
            ("'append'", "'append'\nrate = 1\nloads = [1]", 11, "remove one of them"),
            ("'append'", "'append'\nloads = [0]", 10, "from 1 to 200"),
            ("about = 'x'", "about = 'x'\nrounds = 0", 2, "1 to 1000"),
            ("about = 'x'", "about = x", 1, "."),
            ("name = 'a'", "", 2, "name"),
        ] {
            let error = error(from, to);
            assert!(error.starts_with(&format!("x.toml:{line}: ")), "{to}: {error}");
            assert!(error.contains(words) && error.ends_with('.'), "{to}: {error}");
        }
        let twice = format!("{GOOD}{}", GOOD.replace("about = 'x'\n", ""));
        assert_eq!(Lab::parse("x", "x.toml", &twice).unwrap_err().line, 11);
        assert!(Lab::parse("x", "x.toml", "about = 'x'\nexperiment = []").is_err());
    }
}
