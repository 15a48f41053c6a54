//! What was converted says the same as what it was converted from.

use crate::program::{latscope, testdata};
use std::path::PathBuf;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        let path: PathBuf = self.0.path().join(name);
        path.to_str().unwrap().to_string()
    }

    /// Converts and returns the new path.
    fn convert(&self, from: &str, to: &str, more: &[&str]) -> String {
        let to = self.path(to);
        latscope(&[&["convert", "-f", "-r", from, "-w", &to], more].concat()).success();
        to
    }
}

fn csv(path: &str, more: &[&str]) -> String {
    latscope(&[&["events", "-r", path, "--csv"], more].concat()).success()
}

/// Notes on standard error, without the name of the file in front.
fn notes(path: &str) -> Vec<String> {
    let printed = latscope(&["events", "-r", path, "--csv"]).err;
    let note = |line: &str| {
        line.find("missing: ")
            .or(line.find("unfinished: "))
            .or(line.find("caveat: "))
            .or(line.find("note: "))
            .map(|at| line[at..].into())
    };
    printed.lines().filter_map(note).collect()
}

#[test]
fn events_survive_every_format() {
    let folder = Folder::new();
    for name in ["perf_data/block_mixed.txt.zst", "perf_script/lost.txt.gz", "perf_data/syscalls_and_block.txt.zst"] {
        let text = testdata(name).to_str().unwrap().to_string();
        let expected = csv(&text, &[]);
        let lat = folder.convert(&text, "run.lat", &[]);
        assert!(csv(&lat, &[]) == expected, "{name} as .lat");
        assert_eq!(notes(&lat), notes(&text), "{name} as .lat");
        let parquet = folder.convert(&lat, "run.parquet", &[]);
        let by_time = csv(&text, &["--sort", "time"]);
        let mut lines: Vec<_> = expected.lines().collect();
        lines[1..].sort_by_key(|line| line.split(',').next().unwrap().parse::<i64>().unwrap());
        assert_eq!(by_time.lines().collect::<Vec<_>>(), lines, "{name} by time");
        assert!(csv(&parquet, &["--sort", "time"]) == by_time, "{name} as .parquet");
        assert_eq!(notes(&parquet), notes(&text), "{name} as .parquet");
        let back = folder.convert(&parquet, "again.lat", &[]);
        assert!(csv(&back, &["--sort", "time"]) == by_time, "{name} as .parquet and back");
        let written = std::fs::read_to_string(folder.convert(&lat, "run.csv", &[])).unwrap();
        assert!(written == expected, "{name} as .csv");
        let json = latscope(&["events", "-r", &text, "--json"]).success();
        let written = std::fs::read_to_string(folder.convert(&lat, "run.jsonl", &[])).unwrap();
        assert!(written == json, "{name} as .jsonl");
    }
}

#[test]
fn a_filter_picks_the_same_everywhere() {
    let folder = Folder::new();
    let text = testdata("perf_data/block_mixed.txt.zst").to_str().unwrap().to_string();
    let filter = "lat between 100us and 2ms and kind in (read, discard) or comm contains kworker";
    let expected = csv(&text, &["--sort", "time", filter]);
    assert!(expected.lines().count() > 100);
    for ending in ["lat", "parquet"] {
        let whole = folder.convert(&text, &format!("whole.{ending}"), &[]);
        assert!(csv(&whole, &["--sort", "time", filter]) == expected, "{ending}");
        let part = folder.convert(&text, &format!("part.{ending}"), &[filter]);
        assert!(csv(&part, &["--sort", "time"]) == expected, "{ending}");
    }
}

#[test]
fn request_latency_is_device_latency_and_the_wait() {
    let text = testdata("perf_data/block_mixed.txt.zst").to_str().unwrap().to_string();
    let columns = ["--columns", "time,latency,queue"];
    let rows = |more: &[&str]| -> Vec<(i64, i64, i64)> {
        let csv = csv(&text, &[&columns, more].concat());
        let number = |text: Option<&str>| text.unwrap().parse().unwrap();
        let row = |line: &str| {
            let mut cells = line.split(',');
            let (time, latency, queue) = (number(cells.next()), number(cells.next()), cells.next());
            // Of a request that was issued once this trace does not say whether it waited before.
            (time, latency, queue.filter(|queue| !queue.is_empty()).map_or(0, |queue| number(Some(queue))))
        };
        csv.lines().skip(1).map(row).collect()
    };
    let (device, request) = (rows(&[]), rows(&["--latency", "request"]));
    assert!(device.iter().any(|&(.., queue)| queue > 0), "requeued requests have waited");
    let shifted: Vec<_> = device.iter().map(|&(time, latency, queue)| (time - queue, latency + queue, queue)).collect();
    assert_eq!(request, shifted);
}

#[test]
fn stored_histograms_show_what_the_events_show() {
    let folder = Folder::new();
    let text = testdata("perf_data/block_mixed.txt.zst").to_str().unwrap().to_string();
    let series = folder.convert(&text, "series.parquet", &["--series", "-i", "1s", "--by", "device"]);
    let bars = |path: &str, more: &[&str]| {
        let printed = latscope(&[&["histogram", "-r", path], more].concat()).success();
        let bars: Vec<_> = printed.lines().filter(|line| line.contains('|')).map(str::to_string).collect();
        assert!(bars.len() > 10, "{printed}");
        bars
    };
    for more in [&[][..], &["--by", "device"], &["device = loop0"]] {
        assert_eq!(bars(&series, more), bars(&text, more), "{more:?}");
    }
    // What a histogram has forgotten cannot be asked for.
    let printed = latscope(&["histogram", "-r", &series, "--by", "comm"]).failure(2);
    assert!(printed.contains("is not grouped by comm"), "{printed}");
    let printed = latscope(&["histogram", "-r", &series, "comm = fio"]).failure(2);
    assert!(printed.contains("comm"), "{printed}");
}

#[test]
fn a_file_is_replaced_on_demand_only() {
    let folder = Folder(tempfile::tempdir().unwrap());
    let story = "testdata/perf_script/story_2s.txt.gz";
    for name in ["x.lat", "x.parquet", "x.csv", "x.jsonl", "x.hlog"] {
        let path = folder.path(name);
        std::fs::write(&path, "mine").unwrap();
        let convert = |more: &[&str]| latscope(&[&["convert", "-r", story, "-w", &path], more].concat());
        let printed = convert(&[]).failure(2);
        assert!(printed.contains(&format!("{path} exists; -f replaces it.")), "{printed}");
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        convert(&["-f"]).success();
        assert!(std::fs::metadata(&path).unwrap().len() > 1000, "{name}");
    }
}

/// FNV-1a by its definition, over the text of a stack.
fn fnv(stack: &str) -> String {
    let hash = stack
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("{hash:016x}")
}

/// 100,000 events of 200 stacks come back from every format as they were, and each stack is stored once.
#[test]
fn stacks_survive_every_format_and_take_little_room() {
    let folder = Folder::new();
    let stack = |at: usize| {
        let frames =
            (0..8).map(|depth| format!("library::module_{}::function_{}", (at * 7 + depth * 3) % 91, at + depth));
        format!("main;{};vfs_read_[k];io_schedule_[k]", frames.collect::<Vec<_>>().join(";"))
    };
    let stacks: Vec<String> = (0..200).map(stack).collect();
    let mut csv_text = String::from("time_ns,latency_ns,tid,comm,state,wait_class,tags,stack\n");
    for at in 0..100_000usize {
        let state = ["disk sleep", "sleep", ""][at % 3];
        let wait = ["direct read", "journal commit"][at % 2];
        let tags = if at % 5 == 0 { String::new() } else { format!("stage={};query=q{}", at % 7, at % 11) };
        let stack = if at % 97 == 0 { "" } else { &stacks[at * 31 % 200] };
        let latency = 1000 + at * 7919 % 100_003;
        csv_text +=
            &format!("{},{latency},{},req-{},{state},{wait},{tags},{stack}\n", at * 10_000, 100 + at % 9, at % 4);
    }
    let source = folder.path("made.csv");
    std::fs::write(&source, &csv_text).unwrap();
    // The rows as they were written, compared as text.
    assert!(csv(&source, &[]) == csv_text);
    let views = |path: &str| {
        let view = |arguments: &[&str]| latscope(&[arguments, &["-r", path]].concat()).success();
        let by = ["--by", "wait_class,state,comm"];
        [
            view(&[&["stacks", "--json"][..], &by].concat()),
            view(&[&["flamegraph"][..], &by].concat()),
            view(&["stacks", "--csv", "--by", "stack_hash", "tags.pair = \"stage=3\" and frame = io_schedule"]),
        ]
    };
    // The name of the file is in a heading.
    let unnamed = |text: &str| text.lines().filter(|line| !line.contains("made.")).collect::<Vec<_>>().join("\n");
    let expected = views(&source);
    for ending in ["lat", "parquet", "jsonl"] {
        let path = folder.convert(&source, &format!("made.{ending}"), &[]);
        if ending != "jsonl" {
            for (found, expected) in views(&path).iter().zip(&expected) {
                assert!(unnamed(found) == unnamed(expected), "{ending}");
            }
        }
        // A line of JSON names what it has; as CSV it would have every column.
        let (back, expected) = match ending {
            "jsonl" => (folder.convert(&path, "back.jsonl", &[]), std::fs::read_to_string(&path).unwrap()),
            _ => (folder.convert(&path, &format!("back_{ending}.csv"), &[]), csv_text.clone()),
        };
        assert!(std::fs::read_to_string(back).unwrap() == expected, "{ending} and back");
        let bytes = std::fs::metadata(&path).unwrap().len();
        // 100,000 copies of a stack take 25 MB; times and latencies that differ take 3 bytes and more in any format.
        assert!(ending == "jsonl" || bytes < 1_200_000, "{ending}: {bytes}");
        println!("{ending}: {bytes} bytes");
    }
    let hashes =
        latscope(&["events", "-r", &folder.path("made.lat"), "--csv", "--columns", "stack,stack_hash"]).success();
    for row in hashes.lines().skip(1).take(1000) {
        let (stack, hash) = row.rsplit_once(',').unwrap();
        assert_eq!(hash, if stack.is_empty() { String::new() } else { fnv(stack) });
    }
    let one = fnv(&stacks[7]);
    let count = csv(&folder.path("made.parquet"), &[&format!("stack_hash = {one}")]).lines().count() - 1;
    assert_eq!(count, csv_text.lines().filter(|line| line.ends_with(&format!(",{}", stacks[7]))).count());
    let Some(python) = std::env::var_os("LATSCOPE_PYTHON") else {
        skipped!("LATSCOPE_PYTHON is not set; DuckDB and pyarrow are not asked");
        return;
    };
    let query = "import duckdb, pyarrow.parquet, pyarrow.ipc, sys
rows = duckdb.sql(f\"SELECT count(*), count(DISTINCT stack), count(DISTINCT stack_hash), max(len(stack_hash)) FROM '{sys.argv[1]}'\").fetchall()
pairs = duckdb.sql(f\"SELECT count(DISTINCT (stack, stack_hash)) FROM '{sys.argv[1]}' WHERE stack IS NOT NULL\").fetchall()
file = pyarrow.parquet.ParquetFile(sys.argv[1])
names = file.schema_arrow.names
columns = [file.metadata.row_group(group).column(names.index('stack')) for group in range(file.metadata.num_row_groups)]
plain = [encoding for column in columns for encoding in column.encodings if 'DICTIONARY' not in encoding and encoding not in ('PLAIN', 'RLE')]
stored = max(column.total_uncompressed_size for column in columns)
trace = pyarrow.ipc.open_stream(sys.argv[2]).read_all()
print(rows[0], pairs[0], plain, stored < 1000000, trace.num_rows, len(set(trace['stack_hash'].to_pylist()) - {None}))
";
    let mut command = crate::program::command(python);
    let asked =
        crate::program::end(command.args(["-c", query, &folder.path("made.parquet"), &folder.path("made.lat")]), b"");
    assert_eq!(asked.status, Some(0), "{}", asked.err);
    let out = String::from_utf8(asked.out).unwrap();
    assert_eq!(out, "(100000, 200, 200, 16) (200,) [] True 100000 200\n", "{out}");
}
