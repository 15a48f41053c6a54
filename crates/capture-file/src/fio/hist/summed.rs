//! Rows that fio's server summed up.
//!
//! The server of `fio --client` subtracts the histogram before from each one in place, so that the next is reduced by a
//! difference instead of a sum: from the third row of a direction on, a row holds every second interval so far. That is so
//! from 2.14 to this day. It shows in the rows alone, and the difference to the row before the last one undoes it.

use super::bins::Counts;
use super::row::Row;
use std::collections::VecDeque;

/// After so many comparisons that all say so, rows are sums.
const CERTAIN: u32 = 64;
/// With fewer the file is too short to decide.
const ENOUGH: u32 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Open,
    Sound,
    Summed,
}

/// Takes rows in the order of the file and gives them back as fio counted them.
#[derive(Debug)]
pub struct Unsummer {
    verdict: Verdict,
    /// Held back until it is known what they are.
    held: VecDeque<Row>,
    ready: VecDeque<Row>,
    /// The last two rows of each direction as they stood in the file, the older first.
    last: [[Option<Counts>; 2]; 3],
    tested: u32,
    grown: u32,
    firsts: [Firsts; 3],
    /// How many rows were sums.
    pub repaired: u64,
    /// How many may be: they were too few to decide, or do not start with the run.
    pub doubtful: u64,
}

/// The first two rows of a direction, which hold nothing before them, unless they are not the first of the run.
#[derive(Clone, Copy, Default, Debug)]
struct Firsts {
    rows: u64,
    counts: u64,
    times_ms: [u64; 2],
    /// The rows behind them, taken apart.
    others: u64,
    counts_of_others: u64,
}

impl Firsts {
    fn add(&mut self, row: &Row, is_first: bool) {
        let counts = row.counts.iter().fold(0u64, |sum, &(_, count)| sum.saturating_add(count));
        if is_first {
            self.times_ms[self.rows.min(1) as usize] = row.time_ms;
            self.rows += 1;
            self.counts = self.counts.saturating_add(counts);
        } else {
            self.others += 1;
            self.counts_of_others = self.counts_of_others.saturating_add(counts);
        }
    }

    /// Whether they may be sums, in a log whose first row has this time: when that is later than a run's first one, and they
    /// hold more than the rows behind them. Two of a run that was as fast as later hold as many as two others, those behind
    /// another row each at least as many as four.
    fn may_be_sums(&self, start_ms: u64) -> bool {
        let [first_ms, second_ms] = self.times_ms;
        let is_late = start_ms > second_ms.saturating_sub(first_ms).saturating_mul(2);
        let usual = self.counts_of_others as f64 / self.others as f64;
        self.rows == 2 && self.others > 0 && is_late && self.counts as f64 > 3.0 * usual
    }
}

impl Default for Unsummer {
    fn default() -> Unsummer {
        let (held, ready) = Default::default();
        let last = Default::default();
        Unsummer {
            verdict: Verdict::Open,
            held,
            ready,
            last,
            tested: 0,
            grown: 0,
            firsts: Default::default(),
            repaired: 0,
            doubtful: 0,
        }
    }
}

impl Unsummer {
    /// Takes the next row. Fails if earlier rows looked like sums and this one does not.
    pub fn push(&mut self, row: Row) -> Result<(), &'static str> {
        match self.verdict {
            Verdict::Sound => self.ready.push_back(row),
            Verdict::Summed => self.repair(row)?,
            Verdict::Open => {
                self.test(&row);
                if self.verdict == Verdict::Sound {
                    self.ready.push_back(row);
                    return Ok(());
                }
                self.held.push_back(row);
                if self.tested >= CERTAIN {
                    self.decide(2 * self.grown >= self.tested)?;
                }
            }
        }
        Ok(())
    }

    /// Another job starts.
    pub fn start_job(&mut self) -> Result<(), &'static str> {
        self.finish(false)?;
        *self = Unsummer {
            ready: std::mem::take(&mut self.ready),
            repaired: self.repaired,
            doubtful: self.doubtful,
            ..Unsummer::default()
        };
        Ok(())
    }

    /// There are no more rows. A host at the end of the file's name says that a server may have made it.
    pub fn finish(&mut self, has_host: bool) -> Result<(), &'static str> {
        if self.verdict != Verdict::Open {
            self.doubt_firsts();
            return Ok(());
        }
        let certain = self.tested >= ENOUGH && 2 * self.grown >= self.tested;
        let likely = self.tested > 0 && self.grown == self.tested;
        if likely && !certain && !has_host {
            self.doubtful += u64::from(self.tested);
        }
        self.decide(certain || likely && has_host)?;
        self.doubt_firsts();
        Ok(())
    }

    /// Counts first rows that are those of a run's later part.
    fn doubt_firsts(&mut self) {
        let firsts = std::mem::take(&mut self.firsts);
        let Some(start_ms) = firsts.iter().filter(|firsts| firsts.rows > 0).map(|firsts| firsts.times_ms[0]).min()
        else {
            return;
        };
        self.doubtful +=
            firsts.iter().filter(|firsts| firsts.may_be_sums(start_ms)).map(|firsts| firsts.rows).sum::<u64>();
    }

    /// The next row that is ready.
    pub fn pop(&mut self) -> Option<Row> {
        self.ready.pop_front()
    }

    /// Compares with the row before the last one: no bin of a sum is smaller.
    fn test(&mut self, row: &Row) {
        let last = &mut self.last[usize::from(row.direction)];
        if let Some(before) = &last[0] {
            match difference(&row.counts, before) {
                None => {
                    self.verdict = Verdict::Sound;
                    self.ready.append(&mut self.held);
                    self.held = VecDeque::new();
                    return;
                }
                Some(difference) => {
                    self.tested += 1;
                    self.grown += u32::from(!difference.is_empty());
                }
            }
        }
        last.rotate_left(1);
        last[1] = Some(row.counts.clone());
    }

    fn decide(&mut self, summed: bool) -> Result<(), &'static str> {
        self.verdict = if summed { Verdict::Summed } else { Verdict::Sound };
        self.last = Default::default();
        let held = std::mem::take(&mut self.held);
        if !summed {
            self.ready.extend(held);
            return Ok(());
        }
        held.into_iter().try_for_each(|row| self.repair(row))
    }

    fn repair(&mut self, mut row: Row) -> Result<(), &'static str> {
        let last = &mut self.last[usize::from(row.direction)];
        let counts = match &last[0] {
            None => row.counts.clone(),
            Some(before) => {
                self.repaired += 1;
                difference(&row.counts, before)
                    .ok_or("fewer counts than the second row before it, although the rows are running sums")?
            }
        };
        let is_first = last[0].is_none();
        last.rotate_left(1);
        last[1] = Some(std::mem::replace(&mut row.counts, counts));
        self.firsts[usize::from(row.direction)].add(&row, is_first);
        self.ready.push_back(row);
        Ok(())
    }
}

/// What `row` has more than `before`; none when it has less anywhere.
fn difference(row: &Counts, before: &Counts) -> Option<Counts> {
    let mut before = before.iter().peekable();
    let mut more = Counts::new();
    for &(bin, count) in row {
        let less = match before.peek() {
            Some(&&(other, _)) if other < bin => return None,
            Some(&&(other, less)) if other == bin => {
                before.next();
                less
            }
            _ => 0,
        };
        match count.checked_sub(less)? {
            0 => {}
            left => more.push((bin, left)),
        }
    }
    before.next().is_none().then_some(more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn through(rows: &[Row], has_host: bool) -> (Vec<Row>, u64, u64) {
        let (mut unsummer, mut out) = (Unsummer::default(), Vec::new());
        for row in rows {
            unsummer.push(row.clone()).unwrap();
            out.extend(std::iter::from_fn(|| unsummer.pop()));
        }
        unsummer.finish(has_host).unwrap();
        out.extend(std::iter::from_fn(|| unsummer.pop()));
        (out, unsummer.repaired, unsummer.doubtful)
    }

    /// What the server makes of them, written down as its source does it: a list that is reduced in place.
    fn by_the_server(rows: &[Row]) -> Vec<Row> {
        let mut out: Vec<Row> = Vec::new();
        let mut cumulative: [Vec<u64>; 3] = Default::default();
        let mut before: [Vec<u64>; 3] = Default::default();
        for row in rows {
            let at = usize::from(row.direction);
            let (sum, before) = (&mut cumulative[at], &mut before[at]);
            sum.resize(64, 0);
            before.resize(64, 0);
            row.counts.iter().for_each(|&(bin, count)| sum[bin as usize] += count);
            let sent: Vec<u64> = sum.iter().zip(before.iter()).map(|(sum, before)| sum - before).collect();
            let counts = sent.iter().enumerate().filter(|(_, count)| **count > 0);
            let counts = counts.map(|(bin, &count)| (bin as u32, count)).collect();
            out.push(Row { counts, ..row.clone() });
            *before = sent;
        }
        out
    }

    fn rows() -> impl Strategy<Value = Vec<Row>> {
        let counts = proptest::collection::btree_map(0u32..64, 1u64..50, 3..20);
        let row = (0u8..2, counts).prop_map(|(direction, counts)| (direction, counts.into_iter().collect::<Counts>()));
        proptest::collection::vec(row, 12..200).prop_map(|rows| {
            let row =
                |(at, (direction, counts)): (usize, (u8, Counts))| Row { time_ms: at as u64 * 100, direction, counts };
            rows.into_iter().enumerate().map(row).collect()
        })
    }

    proptest! {
        #[test]
        fn sums_are_undone_exactly(rows in rows()) {
            prop_assume!((0..2).any(|direction| rows.iter().filter(|row| row.direction == direction).count() >= 6));
            let (out, repaired, doubtful) = through(&by_the_server(&rows), false);
            prop_assert_eq!(&out, &rows);
            prop_assert!(repaired > 0 && doubtful == 0);
        }

        #[test]
        fn the_later_part_of_a_log_is_in_doubt(at in 4usize..40, is_wall: bool) {
            // 60 rows of about the same number of I/Os.
            let row = |at: u64| {
                let counts = (0..8).map(|bin| (bin * 7, 10 + (at * 31 + u64::from(bin) * 17) % 5)).collect();
                Row { time_ms: (at + 1) * 100 + if is_wall { 1 << 41 } else { 0 }, direction: 0, counts }
            };
            let rows: Vec<Row> = (0..60).map(row).collect();
            let sent = by_the_server(&rows);
            prop_assert_eq!(through(&sent, true), (rows.clone(), 58, 0));
            let (out, _, doubtful) = through(&sent[at..], true);
            prop_assert_eq!((&out[2..], doubtful), (&rows[at + 2..], 2));
        }

        #[test]
        fn sound_rows_stay_as_they_are(rows in rows()) {
            let (out, repaired, _) = through(&rows, true);
            prop_assert_eq!(repaired, 0);
            prop_assert_eq!(out, rows);
        }
    }

    #[test]
    fn few_rows_are_judged_by_the_name() {
        let row = |time_ms, count| Row { time_ms, direction: 0, counts: vec![(5, count)] };
        let three = [row(100, 10), row(200, 11), row(300, 25)];
        assert_eq!(through(&three, false), (three.to_vec(), 0, 1));
        assert_eq!(through(&three, true).0[2], row(300, 15));
        assert_eq!(through(&three[..2], true), (three[..2].to_vec(), 0, 0));
        let steady: Vec<Row> = (0..100).map(|at| row(at * 100, 7)).collect();
        assert_eq!(through(&steady, true).0, steady, "sums grow");
    }
}
