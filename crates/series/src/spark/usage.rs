//! What the kernel counted of the control groups of executors: CPU and its throttling, memory, block I/O and network.

use std::collections::BTreeMap;

/// A number of a control group at a moment. Counters count from its start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Usage {
    /// CPU time, nanoseconds.
    Cpu,
    /// Periods of the CPU quota in which it ran.
    Periods,
    /// Those in which it used its quota up.
    Throttled,
    /// How long its threads were kept from running then, nanoseconds of all CPUs.
    ThrottledTime,
    /// The quota, thousandths of a core; none without one.
    Quota,
    /// Memory now, bytes.
    Memory,
    /// Most memory that it may have; none without a limit.
    MemoryLimit,
    /// Memory of processes, without files.
    Anonymous,
    /// Page cache of files.
    FileCache,
    /// What it read of block devices, bytes.
    Read,
    /// What it wrote to them.
    Written,
    /// What the network namespace of the executor received, bytes, without its loopback.
    Received,
    /// What it sent.
    Sent,
    /// What passed its loopback.
    Loopback,
}

impl Usage {
    /// All of them, in the order of the values of a [`UsageSample`].
    pub const ALL: [Usage; 14] = [
        Usage::Cpu,
        Usage::Periods,
        Usage::Throttled,
        Usage::ThrottledTime,
        Usage::Quota,
        Usage::Memory,
        Usage::MemoryLimit,
        Usage::Anonymous,
        Usage::FileCache,
        Usage::Read,
        Usage::Written,
        Usage::Received,
        Usage::Sent,
        Usage::Loopback,
    ];

    /// Its name in files and in JSON.
    pub fn name(self) -> &'static str {
        [
            "cpu_ns",
            "periods",
            "throttled_periods",
            "throttled_ns",
            "quota_millicores",
            "memory",
            "memory_limit",
            "anonymous",
            "file_cache",
            "block_read",
            "block_written",
            "network_received",
            "network_sent",
            "loopback",
        ][self as usize]
    }
}

/// What was counted at a moment; none of what the group does not count.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageSample {
    /// When, Unix nanoseconds.
    pub time_ns: i64,
    /// In the order of [`Usage::ALL`].
    pub values: [Option<u64>; Usage::ALL.len()],
}

/// A sample as a row of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageRow {
    /// The application.
    pub app: String,
    /// The executor.
    pub executor: String,
    /// Its control group, and the version of control groups that it has: 1 or 2.
    pub group: (String, u8),
    /// What was counted.
    pub sample: UsageSample,
}

/// The columns before those of [`Usage::ALL`].
const COLUMNS: [&str; 5] = ["time_ns", "app", "executor", "cgroup", "version"];

impl UsageRow {
    /// The first line of a file.
    pub fn header() -> String {
        let names: Vec<&str> = COLUMNS.into_iter().chain(Usage::ALL.map(Usage::name)).collect();
        names.join(",")
    }

    /// The row as a line of CSV; what is not counted is empty.
    pub fn line(&self) -> String {
        // Names of control groups may have anything but a slash.
        let name = |text: &str| text.replace(|letter: char| letter == ',' || letter == '"' || letter.is_control(), "_");
        let mut cells = vec![self.sample.time_ns.to_string(), name(&self.app), name(&self.executor)];
        cells.extend([name(&self.group.0), self.group.1.to_string()]);
        cells.extend(self.sample.values.iter().map(|value| value.map_or(String::new(), |value| value.to_string())));
        cells.join(",")
    }

    /// Parses a line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(line: &str) -> Result<UsageRow, String> {
        let cells: Vec<&str> = line.split(',').collect();
        if cells.len() != COLUMNS.len() + Usage::ALL.len() {
            return Err(format!("{} columns, not {}", cells.len(), COLUMNS.len() + Usage::ALL.len()));
        }
        let wrong = |column: usize| format!("{} {:?} is no whole number", Self::header_cell(column), cells[column]);
        let mut values = [None; Usage::ALL.len()];
        for (at, value) in values.iter_mut().enumerate() {
            let column = COLUMNS.len() + at;
            if !cells[column].is_empty() {
                *value = Some(cells[column].parse().map_err(|_| wrong(column))?);
            }
        }
        Ok(UsageRow {
            app: cells[1].into(),
            executor: cells[2].into(),
            group: (cells[3].into(), cells[4].parse().map_err(|_| wrong(4))?),
            sample: UsageSample { time_ns: cells[0].parse().map_err(|_| wrong(0))?, values },
        })
    }

    fn header_cell(column: usize) -> &'static str {
        COLUMNS.get(column).copied().unwrap_or_else(|| Usage::ALL[column - COLUMNS.len()].name())
    }
}

/// The samples of an executor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecutorUsage {
    /// Its control group, and the version of control groups.
    pub group: (String, u8),
    /// In the order of time.
    pub samples: Vec<UsageSample>,
}

impl ExecutorUsage {
    /// How much a counter grew from one moment to another, in proportion to the time in each sample; none where it was not counted.
    pub fn grown(&self, of: Usage, span_ns: (i64, i64)) -> Option<f64> {
        let steps = self.steps(of);
        let mut grown = None;
        let first = steps.partition_point(|(span, _)| span.1 <= span_ns.0);
        for ((start_ns, end_ns), more) in steps[first..].iter().take_while(|(span, _)| span.0 < span_ns.1) {
            let inside = (*end_ns).min(span_ns.1).abs_diff((*start_ns).max(span_ns.0));
            *grown.get_or_insert(0.0) += *more as f64 * inside as f64 / end_ns.abs_diff(*start_ns).max(1) as f64;
        }
        grown
    }

    /// From sample to sample: when, and how much a counter grew.
    pub fn steps(&self, of: Usage) -> Vec<((i64, i64), u64)> {
        let pairs = self.samples.windows(2);
        let step = |pair: &[UsageSample]| {
            // A counter that went back belongs to another group.
            let more = pair[1].values[of as usize]?.checked_sub(pair[0].values[of as usize]?)?;
            Some(((pair[0].time_ns, pair[1].time_ns), more))
        };
        pairs.filter_map(step).collect()
    }

    /// The greatest value.
    pub fn most(&self, of: Usage) -> Option<u64> {
        self.samples.iter().filter_map(|sample| sample.values[of as usize]).max()
    }

    /// From the first to the last sample.
    pub fn span_ns(&self) -> (i64, i64) {
        let time = |sample: Option<&UsageSample>| sample.map_or(0, |sample| sample.time_ns);
        (time(self.samples.first()), time(self.samples.last()))
    }

    /// CPU time of a second on average, cores; and the most of a sample.
    pub fn cores(&self) -> Option<(f64, f64)> {
        let (start_ns, end_ns) = self.span_ns();
        let steps = self.steps(Usage::Cpu);
        let per_second =
            |((start_ns, end_ns), more): &((i64, i64), u64)| *more as f64 / end_ns.abs_diff(*start_ns).max(1) as f64;
        let most = steps.iter().map(per_second).fold(f64::NAN, f64::max);
        let all: u64 = steps.iter().map(|(_, more)| more).sum();
        (!steps.is_empty()).then(|| (all as f64 / end_ns.abs_diff(start_ns).max(1) as f64, most))
    }

    /// Periods in which the CPU quota was used up, and all periods in which the group ran.
    pub fn throttled(&self) -> Option<(u64, u64)> {
        let all = |of| self.steps(of).iter().map(|(_, more)| more).sum::<u64>();
        let periods = all(Usage::Periods);
        (periods > 0).then(|| (all(Usage::Throttled), periods))
    }
}

/// The control groups of the executors of an application.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usages(BTreeMap<String, ExecutorUsage>);

impl Usages {
    /// Adds a sample; of two groups of an executor, the last counts.
    pub fn add(&mut self, row: UsageRow) {
        let of = self.0.entry(row.executor).or_default();
        if of.group != row.group {
            *of = ExecutorUsage { group: row.group, samples: Vec::new() };
        }
        if of.samples.last().is_none_or(|last| last.time_ns < row.sample.time_ns) {
            of.samples.push(row.sample);
        }
    }

    /// The executors, by their identifiers.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ExecutorUsage)> {
        self.0.iter().map(|(executor, of)| (executor.as_str(), of))
    }

    /// That of an executor.
    pub fn get(&self, executor: &str) -> Option<&ExecutorUsage> {
        self.0.get(executor)
    }

    /// Whether nothing was sampled.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether another executor was in the same control group, so that numbers are of both.
    pub fn is_shared(&self, executor: &str) -> bool {
        let group = |of: &ExecutorUsage| of.group.clone();
        let own = self.get(executor).map(group);
        self.iter().any(|(other, of)| other != executor && Some(group(of)) == own)
    }

    /// Of all groups: periods in which the CPU quota was used up, all periods, and how long threads were kept from running, nanoseconds.
    pub fn throttled(&self) -> (u64, u64, u64) {
        let of_group = |(_, of): (&str, &ExecutorUsage)| {
            let (throttled, periods) = of.throttled().unwrap_or_default();
            let ns: u64 = of.steps(Usage::ThrottledTime).iter().map(|(_, more)| more).sum();
            (throttled, periods, ns)
        };
        self.iter().map(of_group).fold((0, 0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1, sum.2 + of.2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(seconds: i64, cpu_ms: u64, throttled_ms: u64) -> UsageRow {
        let mut values = [None; Usage::ALL.len()];
        values[Usage::Cpu as usize] = Some(cpu_ms * 1_000_000);
        values[Usage::ThrottledTime as usize] = Some(throttled_ms * 1_000_000);
        values[Usage::Periods as usize] = Some(10 * seconds as u64);
        values[Usage::Throttled as usize] = Some(4 * seconds as u64);
        let sample = UsageSample { time_ns: seconds * 1_000_000_000, values };
        UsageRow { app: "app-1".into(), executor: "0".into(), group: ("/a,b".into(), 2), sample }
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let mut written = row(1, 200, 3);
        assert_eq!(UsageRow::header().split(',').count(), written.line().split(',').count());
        written.group.0 = "/a_b".into();
        assert_eq!(UsageRow::parse(&written.line()), Ok(written.clone()), "commas in names are replaced");
        let line = written.line().replace("200000000", "much");
        assert_eq!(UsageRow::parse(&line), Err("cpu_ns \"much\" is no whole number".into()));
        assert!(UsageRow::parse("1,2").unwrap_err().contains("2 columns, not 19"));
    }

    #[test]
    fn counters_grow_in_proportion_to_time() {
        let mut usages = Usages::default();
        for (seconds, cpu, throttled) in [(10, 1000, 0), (11, 1500, 100), (12, 2500, 300), (11, 9, 9)] {
            usages.add(row(seconds, cpu, throttled));
        }
        let of = usages.get("0").unwrap();
        let second = 1_000_000_000;
        // Half of 500 ms, and half of a second.
        assert_eq!(of.grown(Usage::Cpu, (second * 21 / 2, second * 23 / 2)), Some(750_000_000.0));
        assert_eq!(of.grown(Usage::ThrottledTime, (0, i64::MAX)), Some(300_000_000.0));
        assert_eq!((of.grown(Usage::Read, (0, i64::MAX)), of.grown(Usage::Cpu, (0, 1))), (None, None));
        assert_eq!(of.cores(), Some((0.75, 1.0)));
        assert_eq!((of.throttled(), usages.throttled()), (Some((8, 20)), (8, 20, 300_000_000)));
        assert!(!usages.is_shared("0"));
        usages.add(UsageRow { executor: "1".into(), ..row(10, 0, 0) });
        assert!(usages.is_shared("0"));
    }
}
