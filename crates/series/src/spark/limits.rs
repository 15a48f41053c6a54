//! Limits on an application, for `--fail-if`.

use super::active::{Load, idle_in_tails};
use super::tasks::SparkTasks;
use latscope_event::{
    Anomaly, Context, Field, Unfinished, format_count, format_duration, format_size, parse_duration, parse_size,
};

/// What a limit can be on, and in which unit.
const NAMES: [(&str, Unit); 20] = [
    ("gc", Unit::Share),
    ("cpu", Unit::Share),
    ("fetch_wait", Unit::Share),
    ("shuffle_write", Unit::Share),
    ("remainder", Unit::Share),
    ("scheduler_delay", Unit::Share),
    ("deserialize", Unit::Share),
    ("idle", Unit::Share),
    ("tail", Unit::Share),
    ("utilisation", Unit::Share),
    ("failed", Unit::Count),
    ("lost", Unit::Count),
    ("stragglers", Unit::Count),
    ("skewed", Unit::Count),
    ("tasks", Unit::Count),
    ("spilled", Unit::Bytes),
    ("disk_spilled", Unit::Bytes),
    ("peak_memory", Unit::Bytes),
    ("elapsed", Unit::Duration),
    ("run", Unit::Duration),
];

/// What is a sum or a share of the metrics of tasks; of a sum, what is not known can only make it more.
const SUMS: [&str; 4] = ["spilled", "disk_spilled", "peak_memory", "run"];
const SHARES: [&str; 8] =
    ["gc", "cpu", "fetch_wait", "shuffle_write", "remainder", "scheduler_delay", "deserialize", "utilisation"];
/// What is judged by metrics, too, of tasks one by one.
const JUDGED: [&str; 2] = ["stragglers", "skewed"];
/// A limit on these is undecided where tasks without metrics took more than this part of task time.
const MOST_UNMEASURED: f64 = 0.05;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    Share,
    Count,
    Bytes,
    Duration,
}

impl Unit {
    fn format(self, value: f64) -> String {
        match self {
            Unit::Share => format!("{:.1}%", 100.0 * value),
            Unit::Count => format_count(value as u64),
            Unit::Bytes => format_size(value as u64),
            Unit::Duration => format_duration(value as u64),
        }
    }

    fn exactly(self, value: f64) -> String {
        match self {
            Unit::Share => format!("{}%", 100.0 * value),
            Unit::Count => value.to_string(),
            Unit::Bytes => format!("{value}B"),
            Unit::Duration => format!("{}s", value / 1e9),
        }
    }
}

/// What an application is held against limits by: shares from 0 to 1, counts, bytes, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SparkMeasures {
    values: [f64; NAMES.len()],
    /// What tasks without metrics took of task time, from 0 to 1; 1 where no task has any.
    unmeasured: f64,
}

impl SparkMeasures {
    /// Of an application. `gc`, `cpu`, `fetch_wait`, `shuffle_write` and `remainder` are shares of run time, `scheduler_delay` and
    /// `deserialize` of task time, `idle`, `tail` and `utilisation` of the time of all cores.
    pub fn new(tasks: &SparkTasks) -> SparkMeasures {
        let (total, active, stragglers) = (tasks.total(), tasks.active(), tasks.stragglers());
        let load = Load::between(&active, (i64::MIN, i64::MAX));
        let tails = idle_in_tails(&tasks.tails(&active), &active);
        let of_run = |part: Field| total.get(part) as f64 / total.get(Field::RunTime).max(1) as f64;
        let of_tasks_ns = |ns: u64| ns as f64 / total.task_ns.max(1) as f64;
        let of_tasks = |part: Field| of_tasks_ns(total.get(part));
        let of_cores = |ns: f64| if load.core_ns > 0 { ns / load.core_ns as f64 } else { f64::NAN };
        let count = |count: usize| count as f64;
        let is_unmeasured = !tasks.has_metrics();
        let values = NAMES.map(|(name, _)| match name {
            name if is_unmeasured && is_of_metrics(name) => f64::NAN,
            "gc" => of_run(Field::GcTime),
            "cpu" => of_run(Field::CpuTime),
            "fetch_wait" => of_run(Field::FetchWait),
            "shuffle_write" => of_run(Field::ShuffleWrite),
            "remainder" => of_run(Field::Remainder),
            "scheduler_delay" => of_tasks(Field::SchedulerDelay),
            "deserialize" => of_tasks(Field::Deserialize),
            "idle" => of_cores(load.idle_ns as f64),
            "tail" => of_cores(tails as f64),
            "utilisation" => of_cores(tasks.held_run_ns() as f64),
            "failed" => {
                total.failed as f64 + count(tasks.failed_in_driver().len() + usize::from(tasks.failed_exit().is_some()))
            }
            "lost" => count(tasks.executors.iter().filter(|executor| executor.is_lost()).count()),
            "stragglers" => count(stragglers.len()),
            "skewed" => count(stragglers.iter().filter(|straggler| straggler.is_skewed()).count()),
            "tasks" => total.tasks as f64,
            "spilled" => total.get(Field::Spilled) as f64,
            "disk_spilled" => total.get(Field::DiskSpilled) as f64,
            "peak_memory" => total.get(Field::PeakMemory) as f64,
            "elapsed" => tasks.extent_ns().map_or(0.0, |(start_ns, end_ns)| end_ns.abs_diff(start_ns) as f64),
            _ => total.get(Field::RunTime) as f64,
        });
        SparkMeasures { values, unmeasured: if is_unmeasured { 1.0 } else { of_tasks_ns(total.unknown_ns) } }
    }

    /// All of them by name; none of what is not known.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Option<f64>)> {
        NAMES.iter().zip(self.values).map(|((name, _), value)| (*name, Some(value).filter(|value| !value.is_nan())))
    }
}

/// A condition such as `gc > 10%`, `spilled > 1GiB`, `failed > 0` or `elapsed >= 10min`.
#[derive(Clone, Debug, PartialEq)]
pub struct SparkLimit {
    at: usize,
    above: bool,
    or_equal: bool,
    value: f64,
}

impl SparkLimit {
    /// The condition of a text; the error is a sentence without its full stop.
    pub fn parse(text: &str) -> Result<SparkLimit, String> {
        let names = || NAMES.map(|(name, _)| name).join(", ");
        let at = text.find(['<', '>']).ok_or_else(|| format!("'{text}' is no condition such as gc > 10%"))?;
        let (name, rest) = (text[..at].trim(), &text[at + 1..]);
        let (or_equal, value) = rest.strip_prefix('=').map_or((false, rest), |value| (true, value));
        let (above, value) = (text[at..].starts_with('>'), value.trim());
        // Both spellings, and the word that tables have.
        let name = match name {
            "spill" => "spilled",
            "utilization" => "utilisation",
            name => name,
        };
        let at = NAMES.iter().position(|(known, _)| *known == name);
        let at = at.ok_or_else(|| format!("'{name}' is nothing that a limit can be on; these are: {}", names()))?;
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
        let parsed = match (NAMES[at].1, value.strip_suffix('%')) {
            (Unit::Share, Some(percent)) => number(percent).map(|value| value / 100.0).ok_or("a share such as 10%"),
            (Unit::Share, None) => number(value).filter(|value| *value <= 1.0).ok_or("a share such as 10%"),
            (Unit::Count, _) => number(value).filter(|count| count.fract() == 0.0).ok_or("a count such as 0"),
            (Unit::Bytes, _) => parse_size(value).map(|bytes| bytes as f64).map_err(|_| "a size such as 1GiB"),
            (Unit::Duration, _)
                if value.bytes().all(|byte| byte.is_ascii_digit()) && !value.trim_matches('0').is_empty() =>
            {
                Err("a unit, as in 10min")
            }
            (Unit::Duration, _) => parse_duration(value).map(|ns| ns as f64).map_err(|_| "a duration such as 10min"),
        };
        let value = parsed.map_err(|what| format!("{name} needs {what}, not '{value}'"))?;
        Ok(SparkLimit { at, above, or_equal, value })
    }

    /// Why nobody knows whether the application breaks the limit, in words; none where it is known. It is asked of one that is not broken
    /// by what is known.
    pub fn unknown(&self, measures: &SparkMeasures) -> Option<String> {
        let (name, unmeasured) = (NAMES[self.at].0, measures.unmeasured);
        if is_of_metrics(name) && unmeasured >= 1.0 {
            return Some(format!("{name} is not known, as no task has metrics"));
        }
        if measures.values[self.at].is_nan() {
            return Some(format!(
                "{name} is not known, as cores are not: the log lacks executors, or a filter chose tasks"
            ));
        }
        let may_change = SHARES.contains(&name) || self.above && SUMS.contains(&name);
        (may_change && unmeasured > MOST_UNMEASURED).then(|| {
            let share = Unit::Share.format(unmeasured);
            format!(
                "{name} is known of a part of the tasks: those without metrics, as of executors that were lost, took {share} of task time"
            )
        })
    }

    /// How the application breaks the limit, in words; none where it does not, or where that is not known.
    pub fn broken(&self, measures: &SparkMeasures) -> Option<String> {
        let value = measures.values[self.at];
        let holds = match (self.above, self.or_equal) {
            (true, false) => value > self.value,
            (true, true) => value >= self.value,
            (false, false) => value < self.value,
            (false, true) => value <= self.value,
        };
        let (name, unit) = NAMES[self.at];
        let sign = [["<", "<="], [">", ">="]][usize::from(self.above)][usize::from(self.or_equal)];
        let [is, limit] = [value, self.value].map(|value| unit.format(value));
        // What differs by less than views show is said in full.
        let [is, limit] = match is == limit && value != self.value {
            true => [value, self.value].map(|value| unit.exactly(value)),
            false => [is, limit],
        };
        holds.then(|| format!("{name} is {is}, which is {sign} {limit}"))
    }
}

/// Whether a limit on this is judged by the metrics of tasks.
fn is_of_metrics(name: &str) -> bool {
    SUMS.contains(&name) || SHARES.contains(&name) || JUDGED.contains(&name)
}

/// Why tasks may be missing from the log of an application, in words; none where it is whole, and of other traces.
pub fn undecided(context: &Context) -> Option<String> {
    match context.properties.contains_key(Context::SPARK_END) {
        true => Some(
            "the log has no end of the application, which exceeds no limit so far: it still runs, or its driver was killed; \
             read the log again when the application has ended"
                .into(),
        ),
        false if context.source.starts_with(Context::SPARK_LOG) => incomplete(context),
        false => None,
    }
}

/// So many of something: `1 part`, `2 parts`.
fn counted(count: u64, word: &str) -> String {
    format!("{} {word}{}", format_count(count), if count == 1 { "" } else { "s" })
}

/// What the log of an application that has ended lacks, in words.
pub fn incomplete(context: &Context) -> Option<String> {
    let (tally, is) = (&context.tally, |count| if count == 1 { "is" } else { "are" });
    let lost = |one: &&Unfinished| !one.counts() && one.values.contains_key(Field::Task.name());
    let lost = context.unfinished.iter().filter(lost).count() as u64;
    let is_of_driver = context.properties.contains_key(Context::SPARK_SOURCE);
    let found = match () {
        () if tally.get(Anomaly::MissingParts) > 0 => {
            let missing = tally.get(Anomaly::MissingParts);
            match is_of_driver {
                true => format!("the driver has forgotten {} of its jobs and stages", format_count(missing)),
                false => format!("{} of the rolled log {} missing or compacted", counted(missing, "part"), is(missing)),
            }
        }
        () if tally.get(Anomaly::Truncated) > 0 => "the log is cut".into(),
        () if tally.get(Anomaly::UnparsedLines) > 0 => {
            let malformed = tally.get(Anomaly::UnparsedLines);
            format!("{} {} malformed", counted(malformed, "line"), is(malformed))
        }
        () if tally.get(Anomaly::LostTasks) > 0 => {
            let lost = tally.get(Anomaly::LostTasks);
            match is_of_driver {
                true => format!("the driver has forgotten {}", counted(lost, "task")),
                false => format!("{} {} missing, with start and end", counted(lost, "task"), is(lost)),
            }
        }
        () if tally.get(Anomaly::LostRecords) > 0 => {
            let lost = tally.get(Anomaly::LostRecords);
            format!("{} of jobs or SQL executions {} missing", counted(lost, "start"), is(lost))
        }
        // Their tasks may have failed.
        () if tally.get(Anomaly::NegativeLatency) > 0 => {
            let backwards = tally.get(Anomaly::NegativeLatency);
            format!("{} whose end is before the start {} left out", counted(backwards, "event"), is(backwards))
        }
        () if tally.get(Anomaly::SetBack) > 0 => {
            let set_back = tally.get(Anomaly::SetBack);
            format!("the clock was set back during {}, of which only the run time is known", counted(set_back, "task"))
        }
        () if !context.properties.contains_key("spark.app.name") => {
            "the log lacks its beginning, without the start of the application".into()
        }
        () if lost > 0 => format!("{} without an end {} in it", counted(lost, "task"), is(lost)),
        () => return None,
    };
    let whole = if is_of_driver { "its event log has all" } else { "read a whole log" };
    Some(format!("{found}, and what is known exceeds no limit; {whole}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_with_their_units() {
        let parse = |text| SparkLimit::parse(text).unwrap();
        assert_eq!(parse("gc > 10%"), parse("gc>0.1"));
        assert_eq!(
            parse("spill >= 1GiB"),
            SparkLimit { at: 15, above: true, or_equal: true, value: (1u64 << 30) as f64 }
        );
        assert_eq!(parse("elapsed < 2s").value, 2e9);
        for wrong in [
            "gc",
            "gc > ten",
            "gc > 11",
            "nosuch > 1",
            "failed > -1",
            "failed > 0.5",
            "elapsed > 100000",
            "spilled > 5%",
            "elapsed > 5GiB",
        ] {
            assert!(SparkLimit::parse(wrong).is_err(), "{wrong}");
        }
        let mut measures = SparkMeasures { values: [0.0; NAMES.len()], unmeasured: 0.0 };
        measures.values[0] = 0.25;
        assert_eq!(parse("gc > 10%").broken(&measures).unwrap(), "gc is 25.0%, which is > 10.0%");
        assert_eq!((parse("gc > 25%").broken(&measures), parse("failed > 0").broken(&measures)), (None, None));
        measures.values[19] = 127_040_000_000.0;
        assert_eq!(parse("run > 127s").broken(&measures).unwrap(), "run is 127.04s, which is > 127s");
        assert!(parse("gc >= 25%").broken(&measures).is_some() && parse("failed <= 0").broken(&measures).is_some());
        measures.values[7] = f64::NAN;
        let idle = parse("idle > 5%");
        assert!(idle.broken(&measures).is_none() && idle.unknown(&measures).unwrap().starts_with("idle is not known"));
        assert_eq!(parse("gc > 10%").unknown(&measures), None);
    }

    #[test]
    fn what_tasks_without_metrics_may_have_is_not_known() {
        let unknown = |unmeasured: f64, text: &str| {
            SparkLimit::parse(text).unwrap().unknown(&SparkMeasures { values: [0.0; NAMES.len()], unmeasured })
        };
        for limit in ["gc > 10%", "cpu < 1%", "spilled > 1KiB", "peak_memory > 1GiB", "utilisation < 1%", "run > 1h"] {
            assert_eq!(unknown(0.05, limit), None, "{limit}");
            assert!(unknown(0.25, limit).unwrap().contains("took 25.0% of task time"), "{limit}");
            assert!(unknown(1.0, limit).unwrap().ends_with("is not known, as no task has metrics"), "{limit}");
        }
        assert_eq!([unknown(0.25, "stragglers > 0"), unknown(0.25, "spilled < 1KiB")], [None, None]);
        assert!(unknown(1.0, "stragglers > 0").is_some());
        for limit in ["failed > 0", "tasks > 9", "elapsed > 1h", "lost > 0"] {
            assert_eq!(unknown(1.0, limit), None, "{limit}");
        }
    }
}
