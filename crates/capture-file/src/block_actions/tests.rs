use super::text::{TextAction, parse};
use super::*;
use crate::ReadOptions;
use latscope_event::{Clock, Field};
use std::ops::ControlFlow;

/// The events of lines `TIME_US DEVICE ACTION`, as blkparse prints them behind the letters.
fn events(lines: &str) -> (Vec<(i64, u64, u64, u64)>, Context) {
    events_with(false, lines)
}

fn events_with(each_request_once: bool, lines: &str) -> (Vec<(i64, u64, u64, u64)>, Context) {
    let mut rows = Vec::new();
    let mut sink = |_: &Context, batch: &Batch| {
        let column = |field| match batch.column(field) {
            Some(latscope_event::Column::U64(values)) => values.clone(),
            _ => panic!("a column of numbers"),
        };
        let (queue, offset) = (column(Field::Queue), column(Field::Offset));
        for row in 0..batch.len() {
            rows.push((batch.time()[row] / 1000, batch.latency()[row] / 1000, queue[row], offset[row] / 512));
        }
        ControlFlow::Continue(())
    };
    let options = ReadOptions { each_request_once, ..ReadOptions::new(FieldSet::EVERY) };
    let mut actions = ActionEvents::new(Context::new("test", Clock::unanchored("test")), &options, &mut sink);
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.splitn(3, ' ');
        let (time, dev) = (words.next().unwrap(), words.next().unwrap());
        let time_ns = time.parse::<i64>().unwrap() * 1000;
        let dev = dev.parse::<u32>().unwrap() << 20;
        match parse(words.next().unwrap().as_bytes(), dev) {
            Some(TextAction::Record(mut record, comm)) => {
                // Only the sectors of a split are to be trusted.
                record.bytes = if matches!(record.action, Action::Split(_)) { 4 << 20 } else { record.bytes };
                assert!(actions.add(&ActionRecord { time_ns, ..record }, comm).is_continue());
            }
            Some(TextAction::Other) => {}
            None => panic!("{line}"),
        }
    }
    let context = actions.finish();
    (rows, context)
}

const US: u64 = 1000;

fn stacked(left_out: u64) -> Note {
    Note::StackedDevices { devices: vec!["253:0".into()], numbers: vec!["253:0".into()], left_out }
}

#[test]
fn a_request_waits_from_the_first_of_queue_allocate_and_insert() {
    for (before, queue_us) in
        [("1 8 Q W 64 + 8 [a]\n2 8 G W 64 + 8 [a]\n", 9), ("3 8 G W 64 + 8 [a]\n4 8 I W 64 + 8 [a]\n", 7)]
    {
        let (rows, context) = events(&format!("{before}10 8 D W 64 + 8 [a]\n15 8 C W 64 + 8 [0]"));
        assert_eq!(rows, [(10, 5, queue_us * US, 64)]);
        assert!(context.is_plain(), "{:?}", context.tally);
    }
    let (rows, _) = events("10 8 D W 64 + 8 [a]\n15 8 C W 64 + 8 [0]");
    assert_eq!(rows, [(10, 5, latscope_event::MISSING_U64, 64)], "nobody knows");
}

#[test]
fn merged_bios_have_no_request_of_their_own_and_a_merge_in_front_moves_the_start() {
    let (rows, context) = events(
        "1 8 Q W 64 + 8 [a]\n2 8 G W 64 + 8 [a]\n3 8 Q W 72 + 8 [a]\n4 8 M W 72 + 8 [a]\n5 8 Q W 56 + 8 [a]\n6 8 F W 56 + 8 [a]
         10 8 D W 56 + 24 [a]\n15 8 C W 56 + 24 [0]",
    );
    assert_eq!(rows, [(10, 5, 9 * US, 56)]);
    assert!(context.is_plain(), "{:?}", context.tally);
}

#[test]
fn the_rest_of_a_split_bio_waits_since_the_bio_was_queued() {
    let (rows, context) = events(
        "1 8 Q W 64 + 16 [a]\n2 8 X W 64 / 72 [a]\n3 8 G W 64 + 8 [a]\n4 8 G W 72 + 8 [a]
         10 8 D W 64 + 8 [a]\n11 8 D W 72 + 8 [a]\n15 8 C W 64 + 8 [0]\n16 8 C W 72 + 8 [0]",
    );
    assert_eq!(rows, [(10, 5, 9 * US, 64), (11, 5, 10 * US, 72)]);
    assert!(context.is_plain(), "{:?}", context.tally);
}

/// Device-mapper never issues what it takes; both devices show, and nobody should add them up.
#[test]
fn a_device_without_requests_has_its_bios_as_events() {
    let (rows, context) = events(
        "1 253 Q W 100 + 8 [a]\n2 8 A W 164 + 8 <- (253,0) 100\n3 8 Q W 164 + 8 [a]\n4 8 G W 164 + 8 [a]
         10 8 D W 164 + 8 [a]\n15 8 C W 164 + 8 [0]\n17 253 C W 100 + 8 [0]\n18 253 Q R 7 + 1 [a]",
    );
    assert_eq!(rows, [(10, 5, 7 * US, 164), (1, 16, 0, 100)]);
    assert_eq!(context.notes, [stacked(0)]);
    assert_eq!(context.tally.iter().collect::<Vec<_>>(), [(Anomaly::Unfinished, 1)]);
    assert_eq!(context.unfinished.len(), 1, "a bio that hangs");
}

/// With `each_request_once` that is it: that of the lower device, whether the upper one has requests or not.
#[test]
fn a_request_that_is_passed_on_is_one_event_if_asked_for() {
    let bios = "1 253 Q W 100 + 8 [a]\n2 8 A W 164 + 8 <- (253,0) 100\n3 8 Q W 164 + 8 [a]\n4 8 G W 164 + 8 [a]
         10 8 D W 164 + 8 [a]\n15 8 C W 164 + 8 [0]\n17 253 C W 100 + 8 [0]\n18 253 Q R 7 + 1 [a]";
    let requests = "1 253 Q W 100 + 8 [a]\n2 253 G W 100 + 8 [a]\n3 253 D W 100 + 8 [a]\n4 8 A W 100 + 8 <- (253,0) 100
         10 8 D W 100 + 8 [a]\n15 8 C W 100 + 8 [0]\n17 253 C W 100 + 8 [0]";
    for (lines, expected, left_out) in [(bios, (10, 5, 7 * US, 164), 2), (requests, (10, 5, 6 * US, 100), 1)] {
        let (rows, context) = events_with(true, lines);
        assert_eq!(rows, [expected]);
        assert_eq!(context.notes, [stacked(left_out)]);
        assert_eq!((context.tally.iter().count(), context.unfinished.len()), (0, 0));
        assert_eq!(events(lines).0.len(), 2, "both otherwise");
    }
}

/// A bio that device-mapper splits completes as a whole.
#[test]
fn a_split_bio_of_a_device_without_requests_leaves_no_rest() {
    let (rows, context) = events("1 253 Q W 100 + 24 [a]\n2 253 X W 100 / 108 [a]\n9 253 C W 100 + 24 [0]");
    assert_eq!(rows, [(1, 8, latscope_event::MISSING_U64, 100)]);
    assert!(context.is_plain() && context.unfinished.is_empty(), "{:?}", context.tally);
}

/// The thread that queued a bio may not be the one that issues the request; nobody knows of a request of which only the issue shows.
#[test]
fn requests_without_a_start_have_no_wait_whatever_others_have() {
    let (rows, _) =
        events("1 8 Q R 64 + 8 [a]\n2 8 D R 64 + 8 [a]\n3 8 D R 128 + 8 [a]\n5 8 C R 64 + 8 [0]\n6 8 C R 128 + 8 [0]");
    assert_eq!(rows, [(2, 3, US, 64), (3, 3, latscope_event::MISSING_U64, 128)]);
}

#[test]
fn requeues_partial_completions_flushes_and_commands_pair_as_those_of_tracepoints() {
    let (rows, context) = events(
        "1 8 Q W 64 + 16 [a]\n2 8 D W 64 + 16 [a]\n3 8 R W 64 + 16 [0]\n4 8 I W 64 + 16 [a]\n5 8 D W 64 + 16 [a]
         6 8 C W 64 + 8 [0]\n7 8 C W 72 + 8 [-5]
         10 8 D FN [a]\n12 8 C FN 0 [0]\n13 8 C WS 0 [0]
         20 8 D R 36 (12 00 00 00 24 00) [a]\n25 8 C R (12 00 00 00 24 00) [0]",
    );
    assert_eq!(rows.iter().map(|row| (row.0, row.1)).collect::<Vec<_>>(), [(5, 2), (10, 2), (20, 5)]);
    let counts = [(Anomaly::Requeue, 1), (Anomaly::PartialCompletion, 1), (Anomaly::FlushParent, 1)];
    assert_eq!(context.tally.iter().collect::<Vec<_>>(), counts);
}

#[test]
fn what_waits_for_ever_is_counted() {
    let lines: String = (0..10).map(|at| format!("{at} 8 Q W {} + 8 [a]\n", at * 8 + 8)).collect();
    let (rows, context) = events(&lines);
    assert!(rows.is_empty());
    assert_eq!(context.tally.iter().collect::<Vec<_>>(), [(Anomaly::NeverIssued, 10)]);
}

#[test]
fn text_that_is_no_record_is_refused() {
    for text in [
        "",
        "Q",
        "Q W",
        "Q W ",
        "Q W 1 + x [a]",
        "Z W 1 + 8 [a]",
        "C W 1 + 8 [x]",
        "Q W 1 + 8",
        "A W 1 + 8 <-",
        "X W 9 / 8 [a]",
    ] {
        assert!(parse(text.as_bytes(), 0).is_none(), "{text}");
    }
    for text in ["m N any text", "P N [a]", "U N [a] 1", "UT N [(null)] 1"] {
        assert!(matches!(parse(text.as_bytes(), 0), Some(TextAction::Other)), "{text}");
    }
    let Some(TextAction::Record(record, _)) = parse(b"D R 512 [fio]", 0) else { panic!("a command") };
    assert_eq!((record.sector, record.bytes, record.is_passthrough), (0, 512, true));
    let Some(TextAction::Record(record, comm)) = parse(b"C RS 1 + 8 (   12345) [65531]", 0) else {
        panic!("with times (-t)")
    };
    assert_eq!((record.error, record.bytes, comm[0]), (-5, 4096, 0));
}
