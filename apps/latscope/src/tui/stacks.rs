//! The call stacks of a selection, as `latscope stacks` prints them, split by any fields that have several values in it.

use super::Message;
use super::app::{App, Panel};
use super::dig::{Dug, send};
use super::files::Task;
use super::keys::Action;
use super::live::{Kept, each_kept};
use super::view::{folded, marked};
use crate::Failure;
use crate::notes::WORDING;
use crate::plan::Reading;
use latscope_event::{Batch, Column, Context, Field, FieldSet, MISSING_CODE, MISSING_I64, Mask};
use latscope_series::StackTree;
use latscope_view_term::{Line, StacksTable};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The fields by which stacks can be split.
const DIMENSIONS: [Field; 13] = [
    Field::Device,
    Field::WaitClass,
    Field::State,
    Field::Comm,
    Field::Process,
    Field::Tid,
    Field::Tags,
    Field::Kind,
    Field::Name,
    Field::Path,
    Field::Job,
    Field::Host,
    Field::Container,
];
/// So many stacks are shown.
const TOP: usize = 100;

/// The panel of stacks.
#[derive(Clone, Debug)]
pub struct Stacked {
    /// The panel that it came from.
    dug: Box<Dug>,
    by: Vec<Field>,
    /// The line of the list of dimensions, while that is open.
    at: Option<usize>,
    pub found: Option<Result<Found, String>>,
}

/// The stacks of a selection.
#[derive(Clone)]
pub struct Found {
    tree: Arc<StackTree>,
    contexts: Vec<Context>,
    /// Fields that have several values in it.
    several: Vec<Field>,
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
            let (dug, by) = (dug.clone(), self.folding.by.clone());
            self.ask_stacks(Stacked { dug, by, at: None, found: None });
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
        let (task, by) = (self.dig.next(), stacked.by.clone());
        self.panel = Panel::Stacks(Box::new(stacked));
        self.panel_from = 0;
        std::thread::spawn(move || {
            let found = match kept {
                None => in_files(&task, narrowed, &by),
                Some((recent, context)) => {
                    let mut search = Search::new(&by);
                    let done = each_kept(&narrowed, &context, &recent, |batch, mask| {
                        // Each batch has dictionaries of its own.
                        search.add(batch, mask, true);
                        ControlFlow::Continue(())
                    });
                    done.map(|()| search.found(vec![context]))
                }
            };
            send(&task, found, Message::Stacked);
        });
    }

    /// A key while the panel is open; whether it was one of the panel's.
    pub fn key_of_stacks(&mut self, action: Action) -> bool {
        let Panel::Stacks(stacked) = &mut self.panel else { return false };
        let several = match &stacked.found {
            Some(Ok(found)) => found.several.clone(),
            _ => Vec::new(),
        };
        match (action, stacked.at) {
            (Action::Split, None) if several.is_empty() => {
                self.notice = Some("No field has several values in these events.".into());
            }
            (Action::Split, None) => stacked.at = Some(0),
            (Action::Back | Action::Dig | Action::Split, Some(_)) => stacked.at = None,
            (Action::Back, None) => {
                self.dig.stop();
                self.panel = Panel::Dig(stacked.dug.clone());
            }
            (Action::Down, Some(at)) => stacked.at = Some((at + 1) % several.len().max(1)),
            (Action::Up, Some(at)) => stacked.at = Some(at.checked_sub(1).unwrap_or(several.len().saturating_sub(1))),
            (Action::Pause, Some(at)) => {
                let (Some(&field), mut stacked) = (several.get(at), stacked.clone()) else { return true };
                match stacked.by.iter().position(|&by| by == field) {
                    Some(place) => drop(stacked.by.remove(place)),
                    None => stacked.by.push(field),
                }
                self.ask_stacks(*stacked);
            }
            _ => return false,
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
        if let Some(at) = stacked.at {
            lines.push(Line::new("Split stacks by: (arrows, Space toggles, Enter or Esc closes)"));
            for (place, field) in found.several.iter().enumerate() {
                let order = stacked.by.iter().position(|by| by == field);
                let mark = order.map_or(" ".into(), |order| (order + 1).to_string());
                let entry = format!("[{mark}] {:<12}{}", field.name(), field.meaning());
                let mut line = Line::default();
                match place == at {
                    true => marked(&mut line, &format!("> {entry}")),
                    false => drop(line.push("  ").push(&entry)),
                }
                line.truncate(columns, true);
                lines.push(line);
            }
            return lines;
        }
        let tree = &found.tree;
        if tree.total().samples == 0 {
            let text = match tree.without().samples {
                0 => "No event is selected.",
                _ => "None of these events has a call stack. Capture with -s stacks, or record with perf record -g.",
            };
            lines.extend(folded(text, columns));
            return lines;
        }
        let table = StacksTable::new(tree, stacked.by.len(), tree.usual_width());
        let filter = stacked.dug.filter();
        let context = Context::merged(&found.contexts);
        lines.extend(table.lines(&context, WORDING, filter, TOP, false, columns.into()));
        lines.push(Line::new("b split by other fields  Esc back"));
        lines
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
