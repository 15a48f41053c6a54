//! The call stacks of a selection, as `latscope stacks` prints them, split by any fields that have several values in it.

use super::Message;
use super::app::{App, Panel};
use super::dig::{Dug, send};
use super::dimensions::{Acted, Dimensions, NO_FIELDS};
use super::files::Task;
use super::keys::Action;
use super::live::{Kept, each_kept};
use super::recent::Recent;
use super::view::folded;
use crate::Failure;
use crate::notes::WORDING;
use crate::plan::Reading;
use latscope_event::{Batch, Column, Context, Field, FieldSet, MISSING_CODE, MISSING_I64, Mask};
use latscope_pipeline::Pass;
use latscope_series::{StackTree, StackWidth};
use latscope_view_term::{Line, StacksTable};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

/// The fields by which stacks can be split.
const DIMENSIONS: [Field; 16] = [
    Field::Device,
    Field::WaitClass,
    Field::State,
    Field::Comm,
    Field::Process,
    Field::Pid,
    Field::Tid,
    Field::Tags,
    Field::Tag,
    Field::Kind,
    Field::Name,
    Field::Path,
    Field::Job,
    Field::Host,
    Field::Container,
    Field::Cgroup,
];
/// So many stacks are shown.
const TOP: usize = 100;

/// The panel of stacks.
#[derive(Clone, Debug)]
pub struct Stacked {
    /// The panel that it came from.
    dug: Box<Dug>,
    dimensions: Dimensions,
    pub found: Option<Result<Found, String>>,
    /// Whether a line follows for each frame: a panel has no room for callers in a column.
    is_full: bool,
}

/// The stacks of a selection.
#[derive(Clone)]
pub struct Found {
    tree: Arc<StackTree>,
    contexts: Vec<Context>,
    /// Fields that have several values in it.
    pub several: Vec<Field>,
}

impl std::fmt::Debug for Found {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        out.debug_struct("Found").field("several", &self.several).finish_non_exhaustive()
    }
}

impl App {
    /// Looks for the stacks of what a panel digs into.
    pub fn show_stacks(&mut self) {
        if let Panel::Dig(dug) = &self.panel {
            let (dug, dimensions) = (dug.clone(), Dimensions::new(self.folding.by.clone()));
            self.ask_stacks(Stacked { dug, dimensions, found: None, is_full: false });
        }
    }

    fn ask_stacks(&mut self, stacked: Stacked) {
        let narrowed = match self.narrowed(stacked.dug.spot()) {
            Ok(narrowed) => narrowed,
            Err(message) => {
                self.notice = Some(message);
                return;
            }
        };
        let kept = match self.watch.as_ref().map(|watch| &watch.kept) {
            None => None,
            Some(Kept::Events(recent)) => Some((Arc::clone(recent), self.context.clone())),
            Some(Kept::Keys(_)) => {
                self.notice = Some("Histogram mode has no stacks; m switches to event mode.".into());
                return;
            }
        };
        let (task, by) = (self.dig.next(), stacked.dimensions.by.clone());
        self.panel = Panel::Stacks(Box::new(stacked));
        self.panel_from = 0;
        std::thread::spawn(move || {
            let found = match kept {
                None => in_files(&task, narrowed, &by),
                Some((recent, context)) => in_kept(&narrowed, &context, &recent, None, &by),
            };
            send(&task, found, Message::Stacked);
        });
    }

    /// A key while the panel is open; whether it was one of the panel's.
    pub fn key_of_stacks(&mut self, action: Action) -> bool {
        let Panel::Stacks(stacked) = &mut self.panel else { return false };
        let found = stacked.found.as_ref().and_then(|found| found.as_ref().ok());
        match stacked.dimensions.key(action, found.map_or(&[], |found| &found.several)) {
            Acted::Nothing if action == Action::Back => {
                self.dig.stop();
                self.panel = Panel::Dig(stacked.dug.clone());
            }
            Acted::Nothing if action == Action::Dig => stacked.is_full = !stacked.is_full,
            Acted::Nothing => return false,
            Acted::List => {}
            Acted::Fields => {
                let stacked = stacked.clone();
                self.ask_stacks(*stacked);
            }
            Acted::Empty => self.notice = Some(NO_FIELDS.into()),
        }
        true
    }

    /// The panel, within so many columns.
    pub fn stacks_lines(&self, stacked: &Stacked, columns: usize) -> Vec<Line> {
        let mut lines = folded(&self.in_words().place(stacked.dug.spot()), columns);
        let found = match &stacked.found {
            None => {
                lines.push(Line::new("looking for call stacks ..."));
                return lines;
            }
            Some(Err(message)) => {
                lines.extend(folded(message, columns));
                return lines;
            }
            Some(Ok(found)) => found,
        };
        if let Some(list) = stacked.dimensions.lines(&found.several, columns) {
            lines.extend(list);
            return lines;
        }
        lines.extend(found.lines(&stacked.dimensions.by, None, stacked.dug.filter(), stacked.is_full, columns));
        if !found.is_empty() {
            lines.push(Line::new("Enter whole stacks  b split by other fields  Esc back"));
        }
        lines
    }
}

impl Found {
    /// Whether no stack is in it.
    pub fn is_empty(&self) -> bool {
        self.tree.total().samples == 0
    }

    /// The table by these fields, or the reason for its absence.
    pub fn lines(
        &self,
        by: &[Field],
        width: Option<StackWidth>,
        filter: &str,
        is_full: bool,
        columns: usize,
    ) -> Vec<Line> {
        let tree = &self.tree;
        if self.is_empty() {
            let text = match tree.without().samples {
                0 => "No event is selected.",
                _ => "None of these events has a call stack. Capture with -s stacks, or record with perf record -g.",
            };
            return folded(text, columns);
        }
        let width = width.unwrap_or(tree.usual_width());
        // Of another choice of fields, until its answer comes.
        let groups = by.len().min(tree.by().len());
        let table = StacksTable::new(tree, groups, width);
        table.lines(&Context::merged(&self.contexts), WORDING, filter, TOP, is_full, columns.into())
    }
}

/// Gathers the stacks of some events.
struct Search {
    tree: StackTree,
    /// By field: a value, and whether there is another one.
    values: BTreeMap<Field, (String, bool)>,
}

impl Search {
    fn new(by: &[Field]) -> Search {
        Search { tree: StackTree::new(StacksTable::fields(by)), values: BTreeMap::new() }
    }

    fn fields(&self) -> FieldSet {
        self.tree.fields().with(&DIMENSIONS)
    }

    fn add(&mut self, batch: &Batch, mask: Option<&Mask>, starts: bool) {
        if starts {
            self.tree.start_trace();
        }
        self.tree.add(batch, mask);
        self.add_values(batch, mask);
    }

    fn add_waiting(&mut self, batch: &Batch, mask: Option<&Mask>) {
        self.tree.add_waiting(batch, mask);
        self.add_values(batch, mask);
    }

    fn add_values(&mut self, batch: &Batch, mask: Option<&Mask>) {
        for field in DIMENSIONS {
            if self.values.get(&field).is_some_and(|(_, is_several)| *is_several) {
                continue;
            }
            let rows = (0..batch.len()).filter(|&row| mask.is_none_or(|mask| mask.get(row)));
            // A text or number is written once for each value.
            let (mut seen, mut texts) = (BTreeSet::new(), Vec::new());
            for row in rows {
                let raw = match batch.column(field) {
                    Some(Column::Text(codes)) if codes[row] != MISSING_CODE => i64::from(codes[row]),
                    Some(Column::I64(values)) if values[row] != MISSING_I64 => values[row],
                    _ => continue,
                };
                if seen.insert(raw) {
                    texts.push(batch.text(field, row).map_or_else(|| raw.to_string(), str::to_string));
                }
                if seen.len() > 1 {
                    break;
                }
            }
            for text in texts {
                let (first, is_several) = self.values.entry(field).or_insert_with(|| (text.clone(), false));
                *is_several |= *first != text;
            }
        }
    }

    fn found(self, contexts: Vec<Context>) -> Found {
        let is_several = |field: &Field| self.values.get(field).is_some_and(|(_, is_several)| *is_several);
        let several = DIMENSIONS.into_iter().filter(is_several).collect();
        Found { tree: Arc::new(self.tree), contexts, several }
    }
}

/// Looks through the events that a capture has kept, and what waits, where that is given.
pub fn in_kept(
    reading: &Reading,
    context: &Context,
    recent: &Mutex<Recent>,
    waiting: Option<&Batch>,
    by: &[Field],
) -> Result<Found, Failure> {
    let mut search = Search::new(by);
    each_kept(reading, context, recent, |batch, mask| {
        // Each batch has dictionaries of its own.
        search.add(batch, mask, true);
        ControlFlow::Continue(())
    })?;
    if let Some(waiting) = waiting {
        let mut pass = Pass::new(reading);
        let (batch, mask) = pass.batch(context, waiting)?;
        search.add_waiting(batch, mask);
    }
    Ok(search.found(vec![context.clone()]))
}

/// Reads the files again.
fn in_files(task: &Task, narrowed: Reading, by: &[Field]) -> Result<Found, Failure> {
    let mut search = Search::new(by);
    let fields = search.fields();
    let contexts = task.open(narrowed)?.each_batch(fields, |_, batch, mask, starts| {
        search.add(batch, mask, starts);
        ControlFlow::<Failure>::Continue(())
    })?;
    task.wanted(search.found(contexts))
}
