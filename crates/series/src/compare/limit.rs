//! How much slower is too slow.

use super::verdict::signed;
use super::{Difference, Finding, Measure, Pair, Standstill};
use crate::Quantity;
use latscope_event::{format_duration, parse_duration, parse_size};

/// The mean is not decided where more is lost than a percentile as high as this may lose.
const MEAN_LOSS: f64 = 0.98;

/// How much slower is too slow: `p99 > 10%`, `p50 > 1ms or (mean > 5% and p90 > 5%)`; `slower by` or `higher by` may stand for `>`.
#[derive(Clone, PartialEq, Debug)]
pub struct Limit(Rule, Quantity);

/// Whether a pair exceeds a limit. The order is that of `or`, which takes the largest; `and` takes the smallest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Judgement {
    /// The whole interval lies at or below the limit.
    Kept,
    /// The limit lies within the interval, or there is no interval: nobody knows.
    Unknown,
    /// The whole joint interval lies above the limit, or requests that hang exceed it by themselves, or the run ended in a standstill.
    Exceeded,
}

#[derive(Clone, PartialEq, Debug)]
enum Rule {
    Bound(Bound),
    All(Vec<Rule>),
    Any(Vec<Rule>),
}

#[derive(Clone, PartialEq, Debug)]
struct Bound {
    text: String,
    /// `None` is the mean.
    quantile: Option<f64>,
    /// Part of the base, or in the unit of the quantity.
    relative: bool,
    value: f64,
}

impl Limit {
    /// Reads a limit: percentiles or the mean, `>`, a duration (of bytes a size) or a percentage; joined by `and`, `or` and parentheses, of which
    /// `and` binds tighter.
    ///
    /// # Errors
    /// A sentence about the part that does not fit.
    pub fn parse(text: &str, quantity: Quantity) -> Result<Limit, String> {
        let mut words = words(text).into_iter().peekable();
        let rule = any(&mut words, quantity)?;
        match words.next() {
            None => Ok(Limit(rule, quantity)),
            Some(word) => Err(format!("unexpected \"{word}\" in \"{text}\"")),
        }
    }

    /// The quantiles that it is about.
    pub fn quantiles(&self) -> impl Iterator<Item = f64> + '_ {
        self.0.bounds().into_iter().filter_map(|bound| bound.quantile)
    }

    /// Whether a pair exceeds it.
    pub fn judge(&self, pair: &Pair) -> Judgement {
        self.0.judge(pair)
    }

    /// The bounds of which this is reported of a pair.
    pub fn judged<'a>(&'a self, pair: &Pair, judgement: Judgement) -> Vec<&'a str> {
        let bounds = self.0.bounds().into_iter().filter(|bound| bound.judge(pair) == judgement);
        bounds.map(|bound| bound.text.as_str()).collect()
    }

    /// How many requests hang beyond a bound that they exceed by themselves; 0 if there is no such bound.
    pub fn hanging(&self, pair: &Pair) -> usize {
        let each = self.0.bounds().into_iter().map(|bound| bound.row(pair).map_or(0, |row| bound.hanging(pair, row)));
        each.max().unwrap_or(0)
    }

    /// The standstill that exceeds a bound, however few requests wait in it.
    pub fn standstill(&self, pair: &Pair) -> Option<Standstill> {
        let bounds = self.0.bounds().into_iter();
        bounds.filter_map(|bound| bound.row(pair).and_then(|row| bound.standstill(pair, row))).next()
    }

    /// Whether each bound of which nobody can decide is exceeded by its own interval, which several measures together do not confirm.
    pub fn is_likely_exceeded(&self, pair: &Pair) -> bool {
        let mut bounds = self.0.bounds().into_iter().filter(|bound| bound.judge(pair) == Judgement::Unknown);
        bounds.all(|bound| {
            let row = bound.row(pair);
            row.is_some_and(|row| row.interval.is_some_and(|(low, _)| low > bound.least(row)))
        })
    }

    /// The bounds of which nobody can decide, each with the limit and where the difference may lie:
    /// `p50 > 5% (+20us; the difference lies between -81us and +104us)`. Where the interval of the table alone would decide it, that of
    /// all measures together is given, which does not.
    pub fn undecided(&self, pair: &Pair) -> Vec<String> {
        let bounds = self.0.bounds().into_iter().filter(|bound| bound.judge(pair) == Judgement::Unknown);
        let interval = |bound: &Bound| {
            let row = bound.row(pair);
            let Some((row, (low, high))) = row.and_then(|row| row.interval.map(|interval| (row, interval))) else {
                return format!("{} (no interval)", bound.text);
            };
            if row.interval.is_some_and(|(_, high)| high <= bound.least(row)) {
                let (limit, why) = (signed(self.1, bound.least(row)), bound.open(pair, row).unwrap_or_default());
                return format!("{} ({limit}; {why})", bound.text);
            }
            let between = |(low, high)| format!("between {} and {}", signed(self.1, low), signed(self.1, high));
            let (least, all) = (bound.least(row), row.joint.filter(|_| low > bound.least(row)));
            let all = all
                .map_or(String::new(), |joint| format!(", in the joint interval of all measures {}", between(joint)));
            format!("{} ({}; the difference lies {}{all})", bound.text, signed(self.1, least), between((low, high)))
        };
        bounds.map(interval).collect()
    }
}

type Words = std::iter::Peekable<std::vec::IntoIter<String>>;

/// Bounds as they are written, `and`, `or` and parentheses.
fn words(text: &str) -> Vec<String> {
    let spaced = text.replace('(', " ( ").replace(')', " ) ");
    let mut words: Vec<String> = Vec::new();
    let mut in_bound = false;
    for word in spaced.split_whitespace() {
        let joins = matches!(word, "and" | "or" | "(" | ")");
        match words.last_mut().filter(|_| in_bound && !joins) {
            Some(bound) => *bound += &format!(" {word}"),
            None => words.push(word.into()),
        }
        in_bound = !joins;
    }
    words
}

fn any(words: &mut Words, of: Quantity) -> Result<Rule, String> {
    let mut rules = vec![all(words, of)?];
    while words.next_if(|word| word == "or").is_some() {
        rules.push(all(words, of)?);
    }
    Ok(if rules.len() == 1 { rules.remove(0) } else { Rule::Any(rules) })
}

fn all(words: &mut Words, of: Quantity) -> Result<Rule, String> {
    let mut rules = vec![one(words, of)?];
    while words.next_if(|word| word == "and").is_some() {
        rules.push(one(words, of)?);
    }
    Ok(if rules.len() == 1 { rules.remove(0) } else { Rule::All(rules) })
}

fn one(words: &mut Words, of: Quantity) -> Result<Rule, String> {
    match words.next().unwrap_or_default().as_str() {
        "(" => {
            let rule = any(words, of)?;
            words.next_if(|word| word == ")").map(|_| rule).ok_or_else(|| "a parenthesis is not closed".to_string())
        }
        text => Bound::parse(text, of).map(Rule::Bound),
    }
}

impl Rule {
    fn bounds(&self) -> Vec<&Bound> {
        match self {
            Rule::Bound(bound) => vec![bound],
            Rule::All(rules) | Rule::Any(rules) => rules.iter().flat_map(Rule::bounds).collect(),
        }
    }

    fn judge(&self, pair: &Pair) -> Judgement {
        let each = |rules: &[Rule]| rules.iter().map(|rule| rule.judge(pair)).collect::<Vec<_>>();
        match self {
            Rule::Bound(bound) => bound.judge(pair),
            Rule::All(rules) => each(rules).into_iter().min().unwrap_or(Judgement::Kept),
            Rule::Any(rules) => each(rules).into_iter().max().unwrap_or(Judgement::Kept),
        }
    }
}

impl Bound {
    /// What it is about.
    fn row<'a>(&self, pair: &'a Pair) -> Option<&'a Difference> {
        let measure = self.quantile.map_or(Measure::Mean, Measure::Quantile);
        pair.differences.iter().find(|row| row.measure == measure)
    }

    /// The limit of the difference, in the unit of the quantity.
    fn least(&self, row: &Difference) -> f64 {
        self.value * if self.relative { row.base } else { 1.0 }
    }

    /// How many requests hang beyond the limit, if they exceed it by themselves: they are more than the part of all requests that may lie
    /// above the percentile, or lift the mean above it. They end together, so they are too few for an interval, however many they are; but
    /// each is known to be slower than the limit and than any request of the base. A single one may be chance, unless all stands still.
    fn hanging(&self, pair: &Pair, row: &Difference) -> usize {
        let most = row.base + self.least(row);
        let beyond = || pair.hanging_ns.iter().map(|&age_ns| age_ns as f64).filter(|&age| age > most);
        let (count, requests) = (beyond().count(), pair.requests as f64);
        let exceeds = match self.quantile {
            Some(quantile) => count as f64 > (1.0 - quantile) * requests,
            None => beyond().sum::<f64>() > most * requests,
        };
        if exceeds && (count > 1 || pair.still.is_some_and(|still| still.at_end)) { count } else { 0 }
    }

    /// Why it may be any value, though the interval keeps the limit; none where it may not.
    fn open(&self, pair: &Pair, row: &Difference) -> Option<String> {
        let hanging = pair.hanging_ns.len();
        match () {
            () if pair.is_cut => Some("the recording is cut off, and what waited then may have hung".into()),
            () if pair.is_truncated => Some("an input ends in the middle, lacks a part or is of a job that failed, and what is missing may be slower".into()),
            // Half as many as may lie above it change it by little.
            () if pair.lost > (1.0 - self.quantile.unwrap_or(MEAN_LOSS)) / 2.0 => Some(format!(
                "nobody knows the latencies of {:.2} % of the requests, which were lost",
                100.0 * pair.lost
            )),
            // What hangs counts with its age so far. Few are above a percentile, however long they take.
            () if self.quantile.is_none() && hanging > 0 => {
                let wait = if hanging == 1 { "1 request waits".into() } else { format!("{hanging} requests wait") };
                Some(format!("{wait} still, longer than any of the base took"))
            }
            () => pair.maybe_still.filter(|still| self.is_of(still, row)).map(|still| {
                let [length, run] = [still.for_ns, still.run_ns].map(format_duration);
                format!("it may have stood still for {length} of {run}")
            }),
        }
    }

    /// The standstill of the run, if it lasts for more of the time than the part of requests that may lie above the percentile. Whoever
    /// has one request at a time makes no other while it hangs, so the requests that hang are few, however long it takes.
    fn standstill(&self, pair: &Pair, row: &Difference) -> Option<Standstill> {
        pair.still.filter(|still| self.is_of(still, row))
    }

    /// Whether a standstill lasts for more of the run than the part of requests that may lie above the percentile.
    fn is_of(&self, still: &Standstill, row: &Difference) -> bool {
        let most = row.base + self.least(row);
        still.oldest_ns as f64 > most && self.quantile.is_some_and(|quantile| still.share() > 1.0 - quantile)
    }

    fn judge(&self, pair: &Pair) -> Judgement {
        let Some(row) = self.row(pair) else { return Judgement::Unknown };
        let least = self.least(row);
        if self.hanging(pair, row) > 0 || self.standstill(pair, row).is_some() {
            return Judgement::Exceeded;
        }
        match (row.joint, row.interval) {
            (Some((low, _)), _) if row.finding == Finding::Slower && low > least => Judgement::Exceeded,
            (_, Some((_, high))) if high <= least && self.open(pair, row).is_none() => Judgement::Kept,
            _ => Judgement::Unknown,
        }
    }

    fn parse(text: &str, quantity: Quantity) -> Result<Bound, String> {
        let (bound, unit, kind) = match quantity.is_bytes() {
            true => ("1MiB", "KiB", "size"),
            false => ("1ms", "us", "duration"),
        };
        let text = text.trim();
        let (name, value) = text
            .split_once('>')
            .or_else(|| text.split_once("slower by"))
            .or_else(|| text.split_once("higher by"))
            .ok_or_else(|| format!("\"{text}\" is not a limit such as p99 > 10% or mean > {bound}"))?;
        let (name, value) = (name.trim(), value.trim());
        if value.is_empty() {
            return Err(format!(
                "\"{text}\" has no value; write a percentage or a {kind} behind it, as in p99 > 10% or mean > {bound}"
            ));
        }
        if value.starts_with('=') {
            return Err(format!(
                "\"{text}\" has >=, which limits do not know; use >, as in p99 > 10% or mean > {bound}"
            ));
        }
        let quantile = match name {
            "mean" => None,
            _ => {
                let percentile = name.strip_prefix('p').and_then(|number| number.parse::<f64>().ok());
                let percentile = percentile.filter(|&percentile| percentile > 0.0 && percentile < 100.0);
                Some(
                    percentile.ok_or_else(|| format!("\"{name}\" is neither mean nor a percentile such as p99"))?
                        / 100.0,
                )
            }
        };
        let (relative, value) = match value.strip_suffix('%') {
            Some(number) => {
                let number = number.trim().parse::<f64>().ok();
                let number = number.filter(|number| number.is_finite() && *number >= 0.0);
                (true, number.ok_or_else(|| format!("\"{value}\" is not a percentage such as 10%"))? / 100.0)
            }
            None if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                return Err(format!("{value} needs a unit, e.g. {value}{unit} or {value}%"));
            }
            None if quantity.is_bytes() => (false, parse_size(value).map_err(|error| error.to_string())? as f64),
            None => (false, parse_duration(value).map_err(|error| error.to_string())? as f64),
        };
        Ok(Bound { text: text.into(), quantile, relative, value })
    }
}
