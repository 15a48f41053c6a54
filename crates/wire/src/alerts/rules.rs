//! What a file of alerts says.

use super::fault::Fault;
use crate::Url;
use latscope_series::Threshold;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What is watched, and who hears of it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rules {
    /// Conditions, also those that are built in.
    pub alerts: Vec<Rule>,
    /// What is watched beside histograms.
    pub faults: Vec<Fault>,
    /// Objectives with their error budgets.
    pub slos: Vec<Slo>,
    /// Where alerts are sent.
    pub deliveries: Vec<Delivery>,
}

/// A condition on every group of some fields.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// The label `alertname`.
    pub name: String,
    /// Which groups count, in the language of filters.
    pub filter: Option<String>,
    /// One state for each of their values; none: one for the cluster.
    pub by: Vec<String>,
    /// What must hold.
    pub condition: Threshold,
    /// What ends it; `None`: that the condition does not hold.
    pub until: Option<Threshold>,
    /// How much time is judged at once, nanoseconds; rounded up to whole intervals. `None`: one interval.
    pub step_ns: Option<u64>,
    /// How long the condition must hold.
    pub hold: Hold,
    /// How long it must not hold before the alert is resolved, nanoseconds.
    pub keep_ns: u64,
    /// Steps with fewer hosts are not judged.
    pub quorum: Option<Quorum>,
    /// Whether waiting requests do not count at their age.
    pub done_only: bool,
    /// What follows when no host of a group has sent anything for five steps.
    pub on_no_data: OnNoData,
    /// Labels beside those of the group.
    pub labels: BTreeMap<String, String>,
    /// Texts for the reader.
    pub annotations: BTreeMap<String, String>,
    /// Every hub has it: fields that a hub does not have are left out of its groups.
    pub is_built_in: bool,
}

/// How long a condition must hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hold {
    /// So many nanoseconds.
    Time(u64),
    /// So many steps in a row.
    Steps(u32),
}

/// How many hosts are needed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Quorum {
    /// A share of those that are expected, from 0 to 1.
    Share(f64),
    /// A number.
    Count(u64),
}

/// What follows when there is no data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnNoData {
    /// An alert that fires goes on, one that does not stays so.
    #[default]
    Keep,
    /// It fires.
    Fire,
    /// It is resolved.
    Resolve,
}

/// An objective: so many of all events are faster than a bound, over a period.
#[derive(Clone, PartialEq, Debug)]
pub struct Slo {
    /// The label `alertname`.
    pub name: String,
    /// Which groups count, in the language of filters.
    pub filter: Option<String>,
    /// One budget for each of their values.
    pub by: Vec<String>,
    /// What is good, nanoseconds.
    pub below_ns: u64,
    /// The share that must be good, from 0 to 1.
    pub target: f64,
    /// Over how long, nanoseconds.
    pub period_ns: u64,
    /// Labels beside those of the group.
    pub labels: BTreeMap<String, String>,
}

/// Where alerts are sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// The second API of an Alertmanager.
    Alertmanager {
        /// Its address, without the path of the API.
        url: String,
        /// Certificates that are trusted, instead of those of the system.
        ca: Option<PathBuf>,
    },
    /// Anything that takes what an Alertmanager sends to a webhook.
    Webhook {
        /// The address.
        url: String,
        /// Certificates that are trusted, instead of those of the system.
        ca: Option<PathBuf>,
    },
    /// A program with its arguments, which reads the same from standard input.
    Command(Vec<String>),
}

impl Rules {
    /// The alerts that every hub has, unless a file has one of the same name or turns them off.
    pub fn built_in() -> Rules {
        let rules = [
            ("stall", "oldest > 5s", &["host", "device"][..], 0, "page"),
            ("host missing", "missing > 0", &["host"], 30_000_000_000, "page"),
            ("events lost", "lost > 0", &["host"], 0, "warning"),
        ];
        let rule = |(name, condition, by, hold_ns, severity): (_, _, &[&str], u64, &str)| {
            let mut rule = Rule::new(name, Threshold::parse_of_hub(condition).ok()?);
            rule.by = by.iter().map(ToString::to_string).collect();
            rule.is_built_in = true;
            rule.hold = Hold::Time(hold_ns);
            rule.labels.insert("severity".into(), severity.into());
            // Lost events come in bursts.
            rule.keep_ns = if name == "events lost" { 60_000_000_000 } else { 0 };
            Some(rule)
        };
        Rules { alerts: rules.into_iter().filter_map(rule).collect(), faults: Fault::ALL.into(), ..Rules::default() }
    }
}

impl Rule {
    /// A condition on the cluster, judged every interval.
    pub fn new(name: &str, condition: Threshold) -> Rule {
        Rule {
            name: name.into(),
            filter: None,
            by: Vec::new(),
            condition,
            until: None,
            step_ns: None,
            hold: Hold::Time(0),
            keep_ns: 0,
            quorum: None,
            done_only: false,
            on_no_data: OnNoData::Keep,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            is_built_in: false,
        }
    }
}

impl Delivery {
    /// Identifies it in the saved states.
    pub fn key(&self) -> String {
        match self {
            Delivery::Webhook { url, .. } => format!("webhook {url}"),
            other => other.to_string(),
        }
    }
}

/// For messages: the path of a webhook is its password, as a rule.
impl std::fmt::Display for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Delivery::Alertmanager { url, .. } => write!(f, "alertmanager {url}"),
            Delivery::Webhook { url, .. } => {
                write!(f, "webhook {}", Url::parse(url).map_or(String::new(), |url| url.server()))
            }
            Delivery::Command(words) => write!(f, "command {}", words.join(" ")),
        }
    }
}
