//! Memory of executors: what was used at most, by area, and what the settings give.

use super::tasks::SparkTasks;
use latscope_event::Context;
use latscope_event::spark::{MEMORY_METRICS, SAMPLED_METRICS};
use std::collections::BTreeMap;

/// Mebibyte.
pub(super) const MIB: u64 = 1 << 20;
/// What Spark keeps of every heap for itself.
pub(super) const RESERVED: u64 = 300 * MIB;

/// The areas of an executor's memory, in the order of [`Peaks::areas`].
pub const AREAS: [&str; 4] = ["heap", "RSS", "execution", "storage"];

/// The greatest value of each of [`MEMORY_METRICS`]: bytes, nanoseconds or counts. 0 is what was not sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Peaks([u64; MEMORY_METRICS.len()]);

impl Peaks {
    /// The greatest value; none where it was not sampled.
    pub fn get(&self, name: &str) -> Option<u64> {
        let at = MEMORY_METRICS.iter().position(|metric| *metric == name)?;
        Some(self.0[at]).filter(|&value| value > 0)
    }

    /// The bytes of each of [`AREAS`]; `None` was not sampled. Where the heap was, all memory of Spark was.
    pub fn areas(&self) -> [Option<u64>; AREAS.len()] {
        let value = |name: &str| self.get(name).unwrap_or(0);
        let sum = |names: [&str; 2]| names.iter().fold(0u64, |sum, name| sum.saturating_add(value(name)));
        let of_spark = |names| self.get("JVMHeapMemory").map(|_| sum(names));
        [
            self.get("JVMHeapMemory"),
            self.get("ProcessTreeJVMRSSMemory").map(|jvm| jvm.saturating_add(value("ProcessTreePythonRSSMemory"))),
            of_spark(["OnHeapExecutionMemory", "OffHeapExecutionMemory"]),
            of_spark(["OnHeapStorageMemory", "OffHeapStorageMemory"]),
        ]
    }

    pub(super) fn raise(&mut self, metric: usize, value: u64) {
        self.0[metric] = value.max(self.0[metric]);
    }

    pub(super) fn merge(&mut self, other: &Peaks) {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own = other.max(*own));
    }

    /// Whether anything was sampled beside the room that there is.
    pub fn is_sampled(&self) -> bool {
        self.0[..SAMPLED_METRICS].iter().any(|&value| value > 0)
    }
}

/// Settings of an application by name, as its log has them.
pub struct Settings<'a>(pub &'a BTreeMap<String, String>);

impl Settings<'_> {
    /// Whether there are any: the REST API may refuse to show them, and a log may lack them.
    fn are_known(&self) -> bool {
        let is_rest = self.get(Context::SPARK_SOURCE) == Some("REST");
        let is_missing = self.get(Context::SPARK_SETTINGS).is_some();
        !(is_rest || is_missing) || self.get("spark.master").is_some()
    }

    /// The text of a setting.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|text| text.trim()).filter(|text| !text.is_empty())
    }

    /// A number of bytes; digits alone are multiples of `unit`.
    pub fn bytes(&self, name: &str, unit: u64) -> Option<u64> {
        bytes_of(self.get(name)?, unit)
    }

    /// A share from 0 to 1, or what it is unless it is set.
    pub fn share(&self, name: &str, usual: f64) -> f64 {
        self.get(name).and_then(|text| text.parse().ok()).filter(|share| (0.0..=1.0).contains(share)).unwrap_or(usual)
    }

    /// Whether a setting is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|text| text.eq_ignore_ascii_case("true"))
    }

    /// Whether tasks run in the driver itself.
    pub fn is_local(&self) -> bool {
        self.get("spark.master")
            .is_some_and(|master| master.starts_with("local") && !master.starts_with("local-cluster"))
    }

    /// Whether the cluster enforces overhead: neither local mode nor standalone does.
    pub fn enforces_overhead(&self) -> bool {
        self.get("spark.master").is_none_or(|master| !master.starts_with("local") && !master.starts_with("spark://"))
    }
}

/// A number of bytes; digits alone are multiples of `unit`.
pub(super) fn bytes_of(text: &str, unit: u64) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let factor = match &text[end..] {
        "" => unit,
        "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        "p" | "pb" | "pib" => 1 << 50,
        _ => return None,
    };
    text[..end].parse::<u64>().ok()?.checked_mul(factor)
}

/// The memory of an executor by its settings, bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pool {
    /// Whether the settings were read: a driver may keep them to itself, a log may lack them, and what Spark does without settings is
    /// not what it did.
    pub is_known: bool,
    /// Heap.
    pub heap: u64,
    /// `spark.memory.fraction`.
    pub fraction: f64,
    /// `spark.memory.storageFraction`.
    pub storage_fraction: f64,
    /// The unified pool by these, for execution and storage together: what the fraction leaves of the heap without 300 MiB.
    pub unified: u64,
    /// The unified pool as executors reported it; less than that where the JVM counts a part of the heap as never usable.
    pub reported: Option<u64>,
    /// Off-heap pool; 0 where it is off.
    pub off_heap: u64,
    /// Overhead: as it is set, or by factor and least.
    pub overhead: u64,
    /// Memory of Python workers, where it is set.
    pub python: Option<u64>,
    /// How many tasks an executor runs at a time.
    pub tasks: u64,
}

impl Pool {
    /// By the settings, and what the log says of executors.
    pub fn new(settings: &Settings, tasks: &SparkTasks) -> Pool {
        let is_local = settings.is_local();
        let heap = settings.bytes(if is_local { "spark.driver.memory" } else { "spark.executor.memory" }, MIB);
        let heap = heap.unwrap_or(1 << 30);
        let fraction = settings.share("spark.memory.fraction", 0.6);
        let own = tasks.executors.iter().filter(|executor| executor.profile == 0);
        let cores = own.map(|executor| executor.cores).max();
        let cores = cores.or_else(|| settings.get("spark.executor.cores")?.parse().ok()).unwrap_or(1);
        let per_task = settings.get("spark.task.cpus").and_then(|cpus| cpus.parse::<u64>().ok()).unwrap_or(1).max(1);
        let peaks = tasks.peaks_by_executor();
        let others =
            peaks.iter().filter(|(executor, _)| (is_local || **executor != "driver") && tasks.has_settings(executor));
        let is_kubernetes = settings.get("spark.master").is_some_and(|master| master.starts_with("k8s"));
        let runs_python = tasks.stages.values().any(|stage| stage.runs_python);
        let usual = if is_kubernetes && runs_python { 0.4 } else { 0.1 };
        let factor = match is_kubernetes {
            true => settings.share("spark.kubernetes.memoryOverheadFactor", usual),
            false => usual,
        };
        let factor = settings.share("spark.executor.memoryOverheadFactor", factor);
        let least = settings.bytes("spark.executor.minMemoryOverhead", MIB).unwrap_or(384 * MIB);
        let by_factor = ((heap as f64 * factor) as u64).max(least);
        let is_off_heap = settings.is_on("spark.memory.offHeap.enabled");
        let (unified, reported) =
            (unified(heap, fraction), others.filter_map(|(_, peaks)| peaks.get("MaximumOnHeapMemory")).min());
        // Of a log without settings, executors may show that they had the defaults.
        let is_log = settings.get(Context::SPARK_SOURCE).is_none();
        Pool {
            is_known: settings.are_known() || is_log && reported == Some(unified),
            heap,
            fraction,
            storage_fraction: settings.share("spark.memory.storageFraction", 0.5),
            unified,
            reported,
            off_heap: settings.bytes("spark.memory.offHeap.size", 1).filter(|_| is_off_heap).unwrap_or(0),
            overhead: settings.bytes("spark.executor.memoryOverhead", MIB).unwrap_or(by_factor),
            python: settings.bytes("spark.executor.pyspark.memory", MIB),
            tasks: (cores / per_task).max(1),
        }
    }

    /// The unified pool that there was.
    pub fn room(&self) -> u64 {
        self.reported.unwrap_or(self.unified)
    }

    /// What an executor asks of its cluster.
    pub fn container(&self) -> u64 {
        [self.overhead, self.off_heap, self.python.unwrap_or(0)]
            .iter()
            .fold(self.heap, |sum, part| sum.saturating_add(*part))
    }
}

/// The unified pool of a heap, as Spark rounds it.
pub(super) fn unified(heap: u64, fraction: f64) -> u64 {
    (heap.saturating_sub(RESERVED) as f64 * fraction) as u64
}
