//! The list of what is in flight, and the banner, on a disk that hangs and comes back.

use super::Terminal;
use crate::live::lab::{Background, Disk, alone};
use crate::program::{LATSCOPE, command};

/// The line of the list that names the read, without its age.
fn listed(screen: &str, disk: &str) -> Option<String> {
    let list = screen.split_once("In flight now:")?.1;
    list.lines().find(|line| line.contains(disk) && line.contains("read") && line.contains("4KiB")).map(str::to_owned)
}

#[test]
fn a_hung_disk_is_listed_while_it_hangs_and_no_longer() {
    let Some(_alone) = alone() else { return };
    for mode in ["histogram", "event"] {
        let disk = Disk::new(&[]);
        let Some(terminal) = Terminal::open(110, 30) else { return };
        terminal.line(&format!("clear; {LATSCOPE} spectrogram -s block --mode {mode} '{}'", disk.filter()));
        terminal.until("q quit");
        terminal.keys(&["i"]);
        let idle = terminal.until("In flight now:");
        assert!(idle.split_once("In flight now:").unwrap().1.contains("nothing"), "{idle}");
        disk.signal("STOP");
        let arguments = [&format!("if={}", disk.path), "of=/dev/null", "bs=4k", "count=1", "skip=3", "iflag=direct"];
        let dd = Background::new(command("dd").args(arguments));
        let early = terminal.when(|screen| listed(screen, disk.name()).is_some(), "the hung read");
        let line = listed(&early, disk.name()).unwrap();
        terminal.when(|screen| listed(screen, disk.name()).is_some_and(|now| now != line), "a greater age");
        // The first line of the screen says it too.
        terminal.when(|screen| screen.lines().take(2).any(|line| line.contains("in flight at least")), "the banner");
        disk.signal("CONT");
        assert_eq!(dd.ended().status, Some(0));
        terminal.when(
            |screen| screen.split_once("In flight now:").is_some_and(|(_, list)| list.contains("nothing")),
            "an empty list",
        );
        terminal.when(
            |screen| !screen.lines().take(2).any(|line| line.contains("in flight at least")),
            "the end of the banner",
        );
        terminal.keys(&["i"]);
        terminal.without("In flight now:");
        terminal.keys(&["q"]);
        terminal.is_clean();
    }
}
