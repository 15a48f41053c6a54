//! Any bytes as histogram logs or JSON of fio, or a log of HdrHistogram: no panic, and histograms that agree with themselves.
#![no_main]

use latscope_capture_file::{Format, ReadOptions, SeriesReader};
use latscope_event::{FieldSet, Wording};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else { return };
    // A few bytes of gzip or zstd make gigabytes.
    if rest.starts_with(&[0x1f, 0x8b]) || rest.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return;
    }
    let format = match first % 6 {
        0 | 2 => Format::FioHist,
        1 | 3 => Format::FioJson,
        _ => Format::Hlog,
    };
    let lenient = first & 0x80 == 0;
    let options = ReadOptions { format: Some(format), lenient, ..ReadOptions::new(FieldSet::ALWAYS) };
    let mut reader = match SeriesReader::from_bytes("fuzz", rest.to_vec(), &options) {
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
});
