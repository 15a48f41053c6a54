//! Reproducible experiments: what is done in each directory, in which order, and how long.
//!
//! A lab is a TOML file: what it is for, its experiments, and how often they are repeated. It becomes a list of [`Turn`]s,
//! each of which is a [`Probe`](crate::Probe) in a directory that runs alone.

mod file;
mod presets;

pub use file::LabError;
pub use presets::PRESETS;

#[cfg(not(target_os = "linux"))]
use crate::elsewhere::{Target, dirty_limit, free_space};
use crate::probe::check;
#[cfg(target_os = "linux")]
use crate::target::{Target, dirty_limit, free_space};
use crate::{AfterWrite, Cache, Engine, Error, OpenSync, Operation, Order, Pace, Probe, Work};
use std::path::Path;
use std::time::Duration;

/// Experiments that belong together.
#[derive(Clone, PartialEq, Debug)]
pub struct Lab {
    /// Its name: that of the preset, or of the file.
    pub name: String,
    /// What it is for, a phrase.
    pub about: String,
    /// How often everything is repeated.
    pub rounds: u32,
    /// What is compared with what.
    pub compare: Compare,
    /// What is done, in this order.
    pub experiments: Vec<Experiment>,
}

/// What is compared with what.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compare {
    /// The directories, experiment by experiment.
    #[default]
    Directories,
    /// The experiments, directory by directory.
    Experiments,
}

/// What is done in every directory.
#[derive(Clone, PartialEq, Debug)]
pub struct Experiment {
    /// Its name, for files and the field `job`.
    pub name: String,
    /// What it does, a phrase.
    pub about: String,
    /// How long a turn takes.
    pub turn: Duration,
    /// Requests per second of an open loop; `None`: as many as possible.
    pub rate: Option<f64>,
    /// Open loops at such percentages of the largest rate, which is measured first; empty: none.
    pub loads: Vec<u32>,
    /// When a volume fails, in the words of `--fail-if`, and the line of the file where that stands.
    pub limit: Option<(String, usize)>,
    /// The file is larger than what memory may hold of it, where there is room for that.
    pub beyond_cache: bool,
    /// The requests.
    pub work: Work,
    /// Requests in flight at once.
    pub depth: u32,
    /// Threads that make requests.
    pub threads: u32,
}

/// One experiment in one directory, which runs alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// From 0.
    pub round: u32,
    /// Number of the experiment.
    pub experiment: usize,
    /// Number of the directory.
    pub directory: usize,
    /// Percent of the largest rate; `None` where no part of it is asked for.
    pub load: Option<u32>,
}

impl Lab {
    /// The turns in the order in which they run. Every step visits all directories before the next; odd rounds go through
    /// everything backwards, so that what changes evenly over time changes all directories alike.
    pub fn turns(&self, directories: usize) -> Vec<Turn> {
        let mut turns = Vec::new();
        for round in 0..self.rounds {
            let first = turns.len();
            for (experiment, what) in self.experiments.iter().enumerate() {
                // The largest rate has to be known before parts of it can be offered.
                let largest = (what.loads.is_empty() || round == 0).then_some(None);
                let loads = what.loads.iter().map(|&load| Some(load));
                for load in largest.into_iter().chain(loads) {
                    turns.extend((0..directories).map(|directory| Turn { round, experiment, directory, load }));
                }
            }
            if round % 2 == 1 {
                turns[first..].reverse();
            }
        }
        turns
    }

    /// How long all of it measures, in so many directories.
    pub fn duration(&self, directories: usize) -> Duration {
        self.turns(directories).iter().map(|turn| self.experiments[turn.experiment].turn).sum()
    }

    /// Bytes of the largest file; there is one at a time.
    pub fn largest_file(&self) -> u64 {
        self.experiments.iter().map(Experiment::file_bytes).max().unwrap_or(0)
    }

    /// Whether the directory is there and has room for the largest file. Nothing is written.
    ///
    /// # Errors
    /// [`Error::Stat`], [`Error::NoDirectory`] or [`Error::NoSpace`].
    pub fn check_room(&self, directory: &Path) -> Result<(), Error> {
        let path = directory.to_path_buf();
        match std::fs::metadata(directory) {
            Err(source) => return Err(Error::Stat { path, source }),
            Ok(metadata) if !metadata.is_dir() => return Err(Error::NoDirectory { path }),
            Ok(_) => {}
        }
        let needed = self.largest_file();
        match free_space(directory) {
            Some(free) if free < needed => Err(Error::NoSpace { path, needed, free }),
            _ => Ok(()),
        }
    }
}

impl Experiment {
    /// The job of a turn: the name of the experiment, with the load if there is one.
    pub fn job(&self, load: Option<u32>) -> String {
        match load {
            Some(load) => format!("{}-{load}", self.name),
            None if self.loads.is_empty() => self.name.clone(),
            None => format!("{}-max", self.name),
        }
    }

    /// Bytes of its file, at most.
    pub fn file_bytes(&self) -> u64 {
        self.work.work_size.unwrap_or(0)
    }

    /// Bytes of its file in this directory: with [`Experiment::beyond_cache`] so many that what is written over has been
    /// written back, as far as there is room.
    pub fn file_bytes_in(&self, directory: &Path) -> u64 {
        let least = self.file_bytes();
        match dirty_limit(directory).filter(|_| self.beyond_cache) {
            Some(limit) => {
                let room = free_space(directory).map_or(u64::MAX, |free| free / 10 * 9);
                (limit + limit / 4).min(room).max(least)
            }
            None => least,
        }
    }

    /// Bytes of what it writes in this directory that memory may hold before it has to wait for the volume; `None` where it
    /// waits in any case, or the kernel does not report it.
    pub fn held_in_memory(&self, directory: &Path) -> Option<u64> {
        if self.work.operation == Operation::Read || self.work.is_durable() { None } else { dirty_limit(directory) }
    }

    /// Bytes that a turn writes by its schedule; `None` when it writes as many as it can.
    pub fn bytes_written(&self) -> Option<u64> {
        let laid_out = if self.work.order == Order::Append { 0 } else { self.file_bytes() };
        match (self.work.operation, self.rate) {
            (Operation::Read, _) => Some(laid_out),
            (_, Some(rate)) => Some(laid_out + (rate * self.turn.as_secs_f64()) as u64 * self.work.size),
            (_, None) => None,
        }
    }

    /// The probe of a turn. `rate` is that of an open loop, requests per second.
    pub fn probe(&self, directory: &Path, load: Option<u32>, rate: Option<f64>) -> Probe {
        // One writer waits for each of its requests, as a program that logs does; what it is late counts. Where there are
        // several in flight, a late one must not hold up those that are due meanwhile.
        let depth = if rate.is_some() && self.depth > 1 { self.depth.max(OPEN_DEPTH) } else { self.depth };
        let pace = rate.map_or(Pace::closed(0, 0), Pace::open);
        let work_size = self.file_bytes_in(directory);
        // Where memory holds all of the file, what is written over in it never reaches the device.
        let wraps = self.beyond_cache && dirty_limit(directory).is_none_or(|limit| work_size > limit);
        Probe {
            work: Work { work_size: Some(work_size), wraps, ..self.work.clone() },
            pace,
            spin_ns: pace.awake_ns(),
            engine: Engine::Auto,
            depth,
            threads: self.threads,
            duration: Some(self.turn),
            // On a full disk every further request would fail too, as fast as possible.
            stop_on_error: true,
            job: Some(self.job(load)),
            seed: SEED,
            ..Probe::new(directory)
        }
    }

    /// Tries in a directory whether the experiment can run there, with a file of one request.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn try_in(&self, directory: &Path) -> Result<(), Error> {
        let mut probe = self.probe(directory, None, self.rate);
        probe.work.work_size = Some(probe.work.size);
        check(&probe)?;
        Target::open(&probe).map(drop)
    }
}

/// Requests in flight of an open loop that has several, at least.
const OPEN_DEPTH: u32 = 64;
/// All turns write the same data to the same places.
const SEED: u64 = 1;

/// The requests of an experiment before its file says anything.
fn plain_work() -> Work {
    Work { cache: Cache::Any, open_sync: OpenSync::None, after_write: AfterWrite::None, ..Work::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab(rounds: u32, loads: &str) -> Lab {
        let text = format!(
            "about = 'x'\nrounds = {rounds}\n[[experiment]]\nname = 'a'\nabout = 'x'\noperation = 'read'\nsize = '4k'\n\
             work_size = '1m'\nturn = '1s'\n{loads}\n[[experiment]]\nname = 'b'\nabout = 'x'\noperation = 'write'\n\
             size = '4k'\nwork_size = '1m'\nturn = '2s'\nrate = 100\n"
        );
        Lab::parse("test", "test.toml", &text).unwrap()
    }

    #[test]
    fn even_drift_is_the_same_for_all_directories() {
        for rounds in [2, 4] {
            let turns = lab(rounds, "").turns(3);
            assert_eq!(turns.len(), rounds as usize * 2 * 3);
            for experiment in 0..2 {
                let sum = |directory: usize| -> usize {
                    let of = turns.iter().enumerate();
                    of.filter(|(_, turn)| (turn.experiment, turn.directory) == (experiment, directory))
                        .map(|(at, _)| at)
                        .sum()
                };
                assert_eq!((sum(0), sum(1)), (sum(1), sum(2)), "experiment {experiment}");
            }
        }
    }

    #[test]
    fn the_largest_rate_comes_before_its_parts() {
        let lab = lab(2, "loads = [50, 90]");
        let turns = lab.turns(2);
        let of = |turn: &&Turn| turn.experiment == 0;
        assert_eq!(turns.iter().filter(of).filter(|turn| turn.load.is_none()).count(), 2);
        assert!(turns[..2].iter().all(|turn| turn.experiment == 0 && turn.load.is_none()));
        assert_eq!(turns.len(), 2 + 2 * 2 * 2 + 2 * 2);
        assert_eq!(lab.duration(2), Duration::from_secs(2 + 2 * 2 * 2 + 2 * 2 * 2));
        let jobs: Vec<String> = [None, Some(50)].map(|load| lab.experiments[0].job(load)).into();
        assert_eq!(jobs, ["a-max", "a-50"]);
    }

    #[test]
    fn what_is_written_is_known_before() {
        let lab = lab(1, "");
        assert_eq!(lab.experiments[0].bytes_written(), Some(1 << 20), "a file to read");
        assert_eq!(lab.experiments[1].bytes_written(), Some((1 << 20) + 200 * 4096));
        assert!(lab.check_room(Path::new("/proc/nowhere")).is_err());
        assert!(matches!(lab.check_room(Path::new("/proc/self/status")), Err(Error::NoDirectory { .. })));
    }
}
