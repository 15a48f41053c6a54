use super::*;

fn parse(line: &str) -> Line<'_> {
    FtraceParser::default().parse(line.as_bytes())
}

#[test]
fn the_columns_of_every_variant() {
    for (columns, comm, pid, tid, cpu) in [
        ("             fio-14409   [000] .....  ", "fio", NO_ID, 14409, 0),
        ("    kworker/u8:2-35    [001]  ", "kworker/u8:2", NO_ID, 35, 1),
        ("          <idle>-0       [003] d.h2. ", "<idle>", NO_ID, 0, 3),
        ("           <...>-123   (-------) [012] .... ", "", NO_ID, 123, 12),
        (" my job - 2 [x]-77   (     70) [012] .... ", "my job - 2 [x]", 70, 77, 12),
        ("kworker/-35      1...1.  ", "kworker/", NO_ID, 35, 1),
    ] {
        let who = who(columns.as_bytes());
        assert_eq!(who, Some(Who { comm: comm.as_bytes(), pid, tid, cpu: Some(cpu) }), "{columns}");
    }
    for columns in ["fio 14409 [000] ", "fio [000] ", "fio-14409 ", "", "  ", "[000]", "fio- [000] ..", "x-1 ] ["] {
        assert_eq!(who(columns.as_bytes()), None, "{columns}");
    }
}

#[test]
fn block_events_of_the_kernel_and_of_trace_cmd() {
    for line in [
        "    kworker/u8:2-35    [001] d..1.  1646.846788: block_rq_issue: 254,0 W 2334720 () 351698944 + 4560 be,0,4 [kworker/u8:2]",
        "    kworker/u8:2-35    [001]  1646.846788000: block_rq_issue:       254,0 W 2334720 () 351698944 + 4560 0x2,0,4 [kworker/u8:2]",
        "    kworker/u8:2-35    [001]  1646.846788: (+21)    block_rq_issue:       254,0 W 2334720 () 351698944 + 4560 0x2,0,4 [kworker/u8:2]",
        "    kworker/u8:2-35    [001]  1646.846788: block_rq_issue:        dev=266338304 sector=351698944 nr_sector=4560 bytes=2334720 ioprio=16388 rwbs=W comm=kworker/u8:2 cmd=",
    ] {
        let Line::Block(record) = parse(line) else { panic!("{line}") };
        let expected = Record {
            time_ns: 1_646_846_788_000,
            sector: 351_698_944,
            bytes: 2_334_720,
            sectors: 4560,
            dev: 254 << 20,
            error: 0,
            pid: NO_ID,
            tid: 35,
            step: Step::Issue,
            rwbs: *b"W\0\0\0\0\0\0\0",
            comm: padded(b"kworker/u8:2"),
            stack: MISSING_CODE,
        };
        assert_eq!(format!("{record:?}"), format!("{expected:?}"));
    }
}

#[test]
fn system_calls_in_every_spelling() {
    let before = "  dd-7   [001] ....  12.500000: ";
    for (text, enter, name, values) in [
        ("sys_enter: NR 0 (3, 7ffe, 340, 0, 0, 0)", true, None, [3, 0x7ffe, 0x340]),
        ("sys_exit: NR 0 = -9", false, None, [-9i64 as u64, 0, 0]),
        (
            "sys_enter_read:       fd: 0x00000003, buf: 0x7ffe, count: 0x00000340",
            true,
            Some("read"),
            [3, 0x7ffe, 0x340],
        ),
        ("sys_exit_read:        0x340", false, Some("read"), [0x340, 0, 0]),
        ("sys_read(fd: 3, buf: 7ffe, count: 340)", true, Some("read"), [3, 0x7ffe, 0x340]),
        ("sys_write(fd: 1, buf: 7ffe \"a, b\", count: 4)", true, Some("write"), [1, 0x7ffe, 4]),
        ("sys_read -> 0xfffffffffffffff7", false, Some("read"), [-9i64 as u64, 0, 0]),
    ] {
        let line = format!("{before}{text}");
        let Line::Syscall(call) = parse(&line) else { panic!("{line}") };
        assert_eq!((call.enter, &call.values[..3], call.who.tid), (enter, &values[..], 7), "{line}");
        let expected = name.map_or(CallName::Number(0), |name| CallName::Name(name.as_bytes()));
        assert_eq!(call.call, expected, "{line}");
    }
}

#[test]
fn everything_else_has_its_place() {
    assert!(matches!(parse("CPU:1 [LOST 103340 EVENTS]"), Line::Gap { cpu: 1, records: 103_340 }));
    assert!(matches!(parse("CPU:1 [12 EVENTS DROPPED]"), Line::Gap { cpu: 1, records: 12 }));
    assert!(matches!(parse("CPU:1 [EVENTS DROPPED]"), Line::Gap { cpu: 1, records: 1 }));
    assert!(matches!(parse("# entries-in-buffer/entries-written: 5/10   #P:2"), Line::Header(..)));
    for line in ["", "# tracer: nop", "cpus=2", " => vfs_read", "CPU 0 is empty", "#              | | |   |"] {
        assert!(matches!(parse(line), Line::Silent | Line::Header(..)), "{line}");
    }
    for line in [
        "  dd-7  [001] ....  12.500000: sched_switch: a ==> b",
        "  dd-7  [001] d..1.  12.500000: 254,0   1,0  m   N throtl",
    ] {
        assert!(matches!(parse(line), Line::Other), "{line}");
    }
    for line in
        ["CPU:1 [LOST]", "dd 7 [001] 12.500000: x:y: z", "12.5", "  dd-7  [001] .  12.500000: 254,0 Q W 1 + x [a]"]
    {
        assert!(matches!(parse(line), Line::Unknown), "{line}");
    }
    let Line::Action(record, comm) = parse("  dd-7  [001] d..1.  12.500000: 254,0   1,0   D  FN [dd]") else {
        panic!()
    };
    assert_eq!((record.tid, record.bytes, record.time_ns, &comm[..2]), (7, 0, 12_500_000_000, &b"dd"[..]));
}
