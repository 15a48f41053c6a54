//! Clocks of agents that are wrong: what they send stands where it happened by the clock of the hub.

use super::*;

/// An agent whose clock is moved by this, as it sends an interval after the other.
fn send_moved(hub: &Running, host: &str, moved_ns: i64, numbers: std::ops::Range<i64>, truth: &mut Counts) {
    let (hello, by) = (hello(host), moved_ns.div_euclid(WIDTH_NS as i64));
    let (queue, _) = Queue::open(None, KEPT, 1, &hello).unwrap();
    let mut reducer = Reducer::new(hello.run, WIDTH_NS, 200);
    for number in numbers {
        let mut counts = Counts::new();
        queue.push(interval(&mut reducer, number + by, &values(number as u64 % 97), &mut counts));
        truth.extend(counts.into_iter().map(|((number, device, cell), count)| ((number - by, device, cell), count)));
    }
    queue.end(Instant::now() + Duration::from_secs(30));
    let credentials = Credentials::default();
    let sender = Sender {
        queue: &queue,
        hub: 0,
        address: &hub.address,
        credentials: &credentials,
        hello: &hello,
        is_synchronised: &|| None,
        clock_moved_ns: &|| moved_ns,
    };
    sender.run(&|_| ());
}

/// Whatever the clock of an agent says: memory, journal, news for alerts, single hosts and a hub that starts again have its intervals
/// where they happened, and the difference is reported.
#[test]
fn a_wrong_clock_of_an_agent_moves_nothing() {
    const SECOND: i64 = WIDTH_NS as i64;
    for moved_ns in [3_600 * SECOND, -3_600 * SECOND, 20 * SECOND, -20 * SECOND, SECOND / 5 * 2] {
        let folder = tempfile::tempdir().unwrap();
        let (mut truth, now) = (Counts::new(), now_ns().div_euclid(SECOND));
        let hub = Running::start(folder.path());
        send_moved(&hub, "n1", moved_ns, now - 6..now, &mut truth);
        let (counts, hosts, _) = hub.read();
        let numbers: std::collections::BTreeSet<i64> = counts.keys().map(|key| key.0 - now).collect();
        assert!(counts == truth, "{moved_ns}: {numbers:?}, {} outside, {:?}", hosts.outside, hosts.hosts);
        assert_eq!((hosts.outside, hosts.hosts[0].last), (0, now - 1));
        let news = hub.hub.news().unwrap();
        let numbers: std::collections::BTreeSet<i64> = news.rows.iter().map(|row| row.interval).collect();
        assert!(numbers.into_iter().eq(now - 6..now));
        assert!(news.rows.iter().all(|row| row.offset_ns.is_some_and(|ns| ns.abs_diff(-moved_ns) < WIDTH_NS / 2)));
        let far = hub.changes.lock().unwrap().iter().any(|change| matches!(change, Change::Clock(_, 1.. | ..=-1)));
        assert!(far, "{moved_ns}");
        drop(hub);
        let again = Running::start(folder.path());
        assert!(again.read().0 == truth, "{moved_ns}: after a restart");
    }
}

/// An agent that compares nothing is taken by its own clock, and one whose clock is put right goes on without a gap.
#[test]
fn a_clock_is_put_right() {
    let folder = tempfile::tempdir().unwrap();
    let (hub, mut truth) = (Running::start(folder.path()), Counts::new());
    let now = now_ns().div_euclid(WIDTH_NS as i64);
    let (hello, mut unmeasured) = (hello("n0"), Counts::new());
    let mut reducer = Reducer::new(hello.run, WIDTH_NS, 200);
    let mut peer = Peer::connect(&hub, &hello);
    assert_eq!(peer.answer().kind(), Ok(Kind::Welcome));
    interval(&mut reducer, now - 50, &values(5), &mut unmeasured).iter().for_each(|record| peer.send(record));
    peer.answers_until(0);
    assert!(hub.read().0 == unmeasured);
    send_moved(&hub, "n1", -3_600_000_000_000, now - 20..now - 10, &mut truth);
    send_moved(&hub, "n1", 0, now - 10..now, &mut truth);
    truth.extend(unmeasured);
    assert!(hub.read().0 == truth);
    let changes = hub.changes.lock().unwrap();
    let clocks: Vec<bool> = changes
        .iter()
        .filter_map(|change| if let Change::Clock(_, ns) = change { Some(*ns != 0) } else { None })
        .collect();
    assert_eq!(clocks, [true, false]);
}

/// Nobody is there any more: that shows by the time, though no interval is closed.
#[test]
fn hosts_that_are_all_gone_are_missing() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Running::start(folder.path());
    hub.hub.keep_closed();
    let (hello, now) = (hello("n1"), now_ns().div_euclid(WIDTH_NS as i64));
    let mut reducer = Reducer::new(hello.run, WIDTH_NS, 200);
    let mut peer = Peer::connect(&hub, &hello);
    assert_eq!(peer.answer().kind(), Ok(Kind::Welcome));
    interval(&mut reducer, now - 1, &values(1), &mut Counts::new()).iter().for_each(|record| peer.send(record));
    peer.answers_until(0);
    let until_hosts = |hosts| {
        let until = Instant::now() + Duration::from_secs(30);
        while hub.hub.take_closed().unwrap().hosts != Some(hosts) {
            assert!(Instant::now() < until, "{hosts:?}");
            sleep(Duration::from_millis(50));
        }
    };
    until_hosts((1, 0));
    drop(peer);
    until_hosts((0, 1));
    let (_, hosts, _) = hub.read();
    assert_eq!((hosts.present, hosts.hosts[0].is_missing), (0, true));
    assert!(hub.hub.facts()[0].is_missing);
    let until = Instant::now() + Duration::from_secs(30);
    while !hub.changes.lock().unwrap().contains(&Change::Missing(vec!["n1".into()])) {
        assert!(Instant::now() < until);
        sleep(Duration::from_millis(50));
    }
}

/// The clock of a hub was an hour ahead and is put right: intervals go on at once where they are now, hosts are there, what lies ahead is
/// said, and nothing that was counted is lost or comes again.
#[test]
fn a_hub_goes_on_when_its_clock_is_set() {
    const SECOND: i64 = WIDTH_NS as i64;
    let mut cluster = Cluster::new(LIMITS);
    cluster.keep_news(true);
    cluster.keep_closed();
    let (hello, start) = (hello("n1"), 1_700_000_000);
    let mut reducer = Reducer::new(hello.run, WIDTH_NS, 200);
    cluster.describe(hello.clone(), hello.record()).unwrap();
    cluster.connect(hello.run, start * SECOND).unwrap();
    let (mut over, mut closed, mut ages) = (Vec::new(), Vec::new(), Vec::new());
    for at in 0..40 {
        let (host, hub) = (start + at, start + at + if at < 20 { 3600 } else { 0 });
        let now = (hub + 1) * SECOND + SECOND / 4;
        if at == 20 {
            cluster.step_clock(-3600 * SECOND, now);
        }
        if at % 10 == 0 {
            // The first word after the step is about the clock before.
            let offset = if at <= 20 { 3600 * SECOND } else { 0 };
            cluster.set_clock(hello.run, crate::ClockState { offset: Some((offset, 1000)), is_synchronised: None });
        }
        for record in interval(&mut reducer, host, &values(1), &mut Counts::new()) {
            match record.kind() {
                Ok(Kind::Data) => {
                    let record = cluster.place(hello.run, record).unwrap();
                    cluster.add(Data::parse(&record).unwrap(), now).unwrap();
                }
                _ => cluster.add_groups(record).unwrap(),
            }
        }
        assert_eq!(cluster.close(now), Some(Vec::new()), "{at}");
        let news = cluster.news(now).unwrap();
        assert_eq!(news.stepped_ns, if at == 20 { -3600 * SECOND } else { 0 });
        assert!(news.rows.iter().map(|row| row.interval).eq([hub]), "{at}");
        over.extend(news.over.into_iter().map(|over| (over.interval, over.present.len(), over.missing.len())));
        let new = cluster.take_closed(now).unwrap();
        assert_eq!(new.hosts, Some((1, 0)), "{at}");
        closed.extend(new.intervals.into_iter().map(|merged| (merged.interval, merged.is_late)));
        ages.push(cluster.facts(now)[0].last);
    }
    let numbers = || (3600..3620).chain(20..40).map(|at| start + at);
    // The one that was over when the clock was set is not judged.
    assert!(over.into_iter().eq(numbers().filter(|&number| number != start + 20).map(|number| (number, 1, 0))));
    assert!(closed.into_iter().eq(numbers().map(|number| (number, false))));
    assert!(ages.into_iter().eq(numbers().map(Some)));
    let hosts = cluster.latest_hosts((start + 41) * SECOND);
    assert_eq!((hosts.present, hosts.outside), (1, 20));
}
