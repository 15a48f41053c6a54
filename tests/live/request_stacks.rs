//! Stacks of the issuers of block requests, against programs whose waits are known.

use super::lab::{Background, Disk, alone, events, number};
use super::stacks::{Planted, can_compile, compile, sums, text, top};
use crate::program::{command, latscope};
use serde_json::Value;
use std::path::{Path, PathBuf};

const COLUMNS: &str = "latency_ns,tid,pid,comm,device,kind,wait_class,stack_quality,stack_source,stack";

/// Records block requests with stacks for two seconds.
fn record(stacks: &str, filter: &str, trace: &Path) -> String {
    let words = ["record", "-s", "block", "--stacks", stacks, "-w", trace.to_str().unwrap(), filter];
    let recording = Background::latscope(&words);
    std::thread::sleep(std::time::Duration::from_secs(3));
    let ended = recording.interrupt();
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    ended.err
}

fn has_returns() -> bool {
    std::fs::read_to_string("/proc/kallsyms").is_ok_and(|all| all.contains("bpf_task_work_schedule_resume_impl"))
}

/// A thread that waits for its own request is found where it waits; faster requests are there to compare with.
#[test]
fn slow_requests_have_the_stack_of_the_thread_that_waits() {
    let Some(_alone) = alone() else { return };
    if !can_compile() {
        return;
    }
    let (slow, fast) = (Disk::new(&["--read", "30ms"]), Disk::new(&["--read", "1ms"]));
    let planted = Planted::start(&slow, &fast, false);
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    let err = record("slow=20ms", &planted.filter(), &trace);
    // On a busy machine, the fast disk is sometimes slow, too.
    let all = events(&trace, COLUMNS, &slow.filter());
    assert!(all.len() > 20, "{err}");
    let still = |event: &&Value| text(event, "stack_quality") != "issuer moved on";
    let stacked: Vec<&Value> = all.iter().filter(still).collect();
    // On a busy machine, a thread is sometimes put off its CPU twice.
    assert!(stacked.len() * 10 >= all.len() * 9, "{} of {}: {err}", stacked.len(), all.len());
    for event in &stacked {
        assert_eq!((text(event, "comm"), text(event, "device")), ("archiver", slow.name()), "{event}");
        assert_eq!((text(event, "stack_source"), text(event, "wait_class")), ("completion", "direct read"), "{event}");
        if has_returns() {
            assert!(text(event, "stack").contains("archive_scan;"), "{event}");
            assert_eq!(text(event, "stack_quality"), "complete", "{event}");
        }
        assert!(!text(event, "stack").contains("index_lookup"), "{event}");
    }
    let baseline = events(&trace, COLUMNS, &format!("{} and stack exists", fast.filter()));
    assert!(!baseline.is_empty(), "{err}");
    for event in &baseline {
        assert_eq!((text(event, "comm"), text(event, "device")), ("indexer", fast.name()), "{event}");
        assert!(!has_returns() || text(event, "stack").contains("index_lookup;"), "{event}");
    }
    let notes = latscope(&["summary", "-r", trace.to_str().unwrap()]);
    let notes = notes.success();
    assert!(notes.contains(" the stack of the thread that waited"), "{notes}");
    let table = latscope(&["stacks", "-r", trace.to_str().unwrap(), "lat > 20ms"]).success();
    assert!(!has_returns() || table.contains("archive_scan"), "{table}");
}

/// The kernel makes one request of the flushes of several threads and issues it from a thread of its own: their code waits for it.
#[test]
fn flushes_have_the_stack_of_a_thread_that_waits_for_them() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--sync", "30ms"]);
    let folder = tempfile::tempdir().unwrap();
    let trace = |name: &str| folder.path().join(format!("{name}.lat"));
    let (slow, all) = (trace("slow"), trace("all"));
    let record = |stacks: &str, trace: &Path| {
        let words = ["record", "-s", "block", "--stacks", stacks, "-w", trace.to_str().unwrap(), &disk.filter()];
        Background::latscope(&words)
    };
    let recordings = [record("slow=10ms", &slow), record("all", &all)];
    let fio = ["--rw=randwrite", "--ioengine=psync", "--fdatasync=1", "--size=1m", "--io_size=160k"];
    crate::program::end(&mut super::lab::fio_command(&disk, &fio), b"").success();
    // One that hangs.
    let hung = trace("hung").display().to_string();
    let words = ["record", "-s", "block", "--stacks", "slow=100ms", "-w", &hung, &disk.filter()];
    let hanging = Background::latscope(&words);
    disk.signal("STOP");
    let mut sync = command("setpriv");
    sync.args(["--pdeathsig", "KILL", "dd", "if=/dev/zero", "count=0", "conv=fsync,notrunc", "status=none"]);
    let _sync = Background::new(sync.arg(format!("of={}", disk.path)));
    std::thread::sleep(std::time::Duration::from_secs(1));
    let hanging = hanging.interrupt();
    let ended = recordings.map(|recording| recording.interrupt());
    disk.signal("CONT");
    assert!(
        hanging.status == Some(0) && ended.iter().all(|ended| ended.status == Some(0)),
        "{} {}",
        hanging.err,
        ended[0].err
    );
    let flushes = events(&slow, COLUMNS, "kind = flush and lat > 10ms");
    assert!(flushes.len() > 20, "{}", ended[0].err);
    let stacked: Vec<&Value> =
        flushes.iter().filter(|flush| text(flush, "stack").contains("blkdev_issue_flush")).collect();
    assert!(stacked.len() * 10 >= flushes.len() * 9, "{} of {}: {}", stacked.len(), flushes.len(), ended[0].err);
    for flush in &stacked {
        assert_eq!((text(flush, "comm"), text(flush, "wait_class")), ("fio", "device flush"), "{flush}");
        assert_eq!(text(flush, "stack_source"), "completion", "{flush}");
    }
    let flushes = events(&all, COLUMNS, "kind = flush and comm = fio");
    assert!(flushes.len() > 20 && flushes.iter().all(|flush| text(flush, "stack_source") == "issue"), "{flushes:#?}");
    let table = latscope(&["stacks", "-r", &hung, "--json", "kind = flush"]).success();
    assert!(table.contains("blkdev_issue_flush") && table.contains("\"waiting\":1"), "{table}");
}

/// What an asynchronous issuer does when its request completes says nothing of the request.
#[test]
fn a_thread_that_went_on_is_not_taken_for_one_that_waits() {
    let Some(_alone) = alone() else { return };
    if !can_compile() {
        return;
    }
    let (ahead, elsewhere) = (Disk::new(&["--read", "20ms"]), Disk::new(&["--read", "40ms"]));
    let folder = tempfile::tempdir().unwrap();
    let program = compile("asynchronous.c", folder.path());
    let mut running = command("setpriv");
    running.args(["--pdeathsig", "KILL"]).arg(&program).args([&ahead.path, &elsewhere.path]);
    let submitter = Background::new(&mut running);
    let filter = format!("proc.pid = {}", submitter.pid());
    let trace = |name: &str| -> PathBuf { folder.path().join(name) };
    let err = record("slow=10ms", &filter, &trace("slow.lat"));
    let handed_in = events(&trace("slow.lat"), COLUMNS, &ahead.filter());
    assert!(handed_in.len() > 20, "{err}");
    for event in &handed_in {
        assert_eq!((text(event, "stack_quality"), text(event, "stack")), ("issuer moved on", ""), "{event}");
    }
    assert!(err.contains("the issuer had moved on"), "{err}");
    let waited_for = events(&trace("slow.lat"), COLUMNS, &elsewhere.filter());
    let stacks = sums(&waited_for, "stack");
    assert!(!has_returns() || top(&stacks).contains("wait_elsewhere;"), "{stacks:#?}");
    // Stacks of issues tell who handed a request in.
    let err = record("slow=10ms,all", &filter, &trace("all.lat"));
    let handed_in = events(&trace("all.lat"), COLUMNS, &ahead.filter());
    let issued: Vec<&Value> = handed_in.iter().filter(|event| text(event, "stack_source") == "issue").collect();
    assert!(issued.len() * 10 >= handed_in.len() * 9, "{err} {handed_in:#?}");
    for event in issued {
        assert!(text(event, "stack").contains("submit_ahead;"), "{event}");
        assert!(!text(event, "stack").contains("wait_elsewhere"), "{event}");
        assert_eq!((text(event, "comm"), text(event, "wait_class")), ("submitter", ""), "{event}");
    }
    assert!(number(&waited_for[0], "latency_ns") > 30_000_000);
}

/// Writeback is issued by threads of the kernel, whose stacks of the issue say so.
#[test]
fn stacks_of_issues_are_sampled() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--write", "1ms"]);
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    let words = ["record", "-s", "block", "--stacks", "1/4", "-w", trace.to_str().unwrap(), &disk.filter()];
    let recording = Background::latscope(&words);
    let mut dd = command("dd");
    dd.args(["if=/dev/zero", "bs=4k", "count=400", "oflag=direct", "status=none"]).arg(format!("of={}", disk.path));
    crate::program::end(&mut dd, b"").success();
    recording.interrupt().success();
    let all = events(&trace, COLUMNS, "kind = write");
    let stacked = all.iter().filter(|event| text(event, "stack_source") == "issue").count();
    assert_eq!(all.len(), 400);
    // 100 are expected; five times the standard deviation is 43.
    assert!(stacked.abs_diff(100) < 43, "{stacked} of 400");
}

/// Requests, and the waits that threads are seen in, have the same clock: each request lies in a wait of its thread.
#[test]
fn requests_and_waits_of_one_run_have_one_clock() {
    let Some(_alone) = alone() else { return };
    if !can_compile() {
        return;
    }
    let (slow, fast) = (Disk::new(&["--read", "100ms"]), Disk::new(&["--read", "1ms"]));
    let planted = Planted::start(&slow, &fast, false);
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    let words = ["record", "-s", "block,stacks", "--hz", "100", "--cpu-budget", "100%", "-w", trace.to_str().unwrap()];
    let recording = Background::latscope(&[&words[..], &[&planted.filter()]].concat());
    std::thread::sleep(std::time::Duration::from_secs(4));
    let ended = recording.interrupt();
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    let columns = "time_ns,latency_ns,tid,comm,device,kind,state,stack";
    let requests = events(&trace, columns, "kind = read and comm = archiver");
    let waits = events(&trace, columns, "kind = wait and state = 'disk sleep' and comm = archiver");
    assert!(requests.len() > 15 && waits.len() > 15, "{} and {}: {}", requests.len(), waits.len(), ended.err);
    let start = |event: &Value| event["time_ns"].as_i64().unwrap();
    let holds = |wait: &Value, moment: i64| (0..=number(wait, "latency_ns") as i64).contains(&(moment - start(wait)));
    let lies_in_one = |request: &&Value| {
        let middle = start(request) + number(request, "latency_ns") as i64 / 2;
        waits.iter().any(|wait| wait["tid"] == request["tid"] && holds(wait, middle))
    };
    let inside = requests.iter().filter(lies_in_one).count();
    assert!(inside * 10 >= requests.len() * 8, "{inside} of {}", requests.len());
    assert!(
        waits.iter().all(|wait| text(wait, "stack").contains("archive_scan") && text(wait, "device") == slow.name())
    );
    assert!(requests.iter().all(|request| text(request, "stack").is_empty() && text(request, "state").is_empty()));
    assert!(ended.err.contains("threads were sampled"), "{}", ended.err);
}

/// A request that hangs until the end of the recording has a stack: that of its issue, or where its thread waits.
#[test]
fn what_hangs_has_a_stack() {
    let Some(_alone) = alone() else { return };
    if !can_compile() {
        return;
    }
    let (slow, fast) = (Disk::new(&["--read", "10ms"]), Disk::new(&["--read", "1ms"]));
    let _planted = Planted::start(&slow, &fast, false);
    let folder = tempfile::tempdir().unwrap();
    let trace = |name: &str| folder.path().join(format!("{name}.lat")).display().to_string();
    let record = |name: &str, stacks: &str, filter: &str| {
        Background::latscope(&["record", "-s", "block", "--stacks", stacks, "-w", &trace(name), filter])
    };
    let (of_slow, of_both) = (slow.filter(), format!("{} or {}", slow.filter(), fast.filter()));
    let recordings = [record("issue", "all", &of_slow), record("waiting", "slow=300ms", &of_slow)];
    std::thread::sleep(std::time::Duration::from_secs(2));
    slow.signal("STOP");
    std::thread::sleep(std::time::Duration::from_secs(2));
    // This one begins while the disk hangs: whose request it is, nobody knows any more.
    let late = record("late", "slow=300ms", &of_both);
    std::thread::sleep(std::time::Duration::from_secs(1));
    let ended = recordings.map(|recording| recording.interrupt());
    let late = late.interrupt();
    slow.signal("CONT");
    for (ended, source) in ended.iter().zip(["issue", "waiting"]) {
        assert_eq!(ended.status, Some(0), "{}", ended.err);
        let words = ["stacks", "-r", &trace(source), "--json", "--by", "stack_source,wait_class", "lat > 500ms"];
        let json = latscope(&words).success();
        let table: Value = serde_json::from_str(&json).unwrap();
        let stacks = table["stacks"].as_array().unwrap();
        assert_eq!(stacks.len(), 1, "{json}");
        assert!(number(&stacks[0], "waiting") == 1 && text(&stacks[0], "stack").contains("archive_scan;"), "{json}");
        assert_eq!(text(&stacks[0]["group"], "stack_source"), source, "{json}");
        let is_waiting = source == "waiting";
        assert!(!is_waiting || text(&stacks[0]["group"], "wait_class") == "direct read", "{json}");
        let account = "1 more has not completed, and 1 of them has a stack";
        assert!(!is_waiting || ended.err.contains(account), "{}", ended.err);
    }
    assert_eq!(late.status, Some(0), "{}", late.err);
    assert!(late.err.contains("unfinished: "), "{}", late.err);
    assert!(
        late.err.contains("1 more has not completed, and 0 of them have a stack (1 was issued before the capture"),
        "{}",
        late.err
    );
    // Its time is nobody's, and no share of those who did not wait for it.
    let words = ["stacks", "-r", &trace("late"), "--json"];
    let json = latscope(&words).success();
    let table: Value = serde_json::from_str(&json).unwrap();
    assert!(number(&table["without_stack"], "time_ns") > 1_000_000_000, "{json}");
    let shown = latscope(&words[..3]).success();
    assert!(shown.contains("without a stack, and in no share: ") && shown.contains(" % of the time)"), "{shown}");
}
