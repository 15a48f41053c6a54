//! What the tasks of a Spark application add up to, what they waited for, and what would help: the report of an application.

mod active;
mod advice;
mod analysis;
mod applications;
mod breakdown;
mod causes;
mod idle;
mod limits;
mod memory;
mod sums;
mod tasks;
mod usage;
mod verdict;
mod what_if;

pub use active::{ActiveTasks, Load, Tail};
pub use advice::Advice;
pub use analysis::Analysis;
pub use applications::Applications;
pub use breakdown::Breakdown;
pub use causes::{Cause, Grade, Straggler};
pub use idle::{Idle, IdleCause, IdleStretch};
pub use limits::{SparkLimit, SparkMeasures, incomplete, undecided};
pub use memory::{AREAS, Peaks, Pool, Settings};
pub use sums::{TIME_PARTS, TaskSums};
pub use tasks::{SparkExclusion, SparkExecutor, SparkGroup, SparkStage, SparkTasks};
pub use usage::{ExecutorUsage, Usage, UsageRow, UsageSample, Usages};
pub use verdict::{Confidence, Finding, Observed, Verdict};
pub use what_if::Simulated;
