//! Rules over made-up intervals of hosts, a second each.

#[path = "engine_late_tests.rs"]
mod late;

use super::*;
use crate::{HostRow, OverInterval, Parts};
use latscope_histogram::{Grid, Histogram, Sparse};

const SECOND_NS: i64 = 1_000_000_000;

fn histogram(values_ms: &[u64]) -> Option<Sparse> {
    let mut histogram = Histogram::new(Grid::FINE, false);
    values_ms.iter().for_each(|ms| histogram.record(ms * 1_000_000, 0));
    (!values_ms.is_empty()).then(|| histogram.to_sparse())
}

/// What a host sent of a second: of each device what completed and what waits, in milliseconds.
fn row(host: &str, interval: i64, devices: &[(&str, &[u64], &[u64])]) -> HostRow {
    let group = |&(device, done, waiting): &(&str, &[u64], &[u64])| {
        (vec![device.to_string()].into(), Parts { done: histogram(done), waiting: histogram(waiting) })
    };
    let groups = devices.iter().map(group).collect();
    let arrived_ns = (interval + 1) * SECOND_NS + SECOND_NS / 5;
    HostRow { host: host.into(), interval, arrived_ns, is_partial: false, more_ns: 0, lost: 0, offset_ns: None, groups }
}

fn over(interval: i64, present: &[&str], missing: &[&str]) -> OverInterval {
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    OverInterval { interval, present: names(present), missing: names(missing), ended: Vec::new() }
}

fn news(rows: Vec<HostRow>, over: Vec<OverInterval>) -> News {
    News { fields: vec!["device".into()], width_ns: SECOND_NS as u64, stepped_ns: 0, rows, over }
}

fn rules(text: &str) -> Rules {
    Rules::parse(text, &|_| Ok(())).unwrap()
}

/// Only filters of the form `device = X` are known.
fn filters(filter: &str, fields: &[String]) -> Result<Predicate, String> {
    let (field, value) = filter.split_once(" = ").unwrap();
    let at = fields.iter().position(|known| known == field).ok_or("unknown field")?;
    let value = value.to_string();
    Ok(Box::new(move |labels| labels[at] == value))
}

/// When alerts fire and end, in seconds, by their labels.
fn times(changes: &[Change]) -> Vec<(i64, bool, String)> {
    let labels = |change: &Change| {
        let labels = change.alert.labels.iter().filter(|(name, _)| *name != "severity");
        labels.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(" ")
    };
    changes.iter().map(|change| (change.at_ns / SECOND_NS, change.alert.end_ns.is_none(), labels(change))).collect()
}

#[test]
fn a_stall_fires_before_its_interval_is_over() {
    let rules = rules("");
    let mut engine = Engine::new(&rules, &filters, 0);
    let mut found = Vec::new();
    for at in 0..12 {
        let age = if (2..10).contains(&at) { vec![(at as u64 - 2) * 1000 + 400] } else { Vec::new() };
        let rows = vec![row("n1", at, &[("sda", &[1], &age)]), row("n2", at, &[("sda", &[1], &[3])])];
        found.extend(engine.add(&news(rows, Vec::new())).0);
        // Nothing is over yet while it hangs.
        let last = if at < 10 { Vec::new() } else { (0..=at).map(|at| over(at, &["n1", "n2"], &[])).collect() };
        found.extend(engine.add(&news(Vec::new(), last)).0);
    }
    let alert = "stall sda n1".to_string();
    assert_eq!(times(&found), [(8, true, alert.clone()), (11, false, alert)]);
    assert_eq!(found[0].alert.annotations["summary"], "stall (host n1, device sda): oldest = 5.4s");
    assert_eq!((found[0].alert.start_ns, found[1].alert.end_ns), (7 * SECOND_NS, Some(11 * SECOND_NS)));
}

#[test]
fn what_waits_counts_unless_it_is_left_out() {
    let text = r#"
built_in = false
[[alert]]
name = "all"
if = "p99 > 1s"
[[alert]]
name = "done"
if = "p99 > 1s"
counting = "done"
[[alert]]
name = "share"
if = "over(10ms) > 10%"
by = ["device"]
where = "device = sdb"
step = "2s"
"#;
    let rules = rules(text);
    let mut engine = Engine::new(&rules, &filters, 0);
    let mut found = Vec::new();
    for at in 0..20 {
        let slow: &[u64] = if at == 13 { &[20, 20, 1] } else { &[1; 3] };
        let rows = vec![row("n1", at, &[("sda", &[1], &[5000]), ("sdb", slow, &[])])];
        found.extend(engine.add(&news(rows, vec![over(at, &["n1"], &[])])).0);
    }
    let expected = [(10, true, "all".into()), (14, true, "share sdb".into()), (16, false, "share sdb".to_string())];
    assert_eq!(times(&found), expected);
    assert_eq!(
        found[1].alert.annotations["summary"],
        "share (device sdb): over(10ms) = 33.33% of 6 events; the slowest is on n1"
    );
}

#[test]
fn hosts_are_missed_until_they_come_or_say_that_they_end() {
    let rules = rules("");
    let mut engine = Engine::new(&rules, &filters, 5 * SECOND_NS);
    let mut found = Vec::new();
    for at in 0..200 {
        let is_there = !(10..60).contains(&at) && at < 100;
        let mut last = if is_there { over(at, &["n1", "n2"], &[]) } else { over(at, &["n1"], &["n2"]) };
        // Neither expected nor there.
        if (55..60).contains(&at) {
            last.missing.clear();
        }
        if at >= 150 {
            last = OverInterval { ended: vec!["n2".into()], ..over(at, &["n1"], &[]) };
        }
        found.extend(engine.add(&news(vec![row("n1", at, &[])], vec![last])).0);
    }
    let alert = |at, fires| (at, fires, "host missing n2".to_string());
    assert_eq!(times(&found), [alert(40, true), alert(61, false), alert(130, true), alert(151, false)]);
    // A hub that has just started misses nobody.
    let mut engine = Engine::new(&rules, &filters, 100 * SECOND_NS);
    let found: Vec<Change> =
        (0..131).flat_map(|at| engine.add(&news(Vec::new(), vec![over(at, &["n1"], &["n2"])])).0).collect();
    assert_eq!(times(&found), [alert(130, true)]);
}

/// While agents connect again, too few hosts are no alert, neither in single intervals nor in a step that begins then.
#[test]
fn hosts_are_counted_when_the_hub_has_settled() {
    for (step, expected) in [(1, 31), (20, 60)] {
        let rules = rules(&format!("built_in = false\n[[alert]]\nname = 'few'\nif = 'hosts < 2'\nstep = '{step}s'\n"));
        let mut engine = Engine::new(&rules, &filters, 30 * SECOND_NS);
        let one = |at| engine.add(&news(vec![row("n1", at, &[])], vec![over(at, &["n1"], &[])])).0;
        let found: Vec<Change> = (0..80).flat_map(one).collect();
        assert_eq!(times(&found), [(expected, true, "few".to_string())], "step {step}");
    }
}

/// In a step of ten seconds, both were there and are missing at its end.
#[test]
fn a_host_that_was_there_and_is_missing_is_one() {
    let rules = rules("built_in = false\n[[alert]]\nname = 'slow'\nif = 'p99 > 1s'\nstep = '10s'\n");
    let mut engine = Engine::new(&rules, &filters, 0);
    let mut found = Vec::new();
    for at in 0..10 {
        let (rows, last) = match at {
            0..5 => {
                let slow: &[(&str, &[u64], &[u64])] = &[("sda", &[2000; 3], &[])];
                (vec![row("n1", at, slow), row("n2", at, slow)], over(at, &["n1", "n2"], &[]))
            }
            _ => (Vec::new(), over(at, &[], &["n1", "n2"])),
        };
        found.extend(engine.add(&news(rows, vec![last])).0);
    }
    let summary = &found[0].alert.annotations["summary"];
    assert!(summary.ends_with("; 0 of 2 hosts, missing: n1, n2"), "{summary}");
}

#[test]
fn a_quorum_and_silence_are_respected() {
    let text = r#"
built_in = false
[[alert]]
name = "few"
if = "count < 5"
step = "1s"
hosts = "60%"
[[alert]]
name = "silent"
if = "count < 1"
step = "1s"
on_no_data = "fire"
"#;
    let rules = rules(text);
    let mut engine = Engine::new(&rules, &filters, 0);
    let mut found = Vec::new();
    for at in 0..20 {
        let (rows, last) = match at {
            0..5 => (vec![row("n1", at, &[("sda", &[1; 9], &[])])], over(at, &["n1", "n2"], &[])),
            5..8 => (vec![row("n1", at, &[("sda", &[1; 2], &[])])], over(at, &["n1"], &["n2"])),
            8..12 => (Vec::new(), over(at, &[], &["n1", "n2"])),
            _ => (Vec::new(), over(at, &[], &["n1", "n2"])),
        };
        found.extend(engine.add(&news(rows, vec![last])).0);
    }
    assert_eq!(times(&found), [(13, true, "silent".to_string())], "five steps without data");
}

/// A host that pushes and falls silent says nothing: by default its alert goes on, and `on_no_data` is asked.
/// An alert of a device goes on while the only host that has the device is silent, though others are not; it ends when the device is
/// idle, or its host ends.
#[test]
fn the_silence_of_the_only_host_of_a_group_resolves_nothing() {
    let rules = rules("built_in = false\n[[alert]]\nname = 'slow'\nif = 'p99 > 100ms'\nstep = '2s'\nby = ['device']\n");
    let ends = |last: i64, of_first: &dyn Fn(i64) -> Option<HostRow>, ended: bool| {
        let mut engine = Engine::new(&rules, &filters, 0);
        let mut found = Vec::new();
        for at in 0..last {
            let mut rows = vec![row("n2", at, &[("sdb", &[1], &[])])];
            rows.extend(of_first(at));
            let mut over = over(at, &["n2"], &["n1"]);
            if ended && at >= 10 {
                (over.missing, over.ended) = (Vec::new(), vec!["n1".into()]);
            }
            found.extend(engine.add(&news(rows, vec![over])).0);
            if at == 6 {
                // A restart forgets none of it.
                let saved = engine.save();
                engine = Engine::new(&rules, &filters, 0);
                assert_eq!(engine.restore(saved, 0), []);
            }
        }
        times(&found)
    };
    let slow = |at| (at < 6).then(|| row("n1", at, &[("sda", &[500], &[])]));
    let fires = (2, true, "slow sda".to_string());
    assert_eq!(ends(40, &slow, false), std::slice::from_ref(&fires));
    assert_eq!(ends(40, &slow, true), [fires.clone(), (12, false, "slow sda".to_string())]);
    let idle = |at| slow(at).or_else(|| Some(row("n1", at, &[])));
    assert_eq!(ends(40, &idle, false), [fires, (8, false, "slow sda".to_string())]);
}

#[test]
fn a_step_without_data_resolves_nothing() {
    let rule =
        |name: &str, more: &str| format!("[[alert]]\nname = '{name}'\nif = 'p99 > 100ms'\nstep = '2s'\n{more}\n");
    let text = format!(
        "built_in = false\n{}{}{}",
        rule("host", "by = ['host']"),
        rule("cluster", ""),
        rule("silent", "by = ['host']\non_no_data = 'fire'"),
    );
    let rules = rules(&text);
    let mut engine = Engine::new(&rules, &filters, 0);
    let mut found = Vec::new();
    for at in 0..40 {
        // As after a restart, hosts can be known to have been there without what they sent.
        let (rows, present) = match at {
            0..10 => (vec![row("n1", at, &[("sda", &[500], &[])])], &["n1"][..]),
            10..14 => (Vec::new(), &["n1"][..]),
            14..36 => (Vec::new(), &[][..]),
            _ => (vec![row("n1", at, &[("sda", &[1], &[])])], &["n1"][..]),
        };
        found.extend(engine.add(&news(rows, vec![over(at, present, &[])])).0);
    }
    let alert = |at, fires, name: &str| (at, fires, name.to_string());
    let expected = [
        alert(2, true, "host n1"),
        alert(2, true, "cluster"),
        alert(2, true, "silent n1"),
        alert(38, false, "host n1"),
        alert(38, false, "cluster"),
        alert(38, false, "silent n1"),
    ];
    assert_eq!(times(&found), expected);
    // One that does not fire does so after five steps without data.
    let mut engine = Engine::new(&rules, &filters, 0);
    let rows = |at| if at < 10 { vec![row("n1", at, &[("sda", &[1], &[])])] } else { Vec::new() };
    let found: Vec<Change> = (0..30).flat_map(|at| engine.add(&news(rows(at), vec![over(at, &[], &[])])).0).collect();
    assert_eq!(times(&found), [alert(20, true, "silent n1")]);
}

#[test]
fn a_step_that_was_observed_in_part_has_no_rate() {
    let rule = |name: &str, condition: &str| format!("[[alert]]\nname = '{name}'\nif = '{condition}'\nby = ['host']\n");
    let text = [
        rule("rate", "rate < 10"),
        rule("few", "count < 100"),
        rule("many", "count > 20"),
        rule("either", "rate < 10 or max > 20ms"),
    ];
    let rules = rules(&format!("built_in = false\n{}", text.concat()));
    let mut engine = Engine::new(&rules, &filters, 0);
    // Ten a second, from the sixth second of a step to the middle of another; and all of a third one with nine of them.
    let seconds = (5..26).map(|at| (at, 10)).chain((30..40).map(|at| (at, 9)));
    let mut found = Vec::new();
    for (at, count) in seconds {
        let mut values = vec![1; count];
        values[0] = if at == 5 { 30 } else { 1 };
        found.extend(engine.add(&news(vec![row("n1", at, &[("sda", &values, &[])])], Vec::new())).0);
    }
    let last = (0..40).map(|at| over(at, &["n1"], &[])).collect();
    found.extend(engine.add(&news(Vec::new(), last)).0);
    let mut found = times(&found);
    found.sort();
    let alert = |at, fires, name: &str| (at, fires, format!("{name} n1"));
    // What is unknown neither fires nor resolves.
    let expected = [
        alert(8, true, "many"),
        alert(10, true, "either"),
        alert(20, false, "either"),
        alert(40, true, "either"),
        alert(40, true, "few"),
        alert(40, true, "rate"),
    ];
    assert_eq!(found, expected);
}

/// While a hub is down, its file can change: what fired and is not known any more is resolved once, with the labels that it had.
#[test]
fn alerts_of_rules_that_are_gone_are_resolved() {
    let rule = |name: &str, condition: &str, label: &str| {
        let labels = format!("labels = {{ severity = '{label}' }}");
        format!("[[alert]]\nname = '{name}'\nif = '{condition}'\nstep = '1s'\nby = ['host']\n{labels}\n")
    };
    let file = |texts: &[String]| rules(&format!("built_in = false\n{}", texts.concat()));
    let same = rule("same", "max > 1s", "page");
    let before = file(&[
        same.clone(),
        rule("removed", "max > 1s", "page"),
        rule("changed", "max > 1s", "page"),
        rule("labels", "max > 1s", "page"),
    ]);
    let mut engine = Engine::new(&before, &filters, 0);
    let slow = news(vec![row("n1", 0, &[("sda", &[2000], &[])])], vec![over(0, &["n1"], &[])]);
    assert_eq!(engine.add(&slow).0.len(), 4);
    let saved = serde_json::to_string(&engine.save()).unwrap();
    let after = file(&[same, rule("changed", "max > 1500ms", "page"), rule("labels", "max > 1s", "ticket")]);
    let mut engine = Engine::new(&after, &filters, 0);
    let changes = engine.restore(serde_json::from_str(&saved).unwrap(), 5 * SECOND_NS);
    let names: Vec<(bool, &str, &str)> = changes
        .iter()
        .map(|change| {
            let labels = &change.alert.labels;
            (change.alert.end_ns == Some(5 * SECOND_NS), labels["alertname"].as_str(), labels["severity"].as_str())
        })
        .collect();
    let expected =
        [(true, "removed", "page"), (true, "changed", "page"), (true, "labels", "page"), (false, "labels", "ticket")];
    assert_eq!(names, expected);
    // Once.
    let saved = serde_json::to_string(&engine.save()).unwrap();
    let mut engine = Engine::new(&after, &filters, 0);
    assert_eq!(engine.restore(serde_json::from_str(&saved).unwrap(), 6 * SECOND_NS), []);
    assert_eq!(engine.firing().len(), 2);
}

#[test]
fn rules_that_need_other_fields_are_refused_once() {
    let rules = rules("[[alert]]\nname = 'a'\nif = 'p99 > 1s'\nby = ['path']");
    let mut engine = Engine::new(&rules, &filters, 0);
    let (_, refused) = engine.add(&news(Vec::new(), Vec::new()));
    assert_eq!(refused, ["a: the groups of this hub have no path; they have host, device"]);
    assert!(engine.add(&news(Vec::new(), Vec::new())).1.is_empty());
}

/// A host that is late is the one that is named, also where its data comes after the interval was judged.
#[test]
fn lag_is_that_of_the_host() {
    let rules = rules("built_in = false\n[[alert]]\nname = 'lag'\nif = 'lag > 3s'\nstep = '1s'\nby = ['host']\n");
    let mut engine = Engine::new(&rules, &filters, i64::MIN);
    let mut found = Vec::new();
    for at in 0..30 {
        let mut late = row("n2", at - 5, &[("sda", &[1], &[])]);
        late.arrived_ns = (at + 1) * SECOND_NS;
        let rows = vec![row("n1", at, &[("sda", &[1], &[])]), late];
        found.extend(engine.add(&news(rows, vec![over(at, &["n1"], &["n2"])])).0);
    }
    let names: std::collections::BTreeSet<_> = found.iter().map(|change| change.alert.labels["host"].clone()).collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["n2"], "{found:?}");
    assert_eq!(engine.firing().len(), 1);
}

/// After a restart of the hub, what is not back yet neither ends an alert nor starts one.
#[test]
fn hosts_that_are_not_back_yet_change_no_alert() {
    let text = "built_in = false\n[[alert]]\nname = 'busy'\nif = 'count > 8'\nstep = '2s'\n\
                [[alert]]\nname = 'quiet'\nif = 'count < 3'\nstep = '1s'\n";
    let rules = rules(text);
    let both = |at| vec![row("n1", at, &[("sda", &[1; 3], &[])]), row("n2", at, &[("sda", &[1; 3], &[])])];
    let mut engine = Engine::new(&rules, &filters, i64::MIN);
    for at in 0..4 {
        engine.add(&news(both(at), vec![over(at, &["n1", "n2"], &[])]));
    }
    let saved = engine.save();
    let mut after = Engine::new(&rules, &filters, 20 * SECOND_NS);
    after.restore(saved, 4 * SECOND_NS);
    let mut found = Vec::new();
    for at in 4..8 {
        found.extend(after.add(&news(vec![row("n1", at, &[("sda", &[1], &[])])], vec![over(at, &["n1"], &["n2"])])).0);
    }
    for at in 8..12 {
        found.extend(after.add(&news(both(at), vec![over(at, &["n1", "n2"], &[])])).0);
    }
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(after.firing().len(), 1);
}

#[test]
fn an_alert_that_late_data_disproves_is_resolved() {
    let text = "built_in = false\n[[alert]]\nname = 'share'\nif = 'over(10ms) > 50%'\nstep = '1s'\n";
    let rules = rules(text);
    let mut engine = Engine::new(&rules, &filters, i64::MIN);
    let one = news(vec![row("n1", 0, &[("sda", &[20], &[])])], vec![over(0, &["n1"], &["n2"])]);
    assert_eq!(times(&engine.add(&one).0), [(1, true, "share".to_string())]);
    let late = news(vec![row("n2", 0, &[("sda", &[1; 3], &[])])], Vec::new());
    let found = engine.add(&late).0;
    assert_eq!(times(&found), [(1, false, "share".to_string())]);
    assert_eq!(found[0].alert.annotations["amended"], "true");
    assert_eq!(engine.firing(), []);
}

#[test]
fn faults_fire_until_they_are_over() {
    let rules = rules("[[alert]]\nname = 'clock'\nif = 'offset > 300ms'\nby = ['host']\n");
    let mut engine = Engine::new(&rules, &filters, 0);
    let place = |fault, host: Option<&str>| (fault, host.map(str::to_string));
    let found = BTreeMap::from([
        (place(Fault::Journal, None), "no space".to_string()),
        (place(Fault::Queue, Some("n1")), "its queue is 60% full".into()),
        (place(Fault::Clock, Some("n1")), "replaced".into()),
    ]);
    let changes = engine.set_faults(&found, 5 * SECOND_NS);
    let names = [(5, true, "journal cannot be written".to_string()), (5, true, "queue filling n1".into())];
    assert_eq!(times(&changes), names);
    assert_eq!(changes[1].alert.annotations["summary"], "queue filling (host n1): its queue is 60% full");
    assert_eq!(engine.set_faults(&found, 6 * SECOND_NS), []);
    let saved = serde_json::to_string(&engine.save()).unwrap();
    let mut after = Engine::new(&rules, &filters, 0);
    assert_eq!(after.restore(serde_json::from_str(&saved).unwrap(), i64::MAX), []);
    assert_eq!(after.firing(), engine.firing());
    assert_eq!(after.set_faults(&BTreeMap::new(), 7 * SECOND_NS).len(), 2);
    // Of clocks, the rule of that name is asked.
    let mut far = row("n2", 0, &[]);
    far.offset_ns = Some(-400_000_000);
    let rows = vec![HostRow { offset_ns: Some(200_000_000), ..row("n1", 0, &[]) }, far];
    let changes = engine.add(&news(rows, vec![over(0, &["n1", "n2"], &[])])).0;
    assert_eq!(times(&changes), [(1, true, "clock n2".to_string())]);
    assert_eq!(changes[0].alert.annotations["summary"], "clock (host n2): offset = 400ms");
}

/// Rules that stay go on in the middle of what they count; of those that go, what fires is resolved.
#[test]
fn rules_are_replaced_while_they_are_judged() {
    let slow = "[[alert]]\nname = 'slow'\nif = 'max > 1s'\nfor = '5s'\nstep = '5s'\n";
    let (one, two) = (
        "[[alert]]\nname = 'one'\nif = 'max > 1s'\nstep = '1s'\n",
        "[[alert]]\nname = 'two'\nif = 'count > 0'\nstep = '1s'\n",
    );
    let (before, after) = (rules(&format!("{slow}{one}")), rules(&format!("{slow}{two}")));
    let mut engine = Engine::new(&before, &filters, 0);
    let mut found = Vec::new();
    for at in 0..8 {
        if at == 3 {
            found.extend(engine.set_rules(&after, 3 * SECOND_NS));
        }
        let value = if at == 1 { 2000 } else { 1 };
        let rows = vec![row("n1", at, &[("sda", &[value], &[])])];
        found.extend(engine.add(&news(rows, vec![over(at, &["n1"], &[])])).0);
        if at == 1 {
            assert_eq!(engine.firing().len(), 1);
        }
    }
    let alert = |at, fires, name: &str| (at, fires, name.to_string());
    let expected = [alert(2, true, "one"), alert(3, false, "one"), alert(4, true, "two"), alert(5, true, "slow")];
    assert_eq!(times(&found), expected);
    // "one" ends by itself where it does not hold any more.
    assert_eq!(engine.set_rules(&before, 9 * SECOND_NS).len(), 1);
}

/// The clock of the hub is set: what holds goes on holding for as long as it did, by the new time, also over a restart.
#[test]
fn a_clock_that_is_set_makes_no_alert_older_or_younger() {
    let text = "built_in = false\n[[alert]]\nname = 'slow'\nif = 'p99 > 1s'\nstep = '1s'\nfor = '6s'\nby = ['host']\n";
    let rules = rules(text);
    for (step, is_restarted) in [(-3600, false), (3600, false), (-3600, true)] {
        let mut engine = Engine::new(&rules, &filters, 0);
        let mut found = Vec::new();
        for at in 0..14 {
            let now = 10_000 + at + if at >= 3 { step } else { 0 };
            let done: &[u64] = if at < 9 { &[2000] } else { &[1] };
            let mut news = news(vec![row("n1", now, &[("sda", done, &[])])], vec![over(now, &["n1"], &[])]);
            if at == 3 && is_restarted {
                let saved = engine.save();
                engine = Engine::new(&rules, &filters, 0);
                assert!(engine.restore(saved, now * SECOND_NS).is_empty());
            } else if at == 3 {
                news.stepped_ns = step * SECOND_NS;
            }
            found.extend(engine.add(&news).0);
        }
        let (start, name) = (10_000 + step, "slow n1".to_string());
        assert_eq!(times(&found), [(start + 6, true, name.clone()), (start + 10, false, name)]);
        assert!(found.iter().all(|change| change.alert.start_ns == start * SECOND_NS));
    }
}
