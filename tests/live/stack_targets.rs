//! What the sampler does when what it looks at hangs, dies, is large, or is elsewhere.

use super::lab::{Background, Disk, alone, events, number, until};
use super::stacks::{Planted, can_compile, compile, sums, text, top};
use crate::program::{command, end, installed, latscope, root};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// A disk that does not answer; it goes on when this is dropped, as nobody could end the program that waits for it before.
struct Stopped<'a>(&'a Disk);

impl Stopped<'_> {
    fn new(disk: &Disk) -> Stopped<'_> {
        disk.signal("STOP");
        Stopped(disk)
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.signal("CONT");
    }
}

#[test]
fn a_thread_that_never_returns_is_shown_while_it_hangs() {
    let Some(_alone) = alone() else { return };
    if !can_compile() {
        return;
    }
    let (slow, fast) = (Disk::new(&["--read", "1ms"]), Disk::new(&["--read", "1ms"]));
    let planted = Planted::start(&slow, &fast, false);
    let folder = tempfile::tempdir().unwrap();
    for source in ["stacks", "offcpu"] {
        let trace = folder.path().join(format!("{source}.lat"));
        let trace = trace.to_str().unwrap();
        let words = ["record", "-s", source, "-w", trace, &planted.filter()];
        let recording = Background::latscope(&words);
        let view = Background::latscope(&["summary", "-s", source, &planted.filter()]);
        let stopped = Stopped::new(&slow);
        let is_line =
            |line: &str| line.contains("waiting for ") && line.contains("pread64") && line.contains("archiver");
        until("a line about what waits", || view.printed().lines().any(is_line));
        let (ended, shown) = (recording.interrupt(), view.interrupt().success());
        drop(stopped);
        assert_eq!(ended.status, Some(0), "{}", ended.err);
        assert!(shown.contains("longest without a completion: pread64"), "{shown}");
        assert!(ended.err.contains("pread64") && ended.err.contains("direct read"), "{}", ended.err);
        let summary = latscope(&["summary", "-r", trace]).success();
        assert!(summary.contains("longest without a completion: pread64"), "{summary}");
    }
}

fn sampled(trace: &Path, options: &[&str]) -> Background {
    let words = ["record", "-s", "stacks", "--hz", "50", "--cpu-budget", "100%", "-w", trace.to_str().unwrap()];
    Background::latscope(&[&words[..], options].concat())
}

const COLUMNS: &str = "latency_ns,pid,tid,comm,device,stack_quality,stack";

/// What was seen of a process stays, and a process that follows it is not taken for it.
#[test]
fn a_process_that_is_killed_leaves_its_stacks() {
    let Some(_alone) = alone() else { return };
    if !can_compile() {
        return;
    }
    let (slow, fast) = (Disk::new(&["--read", "20ms"]), Disk::new(&["--read", "20ms"]));
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    let recording = sampled(&trace, &["process = planted"]);
    let mut pids = Vec::new();
    for _ in 0..3 {
        let planted = Planted::start(&slow, &fast, false);
        std::thread::sleep(Duration::from_secs(1));
        pids.push(planted.filter().rsplit(' ').next().unwrap().parse::<u64>().unwrap());
        drop(planted); // by SIGKILL
    }
    let ended = recording.interrupt();
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    for pid in pids {
        let own = events(&trace, COLUMNS, &format!("pid = {pid} and comm = archiver"));
        assert!(own.len() > 5, "{pid} has {}: {}", own.len(), ended.err);
        assert!(top(&sums(&own, "stack")).contains("archive_scan;"), "{own:#?}");
        assert!(own.iter().all(|event| !text(event, "stack").contains("index_lookup")));
    }
}

/// All of many threads are seen, each with its own wait.
#[test]
fn five_hundred_threads_are_told_apart() {
    let Some(_alone) = alone() else { return };
    if !installed("python3") {
        return skipped!("no python3");
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    let code = "import threading, time\nfor _ in range(500): threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()\ntime.sleep(3600)";
    let threads = Background::new(command("setpriv").args(["--pdeathsig", "KILL", "python3", "-c", code]));
    let all = || std::fs::read_dir(format!("/proc/{}/task", threads.pid())).map_or(0, Iterator::count);
    until("the threads", || all() == 501);
    let recording = sampled(&trace, &["--all-threads", &format!("pid = {}", threads.pid())]);
    std::thread::sleep(Duration::from_secs(5));
    let ended = recording.interrupt();
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    let json = latscope(&["stacks", "-r", trace.to_str().unwrap(), "--by", "tid", "--json"]).success();
    let table: Value = serde_json::from_str(&json).unwrap();
    // None of them has ended.
    assert_eq!((number(&table, "events"), number(&table, "waiting")), (501, 501), "{}", ended.err);
    let stacks = table["stacks"].as_array().unwrap();
    let mut tids: Vec<&str> = stacks.iter().map(|stack| text(&stack["group"], "tid")).collect();
    tids.sort_unstable();
    tids.dedup();
    assert_eq!(tids.len(), 501, "{}", ended.err);
    // One look copies some 256 user stacks; the others have theirs from a later one.
    let is_whole =
        |stack: &&Value| text(stack, "stack").split(';').next().is_some_and(|outer| !outer.ends_with("_[k]"));
    let whole = stacks.iter().filter(is_whole).count();
    assert!(whole * 100 >= 501 * 95, "{whole}: {}", ended.err);
}

/// A thread that hangs on a lock is seen while it hangs, and counts as a lower bound; that it sleeps is no stall.
#[test]
fn a_lock_that_is_never_given_is_seen_while_it_lasts() {
    let Some(_alone) = alone() else { return };
    let code = "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()";
    let hangs = Background::new(command("setpriv").args(["--pdeathsig", "KILL", "python3", "-c", code]));
    let kernel = format!("/proc/{}/wchan", hangs.pid());
    until("the lock", || std::fs::read_to_string(&kernel).is_ok_and(|function| function.contains("futex")));
    let filter = format!("pid = {}", hangs.pid());
    let folder = tempfile::tempdir().unwrap();
    for source in [&["stacks", "--all-threads"][..], &["offcpu"]] {
        let trace = folder.path().join(format!("{}.lat", source[0]));
        let trace = trace.to_str().unwrap();
        let recording = Background::latscope(&[&["record", "-w", trace, "-s"], source, &[&filter]].concat());
        let view = Background::latscope(&[&["stacks", "-i", "500ms", "-s"], source, &[&filter]].concat());
        let is_shown = |line: &str| line.contains(">=") && line.contains("futex");
        until("the thread in the table", || view.out_so_far().lines().any(is_shown));
        let (ended, shown) = (recording.interrupt(), view.interrupt());
        assert_eq!((ended.status, shown.status), (Some(0), Some(0)), "{} {}", ended.err, shown.err);
        let note = "1 wait for something other than storage (a timer, a lock, a message, a CPU) has not ended";
        for printed in [&ended.err, &shown.success(), &latscope(&["summary", "-r", trace]).success()] {
            assert!(printed.contains(note) && !printed.contains("longest without"), "{printed}");
        }
        let json = latscope(&["stacks", "-r", trace, "--json", "lat > 300ms"]).success();
        let table: Value = serde_json::from_str(&json).unwrap();
        assert_eq!((number(&table, "events"), number(&table, "waiting")), (1, 1), "{json}");
    }
}

/// A wait that ended in the capture but had begun before it counts from the start of the capture, as a lower bound.
#[test]
fn a_wait_from_before_the_capture_decides_no_limit_that_it_may_exceed() {
    let Some(_alone) = alone() else { return };
    const CODE: &str = "import time\ntime.sleep(7)\nwhile True: time.sleep(0.05)";
    let folder = tempfile::tempdir().unwrap();
    for (source, more) in [("offcpu=1ms", None), ("stacks", Some("--all-threads")), ("stacks,offcpu=1ms", None)] {
        let sleeps = Background::new(command("setpriv").args(["--pdeathsig", "KILL", "python3", "-c", CODE]));
        let kernel = format!("/proc/{}/wchan", sleeps.pid());
        until("the sleep", || std::fs::read_to_string(&kernel).is_ok_and(|function| function.contains("nanosleep")));
        std::thread::sleep(Duration::from_secs(1));
        let trace = folder.path().join("t.lat");
        let trace = trace.to_str().unwrap();
        let filter = format!("pid = {}", sleeps.pid());
        let words = [&["record", "-f", "-w", trace, "-s", source][..], more.as_slice(), &[&*filter]].concat();
        let recording = Background::latscope(&words);
        std::thread::sleep(Duration::from_secs(7));
        recording.interrupt().success();
        let ended = |more: &[&str]| latscope(&[&["percentiles", "-r", trace, "lat > 2s"], more].concat());
        let all = ended(&[]);
        assert!(all.err.contains("1 wait had begun before the capture"), "{source}: {}", all.err);
        for limit in ["max > 6900ms", "p50 > 6900ms"] {
            let judged = ended(&["--fail-if", limit]).failure(3);
            assert!(judged.contains("had begun before the capture"), "{source}: {judged}");
        }
        ended(&["--fail-if", "max > 1s"]).failure(1);
    }
}

/// 400 threads that wait 60 ms at a time, and as many that wait a second: each half of the time waited.
const CROWD: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#define WAITS(name, us) \
	__attribute__((noinline)) void name(void) { usleep(us); __asm__ volatile(""); } \
	void *name##_again(void *about) { for (;;) name(); return about; }
WAITS(waits_short, 60000)
WAITS(waits_long, 1000000)
int main(void)
{
	pthread_attr_t small;
	pthread_t thread;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	for (int at = 0; at < 800; at++)
		if (pthread_create(&thread, &small, at < 400 ? waits_long_again : waits_short_again, 0))
			return 1;
	puts("ready");
	fflush(stdout);
	return getchar();
}
"#;

/// More threads wait at a time than a look can unwind: code whose waits are long has no larger share than its own.
#[test]
fn a_crowd_of_threads_has_the_shares_of_all() {
    let Some(_alone) = alone() else { return };
    if can_compile() {
        super::stacks::one_of_three(share_out_a_crowd);
    }
}

fn share_out_a_crowd() {
    let folder = tempfile::tempdir().unwrap();
    let (program, trace) = (folder.path().join("crowd"), folder.path().join("t.lat"));
    let mut compiler = command("cc");
    compiler.args(["-O2", "-fomit-frame-pointer", "-pthread", "-x", "c", "-", "-o"]).arg(&program);
    end(&mut compiler, CROWD.as_bytes()).success();
    let mut crowd = command("setpriv")
        .args(["--pdeathsig", "KILL"])
        .arg(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(crowd.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let words = ["record", "-s", "stacks", "--all-threads", "--hz", "10", "--cpu-budget", "100%", "-w"];
    let filter = format!("pid = {}", crowd.id());
    let recording = Background::latscope(&[&words[..], &[trace.to_str().unwrap(), &filter]].concat());
    std::thread::sleep(Duration::from_secs(15));
    let ended = recording.interrupt();
    let _ = (crowd.kill(), crowd.wait());
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    assert!(ended.err.contains("that chance drew"), "{}", ended.err);
    let json = latscope(&["stacks", "-r", trace.to_str().unwrap(), "--json"]).success();
    let table: Value = serde_json::from_str(&json).unwrap();
    let mut time = [0, 0];
    for stack in table["stacks"].as_array().unwrap() {
        for (at, function) in ["waits_short;", "waits_long;"].iter().enumerate() {
            time[at] += if text(stack, "stack").contains(function) { number(stack, "time_ns") } else { 0 };
        }
    }
    let of_all = |time: u64| time as f64 / number(&table, "time_ns") as f64;
    let [short, long] = time.map(of_all);
    assert!((short - long).abs() < 0.03 && short + long > 0.9, "{short} and {long}: {}", ended.err);
}

/// The files of a process are those of its mount namespace.
#[test]
fn a_program_in_another_mount_namespace_has_names() {
    let Some(_alone) = alone() else { return };
    if !can_compile() || !installed("unshare") {
        return;
    }
    let disk = Disk::new(&["--read", "20ms"]);
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    let program = compile("planted.c", folder.path());
    // A tmpfs that only the new namespace has, with all that the program needs.
    let script = "set -e; new=$1; mkdir -p $new; mount -t tmpfs none $new; mkdir $new/bin $new/dev; cp $2 $new/bin/elsewhere; \
         for file in $(ldd $2 | grep -o '/[^ ]*'); do mkdir -p $new$(dirname $file); cp $file $new$file; done; \
         cp -a $3 $new/dev/disk; exec chroot $new /bin/elsewhere /dev/disk /dev/disk";
    let new = folder.path().join("new root");
    let new = new.to_str().unwrap().replace(' ', "_");
    let mut child = command("setpriv")
        .args(["--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"])
        .args([new.as_str(), program.to_str().unwrap(), &disk.path])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let inside = || std::fs::read_link(format!("/proc/{}/exe", child.id())).is_ok_and(|exe| exe.ends_with("elsewhere"));
    until("the program", inside);
    end(command("rm").arg(&program), b"").success();
    let recording = sampled(&trace, &[&format!("pid = {}", child.id())]);
    std::thread::sleep(Duration::from_secs(3));
    let ended = recording.interrupt();
    let _ = (child.kill(), child.wait());
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    let own: Vec<Value> = events(&trace, COLUMNS, "comm = archiver");
    assert!(top(&sums(&own, "stack")).contains("archive_scan;"), "{} {own:#?}", ended.err);
}

/// A JVM is asked for the names of its code, and stacks have them from then on.
#[test]
fn compiled_methods_of_java_get_their_names() {
    let Some(_alone) = alone() else { return };
    if !installed("javac") {
        return skipped!("no JDK");
    }
    let classes = tempfile::tempdir().unwrap();
    let source = root().join("crates/unwind/tests/programs/Planted.java");
    end(command("javac").arg("-d").arg(classes.path()).arg(source), b"").success();
    let mut java = command("setpriv")
        .args(["--pdeathsig", "KILL", "java", "-XX:+PreserveFramePointer", "-XX:+UseSerialGC", "-cp"])
        .arg(classes.path())
        .arg("Planted")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(java.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("ready"), "{line}");
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    let filter = format!("proc.pid = {}", java.id());
    let recording = sampled(&trace, &["--all-threads", "--jvm-maps", &filter]);
    let mut input = java.stdin.take().unwrap();
    for _ in 0..100 {
        // Each byte ends a wait, so that the next one is looked at anew.
        input.write_all(b"1").unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    let recorded = recording.interrupt();
    let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", java.id()));
    java.kill().unwrap();
    java.wait().unwrap();
    assert_eq!(recorded.status, Some(0), "{}", recorded.err);
    assert!(recorded.err.contains("JVMs were asked for the names of their code: 1 of 1"), "{}", recorded.err);
    let waits = events(&trace, "latency_ns,stack", "name = read");
    let named = waits.iter().filter(|wait| text(wait, "stack").contains("Planted.archiveScan(")).count();
    assert!(named * 2 > waits.len(), "{named} of {}: {:?}", waits.len(), waits.last());
}
