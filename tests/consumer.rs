//! A consumer that knows nothing but `crates/pipeline` (its example `p99`), against the program and against a known load.

use crate::live::lab::{self, Disk};
use crate::program::{LATSCOPE, command, end, latscope, unpacked};
use std::path::Path;
use std::process::Stdio;

const FILTER: &str = "kind = read and lat > 1us";

/// Count, p50 and p99 of each interval with events, by source, as the example prints them.
fn sources(out: &str) -> Vec<Vec<[u64; 3]>> {
    let mut sources: Vec<Vec<[u64; 3]>> = Vec::new();
    for line in out.lines() {
        let cells: Vec<u64> = line.split([' ', ',', '[', ']']).filter_map(|cell| cell.parse().ok()).collect();
        match (&cells[..], sources.last_mut()) {
            (&[_, count, p50, p99], Some(rows)) => rows.push([count, p50, p99]),
            (&[_, 0], Some(_)) => {}
            _ => sources.push(Vec::new()),
        }
    }
    sources
}

/// The same of the program.
fn of_program(path: &Path) -> Vec<[u64; 3]> {
    let path = path.to_str().unwrap();
    let arguments =
        ["percentiles", "-r", path, "-i", "1s", "--count-by", "completion", "--p", "50,99", "--csv", FILTER];
    let csv = latscope(&arguments).success();
    let heading: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let columns = ["count", "p50_ns", "p99_ns"].map(|name| heading.iter().position(|column| *column == name).unwrap());
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        columns.map(|at| cells[at].parse::<f64>().unwrap_or(0.0) as u64)
    };
    csv.lines().skip(1).map(row).filter(|row| row[0] > 0).collect()
}

#[test]
fn a_consumer_of_forty_lines_reads_a_trace_a_folder_and_the_machine() {
    let Some(_alone) = lab::alone() else { return };
    let example = Path::new(LATSCOPE).with_file_name("examples").join("p99");
    if !example.exists() {
        skipped!("{} is not built (cargo test --workspace builds it)", example.display());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, from: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, unpacked(from)).unwrap();
        path
    };
    let trace = write("perf.data", "perf_data/block_mixed.data.zst");
    let logs = write("results/A_clat.1.log", "fio_log/A_clat.1.log.zst");
    write("results/A_clat.2.log", "fio_log/A_clat.2.log.zst");
    let disk = Disk::new(&[]);
    let mut example = command(example);
    example.arg(FILTER).arg(&trace).arg(logs.parent().unwrap()).stdout(Stdio::piped());
    let consumer = example.spawn().unwrap();
    // Until the capture has ended, reads of which it must see those of a second at least.
    let dd = |consumer: &mut std::process::Child| {
        let mut reads = 0;
        while consumer.try_wait().unwrap().is_none() {
            let input = format!("if=/dev/{}", disk.name());
            end(command("dd").args([&input, "of=/dev/null", "bs=4k", "count=16", "iflag=direct"]), b"");
            reads += 16;
        }
        reads
    };
    let mut consumer = consumer;
    let reads = dd(&mut consumer);
    let out = consumer.wait_with_output().unwrap();
    assert!(out.status.success());
    let sources = sources(&String::from_utf8(out.stdout).unwrap());
    let [of_trace, of_logs, of_machine] = &sources[..] else { panic!("{sources:?}") };
    assert_eq!(*of_trace, of_program(&trace));
    assert_eq!(*of_logs, of_program(logs.parent().unwrap()));
    let seen: u64 = of_machine.iter().map(|row| row[0]).sum();
    assert!(seen >= 16 && reads >= 16, "{seen} of {reads}");
    assert!(of_machine.iter().all(|[_, p50, p99]| 1_000 < *p50 && p50 <= p99), "{of_machine:?}");
}
