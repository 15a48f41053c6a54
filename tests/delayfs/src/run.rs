//! From the command line to the end.

use crate::disk::{Disk, Served};
use crate::exact;
use crate::schedule::Schedule;
use clap::Parser;
use fuser::MountOption;
use latscope_event::{parse_duration, parse_size};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{Error, Write};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A file system of one file, `disk`, that answers after a known delay.
#[derive(Parser, Debug)]
struct Arguments {
    /// An empty folder to mount it on
    folder: PathBuf,
    /// Size of the file
    #[arg(long, default_value = "64MiB", value_parser = |text: &str| parse_size(text))]
    size: u64,
    /// Delay of a read
    #[arg(long, default_value = "0ns", value_parser = duration)]
    read: Duration,
    /// Delay of a write
    #[arg(long, default_value = "0ns", value_parser = duration)]
    write: Duration,
    /// Delay of a flush
    #[arg(long, default_value = "0ns", value_parser = duration)]
    sync: Duration,
    /// Delay of every so many-th read or write instead
    #[arg(long, default_value = "0ns", value_parser = duration)]
    slow: Duration,
    /// Which reads and writes those are: the 100th, the 200th ...
    #[arg(long, requires = "slow", value_name = "COUNT")]
    every: Option<u64>,
    /// Also of requests that touch these bytes: START:LENGTH
    #[arg(long, requires = "slow", value_name = "BYTES", value_parser = stretch)]
    slow_at: Option<(u64, u64)>,
    /// Reads that touch these bytes fail: START:LENGTH
    #[arg(long, value_name = "BYTES", value_parser = stretch)]
    fail_at: Option<(u64, u64)>,
    /// The end of each period, during which nothing is answered
    #[arg(long, default_value = "0ns", requires = "period", value_parser = duration)]
    stall: Duration,
    /// How often it stalls; the first period starts when it is mounted
    #[arg(long, default_value = "0ns", value_parser = duration)]
    period: Duration,
    /// Answer to the microsecond: on this CPU only, in real time, and awake for the last 150 us before an answer
    #[arg(long, value_name = "CPU")]
    exact: Option<usize>,
    /// At the end, write here when each read came and when it was answered: two numbers a line, CLOCK_MONOTONIC in
    /// nanoseconds
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// Start and end of `16MiB:1MiB`.
fn stretch(text: &str) -> Result<(u64, u64), String> {
    let (start, length) = text.split_once(':').ok_or("START:LENGTH is wanted")?;
    let size = |text| parse_size(text).map_err(|error| error.to_string());
    Ok((size(start)?, size(start)?.saturating_add(size(length)?)))
}

fn duration(text: &str) -> Result<Duration, latscope_event::UnitError> {
    parse_duration(text).map(Duration::from_nanos)
}

/// Mounts, serves until a signal, unmounts.
pub fn run() -> Result<(), Error> {
    let arguments = Arguments::parse();
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    // Answers shall not be 50 us late. The threads take it over from this one.
    std::fs::write("/proc/self/timerslack_ns", "1")?;
    let schedule = Schedule {
        read: arguments.read,
        write: arguments.write,
        sync: arguments.sync,
        slow: arguments.slow,
        every: arguments.every.unwrap_or(0),
        slow_bytes: arguments.slow_at.unwrap_or_default(),
        broken_bytes: arguments.fail_at.unwrap_or_default(),
        stall: arguments.stall,
        period: arguments.period,
    };
    let served = Arc::new(Served { log: arguments.log.is_some().then(Mutex::default), ..Served::default() });
    if let Some(cpu) = arguments.exact {
        exact::pin(cpu)?;
    }
    let disk = Disk::new(arguments.size, schedule, Arc::clone(&served), arguments.exact.is_some())?;
    let options = [MountOption::FSName("delayfs".to_string()), MountOption::RW];
    let _session = fuser::spawn_mount2(disk, &arguments.folder, &options)?;
    println!("ready");
    std::io::stdout().flush()?;
    signals.forever().next();
    // Lazily: a loop device may still hold the file, and its requests fail once this process has ended.
    Command::new("umount").arg("--lazy").arg(&arguments.folder).status()?;
    let [reads, writes, slow] =
        [&served.reads, &served.writes, &served.slow].map(|count| count.load(Ordering::Relaxed));
    if let Some((path, log)) = arguments.log.as_ref().zip(served.log.as_ref()) {
        let log = log.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: String = log.iter().map(|(came, answered)| format!("{came} {answered}\n")).collect();
        std::fs::write(path, lines)?;
    }
    // Nobody may be left to read it.
    let _ = writeln!(std::io::stdout(), "reads {reads} writes {writes} slow {slow}");
    Ok(())
}
