//! `latscope explain`.

use super::{output, reports};
use crate::Failure;
use crate::notes::WORDING;
use crate::plan::{Explain as Plan, Shape};
use latscope_event::Context;
use latscope_pipeline::{Compared, Explained, Pipeline, Question};
use latscope_view_term::{ExplanationView, SpotsView};

pub fn run(pipeline: &Pipeline, plan: &Plan) -> Result<(), Failure> {
    reports::ends_by_signal(pipeline.reading());
    let compared = pipeline.compare(&plan.question)?;
    match plan.question.selection.is_some() || pipeline.reading().files.len() == 2 {
        true => explain_selection(pipeline, plan, compared),
        false => explain_spots(pipeline, plan, compared),
    }
}

/// Finds what is unusual by itself.
fn explain_spots(pipeline: &Pipeline, plan: &Plan, mut compared: Compared) -> Result<(), Failure> {
    let spots = compared.spots();
    let within = pipeline.reading().filter.as_ref().map(ToString::to_string).unwrap_or_default();
    let waits = compared.long_waits();
    let Question { seed, quantity, .. } = plan.question;
    let view = SpotsView { spots: &spots, waits, total: compared.table().total(), quantity, within, seed };
    if plan.shape == Shape::Json {
        return print_json(plan, &compared.contexts, &view.json());
    }
    let context = Context::merged(&compared.contexts);
    output::lines(plan.output.as_deref(), view.lines(&context, WORDING, output::columns(&plan.output)))
}

/// Prints JSON, and on standard error what it has no place for.
fn print_json(plan: &Plan, contexts: &[Context], json: &str) -> Result<(), Failure> {
    reports::say_notes(contexts);
    output::text(plan.output.as_deref(), &format!("{json}\n"))
}

fn explain_selection(pipeline: &Pipeline, plan: &Plan, mut compared: Compared) -> Result<(), Failure> {
    let explained = compared.explained();
    let (selection, baseline) = explained.sides(&plan.question, pipeline.reading());
    let Explained { explanation, is_inverted } = explained;
    let within = pipeline.reading().filter.as_ref().map(ToString::to_string).unwrap_or_default();
    let seed = plan.question.seed;
    let waits = compared.selected_waits();
    let view = ExplanationView { explanation: &explanation, selection, baseline, within, is_inverted, waits, seed };
    let context = Context::merged(&compared.contexts);
    if plan.shape == Shape::Json {
        return print_json(plan, &compared.contexts, &view.json());
    }
    output::lines(plan.output.as_deref(), view.lines(&context, WORDING, output::columns(&plan.output)))
}
