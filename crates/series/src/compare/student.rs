//! Student's t: how far out a mean of few values can lie.

/// How many parts the half of the distribution is summed in.
const STEPS: u32 = 2000;

/// The value that a t-distributed number with `freedom` degrees (1 or more) exceeds with the chance `beyond` (0 to 0.5, exclusive).
///
/// With t = sqrt(f) tan(a) the distribution of the angle is cos(a)^(f-1), which is smooth and of finite length for every f: summed
/// by Simpson's rule, it is exact to five digits.
pub(super) fn quantile(freedom: f64, beyond: f64) -> f64 {
    let step = std::f64::consts::FRAC_PI_2 / f64::from(2 * STEPS);
    let density = |at: u32| (step * f64::from(at)).cos().max(0.0).powf(freedom - 1.0);
    // Of each part the area under it, and where it starts.
    let area = |part: u32| (density(2 * part) + 4.0 * density(2 * part + 1) + density(2 * part + 2)) * step / 3.0;
    let half: f64 = (0..STEPS).map(area).sum();
    // From the far end inwards, where the areas are small and add up exactly.
    let wanted = beyond * 2.0 * half;
    let mut sum = 0.0;
    for part in (0..STEPS).rev() {
        let next = area(part);
        if sum + next >= wanted {
            let share = if next > 0.0 { (wanted - sum) / next } else { 0.0 };
            let angle = step * 2.0 * (f64::from(part) + 1.0 - share);
            return freedom.sqrt() * angle.tan();
        }
        sum += next;
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        // scipy.stats.t.isf(beyond, freedom)
        for (freedom, beyond, truth) in [
            (1.0, 0.025, 12.706_204_74),
            (2.0, 0.025, 4.302_652_73),
            (2.0, 0.002, 15.763_914_55),
            (3.0, 0.005, 5.840_909_31),
            (6.0, 0.002, 4.524_127_93),
            (10.0, 0.05, 1.812_461_12),
            (40.0, 0.002, 3.054_511_03),
            (1000.0, 0.025, 1.962_339_08),
        ] {
            let found = quantile(freedom, beyond);
            assert!((found / truth - 1.0).abs() < 1e-4, "{freedom} {beyond}: {found} {truth}");
        }
    }
}
