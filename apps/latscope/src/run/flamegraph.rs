//! `latscope flamegraph`.

use super::{output, reports};
use crate::Failure;
use crate::plan::{Against, Flamegraph};
use latscope_event::Context;
use latscope_pipeline::Pipeline;
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
            refuse_none(&tree)?;
            let unit = plan.width.unwrap_or(tree.usual_width());
            return output::text(plan.output.as_deref(), &draw(Flames::Tree(&tree), &contexts, unit));
        }
        Some(Against::Filter(filter)) => {
            let (trees, contexts) = pipeline.stacks_against(&plan.by, &filter)?;
            (trees, contexts, filter.to_string())
        }
        Some(Against::File(reading)) => {
            let name = reading.files.first().map_or(String::new(), |file| file.display().to_string());
            let (there, more) = reports::open(*reading, plan.output.as_deref())?.stacks(&plan.by)?;
            let (here, mut contexts) = pipeline.stacks(&plan.by)?;
            contexts.extend(more);
            ([here, there], contexts, name)
        }
    };
    let [here, there] = trees;
    refuse_none(&here)?;
    refuse_none(&there)?;
    contexts.dedup();
    let unit = plan.width.unwrap_or(here.usual_width());
    let difference = here.against(&there);
    output::text(plan.output.as_deref(), &draw(Flames::Difference(&difference, &name), &contexts, unit))
}

/// Fails where there are events and none has a stack.
pub fn refuse_none(tree: &latscope_series::StackTree) -> Result<(), Failure> {
    if tree.without().samples > 0 && tree.total().samples == 0 {
        return Err(Failure::Input(format!(
            "None of {} events has a stack. Record them with stacks (perf record -g), or read a file of stacks.",
            latscope_event::format_count(tree.without().events)
        )));
    }
    Ok(())
}
