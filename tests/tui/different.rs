//! Which host is different, on the screen: what `summary --different` prints.

use super::Terminal;
use crate::exports::Hub;
use crate::hub_page::Agents;
use crate::program::latscope;

#[test]
fn d_shows_which_host_is_different() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Hub::start(folder.path(), &[]);
    let agents = Agents::connect(&hub);
    let input = format!("hub+unix:{}", folder.path().join("hub.sock").display());
    let words = ["summary", "-r", &input, "--by", "host", "--different"];
    let Some(terminal) = Terminal::running(150, 40, &format!("-r {input}")) else { return };
    // The menu knows the fields of the hub only when it was asked.
    terminal.when(
        |_| {
            terminal.keys(&["b"]);
            let screen = terminal.screen();
            terminal.keys(&["Escape"]);
            screen.contains("host")
        },
        "the fields",
    );
    terminal.keys(&["d"]);
    let screen = terminal.until("spread of p50");
    let printed = latscope(&words).success();
    assert!(printed.lines().count() == 8 && printed.lines().nth(2).unwrap().starts_with("n3 "), "{printed}");
    for line in printed.lines() {
        assert!(screen.contains(line), "{line}\n{screen}");
    }
    // Within each group of the split, too.
    terminal.keys(&["d"]);
    terminal.without("spread of p50");
    terminal.keys(&["b", "Down", "Enter"]);
    terminal.until("by device");
    terminal.keys(&["d"]);
    let screen = terminal.until("device = sdb, slow: from");
    assert!(screen.contains("device = sda, slow: from"), "{screen}");
    drop(agents);
}
