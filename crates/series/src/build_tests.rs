//! The builder against a brute-force count.

use super::*;
use crate::SHARES;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
struct Event {
    start: i64,
    latency: u64,
    size: Option<u64>,
    comm: Option<u8>,
    pid: i64,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = (0i64..5000, 0u64..900, proptest::option::of(0u64..100_000), proptest::option::of(0u8..4), 0i64..3)
        .prop_map(|(start, latency, size, comm, pid)| Event { start: start - 2000, latency, size, comm, pid });
    proptest::collection::vec(event, 0..120)
}

fn batch_of(events: &[Event]) -> Batch {
    let mut batch = Batch::new([Field::Size, Field::Comm, Field::Pid].into_iter().collect());
    for event in events {
        batch.push_i64(Field::Time, event.start);
        batch.push_u64(Field::Latency, event.latency);
        batch.push_u64(Field::Size, event.size.unwrap_or(MISSING_U64));
        batch.push_text(Field::Comm, event.comm.map(|comm| [b'a' + comm]).as_ref().map(|text| &text[..]));
        batch.push_i64(Field::Pid, event.pid);
        batch.end_row();
    }
    batch
}

fn build(events: &[Event], weight: Weight, by: &[Field], width: u64, chunk: usize) -> HistogramSeries {
    let mut builder = SeriesBuilder::new(Quantity::Latency, weight, by.to_vec(), Interval::Fixed(width));
    for part in events.chunks(chunk) {
        builder.start_trace();
        builder.add(&batch_of(part), None);
    }
    builder.finish()
}

/// Interval, group, bucket -> count, weight.
type Cells = BTreeMap<(i64, Vec<String>, usize), (u64, u64)>;

fn cells(series: &HistogramSeries) -> Cells {
    let mut cells = Cells::new();
    for (&interval, slice) in series.slices() {
        for (group, sparse) in &slice.groups {
            for (index, count, weight) in sparse.buckets() {
                let key = (interval, series.groups()[*group as usize].clone(), index);
                assert!(cells.insert(key, (count, weight)).is_none());
            }
        }
    }
    cells
}

fn brute_force(events: &[Event], width: u64, grid: Grid) -> Cells {
    let mut cells = Cells::new();
    for event in events {
        let interval = (event.start + event.latency as i64).div_euclid(width as i64);
        let comm = event.comm.map_or("-".to_string(), |comm| ((b'a' + comm) as char).to_string());
        let cell = cells.entry((interval, vec![comm, event.pid.to_string()], grid.index(event.latency))).or_default();
        cell.0 += 1;
        cell.1 += event.latency;
    }
    cells
}

proptest! {
    #[test]
    fn counts_what_brute_force_counts(events in events(), width in 1u64..400, chunk in 1usize..50) {
        let series = build(&events, Weight::Time, &[Field::Comm, Field::Pid], width, chunk);
        prop_assert_eq!(cells(&series), brute_force(&events, width, series.grid()));
        let bytes: u64 = series.slices().values().map(|slice| slice.bytes).sum();
        prop_assert_eq!(bytes, events.iter().filter_map(|event| event.size).sum::<u64>());
    }

    #[test]
    fn rebinned_equals_built_coarse(events in events(), width in 1u64..40, factor in 1u64..20) {
        let fine = build(&events, Weight::Bytes, &[Field::Comm], width, 1000);
        let coarse = build(&events, Weight::Bytes, &[Field::Comm], width * factor, 1000);
        let rebinned = fine.rebinned(width * factor).unwrap();
        prop_assert_eq!(cells(&rebinned), cells(&coarse));
        if let Some((first, last)) = coarse.range() {
            let (ours, theirs) = (rebinned.in_flight(first, last), coarse.in_flight(first, last));
            prop_assert!(ours.iter().zip(&theirs).all(|(a, b)| (a - b).abs() < 1e-9), "{:?} {:?}", ours, theirs);
        }
    }

    #[test]
    fn merge_equals_one_build_in_any_order(events in events(), at in 0usize..120, width in 1u64..400) {
        let (left, right) = events.split_at(at.min(events.len()));
        let build = |events| build(events, Weight::Time, &[Field::Comm], width, 1000);
        let (mut a, mut b) = (build(left), build(right));
        let (left, right) = (a.clone(), b.clone());
        a.merge(&right).unwrap();
        b.merge(&left).unwrap();
        prop_assert_eq!(cells(&a), cells(&b));
        prop_assert_eq!(cells(&a), cells(&build(&events)));
    }

    #[test]
    fn merging_all_groups_equals_no_grouping(events in events(), width in 1u64..400) {
        let grouped = build(&events, Weight::Time, &[Field::Comm, Field::Pid], width, 1000);
        prop_assert_eq!(cells(&grouped.ungrouped()), cells(&build(&events, Weight::Time, &[], width, 1000)));
        prop_assert_eq!(grouped.total(None), grouped.ungrouped().total(Some(0)));
    }

    #[test]
    fn automatic_intervals_are_few_and_lose_nothing(events in events(), limit in 1u32..30, scale in 1i64..100_000_000) {
        let scaled: Vec<_> = events.iter().map(|event| Event { start: event.start * scale, ..event.clone() }).collect();
        let mut builder = SeriesBuilder::new(Quantity::Latency, Weight::Count, vec![], Interval::Auto(limit));
        builder.add(&batch_of(&scaled), None);
        let series = builder.finish();
        if let Some((first, last)) = series.range() {
            prop_assert!(last - first < i64::from(limit.max(2)));
            let fixed = build(&scaled, Weight::Count, &[], series.width_ns(), 1000);
            prop_assert_eq!(cells(&series), cells(&fixed));
        }
    }
}

proptest! {
    /// A coarser grid loses what merging its buckets loses, and nothing else.
    #[test]
    fn a_precision_is_the_default_with_its_buckets_merged(
        events in events(), width in 1u64..400, power in 0u8..=6, shared in any::<bool>(), weighted in any::<bool>(),
    ) {
        let grid = Grid::with_power(power).unwrap();
        let count_by = if shared { CountBy::Overlap } else { CountBy::Completion };
        let weight = if weighted { Weight::Bytes } else { Weight::Count };
        let build = |asked: Option<Grid>| {
            let builder = SeriesBuilder::new(Quantity::Latency, weight, vec![Field::Comm], Interval::Fixed(width));
            let mut builder = builder.count_by(count_by).on_grid(asked);
            events.chunks(7).for_each(|part| builder.add(&batch_of(part), None));
            builder.finish()
        };
        let (fine, coarse) = (build(None), build(Some(grid)));
        prop_assert_eq!((fine.grid(), coarse.grid()), (Grid::FINE, grid));
        prop_assert_eq!(&fine.clone().on_grid(Some(grid)), &coarse);
        // Stored on any grid and read again at this precision.
        let mut read = HistogramSeries::new(Quantity::Latency, weight, vec![Field::Comm], width).on_grid(Some(grid));
        for (&interval, slice) in fine.slices() {
            for (group, sparse) in &slice.groups {
                read.insert(interval, fine.groups()[*group as usize].clone(), sparse).unwrap();
            }
        }
        prop_assert_eq!((read.grid(), read.total(None)), (grid, coarse.total(None)));
    }

    /// Histograms that are folded into intervals are on no finer grid than asked for, and no finer than they were.
    #[test]
    fn stretches_keep_the_coarser_grid(values in proptest::collection::vec(0u64..1 << 40, 1..40), asked in 0u8..=6, given in 0u8..=6) {
        let [asked, given] = [asked, given].map(|power| Grid::with_power(power).unwrap());
        let mut histogram = Histogram::new(given, false);
        values.iter().for_each(|&value| histogram.record(value, 0));
        let histogram = histogram.to_sparse();
        let builder = SeriesBuilder::new(Quantity::Latency, Weight::Count, vec![], Interval::Fixed(1000));
        let mut builder = builder.on_grid(Some(asked));
        builder.add_stretch(&Stretch { from_ns: 0, to_ns: 500, usual_ns: None, group: &[], histogram: &histogram });
        let series = builder.finish();
        prop_assert_eq!(series.grid(), asked.min(given));
        let total = series.total(None).to_sparse();
        let expected = histogram.folded(asked);
        prop_assert_eq!(total.indices(), expected.indices());
    }
}

#[test]
fn more_histograms_than_may_be_open_are_sealed_and_opened_again() {
    let event = |at: i64| Event { start: at % 2000 * 1000, latency: 5, size: None, comm: None, pid: 0 };
    let events: Vec<_> = (0..6000).map(event).collect();
    let series = build(&events, Weight::Count, &[], 1000, 10_000);
    assert_eq!(series.slices().len(), 2000);
    assert!(series.slices().values().all(|slice| slice.groups[0].1.totals().count == 3));
}

#[test]
fn events_without_the_quantity_are_counted_as_missing() {
    let events = [None, Some(4096)].map(|size| Event { start: 0, latency: 5, size, comm: None, pid: 0 });
    let mut builder = SeriesBuilder::new(Quantity::Size, Weight::Count, vec![], Interval::Fixed(1000));
    builder.add(&batch_of(&events), None);
    assert_eq!(builder.missing(), 1);
    assert_eq!(builder.finish().total(None).totals().max, 4096);
}

#[test]
fn too_many_groups_share_one() {
    let events: Vec<_> = (0..20_000).map(|pid| Event { start: 0, latency: 5, size: None, comm: None, pid }).collect();
    let series = build(&events, Weight::Count, &[Field::Pid], 1000, 100_000);
    assert_eq!(series.groups().len(), 10_001);
    assert_eq!(series.group_name(10_000), "(others)");
    assert_eq!(series.total(None).totals().count, 20_000);
}

proptest! {
    #[test]
    fn shares_are_the_overlaps_and_add_up(events in events(), width in 1u64..400, chunk in 1usize..50) {
        let mut builder =
            SeriesBuilder::new(Quantity::Latency, Weight::Count, vec![], Interval::Fixed(width)).count_by(CountBy::Overlap);
        for part in events.chunks(chunk) {
            builder.add(&batch_of(part), None);
        }
        let series = builder.finish();
        let mut expected = BTreeMap::<(i64, usize), f64>::new();
        for event in &events {
            let (start, end) = (event.start, event.start + event.latency as i64);
            let bucket = series.grid().index(event.latency);
            for interval in start.div_euclid(width as i64)..=end.div_euclid(width as i64) {
                let (from, to) = (interval * width as i64, (interval + 1) * width as i64);
                let share = match event.latency {
                    0 => 1.0,
                    latency => (end.min(to) - start.max(from)).max(0) as f64 / latency as f64,
                };
                *expected.entry((interval, bucket)).or_default() += share;
            }
        }
        expected.retain(|_, share| *share > 0.0);
        let got = cells(&series);
        prop_assert_eq!(got.len(), expected.len());
        for ((interval, _, bucket), (count, _)) in got {
            let share = count as f64 / SHARES as f64;
            prop_assert!((share - expected[&(interval, bucket)]).abs() < 1e-5, "{} {}", interval, bucket);
        }
        prop_assert_eq!(series.total(None).totals().count, events.len() as u64 * SHARES);
    }
}

#[test]
fn an_endless_event_costs_no_endless_time() {
    let event = Event { start: -2000, latency: u64::MAX >> 2, size: None, comm: None, pid: 0 };
    let mut builder =
        SeriesBuilder::new(Quantity::Latency, Weight::Count, vec![], Interval::Fixed(1)).count_by(CountBy::Overlap);
    builder = builder.within(Budget::new(usize::MAX));
    builder.add(&batch_of(&[event]), None);
    assert_eq!(builder.finish().total(None).totals().count, SHARES);
}

proptest! {
    #[test]
    fn builders_that_share_the_traces_give_what_one_builder_gives(
        events in events(), parts in 1usize..5, size in 1usize..30, by in 0usize..3, auto: bool, share: bool, width in 1u64..400,
        known_size: bool,
    ) {
        let interval = if auto { Interval::Auto(6) } else { Interval::Fixed(width) };
        // Of milliseconds, so that an automatic interval has to widen.
        let factor = if auto { 1_000_000 } else { 1 };
        let scaled = |event: &Event| Event {
            start: event.start * factor,
            latency: event.latency * factor as u64,
            size: event.size.filter(|_| known_size),
            ..event.clone()
        };
        let events: Vec<Event> = events.iter().map(scaled).collect();
        let by = [&[][..], &[Field::Comm], &[Field::Comm, Field::Pid]][by];
        let new = || {
            let builder = SeriesBuilder::new(Quantity::Latency, Weight::Count, by.to_vec(), interval);
            if share { builder.count_by(CountBy::Overlap) } else { builder }
        };
        let (mut one, mut several) = (new(), (0..parts).map(|_| new()).collect::<Vec<_>>());
        for (number, part) in events.chunks(size).enumerate() {
            one.start_trace();
            one.add(&batch_of(part), None);
            // Traces go to whoever is free.
            let taker = &mut several[(number * 7 + part.len()) % parts];
            taker.start_trace_number(number as u32 + 1);
            taker.add(&batch_of(part), None);
        }
        let mut all = several.pop().unwrap();
        several.into_iter().rev().for_each(|builder| all.merge(builder));
        let (one, all) = (one.finish(), all.finish());
        prop_assert_eq!(one.groups(), all.groups());
        prop_assert_eq!(one.slices(), all.slices());
        prop_assert_eq!(one.width_ns(), all.width_ns());
        if let Some((first, last)) = one.range() {
            prop_assert_eq!(one.in_flight(first, last), all.in_flight(first, last));
        }
    }
}

#[test]
fn values_only_leaves_out_what_nobody_asks_for_and_nothing_else() {
    let (mut batch, by) = (Batch::new(FieldSet::EVERY), Vec::new());
    for at in 0..5000i64 {
        batch.push_i64(Field::Time, at * 1_000_000);
        // Some of them span several intervals.
        batch.push_u64(Field::Latency, if at % 50 == 0 { 3_000_000_000 } else { 200_000 + at as u64 });
        batch.push_u64(Field::Size, 4096);
        batch.end_row();
    }
    for share in [false, true] {
        let new = || {
            let builder =
                SeriesBuilder::new(Quantity::Latency, Weight::Count, by.clone(), Interval::Fixed(1_000_000_000));
            if share { builder.count_by(CountBy::Overlap) } else { builder }
        };
        let finished = |mut builder: SeriesBuilder| {
            builder.add(&batch, None);
            builder.finish()
        };
        assert!(new().fields().contains(Field::Size) && !new().values_only().fields().contains(Field::Size));
        let (whole, values) = (finished(new()), finished(new().values_only()));
        let groups = |series: &HistogramSeries| {
            series.slices().iter().map(|(at, slice)| (*at, slice.groups.clone())).collect::<Vec<_>>()
        };
        assert_eq!(groups(&whole), groups(&values));
        let (first, last) = whole.range().unwrap();
        assert!(whole.in_flight(first, last).iter().any(|&value| value > 0.0));
        assert!(values.in_flight(first, last).iter().all(|&value| value == 0.0));
        assert!(
            whole.slices().values().any(|slice| slice.bytes > 0)
                && values.slices().values().all(|slice| slice.bytes == 0)
        );
    }
}

#[test]
fn builders_of_different_grids_are_merged_on_the_coarser_one() {
    let sparse = |power: u8, values: &[u64]| {
        let mut histogram = Histogram::new(Grid::with_power(power).unwrap(), false);
        histogram.record_all(values, 1);
        histogram.to_sparse()
    };
    let stretches =
        [(0i64, sparse(6, &[1000, 5000, 90_000])), (500, sparse(4, &[7000, 80_000])), (1500, sparse(6, &[123_456]))];
    let new = || SeriesBuilder::new(Quantity::Latency, Weight::Count, Vec::new(), Interval::Fixed(1_000_000_000));
    let add = |builder: &mut SeriesBuilder, (from_ms, histogram): &(i64, latscope_histogram::Sparse)| {
        let (from_ns, to_ns) = (from_ms * 1_000_000, (from_ms + 100) * 1_000_000);
        builder.add_stretch(&Stretch { from_ns, to_ns, usual_ns: None, group: &[], histogram });
    };
    let mut one = new();
    stretches.iter().for_each(|stretch| add(&mut one, stretch));
    let one = one.finish();
    for order in [[0, 1, 2], [1, 0, 2], [2, 0, 1]] {
        let mut builders = order
            .map(|at| {
                let mut builder = new();
                add(&mut builder, &stretches[at]);
                builder
            })
            .into_iter();
        let mut all = builders.next().unwrap();
        builders.for_each(|builder| all.merge(builder));
        let all = all.finish();
        assert_eq!((all.grid(), all.slices()), (one.grid(), one.slices()), "{order:?}");
    }
}

/// Events of one nanosecond each, a millisecond apart, of these threads.
fn of_threads(threads: impl Iterator<Item = (i64, u64)>) -> Batch {
    let mut batch = Batch::new([Field::Tid].into_iter().collect());
    for (at, (tid, latency_ns)) in threads.enumerate() {
        batch.push_i64(Field::Time, at as i64 * 1_000_000);
        batch.push_u64(Field::Latency, latency_ns);
        batch.push_i64(Field::Tid, tid);
        batch.end_row();
    }
    batch
}

#[test]
fn intervals_of_a_given_width_fill_the_memory_and_stop() {
    let batch = of_threads((0..200_000).map(|_| (1, 5)));
    let budget = Budget::new(1 << 20);
    let builder = || SeriesBuilder::new(Quantity::Latency, Weight::Count, vec![], Interval::Fixed(1_000_000));
    let mut full = builder().within(budget.clone());
    full.add(&batch, None);
    assert!(full.is_full());
    assert!(full.finish().bytes() < 4 * budget.limit());
    // By share, one event may last for ever.
    let mut shares = builder().within(budget.clone()).count_by(CountBy::Overlap);
    shares.add(&of_threads([(1, u64::MAX / 4), (1, u64::MAX / 4)].into_iter()), None);
    assert!(shares.is_full() && shares.finish().bytes() < 4 * budget.limit());
    // What others gave back may be used.
    let mut fits = builder().within(budget);
    fits.add(&of_threads((0..100).map(|_| (1, 5))), None);
    assert!(!fits.is_full() && fits.finish().total(None).totals().count == 100);
}

#[test]
fn intervals_of_any_width_become_wider_and_lose_nothing() {
    let batch = of_threads((0..200_000).map(|at| (at % 50, 5)));
    let by = vec![Field::Tid];
    let builder = SeriesBuilder::new(Quantity::Latency, Weight::Count, by, Interval::Auto(u32::MAX / 8));
    let mut builder = builder.within(Budget::new(4 << 20));
    batch_by_batch(&batch, 1000, |part| builder.add(part, None));
    assert!(!builder.is_full());
    let series = builder.finish();
    assert!(series.bytes() < 16 << 20, "{}", series.bytes());
    assert_eq!(series.total(None).totals().count, 200_000);
}

fn batch_by_batch(batch: &Batch, rows: usize, mut take: impl FnMut(&Batch)) {
    for from in (0..batch.len()).step_by(rows) {
        let mut part = Batch::new([Field::Tid].into_iter().collect());
        for row in from..(from + rows).min(batch.len()) {
            part.push_i64(Field::Time, batch.time()[row]);
            part.push_u64(Field::Latency, batch.latency()[row]);
            part.push_i64(Field::Tid, batch.i64s(Field::Tid).unwrap()[row]);
            part.end_row();
        }
        take(&part);
    }
}

/// The heaviest are those of a count by hand, whenever they come; what is dropped is in the group of all others.
#[test]
fn of_too_many_groups_the_heaviest_are_kept() {
    let events = || {
        let light = (0..50_000).map(|tid| (tid, 10));
        // Heavy ones come late, among light ones, and one of them had been light at first.
        light.chain((0..3_000).map(|at| (if at % 2 == 0 { 7 } else { 1_000_000 }, 1_000_000)))
    };
    let builder = || SeriesBuilder::new(Quantity::Latency, Weight::Count, vec![Field::Tid], Interval::Auto(2));
    let mut first = builder();
    first.add(&of_threads(events()), None);
    assert!(first.is_pruned());
    let first = first.finish();
    assert_eq!(first.groups().len(), 10_001);
    let others = first.others().unwrap();
    assert!(others.lacking > 0 && first.groups()[others.group as usize] == ["(others)"]);
    let of = |series: &HistogramSeries, tid: i64| {
        let group = series.groups().iter().position(|group| group[0] == tid.to_string()).unwrap();
        series.group_totals()[group]
    };
    assert_eq!(of(&first, 1_000_000).count, 1_500);
    assert_eq!(first.total(None).totals().count, 53_000);
    // The second pass knows them beforehand, and counts exactly.
    let mut second = builder().only(first.groups());
    second.add(&of_threads(events()), None);
    let second = second.finish();
    assert_eq!(of(&second, 7).count, 1_501);
    assert_eq!((second.total(None).totals().count, second.others().unwrap().lacking), (53_000, 0));
}
