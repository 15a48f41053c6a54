//! A real server, started for the test, with `psql` as the oracle.

use super::{Postgres, Server};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A server in a temporary folder, ended when it is dropped.
struct Running {
    folder: tempfile::TempDir,
    bin: PathBuf,
    server: Child,
}

/// The folder of `initdb`, which Debian keeps out of the path.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    versions.flatten().map(|version| version.path().join("bin")).find(|bin| bin.join("initdb").exists())
}

impl Running {
    fn start() -> Option<Running> {
        let bin = programs()?;
        // A server does not run as root.
        let is_root = is_root();
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
        let data = folder.path().join("data");
        let run = |program: &str| as_user(is_root, &bin.join(program));
        let made =
            run("initdb").args(["-A", "trust", "-U", "postgres", "--no-sync", "-D"]).arg(&data).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let server = run("postgres")
            .args(["-c", "listen_addresses=", "-c", "compute_query_id=on", "-F", "-D"])
            .arg(&data)
            .arg("-k")
            .arg(folder.path())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let running = Running { folder, bin, server };
        let until = Instant::now() + Duration::from_secs(60);
        while !running.ask("SELECT 1").status.success() {
            assert!(Instant::now() < until, "the server does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(running)
    }

    fn psql(&self, query: &str) -> Command {
        let mut command = Command::new(self.bin.join("psql"));
        command.args(["-X", "-A", "-t", "-U", "postgres", "-d", "postgres", "-c", query, "-h"]).arg(self.folder.path());
        command
    }

    fn ask(&self, query: &str) -> Output {
        self.psql(query).output().unwrap()
    }

    fn connect(&self, more: &str) -> Result<Postgres, super::Refusal> {
        Postgres::connect(&Server::parse(&format!("host={} {more}", self.folder.path().display())).unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let pid = std::fs::read_to_string(self.folder.path().join("data/postmaster.pid")).unwrap_or_default();
        if let Some(pid) = pid.lines().next() {
            let _ = Command::new("kill").args(["-INT", pid]).status();
        }
        let _ = self.server.wait();
    }
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").unwrap().lines().any(|line| line.starts_with("Uid:\t0\t"))
}

fn as_user(is_root: bool, program: &Path) -> Command {
    if !is_root {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
    command
}

#[test]
fn a_real_server_says_what_its_backends_do() {
    let Some(server) = Running::start() else {
        skipped!("no PostgreSQL server is installed");
        return;
    };
    let mut postgres = server.connect("").unwrap();
    let mut sleeper = server.psql("SELECT pg_sleep(600)").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let sleeps = |postgres: &mut Postgres| {
        let all = postgres.activity().unwrap();
        all.into_iter().find(|one| one.tags.contains(&("wait_event", "Timeout:PgSleep".into())))
    };
    let until = Instant::now() + Duration::from_secs(60);
    let found = loop {
        if let Some(found) = sleeps(&mut postgres) {
            break found;
        }
        assert!(Instant::now() < until, "nobody sleeps");
    };
    let query = "SELECT pid || '|' || query_id FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    let oracle = String::from_utf8(server.ask(query).stdout).unwrap();
    let (pid, id) = oracle.trim().split_once('|').unwrap();
    assert_eq!(found.pid.to_string(), pid);
    for (key, value) in [
        ("query", id),
        ("command", "SELECT"),
        ("state", "active"),
        ("backend", "client backend"),
        ("user", "postgres"),
        ("database", "postgres"),
    ] {
        assert!(found.tags.contains(&(key, value.into())), "{key}: {found:?}");
    }
    // Background processes are there, and have no query.
    let all = postgres.activity().unwrap();
    let writer = all.iter().find(|one| one.tags.contains(&("backend", "walwriter".into()))).unwrap();
    assert!(writer.tags.iter().all(|(key, _)| *key != "query"), "{writer:?}");
    let refused = server.connect("user=nobody_of_this_name").err().unwrap().to_string();
    assert!(refused.contains("does not exist"), "{refused}");
    server.ask(&format!("SELECT pg_terminate_backend({pid})"));
    sleeper.wait().unwrap();
    assert_eq!(sleeps(&mut postgres), None);
}

/// A server that is stopped takes connections and answers nobody.
#[test]
fn a_server_that_does_not_answer_is_said_to() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let server = Server::parse(&format!("host=127.0.0.1 port={port} user=nobody")).unwrap();
    let refused = Postgres::connect(&server).err().map(|why| why.to_string());
    assert_eq!(refused.as_deref(), Some("the server did not answer within 5 s"));
}
