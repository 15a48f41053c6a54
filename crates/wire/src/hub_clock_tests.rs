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
