//! Events that have a stack because they were slow: with the others, which nobody looked at, they cannot be compared in it.

use super::condition::Attribute;
use super::table::{MISSING, Side, Table};
use latscope_event::Field;

/// What is known of events with a stack only.
pub(super) const OF_STACKS: [Attribute; 5] = [
    Attribute::Field(Field::Stack),
    Attribute::Frame,
    Attribute::Field(Field::StackQuality),
    Attribute::Field(Field::StackSource),
    Attribute::Field(Field::WaitClass),
];
/// So many events of each side make a comparison.
const ENOUGH: usize = 20;

/// Whose stack was looked at.
pub(super) enum Stacks {
    /// Stacks say nothing of latency: all events have one, or none, or a sample.
    AtRandom,
    /// That of slow requests and of a few of the others, to compare with: the sides without all the rest.
    Of(Vec<Side>),
    /// The same, but too few to compare with.
    Few,
}

impl Table {
    /// Looks whether requests have a stack because they were slow: it was taken at their completion.
    pub(super) fn with_stacks(&self, sides: &[Side]) -> Stacks {
        let column = |field| self.columns.iter().find(|column| column.attribute == Attribute::Field(field));
        let (Some(source), Some(quality)) = (column(Field::StackSource), column(Field::StackQuality)) else {
            return Stacks::AtRandom;
        };
        if !source.labels.iter().any(|label| **label == *"completion") {
            return Stacks::AtRandom;
        }
        let was_looked_at = |row: usize| quality.codes.get(row) != MISSING;
        let looked_at: Vec<Side> = sides
            .iter()
            .enumerate()
            .map(|(row, &side)| if was_looked_at(row) { side } else { Side::Neither })
            .collect();
        let enough = |wanted: Side| looked_at.iter().filter(|&&side| side == wanted).take(ENOUGH).count() == ENOUGH;
        match enough(Side::Selection) && enough(Side::Baseline) {
            true => Stacks::Of(looked_at),
            false => Stacks::Few,
        }
    }
}
