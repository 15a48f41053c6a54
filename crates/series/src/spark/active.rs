//! How many tasks ran on how many cores, and what the ends of stages cost.

use super::tasks::{SparkStage, SparkTasks};
use std::collections::BTreeMap;

/// A moment from which so many tasks ran on so many cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveTasks {
    /// From when on.
    pub start_ns: i64,
    /// Tasks that ran.
    pub tasks: u64,
    /// Cores of all executors.
    pub cores: u64,
}

impl ActiveTasks {
    /// Cores without a task.
    pub fn idle(self) -> u64 {
        self.cores.saturating_sub(self.tasks)
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
    /// How many tasks ran on how many cores, exactly: a step at each moment at which either changes. There may be more tasks than
    /// cores, as the driver frees a core before it notes the finish.
    pub fn active(&self) -> Vec<ActiveTasks> {
        let mut changes = BTreeMap::<i64, (i64, i64)>::new();
        for task in self.tasks() {
            changes.entry(task.start_ns).or_default().0 += 1;
            changes.entry(task.end_ns).or_default().0 -= 1;
        }
        for executor in &self.executors {
            changes.entry(executor.span_ns.0).or_default().1 += executor.cores as i64;
            changes.entry(executor.span_ns.1).or_default().1 -= executor.cores as i64;
        }
        let (mut tasks, mut cores) = (0, 0);
        let step = |(start_ns, (more_tasks, more_cores)): (i64, (i64, i64))| {
            (tasks, cores) = (tasks + more_tasks, cores + more_cores);
            ActiveTasks { start_ns, tasks: tasks.max(0) as u64, cores: cores.max(0) as u64 }
        };
        changes.into_iter().map(step).collect()
    }

    /// Of each stage: when 9 of 10 of its tasks had ended, and how long cores had no task from then to its end, in core-nanoseconds.
    pub fn tails(&self, active: &[ActiveTasks]) -> BTreeMap<(i64, i64), (i64, u128)> {
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
            let mut ends: Vec<i64> = stage.tasks.iter().map(|task| task.end_ns).collect();
            ends.sort_unstable();
            let from_ns = *ends.get((9 * ends.len()).div_ceil(10).checked_sub(1)?)?;
            let end_ns = stage.span_ns.map_or(0, |span| span.1).max(*ends.last()?);
            Some((from_ns, idle_until(end_ns).saturating_sub(idle_until(from_ns))))
        };
        self.stages.iter().filter_map(|(&id, stage)| Some((id, tail(stage)?))).collect()
    }
}
