//! Events whose every value is known, and a way to compare them with what was read.

use latscope_capture_file::{ReadOptions, read};
use latscope_event::{
    Anomaly, Batch, Clock, Context, Field, FieldSet, FieldType, KernelFeature, MISSING_I64, MISSING_U64, Note,
    Unfinished, Value, Wait,
};
use std::ops::ControlFlow;
use std::path::Path;

/// A value as text, `None` when missing: it compares across storage types.
pub type Row = Vec<Option<String>>;

/// Fields of every storage type.
pub fn fields() -> FieldSet {
    [Field::Time, Field::Latency, Field::Kind, Field::Size, Field::Pid, Field::Comm, Field::Path, Field::Queue]
        .into_iter()
        .collect()
}

/// A context with something in every part.
pub fn context() -> Context {
    let mut context = Context::new("sample", Clock::wall());
    context.host = Some("db1".into());
    context.span_ns = Some((5, 5_000_000_000));
    context.tally.add(Anomaly::Requeue, 3);
    context.unfinished.push(Unfinished {
        what: "sda write of 4KiB by fio".into(),
        start_ns: 7,
        at_least_ns: 9,
        wait: Wait::Counts,
        values: [("device", Value::Text("sda".into())), ("size", Value::Number(4096))]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
    });
    context.knows_unfinished = true;
    context.note(Note::MalformedRow { line: 3, why: "a negative number".into() });
    context.note(Note::KernelLacks { feature: KernelFeature::TagWalk });
    context.properties.insert("command".into(), "latscope record -w \"a b\"".into());
    context
}

/// Appends an event that its number determines; about every fifth optional value is missing.
pub fn push(batch: &mut Batch, number: u64) {
    // A multiplicative hash: the values look random and are the same in every run.
    let random = |salt: u64| (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17 + salt as u32 * 7) ^ salt;
    for field in batch.fields().iter() {
        // As the fields were numbered when the file of the first version was written.
        let value = random(match field {
            Field::Path => 15,
            Field::Queue => 18,
            field => field as u64,
        });
        let missing = value.is_multiple_of(5) && !FieldSet::ALWAYS.contains(field);
        match field.field_type() {
            FieldType::Time => {
                // Nearly in order, as completions are.
                batch.push_i64(field, 1_700_000_000_000_000_000 + (number * 1000) as i64 - (value % 30_000) as i64);
            }
            FieldType::Number => {
                batch.push_i64(field, if missing { MISSING_I64 } else { (value % 4_000_000) as i64 - 2 })
            }
            FieldType::Duration => {
                batch.push_u64(field, if missing { MISSING_U64 } else { value >> (value % 50 + 14) })
            }
            FieldType::Bytes => batch.push_u64(field, if missing { MISSING_U64 } else { 512 << (value % 12) }),
            FieldType::Text => {
                let text = match field {
                    Field::Path => format!("/data/ä,\"{}\".db", value % 300),
                    Field::Kind => ["read", "write", "flush"][(value % 3) as usize].into(),
                    _ => format!("thread {}", value % 7),
                };
                batch.push_text(field, (!missing).then_some(text.as_bytes()));
            }
        }
    }
    batch.end_row();
}

/// The events of these numbers.
pub fn batch(fields: FieldSet, numbers: std::ops::Range<u64>) -> Batch {
    let mut batch = Batch::new(fields);
    numbers.for_each(|number| push(&mut batch, number));
    batch
}

/// The rows of a batch, fields in table order; `None` for a column that the batch lacks.
pub fn rows(batch: &Batch, fields: FieldSet) -> Vec<Row> {
    let value = |field: Field, row: usize| match field.field_type() {
        FieldType::Text => batch.text(field, row).map(str::to_string),
        FieldType::Time | FieldType::Number => batch
            .i64s(field)
            .map(|values| values[row])
            .filter(|&value| value != MISSING_I64)
            .map(|value| value.to_string()),
        FieldType::Duration | FieldType::Bytes => batch
            .u64s(field)
            .map(|values| values[row])
            .filter(|&value| value != MISSING_U64)
            .map(|value| value.to_string()),
    };
    (0..batch.len()).map(|row| fields.iter().map(|field| value(field, row)).collect()).collect()
}

/// All rows of a file, and its context.
pub fn read_rows(path: &Path, fields: FieldSet) -> Result<(Vec<Row>, Context), String> {
    let mut all = Vec::new();
    let context = read(path, &ReadOptions::new(fields), &mut |_, batch| {
        all.extend(rows(batch, fields));
        ControlFlow::Continue(())
    });
    context.map(|context| (all, context)).map_err(|error| error.to_string())
}
