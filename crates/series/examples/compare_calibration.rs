//! How often `compare` claims a difference: of equal sides, where every claim is false, and of sides that differ.
//!
//!     cargo run --release --example compare_calibration -- 400
//!
//! The number is that of repetitions per row. The generators are of their own (xorshift, polar method), and know nothing of what
//! the comparison assumes. With files as further arguments, `ioping -p 1` raw lines or a latency in nanoseconds per line, runs that
//! follow each other are compared too: all of one directory, so every claim is false again.

use latscope_series::compare::{CompareOptions, Comparison, Finding, Sample, compare};

const REQUESTS: usize = 1000;

struct Xorshift(u64);

impl Xorshift {
    fn new(seed: u64) -> Xorshift {
        let mut random = Xorshift(seed.wrapping_mul(0x2127_599b_f432_5c37) | 1);
        (0..32).for_each(|_| {
            random.uniform();
        });
        random
    }

    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 12) as f64 / (1u64 << 52) as f64
    }

    fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * (-2.0 * square.ln() / square).sqrt();
            }
        }
    }
}

/// Log-normal latencies about 350 us, `outliers` of them ten times as long, each deviation `memory` of the one before.
fn remembering(seed: u64, memory: f64, outliers: f64, factor: f64) -> Vec<u64> {
    let mut random = Xorshift::new(seed);
    let mut state = random.normal();
    let latency = |_| {
        state = memory * state + (1.0 - memory * memory).sqrt() * random.normal();
        let outlier = if random.uniform() < outliers { 10.0 } else { 1.0 };
        (factor * outlier * 350e3 * (0.2 * state).exp()) as u64
    };
    (0..REQUESTS).map(latency).collect()
}

/// Stalls that start with this chance at each request and slow some `length` of them.
fn stalling(seed: u64, chance: f64, length: f64) -> Vec<u64> {
    let mut random = Xorshift::new(seed);
    let (mut left, mut factor) = (0, 1.0);
    let latency = |_| {
        if left == 0 && random.uniform() < chance {
            left = (-length * (1.0 - random.uniform()).ln()) as u32 + 1;
            factor = 5.0 + 15.0 * random.uniform();
        }
        let slow = if left > 0 { factor } else { 1.0 };
        left = left.saturating_sub(1);
        (350e3 * slow * (0.2 * random.normal()).exp()) as u64
    };
    (0..REQUESTS).map(latency).collect()
}

/// Turns of 300 requests with a level of their own.
fn turns(seed: u64, count: usize, spread: f64, factor: f64) -> Vec<Sample> {
    let mut levels = Xorshift::new(seed ^ 0xabcd);
    let turn = |turn: usize| {
        let level = factor * (spread * levels.normal()).exp();
        let mut latencies = remembering(seed * 64 + turn as u64, 0.5, 0.02, level);
        latencies.truncate(300);
        Sample::of_events(latencies)
    };
    (0..count).map(turn).collect()
}

fn compared(sides: &[Vec<Sample>], seed: u64) -> Comparison {
    let options = CompareOptions { seed, ..CompareOptions::default() };
    compare(sides, &options).unwrap_or_else(|error| panic!("{error}"))
}

fn claims(found: &Comparison) -> bool {
    let rows = found.pairs.iter().flat_map(|pair| &pair.differences);
    rows.into_iter().any(|row| matches!(row.finding, Finding::Slower | Finding::Faster))
}

/// Whether nothing could be judged for want of independent requests.
fn refused(found: &Comparison) -> bool {
    found.pairs.iter().flat_map(|pair| &pair.differences).all(|row| row.interval.is_none())
}

fn row(name: &str, repetitions: u64, sides: impl Fn(u64) -> [Vec<Sample>; 2]) {
    let (mut claimed, mut not_judged) = (0, 0);
    for seed in 0..repetitions {
        let found = compared(&sides(seed), seed);
        claimed += u64::from(claims(&found));
        not_judged += u64::from(refused(&found));
    }
    let percent = |count: u64| 100.0 * count as f64 / repetitions as f64;
    println!("| {name} | {repetitions} | {:.1} % | {:.1} % |", percent(claimed), percent(not_judged));
}

fn files(paths: &[String]) {
    let read = |path: &String| -> Vec<u64> {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        // The sixth column of ten, or the only one.
        let latency = |line: &str| line.split_whitespace().nth(5).or(line.split_whitespace().next())?.parse().ok();
        text.lines().filter_map(latency).collect()
    };
    let runs: Vec<Vec<u64>> = paths.iter().map(read).collect();
    let pairs: Vec<&[Vec<u64>]> = runs.windows(2).collect();
    let side = |at: usize, of: usize| vec![Sample::of_events(pairs[at][of].clone())];
    row("runs that follow each other", pairs.len() as u64, |seed| [side(seed as usize, 0), side(seed as usize, 1)]);
    // Each four runs against the next four.
    let fours: Vec<&[Vec<u64>]> = runs.chunks_exact(8).collect();
    let turns = |runs: &[Vec<u64>]| runs.iter().cloned().map(Sample::of_events).collect::<Vec<_>>();
    row("four runs against the next four", fours.len() as u64, |seed| {
        let (a, b) = fours[seed as usize].split_at(4);
        [turns(a), turns(b)]
    });
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let repetitions = words.first().and_then(|word| word.parse().ok()).unwrap_or(200);
    let once = |a: Vec<u64>, b: Vec<u64>| [vec![Sample::of_events(a)], vec![Sample::of_events(b)]];
    println!("| sides | repetitions | a difference claimed | nothing judged |\n|---|---|---|---|");
    for memory in [0.0, 0.7, 0.9, 0.97, 0.99] {
        for (outliers, about) in [(0.02, "one in fifty ten times as long"), (0.0, "no outliers")] {
            row(&format!("equal, correlation {memory}, {about}"), repetitions, |seed| {
                once(remembering(2 * seed, memory, outliers, 1.0), remembering(2 * seed + 1, memory, outliers, 1.0))
            });
        }
    }
    for (chance, length) in [(0.002, 20.0), (0.005, 20.0), (0.002, 50.0), (0.01, 10.0)] {
        row(&format!("equal, {} stalls of {length} requests", chance * REQUESTS as f64), repetitions, |seed| {
            once(stalling(2 * seed, chance, length), stalling(2 * seed + 1, chance, length))
        });
    }
    for (count, spread) in [(2, 0.3), (4, 0.3), (4, 0.05)] {
        row(&format!("equal, {count} turns that differ by {:.0} %", 100.0 * spread), repetitions, |seed| {
            [turns(2 * seed, count, spread, 1.0), turns(2 * seed + 1, count, spread, 1.0)]
        });
    }
    for (memory, factor) in [(0.0, 1.03), (0.0, 1.05), (0.0, 1.1), (0.7, 1.1), (0.7, 1.2), (0.9, 1.2), (0.9, 1.5)] {
        row(&format!("{:.0} % slower, correlation {memory}", 100.0 * factor - 100.0), repetitions, |seed| {
            once(remembering(2 * seed, memory, 0.02, 1.0), remembering(2 * seed + 1, memory, 0.02, factor))
        });
    }
    for (count, factor) in [(2, 1.5), (2, 3.0), (4, 1.2), (4, 1.5), (8, 1.2)] {
        row(
            &format!("{:.0} % slower, {count} turns that differ by 5 %", 100.0 * factor - 100.0),
            repetitions,
            |seed| [turns(2 * seed, count, 0.05, 1.0), turns(2 * seed + 1, count, 0.05, factor)],
        );
    }
    if words.len() > 2 {
        files(&words[1..]);
    }
}
