use super::*;
use crate::{Format, Position, SeriesReader};
use latscope_event::{Anomaly, FieldSet};
use latscope_histogram::Histogram;

fn read(name: &str) -> Result<(Vec<SeriesRow>, Context), Error> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/hlog").join(name);
    rows(SeriesReader::open(&path, &ReadOptions::new(FieldSet::ALWAYS))?)
}

fn read_bytes(bytes: Vec<u8>, lenient: bool) -> Result<(Vec<SeriesRow>, Context), Error> {
    let options = ReadOptions { format: Some(Format::Hlog), lenient, ..ReadOptions::new(FieldSet::ALWAYS) };
    rows(SeriesReader::from_bytes("test", bytes, &options)?)
}

fn rows(mut reader: SeriesReader) -> Result<(Vec<SeriesRow>, Context), Error> {
    let rows = reader.by_ref().collect::<Result<Vec<_>, _>>()?;
    Ok((rows, reader.context().clone()))
}

fn sum<'a>(rows: impl IntoIterator<Item = &'a SeriesRow>) -> Histogram {
    let mut sum = Histogram::new(Grid::FINE, false);
    rows.into_iter().for_each(|row| sum.add(&row.histogram));
    sum
}

/// Numbers that HdrHistogram's own tests expect of this log. They add it up with three digits, where the bin of the maximum
/// ends at 1,796,210,687; the log has two, and the bin that starts with it is eight times as wide.
#[test]
fn a_log_of_jhiccup() {
    let (rows, context) = read("jhiccup_v2.hlog").unwrap();
    let all = sum(&rows);
    let start = 1_796_210_688 - (1 << 20);
    assert_eq!((rows.len(), all.totals().count, all.totals().max), (62, 48_761, start + (1 << 23) - 1));
    assert_eq!((rows[0].time_ns, rows[0].width_ns), (1_441_812_279_601_000_000, 1_007_000_000));
    assert_eq!(context.clock, Clock::wall());
    // The 99.9th is 1,745,879,039: within a bucket of it.
    let quantile = all.quantiles(&[0.999], latscope_histogram::Rule::Interpolated).unwrap()[0];
    assert!(quantile.abs_diff(1_745_879_039) <= 1_745_879_039 / 64, "{quantile}");
}

#[test]
fn tags_are_groups() {
    let (rows, _) = read("tagged_v2.hlog").unwrap();
    let sum_of = |tag: &str| sum(rows.iter().filter(|row| *row.groups == [tag]));
    assert!(sum_of("A").totals().count > 10_000);
    assert_eq!(sum_of("A"), sum_of("-"), "the log has every row twice, once with the tag");
}

#[test]
fn the_first_version_of_the_encoding_is_refused() {
    let error = read("jhiccup_v1.hlog").unwrap_err();
    assert_eq!((error.position, error.message.contains("V1 encoding")), (Position::Line(5), true), "{error}");
}

#[test]
fn what_is_written_is_read_again() {
    let (rows, context) = read("jhiccup_v2.hlog").unwrap();
    let named = |row: &SeriesRow| SeriesRow { groups: ["read".into(), "a host, or two".into()].into(), ..row.clone() };
    let out = write_hlog(Vec::new(), &context, rows.iter().map(named)).unwrap();
    let (again, context_again) = read_bytes(out.clone(), false).unwrap();
    assert_eq!((again.len(), context_again.clock), (rows.len(), context.clock.clone()));
    for (row, again) in rows.iter().zip(&again) {
        assert_eq!((row.time_ns, row.width_ns), (again.time_ns, again.width_ns));
        assert_eq!(*again.groups, ["read/a_host__or_two"]);
        assert_eq!(
            (row.histogram.indices(), row.histogram.counts()),
            (again.histogram.indices(), again.histogram.counts())
        );
    }
    // Zero-based times stay as they are.
    let relative = Context::new("x\ny", Clock::unanchored("relative"));
    let shifted = rows.iter().map(|row| SeriesRow { time_ns: row.time_ns - rows[0].time_ns, ..row.clone() });
    let (again, context) = read_bytes(write_hlog(Vec::new(), &relative, shifted).unwrap(), false).unwrap();
    assert_eq!((again[0].time_ns, again[1].time_ns, context.clock.to_unix_ns), (0, 1_007_000_000, None));
    assert_eq!((context.start_ns, context_again.start_ns), (Some(0), None), "nothing was before the start");
    assert_eq!(*again[0].groups, ["-"]);
    // Cut anywhere it is what it holds, or a sentence.
    for cut in (0..out.len()).step_by(97) {
        for lenient in [false, true] {
            match read_bytes(out[..cut].to_vec(), lenient) {
                Ok((rows, _)) => assert!(rows.len() <= again.len()),
                Err(error) => {
                    let message = ["No row of an HdrHistogram log", "All rows are malformed"];
                    assert!(!lenient || message.iter().any(|&message| error.message.starts_with(message)), "{error}")
                }
            }
        }
    }
}

#[test]
fn strange_lines_and_absolute_times() {
    let good = "1441812279.5,1.0,2.769,HISTFAAAAEV42pNpmSzMwMCgyAABTBDKT4GBgdnNYMcCBvsPEBEJISEuATEZMQ4uASkhIR4nrxg9v2lMaxhvMekILGZkKmcCAEf2CsI=\n";
    let (one, context) =
        read_bytes(format!("#[StartTime: 1441812270.0 (seconds)]\n{good}").into_bytes(), false).unwrap();
    assert_eq!((one[0].time_ns, context.clock), (1_441_812_279_500_000_000, Clock::wall()));
    for (line, why) in [
        ("1,2,3", "something other than"),
        ("1,2,3,HISTF!", "not base 64"),
        ("1,2,3,HISTFAAAAEV42pNpm", "ends too early"),
        ("1,2,3,AAAA", "ends too early"),
        ("1,2,3,AAAAAAAA", "unknown encoding"),
        ("-1,2,3,HISTFAAAAEV42p", "something other than"),
        ("9999999999,2,3,HISTFAAAAEV42p", "an impossible time"),
    ] {
        let text = format!("{good}{line}\n{good}");
        let error = read_bytes(text.clone().into_bytes(), false).unwrap_err();
        assert_eq!((error.position, error.message.contains(why)), (Position::Line(2), true), "{error}");
        let (two, context) = read_bytes(text.into_bytes(), true).unwrap();
        assert_eq!((two.len(), context.tally.get(Anomaly::UnparsedLines)), (2, 1), "{line}");
    }
    // Without its newline, and the padding before it, a row is whole.
    for cut in 1..good.len() - 2 {
        let (one, context) = read_bytes(format!("{good}{}", &good[..cut]).into_bytes(), false).unwrap();
        assert_eq!((one.len(), context.tally.get(Anomaly::Truncated)), (1, 1), "{cut}");
    }
}
