//! What the words of `spectrogram` mean.

use super::Folding;
use super::folding::folding;
use super::reading::source_filter;
use crate::notes::WORDING;
use crate::{Failure, args};
use clap::ValueEnum;
use latscope_view::Palette;
use latscope_view_term::{ColorDepth, Orient, SpectrogramOptions, TimeLabels};
use std::path::PathBuf;

/// Columns of a screen.
const COLUMNS: std::ops::RangeInclusive<usize> = 20..=10_000;

/// Plan of `spectrogram`.
#[derive(Debug, PartialEq)]
pub struct Spectrogram {
    pub folding: Folding,
    pub style: Style,
    /// Columns and depth of colour are those of the terminal, where they are not given here.
    pub options: SpectrogramOptions,
    pub width: Option<usize>,
    pub depth: Option<ColorDepth>,
    /// Never the interactive screen.
    pub plain: bool,
    pub output: Option<PathBuf>,
    /// The filter as it was typed.
    pub words: String,
    /// What another filter is combined with, because of `-s`.
    pub kept: Option<String>,
    /// The command line that lists the events, without a filter; words as a shell takes them.
    pub command: Vec<String>,
}

/// What is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// A row of colour for every interval.
    Rows,
    /// The rows of sysdig's chisel, on its own columns.
    Chisel,
    /// The two maps of PyLatencyMap.
    Maps,
}

/// Plans `spectrogram`.
pub fn plan(typed: args::Spectrogram) -> Result<Spectrogram, Failure> {
    if typed.width.is_some_and(|width| !COLUMNS.contains(&width)) {
        return Err(Failure::Usage("--width must be from 20 to 10000 columns.".into()));
    }
    let folding = folding(&typed.fold, &typed.input)?;
    let options = SpectrogramOptions {
        wording: WORDING,
        orient: match typed.orient {
            args::Orient::Down => Orient::Down,
            args::Orient::Across => Orient::Across,
        },
        palette: typed.palette,
        scale: typed.scale,
        min: folding.min,
        max: folding.max,
        half_blocks: !typed.no_half_blocks,
        time: if typed.wall { TimeLabels::Wall } else { TimeLabels::Elapsed },
        ..SpectrogramOptions::default()
    };
    Ok(Spectrogram {
        style: match typed.palette {
            Palette::Sysdig => Style::Chisel,
            Palette::PyLatencyMap => Style::Maps,
            _ => Style::Rows,
        },
        options,
        width: typed.width,
        depth: match typed.color {
            args::Color::Auto => None,
            args::Color::Truecolor => Some(ColorDepth::Truecolor),
            args::Color::Ansi256 => Some(ColorDepth::Ansi256),
            args::Color::Ansi16 => Some(ColorDepth::Ansi16),
            args::Color::Never => Some(ColorDepth::Mono),
        },
        plain: typed.plain || typed.output.is_some(),
        words: typed.input.filter.join(" "),
        kept: source_filter(typed.input.source.filter(|_| !typed.input.read.is_empty())),
        command: command(&typed.input),
        folding,
        output: typed.output,
    })
}

/// The map of this input with default options.
pub fn usual(input: &args::Input) -> Spectrogram {
    Spectrogram {
        folding: Folding { over_time: true, ..Folding::of_latencies(None) },
        style: Style::Rows,
        options: SpectrogramOptions { wording: WORDING, ..SpectrogramOptions::default() },
        width: None,
        depth: None,
        plain: false,
        output: None,
        words: input.filter.join(" "),
        kept: None,
        command: command(input),
    }
}

/// The command that lists events, of what these words read.
fn command(input: &args::Input) -> Vec<String> {
    let mut words = vec!["latscope".to_string(), "events".into()];
    for file in &input.read {
        words.extend(["-r".into(), quoted(&file.display().to_string())]);
    }
    let mut option = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            words.extend([name.to_string(), quoted(&value)]);
        }
    };
    let name = |value: Option<clap::builder::PossibleValue>| value.map(|value| value.get_name().to_string());
    option("-s", input.source.map(args::Source::words));
    let files = &input.files;
    option("--format", files.format.clone());
    option("--unitstime", files.units_time.clone());
    option("--unitslat", files.units_latency.clone());
    let latency = (files.latency == args::Latency::Request).then_some(files.latency);
    option("--latency", name(latency.and_then(|latency| latency.to_possible_value())));
    option("--offsets", input.offsets.as_ref().map(|path| path.display().to_string()));
    option("--correct-omission", files.correct_omission.clone());
    option("--log-columns", files.log_columns.clone());
    for (option, given) in [("--align-starts", input.align_starts), ("--lenient", files.lenient)] {
        words.extend(given.then(|| option.to_string()));
    }
    words
}

/// A word as a shell takes it.
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,+@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text.into() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
