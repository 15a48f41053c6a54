//! `--fail-if` says yes, no, or that it cannot be known.

use crate::program::latscope;
use serde_json::Value;
use std::path::Path;

/// Requests that remember the ones before them: a run that supports little.
fn run(folder: &Path, seed: u64, count: usize, memory: f64, factor: f64) -> String {
    // A generator of its own (Lehmer); the sum of twelve is nearly normal.
    let mut state = seed * 7919 % 2_147_483_646 + 1;
    let mut unit = || {
        state = state * 48_271 % 2_147_483_647;
        state as f64 / 2_147_483_647.0
    };
    (0..50).for_each(|_| {
        unit();
    });
    let mut deviation = 0.0;
    let mut line = |at: usize| {
        let normal = (0..12).map(|_| unit()).sum::<f64>() - 6.0;
        deviation = memory * deviation + (1.0 - memory * memory).sqrt() * normal;
        format!("{} {}\n", at * 2_000_000, (factor * 400_000.0 * f64::exp(0.2 * deviation)) as u64)
    };
    let path = folder.join(format!("{seed}.txt"));
    std::fs::write(&path, (0..count).map(&mut line).collect::<String>()).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn a_limit_within_the_interval_is_undecided() {
    let folder = tempfile::tempdir().unwrap();
    let (mut counts, mut probable) = ([0; 4], 0);
    for (seed, memory, factor) in
        (0..16).map(|seed| (10 + 2 * seed, [0.0, 0.7][seed as usize % 2], 1.0 + 0.03 * (seed / 4) as f64))
    {
        let (a, b) = (run(folder.path(), seed, 1000, memory, 1.0), run(folder.path(), seed + 1, 1000, memory, factor));
        for limit in [0, 2, 5, 10, 40] {
            let fail_if = format!("p50 > {limit}%");
            let ended = latscope(&["compare", &a, &b, "--unitstime", "ns", "--json", "--fail-if", &fail_if]);
            let json: Value = serde_json::from_slice(&ended.out).unwrap();
            let row = &json["differences"][0];
            let part = |key: &str| row[key].as_f64().map(|value| 100.0 * value / row["base_ns"].as_f64().unwrap());
            // What the table shows decides: the joint interval that it is slower, its own that it is not.
            let truth = match (part("joint_low_ns"), part("high_ns")) {
                (Some(low), _) if low > f64::from(limit) => 1,
                (_, Some(high)) if high <= f64::from(limit) => 0,
                _ => 3,
            };
            assert_eq!(ended.status, Some(truth), "{fail_if} {row}\n{}", ended.err);
            assert_eq!(truth == 3, ended.err.contains("cannot be decided"), "{}", ended.err);
            // Where its own interval lies above, the sentence does not call it open.
            let is_probable = truth == 3 && part("low_ns").is_some_and(|low| low > f64::from(limit));
            let says = "is probably slower than";
            assert_eq!(is_probable, ended.err.contains(says), "{}", ended.err);
            let is_open = ended.err.contains("the data do not show whether");
            assert_eq!(truth == 3 && !is_probable, is_open, "{}", ended.err);
            probable += usize::from(is_probable);
            counts[truth as usize] += 1;
        }
    }
    assert!(counts[0] > 0 && counts[1] > 0 && counts[3] > 0, "all of them happen: {counts:?}");
    assert!(probable > 0);
}

#[test]
fn a_limit_that_makes_no_sense_is_refused_with_what_does() {
    let refused = |limit: &str, more: &[&str]| {
        latscope(&[&["compare", "a.lat", "b.lat", "--fail-if", limit], more].concat()).failure(2)
    };
    for limit in ["p50 > inf%", "mean > 1e400%", "p50 > nan%", "p50 > -5%"] {
        let printed = refused(limit, &[]);
        let (_, value) = limit.split_once("> ").unwrap();
        assert!(printed.contains(&format!("--fail-if: \"{value}\" is not a percentage such as 10%.")), "{printed}");
    }
    for limit in ["p50 slower by", "p50 >", "p90 > 5% or mean higher by "] {
        let printed = refused(limit, &[]);
        let says = "has no value; write a percentage or a duration behind it, as in p99 > 10% or mean > 1ms.";
        assert!(printed.contains(says) && !printed.contains(":  "), "{printed}");
    }
    let printed = refused("mean >", &["-y", "size"]);
    assert!(printed.contains("a percentage or a size behind it, as in p99 > 10% or mean > 1MiB."), "{printed}");
    let printed = refused("p50 >= 10%", &[]);
    assert!(printed.contains("\"p50 >= 10%\" has >=, which limits do not know; use >, as in p99 > 10%"), "{printed}");
}

#[test]
fn plenty_of_requests_decide() {
    let folder = tempfile::tempdir().unwrap();
    let mut decided = 0;
    for seed in 0..8 {
        let one = |at: u64, factor: f64| run(folder.path(), 100 + 4 * seed + at, 3000, 0.0, factor);
        let (a, same, slower) = (one(0, 1.0), one(1, 1.0), one(2, 1.2));
        let status = |other: &str| {
            latscope(&["compare", &a, other, "--unitstime", "ns", "--fail-if", "p50 > 10% or p90 > 10%"])
                .status
                .unwrap()
        };
        let found = (status(&same), status(&slower));
        assert!(found.0 != 1 && found.1 != 0, "{seed}: {found:?}");
        decided += i32::from(found.0 == 0) + i32::from(found.1 == 1);
    }
    // A drift is suspected in a few of a hundred.
    assert!(decided >= 12, "{decided} of 16");
}

#[test]
fn what_is_undecided_says_by_how_much_it_could_be() {
    let folder = tempfile::tempdir().unwrap();
    let printed = |seed: u64| {
        let (a, b) = (run(folder.path(), seed, 200, 0.0, 1.0), run(folder.path(), seed + 1, 200, 0.0, 1.05));
        latscope(&["compare", &a, &b, "--unitstime", "ns", "--fail-if", "p50 > 5%"]).failure(3)
    };
    let printed: Vec<String> = (0..4).map(|seed| printed(400 + 2 * seed)).collect();
    assert!(printed.iter().any(|printed| printed.contains("us; the difference lies between ")), "{printed:?}");
}

#[test]
fn no_latency_falls_by_more_than_itself() {
    let folder = tempfile::tempdir().unwrap();
    // Some 0.4 ms each; on the other side one of 3,500 ms among them.
    let base = run(folder.path(), 600, 2000, 0.0, 1.0);
    let mut text = std::fs::read_to_string(run(folder.path(), 601, 2000, 0.0, 1.0)).unwrap();
    text += "4000000000 3500000000\n";
    let other = folder.path().join("other.txt");
    std::fs::write(&other, text).unwrap();
    let json = latscope(&["compare", &base, other.to_str().unwrap(), "--unitstime", "ns", "--json"]).success();
    let json: Value = serde_json::from_str(&json).unwrap();
    let mean = json["differences"].as_array().unwrap().iter().find(|row| row["measure"] == "mean").unwrap();
    let number = |key: &str| mean[key].as_f64().unwrap();
    // By the deviation of the mean alone the interval would begin 1.8 ms below the base.
    assert!(number("high_ns") > 5e6, "{mean}");
    assert_eq!((number("low_ns"), number("joint_low_ns")), (-number("base_ns"), -number("base_ns")), "{mean}");
    assert_eq!(mean["finding"], "undecided");
}

/// A second of requests, of which the last ones hang while another device goes on for half a minute.
fn ended_by(folder: &Path, name: &str, hanging: u64) -> String {
    let mut text = String::new();
    let mut line = |us: u64, event: &str, sector: u64| {
        let (seconds, us) = (100 + us / 1_000_000, us % 1_000_000);
        text += &format!("fio 123 [000] {seconds}.{us:06}: block:block_rq_{event} () {sector} + 8 [fio]\n");
    };
    for at in 0..1000 {
        line(at * 1000, "issue: 7,0 R 4096", at * 8);
        line(at * 1000 + 300 + at * 7919 % 100, "complete: 7,0 R", at * 8);
    }
    (0..hanging).for_each(|at| line(1_000_000 + at, "issue: 7,0 R 4096", 900_000 + at * 8));
    for at in 1..=300 {
        line(1_000_000 + at * 100_000, "issue: 8,0 R 4096", at * 8);
        line(1_000_300 + at * 100_000 + at * 7919 % 100, "complete: 8,0 R", at * 8);
    }
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn requests_that_hang_exceed_a_limit_by_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let well = ended_by(folder.path(), "well.txt", 0);
    for (hanging, limit, status) in [
        // Of 1,316 requests at most 13.16 may be above the p99; of 1,305, 13.05.
        (16, "p99 slower by 10%", 1),
        (5, "p99 slower by 10%", 3),
        (16, "p90 > 10ms", 0),
        (16, "p90 > 10ms or p99 > 40s", 3),
        // They lift the mean: 16 of 30 s each are 0.36 s for each request.
        (16, "mean > 100ms", 1),
        // Far below the limit by their ages, but nobody knows how long they take in the end.
        (16, "mean > 100s", 3),
        // One may be chance.
        (1, "mean > 1ms", 3),
    ] {
        let sick = ended_by(folder.path(), "sick.txt", hanging);
        let ended = latscope(&["compare", &well, &sick, "--fail-if", limit]);
        assert_eq!(ended.status, Some(status), "{hanging} {limit}: {}", ended.err);
        let says = format!("{limit}: limit exceeded, {hanging} requests of sick.txt had not completed when it ended");
        assert_eq!(ended.err.contains(&says), status == 1, "{}", ended.err);
    }
    // Before the change it was no better.
    let sick = ended_by(folder.path(), "sick.txt", 17);
    let other = ended_by(folder.path(), "other.txt", 20);
    assert!(!latscope(&["compare", &sick, &other, "--fail-if", "p99 > 10%"]).err.contains("had waited longer"));
}

/// Whoever has one request at a time makes no other while it hangs.
#[test]
fn a_run_that_ends_in_a_standstill_exceeds_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let (well, sick) = (ended_by(folder.path(), "well.txt", 0), ended_by(folder.path(), "sick.txt", 1));
    let (of_disk, of_all): (&[&str], &[&str]) = (&["--filter", "device = loop0"], &[]);
    for (filter, limit, status) in [
        // 30 of 31 seconds.
        (of_disk, "p99 slower by 10%", 1),
        (of_disk, "p50 > 10% or p90 > 40s", 1),
        (of_disk, "p50 > 40s", 0),
        // Another device goes on until the end.
        (of_all, "p50 > 10%", 0),
    ] {
        let ended = latscope(&[&["compare", &well, &sick, "--fail-if", limit], filter].concat());
        assert_eq!(ended.status, Some(status), "{limit}: {}", ended.err);
        let says = "no request of sick.txt completed in its last 30s, while one waited for 30s.";
        assert_eq!(ended.err.contains(says), status == 1, "{}", ended.err);
    }
    // The base hung as well.
    let other = ended_by(folder.path(), "other.txt", 2);
    let arguments = ["compare", &sick, &other, "--fail-if", "p99 > 10%"];
    assert!(!latscope(&[&arguments[..], of_disk].concat()).err.contains("no request of"));
}

/// A minute of requests, one at a time, of which one in the middle took this long.
fn stalled_for(folder: &Path, name: &str, stall_ns: u64) -> String {
    let mut now = 0;
    let mut line = |at: u64| {
        let latency = if at == 3000 { stall_ns } else { 300_000 + at * 7919 % 100_000 };
        now += 1_700_000 + latency;
        format!("{now} {latency}\n")
    };
    let path = folder.join(name);
    std::fs::write(&path, (0..6000).map(&mut line).collect::<String>()).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn a_standstill_that_ends_before_the_run_exceeds_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let well = stalled_for(folder.path(), "well.txt", 300_000);
    for (stall_ms, limit, status) in [
        // 60 of 72 seconds; one of 6,000 requests.
        (60_000, "p99 slower by 10%", 1),
        (60_000, "p50 > 10%", 1),
        (60_000, "p90 > 70s", 0),
        // 1.1 s of 13.4 s are less than the part above the p90.
        (1100, "p90 > 100%", 0),
        (1100, "p99 > 1s", 1),
        // One slow request may be chance: less than a second is no standstill, and 3 ms are less than ten times the slowest of the base.
        (100, "p99 > 100%", 0),
        (100, "p99.9 > 90ms", 3),
        (3, "p99.9 > 100%", 3),
    ] {
        let sick = stalled_for(folder.path(), "sick.txt", stall_ms * 1_000_000);
        let arguments = ["compare", &well, &sick, "--unitstime", "ns", "--fail-if", limit];
        let ended = latscope(&arguments);
        assert_eq!(ended.status, Some(status), "{stall_ms} {limit}: {}", ended.err);
        let says =
            if stall_ms == 1100 { "for 1.1s of its 13.4s, while one waited for 1.1s." } else { "for 60s of its 72" };
        assert_eq!(ended.err.contains(says), status == 1, "{}", ended.err);
    }
    // A run in a group is enough.
    let runs = |name: &str, stalls_ms: [u64; 2]| {
        let file = |&ms: &u64| stalled_for(folder.path(), &format!("{name}{ms}.txt"), ms * 1_000_000);
        format!("{name}={}", stalls_ms.iter().map(file).collect::<Vec<_>>().join(","))
    };
    let (old, new) = (runs("old", [1, 2]), runs("new", [3, 60_000]));
    let arguments = ["compare", "--group", &old, "--group", &new, "--unitstime", "ns", "--fail-if", "p99 > 10%"];
    assert!(latscope(&arguments).failure(1).contains("no request of new completed for 60s of its 72"));
    // A run without events is named, not its whole side.
    let arguments = ["compare", "--group", &old, "--group", &new, "--unitstime", "ns", "--filter", "lat > 50s"];
    let refused = latscope(&arguments).failure(3);
    assert!(refused.contains("old1.txt of old has no events to compare"), "{refused}");
}

/// Ten seconds of requests to a disk, of which one took this long, as all behind it waited; at the end one hangs, while another device goes on for
/// so many seconds. Of those of a disk, every so many have no completion.
fn uneven(folder: &Path, name: &str, slow_s: u64, hangs_s: u64, lost_one_in: u64) -> String {
    let mut text = String::new();
    let mut line = |us: u64, event: &str, sector: u64| {
        let (seconds, us) = (100 + us / 1_000_000, us % 1_000_000);
        text += &format!("fio 123 [000] {seconds}.{us:06}: block:block_rq_{event} () {sector} + 8 [fio]\n");
    };
    let mut now = 0;
    for at in 0..10_000 {
        line(now, "issue: 7,0 R 4096", at * 8);
        now += if at == 5000 { slow_s.max(1) * 1_000_000 } else { 300 + at * 7919 % 100 };
        if lost_one_in == 0 || at % lost_one_in != 7 {
            line(now, "complete: 7,0 R", at * 8);
        }
        now += 600;
    }
    if hangs_s > 0 {
        line(now, "issue: 7,0 R 4096", 9_000_000);
    }
    for at in 1..=hangs_s * 10 {
        line(now + at * 100_000 - 300, "issue: 8,0 R 4096", at * 8);
        line(now + at * 100_000, "complete: 8,0 R", at * 8);
    }
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn a_run_that_may_stand_still_or_lacks_requests_is_undecided() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str, slow_s: u64, hangs_s: u64, lost: u64| uneven(folder.path(), name, slow_s, hangs_s, lost);
    let judged = |base: &str, other: &str, limit: &str| {
        let ended = latscope(&["compare", base, other, "--filter", "device = loop0", "--fail-if", limit]);
        (ended.status, ended.err)
    };
    // Thirty seconds are no ten times five, but ten times one and a half.
    for (slow_s, hangs_s, status) in [(5, 30, 3), (1, 30, 1), (5, 4, 0)] {
        let (status_is, said) =
            judged(&of("base.txt", slow_s, 0, 0), &of("other.txt", slow_s, hangs_s, 0), "p50 > 20%");
        assert_eq!(status_is, Some(status), "{slow_s} {hangs_s}: {said}");
        assert_eq!(said.contains("it may have stood still for 30s of "), status == 3, "{said}");
    }
    // Of the requests above a percentile, at most half may be lost; of those of the base, too.
    let (base, few, many) = (of("base.txt", 0, 0, 0), of("few.txt", 0, 0, 1000), of("many.txt", 0, 0, 10));
    for (one, other, limit, status) in [
        (&base, &few, "p50 > 20%", 0),
        (&base, &many, "p50 > 20%", 0),
        (&base, &many, "p90 > 20%", 3),
        (&many, &base, "p90 > 20%", 3),
        (&base, &many, "mean > 100%", 3),
    ] {
        let (status_is, said) = judged(one, other, limit);
        assert_eq!(status_is, Some(status), "{limit}: {said}");
        assert_eq!(said.contains("nobody knows the latencies of 10.00 % of the requests"), status == 3, "{said}");
    }
    for (trace, limit, status) in [
        (&few, "p50 > 10ms", 0),
        (&many, "p50 > 10ms", 0),
        (&many, "p90 > 10ms", 3),
        (&many, "max > 2s", 3),
        (&base, "max > 2s", 0),
    ] {
        let ended = latscope(&["percentiles", "-r", trace, "-i", "1h", "--fail-if", limit]);
        assert_eq!(ended.status, Some(status), "{limit}: {}", ended.err);
        assert_eq!(
            ended.err.contains("cannot be decided: nobody knows the latencies of"),
            status == 3,
            "{}",
            ended.err
        );
    }
}

#[test]
fn what_a_cut_file_lacks_may_be_slower() {
    let folder = tempfile::tempdir().unwrap();
    let whole = stalled_for(folder.path(), "whole.txt", 300_000);
    let other = stalled_for(folder.path(), "other.txt", 299_000);
    let text = std::fs::read_to_string(&other).unwrap();
    let cut = folder.path().join("cut.txt");
    std::fs::write(&cut, &text[..text.rfind(' ').unwrap()]).unwrap();
    let cut = cut.to_str().unwrap();
    let judged =
        |one: &str, other: &str| latscope(&["compare", one, other, "--unitstime", "ns", "--fail-if", "p50 > 10%"]);
    judged(&whole, &other).success();
    for (one, other) in [(&*whole, cut), (cut, &whole)] {
        let said = judged(one, other).failure(3);
        assert!(
            said.contains("an input ends in the middle, lacks a part or is of a job that failed, and what is missing may be slower); "),
            "{said}"
        );
    }
    let percentiles =
        |file: &str| latscope(&["percentiles", "-r", file, "--unitstime", "ns", "-i", "1h", "--fail-if", "p99 > 1h"]);
    percentiles(&other).success();
    let said = percentiles(cut).failure(3);
    assert!(said.contains("cannot be decided: an input ends in the middle, "), "{said}");
}

/// A folder of fio: two jobs of so many I/Os each, of which their logs have so many rows; without rows there is no log.
fn jobs(top: &Path, name: &str, rows: [usize; 2], error: i32) -> String {
    const IOS: usize = 1000;
    let folder = top.join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let job = |at: usize| {
        format!(
            r#"{{"jobname": "t{at}", "error": {error}, "job options": {{"write_lat_log": "A"}}, "job_runtime": 1000, "read": {{"total_ios": {IOS},
            "runtime": 1000, "clat_ns": {{"N": {IOS}, "min": 1, "max": 900000, "mean": 500000.0}}}}}}"#
        )
    };
    let all = [0, 1].map(job).join(", ");
    std::fs::write(folder.join("A.json"), format!("{{\"fio version\": \"fio-3.33\", \"jobs\": [{all}]}}\n")).unwrap();
    for (at, rows) in rows.into_iter().enumerate().filter(|(_, rows)| *rows > 0) {
        let row = |row: usize| {
            format!("{}, {}, 0, 4096, 0, 0\n", row + 1, 100_000 + row * 7919 % 300_000 + at + error as usize)
        };
        let text: String = (0..rows).map(row).collect();
        std::fs::write(folder.join(format!("A_clat.{}.log", at + 1)), text).unwrap();
    }
    folder.to_str().unwrap().to_string()
}

/// What fio's JSON counts, and no log has, is missing from all numbers.
#[test]
fn what_the_json_beside_the_logs_has_and_they_lack_may_be_slower() {
    let folder = tempfile::tempdir().unwrap();
    let whole = jobs(folder.path(), "whole", [1000, 1000], 0);
    for (name, rows, error, status, said) in [
        ("same", [1000, 999], 0, 0, "1 I/O that the JSON beside the log counts and no row has"),
        ("half", [1000, 500], 0, 3, "500 I/Os that the JSON beside the log counts and no row has"),
        ("one", [1000, 0], 0, 3, "the events of 1 job, host or file of the folder"),
        ("full", [1000, 1000], 28, 3, "for which fio reports an error"),
    ] {
        let other = jobs(folder.path(), name, rows, error);
        let ended = latscope(&["compare", &whole, &other, "--fail-if", "p90 slower by 50%"]);
        let printed = String::from_utf8_lossy(&ended.out).into_owned() + &ended.err;
        assert_eq!(ended.status, Some(status), "{name}: {}", ended.err);
        assert!(printed.contains(said), "{name}: {printed}");
        let ended = latscope(&["percentiles", "-r", &other, "-i", "1h", "--fail-if", "p90 > 1s"]);
        assert_eq!(ended.status, Some(status), "{name}: {}", ended.err);
        assert!(ended.err.contains(said), "{name}: {}", ended.err);
    }
}

#[test]
fn completions_whose_issue_was_lost_may_be_slower() {
    let folder = tempfile::tempdir().unwrap();
    let base = uneven(folder.path(), "base.txt", 0, 0, 0);
    let text = std::fs::read_to_string(&base).unwrap();
    let kept = |(at, line): &(usize, &str)| !(line.contains("_issue") && at % 40 == 0);
    let lines: Vec<&str> = text.lines().enumerate().filter(kept).map(|(_, line)| line).collect();
    let other = folder.path().join("lost.txt");
    std::fs::write(&other, lines.join("\n") + "\n").unwrap();
    let other = other.to_str().unwrap();
    let said = latscope(&["compare", &base, other, "--fail-if", "p99 slower by 100%"]).failure(3);
    assert!(said.contains("nobody knows the latencies of 5.00 % of the requests"), "{said}");
    let said = latscope(&["percentiles", "-r", other, "-i", "1h", "--fail-if", "p99 > 1s"]).failure(3);
    assert!(said.contains("cannot be decided: nobody knows the latencies of 500 requests"), "{said}");
}

/// Of one histogram nobody knows whether all waited for its slowest request.
#[test]
fn a_histogram_of_a_whole_run_has_no_standstill() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str, slow: u64| {
        let row = |at: u32| {
            let count = if (8..=10).contains(&at) {
                8000
            } else if at == 22 {
                slow
            } else {
                0
            };
            format!(
                "{:>10} -> {:<10} : {count:<8} |    |\n",
                if at == 0 { 0 } else { 1u64 << at },
                (1u64 << (at + 1)) - 1
            )
        };
        let path = folder.path().join(name);
        let text =
            format!("     usecs               : count     distribution\n{}", (0..23).map(row).collect::<String>());
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let (fast, slow) = (of("fast.txt", 0), of("slow.txt", 1));
    let said = latscope(&["compare", &fast, &slow, "--fail-if", "p50 slower by 10%"]).failure(3);
    assert!(!said.contains("no request of"), "{said}");
}

/// 99.9 % of a thousand is 999.
#[test]
fn ranks_are_those_of_decimal_percentages() {
    let folder = tempfile::tempdir().unwrap();
    let row = |at: u64| format!("{},{}\n", at * 2_000_000, if at == 500 { 1_000_000_000 } else { 1_000_000 });
    let of = |name: &str, from: u64| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("time_ns,latency_ns\n{}", (from..from + 1000).map(row).collect::<String>()))
            .unwrap();
        path.to_str().unwrap().to_string()
    };
    let (one, two) = (of("one.csv", 0), of("two.csv", 3));
    for (limit, status) in [("p99.9 > 10ms", 0), ("p99.91 > 10ms", 1)] {
        for exact in [None, Some("--exact")] {
            let words = ["percentiles", "-r", &one, "-i", "1h", "--count-by", "completion", "--fail-if", limit];
            assert_eq!(latscope(&[&words[..], exact.as_slice()].concat()).status, Some(status), "{limit} {exact:?}");
        }
    }
    let json = latscope(&["compare", &one, &two, "--p", "50,99.9", "--json"]).success();
    let json: Value = serde_json::from_str(&json).unwrap();
    let base = json["differences"][1]["base_ns"].as_f64().unwrap();
    assert!((900_000.0..1_100_000.0).contains(&base), "{json}");
}
