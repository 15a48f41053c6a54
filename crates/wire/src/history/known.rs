//! The records that were compacted, by run and sequence number, so that one that is sent again is known after a restart.

use super::files::{self, UNFINISHED};
use super::segment::Segment;
use crate::messages::Stored;
use crate::{Hello, Id, Kind, PREFACE, Ranges, Record};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// So many runs are remembered, those that sent last.
const RUNS_KEPT: usize = 20_000;

/// What is known of runs.
#[derive(Default)]
pub struct Known {
    runs: HashMap<Id, Run>,
    /// How often something was added.
    turns: u64,
}

struct Run {
    /// Who sent it, and its groups.
    descriptions: Vec<Record>,
    ranges: Ranges,
    /// When something was added last.
    turn: u64,
}

impl Known {
    /// What was known when the last file of the journal was compacted that is gone.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn load(folder: &Path) -> io::Result<Known> {
        let oldest = files::segments(folder)?.first().map_or(u64::MAX, |&(stamp, _)| stamp);
        let mut known = Known::default();
        if let Some((_, path)) = files::stamped(folder, ".runs")?.into_iter().rfind(|&(stamp, _)| stamp < oldest) {
            known.add(Segment::open(&path)?)?;
        }
        Ok(known)
    }

    /// Adds what a file of the journal has, or one of these.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn add(&mut self, segment: Segment) -> io::Result<()> {
        segment.each_record(|kind, record, head| {
            self.turns += 1;
            let (run, ranges, description) = match (kind, head) {
                (Kind::Data, Some(head)) => (head.run, [head.sequences].into_iter().collect(), None),
                (Kind::Ack, _) => match Stored::parse(record.payload()) {
                    Ok(stored) => (stored.run, stored.ranges, None),
                    Err(_) => return,
                },
                (Kind::Hello, _) => match Hello::parse(record.payload()) {
                    Ok(hello) => (hello.run, Ranges::default(), Some(record)),
                    Err(_) => return,
                },
                (Kind::Dictionary, _) => match crate::Dictionary::run(&record) {
                    Ok(run) => (run, Ranges::default(), Some(record)),
                    Err(_) => return,
                },
                _ => return,
            };
            let new = || Run { descriptions: Vec::new(), ranges: Ranges::default(), turn: 0 };
            let known = self.runs.entry(run).or_insert_with(new);
            known.turn = self.turns;
            known.descriptions.extend(description.filter(|description| !known.descriptions.contains(description)));
            for range in ranges.iter() {
                known.ranges.add(range);
            }
        })
    }

    /// Writes it beside the file of the journal with this stamp.
    ///
    /// # Errors
    /// When the disk does not take it.
    pub fn store(&self, folder: &Path, stamp: u64) -> io::Result<()> {
        let mut runs: Vec<(&Id, &Run)> = self.runs.iter().collect();
        runs.sort_by_key(|(_, run)| run.turn);
        let mut bytes = PREFACE.to_vec();
        let forgotten = runs.len().saturating_sub(RUNS_KEPT);
        for (&id, run) in runs.into_iter().skip(forgotten) {
            run.descriptions.iter().for_each(|description| bytes.extend_from_slice(description.bytes()));
            let stored = Stored { run: id, ranges: run.ranges.clone() };
            bytes.extend_from_slice(stored.record(Kind::Ack).bytes());
        }
        let path = folder.join(format!("{stamp:015}.runs"));
        let unfinished = folder.join(format!("{stamp:015}.runs{UNFINISHED}"));
        let mut file = File::create(&unfinished)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        std::fs::rename(&unfinished, &path)?;
        files::sync(folder)
    }

    /// Hands on the records that describe each run, and its sequence numbers.
    pub fn each_run(self, mut take: impl FnMut(Vec<Record>, Id, Ranges)) {
        let mut runs: Vec<(Id, Run)> = self.runs.into_iter().collect();
        runs.sort_by_key(|(_, run)| run.turn);
        runs.into_iter().for_each(|(id, run)| take(run.descriptions, id, run.ranges));
    }

    /// The sequence numbers of each run.
    pub fn ranges(&self) -> HashMap<Id, Ranges> {
        self.runs.iter().map(|(&id, run)| (id, run.ranges.clone())).collect()
    }
}
