//! What the views print, on small series whose numbers can be checked by hand.
#![allow(clippy::unwrap_used)]

use latscope_event::{Anomaly, Batch, Clock, Context, Field, FieldSet, Wording};
use latscope_series::{HistogramSeries, Interval, Quantity, SeriesBuilder, Weight};
use latscope_view::{Palette, Scale};
use latscope_view_term::{
    ColorDepth, HistogramOptions, Line, Orient, Outlier, Outliers, SpectrogramOptions, Summary, SummaryKey, TimeLabels,
    histogram, latency_maps, spectrogram,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// Events as end, latency, device and size.
fn series(events: &[(i64, u64, &str, u64)], weight: Weight, by: Vec<Field>, width_ns: u64) -> HistogramSeries {
    let mut builder = SeriesBuilder::new(Quantity::Latency, weight, by, Interval::Fixed(width_ns));
    let mut batch = Batch::new([Field::Device, Field::Size].into_iter().collect::<FieldSet>());
    for &(end, latency, device, size) in events {
        batch.push_i64(Field::Time, end.saturating_sub_unsigned(latency));
        batch.push_u64(Field::Latency, latency);
        batch.push_text(Field::Device, Some(device.as_bytes()));
        batch.push_u64(Field::Size, size);
        batch.end_row();
    }
    builder.add(&batch, None);
    builder.finish()
}

fn context() -> Context {
    let mut context = Context::new("perf script, out.txt", Clock::unanchored("boot"));
    context.host = Some("web1".into());
    context.tally.add(Anomaly::LostRecords, 7);
    context
}

fn texts(lines: impl IntoIterator<Item = Line>) -> Vec<String> {
    lines.into_iter().map(|line| line.text()).collect()
}

/// Ten quick events a second, one slow one in the third second, nothing in the fifth.
fn story() -> Vec<(i64, u64, &'static str, u64)> {
    let mut events = Vec::new();
    for at in (0..6_000).step_by(100).filter(|at| !(4_000..5_000).contains(at)) {
        events.push((i64::from(at) * 1_000_000, 100_000, "sda", 4096));
    }
    events.push((2_500_000_000, 70_000_000, "sdb", 8192));
    events
}

fn mono(columns: usize) -> SpectrogramOptions {
    SpectrogramOptions { columns, depth: ColorDepth::Mono, unicode: false, ..Default::default() }
}

#[test]
fn a_spectrogram_without_colours() {
    let series = series(&story(), Weight::Count, Vec::new(), 1000 * MS);
    let lines = texts(spectrogram(&series, &context(), "kind = read", &mono(72)));
    assert_eq!(
        lines,
        [
            "latency, 51 events in intervals of 1s",
            "perf script, out.txt, host web1, filter: kind = read",
            "     |100us |300us   |1ms   |3ms     |10ms  |30ms         rate     p99",
            "  0s @                                                    10/s   100us?",
            "  1s @                                                    10/s   100us?",
            "  2s @                                            -       11/s    70ms?",
            "  3s @                                                    10/s   100us?",
            "  4s",
            "  5s @                                                    10/s   100us?",
            "     |100us |300us   |1ms   |3ms     |10ms  |30ms         rate     p99",
            "? fewer than ten events beyond p99",
            "events  .>0  :>=0.31/s  ->=0.7/s  =>=1.22/s  +>=1.9/s  *>=2.79/s",
            "        #>=3.95/s  %>=5.46/s  @>=7.43/s",
            "lost_records: 7",
        ]
    );
}

#[test]
fn half_blocks_hold_two_intervals_and_colours_are_taken_back() {
    let series = series(&story(), Weight::Count, Vec::new(), 1000 * MS);
    let options = SpectrogramOptions { columns: 24, depth: ColorDepth::Truecolor, ..Default::default() };
    let lines: Vec<Line> = spectrogram(&series, &context(), "", &options).collect();
    let mut text = String::new();
    // The rows of the map follow the heading (which needs three lines here) and the axis.
    let first = lines.iter().position(|line| line.text().contains('▀')).unwrap();
    lines[first..first + 3].iter().for_each(|line| line.encode(&mut text));
    assert_eq!(
        text,
        concat!(
            "\x1b[38;2;253;231;37;48;2;253;231;37m▀\x1b[0m\n",
            "\x1b[38;2;253;231;37;48;2;253;231;37m▀\x1b[49m                     \x1b[38;2;45;114;142m▀\x1b[0m\n",
            "\x1b[38;2;253;231;37m▄\x1b[0m\n"
        )
    );
}

#[test]
fn a_long_silence_is_one_line() {
    let events = [(0, 1_000, "a", 0), (10_000_000_000_000, 2_000, "a", 0), (i64::MAX - 5, 3_000, "a", 0)];
    let series = series(&events, Weight::Count, Vec::new(), MS);
    let options = mono(72);
    let lines = texts(spectrogram(&series, &context(), "", &options));
    assert!(lines.len() < 20, "{lines:#?}");
    assert!(lines.iter().any(|line| line.ends_with("... 2.78h without events, 9,999,999 intervals")), "{lines:#?}");
    let across = SpectrogramOptions { orient: Orient::Across, ..options };
    assert!(spectrogram(&series, &context(), "", &across).count() < 40);
}

#[test]
fn what_lies_beyond_the_axis_has_cells_of_its_own() {
    let series = series(&story(), Weight::Count, Vec::new(), 1000 * MS);
    for orient in [Orient::Down, Orient::Across] {
        let options = SpectrogramOptions { max: Some(10 * MS), min: Some(50_000), orient, ..mono(72) };
        let lines = texts(spectrogram(&series, &context(), "", &options));
        assert!(lines.contains(&"> 10ms: 1 event in the cells marked >".to_string()), "{lines:#?}");
        assert!(!lines.iter().any(|line| line.starts_with("< 50us")));
    }
}

#[test]
fn an_empty_series_has_a_heading_and_its_notes() {
    let empty = series(&[], Weight::Time, vec![Field::Device], MS);
    for lines in [
        texts(spectrogram(&empty, &context(), "", &mono(80))),
        texts(spectrogram(&empty, &context(), "", &SpectrogramOptions { orient: Orient::Across, ..mono(80) })),
        texts(latency_maps(&empty, &context(), "", &mono(80))),
        texts(histogram(&empty, &context(), "", &HistogramOptions::default())),
        texts(Summary::new(&empty, &context()).lines(&context(), Wording::default(), "", 120)),
    ] {
        assert!(lines[0].contains("0 events") || lines[0].contains("no events"), "{lines:#?}");
        assert_eq!(lines.last().unwrap(), "lost_records: 7");
    }
}

#[test]
fn a_histogram_as_bcc_prints_it() {
    let series = series(&story(), Weight::Count, vec![Field::Device], 1000 * MS);
    let options = HistogramOptions { unicode: false, columns: 90, ..Default::default() };
    let lines = texts(histogram(&series, &context(), "", &options));
    assert_eq!(
        lines[2..7],
        [
            "",
            "sda",
            "          usecs : count  distribution",
            "   64 -> 127    : 50    |****************************************|  100.0%  p50 p90 p99",
            "  128 -> 255    : 0     |                                        |",
        ]
    );
    assert!(
        lines.contains(
            &"65536 -> 131071 : 1     |****************************************|  100.0%  p50 p90 p99".to_string()
        ),
        "{lines:#?}"
    );
    assert!(lines.contains(&"count 50, min 100us, mean 100us, p50 100us, p99 100us?, max 100us".to_string()));
}

#[test]
fn time_waited_is_exact() {
    // Two events of 70 us a second: PyLatencyMap would guess 1.5 x 64 us each.
    let events: Vec<_> = (0..10).map(|at| (at * 500_000_000, 70_000, "sda", 0)).collect();
    let series = series(&events, Weight::Time, Vec::new(), 1000 * MS);
    let lines = texts(latency_maps(&series, &context(), "", &mono(100)));
    assert!(lines.iter().any(|line| line.contains("64us @@@@@") && line.contains(" 140us/s")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("64us @@@@@") && line.contains(" 2/s")), "{lines:#?}");
    assert!(lines.contains(&"average 70us, of the latest column 70us at 2/s".to_string()), "{lines:#?}");
}

#[test]
fn a_summary_adds_up() {
    let series = series(&story(), Weight::Bytes, vec![Field::Device], 1000 * MS);
    let mut context = context();
    context.span_ns = Some((0, 5_000_000_000));
    let mut summary = Summary::new(&series, &context);
    assert_eq!(
        texts(summary.lines(&context, Wording::default(), "", 200)),
        [
            "51 events in 5s, latency",
            "perf script, out.txt, host web1",
            "device  count    rate  bytes/s    min    mean       sd    p50     p90      p99   p99.9  p99.99    max    time",
            "sdb         1   0.2/s   1.6KiB   70ms    70ms      0ns  70ms?   70ms?    70ms?   70ms?   70ms?   70ms   93.3%",
            "sda        50    10/s    40KiB  100us   100us      0ns  100us  100us?   100us?  100us?  100us?  100us    6.7%",
            "total      51  10.2/s  41.6KiB  100us  1.47ms  ~9.65ms  100us  100us?  69.7ms?   70ms?   70ms?   70ms  100.0%",
            "? fewer than ten events beyond this percentile",
            "lost_records: 7",
        ]
    );
    let csv = summary.csv();
    let mut rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let keys = rows.next().unwrap();
    let first = rows.next().unwrap();
    let of = |key: &str| first[keys.iter().position(|&known| known == key).unwrap()];
    assert_eq!((of("device"), of("count"), of("sum_ns"), of("bytes_per_s")), ("sdb", "1", "70000000", "1638.4"));
    assert_eq!((of("min_ns"), of("max_ns")), ("70000000", "70000000"));
    let share: f64 = of("share").parse().unwrap();
    assert!((share - 70.0 / 75.0).abs() < 1e-12);
    summary.sort(SummaryKey::from_name("count").unwrap());
    assert_eq!(summary.rows[0].group, ["sda"]);
    let json: serde_json::Value = serde_json::from_str(&summary.json()).unwrap();
    assert_eq!(json["groups"][0]["rate_per_s"], 10.0);
    assert_eq!(json["total"]["count"], 51);
    assert_eq!(summary.total.totals.sum, 75_000_000);
}

#[test]
fn outliers_are_named_and_counted() {
    let mut events = story();
    events.push((1_000_000_000, 2 * MS, "sdb", 8192));
    let series = series(&events, Weight::Count, vec![Field::Device], 1000 * MS);
    let mut outliers = Outliers::new(MS, 1);
    for (end, latency) in [(2_500_000_000i64, 70 * MS), (1_000_000_000, 2 * MS), (3_000_000_000, MS)] {
        outliers.add(Outlier {
            time_ns: end - latency as i64,
            latency_ns: latency,
            group: vec!["sdb".into()],
            values: vec![(Field::Device, "sdb".into()), (Field::Size, "8192".into())],
        });
    }
    assert_eq!(outliers.count(), 2, "at the threshold is not above it");
    let summary = Summary::new(&series, &context());
    let lines = texts(outliers.lines(&summary, &context(), Wording::default(), TimeLabels::Elapsed, 100));
    assert_eq!(
        lines,
        [
            "latency warning, >1ms: 2.430000s device=sdb size=8KiB latency=70ms",
            "1 more, none slower than these",
            "",
            "device  count    min    mean    max  >1ms  of events  of time",
            "sdb         2    2ms    36ms   70ms     2    100.00%  100.00%",
            "sda        50  100us   100us  100us     0      0.00%    0.00%",
            "total      52  100us  1.48ms   70ms     2      3.85%   93.51%",
            "lost_records: 7",
        ]
    );
    assert_eq!(outliers.csv(), "time_ns,latency_ns,size,device\n2430000000,70000000,8192,sdb\n");
    let json: serde_json::Value = serde_json::from_str(&outliers.json()).unwrap();
    assert_eq!((&json["count"], &json["outliers"][0]["size"]), (&2.into(), &8192.into()));
}

proptest! {
    #[test]
    fn no_line_is_wider_than_the_terminal(
        events in proptest::collection::vec((0i64..1 << 50, (0u32..64, any::<u64>()).prop_map(|(bits, v)| v >> bits)), 0..40),
        columns in 1usize..160, rows in 0usize..40, palette in 0..5usize, depth in 0..4usize, scale in 0..3usize,
        unicode: bool, across: bool, wall: bool, width_bits in 20u32..45,
        min in proptest::option::of(any::<u64>()), max in proptest::option::of(any::<u64>()),
    ) {
        let events: Vec<_> = events.into_iter().map(|(end, latency)| (end, latency, "日本\x1b[2J-disk", latency % 9000)).collect();
        let series = series(&events, Weight::Time, vec![Field::Device], 1 << width_bits);
        let mut context = context();
        context.clock = Clock::wall();
        let options = SpectrogramOptions {
            columns, rows, min, max, unicode,
            orient: if across { Orient::Across } else { Orient::Down },
            palette: Palette::TERMINAL[palette],
            depth: [ColorDepth::Truecolor, ColorDepth::Ansi256, ColorDepth::Ansi16, ColorDepth::Mono][depth],
            scale: [Scale::Log, Scale::Sqrt, Scale::Linear][scale],
            time: if wall { TimeLabels::Wall } else { TimeLabels::Elapsed },
            ..Default::default()
        };
        let mut lines: Vec<Line> = spectrogram(&series, &context, "", &options).collect();
        lines.extend(latency_maps(&series, &context, "", &options));
        for side_by_side in [false, true] {
            let options = HistogramOptions { columns, unicode, side_by_side, rows_per_octave: 1 << (rows % 7), groups: 3, min, max, per_interval: across, wording: Wording::default() };
            lines.extend(histogram(&series, &context, "lat > 5", &options));
        }
        lines.extend(Summary::new(&series, &context).lines(&context, Wording::default(), "", columns));
        for line in &lines {
            prop_assert!(line.width() <= columns, "{} > {columns}: {}", line.width(), line.text());
            let mut text = String::new();
            line.encode(&mut text);
            prop_assert!(!text.contains("\x1b[2J"));
        }
    }

    #[test]
    fn a_histogram_counts_every_event(
        latencies in proptest::collection::vec((0u32..64, any::<u64>()).prop_map(|(bits, v)| v >> bits), 1..60),
        octave in 0u32..7, min in proptest::option::of(any::<u64>()), max in proptest::option::of(any::<u64>()),
        per_interval: bool,
    ) {
        let events: Vec<_> =
            latencies.iter().enumerate().map(|(at, &latency)| (at as i64 % 3 * MS as i64, latency, "a", 0)).collect();
        let series = series(&events, Weight::Count, Vec::new(), MS);
        let options = HistogramOptions { rows_per_octave: 1 << octave, min, max, per_interval, ..Default::default() };
        let lines = texts(histogram(&series, &context(), "", &options));
        let counted: u64 = lines
            .iter()
            .filter(|line| line.contains('|'))
            .map(|line| line.split(" : ").nth(1).unwrap().split_whitespace().next().unwrap().parse::<u64>().unwrap())
            .sum();
        prop_assert_eq!(counted, latencies.len() as u64);
    }
}
