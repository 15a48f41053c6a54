//! The report of a Spark application on logs that the test writes: each cause, verdict and piece of advice is planted.

mod attempts;
mod cgroups;
mod memory;
mod views;

use crate::program::{latscope, testdata};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// When everything starts, milliseconds.
const START: i64 = 1_700_000_000_000;
const MS: i64 = 1_000_000;
const MIB: i64 = 1 << 20;

/// A log in the making.
struct Log(String);

/// A task; its run time is what is left of its span.
#[derive(Clone)]
struct Task {
    stage: i64,
    id: i64,
    index: i64,
    attempt: i64,
    executor: &'static str,
    span: (i64, i64),
    cpu: i64,
    gc: i64,
    fetch: i64,
    write: i64,
    deserialize: i64,
    delay: i64,
    bytes: i64,
    records: i64,
    spilled: i64,
    peak: i64,
    locality: &'static str,
    reason: Value,
    /// Whether its metrics were lost with its executor.
    is_lost: bool,
}

fn task(stage: i64, id: i64, executor: &'static str, span: (i64, i64)) -> Task {
    let (locality, reason) = ("PROCESS_LOCAL", json!({"Reason": "Success"}));
    let [cpu, gc, fetch, write, deserialize, delay, bytes, records, spilled, peak] = [0; 10];
    Task {
        stage,
        id,
        index: id,
        attempt: 0,
        executor,
        span,
        cpu,
        gc,
        fetch,
        write,
        deserialize,
        delay,
        bytes,
        records,
        spilled,
        peak,
        locality,
        reason,
        is_lost: false,
    }
}

impl Log {
    fn new(settings: Value) -> Log {
        let mut log = Log(String::new());
        log.event("LogStart", json!({"Spark Version": "4.0.5"}));
        log.event("EnvironmentUpdate", json!({"Spark Properties": settings}));
        log.event(
            "ApplicationStart",
            json!({"App Name": "planted", "App ID": "app-1", "Timestamp": START, "User": "u"}),
        );
        log
    }

    fn event(&mut self, class: &str, mut event: Value) {
        event["Event"] = json!(format!("SparkListener{class}"));
        self.0 += &format!("{event}\n");
    }

    /// An executor; its host is `h` and the first digit of its number.
    fn executor(&mut self, id: &str, cores: i64, at: i64) {
        let info = json!({"Host": format!("h{}", &id[..1]), "Total Cores": cores});
        self.event("ExecutorAdded", json!({"Timestamp": START + at, "Executor ID": id, "Executor Info": info}));
    }

    fn removed(&mut self, id: &str, at: i64, reason: &str) {
        self.event("ExecutorRemoved", json!({"Timestamp": START + at, "Executor ID": id, "Removed Reason": reason}));
    }

    /// A job with these stages, each from when to when.
    fn job(&mut self, id: i64, span: (i64, i64), stages: &[(i64, i64, i64)]) {
        let ids: Vec<i64> = stages.iter().map(|stage| stage.0).collect();
        self.event("JobStart", json!({"Job ID": id, "Submission Time": START + span.0, "Stage IDs": ids}));
        for (stage, from, to) in stages {
            let info = json!({"Stage ID": stage, "Stage Attempt ID": 0, "Stage Name": "s", "Submission Time": START + from,
                "Completion Time": START + to, "RDD Info": []});
            self.event("StageSubmitted", json!({"Stage Info": info}));
            self.event("StageCompleted", json!({"Stage Info": info}));
        }
        let result = json!({"Result": "JobSucceeded"});
        self.event("JobEnd", json!({"Job ID": id, "Completion Time": START + span.1, "Job Result": result}));
    }

    fn task(&mut self, task: &Task) {
        let run = (task.span.1 - task.span.0 - task.deserialize - task.delay).max(0);
        let metrics = json!({"Executor Deserialize Time": task.deserialize, "Executor Deserialize CPU Time": 0, "Executor Run Time": run,
            "Executor CPU Time": task.cpu * MS, "Peak Execution Memory": task.peak, "Result Size": 0, "JVM GC Time": task.gc,
            "Result Serialization Time": 0, "Memory Bytes Spilled": task.spilled, "Disk Bytes Spilled": task.spilled / 2,
            "Shuffle Read Metrics": {"Remote Blocks Fetched": 0, "Local Blocks Fetched": 0, "Fetch Wait Time": task.fetch,
                "Remote Bytes Read": 0, "Remote Bytes Read To Disk": 0, "Local Bytes Read": 0, "Total Records Read": 0},
            "Shuffle Write Metrics": {"Shuffle Bytes Written": 0, "Shuffle Write Time": task.write * MS, "Shuffle Records Written": 0},
            "Input Metrics": {"Bytes Read": task.bytes, "Records Read": task.records},
            "Output Metrics": {"Bytes Written": 0, "Records Written": 0}});
        let info = json!({"Task ID": task.id, "Index": task.index, "Attempt": task.attempt, "Launch Time": START + task.span.0,
            "Executor ID": task.executor, "Host": format!("h{}", &task.executor[..1]), "Locality": task.locality,
            "Speculative": false, "Getting Result Time": 0, "Finish Time": START + task.span.1, "Failed": false, "Killed": false});
        self.event(
            "TaskEnd",
            json!({"Stage ID": task.stage, "Stage Attempt ID": 0, "Task Type": "ResultTask",
            "Task End Reason": task.reason, "Task Info": info, "Task Metrics": if task.is_lost { Value::Null } else { metrics }}),
        );
    }

    /// Peaks of an executor in a stage, in MiB.
    fn peaks(&mut self, executor: &str, stage: i64, peaks: &[(&str, i64)]) {
        let peaks: BTreeMap<&str, i64> = peaks.iter().map(|(name, mib)| (*name, mib * MIB)).collect();
        self.event(
            "StageExecutorMetrics",
            json!({"Executor ID": executor, "Stage ID": stage, "Stage Attempt ID": 0,
            "Executor Metrics": peaks}),
        );
    }

    fn run(&self, more: &[&str]) -> crate::program::Ended {
        self.view("spark", more)
    }

    fn view(&self, view: &str, more: &[&str]) -> crate::program::Ended {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("app-20261121011349-0001");
        std::fs::write(&file, &self.0).unwrap();
        latscope(&[&[view, "-r", file.to_str().unwrap()], more].concat())
    }

    /// Without the lines that have all of these words.
    fn without(&self, words: &[&str]) -> Log {
        let is_kept = |line: &&str| !words.iter().all(|word| line.contains(word));
        Log(self.0.lines().filter(is_kept).map(|line| line.to_owned() + "\n").collect())
    }

    fn report(&self) -> Value {
        serde_json::from_str(&self.run(&["--json"]).success()).unwrap()
    }
}

fn number(value: &Value, path: &str) -> i64 {
    value.pointer(path).and_then(Value::as_i64).unwrap_or_else(|| panic!("{path} in {value}"))
}

fn words(values: &Value, key: &str) -> Vec<String> {
    values.as_array().unwrap().iter().map(|value| value[key].as_str().unwrap().to_string()).collect()
}

/// Settings with advice: what is advised, or nothing.
fn advised(report: &Value) -> BTreeMap<String, Option<String>> {
    let advice = report["memory"]["advice"].as_array().unwrap().iter();
    advice
        .map(|advice| (advice["setting"].as_str().unwrap().into(), advice["advised"].as_str().map(str::to_string)))
        .collect()
}

/// The causes of a task's delay, the most important first.
fn causes(report: &Value, task: i64) -> Vec<String> {
    let of_task = |straggler: &&Value| straggler["task"] == task;
    let straggler = report["stragglers"].as_array().unwrap().iter().find(of_task);
    words(
        &straggler.unwrap_or_else(|| panic!("task {task} is no straggler: {}", report["stragglers"]))["causes"],
        "cause",
    )
}

/// Eight tasks of a second on two executors of two cores, after which the test changes some.
fn eight() -> Vec<Task> {
    let task = |id: i64| {
        let executor = ["1", "2"][id as usize % 2];
        Task {
            bytes: 100 * MIB,
            records: 1000,
            cpu: 800,
            ..task(0, id, executor, (id / 4 * 1000, id / 4 * 1000 + 1000))
        }
    };
    (0..8).map(task).collect()
}

fn log_of(tasks: &[Task]) -> Log {
    let mut log = Log::new(json!({"spark.master": "yarn", "spark.executor.memory": "1g"}));
    ["1", "2"].iter().for_each(|id| log.executor(id, 2, 0));
    let end = tasks.iter().map(|task| task.span.1).max().unwrap();
    log.job(0, (0, end), &[(0, 0, end)]);
    tasks.iter().for_each(|task| log.task(task));
    log
}

#[test]
fn planted_stragglers_have_their_cause() {
    let planted = |change: &dyn Fn(&mut Task)| {
        let mut tasks = eight();
        tasks[5].span.1 += 3000;
        change(&mut tasks[5]);
        let report = log_of(&tasks).report();
        assert_eq!(report["stragglers"].as_array().unwrap().len(), 1, "{}", report["stragglers"]);
        (causes(&report, 5), report)
    };
    let (found, report) = planted(&|task| (task.bytes, task.records, task.cpu) = (400 * MIB, 4000, 3800));
    assert_eq!(found[..2], ["data_skew", "cpu"]);
    assert_eq!(
        [number(&report, "/stragglers/0/causes/0/value"), number(&report, "/stragglers/0/causes/0/median")],
        [400 * MIB, 100 * MIB]
    );
    assert_eq!(
        [number(&report, "/stragglers/0/latency_ns"), number(&report, "/stragglers/0/median_ns")],
        [4000 * MS, 1000 * MS]
    );
    // Twice the data do not explain four times the time, where the rest is a wait.
    assert_eq!(planted(&|task| task.bytes = 160 * MIB).0, ["io", "data_skew"]);
    let (found, report) = planted(&|_| ());
    assert_eq!(found, ["io"]);
    assert_eq!(
        [number(&report, "/stragglers/0/causes/0/value"), number(&report, "/stragglers/0/causes/0/median")],
        [3200 * MS, 200 * MS]
    );
    assert_eq!(planted(&|task| (task.bytes, task.records) = (0, 0)).0, ["remainder"], "a sleep");
    assert_eq!(planted(&|task| task.gc = 2900).0, ["gc"]);
    assert_eq!(planted(&|task| task.fetch = 3000).0, ["fetch_wait"]);
    assert_eq!(planted(&|task| task.write = 3000).0, ["shuffle_write"]);
    assert_eq!(planted(&|task| task.delay = 3000).0, ["scheduler_delay"]);
    assert_eq!(planted(&|task| (task.deserialize, task.gc) = (2000, 1000)).0, ["deserialize", "gc"]);
    // What spilled takes its time as remainder; the spill is why.
    let (found, report) = planted(&|task| task.spilled = 300 * MIB);
    assert_eq!(found, ["spill", "io"]);
    assert_eq!(number(&report, "/stragglers/0/causes/0/value"), 300 * MIB);
    assert_eq!(planted(&|task| (task.fetch, task.locality) = (3000, "ANY")).0, ["fetch_wait", "locality"]);
}

/// Loading code and starting workers takes the first tasks of an executor longer, but explains nothing where others of them do not.
#[test]
fn being_a_first_task_explains_what_other_first_tasks_have() {
    // Tasks of a second on so many cores of an executor, some of them with as many milliseconds of deserialization more.
    let cause = |cores: i64, count: i64, more: &dyn Fn(i64) -> i64| {
        let mut log = Log::new(json!({}));
        log.executor("1", cores, 0);
        log.job(0, (0, 60_000), &[(0, 0, 60_000)]);
        for id in 0..count {
            let from = id / cores * 10_000;
            log.task(&Task { deserialize: more(id), ..task(0, id, "1", (from, from + 1000 + more(id))) });
        }
        let report = log.report();
        let of_first = |straggler: &&Value| straggler["task"] == 0;
        let straggler = report["stragglers"].as_array().unwrap().iter().find(of_first).unwrap();
        straggler["cause"].as_str().unwrap().to_owned()
    };
    let first = "2s more deserialization, as a first task of its executor in the stage";
    assert_eq!(cause(4, 20, &|id| if id < 4 { 2000 } else { 0 }), first);
    assert_eq!(cause(1, 5, &|id| if id < 1 { 2000 } else { 0 }), first, "the only one");
    assert_eq!(cause(4, 20, &|id| if id < 1 { 2000 } else { 0 }), "2s more deserialization");
    assert_eq!(cause(8, 8, &|id| if id < 1 { 2000 } else { 0 }), "2s more deserialization", "all are");
    assert_eq!(cause(8, 8, &|id| if id < 1 { 4000 } else { 2000 }), "2s more deserialization", "all are, and are slow");
}

#[test]
fn slow_executors_and_hosts_are_found_by_their_other_tasks() {
    // Executors 1 and 2 on hosts of their own, 30 and 31 on one; each has eight tasks, those of the slow ones take five times as long.
    let log_with = |slow: &[&str]| {
        let executors = ["1", "2", "30", "31"];
        let mut tasks = Vec::new();
        for (at, executor) in executors.into_iter().enumerate() {
            let took = if slow.contains(&executor) { 5000 } else { 1000 };
            tasks.extend((0..8).map(|turn| {
                let span = (turn * took, (turn + 1) * took);
                Task { bytes: MIB, cpu: 500, ..task(0, 8 * at as i64 + turn, executor, span) }
            }));
        }
        let mut log = Log::new(json!({}));
        executors.iter().for_each(|id| log.executor(id, 1, 0));
        log.job(0, (0, 40_000), &[(0, 0, 40_000)]);
        tasks.iter().for_each(|task| log.task(task));
        log.report()
    };
    let report = log_with(&["2"]);
    assert_eq!(report["stragglers"].as_array().unwrap().len(), 8);
    let slow = &report["stragglers"][4]["causes"][0];
    assert_eq!(
        (&slow["cause"], number(slow, "/value"), number(slow, "/median")),
        (&json!("slow_executor"), 5000 * MS, 1000 * MS)
    );
    assert!(report["stragglers"][4]["cause"].as_str().unwrap().starts_with("slow executor 2 (severe)"));
    assert_eq!(causes(&log_with(&["30"]), 20)[0], "slow_executor", "its neighbour is as fast as others");
    let report = log_with(&["30", "31"]);
    assert_eq!((causes(&report, 20)[0].as_str(), causes(&report, 28)[0].as_str()), ("slow_host", "slow_host"));
}

/// Every number of a log by hand: idle cores by cause, tails, totals of jobs, and the model.
#[test]
fn idle_cores_and_other_numbers_of_cores() {
    let mut log = Log::new(json!({}));
    log.executor("1", 2, 0);
    log.executor("2", 2, 6000);
    // Four tasks of 2 s on two cores; then two more cores come, and a stage of six, the last of which takes 5 s; then one task.
    let first = [(0, 1000), (1, 1000), (2, 3000), (3, 3000)].map(|(id, start)| task(0, id, "1", (start, start + 2000)));
    let second: Vec<Task> = (4..10)
        .map(|id| {
            let start = if id < 8 { 6500 } else { 7500 };
            task(1, id, ["1", "2"][id as usize % 2], (start, start + if id == 9 { 5000 } else { 1000 }))
        })
        .collect();
    log.job(0, (500, 5000), &[(0, 1000, 5000)]);
    log.job(1, (6000, 15_000), &[(1, 6200, 12_500), (2, 13_000, 15_000)]);
    first.iter().chain(&second).for_each(|task| log.task(task));
    log.task(&task(2, 10, "1", (13_000, 15_000)));
    log.removed("1", 16_000, "Executor killed by driver.");
    log.removed("2", 16_000, "Executor killed by driver.");
    let report = log.report();
    let cost: BTreeMap<String, [i64; 2]> = report["idle"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| {
            (cause["cause"].as_str().unwrap().into(), [number(cause, "/wall_ns") / MS, number(cause, "/core_ns") / MS])
        })
        .collect();
    let expected = [
        // 0 to 0.5, 5 to 6 on two cores, 15 to 16 on four.
        ("driver", [2500, 1000 + 2000 + 4000]),
        // 0.5 to 1 on two; 6 to 6.5 and 12.5 to 13 on four.
        ("stage boundary", [1500, 1000 + 2000 + 2000]),
        // 1 to 3 on two cores, while two more tasks waited and there would be four.
        ("allocation", [2000, 4000]),
        // Task 8 ends after 8.5; task 9 alone, until 12.5.
        ("straggler", [5000, 2000 + 4 * 3000]),
        ("few tasks", [2000, 3 * 2000]),
    ];
    assert_eq!(cost, expected.map(|(cause, cost)| (cause.to_string(), cost)).into());
    // All but what waited for cores that were not there is idle time of cores.
    let idle: i64 = cost.iter().filter(|(cause, _)| *cause != "allocation").map(|(_, cost)| cost[1]).sum();
    assert_eq!(number(&report, "/active_tasks/idle_ns"), idle * MS);
    assert_eq!(number(&report, "/active_tasks/core_ns") - number(&report, "/task_ns"), idle * MS);
    let jobs: Vec<[i64; 3]> = report["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| [number(job, "/numTasks"), number(job, "/executorRunTime"), number(job, "/task_ns") / MS])
        .collect();
    assert_eq!(jobs, [[4, 8000, 8000], [7, 12_000, 12_000]]);
    // With four cores from the start: 1 + 2, then 1.2 after it, six tasks on four cores, 6 in all, 0.5, 2 and 1 more.
    let walls: Vec<i64> =
        report["what_if"]["simulated"].as_array().unwrap().iter().map(|run| number(run, "/wall_ns") / MS).collect();
    let after = |first: i64, second: i64| 1000 + first + 1200 + second + 500 + 2000 + 1000;
    assert_eq!(walls, [after(2000, 6000), after(4000, 7000), after(2000, 5000)]);
    assert_eq!(number(&report, "/what_if/simulated/1/cores"), 2);
}

/// The breakdown over time against a sum over all tasks, a column at a time.
#[test]
fn the_breakdown_spreads_the_parts_of_tasks_evenly() {
    let file = testdata("spark_eventlog/tpcds_lab.json.zst");
    let file = file.to_str().unwrap();
    let report: Value = serde_json::from_str(&latscope(&["spark", "-r", file, "--json"]).success()).unwrap();
    let fields = [
        ("CPU", "cpu_ns"),
        ("GC", "gc_ns"),
        ("fetch wait", "fetch_wait_ns"),
        ("shuffle write", "shuffle_write_ns"),
        ("remainder", "remainder_ns"),
        ("deserialize", "deserialize_ns"),
        ("serialize result", "result_serialization_ns"),
        ("get result", "getting_result_ns"),
        ("scheduler delay", "scheduler_delay_ns"),
    ];
    let columns = format!("time_ns,latency_ns,{}", fields.map(|(_, field)| field).join(","));
    let rows = latscope(&["events", "-r", file, "--json", "--columns", &columns]).success();
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 104);
    let [start, width] = ["start_ns", "width_ns"].map(|key| report["breakdown"][key].as_i64().unwrap());
    for (name, field) in fields {
        let column = report["breakdown"][name].as_array().unwrap();
        for (at, got) in column.iter().map(|ns| ns.as_i64().unwrap()).enumerate() {
            let (left, right) = (start + at as i64 * width, start + (at as i64 + 1) * width);
            let inside = |row: &Value| {
                let of = |key: &str| row[key].as_i64().unwrap_or(0);
                // GC of the whole JVM can make the parts of a task more than the task.
                let whole = of("latency_ns").max(fields.iter().map(|(_, field)| of(field)).sum()).max(1);
                let overlap = right.min(of("time_ns") + of("latency_ns")) - left.max(of("time_ns"));
                overlap.max(0) as f64 * of(field) as f64 / whole as f64
            };
            let expected: f64 = rows.iter().map(inside).sum();
            assert!((got as f64 - expected).abs() <= 1.0, "{name} {at}: {got} {expected}");
        }
    }
    let sum =
        |name: &str| report["breakdown"][name].as_array().unwrap().iter().map(|ns| ns.as_i64().unwrap()).sum::<i64>();
    assert!((sum("idle") - number(&report, "/active_tasks/idle_ns")).abs() < 1000);
    assert!((sum("cores") - number(&report, "/active_tasks/core_ns")).abs() < 1000);
    let names =
        ["CPU", "GC", "fetch wait", "shuffle write", "remainder", "deserialize", "serialize result", "get result"];
    let parts: i64 = names.into_iter().chain(["scheduler delay", "unknown"]).map(sum).sum();
    assert!((parts - number(&report, "/task_ns")).abs() < 10_000, "every part of every task is somewhere");
}

#[test]
fn verdicts_come_in_the_order_of_the_method() {
    // Forty tasks of a second on two cores, which the test changes.
    let verdicts = |cores: i64, change: &dyn Fn(&mut Task)| {
        let mut log = Log::new(json!({}));
        log.executor("1", cores, 0);
        log.job(0, (0, 20_000), &[(0, 0, 20_000)]);
        for id in 0..40 {
            let mut task = Task { cpu: 600, gc: 50, ..task(0, id, "1", (id / 2 * 1000, id / 2 * 1000 + 1000)) };
            change(&mut task);
            log.task(&task);
        }
        let report = log.report();
        assert_eq!(report["findings"], report["stages"][0]["findings"], "the only stage is the application");
        words(&report["findings"], "verdict")
            .into_iter()
            .zip(words(&report["findings"], "confidence"))
            .collect::<Vec<_>>()
    };
    let is = |verdict: &str, confidence: &str| vec![(verdict.to_string(), confidence.to_string())];
    assert_eq!(verdicts(2, &|_| ()), is("external", "medium")[..0]);
    assert_eq!(verdicts(2, &|task| task.cpu = 750), is("cpu", "medium"));
    assert_eq!(verdicts(2, &|task| task.gc = 101), is("gc", "medium"));
    assert_eq!(verdicts(2, &|task| task.gc = 200), is("gc", "high"));
    assert_eq!(verdicts(2, &|task| task.spilled = MIB), is("spill", "high"));
    assert_eq!(verdicts(2, &|task| task.fetch = 201), is("shuffle", "medium"));
    assert_eq!(verdicts(2, &|task| task.write = 350), is("local disk", "high"));
    assert_eq!(verdicts(2, &|task| task.cpu = 400), is("external", "medium"));
    assert_eq!(verdicts(2, &|task| (task.cpu, task.bytes) = (400, 1)), is("storage read", "medium"));
    assert_eq!(verdicts(2, &|task| (task.delay, task.cpu) = (400, 400)), is("small tasks", "medium"));
    let at_once = |task: &mut Task| (task.span, task.cpu) = ((0, 20_000), 13_000);
    assert_eq!(verdicts(200, &at_once), is("parallelism", "high"));
    let failed = |task: &mut Task| {
        if task.id == 3 {
            task.reason = json!({"Reason": "ExceptionFailure", "Class Name": "java.lang.OutOfMemoryError", "Description": "heap"});
        }
        task.gc = 200;
    };
    assert_eq!(verdicts(2, &failed), [is("errors", "high"), is("gc", "high")].concat());
    // A tail: one task of 40 s after them.
    let mut tasks = eight();
    tasks[7].span.1 += 38_000;
    let report = log_of(&tasks).report();
    assert_eq!(words(&report["findings"], "verdict")[0], "skew", "{}", report["findings"]);
    // Gaps: the driver.
    let mut log = Log::new(json!({}));
    log.executor("1", 1, 0);
    log.job(0, (0, 1000), &[(0, 0, 1000)]);
    log.task(&task(0, 0, "1", (0, 1000)));
    log.removed("1", 9000, "Command exited with code 137");
    let report = log.report();
    assert_eq!(words(&report["findings"], "verdict")[..2], ["errors", "driver"], "{}", report["findings"]);
    assert_eq!(
        (&report["executors"][0]["lost"], &report["executors"][0]["removed"]),
        (&json!(true), &json!("Command exited with code 137"))
    );
}

/// Failures of the driver count as those of tasks do, and each failure has its reason.
#[test]
fn what_fails_in_the_driver_is_an_error() {
    let mut log = log_of(&eight());
    let message = "java.lang.OutOfMemoryError: Java heap space\n\tat a.B.c(B.java:1)";
    // Its start is not in the log.
    log.event("SQLExecutionEnd", json!({"executionId": 1, "time": START + 1500, "errorMessage": message}));
    let report = log.report();
    assert_eq!(words(&report["findings"], "verdict")[0], "errors");
    assert_eq!(
        (&report["sql"][0]["failed"], &report["sql"][0]["reason"], number(&report, "/measures/failed")),
        (&json!(true), &json!("java.lang.OutOfMemoryError: Java heap space"), 1)
    );
    assert_eq!(advised(&report)["spark.driver.memory"].as_deref(), Some("1536m"));
    let text = log.run(&["--fail-if", "failed > 0"]).failure(1);
    assert!(text.contains("failed is 1, which is > 0"), "{text}");
    let text = log.run(&[]).success();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("execution 1: java.lang.OutOfMemoryError: Java heap space"), "{text}");
    // A job that somebody cancelled is none of the driver's failures; a stage that failed has its reason.
    let mut log = log_of(&eight());
    let info = json!({"Stage ID": 7, "Stage Attempt ID": 0, "Stage Name": "s", "Submission Time": START, "Completion Time": START + 100,
        "RDD Info": [], "Failure Reason": "Lost task 0.3 in stage 7.0 (TID 9) (h executor 1): a.B: Traceback (most recent call \
        last):\n  File x\nValueError: boom"});
    log.event("StageCompleted", json!({"Stage Info": info}));
    let result = json!({"Result": "JobFailed", "Exception": {"Message": "Job 5 cancelled"}});
    log.event("JobStart", json!({"Job ID": 5, "Submission Time": START, "Stage IDs": []}));
    log.event("JobEnd", json!({"Job ID": 5, "Completion Time": START + 100, "Job Result": result}));
    assert_eq!(number(&log.report(), "/measures/failed"), 0);
    assert!(log.run(&[]).success().contains("stage 7 failed: ValueError: boom"));
}

/// Two cores for ten seconds while eight tasks wait; then there are eight more.
#[test]
fn waiting_for_executors_is_a_verdict() {
    let mut log = Log::new(json!({}));
    log.executor("1", 2, 0);
    log.executor("2", 8, 10_000);
    log.job(0, (0, 20_000), &[(0, 0, 20_000)]);
    (0..10).for_each(|id| {
        let (executor, from) = if id < 2 { ("1", 0) } else { ("2", 10_000) };
        let to = if id < 2 { 20_000 } else { from + 10_000 };
        log.task(&Task { cpu: to - from, ..task(0, id, executor, (from, to)) });
    });
    let report = log.report();
    let finding = &report["findings"][0];
    assert_eq!((&finding["verdict"], finding["value"].as_f64().unwrap()), (&json!("allocation"), 80.0 / 200.0));
    let text = log.run(&[]).success();
    assert!(text.contains("allocation: for 10s tasks waited for 80.0 core-s that were not there"), "{text}");
    assert!(text.contains("allocation (medium confidence)"), "{text}");
    // Where the clock was set back, nobody knows for how long they did.
    log.task(&task(0, 10, "2", (15_000, 15_100)));
    let set_back = Log(log.0.replace(&(START + 15_100).to_string(), &(START + 14_900).to_string()));
    let text = set_back.run(&[]).success();
    assert!(text.contains("allocation (low confidence)"), "{text}");
}

#[test]
fn tasks_that_run_when_the_log_ends_are_active() {
    // Two cores: five tasks on one, while the sixth hangs on the other.
    let mut log = Log::new(json!({}));
    log.executor("1", 2, 0);
    log.job(0, (0, 6000), &[(0, 0, 6000)]);
    let info = json!({"Task ID": 9, "Index": 9, "Attempt": 0, "Launch Time": START, "Executor ID": "1", "Host": "h1",
        "Locality": "ANY", "Speculative": false});
    log.event("TaskStart", json!({"Stage ID": 0, "Stage Attempt ID": 0, "Task Info": info}));
    (0..5).for_each(|id| log.task(&task(0, id, "1", (id * 1000, id * 1000 + 1000))));
    // What the log has last.
    log.executor("2", 0, 10_000);
    let report = log.report();
    assert_eq!([number(&report, "/running_tasks"), number(&report, "/counters/numTasks")], [1, 5]);
    assert_eq!(number(&report, "/active_tasks/task_ns"), 15_000 * MS, "ten seconds of it, and five of the others");
    assert_eq!(number(&report, "/active_tasks/idle_ns"), 5000 * MS);
    let straggler = &report["stragglers"][0];
    assert_eq!(
        (&straggler["task"], &straggler["running"], number(straggler, "/latency_ns")),
        (&json!(9), &json!(true), 10_000 * MS)
    );
    assert!(log.run(&[]).success().contains("1 more task ran when the log ended"));
}

#[test]
fn tasks_that_failed_or_lost_their_metrics_say_nothing_about_others() {
    // Ten failures at once, and eight equal successes.
    let mut tasks = eight();
    let reason = json!({"Reason": "ExceptionFailure"});
    tasks.extend((8..18).map(|id| Task { reason: reason.clone(), ..task(0, id, "1", (0, 10)) }));
    assert_eq!(log_of(&tasks).report()["stragglers"], json!([]));
    // Six tasks of a lost executor have no bytes; the straggler waits for shuffle data.
    let mut tasks = eight();
    (tasks[5].span.1, tasks[5].fetch) = (tasks[5].span.1 + 3000, 3000);
    let reason = json!({"Reason": "ExecutorLostFailure"});
    tasks.extend((8..14).map(|id| Task { reason: reason.clone(), is_lost: true, ..task(0, id, "2", (0, 1000)) }));
    let report = log_of(&tasks).report();
    assert_eq!(causes(&report, 5)[0], "fetch_wait");
    assert_eq!([number(&report, "/unknown_ns"), number(&report, "/scheduler_delay_ns")], [6000 * MS, 0]);
    // Parts of tasks are at least 0 each, so those of stages add up to that of the application.
    let mut tasks = eight();
    (tasks[0].gc, tasks[1].gc) = (900, 0);
    let report = log_of(&tasks).report();
    assert_eq!(number(&report, "/remainder_ns"), 7 * 200 * MS);
    assert_eq!(number(&report, "/stages/0/remainder_ns"), 7 * 200 * MS);
}

#[test]
fn an_end_before_the_launch_and_a_second_end_are_no_tasks() {
    // The executor with the results of two tasks is lost, so Spark reports both once more; the clock goes back in another.
    let mut tasks = eight();
    let reason = json!({"Reason": "Resubmitted"});
    tasks.extend([1, 2].map(|id| Task { reason: reason.clone(), ..eight().remove(id) }));
    let plain = log_of(&eight()).report();
    tasks.push(Task { is_lost: true, ..task(0, 70, "1", (500, 400)) });
    let ended = log_of(&tasks).run(&["--json"]);
    for words in ["2 more ends of tasks that the log had already", "1 event left out: the latency is negative"] {
        assert!(ended.err.contains(words), "{}", ended.err);
    }
    let report: Value = serde_json::from_str(&ended.success()).unwrap();
    for path in ["/counters/numTasks", "/counters/executorRunTime", "/active_tasks/task_ns", "/failed_tasks"] {
        assert_eq!(number(&report, path), number(&plain, path), "{path}");
    }
    // Tasks of the next application in the file have the same numbers.
    let second = log_of(&eight()).0.replace("app-1", "app-2");
    let both = Log(log_of(&eight()).0 + &second);
    let report = both.run(&["--json", "app = app-2"]);
    assert!(!report.err.contains("had already"), "{}", report.err);
    assert_eq!(number(&serde_json::from_str(&report.success()).unwrap(), "/counters/numTasks"), 8);
}
