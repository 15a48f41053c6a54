//! What is beside the heap: overhead, Python, the driver, options of the JVM, and limits of the cluster and the kernel.

use super::{Advice, MORE_FOR_OVERHEAD, Measured, NO_METRICS, OVERHEAD_STEP, SWITCHES, in_steps, mib, not_sampled, up};
use crate::spark::memory::{MIB, Pool, Settings, bytes_of};
use latscope_event::format_size;

/// Above this, references are twice as large.
const COMPRESSED: u64 = 32 << 30;

pub(super) fn overhead(pool: &Pool, measured: &Measured, settings: &Settings) -> Advice {
    let setting = "spark.executor.memoryOverhead";
    let now = mib(pool.overhead);
    let enforced = if settings.enforces_overhead() { "" } else { "; standalone clusters do not enforce it" };
    let metric = |name: &str| measured.executors.get(name).unwrap_or(0);
    let Some(resident) = measured.executors.get("ProcessTreeJVMRSSMemory") else {
        let more = up(pool.overhead as f64 * 1.5, OVERHEAD_STEP);
        return match measured.out_of.resident > 0 {
            true => {
                let why = format!(
                    "executors or Python workers killed or lost for want of memory: {}; half as much again, {}; it was {}",
                    measured.out_of.resident,
                    in_steps(more, OVERHEAD_STEP),
                    not_sampled(&SWITCHES)
                );
                Advice { setting, now, advised: Some(mib(more)), why }
            }
            false => Advice { setting, now, advised: None, why: not_sampled(&SWITCHES) },
        };
    };
    // The off-heap pool has room of its own in the container.
    let beyond = resident.saturating_sub(pool.heap).saturating_sub(pool.off_heap);
    let apart = if pool.off_heap > 0 { " and the off-heap pool" } else { "" };
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
        "the greater of {} (resident beyond the heap{apart}) and {} (metaspace and code, direct and mapped), + {of_python} + {} of others, + 10 % = {}{enforced}",
        format_size(beyond),
        format_size(native),
        format_size(other),
        format_size(need as u64)
    );
    let is_less =
        measured.failed == 0 && need < pool.overhead as f64 / 2.0 && advised < pool.overhead && advised >= 384 * MIB;
    let lost = if measured.out_of.resident > 0 { up(pool.overhead as f64 * 1.5, OVERHEAD_STEP) } else { 0 };
    match advised.max(lost) {
        advised if advised as f64 > pool.overhead as f64 && (need > pool.overhead as f64 || lost > 0) => {
            let steps = in_steps(advised, OVERHEAD_STEP);
            // What was sampled may have missed the moment in which it was too little.
            let why = match advised == lost && lost as f64 > need {
                true => format!(
                    "executors or Python workers killed or lost: {}; half as much again, {steps}. Sampled was less: {why}",
                    measured.out_of.resident
                ),
                false => format!("{why}, {steps}"),
            };
            Advice { setting, now, advised: Some(mib(advised)), why }
        }
        advised if is_less => {
            let why = format!("{why}, {}", in_steps(advised, OVERHEAD_STEP));
            Advice { setting, now, advised: Some(mib(advised)), why }
        }
        _ => {
            let reason = match () {
                () if need >= pool.overhead as f64 / 2.0 => "at least half of what there is",
                () if measured.failed > 0 => "less than half of what there is, but tasks failed",
                () => "less than half of what there is, but 384m are the least that Spark has by itself",
            };
            Advice { setting, now, advised: None, why: format!("{why}, {reason}") }
        }
    }
}

pub(super) fn python(pool: &Pool, measured: &Measured, settings: &Settings) -> Advice {
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
            let is_much = (size as f64) < 0.3 * limit as f64 && measured.out_of.python == 0;
            let is_little = measured.out_of.python + measured.out_of.resident > 0;
            let (need, rule) = match is_little {
                // Whoever failed had not yet all that it wanted.
                true => (2.0 * size.max(limit) as f64, "after failures, twice the greater of that and the limit"),
                false => (size as f64 * MORE_FOR_OVERHEAD, "that + 10 %"),
            };
            let need = up(need, OVERHEAD_STEP);
            let failed = match measured.out_of.python {
                0 => String::new(),
                count => format!("{count} tasks had no more memory in Python; "),
            };
            let steps = in_steps(need, OVERHEAD_STEP);
            match is_little || is_much {
                true => (Some(mib(need)), format!("{failed}{used}: {rule}, {steps}")),
                false => (None, used),
            }
        }
        (Some(limit), ..) if measured.out_of.python > 0 => {
            let need = up(limit as f64 * 2.0, OVERHEAD_STEP);
            let (count, steps) = (measured.out_of.python, in_steps(need, OVERHEAD_STEP));
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

pub(super) fn driver(measured: &Measured, settings: &Settings) -> Advice {
    let setting = "spark.driver.memory";
    let heap = settings.bytes(setting, MIB).unwrap_or(1 << 30);
    let now = mib(heap);
    if measured.out_of.driver > 0 {
        let more = up(heap as f64 * 1.5, 256 * MIB);
        let why = format!(
            "jobs or queries that failed as the driver ran out of heap: {}; half as much again, {}, or collect and broadcast less",
            measured.out_of.driver,
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

/// Options of the JVM: those that are set, and what is to be added to them or to replace one of them.
struct Options<'a>(Vec<std::borrow::Cow<'a, str>>);

impl Options<'_> {
    /// The size behind the start of an option, bytes.
    fn size(&self, start: &str) -> Option<u64> {
        self.0.iter().find_map(|option| bytes_of(option.strip_prefix(start)?, 1))
    }

    /// Sets an option in place of those that start like it.
    fn set(&mut self, is_like: impl Fn(&str) -> bool, option: String) {
        self.0.retain(|own| !is_like(own));
        self.0.push(option.into());
    }
}

pub(super) fn jvm(pool: &Pool, measured: &Measured, heap: Option<u64>, settings: &Settings) -> Advice {
    let setting = if settings.is_local() { "spark.driver.extraJavaOptions" } else { "spark.executor.extraJavaOptions" };
    let set = settings.get(setting).unwrap_or_default();
    let now = if set.is_empty() { "unset".to_string() } else { set.to_string() };
    let mut options = Options(set.split_whitespace().map(Into::into).collect());
    let mut reasons = Vec::new();
    if pool.reported.is_some_and(|reported| (reported as f64) < 0.98 * pool.unified as f64) {
        reasons.push(format!(
            "executors have a pool of {}, not {}: a collector keeps a part of the heap; G1 does not",
            format_size(pool.room()),
            format_size(pool.unified)
        ));
        options.set(|own| own.starts_with("-XX:+Use") && own.ends_with("GC"), "-XX:+UseG1GC".into());
    }
    if measured.out_of.metaspace > 0 {
        let start = "-XX:MaxMetaspaceSize=";
        // Without a limit only the space for classes is bounded: by 1 GiB.
        let (start, size) =
            options.size(start).map_or(("-XX:CompressedClassSpaceSize=", 1 << 30), |size| (start, size));
        let count = measured.out_of.metaspace;
        reasons.push(format!(
            "{count} tasks or executors ran out of metaspace, which lies outside the heap: twice as much"
        ));
        options.set(|own| own.starts_with(start), format!("{start}{}", mib(size.saturating_mul(2))));
    }
    if measured.out_of.direct > 0 {
        let start = "-XX:MaxDirectMemorySize=";
        let size = options.size(start).unwrap_or(pool.heap);
        let more = up(size as f64 * 1.5, OVERHEAD_STEP);
        reasons.push(format!(
            "{} tasks or executors had no more direct memory, of which there may be {} (the heap's size unless it is set): half as much again; overhead has to hold what is used of it",
            measured.out_of.direct,
            format_size(size)
        ));
        options.set(|own| own.starts_with(start), format!("{start}{}", mib(more)));
    }
    let gc = format!("GC takes {:.1} % of run time", 100.0 * measured.gc);
    let has_log = options.0.iter().any(|own| own.starts_with("-Xlog:gc") || own.starts_with("-Xloggc:"));
    match () {
        () if heap.unwrap_or(pool.heap) > COMPRESSED => {
            reasons.push("above 32 GiB references take twice the room: rather two executors of half the heap".into());
        }
        () if measured.gc > 0.10 && has_log => {
            reasons.push(format!("{gc}: its log, which is on, says which collections"))
        }
        () if measured.gc > 0.10 => {
            options.0.push("-Xlog:gc*:file=gc.log".into());
            reasons.push(format!("{gc}: its log says which collections"));
        }
        () if reasons.is_empty() && !measured.is_known => reasons.push(NO_METRICS.into()),
        () if reasons.is_empty() => reasons.push(gc),
        () => {}
    }
    let advised =
        Some(options.0.join(" ")).filter(|advised| *advised != set.split_whitespace().collect::<Vec<_>>().join(" "));
    Advice { setting, now, advised, why: reasons.join("; ") }
}

/// What no setting of Spark's memory helps with.
pub(super) fn limits(measured: &Measured) -> Vec<Advice> {
    let mut advice = Vec::new();
    let killed = measured.out_of.address_space;
    if killed > 0 {
        let why = format!(
            "containers that YARN killed for their address space, which a JVM reserves and does not fill: {killed}; more overhead does not help. It is set in yarn-site.xml, as is the other way, a greater yarn.nodemanager.vmem-pmem-ratio"
        );
        let (setting, now) = ("yarn.nodemanager.vmem-check-enabled", "true".into());
        advice.push(Advice { setting, now, advised: Some("false".into()), why });
    }
    let threads = measured.out_of.threads;
    if threads > 0 {
        let why = format!(
            "tasks or executors that could not create a native thread: {threads}. No heap helps: it is the limit of processes of the user (ulimit -u) or of the container (pids.max), or there is no memory for stacks beside the heap; fewer cores in an executor need fewer threads"
        );
        let (setting, now) = ("ulimit -u", "not in the log".into());
        advice.push(Advice { setting, now, advised: Some("greater".into()), why });
    }
    advice
}
