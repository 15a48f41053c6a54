//! A hub's side of a connection: who is there, and the records of an agent.

use crate::clock::now_ns;
use crate::cluster::{Cluster, Taken};
use crate::gate::{Gate, Keys, Permit, Proof};
use crate::journal::Journal;
use crate::messages::{Ping, Pong, Stored, parse_token, refusal};
use crate::stream::{SILENCE, Stream, is_timeout};
use crate::{Data, Dictionary, Found, Head, Hello, Id, Kind, Malformed, PREFACE, Ranges, Record, Records};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io::{Read, Write};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often something that is not on disk yet is looked at.
const TURN: Duration = Duration::from_millis(100);
/// How often an agent that sends nothing is looked at.
const IDLE: Duration = Duration::from_secs(1);
/// How long a peer may take for the handshake, and then for its first record.
const HANDSHAKE: Duration = Duration::from_secs(5);
const FIRST_RECORD: Duration = Duration::from_secs(10);
/// What a host may send a second, and at once; beyond that it waits.
const RECORDS_PER_SECOND: f64 = 1000.0;
const BYTES_PER_SECOND: f64 = (8 << 20) as f64;
/// Most runs that one connection may send: the present one, and those in its queue.
const RUNS: usize = 1000;

/// The first words of a peer.
pub struct Greeting {
    pub stream: Stream,
    pub first: Record,
    pub permit: Permit,
    pub access: Option<Access>,
}

/// By what a peer may do what it does, which may be revoked.
pub struct Access {
    gate: Arc<Gate>,
    keys: Arc<Keys>,
    proof: Proof,
}

/// Why it was refused.
pub enum Stranger {
    /// It is not one of us, or was too slow.
    Silent,
    /// It may not come in.
    Refused(String),
}

/// Lets a peer say what it wants, which takes it a bounded time, and finds out what it may do.
pub fn greet(stream: Stream, gate: Option<&Arc<Gate>>) -> Result<Greeting, Stranger> {
    stream.wait_until(Instant::now() + HANDSHAKE);
    let mut proof = Proof::default();
    let mut access = None;
    let stream = match gate {
        None => stream,
        Some(gate) => {
            let keys = gate.keys();
            let encrypted = stream.answer_encrypted(keys.config.clone());
            let stream = encrypted.map_err(|error| match is_timeout(&error) {
                true => Stranger::Silent,
                false => Stranger::Refused(error.to_string()),
            })?;
            proof.names = stream.peer_names();
            access = Some((Arc::clone(gate), keys));
            stream
        }
    };
    stream.wait_until(Instant::now() + FIRST_RECORD);
    let mut preface = [0; PREFACE.len()];
    (&stream).read_exact(&mut preface).ok().filter(|()| preface == PREFACE).ok_or(Stranger::Silent)?;
    let mut first = next_record(&stream).ok_or(Stranger::Silent)?;
    if first.kind() == Ok(Kind::Token) {
        proof.token = parse_token(first.payload()).ok();
        first = next_record(&stream).ok_or(Stranger::Silent)?;
    }
    let permit = access.as_ref().map_or(Ok(Permit::ANY), |(_, keys)| keys.permit(&proof));
    let permit = permit.and_then(|permit| match first.kind() {
        Ok(Kind::Read) => permit.check_read().map(|()| permit),
        _ => Ok(permit),
    });
    let permit = permit.map_err(|why| {
        refuse(&stream, first.kind() == Ok(Kind::Read), &why);
        Stranger::Refused(why)
    })?;
    Ok(Greeting { stream, first, permit, access: access.map(|(gate, keys)| Access { gate, keys, proof }) })
}

/// The next record, and nothing behind it: the reader of what follows has its own buffer.
fn next_record(stream: &Stream) -> Option<Record> {
    let (mut source, mut head) = (stream, [0; 4]);
    source.read_exact(&mut head).ok()?;
    let length = u32::from_le_bytes(head) as usize;
    if length > crate::record::RECORD_BYTES {
        return None;
    }
    let mut bytes = head.to_vec();
    bytes.resize(8 + length, 0);
    source.read_exact(&mut bytes[4..]).ok()?;
    match Records::of_connection(&bytes[..]).next().ok()?? {
        Found::Record(record) => Some(record),
        Found::Damaged(_) | Found::Cut(_) => None,
    }
}

/// Refuses a peer with a sentence, and ends what is sent to it.
pub fn refuse(mut stream: &Stream, reads: bool, why: &str) {
    let preface = if reads { PREFACE } else { b"" };
    let _ = stream.write_all(&[preface, refusal(why).bytes()].concat());
    stream.linger();
}

impl Access {
    /// When the certificate of the peer ends, nanoseconds since the epoch.
    fn certificate_end_ns(&self) -> Option<i64> {
        self.proof.names.as_ref().and_then(|names| names.end_ns)
    }

    /// Looks again where the files changed since.
    fn check(&mut self, host: &str) -> Result<(), String> {
        let keys = self.gate.keys();
        if Arc::ptr_eq(&keys, &self.keys) {
            return Ok(());
        }
        keys.permit(&self.proof)?.check_host(host)?;
        self.keys = keys;
        Ok(())
    }
}

/// Where the records of agents go.
#[derive(Clone, Copy)]
pub struct Stores<'a> {
    pub cluster: &'a Mutex<Cluster>,
    pub journal: Option<&'a Journal>,
    pub is_over: &'a (dyn Fn() -> bool + Sync),
    /// Reports a host whose clock is off, by so many nanoseconds.
    pub report_clock: &'a (dyn Fn(String, i64) + Sync),
}

/// The connection of an agent.
pub struct Agent<'a> {
    stores: Stores<'a>,
    stream: &'a Stream,
    host: String,
    permit: Permit,
    access: Option<Access>,
    /// The present run, and those that it described since.
    runs: HashSet<Id>,
    run: Id,
    /// What was taken and is not on disk yet: how many records must be there, the run, the numbers.
    unconfirmed: VecDeque<(u64, Id, RangeInclusive<u64>)>,
    /// How long it may send nothing.
    silence: Duration,
    pace: Pace,
}

/// What an agent may still send now.
struct Pace {
    records: f64,
    bytes: f64,
    since: Instant,
}

impl Pace {
    /// Waits where too much comes.
    fn hold(&mut self, bytes: usize) {
        let passed = self.since.elapsed().as_secs_f64();
        self.since = Instant::now();
        self.records = (self.records + passed * RECORDS_PER_SECOND).min(RECORDS_PER_SECOND) - 1.0;
        self.bytes = (self.bytes + passed * BYTES_PER_SECOND).min(BYTES_PER_SECOND) - bytes as f64;
        let debt = (self.records / RECORDS_PER_SECOND).min(self.bytes / BYTES_PER_SECOND);
        if debt < 0.0 {
            sleep(Duration::from_secs_f64(-debt).min(IDLE));
        }
    }
}

impl<'a> Agent<'a> {
    /// One that said who it is.
    pub fn new(stores: Stores<'a>, stream: &'a Stream, hello: &Hello, permit: Permit, access: Option<Access>) -> Self {
        let (host, run) = (hello.host.clone(), hello.run);
        let pace = Pace { records: RECORDS_PER_SECOND, bytes: BYTES_PER_SECOND, since: Instant::now() };
        let (runs, unconfirmed) = ([run].into(), VecDeque::new());
        let silence = SILENCE.max(Duration::from_nanos(hello.width_ns.saturating_mul(3)));
        Agent { stores, stream, host, permit, access, runs, run, unconfirmed, silence, pace }
    }

    /// Lets its run in, and says what is known of it.
    ///
    /// # Errors
    /// A sentence for who is refused.
    pub fn join(&self, hello: Hello, record: Record) -> Result<(), String> {
        self.permit.check_host(&self.host)?;
        let known = {
            let mut cluster = self.cluster();
            let known = cluster.describe(hello, record)?;
            cluster.connect(self.run, now_ns())?;
            cluster.set_certificate_end(self.run, self.access.as_ref().and_then(Access::certificate_end_ns));
            known
        };
        self.welcome(self.run, known)
    }

    fn welcome(&self, run: Id, ranges: Ranges) -> Result<(), String> {
        self.send(&Stored { run, ranges }.record(Kind::Welcome))
    }

    fn send(&self, record: &Record) -> Result<(), String> {
        let mut stream = self.stream;
        stream.write_all(record.bytes()).map_err(|error| error.to_string())
    }

    /// Takes records until the agent says that it ends; else why it ended.
    ///
    /// # Errors
    /// Why the connection ended.
    pub fn run(mut self) -> Result<(), String> {
        let text = |error: std::io::Error| error.to_string();
        let (mut records, mut heard, mut waits) = (Records::of_connection(self.stream), Instant::now(), TURN);
        self.stream.wait_at_most(waits).map_err(text)?;
        loop {
            match records.next() {
                Ok(Some(Found::Record(record))) => {
                    heard = Instant::now();
                    self.pace.hold(record.bytes().len());
                    if self.take(record)? {
                        return Ok(());
                    }
                }
                Ok(Some(Found::Damaged(_))) => return Err("it sent a damaged record".into()),
                Ok(_) => return Err("the connection ended".into()),
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(text(error)),
            }
            self.confirm()?;
            if let Some(access) = &mut self.access
                && let Err(why) = access.check(&self.host)
            {
                refuse(self.stream, false, &why);
                return Err(why);
            }
            if (self.stores.is_over)() || heard.elapsed() > self.silence {
                return Err("it is silent".into());
            }
            let wait = if self.unconfirmed.is_empty() { IDLE } else { TURN };
            if std::mem::replace(&mut waits, wait) != wait {
                self.stream.wait_at_most(wait).map_err(text)?;
            }
        }
    }

    /// Takes a record; whether the agent ends.
    fn take(&mut self, record: Record) -> Result<bool, String> {
        let stream = self.stream;
        let stores = self.stores;
        let malformed = |malformed: Malformed| {
            stores.cluster.lock().unwrap_or_else(PoisonError::into_inner).counters.malformed += 1;
            let sentence = format!("a record is refused: {malformed}");
            refuse(stream, false, &sentence);
            sentence
        };
        match record.kind().map_err(malformed)? {
            Kind::Bye => return Ok(true),
            // An earlier run of this agent, whose queue it sends.
            Kind::Hello => {
                let hello = Hello::parse(record.payload()).map_err(malformed)?;
                let run = hello.run;
                let known = match self.permit.check_host(&hello.host) {
                    Ok(()) if self.runs.len() < RUNS => self.cluster().describe(hello, record),
                    Ok(()) => Err("it sends too many runs".into()),
                    Err(why) => Err(why),
                };
                let known = known.inspect_err(|why| refuse(stream, false, why))?;
                self.runs.insert(run);
                self.welcome(run, known)?;
            }
            Kind::Dictionary => {
                self.check_run(Dictionary::run(&record)).map_err(malformed)?;
                // A statement of its own, as the one who counts malformed records takes the lock again.
                let added = self.cluster().add_groups(record);
                added.map_err(malformed)?;
            }
            Kind::Data => self.take_data(record).map_err(malformed)?,
            Kind::Ping => {
                let got_ns = now_ns();
                let ping = Ping::parse(record.payload()).map_err(malformed)?;
                let pong = Pong { asked_ns: ping.asked_ns, got_ns, answered_ns: now_ns() };
                self.send(&pong.record())?;
                let far = {
                    let mut cluster = self.cluster();
                    cluster.set_queue(self.run, ping.queue, ping.usage);
                    cluster.set_clock(self.run, ping.clock)
                };
                if let Some((host, offset_ns)) = far {
                    (self.stores.report_clock)(host, offset_ns);
                }
            }
            _ => {}
        }
        Ok(false)
    }

    /// Nobody sends in the name of another run.
    fn check_run(&self, run: Result<Id, Malformed>) -> Result<(), Malformed> {
        if self.runs.contains(&run?) { Ok(()) } else { Err(Malformed::Group) }
    }

    fn take_data(&mut self, record: Record) -> Result<(), Malformed> {
        let record = Arc::new(self.cluster().place(self.run, record)?);
        let (head, _) = Head::parse(&record)?;
        let (run, sequences) = (head.run, head.sequences.clone());
        self.check_run(Ok(run))?;
        // What is known need not be unpacked.
        let is_known = self.cluster().is_known(&head);
        let taken = match is_known {
            true => {
                self.cluster().counters.duplicates += 1;
                Taken::Known
            }
            false => {
                let data = Data::parse(&record)?;
                let mut cluster = self.cluster();
                let taken = cluster.add(data, now_ns())?;
                cluster.keep_recent(&head, Arc::clone(&record), now_ns());
                taken
            }
        };
        let needed = match self.stores.journal {
            None => 0,
            Some(journal) if taken == Taken::Known => journal.added(),
            Some(journal) => {
                while journal.is_full() && !(self.stores.is_over)() {
                    sleep(TURN);
                }
                journal.add(run, record)
            }
        };
        self.unconfirmed.push_back((needed, run, sequences));
        Ok(())
    }

    /// Confirms what is on disk, with one record for each run.
    fn confirm(&mut self) -> Result<(), String> {
        let written = self.stores.journal.map_or(u64::MAX, Journal::written);
        let mut stored = BTreeMap::<Id, Ranges>::new();
        let on_disk = self.unconfirmed.iter().take_while(|(needed, ..)| *needed <= written).count();
        for (_, run, sequences) in self.unconfirmed.drain(..on_disk) {
            stored.entry(run).or_default().add(sequences);
        }
        stored.into_iter().try_for_each(|(run, ranges)| self.send(&Stored { run, ranges }.record(Kind::Ack)))
    }

    fn cluster(&self) -> MutexGuard<'a, Cluster> {
        self.stores.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
