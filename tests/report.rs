//! `latscope report`: the page in a real browser against the program, and the template against its sources.

use crate::program::{LATSCOPE, command, end, latscope, root, testdata, unpacked};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use latscope_capture_file::LatWriter;
use latscope_event::{Batch, Clock, Context, Field, FieldSet, Unfinished, Wait};
use std::fmt::Write;
use std::io::Read;
use std::path::Path;

const HOSTILE: &str = "</script><img src=x onerror=alert(1)>";

/// Where the sources of the page are installed, or why they cannot be used.
fn web() -> Result<std::path::PathBuf, &'static str> {
    let web = root().join("web");
    let node = std::process::Command::new("node").arg("--version").output();
    match node {
        Err(_) => Err("node is not installed"),
        Ok(_) if !web.join("node_modules").is_dir() => Err("web/node_modules is missing (make web-packages)"),
        Ok(_) => Ok(web),
    }
}

/// The sources of the page, if a browser can be started.
pub fn browser() -> Option<std::path::PathBuf> {
    match web() {
        Ok(_) if !Path::new("/usr/bin/chromium").exists() => skipped!("chromium is not installed"),
        Ok(web) => return Some(web),
        Err(why) => skipped!("{why}"),
    }
    None
}

/// A trace with a planted cause: writes to loop0 by fio are slow in the middle.
fn trace() -> String {
    let mut csv = "time_ns,latency_ns,device,kind,size,offset,comm\n".to_string();
    let mut state = 11u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for at in 0..20_000u64 {
        let time = 1_700_000_000_000_000_000 + at * 500_000 + random(400_000);
        let is_slow = (6000..14_000).contains(&at) && random(40) == 0;
        let device = if is_slow || random(30) == 0 { "loop0" } else { ["sda", "sdb"][random(2) as usize] };
        let kind = if is_slow || random(4) == 0 { "write" } else { "read" };
        let comm = if is_slow { "fio" } else { ["fio", "java", "\"a b\"\"c\""][random(3) as usize] };
        let spread = 10 + random(12);
        let latency = if is_slow { 80_000_000 + random(40_000_000) } else { 40_000 + random(1 << spread) };
        let (size, offset) = (4096 << random(3), random(1 << 30) * 512);
        writeln!(csv, "{time},{latency},{device},{kind},{size},{offset},{comm}").unwrap();
    }
    csv
}

#[test]
fn the_page_in_a_browser_says_what_the_program_says() {
    let Some(web) = browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    std::fs::write(path("trace.csv"), trace()).unwrap();
    latscope(&["report", "-r", &path("trace.csv"), "-o", &path("report.html")]).success();
    let mut hostile = "time_ns,latency_ns,device,comm\n".to_string();
    (0..200).for_each(|at| writeln!(hostile, "{},{},sda,{HOSTILE}", at * 1_000_000, 1000 + at * 77).unwrap());
    std::fs::write(path("hostile.csv"), hostile).unwrap();
    latscope(&["report", "-r", &path("hostile.csv"), "-o", &path("hostile.html"), "--title", HOSTILE]).success();
    // The same twenty seconds later, with a tail that is twice as slow.
    let later = |row: &str| {
        let mut values: Vec<String> = row.split(',').map(String::from).collect();
        values[0] = (values[0].parse::<u64>().unwrap() + 20_000_000_000).to_string();
        let latency_ns: u64 = values[1].parse().unwrap();
        values[1] = (if latency_ns > 200_000 { latency_ns * 2 } else { latency_ns }).to_string();
        values.join(",")
    };
    let first = trace();
    let (names, rows) = first.split_once('\n').unwrap();
    let rows: Vec<String> = rows.lines().map(later).collect();
    std::fs::write(path("second.csv"), format!("{names}\n{}\n", rows.join("\n"))).unwrap();
    latscope(&["report", "-r", &path("trace.csv"), "-r", &path("second.csv"), "-o", &path("two.html")]).success();
    // As two captures of stacks would give it.
    let rows = String::from_utf8(unpacked("flamegraph/slow_io.csv.gz")).unwrap();
    let with_source = |(at, row): (usize, &str)| match at {
        0 => format!("{row},stack_source\n"),
        _ => format!("{row},{}\n", if at % 3 == 0 { "switch" } else { "sampled" }),
    };
    std::fs::write(path("stacks.csv"), rows.lines().enumerate().map(with_source).collect::<String>()).unwrap();
    latscope(&["report", "-r", &path("stacks.csv"), "-o", &path("stacks.html")]).success();
    std::fs::write(path("hostile_stacks.csv"), crate::stacks::hostile()).unwrap();
    latscope(&["report", "-r", &path("hostile_stacks.csv"), "-o", &path("hostile_stacks.html")]).success();
    let script = web.join("tests/browser.mjs");
    let ended = end(command("node").arg(script).arg(LATSCOPE).arg(folder.path()), b"");
    let out = String::from_utf8_lossy(&ended.out).into_owned();
    assert!(ended.status == Some(0), "{out}\n{}", ended.err);
    assert!(out.matches("ok ").count() >= 53, "{out}");
}

#[test]
fn the_live_page_follows_its_server() {
    let Some(web) = browser() else { return };
    let ended = end(command("node").arg(web.join("tests/live.mjs")).arg(LATSCOPE), b"");
    let out = String::from_utf8_lossy(&ended.out).into_owned();
    assert!(ended.status == Some(0), "{out}\n{}", ended.err);
    assert_eq!(out.matches("ok ").count(), 9, "{out}");
}

#[test]
fn the_template_is_what_its_sources_give() {
    let web = match web() {
        Ok(web) => web,
        Err(why) => return skipped!("{why}"),
    };
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &[&str], page: &str| {
        let built = folder.path().join("built.html");
        let mut command = command(web.join("node_modules/.bin").join(words[0]));
        let command = command.args(&words[1..]).current_dir(&web).env("TEMPLATE", &built).env("PAGE", page);
        let ended = end(command, b"");
        assert!(ended.status == Some(0), "{words:?}\n{}\n{}", String::from_utf8_lossy(&ended.out), ended.err);
        std::fs::read_to_string(built).unwrap_or_default()
    };
    run(&["tsc", "--noEmit"], "");
    run(&["vitest", "run", "--passWithNoTests"], "");
    for (page, kept) in
        [("report", "crates/view-report/src/html/template.html"), ("hub", "crates/wire/src/exports/page.html")]
    {
        let built = run(&["vite", "build", "--outDir", "dist/test"], page);
        assert!(built == std::fs::read_to_string(root().join(kept)).unwrap(), "{kept} is out of date: make web");
    }
}

#[test]
fn the_lock_file_names_no_host() {
    let lock = std::fs::read_to_string(root().join("web/package-lock.json")).unwrap();
    assert!(!lock.contains("\"resolved\""), "npm install --omit-lockfile-registry-resolved");
}

#[test]
fn histograms_make_no_page_and_nothing_an_empty_one() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let page = page.to_str().unwrap();
    let hlog = testdata("hlog/jhiccup_v2.hlog");
    let refused = latscope(&["report", "-r", hlog.to_str().unwrap(), "-o", page]).failure(3);
    assert!(refused.contains("only histograms"), "{refused}");
    let story = testdata("perf_script/story_2s.txt.gz");
    let story = story.to_str().unwrap();
    let nothing = latscope(&["report", "-r", story, "-o", page, "lat > 1h"]);
    assert!(nothing.status == Some(0) && nothing.err.contains("0 events in 0 columns"), "{}", nothing.err);
    let wrote = latscope(&["report", "-r", story, "-o", page, "--budget", "100KiB"]);
    assert!(wrote.err.contains("events in"), "{}", wrote.err);
    let page = std::fs::read_to_string(page).unwrap();
    let template = root().join("crates/view-report/src/html/template.html").metadata().unwrap().len();
    assert!((page.len() as u64) < template + 110_000, "{} bytes", page.len());
}

/// What the page computes like the program, for `web/tests/unit.test.ts`.
fn vectors() -> serde_json::Value {
    use latscope_event::{format_count, format_duration, format_duration_exact, format_size};
    use latscope_histogram::{Grid, Histogram, Rule};
    use serde_json::json;
    let mut state = 5u64;
    let mut random = move |bits: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 12) >> (52 - bits)
    };
    let mut values: Vec<u64> = (0..600).map(|at| random(1 + at % 50)).collect();
    values.extend([0, 1, 15, 16, 127, 128, 129, (1 << 31) - 1, 1 << 31, 1 << 42, (1 << 50) - 1]);
    let grids = [3, 4, 6].map(|power| {
        let grid = Grid::with_power(power).unwrap();
        let row = |&value: &u64| json!([value, grid.index(value), grid.lower(grid.index(value))]);
        json!({"power": power, "values": values.iter().map(row).collect::<Vec<_>>()})
    });
    let asked = [0.5, 0.9, 0.99, 0.999];
    let quantiles: Vec<_> = (0..30)
        .map(|at| {
            let mut histogram = Histogram::new(Grid::FINE, false);
            (0..50 + at * 40).for_each(|_| histogram.record(random(8 + at as u32), 0));
            let buckets: Vec<_> = histogram.to_sparse().buckets().map(|(bucket, count, _)| (bucket, count)).collect();
            json!({"buckets": buckets, "asked": asked, "found": histogram.quantiles(&asked, Rule::Interpolated)})
        })
        .collect();
    let durations = values.iter().take(200).map(|&ns| json!([ns, format_duration(ns), format_duration_exact(ns)]));
    let sizes = values.iter().take(100).map(|&bytes| json!([bytes, format_size(bytes)]));
    let counts = values.iter().take(60).map(|&count| json!([count, format_count(count)]));
    let divergences: Vec<_> = (0..30u64)
        .map(|at| {
            let sides: Vec<[u64; 2]> = (0..2 + at).map(|_| [random(7), random(10)]).collect();
            let all = [0, 1].map(|side| sides.iter().map(|counts| counts[side]).sum());
            let bits = latscope_series::explain::divergence(sides.iter().copied(), all);
            let side = |side: usize| sides.iter().map(|counts| counts[side]).collect::<Vec<_>>();
            json!([side(0), side(1), bits])
        })
        .collect();
    let calls = [
        "pread64",
        "__libc_pread",
        "preadv64v2",
        "__GI___fdatasync",
        "write_nocancel",
        "__syscall_cancel_arch",
        "openat64",
        "sync_file_range",
    ];
    let calls = calls.into_iter().chain([
        "fsync@plt",
        "epoll_wait",
        "clock_nanosleep",
        "[unknown]",
        "0x7f",
        "libc.so.6+0x3",
        "--",
        "reader",
        "preader",
    ]);
    let stacks: Vec<_> = calls
        .flat_map(|call| [format!("main;scan;{call}"), format!("main;scan;{call};vfs_read_[k]"), call.to_string()])
        .chain(["entry_[k];io_schedule_[k]".to_string()])
        .map(|stack| {
            let frames: Vec<_> = latscope_event::frames(&stack).collect();
            let found = latscope_series::application_frame(frames.iter().copied()).map(|frame| frame.name.to_string());
            json!([stack, found])
        })
        .collect();
    json!({
        "stacks": stacks,
        "grids": grids, "quantiles": quantiles, "durations": durations.collect::<Vec<_>>(),
        "sizes": sizes.collect::<Vec<_>>(), "counts": counts.collect::<Vec<_>>(), "divergences": divergences,
    })
}

#[test]
fn vectors_of_the_page_are_those_of_the_program() {
    let path = root().join("web/tests/vectors.json");
    let text = format!("{}\n", vectors());
    if std::env::var_os("LATSCOPE_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert!(std::fs::read_to_string(path).unwrap() == text, "renew it: LATSCOPE_BLESS=1");
}

/// What the data of a page begin with.
pub fn head(page: &str) -> serde_json::Value {
    let is_data = |part: &&str| {
        part.len() > 100 && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
    };
    let packed = BASE64_STANDARD.decode(page.split(['<', '>']).find(is_data).expect("data")).unwrap();
    let mut data = Vec::new();
    flate2::read::DeflateDecoder::new(&packed[..]).read_to_end(&mut data).unwrap();
    let length = u32::from_le_bytes(data[..4].try_into().unwrap()) as usize;
    serde_json::from_slice(&data[4..4 + length]).unwrap()
}

/// A trace of two disks: one completes its reads, on the other twenty of one program and one of another hang.
fn hung(path: &Path) {
    let names = [Field::Device, Field::Comm, Field::WaitClass, Field::Stack];
    let fields = FieldSet::ALWAYS.with(&names);
    let batch = |rows: &[(i64, u64, [&str; 4])]| {
        let mut batch = Batch::new(fields);
        for (start_ns, latency_ns, texts) in rows {
            batch.push_i64(Field::Time, *start_ns);
            batch.push_u64(Field::Latency, *latency_ns);
            names.iter().zip(texts).for_each(|(&field, text)| batch.push_text(field, Some(text.as_bytes())));
            batch.end_row();
        }
        batch
    };
    let alpha = ["loop0", "hung", "direct read", "main;alpha;io_schedule_[k]"];
    let other = ["loop0", "other", "device queue full", "main;other;io_schedule_[k]"];
    let mut rows: Vec<_> = (0..20).map(|at| (at * 1_000_000, 5_000_000_000 - at as u64 * 1_000_000, alpha)).collect();
    rows.push((0, 6_000_000_000, other));
    let waits = batch(&rows);
    let mut context = Context::new("made up", Clock::unanchored("none"));
    let request = |row| Unfinished::from_row(format!("read {row}"), Wait::Counts, &waits, row);
    context.unfinished = (0..rows.len()).map(request).collect();
    let beta = ["loop1", "fast", "direct read", "main;beta;io_schedule_[k]"];
    let mut writer = LatWriter::create(std::fs::File::create(path).unwrap(), fields, &context).unwrap();
    writer.write(&batch(&[(0, 2_000_000, beta), (5_000_000, 2_000_000, beta)]), None).unwrap();
    writer.finish(&context).unwrap();
}

/// No event of the map is one of what hangs, so the panel lists it by itself.
#[test]
fn the_panel_says_who_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    hung(&folder.path().join("t.lat"));
    latscope(&["report", "-r", &path("t.lat"), "-o", &path("all.html")]).success();
    let all = head(&std::fs::read_to_string(path("all.html")).unwrap());
    let expected = serde_json::json!([
        {"who": ["loop0", "hung", "direct read"], "count": 20, "oldest": 5e9, "stack": "main;alpha;io_schedule_[k]"},
        {"who": ["loop0", "other", "device queue full"], "count": 1, "oldest": 6e9, "stack": "main;other;io_schedule_[k]"},
    ]);
    assert_eq!(all["unfinished"]["groups"], expected);
    // Of those that the filter lets through.
    latscope(&["report", "-r", &path("t.lat"), "-o", &path("other.html"), "comm != hung"]).success();
    let other = head(&std::fs::read_to_string(path("other.html")).unwrap());
    assert_eq!(other["unfinished"]["count"], 1);
    assert_eq!(other["unfinished"]["groups"], serde_json::json!([expected[1]]));
    if browser().is_none() {
        return;
    }
    let mut chromium = command("chromium");
    chromium.args("--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync".split(' '));
    chromium.args(["--disable-background-networking", "--virtual-time-budget=5000", "--dump-dom"]);
    chromium.arg(format!("--user-data-dir={}", path("profile"))).arg(format!("file://{}", path("all.html")));
    let ended = end(&mut chromium, b"");
    let page = String::from_utf8_lossy(&ended.out).into_owned();
    let (_, panel) = page.split_once("Still waiting<span>21 at the end, of the whole trace").expect("a heading");
    let first = "<td>20</td><td>≥ 5s</td><td>loop0 · hung · direct read · alpha</td>";
    let second = "<td>1</td><td>≥ 6s</td><td>loop0 · other · device queue full · other</td>";
    assert!(panel.find(first).is_some_and(|at| panel[at..].contains(second)), "{panel}");
}

/// What hangs until the end of the trace is on the axis, though nothing completes in it.
#[test]
fn a_stall_that_never_ends_is_in_the_picture() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let line = |at: &str, event: &str, of: &str| format!("  fio  7 [000] {at}: block:block_rq_{event}: {of} [fio]\n");
    let mut text = String::new();
    for at in 0..10 {
        text += &line(&format!("100.{at}00000"), "issue", "7,0 R 4096 () 80 + 8");
        text += &line(&format!("100.{at}01000"), "complete", "7,0 R () 80 + 8");
    }
    text += &line("100.990000", "issue", "7,0 R 4096 () 80 + 8");
    text += &line("105.000000", "issue", "8,0 R 4096 () 80 + 8");
    std::fs::write(path("hang.txt"), text).unwrap();
    let run = latscope(&["report", "-r", &path("hang.txt"), "-o", &path("hang.html")]);
    assert!(run.err.contains("10 events in 5,001 columns of 1ms"), "{}", run.err);
}

#[test]
fn a_report_of_a_single_wait_has_it_with_its_age() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let text = "  fio  7 [000] 10.000000: block:block_rq_issue: 7,1 R 4096 () 8 + 8 [fio]\n\
                \x20 fio  7 [000] 14.000000: block:block_rq_issue: 7,0 R 4096 () 80 + 8 [fio]\n\
                \x20 fio  7 [000] 15.000000: block:block_rq_complete: 7,0 R () 80 + 8 [0]\n";
    std::fs::write(path("hung.txt"), text).unwrap();
    let words = ["report", "-r", &path("hung.txt"), "-o", &path("hung.html"), "device = loop1"];
    let run = latscope(&words);
    // From the issue of the request to the end of the trace.
    for words in ["0 events in 5,001 columns of 1ms", "loop1 read of 4KiB by fio, at least 5s"] {
        assert!(run.err.contains(words), "{}", run.err);
    }
    assert!(Path::new(&path("hung.html")).exists());
    // A filter that nothing passes is no failure, as in every view.
    let none = latscope(&["report", "-r", &path("hung.txt"), "-o", &path("none.html"), "device = loop9"]);
    assert!(none.status == Some(0) && none.err.contains("No event matches the filter"), "{}", none.err);
    assert!(Path::new(&path("none.html")).exists());
}
