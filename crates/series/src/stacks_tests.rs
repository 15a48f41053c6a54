use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Rows of device, stack, weight and latency.
type Rows = Vec<(u8, Option<Vec<u8>>, i64, u64)>;

fn batch(rows: &Rows) -> Batch {
    let mut batch = Batch::new(FieldSet::ALWAYS.with(&[Field::Device, Field::Stack, Field::SampleWeight]));
    for (at, (device, stack, weight, latency)) in rows.iter().enumerate() {
        batch.push_i64(Field::Time, at as i64);
        batch.push_u64(Field::Latency, *latency);
        batch.push_text(Field::Device, Some(format!("sd{device}").as_bytes()));
        batch.push_text(Field::Stack, stack.as_deref().map(text).as_ref().map(String::as_bytes));
        batch.push_i64(Field::SampleWeight, if *weight == 1 { MISSING_I64 } else { *weight });
        batch.end_row();
    }
    batch
}

fn text(frames: &[u8]) -> String {
    frames.iter().map(|frame| format!("f{frame}")).collect::<Vec<_>>().join(";")
}

fn tree(rows: &Rows, by: &[Field]) -> StackTree {
    let mut tree = StackTree::new(by.to_vec());
    tree.add(&batch(rows), None);
    tree
}

/// Inclusive samples, events and time by path, of a tree.
fn paths(tree: &StackTree, sums: &[StackSum]) -> BTreeMap<String, (u64, u64, u128)> {
    let path = |node: u32| {
        tree.path(node).iter().map(|&at| tree.name(&tree.nodes()[at as usize])).collect::<Vec<_>>().join(";")
    };
    let sums = sums.iter().enumerate().filter(|(_, sum)| sum.samples > 0);
    sums.map(|(node, sum)| (path(node as u32), (sum.samples, sum.events, sum.time_ns))).collect()
}

/// The same by looking at every row for every prefix.
fn brute(rows: &Rows, by_device: bool) -> BTreeMap<String, (u64, u64, u128)> {
    let mut sums: BTreeMap<String, (u64, u64, u128)> = BTreeMap::new();
    for (device, stack, weight, latency) in rows {
        let Some(stack) = stack else { continue };
        let mut frames: Vec<String> = stack.iter().map(|frame| format!("f{frame}")).collect();
        if by_device {
            frames.insert(0, format!("device=sd{device}"));
        }
        for length in 0..=frames.len() {
            let sum = sums.entry(frames[..length].join(";")).or_default();
            *sum = (sum.0 + 1, sum.1 + *weight as u64, sum.2 + u128::from(*latency) * *weight as u128);
        }
    }
    sums
}

fn rows() -> impl Strategy<Value = Rows> {
    let stack = proptest::option::weighted(0.9, proptest::collection::vec(0u8..4, 0..6));
    proptest::collection::vec((0u8..3, stack, 1i64..5, 0u64..1000), 0..60)
}

use crate::share_interval;

proptest! {
    #[test]
    fn every_prefix_has_what_a_look_at_every_row_gives(rows in rows(), by_device: bool) {
        let by: &[Field] = if by_device { &[Field::Device] } else { &[] };
        let tree = tree(&rows, by);
        let found = paths(&tree, &tree.inclusive());
        prop_assert_eq!(&found, &brute(&rows, by_device));
        let missing = rows.iter().filter(|(_, stack, ..)| stack.is_none()).count() as u64;
        prop_assert_eq!(tree.without().samples, missing);
        prop_assert_eq!(tree.inclusive()[0], tree.total());
    }

    #[test]
    fn merged_trees_are_the_tree_of_all(one in rows(), other in rows()) {
        let mut merged = tree(&one, &[Field::Device]);
        merged.merge(&tree(&other, &[Field::Device]));
        let all = tree(&[one, other].concat(), &[Field::Device]);
        prop_assert_eq!(paths(&merged, &merged.inclusive()), paths(&all, &all.inclusive()));
        prop_assert!((merged.effective_samples(StackWidth::Time) - all.effective_samples(StackWidth::Time)).abs() < 1e-6);
    }

    #[test]
    fn a_difference_has_both_sides_whole(one in rows(), other in rows()) {
        let difference = tree(&one, &[]).against(&tree(&other, &[]));
        prop_assert_eq!(paths(&difference.tree, &difference.tree.inclusive()), brute(&one, false));
        prop_assert_eq!(paths(&difference.baseline, &difference.baseline.inclusive()), brute(&other, false));
    }
}

#[test]
fn what_waits_counts_with_its_age_and_is_marked() {
    let mut both = tree(&vec![(0, Some(vec![1, 2]), 1, 10)], &[]);
    both.add_waiting(&batch(&vec![(0, Some(vec![1]), 1, 100)]), None);
    let sums = both.inclusive();
    assert_eq!(sums[0], StackSum { samples: 2, events: 2, time_ns: 110, waiting: 1, squares: [2.0, 10_100.0] });
}

#[test]
fn a_hostile_trace_makes_no_tree_without_end() {
    let mut tree = StackTree::new(Vec::new());
    let deep = "x;".repeat(100_000);
    let long = "y".repeat(1 << 20);
    for at in 0..40 {
        let mut batch = Batch::new(tree.fields());
        let bushy: String = (0..10_000).map(|frame| format!("{at}.{frame};{frame};")).collect();
        for stack in [&deep, &long, &bushy, "", ";;"] {
            batch.push_i64(Field::Time, 0);
            batch.push_u64(Field::Latency, 1);
            batch.push_text(Field::Stack, Some(stack.as_bytes()));
            batch.end_row();
        }
        tree.start_trace();
        tree.add(&batch, None);
    }
    assert!(tree.nodes().len() <= NODES && tree.nodes().iter().all(|node| usize::from(node.depth) <= DEPTH));
    assert!(tree.nodes().iter().all(|node| tree.name(node).len() <= 1100));
    assert!(tree.cut() > 0);
    assert_eq!(tree.inclusive()[0].samples, 200, "nothing is lost");
}

/// Wilson's intervals as R's prop.test(correct = FALSE) gives them.
#[test]
fn intervals_of_shares_are_those_of_wilson() {
    let close = |(low, high): (f64, f64), expected: (f64, f64)| {
        assert!((low - expected.0).abs() < 5e-5 && (high - expected.1).abs() < 5e-5, "{low} {high}");
    };
    close(share_interval(0.75, 20.0), (0.531_299, 0.888_138));
    close(share_interval(0.0, 10.0), (0.0, 0.277_533));
    close(share_interval(0.5, 1000.0), (0.469_069, 0.530_931));
    assert_eq!(share_interval(0.3, 0.0), (0.0, 1.0));
}

#[test]
fn few_heavy_samples_count_as_few() {
    let even = tree(&vec![(0, Some(vec![1]), 1, 10); 50], &[]);
    assert!((even.effective_samples(StackWidth::Time) - 50.0).abs() < 1e-9);
    let mut rows = vec![(0, Some(vec![1]), 1, 1); 49];
    rows.push((0, Some(vec![2]), 1, 1_000_000));
    assert!(tree(&rows, &[]).effective_samples(StackWidth::Time) < 1.001);
}

#[test]
fn deep_stacks_keep_both_ends_and_long_names_stay_apart() {
    let mut tree = StackTree::new(Vec::new());
    let mut batch = Batch::new(tree.fields());
    let deep = |frames: usize, end: &str| (0..frames).map(|at| format!("f{at};")).collect::<String>() + end;
    let long = |end: &str| format!("main;{}{end};x", "L".repeat(1100));
    let stacks = [deep(4095, "y"), deep(5000, "y"), deep(5000, "z"), long("a"), long("b")];
    for stack in &stacks {
        batch.push_i64(Field::Time, 0);
        batch.push_u64(Field::Latency, 1);
        batch.push_text(Field::Stack, Some(stack.as_bytes()));
        batch.end_row();
    }
    tree.add(&batch, None);
    let ends: Vec<usize> = (0..tree.nodes().len()).filter(|&at| tree.nodes()[at].own.samples > 0).collect();
    let paths: Vec<Vec<&str>> = ends
        .iter()
        .map(|&at| tree.path(at as u32).iter().map(|&at| tree.name(&tree.nodes()[at as usize])).collect())
        .collect();
    let [whole, cut @ .., one, other] = &paths[..] else { panic!("{}", paths.len()) };
    assert_eq!(whole.join(";"), stacks[0]);
    assert_eq!(tree.cut(), 2);
    for (path, end) in cut.iter().zip(["y", "z"]) {
        assert_eq!((path.len(), path[0], path[2047], path[2048]), (4096, "f0", "f2047", "[906 frames left out]"));
        assert_eq!((path[2049], path[4094], path[4095]), ("f2954", "f4999", end));
    }
    assert!(cut.len() == 2 && one[1] != other[1] && one[1].len() <= 1024, "{one:?} {other:?}");
}

#[test]
fn the_frame_that_readers_look_for() {
    let of = |stack: &str| {
        let frames: Vec<Frame> = latscope_event::frames(stack).collect();
        application_frame(frames.into_iter()).map(|frame| frame.name.to_string())
    };
    assert_eq!(
        of("_start;main;archive_scan;__libc_pread64;entry_SYSCALL_64_[k];io_schedule_[k]").as_deref(),
        Some("archive_scan")
    );
    assert_eq!(of("kthread_[k];kjournald2_[k]").as_deref(), Some("kthread"));
    assert_eq!(of("[unknown];read").as_deref(), Some("read"));
    assert_eq!(of("main;k_[k];--;other_[k];f_[k]").as_deref(), Some("main"));
    assert_eq!(of(""), None);
}

#[test]
fn stacks_without_outer_frames_are_counted() {
    let mut batch = Batch::new(FieldSet::ALWAYS.with(&[Field::Stack, Field::StackQuality]));
    let (whole, part, kernel) = (Some("a;b"), Some("b"), Some("read_[k]"));
    for (stack, quality, latency) in
        [(whole, "complete", 5), (part, "truncated", 7), (None, "truncated", 1), (kernel, "none", 9)]
    {
        batch.push_i64(Field::Time, 0);
        batch.push_u64(Field::Latency, latency);
        batch.push_text(Field::Stack, stack.map(str::as_bytes));
        batch.push_text(Field::StackQuality, Some(quality.as_bytes()));
        batch.end_row();
    }
    let mut tree = StackTree::new(Vec::new());
    tree.add(&batch, None);
    let mut both = tree.clone();
    both.merge(&tree);
    assert_eq!([tree.truncated(), both.truncated()].map(|sum| (sum.samples, sum.time_ns)), [(2, 16), (4, 32)]);
}

#[test]
fn frames_of_a_tag_are_called_by_its_key() {
    let mut batch = Batch::new(FieldSet::ALWAYS.with(&[Field::Stack, Field::Tag]));
    batch.push_i64(Field::Time, 0);
    batch.push_u64(Field::Latency, 5);
    batch.push_text(Field::Tag, Some(b"3"));
    batch.push_text(Field::Stack, Some(b"main"));
    batch.end_row();
    for (key, wanted) in [(None, "tag=3"), (Some("stage"), "stage=3")] {
        let mut tree = StackTree::new(vec![Field::Tag]).with_tag(key);
        tree.add(&batch, None);
        assert_eq!(tree.name(&tree.nodes()[1]), wanted);
    }
}
