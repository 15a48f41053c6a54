//! The side of an agent: connects to a hub, sends what the queue has, and takes what the hub stored.

use crate::clock::{ClockState, Exchanges, Steps, now_ns};
use crate::messages::{Hello, Ping, Pong, Stored, parse_refusal, token};
use crate::queue::Queue;
use crate::stream::{SILENCE, Stream, explain_failure, is_timeout};
use crate::usage::Usage;
use crate::{Address, Credentials, Found, Kind, PREFACE, Record, Records};
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// The first wait before connecting again, which doubles.
const RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// The wait once nothing more comes, and for how long a hub may be away then.
const LAST_RETRY: Duration = Duration::from_millis(200);
const LAST_RETRIES: Duration = Duration::from_secs(3);
/// A connection that lasted so long was a good one: a hub that lets an agent in and refuses what it sends is not asked ever faster, and
/// one that was restarted has its agents back within a second.
const HEALTHY: Duration = Duration::from_secs(1);
const TURN: Duration = Duration::from_millis(100);
/// How often a connection is looked at on which nothing happens.
const IDLE: Duration = Duration::from_millis(500);
/// How often the clocks are compared, and how many times at once after connecting.
const PING: Duration = Duration::from_secs(10);
const FIRST_PINGS: u32 = 8;
/// How long nothing else is sent after connecting, for the first comparison: the hub places intervals by it.
const COMPARISON: Duration = Duration::from_secs(1);
/// How often it is looked for meanwhile.
const LOOK: Duration = Duration::from_millis(2);
/// How long the hub has to say why it takes nothing more.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How often the files of the credentials are looked at.
const RELOAD: Duration = Duration::from_secs(60);

/// What becomes of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The hub takes records.
    Connected,
    /// There is no connection, and why.
    Lost(String),
}

/// Sends what is in a queue to one hub.
pub struct Sender<'a> {
    /// What is sent.
    pub queue: &'a Queue,
    /// The number of the hub in the queue.
    pub hub: usize,
    /// Where it is.
    pub address: &'a Address,
    /// How it is trusted, and trusts.
    pub credentials: &'a Credentials,
    /// Who sends.
    pub hello: &'a Hello,
    /// Whether the clock of this host is synchronised, where that is known.
    pub is_synchronised: &'a (dyn Fn() -> Option<bool> + Sync),
    /// How far the clock of this host is moved for a test, nanoseconds.
    pub clock_moved_ns: &'a (dyn Fn() -> i64 + Sync),
}

impl Sender<'_> {
    /// Sends until the queue is over; reports each change.
    pub fn run(&self, report: &dyn Fn(Progress)) {
        let (mut wait, mut lost) = (Duration::ZERO, None);
        while !self.queue.is_over(self.hub) {
            let mut connected = None::<Instant>;
            let ended = self.connect().and_then(|mut session| {
                report(Progress::Connected);
                (lost, connected) = (None, Some(Instant::now()));
                session.run().map_err(|error| error.to_string())
            });
            if let Err(why) = ended
                && lost.as_ref() != Some(&why)
            {
                report(Progress::Lost(why.clone()));
                lost = Some(why);
            }
            if lost.is_some() && self.queue.has_ended_for(LAST_RETRIES) {
                return;
            }
            wait = next_wait(wait, connected.map(|connected| connected.elapsed()));
            // Agents of a hub that was restarted do not come all at once.
            let share = u64::from(self.hello.run.0[0]);
            self.pause(wait.mul_f64(0.5 + share as f64 / 512.0));
        }
    }

    /// Waits for so long, but at the end, when what is left has little time, not so long.
    fn pause(&self, time: Duration) {
        let start = Instant::now();
        let longest = || if self.queue.has_ended() { LAST_RETRY.min(time) } else { time };
        while !self.queue.is_over(self.hub)
            && let Some(left) = longest().checked_sub(start.elapsed())
        {
            sleep(TURN.min(left));
        }
    }

    fn connect(&self) -> Result<Session<'_>, String> {
        let changed = self.credentials.changed();
        let (stream, stored) = introduce(self.address, self.credentials, self.hello)?;
        self.queue.connected(self.hub);
        self.queue.stored(self.hub, &stored);
        let described = HashMap::from([(self.queue.present(), 1)]);
        Ok(Session { sender: self, stream, described, changed, exchanges: Mutex::default() })
    }

    fn now_ns(&self) -> i64 {
        now_ns().saturating_add((self.clock_moved_ns)())
    }
}

/// How long to wait before connecting again, after this wait before and a connection that lasted so long, where there was one.
fn next_wait(wait: Duration, connected: Option<Duration>) -> Duration {
    match connected {
        Some(lasted) if lasted >= HEALTHY => RETRY,
        _ => (wait * 2).clamp(RETRY, LONGEST_RETRY),
    }
}

/// Connects with the files as they are now and says who sends; the answer is what the hub has of that run.
///
/// # Errors
/// A sentence, when nobody answers or the hub refuses.
pub fn introduce(address: &Address, credentials: &Credentials, hello: &Hello) -> Result<(Stream, Stored), String> {
    let text = |error: io::Error| explain_failure(&error);
    let client = credentials.client()?;
    let stream = address.connect(client.as_ref()).map_err(text)?;
    let mut greeting = PREFACE.to_vec();
    if let Some(own) = client.as_ref().and_then(|client| client.token.as_deref()) {
        greeting.extend_from_slice(token(own).bytes());
    }
    greeting.extend_from_slice(hello.record().bytes());
    (&stream).write_all(&greeting).map_err(text)?;
    let answer = match Records::of_connection(&stream).next().map_err(text)? {
        Some(Found::Record(record)) => record,
        _ => return Err("it is no hub, or it ended the connection".into()),
    };
    match answer.kind() {
        Ok(Kind::Welcome) => {
            let stored = Stored::parse(answer.payload()).map_err(|malformed| malformed.to_string())?;
            Ok((stream, stored))
        }
        Ok(Kind::Refuse) => Err(parse_refusal(answer.payload()).unwrap_or_else(|malformed| malformed.to_string())),
        _ => Err("it does not answer as a hub does".into()),
    }
}

struct Session<'a> {
    sender: &'a Sender<'a>,
    stream: Stream,
    /// How many records that describe a run were sent, by its number.
    described: HashMap<usize, usize>,
    /// When the files of the credentials had changed when it connected.
    changed: Vec<Option<std::time::SystemTime>>,
    exchanges: Mutex<Exchanges>,
}

impl Session<'_> {
    /// Sends until the connection breaks or the queue is over.
    fn run(&mut self) -> io::Result<()> {
        let is_broken = AtomicBool::new(false);
        let mut described = std::mem::take(&mut self.described);
        let session = &*self;
        scope(|scope| {
            let broken = &is_broken;
            let answers = scope.spawn(move || {
                let result = session.take_answers(broken);
                broken.store(true, Ordering::Relaxed);
                result
            });
            let sent = session.send_all(&mut described, broken);
            // A hub that takes nothing more may have said why.
            let until = Instant::now() + LAST_WORDS;
            while sent.is_err() && !answers.is_finished() && Instant::now() < until {
                sleep(Duration::from_millis(5));
            }
            broken.store(true, Ordering::Relaxed);
            session.stream.close();
            let answered = answers.join().unwrap_or(Ok(()));
            // Why the hub ended it is worth more than that it is gone.
            answered.and(sent)
        })
    }

    fn send_all(&self, described: &mut HashMap<usize, usize>, is_broken: &AtomicBool) -> io::Result<()> {
        let (queue, hub) = (self.sender.queue, self.sender.hub);
        let (mut stream, reconnects) = (&self.stream, queue.reconnects());
        let (mut pings, mut ping_at, mut looked) = (0, Instant::now(), Instant::now());
        let (own_clock, compared) = (|| self.sender.now_ns(), Instant::now() + COMPARISON);
        let (mut steps, mut is_compared) = (Steps::new(&own_clock), false);
        while !is_broken.load(Ordering::Relaxed) {
            if queue.is_over(hub) {
                // The hub ends the connection as soon as it reads this.
                is_broken.store(true, Ordering::Relaxed);
                return stream.write_all(Record::new(Kind::Bye, b"").bytes());
            }
            if looked.elapsed() >= RELOAD || queue.reconnects() != reconnects {
                if queue.reconnects() != reconnects || self.sender.credentials.changed() != self.changed {
                    return Ok(());
                }
                looked = Instant::now();
            }
            if let Some(step_ns) = steps.step(&own_clock) {
                self.exchanges().step(step_ns);
                ping_at = Instant::now();
            }
            if Instant::now() >= ping_at {
                stream.write_all(self.ping().record().bytes())?;
                pings += 1;
                ping_at += if pings < FIRST_PINGS { TURN } else { PING };
            }
            if !is_compared {
                is_compared = self.exchanges().best().is_some() || Instant::now() >= compared;
                // The hub has to know it before the first record.
                if is_compared {
                    ping_at = Instant::now()
                } else {
                    sleep(LOOK)
                }
                continue;
            }
            let wait = if queue.backlog(hub) > 0 { TURN } else { IDLE };
            let Some((run, record)) = queue.next(hub, wait.min(ping_at.saturating_duration_since(Instant::now())))
            else {
                if queue.has_ended() {
                    sleep(Duration::from_millis(5));
                }
                continue;
            };
            let known = described.entry(run).or_insert(0);
            for description in queue.descriptions(run, *known) {
                stream.write_all(description.bytes())?;
                *known += 1;
            }
            stream.write_all(record.bytes())?;
        }
        Ok(())
    }

    fn exchanges(&self) -> MutexGuard<'_, Exchanges> {
        self.exchanges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ping(&self) -> Ping {
        let offset = self.exchanges().best();
        let clock = ClockState { offset, is_synchronised: (self.sender.is_synchronised)() };
        Ping { asked_ns: self.sender.now_ns(), clock, queue: Some(self.sender.queue.fill()), usage: Usage::own() }
    }

    /// Takes what the hub stored, until it is silent although it owes an answer.
    fn take_answers(&self, is_broken: &AtomicBool) -> io::Result<()> {
        let (queue, hub) = (self.sender.queue, self.sender.hub);
        self.stream.wait_at_most(IDLE)?;
        let (mut records, mut heard) = (Records::of_connection(&self.stream), Instant::now());
        loop {
            match records.next() {
                Ok(Some(Found::Record(record))) => {
                    heard = Instant::now();
                    self.take_answer(&record)?;
                }
                Ok(_) if is_broken.load(Ordering::Relaxed) => return Ok(()),
                Ok(_) => return Err(io::Error::other("the hub ended the connection")),
                Err(error) if is_timeout(&error) => {
                    if is_broken.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                    if queue.backlog(hub) == 0 {
                        heard = Instant::now();
                    }
                    if heard.elapsed() > SILENCE {
                        return Err(io::Error::other("the hub does not answer"));
                    }
                }
                Err(_) if is_broken.load(Ordering::Relaxed) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn take_answer(&self, record: &Record) -> io::Result<()> {
        match record.kind() {
            Ok(Kind::Ack | Kind::Welcome) => {
                if let Ok(stored) = Stored::parse(record.payload()) {
                    self.sender.queue.stored(self.sender.hub, &stored);
                }
            }
            Ok(Kind::Pong) => {
                if let Ok(pong) = Pong::parse(record.payload()) {
                    self.exchanges().add(pong.asked_ns, pong.got_ns, pong.answered_ns, self.sender.now_ns());
                }
            }
            Ok(Kind::Refuse) => return Err(io::Error::other(parse_refusal(record.payload()).unwrap_or_default())),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds that are waited after these connections; 0: there was none.
    fn waits(connections: &[u64]) -> Vec<f64> {
        let mut wait = Duration::ZERO;
        let next = |&lasted: &u64| {
            wait = next_wait(wait, (lasted > 0).then(|| Duration::from_millis(lasted)));
            wait.as_secs_f64()
        };
        connections.iter().map(next).collect()
    }

    #[test]
    fn a_hub_that_let_an_agent_in_is_asked_again_at_once() {
        assert_eq!(waits(&[0, 0, 0, 0, 0, 0, 0, 0]), [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]);
        assert_eq!(waits(&[6000, 0, 5000, 0, 0, 7000, 6000]), [0.5, 1.0, 0.5, 1.0, 2.0, 0.5, 0.5]);
        // It lets the agent in and refuses what it sends.
        assert_eq!(waits(&[5, 5, 5, 5]), [0.5, 1.0, 2.0, 4.0]);
    }
}
