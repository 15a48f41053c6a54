//! `latscope convert`.

use super::{output, read};
use crate::Failure;
use crate::plan::{Conversion, Folding, Reading, Target};
use latscope_capture_file::{LatWriter, ParquetWriter, SeriesHeader, SeriesRow, write_hlog, write_series_parquet};
use latscope_event::{Batch, Clock, Context, Field, FieldSet, Mask};
use latscope_view_report::rows;
use std::io::{self, Write};
use std::ops::ControlFlow;

pub fn run(reading: &Reading, conversion: &Conversion) -> Result<(), Failure> {
    for file in &reading.files {
        // Opening the output would empty the input before it is read.
        if same_file(file, &conversion.write) {
            return Err(Failure::Usage(format!("{} is read and written at once; write another file.", file.display())));
        }
    }
    match &conversion.series {
        Some(folding) => series(reading, folding, conversion),
        None => events(reading, conversion),
    }
}

fn same_file(a: &std::path::Path, b: &std::path::Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// A writer of any target, opened with the first batch, when it is known which fields there are.
enum Writer {
    Lat(LatWriter<Box<dyn Write + Send>>),
    Parquet(ParquetWriter<Box<dyn Write + Send>>),
    Rows(Box<dyn Write + Send>, Vec<Field>),
}

impl Writer {
    fn open(conversion: &Conversion, fields: FieldSet, context: &Context) -> Result<Writer, Failure> {
        let out = output::open(Some(&conversion.write))?;
        let fail = |error: io::Error| Failure::output(&error);
        Ok(match conversion.target {
            Target::Lat => Writer::Lat(LatWriter::create(out, fields, context).map_err(fail)?),
            Target::Parquet => Writer::Parquet(ParquetWriter::create(out, fields).map_err(fail)?),
            Target::JsonLines => Writer::Rows(out, fields.iter().collect()),
            Target::Hlog => unreachable!("planned as histograms"),
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
            Writer::Rows(out, fields) if target == Target::Csv => rows::write_csv_rows(out, batch, mask, fields),
            Writer::Rows(out, fields) => rows::write_json_lines(out, batch, mask, fields),
        }
    }

    fn finish(self, context: &Context) -> io::Result<()> {
        match self {
            Writer::Lat(writer) => writer.finish(context)?.flush(),
            Writer::Parquet(writer) => writer.finish(context)?.flush(),
            Writer::Rows(mut out, _) => out.flush(),
        }
    }
}

fn events(reading: &Reading, conversion: &Conversion) -> Result<(), Failure> {
    let mut writer: Option<(Writer, FieldSet)> = None;
    let contexts = read::each_batch(reading, FieldSet::EVERY, |context, batch, mask, _| {
        let opened = match &mut writer {
            Some(opened) => opened,
            none => match Writer::open(conversion, batch.fields(), context) {
                Ok(opened) => none.insert((opened, batch.fields())),
                Err(failure) => return ControlFlow::Break(failure),
            },
        };
        if opened.1.union(batch.fields()) != opened.1 {
            return ControlFlow::Break(Failure::Usage(
                "The files have different columns and do not fit into one; convert them one by one.".into(),
            ));
        }
        match opened.0.write(conversion.target, batch, mask) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Failure::output(&error)),
        }
    })?;
    let mut context = Context::merged(&contexts);
    if let Some(filter) = &reading.filter {
        context.properties.insert("filter".into(), filter.to_string());
    }
    let writer = match writer {
        Some((writer, _)) => writer,
        None => Writer::open(conversion, FieldSet::ALWAYS, &Context::new("nothing", Clock::unanchored("none")))?,
    };
    writer.finish(&context).map_err(|error| Failure::output(&error))?;
    read::say_notes(&contexts);
    Ok(())
}

fn series(reading: &Reading, folding: &Folding, conversion: &Conversion) -> Result<(), Failure> {
    let (series, contexts) = read::series(reading, folding, 600)?;
    let header = SeriesHeader {
        group_fields: series.by.iter().map(|field| field.name().to_string()).collect(),
        value: series.quantity.word().into(),
        weight: series.weight.word().into(),
    };
    let rows = series.slices().iter().flat_map(|(&interval, slice)| {
        let series = &series;
        slice.groups.iter().map(move |(group, sparse)| SeriesRow {
            time_ns: series.start_ns(interval),
            width_ns: series.width_ns(),
            groups: series.groups()[*group as usize].clone().into(),
            histogram: sparse.clone(),
        })
    });
    let out = output::open(Some(&conversion.write))?;
    let context = Context::merged(&contexts);
    let written = match conversion.target {
        Target::Hlog => write_hlog(out, &context, rows),
        _ => write_series_parquet(out, &header, &context, rows),
    };
    written.and_then(|mut out| out.flush()).map_err(|error| Failure::output(&error))
}
