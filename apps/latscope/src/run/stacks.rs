//! `latscope stacks`.

use super::{output, reports, spectrogram};
use crate::Failure;
use crate::notes::WORDING;
use crate::plan::{Shape, Stacks as Plan};
use crate::tui;
use latscope_event::Context;
use latscope_pipeline::{Pipeline, refuse_stacks};
use latscope_series::StackTree;
use latscope_view_term::{Line, StacksTable};
use std::io::Write;
use std::time::Duration;

pub fn run(pipeline: &Pipeline, plan: Plan) -> Result<(), Failure> {
    let reading = pipeline.reading();
    if let Some(map) = plan.map.filter(|_| tui::is_possible()) {
        let shown = tui::Shown { by: plan.by, width: plan.width, is_full: plan.full };
        return spectrogram::stacks(reading, *map, shown);
    }
    reports::ends_by_signal(reading);
    let fields = StacksTable::fields(&plan.by);
    let filter = reading.filter_text();
    let room = output::room(&plan.output);
    let table = |tree: &StackTree| {
        let groups = plan.by.len();
        StacksTable::new(tree, groups, plan.width.unwrap_or(tree.usual_width()))
    };
    let lines = |tree: &StackTree, context: &Context| -> Vec<Line> {
        table(tree).lines(context, WORDING, &filter, plan.top, plan.full, room)
    };
    if let (Some(every_ns), Some(_)) = (plan.every_ns, &reading.live) {
        let mut out = output::open(plan.output.as_deref())?.growing();
        let (tree, context) = pipeline.watch_stacks(&fields, Duration::from_nanos(every_ns), |tree, context| {
            let mut lines = lines(tree, context);
            lines.push(Line::default());
            out.lines(&lines).and_then(|()| out.flush()).map_err(|error| Failure::output(&error))
        })?;
        out.lines(&lines(&tree, &context)).map_err(|error| Failure::output(&error))?;
        return out.finish().map(drop).map_err(|error| Failure::output(&error));
    }
    let (tree, contexts) = pipeline.stacks(&fields)?;
    refuse_stacks(&tree, plan.width.unwrap_or(tree.usual_width()))?;
    if plan.shape != Shape::Text {
        reports::say_notes(&contexts);
    }
    let path = plan.output.as_deref();
    match plan.shape {
        Shape::Text => output::lines(path, lines(&tree, &Context::merged(&contexts))),
        Shape::Csv => output::text(path, &table(&tree).csv()),
        Shape::Json => output::text(path, &table(&tree).json()),
    }
}
