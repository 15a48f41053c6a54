//! Executors of Spark on this machine, and what the kernel counts of their control groups: versions 1 and 2, and both at once.

use crate::Error;
use latscope_series::spark::{Usage, UsageRow, UsageSample};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// What a process of an executor has among its arguments.
const BACKEND: &str = "CoarseGrainedExecutorBackend";
/// Most bytes of a file of `/proc` or of a control group.
const FILE_BYTES: u64 = 1 << 20;
/// Longest line of a file of samples, and most lines.
const LINE_BYTES: u64 = 4096;
const LINES: usize = 10_000_000;
/// The kernel writes a number like this where memory has no limit.
const NO_LIMIT: u64 = 1 << 60;
/// The controllers of version 1 that count.
const CONTROLLERS: [&str; 4] = ["cpu", "cpuacct", "memory", "blkio"];

/// An executor that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executor {
    /// Its process.
    pub pid: u32,
    /// Its application.
    pub app: String,
    /// Its identifier.
    pub id: String,
}

/// The executors of a machine.
pub struct Executors {
    root: PathBuf,
    only: Option<String>,
    /// Where the hierarchies of version 1 are mounted, by controller, and that of version 2 (`""`).
    mounts: BTreeMap<String, PathBuf>,
}

impl Executors {
    /// Of the machine whose root is there. With `only`, those that have it among their arguments.
    pub fn new(root: &Path, only: Option<&str>) -> Executors {
        let mut mounts = BTreeMap::new();
        for line in text(&root.join("proc/self/mounts")).unwrap_or_default().lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [_, folder, kind, options, ..] = words[..] else { continue };
            let folder = || root.join(folder.trim_start_matches('/'));
            match kind {
                "cgroup2" => drop(mounts.entry(String::new()).or_insert_with(folder)),
                "cgroup" => options.split(',').filter(|option| CONTROLLERS.contains(option)).for_each(|controller| {
                    mounts.entry(controller.to_string()).or_insert_with(folder);
                }),
                _ => {}
            }
        }
        Executors { root: root.into(), only: only.map(Into::into), mounts }
    }

    /// Those that run now, each once: what a JVM forks has its arguments until it starts another program.
    pub fn find(&self) -> Vec<Executor> {
        let mut found: Vec<Executor> = Vec::new();
        for entry in fs::read_dir(self.root.join("proc")).into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let Some(line) = text(&entry.path().join("cmdline")) else { continue };
            if !line.contains(BACKEND) || self.only.as_ref().is_some_and(|only| !line.contains(only)) {
                continue;
            }
            let words: Vec<&str> = line.split('\0').collect();
            let after = |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1));
            // A shell that starts it has the same words in one argument.
            if let (Some(app), Some(id)) = (after("--app-id"), after("--executor-id")) {
                found.push(Executor { pid, app: app.to_string(), id: id.to_string() });
            }
        }
        found.sort_by(|one, other| (&one.app, &one.id, one.pid).cmp(&(&other.app, &other.id, other.pid)));
        found.dedup_by(|later, first| (&later.app, &later.id) == (&first.app, &first.id));
        found
    }

    /// What is counted of the control group of an executor now; none where it has ended.
    pub fn sample(&self, executor: &Executor, time_ns: i64) -> Option<UsageRow> {
        let mut values = [None; Usage::ALL.len()];
        let mut set = |of: Usage, value: Option<u64>| values[of as usize] = value;
        let groups = self.groups(executor.pid)?;
        let read = |controller: &str, file: &str| text(&groups.get(controller)?.1.join(file));
        let number = |controller: &str, file: &str| read(controller, file)?.trim().parse::<u64>().ok();
        let limit = |value: Option<u64>| value.filter(|&value| value < NO_LIMIT);
        let second = |controller: &str| !groups.contains_key(controller);
        if second("cpuacct") {
            let stat = read("", "cpu.stat");
            set(Usage::Cpu, field(&stat, "usage_usec").map(|us| us.saturating_mul(1000)));
        } else {
            set(Usage::Cpu, number("cpuacct", "cpuacct.usage"));
        }
        let (stat, quota) = match second("cpu") {
            true => (read("", "cpu.stat"), read("", "cpu.max")),
            false => {
                let quota = number("cpu", "cpu.cfs_quota_us").zip(number("cpu", "cpu.cfs_period_us"));
                (read("cpu", "cpu.stat"), quota.map(|(quota, period)| format!("{quota} {period}")))
            }
        };
        set(Usage::Periods, field(&stat, "nr_periods"));
        set(Usage::Throttled, field(&stat, "nr_throttled"));
        let throttled_ns = field(&stat, "throttled_usec").map(|us| us.saturating_mul(1000));
        set(Usage::ThrottledTime, throttled_ns.or_else(|| field(&stat, "throttled_time")));
        let quota = quota.and_then(|text| {
            let (quota, period) = text.trim().split_once(' ')?;
            Some(quota.parse::<u64>().ok()?.saturating_mul(1000) / period.parse::<u64>().ok()?.max(1))
        });
        set(Usage::Quota, quota);
        let names = match second("memory") {
            true => {
                set(Usage::Memory, number("", "memory.current"));
                set(Usage::MemoryLimit, limit(number("", "memory.max")));
                ("", ["anon", "file"])
            }
            false => {
                set(Usage::Memory, number("memory", "memory.usage_in_bytes"));
                set(Usage::MemoryLimit, limit(number("memory", "memory.limit_in_bytes")));
                ("memory", ["total_rss", "total_cache"])
            }
        };
        let stat = read(names.0, "memory.stat");
        set(Usage::Anonymous, field(&stat, names.1[0]));
        set(Usage::FileCache, field(&stat, names.1[1]));
        let io = match second("blkio") {
            true => read("", "io.stat").map(|text| io_of_version_2(&text)),
            false => {
                let recursive = read("blkio", "blkio.throttle.io_service_bytes_recursive");
                let text = recursive.or_else(|| read("blkio", "blkio.throttle.io_service_bytes"));
                // Newer kernels count nothing in groups without limits, and name no device then.
                text.filter(|text| text.contains(" Read ")).map(|text| io_of_version_1(&text))
            }
        };
        set(Usage::Read, io.map(|io| io[0]));
        set(Usage::Written, io.map(|io| io[1]));
        let network = text(&self.root.join(format!("proc/{}/net/dev", executor.pid)));
        let network = network.map(|text| interfaces(&text));
        set(Usage::Received, network.map(|bytes| bytes[0]));
        set(Usage::Sent, network.map(|bytes| bytes[1]));
        set(Usage::Loopback, network.map(|bytes| bytes[2]));
        let cpu = if second("cpuacct") { "" } else { "cpuacct" };
        let group = (groups.get(cpu)?.0.clone(), if cpu.is_empty() { 2 } else { 1 });
        let sample = UsageSample { time_ns, values };
        Some(UsageRow { app: executor.app.clone(), executor: executor.id.clone(), group, sample })
    }

    /// The control groups of a process: by controller the name and the folder.
    fn groups(&self, pid: u32) -> Option<BTreeMap<String, (String, PathBuf)>> {
        let mut groups = BTreeMap::new();
        for line in text(&self.root.join(format!("proc/{pid}/cgroup")))?.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(name)) = (parts.next(), parts.next()) else { continue };
            for controller in controllers.split(',') {
                let Some(mount) = self.mounts.get(controller) else { continue };
                let folder = mount.join(name.trim_start_matches('/'));
                // In a container, the name may be that of the host, and the mount the container's own.
                let folder = if folder.is_dir() { folder } else { mount.clone() };
                groups.insert(controller.to_string(), (name.to_string(), folder));
            }
        }
        Some(groups)
    }

    /// Puts an executor, and what it starts from now on, into control groups of its own.
    ///
    /// # Errors
    /// Where control groups cannot be made, which takes root; then it stays where it is.
    pub fn set_apart(&self, executor: &Executor, name: &str) -> io::Result<OwnGroups> {
        let ended = || io::Error::from(io::ErrorKind::NotFound);
        let mut own = OwnGroups(Vec::new());
        let groups = self.groups(executor.pid).ok_or_else(ended)?;
        let first =
            CONTROLLERS.iter().filter_map(|controller| groups.get(*controller)).map(|(_, folder)| folder.clone());
        let mut parents: Vec<PathBuf> = first.collect();
        if parents.is_empty() {
            // A group with processes cannot give controllers to groups below it; the root can.
            parents.extend(self.mounts.get("").cloned());
        }
        parents.sort();
        parents.dedup();
        for parent in parents {
            let folder = parent.join(name);
            fs::create_dir(&folder)?;
            own.0.push(folder.clone());
            fs::write(folder.join("cgroup.procs"), executor.pid.to_string())?;
        }
        if own.0.is_empty() { Err(ended()) } else { Ok(own) }
    }
}

/// Control groups that were made for an executor. They are removed when this is dropped, if their processes have ended.
pub struct OwnGroups(Vec<PathBuf>);

impl Drop for OwnGroups {
    fn drop(&mut self) {
        for folder in &self.0 {
            // Processes that were killed take a moment to end; nobody can do more about a group whose processes live.
            let mut tries = 0..20;
            while fs::remove_dir(folder).is_err() && tries.next().is_some() {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        }
    }
}

/// A file, up to a size; text that is not UTF-8 is mended.
fn text(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(FILE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A number after its name on a line.
fn field(text: &Option<String>, name: &str) -> Option<u64> {
    text.as_ref()?.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Bytes read and written of all devices.
fn io_of_version_2(text: &str) -> [u64; 2] {
    let all = |name: &str| {
        let numbers = text.split_whitespace().filter_map(|word| word.strip_prefix(name)?.parse::<u64>().ok());
        numbers.fold(0, u64::saturating_add)
    };
    [all("rbytes="), all("wbytes=")]
}

fn io_of_version_1(text: &str) -> [u64; 2] {
    let all = |name: &str| {
        let of_line = |line: &str| {
            let mut words = line.split_whitespace().skip(1);
            (words.next() == Some(name)).then(|| words.next()?.parse::<u64>().ok()).flatten()
        };
        text.lines().filter_map(of_line).fold(0, u64::saturating_add)
    };
    [all("Read"), all("Write")]
}

/// Bytes received and sent by all interfaces but the loopback, and those that the loopback passed.
fn interfaces(text: &str) -> [u64; 3] {
    let mut bytes = [0_u64; 3];
    for (name, numbers) in text.lines().filter_map(|line| line.split_once(':')) {
        let numbers: Vec<u64> = numbers.split_whitespace().map(|word| word.parse().unwrap_or(0)).collect();
        let [received, _, _, _, _, _, _, _, sent, ..] = numbers[..] else { continue };
        match name.trim() == "lo" {
            true => bytes[2] = bytes[2].saturating_add(sent),
            false => {
                bytes[0] = bytes[0].saturating_add(received);
                bytes[1] = bytes[1].saturating_add(sent);
            }
        }
    }
    bytes
}

/// The samples of an application in a file that [`UsageRow::line`] wrote, and a sentence on lines that cannot be read: who wrote may
/// have been killed in the middle of one, and started again.
pub(crate) fn read_usage(path: &Path, app: &str, each: &mut dyn FnMut(UsageRow)) -> Result<Option<String>, Error> {
    let wrong = |what: String| Error::Usage(format!("{}: {what}", path.display()));
    let file = fs::File::open(path).map_err(|error| wrong(format!("Cannot be read: {error}")))?;
    let (mut file, mut line, mut others) = (BufReader::new(file), Vec::new(), None);
    let (mut found, mut unread) = (false, (0u64, String::new()));
    for number in 1..=LINES {
        line.clear();
        let more = (&mut file).take(LINE_BYTES).read_until(b'\n', &mut line);
        if more.map_err(|error| wrong(format!("Cannot be read: {error}")))? == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if text == UsageRow::header() {
            continue;
        }
        // The last line of a file that is still written may be cut.
        let is_whole = line.ends_with(b"\n");
        match UsageRow::parse(text) {
            // The log of a second attempt is that of the application and its number.
            Ok(row) if app == row.app || app.strip_prefix(&row.app).is_some_and(|rest| rest.starts_with('_')) => {
                found = true;
                each(row);
            }
            Ok(row) => drop(others.get_or_insert(row.app)),
            Err(_) if !is_whole && line.len() < LINE_BYTES as usize => break,
            Err(what) => {
                unread.0 += 1;
                if unread.0 == 1 {
                    unread.1 = format!("Line {number}: {what}");
                }
            }
        }
    }
    let note = |(count, first): (u64, String)| {
        let more = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
        format!("{}: left out: {first}{more}.", path.display())
    };
    match others.filter(|_| !found) {
        None if !found && unread.0 > 0 => {
            Err(wrong(format!("{}; the program writes such files with --sample", unread.1)))
        }
        Some(other) => Err(wrong(format!("It has executors of {other}, and none of {app}"))),
        None if !found => Err(wrong("It has no sample of an executor".into())),
        None => Ok(Some(unread).filter(|unread| unread.0 > 0).map(note)),
    }
}

#[cfg(test)]
#[path = "executors_tests.rs"]
mod tests;
