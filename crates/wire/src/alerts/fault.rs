//! What a hub finds out about itself and its hosts beside their histograms.

use super::alert::Alert;
use super::state::{State, Turn};
use crate::cluster::HostFacts;
use latscope_event::{TimeLiteral, format_duration};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Certificates are reported so long before their end, nanoseconds.
const CERTIFICATE_NS: i64 = 14 * 86_400_000_000_000;
/// The queue of an agent is reported from this share on; it is thinned from four fifths on.
const QUEUE_SHARE: f64 = 0.5;

/// What can be wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The hub cannot write its journal.
    Journal,
    /// The clock of a host is off by more than an interval.
    Clock,
    /// The queue of an agent is half full.
    Queue,
    /// The certificate of the hub or of a host ends soon, or has ended.
    Certificate,
}

/// A fault of a host, or of the hub itself.
pub type Place = (Fault, Option<String>);

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 4] = [Fault::Journal, Fault::Clock, Fault::Queue, Fault::Certificate];

    /// The label `alertname`.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Journal => "journal cannot be written",
            Fault::Clock => "clock",
            Fault::Queue => "queue filling",
            Fault::Certificate => "certificate",
        }
    }

    fn severity(self) -> &'static str {
        if self == Fault::Journal { "page" } else { "warning" }
    }
}

/// What is wrong now, with what was found. The width of an interval is in nanoseconds, the time and the end of the hub's own
/// certificate in nanoseconds since the epoch.
pub fn faults(
    hosts: &[HostFacts],
    width_ns: u64,
    certificate_end_ns: Option<i64>,
    journal: Option<&str>,
    now_ns: i64,
) -> BTreeMap<Place, String> {
    let mut faults = BTreeMap::new();
    if let Some(why) = journal {
        faults.insert((Fault::Journal, None), why.to_string());
    }
    if let Some(finding) = certificate_end_ns.and_then(|end_ns| ending(end_ns, now_ns)) {
        faults.insert((Fault::Certificate, None), format!("the certificate of the hub {finding}"));
    }
    for host in hosts.iter().filter(|host| host.is_connected) {
        let place = |fault| (fault, Some(host.name.clone()));
        if let Some((offset_ns, _)) = host.clock.offset.filter(|(offset_ns, _)| offset_ns.unsigned_abs() > width_ns) {
            let side = if offset_ns > 0 { "behind" } else { "ahead of" };
            let by = format_duration(offset_ns.unsigned_abs());
            faults.insert(place(Fault::Clock), format!("its clock is {by} {side} the clock of the hub"));
        }
        if let Some((bytes, limit_bytes)) = host.queue {
            let share = bytes as f64 / limit_bytes.max(1) as f64;
            if share >= QUEUE_SHARE {
                faults.insert(place(Fault::Queue), format!("its queue is {:.0}% full", share * 100.0));
            }
        }
        if let Some(finding) = host.certificate_end_ns.and_then(|end_ns| ending(end_ns, now_ns)) {
            faults.insert(place(Fault::Certificate), format!("its certificate {finding}"));
        }
    }
    faults
}

fn ending(end_ns: i64, now_ns: i64) -> Option<String> {
    let left_ns = end_ns.saturating_sub(now_ns);
    let time = TimeLiteral::Unix(end_ns);
    match left_ns {
        ..=0 => Some(format!("expired at {time}")),
        1..CERTIFICATE_NS => Some(format!("expires at {time}, in {}", format_duration(left_ns.unsigned_abs()))),
        _ => None,
    }
}

/// The alert of a fault.
pub fn alert((fault, host): &Place, state: &State, turn: Turn, at_ns: i64) -> Alert {
    let (by, key): (&[String], Vec<String>) = (&["host".into()], host.iter().cloned().collect());
    let labels = BTreeMap::from([("severity".to_string(), fault.severity().to_string())]);
    let times = match turn {
        Turn::Fires(start_ns) => (start_ns, None),
        Turn::Resolves(start_ns) => (start_ns, Some(at_ns)),
    };
    Alert::new(fault.name(), (by, &key), (&labels, &BTreeMap::new()), &state.finding, times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClockState;

    #[test]
    fn faults_are_found_from_their_bounds_on() {
        const DAY_NS: i64 = 86_400_000_000_000;
        let now_ns = 1_700_000_000_000_000_000;
        let host = |offset_ns, queue, days: i64| HostFacts {
            name: "n1".into(),
            is_connected: true,
            clock: ClockState { offset: Some((offset_ns, 5)), is_synchronised: None },
            queue: Some(queue),
            certificate_end_ns: Some(now_ns + days * DAY_NS),
            ..HostFacts::default()
        };
        let find = |host: HostFacts, days: i64, journal| -> Vec<(&str, bool, String)> {
            let found = faults(&[host], 1_000_000_000, Some(now_ns + days * DAY_NS), journal, now_ns);
            found.into_iter().map(|((fault, host), finding)| (fault.name(), host.is_some(), finding)).collect()
        };
        assert_eq!(find(host(1_000_000_000, (49, 100), 15), 15, None), []);
        let found = find(host(-1_500_000_000, (50, 100), 13), -1, Some("no space"));
        let expected = [
            ("journal cannot be written", false, "no space"),
            ("clock", true, "its clock is 1.5s ahead of the clock of the hub"),
            ("queue filling", true, "its queue is 50% full"),
            ("certificate", false, "the certificate of the hub expired at 2023-11-13T22:13:20Z"),
            ("certificate", true, "its certificate expires at 2023-11-27T22:13:20Z, in "),
        ];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((name, has_host, finding), expected) in found.iter().zip(expected) {
            assert_eq!((*name, *has_host), (expected.0, expected.1));
            assert!(finding.starts_with(expected.2), "{finding}");
        }
        // Of a host that is gone, nothing is known.
        let gone = HostFacts { is_connected: false, ..host(9_000_000_000, (99, 100), 1) };
        assert_eq!(find(gone, 99, None), []);
    }
}
