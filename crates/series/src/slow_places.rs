//! Slow places of a device that was read once: which reads were slow, and which of them are slow again.
//!
//! A read is suspect if it is slower than most. Suspect reads are made again among reads of other places, in random order, so that a
//! moment in which the device or the machine is slow meets both. A place is slow if the ranks of its repeated reads are too high
//! for chance: that asks for no distribution, and one outlier decides nothing.

use crate::random::Random;
use std::ops::Range;

/// A suspect read takes so many times as long as the median, at least.
const SUSPECT: f64 = 2.0;
/// And its logarithm is so many robust standard deviations above.
const DEVIATIONS: f64 = 2.0;
/// A median absolute deviation of a normal distribution is its standard deviation divided by this.
const PER_MAD: f64 = 1.4826;
/// How many times a place is read again.
const AGAIN: usize = 8;
/// And so many other places are, at least and at most.
const OTHERS: Range<usize> = 64..512;
/// The chance of naming any place of a device that has no slow one.
const CHANCE: f64 = 0.01;
/// A place that is named is slower than others by this factor, at least.
const SLOWER: f64 = 1.5;

/// Stretches of suspect reads, of latencies in the order of their places: at most so many, those with the most evidence, and how many more
/// there are. A single read between two suspect ones is one of them.
pub fn suspects(latencies_ns: &[u64], most: usize) -> (Vec<Range<usize>>, usize) {
    let logarithms: Vec<f64> = latencies_ns.iter().map(|&ns| (ns.max(1) as f64).ln()).collect();
    let Some(middle) = median(&logarithms) else { return (Vec::new(), 0) };
    let distances: Vec<f64> = logarithms.iter().map(|logarithm| (logarithm - middle).abs()).collect();
    let spread = median(&distances).unwrap_or(0.0) * PER_MAD;
    let bound = (middle + DEVIATIONS * spread).max(middle + SUSPECT.ln());
    let mut found: Vec<Range<usize>> = Vec::new();
    for row in (0..logarithms.len()).filter(|&row| logarithms[row] > bound) {
        match found.last_mut() {
            Some(last) if row <= last.end + 1 => last.end = row + 1,
            _ => found.push(row..row + 1),
        }
    }
    // Many reads that are a little slow are more than a single one that is very slow.
    let evidence = |rows: &Range<usize>| logarithms[rows.clone()].iter().map(|one| one - bound).sum::<f64>();
    found.sort_by(|one, other| evidence(other).total_cmp(&evidence(one)));
    let left_out = found.len().saturating_sub(most);
    found.truncate(most);
    found.sort_by_key(|rows| rows.start);
    (found, left_out)
}

/// Which rows to read again, in this order, each with the number of its place; `None`: for comparison.
pub fn again(places: &[Range<usize>], rows: usize, seed: u64) -> Vec<(Option<usize>, usize)> {
    let random = &mut Random(seed | 1);
    let mut all = Vec::new();
    for (number, place) in places.iter().enumerate() {
        // From one end to the other, and from the start again where it is short.
        let step = (place.len() / AGAIN).max(1);
        all.extend((0..AGAIN).map(|time| (Some(number), place.start + time * step % place.len())));
    }
    let is_in_place = |row: usize| {
        let before = places.partition_point(|place| place.start <= row);
        before > 0 && places[before - 1].contains(&row)
    };
    let wanted = (places.len() * AGAIN).clamp(OTHERS.start, OTHERS.end);
    let others = (0..wanted * 8).map(|_| random.below(rows.max(1))).filter(|&row| !is_in_place(row));
    all.extend(others.take(wanted).map(|row| (None, row)));
    for at in (1..all.len()).rev() {
        all.swap(at, random.below(at + 1));
    }
    all
}

/// By which factor the median of reads that were made again is above that of others, if it is: one of so many tests.
pub fn slower(again_ns: &[u64], others_ns: &[u64], tests: usize) -> Option<f64> {
    let logarithm = |ns: &[u64]| -> Vec<f64> { ns.iter().map(|&ns| (ns.max(1) as f64).ln()).collect() };
    let factor = (median(&logarithm(again_ns))? - median(&logarithm(others_ns))?).exp();
    let chance = chance(again_ns, others_ns) * tests.max(1) as f64;
    (factor >= SLOWER && chance < CHANCE).then_some(factor)
}

/// At most how likely it is that these have such high ranks among all if they do not differ from the others (Mann and Whitney).
fn chance(these: &[u64], others: &[u64]) -> f64 {
    let (many, more) = (these.len() as f64, others.len() as f64);
    // Pairs in which one of these is larger; equal ones count half.
    let pairs = these.iter().flat_map(|one| others.iter().map(move |other| one.cmp(other)));
    let larger: f64 = pairs.map(|order| 0.5 * f64::from(order as i8 + 1)).sum();
    let z = (larger - many * more / 2.0 - 0.5) / (many * more * (many + more + 1.0) / 12.0).sqrt();
    // No more than the tail of the normal distribution has; its own tail is shorter.
    if z > 1.0 { (-z * z / 2.0).exp() / (z * std::f64::consts::TAU.sqrt()) } else { 1.0 }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Latencies of about a millisecond, some of them of moments in which everything is slow.
    fn noise(count: usize, random: &mut Random) -> Vec<u64> {
        let one = |random: &mut Random| {
            let moment = if random.below(100) == 0 { 20.0 } else { 1.0 };
            (1e6 * moment * (0.3 * random.normal()).exp()) as u64
        };
        (0..count).map(|_| one(random)).collect()
    }

    #[test]
    fn a_device_without_a_slow_place_has_none() {
        let random = &mut Random(7);
        let mut named = 0;
        for seed in 0..100 {
            let first = noise(2000, random);
            let (places, _) = suspects(&first, 64);
            assert!(!places.is_empty(), "there are slow moments");
            let list = again(&places, first.len(), seed);
            let repeated = noise(list.len(), random);
            let of = |place| -> Vec<u64> {
                list.iter().zip(&repeated).filter(|((number, _), _)| *number == place).map(|(_, &ns)| ns).collect()
            };
            let others = of(None);
            named += (0..places.len()).filter(|&at| slower(&of(Some(at)), &others, places.len()).is_some()).count();
        }
        assert!(named <= 3, "{named} places of a hundred devices were named");
    }

    #[test]
    fn a_slow_place_is_found_and_measured() {
        let random = &mut Random(8);
        let mut first = noise(2000, random);
        first[700..720].iter_mut().for_each(|ns| *ns *= 10);
        let (places, _) = suspects(&first, 64);
        let number = places.iter().position(|place| place.contains(&705)).unwrap();
        assert!(places[number].start.abs_diff(700) <= 2 && places[number].end.abs_diff(720) <= 2, "{places:?}");
        let list = again(&places, first.len(), 3);
        assert_eq!(list.iter().filter(|(place, _)| *place == Some(number)).count(), AGAIN);
        assert!(list.iter().all(|(place, row)| place.is_none_or(|place| places[place].contains(row))));
        assert!(list.iter().all(|(place, row)| place.is_some() || !places.iter().any(|place| place.contains(row))));
        let times = |slow: u64, count| -> Vec<u64> { noise(count, random).iter().map(|ns| ns * slow).collect() };
        let (mut times, count) = (times, places.len());
        let factor = slower(&times(10, AGAIN), &times(1, 200), count).unwrap();
        assert!((5.0..20.0).contains(&factor), "{factor}");
    }

    /// Against the exact chance, counted over all ways to choose ranks.
    #[test]
    fn chances_are_no_smaller_than_they_are() {
        let ways = |many: u64, of: u64| (0..many).fold(1.0, |ways, k| ways * (of - k) as f64 / (k + 1) as f64);
        for others in [64u64, 200, 512] {
            let (these, lower): (Vec<u64>, Vec<u64>) = ((1000..1008).collect(), (0..others).collect());
            let exact = 1.0 / ways(8, others + 8);
            let bound = chance(&these, &lower);
            assert!(bound >= exact && bound < 1e-4, "{bound} {exact}");
        }
        assert_eq!(chance(&[1, 2, 3], &[1, 2, 3]), 1.0);
        assert_eq!((slower(&[], &[1], 1), suspects(&[], 64)), (None, (Vec::new(), 0)));
    }
}
