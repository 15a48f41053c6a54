//! Files that are damaged, made up or none at all end with a sentence and in bounded memory.

use crate::generator::Random;
use crate::program::{Ended, LATSCOPE, command, end, testdata, unpacked};
use std::path::Path;

/// Address space that the program may take: its code, threads and buffers, not the input.
const LIMIT_KIB: u32 = 1_000_000;

/// Runs the program under the limit.
pub fn limited(arguments: &[&str], input: &[u8]) -> Ended {
    let script = format!("ulimit -v {LIMIT_KIB}; exec \"$0\" \"$@\"");
    end(command("sh").args(["-c", &script, LATSCOPE]).args(arguments), input)
}

/// Runs a view over the input, with the format found out and as each of the formats.
#[track_caller]
fn refused_by_all(input: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("input");
    std::fs::write(&file, input).unwrap();
    let file = file.to_str().unwrap();
    // What is long is long in a pipe as on disk.
    let paths = if input.len() > 1_000_000 { &["-"][..] } else { &["-", file] };
    for path in paths {
        refused(limited(&["summary", "-r", path], input), path);
        for format in [
            "lat",
            "frames",
            "history",
            "parquet",
            "parquet_series",
            "perf_data",
            "perf_script",
            "blktrace",
            "blkparse",
            "ftrace",
            "trace_dat",
            "fio_log",
            "fio_hist",
            "fio_json",
            "ioping",
            "hlog",
            "smallfile",
            "two_columns",
            "folded",
            "stap_stacks",
            "pprof",
            "bpftrace_stacks",
            "csv",
            "json_lines",
            "strace",
            "perf_trace",
            "snoop",
            "oracle_10046",
            "spark_eventlog",
            "pylatencymap",
            "histogram_text",
        ] {
            refused(limited(&["summary", "-r", path, "--format", format], input), format);
        }
    }
}

#[track_caller]
fn refused(ended: Ended, of: &str) {
    assert!(ended.out.is_empty(), "{of}");
    let printed = ended.failure(3);
    assert!(printed.starts_with("latscope: ") && printed.trim_end().ends_with('.'), "{of}: {printed}");
}

#[test]
fn an_empty_file() {
    refused_by_all(b"");
}

#[test]
fn binary_garbage() {
    let mut random = Random::new(7);
    let garbage: Vec<u8> = (0..8192).flat_map(|_| random.next().to_le_bytes()).collect();
    refused_by_all(&garbage);
    // Behind the beginning of each format it must not do worse.
    for magic in [
        &b"PERFILE2"[..],
        b"2ELIFREP",
        b"PAR1",
        b"\x07tae",
        b"\x17\x08\x44tracing7\0",
        b"\xff\xff\xff\xff",
        b"\x1f\x8b\x08\0",
        b"\x28\xb5\x2f\xfd",
    ] {
        refused_by_all(&[magic, &garbage].concat());
    }
}

#[test]
fn an_endless_line() {
    refused_by_all(&vec![b'x'; 50_000_000]);
}

#[test]
fn ten_million_columns() {
    refused_by_all(&b"1 ".repeat(10_000_000));
}

#[test]
fn a_folder() {
    let folder = tempfile::tempdir().unwrap();
    refused(limited(&["summary", "-r", folder.path().to_str().unwrap()], b""), "a folder");
}

#[test]
fn a_line_too_long_between_good_ones_is_counted() {
    let text = unpacked("perf_script/story_2s.txt.gz");
    let middle = text.len() / 2;
    let middle = middle + text[middle..].iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let long = vec![b'1'; 3_000_000];
    let input = [&text[..middle], &long, b"\n", &text[middle..]].concat();
    let with = limited(&["events", "-r", "-", "--csv"], &input);
    assert!(with.err.contains("1 malformed row"), "{}", with.err);
    let without = limited(&["events", "-r", "-", "--csv"], &text).success();
    assert!(with.success() == without);
}

/// A compressed file without its end, in one sentence or with what it holds; never a panic.
#[test]
fn a_packed_file_without_its_end() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["perf_script/story_2s.txt.gz", "perf_data/block_mixed.txt.zst", "perf_data/block_mixed.data.zst"] {
        let whole = std::fs::read(testdata(name)).unwrap();
        for part in [5, 10, 100, whole.len() / 3, whole.len() - 1] {
            let path = folder.path().join(Path::new(name).file_name().unwrap());
            std::fs::write(&path, &whole[..part]).unwrap();
            cut_is_reported(limited(&["summary", "-r", path.to_str().unwrap()], b""), name);
        }
    }
}

fn cut_is_reported(ended: Ended, of: &str) {
    match ended.status {
        Some(0) => {
            let text = String::from_utf8_lossy(&ended.out).into_owned();
            assert!(text.contains("truncated input"), "{of}: {text}");
        }
        _ => refused(ended, of),
    }
}

/// A unit that was forgotten, an interval without sense: no view takes more than its share of memory.
#[test]
fn no_interval_takes_the_memory_of_the_machine() {
    let rows = "testdata/hostile/percentiles_3rows.txt";
    let printed = limited(&["percentiles", "-i", "1s", "-r", rows], b"").failure(2);
    assert!(printed.contains("Use a longer interval (-i)"), "{printed}");
    for view in ["percentiles", "heatmap", "histogram", "summary"] {
        limited(&[view, "-r", rows], b"").success();
    }
    for view in ["heatmap", "histogram", "spectrogram"] {
        limited(&[view, "-i", "1ns", "-r", rows], b"").success();
    }
}

/// The heaviest group comes last.
#[test]
fn of_too_many_groups_the_heaviest_is_shown() {
    let rows = (0..112_000).map(|row| match row {
        0..12_000 => format!("{row}.0 0.00001 job{row}\n"),
        _ => format!("{row}.0 0.005 postgres\n"),
    });
    let rows: String = rows.collect();
    let ended = limited(&["summary", "-r", "-", "--by", "job", "--csv"], rows.as_bytes());
    assert!(ended.err.contains("(others) has 1.79% of the events and 0.00% of the time"), "{}", ended.err);
    let text = ended.success();
    let count = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split(',').nth(1).unwrap().parse::<u64>().unwrap()
    };
    assert_eq!((count("postgres,"), count("(others),")), (100_000, 2_001));
}

/// Whole batches of a cut trace remain, as DESIGN promises; a Parquet file has its directory at the end.
#[test]
fn our_own_files_without_their_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    for name in ["run.lat", "run.parquet"] {
        let run = path(name);
        limited(&["convert", "-r", "testdata/perf_data/block_mixed.txt.zst", "-w", &run], b"").success();
        let whole = std::fs::read(&run).unwrap();
        for part in [3, 200, whole.len() / 2, whole.len() - 20] {
            let cut = path(&format!("cut-{name}"));
            std::fs::write(&cut, &whole[..part]).unwrap();
            cut_is_reported(limited(&["summary", "-r", &cut], b""), name);
        }
    }
}
