//! The codes of a column, row by row, in as few bytes as they need: most attributes have few values.

use super::column::Codes;
use super::table::MISSING;
use latscope_event::Mask;

/// So many codes at a time are added by [`RowCodes::collected`].
const AT_A_TIME: usize = 4096;

/// The code of each row. The greatest number of a type marks a missing value.
pub(super) enum RowCodes {
    /// All rows have this code; the second number is how many rows there are.
    Same(u32, usize),
    One(Vec<u8>),
    Two(Vec<u16>),
    Four(Vec<u32>),
}

/// A number that holds codes.
trait Code: Copy + PartialEq {
    const MISSING: Self;
    /// The code as this number; a missing one stays missing.
    fn new(code: u32) -> Self;
    fn code(self) -> u32;
}

impl Code for u8 {
    const MISSING: u8 = u8::MAX;
    fn new(code: u32) -> u8 {
        code as u8
    }
    fn code(self) -> u32 {
        if self == u8::MAX { MISSING } else { self.into() }
    }
}

impl Code for u16 {
    const MISSING: u16 = u16::MAX;
    fn new(code: u32) -> u16 {
        code as u16
    }
    fn code(self) -> u32 {
        if self == u16::MAX { MISSING } else { self.into() }
    }
}

impl Code for u32 {
    const MISSING: u32 = MISSING;
    fn new(code: u32) -> u32 {
        code
    }
    fn code(self) -> u32 {
        self
    }
}

impl RowCodes {
    /// Codes as they come.
    pub fn collected(codes: impl Iterator<Item = u32>) -> RowCodes {
        let (mut all, mut buffer) = (RowCodes::Same(MISSING, 0), Vec::with_capacity(AT_A_TIME));
        for code in codes {
            buffer.push(code);
            if buffer.len() == AT_A_TIME {
                all.extend(&buffer);
                buffer.clear();
            }
        }
        all.extend(&buffer);
        all
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        match self {
            RowCodes::Same(_, len) => *len,
            RowCodes::One(codes) => codes.len(),
            RowCodes::Two(codes) => codes.len(),
            RowCodes::Four(codes) => codes.len(),
        }
    }

    /// The code of a row.
    #[inline]
    pub fn get(&self, row: usize) -> u32 {
        match self {
            RowCodes::Same(code, _) => *code,
            RowCodes::One(codes) => codes[row].code(),
            RowCodes::Two(codes) => codes[row].code(),
            RowCodes::Four(codes) => codes[row],
        }
    }

    /// Calls with the code of every row, in their order.
    #[inline]
    pub fn each(&self, mut add: impl FnMut(u32)) {
        match self {
            RowCodes::Same(code, len) => (0..*len).for_each(|_| add(*code)),
            RowCodes::One(codes) => codes.iter().for_each(|code| add(code.code())),
            RowCodes::Two(codes) => codes.iter().for_each(|code| add(code.code())),
            RowCodes::Four(codes) => codes.iter().for_each(|&code| add(code)),
        }
    }

    /// Adds rows with these codes.
    pub fn extend(&mut self, codes: &[u32]) {
        let Some(&code) = codes.first() else { return };
        if let RowCodes::Same(same, len) = self
            && (*len == 0 || *same == code)
            && codes.iter().all(|&other| other == code)
        {
            (*same, *len) = (code, *len + codes.len());
            return;
        }
        self.widen(codes.iter().copied().filter(|&code| code != MISSING).max().unwrap_or(0));
        match self {
            RowCodes::Same(..) => {}
            RowCodes::One(all) => all.extend(codes.iter().map(|&code| u8::new(code))),
            RowCodes::Two(all) => all.extend(codes.iter().map(|&code| u16::new(code))),
            RowCodes::Four(all) => all.extend(codes),
        }
    }

    /// Adds rows without a value until there are so many.
    pub fn fill(&mut self, len: usize) {
        match self {
            RowCodes::Same(MISSING, before) => *before = len,
            all if all.len() < len => all.extend(&vec![MISSING; len - all.len()]),
            _ => {}
        }
    }

    /// Makes room for codes up to this one.
    fn widen(&mut self, greatest: u32) {
        let (known, len) = match self {
            RowCodes::Same(MISSING, len) => (0, *len),
            RowCodes::Same(code, len) => (*code, *len),
            RowCodes::One(codes) => (u32::from(u8::MAX) - 1, codes.len()),
            RowCodes::Two(codes) => (u32::from(u16::MAX) - 1, codes.len()),
            RowCodes::Four(_) => return,
        };
        let before = std::mem::replace(self, RowCodes::Same(MISSING, len));
        *self = match greatest.max(known) {
            0..0xff => match before {
                RowCodes::One(codes) => RowCodes::One(codes),
                before => RowCodes::One(before.as_numbers()),
            },
            0xff..0xffff => match before {
                RowCodes::Two(codes) => RowCodes::Two(codes),
                before => RowCodes::Two(before.as_numbers()),
            },
            _ => RowCodes::Four(before.as_numbers()),
        };
    }

    fn as_numbers<T: Code>(&self) -> Vec<T> {
        let mut numbers = Vec::with_capacity(self.len());
        self.each(|code| numbers.push(T::new(code)));
        numbers
    }

    /// The rows that have one of these codes.
    pub fn mask(&self, codes: Codes) -> Mask {
        match self {
            RowCodes::Same(code, len) => Mask::filled(*len, codes.contains(*code)),
            RowCodes::One(all) => mask(all, codes),
            RowCodes::Two(all) => mask(all, codes),
            RowCodes::Four(all) => mask(all, codes),
        }
    }

    /// The rows that have a code for which this is set.
    pub fn mask_of(&self, is_in: &[bool]) -> Mask {
        let passes = |code: u32| is_in.get(code as usize).copied().unwrap_or(false);
        match self {
            RowCodes::Same(code, len) => Mask::filled(*len, passes(*code)),
            RowCodes::One(all) => mask_where(all, |code| passes(code.code())),
            RowCodes::Two(all) => mask_where(all, |code| passes(code.code())),
            RowCodes::Four(all) => mask_where(all, |code| passes(code.code())),
        }
    }
}

fn mask<T: Code>(all: &[T], codes: Codes) -> Mask {
    match codes {
        Codes::Missing => mask_where(all, |code| code == T::MISSING),
        Codes::Range(from, to) if from <= to => {
            let (from, len) = (from as u32, (to - from) as u32);
            mask_where(all, |code| code.code().wrapping_sub(from) < len)
        }
        Codes::Range(..) => mask_where(all, |code| codes.contains(code.code())),
    }
}

/// The rows whose number passes, 64 at a time: the test of neighbours is one vector operation, and a multiplication makes eight
/// bytes of zero or one the bits of a byte.
fn mask_where<T: Code>(all: &[T], passes: impl Fn(T) -> bool) -> Mask {
    let mut mask = Mask::filled(all.len(), true);
    mask.retain_words(|at, _| {
        let (mut bytes, from) = ([0u8; 64], at * 64);
        for (byte, &number) in bytes.iter_mut().zip(&all[from..all.len().min(from + 64)]) {
            *byte = u8::from(passes(number));
        }
        let (eights, _) = bytes.as_chunks::<8>();
        let bits = |eight: &[u8; 8]| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        eights.iter().rev().fold(0, |word, eight| word << 8 | bits(eight))
    });
    mask
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn code() -> impl Strategy<Value = u32> {
        prop_oneof![Just(MISSING), 0..4u32, 250..260u32, 65_530..65_540u32]
    }

    proptest! {
        #[test]
        fn codes_of_any_width_are_kept(parts in proptest::collection::vec((0..4u8, proptest::collection::vec(code(), 0..90)), 0..5), range in (0..300usize, 0..300usize)) {
            // Some parts with small codes only, so that every width occurs, and gets wider.
            let small = |(width, codes): (u8, Vec<u32>)| codes.into_iter().map(move |code| match (width, code) {
                (_, MISSING) => MISSING,
                (0, _) => 3,
                (1, code) => code % 5,
                (2, code) => code % 300,
                _ => code,
            });
            let parts: Vec<Vec<u32>> = parts.into_iter().map(|part| small(part).collect()).collect();
            let all = parts.concat();
            let mut codes = RowCodes::Same(MISSING, 0);
            parts.iter().for_each(|part| codes.extend(part));
            let mut each = Vec::new();
            codes.each(|code| each.push(code));
            prop_assert_eq!(&each, &all);
            prop_assert_eq!(codes.len(), all.len());
            prop_assert!((0..all.len()).all(|row| codes.get(row) == all[row]));
            prop_assert_eq!(matches!(codes, RowCodes::Same(..)), all.iter().all(|&code| code == all[0]));
            for chosen in [Codes::Missing, Codes::Range(range.0, range.1)] {
                let mask = codes.mask(chosen);
                prop_assert!((0..all.len()).all(|row| mask.get(row) == chosen.contains(all[row])));
                prop_assert_eq!(mask.len(), all.len());
            }
        }
    }
}
