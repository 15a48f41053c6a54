use super::*;
use proptest::prelude::*;

const FIELDS: [Field; 5] = [Field::Path, Field::Time, Field::Latency, Field::Pid, Field::Comm];

type Event = (i64, u64, i64, Option<String>);

/// Events without a command name: the column is asked for and not there.
fn batch(events: &[Event]) -> Batch {
    let mut batch = Batch::new([Field::Path, Field::Pid].into_iter().collect());
    for (time, latency, pid, path) in events {
        batch.push_i64(Field::Time, *time);
        batch.push_u64(Field::Latency, *latency);
        batch.push_i64(Field::Pid, *pid);
        batch.push_text(Field::Path, path.as_ref().map(String::as_bytes));
        batch.end_row();
    }
    batch
}

fn csv(batch: &Batch, mask: Option<&Mask>) -> String {
    let mut out = Vec::new();
    write_csv_rows(&mut out, batch, mask, &FIELDS).unwrap();
    String::from_utf8(out).unwrap()
}

fn json(batch: &Batch, mask: Option<&Mask>) -> String {
    let mut out = Vec::new();
    write_json_lines(&mut out, batch, mask, &FIELDS).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn rows_as_other_programs_expect_them() {
    let batch = batch(&[
        (-5, 7, 42, Some("/a \"b\", c\\\n\u{1}ä".into())),
        (i64::MAX, u64::MAX - 1, MISSING_I64, None),
        (0, 0, 0, Some(String::new())),
    ]);
    let mut header = Vec::new();
    write_csv_header(&mut header, &FIELDS).unwrap();
    assert_eq!(header, b"path,time_ns,latency_ns,pid,comm\n");
    assert_eq!(
        csv(&batch, None),
        "\"/a \"\"b\"\", c\\\n\u{1}ä\",-5,7,42,\n,9223372036854775807,18446744073709551614,,\n\"\",0,0,0,\n"
    );
    assert_eq!(
        json(&batch, None),
        "{\"path\":\"/a \\\"b\\\", c\\\\\\n\\u0001ä\",\"time_ns\":-5,\"latency_ns\":7,\"pid\":42}\n\
         {\"time_ns\":9223372036854775807,\"latency_ns\":18446744073709551614}\n\
         {\"path\":\"\",\"time_ns\":0,\"latency_ns\":0,\"pid\":0}\n"
    );
    let mut mask = Mask::filled(3, true);
    mask.retain(|row| row == 1);
    assert_eq!(csv(&batch, Some(&mask)).lines().count(), 1);
    assert_eq!(json(&batch, Some(&mask)), "{\"time_ns\":9223372036854775807,\"latency_ns\":18446744073709551614}\n");
}

/// A reader of CSV that follows RFC 4180 letter by letter; a quoted empty cell is kept apart from an empty one.
fn cells(text: &str) -> Vec<Vec<(bool, String)>> {
    let (mut rows, mut row, mut cell, mut quoted, mut inside) = (Vec::new(), Vec::new(), String::new(), false, false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if inside && letters.peek() == Some(&'"') => cell.extend(letters.next()),
            '"' => (inside, quoted) = (!inside, true),
            ',' | '\n' if !inside => {
                row.push((std::mem::take(&mut quoted), std::mem::take(&mut cell)));
                if letter == '\n' {
                    rows.push(std::mem::take(&mut row));
                }
            }
            letter => cell.push(letter),
        }
    }
    rows
}

proptest! {
    #[test]
    fn any_values_can_be_read_back(
        events in proptest::collection::vec(
            (any::<i64>(), any::<u64>(), any::<i64>(), proptest::option::of("[\\PC\\n\\r\\t\",\\\\\\x00-\\x1f]{0,12}")),
            0..20,
        ),
    ) {
        let batch = batch(&events);
        let number = |value: i64| if value == MISSING_I64 { String::new() } else { value.to_string() };
        let read = cells(&csv(&batch, None));
        prop_assert_eq!(read.len(), events.len());
        for (row, (time, latency, pid, path)) in read.iter().zip(&events) {
            let text = row[0].1.strip_prefix('\'').unwrap_or(&row[0].1);
            prop_assert_eq!((row[0].0 || !row[0].1.is_empty()).then_some(text), path.as_deref());
            // A sign alone computes nothing.
            prop_assert!(row[0].1 == "-" || !row[0].1.starts_with(['=', '+', '-', '@', '\t', '\r']));
            let latency = if *latency == MISSING_U64 { String::new() } else { latency.to_string() };
            let numbers: Vec<_> = row[1..].iter().map(|cell| cell.1.clone()).collect();
            prop_assert_eq!(numbers, [number(*time), latency, number(*pid), String::new()]);
        }
        let lines = json(&batch, None);
        prop_assert_eq!(lines.lines().count(), events.len());
        for (line, (time, .., path)) in lines.lines().zip(&events) {
            prop_assert!(!line.bytes().any(|byte| byte < 0x20), "control characters must be escaped");
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            let path_there = value["path"].as_str().map(str::to_string);
            prop_assert_eq!(&path_there, path);
            let key = format!("\"time_ns\":{time}");
            prop_assert_eq!(line.contains(&key), *time != MISSING_I64);
        }
    }
}
