//! Captures of stacks against a program whose account is exact (`planted.c`): one thread reads a slow disk, one a fast one,
//! one computes.

use super::lab::{Background, Disk, alone, events, number};
use crate::program::{command, end, installed, latscope, root};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

/// The program at work.
pub struct Planted {
    child: Child,
    input: ChildStdin,
    out: BufReader<ChildStdout>,
    _folder: tempfile::TempDir,
}

/// How long its threads waited and computed, nanoseconds, in the order of their names in [`NAMES`].
type Account = [u64; 3];
const NAMES: [&str; 3] = ["archiver", "indexer", "computer"];

/// Compiles a program of this folder, without frame pointers.
pub fn compile(source: &str, folder: &Path) -> PathBuf {
    let program = folder.join(source.trim_end_matches(".c"));
    let mut compiler = command("cc");
    compiler.args(["-O2", "-fomit-frame-pointer", "-pthread", "-o"]).arg(&program);
    end(compiler.arg(root().join("tests/live").join(source)), b"").success();
    program
}

impl Planted {
    pub fn start(slow: &Disk, fast: &Disk, strip: bool) -> Planted {
        let folder = tempfile::tempdir().unwrap();
        let program = compile("planted.c", folder.path());
        if strip {
            end(command("strip").arg(&program), b"").success();
        }
        let mut child = command("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(&program)
            .args([&slow.path, &fast.path])
            .arg("compute")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Planted { input: child.stdin.take().unwrap(), out, child, _folder: folder }
    }

    pub fn filter(&self) -> String {
        format!("proc.pid = {}", self.child.id())
    }

    fn account(&mut self) -> Account {
        writeln!(self.input).unwrap();
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        let numbers: Vec<u64> = line.split_whitespace().map(|number| number.parse().unwrap()).collect();
        numbers.try_into().unwrap()
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a capture of the program recorded, and its account of the same time.
struct Recorded {
    trace: PathBuf,
    account: Account,
    took_ns: u64,
    slow: String,
    _folder: tempfile::TempDir,
}

const COLUMNS: &str =
    "latency_ns,tid,comm,name,device,path,state,in_iowait,wait_class,stack_quality,stack_source,stack,cgroup";

impl Recorded {
    fn new(source: &str, options: &[&str], seconds: u64, strip: bool) -> Recorded {
        let (slow, fast) = (Disk::new(&["--read", "30ms"]), Disk::new(&["--read", "1ms"]));
        let mut planted = Planted::start(&slow, &fast, strip);
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("t.lat");
        let filter = planted.filter();
        let words = ["record", "-s", source, "-w", trace.to_str().unwrap(), "--cpu-budget", "100%", "--hz", "100"];
        let recording = Background::latscope(&[&words[..], options, &[&filter]].concat());
        let (before, start) = (planted.account(), Instant::now());
        std::thread::sleep(Duration::from_secs(seconds));
        let (after, took_ns) = (planted.account(), start.elapsed().as_nanos() as u64);
        recording.interrupt().success();
        let account = std::array::from_fn(|at| after[at] - before[at]);
        Recorded { trace, account, took_ns, slow: slow.name().to_string(), _folder: folder }
    }

    fn events(&self, filter: &str) -> Vec<Value> {
        events(&self.trace, COLUMNS, filter)
    }

    /// What `--fail-if` says of these events.
    fn judged(&self, words: &[&str], limit: &str) -> (Option<i32>, String) {
        let judged =
            latscope(&[&["percentiles", "-r", self.trace.to_str().unwrap(), "--fail-if", limit], words].concat());
        (judged.status, judged.err)
    }
}

pub fn text<'a>(event: &'a Value, key: &str) -> &'a str {
    event[key].as_str().unwrap_or("")
}

/// Time of events by a text of theirs.
pub fn sums(events: &[Value], key: &str) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for event in events {
        *sums.entry(text(event, key).to_string()).or_insert(0) += number(event, "latency_ns");
    }
    sums
}

pub fn top(sums: &BTreeMap<String, u64>) -> &str {
    sums.iter().max_by_key(|(_, sum)| **sum).map_or("", |(name, _)| name)
}

pub fn can_compile() -> bool {
    let can = installed("cc");
    if !can {
        skipped!("no C compiler");
    }
    can
}

/// Whether two shares of one whole are as far apart as `points` hundredths at most.
#[track_caller]
fn assert_share(what: &str, of: u64, all: u64, true_of: u64, true_all: u64, points: f64) {
    let (share, truth) = (of as f64 / all as f64 * 100.0, true_of as f64 / true_all as f64 * 100.0);
    assert!((share - truth).abs() <= points, "{what}: {share:.2} % instead of {truth:.2} %");
}

/// Others use the machine too, and may keep the sampler or the program from running: one of three turns has to be right.
pub fn one_of_three(turn: fn()) {
    if !(0..2).any(|_| std::panic::catch_unwind(turn).is_ok()) {
        turn();
    }
}

#[test]
fn samples_find_the_planted_cause_and_its_share() {
    let Some(_alone) = alone() else { return };
    if can_compile() {
        one_of_three(find_the_planted_cause);
    }
}

fn find_the_planted_cause() {
    let recorded = Recorded::new("stacks", &[], 10, false);
    let slow = recorded.events("lat > 20ms");
    let stacks = sums(&slow, "stack");
    let cause = top(&stacks);
    assert!(cause.contains("archive_scan;"), "{stacks:#?}");
    let of_cause: Vec<&Value> = slow.iter().filter(|event| text(event, "stack") == cause).collect();
    for event in &of_cause {
        assert_eq!((text(event, "comm"), text(event, "device")), ("archiver", recorded.slow.as_str()), "{event}");
        assert_eq!((text(event, "name"), text(event, "state")), ("pread64", "disk sleep"), "{event}");
        assert_eq!((text(event, "wait_class"), text(event, "in_iowait")), ("direct read", "true"), "{event}");
        assert_eq!(text(event, "cgroup"), own_cgroup(), "{event}");
    }
    let all = recorded.events("name = pread64");
    let complete = all.iter().filter(|event| text(event, "stack_quality") == "complete").count();
    assert!(complete * 100 >= all.len() * 99, "{complete} of {} are complete", all.len());
    let waited = sums(&all, "comm");
    let [archiver, indexer, _] = recorded.account;
    let [seen_archiver, seen_indexer] = [0, 1].map(|at| waited.get(NAMES[at]).copied().unwrap_or(0));
    // A wait that had not ended is beside the events; its age is less than 0.1 s of these ten.
    assert_share("archiver", seen_archiver, seen_archiver + seen_indexer, archiver, archiver + indexer, 3.0);
    assert_share("the whole", seen_archiver, recorded.took_ns, archiver, recorded.took_ns, 3.0);
    // Reads of the indexer take 1 ms, and look like 10, which is the interval; of ten one is seen.
    for limit in ["p50 > 5ms", "mean > 2ms", "rate < 500"] {
        let (status, said) = recorded.judged(&["comm = indexer and name = pread64"], limit);
        assert!(status == Some(3) && said.contains("threads were sampled"), "{limit}, {status:?}: {said}");
    }
    let (status, said) = recorded.judged(&["comm = archiver and name = pread64"], "max > 1us");
    assert_eq!(status, Some(1), "{said}");
    let functions: Vec<Value> = all.iter().filter(|event| text(event, "comm") == "indexer").cloned().collect();
    assert!(top(&sums(&functions, "stack")).contains("index_lookup;"), "{:?}", sums(&functions, "stack"));
}

/// As a person finds it in the file: the first that is not the root, or the root.
fn own_cgroup() -> String {
    let text = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let of = |controller: &str| {
        text.lines().find(|line| line.contains(controller)).map(|line| &line[line.find('/').unwrap()..])
    };
    let mut paths: Vec<&str> = text.lines().map(|line| &line[line.find('/').unwrap()..]).collect();
    paths.sort_by_key(|path| std::cmp::Reverse(path.len()));
    let ordered = ["0::/", "blkio", "name=systemd"].into_iter().filter_map(of).chain(paths);
    ordered.into_iter().find(|&path| path != "/").unwrap_or("/").to_string()
}

/// Without symbols a function is its place in its file.
#[test]
fn a_stripped_program_has_places_in_its_file() {
    let Some(_alone) = alone() else { return };
    if !can_compile() {
        return;
    }
    let recorded = Recorded::new("stacks", &[], 2, true);
    let stacks = sums(&recorded.events("comm = archiver"), "stack");
    assert!(top(&stacks).contains("planted+0x"), "{stacks:#?}");
}

#[test]
fn running_and_waiting_add_up_to_the_time_of_each_thread() {
    let Some(_alone) = alone() else { return };
    if can_compile() {
        one_of_three(add_up_running_and_waiting);
    }
}

fn add_up_running_and_waiting() {
    let recorded = Recorded::new("stacks,offcpu=50us,oncpu=199hz", &[], 10, false);
    let all = recorded.events("");
    let [archiver, indexer, computer] = recorded.account;
    for (thread, (name, truth)) in NAMES.iter().zip([archiver, indexer, computer]).enumerate() {
        let own: Vec<Value> = all.iter().filter(|event| text(event, "comm") == *name).cloned().collect();
        let by_state = sums(&own, "state");
        let of = |state: &str| by_state.get(state).copied().unwrap_or(0);
        let whole: u64 = by_state.values().sum();
        assert_share(&format!("{name} as a whole"), whole, recorded.took_ns, 1, 1, 5.0);
        // What it was runnable elsewhere, as on a busy machine, is not in its account of reads.
        let reads = own.iter().filter(|event| text(event, "name") == "pread64" && text(event, "state") != "running");
        let reading = reads.map(|event| number(event, "latency_ns")).sum();
        let seen = if thread < 2 { reading } else { of("running") };
        assert_share(&format!("{name}, {by_state:?}"), seen, recorded.took_ns, truth, recorded.took_ns, 3.0);
    }
    for (state, in_iowait) in [("disk sleep", "true"), ("sleep", "false"), ("running", "")] {
        let other = all.iter().find(|event| text(event, "state") == state && text(event, "in_iowait") != in_iowait);
        assert!(other.is_none(), "{other:?}");
    }
    let (status, said) = recorded.judged(&["-s", "offcpu", "comm = indexer and name = pread64"], "p50 > 500us");
    assert_eq!(status, Some(1), "timed: {said}");
    let waits: Vec<Value> = all.iter().filter(|event| text(event, "name") == "pread64").cloned().collect();
    let named = waits.iter().filter(|event| text(event, "stack_quality") == "complete").count();
    if std::fs::read_to_string("/proc/kallsyms").is_ok_and(|all| all.contains("bpf_task_work_schedule_resume_impl")) {
        assert!(named * 100 >= waits.len() * 99, "{named} of {} waits have a whole stack", waits.len());
    } else {
        skipped!("this kernel has no bpf_task_work (Linux 6.18)");
    }
    let computing: Vec<Value> = all.iter().filter(|event| text(event, "state") == "running").cloned().collect();
    assert!(top(&sums(&computing, "stack")).contains("compute_checksum"), "{:?}", sums(&computing, "stack"));
}

/// Three processes share a CPU, of which one sleeps for a while again and again.
#[test]
fn waiting_for_a_cpu_lasts_as_long_as_the_scheduler_says() {
    if let Some(_alone) = alone() {
        one_of_three(wait_for_a_cpu);
    }
}

/// A program that ends with this one, on these CPUs.
fn on_cpus(cpus: &str, words: &[&str]) -> Background {
    Background::new(command("setpriv").args(["--pdeathsig", "KILL", "taskset", "-c", cpus]).args(words))
}

const SPIN: [&str; 3] = ["sh", "-c", "while :; do :; done"];

/// Nanoseconds of a thread on a CPU, and runnable without one.
fn account(thread: &Background) -> [u64; 2] {
    let text = std::fs::read_to_string(format!("/proc/{}/schedstat", thread.pid())).unwrap();
    let times: Vec<u64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    [times[0], times[1]]
}

fn wait_for_a_cpu() {
    const SLEEPER: &str = "import time\nwhile True:\n  for _ in range(100000): pass\n  time.sleep(0.002)";
    let threads = [on_cpus("0", &SPIN), on_cpus("0", &SPIN), on_cpus("0", &["python3", "-c", SLEEPER])];
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    let filter = threads.each_ref().map(|thread| format!("pid = {}", thread.pid())).join(" or ");
    let recording = Background::latscope(&[
        "record",
        "-s",
        "offcpu=1us",
        "-w",
        trace.to_str().unwrap(),
        "--cpu-budget",
        "100%",
        &filter,
    ]);
    let (before, start) = (threads.each_ref().map(account), Instant::now());
    std::thread::sleep(Duration::from_secs(4));
    let (after, took_ns) = (threads.each_ref().map(account), start.elapsed().as_nanos() as u64);
    recording.interrupt().success();
    for (at, thread) in threads.iter().enumerate() {
        let waits = events(&trace, "time_ns,latency_ns,state", &format!("pid = {}", thread.pid()));
        let by_state = sums(&waits, "state");
        let seen = |state: &str| by_state.get(state).copied().unwrap_or(0);
        let [ran, queued] = [0, 1].map(|part| after[at][part] - before[at][part]);
        assert!(queued * 4 > took_ns, "{at} waited for the CPU for {queued} of {took_ns} ns only");
        // The recording begins before the account, and ends after it.
        let starts = || waits.iter().map(|wait| number(wait, "time_ns"));
        let ends = waits.iter().map(|wait| number(wait, "time_ns") + number(wait, "latency_ns"));
        let span_ns = ends.max().unwrap() - starts().min().unwrap();
        assert_share(&format!("{at} queued, {by_state:?}"), seen("runnable"), span_ns, queued, took_ns, 3.0);
        let slept = took_ns.saturating_sub(ran + queued);
        assert_share(&format!("{at} slept, {by_state:?}"), seen("sleep"), span_ns, slept, took_ns, 3.0);
    }
}

/// The sampler takes a CPU to look, and is not to report what it caused: a thread whose CPU it took, waits that begin as it comes.
#[test]
fn the_sampler_does_not_see_what_it_causes() {
    if let Some(_alone) = alone() {
        one_of_three(sample_where_no_cpu_is_idle);
    }
}

fn sample_where_no_cpu_is_idle() {
    const SLEEPER: &str = "import time\nwhile True:\n  until = time.perf_counter() + 0.001\n  while time.perf_counter() < until: pass\n  time.sleep(0.001)";
    let cpus = std::thread::available_parallelism().unwrap().get();
    let spinners: Vec<Background> = (1..cpus.max(2)).map(|_| on_cpus(&format!("0-{}", cpus - 1), &SPIN)).collect();
    let sleeper = on_cpus(&format!("0-{}", cpus - 1), &["python3", "-c", SLEEPER]);
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    let filter = format!("pid = {} or pid = {}", sleeper.pid(), spinners[0].pid());
    let words = ["record", "-s", "stacks", "--all-threads", "--no-user-stacks", "-w", trace.to_str().unwrap()];
    let recording = Background::latscope(&[&words[..], &["--cpu-budget", "100%", &filter]].concat());
    let times = || (account(&spinners[0]), account(&sleeper), Instant::now());
    let before = times();
    std::thread::sleep(Duration::from_secs(5));
    let after = times();
    recording.interrupt().success();
    let took_ns = (after.2 - before.2).as_nanos() as u64;
    for (who, ran) in [(&spinners[0], after.0[0] - before.0[0]), (&sleeper, after.1[0] - before.1[0])] {
        let by_state = sums(&events(&trace, COLUMNS, &format!("pid = {}", who.pid())), "state");
        let running = by_state.get("running").copied().unwrap_or(0);
        assert_share(&format!("{by_state:?}"), running, by_state.values().sum(), ran, took_ns, 20.0);
    }
}

#[test]
fn names_stay_at_home_where_that_is_asked_for() {
    let Some(_alone) = alone() else { return };
    if !can_compile() {
        return;
    }
    for (option, has_frames) in [("--no-user-stacks", false), ("--hash-names", true)] {
        let recorded = Recorded::new("stacks,offcpu,oncpu", &[option], 2, false);
        let bytes = std::fs::read(&recorded.trace).unwrap();
        let all = recorded.events("");
        assert!(!all.is_empty());
        for event in &all {
            let stack = text(event, "stack");
            assert!(!NAMES_OF_FUNCTIONS.iter().any(|name| stack.contains(name)), "{event}");
            assert!(has_frames || stack.split(';').all(|frame| frame.is_empty() || frame.ends_with("_[k]")), "{event}");
        }
        for name in NAMES_OF_FUNCTIONS {
            assert!(!bytes.windows(name.len()).any(|window| window == name.as_bytes()), "{name} is in the file");
        }
    }
}

const NAMES_OF_FUNCTIONS: [&str; 3] = ["archive_scan", "index_lookup", "compute_checksum"];

/// Processes that come and go, a thousand a second, leave nothing behind.
#[test]
fn processes_that_come_and_go_do_not_add_up() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    let mut forks = command("sh")
        .args(["-c", "while :; do /bin/true & /bin/true & /bin/true & wait; done"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    // Symbols of what else runs here may take any memory.
    let filter = "comm in (sh, true)";
    let words = ["record", "-s", "stacks,offcpu=100us,oncpu", "--all-threads", "-w", trace.to_str().unwrap(), filter];
    let recording = Background::latscope(&words);
    let (mut resident, mut files) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        std::thread::sleep(Duration::from_secs(5));
        resident.push(recording.resident());
        files.push(std::fs::read_dir(format!("/proc/{}/fd", recording.pid())).unwrap().count());
    }
    let _ = forks.kill();
    let _ = forks.wait();
    let ended = recording.interrupt();
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    assert!(resident[3] < resident[0] + (64 << 20), "{resident:?}");
    // A file of a process is open at most while it is read.
    assert!(files[3] < files[0] + 8, "{files:?}");
}
