//! What is shown of a live capture: its mode, what is kept of it, and what a new filter or split makes of that.

use super::Message;
use super::app::{App, Quit};
use super::files::Task;
use super::live::{self, Kept, Shared, lock};
use crate::Failure;
use crate::plan::{Live, Mode, Reading};
use latscope_capture_bpf::fills;
use latscope_event::{Anomaly, Context, Field, FieldSet, Severity, Tally, format_duration};
use latscope_pipeline::{needs_events, now_ns};
use latscope_series::HistogramSeries;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// A request that waits so long is worth a word on the first line.
const WAITING_NS: u64 = 1_000_000_000;

/// A live capture as the screen knows it.
pub struct Watch {
    live: Live,
    /// Whether the kernel counts; else single events are captured.
    kernel: bool,
    /// Why it has to be events.
    why: Option<String>,
    pub kept: Kept,
    shared: Shared,
    /// What captures that were ended before had lost.
    lost: Tally,
    /// The end of what was captured.
    pub now_ns: i64,
    /// Whether the strips on the map are still those of the split before.
    refold: bool,
    note: Option<String>,
    over: bool,
}

impl Watch {
    pub fn new(live: Live, folding: &crate::plan::Folding) -> Watch {
        let keys = HistogramSeries::new(folding.quantity, folding.weight, live::keys(&live), live::width(folding));
        Watch {
            live,
            kernel: true,
            why: None,
            kept: Kept::Keys(Box::new(keys)),
            shared: Shared::new(&folding.by),
            lost: Tally::default(),
            now_ns: now_ns(),
            refold: false,
            note: None,
            over: false,
        }
    }

    /// Whether this is what it captures.
    pub fn captures(&self, live: &Live) -> bool {
        (self.live.source, self.live.stacks.requests) == (live.source, live.stacks.requests)
    }

    /// What is captured, as it is typed.
    pub fn words(&self) -> String {
        let requests = self.live.stacks.requests;
        format!(
            "-s {}{}{}",
            self.live.source.words(),
            if self.live.stacks.all_threads { " --all-threads" } else { "" },
            requests.map_or(String::new(), |stacks| format!(" --stacks {stacks}"))
        )
    }

    /// What was captured and has to be mentioned beside it.
    pub fn note(&self) -> Option<&str> {
        if self.over { Some("capture is over") } else { self.note.as_deref() }
    }

    /// Mode and what has to be reported, for the first line.
    pub fn state(&self) -> String {
        let mut state = match (self.kernel, &self.why) {
            (true, _) => "histogram mode".to_string(),
            (false, Some(why)) => format!("event mode ({why})"),
            (false, None) => "event mode".to_string(),
        };
        if let Some(note) = &self.note {
            state += &format!("  {note}");
        }
        if self.over {
            state += "  capture is over";
        }
        state
    }

    /// What waits, when it waits long.
    pub fn waiting(&self, context: &Context) -> Option<String> {
        let oldest = context.unfinished.first().filter(|oldest| oldest.at_least_ns >= WAITING_NS)?;
        Some(format!("in flight at least {}: {}", format_duration(oldest.at_least_ns), oldest.what))
    }
}

impl App {
    /// Those of these fields that the source knows.
    pub fn watched_fields(&self, asked: &[Field]) -> Vec<Field> {
        let Some(watch) = &self.watch else { return Vec::new() };
        asked.iter().copied().filter(|&field| fills(watch.live.source).contains(field)).collect()
    }

    pub fn start_watching(&mut self, sender: Sender<Message>) {
        let Some(watch) = &self.watch else { return };
        if let Some(ns) = watch.live.for_ns {
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_nanos(ns));
                sender.send(Message::Over)
            });
        }
        (self.fitted, self.progress) = (true, None);
        if self.choose_mode() {
            self.capture(None);
        }
    }

    /// Whether there is a mode for the present question; else the program ends.
    pub fn choose_mode(&mut self) -> bool {
        let mode = self.mode();
        mode.map_err(|failure| self.quit = Some(Quit::Failed(failure))).is_ok()
    }

    /// Finds out in which mode the present question is answered; returns whether it is another one.
    fn mode(&mut self) -> Result<bool, Failure> {
        let needed = match &self.watch {
            Some(watch) => needs_events(&self.reading, &watch.live, &self.folding),
            None => None,
        };
        let Some(watch) = &mut self.watch else { return Ok(false) };
        let kernel = match (watch.live.mode, &needed) {
            (Mode::Histogram, Some(why)) => {
                return Err(Failure::Usage(format!("Histogram mode cannot be used: {why}.")));
            }
            (Mode::Event, _) | (_, Some(_)) => false,
            (_, None) => true,
        };
        watch.why = needed;
        Ok(std::mem::replace(&mut watch.kernel, kernel) != kernel)
    }

    /// Starts to capture, in place of what captured before, up to `since`.
    pub fn capture(&mut self, since: Option<i64>) {
        let Some(watch) = &mut self.watch else { return };
        let lost = self.context.tally.iter().filter(|(anomaly, _)| anomaly.severity() == Severity::Lost);
        let lost: Vec<(Anomaly, u64)> = lost.collect();
        watch.lost = Tally::default();
        lost.into_iter().for_each(|(anomaly, count)| watch.lost.add(anomaly, count));
        match (watch.kernel, &watch.kept) {
            (true, Kept::Events(_)) => {
                let empty = HistogramSeries::new(
                    self.series.quantity,
                    self.series.weight,
                    live::keys(&watch.live),
                    live::width(&self.folding),
                );
                watch.kept = Kept::Keys(Box::new(empty));
            }
            (false, Kept::Keys(_)) => {
                watch.shared = Shared::new(&self.folding.by);
                watch.kept = Kept::Events(Arc::clone(&watch.shared.recent));
            }
            _ => {}
        }
        let shared = (!watch.kernel).then(|| watch.shared.clone());
        let (task, reading, folding) = (self.fold.next(), Arc::clone(&self.reading), self.folding.clone());
        let more = self.table.fields();
        std::thread::spawn(move || live::capture(task, reading, folding, more, shared, since));
    }

    /// Adds what was captured.
    pub fn take_in(&mut self, more: &HistogramSeries, mut context: Context) {
        let Some(watch) = &mut self.watch else { return };
        watch.now_ns = now_ns().max(watch.now_ns);
        context.tally.merge(&watch.lost);
        self.context = context;
        self.before = None;
        let added = match &mut watch.kept {
            Kept::Keys(keys) => {
                let merged = keys.merge(more).map_err(|error| Failure::Input(format!("{error}.")));
                live::bound(keys);
                merged.and_then(|()| live::folded(more, &self.reading, &self.folding.by, &self.context))
            }
            Kept::Events(_) if more.by != self.folding.by => return,
            Kept::Events(_) => Ok(more.clone()),
        };
        if self.series.slices().is_empty() {
            // What was marked on the empty map means nothing on this one.
            (self.cursor, self.anchor, self.selection) = (None, None, None);
        }
        // The kept events hold these already.
        if std::mem::take(&mut watch.refold) {
            self.refold(true);
            return;
        }
        let merged =
            added.and_then(|added| self.series.merge(&added).map_err(|error| Failure::Input(format!("{error}."))));
        match merged {
            Err(failure) => self.quit = Some(Quit::Failed(failure)),
            Ok(()) => {
                if live::bound(&mut self.series) {
                    self.shortened();
                }
            }
        }
    }

    fn shortened(&mut self) {
        let Some((first, _)) = self.series.range() else { return };
        let from = self.in_words().moment(self.series.start_ns(first));
        if let Some(watch) = &mut self.watch {
            watch.note = Some(format!("history since {from}"));
        }
    }

    /// Another filter or split.
    pub fn watch_anew(&mut self, same_filter: bool) {
        let changed = match self.mode() {
            Ok(changed) => changed,
            Err(failure) => {
                self.take_back(&failure);
                return;
            }
        };
        let asks_by_name = self.folding.by.iter().any(|&field| FieldSet::BY_NAME.contains(field));
        let Some(watch) = &mut self.watch else { return };
        if changed && watch.kernel {
            // The events that were kept know any split of the time before; the kernel's keys start anew.
            self.refold(same_filter);
            self.capture(Some(now_ns()));
        } else if changed {
            // What the kernel counted by its keys says nothing about other fields.
            self.capture(Some(now_ns()));
            self.refold(same_filter);
        } else if watch.kernel {
            self.refold(same_filter);
        } else if same_filter && !asks_by_name {
            (*lock(&watch.shared.by)).clone_from(&self.folding.by);
            watch.refold = true;
        } else {
            self.capture(Some(now_ns()));
            self.refold(same_filter);
        }
    }

    fn take_back(&mut self, failure: &Failure) {
        if let Some((reading, folding, words)) = self.before.take() {
            let typed = std::mem::replace(&mut self.words, words);
            (self.reading, self.folding) = (reading, folding);
            self.refused(failure, &typed);
        }
    }

    /// Makes the map anew from what is kept.
    fn refold(&mut self, same_filter: bool) {
        let Some(watch) = &self.watch else { return };
        let folded =
            live::refolded(&watch.kept, &self.series, &self.reading, &self.folding, &self.context, same_filter);
        match folded {
            Err(failure) => self.take_back(&failure),
            Ok((series, from)) => {
                self.series = series;
                (self.cursor, self.anchor, self.selection) = (None, None, None);
                let note = from.map(|from| {
                    let what = if same_filter { "split" } else { "filter" };
                    format!("{what} from {} on", self.in_words().moment(from))
                });
                if let Some(watch) = &mut self.watch {
                    watch.note = note;
                }
            }
        }
    }

    /// Histogram mode or event mode, where there is a choice.
    pub fn switch_mode(&mut self) {
        let Some(watch) = &mut self.watch else {
            self.notice = Some("Histogram mode and event mode are for live captures only.".into());
            return;
        };
        let needed = needs_events(&self.reading, &watch.live, &self.folding);
        if let (false, Some(why)) = (watch.kernel, &needed) {
            self.notice = Some(format!("Histogram mode cannot be used: {why}."));
            return;
        }
        watch.live.mode = if watch.kernel { Mode::Event } else { Mode::Auto };
        watch.kernel = !watch.kernel;
        watch.note = None;
        self.notice = Some(match watch.kernel {
            true => "histogram mode: the kernel counts; single events are not captured".into(),
            false => "event mode: every event is captured; Enter digs into events from now on".into(),
        });
        self.capture(None);
    }

    pub fn end_watching(&mut self) {
        self.fold.stop();
        if let Some(watch) = &mut self.watch {
            watch.over = true;
        }
    }

    /// Saves what is kept of a live capture.
    pub fn save_live(&mut self, task: Task, reading: Reading, path: PathBuf) {
        let Some(watch) = &self.watch else { return };
        match &watch.kept {
            Kept::Events(recent) => {
                let (recent, context) = (Arc::clone(recent), self.context.clone());
                std::thread::spawn(move || live::save(task, &reading, &context, &recent, &path));
            }
            Kept::Keys(_) => {
                self.notice = Some("Histogram mode has no individual events to save; m switches to event mode.".into());
            }
        }
    }
}
