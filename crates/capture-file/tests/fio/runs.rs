//! Runs of fio, here and now, against what fio says of them.

use super::{check_rows, events, rows};
use latscope_event::{Anomaly, Clock};
use latscope_histogram::{Grid, Histogram};
use std::path::Path;

/// Runs fio here; none where it is not installed.
fn fio(folder: &Path, arguments: &[&str]) -> Option<serde_json::Value> {
    let mut command = std::process::Command::new("fio");
    command.current_dir(folder).args(["--output-format=json+", "--output=run.json"]).args(arguments);
    match command.output() {
        Ok(ended) => assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr)),
        Err(error) => {
            skipped!("fio cannot be run: {error}");
            return None;
        }
    }
    let text = std::fs::read_to_string(folder.join("run.json")).unwrap();
    Some(serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap())
}

const JOB: [&str; 10] = [
    "--name=j",
    "--filename=data",
    "--size=4m",
    "--rw=randrw",
    "--bs=4k",
    "--ioengine=psync",
    "--runtime=2",
    "--time_based",
    "--rate_iops=400,300",
    "--write_lat_log=run",
];

/// fio says of its own run what we say of its logs: the count, and percentiles to the last digit.
#[test]
fn a_run_of_fio_agrees_with_its_own_summary() {
    let folder = tempfile::tempdir().unwrap();
    let more = ["--write_hist_log=run", "--log_hist_msec=100", "--numjobs=2", "--log_unix_epoch=1"];
    let Some(json) = fio(folder.path(), &[&JOB[..], &more].concat()) else { return };
    let (from_json, _) = rows(&folder.path().join("run.json")).unwrap();
    for (at, job) in json["jobs"].as_array().unwrap().iter().enumerate() {
        let log = folder.path().join(format!("run_clat.{}.log", at + 1));
        let (events, context) = events(&log).unwrap();
        assert_eq!(context.clock, Clock::wall());
        let (hist_rows, hist_context) = rows(&folder.path().join(format!("run_clat_hist.{}.log", at + 1))).unwrap();
        for kind in ["read", "write"] {
            let mut histogram = Histogram::new(Grid::FINE, false);
            let ours = events.iter().filter(|event| event.kind == kind);
            ours.for_each(|event| histogram.record(event.latency_ns, 0));
            assert_eq!(histogram.totals().count, job[kind]["total_ios"].as_u64().unwrap());
            check_percentiles(&histogram, &job[kind]["clat_ns"]["percentile"]);
            let mut stored = Histogram::new(Grid::FINE, false);
            from_json
                .iter()
                .filter(|row| row.groups[0] == kind)
                .skip(at)
                .take(1)
                .for_each(|row| stored.add(&row.histogram));
            assert!(stored.buckets().eq(histogram.buckets()), "the histogram of the JSON is that of the log");
            check_rows(&hist_rows, &events, kind);
        }
        assert_eq!(hist_context.tally.get(Anomaly::SummedRows), 0);
    }
}

/// fio's rule: the middle of the first bucket up to which there are as many values as the percentile asks for.
fn check_percentiles(histogram: &Histogram, percentiles: &serde_json::Value) {
    for percentile in ["50.000000", "90.000000", "95.000000", "99.000000", "99.900000"] {
        let wanted = percentile.parse::<f64>().unwrap() / 100.0 * histogram.totals().count as f64;
        let mut sum = 0;
        let (index, ..) = histogram
            .buckets()
            .find(|&(_, count, _)| {
                sum += count;
                sum as f64 >= wanted
            })
            .unwrap();
        let (lower, end) = (Grid::FINE.lower(index), Grid::FINE.upper(index) + 1);
        assert_eq!(percentiles[percentile], lower + (end - lower) / 2, "p{percentile}");
    }
}

/// Over the net fio damages its histogram logs; what we make of them is what the log of every I/O says.
#[test]
fn a_run_of_fio_over_the_net_is_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let server_at = "ip:127.0.0.9,18765";
    let server = std::process::Command::new("fio")
        .current_dir(folder.path())
        .arg(format!("--server={server_at}"))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn();
    let Ok(mut server) = server else {
        skipped!("fio cannot be run");
        return;
    };
    let options = JOB.iter().skip(1).map(|option| option.trim_start_matches("--")).collect::<Vec<_>>().join("\n");
    let job = format!("[j]\n{options}\nwrite_hist_log=run\nlog_hist_msec=100\n");
    std::fs::write(folder.path().join("j.fio"), job).unwrap();
    let client = format!("--client={server_at}");
    // The server needs a moment; until it listens, the client fails.
    let listens = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        std::net::TcpStream::connect(("127.0.0.9", 18765)).is_ok()
    });
    let json = if listens { fio(folder.path(), &[&client, "j.fio"]) } else { None };
    server.kill().unwrap();
    server.wait().unwrap();
    let Some(json) = json else {
        skipped!("the server does not listen");
        return;
    };
    let found = |kind: &str| {
        let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        files.into_iter().find(|path| path.to_str().unwrap().contains(&format!("run_{kind}.1.log."))).unwrap()
    };
    let (events, _) = events(&found("clat")).unwrap();
    let (hist_rows, context) = rows(&found("clat_hist")).unwrap();
    assert!(context.tally.get(Anomaly::SummedRows) > 10, "{:?}", context.tally);
    let job = &json["client_stats"][0];
    for kind in ["read", "write"] {
        let mut histogram = Histogram::new(Grid::FINE, false);
        events.iter().filter(|event| event.kind == kind).for_each(|event| histogram.record(event.latency_ns, 0));
        assert_eq!(histogram.totals().count, job[kind]["total_ios"].as_u64().unwrap());
        check_percentiles(&histogram, &job[kind]["clat_ns"]["percentile"]);
        check_rows(&hist_rows, &events, kind);
    }
}
