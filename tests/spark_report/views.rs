//! What the report looks like, which tasks it is of, and when it fails a run.

use super::{Log, MS, START, Task, eight, log_of, number, task};
use crate::program::{latscope, testdata};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

#[test]
fn limits_fail_a_run() {
    let mut tasks = eight();
    tasks.iter_mut().for_each(|task| task.gc = 150);
    let mut log = log_of(&tasks);
    log.event("ApplicationEnd", json!({"Timestamp": START + 2000}));
    assert!(
        log.run(&["--fail-if", "gc > 20%", "--fail-if", "failed > 0", "--fail-if", "elapsed > 1min"])
            .success()
            .contains("planted")
    );
    assert!(
        log.run(&["--fail-if", "gc > 10%", "--fail-if", "run >= 8s"])
            .failure(1)
            .contains("gc is 15.0%, which is > 10.0%; run is 8s")
    );
    assert!(log.run(&["--fail-if", "nosuch > 1"]).failure(2).contains("is nothing that a limit can be on"));
    assert!(log.run(&["job = 999"]).failure(3).contains("No job of the application passes the filter"));
    for by in ["job", "sql"] {
        assert!(log.run(&["--by", by]).success().contains(&format!("\n{by}  stages")), "{by}");
    }
}

#[test]
fn a_filter_chooses_tasks_and_applications() {
    let folder = tempfile::tempdir().unwrap();
    let tasks = eight();
    let first = log_of(&tasks).0;
    let second = log_of(&tasks[..4]).0.replace("app-1", "app-2").replace("planted", "other");
    std::fs::write(folder.path().join("app-20261121011349-0001"), &first).unwrap();
    std::fs::write(folder.path().join("app-20261121011349-0002"), &second).unwrap();
    let run =
        |filter: &[&str]| latscope(&[&["spark", "--json", "-r", folder.path().to_str().unwrap()], filter].concat());
    let refused = run(&[]).failure(3);
    assert!(refused.contains("app = app-1, app = app-2"), "{refused}");
    let of = |filter: &str| -> Value { serde_json::from_str(&run(&[filter]).success()).unwrap() };
    let other = of("app = app-2");
    assert_eq!((&other["application"], number(&other, "/counters/numTasks")), (&json!("other, Spark 4.0.5"), 4));
    assert_eq!(
        [number(&other, "/active_tasks/cores"), number(&other, "/counters/elapsedTime")],
        [4, 1000],
        "it is whole"
    );
    // A second attempt is an application of its own; of two copies of a log, no filter chooses one.
    let start = "\"App ID\":\"app-1\"";
    let again = first.replace(start, &format!("{start},\"App Attempt ID\":\"2\""));
    std::fs::write(folder.path().join("app-20261121011349-0002"), &again).unwrap();
    assert!(run(&[]).failure(3).contains("app = app-1, app = app-1_2"));
    assert_eq!(number(&of("app = app-1_2"), "/counters/numTasks"), 8);
    std::fs::write(folder.path().join("app-20261121011349-0002"), &first).unwrap();
    let refused = run(&[]).failure(3);
    for words in ["give one log with -r (", "-0001, ", "-0002); more than one has app = app-1.\n"] {
        assert!(refused.contains(words), "{words}: {refused}");
    }
    std::fs::write(folder.path().join("app-20261121011349-0002"), &second).unwrap();
    for number in 3..6 {
        let other = first.replace("app-1", &format!("app-{number}"));
        std::fs::write(folder.path().join(format!("app-20261121011349-000{number}")), other).unwrap();
    }
    let refused = run(&[]).failure(3);
    assert!(refused.contains("app = app-3 and 2 more, which latscope summary --by app lists"), "{refused}");
    // The cores had other tasks, too.
    let part = of("app = app-1 and executor = 1");
    assert_eq!([number(&part, "/counters/numTasks"), number(&part, "/counters/elapsedTime")], [4, 2000]);
    for unknown in ["/active_tasks/cores", "/active_tasks/idle_ns", "/stages/0/tail_core_ns", "/measures/idle"] {
        assert_eq!(part.pointer(unknown), Some(&Value::Null), "{unknown}");
    }
    let limited = run(&["app = app-1 and executor = 1", "--fail-if", "idle > 5%"]).failure(3);
    assert!(limited.contains("idle is not known"), "{limited}");
}

/// A driver in `local-cluster` is the parent of its executors, and its process tree has their memory.
#[test]
fn the_driver_has_no_memory_of_executors_in_the_picture() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("a.svg");
    for (master, is_cluster) in [("local-cluster[2,1,1024]", true), ("spark://h1:7077", false)] {
        let mut log = Log::new(json!({"spark.master": master}));
        log.executor("1", 1, 0);
        log.job(0, (0, 4000), &[(0, 0, 4000)]);
        log.peaks("1", 0, &[("JVMHeapMemory", 100), ("ProcessTreeJVMRSSMemory", 300)]);
        log.peaks("driver", 0, &[("JVMHeapMemory", 80), ("ProcessTreeJVMRSSMemory", 900)]);
        log.task(&task(0, 0, "1", (0, 4000)));
        log.run(&["-o", picture.to_str().unwrap()]).success();
        let svg = std::fs::read_to_string(&picture).unwrap();
        let driver = svg.split(">Memory of the driver").nth(1).unwrap_or_else(|| panic!("{svg}"));
        assert!(svg.contains("RSS at most 300MiB"), "{svg}");
        assert_eq!(driver.contains("RSS at most 900MiB"), !is_cluster, "{driver}");
        assert_eq!(svg.contains("RSS not shown (it contains the executors)"), is_cluster, "{svg}");
    }
}

/// The picture shows the steps of tasks and cores where they are, and each stage with its words.
#[test]
fn the_picture_has_every_step() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("a.svg");
    let mut log = Log::new(json!({}));
    log.executor("1", 2, 0);
    log.job(0, (0, 4000), &[(0, 0, 4000)]);
    log.peaks("1", 0, &[("OnHeapUnifiedMemory", 100)]);
    [(0, 0, 2000), (1, 1000, 4000)].iter().for_each(|&(id, from, to)| log.task(&task(0, id, "1", (from, to))));
    assert_eq!(log.run(&["--pixels", "800", "-o", picture.to_str().unwrap()]).success(), "");
    let svg = std::fs::read_to_string(&picture).unwrap();
    // 200 pixels a second from 84 on; an axis of 2.2 tasks is 150 high.
    let line = svg.lines().find(|line| line.contains("stroke=\"#0072b2\" stroke-width=\"1.6\"")).unwrap();
    let path = line.split(" d=\"").nth(1).unwrap();
    let corners: Vec<f64> = path.split(['M', 'H', 'V', ' ', '"']).filter_map(|number| number.parse().ok()).collect();
    let xs: Vec<f64> = corners.iter().step_by(2).copied().collect();
    assert_eq!(xs, [84.0, 284.0, 484.0, 884.0]);
    let heights: Vec<f64> = corners.iter().skip(1).step_by(2).map(|y| corners[7] - y).collect();
    let expected = [1.0, 2.0, 1.0, 0.0].map(|tasks| tasks * 150.0 / 2.2);
    assert!(heights.iter().zip(expected).all(|(height, expected)| (height - expected).abs() < 0.2), "{heights:?}");
    for words in ["stage 0.0 s: 2 tasks in 4s", "job 0 : 2 tasks in 4s", "stage 0, executor 1: 100MiB", "Time of cores"]
    {
        assert!(svg.contains(words), "{words}");
    }
    let unsampled = latscope(&[
        "spark",
        "-r",
        testdata("spark_eventlog/mini_3.5.9.json.zst").to_str().unwrap(),
        "-o",
        picture.to_str().unwrap(),
    ]);
    assert_eq!(unsampled.success(), "");
    assert!(std::fs::read_to_string(&picture).unwrap().contains("Not sampled, which is not zero"));
}

/// The page has the report at its foot, and its security policy lets the section's style pass.
#[test]
fn the_page_has_the_report_as_a_section() {
    let folder = tempfile::tempdir().unwrap();
    let (log, page) = (folder.path().join("app-20261121011349-0001"), folder.path().join("a.html"));
    std::fs::write(&log, log_of(&eight()).0.replace("planted", "</pre><script>")).unwrap();
    latscope(&["report", "-r", log.to_str().unwrap(), "-o", page.to_str().unwrap()]).success();
    let html = std::fs::read_to_string(&page).unwrap();
    let (_, section) = html.split_once("<details class=\"more\"><summary>Spark application</summary><svg ").unwrap();
    assert!(section.contains("active tasks: 4.00 on average") && section.contains("Time of cores"));
    assert!(
        section.contains("&lt;/pre&gt;&lt;script&gt;") && !section.contains("<script>") && !section.contains("<style>")
    );
    let style = html.split("<style>").nth(2).unwrap().split("</style>").next().unwrap();
    assert!(style.starts_with("details.more{"), "{style}");
    let digest = crate::program::end(
        std::process::Command::new("openssl").args(["dgst", "-sha256", "-binary"]),
        style.as_bytes(),
    );
    if digest.status == Some(0) {
        let policy = html.split("content=\"").nth(1).unwrap().split('"').next().unwrap();
        let digest = format!("'sha256-{}'", BASE64_STANDARD.encode(&digest.out));
        assert!(policy.contains(&digest), "{policy} {digest}");
    }
}

#[test]
fn jobs_that_wait_for_their_first_task_are_reported() {
    let mut log = Log::new(json!({}));
    log.event(
        "JobStart",
        json!({"Job ID": 7, "Submission Time": START, "Stage IDs": [3],
        "Properties": {"spark.job.description": "hangs"}}),
    );
    let info = json!({"Stage ID": 3, "Stage Attempt ID": 0, "Stage Name": "s", "Submission Time": START + 500, "RDD Info": []});
    log.event("StageSubmitted", json!({"Stage Info": info}));
    log.executor("1", 2, 8000);
    let report = log.report();
    assert_eq!((number(&report, "/stages/0/stageDuration"), &report["ended"]), (7500, &json!(false)));
    let job = &report["jobs"][0];
    assert_eq!((&job["job"], &job["name"], &job["running"]), (&json!(7), &json!("hangs"), &json!(true)));
    assert_eq!(number(job, "/end_ns") - number(job, "/start_ns"), 8000 * MS);
    let text = log.run(&["--by", "job"]).success();
    for sentence in
        ["job 7 (hangs) has waited 8s for its first task", "the log has no end of the application", "running: hangs"]
    {
        assert!(text.contains(sentence), "{sentence}: {text}");
    }
}

/// Heap, RSS, execution and storage memory of each executor are the greatest of its stages, and what was not sampled is not zero.
#[test]
fn the_picture_has_the_memory_of_executors() {
    let folder = tempfile::tempdir().unwrap();
    let (file, picture) = (folder.path().join("app-1"), folder.path().join("a.svg"));
    let log = crate::program::unpacked("spark_eventlog/tpcds_lab.json.zst");
    std::fs::write(&file, &log).unwrap();
    let draw = |file: &std::path::Path| {
        latscope(&["spark", "-r", file.to_str().unwrap(), "-o", picture.to_str().unwrap()]).success();
        std::fs::read_to_string(&picture).unwrap()
    };
    let svg = draw(&file);
    let events = || log.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let peaks: Vec<Value> = events().filter(|event| event["Event"] == "SparkListenerStageExecutorMetrics").collect();
    for executor in ["0", "1", "driver"] {
        let of = |names: &[&str]| {
            let sum = |event: &Value| -> u64 {
                names.iter().map(|name| event["Executor Metrics"][name].as_u64().unwrap()).sum()
            };
            peaks.iter().filter(|event| event["Executor ID"] == executor).map(sum).max().unwrap()
        };
        for (area, bytes) in [
            ("heap", of(&["JVMHeapMemory"])),
            ("RSS", of(&["ProcessTreeJVMRSSMemory", "ProcessTreePythonRSSMemory"])),
            ("execution", of(&["OnHeapExecutionMemory", "OffHeapExecutionMemory"])),
            ("storage", of(&["OnHeapStorageMemory", "OffHeapStorageMemory"])),
        ] {
            let expected = format!("{area} at most {}", latscope_event::format_size(bytes));
            assert!(svg.contains(&expected), "executor {executor}: {expected}");
        }
    }
    // Without the switch for processes, RSS is 0 in the log.
    let text = String::from_utf8(log.clone()).unwrap();
    let mut parts = text.split("RSSMemory\":");
    let mut unsampled = parts.next().unwrap().to_string();
    for part in parts {
        unsampled += "RSSMemory\":0";
        unsampled += part.trim_start_matches(|letter: char| letter.is_ascii_digit());
    }
    std::fs::write(&file, unsampled).unwrap();
    let svg = draw(&file);
    assert_eq!((svg.matches("RSS not sampled").count(), svg.contains("RSS at most")), (3, false));
}

/// Where files are renamed by a copy, what was in progress may be left.
#[test]
fn a_log_beside_its_beginning_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let (file, log) = (|name: &str| folder.path().join(name), log_of(&eight()).0);
    std::fs::write(file("app-20261121011349-0001"), &log).unwrap();
    std::fs::write(file("app-20261121011349-0001.inprogress"), &log[..log.len() / 2]).unwrap();
    let path = folder.path().to_str().unwrap();
    let ended = latscope(&["summary", "-r", path, "--json"]);
    assert!(ended.err.contains("app-20261121011349-0001.inprogress is left out"), "{}", ended.err);
    let summary: Value = serde_json::from_str(&ended.success()).unwrap();
    assert_eq!(summary["total"]["count"], 8);
    assert!(latscope(&["spark", "-r", path]).success().contains("8 tasks"));
    // Another application is one more log, and the report is of one: both are named.
    std::fs::write(file("app-20261121011349-0002"), log.replace("\"app-1\"", "\"app-2\"")).unwrap();
    let refused = latscope(&["spark", "-r", path]).failure(3);
    for name in ["app-20261121011349-0001, ", "app-20261121011349-0002)", "app = app-1, app = app-2"] {
        assert!(refused.contains(name), "{name}: {refused}");
    }
}

/// CPU, shuffle write and GC overlap.
#[test]
fn parts_beyond_the_time_of_tasks_are_explained() {
    let mut tasks = eight();
    assert!(!log_of(&tasks).run(&[]).success().contains("add up to"));
    tasks.iter_mut().for_each(|task| (task.cpu, task.write) = (1000, 100));
    let text = log_of(&tasks).run(&[]).success();
    assert!(text.contains("The parts add up to 110.0% of task time because they overlap"), "{text}");
}

/// Executors and nodes that failed too often get no more tasks. Spark says so under two names, of the application and of a stage.
#[test]
fn what_was_excluded_is_named_with_its_time_and_reason() {
    let mut log = Log::new(json!({}));
    log.executor("1", 2, 0);
    log.executor("2", 2, 0);
    log.event("JobStart", json!({"Job ID": 0, "Submission Time": START, "Stage IDs": [0]}));
    let info = json!({"Stage ID": 0, "Stage Attempt ID": 0, "Stage Name": "s", "Submission Time": START, "Completion Time": START + 9000,
        "RDD Info": []});
    log.event("StageSubmitted", json!({"Stage Info": info}));
    (0..2).for_each(|id| {
        log.task(&Task { reason: json!({"Reason": "ExceptionFailure"}), ..task(0, id, "1", (0, 2000)) });
    });
    let stage = json!({"time": START + 2000, "executorId": "1", "taskFailures": 2, "stageId": 0, "stageAttemptId": 0});
    for word in ["Blacklisted", "Excluded"] {
        log.event(&format!("Executor{word}ForStage"), stage.clone());
        log.event(&format!("Executor{word}"), json!({"time": START + 3000, "executorId": "1", "taskFailures": 1}));
        log.event(&format!("Node{word}"), json!({"time": START + 4000, "hostId": "h2", "executorFailures": 2}));
    }
    log.task(&task(0, 2, "2", (2000, 9000)));
    log.event("StageCompleted", json!({"Stage Info": info}));
    log.event(
        "JobEnd",
        json!({"Job ID": 0, "Completion Time": START + 9000, "Job Result": {"Result": "JobSucceeded"}}),
    );
    ["Unblacklisted", "Unexcluded"].iter().for_each(|word| {
        log.event(&format!("Executor{word}"), json!({"time": START + 9500, "executorId": "1"}));
    });
    log.event("ApplicationEnd", json!({"Timestamp": START + 10_000}));
    let text = log.run(&[]).success();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .skip_while(|line| !line.starts_with("excluded"))
        .skip(1)
        .take_while(|line| !line.is_empty())
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    let expected = [
        ["executor 1", "h1", "stage 0", "2s", "9s", "2 tasks failed on it; stage ended"],
        ["executor 1", "h1", "application", "3s", "9s", "1 task failed on it; allowed again"],
        ["node", "h2", "application", "4s", "end", "2 executors of it were excluded"],
    ];
    assert_eq!(rows, expected, "{text}");
    let report = log.report();
    assert_eq!(
        report["exclusions"][0],
        json!({"executor": "1", "host": "h1", "stage": 0, "attempt": 0, "start_ns": (START + 2000) * MS, "end_ns": (START + 9000) * MS,
            "ended_by": "stage ended", "failures": 2})
    );
    assert_eq!(report["exclusions"].as_array().unwrap().len(), 3);
    assert_eq!(report["anomalies"], json!({}));
    let events = tempfile::tempdir().unwrap();
    std::fs::write(events.path().join("app-1"), &log.0).unwrap();
    let log = events.path().join("app-1");
    let shown = latscope(&["summary", "-r", log.to_str().unwrap(), "-s", "spark", "--by", "kind", "--csv"]).success();
    assert!(shown.contains("exclusion"), "{shown}");
}

/// A form that the report does not have is refused with those that it has; so is a kernel recording that is an event log.
#[test]
fn what_the_report_cannot_be_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("app-1"), log_of(&eight()).0).unwrap();
    let run = |more: &[&str]| latscope(&[&["spark", "-r", &path("app-1")], more].concat());
    for (name, more) in [("x.html", vec![]), ("x.HTM", vec![]), ("x.html", vec!["--json"])] {
        let refused = run(&[&["-o", &path(name)], &more[..]].concat()).failure(2);
        let way = format!("latscope report -r {} -o {} does", path("app-1"), path(name));
        assert!(refused.contains("-o NAME.svg") && refused.contains(&way), "{refused}");
        assert!(!folder.path().join(name).exists());
    }
    let refused = run(&["-o", &path("x.json")]).failure(2);
    assert!(refused.contains("add --json"), "{refused}");
    run(&["--json", "-o", &path("x.json")]).success();
    let refused = run(&["--kernel", &path("app-1")]).failure(3);
    assert!(refused.contains("app-1: This is an event log of Spark; give a recording of the host"), "{refused}");
}

/// Eight tasks of a stage that says that it has eight, and the end of the application.
fn whole() -> Log {
    let mut log = log_of(&eight());
    log.event("ApplicationEnd", json!({"Timestamp": START + 2000}));
    Log(log.0.replace("\"RDD Info\":[]", "\"Number of Tasks\":8,\"RDD Info\":[]"))
}

/// The listener of the driver drops events when it does not keep up.
#[test]
fn tasks_that_are_lost_with_start_and_end_are_counted() {
    let limit = ["--fail-if", "failed > 0"];
    let lost = |log: &Log, expected: u64| {
        assert_eq!(log.report()["anomalies"], json!({"lost_tasks": expected}));
        let ended = log.run(&limit);
        assert!(ended.err.contains(&format!("missing: {expected} task")), "{}", ended.err);
        assert!(ended.err.contains("of which the log has neither start nor end"), "{}", ended.err);
        let are = if expected == 1 { "1 task is missing".into() } else { format!("{expected} tasks are missing") };
        let undecided = ended.failure(3);
        assert!(undecided.contains(&format!("--fail-if cannot be decided: {are}, with start and end")), "{undecided}");
    };
    let whole = whole();
    whole.run(&limit).success();
    // One in the middle, and the last one, after which no number is higher.
    lost(&whole.without(&["\"Task ID\":3}"]), 1);
    lost(&whole.without(&["\"Task ID\":7}"]), 1);
    lost(&whole.without(&["\"Task ID\":2}"]).without(&["\"Task ID\":7}"]), 2);
    assert!(whole.without(&["\"Task ID\":3}"]).run(&["--fail-if", "tasks > 6"]).failure(1).contains("tasks is 7"));
    // Of a failure, the next attempt is there.
    let mut retried = eight();
    retried[3].reason = json!({"Reason": "ExceptionFailure"});
    retried.push(Task { id: 8, attempt: 1, reason: json!({"Reason": "Success"}), ..retried[3].clone() });
    let mut retried = log_of(&retried);
    retried.event("ApplicationEnd", json!({"Timestamp": START + 2000}));
    assert!(retried.run(&limit).failure(1).contains("failed is 1"));
    lost(&retried.without(&["\"Task ID\":3}"]), 1);
}

#[test]
fn tasks_that_never_were_are_not_lost() {
    let stage = |stage: i64, attempt: i64, failure: Option<&str>| {
        let mut log = log_of(&eight());
        let mut info = json!({"Stage ID": stage, "Stage Attempt ID": attempt, "Stage Name": "s", "Submission Time": START + 1000,
            "Number of Tasks": 4, "RDD Info": []});
        log.event("JobStart", json!({"Job ID": 1, "Submission Time": START + 1000, "Stage IDs": [stage]}));
        log.event("StageSubmitted", json!({"Stage Info": info}));
        info["Completion Time"] = json!(START + 2000);
        if let Some(failure) = failure {
            info["Failure Reason"] = json!(failure);
        }
        log.event("StageCompleted", json!({"Stage Info": info}));
        log.report()["anomalies"].clone()
    };
    // Late tasks of the first attempt did the work of the second one; a stage was cancelled before its tasks were launched.
    assert_eq!([stage(0, 1, None), stage(1, 0, Some("cancelled"))], [json!({}), json!({})]);
    assert_eq!(stage(1, 0, None), json!({"lost_tasks": 4}));
    // Two applications in one file count their tasks for themselves.
    let next = whole().0.replace("app-1", "app-2");
    let both = Log(whole().0 + &next).run(&["app = app-2", "--json"]).success();
    assert_eq!(serde_json::from_str::<Value>(&both).unwrap()["anomalies"], json!({}));
    let both = Log(whole().without(&["\"Task ID\":3}"]).0 + &next).run(&["app = app-2", "--json"]).success();
    assert_eq!(serde_json::from_str::<Value>(&both).unwrap()["anomalies"], json!({"lost_tasks": 1}));
    let logs = [
        "tpcds_lab.json.zst",
        "mini_3.5.9.json.zst",
        "join_agg_on_yarn.json.zst",
        "eventlog_v2_local-1795226752528",
        "local-1795227501211.lz4",
        "truncated_inprogress_app-20261121013034-0003.zstd.inprogress",
    ];
    for name in logs {
        let file = testdata(&format!("spark_eventlog/{name}"));
        let report = latscope(&["spark", "-r", file.to_str().unwrap(), "--json"]).success();
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["anomalies"].get("lost_tasks"), None, "{name}");
    }
}

/// Other views than the report judge a log that is not whole as it does.
#[test]
fn percentiles_of_a_log_that_is_not_whole_are_undecided() {
    let whole = whole();
    let end = "SparkListenerApplicationEnd";
    for more in [&[][..], &["-i", "1s"], &["--exact"]] {
        let judge = |log: &Log, limit: &str| log.view("percentiles", &[&["--fail-if", limit], more].concat());
        assert!(judge(&whole, "max > 100s").success().contains("p99"));
        let undecided = |log: &Log, why: &str| {
            let said = judge(log, "max > 100s").failure(3);
            assert!(said.contains("app-20261121011349-0001: --fail-if max > 100s cannot be decided: "), "{said}");
            assert!(said.contains(why), "{said}");
            assert!(judge(log, "max > 100ms").failure(1).contains("worst max = 1s"));
        };
        undecided(&whole.without(&[end]), "the log has no end of the application, which exceeds no limit so far");
        undecided(&whole.without(&["\"Task ID\":3}"]), "1 task is missing, with start and end");
        undecided(&whole.without(&["SparkListenerApplicationStart"]), "lacks its beginning");
        undecided(&Log(whole.0.replace("\"Task ID\":3}", "\"Task ID\":null}")), "1 line is malformed");
    }
    // A task that still runs has taken as long as is known.
    let mut running = whole.without(&[end]);
    let info =
        json!({"Task ID": 8, "Index": 8, "Launch Time": START, "Executor ID": "1", "Host": "h1", "Locality": "ANY"});
    running.event("TaskStart", json!({"Stage ID": 0, "Stage Attempt ID": 0, "Task Info": info}));
    running.executor("3", 1, 200_000);
    assert!(running.view("percentiles", &["--fail-if", "max > 100s"]).failure(1).contains("worst max = 3.33min"));
    let file = testdata("spark_eventlog/truncated_inprogress_app-20261121013034-0003.zstd.inprogress");
    let run = |file: &str| latscope(&["percentiles", "-r", file, "--fail-if", "max > 100s"]);
    assert!(run(file.to_str().unwrap()).failure(3).contains("the log has no end of the application"));
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("eventlog_v2_app-1");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("events_1_app-1"), whole.without(&[end]).0).unwrap();
    std::fs::write(folder.join("events_3_app-1"), whole.0.lines().last().unwrap()).unwrap();
    let said = run(folder.to_str().unwrap()).failure(3);
    assert!(said.contains("1 part of the rolled log is missing or compacted"), "{said}");
}

/// Spark stops its executors after the application has ended, and some exit with a code or a signal then.
#[test]
fn executors_that_end_with_the_application_are_not_lost() {
    let log = |removed: &[(&str, i64, &str)]| {
        let mut log = whole();
        removed.iter().for_each(|(id, at, reason)| log.removed(id, *at, reason));
        log
    };
    let stopped = log(&[("1", 2300, "Command exited with code 143"), ("2", 2000, "Worker shutting down")]);
    let report = stopped.report();
    assert_eq!([number(&report, "/measures/lost"), number(&report, "/counters/elapsedTime")], [0, 2000]);
    assert_eq!(report["measures"]["elapsed"].as_f64(), Some(2e9), "to the end of the application");
    assert!(!stopped.run(&["--fail-if", "lost > 0"]).success().contains("verdict: errors"));
    // It was lost before, though its event is behind the end.
    let lost = log(&[("1", 2300, "Command exited with code 143"), ("2", 1900, "Command exited with code 137")]);
    assert!(lost.run(&["--fail-if", "lost > 0"]).failure(1).contains("lost is 1, which is > 0"));
}

/// Launch and finish are by the clock of the driver, run time is not.
#[test]
fn parts_that_exceed_task_time_have_their_reason() {
    let text = |change: &dyn Fn(&mut Task)| {
        let mut tasks = eight();
        tasks.iter_mut().for_each(change);
        let text = log_of(&tasks).run(&[]).success();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let set_back = text(&|task| (task.span.1, task.delay) = (task.span.1 - 500, -500));
    let words = "because the clock of the driver was set back while tasks ran: they took 4s longer than from their launch to their finish.";
    assert!(set_back.contains("The parts add up to 200.0% of task time") && set_back.contains(words), "{set_back}");
    let overlap = text(&|task| task.gc = 600);
    assert!(overlap.contains("of task time because they overlap: shuffle writes use CPU"), "{overlap}");
}

#[test]
fn nothing_is_advised_from_settings_that_the_log_lacks() {
    let log = whole().without(&["SparkListenerEnvironmentUpdate"]);
    let report = log.report();
    assert_eq!((&report["memory"]["advice"], &report["memory"]["heap"]), (&json!([]), &Value::Null));
    let text = log.run(&[]).success().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("memory of an executor: not known, as the log lacks the settings of the application"),
        "{text}"
    );
    assert!(text.contains("Nothing is advised, and each task counts as holding one core."), "{text}");
    // Executors report the pool that follows from the defaults.
    let file = testdata("spark_eventlog/tpcds_lab.json.zst");
    let text = latscope(&["spark", "-r", file.to_str().unwrap()]).success();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("What follows takes the defaults of Spark, as executors report the unified pool"), "{text}");
}

/// Events that no number comes of are not parsed.
#[test]
fn lines_that_are_cut_are_malformed_whatever_they_are() {
    for class in ["ExecutorMetricsUpdate", "DriverAccumUpdates", "SQLAdaptiveExecutionUpdate", "OfALaterVersion"] {
        let mut log = whole();
        log.event(class, json!({"values": {"a": [1, 2]}, "zone": "b"}));
        let unknown = if class.starts_with("Of") { json!({"unknown_records": 1}) } else { json!({}) };
        assert_eq!(log.report()["anomalies"], unknown, "{class}");
        let cut = log.0.trim_end().len() - 3;
        let log = Log(format!("{}\n{}", &log.0[..cut], whole().0.lines().last().unwrap()));
        assert_eq!(log.report()["anomalies"], json!({"unparsed_lines": 1}), "{class}");
        assert!(log.run(&["--fail-if", "failed > 0"]).failure(3).contains("1 line is malformed"));
    }
}

/// A listener that falls behind drops all events of a stage, too, as at the end of a job.
#[test]
fn a_stage_without_any_event_is_lost_where_its_job_has_a_result() {
    let log = |stage: i64| {
        let mut log = Log::new(json!({}));
        log.executor("1", 2, 0);
        let infos: Vec<Value> = (0..2).map(|id| json!({"Stage ID": id, "Number of Tasks": 3})).collect();
        let start = json!({"Job ID": 0, "Submission Time": START, "Stage IDs": [1, 0], "Stage Infos": infos});
        log.event("JobStart", start);
        let info = json!({"Stage ID": stage, "Stage Attempt ID": 0, "Stage Name": "s", "Submission Time": START,
            "Completion Time": START + 1000, "RDD Info": []});
        log.event("StageSubmitted", json!({"Stage Info": info}));
        (0..3).for_each(|id| log.task(&task(stage, id, "1", (0, 1000))));
        log.event("StageCompleted", json!({"Stage Info": info}));
        let result = json!({"Result": "JobSucceeded"});
        log.event("JobEnd", json!({"Job ID": 0, "Completion Time": START + 2000, "Job Result": result}));
        log.event("ApplicationEnd", json!({"Timestamp": START + 2000}));
        log
    };
    let limit = ["--fail-if", "failed > 0"];
    // The first one is skipped where an earlier job computed it, the last one never is.
    assert_eq!(log(1).report()["anomalies"], json!({}));
    log(1).run(&limit).success();
    let lost = log(0);
    assert_eq!(lost.report()["anomalies"], json!({"lost_tasks": 3}));
    assert!(lost.run(&limit).failure(3).contains("3 tasks are missing, with start and end"));
    lost.view("percentiles", &["--fail-if", "max > 100s"]).failure(3);
    Log(lost.0.replace("JobSucceeded", "JobFailed")).run(&limit).failure(1);
}

#[test]
fn starts_of_jobs_and_queries_that_the_listener_dropped_are_counted() {
    let mut log = Log::new(json!({}));
    log.executor("1", 2, 0);
    for id in 0..3 {
        let (from, to) = (1000 * id, 1000 * id + 1000);
        log.event("SQLExecutionStart", json!({"executionId": id, "description": "q", "time": START + from}));
        log.job(id, (from, to), &[(id, from, to)]);
        log.task(&task(id, id, "1", (from, to)));
        log.event("SQLExecutionEnd", json!({"executionId": id, "time": START + to, "errorMessage": ""}));
    }
    log.event("ApplicationEnd", json!({"Timestamp": START + 3000}));
    let limit = ["--fail-if", "failed > 0"];
    log.run(&limit).success();
    // A start; a job in the middle; the last one, of which there is a stage; the start of a query.
    for words in [
        &["JobStart", "\"Job ID\":1"][..],
        &["\"Job ID\":1"],
        &["\"Job ID\":2"],
        &["SQLExecutionStart", "\"executionId\":1"],
    ] {
        let dropped = log.without(words);
        assert_eq!(dropped.report()["anomalies"], json!({"lost_records": 1}), "{words:?}");
        let undecided = dropped.run(&limit).failure(3);
        assert!(undecided.contains("1 start of jobs or SQL executions is missing"), "{undecided}");
    }
}

/// Two runs of 200 tasks; of the second one the driver was killed, or the listener dropped a task.
#[test]
fn a_comparison_with_a_log_that_is_not_whole_is_undecided() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, step: i64| {
        let mut log = Log::new(json!({}));
        log.executor("1", 1, 0);
        log.job(0, (0, 400_000), &[(0, 0, 400_000)]);
        for id in 0..200 {
            log.task(&task(0, id, "1", (2000 * id, 2000 * id + 1000 + id * step % 101)));
        }
        log.event("ApplicationEnd", json!({"Timestamp": START + 400_000}));
        let write = |name: &str, log: &Log| {
            let path = folder.path().join(name);
            std::fs::write(&path, &log.0).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let killed = log.without(&["ApplicationEnd"]);
        let dropped = log.without(&["\"Task ID\":77}"]);
        [(String::new(), &log), (".inprogress".into(), &killed), ("-dropped".into(), &dropped)]
            .map(|(more, log)| write(&format!("{name}{more}"), log))
    };
    let ([base, ..], [whole, killed, dropped]) = (write("app-1", 37), write("app-2", 41));
    let compare = |other: &str, limit: &str| latscope(&["compare", &base, other, "--fail-if", limit]);
    compare(&whole, "mean > 10%").success();
    for other in [&killed, &dropped] {
        let undecided = compare(other, "mean > 10%").failure(3);
        assert!(undecided.contains("cannot be decided"), "{undecided}");
    }
}

#[test]
fn what_no_task_has_is_not_known() {
    let mut tasks = eight();
    tasks.iter_mut().for_each(|task| task.is_lost = true);
    let mut log = log_of(&tasks);
    log.event("ApplicationEnd", json!({"Timestamp": START + 2000}));
    for limit in ["gc > 10%", "spilled > 1", "peak_memory > 1GiB", "cpu < 1%"] {
        let undecided = log.run(&["--fail-if", limit]).failure(3);
        assert!(undecided.contains("is not known, as no task has metrics"), "{limit}: {undecided}");
    }
    log.run(&["--fail-if", "failed > 0", "--fail-if", "elapsed > 1h"]).success();
    let report = log.report();
    assert_eq!((&report["measures"]["gc"], &report["measures"]["spilled"]), (&Value::Null, &Value::Null));
    let text = log.run(&[]).success().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(!text.contains("nothing was spilled") && !text.contains("GC takes"), "{text}");
    assert!(text.contains("no task in the log has metrics"), "{text}");
    // A quarter of the time is of an executor that was lost.
    let mut tasks = eight();
    tasks.iter_mut().take(2).for_each(|task| task.is_lost = true);
    let mut log = log_of(&tasks);
    log.event("ApplicationEnd", json!({"Timestamp": START + 2000}));
    let undecided = log.run(&["--fail-if", "spilled > 1GiB"]).failure(3);
    assert!(undecided.contains("took 25.0% of task time"), "{undecided}");
}

/// An hour passed for the driver, but not for the executor.
#[test]
fn a_clock_that_was_set_forward_makes_no_small_tasks() {
    let mut tasks = eight();
    (tasks[7].span.1, tasks[7].delay) = (tasks[7].span.1 + 3_600_000, 3_600_000);
    let report = log_of(&tasks).report();
    let findings = report["findings"].as_array().unwrap();
    let small = findings.iter().find(|finding| finding["verdict"] == "small tasks").unwrap();
    assert_eq!(small["confidence"], "low");
    assert!(small["evidence"].as_str().unwrap().contains("its clock was set forward while tasks ran"), "{small}");
}
