//! Any text is refused with a sentence, or is a filter that reads back as it is written and can be evaluated.
#![no_main]

use latscope_event::{Batch, Field, FieldSet, MISSING_I64, MISSING_U64, Mask, TraceStart};
use latscope_filter::Filter;
use libfuzzer_sys::fuzz_target;

/// Two rows: one with everything, one with nothing but its start.
fn batch() -> Batch {
    let mut batch = Batch::new(FieldSet::EVERY);
    for full in [true, false] {
        for &field in Field::ALL {
            match field {
                Field::Time => batch.push_i64(field, 1_000),
                _ if full => {
                    batch.push_i64(field, 7);
                    batch.push_u64(field, 7);
                    batch.push_text(field, Some(b"/var/log/a"));
                }
                _ => {
                    batch.push_i64(field, MISSING_I64);
                    batch.push_u64(field, MISSING_U64);
                    batch.push_text(field, None);
                }
            }
        }
        batch.end_row();
    }
    batch
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let filter = match Filter::parse(text) {
        Ok(filter) => filter,
        Err(error) => {
            assert!(error.to_string().ends_with('.') && error.caret().contains('^'));
            return;
        }
    };
    let written = filter.to_string();
    assert_eq!(Filter::parse(&written).as_ref(), Ok(&filter), "{written}");
    let Ok(mut bound) = filter.bind(TraceStart { start_ns: Some(1_000), to_unix_ns: Some(0) }) else { return };
    let mut mask = Mask::default();
    bound.eval(&batch(), &mut mask);
    assert!(mask.len() == 2 && filter.fields().intersection(FieldSet::EVERY) == filter.fields());
});
