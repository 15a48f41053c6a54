//! Everything that is known of an application, once for all views.

use super::active::{ActiveTasks, Load, Tail};
use super::advice::{Advice, sizing};
use super::causes::Straggler;
use super::idle::Idle;
use super::memory::Pool;
use super::tasks::{SparkStage, SparkTasks};
use super::verdict::{Finding, Observed};
use super::what_if::Simulated;
use latscope_event::Context;
use std::collections::BTreeMap;

/// So many times the cores that there were are simulated; the first shows how far the model can be trusted.
const FACTORS: [f64; 3] = [1.0, 0.5, 2.0];

/// The property that a log has whose clock was set back.
const CLOCK: &str = "latscope.spark.clock";

/// An application that was read to its end.
pub struct Analysis<'a> {
    /// Its tasks.
    pub tasks: &'a SparkTasks,
    /// Tasks and cores over time.
    pub active: Vec<ActiveTasks>,
    /// What these add up to.
    pub load: Load,
    /// The end of each stage, and what idle cores cost in it.
    pub tails: BTreeMap<(i64, i64), Tail>,
    /// Slow tasks.
    pub stragglers: Vec<Straggler>,
    /// Why cores had no task.
    pub idle: Idle,
    /// The memory of executors.
    pub pool: Pool,
    /// What it should be.
    pub advice: Vec<Advice>,
    /// What is judged.
    pub observed: Observed,
    /// With other numbers of cores, as it was first.
    pub simulated: Vec<Simulated>,
}

impl<'a> Analysis<'a> {
    /// Of tasks, and the settings that the log has among its properties.
    pub fn new(tasks: &'a SparkTasks, properties: &BTreeMap<String, String>) -> Analysis<'a> {
        let (active, stragglers) = (tasks.active(), tasks.stragglers());
        let idle = tasks.idle(&stragglers);
        let (pool, advice) = sizing(tasks, properties);
        let was_set_back = properties.contains_key(CLOCK);
        let hides_python = properties.get(Context::SPARK_SOURCE).is_some_and(|source| source == "REST");
        Analysis {
            load: Load::between(&active, (i64::MIN, i64::MAX)),
            tails: tasks.tails(&active),
            observed: Observed { hides_python, was_set_back, ..tasks.observed(&active, &idle) },
            simulated: tasks.what_if(&FACTORS),
            tasks,
            active,
            stragglers,
            idle,
            pool,
            advice,
        }
    }

    /// What limits a stage, the verdict first.
    pub fn findings_in(&self, stage: &SparkStage) -> Vec<Finding> {
        let Observed { hides_python, was_set_back, .. } = self.observed;
        let observed = self.tasks.observed_in(stage, &self.active, &self.idle);
        Observed { hides_python, was_set_back, ..observed }.findings()
    }

    /// From the first to the last moment of the application, nanoseconds.
    pub fn wall_ns(&self) -> u64 {
        self.tasks.extent_ns().map_or(0, |(start_ns, end_ns)| end_ns.abs_diff(start_ns))
    }
}
