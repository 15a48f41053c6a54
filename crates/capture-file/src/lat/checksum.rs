//! Checksums of messages. Arrow has no place for them, but the metadata of a message are padded at their end, where its readers do
//! not look: eight bytes more hold a tag and the CRC-32 of the metadata before it and of the body behind it. A batch of events may have the
//! account of the moment in front of them, for the case that the file ends without one.

use arrow_ipc::{MessageHeader, root_as_message};
use flate2::Crc;
use std::io::{self, Write};

use super::CONTINUATION;

/// What stands before the checksum.
const TAG: [u8; 4] = *b"CRC1";
/// Tag and checksum.
const TRAILER: usize = 8;
/// What stands behind an account and its length.
const ACCOUNT_TAG: [u8; 4] = *b"ACC1";
/// Longest account, bytes of JSON.
const ACCOUNT_LIMIT: usize = 16 << 20;

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
        Some(sum) if sum == checksum_of([described, body]) => Checked::Sound,
        Some(_) => Checked::Damaged,
    }
}

/// An account as the metadata of a batch have it: packed, with a checksum of its own, since a reader of a part of the file skips bodies.
///
/// # Errors
/// When zstd fails.
pub fn pack(account: &str) -> io::Result<Vec<u8>> {
    let mut compressor = zstd::bulk::Compressor::new(1)?;
    compressor.include_checksum(true)?;
    let mut packed = compressor.compress(account.as_bytes())?;
    let length = u32::try_from(packed.len()).map_err(io::Error::other)?;
    packed.resize(packed.len().next_multiple_of(8), 0);
    packed.extend_from_slice(&length.to_le_bytes());
    packed.extend_from_slice(&ACCOUNT_TAG);
    Ok(packed)
}

/// The account in the metadata of a message, still packed.
pub fn packed_account(metadata: &[u8]) -> Option<&[u8]> {
    let described = metadata.strip_suffix(&metadata.last_chunk::<TRAILER>()?[..])?;
    let rest = described.strip_suffix(&ACCOUNT_TAG)?;
    let (rest, length) = rest.split_last_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let padded = length.checked_next_multiple_of(8)?;
    rest.get(rest.len().checked_sub(padded)?..)?.get(..length)
}

/// Unpacks an account; `None` if it is damaged.
pub fn unpack(packed: &[u8]) -> Option<String> {
    String::from_utf8(zstd::bulk::decompress(packed, ACCOUNT_LIMIT).ok()?).ok()
}

fn checksum_of<const N: usize>(parts: [&[u8]; N]) -> [u8; 4] {
    let mut crc = Crc::new();
    parts.iter().for_each(|part| crc.update(part));
    crc.sum().to_le_bytes()
}

/// Gives every message that is written through it a checksum; a message is handed on when it is flushed.
pub struct Summed<W> {
    writer: W,
    waiting: Vec<u8>,
    account: Vec<u8>,
    handed_on: u64,
}

impl<W: Write> Summed<W> {
    pub fn new(writer: W) -> Summed<W> {
        Summed { writer, waiting: Vec::new(), account: Vec::new(), handed_on: 0 }
    }

    /// Bytes of the messages that were handed on whole.
    pub fn handed_on(&self) -> u64 {
        self.handed_on
    }

    /// Gives the next batch of events this account, which was packed.
    pub fn attach(&mut self, account: Vec<u8>) {
        self.account = account;
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
            let message = root_as_message(metadata).map_err(|_| odd())?;
            let body = usize::try_from(message.bodyLength()).map_err(|_| odd())?;
            let (body, behind) = behind.split_at_checked(body).ok_or_else(odd)?;
            let is_batch = message.header_type() == MessageHeader::RecordBatch;
            let account = if is_batch { std::mem::take(&mut self.account) } else { Vec::new() };
            let longer = i32::try_from(length + account.len() + TRAILER).map_err(|_| odd())?;
            let sum = checksum_of([metadata, &account, body]);
            for part in [&CONTINUATION[..], &longer.to_le_bytes(), metadata, &account, &TAG, &sum, body] {
                self.writer.write_all(part)?;
            }
            self.handed_on += (8 + longer as usize + body.len()) as u64;
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
