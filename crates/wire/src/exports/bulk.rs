//! Elasticsearch and OpenSearch: a document for each group and interval, with fields of the type `histogram`.

use super::delta::Previous;
use super::metrics::{Distribution, Kind, Value};
use super::remote_write::Batch;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// The header of a request beside its length.
pub const HEADERS: [(&str, &str); 1] = [("Content-Type", "application/x-ndjson")];

/// A request for `_bulk`: lines of actions and documents. Sent again it changes nothing, as each document has an identity of its own.
pub fn encode(batch: &Batch, previous: &mut Previous) -> Vec<u8> {
    let mut documents = BTreeMap::<(i64, &super::metrics::Labels), Map<String, Json>>::new();
    for (metric, labels, points) in batch.series() {
        let mut add = |time_ms: i64, value: Json| {
            documents.entry((time_ms, labels)).or_default().insert(metric.dotted.into(), value);
        };
        if metric.kind == Kind::Histogram {
            for added in previous.added(metric.name, labels, points).iter().filter(|one| one.added.count > 0) {
                add(added.end_ms, histogram(&added.added));
            }
            continue;
        }
        for (time_ms, _, value) in points {
            match value {
                Value::Number(number) => add(*time_ms, json!(number)),
                Value::Distribution(ages) if ages.count > 0 => add(*time_ms, histogram(ages)),
                Value::Distribution(_) | Value::Ended => {}
            }
        }
    }
    let mut out = Vec::new();
    for ((time_ms, labels), fields) in documents {
        let mut document = Map::new();
        document.insert("@timestamp".into(), time_ms.into());
        document.extend(labels.iter().map(|(name, value)| (name.clone(), value.clone().into())));
        let identity = identity(time_ms, &document, fields.keys());
        document.extend(fields);
        for line in [json!({ "create": { "_id": identity } }), document.into()] {
            out.extend_from_slice(line.to_string().as_bytes());
            out.push(b'\n');
        }
    }
    out
}

/// Values ascending, in seconds: the middle of each bucket, by its logarithm.
fn histogram(distribution: &Distribution) -> Json {
    let per_octave = f64::from(distribution.schema).exp2();
    let value = |index: i32| ((f64::from(index) - 0.5) / per_octave).exp2();
    let values: Vec<f64> = distribution.exponential.iter().map(|&(index, _)| value(index)).collect();
    let counts: Vec<u64> = distribution.exponential.iter().map(|&(_, count)| count).collect();
    json!({ "values": values, "counts": counts })
}

/// Of the time, the labels and the names of the fields: FNV-1a.
fn identity<'a>(time_ms: i64, labels: &Map<String, Json>, fields: impl Iterator<Item = &'a String>) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |text: &str| {
        text.bytes().chain([0xff]).for_each(|byte| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    };
    for (name, value) in labels {
        add(name);
        add(&value.to_string());
    }
    fields.for_each(|field| add(field));
    format!("{time_ms}-{hash:016x}")
}

/// What an answer says of the documents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Taken {
    /// All are there.
    All,
    /// The server has no room for some now, and why.
    Later(String),
    /// So many are refused for ever, and why.
    Refused(usize, String),
}

/// Reads the body of an answer with status 200.
pub fn taken(body: &[u8]) -> Taken {
    let Ok(answer) = serde_json::from_slice::<Json>(body) else { return Taken::All };
    if answer["errors"] != true {
        return Taken::All;
    }
    let items = answer["items"].as_array().map_or(&[][..], Vec::as_slice);
    let (mut refused, mut why, mut later) = (0, String::new(), None);
    for item in items.iter().map(|item| &item["create"]) {
        let reason = || {
            let text = |name: &str| item["error"][name].as_str().unwrap_or_default().to_string();
            format!("{}: {}", text("type"), text("reason")).chars().take(200).collect::<String>()
        };
        match item["status"].as_u64() {
            // It is there already.
            Some(200..=299 | 409) | None => {}
            Some(429 | 500..) => later = Some(reason()),
            Some(_) => {
                refused += 1;
                why = reason();
            }
        }
    }
    match (later, refused) {
        (Some(why), _) => Taken::Later(why),
        (None, 0) => Taken::All,
        (None, count) => Taken::Refused(count, why),
    }
}

#[cfg(test)]
mod tests {
    use super::super::metrics::Layouts;
    use super::super::totals::{Totals, tests::closed};
    use super::*;

    #[test]
    fn documents_are_what_the_type_histogram_takes() {
        let layouts = Layouts { exponential: true, le: false, vmrange: false };
        let (mut totals, mut batch) = (Totals::new(&[("host".into(), "n1".into())], 0), Batch::default());
        for (at, values) in [(1, &[1_000_000u64, 2_000_000, 2_000_001][..]), (2, &[50_000_000])] {
            totals.add(&closed(at, false, values), &mut |totals, end_ms| {
                totals.changes(end_ms, layouts).into_iter().for_each(|(time_ms, reading)| batch.add(time_ms, reading));
            });
        }
        let encoded = encode(&batch, &mut Previous::default());
        assert_eq!(encoded, encode(&batch, &mut Previous::default()), "the same again has the same identities");
        let lines: Vec<Json> =
            String::from_utf8(encoded).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut counts = Vec::new();
        for pair in lines.chunks(2) {
            let (action, document) = (&pair[0]["create"], &pair[1]);
            assert!(action["_id"].as_str().unwrap().starts_with(&document["@timestamp"].to_string()));
            assert_eq!((&document["host"], &document["device"]), (&json!("n1"), &json!("sda")));
            let numbers = |name: &str| document["latscope.io.latency"][name].as_array().unwrap().clone();
            let (values, of_values) = (numbers("values"), numbers("counts"));
            assert!(values.is_sorted_by(|one, other| one.as_f64() < other.as_f64()) && values.len() == of_values.len());
            assert!(of_values.iter().all(|count| count.as_u64().is_some_and(|count| count > 0)));
            counts.push((
                document["@timestamp"].as_i64().unwrap(),
                of_values.iter().filter_map(Json::as_u64).sum::<u64>(),
            ));
            // Half a bucket of an eighth of an octave.
            let largest = values.last().unwrap().as_f64().unwrap();
            let exact = if document["@timestamp"] == 2000 { 2.000_001e-3 } else { 50e-3 };
            assert!((largest / exact).log2().abs() <= 1.0 / 16.0 + 1e-6, "{largest}");
        }
        assert_eq!(counts, [(2000, 3), (3000, 1)]);
    }

    #[test]
    fn answers_say_what_became_of_the_documents() {
        let item = |status: u64| json!({ "create": { "status": status, "error": { "type": "t", "reason": "r" } } });
        let answer = |statuses: &[u64]| {
            let items: Vec<Json> = statuses.iter().map(|&status| item(status)).collect();
            taken(json!({ "errors": true, "items": items }).to_string().as_bytes())
        };
        assert_eq!(taken(br#"{"errors":false,"items":[]}"#), Taken::All);
        assert_eq!(answer(&[201, 409]), Taken::All);
        assert_eq!(answer(&[201, 429, 400]), Taken::Later("t: r".into()));
        assert_eq!(answer(&[201, 400, 404]), Taken::Refused(2, "t: r".into()));
    }
}
