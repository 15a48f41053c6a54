//! Digging: what is in a selection, and what sets it apart from all other events, as `latscope explain` finds it.

use super::Message;
use super::app::{App, Panel};
use super::digest::Digest;
use super::files::{Task, each_batch};
use super::live::{self, Kept, each_kept, lock};
use super::recent::Recent;
use super::select;
use super::view::folded;
use crate::Failure;
use crate::plan::Reading;
use latscope_event::{Context, format_count};
use latscope_filter::Filter;
use latscope_pipeline::{Compared, Explained, Question};
use latscope_series::HistogramSeries;
use latscope_view_term::{ExplanationView, Line, Spot, readout};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

/// As `latscope explain` has it without `--seed`.
pub const SEED: u64 = 1;

/// What was found out about a selection so far.
#[derive(Clone, Debug)]
pub struct Dug {
    spot: Spot,
    /// What selects its events.
    filter: String,
    pub digest: Option<Result<Digest, String>>,
    pub explained: Option<Result<Box<Explained>, String>>,
}

/// What a thread looks for.
struct Search {
    /// What is on the map.
    shown: Reading,
    /// What is in the selection.
    narrowed: Reading,
    question: Question,
}

impl Dug {
    pub fn spot(&self) -> &Spot {
        &self.spot
    }

    pub fn filter(&self) -> &str {
        &self.filter
    }
}

impl App {
    pub fn dig(&mut self) {
        let Some(spot) = self.chosen() else { return };
        self.anchor = None;
        self.selection = Some(spot);
        let selection = select::parsed(&select::filter(&self.series, &spot, &self.context.clock));
        match selection.and_then(|selection| Ok((selection, self.narrowed(&spot)?))) {
            Ok((selection, narrowed)) => {
                let dug = Dug { spot, filter: self.filter_of(&spot), digest: None, explained: None };
                self.panel = Panel::Dig(Box::new(dug));
                self.panel_from = 0;
                self.search(&spot, selection, narrowed);
            }
            Err(message) => self.notice = Some(message),
        }
    }

    fn search(&mut self, spot: &Spot, selection: Filter, narrowed: Reading) {
        let task = self.dig.next();
        let question = Question { selection: Some(selection), seed: SEED, ..Question::default() };
        let search = Search { shown: Reading::clone(&self.reading), narrowed, question };
        let Some(watch) = &self.watch else {
            std::thread::spawn(move || in_files(&task, search));
            return;
        };
        match &watch.kept {
            Kept::Events(recent) => {
                let from = lock(recent).complete_from_ns();
                if spot.from_ns < from {
                    let from = self.in_words().moment_exact(from);
                    self.notice = Some(format!("Single events are kept since {from}; the panel shows those."));
                }
                let (recent, context) = (Arc::clone(recent), self.context.clone());
                std::thread::spawn(move || in_kept(&task, &search, &context, &recent));
            }
            Kept::Keys(keys) => {
                let digest = self.dig_keys(keys, spot);
                self.notice = Some("Histogram mode has no individual events; m switches to event mode.".into());
                if let Panel::Dig(dug) = &mut self.panel {
                    dug.digest = Some(digest);
                    dug.explained = Some(Err("Only individual events can be compared with all others.".into()));
                }
            }
        }
    }

    /// What the kernel's keys give about a spot.
    fn dig_keys(&self, keys: &HistogramSeries, spot: &Spot) -> Result<Digest, String> {
        let before = self.reading.filter.as_ref().map_or(String::new(), ToString::to_string);
        let filter = match select::group_filter(&self.series, spot) {
            Some(strip) => Some(select::parsed(&select::both(&before, &strip))?),
            None => self.reading.filter.clone(),
        };
        let reading = Reading { filter, ..Reading::clone(&self.reading) };
        let mut digest = Digest::default();
        for &field in &keys.by {
            let series =
                live::folded(keys, &reading, &[field], &self.context).map_err(|failure| failure.to_string())?;
            digest.count = 0;
            for group in 0..series.groups().len() as u32 {
                let sum = readout(&series, &Spot { group: Some(group), ..*spot });
                digest.count += sum.count;
                if sum.count > 0 {
                    digest.add_value(field, &series.group_name(group), sum.count);
                }
            }
        }
        Ok(digest)
    }

    /// The panel, within so many columns; a screen of so many rows shows most of it at once.
    pub fn dug_lines(&self, dug: &Dug, columns: usize, rows: usize) -> Vec<Line> {
        let words = self.in_words();
        let mut lines = folded(&words.place(&dug.spot), columns);
        lines.extend(folded(&format!("filter: {}", dug.filter), columns));
        let digest = match &dug.digest {
            None => {
                let sum = readout(&self.series, &dug.spot);
                lines.push(Line::new(&format!("{} events, looking closer ...", format_count(sum.count))));
                return lines;
            }
            Some(Err(message)) => {
                lines.extend(folded(message, columns));
                return lines;
            }
            Some(Ok(digest)) => digest,
        };
        lines.push(Line::new(&digest.summary()));
        lines.push(Line::default());
        match &dug.explained {
            None => lines.push(Line::new("comparing with all other events ...")),
            Some(Err(message)) => lines.extend(folded(message, columns)),
            Some(Ok(explained)) => lines.extend(ranking(explained, columns)),
        }
        lines.push(Line::default());
        let room = rows.saturating_sub(lines.len() + 1).max(12);
        lines.extend(digest.lines(columns, room, |ns| words.moment_exact(ns)));
        lines.push(Line::new("s stacks  z zoom  e save  y copy the command  Esc close"));
        lines
    }
}

/// What sets a selection apart, the best first.
fn ranking(explained: &Explained, columns: usize) -> Vec<Line> {
    let Explained { explanation, is_inverted } = explained;
    let (selection, baseline, within) = (String::new(), String::new(), String::new());
    let view = ExplanationView {
        explanation,
        selection,
        baseline,
        within,
        is_inverted: *is_inverted,
        waits: None,
        seed: SEED,
    };
    view.ranking(columns)
}

/// Reads the files again: the selection, then everything.
fn in_files(task: &Task, search: Search) {
    let mut digest = Digest::default();
    let done = each_batch(task, search.narrowed, Digest::fields(), |_, batch, mask| {
        digest.add(batch, mask);
        ControlFlow::Continue(())
    });
    let is_read = send(task, done.map(|_| digest), Message::Dug);
    if is_read {
        let compared = task.open(search.shown).and_then(|pipeline| {
            let compared = pipeline.compare(&search.question)?;
            task.wanted(compared)
        });
        send(task, compared.map(|mut compared| Box::new(compared.explained())), Message::Ranked);
    }
}

/// Looks through the events that a capture has kept.
fn in_kept(task: &Task, search: &Search, context: &Context, recent: &Mutex<Recent>) {
    let mut digest = Digest::default();
    let done = each_kept(&search.narrowed, context, recent, |batch, mask| {
        digest.add(batch, mask);
        ControlFlow::Continue(())
    });
    if send(task, done.map(|()| digest), Message::Dug) {
        let compared = kept(&search.shown, &search.question, context, recent);
        send(task, compared.map(|mut compared| Box::new(compared.explained())), Message::Ranked);
    }
}

/// The events that a capture has kept, on their sides.
pub fn kept<'a>(
    reading: &Reading,
    question: &'a Question,
    context: &Context,
    recent: &Mutex<Recent>,
) -> Result<Compared<'a>, Failure> {
    // They were counted from the queue, where that was asked for, before they were kept.
    let reading = Reading { from_queue: false, ..reading.clone() };
    Ok(Compared::of_kept(question, &reading, context, lock(recent).batches())?)
}

/// Sends what was found; false if it failed, or if nobody wants it any more.
pub fn send<T>(task: &Task, found: Result<T, Failure>, message: fn(u64, Result<T, String>) -> Message) -> bool {
    let (is_found, found) = match found {
        Ok(found) => (true, Ok(found)),
        Err(Failure::Closed) => return false,
        Err(failure) => (false, Err(failure.to_string())),
    };
    is_found & task.sender.send(message(task.number(), found)).is_ok()
}
