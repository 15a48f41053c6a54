use super::*;
use crate::read_bytes;
use latscope_event::{Clock, FieldType, Note};

/// Time, latency, path and size of each row.
type Event = (i64, u64, Option<String>, Option<u64>);

fn rows_of(text: &[u8], lenient: bool) -> Result<(Vec<Event>, Context), Error> {
    let mut events = Vec::new();
    let options = ReadOptions { lenient, ..ReadOptions::new(FieldSet::EVERY) };
    let context = read_bytes("t.csv", text, &options, &mut |_, batch| {
        for row in 0..batch.len() {
            let size = batch.u64s(Field::Size).map(|sizes| sizes[row]).filter(|&size| size != u64::MAX);
            let path = batch.text(Field::Path, row).map(str::to_string);
            events.push((batch.time()[row], batch.latency()[row], path, size));
        }
        ControlFlow::Continue(())
    })?;
    Ok((events, context))
}

#[test]
fn quotes_newlines_missing_and_empty_cells() {
    let text = b"time_ns,path,latency_ns,size\n\
        1,plain,5,4096\n2,\"a,\"\"b\"\"\nc\r\n\",6,\n3,\"\",7,0\n4,,8,\n5,'=cmd(),9,\n6,''quoted,10,\r\n\n7,\"'\",11,1\n";
    let event = |time, latency, path: Option<&str>, size| (time, latency, path.map(str::to_string), size);
    let expected = [
        event(1, 5, Some("plain"), Some(4096)),
        event(2, 6, Some("a,\"b\"\nc\r\n"), None),
        event(3, 7, Some(""), Some(0)),
        event(4, 8, None, None),
        event(5, 9, Some("=cmd()"), None),
        event(6, 10, Some("'quoted"), None),
        event(7, 11, Some(""), Some(1)),
    ];
    let (events, context) = rows_of(text, false).unwrap();
    assert_eq!(events, expected);
    assert_eq!((context.is_plain(), context.span_ns), (true, Some((1, 18))));
    let with_bom = [BOM, text].concat();
    assert_eq!(rows_of(&with_bom, false).unwrap().0, expected);
}

#[test]
fn what_is_no_row_names_its_line() {
    for (rows, line, why) in [
        ("1,2,x,4,5\n", 2, "more columns than the header"),
        ("1,2\n1,2,x,4\n", 2, "fewer columns"),
        ("1,2,x,4\n\n1.5,2,x,4\n", 4, "something other than an integer"),
        ("1,-2,x,4\n", 2, "something other than an integer"),
        ("1,18446744073709551615,x,4\n", 2, "something other than an integer"),
        ("1,18446744073709551616,x,4\n", 2, "something other than an integer"),
        ("-9223372036854775808,1,x,4\n", 2, "something other than an integer"),
        ("1,,x,4\n", 2, "no latency"),
        (",1,x,4\n", 2, "no time"),
        ("1,2,\"a\nb\"c,4\n", 2, "a quote inside an unquoted cell"),
        ("1,2,a\"b,4\n", 2, "a quote inside an unquoted cell"),
    ] {
        let text = format!("time_ns,latency_ns,path,size\n{rows}");
        let error = rows_of(text.as_bytes(), false).unwrap_err();
        assert_eq!(error.position, Position::Line(line), "{rows}: {error}");
        assert!(error.message.contains(why) && error.remedy == crate::Remedy::Lenient, "{rows}: {error}");
        let (events, context) = rows_of(format!("{text}7,8,y,9\n").as_bytes(), true).unwrap();
        assert_eq!(events.last(), Some(&(7, 8, Some("y".into()), Some(9))), "{rows}");
        assert_eq!(context.tally.get(Anomaly::UnparsedLines), 1, "{rows}");
    }
    for (header, why) in [
        ("time_ns,latency_ns,time_ns\n1,2,3\n", "The column time_ns appears twice"),
        ("time_ns,latency_ns,path", "is truncated"),
    ] {
        assert!(rows_of(header.as_bytes(), false).unwrap_err().message.contains(why), "{header}");
    }
}

/// A number that was cut would be another one.
#[test]
fn what_is_cut_is_no_row() {
    for (text, count) in
        [("1,2,x,4096\n2,3,y,40", 1), ("1,2,x,4096\n2,3", 1), ("1,2,x,4096\n2,3,\"y\n", 1), ("1,2,x,1\n2,3,\"y\nz", 1)]
    {
        let (events, context) = rows_of(format!("time_ns,latency_ns,path,size\n{text}").as_bytes(), false).unwrap();
        assert_eq!((events.len(), context.tally.get(Anomaly::Truncated)), (count, 1), "{text}");
    }
}

/// A quote that never ends takes a megabyte, not the memory of the machine.
#[test]
fn a_quoted_cell_has_a_limit() {
    let lines = "x\n".repeat(LONGEST_ROW);
    let text = format!("time_ns,latency_ns,path\n1,2,\"{lines}");
    let error = rows_of(text.as_bytes(), false).unwrap_err();
    assert_eq!(
        (error.position, error.message.contains("does not end within 1 MiB")),
        (Position::Line(2), true),
        "{error}"
    );
}

#[test]
fn clocks_follow_from_the_wall_column_and_starts_from_ends() {
    let (events, context) =
        rows_of(b"end_ns,latency_ns,wall\n1500,500,1970-01-01T00:00:10.000000500Z\n", false).unwrap();
    assert_eq!(events, [(1000, 500, None, None)]);
    let clock = Clock { name: "trace".into(), to_unix_ns: Some(10_000_000_500 - 1500), approximate: false };
    assert_eq!(context.clock, clock);
    assert_eq!(rows_of(b"time_ns,latency_ns\n5,1\n", false).unwrap().1.clock, Clock::unanchored("relative"));
    assert_eq!(rows_of(b"time_ns,latency_ns\n1795341571481000000,1\n", false).unwrap().1.clock, Clock::wall());
}

#[test]
fn unknown_columns_are_named() {
    let (events, context) = rows_of(b"id,time_ns,latency_ns,colour\n9,1,2,red\n", false).unwrap();
    assert_eq!(events, [(1, 2, None, None)]);
    assert_eq!(context.notes, [Note::UnknownColumns { names: vec!["id".into(), "colour".into()] }]);
}

#[test]
fn every_field_has_a_column() {
    for &field in Field::ALL {
        assert_eq!(Named::parse(field.name()), Some(Named::Field(field)));
        assert_eq!(is_text(Named::Field(field)), field.field_type() == FieldType::Text);
    }
}
