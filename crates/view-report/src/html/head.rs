//! What the data of a report begin with: JSON that names attributes and values, the clock, and what is missing.

use super::ReportOptions;
use super::encode::STREAMS;
use latscope_event::{Context, Field, FieldType, Severity, Unfinished};
use latscope_series::explain::{Attribute, Condition, Spot, SpotKind, filter_of};
use latscope_series::{CUBE_ROWS, Cube, CubeAttribute, CubeKey, CubeValue};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// As many unfinished requests are listed.
const UNFINISHED: usize = 100;
/// As many groups of them are listed.
const WAITERS: usize = 12;
/// As many stretches with losses are listed.
const LOSSES: usize = 1000;

/// Where the first column starts, nanoseconds on the clock of the trace; `None` where there is no column.
pub fn start_ns(cube: &Cube) -> Option<i64> {
    let width_ns = i64::try_from(cube.width_ns).unwrap_or(i64::MAX);
    cube.range().map(|(first, _)| first.saturating_mul(width_ns))
}

pub fn head(cube: &Cube, contexts: &[Context], options: &ReportOptions, lengths: Vec<usize>) -> String {
    let context = Context::merged(contexts);
    let start_ns = start_ns(cube);
    let trace_start_ns = contexts.iter().filter_map(Context::trace_start_ns).min().or(start_ns).unwrap_or(0);
    let streams: serde_json::Map<String, Value> =
        STREAMS.iter().zip(&lengths).map(|(&name, &length)| (name.into(), length.into())).collect();
    let (first, columns) = cube.range().unwrap_or((0, 0));
    let notes = options.wording.lines_of_all(contexts).into_iter();
    let notes = notes.map(|note| json!({"text": note.text, "lost": note.severity == Severity::Lost}));
    let relative = |moment_ns: i64| i128::from(moment_ns) - i128::from(trace_start_ns);
    let unfinished = options.waiting.as_ref().unwrap_or(&context.unfinished).iter();
    let mut unfinished: Vec<_> = unfinished.filter(|request| request.is_stall()).collect();
    unfinished.sort_by_key(|request| std::cmp::Reverse(request.at_least_ns));
    let groups = waiters(&unfinished);
    let listed = unfinished.iter().take(UNFINISHED).map(|request| {
        json!({"what": request.what, "start": relative(request.start_ns) as f64, "age": request.at_least_ns as f64})
    });
    let others = unfinished.get(UNFINISHED..).unwrap_or_default();
    let others = by_column(others, cube.width_ns).into_iter();
    let others =
        others.map(|(start_ns, count, end_ns)| json!([relative(start_ns) as f64, count, relative(end_ns) as f64]));
    let losses = contexts.iter().flat_map(|context| &context.loss_ranges).take(LOSSES);
    let losses =
        losses.map(|loss| json!([relative(loss.start_ns) as f64, relative(loss.end_ns) as f64, loss.records as f64]));
    let traces = options.traces.iter().zip(contexts).filter_map(|(name, context)| {
        context.trace_start_ns().map(|start_ns| json!({"name": name, "start": relative(start_ns) as f64}))
    });
    let head = json!({
        "version": 1,
        "program": concat!("latscope ", env!("CARGO_PKG_VERSION")),
        "title": options.title,
        "host": context.host,
        "sources": contexts.iter().map(|context| context.source.clone()).collect::<Vec<_>>(),
        "source": options.source,
        "filter": options.filter,
        "clock": {
            "name": context.clock.name,
            "to_unix_ns": context.clock.to_unix_ns.map(|ns| ns.to_string()),
            "approximate": context.clock.approximate,
        },
        // Numbers beyond 2^53 are texts: JavaScript would round them.
        "trace_start_ns": trace_start_ns.to_string(),
        "offset_ns": start_ns.map_or(0, relative) as f64,
        "first_column": first as f64,
        "width_ns": cube.width_ns as f64,
        "columns": columns,
        "rows_per_octave": 1u32 << CUBE_ROWS.power(),
        "combinations": cube.combinations.len(),
        "exemplars": cube.exemplars.len(),
        "attributes": cube.attributes.iter().map(|attribute| described(attribute, options)).collect::<Vec<_>>(),
        "left_out": cube.left_out.iter().map(|&key| name(key)).collect::<Vec<_>>(),
        "notes": notes.collect::<Vec<_>>(),
        "unfinished": {"count": unfinished.len(), "longest": listed.collect::<Vec<_>>(), "others": others.collect::<Vec<_>>(),
            "groups": groups},
        "losses": losses.collect::<Vec<_>>(),
        "traces": traces.collect::<Vec<_>>(),
        "spots": options.spots.iter().map(|spot| spot_box(spot, trace_start_ns)).collect::<Vec<_>>(),
        "streams": streams,
    });
    head.to_string()
}

/// A spot as the page draws it: a box of time since the start and latency, the values that it is limited to, and what it is.
fn spot_box(spot: &Spot, trace_start_ns: i64) -> Value {
    let (mut time, mut latency) = ([None; 2], [None; 2]);
    let mut values = serde_json::Map::new();
    for condition in &spot.conditions {
        match condition {
            Condition::Range(Attribute::Time, from, to) => time = [*from, *to].map(|ns| ns.map(|ns| ns as f64)),
            Condition::Range(Attribute::Field(Field::Latency), from, to) => latency = [*from, *to],
            Condition::Is(attribute, value) => _ = values.insert(attribute.name().into(), json!(value)),
            _ => {}
        }
    }
    let first = (i128::from(spot.span_ns.0) - i128::from(trace_start_ns)) as f64;
    let last = (i128::from(spot.span_ns.1) - i128::from(trace_start_ns)) as f64;
    let [fastest, median, slowest] = spot.latency_ns;
    let common = spot.explanation.findings.first();
    let period_ns = if let SpotKind::Periodic(period_ns) = spot.kind { Some(period_ns) } else { None };
    json!({
        "kind": spot.kind.word(),
        "period": period_ns,
        "time": [time[0].unwrap_or(first), time[1].unwrap_or(last + 1.0)],
        "latency": [latency[0].unwrap_or(fastest), latency[1].unwrap_or(slowest.saturating_add(1))],
        "values": values,
        "events": spot.explanation.selection.events,
        "waiting": spot.explanation.selection.waiting_ns as f64,
        "median": median,
        "common": common.and_then(|finding| filter_of(&finding.conditions)),
    })
}

/// Who waits: requests alike in device, thread and class of the wait (else kind), the largest groups first, with the age and the
/// stack of the oldest. The oldest comes first in what is given.
fn waiters(unfinished: &[&Unfinished]) -> Vec<Value> {
    let text = |request: &Unfinished, field: Field| match request.values.get(field.name()) {
        Some(latscope_event::Value::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let mut groups: BTreeMap<_, (usize, &Unfinished)> = BTreeMap::new();
    for &request in unfinished {
        let class = text(request, Field::WaitClass).or_else(|| text(request, Field::Kind));
        let who = [text(request, Field::Device), text(request, Field::Comm), class];
        groups.entry(who).or_insert((0, request)).0 += 1;
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, (count, oldest))| std::cmp::Reverse((*count, oldest.at_least_ns)));
    let described = |(who, (count, oldest)): ([Option<String>; 3], (usize, &Unfinished))| {
        let stack = text(oldest, Field::Stack);
        json!({"who": who.into_iter().flatten().collect::<Vec<_>>(), "count": count, "oldest": oldest.at_least_ns as f64, "stack": stack})
    };
    groups.into_iter().take(WAITERS).map(described).collect()
}

/// Unfinished requests that were issued in the same column: their mean start, how many, and the last moment at which one waited.
fn by_column(unfinished: &[&Unfinished], width_ns: u64) -> Vec<(i64, u64, i64)> {
    let width_ns = i64::try_from(width_ns).unwrap_or(i64::MAX).max(1);
    let mut columns: BTreeMap<i64, (i128, u64, i64)> = BTreeMap::new();
    for request in unfinished {
        let (sum, count, end_ns) =
            columns.entry(request.start_ns.div_euclid(width_ns)).or_insert((0, 0, request.end_ns()));
        *sum += i128::from(request.start_ns);
        *count += 1;
        *end_ns = request.end_ns().max(*end_ns);
    }
    let mean = |(sum, count, end_ns): (i128, u64, i64)| ((sum / i128::from(count)) as i64, count, end_ns);
    columns.into_values().map(mean).collect()
}

fn name(key: CubeKey) -> &'static str {
    match key {
        CubeKey::Field(field) => field.name(),
        CubeKey::Trace => "trace",
    }
}

fn described(attribute: &CubeAttribute, options: &ReportOptions) -> Value {
    let kind = match attribute.key {
        CubeKey::Trace => "trace",
        CubeKey::Field(field) => field.field_type().word(),
    };
    let values = attribute.values.iter().map(|value| match (attribute.key, value) {
        (CubeKey::Trace, CubeValue::Number(number)) => {
            json!(usize::try_from(*number).ok().and_then(|at| options.traces.get(at)))
        }
        (_, CubeValue::Text(text)) => json!(text),
        (_, CubeValue::Number(number)) => json!(number),
        (_, CubeValue::Range(from, to)) => json!([*from as f64, *to as f64]),
        (_, CubeValue::Missing) => Value::Null,
        (_, CubeValue::Others) => json!({"others": true}),
    });
    json!({"name": name(attribute.key), "kind": kind, "values": values.collect::<Vec<_>>()})
}

/// Attributes of a report that reads these fields, the most important first.
pub fn report_keys(fields: impl Fn(Field) -> bool, traces: usize) -> Vec<CubeKey> {
    const NAMES: [&str; 23] = [
        "device",
        "kind",
        "comm",
        "host",
        "job",
        "wait_class",
        "state",
        "stack",
        "stack_source",
        "size",
        "error",
        "sequential",
        "in_flight",
        "name",
        "tags",
        "cpu",
        "container",
        "cgroup",
        "category",
        "fd_type",
        "path",
        "region",
        "cache",
    ];
    let keys = NAMES.iter().filter_map(|name| Field::from_name(name)).filter(|&field| fields(field));
    let keys =
        keys.filter(|field| matches!(field.field_type(), FieldType::Text | FieldType::Number | FieldType::Bytes));
    let trace = (traces > 1).then_some(CubeKey::Trace);
    trace.into_iter().chain(keys.map(CubeKey::Field)).collect()
}
