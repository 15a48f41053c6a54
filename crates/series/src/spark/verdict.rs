//! What an application or a stage is bound by: utilisation, saturation and errors, in a fixed order, with the numbers.

use super::active::{ActiveTasks, Load};
use super::idle::{Idle, IdleCause};
use super::sums::TaskSums;
use super::tasks::{SparkStage, SparkTasks, median};
use crate::spark_waits::{SparkWait, SparkWaitSums};
use latscope_event::{Field, format_count, format_duration, format_size};
use std::collections::BTreeMap;

/// What it is bound by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Tasks failed, executors were lost, or the driver failed.
    Errors,
    /// Tasks waited for executors that came later or had gone.
    Allocation,
    /// Cores idle: fewer tasks than cores.
    Parallelism,
    /// Cores idle: a few tasks take much longer than the others.
    Skew,
    /// Cores idle: no task is there to run.
    Driver,
    /// Cores idle: tasks wait for local data, or to be launched.
    Scheduling,
    /// The CPU quota of executors was used up.
    Throttling,
    /// Garbage collection.
    Gc,
    /// Data did not fit into memory.
    Spill,
    /// Waits for shuffle data.
    Shuffle,
    /// Writing of shuffle data.
    LocalDisk,
    /// The tasks' own code.
    Cpu,
    /// Workers in Python, which Spark does not measure.
    Python,
    /// Reading of input, which Spark does not measure.
    Storage,
    /// Something that Spark does not measure.
    External,
    /// Tasks so small that starting them takes much of their time.
    SmallTasks,
}

impl Verdict {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Errors => "errors",
            Verdict::Allocation => "allocation",
            Verdict::Parallelism => "parallelism",
            Verdict::Skew => "skew",
            Verdict::Driver => "driver",
            Verdict::Scheduling => "scheduling",
            Verdict::Throttling => "throttling",
            Verdict::Gc => "gc",
            Verdict::Spill => "spill",
            Verdict::Shuffle => "shuffle",
            Verdict::LocalDisk => "local disk",
            Verdict::Cpu => "cpu",
            Verdict::Python => "python",
            Verdict::Storage => "storage read",
            Verdict::External => "external",
            Verdict::SmallTasks => "small tasks",
        }
    }
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Fewer than four tasks, or less than a second of run time; or it rests on a clock that was set.
    Low,
    /// Near the limit, or a cause that Spark does not measure itself.
    Medium,
    /// Half as much beyond the limit, of twenty tasks or more; or counted, not judged.
    High,
}

impl Confidence {
    /// The word for it.
    pub fn word(self) -> &'static str {
        ["low", "medium", "high"][self as usize]
    }
}

/// Something that limits an application or a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What.
    pub verdict: Verdict,
    /// The number behind it: a share from 0 to 1, or a count or bytes where the limit is 0.
    pub value: f64,
    /// What it is held against.
    pub limit: f64,
    /// How sure it is.
    pub confidence: Confidence,
    /// The numbers in words.
    pub evidence: String,
}

/// What is judged: the tasks of an application or a stage, and the cores meanwhile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// What the tasks add up to.
    pub sums: TaskSums,
    /// Run time by the cores that tasks held, core-nanoseconds.
    pub held_run_ns: u128,
    /// Why tasks failed.
    pub errors: BTreeMap<String, u64>,
    /// Why executors were lost.
    pub lost: Vec<String>,
    /// What failed in the driver, or as it stopped, and why.
    pub driver: Vec<String>,
    /// The exit code of the driver, unless it is that of success.
    pub exit_code: Option<i64>,
    /// Tasks and cores from start to end.
    pub load: Load,
    /// Whether tasks of other stages used cores, too.
    pub is_shared: bool,
    /// What idle cores cost by cause, core-nanoseconds.
    pub idle: BTreeMap<IdleCause, u128>,
    /// Median of the tasks, nanoseconds.
    pub median_ns: u64,
    /// Periods in which the CPU quota of executors was used up, all periods, and how long their threads were kept from running, nanoseconds.
    pub throttled: (u64, u64, u64),
    /// How long a job waited for its first task, nanoseconds, where no executor ever was there.
    pub waited_ns: u64,
    /// Whether workers in Python ran.
    pub runs_python: bool,
    /// Whether nobody knows if they did: only the log says so.
    pub hides_python: bool,
    /// Whether the clock of the driver, by which tasks are launched and finish, was set back.
    pub was_set_back: bool,
    /// What the tasks waited for, where the kernels of their hosts were recorded.
    pub waits: Option<SparkWaitSums>,
}

impl Observed {
    /// What was run time of all time of cores, from 0 to 1; none where cores are not known.
    pub fn utilisation(&self) -> Option<f64> {
        (self.load.core_ns > 0).then(|| self.held_run_ns as f64 / self.load.core_ns as f64)
    }

    /// A part of the run time, from 0 to 1.
    pub fn of_run(&self, part: Field) -> f64 {
        self.sums.get(part) as f64 / self.sums.get(Field::RunTime).max(1) as f64
    }

    fn confidence(&self, ratio: f64) -> Confidence {
        match () {
            () if self.sums.tasks < 4 || self.sums.get(Field::RunTime) < 1_000_000_000 => Confidence::Low,
            () if ratio >= 1.5 && self.sums.tasks >= 20 => Confidence::High,
            () => Confidence::Medium,
        }
    }

    /// How sure a finding can be that rests on the clock of the driver.
    fn by_clock(&self) -> Confidence {
        if self.was_set_back { Confidence::Low } else { Confidence::High }
    }

    /// What limits it, in the order of the USE method: errors, utilisation, then saturation. The first is the verdict.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.errors(&mut findings);
        self.allocation(&mut findings);
        self.utilisation_findings(&mut findings);
        let share = |value: f64| format!("{:.1} %", 100.0 * value);
        let of_run = |part: Field| {
            let (ns, run) = (self.sums.get(part), self.sums.get(Field::RunTime));
            format!("{} of {} run time, {}", format_duration(ns), format_duration(run), share(self.of_run(part)))
        };
        let mut add = |verdict, value: f64, limit: f64, most: Confidence, evidence: String| {
            if value > limit {
                let confidence = self.confidence(if limit > 0.0 { value / limit } else { 2.0 }).min(most);
                findings.push(Finding { verdict, value, limit, confidence, evidence });
            }
        };
        let (throttled, periods, throttled_ns) = self.throttled;
        let evidence = format!(
            "executors used up their CPU quota in {} of {} periods, and their threads were kept from running for {}",
            format_count(throttled),
            format_count(periods),
            format_duration(throttled_ns)
        );
        add(Verdict::Throttling, throttled as f64 / periods.max(1) as f64, 0.10, Confidence::High, evidence);
        let gc = self.of_run(Field::GcTime);
        let grade = if gc > 0.20 {
            ", critical"
        } else if gc > 0.15 {
            ", severe"
        } else {
            ""
        };
        add(Verdict::Gc, gc, 0.10, Confidence::High, format!("GC takes {}{grade}", of_run(Field::GcTime)));
        let spilled = self.sums.get(Field::Spilled);
        let disk = format_size(self.sums.get(Field::DiskSpilled));
        let evidence = format!("{} of memory spilled, {disk} of disk", format_size(spilled));
        add(Verdict::Spill, spilled as f64, 0.0, Confidence::High, evidence);
        let evidence = format!("waits for shuffle data take {}", of_run(Field::FetchWait));
        add(Verdict::Shuffle, self.of_run(Field::FetchWait), 0.20, Confidence::High, evidence);
        let evidence = format!("writing of shuffle data takes {}", of_run(Field::ShuffleWrite));
        add(Verdict::LocalDisk, self.of_run(Field::ShuffleWrite), 0.20, Confidence::High, evidence);
        let evidence = format!("CPU time is {}", of_run(Field::CpuTime));
        add(Verdict::Cpu, self.of_run(Field::CpuTime), 0.70, Confidence::High, evidence);
        let input = self.sums.get(Field::InputBytes);
        let (verdict, why) = match () {
            () if self.runs_python => (Verdict::Python, "workers in Python ran".to_string()),
            () if self.hides_python => {
                let input = if input > 0 {
                    format!("{} of input were read", format_size(input))
                } else {
                    "no input was read".into()
                };
                (Verdict::External, format!("{input}; whether Python ran is not known over REST, the event log has it"))
            }
            () if input > 0 => (Verdict::Storage, format!("{} of input were read", format_size(input))),
            () => {
                (Verdict::External, "no Python ran and no input was read: a wait for a CPU, a service or a lock".into())
            }
        };
        let waits = self.waits.as_ref().map_or("a capture of the kernel can tell".into(), by_kernel);
        let evidence = format!("what Spark does not measure is {}; {why}; {waits}", of_run(Field::Remainder));
        add(verdict, self.of_run(Field::Remainder), 0.40, Confidence::Medium, evidence);
        let small = self.sums.get(Field::SchedulerDelay) + self.sums.get(Field::Deserialize);
        let value = small as f64 / self.sums.task_ns.max(1) as f64;
        if value > 0.30 {
            let leap_ns = self.sums.leap_ns;
            let (most, leapt) = match leap_ns > small / 2 {
                true => {
                    let leap = format_duration(leap_ns);
                    let why = "as its clock was set forward while tasks ran, or it stood still";
                    (Confidence::Low, format!("; {leap} of it passed for the driver but not for its executors, {why}"))
                }
                false => (self.by_clock(), String::new()),
            };
            let evidence = format!(
                "scheduler delay and deserialization take {} of {} task time, {}{leapt}",
                format_duration(small),
                format_duration(self.sums.task_ns),
                share(value)
            );
            add(Verdict::SmallTasks, value, 0.30, most, evidence);
        } else if self.median_ns < 100_000_000 && self.sums.tasks >= 2 * self.load.cores.max(1) {
            let value = 0.1 / (self.median_ns.max(1) as f64 / 1e9);
            let evidence = format!(
                "the median of {} tasks is {}, less than 100 ms",
                format_count(self.sums.tasks),
                format_duration(self.median_ns)
            );
            add(Verdict::SmallTasks, value, 1.0, Confidence::Medium, evidence);
        }
        findings
    }

    fn errors(&self, findings: &mut Vec<Finding>) {
        let failed = self.sums.failed + (self.lost.len() + self.driver.len() + self.exit_code.iter().len()) as u64;
        if failed == 0 {
            return;
        }
        let errors = self.errors.iter().map(|(error, count)| format!("{} {error}", format_count(*count)));
        let lost = self.lost.iter().take(3).map(|reason| format!("executor lost: {reason}"));
        let mut evidence = format!(
            "{} of {} tasks failed, {} lost",
            format_count(self.sums.failed),
            format_count(self.sums.tasks),
            match self.lost.len() {
                1 => "1 executor was".to_string(),
                lost => format!("{lost} executors were"),
            }
        );
        if !self.driver.is_empty() {
            evidence += &format!(", jobs or queries that failed in the driver or as it stopped: {}", self.driver.len());
        }
        if let Some(code) = self.exit_code {
            // Shells report a signal so, and so does the JVM.
            let signal = if (129..=159).contains(&code) { format!(" (signal {})", code - 128) } else { String::new() };
            evidence += &format!(", the driver ended with exit code {code}{signal}");
        }
        let why: Vec<String> = errors.chain(lost).chain(self.driver.iter().take(3).cloned()).collect();
        if !why.is_empty() {
            evidence += &format!(": {}", why.join(", "));
        }
        let (verdict, confidence) = (Verdict::Errors, Confidence::High);
        findings.push(Finding { verdict, value: failed as f64, limit: 0.0, confidence, evidence });
    }

    fn allocation(&self, findings: &mut Vec<Finding>) {
        if self.waited_ns > 0 {
            let waited = format_duration(self.waited_ns);
            let evidence = format!("no executor was there, while a job waited {waited} for its first task");
            let (verdict, confidence) = (Verdict::Allocation, Confidence::High);
            findings.push(Finding { verdict, value: 1.0, limit: 0.20, confidence, evidence });
            return;
        }
        let missing = self.idle.get(&IdleCause::Allocation).copied().unwrap_or(0);
        let value = missing as f64 / (self.load.core_ns + missing).max(1) as f64;
        if value > 0.20 {
            let evidence = format!(
                "tasks waited for executors: {:.1} core-seconds were not there, beside {:.1} that were, {:.1} %",
                missing as f64 / 1e9,
                self.load.core_ns as f64 / 1e9,
                100.0 * value
            );
            let confidence = self.confidence(value / 0.20).min(self.by_clock());
            let verdict = Verdict::Allocation;
            findings.push(Finding { verdict, value, limit: 0.20, confidence, evidence });
        }
    }

    fn utilisation_findings(&self, findings: &mut Vec<Finding>) {
        // What tasks lost otherwise, to deserialization for example, idle cores do not explain.
        let unused = self.load.core_ns.saturating_sub(self.held_run_ns);
        let is_idle = self.load.idle_ns >= unused / 2;
        let Some(value) = self.utilisation().filter(|value| *value < 0.50 && is_idle && !self.is_shared) else {
            return;
        };
        let cost = |causes: &[IdleCause]| causes.iter().filter_map(|cause| self.idle.get(cause)).sum::<u128>();
        let reasons = [
            (Verdict::Parallelism, cost(&[IdleCause::FewTasks]), "stages had fewer tasks than cores"),
            (
                Verdict::Skew,
                cost(&[IdleCause::Skew, IdleCause::Straggler, IdleCause::StageEnd]),
                "the last tasks of stages ran",
            ),
            (Verdict::Driver, cost(&[IdleCause::Driver, IdleCause::StageBoundary]), "the driver had no task for them"),
            (Verdict::Scheduling, cost(&[IdleCause::Scheduling]), "tasks waited to be launched"),
        ];
        let Some((verdict, most, while_)) =
            reasons.into_iter().max_by_key(|reason| reason.1).filter(|reason| reason.1 > 0)
        else {
            return;
        };
        let evidence = format!(
            "{} of run time on {} of cores, {:.1} %; {:.1} of {:.1} idle core-seconds passed while {while_}",
            format_duration(u64::try_from(self.held_run_ns).unwrap_or(u64::MAX)),
            format_duration(u64::try_from(self.load.core_ns).unwrap_or(u64::MAX)),
            100.0 * value,
            most as f64 / 1e9,
            self.load.idle_ns as f64 / 1e9
        );
        let clear = most as f64 / self.load.idle_ns.max(1) as f64;
        let confidence = self.confidence(if clear > 0.66 { 0.5 / value.max(0.01) } else { 1.0 }).min(self.by_clock());
        findings.push(Finding { verdict, value, limit: 0.50, confidence, evidence });
    }
}

/// What the remainder is by what the kernel saw, the greatest part first.
fn by_kernel(waits: &SparkWaitSums) -> String {
    let mut parts: Vec<(String, u64)> =
        SparkWait::ALL.map(|wait| (wait.name().replace('_', " "), waits.get(wait))).to_vec();
    parts.push(("not recorded".into(), waits.unrecorded_ns));
    parts.push(("unexplained".into(), waits.unexplained_ns()));
    parts.retain(|(_, ns)| *ns > 0);
    parts.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let parts: Vec<String> = parts.into_iter().map(|(name, ns)| format!("{name} {}", format_duration(ns))).collect();
    format!("by what the kernel saw, it is {}", if parts.is_empty() { "no wait".into() } else { parts.join(", ") })
}

impl SparkTasks {
    /// What is known of the whole application.
    pub fn observed(&self, active: &[ActiveTasks], idle: &Idle) -> Observed {
        let mut errors = BTreeMap::new();
        for (error, count) in self.stages.values().flat_map(|stage| &stage.errors) {
            *errors.entry(error.clone()).or_default() += count;
        }
        Observed {
            sums: self.total(),
            held_run_ns: self.held_run_ns(),
            errors,
            lost: self
                .executors
                .iter()
                .filter(|executor| executor.is_lost())
                .map(|executor| executor.removed.clone())
                .collect(),
            driver: self
                .failed_in_driver()
                .iter()
                .map(|(kind, group)| match group.reason.is_empty() {
                    true => format!("{kind} {} failed", group.id),
                    false => format!("{kind} {}: {}", group.id, group.reason),
                })
                .collect(),
            exit_code: self.failed_exit(),
            load: Load::between(active, (i64::MIN, i64::MAX)),
            is_shared: false,
            idle: idle.by_cause().into_iter().map(|(cause, (_, core_ns))| (cause, core_ns)).collect(),
            median_ns: median(self.tasks().map(super::tasks::Task::took_ns)),
            throttled: self.usage.throttled(),
            waited_ns: match self.executors.is_empty() && self.tasks().next().is_none() {
                true => self.waiting_jobs().iter().map(|(_, waited_ns)| *waited_ns).max().unwrap_or(0),
                false => 0,
            },
            runs_python: self.stages.values().any(|stage| stage.runs_python),
            hides_python: false,
            was_set_back: false,
            waits: self.stages.values().filter_map(|stage| stage.waits).reduce(|mut all, more| {
                all.merge(&more);
                all
            }),
        }
    }

    /// What is known of a stage.
    pub fn observed_in(&self, stage: &SparkStage, active: &[ActiveTasks], idle: &Idle) -> Observed {
        let span_ns = stage.extent_ns().unwrap_or_default();
        let first = idle.stretches.partition_point(|stretch| stretch.span_ns.1 <= span_ns.0);
        let mut by_cause = BTreeMap::<IdleCause, u128>::new();
        for stretch in idle.stretches[first..].iter().take_while(|stretch| stretch.span_ns.0 < span_ns.1) {
            let inside = stretch.span_ns.1.min(span_ns.1).abs_diff(stretch.span_ns.0.max(span_ns.0));
            let whole = stretch.span_ns.1.abs_diff(stretch.span_ns.0).max(1);
            *by_cause.entry(stretch.cause).or_default() += stretch.core_ns * u128::from(inside) / u128::from(whole);
        }
        let is_there = |executor: &&super::SparkExecutor| {
            executor.is_lost() && (span_ns.0..=span_ns.1).contains(&executor.span_ns.1)
        };
        let load = Load::between(active, span_ns);
        // Sums are of tasks that have ended, so of a stage that has others nobody knows.
        let is_shared = stage.running == 0 && load.task_ns > u128::from(stage.sums.task_ns) * 5 / 4;
        Observed {
            sums: stage.sums.clone(),
            held_run_ns: stage.held_run_ns(),
            errors: stage.errors.clone(),
            lost: self.executors.iter().filter(is_there).map(|executor| executor.removed.clone()).collect(),
            driver: Vec::new(),
            exit_code: None,
            load,
            is_shared,
            idle: by_cause,
            median_ns: median(stage.tasks.iter().map(super::tasks::Task::took_ns)),
            throttled: (0, 0, 0),
            waited_ns: 0,
            runs_python: stage.runs_python,
            hides_python: false,
            was_set_back: false,
            waits: stage.waits,
        }
    }
}
