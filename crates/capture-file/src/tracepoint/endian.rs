//! Numbers in the byte order of the machine that recorded.

/// The byte order of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Endian {
    /// Whether the most significant byte comes first.
    pub big: bool,
}

impl Endian {
    /// Two bytes at an offset, `None` beyond the end.
    #[inline]
    pub fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let bytes = *bytes.get(at..)?.first_chunk::<2>()?;
        let word = u16::from_le_bytes(bytes);
        Some(if self.big { word.swap_bytes() } else { word })
    }

    /// Four bytes at an offset, `None` beyond the end.
    #[inline]
    pub fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes = *bytes.get(at..)?.first_chunk::<4>()?;
        let word = u32::from_le_bytes(bytes);
        Some(if self.big { word.swap_bytes() } else { word })
    }

    /// Eight bytes at an offset, `None` beyond the end.
    #[inline]
    pub fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let bytes = *bytes.get(at..)?.first_chunk::<8>()?;
        let word = u64::from_le_bytes(bytes);
        Some(if self.big { word.swap_bytes() } else { word })
    }
}
