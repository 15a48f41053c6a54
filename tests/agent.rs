//! An agent beside what it sends: its rights, and whether it would work.

use crate::cluster::Hub;
use crate::live::lab::{Background, Disk, alone, fio_command, until};
use crate::program::{LATSCOPE, command, end, latscope};
use serde_json::Value;
use std::process::Command;

/// The values of a line of the status of all threads.
fn of_threads(pid: u32, name: &str) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let status = tasks.map(|task| std::fs::read_to_string(task.path().join("status")).unwrap_or_default());
    let value =
        |status: String| status.lines().find_map(|line| line.strip_prefix(name)).map(|rest| rest.trim().to_string());
    status.filter_map(value).collect()
}

fn has_no_rights(pid: u32) -> bool {
    let none = |name| of_threads(pid, name).iter().all(|set| set == "0000000000000000");
    ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:"].into_iter().all(none)
        && of_threads(pid, "NoNewPrivs:").iter().all(|value| value == "1")
}

/// Events and requests that wait at a hub.
fn totals(hub: &Hub) -> (u64, u64) {
    let summary = latscope(&["summary", "--json", "-r", &hub.input()]);
    let summary: Value = serde_json::from_slice(&summary.out).unwrap_or_default();
    let total = |key: &str| summary["total"][key].as_u64().unwrap_or(0);
    (total("count"), total("waiting"))
}

/// Once everything is attached, no thread has any capability, and the capture goes on: it counts, and it finds what waits.
#[test]
fn an_agent_gives_up_its_rights_and_goes_on() {
    let Some(_alone) = alone() else { return };
    for (source, mode) in [("block", "auto"), ("block", "event"), ("io", "auto")] {
        let folder = tempfile::tempdir().unwrap();
        let hub = Hub::start(folder.path());
        let disk = Disk::new(&["--read", "1ms"]);
        let queue = folder.path().join("queue");
        let filter = if source == "block" { disk.filter() } else { "comm = fio or comm = dd".to_string() };
        let (address, queue) = (hub.address(), queue.to_str().unwrap());
        let by = if source == "block" { "device" } else { "comm" };
        let words = [
            "agent", "--hub", &address, "--queue", queue, "-s", source, "--mode", mode, "--by", by, "-i", "500ms",
            &filter,
        ];
        let agent = Background::latscope(&words);
        until("giving up its rights", || has_no_rights(agent.pid()));
        assert!(of_threads(agent.pid(), "CapEff:").len() > 3, "it has threads");
        let (before, _) = totals(&hub);
        // Twice what is asked for: a sandbox hides a completion from time to time (docs/reference/live.md, "What is lost").
        let load = ["--rw=randread", "--size=8m", "--io_size=2m", "--ioengine=psync"];
        Background::new(&mut fio_command(&disk, &load)).ended().success();
        until("its events", || totals(&hub).0 >= before + 256);
        disk.signal("STOP");
        let mut dd = Command::new("dd");
        dd.args([&format!("if={}", disk.path), "of=/dev/null", "bs=4k", "count=1", "iflag=direct", "status=none"]);
        let _reader = Background::new(&mut dd);
        until("what waits", || totals(&hub).1 > 0);
        disk.signal("CONT");
        assert!(has_no_rights(agent.pid()));
        let ended = agent.interrupt();
        assert!(ended.status == Some(0) && !ended.err.contains("cannot be given up"), "{}", ended.err);
    }
}

/// A program with two capabilities and no other right.
fn confined(words: &[&str]) -> Option<Command> {
    let mut setpriv = command("setpriv");
    let capabilities = "-all,+bpf,+perfmon";
    setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]);
    setpriv.args(["--inh-caps", capabilities, "--ambient-caps", capabilities, "--bounding-set", capabilities]);
    setpriv.arg(LATSCOPE).args(words);
    let mut tried = command("setpriv");
    tried.args(["--reuid=65534", "--clear-groups", LATSCOPE, "--version"]);
    if end(&mut tried, b"").status != Some(0) {
        skipped!("no setpriv, or nobody may not run the program where it is");
        return None;
    }
    Some(setpriv)
}

/// The unit for systemd gives an agent CAP_BPF and CAP_PERFMON and another user: that is enough.
#[test]
fn an_agent_works_as_nobody_with_two_capabilities() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--read", "1ms"]);
    let hub = Background::new(command(LATSCOPE).args(["hub", "--listen", "127.0.0.1:0"]));
    until("the hub", || hub.printed().contains("listening on"));
    let address = hub.printed().split("listening on ").nth(1).unwrap().trim().to_string();
    let filter = disk.filter();
    let Some(mut agent) = confined(&["agent", "--hub", &address, &filter]) else { return };
    let agent = Background::new(&mut agent);
    until("its rights", || agent.printed().contains("connected") && has_no_rights(agent.pid()));
    let load = ["--rw=randread", "--size=8m", "--io_size=2m", "--ioengine=psync"];
    Background::new(&mut fio_command(&disk, &load)).ended().success();
    let read = format!("hub://{address}");
    let count = || -> u64 {
        let summary = latscope(&["summary", "--json", "-r", &read]);
        let summary: Value = serde_json::from_slice(&summary.out).unwrap_or_default();
        summary["total"]["count"].as_u64().unwrap_or(0)
    };
    until("its events", || count() >= 256);
    let ended = agent.interrupt();
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    assert_eq!(hub.interrupt().status, Some(0));
}

#[test]
fn a_check_names_what_would_fail() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let hub = Hub::start(folder.path());
    let (address, queue) = (hub.address(), folder.path().join("queue"));
    let queue = queue.to_str().unwrap();
    let checked = latscope(&["agent", "--check", "--hub", &address, "--queue", queue, "--name", "n1"]);
    let text = checked.success();
    for line in ["files: ok: ", "capture: ok: ", &format!("hub {address}: ok: "), "queue "] {
        assert!(text.lines().any(|found| found.starts_with(line)), "{line}: {text}");
    }
    assert!(text.contains("its clock is ") && text.lines().count() == 4, "{text}");
    // It left nothing behind that counts.
    assert_eq!(totals(&hub), (0, 0));
    assert!(std::fs::read_dir(queue).unwrap().next().is_none());
    let checked = latscope(&["agent", "--check", "--hub", "unix:/nonexistent.sock", "--hub", &address]);
    let text = String::from_utf8_lossy(&checked.out).into_owned();
    assert!(
        text.contains("hub unix:/nonexistent.sock: failed: ") && text.contains(&format!("hub {address}: ok: ")),
        "{text}"
    );
    assert!(checked.failure(3).contains("1 of 4 checks failed."));
    let Some(mut nobody) = confined(&["agent", "--check", "--hub", "127.0.0.1:1"]) else { return };
    nobody.args(["--source", "io"]);
    let checked = end(&mut nobody, b"");
    let text = String::from_utf8_lossy(&checked.out).into_owned();
    assert!(text.contains("capture: ok: ") && text.contains("hub 127.0.0.1:1: failed: "), "{text}{}", checked.err);
    let mut nobody = command("setpriv");
    nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"]);
    let checked = end(nobody.args([LATSCOPE, "agent", "--check", "--hub", "127.0.0.1:1"]), b"");
    let text = String::from_utf8_lossy(&checked.out).into_owned();
    assert!(text.contains("capture: failed: "), "{text}{}", checked.err);
    assert!(checked.failure(3).contains("2 of 3 checks failed."));
}
