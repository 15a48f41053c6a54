//! Round numbers for axes.

/// A value worth a tick; the lower the rank, the rounder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tick {
    /// Nanoseconds or bytes.
    pub value: u64,
    /// 0 for the roundest.
    pub rank: u8,
}

const S: u64 = 1_000_000_000;

/// Round values of all orders of magnitude: 1-2-5 for durations (then minutes, hours, days), powers of two for bytes.
pub fn round_values(bytes: bool) -> Vec<Tick> {
    let mut ticks = vec![Tick { value: 0, rank: 0 }];
    if bytes {
        ticks.extend((0..64).map(|bit| {
            let rank = if bit % 10 == 0 {
                0
            } else if bit % 2 == 0 {
                1
            } else {
                2
            };
            Tick { value: 1 << bit, rank }
        }));
        return ticks;
    }
    for power in 0..=10 {
        let unit = 10u64.pow(power);
        let of_unit = [(1, if power % 3 == 0 { 0 } else { 1 }), (2, 3), (5, 2)];
        ticks.extend(of_unit.map(|(factor, rank)| Tick { value: factor * unit, rank }));
    }
    ticks.retain(|tick| tick.value < 60 * S);
    for (seconds, rank) in
        [(60, 0), (120, 3), (300, 2), (600, 1), (1800, 2), (3600, 0), (7200, 3), (18_000, 2), (36_000, 2)]
    {
        ticks.push(Tick { value: seconds * S, rank });
    }
    for power in 0..=5 {
        let day = 86_400 * S * 10u64.pow(power);
        for (factor, rank) in [(1, 1), (2, 3), (5, 2)] {
            ticks.extend(day.checked_mul(factor).map(|value| Tick { value, rank }));
        }
    }
    ticks
}

/// Multiples of one round step between two values, about as many as wanted.
pub fn even_values(lower: u64, upper: u64, wanted: u32, bytes: bool) -> Vec<u64> {
    let least = ((upper - lower) / u64::from(wanted.max(1))).max(1);
    let step = round_values(bytes).iter().map(|tick| tick.value).find(|&value| value >= least).unwrap_or(1 << 63);
    let first = lower.div_ceil(step);
    (0..=u64::from(wanted) + 1)
        .map_while(|at| first.checked_add(at)?.checked_mul(step))
        .take_while(|&value| value <= upper)
        .collect()
}

/// So many labels make an axis readable.
pub const ENOUGH: usize = 3;

/// Multiples of a round step for a range in which fewer round values than [`ENOUGH`] lie: at least so many, where the range
/// has them, and not many more.
pub fn fine_values(lower: u64, upper: u64, bytes: bool) -> Vec<u64> {
    let multiples = |wanted: u64| {
        let least = (upper.saturating_sub(lower) / wanted).max(1);
        let step = if bytes { least.next_power_of_two() } else { time_step(least) };
        let first = lower.div_ceil(step);
        let values = (0..4 * wanted).map_while(move |at| first.checked_add(at)?.checked_mul(step));
        values.take_while(|&value| value <= upper).collect::<Vec<_>>()
    };
    (ENOUGH as u64..=4 * ENOUGH as u64).map(multiples).find(|values| values.len() >= ENOUGH).unwrap_or_default()
}

/// The step between labels of a time axis: round, and at least this long.
pub fn time_step(least_ns: u64) -> u64 {
    const MINUTE: u64 = 60 * S;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    let decimal =
        (0..=9).flat_map(|power| [1, 2, 5].map(|factor| factor * 10u64.pow(power))).filter(|&ns| ns <= 10 * S);
    let clock = [15 * S, 30 * S, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR]
        .into_iter()
        .chain([2, 3, 6, 12].map(|hours| hours * HOUR));
    let days = (0..=4).flat_map(|power| [1, 2, 5].map(|factor| factor * 10u64.pow(power) * DAY));
    decimal.chain(clock).chain(days).find(|&step| step >= least_ns).unwrap_or(100_000 * DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_long_enough() {
        for (least, step) in [(1, 1), (3, 5), (11 * S, 15 * S), (61 * S, 120 * S), (86_401 * S, 2 * 86_400 * S)] {
            assert_eq!(time_step(least), step);
        }
        assert_eq!(time_step(u64::MAX), 100_000 * 86_400 * S);
    }

    #[test]
    fn even_values_lie_within() {
        assert_eq!(even_values(0, 100, 5, false), [0, 20, 40, 60, 80, 100]);
        assert_eq!(even_values(5000, 9000, 4, true), [5120, 6144, 7168, 8192]);
        assert!(even_values(0, u64::MAX, 10, false).len() <= 12);
        assert!(even_values(u64::MAX - 1, u64::MAX, 10, true).len() <= 12);
    }

    #[test]
    fn a_narrow_range_has_values_too() {
        const MS: u64 = 1_000_000;
        for (lower, upper, values) in [
            (15 * MS / 10, 266 * MS / 100, &[15, 20, 25][..]),
            (375 * MS / 10, 60 * MS, &[400, 500, 600]),
            (100 * MS, 120 * MS, &[1000, 1100, 1200]),
        ] {
            let expected: Vec<u64> = values.iter().map(|tenths| tenths * MS / 10).collect();
            assert_eq!(fine_values(lower, upper, false), expected);
        }
        assert_eq!(fine_values(90 * S, 160 * S, false), [90 * S, 120 * S, 150 * S]);
        assert_eq!(fine_values(5000, 9000, true), [5120, 6144, 7168, 8192]);
        assert!(fine_values(7, 8, false).is_empty(), "there are but two");
        for (lower, upper) in [(0, u64::MAX), (u64::MAX - 9, u64::MAX), (1, 1000), (999, 1778)] {
            for bytes in [false, true] {
                let count = fine_values(lower, upper, bytes).len();
                assert!((ENOUGH..=4 * ENOUGH).contains(&count), "{lower} {upper} {bytes}: {count}");
            }
        }
    }

    #[test]
    fn round_values_ascend() {
        for bytes in [false, true] {
            assert!(round_values(bytes).windows(2).all(|pair| pair[0].value < pair[1].value));
        }
    }
}
