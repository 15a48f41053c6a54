//! What the files of system calls are called, held against what the program that made the calls says.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, missing_docs)]

#[macro_use]
#[path = "../../../tests/skip.rs"]
mod skip;

use latscope_capture_bpf::{Error, EventCapture, Options, PushDown, Source};
use latscope_event::{Anomaly, Batch, Context, Field, FieldSet};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A call and the path of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Call {
    name: String,
    path: Option<String>,
}

/// An event, as these tests look at it.
struct Row {
    pid: i64,
    tid: i64,
    result: i64,
    call: Call,
}

fn rows(batch: &Batch) -> Vec<Row> {
    let number = |field, at: usize| batch.i64s(field).unwrap()[at];
    let row = |at| Row {
        pid: number(Field::Pid, at),
        tid: number(Field::Tid, at),
        result: number(Field::Result, at),
        call: Call {
            name: batch.text(Field::Name, at).unwrap().to_owned(),
            path: batch.text(Field::Path, at).map(str::to_owned),
        },
    };
    (0..batch.len()).map(row).collect()
}

/// What was captured while a part of `calls.py` ran in a folder, and what it printed; `None` where it cannot be tried.
fn captured(part: &str, folder: &Path, push_down: PushDown) -> Option<(Context, Vec<Row>, String)> {
    let fields: FieldSet = [Field::Pid, Field::Tid, Field::Name, Field::Path, Field::Result].into_iter().collect();
    let options = Options { push_down, ..Options::new(Source::Io, fields) };
    let mut capture = match EventCapture::start(&options) {
        Err(error @ (Error::Rights(_) | Error::Unsupported(_))) => {
            skipped!("{error}");
            return None;
        }
        capture => capture.unwrap(),
    };
    let python = Command::new("python3")
        .args(["-S", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/names/calls.py")])
        .arg(folder)
        .arg(part)
        .stdout(Stdio::piped())
        .spawn();
    let Ok(python) = python else {
        skipped!("there is no python3");
        return None;
    };
    let worker = std::thread::spawn(|| python.wait_with_output().unwrap());
    let mut all = Vec::new();
    let mut take = |_: &Context, batch: &Batch| {
        all.extend(rows(batch));
        ControlFlow::Continue(())
    };
    while !worker.is_finished() {
        assert!(capture.poll(Duration::from_millis(20), &mut take).unwrap().is_continue());
    }
    let context = capture.finish(&mut take).unwrap();
    assert_eq!(context.tally.get(Anomaly::LostRecords), 0);
    let output = worker.join().unwrap();
    assert!(output.status.success(), "{part}");
    Some((context, all, String::from_utf8(output.stdout).unwrap()))
}

/// Machines differ in which of `rename`, `renameat` and `renameat2` there is.
fn plain(name: &str) -> String {
    name.trim_start_matches("new").trim_end_matches('2').trim_end_matches("at").to_owned()
}

/// Holds each call of a part, in order, against what it says.
fn check(part: &str) {
    let folder = tempfile::tempdir().unwrap();
    let Some((_, rows, printed)) = captured(part, folder.path(), PushDown::default()) else { return };
    let mut expected: BTreeMap<i64, Vec<Call>> = BTreeMap::new();
    for line in printed.lines() {
        let (pid, name, path): (i64, String, Option<String>) = serde_json::from_str(line).unwrap();
        expected.entry(pid).or_default().push(Call { name: plain(&name), path });
    }
    assert!(!expected.is_empty(), "{part}");
    for (pid, expected) in expected {
        let marks = |call: &Call, mark: &str| call.path.as_deref() == Some(mark);
        let of_process = rows.iter().filter(|row| row.pid == pid).map(|row| row.call.clone());
        let made: Vec<Call> = of_process
            .skip_while(|call| !marks(call, "/latscope begin"))
            .skip(1)
            .take_while(|call| !marks(call, "/latscope end"))
            .map(|call| Call { name: plain(&call.name), ..call })
            .filter(|call| expected.iter().any(|expected| expected.name == call.name))
            .collect();
        for (at, (made, expected)) in made.iter().zip(&expected).enumerate() {
            assert_eq!(made, expected, "{part}: call {at}");
        }
        assert_eq!(made.len(), expected.len(), "{part}: {made:#?}");
    }
}

#[test]
fn a_file_with_the_inode_of_an_earlier_one_has_its_own_name() {
    check("same_inode_again");
}

#[test]
fn a_renamed_file_has_the_name_of_the_moment() {
    check("temporary_then_rename");
}

#[test]
fn a_file_with_two_names_has_the_one_by_which_it_was_opened() {
    check("hard_links");
}

#[test]
fn files_in_no_directory_say_so() {
    check("nameless");
}

#[test]
fn relative_paths_start_at_their_directory_and_follow_it_when_it_is_renamed() {
    check("relative_to_a_directory");
}

#[test]
fn calls_that_take_a_path_or_change_a_file_have_it() {
    check("by_name");
}

#[test]
fn descriptors_that_were_handed_on_copied_or_given_anew_are_their_files() {
    check("handed_on");
    check("over_exec");
}

#[test]
fn what_is_handed_in_together_has_its_file_where_it_is_one() {
    check("handed_in");
}

#[test]
fn other_roots_and_mounts_and_what_is_mounted_no_more() {
    check("elsewhere");
}

#[test]
fn a_deep_path_is_whole() {
    check("deep");
}

#[test]
fn threads_that_take_turns_at_a_descriptor_never_get_each_others_names() {
    let folder = tempfile::tempdir().unwrap();
    let Some((context, rows, _)) = captured("in_threads", folder.path(), PushDown::default()) else { return };
    let of_thread = |number: i64| format!("{}/of thread {number}", folder.path().display());
    let on_files = |row: &&Row| row.call.path.as_ref().is_none_or(|path| path.contains("/of thread "));
    // A thread writes one byte more than its number.
    let writers: BTreeMap<i64, i64> = rows
        .iter()
        .filter(|row| row.call.name == "write" && (0..4).any(|number| row.call.path == Some(of_thread(number))))
        .map(|row| (row.tid, row.result - 1))
        .collect();
    assert_eq!(writers.len(), 4, "{writers:?}");
    let mut nameless = 0;
    for (&tid, &number) in &writers {
        let calls = rows.iter().filter(|row| row.tid == tid && ["openat", "write", "close"].contains(&&*row.call.name));
        let calls: Vec<&Row> = calls.filter(on_files).collect();
        assert_eq!(calls.len(), 600);
        for row in calls {
            match &row.call.path {
                Some(path) => assert_eq!(*path, of_thread(number), "{}", row.call.name),
                None => nameless += 1,
            }
        }
    }
    assert!(context.tally.get(Anomaly::PathGone) >= nameless, "{nameless}");
}

#[test]
fn a_test_in_the_kernel_leaves_names_alone() {
    let folder = tempfile::tempdir().unwrap();
    let only = PushDown { names: vec!["write".into()], ..PushDown::default() };
    let Some((_, rows, printed)) = captured("same_inode_again", folder.path(), only) else { return };
    let written: Vec<String> = printed
        .lines()
        .map(|line| serde_json::from_str::<(i64, String, Option<String>)>(line).unwrap())
        .filter(|(_, name, _)| name == "write")
        .filter_map(|(_, _, path)| path)
        .collect();
    let seen: Vec<String> = rows.iter().filter_map(|row| row.call.path.clone()).collect();
    let seen: Vec<String> = seen.into_iter().filter(|path| path.contains("one after the other")).collect();
    assert_eq!(seen, written);
    assert_eq!(seen.len(), 20);
}
