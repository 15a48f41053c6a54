//! Every view, live; and what is reported to those who may not.

use super::lab::{Background, Disk, alone, fio_command};
use crate::program::{LATSCOPE, command, end, latscope};
use std::os::unix::fs::PermissionsExt;

#[test]
fn every_view_shows_what_happens() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--read", "2ms"]);
    let load = ["--ioengine=psync", "--rw=randread", "--size=64m", "--time_based", "--runtime=600"];
    let _load = Background::new(&mut fio_command(&disk, &load));
    let (device, path) = (disk.filter(), format!("fd.name = {}", disk.path));
    let live = |view: &[&str], filter: &str| latscope(&[view, &["--for", "1s", filter]].concat());

    for source in ["block", "io"] {
        let filter = if source == "block" { &device } else { &path };
        let summary = live(&["summary", "-s", source, "--by", "kind", "--json"], filter).success();
        let reads = super::lab::counts(&summary, "kind")["read"];
        assert!(reads > 10, "{summary}");
        let histogram = live(&["histogram", "-s", source], filter).success();
        assert!(histogram.contains("p50 ") && histogram.contains("█"), "{histogram}");
        let heatmap = live(&["heatmap", "-s", source], filter).success();
        assert!(heatmap.starts_with("<svg") && heatmap.contains("latency"), "{heatmap}");
        let percentiles = live(&["percentiles", "-s", source, "-i", "250ms", "--json"], filter).success();
        let lines: Vec<serde_json::Value> =
            percentiles.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(
            lines.len() >= 2 && lines.iter().any(|line| line["p50_ns"].as_u64() >= Some(2_000_000)),
            "{percentiles}"
        );
        let events = live(&["events", "-s", source, "--json"], filter).success();
        assert!(events.lines().count() > 10, "{events}");
        // The first may have been created before there was a capture.
        assert_eq!(events.lines().skip(1).find(|line| !line.contains(r#""comm":"fio""#)), None);
        let spectrogram = live(&["spectrogram", "-s", source, "-i", "250ms"], filter).success();
        // A row an interval, with its 99th percentile behind the rate: of few events, and raised where one waited.
        let p99 = |line: &str| {
            line.rsplit_once("/s ").map(|(_, rest)| rest.split_whitespace().next().unwrap_or("").to_owned())
        };
        let is_long = |p99: &String| p99.trim_end_matches('?').ends_with("ms");
        let rows = spectrogram.lines().filter_map(p99).filter(is_long).count();
        assert!(rows >= 2, "{spectrogram}");
    }
    // Without a filter, counted in the kernel.
    for source in ["block", "io", "syscall"] {
        for mode in ["auto", "event"] {
            let summary = latscope(&["summary", "-s", source, "--mode", mode, "--for", "1s", "--by", "kind", "--json"]);
            assert!(super::lab::counts(&summary.success(), "kind")["read"] > 10);
        }
    }
}

#[test]
fn without_rights_there_is_one_sentence() {
    let Some(_alone) = alone() else { return };
    // Where anybody may run it.
    let folder = tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o755)).tempdir().unwrap();
    let program = folder.path().join("latscope");
    std::fs::copy(LATSCOPE, &program).unwrap();
    for source in ["block", "io", "syscall"] {
        for view in ["summary", "heatmap", "histogram", "percentiles", "events", "spectrogram"] {
            let mut nobody = command("setpriv");
            nobody.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"]).arg(&program);
            let ended = end(nobody.args([view, "-s", source, "--for", "1s"]), b"");
            assert!(ended.out.is_empty());
            let printed = ended.failure(3);
            assert_eq!(printed.lines().count(), 1, "{printed}");
            for word in ["root", "CAP_BPF", "CAP_PERFMON", "ping", "-r"] {
                assert!(printed.contains(word), "{printed}");
            }
        }
    }
}
