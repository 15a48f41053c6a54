//! Folders of labs against each other.

use crate::program::latscope;
use std::fs;

const LAB: &str = "about = 'appends and reads'\nrounds = 2\n\
    [[experiment]]\nname = 'paced'\nabout = 'x'\noperation = 'write'\norder = 'append'\nsize = '1k'\nwork_size = '1m'\n\
    rate = 200\nturn = '250ms'\n\
    [[experiment]]\nname = 'rest'\nabout = 'x'\noperation = 'read'\nsize = '4k'\nwork_size = '64k'\nturn = '50ms'\n";

#[test]
fn experiments_of_two_labs_are_compared_by_their_turns() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    fs::write(path("mine.toml"), LAB).unwrap();
    fs::create_dir(path("a")).unwrap();
    for lab in ["before", "after"] {
        latscope(&["lab", "run", &path("mine.toml"), &path("a"), "-o", &path(lab), "--json"]).success();
    }
    let (before, after) = (path("before"), path("after"));
    let out = latscope(&["compare", &before, &after]).success();
    let jobs: Vec<&str> = out.lines().filter(|line| ["paced", "rest"].contains(line)).collect();
    assert_eq!(jobs, ["paced", "rest"], "{out}");
    assert_eq!(out.matches("compared by turns (2 of before, 2 of after)").count(), 2, "{out}");
    let printed = latscope(&["compare", &before, &after, "--json"]).failure(2);
    assert!(printed.contains("several experiments (paced, rest); select one with --filter 'job = paced'"), "{printed}");
    // What a side counts is what its traces hold.
    let json = latscope(&["compare", &before, &after, "--json", "--filter", "job = rest"]).success();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    for (side, lab) in [&before, &after].into_iter().enumerate() {
        let files: Vec<_> = fs::read_dir(lab).unwrap().map(|entry| entry.unwrap().path()).collect();
        let counts =
            files.iter().filter(|file| file.to_str().unwrap().contains("/rest.") && file.extension().unwrap() == "lat");
        let count = |file: &std::path::PathBuf| {
            latscope(&["events", "--csv", "--columns", "latency_ns", "-r", file.to_str().unwrap()])
                .success()
                .lines()
                .count()
                - 1
        };
        let expected: usize = counts.map(count).sum();
        assert_eq!(json["sides"][side]["count"], expected, "{lab}");
    }
}

#[test]
fn directories_of_one_lab_are_sides() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    fs::write(path("mine.toml"), LAB).unwrap();
    ["a", "b", "c"].iter().for_each(|name| fs::create_dir(path(name)).unwrap());
    let run = |directories: [&str; 2], lab: &str| {
        let [a, b] = directories.map(path);
        latscope(&["lab", "run", &path("mine.toml"), &a, &b, "-o", &path(lab), "--json"]).success();
    };
    run(["a", "b"], "lab");
    run(["a", "b"], "again");
    run(["a", "c"], "other");
    let lab = path("lab");
    let out = latscope(&["compare", &lab]).success();
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words.matches("-a, 2 of tmp-").count(), 2, "{out}");
    let json = latscope(&["compare", &lab, "--json", "--filter", "job = rest"]).success();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let sides: Vec<String> =
        json["sides"].as_array().unwrap().iter().map(|side| side["name"].as_str().unwrap().to_string()).collect();
    assert!(sides.len() == 2 && sides[0].ends_with("-a") && sides[1].ends_with("-b"), "{sides:?}");
    // One number for each measure of a side.
    let row = &json["differences"][0];
    assert_eq!((&row["base_ns"], &row["other_ns"]), (&json["sides"][0]["p50_ns"], &json["sides"][1]["p50_ns"]));
    let printed = latscope(&["compare", &lab, "--filter", "job = rest", "--fail-if", "p50 > 100s"]).status;
    assert_ne!(printed, Some(2), "the directories are sides");
    // Two labs: each directory with the one of the same name.
    let out = latscope(&["compare", &lab, &path("again")]).success();
    let titles: Vec<&str> = out.lines().filter(|line| line.starts_with("paced") || line.starts_with("rest")).collect();
    let parts: Vec<_> = titles.iter().map(|title| (title.split(',').next(), title.rsplit('-').next())).collect();
    let expected = [("paced", "a"), ("paced", "b"), ("rest", "a"), ("rest", "b")];
    assert_eq!(parts, expected.map(|(job, directory)| (Some(job), Some(directory))), "{out}");
    let printed = latscope(&["compare", &lab, &path("other")]).failure(2);
    assert!(printed.contains("measured other directories (") && printed.contains("--group"), "{printed}");
}
