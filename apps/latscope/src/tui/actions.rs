//! What keys do: the look of the map, the cursor's selection, and where else they lead.

use super::app::{App, Panel, Purpose, Quit};
use super::edit::{Edited, Editor};
use super::keys::{self, Action};
use crossterm::event::KeyEvent;
use latscope_series::Weight;
use latscope_view::{Palette, Scale};
use latscope_view_term::Orient;

impl App {
    pub fn key(&mut self, key: &KeyEvent) {
        self.notice = None;
        if let Some((purpose, editor)) = &mut self.editor {
            let (purpose, text) = match editor.key(key) {
                Edited::Going => return,
                Edited::Left => {
                    self.editor = None;
                    self.panel = Panel::None;
                    return;
                }
                Edited::Done => (*purpose, editor.text()),
            };
            self.editor = None;
            match purpose {
                Purpose::Filter => self.filter(&text),
                Purpose::Save => self.save(&text),
            }
        } else if let Some(action) = keys::action(key) {
            if let Panel::Sources(chosen) = self.panel
                && self.choose_source(chosen, action)
            {
                return;
            }
            if self.key_of_stacks(action) || self.key_of_table(action) {
                return;
            }
            if let Panel::Splits(at) = self.panel
                && self.choose_split(at, action)
            {
                return;
            }
            self.act(action);
        }
    }

    pub fn act(&mut self, action: Action) {
        match action {
            Action::Left | Action::Right | Action::Up | Action::Down => self.step(action),
            Action::PageUp => match self.panel_page() {
                Some(lines) => self.panel_from = self.panel_from.saturating_sub(lines),
                None => self.page(-1),
            },
            Action::PageDown => match self.panel_page() {
                Some(lines) => self.panel_from += lines,
                None => self.page(1),
            },
            Action::Home => self.show_oldest(),
            Action::End => self.look.newest = self.newest_if_paused(),
            Action::ZoomIn => self.zoom_time(true),
            Action::ZoomOut => self.zoom_time(false),
            Action::ValuesIn => self.zoom_values(true),
            Action::ValuesOut => self.zoom_values(false),
            Action::ZoomToSelection => self.zoom_to_selection(),
            Action::Back => self.step_back(),
            Action::Select => self.start_or_end_selection(),
            Action::Dig => self.dig(),
            Action::NextSpot => self.show_spot(true),
            Action::PreviousSpot => self.show_spot(false),
            Action::Filter => self.editor = Some((Purpose::Filter, Editor::new(&self.words))),
            Action::Split => self.offer_splits(),
            Action::Save => self.ask_name(),
            Action::Copy => self.copy(),
            Action::Mode => self.switch_mode(),
            Action::Pause => self.pause(),
            Action::Help => {
                self.panel = if matches!(self.panel, Panel::Help) { Panel::None } else { Panel::Help };
                self.panel_from = 0;
            }
            Action::Waiting => {
                self.panel = if matches!(self.panel, Panel::Waiting) { Panel::None } else { Panel::Waiting };
                self.panel_from = 0;
            }
            Action::Different => self.show_different(),
            Action::Sources => self.offer_sources(),
            Action::Table => self.turn_table(),
            Action::Scale if matches!(self.panel, Panel::Dig(_)) => self.show_stacks(),
            Action::Redraw => self.redraw = true,
            Action::Suspend => self.suspend = true,
            Action::Quit => self.quit = Some(Quit::Clean),
            Action::QuitLeaving => self.quit = Some(Quit::Leaving),
            look => self.change_look(look),
        }
    }

    pub fn change_look(&mut self, action: Action) {
        let look = &mut self.look;
        let options = &mut look.options;
        match action {
            Action::Weight => {
                let bytes = self.series.weight == Weight::Bytes;
                look.shown = match look.shown {
                    Weight::Count => Weight::Time,
                    Weight::Time if bytes => Weight::Bytes,
                    _ => Weight::Count,
                };
            }
            Action::Palette => {
                let at = Palette::TERMINAL.iter().position(|&palette| palette == options.palette).unwrap_or(0);
                options.palette = Palette::TERMINAL[(at + 1) % Palette::TERMINAL.len()];
            }
            Action::Scale => {
                options.scale = match options.scale {
                    Scale::Log => Scale::Sqrt,
                    Scale::Sqrt => Scale::Linear,
                    Scale::Linear => Scale::Log,
                };
            }
            Action::Turn => {
                options.orient = match options.orient {
                    Orient::Down => Orient::Across,
                    Orient::Across => Orient::Down,
                };
            }
            Action::Percentiles => look.percentiles = !look.percentiles,
            Action::Distribution => look.distribution = !look.distribution,
            Action::Rates => look.rates = !look.rates,
            _ => {}
        }
    }

    pub fn pause(&mut self) {
        self.paused = !self.paused;
        if self.look.newest.is_none() || !self.paused {
            self.look.newest = self.newest_if_paused();
        }
    }

    pub fn newest_if_paused(&self) -> Option<i64> {
        self.range().map(|(_, last)| last).filter(|_| self.paused)
    }

    /// First and last interval that there is, with or without events.
    pub fn range(&self) -> Option<(i64, i64)> {
        let now = self.watch.as_ref().map_or(i64::MIN, |watch| watch.now_ns.div_euclid(self.series.width_ns() as i64));
        self.series.range().map(|(first, last)| (first, last.max(now)))
    }

    pub fn step_back(&mut self) {
        if !matches!(self.panel, Panel::None) {
            self.panel = Panel::None;
            self.dig.stop();
        } else if self.anchor.is_some() || self.selection.is_some() {
            (self.anchor, self.selection) = (None, None);
        } else if let Some(view) = self.back.pop() {
            (self.look.options.min, self.look.options.max) = (view.min, view.max);
            (self.look.merge, self.look.newest) = (view.merge, view.newest);
        } else {
            self.cursor = None;
        }
    }

    pub fn start_or_end_selection(&mut self) {
        if self.anchor.take().is_some() {
            return;
        }
        if self.cursor.is_none() {
            self.cursor = self.middle();
        }
        (self.anchor, self.selection) = (self.cursor, self.cursor);
    }
}
