//! How long an interval is, given or found.

/// Width of the intervals of a series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interval {
    /// Given, nanoseconds.
    Fixed(u64),
    /// The shortest of a ladder of round widths, from 1 ms, with which the whole time needs at most this many intervals (at least 2).
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

impl Interval {
    /// The width to begin with.
    pub(crate) fn first_width(self) -> u64 {
        match self {
            Interval::Fixed(width_ns) => width_ns.max(1),
            Interval::Auto(_) => LADDER[0],
        }
    }
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
