//! From one unusual spot to the next, as `latscope explain` without a selection finds them.

use super::Message;
use super::app::{App, Panel};
use super::dig::{SEED, kept, send};
use super::files::Task;
use super::live::Kept;
use super::view::folded;
use crate::Failure;
use crate::plan::Reading;
use latscope_event::Context;
use latscope_pipeline::Question;
use latscope_series::Quantity;
use latscope_series::explain::{Part, Spot as Unusual};
use latscope_view_term::{Line, Spot, SpotsView};
use std::sync::Arc;

/// What is unusual, and all events that were looked at.
#[derive(Clone, Debug)]
pub struct Found {
    pub spots: Vec<Unusual>,
    pub total: Part,
    pub context: Context,
}

/// The spots of what is on the map.
pub struct Spots {
    pub task: Task,
    found: Option<Box<Found>>,
    /// Which of them is shown.
    at: usize,
    is_searching: bool,
}

impl Spots {
    /// None known.
    pub fn new(task: Task) -> Spots {
        Spots { task, found: None, at: 0, is_searching: false }
    }

    /// The events are others now.
    pub fn forget(&mut self) {
        self.task.stop();
        (self.found, self.is_searching) = (None, false);
    }
}

impl App {
    /// Goes to the next spot or the one before. They are looked for the first time, and after the last one of a live capture.
    pub fn show_spot(&mut self, next: bool) {
        let Some(found) = &self.spots.found else { return self.find_spots() };
        let count = found.spots.len();
        let is_last = next && self.spots.at + 1 >= count;
        if count == 0 || is_last && self.watch.is_some() {
            return self.find_spots();
        }
        self.spots.at = (self.spots.at + if next { 1 } else { count - 1 }) % count;
        self.mark_spot();
    }

    fn find_spots(&mut self) {
        if self.spots.is_searching {
            return;
        }
        let (task, reading) = (self.spots.task.next(), Reading::clone(&self.reading));
        match self.watch.as_ref().map(|watch| &watch.kept) {
            None => drop(std::thread::spawn(move || send(&task, in_files(&task, reading), Message::Spots))),
            Some(Kept::Events(recent)) => {
                let (recent, context) = (Arc::clone(recent), self.context.clone());
                std::thread::spawn(move || {
                    let question = Question { seed: SEED, ..Question::default() };
                    let compared = kept(&reading, &question, &context, &recent);
                    let found = compared.map(|mut compared| {
                        let (spots, total) = (compared.spots(), compared.table().total());
                        Box::new(Found { spots, total, context: context.clone() })
                    });
                    send(&task, found, Message::Spots)
                });
            }
            Some(Kept::Keys(_)) => {
                self.notice = Some("Histogram mode has no individual events; m switches to event mode.".into());
                return;
            }
        }
        self.spots.is_searching = true;
        self.notice = Some("looking for unusual events ...".into());
    }

    /// Takes in what was found, and shows the first.
    pub fn found_spots(&mut self, found: Result<Box<Found>, String>) {
        self.spots.is_searching = false;
        self.notice = None;
        match found {
            Err(message) => self.notice = Some(message),
            Ok(found) if found.spots.is_empty() => self.notice = Some("Nothing unusual was found.".into()),
            Ok(found) => {
                (self.spots.found, self.spots.at) = (Some(found), 0);
                self.mark_spot();
            }
        }
    }

    /// Selects the box of the shown spot, and opens its panel.
    fn mark_spot(&mut self) {
        let Some(found) = &self.spots.found else { return };
        let (number, count) = (self.spots.at + 1, found.spots.len());
        let Some(spot) = found.spots.get(self.spots.at) else { return };
        let width = self.series.width_ns() as i64;
        let grid = self.series.grid();
        let (first, last) = spot.span_ns;
        // Of a map of something else, all values.
        let (low, high) = match (self.series.quantity, spot.latency_ns) {
            (Quantity::Latency, [low, _, high]) => (grid.lower(grid.index(low)), grid.upper(grid.index(high))),
            _ => (0, u64::MAX),
        };
        let marked = Spot {
            from_ns: first.div_euclid(width) * width,
            to_ns: (last.div_euclid(width) + 1) * width,
            low,
            high,
            group: None,
        };
        self.anchor = None;
        (self.selection, self.panel, self.panel_from) = (Some(marked), Panel::Spot, 0);
        self.notice = Some(format!("spot {number} of {count}: n next  N previous  z zoom  Enter dig  Esc close"));
    }

    /// The panel of the shown spot.
    pub fn spot_lines(&self, columns: usize) -> Vec<Line> {
        let Some(found) = &self.spots.found else { return Vec::new() };
        let view = SpotsView {
            spots: &found.spots,
            total: found.total,
            within: String::new(),
            waits: None,
            quantity: Quantity::Latency,
            seed: SEED,
        };
        let lines =
            found.spots.get(self.spots.at).map(|spot| view.spot(self.spots.at + 1, spot, &found.context, columns));
        // The filter is to be copied, so the view leaves it in one piece.
        lines.unwrap_or_default().iter().flat_map(|line| folded(&line.text(), columns)).collect()
    }
}

fn in_files(task: &Task, reading: Reading) -> Result<Box<Found>, Failure> {
    let question = Question { seed: SEED, ..Question::default() };
    let mut compared = task.open(reading)?.compare(&question)?;
    task.wanted(())?;
    let context = Context::merged(&compared.contexts);
    let (spots, total) = (compared.spots(), compared.table().total());
    Ok(Box::new(Found { spots, total, context }))
}
