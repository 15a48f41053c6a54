//! `.parquet`: what is written comes back, here and in the programs that people open it with.

#![allow(clippy::unwrap_used)]

mod sample;

use arrow_array::{ArrayRef, Int32Array, Int64Array, LargeStringArray, RecordBatch, StringViewArray};
use latscope_capture_file::{
    Format, LatWriter, ParquetWriter, ReadOptions, SeriesHeader, SeriesReader, SeriesRow, write_series_parquet,
};
use latscope_event::{Anomaly, Batch, Field, FieldSet};
use latscope_histogram::{Grid, Histogram, Sparse};
use parquet::arrow::ArrowWriter;
use parquet::file::reader::{FileReader, SerializedFileReader};
use proptest::prelude::*;
use sample::{Row, batch, context, fields, push, read_rows, rows};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

fn as_series() -> ReadOptions<'static> {
    ReadOptions { format: Some(Format::ParquetSeries), ..ReadOptions::new(FieldSet::ALWAYS) }
}

fn in_folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.parquet");
    (folder, path)
}

fn write_events(path: &Path, fields: FieldSet, events: std::ops::Range<u64>) {
    let mut writer = ParquetWriter::create(File::create(path).unwrap(), fields).unwrap();
    let mut batch = Batch::new(fields);
    for number in events {
        push(&mut batch, number);
        if batch.is_full() {
            writer.write(&batch, None).unwrap();
            batch.clear();
        }
    }
    writer.write(&batch, None).unwrap();
    writer.finish(&context()).unwrap();
}

fn by_time(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by_key(|row| row[0].as_ref().and_then(|time| time.parse::<i64>().ok()));
    rows
}

#[test]
fn events_come_back_in_order_of_their_start() {
    let (_folder, path) = in_folder();
    write_events(&path, fields(), 0..50_000);
    let (read, account) = read_rows(&path, fields()).unwrap();
    assert!(read == by_time(rows(&batch(fields(), 0..50_000), fields())));
    assert_eq!(account, context());
    let asked = [Field::Comm, Field::Stack].into_iter().collect::<FieldSet>();
    assert!(
        read_rows(&path, asked).unwrap().0 == {
            let both = FieldSet::ALWAYS.union(asked);
            let all = by_time(rows(&batch(fields(), 0..50_000), both));
            all.into_iter().map(|row| row[2..].to_vec()).collect::<Vec<_>>()
        }
    );
}

#[test]
fn many_events_become_sorted_row_groups_with_statistics_and_page_index() {
    let (_folder, path) = in_folder();
    let few = FieldSet::ALWAYS.with(&[Field::Kind]);
    write_events(&path, few, 0..1_400_000);
    let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let metadata = file.metadata();
    let rows: Vec<_> = metadata.row_groups().iter().map(|group| group.num_rows()).collect();
    assert_eq!(rows, [524_288, 524_288, 351_424]);
    for group in metadata.row_groups() {
        assert!(
            group
                .columns()
                .iter()
                .all(|column| column.statistics().is_some() && column.offset_index_offset().is_some())
        );
        assert_eq!(group.sorting_columns().unwrap()[0].column_idx, 0);
    }
    let pairs = metadata.file_metadata().key_value_metadata().unwrap();
    let sorted = pairs.iter().find(|pair| pair.key == "latscope.sorted").unwrap();
    assert_eq!(sorted.value.as_deref(), Some("file"));
    let times = FieldSet::default().with(&[Field::Time]);
    let read = read_rows(&path, times).unwrap().0;
    assert_eq!(read.len(), 1_400_000);
    assert!(read.is_sorted_by_key(|row| row[0].as_ref().unwrap().parse::<i64>().unwrap()));
}

#[test]
fn a_foreign_file_is_read_by_the_names_of_its_columns() {
    let (_folder, path) = in_folder();
    let columns: [(&str, ArrayRef); 5] = [
        ("comm", Arc::new(LargeStringArray::from(vec![Some("fio"), None, Some("fio")]))),
        ("latency_ns", Arc::new(Int32Array::from(vec![Some(5), Some(-1), Some(7)]))),
        ("unknown", Arc::new(Int32Array::from(vec![1, 2, 3]))),
        ("time_ns", Arc::new(Int64Array::from(vec![30, 20, 10]))),
        ("device", Arc::new(StringViewArray::from(vec!["sda", "sdb", "sdc"]))),
    ];
    let records = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), records.schema(), None).unwrap();
    writer.write(&records).unwrap();
    writer.close().unwrap();
    let asked = [Field::Time, Field::Latency, Field::Device, Field::Comm, Field::Pid].into_iter().collect();
    let (read, account) = read_rows(&path, asked).unwrap();
    let row = |time: &str, latency: &str, device: &str| -> Row {
        [Some(time), Some(latency), Some(device), None, Some("fio")].map(|text| text.map(str::to_string)).into()
    };
    assert_eq!(read, [row("30", "5", "sda"), row("10", "7", "sdc")]);
    assert_eq!(account.tally.get(Anomaly::DamagedRecords), 1, "a negative latency is no event");
    assert_eq!(account.span_ns, Some((10, 35)));
}

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/parquet").join(name)
}

fn latencies(rows: &[Row]) -> Vec<u64> {
    rows.iter().map(|row| row[1].as_ref().unwrap().parse().unwrap()).collect()
}

#[test]
fn every_codec_is_read_or_named() {
    let always = FieldSet::ALWAYS;
    for codec in ["none", "snappy", "gzip", "zstd", "lz4"] {
        let (read, account) = read_rows(&testdata(&format!("{codec}.parquet")), always).unwrap();
        // The sum that pyarrow's author printed.
        assert_eq!((read.len(), latencies(&read).iter().sum::<u64>()), (1000, 2_535_436_326), "{codec}");
        assert_eq!(account.tally.get(Anomaly::DamagedRecords), 0, "{codec}");
    }
    assert_eq!(read_rows(&testdata("gzip_stranger.parquet"), always).unwrap().0.len(), 1000);
    let message = read_rows(&testdata("brotli.parquet"), always).unwrap_err();
    assert!(message.contains("compressed with brotli, which is not supported"), "{message}");
}

/// Pages of other programs may carry a checksum: a flipped bit is no event.
#[test]
fn a_flipped_bit_in_a_page_with_a_checksum_is_noticed() {
    let (_folder, path) = in_folder();
    let whole = std::fs::read(testdata("none.parquet")).unwrap();
    let (truth, _) = read_rows(&testdata("none.parquet"), FieldSet::ALWAYS).unwrap();
    // Values of the first two columns, without any structure that a parser could object to.
    for at in (100..15_000).step_by(997) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        std::fs::write(&path, &flipped).unwrap();
        match read_rows(&path, FieldSet::ALWAYS) {
            Ok((read, _)) => assert!(read == truth, "{at}"),
            Err(message) => assert!(message.contains("truncated or damaged"), "{at}: {message}"),
        }
    }
}

#[test]
fn a_duration_has_its_unit() {
    for (unit, expected) in [
        ("s", (1..=10).map(|k| k * 3_000_000_000).collect::<Vec<u64>>()),
        ("ms", (1..=10).map(|k| k * 3_000_000_000).collect()),
        ("us", (1..=10).map(|k| k * 1000).collect()),
        ("ns", (1..=10).map(|k| k * 1000).collect()),
    ] {
        let (read, _) = read_rows(&testdata(&format!("duration_{unit}.parquet")), FieldSet::ALWAYS).unwrap();
        assert_eq!(latencies(&read), expected, "{unit}");
    }
}

#[test]
fn what_is_no_event_file_is_refused_in_a_sentence() {
    let (_folder, path) = in_folder();
    let records = RecordBatch::try_from_iter([("a", Arc::new(Int32Array::from(vec![1])) as ArrayRef)]).unwrap();
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), records.schema(), None).unwrap();
    writer.write(&records).unwrap();
    writer.close().unwrap();
    assert!(read_rows(&path, fields()).unwrap_err().contains("The column time_ns is missing"));
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert!(read_rows(&path, fields()).unwrap_err().contains("truncated or damaged"));
    write_series(&path, &header("count"), series_rows(false));
    let message = read_rows(&path, fields()).unwrap_err();
    assert!(message.contains("histograms, not single events"), "{message}");
    assert!(SeriesReader::open(&path, &as_series()).is_ok());
    write_events(&path, fields(), 0..10);
    assert!(SeriesReader::open(&path, &as_series()).err().unwrap().to_string().contains("not a series"));
}

fn header(weight: &str) -> SeriesHeader {
    SeriesHeader { group_fields: vec!["device".into(), "kind".into()], value: "latency".into(), weight: weight.into() }
}

/// Ten intervals of two groups; the latencies are those of `sample::batch`.
fn series_rows(weighted: bool) -> Vec<SeriesRow> {
    let mut all = Vec::new();
    for interval in 0..10 {
        for (at, device) in ["sda", "sdb"].into_iter().enumerate() {
            let events = batch(FieldSet::ALWAYS, interval * 500 + at as u64 * 200..(interval + 1) * 500);
            let mut histogram = Histogram::new(Grid::FINE, weighted);
            events.latency().iter().for_each(|&latency| histogram.record(latency, latency / 7));
            let groups = vec![device.to_string(), "read".to_string()];
            let time_ns = interval as i64 * 1_000_000_000;
            all.push(SeriesRow {
                time_ns,
                width_ns: 1_000_000_000,
                groups: groups.into(),
                histogram: histogram.to_sparse(),
                waiting: None,
            });
        }
    }
    all
}

fn write_series(path: &Path, header: &SeriesHeader, rows: Vec<SeriesRow>) {
    write_series_parquet(File::create(path).unwrap(), header, &context(), rows).unwrap();
}

#[test]
fn a_series_comes_back_with_and_without_weights() {
    let (_folder, path) = in_folder();
    for weight in ["count", "time"] {
        let rows = series_rows(weight != "count");
        write_series(&path, &header(weight), rows.clone());
        let reader = SeriesReader::open(&path, &as_series()).unwrap();
        assert_eq!((reader.header(), reader.context()), (&header(weight), &context()));
        assert_eq!(reader.collect::<Result<Vec<_>, _>>().unwrap(), rows);
    }
}

#[test]
fn a_series_of_many_rows_and_coarse_grids_comes_back() {
    let (_folder, path) = in_folder();
    let coarse =
        |row: SeriesRow, power| SeriesRow { histogram: row.histogram.folded(Grid::with_power(power).unwrap()), ..row };
    let rows: Vec<_> = series_rows(false)
        .into_iter()
        .cycle()
        .take(3000)
        .enumerate()
        .map(|(at, row)| coarse(row, at as u8 % 7))
        .collect();
    write_series(&path, &header("count"), rows.clone());
    assert!(SeriesReader::open(&path, &as_series()).unwrap().map(Result::unwrap).eq(rows));
}

#[test]
fn a_series_that_contradicts_itself_is_refused() {
    let (_folder, path) = in_folder();
    let mut rows = series_rows(false);
    let sparse = &rows[0].histogram;
    // The writer trusts its caller; the reader trusts nobody.
    let mut totals = *sparse.totals();
    totals.min = totals.max;
    let parts = (sparse.indices().to_vec(), sparse.counts().to_vec());
    rows[0].histogram = Sparse::from_parts(sparse.grid(), parts.0, parts.1, None, totals).unwrap();
    write_series(&path, &header("count"), rows);
    let first = SeriesReader::open(&path, &as_series()).unwrap().next().unwrap();
    assert!(first.unwrap_err().to_string().contains("is inconsistent"));
}

#[test]
fn group_columns_may_not_take_the_names_of_others() {
    let header = SeriesHeader { group_fields: vec!["count".into()], ..header("count") };
    assert!(
        write_series_parquet(Vec::new(), &header, &context(), []).unwrap_err().to_string().contains("has that name")
    );
}

/// Python with duckdb, polars and pyarrow, or why not.
fn python() -> Result<String, String> {
    let python = std::env::var("LATSCOPE_PYTHON").unwrap_or_else(|_| "python3".into());
    match Command::new(&python).args(["-c", "import duckdb, polars, pyarrow"]).output() {
        Ok(output) if output.status.success() => Ok(python),
        Ok(_) => Err(format!("{python} lacks duckdb, polars or pyarrow (LATSCOPE_PYTHON names another interpreter)")),
        Err(error) => Err(format!("{python} does not run: {error}")),
    }
}

#[test]
fn duckdb_polars_and_pyarrow_open_our_files() {
    let python = match python() {
        Ok(python) => python,
        Err(reason) => return println!("skipped: {reason}"),
    };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write_events(&path("events.parquet"), fields(), 0..70_000);
    write_series(&path("series.parquet"), &header("time"), series_rows(true));
    let mut trace = LatWriter::create(File::create(path("trace.lat")).unwrap(), fields(), &context()).unwrap();
    // Several batches, each with dictionaries of its own.
    for numbers in [0..30_000, 30_000..70_000] {
        trace.write(&batch(fields(), numbers), None).unwrap();
    }
    trace.finish(&context()).unwrap();
    // The same values as text, written without any of the code under test.
    let lines: Vec<_> = rows(&batch(fields(), 0..70_000), fields())
        .into_iter()
        .map(|row| row.into_iter().map(|value| value.unwrap_or_default()).collect::<Vec<_>>().join("\t"))
        .collect();
    std::fs::write(path("events.tsv"), lines.join("\n")).unwrap();
    let series: Vec<_> = series_rows(true)
        .iter()
        .map(|row| {
            let totals = row.histogram.totals();
            format!("{}\t{}\t{}\t{}\t{}", row.time_ns, row.groups[0], totals.count, totals.sum, totals.max)
        })
        .collect();
    std::fs::write(path("series.tsv"), series.join("\n")).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/python/parquet_opens.py");
    let output = Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_anywhere_it_does_not_panic(
        damages in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let (_folder, path) = in_folder();
        write_events(&path, fields(), 0..300);
        let mut file = std::fs::read(&path).unwrap();
        for (at, value) in damages {
            let at = at.index(file.len());
            file[at] = value;
        }
        std::fs::write(&path, &file).unwrap();
        let _ = read_rows(&path, fields());
    }
}
