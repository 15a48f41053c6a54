//! Tables: words to what they mean, or to the exact refusal. A machine that does not exist answers what a plan asks.

mod spots;

use super::*;
use clap::Parser;
use latscope_capture_bpf::{Sample, Source};
use latscope_capture_file::{Format, TwoColumns};
use latscope_event::{Field, FieldSet};
use latscope_filter::Filter;
use latscope_series::{CountBy, Quantity, Weight};
use latscope_view_report::stack_files::StackWeight;
use std::io;

/// A machine with three files, a folder, and nothing on standard input.
pub fn world() -> World {
    World {
        exists: |path| ["a.lat", "b.lat", "it's.log", "folder"].contains(&path.to_str().unwrap_or_default()),
        is_file: |path| ["a.lat", "b.lat", "it's.log"].contains(&path.to_str().unwrap_or_default()),
        is_dir: |path| path == Path::new("folder"),
        read: |_| Err(io::ErrorKind::NotFound.into()),
        is_fed: || false,
        seed: 7,
    }
}

/// Words as a shell divides them, quotes and all that it needs here.
fn words(line: &str) -> Vec<String> {
    let mut words = vec!["latscope".to_string()];
    for (at, part) in line.split('"').enumerate() {
        match at % 2 {
            0 => words.extend(part.split_whitespace().map(String::from)),
            _ => words.push(part.into()),
        }
    }
    words
}

fn planned_in(line: &str, world: &World) -> Result<(Plan, Vec<String>), Failure> {
    let typed = Arguments::try_parse_from(words(line)).unwrap_or_else(|error| panic!("{line}: {error}"));
    plan(typed, world)
}

fn planned(line: &str) -> Plan {
    planned_in(line, &world()).unwrap_or_else(|failure| panic!("{line}: {failure}")).0
}

/// What every plan of a view reads.
fn reading_of(plan: &Plan) -> &Reading {
    match plan {
        Plan::Heatmap(reading, _) | Plan::Spectrogram(reading, _) | Plan::Histogram(reading, _) => reading,
        Plan::Summary(reading, _) | Plan::Events(reading, _) | Plan::Percentiles(reading, _) => reading,
        Plan::Explain(reading, _) => reading,
        Plan::Record(reading, _) | Plan::Convert(reading, _) => reading,
        other => panic!("{other:?} reads nothing"),
    }
}

fn folding_of(plan: &Plan) -> &Folding {
    match plan {
        Plan::Heatmap(_, plan) => &plan.folding,
        Plan::Spectrogram(_, plan) => &plan.folding,
        Plan::Histogram(_, plan) => &plan.folding,
        Plan::Summary(_, plan) => &plan.folding,
        Plan::Percentiles(_, plan) => &plan.folding,
        Plan::Convert(_, Conversion { series: Some(folding), .. }) => folding,
        other => panic!("{other:?} folds nothing"),
    }
}

fn parsed(text: &str) -> Option<Filter> {
    Filter::parse(text).ok()
}

#[test]
fn what_is_read() {
    let file = || Reading { files: vec!["a.lat".into()], ..Reading::default() };
    let live = |live: Live| Reading { live: Some(live), ..Reading::default() };
    let block =
        || Live { source: Source::Block, for_ns: None, calls: None, mode: Mode::Auto, ..Live::new(Source::Block) };
    let micro = TwoColumns { time_unit_ns: 1_000, latency_unit_ns: Some(1_000), unit_bytes: None };
    let blocks = "disk.dev exists and not result exists and not state exists";
    let calls = "not (disk.dev exists and not result exists) and not state exists";
    let of_source = |text: &str| Reading { filter: parsed(text), typed_filter: Some(String::new()), ..file() };
    for (line, expected) in [
        ("events -r a.lat", file()),
        ("events a.lat", file()),
        ("events -r -", Reading { files: vec!["-".into()], ..file() }),
        ("events -r a.lat b.lat", Reading { files: vec!["a.lat".into(), "b.lat".into()], ..file() }),
        (
            "events -r a.lat b.lat kind = read",
            Reading { files: vec!["a.lat".into(), "b.lat".into()], filter: parsed("kind = read"), ..file() },
        ),
        (
            "events -r a.lat gone/b.lat kind = read",
            Reading { files: vec!["a.lat".into(), "gone/b.lat".into()], filter: parsed("kind = read"), ..file() },
        ),
        ("events kind = read a.lat", Reading { filter: parsed("kind = read"), ..file() }),
        (
            "events -r a.lat \"lat > 1ms\" and kind = write",
            Reading { filter: parsed("lat > 1ms and kind = write"), ..file() },
        ),
        ("events -r a.lat -s block", Reading { filter: parsed(blocks), typed_filter: Some(String::new()), ..file() }),
        (
            "events -r a.lat -s syscall kind = read",
            Reading {
                filter: parsed(&format!("({calls}) and (kind = read)")),
                typed_filter: Some("kind = read".into()),
                all_syscalls: true,
                ..file()
            },
        ),
        ("events -r a.lat -s oncpu", of_source("state = running")),
        ("events -r a.lat -s offcpu", of_source("state exists and state != running")),
        ("events -r a.lat -s stacks", of_source("state exists and not stack_source = timer")),
        ("events -r a.lat -s stacks,oncpu", of_source("state exists")),
        ("events -r a.lat -s block,oncpu", of_source(&format!("state = running or {blocks}"))),
        ("heatmap -r a.lat", Reading { over_time: true, ..file() }),
        ("spectrogram -r a.lat --follow", Reading { over_time: true, follow: true, ..file() }),
        ("percentiles -r folder", Reading { files: vec!["folder".into()], over_time: true, ..file() }),
        ("summary -r a.lat --format perf_script", Reading { format: Some(Format::PerfScript), ..file() }),
        ("summary -r a.lat --latency request", Reading { from_queue: true, ..file() }),
        ("summary -r a.lat --lenient --offsets o", Reading { lenient: true, offsets: Some("o".into()), ..file() }),
        ("summary -r a.lat --correct-omission 10ms", Reading { omitted_every_ns: Some(10_000_000), ..file() }),
        ("summary -r a.lat --unitstime us --unitslat us", Reading { two_columns: micro, ..file() }),
        ("summary", live(block())),
        ("summary --for 2s --mode event", live(Live { for_ns: Some(2_000_000_000), mode: Mode::Event, ..block() })),
        (
            "summary -s io --calls read,fsync",
            Reading {
                only_io: true,
                ..live(Live { source: Source::Io, calls: Some(vec!["read".into(), "fsync".into()]), ..block() })
            },
        ),
        ("record -w t.lat", live(Live { mode: Mode::Event, ..block() })),
        (
            "record -w t.lat --only-slow 5ms --sample 1/256",
            live(Live { mode: Mode::Event, sample: Some(Sample { slow_ns: 5_000_000, one_in: 256 }), ..block() }),
        ),
    ] {
        let plan = planned(line);
        let reading = reading_of(&plan);
        // Equal filters are written alike.
        let text = |reading: &Reading| reading.filter.as_ref().map(ToString::to_string);
        assert_eq!(text(reading), text(&expected), "{line}");
        assert_eq!(*reading, Reading { filter: reading.filter.clone(), ..expected }, "{line}");
    }
}

#[test]
fn how_it_is_folded() {
    let over_time = || Folding { over_time: true, ..Folding::of_latencies(None) };
    let second = || Folding { interval: Some(1_000_000_000), ..over_time() };
    let of_shares = || Folding { count_by: CountBy::Overlap, values_only: true, ..second() };
    for (line, expected) in [
        ("heatmap -r a.lat", over_time()),
        ("heatmap -r a.lat -i auto", over_time()),
        ("heatmap -r a.lat -i 1s --by device,kind", Folding { by: vec![Field::Device, Field::Kind], ..second() }),
        ("heatmap -r a.lat --stepsec 1", second()),
        ("heatmap -r a.lat -y offset", Folding { quantity: Quantity::Offset, by: vec![Field::Device], ..over_time() }),
        (
            "heatmap -r a.lat -y offset --by kind",
            Folding { quantity: Quantity::Offset, by: vec![Field::Kind], ..over_time() },
        ),
        (
            "heatmap -r a.lat --weight time --min 1ms --max 1s",
            Folding { weight: Weight::Time, min: Some(1_000_000), max: Some(1_000_000_000), ..over_time() },
        ),
        (
            "heatmap -r a.lat -y size --max 1MiB",
            Folding { quantity: Quantity::Size, max: Some(1 << 20), ..over_time() },
        ),
        ("heatmap -r a.lat --unitstime us --unitslat us --maxlat 15", Folding { max: Some(15_000), ..over_time() }),
        ("spectrogram -r a.lat -i 1s --completed-only", Folding { completed_only: true, ..second() }),
        ("histogram -r a.lat", Folding::of_latencies(None)),
        ("histogram -r a.lat -i 1s", second()),
        ("summary -r a.lat", Folding { by: vec![Field::Device], weight: Weight::Bytes, ..Folding::of_latencies(None) }),
        ("summary -r a.lat --by none", Folding { weight: Weight::Bytes, ..Folding::of_latencies(None) }),
        ("summary -s syscall", Folding { by: vec![Field::Name], weight: Weight::Bytes, ..Folding::of_latencies(None) }),
        ("percentiles -r a.lat -i 1s", of_shares()),
        (
            "percentiles -r a.lat -i 1s --count-by completion",
            Folding { count_by: CountBy::CompletionInParts, ..of_shares() },
        ),
        (
            "percentiles -r a.lat -i 1s -y queue",
            Folding { quantity: Quantity::Queue, count_by: CountBy::CompletionInParts, ..of_shares() },
        ),
        ("percentiles -i 1s", Folding { count_by: CountBy::Completion, ..of_shares() }),
        ("convert -r a.lat -w s.parquet --series -i 1s --by device", Folding { by: vec![Field::Device], ..second() }),
    ] {
        assert_eq!(*folding_of(&planned(line)), expected, "{line}");
    }
}

#[test]
fn what_is_written() {
    let conversion = |write: &str, target| {
        let (weight, dimensions) = (StackWeight::Events, Vec::new());
        let conversion = Conversion { write: write.into(), force: false, target, weight, dimensions, series: None };
        Plan::Convert(Reading { files: vec!["a.lat".into()], ..Reading::default() }, conversion)
    };
    for (line, expected) in [
        ("convert -r a.lat -w b.parquet", conversion("b.parquet", Target::Parquet)),
        ("convert -r a.lat -o b.parquet", conversion("b.parquet", Target::Parquet)),
        ("convert -r a.lat -w b --to csv", conversion("b", Target::Csv)),
        ("convert -r a.lat -w b.ndjson", conversion("b.ndjson", Target::JsonLines)),
        ("fields --json", Plan::Fields { json: true }),
        ("formats", Plan::Formats { json: false }),
        ("lab list", Plan::Labs(false)),
        ("events --explain-filter kind = read", Plan::ExplainFilter("kind = read".into())),
        ("events --explain-filter", Plan::ExplainFilter("(everything)".into())),
    ] {
        assert_eq!(planned(line), expected, "{line}");
    }
    let shapes = [
        ("summary -r a.lat", Shape::Text),
        ("summary -r a.lat --csv", Shape::Csv),
        ("summary -r a.lat --json -o a.csv", Shape::Json),
        ("summary -r a.lat -o a.csv", Shape::Csv),
        ("summary -r a.lat -o a.ndjson", Shape::Json),
    ];
    for (line, expected) in shapes {
        let Plan::Summary(_, plan) = planned(line) else { panic!("{line}") };
        assert_eq!(plan.shape, expected, "{line}");
    }
    let Plan::Record(_, plan) = planned("record -w t.lat --with all -- dd if=x") else { panic!("no recording") };
    assert_eq!((plan.with, plan.command), (FieldSet::EVERY, vec!["dd".to_string(), "if=x".into()]));
    let Plan::Ping(plan) = planned("ping -c 3 folder") else { panic!("no ping") };
    assert_eq!((plan.probes.len(), plan.probes[0].count, plan.probes[0].seed), (1, Some(3), 7));
}

#[test]
fn the_command_of_a_selection_is_what_was_typed() {
    let line = "spectrogram -r a.txt -r it's.txt --latency request -s block --lenient --offsets o kind = read";
    let Plan::Spectrogram(_, plan) = planned(line) else { panic!("no spectrogram") };
    let command = plan.command.join(" ");
    let expected = "latscope events -r a.txt -r 'it'\\''s.txt' -s block --latency request --offsets o --lenient";
    assert_eq!((command.as_str(), plan.words.as_str()), (expected, "kind = read"));
    assert_eq!(quoted("lat > 1ms and comm = \"it's\""), "'lat > 1ms and comm = \"it'\\''s\"'");
}

#[test]
fn what_is_piped_in_is_read_unless_a_capture_is_asked_for() {
    let fed = World { is_fed: || true, ..world() };
    for (line, files) in [("summary", &["-"][..]), ("summary --for 1s", &[]), ("summary a.lat", &["a.lat"])] {
        let (plan, _) = planned_in(line, &fed).unwrap_or_else(|failure| panic!("{line}: {failure}"));
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        assert_eq!(reading_of(&plan).files, files, "{line}");
    }
}

#[test]
fn options_of_trace2heatmap_that_change_nothing_are_named() {
    let (_, remarks) = planned_in("heatmap -r a.lat --boxsize 8 --accstats", &world()).unwrap_or_else(|_| panic!());
    assert_eq!(
        remarks,
        [
            "--boxsize has no effect: --width sets the width of the picture.",
            "--accstats has no effect: tooltips have counts and percentiles of each column."
        ]
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (line, expected) in [
        ("summary --lenient", "--lenient needs a file; give one with -r."),
        ("summary --format lat", "--format needs a file; give one with -r."),
        ("summary a.lat --for 1s", "--for is for live captures and cannot be combined with a file (a.lat)."),
        ("summary --calls read", "--calls needs -s io or -s syscall."),
        ("summary -r a.lat --follow -r b.lat", "--follow reads one file; give one -r."),
        ("summary -r a.lat -i 500", "-i 500 needs a unit: 500ms or 500s."),
        ("summary -r a.lat -i 0s", "-i must be longer than zero."),
        ("summary --for 99999d", "--for 99999d is too long; the longest is 26687d."),
        ("percentiles -r a.lat --weight time", "--weight changes maps and histograms, not percentiles; leave it out."),
        (
            "percentiles --max 5ms",
            "--max is the end of a picture's axis, and needs -o FILE.svg; to select events, use a filter such as \
             'lat < 5ms'.",
        ),
        ("summary -r a.lat --sort busy", "--sort busy needs --use, which shows this column."),
        (
            "summary -r a.lat --sort nosuch",
            "--sort nosuch: unknown column; use group, count, rate, bytes/s, min, mean, sd, p50, p90, p99, p99.9, p99.99, \
             max, time, waiting or oldest; with --use also queue, 'in flight', busy or errors.",
        ),
        ("heatmap -r a.lat --min 2ms --max 1ms", "--min must be smaller than --max."),
        ("heatmap -r a.lat -o a.png", "-o a.png: pictures are SVG; end the name in .svg."),
        (
            "summary -r a.lat -o a.svg",
            "-o a.svg: this view is text; heatmap, percentiles, compare, flamegraph and spark draw pictures (SVG).",
        ),
        ("histogram -r a.lat --per-octave 3", "--per-octave must be 1, 2, 4, 8, 16, 32 or 64."),
        ("spectrogram -r a.lat --width 5", "--width must be from 20 to 10000 columns."),
        (
            "convert -r a.lat -w b.txt",
            "The output format is unclear: end the name in .lat, .parquet, .csv, .jsonl, .scap, .hlog, .frames, .pylatencymap, .folded, .pb.gz, .speedscope.json or .profile.json.gz, or give --to.",
        ),
        (
            "convert -r a.lat -w b.csv -i 1s",
            "-i, --by and --precision need histograms: give --series, or write a .hlog or .frames. --by is also for .folded and .speedscope.json.",
        ),
        ("record -w t.lat --sample 256", "--sample 256 is not a ratio such as 1/256."),
        ("compare a.lat b.lat --by kind", "--by divides a single trace; give only one."),
        ("compare a.lat \"kind = read\"", "kind = read: No such file; to filter, use --filter 'kind = read'."),
        ("compare --group a.lat --group b=b.lat", "--group a.lat has no name; use the form --group old=a.lat,b.lat."),
        ("lab list folder", "lab list takes no directory."),
        ("lab spark a b", "lab spark takes one directory, where tables are kept; to compare, use --against."),
        ("lab spark --scale 0", "--scale must be from 0.01 to 1000."),
        (
            "lab spark --conf executor.memory=1g",
            "executor.memory=1g is no setting of Spark; use the form spark.executor.memory=1g.",
        ),
        (
            "lab spark --queries q3,../q4",
            "--queries: There is no query \"../q4\"; there are python, q1 to q99 without q23 and q39, and q5a, q10a, q14a, q14b, q18a, \
             q22a, q23a, q23b, q24a, q24b, q27a, q35a, q36a, q39a, q39b, q51a, q67a, q70a, q77a, q80a, q86a.",
        ),
        ("lab etcd . --scale 2", "--scale, --queries, --conf, --against and --python are for lab spark."),
    ] {
        match planned_in(line, &world()) {
            Err(Failure::Usage(message)) => assert_eq!(message, expected, "{line}"),
            other => panic!("{line}: {other:?}"),
        }
    }
}

#[test]
fn a_lab_of_spark_has_one_side_or_two() {
    let lab = |line: &str| match planned(line) {
        Plan::SparkLab(lab) => lab,
        other => panic!("{other:?}"),
    };
    let plain = lab("lab spark");
    let names: Vec<&str> = plain.sides.iter().map(|side| side.name).collect();
    assert_eq!((names, plain.rounds, plain.scale, plain.tables), (vec!["base"], 3, 1.0, None));
    let two =
        lab("lab spark folder --runs 2 --conf spark.a=1 --against spark.b=2 --against spark.a=3 --queries q3,python");
    let settings: Vec<&str> = two.sides.iter().flat_map(|side| &side.settings).map(String::as_str).collect();
    assert_eq!(settings, ["spark.a=1", "spark.a=1", "spark.b=2", "spark.a=3"]);
    assert_eq!((two.rounds, two.tables.as_deref()), (2, Some(Path::new("folder"))));
    let measured = Filter::parse("kind = sql and name in (q3, python) and evt.failed = false").unwrap();
    assert_eq!(two.measured, Some(measured));
    assert_eq!(two.capture.1, FieldSet::default().with(&[Field::Args, Field::Ppid]));
}
