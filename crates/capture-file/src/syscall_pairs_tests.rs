use super::*;
use latscope_event::MISSING_CODE;
use proptest::prelude::*;

struct Run {
    pairs: SyscallPairs,
    batch: Batch,
    context: Context,
}

impl Run {
    fn new(all: bool) -> Run {
        Run {
            pairs: SyscallPairs::new(Machine::X86_64, all),
            batch: Batch::new(FieldSet::EVERY),
            context: Context::new("test", latscope_event::Clock::unanchored("boot")),
        }
    }

    fn push(&mut self, time_ns: i64, tid: i32, number: i64, end: End) {
        let call = self.pairs.numbered(number);
        let record = SyscallRecord { time_ns, pid: tid, tid, call, end, comm: b"fio", stack: MISSING_CODE };
        self.pairs.push(&record, &mut self.batch, &mut self.context);
    }

    fn text(&self, field: Field, row: usize) -> &str {
        self.batch.text(field, row).unwrap_or("-")
    }

    fn count(&self, anomaly: Anomaly) -> u64 {
        self.context.tally.get(anomaly)
    }
}

#[test]
fn a_call_becomes_an_event_with_its_arguments() {
    let mut run = Run::new(false);
    run.push(10, 7, 17, End::Enter(&[3, 0x7f00, 4096, 8192, 0, 0]));
    run.push(15, 7, 17, End::Exit(4096));
    run.push(20, 7, 257, End::Enter(&[0xffff_ff9c, 0x7f00, 0, 0, 0, 0]));
    run.push(22, 7, 257, End::Exit(5));
    run.push(30, 7, 1, End::Enter(&[5, 0x7f00, 100]));
    run.push(39, 7, 1, End::Exit(-28));
    run.push(40, 7, 74, End::Enter(&[]));
    run.push(50, 7, 74, End::Exit(0));
    let batch = &run.batch;
    assert_eq!((batch.time(), batch.latency()), (&[10, 20, 30, 40][..], &[5, 2, 9, 10][..]));
    let words: Vec<_> = (0..4)
        .map(|row| (run.text(Field::Kind, row), run.text(Field::Name, row), run.text(Field::Error, row)))
        .collect();
    assert_eq!(
        words,
        [("read", "pread64", "-"), ("open", "openat", "-"), ("write", "write", "ENOSPC"), ("sync", "fsync", "-")]
    );
    assert_eq!(batch.i64s(Field::Fd), Some(&[3, 5, 5, MISSING_I64][..]));
    assert_eq!(batch.u64s(Field::Size), Some(&[4096, MISSING_U64, 100, MISSING_U64][..]));
    assert_eq!(batch.u64s(Field::Offset), Some(&[8192, MISSING_U64, MISSING_U64, MISSING_U64][..]));
    assert_eq!(batch.i64s(Field::Result), Some(&[4096, 5, -28, 0][..]));
    assert_eq!(batch.i64s(Field::Tid), Some(&[7; 4][..]));
}

#[test]
fn only_calls_that_do_io_become_events_unless_all_are_wanted() {
    for (all, events, others) in [(false, 1, 2), (true, 2, 0)] {
        let mut run = Run::new(all);
        run.push(1, 7, 202, End::Enter(&[]));
        run.push(9, 7, 202, End::Exit(0));
        run.push(10, 7, 0, End::Enter(&[]));
        run.push(11, 7, 0, End::Exit(0));
        assert_eq!((run.batch.len(), run.count(Anomaly::NoIo)), (events, others));
    }
}

#[test]
fn what_does_not_pair_is_counted() {
    let mut run = Run::new(true);
    run.push(1, 7, 0, End::Exit(3)); // started before the trace
    run.push(2, 7, 0, End::Enter(&[3]));
    run.push(3, 7, 1, End::Enter(&[3])); // the return of read was lost
    run.push(4, 7, 0, End::Exit(3)); // of the read, so write is not to be trusted either
    run.push(5, 8, 56, End::Exit(0)); // the child of a clone
    run.push(6, 8, 231, End::Enter(&[0]));
    run.push(7, -1, 0, End::Enter(&[0])); // a dying thread has no number
    run.push(8, 9, 15, End::Enter(&[]));
    run.push(9, 9, -1, End::Exit(0)); // rt_sigreturn restores another call's registers
    run.push(10, 9, 0, End::Enter(&[5]));
    run.push(30, 10, 0, End::Enter(&[6]));
    run.push(35, 11, 9999, End::Enter(&[]));
    run.push(40, 11, 9999, End::Exit(-600));
    assert_eq!((run.count(Anomaly::UnpairedEnter), run.count(Anomaly::UnpairedExit)), (3, 2));
    assert_eq!((run.count(Anomaly::OtherRecords), run.count(Anomaly::NeverReturn)), (1, 1));
    assert_eq!((run.text(Field::Name, 0), run.text(Field::Name, 1)), ("rt_sigreturn", "syscall_9999"));
    assert_eq!(run.text(Field::Error, 1), "error");
    run.pairs.finish(&mut run.context);
    assert_eq!(run.context.tally.get(Anomaly::Unfinished), 2);
    assert_eq!(run.context.unfinished[0].what, "read by fio, thread 9");
    assert_eq!(run.context.unfinished[0].at_least_ns, 30);
}

#[test]
fn a_loss_makes_open_calls_doubtful() {
    let mut run = Run::new(false);
    run.push(1, 7, 0, End::Enter(&[3]));
    run.push(1, 8, 0, End::Enter(&[3]));
    run.pairs.lost();
    run.push(5, 7, 0, End::Exit(3));
    run.pairs.finish(&mut run.context);
    assert_eq!(run.context.tally.get(Anomaly::Doubtful), 1);
    assert_eq!(run.context.tally.get(Anomaly::OpenAfterLoss), 1);
    assert_eq!(run.context.tally.get(Anomaly::Unfinished), 0);
}

#[test]
fn hostile_threads_and_names_stay_bounded() {
    let mut run = Run::new(false);
    for tid in 1..=THREADS_LIMIT as i32 + 10 {
        run.push(i64::from(tid), tid, 0, End::Enter(&[3]));
    }
    assert!(run.pairs.open.len() <= THREADS_LIMIT && run.count(Anomaly::EvictedInFlight) > 0);
    for number in 0..3 * CALLS_LIMIT as i64 {
        run.pairs.numbered(number * 1_000_003 % i64::from(u32::MAX));
    }
    assert_eq!(run.pairs.known.len(), CALLS_LIMIT);
}

#[test]
fn tracepoint_names_and_numbers_are_the_same_call() {
    let mut pairs = SyscallPairs::new(Machine::X86_64, false);
    for (number, name) in [(4, "newstat"), (5, "newfstat"), (6, "newlstat"), (40, "sendfile64"), (0, "read")] {
        assert_eq!(pairs.numbered(number), pairs.named(name.as_bytes()));
    }
}

proptest! {
    /// Every record ends in exactly one place: half of an event, or one of the counts.
    #[test]
    fn every_record_is_accounted_for(
        records in prop::collection::vec((-1i32..4, prop::sample::select(vec![-1i64, 0, 1, 15, 56, 202, 231]), any::<bool>()), 0..300),
        all: bool,
    ) {
        let mut run = Run::new(all);
        for (time, &(tid, number, enter)) in records.iter().enumerate() {
            run.push(time as i64, tid, number, if enter { End::Enter(&[1, 2, 3]) } else { End::Exit(0) });
        }
        let events = run.batch.len() as u64;
        run.pairs.finish(&mut run.context);
        let counted: u64 = [
            Anomaly::UnpairedEnter, Anomaly::UnpairedExit, Anomaly::NoIo, Anomaly::OtherRecords, Anomaly::NeverReturn,
            Anomaly::Unfinished,
        ].iter().map(|&anomaly| run.context.tally.get(anomaly)).sum();
        prop_assert_eq!(2 * events + counted, records.len() as u64);
    }
}
