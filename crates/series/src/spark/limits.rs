//! Limits on an application, for `--fail-if`.

use super::active::{Load, idle_in_tails};
use super::tasks::SparkTasks;
use latscope_event::{Field, format_count, format_duration, format_size, parse_duration, parse_size};

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
pub struct SparkMeasures([f64; NAMES.len()]);

impl SparkMeasures {
    /// Of an application. `gc`, `cpu`, `fetch_wait`, `shuffle_write` and `remainder` are shares of run time, `scheduler_delay` and
    /// `deserialize` of task time, `idle`, `tail` and `utilisation` of the time of all cores.
    pub fn new(tasks: &SparkTasks) -> SparkMeasures {
        let (total, active, stragglers) = (tasks.total(), tasks.active(), tasks.stragglers());
        let load = Load::between(&active, (i64::MIN, i64::MAX));
        let tails = idle_in_tails(&tasks.tails(&active), &active);
        let of_run = |part: Field| total.get(part) as f64 / total.get(Field::RunTime).max(1) as f64;
        let of_tasks = |part: Field| total.get(part) as f64 / total.task_ns.max(1) as f64;
        let of_cores = |ns: f64| if load.core_ns > 0 { ns / load.core_ns as f64 } else { f64::NAN };
        let count = |count: usize| count as f64;
        let values = NAMES.map(|(name, _)| match name {
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
        SparkMeasures(values)
    }

    /// All of them by name; none of what is not known.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Option<f64>)> {
        NAMES.iter().zip(self.0).map(|((name, _), value)| (*name, Some(value).filter(|value| !value.is_nan())))
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

    /// Why nobody knows whether the application breaks the limit, in words; none where it is known.
    pub fn unknown(&self, measures: &SparkMeasures) -> Option<String> {
        measures.0[self.at].is_nan().then(|| {
            let name = NAMES[self.at].0;
            format!("{name} is not known, as cores are not: the log lacks executors, or a filter chose tasks")
        })
    }

    /// How the application breaks the limit, in words; none where it does not, or where that is not known.
    pub fn broken(&self, measures: &SparkMeasures) -> Option<String> {
        let value = measures.0[self.at];
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
        let mut measures = SparkMeasures([0.0; NAMES.len()]);
        measures.0[0] = 0.25;
        assert_eq!(parse("gc > 10%").broken(&measures).unwrap(), "gc is 25.0%, which is > 10.0%");
        assert_eq!((parse("gc > 25%").broken(&measures), parse("failed > 0").broken(&measures)), (None, None));
        measures.0[19] = 127_040_000_000.0;
        assert_eq!(parse("run > 127s").broken(&measures).unwrap(), "run is 127.04s, which is > 127s");
        assert!(parse("gc >= 25%").broken(&measures).is_some() && parse("failed <= 0").broken(&measures).is_some());
        measures.0[7] = f64::NAN;
        let idle = parse("idle > 5%");
        assert!(idle.broken(&measures).is_none() && idle.unknown(&measures).unwrap().starts_with("idle is not known"));
        assert_eq!(parse("gc > 10%").unknown(&measures), None);
    }
}
