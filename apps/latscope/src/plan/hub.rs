//! What the words of `hub` mean.

use super::folding::duration;
use crate::{Failure, args};
use latscope_event::parse_size;
use latscope_wire::exports::Settings;
use latscope_wire::history::Level;
use latscope_wire::{Address, Credentials, Limits};
use std::path::PathBuf;
use std::time::Duration;

/// Plan of `hub`.
#[derive(Debug, PartialEq)]
pub struct Hub {
    pub listen: Address,
    pub credentials: Credentials,
    /// Where everything on disk is.
    pub data: Option<PathBuf>,
    /// How long the history is kept.
    pub keep: Vec<Level>,
    /// How long a file of the journal is written.
    pub file_time: Duration,
    pub limits: Limits,
    pub for_time: Option<Duration>,
    pub exports: Settings,
    /// Where who scrapes is answered.
    pub metrics: Option<Address>,
    /// The file of alerts; without it, those that are built in.
    pub alerts: Option<PathBuf>,
}

/// Plans `hub`.
pub fn plan(typed: args::Hub) -> Result<Hub, Failure> {
    let listen = Address::parse(&typed.listen).map_err(|why| Failure::Usage(format!("--listen {why}")))?;
    let credentials = typed.credentials.files();
    let is_encrypted = credentials.encrypt_to_agents().map_err(|why| Failure::Usage(format!("{why}.")))?;
    match (&listen, is_encrypted) {
        (Address::Unix(_), true) => {
            return Err(Failure::Usage("A socket file is not encrypted: remove --cert, or listen on a port.".into()));
        }
        (address, false) if !address.is_local() => {
            return Err(Failure::Usage(format!(
                "--listen {address} can be reached by other machines, which needs TLS: give --cert and --key, and --ca or --token-file."
            )));
        }
        _ => {}
    }
    let memory = parse_size(&typed.memory).map_err(|error| Failure::Usage(format!("--memory: {error}.")))?;
    let limits = Limits {
        keep_ns: duration("--recent", &typed.recent)?.unwrap_or(3_600_000_000_000),
        memory_bytes: usize::try_from(memory).unwrap_or(usize::MAX),
        grace_ns: duration("--grace", &typed.grace)?.unwrap_or(2_000_000_000),
    };
    let metrics = typed.metrics.as_ref().map(|text| Address::parse(text));
    let metrics = metrics.transpose().map_err(|why| Failure::Usage(format!("--metrics {why}")))?;
    if let Some(address) = metrics.as_ref().filter(|address| !address.is_local()) {
        return Err(Failure::Usage(format!(
            "--metrics {address} is not an address of this machine, and metrics are not encrypted; use 127.0.0.1:PORT or unix:PATH."
        )));
    }
    let state = typed.data.as_ref().map(|folder| folder.join("export.json"));
    Ok(Hub {
        listen,
        credentials,
        data: typed.data,
        keep: typed.keep.iter().map(|text| level(text)).collect::<Result<_, _>>()?,
        file_time: Duration::from_nanos(
            duration("--test-file-time", &typed.test_file_time)?.unwrap_or(600_000_000_000),
        ),
        limits,
        exports: super::push::settings(&typed.exports, state)?,
        metrics,
        alerts: typed.alerts.alerts,
        for_time: duration("--for", &typed.for_)?.map(Duration::from_nanos),
    })
}

/// Of `10s=14d`.
fn level(text: &str) -> Result<Level, Failure> {
    let fail = || {
        Failure::Usage(format!(
            "--keep {text}: give the length of intervals and how long they are kept, such as 10s=14d."
        ))
    };
    let (width, keep) = text.split_once('=').ok_or_else(fail)?;
    let length = |text: &str| duration("--keep", &Some(text.to_string()))?.ok_or_else(fail);
    let level = Level { width_ns: length(width)?, keep_ns: length(keep)? };
    if level.width_ns < 100_000_000 { Err(fail()) } else { Ok(level) }
}
