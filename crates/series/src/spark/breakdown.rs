//! Where the time of cores went, over time.

use super::active::ActiveTasks;
use super::sums::TIME_PARTS;
use super::tasks::SparkTasks;

/// Core-equivalents over time: each task's parts are spread evenly over the time that it ran, on all cores that it held.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Breakdown {
    /// When the first column starts, nanoseconds.
    pub start_ns: i64,
    /// Width of a column, nanoseconds.
    pub width_ns: u64,
    /// For each column the core-nanoseconds of each of [`TIME_PARTS`], and last those of tasks without metrics.
    pub parts: Vec<[f64; TIME_PARTS.len() + 1]>,
    /// For each column the core-nanoseconds of cores without a task.
    pub idle: Vec<f64>,
    /// For each column the core-nanoseconds of all cores.
    pub cores: Vec<f64>,
}

impl SparkTasks {
    /// The breakdown in at most so many columns of equal width.
    pub fn breakdown(&self, active: &[ActiveTasks], columns: usize) -> Breakdown {
        let Some((start_ns, end_ns)) = self.extent_ns() else { return Breakdown::default() };
        let columns = columns.clamp(1, 1 << 16);
        let width_ns = end_ns.abs_diff(start_ns).div_ceil(columns as u64).max(1);
        let count = (end_ns.abs_diff(start_ns).div_ceil(width_ns) as usize).max(1);
        let mut breakdown = Breakdown {
            start_ns,
            width_ns,
            parts: vec![[0.0; TIME_PARTS.len() + 1]; count],
            idle: vec![0.0; count],
            cores: vec![0.0; count],
        };
        let tasks = self.stages.values().flat_map(|stage| stage.tasks.iter().map(|task| (task, stage.cpus as f64)));
        for (task, held) in tasks {
            let took = task.took_ns() as f64;
            let sum = task.parts.iter().map(|&ns| ns as f64).sum::<f64>();
            // GC is that of the whole JVM, so parts may exceed the time of the task; what is missing has no metrics.
            let scale = if sum > took { 1.0 / sum } else { 1.0 / took.max(1.0) };
            let unknown = if sum > took { 0.0 } else { (took - sum) / took.max(1.0) };
            each_column((start_ns, width_ns, count), (task.start_ns, task.end_ns), |column, ns| {
                let ns = ns * held;
                for (to, &part) in breakdown.parts[column].iter_mut().zip(&task.parts) {
                    *to += ns * part as f64 * scale;
                }
                breakdown.parts[column][TIME_PARTS.len()] += ns * unknown;
            });
        }
        for (at, step) in active.iter().enumerate() {
            let next_ns = active.get(at + 1).map_or(step.start_ns, |next| next.start_ns);
            each_column((start_ns, width_ns, count), (step.start_ns, next_ns), |column, ns| {
                breakdown.idle[column] += ns * step.idle() as f64;
                breakdown.cores[column] += ns * step.cores as f64;
            });
        }
        breakdown
    }
}

/// Each column that a span falls into, with how much of it does, nanoseconds.
fn each_column((start_ns, width_ns, count): (i64, u64, usize), span_ns: (i64, i64), mut add: impl FnMut(usize, f64)) {
    let offset = |ns: i64| ns.saturating_sub(start_ns).max(0).unsigned_abs();
    let (from, to) = (offset(span_ns.0), offset(span_ns.1));
    if from >= to {
        return;
    }
    for column in (from / width_ns) as usize..count {
        let (left, right) = (column as u64 * width_ns, (column as u64 + 1).saturating_mul(width_ns));
        if left >= to {
            break;
        }
        add(column, right.min(to).saturating_sub(left.max(from)) as f64);
    }
}
