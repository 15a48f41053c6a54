//! Service levels: conditions on a histogram, such as `p95 > 1s or p99 > 5s for 3 intervals`.

use latscope_event::{format_duration_exact, parse_duration, parse_rate};
use latscope_histogram::{Rule, Sparse};

/// A condition on the histograms of one group, interval after interval.
#[derive(Clone, PartialEq, Debug)]
pub struct Threshold {
    /// Any of these, of each all.
    any: Vec<Vec<Bound>>,
    /// So many intervals in a row.
    intervals: u32,
}

#[derive(Clone, PartialEq, Debug)]
struct Bound {
    metric: Metric,
    above: bool,
    or_equal: bool,
    value: f64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Metric {
    /// From 0 to 1.
    Quantile(f64),
    Mean,
    Min,
    Max,
    Count,
    Rate,
}

impl Threshold {
    /// Reads a condition: `p99 > 5ms`, `mean >= 1ms and count > 100`, `p95 > 1s or max > 10s for 3 intervals`. There are
    /// `pN`, `mean`, `min`, `max` (durations), `count` and `rate` (events per second); `and` binds before `or`.
    ///
    /// # Errors
    /// A sentence about the word that does not fit.
    pub fn parse(text: &str) -> Result<Threshold, String> {
        let spaced = ["<=", ">=", "<", ">"].iter().fold(text.to_string(), |text, sign| match sign.len() {
            2 => text.replace(sign, &format!(" {}\u{1} ", &sign[..1])),
            _ => text.replace(sign, &format!(" {sign} ")),
        });
        // The sign of a comparison with "or equal" was kept whole by a mark.
        let spaced = spaced.replace(" \u{1}", "=");
        let mut words = spaced.split_whitespace().peekable();
        let mut any = vec![Vec::new()];
        let mut intervals = 1;
        loop {
            let bound = Bound::parse(&mut words)?;
            if let Some(all) = any.last_mut() {
                all.push(bound);
            }
            match words.next() {
                None => break,
                Some("and") => {}
                Some("or") => any.push(Vec::new()),
                Some("for") => {
                    let count = words.next().and_then(|word| word.parse().ok()).filter(|&count| count > 0);
                    intervals = count.ok_or("\"for\" is followed by a number of intervals, e.g. for 3 intervals")?;
                    match (words.next(), words.next()) {
                        (None | Some("interval" | "intervals"), None) => break,
                        _ => return Err("nothing may follow the number of intervals".into()),
                    }
                }
                Some(word) => return Err(format!("\"{word}\" stands where and, or, for or the end was expected")),
            }
        }
        Ok(Threshold { any, intervals })
    }

    /// How many intervals in a row it takes.
    pub fn intervals(&self) -> u32 {
        self.intervals
    }

    /// Its bounds on values (nanoseconds, or bytes), as they are written, for lines in a picture; those on counts and
    /// rates are left out.
    pub fn levels(&self) -> Vec<(String, u64)> {
        let bounds = self.any.iter().flatten().filter(|bound| !matches!(bound.metric, Metric::Count | Metric::Rate));
        bounds.map(|bound| (bound.to_string(), bound.value as u64)).collect()
    }

    /// Whether one histogram fulfils it, to the letter: the 99th percentile is above a bound when more than one in a hundred
    /// events are, however few there are; otherwise nobody would hear of a stall, in which there are few. Without an event
    /// only the count and the rate are known. `per_event` is what one event counts (see
    /// [`HistogramSeries::per_event`](crate::HistogramSeries::per_event)).
    pub fn holds(&self, histogram: &Sparse, per_event: u64, width_ns: u64) -> bool {
        let count = histogram.totals().count as f64 / per_event.max(1) as f64;
        let value = |metric: Metric| -> Option<f64> {
            let totals = histogram.totals();
            match metric {
                Metric::Count => Some(count),
                Metric::Rate => Some(count * 1e9 / width_ns.max(1) as f64),
                _ if totals.count == 0 => None,
                Metric::Mean => totals.mean(),
                Metric::Min => Some(totals.min as f64),
                Metric::Max => Some(totals.max as f64),
                Metric::Quantile(quantile) => {
                    histogram.quantiles(&[quantile], Rule::Interpolated).map(|values| values[0] as f64)
                }
            }
        };
        self.any.iter().any(|all| all.iter().all(|bound| value(bound.metric).is_some_and(|value| bound.holds(value))))
    }
}

impl Bound {
    fn parse<'a>(words: &mut impl Iterator<Item = &'a str>) -> Result<Bound, String> {
        let name = words.next().ok_or("a condition is missing, such as p99 > 5ms")?;
        let metric = match name {
            "mean" | "avg" => Metric::Mean,
            "min" => Metric::Min,
            "max" => Metric::Max,
            "count" => Metric::Count,
            "rate" => Metric::Rate,
            _ => {
                let percentile = name.strip_prefix('p').and_then(|number| number.parse::<f64>().ok());
                let percentile = percentile.filter(|percentile| (0.0..=100.0).contains(percentile));
                Metric::Quantile(
                    percentile.ok_or_else(|| {
                        format!("\"{name}\" is none of p50 (any percentile), mean, min, max, count and rate")
                    })? / 100.0,
                )
            }
        };
        let (above, or_equal) = match words.next() {
            Some(">") => (true, false),
            Some(">=") => (true, true),
            Some("<") => (false, false),
            Some("<=") => (false, true),
            _ => return Err(format!("{name} is compared by >, >=, < or <=")),
        };
        let word = words.next().ok_or_else(|| format!("{name} is compared with nothing"))?;
        let value = match metric {
            Metric::Count => word.parse::<f64>().map_err(|_| format!("\"{word}\" is not a number"))?,
            Metric::Rate => parse_rate(word).map_err(|error| error.to_string())?,
            // Bare nanoseconds would be a mistake more often than not.
            _ if word.bytes().all(|byte| byte.is_ascii_digit()) => {
                return Err(format!("{word} needs a unit, e.g. {word}ms"));
            }
            _ => parse_duration(word).map_err(|error| error.to_string())? as f64,
        };
        Ok(Bound { metric, above, or_equal, value })
    }

    fn holds(&self, value: f64) -> bool {
        match (self.above, self.or_equal) {
            (true, false) => value > self.value,
            (true, true) => value >= self.value,
            (false, false) => value < self.value,
            (false, true) => value <= self.value,
        }
    }
}

/// As it is written.
impl std::fmt::Display for Threshold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all = |all: &Vec<Bound>| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
        f.write_str(&self.any.iter().map(all).collect::<Vec<_>>().join(" or "))?;
        if self.intervals > 1 { write!(f, " for {} intervals", self.intervals) } else { Ok(()) }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self.metric {
            // To a fixed number of decimals, so that 0.999 is 99.9 again.
            Metric::Quantile(quantile) => format!("p{}", (quantile * 1e9).round() / 1e7),
            Metric::Mean => "mean".into(),
            Metric::Min => "min".into(),
            Metric::Max => "max".into(),
            Metric::Count => "count".into(),
            Metric::Rate => "rate".into(),
        };
        let value = match self.metric {
            Metric::Count | Metric::Rate => self.value.to_string(),
            _ => format_duration_exact(self.value as u64),
        };
        write!(f, "{name} {}{} {value}", if self.above { ">" } else { "<" }, if self.or_equal { "=" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_histogram::{Grid, Histogram};

    fn holds(text: &str, values: &[u64]) -> bool {
        let mut histogram = Histogram::new(Grid::FINE, false);
        values.iter().for_each(|&value| histogram.record(value, 0));
        Threshold::parse(text).unwrap().holds(&histogram.to_sparse(), 1, 1_000_000_000)
    }

    #[test]
    fn conditions_hold_as_they_read() {
        let values: Vec<u64> = (1..=1000).map(|at| at * 1_000_000).collect();
        for (text, expected) in [
            ("p99 > 900ms", true),
            ("p99>1s", false),
            ("p50 >= 480ms and p50 <= 520ms", true),
            ("p99 > 1s or max >= 1s", true),
            ("p99 > 1s or max > 1s", false),
            ("mean < 501ms and min <= 1ms", true),
            ("count >= 1000", true),
            ("rate > 1k", false),
            ("p99.9 > 1s", false),
            // One of a thousand is more than one in ten thousand.
            ("p99.99 > 995ms", true),
        ] {
            assert_eq!(holds(text, &values), expected, "{text}");
        }
        assert!(!holds("mean < 1s", &[]) && !holds("p99 < 1s", &[]) && holds("count < 1", &[]));
        assert!(holds("p99 > 3s", &[3_600_000_000]), "a stall has few events");
    }

    #[test]
    fn conditions_are_written_as_they_are_read() {
        for text in ["p95 > 1s or p99.9 >= 5s for 3 intervals", "mean < 1ms and count > 100"] {
            assert_eq!(Threshold::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Threshold::parse("max>5ms for 1 interval").unwrap().intervals(), 1);
        let level = Threshold::parse("p95 > 1s and rate > 5 or max >= 5s for 3 intervals").unwrap();
        assert_eq!(level.levels(), [("p95 > 1s".into(), 1_000_000_000), ("max >= 5s".into(), 5_000_000_000)]);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("", "a condition is missing"),
            ("p101 > 1s", "\"p101\" is none of"),
            ("p99 = 1s", "compared by"),
            ("p99 > 5", "5 needs a unit"),
            ("p99 >", "compared with nothing"),
            ("p99 > 5ms p50", "\"p50\" stands where"),
            ("p99 > 5ms for x", "number of intervals"),
            ("p99 > 5ms for 3 intervals or", "nothing may follow"),
            ("count > many", "not a number"),
        ] {
            let message = Threshold::parse(text).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
