//! Agents and a hub in one process, over a socket file, against a sum of another kind.

#[path = "hub_clock_tests.rs"]
mod clocks;
#[path = "hub_hostile_tests.rs"]
mod hostile;
#[path = "hub_tls_tests.rs"]
mod tls;

use super::*;
use crate::messages::Stored;
use crate::{Address, Data, Dictionary, Found, PREFACE, Queue, QueueLimits, Ranges, Records, Reducer, Sender, new_id};
use latscope_event::{Field, Tally};
use latscope_histogram::{Grid, Histogram};
use latscope_series::{HistogramSeries, Quantity, Weight};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;

const WIDTH_NS: u64 = 1_000_000_000;
const LIMITS: Limits = Limits { keep_ns: 3_600_000_000_000, memory_bytes: 64 << 20, grace_ns: 2_000_000_000 };

const KEPT: QueueLimits = QueueLimits { bytes: 1 << 30, backfill: 1 << 20 };

/// Counts by interval, device and bucket.
type Counts = BTreeMap<(i64, String, u32), u64>;

/// A hub that serves until it is dropped.
struct Running {
    is_over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
    address: Address,
    hub: Arc<Hub>,
    changes: Arc<Mutex<Vec<Change>>>,
}

impl Running {
    fn start(folder: &Path) -> Running {
        Running::secured(folder, Address::Unix(folder.join("hub.sock")), &Credentials::default())
    }

    fn secured(folder: &Path, address: Address, credentials: &Credentials) -> Running {
        let journal = folder.join("journal");
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, listener) = (Arc::clone(&is_over), address.listen().unwrap());
        let address = listener.address().unwrap();
        let hub = Arc::new(
            Hub::open(LIMITS, Some(Storage { folder: journal, file_time: Duration::MAX, history: None }), credentials)
                .unwrap()
                .0,
        );
        let (serving, changes) = (Arc::clone(&hub), Arc::new(Mutex::new(Vec::new())));
        let seen = Arc::clone(&changes);
        let thread = std::thread::spawn(move || {
            let report = |change| seen.lock().unwrap().push(change);
            serving.serve(&listener, &|| over.load(Ordering::Relaxed), &report).unwrap();
        });
        Running { is_over, thread: Some(thread), address, hub, changes }
    }

    /// What a view gets: its counts, the hosts, and the number of requests that wait.
    fn read(&self) -> (Counts, crate::Hosts, u64) {
        self.read_as(&Credentials::default()).unwrap()
    }

    fn read_as(&self, credentials: &Credentials) -> Result<(Counts, crate::Hosts, u64), String> {
        self.read_of(credentials, &Query::default())
    }

    fn read_of(&self, credentials: &Credentials, query: &Query) -> Result<(Counts, crate::Hosts, u64), String> {
        let mut stream = self.address.read(credentials, query)?;
        let mut preface = [0; PREFACE.len()];
        stream.read_exact(&mut preface).unwrap();
        let (mut records, mut groups, mut fields) = (Records::of_file(stream), Dictionary::default(), 0);
        let (mut counts, mut hosts, mut waiting, mut has_ended) = (Counts::new(), None, 0, false);
        while let Some(found) = records.next().unwrap() {
            let Found::Record(record) = found else { panic!("{found:?}") };
            match record.kind().unwrap() {
                Kind::Hello => fields = Hello::parse(record.payload()).unwrap().fields.len(),
                Kind::Dictionary => groups.add(&record, fields).unwrap(),
                Kind::Data => {
                    let data = Data::parse(&record).unwrap();
                    for (interval, row) in (data.head.start..).zip(data.rows) {
                        for (group, parts) in row.groups {
                            let device = groups.get(group).unwrap()[0].clone();
                            waiting += parts.waiting.map_or(0, |ages| ages.totals().count);
                            for (index, count, _) in parts.done.iter().flat_map(|done| done.buckets()) {
                                *counts.entry((interval, device.clone(), index as u32)).or_insert(0) += count;
                            }
                        }
                    }
                }
                Kind::Hosts => hosts = Some(crate::Hosts::parse(record.payload()).unwrap()),
                Kind::Bye => has_ended = true,
                other => panic!("{other:?}"),
            }
        }
        assert!(has_ended, "the answer is whole");
        Ok((counts, hosts.unwrap(), waiting))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn hello(host: &str) -> Hello {
    let (run, host) = (new_id().unwrap(), host.to_string());
    let fields = vec!["device".to_string()];
    Hello { run, host, source: "test".into(), filter: String::new(), width_ns: WIDTH_NS, fields, is_wall: true }
}

fn sent(queue: &Queue, address: &Address, hello: &Hello) {
    let credentials = Credentials::default();
    let sender = Sender {
        queue,
        hub: 0,
        address,
        credentials: &credentials,
        hello,
        is_synchronised: &|| None,
        clock_moved_ns: &|| 0,
    };
    sender.run(&|_| ());
}

/// A moment that the hub keeps.
fn recent() -> i64 {
    now_ns() / WIDTH_NS as i64 - 100
}

/// The records of one interval in which these values completed, which are counted, too.
fn interval(reducer: &mut Reducer, number: i64, values: &[(&str, u64)], counts: &mut Counts) -> Vec<Record> {
    let mut series = HistogramSeries::new(Quantity::Latency, Weight::Count, vec![Field::Device], WIDTH_NS);
    for &(device, value) in values {
        let mut histogram = Histogram::new(Grid::FINE, false);
        histogram.record(value, 0);
        series.insert(number, vec![device.to_string()], &histogram.to_sparse()).unwrap();
        *counts.entry((number, device.to_string(), Grid::FINE.index(value) as u32)).or_insert(0) += 1;
    }
    series.pass(number..number + 1);
    reducer.records(&series, number + 1, &Tally::default())
}

fn values(seed: u64) -> Vec<(&'static str, u64)> {
    let devices = ["sda", "sdb", "nvme0n1"];
    (0..20u64).map(|at| (devices[(at % 3) as usize], (seed + 1) * (at + 7) * 9973 % 40_000_000)).collect()
}

/// Three hosts, a hub that goes away twice, agents that come back: what the hub has is what was sent, once.
#[test]
fn what_is_sent_counts_once_whatever_happens() {
    let folder = tempfile::tempdir().unwrap();
    let (mut truth, start) = (Counts::new(), recent());
    let hosts = ["n1", "n2", "n3"];
    for round in 0..3i64 {
        let mut hub = Running::start(folder.path());
        let agents: Vec<_> = hosts
            .iter()
            .zip(0u64..)
            .map(|(host, number)| {
                let hello = hello(host);
                let (queue, _) = Queue::open(Some(&folder.path().join(host)), KEPT, 1, &hello).unwrap();
                (Arc::new(queue), Reducer::new(hello.run, WIDTH_NS, 200), hello, number)
            })
            .collect();
        let address = hub.address.clone();
        let threads: Vec<_> = agents
            .iter()
            .flat_map(|(queue, _, hello, _)| {
                let (writer, sender, hello, address) =
                    (Arc::clone(queue), Arc::clone(queue), hello.clone(), address.clone());
                [
                    std::thread::spawn(move || writer.write()),
                    std::thread::spawn(move || sent(&sender, &address, &hello)),
                ]
            })
            .collect();
        let mut agents = agents;
        for at in 0..10 {
            for (queue, reducer, _, host) in &mut agents {
                let values = values(*host * 100 + at as u64 + round as u64 * 1000);
                queue.push(interval(reducer, start + round * 10 + at, &values, &mut truth));
            }
            if at == 5 {
                // What was confirmed is on disk, and the rest is sent again.
                drop(hub);
                hub = Running::start(folder.path());
            }
        }
        // In the second round nobody waits until all is sent.
        let patience = if round == 1 { Duration::ZERO } else { Duration::from_secs(30) };
        agents.iter().for_each(|(queue, ..)| queue.end(Instant::now() + patience));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        if round != 1 {
            let (counts, state, _) = hub.read();
            assert!(counts == truth, "round {round}: {} of {} cells", counts.len(), truth.len());
            assert_eq!(state.hosts.len(), 3);
        }
    }
    // Nothing is left in the queues but the last segments.
    let hub = Running::start(folder.path());
    let (counts, state, _) = hub.read();
    assert!(counts == truth, "after a restart");
    assert_eq!((state.incomplete, state.outside), (0, 0));
}

/// Speaks to a hub as an agent does, record by record.
struct Peer(Records<Stream>);

impl Peer {
    fn connect(hub: &Running, hello: &Hello) -> Peer {
        let stream = hub.address.connect(None).unwrap();
        (&stream).write_all(PREFACE).unwrap();
        (&stream).write_all(hello.record().bytes()).unwrap();
        Peer(Records::of_connection(stream))
    }

    fn answer(&mut self) -> Record {
        match self.0.next().unwrap() {
            Some(Found::Record(record)) => record,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until all records up to this number are stored.
    fn answers_until(&mut self, last: u64) {
        let mut stored = Ranges::default();
        while !stored.has_all(&(0..=last)) {
            let answer = self.answer();
            assert_eq!(answer.kind(), Ok(Kind::Ack));
            Stored::parse(answer.payload()).unwrap().ranges.iter().for_each(|range| assert!(stored.add(range)));
        }
    }

    fn send(&self, record: &Record) {
        let mut stream = self.0.source();
        stream.write_all(record.bytes()).unwrap();
    }
}

#[test]
fn any_order_and_repetition_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Running::start(folder.path());
    let (hello, mut truth, start) = (hello("n1"), Counts::new(), recent());
    let mut reducer = Reducer::new(hello.run, WIDTH_NS, 200);
    let records: Vec<Record> =
        (0..8).flat_map(|at| interval(&mut reducer, start + at, &values(at as u64), &mut truth)).collect();
    let is_data = |record: &&Record| record.kind() == Ok(Kind::Data);
    let mut peer = Peer::connect(&hub, &hello);
    assert_eq!(peer.answer().kind(), Ok(Kind::Welcome));
    records.iter().filter(|record| !is_data(record)).for_each(|record| peer.send(record));
    let data: Vec<&Record> = records.iter().filter(is_data).collect();
    for at in [5, 2, 5, 7, 0, 0, 1, 6, 2, 3, 4, 7] {
        peer.send(data[at]);
    }
    peer.answers_until(7);
    assert!(hub.read().0 == truth);
    // Again, by a connection of its own: the hub says that it has all of it.
    drop(peer);
    let mut again = Peer::connect(&hub, &hello);
    let welcome = Stored::parse(again.answer().payload()).unwrap();
    assert!(welcome.ranges.has_all(&(0..=7)));
}

/// A stretch of time of which a host lacks some, and in which another one said that it ends and came again, in intervals of the view.
#[test]
fn hosts_are_counted_in_the_intervals_that_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut hub = Running::start(folder.path());
    let start = recent().div_euclid(10) * 10;
    let parts =
        [("n1", 0..40, false), ("n2", 0..12, false), ("n2", 25..40, false), ("n3", 0..15, true), ("n3", 30..40, true)];
    for (host, seconds, ends) in parts.clone() {
        let hello = hello(host);
        let mut reducer = Reducer::new(hello.run, WIDTH_NS, 200);
        let mut peer = Peer::connect(&hub, &hello);
        assert_eq!(peer.answer().kind(), Ok(Kind::Welcome));
        let count = seconds.end - seconds.start;
        for second in seconds {
            let records = interval(&mut reducer, start + second, &values(1), &mut Counts::new());
            records.iter().for_each(|record| peer.send(record));
        }
        peer.answers_until(count as u64 - 1);
        if ends {
            peer.send(&Record::new(Kind::Bye, b""));
        }
        drop(peer);
        let is_over = |change: &Change| matches!(change, Change::Left(_) | Change::Lost(..));
        while hub.changes.lock().unwrap().drain(..).filter(is_over).count() == 0 {
            sleep(Duration::from_millis(10));
        }
    }
    let is_there = |host: &str, second: i64| parts.iter().any(|part| part.0 == host && part.1.contains(&second));
    let lacks = |second: i64| !is_there("n2", second);
    for round in 0..2 {
        while hub.read().1.provisional > 0 {
            sleep(Duration::from_millis(10));
        }
        for (width, from, to) in [(1, 0, 40), (10, 0, 40), (10, 10, 20), (20, 0, 40), (1, 14, 22), (1, 26, 40)] {
            let [from_ns, to_ns] = [start + from, start + to].map(|second| second * WIDTH_NS as i64);
            let width_ns = Some(width as u64 * WIDTH_NS);
            let query = Query { from_ns, to_ns: to_ns - 1, width_ns, ..Query::default() };
            let (counts, hosts, _) = hub.read_of(&Credentials::default(), &query).unwrap();
            let expected = (from..to).filter(|&second| lacks(second)).map(|second| (start + second) / width);
            let expected = expected.collect::<std::collections::BTreeSet<_>>().len() as u64;
            assert_eq!((hosts.incomplete, hosts.provisional), (expected, 0), "{round}: {width}s from {from} to {to}");
            let missing: Vec<u64> = hosts.hosts.iter().map(|host| host.missing).collect();
            assert_eq!(missing, [0, expected, 0]);
            assert_eq!(hosts.present, ["n1", "n2", "n3"].iter().filter(|host| is_there(host, to - 1)).count() as u64);
            assert!(!counts.is_empty());
        }
        // What is said at the end is in the journal.
        drop(hub);
        hub = Running::start(folder.path());
    }
}

/// A hub that is away at the end of an agent, and comes back, is found at once, however long the agent waited between attempts before.
#[test]
fn what_is_left_at_the_end_does_not_wait_for_the_next_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let address = Address::Unix(folder.path().join("hub.sock"));
    let (hello, mut truth) = (hello("n1"), Counts::new());
    let (queue, _) = Queue::open(None, KEPT, 1, &hello).unwrap();
    let mut reducer = Reducer::new(hello.run, WIDTH_NS, 200);
    queue.push(interval(&mut reducer, recent(), &values(1), &mut truth));
    scope(|scope| {
        let sender = scope.spawn(|| sent(&queue, &address, &hello));
        // By now it waits for a second or more.
        sleep(Duration::from_millis(1800));
        queue.end(Instant::now() + Duration::from_secs(30));
        let hub = Running::start(folder.path());
        let start = Instant::now();
        sender.join().unwrap();
        assert!(start.elapsed() < Duration::from_secs(5) && queue.backlog(0) == 0, "{:?}", start.elapsed());
        assert!(hub.read().0 == truth);
    });
}

/// After a break the same run may connect before the hub notices that its first connection is gone.
#[test]
fn a_run_is_connected_until_its_last_connection_ends() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Running::start(folder.path());
    let run = hello("n1");
    let (mut first, mut second) = (Peer::connect(&hub, &run), Peer::connect(&hub, &run));
    assert_eq!((first.answer().kind(), second.answer().kind()), (Ok(Kind::Welcome), Ok(Kind::Welcome)));
    drop(first);
    let lost = |change: &Change| matches!(change, Change::Lost(..));
    while !hub.changes.lock().unwrap().iter().any(lost) {
        sleep(Duration::from_millis(10));
    }
    assert_eq!(Peer::connect(&hub, &hello("n1")).answer().kind(), Ok(Kind::Refuse));
}

#[test]
fn who_does_not_fit_is_refused_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Running::start(folder.path());
    let mut first = Peer::connect(&hub, &hello("n1"));
    assert_eq!(first.answer().kind(), Ok(Kind::Welcome));
    let refused = |hello: &Hello| {
        let answer = Peer::connect(&hub, hello).answer();
        assert_eq!(answer.kind(), Ok(Kind::Refuse));
        crate::messages::parse_refusal(answer.payload()).unwrap()
    };
    assert!(refused(&hello("n1")).contains("another agent is connected as n1"));
    let other = Hello { width_ns: 2 * WIDTH_NS, ..hello("n2") };
    assert!(refused(&other).contains("start the agent with -i 1s --by device"));
    assert!(refused(&hello("")).contains("needs a name"));
    // What is no record ends the connection, and nothing else.
    first.send(&Record::new(Kind::Data, b"nonsense"));
    assert_eq!(first.answer().kind(), Ok(Kind::Refuse));
    let stream = hub.address.connect(None).unwrap();
    (&stream).write_all(&[b'x'; 4096]).unwrap();
    assert!(hub.read().0.is_empty());
}

/// Bytes that are cut anywhere cost what is behind the cut, and are sent again.
#[test]
fn a_connection_that_is_cut_anywhere_leaves_the_truth() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Running::start(folder.path());
    let (hello, mut truth, start) = (hello("n1"), Counts::new(), recent());
    let mut reducer = Reducer::new(hello.run, WIDTH_NS, 200);
    let records: Vec<Record> =
        (0..3).flat_map(|at| interval(&mut reducer, start + at, &values(at as u64), &mut truth)).collect();
    let all: Vec<u8> = records.iter().flat_map(|record| record.bytes().to_vec()).collect();
    for cut in (0..all.len()).step_by(97) {
        let mut peer = Peer::connect(&hub, &hello);
        // The connection before may not have ended yet.
        if peer.answer().kind() == Ok(Kind::Welcome) {
            let mut stream = peer.0.source();
            stream.write_all(&all[..cut]).unwrap();
        }
    }
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let mut peer = Peer::connect(&hub, &hello);
        assert!(Instant::now() < until);
        if peer.answer().kind() == Ok(Kind::Welcome) {
            records.iter().for_each(|record| peer.send(record));
            assert_eq!(peer.answer().kind(), Ok(Kind::Ack));
            if hub.read().0 == truth {
                return;
            }
        }
    }
}
