//! Metrics that the processes of a Spark application send to Graphite, and what executors did in an interval by them.

use std::collections::BTreeMap;

/// Most executors that are known at a time.
const EXECUTORS: usize = 1 << 14;
/// Where there are that many, those that were silent for so long before the last report make room, seconds.
const FORGOTTEN_S: i64 = 600;
/// Longest name of an application or executor, bytes.
const NAME_BYTES: usize = 200;

/// The metrics that are used: how Spark ends their names, and their unit in nanoseconds, bytes or pieces.
const METRICS: [(&str, f64); SparkMetric::ALL.len() - 1] = [
    ("executor.threadpool.activeTasks", 1.0),
    ("executor.succeededTasks.count", 1.0),
    ("executor.runTime.count", 1e6),
    ("executor.cpuTime.count", 1.0),
    ("executor.jvmGCTime.count", 1e6),
    ("executor.shuffleFetchWaitTime.count", 1e6),
    ("executor.shuffleWriteTime.count", 1.0),
    ("executor.bytesRead.count", 1.0),
    ("executor.shuffleTotalBytesRead.count", 1.0),
    ("ExecutorMetrics.JVMHeapMemory", 1.0),
    ("ExecutorMetrics.ProcessTreeJVMRSSMemory", 1.0),
    ("ExecutorMetrics.ProcessTreePythonRSSMemory", 1.0),
    ("ExecutorMetrics.OnHeapExecutionMemory", 1.0),
    ("ExecutorMetrics.OffHeapExecutionMemory", 1.0),
    ("ExecutorMetrics.OnHeapStorageMemory", 1.0),
    ("ExecutorMetrics.OffHeapStorageMemory", 1.0),
];

/// A metric of an executor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SparkMetric {
    /// Tasks that run now.
    ActiveTasks,
    /// Tasks that succeeded so far. Spark adds a task to this and the next numbers when it ends.
    Tasks,
    /// Their run time so far, nanoseconds.
    Run,
    /// CPU time of it.
    Cpu,
    /// Time of GC in it.
    Gc,
    /// Time that they waited for shuffle data.
    FetchWait,
    /// Time that they wrote shuffle data.
    ShuffleWrite,
    /// What they read of files, bytes.
    Input,
    /// What they read of shuffle data, bytes.
    ShuffleRead,
    /// Heap in use now, bytes.
    Heap,
    /// Memory of the JVM now, bytes; needs `spark.executor.processTreeMetrics.enabled`.
    JvmRss,
    /// Memory of Python workers now, likewise.
    PythonRss,
    /// Execution memory now, on the heap.
    Execution,
    /// And beside it.
    OffHeapExecution,
    /// Storage memory now, on the heap.
    Storage,
    /// And beside it.
    OffHeapStorage,
    /// Cores, which Graphite is not told.
    Cores,
}

impl SparkMetric {
    /// All of them, in the order of the values of a [`SparkExecutorNow`].
    pub const ALL: [SparkMetric; 17] = [
        SparkMetric::ActiveTasks,
        SparkMetric::Tasks,
        SparkMetric::Run,
        SparkMetric::Cpu,
        SparkMetric::Gc,
        SparkMetric::FetchWait,
        SparkMetric::ShuffleWrite,
        SparkMetric::Input,
        SparkMetric::ShuffleRead,
        SparkMetric::Heap,
        SparkMetric::JvmRss,
        SparkMetric::PythonRss,
        SparkMetric::Execution,
        SparkMetric::OffHeapExecution,
        SparkMetric::Storage,
        SparkMetric::OffHeapStorage,
        SparkMetric::Cores,
    ];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        [
            "active_tasks",
            "tasks",
            "run_ns",
            "cpu_ns",
            "gc_ns",
            "fetch_wait_ns",
            "shuffle_write_ns",
            "input",
            "shuffle_read",
            "heap",
            "jvm_rss",
            "python_rss",
            "execution_memory",
            "off_heap_execution_memory",
            "storage_memory",
            "off_heap_storage_memory",
            "cores",
        ][self as usize]
    }

    /// Whether it counts from the start of the executor.
    pub fn is_counter(self) -> bool {
        (SparkMetric::Tasks..=SparkMetric::ShuffleRead).contains(&self)
    }
}

/// A value of a metric, as a line of Graphite has it.
#[derive(Clone, Debug, PartialEq)]
pub struct SparkSample<'a> {
    /// The application, or what `spark.metrics.namespace` has in its place.
    pub app: &'a str,
    /// The executor, or `driver`.
    pub executor: &'a str,
    /// What it is.
    pub metric: SparkMetric,
    /// Nanoseconds, bytes or pieces.
    pub value: u64,
    /// When, seconds since 1970, by the clock of the executor.
    pub at_s: i64,
}

impl SparkSample<'_> {
    /// Of a line `PREFIX.APPLICATION.EXECUTOR.METRIC VALUE SECONDS` without its end; `None` of other metrics.
    ///
    /// # Errors
    /// What is wrong with the line: it *is no text*, *has an impossible time* ...
    pub fn parse(line: &[u8]) -> Result<Option<SparkSample<'_>>, &'static str> {
        let words: Vec<&str> = std::str::from_utf8(line).map_err(|_| "is no text")?.split_ascii_whitespace().collect();
        let &[name, value, at_s] = &words[..] else { return Err("is not a name, a value and a time") };
        let found = METRICS.iter().enumerate().find_map(|(at, (end, unit))| {
            let front = name.strip_suffix(end)?;
            Some((at, front, unit))
        });
        let Some((at, front, unit)) = found else { return Ok(None) };
        let names = front.strip_suffix('.').and_then(|front| front.rsplit_once('.'));
        let names = names.map(|(front, executor)| (front.rsplit('.').next().unwrap_or_default(), executor));
        let is_name = |name: &str| !name.is_empty() && name.len() <= NAME_BYTES;
        let (app, executor) = names
            .filter(|(app, executor)| is_name(app) && is_name(executor))
            .ok_or("names no application and executor")?;
        let value: Option<f64> = value.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
        let at_s = at_s.parse().ok().filter(|at_s| (1..=i64::MAX / 1_000_000_000).contains(at_s));
        Ok(Some(SparkSample {
            app,
            executor,
            metric: SparkMetric::ALL[at],
            value: (value.ok_or("has a value that is no number of 0 or more")? * unit) as u64,
            at_s: at_s.ok_or("has an impossible time")?,
        }))
    }
}

/// An executor in an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SparkExecutorNow {
    /// Its application.
    pub app: String,
    /// Its name.
    pub executor: String,
    /// When it was last heard of, seconds since 1970.
    pub at_s: i64,
    /// How long the interval was, by the executor's clock, seconds.
    pub seconds: i64,
    /// The last value of each metric, in the order of [`SparkMetric::ALL`]; `None` where it was never sent.
    pub values: [Option<u64>; SparkMetric::ALL.len()],
    /// Its growth in the interval.
    pub grown: [u64; SparkMetric::ALL.len()],
    /// Its control group, where that is sampled.
    pub group: Option<SparkCgroup>,
}

/// The control group of an executor in an interval; `None` is not counted there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SparkCgroup {
    /// Its name. Executors that have the same name share the numbers.
    pub name: String,
    /// CPU time, cores; `None` in the first interval, too.
    pub cpu: Option<f64>,
    /// For how long its quota kept threads from running, cores.
    pub throttled: Option<f64>,
    /// Memory now, bytes.
    pub memory: Option<u64>,
}

impl SparkExecutorNow {
    /// The name of what is of a whole application: the API has some counters for no executor.
    pub const WHOLE: &str = "all";

    /// Whether it is the whole application.
    pub fn is_whole(&self) -> bool {
        self.executor == SparkExecutorNow::WHOLE
    }

    /// The last value; `None` where it was never sent. Memory of process trees that are not sampled is 0, and `None` here.
    pub fn get(&self, metric: SparkMetric) -> Option<u64> {
        let is_sampled = !matches!(metric, SparkMetric::JvmRss | SparkMetric::PythonRss)
            || self.values[SparkMetric::JvmRss as usize].is_some_and(|bytes| bytes > 0);
        self.values[metric as usize].filter(|_| is_sampled)
    }

    /// Growth of a counter per second: of a time in nanoseconds, cores times 1e9.
    pub fn per_second(&self, metric: SparkMetric) -> f64 {
        self.grown[metric as usize] as f64 / self.seconds.max(1) as f64
    }
}

#[derive(Default)]
struct Executor {
    now: SparkExecutorNow,
    /// When the interval started, and the counters then.
    start_s: i64,
    start: [Option<u64>; SparkMetric::ALL.len()],
}

/// The executors of applications, as they report.
#[derive(Default)]
pub struct SparkMetrics {
    executors: BTreeMap<(String, String), Executor>,
    /// When room was last made, by the clocks of executors.
    swept_s: i64,
}

impl SparkMetrics {
    /// Adds a sample.
    ///
    /// # Errors
    /// What is wrong with it, in words: its executor is one too many.
    pub fn add(&mut self, sample: &SparkSample) -> Result<(), &'static str> {
        let key = (sample.app.to_string(), sample.executor.to_string());
        if !self.executors.contains_key(&key) && self.executors.len() >= EXECUTORS {
            // Once a second, however many come.
            if self.swept_s < sample.at_s {
                self.swept_s = sample.at_s;
                self.executors.retain(|_, executor| executor.now.at_s > sample.at_s.saturating_sub(FORGOTTEN_S));
            }
            if self.executors.len() >= EXECUTORS {
                return Err("is of an executor beyond the 16,384 that are followed at a time");
            }
        }
        let executor = self.executors.entry(key).or_insert_with(|| Executor {
            now: SparkExecutorNow {
                app: sample.app.into(),
                executor: sample.executor.into(),
                ..SparkExecutorNow::default()
            },
            start_s: sample.at_s,
            ..Executor::default()
        });
        executor.now.at_s = executor.now.at_s.max(sample.at_s);
        let at = sample.metric as usize;
        // What was before the first report is not of this interval.
        executor.start[at].get_or_insert(sample.value);
        executor.now.values[at] = Some(sample.value);
        Ok(())
    }

    /// Who reported since the last call, by application and executor.
    pub fn take(&mut self) -> Vec<SparkExecutorNow> {
        let mut found = Vec::new();
        for executor in self.executors.values_mut() {
            let now = &mut executor.now;
            if now.at_s <= executor.start_s && now.seconds > 0 {
                continue;
            }
            now.seconds = (now.at_s - executor.start_s).max(1);
            for (at, grown) in now.grown.iter_mut().enumerate() {
                *grown = now.values[at].zip(executor.start[at]).map_or(0, |(now, start)| now.saturating_sub(start));
            }
            executor.start = now.values;
            executor.start_s = now.at_s;
            found.push(now.clone());
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_metrics_of_executors() {
        let line = b"lab.x.app-20261121011349-0000.0.executor.runTime.count 773 1795223650";
        let sample = SparkSample::parse(line).unwrap().unwrap();
        let expected = ("app-20261121011349-0000", "0", SparkMetric::Run, 773_000_000, 1_795_223_650);
        assert_eq!((sample.app, sample.executor, sample.metric, sample.value, sample.at_s), expected);
        assert_eq!(SparkSample::parse(b"app-1.driver.jvm.heap.used 1 2"), Ok(None));
        for line in [
            &b"executor.runTime.count 1 2"[..],
            b"0.executor.runTime.count 1 2",
            b"a.0.executor.runTime.count NaN 2",
            b"a.0.executor.runTime.count -1 2",
            b"a.0.executor.runTime.count 1e400 2",
            b"a.0.executor.runTime.count 1 0",
            b"a.0.executor.runTime.count 1",
            b"a.0.executor.runTime.count 1 2 3",
            b"\xff.0.executor.runTime.count 1 2",
        ] {
            assert!(SparkSample::parse(line).is_err(), "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn counters_grow_by_interval() {
        let mut metrics = SparkMetrics::default();
        let mut report = |at_s: i64, run_ms: u64, active: u64| {
            for (name, value) in [("runTime.count", run_ms), ("threadpool.activeTasks", active)] {
                let line = format!("p.app.1.executor.{name} {value} {at_s}");
                metrics.add(&SparkSample::parse(line.as_bytes()).unwrap().unwrap()).unwrap();
            }
            metrics.take()
        };
        assert_eq!(report(100, 5000, 1)[0].grown[SparkMetric::Run as usize], 0);
        let found = report(110, 20_000, 2);
        assert_eq!((found[0].seconds, found[0].get(SparkMetric::ActiveTasks)), (10, Some(2)));
        assert!((found[0].per_second(SparkMetric::Run) - 1.5e9).abs() < 1.0);
        assert_eq!((found[0].get(SparkMetric::Heap), found[0].get(SparkMetric::PythonRss)), (None, None));
        assert!(report(110, 20_000, 2).is_empty(), "nobody reported");
    }

    #[test]
    fn executors_beyond_those_that_are_followed_are_refused_until_others_are_silent() {
        let mut metrics = SparkMetrics::default();
        let mut add = |executor: usize, at_s: i64| {
            let executor = &executor.to_string();
            metrics.add(&SparkSample { app: "a", executor, metric: SparkMetric::ActiveTasks, value: 1, at_s })
        };
        assert!((0..EXECUTORS).all(|executor| add(executor, 100).is_ok()));
        assert!(add(EXECUTORS, 100).unwrap_err().contains(&latscope_event::format_count(EXECUTORS as u64)));
        assert!(add(7, 699).is_ok() && add(EXECUTORS, 699).is_err());
        assert!(add(EXECUTORS, 700).is_ok(), "all but one were silent for ten minutes");
        let names: Vec<String> = metrics.take().into_iter().map(|executor| executor.executor).collect();
        assert_eq!(names, [EXECUTORS.to_string(), "7".into()]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_sample_or_none(line: Vec<u8>, name in "[a-z.]{0,9}", end in 0..16usize, value: f64, at: i64) {
            let _ = SparkSample::parse(&line);
            let line = format!("{name}.{} {value} {at}", METRICS[end].0);
            if let Ok(Some(sample)) = SparkSample::parse(line.as_bytes()) {
                let mut metrics = SparkMetrics::default();
                metrics.add(&sample).unwrap();
                metrics.take();
            }
        }
    }
}
