//! `latscope events`.

mod kept;

use super::output::{self, Output};
use super::reports;
use crate::Failure;
use crate::plan::{Events, Reading, Shape};
use kept::{Kept, MOST_BYTES};
use latscope_capture_bpf::usual;
use latscope_event::{
    Batch, Clock, Column, Context, Field, FieldSet, FieldType, MISSING_CODE, MISSING_I64, MISSING_U64, Mask,
    format_count, format_duration_exact, format_size,
};
use latscope_pipeline::Pipeline;
use latscope_view_report::rows::{self, RowColumn, Wall};
use latscope_view_term::{Align, Table};
use std::io::{self, Write};
use std::ops::ControlFlow;

/// What most rows of a live capture have, so that a column is shown whatever the first rows are.
const USUAL: FieldSet = FieldSet::ALWAYS.with(&[
    Field::Kind,
    Field::Name,
    Field::Size,
    Field::Offset,
    Field::Device,
    Field::Pid,
    Field::Tid,
    Field::Comm,
]);
/// So many rows decide how wide the columns of a text table are at first.
const BLOCK: usize = 500;

pub fn run(pipeline: &Pipeline, plan: &Events) -> Result<(), Failure> {
    let reading = pipeline.reading();
    reports::ends_by_signal(reading);
    let wanted = match &plan.columns {
        Some(columns) => columns.iter().filter_map(|&column| field_of(column)).collect(),
        None => reading.live.as_ref().map_or(FieldSet::EVERY, |live| usual(live.source)),
    };
    let out = output::open(plan.output.as_deref())?;
    let is_watched = pipeline.is_watched();
    let out = out.growing_with(reading);
    let fills = reading.live.as_ref().map_or(FieldSet::ALWAYS, |live| usual(live.source));
    let mut printer = Printer {
        plan,
        out,
        fills,
        live: reading.live.is_some(),
        table: None,
        columns: Vec::new(),
        trace_start_ns: None,
        lacks_wall: false,
    };
    let mut kept = Kept::new(plan.top, MOST_BYTES);
    let (mut read, mut passed) = (0, 0);
    let contexts = pipeline.each_batch(wanted, |context, batch, mask, _| {
        read += batch.len() as u64;
        passed += mask.map_or(batch.len() as u64, |mask| mask.ones().count() as u64);
        let done = if plan.top.is_some() || plan.sort.is_some() {
            if let Err(failure) = kept.add(batch, mask, plan.sort) {
                return ControlFlow::Break(failure);
            }
            Ok(())
        } else {
            // What is watched has to be seen at once.
            let printed = printer.print(context, batch, mask);
            if is_watched { printed.and_then(|()| printer.out.flush()) } else { printed }
        };
        match done {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Failure::output(&error)),
        }
    })?;
    let written = match contexts.first() {
        Some(context) if contexts.iter().any(|other| other.clock != context.clock) => {
            // Rows of several clocks are mixed here: none of them is right for all.
            let mixed = Context { clock: Clock::unanchored("several"), ..context.clone() };
            kept.into_batches().iter().try_for_each(|batch| printer.print(&mixed, batch, None))
        }
        Some(context) => kept.into_batches().iter().try_for_each(|batch| printer.print(context, batch, None)),
        None => Ok(()),
    };
    let lacks_wall = printer.lacks_wall;
    let written = written.and_then(|()| printer.head_of_nothing());
    written.and_then(|()| printer.finish()).map_err(|error| Failure::output(&error))?;
    if passed == 0 {
        say!("latscope: {}", nothing_passed(reading, read));
    }
    if lacks_wall {
        say!("latscope: wall is missing where the relation of a trace's clock to wall-clock time is unknown.");
    }
    reports::say_notes(&contexts);
    Ok(())
}

/// Why nothing was listed.
fn nothing_passed(reading: &Reading, read: u64) -> String {
    match &reading.filter {
        Some(_) if read > 0 && reading.live.is_none() => {
            let events = if read == 1 { "event" } else { "events" };
            format!("0 of {} {events} passed the filter.", format_count(read))
        }
        // What the kernel has tested already is not counted.
        Some(_) if reading.live.is_some() => "No event passed the filter.".into(),
        _ => "No events to show.".into(),
    }
}

struct Printer<'a> {
    plan: &'a Events,
    out: Output,
    /// What the source can fill, as far as is known.
    fills: FieldSet,
    live: bool,
    table: Option<Table>,
    columns: Vec<RowColumn>,
    trace_start_ns: Option<i64>,
    /// A row was shown whose wall-clock time nobody knows.
    lacks_wall: bool,
}

impl Printer<'_> {
    fn print(&mut self, context: &Context, batch: &Batch, mask: Option<&Mask>) -> io::Result<()> {
        if batch.is_empty() || mask.is_some_and(|mask| mask.ones().next().is_none()) {
            // The columns are chosen by what the first rows that are shown have.
            self.fills = self.fills.union(batch.fields());
            return Ok(());
        }
        let first = self.columns.is_empty();
        if first {
            self.columns = self.choose_columns(batch, mask);
        }
        for column in &mut self.columns {
            if let RowColumn::Wall(wall) = column {
                *wall = Wall::from(&context.clock);
                self.lacks_wall |= wall.to_unix_ns.is_none();
            }
        }
        match self.plan.shape {
            Shape::Json => rows::write_json_lines(&mut self.out, batch, mask, &self.columns),
            Shape::Csv => {
                if first {
                    rows::write_csv_header(&mut self.out, &self.columns)?;
                }
                rows::write_csv_rows(&mut self.out, batch, mask, &self.columns)
            }
            Shape::Text => self.print_text(context, batch, mask),
        }
    }

    /// The columns of all rows to come: those asked for, else what a program may find in any row, or a person in most.
    fn choose_columns(&self, batch: &Batch, mask: Option<&Mask>) -> Vec<RowColumn> {
        if let Some(columns) = &self.plan.columns {
            return columns.clone();
        }
        let text = self.plan.shape == Shape::Text;
        // The first request of a live capture may have started before it: its issuer is not known, that of others is.
        let expected = match (self.live, text) {
            (false, _) => FieldSet::default(),
            (true, true) => self.fills.intersection(USUAL),
            (true, false) => self.fills,
        };
        // A person who does not ask for the model of the disk in every row does not need it there.
        let present = batch.fields().iter().filter(|&field| !text || worth_a_column(batch, mask, field));
        let present = present.filter(|field| !text || ![Field::DiskModel, Field::Rotational].contains(field));
        expected.union(present.collect()).iter().map(RowColumn::Field).collect()
    }

    /// A table without rows still has its columns.
    fn head_of_nothing(&mut self) -> io::Result<()> {
        if self.plan.shape != Shape::Csv || !self.columns.is_empty() {
            return Ok(());
        }
        let columns = self.plan.columns.clone().unwrap_or_else(|| self.fills.iter().map(RowColumn::Field).collect());
        rows::write_csv_header(&mut self.out, &columns)
    }

    fn print_text(&mut self, context: &Context, batch: &Batch, mask: Option<&Mask>) -> io::Result<()> {
        let trace_start_ns = *self.trace_start_ns.get_or_insert(context.trace_start_ns().unwrap_or(0));
        let rows: Vec<usize> = (0..batch.len()).filter(|&row| mask.is_none_or(|mask| mask.get(row))).collect();
        for block in rows.chunks(BLOCK) {
            let heading = self.table.is_none();
            let columns = &self.columns;
            let table = self.table.get_or_insert_with(|| {
                Table::new(columns.iter().map(|&column| match field_of(column).map(Field::field_type) {
                    Some(FieldType::Text) => (title(column), Align::Left),
                    _ => (title(column), Align::Right),
                }))
            });
            for &row in block {
                table.push(columns.iter().map(|&column| cell(batch, column, row, trace_start_ns)).collect());
            }
            let width =
                if output::to_terminal(&self.plan.output) { output::columns(&self.plan.output) } else { 10_000 };
            let heading = heading.then(|| table.heading(width));
            heading.into_iter().chain(table.take_lines(width)).try_for_each(|line| self.out.lines([&line]))?;
        }
        Ok(())
    }

    fn finish(self) -> io::Result<()> {
        self.out.finish().map(drop)
    }
}

/// A column without a single value would only take room.
fn worth_a_column(batch: &Batch, mask: Option<&Mask>, field: Field) -> bool {
    let Some(column) = batch.column(field) else { return false };
    let has_value = |row: usize| match column {
        Column::I64(values) => values[row] != MISSING_I64,
        Column::U64(values) => values[row] != MISSING_U64,
        Column::Text(codes) => codes[row] != MISSING_CODE,
    };
    (0..batch.len()).any(|row| mask.is_none_or(|mask| mask.get(row)) && has_value(row))
}

/// The heading of a column of text output, which has units in its cells.
fn title(column: RowColumn) -> String {
    column.name().trim_end_matches("_ns").to_string()
}

/// The column of the events that it is, if it is one.
fn field_of(column: RowColumn) -> Option<Field> {
    if let RowColumn::Field(field) = column { Some(field) } else { None }
}

/// Seconds since the trace started, as the filter takes them: +5s.
fn since_start(time_ns: i64, trace_start_ns: i64) -> String {
    let since = i128::from(time_ns) - i128::from(trace_start_ns);
    let sign = if since < 0 { '-' } else { '+' };
    let since = since.unsigned_abs();
    format!("{sign}{}.{:06}s", since / 1_000_000_000, since % 1_000_000_000 / 1000)
}

fn cell(batch: &Batch, column: RowColumn, row: usize, trace_start_ns: i64) -> String {
    let end_ns = || rows::end_ns(batch, row);
    match column {
        RowColumn::Field(field) => field_cell(batch, field, row, trace_start_ns),
        RowColumn::End => end_ns().map_or("-".into(), |end_ns| since_start(end_ns, trace_start_ns)),
        RowColumn::Wall(wall) => end_ns().and_then(|end_ns| wall.text(end_ns)).unwrap_or("-".into()),
    }
}

fn field_cell(batch: &Batch, field: Field, row: usize, trace_start_ns: i64) -> String {
    match batch.column(field) {
        Some(Column::I64(values)) if values[row] != MISSING_I64 => {
            let value = values[row];
            if field.field_type() == FieldType::Time { since_start(value, trace_start_ns) } else { value.to_string() }
        }
        Some(Column::U64(values)) if values[row] != MISSING_U64 => match field {
            Field::Offset => values[row].to_string(),
            _ if field.field_type() == FieldType::Bytes => format_size(values[row]),
            _ => format_duration_exact(values[row]),
        },
        Some(Column::Text(_)) => batch.text(field, row).unwrap_or("-").to_string(),
        _ => "-".into(),
    }
}
