use super::*;
use crate::SeriesReader;
use latscope_event::FieldSet;
use latscope_histogram::{Grid, Histogram, Sparse};
use proptest::prelude::*;

const WIDTH_NS: u64 = 1_000_000_000;

fn histogram(values: &[u64]) -> Sparse {
    let mut histogram = Histogram::new(Grid::FINE, false);
    values.iter().for_each(|&value| histogram.record(value, 0));
    histogram.to_sparse()
}

fn row(interval: i64, device: &str, values: &[u64]) -> SeriesRow {
    let groups = vec![device.to_string()].into();
    SeriesRow {
        time_ns: interval * WIDTH_NS as i64,
        width_ns: WIDTH_NS,
        groups,
        histogram: histogram(values),
        waiting: None,
    }
}

fn written(rows: &[SeriesRow], context: &Context) -> Vec<u8> {
    let header = SeriesHeader { group_fields: vec!["device".into()], value: "latency".into(), weight: "count".into() };
    write_frames(Vec::new(), &header, context, WIDTH_NS, rows.to_vec()).unwrap()
}

fn read(bytes: &[u8]) -> (Vec<SeriesRow>, Context) {
    let mut reader = SeriesReader::from_bytes("x", bytes.to_vec(), &ReadOptions::new(FieldSet::ALWAYS)).unwrap();
    let rows = reader.by_ref().map(Result::unwrap).collect();
    (rows, reader.context().clone())
}

fn sample() -> (Vec<SeriesRow>, Context) {
    let rows = vec![row(5, "sda", &[1, 2, 70_000]), row(5, "sdb", &[9]), row(7, "sda", &[3_000_000])];
    let mut context = Context::new("perf script, x", Clock::wall());
    [4_500_000_000, 8_250_000_000].into_iter().for_each(|moment| context.cover(moment));
    context.tally.add(Anomaly::LostRecords, 3);
    let values = [("device".to_string(), latscope_event::Value::Text("sdb".into()))].into();
    let request = |start_ns, at_least_ns| latscope_event::Unfinished {
        what: "sdb".into(),
        start_ns,
        at_least_ns,
        wait: latscope_event::Wait::Counts,
        values: BTreeMap::clone(&values),
    };
    context.unfinished = vec![request(1_250_000_000, 7_000_000_000), request(8_249_999_900, 100)];
    (rows, context)
}

#[test]
fn a_series_and_its_account_come_back() {
    let (rows, context) = sample();
    let (again, account) = read(&written(&rows, &context));
    assert_eq!(again, rows);
    assert_eq!((account.span_ns, &account.tally), (context.span_ns, &context.tally));
    assert_eq!(account.unfinished, context.unfinished);
}

/// Whatever is cut off: rows are those from the start, and the cut is reported.
#[test]
fn every_cut_leaves_what_came_before() {
    let (rows, context) = sample();
    let bytes = written(&rows, &context);
    for cut in PREFACE.len()..bytes.len() {
        let (some, account) = read(&bytes[..cut]);
        assert!(rows.starts_with(&some), "{cut}");
        assert!(account.tally.get(Anomaly::Truncated) <= 1, "{cut}");
    }
    let early = SeriesReader::from_bytes("x", bytes[..5].to_vec(), &ReadOptions::new(FieldSet::ALWAYS));
    assert!(early.is_err_and(|error| error.message.contains("truncated")));
}

#[test]
fn a_flipped_bit_costs_a_record_and_is_reported() {
    let (rows, context) = sample();
    let bytes = written(&rows, &context);
    for at in PREFACE.len()..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x10;
        let Ok(mut reader) = SeriesReader::from_bytes("x", bytes, &ReadOptions::new(FieldSet::ALWAYS)) else {
            continue;
        };
        let some: Vec<_> = reader.by_ref().map_while(Result::ok).collect();
        assert!(some.iter().all(|row| rows.contains(row)), "{at}");
        let account = reader.context();
        let lost = account.tally.get(Anomaly::DamagedRecords) + account.tally.get(Anomaly::Truncated);
        assert!(lost > 0, "{at}");
    }
}

proptest! {
    /// Any order of the records behind the dictionary, and any repetition, is the same series.
    #[test]
    fn order_and_repetition_do_not_matter(order in proptest::collection::vec(0usize..8, 8..20), values in proptest::collection::vec(1u64..1 << 40, 8)) {
        let rows: Vec<_> = values.iter().zip(0..).map(|(&value, interval)| row(interval, "sda", &[value])).collect();
        let bytes = written(&rows, &Context::new("x", Clock::wall()));
        let mut records = Records::of_file(&bytes[PREFACE.len()..]);
        let mut records = std::iter::from_fn(|| records.next().unwrap()).map(|found| match found {
            Found::Record(record) => record,
            other => panic!("{other:?}"),
        }).collect::<Vec<_>>();
        let data = records.split_off(2);
        prop_assert_eq!(data.len(), 8);
        let sent = records.iter().chain(order.iter().map(|&at| &data[at])).chain(&data);
        let bytes = PREFACE.iter().copied().chain(sent.flat_map(|record| record.bytes().to_vec())).collect::<Vec<_>>();
        let (mut again, _) = read(&bytes);
        again.sort_by_key(|row| row.time_ns);
        prop_assert_eq!(again, rows);
    }
}
