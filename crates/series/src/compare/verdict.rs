//! What a comparison says, in sentences.

use super::{CompareOptions, Comparison, Difference, Finding, Measure, Pair};
use crate::Quantity;
use latscope_event::format_count;

/// Steps of latencies are judged from this part of the smallest quantile on.
const COARSE: f64 = 0.01;

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

/// A difference of a quantity with its sign: `+160us`.
pub fn signed(quantity: Quantity, value: f64) -> String {
    let sign = match value.round() {
        0.0 => return "0".into(),
        value if value < 0.0 => "-",
        _ => "+",
    };
    format!("{sign}{}", shown(quantity, value.abs()))
}

impl Comparison {
    /// What a pair comes to, in one sentence for anybody; `names` are those of the sides.
    pub fn verdict(&self, pair: &Pair, names: &[String]) -> String {
        let name = |at: usize| names.get(at).map_or("?", String::as_str);
        let quantity = self.options.quantity;
        let (base, other) = subjects(quantity, name(0), name(pair.other));
        let timed = || pair.differences.iter().filter(|row| row.measure != Measure::Chance);
        let with = |finding: Finding| timed().filter(move |row| row.finding == finding);
        let mut parts: Vec<String> = Vec::new();
        for finding in [Finding::Slower, Finding::Faster] {
            let word = finding.word(quantity);
            let found: Vec<String> = with(finding).map(|row| by(quantity, row)).collect();
            let than = if parts.is_empty() { format!(" than {base}") } else { String::new() };
            if !found.is_empty() {
                parts.push(format!("{word}{than} {}", found.join(", ")));
            }
        }
        let is_judged = timed().any(|row| !matches!(row.finding, Finding::TooFew | Finding::Dependent));
        let mut sentence = match parts.is_empty() {
            true if !is_judged => format!("{other} and {base} have too few {}", self.too_few(pair)),
            true => unlocated(pair, &base, &other, &self.options),
            false => [vec![format!("{other} is {}", parts.join(", but "))], unclaimed(pair)].concat().join("; "),
        };
        let few: Vec<String> = with(Finding::TooFew).map(|row| row.measure.key()).collect();
        if !few.is_empty() && is_judged {
            sentence += &format!("; too few requests for a verdict on {}", few.join(", "));
        }
        let few: Vec<String> = with(Finding::Dependent).map(|row| row.measure.key()).collect();
        if !few.is_empty() && is_judged {
            sentence += &format!("; too few independent requests for a verdict on {}", few.join(", "));
        }
        if let Some((measure, side)) = self.turns_differ(pair) {
            let values = self.sides[side].turns.iter().map(|turn| shown(quantity, turn.value(measure)));
            let (key, values) = (measure.key(), values.collect::<Vec<_>>().join(", "));
            sentence += &format!("; turns of {} differ by more than the sides: {key} {values}", name(side));
        }
        sentence + "."
    }

    /// What a verdict needs more of, how many it takes, and how to get them.
    fn too_few(&self, pair: &Pair) -> String {
        let turns: usize = self.sides.iter().map(|side| side.turns.len()).sum();
        let least = self.sides.len() + super::turns::FREEDOM;
        if self.has_turns() && turns < least {
            return format!("turns for a verdict ({turns} in all, and it takes {least}); measure more of them");
        }
        if pair.differences.iter().any(|row| row.finding == Finding::Dependent) {
            return "independent requests for a verdict".into();
        }
        let counts = [0, pair.other].into_iter().filter_map(|at| self.sides.get(at)).map(|side| side.count);
        match counts.min().filter(|&fewest| fewest < super::EVENTS) {
            None => "requests for a verdict".into(),
            Some(fewest) => format!(
                "requests for a verdict ({}, and it takes {}); measure longer, or compare several runs of each side (--group)",
                format_count(fewest),
                super::EVENTS
            ),
        }
    }

    /// What has to be known about how the numbers were made.
    pub fn notes(&self, names: &[String]) -> Vec<String> {
        let mut notes = Vec::new();
        let quantity = self.options.quantity;
        let what = if quantity == Quantity::Latency { "latencies" } else { "values" };
        let percent = |part: f64| (part * 1e4).round() / 100.0;
        let held = format!(
            "each interval holds in {} of 100 cases; the verdict holds in {} of 100 for all measures together; a \
             difference of at most {} % counts as none",
            percent(self.options.confidence),
            percent(self.options.certainty),
            percent(self.options.equivalence),
        );
        for ((side, &step), name) in self.sides.iter().zip(&self.steps_ns).zip(names) {
            if !self.pairs.is_empty() && step > COARSE * side.quantiles.first().map_or(side.mean, |&first| first) {
                notes.push(format!(
                    "{name}: {what} have steps of {}, so intervals are wider by a step; less than a step is not \
                     a difference",
                    shown(quantity, step)
                ));
            }
        }
        if self.has_turns() && !self.pairs.is_empty() {
            let turns: Vec<String> =
                self.sides.iter().zip(names).map(|(side, name)| format!("{} of {name}", side.turns.len())).collect();
            notes.push(format!(
                "compared by turns ({}): each value is the geometric mean of its turns; {held} (Student's t)",
                turns.join(", ")
            ));
            return notes;
        }
        if !self.pairs.is_empty() {
            notes.push(format!(
                "{held} ({} rounds, seed {})",
                format_count(self.options.rounds.into()),
                self.options.seed
            ));
        }
        for (side, name) in self.sides.iter().zip(names) {
            let count = format_count(side.count);
            match side.independent {
                // Chance makes a few of a hundred resemble each other.
                Some(independent) if independent as f64 > 0.8 * side.count as f64 => {}
                Some(independent) => notes.push(format!(
                    "{name}: requests resemble their neighbours; {count} are worth {} independent ones",
                    format_count(independent)
                )),
                None => notes.push(format!(
                    "{name}: too few independent requests among {count}: they resemble their neighbours for too \
                     long, or drift too much, to separate a difference from chance; measure longer, or compare \
                     several runs per side (--group)"
                )),
            }
        }
        if !self.exact && !self.pairs.is_empty() {
            notes.push("compared by histograms: less than a bucket (1/64) is not a difference".into());
        }
        notes
    }
}

/// The times that do not differ, and those of which nothing is claimed, each as a sentence without an end.
fn unclaimed(pair: &Pair) -> Vec<String> {
    let places = |findings: &[Finding]| -> String {
        let rows =
            pair.differences.iter().filter(|row| row.measure != Measure::Chance && findings.contains(&row.finding));
        rows.map(|row| row.measure.place()).collect::<Vec<_>>().join(", ")
    };
    let words = [
        ("no difference", places(&[Finding::NoDifference])),
        ("undecided", places(&[Finding::Undecided, Finding::Unsure])),
    ];
    words
        .into_iter()
        .filter(|(_, places)| !places.is_empty())
        .map(|(word, places)| format!("{word} {places}"))
        .collect()
}

/// Where no percentile and no mean surely differs: whether requests do on the whole, or how large a difference may still be.
fn unlocated(pair: &Pair, base: &str, other: &str, options: &CompareOptions) -> String {
    let (quantity, equivalence) = (options.quantity, options.equivalence);
    let (more, less) = quantity.comparatives();
    let found = |row: &&Difference| matches!(row.finding, Finding::Slower | Finding::Faster);
    if let Some(row) = pair.differences.iter().find(found) {
        let (word, part) = if row.finding == Finding::Slower { (more, row.other) } else { (less, 1.0 - row.other) };
        let more = format!("{other} is {word} than {base} more often than not, {:.0} of 100 times", 100.0 * part);
        return [vec![more], unclaimed(pair)].concat().join("; ");
    }
    let timed = || pair.differences.iter().filter(|row| row.measure != Measure::Chance);
    let open = timed().find(|row| matches!(row.finding, Finding::Undecided | Finding::Unsure));
    let within = |row: &Difference| {
        let place = row.measure.place();
        row.interval.map_or(String::new(), |(low, high)| {
            format!(" ({place} the difference is between {} and {})", signed(quantity, low), signed(quantity, high))
        })
    };
    match open {
        Some(row) if timed().all(|row| row.finding != Finding::NoDifference) => {
            format!("Undecided whether {other} is {more} or {less} than {base}{}", within(row))
        }
        Some(row) => {
            let known = unclaimed(pair).join("; ");
            format!("{other} against {base}: {known}{}", within(row))
        }
        None => {
            let known = timed().find(|row| row.finding == Finding::NoDifference);
            let percent = (equivalence * 1e4).round() / 100.0;
            format!("{other} and {base} do not differ by more than {percent} %{}", known.map_or(String::new(), within))
        }
    }
}

/// A relative change: `+38 %`, and from ten times on a factor, `186x`. `None` without a base.
pub fn relative(base: f64, other: f64, decimals: usize) -> Option<String> {
    (base > 0.0).then(|| match other / base {
        factor if factor >= 10.0 => format!("{}x", format_count(factor.round() as u64)),
        _ => format!("{:+.decimals$}%", 100.0 * (other - base) / base),
    })
}

fn shown(quantity: Quantity, value: f64) -> String {
    quantity.shown(value.max(0.0).round() as u64)
}

/// What is compared of the base and of the other side, in a sentence: the sides themselves, or their values of a quantity.
pub fn subjects(quantity: Quantity, base: &str, other: &str) -> (String, String) {
    match quantity {
        Quantity::Latency => (base.into(), other.into()),
        quantity => (format!("that of {base}"), format!("{} of {other}", quantity.word())),
    }
}

/// `at the median by 160us [143us, 174us] (+46 %)`.
fn by(quantity: Quantity, row: &Difference) -> String {
    let (low, high) = row.interval.unwrap_or_default();
    let (low, high) = if row.difference() < 0.0 { (-high, -low) } else { (low, high) };
    let part = relative(row.base, row.other, 0).map_or(String::new(), |part| format!(" ({})", part.replace('%', " %")));
    format!(
        "{} by {} [{}, {}]{part}",
        row.measure.place(),
        shown(quantity, row.difference().abs()),
        shown(quantity, low),
        shown(quantity, high)
    )
}
