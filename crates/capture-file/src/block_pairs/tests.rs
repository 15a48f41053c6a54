//! Each rule of pairing by itself.

use super::dataless::LANE_LIMIT;
use super::*;
use latscope_event::Clock;

const VDA: u32 = 254 << 20;

fn record(time_us: i64, step: Step, rwbs: &str, sector: u64, sectors: u32) -> Record {
    Record {
        time_ns: time_us * 1000,
        sector,
        bytes: if matches!(step, Step::Issue | Step::Start | Step::Insert) { sectors * 512 } else { 0 },
        sectors,
        dev: VDA,
        error: 0,
        pid: NO_ID,
        tid: 7,
        step,
        rwbs: padded(rwbs.as_bytes()),
        comm: padded(b"fio"),
        stack: MISSING_CODE,
    }
}

fn paired(records: &[Record]) -> (Vec<(u64, u64, u64)>, Context) {
    let mut batch = Batch::new(FILLS);
    let mut context = Context::new("test", Clock::unanchored("boot"));
    let mut pairs = BlockPairs::default();
    records.iter().for_each(|record| pairs.push(record, &mut batch, &mut context));
    pairs.settle(&mut batch, &mut context);
    pairs.finish(&mut context);
    let events = (0..batch.len())
        .map(|row| {
            let column = |field| batch.u64s(field).unwrap()[row];
            // Without a record of a wait it is not known; the tables say 0.
            let queue_ns = Some(column(Field::Queue)).filter(|&ns| ns != MISSING_U64).unwrap_or(0);
            (column(Field::Latency) / 1000, queue_ns / 1000, column(Field::Size))
        })
        .collect();
    (events, context)
}

fn counts(context: &Context) -> Vec<(Anomaly, u64)> {
    context.tally.iter().collect()
}

#[test]
fn a_requeued_request_has_a_device_latency_and_a_wait() {
    let (events, context) = paired(&[
        record(0, Step::Issue, "R", 8, 8),
        record(10, Step::Requeue, "R", 8, 8),
        record(30, Step::Issue, "R", 8, 8),
        record(100, Step::Complete, "R", 8, 8),
    ]);
    assert_eq!(events, [(70, 30, 4096)]);
    assert_eq!(counts(&context), [(Anomaly::Requeue, 1)]);
}

/// As in blkparse and btt: time, latency and thread are those of one issue, the last.
#[test]
fn a_requeued_request_is_of_the_thread_that_issued_it_last() {
    let again = Record { tid: 21, comm: padded(b"kworker"), ..record(30, Step::Issue, "R", 8, 8) };
    let records = [
        record(0, Step::Start, "R", 8, 8),
        record(5, Step::Issue, "R", 8, 8),
        record(10, Step::Requeue, "R", 8, 8),
        again,
        record(100, Step::Complete, "R", 8, 8),
    ];
    let (mut batch, mut context) = (Batch::new(FILLS), Context::new("test", Clock::unanchored("boot")));
    let mut pairs = BlockPairs::default();
    records.iter().for_each(|record| pairs.push(record, &mut batch, &mut context));
    let text = |field| batch.text(field, 0).unwrap();
    assert_eq!((batch.time()[0], batch.i64s(Field::Tid).unwrap()[0]), (30_000, 21));
    assert_eq!((text(Field::Comm), text(Field::Dispatcher)), ("kworker", "other"));
}

#[test]
fn waiting_starts_at_start_or_insert() {
    let (events, _) = paired(&[
        record(0, Step::Start, "W", 8, 8),
        record(5, Step::Insert, "W", 8, 8),
        record(20, Step::Issue, "W", 8, 16),
        record(50, Step::Complete, "W", 8, 16),
        record(51, Step::Done, "W", 8, 0),
    ]);
    assert_eq!(events, [(30, 20, 8192)], "the size is that of the issue, after merges");
}

#[test]
fn start_and_done_alone_make_events() {
    let (events, context) = paired(&[record(0, Step::Start, "R", 8, 8), record(40, Step::Done, "R", 8, 0)]);
    assert_eq!((events, counts(&context)), (vec![(40, 0, 4096)], vec![]));
}

#[test]
fn an_issue_over_an_issue_means_a_lost_completion() {
    let (events, context) = paired(&[
        record(0, Step::Issue, "R", 8, 8),
        record(1000, Step::Issue, "R", 8, 8),
        record(1040, Step::Complete, "R", 8, 8),
    ]);
    assert_eq!(events, [(40, 0, 4096)]);
    assert_eq!(counts(&context), [(Anomaly::LostCompletion, 1)]);
}

#[test]
fn a_read_does_not_complete_a_write() {
    let (events, context) = paired(&[
        record(0, Step::Issue, "W", 8, 8),
        record(90_000_000, Step::Complete, "R", 8, 8),
        record(90_000_010, Step::Complete, "W", 8, 8),
    ]);
    assert_eq!(events, []);
    assert_eq!(counts(&context), [(Anomaly::OrphanCompletion, 1), (Anomaly::MismatchedCompletion, 1)]);
}

#[test]
fn partial_completions_end_with_the_last_part() {
    let (events, context) = paired(&[
        record(0, Step::Issue, "W", 8, 16),
        record(10, Step::Complete, "W", 8, 4),
        record(20, Step::Complete, "W", 12, 4),
        record(50, Step::Complete, "W", 16, 8),
    ]);
    assert_eq!(events, [(50, 0, 8192)]);
    assert_eq!(counts(&context), [(Anomaly::PartialCompletion, 2)]);
}

#[test]
fn the_rest_of_a_request_that_is_issued_again_keeps_the_size_of_the_whole() {
    let (events, _) = paired(&[
        record(0, Step::Issue, "W", 8, 16),
        record(10, Step::Complete, "W", 8, 4),
        record(20, Step::Requeue, "W", 12, 12),
        record(30, Step::Issue, "W", 12, 12),
        record(50, Step::Complete, "W", 12, 12),
    ]);
    assert_eq!(events, [(20, 30, 8192)]);
}

#[test]
fn flushes_pair_in_device_order_and_their_parent_is_no_request() {
    let (events, context) = paired(&[
        record(0, Step::Issue, "FF", 0, 0),
        record(5, Step::Issue, "FF", 0, 0),
        record(20, Step::Complete, "FF", u64::MAX, 0),
        record(21, Step::Complete, "WS", 0, 0),
        record(35, Step::Complete, "FF", u64::MAX, 0),
        record(36, Step::Complete, "WS", 0, 0),
    ]);
    assert_eq!(events, [(20, 0, 0), (30, 0, 0)]);
    assert_eq!(counts(&context), [(Anomaly::FlushParent, 2)]);
}

#[test]
fn where_completions_go_missing_a_flush_does_not_get_the_start_of_an_older_one() {
    let mut records: Vec<_> = (0..=100).map(|at| record(at, Step::Issue, "R", 8, 8)).collect();
    records.extend([
        record(200, Step::Issue, "FF", 0, 0),
        record(5_000_000, Step::Issue, "FF", 0, 0),
        record(5_000_030, Step::Complete, "FF", u64::MAX, 0),
        record(5_000_040, Step::Complete, "R", 8, 8),
    ]);
    let (events, context) = paired(&records);
    assert!(events.contains(&(30, 0, 0)), "{events:?}");
    assert_eq!(counts(&context), [(Anomaly::LostCompletion, 101)]);
}

/// One lost completion spoils the flush that lost it and no other.
#[test]
fn a_lost_flush_completion_spoils_one_flush() {
    let mut records = Vec::new();
    for second in 0..20 {
        records.push(record(second * 1_000_000, Step::Issue, "FF", 0, 0));
        if second != 3 {
            records.push(record(second * 1_000_000 + 100, Step::Complete, "FF", u64::MAX, 0));
        }
    }
    let (events, context) = paired(&records);
    assert_eq!(events, [(100, 0, 0); 19]);
    assert_eq!(counts(&context), [(Anomaly::LostCompletion, 1)]);
}

/// A device that was seen to have two in flight may have two again; a lost completion still spoils few.
#[test]
fn flushes_of_several_queues_pair_in_order() {
    let mut records = Vec::new();
    for second in 0..20 {
        let at = second * 1_000_000;
        records.push(record(at, Step::Issue, "FF", 0, 0));
        records.push(record(at + 10, Step::Issue, "FF", 0, 0));
        records.push(record(at + 100, Step::Complete, "FF", u64::MAX, 0));
        if second != 3 {
            records.push(record(at + 130, Step::Complete, "FF", u64::MAX, 0));
        }
    }
    let (events, context) = paired(&records);
    let right = events.iter().filter(|event| [100, 120].contains(&event.0)).count();
    assert!(events.len() == 39 && right >= 37, "{events:?}");
    assert_eq!(counts(&context), [(Anomaly::LostCompletion, 1)]);
    // A flush of another queue that hangs is there until it ends.
    let (events, _) = paired(&[
        record(0, Step::Issue, "FF", 0, 0),
        record(1, Step::Issue, "FF", 0, 0),
        record(2, Step::Complete, "FF", u64::MAX, 0),
        record(9_000, Step::Complete, "FF", u64::MAX, 0),
    ]);
    assert_eq!(events, [(2, 0, 0), (8_999, 0, 0)]);
}

/// Whose completion it is shows later: nothing that completed after it may come before it, and not for ever.
#[test]
fn events_are_in_the_order_of_their_completions() {
    let read = |at, sector| [record(at, Step::Issue, "R", sector, 8), record(at + 3, Step::Complete, "R", sector, 8)];
    let two_queues = [record(0, Step::Issue, "FF", 0, 0), record(1, Step::Issue, "FF", 0, 0)];
    let first = [record(10, Step::Complete, "FF", u64::MAX, 0)];
    let second = [record(40, Step::Complete, "FF", u64::MAX, 0)];
    let (events, context) = paired(&[&two_queues[..], &first, &read(20, 8), &second, &read(50, 16)].concat());
    assert_eq!(events, [(10, 0, 0), (3, 0, 4096), (39, 0, 0), (3, 0, 4096)]);
    assert_eq!(counts(&context), []);
    // Nothing more completes: after a second the first of the two counts as lost, and the rest waits no longer.
    let mut batch = Batch::new(FILLS);
    let mut context = Context::new("test", Clock::unanchored("boot"));
    let mut pairs = BlockPairs::default();
    for record in [&two_queues[..], &first, &read(20, 8)].concat() {
        pairs.push(&record, &mut batch, &mut context);
    }
    assert_eq!(batch.len(), 0);
    for record in read(1_100_000, 16) {
        pairs.push(&record, &mut batch, &mut context);
    }
    assert_eq!(batch.latency(), [9_000, 3_000, 3_000]);
    assert_eq!(counts(&context), [(Anomaly::LostCompletion, 1)]);
}

/// Issued with bytes at sector 0, completed at sector -1, the length of the answer in sectors.
#[test]
fn passthrough_commands_pair_in_device_order() {
    let issue = |time_us, bytes| Record { bytes, ..record(time_us, Step::Issue, "N", 0, 0) };
    let (events, context) = paired(&[
        issue(0, 36),
        record(100, Step::Complete, "N", u64::MAX, 0),
        issue(1000, 512),
        record(1200, Step::Complete, "N", u64::MAX, 1),
        // Write zeroes has these letters too, and a place.
        record(2000, Step::Issue, "N", 80, 8),
        record(2300, Step::Complete, "N", 80, 8),
    ]);
    assert_eq!(events, [(100, 0, 36), (200, 0, 512), (300, 0, 4096)]);
    assert_eq!(counts(&context), []);
}

#[test]
fn flushes_with_data_pair_like_writes() {
    let (events, _) = paired(&[record(0, Step::Issue, "FWFS", 8, 8), record(9, Step::Complete, "FWFS", 8, 8)]);
    assert_eq!(events, [(9, 0, 4096)]);
}

#[test]
fn what_is_open_at_the_end_is_unfinished() {
    let (events, context) = paired(&[
        record(0, Step::Issue, "W", 8, 8),
        record(10, Step::Issue, "R", 800, 8),
        record(20, Step::Requeue, "R", 800, 8),
        record(31_000, Step::Start, "R", 80, 8),
    ]);
    assert_eq!(events, []);
    assert_eq!(counts(&context), [(Anomaly::Unfinished, 1), (Anomaly::RequeuedOnly, 1), (Anomaly::NeverIssued, 1)]);
    assert_eq!(context.unfinished[0].at_least_ns, 31_000_000);
    assert_eq!(context.unfinished[0].what, "254:0 write of 4KiB by fio");
}

#[test]
fn a_loss_makes_what_is_in_flight_doubtful_but_keeps_it() {
    let mut batch = Batch::new(FILLS);
    let mut context = Context::new("test", Clock::unanchored("boot"));
    let mut pairs = BlockPairs::default();
    pairs.push(&record(0, Step::Issue, "R", 8, 8), &mut batch, &mut context);
    pairs.push(&record(1, Step::Issue, "R", 80, 8), &mut batch, &mut context);
    pairs.lost(LossRange { start_ns: 1000, end_ns: 2000, cpu: Some(1), records: 12 }, &mut context);
    pairs.push(&record(3, Step::Complete, "R", 8, 8), &mut batch, &mut context);
    pairs.finish(&mut context);
    assert_eq!(batch.latency(), [3000]);
    assert_eq!(counts(&context), [(Anomaly::LostRecords, 12), (Anomaly::Doubtful, 1), (Anomaly::OpenAfterLoss, 1)]);
}

#[test]
fn the_table_is_bounded() {
    let records: Vec<_> =
        (0..IN_FLIGHT_LIMIT as i64 + 10).map(|at| record(at, Step::Issue, "R", 8 * at as u64, 8)).collect();
    let (_, context) = paired(&records);
    let evicted = context.tally.get(Anomaly::EvictedInFlight);
    assert!(evicted >= IN_FLIGHT_LIMIT as u64 / 2);
    assert_eq!(evicted + context.tally.get(Anomaly::Unfinished), records.len() as u64);
}

#[test]
fn devices_have_their_names_where_the_major_number_is_assigned() {
    for (dev, name) in [
        (7 << 20, "loop0"),
        (8 << 20 | 17, "sdb1"),
        (8 << 20 | 16, "sdb"),
        (65 << 20, "sdq"),
        (65 << 20 | 160, "sdaa"),
        (128 << 20, "sddy"),
        (135 << 20 | 255, "sdiv15"),
        // The 257th disk is the second on major 8; names are those of the kernel's sd_format_disk_name.
        (8 << 20 | 256, "sdiw"),
        (65 << 20 | 257, "sdjm1"),
        (202 << 20 | 16, "xvdb"),
        (254 << 20, "254:0"),
        (259 << 20 | 3, "259:3"),
    ] {
        assert_eq!(device_name(dev), name);
    }
}

#[test]
fn letters_have_a_kind() {
    for (rwbs, kind) in [
        ("RA", "read"),
        ("FWFS", "write"),
        ("FF", "flush"),
        ("DS", "discard"),
        ("DE", "discard"),
        ("N", "other"),
        ("", "other"),
    ] {
        assert_eq!(block_kind(rwbs.as_bytes()), kind, "{rwbs}");
    }
    // Without data, the flush before the data is all that there is.
    for (rwbs, sectors, kind) in [("FN", 0, "flush"), ("FWS", 0, "flush"), ("FWS", 8, "write"), ("N", 0, "other")] {
        let open = Open::new(&record(0, Step::Issue, rwbs, 8, sectors), State::Issued, 0);
        assert_eq!(open.kind(), kind, "{rwbs}");
    }
}

#[test]
fn flushes_of_ever_new_devices_take_no_more_room_than_the_limit() {
    let mut batch = Batch::new(FILLS);
    let mut context = Context::new("test", Clock::unanchored("boot"));
    let mut pairs = BlockPairs::default();
    let flush = |dev: u32, step| Record { dev, ..record(i64::from(dev), step, "FF", u64::MAX, 0) };
    for dev in 0..1000 {
        pairs.push(&flush(dev, Step::Issue), &mut batch, &mut context);
        pairs.push(&flush(dev, Step::Complete), &mut batch, &mut context);
        pairs.push(&flush(dev, Step::Complete), &mut batch, &mut context);
    }
    assert_eq!((batch.len(), pairs.dataless.sizes().0), (1000, 0));
    let count = IN_FLIGHT_LIMIT as u32 + 10;
    (0..count).for_each(|dev| pairs.push(&flush(dev, Step::Issue), &mut batch, &mut context));
    assert_eq!(pairs.dataless.sizes(), (10, 10));
    for _ in 0..LANE_LIMIT {
        pairs.push(&flush(7, Step::Issue), &mut batch, &mut context);
    }
    pairs.push(&flush(7, Step::Issue), &mut batch, &mut context);
    assert_eq!(pairs.dataless.sizes(), (11, LANE_LIMIT + 10));
    assert_eq!(context.tally.get(Anomaly::EvictedInFlight), IN_FLIGHT_LIMIT as u64 + 1);
    pairs.finish(&mut context);
    assert_eq!(context.tally.get(Anomaly::Unfinished), LANE_LIMIT as u64 + 10);
}

#[test]
fn unfinished_requests_of_one_moment_have_one_order() {
    let count = Context::UNFINISHED_KEPT as u32 + 24;
    let issues: Vec<_> = (0..count)
        .map(|at| Record { dev: (at % 5) << 20, ..record(0, Step::Issue, "R", 8 * u64::from(at), 8) })
        .collect();
    let (_, first) = paired(&issues);
    assert_eq!(first.unfinished.len(), Context::UNFINISHED_KEPT);
    assert!((0..8).all(|_| paired(&issues).1 == first));
    // Flushes have no sector, and queues of their own for each kind.
    let issues = ["FF", "FwF", "FFS", "N"].map(|rwbs| record(0, Step::Issue, rwbs, 0, 0));
    let (_, first) = paired(&issues);
    assert_eq!(first.unfinished.len(), 4);
    assert!((0..32).all(|_| paired(&issues).1 == first));
}

/// A trace of starts and completions only: the time of a request counts from its start, and its wait is unknown.
#[test]
fn without_issues_time_counts_from_the_start() {
    let (events, context) = paired(&[
        record(10, Step::Start, "R", 8, 8),
        record(20, Step::Start, "W", 16, 8),
        record(110, Step::Complete, "R", 8, 8),
        record(120, Step::Start, "W", 16, 8),
        record(220, Step::Complete, "W", 16, 8),
        record(230, Step::Start, "R", 24, 8),
    ]);
    assert_eq!(events, [(100, 0, 4096), (100, 0, 4096)]);
    assert_eq!(context.tally.get(Anomaly::LostCompletion), 1);
    assert_eq!(context.tally.get(Anomaly::Unfinished), 1);
    assert_eq!(context.tally.iter().count(), 2, "{:?}", context.tally);
}
