//! Our own CSV and JSON lines, read back: the same events, column by column, as in the trace that they were made of.

use crate::generator::Random;
use crate::program::{latscope, latscope_with, testdata};
use latscope_capture_file::LatWriter;
use latscope_event::{Batch, Clock, Context, Field, FieldSet, FieldType, MISSING_I64, MISSING_U64};
use std::path::Path;

const HOSTILE: [&str; 18] = [
    "",
    "plain",
    "with,comma",
    "\"quoted\"",
    "a\"b",
    "line\nend",
    "\r\n",
    "\r",
    "'",
    "''x",
    "=cmd()",
    "+1",
    "-1",
    "@x",
    "\t\u{1b}[31m\u{7}\u{9b}",
    "\u{202e}abc\u{feff}",
    "\u{0}nul, \\u0000 \\n ☃ 𝄞",
    "{\"a\": [1, 2]}",
];

#[test]
fn a_filter_that_nothing_passes_is_reported() {
    let story = testdata("perf_script/story_2s.txt.gz");
    let story = story.to_str().unwrap();
    let all = latscope(&["events", "-r", story, "--csv", "--columns", "time_ns"]).success().lines().count() - 1;
    for more in [&[][..], &["--top", "5"], &["--json"]] {
        let nothing = latscope(&[&["events", "-r", story], more, &["lat > 1h"]].concat());
        let thousands = format!("{},{:03}", all / 1000, all % 1000);
        assert!(
            nothing.err.contains(&format!("latscope: 0 of {thousands} events passed the filter.")),
            "{}",
            nothing.err
        );
        assert_eq!(nothing.success(), "");
    }
    let some = latscope(&["events", "-r", story, "lat > 100ms"]);
    assert!(!some.err.contains("passed the filter"), "{}", some.err);
}

/// A trace of random values of every field, with missing ones.
fn trace(seed: u64, path: &Path) {
    let mut random = Random::new(seed);
    let fields: FieldSet = Field::ALL.iter().copied().filter(|_| random.below(4) > 0).collect();
    let mut batch = Batch::new(fields);
    for _ in 0..200 + random.below(200) {
        for field in batch.fields().iter() {
            let always = matches!(field, Field::Time | Field::Latency);
            let missing = !always && random.below(4) == 0;
            match field.field_type() {
                FieldType::Text => {
                    let text = HOSTILE[random.below(HOSTILE.len() as u64) as usize];
                    let more = random.below(5);
                    let text = format!("{text}{}", if more == 0 { String::new() } else { more.to_string() });
                    batch.push_text(field, (!missing).then_some(text.as_bytes()));
                }
                FieldType::Time | FieldType::Number => {
                    let number = random.next() as i64 >> random.below(64);
                    batch.push_i64(field, if missing { MISSING_I64 } else { number.max(i64::MIN + 1) });
                }
                FieldType::Duration | FieldType::Bytes => {
                    let number = random.next() >> 1 >> random.below(63);
                    batch.push_u64(field, if missing { MISSING_U64 } else { number });
                }
            }
        }
        batch.end_row();
    }
    let mut context = Context::new("random", Clock::unanchored("relative"));
    batch.time().iter().for_each(|&time_ns| context.cover(time_ns));
    let file = std::fs::File::create(path).unwrap();
    let mut writer = LatWriter::create(file, batch.fields(), &context).unwrap();
    writer.write(&batch, None).unwrap();
    writer.finish(&context).unwrap();
}

fn events(file: &Path, options: &[&str]) -> Vec<u8> {
    let ended = latscope(&[&["events", "-r", file.to_str().unwrap()], options].concat());
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    ended.out
}

#[test]
fn every_column_comes_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for seed in 1..=12 {
        trace(seed, &path("t.lat"));
        let (csv, json) = (events(&path("t.lat"), &["--csv"]), events(&path("t.lat"), &["--json"]));
        std::fs::write(path("t.csv"), &csv).unwrap();
        std::fs::write(path("t.jsonl"), &json).unwrap();
        assert!(events(&path("t.csv"), &["--csv"]) == csv, "seed {seed}: csv of csv");
        assert!(events(&path("t.csv"), &["--json"]) == json, "seed {seed}: json of csv");
        assert!(events(&path("t.jsonl"), &["--json"]) == json, "seed {seed}: json of json");
        // And through a binary format, with nothing but what the text has.
        for (from, to) in [("t.csv", "again.lat"), ("t.jsonl", "again2.lat")] {
            let (from, to) = (path(from), path(to));
            latscope(&["convert", "-f", "-r", from.to_str().unwrap(), "-w", to.to_str().unwrap()]).success();
            assert!(events(&to, &["--json"]) == json, "seed {seed}: {}", to.display());
        }
    }
}

#[test]
fn views_of_the_text_are_those_of_the_trace() {
    let source = testdata("perf_script/story_2s.txt.gz");
    let folder = tempfile::tempdir().unwrap();
    let columns = "time_ns,latency_ns,kind,size,offset,device,dev,comm,tid,queue_ns,wall,end_ns";
    for (shape, name) in [("--csv", "t.csv"), ("--json", "t.json")] {
        let plain = folder.path().join(name);
        std::fs::write(&plain, events(&source, &[shape])).unwrap();
        let (zst, gz) = (folder.path().join(format!("{name}.zst")), folder.path().join(format!("{name}.gz")));
        std::fs::write(&zst, zstd::encode_all(&std::fs::read(&plain).unwrap()[..], 1).unwrap()).unwrap();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, &std::fs::read(&plain).unwrap()).unwrap();
        std::fs::write(&gz, encoder.finish().unwrap()).unwrap();
        let view = |file: &Path, verb: &[&str]| {
            let text = latscope(&[verb, &["--completed-only", "-r", file.to_str().unwrap()]].concat()).success();
            // Rates are over the time that the trace covers, and requests may be open at its end: the text gives neither.
            let missing = |name: &str| name.contains("per_s") || ["waiting", "oldest_ns"].contains(&name);
            let cells = |line: &str| line.split(',').map(str::to_string).collect::<Vec<_>>();
            let heading = cells(text.lines().next().unwrap());
            let keep: Vec<usize> = (0..heading.len()).filter(|&at| !missing(&heading[at])).collect();
            let kept = |line: &str| keep.iter().map(|&at| cells(line)[at].clone()).collect::<Vec<_>>();
            text.lines().map(kept).collect::<Vec<_>>()
        };
        for verb in [
            &["summary", "--csv"][..],
            &["summary", "--csv", "--by", "comm,kind"],
            &["summary", "--csv", "lat > 1ms and kind = write"],
        ] {
            let expected = view(&source, verb);
            assert!(expected.len() > 1);
            for file in [&plain, &zst, &gz] {
                assert_eq!(view(file, verb), expected, "{} {verb:?}", file.display());
            }
        }
        let piped = latscope_with(&["summary", "--csv", "--by", "comm,kind"], &std::fs::read(&plain).unwrap());
        let piped: Vec<String> = piped.success().lines().map(str::to_string).collect();
        assert!(piped.len() > 2, "standard input without -r");
    }
    // Derived columns: the relation of the clocks stays.
    let of_columns = events(&source, &["--csv", "--columns", columns]);
    let file = folder.path().join("columns.csv");
    std::fs::write(&file, &of_columns).unwrap();
    assert!(events(&file, &["--csv", "--columns", columns]) == of_columns);
    std::fs::write(&file, events(&source, &["--csv", "--columns", "end_ns,latency_ns,device"])).unwrap();
    let by_ends = events(&file, &["--csv", "--columns", "time_ns,latency_ns,device"]);
    assert!(by_ends == events(&source, &["--csv", "--columns", "time_ns,latency_ns,device"]));
}

/// What is no event is refused, by name where we wrote it.
#[test]
fn tables_of_results_are_no_input() {
    let source = testdata("perf_script/story_2s.txt.gz");
    let source = source.to_str().unwrap();
    for (made, verb) in [
        (&["percentiles", "--csv", "-i", "1s"][..], "percentiles"),
        (&["percentiles", "--json", "-i", "1s", "--by", "device"], "percentiles"),
        (&["summary", "--csv"], "summary"),
        (&["summary", "--json"], "summary"),
    ] {
        let table = latscope(&[made, &["-r", source]].concat()).success();
        for reader in ["summary", "heatmap", "events"] {
            let output = if reader == "heatmap" { &["-o", "-"][..] } else { &[] };
            let ended = latscope_with(&[&[reader, "-r", "-"], output].concat(), table.as_bytes());
            let printed = ended.failure(3);
            assert!(printed.contains(&format!("a table written by latscope {verb}")), "{made:?} {reader}: {printed}");
        }
    }
}

#[test]
fn a_bad_row_names_its_line() {
    let printed = latscope_with(&["summary", "-r", "-"], b"time_ns,latency_ns\n1,2\n\"3\nx\",4\n").failure(3);
    assert!(printed.contains(":3: The row has something other than an integer"), "{printed}");
    let lines = b"{\"time_ns\":1,\"latency_ns\":2}\n{\"time_ns\":1,\"latency_ns\":2.5}\n";
    let printed = latscope_with(&["summary", "-r", "-"], lines).failure(3);
    assert!(printed.contains(":2: The row has something other than an integer"), "{printed}");
    let lenient = latscope_with(&["summary", "--csv", "-r", "-", "--lenient"], lines);
    assert!(lenient.err.contains("1 malformed row"), "{}", lenient.err);
    // A last line that is cut is reported to be.
    let cut = latscope_with(&["summary", "--csv", "-r", "-"], &lines[..40]);
    assert!(cut.err.contains("1 truncated input"), "{}", cut.err);
}
