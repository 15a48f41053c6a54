//! What the words of `agent` mean.

use super::folding::{fields, interval};
use super::reading::{filter, live};
use super::{Folding, Mode, Plan, Reading};
use crate::world::World;
use crate::{Failure, args};
use latscope_capture_bpf::Source;
use latscope_capture_probe::Probe;
use latscope_event::{Field, parse_size};
use latscope_series::Weight;
use latscope_wire::exports::Settings;
use latscope_wire::{Address, Credentials, QueueLimits};
use std::path::PathBuf;

/// Plan of `agent`.
#[derive(Debug, PartialEq)]
pub struct Agent {
    pub hubs: Vec<Address>,
    pub credentials: Credentials,
    pub test_clock: Option<PathBuf>,
    /// What it makes requests to, instead of capturing.
    pub probes: Vec<Probe>,
    /// How long it makes them, nanoseconds.
    pub for_ns: Option<u64>,
    /// Nothing is sent.
    pub is_check: bool,
    /// The host, unless it has its own name.
    pub name: Option<String>,
    pub folding: Folding,
    pub width_ns: u64,
    pub most_groups: usize,
    pub queue: Option<PathBuf>,
    pub queue_limits: QueueLimits,
    /// The trace that events are recorded to, too.
    pub tee: Option<PathBuf>,
    pub force: bool,
    pub exports: Settings,
}

/// Shortest and longest interval, nanoseconds.
const INTERVALS: std::ops::RangeInclusive<u64> = 100_000_000..=60_000_000_000;

/// How long a check captures, nanoseconds.
const CHECK_NS: u64 = 1_000_000_000;

/// Plans `agent`.
pub fn plan(typed: args::Agent, world: &World) -> Result<Plan, Failure> {
    let usage = |message: String| Err(Failure::Usage(message));
    if typed.hub.is_empty() && typed.queue.is_none() && typed.exports.push.is_empty() {
        return usage("The histograms go nowhere: give --hub ADDRESS, --queue FOLDER or --push URL.".into());
    }
    let hub = |text: &String| Address::parse(text).map_err(|why| Failure::Usage(format!("--hub {why}")));
    let hubs = typed.hub.iter().map(hub).collect::<Result<Vec<_>, _>>()?;
    let credentials = typed.credentials.files();
    let is_encrypted = credentials.encrypt_to_hub().map_err(|why| Failure::Usage(format!("{why}: give --ca FILE.")))?;
    if let Some(hub) = hubs.iter().find(|hub| !hub.is_local() && !is_encrypted) {
        return usage(format!(
            "--hub {hub} is another machine, which needs TLS: give --ca, and --cert and --key or --token-file."
        ));
    }
    let width_ns = interval(&typed.interval)?.unwrap_or(1_000_000_000);
    if !INTERVALS.contains(&width_ns) {
        return usage("-i must be between 100ms and 60s.".into());
    }
    if typed.max_groups == 0 || typed.max_groups >= latscope_wire::GROUPS_LIMIT {
        return usage(format!("--max-groups must be between 1 and {}.", latscope_wire::GROUPS_LIMIT - 1));
    }
    if typed.tee.as_ref().is_some_and(|path| path.extension().is_none_or(|ending| ending != "lat")) {
        return usage("--tee writes a trace, so the name must end in .lat.".into());
    }
    let mut live = live(Some(typed.source), &typed.live())?;
    if typed.tee.is_some() && live.mode == Mode::Histogram {
        return usage("--tee needs every event; remove --mode histogram.".into());
    }
    if typed.tee.is_some() {
        live.mode = Mode::Event;
    }
    if typed.check {
        live.for_ns = Some(width_ns.max(CHECK_NS));
    }
    let probes = match typed.probe.ping[..] {
        [] => Vec::new(),
        _ => super::ping::probes(&typed.probe.words(), world)?,
    };
    if let Some(target) = typed.probe.ping.iter().find(|target| typed.probe.write && !(world.is_dir)(target.as_ref())) {
        return usage(format!("--write makes a file of its own, so --ping {target} must be a directory."));
    }
    let by = match (&typed.by[..], live.source) {
        ([], _) if !probes.is_empty() => vec![Field::Device, Field::Path, Field::Kind],
        ([], Source::Block) => vec![Field::Device, Field::Kind],
        ([], Source::Stacks(_) | Source::Beside(..)) => vec![Field::State, Field::WaitClass],
        ([], _) => vec![Field::Kind],
        (names, _) => fields("--by", names)?,
    };
    let size =
        |option: &str, text: &str| parse_size(text).map_err(|error| Failure::Usage(format!("--{option}: {error}.")));
    let backfill = size("backfill", &typed.backfill)?;
    if backfill == 0 {
        return usage("--backfill 0 would never send older intervals; give at least 1.".into());
    }
    let queue_limits = QueueLimits { bytes: size("queue-size", &typed.queue_size)?, backfill };
    let for_ns = live.for_ns;
    let live = probes.is_empty().then_some(live);
    let reading = Reading { live, filter: filter(&typed.filter.join(" "), None)?, ..Reading::default() };
    let agent = Agent {
        hubs,
        credentials,
        test_clock: typed.test_clock,
        probes,
        for_ns,
        is_check: typed.check,
        name: typed.name,
        folding: Folding { by, values_only: true, weight: Weight::Bytes, ..Folding::of_latencies(Some(width_ns)) },
        width_ns,
        most_groups: typed.max_groups,
        queue: typed.queue,
        queue_limits,
        tee: typed.tee,
        force: typed.force,
        exports: super::push::settings(&typed.exports, None)?,
    };
    Ok(Plan::Agent(reading, agent))
}
