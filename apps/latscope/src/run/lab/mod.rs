//! `latscope lab`: experiments in turns, recorded, and what came out of them.

mod cell;
mod comparison;
mod dry;
mod picture;
mod record;
mod report;
mod scan;
mod spark;

use super::output;
use crate::Failure;
use crate::plan::Lab as Plan;
use latscope_capture_probe::{Error, Lab, PRESETS};
use latscope_event::escape_json;
use latscope_view_term::{Align, Table};

pub use scan::run as scan;
pub use spark::run as spark;

pub fn run(plan: &Plan) -> Result<(), Failure> {
    for directory in &plan.directories {
        plan.lab.check_room(directory).map_err(|error| match error {
            Error::NoSpace { .. } => Failure::Input(error.to_string()),
            error => Failure::Usage(error.to_string()),
        })?;
    }
    if plan.dry_run {
        return dry::run(plan);
    }
    let recorded = record::all(plan)?;
    let cells = cell::read(plan, &recorded)?;
    report::run(plan, &recorded, &cells)
}

/// Names the labs that come with the program.
pub fn list(json: bool) -> Result<(), Failure> {
    let labs: Vec<Lab> = PRESETS.iter().filter_map(|(name, _)| Lab::preset(name)).collect();
    if json {
        let object = |lab: &Lab| {
            let experiments = lab.experiments.iter().map(|of| serde_json::json!({"name": of.name, "about": of.about}));
            serde_json::json!({
                "name": lab.name,
                "about": lab.about,
                "experiments": experiments.collect::<Vec<_>>(),
                "duration_ns": lab.duration(1).as_nanos() as u64,
            })
        };
        return output::text(
            None,
            &escape_json(&format!("{:#}\n", serde_json::Value::Array(labs.iter().map(object).collect()))),
        );
    }
    let mut table =
        Table::new([("lab", Align::Left), ("a directory takes", Align::Right), ("what it measures", Align::Left)]);
    for lab in labs {
        table.push(vec![lab.name.clone(), dry::duration(lab.duration(1)), lab.about]);
    }
    let columns = output::columns(&None).max(120);
    let lines = [table.heading(columns)].into_iter().chain(table.take_lines(columns)).collect::<Vec<_>>();
    output::lines(None, lines)
}
