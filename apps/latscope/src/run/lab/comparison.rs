//! Directories against each other, or experiments.

use super::cell::{Cell, reading};
use crate::Failure;
use crate::notes::WORDING;
use crate::output;
use crate::plan::{Compare, Lab as Plan, Reading, Shape};
use crate::run::compare;
use latscope_capture_probe::Compare as Across;
use latscope_series::compare::CompareOptions;
use latscope_view_report::ComparePicture;
use std::path::PathBuf;

/// Compares what belongs together, with the first of it: as text with a picture for each, or as JSON files.
pub fn all(plan: &Plan, cells: &[Cell]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for (name, sides) in groups(plan, cells) {
        let stem: String =
            name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
        let stem = format!("compare-{}", stem.trim_matches('-'));
        let path = plan.output.join(if plan.json { format!("{stem}.json") } else { format!("{stem}.svg") });
        let chart = ComparePicture {
            title: Some(format!("{}: {name}", plan.lab.name)),
            width: 1000,
            theme: plan.theme,
            wording: WORDING,
            filter: None,
        };
        if !plan.json {
            output::text(None, &format!("\n{name} ({})\n", path.display()))?;
        }
        compare::run(&Compare {
            sides: sides.into_iter().map(|(name, cell)| (name, turns(cell))).collect(),
            by: None,
            options: CompareOptions::default(),
            limit: None,
            shape: if plan.json { Shape::Json } else { Shape::Text },
            markdown: false,
            junit: None,
            output: Some(path.clone()),
            chart: (!plan.json).then_some(chart),
        })?;
        files.push(path);
    }
    Ok(files)
}

/// The traces of a cell: each is a turn.
fn turns(cell: &Cell) -> Vec<Reading> {
    cell.files.iter().map(|file| reading(vec![file.clone()])).collect()
}

/// What is compared: a name for it, and the sides with theirs.
fn groups<'a>(plan: &Plan, cells: &'a [Cell]) -> Vec<(String, Vec<(String, &'a Cell)>)> {
    let directory = |cell: &Cell| plan.directories[cell.directory].display().to_string();
    let mut groups: Vec<(String, Vec<(String, &Cell)>)> = Vec::new();
    for cell in cells.iter().filter(|cell| cell.total.totals().count > 0) {
        let (group, side) = match plan.lab.compare {
            Across::Directories => (cell.job.clone(), directory(cell)),
            Across::Experiments => (directory(cell), cell.job.clone()),
        };
        match groups.iter_mut().find(|(name, _)| *name == group) {
            Some((_, sides)) => sides.push((side, cell)),
            None => groups.push((group, vec![(side, cell)])),
        }
    }
    groups.retain(|(_, sides)| sides.len() > 1);
    groups
}
