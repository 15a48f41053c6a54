//! `compare` as a user runs it, on two volumes of known delays.

use crate::picture::xml;
use crate::program::{LATSCOPE, command, end, installed, latscope, latscope_with, root, testdata};
use serde_json::Value;
use std::path::Path;

fn volume(name: &str) -> String {
    testdata("compare").join(format!("{name}.txt")).to_str().unwrap().to_string()
}

fn compare(more: &[&str]) -> crate::program::Ended {
    let (a, b) = (volume("volA"), volume("volB"));
    latscope(&[&["compare", &a, &b, "--unitstime", "ns", "--names", "gp2,gp3"], more].concat())
}

/// The second column, ascending.
fn latencies(name: &str) -> Vec<f64> {
    let text = std::fs::read_to_string(volume(name)).unwrap();
    let mut values: Vec<f64> = text.lines().map(|line| line.split(' ').nth(1).unwrap().parse().unwrap()).collect();
    values.sort_by(f64::total_cmp);
    values
}

#[test]
fn two_volumes_are_distinguished_by_what_they_are() {
    let json: Value = serde_json::from_str(&compare(&["--json"]).success()).unwrap();
    // The text books' formulas, on the same files.
    for (side, name) in [(&json["sides"][0], "volA"), (&json["sides"][1], "volB")] {
        let values = latencies(name);
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let sd = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt();
        let rank = |quantile: f64| values[(quantile * n).ceil() as usize - 1];
        for (key, truth) in [("mean_ns", mean), ("sd_ns", sd), ("p50_ns", rank(0.5)), ("p99_ns", rank(0.99))] {
            let reported = side[key].as_f64().unwrap();
            assert!((reported / truth - 1.0).abs() < 1e-9, "{name} {key}: {reported} {truth}");
        }
    }
    // What another program found of the same files with a bootstrap of its own (numpy): differences and 95 % intervals in us. It took
    // requests to be independent; ours are wider by what they resemble their neighbours, by a third at most.
    let row = |measure: &str| {
        let rows = json["differences"].as_array().unwrap();
        rows.iter().find(|row| row["measure"] == measure).unwrap()
    };
    let us = |row: &Value, key: &str| row[key].as_f64().unwrap() / 1e3;
    for (measure, difference, low, high) in
        [("p50", 159.7, 142.7, 173.6), ("p90", 329.0, 285.0, 366.0), ("mean", 186.0, 165.0, 208.0)]
    {
        let row = row(measure);
        assert!((us(row, "difference_ns") - difference).abs() < 2.0, "{measure}: {row}");
        let ratio = (us(row, "high_ns") - us(row, "low_ns")) / (high - low);
        assert!((0.9..1.34).contains(&ratio), "{measure}: {ratio} {row}");
        assert!(us(row, "low_ns") < low + 5.0 && us(row, "high_ns") > high - 5.0, "{measure}: {row}");
        assert_eq!(row["finding"], "slower");
    }
    assert!((row("chance")["other"].as_f64().unwrap() - 0.786).abs() < 1e-3);
    assert!(json["verdicts"][0].as_str().unwrap().starts_with("gp3 is slower than gp2 at the median by 160us ["));
}

#[test]
fn a_limit_is_an_exit_status() {
    let printed = compare(&["--fail-if", "p50 > 10% or mean > 1ms"]).failure(1);
    assert!(printed.contains("p50 > 10%: limit exceeded, gp3 is slower than gp2."), "{printed}");
    compare(&["--fail-if", "p50 > 100%"]).success();
    assert!(compare(&["--fail-if", "p50 < 1ms"]).failure(2).contains("is not a limit"));
    assert!(compare(&["--p", "0"]).failure(2).contains("percentiles between 0 and 100"));
    assert!(
        latscope(&["compare", &volume("volA"), "--fail-if", "p50 > 1%"])
            .failure(2)
            .contains("needs at least two sides: two traces, or one divided by --by")
    );
}

#[test]
fn what_is_undecided_is_no_success() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, us: u64| {
        let path = folder.path().join(name);
        let line = |at: u64| format!("{} {}\n", at * 10_000_000, us * 1000 + at * 7919 % 100_000);
        std::fs::write(&path, (0..500).map(line).collect::<String>()).unwrap();
        path.to_str().unwrap().to_string()
    };
    let (a, b) = (file("a.txt", 400), file("b.txt", 4000));
    let compare = |limit: &str| latscope(&["compare", &a, &b, "--unitstime", "ns", "--fail-if", limit]);
    // Ten times slower, but five hundred requests support no p99.
    let printed = compare("p99 > 10%").failure(3);
    assert!(
        printed.contains(
            "--fail-if cannot be decided: the data do not show whether b.txt is slower than a.txt by more than the limit: \
             p99 > 10% (no interval); measure longer"
        ),
        "{printed}"
    );
    compare("p99 > 10% or p50 > 10%").failure(1);
    compare("p99 > 10% and (p50 > 10000% or p90 > 10000%)").success();
}

#[test]
fn one_trace_is_divided_into_sides() {
    let story = testdata("perf_script/story_2s.txt.gz");
    let story = story.to_str().unwrap();
    let json = |words: &[&str]| -> Value {
        serde_json::from_str(&latscope(&[&["compare", story, "--json"], words].concat()).success()).unwrap()
    };
    let counts = |json: &Value| -> Vec<(String, u64)> {
        let side = |side: &Value| (side["name"].as_str().unwrap().to_string(), side["count"].as_u64().unwrap());
        json["sides"].as_array().unwrap().iter().map(side).collect()
    };
    // What another view counts of the same groups.
    let csv = latscope(&["events", "-r", story, "--csv", "--columns", "kind"]).success();
    let count = |kind: &str| csv.lines().filter(|line| *line == kind).count() as u64;
    let mut truth: Vec<(String, u64)> = ["read", "write", "flush", "discard", "trim", "sync", "other"]
        .iter()
        .map(|kind| (kind.to_string(), count(kind)))
        .filter(|(_, count)| *count > 0)
        .collect();
    truth.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    assert_eq!(counts(&json(&["--by", "kind"])), truth);
    let sides = counts(&json(&["--filter", "kind = read", "--filter", "kind = write"]));
    assert_eq!(sides, [("kind = read".into(), count("read")), ("kind = write".into(), count("write"))]);
    let usage = |words: &[&str]| latscope(&[&["compare"], words].concat()).failure(2);
    assert!(usage(&[story, story, "--by", "kind"]).contains("--by divides a single trace"));
    assert!(usage(&[story, story, "--filter", "lat > 1s", "--filter", "lat > 2s"]).contains("divide a single trace"));
}

#[test]
fn the_same_is_the_same() {
    let a = volume("volA");
    // The same latencies at other times.
    let folder = tempfile::tempdir().unwrap();
    let later = folder.path().join("later.txt");
    let line = |line: &str| {
        let (time, latency) = line.split_once(' ').unwrap();
        format!("{} {latency}\n", time.parse::<u64>().unwrap() + 1_000_000_000)
    };
    std::fs::write(&later, std::fs::read_to_string(&a).unwrap().lines().map(line).collect::<String>()).unwrap();
    let later = later.to_str().unwrap();
    let json = || latscope(&["compare", &a, later, "--unitstime", "ns", "--json", "--seed", "7"]).success();
    let (first, second) = (json(), json());
    assert_eq!(first, second, "the seed decides");
    let json: Value = serde_json::from_str(&first).unwrap();
    let verdict = json["verdicts"][0].as_str().unwrap();
    assert!(
        verdict.starts_with("later.txt against volA.txt: no difference at the median; undecided at p90, "),
        "{json}"
    );
    // The median is known within 5 %, the p90 is not.
    let band = json["equivalence"].as_f64().unwrap();
    for (at, word) in [(0, "no difference"), (1, "undecided")] {
        let row = &json["differences"][at];
        let end = |key: &str| row[key].as_f64().unwrap().abs() / row["base_ns"].as_f64().unwrap();
        let is_within = end("joint_low_ns").max(end("joint_high_ns")) <= band;
        assert_eq!((row["finding"].as_str(), is_within), (Some(word), at == 0), "{row}");
    }
    assert_eq!(json["unlike"].as_array().unwrap().len(), 0, "{json}");
    let csv = compare(&["--csv"]).success();
    assert!(csv.starts_with("other,base,measure,base_value,") && csv.lines().count() == 7, "{csv}");
}

#[test]
fn unlike_things_are_named_before_anything_else() {
    let story = testdata("perf_script/story_2s.txt.gz");
    let text = latscope(&["compare", &volume("volA"), story.to_str().unwrap(), "--unitstime", "ns"]).success();
    let (before, _) = text.split_once("difference").unwrap();
    for words in [
        "unlike: source: two columns (volA.txt), perf script (story_2s.txt.gz)",
        "unlike: interval between requests: 10ms (volA.txt), ",
        "unlike: number of requests: 999 (volA.txt), 16,906 (story_2s.txt.gz)",
        "unlike: records lost: 0 (volA.txt), 6 (story_2s.txt.gz)",
    ] {
        assert!(before.contains(words), "{words}:\n{before}");
    }
    // What one of them does not give is one line below the table, however much it is.
    assert!(!before.contains("unknown"), "{before}");
    let notes: Vec<&str> = text.lines().filter(|line| line.contains("unknown for some sides")).collect();
    assert!(notes.len() == 1 && notes[0].contains("kind") && notes[0].contains("size"), "{text}");
}

#[test]
fn stored_histograms_are_compared_too() {
    let folder = tempfile::tempdir().unwrap();
    let series = |name: &str| {
        let path = folder.path().join(format!("{name}.parquet"));
        let path = path.to_str().unwrap().to_string();
        latscope(&["convert", "-f", "-r", &volume(name), "--unitstime", "ns", "-w", &path, "--series", "-i", "20ms"])
            .success();
        path
    };
    let text = latscope(&["compare", &series("volA"), &series("volB")]).success();
    assert!(text.contains("volB.parquet is slower than volA.parquet at the median by 1"), "{text}");
    assert!(text.contains("compared by histograms"), "{text}");
    let text = latscope(&["compare", &volume("volA"), &series("volB"), "--unitstime", "ns"]).success();
    assert!(text.contains("unlike: compared by: single events (volA.txt), histograms (volB.parquet)"), "{text}");
}

/// A file of 300 requests about this latency.
fn run_of(folder: &Path, name: &str, us: u64) -> String {
    let line = |at: u64| format!("{} {}\n", at * 10_000_000, us * 1000 + (at * 7919) % 1000);
    let path = folder.join(name);
    std::fs::write(&path, (0..300).map(line).collect::<String>()).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn several_runs_a_side_are_compared_by_their_runs() {
    let folder = tempfile::tempdir().unwrap();
    let group = |name: &str, levels: &[u64]| {
        let runs = levels.iter().enumerate().map(|(at, &us)| run_of(folder.path(), &format!("{name}{at}.txt"), us));
        format!("{name}={}", runs.collect::<Vec<_>>().join(","))
    };
    let compare = |old: &[u64], new: &[u64], more: &[&str]| {
        let (old, new) = (group("old", old), group("new", new));
        latscope(&[&["compare", "--group", &old, "--group", &new, "--unitstime", "ns", "--p", "50,90"], more].concat())
    };
    // One run of each alone is distinguished; of four runs that differ by more than the sides nobody knows.
    let text = compare(&[400, 900, 500, 700], &[450, 950, 520, 800], &[]).success();
    assert!(text.contains("Undecided whether new is slower or faster than old (at the median"), "{text}");
    assert!(text.contains("each turn"), "{text}");
    let words: Vec<&str> = text.split_whitespace().collect();
    let reported = "turns of old differ by more than the sides: p50 401us, 901us, 501us, 701us.";
    assert!(words.join(" ").contains(reported), "{text}");
    let text = compare(&[400, 420, 410, 405], &[800, 840, 810, 820], &[]).success();
    assert!(text.contains("new is slower than old at the median by 4"), "{text}");
    let json: Value = serde_json::from_str(&compare(&[400, 420], &[800, 840], &["--json"]).success()).unwrap();
    assert_eq!(json["sides"][1]["turns"].as_array().unwrap().len(), 2);
    let p50 = json["sides"][1]["turns"][1]["p50_ns"].as_f64().unwrap();
    assert!((840e3..841e3).contains(&p50), "{p50}");
    let usage = |words: &[&str]| latscope(&[&["compare"], words].concat()).failure(2);
    assert!(usage(&["--group", "a.lat", "--group", "b=c.lat"]).contains("--group a.lat has no name"));
    assert!(usage(&["--group", "a=a.lat"]).contains("at least twice"));
    // Of two sides of one name nobody knows which is slower.
    assert!(usage(&["--group", "a=a.lat", "--group", "a=b.lat"]).contains("--group a is given twice; give all"));
    assert!(usage(&["a.lat", "b.lat", "--names", "x,x"]).contains("--names has x twice; give each trace a name of"));
}

#[test]
fn the_picture_states_its_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.svg");
    for more in [&[][..], &["--dark", "--title", "<Volumes>", "--filter", "lat < 10s"]] {
        let text = compare(&[&["-o", path.to_str().unwrap()], more].concat()).success();
        assert!(text.contains("gp3 is slower"), "the table is there, too");
        let svg = std::fs::read_to_string(&path).unwrap();
        xml::check(&svg).unwrap();
        for words in [
            ">minimum 227us, average 454us, maximum 2.72ms, standard deviation 185us<",
            ">minimum 246us, average 640us, maximum 3.76ms, standard deviation 292us<",
            ">gp2: 999 events (50.0 %)<",
            ">Tail<",
            "+160us [+140us, +175us]: slower",
        ] {
            assert!(svg.contains(words), "{words}");
        }
        assert!(svg.len() < 300_000, "{} bytes", svg.len());
        if installed("rsvg-convert") {
            let drawn = end(command("rsvg-convert").arg(&path), b"");
            assert!(drawn.status == Some(0) && drawn.out.len() > 10_000, "{}", drawn.err);
        }
    }
}

#[test]
fn a_pull_request_gets_markdown_and_its_tests_junit() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (junit, svg) = (path("compare.xml"), path("c.svg"));
    let gate = |limit: &str| compare(&["--markdown", "--junit", &junit, "-o", &svg, "--fail-if", limit]);
    let results = |limit: &str, status: i32| {
        let ended = gate(limit);
        assert_eq!(ended.status, Some(status), "{limit}: {}", ended.err);
        let xml = std::fs::read_to_string(&junit).unwrap();
        let (declaration, suite) = xml.split_once('\n').unwrap();
        assert!(declaration.starts_with("<?xml version=\"1.0\""), "{declaration}");
        xml::check(suite).unwrap();
        (String::from_utf8(ended.out).unwrap(), xml)
    };
    let (markdown, xml) = results("p50 slower by 10%", 1);
    let rows = ["count", "min", "max", "sd", "p50"].map(|row| markdown.find(&format!("\n| {row} | ")));
    assert!(rows.is_sorted() && rows[0].is_some(), "{markdown}");
    assert!(markdown.find("\n* unlike: ") < rows[0], "before the table: {markdown}");
    // What the comment has as a list, the result of the test has as text.
    for note in markdown.lines().filter_map(|line| line.strip_prefix("* ")) {
        let start: String = note.chars().take_while(|letter| letter.is_alphanumeric() || *letter == ' ').collect();
        assert!(xml.contains(&format!("\n{start}")), "{start}: {xml}");
    }
    assert!(
        markdown.starts_with("**Failed**: p50 slower by 10%: limit exceeded, gp3 is slower than gp2.\n"),
        "{markdown}"
    );
    assert!(
        markdown.contains("\n| p50 | 423us | 583us | +160us | +37.7% | \\[+140us, +175us\\] | slower |\n"),
        "{markdown}"
    );
    assert!(markdown.contains(&format!("\n![Comparison](<{svg}>)\n")), "{markdown}");
    // A row has as many cells as its heading.
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    assert!(markdown.lines().filter(|line| line.starts_with('|')).all(|line| cells(line) == 8), "{markdown}");
    assert!(xml.contains("tests=\"1\" failures=\"1\" errors=\"0\""), "{xml}");
    assert!(xml.contains("<failure message=\"p50 slower by 10%: limit exceeded, gp3 is slower than gp2.\">"), "{xml}");
    let (markdown, xml) = results("p99 > 10%", 3);
    assert!(markdown.starts_with("**Undecided**: ") && xml.contains("<error message="), "{markdown}{xml}");
    let (markdown, xml) = results("p50 > 200%", 0);
    assert!(markdown.starts_with("**Passed**: ") && xml.contains("failures=\"0\" errors=\"0\""), "{markdown}{xml}");
    // Nor does a file that cannot be read leave the result of the last run.
    let md = path("c.md");
    let (a, b) = (volume("volA"), volume("volB"));
    std::fs::write(&md, "**Passed**").unwrap();
    let unread = latscope(&["compare", &a, &path("none.txt"), "--junit", &junit, "-o", &md, "--fail-if", "p50 > 1ms"])
        .failure(3);
    let (xml, markdown) = (std::fs::read_to_string(&junit).unwrap(), std::fs::read_to_string(&md).unwrap());
    xml::check(xml.split_once('\n').unwrap().1).unwrap();
    assert!(unread.contains("none.txt") && xml.contains("errors=\"1\"") && xml.contains("none.txt"), "{unread}{xml}");
    assert!(markdown.starts_with("**Undecided**: ") && markdown.contains("none.txt"), "{markdown}");
    // By the name of the file; names of sides are only text.
    latscope(&["compare", &a, &b, "--unitstime", "ns", "--names", "<b>@me|x,`y`", "-o", &md]).success();
    let markdown = std::fs::read_to_string(&md).unwrap();
    assert!(markdown.contains("| | &lt;b&gt;&#64;me\\|x | \\`y\\` | difference |"), "{markdown}");
    let refused = latscope(&["compare", &a, &b, "--unitstime", "ns", "--junit", &a]).failure(2);
    assert!(refused.contains("is also the input"), "{refused}");
    let refused = latscope(&["compare", &a, &b, "--markdown", "--junit", "./c.xml", "-o", "c.xml"]).failure(2);
    assert!(refused.contains("--junit and -o both name ./c.xml"), "{refused}");
    let unwritten = compare(&["--junit", &path("none/c.xml"), "--fail-if", "p50 slower by 10%"]).failure(3);
    assert!(unwritten.contains("limit exceeded") && unwritten.contains("none/c.xml"), "{unwritten}");
}

#[test]
fn no_failure_leaves_the_result_of_the_last_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (a, b, junit, md) = (volume("volA"), volume("volB"), path("c.xml"), path("c.md"));
    let passed = || latscope(&["compare", &a, &b, "--unitstime", "ns", "--fail-if", "p50 > 200%", "--junit", &junit]);
    let cases: [(&[&str], i32, &str); 9] = [
        // Refused when the files are looked at.
        (&[&a, &a], 2, "is given twice"),
        (&[&a, "--fail-if", "p50 > 10%"], 2, "needs at least two sides"),
        (&[&a, &b, "--filter", "lat > 100s"], 3, "has no events to compare"),
        (&[&a, &b, "--rounds", "5"], 2, ""),
        // Refused as words.
        (&[&a, &b, "--fail-if", "p50"], 2, "is not a limit"),
        (&[&a, &b, "--p", "x"], 2, "--p"),
        (&[&a, &b, "--filter", "lat >"], 2, ""),
        (&[&a, &b, "-o", "x.png"], 2, "pictures are SVG"),
        (&["-", "-"], 2, "Standard input (-) can be read only once"),
    ];
    for (words, status, why) in cases {
        passed().success();
        assert!(std::fs::read_to_string(&junit).unwrap().contains("errors=\"0\""));
        let printed = latscope(&[&["compare", "--unitstime", "ns", "--junit", &junit], words].concat()).failure(status);
        let xml = std::fs::read_to_string(&junit).unwrap();
        xml::check(xml.split_once('\n').unwrap().1).unwrap();
        assert!(printed.contains(why) && xml.contains("errors=\"1\"") && xml.contains("<error "), "{printed}{xml}");
    }
    std::fs::write(&md, "**Passed**").unwrap();
    latscope(&["compare", &a, &a, "-o", &md]).failure(2);
    assert!(std::fs::read_to_string(&md).unwrap().contains("is given twice"));
    // But never is it written over what would have been read, in a folder of a folder or where nothing could be read.
    std::fs::create_dir_all(path("runs/one")).unwrap();
    let log = path("runs/one/u_clat.1.log");
    std::fs::copy(testdata("fio_log/u_clat.1.log"), &log).unwrap();
    let before = std::fs::read(&log).unwrap();
    let (runs, none, empty) = (path("runs"), path("none.txt"), path("empty"));
    std::fs::create_dir(&empty).unwrap();
    let cases: [(&[&str], i32); 4] =
        [(&[&runs, &a, "--fail-if", "p50"], 2), (&[&none, &runs], 2), (&[&empty, &runs], 3), (&[&empty, &log], 3)];
    for (words, status) in cases {
        latscope(&[&["compare", "--junit", &log], words].concat()).failure(status);
        assert!(std::fs::read(&log).unwrap() == before, "{words:?}");
    }
    // Nor is there a new file where the words alone make no sense.
    latscope(&["compare", &a, &b, "--fail-if", "p50", "--junit", &path("new.xml")]).failure(2);
    assert!(!folder.path().join("new.xml").exists());
}

/// Whichever word is wrong, and however the options of the results are spelled.
#[test]
fn no_wrong_command_leaves_the_result_of_the_last_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    let (a, b, junit, md, text) = (volume("volA"), volume("volB"), path("c.xml"), path("c.md"), path("c.txt"));
    let joined = [format!("--junit={junit}"), format!("-o{md}"), format!("--output={text}")];
    let named: [(&[&str], &str); 3] = [
        (&["--junit", &junit, "-o", &md], md.as_str()),
        (&[&joined[0], &joined[1]], md.as_str()),
        (&[&joined[2], "--markdown", "--junit", &junit], text.as_str()),
    ];
    let wrong: [(&[&str], &str); 11] = [
        // What the program refuses.
        (&["--fail-if", "p50 > ten"], "--fail-if"),
        (&["--filter", "foo = 3"], "foo is not a field"),
        (&["--p", "abc"], "--p: abc is not a percentile"),
        (&["--format", "nope"], "Unknown format nope"),
        (&["--unitslat", "foo"], "foo is not a unit"),
        (&["--names", "x,x"], "--names has x twice"),
        // What the parser of options refuses.
        (&["--rounds", "abc"], "invalid value"),
        (&["--seed", "-1"], "unexpected argument"),
        (&["-y", "foo"], "it is no duration and no size"),
        (&["--nonsense"], "unexpected argument"),
        (&["--rounds"], "a value is required"),
    ];
    for (words, why) in wrong {
        for (results, markdown) in named {
            [junit.as_str(), markdown].iter().for_each(|path| std::fs::write(path, "**Passed**").unwrap());
            let compare = ["compare", a.as_str(), b.as_str(), "--unitstime", "ns"];
            let refused = latscope(&[&compare[..], results, words].concat()).failure(2);
            let (xml, markdown) = (read(&junit), read(markdown));
            xml::check(xml.split_once('\n').unwrap().1).unwrap();
            assert!(refused.contains(why) && xml.contains("<error ") && xml.contains(why), "{refused}{xml}");
            assert!(markdown.starts_with("**Undecided**: ") && markdown.contains(why), "{refused}{markdown}");
            assert!(!markdown.contains("Usage:"), "{markdown}");
        }
    }
    // But what would have been read is never written over, nor is a picture, and what is not there is not made.
    let (trace, svg) = (path("a.txt"), path("c.svg"));
    std::fs::copy(testdata("compare").join("volA.txt"), &trace).unwrap();
    std::fs::write(&svg, "<svg/>").unwrap();
    let groups = [format!("old={b},{trace}"), format!("--group=new={b},{trace}")];
    let cases: [&[&str]; 4] = [
        &[&trace, &b, "--rounds", "abc", "--junit", &trace],
        &[&b, &trace, "--nonsense", "--markdown", "-o", &trace],
        &["--group", &groups[0], "--group", "x=y", "--rounds", "abc", "--junit", &trace],
        &["--group", "x=y", &groups[1], "--rounds", "abc", "--junit", &trace, "--markdown", "-o", &svg],
    ];
    for words in cases {
        latscope(&[&["compare"], words].concat()).failure(2);
        assert!(read(&trace) == read(&a), "{words:?}");
    }
    assert_eq!(read(&svg), "<svg/>");
    let new = [path("new.xml"), path("new.md")];
    latscope(&["compare", &a, &b, "--rounds", "abc", "--junit", &new[0], "-o", &new[1]]).failure(2);
    assert!(new.iter().all(|path| !Path::new(path).exists()));
    // Who asks for help has no result.
    let before = read(&junit);
    latscope(&["compare", &a, &b, "--junit", &junit, "--help"]).success();
    assert_eq!(read(&junit), before);
}

#[test]
fn standard_input_is_one_side_only() {
    let trace = std::fs::read(volume("volA")).unwrap();
    let compare = |words: &[&str]| latscope_with(&[&["compare", "--unitstime", "ns"], words].concat(), &trace);
    compare(&[&volume("volB"), "-"]).success();
    let several: [&[&str]; 3] =
        [&["-", "-"], &["-", "--by", "kind"], &["-", "--filter", "lat > 1ms", "--filter", "lat < 1ms"]];
    for words in several {
        let refused = compare(words).failure(2);
        assert!(refused.contains("can be read only once") && refused.contains("write it to a file"), "{refused}");
    }
}

#[test]
fn the_gate_of_ci_fails_like_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let left = |name: &str| std::fs::read_to_string(folder.path().join("gate").join(name)).unwrap();
    let gate = |limit: &str, undecided: &str| {
        let mut gate = command(root().join("packaging/ci/gate.sh"));
        gate.args([&volume("volA"), &volume("volB"), limit, "gate"]).current_dir(folder.path());
        gate.env("LATSCOPE", LATSCOPE).env("LATSCOPE_OPTIONS", "--unitstime 'ns' --p \"50,99\"");
        let summary = folder.path().join("summary.md");
        end(gate.env("LATSCOPE_UNDECIDED", undecided).env("GITHUB_STEP_SUMMARY", summary), b"")
    };
    let ended = gate("p50 slower by 10%", "pass");
    assert_eq!(ended.status, Some(1), "{}", ended.err);
    let comment = left("comment.md");
    assert!(
        comment.starts_with("**Failed**: p50 slower by 10%: limit exceeded, after is slower than before."),
        "{comment}"
    );
    assert!(!comment.contains("![") && left("compare.svg").contains("<svg"), "{comment}");
    assert!(left("compare.xml").contains("<failure "));
    assert_eq!(gate("p50 slower by 200%", "fail").status, Some(0));
    assert!(left("compare.xml").contains("failures=\"0\" errors=\"0\""));
    // What cannot be decided is as the user wants it; what cannot be read is not.
    assert_eq!(gate("p99 slower by 10%", "fail").status, Some(3));
    assert_eq!(gate("p99 slower by 10%", "pass").status, Some(0));
    let missing = command(root().join("packaging/ci/gate.sh"))
        .args(["missing.lat", &volume("volA"), "p50 slower by 10%", "gate"])
        .current_dir(folder.path())
        .envs([("LATSCOPE", LATSCOPE), ("LATSCOPE_UNDECIDED", "pass")])
        .status();
    assert_eq!(missing.unwrap().code(), Some(3), "not the result of the run before");
    assert!(!folder.path().join("gate/comment.md").exists());
    assert!(std::fs::read_to_string(folder.path().join("summary.md")).unwrap().contains("**Failed**"));
}
