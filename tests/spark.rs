//! Spark itself: one application with known faults in a cluster of two executors, and what Spark, its REST API, sparkMeasure and the
//! kernel say of it. All tests are about this one run.

use crate::exports::get;
use crate::live::lab::{Background, Disk, alone, events, until};
use crate::program::{LATSCOPE, command, end, installed, latscope, root};
use crate::python_package::package;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;

/// What each of the two disks holds for the scan: files of lines of 64 bytes.
const FILES: u64 = 8;
const FILE_BYTES: u64 = 2 << 20;
/// How long the slow disk takes for a request: a file takes seconds of it, however busy the machine is.
const SLOW: &str = "100ms";

/// What is left of the application, in memory: nothing is to be removed.
struct Run {
    log: Vec<u8>,
    kernel: Vec<u8>,
    /// `[slow, fast]`.
    disks: [String; 2],
    /// What the script says of itself.
    said: Value,
    /// Whether Spark as an engine agrees with us; null where the package of Python is not there.
    agrees: Value,
    /// What executors reported, as lines of JSON.
    graphite: String,
    /// What the control groups of executors counted, a row a second.
    cgroups: String,
    /// Events as lines of JSON, by how they were read: of the log and over REST while it ran, and over REST when its jobs were done.
    followed: String,
    asked_live: String,
    asked: String,
    /// Stages with summaries, and tasks by stage and attempt, as Spark says it.
    stages: Value,
    tasks: BTreeMap<(i64, i64), Value>,
}

/// Some columns of tasks.
const COLUMNS: &str = "time_ns,latency_ns,kind,name,job,sql,tags,error,app,stage,stage_attempt,task,task_index,attempt,executor,host,locality,\
    speculative,run_ns,cpu_ns,gc_ns,fetch_wait_ns,shuffle_write_ns,scheduler_delay_ns,deserialize_ns,deserialize_cpu_ns,result_serialization_ns,\
    getting_result_ns,remainder_ns,spilled,disk_spilled,peak_memory,result_size,input,input_records,output,output_records,shuffle_remote,\
    shuffle_local,shuffle_to_disk,shuffle_records,remote_blocks,local_blocks,shuffle_written,shuffle_written_records";

/// The application, once for all tests; `None`, and the reason reported, where it cannot run.
fn run() -> Option<&'static Run> {
    static RUN: OnceLock<Option<Run>> = OnceLock::new();
    let run = RUN.get_or_init(make).as_ref();
    if run.is_none() {
        skipped!("Spark does not run here; make test installs it");
    }
    run
}

/// A disk with the files, none of which is in memory.
fn disk(arguments: &[&str], place: &Path) -> Disk {
    let disk = Disk::new(arguments);
    end(command("mkfs.ext4").args(["-q", &disk.path]), b"").success();
    std::fs::create_dir(place).unwrap();
    // Small requests, so that the disk is slow for a file as for a request.
    let name = disk.path.trim_start_matches("/dev/");
    std::fs::write(format!("/sys/block/{name}/queue/read_ahead_kb"), "32").unwrap();
    let mount = || end(command("mount").arg("-o").arg("noatime").arg(&disk.path).arg(place), b"").success();
    mount();
    for file in 0..FILES {
        let lines = (0..FILE_BYTES / 64).map(|line| format!("{:063}\n", line * FILES + file));
        std::fs::write(place.join(format!("part-{file}")), lines.collect::<String>()).unwrap();
    }
    end(command("umount").arg(place), b"").success();
    mount();
    disk
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn make() -> Option<Run> {
    let python = std::env::var_os("LATSCOPE_SPARK_PYTHON").map(PathBuf::from).filter(|python| python.exists());
    let Some(python) = python else {
        skipped!("LATSCOPE_SPARK_PYTHON does not name a Python with Spark");
        return None;
    };
    if !installed("java") || !installed("mkfs.ext4") {
        return None;
    }
    let _alone = alone()?;
    let folder = tempfile::tempdir().unwrap();
    let places = ["slow", "fast"].map(|name| folder.path().join(name));
    let disks = [disk(&["--read", SLOW], &places[0]), disk(&["--read", "100us"], &places[1])];
    let run = with_disks(&python, folder.path(), &places, &disks);
    for place in places {
        end(command("umount").args(["--lazy", text(&place)]), b"").success();
    }
    Some(run)
}

fn with_disks(python: &Path, folder: &Path, places: &[PathBuf; 2], disks: &[Disk; 2]) -> Run {
    let work = folder.join("work");
    std::fs::create_dir(&work).unwrap();
    let python_package = package();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let graphite = Background::new(command(LATSCOPE).args(["spark", "--graphite", &address, "-i", "1s", "--json"]));
    let samples = folder.join("executors.csv");
    let sampling = Background::new(command(LATSCOPE).args(["spark", "--sample", text(&samples)]));
    let mut job = command("setpriv")
        .args(["--pdeathsig", "TERM", "timeout", "240"])
        .arg(python)
        .arg(root().join("tests/spark/job.py"))
        .args([&work, &places[0], &places[1]])
        .arg(port.to_string())
        .env_remove("SPARK_HOME")
        .envs(python_package.iter().map(|folder| ("PYTHONPATH", folder.path())))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(folder.join("err")).unwrap())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(job.stdout.take().unwrap()).lines();
    let mut next = || -> Value {
        let Some(line) = lines.next() else { panic!("{}", std::fs::read_to_string(folder.join("err")).unwrap()) };
        serde_json::from_str(&line.unwrap()).unwrap()
    };
    let ready = next();
    let word = |key: &str| ready[key].as_str().unwrap().to_string();
    let (ui, log, kernel) = (word("ui"), word("log"), folder.join("kernel.lat"));
    let running = format!("{log}.inprogress");
    let follow = |input: &str| {
        Background::new(command(LATSCOPE).args(["events", "--follow", "--json", "--columns", COLUMNS, "-r", input]))
    };
    let [followed, asked_live] = [follow(&running), follow(&ui)];
    let filter = format!(
        "{} or {} or comm startswith 'Executor task' or proc.name startswith python",
        disks[0].filter(),
        disks[1].filter()
    );
    let words =
        ["record", "-s", "block,offcpu=1ms", "--with", "args,ppid", "--no-user-stacks", "-w", text(&kernel), &filter];
    let record = Background::latscope(&words);
    // What ends before both captures have begun is in neither.
    until("the recording", || record.printed().contains("capturing block,offcpu"));
    std::fs::write(work.join("go"), "").unwrap();
    let said = next();
    record.interrupt().success();
    let asked = latscope(&["events", "--json", "--columns", COLUMNS, "-r", &ui]).success();
    // The next report of each executor has all that ended before.
    until("the reports of executors", || {
        run_by_executor(&by_task(&asked)) == last_by_executor(&graphite.out_so_far(), "run_ns")
    });
    let graphite = graphite.interrupt().success();
    sampling.interrupt().success();
    let cgroups = std::fs::read_to_string(&samples).unwrap();
    // Who follows has them too, a turn later.
    let count = asked.lines().count();
    until("all tasks over REST", || asked_live.out_so_far().lines().count() >= count);
    let port: u16 = ui.rsplit(':').next().unwrap().trim_end_matches('/').parse().unwrap();
    let app = word("app");
    let ask = |what: &str| -> Value {
        let path = format!("/api/v1/applications/{app}/{what}");
        serde_json::from_str(&get(port, &path, "*/*").unwrap()).unwrap()
    };
    let stages = ask("stages?withSummaries=true&quantiles=0.0,0.25,0.5,0.75,1.0");
    let id = |stage: &Value| (stage["stageId"].as_i64().unwrap(), stage["attemptId"].as_i64().unwrap());
    let has_run = |stage: &&Value| stage["status"] == "COMPLETE";
    let tasks = stages.as_array().unwrap().iter().filter(has_run).map(id);
    let tasks = tasks
        .map(|(stage, attempt)| ((stage, attempt), ask(&format!("stages/{stage}/{attempt}/taskList?length=1000"))));
    let tasks = tasks.collect();
    std::fs::write(work.join("stop"), "").unwrap();
    let agrees = next()["agrees"].take();
    assert!(job.wait().unwrap().success(), "{}", std::fs::read_to_string(folder.join("err")).unwrap());
    until("the end of the application over REST", || asked_live.printed().contains("does not answer any more"));
    let asked_live = asked_live.ended().success();
    until("all of the log", || followed.out_so_far().lines().count() >= count);
    let followed = followed.interrupt().success();
    let [log, kernel] = [PathBuf::from(log), kernel].map(|path| std::fs::read(path).unwrap());
    let disks = [0, 1].map(|at: usize| disks[at].name().to_string());
    Run { log, kernel, disks, said, agrees, graphite, cgroups, followed, asked_live, asked, stages, tasks }
}

/// Buckets and percentiles of raw events, stored cells, and the data source: `tests/spark/engine.py`.
#[test]
fn spark_as_an_engine_has_our_buckets() {
    let Some(run) = run() else { return };
    match run.agrees.as_str() {
        Some("yes") => {}
        Some(why) => panic!("{why}"),
        None => skipped!("the Spark of these tests has no Python package of latscope"),
    }
}

/// The files of the run in a folder of a test's own.
fn files(run: &Run) -> (tempfile::TempDir, [String; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let paths = [("app-1", &run.log), ("kernel.lat", &run.kernel)].map(|(name, bytes)| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        text(&path).to_string()
    });
    (folder, paths)
}

/// The tasks of lines of JSON, by their number.
fn by_task(lines: &str) -> BTreeMap<i64, Value> {
    let task = |line: &str| -> (i64, Value) {
        let task: Value = serde_json::from_str(line).unwrap();
        (task["task"].as_i64().unwrap(), task)
    };
    lines.lines().map(task).collect()
}

fn of_log(run: &Run) -> BTreeMap<i64, Value> {
    let (_folder, [log, _]) = files(run);
    by_task(&latscope(&["events", "--json", "--columns", COLUMNS, "-r", &log]).success())
}

/// Takes the tag of Python away.
fn without_python(task: &mut Value) {
    let Some(tags) = task["tags"].as_str() else { return };
    let kept: Vec<&str> = tags.split(';').filter(|tag| *tag != "python=true").collect();
    match kept.is_empty() {
        true => drop(task.as_object_mut().map(|task| task.remove("tags"))),
        false => task["tags"] = kept.join(";").into(),
    }
}

#[test]
fn an_application_over_rest_is_its_event_log() {
    let Some(run) = run() else { return };
    let mut of_log = of_log(run);
    of_log.values_mut().for_each(without_python);
    assert!(of_log.len() > 40, "{}", of_log.len());
    for (way, lines) in [("followed", &run.followed), ("asked live", &run.asked_live), ("asked", &run.asked)] {
        let mut found = by_task(lines);
        // Whether a stage is of Python is said by its RDDs, which the REST API does not have.
        found.values_mut().for_each(without_python);
        assert_eq!(found.keys().collect::<Vec<_>>(), of_log.keys().collect::<Vec<_>>(), "{way}");
        for (task, expected) in &of_log {
            assert_eq!(&found[task], expected, "{way}, task {task}");
        }
    }
}

#[test]
fn scheduler_delay_and_summaries_are_those_of_spark() {
    let Some(run) = run() else { return };
    let of_log = of_log(run);
    let ms = |task: &Value, field: &str| task[field].as_u64().unwrap() / 1_000_000;
    let mut checked = 0;
    for tasks in run.tasks.values() {
        for task in tasks.as_array().unwrap().iter().filter(|task| task["status"] == "SUCCESS") {
            let ours = &of_log[&task["taskId"].as_i64().unwrap()];
            assert_eq!(task["schedulerDelay"], ms(ours, "scheduler_delay_ns"), "{task}");
            assert_eq!(task["gettingResultTime"], ms(ours, "getting_result_ns"), "{task}");
            checked += 1;
        }
    }
    assert_eq!(checked, of_log.len() - 1, "all but the one that failed");
    for stage in run.stages.as_array().unwrap().iter().filter(|stage| stage["status"] == "COMPLETE") {
        let of_stage = |task: &&Value| task["stage"] == stage["stageId"] && task["stage_attempt"] == stage["attemptId"];
        let tasks: Vec<&Value> = of_log.values().filter(of_stage).collect();
        for (key, field) in [
            ("executorRunTime", "run_ns"),
            ("jvmGcTime", "gc_ns"),
            ("executorDeserializeTime", "deserialize_ns"),
            ("shuffleFetchWaitTime", "fetch_wait_ns"),
        ] {
            assert_eq!(stage[key], tasks.iter().map(|task| ms(task, field)).sum::<u64>(), "{key} of {stage}");
        }
        for (key, field) in [
            ("executorCpuTime", "cpu_ns"),
            ("shuffleWriteTime", "shuffle_write_ns"),
            ("inputBytes", "input"),
            ("shuffleWriteBytes", "shuffle_written"),
            ("resultSize", "result_size"),
        ] {
            let sum: u64 = tasks.iter().map(|task| task[field].as_u64().unwrap()).sum();
            assert_eq!(stage[key], sum, "{key} of {stage}");
        }
        // Spark's quantile is the value at the place floor(q * count); summaries leave out tasks that failed.
        let good = tasks.iter().filter(|task| task["error"].is_null());
        let mut runs: Vec<u64> = good.map(|task| ms(task, "run_ns")).collect();
        runs.sort_unstable();
        let at = |quantile: f64| runs[((quantile * runs.len() as f64) as usize).min(runs.len() - 1)] as f64;
        let expected: Vec<f64> = [0.0, 0.25, 0.5, 0.75, 1.0].map(at).to_vec();
        assert_eq!(stage["taskMetricsDistributions"]["executorRunTime"], Value::from(expected), "{stage}");
    }
}

#[test]
fn counters_are_those_of_spark_measure_where_it_is_right() {
    let Some(run) = run() else { return };
    let (_folder, [log, _]) = files(run);
    let json = latscope(&["spark", "-r", &log, "--json", "tags.pair = 'group=faults'"]).success();
    let json: Value = serde_json::from_str(&json).unwrap();
    let (ours, theirs) = (&json["counters"], run.said["measured"].as_object().unwrap());
    let mut checked = 0;
    for (key, theirs) in theirs {
        let ours = ours[key].as_u64();
        match &**key {
            // From begin to end of the block of code, not of its stages.
            "elapsedTime" => {}
            // It does not count the task that failed, though what the task did is in its other numbers.
            "numTasks" => assert_eq!(ours, theirs.as_u64().map(|count| count + 1)),
            // It has that of the stage with the most.
            "resultSize" => {
                let stages = json["stages"].as_array().unwrap().iter();
                let sizes: Vec<u64> = stages.map(|stage| stage["resultSize"].as_u64().unwrap()).collect();
                assert_eq!((ours, theirs.as_u64()), (Some(sizes.iter().sum()), sizes.into_iter().max()));
            }
            // It adds up the peaks of stages that ran one after the other.
            "peakExecutionMemory" => {
                let stages = json["stages"].as_array().unwrap();
                let peaks = run
                    .stages
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(|stage| stages.iter().any(|ours| ours["stage"] == stage["stageId"]));
                let peaks = peaks.map(|stage| stage["peakExecutionMemory"].as_u64().unwrap());
                assert_eq!(theirs.as_u64().unwrap(), peaks.sum::<u64>());
                let greatest = stages.iter().map(|stage| stage["peakExecutionMemory"].as_u64().unwrap()).max();
                assert_eq!(ours, greatest);
                assert!(ours < theirs.as_u64());
            }
            _ => {
                assert!(ours.is_some(), "{key}");
                assert_eq!(ours, theirs.as_u64(), "{key}");
                checked += 1;
            }
        }
    }
    assert!(checked >= 24, "{checked}: {theirs:?}");
    assert_eq!(json["failed_tasks"], 1);
}

/// `latscope.spark.measure` around the same block of code: over REST, and without a listener.
#[test]
fn a_measured_block_has_the_counters_of_its_tasks() {
    let Some(run) = run() else { return };
    let Some(mut ours) = run.said["ours"]["counters"].as_object().cloned() else {
        skipped!("the Spark of these tests has no Python package of latscope");
        return;
    };
    let (_folder, [log, _]) = files(run);
    let json = latscope(&["spark", "-r", &log, "--json", "tags.pair = 'group=faults'"]).success();
    let json: Value = serde_json::from_str(&json).unwrap();
    let expected = json["counters"].as_object().unwrap();
    // The block holds the one of sparkMeasure; both are rounded down.
    let block_ms = ours.remove("blockTime").unwrap().as_i64();
    assert!(block_ms.unwrap() + 1 >= run.said["measured"]["elapsedTime"].as_i64().unwrap());
    assert_eq!(&ours, expected);
    let report = run.said["ours"]["report"].as_str().unwrap();
    for key in ["numTasks", "executorRunTime", "bytesRead"] {
        assert!(report.contains(&format!("\n{key} => {}", expected[key])), "{report}");
    }
    let html = run.said["ours"]["html"].as_str().unwrap();
    assert!(html.starts_with("<svg") && html.contains("numTasks =&gt;"), "{html}");
}

/// Run time of the tasks that succeeded, by executor, nanoseconds: Spark's counters of executors leave out the others.
fn run_by_executor(tasks: &BTreeMap<i64, Value>) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for task in tasks.values().filter(|task| task["error"].is_null()) {
        *sums.entry(task["executor"].as_str().unwrap().to_string()).or_default() += task["run_ns"].as_u64().unwrap();
    }
    sums
}

/// The last value of a metric of each executor.
fn last_by_executor(lines: &str, metric: &str) -> BTreeMap<String, u64> {
    let rows = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let rows = rows.filter(|row| row["executor"] != "driver");
    rows.filter_map(|row| Some((row["executor"].as_str()?.to_string(), row[metric].as_u64()?))).collect()
}

#[test]
fn executors_report_to_graphite_what_the_log_adds_up_to() {
    let Some(run) = run() else { return };
    assert_eq!(last_by_executor(&run.graphite, "run_ns"), run_by_executor(&of_log(run)));
    let rows: Vec<Value> = run.graphite.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.iter().all(|row| row["app"].as_str().unwrap().starts_with("app-")));
    let most = |metric: &str| rows.iter().filter_map(|row| row[metric].as_u64()).max();
    // Each executor has a core and a gibibyte of heap.
    assert_eq!(most("active_tasks"), Some(1));
    assert!((1 << 20..1 << 30).contains(&most("heap").unwrap()) && most("jvm_rss").unwrap() > most("heap").unwrap());
}

/// The stage of a part of the script.
fn stage_of(tasks: &BTreeMap<i64, Value>, part: &str, has: impl Fn(&Value) -> bool) -> i64 {
    let tag = format!("description={part}");
    let is_it = |task: &&Value| {
        task["tags"].as_str().is_some_and(|tags| tags.split(';').any(|found| found == tag)) && has(task)
    };
    tasks.values().find(is_it).unwrap_or_else(|| panic!("no stage of {part}"))["stage"].as_i64().unwrap()
}

#[test]
fn planted_stragglers_are_found() {
    let Some(run) = run() else { return };
    let (_folder, [log, kernel]) = files(run);
    let tasks = of_log(run);
    let json: Value = serde_json::from_str(&latscope(&["spark", "-r", &log, "--json"]).success()).unwrap();
    let found = |stage: i64| -> Vec<(i64, String)> {
        let of_stage = json["stragglers"].as_array().unwrap().iter().filter(|one| one["stage"] == stage);
        of_stage.map(|one| (one["task"].as_i64().unwrap(), one["cause"].to_string())).collect()
    };
    let sleep = found(stage_of(&tasks, "sleep", |_| true));
    // A busy machine makes stragglers of its own.
    let planted = sleep.iter().find(|(task, _)| tasks[task]["task_index"] == 5).unwrap_or_else(|| panic!("{sleep:?}"));
    assert!(planted.1.contains("more remainder") && !planted.1.contains("I/O, Python"), "{sleep:?}");
    let skew = found(stage_of(&tasks, "skew", |task| task["shuffle_records"].as_u64() > Some(0)));
    assert!(skew.iter().any(|(_, cause)| cause.contains("skew")), "{skew:?}");
    // Spark does not time the disk; the kernel does.
    let disk = found(stage_of(&tasks, "slow disk", |task| task["input"].as_u64() > Some(0)));
    let is_slow = |(task, cause): &&(i64, String)| {
        tasks[task]["executor"] == "0" && (cause.contains("slow executor") || cause.contains("I/O"))
    };
    let slow = disk.iter().find(is_slow).unwrap_or_else(|| panic!("{disk:?}")).0;
    let text = latscope(&["spark", "-r", &log, "--kernel", &kernel, "--top", "1000"]).success();
    let by_kernel = text.split("The stragglers by what the kernel saw").nth(1).unwrap_or_else(|| panic!("{text}"));
    let row = by_kernel.lines().find(|line| line.trim_start().starts_with(&format!("task {slow} ")));
    assert!(row.is_some(), "{text}");
    let json: Value =
        serde_json::from_str(&latscope(&["spark", "-r", &log, "--kernel", &kernel, "--json"]).success()).unwrap();
    let of_stages = json["stages"].as_array().unwrap().iter().flat_map(|stage| stage["findings"].as_array().unwrap());
    let evidence: Vec<&str> = of_stages.filter_map(|finding| finding["evidence"].as_str()).collect();
    let unmeasured = || evidence.iter().filter(|evidence| evidence.starts_with("what Spark does not measure"));
    let is_explained = |evidence: &&str| evidence.contains("by what the kernel saw, it is ");
    assert!(unmeasured().count() > 0 && unmeasured().all(is_explained), "{evidence:?}");
}

/// Spark counts what it asked the file system for, and the devices what was not in memory: of a cold cache, the same.
#[test]
fn a_cold_scan_reads_from_the_devices_what_spark_says() {
    let Some(run) = run() else { return };
    let (_folder, [_, kernel]) = files(run);
    let tasks = of_log(run);
    let scan = stage_of(&tasks, "slow disk", |task| task["input"].as_u64() > Some(0));
    let of_scan: Vec<&Value> = tasks.values().filter(|task| task["stage"] == scan).collect();
    let input: u64 = of_scan.iter().map(|task| task["input"].as_u64().unwrap()).sum();
    assert_eq!((of_scan.len() as u64, &run.said["rows"]), (FILES, &(FILES * FILE_BYTES / 64).into()));
    let read = |disk: &String| -> u64 {
        let filter = format!("device = {disk} and kind = read");
        events(Path::new(&kernel), "size", &filter).iter().map(|event| event["size"].as_u64().unwrap()).sum()
    };
    let read: u64 = run.disks.iter().map(read).sum();
    assert!(read.abs_diff(input) * 20 <= input, "Spark read {input} bytes, the devices {read}");
}

/// Executor 0 reads its files from the slow disk: the kernel saw its tasks wait there, and Spark has it in the remainder.
#[test]
fn a_slow_disk_of_one_executor_is_disk_time_of_its_tasks() {
    let Some(run) = run() else { return };
    let (_folder, [log, kernel]) = files(run);
    let tasks = of_log(run);
    let json = latscope(&["spark", "-r", &log, "--kernel", &kernel, "--json"]).success();
    let json: Value = serde_json::from_str(&json).unwrap();
    let waits = json["kernel"]["tasks"].as_array().unwrap();
    assert_eq!((waits.len(), &json["kernel"]["unseen_executors"]), (tasks.len(), &serde_json::json!([])));
    let scan = stage_of(&tasks, "slow disk", |task| task["input"].as_u64() > Some(0));
    let of_executor = |executor: &str| -> Vec<&Value> {
        waits.iter().filter(|task| task["stage"] == scan && task["executor"] == executor).collect()
    };
    let sum = |tasks: &[&Value], key: &str| tasks.iter().map(|task| task[key].as_u64().unwrap()).sum::<u64>();
    let [slow, fast] = ["0", "1"].map(of_executor);
    assert_eq!((slow.len() + fast.len()) as u64, FILES);
    // What the task read of the disk is what Spark says, and most of the disk's time is a wait of the task.
    let read = sum(&slow, "read_bytes");
    let input = slow.len() as u64 * FILE_BYTES;
    assert!(read.abs_diff(input) * 20 <= input, "{read} of {input} bytes");
    let served = events(Path::new(&kernel), "latency_ns", &format!("device = {} and kind = read", run.disks[0]));
    let served: u64 = served.iter().map(|event| event["latency_ns"].as_u64().unwrap()).sum();
    let [disk, remainder] = ["disk_ns", "remainder_ns"].map(|key| sum(&slow, key));
    // A busy machine adds waits for a CPU, which are told apart.
    let others: u64 = ["python_ns", "network_ns", "other_waits_ns"].iter().map(|key| sum(&slow, key)).sum();
    assert!(disk > others && disk * 3 > served, "{disk} of {remainder}, the disk took {served}: {slow:?}");
    let each = |tasks: &[&Value]| sum(tasks, "disk_ns") / tasks.len().max(1) as u64;
    assert!(each(&fast) * 4 < each(&slow), "{slow:?}, {fast:?}");
    // The worker that sleeps is what its task waits for.
    let sleep = stage_of(&tasks, "sleep", |_| true);
    let is_it = |task: &&Value| task["stage"] == sleep && tasks[&task["task"].as_i64().unwrap()]["task_index"] == 5;
    let sleeps = waits.iter().find(is_it).unwrap();
    let [python, remainder] = ["python_ns", "remainder_ns"].map(|key| sleeps[key].as_u64().unwrap());
    assert!(python * 2 > remainder, "{sleeps}");
}

/// Both executors were found, and their groups used at least the CPU time that Spark counts of tasks between two samples.
#[test]
fn control_groups_of_executors_are_sampled() {
    let Some(run) = run() else { return };
    let (folder, [log, _]) = files(run);
    let (tasks, samples) = (of_log(run), folder.path().join("executors.csv"));
    std::fs::write(&samples, &run.cgroups).unwrap();
    let json = latscope(&["spark", "-r", &log, "--cgroups", text(&samples), "--json"]).success();
    let json: Value = serde_json::from_str(&json).unwrap();
    let groups = json["cgroups"].as_array().unwrap();
    let names: Vec<&str> = groups.iter().map(|group| group["executor"].as_str().unwrap()).collect();
    assert_eq!(names, ["0", "1"]);
    for group in groups {
        let samples = group["samples"].as_array().unwrap();
        let ends = [&samples[0], &samples[samples.len() - 1]];
        let [from, to] = ends.map(|sample| sample["time_ns"].as_i64().unwrap());
        let is_inside = |task: &&Value| {
            let start_ns = task["time_ns"].as_i64().unwrap();
            task["executor"] == group["executor"]
                && start_ns >= from
                && start_ns + task["latency_ns"].as_i64().unwrap() <= to
        };
        let of_tasks: u64 = tasks.values().filter(is_inside).filter_map(|task| task["cpu_ns"].as_u64()).sum();
        let [before, after] = ends.map(|sample| sample["cpu_ns"].as_u64().unwrap());
        assert!(of_tasks > 0 && after - before >= of_tasks, "{} of {of_tasks}", after - before);
        assert!(samples.iter().all(|sample| sample["memory"].as_u64() > Some(0)), "{group}");
    }
}
