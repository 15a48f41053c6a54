//! Flushes, passthrough commands and other requests without a sector of their own: they pair in device order.
//!
//! The kernel has one flush in flight for each hardware queue, and tracers lose completions without a word. So a second
//! request of a kind on a device, issued while one is open, says one of two things: the device has more queues, or the
//! completion of the first was lost. If as many complete as were open before another is issued, it was the former, and the
//! device is known to have so many in flight from then on. Else it was the latter, and the old one is dropped: paired in
//! order, each later one would get the start of the one before it.

use super::{Open, Record, State};
use hashbrown::HashMap;
use std::collections::VecDeque;

/// No machine has more in flight; a trace that says so is damaged or made up.
pub const LIMIT: usize = 1 << 18;
/// Of one kind on one device; they are searched from front to back.
pub const LANE_LIMIT: usize = LIMIT / 64;

/// A request and its completion.
pub struct Ended {
    pub open: Open,
    pub record: Record,
    /// Its place among all completions of the trace.
    pub place: u64,
    /// How often records had been lost when it completed.
    pub losses: u64,
}

/// Requests without data, by device and letters.
#[derive(Default)]
pub struct Dataless {
    lanes: HashMap<(u32, [u8; 8]), Lane>,
    len: usize,
    held: usize,
    /// Requests that ended, to be taken out.
    pub ended: Vec<Ended>,
    /// Requests whose completion was lost, to be taken out.
    pub dropped: Vec<Open>,
    /// How many made room for others.
    pub evicted: u64,
}

/// Requests of one kind on one device, in the order of their issue: doubtful, held, open.
struct Lane {
    /// Had more been open than the device was seen to have in flight.
    doubtful: VecDeque<Open>,
    /// Completed while others were doubtful: each with the completion that it has unless those turn out to be real.
    held: VecDeque<Ended>,
    open: VecDeque<Open>,
    /// So many were seen to be in flight at once.
    proven: usize,
}

impl Lane {
    fn len(&self) -> usize {
        self.doubtful.len() + self.held.len() + self.open.len()
    }

    fn in_state(&mut self, state: State) -> Option<&mut Open> {
        self.open.iter_mut().find(|open| open.state == state)
    }

    /// What was doubtful is lost, and what was held ended as it seemed.
    fn settle(&mut self, ended: &mut Vec<Ended>, dropped: &mut Vec<Open>) {
        ended.extend(self.held.drain(..));
        dropped.extend(self.doubtful.drain(..));
    }
}

impl Dataless {
    /// A request is issued. True when it had been requeued.
    pub fn issue(&mut self, record: &Record, losses: u64) -> bool {
        self.make_room(record);
        let lane = self.lanes.entry((record.dev, record.rwbs)).or_insert_with(|| Lane {
            doubtful: VecDeque::new(),
            held: VecDeque::new(),
            open: VecDeque::new(),
            proven: 1,
        });
        if let Some(open) = lane.in_state(State::Requeued) {
            open.issue(record);
            return true;
        }
        let before = lane.len();
        self.held -= lane.held.len();
        if !lane.held.is_empty() {
            lane.settle(&mut self.ended, &mut self.dropped);
        }
        if lane.open.iter().filter(|open| open.state == State::Issued).count() >= lane.proven
            && let Some(oldest) = lane.open.iter().position(|open| open.state == State::Issued)
        {
            lane.doubtful.extend(lane.open.remove(oldest));
        }
        lane.open.push_back(Open::new(record, State::Issued, losses));
        self.len = self.len + lane.len() - before;
        false
    }

    /// A request goes back to the queue. False when none is in flight.
    pub fn requeue(&mut self, record: &Record) -> bool {
        let open = self.lanes.get_mut(&(record.dev, record.rwbs)).and_then(|lane| lane.in_state(State::Issued));
        open.map(|open| open.state = State::Requeued).is_some()
    }

    /// A request completed, as the one of this place among all completions. False when none is in flight.
    pub fn complete(&mut self, record: &Record, place: u64, losses: u64) -> bool {
        let key = (record.dev, record.rwbs);
        let Some(lane) = self.lanes.get_mut(&key) else { return false };
        let before = lane.len();
        let first = lane.open.iter().position(|open| open.state == State::Issued).and_then(|at| lane.open.remove(at));
        let end = |open| Ended { open, record: *record, place, losses };
        match first.map(end) {
            Some(ended) if lane.doubtful.is_empty() => self.ended.push(ended),
            Some(ended) => {
                lane.held.push_back(ended);
                self.held += 1;
            }
            // More completed than the device was thought to have in flight: what was doubtful was real.
            None => {
                let Some(oldest) = lane.doubtful.pop_front() else { return false };
                lane.proven = 1 + lane.doubtful.len() + lane.held.len();
                self.held -= lane.held.len();
                // Each completion belongs to an older request than it was held with; the youngest are still open.
                let mut waiting = VecDeque::from([oldest]);
                waiting.append(&mut lane.doubtful);
                for mut ended in lane.held.drain(..) {
                    waiting.push_back(ended.open);
                    if let Some(open) = waiting.pop_front() {
                        ended.open = open;
                        self.ended.push(ended);
                    }
                }
                self.ended.extend(waiting.pop_front().map(end));
                waiting.append(&mut lane.open);
                lane.open = waiting;
            }
        }
        self.len = self.len + lane.len() - before;
        // Devices may be made up: only those that taught something are remembered.
        if lane.len() == 0 && lane.proven == 1 {
            self.lanes.remove(&key);
        }
        true
    }

    /// Keeps the queues bounded: the oldest of a long one goes, and all of them where there are too many devices.
    fn make_room(&mut self, record: &Record) {
        if self.len >= LIMIT || self.lanes.len() >= LIMIT {
            self.evicted += self.lanes.values().map(|lane| (lane.doubtful.len() + lane.open.len()) as u64).sum::<u64>();
            self.ended.extend(self.lanes.drain().flat_map(|(_, lane)| lane.held));
            (self.len, self.held) = (0, 0);
        } else if let Some(lane) = self.lanes.get_mut(&(record.dev, record.rwbs))
            && lane.len() >= LANE_LIMIT
        {
            let before = lane.len();
            self.held -= lane.held.len();
            self.ended.extend(lane.held.drain(..));
            self.evicted += u64::from(lane.doubtful.pop_front().or_else(|| lane.open.pop_front()).is_some());
            self.len = self.len + lane.len() - before;
        }
    }

    /// Whether completions are held back until it is known whose they are.
    pub fn holds(&self) -> bool {
        self.held > 0
    }

    /// Waits no longer for what may follow: what is held ended as it seems.
    pub fn settle(&mut self) {
        for lane in self.lanes.values_mut().filter(|lane| !lane.held.is_empty()) {
            self.len -= lane.held.len() + lane.doubtful.len();
            lane.settle(&mut self.ended, &mut self.dropped);
        }
        self.held = 0;
    }

    /// What is still in flight, with its device.
    pub fn into_open(self) -> impl Iterator<Item = (u32, Open)> {
        self.lanes
            .into_iter()
            .flat_map(|((dev, _), lane)| lane.doubtful.into_iter().chain(lane.open).map(move |open| (dev, open)))
    }

    /// How many devices and requests are remembered.
    #[cfg(test)]
    pub fn sizes(&self) -> (usize, usize) {
        (self.lanes.len(), self.len)
    }
}
