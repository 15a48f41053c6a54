//! The report of an application of Spark.

use crate::notes::WORDING;
use crate::raised::{Error as Raised, usage};
use latscope_event::Context;
use latscope_pipeline::SparkApplication;
use latscope_view_report::{SparkPicture, Theme, spark};
use latscope_view_term::{Room, SparkLevel, SparkReport};
use pyo3::prelude::*;

/// As wide as the program prints to a file.
const ROOM: Room = Room { texts: 160, tables: 1000 };
/// Width of the plots, pixels.
const WIDTH: u32 = 1180;

/// What rows of the table of counters stand for.
pub fn level(by: &str) -> PyResult<SparkLevel> {
    match by {
        "stage" => Ok(SparkLevel::Stage),
        "job" => Ok(SparkLevel::Job),
        "sql" => Ok(SparkLevel::Sql),
        _ => Err(usage(format!("There is no report by {by}; use stage, job or sql."))),
    }
}

/// The report of the one application that there is: JSON, text and picture.
pub fn report(
    mut found: Vec<SparkApplication>,
    contexts: &[Context],
    level: SparkLevel,
    most: usize,
) -> PyResult<(String, String, String)> {
    if found.len() > 1 {
        let names: Vec<String> = found.iter().take(3).map(|app| format!("app = {}", app.id)).collect();
        return Err(usage(format!(
            "These are {} logs of applications, and the report is of one; choose it by a filter ({}).",
            found.len(),
            names.join(", ")
        )));
    }
    let Some(SparkApplication { tasks, log, .. }) = found.pop() else {
        return Err(Raised::new_err("No task of Spark was found."));
    };
    let report = SparkReport::new(&tasks, &contexts[log]);
    let lines = report.lines(level, most, ROOM);
    let text = lines.iter().map(|line| line.text().trim_end().to_string() + "\n").collect();
    let picture = SparkPicture { width: WIDTH, theme: Theme::Light, wording: WORDING, title: None };
    Ok((report.json(), text, spark(&tasks, &contexts[log], &picture)))
}
