//! How many tasks ran on how many cores, and what the ends of stages cost.

use super::tasks::{SparkStage, SparkTasks, Task};
use std::collections::BTreeMap;

/// A moment from which so many attempts at tasks ran on so many cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveTasks {
    /// From when on.
    pub start_ns: i64,
    /// Tasks that ran.
    pub tasks: u64,
    /// Cores of all executors.
    pub cores: u64,
    /// Cores that these tasks held.
    pub held: u64,
}

impl ActiveTasks {
    /// Cores without a task.
    pub fn idle(self) -> u64 {
        self.cores.saturating_sub(self.held)
    }
}

/// What tasks and cores were at most, and what they add up to over time, in core-nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Most tasks at a time.
    pub tasks: u64,
    /// Most cores.
    pub cores: u64,
    /// Time of tasks.
    pub task_ns: u128,
    /// Time of cores.
    pub core_ns: u128,
    /// Time of cores without a task.
    pub idle_ns: u128,
}

impl Load {
    /// Of steps, from one moment to another.
    pub fn between(active: &[ActiveTasks], (start_ns, end_ns): (i64, i64)) -> Load {
        let mut load = Load::default();
        let first = active.partition_point(|step| step.start_ns <= start_ns).saturating_sub(1);
        for (at, step) in active.iter().enumerate().skip(first).take_while(|(_, step)| step.start_ns < end_ns) {
            let next_ns = active.get(at + 1).map_or(step.start_ns, |next| next.start_ns);
            let (from_ns, to_ns) = (step.start_ns.max(start_ns), next_ns.min(end_ns));
            if from_ns >= to_ns {
                continue;
            }
            let width = u128::from(to_ns.abs_diff(from_ns));
            load.tasks = load.tasks.max(step.tasks);
            load.cores = load.cores.max(step.cores);
            load.task_ns += width * u128::from(step.tasks);
            load.core_ns += width * u128::from(step.cores);
            load.idle_ns += width * u128::from(step.idle());
        }
        load
    }
}

impl SparkTasks {
    /// How many attempts at tasks ran on how many cores, exactly: a step at each moment at which either changes. Retries and copies count
    /// while they run. There may be more tasks than cores, as the driver frees a core before it notes the finish.
    pub fn active(&self) -> Vec<ActiveTasks> {
        let mut changes = BTreeMap::<i64, [i64; 3]>::new();
        let mut span = |(start_ns, end_ns): (i64, i64), by: [i64; 3]| {
            changes.entry(start_ns).or_default().iter_mut().zip(by).for_each(|(sum, by)| *sum += by);
            changes.entry(end_ns).or_default().iter_mut().zip(by).for_each(|(sum, by)| *sum -= by);
        };
        for stage in self.stages.values() {
            stage.tasks.iter().for_each(|task| span((task.start_ns, task.end_ns), [1, 0, stage.cpus as i64]));
        }
        self.with_cores().iter().for_each(|executor| span(executor.span_ns, [0, executor.cores as i64, 0]));
        let mut sums = [0; 3];
        let step = |(start_ns, more): (i64, [i64; 3])| {
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
            let [tasks, cores, held] = sums.map(|sum: i64| sum.max(0).unsigned_abs());
            ActiveTasks { start_ns, tasks, cores, held }
        };
        changes.into_iter().map(step).collect()
    }

    /// The end of each stage: from when 9 of 10 of its tasks, not of attempts at them, had succeeded. Where a stage ends and others run, idle
    /// cores are those of all.
    pub fn tails(&self, active: &[ActiveTasks]) -> BTreeMap<(i64, i64), Tail> {
        // What was idle up to each step.
        let (mut idle, mut sum) = (Vec::with_capacity(active.len()), 0u128);
        for (at, step) in active.iter().enumerate() {
            idle.push(sum);
            let end_ns = active.get(at + 1).map_or(step.start_ns, |next| next.start_ns);
            sum += u128::from(step.idle()) * u128::from(end_ns.abs_diff(step.start_ns));
        }
        let idle_until = |ns: i64| {
            let Some(at) = active.partition_point(|step| step.start_ns <= ns).checked_sub(1) else { return 0 };
            idle[at] + u128::from(active[at].idle()) * u128::from(ns.abs_diff(active[at].start_ns))
        };
        let tail = |stage: &SparkStage| {
            let mut ends: Vec<i64> = stage.attempts().iter().filter_map(|attempts| done_ns(attempts)).collect();
            ends.sort_unstable();
            let start_ns = *ends.get((9 * ends.len()).div_ceil(10).checked_sub(1)?)?;
            // Copies may run on when the stage is complete.
            let last_ns = *ends.last()?;
            let end_ns = stage.span_ns.map_or(last_ns, |span| span.1).max(start_ns);
            let core_ns = idle_until(end_ns).saturating_sub(idle_until(start_ns));
            Some(Tail { span_ns: (start_ns, end_ns), core_ns })
        };
        self.stages.iter().filter_map(|(&id, stage)| Some((id, tail(stage)?))).collect()
    }
}

/// The end of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// From when to when, nanoseconds.
    pub span_ns: (i64, i64),
    /// How long cores had no task meanwhile, core-nanoseconds.
    pub core_ns: u128,
}

/// How long cores had no task while any stage was in its tail, core-nanoseconds: what tails share counts once.
pub(super) fn idle_in_tails(tails: &BTreeMap<(i64, i64), Tail>, active: &[ActiveTasks]) -> u128 {
    let mut spans: Vec<(i64, i64)> = tails.values().map(|tail| tail.span_ns).collect();
    spans.sort_unstable();
    let (mut sum, mut until_ns) = (0, i64::MIN);
    for (start_ns, end_ns) in spans {
        sum += Load::between(active, (start_ns.max(until_ns), end_ns)).idle_ns;
        until_ns = until_ns.max(end_ns);
    }
    sum
}

/// When a task was done: its first attempt that succeeded, or else its last one.
fn done_ns(attempts: &[&Task]) -> Option<i64> {
    let ends =
        |succeeded: bool| attempts.iter().filter(move |task| task.has_failed != succeeded).map(|task| task.end_ns);
    ends(true).min().or_else(|| ends(false).max())
}
