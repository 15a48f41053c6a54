//! Percentiles over time of whole files, against independent programs and against fio itself.

mod fio;

use crate::program::{Ended, latscope, testdata, unpacked};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The rows of CSV: values by the names of their columns.
fn table(csv: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let row = |line: &str| names.iter().map(|name| name.to_string()).zip(line.split(',').map(str::to_string)).collect();
    lines.map(row).collect()
}

fn number(row: &BTreeMap<String, String>, name: &str) -> f64 {
    row[name].parse().unwrap_or(f64::NAN)
}

/// `percentiles --csv` of these files.
fn csv<T: AsRef<Path>>(files: &[T], options: &[&str]) -> Ended {
    let mut arguments = vec!["percentiles", "--csv"];
    for file in files {
        arguments.extend(["-r", file.as_ref().to_str().unwrap()]);
    }
    arguments.extend(options);
    latscope(&arguments)
}

/// The logs of a run in `testdata`.
fn logs(folder: &str, names: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(testdata(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.file_name().is_some_and(|name| name.to_str().is_some_and(|name| name.starts_with(names))));
    files.sort();
    files
}

/// What the rows of histogram logs weigh in each interval and where their percentiles are, against a slow program in
/// Python that was written by itself from the definition (its output is in `testdata`).
#[test]
fn rows_of_histogram_logs_by_share() {
    for (run, width, unit_ns, how) in [
        ("A", 500, 1.0, "weighted"),
        ("A", 500, 1.0, "unweighted"),
        ("G", 500, 1000.0, "weighted"),
        ("H", 500, 1.0, "weighted"),
        ("ex", 100, 1.0, "weighted"),
    ] {
        let expected = std::fs::read_to_string(testdata(&format!("fio_hist/{run}.hist.{width}.{how}.csv"))).unwrap();
        let interval = format!("{width}ms");
        let files = logs("fio_hist", &format!("{run}_clat_hist"));
        let options = ["-i", &interval, "--p", "50,90,95,99", "--count-by=completion"];
        let rows = table(&csv(&files, if how == "weighted" { &options[..4] } else { &options }).success());
        assert_eq!(rows.len(), expected.lines().count(), "{run}");
        for (row, line) in rows.iter().zip(expected.lines()) {
            let line: Vec<f64> = line.split(", ").map(|text| text.parse().unwrap()).collect();
            assert_eq!(number(row, "time_ns"), line[0] * 1e6, "{run}");
            let count = number(row, "count");
            assert!((count - line[1]).abs() <= 1e-6 * line[1].max(1.0), "{run} {}: {count}, not {}", line[0], line[1]);
            for (name, expected) in ["p50_ns", "p90_ns", "p95_ns", "p99_ns"].iter().zip(&line[2..]) {
                let (value, expected) = (number(row, name), expected * unit_ns);
                // However few events support it.
                assert!((value / expected - 1.0).abs() <= 5e-4, "{run} {} {name}: {value}, not {expected}", line[0]);
            }
        }
    }
}

/// What every I/O weighs in each interval, and exact percentiles, against the same program in Python.
#[test]
fn exact_percentiles_of_logs_of_every_io() {
    for (run, unit_ns) in [("A", 1.0), ("G", 1000.0), ("H", 1.0)] {
        // Of Unix times the program's numbers held only quarters of a microsecond, so it was given those less a constant.
        let name = if run == "H" { "exact" } else { "weighted" };
        let expected = std::fs::read_to_string(testdata(&format!("fio_log/{run}.lat.500.{name}.csv"))).unwrap();
        let files = logs("fio_log", &format!("{run}_clat"));
        let rows = table(&csv(&files, &["-i", "500ms", "--p", "50,90,95,99", "--exact"]).success());
        assert_eq!(rows.len(), expected.lines().count(), "{run}");
        for (row, line) in rows.iter().zip(expected.lines()) {
            let line: Vec<f64> = line.split(", ").map(|text| text.parse().unwrap()).collect();
            assert!((number(row, "count") - line[1]).abs() <= 1e-6 * line[1], "{run} {}", line[0]);
            for (name, expected) in ["p50_ns", "p90_ns", "p95_ns", "p99_ns"].iter().zip(&line[2..]) {
                let value = number(row, name) / unit_ns;
                // To the digit that is printed there.
                let equal = (value - expected).abs() <= 0.0501;
                assert!(equal, "{run} {} {name}: {value}, not {expected}", line[0]);
            }
        }
    }
    let histograms = csv(&logs("fio_hist", "A_clat_hist"), &["--exact"]).failure(2);
    assert!(histograms.contains("has histograms, not events"), "{histograms}");
    let pipe = csv(&["-"], &["--exact"]).failure(2);
    assert!(pipe.contains("reads its input twice"), "{pipe}");
}

#[test]
fn what_looks_at_a_whole_trace_is_not_for_live_capture() {
    let printed = latscope(&["percentiles", "-s", "block", "--for", "1s", "--exact"]).failure(2);
    assert!(printed.contains("complete trace"), "{printed}");
}

/// 97 fast I/Os and three slow ones: by rank, p97 is fast and p98 slow. What is shown lies between two I/Os; what --fail-if judges
/// does not.
#[test]
fn exact_percentiles_are_judged_by_rank() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    let rows = (0..100).map(|row| format!("{},{}\n", row * 1000, if row % 33 == 32 { 10_000_000 } else { 1000 }));
    std::fs::write(&path, format!("time_ns,latency_ns\n{}", rows.collect::<String>())).unwrap();
    let run = |limit: &str, more: &[&str]| {
        let options = ["-i", "1s", "--p", "97,98", "--count-by", "completion", "--fail-if", limit];
        csv(&[&path], &[&options, more].concat())
    };
    for more in [&["--exact"][..], &[]] {
        let fine = run("p97 > 2us", more);
        assert_eq!(fine.status, Some(0), "{}", fine.err);
        assert!(fine.err.contains("latscope: p97 > 2us: in none of 1 interval."), "{}", fine.err);
        assert!(run("p98 > 2us", more).failure(1).contains("worst p98 = 10ms"));
    }
    let shown = table(&run("p97 > 2us", &["--exact"]).success());
    assert_eq!(number(&shown[0], "p97_ns"), (1000.0 + 10_000_000.0) / 2.0);
}

/// A chart that is narrower than its intervals are many, and one of more groups than have panels: what is exact stays exact,
/// and what is not says so.
#[test]
fn exact_percentiles_of_a_narrow_chart_and_of_many_groups() {
    let folder = tempfile::tempdir().unwrap();
    let draw = |files: &[PathBuf], options: &[&str]| {
        let picture = folder.path().join("p.svg");
        let names: Vec<_> = files.iter().flat_map(|file| ["-r", file.to_str().unwrap()]).collect();
        let out = ["-o", picture.to_str().unwrap(), "--exact", "--p", "50,95"];
        latscope(&[&["percentiles"][..], &names, options, &out].concat()).success();
        std::fs::read_to_string(&picture).unwrap()
    };
    let files = logs("fio_log", "A_clat");
    let svg = draw(&files, &["-i", "5ms", "--width", "200"]);
    assert!(svg.contains("interval 20ms (intervals of 5ms merged to fit 200 columns)"));
    let rows = table(&csv(&files, &["-i", "20ms", "--exact", "--p", "50,95"]).success());
    let tips = tips(&svg);
    assert_eq!(tips.len(), rows.len());
    for (tip, row) in tips.iter().zip(&rows) {
        let shown = latscope_event::format_duration(number(row, "p50_ns").round() as u64);
        assert!(tip.contains(&format!("p50 {shown}")), "{tip}, not {row:?}");
    }
    let text = unpacked("fio_log/A_clat.1.log.zst");
    let many: Vec<PathBuf> = (1..=16).map(|number| folder.path().join(format!("g_clat.{number}.log"))).collect();
    many.iter().for_each(|file| std::fs::write(file, &text).unwrap());
    let panels = draw(&many, &["-i", "1s", "--by", "job"]);
    assert!(panels.contains("others together (from buckets)"), "the rest has no percentiles of its own");
    assert!(!panels.contains("g.1 (from buckets)"));
}

/// The texts that a chart shows where the pointer rests, in the order in which they are drawn.
fn tips(svg: &str) -> Vec<&str> {
    svg.split("<title>").skip(1).filter_map(|part| part.split_once("</title>")).map(|tip| tip.0).collect()
}

/// Start and end of the interval of such a text, nanoseconds since the trace started.
fn span(tip: &str) -> (f64, f64) {
    let (from, to) = tip.lines().next().and_then(|line| line.split_once(" - ")).unwrap();
    let ns = |text: &str| latscope_event::parse_duration(text.trim_start_matches('-')).unwrap() as f64;
    (if from.starts_with('-') { -ns(from) } else { ns(from) }, ns(to))
}

/// Whatever the percentiles are taken from, the chart shows those of the table: a panel of everything, then the groups.
#[test]
fn a_chart_has_the_numbers_of_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("p.svg");
    let files = logs("fio_log", "A_clat");
    let every_500ms = ["-i", "500ms", "--by", "kind", "--all"];
    for (options, states) in [
        (&["--exact"][..], "exact percentiles of the events themselves"),
        (&["--percentile-rule", "fio"], "percentiles as in fio"),
        (&["--count-by=completion"], "interval 500ms"),
        (&["--accuracy", "20%"], "intervals of "),
        (&["--accuracy", "20%", "--exact"], "exact percentiles"),
        (&["-i", "auto"], "the shortest with 9,900 events"),
    ] {
        let auto = options[0] == "--accuracy" || options[0] == "-i";
        let every: &[&str] = if auto { &every_500ms[2..] } else { &every_500ms };
        let options = [every, options, &["--p", "50,95,99"]].concat();
        let rows = table(&csv(&files, &options).success());
        let names: Vec<_> = files.iter().flat_map(|file| ["-r", file.to_str().unwrap()]).collect();
        latscope(&[&["percentiles"], &names[..], &options, &["-o", picture.to_str().unwrap()]].concat()).success();
        let svg = std::fs::read_to_string(&picture).unwrap();
        assert!(svg.contains(states), "{options:?} do not say {states}");
        let tips = tips(&svg);
        let mut at = 0;
        for group in ["all", "read", "write"] {
            for row in rows.iter().filter(|row| row["kind"] == group) {
                let tip = tips.get(at).unwrap_or_else(|| panic!("{options:?}: {} tips only", tips.len()));
                let (from_ns, to_ns) = span(tip);
                let times = (number(row, "time_ns"), number(row, "width_ns"));
                assert_eq!((from_ns, to_ns - from_ns), times, "{options:?} {group}: {tip}");
                let mut values = Vec::new();
                for (name, key) in
                    [("p50", "p50_ns"), ("p95", "p95_ns"), ("p99", "p99_ns"), ("mean", "mean_ns"), ("max", "max_ns")]
                {
                    let value = number(row, key);
                    // Few events beyond a percentile make it doubtful.
                    let part = key.strip_prefix('p').map_or(0.0, |p| 1.0 - p[..2].parse::<f64>().unwrap() / 100.0);
                    let doubtful = if key.starts_with('p') && part.min(1.0 - part) * number(row, "count") < 10.0 - 1e-6
                    {
                        "?"
                    } else {
                        ""
                    };
                    if !value.is_nan() {
                        let shown = latscope_event::format_duration(value.round() as u64);
                        values.push(format!("{name} {shown}{doubtful}"));
                    }
                }
                assert_eq!(tip.lines().last().unwrap(), values.join(", "), "{options:?} {group}");
                at += 1;
            }
        }
        assert_eq!((at, rows.len()), (tips.len(), tips.len()), "{options:?}");
    }
}

/// Log, table, chart and CSV have one zero: the start of the job where the log counts from it, whenever its first I/O
/// ended; of Unix times the table has the time of day, and the chart counts from the first interval.
#[test]
fn a_moment_has_one_name_in_table_chart_and_csv() {
    let folder = tempfile::tempdir().unwrap();
    let log = |name: &str, first_ms: u64, row_ns: u64| {
        let row = |at: u64| format!("{}, {}, 0, 4096, 0\n", first_ms + 5 * at, if at == 0 { row_ns } else { 350_000 });
        let file = folder.path().join(name);
        std::fs::write(&file, (0..500).map(row).collect::<String>()).unwrap();
        file
    };
    let stall = testdata("stall/stall_clat.log.zst");
    let epoch = log("epoch_clat.1.log", 1_790_000_000_300, 1_000_000);
    let names = ["late_clat.1.log", "first_clat.1.log", "long_clat.1.log"];
    let [late, first, long] = [(5_001, 1_000), (5_000, 4_500_000_000), (120_000, 100_000_000_000)]
        .into_iter()
        .zip(names)
        .map(|((ms, ns), name)| log(name, ms, ns))
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    for (file, from_s) in [(stall, 0), (late, 5), (first, 0), (long, 20), (epoch, 0)] {
        let picture = folder.path().join("p.svg");
        let (file, picture) = (file.to_str().unwrap(), picture.to_str().unwrap());
        let run = |more: &[&str]| latscope(&[&["percentiles", "-r", file, "-i", "1s"], more].concat()).success();
        run(&["-o", picture]);
        let svg = std::fs::read_to_string(picture).unwrap();
        let (rows, text) = (table(&run(&["--csv"])), run(&[]));
        let shown: Vec<&str> = rows_of(&text).skip(1).map(|line| line.split_whitespace().next().unwrap()).collect();
        let tips = tips(&svg);
        assert_eq!((tips.len(), shown.len()), (rows.len(), rows.len()), "{file}");
        let zero_ns = if file.contains("epoch") { number(&rows[0], "time_ns") } else { 0.0 };
        for (at, ((tip, row), shown)) in tips.iter().zip(&rows).zip(shown).enumerate() {
            let since_ns = number(row, "time_ns") - zero_ns;
            let elapsed = |ns: f64| latscope_event::format_elapsed(ns as u64, 1_000_000_000);
            let span = format!("{} - {}", elapsed(since_ns), elapsed(since_ns + 1e9));
            let (reported, wall) =
                tip.lines().next().unwrap().split_once(" (").unwrap_or((tip.lines().next().unwrap(), ""));
            assert_eq!(reported, span, "{file} {row:?}");
            match wall {
                "" => assert_eq!(shown, format!("{}s", since_ns / 1e9), "{file} {row:?}"),
                wall => assert_eq!(shown, wall.trim_end_matches(')'), "{file} {row:?}"),
            }
            if at == 0 {
                assert_eq!(since_ns, f64::from(from_s) * 1e9, "{file}");
            }
        }
        // The axis starts with a label, not in the middle of the picture.
        let labels: Vec<f64> = svg
            .split(">elapsed</text>")
            .next()
            .and_then(|above| above.rsplit("<g text-anchor=\"middle\">").next())
            .map(|labels| {
                labels.split("<text x=\"").skip(1).map(|text| text.split('"').next().unwrap().parse().unwrap())
            })
            .unwrap()
            .collect();
        assert!(labels.len() >= 2 && labels[0] <= 84.0 + 100.0, "{file}: labels at {labels:?}");
    }
}

/// What is read off a table can be asked for: filters and events count from the same zero.
#[test]
fn filters_and_events_count_from_the_zero_of_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("late_clat.1.log");
    std::fs::write(&file, (0..300).map(|at| format!("{}, 350000, 0, 4096, 0\n", 5_001 + 10 * at)).collect::<String>())
        .unwrap();
    let of = |verb: &str, more: &[&str]| latscope(&[&[verb, "-r", file.to_str().unwrap()], more].concat()).success();
    let reported =
        |text: &str| rows_of(text).skip(1).map(|line| line.split_whitespace().next().unwrap().into()).collect();
    let times: Vec<String> = reported(&of("percentiles", &["-i", "1s", "evt.time >= +6s and evt.time < +7s"]));
    assert_eq!(times, ["6s"]);
    let times: Vec<String> = reported(&of("events", &["evt.time < +5.01s"]));
    let first = latscope_event::parse_duration(&times[0]).unwrap();
    assert_eq!((times.len(), first / 1_000_000), (1, 5_001), "{times:?}");
}

/// Files in any order, and the same lines in one file or in several, are the same to the last digit.
#[test]
fn how_logs_are_cut_into_files_does_not_matter() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, name) in [("fio_log", "clat"), ("fio_hist", "clat_hist")] {
        let mut files = logs(kind, &format!("A_{name}"));
        let options = ["-i", "500ms", "--by", "kind", "--all"];
        let once = csv(&files, &options).success();
        assert!(["read,", "write,", "all,"].iter().all(|line| once.contains(line)), "{once}");
        files.reverse();
        assert_eq!(csv(&files, &options).success(), once, "{name}: in another order");
        let texts: Vec<Vec<u8>> =
            files.iter().map(|file| zstd::decode_all(std::fs::File::open(file).unwrap()).unwrap()).collect();
        let all = folder.path().join(format!("A_{name}.log"));
        std::fs::write(&all, texts.concat()).unwrap();
        assert_eq!(csv(&[&all], &options).success(), once, "{name}: all in one file");
        if name == "clat" {
            let text = &texts[0];
            let cut = text.len() / 2 + text[text.len() / 2..].iter().position(|&byte| byte == b'\n').unwrap() + 1;
            let halves = [&text[..cut], &text[cut..]].map(<[u8]>::to_vec);
            let mut parts: Vec<PathBuf> = files[1..].to_vec();
            for (at, half) in halves.iter().enumerate() {
                parts.push(folder.path().join(format!("half{at}_clat.1.log")));
                std::fs::write(&parts[parts.len() - 1], half).unwrap();
            }
            assert_eq!(csv(&parts, &options).success(), once, "one log in two files");
        }
    }
}

/// Two hosts that count from their own start: known from JSON, given, or not known.
#[test]
fn hosts_are_laid_on_one_clock() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["A", "B"].map(|host| folder.path().join(format!("ex_clat_hist.1.log.host{host}")));
    for (file, host) in files.iter().zip(["A", "B"]) {
        std::fs::write(file, unpacked(&format!("fio_hist/ex_clat_hist.1.log.host{host}.zst"))).unwrap();
    }
    let options = ["-i", "100ms", "--by", "host"];
    let ended = csv(&files, &options);
    assert!(ended.err.contains("logs of unknown start"), "{}", ended.err);
    let alone = |csv: &str, host: &str, by_ms: f64| {
        let mut rows = table(csv);
        rows.retain(|row| row["host"] == host);
        rows.iter()
            .map(|row| (number(row, "time_ns") / 1e6 + by_ms, row["count"].clone(), row["p50_ns"].clone()))
            .collect::<Vec<_>>()
    };
    let unmoved = ended.success();
    let assert_moved = |moved: &str, by_ms: [f64; 2]| {
        for (host, by_ms) in ["hostA", "hostB"].iter().zip(by_ms) {
            assert_eq!(alone(moved, host, 0.0), alone(&unmoved, host, by_ms), "{host}");
        }
    };
    let offsets = folder.path().join("offsets");
    std::fs::write(&offsets, "# started by pdsh\nhostA 500\nhostB:ex.1 -200ms\n").unwrap();
    let given = csv(&files, &[&options[..], &["--offsets", offsets.to_str().unwrap()]].concat());
    assert!(!given.err.contains("start is not known"), "{}", given.err);
    assert_moved(&given.success(), [500.0, -200.0]);
    // As fio writes it from 3.36 on.
    let job = |host: &str, start: u64| format!(r#"{{"jobname": "ex", "hostname": "{host}", "job_start": {start}}}"#);
    let jobs = [job("hostB", 1_795_225_119_500), job("hostA", 1_795_225_119_200)].join(",");
    let run = format!(r#"{{"fio version": "fio-3.42", "client_stats": [{jobs}]}}"#);
    std::fs::write(folder.path().join("run.json"), run).unwrap();
    let known = csv(&files, &options);
    assert!(!known.err.contains("start is not known"), "{}", known.err);
    assert_moved(&known.success(), [1_795_225_119_200.0, 1_795_225_119_500.0]);
    // Events are moved in the same way, and what is typed goes before what is found.
    let log = folder.path().join("run_clat.1.log.hostA");
    std::fs::write(&log, "10, 2000000, 0, 4096, 0\n").unwrap();
    let row = |options: &[&str]| table(&csv(&[&log], &[&["-i", "1ms"], options].concat()).success()).remove(0);
    assert_eq!(number(&row(&[]), "time_ns"), 1_795_225_119_208e6);
    assert_eq!(number(&row(&["--offsets", offsets.to_str().unwrap()]), "time_ns"), 508e6);
    std::fs::write(&offsets, "hostA soon\n").unwrap();
    let wrong = csv(&files, &["--offsets", offsets.to_str().unwrap()]).failure(3);
    assert!(wrong.contains("offsets:1: The offset is not a number of milliseconds"), "{wrong}");
}

/// Intervals as long as an accuracy asks; and what the end of a log leaves open.
#[test]
fn intervals_that_have_enough_events() {
    let files = logs("fio_log", "A_clat");
    let rows =
        table(&csv(&files, &["-i", "auto", "--accuracy", "20%", "--p", "95", "--count-by=completion"]).success());
    // 0.95/(0.05 * 0.2^2) events are needed; 7200 there are.
    let counts: Vec<f64> = rows.iter().map(|row| number(row, "count")).collect();
    assert!(
        rows.len() > 10 && counts[..rows.len() - 1].iter().all(|&count| (475.0..500.0).contains(&count)),
        "{counts:?}"
    );
    let mut next = number(&rows[0], "time_ns");
    for row in &rows {
        assert_eq!(number(row, "time_ns"), next, "one after the other");
        next += number(row, "width_ns");
    }
    let wrong = csv(&files, &["-i", "1s", "--accuracy", "10%"]).failure(2);
    assert!(wrong.contains("--accuracy needs -i auto"), "{wrong}");
    // The last completion is at 3 s, and the longest took less than half an interval.
    let rows = table(&csv(&files, &["-i", "500ms"]).success());
    let incomplete: Vec<&str> = rows.iter().map(|row| row["incomplete"].as_str()).collect();
    assert_eq!(incomplete, ["false", "false", "false", "false", "false", "true", "true"]);
    assert!(
        rows.iter()
            .all(|row| (number(row, "trusted_p") - (100.0 - 1000.0 / number(row, "count")).max(0.0)).abs() < 1e-3)
    );
}

/// A stall of 3.5 seconds that we made: while it lasts, eight I/Os are in flight, and whoever counts completions sees nothing.
#[test]
fn a_stall_is_seen_while_it_lasts() {
    let file = testdata("stall/stall_clat.log.zst");
    let weighted = table(&csv(&[&file], &["-i", "1s", "--p", "50"]).success());
    assert_eq!(weighted.len(), 12);
    for row in &weighted[4..7] {
        // Eight that took 3.6 s, of which a second lies here.
        assert!((number(row, "count") - 8.0 / 3.6).abs() < 0.01 && number(row, "p50_ns") > 3.5e9, "{row:?}");
    }
    let unweighted = table(&csv(&[&file], &["-i", "1s", "--p", "50", "--count-by=completion"]).success());
    assert_eq!(unweighted.len(), 12);
    for (at, row) in unweighted.iter().enumerate() {
        let (count, median) = (number(row, "count"), number(row, "p50_ns"));
        assert!(if (4..7).contains(&at) { count == 0.0 && median.is_nan() } else { median < 1e6 }, "{row:?}");
    }
    // In a stall the high percentiles are what matters, though few events support them: they stand in the table with a mark, as
    // numbers in CSV and JSON, and in the chart with its axis and its legend. Of the log, awk says that eight I/Os took
    // longer than a second, 3.590830016 s to 3.604314839 s.
    let asked = ["-i", "1s", "--p", "50,90,95,99", "--exact"];
    for row in &table(&csv(&[&file], &asked).success())[4..7] {
        for key in ["p50_ns", "p90_ns", "p95_ns", "p99_ns", "max_ns"] {
            assert!((3_590_830_016.0..=3_604_314_839.0).contains(&number(row, key)), "{key}: {row:?}");
        }
        assert!(number(row, "p50_ns") < number(row, "p95_ns") && number(row, "trusted_p") == 0.0, "{row:?}");
    }
    let shown = |more: &[&str]| {
        latscope(&[&["percentiles", "-r", &file.to_string_lossy()], &asked[..], more].concat()).success()
    };
    let text = shown(&[]);
    assert_eq!(text.lines().filter(|line| line.matches(" 3.6s?").count() == 4).count(), 3, "{text}");
    let json = shown(&["--json"]);
    assert!(!text.contains(" - ") && !json.replace("\"oldest_ns\":null", "").contains("null"), "{json}");
    for (options, legend) in
        [(&[][..], [">p50 ", ">p99 "]), (&["--p", "95", "--by", "job"], [">p95 of all ", ">stall.1 "])]
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stall.svg").to_string_lossy().into_owned();
        latscope(&[&["percentiles", "-r", &file.to_string_lossy(), "-o", &path, "-i", "1s"], options].concat())
            .success();
        let svg = std::fs::read_to_string(&path).unwrap();
        for name in legend {
            let key = svg.split(name).nth(1).unwrap().split('<').next().unwrap();
            assert!(key.ends_with("- 3.6s"), "{options:?} {name}: {key}");
        }
        assert!(svg.contains(">2s</text>"), "the axis has room for it");
    }
    // A service level is not kept in a stall, however few events there are in it.
    let level = |options: &[&str]| latscope(&[&["percentiles", "-r", &file.to_string_lossy()], options].concat());
    let printed = level(&["-i", "1s", "--fail-if", "p95 > 1s or p99 > 5s"]).failure(1);
    assert!(
        printed.contains("p95 > 1s or p99 > 5s in 3 of 12 intervals, worst p95 = 3.6s at 4s (2.22 events)."),
        "{printed}"
    );
    let printed = level(&["-i", "1s", "--count-by=completion", "--fail-if", "count < 1 for 3 intervals"]).failure(1);
    assert!(printed.contains("count < 1 for 3 intervals in a row, held in 3 of 12 intervals, reached first at 6s (0 events), worst count = 0 at 4s (0 events)."), "{printed}");
    level(&["-i", "1s", "--count-by=completion", "--fail-if", "count < 1 for 4 intervals"]).success();
    let printed = level(&["kind = read", "--csv", "--fail-if", "p95 > 1s"]).failure(3);
    assert!(printed.contains("There are no events, so --fail-if cannot be judged."), "{printed}");
}

/// The heading and the rows of a table, without the lines below it that explain its marks.
fn rows_of(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !["? ", ">= ", "+ ", "* "].iter().any(|mark| line.starts_with(mark)))
}

/// Where and how long the ends of a trace are: 300 I/Os a second, logged with `log_unix_epoch`, from .6 s to .4 s.
#[test]
fn a_constant_rate_is_constant_at_the_ends_too() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("run_clat.1.log");
    let start_ms = 1_795_225_000_600u64;
    let rows = (0..300 * 48 / 10).map(|at| format!("{}, 100000, 0, 4096, 0, 0\n", start_ms + at * 10 / 3));
    std::fs::write(&log, rows.collect::<String>()).unwrap();
    for condition in ["rate < 250", "rate > 350", "count < 250"] {
        csv(&[&log], &["-i", "1s", "--fail-if", condition]).success();
    }
    let rows = table(&csv(&[&log], &["-i", "1s"]).success());
    let covered: Vec<f64> = rows.iter().map(|row| number(row, "covered_ns") / 1e9).collect();
    for (covered, expected) in covered.iter().zip([0.4, 1.0, 1.0, 1.0, 1.0, 0.4]) {
        assert!((covered - expected).abs() < 0.01, "{covered}, not {expected}");
    }
    assert_eq!(rows.len(), 6);
    for row in &rows {
        assert!((number(row, "rate_per_s") - 300.0).abs() < 5.0, "{row:?}");
        assert_eq!(row["incomplete"] == "true", number(row, "covered_ns") < 9.9e8, "{row:?}");
    }
    let text = latscope(&["percentiles", "-i", "1s", "-r", log.to_str().unwrap()]).success();
    assert_eq!(text.matches("/s*").count(), 2, "{text}");
}

/// The last I/O of a run completes a few milliseconds after its end: no interval of its own, except for a stall.
#[test]
fn a_few_milliseconds_behind_the_end_decide_nothing_alone() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("run_clat.1.log");
    let write = |behind: &[(u64, u64)]| {
        // 200 a second of 500 us for three seconds, from one second on.
        let rows = (200..800).map(|at| (at * 5, 500_000)).chain(behind.iter().copied());
        let rows = rows.map(|(ms, ns)| format!("{ms}, {ns}, 0, 4096, 0, 0\n"));
        std::fs::write(&log, rows.collect::<String>()).unwrap();
    };
    let judge = |by: &str, condition: &str| csv(&[&log], &["-i", "1s", "--count-by", by, "--fail-if", condition]);
    write(&[(4004, 18_000_000)]);
    for by in ["overlap", "completion"] {
        let rows = table(&judge(by, "p99 > 10ms").success());
        assert!(rows.len() == 4 && number(&rows[3], "covered_ns") < 1e7, "the row stays: {rows:?}");
        assert!(number(&rows[3], "p99_ns") > 1e7, "{rows:?}");
        judge(by, "p99 > 10ms or max > 18ms").success();
        judge(by, "max > 17ms").failure(1);
    }
    // Thirty that hang from 3.5 s on and come back at 4.004 s.
    write(&[(4004, 504_000_000); 30]);
    for by in ["overlap", "completion"] {
        let printed = judge(by, "p99 > 100ms").failure(1);
        assert!(printed.contains("p99 > 100ms in ") && printed.contains(", worst p99 = 50"), "{printed}");
    }
}

/// Where the JSON counts as many I/Os as the logs hold, nothing was in flight at the end.
#[test]
fn a_stall_is_complete_where_all_of_it_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("run_clat.1.log");
    let (file, chart) = (log.to_str().unwrap(), folder.path().join("run.svg"));
    // 100 a second for ten seconds; at 6 s one that took four.
    let row = |at: u64| format!("{}, {}, 0, 4096, 0, 0\n", at * 10, if at == 600 { 4_000_000_000u64 } else { 100_000 });
    std::fs::write(&log, (1..1000).map(row).collect::<String>()).unwrap();
    for (counted, open) in [(None, 5), (Some(999), 0), (Some(1000), 5)] {
        if let Some(ios) = counted {
            let json = format!(
                r#"{{"fio version": "fio-3.33", "global options": {{"write_lat_log": "run"}}, "jobs": [{{"jobname": "a", "read":
                {{"total_ios": {ios}, "clat_ns": {{"N": {ios}}}}}}}]}}"#
            );
            std::fs::write(folder.path().join("run.json"), json).unwrap();
        }
        let text = latscope(&["percentiles", "-i", "1s", "-r", file]).success();
        assert_eq!(rows_of(&text).filter(|line| line.contains('+')).count(), open, "{counted:?}: {text}");
        assert_eq!(text.contains("\n+ the trace may lack events"), open > 0, "{counted:?}: {text}");
        latscope(&["percentiles", "-i", "1s", "-r", file, "-o", chart.to_str().unwrap()]).success();
        let svg = std::fs::read_to_string(&chart).unwrap();
        assert_eq!(svg.contains("fill=\"url(#open)\""), open > 0, "{counted:?}");
    }
}

/// The events of a stall are few, so an interval that takes many would hide it.
#[test]
fn intervals_that_have_enough_events_do_not_hide_a_stall() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("run_clat.1.log");
    // 300 a second; from 2.5 s to 4.5 s nothing but two that hang.
    let fast = (1..2000).map(|at| at * 10 / 3).filter(|ms| !(2500..4500).contains(ms));
    let mut rows: Vec<(u64, u64)> = fast.map(|ms| (ms, 5_000_000)).collect();
    rows.extend([(4500, 2_000_000_000); 2]);
    rows.sort();
    let rows = rows.iter().map(|(ms, ns)| format!("{ms}, {ns}, 0, 4096, 0, 0\n"));
    std::fs::write(&log, rows.collect::<String>()).unwrap();
    let auto = ["-i", "auto", "--accuracy", "10%", "--p", "95"];
    let rows = table(&csv(&[&log], &auto).success());
    let stalled: Vec<_> = rows.iter().filter(|row| number(row, "p95_ns") > 1.9e9).collect();
    assert_eq!((rows.len(), stalled.len()), (3, 1), "{rows:?}");
    let (from, length) = (number(stalled[0], "time_ns"), number(stalled[0], "width_ns"));
    assert!((from - 2.5e9).abs() < 0.1e9 && (length - 2e9).abs() < 0.1e9, "{stalled:?}");
    assert!((rows.iter().map(|row| number(row, "count")).sum::<f64>() - 1401.0).abs() < 3.0);
    csv(&[&log], &[&auto[..], &["--fail-if", "p95 > 1s"]].concat()).failure(1);
    // By completion the stall is silence, and what comes back behind it.
    let rows = table(&csv(&[&log], &[&auto[..], &["--count-by=completion"]].concat()).success());
    assert!(rows.iter().any(|row| number(row, "p95_ns") > 1.9e9 && number(row, "width_ns") > 1.9e9), "{rows:?}");
}
