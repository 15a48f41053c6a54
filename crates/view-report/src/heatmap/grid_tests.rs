//! Cells against a brute-force count of the events.

use super::*;
use crate::axis::AxisWish;
use latscope_event::{Batch, Field};
use latscope_series::{Interval, Quantity, SeriesBuilder};
use latscope_view::Scale;
use proptest::prelude::*;
use std::collections::BTreeMap;

type Event = (i64, u64, u64, u8);

fn series_of(events: &[Event], weight: Weight, width: u64) -> HistogramSeries {
    let mut builder = SeriesBuilder::new(Quantity::Latency, weight, vec![Field::Comm], Interval::Fixed(width));
    let mut batch = Batch::new(builder.fields());
    for &(start, latency, size, comm) in events {
        batch.push_i64(Field::Time, start);
        batch.push_u64(Field::Latency, latency);
        batch.push_u64(Field::Size, size);
        batch.push_text(Field::Comm, Some(&[b'a' + comm]));
        batch.end_row();
    }
    builder.add(&batch, None);
    builder.finish()
}

proptest! {
    #[test]
    fn every_event_is_in_one_cell_of_one_panel(
        events in proptest::collection::vec(
            (0i64..5000, (0u32..40, any::<u32>()).prop_map(|(bits, value)| u64::from(value) >> bits), 0u64..9999, 0u8..16), 1..150),
        weight in 0usize..3,
        ends in (proptest::option::of(1u64..2000), proptest::option::of(3000u64..900_000)),
        scale in 0usize..3,
        facet: bool,
        width in 200u64..2000,
    ) {
        let weight = [Weight::Count, Weight::Time, Weight::Bytes][weight];
        let series = series_of(&events, weight, width);
        let (first, last) = series.range().unwrap();
        // Four latencies of a minute would need a million columns of a microsecond.
        prop_assume!(last - first < 100_000_000);
        let columns = Columns { first, count: (last - first + 1).min(5000) as u32 };
        let wish = AxisWish {
            quantity: Quantity::Latency, scale: [Scale::Log, Scale::Linear, Scale::Sqrt][scale],
            min: ends.0, max: ends.1, height_px: 300, rows: None,
        };
        let axis = ValueAxis::new(&series.total(None), &wish);
        let facets = if facet { Facets::by_group(&series, 12) } else { Facets::none(&series) };
        let asked = Asked { quantiles: &[0.5], line_columns: 3, stretch_columns: 7 };
        let shared = Rc::new(axis);
        let axes: Vec<_> = facets.names.iter().map(|_| Rc::clone(&shared)).collect();
        let panels = panels(&series, columns, &axes, &facets, &asked);
        let axis = &axes[0];
        prop_assert!(panels.len() <= 13);

        let mut expected = BTreeMap::<(usize, u32, Place), (u64, u64)>::new();
        let mut inside = 0;
        for &(start, latency, size, comm) in &events {
            let Some(column) = columns.column_of((start + latency as i64).div_euclid(width as i64)) else { continue };
            let lower = series.grid().lower(series.grid().index(latency));
            let place = if lower < axis.range().0 {
                Place::Below
            } else if lower > axis.range().1 {
                Place::Above
            } else {
                Place::Row(axis.rows().iter().position(|row| (row.lower..=row.upper).contains(&lower)).unwrap() as u16)
            };
            let name = ((b'a' + comm) as char).to_string();
            let others = facets.names.len() - 1;
            let panel = if facet { facets.names.iter().position(|known| *known == Some(name.clone())).unwrap_or(others) } else { 0 };
            let cell = expected.entry((panel, column, place)).or_default();
            cell.0 += 1;
            cell.1 += match weight { Weight::Count => 1, Weight::Time => latency, Weight::Bytes => size };
            inside += 1;
        }
        let mut found = BTreeMap::new();
        for (number, panel) in panels.iter().enumerate() {
            for cell in &panel.cells {
                prop_assert!(found.insert((number, cell.column, cell.place), (cell.count, cell.weight)).is_none());
            }
            let drawn: u64 = panel.cells.iter().filter(|cell| matches!(cell.place, Place::Row(_))).map(|cell| cell.count).sum();
            prop_assert_eq!(drawn + panel.below + panel.above, panel.totals.count);
            prop_assert_eq!(panel.counts.iter().sum::<u64>(), panel.totals.count);
            let of_points = panel.percentiles.iter().flat_map(|point| point.columns.clone());
            prop_assert_eq!(of_points.map(|column| panel.counts[column as usize]).sum::<u64>(), panel.totals.count);
            prop_assert_eq!(panel.stretches.iter().map(|stretch| stretch.totals.count).sum::<u64>(), panel.totals.count);
            prop_assert_eq!(panel.cells.iter().map(|cell| cell.weight).sum::<u64>(), panel.weight);
        }
        prop_assert_eq!(found, expected);
        prop_assert_eq!(panels.iter().map(|panel| panel.totals.count).sum::<u64>(), inside);
    }
}

#[test]
fn the_heaviest_groups_have_panels_and_the_rest_shares_one() {
    let events: Vec<Event> = (0..16).flat_map(|comm| (0..=i64::from(comm)).map(move |at| (at, 100, 0, comm))).collect();
    let series = series_of(&events, Weight::Count, 1000);
    let facets = Facets::by_group(&series, 12);
    assert_eq!(facets.names.len(), 13);
    assert_eq!(facets.names[0].as_deref(), Some("p"));
    assert_eq!(facets.names[12].as_deref(), Some("4 others together"));
    assert_eq!(Facets::by_group(&series, 16).names.len(), 16);
}
