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
