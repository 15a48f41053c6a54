//! Little-endian numbers and counted texts out of a slice, each checked against its end.

/// What of a slice was not yet taken.
#[derive(Clone, Copy)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// The next `count` bytes; `None` when there are fewer.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    /// One byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Eight bytes, signed.
    pub fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    /// A text: its length in two bytes, then its bytes.
    pub fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(usize::from(length))
    }
}

/// The number that a slice of 1, 2, 4 or 8 bytes is, signed.
pub fn signed(bytes: &[u8]) -> Option<i64> {
    Some(match *bytes {
        [byte] => i64::from(byte as i8),
        [a, b] => i64::from(i16::from_le_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        _ => i64::from_le_bytes(bytes.try_into().ok()?),
    })
}

/// As [`signed`], unsigned.
pub fn unsigned(bytes: &[u8]) -> Option<u64> {
    Some(match *bytes {
        [byte] => u64::from(byte),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
        _ => u64::from_le_bytes(bytes.try_into().ok()?),
    })
}

/// A text without the NUL that ends it.
pub fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}
