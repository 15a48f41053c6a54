//! What a live capture captures, chosen while it runs.

use super::app::{App, Panel, SPLITS};
use super::keys::Action;
use super::view::entry;
use super::watch::Watch;
use crate::plan::{Live, Reading};
use latscope_capture_bpf::{RequestStacks, Requests, Source, StackKinds, StackOptions, fills};
use latscope_pipeline::now_ns;
use latscope_series::HistogramSeries;
use latscope_view_term::Line;
use std::sync::Arc;

/// The sources with their words behind `-s`: at most one of the first three, and any of stacks beside it; the last is `--stacks slow`.
const SOURCES: [(&str, &str); 7] = [
    ("block", "requests to block devices"),
    ("io", "system calls that do I/O, and requests of io_uring"),
    ("syscall", "all system calls"),
    ("stacks", "stacks of waiting threads, sampled"),
    ("offcpu", "stacks of waits, each timed by the scheduler"),
    ("oncpu", "stacks of running threads, sampled"),
    ("slow", "stacks of slow block requests, with block"),
];

/// What is chosen to be captured, and the line of the list that the keys act on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chosen {
    at: usize,
    source: Source,
    /// Which block requests have stacks.
    stacks: Option<RequestStacks>,
}

impl App {
    /// Opens the list of sources.
    pub fn offer_sources(&mut self) {
        match &self.reading.live {
            None => self.notice = Some("Sources are for live captures; a file has what was recorded.".into()),
            Some(live) => {
                let chosen = Chosen { at: 0, source: live.source, stacks: live.stacks.requests };
                (self.panel, self.panel_from) = (Panel::Sources(chosen), 0);
            }
        }
    }

    /// A key while the list of sources is open; whether it was one of the list's.
    pub fn choose_source(&mut self, chosen: Chosen, action: Action) -> bool {
        let last = SOURCES.len() - 1;
        self.panel = Panel::Sources(match action {
            Action::Down | Action::Sources => Chosen { at: if chosen.at < last { chosen.at + 1 } else { 0 }, ..chosen },
            Action::Up => Chosen { at: chosen.at.checked_sub(1).unwrap_or(last), ..chosen },
            Action::Pause => chosen.toggled(),
            Action::Dig => {
                self.panel = Panel::None;
                self.watch_source(chosen);
                return true;
            }
            _ => return false,
        });
        true
    }

    /// Captures something else from now on, on a map of its own.
    fn watch_source(&mut self, Chosen { source, stacks, .. }: Chosen) {
        let is_other = |live: &Live| (live.source, live.stacks.requests) != (source, stacks);
        let Some(live) = self.reading.live.clone().filter(is_other) else { return };
        let calls = live.calls.clone().filter(|_| matches!(source.alone(), Source::Io | Source::Syscall));
        let stacks = StackOptions { requests: stacks, ..live.stacks };
        self.remember();
        self.reading =
            Arc::new(Reading { live: Some(Live { source, calls, stacks, ..live }), ..Reading::clone(&self.reading) });
        self.start_anew();
        self.capture(Some(now_ns()));
    }

    /// An empty map of the source that the reading has.
    pub fn start_anew(&mut self) {
        let Some(live) = self.reading.live.clone() else { return };
        self.spots.forget();
        let known = fills(live.source);
        self.splits = SPLITS.into_iter().filter(|&field| known.contains(field)).collect();
        self.folding.by.retain(|&field| known.contains(field));
        self.watch = Some(Watch::new(live, &self.folding));
        let width_ns = super::live::width(&self.folding);
        self.series =
            HistogramSeries::new(self.folding.quantity, self.folding.weight, self.folding.by.clone(), width_ns);
        (self.cursor, self.anchor, self.selection, self.look.newest) = (None, None, None, None);
        self.table.forget();
        self.choose_mode();
    }

    /// Whether what failed is another source; then the one before goes on.
    pub fn returns_to_source(&mut self) -> bool {
        let is_other = match (&self.reading.live, &self.watch) {
            (Some(live), Some(watch)) => !watch.captures(live),
            _ => false,
        };
        if is_other {
            self.start_anew();
        }
        is_other
    }
}

impl Chosen {
    /// The list, with the line that the keys act on.
    pub fn lines(self, columns: usize) -> Vec<Line> {
        let mut lines = vec![Line::new("Capture: (arrows, Space toggles, Enter captures, Esc closes)")];
        for (place, (word, meaning)) in SOURCES.iter().enumerate() {
            let mark = if self.is_on(place) { "x" } else { " " };
            lines.push(entry(&format!("[{mark}] {word:<9}{meaning}"), place == self.at, columns));
        }
        lines
    }

    fn requests(self) -> Option<Requests> {
        match self.source {
            Source::Block => Some(Requests::Block),
            Source::Io => Some(Requests::Io),
            Source::Syscall => Some(Requests::Syscall),
            Source::Beside(requests, _) => Some(requests),
            Source::Stacks(_) => None,
        }
    }

    fn is_on(self, place: usize) -> bool {
        let kinds = self.source.stacks().unwrap_or_default();
        match place {
            0..3 => self.requests() == Some(REQUESTS[place]),
            3 => kinds.sampled,
            4 => kinds.off_cpu,
            5 => kinds.on_cpu,
            _ => self.stacks.is_some(),
        }
    }

    /// With its line switched. Something is captured still: the last one stays on.
    fn toggled(self) -> Chosen {
        let (mut requests, mut stacks) = (self.requests(), self.stacks);
        let mut kinds = self.source.stacks().unwrap_or_default();
        match self.at {
            at @ 0..3 => requests = Some(REQUESTS[at]).filter(|&chosen| requests != Some(chosen)),
            3 => kinds.sampled = !kinds.sampled,
            4 => kinds.off_cpu = !kinds.off_cpu,
            5 => kinds.on_cpu = !kinds.on_cpu,
            _ if stacks.is_some() => stacks = None,
            _ => (requests, stacks) = (Some(Requests::Block), Some(RequestStacks::SLOW)),
        }
        let source = match (requests, kinds == StackKinds::default()) {
            (None, true) => return self,
            (None, false) => Source::Stacks(kinds),
            (Some(requests), true) => requests.source(),
            (Some(requests), false) => Source::Beside(requests, kinds),
        };
        Chosen { source, stacks: stacks.filter(|_| requests == Some(Requests::Block)), ..self }
    }
}

/// The first lines of the list.
const REQUESTS: [Requests; 3] = [Requests::Block, Requests::Io, Requests::Syscall];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_combine_with_each_other_and_with_one_kind_of_requests() {
        let on = |chosen: Chosen| (0..SOURCES.len()).filter(|&at| chosen.is_on(at)).collect::<Vec<_>>();
        let start = Chosen { at: 0, source: Source::Io, stacks: None };
        let with = |chosen: Chosen, places: &[usize]| {
            places.iter().fold(chosen, |chosen, &at| Chosen { at, ..chosen }.toggled())
        };
        for (places, expected) in [
            (&[][..], &[1][..]),
            (&[1], &[1]), // something is captured
            (&[0], &[0]),
            (&[3, 5], &[1, 3, 5]),
            (&[3, 5, 1], &[3, 5]),
            (&[3, 5, 1, 3, 5], &[5]),
            (&[4, 2], &[2, 4]),
            (&[6], &[0, 6]),
            (&[6, 3], &[0, 3, 6]),
            (&[6, 6], &[0]),
            (&[6, 1], &[1]), // only block requests have them
            (&[3, 6, 0], &[3]),
        ] {
            assert_eq!(on(with(start, places)), expected, "{places:?}");
        }
    }
}
