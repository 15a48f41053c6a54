//! One flipped bit anywhere in one of our own Parquet files is noticed.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "other tests use more of it")]
mod sample;

use latscope_capture_file::{
    ParquetWriter, ReadOptions, SeriesHeader, SeriesReader, SeriesRow, read_bytes, write_series_parquet,
};
use latscope_event::{Anomaly, FieldSet};
use latscope_histogram::{Grid, Histogram};
use sample::{Row, batch, context, fields, rows};
use std::ops::ControlFlow;

fn events() -> Vec<u8> {
    let mut writer = ParquetWriter::create(Vec::new(), fields()).unwrap();
    writer.write(&batch(fields(), 0..40), None).unwrap();
    writer.finish(&context()).unwrap()
}

fn read(file: &[u8], of: FieldSet) -> Result<(Vec<Row>, latscope_event::Context), String> {
    let mut read = Vec::new();
    let ended = read_bytes("t.parquet", file, &ReadOptions::new(of), &mut |_, batch| {
        read.extend(rows(batch, of));
        ControlFlow::Continue(())
    });
    ended.map(|context| (read, context)).map_err(|error| error.message)
}

#[test]
fn no_flipped_bit_changes_events_without_a_word() {
    let file = events();
    for of in [fields(), FieldSet::ALWAYS] {
        let expected = read(&file, of).unwrap();
        let mut noticed = 0;
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 1 << (at % 8);
            match read(&damaged, of) {
                Ok(found) if found == expected => {}
                Ok((_, account)) => assert!(account.tally.get(Anomaly::DamagedRecords) > 0, "byte {at}"),
                Err(message) => {
                    assert!(message.ends_with('.'), "{message}");
                    noticed += 1;
                }
            }
        }
        assert_eq!(noticed, file.len(), "all of a short file is one block, or its end");
    }
}

#[test]
fn no_flipped_bit_changes_histograms_without_a_word() {
    let header = SeriesHeader { group_fields: vec!["device".into()], value: "latency".into(), weight: "count".into() };
    let row = |at: i64| {
        let mut histogram = Histogram::new(Grid::FINE, false);
        (0..50).for_each(|value| histogram.record_many(1000 * (at as u64 + 1) + value * 77, 3, 0));
        let groups = vec![format!("sd{at}")].into();
        SeriesRow {
            time_ns: at * 1_000_000_000,
            width_ns: 1_000_000_000,
            groups,
            histogram: histogram.to_sparse(),
            waiting: None,
        }
    };
    let file = write_series_parquet(Vec::new(), &header, &context(), (0..8).map(row)).unwrap();
    let read = |file: Vec<u8>| -> Result<Vec<SeriesRow>, String> {
        let reader = SeriesReader::from_bytes("t.parquet", file, &ReadOptions::new(FieldSet::ALWAYS))
            .map_err(|error| error.message)?;
        reader.collect::<Result<_, _>>().map_err(|error| error.message)
    };
    assert_eq!(read(file.clone()), Ok((0..8).map(row).collect::<Vec<_>>()));
    for at in 0..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(read(damaged).is_err(), "byte {at}");
    }
}
