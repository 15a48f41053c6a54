//! Control groups of executors beside their tasks: numbers by hand, throttling as verdict and as cause.

use super::{MIB, MS, START, causes, eight, log_of, number};
use crate::program::latscope;
use latscope_series::spark::{Usage, UsageRow, UsageSample};
use serde_json::{Value, json};

/// A sample of an executor, milliseconds after the start.
fn sample(executor: &str, at: i64, numbers: &[(Usage, i64)]) -> String {
    let mut values = [None; Usage::ALL.len()];
    numbers.iter().for_each(|&(of, value)| values[of as usize] = Some(value as u64));
    let sample = UsageSample { time_ns: (START + at) * MS, values };
    let (app, executor, group) = ("app-1".into(), executor.to_string(), (format!("/pods/{executor}"), 2));
    UsageRow { app, executor, group, sample }.line()
}

#[test]
fn throttling_is_a_verdict_and_a_cause() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (log, csv, svg) = (path("app-20261121011349-0001"), path("executors.csv"), path("a.svg"));
    // The executor of task 5 had its quota used up in 15 of the 20 periods from 1 s to 3 s, and never before.
    let mut tasks = eight();
    tasks[5].span.1 += 1000;
    std::fs::write(&log, log_of(&tasks).0).unwrap();
    let counted = |second: i64, cpu: i64, throttled: i64, kept: i64| {
        [
            (Usage::Cpu, cpu * MS),
            (Usage::Periods, second * 10),
            (Usage::Throttled, throttled),
            (Usage::ThrottledTime, kept * MS),
            (Usage::Quota, 1500),
            (Usage::Memory, second * 100 * MIB),
            (Usage::MemoryLimit, 1024 * MIB),
            (Usage::Read, second * 3 * MIB),
            (Usage::Loopback, second * MIB),
        ]
    };
    let mut text = UsageRow::header() + "\n";
    for (second, [cpu, throttled, kept]) in
        [[0, 0, 0], [900, 0, 0], [2400, 7, 700], [3000, 15, 1500]].iter().enumerate()
    {
        let second = second as i64;
        text += &(sample("1", second * 1000, &counted(second, second * 800, 0, 0)) + "\n");
        text += &(sample("2", second * 1000, &counted(second, *cpu, *throttled, *kept)) + "\n");
    }
    std::fs::write(&csv, &text).unwrap();
    let words = ["spark", "-r", &log, "--cgroups", &csv];
    let report: Value = serde_json::from_str(&latscope(&[&words[..], &["--json"]].concat()).success()).unwrap();
    let finding =
        report["findings"].as_array().unwrap().iter().find(|finding| finding["verdict"] == "throttling").unwrap();
    assert_eq!(finding["value"].as_f64().unwrap(), 15.0 / 60.0);
    assert!(
        finding["evidence"]
            .as_str()
            .unwrap()
            .contains("15 of 60 periods, and their threads were kept from running for 1.5s")
    );
    assert_eq!(causes(&report, 5)[0], "throttling", "{}", report["stragglers"]);
    let cause = &report["stragglers"][0]["causes"][0];
    assert_eq!([number(cause, "/value"), number(cause, "/median")], [1500 * MS, 0]);
    let samples = report["cgroups"][1]["samples"].as_array().unwrap();
    assert_eq!((samples.len(), number(&samples[2], "/cpu_ns"), samples[2].get("block_written")), (4, 2400 * MS, None));
    let printed = latscope(&words).success();
    let row = printed.lines().find(|line| line.contains("/pods/2")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    let expected = "2 1.00 1.50 1.50 50.0% 1.5s 300MiB 1GiB - 9MiB - - - 3MiB /pods/2";
    assert_eq!(cells.join(" "), expected, "{printed}");
    assert!(printed.contains("throttling: its executor was kept from running for 1.5s more"), "{printed}");
    latscope(&[&words[..], &["-o", &svg]].concat()).success();
    let picture = std::fs::read_to_string(&svg).unwrap();
    for words in ["CPU of the control group", "kept from running by its quota, executor 2", "Network of its namespace"]
    {
        assert!(picture.contains(words), "{words}");
    }
    let page = path("a.html");
    latscope(&["report", "-r", &log, "--cgroups", &csv, "-o", &page]).success();
    assert!(std::fs::read_to_string(&page).unwrap().contains("Block devices, read and written"));
    // Samples of another application are refused, not left out.
    std::fs::write(&csv, text.replace("app-1", "app-9")).unwrap();
    assert!(latscope(&words).failure(3).contains("It has executors of app-9, and none of app-1"));
    let refused = latscope(&["report", "-r", &log, "--cgroups", &csv, "-o", &page]).failure(3);
    assert!(refused.contains("none of app-1"), "{refused}");
    assert_eq!(report["cgroups"][0]["shared"], json!(false));
}

/// Without executors there is no sample, and the program says so.
#[test]
fn sampling_ends_after_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("executors.csv");
    let ended = latscope(&["spark", "--sample", file.to_str().unwrap(), "--for", "100ms"]);
    // Another test may run Spark meanwhile.
    assert!(ended.status == Some(0) || ended.err.contains("No executor of Spark ran on this machine"), "{}", ended.err);
    assert!(std::fs::read_to_string(&file).unwrap().starts_with(&UsageRow::header()));
}
