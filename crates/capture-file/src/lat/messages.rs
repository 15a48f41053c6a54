//! The frames of an Arrow IPC stream: marker, length of the metadata, metadata, body.
//!
//! Lengths come from the file and are not believed: buffers grow with the bytes that arrive, up to a limit.

use super::CONTINUATION;
use super::checksum::{Checked, check, packed_account};
use crate::Error;
use crate::input::Input;
use arrow_ipc::MessageHeader;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;

/// Longest metadata of a message; the schema with the context is the longest.
const METADATA_LIMIT: u64 = 16 << 20;
/// Longest body of a message.
const BODY_LIMIT: u64 = 256 << 20;

/// Why there is no next message.
#[derive(PartialEq, Eq, Debug)]
pub enum Stop {
    /// The end marker.
    End,
    /// The file ends within a message, or without an end marker.
    Cut,
    /// What comes is not in the part that is read.
    EndOfPart,
    /// Something that is no message.
    Damaged(String),
}

/// What a trace is read from.
pub enum Bytes<'a> {
    /// All of it.
    All(Input<'a>),
    /// Batches of events that start in these bytes; those before are skipped without being read.
    Part(BufReader<File>, Range<u64>),
}

impl Bytes<'_> {
    /// All bytes of an input, or a part of them.
    pub fn within(input: Input, within: Option<Range<u64>>) -> Result<Bytes, Error> {
        Ok(match within {
            None => Bytes::All(input),
            Some(within) => Bytes::Part(BufReader::new(input.seekable()?), within),
        })
    }
}

impl Read for Bytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Bytes::All(input) => input.read(buffer),
            Bytes::Part(file, _) => file.read(buffer),
        }
    }
}

/// The messages of a stream, one after the other.
pub struct Messages<'a> {
    reader: Bytes<'a>,
    metadata: Vec<u8>,
    body: Vec<u8>,
    /// Of the last batch that had one, read or skipped, and how many had.
    account: Vec<u8>,
    accounts: u64,
    consumed: u64,
    position: u64,
    checked: Checked,
    /// Whether the first message had a checksum, so that all have one.
    has_checksums: bool,
}

impl<'a> Messages<'a> {
    /// The messages from here on.
    pub fn new(reader: Bytes<'a>) -> Messages<'a> {
        Messages {
            reader,
            metadata: Vec::new(),
            body: Vec::new(),
            account: Vec::new(),
            accounts: 0,
            consumed: 0,
            position: 0,
            checked: Checked::Without,
            has_checksums: false,
        }
    }

    /// The metadata of the message that was read last, a flatbuffer.
    pub fn metadata(&self) -> &[u8] {
        &self.metadata
    }

    /// The body of the message that was read last.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Whether the message that was read last has an account of its moment.
    pub fn has_account(&self) -> bool {
        packed_account(&self.metadata).is_some()
    }

    /// The account of the last batch that had one, packed; empty where none had.
    pub fn account(&self) -> &[u8] {
        &self.account
    }

    /// How many accounts there were up to here.
    pub fn accounts(&self) -> u64 {
        self.accounts
    }

    /// Whether the message that was read last is as it was written, as far as can be known.
    pub fn is_sound(&self) -> bool {
        match self.checked {
            Checked::Sound => true,
            Checked::Damaged => false,
            Checked::Without => !self.has_checksums,
        }
    }

    /// Where the message that was read last started.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Whether the message that was read last starts in the part that is read.
    pub fn is_within(&self) -> bool {
        match &self.reader {
            Bytes::All(_) => true,
            Bytes::Part(_, within) => within.contains(&self.position),
        }
    }

    /// Reads the next message. Of those outside of the part that is read, what is needed to understand others.
    pub fn next(&mut self) -> Result<(), Stop> {
        while !self.advance()? {}
        Ok(())
    }

    /// Reads the next message; `false` where it was skipped.
    fn advance(&mut self) -> Result<bool, Stop> {
        self.position = self.consumed;
        if matches!(&self.reader, Bytes::Part(_, within) if self.position >= within.end) {
            return Err(Stop::EndOfPart);
        }
        self.fill(Part::Metadata, 8)?;
        let (marker, length) = self.metadata.split_at(4);
        if marker != CONTINUATION {
            return Err(Stop::Damaged("a message does not start with its marker".into()));
        }
        match length.try_into().map(i32::from_le_bytes).map(u64::try_from) {
            // What follows the end is of the last part.
            Ok(Ok(0)) => {
                let has_more = matches!(&self.reader, Bytes::Part(_, within) if within.end < u64::MAX);
                return Err(if has_more { Stop::EndOfPart } else { Stop::End });
            }
            Ok(Ok(length @ 1..=METADATA_LIMIT)) => self.fill(Part::Metadata, length)?,
            _ => return Err(Stop::Damaged("the length of a message is impossible".into())),
        }
        let message = arrow_ipc::root_as_message(&self.metadata)
            .map_err(|_| Stop::Damaged("the description of a message is damaged".into()))?;
        let is_of_events = message.header_type() == MessageHeader::RecordBatch;
        if let Some(account) = packed_account(&self.metadata).filter(|_| is_of_events) {
            self.account.clear();
            self.account.extend_from_slice(account);
            self.accounts += 1;
        }
        match (u64::try_from(message.bodyLength()), &mut self.reader) {
            (Ok(length @ 0..=BODY_LIMIT), Bytes::Part(file, within))
                if is_of_events && self.position < within.start =>
            {
                // A file that ends in what is skipped has no message behind it.
                file.seek_relative(length as i64).map_err(|error| Stop::Damaged(format!("reading failed: {error}")))?;
                self.consumed += length;
                return Ok(false);
            }
            (Ok(length @ 0..=BODY_LIMIT), _) => self.fill(Part::Body, length)?,
            _ => return Err(Stop::Damaged("the length of a batch is impossible".into())),
        }
        self.checked = check(&self.metadata, &self.body);
        self.has_checksums |= self.checked != Checked::Without;
        Ok(true)
    }

    /// Reads exactly so many bytes into one of the buffers.
    fn fill(&mut self, part: Part, length: u64) -> Result<(), Stop> {
        let buffer = match part {
            Part::Metadata => &mut self.metadata,
            Part::Body => &mut self.body,
        };
        buffer.clear();
        let got = (&mut self.reader).take(length).read_to_end(buffer);
        self.consumed += buffer.len() as u64;
        match got {
            Ok(got) if got as u64 == length => Ok(()),
            Ok(_) => Err(Stop::Cut),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Stop::Cut),
            Err(error) => Err(Stop::Damaged(format!("reading failed: {error}"))),
        }
    }
}

/// The buffers of a message.
#[derive(Clone, Copy)]
enum Part {
    Metadata,
    Body,
}
