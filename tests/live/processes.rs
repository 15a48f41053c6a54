//! What a capture reports of processes, held against what the processes say of themselves. All but one are gone before anybody
//! can look.

use super::lab::{Background, Disk, alone, counts, events};
use crate::program::{command, end, installed, root};
use serde_json::Value;
use std::collections::BTreeMap;

const OF_PROCESS: &str = "path,uid,gid,ppid,parent,cwd,exe,args,cmdline,exe_path";

/// What the processes of `who.py` say: a line for each, which opened a file of its own.
#[track_caller]
fn run(folder: &std::path::Path) -> BTreeMap<String, Value> {
    let script = root().join("tests/live/who.py");
    let printed = end(command("python3").arg("-S").arg(script).arg(folder), b"\n").success();
    let lines = printed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| (line["path"].as_str().unwrap().to_owned(), line)).collect()
}

#[test]
fn processes_are_what_they_say_though_they_are_gone() {
    let Some(_alone) = alone() else { return };
    if !installed("python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The script gives up its rights for a while.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let marks = format!("name = openat and result >= 0 and fd.name startswith '{}/mark '", folder.path().display());
    let trace = folder.path().join("t.lat");
    let opened = format!("{marks} and call_args contains 'flags=524288' or {marks} and proc.exe = kitten");
    let live = [
        ("proc.exe = kitten", "cmdline"),
        ("proc.cmdline startswith 'cat -u '", "exe"),
        ("user.name = nobody", "user"),
        ("proc.pname contains python", "parent"),
        ("proc.cwd endswith '/another directory'", "cwd"),
    ];
    let record = Background::latscope(&["record", "-s", "io", "-w", trace.to_str().unwrap(), "--with", "all", &marks]);
    let views: Vec<_> = live
        .iter()
        .map(|(filter, by)| {
            let filter = format!("({opened}) and {filter}");
            Background::latscope(&["summary", "-s", "io", "--json", "--by", by, &filter])
        })
        .collect();
    let printed = run(folder.path());
    assert!(printed.len() >= 26, "{printed:#?}");
    let views: Vec<String> = views.into_iter().map(|view| view.interrupt().success()).collect();
    let ended = record.interrupt();
    assert!(!ended.err.contains("process is not known"), "{}", ended.err);

    let rows = events(&trace, OF_PROCESS, &opened);
    assert_eq!(rows.len(), printed.len());
    for row in &rows {
        let expected = &printed[row["path"].as_str().unwrap()];
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(row.get(key).unwrap_or(&Value::Null), value, "{key} of {expected:#}");
        }
    }
    let counted = |filter: &str| events(&trace, "path", &format!("({opened}) and {filter}")).len() as u64;
    for ((filter, by), view) in live.iter().zip(&views) {
        let (live, later) = (counts(view, by).values().sum::<u64>(), counted(filter));
        assert_eq!(live, later, "{filter}");
        assert!(later > 0 && later < printed.len() as u64, "{filter}: {later}");
    }
    // Each name is one of `id`, each number one of these.
    let users = events(&trace, "uid,user,gid,group", &opened);
    for user in users {
        for (option, number, name) in [("-un", "uid", "user"), ("-gn", "gid", "group")] {
            let number = user[number].to_string();
            let id = match option {
                "-un" => end(command("id").args([option, &number]), b"").success(),
                _ => end(command("getent").args(["group", &number]), b"").success(),
            };
            assert_eq!(user[name].as_str(), id.trim().split(':').next(), "{user}");
        }
    }
}

#[test]
fn a_block_request_is_of_the_process_that_began_it() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--read", "1ms", "--size", "16MiB"]);
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    let record = Background::latscope(&[
        "record",
        "-s",
        "block",
        "-w",
        trace.to_str().unwrap(),
        "--with",
        "all",
        &disk.filter(),
    ]);
    let filter = format!("{} and proc.cmdline contains 'skip=3' and user.uid = 0", disk.filter());
    let live = Background::latscope(&["summary", "-s", "block", "--json", "--by", "args", &filter]);
    let mut lines = Vec::new();
    for skip in 0..8 {
        let args = format!("if={} skip={skip} of=/dev/null bs=4k count=1 iflag=direct status=none", disk.path);
        end(command("dd").args(args.split(' ')).current_dir(folder.path()), b"").success();
        lines.push(args);
    }
    assert_eq!(counts(&live.interrupt().success(), "args"), [(lines[3].clone(), 1)].into());
    record.interrupt().success();
    let rows = events(&trace, "args,cmdline,exe,cwd,user,ppid,cpu", "kind = read and proc.exe = dd");
    let reported: Vec<&str> = rows.iter().filter_map(|row| row["args"].as_str()).collect();
    assert_eq!(reported, lines);
    for (row, line) in rows.iter().zip(&lines) {
        assert_eq!(row["cmdline"], format!("dd {line}"));
        assert_eq!(row["cwd"].as_str(), folder.path().to_str());
        assert_eq!((row["user"].as_str(), row["ppid"].as_u64()), (Some("root"), Some(std::process::id().into())));
        assert!(row["cpu"].as_u64().unwrap() < std::thread::available_parallelism().unwrap().get() as u64 + 64);
    }
}

#[test]
fn nobody_pays_for_what_nobody_asks() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (usual, named) = (folder.path().join("usual.lat"), folder.path().join("named.lat"));
    let me = format!("pid = {}", std::process::id());
    let start = |path: &std::path::Path, more: &[&str]| {
        Background::latscope(&[&["record", "-s", "io", "-w", path.to_str().unwrap()][..], more, &[&me]].concat())
    };
    let records = [start(&usual, &[]), start(&named, &["--with", "user.name,proc.cmdline"])];
    std::fs::read("/proc/self/stat").unwrap();
    records.into_iter().for_each(|record| drop(record.interrupt().success()));
    let columns = |path: &std::path::Path| {
        let csv = crate::program::latscope(&["events", "-r", path.to_str().unwrap(), "--csv"]).success();
        csv.lines().next().unwrap().split(',').map(str::to_owned).collect::<Vec<_>>()
    };
    let (usual, named) = (columns(&usual), columns(&named));
    let more: Vec<&String> = named.iter().filter(|name| !usual.contains(name)).collect();
    assert_eq!(more, ["cmdline", "user"]);
    assert!(!usual.iter().any(|name| ["cpu", "call_args", "local_ip", "exe"].contains(&&**name)), "{usual:?}");
}
