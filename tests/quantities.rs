//! `-y` of compare and explain: the numbers of any quantity are those of its values, however they are reached.

use crate::program::{latscope, testdata};
use serde_json::Value;

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

#[test]
fn a_limit_is_one_of_the_quantity() {
    let folder = tempfile::tempdir().unwrap();
    let junit = folder.path().join("c.xml");
    let compare = |limit: &str, more: &[&str]| {
        let log = log();
        // Tasks that write shuffle data against those that write none.
        let sides = [
            "compare",
            &log,
            "--names",
            "none,some",
            "--filter",
            "shuffle_written = 0",
            "--filter",
            "shuffle_written > 0",
        ];
        latscope(&[&sides[..], &["-y", "shuffle_written", "--fail-if", limit], more].concat())
    };
    let exceeded = compare("mean higher by 1B", &["--markdown", "--junit", junit.to_str().unwrap()]);
    assert_eq!(exceeded.status, Some(1), "{}", exceeded.err);
    let text = String::from_utf8(exceeded.out).unwrap();
    let expected = "shuffle\\_written of some is higher than that of none";
    assert!(text.contains(expected) && text.contains("higher than base"), "{text}");
    assert!(!text.contains("slower") && !text.contains("µs") && !text.contains("ns |"), "{text}");
    let junit = std::fs::read_to_string(junit).unwrap();
    assert!(
        junit.contains("failures=\"1\"") && junit.contains("limit exceeded, shuffle_written of some is higher"),
        "{junit}"
    );
    assert!(compare("mean > 1GiB", &[]).status == Some(0), "nothing is so much");
    let wrong = compare("mean > 10ms", &[]).failure(2);
    assert!(wrong.contains("--fail-if"), "{wrong}");
}

#[test]
fn unlike_bytes_are_reported_though_latencies_are_equal() {
    // The same latencies in the same order; the requests of one side are twenty times as large.
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, shift: u64, size: u64| {
        let path = folder.path().join(name);
        let rows = (0..2000u64).map(|at| {
            let size = size + at * 8;
            format!("{}, {}, 0, {size}, 0\n", at * 10 + shift, 400 + at * 7919 % 97)
        });
        std::fs::write(&path, rows.collect::<String>()).unwrap();
        path.display().to_string()
    };
    let (few, many) = (write("few_clat.1.log", 0, 8192), write("many_clat.1.log", 1, 20 * 8192));
    let found = json(&["compare", &few, &many, "--json"]);
    let unlike: Vec<&str> = found["unlike"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let sizes: Vec<&&str> = unlike.iter().filter(|text| text.starts_with("size per request")).collect();
    assert_eq!(
        sizes,
        [&"size per request: 15.8KiB (few_clat.1.log), 168KiB (many_clat.1.log); -y size compares it"],
        "{unlike:?}"
    );
    // Comparing just that does not report it again.
    let found = json(&["compare", &few, &many, "-y", "size", "--json"]);
    assert!(!found["unlike"].to_string().contains("per request"), "{found}");
    assert!(
        found["verdicts"][0]
            .as_str()
            .unwrap()
            .starts_with("size of many_clat.1.log is higher than that of few_clat.1.log"),
        "{found}"
    );
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
