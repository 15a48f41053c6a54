//! Writes logs as fio would, of a cluster that never was: `fio_logs FOLDER [ROWS [HOSTS [JOBS [SECONDS]]]]`.
//!
//! Every job has a log of its I/Os (`rbd_clat.N.log.HOST`) and the matching histogram log (`rbd_clat_hist.N.log.HOST`, a row a
//! second). Most I/Os are hits of a cache or reads of a disk; from 40 to 60 % of the time some wait for up to 20 s.
//! The same arguments give the same bytes.

use latscope_histogram::Grid;
use std::f64::consts::TAU;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Bins of fio's histograms: 29 octaves of 64.
const BINS: usize = 29 * 64;
const HIST_MS: u64 = 1000;
const MS: f64 = 1e6;

/// xorshift64*: good enough for load, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Above 0, at most 1.
    fn part(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self) -> f64 {
        -self.part().ln()
    }

    fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        let normal = (-2.0 * self.part().ln()).sqrt() * (TAU * self.part()).cos();
        median * (sigma * normal).exp()
    }

    /// Nanoseconds that an I/O takes when this part of the time has passed.
    fn latency(&mut self, passed: f64) -> f64 {
        let is_hit = self.part() > 0.2;
        let served = if is_hit { self.log_normal(350e3, 0.35) } else { self.log_normal(6e6, 0.5) };
        let is_stuck = self.part() < 0.03 && (0.4..0.6).contains(&passed);
        let stuck = if is_stuck { 2e8 * (self.part().powf(-1.0 / 1.1) - 0.8) } else { 0.0 };
        (served + stuck).min(2e10)
    }
}

/// The histograms of one job: as fio does, a direction's row is written by the first completion after it is due.
struct Histograms {
    counts: [Vec<u32>; 2],
    last_ms: [Option<u64>; 2],
    out: BufWriter<File>,
}

impl Histograms {
    fn count(&mut self, time_ms: u64, latency_ns: u64, direction: usize) -> io::Result<()> {
        let last_ms = self.last_ms[direction].get_or_insert(time_ms);
        let counts = &mut self.counts[direction];
        counts[Grid::FINE.index(latency_ns).min(BINS - 1)] += 1;
        if time_ms - *last_ms < HIST_MS {
            return Ok(());
        }
        *last_ms += HIST_MS;
        write!(self.out, "{time_ms}, {direction}, 4096")?;
        for count in counts.iter_mut() {
            match std::mem::take(count) {
                0 => self.out.write_all(b", 0")?,
                count => write!(self.out, ", {count}")?,
            }
        }
        self.out.write_all(b"\n")
    }
}

fn job(folder: &Path, host: u64, job: u64, rows: u64, seconds: f64) -> io::Result<()> {
    let create =
        |kind: &str| File::create(folder.join(format!("rbd_{kind}.{job}.log.vm{host:03}"))).map(BufWriter::new);
    let mut log = create("clat")?;
    let mut histograms =
        Histograms { counts: [vec![0; BINS], vec![0; BINS]], last_ms: [None; 2], out: create("clat_hist")? };
    let mut random = Random((host << 32 | job).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let (mut end_ns, apart_ns) = (0.0, seconds * 1e9 / (rows + 1) as f64);
    for _ in 0..rows {
        end_ns += apart_ns * random.exponential();
        // Nothing starts before its job.
        let latency_ns = random.latency(end_ns / (seconds * 1e9)).min(end_ns) as u64;
        let (time_ms, direction) = ((end_ns / MS) as u64, usize::from(random.part() > 0.7));
        writeln!(log, "{time_ms}, {latency_ns}, {direction}, 4096, 0")?;
        histograms.count(time_ms, latency_ns, direction)?;
    }
    log.flush()?;
    histograms.out.flush()
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let Some(folder) = arguments.first().map(Path::new) else {
        eprintln!("fio_logs FOLDER [ROWS [HOSTS [JOBS [SECONDS]]]]: writes logs of fio into the folder.");
        std::process::exit(2);
    };
    let (rows, hosts, jobs, seconds) = (number(1, 30_000_000), number(2, 16), number(3, 8), number(4, 600));
    std::fs::create_dir_all(folder)?;
    let all = hosts * jobs;
    for at in 0..all {
        // The rows that do not divide evenly go one each to the first jobs.
        let share = rows / all + u64::from(at < rows % all);
        job(folder, at / jobs, at % jobs + 1, share, seconds as f64)?;
    }
    Ok(())
}
