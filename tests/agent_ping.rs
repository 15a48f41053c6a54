//! An agent that makes requests of its own: a target that hangs is seen and alerted while it hangs, and nothing of the stall is forgotten.

use crate::cluster::{assert_equal, histograms};
use crate::live::lab::{Background, Disk, alone, events, number, until};
use crate::program::{LATSCOPE, command, latscope};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Requests per second, and nanoseconds from one to the next.
const RATE: &str = "20";
const STEP_NS: u64 = 50_000_000;

fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// A hub with the built-in alerts, and its address.
fn hub(folder: &Path) -> (Background, String) {
    let hub = Background::new(command(LATSCOPE).args(["hub", "--listen", "127.0.0.1:0", "--data"]).arg(folder));
    until("the hub", || hub.printed().contains("listening on"));
    let address = hub.printed().split("listening on ").nth(1).unwrap().trim().to_string();
    (hub, address)
}

#[test]
fn a_probe_is_a_source_with_alerts() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let disk = Disk::new(&["--read", "1ms"]);
    let (hub, address) = hub(&folder.path().join("data"));
    let (trace, other) = (path("n1.lat"), path("other"));
    std::fs::create_dir(&other).unwrap();
    let words = ["agent", "--hub", &address, "--name", "n1", "--rate", RATE, "--direct", "--tee", &trace];
    let agent =
        Background::new(command(LATSCOPE).args(words).args(["-i", "500ms", "--ping", &disk.path, "--ping", &other]));
    let read = format!("hub://{address}");
    let of_disk = || -> Value {
        let filter = format!("path = {}", disk.path);
        let summary = latscope(&["summary", "--json", "-r", &read, "--by", "path", &filter]);
        serde_json::from_slice(&summary.out).unwrap_or_default()
    };
    until("its requests", || of_disk()["total"]["count"].as_u64().is_some_and(|count| count > 20));
    disk.signal("STOP");
    let stopped_ns = unix_ns();
    let mut ages = Vec::new();
    until("the age", || {
        ages.extend(of_disk()["total"]["oldest_ns"].as_u64());
        ages.last().is_some_and(|&age| age > 2_000_000_000)
    });
    until("the alert", || hub.printed().contains("latscope: alert: stall (host n1, device "));
    let alerts: Vec<String> =
        hub.printed().lines().filter(|line| line.contains("alert: ")).map(str::to_string).collect();
    let line = format!("latscope: alert: stall (host n1, device {}): oldest = 5", disk.name());
    assert!(
        alerts.len() == 1 && alerts[0].starts_with(&line),
        "only what hangs is alerted, and while it hangs: {alerts:?}"
    );
    // More than may be in flight at once.
    std::thread::sleep(Duration::from_nanos((stopped_ns + 70 * STEP_NS).saturating_sub(unix_ns())));
    let resumed_ns = unix_ns();
    disk.signal("CONT");
    until("its end", || hub.printed().contains("latscope: resolved: stall (host n1, device "));
    until("what waited", || of_disk()["total"]["waiting"] == 0);
    assert_eq!(agent.interrupt().status, Some(0));
    // Every request that was due is there once, and took at least until the disk went on.
    let of_disk = format!("path = {}", disk.path);
    let requests = events(Path::new(&trace), "time,latency,intended", &of_disk);
    let due_ns: Vec<u64> = requests.iter().map(|event| number(event, "intended_ns")).collect();
    let mut sorted = due_ns.clone();
    sorted.sort_unstable();
    assert!(sorted.windows(2).all(|pair| (pair[1] - pair[0]).abs_diff(STEP_NS) <= 1), "{sorted:?}");
    let hung: Vec<&Value> =
        requests.iter().filter(|event| (stopped_ns..resumed_ns).contains(&number(event, "intended_ns"))).collect();
    assert_eq!(
        (hung.len() as u64).abs_diff((resumed_ns - stopped_ns) / STEP_NS),
        u64::from(hung.len() as u64 != (resumed_ns - stopped_ns) / STEP_NS)
    );
    assert!(hung.iter().all(|event| number(event, "time_ns") + number(event, "latency_ns") >= resumed_ns), "{hung:?}");
    assert!(
        hung.iter().all(|event| number(event, "time_ns").abs_diff(number(event, "intended_ns")) < STEP_NS),
        "{hung:?}"
    );
    // The hub has the fold of all of them.
    let words = ["-i", "500ms", "--by", "device,path,kind"];
    let (merged, folded) = (path("hub.frames"), path("folded.frames"));
    latscope(&[&["convert", "-r", &read, "-w", &merged], &words[..]].concat()).success();
    latscope(&[&["convert", "-r", &trace, "-w", &folded], &words[..]].concat()).success();
    let (merged, folded) = (histograms(Path::new(&merged)), histograms(Path::new(&folded)));
    assert!(folded.values().map(|histogram| histogram.totals().count).sum::<u64>() > 200);
    assert_equal(&merged, &folded);
    assert!(std::fs::read_dir(other).unwrap().next().is_none(), "nothing stays in a directory");
    assert_eq!(hub.interrupt().status, Some(0));
}

/// It needs no right at all, and SIGHUP does not end it.
#[test]
fn a_probe_works_as_nobody() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (hub, address) = hub(&folder.path().join("data"));
    let target = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(target.path(), Some(65534), None).unwrap();
    let mut agent = command("setpriv");
    agent.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", "--bounding-set=-all"]);
    agent.args([LATSCOPE, "agent", "--hub", &address, "--rate", "50", "--write", "--size", "8k", "--ping"]);
    let agent = Background::new(agent.arg(target.path()));
    until("its connection", || {
        let printed = agent.printed();
        if printed.contains("ermission denied") {
            skipped!("nobody may not run the program where it is");
            return true;
        }
        printed.contains("connected") && printed.contains("50 durable writes of 8KiB per second")
    });
    if agent.printed().contains("ermission denied") {
        return;
    }
    crate::live::lab::signal(agent.pid(), "HUP");
    let read = format!("hub://{address}");
    let summary = || latscope(&["summary", "--json", "-r", &read, "kind = write"]);
    let count = || serde_json::from_slice(&summary().out).unwrap_or(Value::Null)["total"]["count"].as_u64();
    until("its requests", || count().is_some_and(|count| count > 100));
    assert_eq!(agent.interrupt().status, Some(0));
    assert_eq!(hub.interrupt().status, Some(0));
}

#[test]
fn what_does_not_go_together_is_refused() {
    for (words, expected) in [
        (&["--ping", ".", "-s", "io"][..], "cannot be used with"),
        (&["--rate", "5"], "--ping <TARGET>"),
        (&["--ping", ".", "--rate", "0"], "--ping: --rate must be above zero."),
        (&["--ping", ".", "--rate", "often"], "--ping: "),
        (&["--ping", LATSCOPE, "--write"], "must be a directory."),
    ] {
        let refused = latscope(&[&["agent", "--hub", "127.0.0.1:1"], words].concat()).failure(2);
        assert!(refused.contains(expected), "{refused}");
    }
}
