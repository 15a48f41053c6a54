//! Our own JSON lines of events (`events --json`, `convert -w x.jsonl`): an object to the line, keys are names of fields.

use crate::event_rows::{EventRows, NO_NUMBER, NO_TEXT, Named, Value, is_text, number};
use crate::input::Input;
use crate::text_rows::{NoRows, Piece, each_line};
use crate::{Detected, Error, Position, ReadOptions, Sink};
use latscope_event::{Context, Field, FieldSet};
use serde_json::Value as Json;
use std::ops::ControlFlow;

/// Whatever fields an event names.
pub const FILLS: FieldSet = FieldSet::EVERY;

const NO_OBJECT: &str = "something other than a JSON object";

/// The first line is an object with a latency and a moment.
pub fn detect(head: &[u8]) -> Detected {
    let head = head.trim_ascii_start();
    let first = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let has = |key: &str| memchr::memmem::find(first, format!("\"{key}\":").as_bytes()).is_some();
    let is_event = first.starts_with(b"{") && has("latency_ns") && (has("time_ns") || has("end_ns"));
    // latscope never writes such a long first line.
    if is_event && object(first).is_some() { Detected::Yes } else { Detected::No }
}

fn object(line: &[u8]) -> Option<serde_json::Map<String, Json>> {
    serde_json::from_slice(line).ok()
}

/// Reads the file; see the crate's `read`.
pub fn read(input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let file = input.name.clone();
    // An event names what it has, so nobody knows which keys come later; but where processes have no names of their own, the
    // names of threads stand for them, and only while there is no column.
    let names_processes = memchr::memmem::find(input.head(), b"\"process\":").is_some();
    let fields = if names_processes { FILLS } else { FILLS.iter().filter(|&field| field != Field::Process).collect() };
    let mut events = EventRows::new("json lines", &file, fields, options, sink);
    let mut no_rows = NoRows::new(&file, options.lenient);
    each_line(input, |piece| {
        let Piece::Line(number, line) = piece else { return Ok(events.rows.hand_on()) };
        if line.is_ok_and(|line| line.trim_ascii().is_empty()) {
            return Ok(ControlFlow::Continue(()));
        }
        match line.and_then(|line| take(&mut events, line)) {
            Ok(flow) => Ok(flow),
            Err(why) => no_rows.add(&mut events.rows.context, number, line, why).map(ControlFlow::Continue),
        }
    })?;
    no_rows.finish(&mut events.rows.context, events.rows.count)?;
    if events.rows.count == 0 {
        return Err(Error::new(file, Position::File, "No JSON object of an event found."));
    }
    Ok(events.rows.finish())
}

fn take(events: &mut EventRows, line: &[u8]) -> Result<ControlFlow<()>, &'static str> {
    let Some(object) = object(line) else {
        return Err(if line.ends_with(b"\n") { NO_OBJECT } else { crate::text_rows::MISSING });
    };
    let mut values = Vec::with_capacity(object.len());
    for (key, value) in &object {
        let Some(named) = Named::parse(key) else { continue };
        match value {
            Json::Null => {}
            Json::String(text) if is_text(named) => values.push((named, Value::Text(text.as_bytes()))),
            _ if is_text(named) => return Err(NO_TEXT),
            Json::Number(written) => values.push((named, number(named, &written.to_string()).ok_or(NO_NUMBER)?)),
            _ => return Err(NO_NUMBER),
        }
    }
    events.add(&values)
}
