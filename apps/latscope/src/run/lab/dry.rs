//! What a lab would do.

use crate::Failure;
use crate::plan::Lab as Plan;
use crate::run::output;
use latscope_capture_probe::{Compare, Experiment, Operation, Order};
use latscope_event::{format_count, format_duration, format_rate, format_size};
use std::time::Duration;

/// A length of time for people.
pub fn duration(duration: Duration) -> String {
    format_duration(duration.as_nanos() as u64)
}

pub fn run(plan: &Plan) -> Result<(), Failure> {
    output::text(None, &text(plan))
}

fn text(plan: &Plan) -> String {
    let lab = &plan.lab;
    let turns = lab.turns(plan.directories.len());
    let mut text = format!("{}: {}.\n", lab.name, lab.about);
    text += &format!(
        "It measures for {} in {} turns, one after the other; making files and looking at results comes on top.\n",
        duration(lab.duration(plan.directories.len())),
        format_count(turns.len() as u64)
    );
    text += "\nIn each of these directories a file without a name is made for every turn, which is gone after it, whatever happens:\n";
    for directory in &plan.directories {
        text += &format!("  {}\n", directory.display());
    }
    text += &format!("  {} must be free there; nothing that exists is touched.\n\n", format_size(lab.largest_file()));
    for experiment in &lab.experiments {
        let repeated = if lab.rounds > 1 { format!("{} rounds of ", lab.rounds) } else { String::new() };
        text += &format!("{}: {}; {repeated}{}\n", experiment.name, experiment.about, duration(experiment.turn));
        text += &format!("  {}\n", amount(experiment));
        if !experiment.loads.is_empty() {
            let loads: Vec<String> = experiment.loads.iter().map(ToString::to_string).collect();
            text += &format!(
                "  first as many as possible, then {} percent of that, a turn each, at their times whatever the volume does\n",
                loads.join(", ")
            );
        }
        if let Some((limit, _)) = &experiment.limit {
            text += &format!("  a volume fails, and the lab ends with status 1, when {limit}\n");
        }
    }
    let compared = match (lab.compare, plan.directories.len()) {
        (Compare::Experiments, _) => ", and the experiments of a directory compared",
        (Compare::Directories, 1) => "",
        (Compare::Directories, _) => ", and the directories compared",
    };
    text + &format!("\nEvery request is recorded in {}{compared}.\n", plan.output.display())
}

/// What it writes.
fn amount(experiment: &Experiment) -> String {
    let size = format_size(experiment.file_bytes());
    let file = match experiment.work.order {
        Order::Append if experiment.beyond_cache => format!(
            "a file that grows to {size}, or where there is room to more than memory may hold unwritten, and is then written over"
        ),
        Order::Append => format!("a file that grows, and is emptied when it has {size}"),
        _ => format!("a file of {size}, which is written before"),
    };
    match (experiment.bytes_written(), experiment.rate) {
        (Some(bytes), Some(rate)) => {
            format!("{file}; writes {} a turn ({} for each directory)", format_size(bytes), format_rate(rate))
        }
        (Some(bytes), None) if experiment.work.operation == Operation::Read => {
            format!("{file}; writes {} a turn, and then only reads", format_size(bytes))
        }
        _ => format!("{file}; writes as much as the volume takes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_capture_probe::Lab;

    #[test]
    fn it_says_where_how_much_and_how_long() {
        let lab = Lab::preset("storage").unwrap();
        let limits = vec![None, None, None];
        let (directories, output) = (vec!["/a".into(), "/b".into()], "out".into());
        let theme = latscope_view_report::Theme::Light;
        let plan = Plan { lab, directories, output, dry_run: true, fail_if: None, limits, json: false, theme };
        let text = text(&plan);
        for words in
            ["6min in 12 turns", "  /a\n  /b\n", "1GiB must be free", "58.6MiB a turn (1k/s", "recorded in out"]
        {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}
