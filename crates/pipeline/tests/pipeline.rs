//! The pipeline as a library: what a consumer sees of notes, cancellation, errors and parallel reading.
#![allow(clippy::unwrap_used, missing_docs)]

use latscope_capture_file::ParquetWriter;
use latscope_event::{Batch, Clock, Context, Field, FieldSet, Mask};
use latscope_filter::Filter;
use latscope_pipeline::{Control, Error, Folding, Notice, Observer, Origin, Pipeline, Reading};
use latscope_series::{Interval, Quantity, SeriesBuilder, Weight};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Keeps what it observes.
#[derive(Default)]
struct Witness {
    notices: Mutex<Vec<String>>,
    ended: AtomicUsize,
}

impl Observer for Witness {
    fn notice(&self, notice: &Notice) {
        self.notices.lock().unwrap().push(notice.to_string());
    }

    fn ended(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }
}

fn latency_us(file: usize, row: usize) -> usize {
    1 + (row * 7919 + file * 104_729) % 99_991
}

/// Files of two columns, seconds and seconds: so many rows each.
fn files(folder: &Path, files: usize, rows: usize) -> Vec<PathBuf> {
    let file = |number: usize| {
        let row = |row: usize| format!("{row}.{number:03} 0.{:06}\n", latency_us(number, row));
        let path = folder.join(format!("{number}.txt"));
        std::fs::write(&path, (0..rows).map(row).collect::<String>()).unwrap();
        path
    };
    (0..files).map(file).collect()
}

fn reading(files: Vec<PathBuf>, filter: &str) -> Reading {
    let filter = (!filter.is_empty()).then(|| Filter::parse(filter).unwrap());
    Reading { files, filter, ..Reading::default() }
}

#[test]
fn many_files_at_a_time_fold_to_what_they_are_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), 17, 3000);
    for (filter, least_us) in [("", 0), ("lat > 20ms", 20_001)] {
        let pipeline = Pipeline::open(reading(files.clone(), filter), Control::default()).unwrap();
        for (interval, weight) in [(None, Weight::Count), (Some(10_000_000_000), Weight::Time)] {
            let folding = Folding { weight, ..Folding::of_latencies(interval) };
            let (series, contexts) = pipeline.series(&folding, 50).unwrap();
            assert_eq!(contexts.len(), 17);
            let interval = interval.map_or(Interval::Auto(50), Interval::Fixed);
            let mut builder = SeriesBuilder::new(Quantity::Latency, weight, Vec::new(), interval);
            pipeline
                .each_batch::<Error>(builder.fields(), |context, batch, mask, starts| {
                    if starts {
                        builder.start_trace();
                    }
                    builder.starts_at(context.start_ns);
                    builder.add(batch, mask);
                    ControlFlow::Continue(())
                })
                .unwrap();
            let total = series.total(None);
            assert_eq!(total.to_sparse(), builder.finish().total(None).to_sparse(), "{filter}");
            let rows = (0..17).flat_map(|file| (0..3000).map(move |row| latency_us(file, row)));
            let passing: Vec<usize> = rows.filter(|&us| us >= least_us).collect();
            let expected = (passing.len() as u64, passing.iter().sum::<usize>() as u128 * 1000);
            assert_eq!((total.totals().count, total.totals().sum), expected, "{filter}");
        }
    }
}

#[test]
fn a_cancelled_reading_is_a_part_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), 1, 400_000);
    let (cancelled, witness) = (Arc::new(AtomicBool::new(false)), Arc::new(Witness::default()));
    let control = Control::new(Arc::clone(&cancelled), Arc::clone(&witness) as Arc<dyn Observer>);
    let pipeline = Pipeline::open(reading(files, ""), control).unwrap();
    let mut events = 0;
    let contexts = pipeline
        .each_batch::<Error>(FieldSet::ALWAYS, |_, batch, _, _| {
            events += batch.len();
            cancelled.store(true, Ordering::SeqCst);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(0 < events && events < 400_000, "{events}");
    let message = format!("{contexts:?}");
    assert!(message.contains("nterrupted"), "{message}");
    assert_eq!(witness.ended.load(Ordering::SeqCst), 1);
    assert!(!pipeline.is_read_again());
}

#[derive(Debug)]
enum Own {
    Enough(usize),
    Pipeline(Error),
}

impl From<Error> for Own {
    fn from(error: Error) -> Own {
        Own::Pipeline(error)
    }
}

#[test]
fn what_the_caller_breaks_with_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let pipeline = Pipeline::open(reading(files(folder.path(), 3, 10), ""), Control::default()).unwrap();
    let add = |sum: &mut usize, _, _: &Context, batch: &Batch, _: Option<&Mask>| {
        *sum += batch.len();
        ControlFlow::Break(Own::Enough(*sum))
    };
    let broken = pipeline.fold(FieldSet::ALWAYS, &|| 0, add, |sum, more| *sum += more);
    assert!(matches!(broken, Err(Own::Enough(10))), "{broken:?}");
}

/// Whichever thread meets its own sooner.
#[test]
fn of_several_files_that_fail_the_first_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = files(folder.path(), 3, 10);
    files.insert(1, folder.path().join("absent-1"));
    files.insert(3, folder.path().join("absent-3"));
    let pipeline = Pipeline::open(reading(files, ""), Control::default()).unwrap();
    let nothing = |_: &mut (), _, _: &Context, _: &Batch, _: Option<&Mask>| ControlFlow::Continue(());
    let failed: Result<_, Own> = pipeline.fold(FieldSet::ALWAYS, &|| (), nothing, |_, ()| {});
    let Err(Own::Pipeline(error @ Error::Read(_))) = failed else { panic!("{failed:?}") };
    assert!(error.to_string().contains("absent-1") && !error.is_usage(), "{error}");
}

#[test]
fn a_filter_that_lets_nothing_through_is_noted_once_for_all_files() {
    let folder = tempfile::tempdir().unwrap();
    let witness = Arc::new(Witness::default());
    let control = Control::new(Arc::default(), Arc::clone(&witness) as Arc<dyn Observer>);
    let pipeline = Pipeline::open(reading(files(folder.path(), 5, 10), "lat > 1h"), control).unwrap();
    let (series, _) = pipeline.series(&Folding::of_latencies(None), 10).unwrap();
    assert_eq!(series.total(None).totals().count, 0);
    let notes = witness.notices.lock().unwrap();
    assert!(notes.len() == 1 && notes[0].starts_with("No event matches the filter"), "{notes:?}");
}

#[test]
fn files_given_twice_are_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = files(folder.path(), 1, 10);
    let link = folder.path().join("link.txt");
    std::os::unix::fs::symlink(&files[0], &link).unwrap();
    files.push(link.clone());
    let witness = Arc::new(Witness::default());
    let control = Control::new(Arc::default(), Arc::clone(&witness) as Arc<dyn Observer>);
    let pipeline = Pipeline::open(reading(files, ""), control).unwrap();
    assert_eq!(pipeline.reading().files.len(), 1);
    let notes = witness.notices.lock().unwrap();
    assert!(notes.len() == 1 && notes[0].starts_with(&link.display().to_string()), "{notes:?}");
}

#[test]
fn where_histograms_come_from_is_decided_by_what_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let texts = files(folder.path(), 1, 10);
    let events = folder.path().join("events.parquet");
    let mut batch = Batch::new(FieldSet::ALWAYS);
    batch.push_i64(Field::Time, 5);
    batch.push_u64(Field::Latency, 7);
    batch.end_row();
    let mut writer = ParquetWriter::create(std::fs::File::create(&events).unwrap(), FieldSet::ALWAYS).unwrap();
    writer.write(&batch, None).unwrap();
    writer.finish(&Context::new("test", Clock::wall())).unwrap();
    let log = folder.path().join("x.hlog");
    std::fs::write(&log, "#[Histogram log format version 1.3]\n\"StartTimestamp\",\"Interval_Length\"\n").unwrap();
    let origin = |files: Vec<PathBuf>| {
        let pipeline = Pipeline::open(reading(files, ""), Control::default()).unwrap();
        pipeline.origin(&Folding::of_latencies(None)).unwrap()
    };
    assert_eq!(origin(texts.clone()), Origin::Events);
    assert_eq!(origin(vec![events]), Origin::Events);
    assert_eq!(origin(vec![texts[0].clone(), log]), Origin::Stored);
}

/// As the picture of all files counts them.
#[test]
fn relative_times_of_several_files_count_from_the_earliest() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, from: usize| {
        let rows = (from..from + 10).map(|second| format!("{second}.5 0.001\n"));
        let path = folder.path().join(name);
        std::fs::write(&path, rows.collect::<String>()).unwrap();
        path
    };
    let (early, late) = (file("early.txt", 100), file("late.txt", 105));
    let count = |files: Vec<PathBuf>, filter: &str| {
        let pipeline = Pipeline::open(reading(files, filter), Control::default()).unwrap();
        let (series, _) = pipeline.series(&Folding::of_latencies(None), 10).unwrap();
        series.total(None).totals().count
    };
    for files in [vec![early.clone(), late.clone()], vec![late.clone(), early]] {
        assert_eq!(count(files.clone(), "time < +1.7s"), 2);
        assert_eq!(count(files.clone(), "evt.reltime >= 11.7s"), 3);
        assert_eq!(count(files, "time in [+4.7s, +6.2s] and lat >= 1ms"), 4);
    }
    assert_eq!(count(vec![late], "time < +1.7s"), 2, "of one file from its own start");
}
