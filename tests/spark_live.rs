//! `latscope spark --follow` and the REST API: a server that answers with what a driver of Spark 4.0.5 answered, or does not answer.

use crate::live::lab::{Background, until};
use crate::program::{LATSCOPE, command, end, latscope, testdata};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const APP: &str = "app-20261121011349-0000";
const MIB: u64 = 1 << 20;

pub fn answered(name: &str) -> String {
    std::fs::read_to_string(testdata(&format!("spark_rest/{name}.json"))).unwrap()
}

fn listed(name: &str) -> Vec<Value> {
    serde_json::from_str(&answered(name)).unwrap()
}

/// A server on a port of its own until the test ends; an answer of `None` is silence. Its address.
pub fn serving(answer: impl Fn(&str) -> Option<(u16, String)> + Send + Sync + 'static) -> String {
    let (listener, answer) = (TcpListener::bind("127.0.0.1:0").unwrap(), Arc::new(answer));
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = Arc::clone(&answer);
            thread::spawn(move || {
                let head = BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
                let head: Vec<String> = head.collect();
                let path = head.first().and_then(|line| line.split([' ', '?']).nth(1)).unwrap_or_default();
                let path = path.strip_prefix("/api/v1/applications").unwrap_or(path);
                let path =
                    path.strip_prefix(&format!("/{APP}")).map_or(path, |rest| if rest.is_empty() { APP } else { rest });
                let Some((status, body)) = answer(path) else { return };
                let _ = write!(&stream, "HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            });
        }
    });
    address
}

/// The application, while it runs.
pub fn application(path: &str) -> Option<(u16, String)> {
    let attempt = json!({"startTimeEpoch": 1_795_223_628_376_i64, "endTimeEpoch": -1, "lastUpdatedEpoch": 1_795_223_628_376_i64, "completed": false, "appSparkVersion": "4.0.5"});
    let app = json!({"id": APP, "name": "tpcds-lab-plain", "attempts": [attempt]});
    match path {
        "" => Some((200, json!([app]).to_string())),
        APP => Some((200, app.to_string())),
        _ => None,
    }
}

#[test]
fn a_driver_that_is_silent_or_busy_is_asked_again() {
    let turns = AtomicUsize::new(0);
    let url = serving(move |path| match path {
        "/executors" => match turns.fetch_add(1, Ordering::SeqCst) {
            0 => Some((200, answered("mid.executors"))),
            1 => Some((503, "garbage is collected".into())),
            2 => None,
            3 => Some((200, answered("end.executors"))),
            // The application has ended.
            _ => Some((404, String::new())),
        },
        "/stages" => Some((200, answered("end.stages"))),
        other => application(other).or(Some((404, String::new()))),
    });
    let ended = latscope(&["spark", "-r", &url, "--follow", "-i", "1s", "--json"]);
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    assert!(ended.err.contains("503") && ended.err.contains("it is asked again"), "{}", ended.err);
    assert!(ended.err.contains("answers again") && ended.err.contains("has ended"), "{}", ended.err);
    let out = String::from_utf8(ended.out).unwrap();
    let rows: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (nth, name) in ["mid.executors", "end.executors"].into_iter().enumerate() {
        for executor in listed(name) {
            let row = rows.iter().filter(|row| row["executor"] == executor["id"]).nth(nth).unwrap();
            let peaks = &executor["peakMemoryMetrics"];
            assert_eq!(row["app"], APP);
            assert_eq!(row["active_tasks"], executor["activeTasks"]);
            assert_eq!(row["cores"], executor["totalCores"]);
            assert_eq!(row["gc_ns"].as_u64(), executor["totalGCTime"].as_u64().map(|ms| ms * 1_000_000));
            assert_eq!(row["heap"], peaks["JVMHeapMemory"]);
            // The API has how long tasks took, which is more.
            assert_eq!(row["run_ns"], Value::Null);
            assert_eq!(row["jvm_rss"], peaks["ProcessTreeJVMRSSMemory"]);
            assert_eq!(row["execution_memory"], peaks["OnHeapExecutionMemory"]);
            assert_eq!(row["storage_memory"], executor["memoryMetrics"]["usedOnHeapStorageMemory"]);
        }
    }
    // Parts of run time are those of all stages.
    let whole = rows.iter().find(|row| row["executor"] == "all").unwrap();
    let sum = |key: &str| listed("end.stages").iter().map(|stage| stage[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(whole["cpu_ns"].as_u64(), Some(sum("executorCpuTime")));
    assert_eq!(whole["run_ns"].as_u64(), Some(sum("executorRunTime") * 1_000_000));
    assert_eq!(whole["shuffle_write_ns"].as_u64(), Some(sum("shuffleWriteTime")));
}

/// Until its pages are ready a driver says that it starts, and then for a moment has no API, or sends to its pages.
#[test]
fn a_driver_that_starts_is_waited_for() {
    const STARTS: &[(u16, &str)] =
        &[(200, "Spark is starting up. Please wait a while until it's ready."), (404, ""), (302, ""), (200, "<html>")];
    const SOON: &[(u16, &str)] = &[(404, ""), (302, "")];
    let starting = |first: &'static [(u16, &'static str)]| {
        let (asked, turns) = (AtomicUsize::new(0), AtomicUsize::new(0));
        serving(move |path| match path {
            "" => match first.get(asked.fetch_add(1, Ordering::SeqCst)) {
                Some(&(status, body)) => Some((status, body.into())),
                None => application(""),
            },
            "/executors" if turns.fetch_add(1, Ordering::SeqCst) > 0 => Some((404, String::new())),
            "/executors" => Some((200, answered("end.executors"))),
            "/stages" => Some((200, answered("end.stages"))),
            other => application(other).or(Some((404, String::new()))),
        })
    };
    for first in [STARTS, SOON] {
        let ended = latscope(&["spark", "-r", &starting(first), "--follow", "-i", "1s", "--json"]);
        assert_eq!(ended.status, Some(0), "{}", ended.err);
        assert!(String::from_utf8(ended.out).unwrap().contains(APP), "{}", ended.err);
    }
    // Who does not follow, and sees nothing start, is told at once.
    let ended = latscope(&["summary", "-r", &starting(SOON)]);
    assert!(ended.err.contains("has no REST API of Spark"), "{}", ended.err);
}

#[test]
fn a_picture_of_what_runs_has_every_executor() {
    let turns = AtomicUsize::new(0);
    let since = command("date").args(["-u", "-d", "1 minute ago", "+%Y-%m-%dT%H:%M:%S.000GMT"]).output().unwrap();
    let since = String::from_utf8(since.stdout).unwrap().trim().to_string();
    let mut stages = listed("end.stages");
    (stages[0]["status"], stages[0]["submissionTime"]) = (json!("ACTIVE"), json!(since));
    stages[0].as_object_mut().unwrap().remove("completionTime");
    let stages = json!(stages).to_string();
    let job =
        json!([{"jobId": 7, "name": "collect at x", "status": "RUNNING", "submissionTime": since, "stageIds": [67]}]);
    let query = json!([{"id": 3, "description": "q67 <b>", "status": "RUNNING", "submissionTime": since, "duration": 5, "runningJobIds": [7]}]);
    let url = serving(move |path| match path {
        "/executors" if turns.fetch_add(1, Ordering::SeqCst) > 0 => Some((404, String::new())),
        "/executors" => Some((200, answered("end.executors"))),
        "/stages" => Some((200, stages.clone())),
        "/jobs" => Some((200, job.to_string())),
        "/sql" => Some((200, query.to_string())),
        other => application(other).or(Some((404, String::new()))),
    });
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("live.html");
    let ended = latscope(&["spark", "-r", &url, "--follow", "-i", "1s", "-o", page.to_str().unwrap()]).failure(3);
    assert!(ended.contains("though 1 of its jobs ran"), "{ended}");
    let page = std::fs::read_to_string(page).unwrap();
    // Nothing comes any more.
    assert!(!page.contains("http-equiv=\"refresh\"") && page.contains("the application has ended"), "{page}");
    assert!(page.contains(APP) && !page.contains("(gone)"), "{page}");
    // Those that run are drawn up to now; those that ended days ago are not.
    for what in ["sql 3 q67 &lt;b&gt; (runs)", "job 7 collect at x (runs)", "stage 67 parquet at"] {
        assert!(page.contains(what), "{what}: {page}");
    }
    assert!(!page.contains("stage 66 "), "{page}");
    // What was known once is a point, which no browser draws of a move alone.
    let line = page.lines().find(|line| line.contains("stroke=\"#0072b2\" stroke-width=\"1.5\"")).unwrap();
    assert!(line.matches('M').count() == line.matches("h0").count() && line.contains("h0"), "{line}");
    for executor in listed("end.executors") {
        let heap = executor["peakMemoryMetrics"]["JVMHeapMemory"].as_u64().unwrap();
        let expected = format!("heap at most {}MiB", heap / MIB);
        let rounded = format!("heap at most {}MiB", heap.div_ceil(MIB));
        assert!(page.contains(&expected) || page.contains(&rounded), "{expected}");
    }
}

#[test]
fn an_application_is_followed_for_a_time_and_executors_that_are_lost_are_marked() {
    let turns = AtomicUsize::new(0);
    let mut left = listed("end.executors");
    left.retain(|executor| executor["id"] != "1");
    let left = json!(left).to_string();
    let url = serving(move |path| match path {
        "/executors" if turns.fetch_add(1, Ordering::SeqCst) > 0 => Some((200, left.clone())),
        "/executors" => Some((200, answered("end.executors"))),
        "/stages" => Some((200, answered("end.stages"))),
        other => application(other).or(Some((404, String::new()))),
    });
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("live.svg");
    latscope(&["spark", "-r", &url, "--follow", "--for", "2s", "-i", "1s", "-o", picture.to_str().unwrap()]).success();
    let picture = std::fs::read_to_string(picture).unwrap();
    assert!(picture.contains(">executor 1 (gone)<") && picture.contains(">executor 0<"), "{picture}");
    // Other views end with their input.
    let refused = end(command(LATSCOPE).args(["summary", "-r", &url, "--follow", "--for", "2s"]), b"").failure(2);
    assert!(refused.contains("--for is for live captures"), "{refused}");
}

/// Lines and JSON say who is gone, once; a driver that takes longer than an interval has no gap between its answers.
#[test]
fn an_executor_that_is_lost_has_a_last_row() {
    let follow = |more: &[&str]| {
        let turns = AtomicUsize::new(0);
        let mut left = listed("end.executors");
        left.retain(|executor| executor["id"] != "1");
        let left = json!(left).to_string();
        let url = serving(move |path| match path {
            "/executors" => {
                thread::sleep(std::time::Duration::from_millis(1600));
                match turns.fetch_add(1, Ordering::SeqCst) {
                    0 => Some((200, answered("end.executors"))),
                    1 | 2 => Some((200, left.clone())),
                    _ => Some((404, String::new())),
                }
            }
            "/stages" => Some((200, answered("end.stages"))),
            other => application(other).or(Some((404, String::new()))),
        });
        latscope(&[&["spark", "-r", &url, "--follow", "-i", "1s"], more].concat())
    };
    let rows = follow(&["--json"]).success();
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let gone: Vec<_> = rows.iter().filter(|row| row["gone"] == true).map(|row| &row["executor"]).collect();
    assert_eq!(gone, ["1"]);
    // Over REST, run time by executor is never there, and so is its growth.
    assert!(rows.iter().all(|row| row["executor"] == "all" || row["run_ns_grown"].is_null()), "{rows:?}");
    let text = follow(&[]).success();
    let of_one: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|row| row.get(1) == Some(&"1"))
        .collect();
    assert!(of_one.len() == 2 && of_one[0].len() > 3 && of_one[1][2..] == ["gone"], "{text}");
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("live.svg");
    follow(&["-o", picture.to_str().unwrap()]).success();
    let picture = std::fs::read_to_string(picture).unwrap();
    let line = picture.lines().find(|line| line.contains("stroke=\"#0072b2\" stroke-width=\"1.5\"")).unwrap();
    assert_eq!([line.matches('M').count(), line.matches('L').count()], [1, 2], "{line}");
}

/// A driver that hangs has rows that say so, and for how long; the first answer and the last are there at once.
#[test]
fn a_driver_that_hangs_has_rows() {
    let follow = |more: &[&str]| {
        let turns = AtomicUsize::new(0);
        let url = serving(move |path| match path {
            "/executors" => match turns.fetch_add(1, Ordering::SeqCst) {
                0 => Some((200, answered("end.executors"))),
                1 => {
                    thread::sleep(std::time::Duration::from_millis(4600));
                    Some((200, answered("end.executors")))
                }
                _ => Some((404, String::new())),
            },
            "/stages" => Some((200, answered("end.stages"))),
            other => application(other).or(Some((404, String::new()))),
        });
        latscope(&[&["spark", "-r", &url, "--follow", "-i", "1s"], more].concat()).success()
    };
    let text = follow(&[]);
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let silent = |row: &&Vec<&str>| row.get(1..4) == Some(&["no", "answer", "for"]);
    let seconds: Vec<u64> =
        rows.iter().filter(silent).map(|row| row[4].strip_suffix('s').unwrap().parse().unwrap()).collect();
    assert!(!seconds.is_empty() && seconds.is_sorted() && seconds[0] >= 2, "{text}");
    let first = rows.iter().position(|row| silent(&row)).unwrap();
    let is_answer = |row: &Vec<&str>| row.get(1) == Some(&"all");
    assert!(rows[..first].iter().any(is_answer) && rows[first..].iter().any(is_answer), "{text}");
    let json = follow(&["--json"]);
    let rows: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let silent: Vec<&Value> = rows.iter().filter(|row| row["unanswered_s"].as_u64() >= Some(2)).collect();
    assert!(!silent.is_empty() && silent.iter().all(|row| row["app"] == APP), "{json}");
}

/// What cannot be used of what arrives is counted.
#[test]
fn lines_for_graphite_that_cannot_be_used_are_counted() {
    let graphite =
        Background::new(command(LATSCOPE).args(["spark", "--graphite", "127.0.0.1:0", "-i", "1s", "--json"]));
    until("the port", || graphite.printed().contains("listening on"));
    let printed = graphite.printed();
    let address = printed.split("listening on ").nth(1).unwrap().split(';').next().unwrap();
    let lines = "a.7.executor.runTime.count NaN 100\na.7.executor.threadpool.activeTasks 3 100\na.7.jvm.heap.used 1 100\npickle\n";
    std::net::TcpStream::connect(address).unwrap().write_all(lines.as_bytes()).unwrap();
    until("a row", || graphite.out_so_far().contains("\"active_tasks\":3"));
    let ended = graphite.interrupt();
    let said = "2 lines were left out; the first has a value that is no number of 0 or more";
    assert!(ended.err.contains(said), "{}", ended.err);
    let row = ended.success();
    assert!(row.contains("\"run_ns\":null,\"run_ns_grown\":null"), "{row}");
}

#[test]
fn settings_that_are_not_shown_are_not_made_up() {
    let task = |id: i64| {
        json!({"taskId": id, "index": id, "attempt": 0, "launchTime": "2026-11-21T01:15:33.829GMT", "duration": 4000 + id,
            "executorId": "1", "host": "127.0.0.1", "status": "SUCCESS", "taskLocality": "PROCESS_LOCAL", "speculative": false,
            "taskMetrics": {"executorRunTime": 3900, "executorCpuTime": 2_000_000_000_i64, "jvmGcTime": 5}})
    };
    let tasks = json!([task(0), task(1)]).to_string();
    let job = json!([{"jobId": 0, "status": "SUCCEEDED", "submissionTime": "2026-11-21T01:15:33.500GMT", "completionTime": "2026-11-21T01:15:39.100GMT",
        "stageIds": [67], "numCompletedStages": 1, "numFailedStages": 0}]);
    let report = |has_settings: bool| {
        let (tasks, job) = (tasks.clone(), job.to_string());
        let url = serving(move |path| match path {
            "/environment" if has_settings => Some((200, answered("end.environment"))),
            "/environment" => Some((500, "not for you".into())),
            "/allexecutors" => Some((200, answered("end.executors"))),
            "/jobs" => Some((200, job.clone())),
            "/stages" | "/sql" => Some((200, "[]".into())),
            "/stages/67" => Some((200, json!([listed("end.stages")[0]]).to_string())),
            "/stages/67/0/taskList" => Some((200, tasks.clone())),
            other => application(other).or(Some((404, String::new()))),
        });
        let text = latscope(&["spark", "-r", &url]).success();
        let json: Value = serde_json::from_str(&latscope(&["spark", "-r", &url, "--json"]).success()).unwrap();
        (text, json["memory"].clone())
    };
    let (text, memory) = report(true);
    assert!(text.contains("memory of an executor: heap 1GiB"), "{text}");
    assert!(memory["heap"] == 1024 * MIB && !memory["advice"].as_array().unwrap().is_empty(), "{memory}");
    let (text, memory) = report(false);
    assert!(text.contains("memory of an executor: not known") && !text.contains("spark.executor.memory "), "{text}");
    assert!(memory["heap"].is_null() && memory["container"].is_null(), "{memory}");
    assert_eq!(memory["advice"], json!([]));
    // What executors report is known all the same.
    assert_eq!(
        memory["reported"].as_u64(),
        listed("end.executors")[0]["memoryMetrics"]["totalOnHeapStorageMemory"].as_u64()
    );
}

#[test]
fn what_cannot_be_followed_is_refused_with_a_way_out() {
    let refused = |arguments: &[&str]| end(command(LATSCOPE).args(arguments), b"").failure(2);
    let log = testdata("spark_eventlog/mini_3.5.9.json.zst").display().to_string();
    assert!(refused(&["spark", "-r", &log, "--follow"]).contains("-r http://127.0.0.1:4040"));
    let samples = ["spark", "-r", "http://127.0.0.1:1", "--follow", "--cgroups", "executors.csv"];
    assert!(refused(&samples).contains("--cgroups live"));
    assert!(refused(&["spark", "-r", &log, "-i", "1s"]).contains("--follow"));
    assert!(refused(&["spark", "-r", "http://127.0.0.1:1", "--follow", "-i", "100ms"]).contains("1s"));
    assert!(refused(&["spark", "-r", "http://127.0.0.1:1", "--follow", "--fail-if", "gc > 10%"]).contains("event log"));
}

/// The log has the reason of a job and query, and the API only that of their stages: what a user cancelled is no failure in either.
#[test]
fn what_was_cancelled_is_no_failure_over_rest_as_in_the_log() {
    let report = |why: &str| -> Value {
        let mut stage = listed("end.stages")[0].clone();
        (stage["status"], stage["failureReason"]) = (json!("FAILED"), json!(why));
        let task = json!([{"taskId": 1, "index": 0, "attempt": 0, "launchTime": "2026-11-21T01:15:33.829GMT", "duration": 4000,
            "executorId": "1", "host": "127.0.0.1", "status": "SUCCESS", "taskLocality": "PROCESS_LOCAL", "speculative": false}]);
        let job = json!([{"jobId": 0, "status": "FAILED", "submissionTime": "2026-11-21T01:15:33.500GMT",
            "completionTime": "2026-11-21T01:15:39.100GMT", "stageIds": [67], "numCompletedStages": 0, "numFailedStages": 1}]);
        let sql = json!([{"id": 0, "status": "FAILED", "description": "q", "submissionTime": "2026-11-21T01:15:33.400GMT",
            "duration": 5700, "runningJobIds": [], "successJobIds": [], "failedJobIds": [0]}]);
        let url = serving(move |path| match path {
            "/allexecutors" => Some((200, answered("end.executors"))),
            "/jobs" => Some((200, job.to_string())),
            "/sql" => Some((200, sql.to_string())),
            "/stages" => Some((200, "[]".into())),
            "/stages/67" => Some((200, json!([stage]).to_string())),
            "/stages/67/0/taskList" => Some((200, task.to_string())),
            other => application(other).or(Some((404, String::new()))),
        });
        serde_json::from_str(&latscope(&["spark", "-r", &url, "--json"]).success()).unwrap()
    };
    let failed = |report: &Value| report["measures"]["failed"].as_f64();
    let cancelled = report("[SPARK_JOB_CANCELLED] Job 0 cancelled as part of cancellation of all jobs SQLSTATE: XXKDA");
    assert_eq!(failed(&cancelled), Some(0.0), "{}", cancelled["findings"]);
    for group in [&cancelled["jobs"][0], &cancelled["sql"][0]] {
        assert!(group["cancelled"] == true && group["failed"] == false);
        assert!(group["reason"].as_str().unwrap().contains("cancelled as part"), "{group}");
    }
    assert_eq!(failed(&report("Job 0 cancelled because SparkContext was shut down")), Some(1.0));
    assert_eq!(
        failed(&report("Total size of serialized results is bigger than spark.driver.maxResultSize")),
        Some(1.0)
    );
}

#[test]
fn percentiles_go_on_where_a_driver_is_silent_or_busy() {
    let turns = AtomicUsize::new(0);
    let task = json!([{"taskId": 1, "index": 0, "attempt": 0, "launchTime": "2026-11-21T01:15:33.829GMT", "duration": 4000,
        "executorId": "1", "host": "127.0.0.1", "status": "SUCCESS", "taskLocality": "PROCESS_LOCAL", "speculative": false,
        "taskMetrics": {"executorRunTime": 3900, "executorCpuTime": 2_000_000_000_i64, "jvmGcTime": 5}}]);
    let job = json!({"jobId": 0, "status": "SUCCEEDED", "submissionTime": "2026-11-21T01:15:33.500GMT", "completionTime": "2026-11-21T01:15:39.100GMT",
        "stageIds": [67], "numCompletedStages": 1, "numFailedStages": 0});
    let url = serving(move |path| match path {
        "/allexecutors" => match turns.fetch_add(1, Ordering::SeqCst) {
            1 => Some((503, "garbage is collected".into())),
            2 => None,
            _ => Some((200, answered("end.executors"))),
        },
        // The job is there when the driver answers again; then the application has ended.
        "/jobs" | "/jobs/0" if turns.load(Ordering::SeqCst) < 4 => Some((404, String::new())),
        "/jobs" => Some((200, json!([job]).to_string())),
        "/jobs/0" => Some((200, job.to_string())),
        "/stages" | "/sql" => Some((200, "[]".into())),
        "/stages/67" => Some((200, json!([listed("end.stages")[0]]).to_string())),
        "/stages/67/0/taskList" => Some((200, task.to_string())),
        APP if turns.load(Ordering::SeqCst) > 4 => Some((404, String::new())),
        other => application(other).or(Some((404, String::new()))),
    });
    let ended = latscope(&["percentiles", "-r", &url, "--follow", "-i", "1s", "--json"]);
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    assert!(ended.err.contains("503") && ended.err.contains("it is asked again"), "{}", ended.err);
    assert!(ended.err.contains("answers again"), "{}", ended.err);
    let out = String::from_utf8(ended.out).unwrap();
    assert!(out.contains("4000000000"), "the task that ended meanwhile is counted: {out}");
}
