//! Texts with several parts: the functions of a stack, the pairs of tags. Each distinct text is split once, and rows are counted by
//! text, so that a row costs the same as in any other column.

use super::condition::Attribute;
use crate::stacks::is_plumbing;
use hashbrown::{HashMap, HashSet};
use latscope_event::{FrameKind, frames};
use std::cmp::Reverse;

/// More parts are not tested; those that most texts have come first.
const MOST: usize = 20_000;
/// Longer names are not tested: no reader could compare them.
const LONGEST: usize = 1024;
/// The rank of code of the program.
const CODE: u8 = 2;

/// The parts of the texts of a column.
pub(super) struct Parts {
    /// By part.
    pub labels: Vec<Box<str>>,
    /// By part: what conditions on it are about.
    pub attributes: Vec<Attribute>,
    /// By code of a text: its parts, each once.
    of_code: Vec<Vec<u32>>,
    /// By code: whether it has none at all, as if it were missing.
    is_empty: Vec<bool>,
}

impl Parts {
    /// The functions of stacks. Of those that the same stacks have, the one that a reader looks for is kept: code of the program,
    /// and nearest to the wait.
    pub fn of_stacks(texts: &[Box<str>]) -> Parts {
        let attribute = |rank| if rank == CODE { Attribute::Frame } else { Attribute::KernelFrame };
        Parts::new(texts, attribute, |text| {
            let ranked = frames(text).enumerate().map(|(depth, frame)| {
                let rank = match frame.kind {
                    FrameKind::Kernel => 1,
                    _ if is_plumbing(frame.name) => 0,
                    _ => CODE,
                };
                (frame.name, (rank, depth))
            });
            ranked.collect()
        })
    }

    /// The pairs of tags.
    pub fn of_tags(texts: &[Box<str>]) -> Parts {
        let split = |pair| (pair, (0, 0));
        Parts::new(
            texts,
            |_| Attribute::Pair,
            |text| text.split(';').filter(|pair| !pair.is_empty()).map(split).collect(),
        )
    }

    fn new<'t>(
        texts: &'t [Box<str>],
        attribute: impl Fn(u8) -> Attribute,
        split: impl Fn(&'t str) -> Vec<(&'t str, (u8, usize))>,
    ) -> Parts {
        // By name: its codes, and its best rank.
        let mut found: HashMap<&str, (Vec<u32>, (u8, usize))> = HashMap::new();
        let mut is_empty = Vec::with_capacity(texts.len());
        for (code, text) in texts.iter().enumerate() {
            let parts = split(text);
            is_empty.push(parts.is_empty());
            for (name, rank) in parts.into_iter().filter(|(name, _)| name.len() <= LONGEST) {
                let (codes, best) = found.entry(name).or_default();
                if codes.last() != Some(&(code as u32)) {
                    codes.push(code as u32);
                }
                *best = rank.max(*best);
            }
        }
        let mut found: Vec<_> = found.into_iter().map(|(name, (codes, rank))| (name, codes, rank)).collect();
        found.sort_unstable_by_key(|(name, codes, rank)| (Reverse(codes.len()), Reverse(*rank), *name));
        let mut seen: HashSet<Vec<u32>> = HashSet::new();
        found.retain(|(_, codes, _)| seen.insert(codes.clone()));
        found.truncate(MOST);
        let mut of_code = vec![Vec::new(); texts.len()];
        for (part, (_, codes, _)) in found.iter().enumerate() {
            codes.iter().for_each(|&code| of_code[code as usize].push(part as u32));
        }
        let attributes = found.iter().map(|(.., rank)| attribute(rank.0)).collect();
        Parts { attributes, labels: found.into_iter().map(|(name, ..)| name.into()).collect(), of_code, is_empty }
    }

    /// The parts of a code.
    pub fn parts_of(&self, code: u32) -> &[u32] {
        self.of_code.get(code as usize).map_or(&[], Vec::as_slice)
    }

    /// Whether there is no text of this code, or none with a part.
    pub fn is_missing(&self, code: u32) -> bool {
        self.is_empty.get(code as usize).copied().unwrap_or(true)
    }

    /// Counts by code, the missing ones last, as counts by part.
    pub fn summed(&self, counts: &[[u64; 2]]) -> Vec<[u64; 2]> {
        let mut sums = vec![[0; 2]; self.labels.len() + 1];
        let mut add = |at: usize, counts: [u64; 2]| sums[at] = [0, 1].map(|side| sums[at][side] + counts[side]);
        let missing = self.labels.len();
        for (code, &counts) in counts.iter().enumerate().filter(|(_, counts)| **counts != [0, 0]) {
            match self.is_missing(code as u32) {
                true => add(missing, counts),
                false => self.parts_of(code as u32).iter().for_each(|&part| add(part as usize, counts)),
            }
        }
        sums
    }

    /// Whether each code has a part that passes.
    pub fn codes_with(&self, passes: impl Fn(u32) -> bool) -> Vec<bool> {
        self.of_code.iter().map(|parts| parts.iter().any(|&part| passes(part))).collect()
    }

    /// The parts of some codes only, which get the numbers of their places; others are not asked for.
    pub fn renumbered(&self, codes: &[u32]) -> Parts {
        let (mut numbers, mut labels) = (HashMap::new(), Vec::new());
        let of = |&code: &u32| {
            let parts = self.parts_of(code).iter().map(|&part| {
                *numbers.entry(part).or_insert_with(|| {
                    // In a deal nobody asks for names.
                    labels.push("".into());
                    labels.len() as u32 - 1
                })
            });
            parts.collect()
        };
        let of_code = codes.iter().map(of).collect();
        let is_empty = codes.iter().map(|&code| self.is_missing(code)).collect();
        Parts { labels, attributes: Vec::new(), of_code, is_empty }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_functions_with_the_same_stacks_one_is_kept() {
        let texts = ["main;scan;pread64;vfs_read_[k]", "main;index;pread64;vfs_read_[k]", "main;scan;scan;sync_[k]"];
        let parts = Parts::of_stacks(&texts.map(Into::into));
        let of = |code: u32| {
            let mut names: Vec<&str> = parts.parts_of(code).iter().map(|&part| &*parts.labels[part as usize]).collect();
            names.sort_unstable();
            names
        };
        // vfs_read stands for pread64 too, which leads into it.
        assert_eq!(
            [of(0), of(1), of(2)],
            [vec!["main", "scan", "vfs_read"], vec!["index", "main", "vfs_read"], vec!["main", "scan", "sync"]]
        );
        assert_eq!(parts.summed(&[[5, 1], [2, 2], [1, 0], [7, 9]]).last(), Some(&[7, 9]));
        let scan = parts.labels.iter().position(|name| &**name == "scan").unwrap();
        assert_eq!(parts.summed(&[[5, 1], [2, 2], [1, 0], [7, 9]])[scan], [6, 1]);
        assert_eq!(parts.codes_with(|part| part == scan as u32), [true, false, true]);
    }
}
