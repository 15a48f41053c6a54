//! What is known of a log by the JSON beside it.

use super::*;

fn facts(json: &[(&str, &str)], log: &str) -> (Option<u64>, Option<u64>) {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("a banner\n{{\"fio version\": \"fio-3.33\", {text}}}\ntext behind it")).unwrap();
    };
    json.iter().for_each(|(name, text)| put(name, text));
    let Facts { hist_ms, ios, .. } = FioResults::default().facts(&folder.path().join(log));
    (hist_ms, ios)
}

const TWO: &str = r#""global options": {"log_hist_msec": "9", "log_hist_msec": "250", "write_hist_log": "out/run"}, "jobs": [
    {"jobname": "a", "read": {"total_ios": 9, "clat_ns": {"N": 7, "bins": {"1": 7}}}, "write": {"total_ios": 3}},
    {"jobname": "b", "job options": {"log_hist_msec": "100"}, "mixed": {"total_ios": 40}}]"#;

#[test]
fn a_log_has_the_number_of_its_job() {
    for (log, expect) in [
        ("run_clat_hist.1.log", (Some(250), Some(10))),
        ("run_clat_hist.2.log.gz", (Some(100), Some(40))),
        ("run_clat_hist.3.log", (None, None)),
        ("run_clat_hist.log", (None, Some(50))),
        ("b_clat_hist.1.log", (Some(250), Some(10))),
        ("other_clat_hist.1.log", (None, None)),
    ] {
        assert_eq!(facts(&[("some.json", TWO)], log), expect, "{log}");
    }
    assert_eq!(facts(&[("some.json", TWO)], "run_clat_hist.1.log.vm1"), (Some(250), None), "of some host");
    assert_eq!(facts(&[("run.json.vm2", TWO)], "run_clat_hist.1.log.vm1"), (None, None), "of another host");
    assert_eq!(facts(&[("other.json", TWO)], "other_clat_hist.1.log"), (Some(250), Some(10)), "by the name");
    assert_eq!(facts(&[("run.json", TWO), ("old.json", "\"jobs\": []")], "run_clat_hist.1.log").1, Some(10));
    let damaged = TWO.replace("[", "[1, ");
    assert_eq!(facts(&[("run.json", &damaged)], "run_clat_hist.1.log"), (None, None));
}

#[test]
fn groups_that_report_as_one_give_no_number_of_a_log() {
    let text = TWO.replace("\"write_hist_log\"", "\"group_reporting\": \"\", \"write_hist_log\"");
    assert_eq!(facts(&[("run.json", &text)], "run_clat_hist.1.log"), (None, None), "100 or 250");
    let text = text.replace("100", "250");
    assert_eq!(facts(&[("run.json", &text)], "run_clat_hist.1.log"), (Some(250), None));
    assert_eq!(facts(&[("run.json", &text)], "run_clat_hist.log"), (Some(250), Some(50)));
}

/// fio 3.33 with `group_reporting`: the option stands nowhere in the JSON.
#[test]
fn fewer_entries_than_threads_give_no_number_of_a_log() {
    let one = |numjobs: u32| {
        format!(
            r#""jobs": [{{"jobname": "a", "job options": {{"numjobs": "{numjobs}", "log_hist_msec": "50", "write_hist_log": "run"}},
            "read": {{"total_ios": 1800}}}}]"#
        )
    };
    assert_eq!(facts(&[("run.json", &one(1))], "run_clat_hist.1.log"), (Some(50), Some(1800)));
    assert_eq!(facts(&[("run.json", &one(3))], "run_clat_hist.1.log"), (Some(50), None));
    assert_eq!(facts(&[("run.json", &one(3))], "run_clat_hist.log"), (Some(50), Some(1800)), "one log for all");
    let two_logs = [("run.json", &*one(1)), ("run_clat_hist.1.log", ""), ("run_clat_hist.2.log", "")];
    assert_eq!(facts(&two_logs, "run_clat_hist.1.log"), (Some(50), None), "two jobs in one group");
    let two_hosts = [("run.json", &*one(1)), ("run_clat_hist.2.log.vm2", "")];
    assert_eq!(facts(&two_hosts, "run_clat_hist.1.log"), (Some(50), Some(1800)));
}

#[test]
fn servers_and_clients_of_pbench() {
    let job = |host: &str, port: u32, ios: u32| {
        format!(r#"{{"jobname": "a", "hostname": "{host}", "port": {port}, "read": {{"total_ios": {ios}}}}}"#)
    };
    let jobs = [job("vm2", 1, 5), job("vm1", 1, 6), job("vm1", 1, 7), job("vm3", 1, 8), job("vm3", 2, 9)].join(",");
    let sum = r#"{"jobname": "All clients", "hostname": "vm2", "read": {"total_ios": 35}}"#;
    let text = format!(
        r#""global options": {{"log_hist_msec": "50", "write_hist_log": "fio"}}, "client_stats": [{jobs}, {sum}]"#
    );
    for (log, expect) in [
        ("s/clients/vm1/fio_clat_hist.2.log", (Some(50), Some(7))),
        ("s/fio_clat_hist.1.log.vm2", (Some(50), Some(5))),
        ("s/fio_clat_hist.2.log.vm2", (Some(50), None)),
        ("s/fio_clat_hist.1.log.vm3", (Some(50), None)),
        ("s/fio_clat_hist.1.log.vm4", (None, None)),
        ("s/fio_clat_hist.1.log", (None, None)),
    ] {
        assert_eq!(facts(&[("s/fio-result.txt", &text)], log), expect, "{log}");
    }
}

/// What was read before is kept for what is read together, and counts no more for what is read later.
#[test]
fn a_file_that_changes_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("run_clat_hist.1.log");
    let first = FioResults::default();
    for ios in [5, 61, 700] {
        let text =
            format!(r#"{{"fio version": "fio-3.33", "jobs": [{{"jobname": "run", "read": {{"total_ios": {ios}}}}}]}}"#);
        fs::write(folder.path().join("run.json"), format!("{text} {text}")).unwrap();
        assert_eq!((FioResults::default().facts(&log).ios, first.clone().facts(&log).ios), (Some(ios), Some(5)));
    }
}
