//! The heat map as a file: its text against golden files, its numbers against the input, its form against XML.

use latscope_event::{Anomaly, Batch, Clock, Context, Field, LossRange, Unfinished, Wait};
use latscope_histogram::{Grid, Histogram};
use latscope_series::{HistogramSeries, Interval, Quantity, SeriesBuilder, Waiter, Weight};
use latscope_view::{Palette, Scale};
use latscope_view_report::{HeatmapError, HeatmapOptions, Theme, heatmap};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

#[path = "heatmap/golden.rs"]
mod golden;
#[path = "heatmap/xml.rs"]
mod xml;

#[derive(Clone, Copy)]
struct Event {
    start_ns: i64,
    latency_ns: u64,
    size: u64,
    device: &'static str,
}

fn series_of(events: &[Event], weight: Weight, by: &[Field], width_ns: u64) -> HistogramSeries {
    let mut builder = SeriesBuilder::new(Quantity::Latency, weight, by.to_vec(), Interval::Fixed(width_ns));
    let mut batch = Batch::new(builder.fields().with(&[Field::Device]));
    for event in events {
        batch.push_i64(Field::Time, event.start_ns);
        batch.push_u64(Field::Latency, event.latency_ns);
        batch.push_u64(Field::Size, event.size);
        batch.push_text(Field::Device, Some(event.device.as_bytes()));
        batch.end_row();
    }
    builder.add(&batch, None);
    builder.finish()
}

fn next(random: &mut u64) -> u64 {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *random >> 33
}

/// A fast and a slow device, a pause, one outlier: the same in every run.
fn story() -> Vec<Event> {
    let mut random = 1;
    let mut events = Vec::new();
    for at in 0..3000u64 {
        let (slow, spread) = (at % 10 == 0, next(&mut random) % 1000);
        let latency_ns = if slow { 4 * MS + spread * 9_000 } else { 60_000 + spread * 70 };
        let start_ns = (at * MS + if at > 2000 { 500 * MS } else { 0 }) as i64;
        let device = if slow { "sdb" } else { "nvme0n1" };
        events.push(Event { start_ns, latency_ns, size: 4096 << (spread % 4), device });
    }
    events.push(Event { start_ns: 1_200 * MS as i64, latency_ns: 237 * MS, size: 4096, device: "sdb" });
    events
}

fn unfinished(what: &str, at_least_ns: u64) -> Unfinished {
    Unfinished { what: what.into(), start_ns: 0, at_least_ns, wait: Wait::Counts, values: Default::default() }
}

fn context() -> Context {
    let mut context = Context::new("perf script, story.txt", Clock::unanchored("boot"));
    context.host = Some("db-1".into());
    context.cover(5 * MS as i64);
    context.cover(3_495 * MS as i64);
    context.tally.add(Anomaly::LostRecords, 42);
    context.tally.add(Anomaly::Requeue, 258);
    context.unfinished.push(unfinished("sdb write", 31 * MS));
    context.loss_ranges.push(LossRange { start_ns: 700 * MS as i64, end_ns: 760 * MS as i64, cpu: None, records: 42 });
    context
}

/// Drawn, below, above: the account that the text alternative gives.
fn accounted(svg: &str) -> [u64; 3] {
    let (head, tail) = svg.split_once(" drawn between ").expect("the description accounts for all events");
    let (below, rest) = tail.split_once(" below").expect("the events below are counted");
    let (above, _) = rest.split_once(" above").expect("the events above are counted");
    [head, below, above].map(|text| {
        let number = text.rsplit(' ').find(|word| word.starts_with(|letter: char| letter.is_ascii_digit()));
        number.and_then(|number| number.replace(',', "").parse().ok()).expect("a count")
    })
}

#[test]
fn golden_light() {
    let options = HeatmapOptions { width: 400, height: 220, max_tooltips: 20, ..HeatmapOptions::default() };
    let svg = heatmap(&series_of(&story(), Weight::Count, &[], 20 * MS), &[context()], &options).unwrap();
    xml::check(&svg).unwrap();
    golden::same("heatmap/light", &svg);
}

#[test]
fn golden_dark_facets() {
    let options = HeatmapOptions {
        title: Some("<Story> & \"more\"".into()),
        width: 400,
        height: 220,
        min: Some(80_000),
        max: Some(15 * MS),
        color: Scale::Sqrt,
        color_max: Some(1e9),
        palette: Palette::Viridis,
        theme: Theme::Dark,
        percentiles: vec![0.5, 0.999, 1.0],
        facet: true,
        filter: Some("evt.latency > 1us and not comm = 'x'".into()),
        max_tooltips: 20,
        ..HeatmapOptions::default()
    };
    let series = series_of(&story(), Weight::Time, &[Field::Device], 20 * MS);
    let svg = heatmap(&series, &[context()], &options).unwrap();
    xml::check(&svg).unwrap();
    golden::same("heatmap/dark_facets", &svg);
}

#[test]
fn the_picture_states_its_numbers() {
    let series = series_of(&story(), Weight::Count, &[], 20 * MS);
    let options = HeatmapOptions { max: Some(15 * MS), ..HeatmapOptions::default() };
    let svg = heatmap(&series, &[context()], &options).unwrap();
    for words in [
        "db-1 · perf script, story.txt",
        "3,001 events",
        "max 237ms",
        "interval 20ms",
        "one event in 20ms is 50/s",
        "&gt; 15.1ms, up to 237ms: 1 event (0.03 %)",
        "lost_records: 42",
        "requeue: 258",
        "longest_unfinished",
        "bold hatches: records lost",
        "fine hatches: interval covered in part",
        "boot clock, wall time unknown",
        ">p50<",
        "per 40ms · thin: fewer than ten events beyond",
        "role=\"img\"",
    ] {
        assert!(svg.contains(words), "{words}");
    }
    assert_eq!(accounted(&svg), [3000, 0, 1]);
}

/// What had not completed when the trace ended has its mark at the right edge, also where nothing completed.
#[test]
fn what_waits_is_marked_at_the_right_edge() {
    let mut series = series_of(&story(), Weight::Count, &[Field::Device], 20 * MS);
    let waiter = |device: &str, start_ms: u64| Waiter {
        group: vec![device.into()],
        start_ns: (start_ms * MS) as i64,
        age_ns: (3_495 - start_ms) * MS,
        is_bound: false,
    };
    series.add_waiting(&[waiter("sdb", 500), waiter("sdb", 600), waiter("dead", 495)], None);
    let facets = HeatmapOptions { facet: true, ..HeatmapOptions::default() };
    let svg = heatmap(&series, &[context()], &facets).unwrap();
    xml::check(&svg).unwrap();
    assert!(svg.contains(">2 waiting, the oldest &gt;=3s<") && svg.contains(">1 waiting, the oldest &gt;=3s<"));
    assert!(svg.contains("3 waiting at the end, the oldest &gt;=3s"), "the text alternative");
    assert!(svg.contains("dead: 0 events"), "a disk that completed nothing has its panel");
    assert!(svg.contains("max &gt;=3s"), "the heading has lower bounds");
    // One arrow for each height: those of sdb are 3 s and 2.9 s old.
    assert!((2..=3).contains(&svg.matches("l9 -5v10z").count()), "{}", svg.matches("l9 -5v10z").count());
    let nothing = HistogramSeries::new(Quantity::Latency, Weight::Count, Vec::new(), 20 * MS);
    let mut hung = nothing.clone();
    hung.add_waiting(&[Waiter { group: Vec::new(), start_ns: 0, age_ns: 3_000 * MS, is_bound: false }], None);
    let svg = heatmap(&hung, &[], &HeatmapOptions::default()).unwrap();
    xml::check(&svg).unwrap();
    assert!(svg.contains(">1 waiting, the oldest &gt;=3s<"), "nothing but what waits");
}

#[test]
fn wall_time_is_named_when_it_is_known() {
    let mut context = context();
    context.clock.to_unix_ns = Some(1_763_000_000_000_000_000);
    context.clock.approximate = true;
    let series = series_of(&story(), Weight::Count, &[], 20 * MS);
    let svg = heatmap(&series, std::slice::from_ref(&context), &HeatmapOptions::default()).unwrap();
    assert!(svg.contains("began about 2025-11-1") && svg.contains(" UTC") && svg.contains(">clock<"));
    context.clock.approximate = false;
    assert!(heatmap(&series, &[context], &HeatmapOptions::default()).unwrap().contains("began 2025-11-1"));
}

#[test]
fn foreign_text_cannot_break_the_document() {
    let hostile = "</text><script>alert(1)</script>&amp;\"' \u{0}\u{1b}[31m\u{fffe}]]>";
    let mut context = Context::new(hostile.repeat(50), Clock::unanchored(hostile));
    context.host = Some(hostile.into());
    context.unfinished.push(unfinished(hostile, 1));
    let mut series = HistogramSeries::new(Quantity::Latency, Weight::Count, vec![Field::Path], MS);
    let mut one = Histogram::new(Grid::FINE, false);
    one.record(5, 1);
    for number in 0..40 {
        series.insert(number, vec![format!("{hostile}{number}").repeat(9)], &one.to_sparse()).unwrap();
    }
    let options = HeatmapOptions {
        title: Some(hostile.repeat(100)),
        filter: Some(hostile.into()),
        facet: true,
        ..HeatmapOptions::default()
    };
    let svg = heatmap(&series, &[context], &options).unwrap();
    xml::check(&svg).unwrap();
    assert!(!svg.contains("<script"));
    assert!(svg.contains("28 others together"));
}

#[test]
fn nothing_is_a_picture_that_says_so() {
    for quantity in [Quantity::Latency, Quantity::Size, Quantity::Offset, Quantity::Queue] {
        let empty = HistogramSeries::new(quantity, Weight::Time, vec![Field::Device], MS);
        for options in [HeatmapOptions::default(), HeatmapOptions { facet: true, ..HeatmapOptions::default() }] {
            for contexts in [vec![], vec![context()]] {
                let svg = heatmap(&empty, &contexts, &options).unwrap();
                xml::check(&svg).unwrap();
                assert!(svg.contains("no events"));
            }
        }
    }
}

#[test]
fn a_single_event_is_visible() {
    let event = Event { start_ns: 7, latency_ns: 5 * MS, size: 0, device: "sda" };
    for weight in [Weight::Count, Weight::Time, Weight::Bytes] {
        let svg = heatmap(&series_of(&[event], weight, &[], MS), &[], &HeatmapOptions::default()).unwrap();
        xml::check(&svg).unwrap();
        assert_eq!(accounted(&svg), [1, 0, 0]);
    }
}

#[test]
fn intervals_that_do_not_fit_are_merged_and_it_says_so() {
    let event = |at: i64| Event { start_ns: at * MS as i64, latency_ns: 1000, size: 1, device: "sda" };
    let events: Vec<_> = (0..5000).map(event).collect();
    let svg = heatmap(&series_of(&events, Weight::Count, &[], MS), &[], &HeatmapOptions::default()).unwrap();
    assert!(svg.contains("interval 5ms (intervals of 1ms merged to fit 1180 columns)"));
    assert_eq!(accounted(&svg), [5000, 0, 0]);
}

#[test]
fn a_million_events_make_a_small_file() {
    let mut random = 7;
    let event = |at: i64| {
        // Over many orders of magnitude, so that most cells are hit.
        let latency_ns = 20_000 + (1 << (next(&mut random) % 17 + 10)) + next(&mut random) % 30_000;
        Event { start_ns: at * 117_000, latency_ns, size: 4096 + next(&mut random) % 9999, device: "sda" }
    };
    let events: Vec<_> = (0..1_000_000).map(event).collect();
    let series = series_of(&events, Weight::Time, &[], 100 * MS);
    for (max_tooltips, most) in [(500, 350_000), (HeatmapOptions::default().max_tooltips, 2_500_000)] {
        let options = HeatmapOptions { max_tooltips, ..HeatmapOptions::default() };
        let svg = heatmap(&series, &[context()], &options).unwrap();
        assert!(svg.len() < most, "{} bytes", svg.len());
        assert_eq!(accounted(&svg), [1_000_000, 0, 0]);
    }
}

/// The texts of cells: those that say which part of their interval they are.
fn cell_tips(svg: &str) -> Vec<&str> {
    let titles = svg.split("<title>").skip(1).map(|rest| rest.split("</title>").next().unwrap_or_default());
    titles.filter(|title| title.contains("of this interval")).collect()
}

#[test]
fn every_cell_answers_with_its_count() {
    let events = story();
    for by in [&[][..], &[Field::Device]] {
        let options = HeatmapOptions { facet: !by.is_empty(), max: Some(15 * MS), ..HeatmapOptions::default() };
        let svg = heatmap(&series_of(&events, Weight::Count, by, 20 * MS), &[], &options).unwrap();
        let counts = cell_tips(&svg).into_iter().map(|tip| {
            let words: Vec<_> = tip.lines().last().unwrap().split(' ').collect();
            words[0].replace(',', "").parse::<u64>().unwrap()
        });
        assert_eq!(counts.sum::<u64>(), events.len() as u64, "by {by:?}");
    }
    let few = HeatmapOptions { max_tooltips: 20, ..HeatmapOptions::default() };
    let svg = heatmap(&series_of(&events, Weight::Count, &[], 20 * MS), &[], &few).unwrap();
    assert!(cell_tips(&svg).len() <= 20 && cell_tips(&svg).iter().any(|tip| tip.contains("23")), "the outlier has one");
    let none = HeatmapOptions { max_tooltips: 0, ..HeatmapOptions::default() };
    let svg = heatmap(&series_of(&events, Weight::Count, &[], 20 * MS), &[], &none).unwrap();
    assert_eq!(svg.matches("<title>").count(), 0);
}

#[test]
fn offsets_have_an_axis_for_each_device_and_a_strip_of_what_is_sequential() {
    let mut builder = SeriesBuilder::new(Quantity::Offset, Weight::Count, vec![Field::Device], Interval::Fixed(MS));
    let mut batch = Batch::new(builder.fields());
    let mut push = |at: i64, device: &str, offset: u64| {
        batch.push_i64(Field::Time, at * MS as i64);
        batch.push_u64(Field::Latency, 1000);
        batch.push_u64(Field::Offset, offset);
        batch.push_u64(Field::Size, 4096);
        batch.push_text(Field::Device, Some(device.as_bytes()));
        batch.push_text(Field::Kind, Some(b"read"));
        batch.end_row();
    };
    // One device is read in a row from the first to the last of its 40 MiB, of the other 100 GiB here and there.
    for at in 0..100 {
        push(at, "small", at as u64 * 4096);
        push(at, "large", (at as u64 * 7919 % 100) << 30);
    }
    builder.add(&batch, None);
    let series = builder.finish();
    let going_on: u64 = series.slices().values().map(|slice| slice.sequential).sum();
    assert_eq!(going_on, 99);
    let svg = heatmap(&series, &[], &HeatmapOptions { facet: true, ..HeatmapOptions::default() }).unwrap();
    for words in [
        ">small: 100 events (50.0 %)<",
        ">large: 100 events (50.0 %)<",
        ">256KiB<",
        ">64GiB<",
        ">sequential<",
        ">50 %<",
    ] {
        assert!(svg.contains(words), "{words}");
    }
    assert_eq!(accounted(&svg), [200, 0, 0]);
}

#[test]
fn a_picture_follows_the_viewer_unless_a_theme_is_given() {
    let series = series_of(&story(), Weight::Count, &[], 20 * MS);
    let draw = |theme| heatmap(&series, &[context()], &HeatmapOptions { theme, ..HeatmapOptions::default() }).unwrap();
    let (adaptive, light, dark) = (draw(Theme::Adaptive), draw(Theme::Light), draw(Theme::Dark));
    xml::check(&adaptive).unwrap();
    assert!(adaptive.contains("@media (prefers-color-scheme:dark)"));
    assert!(!light.contains("<style>") && !dark.contains("<style>"));
    // Without a style sheet it is the light picture, and the image of the dark one is in it for those that ask for it.
    let image = |svg: &str| svg.split("href=\"").nth(1).unwrap().split('"').next().unwrap().to_string();
    assert!(adaptive.contains(&image(&light)) && adaptive.contains(&image(&dark)));
    let rule = |colour: &str| format!("[fill=\"{colour}\"]{{fill:");
    let fills = light.split("fill=\"#").skip(1).map(|rest| format!("#{}", &rest[..6]));
    let legend = light.split("crispEdges").nth(1).unwrap().split("</g>").next().unwrap();
    for colour in fills.filter(|colour| !legend.contains(colour.as_str())) {
        assert!(adaptive.contains(&rule(&colour)), "{colour} stays as it is on a dark ground");
    }
}

#[test]
fn options_that_contradict_themselves_are_refused_in_a_sentence() {
    let series = series_of(&story(), Weight::Count, &[], 20 * MS);
    let error = |options| heatmap(&series, &[], &options).unwrap_err();
    let default = HeatmapOptions::default;
    assert_eq!(
        error(HeatmapOptions { min: Some(MS), max: Some(1000), ..default() }).to_string(),
        "The smallest value of the axis (1ms) must be below the largest (1us); set --min below --max."
    );
    assert_eq!(error(HeatmapOptions { percentiles: vec![99.0], ..default() }), HeatmapError::Percentiles);
    assert_eq!(error(HeatmapOptions { percentiles: vec![f64::NAN], ..default() }), HeatmapError::Percentiles);
    assert_eq!(error(HeatmapOptions { color_max: Some(-1.0), ..default() }), HeatmapError::ColorMax);
    assert_eq!(error(HeatmapOptions { width: 10, ..default() }), HeatmapError::Size);
    assert_eq!(error(HeatmapOptions { rows: Some(0), ..default() }), HeatmapError::Size);
}

#[test]
fn renderers_accept_it() {
    let options = HeatmapOptions { width: 400, ..HeatmapOptions::default() };
    let svg = heatmap(&series_of(&story(), Weight::Count, &[], 20 * MS), &[context()], &options).unwrap();
    let path = std::env::temp_dir().join(format!("latscope-heatmap-{}.svg", std::process::id()));
    std::fs::write(&path, svg).unwrap();
    let rendered = std::process::Command::new("rsvg-convert").arg(&path).output();
    let _ = std::fs::remove_file(&path);
    match rendered {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert!(output.stdout.starts_with(b"\x89PNG"));
        }
        Err(error) => println!("skipped: rsvg-convert does not run here ({error})"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn whatever_the_series_every_event_is_accounted_for(
        cells in proptest::collection::vec((any::<i32>(), 0u32..64, any::<u64>(), 1u64..1000, 0u8..20), 1..30),
        scale in proptest::option::of(0usize..3),
        color in 0usize..3,
        (quantity, weight) in (0usize..4, 0usize..3),
        ends in (proptest::option::of(0u64..1_000_000), proptest::option::of(1_000_000u64..10_000_000_000)),
        facet: bool,
        power in 0u8..7,
        span in proptest::option::of((any::<i64>(), any::<i64>())),
        width_ns in 1u64..10_000_000_000,
        (width, rows) in (200u32..1300, proptest::option::of(1u32..500)),
    ) {
        let quantity = [Quantity::Latency, Quantity::Size, Quantity::Offset, Quantity::Queue][quantity];
        let weight = [Weight::Count, Weight::Time, Weight::Bytes][weight];
        let mut series = HistogramSeries::new(quantity, weight, vec![Field::Device], width_ns);
        let mut total = 0;
        for (interval, bits, value, count, group) in cells {
            let mut one = Histogram::new(Grid::with_power(power).unwrap(), weight != Weight::Count);
            (0..count).for_each(|_| one.record(value >> bits, value >> bits));
            series.insert(interval.into(), vec![group.to_string()], &one.to_sparse()).unwrap();
            total += count;
        }
        let mut context = context();
        context.span_ns = span.map(|(a, b)| (a.min(b), a.max(b)));
        let options = HeatmapOptions {
            scale_y: scale.map(|scale| [Scale::Log, Scale::Linear, Scale::Sqrt][scale]),
            color: [Scale::Log, Scale::Sqrt, Scale::Linear][color],
            min: ends.0, max: ends.1.filter(|&max| ends.0.is_none_or(|min| min < max)), facet, width, rows,
            percentiles: vec![0.0, 0.5, 0.99, 1.0],
            ..HeatmapOptions::default()
        };
        let svg = heatmap(&series, &[context], &options).unwrap();
        xml::check(&svg).map_err(TestCaseError::fail)?;
        let [drawn, below, above] = accounted(&svg);
        prop_assert_eq!(drawn + below + above, total);
        prop_assert!(svg.len() < 400_000, "{} bytes", svg.len());
    }
}
