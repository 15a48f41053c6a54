//! The grammar of conditions: `and` binds before `or`, parentheses before both; `for N intervals` stands at the end.

use super::{Bound, Condition, Metric, Threshold};
use latscope_event::{parse_duration, parse_rate};

/// Parentheses inside of each other, at most.
const DEPTH: usize = 64;

impl Threshold {
    /// Reads a condition: `p99 > 5ms`, `mean >= 1ms and count > 100`, `(p95 > 1s or max > 10s) and count > 5 for 3
    /// intervals`. There are `pN`, `mean`, `min`, `max` (durations), `count`, `rate` (events per second), and of what waits at
    /// the end of an interval `oldest` (its age), `waiting` and `waiting(5s)` (how many, how many that are older).
    ///
    /// # Errors
    /// A sentence about the word that does not fit.
    pub fn parse(text: &str) -> Result<Threshold, String> {
        let mut words = Words { words: words(text), next: 0, depth: 0 };
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
            Metric::Count | Metric::Waiting(_) => {
                let number = word.parse::<f64>().ok().filter(|number| number.is_finite());
                number.ok_or_else(|| format!("\"{word}\" is not a number"))?
            }
            Metric::Rate => parse_rate(word).map_err(|error| error.to_string())?,
            _ => duration(word)? as f64,
        };
        Ok(Bound { metric, above, or_equal, value })
    }

    fn metric(&mut self) -> Result<Metric, String> {
        Ok(match self.take().ok_or("a condition is missing, such as p99 > 5ms")? {
            "mean" | "avg" => Metric::Mean,
            "min" => Metric::Min,
            "max" => Metric::Max,
            "count" => Metric::Count,
            "rate" => Metric::Rate,
            "oldest" => Metric::Oldest,
            "waiting" if self.skip("(") => {
                let age_ns = duration(self.take().ok_or("waiting( needs an age, e.g. waiting(5s)")?)?;
                if !self.skip(")") {
                    return Err("a \")\" is missing after the age, e.g. waiting(5s)".into());
                }
                Metric::Waiting(Some(age_ns))
            }
            "waiting" => Metric::Waiting(None),
            name => {
                let percentile = name.strip_prefix('p').and_then(|number| number.parse::<f64>().ok());
                let percentile = percentile.filter(|percentile| (0.0..=100.0).contains(percentile));
                let metrics = "p50 (or any percentile), mean, min, max, count, rate, oldest or waiting";
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
