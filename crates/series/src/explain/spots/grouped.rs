//! Rows by group: those of a group side by side, in their order.

/// Rows by group.
pub struct Grouped {
    rows: Vec<u32>,
    /// Where the rows of each group end.
    ends: Vec<usize>,
}

impl Grouped {
    /// The rows of so many groups; `group_of` has the group of every row, and a greater number for rows without one.
    pub fn new(groups: usize, group_of: impl Fn(&mut dyn FnMut(usize))) -> Grouped {
        let mut ends = vec![0; groups];
        group_of(&mut |group| ends.iter_mut().skip(group).take(1).for_each(|count| *count += 1));
        let mut sum = 0;
        for end in &mut ends {
            // Until its rows are placed, the start of the group.
            sum += std::mem::replace(end, sum);
        }
        let (mut rows, mut row) = (vec![0; sum], 0);
        group_of(&mut |group| {
            if let Some(end) = ends.get_mut(group) {
                rows[*end] = row;
                *end += 1;
            }
            row += 1;
        });
        Grouped { rows, ends }
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The rows of a group.
    pub fn rows(&self, group: usize) -> impl ExactSizeIterator<Item = usize> + '_ {
        let start = group.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.rows[start..self.ends[group]].iter().map(|&row| row as usize)
    }
}
