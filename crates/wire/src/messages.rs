//! What agents and hubs write to each other beside histograms.

use crate::clock::ClockState;
use crate::usage::Usage;
use crate::varint::{Payload, put, put_signed, put_text};
use crate::{Kind, Malformed, Ranges, Record};
use std::fmt;
use std::io::{self, Read};

/// The version of records that is written.
const VERSION: u64 = 1;
/// Most fields of a group.
const FIELDS_LIMIT: u64 = 16;
/// Most entries of a list.
const LIST_LIMIT: u64 = 10_000;

/// The identity of a run or of a hub.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Id(pub [u8; 16]);

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// An identity that nobody else has.
///
/// # Errors
/// When the kernel gives no random numbers.
pub fn new_id() -> io::Result<Id> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(Id(bytes))
}

/// Who sends, and what the numbers are of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The start of an agent, a hub, or a conversion.
    pub run: Id,
    /// The host; empty where histograms are of several.
    pub host: String,
    /// What was captured, for titles.
    pub source: String,
    /// Which events passed; empty: all.
    pub filter: String,
    /// Width of the intervals, nanoseconds. They start at whole multiples of it since the epoch.
    pub width_ns: u64,
    /// Names of the fields that make a group.
    pub fields: Vec<String>,
    /// Whether the intervals count from the Unix epoch.
    pub is_wall: bool,
}

impl Hello {
    /// As a record.
    pub fn record(&self) -> Record {
        let mut out = Vec::new();
        put(&mut out, VERSION);
        put(&mut out, VERSION);
        out.extend(self.run.0);
        [&self.host, &self.source, &self.filter].iter().for_each(|text| put_text(&mut out, text));
        put(&mut out, self.width_ns);
        put(&mut out, u8::from(self.is_wall));
        put(&mut out, self.fields.len() as u64);
        self.fields.iter().for_each(|field| put_text(&mut out, field));
        Record::new(Kind::Hello, &out)
    }

    /// Of the payload of a record.
    ///
    /// # Errors
    /// When it is malformed, or of an unknown version. What a later version adds at its end is ignored.
    pub fn parse(payload: &[u8]) -> Result<Hello, Malformed> {
        let mut payload = Payload(payload);
        let (oldest, _) = (payload.number()?, payload.number()?);
        if oldest > VERSION {
            return Err(Malformed::Version);
        }
        let run = Id(payload.array()?);
        let (host, source, filter) = (payload.text()?, payload.text()?, payload.text()?);
        let width_ns = payload.at_most(i64::MAX as u64 / 4)?.max(1);
        let is_wall = payload.at_most(1)? == 1;
        let count = payload.at_most(FIELDS_LIMIT).map_err(|_| Malformed::Amount)?;
        let fields = (0..count).map(|_| payload.text()).collect::<Result<_, _>>()?;
        Ok(Hello { run, host, source, filter, width_ns, fields, is_wall })
    }
}

/// The sequence numbers of a run that a hub has: the answer to [`Hello`], and what it stored since.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stored {
    /// The run.
    pub run: Id,
    /// The numbers.
    pub ranges: Ranges,
}

impl Stored {
    /// As a record of this kind: [`Kind::Welcome`] or [`Kind::Ack`].
    pub fn record(&self, kind: Kind) -> Record {
        let mut out = self.run.0.to_vec();
        put(&mut out, self.ranges.iter().len() as u64);
        let mut last = 0;
        for range in self.ranges.iter() {
            put(&mut out, range.start() - last);
            put(&mut out, range.end() - range.start());
            last = *range.end();
        }
        Record::new(kind, &out)
    }

    /// Of the payload of a record.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn parse(payload: &[u8]) -> Result<Stored, Malformed> {
        let mut payload = Payload(payload);
        let run = Id(payload.array()?);
        let count = payload.at_most(LIST_LIMIT).map_err(|_| Malformed::Amount)?;
        let (mut ranges, mut last) = (Ranges::default(), 0u64);
        for _ in 0..count {
            let start = last.checked_add(payload.number()?).ok_or(Malformed::Number)?;
            last = start.checked_add(payload.number()?).ok_or(Malformed::Number)?;
            ranges.add(start..=last);
        }
        Ok(Stored { run, ranges })
    }
}

/// An agent asks for the time of a hub, and says what it knows of its own clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ping {
    /// When it asks, by its clock.
    pub asked_ns: i64,
    pub clock: ClockState,
    /// How full its queue is: bytes, and how many there may be; `None` of an earlier version.
    pub queue: Option<(u64, u64)>,
    /// What it takes itself; `None` of an earlier version.
    pub usage: Option<Usage>,
}

/// The answer of a hub.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pong {
    /// As it was asked.
    pub asked_ns: i64,
    /// When the hub got it, and when it answered, by its clock.
    pub got_ns: i64,
    pub answered_ns: i64,
}

/// The end of a run that said that it ends, in a journal: on a connection it says no more than that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Goodbye {
    /// The run.
    pub run: Id,
    /// The end of the last interval of its host, nanoseconds since the epoch.
    pub end_ns: i64,
}

impl Goodbye {
    /// As a record.
    pub fn record(&self) -> Record {
        let mut out = self.run.0.to_vec();
        put_signed(&mut out, self.end_ns);
        Record::new(Kind::Bye, &out)
    }

    /// Of the payload of a record.
    pub fn parse(payload: &[u8]) -> Result<Goodbye, Malformed> {
        let mut payload = Payload(payload);
        Ok(Goodbye { run: Id(payload.array()?), end_ns: payload.signed()? })
    }
}

impl Ping {
    /// As a record.
    pub fn record(&self) -> Record {
        let mut out = Vec::new();
        put_signed(&mut out, self.asked_ns);
        put_clock(&mut out, &self.clock);
        if let Some((bytes, limit_bytes)) = self.queue {
            put(&mut out, bytes);
            put(&mut out, limit_bytes);
            if let Some(usage) = self.usage {
                put(&mut out, usage.cpu_ns);
                put(&mut out, usage.resident_bytes);
            }
        }
        Record::new(Kind::Ping, &out)
    }

    /// Of the payload of a record.
    pub fn parse(payload: &[u8]) -> Result<Ping, Malformed> {
        let mut payload = Payload(payload);
        let (asked_ns, clock) = (payload.signed()?, parse_clock(&mut payload)?);
        let queue = if payload.0.is_empty() { None } else { Some((payload.number()?, payload.number()?)) };
        let is_over = payload.0.is_empty();
        let mut usage = || Ok(Usage { cpu_ns: payload.number()?, resident_bytes: payload.number()? });
        let usage = if is_over { None } else { Some(usage()?) };
        Ok(Ping { asked_ns, clock, queue, usage })
    }
}

impl Pong {
    /// As a record.
    pub fn record(&self) -> Record {
        let mut out = Vec::new();
        [self.asked_ns, self.got_ns, self.answered_ns].into_iter().for_each(|time| put_signed(&mut out, time));
        Record::new(Kind::Pong, &out)
    }

    /// Of the payload of a record.
    pub fn parse(payload: &[u8]) -> Result<Pong, Malformed> {
        let mut payload = Payload(payload);
        let mut time = || payload.signed();
        Ok(Pong { asked_ns: time()?, got_ns: time()?, answered_ns: time()? })
    }
}

fn put_clock(out: &mut Vec<u8>, clock: &ClockState) {
    put(out, clock.is_synchronised.map_or(0, |is_synchronised| 1 + u8::from(is_synchronised)));
    put(out, u8::from(clock.offset.is_some()));
    if let Some((offset_ns, error_ns)) = clock.offset {
        put_signed(out, offset_ns);
        put(out, error_ns);
    }
}

fn parse_clock(payload: &mut Payload) -> Result<ClockState, Malformed> {
    let is_synchronised = payload.at_most(2)?.checked_sub(1).map(|number| number == 1);
    let offset = match payload.at_most(1)? {
        0 => None,
        _ => Some((payload.signed()?, payload.number()?)),
    };
    Ok(ClockState { offset, is_synchronised })
}

/// What proves who the sender is.
pub fn token(token: &str) -> Record {
    let mut out = Vec::new();
    put_text(&mut out, token);
    Record::new(Kind::Token, &out)
}

/// The token of a record.
pub fn parse_token(payload: &[u8]) -> Result<String, Malformed> {
    Payload(payload).text()
}

/// A sentence for who is refused.
pub fn refusal(sentence: &str) -> Record {
    let mut out = Vec::new();
    put_text(&mut out, sentence);
    Record::new(Kind::Refuse, &out)
}

/// The sentence of a refusal.
pub fn parse_refusal(payload: &[u8]) -> Result<String, Malformed> {
    Payload(payload).text()
}

/// A host of a cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostState {
    /// Its name.
    pub name: String,
    /// The last interval that it sent.
    pub last: i64,
    /// In how many of the intervals of an answer it is missing.
    pub missing: u64,
    /// Whether it is missing in the last one that is closed.
    pub is_missing: bool,
    /// Its clock, as it measured last.
    pub clock: ClockState,
    /// Intervals that came again as its clock was set back: their start, nanoseconds since the epoch, and for how much longer than
    /// their width they were observed, nanoseconds.
    pub repeated: Vec<(i64, u64)>,
}

/// Which hosts the histograms of an answer are of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hosts {
    /// All that ever sent something.
    pub hosts: Vec<HostState>,
    /// How many of them are in the last closed interval.
    pub present: u64,
    /// Intervals in which some are missing.
    pub incomplete: u64,
    /// Intervals that are not closed.
    pub provisional: u64,
    /// Intervals that changed after they were closed.
    pub amended: u64,
    /// Records from before or beyond what the hub keeps, which are in its journal only.
    pub outside: u64,
}

impl Hosts {
    /// As a record.
    pub fn record(&self) -> Record {
        let mut out = Vec::new();
        let numbers = [self.present, self.incomplete, self.provisional, self.amended, self.outside];
        numbers.iter().for_each(|&number| put(&mut out, number));
        put(&mut out, self.hosts.len() as u64);
        for host in &self.hosts {
            put_text(&mut out, &host.name);
            put_signed(&mut out, host.last);
            put(&mut out, host.missing << 1 | u64::from(host.is_missing));
            put_clock(&mut out, &host.clock);
        }
        for host in &self.hosts {
            let repeated = &host.repeated[..host.repeated.len().min(LIST_LIMIT as usize)];
            put(&mut out, repeated.len() as u64);
            for &(start_ns, more_ns) in repeated {
                put_signed(&mut out, start_ns);
                put(&mut out, more_ns);
            }
        }
        Record::new(Kind::Hosts, &out)
    }

    /// Of the payload of a record.
    pub fn parse(payload: &[u8]) -> Result<Hosts, Malformed> {
        let mut payload = Payload(payload);
        let mut number = || payload.number();
        let (present, incomplete) = (number()?, number()?);
        let (provisional, amended, outside) = (number()?, number()?, number()?);
        let count = payload.at_most(LIST_LIMIT).map_err(|_| Malformed::Amount)?;
        let host = |_| {
            let (name, last, missing) = (payload.text()?, payload.signed()?, payload.number()?);
            let clock = parse_clock(&mut payload)?;
            let (missing, is_missing) = (missing >> 1, missing & 1 == 1);
            Ok(HostState { name, last, missing, is_missing, clock, repeated: Vec::new() })
        };
        let mut hosts = (0..count).map(host).collect::<Result<Vec<HostState>, Malformed>>()?;
        // A hub of before that was sent has none.
        for host in &mut hosts {
            if payload.0.is_empty() {
                break;
            }
            let count = payload.at_most(LIST_LIMIT).map_err(|_| Malformed::Amount)?;
            host.repeated = (0..count).map(|_| Ok((payload.signed()?, payload.number()?))).collect::<Result<_, _>>()?;
        }
        Ok(Hosts { hosts, present, incomplete, provisional, amended, outside })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_come_back() {
        let hello = Hello {
            run: Id([7; 16]),
            host: "n1".into(),
            source: "block requests".into(),
            filter: "kind = read".into(),
            width_ns: 1_000_000_000,
            fields: vec!["device".into(), "kind".into()],
            is_wall: true,
        };
        assert_eq!(Hello::parse(hello.record().payload()), Ok(hello));
        let ranges = [1..=5, 9..=9, 1000..=u64::MAX].into_iter().collect();
        let stored = Stored { run: Id([9; 16]), ranges };
        assert_eq!(Stored::parse(stored.record(Kind::Ack).payload()), Ok(stored));
        let clock = ClockState { offset: Some((-7, 9)), is_synchronised: Some(false) };
        let hosts = vec![HostState {
            name: "n3".into(),
            last: -5,
            missing: 7,
            is_missing: true,
            clock,
            repeated: vec![(-7, 9)],
        }];
        let hosts = Hosts { hosts, present: 4, incomplete: 7, provisional: 1, amended: 2, outside: 3 };
        assert_eq!(Hosts::parse(hosts.record().payload()), Ok(hosts));
        let usage = Some(Usage { cpu_ns: 8, resident_bytes: 9 });
        for (queue, usage) in [(None, None), (Some((5, 6)), None), (Some((5, 6)), usage)] {
            let ping = Ping { asked_ns: 5, clock, queue, usage };
            assert_eq!(Ping::parse(ping.record().payload()), Ok(ping));
        }
        let pong = Pong { asked_ns: 5, got_ns: -6, answered_ns: 7 };
        assert_eq!(Pong::parse(pong.record().payload()), Ok(pong));
        let goodbye = Goodbye { run: Id([3; 16]), end_ns: -9 };
        assert_eq!(Goodbye::parse(goodbye.record().payload()), Ok(goodbye));
        assert_eq!(parse_token(token("x").payload()).as_deref(), Ok("x"));
        assert_eq!(parse_refusal(refusal("No.").payload()).as_deref(), Ok("No."));
        assert_ne!(new_id().unwrap(), new_id().unwrap());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = (Goodbye::parse(&bytes), Ping::parse(&bytes), Pong::parse(&bytes), parse_token(&bytes));
            let _ = (Hello::parse(&bytes), Stored::parse(&bytes), Hosts::parse(&bytes), parse_refusal(&bytes));
        }
    }
}
