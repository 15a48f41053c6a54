//! What `record` leaves behind when all goes well.

use super::blind::seeing_all;
use super::lab::{Background, Disk, alone, events, fio_command, number, until};
use crate::program::{LATSCOPE, command, end, latscope};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The files of a folder by name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn the_exit_status_of_the_command_is_passed_on() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    let trace = trace.to_str().unwrap();
    let run = |command: &[&str]| latscope(&[&["record", "-f", "-s", "io", "-w", trace, "--"], command].concat());
    assert_eq!(run(&["sh", "-c", "exit 7"]).status, Some(7));
    latscope(&["summary", "-r", trace]).success();
    assert_eq!(run(&["sh", "-c", "kill -TERM $$"]).status, Some(128 + 15));
    assert_eq!(run(&["true"]).status, Some(0));
    let printed = run(&["latscope-no-such-program"]).failure(127);
    assert!(printed.contains("cannot run latscope-no-such-program"), "{printed}");
}

#[test]
fn a_recording_replaces_no_file_unless_forced() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    let record = ["record", "-s", "block", "-w", trace.to_str().unwrap(), "--for", "100ms"];
    std::fs::write(&trace, "precious").unwrap();
    let printed = latscope(&record).failure(2);
    assert!(printed.contains("exists; -f replaces it"), "{printed}");
    assert_eq!(std::fs::read(&trace).unwrap(), b"precious");
    latscope(&[&record[..], &["-f"]].concat()).success();
    latscope(&["summary", "-r", trace.to_str().unwrap()]).success();
}

#[test]
fn a_command_that_outlasts_the_recording_is_ended() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (trace, ended) = (folder.path().join("t.lat"), folder.path().join("ended"));
    let script =
        format!("echo $$ > {0}.pid; trap 'echo TERM > {0}; exit 3' TERM; while :; do sleep 0.1; done", ended.display());
    let record = ["record", "-s", "block", "-w", trace.to_str().unwrap(), "--for", "300ms", "--", "sh", "-c", &script];
    let run = latscope(&record);
    assert_eq!(run.status, Some(0), "{}", run.err);
    assert!(run.err.contains("sending SIGTERM to the command"), "{}", run.err);
    assert_eq!(std::fs::read_to_string(&ended).unwrap(), "TERM\n", "the command could tidy up");
    let pid = std::fs::read_to_string(ended.with_extension("pid")).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "the command still runs");
    // One that ends in time passes its status on, whatever time is given.
    let quick =
        ["record", "-f", "-s", "block", "-w", trace.to_str().unwrap(), "--for", "60s", "--", "sh", "-c", "exit 5"];
    assert_eq!(latscope(&quick).status, Some(5));
}

/// A command that hangs with its disk cannot be ended: the file is complete when the recording is over, and says that it waits.
#[test]
fn a_command_that_hangs_does_not_keep_the_file_open() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--read", "1ms"]);
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    let trace = trace.to_str().unwrap();
    let filter = format!("comm = dd and device = {}", disk.name());
    let from = format!("if={}", disk.path);
    disk.signal("STOP");
    let record = ["record", "-s", "stacks", "-w", trace, "--for", "2s", &filter, "--"];
    let dd = ["dd", &from, "of=/dev/null", "bs=4k", "count=1", "iflag=direct", "status=none"];
    let recording = Background::latscope(&[&record[..], &dd].concat());
    until("the end of the recording", || recording.printed().contains("sending SIGTERM to the command"));
    let printed = latscope(&["summary", "-r", trace, "--by", "none", "--json"]).success();
    let total = &serde_json::from_str::<serde_json::Value>(&printed).unwrap()["total"];
    assert_eq!((number(total, "waiting"), number(total, "count")), (1, 0), "{printed}");
    let said = recording.ended();
    disk.signal("CONT");
    assert_eq!(said.status, Some(0), "{}", said.err);
    assert!(said.err.contains("is hung in the kernel"), "{}", said.err);
}

/// Of a host that hangs somebody pulls the plug: the file of a recording that is killed has what waited, whatever was recorded.
#[test]
fn a_recording_that_is_killed_has_what_waits() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--read", "1ms"]);
    let folder = tempfile::tempdir().unwrap();
    let traces = ["block", "stacks", "offcpu"].map(|source| folder.path().join(format!("{source}.lat")));
    let filters = [disk.filter(), "comm = dd".into(), "comm = dd".into()];
    let record = |(trace, filter): (&PathBuf, &String)| {
        let source = trace.file_stem().unwrap().to_str().unwrap();
        Background::latscope(&["record", "-s", source, "-w", trace.to_str().unwrap(), filter])
    };
    let recordings: Vec<_> = traces.iter().zip(&filters).map(record).collect();
    until("the recordings", || traces.iter().all(|trace| trace.exists()));
    disk.signal("STOP");
    let from = format!("if={}", disk.path);
    let mut dd = std::process::Command::new("dd")
        .args([&from, "of=/dev/null", "bs=4k", "count=1", "iflag=direct", "status=none"])
        .spawn()
        .unwrap();
    let waits = |trace: &Path| {
        let read = latscope(&["summary", "-r", trace.to_str().unwrap(), "--by", "none", "--json"]);
        let total = read.status.filter(|&status| status == 0).map(|_| read.out);
        let total =
            total.map(|printed| serde_json::from_slice::<serde_json::Value>(&printed).unwrap()["total"].clone());
        total.map_or(0, |total| number(&total, "waiting"))
    };
    // It is there before the end as well: a file that is being written is a file that is cut.
    until("what waits", || traces.iter().all(|trace| waits(trace) == 1));
    for recording in recordings {
        recording.signal("KILL");
        recording.ended();
    }
    disk.signal("CONT");
    dd.wait().unwrap();
    for trace in &traces {
        assert_eq!(waits(trace), 1, "{trace:?}");
        let said = latscope(&["summary", "-r", trace.to_str().unwrap(), "--by", "comm"]);
        let said = String::from_utf8_lossy(&said.out).into_owned() + &said.err;
        assert!(said.contains("truncated") && said.contains("dd "), "{said}");
    }
}

/// Small writes without end, each an event of several bytes that do not compress well.
fn many_calls(folder: &Path) -> Background {
    let script = "import os, random, time\nf = os.open('x', os.O_RDWR | os.O_CREAT)\n\
                  while not time.sleep(0.0001): os.pwrite(f, b'x' * random.randrange(1, 4096), random.randrange(1 << 40))";
    Background::new(command("python3").current_dir(folder).args(["-c", script]))
}

#[test]
fn a_flight_recorder_is_limited_in_bytes() {
    let Some(_alone) = alone() else { return };
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = folder.path().join("flight.lat");
    let load = many_calls(elsewhere.path());
    let filter = format!("proc.pid = {}", load.pid());
    let limits = ["--rotate", "50KiB", "--keep", "400KiB"];
    let record = ["record", "-s", "io", "-w", path.to_str().unwrap(), &filter];
    let recorder = Background::latscope(&[&record[..], &limits].concat());
    let first = || files(folder.path()).first().cloned();
    until("a first file", || first().is_some());
    let oldest = first();
    until("the oldest file went", || first() != oldest);
    recorder.interrupt().success();
    let sizes: Vec<u64> = files(folder.path()).iter().map(|file| file.metadata().unwrap().len()).collect();
    assert!(sizes.len() > 1 && sizes.iter().sum::<u64>() <= 400 << 10, "{sizes:?}");
    for file in files(folder.path()) {
        latscope(&["summary", "-r", file.to_str().unwrap()]).success();
    }
}

#[test]
fn a_flight_recorder_goes_on_when_the_disk_is_full() {
    let Some(_alone) = alone() else { return };
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mount = ["-t", "tmpfs", "-o", "size=1m", "latscope-test", folder.path().to_str().unwrap()];
    end(command("mount").args(mount), b"").success();
    let load = many_calls(elsewhere.path());
    let filter = format!("proc.pid = {}", load.pid());
    let path = folder.path().join("flight.lat");
    let record = ["record", "-s", "io", "-w", path.to_str().unwrap(), "--rotate", "200KiB", "--keep", "100", &filter];
    let recorder = Background::latscope(&record);
    until("the disk is full", || recorder.printed().contains("The disk is full"));
    let full_at = files(folder.path()).last().cloned();
    until("it goes on", || files(folder.path()).last().cloned() != full_at);
    let ended = recorder.interrupt();
    let whole = files(folder.path());
    let readable = whole.iter().filter(|file| latscope(&["summary", "-r", file.to_str().unwrap()]).status == Some(0));
    let readable = readable.count();
    end(command("umount").arg("--lazy").arg(folder.path()), b"").success();
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    assert!(readable >= 2 && readable + 1 >= whole.len(), "{readable} of {whole:?}");
}

#[test]
fn columns_do_not_depend_on_the_first_event() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--read", "2ms"]);
    for shape in ["--json", "--csv"] {
        let watch = Background::latscope(&["events", "-s", "block", shape, &disk.filter()]);
        // So many empty looks at the ring are before the first event.
        std::thread::sleep(std::time::Duration::from_millis(500));
        end(&mut fio_command(&disk, &["--ioengine=psync", "--rw=read", "--size=64k"]), b"").success();
        let out = watch.interrupt().success();
        assert_eq!(out.lines().count(), 16 + usize::from(shape == "--csv"), "{out}");
        if shape == "--csv" {
            let (head, row) = (out.lines().next().unwrap(), out.lines().nth(5).unwrap());
            let cell = |name| row.split(',').nth(head.split(',').position(|known| known == name).unwrap()).unwrap();
            assert_eq!((cell("kind"), cell("comm"), cell("size")), ("read", "fio", "4096"), "{out}");
        } else {
            for key in ["kind", "name", "offset", "pid", "comm", "device"] {
                assert!(out.lines().skip(1).all(|line| line.contains(&format!("\"{key}\":"))), "{key}: {out}");
            }
        }
    }
    // Nobody is known to have issued what was in flight before the capture started; the columns are there for the others.
    let nothing = latscope(&["events", "-s", "block", "--csv", "--for", "100ms", "dev = 1:250"]);
    assert!(nothing.out.starts_with(b"time_ns,latency_ns,kind,"), "{}", nothing.success());
}

#[test]
fn the_command_is_recorded_from_its_beginning_to_its_end() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    let program = folder.path().join("latscope-dd");
    std::fs::copy("/bin/dd", &program).unwrap();
    let mut record = command(LATSCOPE);
    record.args(["record", "-s", "io", "-w"]).arg(&trace).args(["proc.name = latscope-dd and kind = read", "--"]);
    record.arg(&program).args(["if=/dev/zero", "of=/dev/null", "bs=512", "count=10000", "status=none"]);
    end(&mut record, b"").success();
    // Not by its path: it may be gone before that was looked up. Its writes are no reads.
    assert_eq!(events(&trace, "size", "fd.type = char and size = 512").len(), 10_000);
}

#[test]
fn ctrl_c_ends_a_recording_with_a_complete_file() {
    seeing_all(|| {
        let Some(_alone) = alone() else { return };
        let disk = Disk::new(&[]);
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("t.lat");
        let record = Background::latscope(&["record", "-s", "block", "-w", trace.to_str().unwrap(), &disk.filter()]);
        end(&mut fio_command(&disk, &["--ioengine=psync", "--rw=read", "--size=2m"]), b"").success();
        let ended = record.interrupt();
        assert_eq!(ended.status, Some(0), "{}", ended.err);
        assert!(ended.err.contains("512 events"), "{}", ended.err);
        let read = latscope(&["events", "-r", trace.to_str().unwrap(), "--csv"]);
        assert!(!read.err.contains("cut") && !read.err.contains("truncated"), "{}", read.err);
        assert_eq!(read.success().lines().count(), 1 + 512);
    });
}

/// The offsets of the events of files, in the order of the files.
fn offsets(files: &[PathBuf]) -> Vec<u64> {
    files.iter().flat_map(|file| events(file, "offset", "")).map(|event| number(&event, "offset")).collect()
}

#[test]
fn a_flight_recorder_keeps_the_last_files_and_loses_nothing_between_them() {
    seeing_all(|| {
        let Some(_alone) = alone() else { return };
        // Each block is read once, in order, one every 2 ms, so that the offset numbers the events.
        let disk = Disk::new(&["--read", "2ms"]);
        let folder = tempfile::tempdir().unwrap();
        let [all, last] = ["all", "last"].map(|name| folder.path().join(name));
        for folder in [&all, &last] {
            std::fs::create_dir(folder).unwrap();
        }
        let of_disk = disk.filter();
        let start = |folder: &Path, more: &[&str]| {
            let path = folder.join("flight.lat");
            let path = path.to_str().unwrap();
            Background::latscope(
                &[&["record", "-s", "block", "-w", path, "--rotate", "500ms"], more, &[&of_disk]].concat(),
            )
        };
        let everything = start(&all, &[]);
        let recorder = start(&last, &["--keep", "3"]);
        let load = ["--ioengine=psync", "--rw=read", "--size=6m"];
        end(&mut fio_command(&disk, &load), b"").success();
        until("the next file", || files(&last).len() == 3);
        let (everything, recorder) = (everything.interrupt(), recorder.interrupt());
        everything.success();
        recorder.success();

        let (all, last) = (files(&all), files(&last));
        assert!(all.len() >= 6, "{all:?}");
        assert_eq!(last.len(), 3, "{last:?}");
        for file in all.iter().chain(&last) {
            latscope(&["summary", "-r", file.to_str().unwrap()]).success();
        }
        let expected: Vec<u64> = (0..1536).map(|block| block * 4096).collect();
        assert_eq!(offsets(&all), expected);
        // Of the others there is the end of the same row.
        let kept = offsets(&last);
        let from = expected.partition_point(|offset| Some(offset) < kept.first());
        assert_eq!(kept, expected[from..]);
    });
}

#[test]
fn samples_stand_for_what_was_left_out() {
    seeing_all(|| {
        let Some(_alone) = alone() else { return };
        const ONE_IN: u64 = 16;
        let disk = Disk::new(&["--slow", "100ms", "--every", "250"]);
        let folder = tempfile::tempdir().unwrap();
        let [whole, sample] = ["whole.lat", "sample.lat"].map(|name| folder.path().join(name));
        let of_disk = disk.filter();
        let whole_run = Background::latscope(&["record", "-s", "block", "-w", whole.to_str().unwrap(), &of_disk]);
        let one_in = format!("1/{ONE_IN}");
        let arguments =
            ["record", "-s", "block", "-w", sample.to_str().unwrap(), "--only-slow", "50ms", "--sample", &one_in];
        let sample_run = Background::latscope(&[&arguments[..], &[&of_disk]].concat());
        end(&mut fio_command(&disk, &["--ioengine=libaio", "--iodepth=4", "--rw=randread", "--size=64m"]), b"")
            .success();
        whole_run.interrupt().success();
        sample_run.interrupt().success();

        let all = events(&whole, "latency_ns,offset", "");
        assert_eq!(all.len(), (64 << 20) / 4096);
        // The slow ones are the same, each as itself. Each capture reads the clock for itself, hence the gap.
        let slow = |trace: &Path, filter| {
            let mut offsets: Vec<u64> =
                events(trace, "offset", filter).iter().map(|event| number(event, "offset")).collect();
            offsets.sort_unstable();
            offsets
        };
        let expected = slow(&whole, "lat > 51ms");
        assert!(expected.len() >= all.len() / 250);
        let kept = slow(&sample, "lat > 51ms and not sample_weight > 1");
        assert_eq!(kept, expected);
        // Of the fast ones there are about as many as there should be, and each stands for 16.
        let fast = all.len() as f64 - expected.len() as f64;
        let kept = events(&sample, "sample_weight", "lat < 50ms");
        assert!(kept.iter().all(|event| number(event, "sample_weight") == ONE_IN), "{:?}", kept.first());
        let mean = fast / ONE_IN as f64;
        let sigma = (fast * (1.0 / ONE_IN as f64) * (1.0 - 1.0 / ONE_IN as f64)).sqrt();
        assert!((kept.len() as f64 - mean).abs() < 5.0 * sigma + 1.0, "{} of {mean} +- {sigma}", kept.len());
        // Histograms count what the rows stand for.
        let text = latscope(&["summary", "-r", sample.to_str().unwrap(), "--json"]).success();
        let counts: BTreeMap<String, u64> = super::lab::counts(&text, "device");
        let stand_for = kept.len() as u64 * ONE_IN + slow(&sample, "lat >= 50ms").len() as u64;
        assert_eq!(counts.into_values().collect::<Vec<_>>(), [stand_for]);
    });
}

/// What a file of a recording says of its capture is of its own time.
#[test]
fn files_of_a_flight_recorder_count_for_themselves() {
    seeing_all(|| {
        let Some(_alone) = alone() else { return };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flight.lat");
        let words =
            ["record", "-s", "stacks", "--rotate", "1s", "--hz", "20", "--cpu-budget", "100%", "--for", "6s", "-w"];
        let ran = latscope(&[&words[..], &[path.to_str().unwrap()]].concat());
        assert!(ran.status == Some(0) && !ran.err.contains(": 1 events"), "{}", ran.err);
        let files = files(folder.path());
        assert!(files.len() >= 4, "{files:?}");
        for file in &files {
            let notes = latscope(&["summary", "-r", file.to_str().unwrap()]).success();
            // A note may be broken over lines.
            let notes = notes.split_whitespace().collect::<Vec<_>>().join(" ");
            let count = notes.split_once("threads were sampled ").map(|(_, rest)| rest.split(' ').next().unwrap());
            let count: u64 = count.unwrap_or_else(|| panic!("{notes}")).replace(',', "").parse().unwrap();
            assert!(count <= 50, "{count} in {}: a file has a second or two at 20 a second", file.display());
        }
    });
}
