//! What a live capture captures, chosen while it runs.

use super::app::{App, Panel, SPLITS};
use super::keys::Action;
use super::view::marked;
use super::watch::Watch;
use crate::plan::{Live, Reading};
use latscope_capture_bpf::{Source, StackKinds, fills};
use latscope_pipeline::now_ns;
use latscope_series::HistogramSeries;
use latscope_view_term::Line;
use std::sync::Arc;

/// The sources with their words behind `-s`; those of stacks run together.
const SOURCES: [(&str, &str); 6] = [
    ("block", "requests to block devices"),
    ("io", "system calls that do I/O, and requests of io_uring"),
    ("syscall", "all system calls"),
    ("stacks", "stacks of waiting threads, sampled"),
    ("offcpu", "stacks of waits, each timed by the scheduler"),
    ("oncpu", "stacks of running threads, sampled"),
];

impl App {
    /// Opens the list of sources.
    pub fn offer_sources(&mut self) {
        match &self.reading.live {
            None => self.notice = Some("Sources are for live captures; a file has what was recorded.".into()),
            Some(live) => (self.panel, self.panel_from) = (Panel::Sources(0, live.source), 0),
        }
    }

    /// A key while the list of sources is open; whether it was one of the list's.
    pub fn choose_source(&mut self, at: usize, source: Source, action: Action) -> bool {
        let to = match action {
            Action::Down | Action::Sources => (at + 1) % SOURCES.len(),
            Action::Up => at.checked_sub(1).unwrap_or(SOURCES.len() - 1),
            Action::Pause => at,
            Action::Dig => {
                self.panel = Panel::None;
                self.watch_source(source);
                return true;
            }
            _ => return false,
        };
        let source = if action == Action::Pause { toggled(source, at) } else { source };
        self.panel = Panel::Sources(to, source);
        true
    }

    /// Captures something else from now on, on a map of its own.
    fn watch_source(&mut self, source: Source) {
        let Some(live) = self.reading.live.clone().filter(|live| live.source != source) else { return };
        let calls = live.calls.clone().filter(|_| matches!(source, Source::Io | Source::Syscall));
        self.remember();
        self.reading =
            Arc::new(Reading { live: Some(Live { source, calls, ..live }), ..Reading::clone(&self.reading) });
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
        self.choose_mode();
    }

    /// Whether what failed is another source; then the one before goes on.
    pub fn returns_to_source(&mut self) -> bool {
        let now = self.reading.live.as_ref().map(|live| live.source);
        let is_other = now.is_some() && self.watch.as_ref().is_some_and(|watch| Some(watch.source()) != now);
        if is_other {
            self.start_anew();
        }
        is_other
    }
}

/// The list, with the line that the keys act on.
pub fn lines(at: usize, source: Source, columns: usize) -> Vec<Line> {
    let mut lines = vec![Line::new("Capture: (arrows, Space toggles, Enter captures, Esc closes)")];
    for (place, (word, meaning)) in SOURCES.iter().enumerate() {
        let mark = if is_on(source, place) { "x" } else { " " };
        let entry = format!("[{mark}] {word:<9}{meaning}");
        let mut line = Line::default();
        match place == at {
            true => marked(&mut line, &format!("> {entry}")),
            false => drop(line.push("  ").push(&entry)),
        }
        line.truncate(columns, true);
        lines.push(line);
    }
    lines
}

fn is_on(source: Source, at: usize) -> bool {
    match source {
        Source::Block => at == 0,
        Source::Io => at == 1,
        Source::Syscall => at == 2,
        Source::Beside(requests, kinds) => is_on(requests.source(), at) || is_on(Source::Stacks(kinds), at),
        Source::Stacks(kinds) => [kinds.sampled, kinds.off_cpu, kinds.on_cpu].get(at.wrapping_sub(3)) == Some(&true),
    }
}

/// The source with one of the lines switched: captures of stacks combine, others stand alone. The last one stays on.
fn toggled(source: Source, at: usize) -> Source {
    let kinds = match source {
        Source::Stacks(kinds) | Source::Beside(_, kinds) => kinds,
        _ => StackKinds::default(),
    };
    let kinds = match at {
        0 => return Source::Block,
        1 => return Source::Io,
        2 => return Source::Syscall,
        3 => StackKinds { sampled: !kinds.sampled, ..kinds },
        4 => StackKinds { off_cpu: !kinds.off_cpu, ..kinds },
        _ => StackKinds { on_cpu: !kinds.on_cpu, ..kinds },
    };
    if kinds == StackKinds::default() { source } else { Source::Stacks(kinds) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_combine_and_others_stand_alone() {
        let on = |source| (0..SOURCES.len()).filter(|&at| is_on(source, at)).collect::<Vec<_>>();
        let stacks = toggled(toggled(Source::Block, 3), 5);
        assert_eq!((on(Source::Io), on(stacks)), (vec![1], vec![3, 5]));
        assert_eq!(on(toggled(stacks, 3)), [5]);
        assert_eq!(on(toggled(toggled(stacks, 3), 5)), [5], "something is captured");
        assert_eq!(on(toggled(stacks, 2)), [2]);
    }
}
