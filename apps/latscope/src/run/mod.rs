//! Doing what was planned.

mod read;

use crate::Failure;
use crate::plan::Plan;

/// Carries out a plan.
pub fn run(plan: Plan) -> Result<(), Failure> {
    match plan {
        Plan::Explain(text) => print(&text),
        Plan::Heatmap(reading, folding, _typed) => {
            let (series, contexts) = read::series(&reading, &folding, 600)?;
            print(&format!("{:?}\n{:#?}", series.total(None).totals(), contexts))
        }
        _ => Ok(()),
    }
}

/// Prints a line to standard output.
fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write;
    writeln!(std::io::stdout().lock(), "{text}").map_err(|error| Failure::output(&error))
}
