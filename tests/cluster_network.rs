//! A cluster of three hosts in network namespaces of their own, with TLS between them.

use crate::cluster::{Histograms, assert_equal, histograms, loads};
use crate::live::lab::{Background, Disk, alone, until};
use crate::program::{LATSCOPE, command, end, installed, latscope};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A hub and three hosts, joined by a bridge; all go when it is dropped.
struct Network {
    prefix: String,
    folder: tempfile::TempDir,
}

/// Runs a line; whether that worked.
fn line(words: &str) -> bool {
    let words: Vec<&str> = words.split_whitespace().collect();
    end(command(words[0]).args(&words[1..]), b"").status == Some(0)
}

impl Network {
    const HOSTS: [&'static str; 3] = ["n1", "n2", "n3"];

    /// `None` where namespaces cannot be made.
    fn new() -> Option<Network> {
        let network = Network { prefix: format!("ls{}", std::process::id()), folder: tempfile::tempdir().unwrap() };
        let hub = network.namespace("hub");
        let lines = [
            format!("ip netns add {hub}"),
            format!("ip -n {hub} link add bridge type bridge"),
            format!("ip -n {hub} address add 10.77.0.1/24 dev bridge"),
            format!("ip -n {hub} link set bridge up"),
            format!("ip -n {hub} link set lo up"),
        ];
        if !lines.iter().all(|words| line(words)) {
            skipped!("no network namespaces or bridges");
            return None;
        }
        for (host, number) in Network::HOSTS.iter().zip(2..) {
            let namespace = network.namespace(host);
            for words in [
                format!("ip netns add {namespace}"),
                format!("ip -n {hub} link add {host} type veth peer name eth0 netns {namespace}"),
                format!("ip -n {hub} link set {host} master bridge up"),
                format!("ip -n {namespace} address add 10.77.0.{number}/24 dev eth0"),
                format!("ip -n {namespace} link set eth0 up"),
            ] {
                assert!(line(&words), "{words}");
            }
        }
        Some(network)
    }

    fn namespace(&self, host: &str) -> String {
        format!("{}-{host}", self.prefix)
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_string()
    }

    /// The program on one of the hosts, which has a name of its own, too.
    fn latscope(&self, host: &str, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.namespace(host)));
        command.args(["unshare", "--uts", "sh", "-c", "hostname $0 && exec \"$@\"", host, LATSCOPE]).args(words);
        command.current_dir(self.folder.path());
        command
    }

    /// An authority, or a certificate that it signs.
    fn openssl(&self, lines: &[String]) {
        let script = format!("set -e; {}", lines.join("; "));
        end(command("bash").args(["-c", &script]).current_dir(self.folder.path()), b"").success();
    }

    fn sign(&self, name: &str, names: &str) {
        let curve = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
        self.openssl(&[
            format!("openssl req -new {curve} -subj /CN={name} -addext subjectAltName={names} -keyout {name}.key -out {name}.csr"),
            format!("openssl x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 9 -copy_extensions copy -out {name}.pem"),
        ]);
    }

    fn agent(&self, host: &str, disk: &Disk, more: &[&str]) -> Background {
        let (queue, tee, filter) = (self.path(&format!("{host}.queue")), format!("{host}.lat"), disk.filter());
        let words = ["agent", "--hub", "10.77.0.1", "--ca", "ca.pem", "--queue", &queue, "--tee", &tee, "-i", "500ms"];
        Background::new(&mut self.latscope(host, &[&words, more, &[&filter]].concat()))
    }

    /// What a view on a host prints.
    fn view(&self, host: &str, certificate: &str, words: &[&str]) -> crate::program::Ended {
        let mut view = self.latscope(host, words);
        let files =
            [("CA", "ca.pem".into()), ("CERT", format!("{certificate}.pem")), ("KEY", format!("{certificate}.key"))];
        files.into_iter().for_each(|(name, file)| {
            view.env(format!("LATSCOPE_{name}"), file);
        });
        end(&mut view, b"")
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in Network::HOSTS.iter().chain(&["hub"]) {
            line(&format!("ip netns delete {}", self.namespace(host)));
        }
    }
}

fn series(path: PathBuf) -> Histograms {
    histograms(Path::new(&path))
}

/// A hub with certificates of all hosts, and of a reader.
fn hub_in_a_network() -> Option<(Network, Background)> {
    if !installed("openssl") || !installed("ip") {
        skipped!("no openssl or no ip");
        return None;
    }
    let network = Network::new()?;
    let curve = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    network.openssl(&[format!("openssl req -x509 {curve} -days 9 -subj /CN=ca -keyout ca.key -out ca.pem")]);
    network.sign("hub", "IP:10.77.0.1");
    Network::HOSTS.iter().for_each(|host| network.sign(host, &format!("DNS:{host}")));
    network.sign("reader", "URI:latscope://read");
    let words =
        ["hub", "--listen", "0.0.0.0", "--cert", "hub.pem", "--key", "hub.key", "--ca", "ca.pem", "--data", "journal"];
    let hub = Background::new(&mut network.latscope("hub", &words));
    until("the hub", || hub.printed().contains("listening on 0.0.0.0:7790"));
    Some((network, hub))
}

/// The link of a host carries less than its agent sends: records wait in its queue while the agent takes no more memory, the host is late,
/// and when the link is wide again, nothing is missing.
#[test]
fn a_slow_link_costs_time_and_nothing_else() {
    let Some(_alone) = alone() else { return };
    let Some((network, hub)) = hub_in_a_network() else { return };
    let namespace = network.namespace("n1");
    let limit = format!("ip netns exec {namespace} tc qdisc add dev eth0 root tbf rate 24kbit burst 2k limit 8k");
    if !line(&limit) {
        skipped!("no token bucket filter");
        return;
    }
    let mut words: Vec<String> =
        ["agent", "--hub", "10.77.0.1", "--ca", "ca.pem", "--cert", "n1.pem", "--key", "n1.key"]
            .into_iter()
            .chain(["--queue", "n1.queue", "--tee", "n1.lat", "-i", "100ms", "--rate", "10"])
            .map(str::to_string)
            .collect();
    for number in 0..50 {
        let file = network.path(&format!("file{number}"));
        std::fs::write(&file, [7; 4096]).unwrap();
        words.extend(["--ping".to_string(), file]);
    }
    let agent = Background::new(&mut network.latscope("n1", &words.iter().map(String::as_str).collect::<Vec<_>>()));
    until("the agent", || hub.printed().contains("n1: connected"));
    let queue = || {
        let files = std::fs::read_dir(network.path("n1.queue")).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum::<u64>()
    };
    let resident_kib = || {
        let pid = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", agent.pid())).unwrap_or_default();
        let pid = pid.split_whitespace().next().map_or(agent.pid().to_string(), str::to_string);
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    until("a queue", || queue() > 60 << 10);
    let before = resident_kib();
    until("a longer queue", || queue() > 160 << 10);
    assert!(resident_kib() < before + (8 << 10), "{before} KiB, then {} KiB", resident_kib());
    let count = |json: String| {
        let summary: serde_json::Value = serde_json::from_str(&json).unwrap();
        summary["total"]["count"].as_u64().unwrap()
    };
    let at_hub = || count(network.view("n3", "reader", &["summary", "--json", "-r", "hub://10.77.0.1"]).success());
    let recorded = count(latscope(&["summary", "--json", "-r", &network.path("n1.lat")]).success());
    assert!(at_hub() < recorded);
    assert!(line(&format!("ip netns exec {namespace} tc qdisc delete dev eth0 root")));
    until("all of it", || at_hub() >= recorded);
    let ended = agent.interrupt();
    assert!(ended.status == Some(0) && !ended.err.contains("not stored"), "{}", ended.err);
    let by = ["-i", "100ms", "--by", "path,kind"];
    let convert = ["convert", "-r", "hub://10.77.0.1", "-w", "hub.frames"];
    network.view("n3", "reader", &[&convert, &by[..]].concat()).success();
    let (trace, folded) = (network.path("n1.lat"), network.path("folded.frames"));
    latscope(&[&["convert", "-w", &folded, "-r", &trace], &by[..]].concat()).success();
    assert_equal(&series(network.path("hub.frames").into()), &series(folded.into()));
}

/// Three hosts send what they see over TLS, one of them through a cut of its link, and one whose token is of another host is kept out:
/// what the hub has is the fold of the events of the three, bucket for bucket.
#[test]
fn a_cluster_over_a_network_has_what_its_hosts_saw() {
    let Some(_alone) = alone() else { return };
    let Some((network, hub)) = hub_in_a_network() else { return };
    let disks = ["1ms", "2ms", "3ms"].map(|delay| Disk::new(&["--read", delay, "--write", delay]));
    let agents: Vec<Background> = Network::HOSTS
        .iter()
        .zip(&disks)
        .map(|(host, disk)| {
            let (certificate, key) = (format!("{host}.pem"), format!("{host}.key"));
            network.agent(host, disk, &["--cert", &certificate, "--key", &key])
        })
        .collect();
    until("all agents", || hub.printed().matches(": connected").count() == 3);
    // Who shows the certificate of another host, or none, gets nowhere.
    let stranger =
        ["agent", "--hub", "10.77.0.1", "--ca", "ca.pem", "--for", "1s", "--queue", "n9.queue", "--name", "n9"];
    let refused =
        end(&mut network.latscope("n1", &[&stranger[..], &["--cert", "n1.pem", "--key", "n1.key"]].concat()), b"");
    assert!(refused.err.contains("is for n1, not for n9"), "{}", refused.err);
    let refused = end(&mut network.latscope("n1", &stranger), b"");
    assert!(refused.err.contains("it wants a certificate"), "{}", refused.err);
    let loads = loads(&disks);
    let hub_namespace = network.namespace("hub");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert!(line(&format!("ip -n {hub_namespace} link set n2 down")));
    until("the missing host", || hub.printed().contains("missing: n2"));
    assert!(line(&format!("ip -n {hub_namespace} link set n2 up")));
    loads.into_iter().for_each(|load| drop(load.ended().success()));
    let summary = || network.view("n3", "reader", &["summary", "-r", "hub://10.77.0.1"]);
    until("all hosts", || String::from_utf8_lossy(&summary().out).contains("3 of 3 hosts in the last closed"));
    let not_allowed = network.view("n3", "n3", &["summary", "-r", "hub://10.77.0.1"]);
    assert!(not_allowed.status == Some(3) && not_allowed.err.contains("may not read"), "{}", not_allowed.err);
    for agent in agents {
        let ended = agent.interrupt();
        assert!(ended.status == Some(0) && !ended.err.contains("not stored"), "{}", ended.err);
    }
    let by = ["-i", "500ms", "--by", "device,kind"];
    let convert = ["convert", "-r", "hub://10.77.0.1", "-w", "hub.frames"];
    network.view("n3", "reader", &[&convert, &by[..]].concat()).success();
    let traces = Network::HOSTS.map(|host| network.path(&format!("{host}.lat")));
    let files: Vec<&str> = traces.iter().flat_map(|trace| ["-r", trace]).collect();
    latscope(&[&["convert", "-w", &network.path("folded.frames")], &files[..], &by].concat()).success();
    let (merged, folded) = (series(network.path("hub.frames").into()), series(network.path("folded.frames").into()));
    let count: u64 = folded.values().map(|histogram| histogram.totals().count).sum();
    assert!(count > 300, "{count} events");
    assert_equal(&merged, &folded);
    assert!(hub.printed().contains("connected"));
}
