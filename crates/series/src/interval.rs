//! How long an interval is, given or found.

use crate::HistogramSeries;

/// Width of the intervals of a series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interval {
    /// Given, nanoseconds.
    Fixed(u64),
    /// The shortest of the round widths, from 1 ms, with which the whole time needs at most this many intervals
    /// (at least 2).
    Auto(u32),
}

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;
const LADDER: [u64; 19] = [
    MS,
    2 * MS,
    10 * MS,
    20 * MS,
    100 * MS,
    200 * MS,
    S,
    2 * S,
    10 * S,
    20 * S,
    60 * S,
    120 * S,
    600 * S,
    1200 * S,
    3600 * S,
    7200 * S,
    21_600 * S,
    43_200 * S,
    86_400 * S,
];

/// Widths that a picture may end up with; a builder's ladder has fewer, because each must divide the next.
const ROUND: [u64; 29] = [
    MS,
    2 * MS,
    5 * MS,
    10 * MS,
    20 * MS,
    50 * MS,
    100 * MS,
    200 * MS,
    500 * MS,
    S,
    2 * S,
    5 * S,
    10 * S,
    15 * S,
    20 * S,
    30 * S,
    60 * S,
    120 * S,
    300 * S,
    600 * S,
    900 * S,
    1200 * S,
    1800 * S,
    3600 * S,
    7200 * S,
    10_800 * S,
    21_600 * S,
    43_200 * S,
    86_400 * S,
];

/// How many more intervals than asked for a builder keeps, so that the last step to a round width may be a small one.
const SPARE: u32 = 5;

impl HistogramSeries {
    /// The same events in the shortest round intervals of which no more than `limit` are needed (at least 2: no width
    /// joins the interval before the epoch with the one after it).
    #[must_use]
    pub fn fitted(self, limit: u32) -> HistogramSeries {
        let Some((first, last)) = self.range() else { return self };
        let fits = |width_ns: u64| {
            let factor = (width_ns / self.width_ns()) as i64;
            last.div_euclid(factor).abs_diff(first.div_euclid(factor)) < u64::from(limit.max(2))
        };
        let round = ROUND.into_iter().filter(|width_ns| width_ns.is_multiple_of(self.width_ns()));
        let wider = std::iter::successors(Some(self.width_ns()), |&width_ns| Some(next_wider(width_ns)));
        let bounded = wider.take_while(|&width_ns| width_ns < i64::MAX as u64 / 4);
        match round.chain(bounded).find(|&width_ns| width_ns >= self.width_ns() && fits(width_ns)) {
            Some(width_ns) => self.rebinned(width_ns).unwrap_or(self),
            None => self,
        }
    }
}

impl Interval {
    /// The most intervals to hold while building.
    pub(crate) fn limit(self) -> Option<u32> {
        match self {
            Interval::Fixed(_) => None,
            Interval::Auto(limit) => Some(limit.saturating_mul(SPARE)),
        }
    }

    /// The finished series in intervals as they were asked for.
    pub(crate) fn finish(self, series: HistogramSeries) -> HistogramSeries {
        match self {
            Interval::Fixed(_) => series,
            Interval::Auto(limit) => series.fitted(limit),
        }
    }

    /// The width to start with.
    pub(crate) fn first_width(self) -> u64 {
        match self {
            Interval::Fixed(width_ns) => width_ns.max(1),
            Interval::Auto(_) => LADDER[0],
        }
    }
}

/// The width itself and the round widths that are whole multiples of it, ascending.
pub fn round_multiples(width_ns: u64) -> impl Iterator<Item = u64> {
    let width_ns = width_ns.max(1);
    let round = ROUND.into_iter().filter(move |&wide| wide > width_ns && wide.is_multiple_of(width_ns));
    std::iter::once(width_ns).chain(round)
}

/// The next wider width of the ladder; each is a whole multiple of the one before, so that a series can be re-binned exactly.
pub fn next_wider(width_ns: u64) -> u64 {
    LADDER
        .into_iter()
        .find(|&step| step > width_ns && step.is_multiple_of(width_ns))
        .unwrap_or_else(|| width_ns.saturating_mul(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_divides_the_next() {
        let mut width = LADDER[0];
        for _ in 0..30 {
            let next = next_wider(width);
            assert!(next > width && next.is_multiple_of(width));
            width = next;
        }
    }
}
