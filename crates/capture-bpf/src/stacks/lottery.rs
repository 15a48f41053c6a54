//! Which threads show their user stack where too many wait: chance decides in each pass, and what it draws stands for the rest.
//!
//! A wait that k passes saw is kept if one of them drew it. Long waits are drawn more surely than short ones, so each that is kept
//! stands for `1 / p` waits, where `p` is the probability with which any of these passes would have drawn it (Horvitz and Thompson
//! 1952): the sums of all views stay unbiased, and a thread that hangs stands for itself.

use super::pace::Random;
use super::shared::ALL_DRAWN;

/// The draws of a capture.
pub struct Lottery {
    /// User stacks that a pass copies on average.
    most: u32,
    /// That the present pass draws a thread.
    probability: f64,
    /// Threads that the present pass had to draw from, and those that it drew.
    candidates: u64,
    drawn: u64,
    random: Random,
    /// Waits that were drawn in a pass that did not draw all, and those that never were.
    pub kept: u64,
    pub left_out: u64,
}

/// How a wait fared.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Lot {
    is_drawn: bool,
    /// The probability that none of the passes so far drew it.
    missed: f64,
}

impl Lot {
    /// Of a thread that shows all that it has.
    pub const WHOLE: Lot = Lot { is_drawn: true, missed: 0.0 };
    /// Of one that a pass is to draw.
    pub const NEW: Lot = Lot { is_drawn: false, missed: 1.0 };
}

impl Lottery {
    /// Nothing was drawn yet, and the first pass may meet so many candidates. If it met many more than that, it would draw those that
    /// started first and no others, and what it says of them would not be what it says of the rest.
    pub fn new(most: u32, candidates: u64) -> Lottery {
        let random = Random::new(1);
        Lottery { most: most.max(1), probability: 1.0, candidates, drawn: 0, random, kept: 0, left_out: 0 }
    }

    /// A pass starts, with as many candidates as the one before, as far as is known; of 2^32 threads it draws so many.
    pub fn start(&mut self) -> u32 {
        self.probability = (f64::from(self.most) / self.candidates.max(1) as f64).min(1.0);
        (self.candidates, self.drawn) = (0, 0);
        if self.probability < 1.0 { (self.probability * f64::from(u32::MAX)) as u32 } else { ALL_DRAWN }
    }

    /// A pass had to draw this thread, or not.
    pub fn add(&mut self, lot: &mut Lot, is_drawn: bool) {
        self.candidates += 1;
        self.drawn += u64::from(is_drawn);
        lot.is_drawn |= is_drawn;
    }

    /// The pass is over.
    pub fn end(&mut self) {
        // More threads waited than before, and the pass stopped drawing at its limit.
        if self.drawn >= 2 * u64::from(self.most) {
            self.probability = self.drawn as f64 / self.candidates as f64;
        }
    }

    /// The pass saw the wait, whether it was drawn before or not.
    pub fn pass_by(&self, lot: &mut Lot) {
        lot.missed *= 1.0 - self.probability;
    }

    /// For how many waits one stands that is over; 0 where it is left out.
    pub fn weight(&mut self, lot: Lot) -> u64 {
        if lot.missed <= 0.0 {
            return 1;
        }
        if !lot.is_drawn {
            self.left_out += 1;
            return 0;
        }
        self.kept += 1;
        // Rounded up as often as it is nearer to the next number.
        (1.0 / (1.0 - lot.missed) + self.random.next()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits of 1 and of 5 passes, the same time in all: both have half of what is kept, and together all of it.
    #[test]
    fn what_is_drawn_stands_for_the_rest() {
        const THREADS: usize = 500;
        const PASSES: usize = 4000;
        let mut lottery = Lottery::new(100, 0);
        let mut chance = Random::new(7);
        let mut waits: Vec<(u64, Lot)> = vec![(0, Lot::NEW); 2 * THREADS];
        let mut sums = [0u64; 2];
        for _ in 0..PASSES {
            let share = f64::from(lottery.start()) / f64::from(u32::MAX);
            let mut left = 200;
            for (seen, lot) in &mut waits {
                *seen += 1;
                if !lot.is_drawn {
                    let is_drawn = left > 0 && chance.next() < share;
                    left -= u64::from(is_drawn);
                    lottery.add(lot, is_drawn);
                }
            }
            lottery.end();
            for (thread, (seen, lot)) in waits.iter_mut().enumerate() {
                lottery.pass_by(lot);
                let is_long = usize::from(thread >= THREADS);
                if *seen == [1, 5][is_long] {
                    sums[is_long] += *seen * lottery.weight(*lot);
                    (*seen, *lot) = (0, Lot::NEW);
                }
            }
        }
        let truth = (THREADS * PASSES) as f64;
        for sum in sums {
            assert!((sum as f64 / truth - 1.0).abs() < 0.02, "{sums:?} instead of {truth}");
        }
        assert!(lottery.left_out > lottery.kept, "{} of {}", lottery.kept, lottery.left_out);
    }

    #[test]
    fn the_first_pass_draws_from_all_threads() {
        assert_eq!(Lottery::new(100, 100).start(), ALL_DRAWN);
        let quarter = f64::from(Lottery::new(100, 400).start()) / f64::from(u32::MAX);
        assert!((quarter - 0.25).abs() < 1e-6, "{quarter}");
    }

    #[test]
    fn all_are_drawn_where_few_wait_and_what_hangs_stands_for_itself() {
        let mut lottery = Lottery::new(100, 0);
        let mut lot = Lot::NEW;
        for _ in 0..3 {
            assert_eq!(lottery.start(), ALL_DRAWN);
            lottery.add(&mut lot, true);
            lottery.end();
            lottery.pass_by(&mut lot);
        }
        assert_eq!((lottery.weight(lot), lottery.weight(Lot::WHOLE), lottery.kept), (1, 1, 0));
        let mut hangs = Lot::NEW;
        for pass in 0..200 {
            lottery.start();
            let mut other = Lot::NEW;
            (0..400).for_each(|_| lottery.add(&mut other, false));
            if !hangs.is_drawn {
                lottery.add(&mut hangs, pass == 9);
            }
            lottery.end();
            lottery.pass_by(&mut hangs);
        }
        assert_eq!(lottery.weight(hangs), 1);
    }
}
