//! What others chose, names of commands, files and targets, never drives the terminal that it is shown on.

use crate::program::{LATSCOPE, command, end, latscope, latscope_with};
use std::path::Path;

/// A name, as short as that of a command, that sets the title of a terminal, rings its bell, starts a C1 sequence, and turns the direction of text.
const HOSTILE: &str = "x\u{1b}]\u{7}\u{9b}\u{7f}\u{202e}\u{2066}y";
/// What of it a terminal would obey; a name that is shown has none of it.
const OBEYED: [&str; 6] = ["\u{1b}]", "\u{7}", "\u{9b}", "\u{7f}", "\u{202e}", "\u{2066}"];

/// Requests of processes of these names, a second apart.
fn requests(names: &[&str]) -> String {
    let request = |(at, name): (usize, &&str)| {
        format!(
            "{name} 71 [000] {at}.000100: block:block_rq_issue: 8,0 R 4096 () 2048 + 8 [{name}]\n\
             {name} 71 [000] {at}.000350: block:block_rq_complete: 8,0 R () 2048 + 8 [0]\n"
        )
    };
    names.iter().enumerate().map(request).collect()
}

/// What the program sends to a terminal that is its standard output and its standard error.
fn on_a_terminal(folder: &Path, arguments: &[&str], typed: &[u8]) -> Option<String> {
    let words = arguments.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let file = folder.join("typescript");
    let line = format!("cd '{}'; '{LATSCOPE}' {words}", folder.display());
    if command("script").arg("--version").output().is_err() {
        skipped!("script is not here");
        return None;
    }
    // The terminal of the session has a size, so that views are drawn.
    let line = format!("stty cols 120 rows 30; {line}");
    end(command("script").args(["-qec", &line]).arg(&file).env("TERM", "xterm-256color"), typed);
    Some(String::from_utf8_lossy(&std::fs::read(file).unwrap()).into_owned())
}

#[track_caller]
fn has_nothing_to_obey(what: &str, text: &str) {
    // The header of script repeats the command.
    let text = text.split_once('\n').map_or(text, |(_, rest)| rest);
    for obeyed in OBEYED {
        assert!(!text.contains(obeyed), "{what}: {obeyed:?} in {text:?}");
    }
}

#[test]
fn names_do_not_drive_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let trace = format!("{HOSTILE}.txt");
    std::fs::write(folder.path().join(&trace), requests(&[HOSTILE, HOSTILE, HOSTILE])).unwrap();
    let missing = format!("{HOSTILE}.none");
    for arguments in [
        &["events", "-r", &trace][..],
        &["events", "--csv", "-r", &trace],
        &["events", "--json", "-r", &trace],
        &["summary", "--by", "comm", "-r", &trace],
        &["summary", "--csv", "--by", "comm", "-r", &trace],
        &["summary", "-i", "1s", "--by", "comm", "-r", &trace],
        &["histogram", "--by", "comm", "-r", &trace],
        &["percentiles", "--by", "comm", "-r", &trace],
        &["percentiles", "--csv", "--by", "comm", "-r", &trace],
        &["heatmap", "--by", "comm", "--title", HOSTILE, "-r", &trace, "-o", "-"],
        &["spectrogram", "--plain", "--by", "comm", "-r", &trace],
        &["compare", &trace, &trace],
        &["convert", "-r", &trace, "-w", "-"],
        &["summary", "-r", &missing],
        &["summary", "-r", &trace, "-r", &trace],
        &["summary", "-r", &trace, HOSTILE],
        &["summary", "-r", &trace, &format!("comm = \"{HOSTILE}\" and lat > 9s")],
        &["summary", "--explain-filter", "-r", &trace, &format!("comm = \"{HOSTILE}\"")],
        &[HOSTILE],
        &["summary", &format!("--{HOSTILE}")],
        &["heatmap", "--weight", HOSTILE],
        &["ping", "-c", "1", HOSTILE],
        &["lab", HOSTILE],
    ] {
        let Some(text) = on_a_terminal(folder.path(), arguments, b"") else { return };
        has_nothing_to_obey(&format!("{arguments:?}"), &text);
    }
}

#[test]
fn names_do_not_drive_the_interactive_screen() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t"), requests(&[HOSTILE; 20])).unwrap();
    // Split by command, the slowest events, and out.
    let Some(text) = on_a_terminal(folder.path(), &["spectrogram", "--by", "comm", "-r", "t"], b"\r\rqq") else {
        return;
    };
    // It has to have been shown at all.
    assert!(text.contains("\u{1b}[?1049h"), "{text:?}");
    for obeyed in OBEYED {
        assert!(!text.contains(obeyed), "{obeyed:?} in {text:?}");
    }
}

#[test]
fn messages_are_safe_wherever_they_go() {
    let missing = format!("{HOSTILE}.none");
    for arguments in [&["summary", "-r", &missing][..], &[HOSTILE], &["ping", "-c", "1", HOSTILE]] {
        has_nothing_to_obey("message", &format!("\n{}", latscope(arguments).err));
    }
}

#[test]
fn in_a_pipe_csv_keeps_the_data_and_json_escapes_it() {
    let names = [HOSTILE, "=cmd()", "@sum", "'quoted"];
    let text = requests(&names);
    let csv = latscope_with(&["events", "--csv", "--columns", "comm,latency_ns", "-r", "-"], text.as_bytes()).success();
    let cells: Vec<_> = csv.lines().skip(1).collect();
    assert_eq!(cells, [&format!("{HOSTILE},250000"), "'=cmd(),250000", "'@sum,250000", "''quoted,250000"]);
    for verb in ["events", "summary", "percentiles"] {
        let arguments = [verb, "--json", "-r", "-"];
        let by = ["--by", "comm"];
        let arguments = if verb == "events" { arguments.to_vec() } else { [&arguments[..], &by].concat() };
        let json = latscope_with(&arguments, text.as_bytes()).success();
        has_nothing_to_obey(verb, &format!("\n{json}"));
        let values = json.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let groups = values.flat_map(|value| value["groups"].as_array().cloned().unwrap_or_else(|| vec![value]));
        assert!(groups.into_iter().any(|group| group["comm"] == HOSTILE), "{verb}: {json}");
    }
}
