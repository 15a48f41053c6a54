//! Screens as text. `LATSCOPE_BLESS=1` writes the present ones as the expected ones; look at the difference.
#![allow(clippy::unwrap_used)]

use latscope_event::{Anomaly, Batch, Clock, Context, Field, FieldSet};
use latscope_series::{HistogramSeries, Interval, Quantity, SeriesBuilder, Weight};
use latscope_view_term::{ColorDepth, Line, Look, Orient, Screen, SpectrogramOptions, Spot, screen, svg_of_lines};

/// A minute of a quick disk with a slow second mode every 10 s, and a slower one, by device.
fn series(by: Vec<Field>) -> HistogramSeries {
    let mut builder = SeriesBuilder::new(Quantity::Latency, Weight::Bytes, by, Interval::Fixed(500_000_000));
    let mut batch = Batch::new([Field::Device, Field::Size].into_iter().collect::<FieldSet>());
    let mut random = 1u64;
    for at in 0..12_000i64 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let spread = (random >> 33) % 1000;
        let quick = at % 7 != 0;
        let stalled = at % 2000 < 60 && spread > 700;
        let latency = match (stalled, quick) {
            (true, _) => 20_000_000 + spread * 40_000,
            (_, true) => 60_000 + spread * spread / 20,
            _ => 3_000_000 + spread * 5_000,
        };
        batch.push_i64(Field::Time, at * 5_000_000 - latency as i64);
        batch.push_u64(Field::Latency, latency);
        batch.push_text(Field::Device, Some(if quick { b"sda" } else { b"nvme0n1" }));
        batch.push_u64(Field::Size, 4096);
        batch.end_row();
    }
    builder.add(&batch, None);
    builder.finish()
}

fn context() -> Context {
    let mut context = Context::new("block", Clock::unanchored("monotonic"));
    context.span_ns = Some((0, 59_995_000_000));
    context.tally.add(Anomaly::LostRecords, 1234);
    context.tally.add(Anomaly::Requeue, 2);
    context
}

fn lines(size: (usize, usize), by: Vec<Field>, change: impl Fn(&mut Look), panel: &[Line]) -> Vec<Line> {
    let options = SpectrogramOptions { depth: ColorDepth::Mono, ..Default::default() };
    let mut look = Look {
        options,
        shown: Weight::Count,
        percentiles: false,
        distribution: false,
        rates: false,
        merge: 1,
        newest: None,
    };
    change(&mut look);
    let spot = |from: i64, to: i64, low: u64, high: u64| Spot {
        from_ns: from * 1_000_000_000,
        to_ns: to * 1_000_000_000,
        low,
        high,
        group: None,
    };
    screen(&Screen {
        size,
        series: &series(by),
        context: &context(),
        look: &look,
        cursor: Some(spot(57, 58, 3_000_000, 3_000_000)),
        selection: Some(spot(49, 53, 10_000_000, 70_000_000)),
        panel,
        title: &Line::new("latscope  block  every 500ms"),
        status: &Line::new("? help  q quit"),
    })
    .lines
}

#[track_caller]
fn holds(name: &str, lines: &[Line]) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/screen").join(name);
    let text: String = lines.iter().map(|line| line.text() + "\n").collect();
    if std::env::var_os("LATSCOPE_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let difference = text.lines().zip(expected.lines()).find(|(drawn, expected)| drawn != expected);
    assert_eq!(difference, None, "{name}: drawn and expected");
    assert!(text == expected, "{name}: one is longer than the other");
}

fn all(look: &mut Look) {
    (look.percentiles, look.distribution, look.rates) = (true, true, true);
}

#[test]
fn time_goes_down() {
    holds("down_80x24.txt", &lines((80, 24), Vec::new(), |_| {}, &[]));
    holds("down_120x40.txt", &lines((120, 40), Vec::new(), all, &[]));
}

#[test]
fn time_goes_across() {
    let across = |look: &mut Look| look.options.orient = Orient::Across;
    holds("across_80x24.txt", &lines((80, 24), Vec::new(), across, &[]));
    let beyond = |look: &mut Look| {
        all(look);
        across(look);
        (look.options.min, look.options.max) = (Some(100_000), Some(10_000_000));
    };
    holds("across_120x40.txt", &lines((120, 40), Vec::new(), beyond, &[]));
}

#[test]
fn strips_and_panel() {
    let panel = [Line::new("12 events"), Line::new("filter: lat > 10ms")];
    holds("strips_120x40.txt", &lines((120, 40), vec![Field::Device], |_| {}, &panel));
    let across = |look: &mut Look| look.options.orient = Orient::Across;
    holds("strips_80x24.txt", &lines((80, 24), vec![Field::Device], across, &panel));
    holds("small_20x5.txt", &lines((20, 5), Vec::new(), |_| {}, &[]));
}

#[test]
fn a_picture_of_the_screen_is_well_formed() {
    let coloured = |look: &mut Look| {
        all(look);
        look.options.depth = ColorDepth::Truecolor;
    };
    let mut lines = lines((120, 40), Vec::new(), coloured, &[]);
    lines.push(Line::new("<&> \u{1b}[2J \u{65e5}\u{672c}"));
    for light in [false, true] {
        let svg = svg_of_lines(&lines, light);
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("&lt;&amp;&gt;") && !svg.contains('\u{1b}'));
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        if let Some(path) = std::env::var_os("LATSCOPE_SCREEN_SVG").filter(|_| !light) {
            std::fs::write(path, svg).unwrap();
        }
    }
}
