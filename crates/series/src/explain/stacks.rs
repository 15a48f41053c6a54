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
    /// That of slow requests and of a few of the others, to compare with: the sides without all the rest, and the filter of that.
    Of(Vec<Side>, &'static str),
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
        let Some(at_completion) = source.labels.iter().position(|label| **label == *"completion") else {
            return Stacks::AtRandom;
        };
        let of = |was_looked_at: &dyn Fn(usize) -> bool| -> Option<Vec<Side>> {
            let side = |(row, &side): (usize, &Side)| if was_looked_at(row) { side } else { Side::Neither };
            let sides: Vec<Side> = sides.iter().enumerate().map(side).collect();
            let enough = |wanted: Side| sides.iter().filter(|&&side| side == wanted).take(ENOUGH).count() == ENOUGH;
            (enough(Side::Selection) && enough(Side::Baseline)).then_some(sides)
        };
        // One that was taken at the issue is in no wait, which would tell the sides apart without saying anything of them.
        let completed = of(&|row| source.codes.get(row) == at_completion as u32);
        let completed = completed.map(|sides| Stacks::Of(sides, "stack_source = completion"));
        let any =
            || of(&|row| quality.codes.get(row) != MISSING).map(|sides| Stacks::Of(sides, "stack_quality exists"));
        completed.or_else(any).unwrap_or(Stacks::Few)
    }
}
