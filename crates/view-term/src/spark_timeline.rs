//! What the executors of an application do over time as a screen: active tasks, parts of run time and memory, each a row over the same
//! columns of time.

use crate::{Cell, Line};
use latscope_event::{format_count, format_size, format_strftime};
use latscope_series::{SPARK_GROUPS, SPARK_MEMORY, SPARK_PARTS, SPARK_PEAKS, SparkColumn, SparkTimeline};

/// Heights of a cell, the least first.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Width of the names, columns.
const NAME: usize = 16;
/// Width of the numbers behind a row, columns.
const NUMBERS: usize = 34;
/// Columns between two labels of the axis.
const LABEL: usize = 12;
/// A screen of so many rows has queries, jobs and stages even where executors have no room.
const LARGE: usize = 30;

/// Draws the newest columns for a terminal of this size: as many lines as it has rows at most.
pub fn spark_screen(timeline: &SparkTimeline, source: &str, (columns, rows): (usize, usize)) -> Vec<Line> {
    let width = columns.saturating_sub(NAME + NUMBERS).max(8);
    let shown: Vec<&SparkColumn> = timeline.columns.iter().skip(timeline.columns.len().saturating_sub(width)).collect();
    let mut lines = vec![Line::new(&head(timeline, source))];
    let screen = Screen { shown, width };
    let most_cores = screen.most(|column| column.cores.map(|cores| cores as f64));
    let active = |column: &SparkColumn| column.active.map(|tasks| tasks as f64);
    let most_tasks = screen.most(active);
    let count = |value: f64| format_count(value as u64);
    let of = if most_cores > 0.0 { format!(" of {} cores", count(most_cores)) } else { String::new() };
    lines.push(screen.row("active tasks", most_tasks.max(most_cores), &active, &count, most_tasks, &of));
    let has_groups_now = screen.shown.iter().any(|column| column.groups != [None; SPARK_GROUPS.len()]);
    // Queries, jobs and stages where there is room for them beside everybody's memory, and on a large screen.
    let fixed = 4 + SPARK_PARTS.len() + if has_groups_now { 1 + SPARK_GROUPS.len() } else { 0 };
    let kinds = ["sql", "job", "stage"].map(|kind| (kind, screen.spans(timeline, kind)));
    if rows >= LARGE || fixed + kinds.len() + timeline.executors.len() * (SPARK_MEMORY.len() + 1) <= rows {
        lines.extend(kinds.into_iter().filter_map(|(_, line)| line));
    }
    lines.push(Line::new("run time of tasks that ended, in cores"));
    let part = |at: usize| move |column: &SparkColumn| column.parts.map(|parts| parts[at]);
    // One scale, so that parts compare.
    let most = (0..SPARK_PARTS.len()).map(|at| screen.most(part(at))).fold(0.0, f64::max);
    let cores = |value: f64| format!("{value:.2}");
    for (at, name) in SPARK_PARTS.iter().enumerate() {
        lines.push(screen.row(&format!("  {name}"), most, &part(at), &cores, screen.most(part(at)), ""));
    }
    if has_groups_now {
        let shared = if timeline.is_shared { " (some executors share one)" } else { "" };
        lines.push(Line::new(&format!("control groups, in cores{shared}")));
        let group = |at: usize| move |column: &SparkColumn| column.groups[at];
        let most = (0..SPARK_GROUPS.len()).map(|at| screen.most(group(at))).fold(0.0, f64::max);
        for (at, name) in SPARK_GROUPS.iter().enumerate() {
            lines.push(screen.row(&format!("  {name}"), most, &group(at), &cores, screen.most(group(at)), ""));
        }
    }
    // Nobody asked for control groups that no executor has.
    let has_groups = timeline.peaks.iter().any(|peaks| peaks[SPARK_MEMORY.len() - 1].is_some());
    let areas = &SPARK_MEMORY[..SPARK_MEMORY.len() - usize::from(!has_groups)];
    // The last line is the axis.
    let room = rows.saturating_sub(lines.len() + 1) / (areas.len() + 1);
    let newest = timeline.known().map(|column| &column.memory);
    // Those that live come first where not all fit.
    let order = timeline.order();
    let mut shown = order.clone();
    shown.sort_by_key(|at| newest.is_none_or(|newest| !newest.contains_key(at)));
    let left_out = shown.len().saturating_sub(room.max(1));
    shown.truncate(room.max(1));
    let size = |value: f64| format_size(value as u64);
    for at in order.into_iter().filter(|at| shown.contains(at)) {
        lines.push(Line::new(&timeline.title(at)));
        for (area, title) in areas.iter().enumerate() {
            // A driver has no control group that is sampled, and executors of other machines have none.
            if area == SPARK_MEMORY.len() - 1 && timeline.peaks[at][area].is_none() {
                continue;
            }
            let value = move |column: &SparkColumn| column.memory.get(&at)?[area].map(|bytes| bytes as f64);
            // One scale for all executors, so that they compare; the driver is something else.
            let alike = (0..timeline.peaks.len()).filter(|&other| timeline.is_driver(other) == timeline.is_driver(at));
            let most = alike.filter_map(|other| timeline.peaks[other][area]).max().unwrap_or(0) as f64;
            let peak = timeline.peaks[at][area].unwrap_or(0) as f64;
            let so_far = if timeline.is_asked && SPARK_PEAKS.contains(title) { " so far" } else { "" };
            lines.push(screen.row(&format!("  {title}"), most, &value, &size, peak, so_far));
        }
    }
    lines.push(screen.axis(left_out));
    if lines.len() > rows {
        // What does not fit is memory, not the axis.
        let axis = lines.pop().unwrap_or_default();
        lines.truncate(rows.saturating_sub(1));
        lines.push(axis);
    }
    for line in &mut lines {
        line.truncate(columns, true);
    }
    lines
}

fn head(timeline: &SparkTimeline, source: &str) -> String {
    let app = if timeline.app.is_empty() { "no application has reported yet" } else { &timeline.app };
    let live = timeline.known().map(|column| column.memory.keys().filter(|&&at| !timeline.is_driver(at)));
    let count = live.map_or(0, Iterator::count);
    let executors =
        if count == 1 { "1 executor".to_string() } else { format!("{} executors", format_count(count as u64)) };
    format!("{app}  {executors}  {source}  (q ends it)")
}

struct Screen<'a> {
    shown: Vec<&'a SparkColumn>,
    width: usize,
}

impl Screen<'_> {
    fn most(&self, value: impl Fn(&SparkColumn) -> Option<f64>) -> f64 {
        self.shown.iter().filter_map(|column| value(column)).fold(0.0, f64::max)
    }

    /// A name, a cell for each column, the value now and the greatest. What was not sampled is blank, and `-` as a number.
    fn row(
        &self,
        name: &str,
        most: f64,
        value: &dyn Fn(&SparkColumn) -> Option<f64>,
        text: &dyn Fn(f64) -> String,
        peak: f64,
        behind: &str,
    ) -> Line {
        let mut line = Line::new(name);
        line.truncate(NAME - 1, true).pad_to(NAME + self.width - self.shown.len());
        for column in &self.shown {
            let symbol = value(column).map_or(' ', |value| {
                let height = (value / most.max(f64::MIN_POSITIVE) * HEIGHTS.len() as f64).ceil() as usize;
                HEIGHTS[height.clamp(1, HEIGHTS.len()) - 1]
            });
            line.push_cell(Cell::plain(symbol));
        }
        let is_known = self.shown.iter().any(|column| value(column).is_some());
        let now = self.shown.last().and_then(|column| value(column)).map_or("-".into(), text);
        line.push(&match is_known {
            true if behind == " so far" => format!("      {:<8} most {}{behind}", "", text(peak)),
            true => format!("  now {now:<8} most {}{behind}", text(peak)),
            false => "  - not reported".into(),
        });
        line
    }

    /// Queries, jobs or stages, each from its start with its number, and the newest of those that run. One that starts hides those before it.
    fn spans(&self, timeline: &SparkTimeline, kind: &str) -> Option<Line> {
        let second = |at: usize| self.shown.get(at).map(|column| column.at_s.saturating_mul(1_000_000_000));
        let (start_ns, known) = (second(0)?, timeline.known()?);
        // In which column a time is.
        let column = |ns: i64| self.shown.partition_point(|column| column.at_s.saturating_mul(1_000_000_000) < ns);
        let newest = column(known.at_s.saturating_mul(1_000_000_000)).min(self.shown.len() - 1);
        let of_kind = timeline.spans.iter().filter(|span| span.kind == kind);
        let mut spans: Vec<_> = of_kind.filter(|span| span.end_ns.is_none_or(|end_ns| end_ns > start_ns)).collect();
        spans.sort_by_key(|span| (span.start_ns, span.id));
        let newest_span = *spans.last()?;
        let mut cells = vec![' '; self.shown.len()];
        for span in &spans {
            let (left, right) = (column(span.start_ns), span.end_ns.map_or(newest, &column).min(newest));
            if left > right {
                continue;
            }
            let words = format!("│{}", span.id);
            let has_room = words.chars().count() <= right + 1 - left;
            let words = words.chars().take(if has_room { words.chars().count() } else { 1 });
            cells[left..=right]
                .iter_mut()
                .zip(words.chain(std::iter::repeat('─')))
                .for_each(|(cell, symbol)| *cell = symbol);
        }
        let mut line = Line::new(&format!("  {kind}"));
        line.pad_to(NAME + self.width - self.shown.len());
        for symbol in cells {
            line.push_cell(Cell::plain(symbol));
        }
        let is_known = self.shown.last().is_some_and(|column| column.at_s == known.at_s);
        let runs = is_known && newest_span.end_ns.is_none();
        line.push(&if runs { format!("  now {} {}", newest_span.id, newest_span.name) } else { "  now -".into() });
        Some(line)
    }

    /// The times of day at which columns ended, and how many executors have no room.
    fn axis(&self, left_out: usize) -> Line {
        let mut line = Line::default();
        line.pad_to(NAME + self.width - self.shown.len());
        let mut at = 0;
        while let Some(column) = self.shown.get(at) {
            let time = column.at_s.checked_mul(1_000_000_000).and_then(|ns| format_strftime(ns, "%H:%M:%S"));
            let label = format!("│{}", time.unwrap_or_default());
            if at + label.chars().count() > self.shown.len() && at > 0 {
                break;
            }
            line.push(&label);
            at += LABEL;
            line.pad_to(NAME + self.width - self.shown.len() + at.min(self.shown.len()));
        }
        line.pad_to(NAME + self.width).truncate(NAME + self.width, false);
        if left_out > 0 {
            let executors = if left_out == 1 { "executor has" } else { "executors have" };
            line.push(&format!("  {left_out} more {executors} no room"));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_event::spark::SparkSpan;

    /// Three columns of an executor with two tasks on four cores, and one that has said nothing of its memory.
    fn timeline() -> SparkTimeline {
        let mib = |mib: u64| Some(mib << 20);
        let mut timeline = SparkTimeline::default();
        timeline.app = "app-1".into();
        timeline.executors = vec!["1".into(), "2".into()];
        timeline.peaks = vec![[mib(800), None, mib(100), mib(8), None], [None; 5]];
        for (at, (active, heap)) in [(1, 100), (4, 800), (2, 400)].into_iter().enumerate() {
            let mut column =
                SparkColumn { at_s: 100 + 10 * at as i64, active: Some(active), cores: Some(4), ..Default::default() };
            column.parts = (at > 0).then_some([1.0, 0.25, 0.0, 0.0, 2.0]);
            column.memory.extend([(0, [mib(heap), None, mib(100), mib(8), None]), (1, [None; 5])]);
            timeline.columns.push_back(column);
        }
        timeline
    }

    #[test]
    fn rows_have_the_heights_of_their_values() {
        let lines = spark_screen(&timeline(), "asking x", (60, 30));
        let text: Vec<String> = lines.iter().map(Line::text).collect();
        let row = |name: &str| text.iter().find(|line| line.trim_start().starts_with(name)).unwrap();
        assert!(text[0].starts_with("app-1  2 executors  asking x"), "{text:#?}");
        assert!(row("active tasks").ends_with("▂█▄  now 2        most 4 of 4 cores"), "{text:#?}");
        // Nobody reported in the first column; one scale for all parts.
        assert!(row("CPU").ends_with(" ▄▄  now 1.00     most 1.00"), "{text:#?}");
        assert!(row("GC").ends_with(" ▁▁  now 0.25     most 0.25"), "{text:#?}");
        assert!(row("remainder").ends_with(" ██  now 2.00     most 2.00"), "{text:#?}");
        assert!(row("heap").ends_with("▁█▄  now 400MiB   most 800MiB"), "{text:#?}");
        assert!(row("RSS").ends_with("  - not reported"), "{text:#?}");
        assert_eq!(text.iter().filter(|line| line.contains("not reported")).count(), 5, "{text:#?}");
        // Rows start and end in the same columns.
        let rows = text.iter().filter_map(|line| line.split_once("  now"));
        let ends: Vec<usize> = rows.map(|(front, _)| front.chars().count()).collect();
        assert!(ends.windows(2).all(|pair| pair[0] == pair[1]), "{text:#?}");
    }

    #[test]
    fn control_groups_have_rows_where_they_are_sampled() {
        let mut timeline = timeline();
        timeline.columns[1].groups = [Some(1.0), None];
        timeline.columns[2].groups = [Some(1.5), Some(0.75)];
        timeline.columns[2].memory.insert(0, [None, None, None, None, Some(900 << 20)]);
        timeline.peaks[0][4] = Some(900 << 20);
        let text: Vec<String> = spark_screen(&timeline, "asking x", (60, 30)).iter().map(Line::text).collect();
        let at = text.iter().position(|line| line == "control groups, in cores").unwrap();
        assert!(text[at + 1].ends_with(" ▆█  now 1.50     most 1.50"), "{text:#?}");
        assert!(text[at + 2].ends_with("  ▄  now 0.75     most 0.75"), "{text:#?}");
        assert!(text.iter().any(|line| line.ends_with("  █  now 900MiB   most 900MiB")), "{text:#?}");
    }

    #[test]
    fn queries_and_jobs_have_rows_where_there_is_room() {
        let mut timeline = timeline();
        timeline.is_asked = true;
        let span = |kind, id, start_s: i64, end_s: Option<i64>| {
            let end_ns = end_s.map(|end_s| end_s * 1_000_000_000);
            SparkSpan { kind, id, name: "count at x".into(), start_ns: start_s * 1_000_000_000, end_ns }
        };
        // A query of before, one that runs, a job whose number has no room, and no stage.
        timeline.spans = vec![span("sql", 7, 50, Some(90)), span("sql", 8, 95, None), span("job", 1000, 92, Some(116))];
        let text = |timeline: &SparkTimeline, rows| -> Vec<String> {
            spark_screen(timeline, "asking x", (80, rows)).iter().map(Line::text).collect()
        };
        let screen = text(&timeline, 30);
        let at = screen.iter().position(|line| line.starts_with("  sql ")).unwrap();
        assert!(screen[at].ends_with(" │8─  now 8 count at x"), "{screen:#?}");
        assert!(screen[at + 1].starts_with("  job ") && screen[at + 1].ends_with("│──  now -"), "{screen:#?}");
        assert!(!screen[at + 2].starts_with("  stage "), "{screen:#?}");
        // A small screen has memory instead.
        assert!(!text(&timeline, 22).iter().any(|line| line.starts_with("  sql ")));
        // While a driver does not answer, nothing is known: neither what runs nor how much.
        timeline.columns.push_back(SparkColumn { at_s: 130, ..Default::default() });
        let screen = text(&timeline, 30);
        assert!(screen[0].contains("2 executors"), "{screen:#?}");
        assert!(screen[1].ends_with("▂█▄   now -        most 4 of 4 cores"), "{screen:#?}");
        assert!(screen[at].ends_with(" │8─   now -"), "{screen:#?}");
        assert!(!screen.iter().any(|line| line.contains("gone")), "{screen:#?}");
    }

    #[test]
    fn a_small_terminal_has_what_fits() {
        for size in [(20, 3), (40, 9), (200, 15), (1, 1)] {
            let lines = spark_screen(&timeline(), "s", size);
            assert!(lines.len() <= size.1.max(1) && lines.iter().all(|line| line.width() <= size.0), "{size:?}");
        }
        let few: Vec<String> = spark_screen(&timeline(), "s", (120, 15)).iter().map(Line::text).collect();
        assert!(few.last().unwrap().contains("1 more executor has no room"), "{few:#?}");
        assert_eq!(spark_screen(&SparkTimeline::new(4), "s", (80, 24)).len(), 9);
    }
}
