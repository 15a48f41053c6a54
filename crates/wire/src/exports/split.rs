//! Our buckets over those of others. The counts of an interval are split, and then added up: a part of a running total could fall by
//! one, which receivers take for a restart.

use latscope_histogram::{Grid, Sparse};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Schemas of Prometheus' native histograms: `2^schema` buckets to the octave.
pub const SCHEMAS: RangeInclusive<i8> = -4..=8;
/// Buckets of a decade where VictoriaMetrics chooses them.
const VMRANGE_DECADE: u32 = 18;

/// The buckets of another system: each has the integers, nanoseconds, from behind the one before up to its upper edge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edges {
    /// The index of the first bucket, which has 1 ns, and 0 ns too.
    start: i32,
    /// The largest integers of the buckets, which may be equal where a bucket has none. The last one is the largest of all.
    uppers: Vec<u64>,
}

/// The edges of classic histograms, as they are exported, seconds, without the last one, which is infinite.
pub fn classic_edges_s() -> Vec<f64> {
    Edges::le().uppers().iter().filter(|&&upper| upper < u64::MAX).map(|&upper| upper as f64 / 1e9).collect()
}

impl Edges {
    /// The exponential buckets of Prometheus, in seconds: the upper edge of bucket `i` is `2^(i / 2^schema)`.
    ///
    /// # Panics
    /// When [`SCHEMAS`] does not have the schema.
    pub fn exponential(schema: i8) -> Edges {
        assert!(SCHEMAS.contains(&schema));
        let start = (2f64.powi(schema.into()) * 1e-9f64.log2()).ceil() as i32;
        let mut uppers = Vec::new();
        for index in start.. {
            let edge = exponential_edge(schema, index) * 1e9;
            // Above the largest integer it becomes that.
            uppers.push(edge as u64);
            if edge >= u64::MAX as f64 {
                break;
            }
        }
        Edges { start, uppers }
    }

    /// Buckets up to the half octaves from 1 us to 64 s, which are edges of ours, and one for all above. Bucket `i` is below
    /// `le_seconds()[i]`.
    pub fn le() -> Edges {
        let octaves = (10..=36).flat_map(|octave| [(1u64 << octave) - 1, (3 << (octave - 1)) - 1]);
        let uppers = octaves.filter(|&upper| upper < 1 << 36).chain([u64::MAX]).collect();
        Edges { start: 0, uppers }
    }

    /// The decimal buckets that VictoriaMetrics calls `vmrange`. Bucket `i` is from `10^(i/18)` to `10^((i+1)/18)` ns.
    pub fn vmrange() -> Edges {
        let mut uppers = Vec::new();
        for index in 1u32.. {
            let (decades, rest) = (index / VMRANGE_DECADE, index % VMRANGE_DECADE);
            let Some(decade) = 10u64.checked_pow(decades) else { break };
            let edge = decade as f64 * 10f64.powf(f64::from(rest) / f64::from(VMRANGE_DECADE));
            uppers.push(edge as u64);
        }
        uppers.push(u64::MAX);
        Edges { start: 0, uppers }
    }

    /// The largest integers of all buckets, nanoseconds.
    pub fn uppers(&self) -> &[u64] {
        &self.uppers
    }

    /// The bucket of a value, nanoseconds.
    #[cfg(test)]
    pub fn index(&self, value: u64) -> i32 {
        self.start + self.place(value) as i32
    }

    fn place(&self, value: u64) -> usize {
        self.uppers.partition_point(|&upper| upper < value)
    }

    /// Adds the counts of a histogram. Those of a bucket of ours are distributed over the integers in it, rounded down from its lower
    /// edge on, so that none is lost.
    pub fn split(&self, histogram: &Sparse, into: &mut BTreeMap<i32, u64>) {
        let grid = histogram.grid();
        for (index, count, _) in histogram.buckets() {
            // No time at all is in none of these buckets, and would be in one around zero.
            let (lower, upper) = (grid.lower(index).max(1), grid.upper(index).max(1));
            let (mut place, mut below) = (self.place(lower), 0);
            while below < count {
                let edge = self.uppers.get(place).map_or(upper, |&edge| edge.min(upper));
                let upto = below_edge(count, lower..=upper, edge);
                if upto > below {
                    *into.entry(self.start + place as i32).or_insert(0) += upto - below;
                }
                (below, place) = (upto, place + 1);
            }
        }
    }
}

/// Of so many values that lie evenly among these integers, how many are up to an edge.
fn below_edge(count: u64, within: RangeInclusive<u64>, edge: u64) -> u64 {
    let integers = |upto: u64| u128::from(upto - within.start()) + 1;
    (u128::from(count) * integers(edge) / integers(*within.end())) as u64
}

/// The upper edge of a bucket of Prometheus, seconds.
pub fn exponential_edge(schema: i8, index: i32) -> f64 {
    match u32::try_from(schema) {
        Ok(schema) => {
            let (octave, rest) = (index >> schema, index & ((1 << schema) - 1));
            2f64.powi(octave) * 2f64.powf(f64::from(rest) / f64::from(1u32 << schema))
        }
        Err(_) => 2f64.powf(f64::from(index) * 2f64.powi(-i32::from(schema))),
    }
}

/// Adds so many values that lie somewhere among these integers, nanoseconds, to buckets of ours, evenly: a single one to the middle.
pub fn spread(grid: Grid, count: u64, within: RangeInclusive<u64>, into: &mut BTreeMap<u32, u64>) {
    let (mut below, mut index) = (0, grid.index(*within.start()));
    while below < count {
        let integers = |upto: u64| u128::from(upto - within.start()) + 1;
        let (edge, all) = (integers(grid.upper(index).min(*within.end())), integers(*within.end()));
        let upto = ((u128::from(count) * edge + all / 2) / all) as u64;
        if upto > below {
            *into.entry(index as u32).or_insert(0) += upto - below;
        }
        (below, index) = (upto, index + 1);
    }
}

/// The buckets of the next coarser schema.
pub fn coarser(buckets: &BTreeMap<i32, u64>) -> BTreeMap<i32, u64> {
    let mut folded = BTreeMap::new();
    for (&index, &count) in buckets {
        *folded.entry((index + 1) >> 1).or_insert(0) += count;
    }
    folded
}

/// Buckets as native histograms have them: runs of consecutive ones, each as its distance from the run before and its length, and the
/// differences of the counts.
pub fn spans(buckets: &[(i32, u64)]) -> (Vec<(i64, u64)>, Vec<i64>) {
    let (mut spans, mut deltas) = (Vec::<(i64, u64)>::new(), Vec::with_capacity(buckets.len()));
    let (mut next, mut before) = (0, 0);
    for &(index, count) in buckets {
        match spans.last_mut() {
            Some((_, length)) if index == next => *length += 1,
            _ => spans.push((i64::from(index) - i64::from(next), 1)),
        }
        deltas.push(count.wrapping_sub(before) as i64);
        (next, before) = (index + 1, count);
    }
    (spans, deltas)
}

/// The value of the label `vmrange` of a bucket.
pub fn vmrange_label(index: i32) -> String {
    let edge = |index: i32| scientific(10f64.powf(-9.0 + f64::from(index) / f64::from(VMRANGE_DECADE)));
    format!("{}...{}", edge(index), edge(index + 1))
}

/// With three decimals, and a sign and two digits in the exponent.
fn scientific(value: f64) -> String {
    let text = format!("{value:.3e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_histogram::{Histogram, Rule};
    use proptest::prelude::*;

    /// A table of the vectors, by its number.
    fn vectors(number: usize) -> Vec<Vec<String>> {
        let path = format!("{}/../../testdata/wire/vectors.txt.zst", env!("CARGO_MANIFEST_DIR"));
        let text = zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap();
        let text = String::from_utf8(text).unwrap();
        let text = text.split("\n\n").nth(number).unwrap();
        text.lines().map(|line| line.split('\t').map(str::to_string).collect()).collect()
    }

    #[test]
    fn indices_are_those_of_public_libraries() {
        let rows = vectors(0);
        let grids: Vec<(Edges, usize, i32)> = rows[0]
            .iter()
            .enumerate()
            .filter_map(|(column, name)| {
                let (family, schema) = name.split_once("_s")?;
                let schema = schema.parse().ok().filter(|schema| SCHEMAS.contains(schema))?;
                // OpenTelemetry counts from the lower edge.
                Some((Edges::exponential(schema), column, i32::from(family == "otel")))
            })
            .collect();
        assert_eq!((grids.len(), rows.len()), (9, 279));
        let (vmrange, column) = (Edges::vmrange(), rows[0].iter().position(|name| name == "vmrange").unwrap());
        for row in &rows[1..] {
            let value = row[0].parse().unwrap();
            for (edges, column, behind) in &grids {
                assert_eq!((edges.index(value) - behind).to_string(), row[*column], "{value} {}", rows[0][*column]);
            }
            assert_eq!(vmrange_label(vmrange.index(value)), row[column], "{value}");
        }
    }

    #[test]
    fn buckets_are_split_as_the_vectors_are() {
        for (number, schema) in [(1, 3), (2, 5)] {
            let edges = Edges::exponential(schema);
            let rows = vectors(number);
            assert!(rows.len() > 1000);
            for row in &rows[1..] {
                let bounds: Vec<u64> = row[..3].iter().map(|text| text.parse().unwrap()).collect();
                let mut histogram = Histogram::new(Grid::FINE, false);
                // As many as it has integers: each part has as many as fall in it.
                histogram.record_many(bounds[1], bounds[2] - bounds[1] + 1, 0);
                let mut parts = BTreeMap::new();
                edges.split(&histogram.to_sparse(), &mut parts);
                let parts: Vec<String> = parts.iter().map(|(index, count)| format!("{index}:{count}")).collect();
                assert_eq!(parts.join(" "), row[3], "bucket {}", row[0]);
            }
        }
    }

    #[test]
    fn edges_of_le_are_ours() {
        let edges = Edges::le();
        assert_eq!(edges.uppers().len(), 54);
        let inner = &edges.uppers()[..53];
        assert_eq!((inner[0], inner[1], inner[52]), (1023, 1535, (1 << 36) - 1));
        assert!(inner.iter().all(|&upper| Grid::FINE.upper(Grid::FINE.index(upper)) == upper));
    }

    fn sparse() -> impl Strategy<Value = Sparse> {
        proptest::collection::vec((0u32..64, any::<u64>(), 1u64..1000), 1..40).prop_map(|values| {
            let mut histogram = Histogram::new(Grid::FINE, false);
            values.iter().for_each(|&(bits, value, count)| histogram.record_many(value >> bits, count, 0));
            histogram.to_sparse()
        })
    }

    fn all() -> Vec<Edges> {
        [3, 4, 5].map(Edges::exponential).into_iter().chain([Edges::le(), Edges::vmrange()]).collect()
    }

    proptest! {
        #[test]
        fn counts_are_kept_and_never_fall(histograms in proptest::collection::vec(sparse(), 1..5)) {
            for edges in all() {
                let (mut sum, mut count) = (BTreeMap::new(), 0);
                for histogram in &histograms {
                    let before = sum.clone();
                    edges.split(histogram, &mut sum);
                    count += histogram.totals().count;
                    prop_assert!(before.iter().all(|(index, count)| sum[index] >= *count));
                    prop_assert_eq!(sum.values().sum::<u64>(), count);
                }
                let folded = coarser(&sum);
                prop_assert_eq!(folded.values().sum::<u64>(), count);
            }
        }

        /// No value moves further than the bucket of ours that it is in: at its edges, what is below is what is below there.
        #[test]
        fn values_stay_in_their_bucket(histogram in sparse()) {
            for edges in all() {
                let mut sum = BTreeMap::new();
                edges.split(&histogram, &mut sum);
                for quantile in [0.5, 0.9, 0.99] {
                    let exact = histogram.quantiles(&[quantile], Rule::Interpolated).unwrap()[0];
                    let rank = (quantile * histogram.totals().count as f64).ceil() as u64;
                    let mut below = 0;
                    let found = sum.iter().find(|(_, count)| { below += *count; below >= rank }).unwrap().0;
                    let at = Grid::FINE.index(exact.max(1));
                    let near = edges.index(Grid::FINE.lower(at.saturating_sub(1)).max(1))..=edges.index(Grid::FINE.upper(at));
                    prop_assert!(near.contains(found), "{quantile} {exact} {found} {near:?}");
                }
            }
        }

        #[test]
        fn foreign_buckets_are_spread(bits in 1u32..60, value: u64, count in 1u64..100_000, width in 1u64..1000) {
            let start = (value >> bits).max(1);
            let end = start + (start / 1000 * width);
            let mut into = BTreeMap::new();
            spread(Grid::FINE, count, start..=end, &mut into);
            prop_assert_eq!(into.values().sum::<u64>(), count);
            let (first, last) = (Grid::FINE.index(start) as u32, Grid::FINE.index(end) as u32);
            prop_assert!(into.keys().all(|index| (first..=last).contains(index)));
        }
    }
}
