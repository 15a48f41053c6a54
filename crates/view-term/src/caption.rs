//! What is written around a picture: its numbers, its origin, its times, and what is missing from it.

use crate::Line;
use crate::cell::wrap;
use latscope_event::{Clock, Context, Wording, format_count, format_duration, format_elapsed, format_wall};

/// What stands beside the intervals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TimeLabels {
    /// Time since the first interval.
    #[default]
    Elapsed,
    /// Local time of day; elapsed when the trace's clock has no known relation to it.
    Wall,
    /// Nothing.
    None,
}

/// Writes moments of one picture, all with the same number of decimals.
#[derive(Clone, Debug)]
pub(crate) struct Moments {
    labels: TimeLabels,
    axis_start_ns: i64,
    to_unix_ns: i64,
    decimals: usize,
    minutes: bool,
}

impl Moments {
    /// For intervals of this width from `axis_start_ns` on, `span_ns` long in all.
    pub(crate) fn new(labels: TimeLabels, clock: &Clock, axis_start_ns: i64, width_ns: u64, span_ns: u64) -> Moments {
        let labels = match (labels, clock.to_unix_ns) {
            (TimeLabels::Wall, None) => TimeLabels::Elapsed,
            (labels, _) => labels,
        };
        let decimals = (0..9).find(|&decimals| width_ns.is_multiple_of(10u64.pow(9 - decimals as u32))).unwrap_or(9);
        let minutes = span_ns >= 60_000_000_000;
        Moments { labels, axis_start_ns, to_unix_ns: clock.to_unix_ns.unwrap_or(0), decimals, minutes }
    }

    /// The moment as the side of the picture shows it.
    pub(crate) fn label(&self, at_ns: i64) -> String {
        match self.labels {
            TimeLabels::None => String::new(),
            TimeLabels::Wall => format_wall(at_ns.saturating_add(self.to_unix_ns), self.decimals, false),
            TimeLabels::Elapsed => {
                let ns = at_ns.saturating_sub(self.axis_start_ns).max(0) as u64;
                let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
                let mut text = match seconds {
                    _ if !self.minutes => format!("{seconds}"),
                    0..3600 => format!("{}:{:02}", seconds / 60, seconds % 60),
                    3600..172_800 => format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60),
                    _ => format_elapsed(seconds * 1_000_000_000, 1_000_000_000),
                };
                if self.decimals > 0 {
                    text += &format!(".{}", &format!("{rest:09}")[..self.decimals]);
                }
                if self.minutes { text } else { text + "s" }
            }
        }
    }
}

/// The lines above a picture: what it is of, how much, and where it comes from.
pub(crate) fn head(what: &str, context: &Context, filter: &str, columns: usize) -> Vec<Line> {
    let mut origin = context.source.clone();
    if let Some(host) = &context.host {
        origin += &format!(", host {host}");
    }
    if !filter.is_empty() {
        origin += &format!(", filter: {filter}");
    }
    [what, &origin].into_iter().filter(|text| !text.is_empty()).flat_map(|text| wrap(text, columns)).collect()
}

/// The lines below: what was lost, repaired or left unfinished.
pub(crate) fn foot(context: &Context, wording: Wording, columns: usize) -> Vec<Line> {
    wording.lines(context).iter().flat_map(|note| wrap(&note.text, columns)).collect()
}

/// `1 event`, `12,345 events`.
pub(crate) fn events(count: u64) -> String {
    format!("{} {}", format_count(count), if count == 1 { "event" } else { "events" })
}

/// Says so when the trace ends within the last interval, which then looks as if less had happened in it.
pub(crate) fn incomplete(context: &Context, start_ns: i64, width_ns: u64) -> Option<String> {
    let covered_ns = context.span_ns?.1.checked_sub(start_ns).and_then(|covered| u64::try_from(covered).ok())?;
    // A hundredth of an interval is not worth a word.
    (covered_ns < width_ns - width_ns / 100).then(|| {
        let (covered, width) = (format_duration(covered_ns), format_duration(width_ns));
        format!("note: the last interval is covered in part, {covered} of {width}")
    })
}

/// `12,345 events in intervals of 100ms from 2026-11-21 10:32:05`.
pub(crate) fn extent(count: u64, width_ns: u64, start_ns: i64, clock: &Clock) -> String {
    let mut text = format!("{} in intervals of {}", events(count), format_duration(width_ns));
    if let Some(to_unix_ns) = clock.to_unix_ns {
        let about = if clock.approximate { "about " } else { "" };
        text += &format!(" from {about}{}", format_wall(start_ns.saturating_add(to_unix_ns), 0, true));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_a_picture_have_the_same_number_of_decimals() {
        let clock = Clock::unanchored("boot");
        let labels = |width_ns, span_ns: u64, at_ns: i64| {
            Moments::new(TimeLabels::Wall, &clock, 1_000, width_ns, span_ns).label(1_000 + at_ns)
        };
        assert_eq!(labels(100_000_000, 5_000_000_000, 1_000_000_000), "1.0s");
        assert_eq!(labels(20_000_000, 90_000_000_000, 61_020_000_000), "1:01.02");
        assert_eq!(labels(1_000_000_000, 7_200_000_000_000, 3_723_000_000_000), "1:02:03");
        assert_eq!(labels(3, 10, 3), "0.000000003s");
    }
}
