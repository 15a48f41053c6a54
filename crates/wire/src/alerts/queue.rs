//! What is to be sent to one destination, and when: an Alertmanager gets all that fires again and again, others each change once.

use super::alert::{self, Alert, Change};
use super::rules::Delivery;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const SECOND_NS: i64 = 1_000_000_000;
/// An Alertmanager resolves what it does not get again.
const AGAIN_NS: i64 = 30 * SECOND_NS;
/// So long it gets what is resolved.
const RESOLVED_NS: i64 = 900 * SECOND_NS;
/// The longest pause between two attempts: of an Alertmanager, of others.
const PAUSES_NS: (i64, i64) = (30 * SECOND_NS, 300 * SECOND_NS);
/// So many changes wait; of more, what is not known at the receiver yet is dropped.
const LIMIT: usize = 10_000;
/// Most changes that are delivered at once, each of another alert.
const AT_ONCE: usize = 64;
/// How many times a change is sent to a receiver that refuses it.
const REFUSALS: u32 = 10;

/// Why something was not delivered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Undelivered {
    /// A sentence without its full stop.
    pub why: String,
    /// The other side took it and does not want it, so that it may be this one change.
    pub is_refused: bool,
}

/// What is saved of a queue.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SavedQueue {
    waiting: VecDeque<Alert>,
    resolved: Vec<Alert>,
    /// Labels of alerts that fire and whose start was dropped, so that their end is not sent either.
    #[serde(default)]
    unsent: BTreeSet<BTreeMap<String, String>>,
}

/// The queue of a destination.
pub struct DeliveryQueue {
    /// The destination.
    pub delivery: Delivery,
    saved: SavedQueue,
    is_changed: bool,
    /// How many changes are on their way.
    busy: usize,
    next_ns: i64,
    failures: u32,
    /// Changes that will never be delivered, since somebody asked.
    dropped: u64,
}

impl DeliveryQueue {
    pub fn new(delivery: Delivery, saved: SavedQueue) -> DeliveryQueue {
        // After a start all that fires is sent at once.
        DeliveryQueue { delivery, saved, is_changed: true, busy: 0, next_ns: 0, failures: 0, dropped: 0 }
    }

    pub fn save(&self) -> SavedQueue {
        self.saved.clone()
    }

    /// Adds a change.
    pub fn add(&mut self, change: &Change) {
        let alert = &change.alert;
        if !self.is_alertmanager() {
            return self.add_to_waiting(alert);
        }
        self.is_changed = true;
        self.saved.resolved.retain(|other| other.labels != alert.labels);
        if alert.end_ns.is_some() {
            self.saved.resolved.push(alert.clone());
            let surplus = self.saved.resolved.len().saturating_sub(LIMIT);
            self.saved.resolved.drain(..surplus);
        }
    }

    /// Adds a change of a receiver that gets each once. Where too many wait, one that fires is dropped with its end: what is known at
    /// the receiver is always resolved there.
    fn add_to_waiting(&mut self, alert: &Alert) {
        if alert.end_ns.is_none() {
            self.saved.unsent.remove(&alert.labels);
            if self.saved.waiting.len() >= LIMIT {
                self.saved.unsent.insert(alert.labels.clone());
                self.dropped += 1;
                return;
            }
        } else if self.saved.unsent.remove(&alert.labels) {
            self.dropped += 1;
            return;
        } else if self.saved.waiting.len() >= LIMIT {
            let is_start = |other: &Alert| other.labels == alert.labels && other.end_ns.is_none();
            let start = self.saved.waiting.iter().skip(self.busy).rposition(is_start);
            if let Some(at) = start {
                self.saved.waiting.remove(self.busy + at);
                self.dropped += 2;
                return;
            }
        }
        self.saved.waiting.push_back(alert.clone());
    }

    /// The clock was set forward by this time, nanoseconds: what ended then ended as long ago as before.
    pub fn step_clock(&mut self, step_ns: i64) {
        self.next_ns = self.next_ns.saturating_add(step_ns);
        for alert in self.saved.resolved.iter_mut().chain(&mut self.saved.waiting) {
            let times = [&mut alert.start_ns].into_iter().chain(&mut alert.end_ns);
            times.for_each(|ns| *ns = ns.saturating_add(step_ns));
        }
        self.is_changed = true;
    }

    /// What is to be sent now, if anything is. [`DeliveryQueue::done`] must follow.
    pub fn due(&mut self, firing: &[Alert], now_ns: i64) -> Option<Vec<Vec<u8>>> {
        let is_waiting = self.failures > 0 && now_ns < self.next_ns;
        if self.busy > 0 || is_waiting {
            return None;
        }
        let bodies = if self.is_alertmanager() {
            self.saved.resolved.retain(|alert| alert.end_ns.is_some_and(|end_ns| now_ns - end_ns < RESOLVED_NS));
            let all: Vec<Alert> = firing.iter().chain(&self.saved.resolved).cloned().collect();
            if all.is_empty() || !(self.is_changed || now_ns >= self.next_ns) {
                return None;
            }
            (self.is_changed, self.busy) = (false, 1);
            vec![alert::for_alertmanager(&all, now_ns)]
        } else if now_ns < self.next_ns {
            return None;
        } else {
            self.bodies()
        };
        (!bodies.is_empty()).then_some(bodies)
    }

    /// The first changes that wait, each of another alert: of a webhook one message each, of a command one with all.
    fn bodies(&mut self) -> Vec<Vec<u8>> {
        let mut labels = BTreeSet::new();
        let first = self.saved.waiting.iter().take(AT_ONCE).take_while(|alert| labels.insert(&alert.labels));
        let first: Vec<Alert> = first.cloned().collect();
        self.busy = first.len();
        match (&first[..], self.is_command()) {
            ([], _) => Vec::new(),
            (all, true) => vec![alert::for_webhook(all)],
            (all, false) => all.iter().map(|one| alert::for_webhook(std::slice::from_ref(one))).collect(),
        }
    }

    /// What came of each message, as far as they were sent; whether something changed between success and failure.
    pub fn done(&mut self, results: &[Result<(), Undelivered>], now_ns: i64) -> bool {
        let busy = std::mem::take(&mut self.busy);
        let failure = results.iter().find_map(|result| result.as_ref().err());
        let is_new = (self.failures > 0) != failure.is_some();
        self.failures = if failure.is_some() { self.failures + 1 } else { 0 };
        if !self.is_alertmanager() {
            let is_given_up = self.failures >= REFUSALS;
            for at in (0..busy).rev() {
                let result = if self.is_command() { results.first() } else { results.get(at) };
                let is_dropped = matches!(result, Some(Err(undelivered)) if undelivered.is_refused && is_given_up);
                if is_dropped || matches!(result, Some(Ok(()))) {
                    let alert = self.saved.waiting.remove(at);
                    self.dropped += u64::from(is_dropped);
                    // Its end would be about something that the receiver does not know.
                    let unsent = alert.filter(|alert| is_dropped && alert.end_ns.is_none());
                    self.saved.unsent.extend(unsent.map(|alert| alert.labels));
                }
            }
            if is_given_up && failure.is_some_and(|undelivered| undelivered.is_refused) {
                self.failures = 0;
            }
        }
        let pause_ns = match (failure, self.is_alertmanager(), self.is_command()) {
            (None, true, _) => AGAIN_NS,
            (None, _, true) => SECOND_NS,
            (None, ..) => 0,
            (Some(_), is_alertmanager, _) => {
                let most = if is_alertmanager { PAUSES_NS.0 } else { PAUSES_NS.1 };
                (SECOND_NS << self.failures.saturating_sub(1).min(16)).min(most)
            }
        };
        self.next_ns = now_ns + pause_ns;
        self.is_changed |= failure.is_some();
        is_new
    }

    /// How many changes were dropped since the last call.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// Whether something is on its way.
    pub fn is_busy(&self) -> bool {
        self.busy > 0
    }

    fn is_command(&self) -> bool {
        matches!(self.delivery, Delivery::Command(_))
    }

    fn is_alertmanager(&self) -> bool {
        matches!(self.delivery, Delivery::Alertmanager { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn alert(name: &str, end: Option<i64>) -> Alert {
        let labels = BTreeMap::from([("alertname".to_string(), name.to_string())]);
        Alert { labels, annotations: BTreeMap::new(), start_ns: 0, end_ns: end.map(|end| end * SECOND_NS) }
    }

    fn change(name: &str, at: i64, ends: bool) -> Change {
        Change { at_ns: at * SECOND_NS, alert: alert(name, ends.then_some(at)) }
    }

    fn names(bodies: &[Vec<u8>]) -> Vec<String> {
        let alerts = |body: &Vec<u8>| {
            let body: serde_json::Value = serde_json::from_slice(body).unwrap();
            body.as_array().cloned().unwrap_or_else(|| body["alerts"].as_array().unwrap().clone())
        };
        let list: Vec<serde_json::Value> = bodies.iter().flat_map(alerts).collect();
        list.iter().map(|alert| alert["labels"]["alertname"].as_str().unwrap().to_string()).collect()
    }

    #[test]
    fn an_alertmanager_gets_all_again() {
        let delivery = Delivery::Alertmanager { url: "http://x".into(), ca: None };
        let mut queue = DeliveryQueue::new(delivery, SavedQueue::default());
        assert_eq!(queue.due(&[], 0), None, "nothing fires");
        queue.add(&change("a", 1, false));
        let firing = [alert("a", None)];
        assert_eq!(names(&queue.due(&firing, SECOND_NS).unwrap()), ["a"]);
        assert_eq!(queue.due(&firing, 2 * SECOND_NS), None, "one at a time");
        queue.done(&[Ok(())], 2 * SECOND_NS);
        assert_eq!(queue.due(&firing, 31 * SECOND_NS), None);
        assert!(queue.due(&firing, 32 * SECOND_NS).is_some());
        queue.done(&[Ok(())], 32 * SECOND_NS);
        queue.add(&change("a", 40, true));
        assert_eq!(names(&queue.due(&[], 40 * SECOND_NS).unwrap()), ["a"]);
        let failed = Err(Undelivered { why: "connection refused".into(), is_refused: false });
        assert!(queue.done(&[failed], 40 * SECOND_NS));
        // What is resolved is sent for a quarter of an hour, over a restart, too.
        let mut queue = DeliveryQueue::new(queue.delivery.clone(), queue.save());
        assert!(queue.due(&[], 900 * SECOND_NS).is_some());
        queue.done(&[Ok(())], 900 * SECOND_NS);
        assert_eq!(queue.due(&[], 960 * SECOND_NS), None);
    }

    #[test]
    fn a_webhook_gets_each_change_in_order() {
        let delivery = Delivery::Webhook { url: "http://x".into(), ca: None };
        let mut queue = DeliveryQueue::new(delivery.clone(), SavedQueue::default());
        for (name, ends) in [("a", false), ("b", false), ("c", false), ("a", true), ("b", true)] {
            queue.add(&change(name, 1, ends));
        }
        // At once, what is of different alerts; what fails is sent again before its end.
        assert_eq!(names(&queue.due(&[], 0).unwrap()), ["a", "b", "c"]);
        let failed = |is_refused| Err(Undelivered { why: "no".into(), is_refused });
        assert!(queue.done(&[Ok(()), failed(false)], 0));
        assert_eq!(queue.due(&[], 0), None);
        let mut now_ns = SECOND_NS;
        assert_eq!(names(&queue.due(&[], now_ns).unwrap()), ["b", "c", "a"]);
        let mut pauses = Vec::new();
        for _ in 0..12 {
            queue.done(&[failed(false)], now_ns);
            let start_ns = now_ns;
            while queue.due(&[], now_ns).is_none() {
                now_ns += SECOND_NS / 2;
            }
            pauses.push((now_ns - start_ns) / SECOND_NS);
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 300]);
        let mut queue = DeliveryQueue::new(delivery, queue.save());
        // Who refuses one change ten times gets the next, and no end of what was refused.
        for _ in 0..REFUSALS {
            now_ns += 301 * SECOND_NS;
            assert_eq!(names(&queue.due(&[], now_ns).unwrap())[0], "b");
            queue.done(&[failed(true)], now_ns);
        }
        assert_eq!(queue.take_dropped(), 1);
        queue.add(&change("d", 9, false));
        now_ns += 301 * SECOND_NS;
        assert_eq!(names(&queue.due(&[], now_ns).unwrap()), ["c", "a", "b", "d"]);
    }

    #[test]
    fn what_is_dropped_is_dropped_with_its_end() {
        let delivery = Delivery::Command(vec!["true".into()]);
        let mut queue = DeliveryQueue::new(delivery.clone(), SavedQueue::default());
        let name = |at: usize| format!("a{at}");
        for at in 0..LIMIT + 400 {
            queue.add(&change(&name(at), 1, false));
        }
        assert_eq!((queue.take_dropped(), queue.saved.waiting.len()), (400, LIMIT));
        // One message with many alerts.
        let due = queue.due(&[], 0).unwrap();
        assert_eq!((due.len(), names(&due).len()), (1, AT_ONCE));
        queue.done(&[Ok(())], 0);
        // Of those that the receiver knows, the ends are kept; of others none, also after a restart.
        let mut queue = DeliveryQueue::new(delivery, queue.save());
        for at in 0..LIMIT + 400 {
            queue.add(&change(&name(at), 2, true));
        }
        let waiting = queue.saved.waiting.clone();
        let ends = |alert: &Alert| alert.end_ns.is_some();
        let place = |at: usize, is_end: bool| {
            waiting.iter().position(|alert| alert.labels["alertname"] == name(at) && ends(alert) == is_end)
        };
        for at in (0..LIMIT + 400).step_by(97).chain(0..70) {
            let (start, end) = (place(at, false), place(at, true));
            assert!(
                if at < AT_ONCE { end.is_some() } else { start.is_some() || end.is_none() },
                "{at}: {start:?} {end:?}"
            );
        }
        assert!(waiting.len() <= LIMIT && queue.take_dropped() > 0);
    }
}
