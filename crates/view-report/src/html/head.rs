//! What the data of a report begin with: JSON that names attributes and values, the clock, and what is missing.

use super::ReportOptions;
use super::encode::STREAMS;
use latscope_event::{Context, Field, FieldType, Severity};
use latscope_series::{CUBE_ROWS, Cube, CubeAttribute, CubeKey, CubeValue};
use serde_json::{Value, json};

/// As many unfinished requests are listed.
const UNFINISHED: usize = 100;
/// As many stretches with losses are listed.
const LOSSES: usize = 1000;

/// Where the first column starts, nanoseconds on the clock of the trace.
pub fn start_ns(cube: &Cube) -> i64 {
    let width_ns = i64::try_from(cube.width_ns).unwrap_or(i64::MAX);
    cube.range().map_or(0, |(first, _)| first.saturating_mul(width_ns))
}

pub fn head(cube: &Cube, contexts: &[Context], options: &ReportOptions, lengths: Vec<usize>) -> String {
    let context = Context::merged(contexts);
    let start_ns = start_ns(cube);
    let trace_start_ns = contexts.iter().filter_map(Context::trace_start_ns).min().unwrap_or(start_ns);
    let streams: serde_json::Map<String, Value> =
        STREAMS.iter().zip(&lengths).map(|(&name, &length)| (name.into(), length.into())).collect();
    let (first, columns) = cube.range().unwrap_or((0, 0));
    let notes = options.wording.lines_of_all(contexts).into_iter();
    let notes = notes.map(|note| json!({"text": note.text, "lost": note.severity == Severity::Lost}));
    let relative = |moment_ns: i64| i128::from(moment_ns) - i128::from(trace_start_ns);
    let unfinished = options.waiting.as_ref().unwrap_or(&context.unfinished).iter();
    let mut unfinished: Vec<_> = unfinished.filter(|request| request.counts()).collect();
    unfinished.sort_by_key(|request| std::cmp::Reverse(request.at_least_ns));
    let listed = unfinished.iter().take(UNFINISHED).map(|request| {
        json!({"what": request.what, "start": relative(request.start_ns) as f64, "age": request.at_least_ns as f64})
    });
    let losses = contexts.iter().flat_map(|context| &context.loss_ranges).take(LOSSES);
    let losses =
        losses.map(|loss| json!([relative(loss.start_ns) as f64, relative(loss.end_ns) as f64, loss.records as f64]));
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
        "offset_ns": relative(start_ns) as f64,
        "first_column": first as f64,
        "width_ns": cube.width_ns as f64,
        "columns": columns,
        "rows_per_octave": 1u32 << CUBE_ROWS.power(),
        "combinations": cube.combinations.len(),
        "exemplars": cube.exemplars.len(),
        "attributes": cube.attributes.iter().map(|attribute| described(attribute, options)).collect::<Vec<_>>(),
        "left_out": cube.left_out.iter().map(|&key| name(key)).collect::<Vec<_>>(),
        "notes": notes.collect::<Vec<_>>(),
        "unfinished": {"count": unfinished.len(), "longest": listed.collect::<Vec<_>>()},
        "losses": losses.collect::<Vec<_>>(),
        "streams": streams,
    });
    head.to_string()
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
    const NAMES: [&str; 17] = [
        "device",
        "kind",
        "comm",
        "host",
        "job",
        "size",
        "error",
        "sequential",
        "in_flight",
        "name",
        "cpu",
        "container",
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
