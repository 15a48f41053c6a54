//! Every field of `latscope fields`, in both modes, live and from files: a filter on it selects what a program that says what
//! it does has done, or a sentence says that nobody gives the field. Never is it a silent nothing.

use super::lab::{Background, Disk, alone, counts, events};
use crate::program::{Ended, command, end, installed, latscope, root, testdata};
use latscope_capture_file::Format;
use latscope_event::{Field, FieldSet};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// The program that does known I/O on request.
struct Known {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    facts: Value,
}

impl Known {
    fn new(folder: &Path) -> Known {
        let mut child = command("python3")
            .arg("-S")
            .arg(root().join("tests/live/known.py"))
            .arg(folder)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, mut output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        Known { child, input, output, facts: serde_json::from_str(&line).unwrap() }
    }

    fn run(&mut self) {
        self.input.write_all(b"go\n").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
    }

    /// A filter with the facts in it: `{pid}`.
    fn filter(&self, text: &str) -> String {
        let facts = self.facts.as_object().unwrap().iter();
        facts.fold(text.to_owned(), |text, (key, value)| {
            text.replace(&format!("{{{key}}}"), value.as_str().map_or(value.to_string(), str::to_owned).as_str())
        })
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What to expect of a field.
#[derive(Clone, Copy)]
enum Expected {
    /// So many of the calls with this name pass.
    Of(&'static str, &'static str, u64),
    /// No event has it.
    Untold,
    /// As much as this machine supports, of the known writes.
    Perhaps(&'static str),
}
use Expected::{Of, Perhaps, Untold};

const WRITE: &str = "pwrite64";
const SEND: &str = "sendto";
const OPEN: &str = "openat";

/// What the known program makes of each field. Python writes 7 times 1000 bytes at 4096, tries 3 times to open what is missing,
/// and sends 5 times 13 bytes from a client to a server.
#[rustfmt::skip]
const CALLS: &[(&str, Expected)] = &[
    ("time_ns", Of(WRITE, "time_ns > 2020-01-01T00:00:00", 7)),
    ("latency_ns", Of(WRITE, "lat > 1ns and lat < 1h", 7)),
    ("kind", Of(WRITE, "kind = write", 7)),
    ("name", Of(WRITE, "name in (pwrite64, nothing)", 7)),
    ("size", Of(SEND, "size = 13", 5)),
    ("offset", Of(WRITE, "offset = 4k", 7)),
    ("device", Of(WRITE, "disk.dev = {dev} and device exists", 7)),
    ("dev", Of(WRITE, "disk.dev = {dev}", 7)),
    ("host", Untold),
    ("job", Untold),
    ("dispatcher", Untold),
    ("pid", Of(WRITE, "pid = {pid}", 7)),
    ("tid", Of(WRITE, "tid = {pid}", 7)),
    ("comm", Of(WRITE, "comm startswith python", 7)),
    ("process", Of(WRITE, "proc.name startswith python", 7)),
    ("fd", Of(SEND, "fd.num = {socket}", 5)),
    ("fd_type", Of(SEND, "fd.type = ipv4", 5)),
    ("path", Of(WRITE, "fd.name = '{file}'", 7)),
    ("error", Of(OPEN, "error = ENOENT and fd.name endswith /missing", 3)),
    ("result", Of(WRITE, "result = 1000", 7)),
    ("queue_ns", Untold),
    ("intended_ns", Untold),
    ("service_ns", Untold),
    ("lag_ns", Untold),
    ("cpu_wait_ns", Untold),
    ("cache", Untold),
    ("container", Perhaps("container exists")),
    ("container_name", Perhaps("container.name exists")),
    ("container_image", Perhaps("container.image exists")),
    ("cgroup", Of(WRITE, "cgroup startswith /", 7)),
    ("cpu", Of(WRITE, "evt.cpu >= 0 and evt.cpu < 100000", 7)),
    ("category", Of(SEND, "evt.category = net", 5)),
    ("call_args", Of(WRITE, "evt.args contains 'count=1000 pos=4096'", 7)),
    ("local_ip", Of(SEND, "fd.lip = 127.0.0.1", 5)),
    ("local_port", Of(SEND, "fd.lport = {client}", 5)),
    ("remote_ip", Of(SEND, "fd.rip = 127.0.0.1", 5)),
    ("remote_port", Of(SEND, "fd.rport = {server}", 5)),
    ("l4proto", Of(SEND, "fd.l4proto = tcp", 5)),
    ("exe", Of(WRITE, "proc.exe contains python3", 7)),
    ("exe_path", Of(WRITE, "proc.exepath contains python", 7)),
    ("args", Of(WRITE, "proc.args contains known.py", 7)),
    ("cmdline", Of(WRITE, "proc.cmdline startswith 'python3 -S '", 7)),
    ("cwd", Of(WRITE, "proc.cwd = '{folder}'", 7)),
    ("ppid", Of(WRITE, "proc.ppid = {ppid}", 7)),
    ("parent", Of(WRITE, "proc.pname exists", 7)),
    ("uid", Of(WRITE, "user.uid = 0", 7)),
    ("user", Of(WRITE, "user.name = root", 7)),
    ("gid", Of(WRITE, "group.gid = 0", 7)),
    ("group", Of(WRITE, "group.name = root", 7)),
    ("disk_model", Perhaps("disk.model exists")),
    ("disk_rotational", Perhaps("disk.rotational or not disk.rotational and disk.rotational exists")),
    ("state", Untold),
    ("in_iowait", Untold),
    ("wait_class", Untold),
    ("tags", Untold),
    ("tag", Untold),
    ("stack_quality", Untold),
    ("stack_source", Untold),
    ("stack", Untold),
    ("stack_hash", Untold),
    ("frame", Untold),
    ("tags.pair", Untold),
    ("sample_weight", Untold),
    ("end", Of(WRITE, "end > 2020-01-01T00:00:00", 7)),
    ("evt.reltime", Of(WRITE, "evt.reltime >= 0s", 7)),
    ("disk.dev", Of(WRITE, "disk.dev = {dev}", 7)),
    ("thread.ismain", Of(WRITE, "thread.ismain", 7)),
    ("fd.typechar", Of(SEND, "fd.typechar = 4", 5)),
    ("fd.directory", Of(WRITE, "fd.directory = '{folder}'", 7)),
    ("fd.filename", Of(WRITE, "fd.filename = 'known file'", 7)),
    ("fd.cip", Of(SEND, "fd.cip = 127.0.0.1", 5)),
    ("fd.sip", Of(SEND, "fd.sip = 127.0.0.1", 5)),
    ("fd.ip", Of(SEND, "fd.ip = 127.0.0.1", 5)),
    ("fd.cport", Of(SEND, "fd.cport = {client}", 5)),
    ("fd.sport", Of(SEND, "fd.sport = {server}", 5)),
    ("fd.port", Of(SEND, "fd.port = {server}", 5)),
    ("fd.cnet", Of(SEND, "fd.cnet = 127.0.0.0/8", 5)),
    ("fd.snet", Of(SEND, "fd.snet = 127.0.0.0/8", 5)),
    ("fd.net", Of(SEND, "fd.net = 127.0.0.0/8", 5)),
    ("fd.lnet", Of(SEND, "fd.lnet = 127.0.0.0/8", 5)),
    ("fd.rnet", Of(SEND, "fd.rnet = 127.0.0.0/8", 5)),
    ("evt.res", Of(WRITE, "evt.res = SUCCESS", 7)),
    ("evt.failed", Of(OPEN, "evt.failed and fd.name endswith /missing", 3)),
    ("evt.is_io", Of(WRITE, "evt.is_io", 7)),
    ("evt.is_io_read", Of(WRITE, "not evt.is_io_read", 7)),
    ("evt.is_io_write", Of(WRITE, "evt.is_io_write", 7)),
    ("evt.io_dir", Of(WRITE, "evt.io_dir = write", 7)),
    ("evt.is_wait", Of(WRITE, "not evt.is_wait", 7)),
    ("evt.dir", Of(WRITE, "evt.dir = <", 7)),
    ("evt.count", Of(WRITE, "evt.count = 1", 7)),
    ("evt.around", Of(WRITE, "evt.around[2099-01-01T00:00:00] = 1000000h", 7)),
    ("evt.phase", Of(WRITE, "evt.phase[10s] < 10s", 7)),
    ("evt.latency.s", Of(WRITE, "evt.latency.s < 3600", 7)),
    ("evt.latency.ns", Of(WRITE, "evt.latency.ns >= 0", 7)),
    ("evt.rawtime.s", Of(WRITE, "evt.rawtime.s > 1000000000", 7)),
    ("evt.rawtime.ns", Of(WRITE, "evt.rawtime.ns >= 0", 7)),
    ("evt.reltime.s", Of(WRITE, "evt.reltime.s >= 0", 7)),
    ("evt.reltime.ns", Of(WRITE, "evt.reltime.ns >= 0", 7)),
];

/// The names that `latscope fields` lists; those of columns alone, or all.
fn listed(only_columns: bool) -> Vec<(String, String)> {
    let list: Value = serde_json::from_str(&latscope(&["fields", "--json"]).success()).unwrap();
    let text = |field: &Value, key: &str| field[key].as_str().unwrap().to_owned();
    let named =
        list.as_array().unwrap().iter().map(|field| (text(field, "name"), text(field, "use"), text(field, "type")));
    named.filter(|(_, used, _)| !only_columns || used == "column").map(|(name, _, of)| (name, of)).collect()
}

/// How many events a summary in JSON counted.
fn total(summary: &str) -> u64 {
    counts(summary, "name").values().sum()
}

/// Holds what a view counted, and reported, against what is expected.
#[track_caller]
fn check(field: &str, expected: Expected, filter: &str, ended: Ended, perhaps: u64) {
    let printed = ended.err.clone();
    let count = total(&ended.success());
    match expected {
        Of(_, _, expected) => assert_eq!(count, expected, "{filter}\n{printed}"),
        Perhaps(_) if perhaps > 0 => assert_eq!(count, perhaps, "{filter}\n{printed}"),
        Untold | Perhaps(_) => {
            assert_eq!(count, 0, "{filter}");
            // A part of a column is missing with it.
            let column = match field {
                "frame" | "stack_hash" => "stack",
                "tags.pair" => "tags",
                other => other,
            };
            let missing = format!("no event has {column}");
            assert!(printed.contains(&missing), "{filter}: a silent nothing: {printed}");
        }
    }
}

#[test]
fn every_field_of_calls_filters_what_happened_or_is_reported_missing() {
    let Some(_alone) = alone() else { return };
    if !installed("python3") {
        return;
    }
    let table: BTreeSet<&str> = CALLS.iter().map(|(name, _)| *name).collect();
    // What is derived from a complete trace is refused live (tests/derived.rs), only files have names (tests/traces.rs), and only
    // logs of Spark have its fields (tests/spark_eventlog.rs).
    let spark = Format::from_name("spark_eventlog").unwrap().fills();
    let of_spark = spark.iter().filter(|field| !CALLS.iter().any(|(name, _)| *name == field.name())).collect();
    let of_files = FieldSet::DERIVED.union(of_spark).with(&[Field::Trace]);
    let is_live = |name: &String| !Field::from_name(name).is_some_and(|field| of_files.contains(field));
    let listed: BTreeSet<String> = listed(false).into_iter().map(|(name, _)| name).filter(is_live).collect();
    assert_eq!(table, listed.iter().map(String::as_str).collect(), "a new field belongs into this table");

    let folder = tempfile::tempdir().unwrap();
    let mut known = Known::new(folder.path());
    known.facts["folder"] = folder.path().to_str().unwrap().into();
    known.facts["ppid"] = std::process::id().into();
    let filter = |known: &Known, name: &str, expected: Expected| {
        let (call, text) = match expected {
            Of(call, text, _) => (call, text.to_owned()),
            Perhaps(text) => (WRITE, text.to_owned()),
            Untold => (WRITE, format!("{name} exists")),
        };
        known.filter(&format!("pid = {{pid}} and name = {call} and ({text})"))
    };
    let filters: Vec<_> =
        CALLS.iter().map(|&(name, expected)| (name, expected, filter(&known, name, expected))).collect();

    // All of it as a file, of two kinds.
    let (lat, parquet) = (folder.path().join("t.lat"), folder.path().join("t.parquet"));
    let all = known.filter("pid = {pid}");
    let record = Background::latscope(&["record", "-s", "io", "-w", lat.to_str().unwrap(), "--with", "all", &all]);
    known.run();
    record.interrupt().success();
    latscope(&["convert", "-r", lat.to_str().unwrap(), "-w", parquet.to_str().unwrap()]).success();
    let perhaps = |field: &str| {
        let rows = events(&lat, field, &known.filter("pid = {pid} and name = pwrite64"));
        rows.iter().filter(|row| row.get(field).is_some()).count() as u64
    };
    let perhaps: Vec<u64> = filters
        .iter()
        .map(|(name, expected, _)| if matches!(expected, Perhaps(_)) { perhaps(name) } else { 0 })
        .collect();
    for ((name, expected, filter), &perhaps) in filters.iter().zip(&perhaps) {
        for file in [&lat, &parquet] {
            let ended = latscope(&["summary", "-r", file.to_str().unwrap(), "--json", "--by", "name", filter]);
            check(name, *expected, filter, ended, perhaps);
        }
    }
    // Live, as many at a time as do not disturb each other.
    for (at, some) in filters.chunks(12).enumerate() {
        let source = if at % 2 == 0 { "io" } else { "syscall" };
        let view = ["summary", "-s", source, "--mode", "event", "--json", "--by", "name"];
        let views: Vec<_> =
            some.iter().map(|(_, _, filter)| Background::latscope(&[&view[..], &[filter]].concat())).collect();
        known.run();
        for (of, ((name, expected, filter), view)) in some.iter().zip(views).enumerate() {
            check(name, *expected, filter, view.interrupt(), perhaps[at * 12 + of]);
        }
    }
}

#[test]
fn every_field_groups_or_says_that_it_cannot() {
    let Some(_alone) = alone() else { return };
    if !installed("python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut known = Known::new(folder.path());
    let all = known.filter("pid = {pid}");
    let lat = folder.path().join("t.lat");
    let record = Background::latscope(&["record", "-s", "io", "-w", lat.to_str().unwrap(), "--with", "all", &all]);
    known.run();
    record.interrupt().success();
    let stored = folder.path().join("stored.parquet");
    let series = ["convert", "-r", lat.to_str().unwrap(), "-w", stored.to_str().unwrap(), "--series", "--by", "kind"];
    latscope(&series).success();
    for (field, of) in listed(true) {
        let expected = events(&lat, &field, "").iter().any(|row| row.get(&field).is_some());
        for view in [&["summary", "--json"][..], &["percentiles", "-i", "1s", "--csv"], &["histogram"]] {
            let by = ["-r", lat.to_str().unwrap(), "--by", &field];
            let ended = latscope(&[view, &by].concat());
            match of.as_str() {
                "time" | "duration" => {
                    assert!(ended.failure(2).contains("would make every value a group"), "{field}")
                }
                _ => {
                    assert_eq!(ended.status, Some(0), "{field}: {}", ended.err);
                    let missing = format!("no event has {field}, a field of --by");
                    assert_eq!(ended.err.contains(&missing), !expected, "{view:?} {field}: {}", ended.err);
                }
            }
            let ended = latscope(&[view, &["-r", stored.to_str().unwrap(), "--by", &field]].concat());
            match (field.as_str(), of.as_str()) {
                ("kind" | "trace", _) => drop(ended.success()),
                (_, "time" | "duration") => drop(ended.failure(2)),
                _ => {
                    let printed = ended.failure(2);
                    assert!(printed.contains(&format!("is not grouped by {field}, only by: kind")), "{printed}");
                }
            }
        }
    }
}

/// Counts in the kernel: of the fields of the keys as many as events, of others a sentence.
#[test]
fn histograms_of_the_kernel_know_their_fields_and_say_which_they_do_not() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--read", "200us", "--size", "16MiB"]);
    let number = std::fs::read_to_string(format!("/sys/class/block/{}/dev", disk.name())).unwrap();
    let keys = |source: &str| -> Vec<(&str, String)> {
        let of_disk = |filter: &str| format!("disk.dev = {} and {filter}", number.trim());
        match source {
            "block" => vec![
                ("device", disk.filter()),
                ("dev", of_disk("dev exists")),
                ("kind", of_disk("kind = read")),
                ("disk_rotational", of_disk("disk.rotational exists")),
            ],
            "io" => vec![
                ("device", format!("{} and name = read", disk.filter())),
                ("dev", of_disk("name = read")),
                ("kind", of_disk("kind = read and name != readv")),
                ("name", of_disk("name = read")),
                ("fd_type", of_disk("fd.type = block and name = read")),
                ("category", of_disk("evt.category = file and kind = read")),
                ("disk_rotational", of_disk("disk.rotational exists and name = read")),
            ],
            _ => vec![("kind", "name = fdatasync and kind = sync".into()), ("name", "name = fdatasync".into())],
        }
    };
    let named = ["kind", "name", "device", "dev", "fd_type", "category", "disk_model", "disk_rotational"];
    for source in ["block", "io", "syscall"] {
        let keys = keys(source);
        for (field, of) in listed(true) {
            let by = ["summary", "-s", source, "--mode", "histogram", "--for", "1ms", "--by", &field];
            let is_key = match source {
                "block" => named.contains(&&*field) && !["name", "fd_type", "category"].contains(&&*field),
                "io" => named.contains(&&*field),
                _ => ["kind", "name"].contains(&&*field),
            };
            if is_key {
                assert!(field == "disk_model" || keys.iter().any(|(key, _)| *key == field), "{source} {field}");
                continue;
            }
            let printed = latscope(&by).failure(2);
            let why = match of.as_str() {
                "time" | "duration" => "would make every value a group".to_owned(),
                _ => format!("the groups need {field}"),
            };
            assert!(printed.contains(&why), "{source} {field}: {printed}");
            if ["time_ns", "latency_ns"].contains(&&*field) {
                continue;
            }
            let exists = format!("{field} exists");
            let printed =
                latscope(&["summary", "-s", source, "--mode", "histogram", "--for", "1ms", &exists]).failure(2);
            assert!(printed.contains(&format!("the filter needs {field}")), "{source} {field}: {printed}");
        }
        let views: Vec<_> = keys
            .iter()
            .map(|(_, filter)| {
                let view = ["summary", "-s", source, "--mode", "histogram", "--json", "--by", "kind", filter];
                Background::latscope(&view)
            })
            .collect();
        // A thousand bytes at a time to its own file are as many synced.
        let read = format!("if={} of=/dev/null bs=64k count=25 iflag=direct status=none", disk.path);
        end(command("dd").args(read.split(' ')), b"").success();
        let folder = tempfile::tempdir().unwrap();
        for file in 0..25 {
            let sync = format!("if=/dev/zero of=f{file} bs=1k count=1 conv=fdatasync status=none");
            end(command("dd").args(sync.split(' ')).current_dir(folder.path()), b"").success();
        }
        for ((field, filter), view) in keys.iter().zip(views) {
            let counted: u64 = counts(&view.interrupt().success(), "kind").values().sum();
            // Of fdatasync the machine may make more.
            let is_right = if source == "syscall" { counted >= 25 } else { counted == 25 };
            assert!(is_right, "{source} {field}: {filter}: {counted}");
        }
    }
}

/// Files of other tools give few fields, and views of them say which they do not.
#[test]
fn files_of_other_tools_never_select_nothing_in_silence() {
    let files = [
        "perf_data/syscalls_named.data.zst",
        "perf_data/block_mixed.data.zst",
        "ioping/volA.out.zst",
        "fio_log/u_clat.1.log",
    ];
    for file in files {
        let path = testdata(file);
        let of_file = path.to_str().unwrap();
        for (field, _) in listed(true) {
            let ended = latscope(&["events", "-r", of_file, "--json", "--columns", &field, &format!("{field} exists")]);
            let printed = ended.err.clone();
            let rows = ended.success().lines().count();
            let all = latscope(&["events", "-r", of_file, "--json", "--columns", &field]).success();
            let expected = all.lines().filter(|line| line.contains(&format!("\"{field}\":"))).count();
            assert_eq!(rows, expected, "{file} {field}");
            assert_eq!(printed.contains(&format!("no event has {field}")), expected == 0, "{file} {field}: {printed}");
        }
    }
}
