//! What must be true of every trace, whatever the bytes that it was read from.

use latscope_capture_file::{Format, LatWriter, ReadOptions, SeriesReader, read_bytes};
use latscope_event::{Anomaly, Batch, Column, Context, Dictionary, Field, FieldSet, MISSING_CODE, MISSING_I64, MISSING_U64, Wording};
use std::ops::ControlFlow;

/// Rows that a reader may hand on at once: our own `.lat` takes batches of this size from others.
const ROWS_LIMIT: usize = 1 << 20;

/// What was read: every event in the order of the reader, and what the trace says about itself.
#[derive(Debug)]
pub struct Trace {
    /// Starts of the events.
    pub time: Vec<i64>,
    /// Their latencies.
    pub latency: Vec<u64>,
    /// The account at the end.
    pub context: Context,
    /// The same trace as a `.lat` file; empty without events or when not asked for.
    pub lat: Vec<u8>,
}

/// Reads the bytes with these options, writes them as `.lat` if asked to, and checks what must hold; `None` when they
/// are refused, in a sentence.
///
/// # Panics
/// When something does not hold, which is what the fuzzer looks for.
pub fn read_checked(bytes: &[u8], options: &ReadOptions, with_lat: bool) -> Option<Trace> {
    let (mut time, mut latency, mut writer) = (Vec::new(), Vec::new(), None);
    let result = read_bytes("fuzz", bytes, options, &mut |context, batch| {
        check_batch(batch);
        time.extend_from_slice(batch.time());
        latency.extend_from_slice(batch.latency());
        if with_lat {
            let writer = writer.get_or_insert_with(|| created(batch.fields(), context));
            writer.write(batch, None).expect("a trace in memory can be written");
        }
        ControlFlow::Continue(())
    });
    let context = match result {
        Ok(context) => context,
        Err(error) => {
            assert!(error.to_string().ends_with('.'), "{error} is no sentence");
            return None;
        }
    };
    check_context(&context, !time.is_empty());
    let lat = writer.map_or(Vec::new(), |writer| writer.finish(&context).expect("a trace in memory can be ended"));
    Some(Trace { time, latency, context, lat })
}

/// Reads with all fields, with two only, and (one input in sixteen, since it takes long) once more from the `.lat` that
/// was made of it: the same trace each time.
///
/// # Panics
/// When the three differ.
pub fn check(bytes: &[u8], options: &ReadOptions) {
    if is_packed(bytes) {
        return;
    }
    let with_lat = bytes.iter().fold(0, |sum: u8, &byte| sum.wrapping_add(byte)) % 16 == 0;
    let all = read_checked(bytes, &ReadOptions { fields: FieldSet::EVERY, ..options.clone() }, with_lat);
    let few = read_checked(bytes, &ReadOptions { fields: FieldSet::ALWAYS, ..options.clone() }, false);
    assert_eq!(all.is_some(), few.is_some(), "a projection decides over whether the trace can be read");
    let (Some(all), Some(few)) = (all, few) else { return };
    if options.format == Some(Format::Lat) && all.context.tally.get(Anomaly::DamagedRecords) > 0 {
        // Damage in a column that is not asked for is not seen, and then the trace goes on.
        assert!(few.time.starts_with(&all.time) && few.latency.starts_with(&all.latency), "other events");
    } else {
        assert!(all.time == few.time && all.latency == few.latency, "a projection changes the events");
        // Of a request in flight, a reader may know no more than what it was asked for.
        let (mut account, mut of_few) = (all.context.clone(), few.context.clone());
        for (one, other) in account.unfinished.iter_mut().zip(&mut of_few.unfinished) {
            assert!(other.values.iter().all(|(name, value)| one.values.get(name) == Some(value)), "other values");
            (one.values, other.values) = Default::default();
        }
        assert_eq!(account, of_few, "a projection changes the account");
    }
    if all.lat.is_empty() {
        return;
    }
    let lat = ReadOptions { format: Some(Format::Lat), ..ReadOptions::new(FieldSet::EVERY) };
    let again = read_checked(&all.lat, &lat, false).expect("our own trace can be read");
    assert!(all.time == again.time && all.latency == again.latency, "our own trace holds other events");
    assert_eq!(all.context, again.context, "our own trace has another account");
}

/// Reads the histograms of a series, which agree with themselves.
///
/// # Panics
/// When they do not.
pub fn check_series(bytes: &[u8], options: &ReadOptions) {
    if is_packed(bytes) {
        return;
    }
    let mut reader = match SeriesReader::from_bytes("fuzz", bytes.to_vec(), options) {
        Ok(reader) => reader,
        Err(error) => return assert!(error.to_string().ends_with('.'), "{error} is no sentence"),
    };
    let groups = reader.header().group_fields.len();
    for row in reader.by_ref() {
        let Ok(row) = row else { return };
        assert_eq!(row.groups.len(), groups);
        assert!(row.time_ns.checked_add_unsigned(row.width_ns).is_some());
        let totals = row.histogram.totals();
        assert!(totals.count == 0 || totals.min <= totals.max);
        assert_eq!(row.histogram.counts().iter().sum::<u64>(), totals.count);
    }
    assert!(Wording::default().lines(reader.context()).iter().all(|note| !note.text.is_empty()));
}

/// Reads a compressed event log of Spark. By the first byte, the rest is what follows the magic of the codec, and may be anything; or it
/// is the text of a log, which is packed in blocks of some length, and the packed log is the same trace as the text.
///
/// # Panics
/// When it is not.
pub fn check_packed(magic: &[u8], bytes: &[u8], pack: fn(&[&[u8]]) -> Vec<u8>) {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let log = ReadOptions { format: Some(Format::SparkEventlog), ..ReadOptions::new(FieldSet::EVERY) };
    let options = ReadOptions { all_of_spark: first & 2 > 0, ..log };
    if first & 1 == 0 {
        read_checked(&[magic, rest].concat(), &options, false);
        return;
    }
    // What is packed itself is no text.
    if rest.first().is_none_or(|byte| !(b" \n{".contains(byte))) {
        return;
    }
    let blocks: Vec<&[u8]> = rest.chunks(64 + usize::from(first) * 8).collect();
    let packed = read_checked(&pack(&blocks), &options, false);
    let plain = read_checked(rest, &options, false);
    assert_eq!(packed.is_some(), plain.is_some(), "packing decides over whether the log can be read");
    let (Some(packed), Some(plain)) = (packed, plain) else { return };
    assert!(packed.time == plain.time && packed.latency == plain.latency, "packing changes the events");
    assert_eq!(packed.context, plain.context, "packing changes the account");
}

/// A few bytes of gzip or zstd make gigabytes; they end in the same readers, so nothing is lost by leaving them out.
fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b]) || bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
}

fn created(fields: FieldSet, context: &Context) -> LatWriter<Vec<u8>> {
    LatWriter::create(Vec::new(), fields, context).expect("a trace in memory can be begun")
}

fn check_batch(batch: &Batch) {
    assert!(!batch.is_empty() && batch.len() <= ROWS_LIMIT, "a batch of {} events", batch.len());
    assert!(!batch.time().contains(&MISSING_I64), "an event without its time");
    assert!(!batch.latency().contains(&MISSING_U64), "an event without its latency");
    for &field in Field::ALL {
        let dictionary = batch.dictionary(field);
        assert!(dictionary.texts().len() <= Dictionary::LIMIT + 1);
        let length = match batch.column(field) {
            None => continue,
            Some(Column::I64(values)) => values.len(),
            Some(Column::U64(values)) => values.len(),
            Some(Column::Text(codes)) => {
                let known = |&code: &u32| code == MISSING_CODE || dictionary.text(code).is_some();
                assert!(codes.iter().all(known), "a text of {} that is not in its dictionary", field.name());
                codes.len()
            }
        };
        assert_eq!(length, batch.len(), "the column {} has another length", field.name());
    }
}

fn check_context(context: &Context, has_events: bool) {
    assert!(context.span_ns.is_none_or(|(from, to)| from <= to));
    assert!(context.span_ns.is_some() || !has_events, "events outside of all time");
    assert!(context.unfinished.len() <= Context::UNFINISHED_KEPT);
    assert!(context.loss_ranges.len() <= Context::LOSS_RANGES_KEPT);
    // A count that wrapped around is beyond anything that a short input can say, or zero where there was something.
    assert!(context.tally.iter().all(|(_, count)| count > 0));
    assert!(Wording::default().lines(context).iter().all(|note| !note.text.is_empty()));
    let _ = context.trace_start();
}
