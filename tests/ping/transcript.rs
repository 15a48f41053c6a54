//! What ioping printed, many runs in one file of `testdata/ioping`.

use crate::program::testdata;

/// One run of ioping.
#[derive(Debug, Default)]
pub struct Run {
    pub name: String,
    /// The command line, where it was kept.
    pub command: String,
    pub out: String,
    pub status: i32,
}

/// The runs of a transcript: `=== NAME`, `$ COMMAND`, standard output as it is, `2> ` in front of each line of standard error,
/// and `status N` where it was not 0.
pub fn runs(transcript: &str) -> Vec<Run> {
    let text = std::fs::read_to_string(testdata("ioping").join(transcript)).unwrap();
    let mut runs: Vec<Run> = Vec::new();
    for line in text.split_inclusive('\n') {
        if let Some(name) = line.strip_prefix("=== ") {
            runs.push(Run { name: name.trim_end().to_string(), ..Run::default() });
            continue;
        }
        let run = runs.last_mut().expect("a transcript starts with a name");
        if let Some(command) = line.strip_prefix("$ ") {
            run.command = command.to_string();
        } else if let Some(status) = line.strip_prefix("status ") {
            run.status = status.trim_end().parse().unwrap();
        } else if !line.starts_with("2> ") {
            run.out += line;
        }
    }
    runs
}

/// The output of one run of a transcript.
#[track_caller]
pub fn out(transcript: &str, name: &str) -> String {
    runs(transcript)
        .into_iter()
        .find(|run| run.name == name)
        .unwrap_or_else(|| panic!("{transcript} has no {name}"))
        .out
}

#[test]
fn transcripts_are_whole() {
    let (own, versions) = (runs("v1.3.txt"), runs("versions.txt"));
    assert_eq!((own.len(), versions.len()), (59, 41));
    assert_eq!(own.iter().filter(|run| !run.out.is_empty()).count(), 48);
    assert_eq!(own.iter().filter(|run| run.status != 0).count(), 10);
    assert!(own.iter().all(|run| run.command.contains("ioping")));
    assert!(versions.iter().all(|run| run.command.is_empty() && !run.out.is_empty()));
}
