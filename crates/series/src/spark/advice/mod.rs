//! Sizes of memory that would do, as settings, with the arithmetic.

mod beside;
mod pool;

use super::memory::{MIB, Peaks, Pool, Settings};
use super::sums::TaskSums;
use super::tasks::{SparkExecutor, SparkTasks};
use latscope_event::Field;
use std::collections::BTreeMap;

/// What is added to a need that follows from spilled data: the sort of the specification used 8 percent more than predicted.
const MORE_FOR_SPILL: f64 = 1.2;
/// What is added to what was measured outside of the heap.
const MORE_FOR_OVERHEAD: f64 = 1.1;
/// Heaps are advised in steps of this, and overhead.
const HEAP_STEP: u64 = 64 * MIB;
const OVERHEAD_STEP: u64 = 128 * MIB;
/// What has the memory of executors sampled, and that of their processes.
const SWITCHES: [&str; 2] =
    ["spark.eventLog.logStageExecutorMetrics=true", "spark.executor.processTreeMetrics.enabled=true"];

/// A setting, and what it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// The setting.
    pub setting: &'static str,
    /// What it is.
    pub now: String,
    /// What it should be; none where it should stay, or where nothing is known.
    pub advised: Option<String>,
    /// The arithmetic.
    pub why: String,
}

/// Mebibytes as settings have them.
fn mib(bytes: u64) -> String {
    format!("{}m", bytes.div_ceil(MIB))
}

/// To what a size was rounded up.
fn in_steps(bytes: u64, step: u64) -> String {
    format!("{} in steps of {}", mib(bytes), mib(step))
}

fn up(bytes: f64, step: u64) -> u64 {
    (bytes.max(0.0) as u64).div_ceil(step).saturating_mul(step)
}

fn not_sampled(switches: &[&str]) -> String {
    format!("not sampled, which is not zero: run again with {}", switches.join(" and "))
}

/// Which memory was exhausted, and how often: tasks that failed for it, and executors that were lost.
#[derive(Default)]
struct Exhausted {
    heap: u64,
    metaspace: u64,
    direct: u64,
    threads: u64,
    /// Executors that were killed for their resident memory, and Python workers that were lost.
    resident: u64,
    /// Containers that YARN killed for address space.
    address_space: u64,
    /// Tasks whose Python had no more memory.
    python: u64,
    /// Jobs and executions of SQL for which the driver had no more heap.
    driver: u64,
}

impl Exhausted {
    fn new(tasks: &SparkTasks, is_local: bool) -> Exhausted {
        let failures = |words: &[&str]| -> u64 {
            let errors = tasks.of_settings().flat_map(|stage| &stage.errors);
            errors.filter(|(error, _)| words.contains(&error.as_str())).map(|(_, count)| count).sum()
        };
        let lost = |is_so: &dyn Fn(&SparkExecutor) -> bool| {
            tasks.executors.iter().filter(|executor| executor.profile == 0 && is_so(executor)).count() as u64
        };
        let lost_for = |words: &str| lost(&|executor| executor.was_lost_with(&[words]));
        let driver = tasks.failed_in_driver().iter().filter(|(_, group)| group.ran_out_of_driver()).count() as u64;
        let of_local = if is_local { driver } else { 0 };
        Exhausted {
            heap: failures(&["OutOfMemory", "GcOverheadLimit"]) + lost(&SparkExecutor::ran_out_of_heap) + of_local,
            metaspace: failures(&["OutOfMetaspace"]) + lost_for("outofmemoryerror: metaspace"),
            direct: failures(&["OutOfDirectMemory"]) + lost_for("direct buffer memory"),
            threads: failures(&["OutOfThreads"]) + lost_for("native thread"),
            resident: failures(&["PythonWorkerLost"]) + lost(&SparkExecutor::was_killed_for_memory),
            address_space: lost(&SparkExecutor::was_killed_for_address_space),
            python: failures(&["PythonOutOfMemory"]),
            driver,
        }
    }
}

/// What was measured of an application, as far as it ran with the executors of its settings.
struct Measured {
    /// Greatest of all executors, and of the driver.
    executors: Peaks,
    driver: Peaks,
    /// The most that a task that spilled used and spilled, bytes.
    spilling: u64,
    spilled: u64,
    /// Tasks that failed: what they would have used is not known, so nothing is advised down.
    failed: u64,
    /// Share of GC in run time.
    gc: f64,
    /// How long the application lasted, nanoseconds.
    wall_ns: u64,
    out_of: Exhausted,
}

impl Measured {
    fn new(tasks: &SparkTasks, settings: &Settings) -> Measured {
        let mut total = TaskSums::default();
        tasks.of_settings().for_each(|stage| total.merge(&stage.sums));
        let (mut executors, mut driver) = (Peaks::default(), Peaks::default());
        for (executor, peaks) in tasks.peaks_by_executor() {
            match executor {
                "driver" => driver.merge(&peaks),
                executor if !tasks.has_settings(executor) => {}
                _ => executors.merge(&peaks),
            }
        }
        if settings.is_local() {
            executors = driver;
        }
        Measured {
            executors,
            driver,
            spilling: tasks.spilling(),
            spilled: total.get(Field::Spilled),
            failed: total.failed,
            gc: total.get(Field::GcTime) as f64 / total.get(Field::RunTime).max(1) as f64,
            wall_ns: tasks.extent_ns().map_or(0, |(start_ns, end_ns)| end_ns.abs_diff(start_ns)),
            out_of: Exhausted::new(tasks, settings.is_local()),
        }
    }

    /// Whether execution memory, and so what was spilled, is off the heap: that of SQL is where off-heap memory is on.
    fn executes_off_heap(&self, pool: &Pool) -> bool {
        let execution =
            ["OnHeapExecutionMemory", "OffHeapExecutionMemory"].map(|name| self.executors.get(name).unwrap_or(0));
        pool.off_heap > 0 && execution[0] <= execution[1]
    }
}

/// What all settings of memory should be: each with what it is and why. Nothing is advised from what was not sampled.
pub fn sizing(tasks: &SparkTasks, properties: &BTreeMap<String, String>) -> (Pool, Vec<Advice>) {
    let settings = Settings(properties);
    let pool = Pool::new(&settings, tasks);
    if !pool.is_known {
        return (pool, Vec::new());
    }
    let (measured, is_local) = (Measured::new(tasks, &settings), settings.is_local());
    // The heap follows from the fraction, and the storage fraction from both: each need is met once.
    let (fraction, of_fraction) = pool::fraction(&pool, &measured);
    let (heap, why) = pool::heap(&pool, &measured, fraction, is_local);
    let heap_setting = if is_local { "spark.driver.memory" } else { "spark.executor.memory" };
    let mut advice = vec![
        Advice { setting: heap_setting, now: mib(pool.heap), advised: heap.map(mib), why },
        of_fraction,
        pool::storage_fraction(&pool, &measured, heap.unwrap_or(pool.heap), fraction),
        pool::off_heap(&pool, &measured),
    ];
    if !is_local {
        advice.extend([
            beside::overhead(&pool, &measured, &settings),
            beside::python(&pool, &measured, &settings),
            beside::driver(&measured, &settings),
        ]);
    }
    advice.push(beside::jvm(&pool, &measured, heap, &settings));
    advice.extend(beside::limits(&measured));
    (pool, advice)
}
