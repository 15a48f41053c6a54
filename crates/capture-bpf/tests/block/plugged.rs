//! Requests that a task collects and issues together: each has the moment of its own issue.

use super::device::{LoopDevice, alone, run};
use super::events::{Events, options};
use super::ftrace::{Ftrace, Issue};
use latscope_capture_bpf::{Options, PushDown};
use std::collections::{BTreeMap, BTreeSet};

/// The kernel stamps a whole batch with the moment at which its task last read the clock. Two programs at one tracepoint run one
/// behind the other, so on one CPU the stamps of each alternate with those of the other, whatever else the machine does: ours
/// lies between ftrace's of the issue before and of the issue after.
#[test]
fn requests_of_a_batch_are_issued_one_after_the_other() {
    let Some(_alone) = alone() else { return };
    if std::process::Command::new("fio").arg("--version").output().is_err() {
        return skipped!("no fio");
    }
    let device = LoopDevice::new();
    let push_down = PushDown { devices: vec![device.name.clone()], ..PushDown::default() };
    let Some(ftrace) = Ftrace::issues(&device) else { return };
    let mut events = Events::start(&Options { push_down, ..options() });
    let batch = ["--ioengine=libaio", "--iodepth=64", "--iodepth_batch=64", "--iodepth_batch_complete_min=64"];
    let what = ["--name=batches", "--direct=1", "--rw=read:4k", "--bs=4k", "--size=4m", "--cpus_allowed=0"];
    run("fio", &[&batch[..], &what, &[&format!("--filename={}", device.path)]].concat());
    (0..5).for_each(|_| events.poll());
    let (rows, _) = events.finish();
    let issues = ftrace.issued();
    let ours: BTreeMap<u64, u64> = rows.iter().map(|row| (row.offset / 512, row.issue_ns as u64)).collect();
    assert_eq!(ours.len(), 512, "every other block is read once, and none is merged");
    let mut compared = 0;
    for around in issues.windows(3) {
        let [before, own, after] = around else { continue };
        let Some(&stamp) = ours.get(&own.sector).filter(|_| [before.cpu, after.cpu] == [own.cpu; 2]) else { continue };
        // ftrace prints whole microseconds, rounded (`ns2usecs` of the kernel).
        let (from, to) = (before.at_us * 1000 - 500, after.at_us * 1000 + 500);
        assert!((from..to).contains(&stamp), "{own:?} between {before:?} and {after:?}: {stamp} ns");
        compared += 1;
    }
    assert!(compared > 400, "{compared} of {} issues", issues.len());
    let stamps: BTreeSet<u64> = ours.values().copied().collect();
    assert_eq!(stamps.len(), ours.len(), "no two have one stamp");
    let again: Vec<Issue> = issues.iter().copied().filter(|issue| !ours.contains_key(&issue.sector)).collect();
    assert!(again.is_empty(), "{again:?}");
}
