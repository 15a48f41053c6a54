//! When each trace began: logs of several hosts that count from their own start are laid on one clock.

use crate::Failure;
use crate::plan::Reading;
use latscope_capture_file::{are_of_several_runs, host_and_job, job_starts};
use latscope_event::{Anomaly, Batch, Clock, Context};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// No clock of a test is off by more than a century.
const LARGEST_MS: f64 = 3.2e12;

/// What is known of the starts of the files of a call.
pub struct Starts<'a> {
    files: &'a [PathBuf],
    /// As the user gave them: by `host` or `host:job`, nanoseconds.
    offsets: Option<BTreeMap<String, i64>>,
    /// As the results beside the logs tell them; looked for when the first log needs them.
    jobs: OnceLock<Jobs>,
}

/// What the names of logs and the results beside them tell.
struct Jobs {
    starts: Vec<Option<i64>>,
    earliest_ns: Option<i64>,
    are_of_several_runs: bool,
}

impl Jobs {
    fn of(files: &[PathBuf]) -> Jobs {
        let starts = job_starts(files);
        let earliest_ns = starts.iter().flatten().min().copied();
        Jobs { earliest_ns, are_of_several_runs: earliest_ns.is_none() && are_of_several_runs(files), starts }
    }
}

/// By how much a trace is moved, and what that makes of it.
#[derive(Clone, Copy, Default)]
struct Move {
    by_ns: i64,
    /// Its times are then Unix times.
    to_wall: bool,
    /// Nothing told it.
    assumed: bool,
}

impl<'a> Starts<'a> {
    /// For the files of a call; reads the file of offsets.
    pub fn of(reading: &'a Reading) -> Result<Starts<'a>, Failure> {
        let offsets = reading.offsets.as_deref().map(offsets).transpose()?;
        Ok(Starts { files: &reading.files, offsets, jobs: OnceLock::new() })
    }

    fn movement(&self, at: usize, context: &Context) -> Move {
        if let Some(offsets) = &self.offsets {
            let (host, job) = host_and_job(&self.files[at]).unwrap_or_default();
            let host = host.or_else(|| context.host.clone()).unwrap_or_else(|| "-".into());
            let of_job = job.and_then(|job| offsets.get(&format!("{host}:{job}")));
            let given = of_job.or_else(|| offsets.get(&host)).copied();
            return Move { by_ns: given.unwrap_or(0), to_wall: false, assumed: given.is_none() };
        }
        if context.begin_ns.is_none() || context.clock.to_unix_ns.is_some() {
            return Move::default();
        }
        let jobs = self.jobs.get_or_init(|| Jobs::of(self.files));
        match (jobs.starts[at], jobs.earliest_ns) {
            (Some(start_ns), _) => Move { by_ns: start_ns, to_wall: true, assumed: false },
            // With those whose start is known, rather than half a century before them.
            (None, Some(earliest_ns)) => Move { by_ns: earliest_ns, to_wall: true, assumed: true },
            (None, None) => Move { assumed: jobs.are_of_several_runs, ..Move::default() },
        }
    }

    /// Hands on a batch of the file at this place as it is on the common clock.
    pub fn moved<T>(&self, at: usize, context: &Context, batch: &Batch, take: impl FnOnce(&Context, &Batch) -> T) -> T {
        let movement = self.movement(at, context);
        if movement.by_ns == 0 && !movement.to_wall {
            return take(context, batch);
        }
        take(&movement.context(context.clone()), &batch.shifted(movement.by_ns))
    }

    /// By how much the times of the file at this place are moved, nanoseconds.
    pub fn shift_ns(&self, at: usize, context: &Context) -> i64 {
        self.movement(at, context).by_ns
    }

    /// What the file at this place says in the end, on the common clock.
    pub fn context(&self, at: usize, context: Context) -> Context {
        let movement = self.movement(at, &context);
        let mut context = movement.context(context);
        context.tally.add(Anomaly::AssumedStart, u64::from(movement.assumed));
        context
    }
}

impl Move {
    fn context(self, mut context: Context) -> Context {
        if self.to_wall {
            context.clock = Clock::wall();
        }
        let moved = |ns: i64| ns.saturating_add(self.by_ns);
        context.begin_ns = context.begin_ns.map(moved);
        context.span_ns = context.span_ns.map(|(from_ns, to_ns)| (moved(from_ns), moved(to_ns)));
        context
    }
}

/// Reads lines of `host milliseconds` or `host:job milliseconds`; `#` begins a comment, `-` stands for no host.
fn offsets(path: &Path) -> Result<BTreeMap<String, i64>, Failure> {
    let fail = |line: usize, why: &str| {
        let form = "a line is a host (or host:job) and its offset in milliseconds, such as: vm1 250";
        Failure::Input(format!("{}:{line}: {why}; {form}.", path.display()))
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Input(format!("{}: Cannot be read: {error}.", path.display())))?;
    let mut offsets = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split([' ', '\t', ',']).filter(|word| !word.is_empty());
        let Some(host) = words.next() else { continue };
        let (Some(ms), None) = (words.next(), words.next()) else {
            return Err(fail(at + 1, "There are not two words"));
        };
        let ms = ms.strip_suffix("ms").unwrap_or(ms).parse().ok().filter(|ms: &f64| ms.abs() <= LARGEST_MS);
        let ms = ms.ok_or_else(|| fail(at + 1, "The offset is no number of milliseconds"))?;
        if offsets.insert(host.to_string(), (ms * 1e6).round() as i64).is_some() {
            return Err(fail(at + 1, "The host was given before"));
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
        let known = read("# pdsh\nvm1 250\n\nvm2:run.2\t-0.5ms # late\n- 7\n").ok().unwrap();
        let known: Vec<_> = known.iter().map(|(host, &ns)| (host.as_str(), ns)).collect();
        assert_eq!(known, [("-", 7_000_000), ("vm1", 250_000_000), ("vm2:run.2", -500_000)]);
        for (text, why) in [
            ("vm1 1\nvm1", ":2: There are not two words"),
            ("vm1 1 2", ":1: There are not two words"),
            ("vm1 1s", ":1: The offset is no number"),
            ("vm1 NaN", ":1: The offset is no number"),
            ("vm1 1e300", ":1: The offset is no number"),
            ("vm1 1\nvm1 1", ":2: The host was given before"),
        ] {
            match read(text) {
                Err(Failure::Input(message)) => assert!(message.contains(why), "{text}: {message}"),
                _ => panic!("{text} is no list of offsets"),
            }
        }
    }
}
