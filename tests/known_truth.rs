//! Every event and every count of generated traces, against what they were generated from.

use crate::generator::{Columns, Era, Event, Recipe, Truth, generate};
use crate::program::{latscope, latscope_with};
use latscope_capture_file::{Format, ReadOptions, read_bytes};
use latscope_event::{Anomaly, Batch, Clock, Context, Field, FieldSet, MISSING_I64, MISSING_U64, Unfinished, Wait};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// The table from which the program takes its words.
#[path = "../apps/latscope/src/notes.rs"]
#[allow(dead_code)]
mod wording;

const PLAIN: Recipe = Recipe {
    seed: 1,
    lives: 400,
    era: Era::Priority,
    columns: Columns::Default,
    nanoseconds: false,
    losses: 0,
    shuffled: false,
    noise: false,
};

/// Every era, every choice of columns, short and long, with and without losses.
fn recipes() -> Vec<Recipe> {
    let mut recipes = Vec::new();
    for (at, era) in [Era::Old, Era::Middle, Era::Priority].into_iter().enumerate() {
        for (also, columns) in [Columns::Default, Columns::PidAndTid, Columns::NoCpu].into_iter().enumerate() {
            let seed = 100 + 10 * at as u64 + also as u64;
            let losses = [0, 5, 40][(at + also) % 3];
            recipes.push(Recipe {
                seed,
                era,
                columns,
                losses,
                nanoseconds: also % 2 == 1,
                noise: at % 2 == 1,
                ..PLAIN
            });
        }
    }
    recipes.extend((200..240).map(|seed| Recipe { seed, lives: 30, losses: (seed % 4) as usize, ..PLAIN }));
    recipes.extend((300..305).map(|seed| Recipe { seed, shuffled: true, losses: 3, noise: true, ..PLAIN }));
    recipes.push(Recipe { seed: 400, lives: 30_000, losses: 25, noise: true, ..PLAIN });
    recipes.push(Recipe { seed: 401, lives: 20_000, nanoseconds: true, era: Era::Middle, ..PLAIN });
    recipes
}

fn event(batch: &Batch, row: usize) -> Event {
    let text = |field| batch.text(field, row).map(str::to_string);
    let length = |field| batch.u64s(field).map_or(MISSING_U64, |values| values[row]);
    let id = |field| batch.i64s(field).map(|values| values[row]).filter(|&value| value != MISSING_I64);
    Event {
        time_ns: batch.time()[row],
        latency_ns: batch.latency()[row],
        queue_ns: length(Field::Queue),
        size: length(Field::Size),
        offset: length(Field::Offset),
        kind: text(Field::Kind).unwrap_or_default(),
        name: text(Field::Name).unwrap_or_default(),
        device: text(Field::Device).unwrap_or_default(),
        dev: text(Field::Dev).unwrap_or_default(),
        comm: text(Field::Comm).unwrap_or_default(),
        pid: id(Field::Pid),
        tid: id(Field::Tid),
        error: text(Field::Error),
    }
}

/// What the library reads from bytes.
fn read(bytes: &[u8]) -> (Vec<Event>, Context) {
    let mut events = Vec::new();
    let context = read_bytes("generated", bytes, &ReadOptions::new(FieldSet::EVERY), &mut |_, batch| {
        events.extend((0..batch.len()).map(|row| event(batch, row)));
        ControlFlow::Continue(())
    });
    (events, context.expect("a generated trace can be read"))
}

fn json_event(line: &str) -> Event {
    let object: serde_json::Value = serde_json::from_str(line).expect(line);
    let text = |key: &str| object.get(key).map(|value| value.as_str().expect("a text").to_string());
    let length = |key: &str| object[key].as_u64().unwrap_or(MISSING_U64);
    Event {
        time_ns: object["time_ns"].as_i64().expect("a time"),
        latency_ns: length("latency_ns"),
        queue_ns: length("queue_ns"),
        size: length("size"),
        offset: length("offset"),
        kind: text("kind").unwrap_or_default(),
        name: text("name").unwrap_or_default(),
        device: text("device").unwrap_or_default(),
        dev: text("dev").unwrap_or_default(),
        comm: text("comm").unwrap_or_default(),
        pid: object["pid"].as_i64(),
        tid: object["tid"].as_i64(),
        error: text("error"),
    }
}

/// The first difference, which is more to the point than two lists.
#[track_caller]
fn assert_events(found: &[Event], expected: &[Event], of: &str) {
    // Before the first record of a wait nobody knows whether requests wait; from then on a request without one did not.
    let mut waits_are_seen = false;
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        waits_are_seen |= found.queue_ns == 0;
        let is_unknown = found.queue_ns == MISSING_U64 && !waits_are_seen;
        let found = Event { queue_ns: if is_unknown { 0 } else { found.queue_ns }, ..found.clone() };
        assert_eq!(found, *expected, "event {at} of {of}");
    }
    assert_eq!(found.len(), expected.len(), "number of events of {of}");
}

#[test]
fn every_event_and_every_count_is_found() {
    let mut seen = BTreeMap::new();
    for recipe in recipes() {
        let truth = generate(recipe);
        let of = format!("{recipe:?}");
        let (events, context) = read(&truth.text);
        assert_events(&events, &truth.events, &of);
        let counts: BTreeMap<_, _> = context.tally.iter().map(|(anomaly, count)| (anomaly.key(), count)).collect();
        assert_eq!(counts, truth.counts, "counts of {of}");
        let unfinished = context.unfinished.iter().map(|open| (open.start_ns, open.at_least_ns));
        let longest: Vec<_> = truth.unfinished.iter().copied().take(Context::UNFINISHED_KEPT).collect();
        assert_eq!(unfinished.collect::<Vec<_>>(), longest, "unfinished of {of}");
        let losses: Vec<_> = context.loss_ranges.iter().map(|range| (range.end_ns, range.cpu, range.records)).collect();
        assert_eq!(losses, truth.losses, "losses of {of}");
        assert!(context.loss_ranges.iter().all(|range| range.start_ns <= range.end_ns));
        truth.counts.keys().for_each(|&key| *seen.entry(key).or_insert(0) += 1);
    }
    let possible = [
        "doubtful",
        "flush_parent",
        "lost_completion",
        "lost_records",
        "mismatched_completion",
        "never_issued",
        "open_after_loss",
        "orphan_completion",
        "orphan_requeue",
        "other_records",
        "partial_completion",
        "requeue",
        "requeued_only",
        "unfinished",
        "unparsed_lines",
    ];
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), possible, "every anomaly was generated somewhere");
}

/// The notes that these counts have to appear in.
fn notes(truth: &Truth) -> Vec<String> {
    let mut context = Context::new("", Clock::unanchored("perf"));
    for &anomaly in Anomaly::ALL {
        context.tally.add(anomaly, truth.counts.get(anomaly.key()).copied().unwrap_or(0));
    }
    let oldest = truth.unfinished.first();
    context.unfinished.extend(oldest.map(|&(start_ns, at_least_ns)| Unfinished {
        what: "?".into(),
        start_ns,
        at_least_ns,
        wait: Wait::Counts,
        values: BTreeMap::new(),
    }));
    wording::WORDING.lines(&context).into_iter().map(|note| note.text).collect()
}

/// Compares but for what the longest unfinished was, which the truth does not keep.
#[track_caller]
fn assert_notes(stderr: &str, truth: &Truth) {
    let expected = notes(truth);
    assert_eq!(stderr.lines().count(), expected.len(), "{stderr}");
    for (line, note) in stderr.lines().zip(&expected) {
        // What stands for the longest of them.
        match note.split_once('?') {
            Some((before, after)) => {
                let line = line.split("; ").next().unwrap_or_default();
                assert!(line.contains(before) && line.ends_with(after), "{line}\n{note}");
            }
            None => assert!(line.starts_with("latscope: ") && line.ends_with(note.as_str()), "{line}\n{note}"),
        }
    }
}

#[test]
fn the_program_prints_every_event_and_every_count() {
    let folder = tempfile::tempdir().unwrap();
    let lat = folder.path().join("run.lat");
    let lat = lat.to_str().unwrap();
    for recipe in [
        Recipe { seed: 500, losses: 7, noise: true, ..PLAIN },
        Recipe { seed: 501, era: Era::Old, columns: Columns::PidAndTid, nanoseconds: true, ..PLAIN },
        Recipe { seed: 502, lives: 15_000, losses: 12, ..PLAIN },
    ] {
        let truth = generate(recipe);
        let printed = latscope_with(&["events", "-r", "-", "--json"], &truth.text);
        assert_notes(&printed.err, &truth);
        let printed = printed.success();
        let events: Vec<_> = printed.lines().map(json_event).collect();
        assert_events(&events, &truth.events, "events --json");

        let converted = latscope_with(&["convert", "-f", "-r", "-", "-w", lat], &truth.text);
        // Details are for those who keep a trace.
        let (details, notes): (Vec<_>, Vec<_>) = converted.err.lines().partition(|line| line.contains(": detail: "));
        assert_notes(&notes.join("\n"), &truth);
        assert_eq!(details.len(), usize::from(truth.counts.contains_key("flush_parent")), "{details:?}");
        converted.success();
        let again = latscope(&["events", "-r", lat, "--json"]);
        assert_notes(&again.err, &truth);
        assert_eq!(again.success(), printed, "the same from .lat");
    }
}

#[test]
fn every_view_accounts_for_all_events() {
    let truth = generate(Recipe { seed: 600, lives: 3000, losses: 4, ..PLAIN });
    let input = &truth.text;
    let summary = latscope_with(&["summary", "-r", "-", "--json"], input).success();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    let mut expected: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for event in &truth.events {
        let (count, max) = expected.entry(&event.device).or_default();
        *count += 1;
        *max = event.latency_ns.max(*max);
    }
    let groups = summary["groups"].as_array().unwrap();
    let found: BTreeMap<_, _> = groups
        .iter()
        .map(|group| {
            let device = group["device"].as_str().unwrap();
            (device, (group["count"].as_u64().unwrap(), group["max_ns"].as_u64().unwrap()))
        })
        .collect();
    assert_eq!(found, expected);

    let mut latencies: Vec<_> = truth.events.iter().map(|event| event.latency_ns).collect();
    latencies.sort_unstable();
    assert_eq!(summary["total"]["sum_ns"].as_u64(), Some(latencies.iter().sum()));
    for (key, quantile) in [("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99)] {
        // Nearest rank; a bucket is at most 1/64 of its lower edge wide.
        let exact = latencies[(quantile * latencies.len() as f64).ceil() as usize - 1] as f64;
        let shown = summary["total"][key].as_f64().unwrap();
        assert!((shown - exact).abs() <= exact / 64.0, "{key}: {shown} for {exact}");
    }

    let slow = truth.events.iter().filter(|event| event.latency_ns > 1_000_000 && event.kind == "read").count();
    let filtered = latscope_with(&["events", "-r", "-", "--csv", "lat > 1ms and kind = read"], input).success();
    assert_eq!(filtered.lines().count(), slow + 1);

    // By time in the queue: request latency is device latency and queue time together.
    let request = latscope_with(&["events", "-r", "-", "--json", "--latency", "request"], input);
    assert!(!request.err.contains("the time of its creation"), "{}", request.err);
    let request = request.success();
    let request: Vec<_> = request.lines().map(json_event).collect();
    let expected: Vec<_> = truth
        .events
        .iter()
        .map(|event| Event {
            time_ns: event.time_ns - event.queue_ns as i64,
            latency_ns: event.latency_ns + event.queue_ns,
            ..event.clone()
        })
        .collect();
    assert_events(&request, &expected, "--latency request");
}

#[test]
fn the_format_is_found_out_whatever_the_columns() {
    for recipe in recipes() {
        let options = ReadOptions { format: Some(Format::PerfScript), ..ReadOptions::new(FieldSet::ALWAYS) };
        let truth = generate(Recipe { lives: 20, ..recipe });
        let forced = read_bytes("forced", &truth.text, &options, &mut |_, _| ControlFlow::Continue(())).unwrap();
        assert_eq!(read(&truth.text).1.tally, forced.tally);
    }
}
