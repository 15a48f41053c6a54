//! Which rows are selected, and which ones they are compared with.

use super::table::Side;
use latscope_event::Mask;

/// The rows of both sides, the selection first.
pub(super) struct Sides {
    pub masks: [Mask; 2],
    /// The selected rows, ascending.
    pub selected: Vec<u32>,
    /// How many rows there are on each side.
    pub all: [u64; 2],
}

impl Sides {
    pub fn new(sides: &[Side]) -> Sides {
        let masks = [Side::Selection, Side::Baseline].map(|side| {
            let mut mask = Mask::filled(sides.len(), true);
            mask.retain(|row| sides[row] == side);
            mask
        });
        let selected: Vec<u32> = masks[0].ones().map(|row| row as u32).collect();
        let all = [selected.len() as u64, masks[1].count() as u64];
        Sides { masks, selected, all }
    }

    /// Whether every row is on one of the sides.
    pub fn is_whole(&self) -> bool {
        self.all[0] + self.all[1] == self.masks[0].len() as u64
    }

    /// The side with fewer rows.
    pub fn smaller(&self) -> usize {
        usize::from(self.all[1] < self.all[0])
    }

    /// What is set for the selected rows, one bit for each of them.
    pub fn of_selected(&self, mask: &Mask) -> Mask {
        let mut selected = Mask::filled(self.selected.len(), true);
        selected.retain(|at| mask.get(self.selected[at] as usize));
        selected
    }
}
