//! Tags that programs write to a socket while a capture runs, against what the test itself wrote and when.

use super::lab::{Background, Disk, alone, events, fio_command, number, until};
use super::stacks::one_of_three;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
}

#[test]
fn two_writers_tag_their_processes_by_a_socket() {
    let Some(_alone) = alone() else { return };
    one_of_three(tag_two_processes);
}

/// Reads of a disk so far.
fn reads(disk: &Disk) -> u64 {
    let text = std::fs::read_to_string(format!("/sys/block/{}/stat", disk.name())).unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

fn tag_two_processes() {
    let disks = [Disk::new(&["--read", "4ms"]), Disk::new(&["--read", "4ms"])];
    let folder = tempfile::tempdir().unwrap();
    let (socket, trace) = (folder.path().join("tags"), folder.path().join("t.lat"));
    let (path, to) = (socket.to_str().unwrap(), trace.to_str().unwrap());
    let recording = Background::latscope(&["record", "-s", "block", "-w", to, "--tag-socket", path, "kind = read"]);
    let mut writers = [path, path].map(|path| UnixStream::connect(path).unwrap());
    let read =
        |disk| Background::new(&mut fio_command(disk, &["--rw=randread", "--thread", "--time_based", "--runtime=60"]));
    let loads = [read(&disks[0]), read(&disks[1])];
    // In pieces, with lines between that say nothing.
    let mut moments = Vec::new();
    for stage in 1..=3 {
        let at = now_ns();
        moments.push(at);
        for (number, (writer, load)) in writers.iter_mut().zip(&loads).enumerate() {
            let line = format!("pid:{} {at} stage={stage} job=j{number}\nnonsense\n", load.pid());
            line.as_bytes().chunks(7).for_each(|piece| writer.write_all(piece).unwrap());
        }
        let before = disks.each_ref().map(reads);
        std::thread::sleep(Duration::from_millis(1200));
        until("reads", || disks.iter().zip(before).all(|(disk, before)| reads(disk) > before + 200));
    }
    drop(writers);
    loads.iter().for_each(|load| load.signal("TERM"));
    let recorded = recording.interrupt();
    assert!(recorded.err.contains("12 lines of tags came by the socket; 6 of them were malformed"), "{}", recorded.err);
    assert!(recorded.err.contains("nonsense: nonsense is not a number"), "{}", recorded.err);
    until("the end of the socket", || !socket.exists());
    for (job, load) in loads.iter().enumerate() {
        let filter = format!("proc.pid = {}", load.pid());
        let events = events(&trace, "time_ns,latency_ns,tags", &filter);
        let mut of_stages = [0; 4];
        for event in &events {
            let (start, latency) = (number(event, "time_ns") as i64, number(event, "latency_ns") as i64);
            // The stage of most of the time; near the change, the line may have come after the event.
            let middle = start + latency / 2;
            let stage = moments.iter().filter(|&&at| at <= middle).count();
            let is_at_a_change = moments.iter().any(|&at| (at - middle).abs() < 500_000_000);
            let tags = event["tags"].as_str().unwrap_or_default();
            assert!(is_at_a_change || tags == format!("stage={stage};job=j{job}"), "{event} of stage {stage}");
            of_stages[stage] += 1;
        }
        assert!(of_stages[1..].iter().all(|&count| count > 100), "{of_stages:?}");
    }
}
