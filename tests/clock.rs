//! What is counted while somebody sets the wall clock.

use crate::cluster::Hub;
use crate::live::lab::{Background, Disk, alone, counts, fio_command, number, until};
use crate::program::{LATSCOPE, command, installed, latscope};
use std::path::Path;
use std::time::Duration;

/// Moves the wall clock of one program by as many nanoseconds as a file has.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
static volatile long long *moved;
static int (*real)(clockid_t, struct timespec *);
__attribute__((constructor)) static void load(void) {
    real = dlsym(RTLD_NEXT, "clock_gettime");
    moved = mmap(0, 8, PROT_READ, MAP_SHARED, open(getenv("CLOCK_MOVED"), O_RDONLY), 0);
}
int clock_gettime(clockid_t clock, struct timespec *time) {
    if (!real) load();
    int result = real(clock, time);
    if (clock == CLOCK_REALTIME && moved) {
        long long ns = time->tv_sec * 1000000000LL + time->tv_nsec + *moved;
        time->tv_sec = ns / 1000000000LL;
        time->tv_nsec = ns % 1000000000LL;
    }
    return result;
}
"#;

/// A wall clock that programs can be started with.
struct MovedClock {
    library: String,
    file: String,
}

impl MovedClock {
    /// `None` without a compiler.
    fn new(folder: &Path) -> Option<MovedClock> {
        if !installed("cc") {
            skipped!("no cc");
            return None;
        }
        let path = |name: &str| folder.join(name).to_str().unwrap().to_string();
        let (source, library, file) = (path("moved.c"), path("moved.so"), path("moved"));
        std::fs::write(&source, SHIM).unwrap();
        let built = command("cc").args(["-shared", "-fPIC", "-O1", "-o", &library, &source, "-ldl"]).status().unwrap();
        assert!(built.success());
        std::fs::write(&file, 0i64.to_ne_bytes()).unwrap();
        Some(MovedClock { library, file })
    }

    fn start(&self, words: &[&str]) -> Background {
        let mut program = command(LATSCOPE);
        Background::new(program.args(words).env("LD_PRELOAD", &self.library).env("CLOCK_MOVED", &self.file))
    }

    fn move_by(&self, seconds: i64) {
        use std::os::unix::fs::FileExt;
        let file = std::fs::OpenOptions::new().write(true).open(&self.file).unwrap();
        file.write_all_at(&(seconds * 1_000_000_000).to_ne_bytes(), 0).unwrap();
    }
}

/// Agents go on with each interval when their wall clock is set back, and again when it is put right; no event is lost or counted
/// twice.
#[test]
fn agents_go_on_when_the_wall_clock_is_set_back() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some(clock) = MovedClock::new(folder.path()) else { return };
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (listen, read) = (format!("unix:{}", path("hub")), format!("hub+unix:{}", path("hub")));
    let words = ["hub", "--listen", &listen, "--data", &path("journal")];
    let hub = Background::new(command(LATSCOPE).args(words));
    until("the hub", || hub.printed().contains("listening on"));
    let disks = [Disk::new(&["--read", "2ms"]), Disk::new(&["--read", "2ms"])];
    let agents: Vec<Background> = [("n1", "histogram", &disks[0]), ("n2", "event", &disks[1])]
        .map(|(name, mode, disk)| {
            let words = ["agent", "--hub", &listen, "--name", name, "-s", "block", "-i", "500ms", "--mode", mode];
            clock.start(&[&words[..], &[&disk.filter()]].concat())
        })
        .into();
    until("both agents", || hub.printed().matches(": connected").count() == 2);
    let words = ["--rw=randread", "--size=8m", "--time_based", "--runtime=45", "--ioengine=psync", "--thinktime=5ms"];
    let loads: Vec<Background> = disks.iter().map(|disk| Background::new(&mut fio_command(disk, &words))).collect();
    let by_device = || latscope(&["summary", "--json", "--by", "device", "-r", &read]);
    let by_device =
        || by_device().status.filter(|&status| status == 0).map(|_| counts(&by_device().success(), "device"));
    let goes_on = |what: &str| {
        let before = by_device().unwrap_or_default();
        until(what, || {
            let now = by_device().unwrap_or_default();
            now.len() == 2 && now.iter().all(|(device, &count)| count > before.get(device).copied().unwrap_or(0))
        });
    };
    goes_on("events");
    for moved in [-60, -20] {
        clock.move_by(moved);
        until("the step", || agents.iter().all(|agent| agent.printed().contains("the wall clock was set")));
        (0..3).for_each(|_| goes_on("events after the step"));
    }
    // All that as long as nothing had to wait for the old time to come again.
    assert!(loads.iter().all(|load| Path::new(&format!("/proc/{}", load.pid())).exists()), "the load has not ended");
    loads.into_iter().for_each(|load| drop(load.interrupt()));
    std::thread::sleep(Duration::from_millis(600));
    let printed: Vec<String> = agents.iter().map(Background::printed).collect();
    assert!(printed.iter().all(|printed| printed.contains("set back by") && printed.contains("set forward by")));
    for agent in agents {
        assert_eq!(agent.interrupt().status, Some(0));
    }
    let summary = latscope(&["summary", "--json", "--by", "device", "-r", &read]);
    let total: u64 = counts(&summary.success(), "device").values().sum();
    assert!(total > 500, "{total} events");
    assert_eq!(hub.interrupt().status, Some(0));
}

/// A host whose clock is an hour off is watched as any other: its disk that hangs fires an alert while it hangs, a view shows it at once,
/// and the host is there.
#[test]
fn a_host_with_a_wrong_clock_is_watched() {
    let Some(_alone) = alone() else { return };
    for moved in ["1h", "-1h", "20s"] {
        let folder = tempfile::tempdir().unwrap();
        let clock = folder.path().join("clock");
        std::fs::write(&clock, moved).unwrap();
        let (hub, disk) = (Hub::start(folder.path()), Disk::new(&["--read", "1ms"]));
        let (address, read) = (hub.address(), hub.input());
        let words = ["agent", "--hub", &address, "--name", "n1", "-s", "block", "-i", "500ms", "--test-clock"];
        let agent = Background::latscope(&[&words[..], &[clock.to_str().unwrap(), &disk.filter()]].concat());
        until("the clock", || hub.printed().contains("n1: its clock is"));
        disk.signal("STOP");
        let mut dd = command("dd");
        dd.args([&format!("if={}", disk.path), "of=/dev/null", "bs=4k", "count=1", "iflag=direct", "status=none"]);
        let _reader = Background::new(&mut dd);
        until("the alert", || hub.printed().contains("alert: stall"));
        let failed = latscope(&["percentiles", "-r", &read, "--fail-if", "oldest > 4s"]);
        assert_eq!(failed.status, Some(1), "{moved}: {}", failed.err);
        let noted = || latscope(&["summary", "-r", &read]).success();
        let text = noted();
        assert!(text.contains("1 of 1 host in the last closed interval"), "{moved}: {text}");
        assert!(text.contains("clocks that are off: n1"), "{moved}: {text}");
        let shown = latscope(&["summary", "--json", "--by", "device", "-r", &read]).success();
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert!(number(&shown["total"], "oldest_ns") > 4_000_000_000, "{moved}: {shown}");
        disk.signal("CONT");
        until("its end", || hub.printed().contains("resolved: stall"));
        // A clock that is put right is no longer noted.
        std::fs::write(&clock, "0s").unwrap();
        until("the right clock", || hub.printed().contains("n1: its clock agrees"));
        let text = noted();
        assert!(!text.contains("clocks that are off"), "{moved}: {text}");
        assert_eq!(agent.interrupt().status, Some(0));
        assert_eq!(hub.interrupt().status, Some(0));
    }
}

/// A hub whose clock is an hour ahead and put right goes on with its alerts at once, before and after; and when all agents are gone, that
/// shows.
#[test]
fn a_hub_goes_on_when_its_clock_is_put_right() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some(clock) = MovedClock::new(folder.path()) else { return };
    clock.move_by(3600);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (listen, read) = (format!("unix:{}", path("hub")), format!("hub+unix:{}", path("hub")));
    let hub = clock.start(&["hub", "--listen", &listen, "--data", &path("journal")]);
    until("the hub", || hub.printed().contains("listening on"));
    let disk = Disk::new(&["--read", "1ms"]);
    let agent = Background::latscope(&["agent", "--hub", &listen, "--name", "n1", "-i", "500ms", &disk.filter()]);
    until("the clock", || hub.printed().contains("n1: its clock is"));
    let hang = || {
        disk.signal("STOP");
        let mut dd = command("dd");
        dd.args([&format!("if={}", disk.path), "of=/dev/null", "bs=4k", "count=1", "iflag=direct", "status=none"]);
        Background::new(&mut dd)
    };
    let seen = |what: &str, count: usize| until(what, || hub.printed().matches(what).count() == count);
    let reader = hang();
    seen("alert: stall", 1);
    clock.move_by(0);
    seen("the wall clock of the hub was set back by", 1);
    // It still hangs, and is one alert.
    std::thread::sleep(Duration::from_secs(2));
    disk.signal("CONT");
    seen("resolved: stall", 1);
    drop(reader);
    let reader = hang();
    seen("alert: stall", 2);
    disk.signal("CONT");
    seen("resolved: stall", 2);
    drop(reader);
    let text = latscope(&["summary", "-r", &read]).success();
    assert!(text.contains("1 of 1 host in the last closed interval"), "{text}");
    assert!(text.contains("only the journal has them"), "{text}");
    assert!(!hub.printed().contains("missing: n1"), "{}", hub.printed());
    crate::live::lab::signal(agent.pid(), "KILL");
    seen("missing: n1", 1);
    let text = latscope(&["summary", "-r", &read]).success();
    assert!(text.contains("0 of 1 host in the last closed interval, missing: n1"), "{text}");
    assert_eq!(hub.interrupt().status, Some(0));
}
