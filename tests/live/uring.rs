//! Requests of io_uring that name a path, held against what the program that makes them says.

use super::lab::{Background, alone, events};
use crate::program::{command, end, installed, root};
use serde_json::Value;

#[test]
fn requests_of_io_uring_that_name_a_path_have_it() {
    let Some(_alone) = alone() else { return };
    if !installed("python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("made here");
    std::fs::create_dir(&inside).unwrap();
    let trace = folder.path().join("t.lat");
    let filter = format!("fd.name startswith '{}/' and name startswith io_uring_", inside.display());
    let record = Background::latscope(&["record", "-s", "io", "-w", trace.to_str().unwrap(), &filter]);
    let one = format!("{filter} and fd.filename = 'new file' and evt.type = io_uring_renameat");
    let renamed = Background::latscope(&["summary", "-s", "io", "--json", "--by", "path", &one]);
    let made = end(command("python3").arg("-S").arg(root().join("tests/live/uring.py")).arg(&inside), b"");
    if made.status == Some(3) {
        return skipped!("io_uring: {}", made.success());
    }
    let printed: Vec<Value> = made.success().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(printed.len(), 12);
    record.interrupt().success();
    let rows = events(&trace, "name,path,error,fd,fd_type", "name != io_uring_close");
    let reported: Vec<Value> = rows
        .iter()
        .map(|row| {
            let name = row["name"].as_str().unwrap().trim_start_matches("io_uring_").to_owned();
            serde_json::json!([name, row["path"], row.get("error").is_some()])
        })
        .collect();
    assert_eq!(reported, printed);
    // What was opened has the type and the descriptor that the system call would have.
    for row in rows.iter().filter(|row| row["name"].as_str().unwrap().contains("openat")) {
        let opened = row.get("error").is_none();
        assert_eq!((row.get("fd").is_some(), row.get("fd_type").is_some()), (opened, opened), "{row}");
    }
    let counted = super::lab::counts(&renamed.interrupt().success(), "path");
    assert_eq!(counted, [(format!("{}/inside/new file", inside.display()), 1)].into());
}
