//! Why cores had no task.

use super::causes::Straggler;
use super::tasks::{SparkTasks, Task};
use std::collections::BTreeMap;

/// Why cores had no task, or tasks no cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IdleCause {
    /// No job ran: the driver planned, collected or waited for its user.
    Driver,
    /// A job ran, but none of its tasks: the driver was between stages, or prepared one.
    StageBoundary,
    /// Tasks waited while there were fewer cores than the most that there ever were. What it costs is no idle time, but the cores that
    /// were not there, no more than there were tasks that waited.
    Allocation,
    /// Tasks waited though cores were idle: for local data, or for the driver to launch them.
    Scheduling,
    /// What ran had stragglers with more than their share of the data.
    Skew,
    /// What ran had other stragglers.
    Straggler,
    /// What ran had fewer tasks than there were cores.
    FewTasks,
    /// The last tasks of a stage ran, none of them a straggler.
    StageEnd,
    /// Parts of the log are missing: nobody knows what ran.
    Missing,
}

impl IdleCause {
    /// All of them.
    pub const ALL: [IdleCause; 9] = [
        IdleCause::Driver,
        IdleCause::StageBoundary,
        IdleCause::Allocation,
        IdleCause::Scheduling,
        IdleCause::Skew,
        IdleCause::Straggler,
        IdleCause::FewTasks,
        IdleCause::StageEnd,
        IdleCause::Missing,
    ];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            IdleCause::Driver => "driver",
            IdleCause::StageBoundary => "stage boundary",
            IdleCause::Allocation => "allocation",
            IdleCause::Scheduling => "scheduling",
            IdleCause::Skew => "skew",
            IdleCause::Straggler => "straggler",
            IdleCause::FewTasks => "few tasks",
            IdleCause::StageEnd => "stage end",
            IdleCause::Missing => "events missing",
        }
    }
}

/// A stretch of time in which cores had no task, of one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleStretch {
    /// From when to when, nanoseconds.
    pub span_ns: (i64, i64),
    /// Why.
    pub cause: IdleCause,
    /// What it cost, core-nanoseconds: idle cores, or those that tasks waited for.
    pub core_ns: u128,
    /// The stage of the straggler, or the first that ran.
    pub stage: Option<(i64, i64)>,
}

/// All stretches in which cores had no task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Idle {
    /// In the order of time.
    pub stretches: Vec<IdleStretch>,
}

impl Idle {
    /// How long each cause lasted and what it cost, in nanoseconds and core-nanoseconds.
    pub fn by_cause(&self) -> BTreeMap<IdleCause, (u64, u128)> {
        let mut causes = BTreeMap::<IdleCause, (u64, u128)>::new();
        for stretch in &self.stretches {
            let (wall_ns, core_ns) = causes.entry(stretch.cause).or_default();
            *wall_ns += stretch.span_ns.1.abs_diff(stretch.span_ns.0);
            *core_ns += stretch.core_ns;
        }
        causes
    }
}

/// What is going on at a moment. Tasks count as many cores as they hold, or would.
#[derive(Clone, Copy)]
enum Count {
    Cores,
    Jobs,
    /// Attempts that run.
    Tasks,
    /// Tasks of which no attempt runs and none succeeded: those not launched, and those that wait for their retry.
    Pending,
    /// Tasks that were never launched.
    New,
    /// Tasks of stages that run.
    OfStages,
    /// Whether parts of the log are missing.
    Missing,
}

impl SparkTasks {
    /// Every stretch in which a core had no task, or a task that was ready no core.
    pub fn idle(&self, stragglers: &[Straggler]) -> Idle {
        let mut changes: Vec<(i64, Count, i64)> = Vec::new();
        let mut span = |(start_ns, end_ns): (i64, i64), count: Count, by: i64| {
            changes.extend([(start_ns, count, by), (end_ns, count, -by)]);
        };
        self.with_cores().iter().for_each(|executor| span(executor.span_ns, Count::Cores, executor.cores as i64));
        self.job_spans().into_iter().for_each(|job| span(job, Count::Jobs, 1));
        self.missing_ns.iter().for_each(|&missing| span(missing, Count::Missing, 1));
        let mut running: Vec<(i64, bool, (i64, i64))> = Vec::new();
        for (&id, stage) in &self.stages {
            let Some(extent) = stage.extent_ns() else { continue };
            let cpus = stage.cpus as i64;
            running.extend([(extent.0, true, id), (extent.1, false, id)]);
            stage.tasks.iter().for_each(|task| span((task.start_ns, task.end_ns), Count::Tasks, cpus));
            let attempts = stage.attempts();
            let unlaunched = cpus.saturating_mul(stage.unlaunched() as i64);
            span(extent, Count::OfStages, unlaunched.saturating_add(cpus * attempts.len() as i64));
            span(extent, Count::New, unlaunched);
            span(extent, Count::Pending, unlaunched);
            for attempts in attempts {
                span((extent.0, attempts[0].start_ns), Count::New, cpus);
                let until_ns = if stage.is_undone() { extent.1 } else { extent.0 };
                waits((extent.0, until_ns), &attempts).into_iter().for_each(|wait| span(wait, Count::Pending, cpus));
            }
        }
        let mut slow: Vec<(i64, bool, bool, (i64, i64))> = Vec::new();
        for straggler in stragglers {
            let (start, end) = straggler.span_ns;
            let is_skewed = straggler.is_skewed();
            slow.extend([(start, true, is_skewed, straggler.stage), (end, false, is_skewed, straggler.stage)]);
        }
        changes.sort_by_key(|change| change.0);
        running.sort();
        slow.sort();
        walk(&changes, &running, &slow)
    }
}

/// When a task waited to be launched, from the start of its stage on: until its first attempt, between attempts that did not succeed, and
/// behind the last one, until the end of a stage that is not done. What Spark launches after a success replaces lost results, or is a copy
/// that nobody waits for.
fn waits((start_ns, end_ns): (i64, i64), attempts: &[&Task]) -> Vec<(i64, i64)> {
    let (mut waits, mut since_ns) = (Vec::new(), start_ns);
    for task in attempts {
        if since_ns < task.start_ns {
            waits.push((since_ns, task.start_ns));
        }
        since_ns = since_ns.max(task.end_ns);
        if !task.has_failed {
            return waits;
        }
    }
    if since_ns < end_ns {
        waits.push((since_ns, end_ns));
    }
    waits
}

fn walk(
    changes: &[(i64, Count, i64)],
    running: &[(i64, bool, (i64, i64))],
    slow: &[(i64, bool, bool, (i64, i64))],
) -> Idle {
    let mut idle = Idle::default();
    let mut most = 0;
    let (mut sum, mut counts) = (0, [0i64; 7]);
    for change in changes.iter().filter(|change| matches!(change.1, Count::Cores)) {
        sum += change.2;
        most = most.max(sum);
    }
    let (mut next_running, mut next_slow) = (0, 0);
    // Stages that run; stragglers of each kind by stage.
    let mut stages = BTreeMap::<(i64, i64), u64>::new();
    let mut stragglers = [BTreeMap::<(i64, i64), u64>::new(), BTreeMap::new()];
    let change_of = |map: &mut BTreeMap<(i64, i64), u64>, id: (i64, i64), starts: bool| {
        let count = map.entry(id).or_default();
        *count = if starts { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            map.remove(&id);
        }
    };
    let mut at = 0;
    while at < changes.len() {
        let now_ns = changes[at].0;
        while let Some(change) = changes.get(at).filter(|change| change.0 == now_ns) {
            counts[change.1 as usize] += change.2;
            at += 1;
        }
        while let Some(&(_, starts, id)) = running.get(next_running).filter(|next| next.0 <= now_ns) {
            change_of(&mut stages, id, starts);
            next_running += 1;
        }
        while let Some(&(_, starts, is_skewed, id)) = slow.get(next_slow).filter(|next| next.0 <= now_ns) {
            change_of(&mut stragglers[usize::from(is_skewed)], id, starts);
            next_slow += 1;
        }
        let Some(next) = changes.get(at) else { break };
        let [cores, jobs, tasks, pending, new, of_stages, missing] = counts;
        let without = (cores - tasks).max(0);
        let first = |map: &BTreeMap<(i64, i64), u64>| map.keys().next().copied();
        let (cause, cost, stage) = match () {
            () if missing > 0 && without > 0 => (IdleCause::Missing, without, None),
            () if missing > 0 => continue,
            () if without == 0 && pending > 0 && cores < most && jobs > 0 => {
                (IdleCause::Allocation, (most - cores).min(pending), first(&stages))
            }
            () if without == 0 => continue,
            () if tasks == 0 && jobs == 0 => (IdleCause::Driver, without, None),
            // The tasks of a stage of which none was launched are not known, but wait.
            () if tasks == 0 && of_stages == 0 && !stages.is_empty() => {
                (IdleCause::Scheduling, without, first(&stages))
            }
            () if tasks == 0 && (pending == 0 || stages.is_empty()) => (IdleCause::StageBoundary, without, None),
            () if tasks == 0 && new == of_stages => (IdleCause::StageBoundary, without, first(&stages)),
            () if pending > 0 => (IdleCause::Scheduling, without, first(&stages)),
            () if !stragglers[1].is_empty() => (IdleCause::Skew, without, first(&stragglers[1])),
            () if !stragglers[0].is_empty() => (IdleCause::Straggler, without, first(&stragglers[0])),
            () if of_stages < cores => (IdleCause::FewTasks, without, first(&stages)),
            () => (IdleCause::StageEnd, without, first(&stages)),
        };
        let core_ns = u128::from(cost.unsigned_abs()) * u128::from(next.0.abs_diff(now_ns));
        match idle.stretches.last_mut() {
            Some(last) if last.span_ns.1 == now_ns && last.cause == cause && last.stage == stage => {
                last.span_ns.1 = next.0;
                last.core_ns += core_ns;
            }
            _ => idle.stretches.push(IdleStretch { span_ns: (now_ns, next.0), cause, core_ns, stage }),
        }
    }
    idle
}
