//! The page of a hub in a real browser, against what its agents sent; and which host is different, by HTTP.

use crate::exports::{Agent, Hub, get, now_s};
use crate::live::lab::{Background, until};
use crate::program::{LATSCOPE, command};
use crate::report::browser;
use latscope_histogram::{Grid, Histogram, Sparse};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const HOSTS: usize = 6;
/// Events of a host and interval.
const EVENTS: u64 = 200;
/// What is sent at first, seconds.
const PAST: i64 = 70;

/// Half of the events in each of two groups; every tenth of the third host takes 30 ms, others less than 200 us.
fn histograms(host: usize) -> [Sparse; 2] {
    [0, 1].map(|group| {
        let mut histogram = Histogram::new(Grid::FINE, false);
        for at in 0..EVENTS / 2 {
            let is_slow = host == 2 && at % 10 == 0;
            histogram.record(if is_slow { 30_000_000 } else { 100_000 + (at * 7919 + group * 31) % 100_000 }, 0);
        }
        histogram.to_sparse()
    })
}

/// The agents of a hub, which send an interval each second.
pub struct Agents(Mutex<Vec<(usize, Agent)>>);

impl Agents {
    pub fn connect(hub: &Hub) -> Agents {
        let mut agents: Vec<_> =
            (0..HOSTS).map(|host| (host, Agent::connect(hub, &format!("n{}", host + 1)))).collect();
        for interval in now_s() - PAST..now_s() {
            agents.iter_mut().for_each(|(host, agent)| agent.send(interval, histograms(*host)));
        }
        Agents(Mutex::new(agents))
    }

    /// Sends until it is over.
    fn run(&self, is_over: &AtomicBool) {
        let mut next = now_s();
        while !is_over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
            let mut agents = self.0.lock().unwrap();
            while next < now_s() {
                // The hub may be killed meanwhile.
                agents.retain_mut(|(host, agent)| agent.try_send(next, histograms(*host)).is_ok());
                next += 1;
            }
        }
    }

    fn end(&self, host: usize) {
        self.0.lock().unwrap().retain(|(number, _)| *number != host);
    }
}

/// Ends what runs beside a test, also one that fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A port below those that clients get.
fn lasting_port() -> u16 {
    let start = 20_000 + (std::process::id() % 5000) as u16;
    (start..32_000).find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok()).unwrap()
}

#[test]
fn the_different_host_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Hub::start(folder.path(), &["--metrics", "127.0.0.1:0"]);
    let port = hub.port();
    let agents = Agents::connect(&hub);
    let ask = |query: &str| -> Value {
        let body = get(port, &format!("/api/v1/different{query}"), "*/*");
        body.map_or(Value::Null, |body| serde_json::from_str(&body).unwrap())
    };
    until("all hosts", || {
        ask("?over=20ms")["families"][0]["hosts"].as_array().is_some_and(|hosts| hosts.len() == HOSTS)
    });
    let answer = ask("?over=20ms");
    let family = &answer["families"][0];
    let first = &family["hosts"][0];
    assert_eq!((first["name"].as_str(), first["slow_share"].as_f64()), (Some("n3"), Some(1.0)), "{answer}");
    assert!((first["share"].as_f64().unwrap() - 1.0 / HOSTS as f64).abs() < 0.02, "{answer}");
    assert_eq!((&first["is_marked"], &family["threshold_ns"]), (&true.into(), &20_000_000.into()));
    // All of its p99 are slow, and those of the others below 200 us.
    assert!(family["spread_p99"].as_f64().unwrap() > 140.0, "{answer}");
    assert!(family["hosts"].as_array().unwrap()[1..].iter().all(|host| host["slow_share"] == 0.0), "{answer}");
    let by_group = ask("?by=device&where=kind%20=%20read");
    let families = by_group["families"].as_array().unwrap();
    assert_eq!((families.len(), &families[0]["labels"]["device"]), (1, &"sda".into()), "{by_group}");
    // Half of the events of each host; the counts are of whole intervals.
    let count = |host: &Value| host["count"].as_u64().unwrap();
    assert!(families[0]["hosts"].as_array().unwrap().iter().all(|host| count(host) % (EVENTS / 2) == 0), "{by_group}");
    assert!(get(port, "/api/v1/different?step=1s", "*/*").is_none());
    drop(agents);
}

#[test]
fn the_page_shows_the_hub_and_who_is_gone() {
    let Some(web) = browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    let alerts = folder.path().join("alerts.toml");
    let rule = "[[alert]]\nname = 'waits'\nif = 'oldest > 2s'\nby = ['device']\n[[slo]]\nname = 'db'\ngood = { below = '10ms', target = '99%', over = '30d' }\n";
    std::fs::write(&alerts, rule).unwrap();
    let port = lasting_port();
    let metrics = format!("127.0.0.1:{port}");
    let words = ["--metrics", &metrics, "--grace", "1s", "--alerts", alerts.to_str().unwrap()];
    let mut hub = Some(Hub::start(folder.path(), &words));
    let is_over = AtomicBool::new(false);
    let agents = Agents::connect(hub.as_ref().unwrap());
    let mut out = String::new();
    let status = std::thread::scope(|scope| {
        scope.spawn(|| agents.run(&is_over));
        let _ends = Ends(&is_over);
        let mut script = command("node");
        script.arg(web.join("tests/hub.mjs")).arg(format!("http://127.0.0.1:{port}/")).stdout(Stdio::piped());
        let mut script = script.spawn().unwrap();
        for line in BufReader::new(script.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            match line.as_str() {
                "do: end n5" => agents.end(4),
                "do: kill the hub" => drop(hub.take()),
                "do: start the hub" => {
                    let started = Hub::start(folder.path(), &words);
                    let anew = Agents::connect(&started);
                    *agents.0.lock().unwrap() = anew.0.into_inner().unwrap();
                    hub = Some(started);
                }
                _ => out += &format!("{line}\n"),
            }
        }
        script.wait().unwrap()
    });
    assert!(status.success(), "{out}");
    assert_eq!(out.matches("ok ").count(), 9, "{out}");
}

#[test]
fn hosts_are_followed_apart() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Hub::start(folder.path(), &["--grace", "1s"]);
    let input = format!("hub+unix:{}", folder.path().join("hub.sock").display());
    let agents = Agents::connect(&hub);
    let is_over = AtomicBool::new(false);
    let start = |view: &str, more: &[&str]| {
        let words = [&[view, "-r", &input, "-i", "1s", "--follow"], more].concat();
        Background::new(command(LATSCOPE).args(words))
    };
    let (table, rows) = std::thread::scope(|scope| {
        scope.spawn(|| agents.run(&is_over));
        let _ends = Ends(&is_over);
        let table = start("percentiles", &["--by", "host", "--csv", "--completed-only"]);
        let rows = start("spectrogram", &["--width", "100"]);
        until("all hosts", || table.printed().contains("6 of 6 hosts"));
        agents.end(4);
        until("the missing one", || table.printed().contains("5 of 6 hosts, missing: n5"));
        until("its mark", || {
            rows.out_so_far().lines().filter(|line| line.as_bytes().get(12) == Some(&b'/')).count() > 1
        });
        (table.interrupt(), rows.interrupt())
    });
    let table = String::from_utf8(table.out).unwrap();
    let mut lines = table.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let at = |name: &str| names.iter().position(|known| *known == name).unwrap();
    let mut counts = BTreeMap::<(String, String), String>::new();
    for line in lines {
        let values: Vec<&str> = line.split(',').collect();
        // What waited when a host was heard of last.
        if (values[at("host")], values[at("count")]) == ("n5", "0") {
            continue;
        }
        let key = (values[at("time_ns")].to_string(), values[at("host")].to_string());
        // Each interval of a host is there once, with all that the host sent.
        assert!(counts.insert(key, values[at("count")].into()).is_none(), "{line}");
    }
    assert!(counts.values().all(|count| count == &EVENTS.to_string()), "{table}");
    let of = |host: &str| counts.keys().filter(|(_, name)| name == host).count();
    assert!((2..7).all(|host| host == 5 || of(&format!("n{host}")) == of("n1")) && of("n5") < of("n1"), "{table}");
    let rows = String::from_utf8(rows.out).unwrap();
    assert!(rows.contains("/ a host is missing in this interval"), "{rows}");
}
