//! What the words of `ping` mean.

use super::Plan;
use crate::Failure;
use crate::args::Ping as Typed;
use crate::world::World;
use latscope_capture_probe::{AfterWrite, Cache, Engine, OpenSync, Operation, Order, Pace, Probe, Work};
use latscope_series::Threshold;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Requests in flight of an open loop.
const OPEN_DEPTH: u32 = 64;
/// A request that takes longer is talked about.
const TIMEOUT_NS: u64 = 5_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// Plan of `ping`.
#[derive(Debug, PartialEq)]
pub struct Ping {
    /// One for each target.
    pub probes: Vec<Probe>,
    /// Be ioping: its output and its exit statuses, nothing more.
    pub compatible: bool,
    pub show: PingShow,
    pub fail_if: Option<Threshold>,
    pub strict_cache: bool,
    pub timeout_ns: u64,
    pub trace: Option<PathBuf>,
    /// Replace the trace if it exists.
    pub force: bool,
}

/// What is printed, and which requests are left out of the statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct PingShow {
    pub warmup: u64,
    pub min_time_ns: u64,
    pub max_time_ns: u64,
    pub print_count: Option<u64>,
    pub print_interval_ns: Option<u64>,
    pub batch: bool,
    pub quiet: bool,
    pub json: bool,
    /// An object a line instead of an array.
    pub json_lines: bool,
    pub time_format: Option<String>,
    pub spectrogram: bool,
}

/// Plan of the program when it is called ioping.
///
/// # Errors
/// Status 1, after a word on standard error, as ioping does.
pub fn ioping(words: &[OsString], world: &World) -> Result<Plan, Failure> {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let planned = Typed::parse(&words, true).and_then(|typed| match typed {
        _ if typed.help => Ok(Plan::Say(Typed::help(true))),
        // What it is compatible with.
        _ if typed.version => Ok(Plan::Say("ioping 1.3\n".into())),
        _ if typed.targets.is_empty() => Err("no destination specified".into()),
        _ if typed.targets.len() > 1 => Err("more than one destination specified".into()),
        _ => Ok(Plan::Ping(Box::new(meant(&typed, true, world)?))),
    });
    planned.map_err(Failure::Ioping)
}

/// What these words of `latscope ping` make requests to, and how.
pub fn probes(words: &[String], world: &World) -> Result<Vec<Probe>, Failure> {
    let typed = Typed::parse(words, false).and_then(|typed| meant(&typed, false, world));
    typed.map(|ping| ping.probes).map_err(|message| Failure::Usage(format!("--ping: {message}.")))
}

/// Plan of `latscope ping`.
pub fn plan(words: &[String], world: &World) -> Result<Plan, Failure> {
    let usage = |message: String| Failure::Usage(format!("ping: {message}; latscope ping --help lists the options."));
    let typed = Typed::parse(words, false).map_err(usage)?;
    if typed.help {
        return Ok(Plan::Say(Typed::help(false)));
    }
    if typed.version {
        return Ok(Plan::Say(format!("latscope {}, options of ioping 1.3\n", env!("CARGO_PKG_VERSION"))));
    }
    if typed.targets.is_empty() {
        return Err(usage("no target given; name a directory, a file or a device".into()));
    }
    let raw = typed.batch || typed.print_count.is_some() || typed.print_interval_ns.is_some();
    if typed.targets.len() > 1 && raw && !typed.json && !typed.native.json_lines {
        return Err(usage("raw lines do not name their target; use -J for several targets".into()));
    }
    Ok(Plan::Ping(Box::new(meant(&typed, false, world).map_err(usage)?)))
}

fn meant(typed: &Typed, compatible: bool, world: &World) -> Result<Ping, String> {
    let native = &typed.native;
    let work = work(typed, compatible)?;
    let pace = match native.rate {
        Some(0) => return Err("--rate must be above zero".into()),
        Some(rate) => Pace::open(rate as f64),
        None => Pace::closed(interval_ns(typed, work.size), typed.burst),
    };
    let engine = match native.engine.as_deref() {
        None if typed.aio => Engine::Aio,
        None => Engine::Auto,
        Some("pread") => Engine::Blocking,
        Some("libaio") => Engine::Aio,
        Some("io_uring") => Engine::Uring,
        Some(other) => return Err(format!("--engine {other} is not one of pread, libaio, io_uring")),
    };
    let depth = native.depth.unwrap_or(if native.rate.is_some() && engine == Engine::Auto { OPEN_DEPTH } else { 1 });
    let stop_on_error = match native.on_error.as_deref() {
        // Where not waiting was asked for, EAGAIN is an answer.
        None => compatible && !typed.nowait,
        Some("stop") => true,
        Some("continue") => false,
        Some(other) => return Err(format!("--on-error {other} is neither stop nor continue")),
    };
    let duration_ns = typed.work_time_ns.or(typed.rapid.then_some(3 * SECOND_NS));
    let seed = if typed.seed == 0 { world.seed } else { typed.seed };
    let probe = |target: &PathBuf| Probe {
        work: Work {
            work_size: typed.work_size.filter(|&size| size > 0).or(rapid_size(typed, target, world)),
            ..work.clone()
        },
        pace,
        engine,
        depth,
        threads: native.threads.unwrap_or(1),
        count: typed.count.filter(|&count| count > 0),
        duration: duration_ns.filter(|&ns| ns > 0).map(Duration::from_nanos),
        stop_on_error,
        realtime: native.realtime,
        spin_ns: if native.busy { Probe::BUSY } else { native.spin_ns.unwrap_or(pace.awake_ns()) },
        cpu: native.cpu,
        cpu_wait: !compatible,
        seed,
        ..Probe::new(target)
    };
    let fail_if = native.fail_if.as_deref().map(Threshold::parse).transpose();
    Ok(Ping {
        probes: typed.targets.iter().map(probe).collect(),
        compatible,
        show: PingShow {
            warmup: typed.warmup.unwrap_or(1),
            min_time_ns: typed.min_time_ns.unwrap_or(0),
            max_time_ns: typed.max_time_ns.filter(|&ns| ns > 0).unwrap_or(u64::MAX),
            print_count: typed.print_count,
            print_interval_ns: typed.print_interval_ns,
            batch: typed.batch,
            quiet: typed.quiet || typed.batch || typed.rapid || native.spectrogram,
            json: typed.json || native.json_lines,
            json_lines: native.json_lines,
            time_format: typed.time_format.clone(),
            spectrogram: native.spectrogram,
        },
        fail_if: fail_if.map_err(|message| format!("--fail-if: {message}"))?,
        strict_cache: native.strict_cache,
        timeout_ns: native.timeout_ns.unwrap_or(TIMEOUT_NS),
        trace: native.write_trace.clone(),
        force: native.force,
    })
}

fn work(typed: &Typed, compatible: bool) -> Result<Work, String> {
    let native = &typed.native;
    let cache = match native.cache.as_deref() {
        None if typed.cached => Cache::Any,
        None | Some("cold") => Cache::Cold,
        Some("any") => Cache::Any,
        Some("hot") => Cache::Hot,
        Some(other) => return Err(format!("--cache {other} is not one of cold, any, hot")),
    };
    let opened = if typed.open_sync {
        OpenSync::Sync
    } else if typed.open_dsync {
        OpenSync::Dsync
    } else {
        OpenSync::None
    };
    let after = if typed.cached { AfterWrite::None } else { AfterWrite::Fdatasync };
    let (open_sync, after_write) = match native.sync.as_deref() {
        None => (opened, after),
        Some("none") => (opened, AfterWrite::None),
        Some("fdatasync") => (opened, AfterWrite::Fdatasync),
        Some("fsync") => (opened, AfterWrite::Fsync),
        Some("dsync") => (OpenSync::Dsync, AfterWrite::None),
        Some("sync") => (OpenSync::Sync, AfterWrite::None),
        Some(other) => return Err(format!("--sync {other} is not one of none, fdatasync, fsync, dsync, sync")),
    };
    if native.append && typed.linear {
        return Err("--append and -L exclude each other".into());
    }
    let writes = typed.write > 0 || native.append;
    if !writes && !typed.read_write && native.sync.as_deref().is_some_and(|how| how != "none") {
        return Err("--sync needs writes; add -W, -G or --append".into());
    }
    Ok(Work {
        operation: match (typed.read_write, writes) {
            (true, _) => Operation::Alternate,
            (_, true) => Operation::Write,
            _ => Operation::Read,
        },
        size: typed.size.filter(|&size| size > 0).unwrap_or(if typed.linear { 256 << 10 } else { 4096 }),
        work_size: None,
        work_offset: typed.work_offset,
        order: if native.append {
            Order::Append
        } else if typed.linear {
            Order::Linear
        } else {
            Order::Random
        },
        cache,
        verify_cache: !compatible,
        wraps: false,
        direct: typed.direct,
        open_sync,
        after_write,
        offsets: Arc::default(),
        nowait: typed.nowait,
        hipri: typed.hipri,
        keep: typed.keep,
        destroy: typed.write >= 3,
    })
}

/// A limit makes the interval as short as it allows.
fn interval_ns(typed: &Typed, size: u64) -> u64 {
    let limited = typed.speed_limit.is_some() || typed.rate_limit.is_some() || typed.rapid;
    let interval_ns = typed.interval_ns.unwrap_or(if limited { 0 } else { SECOND_NS });
    let per = |amount: u64, limit: Option<u64>| match limit {
        Some(limit) if limit > 0 => (u128::from(SECOND_NS) * u128::from(amount) / u128::from(limit)) as u64,
        _ => 0,
    };
    interval_ns.max(per(size, typed.speed_limit)).max(per(1, typed.rate_limit))
}

/// With -R a directory gets a larger file.
fn rapid_size(typed: &Typed, target: &Path, world: &World) -> Option<u64> {
    (typed.rapid && (world.is_dir)(target)).then_some(64 << 20)
}
