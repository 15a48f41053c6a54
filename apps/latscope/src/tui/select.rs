//! A spot of the map as numbers, as words and as a filter.

use latscope_event::{
    Clock, Field, FieldType, TimeLiteral, format_count, format_duration, format_duration_exact, format_rate,
    format_size, format_size_exact, format_wall,
};
use latscope_filter::Filter;
use latscope_series::{HistogramSeries, Quantity, Weight};
use latscope_view_term::{Spot, readout};

/// The smallest spot that holds both; it stays in the strip of the first.
pub fn union(a: Spot, b: Spot) -> Spot {
    Spot {
        from_ns: a.from_ns.min(b.from_ns),
        to_ns: a.to_ns.max(b.to_ns),
        low: a.low.min(b.low),
        high: a.high.max(b.high),
        group: a.group,
    }
}

/// A time, a value and a place, to write spots of a series with.
pub struct Words<'a> {
    pub series: &'a HistogramSeries,
    pub clock: &'a Clock,
    /// From when elapsed time counts.
    pub axis_start_ns: i64,
    pub wall: bool,
}

impl Words<'_> {
    /// A moment, as exact as intervals are.
    pub fn moment(&self, ns: i64) -> String {
        let step = self.series.width_ns();
        let decimals = (0..9).find(|&digits| step.is_multiple_of(10u64.pow(9 - digits))).unwrap_or(9);
        self.with_decimals(ns, decimals as usize)
    }

    /// A moment to the microsecond.
    pub fn moment_exact(&self, ns: i64) -> String {
        self.with_decimals(ns, 6)
    }

    fn with_decimals(&self, ns: i64, decimals: usize) -> String {
        match self.clock.to_unix_ns.filter(|_| self.wall) {
            Some(to_unix) => format_wall(ns.saturating_add(to_unix), decimals, false),
            None => format!("{:.decimals$}s", ns.saturating_sub(self.axis_start_ns) as f64 / 1e9),
        }
    }

    /// A value on the axis.
    pub fn value(&self, value: u64) -> String {
        if self.series.quantity.is_bytes() { format_size(value) } else { format_duration(value) }
    }

    /// `12.5s to 13s, 64us to 71us`, with the strip in front.
    pub fn place(&self, spot: &Spot) -> String {
        let strip = spot.group.map_or(String::new(), |group| format!("{}, ", self.series.group_name(group)));
        let values = match (spot.low, spot.high) {
            (0, u64::MAX) => String::new(),
            (low, u64::MAX) => format!(", from {}", self.value(low)),
            (low, high) => format!(", {} to {}", self.value(low), self.value(high.saturating_add(1))),
        };
        format!("{strip}{} to {}{values}", self.moment(spot.from_ns), self.moment(spot.to_ns))
    }

    /// How much is in a spot: `1,234 events, 2.4k/s, 12% of that time`.
    pub fn sum(&self, spot: &Spot) -> String {
        let sum = readout(self.series, spot);
        let seconds = (spot.to_ns.saturating_sub(spot.from_ns)).max(1) as f64 / 1e9;
        let mut text = format!("{} {}", format_count(sum.count), if sum.count == 1 { "event" } else { "events" });
        if sum.count > 0 {
            text += &format!(", {}", format_rate(sum.count as f64 / seconds));
            if self.series.weight == Weight::Bytes && sum.weight > 0 {
                text += &format!(", {}/s", format_size((sum.weight as f64 / seconds) as u64));
            }
            text += &format!(", {}% of that time", percent(sum.count, sum.beside));
        }
        text
    }
}

/// A share with two significant digits, never 0 for what is there.
pub fn percent(part: u64, whole: u64) -> String {
    let share = 100.0 * part as f64 / whole.max(1) as f64;
    match share {
        _ if part == whole => "100".into(),
        0.0..0.01 => "<0.01".into(),
        0.01..1.0 => format!("{share:.2}"),
        1.0..10.0 => format!("{share:.1}"),
        _ => format!("{share:.0}"),
    }
}

/// The filter that selects exactly the events of a spot. A group that stands for several has no filter of its own; the
/// spot is then of all groups.
pub fn filter(series: &HistogramSeries, spot: &Spot, clock: &Clock) -> String {
    let moment = |ns: i64| match clock.to_unix_ns {
        Some(to_unix) => TimeLiteral::Unix(ns.saturating_add(to_unix)).to_string(),
        None => ns.to_string(),
    };
    let mut terms = vec![format!("evt.time >= {}", moment(spot.from_ns)), format!("evt.time < {}", moment(spot.to_ns))];
    let name = match series.quantity {
        Quantity::Latency => "lat",
        Quantity::Field(field) => field.name(),
        other => other.word(),
    };
    let value = |value: u64| match series.quantity.is_bytes() {
        true => format_size_exact(value),
        false => format_duration_exact(value),
    };
    if spot.low > 0 {
        terms.push(format!("{name} >= {}", value(spot.low)));
    }
    if let Some(end) = spot.high.checked_add(1) {
        terms.push(format!("{name} < {}", value(end)));
    }
    if spot.low == 0 && spot.high == u64::MAX && series.quantity != Quantity::Latency {
        terms.push(format!("{name} exists"));
    }
    terms.extend(group_filter(series, spot));
    terms.join(" and ")
}

/// The filter of the strip alone; `None` where there is one strip of all.
pub fn group_filter(series: &HistogramSeries, spot: &Spot) -> Option<String> {
    let values = series.groups().get(spot.group? as usize).filter(|values| !values.is_empty())?;
    let terms: Vec<String> = series.by.iter().zip(values).map(|(&field, text)| group_term(field, text)).collect();
    Some(terms.join(" and "))
}

fn group_term(field: Field, text: &str) -> String {
    // The number of a device has a filter field of its own; `dev` there is either.
    let name = if field == Field::Dev { "disk.dev" } else { field.name() };
    match text {
        HistogramSeries::NO_VALUE => format!("not {name} exists"),
        _ if field.field_type() == FieldType::Text => format!("{name} = {}", quoted(text)),
        _ => format!("{name} = {text}"),
    }
}

/// A text as the filter language writes it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\u{1}'..'\u{20}' | '\u{7f}' => quoted += &format!("\\x{:02x}", letter as u32),
            _ => quoted.push(letter),
        }
    }
    quoted + "\""
}

/// Two filters as one; the first may be nothing.
pub fn both(words: &str, selection: &str) -> String {
    if words.trim().is_empty() { selection.into() } else { format!("({words}) and {selection}") }
}

/// Parses what was written above. It always parses; if not, that is reported rather than something else selected.
pub fn parsed(text: &str) -> Result<Filter, String> {
    Filter::parse(text).map_err(|error| format!("{error} ({text})"))
}

#[cfg(test)]
#[path = "select_tests.rs"]
mod tests;
