//! What a hub exports about itself: what came, its hosts with their agents, and its alerts; and what an agent says of itself.

use super::metrics::{
    AGENT_CONNECTED, AGENT_CPU, AGENT_LAG, AGENT_LOST, AGENT_QUEUE, AGENT_RESIDENT, ALERTS, CERTIFICATE_END,
    DUPLICATES, Labels, OFFSET, RECORDS, REFUSED, REMOVED, Reading, Value, label_name,
};
use crate::alerts::Active;
use crate::{Counters, HostFacts, Hub, Usage};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Most hosts and most alerts that have series of their own.
const SERIES_LIMIT: usize = 1000;

/// What is known of a hub now.
pub struct HubState {
    counters: Counters,
    /// Hosts with their clock offset, nanoseconds.
    offsets: Vec<(String, i64)>,
    /// When certificates end, nanoseconds since the epoch: that of the hub, and those of hosts.
    certificates: Vec<(Option<String>, i64)>,
    alerts: Arc<Active>,
    /// Hosts with an agent.
    agents: Vec<HostFacts>,
}

/// A number of a host, where it is known.
type Number = fn(&HostFacts) -> Option<f64>;

/// What an agent knows of itself, for who has no hub to ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AgentState {
    /// Bytes in its queue; `None` without hubs.
    pub queue_bytes: Option<u64>,
    /// What it takes itself.
    pub usage: Option<Usage>,
}

impl AgentState {
    /// As series that have these labels and count since this time, milliseconds since the epoch.
    pub fn readings(&self, own: &Labels, created_ms: i64) -> Vec<Reading> {
        let known = [
            (AGENT_QUEUE, self.queue_bytes.map(|bytes| bytes as f64)),
            (AGENT_CPU, self.usage.map(|usage| usage.cpu_ns as f64 / 1e9)),
            (AGENT_RESIDENT, self.usage.map(|usage| usage.resident_bytes as f64)),
        ];
        let reading = |metric, value| Reading { metric, labels: own.clone(), created_ms, value: Value::Number(value) };
        known.into_iter().filter_map(|(metric, value)| Some(reading(metric, value?))).collect()
    }
}

impl HubState {
    /// Of a hub with its alerts.
    pub fn new(hub: &Hub, alerts: Arc<Active>) -> HubState {
        let facts = hub.facts();
        let known = facts.iter().filter(|host| host.is_connected).take(SERIES_LIMIT);
        let offsets = known.clone().filter_map(|host| Some((host.name.clone(), host.clock.offset?.0))).collect();
        let of_hosts = known.filter_map(|host| Some((Some(host.name.clone()), host.certificate_end_ns?)));
        let certificates = hub.certificate_end_ns().map(|end_ns| (None, end_ns)).into_iter().chain(of_hosts).collect();
        let agents =
            facts.iter().filter(|host| !host.is_pushed && !host.has_left).take(SERIES_LIMIT).cloned().collect();
        HubState { counters: hub.counters(), offsets, certificates, alerts, agents }
    }

    /// As series that have these labels, too, and count since this time, milliseconds since the epoch.
    pub fn readings(&self, own: &Labels, created_ms: i64) -> Vec<Reading> {
        let mut readings = Vec::new();
        let mut add = |metric, more: &[(&str, &str)], value: f64| {
            let mut labels = own.clone();
            for (name, value) in more {
                let name = label_name(name);
                if labels.iter().all(|(known, _)| *known != name) {
                    labels.push((name, (*value).to_string()));
                }
            }
            labels.sort();
            readings.push(Reading { metric, labels, created_ms, value: Value::Number(value) });
        };
        let counters = &self.counters;
        add(RECORDS, &[], counters.records as f64);
        add(DUPLICATES, &[], counters.duplicates as f64);
        add(REMOVED, &[], counters.removed as f64);
        let refused = [("agent", counters.agents), ("malformed", counters.malformed), ("stranger", counters.strangers)];
        for (reason, count) in refused {
            add(REFUSED, &[("reason", reason)], count as f64);
        }
        for (host, offset_ns) in &self.offsets {
            add(OFFSET, &[("host", host)], *offset_ns as f64 / 1e9);
        }
        for (host, end_ns) in &self.certificates {
            let host: Vec<(&str, &str)> = host.iter().map(|host| ("host", host.as_str())).collect();
            add(CERTIFICATE_END, &host, (end_ns / 1_000_000_000) as f64);
        }
        // As in Prometheus, those of one identity are one.
        let mut known = BTreeSet::new();
        for (is_firing, alert) in self.alerts.alerts.iter().take(SERIES_LIMIT) {
            let state = if *is_firing { "firing" } else { "pending" };
            let labels = alert.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            let labels: Vec<(&str, &str)> = labels.chain([("alertstate", state)]).collect();
            if known.insert(labels.clone()) {
                add(ALERTS, &labels, 1.0);
            }
        }
        let numbers: [(usize, Number); 5] = [
            (AGENT_CONNECTED, |host| Some(f64::from(u8::from(host.is_connected)))),
            (AGENT_QUEUE, |host| host.queue.map(|(bytes, _)| bytes as f64)),
            (AGENT_LAG, |host| host.lag_ns.map(|lag_ns| lag_ns as f64 / 1e9)),
            (AGENT_CPU, |host| host.usage.map(|usage| usage.cpu_ns as f64 / 1e9)),
            (AGENT_RESIDENT, |host| host.usage.map(|usage| usage.resident_bytes as f64)),
        ];
        for (metric, number) in numbers {
            let known = self.agents.iter().filter_map(|host| Some((host, number(host)?)));
            known.for_each(|(host, number)| add(metric, &[("host", &host.name)], number));
        }
        for host in &self.agents {
            for (anomaly, count) in host.lost.iter() {
                add(AGENT_LOST, &[("host", &host.name), ("kind", anomaly.key())], count as f64);
            }
        }
        readings
    }
}

#[cfg(test)]
mod tests {
    use super::super::prometheus::Encoding;
    use super::*;
    use crate::alerts::Alert;
    use latscope_event::{Anomaly, Tally};
    use std::collections::BTreeMap;

    #[test]
    fn a_hub_is_seen_in_its_metrics() {
        let labels = BTreeMap::from([("alertname".to_string(), "stall".to_string()), ("device".into(), "sda".into())]);
        let alert = Alert { labels, annotations: BTreeMap::new(), start_ns: 0, end_ns: None };
        let alerts = Arc::new(Active { alerts: vec![(true, alert.clone()), (true, alert)], budgets: Vec::new() });
        let counters = Counters { records: 5, malformed: 2, ..Counters::default() };
        let certificates = vec![(None, 1_700_000_000_000_000_000), (Some("n1".into()), 1_800_000_000_000_000_000)];
        let mut lost = Tally::default();
        lost.add(Anomaly::DroppedIntervals, 3);
        let usage = Some(Usage { cpu_ns: 2_500_000_000, resident_bytes: 9 << 20 });
        let (name, queue, lag_ns) = ("n1".to_string(), Some((4096, 1 << 20)), Some(250_000_000));
        let agents = vec![HostFacts { name, is_connected: true, queue, lag_ns, usage, lost, ..HostFacts::default() }];
        let state = HubState { counters, offsets: vec![("n1".into(), -1_500_000_000)], certificates, alerts, agents };
        let readings = state.readings(&vec![("site".into(), "here".into())], 0);
        let text = String::from_utf8(Encoding::Text.encode(&readings)).unwrap();
        for line in [
            "latscope_hub_records_total{site=\"here\"} 5",
            "latscope_hub_duplicates_total{site=\"here\"} 0",
            "latscope_hub_refused_total{reason=\"malformed\",site=\"here\"} 2",
            "latscope_hub_clock_offset_seconds{host=\"n1\",site=\"here\"} -1.5",
            "latscope_hub_certificate_not_after_timestamp_seconds{site=\"here\"} 1700000000",
            "latscope_hub_certificate_not_after_timestamp_seconds{host=\"n1\",site=\"here\"} 1800000000",
            "latscope_agent_connected{host=\"n1\",site=\"here\"} 1",
            "latscope_agent_queue_bytes{host=\"n1\",site=\"here\"} 4096",
            "latscope_agent_lag_seconds{host=\"n1\",site=\"here\"} 0.25",
            "latscope_agent_cpu_seconds_total{host=\"n1\",site=\"here\"} 2.5",
            "latscope_agent_resident_bytes{host=\"n1\",site=\"here\"} 9437184",
            "latscope_agent_lost_total{host=\"n1\",kind=\"dropped_intervals\",site=\"here\"} 3",
            "ALERTS{alertname=\"stall\",alertstate=\"firing\",device=\"sda\",site=\"here\"} 1",
        ] {
            assert_eq!(text.matches(&format!("{line}\n")).count(), 1, "{line}\n{text}");
        }
    }
}
