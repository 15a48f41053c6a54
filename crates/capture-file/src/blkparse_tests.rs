use super::*;
use crate::{Format, read_bytes};

#[test]
fn lines_with_and_without_a_sequence() {
    for line in [
        "254,0    1        7     0.000041582    44  D  DS 342114848 + 8 [fio job]",
        "254,0    1     0.000041582    44  D  DS 342114848 + 8 [fio job]",
    ] {
        let Line::Record(record, comm) = parse(line.as_bytes()) else { panic!("{line}") };
        assert_eq!((record.time_ns, record.tid, record.dev, record.sector), (41_582, 44, 254 << 20, 342_114_848));
        assert_eq!(&comm[..8], b"fio job\0");
    }
    for line in ["254,0 1 7 0.000041 44 D DS 8 + 8 [a]", "1,2,3", "254 1 7 0.000041582 44 D W 8 + 8 [a]", "x"] {
        assert!(matches!(parse(line.as_bytes()), Line::Unknown), "{line}");
    }
}

#[test]
fn statistics_are_silent_and_other_lines_are_malformed() {
    let record = |at: u32, act: &str| format!("  8,0    0        {at}     0.00000{at}000   99  {act} 8 + 8 [0]\n");
    let text =
        [&record(1, "D  RS"), "nonsense\n", &record(2, "C  RS"), "CPU0 (8,0):\n Reads Queued: 1\nanything\n"].concat();
    let options = ReadOptions { format: Some(Format::Blkparse), ..ReadOptions::new(FieldSet::EVERY) };
    let mut rows = 0;
    let context = read_bytes("test", text.as_bytes(), &options, &mut |_, batch| {
        rows += batch.len();
        ControlFlow::Continue(())
    });
    assert_eq!((rows, context.unwrap().tally.get(Anomaly::UnparsedLines)), (1, 1));
    assert_eq!(detect(text.as_bytes()), Detected::Yes);
    for text in [&b""[..], b"1 2\n", b"8,0, 1, 2, 3\n", b"0.000001 8 9\n"] {
        assert_eq!(detect(text), Detected::No);
    }
}

#[test]
fn a_last_line_that_is_cut_is_no_record() {
    let record = |at: u32, act: &str| format!("  8,0    0        {at}     0.00000{at}000   99  {act} 8 + 8 [0]\n");
    let (issue, complete) = (record(3, "D  RS"), record(4, "C  RS"));
    let text = [record(1, "D  RS"), record(2, "C  RS"), issue, complete.clone()].concat();
    let read_of = |text: &str| {
        let options = ReadOptions { format: Some(Format::Blkparse), ..ReadOptions::new(FieldSet::EVERY) };
        let mut rows = 0;
        let context = read_bytes("test", text.as_bytes(), &options, &mut |_, batch| {
            rows += batch.len();
            ControlFlow::Continue(())
        });
        let tally = context.unwrap().tally;
        (rows, [Anomaly::Truncated, Anomaly::UnparsedLines].map(|anomaly| tally.get(anomaly)))
    };
    for cut in 1..complete.len() {
        assert_eq!(read_of(&text[..text.len() - cut]), (1, [1, 0]), "{cut}");
    }
    assert_eq!(read_of(&format!("{text}CPU0 (8,0):\n Reads Queued:  ")), (2, [0, 0]));
}
