//! The chart of percentiles: its lines against ticks and a brute-force count, its form against XML and golden files.

#![allow(clippy::unwrap_used, reason = "a test may stop where it cannot go on")]

use latscope_event::{Anomaly, Batch, Clock, Context, Field};
use latscope_series::{CountBy, HistogramSeries, Interval, Quantity, SeriesBuilder, Threshold, Weight};
use latscope_view_report::{PercentilesError, PercentilesOptions, Theme, percentiles};

#[path = "heatmap/golden.rs"]
mod golden;
#[path = "heatmap/xml.rs"]
mod xml;

const MS: u64 = 1_000_000;

/// Start, latency, device.
type Event = (u64, u64, &'static str);

fn series_of(events: &[Event], by: &[Field], share: bool) -> HistogramSeries {
    let interval = Interval::Fixed(1000 * MS);
    let mut builder = SeriesBuilder::new(Quantity::Latency, Weight::Count, by.to_vec(), interval);
    if share {
        builder = builder.count_by(CountBy::Overlap);
    }
    let mut batch = Batch::new(builder.fields().with(&[Field::Device]));
    for &(start_ns, latency_ns, device) in events {
        batch.push_i64(Field::Time, start_ns as i64);
        batch.push_u64(Field::Latency, latency_ns);
        batch.push_text(Field::Device, Some(device.as_bytes()));
        batch.end_row();
    }
    builder.add(&batch, None);
    builder.finish()
}

/// Ten seconds of two devices, of which one stalls for a second and a half; nothing in the eighth second.
fn story() -> Vec<Event> {
    let mut events = Vec::new();
    for at in (0..10_000u64).filter(|at| !(7_000..8_000).contains(at)) {
        let spread = at * 7_919 % 1000;
        events.push((at * MS, 200_000 + spread * 300, "vda"));
        if at % 50 == 0 && !(3_000..4_500).contains(&at) {
            events.push((at * MS, 2 * MS + spread * 4_000, "vdb"));
        }
    }
    events.push((3_000 * MS, 1_500 * MS, "vdb"));
    events
}

fn context() -> Context {
    let mut context = Context::new("fio log, <story>.log", Clock::unanchored("relative"));
    context.cover(0);
    context.cover(9_999 * MS as i64);
    context.tally.add(Anomaly::UnparsedLines, 3);
    context
}

fn draw(events: &[Event], by: &[Field], options: &PercentilesOptions) -> String {
    let svg = percentiles(&series_of(events, by, true), &[context()], options).unwrap();
    xml::check(&svg).unwrap();
    svg
}

#[test]
fn golden_light() {
    let level = Threshold::parse("p99 > 1s or max > 100ms").unwrap();
    let options = PercentilesOptions { width: 400, height: 220, level: Some(level), ..PercentilesOptions::default() };
    golden::same("percentiles/light", &draw(&story(), &[], &options));
}

#[test]
fn golden_dark_groups() {
    let options = PercentilesOptions {
        title: Some("<Story>".into()),
        width: 400,
        height: 220,
        theme: Theme::Dark,
        percentiles: (50..=99).map(|percent| f64::from(percent) / 100.0).chain([0.999]).collect(),
        filter: Some("kind = 'x'".into()),
        ..PercentilesOptions::default()
    };
    golden::same("percentiles/dark_groups", &draw(&story(), &[Field::Device], &options));
}

#[test]
fn the_picture_states_its_numbers() {
    let level = Threshold::parse("p99 > 1s for 2 intervals").unwrap();
    let options = PercentilesOptions { level: Some(level), ..PercentilesOptions::default() };
    let svg = draw(&story(), &[], &options);
    for words in [
        "fio log, &lt;story&gt;.log",
        "9,151 events · of the whole time: mean",
        "max 1.5s",
        "interval 1s",
        "in each interval by overlap",
        "dotted ground: events in flight at the end, up to the slowest (1.5s), may be missing",
        "relative clock, wall time unknown",
        "unparsed_lines: 3",
        ">p99 &gt; 1s<",
        "p99 &gt; 1s for 2 intervals: in 0 of 10 intervals of 1s",
        "<desc id=\"d\">",
    ] {
        assert!(svg.contains(words), "{words}");
    }
}

/// The tooltip of an interval, and what its events give without any histogram.
#[test]
fn every_interval_has_what_a_count_of_its_events_gives() {
    let svg = percentiles(&series_of(&story(), &[], false), &[], &PercentilesOptions::default()).unwrap();
    let tips: Vec<&str> =
        svg.split("<title>").skip(1).filter_map(|part| part.split_once("</title>")).map(|tip| tip.0).collect();
    assert_eq!(tips.len(), 9, "one for each second that has events");
    for tip in tips {
        let second: u64 =
            tip.split_once("s - ").or(tip.split_once("ns - ")).unwrap().0.replace('n', "").parse().unwrap();
        let ends = |&&(start, latency, _): &&Event| (start + latency) / (1000 * MS) == second;
        let mut latencies: Vec<u64> = story().iter().filter(ends).map(|event| event.1).collect();
        latencies.sort_unstable();
        assert!(tip.contains(&format!("\n{} events", latscope_event::format_count(latencies.len() as u64))), "{tip}");
        for (name, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)] {
            let truth = latencies[(quantile * latencies.len() as f64).ceil() as usize - 1] as f64;
            let (_, rest) = tip.split_once(&format!("{name} ")).unwrap();
            let shown = latscope_event::parse_duration(rest.split([',', '?']).next().unwrap()).unwrap() as f64;
            // A bucket is 1/64 wide, and three digits are shown.
            assert!(
                (shown - truth).abs() <= truth * (1.0 / 64.0 + 0.005),
                "{name} of second {second}: {shown} {truth}"
            );
        }
        let mean = latencies.iter().sum::<u64>() as f64 / latencies.len() as f64;
        let (_, rest) = tip.split_once("mean ").unwrap();
        let shown = latscope_event::parse_duration(rest.split(',').next().unwrap()).unwrap() as f64;
        assert!((shown - mean).abs() <= mean * 0.006, "{shown} {mean}");
    }
}

#[test]
fn a_line_lies_at_the_height_of_its_value() {
    let events: Vec<Event> = (0..4_000).map(|at| (at * MS, if at < 2_000 { MS } else { 20 * MS }, "vda")).collect();
    let options = PercentilesOptions { percentiles: vec![0.5], ..PercentilesOptions::default() };
    let svg = draw(&events, &[], &options);
    let tick = |label: &str| -> f64 {
        let (before, _) = svg.split_once(&format!(">{label}</text>")).unwrap();
        let (_, y) = before.rsplit_once("y=\"").unwrap();
        y.split('"').next().unwrap().parse::<f64>().unwrap() - 4.0
    };
    // The last whole line is the median: percentiles are drawn over everything else.
    let path = svg.split("stroke-linejoin=\"round\" d=\"M").last().unwrap().split('"').next().unwrap();
    let first: f64 = path.split([' ', 'H']).nth(1).unwrap().parse().unwrap();
    let second: f64 = path.split('V').nth(1).unwrap().split('H').next().unwrap().parse().unwrap();
    assert!((first - tick("1ms")).abs() <= 1.0, "{path}: {first} {}", tick("1ms"));
    assert!((second - tick("20ms")).abs() <= 1.0, "{path}: {second} {}", tick("20ms"));
}

#[test]
fn gaps_are_gaps_and_few_events_are_thin() {
    let svg = draw(&story(), &[], &PercentilesOptions { percentiles: vec![0.999], ..PercentilesOptions::default() });
    assert!(svg.contains("thin: fewer than ten events") && svg.contains("stroke-width=\"0.9\""));
    // The second without events breaks the lines of the mean and of the maximum in two.
    let mean = svg.split("<path ").find(|path| path.contains("5 3") && path.contains("linejoin")).unwrap();
    assert_eq!(mean.matches('M').count(), 2, "{mean}");
    // However few events support it, it has a line and a range.
    let few = draw(&story(), &[], &PercentilesOptions { percentiles: vec![0.9999], ..PercentilesOptions::default() });
    assert!(few.contains(">p99.99 ") && !few.contains("too few"), "{few}");
}

#[test]
fn groups_are_panels_or_lines() {
    let by = [Field::Device];
    let panels = draw(&story(), &by, &PercentilesOptions::default());
    for title in [">all (100 %)<", ">vda (98.", ">vdb (1."] {
        assert!(panels.contains(title), "{title}");
    }
    let lines = draw(&story(), &by, &PercentilesOptions { percentiles: vec![0.9], ..PercentilesOptions::default() });
    assert!(lines.contains(">p90 of all ") && lines.contains(">vda ") && lines.contains(">vdb "));
    assert!(!lines.contains(">all (100 %)<"));
}

/// One second of an hour is over the bound, and not even a sixth of the column that it is drawn in.
#[test]
fn what_is_merged_to_fit_is_judged_before() {
    let second = |at: u64| if at == 1_800 { 50 * MS } else { MS };
    let events: Vec<Event> =
        (0..3_600).flat_map(|at| (0..4).map(move |nth| (at * 1000 * MS + nth * 100 * MS, second(at), "vda"))).collect();
    let level = Threshold::parse("p50 > 5ms").unwrap();
    let options = PercentilesOptions { level: Some(level), ..PercentilesOptions::default() };
    let series = series_of(&events, &[], true);
    let svg = percentiles(&series, &[], &options).unwrap();
    assert!(svg.contains("interval 5s (intervals of 1s merged to fit 1000 columns)"), "no wider than it takes");
    assert!(svg.contains(">p50 &gt; 5ms: in 1 of 3600 intervals of 1s<"), "the table's intervals");
    let red: Vec<_> = svg.split("<rect ").filter(|rect| rect.contains("fill-opacity=\"0.4\"")).collect();
    assert!(red.len() == 1 && red[0].starts_with("x=\"442\""), "around 84 and a pixel for 5 s: {red:?}");
    let by = series_of(&events, &[Field::Device], true);
    let one = PercentilesOptions { percentiles: vec![0.5], ..options };
    let svg = percentiles(&by, &[], &one).unwrap();
    assert!(svg.contains("in 1 of 3600 intervals of 1s, for at least one group<"));
}

#[test]
fn silence_is_judged_as_the_table_does() {
    // The eighth second has no event at all; in the fourth, vdb has none or two thirds of its stalled one.
    for (level, by, share, verdict) in [
        ("count < 1", &[][..], false, "in 1 of 10 intervals of 1s<"),
        ("p50 < 1s", &[], false, "in 9 of 10 intervals of 1s<"),
        ("count < 1", &[Field::Device], false, "in 2 of 10 intervals of 1s, for at least one group<"),
        ("count < 1", &[Field::Device], true, "in 2 of 10 intervals of 1s, for at least one group<"),
    ] {
        let level = Threshold::parse(level).unwrap();
        let options =
            PercentilesOptions { level: Some(level), percentiles: vec![0.5], ..PercentilesOptions::default() };
        let svg = percentiles(&series_of(&story(), by, share), &[], &options).unwrap();
        assert!(svg.contains(verdict), "{verdict}: {:?}", svg.split("intervals of 1s").next());
    }
}

/// Each line looks different, and those together have a colour of no group.
#[test]
fn twelve_groups_have_colours_and_the_rest_is_grey() {
    const NAMES: [&str; 16] = [
        "g00", "g01", "g02", "g03", "g04", "g05", "g06", "g07", "g08", "g09", "g10", "g11", "g12", "g13", "g14", "g15",
    ];
    for (count, others) in [(12, None), (16, Some("4 others together"))] {
        let events: Vec<Event> = (0..40 * count).map(|at| (at * 10 * MS, MS, NAMES[(at % count) as usize])).collect();
        for theme in [Theme::Light, Theme::Dark] {
            let options = PercentilesOptions { percentiles: vec![0.5], theme, ..PercentilesOptions::default() };
            let svg = draw(&events, &[Field::Device], &options);
            // Keys: a line, then its name.
            let (key, _) = svg.split_once("<rect x=\"84\"").unwrap();
            let lines: Vec<&str> =
                key.split("<path fill=\"none\" ").skip(1).map(|line| line.split_once(" d=").unwrap().0).collect();
            let different: std::collections::BTreeSet<_> = lines.iter().collect();
            assert_eq!((lines.len(), different.len()), (13 + usize::from(others.is_some()), lines.len()), "{lines:?}");
            let Some(others) = others else { continue };
            assert!(key.contains(others), "{key}");
            let colour = |line: &str| line.split('"').nth(1).unwrap().to_string();
            let last = colour(lines[13]);
            assert!(lines[..13].iter().all(|line| colour(line) != last), "{lines:?}");
        }
    }
}

#[test]
fn notes_of_many_traces_are_one_line_and_no_sentence_loses_its_end() {
    let contexts: Vec<Context> = (0..128)
        .map(|at| {
            let mut context = Context::new(format!("fio log, run_clat.{at}.log"), Clock::unanchored("relative"));
            context.cover(0);
            context.tally.add(Anomaly::AssumedStart, 1);
            context
        })
        .collect();
    let options = PercentilesOptions { width: 200, ..PercentilesOptions::default() };
    let series = series_of(&story(), &[], true);
    let chart = latscope_view_report::PercentilesChart::new(&series, &contexts, &options).unwrap();
    let svg = chart.merged_until(9_000.0).svg();
    let (_, drawn) = svg.split_once("</desc>").unwrap();
    assert_eq!(drawn.matches("assumed_start").count(), 1);
    assert!(drawn.contains("run_clat.0.log and 127 more: assumed_start: 128"));
    assert!(!drawn.contains("lines of notes"));
    let words =
        drawn.split("<text ").filter_map(|text| text.split_once('>')?.1.split_once("</text>")).map(|text| text.0);
    let words = words.collect::<Vec<_>>().join(" ");
    assert!(words.contains("may be missing"), "{words}");
}

#[test]
fn nothing_is_a_picture_too() {
    assert!(draw(&[], &[], &PercentilesOptions::default()).contains(">no events<"));
}

#[test]
fn contradictions_are_refused() {
    let series = series_of(&story(), &[], false);
    let with = |change: &dyn Fn(&mut PercentilesOptions)| {
        let mut options = PercentilesOptions::default();
        change(&mut options);
        percentiles(&series, &[], &options)
    };
    assert_eq!(with(&|options| options.percentiles.clear()), Err(PercentilesError::Percentiles));
    assert_eq!(with(&|options| options.percentiles = vec![1.5]), Err(PercentilesError::Percentiles));
    assert_eq!(with(&|options| (options.min, options.max) = (Some(9), Some(9))), Err(PercentilesError::Range));
    assert_eq!(with(&|options| options.width = 5), Err(PercentilesError::Size));
}
