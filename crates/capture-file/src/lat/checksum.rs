//! Checksums of messages. Arrow has no place for them, but the metadata of a message are padded at their end, where its readers do
//! not look: eight bytes more hold a tag and the CRC-32 of the metadata before it and of the body behind it.

use arrow_ipc::root_as_message;
use flate2::Crc;
use std::io::{self, Write};

use super::CONTINUATION;

/// What stands before the checksum.
const TAG: [u8; 4] = *b"CRC1";
/// Tag and checksum.
const TRAILER: usize = 8;

/// What the metadata of a message say of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checked {
    /// It is what was written.
    Sound,
    /// It is not.
    Damaged,
    /// There is no checksum: latscope wrote none at first.
    Without,
}

/// Holds a message against its checksum.
pub fn check(metadata: &[u8], body: &[u8]) -> Checked {
    let Some((described, trailer)) = metadata.split_last_chunk::<TRAILER>() else { return Checked::Without };
    match trailer.strip_prefix(&TAG) {
        None => Checked::Without,
        Some(sum) if sum == checksum_of(described, body) => Checked::Sound,
        Some(_) => Checked::Damaged,
    }
}

fn checksum_of(metadata: &[u8], body: &[u8]) -> [u8; 4] {
    let mut crc = Crc::new();
    crc.update(metadata);
    crc.update(body);
    crc.sum().to_le_bytes()
}

/// Gives every message that is written through it a checksum; a message is handed on when it is flushed.
pub struct Summed<W> {
    writer: W,
    waiting: Vec<u8>,
    handed_on: u64,
}

impl<W: Write> Summed<W> {
    pub fn new(writer: W) -> Summed<W> {
        Summed { writer, waiting: Vec::new(), handed_on: 0 }
    }

    /// Bytes of the messages that were handed on whole.
    pub fn handed_on(&self) -> u64 {
        self.handed_on
    }

    /// The writer.
    pub fn writer_mut(&mut self) -> &mut W {
        &mut self.writer
    }

    /// The writer, of one that was flushed.
    pub fn into_inner(self) -> W {
        self.writer
    }

    /// Hands on the messages that wait.
    fn hand_on(&mut self) -> io::Result<()> {
        let odd = || io::Error::other("a message of the trace is not a valid Arrow message");
        let mut rest = &self.waiting[..];
        while let Some((head, behind)) = rest.split_first_chunk::<8>() {
            let length = i32::from_le_bytes([head[4], head[5], head[6], head[7]]);
            let length = usize::try_from(length).map_err(|_| odd())?;
            if length == 0 {
                self.writer.write_all(head)?;
                self.handed_on += head.len() as u64;
                rest = behind;
                continue;
            }
            let (metadata, behind) = behind.split_at_checked(length).ok_or_else(odd)?;
            let body = root_as_message(metadata).map_err(|_| odd())?.bodyLength();
            let body = usize::try_from(body).map_err(|_| odd())?;
            let (body, behind) = behind.split_at_checked(body).ok_or_else(odd)?;
            let longer = i32::try_from(length + TRAILER).map_err(|_| odd())?;
            for part in [&CONTINUATION[..], &longer.to_le_bytes(), metadata, &TAG, &checksum_of(metadata, body), body] {
                self.writer.write_all(part)?;
            }
            self.handed_on += (8 + length + TRAILER + body.len()) as u64;
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(odd());
        }
        self.waiting.clear();
        Ok(())
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hand_on()?;
        self.writer.flush()
    }
}
