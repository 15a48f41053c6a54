//! Whose stacks they are: filters on containers, which the programs in the kernel test, and numbers of processes that are given
//! to others.

use super::lab::{Background, Disk, alone, events, number};
use super::stacks::{can_compile, text};
use crate::program::{command, end, installed, root};
use latscope_capture_file::{ReadOptions, read};
use latscope_event::FieldSet;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Compiles `reader.c` with a function of this name, at the same address whatever it is called.
fn reader(folder: &Path, function: &str) -> PathBuf {
    let program = folder.join(function);
    let mut compiler = command("cc");
    compiler.args(["-O2", "-no-pie", "-o"]).arg(&program).arg(format!("-DREADER={function}"));
    end(compiler.arg(root().join("tests/live/reader.c")), b"").success();
    program
}

fn recording(trace: &Path, filter: &str) -> Background {
    let trace = trace.to_str().unwrap();
    Background::latscope(&["record", "-s", "stacks,offcpu=1ms", "--cpu-budget", "100%", "-w", trace, filter])
}

/// A control group that is named like that of a container.
struct Container(PathBuf);

impl Container {
    const ID: &'static str = "5eed00c0ffee";

    fn new() -> Option<Container> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mount = |kind: &str, ending: &str| {
            let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
            let found = mounts.find(|words| words[2] == kind && words[1].ends_with(ending))?;
            Some(PathBuf::from(found[1]))
        };
        let mount = mount("cgroup2", "").or_else(|| mount("cgroup", "/blkio"))?;
        let group = mount.join(format!("docker-{}{:052x}.scope", Container::ID, std::process::id()));
        std::fs::create_dir(&group).ok()?;
        Some(Container(group))
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// How many of the looks and waits of a capture the kernel left out.
fn left_out(trace: &Path) -> u64 {
    let context = read(trace, &ReadOptions::new(FieldSet::ALWAYS), &mut |_, _| ControlFlow::Continue(())).unwrap();
    context.properties["stacks.left_out"].parse().unwrap()
}

/// By thread, waits for reads; with the container.
fn waits(trace: &Path, filter: &str) -> BTreeMap<(u64, String), usize> {
    let mut waits = BTreeMap::new();
    for event in events(trace, "latency_ns,tid,container,stack", &format!("name = pread64 and ({filter})")) {
        assert!(text(&event, "stack").contains("_read_iter"), "{event}");
        *waits.entry((number(&event, "tid"), text(&event, "container").to_string())).or_insert(0) += 1;
    }
    waits
}

#[test]
fn filters_on_containers_find_the_same_in_the_kernel_as_afterwards() {
    let Some(_alone) = alone() else { return };
    if !can_compile() {
        return;
    }
    let disks = [(); 2].map(|()| Disk::new(&["--read", "20ms"]));
    let folder = tempfile::tempdir().unwrap();
    let program = reader(folder.path(), "contained");
    let filters = [
        "comm = contained",
        "comm = contained and container.id = 5eed00c0ffee",
        "comm = contained and not container.id = 5eed00c0ffee",
        "comm = contained and container.name exists",
        "comm = contained and not cgroup contains docker-5eed00c0",
    ];
    let traces = filters.map(|filter| folder.path().join(format!("{}.lat", filter.len())));
    let recordings: Vec<Background> =
        traces.iter().zip(filters).map(|(trace, filter)| recording(trace, filter)).collect();
    // The group is made while the captures run.
    let Some(container) = Container::new() else { return skipped!("no control groups") };
    let inside = "echo $$ > $0/cgroup.procs; exec $1 $2 50";
    let inside =
        Background::new(command("sh").args(["-c", inside]).arg(&container.0).arg(&program).arg(&disks[0].path));
    let outside = Background::new(command(&program).args([&disks[1].path, "50"]));
    let pids = [inside.pid(), outside.pid()].map(u64::from);
    assert_eq!([inside.ended().status, outside.ended().status], [Some(0); 2]);
    recordings.into_iter().for_each(|recording| drop(recording.interrupt().success()));
    let all = waits(&traces[0], "state = \"disk sleep\"");
    // A thread that gets the CPU late may find its block there, and does not wait.
    let both = [(pids[0], Container::ID.to_string()), (pids[1], String::new())];
    assert!(all.keys().eq(&both) && all.values().all(|&count| (30..=50).contains(&count)), "{all:?}");
    assert_eq!(left_out(&traces[0]), 0);
    for (trace, filter) in traces.iter().zip(filters).skip(1) {
        let found = waits(trace, "state = \"disk sleep\"");
        assert_eq!(found, waits(&traces[0], &format!("state = \"disk sleep\" and {filter}")), "{filter}");
        assert!(left_out(trace) > 20, "{filter}: {}", left_out(trace));
    }
    assert!(waits(&traces[1], "state = \"disk sleep\"").keys().eq(&both[..1]));
}

/// Both have their functions at the same addresses.
#[test]
fn a_process_with_the_number_of_another_has_its_own_names() {
    let Some(_alone) = alone() else { return };
    if !can_compile() || !installed("setpriv") {
        return;
    }
    let disk = Disk::new(&["--read", "20ms"]);
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["scans_accounts", "merges_segments"].map(|function| reader(folder.path(), function));
    let trace = folder.path().join("t.lat");
    let recording = recording(&trace, "comm in (scans_accounts, merges_segments)");
    let ran = end(command(&first).args([&first, &second]).args([&disk.path, "40"]), b"");
    let ended = recording.interrupt();
    if ran.status == Some(77) {
        return skipped!("the kernel gives no process the number of another");
    }
    let pid: u64 = ran.success().trim().parse().unwrap();
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    let own = events(&trace, "latency_ns,pid,comm,stack,stack_quality", &format!("pid = {pid} and name = pread64"));
    for (name, other) in [("scans_accounts", "merges_segments"), ("merges_segments", "scans_accounts")] {
        let of_one: Vec<&Value> = own.iter().filter(|event| text(event, "comm") == name).collect();
        assert!(of_one.len() >= 40, "{name}: {} of {}", of_one.len(), own.len());
        let stacks = of_one.iter().filter(|event| text(event, "stack_quality") == "complete");
        let mut complete = 0;
        for event in stacks {
            complete += 1;
            assert!(text(event, "stack").contains(name) && !text(event, "stack").contains(other), "{event}");
        }
        assert!(complete * 2 > of_one.len(), "{name}: {complete} of {} are complete", of_one.len());
    }
}

#[test]
fn waits_of_processes_with_the_same_number_are_waits_of_their_own() {
    let Some(_alone) = alone() else { return };
    if !installed("python3") {
        return skipped!("python3 is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    let words = ["record", "-s", "stacks", "--all-threads", "--hz", "40", "--cpu-budget", "100%", "-w"];
    let recording =
        Background::latscope(&[&words[..], &[trace.to_str().unwrap(), "comm in (reuse-a, reuse-b)"]].concat());
    let ran = end(command("python3").arg(root().join("tests/live/reuse.py")), b"").success();
    let ended = recording.interrupt();
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    let same: usize = ran.trim().parse().unwrap();
    if same < 20 {
        return skipped!("the kernel gives a process the number of another only {same} times");
    }
    let own = events(&trace, "pid,comm", "pid = 30000 and state = sleep");
    for comm in ["reuse-a", "reuse-b"] {
        let waits = own.iter().filter(|event| text(event, "comm") == comm).count();
        assert!((same / 2 - 3..=same / 2 + 2).contains(&waits), "{comm}: {waits} waits of {same} processes");
    }
}

/// Names are read for a while before a capture starts: what happened meanwhile is no part of it.
#[test]
fn no_event_is_from_before_the_capture() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    let words = ["record", "-s", "offcpu=100us,oncpu", "--for", "1s", "-w", trace.to_str().unwrap()];
    crate::program::latscope(&words).success();
    let mut ends = Vec::new();
    let context = read(&trace, &ReadOptions::new(FieldSet::ALWAYS), &mut |_, batch| {
        ends.extend((0..batch.len()).map(|row| batch.time()[row].saturating_add_unsigned(batch.latency()[row])));
        ControlFlow::Continue(())
    });
    // The file begins a moment after the capture.
    let (start_ns, _) = context.unwrap().span_ns.unwrap();
    let early = ends.iter().filter(|&&end_ns| end_ns < start_ns - 500_000_000).count();
    assert!(!ends.is_empty() && early == 0, "{early} of {}", ends.len());
}

/// Switches to a thread are missed now and then in virtual machines; the wait counts all the same.
#[test]
fn no_wait_of_processes_that_live_for_it_alone_is_missing() {
    let Some(_alone) = alone() else { return };
    if !installed("python3") {
        return skipped!("python3 is not installed");
    }
    const CHILDREN: usize = 1500;
    const CODE: &str = "import os, sys, time
open('/proc/self/comm', 'w').write('brief')
for child in range(int(sys.argv[1])):
    if os.fork() == 0:
        time.sleep(0.005)
        os._exit(0)
    if child % 10 == 9:
        for _ in range(10): os.wait()
print(os.getpid())";
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    let recording =
        Background::latscope(&["record", "-f", "-s", "offcpu=1ms", "-w", trace.to_str().unwrap(), "comm = brief"]);
    let parent = end(command("python3").args(["-c", CODE, &CHILDREN.to_string()]), b"").success();
    let ended = recording.interrupt();
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    let waits = events(&trace, "latency_ns,pid", &format!("pid != {}", parent.trim()));
    let mut away = BTreeMap::<u64, u64>::new();
    waits.iter().for_each(|wait| *away.entry(number(wait, "pid")).or_insert(0) += number(wait, "latency_ns"));
    assert_eq!(away.len(), CHILDREN, "{}", ended.err);
    // A preempted thread may be away in pieces, one of which is too short to be an event.
    let short: Vec<_> = away.iter().filter(|(_, ns)| **ns < 3_000_000).collect();
    assert!(short.is_empty(), "{short:?}");
}
