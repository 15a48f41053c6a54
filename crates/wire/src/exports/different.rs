//! Which host of a hub is not like the others, by the last minute of each.

use super::api::{Api, Query, labelled};
use super::http::Request;
use crate::{Data, Dictionary, Hello, Id, Kind, Record};
use latscope_event::{Field, parse_duration};
use latscope_series::{Different, HistogramSeries, Peers, Quantity, Weight, different};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The last minute is cut into so many parts, as many as a comparison has windows.
const PARTS: u64 = 5;
const PART_NS: u64 = 12_000_000_000;
/// An answer stands for so long at least, and for so many times of what it took: a hub has little time for pages.
const STANDS: Duration = Duration::from_secs(1);
const REST: u32 = 20;

/// The last answer.
#[derive(Default)]
pub(super) struct Kept(Mutex<Option<Answer>>);

struct Answer {
    parameters: Vec<(String, String)>,
    /// It stands until then.
    until: Instant,
    body: String,
}

impl Api<'_> {
    /// Each host against all others that share the labels that are asked for.
    pub(super) fn different(&self, request: &Request) -> Result<String, String> {
        let mut query = self.query(request, &["by", "where", "over"], &[])?;
        let over = request.parameter("over").map(|text| parse_duration(text).map_err(|error| format!("over: {error}")));
        let over_ns = over.transpose()?;
        let mut kept = self.kept.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = kept.as_ref()
            && answer.parameters == request.parameters
            && Instant::now() < answer.until
        {
            return Ok(answer.body.clone());
        }
        let started = Instant::now();
        let to_ns = self.hub.latest().1.map_or(0, |closed| (closed + 1).saturating_mul(query.width_ns));
        let series = series(&self.hub.recent(), to_ns, &mut query);
        let families: Vec<Value> = different(&series, 0, over_ns).iter().map(|peers| family(peers, &query)).collect();
        let from_ns = to_ns.saturating_sub_unsigned(PARTS * PART_NS);
        let body = json!({ "from_ns": from_ns, "to_ns": to_ns, "families": families }).to_string();
        let until = Instant::now() + STANDS.max(started.elapsed() * REST);
        *kept = Some(Answer { parameters: request.parameters.clone(), until, body: body.clone() });
        Ok(body)
    }
}

/// Hosts over the minute before a moment, nanoseconds since the epoch.
fn series(records: &[Arc<Record>], to_ns: i64, query: &mut Query) -> HistogramSeries {
    let fields = query.by.iter().map(|(name, _)| Field::from_name(name).unwrap_or(Field::Host));
    let by = std::iter::once(Field::Host).chain(fields).collect();
    let mut series = HistogramSeries::new(Quantity::Latency, Weight::Count, by, PART_NS);
    let mut runs = HashMap::<Id, (Hello, Dictionary)>::new();
    for record in records {
        // The hub took each of them, so they are whole.
        match record.kind() {
            Ok(Kind::Hello) => {
                if let Ok(hello) = Hello::parse(record.payload()) {
                    runs.insert(hello.run, (hello, Dictionary::default()));
                }
            }
            Ok(Kind::Dictionary) => {
                if let Ok(run) = Dictionary::run(record)
                    && let Some((hello, groups)) = runs.get_mut(&run)
                {
                    let _ = groups.add(record, hello.fields.len());
                }
            }
            Ok(Kind::Data) => {
                if let Ok(data) = Data::parse(record)
                    && let Some((hello, groups)) = runs.get(&data.head.run)
                {
                    add(&mut series, data, &hello.host, groups, to_ns, query);
                }
            }
            _ => {}
        }
    }
    series.pass(0..PARTS as i64);
    series
}

fn add(series: &mut HistogramSeries, data: Data, host: &str, groups: &Dictionary, to_ns: i64, query: &mut Query) {
    let start_ns = to_ns.saturating_sub_unsigned(PARTS * PART_NS);
    for (interval, row) in (data.head.start..).zip(data.rows) {
        let since_ns = interval.saturating_mul(data.head.width_ns as i64).saturating_sub(start_ns);
        let part = since_ns.div_euclid(PART_NS as i64);
        if !(0..PARTS as i64).contains(&part) {
            continue;
        }
        for (group, parts) in row.groups {
            let Some((labels, done)) = groups.get(group).zip(parts.done) else { continue };
            if query.passes(labels) {
                let labels = query.by.iter().map(|&(_, at)| labels[at].clone());
                // Its labels are as many as its fields.
                let _ = series.insert(part, std::iter::once(host.to_string()).chain(labels).collect(), &done);
            }
        }
    }
}

fn family(peers: &Peers, query: &Query) -> Value {
    let host = |peer: &Different| {
        json!({
            "name": peer.group[0],
            "count": peer.count,
            "share": peer.share,
            "slow_share": peer.slow_share,
            "p50_ns": peer.p50_ns,
            "p99_ns": peer.p99_ns,
            "score": peer.score,
            "is_marked": peer.is_marked,
            "area": peer.area,
        })
    };
    let mut family = Map::new();
    family.insert("labels".into(), labelled(query.by.iter().map(|(name, _)| name).zip(&peers.group)));
    family.insert("threshold_ns".into(), peers.threshold_ns.into());
    family.insert("spread_p50".into(), peers.spread.map(|(p50, _)| p50).into());
    family.insert("spread_p99".into(), peers.spread.map(|(_, p99)| p99).into());
    family.insert("hosts".into(), peers.peers.iter().map(host).collect());
    family.into()
}
