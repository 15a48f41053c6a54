//! `latscope explain`.

use super::{output, reports};
use crate::Failure;
use crate::notes::WORDING;
use crate::plan::{Explain as Plan, Shape};
use latscope_capture_bpf::usual;
use latscope_event::{Context, Field, FieldSet, Mask};
use latscope_filter::Filter;
use latscope_pipeline::{Marked, Pipeline, refuse_averages};
use latscope_series::explain::{ExplainOptions, Side, Table};
use latscope_view_term::{ExplanationView, SpotsView};
use std::ops::ControlFlow;

pub fn run(pipeline: &Pipeline, plan: &Plan) -> Result<(), Failure> {
    reports::ends_by_signal(pipeline.reading());
    let gathered = gather(pipeline, plan)?;
    gathered.contexts.iter().try_for_each(refuse_averages)?;
    match plan.selection.is_some() || pipeline.reading().files.len() == 2 {
        true => explain_selection(pipeline, plan, gathered),
        false => explain_spots(pipeline, plan, gathered),
    }
}

/// Finds what is unusual by itself.
fn explain_spots(pipeline: &Pipeline, plan: &Plan, mut gathered: Gathered) -> Result<(), Failure> {
    let spots = gathered.table.spots(plan.seed);
    let within = pipeline.reading().filter.as_ref().map(ToString::to_string).unwrap_or_default();
    let view = SpotsView { spots: &spots, total: gathered.table.total(), within, seed: plan.seed };
    if plan.shape == Shape::Json {
        return print_json(plan, &gathered.contexts, &view.json());
    }
    let context = Context::merged(&gathered.contexts);
    output::lines(plan.output.as_deref(), view.lines(&context, WORDING, output::columns(&plan.output)))
}

/// Prints JSON, and on standard error what it has no place for.
fn print_json(plan: &Plan, contexts: &[Context], json: &str) -> Result<(), Failure> {
    reports::say_notes(contexts);
    output::text(plan.output.as_deref(), &format!("{json}\n"))
}

/// The events, and on which side each is.
struct Gathered {
    table: Table,
    sides: Vec<Side>,
    contexts: Vec<Context>,
}

/// Reads all events with all their fields.
fn gather(pipeline: &Pipeline, plan: &Plan) -> Result<Gathered, Failure> {
    let reading = pipeline.reading();
    let all = reading.live.as_ref().map_or(FieldSet::EVERY, |live| usual(live.source)).union(FieldSet::DERIVED);
    let fields = Table::fields(plan.columns.unwrap_or(all));
    let filters: Vec<&Filter> = plan.selection.iter().chain(&plan.against).collect();
    let are_sides = plan.selection.is_none();
    let (mut table, mut sides, mut traces) = (Table::new(), Vec::new(), 0);
    let contexts = pipeline.each_marked(fields, &filters, |marked: Marked| {
        if marked.starts {
            table.begin_trace(marked.start_ns);
            traces += 1;
        }
        let added = table.add(marked.batch, marked.mask);
        sides.extend(added.iter().map(|&row| match marked.marks {
            _ if are_sides => {
                if traces == 1 {
                    Side::Baseline
                } else {
                    Side::Selection
                }
            }
            marks => side(marks, row as usize),
        }));
        ControlFlow::<Failure>::Continue(())
    })?;
    Ok(Gathered { table, sides, contexts })
}

/// On which side an event is that is, or is not, of the selection and of the baseline.
fn side(marks: &[Mask], row: usize) -> Side {
    match marks {
        [selection, ..] if selection.get(row) => Side::Selection,
        [_, against] if !against.get(row) => Side::Neither,
        _ => Side::Baseline,
    }
}

fn explain_selection(pipeline: &Pipeline, plan: &Plan, mut gathered: Gathered) -> Result<(), Failure> {
    let without = plan.selection.as_ref().map_or(FieldSet::EMPTY, used);
    let without_time = plan.selection.is_none();
    let is_inverted = plan.selection.is_some() && plan.against.is_none() && is_most(&gathered.sides);
    if is_inverted {
        gathered.sides.iter_mut().for_each(|side| {
            *side = if *side == Side::Selection { Side::Baseline } else { Side::Selection };
        });
    }
    let options = ExplainOptions { seed: plan.seed, without, without_time };
    let explanation = gathered.table.explain(&gathered.sides, &options);
    let name = |at: usize| pipeline.reading().files.get(at).map_or(String::new(), |file| file.display().to_string());
    let text = |filter: &Option<Filter>| filter.as_ref().map(ToString::to_string);
    let selection = text(&plan.selection).unwrap_or_else(|| name(1));
    let baseline = text(&plan.against).unwrap_or_else(|| match plan.selection {
        Some(_) => format!("not ({selection})"),
        None => name(0),
    });
    let (selection, baseline) = if is_inverted { (baseline, selection) } else { (selection, baseline) };
    let within = text(&pipeline.reading().filter).unwrap_or_default();
    let view = ExplanationView { explanation: &explanation, selection, baseline, within, is_inverted, seed: plan.seed };
    let context = Context::merged(&gathered.contexts);
    if plan.shape == Shape::Json {
        return print_json(plan, &gathered.contexts, &view.json());
    }
    output::lines(plan.output.as_deref(), view.lines(&context, WORDING, output::columns(&plan.output)))
}

/// Whether more than half of the events are selected, but not all.
fn is_most(sides: &[Side]) -> bool {
    let selected = sides.iter().filter(|side| **side == Side::Selection).count();
    selected * 2 > sides.len() && selected < sides.len()
}

/// Fields that explain nothing, because a filter asks for them, or that say the same.
fn used(filter: &Filter) -> FieldSet {
    let fields = filter.fields();
    let latency = FieldSet::EMPTY.with(&[Field::Latency]);
    // A completion is a start and a latency; nobody asks for either of these then.
    let is_of_latency = filter.only_about(latency).is_some() || !fields.contains(Field::Time);
    let used = if is_of_latency { fields } else { fields.without(latency) };
    let alike = [(Field::Kind, Field::Name), (Field::Offset, Field::Region), (Field::Dev, Field::Device)];
    let alike = alike.into_iter().filter(|(one, _)| used.contains(*one)).map(|(_, other)| other);
    used.union(alike.collect())
}
