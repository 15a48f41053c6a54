//! What the executors of an application do over time, column by column: what a screen and a page draw.

use crate::{SparkExecutorNow, SparkMetric};
use latscope_event::spark::SparkSpan;
use std::collections::{BTreeMap, VecDeque};

/// An executor that has not reported for so long, and for so many of its own intervals, does nothing any more, seconds.
const SILENT_S: i64 = 30;
const SILENT_INTERVALS: i64 = 5;
/// So many executors are followed; the counters of the others are still added up.
const EXECUTORS: usize = 256;

/// The parts of run time, in the order of [`SparkColumn::parts`]. The last is what none of the others has.
pub const SPARK_PARTS: [&str; 5] = ["CPU", "GC", "fetch wait", "shuffle write", "remainder"];
/// The memory of an executor, in the order of [`SparkColumn::memory`]. The last is that of its control group.
pub const SPARK_MEMORY: [&str; 5] = ["heap", "RSS", "execution", "storage", "cgroup"];
/// Those of which a driver says only the greatest so far.
pub const SPARK_PEAKS: [&str; 3] = ["heap", "RSS", "execution"];
/// What control groups count, in the order of [`SparkColumn::groups`].
pub const SPARK_GROUPS: [&str; 2] = ["CPU", "throttled"];

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
    /// How many cores the control groups of executors used, and of how many their quotas kept them; `None` where none was sampled.
    pub groups: [Option<f64>; SPARK_GROUPS.len()],
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
    /// Queries, jobs and stages, where the source has them.
    pub spans: Vec<SparkSpan>,
    /// The greatest memory of each executor since the start.
    pub peaks: Vec<SparkMemory>,
    /// Whether several executors had the same control group, whose numbers are added once.
    pub is_shared: bool,
    /// Whether a driver is asked: its answers have all executors that live, and the greatest memory so far except that of storage.
    pub is_asked: bool,
    /// Who has gone since the interval before, as it last reported.
    pub gone: Vec<SparkExecutorNow>,
    last: BTreeMap<(String, String), SparkExecutorNow>,
    /// When anybody reported.
    heard_s: i64,
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
        self.gone.clear();
        // Without an answer nothing is known of anybody.
        if self.is_asked && reported.is_empty() {
            return self.push(column);
        }
        for executor in reported {
            if self.app.is_empty() {
                self.app.clone_from(&executor.app);
            }
            self.last.insert((executor.app.clone(), executor.executor.clone()), executor.clone());
        }
        if !reported.is_empty() {
            self.heard_s = at_s;
        }
        // By the clock of executors, which goes on where nobody reports.
        let newest_s = self.last.values().map(|executor| executor.at_s).max().unwrap_or(at_s);
        let newest_s = newest_s.saturating_add(at_s.saturating_sub(self.heard_s));
        let answered_s = reported.iter().map(|executor| executor.at_s).max().filter(|_| self.is_asked);
        let is_gone = |executor: &SparkExecutorNow| {
            let silent_s = executor.seconds.saturating_mul(SILENT_INTERVALS).max(SILENT_S);
            answered_s.is_some_and(|answered_s| executor.at_s < answered_s)
                || newest_s.saturating_sub(executor.at_s) >= silent_s
        };
        let gone: Vec<_> = self.last.iter().filter(|(_, one)| is_gone(one)).map(|(key, _)| key.clone()).collect();
        self.gone.extend(gone.iter().filter_map(|key| self.last.remove(key)).filter(|one| !one.is_whole()));
        let several = self.last.values().any(|executor| executor.app != self.app);
        let mut now: Vec<&SparkExecutorNow> = self.last.values().filter(|executor| !executor.is_whole()).collect();
        // As they are shown, so that those that come first are kept where there are too many.
        now.sort_by_key(|executor| (executor.executor == "driver", executor.executor.len(), executor.executor.clone()));
        let mut groups: BTreeMap<&str, [Option<f64>; SPARK_GROUPS.len()]> = BTreeMap::new();
        for group in now.iter().filter_map(|executor| executor.group.as_ref()) {
            self.is_shared |= groups.insert(&group.name, [group.cpu, group.throttled]).is_some();
        }
        for at in 0..SPARK_GROUPS.len() {
            column.groups[at] = groups.values().filter_map(|group| group[at]).reduce(|sum, more| sum + more);
        }
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
        self.push(column);
    }

    /// Forgets so many of the newest columns, as far as they are without an answer: it was late, but came.
    pub fn forget_unanswered(&mut self, count: usize) {
        let unanswered = self.columns.iter().rev().take(count).take_while(|column| column.memory.is_empty()).count();
        self.columns.truncate(self.columns.len() - unanswered);
    }

    fn push(&mut self, column: SparkColumn) {
        self.columns.push_back(column);
        while self.columns.len() > self.most.max(1) {
            self.columns.pop_front();
        }
    }

    /// The newest column with those who live; not the last one while a driver that is asked does not answer.
    pub fn known(&self) -> Option<&SparkColumn> {
        self.columns.iter().rev().find(|column| !self.is_asked || !column.memory.is_empty())
    }

    /// What an executor is called, and whether it is gone.
    pub fn title(&self, at: usize) -> String {
        let name = &self.executors[at];
        let title = if name == "driver" { name.clone() } else { format!("executor {name}") };
        let is_gone = self.known().is_some_and(|known| !known.memory.contains_key(&at));
        if is_gone { title + " (gone)" } else { title }
    }

    /// The numbers of executors in the order in which they are shown: 2 before 10, and the driver behind them.
    pub fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.executors.len()).collect();
        order.sort_by_key(|&at| (self.is_driver(at), self.executors[at].len(), &self.executors[at]));
        order
    }

    /// Whether this is the driver, or one of several.
    pub fn is_driver(&self, at: usize) -> bool {
        self.executors[at].rsplit('/').next() == Some("driver")
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
        executor.group.as_ref().and_then(|group| group.memory),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SparkCgroup;

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
        assert_eq!(timeline.columns[1].memory[&1], [Some(400), None, Some(201), None, None]);
        assert_eq!(timeline.peaks[1], [Some(600), None, Some(301), None, None]);
        timeline.add(175, &[now("10", 175, 1, 1, 10)]);
        assert_eq!((timeline.columns.len(), timeline.columns[2].active, timeline.columns[0].at_s), (3, Some(1), 110));
        let gone = |timeline: &SparkTimeline| timeline.gone.iter().map(|one| one.executor.clone()).collect::<Vec<_>>();
        assert_eq!(gone(&timeline), ["2"], "the other one reports again");
        // Where all are silent, all have gone.
        timeline.add(175 + 49, &[]);
        assert!(gone(&timeline).is_empty());
        timeline.add(175 + 50, &[]);
        assert_eq!(gone(&timeline), ["10"]);
        assert_eq!([timeline.columns[1].active, timeline.columns[2].active], [Some(1), None]);
    }

    #[test]
    fn who_is_missing_in_an_answer_has_gone() {
        let mut timeline = SparkTimeline { is_asked: true, ..SparkTimeline::new(9) };
        timeline.add(10, &[now("driver", 10, 0, 0, 9), now("10", 10, 1, 1, 9), now("2", 10, 1, 1, 9)]);
        // No answer says nothing of anybody.
        timeline.add(12, &[]);
        timeline.add(14, &[now("driver", 14, 0, 0, 9), now("2", 14, 1, 1, 9), now("11", 14, 1, 1, 9)]);
        let shown: Vec<&str> = timeline.order().into_iter().map(|at| &*timeline.executors[at]).collect();
        assert_eq!(shown, ["2", "10", "11", "driver"]);
        assert_eq!(timeline.gone.iter().map(|one| &*one.executor).collect::<Vec<_>>(), ["10"]);
        let live = |at: usize| timeline.columns[at].memory.len();
        assert_eq!([live(0), live(1), live(2)], [3, 0, 3]);
        assert_eq!([timeline.columns[1].active, timeline.columns[2].active], [None, Some(2)]);
        let [ten, eleven] = ["10", "11"].map(|name| timeline.executors.iter().position(|found| found == name).unwrap());
        assert!(!timeline.columns[2].memory.contains_key(&ten) && timeline.columns[2].memory.contains_key(&eleven));
        timeline.add(16, &[]);
        assert!(timeline.gone.is_empty());
        assert_eq!([timeline.title(ten), timeline.title(eleven)], ["executor 10 (gone)", "executor 11"]);
    }

    #[test]
    fn an_answer_that_was_late_leaves_no_gap() {
        let mut timeline = SparkTimeline { is_asked: true, ..SparkTimeline::new(9) };
        let mut turn = |at_s: i64, answers: bool, late: usize| {
            timeline.forget_unanswered(late);
            let reported: &[SparkExecutorNow] = if answers { &[now("2", at_s, 1, 1, 9)] } else { &[] };
            timeline.add(at_s, reported);
        };
        // Nobody answered at 12; the answer of 14 came at 16.
        for (at, answers, late) in [(10, true, 0), (12, false, 0), (14, false, 0), (16, true, 1), (18, true, 1)] {
            turn(at, answers, late);
        }
        let columns: Vec<_> = timeline.columns.iter().map(|column| (column.at_s, column.active)).collect();
        assert_eq!(columns, [(10, Some(1)), (12, None), (16, Some(1)), (18, Some(1))]);
    }

    #[test]
    fn a_shared_control_group_counts_once() {
        let group = |name: &str, cpu| SparkCgroup { name: name.into(), cpu, throttled: Some(0.5), memory: Some(7) };
        let of = |executor: &str, group| SparkExecutorNow { group: Some(group), ..now(executor, 100, 1, 1, 9) };
        let mut timeline = SparkTimeline::new(3);
        timeline.add(100, &[of("1", group("/a", Some(0.75))), of("2", group("/b", None)), now("3", 100, 1, 1, 9)]);
        assert_eq!((timeline.columns[0].groups, timeline.is_shared), ([Some(0.75), Some(1.0)], false));
        assert_eq!([timeline.peaks[0][4], timeline.peaks[2][4]], [Some(7), None]);
        timeline.add(101, &[of("1", group("/b", Some(1.25))), of("2", group("/b", Some(1.25)))]);
        assert_eq!((timeline.columns[1].groups, timeline.is_shared), ([Some(1.25), Some(0.5)], true));
    }

    #[test]
    fn what_is_of_the_whole_application_is_not_added_to_its_executors() {
        let mut timeline = SparkTimeline::new(9);
        timeline.add(10, &[now("1", 10, 2, 8, 600), now(SparkExecutorNow::WHOLE, 10, 7, 20, 0)]);
        assert_eq!((timeline.columns[0].active, &timeline.executors[..]), (Some(2), &["1".to_string()][..]));
        assert_eq!(timeline.columns[0].parts.map(|parts| parts[0]), Some(0.5));
    }
}
