//! Any bytes as a file of frames: no panic, and histograms that agree with themselves.
#![no_main]

use latscope_capture_file::{Format, ReadOptions, SeriesReader};
use latscope_event::{Context, FieldSet, Wording};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // A few bytes of gzip or zstd make gigabytes.
    if bytes.starts_with(&[0x1f, 0x8b]) || bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return;
    }
    let options = ReadOptions { format: Some(Format::Frames), ..ReadOptions::new(FieldSet::ALWAYS) };
    let mut reader = match SeriesReader::from_bytes("fuzz", bytes.to_vec(), &options) {
        Ok(reader) => reader,
        Err(error) => return assert!(error.to_string().ends_with('.'), "{error} is no sentence"),
    };
    let groups = reader.header().group_fields.len();
    for row in reader.by_ref() {
        let Ok(row) = row else { return };
        assert_eq!(row.groups.len(), groups);
        assert!(row.time_ns.checked_add_unsigned(row.width_ns).is_some());
        assert!(row.histogram.totals().min <= row.histogram.totals().max);
        assert_eq!(row.histogram.counts().iter().sum::<u64>(), row.histogram.totals().count);
    }
    assert!(reader.context().unfinished.len() <= Context::UNFINISHED_KEPT);
    assert!(Wording::default().lines(reader.context()).iter().all(|note| !note.text.is_empty()));
});
