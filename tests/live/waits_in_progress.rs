//! Waits that are in progress when a capture starts, while it runs and when somebody looks.

use super::lab::{Background, Disk, alone, events, number};
use super::stacks::{Planted, can_compile};
use crate::program::{command, latscope};
use serde_json::Value;
use std::collections::BTreeMap;

/// A thread waits for one thing at a time: where a wait were handed out before it ended, and again then, the two would overlap.
#[test]
fn the_waits_of_a_thread_do_not_overlap() {
    let Some(_alone) = alone() else { return };
    if !can_compile() {
        return;
    }
    let (slow, fast) = (Disk::new(&["--read", "400ms"]), Disk::new(&["--read", "1ms"]));
    let planted = Planted::start(&slow, &fast, false);
    for source in ["stacks", "stacks,offcpu"] {
        let list = ["events", "-s", source, "--for", "5s", "--json", "--columns", "time_ns,latency_ns,tid,state"];
        let text = latscope(&[&list[..], &[&planted.filter()]].concat()).success();
        let mut waits = BTreeMap::<u64, Vec<(u64, u64)>>::new();
        for line in text.lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            waits
                .entry(number(&event, "tid"))
                .or_default()
                .push((number(&event, "time_ns"), number(&event, "latency_ns")));
        }
        assert!(waits.values().flatten().any(|&(_, latency)| latency > 300_000_000), "{source}: {text}");
        for (tid, waits) in &mut waits {
            waits.sort_unstable();
            for pair in waits.windows(2) {
                let [(start, latency), (next, _)] = [pair[0], pair[1]];
                assert!(start + latency <= next + 1_000_000, "{source}: thread {tid}: {pair:?}");
            }
        }
    }
}

/// A process that sleeps from before the capture until it is ended in it.
#[test]
fn a_wait_that_began_before_the_capture_counts_from_its_start() {
    let Some(_alone) = alone() else { return };
    let mut sleeper = command("sleep").arg("600").spawn().unwrap();
    let filter = format!("proc.pid = {}", sleeper.id());
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    std::thread::sleep(std::time::Duration::from_millis(500));
    let recording = Background::latscope(&["record", "-s", "offcpu", "-w", trace.to_str().unwrap(), &filter]);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let before_ns = wall_ns();
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let ended_ns = wall_ns();
    recording.interrupt().success();
    let waits = events(&trace, "time_ns,latency_ns,state,wait_class", "state = sleep");
    let [wait] = &waits[..] else { panic!("{waits:?}") };
    let end_ns = number(wait, "time_ns") + number(wait, "latency_ns");
    assert!((before_ns..=ended_ns).contains(&end_ns), "{wait} did not end between {before_ns} and {ended_ns}");
    assert!(number(wait, "latency_ns") > 100_000_000, "{wait}");
    assert_eq!(wait["wait_class"], "sleep", "{wait}");
}

fn wall_ns() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64
}
