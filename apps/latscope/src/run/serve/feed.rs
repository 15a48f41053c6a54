//! What open pages are sent: the cube of each turn, kept for a while, and merged for whoever was away for several turns.

use latscope_event::{Context, Unfinished};
use latscope_series::{Cube, merge_cubes};
use latscope_view_report::{ReportOptions, report_data};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Cells that are kept at most: about 64 MB.
const CELLS: usize = 1_000_000;

/// Columns in which nothing completed that one turn adds at most.
const COLUMNS: i64 = 6000;

/// A server-sent event.
pub struct Message {
    /// What the page gives when it reconnects.
    id: String,
    /// `start`: the page begins anew with this; `more`: this is added; `bye`: there will be no more.
    pub event: &'static str,
    data: String,
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "id: {}\nevent: {}\ndata: {}\n\n", self.id, self.event, self.data)
    }
}

/// Where a page is in the feed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    turn: u64,
    knows_end: bool,
}

/// The turns of a capture, or of a file.
pub struct Feed {
    /// Differs from run to run, so that a page does not add what is new to what another run captured.
    run: String,
    options: ReportOptions,
    history_ns: u64,
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// With the number of its turn.
    slices: VecDeque<(u64, Arc<Cube>)>,
    cells: usize,
    /// The number of the last turn; the first is 1.
    last: u64,
    contexts: Vec<Context>,
    waiting: Option<Vec<Unfinished>>,
    has_ended: bool,
}

impl Feed {
    /// Keeps what completed in the last so many nanoseconds. `run` names this run.
    pub fn new(run: String, options: ReportOptions, history_ns: u64) -> Feed {
        Feed { run, options, history_ns, state: Mutex::default(), changed: watch::Sender::new(0) }
    }

    /// Adds the events of a turn, what is known of the traces by now, and of a capture, what waits.
    pub fn add(&self, mut cube: Cube, contexts: Vec<Context>, waiting: Option<Vec<Unfinished>>) {
        reach(&mut cube, &contexts, waiting.as_deref());
        let mut state = self.state();
        state.last += 1;
        (state.contexts, state.waiting) = (contexts, waiting);
        let turn = state.last;
        state.cells += cells(&cube);
        state.slices.push_back((turn, Arc::new(cube)));
        let newest_ns = state.slices.iter().filter_map(|(_, cube)| end_ns(cube)).max().unwrap_or(i64::MIN);
        let oldest_ns = newest_ns.saturating_sub_unsigned(self.history_ns);
        while state.slices.len() > 1
            && let Some((_, oldest)) = state.slices.front()
            && (state.cells > CELLS || end_ns(oldest).is_none_or(|end_ns| end_ns < oldest_ns))
        {
            state.cells -= cells(oldest);
            state.slices.pop_front();
        }
        drop(state);
        self.changed.send_replace(turn);
    }

    /// There will be no more turns, because the program ends.
    pub fn end(&self) {
        self.state().has_ended = true;
        self.changed.send_modify(|turn| *turn += 1);
    }

    /// Sees each turn, and the end.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Returns when there will be no more turns.
    pub async fn ended(&self) {
        let mut changes = self.changes();
        while !self.state().has_ended {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// The position that a page had when it got the message with this id; `None` when that was in another run.
    pub fn position(&self, id: &str) -> Option<Position> {
        let (run, turn) = id.split_once('.')?;
        let turn = turn.parse().ok().filter(|&turn| run == self.run && turn <= self.state().last)?;
        Some(Position { turn, knows_end: false })
    }

    /// What comes after a position, and moves it; `None` when there is nothing yet. A page without a position, and one that was
    /// away for so long that what it missed is no longer kept, starts anew.
    pub fn after(&self, position: &mut Option<Position>) -> Option<Message> {
        let state = self.state();
        let oldest = state.slices.front().map_or(state.last + 1, |(turn, _)| *turn);
        let known = position.filter(|position| position.turn + 1 >= oldest);
        let turn = known.map_or(0, |position| position.turn);
        if known.is_some() && turn == state.last {
            let is_new = state.has_ended && !known.is_some_and(|position| position.knows_end);
            *position = Some(Position { turn, knows_end: state.has_ended });
            return is_new.then(|| Message { id: self.id(turn), event: "bye", data: String::new() });
        }
        let slices: Vec<_> =
            state.slices.iter().filter(|(at, _)| *at > turn).map(|(_, cube)| Arc::clone(cube)).collect();
        let (contexts, last) = (state.contexts.clone(), state.last);
        let options = ReportOptions { waiting: state.waiting.clone(), ..self.options.clone() };
        // Packing takes a while, and the capture must not wait for it.
        drop(state);
        *position = Some(Position { turn: last, knows_end: false });
        let cube = merge_cubes(slices.iter().map(|cube| &**cube)).without_empty_attributes();
        let event = if known.is_some() { "more" } else { "start" };
        Some(Message { id: self.id(last), event, data: report_data(&cube, &contexts, &options) })
    }

    fn id(&self, turn: u64) -> String {
        format!("{}.{turn}", self.run)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cells(cube: &Cube) -> usize {
    cube.columns.values().map(|column| column.cells.len() + column.totals.len() + column.sums.len()).sum()
}

/// Where the last column ends, nanoseconds on the clock of the trace.
fn end_ns(cube: &Cube) -> Option<i64> {
    let (last, _) = cube.columns.last_key_value()?;
    Some(last.saturating_add(1).saturating_mul(i64::try_from(cube.width_ns).unwrap_or(i64::MAX)))
}

/// Adds the columns up to the moment at which requests were last known to wait: while a disk hangs, nothing completes.
fn reach(cube: &mut Cube, contexts: &[Context], waiting: Option<&[Unfinished]>) {
    let counted = |unfinished: &[Unfinished]| {
        let counted = unfinished.iter().filter(|request| request.counts());
        let starts_ns = counted.clone().map(|request| request.start_ns).min();
        starts_ns.zip(counted.map(Unfinished::end_ns).max())
    };
    let spans = match waiting {
        Some(waiting) => counted(waiting).into_iter().collect(),
        None => contexts.iter().filter_map(|context| counted(&context.unfinished)).collect::<Vec<_>>(),
    };
    let span = spans.into_iter().reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    let Some((start_ns, end_ns)) = span else { return };
    let column = |ns: i64| ns.div_euclid(i64::try_from(cube.width_ns).unwrap_or(i64::MAX).max(1));
    let last = column(end_ns);
    let trace_start_ns = contexts.iter().filter_map(Context::trace_start_ns).min().unwrap_or(end_ns);
    // A request may have waited for years.
    let first = cube.range().map_or(column(start_ns.max(trace_start_ns)).max(last - COLUMNS), |(first, _)| first);
    if last.abs_diff(first) <= COLUMNS as u64 {
        [first, last].into_iter().for_each(|at| _ = cube.columns.entry(at).or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_event::{Batch, Clock, Field, FieldSet};
    use latscope_series::{CubeBuilder, CubeKey, CubeLimits};

    /// A turn with so many events that completed in this second.
    fn turn(second: i64, events: usize) -> Cube {
        let mut batch = Batch::new(FieldSet::ALWAYS.with(&[Field::Device]));
        for _ in 0..events {
            batch.push_i64(Field::Time, second * 1_000_000_000);
            batch.push_u64(Field::Latency, 5000);
            batch.push_text(Field::Device, Some(b"sda"));
            batch.end_row();
        }
        let limits = CubeLimits { width_ns: Some(1_000_000_000), ..CubeLimits::default() };
        let mut builder = CubeBuilder::new(&[CubeKey::Field(Field::Device)], limits);
        builder.add(&Context::new("test", Clock::wall()), &batch, None);
        builder.finish()
    }

    fn feed(history_ns: u64) -> Feed {
        Feed::new("run".into(), ReportOptions::default(), history_ns)
    }

    fn kept(feed: &Feed) -> Vec<u64> {
        feed.state().slices.iter().map(|(turn, _)| *turn).collect()
    }

    #[test]
    fn who_was_away_gets_the_turns_in_one_message() {
        let feed = feed(u64::MAX);
        feed.add(turn(0, 1), Vec::new(), None);
        let mut position = None;
        assert_eq!(feed.after(&mut position).map(|message| message.event), Some("start"));
        assert!(feed.after(&mut position).is_none());
        (1..4).for_each(|second| feed.add(turn(second, 2), Vec::new(), None));
        let message = feed.after(&mut position).unwrap();
        assert_eq!((message.event, &*message.id), ("more", "run.4"));
        assert!(feed.after(&mut position).is_none());
        assert_eq!(feed.position("run.4"), position);
        assert_eq!(
            [feed.position("run.5"), feed.position("other.1"), feed.position(""), feed.position("run.")],
            [None; 4]
        );
        feed.end();
        assert_eq!(feed.after(&mut position).map(|message| message.event), Some("bye"));
        assert!(feed.after(&mut position).is_none());
    }

    #[test]
    fn what_hangs_has_columns_although_nothing_completes() {
        let (start_ns, second) = (1_700_000_000_000_000_000, 1_000_000_000);
        let hung = |at_least_ns| Unfinished {
            what: "sda write".into(),
            start_ns: start_ns + 500_000_000,
            at_least_ns,
            wait: latscope_event::Wait::Counts,
            values: std::collections::BTreeMap::new(),
        };
        let feed = feed(u64::MAX);
        let range = |feed: &Feed| feed.state().slices.back().and_then(|(_, cube)| cube.range());
        feed.add(turn(0, 0), Vec::new(), None);
        assert_eq!(range(&feed), None);
        for waited in [3, 5] {
            feed.add(turn(0, 0), Vec::new(), Some(vec![hung(waited * 1_000_000_000)]));
            // The start of the trace is not known, so there is the last column only.
            assert_eq!(range(&feed), Some((start_ns / second + waited as i64, 1)));
        }
        // From the events of a turn on there is no gap; one of years is not filled.
        feed.add(turn(start_ns / second, 7), Vec::new(), Some(vec![hung(5_000_000_000)]));
        assert_eq!(range(&feed), Some((start_ns / second, 6)));
        feed.add(turn(0, 7), Vec::new(), Some(vec![hung(5_000_000_000)]));
        assert_eq!(range(&feed), Some((0, 1)));
    }

    #[test]
    fn old_turns_go_and_a_page_that_missed_them_starts_anew() {
        let feed = feed(5_000_000_000);
        feed.add(turn(0, 1), Vec::new(), None);
        let mut position = None;
        feed.after(&mut position);
        let mut recent = position;
        for second in 1..20 {
            feed.add(turn(second, 1), Vec::new(), None);
            if second == 15 {
                feed.after(&mut recent);
            }
        }
        assert_eq!(kept(&feed), (15..=20).collect::<Vec<_>>());
        assert_eq!(feed.after(&mut recent).map(|message| message.event), Some("more"));
        assert_eq!(feed.after(&mut position).map(|message| message.event), Some("start"));
        // The newest turn stays, however large.
        let one = self::feed(0);
        (0..3).for_each(|second| one.add(turn(second, 1), Vec::new(), None));
        assert_eq!(kept(&one), [3]);
    }
}
