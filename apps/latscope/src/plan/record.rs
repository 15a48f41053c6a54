//! What the words of `record` mean.

use super::folding::{column, duration};
use super::reading::{filter, live, tagging};
use super::rotation::{self, Keep, Rotate};
use super::{Plan, Reading};
use crate::{Failure, args};
use latscope_capture_bpf::Sample;
use latscope_event::FieldSet;
use std::path::PathBuf;

/// Plan of `record`.
#[derive(Debug, PartialEq)]
pub struct Recording {
    pub write: PathBuf,
    /// Whether an existing file is replaced.
    pub force: bool,
    pub rotate: Option<Rotate>,
    pub keep: Option<Keep>,
    /// Fields beyond the usual ones.
    pub with: FieldSet,
    pub command: Vec<String>,
}

/// Plans `record`.
pub fn plan(typed: args::Record) -> Result<Plan, Failure> {
    let ending = typed.write.extension().unwrap_or_default();
    let message = match (ending.to_str(), typed.source) {
        (Some("lat"), _) => None,
        (Some("scap"), args::Source::Block | args::Source::Stacks { .. } | args::Source::Beside { .. }) => {
            Some("A .scap holds system calls; use -s io or -s syscall, or write a .lat.")
        }
        (Some("scap"), _) if typed.rotate.is_some() => Some("--rotate is only available for .lat."),
        (Some("scap"), _) => None,
        _ => Some("-w writes a trace, so the name must end in .lat or .scap; use latscope convert for other formats."),
    };
    if let Some(message) = message {
        return Err(Failure::Usage(message.into()));
    }
    let mut live = live(Some(typed.source), &typed.live())?;
    if let Some(text) = &typed.sample {
        let one_in = text.strip_prefix("1/").and_then(|number| number.parse().ok()).filter(|&number: &u32| number > 0);
        let one_in = one_in.ok_or_else(|| Failure::Usage(format!("--sample {text} is not a ratio such as 1/256.")))?;
        live.sample = Some(Sample { slow_ns: duration("--only-slow", &typed.only_slow)?.unwrap_or(u64::MAX), one_in });
    }
    let keep = typed.keep.as_deref().map(rotation::keep).transpose()?;
    let tagging = tagging(&typed.tagging, true)?;
    if ending == "scap" && tagging.is_some() {
        return Err(Failure::Usage("A .scap has no tags; write a .lat.".into()));
    }
    let filter = filter(&typed.filter.join(" "), None)?;
    let reading = Reading { live: Some(live), filter, tagging, ..Reading::default() };
    let rotate = typed.rotate.as_deref().map(rotation::rotate).transpose()?;
    let with = match &typed.with[..] {
        [all] if all == "all" => FieldSet::EVERY,
        names => names.iter().map(|name| column("--with", name.trim())).collect::<Result<_, _>>()?,
    };
    let recording = Recording { write: typed.write, force: typed.force, rotate, keep, with, command: typed.command };
    Ok(Plan::Record(reading, recording))
}
