//! Streams of compressed blocks as programs on the JVM write them, Spark among them. Tools of the same names do not read them:
//!
//! * LZ4Block of lz4-java: blocks of LZ4, each with a header that starts with `LZ4Block`;
//! * the stream of snappy-java (xerial): `\x82SNAPPY\0`, then blocks of Snappy behind their lengths;
//! * LZF of compress-lzf: chunks that start with `ZV`.
//!
//! A header gives the length of a block before anything is unpacked, so that no input takes more memory than
//! [`LONGEST_BLOCK`].

use std::io::{self, Read};

/// Longer than any block that the libraries write (lz4-java allows 32 MiB).
const LONGEST_BLOCK: usize = 32 << 20;
const LZ4_MAGIC: &[u8; 8] = b"LZ4Block";
const SNAPPY_MAGIC: &[u8; 8] = b"\x82SNAPPY\0";

/// How the blocks are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Codec {
    Lz4,
    Snappy,
    Lzf,
}

impl Codec {
    /// The codec of a file that starts with these bytes.
    pub fn detect(magic: [u8; 4]) -> Option<Codec> {
        match &magic {
            magic if LZ4_MAGIC.starts_with(magic) => Some(Codec::Lz4),
            magic if SNAPPY_MAGIC.starts_with(magic) => Some(Codec::Snappy),
            [b'Z', b'V', 0 | 1, _] => Some(Codec::Lzf),
            _ => None,
        }
    }
}

/// The unpacked bytes of a stream of blocks.
pub struct Blocks<R> {
    codec: Codec,
    packed: R,
    block: Vec<u8>,
    taken: usize,
    buffer: Vec<u8>,
}

fn damaged(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A length that a header gives, if any block is so long.
fn length(bytes: u32) -> io::Result<usize> {
    let length = usize::try_from(bytes).ok().filter(|&length| length <= LONGEST_BLOCK);
    length.ok_or_else(|| damaged("a compressed block has an impossible length"))
}

impl<R: Read> Blocks<R> {
    /// The blocks of a file.
    pub fn new(codec: Codec, packed: R) -> Blocks<R> {
        Blocks { codec, packed, block: Vec::new(), taken: 0, buffer: Vec::new() }
    }

    /// Fills `buffer` with the next bytes of the file.
    fn take(&mut self, length: usize) -> io::Result<()> {
        self.buffer.clear();
        // By what comes, not by what a header promises.
        if (&mut self.packed).take(length as u64).read_to_end(&mut self.buffer)? < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// The next bytes of a header; none at the end of the file.
    fn header<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        let (mut header, mut filled) = ([0; N], 0);
        while filled < N {
            match self.packed.read(&mut header[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        match filled {
            0 => Ok(None),
            count if count == N => Ok(Some(header)),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Unpacks the next block; false at the end.
    fn next(&mut self) -> io::Result<bool> {
        self.taken = 0;
        self.block.clear();
        match self.codec {
            Codec::Lz4 => self.next_lz4(),
            Codec::Snappy => self.next_snappy(),
            Codec::Lzf => self.next_lzf(),
        }
    }

    /// `LZ4Block`, a byte of method and level, then little-endian: packed length, length, checksum of the unpacked bytes.
    /// The checksum is not tested: damage shows in the text, of which the rest is still of use.
    fn next_lz4(&mut self) -> io::Result<bool> {
        let Some(header) = self.header::<21>()? else { return Ok(false) };
        if !header.starts_with(LZ4_MAGIC) {
            return Err(damaged("a block of LZ4Block lacks its header"));
        }
        let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (packed, unpacked) = (length(word(9))?, length(word(13))?);
        self.take(packed)?;
        match header[8] & 0xf0 {
            0x10 if packed == unpacked => std::mem::swap(&mut self.block, &mut self.buffer),
            0x20 if unpacked > 0 => {
                // LZ4 cannot make more than 255 bytes of one.
                if unpacked / 255 > packed {
                    return Err(damaged("a block of LZ4 is shorter than its length allows"));
                }
                self.block.resize(unpacked, 0);
                let got = lz4_flex::block::decompress_into(&self.buffer, &mut self.block);
                if got.ok() != Some(unpacked) {
                    return Err(damaged("a block of LZ4 is damaged"));
                }
            }
            // A stream ends with an empty block; another may follow.
            0x20 if packed == 0 => return Ok(true),
            _ => return Err(damaged("a block of LZ4Block has an unknown method")),
        }
        Ok(true)
    }

    /// The packed length, big-endian; a header of 16 bytes starts each stream, and another stream may follow.
    fn next_snappy(&mut self) -> io::Result<bool> {
        let Some(word) = self.header::<4>()? else { return Ok(false) };
        if SNAPPY_MAGIC.starts_with(&word) {
            return match self.header::<12>()? {
                Some(rest) if SNAPPY_MAGIC.ends_with(&rest[..4]) => Ok(true),
                Some(_) => Err(damaged("a stream of Snappy lacks its header")),
                None => Err(io::ErrorKind::UnexpectedEof.into()),
            };
        }
        self.take(length(u32::from_be_bytes(word))?)?;
        let fail = |_| damaged("a block of Snappy is damaged");
        let unpacked = snap::raw::decompress_len(&self.buffer).map_err(fail)?;
        // Snappy makes at most 64 bytes of three.
        if unpacked > LONGEST_BLOCK || unpacked / 22 > self.buffer.len() {
            return Err(damaged("a block of Snappy has an impossible length"));
        }
        self.block.resize(unpacked, 0);
        let got = snap::raw::Decoder::new().decompress(&self.buffer, &mut self.block).map_err(fail)?;
        self.block.truncate(got);
        Ok(true)
    }

    /// `ZV`, whether the chunk is packed, and big-endian in two bytes each its packed length and its length.
    fn next_lzf(&mut self) -> io::Result<bool> {
        let Some(header) = self.header::<5>()? else { return Ok(false) };
        let [b'Z', b'V', is_packed @ (0 | 1), high, low] = header else {
            return Err(damaged("a chunk of LZF lacks its header"));
        };
        let first = usize::from(u16::from_be_bytes([high, low]));
        if is_packed == 0 {
            self.take(first)?;
            std::mem::swap(&mut self.block, &mut self.buffer);
            return Ok(true);
        }
        let Some(unpacked) = self.header::<2>()? else { return Err(io::ErrorKind::UnexpectedEof.into()) };
        self.take(first)?;
        unpack_lzf(&self.buffer, usize::from(u16::from_be_bytes(unpacked)), &mut self.block)
            .ok_or_else(|| damaged("a chunk of LZF is damaged"))
            .map(|()| true)
    }
}

/// Unpacks a chunk of LZF: runs of literals, and copies of what was unpacked before.
fn unpack_lzf(packed: &[u8], unpacked: usize, block: &mut Vec<u8>) -> Option<()> {
    let mut rest = packed.iter();
    let mut next = || rest.next().map(|&byte| usize::from(byte));
    while let Some(control) = next() {
        if control < 32 {
            for _ in 0..=control {
                block.push(next()? as u8);
            }
        } else {
            let count = match control >> 5 {
                7 => 7 + next()?,
                short => short,
            } + 2;
            let back = ((control & 31) << 8 | next()?) + 1;
            let from = block.len().checked_sub(back)?;
            // A copy may read what it writes.
            for at in from..from + count {
                block.push(block[at]);
            }
        }
        if block.len() > unpacked {
            return None;
        }
    }
    (block.len() == unpacked).then_some(())
}

impl<R: Read> Read for Blocks<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.block.len() && !buffer.is_empty() {
            if !self.next()? {
                return Ok(0);
            }
        }
        let mut rest = &self.block[self.taken..];
        let count = rest.read(buffer)?;
        self.taken += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let codec = Codec::detect(*bytes.first_chunk().expect("four bytes")).expect("a codec");
        let mut all = Vec::new();
        Blocks::new(codec, bytes).read_to_end(&mut all).map(|_| all)
    }

    fn lz4_block(text: &[u8], is_packed: bool) -> Vec<u8> {
        let packed = if is_packed { lz4_flex::block::compress(text) } else { text.to_vec() };
        let method = if is_packed { 0x26 } else { 0x16 };
        let words = [packed.len() as u32, text.len() as u32, 0];
        [&LZ4_MAGIC[..], &[method], &words.map(u32::to_le_bytes).concat(), &packed].concat()
    }

    fn snappy_block(text: &[u8]) -> Vec<u8> {
        let packed = snap::raw::Encoder::new().compress_vec(text).unwrap();
        [&(packed.len() as u32).to_be_bytes()[..], &packed].concat()
    }

    #[test]
    fn blocks_follow_each_other_and_streams_too() {
        let text = b"one two one two one two one two".repeat(9);
        let end = [&LZ4_MAGIC[..], &[0x16], &[0; 12]].concat();
        let lz4 = [lz4_block(&text, true), lz4_block(b"x", false), end.clone(), lz4_block(&text, true), end].concat();
        let snappy_header = [&SNAPPY_MAGIC[..], &[0, 0, 0, 1, 0, 0, 0, 1]].concat();
        let snappy =
            [&snappy_header[..], &snappy_block(&text), &snappy_block(b"x"), &snappy_header, &snappy_block(&text)];
        let expected = [&text[..], b"x", &text].concat();
        assert_eq!(unpacked(&lz4).unwrap(), expected);
        assert_eq!(unpacked(&snappy.concat()).unwrap(), expected);
        // "abc" as literals; then six bytes from three back; then 20 of the last byte.
        assert_eq!(unpacked(b"ZV\x01\x00\x09\x00\x1d\x02abc\x80\x02\xe0\x0b\x00ZV\0\0\x01x").unwrap(), {
            [&b"abcabcabc"[..], &[b'c'; 20], b"x"].concat()
        });
    }

    #[test]
    fn what_is_damaged_is_refused_and_what_is_cut_is_known_as_such() {
        let lz4 = lz4_block(&b"one two one two one two".repeat(9), true);
        for at in 1..lz4.len() {
            let cut = unpacked_or_short(&lz4[..at]);
            assert!(cut.is_none_or(|error| error.kind() == io::ErrorKind::UnexpectedEof), "{at}");
            // In the header, only the level and the checksum may be anything.
            let mut bytes = lz4.clone();
            bytes[at] ^= 0x70;
            let result = if at < 4 { Ok(Vec::new()) } else { unpacked(&bytes) };
            let is_known =
                |error: &io::Error| [io::ErrorKind::InvalidData, io::ErrorKind::UnexpectedEof].contains(&error.kind());
            assert!(result.as_ref().err().is_none_or(is_known) && (result.is_err() || !(4..=16).contains(&at)), "{at}");
        }
        for bomb in [
            [&LZ4_MAGIC[..], &[0x26], &[1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]].concat(),
            [&LZ4_MAGIC[..], &[0x26], &[255; 12]].concat(),
            [&SNAPPY_MAGIC[..], &[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0x0f, 0]].concat(),
            [&SNAPPY_MAGIC[..], &[0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0]].concat(),
            b"ZV\x01\x00\x03\x00\x09\x20\x09\x01".to_vec(),
        ] {
            assert_eq!(unpacked(&bomb).unwrap_err().kind(), io::ErrorKind::InvalidData, "{bomb:?}");
        }
    }

    fn unpacked_or_short(bytes: &[u8]) -> Option<io::Error> {
        if bytes.len() < 4 { None } else { unpacked(bytes).err() }
    }
}
