//! Which host of a hub, or value of the split, is not like the others, as `summary --different` finds it.

use super::Message;
use super::app::{App, Panel};
use super::files::Task;
use super::view::folded;
use crate::Failure;
use crate::plan::{Folding, Reading};
use latscope_event::Field;
use latscope_series::{HistogramSeries, Weight, different};
use latscope_view_term::{Line, different_table};

/// Into so many intervals the time is cut, of which windows are made.
const INTERVALS: u32 = 60;

impl App {
    /// Hosts where there are some, separately for each value of the split; else the values of the split.
    pub fn show_different(&mut self) {
        if matches!(self.panel, Panel::Different(_)) {
            self.dig.stop();
            self.panel = Panel::None;
            return;
        }
        let mut by = self.folding.by.clone();
        if self.watch.is_none() && self.splits.contains(&Field::Host) && by.first() != Some(&Field::Host) {
            by.insert(0, Field::Host);
        }
        if by.is_empty() {
            self.notice = Some("Press b to split the map first, by device or process: d compares these.".into());
            return;
        }
        let task = self.dig.next();
        self.panel_from = 0;
        if self.watch.is_some() {
            self.panel = Panel::Different(Some(Ok(tables(&self.series))));
            return;
        }
        self.panel = Panel::Different(None);
        let reading = Reading::clone(&self.reading);
        let folding = Folding { weight: Weight::Count, interval: None, by, ..self.folding.clone() };
        std::thread::spawn(move || {
            let found = match compared(&task, reading, &folding) {
                Err(Failure::Closed) => return,
                found => found.map_err(|failure| failure.to_string()),
            };
            let _ = task.sender.send(Message::Different(task.number(), found));
        });
    }
}

fn compared(task: &Task, reading: Reading, folding: &Folding) -> Result<String, Failure> {
    let (series, _) = task.open(reading)?.series(folding, INTERVALS)?;
    task.wanted(tables(&series))
}

fn tables(series: &HistogramSeries) -> String {
    let families = different(series, 0, None);
    families.iter().map(|peers| different_table(peers, &series.by)).collect::<Vec<_>>().join("\n")
}

/// As lines of a panel: rows of tables are cut, sentences are wrapped.
pub fn different_lines(found: Option<&Result<String, String>>, columns: usize) -> Vec<Line> {
    match found {
        None => vec![Line::new("comparing ...")],
        Some(Ok(text)) if text.is_empty() => vec![Line::new("No events to compare.")],
        Some(Err(sentence)) => sentence.lines().flat_map(|line| folded(line, columns)).collect(),
        Some(Ok(text)) => text
            .lines()
            .map(|row| {
                let mut line = Line::new(row);
                line.truncate(columns, true);
                line
            })
            .collect(),
    }
}
