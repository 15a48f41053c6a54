//! Which files of a folder are read.

use super::{fixture, unpacked};
use latscope_capture_file::{FioResults, double_count_note, tree, without_repeats};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const ROW: &str = "5, 409153, 0, 4096, 0\n";
const HISTOGRAM: &str = "100, 0, 4096, 1\n";
const AVERAGES: &str = "500, 9000, 0, 0, 0\n1000, 9100, 0, 0, 0\n";

fn put(top: &Path, name: &str, text: &str) {
    fs::create_dir_all(top.join(name).parent().unwrap()).unwrap();
    fs::write(top.join(name), text).unwrap();
}

/// A folder with these files: the names that are read, and what is reported.
fn read(files: &[(&str, &str)]) -> (Vec<String>, String) {
    let top = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, text)| put(top.path(), name, text));
    names(top.path())
}

fn names(top: &Path) -> (Vec<String>, String) {
    let tree = tree(top).unwrap().unwrap();
    let name = |path: &PathBuf| path.strip_prefix(top).unwrap().to_string_lossy().into_owned();
    (tree.files.iter().map(name).collect(), tree.left_out.unwrap_or_default())
}

/// JSON of jobs on these hosts (none: of fio itself), with histograms or without.
fn json(hosts: &[&str], bins: bool, options: &str) -> String {
    let bins = if bins { r#", "bins": {"1000": 5}"# } else { "" };
    let job = |host: &&str| {
        let host = if host.is_empty() { String::new() } else { format!(r#""hostname": "{host}", "#) };
        format!(
            r#"{{"jobname": "v", {host}"job options": {{{options}}}, "read": {{"total_ios": 5, "clat_ns": {{"N": 5{bins}}}}}}}"#
        )
    };
    let jobs: Vec<_> = hosts.iter().map(job).collect();
    format!("{{\"fio version\": \"fio-3.42\", \"jobs\": [{}]}}\n", jobs.join(", "))
}

#[test]
fn the_best_kind_is_chosen_for_each_job() {
    for (a, b) in [
        ("clients/a/run_clat.1.log", "clients/b/run_clat_hist.1.log"),
        ("run_clat.1.log.a", "run_clat_hist.1.log.b"),
        ("run_clat.1.log.a", "run_lat.1.log.b"),
        ("run_clat.1.log", "run_clat_hist.2.log"),
        ("1/run_clat.1.log", "2/run_clat_hist.1.log"),
        ("a_clat.1.log", "rsptimes_00_vm_create_1795225091.1155882.csv"),
    ] {
        let text = |name: &str| if name.contains("hist") { HISTOGRAM } else { ROW };
        let also = a.replace("_clat.", "_lat.");
        let (names, message) = read(&[(a, text(a)), (b, text(b)), (&also, ROW)]);
        assert_eq!(names, [a, b]);
        assert!(message.contains("skipped because they are about the same I/Os: 1 log of total latency."), "{message}");
        assert!(!message.contains("missing") && !message.contains("different runs"), "{message}");
        assert_eq!(read(&[(a, text(a)), (b, text(b))]), (vec![a.to_string(), b.to_string()], String::new()));
    }
}

#[test]
fn runs_in_one_folder_and_one_run_under_two_names() {
    let files = [("r1_clat_hist.1.log", HISTOGRAM), ("r2_clat.1.log", ROW)];
    let (names, message) = read(&files);
    assert_eq!(names, ["r1_clat_hist.1.log", "r2_clat.1.log"]);
    assert!(
        message.contains("r2 (logs of every I/O) and r1 (histogram logs) are assumed to be different runs"),
        "{message}"
    );
    // The JSON says that it is one.
    let json = json(&[""], true, r#""write_lat_log": "/t/r2", "write_hist_log": "r1""#);
    let (names, message) = read(&[files[0], files[1], ("x.json", &json)]);
    assert_eq!(names, ["r2_clat.1.log"]);
    assert!(message.contains("the same I/Os: 1 histogram log, 1 JSON result."), "{message}");
}

#[test]
fn json_is_read_of_those_who_have_no_logs() {
    let log = ("run_clat.1.log.a", ROW);
    let with = |name: &str, text: &str| read(&[log, (name, text)]);
    let (names, message) = with("json_output.0.b", &json(&[""], true, ""));
    assert_eq!((names, message.as_str()), (vec!["json_output.0.b".into(), "run_clat.1.log.a".into()], ""));
    let (names, message) = with("json_output.0.b", &json(&[""], false, ""));
    assert_eq!(names, ["run_clat.1.log.a"]);
    assert!(message.contains("missing from all numbers: 1 JSON result without histograms"), "{message}");
    assert!(message.contains("(json_output.0.b)"), "{message}");
    let (names, message) = with("run.json", &json(&["a"], true, ""));
    assert_eq!(names, ["run_clat.1.log.a"]);
    assert!(message.contains("about the same I/Os: 1 JSON result."), "{message}");
    let (names, message) = with("run.json", &json(&["a", "b"], true, ""));
    assert_eq!(names, ["run_clat.1.log.a"]);
    assert!(
        message.contains("run.json is skipped because other hosts have logs, so the I/Os of b are missing."),
        "{message}"
    );
    // Two that may be of the log, and neither says so.
    let (a, b) = (json(&[""], true, ""), json(&[""], true, ""));
    let (names, message) = read(&[("run_clat.1.log", ROW), ("a.json", &a), ("b.json", &b)]);
    assert_eq!(names, ["run_clat.1.log"]);
    assert!(message.contains("2 JSON results (a.json, b.json); if not, give them with -r"), "{message}");
    // Above the logs, or in another folder under the same name.
    for name in ["run.json", "x.json", "json/run.json"] {
        let (names, message) = read(&[("logs/run_clat.1.log", ROW), (name, &a)]);
        assert_eq!(names, ["logs/run_clat.1.log"], "{name}");
        assert!(message.contains("they may be about the same I/Os"), "{message}");
    }
    assert_eq!(read(&[("logs/run_clat.1.log", ROW), ("json/x.json", &a)]).0.len(), 2);
    for name in ["clients/fio-result.txt", "fio-result.txt"] {
        let (names, message) = read(&[("clients/a/run_clat.1.log", ROW), (name, &json(&["a"], true, ""))]);
        assert_eq!(names, ["clients/a/run_clat.1.log"], "{name}");
        assert!(message.contains("about the same I/Os: 1 JSON result."), "{message}");
    }
    // CBT keeps it twice.
    let both = json(&[""], true, "");
    let (names, message) = read(&[("json_output.0.a", &both), ("output.0.a", &format!("a banner\n{both}"))]);
    assert_eq!(names, ["json_output.0.a"]);
    assert!(
        message.contains("1 JSON result is read; skipped because they are about the same I/Os: 1 JSON result."),
        "{message}"
    );
}

#[test]
fn averages_are_read_when_there_is_no_distribution() {
    let (clat, lat) = (("output.0_clat.1.log.a", AVERAGES), ("output.0_lat.1.log.a", AVERAGES));
    let (names, message) = read(&[clat, lat, ("json_output.0.a", &json(&[""], false, ""))]);
    assert_eq!(names, ["output.0_clat.1.log.a"]);
    assert!(
        message.contains("same I/Os: 1 log of averages (log_avg_msec), 1 JSON result without histograms"),
        "{message}"
    );
    let (names, _) = read(&[clat, lat, ("json_output.0.a", &json(&[""], true, ""))]);
    assert_eq!(names, ["json_output.0.a"]);
    let (names, message) = read(&[clat, ("b_clat.1.log", ROW)]);
    assert_eq!(names, ["b_clat.1.log"]);
    assert!(
        message.contains("missing from all numbers: 1 log of averages (log_avg_msec) (output.0_clat.1.log.a)."),
        "{message}"
    );
    assert_eq!(read(&[("a.json", &json(&[""], false, ""))]), (vec!["a.json".into()], String::new()));
}

#[test]
fn links_and_copies_are_read_once() {
    let top = tempfile::tempdir().unwrap();
    let folder = top.path().join("results");
    put(&folder, "run1/a_clat.1.log", ROW);
    put(top.path(), "beside/b_clat.1.log", ROW);
    symlink("run1", folder.join("latest")).unwrap();
    symlink(".", folder.join("loop")).unwrap();
    symlink("..", folder.join("up")).unwrap();
    symlink("run1/a_clat.1.log", folder.join("a_clat.1.log")).unwrap();
    assert_eq!(names(&folder), (vec!["run1/a_clat.1.log".to_string()], String::new()));
    fs::hard_link(folder.join("run1/a_clat.1.log"), folder.join("run1/hard_clat.1.log")).unwrap();
    assert_eq!(names(&folder).0.len(), 1);
    // What lies elsewhere is read through its link, and through a link to the folder itself.
    symlink(top.path().join("beside"), folder.join("c")).unwrap();
    symlink(&folder, top.path().join("link")).unwrap();
    assert_eq!(names(&top.path().join("link")).0, ["c/b_clat.1.log", "run1/a_clat.1.log"]);

    let gzip = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
        std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let copies = tempfile::tempdir().unwrap();
    put(copies.path(), "a_clat.1.log", ROW);
    for name in ["a_clat.1.log.gz", "b_clat.1.log.vm1.gz"] {
        fs::write(copies.path().join(name), gzip(ROW)).unwrap();
    }
    let (names, message) = names(copies.path());
    assert_eq!(names, ["a_clat.1.log", "b_clat.1.log.vm1.gz"]);
    assert!(message.contains("1 compressed copies are skipped (a_clat.1.log.gz)."), "{message}");
}

#[test]
fn names_need_not_be_unicode() {
    let top = tempfile::tempdir().unwrap();
    let name = std::ffi::OsStr::from_bytes(b"h\xff_clat.1.log");
    fs::write(top.path().join(name), ROW).unwrap();
    assert_eq!(tree(top.path()).unwrap().unwrap().files, [top.path().join(name)]);
}

#[test]
fn files_that_were_given_twice() {
    let top = tempfile::tempdir().unwrap();
    for name in ["a_clat.1.log", "a_lat.1.log", "b_clat.1.log", "a_clat.1.log.vm1", "a_clat.2.log"] {
        put(top.path(), name, ROW);
    }
    put(top.path(), "a_slat.1.log", "");
    put(top.path(), "a_bw.1.log", ROW);
    symlink("a_clat.1.log", top.path().join("link.log")).unwrap();
    let paths = |names: &[&str]| names.iter().map(|name| top.path().join(name)).collect::<Vec<_>>();
    let given = paths(&["b_clat.1.log", "a_clat.1.log", "b_clat.1.log", "link.log", "none", "none"]);
    let (once, again) = without_repeats(given);
    assert_eq!(once, paths(&["b_clat.1.log", "a_clat.1.log", "none", "none"]));
    assert_eq!(again, paths(&["b_clat.1.log", "link.log"]));
    assert_eq!(without_repeats(vec!["-".into(), "-".into()]).1, Vec::<PathBuf>::new());

    let all = ["a_clat.1.log", "b_clat.1.log", "a_clat.1.log.vm1", "a_clat.2.log", "a_slat.1.log", "a_bw.1.log"];
    assert_eq!(double_count_note(&paths(&all), &FioResults::default()), None);
    let message = double_count_note(&paths(&[&all[..], &["a_lat.1.log"]].concat()), &FioResults::default()).unwrap();
    assert!(
        message.contains("a_clat.1.log and ") && message.contains("a_lat.1.log are about the same I/Os, so"),
        "{message}"
    );
    assert!(message.contains("count 2 times"), "{message}");
}

/// A report of these jobs with so many I/Os each.
fn report(jobs: &[(&str, u64)], bins: bool) -> String {
    let job = |&(name, ios): &(&str, u64)| {
        let bins = if bins { format!(r#", "bins": {{"1000": {ios}}}"#) } else { String::new() };
        let options = if name == "alpha" { "" } else { r#""write_lat_log": "run""# };
        format!(
            r#"{{"jobname": "{name}", "job options": {{{options}}}, "read": {{"total_ios": {ios}, "clat_ns": {{"N": {ios}{bins}}}}}}}"#
        )
    };
    let jobs: Vec<_> = jobs.iter().map(job).collect();
    format!("{{\"fio version\": \"fio-3.33\", \"jobs\": [{}]}}\n", jobs.join(", "))
}

#[test]
fn jobs_of_the_json_that_have_no_log_are_named() {
    let two = [("alpha", 1999), ("beta", 5)];
    const MISSING: &str = "run.json: job alpha (1,999 I/Os) has no log and is missing from all numbers.";
    const REMEDY: &str = " Give run.json alone with -r for all its jobs.";
    for bins in [false, true] {
        for log in ["run_clat.2.log", "run_clat.log", "run_clat_hist.2.log"] {
            let row = if log.contains("hist") { HISTOGRAM } else { ROW };
            let (names, message) = read(&[(log, row), ("run_bw.1.log", ROW), ("run.json", &report(&two, bins))]);
            assert_eq!(names, [log]);
            assert!(message.contains(MISSING) && message.contains(REMEDY) == bins, "{log}: {message}");
            assert!(
                message.contains("the same I/Os: 1 JSON result") && message.contains(" in part. run.json"),
                "{message}"
            );
        }
    }
    // All have logs, or had no I/O.
    for jobs in [&[("beta", 5)][..], &[("beta", 5), ("alpha", 0)]] {
        let (_, message) = read(&[("run_clat.1.log", ROW), ("run.json", &report(jobs, true))]);
        assert!(message.contains("same I/Os: 1 JSON result.") && !message.contains("missing"), "{message}");
    }
    // A log of one of two threads is lost; of five jobs, three are named.
    let (_, message) = read(&[("run_clat.2.log", ROW), ("run.json", &report(&[("beta", 5), ("beta", 7)], true))]);
    assert!(message.contains("run.json: 1 of 2 threads of job beta (5 I/Os) has no log and is missing"), "{message}");
    let five = [("a", 1000), ("b", 2), ("c", 3), ("d", 4), ("e", 5), ("f", 6)];
    let (_, message) = read(&[("run_clat.1.log", ROW), ("run.json", &report(&five, true))]);
    let list = "job b (2 I/Os), job c (3 I/Os), job d (4 I/Os), 2 more (11 I/Os) have no log and are missing";
    assert!(message.contains(list), "{message}");
    // With logs of averages the JSON is read, in which all jobs are.
    let (names, message) = read(&[("run_clat.2.log", AVERAGES), ("run.json", &report(&two, true))]);
    assert_eq!(names, ["run.json"]);
    assert!(!message.contains("no log"), "{message}");
    // The same report twice is one.
    let both = report(&two, true);
    let files = [("output.0_clat.2.log.a", ROW), ("json_output.0.a", &both), ("output.0.a", &both)];
    let (names, message) = read(&files);
    assert_eq!((names.len(), message.matches("has no log").count()), (1, 1), "{message}");
}

#[test]
fn other_files_of_a_folder_that_could_be_read_are_named() {
    const CSV: &str = "time_ns,latency_ns,kind\n1,5000,read\n2,6000,read\n";
    let two = "1.000001 0.005\n1.000002 0.006\n";
    let files = [
        ("run_clat.1.log", ROW),
        ("run_bw.1.log", ROW),
        ("a.csv", CSV),
        ("b.csv", CSV),
        ("t.txt", two),
        ("README.txt", "Nothing that can be read.\n"),
        ("disk.0.0", two),
        ("below/c.csv", CSV),
    ];
    let (names, message) = read(&files);
    assert_eq!(names, ["run_clat.1.log"]);
    assert!(message.contains("3 more files are skipped (2 csv, 1 two_columns: a.csv, b.csv, t.txt); -r "), "{message}");
    assert!(message.ends_with("/* reads them too."), "{message}");
    assert_eq!(read(&[files[0], files[1], files[5], files[6], files[7]]).1, "");
}

#[test]
fn json_given_beside_its_own_logs_counts_twice() {
    let top = tempfile::tempdir().unwrap();
    let json = unpacked(&fixture("fio_json", "A.json.zst"));
    let plain = report(&[("alpha", 5)], false);
    for name in ["A_clat.1.log", "A_clat.2.log", "A_clat_hist.3.log", "sub/A_clat.1.log", "p/p_clat.1.log"] {
        put(top.path(), name, ROW);
    }
    fs::write(top.path().join("A.json"), &json).unwrap();
    fs::copy(fixture("fio_json", "A.json.zst"), top.path().join("A.json.zst")).unwrap();
    put(top.path(), "p/p.json", &plain);
    let message = |names: &[&str]| {
        let files: Vec<_> = names.iter().map(|name| top.path().join(name)).collect();
        double_count_note(&files, &FioResults::default())
    };
    for results in ["A.json", "A.json.zst"] {
        let two = message(&["A_clat.1.log", "A_clat.2.log", results]).unwrap();
        assert!(
            two.contains("A_clat.1.log and ") && two.contains(&format!("{results} are about the same I/Os")),
            "{two}"
        );
        assert!(two.contains("likewise for 1 more jobs, so these count 2 times"), "{two}");
        assert!(message(&[results, "A_clat_hist.3.log"]).unwrap().contains("count 2 times"));
        assert_eq!(message(&[results]), None);
    }
    // Not of them, or without histograms.
    assert_eq!(message(&["sub/A_clat.1.log", "A.json"]), None);
    assert_eq!(message(&["p/p_clat.1.log", "A.json", "p/p.json"]), None);
}
