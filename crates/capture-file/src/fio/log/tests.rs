use super::*;
use latscope_event::{MISSING_U64, Note};
use std::path::Path;

/// Completion in ns, latency, kind, size, offset, job, host.
type Event = (i64, u64, String, u64, u64, String, String);

fn named_read(name: &str, bytes: &[u8]) -> (Result<Context, Error>, Vec<Event>) {
    read_as(name, bytes, &ReadOptions::new(FieldSet::EVERY))
}

fn read_as(name: &str, bytes: &[u8], options: &ReadOptions) -> (Result<Context, Error>, Vec<Event>) {
    let mut input = Input::from_bytes(name, bytes).unwrap();
    if name != "-" {
        input.path = Some(Path::new(name).into());
    }
    let mut events = Vec::new();
    let context = read(input, options, &mut |_, batch| {
        for row in 0..batch.len() {
            let text = |field| batch.text(field, row).unwrap_or_default().to_string();
            let latency = batch.latency()[row];
            let number = |field| batch.u64s(field).unwrap()[row];
            events.push((
                batch.time()[row] + latency as i64,
                latency,
                text(Field::Kind),
                number(Field::Size),
                number(Field::Offset),
                text(Field::Job),
                text(Field::Host),
            ));
        }
        ControlFlow::Continue(())
    });
    (context, events)
}

fn layout_of(text: &str) -> Option<FioColumns> {
    Probe::detect(text.as_bytes(), None).map(|probe| probe.layout)
}

#[test]
fn every_layout_that_a_version_of_fio_writes_is_recognised() {
    let layout = |max, offset, priority, issue| Some(FioColumns { max, offset, priority, issue });
    for (text, expect, why) in [
        ("0, 223, 0, 4096\n1, 167, 1, 4096\n", layout(false, false, false, false), "1.99"),
        ("0, 223, 0, 4096, 8192\n1, 167, 1, 4096, 0\n", layout(false, true, false, false), "2.1.11 with log_offset"),
        ("0, 223000, 0, 4096, 0\n1, 167, 1, 4096, 1\n", layout(false, false, true, false), "3.18"),
        ("0, 223000, 0, 4096, 0x2003\n", layout(false, false, true, false), "3.28 with log_prio"),
        (
            "0, 223000, 0, 4096, 8192, 0\n1, 9, 2, 4096, 0, 0\n",
            layout(false, true, true, false),
            "3.18 with log_offset",
        ),
        ("0, 223000, 0, 4096, 8192, 0x0000\n", layout(false, true, true, false), "3.28 with both"),
        ("0, 223000, 0, 0, 4096, 0\n3, 9, 0, 1, 512, 0\n", layout(true, false, true, false), "3.37, both, no window"),
        ("500, 223000, 523000, 0, 0, 0\n1000, 2, 3, 1, 0, 0\n", layout(true, false, true, false), "3.37, both"),
        (
            "500, 223000, 0, 0, 0, 0\n1000, 2, 1, 0, 0, 0\n",
            layout(false, true, true, false),
            "a window with log_offset",
        ),
        ("500, 9000, 0, 4096, 8192, 0, 498000\n", layout(false, true, true, true), "3.38 with issue times"),
        ("500, 9000, 0, 1, 4096, 8192, 0\n", layout(true, true, true, false), "3.37, both, log_offset"),
        ("500, 9000, 0, 1, 4096, 8192, 0, 4980\n", layout(true, true, true, true), "3.38, everything"),
        ("500, 9000, 7, 4096\n", None, "no direction"),
        ("500, 9000, 1\n", None, "three columns"),
        ("1, 2, 0, 4, 5, 6, 7, 8, 9\n", None, "nine columns"),
    ] {
        assert_eq!(layout_of(text), expect, "{why}");
    }
}

#[test]
fn completions_are_in_the_middle_of_their_millisecond() {
    let text = b"5, 409153, 0, 4096, 0\r\n6,1447481,1,512,0\n6, 7, 2, 4096, 1";
    let (context, events) = named_read("/x/run_clat.3.log.vm1", text);
    let context = context.unwrap();
    let event = |end, latency, kind: &str, size| {
        (end, latency, kind.to_string(), size, MISSING_U64, "run.3".to_string(), "vm1".to_string())
    };
    assert_eq!(
        events,
        [
            event(5_500_000, 409_153, "read", 4096),
            event(6_500_000, 1_447_481, "write", 512),
            event(6_500_000, 7, "trim", 4096)
        ]
    );
    assert_eq!((context.span_ns, context.host.as_deref()), (Some((5_500_000, 6_500_000)), Some("vm1")));
    assert_eq!(context.clock, Clock::unanchored("relative"));
    assert!(context.is_plain());
}

#[test]
fn times_since_the_epoch_are_of_the_wall_clock() {
    let (context, events) = named_read("-", b"1795223322206, 193931, 0, 4096, 4046848, 0x0000\n");
    assert_eq!(context.unwrap().clock, Clock::wall());
    let [(end, _, _, size, offset, job, host)] = &events[..] else { panic!("one event") };
    assert_eq!((*end, *size, *offset), (1_795_223_322_206_500_000, 4096, 4_046_848));
    assert_eq!((job.as_str(), host.as_str()), ("", ""));
}

#[test]
fn the_time_of_issue_gives_the_completion_to_the_nanosecond() {
    // The second time was taken late, and the clock of the issue times starts 1795223322206 ms after 1970.
    let epoch = 1_795_223_322_206u64;
    let row = |late_ms: u64, issue_ns: u64, latency: u64| {
        format!("{}, {latency}, 0, 4096, 0, 0, {issue_ns}\n", epoch + (issue_ns + latency) / 1_000_000 + late_ms)
    };
    let text = row(0, 1_000_123, 456_789) + &row(1, 2_345_678, 999_999) + &row(0, 0, 5);
    let (_, events) = named_read("a_clat.1.log", text.as_bytes());
    let ends: Vec<i64> = events.iter().map(|event| event.0 - epoch as i64 * MS).collect();
    assert_eq!(ends, [1_456_912, 3_345_677, HALF_MS], "a row without a time of issue is in the middle");
    let relative = text.replace("17952233222", "");
    let (_, events) = named_read("a_clat.1.log", relative.as_bytes());
    assert_eq!(events[0].0, 1_456_912, "offsets of a few milliseconds are not the clock's");
}

#[test]
fn a_log_of_several_jobs_is_taken_apart() {
    let text = b"1, 1000, 0, 512, 0\n900, 1000, 0, 512, 0\n897, 1, 0, 512, 0\n2, 1000, 1, 512, 0\n700, 2, 1, 512, 0\n3, 9, 0, 512, 0\n";
    let jobs = |name: &str| named_read(name, text).1.into_iter().map(|event| event.5).collect::<Vec<_>>();
    assert_eq!(jobs("all_clat.log"), ["all.1", "all.1", "all.1", "all.2", "all.2", "all.3"]);
    assert_eq!(jobs("all_clat.7.log"), ["all.7"; 6], "runs that were appended");
}

#[test]
fn microseconds_of_an_old_fio() {
    let unit = |text: &str| Probe::detect(text.as_bytes(), None).unwrap().unit(|| None);
    let rows = |latency: u64, every_ms: u64| -> String {
        (0..500).map(|at| format!("{}, {}, 0, 4096\n", at * every_ms, latency + at % 7)).collect()
    };
    let (us, ns) = (1000, 1);
    for (latency, every_ms, ns_per_unit, guessed, why) in [
        (8_000, 8, us, false, "a disk, one at a time"),
        (58, 6, us, false, "a fast one that is mostly idle"),
        (3_500, 6, us, false, "a slow one that is mostly idle"),
        (64_000, 2, us, true, "32 in flight, or nanoseconds of a rate-limited job"),
        (90_000, 0, ns, false, "as microseconds, thousands in flight"),
        (170_000, 2, ns, true, "as microseconds, begun before the job"),
    ] {
        // In flight at first: the time of an I/O that could have started with the job.
        let from = if ns_per_unit == us { latency / 1000 + 1 } else { 0 };
        let text: String = rows(latency, every_ms)
            .lines()
            .map(|line| line.split_once(',').unwrap())
            .map(|(time, rest)| format!("{},{rest}\n", time.parse::<u64>().unwrap() + from))
            .collect();
        assert_eq!(unit(&text), layout::Unit { ns: ns_per_unit, guessed }, "{why}");
    }
    // Pauses before the few that took long show that they did.
    let mixed = |pause: u64| -> String {
        let row = |at: u64| match at % 100 {
            99 => format!("{}, 7800, 0, 4096\n", at / 100 * 20 + 10 + pause),
            part => format!("{}, {}, 0, 4096\n", at / 100 * 20 + part / 10, 40 + part % 7),
        };
        (0..500).map(row).collect()
    };
    assert_eq!(unit(&mixed(7)), layout::Unit { ns: us, guessed: false });
    assert_eq!(unit(&mixed(0)), layout::Unit { ns: us, guessed: true });
    for (version, ns) in [((2, 21), us), ((2, 99), 1), ((3, 0), 1), ((3, 17), 1)] {
        let known = Probe::detect(mixed(0).as_bytes(), None).unwrap().unit(|| Some(version));
        assert_eq!(known, layout::Unit { ns, guessed: false }, "{version:?}");
    }
    assert_eq!(unit("0, 9, 0, 4096, 0\n").ns, 1, "who writes priorities writes nanoseconds");
    let (context, events) = named_read("-", rows(8_000, 8).as_bytes());
    assert_eq!((events[0].1, context.unwrap().properties["latency_unit"].as_str()), (8_000_000, "1,000 ns"));
}

/// The first thousand rows look like priorities, the others do not.
#[test]
fn a_column_that_turns_out_to_be_no_priority_is_reported() {
    let row = |at: u64| format!("{at}, 5000, 0, 4096, {}\n", if at >= 1200 && at & 3 > 0 { 4096 } else { at & 1 });
    let text: String = (0..2000).map(row).collect();
    let (context, events) = named_read("a_clat.1.log", text.as_bytes());
    assert_eq!((context.unwrap().tally.get(Anomaly::StrangePriority), events.len()), (600, 2000));
    let (context, _) = named_read("a_clat.1.log", text.replace("4096\n", "0x2004\n").as_bytes());
    assert_eq!(context.unwrap().tally.get(Anomaly::StrangePriority), 0);
}

#[test]
fn averages_over_windows_are_recognized() {
    let (context, events) = named_read("a_clat.1.log", b"500, 9000, 0, 0, 0\n1000, 8000, 0, 0, 0\n");
    assert_eq!(context.unwrap().tally.get(Anomaly::WindowedRows), 2);
    assert_eq!(events[1].3, MISSING_U64, "a window has no size");
}

/// Found by the fuzzer: more digits than a word holds, of which only the last ones count.
#[test]
fn zeros_may_lead_a_time_of_any_length() {
    let log = |zeros: usize| -> String {
        (1..200).map(|at| format!("{:0zeros$}{at}, {}, {}, 4096, 0\n", 0, 5 * at, at % 2)).collect()
    };
    let plain = named_read("a_clat.1.log", log(1).as_bytes());
    for zeros in [8, 14, 15, 16, 17, 18, 30] {
        let (context, events) = named_read("a_clat.1.log", log(zeros).as_bytes());
        assert_eq!(
            (context.unwrap().tally, events),
            (plain.0.as_ref().unwrap().tally.clone(), plain.1.clone()),
            "{zeros}"
        );
    }
}

#[test]
fn hostile_rows_are_errors_or_counted_and_the_first_is_named() {
    let lenient = ReadOptions { lenient: true, ..ReadOptions::new(FieldSet::EVERY) };
    // An empty line is nothing, but it is a line.
    let good = "1, 5, 0, 4096, 0\n\n";
    let long = format!("2, 5, 0, 4096{}", ", 0".repeat(1_000_000));
    for (row, why) in [
        ("2, 18446744073709551615, 0, 4096, 0", "a latency of more than 292 years"),
        ("2, 18446744073709551616, 0, 4096, 0", "a number that exceeds 64 bits"),
        ("2, -5, 0, 4096, 0", "a negative number"),
        ("2, 5, 3, 4096, 0", "a direction other than 0, 1 or 2"),
        ("2, 5, 0, 4096", "too few columns"),
        ("2, 5, 0, 4096, 0, 0", "more columns than the rows before"),
        ("2, 5, \0, 4096, 0", "something that is not a number"),
        ("99999999999999999, 5, 0, 4096, 0", "an impossible time"),
        ("2, 5, 0, 4096, 0x", "something that is not a number"),
        (&long, crate::text_rows::TOO_LONG),
    ] {
        for end in ["\n1, 6, 0, 4096, 0\n", "\n", ""] {
            let text = format!("{good}{row}{end}");
            // By its name it is a log, whatever is in its lines.
            let (context, events) = read_as("a_clat.1.log", text.as_bytes(), &lenient);
            let context = context.unwrap();
            let is_cut = end.is_empty() && why == "too few columns";
            let counted = if is_cut { Anomaly::Truncated } else { Anomaly::UnparsedLines };
            assert_eq!(context.tally.get(counted), 1, "{row:.40}");
            assert_eq!(context.notes, [Note::MalformedRow { line: 3, why: why.into() }]);
            assert_eq!(events.len(), if end.len() > 1 { 2 } else { 1 }, "{row:.40}");
            let message = named_read("a_clat.1.log", text.as_bytes()).0.map_err(|error| error.to_string());
            match message {
                Ok(context) => assert!(is_cut && context.tally.get(Anomaly::Truncated) == 1, "{row:.40}"),
                Err(message) => assert_eq!(message, format!("a_clat.1.log:3: The row has {why}.")),
            }
        }
    }
    let (error, _) = read_as("-", b"1, 18446744073709551615, 0, 4096, 0\n", &lenient);
    assert_eq!(
        error.unwrap_err().to_string(),
        "-:1: All rows are malformed; the first one has a latency of more than 292 years."
    );
    let (error, _) = named_read("-", &b"1, ".repeat(1_000_000));
    assert!(error.unwrap_err().to_string().starts_with("-:1: No row of a fio latency log found"));
}

#[test]
fn columns_that_only_the_user_knows() {
    // A window with maxima, or offsets of 0: only who made the log can decide.
    let text = b"500, 2, 1, 0, 0, 0\n1000, 2, 1, 0, 0, 0\n";
    let read = |names: &str| {
        let fio_columns = FioColumns::parse(names);
        assert!(fio_columns.is_some(), "{names}");
        read_as("-", text, &ReadOptions { fio_columns, ..ReadOptions::new(FieldSet::EVERY) }).1
    };
    let (maxima, offsets) =
        (read("time,value,max,direction,size,priority"), read("time,value,direction,size,offset,priority"));
    assert_eq!((maxima[0].2.as_str(), maxima[0].4), ("read", MISSING_U64));
    assert_eq!((offsets[0].2.as_str(), offsets[0].4), ("write", 0));
    for names in [
        "",
        "time,value",
        "value,time,direction,size",
        "time,value,direction,size,size",
        "time,value,direction,size,prio",
    ] {
        assert_eq!(FioColumns::parse(names), None, "{names}");
    }
    assert_eq!(FioColumns::parse(&FioColumns::NAMES.join(", ")).map(|all| all.max && all.issue), Some(true));
    // A log with none of these sets of columns.
    let options = ReadOptions {
        fio_columns: FioColumns::parse("time,value,direction,size"),
        ..ReadOptions::new(FieldSet::EVERY)
    };
    assert!(read_as("-", text, &options).0.is_err());
}

#[test]
fn logs_that_are_none_of_latencies() {
    for (name, text, says) in [
        ("a_bw.1.log", "1, 5, 0, 4096, 0\n", "bandwidth"),
        ("a_iops.1.log.host", "1, 1, 0, 4096, 0\n", "IOPS"),
        ("-", "1, 1, 0, 4096, 0\n2, 1, 0, 4096, 0\n", "IOPS"),
    ] {
        assert!(named_read(name, text.as_bytes()).0.unwrap_err().message.contains(says), "{name}");
    }
    let (context, events) = named_read("a_slat.1.log", b"");
    assert_eq!((context.unwrap().tally.get(Anomaly::EmptyLog), events.len()), (1, 0));
}

#[test]
fn detection_is_by_content() {
    for (text, expect) in [
        (&b"1, 2, 0, 4096\n"[..], Detected::Yes),
        (b"1, 2, 0, 4096, 0\n1, 2, 0, 4096, 0\n1, 2", Detected::Yes),
        (b"1, 2, 5, 4096\n", Detected::No),
        (b"1, 2, 0, 4096\n1, 2\n", Detected::No),
        (b"1 2 0 4096\n", Detected::No),
        (b"1, 2\n", Detected::No),
        (b"", Detected::No),
    ] {
        let input = Input::from_bytes("test", text).unwrap();
        assert_eq!(detect(&input), expect, "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn a_row_that_ends_like_one_before_is_the_same_row() {
    let layout = FioColumns { max: false, offset: false, priority: true, issue: false };
    let text = "1, 5, 0, 4096, 0\n22, 123456789, 0, 4096, 0\n3, 7, 1, 512, 0\n4, 9, 0, 4096, 0\n5, 1,0, 4096, 0\n\
                6, 1, 0, 4096, 1\n7, 12345678901234567, 1, 512, 0\n8, 1, 01, 512, 0\n9, 1, 1, 512, 0 \n9, 1, 0, 4096, 0";
    let mut parser = Parser::new(layout);
    for line in text.split_inclusive('\n').chain(text.split_inclusive('\n')) {
        let (slow, len) = rows::row(line.as_bytes(), layout).unwrap();
        assert_eq!(parser.row(line.as_bytes()), Ok(slow), "{line}");
        assert_eq!(len, line.len());
    }
    for line in [
        "1, 5, 0, 4096, 2, 3\n",
        "1, 5, 0, 4096\n",
        "1, 5, 3, 4096, 0\n",
        "1, , 0, 4096, 0\n",
        ", 5, 0, 4096, 0\n",
        "11111111, -5, 0, 4096, 0\n",
        "11111111; 55555555, 0, 4096, 0\n",
        "1, 99999999999999999999, 0, 4096, 0\n",
    ] {
        let why = rows::row(line.as_bytes(), layout).unwrap_err();
        assert_eq!(parser.row(line.as_bytes()), Err(why), "{line}");
    }
}

proptest::proptest! {
    #[test]
    fn rows_are_read_alike_in_every_order(
        rows in proptest::collection::vec(
            (0u64..1 << 50, 0u32..64, proptest::num::u64::ANY, 0u8..4, 0usize..4, proptest::bool::ANY), 1..60,
        ),
    ) {
        let layout = FioColumns { max: false, offset: false, priority: true, issue: false };
        let mut parser = Parser::new(layout);
        for (time, bits, value, direction, size, early) in rows {
            let size = ["512", "4096", "1048576", "x"][size];
            let line = format!("{}, {}, {direction}, {size}, 0\n", if early { time % 1000 } else { time }, value >> bits);
            let slow = rows::row(line.as_bytes(), layout).map(|(row, _)| row);
            proptest::prop_assert_eq!(parser.row(line.as_bytes()), slow, "{}", line);
        }
    }
}

/// All rows of a text: many at a time where they are written alike, the others line by line.
fn in_blocks(text: &[u8], mut parser: Parser) -> (Vec<Result<Row, &'static str>>, usize) {
    let (mut rows, mut at, mut in_blocks, mut block) = (Vec::new(), 0, 0, Block::new());
    while at < text.len() {
        at += parser.rows(&text[at..], &mut block);
        in_blocks += block.len();
        for number in 0..block.len() {
            rows.push(Ok(Row {
                time_ms: block.time_ms()[number],
                value: block.value()[number],
                direction: block.direction()[number],
                size: block.size()[number],
                offset: MISSING_U64,
                issue_ns: 0,
                strange_priority: false,
            }));
        }
        let Some(line) = text[at..].split_inclusive(|&byte| byte == b'\n').next() else { break };
        rows.push(parser.row(line));
        at += line.len();
    }
    (rows, in_blocks)
}

proptest::proptest! {
    #[test]
    fn rows_that_are_written_alike_are_the_rows_of_their_lines(
        start in proptest::sample::select(vec![0u64, 90_000, 99_999_990, 1_795_223_322_206, 9_999_999_999_999_990, 1 << 63]),
        rows in proptest::collection::vec(
            (0u64..40, 0u32..64, proptest::num::u64::ANY, 0u8..4, 0usize..5, 0usize..30), 1..400,
        ),
    ) {
        let layout = FioColumns { max: false, offset: false, priority: true, issue: false };
        let (largest_ms, largest) = (LATEST_MS, i64::MAX as u64 / 1000);
        let mut time_ms = start;
        let mut text = String::new();
        for (step, bits, value, direction, size, oddness) in rows {
            time_ms = time_ms.saturating_add(step);
            let size = ["512", "4096", "1048576", "16777216", "x"][size];
            let value = value >> bits;
            text += &match oddness {
                0 => format!("{time_ms},{value},{direction},{size},0\n"),
                1 => format!("{time_ms}, {value}, {direction}, {size}, 0\r\n"),
                2 => format!("{time_ms}, {value}, {direction}, {size}\n"),
                3 => format!("{time_ms}, {value}, {direction}, {size}, 0x2003\n"),
                4 => format!("{time_ms}, 0{value}, {direction}, {size}, 0, 1\n"),
                5 => "\n".to_string(),
                6 => format!("0{time_ms}, -{value}, 0, 4096, 0\n"),
                _ => format!("{time_ms}, {value}, {}, 4096, 0\n", direction % 3),
            };
        }
        let (ours, _) = in_blocks(text.as_bytes(), Parser::new(layout).up_to(largest_ms, largest));
        let theirs: Vec<_> = text.split_inclusive('\n').map(|line| rows::row(line.as_bytes(), layout).map(|(row, _)| row)).collect();
        proptest::prop_assert_eq!(ours, theirs, "{}", text);
    }
}

#[test]
fn most_rows_of_a_log_are_read_many_at_a_time() {
    let layout = FioColumns { max: false, offset: false, priority: true, issue: false };
    for start in [100_000u64, 1_795_223_322_206] {
        let row = |at: u64| {
            format!("{}, {}, {}, {}, 0\n", start + at / 7, at * at % 20_000_000_000, at % 2, 4096 << (at % 2))
        };
        let text: String = (0..10_000).map(row).collect();
        let (rows, in_blocks) = in_blocks(text.as_bytes(), Parser::new(layout));
        assert_eq!(rows.len(), 10_000);
        assert!(in_blocks > 9_900, "{in_blocks} from {start}");
    }
    // What is beyond the limits is left to who can say why.
    let text = "5, 100, 0, 4096, 0\n".repeat(20) + &"5, 101, 0, 4096, 0\n".repeat(20);
    let (rows, within) = in_blocks(text.as_bytes(), Parser::new(layout).up_to(LATEST_MS, 100));
    assert_eq!((rows.len(), within <= 20), (40, true), "{within}");
}

#[test]
fn jobs_are_distinguished_among_rows_that_are_written_alike() {
    let job = |rows: u64| (0..rows).map(|at| format!("{}, 5000, 0, 4096, 0\n", 10_000 + at)).collect::<String>();
    let (context, events) = named_read("/x/run_clat.log", (job(700) + &job(300) + &job(20)).as_bytes());
    let of = |job: &str| events.iter().filter(|event| event.5 == job).count();
    assert_eq!(events.len(), 1020);
    let jobs: std::collections::BTreeSet<&str> = events.iter().map(|event| event.5.as_str()).collect();
    assert_eq!(jobs.iter().map(|job| of(job)).collect::<Vec<_>>(), [700, 300, 20], "{jobs:?}");
    assert_eq!(context.unwrap().span_ns, Some((10_000_500_000, 10_699_500_000)));
}
