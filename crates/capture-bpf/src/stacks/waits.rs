//! What threads do over several passes: samples of a thread whose switch counters stand still are one wait.

use super::lottery::{Lot, Lottery};
use super::rows::{Doing, Rows, Taken};
use super::shared::{Parts, Record, State, flag};
use crate::StackOptions;
use crate::loader::MonotonicClock;
use std::collections::HashMap;

/// What threads do, as the last passes saw it.
pub struct Waits {
    by_thread: HashMap<u32, Wait>,
    /// Number of the present pass, its start by the clock of the kernel, and what its samples stand for.
    pass: u64,
    now_ns: u64,
    interval_ns: u64,
    /// When the capture started: what began before counts from then on.
    attached_ns: u64,
    /// Whether waits become events when they end, and whether times on a CPU do.
    emits: [bool; 2],
    /// Which of them show their user stack.
    pub lottery: Lottery,
    /// Whether user stacks are copied at all.
    has_user: bool,
}

/// Threads that there are, the fourth number of /proc/loadavg behind its stroke; 0 where that cannot be read.
fn threads_of_host() -> u64 {
    let averages = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let threads = averages.split(' ').nth(3).and_then(|tasks| tasks.split_once('/'));
    threads.and_then(|(_, all)| all.parse().ok()).unwrap_or(0)
}

/// What a thread does since some time.
pub struct Wait {
    pub doing: Doing,
    switches: u64,
    /// When it may have started: at the pass before the first that saw it, unless the scheduler timed it.
    pub start_ns: u64,
    /// Since when it waits for sure.
    pub seen_ns: u64,
    /// The sum of the intervals of the passes that saw it.
    pub latency_ns: u64,
    pass: u64,
    lot: Lot,
}

impl Waits {
    /// Knows nothing yet.
    pub fn new(attached_ns: u64, emits: [bool; 2], how: &StackOptions) -> Waits {
        let lottery = Lottery::new(how.copies, threads_of_host());
        let (by_thread, has_user) = (HashMap::new(), how.user_stacks);
        Waits { by_thread, pass: 0, now_ns: attached_ns, interval_ns: 0, attached_ns, emits, lottery, has_user }
    }

    /// Events count from now on, and so does what was seen already.
    pub fn begin(&mut self, now_ns: u64) {
        self.attached_ns = now_ns;
        for wait in self.by_thread.values_mut() {
            (wait.start_ns, wait.seen_ns) = (wait.start_ns.max(now_ns), wait.seen_ns.max(now_ns));
            wait.latency_ns = 0;
        }
    }

    /// A pass starts now; of 2^32 threads it draws so many.
    pub fn start_pass(&mut self, now_ns: u64, interval_ns: u64) -> u32 {
        (self.pass, self.now_ns, self.interval_ns) = (self.pass + 1, now_ns, interval_ns);
        self.lottery.start()
    }

    /// Takes in what a pass says of a thread.
    pub fn add(&mut self, record: &Record, parts: &Parts, rows: &mut Rows, clock: MonotonicClock) {
        let state = State::from_record(record);
        let is_drawn = !record.has(flag::NOT_DRAWN);
        let is_whole = !self.has_user || record.has(flag::KTHREAD) || state == State::Running;
        let known = self.by_thread.get_mut(&record.tid);
        let known = known.filter(|wait| wait.switches == record.switches && wait.doing.state == state);
        if let Some(wait) = known {
            if !record.has(flag::SAME) {
                wait.doing = rows.doing(record, parts, state);
                if !is_whole {
                    self.lottery.add(&mut wait.lot, is_drawn);
                }
            }
            if wait.pass != self.pass {
                wait.latency_ns += self.interval_ns;
            }
            wait.pass = self.pass;
            return;
        }
        if record.has(flag::SAME) {
            return; // its first record was lost
        }
        let (start_ns, seen_ns) = match record.since_ns.max(self.attached_ns) {
            _ if record.since_ns == 0 => (self.now_ns.saturating_sub(self.interval_ns), self.now_ns),
            since_ns => (since_ns, since_ns),
        };
        let doing = rows.doing(record, parts, state);
        let (pass, latency_ns) = (self.pass, self.interval_ns);
        let mut lot = if is_whole { Lot::WHOLE } else { Lot::NEW };
        if !is_whole {
            self.lottery.add(&mut lot, is_drawn);
        }
        let wait = Wait { doing, switches: record.switches, start_ns, seen_ns, latency_ns, pass, lot };
        if let Some(ended) = self.by_thread.insert(record.tid, wait) {
            self.emit(&ended, rows, clock);
        }
    }

    /// The wait of a thread with these switch counters, if a pass saw it.
    pub fn find(&self, tid: u32, switches: u64) -> Option<&Wait> {
        self.by_thread.get(&tid).filter(|wait| wait.switches == switches && wait.doing.state != State::Running)
    }

    /// A pass is over: what it did not see has ended.
    pub fn end_pass(&mut self, rows: &mut Rows, clock: MonotonicClock) {
        let pass = self.pass;
        self.lottery.end();
        for wait in self.by_thread.values_mut().filter(|wait| wait.pass == pass) {
            self.lottery.pass_by(&mut wait.lot);
        }
        let ended: Vec<Wait> = self.by_thread.extract_if(|_, wait| wait.pass != pass).map(|(_, wait)| wait).collect();
        ended.iter().for_each(|wait| self.emit(wait, rows, clock));
    }

    fn emit(&mut self, wait: &Wait, rows: &mut Rows, clock: MonotonicClock) {
        let [waits, runs] = self.emits;
        let emits = if wait.doing.state == State::Running { runs } else { waits };
        // Seen only by the pass before the capture started.
        if !emits || wait.doing.stack.is_idle || wait.latency_ns == 0 {
            return;
        }
        let stands_for = self.lottery.weight(wait.lot);
        if stands_for > 0 {
            rows.push_sample(&wait.doing, wait.start_ns, wait.latency_ns, stands_for, clock);
        }
    }

    /// The capture ends, and with it all that does not stay. `timed`: the time of a wait counts from when it left the CPU.
    pub fn finish(&mut self, timed: bool, rows: &mut Rows, clock: MonotonicClock, stays: impl Fn(&Wait) -> bool) {
        let mut over: Vec<Wait> = self.by_thread.extract_if(|_, wait| !stays(wait)).map(|(_, wait)| wait).collect();
        // The time before the last look counts for none: what stays counts from the first look that saw it.
        let is_last = |wait: &&mut Wait| wait.pass == self.pass && self.pass > 1;
        over.iter_mut()
            .filter(is_last)
            .for_each(|wait| wait.latency_ns = wait.latency_ns.saturating_sub(self.interval_ns));
        for wait in over.iter().filter(|wait| !wait.doing.stack.is_idle) {
            match timed && wait.doing.state != State::Running {
                true => {
                    let latency_ns = self.now_ns.saturating_sub(wait.start_ns);
                    rows.push(&wait.doing, wait.start_ns, latency_ns, Taken::Sampled, clock);
                }
                false => self.emit(wait, rows, clock),
            }
        }
    }

    /// How long a thread waits at least, by the passes that saw it.
    pub fn age_ns(&self, wait: &Wait) -> u64 {
        self.now_ns.saturating_sub(wait.seen_ns)
    }

    /// What the last pass saw.
    pub fn iter(&self) -> impl Iterator<Item = &Wait> {
        self.by_thread.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::Raw;
    use latscope_event::FieldSet;

    /// Uninterruptible, as `__state` of a task has it.
    const DISK_SLEEP: u32 = 2;

    #[test]
    fn an_age_is_from_the_first_look_to_the_last() {
        let how = StackOptions { user_stacks: false, ..StackOptions::default() };
        let (mut rows, clock) = (Rows::new(FieldSet::ALWAYS, &how), MonotonicClock::measure());
        let mut waits = Waits::new(1000, [true, true], &how);
        let mut look = |waits: &mut Waits, at_ns: u64, threads: &[u32]| {
            waits.start_pass(at_ns, 50);
            for &tid in threads {
                let none = Record::read(&[0; Record::SIZE]);
                let record = Record { tid, pid: tid, state: DISK_SLEEP, switches: 3, ..none };
                waits.add(&record, &Parts::default(), &mut rows, clock);
            }
            waits.end_pass(&mut rows, clock);
            rows.batch.latency().to_vec()
        };
        let age = |waits: &Waits, tid: u32| waits.find(tid, 3).map(|wait| (waits.age_ns(wait), wait.start_ns));
        // One is over when the capture starts: it is no event.
        look(&mut waits, 1000, &[7, 8]);
        waits.begin(1010);
        assert!(look(&mut waits, 1060, &[7]).is_empty());
        assert_eq!(age(&waits, 7), Some((50, 1010)));
        look(&mut waits, 1110, &[7, 9]);
        assert_eq!((age(&waits, 7), age(&waits, 9)), (Some((100, 1010)), Some((0, 1060))));
        look(&mut waits, 1160, &[7, 9]);
        assert_eq!((age(&waits, 7), age(&waits, 9)), (Some((150, 1010)), Some((50, 1060))));
        assert_eq!(look(&mut waits, 1210, &[9]), [150], "as long as the passes that saw it stand for");
    }
}
