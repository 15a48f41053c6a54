//! Text of strace, perf trace, the snoops and Oracle, against readers that share nothing with ours, and against the tools.

use crate::program::{command, end, installed, latscope, latscope_with, testdata, unpacked};
use latscope_capture_file::{Format, ReadOptions, read_bytes};
use latscope_event::{Anomaly, Context, Field, FieldSet};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::process::Command;

/// An event with the texts of some fields.
type Event = (i64, u64, Vec<String>);

fn read(bytes: &[u8], fields: &[Field]) -> (Vec<Event>, Context) {
    let mut events = Vec::new();
    let options = ReadOptions { all_syscalls: true, ..ReadOptions::new(FieldSet::EVERY) };
    let context = read_bytes("capture", bytes, &options, &mut |_, batch| {
        events.extend((0..batch.len()).map(|row| {
            let texts = fields.iter().map(|&field| batch.text(field, row).unwrap_or("-").to_string());
            (batch.time()[row], batch.latency()[row], texts.collect())
        }));
        ControlFlow::Continue(())
    });
    (events, context.expect("a capture can be read"))
}

/// How many calls of each name took how long together.
fn totals(calls: impl IntoIterator<Item = (String, u64)>) -> BTreeMap<String, (u64, u64)> {
    let mut totals = BTreeMap::new();
    for (name, latency_ns) in calls {
        let (count, sum): &mut (u64, u64) = totals.entry(name).or_default();
        (*count, *sum) = (*count + 1, *sum + latency_ns);
    }
    totals
}

/// Decimal seconds without a floating point number.
fn ns(text: &str, digits: usize) -> u64 {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{fraction:0<digits$}").parse().unwrap_or_else(|_| panic!("{text}"))
}

/// A line of these captures with its duration: none of them ends otherwise in a number in angle brackets.
fn strace_line(line: &str) -> Option<(String, u64)> {
    let (front, duration) = line.strip_suffix('>')?.rsplit_once(" <")?;
    let call = front.splitn(3, ' ').nth(2)?;
    let name = match call.strip_prefix("<... ") {
        Some(rest) => rest.split(' ').next()?,
        None => call.split('(').next()?,
    };
    duration.starts_with(|digit: char| digit.is_ascii_digit()).then(|| (name.to_string(), ns(duration, 9)))
}

#[test]
fn strace_counts_are_those_of_its_lines() {
    for name in ["strace/f_ttt.txt.zst", "strace/f_tt_y.txt.zst"] {
        let text = String::from_utf8(unpacked(name)).unwrap();
        let (events, context) = read(text.as_bytes(), &[Field::Name]);
        let expected = totals(text.lines().filter_map(strace_line));
        assert!(expected.len() > 4, "{expected:?}");
        assert_eq!(
            totals(events.into_iter().map(|(_, latency, texts)| (texts[0].clone(), latency))),
            expected,
            "{name}"
        );
        assert_eq!(context.tally.get(Anomaly::UnparsedLines), 0, "{name}");
        let unfinished = text.matches("<unfinished ...>").count() as u64;
        assert_eq!(unfinished, text.matches(" resumed>").count() as u64 + context.tally.get(Anomaly::Unfinished));
    }
}

#[test]
fn strace_knows_paths_of_descriptors() {
    let text = unpacked("strace/f_tt_y.txt.zst");
    let (events, context) = read(&text, &[Field::Name, Field::Path, Field::FdType, Field::Category]);
    assert_eq!(context.clock.to_unix_ns, None, "the day is unknown");
    let of = |name: &str, path: &str| {
        events.iter().filter(|(_, _, texts)| texts[0] == name && texts[1] == path).collect::<Vec<_>>()
    };
    assert_eq!(of("read", "/data/fio.dat").len(), 50);
    assert_eq!(of("write", "/dev/null").len(), 50 + 3);
    assert!(of("read", "/data/fio.dat").iter().all(|(_, _, texts)| texts[2..] == ["file", "file"]));
    assert_eq!(events[0].0, 5_075_985_540_000, "1:24:35.98554");
}

/// However a trace is cut, what stands before the cut is read.
#[test]
fn truncated_texts_are_read_up_to_the_cut() {
    for (name, most_lost) in [
        ("strace/f_ttt.txt.zst", 10),
        ("perf_trace/threads.txt.zst", 10),
        ("snoop/bcc.txt.zst", 1),
        ("snoop/iosnoop.txt.zst", 1),
        ("oracle_10046/waits.trc.zst", 1),
    ] {
        let text = unpacked(name);
        let (all, _) = read(&text, &[Field::Name]);
        for part in 1..12 {
            let cut = &text[..text.len() * part / 12];
            let (events, context) = read(cut, &[Field::Name]);
            assert!(events == all[..events.len()], "{name} {part}");
            let lines = |text: &[u8]| text.iter().filter(|&&byte| byte == b'\n').count();
            let expected = all.len() * lines(cut) / lines(&text);
            assert!(events.len() + expected / 2 + most_lost >= expected, "{name} {part}: {}", events.len());
            assert_eq!(context.tally.get(Anomaly::UnparsedLines), 0, "{name} {part}");
        }
    }
}

/// strace itself, on a command whose fsync it delays.
#[test]
fn strace_of_a_command_with_injected_delays() {
    if !installed("strace") || !installed("dd") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (trace, file) = (folder.path().join("trace"), folder.path().join("file"));
    let inject = "inject=fsync:delay_enter=60000";
    for options in
        [&["-f", "-ttt", "-T", "-y"][..], &["-ff", "-tt", "--syscall-times=ns", "-yy"], &["-f", "-r", "-T", "-y"]]
    {
        let mut traced = Command::new("strace");
        traced.args(options).arg("-o").arg(&trace).args([
            "-e",
            inject,
            "dd",
            "if=/dev/zero",
            "bs=4k",
            "count=3",
            "conv=fsync",
        ]);
        let ended = end(traced.arg(format!("of={}", file.display())), b"");
        if ended.status != Some(0) {
            skipped!("strace cannot trace here: {}", ended.err.lines().next().unwrap_or_default());
            return;
        }
        let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let of_trace = |path: &std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("trace");
        let traces: Vec<_> = files.filter(of_trace).collect();
        let mut arguments = vec!["events", "--csv", "--columns", "name,latency_ns,tid,fd_type,path,size"];
        arguments.extend(traces.iter().flat_map(|path| ["-r", path.to_str().unwrap()]));
        let csv = latscope(&arguments).success();
        let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
        let named = |name: &str| rows.iter().filter(|row| row[0] == name).cloned().collect::<Vec<_>>();
        let [fsync] = &named("fsync")[..] else { panic!("{options:?}\n{csv}") };
        let latency_ns: u64 = fsync[1].parse().unwrap();
        assert!((60_000_000..2_000_000_000).contains(&latency_ns), "{options:?}: {latency_ns}");
        assert!(fsync[2].parse::<u32>().is_ok(), "{options:?}: {fsync:?}");
        assert_eq!((fsync[3], fsync[4]), ("file", file.to_str().unwrap()));
        let writes = named("write").into_iter().filter(|row| row[4] == file.to_str().unwrap() && row[5] == "4096");
        assert_eq!(writes.count(), 3, "{csv}");
        traces.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    }
}

/// The files of strace -ff by their prefix, by their folder and one by one; and threads with their processes.
#[test]
fn strace_of_several_processes() {
    if !installed("strace") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let rows = |inputs: &[&str]| {
        let mut arguments = vec!["events", "--csv", "-s", "syscall", "--columns", "time,latency_ns,name,tid,pid"];
        arguments.extend(inputs.iter().flat_map(|input| ["-r", input]));
        let mut rows: Vec<String> = latscope(&arguments).success().lines().skip(1).map(str::to_string).collect();
        rows.sort();
        rows
    };
    let run = |options: &[&str]| {
        let mut traced = Command::new("strace");
        traced.args(options).args(["-ttt", "-T", "-o"]).arg(&trace);
        end(traced.args(["sh", "-c", "cat /dev/null; cat /dev/null; :"]), b"")
    };
    let ended = run(&["-ff"]);
    if ended.status != Some(0) {
        skipped!("strace cannot trace here: {}", ended.err.lines().next().unwrap_or_default());
        return;
    }
    let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<String> = files.map(|file| file.to_str().unwrap().to_string()).collect();
    assert_eq!(files.len(), 3);
    let by_prefix = rows(&[trace.to_str().unwrap()]);
    assert_eq!(by_prefix, rows(&files.iter().map(String::as_str).collect::<Vec<_>>()));
    assert_eq!(by_prefix, rows(&[folder.path().to_str().unwrap()]));
    assert!(run(&["-f"]).status == Some(0));
    for all in [by_prefix, rows(&[trace.to_str().unwrap()])] {
        // None of them has threads, so each is its own process from when that is known.
        let ids = all.iter().map(|row| row.split(',').skip(3).collect::<Vec<_>>());
        let (known, unknown): (Vec<_>, Vec<_>) = ids.partition(|ids| !ids[1].is_empty());
        assert!(known.iter().all(|ids| ids[0] == ids[1]), "{all:?}");
        assert!(known.len() > 5 * unknown.len(), "{all:?}");
    }
}

/// Columns of perf trace by their position in the line, which this capture of short numbers keeps.
#[test]
fn perf_trace_counts_are_those_of_its_lines() {
    let text = String::from_utf8(unpacked("perf_trace/tar.txt.zst")).unwrap();
    let line = |line: &str| {
        let (time, rest) = line.split_once('(')?;
        let (latency, rest) = rest.split_once(" ms): ")?;
        let call = rest.split_once(' ')?.1;
        let start = ns(time.trim(), 6) as i64;
        Some((start, ns(latency.trim(), 6), vec![call.split('(').next()?.to_string(), rest.split('/').next()?.into()]))
    };
    let expected: Vec<Event> = text.lines().filter_map(line).collect();
    let (events, context) = read(text.as_bytes(), &[Field::Name, Field::Comm]);
    assert_eq!(events.len(), text.lines().count());
    assert!(events == expected && context.tally.iter().count() == 0);
    let (events, context) = read(&unpacked("perf_trace/threads.txt.zst"), &[Field::Name]);
    let longest = events.iter().max_by_key(|(_, latency, _)| *latency).unwrap();
    assert_eq!((longest.1, longest.2[0].as_str()), (327_341_000, "clock_nanosleep"));
    assert_eq!(context.tally.get(Anomaly::UnparsedLines), 0);
}

/// The three layouts were made from the same requests.
#[test]
fn snoops_of_one_run_agree() {
    let layouts = ["snoop/iosnoop.txt.zst", "snoop/bcc.txt.zst", "snoop/bpftrace.txt.zst"];
    let [exact, bcc, bpftrace] = layouts.map(|name| read(&unpacked(name), &[Field::Kind, Field::Comm, Field::Device]));
    assert!(exact.0.len() > 1000 && [&exact, &bcc, &bpftrace].iter().all(|(_, context)| context.is_plain()));
    let sum = |(events, _): &(Vec<Event>, Context)| events.iter().map(|(_, latency, _)| latency).sum::<u64>();
    let text = String::from_utf8(unpacked(layouts[0])).unwrap();
    // Without reading columns: the difference of the first two numbers of each row.
    let rows = text.lines().filter(|line| line.starts_with(|digit: char| digit.is_ascii_digit()));
    let differences = rows.map(|row| {
        let mut words = row.split_whitespace();
        let (start, end) = (words.next().unwrap(), words.next().unwrap());
        ns(end, 9) - ns(start, 9)
    });
    assert_eq!(sum(&exact), differences.sum::<u64>());
    for ((_, rough), (_, exact)) in bcc.0.iter().map(|(t, l, _)| (t, l)).zip(exact.0.iter().map(|(t, l, _)| (t, l))) {
        assert!(rough.abs_diff(*exact) <= 6_000, "{rough} {exact}");
    }
    for (rough, exact) in bpftrace.0.iter().zip(&exact.0) {
        assert!(rough.1 <= exact.1 && exact.1 < rough.1 + 1_000_000, "{rough:?} {exact:?}");
    }
    assert_eq!((bcc.0.len(), bpftrace.0.len()), (2000, 2000));
    // As iosnoop of perf-tools prints it on kernel 6.18.
    let text = "Tracing block I/O for 4 seconds (buffered)...\n\
        STARTs          ENDs            COMM         PID    TYPE DEV      BLOCK        BYTES     LATms\n\
        2076.336032     2076.338028     reader-26010 26010  RS   7,3      +            0          2.00\n";
    let broken = latscope_with(&["summary", "-r", "-"], text.as_bytes()).failure(3);
    assert!(broken.contains(":3: iosnoop misreads the block events of kernels from 6.11 on"), "{broken}");
}

#[test]
fn oracle_waits_are_those_of_its_lines() {
    let text = String::from_utf8(unpacked("oracle_10046/waits.trc.zst")).unwrap();
    let number = |line: &str, key: &str| -> u64 {
        let rest = line.split_once(key).unwrap().1.trim_start();
        rest.split(' ').next().unwrap().parse().unwrap()
    };
    let waits = text.lines().filter(|line| line.starts_with("WAIT"));
    let waits = waits.map(|line| {
        let (ela, tim) = (number(line, "ela="), number(line, "tim="));
        ((tim - ela) as i64 * 1000, ela * 1000, vec![line.split('\'').nth(1).unwrap().to_string()])
    });
    let (events, context) = read(text.as_bytes(), &[Field::Name]);
    assert!(events == waits.collect::<Vec<_>>());
    assert!(events.len() > 5000 && context.is_plain() && context.clock.to_unix_ns == Some(0));
}

/// What each of these texts is called when the format is another one, or is found out.
/// Their rows start with two numbers, which are a device, a CPU or a label.
#[test]
fn texts_of_other_numbers_are_not_two_columns() {
    for (name, format) in [("pylatencymap/oracle.txt.zst", "pylatencymap"), ("snoop/bcc.txt.zst", "snoop")] {
        let name = testdata(name);
        let refused = latscope(&["summary", "--format", "two_columns", "-r", name.to_str().unwrap()]).failure(3);
        assert!(refused.contains(&format!("The content looks like {format}.")), "{refused}");
    }
}

#[test]
fn texts_are_told_apart() {
    for (name, format) in [
        ("strace/f_ttt.txt.zst", Format::Strace),
        ("strace/f_tt_y.txt.zst", Format::Strace),
        ("perf_trace/tar.txt.zst", Format::PerfTrace),
        ("perf_trace/threads.txt.zst", Format::PerfTrace),
        ("snoop/bcc.txt.zst", Format::Snoop),
        ("snoop/bpftrace.txt.zst", Format::Snoop),
        ("snoop/iosnoop.txt.zst", Format::Snoop),
        ("oracle_10046/waits.trc.zst", Format::Oracle10046),
        ("pylatencymap/oracle.txt.zst", Format::PyLatencyMap),
        ("pylatencymap/dtrace.txt.zst", Format::PyLatencyMap),
        ("pylatencymap/systemtap.txt.zst", Format::PyLatencyMap),
        ("histogram_text/biolatency_DT.txt.zst", Format::HistogramText),
    ] {
        assert_eq!(latscope_capture_file::format_of(&testdata(name)), Ok(format), "{name}");
    }
}

/// Names from a trace do not reach the terminal with their escapes.
#[test]
fn hostile_names_are_printed_safely() {
    let text = "7<\u{1b}[31mx> 1795224273.683378 close(3</a\\33[2J\\nb>) = 0 <0.000007>\n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace");
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let printed = latscope(&["events", "-r", file, "--columns", "comm,path"]).success();
    assert!(!printed.contains('\u{1b}'), "{printed}");
    let ended = end(command(crate::program::LATSCOPE).args(["summary", "--by", "path", "-r", file]), b"");
    assert!(!ended.success().contains('\u{1b}'));
}
