//! What memory of executors is advised, where the numbers come from, and that a need is met once, with the setting that helps.

use super::{Log, MIB, MS, Task, advised, number, task};
use crate::program::{latscope, testdata};
use serde_json::{Value, json};

/// A log of eight tasks, one after the other, which the test changes; and peaks of their executor in MiB.
fn log_with(settings: Value, change: &dyn Fn(&mut Task), peaks: &[(&str, i64)]) -> Log {
    let mut log = Log::new(settings);
    log.executor("1", 1, 0);
    log.job(0, (0, 8000), &[(0, 0, 8000)]);
    log.peaks("1", 0, peaks);
    for id in 0..8 {
        let mut task = Task { cpu: 900, ..task(0, id, "1", (id * 1000, id * 1000 + 1000)) };
        change(&mut task);
        log.task(&task);
    }
    log
}

fn sized(settings: Value, change: &dyn Fn(&mut Task), peaks: &[(&str, i64)]) -> Value {
    log_with(settings, change, peaks).report()
}

/// Settings that shall change, and to what.
fn only(report: &Value) -> Vec<(String, String)> {
    advised(report).into_iter().filter_map(|(setting, advised)| Some((setting, advised?))).collect()
}

fn is(setting: &str, advised: &str) -> Vec<(String, String)> {
    vec![(setting.to_string(), advised.to_string())]
}

fn why(report: &Value, setting: &str) -> String {
    let advice = report["memory"]["advice"].as_array().unwrap().iter().find(|advice| advice["setting"] == setting);
    advice.unwrap()["why"].as_str().unwrap().into()
}

#[test]
fn memory_is_advised_with_its_arithmetic() {
    // The run of the specification with 512 MiB: 215 MiB spilled, a peak of 123; with 1 GiB the same did not spill.
    let half = json!({"spark.master": "yarn", "spark.executor.memory": "512m"});
    let spill = |task: &mut Task| (task.spilled, task.peak) = (215 * MIB, 123 * MIB);
    let report = sized(half.clone(), &spill, &[]);
    assert_eq!(number(&report, "/memory/unified"), 133_378_867);
    // (338 MiB + 20 %) / 0.6 + 300 MiB = 976 MiB, in steps of 64.
    assert_eq!(only(&report), is("spark.executor.memory", "1024m"));
    // Cached blocks come on top: 76 MiB more are 127 of heap.
    let report = sized(half, &spill, &[("OnHeapStorageMemory", 76), ("OnHeapUnifiedMemory", 120)]);
    assert_eq!(only(&report)[0], is("spark.executor.memory", "1152m")[0]);
    let settings = |memory: &str| json!({"spark.master": "yarn", "spark.executor.memory": memory});
    // Nothing was sampled: nothing is advised, and the switch is named.
    let report = sized(settings("8g"), &|_| (), &[]);
    assert_eq!((only(&report), &report["memory"]["sampled"]), (vec![], &json!(false)));
    assert!(
        report["memory"]["advice"][0]["why"].as_str().unwrap().contains("spark.eventLog.logStageExecutorMetrics=true")
    );
    // Down: 100 of 4734 MiB were used; 120 / 0.6 + 300 = 500 MiB.
    let report = sized(settings("8g"), &|_| (), &[("OnHeapUnifiedMemory", 100)]);
    assert_eq!(only(&report), is("spark.executor.memory", "512m"));
    // GC without a spill: up by its grade, and its log.
    for (gc, heap) in [(110, "1280m"), (160, "1536m"), (210, "2048m")] {
        let report = sized(settings("1g"), &|task| task.gc = gc, &[]);
        assert_eq!(
            only(&report),
            [is("spark.executor.extraJavaOptions", "-Xlog:gc*:file=gc.log"), is("spark.executor.memory", heap)]
                .concat()
        );
    }
    // The figures of the specification: max(1063 - 1024, 118 + 1 + 8) + 287, and 10 %: 456 MiB.
    let resident = [
        ("ProcessTreeJVMRSSMemory", 1063),
        ("JVMOffHeapMemory", 118),
        ("DirectPoolMemory", 1),
        ("MappedPoolMemory", 8),
        ("ProcessTreePythonRSSMemory", 287),
        ("OnHeapUnifiedMemory", 390),
    ];
    assert_eq!(only(&sized(settings("1g"), &|_| (), &resident)), is("spark.executor.memoryOverhead", "512m"));
    let explicit = json!({"spark.master": "yarn", "spark.executor.memoryOverhead": "4g"});
    assert_eq!(only(&sized(explicit, &|_| (), &resident)), is("spark.executor.memoryOverhead", "512m"), "down as well");
    let pyspark = json!({"spark.executor.pyspark.memory": "1g"});
    assert_eq!(only(&sized(pyspark, &|_| (), &resident)), [], "Python workers have room of their own");
    // Off-heap memory up and down.
    let off_heap = |size: &str| json!({"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": size});
    let used = [("OffHeapUnifiedMemory", 100), ("OnHeapUnifiedMemory", 300)];
    assert_eq!(only(&sized(off_heap("1g"), &|_| (), &used)), is("spark.memory.offHeap.size", "128m"));
    assert_eq!(advised(&sized(off_heap("128m"), &spill, &used))["spark.memory.offHeap.size"].as_deref(), Some("448m"));
    // Storage evicts, or is evicted.
    let cached = [("OnHeapUnifiedMemory", 430), ("OnHeapStorageMemory", 300)];
    assert_eq!(
        advised(&sized(settings("1g"), &spill, &cached))["spark.memory.storageFraction"],
        None,
        "1536m have room"
    );
    let little = json!({"spark.executor.memory": "1g", "spark.memory.storageFraction": "0.1"});
    // 300 MiB of (1536 - 300) x 0.6, in steps of 0.05.
    assert_eq!(advised(&sized(little, &spill, &cached))["spark.memory.storageFraction"].as_deref(), Some("0.45"));
    // A large heap with little beside the pool can have a larger pool.
    let wide = [("OnHeapUnifiedMemory", 4000), ("JVMHeapMemory", 5000)];
    let large = |task: &mut Task| (task.spilled, task.peak) = (2000 * MIB, 4000 * MIB);
    assert_eq!(advised(&sized(settings("8g"), &large, &wide))["spark.memory.fraction"].as_deref(), Some("0.8"));
    // The heap was exhausted.
    let heap = |task: &mut Task| {
        task.reason = json!({"Reason": "ExceptionFailure", "Class Name": "java.lang.OutOfMemoryError"})
    };
    assert_eq!(only(&sized(settings("1g"), &heap, &[])), is("spark.executor.memory", "1536m"));
    let python = |task: &mut Task| {
        task.reason = json!({"Reason": "ExceptionFailure", "Class Name": "a.SparkException", "Description": "Python worker exited unexpectedly (crashed)"});
    };
    let report = sized(settings("1g"), &python, &[]);
    assert_eq!(only(&report), is("spark.executor.memoryOverhead", "640m"));
    // Every number that is printed follows from those before it.
    assert!(why(&report, "spark.executor.memoryOverhead").contains("half as much again, 640m in steps of 128m"));
    let report = sized(settings("8g"), &|_| (), &[("OnHeapUnifiedMemory", 20)]);
    let heap = why(&report, "spark.executor.memory");
    assert!(heap.contains("24MiB / 0.6 + 300 MiB = 340MiB, 384m in steps of 64m, and 512m is the least"), "{heap}");
    // Python's own limit was too small: no worker was lost, and overhead has nothing to do with it.
    let limited = |task: &mut Task| {
        task.reason = json!({"Reason": "ExceptionFailure", "Class Name": "a.PythonException", "Description": "Traceback\nMemoryError"});
    };
    let report =
        sized(json!({"spark.master": "yarn", "spark.executor.pyspark.memory": "200m"}), &limited, &resident[..1]);
    assert_eq!(only(&report), is("spark.executor.pyspark.memory", "512m"));
    // Of the address space, what was sampled is what the limit let them have.
    let sampled = [("ProcessTreePythonVMemory", 635), ("ProcessTreePythonRSSMemory", 221)];
    let report = sized(json!({"spark.master": "yarn", "spark.executor.pyspark.memory": "512m"}), &limited, &sampled);
    assert_eq!(only(&report), is("spark.executor.pyspark.memory", "1280m"));
    // A run that failed does not show what its tasks would have used.
    let report = sized(settings("8g"), &limited, &[("OnHeapUnifiedMemory", 100)]);
    assert_eq!(only(&report), []);
}

/// Peaks of the lab's executors, as a Python program derived them, in MiB; and the room that executors reported.
#[test]
fn memory_of_the_lab_is_what_was_derived_elsewhere() {
    let file = testdata("spark_eventlog/tpcds_lab.json.zst");
    let report: Value =
        serde_json::from_str(&latscope(&["spark", "-r", file.to_str().unwrap(), "--json"]).success()).unwrap();
    let text = std::fs::read_to_string(testdata("spark_eventlog/tpcds_lab.expected.txt")).unwrap();
    let mut checked = 0;
    for executor in ["0", "1", "driver"] {
        let line = text.lines().find(|line| line.starts_with(&format!("{executor} {{"))).unwrap();
        let (_, rest) = line.split_once('{').unwrap();
        for pair in rest.split('}').next().unwrap().split(", ") {
            let (name, mib) = pair.split_once(": ").unwrap();
            let peak = number(&report, &format!("/memory/peaks/{executor}/{}", name.trim_matches('\'')));
            assert_eq!(
                (peak as f64 / MIB as f64).round_ties_even() as i64,
                mib.parse::<i64>().unwrap(),
                "{executor} {name}"
            );
            checked += 1;
        }
        let gc: i64 = rest.rsplit(' ').next().unwrap().parse().unwrap();
        assert_eq!(number(&report, &format!("/memory/peaks/{executor}/MinorGCTime")), gc * MS);
    }
    assert_eq!(checked, 31);
    assert_eq!([number(&report, "/memory/unified"), number(&report, "/memory/reported")], [455_501_414, 455_501_414]);
    assert_eq!(advised(&report)["spark.executor.memoryOverhead"].as_deref(), Some("512m"));
    assert_eq!(advised(&report).values().flatten().count(), 1, "{}", report["memory"]["advice"]);
    // The model gives what was, or nearly.
    let [was, model] = ["/what_if/wall_ns", "/what_if/simulated/0/wall_ns"].map(|path| number(&report, path));
    assert!((was - model).abs() * 20 < was, "{was} {model}");
    assert_eq!(report["sql"].as_array().unwrap().len(), 34);
    let of_jobs: i64 = report["jobs"].as_array().unwrap().iter().map(|job| number(job, "/numTasks")).sum();
    assert_eq!((of_jobs, report["jobs"].as_array().unwrap().len()), (104, 57));
}

fn settings(memory: &str) -> Value {
    json!({"spark.master": "yarn", "spark.executor.memory": memory})
}

fn with(mut settings: Value, more: &[(&str, &str)]) -> Value {
    more.iter().for_each(|(name, value)| settings[name] = json!(value));
    settings
}

#[test]
fn a_spill_has_one_advice() {
    let spill =
        |spilled: i64, peak: i64| move |task: &mut Task| (task.spilled, task.peak) = (spilled * MIB, peak * MIB);
    // Off the heap, where neither heap nor fraction help: (215 + 123) x 1.2 + 20 of storage = 425.6 MiB.
    let off_heap = [("spark.memory.offHeap.enabled", "true"), ("spark.memory.offHeap.size", "128m")];
    let peaks = [
        ("JVMHeapMemory", 300),
        ("OnHeapUnifiedMemory", 10),
        ("OffHeapExecutionMemory", 120),
        ("OffHeapStorageMemory", 20),
        ("OffHeapUnifiedMemory", 128),
    ];
    let report = sized(with(settings("1g"), &off_heap), &spill(215, 123), &peaks);
    assert_eq!(only(&report), is("spark.memory.offHeap.size", "448m"));
    let text = why(&report, "spark.memory.offHeap.size");
    assert!(text.contains("x 1 at a time + 20 % = 406MiB, with 20MiB of storage: 448m in steps of 64m"), "{text}");
    assert!(why(&report, "spark.memory.fraction").contains("what was spilled is off the heap"));
    // What runs on the heap though off-heap memory is on.
    let on_heap = [("OnHeapExecutionMemory", 120), ("OffHeapExecutionMemory", 1), ("OffHeapUnifiedMemory", 100)];
    let report = sized(with(settings("1g"), &off_heap), &spill(600, 123), &on_heap);
    assert_eq!(only(&report), is("spark.executor.memory", "1792m"));
    // The fraction alone: 5040 MiB of (8192 - 300) x 0.8 = 6313, which were 4735.
    let wide = [("OnHeapUnifiedMemory", 4000), ("JVMHeapMemory", 5000)];
    let report = sized(settings("8g"), &spill(1000, 3200), &wide);
    assert_eq!(only(&report), is("spark.memory.fraction", "0.8"));
    assert!(why(&report, "spark.executor.memory").contains("/ 0.8 + 300 MiB"), "{}", report["memory"]["advice"]);
    // Both: 7200 / 0.8 + 300 = 9300 MiB, and not 12,300.
    let report = sized(settings("8g"), &spill(2000, 4000), &wide);
    assert_eq!(only(&report), [is("spark.executor.memory", "9344m"), is("spark.memory.fraction", "0.8")].concat());
}

#[test]
fn the_off_heap_pool_is_no_overhead() {
    let resident = [
        ("ProcessTreeJVMRSSMemory", 1575),
        ("JVMOffHeapMemory", 118),
        ("DirectPoolMemory", 1),
        ("MappedPoolMemory", 8),
        ("ProcessTreePythonRSSMemory", 287),
        ("OffHeapUnifiedMemory", 500),
    ];
    let off_heap = [("spark.memory.offHeap.enabled", "true"), ("spark.memory.offHeap.size", "512m")];
    // 1575 - 1024 - 512 = 39, so that 127 + 287 and 10 % count, as without the pool.
    let report = sized(with(settings("1g"), &off_heap), &|_| (), &resident);
    assert_eq!(only(&report), is("spark.executor.memoryOverhead", "512m"));
    let enough = [off_heap[0], off_heap[1], ("spark.executor.memoryOverhead", "512m")];
    let report = sized(with(settings("1g"), &enough), &|_| (), &resident);
    assert_eq!(only(&report), []);
    let text = why(&report, "spark.executor.memoryOverhead");
    assert!(
        text.contains("beyond the heap and the off-heap pool") && text.contains("at least half of what there is"),
        "{text}"
    );
}

#[test]
fn each_memory_that_is_exhausted_has_its_setting() {
    let exhausted = |message: &'static str| {
        move |task: &mut Task| {
            task.reason = json!({"Reason": "ExceptionFailure", "Class Name": "java.lang.OutOfMemoryError", "Description": message});
        }
    };
    let options = "spark.executor.extraJavaOptions";
    assert_eq!(only(&sized(settings("1g"), &exhausted("Java heap space"), &[])), is("spark.executor.memory", "1536m"));
    let limit = "GC overhead limit exceeded";
    assert_eq!(only(&sized(settings("1g"), &exhausted(limit), &[])), is("spark.executor.memory", "1536m"));
    let classes = exhausted("Compressed class space");
    assert_eq!(only(&sized(settings("1g"), &classes, &[])), is(options, "-XX:CompressedClassSpaceSize=2048m"));
    let set = with(settings("1g"), &[(options, "-XX:MaxMetaspaceSize=256m -Da=b")]);
    assert_eq!(only(&sized(set, &exhausted("Metaspace"), &[])), is(options, "-Da=b -XX:MaxMetaspaceSize=512m"));
    let direct = exhausted("Direct buffer memory");
    assert_eq!(only(&sized(settings("1g"), &direct, &[])), is(options, "-XX:MaxDirectMemorySize=1536m"));
    let threads =
        exhausted("unable to create native thread: possibly out of memory or process/resource limits reached");
    assert_eq!(only(&sized(settings("1g"), &threads, &[])), is("ulimit -u", "greater"));
    let lost = |reason: &str| {
        let mut log = log_with(settings("1g"), &|_| (), &[]);
        log.executor("2", 1, 0);
        log.removed("2", 4000, reason);
        only(&log.report())
    };
    let overhead = is("spark.executor.memoryOverhead", "640m");
    let check = is("yarn.nodemanager.vmem-check-enabled", "false");
    for (reason, expected) in [
        (
            "Container killed by YARN for exceeding physical memory limits. 1.5 GB of 1.4 GB physical memory used.",
            &overhead,
        ),
        ("Container killed by YARN for exceeding virtual memory limits. 3.1 GB of 2.9 GB virtual memory used.", &check),
        ("Container killed by YARN for exceeding memory limits. 3.1 GB of 2.9 GB virtual memory used.", &check),
        (
            "Container [pid=1] is running 1B beyond the 'PHYSICAL' memory limit. Current usage: 1.4 GB of 1.4 GB physical memory used; \
             2.0 GB of 2.9 GB virtual memory used.",
            &overhead,
        ),
        (
            "Container [pid=1] is running 1B beyond the 'VIRTUAL' memory limit. Current usage: 1.0 GB of 1.4 GB physical memory used; \
             3.0 GB of 2.9 GB virtual memory used.",
            &check,
        ),
        ("Command exited with code 52", &is("spark.executor.memory", "1536m")),
    ] {
        assert_eq!(&lost(reason), expected, "{reason}");
    }
}

#[test]
fn no_heap_is_advised_below_what_was_held() {
    let held = |heap: i64| [("OnHeapUnifiedMemory", 100), ("JVMHeapMemory", heap)];
    let report = sized(settings("8g"), &|_| (), &held(3000));
    assert_eq!(only(&report), is("spark.executor.memory", "3008m"));
    assert!(why(&report, "spark.executor.memory").contains("no less than the 2.93GiB that the heap held at most"));
    assert_eq!(only(&sized(settings("8g"), &|_| (), &held(8190))), []);
}

#[test]
fn options_of_the_jvm_are_added_to_those_that_are_set() {
    let options = "spark.executor.extraJavaOptions";
    // The first two Spark adds by itself; they would be cut in the middle, too.
    let own = format!("-XX:+IgnoreUnrecognizedVMOptions {}", "--add-opens=java.base/java.lang=ALL-UNNAMED ".repeat(10));
    let gc = |task: &mut Task| task.gc = 110;
    let advice =
        |set: &str| only(&sized(with(settings("1g"), &[(options, &format!("{own}{set}"))]), &gc, &[])).remove(0);
    let is = |text: &str| (options.to_string(), text.to_string());
    assert_eq!(advice("-Da=b -XX:+UseParallelGC"), is("-Da=b -XX:+UseParallelGC -Xlog:gc*:file=gc.log"));
    assert_eq!(advice(""), is("-Xlog:gc*:file=gc.log"));
    let has_log = with(settings("1g"), &[(options, "-Xlog:gc:file=a")]);
    assert_eq!(only(&sized(has_log, &gc, &[])), self::is("spark.executor.memory", "1280m"));
}

#[test]
fn stages_with_a_profile_of_their_own_advise_nothing() {
    let spill = |task: &mut Task| (task.spilled, task.peak) = (215 * MIB, 123 * MIB);
    let mut log = log_with(settings("512m"), &spill, &[]);
    assert_eq!(only(&log.report()), is("spark.executor.memory", "1024m"));
    let requests = json!({"memory": {"Resource Name": "memory", "Amount": 8192}, "cores": {"Resource Name": "cores", "Amount": 4}});
    log.event("ResourceProfileAdded", json!({"Resource Profile Id": 1, "Executor Resource Requests": requests}));
    let log =
        Log(log.0.replace("\"Stage ID\":0,\"Stage Name\"", "\"Resource Profile Id\":1,\"Stage ID\":0,\"Stage Name\""));
    let report = log.report();
    assert_eq!((only(&report), number(&report, "/memory/profiles/0/stages")), (vec![], 1));
    let text = log.run(&[]).success();
    assert!(
        text.contains("resource profile 1 (executors of 4 cores and 8192m of heap): 1 stage ran with it"),
        "{text}"
    );
}
