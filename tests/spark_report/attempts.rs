//! Attempts at tasks, the cores that they hold, and what a log does not say.

use super::{Log, MIB, MS, START, Task, number, task, words};
use crate::program::latscope;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What idle cores cost by cause, core-milliseconds.
fn idle(report: &Value) -> BTreeMap<String, i64> {
    let causes = report["idle"]["causes"].as_array().unwrap().iter();
    causes.map(|cause| (cause["cause"].as_str().unwrap().into(), number(cause, "/core_ns") / MS)).collect()
}

fn expected(costs: &[(&str, i64)]) -> BTreeMap<String, i64> {
    costs.iter().map(|(cause, cost)| (cause.to_string(), *cost)).collect()
}

/// Tasks that ran at each step: milliseconds from the start, and how many.
fn steps(report: &Value) -> Vec<[i64; 2]> {
    let steps = report["active_tasks"]["steps"].as_array().unwrap().iter();
    steps.map(|step| [number(step, "/0") / MS - START, number(step, "/1")]).collect()
}

fn retry(of: &Task, id: i64, attempt: i64, span: (i64, i64)) -> Task {
    Task { id, attempt, span, reason: json!({"Reason": "Success"}), ..of.clone() }
}

#[test]
fn a_task_waits_for_its_retry() {
    let mut log = Log::new(json!({}));
    log.executor("1", 2, 0);
    log.job(0, (0, 8000), &[(0, 0, 8000)]);
    let first = Task { reason: json!({"Reason": "ExceptionFailure"}), ..task(0, 0, "1", (0, 2000)) };
    log.task(&first);
    log.task(&retry(&first, 1, 1, (5000, 8000)));
    let report = log.report();
    assert_eq!(steps(&report), [[0, 1], [2000, 0], [5000, 1], [8000, 0]]);
    assert_eq!(idle(&report), expected(&[("few tasks", 2000 + 3000), ("scheduling", 6000)]));
    // Where there would be four cores but are two, which others have, the retry waits for one of them.
    let mut log = Log::new(json!({}));
    log.executor("1", 2, 0);
    log.executor("2", 2, 5000);
    log.job(0, (0, 8000), &[(0, 0, 8000)]);
    (1..3).for_each(|id| log.task(&task(0, id, "1", (0, 8000))));
    log.task(&Task { id: 3, index: 3, span: (0, 2000), ..first.clone() });
    log.task(&Task { index: 3, ..retry(&first, 4, 1, (5000, 8000)) });
    assert_eq!(idle(&log.report())["allocation"], 3000);
}

#[test]
fn copies_that_lose_are_no_failures_and_nobody_waits_for_them() {
    let mut log = Log::new(json!({"spark.executor.memory": "1g"}));
    log.executor("1", 2, 0);
    log.job(0, (0, 6000), &[(0, 0, 6000)]);
    let killed = json!({"Reason": "TaskKilled", "Kill Reason": "another attempt succeeded"});
    let slow = Task { reason: killed, ..task(0, 0, "1", (0, 10_000)) };
    log.task(&retry(&slow, 1, 1, (4000, 6000)));
    log.task(&slow);
    log.event("ApplicationEnd", json!({"Timestamp": START + 10_000}));
    let report = log.report();
    assert_eq!([number(&report, "/failed_tasks"), number(&report, "/killed_tasks")], [0, 1]);
    assert_eq!(number(&report, "/measures/failed"), 0);
    assert!(!words(&report["findings"], "verdict").contains(&"errors".to_string()), "{}", report["findings"]);
    assert_eq!(steps(&report), [[0, 1], [4000, 2], [6000, 1], [10_000, 0]], "it held a core until it was killed");
    assert!(!idle(&report).contains_key("scheduling"), "{}", report["idle"]);
    assert_eq!(number(&report, "/stages/0/tail_core_ns"), 0, "the stage ended with the copy that succeeded");
    assert!(log.run(&[]).success().contains("1 stage, 2 tasks (1 killed) in 10s"));
    log.run(&["--fail-if", "failed > 0"]).success();
}

#[test]
fn tails_begin_with_tasks_and_share_idle_cores() {
    // Ten tasks that end a second apart, the last after ten failures.
    let mut log = Log::new(json!({}));
    log.executor("1", 20, 0);
    log.job(0, (0, 10_000), &[(0, 0, 10_000)]);
    (0..9).for_each(|id| log.task(&task(0, id, "1", (0, 1000 * (id + 1)))));
    let failed = |id| Task {
        index: 9,
        attempt: id - 9,
        reason: json!({"Reason": "ExceptionFailure"}),
        ..task(0, id, "1", (0, 100))
    };
    (9..19).for_each(|id| log.task(&failed(id)));
    log.task(&Task { index: 9, attempt: 10, ..task(0, 19, "1", (200, 10_000)) });
    assert_eq!(number(&log.report(), "/stages/0/tail_start_ns") / MS, START + 9000);
    // Two stages at once, each with a task that takes nine seconds longer than the others, leave 18 of 20 cores idle.
    let mut log = Log::new(json!({}));
    log.executor("1", 20, 0);
    log.job(0, (0, 10_000), &[(0, 0, 10_000), (1, 0, 10_000)]);
    let end = |id: i64| if id % 10 == 9 { 10_000 } else { 1000 };
    (0..20).for_each(|id| log.task(&task(id / 10, id, "1", (0, end(id)))));
    let report = log.report();
    assert_eq!(number(&report, "/stages/0/tail_core_ns"), 18 * 9000 * MS);
    assert_eq!(report["measures"]["tail"], json!(0.81));
}

#[test]
fn tasks_hold_the_cores_of_their_settings_or_profile() {
    let mut log = Log::new(json!({"spark.task.cpus": "2"}));
    log.executor("1", 4, 0);
    log.job(0, (0, 3000), &[(0, 0, 3000)]);
    (0..2).for_each(|id| log.task(&task(0, id, "1", (0, 3000))));
    let report = log.report();
    assert_eq!([number(&report, "/active_tasks/most"), number(&report, "/active_tasks/idle_ns")], [2, 0]);
    assert_eq!((report["measures"]["utilisation"].as_f64(), idle(&report).len()), (Some(1.0), 0));
    let runs: Vec<[i64; 2]> = report["what_if"]["simulated"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| [number(run, "/cores"), number(run, "/wall_ns") / MS])
        .collect();
    assert_eq!(runs, [[4, 3000], [2, 6000], [8, 3000]]);
    assert!(log.run(&[]).success().contains("2 at most, on 4 cores, of which a task holds 2"));
    // A stage with a profile of its own.
    let mut log = Log::new(json!({"spark.task.cpus": "2"}));
    let requests = json!({"memory": {"Resource Name": "memory", "Amount": 8192}, "cores": {"Resource Name": "cores", "Amount": 4}});
    log.event(
        "ResourceProfileAdded",
        json!({"Resource Profile Id": 1, "Executor Resource Requests": requests,
        "Task Resource Requests": {"cpus": {"Resource Name": "cpus", "Amount": 4.0}}}),
    );
    log.executor("1", 4, 0);
    log.job(0, (0, 3000), &[(0, 0, 3000)]);
    log.task(&task(0, 0, "1", (0, 3000)));
    let of_profile =
        Log(log.0.replace("\"Stage ID\":0,\"Stage Name\"", "\"Resource Profile Id\":1,\"Stage ID\":0,\"Stage Name\""));
    assert_eq!(number(&log.report(), "/active_tasks/idle_ns"), 2 * 3000 * MS);
    let report = of_profile.report();
    assert_eq!(number(&report, "/active_tasks/idle_ns"), 0);
    assert_eq!(columns(&report), [4.0; 200], "all four cores, in each column");
}

/// In each column of the breakdown, what tasks and idle cores add up to, in cores; where cores are known, all of them.
fn columns(report: &Value) -> Vec<f64> {
    let breakdown = report["breakdown"].as_object().unwrap();
    let width_ns = breakdown["width_ns"].as_f64().unwrap();
    let parts = breakdown.iter().filter(|(name, values)| values.is_array() && *name != "cores");
    let mut sums = vec![0.0; breakdown["cores"].as_array().unwrap().len()];
    for (_, values) in parts {
        sums.iter_mut()
            .zip(values.as_array().unwrap())
            .for_each(|(sum, value)| *sum += value.as_f64().unwrap() / width_ns);
    }
    sums
}

/// Text, breakdown and picture agree about the cores that tasks hold.
#[test]
fn the_time_of_cores_is_that_of_the_cores_that_tasks_hold() {
    let mut log = Log::new(json!({"spark.task.cpus": "2"}));
    log.executor("1", 4, 0);
    log.job(0, (0, 4000), &[(0, 0, 4000)]);
    // Half of its time is CPU.
    log.task(&Task { cpu: 1000, ..task(0, 0, "1", (0, 2000)) });
    log.task(&task(0, 1, "1", (0, 4000)));
    let report = log.report();
    assert_eq!(columns(&report), [4.0; 200]);
    let sum =
        |part: &str| report["breakdown"][part].as_array().unwrap().iter().map(|ns| ns.as_i64().unwrap()).sum::<i64>();
    assert_eq!([sum("CPU"), sum("remainder")], [2 * 1000 * MS, 2 * 5000 * MS]);
    assert_eq!(sum("idle"), number(&report, "/active_tasks/idle_ns"));
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("a.svg");
    log.run(&["--pixels", "800", "-o", picture.to_str().unwrap()]).success();
    let svg = std::fs::read_to_string(&picture).unwrap();
    // 200 pixels a second from 84 on; an axis of 4.4 cores is 150 high.
    let line = svg.lines().find(|line| line.contains("stroke=\"#d55e00\" stroke-width=\"1.6\"")).unwrap();
    assert!(svg.contains(">cores that tasks hold<"), "{svg}");
    let ys: Vec<f64> = line.split('V').skip(1).filter_map(|part| part.split(['H', '"']).next()?.parse().ok()).collect();
    assert!((ys[1] - ys[0] - 2.0 * 150.0 / 4.4).abs() < 0.2, "from two cores to none: {line}");
}

#[test]
fn half_of_a_core_is_no_number_of_cores() {
    let mut log = Log::new(json!({}));
    log.executor("1", 1, 0);
    log.job(0, (0, 1000), &[(0, 0, 1000)]);
    log.task(&task(0, 0, "1", (0, 1000)));
    let report = log.report();
    let cores: Vec<i64> =
        report["what_if"]["simulated"].as_array().unwrap().iter().map(|run| number(run, "/cores")).collect();
    assert_eq!(cores, [1, 2]);
}

fn starts(log: &mut Log, id: i64, executor: &str, at: i64) {
    let info = json!({"Task ID": id, "Index": id, "Attempt": 0, "Launch Time": START + at, "Executor ID": executor, "Host": "h",
        "Locality": "ANY", "Speculative": false});
    log.event("TaskStart", json!({"Stage ID": 0, "Stage Attempt ID": 0, "Task Info": info}));
}

#[test]
fn tasks_end_with_their_executor() {
    let log = |has_end: bool| {
        let mut log = Log::new(json!({}));
        ["1", "2"].iter().for_each(|id| log.executor(id, 1, 0));
        log.job(0, (0, 9000), &[(0, 0, 9000)]);
        starts(&mut log, 7, "2", 1000);
        log.task(&task(0, 0, "1", (0, 9000)));
        log.removed("2", 3000, "Slave lost");
        if has_end {
            // Spark may write it after the executor.
            let reason = json!({"Reason": "ExecutorLostFailure"});
            log.task(&Task { reason, is_lost: true, ..task(0, 7, "2", (1000, 3000)) });
        }
        log.event("ApplicationEnd", json!({"Timestamp": START + 10_000}));
        log.report()
    };
    let [without, with] = [log(false), log(true)];
    assert_eq!(steps(&without), [[0, 1], [1000, 2], [3000, 1], [9000, 0], [10_000, 0]]);
    assert_eq!(number(&without, "/active_tasks/core_ns"), 13_000 * MS, "and so does its core");
    for path in ["/active_tasks/steps", "/failed_tasks", "/running_tasks", "/findings", "/idle", "/unknown_ns"] {
        assert_eq!(without.pointer(path), with.pointer(path), "{path}");
    }
    assert_eq!([number(&without, "/failed_tasks"), number(&without, "/running_tasks")], [1, 0]);
}

/// Spark writes no end of a task that runs when the application is stopped, but all others: the stage is cancelled, and the job fails.
#[test]
fn tasks_that_hang_until_the_application_stops_ran_until_then() {
    let log = |is_stopped: bool| {
        let mut log = Log::new(json!({}));
        log.executor("1", 4, 0);
        log.event("JobStart", json!({"Job ID": 0, "Submission Time": START, "Stage IDs": [0]}));
        let mut info =
            json!({"Stage ID": 0, "Stage Attempt ID": 0, "Stage Name": "s", "Submission Time": START, "RDD Info": []});
        log.event("StageSubmitted", json!({"Stage Info": info}));
        (0..4).for_each(|id| log.task(&task(0, id, "1", (0, 1000))));
        (4..6).for_each(|id| starts(&mut log, id, "1", 1000));
        log.event("ApplicationEnd", json!({"Timestamp": START + 600_000}));
        if is_stopped {
            info["Completion Time"] = json!(START + 600_000);
            info["Failure Reason"] = json!("Stage cancelled because SparkContext was shut down");
            log.event("StageCompleted", json!({"Stage Info": info}));
            let result = json!({"Result": "JobFailed", "Exception": {"Message": "Job 0 cancelled because SparkContext was shut down"}});
            log.event("JobEnd", json!({"Job ID": 0, "Completion Time": START + 600_000, "Job Result": result}));
        }
        log
    };
    for log in [log(true), log(false)] {
        let report = log.report();
        assert_eq!([number(&report, "/running_tasks"), number(&report, "/counters/numTasks")], [2, 4]);
        assert_eq!(steps(&report), [[0, 4], [1000, 2], [600_000, 0]]);
        assert_eq!(idle(&report), expected(&[("straggler", 2 * 599_000)]), "{}", report["idle"]);
        let stragglers = report["stragglers"].as_array().unwrap();
        let found: Vec<_> = stragglers
            .iter()
            .map(|one| (number(one, "/task"), number(one, "/latency_ns") / MS, &one["running"]))
            .collect();
        assert_eq!(found, [(4, 599_000, &json!(true)), (5, 599_000, &json!(true))]);
        let verdicts = report["findings"].as_array().unwrap().iter().map(|finding| &finding["verdict"]);
        assert!(verdicts.clone().any(|verdict| verdict == "skew"), "{}", report["findings"]);
        assert_ne!(report["findings"][0]["verdict"], "driver");
        assert!(log.run(&[]).success().contains("2 more tasks ran when the log ended"));
        let wall = report["stages"][0]["stageDuration"].as_i64().unwrap();
        assert_eq!(wall, 600_000, "of a stage without an end, too");
    }
    // Of a stage that is complete, the listener dropped the ends.
    let complete = log(true).0.replace("\"Failure Reason\"", "\"No Reason\"").replace("JobFailed", "JobSucceeded");
    assert_eq!(number(&Log(complete).report(), "/running_tasks"), 0);
}

/// A speculative copy did the work of a task, which was killed, and did not die: it holds its core until the application ends.
#[test]
fn an_original_that_hangs_behind_its_copy_runs() {
    let log = |has_copy: bool| {
        let mut log = Log::new(json!({}));
        log.executor("1", 2, 0);
        log.job(0, (0, 4000), &[(0, 0, 4000)]);
        starts(&mut log, 4, "1", 1000);
        let copy = json!({"Task ID": 9, "Index": 4, "Attempt": 1, "Launch Time": START + 2000, "Executor ID": "1", "Host": "h",
            "Locality": "ANY", "Speculative": has_copy});
        log.event("TaskStart", json!({"Stage ID": 0, "Stage Attempt ID": 0, "Task Info": copy}));
        log.task(&Task { index: if has_copy { 4 } else { 9 }, attempt: 1, ..task(0, 9, "1", (2000, 4000)) });
        log.event("ApplicationEnd", json!({"Timestamp": START + 60_000}));
        log.report()
    };
    let report = log(true);
    assert_eq!((number(&report, "/running_tasks"), number(&report, "/counters/numTasks")), (1, 1));
    assert_eq!(steps(&report), [[0, 0], [1000, 1], [2000, 2], [4000, 1], [60_000, 0]]);
    // Without a copy its end was dropped.
    assert_eq!(number(&log(false), "/running_tasks"), 0);
}

/// Nobody did the work, whether a task had been killed before or not; a job that its user cancels is something else.
#[test]
fn an_application_that_is_stopped_in_a_job_has_failed() {
    let log = |message: &str, exit: i64| {
        let mut log = Log::new(json!({}));
        log.executor("1", 2, 0);
        log.event("JobStart", json!({"Job ID": 0, "Submission Time": START, "Stage IDs": [0]}));
        log.task(&Task { reason: json!({"Reason": "TaskKilled"}), ..task(0, 0, "1", (0, 1000)) });
        log.event("ApplicationEnd", json!({"Timestamp": START + 9000, "ExitCode": exit}));
        let result = json!({"Result": "JobFailed", "Exception": {"Message": message}});
        log.event("JobEnd", json!({"Job ID": 0, "Completion Time": START + 9000, "Job Result": result}));
        log
    };
    let stopped = log("Job 0 cancelled because SparkContext was shut down", 0);
    assert!(stopped.run(&["--fail-if", "failed > 0"]).failure(1).contains("failed is 1, which is > 0"));
    let report = stopped.report();
    assert_eq!((&report["findings"][0]["verdict"], &report["exit_code"]), (&json!("errors"), &json!(0)));
    let evidence = report["findings"][0]["evidence"].as_str().unwrap();
    assert!(evidence.contains("failed in the driver or as it stopped: 1: job 0: Job 0 cancelled"), "{evidence}");
    let cancelled = log("Job 0 cancelled by the user", 0);
    cancelled.run(&["--fail-if", "failed > 0"]).success();
    assert_ne!(cancelled.report()["findings"][0]["verdict"], "errors");
    let jobs = cancelled.report()["jobs"].take();
    assert_eq!([&jobs[0]["failed"], &jobs[0]["cancelled"]], [&json!(false), &json!(true)]);
    assert!(cancelled.run(&["--by", "job"]).success().contains("cancelled:"));
    // Spark kills the tasks of a stage that it gives up.
    let given_up =
        log("Job aborted due to stage failure: Total size of serialized results of 3 tasks is bigger than 1g", 0);
    assert!(given_up.run(&["--fail-if", "failed > 0"]).failure(1).contains("failed is 1, which is > 0"));
    let killed = log("Job 0 cancelled by the user", 143);
    assert!(killed.run(&["--fail-if", "failed > 0"]).failure(1).contains("failed is 1, which is > 0"));
    let text = killed.run(&[]).success();
    assert!(text.contains("verdict: errors") && text.contains("exit code 143 (signal 15)"), "{text}");
}

/// Of an application that runs, or whose driver was killed, a limit may still be broken; what a filter chooses may have ended.
#[test]
fn a_limit_that_may_still_be_broken_is_undecided() {
    let log = |is_over: bool, has_job_end: bool| {
        let mut log = Log::new(json!({}));
        log.executor("1", 2, 0);
        log.job(0, (0, 1000), &[(0, 0, 1000)]);
        (0..2).for_each(|id| log.task(&task(0, id, "1", (0, 1000))));
        log.event("JobStart", json!({"Job ID": 1, "Submission Time": START + 1000, "Stage IDs": [1]}));
        let info = json!({"Stage ID": 1, "Stage Attempt ID": 0, "Stage Name": "s", "Submission Time": START + 1000, "RDD Info": []});
        log.event("StageSubmitted", json!({"Stage Info": info}));
        let info = json!({"Task ID": 2, "Index": 0, "Attempt": 0, "Launch Time": START + 1000, "Executor ID": "1", "Host": "h1",
            "Locality": "ANY", "Speculative": false});
        log.event("TaskStart", json!({"Stage ID": 1, "Stage Attempt ID": 0, "Task Info": info}));
        if has_job_end {
            log.task(&task(1, 2, "1", (1000, 2000)));
            let info = json!({"Stage ID": 1, "Stage Attempt ID": 0, "Stage Name": "s", "Submission Time": START + 1000,
                "Completion Time": START + 2000, "RDD Info": []});
            log.event("StageCompleted", json!({"Stage Info": info}));
            let result = json!({"Result": "JobSucceeded"});
            log.event("JobEnd", json!({"Job ID": 1, "Completion Time": START + 2000, "Job Result": result}));
        }
        if is_over {
            log.event("ApplicationEnd", json!({"Timestamp": START + 2000}));
        }
        log
    };
    let killed = log(false, false);
    for words in
        [&["--fail-if", "failed > 0"][..], &["--fail-if", "elapsed > 1h"], &["--fail-if", "lost > 0", "job = 1"]]
    {
        let undecided = killed.run(words).failure(3);
        assert!(
            undecided.contains("--fail-if cannot be decided: the log has no end of the application"),
            "{undecided}"
        );
    }
    assert!(killed.run(&["--fail-if", "tasks > 1"]).failure(1).contains("tasks is 2, which is > 1"));
    assert!(killed.run(&["--fail-if", "failed > 0", "job = 0"]).success().contains("planted"));
    let between = log(false, true).run(&["--fail-if", "failed > 0"]).failure(3);
    assert!(between.contains("still runs, or its driver was killed"), "{between}");
    let lost = log(true, false).run(&["--fail-if", "failed > 0"]).failure(3);
    assert!(lost.contains("cannot be decided: the log lacks the end of job 1"), "{lost}");
    log(true, true).run(&["--fail-if", "failed > 0"]).success();
    let open = log(true, true).without(&["StageCompleted", "\"Stage ID\":1"]);
    let undecided = open.run(&["--fail-if", "failed > 0"]).failure(3);
    assert!(undecided.contains("cannot be decided: the log lacks the end of stage 1"), "{undecided}");
    // An execution without an end: the listener of the driver dropped it.
    let start = json!({"Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart", "executionId": 4,
        "description": "q4", "details": "", "physicalPlanDescription": "", "time": START});
    let mut whole = log(false, true);
    whole.0 += &format!("{start}\n");
    whole.event("ApplicationEnd", json!({"Timestamp": START + 2000}));
    let lost = whole.run(&["--fail-if", "failed > 0"]).failure(3);
    assert!(lost.contains("cannot be decided: the log lacks the end of SQL execution 4"), "{lost}");
    assert!(whole.run(&["--fail-if", "tasks > 1"]).failure(1).contains("tasks is 3, which is > 1"));
}

/// A stage that an earlier job computed runs again where its results were lost, and counts with that job.
#[test]
fn a_stage_whose_retry_is_due_has_not_ended() {
    let info = |attempt: i64, span: (i64, i64), failure: Option<&str>| {
        let mut info = json!({"Stage ID": 1, "Stage Attempt ID": attempt, "Stage Name": "s", "Submission Time": START + span.0, "RDD Info": []});
        if let Some(failure) = failure {
            (info["Completion Time"], info["Failure Reason"]) = (json!(START + span.1), json!(failure));
        }
        json!({"Stage Info": info})
    };
    let log = |is_tried_again: bool, job_end: i64| {
        let mut log = Log::new(json!({}));
        log.executor("1", 2, 0);
        log.job(0, (0, job_end), &[(0, 0, 1000), (1, 0, 1000)]);
        (0..2).for_each(|stage| log.task(&task(stage, stage, "1", (0, 1000))));
        log.event("JobStart", json!({"Job ID": 1, "Submission Time": START + 2000, "Stage IDs": [1, 2]}));
        log.event("StageSubmitted", info(1, (2000, 3000), None));
        log.task(&Task { reason: json!({"Reason": "FetchFailed"}), ..task(1, 2, "1", (2000, 3000)) });
        let end = log.0.split_off(log.0.trim_end().rfind('\n').unwrap());
        log.0 += &end.replacen("\"Stage Attempt ID\":0", "\"Stage Attempt ID\":1", 1);
        log.event("StageCompleted", info(1, (2000, 3000), Some("FetchFailed")));
        if is_tried_again {
            log.event("StageSubmitted", info(2, (3200, 3200), None));
        }
        log
    };
    for is_tried_again in [false, true] {
        let log = log(is_tried_again, 1000);
        let undecided = log.run(&["--fail-if", "failed > 1", "stage = 1"]).failure(3);
        let words =
            "cannot be decided: attempt 1 of stage 1 has not ended, or failed and is tried again, for a later job";
        assert!(undecided.contains(words), "{undecided}");
        assert!(log.run(&["--fail-if", "failed > 0", "stage = 1"]).failure(1).contains("failed is 1"));
        log.run(&["--fail-if", "failed > 1", "job = 0"]).failure(3);
        log.run(&["--fail-if", "failed > 1", "stage = 0"]).success();
    }
    // The failure of a job that has ended is its last word.
    log(false, 3000).run(&["--fail-if", "failed > 1", "stage = 1"]).success();
}

/// A query has no job while the driver plans it, collects its rows or builds a broadcast.
#[test]
fn a_query_that_hangs_in_the_driver_has_run_until_now() {
    let log = |ends: &[&str]| {
        let mut log = Log::new(json!({}));
        log.executor("1", 1, 0);
        log.job(0, (0, 2000), &[(0, 0, 2000)]);
        log.task(&task(0, 0, "1", (0, 2000)));
        log.event("SQLExecutionStart", json!({"executionId": 4, "description": "q4", "time": START + 3000}));
        log.event("SQLExecutionStart", json!({"executionId": 5, "description": "q5", "time": START + 4000}));
        if ends.contains(&"query") {
            log.event("SQLExecutionEnd", json!({"executionId": 5, "time": START + 9000, "errorMessage": ""}));
        }
        if ends.contains(&"application") {
            log.event("ApplicationEnd", json!({"Timestamp": START + 9000}));
        }
        log
    };
    let row = |log: &Log| -> Vec<String> {
        let text = log.run(&["--by", "sql"]).success();
        let row = text.lines().find(|line| line.ends_with(": q4")).unwrap_or_else(|| panic!("{text}"));
        row.split_whitespace().map(String::from).collect()
    };
    // The log ends with the start of another query; with its end; with that of the application.
    for (ends, took, state) in
        [(&[][..], ">=1s", "running:"), (&["query"], ">=6s", "running:"), (&["query", "application"], ">=6s", "not")]
    {
        let found = row(&log(ends));
        assert!(found.contains(&took.into()) && found.contains(&state.into()), "{found:?}");
    }
    let report = log(&["application"]).report();
    assert_eq!((number(&report, "/sql/0/end_ns") / MS, &report["sql"][0]["ended"]), (START + 9000, &json!(false)));
    // The first query of an application that has no job yet.
    let mut first = Log::new(json!({}));
    first.executor("1", 1, 1000);
    assert!(first.run(&[]).failure(3).contains("There is no job in the log, which has no end of the application"));
    first.event("SQLExecutionStart", json!({"executionId": 4, "description": "q4", "time": START + 3000}));
    first.removed("1", 63_000, "Container killed by the cluster");
    assert!(row(&first).contains(&">=60s".into()), "{:?}", row(&first));
    assert!(first.run(&[]).success().contains("no task ran in 63s"));
    first.run(&["--fail-if", "elapsed > 1h"]).failure(3);
    // Where the listener dropped events, its end may be among them.
    let mut dropped = log(&[]);
    starts(&mut dropped, 7, "1", 5000);
    dropped.event("JobStart", json!({"Job ID": 1, "Submission Time": START + 5000, "Stage IDs": [1]}));
    dropped.event("ApplicationEnd", json!({"Timestamp": START + 9000}));
    assert!(row(&dropped).contains(&">=0ns".into()), "{:?}", row(&dropped));
}

/// The listener of the driver drops events when it does not keep up.
#[test]
fn cores_are_not_known_where_an_executor_is_not() {
    let whole = super::log_of(&super::eight());
    let is_added = |line: &&str| line.contains("ExecutorAdded") && line.contains("\"Executor ID\":\"2\"");
    assert_eq!(whole.0.lines().filter(is_added).count(), 1);
    let without: Vec<&str> = whole.0.lines().filter(|line| !is_added(line)).collect();
    let log = Log(without.join("\n") + "\n");
    let (report, known) = (log.report(), whole.report());
    assert_eq!([&report["unknown_executors"], &known["unknown_executors"]], [&json!(["2"]), &json!([])]);
    assert_eq!(report["counters"], known["counters"]);
    for path in ["/measures/utilisation", "/measures/idle", "/measures/tail", "/active_tasks/core_ns"] {
        assert!(report.pointer(path).unwrap().is_null() && !known.pointer(path).unwrap().is_null(), "{path}");
    }
    assert_eq!((&report["idle"]["causes"], report["executors"].as_array().unwrap().len()), (&json!([]), 1));
    let text = log.run(&[]).success();
    assert!(text.contains("cores are not known, as the log lacks when executor 2 was added"), "{text}");
    let undecided = log.run(&["--fail-if", "utilisation < 50%"]).failure(3);
    assert!(undecided.contains("cannot be decided: utilisation is not known"), "{undecided}");
}

/// What notes say of the log, JSON has by name.
#[test]
fn what_is_wrong_with_a_log_is_in_its_json() {
    let whole = super::log_of(&super::eight());
    let last = whole.0.lines().rfind(|line| line.contains("TaskEnd")).unwrap();
    let log = Log(format!("{}{last}\nno event\n", whole.0));
    assert_eq!(log.report()["anomalies"], json!({"repeated_tasks": 1, "unparsed_lines": 1}));
    assert_eq!(whole.report()["anomalies"], json!({}));
    // The start of a task that stands behind its end opens nothing.
    let mut late = super::log_of(&super::eight());
    starts(&mut late, 3, "2", 0);
    starts(&mut late, 8, "2", 0);
    let report = late.report();
    assert_eq!((number(&report, "/running_tasks"), &report["anomalies"]), (1, &json!({"unfinished": 1})));
}

#[test]
fn an_application_without_executors_waits_for_them() {
    let mut log = Log::new(json!({}));
    log.event("JobStart", json!({"Job ID": 0, "Submission Time": START + 1000, "Stage IDs": [0]}));
    let info = json!({"Stage ID": 0, "Stage Attempt ID": 0, "Stage Name": "s", "Submission Time": START + 1000, "RDD Info": []});
    log.event("StageSubmitted", json!({"Stage Info": info}));
    log.event("ApplicationEnd", json!({"Timestamp": START + 3_600_000}));
    let report = log.report();
    assert_eq!(words(&report["findings"], "verdict"), ["allocation"]);
    assert_eq!(report["measures"]["elapsed"].as_f64(), Some(3.6e12), "{}", report["measures"]);
    let text = log.run(&[]).success();
    for words in
        ["no task ran in 60min", "job 0 waited 60min for its first task, and had none", "no executor was there"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let mut log = Log::new(json!({}));
    log.executor("1", 2, 0);
    log.event("ApplicationEnd", json!({"Timestamp": START + 1000}));
    assert!(log.run(&[]).failure(3).contains("The application ran no job"));
}

/// Both executors are lost, and the tasks of the next stage are never launched.
#[test]
fn tasks_that_are_never_launched_wait_until_the_end() {
    let log = |is_stopped: bool, lost_at: Option<i64>| {
        let mut log = Log::new(json!({}));
        log.executor("1", 2, 0);
        log.job(0, (0, 2000), &[(0, 0, 2000)]);
        (0..2).for_each(|id| log.task(&task(0, id, "1", (0, 2000))));
        log.event("JobStart", json!({"Job ID": 1, "Submission Time": START + 2000, "Stage IDs": [1]}));
        let mut info = json!({"Stage ID": 1, "Stage Attempt ID": 0, "Stage Name": "s", "Submission Time": START + 2000,
            "Number of Tasks": if lost_at.is_some() { 2 } else { 40 }, "RDD Info": []});
        log.event("StageSubmitted", json!({"Stage Info": info}));
        for (id, at) in (2..4).zip(lost_at.into_iter().cycle()) {
            let reason = json!({"Reason": "ExecutorLostFailure", "Executor ID": "1", "Loss Reason": "worker lost"});
            log.task(&Task { reason, ..task(1, id, "1", (2000, at)) });
        }
        log.removed("1", lost_at.unwrap_or(2000), "worker lost");
        if is_stopped {
            log.event("ApplicationEnd", json!({"Timestamp": START + 600_000}));
            info["Completion Time"] = json!(START + 600_000);
            info["Failure Reason"] = json!("Stage cancelled because SparkContext was shut down");
            log.event("StageCompleted", json!({"Stage Info": info}));
        } else {
            log.executor("2", 0, 600_000);
        }
        log
    };
    // Executors that die at their start were never added.
    let mut dying = log(false, None)
        .0
        .lines()
        .filter(|line| !line.contains("\"Executor ID\":\"2\""))
        .collect::<Vec<_>>()
        .join("\n");
    dying += "\n";
    let mut dying = Log(dying);
    (3..9).for_each(|id| dying.removed(&id.to_string(), id * 60_000, "Command exited with code 1"));
    assert_eq!(idle(&dying.report())["allocation"], 2 * 478_000);
    for is_stopped in [true, false] {
        // All were launched, and lost with the only executor: their retries wait as well.
        for (lost_at, from) in [(None, 2000), (Some(2500), 2500)] {
            let report = log(is_stopped, lost_at).report();
            assert_eq!(idle(&report)["allocation"], 2 * (600_000 - from), "stopped {is_stopped}: {}", report["idle"]);
            assert!(
                words(&report["findings"], "verdict").contains(&"allocation".to_string()),
                "{}",
                report["findings"]
            );
        }
    }
}

/// Two copies of a log, one behind the other, have each task once.
#[test]
fn a_log_that_stands_twice_in_a_file_counts_once() {
    let once = super::log_of(&super::eight());
    let twice = Log(once.0.clone() + &once.0).run(&["--json"]);
    assert!(twice.err.contains("8 more ends of tasks that the log had already"), "{}", twice.err);
    let report: Value = serde_json::from_str(&twice.success()).unwrap();
    assert_eq!(report["counters"], once.report()["counters"]);
}

/// Twenty minutes pass before the first executor and job.
#[test]
fn an_application_starts_before_its_first_executor() {
    let mut log = Log::new(json!({}));
    log.executor("1", 2, 1_200_000);
    log.job(0, (1_200_000, 1_203_000), &[(0, 1_200_000, 1_203_000)]);
    (0..2).for_each(|id| log.task(&task(0, id, "1", (1_200_000, 1_203_000))));
    log.event("ApplicationEnd", json!({"Timestamp": START + 1_204_000}));
    let report = log.report();
    assert_eq!(report["measures"]["elapsed"].as_f64(), Some(1.204e12));
    assert_eq!(number(&report, "/active_tasks/core_ns"), 2 * 4000 * MS, "there were none before");
    assert!(log.run(&["--fail-if", "elapsed > 10min"]).failure(1).contains("elapsed is 20"));
    // A part of its tasks has an extent of its own.
    assert!(log.run(&["task = 0", "--fail-if", "elapsed > 10min"]).success().contains("planted"));
}

/// Jobs that had finished are not in what the history server leaves of old parts.
#[test]
fn what_was_compacted_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("eventlog_v2_app-1");
    std::fs::create_dir(&folder).unwrap();
    let mut compacted = Log::new(json!({}));
    compacted.executor("1", 1, 0);
    compacted.event("JobStart", json!({"Job ID": 7, "Submission Time": START + 6000, "Stage IDs": [7]}));
    let mut last = Log(String::new());
    last.task(&task(7, 70, "1", (6000, 9000)));
    let result = json!({"Result": "JobSucceeded"});
    last.event("JobEnd", json!({"Job ID": 7, "Completion Time": START + 9000, "Job Result": result}));
    last.event("ApplicationEnd", json!({"Timestamp": START + 10_000}));
    std::fs::write(folder.join("events_2_app-1.compact"), &compacted.0).unwrap();
    std::fs::write(folder.join("events_3_app-1"), &last.0).unwrap();
    let file = folder.to_str().unwrap();
    let ended = latscope(&["spark", "-r", file, "--json"]);
    assert!(ended.err.contains("2 parts of the rolled log missing, or compacted without"), "{}", ended.err);
    let report: Value = serde_json::from_str(&ended.success()).unwrap();
    assert_eq!(idle(&report)["events missing"], 6000, "{}", report["idle"]);
    let text = latscope(&["spark", "-r", file]).success();
    assert!(text.contains("events are missing for 6s"), "{text}");
    let undecided = latscope(&["spark", "-r", file, "--fail-if", "failed > 0"]).failure(3);
    assert!(undecided.contains("2 parts of the rolled log are missing or compacted"), "{undecided}");
    let exceeded = latscope(&["spark", "-r", file, "--fail-if", "tasks > 0"]).failure(1);
    assert!(exceeded.contains("tasks is 1, which is > 0"), "{exceeded}");
}

/// A part that is cut in the middle of a log is as one that is missing from there on, and so are lines that are damaged or dropped.
#[test]
fn what_was_cut_or_dropped_may_have_failed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("eventlog_v2_app-1");
    std::fs::create_dir(&folder).unwrap();
    let mut first = Log::new(json!({}));
    first.executor("1", 1, 0);
    starts(&mut first, 1, "1", 1000);
    let mut second = Log(String::new());
    second.task(&task(0, 1, "1", (1000, 2000)));
    let cut = second.0.len();
    second.task(&task(0, 2, "1", (2000, 3000)));
    let mut third = Log(String::new());
    third.task(&task(0, 3, "1", (8000, 9000)));
    third.event("ApplicationEnd", json!({"Timestamp": START + 10_000}));
    let parts = [&first.0[..], &second.0[..cut + 40], &third.0];
    for (at, part) in parts.iter().enumerate() {
        std::fs::write(folder.join(format!("events_{}_app-1", at + 1)), part).unwrap();
    }
    let file = folder.to_str().unwrap();
    let report: Value = serde_json::from_str(&latscope(&["spark", "-r", file, "--json"]).success()).unwrap();
    assert_eq!(idle(&report)["events missing"], 6000, "{}", report["idle"]);
    let undecided = latscope(&["spark", "-r", file, "--fail-if", "failed > 0"]).failure(3);
    assert!(undecided.contains("cannot be decided: the log is cut"), "{undecided}");
    // Of another part a full disk left nothing.
    std::fs::write(folder.join("events_2_app-1"), "").unwrap();
    let undecided = latscope(&["spark", "-r", file, "--fail-if", "failed > 0"]).failure(3);
    assert!(undecided.contains("cannot be decided: the log is cut"), "{undecided}");
    let report: Value = serde_json::from_str(&latscope(&["spark", "-r", file, "--json"]).success()).unwrap();
    assert_eq!(idle(&report)["events missing"], 7000, "{}", report["idle"]);

    let mut whole = Log::new(json!({}));
    whole.executor("1", 1, 0);
    whole.job(0, (0, 2000), &[(0, 0, 2000)]);
    (0..3).for_each(|id| starts(&mut whole, id, "1", 1000));
    (0..3).for_each(|id| whole.task(&task(0, id, "1", (1000, 2000))));
    whole.event("ApplicationEnd", json!({"Timestamp": START + 3000}));
    whole.run(&["--fail-if", "failed > 0"]).success();
    let lines: Vec<&str> = whole.0.lines().collect();
    let last = lines.iter().rposition(|line| line.contains("TaskEnd")).unwrap();
    let but = |line: Option<&str>| {
        let lines = lines.iter().enumerate();
        let kept: Vec<&str> = lines.filter_map(|(at, text)| if at == last { line } else { Some(text) }).collect();
        Log(kept.join("\n") + "\n").run(&["--fail-if", "failed > 0"]).failure(3)
    };
    assert!(but(Some(&lines[last][..60])).contains("1 line is malformed"));
    let dropped = but(None);
    assert!(dropped.contains("1 task without an end is in it"), "{dropped}");
}

/// A rolled log in this folder that has only its first part: a job that ends at 2 s, and a task that starts then.
fn first_part(root: &Path) -> PathBuf {
    let folder = root.join("eventlog_v2_app-1");
    std::fs::create_dir(&folder).unwrap();
    let mut first = Log::new(json!({}));
    first.executor("1", 1, 0);
    first.job(0, (0, 2000), &[(0, 0, 2000)]);
    first.task(&task(0, 0, "1", (0, 2000)));
    starts(&mut first, 1, "1", 2000);
    std::fs::write(folder.join("events_1_app-1"), &first.0).unwrap();
    folder
}

/// The last part is missing, but Spark has renamed the file that says whether the application runs.
#[test]
fn an_application_that_has_ended_lacks_its_last_part() {
    let root = tempfile::tempdir().unwrap();
    let folder = first_part(root.path());
    let file = folder.to_str().unwrap();
    for (status, is_over) in [("appstatus_app-1.inprogress", false), ("appstatus_app-1", true)] {
        std::fs::write(folder.join(status), "").unwrap();
        let ended = latscope(&["spark", "-r", file, "--json"]);
        assert_eq!(ended.err.contains("1 part of the rolled log missing"), is_over, "{}", ended.err);
        let report: Value = serde_json::from_str(&ended.success()).unwrap();
        assert_eq!((&report["ended"], number(&report, "/running_tasks")), (&json!(is_over), i64::from(!is_over)));
        assert_eq!(report["anomalies"]["missing_parts"], if is_over { json!(1) } else { Value::Null });
        let text = latscope(&["spark", "-r", file]).success();
        assert_eq!(text.contains("it still runs, or its driver was killed"), !is_over, "{text}");
    }
}

#[test]
fn parts_of_a_log_that_are_missing_are_not_the_driver() {
    let root = tempfile::tempdir().unwrap();
    let folder = first_part(root.path());
    let mut third = Log(String::new());
    third.task(&task(1, 2, "1", (8000, 9000)));
    third.event("ApplicationEnd", json!({"Timestamp": START + 10_000}));
    std::fs::write(folder.join("events_3_app-1"), &third.0).unwrap();
    let file = folder.to_str().unwrap();
    let report: Value = serde_json::from_str(&latscope(&["spark", "-r", file, "--json"]).success()).unwrap();
    // The first event of the third part is the end of its task; what was launched in the gap is known.
    assert_eq!(idle(&report), expected(&[("events missing", 6000), ("driver", 1000)]));
    assert_eq!(number(&report, "/running_tasks"), 0, "its end is in the second part");
    let text = latscope(&["spark", "-r", file]).success();
    assert!(text.contains("events are missing for 7s, as parts of the log are"), "{text}");
}

#[test]
fn what_has_no_end_keeps_its_name() {
    let log = |has_end: bool| {
        let mut log = Log::new(json!({}));
        log.executor("1", 1, 0);
        log.event("SQLExecutionStart", json!({"executionId": 4, "description": "save at a.py:1", "time": START}));
        let properties = json!({"spark.job.description": "night", "spark.sql.execution.id": "4"});
        log.event(
            "JobStart",
            json!({"Job ID": 0, "Submission Time": START, "Stage IDs": [0], "Properties": properties}),
        );
        let info = json!({"Stage ID": 0, "Stage Attempt ID": 0, "Stage Name": "s", "Submission Time": START + 100, "RDD Info": []});
        log.event("StageSubmitted", json!({"Stage Info": info, "Properties": properties}));
        log.task(&task(0, 0, "1", (500, 2000)));
        if has_end {
            log.event("ApplicationEnd", json!({"Timestamp": START + 9000}));
        }
        log
    };
    for (kind, name) in [("sql", "save at a.py:1"), ("job", "night")] {
        let report = log(true).report();
        let group = &report[if kind == "job" { "jobs" } else { kind }][0];
        assert_eq!((&group["name"], &group["ended"], &group["running"]), (&json!(name), &json!(false), &json!(false)));
        assert_eq!(number(group, "/end_ns") / MS, START + 2000, "its last task, not the end of the application");
        let by = |has_end: bool| log(has_end).run(&["--by", kind]).success();
        assert!(by(true).contains(&format!("not ended: {name}")), "{}", by(true));
        assert!(by(false).contains(&format!("running: {name}")), "{}", by(false));
    }
}

#[test]
fn batches_of_streaming_queries_have_names() {
    let mut log = Log::new(json!({}));
    log.executor("1", 1, 0);
    let description = "orders\nid = 5a4e57dd-1\nrunId = 77aa-2\nbatch = 3";
    log.event("SQLExecutionStart", json!({"executionId": 4, "description": description, "time": START}));
    let properties = json!({"spark.job.description": description, "spark.sql.execution.id": "4"});
    log.event("JobStart", json!({"Job ID": 0, "Submission Time": START, "Stage IDs": [0], "Properties": properties}));
    log.task(&task(0, 0, "1", (500, 2000)));
    let report = log.report();
    assert_eq!([&report["sql"][0]["name"], &report["jobs"][0]["name"]], ["orders, batch 3"; 2]);
}

#[test]
fn one_task_is_explained_by_its_numbers() {
    let mut tasks = super::eight();
    (tasks[5].span.1, tasks[5].gc) = (5000, 2900);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app-20261121011349-0001");
    std::fs::write(&file, super::log_of(&tasks).0).unwrap();
    let text = latscope(&["explain", "-r", file.to_str().unwrap(), "task = 5"]).success();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("of a single event, none can be told from chance"), "{text}");
    let words = "What it has more of than the median of the others: ";
    let found = text.split(words).nth(1).unwrap_or_else(|| panic!("{text}"));
    assert!(found.contains("gc_ns 2.89s / 0ns") && !found.contains("cpu_ns 8"), "{text}");
}

#[test]
fn a_log_that_lacks_its_beginning_or_a_task_decides_no_limit() {
    let mut log = Log::new(json!({"spark.executor.memory": "20g"}));
    log.executor("1", 2, 0);
    log.job(0, (0, 5000), &[(0, 0, 5000)]);
    log.task(&task(0, 0, "1", (0, 1000)));
    let ended = |log: &Log| {
        let mut whole = Log(log.0.clone());
        whole.event("ApplicationEnd", json!({"Timestamp": START + 6000}));
        whole
    };
    let limit = ["--fail-if", "failed > 0"];
    ended(&log).run(&limit).success();
    let without = |class: &str, put: &str| {
        let lines =
            ended(&log).0.lines().map(|line| if line.contains(class) { put } else { line }.to_owned() + "\n").collect();
        Log(lines)
    };
    let headless = without("SparkListenerApplicationStart", "").run(&limit).failure(3);
    assert!(headless.contains("lacks its beginning"), "{headless}");
    // Settings that cannot be read are not those of Spark.
    let cut = "{\"Event\":\"SparkListenerEnvironmentUpdate\",\"Spark Properties\":{\"spark.exec";
    let cut = without("SparkListenerEnvironmentUpdate", cut).run(&limit).failure(3);
    assert!(cut.contains("1 line is malformed"), "{cut}");
    // The clock of the driver was set back while the task ran: what its executor measured counts, where it is known.
    let failed = |is_lost: bool| {
        let mut log = ended(&log);
        log.task(&Task {
            is_lost,
            spilled: 9,
            reason: json!({"Reason": "ExceptionFailure"}),
            ..task(0, 1, "1", (2000, 2200))
        });
        Log(log.0.replace(&(START + 2200).to_string(), &(START + 1800).to_string()))
    };
    let backwards = failed(true).run(&limit).failure(3);
    assert!(backwards.contains("1 event whose end is before the start is left out"), "{backwards}");
    let set_back = failed(false);
    let report = set_back.report();
    let counters = ["numTasks", "executorRunTime", "memoryBytesSpilled"]
        .map(|name| number(&report["counters"], &format!("/{name}")));
    assert_eq!((counters, number(&report, "/task_ns")), ([2, 1200, 9], 1200 * MS));
    assert!(set_back.run(&limit).failure(1).contains("failed is 1, which is > 0"));
    let undecided = set_back.run(&["--fail-if", "failed > 1"]).failure(3);
    assert!(
        undecided.contains("1 task whose finish is before its launch, as the clock of the driver was set back"),
        "{undecided}"
    );
    assert!(
        undecided.contains("the clock was set back during 1 task, of which only the run time is known"),
        "{undecided}"
    );
}

/// The listener dropped the end of a stage with one of its tasks, or the start of a job that failed.
#[test]
fn events_that_the_listener_dropped_decide_no_limit() {
    let mut log = Log::new(json!({}));
    log.executor("1", 2, 0);
    log.job(0, (0, 2000), &[(0, 0, 2000)]);
    let with_count = log.0.replace("\"Stage ID\":0", "\"Number of Tasks\":2,\"Stage ID\":0");
    let mut log = Log(with_count);
    log.task(&task(0, 0, "1", (0, 1000)));
    log.event("ApplicationEnd", json!({"Timestamp": START + 3000}));
    let limit = ["--fail-if", "failed > 0"];
    for dropped in [log.without(&["StageCompleted"]), Log(log.0.clone())] {
        let undecided = dropped.run(&limit).failure(3);
        assert!(undecided.contains("1 task is missing, with start and end"), "{undecided}");
    }
    let mut whole = log.without(&["ApplicationEnd"]);
    whole.task(&task(0, 1, "1", (0, 1500)));
    whole.event("ApplicationEnd", json!({"Timestamp": START + 3000}));
    whole.run(&limit).success();
    let failed = Log(whole.0.replace("JobSucceeded", "JobFailed"));
    for failed in [failed.without(&["JobStart"]), failed] {
        assert!(failed.run(&limit).failure(1).contains("failed is 1"));
    }
    let early =
        Log(whole.0.replace(&format!("\"Timestamp\":{}", START + 3000), &format!("\"Timestamp\":{}", START - 3000)));
    early.run(&["--fail-if", "elapsed > 1h"]).failure(3);
    for impossible in ["\"Executor Run Time\":-1", "\"Executor Run Time\":9223372036854775807"] {
        let wrong = Log(whole.0.replace("\"Executor Run Time\":1000", impossible));
        assert!(wrong.run(&limit).failure(3).contains("malformed"), "{impossible}");
    }
}

/// A core is free some milliseconds before the driver takes note that its task has finished.
#[test]
fn as_many_tasks_are_first_ones_as_an_executor_has_cores() {
    for early in [0, 20] {
        let mut log = Log::new(json!({}));
        ["1", "2"].iter().for_each(|executor| log.executor(executor, 1, 0));
        log.job(0, (0, 20_000), &[(0, 0, 20_000)]);
        for (id, executor) in [(0, "1"), (1, "2")] {
            log.task(&Task { deserialize: 3000, ..task(0, id, executor, (0, 3600)) });
        }
        for id in 2..12 {
            let from = 3600 + (id / 2 - 1) * 600 - early;
            log.task(&task(0, id, ["1", "2"][id as usize % 2], (from, from + 600)));
        }
        let text = log.run(&[]).success();
        let first =
            |line: &&str| line.contains("3s more deserialization, as a first task of its executor in the stage");
        let first: Vec<&str> = text.lines().filter(first).map(|line| line.trim().split("  ").next().unwrap()).collect();
        assert_eq!(first, ["task 0", "task 1"], "{early} ms: {text}");
    }
}

/// Rows of text have sizes as sizes.
#[test]
fn what_a_task_moved_is_printed_as_a_size() {
    let mut log = Log::new(json!({}));
    log.executor("1", 2, 0);
    log.job(0, (0, 2000), &[(0, 0, 2000)]);
    log.task(&Task { bytes: 3 * MIB, peak: 5 * MIB, spilled: 2048, ..task(0, 0, "1", (0, 1000)) });
    let rows = log.view("events", &["--columns", "input,peak_memory,spilled,run"]).success();
    for size in ["3MiB", "5MiB", "2KiB", "1s"] {
        assert!(rows.contains(size), "{size} in {rows}");
    }
}
