//! The queue of an agent whose hub or whose disk fails: the capture goes on, what is wrong is reported, and in the end nothing is missing.

use crate::cluster::{Histograms, assert_equal, histograms};
use crate::history::{Freezer, Small};
use crate::live::lab::{Background, alone, signal, until};
use crate::program::{LATSCOPE, command, latscope};
use serde_json::Value;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

/// A folder with a hub's socket and journal, and an agent's trace and targets.
struct Bed(tempfile::TempDir);

impl Bed {
    fn new() -> Bed {
        Bed(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_string()
    }

    fn address(&self) -> String {
        format!("unix:{}", self.path("hub.sock"))
    }

    fn hub(&self) -> Background {
        self.hub_at(&self.address(), "data")
    }

    fn hub_at(&self, address: &str, data: &str) -> Background {
        let words = ["hub", "--listen", address, "--data", &self.path(data)];
        let hub = Background::new(command(LATSCOPE).args(words));
        until("the hub", || hub.printed().contains("listening on"));
        hub
    }

    /// An agent that makes requests to so many files, and records them.
    fn agent(&self, files: usize, queue: &Path, more: &[&str]) -> Background {
        let mut agent = command(LATSCOPE);
        agent
            .args(["agent", "--hub", &self.address(), "--name", "n1", "-i", "100ms", "--rate", "10", "--queue"])
            .arg(queue);
        agent.args(["--tee", &self.path("n1.lat")]).args(more);
        for number in 0..files {
            let file = self.path(&format!("file{number}"));
            std::fs::write(&file, [7; 4096]).unwrap();
            agent.args(["--ping", &file]);
        }
        let agent = Background::new(&mut agent);
        until("the requests", || agent.printed().contains("probing"));
        agent
    }

    fn count(&self) -> u64 {
        let summary = latscope(&["summary", "--json", "-r", &format!("hub+{}", self.address())]);
        let summary: Value = serde_json::from_slice(&summary.out).unwrap_or_default();
        summary["total"]["count"].as_u64().unwrap_or(0)
    }

    /// What is in files, by device, path and kind.
    fn folded(&self, read: &[String]) -> Histograms {
        let (folded, files) = (self.path("folded.frames"), read.iter().flat_map(|file| ["-r", file]));
        let words = ["convert", "-f", "-w", &folded, "-i", "100ms", "--by", "device,path,kind"];
        latscope(&words.into_iter().chain(files).collect::<Vec<_>>()).success();
        histograms(Path::new(&folded))
    }

    /// What a hub stored in this folder.
    fn stored(&self, data: &str) -> Histograms {
        let stored = std::fs::read_dir(self.path(data)).unwrap().flatten().map(|file| file.path());
        let is_frames = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "frames");
        let stored: Vec<String> = stored.filter(is_frames).map(|path| path.to_str().unwrap().to_string()).collect();
        self.folded(&stored)
    }

    /// Ends both; what the hub stored is the fold of the requests.
    fn end(self, hub: Background, agent: Background, merges: bool) {
        let ended = agent.interrupt();
        assert!(ended.status == Some(0) && !ended.err.contains("not stored"), "{}", ended.err);
        assert_eq!(hub.interrupt().status, Some(0));
        let (stored, requests) = (self.stored("data"), self.folded(&[self.path("n1.lat")]));
        // A queue that is nearly full merges intervals.
        let (stored, requests) = if merges { (whole(stored), whole(requests)) } else { (stored, requests) };
        assert_equal(&stored, &requests);
    }
}

/// The same over all time.
fn whole(histograms: Histograms) -> Histograms {
    let mut whole = Histograms::new();
    for ((_, labels), histogram) in histograms {
        match whole.entry((0, labels)) {
            Entry::Vacant(vacant) => drop(vacant.insert(histogram)),
            Entry::Occupied(mut sum) => sum.get_mut().merge(&histogram),
        }
    }
    whole
}

fn bytes(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// While the hub is away, the queue of an agent fills; back again, it alerts until it has most of it.
#[test]
fn a_queue_that_fills_is_alerted() {
    let Some(_alone) = alone() else { return };
    let bed = Bed::new();
    let hub = bed.hub();
    let queue = bed.0.path().join("queue");
    let agent = bed.agent(200, &queue, &["--queue-size", "256KiB", "--backfill", "16KiB"]);
    until("the first", || bed.count() > 0);
    signal(hub.pid(), "KILL");
    drop(hub);
    until("the queue is half full", || bytes(&queue) > 150 << 10);
    let hub = bed.hub();
    until("the alert", || hub.printed().contains("latscope: alert: queue filling (host n1): its queue is "));
    until("its end", || hub.printed().contains("latscope: resolved: queue filling (host n1)"));
    bed.end(hub, agent, true);
}

/// An agent sends to two hubs, of which one is killed and comes back: both have all of it.
#[test]
fn two_hubs_end_with_the_same() {
    let Some(_alone) = alone() else { return };
    let bed = Bed::new();
    let other = format!("unix:{}", bed.path("other.sock"));
    let (hub, killed) = (bed.hub(), bed.hub_at(&other, "other"));
    let agent = bed.agent(3, &bed.0.path().join("queue"), &["--hub", &other]);
    until("the first", || bed.count() > 20);
    signal(killed.pid(), "KILL");
    assert_eq!(killed.ended().status, None);
    let before = bed.count();
    until("what comes meanwhile", || bed.count() > before + 60);
    let killed = bed.hub_at(&other, "other");
    until("the agent", || killed.printed().contains("n1: connected"));
    let ended = agent.interrupt();
    assert!(ended.status == Some(0) && !ended.err.contains("not stored"), "{}", ended.err);
    assert_eq!((hub.interrupt().status, killed.interrupt().status), (Some(0), Some(0)));
    let requests = bed.folded(&[bed.path("n1.lat")]);
    assert_equal(&bed.stored("data"), &requests);
    assert_equal(&bed.stored("other"), &requests);
}

/// The disk of the queue hangs while the hub is there: intervals arrive all the same.
#[test]
fn a_queue_that_hangs_costs_nothing() {
    let Some(_alone) = alone() else { return };
    let bed = Bed::new();
    let Some(mut disk) = Freezer::new(bed.0.path(), "queue") else { return };
    let hub = bed.hub();
    let agent = bed.agent(2, &disk.path.clone(), &[]);
    until("the first", || bed.count() > 0);
    disk.freeze(true);
    until("the report", || {
        agent
            .printed()
            .contains("latscope: The queue cannot be written: the disk does not answer. 4 MiB are kept in memory.")
    });
    let before = bed.count();
    until("what comes while it hangs", || bed.count() > before + 40);
    disk.freeze(false);
    until("its end", || agent.printed().contains("latscope: The queue is written again."));
    bed.end(hub, agent, false);
}

/// The disk of the queue is full while the hub is away: what is in memory is sent later.
#[test]
fn a_queue_without_room_stays_in_memory() {
    let Some(_alone) = alone() else { return };
    let bed = Bed::new();
    let Some(disk) = Small::new(bed.0.path(), "queue") else { return };
    disk.fill(16 << 10);
    let agent = bed.agent(20, &disk.0, &[]);
    until("the report", || agent.printed().contains("latscope: The queue cannot be written: "));
    disk.empty();
    until("its end", || agent.printed().contains("latscope: The queue is written again."));
    let hub = bed.hub();
    until("what was in memory", || bed.count() > 200);
    bed.end(hub, agent, false);
}
