use super::*;
use latscope_event::Clock;

fn texts(context: &Context) -> Vec<String> {
    WORDING.lines(context).into_iter().map(|line| line.text).collect()
}

#[test]
fn the_worst_is_noted_first() {
    let mut context = Context::new("perf script", Clock::unanchored("boot"));
    context.tally.add(Anomaly::Requeue, 258);
    context.tally.add(Anomaly::LostRecords, 12_345);
    context.tally.add(Anomaly::Unfinished, 0);
    context.tally.add(Anomaly::FlushParent, 2);
    let request = |wait, at_least_ns| Unfinished {
        what: "7:0 write".into(),
        start_ns: 0,
        at_least_ns,
        wait,
        values: Default::default(),
    };
    context.unfinished = vec![request(Wait::Counts, 31_000_000), request(Wait::Lossy, 5)];
    context.note(Note::Interrupted);
    assert_eq!(
        texts(&context),
        [
            "missing: 12,345 records lost by the tracer",
            "note: 258 requests requeued and issued again",
            "longest without a completion: 7:0 write, at least 31ms; 1 does not count as waiting: the trace \
             lacks completions",
            "interrupted: the rest of the input was not read",
        ]
    );
    let detail = "detail: 2 completions of flush parents, which are not requests of their own";
    assert_eq!(super::detail(&context).as_deref(), Some(detail));
}

/// An idle server is not reported as stalled.
#[test]
fn threads_that_sleep_are_counted_and_not_named() {
    let mut context = Context::new("live stacks", Clock::wall());
    let request = |what: &str, wait, at_least_ns| {
        let values = Default::default();
        Unfinished { what: what.into(), start_ns: 0, at_least_ns, wait, values }
    };
    context.unfinished = vec![request("epoll_wait", Wait::Sleeps, 9_000_000_000)];
    let rest = "other than storage (a timer, a lock, a message, a CPU)";
    let one = format!("1 wait for something {rest} has not ended and counts with its time so far");
    assert_eq!(texts(&context), [one]);
    context.unfinished.extend([request("futex", Wait::Sleeps, 7), request("pread64", Wait::Counts, 2_000_000)]);
    context.sort_unfinished();
    let many = format!("2 waits for something {rest} have not ended and count with their time so far");
    assert_eq!(texts(&context), ["longest without a completion: pread64, at least 2ms".to_string(), many]);
    context.unfinished = vec![request("pread64", Wait::Counts, 0)];
    assert_eq!(
        texts(&context),
        ["longest without a completion: pread64, which had just begun"],
        "a sampler saw it once"
    );
}

#[test]
fn every_kind_has_words_for_one_and_for_many() {
    for &anomaly in Anomaly::ALL {
        for count in [1, 1234] {
            let phrase = counted_phrase(words(anomaly, false), count);
            assert!(phrase.contains(&format_count(count)), "{phrase}");
            assert!(!phrase.contains(['[', ']', '|', '{', '}']) && !phrase.contains("  "), "{phrase}");
        }
    }
    assert_eq!(counted_phrase(words(Anomaly::NeverReturn, false), 1), "1 system call that never returns (exit)");
    assert_eq!(counted_phrase(words(Anomaly::NeverReturn, false), 2), "2 system calls that never return (exit)");
}

#[test]
fn lists_name_the_first_of_many() {
    let mut context = Context::new("a.csv", Clock::wall());
    context.note(Note::UnknownColumns { names: (1..=7).map(|at| format!("c{at}")).collect() });
    context.note(Note::FieldsOfFilter { names: vec!["disk.dev".into()] });
    context.note(Note::MalformedRow { line: 3, why: "a negative number".into() });
    let columns = "columns that are not fields of events are ignored: c1, c2, c3, c4, c5 and 2 more";
    assert_eq!(texts(&context), [columns, "no event has disk.dev, a field of the filter"]);
    context.tally.add(Anomaly::UnparsedLines, 1);
    let first = "the first malformed row is line 3: it has a negative number";
    assert_eq!(
        texts(&context)[..],
        ["missing: 1 malformed row", columns, "no event has disk.dev, a field of the filter", first]
    );
}
