//! Paths of system calls: under every filter, in every mode, of all that lies in a tree.

use super::lab::{Background, Disk, alone, counts, events};
use crate::program::{command, end, latscope};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

/// How often a file is opened, read and closed.
const TIMES: u64 = 40;

#[test]
fn a_filter_on_the_path_and_more_finds_files_that_are_open_for_a_moment() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--read", "5ms", "--size", "16MiB"]);
    let file = disk.file().display().to_string();
    let folder = tempfile::tempdir().unwrap();
    let of_file = format!("fd.name = {file}");
    let filters = [
        format!("{of_file} and lat > 1ms and kind = read"),
        format!("name = read and {of_file} and lat > 1ms"),
        format!("{of_file} and evt.is_io_read = true and lat > 1ms"),
        format!("fd.type = file and fd.name startswith {file} and kind = read and lat > 1ms"),
    ];
    let trace = |at: usize| -> PathBuf { folder.path().join(format!("{at}.lat")) };
    let record = |(at, filter): (usize, &String)| {
        Background::latscope(&["record", "-s", "io", "-w", trace(at).to_str().unwrap(), filter])
    };
    let records: Vec<Background> = filters.iter().enumerate().map(record).collect();
    let everything = trace(filters.len());
    let all = Background::latscope(&["record", "-s", "io", "-w", everything.to_str().unwrap(), "proc.name = dd"]);
    for at in 0..TIMES {
        // Another part each time, as a file that was read is in memory.
        let from = [format!("if={file}"), format!("skip={}", at * 16)];
        let how = ["of=/dev/null", "bs=4k", "count=1", "iflag=direct", "status=none"];
        end(command("dd").args(from).args(how), b"").success();
    }
    records.into_iter().for_each(|record| drop(record.interrupt().success()));
    all.interrupt().success();
    for (at, filter) in filters.iter().enumerate() {
        assert_eq!(events(&trace(at), "path", "").len() as u64, TIMES, "{filter}");
        assert_eq!(events(&everything, "path", filter).len() as u64, TIMES, "later: {filter}");
    }
}

/// A tree of directories with files, and all that is in it.
fn tree(top: &Path) -> BTreeSet<String> {
    let mut all = BTreeSet::from([top.display().to_string()]);
    for directory in 0..40 {
        let directory = top.join(format!("directory {directory}"));
        std::fs::create_dir_all(&directory).unwrap();
        all.insert(directory.display().to_string());
        for file in 0..25 {
            let file = directory.join(format!("file {file}"));
            std::fs::write(&file, "x").unwrap();
            all.insert(file.display().to_string());
        }
    }
    all
}

#[test]
fn browsing_directories_is_judged_by_call_with_every_path() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("tree");
    let all = tree(&top);
    let trace = folder.path().join("browsing.lat");
    let filter = format!("proc.name in (ls, find) and path startswith '{}'", top.display());
    let judged = |limit: &str| {
        let view = ["percentiles", "-s", "io", "-i", "1s", "--by", "name", "--p", "50,95", "--fail-if", limit];
        Background::latscope(&[&view[..], &[&filter]].concat())
    };
    let (within, beyond) = (judged("p95 > 60s"), judged("p95 > 1ns"));
    let record = Background::latscope(&["record", "-s", "io", "-w", trace.to_str().unwrap(), &filter]);
    end(command("ls").arg("-lR").arg(&top), b"").success();
    end(command("find").arg(&top).args(["-size", "+1k"]), b"").success();
    record.interrupt().success();
    let within = within.interrupt().success();
    assert!(within.contains("getdents64") && within.contains("openat"), "{within}");
    assert_eq!(beyond.interrupt().status, Some(1));

    let recorded = |limit: &str| {
        let view = ["percentiles", "-i", "1s", "--by", "name", "--p", "50,95", "--fail-if", limit];
        latscope(&[&view[..], &["-r", trace.to_str().unwrap()]].concat()).status
    };
    assert_eq!((recorded("p95 > 60s"), recorded("p95 > 1ns")), (Some(0), Some(1)));
    // Every directory is read to its end by both, and everything in it is looked at.
    let counted = latscope(&["summary", "-r", trace.to_str().unwrap(), "--by", "name", "--json"]).success();
    assert_eq!(counts(&counted, "name")["getdents64"], 2 * 2 * 41, "{counted}");
    let paths = |filter: &str| -> BTreeSet<String> {
        let path = |event: &serde_json::Value| event["path"].as_str().map(str::to_owned);
        events(&trace, "path", filter).iter().filter_map(path).collect()
    };
    assert_eq!(paths("name in (newfstatat, statx, lstat)"), all);
    assert_eq!(paths("fd.type = directory and kind = open").len(), 41);
}

#[test]
fn a_path_takes_events_and_says_so() {
    let Some(_alone) = alone() else { return };
    for (arguments, why) in
        [(&["path startswith /"][..], "the filter needs path"), (&["--by", "path"][..], "the groups need path")]
    {
        let refused = ["summary", "-s", "io", "--mode", "histogram", "--for", "1s"];
        let printed = latscope(&[&refused[..], arguments].concat()).failure(2);
        assert!(printed.contains(why), "{printed}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("of the test").display().to_string();
    let filter = format!("path = '{file}' and kind = write");
    let counted = Background::latscope(&["summary", "-s", "io", "--by", "path", "--json", &filter]);
    end(command("dd").args(["if=/dev/zero", "bs=1k", "count=9", "status=none"]).arg(format!("of={file}")), b"")
        .success();
    assert_eq!(counts(&counted.interrupt().success(), "path")[&file], 9);
}

/// A connection between two threads of this process, both ends of which stay open.
fn connected(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

#[test]
fn a_filter_on_a_port_finds_the_calls_on_its_sockets_and_no_others() {
    let Some(_alone) = alone() else { return };
    // The digits of one port start those of the other.
    let pair = |port: u16| {
        let short = TcpListener::bind(("127.0.0.1", port)).ok()?;
        let long = (0..10).find_map(|last| TcpListener::bind(("127.0.0.1", port * 10 + last)).ok())?;
        Some((short, long))
    };
    let (short, long) = (2000..3200).find_map(pair).unwrap();
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    let (few, many) = (connected(&short), connected(&long));
    let client = few.0.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let me = std::process::id();
    let filters = [
        (format!("fd.port = {}", port(&short)), 20),
        (format!("fd.sport = {}", port(&long)), 60),
        (format!("fd.cport = {client} and fd.cip = 127.0.0.1"), 20),
        (format!("fd.net = 127.0.0.0/8 and fd.sport in ({}, {})", port(&short), port(&long)), 80),
    ];
    let trace = |at: usize| folder.path().join(format!("{at}.lat"));
    let record = |at: usize, filter: &str| {
        let filter = format!("{filter} and pid = {me} and size = 7");
        Background::latscope(&["record", "-s", "io", "-w", trace(at).to_str().unwrap(), &filter])
    };
    let records: Vec<_> = filters.iter().enumerate().map(|(at, (filter, _))| record(at, filter)).collect();
    let all = record(filters.len(), "fd.type = ipv4");
    for ((client, server), times) in [(&few, 10), (&many, 30)] {
        for _ in 0..times {
            (&*client).write_all(b"7 bytes").unwrap();
            (&*server).read_exact(&mut [0; 7]).unwrap();
        }
    }
    records.into_iter().for_each(|record| drop(record.interrupt().success()));
    all.interrupt().success();
    for (at, (filter, count)) in filters.iter().enumerate() {
        assert_eq!(events(&trace(at), "path", "").len(), *count, "{filter}");
        assert_eq!(events(&trace(filters.len()), "path", filter).len(), *count, "later: {filter}");
    }
}

#[test]
fn a_live_filter_on_what_no_event_has_is_reported() {
    let Some(_alone) = alone() else { return };
    let printed = |filter: &str| {
        let ended = latscope(&["summary", "-s", "io", "--for", "2s", "--by", "job", filter]);
        ended.err.clone() + &ended.success()
    };
    let streamed = |view: &str| {
        let view = [view, "-s", "io", "-i", "500ms", "--for", "2s", "--by", "job,name"];
        let ended = latscope(&view);
        ended.err.clone() + &ended.success()
    };
    let me = format!("pid = {}", std::process::id());
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                std::fs::read("/proc/self/stat").unwrap();
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        let (missing, ungrouped) = (printed(&format!("{me} and job exists")), printed(&me));
        let streams = ["percentiles", "summary", "histogram"].map(streamed);
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        for printed in streams {
            assert!(printed.contains("no event has job, a field of --by."), "{printed}");
        }
        assert!(missing.contains("no event has job, a field of the filter"), "{missing}");
        assert!(ungrouped.contains("no event has job, a field of --by."), "{ungrouped}");
        assert!(!ungrouped.contains("which the filter needs"), "{ungrouped}");
    });
}

#[test]
fn calls_on_extended_attributes_do_io() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (file, trace) = (folder.path().join("attributed"), folder.path().join("t.lat"));
    std::fs::write(&file, "x").unwrap();
    let script = "import os, sys\nf = sys.argv[1]\nfd = os.open(f, os.O_RDWR)\n\
                  def each(call, *more):\n for of, follow in ((f, True), (f, False), (fd, True)):\n\
                  \x20 try: call(of, *more, follow_symlinks=follow)\n  except OSError: pass\n\
                  each(os.setxattr, 'user.a', b'1')\neach(os.getxattr, 'user.a')\neach(os.listxattr)\neach(os.removexattr, 'user.a')\n";
    let (file, trace) = (file.to_str().unwrap(), trace.to_str().unwrap());
    let record = ["record", "-s", "io", "-w", trace, "path endswith attributed", "--", "python3", "-c", script, file];
    latscope(&record).success();
    let counted = latscope(&["summary", "-r", trace, "--by", "name", "--json"]).success();
    let counted = counts(&counted, "name");
    for call in ["set", "get", "list", "remove"] {
        for of in ["", "l", "f"] {
            assert_eq!(counted.get(&format!("{of}{call}xattr")), Some(&1), "{counted:?}");
        }
    }
}
