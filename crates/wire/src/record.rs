//! Records: `length u32 | checksum u32 | kind u8 | flags u8 | payload`, little endian. The checksum is the CRC-32 of all behind it;
//! the length counts from the kind on.

use crate::Malformed;
use std::io::{self, Read};
use std::sync::{Mutex, PoisonError};
use zstd::bulk::Decompressor;

/// What a connection and a file start with.
pub const PREFACE: &[u8] = b"latscope/1\n";
/// Longest record, without length and checksum.
pub(crate) const RECORD_BYTES: usize = 1 << 20;
/// Most that a compressed part may become.
const UNPACKED_BYTES: u64 = 4 << 20;
/// Length and checksum.
const HEAD: usize = 8;
/// Kind and flags.
const LEAST: usize = 2;
/// How much is read at a time: of a file, and of a connection, of which a hub has thousands.
const CHUNK: usize = 1 << 16;
const PACKET: usize = 4 << 10;
/// How many contexts for unpacking are kept; one has 160 KiB, and making it takes longer than unpacking a record.
const UNPACKERS: usize = 4;
/// The flag of a record of which a part is compressed.
const PACKED: u8 = 1;
/// The flag of a record that must not be skipped where its kind is unknown.
const MANDATORY: u8 = 128;

/// What a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Who sends, and what its numbers are of.
    Hello,
    /// What the hub has already.
    Welcome,
    /// The groups behind numbers.
    Dictionary,
    /// Histograms.
    Data,
    /// What the hub has stored.
    Ack,
    /// The hub takes nothing from this peer.
    Refuse,
    /// The sender is done.
    Bye,
    /// A view asks for what the hub has.
    Read,
    /// Which hosts the histograms are of.
    Hosts,
    /// What proves who the sender is.
    Token,
    /// An agent asks for the time of the hub.
    Ping,
    /// The hub's time.
    Pong,
    /// A kind of a later version, which may be skipped.
    Unknown,
}

/// The kinds by their numbers.
const KINDS: &[(u8, Kind)] = &[
    (1, Kind::Hello),
    (2, Kind::Welcome),
    (3, Kind::Dictionary),
    (4, Kind::Data),
    (5, Kind::Ack),
    (6, Kind::Ping),
    (7, Kind::Pong),
    (8, Kind::Refuse),
    (9, Kind::Bye),
    (10, Kind::Read),
    (11, Kind::Hosts),
    (12, Kind::Token),
];

/// A record, with the bytes that it has on the wire and on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record(Vec<u8>);

impl Record {
    /// A record of this payload.
    pub fn new(kind: Kind, payload: &[u8]) -> Record {
        Record::with_flags(kind, 0, &[payload])
    }

    /// A record whose last part is compressed.
    pub(crate) fn packed(kind: Kind, plain: &[u8], packed: &[u8]) -> Record {
        // Level 3 makes it no smaller.
        match zstd::bulk::compress(packed, 1) {
            Ok(frame) => Record::with_flags(kind, PACKED, &[plain, &frame]),
            Err(_) => Record::with_flags(kind, 0, &[plain, packed]),
        }
    }

    /// The same histograms with another plain part before this compressed one.
    pub(crate) fn with_plain(&self, plain: &[u8], part: &[u8]) -> Record {
        Record::with_flags(Kind::Data, self.0[HEAD + 1], &[plain, part])
    }

    fn with_flags(kind: Kind, flags: u8, parts: &[&[u8]]) -> Record {
        let number = KINDS.iter().find(|(_, known)| *known == kind).map_or(0, |&(number, _)| number);
        let mut bytes = vec![0; HEAD];
        bytes.extend([number, flags]);
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        let (length, sum) = ((bytes.len() - HEAD) as u32, crc32fast::hash(&bytes[HEAD..]));
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes[4..HEAD].copy_from_slice(&sum.to_le_bytes());
        Record(bytes)
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// What it is.
    ///
    /// # Errors
    /// When it is of an unknown kind and must not be skipped.
    pub fn kind(&self) -> Result<Kind, Malformed> {
        match KINDS.iter().find(|&&(number, _)| number == self.0[HEAD]) {
            Some(&(_, kind)) => Ok(kind),
            None if self.0[HEAD + 1] & MANDATORY == 0 => Ok(Kind::Unknown),
            None => Err(Malformed::UnknownPart),
        }
    }

    /// What it holds.
    pub fn payload(&self) -> &[u8] {
        &self.0[HEAD + LEAST..]
    }

    /// The part behind the plain one, unpacked.
    pub(crate) fn unpacked(&self, part: &[u8]) -> Result<Vec<u8>, Malformed> {
        if self.0[HEAD + 1] & PACKED == 0 {
            return Ok(part.to_vec());
        }
        let size = zstd::zstd_safe::get_frame_content_size(part).ok().flatten();
        let size = size.filter(|&size| size <= UNPACKED_BYTES).ok_or(Malformed::Packed)?;
        // One frame, and nothing behind it.
        if zstd::zstd_safe::find_frame_compressed_size(part) != Ok(part.len()) {
            return Err(Malformed::Packed);
        }
        let bytes = unpack(part, size as usize).map_err(|_| Malformed::Packed)?;
        if bytes.len() as u64 == size { Ok(bytes) } else { Err(Malformed::Packed) }
    }
}

/// Unpacks a frame with a context that was used before.
fn unpack(part: &[u8], size: usize) -> io::Result<Vec<u8>> {
    static KEPT: Mutex<Vec<Decompressor>> = Mutex::new(Vec::new());
    let kept = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let known = kept().pop();
    let mut unpacker = known.map_or_else(Decompressor::new, Ok)?;
    let bytes = unpacker.decompress(part, size)?;
    let mut kept = kept();
    if kept.len() < UNPACKERS {
        kept.push(unpacker);
    }
    Ok(bytes)
}

/// What is found in a file or on a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// A whole record.
    Record(Record),
    /// So many bytes that are no record.
    Damaged(u64),
    /// A record of which only so many bytes are there.
    Cut(u64),
}

/// Reads records, from behind the preface.
pub struct Records<R> {
    source: R,
    buffer: Vec<u8>,
    /// What of the buffer was handed on.
    start: usize,
    /// Whether a damaged record may be skipped if the next one is whole.
    skips: bool,
    is_over: bool,
}

/// What the bytes at the start of a buffer are.
enum Seen {
    Whole(usize),
    /// Of this length, with another checksum.
    Bad(usize),
    /// Of an impossible length.
    Lost,
    /// So many bytes are needed to know.
    Short(usize),
}

impl<R: Read> Records<R> {
    /// Of a file: a damaged record is skipped by its length where the next one is whole.
    pub fn of_file(source: R) -> Records<R> {
        Records { source, buffer: Vec::new(), start: 0, skips: true, is_over: false }
    }

    /// Of a connection, on which nothing is waited for behind a damaged record.
    pub fn of_connection(source: R) -> Records<R> {
        Records { skips: false, ..Records::of_file(source) }
    }

    /// Ends here: what follows is not read.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
    }

    /// The source.
    pub fn source(&self) -> &R {
        &self.source
    }

    /// The next of them; `None` at the end, also behind damage that cannot be skipped.
    ///
    /// # Errors
    /// Those of the source. After one that means "later", the next call goes on where this one stopped.
    #[allow(clippy::should_implement_trait, reason = "an error may mean \"later\", which no iterator has")]
    pub fn next(&mut self) -> io::Result<Option<Found>> {
        if self.is_over {
            return Ok(None);
        }
        match self.look(0)? {
            Seen::Whole(length) => {
                let record = Record(self.buffer[self.start..self.start + length].to_vec());
                self.start += length;
                Ok(Some(Found::Record(record)))
            }
            Seen::Bad(length) if self.skips && self.is_followed(length)? => {
                self.start += length;
                Ok(Some(Found::Damaged(length as u64)))
            }
            Seen::Bad(_) | Seen::Lost => {
                self.is_over = true;
                Ok(Some(Found::Damaged(if self.skips { self.rest()? } else { 0 })))
            }
            Seen::Short(_) => {
                self.is_over = true;
                let left = (self.buffer.len() - self.start) as u64;
                Ok((left > 0).then_some(Found::Cut(left)))
            }
        }
    }

    /// Whether a whole record, or the end, is behind these bytes.
    fn is_followed(&mut self, length: usize) -> io::Result<bool> {
        let next = self.look(length)?;
        Ok(matches!(next, Seen::Whole(_)) || matches!(next, Seen::Short(_)) && self.buffer.len() == self.start + length)
    }

    /// What is so far behind the start; [`Seen::Short`] only at the end of the source.
    fn look(&mut self, behind: usize) -> io::Result<Seen> {
        loop {
            let seen = seen(self.buffer.get(self.start + behind..).unwrap_or_default());
            let Seen::Short(needed) = seen else { return Ok(seen) };
            if !self.fill(behind + needed)? {
                return Ok(seen);
            }
        }
    }

    /// Reads on until there are so many bytes; false at the end of the source.
    fn fill(&mut self, needed: usize) -> io::Result<bool> {
        self.buffer.drain(..std::mem::take(&mut self.start));
        while self.buffer.len() < needed {
            let kept = self.buffer.len();
            self.buffer.resize(kept + if self.skips { CHUNK } else { PACKET }, 0);
            let read = self.source.read(&mut self.buffer[kept..]);
            self.buffer.truncate(kept + read.as_ref().map_or(0, |&count| count));
            match read {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Counts what is left.
    fn rest(&mut self) -> io::Result<u64> {
        let left = (self.buffer.len() - self.start) as u64;
        self.buffer = Vec::new();
        io::copy(&mut self.source, &mut io::sink()).map(|more| left + more)
    }
}

fn seen(bytes: &[u8]) -> Seen {
    let Some(head) = bytes.first_chunk::<HEAD>() else { return Seen::Short(HEAD) };
    let [a, b, c, d, rest @ ..] = *head;
    let (length, sum) = (u32::from_le_bytes([a, b, c, d]) as usize, u32::from_le_bytes(rest));
    if !(LEAST..=RECORD_BYTES).contains(&length) {
        return Seen::Lost;
    }
    match bytes.get(HEAD..HEAD + length) {
        None => Seen::Short(HEAD + length),
        Some(body) if crc32fast::hash(body) == sum => Seen::Whole(HEAD + length),
        Some(_) => Seen::Bad(HEAD + length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(bytes: &[u8]) -> Vec<Found> {
        let mut records = Records::of_file(bytes);
        std::iter::from_fn(|| records.next().unwrap()).collect()
    }

    fn sample() -> Vec<Record> {
        let text = b"abcabcabcabc".repeat(20);
        vec![Record::new(Kind::Hello, b"x"), Record::packed(Kind::Data, b"head", &text), Record::new(Kind::Bye, b"")]
    }

    #[test]
    fn what_is_cut_is_known_up_to_the_cut() {
        let all: Vec<u8> = sample().iter().flat_map(|record| record.bytes().to_vec()).collect();
        let ends: Vec<usize> = sample()
            .iter()
            .scan(0, |end, record| {
                *end += record.bytes().len();
                Some(*end)
            })
            .collect();
        for cut in 0..=all.len() {
            let whole = ends.iter().filter(|&&end| end <= cut).count();
            let left = cut - ends[..whole].last().copied().unwrap_or(0);
            let mut expected: Vec<Found> = sample().into_iter().take(whole).map(Found::Record).collect();
            expected.extend((left > 0).then_some(Found::Cut(left as u64)));
            assert_eq!(found(&all[..cut]), expected);
        }
    }

    #[test]
    fn one_damaged_record_costs_only_itself() {
        let records = sample();
        let mut bytes: Vec<u8> = records.iter().flat_map(|record| record.bytes().to_vec()).collect();
        let damaged = records[0].bytes().len() + 12;
        bytes[damaged] ^= 1;
        let length = records[1].bytes().len() as u64;
        let (one, last) = (Found::Record(records[0].clone()), Found::Record(records[2].clone()));
        assert_eq!(found(&bytes), [one, Found::Damaged(length), last]);
        let mut connection = Records::of_connection(&bytes[..]);
        assert!(matches!(connection.next().unwrap(), Some(Found::Record(_))));
        assert_eq!((connection.next().unwrap(), connection.next().unwrap()), (Some(Found::Damaged(0)), None));
    }

    #[test]
    fn packed_parts_are_bounded() {
        let [_, packed, _] = &sample()[..] else { unreachable!() };
        assert_eq!(packed.unpacked(&packed.payload()[4..]).unwrap(), b"abcabcabcabc".repeat(20));
        let bomb = Record::packed(Kind::Data, b"", &vec![0; 5 << 20]);
        assert!(bomb.bytes().len() < 1000);
        assert_eq!(bomb.unpacked(bomb.payload()), Err(Malformed::Packed));
        let twice = Record::with_flags(Kind::Data, PACKED, &[packed.payload(), packed.payload()]);
        assert_eq!(twice.unpacked(&twice.payload()[4..]), Err(Malformed::Packed));
        let later = Record(vec![2, 0, 0, 0, 0, 0, 0, 0, 77, MANDATORY]);
        assert_eq!(later.kind(), Err(Malformed::UnknownPart));
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes: Vec<u8>) {
            let count: u64 = found(&bytes).iter().map(|found| match found {
                Found::Record(record) => record.bytes().len() as u64,
                Found::Damaged(bytes) | Found::Cut(bytes) => *bytes,
            }).sum();
            prop_assert_eq!(count, bytes.len() as u64);
        }

        #[test]
        fn flipped_bytes_are_noticed(at: prop::sample::Index, bit in 0u8..8) {
            let mut bytes: Vec<u8> = sample().iter().flat_map(|record| record.bytes().to_vec()).collect();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let whole = found(&bytes).into_iter().filter_map(|found| match found {
                Found::Record(record) => Some(record),
                _ => None,
            });
            prop_assert!(whole.into_iter().all(|record| sample().contains(&record)));
        }
    }
}
