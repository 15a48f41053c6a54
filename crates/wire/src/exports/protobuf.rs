//! Protocol buffers, as much of them as the protocols of Prometheus and OpenTelemetry use.

use crate::Malformed;

/// A message that is being written. Fields are written in the order of the calls; none is left out for being zero.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Message(Vec<u8>);

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

impl Message {
    /// What was written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// What was written.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn tag(&mut self, field: u32, wire: u64) {
        put(&mut self.0, u64::from(field) << 3 | wire);
    }

    /// `uint32`, `uint64`, `bool`, an enumeration, or an `int64` that is not negative.
    pub fn uint(&mut self, field: u32, value: u64) {
        self.tag(field, VARINT);
        put(&mut self.0, value);
    }

    /// `sint32` or `sint64`.
    pub fn sint(&mut self, field: u32, value: i64) {
        self.uint(field, zigzag(value));
    }

    /// `fixed64`.
    pub fn fixed(&mut self, field: u32, value: u64) {
        self.tag(field, FIXED64);
        self.0.extend(value.to_le_bytes());
    }

    /// `double`.
    pub fn double(&mut self, field: u32, value: f64) {
        self.fixed(field, value.to_bits());
    }

    /// `string`.
    pub fn text(&mut self, field: u32, value: &str) {
        self.raw(field, value.as_bytes());
    }

    /// `bytes`, or a message that was written before.
    pub fn raw(&mut self, field: u32, value: &[u8]) {
        self.tag(field, BYTES);
        put(&mut self.0, value.len() as u64);
        self.0.extend_from_slice(value);
    }

    /// A message in this one.
    pub fn message(&mut self, field: u32, write: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        write(&mut inner);
        self.raw(field, &inner.0);
    }

    /// Repeated `sint64`, packed; an empty list is left out.
    pub fn sints(&mut self, field: u32, values: impl Iterator<Item = i64>) {
        self.uints(field, values.map(zigzag));
    }

    /// Repeated `uint32` or `uint64`, packed; an empty list is left out.
    pub fn uints(&mut self, field: u32, values: impl Iterator<Item = u64>) {
        let mut packed = Vec::new();
        values.for_each(|value| put(&mut packed, value));
        if !packed.is_empty() {
            self.raw(field, &packed);
        }
    }

    /// The bytes behind a message's length, as in a stream of messages.
    pub fn delimited(&self, out: &mut Vec<u8>) {
        put(out, self.0.len() as u64);
        out.extend_from_slice(&self.0);
    }
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value > 127 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// The value of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    /// A number of variable length.
    Varint(u64),
    /// Eight bytes: a number or a `double`.
    Fixed64(u64),
    /// Text, bytes, a message or packed numbers.
    Bytes(&'a [u8]),
    /// Four bytes.
    Fixed32(u32),
}

impl<'a> Value<'a> {
    /// Of a `uint64`, an `int64` that is not negative, `fixed64`, and so on.
    ///
    /// # Errors
    /// When it is no number.
    pub fn uint(self) -> Result<u64, Malformed> {
        match self {
            Value::Varint(value) | Value::Fixed64(value) => Ok(value),
            Value::Fixed32(value) => Ok(value.into()),
            Value::Bytes(_) => Err(Malformed::UnknownPart),
        }
    }

    /// Of a `sint64`.
    ///
    /// # Errors
    /// When it is no number of variable length.
    pub fn sint(self) -> Result<i64, Malformed> {
        match self {
            Value::Varint(value) => Ok(unzigzag(value)),
            _ => Err(Malformed::UnknownPart),
        }
    }

    /// Of a `double`.
    ///
    /// # Errors
    /// When it does not have eight bytes.
    pub fn double(self) -> Result<f64, Malformed> {
        match self {
            Value::Fixed64(bits) => Ok(f64::from_bits(bits)),
            _ => Err(Malformed::UnknownPart),
        }
    }

    /// Of text, bytes or a message.
    ///
    /// # Errors
    /// When it is a number.
    pub fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(Malformed::UnknownPart),
        }
    }

    /// Of a text.
    ///
    /// # Errors
    /// When it is not UTF-8, or a number.
    pub fn text(self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed::Text)
    }

    /// The fields of a message.
    ///
    /// # Errors
    /// When it is a number.
    pub fn fields(self) -> Result<Fields<'a>, Malformed> {
        self.bytes().map(Fields)
    }

    /// Adds repeated numbers of variable length, packed or one at a time.
    ///
    /// # Errors
    /// When they are malformed, or more than `most` in all.
    pub fn uints(self, into: &mut Vec<u64>, most: usize) -> Result<(), Malformed> {
        match self {
            Value::Bytes(bytes) => {
                let mut rest = Fields(bytes);
                while !rest.0.is_empty() {
                    push(into, rest.varint()?, most)?;
                }
                Ok(())
            }
            value => push(into, value.uint()?, most),
        }
    }

    /// As [`Value::uints`], of `sint64`.
    ///
    /// # Errors
    /// When they are malformed, or more than `most` in all.
    pub fn sints(self, into: &mut Vec<i64>, most: usize) -> Result<(), Malformed> {
        let mut values = Vec::new();
        self.uints(&mut values, most.saturating_sub(into.len()))?;
        into.extend(values.into_iter().map(unzigzag));
        Ok(())
    }

    /// As [`Value::uints`], of numbers of eight bytes.
    ///
    /// # Errors
    /// When they are malformed, or more than `most` in all.
    pub fn fixeds(self, into: &mut Vec<u64>, most: usize) -> Result<(), Malformed> {
        let Value::Bytes(bytes) = self else { return push(into, self.uint()?, most) };
        let (numbers, []) = bytes.as_chunks::<8>() else { return Err(Malformed::Short) };
        numbers.iter().try_for_each(|number| push(into, u64::from_le_bytes(*number), most))
    }
}

fn push(into: &mut Vec<u64>, value: u64, most: usize) -> Result<(), Malformed> {
    if into.len() >= most {
        return Err(Malformed::Amount);
    }
    into.push(value);
    Ok(())
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// The fields of a message, in their order.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// The number and the value of the next field; `None` at the end.
    ///
    /// # Errors
    /// When the bytes are no fields.
    #[allow(clippy::should_implement_trait, reason = "an iterator of results would go on behind an error")]
    pub fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let field = u32::try_from(tag >> 3).ok().filter(|&field| field > 0).ok_or(Malformed::Number)?;
        let value = match tag & 7 {
            VARINT => Value::Varint(self.varint()?),
            FIXED64 => Value::Fixed64(u64::from_le_bytes(self.array()?)),
            BYTES => {
                let length = self.varint()?;
                if length > self.0.len() as u64 {
                    return Err(Malformed::Short);
                }
                let (bytes, rest) = self.0.split_at(length as usize);
                self.0 = rest;
                Value::Bytes(bytes)
            }
            FIXED32 => Value::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(Malformed::UnknownPart),
        };
        Ok(Some((field, value)))
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for (at, &byte) in self.0.iter().enumerate().take(10) {
            if at == 9 && byte > 1 {
                return Err(Malformed::Number);
            }
            value |= u64::from(byte & 127) << (7 * at);
            if byte < 128 {
                self.0 = &self.0[at + 1..];
                return Ok(value);
            }
        }
        Err(if self.0.len() < 10 { Malformed::Short } else { Malformed::Number })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.0.split_first_chunk().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(*array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits_hold() {
        let mut numbers = Vec::new();
        assert_eq!(Value::Bytes(&[1, 2, 3]).uints(&mut numbers, 2), Err(Malformed::Amount));
        assert_eq!(Value::Bytes(&[0; 9]).fixeds(&mut numbers, 9), Err(Malformed::Short));
        assert_eq!(Fields(&[0x0a, 5, 1]).next(), Err(Malformed::Short));
        assert_eq!(Fields(&[8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2]).next(), Err(Malformed::Number));
        assert_eq!(Fields(&[0]).next(), Err(Malformed::Number));
        assert_eq!(Fields(&[3]).next(), Err(Malformed::Number));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(number: u64, signed: i64, double: f64, text: String, list in proptest::collection::vec(any::<i64>(), 1..9)) {
            let mut message = Message::default();
            message.uint(1, number);
            message.sint(2, signed);
            message.double(300, double);
            message.message(4, |inner| inner.text(1, &text));
            message.sints(5, list.iter().copied());
            let mut fields = Fields(message.bytes());
            let mut next = || fields.next().unwrap().unwrap();
            prop_assert_eq!(next(), (1, Value::Varint(number)));
            prop_assert_eq!(next().1.sint(), Ok(signed));
            prop_assert_eq!(next(), (300, Value::Fixed64(double.to_bits())));
            prop_assert_eq!(next().1.fields().unwrap().next().unwrap().unwrap().1.text(), Ok(&text[..]));
            let mut read = Vec::new();
            next().1.sints(&mut read, 9).unwrap();
            prop_assert_eq!(read, list);
            prop_assert_eq!(fields.next(), Ok(None));
        }

        #[test]
        fn any_bytes_end(bytes: Vec<u8>) {
            let mut fields = Fields(&bytes);
            while let Ok(Some((_, value))) = fields.next() {
                let (mut numbers, mut signed) = (Vec::new(), Vec::new());
                let _ = (value.uints(&mut numbers, 100), value.fixeds(&mut numbers, 100), value.sints(&mut signed, 100), value.text());
                prop_assert!(numbers.len() <= 100);
            }
        }
    }
}
