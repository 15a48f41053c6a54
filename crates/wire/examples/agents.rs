//! Many simulated agents in one process, for `benches/hub.sh`: each sends an interval of 20 groups a second, from its connection on.
//!
//!     agents HOST:PORT ca.pem TOKENS AGENTS SECONDS

use latscope_histogram::{Grid, Histogram};
use latscope_wire::{
    Address, Credentials, Data, Dictionary, Head, Hello, IntervalRow, Parts, Record, Stream, introduce, new_id,
};
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const GROUPS: u32 = 20;
/// Events of a group in an interval.
const EVENTS: u64 = 100;
const WIDTH_NS: u64 = 1_000_000_000;
/// Different intervals; making one takes longer than a hub needs for it.
const ROWS: u64 = 64;
/// How many connect at a time.
const CONNECTING: usize = 4;
/// How long all may take to connect.
const PATIENCE: Duration = Duration::from_secs(300);

/// An interval with latencies of about a millisecond, of which one in 200 is 40 times as long.
fn row(seed: u64) -> IntervalRow {
    let mut state = seed | 1;
    let groups = (0..GROUPS).map(|group| {
        let mut histogram = Histogram::new(Grid::FINE, false);
        for _ in 0..EVENTS {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let usual = 200_000 + (state >> 33) % 1_600_000;
            histogram.record(if state >> 40 & 255 == 0 { usual * 40 } else { usual }, 0);
        }
        (group, Parts { done: Some(histogram.to_sparse()), waiting: None })
    });
    IntervalRow { covered_ns: WIDTH_NS, groups: groups.collect(), ..IntervalRow::default() }
}

fn connected(address: &Address, credentials: &Credentials, number: usize) -> Result<Agent, String> {
    let run = new_id().map_err(|error| error.to_string())?;
    let (host, fields) = (format!("n{number}"), vec!["device".to_string(), "kind".to_string()]);
    let (source, filter) = ("simulation".to_string(), String::new());
    let hello = Hello { run, host, source, filter, width_ns: WIDTH_NS, fields, is_wall: true };
    let groups: Vec<Vec<String>> = (0..GROUPS)
        .map(|group| vec![format!("sd{}", group / 2), ["read", "write"][group as usize % 2].into()])
        .collect();
    // Only so many may shake hands at a time.
    let until = Instant::now() + PATIENCE;
    loop {
        match introduce(address, credentials, &hello) {
            Ok((stream, _)) => {
                let described = Dictionary::record(run, 0, &groups);
                (&stream).write_all(described.bytes()).map_err(|error| error.to_string())?;
                return Ok(Agent { number, hello, stream, sent: 0 });
            }
            Err(why) if Instant::now() > until => return Err(why),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// One that is connected.
struct Agent {
    number: usize,
    hello: Hello,
    stream: Stream,
    /// How many records it sent.
    sent: u64,
}

impl Agent {
    fn send(&mut self, rows: &[IntervalRow], start: i64) -> Result<(), String> {
        let (sequences, run) = (self.sent..=self.sent, self.hello.run);
        let head = Head { run, sequences, start, width_ns: WIDTH_NS, intervals: 1 };
        let row = rows[(self.number + self.sent as usize) % rows.len()].clone();
        self.sent += 1;
        let record: Record = Data { head, rows: vec![row] }.record();
        let mut stream = &self.stream;
        stream.write_all(record.bytes()).map_err(|error| format!("{}: {error}", self.hello.host))
    }
}

/// Connects agents, one after the other.
fn connect(
    address: &Address,
    credentials: &Credentials,
    numbers: impl Iterator<Item = usize>,
    ready: &Sender<Result<Agent, String>>,
) {
    for number in numbers {
        if ready.send(connected(address, credentials, number)).is_err() {
            return;
        }
    }
}

fn main() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, ca, tokens, agents, seconds] = &words[..] else {
        return Err("agents HOST:PORT ca.pem TOKENS AGENTS SECONDS".into());
    };
    let address = Address::parse(address)?;
    let file = |path: &String| Some(PathBuf::from(path));
    let credentials = Credentials { authorities: file(ca), tokens: file(tokens), ..Credentials::default() };
    let number = |text: &String| text.parse::<usize>().map_err(|error| error.to_string());
    let (agents, seconds) = (number(agents)?, number(seconds)? as u64);
    let rows: Vec<IntervalRow> = (0..ROWS).map(|seed| row(seed << 20)).collect();
    std::thread::scope(|scope| {
        let (ready, arriving) = channel();
        for first in 0..CONNECTING {
            let (address, credentials, ready) = (&address, &credentials, ready.clone());
            scope.spawn(move || connect(address, credentials, (first..agents).step_by(CONNECTING), &ready));
        }
        drop(ready);
        let (mut all, start, mut end, mut most_late) = (Vec::<Agent>::new(), Instant::now(), None, Duration::ZERO);
        for second in 0.. {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()) as i64;
            for agent in arriving.try_iter() {
                all.push(agent?);
            }
            if all.len() == agents && end.is_none() {
                println!("connected after {second} s");
                end = Some(second + seconds);
            }
            if end == Some(second) {
                break;
            }
            for (at, agent) in all.iter_mut().enumerate() {
                // Agents do not all send at the same moment.
                let due = Duration::from_secs(second) + Duration::from_secs(1).mul_f64(at as f64 / agents as f64);
                std::thread::sleep(due.saturating_sub(start.elapsed()));
                agent.send(&rows, now - 1)?;
            }
            std::thread::sleep(Duration::from_secs(second + 1).saturating_sub(start.elapsed()));
            most_late = most_late.max(start.elapsed().saturating_sub(Duration::from_secs(second + 1)));
        }
        let records: u64 = all.iter().map(|agent| agent.sent).sum();
        println!("sent {records} records; at most {} ms late", most_late.as_millis());
        Ok(())
    })
}
