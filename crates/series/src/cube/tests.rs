use super::*;
use latscope_event::{Batch, Clock, Context, FieldSet, Mask};

/// Events that look random: start, latency, size, device, process.
fn events(count: u64) -> Vec<(i64, u64, u64, &'static str, String)> {
    let mut state = 7u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let event = |at: u64| {
        let latency = 50_000 + (1 << random(28));
        let device = ["sda", "sdb", "loop0"][random(3) as usize];
        let size = 512 << random(8);
        ((at * 3_000_000 + random(1_000_000)) as i64, latency, size, device, format!("worker{}", random(400)))
    };
    (0..count).map(event).collect()
}

fn batch(events: &[(i64, u64, u64, &'static str, String)]) -> Batch {
    let mut batch = Batch::new(FieldSet::ALWAYS.with(&[Field::Size, Field::Device, Field::Comm]));
    for (start, latency, size, device, comm) in events {
        batch.push_i64(Field::Time, *start);
        batch.push_u64(Field::Latency, *latency);
        batch.push_u64(Field::Size, *size);
        batch.push_text(Field::Device, Some(device.as_bytes()));
        batch.push_text(Field::Comm, Some(comm.as_bytes()));
        batch.end_row();
    }
    batch
}

fn cube(events: &[(i64, u64, u64, &'static str, String)], limits: CubeLimits) -> Cube {
    let keys = [Field::Device, Field::Size, Field::Comm].map(CubeKey::Field);
    let mut builder = CubeBuilder::new(&keys, limits);
    let context = Context { span_ns: Some((0, 1 << 50)), ..Context::new("test", Clock::wall()) };
    for part in events.chunks(700) {
        // Each batch here has a dictionary of its own.
        builder.start_trace(0);
        builder.add(&context, &batch(part), None);
    }
    builder.finish()
}

fn value(cube: &Cube, combination: u32, attribute: usize) -> &CubeValue {
    &cube.attributes[attribute].values[cube.combinations[combination as usize][attribute] as usize]
}

#[test]
fn a_box_of_some_values_counts_as_the_events_do() {
    let events = events(6000);
    let cube = cube(&events, CubeLimits { columns: 500, ..CubeLimits::default() });
    assert_eq!((cube.events(), cube.left_out.len()), (6000, 0));
    let (first, columns) = cube.range().unwrap();
    assert!(columns <= 500);
    for (from, to, rows, device) in
        [(3, 50, 20..90, "sda"), (0, columns as i64, 0..400, "loop0"), (7, 8, 40..60, "sdb")]
    {
        let (from, to) = (first + from, first + to);
        let cells = cube.columns.range(from..to).flat_map(|(_, column)| &column.cells);
        let is_of = |&combination: &u32| *value(&cube, combination, 0) == CubeValue::Text(device.into());
        let cells = cells.filter(|((row, combination), _)| rows.contains(row) && is_of(combination));
        let counted: u64 = cells.map(|(_, count)| count).sum();
        let expected = events.iter().filter(|(start, latency, _, of, _)| {
            let column = (start + *latency as i64).div_euclid(cube.width_ns as i64);
            (from..to).contains(&column) && rows.contains(&(CUBE_ROWS.index(*latency) as u16)) && *of == device
        });
        assert_eq!(counted, expected.count() as u64);
    }
    let sums = cube.columns.values().flat_map(|column| column.sums.values());
    let (latency, bytes) = sums.fold((0, 0), |(ns, bytes), sums| (ns + sums.latency_ns, bytes + sums.bytes));
    assert_eq!(latency, events.iter().map(|event| u128::from(event.1)).sum());
    assert_eq!(bytes, events.iter().map(|event| u128::from(event.2)).sum());
}

#[test]
fn time_in_flight_is_that_of_all_requests() {
    let events = events(3000);
    for limits in [CubeLimits::default(), CubeLimits { columns: 40, ..CubeLimits::default() }] {
        let cube = cube(&events, limits);
        let in_flight: u128 = cube.columns.values().map(|column| column.in_flight_ns).sum();
        let first_ns = cube.range().unwrap().0 * cube.width_ns as i64;
        let shown = events.iter().map(|event| (event.0 + event.1 as i64 - event.0.max(first_ns)) as u128);
        assert_eq!(in_flight, shown.sum());
        assert!(cube.range().unwrap().1 <= limits.columns);
    }
}

#[test]
fn an_event_of_a_century_costs_no_more_than_others() {
    let century_ns = 100 * 365 * 86_400_000_000_000;
    let event = (0, century_ns as u64, 4096, "sda", "worker".to_string());
    let cube = cube(&[event], CubeLimits { width_ns: Some(1_000_000), ..CubeLimits::default() });
    let (first, columns) = cube.range().unwrap();
    assert_eq!((first + columns as i64 - 1, columns), (century_ns / 1_000_000, CubeLimits::default().columns));
}

/// What a cube counts, by the values themselves.
fn counts(cube: &Cube) -> BTreeMap<(i64, u16, Vec<CubeValue>), u64> {
    let cells = cube.columns.iter().flat_map(|(&at, column)| column.cells.iter().map(move |cell| (at, cell)));
    let mut counts = BTreeMap::new();
    for (at, (&(row, combination), &count)) in cells {
        let values = (0..cube.attributes.len()).map(|attribute| value(cube, combination, attribute).clone()).collect();
        *counts.entry((at, row, values)).or_insert(0) += count;
    }
    counts
}

#[test]
fn turns_merge_to_the_cube_of_all_events() {
    let events = events(5000);
    let limits = CubeLimits { width_ns: Some(10_000_000), ..CubeLimits::default() };
    let whole = cube(&events, limits);
    let turns: Vec<Cube> = events.chunks(617).map(|part| cube(part, limits)).collect();
    let merged = merge_cubes(&turns);
    assert_eq!(counts(&merged), counts(&whole));
    let numbers = |cube: &Cube| -> Vec<_> {
        let columns = cube.columns.iter().filter(|(_, column)| !column.totals.is_empty());
        columns.map(|(&at, column)| (at, column.totals.clone(), column.sums.clone(), column.in_flight_ns)).collect()
    };
    assert_eq!(numbers(&merged), numbers(&whole));
    assert_eq!(merged.combinations.len(), whole.combinations.len());
    assert_eq!(merged.exemplars[0].latency_ns, whole.exemplars[0].latency_ns);
    // In any order, and in two steps.
    let (front, back) = turns.split_at(3);
    let in_steps = merge_cubes([&merge_cubes(back), &merge_cubes(front)]);
    assert_eq!(counts(&in_steps), counts(&whole));
    // Of different widths the greater one is taken.
    let wide = cube(&events[2500..], CubeLimits { width_ns: Some(20_000_000), ..limits });
    let mixed = merge_cubes([&cube(&events[..2500], limits), &wide]);
    assert_eq!(counts(&mixed), counts(&whole.widened(20_000_000)));
    assert_eq!(merge_cubes([]).events(), 0);
}

#[test]
fn the_slowest_events_are_kept() {
    let events = events(5000);
    let cube = cube(&events, CubeLimits::default());
    let mut latencies: Vec<u64> = events.iter().map(|event| event.1).collect();
    latencies.sort_unstable_by(|one, other| other.cmp(one));
    let kept: Vec<u64> = cube.exemplars.iter().map(|exemplar| exemplar.latency_ns).collect();
    assert_eq!(kept[..200], latencies[..200]);
    assert!(kept.is_sorted_by(|one, other| one >= other));
    for exemplar in &cube.exemplars {
        let event = events.iter().find(|event| (event.0, event.1) == (exemplar.start_ns, exemplar.latency_ns)).unwrap();
        assert_eq!(*value(&cube, exemplar.combination, 2), CubeValue::Text(event.4.as_str().into()));
        assert_eq!(exemplar.size, Some(event.2));
    }
}

#[test]
fn many_values_become_others_and_then_attributes_go() {
    let events = events(6000);
    let whole = cube(&events, CubeLimits::default());
    assert_eq!(whole.attributes[2].values.len(), 400);
    let fewer = cube(&events, CubeLimits { combinations: 4000, ..CubeLimits::default() });
    let workers = &fewer.attributes[2].values;
    assert!(workers.len() == 255 && workers.contains(&CubeValue::Others));
    assert_eq!(fewer.events(), 6000);
    let small = cube(&events, CubeLimits { combinations: 30, ..CubeLimits::default() });
    assert_eq!((small.events(), small.left_out), (6000, vec![CubeKey::Field(Field::Comm)]));
    let without = whole.clone().without_last_attribute();
    assert_eq!(without.combinations.len(), 24);
    assert_eq!((without.events(), without.exemplars.len()), (6000, whole.exemplars.len()));
}

#[test]
fn widening_keeps_the_counts() {
    let whole = cube(&events(4000), CubeLimits::default());
    let wide = whole.clone().widened(100_000_000);
    assert_eq!(wide.columns.len(), wide.range().unwrap().1);
    assert_eq!(wide.events(), whole.events());
    let flight = |cube: &Cube| cube.columns.values().map(|column| column.in_flight_ns).sum::<u128>();
    assert_eq!(flight(&wide), flight(&whole));
    let again = cube(&events(4000), CubeLimits { width_ns: Some(100_000_000), ..CubeLimits::default() });
    assert_eq!(again.columns, wide.columns);
}

#[test]
fn of_many_values_those_that_waited_longest_stay() {
    // 400 processes are few combinations, so nothing but the number of values is too large.
    let events = events(5000);
    let mut builder =
        CubeBuilder::new(&[CubeKey::Field(Field::Device), CubeKey::Field(Field::Comm)], CubeLimits::default());
    builder.add(&Context::new("test", Clock::wall()), &batch(&events), None);
    builder.keep_common_values();
    let cube = builder.finish();
    let mut waited: BTreeMap<&str, u64> = BTreeMap::new();
    events.iter().for_each(|(_, latency, _, _, comm)| *waited.entry(comm).or_insert(0) += latency);
    assert!(waited.len() > 300);
    let mut order: Vec<(u64, &str)> = waited.into_iter().map(|(comm, latency)| (latency, comm)).collect();
    order.sort_by(|one, other| other.cmp(one));
    let mut expected: Vec<CubeValue> = order[..254].iter().map(|&(_, comm)| CubeValue::Text(comm.into())).collect();
    expected.push(CubeValue::Others);
    let mut values = cube.attributes[1].values.clone();
    values.sort();
    expected.sort();
    assert_eq!(values, expected);
    assert_eq!((cube.events(), cube.left_out.len()), (5000, 0));
}

#[test]
fn a_mask_and_missing_values() {
    let mut batch = Batch::new(FieldSet::ALWAYS.with(&[Field::Device]));
    for device in [Some(&b"sda"[..]), None, Some(&b"sdb"[..])] {
        batch.push_i64(Field::Time, 5);
        batch.push_u64(Field::Latency, 10);
        batch.push_text(Field::Device, device);
        batch.end_row();
    }
    let mut mask = Mask::filled(3, true);
    mask.retain(|row| row != 2);
    let mut builder = CubeBuilder::new(&[CubeKey::Field(Field::Device), CubeKey::Trace], CubeLimits::default());
    builder.start_trace(1);
    builder.add(&Context::new("test", Clock::wall()), &batch, Some(&mask));
    let cube = builder.finish();
    assert_eq!(cube.events(), 2);
    let values: Vec<&CubeValue> = (0..2).map(|combination| value(&cube, combination, 0)).collect();
    assert_eq!(values, [&CubeValue::Text("sda".into()), &CubeValue::Missing]);
    assert_eq!(*value(&cube, 0, 1), CubeValue::Number(1));
}

#[test]
fn columns_reach_the_end_of_a_stall() {
    let mut builder = CubeBuilder::new(&[CubeKey::Field(Field::Device)], CubeLimits::default());
    let context = Context { span_ns: Some((0, 1 << 50)), ..Context::new("test", Clock::wall()) };
    builder.start_trace(0);
    builder.add(&context, &batch(&events(100)), None);
    builder.cover(2_999_999_999);
    let cube = builder.finish();
    assert_eq!((cube.width_ns, cube.range().unwrap().1, cube.events()), (1_000_000, 3000, 100));
    // An hour needs wider columns.
    let mut builder = CubeBuilder::new(&[CubeKey::Field(Field::Device)], CubeLimits::default());
    builder.add(&context, &batch(&events(100)), None);
    builder.cover(3_600_000_000_000);
    let cube = builder.finish();
    let (first, columns) = cube.range().unwrap();
    assert!(columns <= CubeLimits::default().columns && first == 0);
    assert_eq!((3_600_000_000_000 / cube.width_ns) as usize + 1, columns);
}
