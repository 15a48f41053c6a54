//! Stacks of a selection, and the choice of what a capture captures.

use super::{Terminal, panel};
use crate::live::lab::{Background, Disk, alone};
use crate::program::{LATSCOPE, command, latscope, testdata};
use serde_json::Value;

#[test]
fn the_stacks_of_a_selection_are_those_that_the_program_prints() {
    let trace = testdata("flamegraph/slow_io.csv.gz").display().to_string();
    let Some(terminal) = Terminal::running(160, 40, &format!("-r {trace}")) else { return };
    terminal.drag((20, 20), (60, 34));
    let text = panel(&terminal.until("s stacks"));
    let filter = text.split("filter: ").nth(1).unwrap();
    let filter = filter[..filter.find(" events").unwrap()].rsplit_once(' ').unwrap().0.to_string();
    terminal.keys(&["s"]);
    let json: Value = serde_json::from_str(&latscope(&["stacks", "-r", &trace, "--json", &filter]).success()).unwrap();
    let (stacks, share) = (json["stacks"].as_array().unwrap(), |row: &Value| row["share"].as_f64().unwrap());
    assert!(stacks.len() > 2, "{filter}");
    let screen = terminal.until("95 % interval");
    let shown: Vec<&str> = screen.lines().filter(|line| line.contains(" % to ")).collect();
    for (row, line) in stacks.iter().zip(&shown) {
        let [low, high] = ["share_low", "share_high"].map(|key| 100.0 * row[key].as_f64().unwrap());
        let cells = format!("{:.1} %  {low:.1} % to {high:.1} %", 100.0 * share(row));
        let line = line.rsplit_once('│').unwrap().1.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(line.starts_with(&cells.replace("  ", " ")), "{cells}\n{screen}");
    }
    // By thread: the list has fields with several values only.
    terminal.keys(&["b"]);
    let list = terminal.until("Split stacks by");
    assert!(list.contains("[ ] comm") && !list.contains("] wait_class"), "{list}");
    terminal.keys(&["Space"]);
    terminal.until("[1] comm");
    terminal.keys(&["Enter"]);
    terminal.when(|screen| screen.contains("95 % interval") && screen.contains("  comm "), "a column");
    terminal.keys(&["Escape"]);
    terminal.until("s stacks");
    terminal.keys(&["q"]);
    terminal.is_clean();
}

#[test]
fn a_capture_changes_to_stacks_and_a_spot_shows_whose_code_waited() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--read", "60ms"]);
    let Some(terminal) = Terminal::open(160, 40) else { return };
    terminal.line(&format!("clear; {LATSCOPE} spectrogram -s block 'comm = dd'"));
    terminal.until("q quit");
    terminal.keys(&["a"]);
    let list = terminal.until("Capture:");
    assert!(list.contains("[x] block") && list.contains("[ ] stacks"), "{list}");
    // The scheduler times each wait, however busy the machine is.
    terminal.keys(&["Down", "Down", "Down", "Down", "Space", "Up", "Up", "Up", "Up", "Space"]);
    terminal.when(|screen| screen.contains("[x] offcpu") && screen.contains("[ ] block"), "off-CPU stacks");
    terminal.keys(&["Enter"]);
    terminal.when(|screen| screen.contains("stacks are of single events"), "a capture of stacks");
    let arguments = [&format!("if={}", disk.path), "of=/dev/null", "bs=4k", "count=40", "iflag=direct"];
    let dd = Background::new(command("dd").args(arguments));
    assert_eq!(dd.ended().status, Some(0));
    let has_cells = |screen: &str| screen.lines().skip(8).any(|line| line.contains(['▀', '▄', '█']));
    terminal.when(has_cells, "events");
    // The whole width: on a busy machine the axis ends far to the right of the reads.
    terminal.drag((12, 8), (156, 38));
    terminal.until("s stacks");
    terminal.keys(&["s"]);
    let screen = terminal.until("95 % interval");
    assert!(panel(&screen).contains("direct"), "{screen}");
    terminal.keys(&["q"]);
    terminal.is_clean();
}

#[test]
fn the_table_of_a_capture_is_live_and_its_sources_and_fields_are_chosen() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--read", "60ms"]);
    let Some(terminal) = Terminal::open(160, 40) else { return };
    let _dd =
        Background::new(command("dd").args([&format!("if={}", disk.path), "of=/dev/null", "bs=4k", "iflag=direct"]));
    terminal.line(&format!("clear; {LATSCOPE} stacks --cpu-budget 100% 'comm = dd'; echo ended $?"));
    // Of one thread that does nothing else.
    let is_of_dd = |screen: &str| screen.contains("direct read") && screen.contains(" 100.0 %  ");
    let screen = terminal.when(is_of_dd, "the reads of dd");
    assert!(screen.starts_with("latscope  -s stacks  filter: comm = dd"), "{screen}");
    let first = screen.lines().find(|line| line.starts_with("shares of")).unwrap().to_string();
    terminal.when(|screen| is_of_dd(screen) && !screen.contains(&first), "more of them");
    terminal.keys(&["Enter"]);
    terminal.until("[kernel]");
    terminal.keys(&["Enter", "a"]);
    terminal.until("[x] stacks");
    terminal.keys(&["Up", "Space"]);
    terminal
        .when(|screen| ["block", "stacks", "slow"].iter().all(|word| screen.contains(&format!("[x] {word}"))), "three");
    terminal.keys(&["Enter"]);
    terminal.until("latscope  -s block,stacks --stacks slow=50ms");
    terminal.when(is_of_dd, "the requests of dd");
    // The fields with several values, of which the kind is one now.
    let has_kind = |terminal: &Terminal| {
        terminal.keys(&["b"]);
        let list =
            terminal.when(|screen| screen.contains("Split stacks by") || screen.contains("No field has"), "a list");
        let at = list.lines().skip_while(|line| !line.starts_with("Split")).position(|line| line.contains("] kind"));
        if at.is_none() && list.contains("Split stacks by") {
            terminal.keys(&["b"]);
            terminal.without("Split stacks by");
        }
        at
    };
    let at = (0..60).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(500));
        has_kind(&terminal)
    });
    for _ in 1..at.expect("requests and waits are of two kinds") {
        terminal.keys(&["Down"]);
    }
    terminal.keys(&["Space"]);
    terminal.until("[1] kind");
    terminal.keys(&["Enter"]);
    let both = |screen: &str| {
        ["read", "wait"].iter().all(|kind| screen.lines().any(|line| line.contains(&format!("  {kind}  "))))
    };
    let screen = terminal.when(|screen| screen.contains("  kind  ") && both(screen), "a row of each kind");
    assert!(screen.lines().next().unwrap().contains("--by kind"), "{screen}");
    terminal.keys(&["/"]);
    terminal.typed(" and kind = wait");
    terminal.keys(&["Enter"]);
    terminal.when(|screen| screen.contains("direct read") && !both(screen), "waits only");
    terminal.keys(&["n"]);
    terminal.until("This key is for the map");
    terminal.keys(&["S"]);
    terminal.until("event mode");
    terminal.keys(&["S"]);
    terminal.until("95 % interval");
    terminal.keys(&["Q"]);
    let left = terminal.until("ended 0");
    assert!(left.contains("direct read"), "{left}");
    terminal.is_clean();
}
