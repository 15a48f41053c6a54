//! Members of gzip one after another, which are one file, as for zcat. What follows the last one and is no other is left out, as
//! zcat does: padding of tapes, or a file that something else was appended to. Unless it is nothing but zeros, it is counted, and
//! the file ends in the middle.

use flate2::bufread::GzDecoder;
use latscope_event::{Anomaly, Context, Note};
use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How a member starts.
pub const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// What shows while compressed data is unpacked.
#[derive(Debug, Default)]
pub struct Unpacked {
    /// Whether it ended in the middle.
    pub is_cut: AtomicBool,
    /// How many bytes followed that are not compressed.
    pub trailing: AtomicU64,
}

impl Unpacked {
    /// Notes what followed the compressed data, if anything did.
    pub fn note_trailing(&self, context: &mut Context) {
        let bytes = self.trailing.load(Ordering::Relaxed);
        if bytes == 0 {
            return;
        }
        context.note(Note::TrailingBytes { bytes });
        // They may be a member with a damaged header, of which nobody knows what was in it.
        if context.tally.get(Anomaly::Truncated) == 0 {
            context.tally.add(Anomaly::Truncated, 1);
        }
    }
}

/// The unpacked bytes of all members.
pub struct Members<R> {
    /// `None` behind the last.
    member: Option<Box<GzDecoder<R>>>,
    unpacked: Arc<Unpacked>,
}

impl<R: BufRead> Members<R> {
    /// The members of a file; what follows them is counted in `unpacked`.
    pub fn new(packed: R, unpacked: Arc<Unpacked>) -> Members<R> {
        Members { member: Some(Box::new(GzDecoder::new(packed))), unpacked }
    }
}

/// How many bytes follow; 0 if they are only padding.
fn trailing(packed: &mut impl BufRead) -> io::Result<u64> {
    let (mut count, mut is_padding) = (0, true);
    loop {
        let length = match packed.fill_buf() {
            Ok([]) => return Ok(if is_padding { 0 } else { count }),
            Ok(bytes) => {
                is_padding &= bytes.iter().all(|&byte| byte == 0);
                bytes.len()
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        packed.consume(length);
        count += length as u64;
    }
}

/// Whether another member follows. Its two first bytes may be in two reads, so what looks like the start of one is taken for it.
fn follows(packed: &mut impl BufRead) -> io::Result<bool> {
    loop {
        match packed.fill_buf() {
            Ok(bytes) => {
                return Ok(bytes.first() == Some(&MAGIC[0]) && bytes.get(1).is_none_or(|byte| *byte == MAGIC[1]));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let Some(ended) = self.member.take() else { break };
            let mut packed = ended.into_inner();
            if follows(&mut packed)? {
                self.member = Some(Box::new(GzDecoder::new(packed)));
            } else {
                self.unpacked.trailing.store(trailing(&mut packed)?, Ordering::Relaxed);
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReadOptions;
    use latscope_event::FieldSet;
    use std::io::Write;
    use std::ops::ControlFlow;

    fn member(text: &str) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        gzip.finish().unwrap()
    }

    #[test]
    fn what_follows_the_last_member_is_left_out() {
        for tail in [&b""[..], &[0; 512], b"1 2\n3 4\n", b"\x1f", b"\n"] {
            let packed = [&member("one ")[..], &member(""), &member("two"), tail].concat();
            for capacity in [1, 7, 4096] {
                let (mut text, unpacked) = (String::new(), Arc::new(Unpacked::default()));
                let packed = io::BufReader::with_capacity(capacity, &packed[..]);
                let mut members = Members::new(packed, Arc::clone(&unpacked));
                // A lone first byte of a member is one that is cut.
                let is_cut = members.read_to_string(&mut text).is_err();
                assert_eq!((text.as_str(), is_cut), ("one two", tail == b"\x1f"));
                let counted = if is_cut || tail.starts_with(&[0]) { 0 } else { tail.len() as u64 };
                assert_eq!(unpacked.trailing.load(Ordering::Relaxed), counted);
            }
        }
    }

    #[test]
    fn a_damaged_member_is_one_that_is_missing() {
        let damaged = |zeros: usize| {
            let mut bytes = member("5 6\n7 8\n");
            bytes[..zeros].fill(0);
            bytes
        };
        for (behind, events, is_cut) in
            [(damaged(0), 4, 0), (damaged(1), 2, 1), (damaged(12), 2, 1), (vec![0; 512], 2, 0)]
        {
            let (packed, mut found) = ([member("1 2\n3 4\n"), behind.clone()].concat(), 0);
            let options = ReadOptions::new(FieldSet::ALWAYS);
            let context = crate::read_bytes("test", &packed, &options, &mut |_, batch| {
                found += batch.len();
                ControlFlow::Continue(())
            });
            assert_eq!((found, context.unwrap().tally.get(Anomaly::Truncated)), (events, is_cut), "{behind:?}");
        }
    }

    #[test]
    fn a_member_that_ends_early_is_reported() {
        let packed = member("one two three");
        let mut text = Vec::new();
        let unpacked = Arc::new(Unpacked::default());
        let error = Members::new(&packed[..packed.len() - 9], unpacked).read_to_end(&mut text).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
