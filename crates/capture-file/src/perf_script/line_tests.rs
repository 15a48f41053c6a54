//! Lines of every era and option.

use super::*;

fn parse(line: &[u8]) -> Line<'_> {
    LineParser::default().parse(line)
}

fn block_of(line: &str) -> Record {
    match parse(line.as_bytes()) {
        Line::Block(record) => record,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn the_payload_of_every_kernel_era() {
    for (line, step, rwbs, bytes, sector, sectors) in [
        (
            "tar 16072 [001] 2199495.030133: block:block_rq_issue: 202,16 R 0 () 21997888 + 8 [tar]",
            Step::Issue,
            "R",
            0,
            21997888,
            8,
        ),
        (
            "swapper     0 [000] 2199495.030286: block:block_rq_complete: 202,16 R () 21997888 + 8 [0]",
            Step::Complete,
            "R",
            0,
            21997888,
            8,
        ),
        (
            "x 1 [0] 1.000001: block:block_rq_issue: 8,0 N 36 (12 00 00 00 24 00 ..) 0 + 0 [x]",
            Step::Issue,
            "N",
            36,
            0,
            0,
        ),
        (
            "x 1 [000] 1.000001: block:block_rq_insert: 8,0 WFS 4096 () 77 + 8 be,4 [kworker/u4:2]",
            Step::Insert,
            "WFS",
            4096,
            77,
            8,
        ),
        (
            "x 1 [000] 1.000001: block:block_rq_issue: 254,0 RS 4096 () 339272456 + 8 0x2,0,4 [fio]",
            Step::Issue,
            "RS",
            4096,
            339272456,
            8,
        ),
        (
            "x 1 [000] 1.000001: block:block_rq_complete: 254,0 FF () 18446744073709551615 + 0 0x0,0,0 [-5]",
            Step::Complete,
            "FF",
            0,
            u64::MAX,
            0,
        ),
        (
            "x 1 [000] 1.000001: block:block_rq_issue: 8,0 W 512 () 9 + 1 |4| none,0,0 [a b]",
            Step::Issue,
            "W",
            512,
            9,
            1,
        ),
        ("x 1 [000] 1.000001: block:block_rq_requeue: 8,0 W () 9 + 1 [0]", Step::Requeue, "W", 0, 9, 1),
        ("x 1 [000] 1.000001: block:block_io_start: 8,0 W 512 () 9 + 1 0x2,0,4 [x]", Step::Start, "W", 512, 9, 1),
        (
            "x 1 [000] 1.000001: block:block_io_done: 8,0 RM 0 () 22327368 + 0 0x0,0,0 [x]",
            Step::Done,
            "RM",
            0,
            22327368,
            0,
        ),
    ] {
        let record = block_of(line);
        assert_eq!(
            (record.step, record.bytes, record.sector, record.sectors),
            (step, bytes, sector, sectors),
            "{line}"
        );
        assert_eq!(record.rwbs, padded(rwbs.as_bytes()), "{line}");
    }
    assert_eq!(block_of("x 1 [000] 1.000001: block:block_rq_complete: 254,0 W () 8 + 8 [-5]").error, -5);
    assert_eq!(block_of("x 1 [0] 1.000001: block:block_rq_issue: 254,16 W 0 () 8 + 8 [x]").dev, 254 << 20 | 16);
}

#[test]
fn the_columns_of_every_option() {
    for (line, comm, pid, tid, cpu, time_ns) in [
        ("             fio 15463 [001]  1217.943839:    e:e: x", "fio", NO_ID, 15463, Some(1), 1_217_943_839_000),
        ("             fio 15463 [001]  1217.943839667:    e:e: x", "fio", NO_ID, 15463, Some(1), 1_217_943_839_667),
        ("             fio 15463/15470 [001]  1217.943839:    e:e: x", "fio", 15463, 15470, Some(1), 1_217_943_839_000),
        ("             fio 15463  1217.943839:    e:e: x", "fio", NO_ID, 15463, None, 1_217_943_839_000),
        ("     0.000044: e:e: x", "", NO_ID, NO_ID, None, 44_000),
        ("  C2 CompilerThre  99 [000] 1.000000: e:e: x", "C2 CompilerThre", NO_ID, 99, Some(0), 1_000_000_000),
        ("  kworker/0:1H-kb  44 [000] 1.000000: e:e: x", "kworker/0:1H-kb", NO_ID, 44, Some(0), 1_000_000_000),
        ("     a [3] 7: 8.9    44 [011] 1.000000: e:e: x", "a [3] 7: 8.9", NO_ID, 44, Some(11), 1_000_000_000),
        ("             :-1    -1 [000] 1.000000: e:e: x", ":-1", NO_ID, -1, Some(0), 1_000_000_000),
        ("           :1234  1234 [000] 1.000000: e:e: x", ":1234", NO_ID, 1234, Some(0), 1_000_000_000),
    ] {
        let (anchor, _) = anchor(line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
        assert_eq!(who(&line.as_bytes()[..anchor.time]), Who { comm: comm.as_bytes(), pid, tid, cpu }, "{line}");
        assert_eq!(anchor.time_ns, time_ns, "{line}");
        assert!(line[anchor.event..].starts_with("e:e:"), "{line}");
    }
    let record =
        block_of("  fio 15463 [001]  1217.943839:          1    block:block_rq_issue: 254,0 RS 4096 () 8 + 8 [fio]");
    assert_eq!(record.tid, 15463, "a period before the name");
}

#[test]
fn the_comm_of_an_issue_is_that_of_the_payload() {
    let record =
        block_of("opt cgu.00 7 [001] 1.000000: block:block_rq_issue: 7,0 W 4096 () 8 + 8 0x2,0,4 [kworker/0:1H [x]]");
    assert_eq!(record.comm, padded(b"kworker/0:1H [x]"));
}

#[test]
fn system_calls() {
    let call = |line: &'static str| match parse(line.as_bytes()) {
        Line::Syscall(call) => call,
        other => panic!("{line}: {other:?}"),
    };
    let raw = call(
        "fio 20363 [001]  1322.171628: raw_syscalls:sys_enter: NR 0 (3, 7ffeba613bec, 340, 37f, 0, ffffffffffffffff)",
    );
    assert_eq!((raw.enter, raw.call), (true, CallName::Number(0)));
    assert_eq!(raw.values, [3, 0x7ffe_ba61_3bec, 0x340, 0x37f, 0, u64::MAX]);
    assert_eq!(call("fio 2 [001]  1.171609:  raw_syscalls:sys_exit: NR 59 = -2").values[0] as i64, -2);
    let named = call(
        "bash 20542 [001]  1326.440057: syscalls:sys_enter_read: fd: 0x00000003, buf: 0x7ffe5c0b7fb8, count: 0x00000340",
    );
    assert_eq!((named.call, named.values[0], named.values[2]), (CallName::Name(b"read"), 3, 0x340));
    let exit = call("bash 20542 [001]  1326.440060: syscalls:sys_exit_read: 0xfffffffffffffffe");
    assert_eq!((exit.enter, exit.values[0] as i64, exit.who.tid), (false, -2, 20542));
}

#[test]
fn everything_else_has_its_place() {
    let kind = |line: &str| match parse(line.as_bytes()) {
        Line::Lost { time_ns, cpu, records } => format!("lost {time_ns} {cpu:?} {records}"),
        Line::Header(key, value) => format!("{}={}", String::from_utf8_lossy(key), String::from_utf8_lossy(value)),
        Line::Silent => "silent".into(),
        Line::Other => "other".into(),
        Line::Unknown => "unknown".into(),
        other => format!("{other:?}"),
    };
    for (line, expect) in [
        ("  rustc 14210 [001]  3741.136090: PERF_RECORD_LOST lost 56", "lost 3741136090000 Some(1) 56"),
        ("# hostname : vm", "hostname=vm"),
        ("# ========", "silent"),
        ("", "silent"),
        ("\tffffffff81b056df blk_mq_start_request+0xcf ([kernel.kallsyms])", "silent"),
        ("        ffffffff81b056df blk_mq_start_request+0xcf ([kernel.kallsyms])", "silent"),
        (" python3 16734 [000]  1246.428796:  block:block_bio_queue: 254,0 RM 22327368 + 8 [python3]", "other"),
        (" python3 16734 [000]  1246.428808:  sched:sched_switch: prev_comm=x", "other"),
        ("hello world", "unknown"),
        ("x 1 [0] 1.000001: block:block_rq_issue: 254,0 W", "unknown"),
        ("x 1 [0] 1.000001: block:block_rq_issue: 254,0 W 0 () 99999999999999999999999 + 8 [x]", "unknown"),
        ("x 1 [0] 99999999999.000001: block:block_rq_issue: 254,0 W 0 () 8 + 8 [x]", "unknown"),
    ] {
        assert_eq!(kind(line), expect, "{line}");
    }
}
