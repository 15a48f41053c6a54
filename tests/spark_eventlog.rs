//! Event logs of Spark, compared with what a walk over their JSON gives, and with figures that were derived elsewhere.

use crate::program::{latscope, testdata, unpacked};
use latscope_capture_file::{Format, ReadOptions, format_of, read as read_file, tree};
use latscope_event::{Anomaly, Batch, Column, Context, Field, FieldSet, MISSING_CODE, MISSING_I64, MISSING_U64};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

type Row = BTreeMap<&'static str, String>;

fn value(batch: &Batch, field: Field, row: usize) -> Option<String> {
    match batch.column(field)? {
        Column::I64(values) => Some(values[row]).filter(|&value| value != MISSING_I64).map(|value| value.to_string()),
        Column::U64(values) => Some(values[row]).filter(|&value| value != MISSING_U64).map(|value| value.to_string()),
        Column::Text(codes) if codes[row] == MISSING_CODE => None,
        Column::Text(_) => batch.text(field, row).map(str::to_owned),
    }
}

fn read(path: &Path) -> (Vec<Row>, Context) {
    let mut rows = Vec::new();
    let options = ReadOptions { all_of_spark: true, ..ReadOptions::new(FieldSet::EVERY) };
    let context = read_file(path, &options, &mut |_, batch| {
        rows.extend((0..batch.len()).map(|row| -> Row {
            let values = batch.fields().iter().filter_map(|field| Some((field.name(), value(batch, field, row)?)));
            values.collect()
        }));
        ControlFlow::Continue(())
    });
    (rows, context.unwrap())
}

fn of_kind<'a>(rows: &'a [Row], kind: &'a str) -> impl Iterator<Item = &'a Row> {
    rows.iter().filter(move |row| row["kind"] == kind)
}

fn number(row: &Row, field: &str) -> i128 {
    row.get(field).map_or(0, |text| text.parse().unwrap())
}

/// A number of the log below these keys; none where one of them is missing.
fn at(value: &Value, keys: &[&str]) -> Option<i128> {
    let found = keys.iter().try_fold(value, |value, key| value.get(key))?;
    found.as_i64().map(i128::from)
}

const MS: i128 = 1_000_000;

/// What a task should have, from its JSON, by the definitions of the specification.
fn expected(task: &Value) -> Row {
    let text = |keys: &[&str]| keys.iter().fold(task, |value, key| &value[*key]).as_str().unwrap().to_string();
    let (info, metrics) = (&task["Task Info"], task.get("Task Metrics").filter(|metrics| !metrics.is_null()));
    let (launch, finish) = (at(info, &["Launch Time"]).unwrap(), at(info, &["Finish Time"]).unwrap());
    let mut row = Row::new();
    let mut put = |field, value: Option<i128>| drop(value.map(|value| row.insert(field, value.to_string())));
    put("time_ns", Some(launch * MS));
    put("latency_ns", Some((finish - launch) * MS));
    put("stage", at(task, &["Stage ID"]));
    put("stage_attempt", at(task, &["Stage Attempt ID"]));
    put("task", at(info, &["Task ID"]));
    put("task_index", at(info, &["Index"]));
    put("attempt", at(info, &["Attempt"]));
    if let Some(metrics) = metrics {
        let count = |keys: &[&str]| at(metrics, keys);
        let ms = |keys: &[&str]| at(metrics, keys).map(|ms| ms * MS);
        let (read, write) = ("Shuffle Read Metrics", "Shuffle Write Metrics");
        let getting = match at(info, &["Getting Result Time"]).unwrap() {
            0 => 0,
            ms => (finish - ms) * MS,
        };
        let (run, cpu, gc) = (ms(&["Executor Run Time"]), count(&["Executor CPU Time"]), ms(&["JVM GC Time"]));
        let (fetch, written) = (ms(&[read, "Fetch Wait Time"]), count(&[write, "Shuffle Write Time"]));
        let (deserialize, serialize) = (ms(&["Executor Deserialize Time"]), ms(&["Result Serialization Time"]));
        put("run_ns", run);
        put("cpu_ns", cpu);
        put("gc_ns", gc);
        put("fetch_wait_ns", fetch);
        put("shuffle_write_ns", written);
        put("deserialize_ns", deserialize);
        put("deserialize_cpu_ns", count(&["Executor Deserialize CPU Time"]));
        put("result_serialization_ns", serialize);
        put("getting_result_ns", Some(getting));
        let delay = (finish - launch) * MS - run.unwrap() - deserialize.unwrap() - serialize.unwrap() - getting;
        put("scheduler_delay_ns", Some(delay.max(0)));
        let inside = cpu.unwrap() + gc.unwrap() + fetch.unwrap() + written.unwrap();
        put("remainder_ns", Some((run.unwrap() - inside).max(0)));
        let input = count(&["Input Metrics", "Bytes Read"]);
        let [remote, local] = ["Remote Bytes Read", "Local Bytes Read"].map(|key| count(&[read, key]));
        put("size", Some(input.unwrap() + remote.unwrap() + local.unwrap()));
        put("spilled", count(&["Memory Bytes Spilled"]));
        put("disk_spilled", count(&["Disk Bytes Spilled"]));
        put("peak_memory", count(&["Peak Execution Memory"]));
        put("result_size", count(&["Result Size"]));
        put("input", input);
        put("input_records", count(&["Input Metrics", "Records Read"]));
        put("output", count(&["Output Metrics", "Bytes Written"]));
        put("output_records", count(&["Output Metrics", "Records Written"]));
        put("shuffle_remote", remote);
        put("shuffle_local", local);
        put("shuffle_to_disk", count(&[read, "Remote Bytes Read To Disk"]));
        put("shuffle_records", count(&[read, "Total Records Read"]));
        put("remote_blocks", count(&[read, "Remote Blocks Fetched"]));
        put("local_blocks", count(&[read, "Local Blocks Fetched"]));
        put("shuffle_written", count(&[write, "Shuffle Bytes Written"]));
        put("shuffle_written_records", count(&[write, "Shuffle Records Written"]));
    }
    for (field, key) in [("executor", "Executor ID"), ("host", "Host"), ("locality", "Locality")] {
        row.insert(field, text(&["Task Info", key]));
    }
    row.insert("speculative", info["Speculative"].to_string());
    row.insert("kind", "task".into());
    let reason = text(&["Task End Reason", "Reason"]);
    if reason != "Success" {
        row.insert("error", reason);
    }
    row
}

fn events(text: &[u8], class: &str) -> Vec<Value> {
    let lines = text.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    lines.filter(|event| event["Event"].as_str().unwrap().ends_with(class)).collect()
}

#[test]
fn every_number_of_every_task_is_that_of_its_json() {
    for (name, tasks) in [("tpcds_lab", 104), ("mini_3.5.9", 18), ("join_agg_on_yarn", 107)] {
        let file = format!("spark_eventlog/{name}.json.zst");
        let (rows, _) = read(&testdata(&file));
        let json = events(&unpacked(&file), "SparkListenerTaskEnd");
        assert_eq!((of_kind(&rows, "task").count(), json.len()), (tasks, tasks), "{name}");
        for (row, task) in of_kind(&rows, "task").zip(&json) {
            let mut row = row.clone();
            // Those are of the stage.
            ["name", "job", "sql", "tags", "app"].iter().for_each(|field| drop(row.remove(field)));
            assert_eq!(row, expected(task), "{name}");
        }
    }
}

/// The figures of a Python program about stages with the most task time, in milliseconds.
#[test]
fn sums_of_stages_are_those_that_were_derived_elsewhere() {
    let (rows, context) = read(&testdata("spark_eventlog/tpcds_lab.json.zst"));
    assert_eq!(context.properties["spark.version"], "4.0.5");
    assert!(context.tally.iter().next().is_none() && context.unfinished.is_empty());
    let text = String::from_utf8(unpacked("spark_eventlog/tpcds_lab.expected.txt")).unwrap();
    let mut checked = 0;
    for line in text.lines().filter(|line| line.starts_with('[')) {
        let words: Vec<&str> =
            line.split([' ', ',', '[', ']', '(', ')', '\'']).filter(|word| !word.is_empty()).collect();
        let want: Vec<i128> = words.iter().filter_map(|word| word.parse().ok()).collect();
        let of_stage = |row: &&Row| number(row, "stage") == want[1] && number(row, "stage_attempt") == want[2];
        let tasks: Vec<&Row> = of_kind(&rows, "task").filter(of_stage).collect();
        let sum = |field: &str| tasks.iter().map(|task| number(task, field)).sum::<i128>();
        let round = |ns: i128| (ns as f64 / 1e6).round_ties_even() as i128;
        let outside = ["run_ns", "deserialize_ns", "result_serialization_ns", "getting_result_ns"].map(sum);
        let inside = ["cpu_ns", "fetch_wait_ns", "shuffle_write_ns", "gc_ns"].map(sum);
        let mut lasted: Vec<i128> = tasks.iter().map(|task| number(task, "latency_ns")).collect();
        lasted.sort_unstable();
        let count = lasted.len();
        let median = (lasted[(count - 1) / 2] + lasted[count / 2]) / 2;
        let stage = of_kind(&rows, "stage").find(|row| of_stage(row)).unwrap();
        let mut got =
            vec![round(sum("latency_ns")), want[1], want[2], count as i128, round(number(stage, "latency_ns"))];
        got.extend(
            ["run_ns", "cpu_ns", "gc_ns", "fetch_wait_ns", "shuffle_write_ns", "deserialize_ns"].map(sum).map(round),
        );
        got.push(round(sum("latency_ns") - outside.iter().sum::<i128>()).max(0));
        got.push(round(sum("run_ns") - inside.iter().sum::<i128>()));
        got.extend([round(median), round(lasted[count - 1])]);
        let slow = |task: &&&Row| number(task, "latency_ns") > (median + median / 2).max(median + 100 * MS);
        if count >= 4 {
            got.extend(tasks.iter().filter(slow).take(3).map(|task| number(task, "task")));
        }
        assert_eq!(got, want, "{line}");
        assert!(tasks.iter().all(|task| task["tags"].ends_with(&format!("description={}", words[3]))), "{line}");
        checked += 1;
    }
    assert_eq!(checked, 14);
    let failed: Vec<&Row> = of_kind(&rows, "task").filter(|row| row.contains_key("error")).collect();
    assert_eq!((failed.len(), &*failed[0]["task"], &*failed[0]["run_ns"]), (1, "90", "323000000"));
}

#[test]
fn stages_jobs_and_executions_are_events_where_they_are_asked_for() {
    let file = "spark_eventlog/tpcds_lab.json.zst";
    let text = unpacked(file);
    let (rows, _) = read(&testdata(file));
    let spans = |start: &str, end: &str, id: &str, [from, to]: [&str; 2]| -> Vec<[i128; 3]> {
        let starts: BTreeMap<i128, i128> =
            events(&text, start).iter().map(|event| (at(event, &[id]).unwrap(), at(event, &[from]).unwrap())).collect();
        let ends = events(&text, end);
        let span = |event: &Value| {
            let id = at(event, &[id]).unwrap();
            [id, starts[&id] * MS, (at(event, &[to]).unwrap() - starts[&id]) * MS]
        };
        ends.iter().map(span).collect()
    };
    let got = |kind: &str, id: &str| -> Vec<[i128; 3]> {
        of_kind(&rows, kind).map(|row| [id, "time_ns", "latency_ns"].map(|field| number(row, field))).collect()
    };
    let jobs = spans("JobStart", "JobEnd", "Job ID", ["Submission Time", "Completion Time"]);
    assert_eq!((got("job", "job"), jobs.len()), (jobs.clone(), 57));
    assert_eq!(got("sql", "sql"), spans("SQLExecutionStart", "SQLExecutionEnd", "executionId", ["time", "time"]));
    let stages: Vec<[i128; 3]> = events(&text, "StageCompleted")
        .iter()
        .map(|event| {
            let [id, from, to] =
                ["Stage ID", "Submission Time", "Completion Time"].map(|key| at(event, &["Stage Info", key]).unwrap());
            [id, from * MS, (to - from) * MS]
        })
        .collect();
    assert_eq!((got("stage", "stage"), stages.len()), (stages.clone(), 62));
    // Each stage ran within its job, and each task within its stage, but for the time that the driver takes to note it.
    let span = |kind: &str, id: &str, row: &Row| {
        let other = of_kind(&rows, kind).find(|other| other.get(id) == row.get(id)).unwrap();
        (number(other, "time_ns"), number(other, "time_ns") + number(other, "latency_ns"))
    };
    for row in of_kind(&rows, "stage") {
        let (from, to) = span("job", "job", row);
        assert!(from <= number(row, "time_ns") && number(row, "time_ns") <= to);
    }
    for row in of_kind(&rows, "task") {
        assert!(span("stage", "stage", row).0 <= number(row, "time_ns"));
    }
    let executors: Vec<_> = of_kind(&rows, "executor").map(|row| (&*row["executor"], &*row["cores"])).collect();
    assert_eq!(executors, [("1", "1"), ("0", "1")]);
}

/// The same program, once with each codec: what a log is compressed with changes nothing.
#[test]
fn every_codec_and_layout_is_read() {
    for file in
        ["local-1795227501211.lz4", "local-1795227515291.snappy", "local-1795227528357.lzf", "local-1795227541901.zstd"]
    {
        let path = testdata("spark_eventlog").join(file);
        assert_eq!(format_of(&path), Ok(Format::SparkEventlog), "{file}");
        let (rows, context) = read(&path);
        assert!(context.tally.iter().next().is_none() && context.unfinished.is_empty(), "{file}: {:?}", context.tally);
        let kinds = ["task", "stage", "job", "sql", "executor"].map(|kind| of_kind(&rows, kind).count());
        assert_eq!(kinds, [5, 2, 2, 1, 1], "{file}");
        let records: i128 = rows.iter().map(|row| number(row, "shuffle_written_records")).sum();
        assert_eq!(records, 20, "{file}");
        // By content: without a name, through a pipe.
        let piped = crate::program::latscope_with(&["summary", "--csv", "-r", "-"], &std::fs::read(&path).unwrap());
        assert_eq!(piped.success().lines().count(), 3, "{file}");
    }
    let rolled = testdata("spark_eventlog/eventlog_v2_local-1795226752528");
    assert_eq!((format_of(&rolled), tree(&rolled)), (Ok(Format::SparkEventlog), Ok(None)));
    let (rows, context) = read(&rolled);
    assert_eq!((of_kind(&rows, "task").count(), &*context.properties["spark.version"]), (18, "4.3.0"));
    let failed: Vec<&str> = of_kind(&rows, "job").filter_map(|row| row.get("error")).map(String::as_str).collect();
    assert_eq!(failed, ["JobFailed"]);
}

#[test]
fn a_log_that_was_cut_is_in_progress() {
    let path = testdata("spark_eventlog/truncated_inprogress_app-20261121013034-0003.zstd.inprogress");
    let (rows, context) = read(&path);
    assert_eq!((of_kind(&rows, "task").count(), context.tally.get(Anomaly::Truncated)), (11, 1));
    let what: Vec<&str> = context.unfinished.iter().map(|one| one.what.split(' ').next().unwrap()).collect();
    assert_eq!(what, ["task", "job", "stage"]);
    assert_eq!(context.unfinished[0].what, "task 11 of stage 11");
}

#[test]
fn views_show_tasks_by_what_they_have() {
    let file = testdata("spark_eventlog/tpcds_lab.json.zst");
    let file = file.to_str().unwrap();
    let (rows, _) = read(Path::new(file));
    let table = latscope(&["summary", "--csv", "-r", file, "--by", "executor,locality", "-y", "gc"]).success();
    let mut lines = table.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| columns.iter().position(|column| *column == name).unwrap();
    let mut groups = 0;
    for line in lines.filter(|line| !line.starts_with("total")) {
        let cells: Vec<&str> = line.split(',').collect();
        let of_group = |row: &&Row| row["executor"] == cells[0] && row["locality"] == cells[1];
        let tasks: Vec<i128> = of_kind(&rows, "task").filter(of_group).map(|row| number(row, "gc_ns")).collect();
        assert_eq!(cells[column("count")], tasks.len().to_string());
        assert_eq!(cells[column("max_ns")], tasks.iter().max().unwrap().to_string());
        groups += 1;
    }
    assert_eq!(groups, 4, "{table}");
    // The straggler that the program planted, index 5, slept three seconds longer than its stage; the first two waited for Python.
    let found = latscope(&["events", "-r", file, "--json", "--columns", "task_index", "stage = 60 and remainder > 3s"]);
    let found: Vec<String> = found.success().lines().map(|line| line.replace("{\"task_index\":", "")).collect();
    assert_eq!(found, ["1}", "0}", "5}"]);
    let why = latscope(&["explain", "-r", file, "lat > 7s", "--against", "lat <= 7s"]).success();
    assert!(why.contains("remainder_ns >= "), "{why}");
    for view in [&["heatmap", "-y", "remainder", "-o", "-"][..], &["spectrogram"], &["percentiles", "-i", "10s"]] {
        latscope(&[view, &["-r", file]].concat()).success();
    }
    let jobs = latscope(&["events", "-r", file, "-s", "spark", "--json", "--columns", "job", "kind = job"]).success();
    assert_eq!(jobs.lines().count(), 57);
    let refused = latscope(&["summary", "-r", file, "-y", "stage"]).failure(2);
    assert!(refused.contains("it is no duration and no size"), "{refused}");
}

/// Counters, tasks against cores, tails and stragglers of the report, each from a walk over all tasks.
#[test]
fn the_report_adds_up_what_tasks_have() {
    let file = testdata("spark_eventlog/tpcds_lab.json.zst");
    let file = file.to_str().unwrap();
    let (rows, _) = read(Path::new(file));
    let report: Value = serde_json::from_str(&latscope(&["spark", "-r", file, "--json"]).success()).unwrap();
    let tasks: Vec<&Row> = of_kind(&rows, "task").collect();
    let stages: BTreeMap<i128, Vec<&Row>> = tasks.iter().fold(BTreeMap::new(), |mut stages, task| {
        stages.entry(number(task, "stage")).or_insert_with(Vec::new).push(*task);
        stages
    });
    let sum = |tasks: &[&Row], field: &str| tasks.iter().map(|task| number(task, field)).sum::<i128>();
    let counter = |name: &str| at(&report, &["counters", name]).unwrap();
    assert_eq!([counter("numStages"), counter("numTasks")], [62, 104]);
    // sparkMeasure rounds down in each stage.
    let of_stages = |field: &str| stages.values().map(|tasks| sum(tasks, field) / MS).sum::<i128>();
    for (name, field) in [
        ("executorRunTime", "run_ns"),
        ("executorCpuTime", "cpu_ns"),
        ("jvmGCTime", "gc_ns"),
        ("executorDeserializeCpuTime", "deserialize_cpu_ns"),
        ("shuffleWriteTime", "shuffle_write_ns"),
    ] {
        assert_eq!(counter(name), of_stages(field), "{name}");
    }
    for (name, field) in [
        ("bytesRead", "input"),
        ("recordsRead", "input_records"),
        ("memoryBytesSpilled", "spilled"),
        ("shuffleRecordsWritten", "shuffle_written_records"),
    ] {
        assert_eq!(counter(name), sum(&tasks, field), "{name}");
    }
    assert_eq!(counter("shuffleTotalBytesRead"), sum(&tasks, "shuffle_remote") + sum(&tasks, "shuffle_local"));
    // A peak is no sum, as it is in sparkMeasure.
    let peak = tasks.iter().map(|task| number(task, "peak_memory")).max().unwrap();
    assert!(counter("peakExecutionMemory") == peak && peak < sum(&tasks, "peak_memory"));
    let active = |name: &str| at(&report, &["active_tasks", name]).unwrap();
    // The figures that were derived elsewhere: 1.47 tasks on average, 3 at most, over 95.555 s.
    assert_eq!([active("most"), active("cores"), active("task_ns")], [3, 2, sum(&tasks, "latency_ns")]);
    let (from, to) = (
        tasks.iter().map(|task| number(task, "time_ns")).min().unwrap(),
        tasks.iter().map(|task| number(task, "time_ns") + number(task, "latency_ns")).max().unwrap(),
    );
    assert_eq!((to - from, active("task_ns") * 100 / (to - from)), (95_555 * MS, 147));
    let text = latscope(&["spark", "-r", file]).success();
    assert!(text.contains("active tasks: 1.47 on average, 3 at most, on 2 cores"), "{text}");
    // Idle cores in a tail, a millisecond at a time.
    let executors: Vec<&Row> = of_kind(&rows, "executor").collect();
    let in_flight = |rows: &[&Row], ns: i128| {
        rows.iter()
            .filter(|row| (number(row, "time_ns")..number(row, "time_ns") + number(row, "latency_ns")).contains(&ns))
            .count()
    };
    for stage in report["stages"].as_array().unwrap().iter().filter(|stage| at(stage, &["numTasks"]).unwrap() >= 8) {
        let of_stage = &stages[&at(stage, &["stage"]).unwrap()];
        let mut ends: Vec<i128> =
            of_stage.iter().map(|task| number(task, "time_ns") + number(task, "latency_ns")).collect();
        ends.sort_unstable();
        let from = ends[(9 * ends.len()).div_ceil(10) - 1];
        let row = of_kind(&rows, "stage").find(|row| number(row, "stage") == at(stage, &["stage"]).unwrap()).unwrap();
        let to = (number(row, "time_ns") + number(row, "latency_ns")).max(*ends.last().unwrap());
        let idle = |ms: i128| in_flight(&executors, ms * MS).saturating_sub(in_flight(&tasks, ms * MS)) as i128 * MS;
        let expected: i128 = (from / MS..to / MS).map(idle).sum();
        assert_eq!((at(stage, &["tail_start_ns"]), at(stage, &["tail_core_ns"])), (Some(from), Some(expected)));
    }
    let stragglers: Vec<(i128, i128)> = report["stragglers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|straggler| (at(straggler, &["stage"]).unwrap(), at(straggler, &["task"]).unwrap()))
        .collect();
    for planted in [(60, 72), (60, 73), (60, 74), (59, 64), (58, 61)] {
        assert!(stragglers.contains(&planted), "{planted:?} {stragglers:?}");
    }
    let refused = latscope(&["spark", "-r", testdata("compare/volA.txt").to_str().unwrap()]).failure(3);
    assert!(refused.contains("latscope spark reads event logs."), "{refused}");
}
