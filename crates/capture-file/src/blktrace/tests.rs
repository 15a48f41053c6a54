use super::*;
use crate::{Format, read, read_bytes};
use latscope_event::Batch;
use latscope_event::Field;
use std::path::Path;

/// A record: what is written, in either layout and byte order, by other means than it is read.
#[derive(Clone)]
struct Written {
    time_ns: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
    cpu: u32,
    sequence: u32,
    pdu: Vec<u8>,
}

const DEV: u32 = 8 << 20;
const WRITE: u32 = 2 << 16;
const NOTIFY: u32 = 0x400 << 16;

fn record(time_ns: u64, action: u32, cpu: u32, sequence: u32) -> Written {
    Written { time_ns, sector: 64, bytes: 4096, action: action | WRITE, pid: 7, cpu, sequence, pdu: Vec::new() }
}

fn encode(records: &[Written], version: u8, big: bool) -> Vec<u8> {
    let mut all = Vec::new();
    for record in records {
        let mut put = |bytes: &[u8]| if big { all.extend(bytes.iter().rev()) } else { all.extend(bytes) };
        put(&(0x6561_7400 | u32::from(version)).to_le_bytes());
        put(&record.sequence.to_le_bytes());
        put(&record.time_ns.to_le_bytes());
        put(&record.sector.to_le_bytes());
        put(&record.bytes.to_le_bytes());
        if version == 8 {
            put(&record.pid.to_le_bytes());
            put(&u64::from(record.action).to_le_bytes());
        } else {
            put(&record.action.to_le_bytes());
            put(&record.pid.to_le_bytes());
        }
        put(&DEV.to_le_bytes());
        put(&record.cpu.to_le_bytes());
        put(&0u16.to_le_bytes());
        put(&(record.pdu.len() as u16).to_le_bytes());
        all.extend(vec![0; if version == 8 { 12 } else { 0 }]);
        all.extend(&record.pdu);
    }
    all
}

type Rows = Vec<(i64, u64, Option<String>)>;

fn collect(rows: &mut Rows) -> impl FnMut(&Context, &Batch) -> ControlFlow<()> {
    |_, batch| {
        for row in 0..batch.len() {
            let comm = match batch.column(Field::Comm) {
                Some(latscope_event::Column::Text(codes)) => batch.dictionary(Field::Comm).text(codes[row]),
                _ => None,
            };
            rows.push((batch.time()[row], batch.latency()[row], comm.map(str::to_string)));
        }
        ControlFlow::Continue(())
    }
}

fn events(bytes: &[u8]) -> (Rows, Context) {
    let mut rows = Vec::new();
    let context = read_bytes("test", bytes, &ReadOptions::new(FieldSet::EVERY), &mut collect(&mut rows));
    (rows, context.unwrap())
}

fn story() -> Vec<Written> {
    let mut wall = record(1000, 1 | NOTIFY, 0, 0);
    wall.pdu = [1_700_000_000u32.to_le_bytes(), 5000u32.to_le_bytes()].concat();
    let mut process = record(1500, NOTIFY, 0, 0);
    process.pdu = b"fio\0".to_vec();
    vec![wall, process, record(2000, 1, 0, 1), record(3000, 7, 0, 2), record(9000, 8, 1, 1)]
}

#[test]
fn both_layouts_and_byte_orders_are_read() {
    for (version, big) in [(7, false), (7, true), (8, false), (8, true)] {
        let mut records = story();
        if big {
            // The words of a time of day are in the order of the machine.
            records[0].pdu.chunks_mut(4).for_each(<[u8]>::reverse);
        }
        let (rows, context) = events(&encode(&records, version, big));
        // The wall clock is 1.7e18 ns + 5000 ns at 1000 ns.
        assert_eq!(rows, [(1_700_000_000_000_007_000, 6000, Some("fio".into()))], "version {version}, big {big}");
        assert_eq!(context.clock, Clock::wall());
        assert!(context.is_plain(), "{context:?}");
    }
}

#[test]
fn other_versions_are_refused_with_a_sentence() {
    for version in [1, 5, 6] {
        let bytes = encode(&story(), version, false);
        assert_eq!(detect(&Input::from_bytes("test", &bytes).unwrap()), Detected::Yes);
        let error =
            read_bytes("test", &bytes, &ReadOptions::new(FieldSet::EVERY), &mut |_, _| ControlFlow::Continue(()));
        let message = error.unwrap_err().message;
        assert!(message.contains(&format!("format {version}")) && message.ends_with('.'), "{message}");
    }
    for text in [&b"eat\n"[..], b"eat me", b"", b"\x07\x74\x61", b"\x09tae", b"\x07\x74\x61\x66"] {
        assert_eq!(detect(&Input::from_bytes("test", text).unwrap()), Detected::No, "{text:?}");
    }
}

/// A relay's buffers come one after the other: what a CPU recorded in half a second, then the next.
#[test]
fn pieces_of_several_cpus_in_one_stream_are_put_in_order() {
    let issues = (0..5000u64).map(|at| Written { sector: at * 8 + 8, ..record(at * 100_000, 7, 0, at as u32 + 1) });
    let ends =
        (0..5000u64).map(|at| Written { sector: at * 8 + 8, ..record(at * 100_000 + 50_000, 8, 1, at as u32 + 1) });
    let all: Vec<Written> = issues.chain(ends).collect();
    let (rows, context) = events(&encode(&all, 7, false));
    assert!(rows.len() == 5000 && rows.iter().all(|row| row.1 == 50_000));
    assert!(context.is_plain(), "{context:?}");
}

#[test]
fn a_file_for_each_cpu_is_one_recording() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (all, mut cpus) = (story(), [Vec::new(), Vec::new(), Vec::new()]);
    for record in &all {
        cpus[record.cpu as usize].push(record.clone());
    }
    for (cpu, records) in cpus.iter().enumerate() {
        std::fs::write(path(&format!("sda.blktrace.{cpu}")), encode(records, 7, false)).unwrap();
    }
    let expected = events(&encode(&all, 7, false)).0;
    for cpu in 0..2 {
        let mut rows = Vec::new();
        let file = path(&format!("sda.blktrace.{cpu}"));
        let context = read(&file, &ReadOptions::new(FieldSet::EVERY), &mut collect(&mut rows)).unwrap();
        assert_eq!(rows, expected);
        assert!(context.is_plain(), "{context:?}");
    }
}

#[test]
fn missing_numbers_are_lost_records() {
    let mut all = story();
    all.push(record(20_000, 7, 0, 8));
    let (_, context) = events(&encode(&all, 7, false));
    assert_eq!(context.tally.get(Anomaly::LostRecords), 5);
    let [range] = context.loss_ranges[..] else { panic!("{:?}", context.loss_ranges) };
    assert_eq!((range.cpu, range.end_ns - range.start_ns), (Some(0), 17_000));
}

#[test]
fn a_recording_cut_or_damaged_anywhere_yields_the_rest() {
    let bytes = encode(&story(), 7, false);
    for end in 0..bytes.len() {
        let result = read_bytes("test", &bytes[..end], &format(), &mut |_, _| panic!("no request completed"));
        if let Ok(context) = result {
            assert!(context.tally.get(Anomaly::Truncated) <= 1);
        }
    }
    let mut damaged = bytes.clone();
    damaged.splice(48 + 8..48 + 8, b"some other bytes".repeat(20_000));
    let (rows, context) = events(&damaged);
    assert_eq!((rows.len(), context.tally.get(Anomaly::DamagedRecords)), (1, 1));
    assert_eq!(context.properties["damage"], "no record at byte 56");
}

fn format() -> ReadOptions<'static> {
    ReadOptions { format: Some(Format::Blktrace), ..ReadOptions::new(FieldSet::EVERY) }
}

#[test]
fn garbage_behind_a_magic_ends_with_an_account() {
    let mut random = 1u64;
    let mut garbage = encode(&story(), 7, false);
    for at in 0..200_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        garbage.push((random >> 56) as u8);
        if at % 300 == 0 {
            garbage.extend([7, 0x74, 0x61, 0x65]);
        }
    }
    let (_, context) = events(&garbage);
    assert!(context.tally.get(Anomaly::DamagedRecords) > 0);
    assert!(read(Path::new("nowhere.blktrace.0"), &format(), &mut |_, _| ControlFlow::Continue(())).is_err());
}
