//! Whether a hub takes an agent, and how far its clock is, without sending anything that counts.

use crate::clock::{ClockState, Exchanges, now_ns};
use crate::messages::{Ping, Pong};
use crate::sender::introduce;
use crate::{Address, Credentials, Found, Hello, Kind, Record, Records};
use std::io::{self, Write};

/// How often the clocks are compared.
const PINGS: u32 = 4;

/// Connects as an agent does and ends. Returns the clock of the hub less that of this host, and how far that may be wrong, nanoseconds.
///
/// # Errors
/// A sentence, when nobody answers, or the hub refuses.
pub fn check(address: &Address, credentials: &Credentials, hello: &Hello) -> Result<Option<(i64, u64)>, String> {
    let text = |error: io::Error| error.to_string();
    let (stream, _) = introduce(address, credentials, hello)?;
    let (mut records, mut exchanges) = (Records::of_connection(&stream), Exchanges::default());
    for _ in 0..PINGS {
        let clock = ClockState { offset: exchanges.best(), is_synchronised: None };
        let ping = Ping { asked_ns: now_ns(), clock, queue: None, usage: None };
        (&stream).write_all(ping.record().bytes()).map_err(text)?;
        let Some(Found::Record(answer)) = records.next().map_err(text)? else {
            return Err("it ended the connection".into());
        };
        if answer.kind() == Ok(Kind::Pong)
            && let Ok(pong) = Pong::parse(answer.payload())
        {
            exchanges.add(pong.asked_ns, pong.got_ns, pong.answered_ns, now_ns());
        }
    }
    (&stream).write_all(Record::new(Kind::Bye, b"").bytes()).map_err(text)?;
    stream.close();
    Ok(exchanges.best())
}
