use super::*;
use latscope_event::{Batch, Clock, Field};

/// Rows of stack, device, latency.
fn tree(rows: &[(&str, &str, u64)], by: &[Field]) -> StackTree {
    let mut tree = StackTree::new(by.to_vec());
    let mut batch = Batch::new(tree.fields());
    for &(stack, device, latency) in rows {
        batch.push_i64(Field::Time, 0);
        batch.push_u64(Field::Latency, latency);
        batch.push_text(Field::Device, Some(device.as_bytes()));
        batch.push_text(Field::Stack, Some(stack.as_bytes()));
        batch.end_row();
    }
    tree.add(&batch, None);
    tree
}

fn draw(flames: Flames<'_>, options: &FlamegraphOptions) -> String {
    flamegraph(flames, &[Context::new("test", Clock::wall())], options)
}

/// Left edge and width of the boxes, and their tooltips.
fn boxes(svg: &str) -> Vec<(f64, f64, f64, String)> {
    let number = |text: &str, key: &str| -> f64 {
        let (_, rest) = text.split_once(&format!(" {key}=\"")).unwrap();
        rest.split('"').next().unwrap().parse().unwrap()
    };
    let parts = svg.split("<g data-p=").skip(1);
    parts
        .map(|part| {
            let tip = part.split("<title>").nth(1).unwrap().split("</title>").next().unwrap();
            (number(part, "x"), number(part, "width"), number(part, "y"), tip.to_string())
        })
        .collect()
}

#[test]
fn boxes_are_as_wide_as_their_shares_and_lie_on_their_callers() {
    let rows = [("a;b", "sda", 300), ("a;c", "sda", 100), ("a;b;d_[k]", "sdb", 400), ("e", "sdb", 200)];
    let tree = tree(&rows, &[]);
    let options = FlamegraphOptions { width: 1000, ..FlamegraphOptions::default() };
    let found = boxes(&draw(Flames::Tree(&tree), &options));
    let of = |name: &str| found.iter().find(|(.., tip)| tip.starts_with(&format!("{name}\n"))).unwrap();
    assert_eq!((of("all").0, of("all").1), (20.0, 1000.0));
    assert_eq!((of("a").0, of("a").1), (20.0, 800.0));
    assert_eq!((of("b").0, of("b").1), (20.0, 700.0));
    assert_eq!((of("d").0, of("d").1), (20.0, 400.0));
    assert_eq!((of("c").0, of("c").1), (720.0, 100.0));
    assert_eq!((of("e").0, of("e").1), (820.0, 200.0));
    assert_eq!(of("a").2 - of("b").2, 17.0, "the called lie above");
    assert!(
        of("d").3.contains("40.0 % (") && of("d").3.contains(" · 400ns · 1 event · mean 400ns\nkernel"),
        "{}",
        of("d").3
    );
    let icicle = boxes(&draw(Flames::Tree(&tree), &FlamegraphOptions { icicle: true, ..options.clone() }));
    assert!(icicle[0].2 < icicle[1].2, "the root is above");
    let by_events = boxes(&draw(Flames::Tree(&tree), &FlamegraphOptions { unit: StackWidth::Events, ..options }));
    assert_eq!(by_events[1].1, 750.0);
}

#[test]
fn no_width_is_lost_where_frames_are_too_thin() {
    let names: Vec<String> = (0..3000).map(|at| format!("root;f{at:04}")).collect();
    let rows: Vec<_> = names.iter().map(|name| (&name[..], "sda", 10)).collect();
    let tree = tree(&rows, &[]);
    let svg = draw(Flames::Tree(&tree), &FlamegraphOptions { width: 1000, ..FlamegraphOptions::default() });
    let found = boxes(&svg);
    assert_eq!(found.len(), 3);
    assert!(found[2].3.starts_with("(3,000 more)\n100 %") && found[2].1 == 1000.0, "{:?}", found[2]);
}

#[test]
fn a_picture_stays_small() {
    let names: Vec<String> = (0..200_000).map(|at| format!("f{};g{at}", at / 3)).collect();
    let rows: Vec<_> = names.iter().map(|name| (&name[..], "sda", 10)).collect();
    let tree = tree(&rows, &[]);
    let svg = draw(Flames::Tree(&tree), &FlamegraphOptions { min_share: 0.0, ..FlamegraphOptions::default() });
    assert!(svg.len() < 4_000_000, "{}", svg.len());
    assert!(svg.contains("are gathered, so that the picture stays small"));
    let widths: f64 =
        boxes(&svg).iter().filter(|one| one.3.contains("all\n") || one.2 == boxes(&svg)[1].2).map(|one| one.1).sum();
    assert!((widths - 2400.0).abs() < 20.0 || widths > 1199.0, "{widths}");
}

#[test]
fn values_of_fields_are_grey_boxes_with_their_names() {
    let tree = tree(&[("a", "sda", 3), ("a", "sdb", 1)], &[Field::Device]);
    let svg = draw(Flames::Tree(&tree), &FlamegraphOptions::default());
    assert!(svg.contains("device=sda\n75.0 %") && svg.contains("device=sdb\n25.0 %"), "{svg}");
    assert!(svg.contains(&format!("fill=\"{}\"", colour::DIMENSION)) && svg.contains(">value of a field<"));
}

#[test]
fn a_difference_is_coloured_by_inclusive_shares() {
    let here: Vec<_> =
        (0..100).map(|at| (if at < 80 { "main;slow;io_[k]" } else { "main;fast;io_[k]" }, "sda", 10)).collect();
    let there: Vec<_> =
        (0..100).map(|at| (if at < 20 { "main;slow;io_[k]" } else { "main;fast;io_[k]" }, "sda", 10)).collect();
    let difference = tree(&here, &[]).against(&tree(&there, &[]));
    let svg = draw(
        Flames::Difference(&difference, "the rest"),
        &FlamegraphOptions { width: 1000, ..FlamegraphOptions::default() },
    );
    let found = boxes(&svg);
    let of = |name: &str| found.iter().find(|(.., tip)| tip.starts_with(&format!("{name}\n"))).unwrap();
    assert!(
        of("slow").3.contains("80.0 % (")
            && of("slow").3.contains("there 20.0 % (")
            && of("slow").3.contains("+60.0 points")
    );
    assert_eq!(of("slow").1, 500.0, "the mean of both shares");
    assert!(of("main").3.contains("+0.0 points, within the error"));
    let fill = |name: &str| {
        let (_, rest) = svg.split_once(&format!("<title>{name}\n")).unwrap();
        rest.split_once("fill=\"").unwrap().1.split('"').next().unwrap().to_string()
    };
    assert_eq!(fill("slow"), colour::diverging(0.6));
    assert_eq!(fill("fast"), colour::diverging(-0.6));
    assert_eq!(fill("main"), colour::diverging(0.0));
}

#[test]
fn hostile_names_stay_text() {
    let hostile = "</text><script>alert(1)</script>\u{1}]]>\"'&\u{202e}";
    let long = "x".repeat(64 << 10);
    let tree = tree(&[(hostile, "sda", 3), (&long, "</title>", 2)], &[Field::Device]);
    let svg = draw(Flames::Tree(&tree), &FlamegraphOptions::default());
    assert_eq!(svg.matches("<script>").count(), 1);
    assert!(!svg.contains('\u{1}') && !svg.contains('\u{202e}') && svg.len() < 40_000, "{}", svg.len());
}

#[test]
fn what_has_no_stack_is_told() {
    let mut tree = tree(&[("a", "sda", 3)], &[]);
    let mut batch = Batch::new(tree.fields());
    batch.push_i64(Field::Time, 0);
    batch.push_u64(Field::Latency, 5);
    batch.end_row();
    tree.add(&batch, None);
    let svg = draw(Flames::Tree(&tree), &FlamegraphOptions::default());
    assert!(svg.contains("5ns without a stack are not shown"), "{svg}");
    assert!(svg.contains("from one sample<") && !svg.contains("1 samples"), "{svg}");
    let by_events = FlamegraphOptions { unit: StackWidth::Events, ..FlamegraphOptions::default() };
    assert!(draw(Flames::Tree(&tree), &by_events).contains("1 event without a stack is not shown"));
    assert!(draw(Flames::Tree(&StackTree::new(Vec::new())), &FlamegraphOptions::default()).contains("no events"));
}
