//! What the words of `flamegraph` mean.

use super::folding::fields;
use super::{Reading, theme};
use crate::notes::WORDING;
use crate::world::World;
use crate::{Failure, args};
use latscope_event::Field;
use latscope_filter::Filter;
use latscope_series::StackWidth;
use latscope_view_report::{FlameColour, FlamegraphOptions};
use std::path::{Path, PathBuf};

/// Plan of `flamegraph`.
#[derive(Debug, PartialEq)]
pub struct Flamegraph {
    pub by: Vec<Field>,
    /// What was asked for; else what tells most.
    pub width: Option<StackWidth>,
    pub against: Option<Against>,
    pub options: FlamegraphOptions,
    pub output: Option<PathBuf>,
}

/// What is compared with.
#[derive(Debug, PartialEq)]
pub enum Against {
    /// Other events of the same traces.
    Filter(Filter),
    /// Another file.
    File(Box<Reading>),
}

/// Plans `flamegraph`.
pub fn plan(typed: args::Flamegraph, reading: &Reading, world: &World) -> Result<Flamegraph, Failure> {
    if !(0.0..=50.0).contains(&typed.min_share) {
        return Err(Failure::Usage("--min-share must be from 0 to 50 percent.".into()));
    }
    if !(200..=4000).contains(&typed.pixels) {
        return Err(Failure::Usage("--pixels must be from 200 to 4000.".into()));
    }
    if let Some(path) = typed.output.as_deref().filter(|path| is_of_stacks(path)) {
        let name = path.display();
        return Err(Failure::Usage(format!(
            "flamegraph writes SVG, and {name} is the name of another format; use latscope convert -w {name}, or end the name in .svg."
        )));
    }
    if reading.follow {
        return Err(Failure::Usage(
            "--follow cannot be combined with flamegraph, which needs a complete trace.".into(),
        ));
    }
    let against = match typed.against {
        None => None,
        Some(text) if (world.is_file)(Path::new(&text)) => {
            Some(Against::File(Box::new(Reading { files: vec![text.into()], live: None, ..reading.clone() })))
        }
        Some(text) => super::filter(&text, None)?.map(Against::Filter),
    };
    let options = FlamegraphOptions {
        title: typed.title,
        width: typed.pixels,
        theme: theme(typed.dark, typed.light),
        wording: WORDING,
        filter: Some(reading.filter_text()).filter(|text| !text.is_empty()),
        icicle: typed.icicle,
        colour: match typed.color {
            args::FlameColour::Kind => FlameColour::Kind,
            args::FlameColour::Latency => FlameColour::Latency,
        },
        min_share: typed.min_share / 100.0,
        ..FlamegraphOptions::default()
    };
    let by = fields("--by", &typed.by)?;
    Ok(Flamegraph { by, width: typed.width.map(width), against, options, output: typed.output })
}

/// Whether a file is named like stacks for another viewer.
fn is_of_stacks(path: &Path) -> bool {
    let endings =
        [".folded", ".pb", ".pb.gz", ".speedscope.json", ".profile.json", ".profile.json.gz", ".fxprof.json.gz"];
    path.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| endings.iter().any(|ending| name.ends_with(ending)))
}

pub fn width(typed: args::StackWidth) -> StackWidth {
    match typed {
        args::StackWidth::Time => StackWidth::Time,
        args::StackWidth::Events => StackWidth::Events,
        args::StackWidth::Samples => StackWidth::Samples,
    }
}
