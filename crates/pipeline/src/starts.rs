//! When each trace started: logs of several hosts that count from their own start are laid on one clock.

use crate::pass::is_relative;
use crate::{Error, Pipeline, Reading};
use latscope_capture_file::{
    JobStart, ReadOptions, SeriesReader, Trust, are_of_several_runs, counts_from_1970, host_and_job, is_pipe,
    job_starts,
};
use latscope_event::{Anomaly, Batch, Clock, Context, FieldSet, Note};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::OnceLock;

/// No clock of a test is off by more than a century.
const LARGEST_MS: f64 = 3.2e12;
/// An offset beyond September 2001 is a time since 1970.
const SINCE_1970_NS: i64 = 1_000_000_000_000_000_000;

/// What is known of the starts of the files of a call.
pub struct Starts<'a> {
    pipeline: &'a Pipeline,
    /// As the user gave them: by `host` or `host:job`, nanoseconds.
    offsets: Option<BTreeMap<String, i64>>,
    /// As the results beside the logs give them; looked for when the first log needs them.
    jobs: OnceLock<Jobs>,
    /// The earliest start or moment of all that give their time since 1970; looked for when the first log needs it.
    origin_ns: OnceLock<Option<i64>>,
    /// The earliest start of all files.
    earliest_ns: OnceLock<Option<i64>>,
    /// By file: when it starts on the common clock. Looked for when traces are aligned by their starts.
    starts_ns: OnceLock<Vec<Option<i64>>>,
}

/// What the names of logs and the results beside them give.
struct Jobs {
    starts: Vec<Option<JobStart>>,
    /// Of logs that count from another clock's zero: the first moment, and by run what makes its times those since 1970.
    firsts_ns: Vec<Option<i64>>,
    zeros_ns: BTreeMap<usize, i64>,
    are_of_several_runs: bool,
}

/// By how much a trace is moved, and what that makes of it.
#[derive(Clone, Copy, Default)]
struct Move {
    by_ns: i64,
    /// Its times are then Unix times.
    to_wall: bool,
    /// When it started, on the common clock, where its own clock does not start with it.
    start_ns: Option<i64>,
    /// How it is known, where fio did not give it.
    doubt: Option<Anomaly>,
    /// Its times then count from its own start.
    to_start: bool,
}

impl<'a> Starts<'a> {
    /// For the files of a call; reads the file of offsets.
    pub fn new(pipeline: &'a Pipeline) -> Result<Starts<'a>, Error> {
        let offsets = pipeline.reading.offsets.as_deref().map(offsets).transpose()?;
        Ok(Starts {
            pipeline,
            offsets,
            jobs: OnceLock::new(),
            origin_ns: OnceLock::new(),
            earliest_ns: OnceLock::new(),
            starts_ns: OnceLock::new(),
        })
    }

    fn movement(&self, at: usize, context: &Context) -> Move {
        let movement = self.movement_to_common(at, context);
        if !self.pipeline.reading.align_starts {
            return movement;
        }
        let files = 0..self.pipeline.reading.files.len();
        let start_ns = self.starts_ns.get_or_init(|| files.map(|at| self.file_start_ns(at)).collect())[at];
        // What is read once cannot be looked at beforehand.
        let start_ns = start_ns.or_else(|| movement.context(context.clone()).trace_start_ns()).unwrap_or(0);
        let by_ns = movement.by_ns.saturating_sub(start_ns);
        Move { by_ns, start_ns: Some(0), doubt: None, to_start: true, ..movement }
    }

    /// When a file starts on the common clock.
    fn file_start_ns(&self, at: usize) -> Option<i64> {
        let (first_ns, context) = self.first(at)?;
        let movement = self.movement_to_common(at, &context);
        let moved = movement.context(context).trace_start_ns();
        moved.or(Some(first_ns.saturating_add(movement.by_ns)))
    }

    fn movement_to_common(&self, at: usize, context: &Context) -> Move {
        let is_wall = context.clock.to_unix_ns.is_some();
        let counts_from_start = context.start_ns.is_some() && !is_wall;
        if let Some((_, offset_ns)) = self.offset(at, context.host.as_deref()) {
            let origin_ns = if counts_from_start { self.origin_of_offset(offset_ns) } else { None };
            let by_ns = origin_ns.unwrap_or(0).saturating_add(offset_ns);
            return Move { by_ns, to_wall: origin_ns.is_some(), ..Move::default() };
        }
        let assumed = Some(Anomaly::AssumedStart);
        if !counts_from_start {
            return Move { doubt: assumed.filter(|_| self.offsets.is_some() && !is_wall), ..Move::default() };
        }
        let jobs = self.jobs();
        // Of a clock that starts with the job, or of another one.
        let starts_at = |start_ns: i64, to_wall, doubt| match jobs.firsts_ns[at] {
            None => Move { by_ns: start_ns, to_wall, start_ns: None, doubt, to_start: false },
            Some(first_ns) => {
                let by_ns = start_ns.saturating_sub(first_ns);
                Move { by_ns, to_wall, start_ns: Some(start_ns), doubt, to_start: false }
            }
        };
        if let Some(JobStart { ns: Some(start_ns), trust, run, .. }) = jobs.starts[at] {
            let movement = starts_at(start_ns, true, doubt(trust));
            let zero_ns = movement.start_ns.and_then(|_| jobs.zeros_ns.get(&run));
            return Move { by_ns: zero_ns.copied().unwrap_or(movement.by_ns), ..movement };
        }
        match self.origin_ns() {
            // With those whose start is known, rather than half a century before them.
            Some(origin_ns) => starts_at(origin_ns, true, assumed),
            None => starts_at(0, false, assumed.filter(|_| jobs.are_of_several_runs || self.offsets.is_some())),
        }
    }

    /// What the user gave for the host or job of a file: the line's name and the nanoseconds.
    fn offset(&self, at: usize, host: Option<&str>) -> Option<(&str, i64)> {
        let offsets = self.offsets.as_ref()?;
        let (of_name, job) = host_and_job(&self.pipeline.reading.files[at]).unwrap_or_default();
        let host = of_name.or_else(|| host.map(str::to_string)).unwrap_or_else(|| "-".into());
        let of_job = job.and_then(|job| offsets.get_key_value(&format!("{host}:{job}")));
        of_job.or_else(|| offsets.get_key_value(&host)).map(|(name, &ns)| (name.as_str(), ns))
    }

    /// Where an offset counts from, if that is known: 1970, or the origin.
    fn origin_of_offset(&self, offset_ns: i64) -> Option<i64> {
        if offset_ns >= SINCE_1970_NS { Some(0) } else { self.origin_ns() }
    }

    fn jobs(&self) -> &Jobs {
        self.jobs.get_or_init(|| {
            let files = &self.pipeline.reading.files;
            let mut jobs = Jobs {
                starts: job_starts(files, &self.pipeline.fio_results),
                firsts_ns: vec![None; files.len()],
                zeros_ns: BTreeMap::new(),
                are_of_several_runs: are_of_several_runs(files),
            };
            let run = jobs.starts.first().copied().flatten().map(|start| start.run);
            let needs_none = |start: &Option<JobStart>| {
                start.is_some_and(|start| Some(start.run) == run && start.trust != Trust::Known && !start.other_epoch)
            };
            if jobs.starts.iter().all(needs_none) {
                // The logs of one run need no estimate to lie right among each other.
                let is_assumed = |start: &Option<JobStart>| start.is_some_and(|start| start.trust == Trust::Assumed);
                jobs.are_of_several_runs = jobs.starts.iter().any(is_assumed);
                jobs.starts.fill(None);
            }
            for (at, start) in jobs.starts.iter().enumerate() {
                let Some(start) = start.filter(|start| start.other_epoch) else { continue };
                let Some((first_ns, _)) = self.first(at).filter(|(_, first)| first.clock.to_unix_ns.is_none()) else {
                    continue;
                };
                jobs.firsts_ns[at] = Some(first_ns);
                // Nothing is issued before its job starts, so the jobs of a run bound its clock from one side.
                if let Some(start_ns) = start.ns {
                    let zero_ns = jobs.zeros_ns.entry(start.run).or_insert(i64::MIN);
                    *zero_ns = start_ns.saturating_sub(first_ns).max(*zero_ns);
                }
            }
            jobs
        })
    }

    fn origin_ns(&self) -> Option<i64> {
        *self.origin_ns.get_or_init(|| {
            let of_file = |at: usize| {
                let file = &self.pipeline.reading.files[at];
                let moment = |host: Option<&str>| match self.offset(at, host) {
                    Some((_, offset_ns)) if offset_ns >= SINCE_1970_NS => Some(offset_ns),
                    Some(_) => None,
                    None => self.jobs().starts[at]?.ns,
                };
                if counts_from_1970(file) == Some(false) {
                    return moment(None);
                }
                let (first_ns, context) = self.first(at)?;
                let host = context.host.as_deref();
                let Some(to_unix_ns) = context.clock.to_unix_ns else { return moment(host) };
                let offset_ns = self.offset(at, host).map_or(0, |(_, ns)| ns);
                Some(first_ns.saturating_add(to_unix_ns).saturating_add(offset_ns))
            };
            (0..self.pipeline.reading.files.len()).filter_map(of_file).min()
        })
    }

    /// The first moment of a file, on its own clock, and what the file says at its beginning.
    fn first(&self, at: usize) -> Option<(i64, Context)> {
        let (pipeline, file) = (self.pipeline, &self.pipeline.reading.files[at]);
        if is_pipe(file) {
            return None;
        }
        let format = pipeline.formats[at]?;
        if format.is_series() {
            let mut reader = SeriesReader::open(file, &pipeline.options(at, FieldSet::ALWAYS)).ok()?;
            let row = reader.next()?.ok()?;
            return Some((row.time_ns, reader.context().clone()));
        }
        let options = ReadOptions { follow: None, ..pipeline.options(at, FieldSet::ALWAYS) };
        let mut first = None;
        // What cannot be read is reported when it is read as a whole.
        let _ = latscope_capture_file::read(file, &options, &mut |context, batch| {
            first = batch.time().iter().min().map(|&ns| (ns, context.clone()));
            ControlFlow::Break(())
        });
        first
    }

    /// Where relative times of the filter count from, on the common clock, where several files are read: the earliest start.
    pub fn common_ns(&self) -> Option<i64> {
        let Reading { files, filter, .. } = &self.pipeline.reading;
        let is_common = files.len() > 1 && filter.as_ref().is_some_and(is_relative);
        if is_common { self.earliest_ns() } else { None }
    }

    /// The earliest start of all files, on the common clock.
    pub fn earliest_ns(&self) -> Option<i64> {
        *self.earliest_ns.get_or_init(|| {
            let start = |at: usize| {
                if self.pipeline.reading.align_starts { Some(0) } else { self.file_start_ns(at) }
            };
            (0..self.pipeline.reading.files.len()).filter_map(start).min()
        })
    }

    /// Lines of offsets that are of no file.
    fn unused(&self) -> Option<Note> {
        let lines: BTreeSet<&str> = self.offsets.as_ref()?.keys().map(String::as_str).collect();
        let files = 0..self.pipeline.reading.files.len();
        let by_name: BTreeSet<&str> = files.clone().filter_map(|at| Some(self.offset(at, None)?.0)).collect();
        let others = files.filter(|&at| host_and_job(&self.pipeline.reading.files[at]).is_none());
        // Other files give their host themselves.
        let others = others.filter(|_| by_name != lines).filter_map(|at| Some((at, self.first(at)?.1.host?)));
        let others = others.filter_map(|(at, host)| Some(self.offset(at, Some(&host))?.0));
        let used: BTreeSet<&str> = others.chain(by_name.iter().copied()).collect();
        let hosts: Vec<String> = lines.difference(&used).map(|&host| host.to_owned()).collect();
        let file = self.pipeline.reading.offsets.as_deref().unwrap_or(Path::new("")).display().to_string();
        (!hosts.is_empty()).then_some(Note::UnusedOffsets { file, hosts })
    }

    /// Hands on a batch of the file at this place as it is on the common clock.
    pub fn moved<T>(&self, at: usize, context: &Context, batch: &Batch, take: impl FnOnce(&Context, &Batch) -> T) -> T {
        let movement = self.movement(at, context);
        if movement.by_ns == 0 && !movement.to_wall && !movement.to_start {
            return take(context, batch);
        }
        take(&movement.context(context.clone()), &batch.shifted(movement.by_ns))
    }

    /// By how much the times of the file at this place are moved, nanoseconds.
    pub fn shift_ns(&self, at: usize, context: &Context) -> i64 {
        self.movement(at, context).by_ns
    }

    /// When the file at this place started, on the common clock, where that is known.
    pub fn start_ns(&self, at: usize, context: &Context) -> Option<i64> {
        let movement = self.movement(at, context);
        movement.start_ns.or(context.start_ns.map(|ns| ns.saturating_add(movement.by_ns)))
    }

    /// What the file at this place says in the end, on the common clock.
    pub fn context(&self, at: usize, context: Context) -> Context {
        let movement = self.movement(at, &context);
        let mut context = movement.context(context);
        movement.doubt.into_iter().for_each(|doubt| context.tally.add(doubt, 1));
        if at == 0 {
            self.unused().into_iter().for_each(|unused| context.note(unused));
            context.tally.add(Anomaly::MissingInputs, self.pipeline.reading.missing);
        }
        context
    }
}

/// What is to be reported of a start.
fn doubt(trust: Trust) -> Option<Anomaly> {
    match trust {
        Trust::Known => None,
        Trust::Estimated => Some(Anomaly::EstimatedStart),
        Trust::Assumed => Some(Anomaly::AssumedStart),
    }
}

impl Move {
    fn context(self, mut context: Context) -> Context {
        if self.to_start {
            context.clock = Clock::unanchored("start of each trace");
        } else if self.to_wall {
            context.clock = Clock::wall();
        }
        let moved = |ns: i64| ns.saturating_add(self.by_ns);
        context.start_ns = self.start_ns.or(context.start_ns.map(moved));
        context.span_ns = context.span_ns.map(|(from_ns, to_ns)| (moved(from_ns), moved(to_ns)));
        context.unfinished.iter_mut().for_each(|request| request.start_ns = moved(request.start_ns));
        context
    }
}

/// Reads lines of `host milliseconds` or `host:job milliseconds`; `#` starts a comment, `-` stands for no host.
fn offsets(path: &Path) -> Result<BTreeMap<String, i64>, Error> {
    let fail = |line: usize, why: &str| {
        let form = "each line must have a host (or host:job) and an offset in milliseconds, such as: vm1 250";
        Error::Offsets(format!("{}:{line}: {why}; {form}.", path.display()))
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::Offsets(format!("{}: Cannot be read: {error}.", path.display())))?;
    let mut offsets = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split([' ', '\t', ',']).filter(|word| !word.is_empty());
        let Some(host) = words.next() else { continue };
        let (Some(ms), None) = (words.next(), words.next()) else {
            return Err(fail(at + 1, "Expected two words"));
        };
        let ms = ms.strip_suffix("ms").unwrap_or(ms);
        let number = ms.parse().ok().filter(|ms: &f64| ms.abs() <= LARGEST_MS);
        let number = number.ok_or_else(|| fail(at + 1, "The offset is not a number of milliseconds"))?;
        // A time since 1970 is more than an f64 holds to the nanosecond.
        let whole = ms.parse().ok().and_then(|ms: i64| ms.checked_mul(1_000_000));
        if offsets.insert(host.to_string(), whole.unwrap_or((number * 1e6).round() as i64)).is_some() {
            return Err(fail(at + 1, "The host is given twice"));
        }
    }
    Ok(offsets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_offsets() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            offsets(file.path())
        };
        let known = read("# pdsh\nvm1 250\n\nvm2:run.2\t-0.5ms # late\n- 7\ne 1795000000253").ok().unwrap();
        let known: Vec<_> = known.iter().map(|(host, &ns)| (host.as_str(), ns)).collect();
        assert_eq!(
            known,
            [("-", 7_000_000), ("e", 1_795_000_000_253_000_000), ("vm1", 250_000_000), ("vm2:run.2", -500_000)]
        );
        for (text, why) in [
            ("vm1 1\nvm1", ":2: Expected two words"),
            ("vm1 1 2", ":1: Expected two words"),
            ("vm1 1s", ":1: The offset is not a number"),
            ("vm1 NaN", ":1: The offset is not a number"),
            ("vm1 1e300", ":1: The offset is not a number"),
            ("vm1 1\nvm1 1", ":2: The host is given twice"),
        ] {
            match read(text) {
                Err(Error::Offsets(message)) => assert!(message.contains(why), "{text}: {message}"),
                _ => panic!("{text} is no list of offsets"),
            }
        }
    }
}
