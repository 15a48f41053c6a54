//! `record` is killed at any moment.

use super::lab::{Background, Disk, alone, events, fio_command, number, signal};
use crate::program::latscope;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const ROUNDS: u64 = 10;
const AT_ONCE: u64 = 5;
/// A trace loses the last second at most. How late the program gets a CPU to write it is beyond it.
const GUARANTEE: Duration = Duration::from_secs(1);
const SLACK: Duration = Duration::from_secs(2);

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

#[test]
fn the_file_reads_and_lacks_the_last_second_at_most() {
    let Some(_alone) = alone() else { return };
    // A request every few milliseconds, on and on.
    let disk = Disk::new(&["--read", "2ms"]);
    let load = ["--ioengine=psync", "--rw=randread", "--size=64m", "--time_based", "--runtime=600"];
    let load = Background::new(&mut fio_command(&disk, &load));
    let folder = tempfile::tempdir().unwrap();
    let filter = disk.filter();
    let mut lost = Vec::new();
    for round in 0..ROUNDS {
        let trace = |at: u64| folder.path().join(format!("{round}-{at}.lat"));
        let start = |at| Background::latscope(&["record", "-s", "block", "-w", trace(at).to_str().unwrap(), &filter]);
        let records: Vec<Background> = (0..AT_ONCE).map(start).collect();
        for (at, record) in (0..).zip(records) {
            // Moments spread evenly over a second and a half, so that every part of a flush is met.
            std::thread::sleep(Duration::from_millis((round * AT_ONCE + at) * 277 % 400));
            signal(record.pid(), "KILL");
            let killed = now();
            assert_eq!(record.ended().status, None);
            let summary = latscope(&["summary", "-r", trace(at).to_str().unwrap(), "--json"]);
            assert_eq!(summary.status, Some(0), "{}", summary.err);
            let last = events(&trace(at), "time_ns,latency_ns", "");
            let completed = |event| Duration::from_nanos(number(event, "time_ns") + number(event, "latency_ns"));
            match last.iter().map(completed).max() {
                Some(last) => lost.push(killed.saturating_sub(last)),
                // Killed within a second of the start, so that nothing was due yet.
                None => eprintln!("nothing was written yet"),
            }
        }
    }
    drop(load);
    lost.sort_unstable();
    eprintln!("lost at most {:?}, half of them less than {:?}", lost.last(), lost.get(lost.len() / 2));
    assert!(lost.len() as u64 > ROUNDS * AT_ONCE / 2, "{lost:?}");
    assert!(lost.iter().all(|&lost| lost <= GUARANTEE + SLACK), "{lost:?}");
}
