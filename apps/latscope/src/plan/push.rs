//! What the words for exports mean.

use super::folding::duration;
use crate::{Failure, args};
use latscope_wire::exports::{Settings, Target};
use std::path::PathBuf;
use std::time::Duration;

/// Where to push, and with which labels; the state of counters is kept in a file where there is one.
pub fn settings(typed: &args::Push, state: Option<PathBuf>) -> Result<Settings, Failure> {
    let target = |text: &String| Target::parse(text).map_err(|why| Failure::Usage(format!("--push {why}")));
    let label = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_string(), value.to_string())),
        _ => Err(Failure::Usage(format!("--export-label {text} is not a label such as site=berlin."))),
    };
    Ok(Settings {
        targets: typed.push.iter().map(target).collect::<Result<_, _>>()?,
        every: duration("--push-every", &typed.push_every)?.map_or(Duration::from_secs(10), Duration::from_nanos),
        ca: typed.push_ca.clone(),
        labels: typed.export_label.iter().map(label).collect::<Result<_, _>>()?,
        state,
    })
}
