//! Sizes of memory that would do, as settings, with the arithmetic.

use super::memory::{MIB, Peaks, Pool, RESERVED, Settings};
use super::tasks::SparkTasks;
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
/// Above this, references are twice as large.
const COMPRESSED: u64 = 32 << 30;
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

/// What was measured of an application.
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
    /// Tasks, and executors, that had no more heap.
    out_of_heap: u64,
    /// Executors that were killed for their memory, and Python workers that were lost.
    killed: u64,
    /// Tasks whose Python had no more memory.
    out_of_python: u64,
    /// Jobs and executions of SQL for which the driver had no more heap.
    out_of_driver: u64,
}

impl Measured {
    fn new(tasks: &SparkTasks, settings: &Settings) -> Measured {
        let total = tasks.total();
        let (mut executors, mut driver) = (Peaks::default(), Peaks::default());
        for (executor, peaks) in tasks.peaks_by_executor() {
            match executor == "driver" {
                true => driver.merge(&peaks),
                false => executors.merge(&peaks),
            }
        }
        if settings.is_local() {
            executors = driver;
        }
        let failures = |words: &[&str]| -> u64 {
            let errors = tasks.stages.values().flat_map(|stage| &stage.errors);
            errors.filter(|(error, _)| words.contains(&error.as_str())).map(|(_, count)| count).sum()
        };
        let lost = |is_so: fn(&super::SparkExecutor) -> bool| {
            tasks.executors.iter().filter(|executor| is_so(executor)).count() as u64
        };
        let driver_failed = |group: &&(&str, super::SparkGroup)| group.1.ran_out_of_driver();
        let out_of_driver = tasks.failed_in_driver().iter().filter(driver_failed).count() as u64;
        let of_local = if settings.is_local() { out_of_driver } else { 0 };
        Measured {
            executors,
            driver,
            spilling: tasks.spilling(),
            spilled: total.get(Field::Spilled),
            failed: total.failed,
            gc: total.get(Field::GcTime) as f64 / total.get(Field::RunTime).max(1) as f64,
            wall_ns: tasks.extent_ns().map_or(0, |(start_ns, end_ns)| end_ns.abs_diff(start_ns)),
            out_of_heap: failures(&["OutOfMemory", "GcOverheadLimit"])
                + lost(super::SparkExecutor::ran_out_of_heap)
                + of_local,
            killed: failures(&["PythonWorkerLost"]) + lost(super::SparkExecutor::was_killed_for_memory),
            out_of_python: failures(&["PythonOutOfMemory"]),
            out_of_driver,
        }
    }
}

/// What all settings of memory should be: each with what it is and why. Nothing is advised from what was not sampled.
pub fn sizing(tasks: &SparkTasks, properties: &BTreeMap<String, String>) -> (Pool, Vec<Advice>) {
    let settings = Settings(properties);
    let pool = Pool::new(&settings, tasks);
    if !pool.is_known {
        return (pool, Vec::new());
    }
    let measured = Measured::new(tasks, &settings);
    let (heap, why) = heap(&pool, &measured, settings.is_local());
    let heap_setting = if settings.is_local() { "spark.driver.memory" } else { "spark.executor.memory" };
    let mut advice = vec![
        Advice { setting: heap_setting, now: mib(pool.heap), advised: heap.map(mib), why },
        fraction(&pool, &measured),
        storage_fraction(&pool, &measured, heap),
        off_heap(&pool, &measured, &settings),
    ];
    if !settings.is_local() {
        advice.extend([
            overhead(&pool, &measured, &settings),
            python(&pool, &measured, &settings),
            driver(&measured, &settings),
        ]);
    }
    advice.push(jvm(&pool, &measured, heap));
    (pool, advice)
}

fn not_sampled(switches: &[&str]) -> String {
    format!("not sampled, which is not zero: run again with {}", switches.join(" and "))
}

fn heap(pool: &Pool, measured: &Measured, is_local: bool) -> (Option<u64>, String) {
    let peak = measured.executors.get("OnHeapUnifiedMemory");
    let storage = measured.executors.get("OnHeapStorageMemory").unwrap_or(0);
    let execution = measured.spilling.saturating_mul(pool.tasks) as f64 * MORE_FOR_SPILL;
    let need = (execution + storage as f64).max(peak.unwrap_or(0) as f64);
    let exactly = |need: f64| need / pool.fraction.max(0.01) + RESERVED as f64;
    let of_need = |need: f64| up(exactly(need), HEAP_STEP);
    let arithmetic = |need: f64| {
        let (need_text, exact) = (format_size(need as u64), format_size(exactly(need) as u64));
        format!("{need_text} / {} + 300 MiB = {exact}, {}", pool.fraction, in_steps(of_need(need), HEAP_STEP))
    };
    let by_more = |factor: f64| up(pool.heap as f64 * factor, HEAP_STEP);
    if measured.spilling > 0 {
        let needs = format!(
            "{} were spilled. A task needs {} (peak and spilled) x {} at a time + 20 % = {}, with {} of storage; {}",
            format_size(measured.spilled),
            format_size(measured.spilling),
            pool.tasks,
            format_size(execution as u64),
            format_size(storage),
            arithmetic(need)
        );
        let advised = of_need(need).max(if measured.out_of_heap > 0 { by_more(1.5) } else { 0 });
        return match advised > pool.heap {
            true => (Some(advised), format!("{needs}; or more partitions, so that each task has less data")),
            false => (None, format!("{needs}: the heap is large enough, so tasks of unequal size spilled; see skew")),
        };
    }
    if measured.out_of_heap > 0 {
        let what = if is_local { "tasks or queries" } else { "tasks or executors" };
        let steps = in_steps(by_more(1.5), HEAP_STEP);
        let why = format!("{} {what} ran out of heap: half as much again, {steps}", measured.out_of_heap);
        return (Some(by_more(1.5)), why);
    }
    let gc = format!("GC takes {:.1} % of run time", 100.0 * measured.gc);
    if measured.gc > 0.10 {
        let factor = if measured.gc > 0.20 {
            2.0
        } else if measured.gc > 0.15 {
            1.5
        } else {
            1.25
        };
        let steps = in_steps(by_more(factor), HEAP_STEP);
        return (Some(by_more(factor)), format!("{gc}, though nothing was spilled: {factor} times the heap, {steps}"));
    }
    let Some(peak) = peak else {
        return (None, format!("nothing was spilled, {gc}; the unified pool was {}", not_sampled(&SWITCHES[..1])));
    };
    let room = pool.room();
    let share = format!("the unified pool was used up to {} of {}", format_size(peak), format_size(room));
    let smaller = of_need(peak as f64 * MORE_FOR_SPILL).max(up(LEAST_HEAP as f64, HEAP_STEP));
    let is_much = (peak as f64) < 0.3 * room as f64 && measured.gc < 0.05 && smaller < pool.heap;
    if is_much && measured.failed > 0 {
        let why = format!("{share}, less than 30 %; tasks failed, so this says nothing of what they would have used");
        return (None, why);
    }
    if is_much {
        let least = match smaller > of_need(peak as f64 * MORE_FOR_SPILL) {
            true => format!(", and {} is the least with which Spark starts", mib(smaller)),
            false => String::new(),
        };
        let why = format!(
            "{share}, less than 30 %, nothing was spilled and {gc}: with 20 % more, {}{least}",
            arithmetic(peak as f64 * MORE_FOR_SPILL)
        );
        return (Some(smaller), why);
    }
    (None, format!("nothing was spilled, {gc}, and {share}"))
}

fn fraction(pool: &Pool, measured: &Measured) -> Advice {
    let advice = |advised: Option<String>, why| Advice {
        setting: "spark.memory.fraction",
        now: pool.fraction.to_string(),
        advised,
        why,
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
        Some(fraction) => {
            let room = super::memory::unified(pool.heap, fraction);
            let why = format!(
                "{why}: a pool of {} instead of {} fits, and spills less",
                format_size(room),
                format_size(pool.room())
            );
            advice(Some(fraction.to_string()), why)
        }
        None if measured.spilling > 0 => advice(None, format!("{why}: no room for a larger pool")),
        None => advice(None, format!("{why}, and nothing was spilled")),
    }
}

fn storage_fraction(pool: &Pool, measured: &Measured, heap: Option<u64>) -> Advice {
    let setting = "spark.memory.storageFraction";
    let (now, room) = (pool.storage_fraction.to_string(), pool.room());
    let kept = (room as f64 * pool.storage_fraction) as u64;
    let Some(unified) = measured.executors.get("OnHeapUnifiedMemory") else {
        return Advice { setting, now, advised: None, why: not_sampled(&SWITCHES[..1]) };
    };
    let storage = measured.executors.get("OnHeapStorageMemory").unwrap_or(0);
    let used = format!("storage took {} at most, {} are safe from execution", format_size(storage), format_size(kept));
    let larger = heap.map_or(room, |heap| super::memory::unified(heap, pool.fraction));
    let kept_then = (larger as f64 * pool.storage_fraction) as u64;
    let (advised, why) = match () {
        () if measured.spilling > 0 && storage > kept && storage <= kept_then => {
            (None, format!("{used}; of the heap that is advised, {}", format_size(kept_then)))
        }
        () if measured.spilling > 0 && storage > kept => {
            let share = ((storage as f64 / larger.max(1) as f64 * 20.0).ceil() / 20.0).min(0.9);
            (Some(share.to_string()), format!("{used}: tasks that need memory evict cached blocks"))
        }
        () if measured.spilling > 0 && storage > kept / 2 && unified as f64 > 0.9 * room as f64 => {
            let share = (storage as f64 / room.max(1) as f64 * 10.0).floor() / 10.0;
            let why =
                format!("{used}: cached blocks keep memory from tasks that spill; rather cache less, or serialized");
            (Some(share.to_string()).filter(|_| share < pool.storage_fraction), why)
        }
        () => (None, format!("{used}; execution may use what storage does not")),
    };
    Advice { setting, now, advised, why }
}

fn off_heap(pool: &Pool, measured: &Measured, settings: &Settings) -> Advice {
    let setting = "spark.memory.offHeap.size";
    let peak = measured.executors.get("OffHeapUnifiedMemory");
    if !settings.is_on("spark.memory.offHeap.enabled") {
        let execution =
            measured.executors.get("OnHeapExecutionMemory").unwrap_or(measured.spilling.saturating_mul(pool.tasks));
        let why = match measured.gc > 0.10 && execution > 0 {
            true => format!(
                "off; GC takes {:.1} % of run time: spark.memory.offHeap.enabled=true with {} would take execution memory out of its reach",
                100.0 * measured.gc,
                mib(up(execution as f64 * MORE_FOR_SPILL, HEAP_STEP))
            ),
            false => "off, and GC is no reason to use it".into(),
        };
        return Advice { setting, now: "0".into(), advised: None, why };
    }
    let now = mib(pool.off_heap);
    let Some(peak) = peak else {
        return Advice { setting, now, advised: None, why: not_sampled(&SWITCHES[..1]) };
    };
    let need = (peak as f64).max(measured.spilling.saturating_mul(pool.tasks) as f64) * MORE_FOR_SPILL;
    let advised = up(need, HEAP_STEP);
    let used = format!("{} of {} were used", format_size(peak), format_size(pool.off_heap));
    let (advised, why) = match () {
        () if measured.spilling > 0 && advised > pool.off_heap => {
            let why = format!(
                "{used} and {} spilled: tasks need {} with 20 % more",
                format_size(measured.spilled),
                format_size(need as u64)
            );
            (Some(mib(advised)), why)
        }
        () if measured.spilling + measured.failed == 0 && (peak as f64) < 0.3 * pool.off_heap as f64 => {
            (Some(mib(advised)), format!("{used}, less than 30 %: with 20 % more {}", format_size(need as u64)))
        }
        () => (None, used),
    };
    Advice { setting, now, advised, why }
}

fn overhead(pool: &Pool, measured: &Measured, settings: &Settings) -> Advice {
    let setting = "spark.executor.memoryOverhead";
    let now = mib(pool.overhead);
    let enforced = if settings.enforces_overhead() { "" } else { "; standalone clusters do not enforce it" };
    let metric = |name: &str| measured.executors.get(name).unwrap_or(0);
    let Some(resident) = measured.executors.get("ProcessTreeJVMRSSMemory") else {
        let more = up(pool.overhead as f64 * 1.5, OVERHEAD_STEP);
        return match measured.killed > 0 {
            true => {
                let why = format!(
                    "executors or Python workers killed or lost for want of memory: {}; half as much again, {}; it was {}",
                    measured.killed,
                    in_steps(more, OVERHEAD_STEP),
                    not_sampled(&SWITCHES)
                );
                Advice { setting, now, advised: Some(mib(more)), why }
            }
            false => Advice { setting, now, advised: None, why: not_sampled(&SWITCHES) },
        };
    };
    let beyond = resident.saturating_sub(pool.heap);
    let native = metric("JVMOffHeapMemory") + metric("DirectPoolMemory") + metric("MappedPoolMemory");
    let python = if pool.python.is_some() { 0 } else { metric("ProcessTreePythonRSSMemory") };
    let other = metric("ProcessTreeOtherRSSMemory");
    let need = (beyond.max(native) + python + other) as f64 * MORE_FOR_OVERHEAD;
    let advised = up(need, OVERHEAD_STEP);
    let of_python = match pool.python {
        Some(_) => "nothing of Python, which has room of its own,".into(),
        None => format!("{} of Python", format_size(python)),
    };
    let why = format!(
        "the greater of {} (resident beyond the heap) and {} (off-heap, direct and mapped), + {of_python} + {} of others, + 10 % = {}{enforced}",
        format_size(beyond),
        format_size(native),
        format_size(other),
        format_size(need as u64)
    );
    let is_less =
        measured.failed == 0 && need < pool.overhead as f64 / 2.0 && advised < pool.overhead && advised >= 384 * MIB;
    let lost = if measured.killed > 0 { up(pool.overhead as f64 * 1.5, OVERHEAD_STEP) } else { 0 };
    match advised.max(lost) {
        advised if advised as f64 > pool.overhead as f64 && (need > pool.overhead as f64 || lost > 0) => {
            let steps = in_steps(advised, OVERHEAD_STEP);
            // What was sampled may have missed the moment in which it was too little.
            let why = match advised == lost && lost as f64 > need {
                true => format!(
                    "executors or Python workers killed or lost: {}; half as much again, {steps}. Sampled was less: {why}",
                    measured.killed
                ),
                false => format!("{why}, {steps}"),
            };
            Advice { setting, now, advised: Some(mib(advised)), why }
        }
        advised if is_less => {
            let why = format!("{why}, {}", in_steps(advised, OVERHEAD_STEP));
            Advice { setting, now, advised: Some(mib(advised)), why }
        }
        _ => Advice { setting, now, advised: None, why },
    }
}

fn python(pool: &Pool, measured: &Measured, settings: &Settings) -> Advice {
    let setting = "spark.executor.pyspark.memory";
    let now = pool.python.map_or("unset".into(), mib);
    let (resident, virtual_size) =
        (measured.executors.get("ProcessTreePythonRSSMemory"), measured.executors.get("ProcessTreePythonVMemory"));
    let (advised, why) = match (pool.python, resident, virtual_size) {
        (None, Some(resident), _) => {
            (None, format!("Python workers take {} at most, of the overhead", format_size(resident)))
        }
        (Some(limit), Some(resident), Some(size)) => {
            // It limits the address space of each worker, of which there is one for each task.
            let used = format!(
                "it limits the address space of a worker, far more than it fills; those of an executor had {} ({} resident)",
                format_size(size),
                format_size(resident)
            );
            let is_much = (size as f64) < 0.3 * limit as f64 && measured.out_of_python == 0;
            let is_little = measured.out_of_python + measured.killed > 0;
            let (need, rule) = match is_little {
                // Whoever failed had not yet all that it wanted.
                true => (2.0 * size.max(limit) as f64, "after failures, twice the greater of that and the limit"),
                false => (size as f64 * MORE_FOR_OVERHEAD, "that + 10 %"),
            };
            let need = up(need, OVERHEAD_STEP);
            let failed = match measured.out_of_python {
                0 => String::new(),
                count => format!("{count} tasks had no more memory in Python; "),
            };
            let steps = in_steps(need, OVERHEAD_STEP);
            match is_little || is_much {
                true => (Some(mib(need)), format!("{failed}{used}: {rule}, {steps}")),
                false => (None, used),
            }
        }
        (Some(limit), ..) if measured.out_of_python > 0 => {
            let need = up(limit as f64 * 2.0, OVERHEAD_STEP);
            let (count, steps) = (measured.out_of_python, in_steps(need, OVERHEAD_STEP));
            let missing = not_sampled(&SWITCHES[1..]);
            let why = format!("{count} tasks had no more memory in Python: twice as much, {steps}; it was {missing}");
            (Some(mib(need)), why)
        }
        _ if settings.is_on("spark.executor.processTreeMetrics.enabled") && measured.executors.is_sampled() => {
            (None, "no Python worker was seen".into())
        }
        _ => (None, format!("memory of Python workers: none ran, or {}", not_sampled(&SWITCHES[1..]))),
    };
    Advice { setting, now, advised, why }
}

fn driver(measured: &Measured, settings: &Settings) -> Advice {
    let setting = "spark.driver.memory";
    let heap = settings.bytes(setting, MIB).unwrap_or(1 << 30);
    let now = mib(heap);
    if measured.out_of_driver > 0 {
        let more = up(heap as f64 * 1.5, 256 * MIB);
        let why = format!(
            "jobs or queries that failed as the driver ran out of heap: {}; half as much again, {}, or collect and broadcast less",
            measured.out_of_driver,
            in_steps(more, 256 * MIB)
        );
        return Advice { setting, now, advised: Some(mib(more)), why };
    }
    let Some(peak) = measured.driver.get("JVMHeapMemory") else {
        return Advice { setting, now, advised: None, why: not_sampled(&SWITCHES[..1]) };
    };
    let gc = measured.driver.get("TotalGCTime").unwrap_or(0) as f64 / measured.wall_ns.max(1) as f64;
    let used = format!(
        "its heap held {} at most, garbage included, and GC took {:.1} % of the time",
        format_size(peak),
        100.0 * gc
    );
    let smaller = up(peak as f64 * 1.5, 256 * MIB).max(1 << 30);
    let advised = match () {
        () if peak as f64 > 0.9 * heap as f64 && gc > 0.10 => Some(up(heap as f64 * 1.5, 256 * MIB)),
        () if (peak as f64) < 0.3 * heap as f64 && gc < 0.05 && smaller < heap => Some(smaller),
        () => None,
    };
    Advice { setting, now, advised: advised.map(mib), why: used }
}

fn jvm(pool: &Pool, measured: &Measured, heap: Option<u64>) -> Advice {
    let (setting, now) = ("spark.executor.extraJavaOptions", "as set".to_string());
    let reported = pool.reported.filter(|&reported| (reported as f64) < 0.98 * pool.unified as f64);
    let (advised, why) = match () {
        () if reported.is_some() => {
            let why = format!(
                "executors have a pool of {}, not {}: a collector keeps a part of the heap; G1 does not",
                format_size(pool.room()),
                format_size(pool.unified)
            );
            (Some("-XX:+UseG1GC".into()), why)
        }
        () if heap.unwrap_or(pool.heap) > COMPRESSED => {
            let why = "above 32 GiB references take twice the room: rather two executors of half the heap";
            (None, why.into())
        }
        () if measured.gc > 0.10 => {
            let why = format!("GC takes {:.1} % of run time: its log says which collections", 100.0 * measured.gc);
            (Some("-Xlog:gc*:file=gc.log".into()), why)
        }
        () => (None, format!("GC takes {:.1} % of run time", 100.0 * measured.gc)),
    };
    Advice { setting, now, advised, why }
}
