//! Why a database commits slowly: PostgreSQL on a disk with slow flushes, under pgbench, and its own account of what its backends
//! wait for, as `psql` asks it meanwhile.

use super::lab::{Background, Disk, alone, events, number, until};
use super::stacks::one_of_three;
use crate::program::{command, end, installed, latscope};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A server whose files are on a slow disk; everything is undone when it is dropped.
struct Server {
    bin: PathBuf,
    folder: tempfile::TempDir,
    child: Option<Child>,
    _disk: Disk,
}

/// The folder of `initdb`, which Debian keeps out of the path.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    versions.flatten().map(|version| version.path().join("bin")).find(|bin| bin.join("pgbench").exists())
}

impl Server {
    fn start(bin: PathBuf) -> Server {
        let disk = Disk::new(&["--size", "256MiB", "--write", "40ms", "--sync", "40ms"]);
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
        let mount = folder.path().join("mount");
        std::fs::create_dir(&mount).unwrap();
        end(command("mkfs.ext4").args(["-q", &disk.path]), b"").success();
        end(command("mount").arg(&disk.path).arg(&mount), b"").success();
        let mut server = Server { bin, folder, child: None, _disk: disk };
        std::fs::set_permissions(&mount, PermissionsExt::from_mode(0o777)).unwrap();
        let data = mount.join("data");
        let made = ["-A", "trust", "-U", "postgres", "--no-sync", "--wal-segsize=1", "-D"];
        end(server.as_postgres("initdb").args(made).arg(&data), b"").success();
        let mut postgres = server.as_postgres("postgres");
        for setting in ["listen_addresses=", "compute_query_id=on", "max_wal_size=64MB", "autovacuum=off"] {
            postgres.args(["-c", setting]);
        }
        postgres.arg("-k").arg(server.folder.path()).arg("-D").arg(&data);
        server.child = Some(postgres.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        until("the start of the server", || server.psql(&["-c", "SELECT 1"]).output().unwrap().status.success());
        end(&mut server.pgbench(&["-i", "-q"]), b"").success();
        end(&mut server.psql(&["-c", "CHECKPOINT"]), b"").success();
        server
    }

    /// A server does not run as root.
    fn as_postgres(&self, program: &str) -> Command {
        let mut command = command("setpriv");
        command.args(["--pdeathsig", "INT", "--reuid=postgres", "--regid=postgres", "--clear-groups"]);
        command.arg(self.bin.join(program));
        command
    }

    fn psql(&self, words: &[&str]) -> Command {
        let mut command = command(self.bin.join("psql"));
        command.args(["-X", "-A", "-t", "-U", "postgres", "-d", "postgres", "-h"]).arg(self.folder.path()).args(words);
        command
    }

    fn pgbench(&self, words: &[&str]) -> Command {
        let mut command = command(self.bin.join("pgbench"));
        command.args(["-U", "postgres", "-h"]).arg(self.folder.path()).args(words).arg("postgres");
        command
    }

    fn words(&self) -> String {
        format!("host={} user=postgres", self.folder.path().display())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // At once, without a last checkpoint.
            super::lab::signal(child.id(), "QUIT");
            let _ = child.wait();
        }
        let _ = command("umount").arg(self.folder.path().join("mount")).status();
    }
}

/// Shares of each wait event, in percent, without waits for a client.
fn shares(sums: &BTreeMap<String, u64>) -> BTreeMap<&str, f64> {
    let of_server = || sums.iter().filter(|(event, _)| !event.is_empty() && !event.starts_with("Client:"));
    let all: u64 = of_server().map(|(_, sum)| sum).sum();
    of_server().map(|(event, &sum)| (event.as_str(), sum as f64 / all as f64 * 100.0)).collect()
}

#[test]
fn the_waits_of_a_database_are_those_that_it_reports() {
    let Some(_alone) = alone() else { return };
    if programs().is_none() {
        skipped!("no PostgreSQL server is installed");
    } else if installed("mkfs.ext4") {
        one_of_three(compare_with_the_server);
    }
}

fn compare_with_the_server() {
    let server = Server::start(programs().unwrap());
    let load = Background::new(&mut server.pgbench(&["-c", "4", "-T", "600", "-n", "-N"]));
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("commits.lat");
    let words = ["record", "-s", "stacks", "--all-threads", "--hz", "50", "--cpu-budget", "100%", "--tag-postgres"];
    let more = [&server.words(), "-w", trace.to_str().unwrap(), "proc.name = postgres"];
    let recording = Background::latscope(&[&words[..], &more].concat());
    // The account of the server: what each backend of the load waits for, ten times a second.
    let look =
        "SELECT pid, wait_event_type || ':' || wait_event FROM pg_stat_activity WHERE application_name = 'pgbench';\n";
    let polls = format!("{look}SELECT pg_sleep(0.1);\n").repeat(80);
    let reported = end(&mut server.psql(&["-f", "-"]), polls.as_bytes()).success();
    let recorded = recording.interrupt();
    drop(load);
    assert!(recorded.err.contains("the database was asked "), "{}", recorded.err);
    let rows = || reported.lines().filter_map(|line| line.split_once('|'));
    let pids: BTreeSet<u64> = rows().map(|(pid, _)| pid.parse().unwrap()).collect();
    let mut theirs: BTreeMap<String, u64> = BTreeMap::new();
    rows().for_each(|(_, event)| *theirs.entry(event.to_string()).or_default() += 1);
    let (mut ours, mut flushes): (BTreeMap<String, u64>, BTreeMap<String, u64>) = Default::default();
    for event in
        events(&trace, "latency_ns,pid,tags,stack", "").iter().filter(|event| pids.contains(&number(event, "pid")))
    {
        let tags = event["tags"].as_str().unwrap_or_default();
        let waits = tags.split(';').find_map(|tag| tag.strip_prefix("wait_event=")).unwrap_or_default();
        *ours.entry(waits.to_string()).or_default() += number(event, "latency_ns");
        let stack = event["stack"].as_str().unwrap_or_default();
        if let Some(flush) = stack.find(";XLogFlush;").filter(|&at| stack[at..].contains(";fdatasync;")) {
            assert!(stack[..flush].contains(";PostgresMain;"), "{stack}");
            *flushes.entry(waits.to_string()).or_default() += number(event, "latency_ns");
        }
    }
    let (ours, theirs) = (shares(&ours), shares(&theirs));
    eprintln!("latscope {ours:.1?}, the server {theirs:.1?}, flushes of the WAL {:.1?}", shares(&flushes));
    let share = |of: &BTreeMap<&str, f64>, event: &str| of.get(event).copied().unwrap_or(0.0);
    for event in ours.keys().chain(theirs.keys()) {
        assert!((share(&ours, event) - share(&theirs, event)).abs() <= 10.0, "{event}: {ours:?}, {theirs:?}");
    }
    // One backend flushes while the others wait for it. What it does is found beneath what it reports.
    assert!(share(&ours, "IO:WALSync") > 10.0 && share(&ours, "LWLock:WALWrite") > 40.0, "{ours:?}");
    assert!(share(&shares(&flushes), "IO:WALSync") > 50.0, "{flushes:?}");
    draw(&trace, &folder.path().join("commits.svg"));
}

/// Wait event, wait class and code in one picture.
fn draw(trace: &Path, picture: &Path) {
    let by = ["--by", "tag:wait_event,wait_class", "tag = \"IO:WALSync\"", "-o", picture.to_str().unwrap()];
    latscope(&[&["flamegraph", "-r", trace.to_str().unwrap()][..], &by].concat()).success();
    let svg = std::fs::read_to_string(picture).unwrap();
    for word in ["IO:WALSync", "XLogFlush", "fdatasync"] {
        assert!(svg.contains(word), "{word} is not in the picture");
    }
}
