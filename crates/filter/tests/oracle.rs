//! The evaluation against an oracle: every row by itself, every test by its definition, on values that never saw a
//! column, a mask or a dictionary.

use latscope_event::{Batch, Field, FieldSet, MISSING_I64, MISSING_U64, Mask, TraceStart};
use latscope_filter::{Filter, Necessary};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// One event; a missing value is `None`.
#[derive(Clone, Debug)]
struct Row {
    time: i64,
    latency: Option<u64>,
    queue: Option<u64>,
    size: Option<u64>,
    result: Option<i64>,
    pid: Option<i64>,
    tid: Option<i64>,
    kind: Option<String>,
    comm: Option<String>,
    path: Option<String>,
    device: Option<String>,
    dev: Option<String>,
    error: Option<String>,
}

const START: i64 = 1_000;

fn row() -> impl Strategy<Value = Row> {
    let small = || option::of(0u64..6);
    let signed = || option::of(-3i64..4);
    let text = |pattern: &'static str| option::of(pattern);
    (
        (START..START + 6, option::of(prop_oneof![0u64..6, 1_999_999_998..2_000_000_004u64]), small(), small()),
        (signed(), signed(), signed()),
        (option::of(select(vec!["read", "write", "sync"])), text("[abAB]{0,3}"), text("(/[ab]{0,2}){0,2}|[ab]")),
        (text("[ab]"), text("[ab]"), text("[ab]")),
    )
        .prop_map(
            |((time, latency, queue, size), (result, pid, tid), (kind, comm, path), (device, dev, error))| Row {
                time,
                latency,
                queue,
                size,
                result,
                pid,
                tid,
                kind: kind.map(String::from),
                comm,
                path,
                device,
                dev,
                error,
            },
        )
}

fn fill(batch: &mut Batch, rows: &[Row]) {
    batch.clear();
    for row in rows {
        batch.push_i64(Field::Time, row.time);
        batch.push_u64(Field::Latency, row.latency.unwrap_or(MISSING_U64));
        batch.push_u64(Field::Queue, row.queue.unwrap_or(MISSING_U64));
        batch.push_u64(Field::Size, row.size.unwrap_or(MISSING_U64));
        batch.push_i64(Field::Result, row.result.unwrap_or(MISSING_I64));
        batch.push_i64(Field::Pid, row.pid.unwrap_or(MISSING_I64));
        batch.push_i64(Field::Tid, row.tid.unwrap_or(MISSING_I64));
        for (field, text) in [
            (Field::Kind, &row.kind),
            (Field::Comm, &row.comm),
            (Field::Path, &row.path),
            (Field::Device, &row.device),
            (Field::Dev, &row.dev),
            (Field::Error, &row.error),
        ] {
            batch.push_text(field, text.as_deref().map(str::as_bytes));
        }
        batch.end_row();
    }
}

fn columns() -> FieldSet {
    [
        Field::Queue,
        Field::Size,
        Field::Result,
        Field::Pid,
        Field::Tid,
        Field::Kind,
        Field::Comm,
        Field::Path,
        Field::Device,
        Field::Dev,
        Field::Error,
    ]
    .into_iter()
    .collect()
}

#[derive(Clone, Debug)]
enum Tree {
    And(Vec<Tree>),
    Or(Vec<Tree>),
    Not(Box<Tree>),
    Number(&'static str, &'static str, Vec<i64>),
    Text(&'static str, &'static str, Vec<String>),
    Bool(&'static str, bool),
    Exists(&'static str),
    Fields(&'static str, &'static str, &'static str),
}

const NUMBERS: &[&str] = &[
    "latency_ns",
    "size",
    "result",
    "pid",
    "end",
    "evt.reltime",
    "evt.latency.s",
    "evt.latency.ns",
    "len(comm)",
    "evt.count",
];
const TEXTS: &[&str] =
    &["comm", "path", "kind", "dev", "device", "fd.directory", "fd.filename", "evt.res", "evt.io_dir", "tolower(comm)"];
const BOOLS: &[&str] = &["evt.failed", "evt.is_io", "evt.is_io_write", "thread.ismain"];

fn tree() -> impl Strategy<Value = Tree> {
    let compare = || select(vec!["=", "!=", "<", "<=", ">", ">="]);
    let number = (select(NUMBERS), prop_oneof![compare(), Just("between"), Just("in")], vec(-3i64..6, 2..4));
    let text = (
        select(TEXTS),
        prop_oneof![
            compare(),
            select(vec!["contains", "icontains", "startswith", "endswith", "glob", "regex", "in", "between", "pmatch"])
        ],
        vec(
            prop_oneof![
                "[abAB]{0,3}",
                "[ab*?]{0,3}",
                "/[ab]{0,2}",
                select(vec!["read", "SUCCESS"]).prop_map(String::from)
            ],
            2..4,
        ),
    );
    let pairs = select(vec![
        ("comm", "=", "path"),
        ("comm", "!=", "path"),
        ("comm", "contains", "path"),
        ("path", "startswith", "fd.directory"),
        ("latency_ns", ">", "queue_ns"),
        ("pid", "=", "tid"),
        ("pid", "<=", "tid"),
        ("len(comm)", "<", "len(path)"),
        ("comm", "=", "tolower(comm)"),
    ]);
    let leaf = prop_oneof![
        4 => number.prop_map(|(name, operator, mut values)| {
            if operator == "between" {
                // One that ends before it starts is refused.
                values.iter_mut().for_each(|value| *value = value.abs());
                values.sort_unstable();
            }
            Tree::Number(name, operator, values)
        }),
        5 => text.prop_map(|(name, operator, mut values)| {
            if operator == "between" {
                values.sort_unstable();
            }
            Tree::Text(name, operator, values)
        }),
        1 => (select(BOOLS), any::<bool>()).prop_map(|(name, truth)| Tree::Bool(name, truth)),
        1 => prop_oneof![select(NUMBERS), select(TEXTS), select(BOOLS)].prop_map(Tree::Exists),
        1 => pairs.prop_map(|(one, operator, two)| Tree::Fields(one, operator, two)),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 1..4).prop_map(Tree::And),
            vec(inner.clone(), 1..4).prop_map(Tree::Or),
            inner.prop_map(|tree| Tree::Not(Box::new(tree))),
        ]
    })
}

/// The tree as somebody would type it.
fn written(tree: &Tree) -> String {
    let join =
        |parts: &[Tree], joint| parts.iter().map(|part| format!("({})", written(part))).collect::<Vec<_>>().join(joint);
    match tree {
        Tree::And(parts) => join(parts, " and "),
        Tree::Or(parts) => join(parts, " or "),
        Tree::Not(inner) => format!("not ({})", written(inner)),
        Tree::Number(name, operator, values) => {
            // What cannot be negative is not written so.
            let signed = matches!(
                *name,
                "result" | "pid" | "end" | "evt.latency.s" | "evt.latency.ns" | "len(comm)" | "evt.count"
            );
            let values: Vec<_> = values.iter().map(|&v| number_of(name, if signed { v } else { v.abs() })).collect();
            match *operator {
                "in" => {
                    let list = values.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
                    format!("{name} in ({list})")
                }
                "between" => format!("{name} between {} and {}", values[0], values[1]),
                _ => format!("{name} {operator} {}", values[0]),
            }
        }
        Tree::Text(name, operator, values) => match *operator {
            "in" | "pmatch" => {
                let list = values.iter().map(|value| format!("'{value}'")).collect::<Vec<_>>().join(", ");
                format!("{name} {operator} ({list})")
            }
            "between" => format!("{name} in ['{}', '{}']", values[0], values[1]),
            "regex" => format!("{name} regex '{}'", values[0].replace('*', ".*").replace('?', ".")),
            _ => format!("{name} {operator} '{}'", values[0]),
        },
        Tree::Bool(name, true) => name.to_string(),
        Tree::Bool(name, false) => format!("{name} = false"),
        Tree::Exists(name) => format!("{name} exists"),
        Tree::Fields(one, operator, two) if two.contains('(') => format!("{one} {operator} {two}"),
        Tree::Fields(one, operator, two) => format!("{one} {operator} val({two})"),
    }
}

/// Ends lie around the start of the trace.
fn number_of(name: &str, value: i64) -> i64 {
    if name == "end" { START + value } else { value }
}

fn number(name: &str, row: &Row) -> Option<i64> {
    let end = || Some(row.time + row.latency? as i64);
    match name {
        "latency_ns" => row.latency.map(|value| value as i64),
        "queue_ns" => row.queue.map(|value| value as i64),
        "size" => row.size.map(|value| value as i64),
        "result" => row.result,
        "pid" => row.pid,
        "tid" => row.tid,
        "end" => end(),
        "evt.reltime" => end().map(|end| end - START),
        "evt.latency.s" => row.latency.map(|value| (value / 1_000_000_000) as i64),
        "evt.latency.ns" => row.latency.map(|value| (value % 1_000_000_000) as i64),
        "len(comm)" => row.comm.as_ref().map(|text| text.len() as i64),
        "len(path)" => row.path.as_ref().map(|text| text.len() as i64),
        "evt.count" => Some(1),
        _ => None,
    }
}

/// The texts that a name stands for: two for `dev`.
fn texts(name: &str, row: &Row) -> Vec<String> {
    let path = |pick: fn(&str) -> Option<String>| row.path.as_deref().and_then(pick);
    let one = match name {
        "comm" => row.comm.clone(),
        "path" => row.path.clone(),
        "kind" => row.kind.clone(),
        "device" => row.device.clone(),
        "dev" => return row.device.iter().chain(&row.dev).cloned().collect(),
        "fd.directory" => path(|path| {
            let (directory, _) = path.rsplit_once('/')?;
            Some(if directory.is_empty() { "/".into() } else { directory.into() })
        }),
        "fd.filename" => path(|path| Some(path.rsplit_once('/').map_or(path, |(_, last)| last).into())),
        "evt.res" => match &row.error {
            Some(error) => Some(error.clone()),
            None if row.result.is_some_and(|result| result < 0) => None,
            None => Some("SUCCESS".into()),
        },
        "evt.io_dir" => row.kind.clone().filter(|kind| kind != "sync"),
        "tolower(comm)" => row.comm.as_ref().map(|text| text.to_lowercase()),
        _ => None,
    };
    one.into_iter().collect()
}

fn truth(name: &str, row: &Row) -> Option<bool> {
    match name {
        "evt.failed" => Some(row.error.is_some() || row.result.is_some_and(|result| result < 0)),
        "evt.is_io" => row.kind.as_ref().map(|kind| kind == "read" || kind == "write"),
        "evt.is_io_write" => row.kind.as_ref().map(|kind| kind == "write"),
        "thread.ismain" => Some(row.pid? == row.tid?),
        _ => None,
    }
}

fn compares<T: PartialOrd>(one: T, operator: &str, two: T) -> bool {
    match operator {
        "=" => one == two,
        "!=" => one != two,
        "<" => one < two,
        "<=" => one <= two,
        ">" => one > two,
        _ => one >= two,
    }
}

fn wildcard(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|at| wildcard(rest, &text[at..])),
        Some((&c, rest)) => !text.is_empty() && (c == b'?' || c == text[0]) && wildcard(rest, &text[1..]),
    }
}

fn text_passes(text: &str, operator: &str, values: &[String]) -> bool {
    let value = values[0].as_str();
    match operator {
        "contains" => text.contains(value),
        "icontains" => text.to_lowercase().contains(&value.to_lowercase()),
        "startswith" => text.starts_with(value),
        "endswith" => text.ends_with(value),
        "glob" | "regex" => wildcard(value.as_bytes(), text.as_bytes()),
        "in" => values.iter().any(|value| value == text),
        "between" => value <= text && text <= values[1].as_str(),
        "pmatch" => values.iter().any(|path| {
            let (path, text): (Vec<_>, Vec<_>) =
                (path.strip_suffix('/').unwrap_or(path).split('/').collect(), text.split('/').collect());
            path.len() <= text.len()
                && path.iter().zip(text).all(|(part, text)| wildcard(part.as_bytes(), text.as_bytes()))
        }),
        _ => compares(text, operator, value),
    }
}

fn passes(tree: &Tree, row: &Row) -> bool {
    match tree {
        Tree::And(parts) => parts.iter().all(|part| passes(part, row)),
        Tree::Or(parts) => parts.iter().any(|part| passes(part, row)),
        Tree::Not(inner) => !passes(inner, row),
        Tree::Number(name, operator, values) => {
            let signed = !matches!(*name, "latency_ns" | "size" | "evt.reltime");
            let value = |at: usize| number_of(name, if signed { values[at] } else { values[at].abs() });
            number(name, row).is_some_and(|number| match *operator {
                "in" => (0..values.len()).any(|at| value(at) == number),
                "between" => value(0) <= number && number <= value(1),
                _ => compares(number, operator, value(0)),
            })
        }
        Tree::Text(name, "!=", values) => {
            let texts = texts(name, row);
            !texts.is_empty() && !texts.contains(&values[0])
        }
        Tree::Text(name, operator, values) => texts(name, row).iter().any(|text| text_passes(text, operator, values)),
        Tree::Bool(name, wanted) => truth(name, row) == Some(*wanted),
        Tree::Exists(name) => number(name, row).is_some() || !texts(name, row).is_empty() || truth(name, row).is_some(),
        Tree::Fields(one, operator, two) => match (number(one, row), number(two, row)) {
            (Some(one), Some(two)) => compares(one, operator, two),
            _ => match (texts(one, row).first(), texts(two, row).first()) {
                (Some(one), Some(two)) => text_passes(one, operator, std::slice::from_ref(two)),
                _ => false,
            },
        },
    }
}

/// What a capture tests early, by its definition.
fn fulfils(row: &Row, necessary: &Necessary) -> bool {
    let own = |field: &Field| match field {
        Field::Pid => vec![row.pid.map(|pid| pid.to_string())],
        Field::Tid => vec![row.tid.map(|tid| tid.to_string())],
        Field::Kind => vec![row.kind.clone()],
        Field::Comm => vec![row.comm.clone()],
        Field::Device => vec![row.device.clone(), row.dev.clone()],
        _ => panic!("no condition is expected of {}", field.name()),
    };
    row.latency.is_none_or(|latency| latency >= necessary.min_latency_ns)
        && necessary.any_of.iter().all(|(field, values)| {
            own(field).iter().any(|value| value.as_ref().is_some_and(|value| values.contains(value)))
        })
}

#[test]
fn what_a_filter_demands_of_every_event() {
    let necessary = |text: &str| {
        let Necessary { min_latency_ns, any_of } = Filter::parse(text).unwrap().necessary();
        let lists = any_of.iter().map(|(field, values)| {
            format!(" {} in {}", field.name(), values.iter().map(String::as_str).collect::<Vec<_>>().join(","))
        });
        format!("{min_latency_ns}{}", lists.collect::<String>())
    };
    assert_eq!(
        necessary("lat > 1ms and proc.name = fio and dev in (vda, 7:0)"),
        "1000001 device in 7:0,vda process in fio"
    );
    assert_eq!(necessary("lat >= 2ms and pid=7 or lat >= 1ms and pid=8 and kind=read"), "1000000 pid in 7,8");
    assert_eq!(necessary("evt.is_io=true and kind in (read, sync)"), "0 kind in read");
    assert_eq!(necessary("not lat > 1ms"), "0");
    assert_eq!(necessary("comm contains f or lat > 1ms"), "0");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn masks_agree_with_row_by_row(tree in tree(), traces in vec(vec(row(), 0..150), 1..4)) {
        let text = written(&tree);
        let filter = Filter::parse(&text).unwrap();
        prop_assert_eq!(&Filter::parse(&filter.to_string()).unwrap(), &filter);
        let mut bound = filter.bind(TraceStart { start_ns: Some(START), to_unix_ns: None }).unwrap();
        // One batch filled again and again, so that its dictionaries grow under the bound filter; and one that has
        // only the columns that the filter asks for.
        let mut batch = Batch::new(columns());
        let mut narrow = Batch::new(filter.fields());
        let mut bound_narrow = bound.clone();
        let mut mask = Mask::default();
        for rows in &traces {
            let expected: Vec<_> = rows.iter().map(|row| passes(&tree, row)).collect();
            for row in rows.iter().filter(|row| passes(&tree, row)) {
                prop_assert!(fulfils(row, &filter.necessary()), "{} does not need {:?}", text, filter.necessary());
            }
            for (batch, bound) in [(&mut batch, &mut bound), (&mut narrow, &mut bound_narrow)] {
                fill(batch, rows);
                bound.eval(batch, &mut mask);
                let got: Vec<_> = (0..mask.len()).map(|at| mask.get(at)).collect();
                prop_assert_eq!(&got, &expected, "{} is {}", text, filter);
                // Alone, what it says of some columns lets no less through.
                let columns = FieldSet::default().with(&[Field::Device, Field::Dev, Field::Kind]);
                if let Some(about) = filter.only_about(columns) {
                    prop_assert!(about.fields().iter().all(|field| columns.contains(field)), "{}", about);
                    let zero = TraceStart { start_ns: Some(START), to_unix_ns: None };
                    about.bind(zero).unwrap().eval(batch, &mut mask);
                    prop_assert!((0..mask.len()).all(|at| mask.get(at) || !expected[at]), "{} is not in {}", filter, about);
                }
            }
        }
    }
}

#[test]
fn a_column_that_is_not_there_is_missing_in_every_row() {
    let mut batch = Batch::new(FieldSet::default());
    for time in 0..70 {
        batch.push_i64(Field::Time, time);
        batch.push_u64(Field::Latency, 5);
        batch.end_row();
    }
    let count = |text: &str| {
        let mut mask = Mask::default();
        Filter::parse(text).unwrap().bind(TraceStart::default()).unwrap().eval(&batch, &mut mask);
        mask.count()
    };
    for text in
        ["comm = a", "comm != a", "size < 5", "comm exists", "evt.is_io = false", "comm = val(path)", "pid = val(tid)"]
    {
        assert_eq!((count(text), count(&format!("not {text}"))), (0, 70), "{text}");
    }
    assert_eq!(count("evt.dir=<"), 70);
    assert_eq!(count("evt.dir=>"), 0);
    assert_eq!(count("evt.failed = false and evt.res = SUCCESS"), 70);
    assert_eq!(count("lat in [5ns, 6ns] and end in (10, 11)"), 2);
    assert_eq!(count("evt.around[1000005]=1"), 70 - 5 + 5);
    // They complete at 5 to 74.
    let phases = |period: i64, below: i64| (5..75i64).filter(|end| end.rem_euclid(period) < below).count();
    for (period, below) in [(10, 3), (7, 1), (100, 50), (1, 1)] {
        assert_eq!(count(&format!("evt.phase[{period}ns] < {below}ns")), phases(period, below), "{period}");
    }
    assert_eq!(count("evt.phase[10ns] = val(evt.phase[20ns])"), (5..75).filter(|end| end % 20 < 10).count());
}
