//! Alerts of a hub: over recorded data, while a disk hangs, at an Alertmanager, and as rules of Prometheus.

use crate::live::lab::{Background, Disk, alone, signal, until};
use crate::program::{LATSCOPE, command, end, installed, latscope};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const TRACE: &str = "testdata/perf_script/story_2s.txt.gz";

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name).to_str().unwrap().to_string();
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_file_of_alerts_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let good = "[[alert]]\nname = 'slow'\nif = 'p99 > 1s'\nwhere = 'kind = write'\n[[deliver]]\nwebhook = 'http://127.0.0.1:1/x'\n";
    let file = write(folder.path(), "alerts.toml", good);
    let said = latscope(&["hub", "--check-alerts", &file]).success();
    assert_eq!(said, format!("{file}: 4 alerts, 0 objectives, 1 destination\n"));
    for (text, expected) in [
        ("[[alert]]\nname = 'slow'\nfi = 'p99 > 1s'\n", ": line 3: unknown key fi in alert; did you mean if."),
        ("[[alert]]\nname = 'slow'\nif = 'p99 > 1s'\nwhere = 'knd = write'\n", ": line 4: where: "),
        ("[[alert]\n", ": line 1: "),
        (
            "[[alert]]\nname = 'a'\nif = 'p99 > 1s'\nwhere = 'lat > 1s'\n",
            ": line 4: where: no agent groups by latency_ns",
        ),
        ("[[deliver]]\nwebhook = 'http://u:secret@n1:99999/'\n", ": line 2: webhook: n1:99999/ has a password"),
    ] {
        let file = write(folder.path(), "wrong.toml", text);
        for option in ["--check-alerts", "--alerts"] {
            let failed = latscope(&["hub", option, &file]).failure(2);
            assert!(failed.contains(expected), "{failed}");
        }
    }
    let program = write(folder.path(), "program.toml", "[[deliver]]\ncommand = ['/nonexistent/x']\n");
    for option in ["--check-alerts", "--alerts"] {
        let failed = latscope(&["hub", option, &program]).failure(3);
        assert!(failed.contains("There is no program /nonexistent/x.") && !failed.contains("listening"), "{failed}");
    }
    let missing = latscope(&["hub", "--check-alerts", "/nonexistent.toml"]).failure(3);
    assert!(missing.contains("/nonexistent.toml: "), "{missing}");
    let unreachable = "[[slo]]\nname = 'db'\ngood = { below = '10ms', target = '90%', over = '30d' }\n";
    let remarks =
        end(command(LATSCOPE).args(["hub", "--check-alerts", &write(folder.path(), "slo.toml", unreachable)]), b"");
    assert!(remarks.err.contains("db: a burn rate of 14.4 cannot be reached with a target of 90%"), "{}", remarks.err);
    remarks.success();
}

/// The file of the documentation is one.
#[test]
fn the_documented_file_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let page = std::fs::read_to_string(crate::program::root().join("docs/alerts.md")).unwrap();
    let (_, file) = page.split_once("```toml\n").unwrap();
    let file = write(folder.path(), "alerts.toml", file.split("```").next().unwrap());
    let said = latscope(&["hub", "--check-alerts", &file]).success();
    assert_eq!(said, format!("{file}: 4 alerts, 1 objective, 3 destinations\n"));
}

/// Alerts over a trace fire in the intervals in which the table of percentiles has the values, and end where it has not.
#[test]
fn alerts_over_a_trace_follow_its_table() {
    let folder = tempfile::tempdir().unwrap();
    let limit_ns = 96_000_000;
    let rule = "built_in = false\n[[alert]]\nname = 'slow'\nif = 'max > 96ms'\nstep = '100ms'\ncounting = 'done'\nby = ['device']\n";
    let file = write(folder.path(), "alerts.toml", rule);
    let replayed = latscope(&["hub", "--check-alerts", &file, "-r", TRACE]).success();
    let words = ["percentiles", "--csv", "-i", "100ms", "--completed-only", "--count-by", "completion", "-r", TRACE];
    let table = latscope(&words).success();
    let column = |name: &str| table.lines().next().unwrap().split(',').position(|one| one == name).unwrap();
    let (time, max) = (column("time_ns"), column("max_ns"));
    let mut expected = Vec::new();
    let mut is_firing = false;
    for row in table.lines().skip(1).map(|row| row.split(',').collect::<Vec<_>>()) {
        let holds = row[max].parse().is_ok_and(|max: u64| max > limit_ns);
        if holds != std::mem::replace(&mut is_firing, holds) {
            let end_ns: u64 = row[time].parse::<u64>().unwrap() + 100_000_000;
            let (minutes, seconds) = (end_ns / 60_000_000_000, end_ns as f64 / 1e9 % 60.0);
            let word = if holds { "fires   " } else { "resolved" };
            expected.push(format!("1970-01-01 00:{minutes:02}:{seconds:06.3}  {word}"));
        }
    }
    let found: Vec<&str> =
        replayed.lines().filter_map(|line| line.split_once("  slow").map(|(start, _)| start)).collect();
    assert!(expected.len() > 4, "{table}");
    assert_eq!(found, expected, "{replayed}");
    assert!(replayed.contains("slow (device loop0): max = "), "{replayed}");
}

/// What waits is known of a trace of block requests, and not of a table of latencies.
#[test]
fn what_was_in_flight_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let rule = |condition: &str, more: &str| {
        let text = format!("built_in = false\n[[alert]]\nname = 'a'\nif = '{condition}'\nby = ['device']\n{more}\n");
        write(folder.path(), "alerts.toml", &text)
    };
    // Completed, nothing took longer than this; in flight, it is a little younger.
    let replayed = latscope(&["hub", "--check-alerts", &rule("oldest > 60ms", "step = '20ms'"), "-r", TRACE]).success();
    let ages = replayed.lines().filter_map(|line| line.split_once("fires ")?.1.split("oldest = ").nth(1));
    let ages: Vec<f64> = ages.map(|age| age.split("ms").next().unwrap().parse().unwrap()).collect();
    assert!(!ages.is_empty() && ages.iter().all(|&age| (60.0..300.0).contains(&age)), "{replayed}");
    let table = write(folder.path(), "latencies.csv", "time_ns,latency_ns\n1000000000,7000000000\n2000000000,1000\n");
    let failed = latscope(&["hub", "--check-alerts", &write_waiting(folder.path()), "-r", &table]).failure(3);
    assert!(failed.contains("--check-alerts: The trace does not record waiting requests"), "{failed}");
    let checked =
        end(command(LATSCOPE).args(["hub", "--check-alerts", &rule("p99 > 1s", "step = '1h'"), "-r", TRACE]), b"");
    assert!(checked.err.contains("alert a: no whole step of 3600s was recorded; it is not judged."), "{}", checked.err);
    checked.success();
}

fn write_waiting(folder: &Path) -> String {
    write(folder, "waiting.toml", "[[alert]]\nname = 'w'\nif = 'waiting > 5'\n")
}

/// promtool runs the tests that come with the rules, and reads those for native histograms.
#[test]
fn prometheus_understands_the_rules() {
    if !installed("promtool") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = r#"
[[alert]]
name = "slow \"writes\""
where = 'kind = write and device = nvme0n1'
by = ["device"]
if = 'p95 > 1s and (p99 > 2s or mean > 500ms) or over(10ms) > 5%'
for = "30s"
labels = { severity = "page" }
[[alert]]
name = "busy"
if = "rate > 100 and count > 10 and waiting > 3 and lag > 2s"
[[alert]]
name = "idle"
if = "count < 1"
where = "device startswith nvme"
[[alert]]
name = "ages"
if = "waiting(5s) > 0"
[[alert]]
name = "left out"
if = "p99 > 1s"
where = "device in (a, b) or kind = read"
[[alert]]
name = "either"
if = "p99 > 1s"
where = 'device in ("a.b|\"c", d) and user = "x and y"'
[[alert]]
name = "prefix"
if = "oldest > 1s"
where = "device startswith 'dm.1'"
[[alert]]
name = "clocks"
if = "offset > 100ms and lag > 2s"
by = ["host"]
where = "host = n1"
[[alert]]
name = "one host"
if = "oldest > 2s"
where = "host = n1"
[[alert]]
name = "each host"
if = "waiting > 2"
by = ["host", "device"]
[[alert]]
name = "mixed"
if = "oldest > 2s or lost > 0"
by = ["device"]
[[slo]]
name = "db"
good = { below = "10ms", target = "99.9%", over = "30d" }
[[slo]]
name = "short"
good = { below = "10ms", target = "99%", over = "1h" }
"#;
    let alerts = write(folder.path(), "alerts.toml", text);
    let tests = folder.path().join("tests.yml");
    let print = |kind: &str, more: &[&str]| {
        latscope(&[&["hub", "--alerts", &alerts, "--print-rules", kind], more].concat()).success()
    };
    let classic = print("classic", &["--tests", tests.to_str().unwrap()]);
    write(folder.path(), "rules.yml", &classic);
    assert!(classic.contains("# left out is left out: labels cannot express"), "{classic}");
    for comment in [
        "# busy: It looks at 1m, not at steps of 10s; the count is that of as much time.",
        "# db: Classic histograms have no edge at 0.01 s; the next is 0.012582911 s.",
        "# one host is left out: its metrics have no label host.",
        "# each host: by host is left out: its metrics have no such label, so expr is about all values together.",
        "# mixed is left out: not all of its metrics have the labels device.",
        "# ages: ",
    ] {
        assert_eq!(classic.contains(comment), !comment.ends_with(": "), "{comment}: {classic}");
    }
    assert!(classic.contains("latscope_io_latency_seconds_count[1m])) > 60"), "{classic}");
    let promtool = |words: &[&str]| end(command("promtool").args(words).current_dir(folder.path()), b"");
    let checked = promtool(&["test", "rules", "tests.yml"]);
    assert_eq!(checked.status, Some(0), "{}{}", checked.err, String::from_utf8_lossy(&checked.out));
    // Each rule that values above bounds make fire is tested, by series that a hub exports: only clocks and agents have a host.
    let count = || std::fs::read_to_string(&tests).unwrap().matches("alertname: ").count();
    assert_eq!(count(), 9);
    for line in std::fs::read_to_string(&tests).unwrap().lines().filter(|line| line.contains("series: ")) {
        let has_host =
            line.contains("latscope_agent_lag_seconds") || line.contains("latscope_hub_clock_offset_seconds");
        assert_eq!(line.contains("host="), has_host, "{line}");
    }
    let native = print("native", &["--tests", tests.to_str().unwrap()]);
    write(folder.path(), "rules.yml", &native);
    // Those on gauges and counters.
    assert_eq!(count(), 6);
    for words in [&["check", "rules", "--lint-fatal", "rules.yml"][..], &["test", "rules", "tests.yml"]] {
        let checked = promtool(words);
        assert_eq!(checked.status, Some(0), "{}{}", checked.err, String::from_utf8_lossy(&checked.out));
    }
    let text = "built_in = false\n[[alert]]\nname = 'a'\nif = 'p99 > 1s'\n";
    let (alerts, untested) = (write(folder.path(), "native.toml", text), folder.path().join("none.yml"));
    let words = ["hub", "--alerts", &alerts, "--print-rules", "native", "--tests", untested.to_str().unwrap()];
    let printed = end(command(LATSCOPE).args(words), b"");
    assert!(printed.err.contains("None of the rules can be tested; ") && !untested.exists(), "{}", printed.err);
    printed.success();
}

/// Rules for native histograms, evaluated by a Prometheus over known histograms: within fourteen seconds 14 events of 0.977 ms and 28 of
/// up to 1.065 ms, of 1 ms in the mean.
#[test]
fn prometheus_evaluates_native_rules() {
    if !installed("prometheus") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let conditions = [
        ("p99 > 1060us", true),
        ("p99 > 1070us", false),
        ("p20 > 980us or mean > 1001us", false),
        ("mean > 990us and p60 > 1ms", true),
        ("max > 1064us and min < 977us", true),
        ("over(1ms) > 40%", true),
        ("over(1ms) > 50%", false),
        ("over(1100us) > 0%", false),
        ("rate > 0.5 and count > 40", true),
        ("rate > 1", false),
    ];
    let rule = |(at, (condition, _)): (usize, &(&str, bool))| {
        format!(
            "[[alert]]\nname = 'a{at}'\nif = '{condition}'\nstep = '1m'\nby = ['device']\nwhere = 'device = nvme0n1'\n"
        )
    };
    let rules: String = conditions.iter().enumerate().map(rule).collect();
    let alerts = write(folder.path(), "alerts.toml", &format!("built_in = false\n{rules}"));
    let printed = latscope(&["hub", "--alerts", &alerts, "--print-rules", "native"]).success();
    let expressions = printed.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let expressions: Vec<String> = expressions.map(|text| serde_json::from_str(text).unwrap()).collect();
    let (config, port) = (write(folder.path(), "prometheus.yml", "global: {}\n"), port());
    let mut program = command("prometheus");
    program.arg(format!("--config.file={config}")).arg(format!("--web.listen-address=127.0.0.1:{port}"));
    program.arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()));
    let _program =
        Background::new(program.args(["--enable-feature=native-histograms", "--web.enable-remote-write-receiver"]));
    until("Prometheus", || http(port, "GET /-/ready", &[], b"").is_ok_and(|(status, _)| status == 200));
    let written = std::fs::read(crate::program::testdata("wire/rw1_fifteen.snappy")).unwrap();
    let headers = [
        "Content-Encoding: snappy",
        "Content-Type: application/x-protobuf",
        "X-Prometheus-Remote-Write-Version: 0.1.0",
    ];
    assert_eq!(http(port, "POST /api/v1/write", &headers, &written).unwrap().0, 204);
    assert_eq!(expressions.len(), conditions.len(), "{printed}");
    for ((condition, expected), expression) in conditions.iter().zip(&expressions) {
        let query = expression.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
        let form = ["Content-Type: application/x-www-form-urlencoded"];
        let body = format!("time=1700000014&query={query}");
        let (_, answer) = http(port, "POST /api/v1/query", &form, body.as_bytes()).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        let found = !answer["data"]["result"].as_array().unwrap().is_empty();
        assert_eq!(found, *expected, "{condition}: {expression}: {answer}");
    }
}

/// What a server answers: its status and its body.
pub fn http(port: u16, what: &str, headers: &[&str], body: &[u8]) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    write!(stream, "{what} HTTP/1.0\r\n{headers}Content-Length: {}\r\n\r\n", body.len())?;
    stream.write_all(body)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(std::io::ErrorKind::InvalidData)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or(std::io::ErrorKind::InvalidData)?, body.to_string()))
}

/// An Alertmanager of its own, which hands on to us what it notifies of.
struct Alertmanager {
    _program: Background,
    port: u16,
    /// Status of the groups that it notified of, and their number of alerts.
    notified: Receiver<(String, usize)>,
}

/// A port that was free a moment ago.
fn port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

impl Alertmanager {
    /// `None` where it is not installed.
    fn start(folder: &Path) -> Option<Alertmanager> {
        installed("prometheus-alertmanager").then_some(())?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let hook = listener.local_addr().unwrap();
        let (sender, notified) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(body) = stream.and_then(|mut stream| posted(&mut stream)) else { return };
                let status = body["status"].as_str().unwrap_or_default().to_string();
                if sender.send((status, body["alerts"].as_array().map_or(0, Vec::len))).is_err() {
                    return;
                }
            }
        });
        let config = format!(
            "route: {{receiver: us, group_by: ['...'], group_wait: 1s, group_interval: 1s, repeat_interval: 1h}}\n\
             receivers: [{{name: us, webhook_configs: [{{url: 'http://{hook}/'}}]}}]\n"
        );
        let config = write(folder, "alertmanager.yml", &config);
        let port = port();
        let mut program = command("prometheus-alertmanager");
        program.arg(format!("--config.file={config}")).arg(format!("--web.listen-address=127.0.0.1:{port}"));
        program.arg(format!("--storage.path={}", folder.join("alertmanager").display()));
        let program = Background::new(program.arg("--cluster.listen-address="));
        let alertmanager = Alertmanager { _program: program, port, notified };
        until("the Alertmanager", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(alertmanager)
    }

    /// All alerts that are active.
    fn alerts(&self) -> Vec<Value> {
        let answer = http(self.port, "GET /api/v2/alerts?active=true", &[], b"");
        answer.map_or_else(|_| Vec::new(), |(_, body)| serde_json::from_str(&body).unwrap_or_default())
    }

    /// What it notified of until now.
    fn notifications(&self) -> Vec<(String, usize)> {
        self.notified.try_iter().collect()
    }
}

/// The body of a request, which is answered.
fn posted(stream: &mut TcpStream) -> std::io::Result<Value> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut chunk)?;
        bytes.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if count == 0 || length.is_some_and(|length: usize| body.len() >= length) {
            let parsed = serde_json::from_str(body)?;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
            return Ok(parsed);
        }
    }
}

/// A hub on a socket file that delivers to an Alertmanager.
fn hub(folder: &Path, name: &str, alerts: &str) -> (Background, String) {
    let listen = format!("unix:{}", folder.join(format!("{name}.sock")).display());
    let journal = folder.join(name).to_str().unwrap().to_string();
    let words = ["hub", "--listen", &listen, "--data", &journal, "--alerts", alerts];
    let program = Background::new(command(LATSCOPE).args(words));
    until("the hub", || program.printed().contains("listening on"));
    (program, listen)
}

fn agent(disk: &Disk, hubs: &[&str]) -> Background {
    let hubs: Vec<&str> = hubs.iter().flat_map(|hub| ["--hub", hub]).collect();
    let filter = disk.filter();
    Background::latscope(&[&["agent", "--name", "n1", "-s", "block"], &hubs[..], &[&filter]].concat())
}

fn read(disk: &Disk) -> Command {
    let mut dd = Command::new("dd");
    dd.args([&format!("if={}", disk.path), "of=/dev/null", "bs=4k", "count=1", "iflag=direct", "status=none"]);
    dd
}

/// When something happened in the journal of a hub, by the rules of a file.
fn replayed(folder: &Path, name: &str, alerts: &str) -> String {
    let files = std::fs::read_dir(folder.join(name)).unwrap().flatten().map(|file| file.path());
    let mut files: Vec<String> = files.map(|path| path.to_str().unwrap().to_string()).collect();
    files.retain(|path| path.ends_with(".frames"));
    files.sort();
    let files: Vec<&str> = files.iter().flat_map(|file| ["-r", file]).collect();
    latscope(&[&["hub", "--check-alerts", alerts], &files[..]].concat()).success()
}

/// A disk is stopped for eight seconds. The alert is at the Alertmanager while it still hangs, names host and device, and is resolved.
#[test]
fn a_stall_is_alerted_while_it_lasts() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some(alertmanager) = Alertmanager::start(folder.path()) else { return };
    let deliver = format!("[[deliver]]\nalertmanager = 'http://127.0.0.1:{}'\n", alertmanager.port);
    let alerts = write(folder.path(), "alerts.toml", &deliver);
    let (hub, listen) = hub(folder.path(), "hub", &alerts);
    let disk = Disk::new(&["--read", "1ms"]);
    let agent = agent(&disk, &[&listen]);
    until("the agent", || hub.printed().contains("n1: connected"));
    end(&mut read(&disk), b"").success();
    disk.signal("STOP");
    let start = Instant::now();
    let reader = Background::new(&mut read(&disk));
    until("the alert", || !alertmanager.alerts().is_empty());
    let delivered = start.elapsed();
    let found = &alertmanager.alerts()[0];
    let labels = &found["labels"];
    assert_eq!((&labels["alertname"], &labels["host"]), (&"stall".into(), &"n1".into()), "{found}");
    assert_eq!(labels["device"], disk.name());
    let summary = found["annotations"]["summary"].as_str().unwrap();
    let age = summary.rsplit_once("oldest = ").and_then(|(_, age)| age.trim_end_matches('s').parse::<f64>().ok());
    assert!(age.is_some_and(|age| age > 5.0 && age < 8.0), "{summary}");
    assert!(delivered >= Duration::from_secs(5), "{delivered:?}");
    println!("delivered {:.1} s after the stop", delivered.as_secs_f64());
    std::thread::sleep(Duration::from_secs(8).saturating_sub(start.elapsed()));
    assert!(!alertmanager.alerts().is_empty(), "it fires until the end");
    disk.signal("CONT");
    reader.ended().success();
    until("its end", || alertmanager.alerts().is_empty());
    let mut notified = Vec::new();
    until("the notifications", || {
        notified.extend(alertmanager.notifications());
        notified.len() >= 2
    });
    assert_eq!(notified, [("firing".to_string(), 1), ("resolved".into(), 1)]);
    assert_eq!(agent.interrupt().status, Some(0));
    let log = hub.interrupt().err;
    let line = format!("latscope: alert: stall (host n1, device {}): oldest = ", disk.name());
    assert!(log.contains(&line) && log.contains("latscope: resolved: stall (host n1"), "{log}");
    // The journal has the same.
    let again = replayed(folder.path(), "hub", &alerts);
    let words: Vec<&str> = again.lines().filter_map(|line| line.get(25..33)).collect();
    assert_eq!(words[..2], ["fires   ", "resolved"], "{again}");
    assert!(again.ends_with("Fired: stall 1.\n"), "{again}");
}

/// Two hubs have the same agents; one is killed while a disk hangs. There is one notification of the stall, and one of its end.
#[test]
fn two_hubs_notify_once() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some(alertmanager) = Alertmanager::start(folder.path()) else { return };
    let rules = "[[alert]]\nname = 'stall'\nif = 'oldest > 2s'\nby = ['host', 'device']\n[[deliver]]\n";
    let rules = format!("{rules}alertmanager = 'http://127.0.0.1:{}'\n", alertmanager.port);
    let alerts = write(folder.path(), "alerts.toml", &rules);
    let ((one, first), (other, second)) = (hub(folder.path(), "a", &alerts), hub(folder.path(), "b", &alerts));
    let disk = Disk::new(&["--read", "1ms"]);
    let agent = agent(&disk, &[&first, &second]);
    until("the agent", || [&one, &other].iter().all(|hub| hub.printed().contains("n1: connected")));
    end(&mut read(&disk), b"").success();
    disk.signal("STOP");
    let reader = Background::new(&mut read(&disk));
    until("the alerts", || [&one, &other].iter().all(|hub| hub.printed().contains("alert: stall")));
    signal(one.pid(), "KILL");
    assert_eq!(one.ended().status, None);
    let mut notified = Vec::new();
    until("the notification", || {
        notified.extend(alertmanager.notifications());
        !notified.is_empty()
    });
    // A hub that starts again goes on: it neither fires anew nor resolves.
    let (one, _) = hub(folder.path(), "a", &alerts);
    std::thread::sleep(Duration::from_secs(4));
    assert!(!one.printed().contains("stall"), "{}", one.printed());
    disk.signal("CONT");
    reader.ended().success();
    until("both ends", || [&one, &other].iter().all(|hub| hub.printed().contains("resolved: stall")));
    until("the end", || {
        notified.extend(alertmanager.notifications());
        notified.len() >= 2
    });
    std::thread::sleep(Duration::from_secs(3));
    notified.extend(alertmanager.notifications());
    assert_eq!(notified, [("firing".to_string(), 1), ("resolved".into(), 1)]);
    assert_eq!(agent.interrupt().status, Some(0));
    for hub in [one, other] {
        assert_eq!(hub.interrupt().status, Some(0));
    }
    let stalls = |name: &str| -> Vec<String> {
        let lines = replayed(folder.path(), name, &alerts);
        lines.lines().filter(|line| line.contains("stall (")).map(str::to_string).collect()
    };
    assert_eq!((stalls("a"), stalls("b").len()), (stalls("b"), 2));
}

/// A file that changes is read again; one that is wrong changes nothing.
#[test]
fn rules_are_read_again_when_they_change() {
    let folder = tempfile::tempdir().unwrap();
    let waits = "built_in = false\n[[alert]]\nname = 'waits'\nif = 'oldest > 2s'\nby = ['device']\n";
    let file = write(folder.path(), "alerts.toml", waits);
    let hub = crate::exports::Hub::start(folder.path(), &["--alerts", &file]);
    let mut agent = crate::exports::Agent::connect(&hub, "n1");
    let now = crate::exports::now_s();
    let mut send = |interval: i64| agent.send(interval, crate::exports::histograms(1, interval));
    send(now);
    let printed = |text: &str| until(text, || hub.program.printed().contains(text));
    printed("alert: waits (device sda): oldest = ");
    write(folder.path(), "alerts.toml", "[[alert]]\nname = 'busy'\nfi = 'count > 1'\n");
    printed(": line 3: unknown key fi in alert; did you mean if. The alerts from before stay.");
    assert!(!hub.program.printed().contains("resolved"), "{}", hub.program.printed());
    let busy = "built_in = false\n[[alert]]\nname = 'busy'\nif = 'count > 1'\nstep = '1s'\nby = ['device']\n";
    write(folder.path(), "alerts.toml", busy);
    printed("The alerts were read again.");
    printed("resolved: waits (device sda)");
    let next = crate::exports::now_s();
    (0..3).for_each(|more| send(next + more));
    printed("alert: busy (device sdb): count = ");
    signal(hub.program.pid(), "HUP");
    until("the signal", || hub.program.printed().matches("The alerts were read again.").count() == 2);
    let ended = hub.program.interrupt();
    assert_eq!((ended.status, ended.err.matches("alert: busy (device sda)").count()), (Some(0), 1), "{}", ended.err);
}

/// A certificate that expires in two days is an alert of the hub itself, and a metric.
#[test]
fn certificates_that_expire_are_reported() {
    if !installed("openssl") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
    let files = ["-subj", "/CN=localhost", "-keyout", &path("key"), "-out", &path("cert")];
    end(command("openssl").args(made).args(files), b"").success();
    write(folder.path(), "tokens", "0123456789abcdef0123\n");
    let words = ["--listen", "127.0.0.1:0", "--cert", &path("cert"), "--key", &path("key")];
    let more = ["--token-file", &path("tokens"), "--metrics", "127.0.0.1:0"];
    let hub = Background::new(command(LATSCOPE).arg("hub").args(words).args(more));
    until("the alert", || hub.printed().contains("alert: certificate: the certificate of the hub expires at "));
    let port = hub.printed().split_once("metrics at 127.0.0.1:").unwrap().1.lines().next().unwrap().parse().unwrap();
    let metric = "latscope_hub_certificate_not_after_timestamp_seconds ";
    let end_s = || -> Option<i64> {
        let text = http(port, "GET /metrics", &["Host: 127.0.0.1"], b"").ok()?.1;
        text.split_once(&format!("\n{metric}"))?.1.lines().next()?.parse().ok()
    };
    until("the metric", || end_s().is_some());
    let left = end_s().unwrap() - crate::exports::now_s();
    assert!((172_000..=172_800).contains(&left), "{left} s");
    assert_eq!(hub.interrupt().status, Some(0));
}
