//! Starts of jobs from results of every kind.

use super::*;
use std::fs;

const MS: i64 = 1_000_000;

fn starts(json: &[(&str, &str)], logs: &[&str]) -> Vec<Option<i64>> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in json {
        fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
        fs::write(folder.path().join(name), text).unwrap();
    }
    let files: Vec<_> = logs.iter().map(|log| folder.path().join(log)).collect();
    let known = |start: JobStart| (start.trust == Trust::Known).then_some(start.ns? / MS);
    job_starts(&files, &FioResults::default()).into_iter().map(|start| start.and_then(known)).collect()
}

fn job(members: &str) -> String {
    format!("warning\n{{\"fio version\": \"fio-3.42\", {members}}}\nrun: bye")
}

#[test]
fn servers_are_known_by_their_name_and_not_by_their_place() {
    let json = job(r#""client_stats": [
        {"jobname": "a", "hostname": "vm2", "job_start": 1526}, {"jobname": "a", "hostname": "vm1", "job_start": 1442},
        {"jobname": "a", "hostname": "vm1", "job_start": 1443}, {"jobname": "All clients", "hostname": "vm2"}]"#);
    let logs = ["a_clat.1.log.vm1", "a_clat_hist.2.log.vm1", "a_clat.1.log.vm2", "a_clat.2.log.vm2", "a_clat.1.log.x"];
    assert_eq!(starts(&[("run.json", &json)], &logs), [Some(1442), Some(1443), Some(1526), None, None]);
}

#[test]
fn groups_that_report_as_one() {
    let json = job(r#""global options": {"group_reporting": "1", "numjobs": "2"}, "jobs": [
        {"jobname": "a", "job_start": 10}, {"jobname": "b", "job_start": 20, "job options": {"numjobs": "1"}}]"#);
    let logs = ["x_clat.1.log", "x_clat.2.log", "x_clat.3.log", "x_clat.4.log", "x_clat.log", "other"];
    assert_eq!(starts(&[("x.json", &json)], &logs), [Some(10), Some(10), Some(20), None, Some(10), None]);
}

#[test]
fn results_called_like_their_log() {
    let of = |start: u32| job(&format!(r#""jobs": [{{"jobname": "v", "job_start": {start}}}]"#));
    let files = [
        ("output.0.vm1", of(1)),
        ("output.0.vm2", of(2)),
        ("json_output.1.vm1", of(3)),
        ("clients/vm3/run.json", of(4)),
    ];
    let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let logs = [
        "output.0_clat.1.log.vm1",
        "output.0_clat.1.log.vm2",
        "output.1_clat.1.log.vm1",
        "output.1_clat.1.log.vm2",
        "clients/vm3/run_clat.1.log",
    ];
    assert_eq!(starts(&files, &logs), [Some(1), Some(2), Some(3), None, Some(4)]);
}

/// pbench has the results of all clients above their folders; CBT keeps those of a volume twice.
#[test]
fn results_of_other_folders_and_results_kept_twice() {
    let job_of = |host: &str, start: u32| format!(r#"{{"jobname": "a", "hostname": "{host}", "job_start": {start}}}"#);
    let of = |start: u32| job(&format!(r#""jobs": [{{"jobname": "v", "job_start": {start}}}]"#));
    let both = job(&format!(r#""client_stats": [{}, {}]"#, job_of("vm2", 7), job_of("vm1", 6)));
    let files = [
        ("s/fio-result.txt", both),
        ("output.0.vm1", of(1)),
        ("json_output.0.vm1", of(1)),
        ("output.1.vm1", of(2)),
        ("json_output.1.vm1", of(3)),
    ];
    let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let logs = [
        "s/clients/vm1/fio_clat_hist.1.log",
        "s/clients/vm2/fio_clat_hist.1.log.vm2",
        "s/clients/vm3/fio_clat_hist.1.log",
        "output.0_clat.1.log.vm1",
        "output.1_clat.1.log.vm1",
    ];
    assert_eq!(starts(&files, &logs), [Some(6), Some(7), None, Some(1), None]);
}

#[test]
fn two_that_contradict_give_nothing() {
    let json = job(r#""client_stats": [{"jobname": "a", "hostname": "vm1", "job_start": 5}]"#);
    assert_eq!(starts(&[("1.json", &json), ("2.json", &json)], &["a_clat.1.log.vm1"]), [None]);
    assert_eq!(starts(&[("1.json", "{\"fio version\": damaged")], &["a_clat.1.log"]), [None]);
}

/// The start of each log (milliseconds) and how far it can be relied upon, of logs that lie beside this JSON.
fn starts_and_trust(json: &str, logs: &[&str]) -> Vec<(Option<i64>, Trust)> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("run.json"), job(json)).unwrap();
    let files: Vec<_> = logs.iter().map(|log| folder.path().join(log)).collect();
    files.iter().for_each(|file| fs::write(file, "0, 1, 0, 1\n").unwrap());
    let starts = job_starts(&files, &FioResults::default()).into_iter().map(Option::unwrap);
    starts.map(|start| (start.ns.map(|ns| ns / MS), start.trust)).collect()
}

const LOGS: [&str; 5] = ["run_clat.1.log", "run_clat.2.log", "run_clat.3.log", "run_clat_hist.4.log", "run_lat.5.log"];

/// fio 3.33 and 3.36 do not record group_reporting, and the options of a group are those of any of its jobs.
#[test]
fn the_threads_of_a_group_that_does_not_say_that_it_is_one() {
    let two = |sums: [u32; 2], asked: [u32; 2]| {
        format!(
            r#""global options": {{"numjobs": "2"}}, "jobs": [
            {{"jobname": "a", "groupid": 0, "job_start": 10, "job_runtime": {}, "read": {{"runtime": 2002}},
              "job options": {{"numjobs": "{}"}}}},
            {{"jobname": "b", "groupid": 1, "job_start": 9000, "job_runtime": {}, "write": {{"runtime": 2001}},
              "job options": {{"numjobs": "{}"}}}}]"#,
            sums[0], asked[0], sums[1], asked[1]
        )
    };
    let (a, b) = ((Some(10), Trust::Known), (Some(9000), Trust::Known));
    let unknown = (Some(10), Trust::Assumed);
    assert_eq!(starts_and_trust(&two([4001, 4000], [2, 2]), &LOGS[..4]), [a, a, b, b]);
    // A job of one thread and one of two in the first group: their run times show which.
    assert_eq!(starts_and_trust(&two([6003, 4001], [1, 2]), &LOGS), [a, a, a, b, b]);
    // Three threads in two groups, of which it is not known who is where.
    assert_eq!(starts_and_trust(&two([2002, 2001], [1, 1]), &LOGS[..3]), [a, unknown, unknown]);
    assert_eq!(starts_and_trust(&two([2002, 2001], [1, 1]), &LOGS[..2]), [a, b]);
    // Some of the logs of a run.
    assert_eq!(starts_and_trust(&two([4001, 4000], [2, 2]), &LOGS[..2]), [a, a]);
    assert_eq!(starts_and_trust(&two([6003, 4000], [2, 2]), &LOGS[..3]), [a, unknown, unknown]);
}

#[test]
fn one_group_is_the_start_of_all_its_threads() {
    let one = r#""jobs": [{"jobname": "a", "job_start": 70, "job options": {"numjobs": "2"}}]"#;
    assert_eq!(starts_and_trust(one, &LOGS[..2]), [(Some(70), Trust::Known); 2]);
    assert_eq!(starts_and_trust(one, &LOGS[..3])[1..], [(Some(70), Trust::Assumed); 2]);
    let apart = r#""jobs": [{"jobname": "a", "job_start": 70}, {"jobname": "b", "job_start": 5070}]"#;
    assert_eq!(starts_and_trust(apart, &["run_clat.log"]), [(Some(70), Trust::Assumed)]);
}

#[test]
fn before_3_36_the_start_is_the_end_less_the_run_time() {
    let run = |jobs: &str| format!(r#""timestamp": 50, "timestamp_ms": 50400, "jobs": [{jobs}]"#);
    let job = |group: u32, sum: u32, longest: u32| {
        format!(r#"{{"jobname": "a", "groupid": {group}, "job_runtime": {sum}, "read": {{"runtime": {longest}}}}}"#)
    };
    let estimated = |ms| (Some(ms), Trust::Estimated);
    assert_eq!(starts_and_trust(&run(&job(0, 3000, 3001)), &LOGS[..1]), [estimated(47_400)]);
    // Jobs of a group start together, and its run time is the longest of theirs, not the sum.
    let both = run(&format!("{}, {}", job(0, 1000, 1000), job(0, 9000, 3000)));
    assert_eq!(starts_and_trust(&both, &LOGS[..2]), [estimated(47_400); 2]);
    // How long before the end an earlier group ended is not given.
    let groups = run(&format!("{}, {}", job(0, 1000, 1000), job(1, 3000, 3000)));
    assert_eq!(starts_and_trust(&groups, &LOGS[..2]), [(Some(47_400), Trust::Assumed), estimated(47_400)]);
    let seconds = r#""timestamp": 50, "jobs": [{"jobname": "a", "job_runtime": 3000}]"#;
    assert_eq!(starts_and_trust(seconds, &LOGS[..1]), [estimated(47_000)]);
    assert_eq!(
        starts_and_trust(r#""jobs": [{"jobname": "a", "job_runtime": 3000}]"#, &LOGS[..1]),
        [(None, Trust::Assumed)]
    );
}

#[test]
fn results_of_all_clients_stand_beside_their_folders_or_above() {
    let both = job(r#""client_stats": [{"jobname": "a", "hostname": "vm1", "job_start": 6}]"#);
    for name in ["s/clients/fio-result.txt", "s/fio-result.txt"] {
        assert_eq!(starts(&[(name, &both)], &["s/clients/vm1/fio_clat_hist.1.log"]), [Some(6)], "{name}");
    }
}

#[test]
fn another_clock_is_known_by_the_options() {
    let other = |options: &str| {
        let folder = tempfile::tempdir().unwrap();
        let json = job(&format!(r#""jobs": [{{"jobname": "a", "job_start": 5, "job options": {{{options}}}}}]"#));
        fs::write(folder.path().join("a.json"), json).unwrap();
        job_starts(&[folder.path().join("a_clat.1.log")], &FioResults::default())[0].unwrap().other_epoch
    };
    assert!(other(r#""log_alternate_epoch": "1", "log_alternate_epoch_clock_id": "1""#));
    assert!(!other(r#""log_alternate_epoch": "1", "log_alternate_epoch_clock_id": "0""#));
    assert!(!other(r#""log_alternate_epoch": "1""#) && !other(r#""log_alternate_epoch_clock_id": "1""#));
}

#[test]
fn results_of_another_host_or_of_other_logs_are_not_taken() {
    let of =
        |options: &str| job(&format!(r#""jobs": [{{"jobname": "v", "job_start": 7, "job options": {{{options}}}}}]"#));
    let log = ["run_clat.1.log.vm1"];
    assert_eq!(starts(&[("json_output.0.vm2", &of(""))], &log), [None]);
    assert_eq!(starts(&[("x.json.vm2", &of(""))], &log), [None]);
    assert_eq!(starts(&[("run.json.vm2", &of("")), ("run.json.vm1", &of(""))], &log), [Some(7)]);
    assert_eq!(starts(&[("x.json", &of(""))], &log), [Some(7)]);
    assert_eq!(starts(&[("x.json", &of(r#""write_lat_log": "/tmp/other""#))], &log), [None]);
    let named = of(r#""write_hist_log": "/tmp/run""#);
    assert_eq!(starts(&[("x.json", &named), ("y.json", &of(""))], &log), [Some(7)]);
}

#[test]
fn times_since_1970() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).unwrap();
        counts_from_1970(&folder.path().join(name))
    };
    assert_eq!(of("a_clat.1.log", "1795298279145, 5, 0, 4096\n"), Some(true));
    assert_eq!(of("a_clat.1.log", "24084458, 5, 0, 4096\n"), Some(false));
    assert_eq!((of("a_clat.1.log", ""), of("a_clat.1.log", "x"), of("a.txt", "5")), (Some(false), None, None));
}
