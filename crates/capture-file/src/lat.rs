//! `.lat`, a trace: an Arrow IPC stream of zstd-compressed batches, flushed at least once a second.
//!
//! The schema's metadata holds the context under [`CONTEXT_KEY`]. What was lost is known only at the end, so after the
//! end marker follows a second stream with the same schema, no batches and the final context; Arrow readers stop at the
//! first marker and never see it. A file that lacks it was cut: everything up to its last whole batch is read, with the account that the
//! recording had left by then.

mod checksum;
mod decode;
mod messages;
mod writer;

pub use writer::LatWriter;

use crate::input::Input;
use crate::{Detected, Error, Position, ReadOptions, Sink};
use arrow_ipc::MessageHeader;
use decode::Decoder;
use latscope_event::{Anomaly, Batch, Context, FieldSet, Tally, format_duration};
use messages::{Bytes, Messages, Stop};
use std::collections::HashSet;
use std::fs::File;

/// The fields that a trace can hold: all.
pub const FILLS: FieldSet = FieldSet::EVERY;

/// Metadata key of the context, as JSON.
pub const CONTEXT_KEY: &str = "latscope";
/// Metadata key of the version of the format.
pub const VERSION_KEY: &str = "latscope.version";
/// The version that is written.
pub const VERSION: &str = "1";

/// What starts every message.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Whether this is the beginning of a trace.
pub fn detect(head: &[u8]) -> Detected {
    let Some((marker, rest)) = head.split_first_chunk() else { return Detected::No };
    let Some((length, metadata)) = rest.split_first_chunk() else { return Detected::No };
    let length = usize::try_from(i32::from_le_bytes(*length)).unwrap_or(0);
    if marker != &CONTINUATION || length == 0 {
        return Detected::No;
    }
    if memchr::memmem::find(&metadata[..length.min(metadata.len())], VERSION_KEY.as_bytes()).is_some() {
        return Detected::Yes;
    }
    // A long command line may have pushed the key out of sight.
    if length > metadata.len() { Detected::NeedMore } else { Detected::No }
}

/// A part of a trace is so long.
const PART_BYTES: u64 = 16 << 20;

/// Where parts start: what a message starts in has it.
pub fn parts(file: &File) -> Option<Vec<u64>> {
    Some((1..file.metadata().ok()?.len() / PART_BYTES).map(|part| part * PART_BYTES).collect())
}

/// Reads a trace, from a pipe as well.
pub fn read(input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let name = input.name.clone();
    let fail = |place: u64, message: &str| Error::new(&name, Position::Byte(place), message);
    let mut messages = Messages::new(Bytes::within(input, options.within.clone())?);
    if messages.next().is_err() {
        return Err(fail(0, "The trace is truncated within its header and cannot be read."));
    }
    // What a newer version writes may have other checksums, so that its sentence comes first.
    let header = decode::header(messages.metadata()).map_err(|message| fail(0, &message))?;
    if !messages.is_sound() {
        return Err(fail(
            0,
            "The header of the trace does not match its checksum; the file is damaged, use another copy.",
        ));
    }
    let mut context = header.context;
    // When a recording started it knew; an event may have started before.
    let start_ns = context.span_ns.map(|(from_ns, _)| from_ns);
    let mut earliest_ns = start_ns.unwrap_or(i64::MAX);
    let mut batch = Batch::new(options.fields.intersection(header.decoder.fields()));
    let mut decoder = header.decoder.projected(batch.fields());
    let (mut damaged, mut has_damage) = (0, false);
    let mut noted = Noted::default();
    let stop = loop {
        if let Err(stop) = messages.next() {
            break stop;
        }
        if !messages.is_sound() {
            decoder.forget();
            (damaged, has_damage) = (damaged + u64::from(messages.is_within()), true);
            continue;
        }
        noted.follow(&messages);
        match take(&messages, &mut decoder, &mut batch) {
            Ok(true) if batch.is_empty() => {}
            Ok(true) => {
                if !noted.waits.is_empty() && !messages.has_account() {
                    noted.end(batch.time());
                }
                earliest_ns = earliest_ns.min(cover(&mut context, &batch, start_ns));
                if sink(&context, &batch).is_break() {
                    return Ok(context);
                }
            }
            Ok(false) => {}
            // Its dictionary may have been in the damaged part.
            Err(_) if has_damage => damaged += u64::from(messages.is_within()),
            Err(why) => break Stop::Damaged(why),
        }
    };
    context.tally.add(Anomaly::DamagedBatches, damaged);
    if earliest_ns < i64::MAX {
        context.cover(earliest_ns);
    }
    let why = match stop {
        Stop::End => match account(&mut messages) {
            Ok(mut account) => {
                // An account that says nothing of the time must not leave events outside of all time.
                account.span_ns = account.span_ns.or(context.span_ns);
                account.tally.add(Anomaly::DamagedBatches, damaged);
                return Ok(account);
            }
            Err(why) => why,
        },
        Stop::EndOfPart => return Ok(context),
        Stop::Cut => "the file ends without its end marker".to_string(),
        Stop::Damaged(why) => {
            context.tally.add(Anomaly::DamagedRecords, 1);
            why
        }
    };
    noted.follow(&messages);
    let known = noted.until_cut(&mut context).map_or("unknown".into(), |age_ns| match age_ns {
        0 => "those of its end".into(),
        age_ns => format!("those of {} before its end", format_duration(age_ns)),
    });
    context.tally.add(Anomaly::Truncated, 1);
    let place = messages.position();
    let note = format!("{why} (byte {place}), so losses and unfinished requests of the recording are {known}");
    context.properties.insert(Context::CUT.into(), note);
    Ok(context)
}

/// The last account that a recording left in front of its end.
#[derive(Default)]
struct Noted {
    account: Option<Context>,
    number: u64,
    /// When what waited then started, without what has completed since.
    waits: HashSet<i64>,
}

impl Noted {
    /// Takes in the account that was read last, if it is a new one.
    fn follow(&mut self, messages: &Messages) {
        if self.number == messages.accounts() {
            return;
        }
        self.number = messages.accounts();
        let json = checksum::unpack(messages.account());
        self.account = json.and_then(|json| crate::arrow_columns::context_of(&json).ok());
        self.waits = self.account.iter().flat_map(|account| &account.unfinished).map(|wait| wait.start_ns).collect();
    }

    /// Events that started at these times have completed.
    fn end(&mut self, starts_ns: &[i64]) {
        for start_ns in starts_ns {
            self.waits.remove(start_ns);
        }
    }

    /// Puts the account in place of what the header said. Returns how long before the end of the trace it was made.
    fn until_cut(self, context: &mut Context) -> Option<u64> {
        let mut account = self.account?;
        let made_ns = account.span_ns.map(|(_, to_ns)| to_ns);
        let noted = account.unfinished.len();
        account.unfinished.retain(|request| self.waits.contains(&request.start_ns));
        let mut ended = Tally::default();
        ended.add(Anomaly::Unfinished, (noted - account.unfinished.len()) as u64);
        account.tally = account.tally.since(&ended);
        // Of what began after that nobody knows.
        account.knows_unfinished = !account.unfinished.is_empty();
        account.tally.merge(&context.tally);
        for moment in context.span_ns.iter().flat_map(|&(from_ns, to_ns)| [from_ns, to_ns]) {
            account.cover(moment);
        }
        *context = account;
        context.span_ns.zip(made_ns).map(|((_, to_ns), made_ns)| to_ns.abs_diff(made_ns))
    }
}

/// Takes a message into the batch; whether the batch holds new events.
fn take(messages: &Messages, decoder: &mut Decoder, batch: &mut Batch) -> Result<bool, String> {
    let message = arrow_ipc::root_as_message(messages.metadata()).map_err(|_| "a message is damaged")?;
    match message.header_type() {
        MessageHeader::DictionaryBatch => {
            let dictionary = message.header_as_dictionary_batch().ok_or("a dictionary is damaged")?;
            decoder.dictionary(&dictionary, messages.body(), batch).map(|()| false)
        }
        MessageHeader::RecordBatch => {
            let records = message.header_as_record_batch().ok_or("a batch is damaged")?;
            decoder.records(&records, messages.body(), batch).map(|()| true)
        }
        _ => Err("a message has a kind that does not occur in a trace".into()),
    }
}

/// The final context, from the second stream.
fn account(messages: &mut Messages) -> Result<Context, String> {
    let missing = "the account at the end of the file is missing";
    messages.next().map_err(|_| missing)?;
    if !messages.is_sound() {
        return Err("the account at the end of the file does not match its checksum".into());
    }
    Ok(decode::header(messages.metadata()).map_err(|_| missing)?.context)
}

/// Widens the span to the events of the batch, though not to before a known start: a trace that is cut has no other. Returns when the
/// first of them started.
fn cover(context: &mut Context, batch: &Batch, start_ns: Option<i64>) -> i64 {
    let ends =
        batch.time().iter().zip(batch.latency()).map(|(&start, &latency)| start.saturating_add_unsigned(latency));
    let (Some(&first_ns), Some(last_ns)) = (batch.time().iter().min(), ends.max()) else { return i64::MAX };
    context.cover(first_ns.max(start_ns.unwrap_or(first_ns)));
    context.cover(last_ns);
    first_ns
}
