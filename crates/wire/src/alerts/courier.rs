//! Delivers what is due: posts it, or runs a command.

use super::queue::Undelivered;
use super::rules::{Delivery, Rules};
use crate::{Poster, Url};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;
use std::time::{Duration, Instant};

/// How long a command may take.
const COMMAND: Duration = Duration::from_secs(30);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// So many messages are posted at the same time.
const AT_ONCE: usize = 8;

/// Delivers to one destination.
pub enum Courier {
    /// By HTTP.
    Http(Poster),
    /// By a command.
    Command(Vec<String>),
}

impl Courier {
    /// For a destination.
    ///
    /// # Errors
    /// A sentence about its address or its certificates.
    pub fn new(delivery: &Delivery) -> Result<Courier, String> {
        let poster = |url: &str, ca: &Option<_>| Poster::new(Url::parse(url)?, ca.as_deref()).map(Courier::Http);
        match delivery {
            Delivery::Alertmanager { url, ca } => poster(&format!("{url}/api/v2/alerts"), ca),
            Delivery::Webhook { url, ca } => poster(url, ca),
            Delivery::Command(words) => Ok(Courier::Command(words.clone())),
        }
    }

    /// Delivers messages, several at a time, until one fails, and waits until that is done; what came of each, as far as they were sent.
    /// A command is ended once `is_over`.
    pub fn deliver(&self, bodies: &[Vec<u8>], is_over: &AtomicBool) -> Vec<Result<(), Undelivered>> {
        let mut results = Vec::new();
        for some in bodies.chunks(AT_ONCE) {
            match some {
                [one] => results.push(self.deliver_one(one, is_over)),
                some => results.extend(scope(|scope| {
                    let sent: Vec<_> =
                        some.iter().map(|body| scope.spawn(|| self.deliver_one(body, is_over))).collect();
                    let lost = || Undelivered { why: "its thread ended".into(), is_refused: false };
                    sent.into_iter().map(|sent| sent.join().unwrap_or_else(|_| Err(lost()))).collect::<Vec<_>>()
                })),
            }
            if results.iter().any(Result::is_err) {
                break;
            }
        }
        results
    }

    fn deliver_one(&self, body: &[u8], is_over: &AtomicBool) -> Result<(), Undelivered> {
        match self {
            Courier::Http(poster) => {
                let answer = poster.post(&[("Content-Type", "application/json")], body);
                let answer = answer.map_err(|error| Undelivered { why: sentence(&error), is_refused: false })?;
                match answer.status {
                    200..=299 => Ok(()),
                    status => Err(Undelivered {
                        why: format!("status {status} {}", answer.first_line()).trim().to_string(),
                        is_refused: (400..500).contains(&status) && status != 429,
                    }),
                }
            }
            Courier::Command(words) => run(words, body, (COMMAND, is_over)),
        }
    }
}

/// Why there is no answer.
fn sentence(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => "no answer in time".into(),
        _ => error.to_string(),
    }
}

/// Whether all destinations can be used: their addresses, certificates and programs.
///
/// # Errors
/// A sentence about the first that cannot.
pub fn check_deliveries(rules: &Rules) -> Result<(), String> {
    for delivery in &rules.deliveries {
        let courier = Courier::new(delivery).map_err(|why| format!("{delivery}: {why}"))?;
        if let Courier::Command(words) = &courier
            && let Some(program) = words.first()
            && !is_program(program)
        {
            return Err(format!("{delivery}: There is no program {program}."));
        }
    }
    Ok(())
}

/// Whether a program can be started: a file, or the name of one in one of the folders of `PATH`.
fn is_program(name: &str) -> bool {
    let can_run =
        |path: &Path| path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    if name.contains('/') {
        return can_run(Path::new(name));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| can_run(&folder.join(name)))
}

/// Runs a command, for so long at most.
fn run(words: &[String], body: &[u8], (time, is_over): (Duration, &AtomicBool)) -> Result<(), Undelivered> {
    let failed = |why: String, is_refused| Undelivered { why, is_refused };
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // What it starts can be ended with it, and a Ctrl-C that is meant for the hub does not reach it.
    command.process_group(0);
    let mut child = command.spawn().map_err(|error| failed(format!("it cannot be started: {error}"), false))?;
    let (input, body) = (child.stdin.take(), body.to_vec());
    // It may read nothing, or end before it has read all.
    std::thread::spawn(move || drop(input.map(|mut input| input.write_all(&body))));
    let end = Instant::now() + time;
    loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < end && !is_over.load(Ordering::Relaxed) => std::thread::sleep(LOOK),
            Ok(None) => {
                // It is not waited for yet, so no other group can have its number.
                let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                let _ = group.map(|group| kill_process_group(group, Signal::KILL));
                let _ = child.wait();
                break Err(match Instant::now() < end {
                    true => failed("the hub ended while it ran".into(), false),
                    false => failed(format!("it ran for more than {} s", time.as_secs()), true),
                });
            }
            Ok(Some(status)) if status.success() => break Ok(()),
            Ok(Some(status)) => break Err(failed(status.to_string(), true)),
            Err(error) => break Err(failed(error.to_string(), false)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_reads_the_alert_and_may_fail() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("alert.json");
        let run = |script: &str, body: &[u8]| {
            let words = ["sh", "-c", script, "sh", path.to_str().unwrap()];
            Courier::new(&Delivery::Command(words.map(str::to_string).into()))
                .unwrap()
                .deliver_one(body, &AtomicBool::new(false))
        };
        assert_eq!(run("cat > \"$1\"", b"{}"), Ok(()));
        assert_eq!(std::fs::read(&path).unwrap(), b"{}");
        let failed = run("exit 3", &vec![b' '; 1 << 20]).unwrap_err();
        assert!(failed.why.contains("exit status: 3") && failed.is_refused, "{failed:?}");
        let check = |program: &str| {
            let deliveries = vec![Delivery::Command(vec![program.into(), "root".into()])];
            check_deliveries(&Rules { deliveries, ..Rules::default() })
        };
        assert_eq!((check("sh"), check("/bin/sh")), (Ok(()), Ok(())));
        let why = "command /nonexistent/x root: There is no program /nonexistent/x.";
        assert_eq!(check("/nonexistent/x"), Err(why.into()));
        assert!(check("no-such-program").is_err() && check("/").is_err());
        let webhook = Delivery::Webhook { url: "https://hooks.example.org/services/T0/secret".into(), ca: None };
        assert_eq!(webhook.to_string(), "webhook https://hooks.example.org");
        let missing = Courier::new(&Delivery::Command(vec!["/nonexistent/x".into()]))
            .unwrap()
            .deliver_one(b"", &AtomicBool::new(false));
        assert!(!missing.unwrap_err().is_refused);
    }

    #[test]
    fn what_a_command_started_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pid");
        let script = "sleep 1000 & echo $! > \"$1.new\"; mv \"$1.new\" \"$1\"; wait";
        let words = ["sh", "-c", script, "sh", path.to_str().unwrap()].map(str::to_string);
        let lives = |pid: i32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
        };
        // At its limit, and at the end of the hub.
        for (time, is_refused) in [(Duration::from_secs(2), true), (Duration::from_secs(600), false)] {
            let _ = std::fs::remove_file(&path);
            let is_over = AtomicBool::new(false);
            let failed = scope(|scope| {
                let running = scope.spawn(|| run(&words, b"{}", (time, &is_over)));
                while !path.exists() {
                    std::thread::sleep(LOOK);
                }
                is_over.store(!is_refused, Ordering::Relaxed);
                running.join().unwrap().unwrap_err()
            });
            assert_eq!(failed.is_refused, is_refused, "{failed:?}");
            let pid: i32 = std::fs::read_to_string(&path).unwrap().trim().parse().unwrap();
            while lives(pid) {
                std::thread::sleep(LOOK);
            }
        }
    }
}
