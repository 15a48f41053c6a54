//! Advice that meets a need once, and with the setting that helps.

use super::memory::{is, log_with, only, sized, why};
use super::{Log, MIB, Task, number};
use serde_json::{Value, json};

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
    assert_eq!(only(&sized(has_log, &gc, &[])), super::memory::is("spark.executor.memory", "1280m"));
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
