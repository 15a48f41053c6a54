//! System calls as text, of strace and perf trace, against what was written there.

use crate::program::{Ended, latscope_with};
use serde_json::Value;

fn run(arguments: &[&str], text: &str) -> Ended {
    latscope_with(&[arguments, &["-r", "-"]].concat(), text.as_bytes())
}

/// These columns of all events, each row as one text.
fn rows(text: &str, columns: &[&str]) -> Vec<String> {
    let printed = run(&["events", "-s", "syscall", "--json", "--columns", &columns.join(",")], text).success();
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        columns.iter().map(|column| row[*column].to_string().replace('"', "")).collect::<Vec<_>>().join(" ")
    };
    printed.lines().map(row).collect()
}

#[test]
fn calls_that_fail_move_no_bytes() {
    let text = "7 1795224275.100000 copy_file_range(3, NULL, 4, NULL, 9223372035781033984, 0) = -1 EXDEV (Invalid cross-device link) <0.000010>\n\
        7 1795224275.200000 write(4, \"x\"..., 4096) = -1 ENOSPC (No space left on device) <0.000010>\n\
        7 1795224275.300000 pwrite64(4, \"x\"..., 4096, 0) = 100 <0.000010>\n\
        7 1795224276.100000 sync_file_range(4, 0, 8192, 0) = 0 <0.000010>\n";
    assert_eq!(rows(text, &["size"]), ["9223372035781033984", "4096", "100", "8192"]);
    let csv = run(&["summary", "--by", "name", "--csv"], text).success();
    let bytes = csv.lines().skip(1).map(|row| {
        let columns: Vec<&str> = row.split(',').collect();
        // The trace is a second long.
        (columns[0].to_string(), columns[3].parse::<f64>().unwrap().round() as u64)
    });
    let mut bytes: Vec<_> = bytes.collect();
    bytes.sort();
    let expected = [("copy_file_range", 0), ("pwrite64", 100), ("sync_file_range", 0), ("write", 0)];
    assert_eq!(bytes, expected.map(|(name, bytes)| (name.to_string(), bytes)));
    let csv = run(&["summary", "--csv"], text).success();
    assert!(
        csv.lines().nth(1).is_some_and(|row| row.split(',').nth(3).is_some_and(|bytes| bytes.starts_with("99.99"))),
        "{csv}"
    );
}

#[test]
fn calls_without_io_are_no_records_without_latency() {
    let text =
        "7 1795224275.100000 brk(NULL) = 0x55 <0.000010>\n7 1795224275.200000 read(4, \"x\", 1) = 1 <0.000010>\n";
    let summary = run(&["summary"], text).success();
    assert!(!summary.contains("note:") && summary.starts_with("1 event "), "{summary}");
}

#[test]
fn calls_with_stack_traces_are_strace() {
    let text = "7 1795224275.100000 read(3, \"x\", 1) = 1 <0.000010>\n\
        \x20> /usr/lib/libc.so.6(__read+0xd) [0xfb19d]\n\x20> /usr/bin/dd(main+0x1) [0x1234]\n\x20> unexpected_backtracing_error [0x1]\n\
        7 1795224275.200000 close(3) = 0 <0.000010>\n\x20> /usr/lib/libc.so.6(__close+0xd) [0xfb19d]\n";
    assert_eq!(rows(text, &["name"]), ["read", "close"]);
    let summary = run(&["summary"], text).success();
    assert!(!summary.contains("malformed"), "{summary}");
}

#[test]
fn calls_in_every_unit_have_their_duration() {
    for (unit, duration, latency_ns) in
        [("s", "2", "2000000000"), ("s", "0", "0"), ("ms", "2.001", "2001000000"), ("ns", "0.000000123", "123")]
    {
        let text = format!("7 1795224275.100 read(3, \"x\", 1) = 1 <{duration}>\n");
        assert_eq!(rows(&text, &["latency_ns"]), [latency_ns], "{unit}");
    }
}

#[test]
fn calls_that_go_on_in_a_line_without_columns_are_one_event() {
    let others = "7 1795224274.000000 brk(NULL) = 0x55 <0.000001>\n".repeat(30);
    let text = "7 1795224275.100000 close(3 <unfinished ...>\n)                  = 0 <0.000085>\n\
        7 1795224275.200000 read(3,  <unfinished ...>\n\"\", 4096)    = 0 <0.000338>\n\
        7 1795224275.300000 read(4, strace: Process 7 detached\n <detached ...>\n";
    let text = &(others + text);
    assert_eq!(rows(text, &["name", "fd", "latency_ns", "result"])[30..], ["close 3 85000 0", "read 3 338000 0"]);
    let summary = run(&["summary"], text).success();
    assert!(!summary.contains("malformed") && summary.contains("unfinished: 1 request"), "{summary}");
}

#[test]
fn calls_in_paths_are_paths() {
    let text = "7 1795224275.100000 openat(AT_FDCWD</a>, \"p) = 5 <0.1>\", O_RDONLY) = 3</a/p) = 5 \\0740.1\\76> <0.000010>\n\
        7 1795224275.200000 openat(AT_FDCWD</a>, \"d\", O_RDONLY|O_DIRECTORY) = 4</a/d> <0.000010>\n\
        7 1795224275.300000 getdents64(4</a/d>, 0x55 /* 3 entries */, 32768) = 80 <0.000010>\n\
        7 1795224275.400000 chdir(\"/srv/www\") = 0 <0.000010>\n";
    let rows = rows(text, &["result", "fd_type", "path"]);
    assert_eq!(rows, ["3 file /a/p) = 5 <0.1>", "4 directory /a/d", "80 directory /a/d", "0 null /srv/www"]);
}

#[test]
fn calls_of_perf_trace_with_arguments_left_out() {
    let text = "     0.010 ( 0.001 ms): cat/7 read(buf: 0x55d0, count: 4096)                            = 3\n\
        \x20    0.020 ( 0.002 ms): cat/7 fcntl(fd: 255, cmd: GETFL)                = RDONLY|LARGEFILE\n\
        \x20    0.030 ( 0.003 ms): cat/7 pread64(fd: 3</x>, buf: 0x55d0, count: 512)                = 0\n\
        \x20    0.040 ( 0.004 ms): cat/7 write(fd: 1</y>, buf: 0x55d0)                = 0\n";
    let rows = rows(text, &["name", "fd", "size", "offset", "result"]);
    assert_eq!(rows, ["read 0 3 null 3", "fcntl 255 null null null", "pread64 3 0 0 0", "write 1 0 null 0"]);
}
