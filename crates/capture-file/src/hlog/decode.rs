//! The histogram of a line of an interval log: base 64 of a zlib stream of HdrHistogram's V2 encoding, all big-endian.
//! (The layout is that of the HdrHistogram project's reference implementation; its tests' files are ours too.)

use base64::alphabet;
use base64::engine::{DecodePaddingMode, Engine, GeneralPurpose, GeneralPurposeConfig};
use flate2::read::ZlibDecoder;
use latscope_histogram::{Grid, Sparse, Totals};
use std::io::Read;

/// Cookies without their second nibble, which gives a word size.
const COMPRESSED_V2: u32 = 0x1c84_9304;
const PLAIN_V2: u32 = 0x1c84_9303;
const COMPRESSED_V1: u32 = 0x1c84_9302;
const NIBBLE: u32 = 0xf0;
/// The largest histogram, of 5 digits from 1 ns to 292 years, has some 6 million counts.
const MOST_BYTES: u64 = 64 << 20;
const ENDS: &str = "a histogram that ends too early";

/// The histogram in this text.
pub fn decode(text: &[u8]) -> Result<Sparse, &'static str> {
    let bytes = base64(text).ok_or("a histogram that is not base 64")?;
    let mut at = &bytes[..];
    match number::<4>(&mut at)? as u32 & !NIBBLE {
        COMPRESSED_V2 => {}
        COMPRESSED_V1 => return Err("a histogram in the V1 encoding of HdrHistogram; only V2 is supported"),
        _ => return Err("a histogram in an unknown encoding"),
    }
    let len = number::<4>(&mut at)? as usize;
    let packed = at.get(..len).ok_or(ENDS)?;
    let mut bytes = Vec::new();
    ZlibDecoder::new(packed)
        .take(MOST_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|_| "a histogram with damaged zlib data")?;
    plain(&bytes)
}

/// The histogram of the V2 encoding.
fn plain(mut at: &[u8]) -> Result<Sparse, &'static str> {
    if number::<4>(&mut at)? as u32 & !NIBBLE != PLAIN_V2 {
        return Err("a histogram in an unknown encoding");
    }
    let len = number::<4>(&mut at)? as usize;
    let (offset, digits) = (number::<4>(&mut at)?, number::<4>(&mut at)?);
    let (lowest, _highest) = (number::<8>(&mut at)?, number::<8>(&mut at)?);
    let ratio = f64::from_bits(number::<8>(&mut at)?);
    if offset != 0 || ratio != 1.0 || !(1..=5).contains(&digits) || lowest == 0 {
        return Err("a histogram that is shifted or scaled, or does not have 1 to 5 digits");
    }
    let shape = Shape::new(digits as u32, lowest);
    let (mut counts, mut bin) = (at.get(..len).ok_or(ENDS)?, 0u64);
    let mut sum = Sum { grid: shape.grid, indices: Vec::new(), counts: Vec::new(), totals: Totals::EMPTY };
    while !counts.is_empty() {
        match zig_zag(&mut counts)? {
            zeros @ ..=-1 => bin = bin.saturating_add(zeros.unsigned_abs()),
            count => {
                if count > 0 {
                    let (lower, upper) = shape.edges(bin).ok_or("a latency of more than 292 years")?;
                    sum.add(lower, upper, count as u64)?;
                }
                bin = bin.saturating_add(1);
            }
        }
    }
    Sparse::from_parts(sum.grid, sum.indices, sum.counts, None, sum.totals).map_err(|_| "counts that do not add up")
}

/// The bins of a histogram of so many digits.
struct Shape {
    /// Logarithm of the bins to an octave.
    power: u32,
    /// Logarithm of the smallest difference.
    unit: u32,
    grid: Grid,
}

impl Shape {
    fn new(digits: u32, lowest: u64) -> Shape {
        // Enough bins below twice ten to the digits to distinguish all numbers.
        let power = (2 * 10u64.pow(digits)).next_power_of_two().trailing_zeros() - 1;
        let grid = Grid::with_power(power.min(u32::from(Grid::FINE.power())) as u8).unwrap_or(Grid::FINE);
        Shape { power, unit: lowest.ilog2(), grid }
    }

    /// Smallest and largest value of a bin; none beyond the latencies that events can have.
    fn edges(&self, bin: u64) -> Option<(u64, u64)> {
        let octave = (bin >> self.power).saturating_sub(1);
        let place = bin - (octave << self.power);
        let shift = u32::try_from(octave).ok()?.checked_add(self.unit)?;
        // A place has one bit more than the power.
        let fits = shift + self.power + 1 < u64::BITS;
        fits.then(|| (place << shift, ((place + 1) << shift) - 1))
    }
}

struct Sum {
    grid: Grid,
    indices: Vec<u32>,
    counts: Vec<u64>,
    totals: Totals,
}

impl Sum {
    /// Counts a bin in the bucket that it lies in; one that lies across several, where its middle is.
    fn add(&mut self, lower: u64, upper: u64, count: u64) -> Result<(), &'static str> {
        let middle = lower + (upper - lower) / 2;
        let index = self.grid.index(middle) as u32;
        match self.counts.last_mut() {
            Some(last) if self.indices.last() == Some(&index) => *last = last.saturating_add(count),
            _ => {
                self.indices.push(index);
                self.counts.push(count);
            }
        }
        let totals = &mut self.totals;
        totals.count = totals.count.checked_add(count).ok_or("counts that exceed 64 bits")?;
        totals.sum += u128::from(middle) * u128::from(count);
        totals.min = totals.min.min(lower.max(self.grid.lower(index as usize)));
        totals.max = totals.max.max(upper.min(self.grid.upper(index as usize)));
        Ok(())
    }
}

/// Takes a number of so many bytes.
fn number<const BYTES: usize>(at: &mut &[u8]) -> Result<u64, &'static str> {
    let (bytes, rest) = at.split_at_checked(BYTES).ok_or(ENDS)?;
    *at = rest;
    Ok(bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

/// Takes a number of seven bits to the byte, of which the ninth has eight; the sign is the lowest bit.
fn zig_zag(at: &mut &[u8]) -> Result<i64, &'static str> {
    let mut word = 0u64;
    for place in 0..9 {
        let byte = number::<1>(at)?;
        if place == 8 {
            word |= byte << 56;
            break;
        }
        word |= (byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            break;
        }
    }
    Ok((word >> 1) as i64 ^ -((word & 1) as i64))
}

/// Bytes of base 64, with padding or without.
fn base64(text: &[u8]) -> Option<Vec<u8>> {
    const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let whole = match text.trim_ascii() {
        // One letter behind the last four is no byte yet: the line was cut, and its histogram ends too early.
        [fours @ .., b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/'] if fours.len() % 4 == 0 => fours,
        text => text,
    };
    GeneralPurpose::new(&alphabet::STANDARD, LENIENT).decode(whole).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Serializer, V2Serializer};
    use proptest::prelude::*;

    proptest! {
        /// The bins, counts and edges that the hdrhistogram crate says of the same histogram.
        #[test]
        fn agrees_with_the_crate_hdrhistogram(
            values in proptest::collection::vec((0u32..30, 0u64..1 << 40, 1u64..9), 0..80), digits in 1u8..=5, lowest in 1u64..5000,
        ) {
            let mut theirs = Histogram::<u64>::new_with_bounds(lowest, 1 << 41, digits).unwrap();
            values.iter().for_each(|&(bits, value, count)| theirs.record_n(value >> bits, count).unwrap());
            let mut bytes = Vec::new();
            V2Serializer::new().serialize(&theirs, &mut bytes).unwrap();
            let ours = plain(&bytes).unwrap();
            let mut expected = std::collections::BTreeMap::<u32, u64>::new();
            for bin in theirs.iter_recorded() {
                let (lower, upper) = (theirs.lowest_equivalent(bin.value_iterated_to()), bin.value_iterated_to());
                let middle = lower + (upper - lower) / 2;
                *expected.entry(ours.grid().index(middle) as u32).or_default() += bin.count_at_value();
            }
            prop_assert_eq!(ours.indices().to_vec(), expected.keys().copied().collect::<Vec<_>>());
            prop_assert_eq!(ours.counts().to_vec(), expected.values().copied().collect::<Vec<_>>());
            prop_assert_eq!(ours.totals().count, theirs.len());
            if lowest == 1 && !theirs.is_empty() {
                prop_assert_eq!((ours.totals().min, ours.totals().max), (theirs.lowest_equivalent(theirs.min()), theirs.max()));
            }
        }

        #[test]
        fn any_bytes_are_a_histogram_or_none(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), is_near: bool) {
            if is_near {
                let header = [&0x1c84_9313u32.to_be_bytes()[..], &40u32.to_be_bytes(), &[0; 4], &3u32.to_be_bytes(), &1u64.to_be_bytes()];
                let rest = [&u64::MAX.to_be_bytes()[..], &1f64.to_be_bytes()];
                bytes = [header.concat(), rest.concat(), bytes].concat();
            }
            let _ = (plain(&bytes), decode(&bytes));
        }
    }

    #[test]
    fn base_64_with_and_without_padding() {
        for (text, bytes) in
            [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm8", "fo"), ("Zm9v\r\n", "foo"), ("+/+/", "\u{fb}")]
        {
            let expected = if bytes == "\u{fb}" { vec![0xfb, 0xff, 0xbf] } else { bytes.as_bytes().to_vec() };
            assert_eq!(base64(text.as_bytes()), Some(expected));
        }
        assert_eq!(base64(b"Zm9v!"), None);
    }
}
