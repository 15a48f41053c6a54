//! The marks behind and before numbers, and the lines that explain those that were printed.

use crate::{Line, cell};

/// Which marks were printed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    /// `?`
    pub few: bool,
    /// `>=`
    pub raised: bool,
    /// `+`
    pub open: bool,
    /// `*`
    pub partial: bool,
}

impl Marks {
    /// Notes the marks that stand in a line.
    pub fn look_at(&mut self, line: &Line) {
        let text = line.text();
        self.few |= text.contains('?');
        self.raised |= text.contains(">=");
    }

    /// A line for each mark that was printed.
    pub fn key(self, columns: usize) -> Vec<Line> {
        let keys = [
            (self.few, "? fewer than ten events beyond this percentile"),
            (self.raised, ">= a lower bound: waiting requests raised it, and may raise it further"),
            (self.open, "+ the trace may lack events that were in flight at its end"),
            (self.partial, "* the trace covers this interval in part; the rate is that of the covered part"),
        ];
        keys.into_iter().filter(|(is_printed, _)| *is_printed).flat_map(|(_, key)| cell::wrap(key, columns)).collect()
    }
}
