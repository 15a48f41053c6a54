//! `.lat`: what is written comes back, whatever happens to the file.

#![allow(clippy::unwrap_used)]

mod sample;

use latscope_capture_file::{Format, LatWriter, ReadOptions, parts, read};
use latscope_event::{Anomaly, Batch, Context, Field, FieldSet, MISSING_U64, Mask, Tally, Unfinished, Wait};
use proptest::prelude::*;
use sample::{Row, batch, context, fields, read_rows, rows};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

fn written(batches: &[Batch], fields: FieldSet) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = LatWriter::create(&mut file, fields, &context()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch, None).unwrap());
    writer.finish(&context()).unwrap();
    file
}

fn in_file(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.lat");
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

fn read_bytes(bytes: &[u8], fields: FieldSet) -> Result<(Vec<Row>, Context), String> {
    let (_folder, path) = in_file(bytes);
    read_rows(&path, fields)
}

/// A file of several small batches: a full one would need tens of thousands of events, so time cuts them.
fn small_batches() -> (Vec<u8>, Vec<Row>) {
    let mut file = Vec::new();
    let mut expected = Vec::new();
    let mut writer = LatWriter::create(&mut file, fields(), &context()).unwrap();
    for first in [0, 20, 40] {
        let batch = batch(fields(), first..first + 20);
        expected.extend(rows(&batch, fields()));
        std::thread::sleep(std::time::Duration::from_millis(950));
        writer.write(&batch, None).unwrap();
    }
    writer.finish(&context()).unwrap();
    (file, expected)
}

#[test]
fn events_and_context_come_back() {
    let batches: Vec<_> = [0..3, 3..40_000, 40_000..40_001].map(|numbers| batch(fields(), numbers)).into();
    let (read, account) = read_bytes(&written(&batches, fields()), fields()).unwrap();
    assert!(read == batches.iter().flat_map(|batch| rows(batch, fields())).collect::<Vec<_>>());
    assert_eq!(account, context());
}

#[test]
fn only_the_columns_asked_for_are_filled() {
    let (all, asked) = (fields(), [Field::Comm, Field::Stack].into_iter().collect());
    let batch = batch(all, 0..100);
    let (_folder, path) = in_file(&written(std::slice::from_ref(&batch), all));
    let mut seen = FieldSet::default();
    read(&path, &ReadOptions::new(asked), &mut |_, read| {
        seen = read.fields();
        assert_eq!(rows(read, asked), rows(&batch, asked));
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(seen, FieldSet::ALWAYS.with(&[Field::Comm]));
}

#[test]
fn a_mask_picks_events_and_a_missing_column_is_missing() {
    let batch = batch(fields(), 0..1000);
    let mut mask = Mask::filled(1000, true);
    mask.retain(|row| row % 3 == 1);
    let wider = fields().with(&[Field::Error]);
    let mut file = Vec::new();
    let mut writer = LatWriter::create(&mut file, wider, &context()).unwrap();
    writer.write(&batch, Some(&mask)).unwrap();
    writer.finish(&context()).unwrap();
    let expected: Vec<_> = rows(&batch, wider).into_iter().skip(1).step_by(3).collect();
    assert_eq!(read_bytes(&file, wider).unwrap().0, expected);
}

#[test]
fn cut_at_any_byte_it_yields_the_batches_before_the_cut() {
    let (file, expected) = small_batches();
    let (_folder, path) = in_file(&file);
    let handle = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let mut counts = Vec::new();
    // The last eight bytes are the end marker of the account: without them nothing is missing.
    for length in (0..file.len() - 8).rev() {
        handle.set_len(length as u64).unwrap();
        match read_rows(&path, fields()) {
            Ok((read, account)) => {
                assert!(expected.starts_with(&read), "cut at {length}");
                assert_eq!(account.tally.get(Anomaly::Truncated), 1, "cut at {length}");
                assert!(account.properties["cut"].contains("are unknown"), "cut at {length}");
                counts.push(read.len());
            }
            Err(error) => {
                let understood = ["empty", "Unknown format", "truncated within its header"];
                assert!(understood.iter().any(|word| error.contains(word)), "cut at {length}: {error}");
                assert_eq!(counts.last(), Some(&0), "cut at {length}: batches before were readable");
            }
        }
    }
    counts.dedup();
    assert_eq!(counts, [60, 40, 20, 0]);
}

/// A recording that is killed has the account that it left last: what waited then, without what completed since.
#[test]
fn cut_it_has_the_account_that_was_left_before() {
    let mut file = Vec::new();
    let (early, late) = (batch(fields(), 0..20), batch(fields(), 20..40));
    let end_ns = 1_800_000_000_000_000_000_i64;
    let wait = |what: &str, start_ns: i64| Unfinished {
        what: what.into(),
        start_ns,
        at_least_ns: end_ns.abs_diff(start_ns),
        wait: Wait::Counts,
        values: Default::default(),
    };
    let mut so_far = Context { span_ns: Some((0, end_ns)), ..context() };
    so_far.unfinished = vec![wait("hangs", -1), wait("completes", late.time()[5])];
    so_far.tally = Tally::default();
    so_far.tally.add(Anomaly::Unfinished, 2);
    so_far.tally.add(Anomaly::LostRecords, 7);
    let mut writer = LatWriter::create(&mut file, fields(), &context()).unwrap();
    writer.write(&early, None).unwrap();
    writer.note(&so_far).unwrap();
    let noted = writer.stored_bytes() as usize;
    // Nothing happens, and it is noted again.
    writer.note(&so_far).unwrap();
    let again = writer.stored_bytes() as usize;
    writer.write(&late, None).unwrap();
    writer.finish(&context()).unwrap();

    let names = |context: &Context| context.unfinished.iter().map(|wait| wait.what.clone()).collect::<Vec<_>>();
    let lost =
        |context: &Context| [Anomaly::Unfinished, Anomaly::LostRecords].map(|anomaly| context.tally.get(anomaly));
    for length in [noted, again] {
        let (read, account) = read_bytes(&file[..length], fields()).unwrap();
        assert_eq!(read, rows(&early, fields()));
        assert_eq!((names(&account), lost(&account)), (vec!["hangs".into(), "completes".into()], [2, 7]));
        assert_eq!((account.span_ns, account.knows_unfinished), (Some((0, end_ns)), true));
        assert!(account.properties["cut"].contains("are those of its end"), "{:?}", account.properties);
    }
    let (read, account) = read_bytes(&file[..file.len() - 9], fields()).unwrap();
    assert_eq!(read.len(), 40);
    assert_eq!((names(&account), lost(&account)), (vec!["hangs".into()], [1, 7]));
    // Whole, it has its own.
    assert_eq!(read_bytes(&file, fields()).unwrap().1, context());
    // A damaged one is none.
    let mut damaged = file[..noted].to_vec();
    let place = memchr::memmem::rfind(&damaged, b"ACC1").unwrap() - 20;
    damaged[place] ^= 1;
    let (_, account) = read_bytes(&damaged, fields()).unwrap();
    assert_eq!((names(&account), account.tally.get(Anomaly::DamagedBatches)), (vec![], 1));
    assert!(account.properties["cut"].contains("are unknown"), "{:?}", account.properties);
}

#[test]
fn zeros_after_a_crash_are_a_cut() {
    let (mut file, expected) = small_batches();
    let end = file.len();
    file[end / 2..].fill(0);
    let (read, account) = read_bytes(&file, fields()).unwrap();
    assert!(expected.starts_with(&read) && !read.is_empty());
    assert_eq!(account.tally.get(Anomaly::Truncated), 1);
}

#[test]
fn gzip_of_a_trace_is_seen_through() {
    let batch = batch(fields(), 0..10_000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&written(std::slice::from_ref(&batch), fields())).unwrap();
    let gzip = gzip.finish().unwrap();
    assert_eq!(read_bytes(&gzip, fields()).unwrap().0, rows(&batch, fields()));
    let (_, account) = read_bytes(&gzip[..gzip.len() - 100], fields()).unwrap();
    assert_eq!(account.tally.get(Anomaly::Truncated), 1);
}

/// Counts what passes through.
#[derive(Clone, Default)]
struct Disk(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_slow_trace_is_on_disk_within_a_second_and_survives_a_kill() {
    let disk = Disk::default();
    let on_disk = || read_bytes(&disk.0.lock().unwrap(), fields()).unwrap();
    let batch = batch(fields(), 0..5);
    let mut writer = LatWriter::create(disk.clone(), fields(), &context()).unwrap();
    assert_eq!(on_disk().1.host.as_deref(), Some("db1"), "the header is there before the first event");
    writer.write(&batch, None).unwrap();
    writer.flush_if_due().unwrap();
    assert_eq!(on_disk().0.len(), 0, "too early for a batch of its own");
    std::thread::sleep(std::time::Duration::from_millis(950));
    writer.flush_if_due().unwrap();
    assert_eq!(on_disk().0, rows(&batch, fields()));
    drop(writer);
    let (_, account) = on_disk();
    assert_eq!(account.tally.get(Anomaly::Truncated), 1);
    let end = |row: usize| batch.time()[row] + batch.latency()[row] as i64;
    let span = (*batch.time().iter().min().unwrap().min(&5), (0..5).map(end).max().unwrap());
    assert_eq!(account.span_ns, Some(span), "without the account the span is that of the events");
}

#[test]
fn a_limit_of_bytes_is_kept_and_made_use_of() {
    let whole = batch(fields(), 0..120_000);
    let expected = rows(&whole, fields());
    for most in [64 << 10, 200 << 10, 1 << 20] {
        let (mut read, mut sizes) = (Vec::new(), Vec::new());
        while read.len() < whole.len() {
            let mut file = Vec::new();
            let mut writer = LatWriter::create(&mut file, fields(), &context()).unwrap();
            let end = writer.end_bytes(&context()).unwrap();
            writer.write_within(&whole, None, read.len(), most - end).unwrap();
            let (gathered_from, stored) = (writer.stored_bytes(), writer.stored_events());
            writer.finish(&context()).unwrap();
            let part = read_bytes(&file, fields()).unwrap().0;
            assert!(stored <= part.len() as u64 && gathered_from <= file.len() as u64);
            read.extend(part);
            sizes.push(file.len() as u64);
        }
        assert!(read == expected, "each event is in one of the files");
        assert!(sizes.iter().all(|&size| size <= most), "{most}: {sizes:?}");
        let full = &sizes[..sizes.len() - 1];
        assert!(full.iter().all(|&size| size > most / 2), "{most}: {sizes:?}");
    }
}

/// Frozen: this file must stay readable. The rows are those of `sample::batch`.
#[test]
fn the_first_version_stays_readable() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/lat/v1.lat");
    let (read, account) = read_rows(&path, fields()).unwrap();
    assert_eq!(read, rows(&batch(fields(), 0..200), fields()));
    // It has only words for what was unfinished, so whether that waited is not known.
    let mut expected = context();
    expected.notes.clear();
    expected.knows_unfinished = false;
    (expected.unfinished[0].wait, expected.unfinished[0].values) = Default::default();
    assert_eq!(account, expected);
}

#[test]
fn a_newer_version_is_refused_with_the_way_out() {
    let mut file = written(&[batch(fields(), 0..5)], fields());
    let key = file.windows(16).position(|window| window == b"latscope.version").unwrap();
    // The value lies within a few bytes of its key; every lone "1" there is the version.
    let near = key.saturating_sub(40)..key + 40;
    let value = near.clone().find(|&at| file[at..].starts_with(b"\x01\0\0\x001\0")).unwrap() + 4;
    file[value] = b'2';
    let error = read_bytes(&file, fields()).unwrap_err();
    assert!(error.contains("version 2") && error.contains("use a newer latscope"), "{error}");
}

#[test]
fn no_flipped_bit_changes_events_without_a_word() {
    let rows_of = |file: &[u8]| read_bytes(file, fields());
    let (file, expected) = small_batches();
    let mut left_out = 0;
    for at in 0..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 1 << (at % 8);
        let Ok((read, account)) = rows_of(&damaged) else { continue };
        let reported = account.tally.get(Anomaly::DamagedBatches) + account.tally.get(Anomaly::Truncated);
        assert!(read.iter().all(|row| expected.contains(row)), "byte {at}");
        assert!(reported > 0 || (read == expected && account == context()), "byte {at}");
        left_out += u64::from(account.tally.get(Anomaly::Truncated) == 0 && !read.is_empty() && read.len() < 60);
    }
    // Most damage costs the batch that has it, and no other.
    assert!(left_out > file.len() as u64 / 4, "{left_out} of {}", file.len());
}

/// The dictionary of the device is the same in all batches.
#[test]
fn a_damaged_batch_takes_no_other() {
    let mut batch = Batch::new(FieldSet::ALWAYS.with(&[Field::Device]));
    for row in 0..Batch::ROWS as u64 {
        batch.push_i64(Field::Time, row.cast_signed());
        batch.push_u64(Field::Latency, row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40);
        batch.push_text(Field::Device, Some(b"sda"));
        batch.end_row();
    }
    let file = written(&vec![batch.clone(); 5], batch.fields());
    for tenth in [1, 3, 5, 7, 9] {
        let mut damaged = file.clone();
        damaged[file.len() * tenth / 10] ^= 0x55;
        let (_folder, path) = in_file(&damaged);
        let mut left = 0;
        let options = ReadOptions::new(batch.fields());
        let account = read(&path, &options, &mut |_, batch| {
            left += batch.text(Field::Device, 0).map_or(0, |_| batch.len());
            ControlFlow::Continue(())
        });
        assert_eq!((left, account.unwrap().tally.get(Anomaly::DamagedBatches)), (4 * Batch::ROWS, 1), "{tenth}");
    }
}

#[test]
fn arrow_reads_what_has_checksums() {
    let (file, expected) = small_batches();
    let reader = arrow_ipc::reader::StreamReader::try_new(&file[..], None).unwrap();
    assert_eq!(reader.map(|records| records.unwrap().num_rows()).sum::<usize>(), expected.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_anywhere_it_neither_panics_nor_invents_events(
        damages in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut file = written(&[batch(fields(), 0..300)], fields());
        for (at, value) in damages {
            let at = at.index(file.len());
            file[at] = value;
        }
        if let Ok((read, _)) = read_bytes(&file, fields()) {
            prop_assert!(read.len() <= 300);
        }
    }

    #[test]
    fn any_values_come_back(
        events in proptest::collection::vec((any::<i64>(), any::<u64>(), any::<i64>(), any::<u64>(), proptest::option::of(".{0,8}")), 0..50),
    ) {
        let fields = [Field::Pid, Field::Queue, Field::Path].into_iter().collect::<FieldSet>().union(FieldSet::ALWAYS);
        let mut batch = Batch::new(fields);
        for (time, latency, pid, queue, path) in &events {
            batch.push_i64(Field::Time, *time);
            batch.push_u64(Field::Latency, (*latency).min(MISSING_U64 - 1));
            batch.push_i64(Field::Pid, *pid);
            batch.push_u64(Field::Queue, *queue);
            batch.push_text(Field::Path, path.as_ref().map(String::as_bytes));
            batch.end_row();
        }
        let expected = rows(&batch, fields);
        let (read, account) = read_bytes(&written(&[batch], fields), fields).unwrap();
        prop_assert_eq!(read, expected);
        prop_assert_eq!(account, context());
    }
}

#[test]
fn a_file_cannot_say_what_views_cannot_show() {
    let mut odd = context();
    odd.span_ns = Some((9, 5));
    odd.unfinished = vec![odd.unfinished[0].clone(); 2 * Context::UNFINISHED_KEPT];
    let (_, account) =
        read_bytes(&LatWriter::create(Vec::new(), fields(), &odd).unwrap().finish(&odd).unwrap(), fields()).unwrap();
    assert_eq!((account.span_ns, account.unfinished.len()), (Some((5, 9)), Context::UNFINISHED_KEPT));

    // No account of the time, and values that stand for missing ones where none may be missing.
    for (time_ns, latency_ns) in [(70, 7), (i64::MIN, 7), (70, MISSING_U64)] {
        let mut batch = Batch::new(FieldSet::ALWAYS);
        batch.push_i64(Field::Time, time_ns);
        batch.push_u64(Field::Latency, latency_ns);
        batch.end_row();
        odd.span_ns = None;
        let mut writer = LatWriter::create(Vec::new(), FieldSet::ALWAYS, &odd).unwrap();
        writer.write(&batch, None).unwrap();
        let (rows, account) = read_bytes(&writer.finish(&odd).unwrap(), FieldSet::ALWAYS).unwrap();
        let is_whole = (time_ns, latency_ns) == (70, 7);
        assert_eq!((rows.len(), account.span_ns), if is_whole { (1, Some((70, 77))) } else { (0, None) });
        assert_eq!(account.tally.get(Anomaly::DamagedRecords), u64::from(!is_whole));
    }
}

#[test]
fn parts_have_every_event_once_and_the_last_one_the_account() {
    let (file, expected) = small_batches();
    let (_folder, path) = in_file(&file);
    let whole = 0..u64::MAX;
    assert_eq!(parts(&path, Format::Lat), [whole], "small files have one part");
    for at in (1..file.len() as u64).step_by(97) {
        let mut found = Vec::new();
        for within in [0..at, at..at + 500, at + 500..u64::MAX] {
            let is_last = within.end == u64::MAX;
            let options = ReadOptions { within: Some(within), ..ReadOptions::new(fields()) };
            let account = read(&path, &options, &mut |_, batch| {
                found.extend(rows(batch, fields()));
                ControlFlow::Continue(())
            });
            let account = account.unwrap();
            assert_eq!(account.tally == context().tally, is_last, "{account:?}");
        }
        assert!(found == expected, "parts from byte {at}");
    }
}

#[test]
fn parts_of_long_files_are_16_mib_long() {
    let (folder, _) = in_file(b"");
    let path = folder.path().join("long.lat");
    std::fs::File::create(&path).unwrap().set_len(50 << 20).unwrap();
    const PART: u64 = 16 << 20;
    assert_eq!(parts(&path, Format::Lat), [0..PART, PART..2 * PART, 2 * PART..u64::MAX]);
}

#[test]
fn a_recording_starts_when_its_header_says() {
    let mut early = Batch::new(FieldSet::ALWAYS);
    for (start_ns, latency_ns) in [(700, 900), (1500, 300)] {
        early.push_i64(Field::Time, start_ns);
        early.push_u64(Field::Latency, latency_ns);
        early.end_row();
    }
    let starts = |header: Option<(i64, i64)>, is_cut: bool| {
        let start = Context { span_ns: header, ..context() };
        let mut file = Vec::new();
        let mut writer = LatWriter::create(&mut file, FieldSet::ALWAYS, &start).unwrap();
        writer.write(&early, None).unwrap();
        let end = Context { span_ns: Some((1000, 2000)), ..context() };
        writer.finish(&end).unwrap();
        let cut = if is_cut { 20 } else { 0 };
        let (_folder, path) = in_file(&file[..file.len() - cut]);
        let mut first = None;
        let account = read(&path, &ReadOptions::new(FieldSet::ALWAYS), &mut |context, _| {
            first = context.span_ns;
            ControlFlow::Continue(())
        });
        (first, account.unwrap().span_ns)
    };
    // A request that was issued before the recording is in it, too; of a recording that was cut, the span covers it.
    assert_eq!(starts(Some((1000, 1000)), false), (Some((1000, 1800)), Some((1000, 2000))));
    assert_eq!(starts(Some((1000, 1000)), true), (Some((1000, 1800)), Some((700, 1800))));
    assert_eq!(starts(None, true), (Some((700, 1800)), Some((700, 1800))));
}
