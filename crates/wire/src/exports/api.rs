//! What a hub answers to those who ask by HTTP: its state, hosts, groups, alerts, budgets and series, as JSON.

use super::different::Kept;
use super::http::{Request, Response};
use crate::alerts::{Active, Filters, Predicate};
use crate::closed::Groups;
use crate::cluster::IntervalState;
use crate::{HostFacts, Hub};
use latscope_event::{TimeLiteral, parse_duration};
use latscope_histogram::{Rule, Sparse};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The longest answer, bytes.
const ANSWER_BYTES: usize = 32 << 20;
/// How many intervals are taken from the hub at a time.
const CHUNK: usize = 60;
/// What is answered if nothing else is asked for, nanoseconds.
const USUAL_NS: i64 = 300_000_000_000;
const QUANTILES: [(&str, f64); 4] = [("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p99_9_ns", 0.999)];

/// Answers about a hub.
pub struct Api<'a> {
    pub(super) hub: &'a Hub,
    active: &'a (dyn Fn() -> Arc<Active> + Sync),
    filters: &'a Filters,
    pub(super) kept: Kept,
}

/// What of the intervals is asked for.
pub(super) struct Query {
    /// Names of the fields by which groups are merged, and their positions.
    pub by: Vec<(String, usize)>,
    picks: Option<Predicate>,
    /// How many intervals are merged into one.
    pub step: i64,
    /// Width of a step, nanoseconds.
    pub step_ns: i64,
    /// Width of an interval, nanoseconds.
    pub width_ns: i64,
    with_buckets: bool,
}

impl<'a> Api<'a> {
    /// About a hub, with what is known of its alerts, and what filters mean for groups.
    pub fn new(hub: &'a Hub, active: &'a (dyn Fn() -> Arc<Active> + Sync), filters: &'a Filters) -> Api<'a> {
        Api { hub, active, filters, kept: Kept::default() }
    }

    /// The answer to a request; `None` for a path that is not known.
    pub fn answer(&self, request: &Request, now_ns: i64) -> Option<Response> {
        let found = match request.path.as_str() {
            "/api/v1/status" => Ok(self.status(now_ns).to_string()),
            "/api/v1/hosts" => Ok(json!({ "hosts": self.hosts() }).to_string()),
            "/api/v1/groups" => Ok(self.groups().to_string()),
            "/api/v1/alerts" => Ok(json!({ "alerts": self.alerts() }).to_string()),
            "/api/v1/slo" => Ok(json!({ "slos": self.active().budgets }).to_string()),
            "/api/v1/series" => self.series(request, now_ns),
            "/api/v1/different" => self.different(request),
            _ => return None,
        };
        Some(match found {
            Ok(body) => Response::new("200 OK", "application/json", body.into_bytes()),
            Err(why) => {
                Response::new("400 Bad Request", "application/json", json!({ "error": why }).to_string().into_bytes())
            }
        })
    }

    fn active(&self) -> Arc<Active> {
        (self.active)()
    }

    pub(super) fn status(&self, now_ns: i64) -> Value {
        let (width_ns, fields) = self.hub.shape().unwrap_or_default();
        let (facts, counters) = (self.hub.facts(), self.hub.counters());
        let missing: Vec<&str> = facts.iter().filter(|host| host.is_missing).map(|host| host.name.as_str()).collect();
        let (_, closed) = self.hub.latest();
        let latest = closed.and_then(|closed| self.hub.states(closed, closed + 1, 1, false).pop());
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "time_ns": now_ns,
            "width_ns": width_ns,
            "fields": fields,
            "last_closed_ns": latest.as_ref().map(|state| state.interval * width_ns as i64),
            "hosts": latest.as_ref().map_or(0, |state| state.hosts),
            "missing": missing,
            "connected": facts.iter().filter(|host| host.is_connected).count(),
            "certificate_end_ns": self.hub.certificate_end_ns(),
            "records": counters.records,
            "duplicates": counters.duplicates,
            "refused": { "agent": counters.agents, "malformed": counters.malformed, "stranger": counters.strangers },
        })
    }

    pub(super) fn hosts(&self) -> Vec<Value> {
        let width_ns = self.hub.shape().map_or(1, |(width_ns, _)| width_ns as i64);
        let host = |host: &HostFacts| {
            json!({
                "name": host.name,
                "is_connected": host.is_connected,
                "has_ended": host.has_left,
                "is_missing": host.is_missing,
                "last_interval_ns": host.last.map(|last| last.saturating_mul(width_ns)),
                "lag_ns": host.lag_ns,
                "clock_offset_ns": host.clock.offset.map(|(offset_ns, _)| offset_ns),
                "clock_error_ns": host.clock.offset.map(|(_, error_ns)| error_ns),
                "is_clock_synchronised": host.clock.is_synchronised,
                "queue_bytes": host.queue.map(|(bytes, _)| bytes),
                "queue_limit_bytes": host.queue.map(|(_, limit_bytes)| limit_bytes),
                "certificate_end_ns": host.certificate_end_ns,
            })
        };
        self.hub.facts().iter().map(host).collect()
    }

    fn groups(&self) -> Value {
        let (_, fields) = self.hub.shape().unwrap_or_default();
        let groups: Vec<Value> = self.hub.labels().iter().map(|labels| labelled(fields.iter().zip(labels))).collect();
        json!({ "fields": fields, "groups": groups })
    }

    pub(super) fn alerts(&self) -> Vec<Value> {
        let alert = |(is_firing, alert): &(bool, crate::alerts::Alert)| {
            json!({
                "state": if *is_firing { "firing" } else { "pending" },
                "labels": alert.labels,
                "annotations": alert.annotations,
                "start_ns": alert.start_ns,
            })
        };
        self.active().alerts.iter().map(alert).collect()
    }

    /// What a request for intervals asks for: all fields, unless it names some.
    pub(super) fn query_intervals(&self, request: &Request) -> Result<Query, String> {
        let (_, fields) = self.hub.shape().unwrap_or_default();
        self.query(request, &["from", "to", "step", "by", "where", "buckets", "format"], &fields)
    }

    /// What a request asks for that may have these parameters, grouped by these fields unless it names others.
    pub(super) fn query(&self, request: &Request, known: &[&str], usual: &[String]) -> Result<Query, String> {
        for (at, (name, _)) in request.parameters.iter().enumerate() {
            if request.parameters[..at].iter().any(|(other, _)| other == name) {
                return Err(format!("{name} is given twice"));
            }
            if !known.contains(&name.as_str()) {
                return Err(format!("{name} is not a parameter; they are {}", known.join(", ")));
            }
        }
        if request.parameter("format").is_some_and(|format| format != "json") {
            return Err("format: only json is written".into());
        }
        let with_buckets = match request.parameter("buckets") {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => return Err(format!("buckets: {other} is neither true nor false")),
        };
        let (width_ns, fields) = self.hub.shape().ok_or("no agent has connected yet")?;
        let position = |name: &str| {
            let at = fields.iter().position(|field| field == name);
            at.map(|at| (name.to_string(), at))
                .ok_or_else(|| format!("by: the groups of this hub have no {name}; they have {}", fields.join(", ")))
        };
        let by = match request.parameter("by") {
            None => usual.iter().map(|name| position(name)).collect::<Result<_, _>>()?,
            Some(names) => names.split(',').filter(|name| !name.is_empty()).map(position).collect::<Result<_, _>>()?,
        };
        let picks = request.parameter("where").filter(|text| !text.is_empty());
        let picks = picks.map(|text| (self.filters)(text, &fields).map_err(|why| format!("where: {why}")));
        let step_ns = request.parameter("step").map_or(Ok(width_ns), |text| {
            let step_ns = parse_duration(text).map_err(|error| format!("step: {error}"))?;
            let is_multiple = step_ns > 0 && step_ns.is_multiple_of(width_ns);
            is_multiple.then_some(step_ns).ok_or_else(|| format!("step: a multiple of {width_ns} ns is needed"))
        })?;
        Ok(Query {
            by,
            picks: picks.transpose()?,
            step: (step_ns / width_ns) as i64,
            step_ns: step_ns as i64,
            width_ns: width_ns as i64,
            with_buckets,
        })
    }

    fn series(&self, request: &Request, now_ns: i64) -> Result<String, String> {
        let mut query = self.query_intervals(request)?;
        let time = |name: &str, usual_ns: i64| {
            request.parameter(name).map_or(Ok(usual_ns), |text| time_ns(text).map_err(|why| format!("{name}: {why}")))
        };
        let to_ns = time("to", now_ns)?;
        let from_ns = time("from", to_ns.saturating_sub(USUAL_NS))?;
        let mut next = from_ns.div_euclid(query.step_ns) * query.step;
        let end = to_ns.saturating_add(query.width_ns - 1).div_euclid(query.width_ns);
        let (_, closed) = self.hub.latest();
        let mut body = format!("{{\"width_ns\":{},\"intervals\":[", query.step_ns);
        let (mut pending, mut count) = (Vec::<IntervalState>::new(), 0);
        loop {
            let states = self.hub.states(next, end, CHUNK, true);
            let is_over = states.len() < CHUNK;
            next = states.last().map_or(next, |state| state.interval + 1);
            pending.extend(states);
            while let Some(step) = pending.first().map(|state| state.interval.div_euclid(query.step)) {
                let of_step = pending.iter().take_while(|state| state.interval.div_euclid(query.step) == step).count();
                if of_step == pending.len() && !is_over {
                    break;
                }
                let states: Vec<IntervalState> = pending.drain(..of_step).collect();
                body.push_str(if count > 0 { "," } else { "" });
                body.push_str(&query.json(&states, closed).to_string());
                count += 1;
                if body.len() > ANSWER_BYTES {
                    return Err("the answer is too long; ask for a longer step or less time".into());
                }
            }
            if is_over {
                return Ok(body + "]}");
            }
        }
    }
}

impl Query {
    /// Whether a step is closed, by the last interval that is.
    pub fn is_closed(&self, states: &[IntervalState], closed: Option<i64>) -> bool {
        let end = states.last().map_or(i64::MAX, |state| (state.interval.div_euclid(self.step) + 1) * self.step);
        states.iter().all(|state| state.is_closed) && closed.is_some_and(|closed| end <= closed + 1)
    }

    /// The intervals of a step; the last interval that is closed says whether it is.
    pub fn json(&mut self, states: &[IntervalState], closed: Option<i64>) -> Value {
        let start = states.first().map_or(0, |state| state.interval.div_euclid(self.step));
        let mut missing: Vec<&str> = states.iter().flat_map(|state| &state.missing).map(String::as_str).collect();
        missing.sort_unstable();
        missing.dedup();
        let hosts = states.iter().map(|state| state.hosts).min().unwrap_or(0);
        let done = states.iter().flat_map(|state| &state.done);
        let groups = self.merged(done).into_iter().map(|(labels, sum)| self.group(&labels, &sum));
        json!({
            "time_ns": start * self.step_ns,
            "is_closed": self.is_closed(states, closed),
            "revision": states.iter().map(|state| state.revision).sum::<u32>(),
            "hosts": hosts,
            "missing": missing,
            "lost": states.iter().map(|state| state.lost).sum::<u64>(),
            "groups": groups.collect::<Vec<_>>(),
        })
    }

    /// What waits, merged as histograms are.
    pub fn waiting(&mut self, ages: &Groups) -> Vec<Value> {
        let merged = self.merged(ages.iter());
        let group = |(labels, ages): (Vec<String>, Sparse)| {
            let (count, oldest_ns) = (ages.totals().count, ages.totals().max);
            json!({ "labels": self.labels(&labels), "count": count, "oldest_ns": oldest_ns })
        };
        merged.into_iter().map(group).collect()
    }

    /// Whether a group is asked for.
    pub fn passes(&mut self, labels: &[String]) -> bool {
        self.picks.as_mut().is_none_or(|picks| picks(labels))
    }

    fn merged<'b>(
        &mut self,
        groups: impl Iterator<Item = &'b (Arc<[String]>, Sparse)>,
    ) -> BTreeMap<Vec<String>, Sparse> {
        let mut merged = BTreeMap::<Vec<String>, Sparse>::new();
        for (labels, histogram) in groups {
            if !self.passes(labels) {
                continue;
            }
            let labels = self.by.iter().map(|&(_, at)| labels[at].clone()).collect();
            merged.entry(labels).and_modify(|sum| sum.merge(histogram)).or_insert_with(|| histogram.clone());
        }
        merged
    }

    fn labels(&self, labels: &[String]) -> Value {
        labelled(self.by.iter().map(|(name, _)| name).zip(labels))
    }

    fn group(&self, labels: &[String], sum: &Sparse) -> Value {
        let totals = sum.totals();
        let mut group = Map::new();
        group.insert("labels".into(), self.labels(labels));
        group.insert("count".into(), totals.count.into());
        // More than other readers of JSON take as a number.
        group.insert("sum_ns".into(), totals.sum.to_string().into());
        group.insert("min_ns".into(), totals.min.into());
        group.insert("max_ns".into(), totals.max.into());
        group.insert("bytes".into(), totals.bytes.into());
        let quantiles = sum.quantiles(&QUANTILES.map(|(_, quantile)| quantile), Rule::Interpolated);
        for ((name, _), value) in QUANTILES.iter().zip(quantiles.unwrap_or_default()) {
            group.insert((*name).into(), value.into());
        }
        if self.with_buckets {
            group.insert("grid".into(), sum.grid().power().into());
            group.insert("k".into(), sum.indices().into());
            group.insert("n".into(), sum.counts().into());
        }
        group.into()
    }
}

pub(super) fn labelled<'b>(labels: impl Iterator<Item = (&'b String, &'b String)>) -> Value {
    labels.map(|(name, value)| (name.clone(), Value::from(value.clone()))).collect::<Map<_, _>>().into()
}

/// Nanoseconds since the epoch, as a number or as a time such as `2026-11-23T08:00:00Z`.
fn time_ns(text: &str) -> Result<i64, String> {
    if let Ok(time_ns) = text.parse() {
        return Ok(time_ns);
    }
    match TimeLiteral::parse(text)? {
        TimeLiteral::Unix(time_ns) => Ok(time_ns),
        _ => Err(format!("{text} is not a time such as 2026-11-23T08:00:00Z")),
    }
}
