//! The grammar of conditions: `and` binds before `or`, parentheses before both; `for N intervals` stands at the end.

use super::{Bound, Condition, Metric, Threshold};
use latscope_event::{parse_duration, parse_rate, parse_size};

/// Parentheses inside of each other, at most.
const DEPTH: usize = 64;

impl Threshold {
    /// Reads a condition: `p99 > 5ms`, `mean >= 1ms and count > 100`, `(p95 > 1s or max > 10s) and count > 5 for 3
    /// intervals`. There are `pN`, `mean`, `min`, `max` (durations), `count`, `rate` (events per second), and of what waits at
    /// the end of an interval `oldest` (its age), `waiting` and `waiting(5s)` (how many, how many that are older), and
    /// `over(10ms)`, the share of the events that are slower.
    ///
    /// # Errors
    /// A sentence about the word that does not fit.
    pub fn parse(text: &str) -> Result<Threshold, String> {
        Threshold::parse_with(text, false)
    }

    /// The same with what only a hub knows: `bytes`, `throughput` (bytes per second), `lost` (events), `hosts`, `missing` (hosts),
    /// `lag` and `offset` (durations).
    ///
    /// # Errors
    /// A sentence about the word that does not fit.
    pub fn parse_of_hub(text: &str) -> Result<Threshold, String> {
        Threshold::parse_with(text, true)
    }

    fn parse_with(text: &str, is_of_hub: bool) -> Result<Threshold, String> {
        let mut words = Words { words: words(text), next: 0, depth: 0, is_of_hub };
        let condition = words.any()?;
        let mut intervals = 1;
        match words.take() {
            None => {}
            Some("for") => {
                let count = words.take().and_then(|word| word.parse().ok()).filter(|&count| count > 0);
                intervals = count.ok_or("\"for\" needs a number of intervals, e.g. for 3 intervals")?;
                match (words.take(), words.take()) {
                    (None | Some("interval" | "intervals"), None) => {}
                    _ => return Err("nothing may follow the number of intervals".into()),
                }
            }
            Some(word) => return Err(format!("expected and, or, for or the end instead of \"{word}\"")),
        }
        Ok(Threshold { condition, intervals })
    }
}

/// Words and signs, which need no blanks around them.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '<' | '>' if rest[1..].starts_with('=') => 2,
            '<' | '>' | '(' | ')' => 1,
            _ => rest.find(|c: char| c.is_whitespace() || "<>()".contains(c)).unwrap_or(rest.len()),
        };
        words.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    words
}

struct Words<'a> {
    words: Vec<&'a str>,
    next: usize,
    depth: usize,
    /// Whether there are metrics of hosts.
    is_of_hub: bool,
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).copied()
    }

    fn take(&mut self) -> Option<&'a str> {
        let word = self.peek();
        self.next += 1;
        word
    }

    fn skip(&mut self, word: &str) -> bool {
        let is_there = self.peek() == Some(word);
        self.next += usize::from(is_there);
        is_there
    }

    fn any(&mut self) -> Result<Condition, String> {
        let mut any = vec![self.all()?];
        while self.skip("or") {
            any.push(self.all()?);
        }
        Ok(if any.len() == 1 { any.remove(0) } else { Condition::Any(any) })
    }

    fn all(&mut self) -> Result<Condition, String> {
        let mut all = vec![self.one()?];
        while self.skip("and") {
            all.push(self.one()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Condition::All(all) })
    }

    fn one(&mut self) -> Result<Condition, String> {
        if !self.skip("(") {
            return self.bound().map(Condition::Bound);
        }
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(format!("more than {DEPTH} parentheses are open"));
        }
        let inner = self.any()?;
        match self.peek() {
            Some(")") => {}
            Some("for") => return Err("\"for\" must follow the last \")\"".into()),
            _ => return Err("a \")\" is missing".into()),
        }
        self.next += 1;
        self.depth -= 1;
        Ok(inner)
    }

    fn bound(&mut self) -> Result<Bound, String> {
        let metric = self.metric()?;
        let (above, or_equal) = match self.take() {
            Some(">") => (true, false),
            Some(">=") => (true, true),
            Some("<") => (false, false),
            Some("<=") => (false, true),
            _ => return Err(format!("{metric} needs a comparison with >, >=, < or <=")),
        };
        let word = self.take().ok_or_else(|| format!("{metric} has nothing to compare with"))?;
        let value = match metric {
            Metric::Over(_) => match share(word)? {
                1.0 if above && !or_equal => {
                    return Err(format!("{metric} > 100% never holds; a share is at most 100%, such as {metric} > 1%"));
                }
                share => share,
            },
            Metric::Count | Metric::Waiting(_) | Metric::Lost | Metric::Hosts | Metric::Missing => {
                let number = word.parse::<f64>().ok().filter(|number| number.is_finite());
                number.ok_or_else(|| format!("\"{word}\" is not a number"))?
            }
            Metric::Bytes => parse_size(word).map_err(|error| error.to_string())? as f64,
            Metric::Throughput => throughput(word)?,
            Metric::Rate => parse_rate(word).map_err(|error| error.to_string())?,
            _ => duration(word)? as f64,
        };
        Ok(Bound { metric, above, or_equal, value })
    }

    /// The duration in parentheses, of which one is open.
    fn argument(&mut self, example: &str) -> Result<u64, String> {
        let word = self.take().filter(|word| *word != ")");
        let value_ns = duration(word.ok_or_else(|| format!("a duration is missing in parentheses, e.g. {example}"))?)?;
        if self.skip(")") {
            Ok(value_ns)
        } else {
            Err(format!("a \")\" is missing after the duration, e.g. {example}"))
        }
    }

    fn metric(&mut self) -> Result<Metric, String> {
        Ok(match self.take().ok_or("a condition is missing, such as p99 > 5ms")? {
            "mean" | "avg" => Metric::Mean,
            "min" => Metric::Min,
            "max" => Metric::Max,
            "count" => Metric::Count,
            "rate" => Metric::Rate,
            "oldest" => Metric::Oldest,
            "waiting" if self.skip("(") => Metric::Waiting(Some(self.argument("waiting(5s)")?)),
            "waiting" => Metric::Waiting(None),
            "over" if self.skip("(") => Metric::Over(self.argument("over(10ms)")?),
            "bytes" if self.is_of_hub => Metric::Bytes,
            "throughput" if self.is_of_hub => Metric::Throughput,
            "lost" if self.is_of_hub => Metric::Lost,
            "hosts" if self.is_of_hub => Metric::Hosts,
            "missing" if self.is_of_hub => Metric::Missing,
            "lag" if self.is_of_hub => Metric::Lag,
            "offset" if self.is_of_hub => Metric::Offset,
            name => {
                let percentile = name.strip_prefix('p').and_then(|number| number.parse::<f64>().ok());
                let percentile = percentile.filter(|percentile| (0.0..=100.0).contains(percentile));
                let metrics = match self.is_of_hub {
                    false => "p50 (or any percentile), mean, min, max, count, rate, over(10ms), oldest or waiting",
                    true => {
                        "p50 (or any percentile), mean, min, max, count, rate, over(10ms), oldest, waiting, bytes, \
                             throughput, lost, hosts, missing, lag or offset"
                    }
                };
                Metric::Quantile(
                    percentile.ok_or_else(|| format!("\"{name}\" is not a metric; use {metrics}"))? / 100.0,
                )
            }
        })
    }
}

/// A duration with its unit: bare nanoseconds would be a mistake more often than not.
fn duration(word: &str) -> Result<u64, String> {
    if word.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{word} needs a unit, e.g. {word}ms"));
    }
    parse_duration(word).map_err(|error| error.to_string())
}

/// Bytes per second: `10MiB/s`.
fn throughput(word: &str) -> Result<f64, String> {
    let size = word.strip_suffix("/s").and_then(|size| parse_size(size).ok());
    size.map(|bytes| bytes as f64).ok_or_else(|| format!("\"{word}\" is not a size per second, such as 10MiB/s"))
}

/// A share of the events: `1%`, or from 0 to 1.
fn share(word: &str) -> Result<f64, String> {
    let (number, unit) = word.strip_suffix('%').map_or((word, 1.0), |number| (number, 100.0));
    let share = number.parse::<f64>().ok().map(|number| number / unit);
    share.filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| format!("\"{word}\" is not a share, such as 1%"))
}
