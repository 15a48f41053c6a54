//! Numbers of seven bits a byte, the lowest first, and what is made of them.

use crate::Malformed;

/// Longest name or label, bytes.
const TEXT_BYTES: usize = 256;

/// Appends a number.
pub fn put(out: &mut Vec<u8>, number: impl Into<u128>) {
    let mut number: u128 = number.into();
    while number > 127 {
        out.push(number as u8 | 128);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a number that may be negative: those near zero are short.
pub fn put_signed(out: &mut Vec<u8>, number: i64) {
    put(out, ((number << 1) ^ (number >> 63)) as u64);
}

/// Appends a text, as much of it as there is room for.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    let mut end = text.len().min(TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    put(out, end as u64);
    out.extend_from_slice(&text.as_bytes()[..end]);
}

/// What is left of a payload.
pub struct Payload<'a>(pub &'a [u8]);

impl<'a> Payload<'a> {
    /// The next bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// The next bytes, as many as an array has.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.bytes(N)?.try_into().map_err(|_| Malformed::Short)
    }

    /// The next number.
    #[inline]
    pub fn number(&mut self) -> Result<u64, Malformed> {
        match self.0 {
            [byte, rest @ ..] if *byte < 128 => {
                self.0 = rest;
                Ok(u64::from(*byte))
            }
            _ => self.large()?.try_into().map_err(|_| Malformed::Number),
        }
    }

    /// The next number, of up to 128 bits.
    pub fn large(&mut self) -> Result<u128, Malformed> {
        let mut number = 0u128;
        for shift in (0..128).step_by(7) {
            let [byte, rest @ ..] = self.0 else { return Err(Malformed::Short) };
            self.0 = rest;
            let bits = u128::from(byte & 127);
            if (bits << shift) >> shift != bits {
                return Err(Malformed::Number);
            }
            number |= bits << shift;
            if *byte < 128 {
                return Ok(number);
            }
        }
        Err(Malformed::Number)
    }

    /// The next number that may be negative.
    pub fn signed(&mut self) -> Result<i64, Malformed> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// The next number, if it is at most this.
    pub fn at_most(&mut self, limit: u64) -> Result<u64, Malformed> {
        self.number().and_then(|number| if number <= limit { Ok(number) } else { Err(Malformed::Number) })
    }

    /// The next text.
    pub fn text(&mut self) -> Result<String, Malformed> {
        let length = self.at_most(TEXT_BYTES as u64).map_err(|_| Malformed::Text)?;
        let bytes = self.bytes(length as usize)?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| Malformed::Text)
    }

    /// Fails unless everything was read.
    pub fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Long) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_and_texts_come_back(large: u128, number: u64, signed: i64, text in ".{0,300}") {
            let mut out = Vec::new();
            put(&mut out, large);
            put(&mut out, number);
            put_signed(&mut out, signed);
            put_text(&mut out, &text);
            let mut payload = Payload(&out);
            prop_assert_eq!(payload.large(), Ok(large));
            prop_assert_eq!((payload.number(), payload.signed()), (Ok(number), Ok(signed)));
            let back = payload.text().unwrap();
            prop_assert!(text.starts_with(&back) && (back == text || back.len() > 252));
            prop_assert_eq!(payload.end(), Ok(()));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let mut payload = Payload(&bytes);
            while payload.large().is_ok() && !payload.0.is_empty() {}
            let _ = Payload(&bytes).text();
        }
    }
}
