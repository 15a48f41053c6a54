//! The stacks of all that a live capture has kept, in place of the map: what waits now, and who made it wait.

use super::Message;
use super::app::{App, Panel};
use super::dig::send;
use super::dimensions::{Acted, Dimensions, NO_FIELDS};
use super::files::Task;
use super::keys::Action;
use super::live::{Kept, lock};
use super::stacks::{Found, in_kept};
use super::view::folded;
use latscope_event::{Field, FieldSet};
use latscope_series::StackWidth;
use latscope_view_term::{Drawn, Line};
use std::sync::Arc;

/// The last line of the screen.
pub const KEYS: &str = "? help  a sources  b split  / filter  Enter whole stacks  w shares of time or events  i in flight  Space pause  \
                        S map  q quit";

/// How the table starts.
pub struct Shown {
    pub by: Vec<Field>,
    /// What shares are of; else what tells most.
    pub width: Option<StackWidth>,
    /// Whether a line follows for each frame.
    pub is_full: bool,
}

/// The table.
pub struct Table {
    /// In place of the map.
    pub is_shown: bool,
    dimensions: Dimensions,
    width: Option<StackWidth>,
    is_full: bool,
    found: Option<Result<Found, String>>,
    /// The first line on the screen.
    from: usize,
    task: Task,
    /// Whether the task is at work.
    is_asked: bool,
}

impl Table {
    /// In place of the map where it is given.
    pub fn new(shown: Option<Shown>, task: Task) -> Table {
        let is_shown = shown.is_some();
        let Shown { by, width, is_full } = shown.unwrap_or(Shown { by: Vec::new(), width: None, is_full: false });
        let dimensions = Dimensions::new(by);
        Table { is_shown, dimensions, width, is_full, found: None, from: 0, task, is_asked: false }
    }

    /// What it needs of events beside what is captured anyway.
    pub fn fields(&self) -> FieldSet {
        self.dimensions.by.iter().copied().collect()
    }

    /// The question whose answer is waited for.
    pub fn number(&self) -> u64 {
        self.task.number()
    }

    /// Takes an answer.
    pub fn take(&mut self, found: Result<Found, String>) {
        (self.found, self.is_asked) = (Some(found), false);
    }

    /// Something else is captured from now on.
    pub fn forget(&mut self) {
        self.task.stop();
        (self.found, self.is_asked, self.from) = (None, false, 0);
    }

    /// The fields that have several values in what was found.
    fn several(&self) -> &[Field] {
        match &self.found {
            Some(Ok(found)) => &found.several,
            _ => &[],
        }
    }
}

/// So long a capture may take to start, nanoseconds.
const STARTING_NS: i64 = 5_000_000_000;

impl App {
    /// Shows the table, or the map again.
    pub fn turn_table(&mut self) {
        if self.watch.is_none() {
            self.notice = Some("All stacks of a file are printed by latscope stacks -r FILE.".into());
            return;
        }
        self.table.is_shown = !self.table.is_shown;
        self.panel = Panel::None;
        self.renew_table(true);
    }

    /// Looks through what was captured, if nobody does; anyway, if the question is another one.
    pub fn renew_table(&mut self, is_other: bool) {
        let Some(watch) = self.watch.as_ref().filter(|_| self.table.is_shown) else { return };
        if !is_other && (self.table.is_asked || self.paused) {
            return;
        }
        let Kept::Events(recent) = &watch.kept else {
            let message = "Histogram mode has no stacks; m switches to event mode, and a chooses what is captured.";
            self.table.take(Err(message.into()));
            return;
        };
        let (recent, reading, context) = (Arc::clone(recent), Arc::clone(&self.reading), self.context.clone());
        let (waiting, by) = (self.waiting.clone(), self.table.dimensions.by.clone());
        let task = self.table.task.next();
        self.table.is_asked = true;
        std::thread::spawn(move || {
            send(&task, in_kept(&reading, &context, &recent, Some(&waiting), &by), Message::Tabled);
        });
    }

    /// A key while the table is shown; whether it was one of the table's.
    pub fn key_of_table(&mut self, action: Action) -> bool {
        if !self.table.is_shown {
            return false;
        }
        if matches!(self.panel, Panel::None) {
            let table = &mut self.table;
            let several = table.several().to_vec();
            match table.dimensions.key(action, &several) {
                Acted::Nothing => {}
                Acted::List => return true,
                Acted::Fields => {
                    self.renew_table(true);
                    return true;
                }
                Acted::Empty => {
                    self.notice = Some(NO_FIELDS.into());
                    return true;
                }
            }
            let page = self.size.1.saturating_sub(3).max(1) as isize;
            match action {
                Action::Up => self.scroll_table(-1),
                Action::Down => self.scroll_table(1),
                Action::PageUp => self.scroll_table(-page),
                Action::PageDown => self.scroll_table(page),
                Action::Home => self.table.from = 0,
                Action::End => self.scroll_table(isize::MAX),
                Action::Dig => self.table.is_full = !self.table.is_full,
                Action::Weight => {
                    self.table.width = match self.table.width {
                        None | Some(StackWidth::Time) => Some(StackWidth::Events),
                        Some(StackWidth::Events) => Some(StackWidth::Samples),
                        Some(StackWidth::Samples) => Some(StackWidth::Time),
                    };
                }
                _ => return self.is_of_map(action),
            }
            return true;
        }
        self.is_of_map(action)
    }

    /// Whether a key does something only to the map, which is not on the screen.
    fn is_of_map(&mut self, action: Action) -> bool {
        use Action::*;
        let is_common = matches!(
            action,
            Table | Sources | Filter | Waiting | Mode | Pause | Help | Back | Redraw | Suspend | Quit | QuitLeaving
        );
        let is_of_panel = matches!(action, PageUp | PageDown) && !matches!(self.panel, Panel::None);
        if !is_common && !is_of_panel {
            self.notice = Some("This key is for the map; S shows it.".into());
        }
        !is_common && !is_of_panel
    }

    pub fn scroll_table(&mut self, by: isize) {
        let last = self.table_lines(self.size.0).len().saturating_sub(1);
        self.table.from = self.table.from.saturating_add_signed(by).min(last);
    }

    /// The first line: what is captured, as it is typed.
    pub fn table_parts(&self) -> Vec<String> {
        let Some(watch) = &self.watch else { return Vec::new() };
        let mut parts = vec![watch.words()];
        let by: Vec<&str> = self.table.dimensions.by.iter().map(|field| field.name()).collect();
        parts.extend((!by.is_empty()).then(|| format!("--by {}", by.join(","))));
        parts.extend(watch.note().map(str::to_string));
        parts
    }

    /// The table, or what it waits for.
    pub fn table_lines(&self, columns: usize) -> Vec<Line> {
        let table = &self.table;
        if let Some(list) = table.dimensions.lines(table.several(), columns) {
            return list;
        }
        let mut lines = Vec::new();
        if let Some(Kept::Events(recent)) = self.watch.as_ref().map(|watch| &watch.kept) {
            let from_ns = lock(recent).complete_from_ns();
            let from = self.in_words().moment(from_ns);
            // A filter starts a capture anew, and nobody saw when what waited by then had begun; the first one takes a moment to start.
            let anew = self.context.begun_before_ns.iter().max().filter(|&&anew_ns| anew_ns - from_ns > STARTING_NS);
            let anew = anew.map_or(String::new(), |&anew_ns| {
                format!("; what waits counts from {} at the earliest", self.in_words().moment(anew_ns))
            });
            lines.push(Line::new(&format!("since {from}{anew}")));
        }
        match &table.found {
            None => lines.push(Line::new("waiting for the first events ...")),
            Some(Err(message)) => lines.extend(folded(message, columns)),
            Some(Ok(found)) => {
                lines.extend(found.lines(&table.dimensions.by, table.width, &self.words, table.is_full, columns));
            }
        }
        lines
    }

    /// The screen, with a panel in place of the table while one is open.
    pub fn table_picture(&self, title: Line, status: Line, panel: Vec<Line>) -> Drawn {
        let (columns, rows) = self.size;
        let room = rows.saturating_sub(2);
        let shown = match panel.is_empty() {
            false => panel,
            true => {
                let lines = self.table_lines(columns);
                // The list of fields is short, and starts at its top.
                let from = if self.table.dimensions.is_open() { 0 } else { self.table.from.min(lines.len() - 1) };
                lines.into_iter().skip(from).collect()
            }
        };
        let mut lines = vec![title];
        lines.extend(shown.into_iter().take(room));
        lines.resize(rows.saturating_sub(1).max(1), Line::default());
        lines.push(status);
        Drawn { lines, maps: Vec::new() }
    }
}
