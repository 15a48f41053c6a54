//! Rows against brute force.

use super::*;
use latscope_view::Scale;
use proptest::prelude::*;

fn total(values: &[u64], power: u8) -> Histogram {
    let mut total = Histogram::new(Grid::with_power(power).unwrap(), false);
    values.iter().for_each(|&value| total.record(value, 1));
    total
}

fn wish(quantity: Quantity, scale: Scale) -> AxisWish {
    AxisWish { quantity, scale, min: None, max: None, height_px: 400, rows: None }
}

fn labels(axis: &ValueAxis) -> Vec<String> {
    axis.ticks().into_iter().filter_map(|(_, label)| label).collect()
}

#[test]
fn ticks_are_one_two_five_and_powers_of_two() {
    let axis = ValueAxis::new(&total(&[12_000, 110_000_000], 6), &wish(Quantity::Latency, Scale::Log));
    assert_eq!(
        labels(&axis),
        ["20us", "50us", "100us", "200us", "500us", "1ms", "2ms", "5ms", "10ms", "20ms", "50ms", "100ms"]
    );
    let axis = ValueAxis::new(&total(&[4096, 1 << 20], 6), &wish(Quantity::Size, Scale::Log));
    assert_eq!(labels(&axis), ["4KiB", "8KiB", "16KiB", "32KiB", "64KiB", "128KiB", "256KiB", "512KiB", "1MiB"]);
    let axis = ValueAxis::new(&total(&[1000, 9_500_000], 6), &wish(Quantity::Latency, Scale::Linear));
    assert_eq!(labels(&axis), ["0ns", "1ms", "2ms", "3ms", "4ms", "5ms", "6ms", "7ms", "8ms", "9ms"]);
}

#[test]
fn time_stamps_of_a_microsecond_leave_no_empty_rows() {
    let values: Vec<u64> = (0..400).map(|us| us * 1000).collect();
    for scale in [Scale::Log, Scale::Linear, Scale::Sqrt] {
        let total = total(&values, 6);
        let axis = ValueAxis::new(&total, &wish(Quantity::Latency, scale));
        let mut hit = vec![false; axis.rows().len()];
        for (bucket, ..) in total.buckets() {
            if let Place::Row(row) = axis.place(bucket) {
                hit[row as usize] = true;
            }
        }
        assert!(hit.iter().all(|&hit| hit), "{scale:?} {:?}", axis.rows());
        assert!(hit.len() > 20, "{scale:?}");
    }
}

#[test]
fn a_row_of_the_logarithmic_axis_is_an_eighth_to_a_sixteenth_of_an_octave() {
    let axis = ValueAxis::new(&total(&[12_345, 110_000_000], 6), &wish(Quantity::Latency, Scale::Log));
    let of_octave = axis.rows().iter().filter(|row| (1 << 20..2 << 20).contains(&row.lower)).count();
    assert_eq!(of_octave, 8);
}

#[test]
fn buckets_of_an_octave_are_not_divided() {
    let axis = ValueAxis::new(&total(&[1000, 1_000_000], 0), &wish(Quantity::Latency, Scale::Log));
    assert!(axis.rows().iter().all(|row| row.lower.is_power_of_two() && row.upper == 2 * row.lower - 1));
}

#[test]
fn values_of_zero_do_not_decide_about_the_height() {
    for power in [0, 6] {
        let axis = ValueAxis::new(&total(&[0], power), &wish(Quantity::Latency, Scale::Log));
        assert!(axis.height_px() <= 432 && axis.rows().len() > 2, "{:?}", axis.rows());
    }
}

proptest! {
    #[test]
    fn rows_are_whole_buckets_side_by_side(
        values in proptest::collection::vec((0u32..64, any::<u64>()).prop_map(|(bits, value)| value >> bits), 0..40),
        power in 0u8..12,
        (scale, quantity) in (0usize..3, 0usize..3),
        ends in (proptest::option::of((0u32..64, any::<u64>())), proptest::option::of((0u32..64, any::<u64>()))),
        height_px in 90u32..700,
        rows in proptest::option::of(1u32..300),
    ) {
        let total = total(&values, power);
        let (mut min, mut max) = (ends.0.map(|(bits, value)| value >> bits), ends.1.map(|(bits, value)| value >> bits));
        if min.zip(max).is_some_and(|(min, max)| min >= max) {
            (min, max) = (None, None);
        }
        let wish = AxisWish {
            quantity: [Quantity::Latency, Quantity::Size, Quantity::Offset][quantity],
            scale: [Scale::Log, Scale::Linear, Scale::Sqrt][scale],
            min, max, height_px, rows,
        };
        let axis = ValueAxis::new(&total, &wish);
        prop_assert!(!axis.rows().is_empty() && axis.rows().len() <= height_px.max(rows.unwrap_or(0)).max(66) as usize);
        prop_assert!(axis.height_px() <= 32 + height_px.max(160), "{}", axis.height_px());
        for pair in axis.rows().windows(2) {
            prop_assert_eq!(pair[0].upper + 1, pair[1].lower);
            prop_assert_eq!(pair[0].to_px, pair[1].from_px);
        }
        prop_assert!(axis.rows().iter().all(|row| row.lower <= row.upper && row.from_px < row.to_px));
        let grid = total.grid();
        for (bucket, ..) in total.buckets() {
            let holds = |value: u64| axis.rows().iter().position(|row| (row.lower..=row.upper).contains(&value));
            let (lower, upper) = (holds(grid.lower(bucket)), holds(grid.upper(bucket)));
            prop_assert_eq!(lower, upper, "a bucket lies in one row or in none");
            match axis.place(bucket) {
                Place::Row(row) => prop_assert_eq!(Some(row as usize), lower),
                Place::Below => prop_assert!(grid.upper(bucket) < axis.range().0),
                Place::Above => prop_assert!(grid.lower(bucket) > axis.range().1),
            }
        }
        for &value in &values {
            let place = axis.place(grid.index(value));
            prop_assert!(place != Place::Below || min.is_some_and(|min| value < min));
            prop_assert!(place != Place::Above || max.is_some_and(|max| value > max));
        }
        for (px, _) in axis.ticks() {
            prop_assert!((0.0..=f64::from(axis.height_px())).contains(&px));
        }
    }
}

/// What a chart of a quiet device shows: all lines within a few percent, or within a factor of a few.
#[test]
fn every_range_has_labels() {
    for low in [3u64, 250, 999, 1_000, 2_050_000, 3_300_000, 21_000_000, 99_999_999, 123_000_000_000, 9_000_000_000_000]
    {
        for factor in [100, 101, 130, 190, 260, 400, 900] {
            let high = low * factor / 100;
            for (quantity, height_px) in [(Quantity::Latency, 360), (Quantity::Latency, 110), (Quantity::Size, 200)] {
                let axis =
                    ValueAxis::new(&total(&[low, high], 6), &AxisWish { height_px, ..wish(quantity, Scale::Log) });
                let labels = labels(&axis);
                assert!(labels.len() >= 3, "{quantity:?} {low} to {high}, {height_px} px: {labels:?}");
                let different: std::collections::BTreeSet<_> = labels.iter().collect();
                assert_eq!(different.len(), labels.len(), "{labels:?}");
            }
        }
    }
}
