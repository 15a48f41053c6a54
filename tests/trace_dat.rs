//! Recordings of trace-cmd, against its own report and against perf, which recorded the same run.

use crate::program::{LATSCOPE, command, end, installed, latscope, latscope_with, unpacked};
use latscope_capture_file::{ReadOptions, read_bytes};
use latscope_event::{Anomaly, Batch, Column, Context, Field, FieldSet, Wait};
use std::collections::HashMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

const VERSION_6: &str = "trace_dat/same_run_v6.dat.zst";
const PERF: &str = "trace_dat/same_run_perf.txt.zst";

/// An event: start and latency, and the rest as texts and numbers.
type Row = (i64, u64, u64, u64, i64, [Option<String>; 3]);

fn read(bytes: &[u8]) -> (Vec<Row>, Context) {
    let mut rows = Vec::new();
    let context = read_bytes("capture", bytes, &ReadOptions::new(FieldSet::EVERY), &mut |_, batch: &Batch| {
        let number = |field, at: usize| match batch.column(field) {
            Some(Column::U64(values)) => values[at],
            _ => panic!("{} is no size", field.name()),
        };
        let text = |field, at: usize| match batch.column(field) {
            Some(Column::Text(codes)) => batch.dictionary(field).text(codes[at]).map(str::to_string),
            _ => None,
        };
        for at in 0..batch.len() {
            let Some(Column::I64(tids)) = batch.column(Field::Tid) else { panic!("threads") };
            let texts = [Field::Name, Field::Dev, Field::Comm].map(|field| text(field, at));
            let (offset, size) = (number(Field::Offset, at), number(Field::Size, at));
            rows.push((batch.time()[at], batch.latency()[at], offset, size, tids[at], texts));
        }
        ControlFlow::Continue(())
    });
    (rows, context.expect("a capture can be read"))
}

/// A folder with the recording in version 6 as `v6.dat`.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("v6.dat"), unpacked(VERSION_6)).unwrap();
    folder
}

#[test]
fn the_report_of_trace_cmd_has_the_same_events() {
    let (rows, context) = read(&unpacked(VERSION_6));
    assert_eq!(context.tally.get(Anomaly::DamagedRecords) + context.tally.get(Anomaly::LostRecords), 0);
    assert_eq!(context.host.as_deref(), Some("vm"));
    if !installed("trace-cmd") {
        return;
    }
    let folder = folder();
    let report = |options: &[&str]| {
        let arguments = [&["report", "-i", "v6.dat"], options].concat();
        let text = end(command("trace-cmd").args(arguments).current_dir(folder.path()), b"").success();
        read(text.as_bytes())
    };
    let (theirs, of_text) = report(&["-t"]);
    assert_eq!(rows.len(), theirs.len());
    assert!(rows == theirs, "{:?}", rows.iter().zip(&theirs).find(|(row, other)| row != other));
    for anomaly in [Anomaly::Requeue, Anomaly::LostCompletion, Anomaly::OrphanCompletion, Anomaly::Unfinished] {
        assert_eq!(context.tally.get(anomaly), of_text.tally.get(anomaly), "{anomaly:?}");
    }
    assert_eq!(of_text.tally.get(Anomaly::UnparsedLines), 0);
    assert!(report(&["-t", "-R"]).0 == rows, "fields instead of words (-R)");
    let (rounded, of_text) = report(&["-l"]);
    assert_eq!(
        (rounded.len(), of_text.tally.get(Anomaly::UnparsedLines)),
        (rows.len(), 0),
        "in the latency format (-l)"
    );
    for (row, other) in rows.iter().zip(&rounded) {
        assert!(
            row.0.abs_diff(other.0) <= 500 && row.1.abs_diff(other.1) <= 1_000 && row.2 == other.2,
            "{row:?} {other:?}"
        );
    }
}

/// trace-cmd converts its file to version 7, and packs it.
#[test]
fn other_versions_hold_the_same() {
    if !installed("trace-cmd") {
        return;
    }
    let (folder, expected) = (folder(), read(&unpacked(VERSION_6)));
    for codec in ["none", "zstd"] {
        let arguments = ["convert", "--file-version", "7", "--compression", codec, "-i", "v6.dat", "-o", "v7.dat"];
        end(command("trace-cmd").args(arguments).current_dir(folder.path()), b"").success();
        let (rows, context) = read(&fs::read(folder.path().join("v7.dat")).unwrap());
        assert!(rows == expected.0 && context.tally == expected.1.tally, "{codec}: {:?}", context.tally);
    }
}

/// What trace-cmd prints beside the records is no malformed row, and a report without records says so.
#[test]
fn headings_of_reports_are_skipped() {
    if !installed("trace-cmd") {
        return;
    }
    let folder = folder();
    let report = |options: &[&str]| {
        let arguments = [&["report", "-i", "v6.dat"], options].concat();
        end(command("trace-cmd").args(arguments).current_dir(folder.path()), b"").out
    };
    let expected = read(&report(&[])).0.len();
    for options in [&["--verbose"][..], &["--debug"]] {
        let (rows, context) = read(&report(options));
        assert_eq!((rows.len(), context.tally.get(Anomaly::UnparsedLines)), (expected, 0), "{options:?}");
    }
    let whole = [report(&["--stat"]), report(&[])].concat();
    let (rows, context) = read(&whole);
    assert_eq!((rows.len(), context.tally.get(Anomaly::UnparsedLines)), (expected, 0));
    for (option, why) in
        [("--stat", "These are the statistics of trace-cmd"), ("--profile", "This is the profile of trace-cmd")]
    {
        let printed = latscope_with(&["summary", "-r", "-"], &report(&[option])).failure(3);
        assert!(printed.contains(why), "{printed}");
    }
}

/// perf lost completions without a word: the same requests, but for those; and both say what is missing.
#[test]
fn perf_recorded_the_same_run_and_lost_completions() {
    let (ours, of_ftrace) = read(&unpacked(VERSION_6));
    let (perf, of_perf) = read(&unpacked(PERF));
    // By what a request is; of the same several times in their order, at about the same moment.
    let mut by_request: HashMap<_, Vec<&Row>> = HashMap::new();
    for row in &ours {
        by_request.entry((row.2, row.3, &row.5)).or_default().push(row);
    }
    // Each has a clock of its own; the first request of perf shows how far they are apart.
    let apart_ns = by_request[&(perf[0].2, perf[0].3, &perf[0].5)][0].0 - perf[0].0;
    for row in &perf {
        let near = |other: &&&Row| (other.0 - apart_ns).abs_diff(row.0) < 300_000;
        let same = by_request.get(&(row.2, row.3, &row.5)).and_then(|rows| rows.iter().find(near));
        assert!(same.is_some_and(|other| row.1.abs_diff(other.1) < 50_000), "{row:?} {same:?}");
    }
    // What ended while perf was there.
    let (start, end) =
        of_perf.span_ns.map(|(start, end)| (start + apart_ns - 20_000, end + apart_ns + 20_000)).unwrap();
    let during = ours.iter().filter(|row| row.0 >= start && row.0 + row.1 as i64 <= end).count();
    let missing = |context: &Context| {
        [Anomaly::LostCompletion, Anomaly::Unfinished].map(|anomaly| context.tally.get(anomaly)).iter().sum::<u64>()
    };
    assert_eq!((during - perf.len(), missing(&of_perf), missing(&of_ftrace)), (92, 92, 0));
}

/// From disk, packed and from a pipe.
#[test]
fn it_is_read_from_everywhere() {
    let folder = folder();
    let path = folder.path().join("v6.dat").display().to_string();
    let packed = crate::program::testdata(VERSION_6).display().to_string();
    let rows = |arguments: &[&str], input: &[u8]| {
        let all = [&["events", "--csv"], arguments].concat();
        latscope_with(&all, input).success()
    };
    let expected = rows(&["-r", &path], b"");
    assert!(expected.lines().count() > 10_000);
    assert!(rows(&["-r", &packed], b"") == expected);
    assert!(rows(&["-r", "-"], &unpacked(VERSION_6)) == expected);
    let printed = latscope(&["percentiles", "--follow", "-r", &path]).failure(2);
    assert!(printed.contains("trace_dat can only be read when it is complete"), "{printed}");
    // Whoever names another format learns what it looks like.
    let printed = latscope(&["summary", "--format", "perf_script", "-r", &path]).failure(3);
    assert!(printed.contains("looks like trace_dat"), "{printed}");
}

/// An instance of ftrace of its own, which goes with its events.
struct Instance(std::path::PathBuf);

impl Instance {
    fn new() -> Option<Instance> {
        let path = Path::new("/sys/kernel/tracing/instances").join(format!("latscope-test-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        Some(Instance(path))
    }

    /// One that records block requests; `None` where there can be none.
    fn of_requests() -> Option<Instance> {
        let Some(instance) = Instance::new() else {
            skipped!("there is no tracefs in which an instance can be made");
            return None;
        };
        for event in ["block_rq_issue", "block_rq_complete", "block_rq_requeue"] {
            instance.set(&format!("events/block/{event}/enable"), "1");
        }
        Some(instance)
    }

    fn set(&self, file: &str, value: &str) {
        fs::write(self.0.join(file), value).expect(file);
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// The running kernel: what dd writes past the cache is in `trace`, and each request once.
#[test]
fn the_running_kernel_is_read_through_ftrace() {
    let Some(_alone) = crate::live::alone() else { return };
    let Some(instance) = Instance::of_requests() else { return };
    let folder = tempfile::tempdir().unwrap();
    let dd = command("dd")
        .args(["if=/dev/zero", "of=out", "bs=16k", "count=64", "oflag=direct", "status=none"])
        .current_dir(folder.path())
        .status();
    if !dd.is_ok_and(|status| status.success()) {
        skipped!("the folder of temporary files takes no direct writes");
        return;
    }
    instance.set("tracing_on", "0");
    let text = fs::read_to_string(instance.0.join("trace")).unwrap();
    let lines = |event: &str| {
        let words = ["block_rq_issue: ", "[dd]"];
        text.lines().filter(|line| line.contains(event) && (event != words[0] || line.ends_with(words[1]))).count()
    };
    let issued = lines("block_rq_issue: ");
    if issued < 64 {
        skipped!("the folder of temporary files is on no disk of this machine");
        return;
    }
    let trace = instance.0.join("trace").display().to_string();
    let events = latscope(&["events", "--csv", "--columns", "comm,size", "-r", &trace, "comm = dd"]).success();
    let requeued = lines("block_rq_requeue: ");
    assert!(events.lines().count() - 1 + requeued >= issued, "{events}\n{text}");
    assert!(events.lines().filter(|line| *line == "dd,16384").count() >= 60, "{events}");
}

/// `trace_pipe` by its name never ends by itself; Ctrl-C shows what came.
#[test]
fn trace_pipe_is_read_until_it_is_interrupted() {
    use crate::live::lab::{Background, until};
    let Some(_alone) = crate::live::alone() else { return };
    let Some(instance) = Instance::of_requests() else { return };
    let pipe = instance.0.join("trace_pipe").display().to_string();
    let program = Background::new(command(LATSCOPE).args(["spectrogram", "-i", "50ms", "-r", &pipe]));
    let (folder, mut writes) = (tempfile::tempdir().unwrap(), true);
    // An interval shows when it is over, so there has to be I/O behind it.
    until("a row of the spectrogram", || {
        let dd = ["if=/dev/zero", "of=out", "bs=16k", "count=8", "oflag=direct", "status=none"];
        writes = command("dd").args(dd).current_dir(folder.path()).status().is_ok_and(|status| status.success());
        !writes || program.out_so_far().lines().count() > 3
    });
    let text = program.interrupt().success();
    if !writes {
        skipped!("the folder of temporary files takes no direct writes");
        return;
    }
    assert!(text.lines().count() > 3, "{text}");
}

/// What each CPU recorded lies by itself, so a file without its last byte lacks the end of one CPU. Nothing hangs in it.
#[test]
fn nothing_waits_in_a_recording_that_is_cut() {
    let whole = unpacked(VERSION_6);
    for cut in [1, 5000, 100_000] {
        let options = ReadOptions::new(FieldSet::EVERY);
        let context = read_bytes("cut", &whole[..whole.len() - cut], &options, &mut |_, _| ControlFlow::Continue(()));
        let context = context.expect("the rest can be read");
        assert_eq!(context.tally.get(Anomaly::Truncated), 1);
        assert!(context.unfinished.iter().all(|request| request.wait != Wait::Counts), "{cut}");
    }
}
