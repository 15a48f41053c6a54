//! What is in flight now: its list, and what the map and the first line say of it.

use super::app::App;
use latscope_event::{Context, Unfinished, Wait, format_duration};
use latscope_pipeline::{Pass, describe};
use latscope_view_term::Line;
use std::cmp::Reverse;

impl App {
    /// What waits for storage and passes the filter, the oldest first.
    fn in_flight(&self) -> Vec<Unfinished> {
        let mut pass = Pass::new(&self.reading);
        // A filter that cannot be resolved was refused when it was typed.
        let Ok((batch, mask)) = pass.batch(&self.context, &self.waiting) else { return Vec::new() };
        let is_stall = |row: &usize| Wait::of_row(batch, *row) == Wait::Counts;
        let rows = (0..batch.len()).filter(|&row| mask.is_none_or(|mask| mask.get(row))).filter(is_stall);
        let unfinished = |row| Unfinished::from_row(describe(batch, row), Wait::Counts, batch, row);
        let mut found: Vec<Unfinished> = rows.map(unfinished).collect();
        found.sort_by_key(|unfinished| Reverse(unfinished.at_least_ns));
        found
    }

    /// Puts what passes the filter in place of what the capture found.
    pub fn settle_waiting(&mut self) {
        let mut found = self.in_flight();
        found.truncate(Context::UNFINISHED_KEPT);
        self.context.unfinished = found;
    }

    /// The list of what is in flight, a line each.
    pub fn waiting_lines(&self, columns: usize) -> Vec<Line> {
        let mut lines = if self.watch.is_none() {
            vec![Line::new("In flight when the trace ended (the oldest):")]
        } else {
            vec![Line::new("In flight now:")]
        };
        let found = if self.watch.is_none() { self.context.unfinished.clone() } else { self.in_flight() };
        for unfinished in found.iter().filter(|unfinished| unfinished.wait != Wait::Sleeps) {
            lines.push(Line::new(&format!("{:>8}  {}", format_duration(unfinished.at_least_ns), unfinished.what)));
        }
        if found.is_empty() {
            lines.push(Line::new("nothing"));
        }
        lines.iter_mut().for_each(|line| {
            line.truncate(columns, true);
        });
        lines
    }
}
