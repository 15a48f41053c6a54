//! What the words of `stacks` mean.

use super::flamegraph::width;
use super::folding::{duration, fields};
use super::{Mode, Reading, Shape, Spectrogram, shape, spectrogram};
use crate::{Failure, args};
use latscope_event::Field;
use latscope_series::StackWidth;
use std::path::PathBuf;

/// Plan of `stacks`.
#[derive(Debug, PartialEq)]
pub struct Stacks {
    pub by: Vec<Field>,
    /// What was asked for; else what tells most.
    pub width: Option<StackWidth>,
    pub top: usize,
    pub full: bool,
    /// How often the stacks so far are printed, nanoseconds.
    pub every_ns: Option<u64>,
    pub shape: Shape,
    pub output: Option<PathBuf>,
    /// The map behind the interactive table, which a terminal gets where nothing else is asked for.
    pub map: Option<Box<Spectrogram>>,
}

/// Plans `stacks`.
pub fn plan(typed: args::Stacks, reading: &mut Reading) -> Result<Stacks, Failure> {
    if typed.input.follow {
        return Err(Failure::Usage("--follow cannot be combined with stacks, which needs a complete trace.".into()));
    }
    let shape = shape(typed.table, &typed.output);
    let every_ns = duration("-i", &typed.interval)?;
    if every_ns.is_some() && shape != Shape::Text {
        return Err(Failure::Usage("-i prints tables as text; leave --json and --csv out.".into()));
    }
    let live = reading.live.as_mut().filter(|live| live.for_ns.is_none());
    let is_plain = every_ns.is_some() || shape != Shape::Text || typed.output.is_some();
    let map = live.filter(|_| !is_plain).map(|live| {
        if live.mode == Mode::Auto {
            // Only single events have stacks.
            live.mode = Mode::Event;
        }
        Box::new(spectrogram::usual(&typed.input))
    });
    Ok(Stacks {
        map,
        by: fields("--by", &typed.by)?,
        width: typed.width.map(width),
        top: typed.top,
        full: typed.full,
        every_ns,
        shape,
        output: typed.output,
    })
}
