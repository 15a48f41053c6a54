//! What is shown and asked for, and what every key, click and answer does to it. Nothing here touches the terminal.

use super::digest::Digest;
use super::edit::{Edited, Editor};
use super::files::{self, Task};
use super::keys::{self, Action};
use super::select::{self, Words};
use super::watch::Watch;
use super::{Fed, Message};
use crate::plan::{Folding, Reading};
use crate::{Failure, args, plan};
use crossterm::event::{Event, KeyEvent, KeyEventKind};
use latscope_event::{Batch, Clock, Context, Field, FieldSet};
use latscope_series::{HistogramSeries, Weight};
use latscope_view::{Palette, Scale};
use latscope_view_term::{Drawn, Look, Orient, Spot};
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// The fields by which the map can be split, in the order of the key.
const SPLITS: [Field; 10] = [
    Field::Device,
    Field::Kind,
    Field::Comm,
    Field::Pid,
    Field::Name,
    Field::Path,
    Field::FdType,
    Field::Job,
    Field::Host,
    Field::Container,
];

/// How it ends.
#[derive(Debug)]
pub enum Quit {
    /// The picture goes away.
    Clean,
    /// The picture stays.
    Leaving,
    /// By a signal.
    Signal(i32),
    /// Because there is nothing to show.
    Failed(Failure),
}

/// What stands beside or over the map.
#[derive(Clone, Debug)]
pub enum Panel {
    None,
    Help,
    /// Texts, a line or paragraph each.
    Text(Vec<String>),
    /// What is in flight.
    Waiting,
    /// The menu of splits, with the line that Enter takes: 0 is none, the others are the fields in their order.
    Splits(usize),
    /// What is in a selection: the place, its filter, and what was found out so far.
    Dig(Spot, String, Option<Result<Digest, String>>),
}

/// What is being typed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    Filter,
    Save,
}

/// A view to step back to.
pub struct View {
    pub min: Option<u64>,
    pub max: Option<u64>,
    pub merge: u32,
    pub newest: Option<i64>,
}

pub struct App {
    pub typed: args::Spectrogram,
    pub reading: Arc<Reading>,
    pub folding: Folding,
    /// The filter as it was typed.
    pub words: String,
    pub series: HistogramSeries,
    pub context: Context,
    /// What waits now, filtered or not: rows whose latency is their age.
    pub waiting: Batch,
    /// `Some` while files are being read, with percent where known.
    pub progress: Option<Option<u8>>,
    pub splits: Vec<Field>,
    /// What belongs to a live capture; `None` when files are read.
    pub watch: Option<Watch>,
    pub look: Look,
    /// Whether the time was zoomed so that all of it is seen at first.
    pub fitted: bool,
    pub cursor: Option<Spot>,
    pub anchor: Option<Spot>,
    pub selection: Option<Spot>,
    pub back: Vec<View>,
    pub paused: bool,
    pub panel: Panel,
    /// First line of it that is shown.
    pub panel_from: usize,
    pub editor: Option<(Purpose, Editor)>,
    /// A sentence on the last line until the next key.
    pub said: Option<String>,
    pub size: (usize, usize),
    pub drawn: Drawn,
    pub dirty: bool,
    pub quit: Option<Quit>,
    /// A sequence to send to the terminal.
    pub send: Option<String>,
    pub suspend: bool,
    pub redraw: bool,
    /// The question before the last, should that fail.
    pub before: Option<(Arc<Reading>, Folding, String)>,
    pub fold: Task,
    pub dig: Task,
    pub save: Task,
}

impl App {
    /// Begins to read.
    pub fn new(
        reading: Reading,
        folding: Folding,
        look: Look,
        typed: args::Spectrogram,
        sender: Sender<Message>,
    ) -> App {
        let task = || Task::new(sender.clone());
        let words = typed.input.filter.join(" ");
        let folding = Folding { weight: Weight::Bytes, ..folding };
        let width_ns = super::live::width(&folding);
        let series = HistogramSeries::new(folding.quantity, folding.weight, folding.by.clone(), width_ns);
        let mut app = App {
            watch: reading.live.clone().map(|live| Watch::new(live, &folding)),
            reading: Arc::new(reading),
            series,
            context: Context::new("nothing yet", Clock::unanchored("none")),
            waiting: Batch::new(FieldSet::ALWAYS),
            progress: Some(None),
            splits: Vec::new(),
            look,
            fitted: false,
            cursor: None,
            anchor: None,
            selection: None,
            back: Vec::new(),
            paused: false,
            panel: Panel::None,
            panel_from: 0,
            editor: None,
            said: None,
            size: (80, 24),
            drawn: Drawn::default(),
            dirty: true,
            quit: None,
            send: None,
            suspend: false,
            redraw: false,
            before: None,
            fold: task(),
            dig: task(),
            save: task(),
            typed,
            folding,
            words,
        };
        if app.watch.is_some() {
            app.splits = app.watched_fields(&SPLITS);
            app.begin_watching(sender);
        } else {
            app.ask();
            let reading = Arc::clone(&app.reading);
            std::thread::spawn(move || sender.send(Message::Splits(files::told(&reading, &SPLITS))));
        }
        app
    }

    /// Reads anew, with the present filter and split.
    fn ask(&mut self) {
        let (task, reading, folding) = (self.fold.next(), Arc::clone(&self.reading), self.folding.clone());
        self.progress = Some(None);
        std::thread::spawn(move || files::fold(task, reading, folding));
    }

    /// Takes in what happened.
    pub fn handle(&mut self, message: Message) {
        match message {
            Message::Input(Event::Key(key)) if key.kind != KeyEventKind::Release => self.key(&key),
            Message::Input(Event::Mouse(event)) => self.mouse(event),
            Message::Input(Event::Resize(..)) => self.redraw = true,
            Message::Input(_) => return,
            Message::InputEnded => self.quit = Some(Quit::Clean),
            Message::Signal(signal_hook::consts::SIGTSTP) => self.suspend = true,
            Message::Signal(signal) => self.quit = Some(Quit::Signal(signal)),
            Message::Fed(number, fed) if number == self.fold.number() => {
                let more = matches!(*fed, Fed::More { .. });
                self.fed(*fed);
                if more && self.paused {
                    return;
                }
            }
            Message::Dug(number, dug) if number == self.dig.number() => {
                if let Panel::Dig(_, _, found) = &mut self.panel {
                    *found = Some(dug);
                }
            }
            Message::Fed(..) | Message::Dug(..) => return,
            Message::Splits(fields) => self.splits = fields,
            Message::Over => self.end_watching(),
            Message::Said(text) => self.said = Some(text),
        }
        self.dirty = true;
    }

    fn fed(&mut self, fed: Fed) {
        match fed {
            Fed::Series { series, context, reading } => {
                // What was marked on another map, or on none yet, means nothing on this one.
                let others = series.by != self.series.by || series.width_ns() != self.series.width_ns();
                if others || self.series.slices().is_empty() {
                    (self.cursor, self.anchor, self.selection) = (None, None, None);
                }
                if series.width_ns() != self.series.width_ns() {
                    self.fitted = false;
                    self.look.newest = None;
                }
                (self.series, self.context, self.progress) = (series, context, reading);
                if reading.is_none() {
                    self.before = None;
                    if self.series.slices().is_empty() {
                        self.said = Some(self.nothing());
                    }
                }
            }
            Fed::More { series, context, waiting } => {
                self.waiting = waiting;
                self.take_in(&series, context);
                self.settle_waiting();
            }
            Fed::Failed(failure) => self.failed(failure),
        }
    }

    fn nothing(&self) -> String {
        match self.words.trim() {
            "" => "No events in this trace.".into(),
            words => format!("No event passes the filter {words}; / edits it."),
        }
    }

    /// The first reading failed: the program ends. A later one: what was before stays.
    fn failed(&mut self, failure: Failure) {
        self.progress = None;
        match self.before.take() {
            None => self.quit = Some(Quit::Failed(failure)),
            Some((reading, folding, words)) => {
                let typed = std::mem::replace(&mut self.words, words);
                (self.reading, self.folding) = (reading, folding);
                self.refused(&failure, &typed);
                if self.watch.is_some() {
                    self.capture(None);
                }
            }
        }
    }

    pub fn refused(&mut self, failure: &Failure, typed: &str) {
        let mut lines: Vec<String> = failure.to_string().lines().map(str::to_string).collect();
        lines.push(String::new());
        lines.push(match self.words.trim() {
            "" => "Still without a filter; / edits what was typed.".into(),
            words => format!("Still filtered by: {words}"),
        });
        self.panel = Panel::Text(lines);
        self.editor = Some((Purpose::Filter, Editor::new(typed)));
    }

    fn key(&mut self, key: &KeyEvent) {
        self.said = None;
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
            if let Panel::Splits(at) = self.panel
                && self.choose_split(at, action)
            {
                return;
            }
            self.act(action);
        }
    }

    fn act(&mut self, action: Action) {
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
            Action::Select => self.begin_or_end_selection(),
            Action::Dig => self.dig(),
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
            Action::Redraw => self.redraw = true,
            Action::Suspend => self.suspend = true,
            Action::Quit => self.quit = Some(Quit::Clean),
            Action::QuitLeaving => self.quit = Some(Quit::Leaving),
            look => self.change_look(look),
        }
    }

    fn change_look(&mut self, action: Action) {
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

    fn pause(&mut self) {
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

    fn step_back(&mut self) {
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

    fn begin_or_end_selection(&mut self) {
        if self.anchor.take().is_some() {
            return;
        }
        if self.cursor.is_none() {
            self.cursor = self.middle();
        }
        (self.anchor, self.selection) = (self.cursor, self.cursor);
    }

    /// The selection, or what is under the cursor.
    fn chosen(&mut self) -> Option<Spot> {
        let chosen = self.selection.or(self.cursor);
        if chosen.is_none() {
            self.said = Some("Nothing is selected: move the cursor with the arrows, v begins a selection.".into());
        }
        chosen
    }

    /// The filter that selects a spot, with the one that is in force.
    pub fn filter_of(&self, spot: &Spot) -> String {
        select::both(&self.words, &select::filter(&self.series, spot, &self.context.clock))
    }

    /// What to read for a spot.
    fn narrowed(&self, spot: &Spot) -> Result<Reading, String> {
        let selection = select::filter(&self.series, spot, &self.context.clock);
        let before = self.reading.filter.as_ref().map_or(String::new(), ToString::to_string);
        let filter = select::parsed(&select::both(&before, &selection))?;
        Ok(Reading { filter: Some(filter), ..Reading::clone(&self.reading) })
    }

    pub fn dig(&mut self) {
        let Some(spot) = self.chosen() else { return };
        self.anchor = None;
        self.selection = Some(spot);
        let text = self.filter_of(&spot);
        match self.narrowed(&spot) {
            Ok(reading) => {
                self.panel = Panel::Dig(spot, text, None);
                self.panel_from = 0;
                let task = self.dig.next();
                match &self.watch {
                    Some(_) => self.dig_live(task, reading, &spot),
                    None => drop(std::thread::spawn(move || files::dig(task, reading))),
                }
            }
            Err(message) => self.said = Some(message),
        }
    }

    fn filter(&mut self, text: &str) {
        let text = text.trim();
        self.panel = Panel::None;
        if text == self.words.trim() {
            return;
        }
        let source = self.typed.input.source.filter(|_| self.watch.is_none());
        match plan::filter(&[text.to_string()], source) {
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
    fn anew(&mut self, same_filter: bool) {
        match self.watch {
            Some(_) => self.watch_anew(same_filter),
            None => self.ask(),
        }
    }

    fn remember(&mut self) {
        self.before.get_or_insert_with(|| (Arc::clone(&self.reading), self.folding.clone(), self.words.clone()));
    }

    /// Opens the menu of splits at the present one.
    fn offer_splits(&mut self) {
        if self.splits.is_empty() {
            self.said = Some("These events tell nothing to split the map by.".into());
            return;
        }
        let now = self.folding.by.first().and_then(|first| self.splits.iter().position(|field| field == first));
        (self.panel, self.panel_from) = (Panel::Splits(now.map_or(0, |at| at + 1)), 0);
    }

    /// A key while the menu of splits is open; whether it was one of the menu's.
    fn choose_split(&mut self, at: usize, action: Action) -> bool {
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

    fn split(&mut self, by: Option<Field>) {
        if self.folding.by.iter().eq(by.iter()) {
            return;
        }
        self.said = Some(format!("split by {}", by.map_or("nothing", Field::name)));
        self.remember();
        self.folding.by = by.into_iter().collect();
        self.anew(true);
    }

    fn ask_name(&mut self) {
        if self.chosen().is_some() {
            let name = (1..).map(|number| format!("selection-{number}.lat"));
            let free = name.take(1000).find(|name| !std::path::Path::new(name).exists());
            self.editor = Some((Purpose::Save, Editor::new(&free.unwrap_or_default())));
        }
    }

    fn save(&mut self, name: &str) {
        let Some(spot) = self.chosen().filter(|_| !name.trim().is_empty()) else { return };
        match self.narrowed(&spot) {
            Ok(reading) => {
                let (task, path) = (self.save.next(), std::path::PathBuf::from(name.trim()));
                self.said = Some("saving ...".into());
                match &self.watch {
                    Some(_) => self.save_live(task, reading, path),
                    None => drop(std::thread::spawn(move || files::save(task, reading, &path))),
                }
            }
            Err(message) => self.said = Some(message),
        }
    }

    fn copy(&mut self) {
        let Some(spot) = self.chosen() else { return };
        let command = super::command::events(&self.typed.input, &self.filter_of(&spot));
        self.send = Some(super::command::clipboard(&command));
        self.panel = Panel::Text(vec![
            command,
            String::new(),
            "It is in the clipboard too, where the terminal lets programs put things there.".into(),
        ]);
    }

    /// How to write spots of the present series.
    pub fn in_words(&self) -> Words<'_> {
        let merge = i64::from(self.look.merge.max(1));
        let first_ns = self.series.range().map(|(first, _)| self.series.start_ns(first.div_euclid(merge) * merge));
        let axis_start_ns = self.context.start_ns.or(first_ns).unwrap_or(0);
        let wall = self.look.options.time == latscope_view_term::TimeLabels::Wall;
        Words { series: &self.series, clock: &self.context.clock, axis_start_ns, wall }
    }
}
