use super::*;
use latscope_event::{Batch, Clock};

fn tree(rows: &[(&str, &str, &str, u64)], by: &[Field]) -> StackTree {
    let mut tree = StackTree::new(StacksTable::fields(by));
    let mut batch = Batch::new(tree.fields());
    for &(stack, device, comm, latency) in rows {
        batch.push_i64(Field::Time, 0);
        batch.push_u64(Field::Latency, latency);
        batch.push_text(Field::Device, Some(device.as_bytes()));
        batch.push_text(Field::Comm, Some(comm.as_bytes()));
        batch.push_text(Field::WaitClass, Some(b"direct read"));
        batch.push_text(Field::Stack, Some(stack.as_bytes()));
        batch.end_row();
    }
    tree.add(&batch, None);
    tree
}

const ROWS: &[(&str, &str, &str, u64)] = &[
    ("main;worker;archive_scan;pread64;io_schedule_[k]", "sda", "reader", 6_000_000),
    ("main;worker;archive_scan;pread64;io_schedule_[k]", "sdb", "reader", 1_000_000),
    ("main;log;fsync;jbd2_log_wait_commit_[k]", "sda", "a,\"b", 3_000_000),
];

#[test]
fn a_stack_is_named_by_the_function_that_leads_into_the_kernel() {
    let table = StacksTable::new(&tree(ROWS, &[]), 0, StackWidth::Time);
    let [first, second] = &table.rows[..] else { panic!("{table:?}") };
    assert_eq!((&first.frame[..], first.callers.join(" ")), ("archive_scan", "worker main".into()));
    assert_eq!((first.share, first.sum.events), (0.7, 2));
    assert_eq!(first.common[3], Some(("sda".into(), 1)), "the heaviest device, and one more");
    assert_eq!((&second.frame[..], second.common[1].clone()), ("log", None), "no event has a state");
    let context = Context::new("test", Clock::wall());
    let lines = table.lines(&context, Wording::default(), "", 1, false, 120.into());
    let text: Vec<String> = lines.iter().map(Line::text).collect();
    assert!(text[0].starts_with("shares of 10ms in 3 events, with 95 % intervals from 2 samples"), "{text:?}");
    assert!(
        text[3].contains("70.0 %") && text[3].contains("archive_scan  direct read  reader  sda +1  worker < main"),
        "{text:?}"
    );
    assert!(text[4].starts_with("and 1 more stack with 30.0 %"), "{text:?}");
}

#[test]
fn groups_have_rows_of_their_own() {
    let table = StacksTable::new(&tree(ROWS, &[Field::Device]), 1, StackWidth::Events);
    let groups: Vec<_> =
        table.rows.iter().map(|row| (row.group[0].clone(), row.frame.clone(), row.sum.events)).collect();
    let row = |device: &str, frame: &str| (device.to_string(), frame.to_string(), 1);
    assert_eq!(groups, [row("sda", "log"), row("sda", "archive_scan"), row("sdb", "archive_scan")]);
}

#[test]
fn machines_read_it() {
    let table = StacksTable::new(&tree(ROWS, &[Field::Device]), 1, StackWidth::Time);
    let json: serde_json::Value = serde_json::from_str(&table.json()).unwrap();
    let first = &json["stacks"][0];
    assert_eq!((first["group"]["device"].as_str(), first["function"].as_str()), (Some("sda"), Some("archive_scan")));
    assert_eq!((first["share"].as_f64(), first["time_ns"].as_u64()), (Some(0.6), Some(6_000_000)));
    assert!(first["share_low"].as_f64().unwrap() < 0.6 && first["state"].is_null());
    assert_eq!(json["stacks"][1]["comm"], "a,\"b");
    let csv = table.csv();
    assert_eq!(
        csv.lines().next().unwrap(),
        "device,share,share_low,share_high,time_ns,events,samples,waiting,function,stack,wait_class,state,comm"
    );
    assert!(csv.contains("\"a,\"\"b\""), "{csv}");
}
