//! `-y` of compare and explain: the numbers of any quantity are those of its values, however they are reached.

use crate::program::{latscope, testdata};
use serde_json::Value;
use std::path::Path;

fn log() -> String {
    testdata("spark_eventlog/tpcds_lab.json.zst").display().to_string()
}

/// The values of a field of the events of a filter, ascending.
fn values(field: &str, filter: &str) -> Vec<u64> {
    let events = latscope(&["events", "-r", &log(), "--json", filter]).success();
    let mut values: Vec<u64> =
        events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()[field].as_u64().unwrap()).collect();
    values.sort_unstable();
    values
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&latscope(arguments).success()).unwrap()
}

/// By nearest rank.
fn quantile(sorted: &[u64], quantile: f64) -> u64 {
    sorted[((quantile * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1]
}

#[test]
fn compare_has_the_numbers_of_any_quantity() {
    let sides = ["executor = 0", "executor = 1"];
    for (word, field, unit) in
        [("gc", "gc_ns", "ns"), ("shuffle_written", "shuffle_written", "bytes"), ("run", "run_ns", "ns")]
    {
        let found = json(&["compare", &log(), "--filter", sides[0], "--filter", sides[1], "-y", word, "--json"]);
        assert_eq!(found["quantity"], word);
        for (at, side) in sides.iter().enumerate() {
            let (values, found) = (values(field, side), &found["sides"][at]);
            let sum: u64 = values.iter().sum();
            assert_eq!(found["count"], values.len(), "{word} {side}");
            for (key, expected) in
                [("p50", quantile(&values, 0.5)), ("p90", quantile(&values, 0.9)), ("max", values[values.len() - 1])]
            {
                assert_eq!(found[format!("{key}_{unit}")].as_f64(), Some(expected as f64), "{word} {side} {key}");
            }
            let mean = found[format!("mean_{unit}")].as_f64().unwrap();
            assert!((mean - sum as f64 / values.len() as f64).abs() <= 1e-6 * mean.max(1.0), "{word} {side} {mean}");
        }
        // The chance that a value of the second is higher, ties by half: every pair counted.
        let [base, other] = sides.map(|side| values(field, side));
        let pairs = other.iter().flat_map(|other| base.iter().map(move |base| other.cmp(base)));
        let higher: f64 = pairs.map(|order| 0.5 + 0.5 * f64::from(order as i8)).sum();
        let rows = found["differences"].as_array().unwrap();
        let chance = rows.iter().find(|row| row["measure"] == "chance").unwrap()["other"].as_f64().unwrap();
        assert!((chance - higher / (base.len() * other.len()) as f64).abs() < 1e-9, "{word} {chance}");
    }
}

/// Two logs with the same latencies in the same order; the requests of the second are twenty times as large.
fn logs(folder: &Path) -> [String; 2] {
    [("few", 8192), ("many", 20 * 8192)].map(|(name, size)| {
        let path = folder.join(format!("{name}_clat.1.log"));
        let row = |at: u64| {
            let (start_ms, latency_ns) = (at * 10 + size % 3, 400_000 + at * 7919 % 97 * 1000);
            format!("{start_ms}, {latency_ns}, 0, {}, 0\n", size + at * 7919 % 101 * 8)
        };
        std::fs::write(&path, (0..2000).map(row).collect::<String>()).unwrap();
        path.display().to_string()
    })
}

#[test]
fn a_limit_is_one_of_the_quantity() {
    let folder = tempfile::tempdir().unwrap();
    let (junit, [few, many]) = (folder.path().join("c.xml"), logs(folder.path()));
    let compare = |limit: &str, more: &[&str]| {
        let sides = ["compare", &few, &many, "--names", "few,many", "-y", "size", "--fail-if", limit];
        latscope(&[&sides[..], more].concat())
    };
    let exceeded = compare("mean higher by 100KiB", &["--markdown", "--junit", junit.to_str().unwrap()]);
    assert_eq!(exceeded.status, Some(1), "{}", exceeded.err);
    let text = String::from_utf8(exceeded.out).unwrap();
    assert!(text.contains("size of many is higher than that of few at the median by 152KiB"), "{text}");
    assert!(text.contains("higher than base") && !text.contains("slower"), "{text}");
    let junit = std::fs::read_to_string(junit).unwrap();
    assert!(junit.contains("failures=\"1\"") && junit.contains("limit exceeded, size of many is higher"), "{junit}");
    assert_eq!(compare("mean > 1MiB", &[]).status, Some(0), "nothing is so much larger");
    let wrong = compare("mean > 10ms", &[]).failure(2);
    assert!(wrong.contains("--fail-if"), "{wrong}");
}

#[test]
fn unlike_bytes_are_reported_though_latencies_are_equal() {
    let folder = tempfile::tempdir().unwrap();
    let [few, many] = logs(folder.path());
    let compare =
        |more: &[&str]| json(&[&["compare", &few, &many, "--names", "few,many", "--json"][..], more].concat());
    let found = compare(&[]);
    let unlike: Vec<&str> = found["unlike"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(unlike, ["size per request: 8.39KiB (few), 160KiB (many); -y size compares it"]);
    assert!(found["verdicts"][0].as_str().unwrap().contains("do not differ by more"), "{found}");
    // Comparing just that does not report it again.
    let found = compare(&["-y", "size"]);
    assert!(!found["unlike"].to_string().contains("per request"), "{found}");
    assert!(found["verdicts"][0].as_str().unwrap().starts_with("size of many is higher than that of few"), "{found}");
}

#[test]
fn explain_looks_at_any_quantity() {
    let log = log();
    let all = values("gc_ns", "gc_ns exists");
    let found = json(&["explain", "-r", &log, "-y", "gc", "--json"]);
    assert_eq!(
        (&found["quantity"], found["total"]["sum_ns"].as_u64()),
        (&Value::from("gc_ns"), Some(all.iter().sum()))
    );
    let spots = found["spots"].as_array().unwrap();
    assert!(!spots.is_empty(), "{found}");
    for spot in spots {
        // Each spot is what its filter selects.
        let selected = values("gc_ns", spot["filter"].as_str().unwrap());
        let total: u64 = selected.iter().sum();
        assert_eq!(spot["explanation"]["selection"]["sum_ns"].as_u64(), Some(total), "{spot}");
        assert_eq!(spot["min_ns"].as_u64(), selected.first().copied(), "{spot}");
        assert_eq!(spot["max_ns"].as_u64(), selected.last().copied(), "{spot}");
    }
    // Of a selection, its share of the bytes.
    let filter = "executor = 1";
    let (part, all) = (values("shuffle_written", filter), values("shuffle_written", "task exists"));
    let found = json(&["explain", "-r", &log, "-y", "shuffle_written", filter, "--json"]);
    let side = if found["inverted"] == true { "baseline" } else { "selection" };
    assert_eq!(found[side]["sum_bytes"].as_u64(), Some(part.iter().sum()), "{found}");
    assert_eq!(found["total"]["sum_bytes"].as_u64(), Some(all.iter().sum()), "{found}");
    let text = latscope(&["explain", "-r", &log, "-y", "gc"]).success();
    assert!(text.contains(" of all gc") && !text.contains("waiting") && !text.contains("slow"), "{text}");
}
