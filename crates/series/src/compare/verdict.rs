//! What a comparison says: a sentence, and limits that it exceeds.

use super::{Comparison, Difference, Finding, Measure, Pair};
use latscope_event::{format_count, format_duration, parse_duration};

impl Measure {
    /// `p99`, `mean`, `chance`: the key in tables.
    pub fn key(self) -> String {
        match self {
            Measure::Quantile(quantile) => format!("p{}", (quantile * 1e9).round() / 1e7),
            Measure::Mean => "mean".into(),
            Measure::Chance => "chance".into(),
        }
    }

    fn place(self) -> String {
        match self {
            Measure::Quantile(0.5) => "at the median".into(),
            Measure::Mean => "on the average".into(),
            _ => format!("at {}", self.key()),
        }
    }
}

/// A difference of nanoseconds with its sign: `+160us`.
pub fn signed(ns: f64) -> String {
    let sign = match ns.round() {
        0.0 => return "0".into(),
        ns if ns < 0.0 => "-",
        _ => "+",
    };
    format!("{sign}{}", format_duration(ns.abs().round() as u64))
}

impl Comparison {
    /// What a pair comes to, in one sentence for anybody; `names` are those of the sides.
    pub fn verdict(&self, pair: &Pair, names: &[String]) -> String {
        let name = |at: usize| names.get(at).map_or("?", String::as_str);
        let (base, other) = (name(0), name(pair.other));
        let timed = || pair.differences.iter().filter(|row| row.measure != Measure::Chance);
        let with = |finding: Finding| timed().filter(move |row| row.finding == finding);
        let mut parts: Vec<String> = Vec::new();
        for (finding, word) in [(Finding::Slower, "slower"), (Finding::Faster, "faster")] {
            let found: Vec<String> = with(finding).map(by).collect();
            let than = if parts.is_empty() { format!(" than {base}") } else { String::new() };
            if !found.is_empty() {
                parts.push(format!("{word}{than} {}", found.join(", ")));
            }
        }
        let none = timed().filter(|row| matches!(row.finding, Finding::NoDifference | Finding::Unsure));
        let none: Vec<String> = none.map(|row| row.measure.place()).collect();
        let unsure = with(Finding::Unsure).next().is_some();
        let no = if unsure { "no sure difference" } else { "no difference" };
        let mut sentence = match (parts.is_empty(), none.is_empty()) {
            (true, true) => format!("{other} and {base} have too few {} to be told apart", self.counted(pair)),
            (true, false) => unlocated(pair, base, other, &format!("{no} {}", none.join(", "))),
            (false, true) => format!("{other} is {}", parts.join(", but ")),
            (false, false) => format!("{other} is {}; {no} {}", parts.join(", but "), none.join(", ")),
        };
        let few: Vec<String> = with(Finding::TooFew).map(|row| row.measure.key()).collect();
        if !few.is_empty() && none.len() + parts.len() > 0 {
            sentence += &format!("; too few requests to tell for {}", few.join(", "));
        }
        if let Some((measure, side)) = self.turns_differ(pair) {
            let values = self.sides[side].turns.iter().map(|turn| nanoseconds(turn.value(measure)));
            let (key, values) = (measure.key(), values.collect::<Vec<_>>().join(", "));
            sentence += &format!("; turns of {} differ by more than the sides: {key} {values}", name(side));
        }
        sentence + "."
    }

    /// Too few of these there are where nothing can be told.
    fn counted(&self, pair: &Pair) -> &'static str {
        let turns = self.sides.iter().map(|side| side.turns.len() - 1).sum::<usize>();
        let enough = |row: &Difference| row.measure != Measure::Chance && row.interval.is_some();
        if self.has_turns() && turns < super::turns::FREEDOM && !pair.differences.iter().any(enough) {
            "turns"
        } else {
            "requests"
        }
    }

    /// What has to be known about how the numbers were made.
    pub fn notes(&self, names: &[String]) -> Vec<String> {
        let mut notes = Vec::new();
        let percent = |part: f64| (part * 1e4).round() / 100.0;
        let held = format!(
            "intervals hold in {} of 100 cases each; what is claimed holds in {} of 100 for everything measured together",
            percent(self.options.confidence),
            percent(self.options.certainty),
        );
        if self.has_turns() {
            let turns: Vec<String> =
                self.sides.iter().zip(names).map(|(side, name)| format!("{} of {name}", side.turns.len())).collect();
            notes.push(format!(
                "compared between turns ({}): a value is the geometric mean of its turns; {held} (Student's t)",
                turns.join(", ")
            ));
            return notes;
        }
        notes.push(format!(
            "{held} (block bootstrap, {} rounds, seed {})",
            format_count(self.options.rounds.into()),
            self.options.seed
        ));
        let unit = if self.exact { "requests" } else { "intervals" };
        for (side, name) in self.sides.iter().zip(names) {
            if side.block > 1 {
                notes
                    .push(format!("{name}: neighbours resemble each other, {} {unit} were drawn together", side.block));
            }
        }
        if !self.exact {
            notes.push("compared by histograms: what differs by less than a bucket (1/64) is no difference".into());
        }
        notes
    }
}

/// Where no percentile and no mean differs: whether requests do on the whole, or how large a difference may still be.
fn unlocated(pair: &Pair, base: &str, other: &str, none: &str) -> String {
    let found = |row: &&Difference| matches!(row.finding, Finding::Slower | Finding::Faster);
    if let Some(row) = pair.differences.iter().find(found) {
        let (word, part) =
            if row.finding == Finding::Slower { ("slower", row.other) } else { ("faster", 1.0 - row.other) };
        return format!("{other} is {word} than {base} more often than not, {:.0} of 100 times; {none}", 100.0 * part);
    }
    let known = pair.differences.iter().find_map(|row| Some((row.measure.place(), row.interval?)));
    let within = known.map_or(String::new(), |(place, (low, high))| {
        format!(" ({place} it is between {} and {})", signed(low), signed(high))
    });
    format!("No difference between {base} and {other} was found{within}")
}

fn nanoseconds(value: f64) -> String {
    format_duration(value.max(0.0).round() as u64)
}

/// `at the median by 160us [143us, 174us] (+46 %)`.
fn by(row: &Difference) -> String {
    let (low, high) = row.interval.unwrap_or_default();
    let (low, high) = if row.difference() < 0.0 { (-high, -low) } else { (low, high) };
    let part = if row.base > 0.0 { format!(" ({:+.0} %)", 100.0 * row.difference() / row.base) } else { String::new() };
    format!(
        "{} by {} [{}, {}]{part}",
        row.measure.place(),
        nanoseconds(row.difference().abs()),
        nanoseconds(low),
        nanoseconds(high)
    )
}

/// How much slower is too slow: `p99 > 10%`, `p50 > 1ms or mean > 5%`.
#[derive(Clone, PartialEq, Debug)]
pub struct Limit(Vec<Bound>);

#[derive(Clone, PartialEq, Debug)]
struct Bound {
    text: String,
    /// `None` is the mean.
    quantile: Option<f64>,
    /// Part of the base, or nanoseconds.
    relative: bool,
    value: f64,
}

impl Limit {
    /// Reads a limit: percentiles or the mean, `>`, a duration or a percentage; several joined by `or`.
    ///
    /// # Errors
    /// A sentence about the part that does not fit.
    pub fn parse(text: &str) -> Result<Limit, String> {
        text.split(" or ").map(Bound::parse).collect::<Result<_, _>>().map(Limit)
    }

    /// The quantiles that it is about.
    pub fn quantiles(&self) -> impl Iterator<Item = f64> + '_ {
        self.0.iter().filter_map(|bound| bound.quantile)
    }

    /// The bounds that a pair exceeds for sure: the whole joint interval lies above.
    pub fn exceeded<'a>(&'a self, pair: &'a Pair) -> impl Iterator<Item = &'a str> + 'a {
        let exceeds = |bound: &&Bound| {
            let measure = bound.quantile.map_or(Measure::Mean, Measure::Quantile);
            let row = pair.differences.iter().find(|row| row.measure == measure);
            row.is_some_and(|row| {
                let least = bound.value * if bound.relative { row.base } else { 1.0 };
                row.finding == Finding::Slower && row.joint.is_some_and(|(low, _)| low > least)
            })
        };
        self.0.iter().filter(exceeds).map(|bound| bound.text.as_str())
    }
}

impl Bound {
    fn parse(text: &str) -> Result<Bound, String> {
        let text = text.trim();
        let (name, value) =
            text.split_once('>').ok_or_else(|| format!("\"{text}\" is no limit such as p99 > 10% or mean > 1ms"))?;
        let (name, value) = (name.trim(), value.trim());
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
                let number = number.trim().parse::<f64>().ok().filter(|number| *number >= 0.0);
                (true, number.ok_or_else(|| format!("\"{value}\" is no percentage"))? / 100.0)
            }
            None if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                return Err(format!("{value} needs a unit, e.g. {value}us or {value}%"));
            }
            None => (false, parse_duration(value).map_err(|error| error.to_string())? as f64),
        };
        Ok(Bound { text: text.into(), quantile, relative, value })
    }
}
