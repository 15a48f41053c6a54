//! Numbers at random that are the same everywhere.

/// Splitmix64 (Steele, Lea and Flood 2014): small, and the same everywhere.
pub(super) struct Random(pub u64);

impl Random {
    /// Any 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below a bound.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Above 0, below or at 1.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Of the standard normal distribution (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Of the chi-squared distribution with so many degrees of freedom, from five on (Wilson and Hilferty 1931).
    pub fn chi_squared(&mut self, freedom: f64) -> f64 {
        let part = 2.0 / (9.0 * freedom);
        freedom * (1.0 - part + self.normal() * part.sqrt()).max(0.0).powi(3)
    }
}
