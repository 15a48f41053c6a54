//! What a lab would do.

use crate::Failure;
use crate::output;
use crate::plan::Lab as Plan;
use latscope_capture_probe::{Compare, Experiment, Operation, Order};
use latscope_event::{format_count, format_duration, format_rate, format_size};
use std::path::Path;
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
        "Measuring takes {} in {} turns, one after the other, plus the time to create files and analyse results.\n",
        duration(lab.duration(plan.directories.len())),
        format_count(turns.len() as u64)
    );
    text += "\nEach turn uses a file without a name in one of these directories; it disappears after the turn, \
             whatever happens:\n";
    for directory in &plan.directories {
        text += &format!("  {}{}\n", directory.display(), free(directory, lab.largest_file()));
    }
    text += &format!(
        "  {} of free space is needed in each; existing files are not touched.\n\n",
        format_size(lab.largest_file())
    );
    for experiment in &lab.experiments {
        let repeated = if lab.rounds > 1 { format!("{} rounds of ", lab.rounds) } else { String::new() };
        text += &format!("{}: {}; {repeated}{}\n", experiment.name, experiment.about, duration(experiment.turn));
        text += &format!("  {}\n", amount(experiment));
        if !experiment.loads.is_empty() {
            let loads: Vec<String> = experiment.loads.iter().map(ToString::to_string).collect();
            text += &format!(
                "  first as many as possible, then {} percent of that, one turn each, in an open loop\n",
                loads.join(", ")
            );
        }
        if let Some((limit, _)) = &experiment.limit {
            text += &format!("  limit: {limit}; a volume that exceeds it makes the exit status 1\n");
        }
    }
    let compared = match (lab.compare, plan.directories.len()) {
        (Compare::Experiments, _) => ", and the experiments of each directory are compared",
        (Compare::Directories, 1) => "",
        (Compare::Directories, _) => ", and the directories are compared",
    };
    text + &format!("\nEvery request is recorded in {}{compared}.\n", plan.output.display())
}

/// How much space is free in a directory, where that is too little for a file of this size; nothing where it is unknown.
fn free(directory: &Path, needed_bytes: u64) -> String {
    let Ok(disk) = rustix::fs::statvfs(directory) else { return String::new() };
    let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
    let verdict = if free_bytes < needed_bytes { ": too little" } else { "" };
    format!(" ({} free{verdict})", format_size(free_bytes))
}

/// What it writes.
fn amount(experiment: &Experiment) -> String {
    let size = format_size(experiment.file_bytes());
    let file = match experiment.work.order {
        Order::Append if experiment.beyond_cache => format!(
            "a file that grows to {size} (or, space permitting, to more than memory can hold unwritten), and is \
             then overwritten"
        ),
        Order::Append => format!("a file that grows, and is emptied at {size}"),
        _ => format!("a file of {size}, written in advance"),
    };
    match (experiment.bytes_written(), experiment.rate) {
        (Some(bytes), Some(rate)) => {
            format!("{file}; writes {} per turn ({} per directory)", format_size(bytes), format_rate(rate))
        }
        (Some(bytes), None) if experiment.work.operation == Operation::Read => {
            format!("{file}; writes {} per turn, and then only reads", format_size(bytes))
        }
        _ => format!("{file}; writes as much as the volume accepts"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_space_is_named() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free(folder.path(), 1).ends_with(" free)"), "{}", free(folder.path(), 1));
        assert!(free(folder.path(), u64::MAX).ends_with(" free: too little)"));
        assert_eq!(free(Path::new("/nowhere"), 1), "");
    }
    use latscope_capture_probe::Lab;

    #[test]
    fn it_says_where_how_much_and_how_long() {
        let lab = Lab::preset("storage").unwrap();
        let limits = vec![None, None, None];
        let (directories, output) = (vec!["/a".into(), "/b".into()], "out".into());
        let theme = latscope_view_report::Theme::Light;
        let plan = Plan { lab, directories, output, dry_run: true, fail_if: None, limits, json: false, theme };
        let text = text(&plan);
        for words in [
            "6min in 12 turns",
            "  /a\n  /b\n",
            "1GiB of free space is needed",
            "58.6MiB per turn (1k/s",
            "recorded in out",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}
