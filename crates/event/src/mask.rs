//! One bit for each event of a batch: what a filter lets through.

/// One bit for each event of a batch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mask {
    words: Vec<u64>,
    len: usize,
}

impl Mask {
    /// A mask of `len` bits, all clear or all set.
    pub fn filled(len: usize, set: bool) -> Mask {
        let mut mask = Mask::default();
        mask.reset(len, set);
        mask
    }

    /// Makes this a mask of `len` bits, all clear or all set, keeping its memory.
    pub fn reset(&mut self, len: usize, set: bool) {
        self.words.clear();
        self.words.resize(len.div_ceil(64), if set { u64::MAX } else { 0 });
        self.len = len;
        self.trim();
    }

    /// Bits beyond the length stay clear, so that counting and negation need no special case.
    fn trim(&mut self) {
        if !self.len.is_multiple_of(64)
            && let Some(last) = self.words.last_mut()
        {
            *last &= (1 << (self.len % 64)) - 1;
        }
    }

    /// Number of bits.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the mask has no bits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of set bits.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether this bit is set; bits beyond the length are not.
    pub fn get(&self, at: usize) -> bool {
        self.words.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// The words of 64 bits, lowest bit first, for evaluation word by word.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Keeps, among the set bits, those for which `keep` holds. It is asked for set bits only.
    #[inline]
    pub fn retain(&mut self, mut keep: impl FnMut(usize) -> bool) {
        for (at, word) in self.words.iter_mut().enumerate() {
            if *word == u64::MAX {
                // The common case of a first term: no walk from bit to bit.
                let mut kept = 0;
                for bit in 0..64 {
                    kept |= u64::from(keep(at * 64 + bit)) << bit;
                }
                *word = kept;
                continue;
            }
            let mut left = *word;
            while left != 0 {
                let bit = left.trailing_zeros() as usize;
                left &= left - 1;
                if !keep(at * 64 + bit) {
                    *word &= !(1 << bit);
                }
            }
        }
    }

    /// Keeps, among the set bits of each word of 64, those that are set in the answer for this word too: for
    /// evaluation of 64 events at once. It is asked, with the number of the word and its bits, for words with set
    /// bits only.
    #[inline]
    pub fn retain_words(&mut self, mut keep: impl FnMut(usize, u64) -> u64) {
        for (at, word) in self.words.iter_mut().enumerate().filter(|(_, word)| **word != 0) {
            *word &= keep(at, *word);
        }
    }

    /// Keeps what is set in both.
    pub fn and(&mut self, other: &Mask) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other);
    }

    /// Adds what is set in the other.
    pub fn or(&mut self, other: &Mask) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    /// Removes what is set in the other.
    pub fn and_not(&mut self, other: &Mask) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= !other);
    }

    /// The positions of the set bits, ascending.
    pub fn ones(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            std::iter::successors((word != 0).then_some(word), |&left| {
                let left = left & (left - 1);
                (left != 0).then_some(left)
            })
            .map(move |left| at * 64 + left.trailing_zeros() as usize)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_like_a_list_of_booleans(bits in proptest::collection::vec((any::<bool>(), any::<bool>()), 0..200)) {
            let build = |pick: fn(&(bool, bool)) -> bool| {
                let mut mask = Mask::filled(bits.len(), true);
                mask.retain(|at| pick(&bits[at]));
                mask
            };
            let (a, b) = (build(|bit| bit.0), build(|bit| bit.1));
            let listed = |mask: &Mask| (0..bits.len()).map(|at| mask.get(at)).collect::<Vec<_>>();
            let expect = |of: fn(bool, bool) -> bool| bits.iter().map(|&(a, b)| of(a, b)).collect::<Vec<_>>();
            let mut and = a.clone();
            and.retain(|at| b.get(at));
            prop_assert_eq!(listed(&and), expect(|a, b| a && b));
            let mut and = a.clone();
            and.retain_words(|at, word| {
                assert_eq!(word, a.words()[at]);
                b.words()[at]
            });
            prop_assert_eq!(listed(&and), expect(|a, b| a && b));
            let mut and = a.clone();
            and.and(&b);
            prop_assert_eq!(listed(&and), expect(|a, b| a && b));
            let mut or = a.clone();
            or.or(&b);
            prop_assert_eq!(listed(&or), expect(|a, b| a || b));
            let mut not = Mask::filled(bits.len(), true);
            not.and_not(&a);
            prop_assert_eq!(listed(&not), expect(|a, _| !a));
            prop_assert_eq!(not.count() + a.count(), bits.len());
            prop_assert_eq!(a.ones().collect::<Vec<_>>(), (0..bits.len()).filter(|&at| bits[at].0).collect::<Vec<_>>());
        }
    }
}
