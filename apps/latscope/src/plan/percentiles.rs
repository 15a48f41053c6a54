//! What the words of `percentiles` mean.

use super::folding::{AUTO, folding};
use super::{Folding, Shape, is_svg, shape, theme};
use crate::Failure;
use crate::args;
use crate::notes::WORDING;
use latscope_histogram::Rule;
use latscope_series::{CountBy, Quantity, Threshold};
use latscope_view_report::PercentilesOptions;
use std::path::PathBuf;

/// What `-i auto` is content with.
const ACCURACY: f64 = 0.1;

/// Plan of `percentiles`.
#[derive(Debug, PartialEq)]
pub struct Percentiles {
    pub folding: Folding,
    /// From 0 to 100.
    pub percentiles: Vec<f64>,
    pub rule: Rule,
    /// From the events themselves, not from buckets.
    pub exact: bool,
    /// Intervals are merged until each percentile has so many events that it is within this part of its value.
    pub accuracy: Option<f64>,
    /// A line over all groups beside those of the groups.
    pub all: bool,
    pub fail_if: Option<Threshold>,
    pub shape: Shape,
    /// CSV has the columns of fio's script.
    pub fiologparser: bool,
    pub output: Option<PathBuf>,
    /// An SVG chart instead of a table.
    pub chart: Option<PercentilesOptions>,
}

/// Plans `percentiles`.
pub fn plan(typed: args::Percentiles) -> Result<Percentiles, Failure> {
    let mut folding = folding(&typed.fold, &typed.input)?;
    folding.count_by = count_by(&typed, folding.quantity)?;
    folding.values_only = true;
    refuse_ignored(&typed, is_svg(&typed.output))?;
    let fiologparser = typed.csv == Some(args::CsvLayout::Fiologparser);
    let percentiles = match &typed.percentiles {
        Some(list) if fiologparser => percentile_list("--p", &format!("50,{list}"))?,
        Some(list) => each_once(percentile_list("--p", list)?),
        None if fiologparser => vec![50.0, 90.0, 95.0, 99.0],
        None => vec![50.0, 90.0, 99.0, 99.9],
    };
    if fiologparser && !folding.by.is_empty() {
        let message = "--csv=fiologparser has no column for groups; leave out --by, or use --csv.";
        return Err(Failure::Usage(message.into()));
    }
    let fail_if = typed.fail_if.as_deref().map(Threshold::parse).transpose();
    let fail_if = fail_if.map_err(|message| Failure::Usage(format!("--fail-if: {message}.")))?;
    if folding.quantity != Quantity::Latency && fail_if.as_ref().is_some_and(Threshold::asks_what_waits) {
        let message =
            "--fail-if: what waits has an age and no other quantity yet; leave out -y, or oldest and waiting.";
        return Err(Failure::Usage(message.into()));
    }
    if typed.input.read.is_empty() && typed.exact {
        let message = "--exact needs a complete trace; record one first (latscope record) and read it with -r.";
        return Err(Failure::Usage(message.into()));
    }
    if typed.exact && typed.fold.precision.is_some() {
        return Err(Failure::Usage("--exact has no buckets; leave out --precision.".into()));
    }
    let accuracy = accuracy(&typed)?;
    let rule = match typed.percentile_rule {
        args::PercentileRule::Linear => Rule::Interpolated,
        args::PercentileRule::Fio => Rule::Fio,
    };
    let mut chart = None;
    if is_svg(&typed.output) {
        if typed.csv.is_some() || typed.json {
            return Err(Failure::Usage(
                "--csv and --json do not write pictures; end the name in .csv or .json.".into(),
            ));
        }
        chart = Some(PercentilesOptions {
            title: typed.look.title,
            width: typed.look.width,
            min: folding.min,
            max: folding.max,
            theme: theme(typed.look.dark, typed.look.light),
            percentiles: percentiles.iter().map(|percentile| percentile / 100.0).collect(),
            rule,
            level: fail_if.clone(),
            filter: (!typed.input.filter.is_empty()).then(|| typed.input.filter.join(" ")),
            wording: WORDING,
            ..PercentilesOptions::default()
        });
    }
    let table = args::Table { csv: typed.csv.is_some(), json: typed.json };
    Ok(Percentiles {
        folding,
        percentiles,
        rule,
        exact: typed.exact,
        accuracy,
        all: typed.all,
        fail_if,
        shape: shape(table, &typed.output),
        fiologparser,
        output: typed.output,
        chart,
    })
}

/// Options of other views that change nothing here.
fn refuse_ignored(typed: &args::Percentiles, draws: bool) -> Result<(), Failure> {
    let fold = &typed.fold;
    let bound = [("min", '>', &fold.min), ("max", '<', &fold.max)].into_iter().find(|(.., bound)| bound.is_some());
    match bound {
        _ if fold.weight != args::Weight::Count => {
            Err(Failure::Usage("--weight changes maps and histograms, not percentiles; leave it out.".into()))
        }
        Some((name, sign, Some(value))) if !draws => Err(Failure::Usage(format!(
            "--{name} is the end of a picture's axis, and needs -o FILE.svg; to select events, use a filter such as \
             'lat {sign} {value}'."
        ))),
        _ => Ok(()),
    }
}

/// Each percentile once, because columns are named after them.
fn each_once(list: Vec<f64>) -> Vec<f64> {
    let mut once: Vec<f64> = Vec::new();
    for percentile in list {
        if !once.contains(&percentile) {
            once.push(percentile);
        }
    }
    once
}

/// In which intervals an event counts.
fn count_by(typed: &args::Percentiles, quantity: Quantity) -> Result<CountBy, Failure> {
    let is_overlap = typed.count_by == Some(args::CountByRule::Overlap);
    // A live interval that has passed must not change any more.
    if typed.input.read.is_empty() {
        let message = "--count-by overlap cannot be used live: lines that were printed would change. Record a trace, \
                       and read it with -r.";
        return if is_overlap { Err(Failure::Usage(message.into())) } else { Ok(CountBy::Completion) };
    }
    if quantity != Quantity::Latency {
        let message = "--count-by overlap works with -y latency only.";
        return if is_overlap { Err(Failure::Usage(message.into())) } else { Ok(CountBy::CompletionInParts) };
    }
    Ok(match typed.count_by {
        Some(args::CountByRule::Completion) => CountBy::CompletionInParts,
        Some(args::CountByRule::Overlap) | None => CountBy::Overlap,
    })
}

/// How accurate the percentiles have to be, where that chooses the intervals.
fn accuracy(typed: &args::Percentiles) -> Result<Option<f64>, Failure> {
    let is_auto = typed.fold.interval.as_deref().map(|interval| interval == AUTO);
    let Some(text) = &typed.accuracy else {
        return Ok(is_auto.filter(|&auto| auto).map(|_| ACCURACY));
    };
    if is_auto == Some(false) {
        return Err(Failure::Usage("--accuracy needs -i auto.".into()));
    }
    let part = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse().map(|percent: f64| percent / 100.0),
        None => text.trim().parse(),
    };
    let part = part.ok().filter(|part| (0.001..=1.0).contains(part));
    let message = || Failure::Usage(format!("--accuracy {text} is not between 0.1% and 100%; for example, use 10%."));
    part.ok_or_else(message).map(Some)
}

/// `50,99,p99.9` as numbers from 0 to 100; `50..53` is 50, 51, 52, 53.
pub fn percentile_list(option: &str, text: &str) -> Result<Vec<f64>, Failure> {
    let one = |word: &str| {
        let number = word.trim().trim_start_matches('p').parse::<f64>().ok();
        number.filter(|number| (0.0..=100.0).contains(number)).ok_or_else(|| {
            Failure::Usage(format!("{option}: {word} is not a percentile; for example, use 50,99,99.9."))
        })
    };
    let mut list = Vec::new();
    for word in text.split(',') {
        let Some((from, to)) = word.split_once("..") else {
            list.push(one(word)?);
            continue;
        };
        let (from, to) = (one(from)?, one(to)?);
        if from > to {
            return Err(Failure::Usage(format!("{option}: {word} is reversed; write the smaller percentile first.")));
        }
        list.extend((0..=100).map(|step| from + f64::from(step)).take_while(|&percentile| percentile <= to));
    }
    Ok(list)
}
