//! Questions about what is shown: another filter or split, what is in a selection, and saving it.

use super::app::{App, Panel, Purpose};
use super::edit::Editor;
use super::files;
use super::keys::Action;
use super::select;
use crate::plan::{self, Reading};
use latscope_event::Field;
use latscope_view_term::Spot;
use std::sync::Arc;

impl App {
    /// The selection, or what is under the cursor.
    pub fn chosen(&mut self) -> Option<Spot> {
        let chosen = self.selection.or(self.cursor);
        if chosen.is_none() {
            self.notice = Some("Nothing is selected: move the cursor with the arrow keys and press v.".into());
        }
        chosen
    }

    /// The filter that selects a spot, with the one that is in force.
    pub fn filter_of(&self, spot: &Spot) -> String {
        select::both(&self.words, &select::filter(&self.series, spot, &self.context.clock))
    }

    /// What to read for a spot.
    pub fn narrowed(&self, spot: &Spot) -> Result<Reading, String> {
        let selection = select::filter(&self.series, spot, &self.context.clock);
        let before = self.reading.filter.as_ref().map_or(String::new(), ToString::to_string);
        let filter = select::parsed(&select::both(&before, &selection))?;
        Ok(Reading { filter: Some(filter), ..Reading::clone(&self.reading) })
    }

    pub fn filter(&mut self, text: &str) {
        let text = text.trim();
        self.panel = Panel::None;
        if text == self.words.trim() {
            return;
        }
        match plan::filter(text, self.plan.kept.clone()) {
            Err(failure) => self.refused(&failure, text),
            Ok(filter) => {
                let reading = Reading { filter, ..Reading::clone(&self.reading) };
                self.remember();
                (self.reading, self.words) = (Arc::new(reading), text.into());
                self.anew(false);
            }
        }
    }

    /// The question is another one.
    pub fn anew(&mut self, same_filter: bool) {
        self.spots.forget();
        match self.watch {
            Some(_) => self.watch_anew(same_filter),
            None => self.ask(),
        }
    }

    pub fn remember(&mut self) {
        self.before.get_or_insert_with(|| (Arc::clone(&self.reading), self.folding.clone(), self.words.clone()));
    }

    /// Opens the menu of splits at the present one.
    pub fn offer_splits(&mut self) {
        if self.splits.is_empty() {
            self.notice = Some("These events have no field to split the map by.".into());
            return;
        }
        let now = self.folding.by.first().and_then(|first| self.splits.iter().position(|field| field == first));
        (self.panel, self.panel_from) = (Panel::Splits(now.map_or(0, |at| at + 1)), 0);
    }

    /// A key while the menu of splits is open; whether it was one of the menu's.
    pub fn choose_split(&mut self, at: usize, action: Action) -> bool {
        let last = self.splits.len();
        match action {
            Action::Split | Action::Down => self.panel = Panel::Splits(if at < last { at + 1 } else { 0 }),
            Action::Up => self.panel = Panel::Splits(if at > 0 { at - 1 } else { last }),
            Action::Home | Action::PageUp => self.panel = Panel::Splits(0),
            Action::End | Action::PageDown => self.panel = Panel::Splits(last),
            Action::Dig => {
                self.panel = Panel::None;
                self.split(at.checked_sub(1).map(|at| self.splits[at]));
            }
            _ => return false,
        }
        true
    }

    pub fn split(&mut self, by: Option<Field>) {
        if self.folding.by.iter().eq(by.iter()) {
            return;
        }
        self.notice = Some(format!("split by {}", by.map_or("nothing", Field::name)));
        self.remember();
        self.folding.by = by.into_iter().collect();
        self.anew(true);
    }

    pub fn ask_name(&mut self) {
        if self.chosen().is_some() {
            let name = (1..).map(|number| format!("selection-{number}.lat"));
            let free = name.take(1000).find(|name| !std::path::Path::new(name).exists());
            self.editor = Some((Purpose::Save, Editor::new(&free.unwrap_or_default())));
        }
    }

    pub fn save(&mut self, name: &str) {
        let Some(spot) = self.chosen().filter(|_| !name.trim().is_empty()) else { return };
        match self.narrowed(&spot) {
            Ok(reading) => {
                let (task, path) = (self.save.next(), std::path::PathBuf::from(name.trim()));
                self.notice = Some("saving ...".into());
                match &self.watch {
                    Some(_) => self.save_live(task, reading, path),
                    None => drop(std::thread::spawn(move || files::save(task, reading, &path))),
                }
            }
            Err(message) => self.notice = Some(message),
        }
    }

    pub fn copy(&mut self) {
        let Some(spot) = self.chosen() else { return };
        let command = super::command::events(&self.plan.command, &self.filter_of(&spot));
        self.send = Some(super::command::clipboard(&command));
        let selection = select::filter(&self.series, &spot, &self.context.clock);
        self.panel = Panel::Text(vec![
            command,
            String::new(),
            "Also copied to the clipboard, if the terminal allows it. What sets these events apart:".into(),
            String::new(),
            super::command::explain(&self.plan.command, &self.words, &selection),
        ]);
    }
}
