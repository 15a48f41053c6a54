//! Peers that mean harm: a hub stays within its limits, and goes on serving.

use super::*;
use crate::{Dictionary, Head, Id, IntervalRow};
use std::net::TcpStream;

/// Memory of this process, bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// Whether this process runs nothing but this test, whose memory is measured; else a process of its own runs it.
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "LATSCOPE_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let program = std::env::current_exe().unwrap();
    let out = std::process::Command::new(program).args(["--exact", test]).env(ALONE, "1").output().unwrap();
    let printed = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && printed.contains("1 passed"), "{printed}");
    false
}

fn connect(hub: &Running) -> Option<TcpStream> {
    let stream = TcpStream::connect(hub.address.to_string()).ok()?;
    stream.set_nonblocking(true).unwrap();
    Some(stream)
}

fn add_one(hub: &Running, host: &str) {
    let hello = hello(host);
    let mut reducer = Reducer::new(hello.run, WIDTH_NS, 200);
    let records = interval(&mut reducer, recent(), &values(1), &mut Counts::new());
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        assert!(Instant::now() < until);
        let stream = hub.address.connect(None).unwrap();
        let sent = (&stream).write_all(PREFACE).and_then(|()| (&stream).write_all(hello.record().bytes()));
        let mut answers = Records::of_connection(stream);
        // Where all places are taken, the connection ends without an answer.
        if sent.is_ok() && matches!(answers.next(), Ok(Some(Found::Record(_)))) {
            let mut stream = answers.source();
            records.iter().for_each(|record| stream.write_all(record.bytes()).unwrap());
            assert!(matches!(answers.next(), Ok(Some(Found::Record(record))) if record.kind() == Ok(Kind::Ack)));
            return;
        }
        sleep(Duration::from_millis(100));
    }
}

/// Whatever record of an agent is refused, others are served afterwards.
#[test]
fn a_refused_record_holds_up_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Running::start(folder.path());
    let many: Vec<_> = (0..10_001).map(|group| vec![format!("d{group}")]).collect();
    let wrong: [&dyn Fn(Id) -> Record; 6] = [
        &|run| Dictionary::record(run, 5, &many[..1]),
        &|run| Dictionary::record(run, 0, &many),
        &|_| Dictionary::record(Id([9; 16]), 0, &[]),
        &|run| Record::packed(Kind::Data, &run.0, b"\xff\xff"),
        &|_| Record::new(Kind::Hello, b"x"),
        &|_| Record::new(Kind::Ping, b"x"),
    ];
    for (number, record) in wrong.iter().enumerate() {
        let hello = hello(&format!("evil{number}"));
        let stream = hub.address.connect(None).unwrap();
        let sent = [PREFACE, hello.record().bytes(), record(hello.run).bytes()].concat();
        (&stream).write_all(&sent).unwrap();
        let mut answers = Records::of_connection(stream);
        assert!(matches!(answers.next(), Ok(Some(Found::Record(record))) if record.kind() == Ok(Kind::Welcome)));
        assert!(
            matches!(answers.next(), Ok(Some(Found::Record(record))) if record.kind() == Ok(Kind::Refuse)),
            "{number}"
        );
        add_one(&hub, &format!("n{number}"));
    }
}

/// A view that asks and reads nothing does not keep the hub from ending.
#[test]
fn who_reads_nothing_does_not_keep_a_hub_from_ending() {
    let folder = tempfile::tempdir().unwrap();
    let mut hub = Running::start(folder.path());
    let (hello, start) = (hello("n1"), recent());
    let mut reducer = Reducer::new(hello.run, WIDTH_NS, 200);
    let mut records = Vec::new();
    for at in 0..100u64 {
        // Far more than a socket holds.
        let values: Vec<(&str, u64)> = (0..2000).map(|value| ("sda", (value + at) * 7919 * (value + 1))).collect();
        records.extend(interval(&mut reducer, start + at as i64, &values, &mut Counts::new()));
    }
    hub.hub.take_pushed(&hello, records).unwrap();
    let stream = hub.address.connect(None).unwrap();
    (&stream).write_all(&[PREFACE, Record::new(Kind::Read, b"").bytes()].concat()).unwrap();
    sleep(Duration::from_millis(500));
    hub.is_over.store(true, Ordering::Relaxed);
    let thread = hub.thread.take().unwrap();
    let until = Instant::now() + crate::stream::SILENCE - Duration::from_secs(1);
    while !thread.is_finished() {
        assert!(Instant::now() < until, "the hub waits for who reads nothing");
        sleep(Duration::from_millis(20));
    }
    hub.thread = Some(std::thread::spawn(|| ()));
    drop(stream);
}

/// Whoever says what it wants gets in at once, however many connections from its own host say nothing.
#[test]
fn who_says_nothing_keeps_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Running::secured(folder.path(), Address::parse("127.0.0.1:0").unwrap(), &Credentials::default());
    let silent: Vec<TcpStream> = (0..HALF_OPEN + 40).filter_map(|_| connect(&hub)).collect();
    // All of them are accepted, and none is new.
    sleep(Duration::from_millis(500));
    for host in ["n1", "n2", "n3"] {
        assert_eq!(Peer::connect(&hub, &hello(host)).answer().kind(), Ok(Kind::Welcome));
    }
    drop(silent);
}

/// A name that would write lines into the log of the hub is refused.
#[test]
fn names_of_hosts_are_printable() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Running::start(folder.path());
    for name in ["n1\nlatscope: n2: connected", "n\u{1b}[2J", "n\u{202e}"] {
        assert_eq!(Peer::connect(&hub, &hello(name)).answer().kind(), Ok(Kind::Refuse), "{name:?}");
    }
    assert!(hub.hub.shape().is_none());
}

/// Thousands of connections that send nothing, a byte at a time, or nonsense; records that claim what they are not.
#[test]
fn a_hub_survives_its_peers() {
    if !is_alone("hub::tests::hostile::a_hub_survives_its_peers") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let hub = Running::secured(folder.path(), Address::parse("127.0.0.1:0").unwrap(), &Credentials::default());
    add_one(&hub, "n1");
    let idle = resident();
    let mut silent: Vec<TcpStream> = Vec::new();
    for number in 0..5000u32 {
        let Some(mut stream) = connect(&hub) else { continue };
        let _ = match number % 4 {
            0 => Ok(0),
            1 => stream.write(&PREFACE[..1]),
            2 => stream.write(&[0xff; 512]),
            _ => stream.write(&[PREFACE, &(1u32 << 20).to_le_bytes(), &[1; 300]].concat()),
        };
        // As many as this process may have open: what is closed here ends there, too.
        if silent.len() < 400 {
            silent.push(stream);
        }
    }
    let held = resident();
    assert!(held < idle + (64 << 20), "{} KiB more", (held - idle) >> 10);
    // Those that send nothing lose their places in time, and whoever is honest gets in.
    add_one(&hub, "n2");
    drop(silent);
    let head = |intervals| Head { run: Id([9; 16]), sequences: 0..=0, start: recent(), width_ns: WIDTH_NS, intervals };
    let hello = Hello { run: Id([9; 16]), ..hello("evil") };
    let bomb = Record::packed(Kind::Data, &plain(&head(1)), &vec![0; 5 << 20]);
    let many = Data { head: head(1), rows: vec![IntervalRow::default()] }.record();
    let foreign = Data { head: Head { run: Id([8; 16]), ..head(1) }, rows: vec![IntervalRow::default()] }.record();
    for (record, is_taken) in [(bomb, false), (foreign, false), (Record::new(Kind::Data, b""), false), (many, true)] {
        // The connection before may not have ended yet, for the hub.
        let until = Instant::now() + Duration::from_secs(30);
        let mut peer = loop {
            assert!(Instant::now() < until);
            let mut peer = Peer::connect(&hub, &hello);
            if peer.answer().kind() == Ok(Kind::Welcome) {
                break peer;
            }
        };
        peer.send(&record);
        assert_eq!(peer.answer().kind(), Ok(if is_taken { Kind::Ack } else { Kind::Refuse }));
    }
    let (_, hosts, _) = hub.read();
    let names: Vec<&str> = hosts.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["n1", "n2", "evil"]);
}

/// What stands before the body of a record.
fn plain(head: &Head) -> Vec<u8> {
    let record = Data { head: head.clone(), rows: vec![IntervalRow::default()] }.record();
    let (_, body) = Head::parse(&record).unwrap();
    record.payload()[..record.payload().len() - body.len()].to_vec()
}

/// Single hosts can be read for the last minute.
#[test]
fn the_last_minute_has_the_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Running::start(folder.path());
    let now = now_ns() / WIDTH_NS as i64;
    for host in ["n1", "n2"] {
        let hello = hello(host);
        let mut reducer = Reducer::new(hello.run, WIDTH_NS, 200);
        let mut peer = Peer::connect(&hub, &hello);
        assert_eq!(peer.answer().kind(), Ok(Kind::Welcome));
        for number in [now - 300, now - 2, now - 1] {
            let records = interval(&mut reducer, number, &values(1), &mut Counts::new());
            records.iter().for_each(|record| peer.send(record));
        }
        peer.answers_until(2);
    }
    // The journal has it after a restart.
    drop(hub);
    let hub = Running::start(folder.path());
    let mut stream = hub.address.read(&Credentials::default(), &Query { by_host: true, ..Query::default() }).unwrap();
    stream.read_exact(&mut [0; PREFACE.len()]).unwrap();
    let mut records = Records::of_file(stream);
    let (mut hosts, mut intervals) = (Vec::new(), Vec::new());
    while let Some(Found::Record(record)) = records.next().unwrap() {
        match record.kind() {
            Ok(Kind::Hello) => hosts.push(Hello::parse(record.payload()).unwrap().host),
            Ok(Kind::Data) => intervals.push(Head::parse(&record).unwrap().0.start),
            _ => {}
        }
    }
    assert_eq!((hosts, intervals), (vec!["n1".into(), "n2".into()], vec![now - 2, now - 1, now - 2, now - 1]));
}
