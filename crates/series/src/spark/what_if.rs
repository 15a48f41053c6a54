//! How long the application would have taken with more or fewer cores: its tasks once more, on a list scheduler.

use super::tasks::{SparkStage, SparkTasks};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

/// What the model gives for a number of cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Simulated {
    /// How many times the most cores that there were.
    pub factor: f64,
    /// Cores.
    pub cores: u64,
    /// From the start of the application to its end, nanoseconds.
    pub wall_ns: u64,
    /// The share of these cores' time in which they had a task.
    pub busy: f64,
}

/// A stage as it ran.
struct Planned {
    /// So many of the stages that completed first had completed when it was submitted.
    after: usize,
    /// How long after the last of them it was submitted.
    gap_ns: u64,
    /// What its tasks took, in the order of their launch, and how many cores each holds.
    tasks: VecDeque<u64>,
    cpus: u64,
    /// From its last task to its completion.
    end_ns: u64,
}

impl SparkTasks {
    /// The application with so many times its cores. A stage starts when all stages have completed that had completed before it was
    /// submitted, as long after them as it did; tasks take what they took, and are launched in the order in which they were, those
    /// of earlier stages first. What the driver did between jobs stays as it was. The first number of cores is given in any case; others
    /// where they differ from it.
    pub fn what_if(&self, factors: &[f64]) -> Vec<Simulated> {
        let most = super::Load::between(&self.active(), (i64::MIN, i64::MAX)).cores;
        let Some((start_ns, end_ns)) = self.extent_ns().filter(|_| most > 0) else { return Vec::new() };
        let mut stages: Vec<_> =
            self.stages.iter().filter_map(|(&id, stage)| Some((stage.extent_ns()?, id, stage))).collect();
        stages.sort_by_key(|(extent, id, _)| (extent.0, *id));
        let mut by_end: Vec<usize> = (0..stages.len()).collect();
        by_end.sort_by_key(|&at| stages[at].0.1);
        let planned: Vec<Planned> = stages
            .iter()
            .map(|(extent, _, stage)| {
                let after = by_end.partition_point(|&at| stages[at].0.1 <= extent.0);
                let since_ns = after.checked_sub(1).map_or(start_ns, |last| stages[by_end[last]].0.1);
                let mut tasks: Vec<(i64, i64, u64)> =
                    stage.tasks.iter().map(|task| (task.start_ns, task.id, task.took_ns())).collect();
                tasks.sort_unstable();
                let last_ns = stage.tasks.iter().map(|task| task.end_ns).max().unwrap_or(extent.0);
                Planned {
                    after,
                    gap_ns: extent.0.abs_diff(since_ns),
                    tasks: tasks.into_iter().map(|task| task.2).collect(),
                    cpus: stage.cpus,
                    end_ns: extent.1.abs_diff(last_ns),
                }
            })
            .collect();
        let rest_ns = by_end.last().map_or(0, |&last| end_ns.saturating_sub(stages[last].0.1).max(0).unsigned_abs());
        let held =
            |stage: &SparkStage| stage.cpus as f64 * stage.tasks.iter().map(|task| task.took_ns() as f64).sum::<f64>();
        let held_ns: f64 = self.stages.values().map(held).sum();
        // A task does not run on a part of what it holds.
        let least = planned.iter().map(|stage| stage.cpus).max().unwrap_or(1);
        let simulate = |&factor: &f64| {
            let cores = ((most as f64 * factor).round() as u64).max(least);
            let wall_ns = simulated(&planned, &by_end, cores).saturating_add(rest_ns);
            Simulated { factor, cores, wall_ns, busy: held_ns / (cores as f64 * wall_ns.max(1) as f64) }
        };
        let mut runs: Vec<Simulated> = factors.iter().map(simulate).collect();
        let first = runs.first().map(|run| run.cores);
        let mut at = 0..;
        runs.retain(|run| at.next() == Some(0) || Some(run.cores) != first);
        runs
    }
}

/// When the last stage completes, nanoseconds after the start.
fn simulated(planned: &[Planned], by_end: &[usize], cores: u64) -> u64 {
    let mut tasks: Vec<VecDeque<u64>> = planned.iter().map(|stage| stage.tasks.clone()).collect();
    let mut running = vec![0u64; planned.len()];
    let mut done_ns = vec![None::<u64>; planned.len()];
    // How many of the stages that completed first have completed, and when the last of these did.
    let (mut completed, mut latest_ns) = (0, 0u64);
    let mut waiting: Vec<usize> = (0..planned.len()).collect();
    waiting.sort_by_key(|&at| Reverse(planned[at].after));
    let mut events = BinaryHeap::<Reverse<(u64, usize, Step)>>::new();
    let mut ready = BTreeSet::<usize>::new();
    let (mut free, mut end_ns) = (cores, 0);
    loop {
        while let Some(&at) = waiting.last().filter(|&&at| planned[at].after <= completed) {
            waiting.pop();
            events.push(Reverse((latest_ns.saturating_add(planned[at].gap_ns), at, Step::Submitted)));
        }
        let Some(Reverse((now_ns, at, step))) = events.pop() else { return end_ns };
        match step {
            Step::Submitted if tasks[at].is_empty() => {
                events.push(Reverse((now_ns.saturating_add(planned[at].end_ns), at, Step::Completed)));
            }
            Step::Submitted => {
                ready.insert(at);
            }
            Step::Finished => {
                (running[at], free) = (running[at] - 1, free + planned[at].cpus);
                if running[at] == 0 && tasks[at].is_empty() {
                    events.push(Reverse((now_ns.saturating_add(planned[at].end_ns), at, Step::Completed)));
                }
            }
            Step::Completed => {
                done_ns[at] = Some(now_ns);
                end_ns = end_ns.max(now_ns);
                while let Some(done) = by_end.get(completed).and_then(|&next| done_ns[next]) {
                    (completed, latest_ns) = (completed + 1, latest_ns.max(done));
                }
            }
        }
        while let Some(stage) = ready.iter().copied().find(|&stage| planned[stage].cpus <= free) {
            if let Some(took_ns) = tasks[stage].pop_front() {
                (running[stage], free) = (running[stage] + 1, free - planned[stage].cpus);
                events.push(Reverse((now_ns.saturating_add(took_ns), stage, Step::Finished)));
            }
            if tasks[stage].is_empty() {
                ready.remove(&stage);
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Submitted,
    Finished,
    Completed,
}
