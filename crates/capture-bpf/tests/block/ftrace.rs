//! The kernel's own trace of requests, as text.

use super::device::LoopDevice;
use std::path::{Path, PathBuf};

/// An instance of tracefs that notes the completions of one device, or their issues; gone when dropped.
pub struct Ftrace(PathBuf, &'static str);

/// A request as it was issued.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Issue {
    pub cpu: u32,
    /// On the monotonic clock, as ftrace prints it: microseconds.
    pub at_us: u64,
    pub sector: u64,
}

/// A line of `block_rq_complete`: letters, sector, sectors.
pub type Line = (String, u64, u64);

impl Ftrace {
    /// `None`, with a printed reason, where tracefs is not to be had.
    pub fn start(device: &LoopDevice) -> Option<Ftrace> {
        Ftrace::new(device, "block_rq_complete")
    }

    /// The same of issues.
    pub fn issues(device: &LoopDevice) -> Option<Ftrace> {
        Ftrace::new(device, "block_rq_issue")
    }

    fn new(device: &LoopDevice, event: &'static str) -> Option<Ftrace> {
        let root = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].iter().map(Path::new);
        let Some(root) = root.into_iter().find(|root| root.join("instances").exists()) else {
            eprintln!("skipped in part: tracefs is not mounted");
            return None;
        };
        let instance = root.join(format!("instances/latscope-test-{}-{}", std::process::id(), device.name));
        if let Err(error) = std::fs::create_dir(&instance) {
            eprintln!("skipped in part: tracefs refuses an instance ({error})");
            return None;
        }
        let ftrace = Ftrace(instance, event);
        let dev = std::fs::read_to_string(format!("/sys/block/{}/dev", device.name)).unwrap();
        let (major, minor) = dev.trim().split_once(':').unwrap();
        let number = major.parse::<u32>().unwrap() << 20 | minor.parse::<u32>().unwrap();
        ftrace.set(&format!("events/block/{event}/filter"), &format!("dev == {number}"));
        ftrace.set("buffer_size_kb", "4096");
        ftrace.set("trace_clock", "mono");
        ftrace.set(&format!("events/block/{event}/enable"), "1");
        Some(ftrace)
    }

    fn set(&self, file: &str, value: &str) {
        std::fs::write(self.0.join(file), value).unwrap();
    }

    /// The issues that were noted, in the order of each CPU.
    pub fn issued(&self) -> Vec<Issue> {
        let text = self.text();
        let issue = |line: &str| {
            // `fio-1234  [001] .....  2467.771778: block_rq_issue: 7,0 R 4096 () 8 + 8 none,0,0 [fio]`
            let (before, fields) = line.split_once(": block_rq_issue: ")?;
            let words: Vec<&str> = before.split_whitespace().rev().take(3).collect();
            let (seconds, us) = words[0].split_once('.')?;
            let at_us = seconds.parse::<u64>().ok()? * 1_000_000 + us.parse::<u64>().ok()?;
            Some(Issue { cpu: words[2].trim_matches(['[', ']']).parse().ok()?, at_us, sector: parse(fields).1 })
        };
        let mut issues: Vec<Issue> = text.lines().filter_map(issue).collect();
        // Stable: what happened in one microsecond stays in order.
        issues.sort_by_key(|issue| (issue.cpu, issue.at_us));
        issues
    }

    fn text(&self) -> String {
        self.set(&format!("events/block/{}/enable", self.1), "0");
        let text = std::fs::read_to_string(self.0.join("trace")).unwrap();
        let written = text.lines().find_map(|line| line.strip_prefix("# entries-in-buffer/entries-written: "));
        let (kept, written) = written.unwrap().split_whitespace().next().unwrap().split_once('/').unwrap();
        assert_eq!(kept, written, "the instance's buffer is large enough");
        text
    }

    /// The completions that were noted, sorted.
    pub fn lines(&self) -> Vec<Line> {
        let text = self.text();
        let lines = text.lines().filter_map(|line| line.split_once("block_rq_complete: "));
        let mut lines: Vec<Line> = lines.map(|(_, fields)| parse(fields)).collect();
        lines.sort();
        lines
    }
}

/// `7,0 WS () 8 + 16 none,0,0 [0]`; the part in brackets is empty but for passthrough commands.
fn parse(fields: &str) -> Line {
    let (before, after) = fields.split_once(" + ").unwrap();
    let letters = before.split_whitespace().nth(1).unwrap().to_owned();
    let sector = before.split_whitespace().last().unwrap().parse().unwrap();
    (letters, sector, after.split_whitespace().next().unwrap().parse().unwrap())
}

impl Drop for Ftrace {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}
