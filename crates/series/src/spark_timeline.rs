//! What the executors of an application do over time, column by column: what a screen and a page draw.

use crate::{SparkExecutorNow, SparkMetric};
use std::collections::{BTreeMap, VecDeque};

/// An executor that has not reported for so long does nothing any more, seconds.
const SILENT_S: i64 = 60;
/// So many executors are followed; the counters of the others are still added up.
const EXECUTORS: usize = 256;

/// The parts of run time, in the order of [`SparkColumn::parts`]. The last is what none of the others has.
pub const SPARK_PARTS: [&str; 5] = ["CPU", "GC", "fetch wait", "shuffle write", "remainder"];
/// The memory of an executor, in the order of [`SparkColumn::memory`].
pub const SPARK_MEMORY: [&str; 4] = ["heap", "RSS", "execution", "storage"];

/// The bytes of an executor; `None` was not sampled, which is not zero.
pub type SparkMemory = [Option<u64>; SPARK_MEMORY.len()];

/// An interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SparkColumn {
    /// When it ended, seconds since 1970.
    pub at_s: i64,
    /// Tasks that ran then.
    pub active: Option<u64>,
    /// Cores of all executors then, where the source has them.
    pub cores: Option<u64>,
    /// How many cores were busy with each of [`SPARK_PARTS`]; `None` where nobody reported.
    pub parts: Option<[f64; SPARK_PARTS.len()]>,
    /// The memory of each executor then, by its number in [`SparkTimeline::executors`].
    pub memory: BTreeMap<usize, SparkMemory>,
}

/// The columns of the last intervals, the oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SparkTimeline {
    /// The application; of several, the first that reported.
    pub app: String,
    /// Names of executors in the order in which they first reported.
    pub executors: Vec<String>,
    /// Its length is at most what [`SparkTimeline::new`] was given.
    pub columns: VecDeque<SparkColumn>,
    /// The greatest memory of each executor since the start.
    pub peaks: Vec<SparkMemory>,
    last: BTreeMap<(String, String), SparkExecutorNow>,
    most: usize,
}

impl SparkTimeline {
    /// Keeps so many columns.
    pub fn new(most: usize) -> SparkTimeline {
        SparkTimeline { most, ..SparkTimeline::default() }
    }

    /// Adds an interval that ended at this second, with those who reported in it. An executor that reports less often does what it did last.
    pub fn add(&mut self, at_s: i64, reported: &[SparkExecutorNow]) {
        let mut column = SparkColumn { at_s, parts: parts(reported), ..SparkColumn::default() };
        for executor in reported {
            if self.app.is_empty() {
                self.app.clone_from(&executor.app);
            }
            self.last.insert((executor.app.clone(), executor.executor.clone()), executor.clone());
        }
        let newest_s = self.last.values().map(|executor| executor.at_s).max().unwrap_or(at_s);
        self.last.retain(|_, executor| newest_s.saturating_sub(executor.at_s) < SILENT_S);
        let several = self.last.values().any(|executor| executor.app != self.app);
        let mut now: Vec<&SparkExecutorNow> = self.last.values().filter(|executor| !executor.is_whole()).collect();
        // 2 before 10, and the driver behind them.
        now.sort_by_key(|executor| (executor.executor == "driver", executor.executor.len(), executor.executor.clone()));
        for executor in now {
            let sum = |of: &mut Option<u64>, metric| {
                if let Some(value) = executor.get(metric) {
                    *of = Some(of.unwrap_or(0).saturating_add(value));
                }
            };
            sum(&mut column.active, SparkMetric::ActiveTasks);
            sum(&mut column.cores, SparkMetric::Cores);
            let name = match several {
                true => format!("{}/{}", executor.app, executor.executor),
                false => executor.executor.clone(),
            };
            let known = self.executors.iter().position(|known| *known == name);
            let at = known.unwrap_or(self.executors.len());
            if at >= EXECUTORS {
                continue;
            }
            if known.is_none() {
                self.executors.push(name);
                self.peaks.push(SparkMemory::default());
            }
            let memory = memory(executor);
            for (peak, now) in self.peaks[at].iter_mut().zip(memory) {
                *peak = (*peak).max(now);
            }
            column.memory.insert(at, memory);
        }
        self.columns.push_back(column);
        while self.columns.len() > self.most.max(1) {
            self.columns.pop_front();
        }
    }
}

/// What is of the whole application where that is known, else the sum of executors.
fn parts(reported: &[SparkExecutorNow]) -> Option<[f64; SPARK_PARTS.len()]> {
    let whole: Vec<&SparkExecutorNow> = reported.iter().filter(|executor| executor.is_whole()).collect();
    let of: Vec<&SparkExecutorNow> = if whole.is_empty() { reported.iter().collect() } else { whole };
    let has_times = of.iter().any(|executor| executor.get(SparkMetric::Run).is_some());
    has_times.then(|| {
        let cores = |metric| of.iter().map(|executor| executor.per_second(metric)).sum::<f64>() / 1e9;
        let named = [SparkMetric::Cpu, SparkMetric::Gc, SparkMetric::FetchWait, SparkMetric::ShuffleWrite].map(cores);
        let rest = (cores(SparkMetric::Run) - named.iter().sum::<f64>()).max(0.0);
        [named[0], named[1], named[2], named[3], rest]
    })
}

fn memory(executor: &SparkExecutorNow) -> SparkMemory {
    let sum = |metrics: &[SparkMetric]| {
        let known: Vec<u64> = metrics.iter().filter_map(|&metric| executor.get(metric)).collect();
        (!known.is_empty()).then(|| known.into_iter().fold(0, u64::saturating_add))
    };
    [
        // No heap is empty: it was not sampled yet.
        executor.get(SparkMetric::Heap).filter(|&bytes| bytes > 0),
        sum(&[SparkMetric::JvmRss, SparkMetric::PythonRss]),
        sum(&[SparkMetric::Execution, SparkMetric::OffHeapExecution]),
        sum(&[SparkMetric::Storage, SparkMetric::OffHeapStorage]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(executor: &str, at_s: i64, active: u64, run_s: u64, heap: u64) -> SparkExecutorNow {
        let mut now =
            SparkExecutorNow { app: "a".into(), executor: executor.into(), at_s, seconds: 10, ..Default::default() };
        let mut set = |metric: SparkMetric, value, grown| {
            now.values[metric as usize] = Some(value);
            now.grown[metric as usize] = grown;
        };
        set(SparkMetric::ActiveTasks, active, 0);
        set(SparkMetric::Run, 99, run_s * 1_000_000_000);
        set(SparkMetric::Cpu, 99, run_s * 250_000_000);
        set(SparkMetric::Heap, heap, 0);
        set(SparkMetric::Execution, heap / 2, 0);
        set(SparkMetric::OffHeapExecution, 1, 0);
        now
    }

    #[test]
    fn columns_add_up_what_executors_report() {
        let mut timeline = SparkTimeline::new(3);
        timeline.add(100, &[now("10", 100, 2, 8, 600), now("2", 100, 1, 4, 500)]);
        // The second one reports less often than there are columns.
        timeline.add(110, &[now("10", 110, 3, 20, 400)]);
        timeline.add(120, &[]);
        assert_eq!(timeline.executors, ["2", "10"]);
        let active: Vec<Option<u64>> = timeline.columns.iter().map(|column| column.active).collect();
        assert_eq!(active, [Some(3), Some(4), Some(4)]);
        let parts: Vec<_> = timeline.columns.iter().map(|column| column.parts).collect();
        assert_eq!(parts, [Some([0.3, 0.0, 0.0, 0.0, 0.8999999999999999]), Some([0.5, 0.0, 0.0, 0.0, 1.5]), None]);
        assert_eq!(timeline.columns[1].memory[&1], [Some(400), None, Some(201), None]);
        assert_eq!(timeline.peaks[1], [Some(600), None, Some(301), None]);
        timeline.add(175, &[now("10", 175, 1, 1, 10)]);
        assert_eq!((timeline.columns.len(), timeline.columns[2].active, timeline.columns[0].at_s), (3, Some(1), 110));
    }

    #[test]
    fn what_is_of_the_whole_application_is_not_added_to_its_executors() {
        let mut timeline = SparkTimeline::new(9);
        timeline.add(10, &[now("1", 10, 2, 8, 600), now(SparkExecutorNow::WHOLE, 10, 7, 20, 0)]);
        assert_eq!((timeline.columns[0].active, &timeline.executors[..]), (Some(2), &["1".to_string()][..]));
        assert_eq!(timeline.columns[0].parts.map(|parts| parts[0]), Some(0.5));
    }
}
