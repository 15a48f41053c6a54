//! Names that Spark has for what it measures: its logs have them, and so have we.

/// What is known of an executor's memory by the names of Spark: the [`SAMPLED_METRICS`], in the order in which it writes them, and the
/// room for execution and storage, on the heap and off it.
pub const MEMORY_METRICS: [&str; 25] = [
    "JVMHeapMemory",
    "JVMOffHeapMemory",
    "OnHeapExecutionMemory",
    "OffHeapExecutionMemory",
    "OnHeapStorageMemory",
    "OffHeapStorageMemory",
    "OnHeapUnifiedMemory",
    "OffHeapUnifiedMemory",
    "DirectPoolMemory",
    "MappedPoolMemory",
    "ProcessTreeJVMVMemory",
    "ProcessTreeJVMRSSMemory",
    "ProcessTreePythonVMemory",
    "ProcessTreePythonRSSMemory",
    "ProcessTreeOtherVMemory",
    "ProcessTreeOtherRSSMemory",
    "MinorGCCount",
    "MinorGCTime",
    "MajorGCCount",
    "MajorGCTime",
    "TotalGCTime",
    "ConcurrentGCCount",
    "ConcurrentGCTime",
    "MaximumOnHeapMemory",
    "MaximumOffHeapMemory",
];

/// So many of [`MEMORY_METRICS`] are sampled.
pub const SAMPLED_METRICS: usize = 23;

/// A query, a job or a stage of an application, and when it ran.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SparkSpan {
    /// `sql`, `job` or `stage`.
    pub kind: &'static str,
    /// Its number.
    pub id: i64,
    /// Its description.
    pub name: String,
    /// When it was submitted, nanoseconds since 1970.
    pub start_ns: i64,
    /// When it ended; `None` while it runs.
    pub end_ns: Option<i64>,
}
