//! `latscope flamegraph`.

use super::{output, reports};
use crate::Failure;
use crate::plan::{Against, Flamegraph};
use latscope_event::Context;
use latscope_pipeline::{Pipeline, refuse_stacks};
use latscope_series::StackWidth;
use latscope_view_report::{FlamegraphOptions, Flames, flamegraph};

pub fn run(pipeline: &Pipeline, plan: Flamegraph) -> Result<(), Failure> {
    reports::ends_by_signal(pipeline.reading());
    if output::to_terminal(&plan.output) {
        return Err(Failure::Usage("Not writing SVG to a terminal; write it to a file: -o stacks.svg.".into()));
    }
    let draw = |flames: Flames<'_>, contexts: &[Context], unit| {
        flamegraph(flames, contexts, &FlamegraphOptions { unit, ..plan.options.clone() })
    };
    let (trees, mut contexts, name) = match plan.against {
        None => {
            let (tree, contexts) = pipeline.stacks(&plan.by)?;
            let unit = plan.width.unwrap_or(tree.usual_width());
            refuse_stacks(&tree, unit)?;
            if tree.total().samples == 0 {
                say!("latscope: No events to show: the flame graph is empty.");
            }
            return output::text(plan.output.as_deref(), &draw(Flames::Tree(&tree), &contexts, unit));
        }
        Some(Against::Filter(filter)) => {
            let (trees, contexts) = pipeline.stacks_against(&plan.by, &filter)?;
            (trees, contexts, filter.to_string())
        }
        Some(Against::File(reading)) => {
            let file = reading.files.first().map_or(String::new(), |file| file.display().to_string());
            let name = if reading.filter.is_some() { format!("{file} with the same filter") } else { file };
            let (there, more) = reports::open(*reading, plan.output.as_deref())?.stacks(&plan.by)?;
            let (here, mut contexts) = pipeline.stacks(&plan.by)?;
            contexts.extend(more);
            ([here, there], contexts, name)
        }
    };
    let [here, there] = trees;
    refuse_stacks(&here, StackWidth::Events)?;
    refuse_stacks(&there, StackWidth::Events)?;
    contexts.dedup();
    for (tree, side) in [(&here, "the selection"), (&there, &name[..])] {
        if tree.total().samples == 0 {
            return Err(Failure::Input(format!(
                "No event of {side} has a stack, so there is nothing to compare; choose another filter."
            )));
        }
    }
    // Of counts there are no shares of time.
    let usual = if there.usual_width() == StackWidth::Time { here.usual_width() } else { StackWidth::Events };
    let unit = plan.width.unwrap_or(usual);
    refuse_stacks(&here, unit)?;
    refuse_stacks(&there, unit)?;
    let difference = here.against(&there);
    output::text(plan.output.as_deref(), &draw(Flames::Difference(&difference, &name), &contexts, unit))
}
