//! What a hub answers to those who ask by HTTP, against what was sent to it.

use crate::alerts::http;
use crate::exports::{Agent, Hub, LABELS, cluster, get, histograms, now_s};
use crate::live::lab::{Background, until};
use crate::program::{LATSCOPE, command, end, installed, latscope};
use latscope_histogram::{Grid, Histogram, Sparse};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

const SECOND: i64 = 1_000_000_000;

fn json(port: u16, path: &str) -> Value {
    let answer = get(port, path, "*/*").unwrap_or_default();
    serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{path}: {error}: {answer}"))
}

/// The status and the body of any answer, as they come.
fn answer(port: u16, request: &str) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let at = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let status = String::from_utf8_lossy(&bytes[9..12]).parse().unwrap();
    (status, bytes[at + 4..].to_vec())
}

/// Counts by bucket of a group, over all intervals of an answer.
fn buckets(answer: &Value, labels: &[(&str, &str)]) -> BTreeMap<u64, u64> {
    let mut sum = BTreeMap::new();
    let intervals = answer["intervals"].as_array().unwrap().iter();
    for group in intervals.flat_map(|interval| interval["groups"].as_array().unwrap()) {
        if labels.iter().all(|(name, value)| group["labels"][name] == *value) {
            let numbers = |name: &str| group[name].as_array().unwrap().iter().map(|number| number.as_u64().unwrap());
            numbers("k").zip(numbers("n")).for_each(|(k, n)| *sum.entry(k).or_insert(0) += n);
        }
    }
    sum
}

fn expected(truth: &Sparse) -> BTreeMap<u64, u64> {
    truth.buckets().map(|(index, count, _)| (index as u64, count)).collect()
}

#[test]
fn series_are_what_was_sent() {
    let folder = tempfile::tempdir().unwrap();
    let alerts = folder.path().join("alerts.toml");
    let rule = "[[alert]]\nname = 'waits'\nif = 'oldest > 2s'\nby = ['device']\n[[slo]]\nname = 'db'\ngood = { below = '10ms', target = '99%', over = '30d' }\n";
    std::fs::write(&alerts, rule).unwrap();
    let hub = Hub::start(folder.path(), &["--metrics", "127.0.0.1:0", "--alerts", alerts.to_str().unwrap()]);
    let port = hub.port();
    let early = answer(port, "GET /api/v1/series HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(
        (early.0, String::from_utf8(early.1).unwrap().as_str()),
        (400, "{\"error\":\"no agent has connected yet\"}")
    );
    let (_agents, truth) = cluster(&hub);
    let from = (now_s() - 60) * SECOND;
    let all = format!("/api/v1/series?buckets=true&to={}&from={from}", (now_s() + 60) * SECOND);
    let count: u64 = truth.iter().map(|truth| truth.totals().count).sum();
    let counted = |answer: &Value| -> u64 {
        let intervals = answer["intervals"].as_array().unwrap().iter();
        intervals.flat_map(|one| one["groups"].as_array().unwrap()).map(|group| group["count"].as_u64().unwrap()).sum()
    };
    until("all of it", || counted(&json(port, &all)) == count);
    for step in ["", "&step=5s", "&step=60s"] {
        let answer = json(port, &format!("{all}{step}"));
        for ([device, kind], truth) in LABELS.iter().zip(&truth) {
            assert_eq!(buckets(&answer, &[("device", device), ("kind", kind)]), expected(truth), "{step}");
        }
    }
    // Merged over groups, and one group alone.
    let mut both = Histogram::new(Grid::FINE, false);
    truth.iter().for_each(|truth| both.add(truth));
    assert_eq!(buckets(&json(port, &format!("{all}&by=")), &[]), expected(&both.to_sparse()));
    let one = json(port, &format!("{all}&by=kind&where=device%20=%20sdb"));
    assert_eq!(buckets(&one, &[]), expected(&truth[1]));
    let interval = &json(port, &all)["intervals"][3];
    assert_eq!((&interval["hosts"], &interval["is_closed"]), (&2.into(), &true.into()), "{interval}");
    for (query, part) in [
        ("by=nonsense", "by: the groups of this hub have no nonsense; they have device, kind"),
        ("where=nonsense%20=%201", "where: "),
        ("step=1500ms", "step: a multiple of 1000000000 ns is needed"),
        ("from=x", "from: "),
        ("format=arrow", "format: only json is written"),
        ("buckets=maybe", "buckets: maybe is neither true nor false"),
        ("step=1s&step=2s", "step is given twice"),
        ("colour=red", "colour is not a parameter"),
    ] {
        let (status, body) = answer(port, &format!("GET /api/v1/series?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let body = String::from_utf8(body).unwrap();
        assert!(status == 400 && body.contains(part), "{query}: {status} {body}");
    }
    let status = json(port, "/api/v1/status");
    assert_eq!((&status["hosts"], &status["connected"], &status["width_ns"]), (&2.into(), &2.into(), &SECOND.into()));
    let hosts = json(port, "/api/v1/hosts");
    let mut names: Vec<&str> =
        hosts["hosts"].as_array().unwrap().iter().map(|host| host["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["n1", "n2"]);
    let groups = json(port, "/api/v1/groups");
    assert_eq!(groups["groups"][0], serde_json::json!({ "device": "sda", "kind": "read" }));
    until("the alert", || json(port, "/api/v1/alerts")["alerts"][0]["state"] == "firing");
    let alert = &json(port, "/api/v1/alerts")["alerts"][0];
    assert_eq!((&alert["labels"]["alertname"], &alert["labels"]["device"]), (&"waits".into(), &"sda".into()));
    assert_eq!(json(port, "/api/v1/slo")["slos"][0]["name"], "db");
    // The same as a metric, compressed where that is wanted.
    let line = "ALERTS{alertname=\"waits\",alertstate=\"firing\",device=\"sda\"} 1\n";
    until("the metric", || get(port, "/metrics", "text/plain").is_some_and(|text| text.contains(line)));
    let text = get(port, "/metrics", "text/plain").unwrap();
    assert!(text.contains("latscope_hub_records_total 32\n"), "{text}");
    let (_, packed) =
        answer(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: deflate, gzip\r\n\r\n");
    let mut unpacked = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut unpacked).unwrap();
    assert!(unpacked.contains(line) && packed.len() < unpacked.len() / 4);
    if installed("promtool") {
        let checked = end(command("promtool").args(["check", "metrics"]), text.as_bytes());
        assert_eq!(checked.status, Some(0), "{}", checked.err);
    }
    assert_eq!(hub.program.interrupt().status, Some(0));
}

/// The next event of a stream: its name, its id and its data.
fn event(lines: &mut impl Iterator<Item = std::io::Result<String>>) -> (String, String, Value) {
    let (mut name, mut id, mut data) = (String::new(), String::new(), Value::Null);
    for line in lines {
        let line = line.unwrap();
        match line.split_once(": ") {
            Some(("event", text)) => name = text.into(),
            Some(("id", text)) => id = text.into(),
            Some(("data", text)) => data = serde_json::from_str(text).unwrap(),
            _ if line.is_empty() && !name.is_empty() => return (name, id, data),
            _ => {}
        }
    }
    panic!("the stream ended")
}

fn followed(port: u16, headers: &str) -> impl Iterator<Item = std::io::Result<String>> + use<> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET /api/v1/live?by=device HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").unwrap();
    BufReader::new(stream).lines()
}

#[test]
fn events_follow_what_happens() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Hub::start(folder.path(), &["--metrics", "127.0.0.1:0", "--grace", "1s"]);
    let (mut one, mut two) = (Agent::connect(&hub, "n1"), Agent::connect(&hub, "n2"));
    let now = now_s();
    let [first, second, late] = [1, 2, 3].map(|seed| histograms(seed, now));
    one.send(now - 3, first.clone());
    two.send(now - 3, second.clone());
    let port = hub.port();
    let summed = |parts: &[&[Sparse; 2]]| -> u64 { parts.iter().map(|part| part[0].totals().count).sum() };
    let sda = |data: &Value| -> u64 {
        let groups = data["groups"].as_array().unwrap();
        groups
            .iter()
            .find(|group| group["labels"]["device"] == "sda")
            .map_or(0, |group| group["count"].as_u64().unwrap())
    };
    until("the intervals", || get(port, "/api/v1/status", "*/*").is_some_and(|text| text.contains("\"hosts\":2")));
    let mut lines = followed(port, "");
    assert_eq!(event(&mut lines).0, "open");
    // One host is missing, then comes late.
    one.send(now - 1, first.clone());
    let mut names = Vec::new();
    let closed = loop {
        let (name, id, data) = event(&mut lines);
        names.push(name.clone());
        if id.starts_with(&format!("{}.", now - 1)) && name == "close" {
            break data;
        }
    };
    assert_eq!((sda(&closed), &closed["missing"]), (summed(&[&first]), &serde_json::json!(["n2"])), "{names:?}");
    assert!(names.iter().any(|name| name == "hosts"), "{names:?}");
    two.send(now - 1, late.clone());
    let amended = loop {
        let (name, id, data) = event(&mut lines);
        if name == "amend" {
            assert_eq!(id, format!("{}.1", now - 1));
            break data;
        }
    };
    assert_eq!((sda(&amended), &amended["hosts"]), (summed(&[&first, &late]), &2.into()));
    // Who comes back goes on behind what it has.
    let mut again = followed(port, &format!("Last-Event-ID: {}.0\r\n", now - 3));
    let mut found = Vec::new();
    while found.len() < 2 {
        let (_, id, data) = event(&mut again);
        if !id.is_empty() {
            // What waits now comes with the newest step, also where it is closed from the start.
            assert_eq!(data["waiting"].is_array(), id.starts_with(&format!("{}.", now - 1)), "{data}");
            found.push((id, sda(&data)));
        }
    }
    let expected =
        [(format!("{}.0", now - 3), summed(&[&first, &second])), (format!("{}.1", now - 1), summed(&[&first, &late]))];
    assert_eq!(found, expected);
    assert_eq!(hub.program.interrupt().status, Some(0));
}

/// Who was away for long is told how many steps it has missed.
#[test]
fn skipped_steps_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Hub::start(folder.path(), &["--metrics", "127.0.0.1:0", "--grace", "1s"]);
    let (mut agent, now) = (Agent::connect(&hub, "n1"), now_s());
    (now - 150..now - 5).for_each(|at| agent.send(at, histograms(1, at)));
    let port = hub.port();
    until("the host", || get(port, "/api/v1/status", "*/*").is_some_and(|text| text.contains("\"hosts\":1")));
    for away in [120, 40, 32] {
        let last = now - 5 - away;
        until("the steps", || {
            let mut lines = followed(port, &format!("Last-Event-ID: {last}.0\r\n"));
            let (mut skipped, mut first) = (None, None);
            while first.is_none() {
                let (name, id, data) = event(&mut lines);
                match name.as_str() {
                    "skipped" => skipped = data["steps"].as_i64(),
                    _ => first = id.split_once('.').and_then(|(step, _)| step.parse::<i64>().ok()),
                }
            }
            skipped.is_some() && skipped == first.map(|first| first - last - 1)
        });
    }
    assert_eq!(hub.program.interrupt().status, Some(0));
}

/// Prometheus 3 (`LATSCOPE_PROMETHEUS3`: its program) has what was pushed by remote-write 2 and by OTLP, and what it scrapes.
#[test]
fn prometheus_3_has_what_it_gets() {
    let Some(program) = std::env::var_os("LATSCOPE_PROMETHEUS3") else {
        skipped!("LATSCOPE_PROMETHEUS3 is not set; no Prometheus 3 is asked");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = |path: &str| format!("http://127.0.0.1:{port}{path}");
    let (write, otlp) = (format!("remote-write-2+{}", url("/api/v1/write")), url("/api/v1/otlp/v1/metrics"));
    let options = ["--metrics", "127.0.0.1:0", "--push", &write, "--push", &otlp, "--push-every", "1s"];
    let hub = Hub::start(folder.path(), &options);
    let config = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: hub\n  scrape_native_histograms: true\n  \
         static_configs: [{{targets: ['127.0.0.1:{}']}}]\n",
        hub.port()
    );
    let path = folder.path().join("prometheus.yml");
    std::fs::write(&path, config).unwrap();
    let server = Background::new(command(program).args([
        format!("--config.file={}", path.display()),
        format!("--storage.tsdb.path={}", folder.path().join("tsdb").display()),
        format!("--web.listen-address=127.0.0.1:{port}"),
        "--web.enable-remote-write-receiver".into(),
        "--web.enable-otlp-receiver".into(),
    ]));
    until("Prometheus", || get(port, "/-/ready", "*/*").is_some());
    let (_agents, truth) = cluster(&hub);
    let mut expected: Vec<u64> = truth.iter().flat_map(|truth| [truth.totals().count; 3]).collect();
    expected.sort_unstable();
    until("all of it, three times", || {
        let query = "/api/v1/query?query=histogram_count(latscope_io_latency_seconds)";
        let answer: Value = serde_json::from_str(&get(port, query, "*/*").unwrap_or_default()).unwrap_or_default();
        let found = answer["data"]["result"].as_array().into_iter().flatten();
        let mut found: Vec<u64> = found.filter_map(|one| one["value"][1].as_str()?.parse().ok()).collect();
        found.sort_unstable();
        found == expected
    });
    assert_eq!(server.interrupt().status, Some(0));
    assert_eq!(hub.program.interrupt().status, Some(0));
}

/// An OpenSearch node has a document for each interval and group, with the counts that the agent recorded.
#[test]
fn opensearch_has_the_documents() {
    let Some(port) = std::env::var("LATSCOPE_OPENSEARCH").ok().and_then(|port| port.parse::<u16>().ok()) else {
        skipped!("LATSCOPE_OPENSEARCH (the port of a node on this machine) is not set; no OpenSearch is asked");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (index, listen) = (format!("latscope-{}", std::process::id()), format!("unix:{}", path("hub.sock")));
    let push = format!("opensearch+http://127.0.0.1:{port}/{index}");
    let hub = Background::new(command(LATSCOPE).args(["hub", "--listen", &listen, "--push", &push]));
    until("the hub", || hub.printed().contains("listening on"));
    std::fs::write(path("file"), [7; 4096]).unwrap();
    let words = ["agent", "--hub", &listen, "--rate", "10", "--ping", &path("file"), "--tee", &path("n1.lat")];
    latscope(&[&words[..], &["--for", "3s"]].concat()).success();
    let recorded: Value =
        serde_json::from_str(&latscope(&["summary", "--json", "-r", &path("n1.lat")]).success()).unwrap();
    let asked = |what: &str| {
        http(port, what, &[], b"").map_or(Value::Null, |(_, body)| serde_json::from_str(&body).unwrap_or_default())
    };
    let stored = || -> u64 {
        asked(&format!("POST /{index}/_refresh"));
        let found = asked(&format!("GET /{index}/_search?size=1000"));
        let documents = found["hits"]["hits"].as_array().cloned().unwrap_or_default();
        let counts =
            documents.iter().filter_map(|document| document["_source"]["latscope.io.latency"]["counts"].as_array());
        counts.flatten().map(|count| count.as_u64().unwrap()).sum()
    };
    until("the documents", || Some(stored()) == recorded["total"]["count"].as_u64());
    assert_eq!(hub.interrupt().status, Some(0));
    assert_eq!(Some(stored()), recorded["total"]["count"].as_u64(), "nothing is there twice");
    asked(&format!("DELETE /{index}"));
}
