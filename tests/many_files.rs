//! Several files at once: which of them is damaged, which differ, and which are one.

use crate::program::{latscope, unpacked};
use std::fs;
use tempfile::TempDir;

/// A folder with a trace, in all formats that events are written in, and three logs of which the second is damaged.
fn folder() -> (TempDir, impl Fn(&str) -> String) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_path_buf();
    let path = move |name: &str| root.join(name).to_str().unwrap().to_owned();
    fs::write(path("t.txt"), unpacked("perf_script/story_2s.txt.gz")).unwrap();
    for name in ["t.lat", "t.parquet", "t.csv", "t.jsonl"] {
        latscope(&["convert", "-r", &path("t.txt"), "-w", &path(name)]).success();
    }
    for job in 1..4u64 {
        let rows = (1..21u64).map(|at| format!("{}, {}, 0, 4096, 0, 0\n", at * 100, 100_000 + job));
        let damage = if job == 2 { "x, y\n2100, 5, 0, 4096, 0, 0\n" } else { "" };
        fs::write(path(&format!("j_clat.{job}.log")), rows.collect::<String>() + damage).unwrap();
    }
    (folder, path)
}

#[test]
fn what_is_damaged_has_its_file() {
    let (_folder, path) = folder();
    let logs = ["j_clat.1.log", "j_clat.2.log", "j_clat.3.log"].map(&path);
    let read = logs.iter().flat_map(|log| ["-r", log]);
    for view in ["summary", "histogram", "spectrogram"] {
        let text = latscope(&[view].into_iter().chain(read.clone()).chain(["--lenient"]).collect::<Vec<_>>()).success();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&format!("missing: 1 malformed row, in {}", logs[1])), "{view}: {text}");
        assert!(
            words.contains(&format!("the first malformed row is line 21 of {}: it has", logs[1])),
            "{view}: {text}"
        );
    }
    // How many more are damaged; and of a single file there is nothing to distinguish.
    fs::copy(&logs[1], &logs[2]).unwrap();
    let text = latscope(&["summary", "--lenient", "-r", &logs[0], "-r", &logs[1], "-r", &logs[2]]).success();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&format!("missing: 2 malformed rows, in {} and 1 more", logs[1])), "{text}");
    let text = latscope(&["summary", "--lenient", "-r", &logs[1]]).success();
    assert!(text.contains("missing: 1 malformed row\n") && text.contains("row is line 21: it has"), "{text}");
}

#[test]
fn one_trace_in_several_formats_is_noted() {
    let (_folder, path) = folder();
    let errors = |names: &[&str]| {
        let files: Vec<String> = names.iter().map(|name| path(name)).collect();
        let ended =
            latscope(&["summary"].into_iter().chain(files.iter().flat_map(|file| ["-r", file])).collect::<Vec<_>>());
        assert_eq!(ended.status, Some(0), "{}", ended.err);
        ended.err
    };
    for other in ["t.lat", "t.parquet", "t.csv", "t.jsonl"] {
        let printed = errors(&["t.txt", other]);
        let expected = format!("{} and {} seem to be the same trace in different formats", path("t.txt"), path(other));
        assert!(printed.contains(&expected) && printed.lines().count() == 1, "{printed}");
    }
    assert!(errors(&["t.txt", "t.lat", "t.csv"]).contains("t.lat (and 1 more) seem to be the same trace"));
    // Another part of the trace, and logs of jobs that ran alike, are no copies.
    latscope(&["convert", "-r", &path("t.txt"), "-w", &path("part.lat"), "lat > 1ms"]).success();
    fs::copy(path("j_clat.1.log"), path("j_clat.3.log")).unwrap();
    for names in [["t.txt", "part.lat"], ["j_clat.1.log", "j_clat.3.log"]] {
        assert_eq!(errors(&names), "", "{names:?}");
    }
}

#[test]
fn a_conversion_names_the_columns_that_do_not_fit() {
    let (_folder, path) = folder();
    let (trace, log) = (path("t.txt"), path("j_clat.1.log"));
    let printed = latscope(&["convert", "-r", &log, "-r", &trace, "-w", &path("x.csv")]).failure(2);
    let expected = format!("{trace} (perf script) has name, device, dev, pid, tid, comm, ");
    assert!(printed.contains(&expected) && printed.contains(&format!("{log} (fio log) does not")), "{printed}");
    let printed = latscope(&["convert", "-r", &trace, "-r", &log, "-w", &path("x.csv")]).failure(2);
    assert!(printed.contains(&format!("{log} (fio log) has host, job, {trace} (perf script) does not")), "{printed}");
    assert!(!fs::exists(path("x.csv")).unwrap());
}

/// A hub that was killed, or whose disk was full, leaves empty files.
#[test]
fn empty_files_of_a_journal_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).into_os_string().into_string().unwrap();
    let (trace, journal, empty) = (path("trace.txt"), path("1.frames"), path("2.frames"));
    fs::write(&trace, b"0 1\n0.5 2\n1.5 3\n").unwrap();
    latscope(&["convert", "-r", &trace, "-w", &journal, "-i", "1s"]).success();
    fs::write(&empty, b"").unwrap();
    let ended = latscope(&["summary", "-r", &journal, "-r", &empty]);
    assert!(ended.err.contains("2.frames: skipped: The file is empty."), "{}", ended.err);
    assert!(ended.success().starts_with("3 events"));
    let alone = latscope(&["summary", "-r", &empty]).failure(3);
    assert!(alone.contains("The file is empty."), "{alone}");
}
