//! What happens at a hub, as events that a page or a program follows: server-sent events.

use super::api::{Api, Query};
use super::http::{Request, Response, respond};
use crate::clock::now_ns;
use crate::cluster::IntervalState;
use crate::stream::Stream;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often it is looked at what is new.
const TURN: Duration = Duration::from_millis(200);
/// A reader hears something at least as often.
const COMMENT: Duration = Duration::from_secs(15);
/// So many steps are followed, as data may come late for them.
const STEPS: i64 = 60;
/// Of more steps that changed at once, or since a reader was here last, it gets the newest.
const AT_ONCE: usize = 30;

/// What a reader knows of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Version {
    intervals: usize,
    hosts: usize,
    is_closed: bool,
    revision: u32,
}

/// One reader.
struct Reader<'a> {
    api: &'a Api<'a>,
    stream: &'a Stream,
    query: Query,
    known: BTreeMap<i64, Version>,
    /// The first step that it gets.
    start: i64,
    /// The last step that it had when it was here before.
    last: Option<i64>,
    hosts: Vec<Value>,
    alerts: Vec<Value>,
    written: Instant,
}

/// Sends events until the reader goes or it is over.
///
/// # Errors
/// When the reader takes nothing more.
pub fn serve(api: &Api, request: &Request, stream: &Stream, is_over: &dyn Fn() -> bool) -> io::Result<()> {
    let query = match api.query_intervals(request) {
        Ok(query) => query,
        Err(why) => {
            let body = json!({ "error": why }).to_string().into_bytes();
            return respond(stream, &Response::new("400 Bad Request", "application/json", body), Some(request));
        }
    };
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n";
    let mut output = stream;
    output.write_all(head.as_bytes())?;
    let latest = api.hub.latest().0.unwrap_or(0).div_euclid(query.step);
    // Who connects again goes on with the step of the last event, which may not have been closed.
    let last = request.last_event.split_once('.').and_then(|(step, _)| step.parse::<i64>().ok());
    let start = last.map_or(latest, |last| last.min(latest));
    let (known, hosts, alerts, written) = (BTreeMap::new(), Vec::new(), Vec::new(), Instant::now());
    let mut reader = Reader { api, stream, query, known, start, last, hosts, alerts, written };
    reader.event("open", None, &api.status(now_ns()))?;
    while !is_over() {
        reader.turn()?;
        sleep(TURN);
    }
    Ok(())
}

impl Reader<'_> {
    fn event(&mut self, name: &str, id: Option<(i64, u32)>, data: &Value) -> io::Result<()> {
        let id = id.map_or(String::new(), |(step, revision)| format!("id: {step}.{revision}\n"));
        self.written = Instant::now();
        self.stream_write(format!("{id}event: {name}\ndata: {data}\n\n").as_bytes())
    }

    fn stream_write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut stream = self.stream;
        stream.write_all(bytes)
    }

    fn turn(&mut self) -> io::Result<()> {
        self.steps()?;
        let alerts = self.api.alerts();
        let before = std::mem::replace(&mut self.alerts, alerts.clone());
        for alert in alerts.iter().filter(|alert| !before.iter().any(|known| is_same(known, alert))) {
            self.event("alert", None, alert)?;
        }
        let is_gone = |known: &&Value| alerts.iter().all(|alert| known["labels"] != alert["labels"]);
        for mut alert in before.iter().filter(is_gone).cloned().collect::<Vec<_>>() {
            let was_firing = alert["state"] == "firing";
            alert["state"] = if was_firing { "resolved" } else { "inactive" }.into();
            self.event("alert", None, &alert)?;
        }
        let state = |host: &Value| json!([host["name"], host["is_connected"], host["is_missing"], host["has_ended"]]);
        let hosts = self.api.hosts();
        let states: Vec<Value> = hosts.iter().map(state).collect();
        if states != self.hosts {
            self.hosts = states;
            self.event("hosts", None, &json!({ "hosts": hosts }))?;
        }
        if self.written.elapsed() >= COMMENT {
            self.written = Instant::now();
            self.stream_write(b": nothing new\n\n")?;
        }
        Ok(())
    }

    /// Steps that changed.
    fn steps(&mut self) -> io::Result<()> {
        let step = self.query.step;
        let states = self.api.hub.states(self.start.saturating_mul(step), i64::MAX, usize::MAX, false);
        let closed = self.api.hub.latest().1;
        let of_step = |one: &IntervalState, other: &IntervalState| {
            one.interval.div_euclid(step) == other.interval.div_euclid(step)
        };
        let mut changed = Vec::new();
        for states in states.chunk_by(of_step) {
            let Some(number) = states.first().map(|state| state.interval.div_euclid(step)) else { continue };
            let version = Version {
                intervals: states.len(),
                hosts: states.iter().map(|state| state.hosts).sum(),
                is_closed: self.query.is_closed(states, closed),
                revision: states.iter().map(|state| state.revision).sum(),
            };
            let before = self.known.insert(number, version);
            if before != Some(version) {
                let name = match before {
                    _ if !version.is_closed => "interval",
                    Some(before) if before.is_closed => "amend",
                    _ => "close",
                };
                changed.push((number, version.revision, name));
            }
        }
        let skipped = changed.len().saturating_sub(AT_ONCE);
        let is_new = |(number, ..): &&(i64, u32, &str)| Some(*number) != self.last;
        let skipped_steps = changed[..skipped].iter().filter(is_new).count();
        if skipped_steps > 0 {
            self.event("skipped", None, &json!({ "steps": skipped_steps }))?;
        }
        let newest = self.known.last_key_value().map(|(&number, _)| number);
        for &(number, revision, name) in changed.iter().skip(skipped) {
            let states = self.api.hub.states(number * step, (number + 1) * step, usize::MAX, true);
            let mut data = self.query.json(&states, closed);
            // All hosts may have sent a step by the time it is looked at: then it is closed from the start.
            if Some(number) == newest {
                data["waiting"] = self.query.waiting(&self.api.hub.waiting_now()).into();
            }
            self.event(name, Some((number, revision)), &data)?;
        }
        if let Some((&last, _)) = self.known.last_key_value() {
            self.start = self.start.max(last - STEPS);
            self.known = self.known.split_off(&self.start);
        }
        Ok(())
    }
}

fn is_same(one: &Value, other: &Value) -> bool {
    one["labels"] == other["labels"] && one["state"] == other["state"]
}
