//! The slowest events of every part of the picture, with what is known of each.

use hashbrown::HashMap;
use std::collections::BTreeSet;

/// An event that is kept as an example.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Exemplar {
    /// Latency, nanoseconds.
    pub latency_ns: u64,
    /// Start, nanoseconds on the clock of the trace.
    pub start_ns: i64,
    /// Size in bytes, where it is known.
    pub size: Option<u64>,
    /// Position in bytes, where it is known.
    pub offset: Option<u64>,
    /// Process, where it is known.
    pub pid: Option<i64>,
    /// Combination of attributes.
    pub combination: u32,
}

/// As many tiles there are beside each other.
const TILES: usize = 64;
/// As many events a tile keeps.
const KEPT: usize = 3;
/// As many of the slowest of all are kept, wherever they lie.
const SLOWEST: usize = 200;

#[derive(Debug)]
pub(super) struct Slowest {
    tile_ns: u64,
    /// By number of the tile since the epoch and octave; the slowest first.
    tiles: HashMap<(i64, u32), Vec<Exemplar>>,
    /// First and last tile.
    range: Option<(i64, i64)>,
    slowest: BTreeSet<Exemplar>,
}

impl Slowest {
    pub fn new() -> Slowest {
        Slowest { tile_ns: 1_000_000, tiles: HashMap::new(), range: None, slowest: BTreeSet::new() }
    }

    /// Adds an event that ended at this moment.
    pub fn add(&mut self, end_ns: i64, event: impl Fn() -> Exemplar, latency_ns: u64) {
        let tile = self.tile(end_ns);
        let (first, last) = self.range.get_or_insert((tile, tile));
        (*first, *last) = (tile.min(*first), tile.max(*last));
        let kept = self.tiles.entry((tile, latency_ns.max(1).ilog2())).or_default();
        if kept.len() < KEPT || kept.last().is_some_and(|last| last.latency_ns < latency_ns) {
            insert(kept, event());
        }
        if self.slowest.len() < SLOWEST || self.slowest.first().is_some_and(|last| last.latency_ns < latency_ns) {
            self.slowest.insert(event());
            while self.slowest.len() > SLOWEST {
                self.slowest.pop_first();
            }
        }
        while self.range.is_some_and(|(first, last)| last.abs_diff(first) >= 2 * TILES as u64) {
            self.widen();
        }
    }

    fn tile(&self, end_ns: i64) -> i64 {
        end_ns.div_euclid(i64::try_from(self.tile_ns).unwrap_or(i64::MAX))
    }

    /// Makes one tile of two.
    fn widen(&mut self) {
        self.tile_ns = self.tile_ns.saturating_mul(2);
        let mut all: Vec<_> = std::mem::take(&mut self.tiles).into_iter().collect();
        all.sort_by_key(|&(tile, _)| tile);
        for ((tile, octave), events) in all {
            let kept = self.tiles.entry((tile.div_euclid(2), octave)).or_default();
            events.into_iter().for_each(|event| insert(kept, event));
        }
        self.range = self.range.map(|(first, last)| (first.div_euclid(2), last.div_euclid(2)));
    }

    /// Gives combinations their new numbers.
    pub fn renumber(&mut self, moved: &[u32]) {
        let renumbered = |event: Exemplar| Exemplar { combination: moved[event.combination as usize], ..event };
        self.tiles.values_mut().flatten().for_each(|event| *event = renumbered(*event));
        self.slowest = std::mem::take(&mut self.slowest).into_iter().map(renumbered).collect();
    }

    /// All that are kept, the slowest first.
    pub fn finish(self) -> Vec<Exemplar> {
        let mut all: Vec<Exemplar> = self.tiles.into_values().flatten().chain(self.slowest).collect();
        all.sort_by(|one, other| other.latency_ns.cmp(&one.latency_ns).then_with(|| one.cmp(other)));
        all.dedup();
        all
    }
}

fn insert(kept: &mut Vec<Exemplar>, event: Exemplar) {
    let at = kept.partition_point(|other| other.latency_ns >= event.latency_ns);
    kept.insert(at, event);
    kept.truncate(KEPT);
}
