//! An alert as others see it, and as JSON: for an Alertmanager, and for webhooks and commands.

use crate::Url;
use latscope_event::TimeLiteral;
use latscope_series::HistogramSeries;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// An alert ends so long after it was sent, unless it is sent again, nanoseconds.
const VALID_NS: i64 = 120_000_000_000;

/// One alert, as others see it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Alert {
    /// What it is called: its name, the values of its group, and those of its rule.
    pub labels: BTreeMap<String, String>,
    /// Texts for the reader; `summary` says what was found.
    pub annotations: BTreeMap<String, String>,
    /// Since when its condition holds, nanoseconds since the epoch.
    pub start_ns: i64,
    /// Since when it is resolved; `None`: it fires.
    pub end_ns: Option<i64>,
}

/// An alert fires or is resolved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// When, by the intervals, nanoseconds since the epoch.
    pub at_ns: i64,
    /// What.
    pub alert: Alert,
}

impl Alert {
    /// The alert of a group; a resolved one has an end. Both times are nanoseconds since the epoch.
    pub fn new(
        name: &str,
        group: (&[String], &[String]),
        more: (&BTreeMap<String, String>, &BTreeMap<String, String>),
        finding: &str,
        (start_ns, end_ns): (i64, Option<i64>),
    ) -> Alert {
        let ((by, key), (labels, annotations)) = (group, more);
        let values = by.iter().zip(key).filter(|(_, value)| *value != HistogramSeries::NO_VALUE);
        let mut all: BTreeMap<String, String> =
            values.clone().map(|(name, value)| (name.clone(), value.clone())).collect();
        all.extend(labels.clone());
        all.insert("alertname".into(), name.into());
        let group: Vec<String> = values.map(|(name, value)| format!("{name} {value}")).collect();
        let place = if group.is_empty() { String::new() } else { format!(" ({})", group.join(", ")) };
        let mut annotations = annotations.clone();
        annotations.insert("summary".into(), format!("{name}{place}: {finding}"));
        Alert { labels: all, annotations, start_ns, end_ns }
    }
}

impl Alert {
    /// Where to look at it, by its annotation `link`; empty without one, as an Alertmanager refuses other texts than addresses.
    fn link(&self) -> &str {
        self.annotations.get("link").map_or("", |link| if Url::parse(link).is_ok() { link } else { "" })
    }
}

/// What an Alertmanager takes.
pub fn for_alertmanager(alerts: &[Alert], now_ns: i64) -> Vec<u8> {
    let alert = |alert: &Alert| {
        json!({
            "labels": alert.labels,
            "annotations": alert.annotations,
            "startsAt": time(alert.start_ns),
            "endsAt": time(alert.end_ns.unwrap_or(now_ns + VALID_NS)),
            "generatorURL": alert.link(),
        })
    };
    Value::from(alerts.iter().map(alert).collect::<Vec<_>>()).to_string().into_bytes()
}

/// What an Alertmanager sends to a webhook, version 4, of alerts.
pub fn for_webhook(alerts: &[Alert]) -> Vec<u8> {
    let common = |texts: &dyn Fn(&Alert) -> &BTreeMap<String, String>| -> BTreeMap<String, String> {
        let mut common = alerts.first().map(|alert| texts(alert).clone()).unwrap_or_default();
        common.retain(|name, text| alerts.iter().all(|alert| texts(alert).get(name) == Some(text)));
        common
    };
    let labels = common(&|alert| &alert.labels);
    let group: BTreeMap<&String, &String> = labels.iter().filter(|(name, _)| *name == "alertname").collect();
    let status = |is_firing: bool| if is_firing { "firing" } else { "resolved" };
    let alert = |alert: &Alert| {
        json!({
            "status": status(alert.end_ns.is_none()),
            "labels": alert.labels,
            "annotations": alert.annotations,
            "startsAt": time(alert.start_ns),
            "endsAt": alert.end_ns.map_or("0001-01-01T00:00:00Z".into(), time),
            "generatorURL": alert.link(),
            "fingerprint": fingerprint(&alert.labels),
        })
    };
    json!({
        "version": "4",
        "groupKey": format!("latscope:{}", fingerprint(&labels)),
        "truncatedAlerts": 0,
        "status": status(alerts.iter().any(|alert| alert.end_ns.is_none())),
        "receiver": "latscope",
        "groupLabels": group,
        "commonLabels": labels,
        "commonAnnotations": common(&|alert| &alert.annotations),
        "externalURL": "",
        "alerts": alerts.iter().map(alert).collect::<Vec<_>>(),
    })
    .to_string()
    .into_bytes()
}

fn time(unix_ns: i64) -> String {
    TimeLiteral::Unix(unix_ns).to_string()
}

/// The identity of a set of labels, as Prometheus computes it: FNV-1a over names and values.
fn fingerprint(labels: &BTreeMap<String, String>) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    for (name, value) in labels {
        name.bytes().chain([0xff]).chain(value.bytes()).chain([0xff]).for_each(&mut add);
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alert(end_ns: Option<i64>) -> Alert {
        let texts = |texts: &[(&str, &str)]| texts.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
        let labels = texts(&[("alertname", "stall"), ("device", "sda"), ("severity", "page")]);
        Alert { labels, annotations: texts(&[("summary", "oldest = 6s")]), start_ns: 1_700_000_000_000_000_000, end_ns }
    }

    #[test]
    fn an_alert_that_fires_ends_later_unless_it_is_sent_again() {
        let now_ns = 1_700_000_010_500_000_000;
        let sent: Value =
            serde_json::from_slice(&for_alertmanager(&[alert(None), alert(Some(now_ns))], now_ns)).unwrap();
        assert_eq!(sent[0]["startsAt"], "2023-11-14T22:13:20Z");
        assert_eq!(
            (&sent[0]["endsAt"], &sent[1]["endsAt"]),
            (&json!("2023-11-14T22:15:30.5Z"), &json!("2023-11-14T22:13:30.5Z"))
        );
        assert_eq!(sent[0]["labels"]["device"], "sda");
        let webhook: Value = serde_json::from_slice(&for_webhook(&[alert(None)])).unwrap();
        assert_eq!((&webhook["status"], &webhook["version"]), (&json!("firing"), &json!("4")));
        let mut other = alert(Some(now_ns));
        other.labels.insert("device".into(), "sdb".into());
        let both: Value = serde_json::from_slice(&for_webhook(&[alert(None), other])).unwrap();
        assert_eq!((&both["status"], &both["alerts"][1]["status"]), (&json!("firing"), &json!("resolved")));
        assert_eq!(both["commonLabels"], json!({ "alertname": "stall", "severity": "page" }));
        assert_eq!(webhook["alerts"][0]["endsAt"], "0001-01-01T00:00:00Z");
        for (link, sent) in [("https://hub.example.org:7791/", "https://hub.example.org:7791/"), ("see the wiki", "")] {
            let mut alert = alert(None);
            alert.annotations.insert("link".into(), link.into());
            let read = |body: Vec<u8>| serde_json::from_slice::<Value>(&body).unwrap();
            let one = std::slice::from_ref(&alert);
            let (sent_there, sent_here) = (read(for_alertmanager(one, now_ns)), read(for_webhook(one)));
            assert_eq!(
                (&sent_there[0]["generatorURL"], &sent_here["alerts"][0]["generatorURL"]),
                (&json!(sent), &json!(sent))
            );
        }
    }

    #[test]
    fn fingerprints_are_those_of_prometheus() {
        // An Alertmanager 0.25 gave this one to an alert with these labels.
        let labels = BTreeMap::from([("alertname".to_string(), "stall".to_string()), ("host".into(), "n1".into())]);
        assert_eq!(fingerprint(&labels), "a6f49978bca25397");
        assert_eq!(fingerprint(&BTreeMap::new()), "cbf29ce484222325");
    }
}
