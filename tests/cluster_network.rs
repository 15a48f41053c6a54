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

/// Three hosts send what they see over TLS, one of them through a cut of its link, and one whose token is of another host is kept out:
/// what the hub has is the fold of the events of the three, bucket for bucket.
#[test]
fn a_cluster_over_a_network_has_what_its_hosts_saw() {
    let Some(_alone) = alone() else { return };
    if !installed("openssl") || !installed("ip") {
        skipped!("no openssl or no ip");
        return;
    }
    let Some(network) = Network::new() else { return };
    let curve = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    network.openssl(&[format!("openssl req -x509 {curve} -days 9 -subj /CN=ca -keyout ca.key -out ca.pem")]);
    network.sign("hub", "IP:10.77.0.1");
    Network::HOSTS.iter().for_each(|host| network.sign(host, &format!("DNS:{host}")));
    network.sign("reader", "URI:latscope://read");
    let words =
        ["hub", "--listen", "0.0.0.0", "--cert", "hub.pem", "--key", "hub.key", "--ca", "ca.pem", "--data", "journal"];
    let hub = Background::new(&mut network.latscope("hub", &words));
    until("the hub", || hub.printed().contains("listening on 0.0.0.0:7790"));
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
