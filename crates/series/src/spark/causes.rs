//! Tasks that took much longer than the others of their stage, and why.

use super::sums::TIME_PARTS;
use super::tasks::{SparkStage, SparkTasks, Task, median};
use super::usage::Usage;
use latscope_event::Field;
use std::collections::{BTreeSet, HashMap, HashSet};

/// A stage of fewer tasks has no stragglers.
const COMPARABLE: usize = 4;
/// A straggler takes half as long again as the median, and so much longer.
const LEAST_MORE_NS: u64 = 100_000_000;

/// How much slower something is: the ladder of Dr. Elephant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// By a third.
    Low,
    /// By 1.78.
    Moderate,
    /// By 3.16.
    Severe,
    /// By 10.
    Critical,
}

impl Grade {
    /// The grade of a ratio; none below 1.33.
    pub fn from_ratio(ratio: f64) -> Option<Grade> {
        const LADDER: [(f64, Grade); 4] =
            [(10.0, Grade::Critical), (3.16, Grade::Severe), (1.78, Grade::Moderate), (1.33, Grade::Low)];
        LADDER.iter().find(|(least, _)| ratio >= *least).map(|(_, grade)| *grade)
    }

    /// The word for it.
    pub fn word(self) -> &'static str {
        ["low", "moderate", "severe", "critical"][self as usize]
    }
}

/// Why a task took longer; each with its own number and what it is compared with.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    /// It had more than its share of the data: bytes and records, its own and the median.
    Skew {
        /// Bytes that it worked on, and the median.
        bytes: [u64; 2],
        /// Records that it read, and the median.
        records: [u64; 2],
    },
    /// It had more data than fit into its memory, and spilled more than others did: bytes of memory, its own and the median.
    Spill {
        /// Its own and the median.
        bytes: [u64; 2],
    },
    /// Tasks with no more than their share of the data are slow on its executor, or on all executors of its host.
    Slow {
        /// Whether it is the whole host, of several executors.
        is_host: bool,
        /// The executor or host.
        name: String,
        /// Medians there and elsewhere, nanoseconds.
        medians_ns: [u64; 2],
        /// How much slower.
        grade: Grade,
    },
    /// A part of its time exceeds the median of that part.
    Part {
        /// One of [`TIME_PARTS`].
        part: Field,
        /// Its own and the median, nanoseconds.
        ns: [u64; 2],
        /// Bytes that it read of files, for what cannot be explained otherwise.
        input: bool,
        /// Whether it is one of the first tasks of its executor in the stage, and that explains it.
        is_first: bool,
    },
    /// The control group of its executor used up its CPU quota while it ran.
    Throttled {
        /// How long threads of its executor were kept from running while it ran, and the median of that, nanoseconds.
        ns: [u64; 2],
    },
    /// Its data were farther away than those of most tasks.
    Locality {
        /// Where they were.
        own: &'static str,
        /// Where those of most tasks were.
        most: &'static str,
    },
}

impl Cause {
    /// The word for it in JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Cause::Skew { .. } => "data_skew",
            Cause::Slow { is_host: true, .. } => "slow_host",
            Cause::Slow { .. } => "slow_executor",
            Cause::Spill { .. } => "spill",
            Cause::Throttled { .. } => "throttling",
            Cause::Locality { .. } => "locality",
            Cause::Part { part, input, .. } => match part {
                Field::CpuTime => "cpu",
                Field::GcTime => "gc",
                Field::FetchWait => "fetch_wait",
                Field::ShuffleWrite => "shuffle_write",
                Field::Deserialize => "deserialize",
                Field::ResultSerialization => "result_serialization",
                Field::GettingResult => "getting_result",
                Field::SchedulerDelay => "scheduler_delay",
                _ if *input => "io",
                _ => "remainder",
            },
        }
    }

    /// Its number, and what that is compared with: bytes (records where there are no bytes) or nanoseconds.
    pub fn numbers(&self) -> Option<[u64; 2]> {
        match self {
            Cause::Skew { bytes, records } => Some(if bytes[0] > 0 { *bytes } else { *records }),
            Cause::Spill { bytes } => Some(*bytes),
            Cause::Slow { medians_ns, .. } => Some(*medians_ns),
            Cause::Part { ns, .. } | Cause::Throttled { ns } => Some(*ns),
            Cause::Locality { .. } => None,
        }
    }
}

/// A task that took much longer than the others of its stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Straggler {
    /// Stage and attempt.
    pub stage: (i64, i64),
    /// The task.
    pub task: i64,
    /// When it ran, nanoseconds.
    pub span_ns: (i64, i64),
    /// Its executor, and the host of that.
    pub executor: [String; 2],
    /// How long it took, and the median of the tasks of its stage that succeeded, nanoseconds.
    pub took_ns: [u64; 2],
    /// Whether it still ran when the log ended; it takes longer than that.
    pub is_running: bool,
    /// Why, the most important cause first; none where its metrics are missing, or not known yet.
    pub causes: Vec<Cause>,
}

impl Straggler {
    /// Whether its data explain most of what it took longer.
    pub fn is_skewed(&self) -> bool {
        matches!(self.causes.first(), Some(Cause::Skew { .. }))
    }
}

/// What is usual in a stage.
struct Usual {
    took_ns: u64,
    bytes: u64,
    records: u64,
    spilled: u64,
    throttled_ns: u64,
    parts: [u64; TIME_PARTS.len()],
    locality: u8,
}

impl Usual {
    fn new(tasks_of: &SparkTasks, stage: &SparkStage) -> Usual {
        // A task that failed at once, or has no metrics, says nothing about the others.
        let tasks = || stage.tasks.iter().filter(|task| task.is_usual());
        let mut localities = [0; 256];
        tasks().for_each(|task| localities[usize::from(task.locality)] += 1);
        Usual {
            took_ns: median(tasks().map(Task::took_ns)),
            bytes: median(tasks().map(|task| task.bytes)),
            records: median(tasks().map(|task| task.records)),
            spilled: median(tasks().map(|task| task.spilled)),
            throttled_ns: median(tasks().map(|task| tasks_of.throttled_ns(task))),
            parts: std::array::from_fn(|part| median(tasks().map(|task| task.parts[part]))),
            locality: (0..=255).max_by_key(|&at| (localities[usize::from(at)], 255 - at)).unwrap_or(0),
        }
    }

    fn is_straggler(&self, task: &Task) -> bool {
        task.took_ns() > (self.took_ns + self.took_ns / 2).max(self.took_ns + LEAST_MORE_NS)
    }

    fn has_more_data(&self, task: &Task) -> bool {
        let is_more = |own: u64, usual: u64| own > usual.saturating_add(usual / 2);
        is_more(task.bytes, self.bytes) || is_more(task.records, self.records)
    }
}

/// The tasks of a stage that tell how fast its executors are: each straggler is compared with these, so they are put in order once.
struct Fair {
    first_tasks: HashSet<i64>,
    /// Of those among them that succeeded, each part of their time.
    first_parts: [Middle; TIME_PARTS.len()],
    /// How long each took, nanoseconds, in this order, and its executor.
    tasks: Vec<(u64, u32)>,
    /// Whether a task is among them.
    ids: HashSet<i64>,
    by_host: HashMap<String, Vec<u32>>,
    /// For executors that were asked for: the middles of their tasks, and of all others.
    sides: HashMap<Vec<u32>, [Middle; 2]>,
}

impl Fair {
    fn new(tasks_of: &SparkTasks, stage: &SparkStage, usual: &Usual) -> Fair {
        let first_tasks = first_tasks(tasks_of, stage);
        let is_fair = |task: &&Task| task.is_usual() && !usual.has_more_data(task) && !first_tasks.contains(&task.id);
        let fair = || stage.tasks.iter().filter(is_fair);
        let mut tasks: Vec<(u64, u32)> = fair().map(|task| (task.took_ns(), task.executor)).collect();
        tasks.sort_unstable();
        let ids = fair().map(|task| task.id).collect();
        let mut by_host = HashMap::<String, Vec<u32>>::new();
        for code in stage.tasks.iter().map(|task| task.executor).collect::<BTreeSet<u32>>() {
            by_host.entry(tasks_of.executor(code).1.to_owned()).or_default().push(code);
        }
        let firsts: Vec<&Task> =
            stage.tasks.iter().filter(|task| task.is_usual() && first_tasks.contains(&task.id)).collect();
        let first_parts = std::array::from_fn(|part| {
            let mut values: Vec<u64> = firsts.iter().map(|task| task.parts[part]).collect();
            values.sort_unstable();
            Middle::new(values.len(), values.into_iter())
        });
        Fair { first_tasks, first_parts, tasks, ids, by_host, sides: HashMap::new() }
    }

    /// Whether a part of a task's time exceeds what is usual as it is a first task of its executor in the stage: most others of these
    /// have at least half of that, too, or it is the only one. Where most tasks are first ones, their times are the usual ones.
    fn explains(&self, task: &Task, part: usize, usual: u64) -> bool {
        if !self.first_tasks.contains(&task.id) {
            return false;
        }
        let mut others = self.first_parts[part];
        if task.is_usual() {
            others.remove(task.parts[part]);
        }
        let more = |ns: u64| ns.saturating_sub(usual);
        others.len() == 0 || more(others.lower_median()) >= more(task.parts[part]) / 2
    }

    /// The others on these executors, and elsewhere: all but this task.
    fn beside(&mut self, task: &Task, executors: &[u32]) -> [Middle; 2] {
        if !self.sides.contains_key(executors) {
            let side =
                |there| self.tasks.iter().filter(move |(_, code)| executors.contains(code) == there).map(|task| task.0);
            let sides = [true, false].map(|there| Middle::new(side(there).count(), side(there)));
            self.sides.insert(executors.to_vec(), sides);
        }
        let mut sides = self.sides[executors];
        if self.ids.contains(&task.id) {
            sides[usize::from(!executors.contains(&task.executor))].remove(task.took_ns());
        }
        sides
    }
}

/// The middle of values in order, as much of it as medians take when one value is left out.
#[derive(Clone, Copy)]
struct Middle {
    count: usize,
    /// The place of the first of the values kept.
    from: usize,
    values: [u64; 4],
}

impl Middle {
    fn new(count: usize, values: impl Iterator<Item = u64>) -> Middle {
        let from = count.saturating_sub(2) / 2;
        let mut kept = [0; 4];
        values.skip(from).zip(&mut kept).for_each(|(value, kept)| *kept = value);
        Middle { count, from, values: kept }
    }

    /// Leaves out one of the values.
    fn remove(&mut self, value: u64) {
        let [a, b, c, d] = self.values;
        self.values = match () {
            () if value <= a => [b, c, d, d],
            () if value <= b => [a, c, d, d],
            () if value <= c => [a, b, d, d],
            () => self.values,
        };
        self.count -= 1;
    }

    fn len(&self) -> usize {
        self.count
    }

    fn at(&self, place: usize) -> u64 {
        self.values[place - self.from]
    }

    /// Of an even number of values, the lower of the two in the middle.
    fn lower_median(&self) -> u64 {
        self.at((self.count - 1) / 2)
    }

    /// As [`median`].
    fn median(&self) -> u64 {
        self.lower_median().midpoint(self.at(self.count / 2))
    }
}

impl SparkTasks {
    /// The tasks that took longer than one and a half medians of their stage, and 100 ms longer; the slowest first.
    pub fn stragglers(&self) -> Vec<Straggler> {
        let mut found = Vec::new();
        for (&id, stage) in &self.stages {
            if stage.tasks.iter().filter(|task| task.is_usual()).count() < COMPARABLE {
                continue;
            }
            let usual = Usual::new(self, stage);
            let mut fair = None;
            for task in stage.tasks.iter().filter(|task| usual.is_straggler(task)) {
                let fair = fair.get_or_insert_with(|| Fair::new(self, stage, &usual));
                let (executor, host) = self.executor(task.executor);
                found.push(Straggler {
                    stage: id,
                    task: task.id,
                    span_ns: (task.start_ns, task.end_ns),
                    executor: [executor.into(), host.into()],
                    took_ns: [task.took_ns(), usual.took_ns],
                    is_running: task.is_running,
                    causes: self.causes(stage, task, &usual, fair),
                });
            }
        }
        found.sort_by_key(|straggler| (std::cmp::Reverse(straggler.took_ns[0] - straggler.took_ns[1]), straggler.task));
        found
    }

    fn causes(&self, stage: &SparkStage, task: &Task, usual: &Usual, fair: &mut Fair) -> Vec<Cause> {
        if !task.is_known {
            return Vec::new();
        }
        let more_ns = task.took_ns() - usual.took_ns;
        let mut causes = Vec::new();
        let has_more_data = usual.has_more_data(task);
        if has_more_data {
            causes.push(Cause::Skew { bytes: [task.bytes, usual.bytes], records: [task.records, usual.records] });
        } else {
            causes.extend(self.slow(task, usual, fair));
        }
        let throttled = [self.throttled_ns(task), usual.throttled_ns];
        if throttled[0] > throttled[1] && throttled[0] - throttled[1] >= more_ns / 5 {
            causes.push(Cause::Throttled { ns: throttled });
        }
        let mut parts: Vec<(u64, Cause)> = (0..TIME_PARTS.len())
            .filter_map(|at| {
                let (own, usually) = (task.parts[at], usual.parts[at]);
                let more = own.checked_sub(usually).filter(|more| *more > 0 && *more >= more_ns / 5)?;
                let (input, is_first) = (task.bytes > 0, fair.explains(task, at, usually));
                Some((more, Cause::Part { part: TIME_PARTS[at], ns: [own, usually], input, is_first }))
            })
            .collect();
        parts.sort_by_key(|(more, _)| std::cmp::Reverse(*more));
        // More data do not explain a task that takes longer than in proportion, by one part of its time that data need not.
        let ratio = |own: u64, usual: u64| own as f64 / usual.max(1) as f64;
        let by_data = ratio(task.bytes, usual.bytes).max(ratio(task.records, usual.records)) - 1.0;
        let is_explained = by_data * usual.took_ns as f64 >= more_ns as f64 / 2.0;
        // Spark has no time of a spill: it is in the parts that are longer, as what causes them.
        let spilled = [task.spilled, usual.spilled];
        let spill = (spilled[0] > spilled[1].saturating_add(spilled[1] / 2)).then_some(Cause::Spill { bytes: spilled });
        let parts = spill.into_iter().chain(parts.into_iter().map(|(_, cause)| cause));
        match has_more_data && !is_explained {
            true => drop(causes.splice(0..0, parts)),
            false => causes.extend(parts),
        }
        if task.locality > usual.locality {
            let most = stage.tasks.iter().find(|task| task.locality == usual.locality).map_or("?", Task::locality);
            causes.push(Cause::Locality { own: task.locality(), most });
        }
        causes
    }

    /// How long threads of its executor were kept from running while a task ran, nanoseconds; at most as long as it took.
    fn throttled_ns(&self, task: &Task) -> u64 {
        let of = self.usage.get(self.executor(task.executor).0);
        let ns = of.and_then(|of| of.grown(Usage::ThrottledTime, (task.start_ns, task.end_ns)));
        ns.map_or(0, |ns| ns as u64).min(task.took_ns())
    }

    /// Whether the executor of a task, or its host, is slow: other tasks there with no more than their share of the data explain at least
    /// half of what this one took longer. The first ones of an executor in the stage are left out, as they load code and start workers.
    /// It takes two others there, whose lower median counts, and two elsewhere.
    fn slow(&self, task: &Task, usual: &Usual, fair: &mut Fair) -> Option<Cause> {
        let (executor, host) = self.executor(task.executor);
        let there = fair.by_host.get(host).cloned().unwrap_or_default();
        let mut judged = |executors: &[u32]| {
            let [there, elsewhere] = fair.beside(task, executors);
            if there.len() < 2 || elsewhere.len() < 2 {
                return None;
            }
            let medians_ns = [there.lower_median(), elsewhere.median()];
            let explains = medians_ns[0].saturating_sub(usual.took_ns.min(medians_ns[1]));
            let grade = Grade::from_ratio(medians_ns[0] as f64 / medians_ns[1].max(1) as f64)?;
            (explains >= (task.took_ns() - usual.took_ns) / 2).then_some((medians_ns, grade))
        };
        // The host is slow where each of its executors is.
        if there.len() > 1 && there.iter().all(|&code| judged(&[code]).is_some()) {
            let (medians_ns, grade) = judged(&there)?;
            return Some(Cause::Slow { is_host: true, name: host.into(), medians_ns, grade });
        }
        let (medians_ns, grade) = judged(&[task.executor])?;
        Some(Cause::Slow { is_host: false, name: executor.into(), medians_ns, grade })
    }
}

/// Tasks that started before any of their executor in the stage had ended, as many as it has room for: the driver launches the next
/// task some milliseconds before it takes note that one has finished.
fn first_tasks(tasks_of: &SparkTasks, stage: &SparkStage) -> HashSet<i64> {
    let mut by_executor = HashMap::<u32, Vec<&Task>>::new();
    for task in &stage.tasks {
        by_executor.entry(task.executor).or_default().push(task);
    }
    let mut first = HashSet::new();
    for (code, mut tasks) in by_executor {
        let id = tasks_of.executor(code).0;
        let room = tasks_of
            .executors
            .iter()
            .filter(|executor| executor.id == id)
            .map(|executor| executor.cores / stage.cpus)
            .max();
        let room = room.filter(|&room| room > 0).map_or(usize::MAX, |room| room as usize);
        let end_ns = tasks.iter().map(|task| task.end_ns).min().unwrap_or(i64::MAX);
        tasks.sort_unstable_by_key(|task| (task.start_ns, task.id));
        first.extend(tasks.iter().take(room).filter(|task| task.start_ns < end_ns).map(|task| task.id));
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_has_the_medians_of_all_values_and_of_all_but_one() {
        for count in 1..12_u64 {
            for spread in 1..5 {
                let all: Vec<u64> = (0..count).map(|at| at / spread * 10).collect();
                let middle = Middle::new(all.len(), all.iter().copied());
                assert_eq!(middle.median(), median(all.iter().copied()));
                for at in 0..all.len() {
                    let (mut rest, mut middle) = (all.clone(), middle);
                    let value = rest.remove(at);
                    middle.remove(value);
                    assert_eq!(middle.len(), rest.len());
                    if let Some(last) = rest.len().checked_sub(1) {
                        let expected = (rest[last / 2], median(rest.iter().copied()));
                        assert_eq!((middle.lower_median(), middle.median()), expected, "{all:?} without {value}");
                    }
                }
            }
        }
    }
}
