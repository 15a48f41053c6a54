//! Which group an event belongs to, from the columns that `--by` names.

use hashbrown::HashMap;
use latscope_event::{Batch, Column, Field, MISSING_CODE, MISSING_I64, MISSING_U64};

/// Of more groups than this the heaviest are kept, and all others are counted as one. While events come there may be twice as
/// many: what is light now may be heavy later.
pub const GROUP_LIMIT: usize = 10_000;
/// The name of that one.
const OTHERS: &str = "(others)";

/// Numbers groups in order of appearance.
#[derive(Clone, Default)]
pub struct Groups {
    by: Vec<Field>,
    labels: Vec<Vec<String>>,
    numbers: HashMap<Vec<String>, u32>,
    /// Where each group first appeared: number of the trace, and how many groups there were before.
    firsts: Vec<(u32, u32)>,
    trace: u32,
    /// For one text column: the group of each code of the present trace.
    of_code: Vec<Option<u32>>,
    /// For everything else: the group of each combination of raw values of the present trace.
    of_key: HashMap<Vec<u64>, u32>,
    last: Option<(Vec<u64>, u32)>,
    /// Whether no group may be added any more.
    is_closed: bool,
    /// What groups were dropped for the sake of heavier ones: weights that a group may lack since it was dropped before.
    others: Option<Others>,
}

/// What is known of the groups that are counted as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Others {
    /// The group that they are counted as.
    pub group: u32,
    /// So much of the sum of a group that is shown may be counted there, because the group was light at first; 0 when all that
    /// is shown is exact.
    pub lacking: u128,
}

impl Groups {
    pub fn new(by: Vec<Field>) -> Groups {
        let mut groups = Groups { by, ..Groups::default() };
        if groups.by.is_empty() {
            groups.number(Vec::new());
        }
        groups
    }

    /// Values of each group, by number.
    pub fn into_labels(self) -> Vec<Vec<String>> {
        self.labels
    }

    /// Keeps these and no others.
    pub fn only(&mut self, labels: &[Vec<String>]) {
        for label in labels {
            self.number(label.clone());
        }
        self.is_closed = true;
    }

    /// Whether groups were dropped before all events had come.
    pub fn is_pruned(&self) -> bool {
        self.others.is_some_and(|others| others.lacking > 0)
    }

    /// What is known of the groups that were dropped; their number is that of now.
    pub fn others(&self) -> Option<Others> {
        let known = self.others.or(self.is_closed.then(Others::default))?;
        let label = vec![OTHERS.to_string(); self.by.len()];
        let group = self.labels.iter().position(|known| *known == label)?;
        Some(Others { group: group as u32, ..known })
    }

    /// Whether more are there than are shown.
    pub fn are_too_many(&self) -> bool {
        self.labels.len() > GROUP_LIMIT + 1 && !self.is_closed
    }

    /// Drops all but the heaviest; returns the numbers by the old ones. Where more events come, what was dropped may come back.
    pub fn prune(&mut self, weights: &[u128], more_come: bool) -> Vec<u32> {
        let others = vec![OTHERS.to_string(); self.by.len()];
        let mut order: Vec<usize> = (0..self.labels.len()).filter(|&number| self.labels[number] != others).collect();
        order.sort_by_key(|&number| (std::cmp::Reverse(weights[number]), self.firsts[number]));
        let dropped = order.split_off(GROUP_LIMIT.min(order.len()));
        let heaviest = dropped.iter().map(|&number| weights[number].max(1)).max().filter(|_| more_come).unwrap_or(0);
        order.sort_unstable();
        let mut numbers = vec![order.len() as u32; self.labels.len()];
        order.iter().enumerate().for_each(|(new, &old)| numbers[old] = new as u32);
        let firsts: Vec<_> = order.iter().map(|&old| self.firsts[old]).collect();
        let labels: Vec<_> = order.iter().map(|&old| std::mem::take(&mut self.labels[old])).collect();
        let first_of_others = (u32::MAX, u32::MAX);
        self.firsts = firsts.into_iter().chain([first_of_others]).collect();
        self.labels = labels.into_iter().chain([others]).collect();
        self.numbers = self.labels.iter().cloned().zip(0..).collect();
        let lacking = self.others.unwrap_or_default().lacking.saturating_add(heaviest);
        self.others = Some(Others { group: 0, lacking });
        self.of_code.clear();
        self.of_key.clear();
        self.last = None;
        numbers
    }

    pub fn fields(&self) -> &[Field] {
        &self.by
    }

    pub fn labels(&self) -> &[Vec<String>] {
        &self.labels
    }

    /// A new trace has new dictionaries, so codes mean other texts.
    pub fn start_trace(&mut self, number: Option<u32>) {
        self.trace = number.unwrap_or(self.trace + 1);
        self.of_code.clear();
        self.of_key.clear();
        self.last = None;
    }

    /// Takes over the groups of another builder; returns their numbers here, by their numbers there.
    pub fn merge(&mut self, other: Groups) -> Vec<u32> {
        let merged = other.labels.into_iter().zip(other.firsts).map(|(label, first)| {
            let known = self.labels.len();
            let number = self.number(label);
            let mine = &mut self.firsts[number as usize];
            *mine = if (number as usize) < known { first.min(*mine) } else { first };
            number
        });
        merged.collect()
    }

    /// Brings groups into the order in which they first appeared; returns their new numbers by the old ones, or none when
    /// they were in it. No more may be added then.
    pub fn sort(&mut self) -> Option<Vec<u32>> {
        if self.firsts.is_sorted() {
            return None;
        }
        let mut order: Vec<usize> = (0..self.labels.len()).collect();
        order.sort_by_key(|&number| self.firsts[number]);
        self.labels = order.iter().map(|&number| std::mem::take(&mut self.labels[number])).collect();
        let mut numbers = vec![0; order.len()];
        order.into_iter().enumerate().for_each(|(new, old)| numbers[old] = new as u32);
        Some(numbers)
    }

    /// The group of these values.
    pub fn labelled(&mut self, labels: &[String]) -> u32 {
        match self.numbers.get(labels) {
            Some(&number) => number,
            None => self.number(labels.to_vec()),
        }
    }

    fn number(&mut self, label: Vec<String>) -> u32 {
        if let Some(&number) = self.numbers.get(&label) {
            return number;
        }
        let label = if self.is_closed { vec![OTHERS.into(); self.by.len()] } else { label };
        if let Some(&number) = self.numbers.get(&label) {
            return number;
        }
        let number = self.labels.len() as u32;
        self.firsts.push((self.trace, number));
        self.labels.push(label.clone());
        self.numbers.insert(label, number);
        number
    }

    /// The group of a row.
    #[inline]
    pub fn number_of(&mut self, batch: &Batch, row: usize) -> u32 {
        match self.by[..] {
            [] => 0,
            [field] if let Some(codes) = batch.codes(field) => {
                let code = codes[row];
                match self.of_code.get(code.wrapping_add(1) as usize) {
                    Some(&Some(number)) => number,
                    _ => self.of_new_code(batch, field, code),
                }
            }
            _ => self.of_values(batch, row),
        }
    }

    fn of_new_code(&mut self, batch: &Batch, field: Field, code: u32) -> u32 {
        let text = batch.dictionary(field).text(code).unwrap_or(super::HistogramSeries::NO_VALUE);
        let number = self.number(vec![text.into()]);
        let slot = code.wrapping_add(1) as usize;
        if self.of_code.len() <= slot {
            self.of_code.resize(slot + 1, None);
        }
        self.of_code[slot] = Some(number);
        number
    }

    fn of_values(&mut self, batch: &Batch, row: usize) -> u32 {
        let key = |field: Field| match batch.column(field) {
            Some(Column::I64(values)) => values[row] as u64,
            Some(Column::U64(values)) => values[row],
            Some(Column::Text(codes)) => u64::from(codes[row]),
            None => u64::MAX,
        };
        if let Some((last, number)) = &self.last
            && self.by.iter().zip(last).all(|(&field, &value)| key(field) == value)
        {
            return *number;
        }
        let key: Vec<u64> = self.by.iter().map(|&field| key(field)).collect();
        let number = match self.of_key.get(&key) {
            Some(&number) => number,
            None => {
                let label = self.by.iter().map(|&field| label(batch, field, row)).collect();
                let number = self.number(label);
                if self.of_key.len() >= 16 * GROUP_LIMIT {
                    self.of_key.clear();
                }
                self.of_key.insert(key.clone(), number);
                number
            }
        };
        self.last = Some((key, number));
        number
    }
}

/// A row's value of a field, as groups are named.
pub(crate) fn label(batch: &Batch, field: Field, row: usize) -> String {
    let text = match batch.column(field) {
        Some(Column::I64(values)) if values[row] != MISSING_I64 => Some(values[row].to_string()),
        Some(Column::U64(values)) if values[row] != MISSING_U64 => Some(values[row].to_string()),
        Some(Column::Text(codes)) if codes[row] != MISSING_CODE => batch.text(field, row).map(str::to_string),
        _ => None,
    };
    text.unwrap_or_else(|| super::HistogramSeries::NO_VALUE.into())
}
