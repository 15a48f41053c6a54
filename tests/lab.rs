//! Experiments: what is recorded is there, all of it, under the names that it should have.

#[cfg(target_os = "linux")]
mod disk;
#[cfg(target_os = "linux")]
mod scan;

use crate::program::{LATSCOPE, command, end, latscope, root};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// A folder with two directories to measure, `a` and `b`.
fn two() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    ["a", "b"].iter().for_each(|name| std::fs::create_dir(folder.path().join(name)).unwrap());
    folder
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_string()
}

const MINE: &str = "about = 'appends and reads'\nrounds = 2\n\
    [[experiment]]\nname = 'paced'\nabout = 'x'\noperation = 'write'\norder = 'append'\nsize = '1k'\nwork_size = '1m'\n\
    rate = 200\nturn = '250ms'\n\
    [[experiment]]\nname = 'rest'\nabout = 'x'\noperation = 'read'\nsize = '4k'\nwork_size = '64k'\nturn = '50ms'\n\
    limit = 'count > 0'\n";

#[test]
fn everything_is_recorded_and_compared() {
    let folder = two();
    let (file, out) = (folder.path().join("mine.toml"), folder.path().join("out"));
    std::fs::write(&file, MINE).unwrap();
    let [a, b] = ["a", "b"].map(|name| text(&folder.path().join(name)));
    let words = ["lab", "run", &text(&file), &a, &b, "-o", &text(&out), "--json"];
    let ended = latscope(&words);
    assert_eq!(ended.status, Some(1), "a limit is exceeded: {}", ended.err);
    assert!(ended.err.contains(&format!("rest in {b} exceeds its limit, count > 0")), "{}", ended.err);
    let json: Value = serde_json::from_slice(&ended.out).unwrap();
    assert_eq!(json["left_out"], serde_json::json!([]));
    let results = json["results"].as_array().unwrap();
    assert_eq!(results.len(), 4, "two experiments in two directories");
    for result in results {
        let (job, path) = (result["job"].as_str().unwrap(), result["path"].as_str().unwrap());
        let traces: Vec<&str> =
            result["traces"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect();
        assert_eq!(traces.len(), 2, "a trace for each round");
        // What the summary of the files says is what the lab says.
        let read = traces.iter().flat_map(|path| ["-r", *path]);
        let words: Vec<&str> = ["summary", "--json", "--by", "job,path"].into_iter().chain(read).collect();
        let summary: Value = serde_json::from_str(&latscope(&words).success()).unwrap();
        let groups = summary["groups"].as_array().unwrap();
        assert_eq!(groups.len(), 1, "{summary}");
        assert_eq!((groups[0]["job"].as_str(), groups[0]["path"].as_str()), (Some(job), Some(path)), "{summary}");
        for key in ["count", "min_ns", "p50_ns", "max_ns"] {
            assert_eq!(groups[0][key], result[key], "{key} of {job} in {path}");
        }
        let shares: f64 = result["modes"].as_array().unwrap().iter().map(|mode| mode["share"].as_f64().unwrap()).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{result}");
        if job == "paced" {
            assert_eq!(result["count"], 2 * 50, "an open loop leaves nothing out");
        }
        assert_eq!(result["limit_exceeded"].as_bool(), (job == "rest").then_some(true));
    }
    for comparison in json["comparisons"].as_array().unwrap() {
        let text = std::fs::read_to_string(comparison.as_str().unwrap()).unwrap();
        let compared: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(compared["sides"].as_array().unwrap().len(), 2);
    }
    assert_eq!(json["comparisons"].as_array().unwrap().len(), 2);
    // A picture for each experiment, whose time is its own.
    for (number, job) in ["paced", "rest"].into_iter().enumerate() {
        let picture = std::fs::read_to_string(json["pictures"][number].as_str().unwrap()).unwrap();
        assert!(picture.contains(&format!("{job} {a}")) && picture.contains(&format!("{job} {b}")), "{job}");
        assert!(picture.contains("2 rounds with gaps between them"), "{job}");
    }
    // The folder is an input of every view.
    let all = latscope(&["summary", "--json", "--by", "job,name", "-r", &text(&out)]).success();
    let all: Value = serde_json::from_str(&all).unwrap();
    let groups = all["groups"].as_array().unwrap().iter();
    let names: BTreeMap<&str, &str> =
        groups.map(|group| (group["job"].as_str().unwrap(), group["name"].as_str().unwrap())).collect();
    assert_eq!(names, BTreeMap::from([("paced", "pwrite"), ("rest", "pread")]), "{all}");
    let counted: u64 = results.iter().map(|result| result["count"].as_u64().unwrap()).sum();
    assert_eq!(all["total"]["count"], counted);
    let service = latscope(&["heatmap", "-y", "service", "-r", &text(&out), "job = paced"]).success();
    assert!(service.contains("Service time"), "{service}");
    for directory in [&a, &b] {
        assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0, "nothing is left behind");
    }
    let again = latscope(&words).failure(2);
    assert!(again.contains("already has traces"), "{again}");
}

#[test]
fn the_storage_lab_distinguishes_its_experiments() {
    let folder = two();
    let out = text(&folder.path().join("out"));
    let [a, b] = ["a", "b"].map(|name| text(&folder.path().join(name)));
    let words = ["lab", "storage", "--for", "100ms", "--rounds", "1", "-o", &out, &a, &b];
    let printed = latscope(&words).success();
    for job in ["paced", "sustained"] {
        assert!(printed.contains(&format!("{job} in {a}: ")), "{printed}");
        assert!(Path::new(&out).join(format!("compare-{job}.svg")).is_file(), "{printed}");
    }
    assert!(printed.contains("no period of slow requests") || printed.contains("recur every"), "{printed}");
    let files: Vec<String> = std::fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".lat"))
        .collect();
    let mut jobs: BTreeMap<&str, usize> = BTreeMap::new();
    files.iter().for_each(|name| *jobs.entry(name.split('.').next().unwrap()).or_default() += 1);
    assert_eq!((jobs["paced"], jobs["sustained"]), (2, 2), "{files:?}");
    // Not every file system has direct I/O; then that is reported.
    assert!(jobs.get("direct") == Some(&2) || printed.contains("direct is skipped"), "{printed}");
}

#[test]
fn loads_become_a_curve_and_panels_keep_their_order() {
    let folder = two();
    let (file, out) = (folder.path().join("mine.toml"), folder.path().join("out"));
    let mine = "about = 'x'\nrounds = 1\n[[experiment]]\nname = 'loads'\nabout = 'x'\noperation = 'read'\nsize = '4k'\n\
        work_size = '64k'\nturn = '200ms'\nloads = [1, 2]\n";
    std::fs::write(&file, mine).unwrap();
    let [a, b] = ["a", "b"].map(|name| text(&folder.path().join(name)));
    let printed = latscope(&["lab", "run", &text(&file), &a, &b, "-o", &text(&out)]).success();
    assert!(printed.contains("curve-loads.svg"), "{printed}");
    let curve = std::fs::read_to_string(out.join("curve-loads.svg")).unwrap();
    // Of each directory p50, p90 and p99 at both loads at least.
    assert!(curve.matches("<circle").count() >= 2 * 2 * 3, "{curve}");
    assert!(curve.contains(&format!("{a}: ")) && curve.contains(&format!("{b}: ")));
    // In the order of the lab, whichever made more requests.
    let heatmap = std::fs::read_to_string(out.join("heatmap-loads.svg")).unwrap();
    let panels =
        ["loads-max", "loads-1", "loads-2"].into_iter().flat_map(|job| [&a, &b].map(|at| format!("{job} {at}: ")));
    let places: Vec<_> = panels.map(|panel| heatmap.rfind(&panel).expect("a panel")).collect();
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn a_limit_decides_the_status() {
    let folder = two();
    let file = text(&folder.path().join("mine.toml"));
    let a = text(&folder.path().join("a"));
    let runs = [
        ("min > 1h", "min > 1h", 0, ""),
        ("min > 1h", "count > 1", 1, ": count > 1: count = "),
        ("count > 1", "min > 1h", 1, "rest in "),
    ];
    for (number, (limit, condition, status, printed)) in runs.into_iter().enumerate() {
        std::fs::write(&file, MINE.replace("count > 0", limit)).unwrap();
        let out = text(&folder.path().join(number.to_string()));
        let words = ["lab", "run", &file, &a, "--rounds", "1", "--for", "50ms", "-o", &out, "--fail-if", condition];
        let ended = latscope(&words);
        assert_eq!(ended.status, Some(status), "{limit}, {condition}: {}", ended.err);
        assert!(ended.err.contains(printed), "{}", ended.err);
    }
}

#[test]
fn a_dry_run_writes_nothing() {
    let folder = two();
    let (a, out) = (text(&folder.path().join("a")), folder.path().join("out"));
    for lab in ["storage", "etcd", "commit", "curve"] {
        let printed = latscope(&["lab", lab, "--dry-run", &a, "-o", &text(&out)]).success();
        assert!(
            printed.contains(&a) && printed.contains("of free space is needed") && printed.contains("Measuring takes"),
            "{printed}"
        );
    }
    assert!(!out.exists());
    assert_eq!(std::fs::read_dir(&a).unwrap().count(), 0);
    let list = latscope(&["lab", "list", "--json"]).success();
    let list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list.as_array().unwrap().len(), 4);
}

/// `make demo-spark` runs all of it.
#[test]
fn what_a_lab_of_spark_needs_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let out = text(&folder.path().join("out"));
    let words = ["lab", "spark", "--scale", "0.1", "--against", "spark.sql.shuffle.partitions=2", "-o", &out];
    let printed = latscope(&[&words[..], &["--dry-run"]].concat()).success();
    for expected in [
        "TPC-DS derived, not a benchmark result",
        "tpcds-0.1, which are made first",
        "against: spark.sql.shuffle",
        "24 tables at scale 0.1, about 26.9MiB of Parquet; DuckDB takes about 7s and 439MiB of memory",
        "3 rounds, 6 applications in all",
        "base: no settings; up to 1GiB of memory for each executor",
    ] {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
    let heap = ["--conf", "spark.executor.memory=3g", "--conf", "spark.executor.memoryOverhead=512", "--dry-run"];
    let printed = latscope(&[&words[..], &heap].concat()).success();
    assert!(printed.contains("up to 3.5GiB of memory for each executor"), "{printed}");
    for (wrong, name) in [("q3,q0", "q0"), ("q23", "q23"), ("q100", "q100"), ("q03", "q03"), ("Q3", "Q3"), ("q3,", "")]
    {
        let refused = latscope(&[&words[..], &["--dry-run", "--queries", wrong]].concat()).failure(2);
        assert!(refused.contains(&format!("There is no query {name:?}; there are python, q1 to q99")), "{refused}");
    }
    latscope(&[&words[..], &["--dry-run", "--queries", "q99,q14b,python"]].concat()).success();
    assert!(!folder.path().join("out").exists());
    let printed = latscope(&[&words[..], &["--python", "/proc/nowhere"]].concat()).failure(3);
    assert!(printed.contains("Cannot be run") && printed.contains("make spark"), "{printed}");
    let Some(python) = std::env::var_os("LATSCOPE_SPARK_PYTHON").filter(|python| Path::new(python).exists()) else {
        skipped!("LATSCOPE_SPARK_PYTHON does not name a Python with Spark");
        return;
    };
    let python = python.to_str().unwrap();
    // What the program takes for a query is one of the package.
    let mut run = command(python);
    run.args(["-B", "-c", "import queries; print(*queries.query_files())"]);
    let known = end(run.env("PYTHONPATH", root().join("apps/latscope/src/run/lab/spark")), b"").success();
    assert_eq!(known.split_whitespace().count(), 118);
    let all = known.split_whitespace().collect::<Vec<_>>().join(",");
    latscope(&[&words[..], &["--dry-run", "--queries", &all]].concat()).success();
}

/// Without the extension of DuckDB, Trino's generator makes the tables. Rows are those of the specification of TPC-DS 2 (tables of the
/// calendar and of demographics do not depend on the scale), and what is returned was sold.
#[test]
fn tables_of_spark_come_from_trino_as_well() {
    let Some(python) = std::env::var_os("LATSCOPE_SPARK_PYTHON").filter(|python| Path::new(python).exists()) else {
        skipped!("LATSCOPE_SPARK_PYTHON does not name a Python with Spark");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let run = |script: &str, proxy: Option<&str>| {
        let mut run = command(python.to_str().unwrap());
        run.args(["-B", "-c", &format!("import queries, sys\nfolder = sys.argv[1]\n{script}")]);
        run.arg(folder.path().join("tpcds-0.01")).env_remove("SPARK_HOME");
        run.env("PYTHONPATH", root().join("apps/latscope/src/run/lab/spark"));
        proxy.into_iter().for_each(|proxy| {
            run.env("https_proxy", proxy);
        });
        end(&mut run, b"")
    };
    let parent = "queries.os.path.dirname(folder)";
    let ended = run(&format!("queries.trino({parent})"), Some("http://127.0.0.1:9"));
    assert!(ended.status == Some(1) && ended.err.contains("duckdb-extension-tpcds==1.5.5"), "{}", ended.err);
    let ended = run(&format!("queries.trino({parent})"), None);
    if ended.status != Some(0) {
        skipped!("{}", ended.err.trim());
        return;
    }
    let counts = "queries.with_trino(folder, 0.01)\n\
                  import pyarrow.parquet as parquet\n\
                  read = lambda name, *columns: parquet.read_table(f'{folder}/{name}', columns=list(columns) or None)\n\
                  for name in ['date_dim', 'time_dim', 'customer_demographics', 'income_band']: print(name, len(read(name)))\n\
                  print(*[str(function(read('date_dim', 'd_date')['d_date'].to_pylist())) for function in (min, max)])\n\
                  pairs = lambda name, p: {tuple(row.values()) for row in read(name, p + '_item_sk', p + '_ticket_number').to_pylist()}\n\
                  sold, returned = pairs('store_sales', 'ss'), pairs('store_returns', 'sr')\n\
                  print(len(returned) > 100, returned <= sold, len(queries.os.listdir(folder)))\n";
    let ended = run(counts, None);
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    let expected = "date_dim 73049\ntime_dim 86400\ncustomer_demographics 1920800\nincome_band 20\n1900-01-02 2100-01-01\nTrue True 24\n";
    assert_eq!(String::from_utf8_lossy(&ended.out), expected);
}

#[test]
fn wrong_words_are_reported() {
    let folder = two();
    let file = folder.path().join("mine.toml");
    let a = text(&folder.path().join("a"));
    for (words, expected) in [
        (vec!["lab", "storage", "/proc/nowhere"], "Cannot be found"),
        (vec!["lab", "storage", "/proc/self/status"], "Not a directory"),
        (vec!["lab", "storage"], "No directory to measure"),
        (vec!["lab", "stroage", &a], "known labs: storage, etcd, commit, curve"),
        (vec!["lab", "storage", &a, &a], "given twice"),
        (vec!["lab", "storage", &a, "--for", "5"], "needs a unit"),
        (vec!["lab", "run", "/proc/nowhere.toml", &a], "Cannot be read"),
        (vec!["lab", "storage", &a, "--fail-if", "p99 >"], "--fail-if"),
    ] {
        let printed = latscope(&words).failure(2);
        assert!(printed.contains(expected), "{words:?}: {printed}");
    }
    std::fs::write(&file, MINE.replace("'1k'", "'1 furlong'")).unwrap();
    let printed = latscope(&["lab", "run", &text(&file), &a]).failure(2);
    assert!(printed.contains("mine.toml:8: "), "{printed}");
    std::fs::write(&file, MINE.replace("'64k'", "'64000t'")).unwrap();
    let printed = latscope(&["lab", "run", &text(&file), &a]).failure(3);
    assert!(printed.contains("are free"), "{printed}");
}

#[test]
fn an_interrupt_leaves_whole_traces_and_no_file() {
    let folder = two();
    let (a, out) = (folder.path().join("a"), folder.path().join("out"));
    let mut lab = command(LATSCOPE);
    lab.args(["lab", "storage", &text(&a), "-o", &text(&out), "--json"]);
    let child = lab.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let trace = out.join(format!("paced.{}.1.lat", text(&a).trim_matches('/').replace(['/', '.'], "-")));
    // The signal comes when the first turn is under way.
    while !trace.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(300));
    let sent = command("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let json: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!((&json["interrupted"], json["results"].as_array().unwrap().len()), (&Value::Bool(true), 1));
    let summary = latscope(&["summary", "--json", "-r", &text(&trace)]).success();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["total"]["count"], json["results"][0]["count"], "{summary}");
    assert_eq!(std::fs::read_dir(&a).unwrap().count(), 0);
}
