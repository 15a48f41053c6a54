//! How far a percentile can be trusted, by the number of events it was taken from: the one rule of all views. A percentile is
//! always shown, and marked where few events support it; in a stall there are few, and they are what matters.

/// How well so many events support a percentile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Support {
    /// Fewer than ten lie beyond it: a few events decide what it is.
    Few,
    /// Ten or more: by chance, their number is off by about a third.
    Enough,
}

/// Events that must lie beyond a percentile.
const TRUSTED: f64 = 10.0;

impl Support {
    /// Of a quantile (0 to 1) from so many events, which need not be a whole number where they count by share. The smallest
    /// and the largest value are what they are.
    pub fn new(quantile: f64, events: f64) -> Support {
        let is_end = quantile <= 0.0 || quantile >= 1.0;
        // A hair less than ten, since 1 - 0.999 is not quite 0.001.
        let is_trusted = is_end || quantile.min(1.0 - quantile) * events >= TRUSTED - 1e-6;
        if is_trusted { Support::Enough } else { Support::Few }
    }

    /// What stands behind the value in a table.
    pub fn mark(self) -> &'static str {
        if self == Support::Few { "?" } else { "" }
    }

    /// The percentile (0 to 100) up to which so many events support one, to four decimals, rounded down.
    pub fn trusted_percentile(events: f64) -> f64 {
        ((100.0 * (1.0 - TRUSTED / events)).max(0.0) * 1e4 + 1e-6).floor() / 1e4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_ten_events_beyond_it() {
        for (quantile, events, support) in [
            (0.99, 1.0, Support::Few),
            (0.99, 999.0, Support::Few),
            (0.99, 1000.0, Support::Enough),
            (0.999, 10_000.0, Support::Enough),
            (0.9999, 100_000.0, Support::Enough),
            (0.01, 999.0, Support::Few),
            (0.5, 19.9, Support::Few),
            (0.5, 20.0, Support::Enough),
            (1.0, 0.1, Support::Enough),
        ] {
            assert_eq!(Support::new(quantile, events), support, "{quantile} of {events}");
        }
    }

    #[test]
    fn what_is_trusted_is_not_marked() {
        for (events, trusted) in
            [(0.0, 0.0), (2.22, 0.0), (20.0, 50.0), (100.0, 90.0), (1000.0, 99.0), (3000.0, 99.6666)]
        {
            assert_eq!(Support::trusted_percentile(events), trusted, "{events}");
        }
        for events in 20..20_000 {
            let (events, trusted) = (f64::from(events), Support::trusted_percentile(f64::from(events)));
            assert_eq!(Support::new(trusted / 100.0, events), Support::Enough, "{events}");
            assert_eq!(Support::new((trusted + 2e-4) / 100.0, events), Support::Few, "{events}");
        }
    }
}
