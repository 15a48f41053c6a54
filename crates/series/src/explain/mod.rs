//! What some events have in common that the others have not.
//!
//! Every attribute of a [`Table`] is tested: how far selection and baseline differ in it (Jensen-Shannon divergence, corrected for
//! the number of values), and by which value or range most. A value is a candidate if at least 5 % of the selection have it. Two
//! candidates are combined where each matters among the events of the other. Candidates that select nearly the same events are one
//! finding, which is named by the most telling of them. What chance reaches when the events are dealt to the sides at random, in one
//! of a hundred cases, is no finding.
//!
//! Significance is judged by rows; shares and counts are of events, of which a sampled row stands for several.

mod chance;
mod column;
mod combine;
mod condition;
mod layers;
mod parts;
mod periods;
mod row_codes;
mod score;
mod sides;
mod spots;
mod stacks;
mod table;
mod waits;

pub use condition::{Attribute, Condition, filter_of};
pub use layers::{Beneath, Coverage, Layer, Requests};
pub use score::{Counts, divergence};
pub use spots::{Spot, SpotKind};
pub use table::{Side, Table};
pub use waits::{Waiting, Waits};

use crate::Quantity;
use column::{Codes, Tally};
use combine::{Candidate, Explained};
use latscope_event::{Field, FieldSet};
use latscope_histogram::Grid;
use sides::Sides;
use stacks::{OF_STACKS, Stacks};
use table::{Column, Scale};

/// So many values of an attribute may explain something.
const MOST_VALUES: usize = 8;
/// So many values of an attribute are listed.
const LISTED: usize = 4;

/// How to explain.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ExplainOptions {
    /// Makes the random deals reproducible.
    pub seed: u64,
    /// Attributes that are not tested, because the selection is made by them.
    pub without: FieldSet,
    /// Only these are tested; `None`: all.
    pub only: Option<FieldSet>,
    /// Whether the sides are different stretches of time, so that time explains nothing.
    pub without_time: bool,
    /// Whether system calls are compared with system calls only, and block requests with block requests.
    pub in_layer: bool,
}

/// Events and the time that they waited.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Part {
    /// How many events.
    pub events: u64,
    /// The sum of their latencies, nanoseconds; of another quantity, the sum of that in its unit.
    pub waiting_ns: u128,
}

impl Part {
    /// These events without some of them.
    fn without(self, some: Part) -> Part {
        Part { events: self.events - some.events, waiting_ns: self.waiting_ns - some.waiting_ns }
    }
}

/// What explains a selection.
#[derive(Clone, PartialEq, Debug)]
pub struct Explanation {
    /// What was looked at.
    pub quantity: Quantity,
    /// All events of the table.
    pub total: Part,
    /// What is explained.
    pub selection: Part,
    /// What it is compared with.
    pub baseline: Part,
    /// Of a table of system calls and block requests: the only layer that was compared.
    pub layer: Option<Layer>,
    /// The filter of the events that were compared, if only those whose stack was looked at were: captures look at slow requests and at few
    /// others.
    pub with_stacks: Option<&'static str>,
    /// The block requests that were in flight during the calls, where the table has both.
    pub beneath: Option<Beneath>,
    /// The best first; empty if the sides do not differ.
    pub findings: Vec<Finding>,
    /// The names that all selected events have, and not all others: a few events may be too few to tell them from chance.
    pub shared: Vec<Condition>,
    /// Every attribute that was tested, the one with the largest difference first.
    pub attributes: Vec<AttributeReport>,
    /// Fields that were not tested, because the selection is made by them.
    pub without: FieldSet,
    /// The G² that chance reaches in one of a hundred cases.
    pub chance_g2: f64,
}

/// What many events of the selection have in common, and few of the baseline.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// What they have in common.
    pub conditions: Vec<Condition>,
    /// Events of the selection and of the baseline that have it.
    pub counts: Counts,
    /// The latencies of those of the selection, nanoseconds.
    pub waiting_ns: u128,
    /// Divergence of having it, bits, 0 to 1.
    pub divergence: f64,
    /// The log-likelihood ratio, by rows.
    pub g2: f64,
    /// What selects nearly the same events.
    pub same: Vec<Vec<Condition>>,
}

/// The difference in one attribute.
#[derive(Clone, PartialEq, Debug)]
pub struct AttributeReport {
    /// Which one.
    pub attribute: Attribute,
    /// Divergence of its values, bits, 0 to 1, less what chance makes of it.
    pub divergence: f64,
    /// Whether its best value or range differs by more than chance makes it.
    pub differs: bool,
    /// The largest distance of the distribution functions of a number.
    pub ks: Option<f64>,
    /// The median of a number on each side, selection first, in the units of the field.
    pub medians: [Option<u64>; 2],
    /// Its values or ranges, those of which the selection has most beyond the baseline first.
    pub values: Vec<ValueReport>,
}

/// The difference in one value.
#[derive(Clone, PartialEq, Debug)]
pub struct ValueReport {
    /// The value or range.
    pub condition: Condition,
    /// Events of the selection and of the baseline that have it.
    pub counts: Counts,
    /// The log-likelihood ratio, by rows.
    pub g2: f64,
}

impl Table {
    /// Explains what tells the selection from the baseline. `sides` has one for each row.
    pub fn explain(&mut self, sides: &[Side], options: &ExplainOptions) -> Explanation {
        self.complete();
        let period_ns = self.period(sides);
        self.set_period(period_ns);
        let table = &*self;
        let layer = table.layer(sides).filter(|_| options.in_layer);
        let of_layer = layer.map(|layer| table.of_layer(sides, layer));
        let sides = of_layer.as_deref().unwrap_or(sides);
        let mut without = table.without(options);
        let with_stacks = match table.with_stacks(sides) {
            Stacks::Few => {
                without.extend(OF_STACKS);
                None
            }
            Stacks::Of(sides, filter) => Some((sides, filter)),
            Stacks::AtRandom => None,
        };
        let sides = with_stacks.as_ref().map_or(sides, |(sides, _)| sides);
        let columns: Vec<usize> =
            (0..table.columns.len()).filter(|&at| !without.contains(&table.columns[at].attribute)).collect();
        let masks = Sides::new(sides);
        let columns = if masks.all.contains(&0) { Vec::new() } else { columns };
        let chance_g2 = if columns.is_empty() { 0.0 } else { chance::level(table, &masks, &columns, options.seed) };
        let (mut attributes, mut candidates) = (Vec::new(), Vec::new());
        for &at in &columns {
            let column = &table.columns[at];
            let tally = Tally::of_rows(column, &masks);
            let mut found = tally.candidates(column.scale);
            found.sort_by(|a, b| tally.counts(*b).g2().total_cmp(&tally.counts(*a).g2()));
            found.truncate(MOST_VALUES);
            candidates.extend(found.iter().map(|&codes| Candidate::new(table, &masks, at, codes, &tally)));
            attributes.push(report(table, sides, column, &tally, &found, chance_g2));
        }
        attributes.sort_by(|a: &AttributeReport, b| b.divergence.total_cmp(&a.divergence));
        combine::combine(&mut candidates, chance_g2);
        candidates.retain(|one| one.is_difference(chance_g2));
        if let Some(devices) = table.devices() {
            let tally = Tally::of_rows(devices, &masks);
            candidates.retain(|one| one.is_more_than_a_device(&masks, devices, &tally, chance_g2));
        }
        let explained = combine::fold(candidates, &masks, chance_g2);
        let selection = table.part(masks.masks[0].ones());
        Explanation {
            quantity: table.quantity,
            total: table.total(),
            selection,
            baseline: match masks.is_whole() {
                true => table.total().without(selection),
                false => table.part(masks.masks[1].ones()),
            },
            layer,
            with_stacks: with_stacks.as_ref().map(|&(_, filter)| filter),
            beneath: (table.layer(sides) == Some(Layer::SystemCall)).then(|| table.beneath(sides)),
            shared: table.shared(&masks.selected),
            findings: explained.into_iter().map(|one| finding(table, &masks, one)).collect(),
            attributes,
            without: options.without,
            chance_g2,
        }
    }

    /// The names that all of these rows have, and not all others; of names that say the same, one.
    fn shared(&self, rows: &[u32]) -> Vec<Condition> {
        let names = self.columns.iter().filter(|column| column.attribute.is_a_name() && column.scale == Scale::Labels);
        let shared = names.filter_map(|column| {
            let code = column.codes.get(*rows.first()? as usize);
            let label = column.labels.get(code as usize)?;
            let is_shared = rows.iter().all(|&row| column.codes.get(row as usize) == code);
            is_shared.then(|| Condition::Is(column.attribute, label.to_string()))
        });
        Condition::without_repetition(shared.collect())
    }

    /// All events.
    pub fn total(&self) -> Part {
        self.total.unwrap_or_else(|| self.part(0..self.len()))
    }

    /// The attributes that are not tested.
    fn without(&self, options: &ExplainOptions) -> Vec<Attribute> {
        let mut without: Vec<Attribute> = options.without.iter().map(Attribute::Field).collect();
        let made = [
            (Field::Path, Attribute::Directory),
            (Field::Stack, Attribute::Frame),
            (Field::StackHash, Attribute::Frame),
            (Field::Tags, Attribute::Pair),
            (Field::Tag, Attribute::Pair),
        ];
        without.extend(made.iter().filter(|(field, _)| options.without.contains(*field)).map(|(_, made)| *made));
        let is_left_out = |field| options.only.is_some_and(|only| !only.contains(field));
        without.extend(Field::ALL.iter().copied().filter(|&field| is_left_out(field)).map(Attribute::Field));
        let whole =
            [(Field::Path, Attribute::Directory), (Field::Stack, Attribute::Frame), (Field::Tags, Attribute::Pair)];
        without.extend(whole.iter().filter(|(field, _)| is_left_out(*field)).map(|(_, made)| *made));
        if options.without.contains(Field::Time) || options.without_time || is_left_out(Field::Time) {
            without.extend([Attribute::Time, Attribute::InSecond, Attribute::InPeriod]);
        }
        without
    }

    fn part(&self, rows: impl Iterator<Item = usize>) -> Part {
        let add = |part: Part, row: usize| Part {
            events: part.events + self.weight(row),
            waiting_ns: part.waiting_ns + u128::from(self.value(row)) * u128::from(self.weight(row)),
        };
        rows.fold(Part::default(), add)
    }
}

fn finding(table: &Table, sides: &Sides, explained: Explained) -> Finding {
    let Explained { candidate, same } = explained;
    let selected = table.part(candidate.selected_rows(sides));
    let counts = match table.weights.is_empty() {
        true => candidate.counts,
        false => {
            let all = [0, 1].map(|side| table.part(sides.masks[side].ones()).events);
            Counts { with: [selected.events, table.part(candidate.baseline_rows()).events], all }
        }
    };
    Finding {
        counts,
        waiting_ns: selected.waiting_ns,
        divergence: candidate.counts.divergence(),
        g2: candidate.counts.g2(),
        conditions: candidate.conditions,
        same: same.into_iter().map(|one| one.conditions).collect(),
    }
}

fn report(
    table: &Table,
    sides: &[Side],
    column: &Column,
    rows: &Tally,
    found: &[Codes],
    chance_g2: f64,
) -> AttributeReport {
    let weighted = match table.weights.is_empty() {
        true => None,
        false => {
            let rows = sides.iter().enumerate();
            let weighted = rows.map(|(row, &side)| (column.codes.get(row), side, table.weight(row)));
            Some(Tally::new(column.len(), weighted).of_parts(column.parts.as_ref()))
        }
    };
    let events = weighted.as_ref().unwrap_or(rows);
    let value = |&codes: &Codes| ValueReport {
        condition: codes.condition(column, rows),
        counts: events.counts(codes),
        g2: rows.counts(codes).g2(),
    };
    let values: Vec<ValueReport> = found.iter().take(LISTED).map(value).collect();
    let number = |grid: Grid| {
        let medians = events.medians().map(|code| code.map(|code| grid.lower(code)));
        let known = &rows.counts[..rows.counts.len() - 1];
        (score::parting(known, rows.all).map(|parting| parting.ks), medians)
    };
    let (ks, medians) = match column.scale {
        Scale::Grid(grid) => number(grid),
        _ => (None, [None, None]),
    };
    AttributeReport {
        attribute: column.attribute,
        divergence: events.divergence(column.scale),
        differs: values.first().is_some_and(|best| best.g2 > chance_g2),
        ks,
        medians,
        values,
    }
}

#[cfg(test)]
mod parts_tests;
#[cfg(test)]
mod tests;
