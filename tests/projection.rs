//! What a reader finds out of a field does not depend on which other fields are asked for.

use crate::program::{latscope, testdata};
use crate::scap::captures;
use latscope_capture_file::{Format, ReadOptions, format_of, read_bytes};
use latscope_event::{Batch, Column, Field, FieldSet, MISSING_CODE, MISSING_I64, MISSING_U64};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Inputs up to this size, packed: what depends on a field shows in small ones too.
const MOST_BYTES: u64 = 200_000;

fn values(batch: &Batch, field: Field) -> Vec<Option<String>> {
    let rows = 0..batch.len();
    match batch.column(field) {
        Some(Column::I64(values)) => rows
            .map(|row| Some(values[row]).filter(|&value| value != MISSING_I64).map(|value| value.to_string()))
            .collect(),
        Some(Column::U64(values)) => rows
            .map(|row| Some(values[row]).filter(|&value| value != MISSING_U64).map(|value| value.to_string()))
            .collect(),
        Some(Column::Text(codes)) => rows
            .map(|row| Some(row).filter(|&row| codes[row] != MISSING_CODE).and_then(|row| batch.text(field, row)))
            .map(|text| text.map(str::to_owned))
            .collect(),
        None => Vec::new(),
    }
}

/// Fields, each with its values as texts.
type Columns = Vec<(Field, Vec<Option<String>>)>;

/// The columns of the first batch, and the words for its unfinished requests; `None` for what has no events.
fn read(name: &str, bytes: &[u8], fields: FieldSet) -> Option<(Columns, Vec<String>)> {
    let mut columns = Vec::new();
    let options = ReadOptions { all_syscalls: true, all_of_spark: true, ..ReadOptions::new(fields) };
    let read = read_bytes(name, bytes, &options, &mut |_, batch| {
        if columns.is_empty() {
            columns = fields.iter().map(|field| (field, values(batch, field))).collect();
        }
        if batch.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let unfinished = read.ok()?.unfinished.into_iter().map(|request| request.what).collect();
    (!columns.is_empty()).then_some((columns, unfinished))
}

fn check(name: &str, bytes: &[u8]) -> usize {
    let Some((all, unfinished)) = read(name, bytes, FieldSet::EVERY) else { return 0 };
    let filled = all.iter().filter(|(_, values)| values.iter().any(Option::is_some));
    let mut checked = 0;
    for (field, values) in filled {
        let (alone, others) = read(name, bytes, FieldSet::default().with(&[*field])).expect(name);
        let own = alone.iter().find(|(of, _)| of == field).map(|(_, values)| values).expect(name);
        let first = values.iter().zip(own).position(|(one, other)| one != other);
        assert_eq!(first.map(|row| (&values[row], &own[row])), None, "{name}: {} alone, row {first:?}", field.name());
        assert_eq!((values.len(), &unfinished), (own.len(), &others), "{name}: {} alone", field.name());
        checked += 1;
    }
    checked
}

fn inputs(folder: &Path, most_bytes: u64, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("testdata can be read").map(|entry| entry.unwrap().path()) {
        match entry.is_dir() {
            true => inputs(&entry, most_bytes, found),
            false if entry.metadata().unwrap().len() <= most_bytes => found.push(entry),
            false => {}
        }
    }
}

#[test]
fn projection_of_inputs_changes_no_value() {
    let mut found = Vec::new();
    inputs(&testdata(""), MOST_BYTES, &mut found);
    found.sort();
    let checked: usize =
        found.iter().map(|path| check(&path.display().to_string(), &std::fs::read(path).unwrap())).sum();
    assert!(checked > 300, "{checked}");
}

/// What `fields` lists of a format is what its reader fills: nothing else, and all of it in some input.
#[test]
fn formats_list_the_fields_that_they_fill() {
    let mut found = Vec::new();
    inputs(&testdata(""), 3 * MOST_BYTES, &mut found);
    let mut filled: BTreeMap<&str, FieldSet> = BTreeMap::new();
    let mut add = |name: &str, format: Format, bytes: &[u8]| {
        let Some((columns, _)) = read(name, bytes, FieldSet::EVERY) else { return };
        let own: FieldSet =
            columns.iter().filter(|(_, values)| values.iter().any(Option::is_some)).map(|&(field, _)| field).collect();
        assert_eq!(own.without(format.fills()), FieldSet::EMPTY, "{name} has more than {} lists", format.name());
        let all = filled.entry(format.name()).or_default();
        *all = all.union(own);
    };
    for path in &found {
        let Ok(format) = format_of(path) else { continue };
        add(&path.display().to_string(), format, &std::fs::read(path).unwrap());
    }
    for (name, packed) in captures().iter().filter(|(_, packed)| packed.len() as u64 <= MOST_BYTES) {
        add(name, Format::Scap, packed);
    }
    let unfilled = filled.into_iter().filter_map(|(name, own)| {
        // A hash is computed from its stack.
        let fills = Format::from_name(name).unwrap().fills().without(FieldSet::EMPTY.with(&[Field::StackHash]));
        let unfilled = fills.without(own).without(FieldSet::EMPTY.with(&[Field::Process]));
        let names: Vec<&str> = unfilled.iter().map(Field::name).collect();
        // Our own formats hold what others gave.
        (fills != FieldSet::EVERY && !names.is_empty()).then_some((name, names))
    });
    let unfilled: Vec<_> = unfilled.collect();
    let known: Vec<_> = UNFILLED.iter().map(|&(name, names)| (name, names.to_vec())).collect();
    assert_eq!(unfilled, known);
}

/// Fields that no small input of testdata fills, though its format can.
const UNFILLED: &[(&str, &[&str])] = &[
    // A stream of the blk tracer has no names of threads.
    ("blkparse", &["comm", "error"]),
    ("blktrace", &["comm", "error"]),
    // From the names of files.
    ("fio_log", &["host", "job"]),
    ("folded", &["tags"]),
    ("ftrace", &["pid", "fd", "error", "result"]),
    ("ioping", &["offset"]),
    ("oracle_10046", &["pid"]),
    ("perf_data", &["dispatcher", "stack_source", "stack"]),
    ("perf_script", &["pid"]),
    ("pprof", &["device", "state", "wait_class"]),
    ("smallfile", &["host", "job"]),
    ("snoop", &["queue_ns"]),
    ("strace", &["comm"]),
    ("trace_dat", &["fd", "error", "result"]),
    ("two_columns", &["size", "offset", "job"]),
];

#[test]
fn projection_of_captures_changes_no_value() {
    let checked: usize = captures()
        .iter()
        .filter(|(_, packed)| packed.len() as u64 <= MOST_BYTES)
        .map(|(name, packed)| check(name, packed))
        .sum();
    assert!(checked > 500, "{checked}");
}

#[test]
fn projection_of_derived_fields_changes_no_value() {
    let trace = testdata("strace/f_tt_y.txt.zst");
    for field in ["region", "sequential", "in_flight", "since_previous_ns"] {
        let column = |columns: &str| {
            let rows = latscope(&["events", "-r", trace.to_str().unwrap(), "--json", "--columns", columns]).success();
            let value = |row: &str| serde_json::from_str::<serde_json::Value>(row).unwrap()[field].to_string();
            rows.lines().map(value).collect::<Vec<_>>()
        };
        let all = column(&format!("time_ns,name,offset,size,path,kind,{field}"));
        assert!(all.iter().any(|value| value != "null"), "{field}");
        assert_eq!(column(&format!("time_ns,{field}")), all, "{field}");
    }
}
