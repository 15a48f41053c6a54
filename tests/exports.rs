//! What a hub exports, read back from the servers that take it: counts are equal, quantiles lie where they must.

use crate::live::lab::{Background, signal, until};
use crate::program::{LATSCOPE, command, end, installed};
use latscope_histogram::{Grid, Histogram, Rule, Sparse};
use latscope_wire::{Data, Dictionary, Head, Hello, IntervalRow, PREFACE, Parts, new_id};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const SECOND: i64 = 1_000_000_000;
/// Intervals that an agent sends.
const INTERVALS: i64 = 15;
pub const LABELS: [[&str; 2]; 2] = [["sda", "read"], ["sdb", "write"]];

pub fn now_s() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// A port that is free now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The body of an answer to GET, of HTTP/1.0, which has no chunks.
pub fn get(port: u16, path: &str, accept: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nAccept: {accept}\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.split(' ').nth(1).filter(|status| *status == "200")?;
    Some(body.to_string())
}

/// A server of somebody else, with its data in a folder of its own.
struct Server {
    program: Background,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Server {
    fn prometheus(config: &str, more: &[&str]) -> Server {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let path = folder.path().join("prometheus.yml");
        std::fs::write(&path, config).unwrap();
        let mut command = command("prometheus");
        command.arg(format!("--config.file={}", path.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let program = Background::new(command.args(more));
        until("Prometheus", || get(port, "/-/ready", "*/*").is_some());
        Server { program, port, _folder: folder }
    }

    fn victoria_metrics() -> Server {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let mut command = command("victoria-metrics");
        command.arg(format!("-storageDataPath={}", folder.path().display()));
        command.args([&format!("-httpListenAddr=127.0.0.1:{port}"), "-search.latencyOffset=0s"]);
        let program = Background::new(&mut command);
        until("VictoriaMetrics", || get(port, "/health", "*/*").is_some());
        Server { program, port, _folder: folder }
    }

    /// The results of a query now.
    fn query(&self, query: &str) -> Vec<Value> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let body = get(self.port, &format!("/api/v1/query?query={encoded}"), "*/*").unwrap_or_default();
        let answer: Value = serde_json::from_str(&body).unwrap_or_default();
        answer["data"]["result"].as_array().cloned().unwrap_or_default()
    }

    /// The one number that a query gives.
    fn number(&self, query: &str) -> Option<f64> {
        let results = self.query(query);
        results.first()?["value"][1].as_str()?.parse().ok()
    }
}

/// A hub in the background.
pub struct Hub {
    pub program: Background,
    folder: PathBuf,
}

impl Hub {
    pub fn start(folder: &Path, words: &[&str]) -> Hub {
        let listen = format!("unix:{}", folder.join("hub.sock").display());
        let program = Background::new(command(LATSCOPE).args(["hub", "--listen", &listen]).args(words));
        until("the hub", || program.printed().contains("listening on"));
        Hub { program, folder: folder.into() }
    }

    /// The port of `--metrics 127.0.0.1:0`.
    pub fn port(&self) -> u16 {
        let address = |printed: &str| printed.split_once("metrics at 127.0.0.1:")?.1.lines().next()?.parse().ok();
        until("the port", || address(&self.program.printed()).is_some());
        address(&self.program.printed()).unwrap()
    }
}

/// What an agent would send: latencies of two groups, so that some are in buckets that are split.
pub fn histograms(seed: u64, interval: i64) -> [Sparse; 2] {
    [0, 1].map(|group| {
        let mut histogram = Histogram::new(Grid::FINE, false);
        let mut random = seed ^ (interval as u64) << 8 ^ group;
        for number in 0..200 + group * 50 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Some hundred microseconds, and few of a hundred times that.
            let spread = 60_000 + (random >> 33) % 900_000;
            histogram.record(if number % 37 == 0 { spread * 100 } else { spread }, 0);
        }
        histogram.to_sparse()
    })
}

/// An agent that sends intervals and stays connected.
pub struct Agent {
    stream: UnixStream,
    hello: Hello,
    sequence: u64,
}

impl Agent {
    pub fn connect(hub: &Hub, name: &str) -> Agent {
        let mut stream = UnixStream::connect(hub.folder.join("hub.sock")).unwrap();
        let hello = Hello {
            run: new_id().unwrap(),
            host: name.into(),
            source: "block requests".into(),
            filter: String::new(),
            width_ns: SECOND as u64,
            fields: vec!["device".into(), "kind".into()],
            is_wall: true,
        };
        let groups = LABELS.map(|labels| labels.map(str::to_string).to_vec());
        stream.write_all(PREFACE).unwrap();
        stream.write_all(hello.record().bytes()).unwrap();
        stream.write_all(Dictionary::record(hello.run, 0, &groups).bytes()).unwrap();
        Agent { stream, hello, sequence: 0 }
    }

    pub fn send(&mut self, interval: i64, done: [Sparse; 2]) {
        self.try_send(interval, done).unwrap();
    }

    /// Fails where the hub is gone.
    pub fn try_send(&mut self, interval: i64, done: [Sparse; 2]) -> std::io::Result<()> {
        let head = Head {
            run: self.hello.run,
            sequences: self.sequence..=self.sequence,
            start: interval,
            width_ns: SECOND as u64,
            intervals: 1,
        };
        self.sequence += 1;
        let mut waiting = Histogram::new(Grid::FINE, false);
        waiting.record(2_500_000_000, 0);
        let [one, two] = done;
        let groups = vec![
            (0, Parts { done: Some(one), waiting: Some(waiting.to_sparse()) }),
            (1, Parts { done: Some(two), waiting: None }),
        ];
        let row = IntervalRow { covered_ns: SECOND as u64, groups, ..IntervalRow::default() };
        self.stream.write_all(Data { head, rows: vec![row] }.record().bytes())
    }
}

/// Sends the last intervals of two hosts; returns the merged truth by group.
pub fn cluster(hub: &Hub) -> (Vec<Agent>, [Sparse; 2]) {
    let (mut one, mut two) = (Agent::connect(hub, "n1"), Agent::connect(hub, "n2"));
    let (mut truth, now) = ([(); 2].map(|()| Histogram::new(Grid::FINE, false)), now_s());
    for interval in now - INTERVALS..=now {
        if interval == now {
            // What was late until here is in this one.
            std::thread::sleep(std::time::Duration::from_millis(500));
        }
        for (agent, seed) in [(&mut one, 1), (&mut two, 2)] {
            let done = histograms(seed, interval);
            truth.iter_mut().zip(&done).for_each(|(truth, done)| truth.add(done));
            agent.send(interval, done);
        }
    }
    (vec![one, two], truth.map(|truth| truth.to_sparse()))
}

/// The truth, seconds, and by which factor it may be missed: a bucket of ours and one of theirs.
fn assert_quantile(found: f64, truth: &Sparse, quantile: f64, base: f64) {
    let exact = truth.quantiles(&[quantile], Rule::Interpolated).unwrap()[0] as f64 / 1e9;
    let most = base * (1.0 + 1.0 / 64.0);
    assert!(found <= exact * most && exact <= found * most, "p{quantile}: {found} for {exact}");
}

/// Native histograms have the counts that the hub got, bucket for bucket as a whole, and its quantiles.
fn assert_native(server: &Server, truth: &[Sparse; 2], more: &str) {
    for ([device, kind], truth) in LABELS.iter().zip(truth) {
        let series = format!("latscope_io_latency_seconds{{device=\"{device}\",kind=\"{kind}\"{more}}}");
        let count = truth.totals().count as f64;
        let counted = format!("histogram_count({series})");
        until("all counts", || server.number(&counted) == Some(count));
        let results = server.query(&series);
        let histogram = &results[0]["histogram"][1];
        let buckets = histogram["buckets"].as_array().unwrap();
        let sum: f64 = buckets.iter().map(|bucket| bucket[3].as_str().unwrap().parse::<f64>().unwrap()).sum();
        assert_eq!((results.len(), sum), (1, count), "{results:?}");
        let seconds: f64 = histogram["sum"].as_str().unwrap().parse().unwrap();
        assert!((seconds - truth.totals().sum as f64 / 1e9).abs() < 1e-6, "{seconds}");
        for quantile in [0.5, 0.9, 0.99] {
            let found = server.number(&format!("histogram_quantile({quantile}, {series})")).unwrap();
            assert_quantile(found, truth, quantile, 2f64.powf(0.125));
        }
    }
}

/// Every query of the dashboard is one that Prometheus understands.
fn assert_dashboard(server: &Server) {
    let text = std::fs::read_to_string(crate::program::root().join("dashboards/latscope.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut asked = 0;
    for target in targets {
        let query = target["expr"].as_str().unwrap().replace("$__rate_interval", "1m");
        let query = query.replace("$device", ".*").replace("$kind", ".*");
        let query = query.replace("$slow", "0.01").replace("$target", "0.99");
        assert!(!query.contains('$'), "{query}");
        // Nothing was lost, and these agents do not compare clocks.
        let is_silent = ["lost_events", "clock_offset"].iter().any(|name| query.contains(name));
        until(&query, || server.query(&query).is_empty() == is_silent);
        asked += 1;
    }
    assert!(asked > 8, "{asked} queries");
}

/// Classic buckets: at each edge, which is one of ours, exactly what is up to it.
fn assert_classic(server: &Server, truth: &[Sparse; 2]) {
    for ([device, kind], truth) in LABELS.iter().zip(truth) {
        let labels = format!("device=\"{device}\",kind=\"{kind}\"");
        let count = truth.totals().count as f64;
        let counted = format!("latscope_io_latency_seconds_count{{{labels}}}");
        until("all counts", || server.number(&counted) == Some(count));
        let buckets = server.query(&format!("latscope_io_latency_seconds_bucket{{{labels}}}"));
        assert_eq!(buckets.len(), 54);
        for bucket in buckets {
            let edge: f64 = bucket["metric"]["le"].as_str().unwrap().parse().unwrap();
            let below: u64 = truth
                .buckets()
                .filter(|&(index, ..)| truth.grid().upper(index) as f64 <= (edge * 1e9).round())
                .map(|(_, count, _)| count)
                .sum();
            assert_eq!(bucket["value"][1].as_str().unwrap().parse::<f64>().unwrap(), below as f64, "{edge}");
        }
    }
}

const RECEIVER: [&str; 2] = ["--enable-feature=native-histograms", "--web.enable-remote-write-receiver"];

fn write_url(server: &Server) -> String {
    format!("http://127.0.0.1:{}/api/v1/write", server.port)
}

#[test]
fn prometheus_scrapes_what_the_hub_has() {
    if !installed("prometheus") || !installed("promtool") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let hub = Hub::start(folder.path(), &["--metrics", "127.0.0.1:0", "--export-label", "site=here"]);
    let config = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: hub\n  static_configs:\n  - targets: ['127.0.0.1:{}']\n",
        hub.port()
    );
    // With native histograms it asks for messages, without them for OpenMetrics.
    let (native, classic) =
        (Server::prometheus(&config, &RECEIVER[..1]), Server::prometheus(&config, &["--log.level=warn"]));
    let (_agents, truth) = cluster(&hub);
    assert_native(&native, &truth, ",site=\"here\"");
    assert_classic(&classic, &truth);
    for server in [&native, &classic] {
        assert_eq!(server.number("up"), Some(1.0), "{}", server.program.printed());
        assert_eq!(server.number("latscope_hub_hosts"), Some(2.0));
        assert_eq!(server.number("latscope_io_oldest_seconds{device=\"sda\"}"), Some(2.5));
        assert_eq!(server.number("sum(latscope_io_in_flight)"), Some(2.0));
    }
    let text = get(hub.port(), "/metrics", "text/plain").unwrap();
    let checked = end(command("promtool").args(["check", "metrics"]), text.as_bytes());
    assert_eq!(checked.status, Some(0), "{}", checked.err);
    let ended = hub.program.interrupt();
    assert_eq!(ended.status, Some(0), "{}", ended.err);
}

#[test]
fn what_is_pushed_to_prometheus_is_read_back() {
    if !installed("prometheus") {
        return;
    }
    let (native, classic) = (Server::prometheus("", &RECEIVER), Server::prometheus("", &RECEIVER));
    let folder = tempfile::tempdir().unwrap();
    let classic_url = format!("classic+{}", write_url(&classic));
    let words = ["--push", &write_url(&native), "--push", &classic_url, "--push-every", "1s"];
    let hub = Hub::start(folder.path(), &words);
    let (mut agents, truth) = cluster(&hub);
    assert_native(&native, &truth, "");
    assert_classic(&classic, &truth);
    // One-second data though it came at once, and nothing that looks like a restart.
    let [device, kind] = LABELS[0];
    let series = format!("{{device=\"{device}\",kind=\"{kind}\"}}");
    let samples = native.query(&format!("latscope_io_latency_seconds{series}[1m]"));
    let samples = samples[0]["histograms"].as_array().unwrap().len();
    assert!(samples > INTERVALS as usize, "{samples} samples");
    assert_eq!(classic.number(&format!("sum(resets(latscope_io_latency_seconds_bucket{series}[5m]))")), Some(0.0));
    assert_eq!(native.number(&format!("latscope_io_oldest_seconds{series}")), Some(2.5));
    let waiting = native.number(&format!("histogram_count(latscope_io_waiting_seconds{series})"));
    assert_eq!(waiting, Some(2.0));
    assert_dashboard(&native);
    // What comes late is in the next sample.
    let (late, next, now) = (histograms(7, 7), histograms(8, 8), now_s() + 1);
    agents[0].send(now - INTERVALS - 5, late.clone());
    std::thread::sleep(std::time::Duration::from_millis(500));
    agents[0].send(now, next.clone());
    agents[1].send(now, next.clone());
    let mut all = truth;
    for (all, (late, next)) in all.iter_mut().zip(late.iter().zip(&next)) {
        [late, next, next].into_iter().for_each(|more| all.merge(more));
    }
    assert_native(&native, &all, "");
    let ended = hub.program.interrupt();
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    assert!(!ended.err.contains("dropped"), "{}", ended.err);
    // The hub ended, so its series do.
    until("the end of the series", || native.query("latscope_hub_hosts").is_empty());
}

#[test]
fn victoria_metrics_has_its_own_buckets() {
    if !installed("victoria-metrics") {
        return;
    }
    let server = Server::victoria_metrics();
    let folder = tempfile::tempdir().unwrap();
    let url = format!("vmrange+{}", write_url(&server));
    let hub = Hub::start(folder.path(), &["--push", &url, "--push-every", "1s"]);
    let (_agents, truth) = cluster(&hub);
    for ([device, kind], truth) in LABELS.iter().zip(&truth) {
        let labels = format!("device=\"{device}\",kind=\"{kind}\"");
        let count = truth.totals().count as f64;
        let counted = format!("sum(latscope_io_latency_seconds_bucket{{{labels}}})");
        until("all counts", || server.number(&counted) == Some(count));
        for quantile in [0.5, 0.9, 0.99] {
            let query = format!(
                "histogram_quantile({quantile}, sum(latscope_io_latency_seconds_bucket{{{labels}}}) by (vmrange))"
            );
            assert_quantile(server.number(&query).unwrap(), truth, quantile, 10f64.powf(1.0 / 18.0));
        }
    }
    assert_eq!(hub.program.interrupt().status, Some(0));
}

/// A hub that is killed and started again goes on where it was: no counter falls, and nothing counts twice.
#[test]
fn counters_go_on_after_a_restart() {
    if !installed("prometheus") {
        return;
    }
    let server = Server::prometheus("", &RECEIVER);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("journal");
    let words = ["--push", &write_url(&server), "--push-every", "1s", "--data", data.to_str().unwrap()];
    let hub = Hub::start(folder.path(), &words);
    let (agents, truth) = cluster(&hub);
    assert_native(&server, &truth, "");
    signal(hub.program.pid(), "KILL");
    drop((agents, hub));
    let hub = Hub::start(folder.path(), &words);
    let mut agents = [Agent::connect(&hub, "n1"), Agent::connect(&hub, "n2")];
    let (now, more) = (now_s() + 1, histograms(9, 9));
    let mut all = truth;
    for agent in &mut agents {
        agent.send(now, more.clone());
        all.iter_mut().zip(&more).for_each(|(all, more)| all.merge(more));
    }
    assert_native(&server, &all, "");
    let count: f64 = all.iter().map(|all| all.totals().count as f64).sum();
    let largest = server.number("sum(max_over_time(histogram_count(latscope_io_latency_seconds)[5m:1s]))");
    assert_eq!(largest, Some(count));
    assert_eq!(hub.program.interrupt().status, Some(0));
}

/// States that were damaged, by a full disk or a crash, do not keep a hub from collecting: it starts without them, and prints that.
#[test]
fn a_hub_starts_with_damaged_states() {
    for text in ["", "{\"version\": 1, \"groups\": [", "{}"] {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("journal");
        std::fs::create_dir(&data).unwrap();
        let names = ["alerts.json", "export.json"];
        names.iter().for_each(|name| std::fs::write(data.join(name), text).unwrap());
        let alerts = folder.path().join("alerts.toml");
        std::fs::write(&alerts, "[[alert]]\nname = 'slow'\nif = 'p99 > 1s'\n").unwrap();
        let words =
            ["--data", data.to_str().unwrap(), "--metrics", "127.0.0.1:0", "--alerts", alerts.to_str().unwrap()];
        let hub = Hub::start(folder.path(), &words);
        let (now, sent) = (now_s(), histograms(1, 7));
        let mut agent = Agent::connect(&hub, "n1");
        agent.send(now - 9, sent.clone());
        let count: u64 = sent.iter().map(|sent| sent.totals().count).sum();
        let counted = || -> u64 {
            let text = get(hub.port(), "/metrics", "text/plain").unwrap_or_default();
            let counts = text.lines().filter(|line| line.starts_with("latscope_io_latency_seconds_count"));
            counts.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
        };
        until("what was sent", || counted() >= count);
        for name in names {
            let said = format!("{name} is damaged");
            assert!(hub.program.printed().contains(&said), "{}", hub.program.printed());
            assert_eq!(std::fs::read_to_string(data.join(format!("{name}.damaged"))).unwrap(), text);
        }
        assert_eq!(hub.program.interrupt().status, Some(0));
    }
}

/// No counter is lower at the first scrape after a kill than at the last one before, though the state that was kept is older, and though
/// some came late.
#[test]
fn no_counter_falls_over_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("journal");
    let words = ["--metrics", "127.0.0.1:0", "--push-every", "2s", "--data", data.to_str().unwrap()];
    let scraped = |hub: &Hub| -> Vec<u64> {
        let text = get(hub.port(), "/metrics", "text/plain").unwrap_or_default();
        let count = |line: &str| line.strip_prefix("latscope_io_latency_seconds_")?.rsplit_once(' ')?.1.parse().ok();
        text.lines().filter(|line| !line.contains("_sum{")).filter_map(count).collect()
    };
    let mut hub = Hub::start(folder.path(), &words);
    for (round, late) in [(0, 0), (1, 30), (2, 0)] {
        let mut agent = Agent::connect(&hub, "n1");
        let before = scraped(&hub);
        let (now, more) = (now_s(), histograms(round, 7));
        agent.send(now - 20 + round as i64, more.clone());
        until("the first", || scraped(&hub) > before);
        if round == 1 {
            until("the state", || std::fs::read_to_string(data.join("export.json")).is_ok());
        }
        let before = scraped(&hub);
        agent.send(now - 15 + round as i64 - late, more);
        until("the second", || scraped(&hub) > before);
        let last = scraped(&hub);
        signal(hub.program.pid(), "KILL");
        drop((agent, hub));
        hub = Hub::start(folder.path(), &words);
        let first = scraped(&hub);
        assert!(!first.is_empty() && first == last, "round {round}: {last:?}, then {first:?}");
    }
}

/// What one hub pushes, another takes: no event is lost or counted twice, whatever the protocol.
#[test]
fn a_hub_takes_what_others_push() {
    for (format, path) in [
        ("remote-write-1+", "api/v1/write"),
        ("", "api/v1/write"),
        ("classic+", "api/v1/write"),
        ("otlp-delta+", "v1/metrics"),
    ] {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let taker = Hub::start(folders[0].path(), &["--metrics", "127.0.0.1:0"]);
        let url = format!("{format}http://127.0.0.1:{}/{path}", taker.port());
        let hub = Hub::start(folders[1].path(), &["--push", &url, "--push-every", "1s"]);
        let (_agents, truth) = cluster(&hub);
        let read = format!("hub+unix:{}", folders[0].path().join("hub.sock").display());
        let summary = || -> Value {
            let summary = crate::program::latscope(&[
                "summary",
                "--json",
                "--by",
                "device,kind",
                "--completed-only",
                "-r",
                &read,
            ]);
            serde_json::from_slice(&summary.out).unwrap_or_default()
        };
        let count: u64 = truth.iter().map(|truth| truth.totals().count).sum();
        let mut last = Value::Null;
        until(&url, || {
            last = summary();
            last["total"]["count"].as_u64() == Some(count)
        });
        assert!(hub.program.printed().contains("pushing") && !hub.program.printed().contains("dropped"), "{url}");
        assert_eq!(hub.program.interrupt().status, Some(0));
        assert_eq!(taker.program.interrupt().status, Some(0));
    }
}

/// What is not taken is in the answer, and the hub prints it.
#[test]
fn what_is_not_taken_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Hub::start(folder.path(), &["--metrics", "127.0.0.1:0"]);
    let mut stream = TcpStream::connect(("127.0.0.1", hub.port())).unwrap();
    let head = "POST /v1/metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-protobuf";
    write!(stream, "{head}\r\nContent-Length: 3\r\n\r\nabc").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("it ends too early"), "{answer}");
    let expected = "pushed histograms that were not taken: 1: it ends too early";
    until(expected, || hub.program.printed().contains(expected));
}

#[test]
fn pushes_are_encrypted_and_servers_known() {
    if !installed("prometheus") || !installed("openssl") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"];
    let names =
        ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"];
    let files = ["-keyout", &path("key"), "-out", &path("cert")];
    end(command("openssl").args(made).args(names).args(files), b"").success();
    let web = format!("tls_server_config: {{cert_file: {}, key_file: {}}}\n", path("cert"), path("key"));
    std::fs::write(path("web.yml"), web).unwrap();
    std::fs::write(path("prometheus.yml"), "").unwrap();
    let port = free_port();
    let mut server = command("prometheus");
    server.args([
        &format!("--config.file={}", path("prometheus.yml")),
        &format!("--web.config.file={}", path("web.yml")),
    ]);
    server.args([&format!("--storage.tsdb.path={}", path("data")), &format!("--web.listen-address=127.0.0.1:{port}")]);
    let _server = Background::new(server.args(RECEIVER));
    until("Prometheus", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let url = format!("https://localhost:{port}/api/v1/write");
    let pushing = |more: &[&str], expected: &str| {
        let hub = Hub::start(folder.path(), &[&["--push", &url, "--push-every", "1s"], more].concat());
        let _agents = cluster(&hub);
        until(expected, || hub.program.printed().contains(expected));
        hub.program.interrupt();
    };
    pushing(&["--push-ca", &path("cert")], &format!("{url}: pushing"));
    pushing(&[], "not pushed: invalid peer certificate");
}

/// A server that takes documents as Elasticsearch does, fails once, and answers as it does to what it has already.
fn elasticsearch(listener: TcpListener, sender: std::sync::mpsc::Sender<(String, Value)>) {
    let (mut known, mut is_down) = (std::collections::HashSet::new(), true);
    for mut stream in listener.incoming().map_while(Result::ok) {
        let mut reader = std::io::BufReader::new(stream.try_clone().unwrap());
        let (mut length, mut line) = (0, String::new());
        while std::io::BufRead::read_line(&mut reader, &mut line).unwrap_or(0) > 2 {
            length = line.strip_prefix("Content-Length: ").map_or(length, |text| text.trim().parse().unwrap());
            if line.starts_with("POST") {
                assert!(line.starts_with("POST /latscope/_bulk?filter_path=errors,"), "{line}");
            }
            line.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        assert_eq!(body.last(), Some(&b'\n'));
        let lines: Vec<Value> =
            body.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
        let mut items = Vec::new();
        for pair in lines.chunks(2) {
            let identity = pair[0]["create"]["_id"].as_str().unwrap().to_string();
            let is_new = known.insert(identity.clone());
            items.push(serde_json::json!({ "create": { "status": if is_new { 201 } else { 409 } } }));
            if is_new && sender.send((identity, pair[1].clone())).is_err() {
                return;
            }
        }
        // Everything was taken, but the answer is lost.
        if std::mem::take(&mut is_down) {
            continue;
        }
        let answer = serde_json::json!({ "errors": true, "items": items }).to_string();
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{answer}", answer.len());
    }
}

/// Documents have all events once, also if an answer is lost, and their fields are those that the template names.
#[test]
fn documents_have_what_was_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("elasticsearch+http://{}/latscope", listener.local_addr().unwrap());
    let (sender, documents) = std::sync::mpsc::channel();
    std::thread::spawn(move || elasticsearch(listener, sender));
    let folder = tempfile::tempdir().unwrap();
    let hub = Hub::start(folder.path(), &["--push", &url, "--push-every", "1s"]);
    let (_agents, truth) = cluster(&hub);
    let template = std::fs::read_to_string(crate::program::root().join("dashboards/elasticsearch.json")).unwrap();
    let template: Value = serde_json::from_str(&template).unwrap();
    let mapped = &template["template"]["mappings"]["properties"];
    let mut counts = [0, 0];
    until("all documents", || {
        while let Ok((_, document)) = documents.try_recv() {
            for (name, value) in document.as_object().unwrap() {
                let is_histogram = value.is_object();
                assert!(!is_histogram || mapped[name]["type"] == "histogram", "{name}: {mapped}");
            }
            let at =
                LABELS.iter().position(|[device, kind]| document["device"] == *device && document["kind"] == *kind);
            if let Some((at, parts)) = at.zip(document["latscope.io.latency"]["counts"].as_array()) {
                counts[at] += parts.iter().map(|count| count.as_u64().unwrap()).sum::<u64>();
            }
        }
        counts == [0, 1].map(|at| truth[at].totals().count)
    });
    let ended = hub.program.interrupt();
    assert_eq!((ended.status, ended.err.contains("dropped")), (Some(0), false), "{}", ended.err);
}

/// The saved objects of Kibana are what its import takes: a line each, whose references are there.
#[test]
fn saved_objects_of_kibana_refer_to_each_other() {
    let text = std::fs::read_to_string(crate::program::root().join("dashboards/kibana.ndjson")).unwrap();
    let objects: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let known: Vec<(&Value, &Value)> = objects.iter().map(|object| (&object["type"], &object["id"])).collect();
    assert_eq!(objects.last().map(|object| &object["type"]), Some(&"dashboard".into()));
    for object in &objects {
        for reference in object["references"].as_array().unwrap() {
            assert!(known.contains(&(&reference["type"], &reference["id"])), "{reference}");
        }
        for name in ["visState", "panelsJSON", "optionsJSON"] {
            if let Some(text) = object["attributes"][name].as_str() {
                assert!(serde_json::from_str::<Value>(text).is_ok(), "{name}: {text}");
            }
        }
        if let Some(text) = object["attributes"]["kibanaSavedObjectMeta"]["searchSourceJSON"].as_str() {
            assert!(serde_json::from_str::<Value>(text).is_ok(), "{text}");
        }
    }
}
