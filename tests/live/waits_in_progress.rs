//! Waits that are in progress when a capture starts, while it runs and when somebody looks.

use super::lab::{Background, Disk, alone, events, number};
use super::stacks::{Planted, can_compile};
use crate::program::{command, latscope};
use serde_json::Value;
use std::collections::BTreeMap;

/// A thread waits for one thing at a time: where a wait were handed out before it ended, and again then, the two would overlap.
/// A sampled one is right within an interval between looks.
#[test]
fn the_waits_of_a_thread_do_not_overlap() {
    let Some(_alone) = alone() else { return };
    if !can_compile() {
        return;
    }
    let (slow, fast) = (Disk::new(&["--read", "400ms"]), Disk::new(&["--read", "1ms"]));
    let planted = Planted::start(&slow, &fast, false);
    let filter = format!("{} and kind = wait and lat > 300ms", planted.filter());
    for source in ["stacks", "stacks,offcpu"] {
        let list =
            ["events", "-s", source, "--for", "6s", "--json", "--columns", "time_ns,latency_ns,tid,stack_source"];
        let text = latscope(&[&list[..], &[&filter]].concat()).success();
        let mut waits = BTreeMap::<u64, Vec<Value>>::new();
        for line in text.lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            waits.entry(number(&event, "tid")).or_default().push(event);
        }
        assert!(waits.values().any(|waits| waits.len() > 3), "{source}: {text}");
        for waits in waits.values_mut() {
            waits.sort_unstable_by_key(|event| number(event, "time_ns"));
            for pair in waits.windows(2) {
                let [start, next] = [0, 1].map(|at| number(&pair[at], "time_ns"));
                let end = start + number(&pair[0], "latency_ns");
                assert!(end <= next + 200_000_000, "{source}: {pair:#?}");
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
