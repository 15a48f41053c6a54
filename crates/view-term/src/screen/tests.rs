//! Cells against events, at sizes from useful to absurd.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::{Color, ColorDepth, Orient};
use latscope_event::{Anomaly, Batch, Clock, Field, FieldSet, Unfinished, Wait};
use latscope_series::{Interval, Quantity, SeriesBuilder};
use latscope_view::Palette;
use proptest::prelude::*;

/// Events as end, latency and process.
fn series(events: &[(i64, u64, u8)], weight: Weight, by: &[Field], width_ns: u64) -> HistogramSeries {
    let mut builder = SeriesBuilder::new(Quantity::Latency, weight, by.to_vec(), Interval::Fixed(width_ns));
    let mut batch = Batch::new([Field::Comm, Field::Size].into_iter().collect::<FieldSet>());
    for &(end, latency, comm) in events {
        batch.push_i64(Field::Time, end.saturating_sub_unsigned(latency));
        batch.push_u64(Field::Latency, latency);
        batch.push_text(Field::Comm, Some(&[b'a' + comm]));
        batch.push_u64(Field::Size, 4096);
        batch.end_row();
    }
    builder.add(&batch, None);
    builder.finish()
}

fn context() -> Context {
    let mut context = Context::new("block", Clock::unanchored("monotonic"));
    context.tally.add(Anomaly::LostRecords, 7);
    context.tally.add(Anomaly::Requeue, 2);
    context
}

fn look(options: SpectrogramOptions) -> Look {
    Look {
        options,
        shown: Weight::Count,
        percentiles: false,
        distribution: false,
        rates: false,
        merge: 1,
        newest: None,
    }
}

fn drawn(series: &HistogramSeries, context: &Context, look: &Look, size: (usize, usize)) -> Drawn {
    let (title, status) = (Line::new("latscope  block"), Line::new("? help"));
    let (cursor, selection, panel) = (None, None, &[]);
    screen(&Screen { size, series, context, look, cursor, selection, panel, title: &title, status: &status })
}

fn cells(map: &MapArea) -> impl Iterator<Item = (usize, usize)> + '_ {
    (map.top..map.top + map.rows).flat_map(|row| (map.left..map.left + map.columns).map(move |column| (column, row)))
}

fn options() -> impl Strategy<Value = SpectrogramOptions> {
    let bound = || proptest::option::of((0u32..60, any::<u64>()).prop_map(|(bits, value)| value >> bits));
    (any::<[bool; 3]>(), bound(), bound(), 0..4usize, 0..Palette::TERMINAL.len()).prop_map(
        |([across, half_blocks, unicode], min, max, depth, palette)| SpectrogramOptions {
            orient: if across { Orient::Across } else { Orient::Down },
            half_blocks,
            unicode,
            min,
            max,
            depth: [ColorDepth::Truecolor, ColorDepth::Ansi256, ColorDepth::Ansi16, ColorDepth::Mono][depth],
            palette: Palette::TERMINAL[palette],
            ..Default::default()
        },
    )
}

fn events(most: usize) -> impl Strategy<Value = Vec<(i64, u64, u8)>> {
    let event = (-2_000i64..8_000, (20u32..64, any::<u64>()).prop_map(|(bits, value)| value >> bits), 0u8..6);
    proptest::collection::vec(event, 1..most)
}

proptest! {
    #[test]
    fn cells_share_no_event_and_lose_none(
        events in events(80), options in options(), merge in 1u32..5, columns in 8usize..130, rows in 4usize..40,
    ) {
        let series = series(&events, Weight::Count, &[], 100);
        let look = Look { merge, ..look(options) };
        let drawn = drawn(&series, &context(), &look, (columns, rows));
        let Some(map) = drawn.maps.first() else { return Ok(()) };
        let mut spots: Vec<Spot> = cells(map).map(|(column, row)| map.spot(column, row).unwrap()).collect();
        let (from, to) = (spots.iter().map(|spot| spot.from_ns).min().unwrap(), spots.iter().map(|s| s.to_ns).max().unwrap());
        spots.sort_by_key(|spot| (spot.from_ns, spot.low));
        spots.dedup();
        let count: u64 = spots.iter().map(|spot| readout(&series, spot).count).sum();
        let expected = events.iter().filter(|event| (from..to).contains(&event.0)).count() as u64;
        prop_assert_eq!(count, expected);
    }

    #[test]
    fn a_spot_leads_back_to_its_cell(
        events in events(20), options in options(), columns in 8usize..130, rows in 4usize..40, split: bool,
    ) {
        let by: &[Field] = if split { &[Field::Comm] } else { &[] };
        let series = series(&events, Weight::Count, by, 100);
        for map in &drawn(&series, &context(), &look(options), (columns, rows)).maps {
            for (column, row) in cells(map) {
                let spot = map.spot(column, row).unwrap();
                let area = map.cells(&spot).unwrap();
                prop_assert!(area.holds(column, row), "{spot:?} {area:?} {column} {row}");
                let corner = (area.left + area.columns - 1, area.top + area.rows - 1);
                prop_assert_eq!(map.spot(area.left, area.top), Some(spot));
                prop_assert_eq!(map.spot(corner.0, corner.1), Some(spot));
            }
        }
    }

    #[test]
    fn the_cell_that_lights_up_holds_the_event(
        event in events(2), options in options(), columns in 8usize..130, rows in 4usize..40, merge in 1u32..5,
    ) {
        let series = series(&event, Weight::Count, &[], 100);
        let look = Look { merge, ..look(options) };
        let drawn = drawn(&series, &Context { span_ns: Some((-100_000, 0)), ..context() }, &look, (columns, rows));
        let Some(map) = drawn.maps.first() else { return Ok(()) };
        let signs = ['·', '\''];
        let lit: Vec<_> = cells(map).filter(|&(column, row)| {
            let cell = drawn.lines[row].cells[column];
            cell.background != Color::Default || cell.symbol != ' ' && !signs.contains(&cell.symbol)
        }).collect();
        let (end, latency, _) = event[0];
        let spots: Vec<Spot> = cells(map).map(|(column, row)| map.spot(column, row).unwrap()).collect();
        let on_map = spots.iter().any(|spot| (spot.from_ns..spot.to_ns).contains(&end));
        prop_assert_eq!(!lit.is_empty(), on_map, "one slow event is always seen");
        for (column, row) in lit {
            let spot = map.spot(column, row).unwrap();
            prop_assert!((spot.from_ns..spot.to_ns).contains(&end), "{spot:?}");
            prop_assert!((spot.low..=spot.high).contains(&latency), "{spot:?} {latency}");
        }
    }

    #[test]
    fn any_size_holds(
        events in events(40), options in options(), flags: [bool; 4], columns in 0usize..140, rows in 0usize..50,
        newest in proptest::option::of(any::<i64>()), merge: u32, spot: (i64, i64, u64, u64), lines in 0usize..60, shown in 0..3usize,
    ) {
        let [percentiles, distribution, rates, split] = flags;
        let shown = [Weight::Count, Weight::Time, Weight::Bytes][shown];
        let by: &[Field] = if split { &[Field::Comm] } else { &[] };
        let series = series(&events, Weight::Bytes, by, 100);
        let look = Look { shown, percentiles, distribution, rates, merge, newest, ..look(options) };
        let panel = vec![Line::new("a panel of \u{65e5}\u{672c} lines"); lines];
        let spot = Some(Spot { from_ns: spot.0, to_ns: spot.1, low: spot.2, high: spot.3, group: None });
        let (title, status) = (Line::new(&"title ".repeat(50)), Line::new(&"status ".repeat(50)));
        let size = (columns, rows);
        let drawn = screen(&Screen {
            size, series: &series, context: &context(), look: &look, cursor: spot, selection: spot,
            panel: &panel, title: &title, status: &status,
        });
        prop_assert_eq!(drawn.lines.len(), rows);
        prop_assert!(drawn.lines.iter().all(|line| line.width() <= columns));
        for map in &drawn.maps {
            prop_assert!(map.left + map.columns <= columns && map.top + map.rows < rows.max(1));
        }
    }

    #[test]
    fn rows_do_not_change_when_later_intervals_come(events in events(60), merge in 1u32..4, each in 0i64..40) {
        let options = SpectrogramOptions { full: Some(1e9), min: Some(1), max: Some(1 << 40), ..Default::default() };
        let series = series(&events, Weight::Count, &[], 100);
        let span = Context { span_ns: Some((-100_000, 100_000)), ..context() };
        let rows = |newest: i64| {
            let look = Look { merge, newest: Some(newest), ..look(options.clone()) };
            let drawn = drawn(&series, &span, &look, (80, 40));
            let map = drawn.maps[0].clone();
            (map.top..map.top + map.rows)
                .map(|row| (map.spot(map.left, row).unwrap().from_ns, drawn.lines[row].cells[map.left..].to_vec()))
                .collect::<std::collections::BTreeMap<_, _>>()
        };
        let (now, later) = (rows(40), rows(40 + each));
        for (from_ns, row) in now {
            prop_assert!(later.get(&from_ns).is_none_or(|later| *later == row));
        }
    }
}

/// A trace of 9.5 s with a request since 4.5 s.
fn with_waiting(wait: Wait) -> Context {
    let mut context = context();
    context.cover(0);
    context.cover(9_500_000_000);
    let (what, start_ns, at_least_ns) = ("sda read".into(), 4_500_000_000, 5_000_000_000);
    context.unfinished.push(Unfinished { what, start_ns, at_least_ns, wait, values: Default::default() });
    context
}

#[test]
fn what_is_in_flight_stands_in_each_row_at_the_age_that_it_had() {
    for (orient, unicode, sign) in [(Orient::Down, true, '»'), (Orient::Across, false, '^')] {
        let look = look(SpectrogramOptions { orient, unicode, ..SpectrogramOptions::default() });
        // All events are far faster: the axis reaches up to what has no end yet.
        let events: Vec<_> = (1..10).map(|at| (at * 1_000_000_000, 1_000_000, 0)).collect();
        let series = series(&events, Weight::Count, &[], 1_000_000_000);
        let signs = |wait| {
            let drawn = drawn(&series, &with_waiting(wait), &look, (80, 24));
            let [map] = &drawn.maps[..] else { panic!("one map") };
            let is_sign = |&(column, row): &(usize, usize)| drawn.lines[row].cells[column].symbol == sign;
            let spots: Vec<_> = cells(map).filter(is_sign).map(|place| map.spot(place.0, place.1).unwrap()).collect();
            (spots, drawn.lines.iter().map(|line| line.text() + "\n").collect::<String>())
        };
        let (mut spots, text) = signs(Wait::Counts);
        spots.sort_by_key(|spot| spot.from_ns);
        assert!(spots[0].from_ns <= 4_500_000_000 && 4_500_000_000 < spots[0].to_ns, "{spots:?}");
        assert!(spots.is_sorted_by(|a, b| a.to_ns == b.from_ns), "one in each row: {spots:?}");
        assert!((spots[spots.len() - 1].from_ns..spots[spots.len() - 1].to_ns).contains(&9_500_000_000), "{spots:?}");
        for spot in &spots {
            let age_ns = (spot.to_ns.min(9_500_000_000) - 4_500_000_000) as u64;
            assert!(spot.low <= age_ns && age_ns <= spot.high, "{age_ns}: {spot:?}");
        }
        assert!(text.contains(&format!("{sign} in flight, at least")), "{text}");
        assert_eq!(signs(Wait::Lossy).0, [], "its completion may be missing");
    }
}
