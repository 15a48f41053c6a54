//! Columns in as few bytes as their values need, for batches that are kept until all of a trace are there.

use latscope_event::{Column, MISSING_CODE, MISSING_I64, MISSING_U64};

/// A column of some thousand rows: each value is a base and a multiple of a common power of two.
pub struct Packed {
    form: Form,
    base: u64,
    shift: u32,
    values: Values,
}

#[derive(Clone, Copy)]
enum Form {
    I64,
    U64,
    Text,
}

/// Multiples plus one; 0 marks a missing value. Eight bytes hold the values as they are, as nothing could be saved.
enum Values {
    Same(u8, usize),
    One(Vec<u8>),
    Two(Vec<u16>),
    Four(Vec<u32>),
    Eight(Vec<u64>),
}

impl Packed {
    /// Packs a column.
    pub fn new(column: &Column) -> Packed {
        match column {
            Column::I64(values) => pack(Form::I64, values.iter().map(|&value| ordered(value)), ordered(MISSING_I64)),
            Column::U64(values) => pack(Form::U64, values.iter().copied(), MISSING_U64),
            Column::Text(codes) => pack(Form::Text, codes.iter().map(|&code| u64::from(code)), u64::from(MISSING_CODE)),
        }
    }

    /// The column as it was.
    pub fn unpacked(&self) -> Column {
        match self.form {
            Form::I64 => Column::I64(self.each(MISSING_I64, |value| (value ^ SIGN).cast_signed())),
            Form::U64 => Column::U64(self.each(MISSING_U64, |value| value)),
            // A code has 32 bits.
            Form::Text => Column::Text(self.each(MISSING_CODE, |value| value as u32)),
        }
    }

    fn each<T: Copy>(&self, missing: T, value: impl Fn(u64) -> T) -> Vec<T> {
        let unpack = |multiple: u64| match multiple {
            0 => missing,
            multiple => value(self.base + ((multiple - 1) << self.shift)),
        };
        match &self.values {
            Values::Same(multiple, len) => vec![unpack(u64::from(*multiple)); *len],
            Values::One(multiples) => multiples.iter().map(|&multiple| unpack(u64::from(multiple))).collect(),
            Values::Two(multiples) => multiples.iter().map(|&multiple| unpack(u64::from(multiple))).collect(),
            Values::Four(multiples) => multiples.iter().map(|&multiple| unpack(u64::from(multiple))).collect(),
            Values::Eight(values) => values.iter().map(|&one| value(one)).collect(),
        }
    }
}

const SIGN: u64 = 1 << 63;

/// In the order of the signed numbers.
fn ordered(value: i64) -> u64 {
    value.cast_unsigned() ^ SIGN
}

fn pack(form: Form, values: impl ExactSizeIterator<Item = u64> + Clone, missing: u64) -> Packed {
    let first = values.clone().next().unwrap_or(missing);
    if values.clone().all(|value| value == first) {
        let values = Values::Same(u8::from(first != missing), values.len());
        return Packed { form, base: first, shift: 0, values };
    }
    let known = || values.clone().filter(|&value| value != missing);
    let start = known().next().unwrap_or(0);
    let edges = |(least, most, changes): (u64, u64, u64), value: u64| {
        (least.min(value), most.max(value), changes | (value ^ start))
    };
    let (base, most, changes) = known().fold((start, start, 0), edges);
    // Bits that are the same in all values are the same in their differences.
    let shift = changes.trailing_zeros().min(63);
    let greatest = (most - base) >> shift;
    let multiple = |value: u64| if value == missing { 0 } else { ((value - base) >> shift) + 1 };
    let values = match greatest {
        // One less than the type holds, as the multiples have one added.
        0..=0xfe => Values::One(values.map(|value| multiple(value) as u8).collect()),
        0xff..=0xfffe => Values::Two(values.map(|value| multiple(value) as u16).collect()),
        0xffff..=0xffff_fffe => Values::Four(values.map(|value| multiple(value) as u32).collect()),
        _ => Values::Eight(values.collect()),
    };
    Packed { form, base, shift, values }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers() -> impl Strategy<Value = Vec<u64>> {
        let number = (any::<u64>(), 0..64u32, any::<bool>(), 0..10u32);
        (proptest::collection::vec(number, 0..40), 0..64u32, any::<u64>()).prop_map(|(numbers, width, base)| {
            let one = |(bits, shift, is_small, kind): (u64, u32, bool, u32)| match kind {
                0 => u64::MAX,
                1 => SIGN,
                2 => u64::from(u32::MAX),
                _ if is_small => base.wrapping_add((bits >> width) << shift.min(9)),
                _ => base.wrapping_add(bits >> width),
            };
            numbers.into_iter().map(one).collect()
        })
    }

    proptest! {
        #[test]
        fn unpacks_to_what_was_packed(numbers in numbers()) {
            let signed: Vec<i64> = numbers.iter().map(|&number| number.cast_signed()).collect();
            let codes: Vec<u32> = numbers.iter().map(|&number| number as u32).collect();
            for column in [Column::U64(numbers), Column::I64(signed), Column::Text(codes)] {
                prop_assert_eq!(&Packed::new(&column).unpacked(), &column);
            }
        }
    }

    #[test]
    fn uses_few_bytes() {
        let size = |column: &Column| match Packed::new(column).values {
            Values::Same(..) => 0,
            Values::One(_) => 1,
            Values::Two(_) => 2,
            Values::Four(_) => 4,
            Values::Eight(_) => 8,
        };
        let offsets = (0..100u64).map(|at| at * 1_000_003 * 4096).collect();
        assert_eq!(size(&Column::U64(offsets)), 4);
        assert_eq!(size(&Column::I64((0..254).map(|at| 1_700_000_000_000_000_000 + at).collect())), 1);
        assert_eq!(size(&Column::I64(vec![-7; 9])), 0);
        assert_eq!(size(&Column::Text(vec![MISSING_CODE; 9])), 0);
        assert_eq!(size(&Column::U64(vec![5, MISSING_U64])), 1);
        assert_eq!(size(&Column::U64(vec![0, MISSING_U64 - 1])), 8);
    }
}
