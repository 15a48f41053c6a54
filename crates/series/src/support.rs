//! How far a percentile can be trusted, by the number of events it was taken from.

/// What so many events tell of a percentile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Support {
    /// Less than one event lies beyond it: it would be one end of the events under another name.
    None,
    /// Fewer than ten lie beyond it: a few events decide what it is.
    Few,
    /// Ten or more, rounded: 999 requests tell a 99th percentile.
    Enough,
}

impl Support {
    /// Of a quantile (0 to 1) from so many events, which are no whole number where they count by share. Smallest and
    /// largest value are what they are, and half of the events always lie beyond the median.
    pub fn of(quantile: f64, events: f64) -> Support {
        let beyond = quantile.min(1.0 - quantile) * events;
        // A hair below, since 1 - 0.999 is not quite 0.001.
        match beyond {
            _ if quantile <= 0.0 || quantile >= 1.0 => Support::Enough,
            beyond if beyond >= 9.5 => Support::Enough,
            beyond if beyond >= 0.999 || quantile == 0.5 && events > 0.0 => Support::Few,
            _ => Support::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_events_beyond_it() {
        for (quantile, events, support) in [
            (0.99, 99.0, Support::None),
            (0.99, 100.0, Support::Few),
            (0.99, 949.0, Support::Few),
            (0.99, 999.0, Support::Enough),
            (0.99, 1000.0, Support::Enough),
            (0.999, 10_000.0, Support::Enough),
            (0.01, 99.0, Support::None),
            (0.5, 0.4, Support::Few),
            (0.5, 20.0, Support::Enough),
            (1.0, 0.1, Support::Enough),
        ] {
            assert_eq!(Support::of(quantile, events), support, "{quantile} of {events}");
        }
    }
}
