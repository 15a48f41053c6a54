//! Histograms as records, agents and a hub: what is written is what is read, and what agents saw is what the hub has.

use crate::live::lab::{Background, Disk, alone, fio_command, number, signal, until};
use crate::program::{LATSCOPE, command, latscope, latscope_with};
use latscope_capture_file::{ReadOptions, SeriesReader};
use latscope_event::FieldSet;
use latscope_histogram::Sparse;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const TRACE: &str = "testdata/perf_script/story_2s.txt.gz";

/// Rows of a series by `percentiles`, in base units.
fn rows(file: &str, words: &[&str]) -> String {
    let view = ["percentiles", "--csv", "--completed-only", "--count-by", "completion", "-r", file];
    latscope(&[&view, words].concat()).success()
}

/// Every view on a file of frames has the numbers that it has on the same series in Parquet, and those of the trace itself.
#[test]
fn frames_have_the_numbers_of_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (frames, parquet) = (path("run.frames"), path("run.parquet"));
    let words = ["-i", "100ms", "--by", "device,kind"];
    latscope(&[&["convert", "-r", TRACE, "-w", &frames], &words[..]].concat()).success();
    latscope(&[&["convert", "--series", "-r", TRACE, "-w", &parquet], &words[..]].concat()).success();
    let percentiles = rows(&frames, &words);
    assert!(percentiles.lines().count() > 20, "{percentiles}");
    assert!(percentiles == rows(&parquet, &words), "{percentiles}");
    for words in [&["-i", "100ms"][..], &["-i", "500ms", "--by", "kind"]] {
        assert!(rows(&frames, words) == rows(TRACE, words), "{words:?}");
    }
    // What waited at the end is in it, with its age.
    let summary = |file: &str| latscope(&["summary", "--json", "--by", "device,kind", "-r", file]).success();
    let waiting = |file: &str| {
        let summary: Value = serde_json::from_str(&summary(file)).unwrap();
        (summary["total"]["waiting"].clone(), summary["total"]["oldest_ns"].clone())
    };
    assert_eq!(waiting(&frames), waiting(TRACE));
    let again = ["convert", "-r", &frames, "-w", &path("again.frames")];
    latscope(&[&again, &words[..]].concat()).success();
    assert!(rows(&path("again.frames"), &words) == percentiles);
}

#[test]
fn frames_are_read_up_to_where_they_are_cut() {
    let whole = latscope(&["convert", "-r", TRACE, "-w", "-", "--to", "frames", "-i", "100ms"]).out;
    let view = |bytes: &[u8]| latscope_with(&["percentiles", "--csv", "-i", "100ms", "-r", "-"], bytes);
    let all = view(&whole).success();
    let cut = view(&whole[..whole.len() * 2 / 3]);
    assert!(cut.err.contains("1 truncated input"), "{}", cut.err);
    let some = cut.success();
    assert!(some.lines().count() > 5 && some.lines().take(5).eq(all.lines().take(5)), "{some}");
    let refused = latscope_with(&["events", "-r", "-"], &whole).failure(3);
    assert!(refused.contains("histograms, not single events"), "{refused}");
}

/// Several files of frames, as a journal has them, are one series, whichever worker reads which.
#[test]
fn several_files_of_frames_are_one_series() {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<String> = ["kind = read", "kind = write", "kind != read and kind != write"]
        .iter()
        .zip(1..)
        .map(|(filter, number)| {
            let path = folder.path().join(format!("{number}.frames")).to_str().unwrap().to_string();
            latscope(&["convert", "-r", TRACE, "-w", &path, "-i", "100ms", "--by", "device,kind", filter]).success();
            path
        })
        .collect();
    let words: Vec<&str> = ["percentiles", "--csv", "--completed-only", "--count-by", "completion", "-i", "100ms"]
        .into_iter()
        .chain(files.iter().flat_map(|file| ["-r", file.as_str()]))
        .collect();
    let whole = rows(TRACE, &["-i", "100ms"]);
    for _ in 0..5 {
        assert!(latscope(&words).success() == whole);
    }
}

/// A hub in the background, on a socket file.
pub struct Hub {
    program: Background,
    folder: std::path::PathBuf,
}

impl Hub {
    pub fn start(folder: &Path) -> Hub {
        let (socket, journal) = (folder.join("hub.sock"), folder.join("journal"));
        let listen = format!("unix:{}", socket.display());
        let words = ["hub", "--listen", &listen, "--data", journal.to_str().unwrap()];
        let program = Background::new(command(LATSCOPE).args(words));
        until("the hub", || program.printed().contains("listening on"));
        Hub { program, folder: folder.into() }
    }

    pub fn address(&self) -> String {
        format!("unix:{}", self.folder.join("hub.sock").display())
    }

    pub fn input(&self) -> String {
        format!("hub+{}", self.address())
    }

    /// What it printed so far.
    pub fn printed(&self) -> String {
        self.program.printed()
    }

    /// Ctrl-C, and what came of it.
    pub fn interrupt(self) -> crate::program::Ended {
        self.program.interrupt()
    }

    /// As a power failure of the process: nothing is written any more.
    fn kill(self) {
        signal(self.program.pid(), "KILL");
        let status = self.program.ended().status;
        assert_eq!(status, None);
    }
}

/// An agent of one disk, with its events beside.
fn agent(hub: &Hub, disk: &Disk, name: &str, more: &[&str]) -> Background {
    let path = |ending: &str| hub.folder.join(format!("{name}{ending}")).to_str().unwrap().to_string();
    let (address, queue, filter) = (hub.address(), path(".queue"), disk.filter());
    let words = ["agent", "--hub", &address, "--name", name, "--queue", &queue, "-s", "block", "-i", "500ms"];
    Background::latscope(&[&words, more, &[&filter]].concat())
}

/// Six seconds of reads and writes on each disk.
pub fn loads(disks: &[Disk]) -> Vec<Background> {
    let words = ["--rw=randrw", "--size=8m", "--time_based", "--runtime=6", "--ioengine=psync", "--thinktime=2ms"];
    disks.iter().map(|disk| Background::new(&mut fio_command(disk, &words))).collect()
}

/// By the start of their intervals, device and kind.
pub type Histograms = BTreeMap<(i64, Vec<String>), Sparse>;

/// The histograms of all intervals, devices and kinds; those without events are left out.
pub fn histograms(file: &Path) -> Histograms {
    let rows = SeriesReader::open(file, &ReadOptions::new(FieldSet::ALWAYS)).unwrap().map(Result::unwrap);
    let rows = rows.filter(|row| row.histogram.totals().count > 0);
    rows.map(|row| ((row.time_ns, row.groups[row.groups.len() - 2..].to_vec()), row.histogram)).collect()
}

/// What a hub and the fold of events have; the message names what differs.
#[track_caller]
pub fn assert_equal(hub: &Histograms, folded: &Histograms) {
    let count = |histograms: &Histograms, key| histograms.get(key).map_or(0, |histogram| histogram.totals().count);
    let keys = hub.keys().chain(folded.keys()).collect::<BTreeSet<_>>();
    let differ = keys.into_iter().filter(|key| hub.get(key) != folded.get(key));
    let rows: Vec<String> = differ
        .map(|key| format!("{key:?}: {} events at the hub, {} in the traces", count(hub, key), count(folded, key)))
        .collect();
    assert!(rows.is_empty(), "{} of {} histograms differ:\n{}", rows.len(), folded.len(), rows.join("\n"));
}

/// A hub to which no agent has connected yet has no hosts and no groups, which is no error.
#[test]
fn a_hub_without_agents_has_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Hub::start(folder.path());
    for words in
        [&["summary", "--by", "host"][..], &["summary", "--by", "host,device"], &["percentiles", "--by", "kind"]]
    {
        let ended = latscope(&[words, &["-r", &hub.input()]].concat());
        assert!(!ended.err.contains("not grouped"), "{words:?}: {}", ended.err);
        let recent = latscope(&[words, &["-r", &hub.input(), "evt.time >= 2026-11-23"]].concat());
        assert!(!recent.err.contains("not grouped"), "{words:?}: {}", recent.err);
    }
    assert_eq!(hub.interrupt().status, Some(0));
}

/// A hub on a port ends, though an agent is connected, and another one takes its place at once.
#[test]
fn a_hub_takes_the_place_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let start = |listen: &str| {
        let hub = Background::new(command(LATSCOPE).args(["hub", "--listen", listen, "--data", &path("data")]));
        until("the hub", || hub.printed().contains("listening on"));
        hub
    };
    let hub = start("127.0.0.1:0");
    let address = hub.printed().split("listening on ").nth(1).unwrap().split_whitespace().next().unwrap().to_string();
    std::fs::write(path("file"), [7; 4096]).unwrap();
    let words = ["agent", "--hub", &address, "--name", "n1", "-i", "100ms", "--rate", "10", "--ping", &path("file")];
    let agent = Background::new(command(LATSCOPE).args(words));
    until("the agent", || hub.printed().contains("n1: connected"));
    assert_eq!(hub.interrupt().status, Some(0));
    let hub = start(&address);
    until("the agent again", || hub.printed().contains("n1: connected"));
    assert_eq!((agent.interrupt().status, hub.interrupt().status), (Some(0), Some(0)));
}

/// Two hubs would each compact and remove what the other one writes.
#[test]
fn a_folder_has_one_hub() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Hub::start(folder.path());
    let (listen, data) = (format!("unix:{}/other.sock", folder.path().display()), folder.path().join("journal"));
    let other = ["hub", "--listen", &listen, "--data", data.to_str().unwrap()];
    let refused = latscope(&other).failure(3);
    assert!(refused.contains("another process uses this folder"), "{refused}");
    hub.kill();
    drop(Hub::start(folder.path()));
}

/// What a hub has is the fold of all events that its agents recorded, bucket for bucket, though it was killed twice.
#[test]
fn a_hub_has_what_its_agents_saw() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut hub = Hub::start(folder.path());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let names = ["n1", "n2", "n3"];
    let disks = ["1ms", "2ms", "5ms"].map(|delay| Disk::new(&["--read", delay, "--write", delay]));
    let traces = names.map(|name| path(&format!("{name}.lat")));
    let agents: Vec<Background> =
        (0..3).map(|at| agent(&hub, &disks[at], names[at], &["--tee", &traces[at]])).collect();
    let loads = loads(&disks);
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(1700));
        hub.kill();
        hub = Hub::start(folder.path());
    }
    loads.into_iter().for_each(|load| drop(load.ended().success()));
    let read = hub.input();
    let summary = || latscope(&["summary", "-r", &read]);
    until("all hosts", || String::from_utf8_lossy(&summary().out).contains("3 of 3 hosts in the last closed"));
    for agent in agents {
        let ended = agent.interrupt();
        assert!(ended.status == Some(0) && !ended.err.contains("not stored"), "{}", ended.err);
    }
    let words = ["-i", "500ms", "--by", "device,kind"];
    let (merged, folded) = (path("hub.frames"), path("folded.frames"));
    let answer = latscope(&[&["convert", "-r", &read, "-w", &merged], &words[..]].concat());
    assert!(answer.err.contains("in the last closed interval"), "{}", answer.err);
    answer.success();
    let files: Vec<&str> = traces.iter().flat_map(|trace| ["-r", trace]).collect();
    latscope(&[&["convert", "-w", &folded], &files[..], &words].concat()).success();
    let (merged, folded) = (histograms(Path::new(&merged)), histograms(Path::new(&folded)));
    let count: u64 = folded.values().map(|histogram| histogram.totals().count).sum();
    assert!(count > 500, "{count} events");
    assert_equal(&merged, &folded);
    // The journal is files of frames, too, with the hosts as a group; the state of alerts may lie beside them.
    let journal: Vec<String> = std::fs::read_dir(path("journal"))
        .unwrap()
        .flatten()
        .map(|file| file.path().to_str().unwrap().to_string())
        .filter(|file| file.ends_with(".frames"))
        .collect();
    let files: Vec<&str> = journal.iter().flat_map(|file| ["-r", file]).collect();
    let summary = latscope(&[&["summary", "--json", "--by", "host"], &files[..]].concat()).success();
    let counts = crate::live::lab::counts(&summary, "host");
    assert_eq!((counts.len(), counts.values().sum::<u64>()), (3, count), "{counts:?}");
    let last = hub.program.interrupt();
    assert_eq!(last.status, Some(0), "{}", last.err);
    assert!(!folder.path().join("hub.sock").exists(), "the socket goes with the hub");
}

/// Bytes are those that fio wrote, whether the kernel counted or every event was seen; in Parquet, too, and unknown beside records of
/// agents that did not send them.
#[test]
fn a_hub_has_the_bytes_that_were_moved() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let hub = Hub::start(folder.path());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (disk, trace) = (Disk::new(&[]), path("n2.lat"));
    let agents = [agent(&hub, &disk, "n1", &["--mode", "histogram"]), agent(&hub, &disk, "n2", &["--tee", &trace])];
    let words = ["--rw=write", "--size=8m", "--ioengine=psync"];
    Background::new(&mut fio_command(&disk, &words)).ended().success();
    let (read, by) = (hub.input(), ["--by", "host,kind"]);
    let summary = |files: &[&str], by: &[&str]| -> Value {
        let files: Vec<&str> = files.iter().flat_map(|file| ["-r", file]).collect();
        let filter = ["kind = write"];
        let out = latscope(&[&["summary", "--json"], &files[..], by, &filter].concat()).out;
        serde_json::from_slice(&out).unwrap_or_default()
    };
    let written = || -> Vec<u64> {
        let groups = summary(&[&read], &by)["groups"].as_array().cloned().unwrap_or_default();
        groups.iter().map(|group| number(group, "count")).collect()
    };
    until("all writes", || written() == [2048, 2048]);
    let (frames, parquet) = (path("hub.frames"), path("hub.parquet"));
    latscope(&["convert", "-r", &read, "-w", &frames, "--by", "host,kind"]).success();
    latscope(&["convert", "-r", &read, "-w", &parquet, "--series", "--by", "host,kind"]).success();
    let bytes = |file: &str, host: Option<&str>| -> u64 {
        let histograms = histograms(Path::new(file));
        let of_host = histograms
            .iter()
            .filter(|((_, labels), _)| labels[1] == "write" && host.is_none_or(|host| labels[0] == host));
        of_host.map(|(_, histogram)| histogram.totals().bytes.unwrap()).sum()
    };
    for host in ["n1", "n2"] {
        assert_eq!((bytes(&frames, Some(host)), bytes(&parquet, Some(host))), (8 << 20, 8 << 20), "{host}");
    }
    let rate = |summary: &Value| summary["total"]["bytes_per_s"].as_f64();
    assert!(rate(&summary(&[&read], &[])).is_some_and(|rate| rate > 0.0));
    for agent in agents {
        assert_eq!(agent.interrupt().status, Some(0));
    }
    // The events themselves say the same.
    let folded = path("folded.frames");
    latscope(&["convert", "-r", &trace, "-w", &folded, "-i", "500ms", "--by", "device,kind"]).success();
    assert_eq!(bytes(&folded, None), 8 << 20);
    // As an agent of before wrote it.
    let old = "testdata/frames/v1.frames";
    let both = summary(&[&folded, old], &["--by", "kind"]);
    assert_eq!((number(&both["total"], "count") > 2048, rate(&both)), (true, None), "{both}");
    assert!(rows(old, &["-i", "100ms", "--by", "device,kind"]) == rows(TRACE, &["-i", "100ms", "--by", "device,kind"]));
}

/// A disk that hangs shows at the hub by the age of its request, before anything completes; and an agent that was killed is missed.
#[test]
fn a_hub_shows_what_hangs_and_who_is_missing() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let hub = Hub::start(folder.path());
    let (disk, other) = (Disk::new(&["--read", "1ms"]), Disk::new(&[]));
    let agents = [agent(&hub, &disk, "n1", &[]), agent(&hub, &other, "n2", &["--mode", "event"])];
    disk.signal("STOP");
    let mut dd = Command::new("dd");
    dd.args([&format!("if={}", disk.path), "of=/dev/null", "bs=4k", "count=1", "iflag=direct", "status=none"]);
    let _reader = Background::new(&mut dd);
    let read = hub.input();
    let summary = || -> Value {
        let summary = latscope(&["summary", "--json", "--by", "device", "-r", &read]);
        serde_json::from_slice(&summary.out).unwrap_or_default()
    };
    let mut ages = Vec::new();
    until("the age", || {
        let summary = summary();
        if summary["total"]["waiting"] == 1 && summary["total"]["count"] == 0 {
            ages.push(number(&summary["total"], "oldest_ns"));
        }
        ages.last().is_some_and(|&age| age > 2_000_000_000)
    });
    assert!(ages.is_sorted(), "{ages:?}");
    let failed = latscope(&["percentiles", "-r", &read, "--fail-if", "oldest > 1s"]);
    assert_eq!(failed.status, Some(1), "{}", failed.err);
    disk.signal("CONT");
    until("its end", || summary()["total"]["waiting"] == 0 && summary()["total"]["count"] == 1);
    let [first, second] = agents;
    signal(second.pid(), "KILL");
    until("the missing host", || hub.program.printed().contains("missing: n2"));
    let noted = latscope(&["summary", "-r", &read]).success();
    assert!(noted.contains("1 of 2 hosts in the last closed interval, missing: n2"), "{noted}");
    // One that comes back is in again; one that says that it ends is not missed.
    let again = agent(&hub, &other, "n2", &[]);
    until("all hosts", || hub.program.printed().contains("all hosts are in"));
    assert_eq!(again.interrupt().status, Some(0));
    assert_eq!(first.interrupt().status, Some(0));
    until("its end", || hub.program.printed().matches(": ended").count() == 2);
}

/// Single hosts can be read for the last minute, the one that is different is first, and a clock that is off is named.
#[test]
fn hosts_are_groups_and_their_clocks_are_compared() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let hub = Hub::start(folder.path());
    let (fast, slow) = (Disk::new(&["--read", "1ms"]), Disk::new(&["--read", "20ms"]));
    let clock = folder.path().join("clock");
    std::fs::write(&clock, "400ms").unwrap();
    // What is typed wins over the file, and a key that is no option is an error.
    let config = folder.path().join("agent.toml");
    let queue = folder.path().join("n1.queue");
    std::fs::write(&config, format!("hub = ['{}']\nname = 'nobody'\nqueue = '{}'\n", hub.address(), queue.display()))
        .unwrap();
    let words = ["agent", "--config", config.to_str().unwrap(), "--name", "n1", "-i", "500ms", &fast.filter()];
    let first = Background::latscope(&words);
    let second = agent(&hub, &slow, "n2", &["--test-clock", clock.to_str().unwrap()]);
    let loads = [&fast, &slow].map(|disk| {
        let words = ["--rw=randread", "--size=8m", "--time_based", "--runtime=4", "--ioengine=psync"];
        Background::new(&mut fio_command(disk, &words))
    });
    loads.into_iter().for_each(|load| drop(load.ended().success()));
    until("the clock", || hub.program.printed().contains("n2: its clock is"));
    assert!(hub.program.printed().contains("ahead of the clock of the hub"), "{}", hub.program.printed());
    let read = hub.input();
    let by_host = || latscope(&["summary", "--json", "--by", "host", "-r", &read]).success();
    until("both hosts", || crate::live::lab::counts(&by_host(), "host").len() == 2);
    let answer = latscope(&["summary", "--by", "host", "--different", "--json", "--over", "10ms", "-r", &read]);
    assert!(answer.err.contains("clocks that are off: n2"), "{}", answer.err);
    let peers: Value = serde_json::from_str(&answer.success()).unwrap();
    let peers = &peers[0]["peers"];
    assert_eq!((&peers[0]["group"]["host"], &peers[1]["group"]["host"]), (&"n2".into(), &"n1".into()), "{peers}");
    assert!(peers[0]["slow_share"].as_f64().unwrap() > 0.5 && peers[0]["share"].as_f64().unwrap() < 0.5, "{peers}");
    for host in [first, second] {
        assert_eq!(host.interrupt().status, Some(0));
    }
    std::fs::write(&config, "hubb = 'x'\n").unwrap();
    let refused = latscope(&["agent", "--config", config.to_str().unwrap()]).failure(2);
    assert!(refused.contains("--hubb") && refused.contains("--hub"), "{refused}");
}

/// The units for systemd give the programs little.
#[test]
fn units_are_confined() {
    if !crate::program::installed("systemd-analyze") {
        skipped!("no systemd-analyze");
        return;
    }
    for name in ["agent", "hub"] {
        let unit = crate::program::root().join(format!("packaging/latscope-{name}.service"));
        let words = ["security", "--offline=yes", "--no-pager", unit.to_str().unwrap()];
        let text = crate::program::end(command("systemd-analyze").args(words), b"").success();
        let exposure = text.split("Overall exposure level").nth(1).and_then(|rest| rest.split(": ").nth(1));
        let exposure: f64 = exposure.and_then(|rest| rest.split(' ').next()).unwrap().parse().unwrap();
        assert!(exposure <= 2.0, "{name}: {exposure}");
    }
    for name in ["agent", "hub"] {
        let config = crate::program::root().join(format!("packaging/{name}.toml"));
        let refused = latscope(&[name, "--config", config.to_str().unwrap(), "--for", "1s"])
            .failure(if name == "hub" { 2 } else { 3 });
        assert!(refused.contains("ca.pem") || refused.contains("key"), "{refused}");
    }
}

#[test]
fn other_machines_are_not_connected_to() {
    for words in [
        &["agent", "--hub", "10.0.0.1:7790"][..],
        &["hub", "--listen", "0.0.0.0:7790"],
        &["summary", "-r", "hub://10.0.0.1:7790"],
    ] {
        let refused = latscope(words).failure(2);
        assert!(refused.contains("which needs TLS"), "{refused}");
    }
    let refused = latscope(&["summary", "-r", "hub+unix:/nonexistent.sock"]).failure(3);
    assert!(refused.contains("No hub answers at unix:/nonexistent.sock"), "{refused}");
    assert!(latscope(&["agent"]).failure(2).contains("--hub ADDRESS, --queue FOLDER"));
}
