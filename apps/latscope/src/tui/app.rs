//! What is shown and asked for, and what every key, click and answer does to it. Nothing here touches the terminal.

use super::dig::Dug;
use super::edit::Editor;
use super::files::{self, Task};
use super::select::Words;
use super::sources::Chosen;
use super::spots::Spots;
use super::stacks::Stacked;
use super::table::{Shown, Table};
use super::watch::Watch;
use super::{Fed, Message};
use crate::Failure;
use crate::plan::{Folding, Reading, Spectrogram};
use crossterm::event::{Event, KeyEventKind};
use latscope_event::{Batch, Clock, Context, Field, FieldSet};
use latscope_series::{HistogramSeries, Weight};
use latscope_view_term::{Drawn, Look, Spot};
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// The fields by which the map can be split, in the order of the key.
pub const SPLITS: [Field; 15] = [
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
    Field::Stage,
    Field::Executor,
    Field::WaitClass,
    Field::State,
    Field::Tags,
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
    /// An unusual spot.
    Spot,
    /// Which group is not like the others: tables, or a sentence; `None` until that is known.
    Different(Option<Result<String, String>>),
    /// What is in a selection.
    Dig(Box<Dug>),
    /// Its call stacks.
    Stacks(Box<Stacked>),
    /// What may be captured.
    Sources(Chosen),
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
    pub plan: Spectrogram,
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
    /// The stacks of all that is captured, which may be shown in place of the map.
    pub table: Table,
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
    pub notice: Option<String>,
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
    pub spots: Spots,
    pub save: Task,
}

impl App {
    /// Starts to read.
    pub fn new(reading: Reading, look: Look, plan: Spectrogram, shown: Option<Shown>, sender: Sender<Message>) -> App {
        let task = || Task::new(sender.clone());
        let words = plan.words.clone();
        let folding = Folding { weight: Weight::Bytes, ..plan.folding.clone() };
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
            notice: None,
            size: (80, 24),
            drawn: Drawn::default(),
            dirty: true,
            quit: None,
            send: None,
            suspend: false,
            redraw: false,
            before: None,
            fold: task(),
            table: Table::new(shown, task()),
            dig: task(),
            spots: Spots::new(task()),
            save: task(),
            plan,
            folding,
            words,
        };
        if app.watch.is_some() {
            app.splits = app.watched_fields(&SPLITS);
            app.start_watching(sender);
        } else {
            app.ask();
            let reading = Arc::clone(&app.reading);
            std::thread::spawn(move || sender.send(Message::Splits(files::present(&reading, &SPLITS))));
        }
        app
    }

    /// Reads anew, with the present filter and split.
    pub fn ask(&mut self) {
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
            Message::Dug(number, digest) if number == self.dig.number() => {
                if let Panel::Dig(dug) = &mut self.panel {
                    dug.digest = Some(digest);
                }
            }
            Message::Ranked(number, explained) if number == self.dig.number() => {
                if let Panel::Dig(dug) = &mut self.panel {
                    dug.explained = Some(explained);
                }
            }
            Message::Stacked(number, found) if number == self.dig.number() => {
                if let Panel::Stacks(stacked) = &mut self.panel {
                    stacked.found = Some(found);
                }
            }
            Message::Tabled(number, found) if number == self.table.number() => {
                self.table.take(found);
                if self.paused {
                    return;
                }
            }
            Message::Different(number, found) if number == self.dig.number() => {
                if let Panel::Different(shown) = &mut self.panel {
                    *shown = Some(found);
                }
            }
            Message::Spots(number, found) if number == self.spots.task.number() => self.found_spots(found),
            Message::Fed(..)
            | Message::Dug(..)
            | Message::Ranked(..)
            | Message::Stacked(..)
            | Message::Tabled(..)
            | Message::Different(..)
            | Message::Spots(..) => return,
            Message::Splits(fields) => self.splits = fields,
            Message::Over => self.end_watching(),
            Message::Notice(text) => self.notice = Some(text),
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
                        self.notice = Some(self.nothing());
                    }
                }
            }
            Fed::More { series, context, waiting } => {
                self.waiting = waiting;
                self.take_in(&series, context);
                self.settle_waiting();
                self.renew_table(false);
            }
            Fed::Failed(failure) => self.failed(failure),
        }
    }

    fn nothing(&self) -> String {
        match self.words.trim() {
            "" => "No events in this trace.".into(),
            words => format!("No event passes the filter {words}; press / to edit it."),
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
                match self.returns_to_source() {
                    true => self.panel = Panel::Text(failure.to_string().lines().map(str::to_string).collect()),
                    false => self.refused(&failure, &typed),
                }
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
            "" => "Still without a filter; press / to edit what you typed.".into(),
            words => format!("Still filtered by: {words}"),
        });
        self.panel = Panel::Text(lines);
        self.editor = Some((Purpose::Filter, Editor::new(typed)));
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
