//! `latscope convert`.

use super::output::{self, Output};
use super::reports;
use crate::plan::{Conversion, Folding, Reading, Target};
use crate::{Failure, notes};
use latscope_capture_file::{
    LatWriter, ParquetWriter, ScapWriter, SeriesHeader, SeriesRow, write_frames, write_hlog, write_pylatencymap,
    write_series_parquet,
};
use latscope_event::{Batch, Clock, Context, Field, FieldSet, MISSING_CODE, Mask, NO_STACK};
use latscope_pipeline::{Pipeline, keep_passing, refuse_stacks};
use latscope_series::{CountBy, Quantity, StackWidth, Weight};
use latscope_view_report::firefox::{self, FirefoxProfile};
use latscope_view_report::rows;
use latscope_view_report::stack_files::{self, StackTotals, StackWeight};
use std::io;
use std::ops::ControlFlow;

pub fn run(pipeline: &Pipeline, conversion: &Conversion) -> Result<(), Failure> {
    if !conversion.force {
        output::refuse_existing(&conversion.write)?;
    }
    reports::ends_by_signal(pipeline.reading());
    match &conversion.series {
        Some(folding) => series(pipeline, folding, conversion),
        None if !conversion.dimensions.is_empty() => divided_stacks(pipeline, conversion),
        None if conversion.target.is_stacks() => stacks(pipeline, conversion),
        None => events(pipeline, conversion),
    }
}

/// A writer of any target, opened with the first batch, when it is known which fields there are.
enum Writer {
    Lat(LatWriter<Output>),
    Parquet(ParquetWriter<Output>),
    Scap(ScapWriter<Output>),
    Rows(Output, Vec<Field>),
}

impl Writer {
    fn open(conversion: &Conversion, is_live: bool, fields: FieldSet, context: &Context) -> Result<Writer, Failure> {
        let out = output::open(Some(&conversion.write))?;
        let fail = |error: io::Error| Failure::output(&error);
        // A capture that is ended the hard way leaves what it has.
        let out = if is_live { out.growing() } else { out };
        Ok(match conversion.target {
            Target::Lat => Writer::Lat(LatWriter::create(out, fields, context).map_err(fail)?),
            Target::Parquet => Writer::Parquet(ParquetWriter::create(out, fields).map_err(fail)?),
            Target::Scap => Writer::Scap(ScapWriter::create(out, context).map_err(fail)?),
            Target::JsonLines => Writer::Rows(out, fields.iter().collect()),
            Target::Hlog | Target::Frames | Target::PyLatencyMap => unreachable!("planned as histograms"),
            Target::Folded | Target::Pprof | Target::Speedscope | Target::Firefox => unreachable!("written as stacks"),
            Target::Csv => {
                let (mut out, fields) = (out, fields.iter().collect::<Vec<_>>());
                rows::write_csv_header(&mut out, &fields).map_err(fail)?;
                Writer::Rows(out, fields)
            }
        })
    }

    fn write(&mut self, target: Target, batch: &Batch, mask: Option<&Mask>) -> io::Result<()> {
        match self {
            Writer::Lat(writer) => writer.write(batch, mask),
            Writer::Parquet(writer) => writer.write(batch, mask),
            Writer::Scap(writer) => writer.write(batch, mask),
            Writer::Rows(out, fields) if target == Target::Csv => rows::write_csv_rows(out, batch, mask, fields),
            Writer::Rows(out, fields) => rows::write_json_lines(out, batch, mask, fields),
        }
    }

    fn finish(self, context: &Context) -> io::Result<()> {
        let out = match self {
            Writer::Lat(writer) => writer.finish(context)?,
            Writer::Parquet(writer) => writer.finish(context)?,
            Writer::Scap(writer) => writer.finish(context)?,
            Writer::Rows(out, _) => out,
        };
        out.finish().map(drop)
    }
}

fn events(pipeline: &Pipeline, conversion: &Conversion) -> Result<(), Failure> {
    let reading = pipeline.reading();
    let (is_live, mut writer) = (reading.live.is_some(), None::<(Writer, FieldSet, String)>);
    let mut contexts = pipeline.each_batch(FieldSet::EVERY, |context, batch, mask, _| {
        let opened = match &mut writer {
            Some(opened) => opened,
            none => match Writer::open(conversion, is_live, batch.fields(), context) {
                Ok(opened) => none.insert((opened, batch.fields(), context.source.clone())),
                Err(failure) => return ControlFlow::Break(failure),
            },
        };
        if opened.1.union(batch.fields()) != opened.1 {
            return ControlFlow::Break(unlike_columns(&opened.2, opened.1, &context.source, batch.fields()));
        }
        match opened.0.write(conversion.target, batch, mask) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Failure::output(&error)),
        }
    })?;
    refuse_part(reading)?;
    contexts.iter_mut().for_each(|context| keep_passing(reading, context));
    let mut context = Context::merged(&contexts);
    if let Some(filter) = &reading.filter {
        context.properties.insert("filter".into(), filter.to_string());
    }
    let writer = match writer {
        Some((writer, ..)) => writer,
        None => {
            Writer::open(conversion, is_live, FieldSet::ALWAYS, &Context::new("nothing", Clock::unanchored("none")))?
        }
    };
    writer.finish(&context).map_err(|error| Failure::output(&error))?;
    let waiting = context.unfinished.iter().filter(|request| request.counts()).count() as u64;
    if waiting > 0 && !matches!(conversion.target, Target::Lat | Target::Parquet) {
        let are = if waiting == 1 { "is" } else { "are" };
        say!(
            "latscope: {} without an end {are} not in the file: .lat and .parquet keep what waits.",
            notes::plural(waiting, "event")
        );
    }
    reports::say_notes(&contexts);
    notes::detail(&context).iter().for_each(|detail| say!("latscope: {}: {detail}", context.source));
    Ok(())
}

fn stacks(pipeline: &Pipeline, conversion: &Conversion) -> Result<(), Failure> {
    let (mut totals, mut has_stacks) = (StackTotals::default(), false);
    let mut profile = (conversion.target == Target::Firefox).then(FirefoxProfile::default);
    let fields = if profile.is_some() { firefox::FIELDS } else { stack_files::FIELDS };
    let mut add = |batch: &Batch, mask: Option<&Mask>, is_waiting: bool| {
        has_stacks |= batch.codes(Field::Stack).is_some_and(|codes| codes.iter().any(|&code| code != MISSING_CODE));
        match &mut profile {
            Some(profile) => profile.add(batch, mask),
            None if is_waiting => totals.add_waiting(batch, mask),
            None => totals.add(batch, mask),
        }
    };
    let contexts = pipeline.each_batch(fields, |_, batch, mask, _| {
        add(batch, mask, false);
        ControlFlow::<Failure>::Continue(())
    })?;
    refuse_part(pipeline.reading())?;
    let mut waiting = 0;
    pipeline.each_passing_waiter(&contexts, fields, |batch, mask| {
        // Without a stack as well: the total is that of all events, as with --by.
        waiting += mask.map_or(batch.len(), Mask::count);
        add(batch, mask, true);
    })?;
    if !has_stacks {
        let message = "No event has a call stack; record with perf record -g, or give the stacks to another format.";
        return Err(Failure::Input(message.into()));
    }
    if let Some(profile) = &mut profile {
        let mut out = output::open(Some(&conversion.write))?;
        let written = profile.write(&mut out, &Context::merged(&contexts));
        if profile.left_out > 0 {
            say!("latscope: {} events had no room in the profile; filter them, or write a .pb.gz.", profile.left_out);
        }
        written.and_then(|()| out.finish()).map_err(|error| Failure::output(&error))?;
    } else {
        write_totals(conversion, &totals, &contexts)?;
    }
    say_waiting(waiting as u64);
    reports::say_notes(&contexts);
    Ok(())
}

/// Stacks whose outermost frames are values of fields, as in a flame graph.
fn divided_stacks(pipeline: &Pipeline, conversion: &Conversion) -> Result<(), Failure> {
    let (tree, contexts) = pipeline.stacks(&conversion.dimensions)?;
    refuse_part(pipeline.reading())?;
    refuse_stacks(&tree, StackWidth::Events)?;
    let mut totals = StackTotals::default();
    for (at, node) in tree.nodes().iter().enumerate().filter(|(_, node)| node.own.samples > 0) {
        let frames = tree.path(at as u32).into_iter().map(|at| &tree.nodes()[at as usize]);
        // A value may hold what separates frames.
        let frames: Vec<String> = frames
            .map(|node| match tree.is_dimension(node) {
                true => tree.name(node).replace(';', ":"),
                false => tree.name(node).to_string(),
            })
            .collect();
        totals.insert(&frames.join(";"), node.own.events, node.own.time_ns, node.own.waiting > 0);
    }
    if tree.without().samples > 0 {
        let without = tree.without();
        totals.insert(NO_STACK, without.events, without.time_ns, without.waiting > 0);
    }
    write_totals(conversion, &totals, &contexts)?;
    if tree.cut() > 0 {
        say!("latscope: {} stacks were too deep, or too many, and are shortened.", tree.cut());
    }
    say_waiting(tree.total().waiting + tree.without().waiting);
    reports::say_notes(&contexts);
    Ok(())
}

fn write_totals(conversion: &Conversion, totals: &StackTotals, contexts: &[Context]) -> Result<(), Failure> {
    if conversion.target == Target::Folded && conversion.weight == StackWeight::Time && !totals.has_time() {
        let message = "The stacks are counted without times, so no line would have a weight; use --weight events.";
        return Err(Failure::Input(message.into()));
    }
    let mut out = output::open(Some(&conversion.write))?;
    let written = match conversion.target {
        Target::Pprof => totals.write_pprof(&mut out),
        Target::Speedscope => totals.write_speedscope(&mut out, &Context::merged(contexts).source),
        _ => totals.write_folded(&mut out, conversion.weight),
    };
    written.and_then(|()| out.finish()).map_err(|error| Failure::output(&error))?;
    Ok(())
}

fn say_waiting(waiting: u64) {
    match waiting {
        0 => {}
        1 => say!("latscope: 1 event had not ended and counts with its age so far."),
        _ => say!("latscope: {waiting} events had not ended and count with their age so far."),
    }
}

/// A part of a file or a pipe is no conversion of it; a capture ends by a signal as a rule.
fn refuse_part(reading: &Reading) -> Result<(), Failure> {
    if reading.live.is_none() { reports::refuse_interrupted() } else { Ok(()) }
}

/// A later file has columns that the first one lacks.
fn unlike_columns(first: &str, columns: FieldSet, other: &str, others: FieldSet) -> Failure {
    let more: Vec<&str> = others.iter().filter(|&field| !columns.contains(field)).map(Field::name).collect();
    // The format stands before the path.
    let named = |source: &str| match source.split_once(", ") {
        Some((format, path)) => format!("{path} ({format})"),
        None => source.into(),
    };
    Failure::Usage(format!(
        "The files have different columns and cannot be written to one file: {} has {}, {} does not; convert them \
         separately.",
        named(other),
        more.join(", "),
        named(first)
    ))
}

fn series(pipeline: &Pipeline, folding: &Folding, conversion: &Conversion) -> Result<(), Failure> {
    // Where sizes are known, the sum of what was moved goes with each histogram.
    let with_bytes = folding.weight == Weight::Count
        && folding.quantity == Quantity::Latency
        && folding.count_by == CountBy::Completion
        && matches!(conversion.target, Target::Frames | Target::Parquet)
        && pipeline.stored_file().is_none()
        && pipeline.has_sizes();
    let weight = if with_bytes { Weight::Bytes } else { folding.weight };
    let (series, mut contexts) = pipeline.series(&Folding { weight, ..folding.clone() }, 600)?;
    refuse_part(pipeline.reading())?;
    reports::say_groups(&series);
    if series.is_of_runs() && conversion.target != Target::Hlog {
        let message = "Parquet series, frames and records of PyLatencyMap need intervals of equal length, but these histograms cover whole \
                       jobs; write a .hlog.";
        return Err(Failure::Usage(message.into()));
    }
    contexts.iter_mut().for_each(|context| keep_passing(pipeline.reading(), context));
    let header = SeriesHeader {
        group_fields: series.by.iter().map(|field| field.name().to_string()).collect(),
        value: series.quantity.word().into(),
        weight: folding.weight.word().into(),
    };
    let rows = series.slices().iter().flat_map(|(&interval, slice)| {
        let series = &series;
        slice.groups.iter().map(move |(group, sparse)| SeriesRow {
            time_ns: series.span_of(interval, Some(*group)).0,
            width_ns: series.span_of(interval, Some(*group)).1,
            groups: series.groups()[*group as usize].clone().into(),
            histogram: if with_bytes { sparse.clone().with_weights_as_bytes() } else { sparse.clone() },
            waiting: None,
        })
    });
    let out = output::open(Some(&conversion.write))?;
    let context = Context::merged(&contexts);
    let written = match conversion.target {
        Target::Hlog => write_hlog(out, &context, rows),
        Target::Frames => write_frames(out, &header, &context, series.width_ns(), rows),
        Target::PyLatencyMap => write_pylatencymap(out, &context, rows),
        _ => write_series_parquet(out, &header, &context, rows),
    };
    written.and_then(Output::finish).map_err(|error| Failure::output(&error))?;
    reports::say_notes(&contexts);
    Ok(())
}
