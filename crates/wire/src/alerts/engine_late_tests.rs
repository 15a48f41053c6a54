//! Data that comes late or again, and restarts, against an engine that has all of it in time.

use super::*;
use proptest::prelude::*;

const MANY: &str = r#"
[[alert]]
name = "slow"
if = "p90 > 40ms"
for = "2s"
step = "2s"
keep = "3s"
until = "p90 < 30ms"
by = ["device"]
[[alert]]
name = "peak"
if = "max > 45ms for 2 intervals"
step = "3s"
[[alert]]
name = "few"
if = "count < 3"
step = "1s"
by = ["host"]
[[alert]]
name = "stall"
if = "oldest > 20ms"
by = ["host", "device"]
[[alert]]
name = "host missing"
if = "missing > 0"
for = "3s"
by = ["host"]
[[slo]]
name = "goal"
good = { below = "25ms", target = "90%", over = "1h" }
"#;

/// One news for each interval: seconds of two hosts, of which some are missing.
fn recorded(seconds: &[(u64, u64, u8)]) -> Vec<News> {
    let seconds = (0..).zip(seconds);
    let one = |(at, &(done, age, missing)): (i64, &(u64, u64, u8))| {
        // So that minutes pass.
        let at = at * 7;
        let (n1, n2) = (row("n1", at, &[("sda", &[done; 3], &[age])]), row("n2", at, &[("sdb", &[done / 2], &[])]));
        let (rows, last) = match missing {
            0 => (vec![n1], over(at, &["n1"], &["n2"])),
            1 => (Vec::new(), over(at, &[], &["n1", "n2"])),
            _ => (vec![n1, n2], over(at, &["n1", "n2"], &[])),
        };
        let mut between: Vec<OverInterval> =
            (at - 6..at).filter(|&at| at >= 0).map(|at| over(at, &["n1", "n2"], &[])).collect();
        between.push(last);
        news(rows, between)
    };
    seconds.map(one).collect()
}

proptest! {
    /// A restart anywhere changes nothing: the state goes through its file, and the journal repeats what it has.
    #[test]
    fn a_restart_changes_nothing(
        seconds in proptest::collection::vec((0u64..60, 0u64..40, 0u8..8), 1..40), cut in 0usize..40,
    ) {
        let (rules, recorded) = (rules(MANY), recorded(&seconds));
        let mut engine = Engine::new(&rules, &filters, i64::MIN);
        let whole: Vec<Change> = recorded.iter().flat_map(|news| engine.add(news).0).collect();
        let cut = cut % recorded.len();
        let mut before = Engine::new(&rules, &filters, i64::MIN);
        let mut found: Vec<Change> = recorded[..cut].iter().flat_map(|news| before.add(news).0).collect();
        let saved = serde_json::to_string(&before.save()).unwrap();
        let mut after = Engine::new(&rules, &filters, i64::MIN);
        prop_assert_eq!(after.restore(serde_json::from_str(&saved).unwrap(), i64::MAX), []);
        prop_assert_eq!(before.firing(), after.firing());
        let rows = recorded[..cut].iter().flat_map(|news| news.rows.clone()).collect();
        let again: Vec<OverInterval> = recorded[..cut].iter().flat_map(|news| news.over.clone()).collect();
        found.extend(after.add(&news(rows, again)).0);
        found.extend(recorded[cut..].iter().flat_map(|news| after.add(news).0));
        prop_assert_eq!(times(&found), times(&whole));
        prop_assert_eq!(after.firing(), engine.firing());
    }
}

/// Data that comes late is judged as if it had come in time.
#[test]
fn late_data_is_judged_again() {
    let text =
        "built_in = false\n[[alert]]\nname = 'slow'\nif = 'max > 100ms for 3 intervals'\nstep = '1s'\nby = ['host']\n";
    let rules = rules(text);
    let slow: &[u64] = &[500];
    let run = |late: &dyn Fn(i64, &str) -> bool, until: i64| {
        let mut engine = Engine::new(&rules, &filters, i64::MIN);
        let (mut found, mut held) = (Vec::new(), Vec::new());
        for at in 0..until {
            let mut rows = Vec::new();
            for host in ["n1", "n2"] {
                let is_slow = (10..16).contains(&at) && host == "n1";
                let row = row(host, at, &[("sda", if is_slow { slow } else { &[1] }, &[])]);
                if late(at, host) { held.push(row) } else { rows.push(row) }
            }
            let present: Vec<&str> = rows.iter().map(|row| row.host.as_str()).collect();
            let missing: Vec<&str> = ["n1", "n2"].into_iter().filter(|host| !present.contains(host)).collect();
            let last = over(at, &present, &missing);
            found.extend(engine.add(&news(rows, vec![last])).0);
        }
        found.extend(engine.add(&news(held, Vec::new())).0);
        (found, engine.firing())
    };
    let in_time = run(&|_, _| false, 40).0;
    assert_eq!(times(&in_time), [(13, true, "slow n1".into()), (17, false, "slow n1".into())]);
    // All of it is late: the alert is reported with the times that it had.
    let (late, firing) = run(&|at, host| host == "n1" && (5..30).contains(&at), 40);
    assert_eq!((times(&late).len(), firing.len()), (2, 0), "{late:?}");
    for (late, in_time) in late.iter().zip(&in_time) {
        let (late, in_time) = (&late.alert, &in_time.alert);
        assert_eq!((late.start_ns, late.end_ns), (in_time.start_ns, in_time.end_ns));
        assert_eq!(late.annotations["late"], "true");
    }
    // It still holds when the data comes.
    let (late, firing) = run(&|at, host| host == "n1" && (5..15).contains(&at), 16);
    assert_eq!((late.len(), firing.len(), late[0].alert.start_ns), (1, 1, 10 * SECOND_NS));
}

/// However little of it comes at a time: what was reported last is what it was.
#[test]
fn late_data_that_trickles_in_ends_with_the_true_times() {
    for (hold, by) in
        [("", ""), ("", "by = ['host']\n"), (" for 3 intervals", "by = ['host']\n"), (" for 3 intervals", "")]
    {
        let text = format!("built_in = false\n[[alert]]\nname = 'slow'\nif = 'max > 100ms{hold}'\nstep = '1s'\n{by}");
        let rules = rules(&text);
        let run = |at_once: usize| {
            let mut engine = Engine::new(&rules, &filters, i64::MIN);
            let (mut found, mut held) = (Vec::new(), Vec::new());
            for at in 0..80 {
                let is_slow = (15..35).contains(&at);
                let late = row("n1", at, &[("sda", if is_slow { &[500] } else { &[1] }, &[])]);
                let (mut rows, mut present) = (vec![row("n2", at, &[("sda", &[1], &[])])], vec!["n2"]);
                let is_away = (10..40).contains(&at) && at_once > 0;
                match is_away {
                    true => held.push(late),
                    false => rows.push(late),
                }
                present.extend((!is_away).then_some("n1"));
                let back = if at >= 40 { at_once.min(held.len()) } else { 0 };
                rows.extend(held.drain(..back));
                let missing: &[&str] = if is_away { &["n1"] } else { &[] };
                found.extend(engine.add(&news(rows, vec![over(at, &present, missing)])).0);
            }
            assert!(held.is_empty() && engine.firing().is_empty(), "{text}");
            let ended =
                found.iter().rev().find_map(|change| change.alert.end_ns.map(|end| (change.alert.start_ns, end)));
            ended.unwrap()
        };
        let in_time = run(0);
        for at_once in [1, 3, 10, 30] {
            assert_eq!(run(at_once), in_time, "{text}{at_once} at once");
        }
    }
}

/// A backlog that comes with the newest interval does not hide when an alert started.
#[test]
fn an_alert_that_still_holds_starts_when_its_backlog_says() {
    let rules = rules("built_in = false\n[[alert]]\nname = 'slow'\nif = 'max > 100ms'\nstep = '1s'\n");
    let mut engine = Engine::new(&rules, &filters, i64::MIN);
    let slow = |at| row("n1", at, &[("sda", &[500], &[])]);
    let fast = |at| row("n2", at, &[("sda", &[1], &[])]);
    for at in 0..20 {
        assert!(engine.add(&news(vec![fast(at)], vec![over(at, &["n2"], &[])])).0.is_empty());
    }
    let mut rows: Vec<_> = (10..=20).map(slow).collect();
    rows.push(fast(20));
    let found = engine.add(&news(rows, vec![over(20, &["n1", "n2"], &[])])).0;
    let starts: Vec<_> = found.iter().map(|change| change.alert.start_ns).collect();
    assert_eq!(starts.last(), Some(&(10 * SECOND_NS)), "{found:?}");
    assert_eq!(engine.firing()[0].start_ns, 10 * SECOND_NS);
}
