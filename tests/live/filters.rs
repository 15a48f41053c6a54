//! A filter on what is captured selects the same events as the same filter on a trace of everything.

use super::lab::{Background, Disk, alone, events, fio_command};
use crate::program::{Ended, end};
use std::path::PathBuf;

/// Columns that two captures of one event cannot differ in; each takes the time itself.
const BLOCK: &str = "kind,name,size,offset,device,dev,pid,comm";
/// The path is not among them: one capture may have looked a file up before it was gone, the other not.
const IO: &str = "kind,name,size,offset,pid,tid,comm,fd,fd_type,result,error";

/// Records once everything of `base` and once for each filter, under a load, and compares.
fn same_events(disk: &Disk, source: &str, base: &str, columns: &str, filters: &[&str], load: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let path = |at: usize| -> PathBuf { folder.path().join(format!("{at}.lat")) };
    let whole = folder.path().join("whole.lat");
    let start = |trace: &PathBuf, filter: &str| {
        Background::latscope(&["record", "-s", source, "-w", trace.to_str().unwrap(), filter])
    };
    let mut records = vec![start(&whole, base)];
    for (at, filter) in filters.iter().enumerate() {
        records.push(start(&path(at), &format!("{base} and ({filter})")));
    }
    end(&mut fio_command(disk, load), b"").success();
    let missing: Vec<u64> = records.into_iter().map(|record| missing(&record.interrupt())).collect();

    assert!(events(&whole, columns, "").len() > 1000);
    for (at, filter) in filters.iter().enumerate() {
        let sorted = |trace, filter| {
            let mut rows: Vec<String> = events(trace, columns, filter).iter().map(ToString::to_string).collect();
            rows.sort_unstable();
            rows
        };
        let (live, later) = (sorted(&path(at), ""), sorted(&whole, filter));
        // Each may have missed as many as it says.
        let (more, fewer) = (without(&live, &later), without(&later, &live));
        assert!(more.len() as u64 <= missing[0], "{source}: {filter}: {more:?} is not in the whole, {missing:?}");
        assert!(fewer.len() as u64 <= missing[1 + at], "{source}: {filter}: {fewer:?} is not in its own, {missing:?}");
        // None of the filters is trivial.
        assert!(!live.is_empty() && live.len() < events(&whole, columns, "").len(), "{filter}: {}", live.len());
    }
}

/// The rows of `these` that `others` lack; both are sorted.
fn without<'a>(these: &'a [String], others: &[String]) -> Vec<&'a String> {
    let mut others = others.iter().peekable();
    let lacks = |row: &&String| {
        while others.next_if(|other| other < row).is_some() {}
        others.next_if_eq(row).is_none()
    };
    these.iter().filter(lacks).collect()
}

/// How many events a capture says that it missed or lost.
#[track_caller]
pub(super) fn missing(ended: &Ended) -> u64 {
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    let lines = ended
        .err
        .lines()
        .filter_map(|line| line.strip_prefix("latscope: missing: ").or_else(|| line.strip_prefix("latscope: lost: ")));
    let counts = lines.flat_map(|line| line.split("; ")).filter_map(|part| part.split(' ').next());
    counts.filter_map(|count| count.replace(',', "").parse::<u64>().ok()).sum()
}

/// 2,000 reads and writes, of which each tenth takes longer by far than any machine is busy.
const SLOW: [&str; 6] = ["--read", "500us", "--write", "500us", "--slow", "300ms"];
const LOAD: [&str; 4] = ["--ioengine=libaio", "--iodepth=16", "--rw=randrw", "--io_size=8m"];

#[test]
fn of_block_requests() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&[&SLOW[..], &["--every", "50"]].concat());
    let base = disk.filter();
    let filters = [
        "kind = write",
        "lat > 150ms",
        "lat > 150ms and kind = read or kind = write and lat < 150ms",
        "not (kind = read)",
        "size >= 4k and offset < 16MiB",
        "proc.name = fio and name contains W",
        "comm startswith f and offset > 32MiB",
        "kind in (flush, discard, read)",
    ];
    same_events(&disk, "block", &base, BLOCK, &filters, &[&LOAD[..], &["--size=64m", "--fsync=100"]].concat());
}

#[test]
fn of_system_calls() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&[&SLOW[..], &["--every", "50"]].concat());
    let of_disk = format!("fd.name = {} and kind = read", disk.path);
    let filters = [
        "kind = read",
        "name in (pwrite64, fsync, fdatasync)",
        "lat > 150ms and fd.type = block",
        "not (fd.type = file) and kind = write",
        "fd >= 0 and (kind = sync or kind = open)",
        "evt.res = ENOENT",
        "evt.failed = true or kind = write and offset > 32MiB",
        "fd.type in (file, directory) and not (name = read)",
        of_disk.as_str(),
    ];
    let load = ["--ioengine=psync", "--rw=randrw", "--io_size=4m", "--size=64m", "--fsync=100"];
    same_events(&disk, "io", "proc.name = fio", IO, &filters, &load);
}
