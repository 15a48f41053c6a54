//! Reads a line of text from left to right.

use crate::block_pairs::padded;
use crate::scan::{blanks, find, leading_number};
use memchr::memchr;

/// Reads a payload from left to right.
#[derive(Clone, Copy)]
pub struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    /// Goes behind blanks.
    #[inline(always)]
    pub fn blanks(&mut self) {
        self.0 = &self.0[blanks(self.0)..];
    }

    /// Goes behind this byte; `None` when another is next.
    pub fn byte(&mut self, byte: u8) -> Option<()> {
        let (first, rest) = self.0.split_first()?;
        (*first == byte).then(|| self.0 = rest)
    }

    /// A decimal number; `None` if no digit follows or the number exceeds `u64`.
    #[inline(always)]
    pub fn number(&mut self) -> Option<u64> {
        let (value, len) = leading_number(self.0)?;
        self.0 = &self.0[len..];
        (len > 0).then_some(value)
    }

    /// A word of a few letters, zero padded; goes behind the blank that ends it.
    #[inline(always)]
    pub fn letters(&mut self) -> Option<[u8; 8]> {
        let end = find(self.0, b' ')?;
        let letters = match self.0.first_chunk::<8>() {
            Some(bytes) if end < 8 => (u64::from_le_bytes(*bytes) & ((1 << (8 * end)) - 1)).to_le_bytes(),
            _ => padded(&self.0[..end]),
        };
        self.0 = &self.0[end + 1..];
        Some(letters)
    }

    /// What stands before the next such byte; goes behind it.
    pub fn until(&mut self, byte: u8) -> Option<&'a [u8]> {
        let at = memchr(byte, self.0)?;
        let before = &self.0[..at];
        self.0 = &self.0[at + 1..];
        Some(before)
    }
}
