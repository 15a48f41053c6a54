//! Events on two sides, to find what one of them has that the other has not: a selection and all others, or two traces.

use crate::derived::{Gathered, Room, Unified};
use crate::live::refuse_nothing;
use crate::{Error, Marked, Pass, Pipeline, Reading};
use latscope_capture_bpf::usual;
use latscope_event::{Batch, Context, Field, FieldSet, Mask};
use latscope_filter::Filter;
use latscope_series::Quantity;
use latscope_series::explain::{Attribute, Condition, ExplainOptions, Explanation, Side, Spot, Table, Waiting, Waits};
use std::ops::ControlFlow;

/// What names a request that waits.
const NAMES: [Field; 8] =
    [Field::Device, Field::Path, Field::Job, Field::Host, Field::Kind, Field::Process, Field::Comm, Field::Name];

/// Fields that say the same.
const ALIKE: [&[Field]; 8] = [
    &[Field::Kind, Field::Name, Field::Category],
    &[Field::Offset, Field::Region],
    &[Field::Dev, Field::Device],
    &[Field::Comm, Field::Process],
    &[Field::Uid, Field::User],
    &[Field::Gid, Field::Group],
    &[Field::Container, Field::ContainerName, Field::Cgroup],
    &[Field::State, Field::InIowait],
];

/// What is compared with what.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Question {
    /// What is explained; `None`: what is found to be unusual, or the second of two traces.
    pub selection: Option<Filter>,
    /// What it is compared with; `None`: all other events.
    pub against: Option<Filter>,
    /// Only these fields are tested; `None`: all that the trace has.
    pub columns: Option<FieldSet>,
    /// Seed of the test for chance.
    pub seed: u64,
    /// What is looked at beside what events have in common.
    pub quantity: Quantity,
}

/// All events of a reading, each on its side.
pub struct Compared<'a> {
    question: &'a Question,
    table: Table,
    sides: Vec<Side>,
    /// What has not completed, and whether it is selected.
    waiting: Vec<(bool, Waiting)>,
    /// What the traces say of themselves.
    pub contexts: Vec<Context>,
}

/// Why a selection is as it is.
#[derive(Clone, Debug)]
pub struct Explained {
    /// What it has in common.
    pub explanation: Explanation,
    /// The selection is most of the events, so the others were explained.
    pub is_inverted: bool,
}

impl Explained {
    /// The filters of what was explained, and of what it was compared with: what the question has, or the names of two traces.
    pub fn sides(&self, question: &Question, reading: &Reading) -> (String, String) {
        let name = |at: usize| {
            let file = reading.files.get(at).map_or(String::new(), |file| file.display().to_string());
            Condition::Is(Attribute::Field(Field::Trace), file).filter().unwrap_or_default()
        };
        let text = |filter: &Option<Filter>| filter.as_ref().map(ToString::to_string);
        let selection = text(&question.selection).unwrap_or_else(|| name(1));
        let baseline = match (text(&question.against), &question.selection) {
            (Some(against), _) => format!("({against}) and not ({selection})"),
            (None, Some(_)) => format!("not ({selection})"),
            (None, None) => name(0),
        };
        let baseline = match self.explanation.layer {
            Some(layer) => format!("{baseline} and {}", layer.filter()),
            None => baseline,
        };
        let with_stacks = |side: String| match self.explanation.with_stacks {
            Some(filter) => format!("({side}) and {filter}"),
            None => side,
        };
        let (selection, baseline) = (with_stacks(selection), with_stacks(baseline));
        if self.is_inverted { (baseline, selection) } else { (selection, baseline) }
    }
}

impl Pipeline {
    /// Reads all events with all their fields.
    ///
    /// # Errors
    /// When input or capture fail, and where rows are averages.
    pub fn compare<'a>(&self, question: &'a Question) -> Result<Compared<'a>, Error> {
        let all = self.reading.live.as_ref().map_or(FieldSet::EVERY, |live| usual(live.source));
        // Where the traces are the sides, that explains nothing.
        let is_several = self.reading.files.len() > 1 && question.selection.is_some();
        let all = if is_several { all.with(&[Field::Trace]) } else { all };
        let fields = Table::fields(question.columns.unwrap_or(all.union(FieldSet::DERIVED)));
        let fields = fields.with(&[question.quantity.field()]);
        let filters: Vec<&Filter> = question.selection.iter().chain(&question.against).collect();
        if let Some(live) = &self.reading.live {
            for filter in self.reading.filter.iter().chain(filters.iter().copied()) {
                let asked = Reading { filter: Some(filter.clone()), ..Reading::default() };
                refuse_nothing(&asked, live.source)?;
            }
        }
        let mut compared = Compared::new(question);
        let mut traces = 0;
        compared.contexts = self.each_marked(fields, &filters, |marked: Marked| {
            if marked.starts {
                compared.table.begin_trace(marked.start_ns);
                traces += 1;
            }
            let side_of_trace = if traces == 1 { Side::Baseline } else { Side::Selection };
            compared.add(marked.batch, marked.mask, |row| match question.selection {
                None => side_of_trace,
                Some(_) => side(marked.marks, row),
            });
            ControlFlow::<Error>::Continue(())
        })?;
        // What waits still has a lower bound of its latency, and nothing else.
        if question.quantity == Quantity::Latency {
            compared.contexts.iter().try_for_each(crate::refuse_averages)?;
            compared.add_waiting(self, fields)?;
        }
        Ok(compared)
    }
}

impl<'a> Compared<'a> {
    fn new(question: &'a Question) -> Compared<'a> {
        Compared {
            question,
            table: Table::about(question.quantity),
            sides: Vec::new(),
            waiting: Vec::new(),
            contexts: Vec::new(),
        }
    }

    /// Events that a capture has kept, as far as the filter of the reading lets them through, with the derived fields. Each batch has
    /// dictionaries of its own.
    ///
    /// # Errors
    /// When the context lacks the times that a filter compares with, and when there are too many events to derive fields.
    pub fn of_kept<'b>(
        question: &'a Question,
        reading: &Reading,
        context: &Context,
        batches: impl Iterator<Item = &'b Batch>,
    ) -> Result<Compared<'a>, Error> {
        let mut compared = Compared::new(question);
        let selected = Reading { filter: question.selection.clone(), ..Reading::default() };
        let (mut unified, mut gathered, room) = (Unified::new(), Gathered::new(FieldSet::DERIVED), Room::default());
        for batch in batches {
            gathered.add(unified.rows(batch), &room)?;
        }
        compared.table.begin_trace(context.trace_start().start_ns);
        let (mut pass, mut selecting) = (Pass::new(reading), Pass::new(&selected));
        let mut add = |batch: &Batch| -> Result<(), Error> {
            let (batch, mask) = pass.batch(context, batch)?;
            let marks: Vec<Mask> = selecting.batch(context, batch)?.1.cloned().into_iter().collect();
            compared.add(batch, mask, |row| side(&marks, row));
            Ok(())
        };
        let mut added: Result<(), Error> = Ok(());
        gathered.hand_on(|batch| {
            added = add(batch);
            if added.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        added?;
        compared.contexts = vec![context.clone()];
        Ok(compared)
    }

    /// Requests that had not completed, as far as the filter of the reading lets them through.
    fn add_waiting(&mut self, pipeline: &Pipeline, fields: FieldSet) -> Result<(), Error> {
        let selected = Reading { filter: self.question.selection.clone(), ..Reading::default() };
        let contexts = std::mem::take(&mut self.contexts);
        let common_ns = contexts.iter().filter(|_| contexts.len() > 1).filter_map(Context::trace_start_ns).min();
        pipeline.each_waiting(&contexts, fields, |at, context, batch| {
            let mut pass = Pass::new(&pipeline.reading).counting_from(common_ns);
            let (batch, mask) = pass.batch(context, batch)?;
            let mut selecting = Pass::new(&selected).counting_from(common_ns);
            let (_, marks) = selecting.batch(context, batch)?;
            for row in (0..batch.len()).filter(|&row| mask.is_none_or(|mask| mask.get(row))) {
                // Of two traces the second is what is explained.
                let is_selected = marks.map_or(at > 0, |marks| marks.get(row));
                let name = |field| Some(Condition::Is(Attribute::Field(field), batch.text(field, row)?.to_owned()));
                let waiting =
                    Waiting { age_ns: batch.latency()[row], names: NAMES.into_iter().filter_map(name).collect() };
                self.waiting.push((is_selected, waiting));
            }
            Ok(())
        })?;
        self.contexts = contexts;
        Ok(())
    }

    /// What waits still of what is selected, which no statistics have: only what has completed has a latency.
    pub fn selected_waits(&mut self) -> Option<Waits> {
        self.table.waits(self.waiting.iter().filter(|(is_selected, _)| *is_selected).map(|(_, waiting)| waiting))
    }

    /// What has waited for unusually long, and waits still.
    pub fn long_waits(&mut self) -> Option<Waits> {
        let requests: Vec<Waiting> = self.waiting.iter().map(|(_, waiting)| waiting.clone()).collect();
        self.table.long_waits(&requests)
    }

    fn add(&mut self, batch: &Batch, mask: Option<&Mask>, side: impl Fn(usize) -> Side) {
        let added = self.table.add(batch, mask);
        self.sides.extend(added.iter().map(|&row| side(row as usize)));
    }

    /// All events.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// What the selection has in common.
    pub fn explained(&mut self) -> Explained {
        let Question { selection, against, columns, seed, .. } = self.question;
        let is_inverted = selection.is_some() && against.is_none() && is_most(&self.sides);
        if is_inverted {
            self.sides.iter_mut().for_each(|side| {
                *side = if *side == Side::Selection { Side::Baseline } else { Side::Selection };
            });
        }
        let without = selection.as_ref().map_or(FieldSet::EMPTY, used);
        // Between two traces the numbers of processes differ, even if nothing else does.
        let numbers = [Field::Pid, Field::Tid, Field::Ppid].into_iter().collect();
        let only = columns.or_else(|| selection.is_none().then(|| FieldSet::EVERY.without(numbers)));
        // Who says what to compare with gets that.
        let in_layer = selection.is_some() && against.is_none();
        let options = ExplainOptions { seed: *seed, without, only, without_time: selection.is_none(), in_layer };
        let mut explanation = self.table.explain(&self.sides, &options);
        if self.contexts.windows(2).any(|pair| pair[0].clock != pair[1].clock) {
            // Nobody knows what happened meanwhile on another clock.
            explanation.beneath = None;
        }
        Explained { explanation, is_inverted }
    }

    /// What is unusual, the most waiting first.
    pub fn spots(&mut self) -> Vec<Spot> {
        self.table.spots(self.question.seed, self.question.columns)
    }
}

/// On which side an event is that is, or is not, of the selection and of the baseline.
fn side(marks: &[Mask], row: usize) -> Side {
    match marks {
        [selection, ..] if selection.get(row) => Side::Selection,
        [_, against] if !against.get(row) => Side::Neither,
        _ => Side::Baseline,
    }
}

/// Whether more than half of the events are selected, but not all.
fn is_most(sides: &[Side]) -> bool {
    let selected = sides.iter().filter(|side| **side == Side::Selection).count();
    selected * 2 > sides.len() && selected < sides.len()
}

/// Fields that explain nothing, because a filter asks for them, or that say the same.
fn used(filter: &Filter) -> FieldSet {
    let fields = filter.fields();
    let latency = FieldSet::EMPTY.with(&[Field::Latency]);
    // A completion is a start and a latency; nobody asks for either of these then.
    let is_of_latency = filter.only_about(latency).is_some() || !fields.contains(Field::Time);
    let used = if is_of_latency { fields } else { fields.without(latency) };
    ALIKE
        .iter()
        .filter(|alike| alike.iter().any(|&field| used.contains(field)))
        .fold(used, |used, alike| used.with(alike))
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_event::Clock;

    /// Requests of two devices, whose names the dictionary has in this order.
    fn batch(names: [&str; 2], start: i64) -> Batch {
        let mut batch = Batch::new(FieldSet::ALWAYS.with(&[Field::Device, Field::Offset, Field::Size]));
        names.iter().for_each(|name| _ = batch.intern(Field::Device, name.as_bytes()));
        for at in start..start + 200 {
            // Slow requests of sdb are in flight together; those of sda are in flight alone, and sequential.
            let is_slow = at % 4 == 0;
            batch.push_i64(Field::Time, at * 1000);
            batch.push_u64(Field::Latency, if is_slow { 50_000 } else { 100 });
            batch.push_text(Field::Device, Some(if is_slow { b"sdb" } else { b"sda" }));
            batch.push_u64(
                Field::Offset,
                if is_slow { (at as u64 * 7919) % 4096 * 4096 } else { (at - at / 4) as u64 * 4096 },
            );
            batch.push_u64(Field::Size, 4096);
            batch.end_row();
        }
        batch
    }

    #[test]
    fn kept_events_have_derived_fields_across_batches() {
        let question = Question { selection: Some(Filter::parse("lat > 10us").unwrap()), ..Question::default() };
        let batches = [batch(["sda", "sdb"], 0), batch(["sdb", "sda"], 200)];
        let context = Context::new("kept", Clock::unanchored("unknown"));
        let mut compared = Compared::of_kept(&question, &Reading::default(), &context, batches.iter()).unwrap();
        let explanation = compared.explained().explanation;
        assert_eq!(explanation.selection.events, 100);
        let values = |field| {
            let report =
                explanation.attributes.iter().find(|report| report.attribute == Attribute::Field(field)).unwrap();
            (report.differs, report.values[0].counts.with)
        };
        assert_eq!(values(Field::Device), (true, [100, 0]));
        // The first request of a stream follows none.
        assert_eq!(values(Field::Sequential), (true, [100, 1]));
        let (differs, [selected, baseline]) = values(Field::InFlight);
        assert!(differs && selected > 90 && baseline == 0, "{selected} {baseline}");
    }
}
