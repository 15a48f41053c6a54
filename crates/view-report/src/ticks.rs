//! Round numbers for axes.

/// A value worth a tick; the lower the rank, the rounder.
pub(crate) struct Tick {
    pub value: u64,
    pub rank: u8,
}

const S: u64 = 1_000_000_000;

/// Round values of all orders of magnitude: 1-2-5 for durations (then minutes, hours, days), powers of two for bytes.
pub(crate) fn round_values(bytes: bool) -> Vec<Tick> {
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
pub(crate) fn even_values(lower: u64, upper: u64, wanted: u32, bytes: bool) -> Vec<u64> {
    let least = ((upper - lower) / u64::from(wanted.max(1))).max(1);
    let step = round_values(bytes).iter().map(|tick| tick.value).find(|&value| value >= least).unwrap_or(1 << 63);
    let first = lower.div_ceil(step);
    (0..=u64::from(wanted) + 1)
        .map_while(|at| first.checked_add(at)?.checked_mul(step))
        .take_while(|&value| value <= upper)
        .collect()
}

/// The step between labels of a time axis: round, and at least this long.
pub(crate) fn time_step(least_ns: u64) -> u64 {
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
    fn round_values_ascend() {
        for bytes in [false, true] {
            assert!(round_values(bytes).windows(2).all(|pair| pair[0].value < pair[1].value));
        }
    }
}
