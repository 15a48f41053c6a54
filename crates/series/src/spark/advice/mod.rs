//! Sizes of memory that would do, as settings, with the arithmetic.

mod beside;

use super::memory::{MIB, Peaks, Pool, RESERVED, Settings, unified};
use super::sums::TaskSums;
use super::tasks::{SparkExecutor, SparkTasks};
use latscope_event::{Field, format_size};
use std::collections::BTreeMap;

/// What is added to a need that follows from spilled data: the sort of the specification used 8 percent more than predicted.
const MORE_FOR_SPILL: f64 = 1.2;
/// What is added to what was measured outside of the heap.
const MORE_FOR_OVERHEAD: f64 = 1.1;
/// Heaps are advised in steps of this, and overhead.
const HEAP_STEP: u64 = 64 * MIB;
const OVERHEAD_STEP: u64 = 128 * MIB;
/// Spark does not start with less.
const LEAST_HEAP: u64 = 450 * MIB;
/// What has the memory of executors sampled, and that of their processes.
const SWITCHES: [&str; 2] =
    ["spark.eventLog.logStageExecutorMetrics=true", "spark.executor.processTreeMetrics.enabled=true"];

/// Why nothing is known of GC and of what was spilled.
const NO_METRICS: &str =
    "not sampled, which is not zero: no task in the log has metrics, so GC and what was spilled are not known";

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
    /// Whether GC and what was spilled are known: a task has metrics.
    is_known: bool,
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
            is_known: tasks.has_metrics(),
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
    let (share, of_fraction) = fraction(&pool, &measured);
    let (heap, why) = heap(&pool, &measured, share, is_local);
    let heap_setting = if is_local { "spark.driver.memory" } else { "spark.executor.memory" };
    let mut advice = vec![
        Advice { setting: heap_setting, now: mib(pool.heap), advised: heap.map(mib), why },
        of_fraction,
        storage_fraction(&pool, &measured, heap.unwrap_or(pool.heap), share),
        off_heap(&pool, &measured),
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

/// What tasks that spilled need at a time, by the specification, and the sentence for it.
fn execution(pool: &Pool, measured: &Measured) -> (f64, String) {
    let need = measured.spilling.saturating_mul(pool.tasks) as f64 * MORE_FOR_SPILL;
    let text = format!(
        "{} were spilled. A task needs {} (peak and spilled) x {} at a time + 20 % = {}",
        format_size(measured.spilled),
        format_size(measured.spilling),
        pool.tasks,
        format_size(need as u64)
    );
    (need, text)
}

/// The fraction that there is or shall be, and why. A larger one comes before a larger heap.
fn fraction(pool: &Pool, measured: &Measured) -> (f64, Advice) {
    let advice = |advised: Option<f64>, why| {
        let (setting, now) = ("spark.memory.fraction", pool.fraction.to_string());
        (
            advised.unwrap_or(pool.fraction),
            Advice { setting, now, advised: advised.map(|share| share.to_string()), why },
        )
    };
    let Some(heap) = measured.executors.get("JVMHeapMemory") else {
        return advice(None, format!("what is used beside the pool was {}", not_sampled(&SWITCHES[..1])));
    };
    // What is beside the pool holds garbage, so this is an upper bound.
    let beside = heap.saturating_sub(measured.executors.get("OnHeapUnifiedMemory").unwrap_or(0));
    let usable = pool.heap.saturating_sub(RESERVED);
    let why = format!("beside the pool at most {} of the heap was used, garbage included", format_size(beside));
    let fits = |fraction: &f64| *fraction > pool.fraction && beside as f64 <= (1.0 - fraction) * usable as f64;
    match [0.8, 0.75, 0.7].into_iter().find(fits).filter(|_| measured.spilling > 0) {
        _ if measured.spilling > 0 && measured.executes_off_heap(pool) => {
            advice(None, format!("{why}; what was spilled is off the heap, where the fraction does not matter"))
        }
        Some(fraction) => {
            let room = format_size(unified(pool.heap, fraction));
            let was = format_size(pool.room());
            advice(Some(fraction), format!("{why}: a pool of {room} instead of {was} fits, and spills less"))
        }
        None if measured.spilling > 0 => advice(None, format!("{why}: no room for a larger pool")),
        None if !measured.is_known => advice(None, NO_METRICS.into()),
        None => advice(None, format!("{why}, and nothing was spilled")),
    }
}

/// The heap that there shall be with a fraction; none where it stays.
fn heap(pool: &Pool, measured: &Measured, fraction: f64, is_local: bool) -> (Option<u64>, String) {
    let peak = measured.executors.get("OnHeapUnifiedMemory");
    let by_more = |factor: f64| up(pool.heap as f64 * factor, HEAP_STEP);
    let spills_off_heap = measured.spilling > 0 && measured.executes_off_heap(pool);
    if measured.spilling > 0 && !spills_off_heap {
        return heap_for_spill(pool, measured, fraction);
    }
    let exhausted = measured.out_of.heap;
    if exhausted > 0 {
        let what = if is_local { "tasks or queries" } else { "tasks or executors" };
        let steps = in_steps(by_more(1.5), HEAP_STEP);
        return (Some(by_more(1.5)), format!("{exhausted} {what} ran out of heap: half as much again, {steps}"));
    }
    if !measured.is_known {
        return (None, NO_METRICS.into());
    }
    let gc = format!("GC takes {:.1} % of run time", 100.0 * measured.gc);
    let spilled = if spills_off_heap { "what was spilled is off the heap" } else { "nothing was spilled" };
    if measured.gc > 0.10 {
        let factor = match () {
            () if measured.gc > 0.20 => 2.0,
            () if measured.gc > 0.15 => 1.5,
            () => 1.25,
        };
        let steps = in_steps(by_more(factor), HEAP_STEP);
        return (Some(by_more(factor)), format!("{gc}, though {spilled}: {factor} times the heap, {steps}"));
    }
    let Some(peak) = peak else {
        return (None, format!("{spilled}, {gc}; the unified pool was {}", not_sampled(&SWITCHES[..1])));
    };
    let share = format!("the unified pool was used up to {} of {}", format_size(peak), format_size(pool.room()));
    if (peak as f64) < 0.3 * pool.room() as f64 && measured.gc < 0.05 && !spills_off_heap {
        return smaller_heap(pool, measured, peak, &format!("{share}, less than 30 %"));
    }
    (None, format!("{spilled}, {gc}, and {share}"))
}

/// The heap of a pool with so much room, bytes, and the arithmetic.
fn heap_of(need: f64, fraction: f64) -> (u64, String) {
    let exact = need / fraction.max(0.01) + RESERVED as f64;
    let heap = up(exact, HEAP_STEP);
    let (need, exact, steps) = (format_size(need as u64), format_size(exact as u64), in_steps(heap, HEAP_STEP));
    (heap, format!("{need} / {fraction} + 300 MiB = {exact}, {steps}"))
}

fn heap_for_spill(pool: &Pool, measured: &Measured, fraction: f64) -> (Option<u64>, String) {
    let storage = measured.executors.get("OnHeapStorageMemory").unwrap_or(0);
    let (execution, needs) = execution(pool, measured);
    let peak = measured.executors.get("OnHeapUnifiedMemory").unwrap_or(0);
    let (heap, arithmetic) = heap_of((execution + storage as f64).max(peak as f64), fraction);
    let needs = format!("{needs}, with {} of storage; {arithmetic}", format_size(storage));
    let more = if measured.out_of.heap > 0 { up(pool.heap as f64 * 1.5, HEAP_STEP) } else { 0 };
    match heap.max(more) {
        advised if advised > pool.heap => {
            (Some(advised), format!("{needs}; or more partitions, so that each task has less data"))
        }
        _ if fraction > pool.fraction => (None, format!("{needs}: with that fraction, the heap is large enough")),
        _ => (None, format!("{needs}: the heap is large enough, so tasks of unequal size spilled; see skew")),
    }
}

/// A smaller heap, but none below what it held at any time, garbage or not: what tasks of the user have beside the pool is not known
/// otherwise.
fn smaller_heap(pool: &Pool, measured: &Measured, peak: u64, share: &str) -> (Option<u64>, String) {
    let (by_pool, arithmetic) = heap_of(peak as f64 * MORE_FOR_SPILL, pool.fraction);
    let held = measured.executors.get("JVMHeapMemory").unwrap_or(0);
    let least = up(LEAST_HEAP as f64, HEAP_STEP);
    let smaller = by_pool.max(least).max(up(held as f64, HEAP_STEP));
    let floor = match () {
        () if smaller == by_pool => String::new(),
        () if smaller == least => format!(", and {} is the least with which Spark starts", mib(smaller)),
        () => format!(", but no less than the {} that the heap held at most, garbage included", format_size(held)),
    };
    let gc = format!("GC takes {:.1} % of run time", 100.0 * measured.gc);
    match () {
        () if smaller >= pool.heap => (None, format!("{share}: with 20 % more, {arithmetic}{floor}")),
        () if measured.failed > 0 => {
            (None, format!("{share}; tasks failed, so this says nothing of what they would have used"))
        }
        () => (Some(smaller), format!("{share}, nothing was spilled and {gc}: with 20 % more, {arithmetic}{floor}")),
    }
}

/// With the heap and the fraction that there shall be.
fn storage_fraction(pool: &Pool, measured: &Measured, heap: u64, fraction: f64) -> Advice {
    let setting = "spark.memory.storageFraction";
    let (now, room) = (pool.storage_fraction.to_string(), pool.room());
    let kept = (room as f64 * pool.storage_fraction) as u64;
    let Some(peak) = measured.executors.get("OnHeapUnifiedMemory") else {
        return Advice { setting, now, advised: None, why: not_sampled(&SWITCHES[..1]) };
    };
    let storage = measured.executors.get("OnHeapStorageMemory").unwrap_or(0);
    let used = format!("storage took {} at most, {} are safe from execution", format_size(storage), format_size(kept));
    let is_same = heap == pool.heap && fraction == pool.fraction;
    let larger = if is_same { room } else { unified(heap, fraction) };
    let kept_then = (larger as f64 * pool.storage_fraction) as u64;
    let spills = measured.spilling > 0 && !measured.executes_off_heap(pool);
    let (advised, why) = match () {
        () if spills && storage > kept && storage <= kept_then => {
            (None, format!("{used}; of the pool that is advised, {}", format_size(kept_then)))
        }
        () if spills && storage > kept => {
            let share = ((storage as f64 / larger.max(1) as f64 * 20.0).ceil() / 20.0).min(0.9);
            (Some(share.to_string()), format!("{used}: tasks that need memory evict cached blocks"))
        }
        () if spills && storage > kept / 2 && peak as f64 > 0.9 * room as f64 => {
            let share = (storage as f64 / room.max(1) as f64 * 10.0).floor() / 10.0;
            let why =
                format!("{used}: cached blocks keep memory from tasks that spill; rather cache less, or serialized");
            (Some(share.to_string()).filter(|_| share < pool.storage_fraction), why)
        }
        () => (None, format!("{used}; execution may use what storage does not")),
    };
    Advice { setting, now, advised, why }
}

fn off_heap(pool: &Pool, measured: &Measured) -> Advice {
    let setting = "spark.memory.offHeap.size";
    let peak = measured.executors.get("OffHeapUnifiedMemory");
    if pool.off_heap == 0 {
        let execution =
            measured.executors.get("OnHeapExecutionMemory").unwrap_or(measured.spilling.saturating_mul(pool.tasks));
        let why = match measured.gc > 0.10 && execution > 0 {
            true => format!(
                "off; GC takes {:.1} % of run time: instead of a larger heap, spark.memory.offHeap.enabled=true with {} would take execution memory out of its reach",
                100.0 * measured.gc,
                mib(up(execution as f64 * MORE_FOR_SPILL, HEAP_STEP))
            ),
            false if !measured.is_known => NO_METRICS.into(),
            false => "off, and GC is no reason to use it".into(),
        };
        return Advice { setting, now: "0".into(), advised: None, why };
    }
    let now = mib(pool.off_heap);
    if measured.spilling > 0 && measured.executes_off_heap(pool) {
        let storage = measured.executors.get("OffHeapStorageMemory").unwrap_or(0);
        let (execution, needs) = execution(pool, measured);
        let need = (execution + storage as f64).max(peak.unwrap_or(0) as f64);
        let advised = up(need, HEAP_STEP);
        let steps = in_steps(advised, HEAP_STEP);
        let why = format!("{needs}, with {} of storage: {steps}", format_size(storage));
        let (advised, more) = match advised > pool.off_heap {
            true => (Some(mib(advised)), "execution memory is off the heap, so heap and fraction stay"),
            false => (None, "the pool is large enough, so tasks of unequal size spilled; see skew"),
        };
        return Advice { setting, now, advised, why: format!("{why}; {more}") };
    }
    let Some(peak) = peak else {
        return Advice { setting, now, advised: None, why: not_sampled(&SWITCHES[..1]) };
    };
    let used = format!("{} of {} were used", format_size(peak), format_size(pool.off_heap));
    let need = peak as f64 * MORE_FOR_SPILL;
    match measured.is_known && measured.spilling + measured.failed == 0 && (peak as f64) < 0.3 * pool.off_heap as f64 {
        true => {
            let why = format!("{used}, less than 30 %: with 20 % more {}", format_size(need as u64));
            Advice { setting, now, advised: Some(mib(up(need, HEAP_STEP))), why }
        }
        false => Advice { setting, now, advised: None, why: used },
    }
}
