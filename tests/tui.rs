//! The interactive spectrogram in a real terminal: tmux holds one, types into it and returns what it shows.

mod different;
mod spark;
mod stacks;
mod waiting;

use crate::program::{LATSCOPE, is_root, latscope, testdata};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A terminal with a shell in it.
struct Terminal {
    socket: String,
    folder: tempfile::TempDir,
}

impl Terminal {
    /// `None` where there is no tmux, with the reason printed.
    fn open(columns: usize, rows: usize) -> Option<Terminal> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let socket = format!("latscope-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let terminal = Terminal { socket, folder: tempfile::tempdir().unwrap() };
        let shell = "env PS1='$ ' COLORTERM=truecolor TERM=screen-256color HISTFILE= bash --norc --noprofile -i";
        let size = [columns.to_string(), rows.to_string()];
        let started = Command::new("tmux")
            .args([
                "-L",
                &terminal.socket,
                "-f",
                "/dev/null",
                "new-session",
                "-d",
                "-x",
                &size[0],
                "-y",
                &size[1],
                shell,
            ])
            .current_dir(terminal.folder.path())
            .env_remove("TMUX")
            .env_remove("NO_COLOR")
            .status();
        if !started.is_ok_and(|status| status.success()) {
            skipped!("tmux is not here or cannot start a session");
            return None;
        }
        terminal.until("$");
        Some(terminal)
    }

    /// Opens a terminal and starts the program in it.
    fn running(columns: usize, rows: usize, arguments: &str) -> Option<Terminal> {
        let terminal = Terminal::open(columns, rows)?;
        terminal.line(&format!("clear; {LATSCOPE} spectrogram {arguments}"));
        terminal.until("▀");
        Some(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let out = Command::new("tmux").args(["-L", &self.socket]).args(arguments).output().unwrap();
        assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    fn typed(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    /// A line for the shell.
    fn line(&self, text: &str) {
        self.typed(text);
        self.keys(&["Enter"]);
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen is as wanted.
    #[track_caller]
    fn when(&self, wanted: impl Fn(&str) -> bool, what: &str) -> String {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let screen = self.screen();
            if wanted(&screen) {
                return screen;
            }
            assert!(Instant::now() < end, "{what} never came:\n{screen}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    #[track_caller]
    fn until(&self, text: &str) -> String {
        self.when(|screen| screen.contains(text), text)
    }

    #[track_caller]
    fn without(&self, text: &str) -> String {
        self.when(|screen| !screen.contains(text), &format!("the end of {text}"))
    }

    /// A drag of the left button between two cells, counted from 1.
    fn drag(&self, from: (usize, usize), to: (usize, usize)) {
        self.typed(&format!("\x1b[<0;{};{}M", from.0, from.1));
        self.typed(&format!("\x1b[<32;{};{}M", to.0, to.1));
        self.typed(&format!("\x1b[<0;{};{}m", to.0, to.1));
    }

    /// The process that the shell waits for.
    fn child(&self) -> String {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", shell.trim())).unwrap();
        children.split_whitespace().last().expect("the program runs").to_string()
    }

    /// The terminal is as the shell left it: main screen, cursor shown, no mouse, lines edited and echoed.
    #[track_caller]
    fn is_clean(&self) {
        let modes = "#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{mouse_sgr_flag} #{wrap_flag}";
        let modes = || self.tmux(&["display-message", "-p", modes]).trim().to_string();
        // The program may still be on its way out.
        self.when(|_| modes() == "0 1 0 0 1", "a clean terminal");
        // Readline sets its own modes at the prompt; a child sees those of the terminal.
        self.line("clear; stty -a | tr ' ;' '\\n\\n' | grep -xE -- '-?(echo|icanon|isig|opost|icrnl)' | sort | tr '\\n' ' '; echo E''ND");
        let screen = self.until(" END");
        let modes = screen.lines().find(|line| line.contains(" END")).unwrap_or_default();
        assert_eq!(modes.trim(), "echo icanon icrnl isig opost END");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-L", &self.socket, "kill-server"]).output();
    }
}

fn story() -> String {
    testdata("perf_script/story_2s.txt.gz").display().to_string()
}

/// The text of the panel, without its frame, as one line.
fn panel(screen: &str) -> String {
    let inside = |line: &str| line.rsplit_once('│').map(|(_, text)| text.trim().to_string());
    screen.lines().filter_map(inside).collect::<Vec<_>>().join(" ")
}

/// The number before `events` in a text.
fn events_in(text: &str) -> u64 {
    let before = text.split(" event").next().unwrap();
    before.split_whitespace().last().unwrap().replace(',', "").parse().expect(text)
}

/// How many events a filter selects from a file.
fn selected(file: &str, filter: &str) -> u64 {
    latscope(&["events", "-r", file, "--csv", filter]).success().lines().count() as u64 - 1
}

#[test]
fn a_drag_digs_and_its_filter_selects_the_same_events() {
    let Some(terminal) = Terminal::running(120, 40, &format!("-r {}", story())) else { return };
    terminal.drag((30, 24), (95, 32));
    let screen = terminal.until("the slowest");
    let text = panel(&screen);
    let filter = text.split("filter: ").nth(1).unwrap();
    let end = filter.find(" events").unwrap();
    let filter = filter[..end].rsplit_once(' ').unwrap().0;
    let count = events_in(&text[text.find(filter).unwrap() + filter.len()..]);
    assert!(count > 10, "{screen}");
    assert_eq!(selected(&story(), filter), count, "{filter}\n{screen}");
    for word in ["devices", "kinds", "sizes", "254:0"] {
        assert!(text.contains(word), "{word}\n{screen}");
    }
    // What the map counted is what the events say.
    let status = screen.lines().rev().find(|line| line.starts_with("selected ")).unwrap();
    assert_eq!(events_in(status.rsplit_once(": ").unwrap().1), count, "{screen}");
    terminal.keys(&["y"]);
    let command = panel(&terminal.until("latscope events -r"));
    assert!(command.contains(&format!("'{filter}'")), "{command}");
}

/// The first words of the first finding or spot of `explain`.
fn explained(arguments: &[&str]) -> String {
    let text = latscope(&[&["explain", "-r", &story()], arguments].concat()).success();
    let first = text.lines().find(|line| line.starts_with("1. ")).expect(&text);
    first.chars().take(40).collect::<String>().trim().to_string()
}

#[test]
fn enter_ranks_what_sets_a_selection_apart_as_explain_does() {
    let Some(terminal) = Terminal::running(120, 40, &format!("-r {}", story())) else { return };
    terminal.drag((30, 24), (95, 32));
    let screen = terminal.when(|screen| panel(screen).contains("1. "), "a finding");
    let text = panel(&screen);
    let filter = text.split("filter: ").nth(1).unwrap();
    let filter = filter[..filter.find(" events").unwrap()].rsplit_once(' ').unwrap().0;
    assert!(text.contains(&explained(&[filter])), "{filter}\n{screen}");
    terminal.keys(&["y"]);
    let command = panel(&terminal.until("latscope explain -r"));
    assert!(command.contains(&format!("'{filter}'")), "{command}");
    // Within a filter, which a split does not change.
    terminal.keys(&["Escape", "/"]);
    terminal.typed("device != loop3");
    terminal.keys(&["Enter"]);
    terminal.until("filter: device != loop3");
    terminal.drag((30, 24), (95, 32));
    let screen = terminal.when(|screen| panel(screen).contains("1. "), "a finding");
    let text = panel(&screen);
    let selection = text.split("(device != loop3) and ").nth(1).unwrap();
    let selection = selection[..selection.find(" events").unwrap()].rsplit_once(' ').unwrap().0;
    assert!(text.contains(&explained(&["--filter", "device != loop3", selection])), "{selection}\n{screen}");
}

#[test]
fn unusual_spots_are_walked_through() {
    let Some(terminal) = Terminal::running(120, 40, &format!("-r {}", story())) else { return };
    let first = explained(&[]);
    terminal.keys(&["n"]);
    let screen = terminal.until("spot 1 of");
    assert!(panel(&screen).contains(&first), "{first}\n{screen}");
    terminal.keys(&["N"]);
    let screen = terminal.when(|screen| !screen.contains("spot 1 of") && screen.contains("spot "), "the last spot");
    assert!(!panel(&screen).contains(&first), "{screen}");
    terminal.keys(&["n"]);
    terminal.until("spot 1 of");
    terminal.keys(&["Enter"]);
    // Its events are shown at once, and stay when what sets them apart is found.
    terminal.until("kinds      write 100");
}

/// Coarse buckets are as wide as a part of the map, which a selection takes whole.
#[test]
fn a_selection_at_a_low_precision_has_the_events_of_its_filter() {
    let Some(terminal) = Terminal::running(120, 40, &format!("-r {} --precision 2", story())) else { return };
    terminal.drag((30, 24), (95, 32));
    let screen = terminal.until("the slowest");
    let text = panel(&screen);
    let filter = text.split("filter: ").nth(1).unwrap();
    let filter = filter[..filter.find(" events").unwrap()].rsplit_once(' ').unwrap().0;
    let status = screen.lines().rev().find(|line| line.starts_with("selected ")).unwrap();
    let count = events_in(status.rsplit_once(": ").unwrap().1);
    assert!(count > 10, "{screen}");
    assert_eq!(selected(&story(), filter), count, "{filter}\n{screen}");
}

#[test]
fn a_selection_by_keys_is_saved_as_a_trace() {
    let Some(terminal) = Terminal::running(100, 30, &format!("-r {} --max 100ms", story())) else { return };
    terminal.keys(&["Up", "Up", "Up"]);
    let screen = terminal.until(" to ");
    assert!(screen.lines().last().unwrap().contains("event"), "{screen}");
    terminal.keys(&["v"]);
    for _ in 0..40 {
        terminal.keys(&["Left"]);
    }
    terminal.keys(&["Up", "Up", "v"]);
    terminal.until("selected ");
    terminal.keys(&["e"]);
    terminal.until("save as: selection-1.lat");
    terminal.keys(&["Enter"]);
    let printed = terminal.until("saved in");
    let count = events_in(printed.lines().find(|line| line.contains("saved in")).unwrap());
    assert!(count > 10, "{printed}");
    let saved = terminal.folder.path().join("selection-1.lat");
    assert_eq!(selected(saved.to_str().unwrap(), "lat exists"), count);
    // A name that is taken is not written over.
    terminal.keys(&["e"]);
    terminal.until("save as: selection-2.lat");
    terminal.keys(&["BSpace", "BSpace", "BSpace", "BSpace", "BSpace", "1", ".", "l", "a", "t", "Enter"]);
    terminal.until("Cannot be written");
    assert_eq!(selected(saved.to_str().unwrap(), "lat exists"), count);
}

#[test]
fn a_wrong_filter_is_explained_and_the_old_one_stays() {
    let Some(terminal) = Terminal::running(100, 30, &format!("-r {} 'kind = read'", story())) else { return };
    terminal.until("filter: kind = read");
    terminal.keys(&["/"]);
    terminal.keys(&["C-u"]);
    terminal.typed("knd = write");
    terminal.keys(&["Enter"]);
    let screen = terminal.until("did you mean");
    assert!(screen.contains("^^^") && screen.contains("Still filtered by: kind = read"), "{screen}");
    // The line is there to be mended.
    terminal.keys(&["C-a", "Right", "i", "Enter"]);
    let screen = terminal.until("filter: kind = write");
    assert!(!screen.contains("did you mean"), "{screen}");
    terminal.keys(&["/", "C-u"]);
    terminal.typed("lat > 1h");
    terminal.keys(&["Enter"]);
    terminal.until("No event passes the filter");
}

#[test]
fn the_look_changes_by_keys() {
    let Some(terminal) = Terminal::running(120, 40, &format!("-r {}", story())) else { return };
    let axis = |screen: &str| screen.lines().find(|line| line.contains("|100us")).map(str::to_string);
    let before = terminal.until("|100us");
    terminal.keys(&["r"]);
    terminal.when(|screen| axis(screen).is_some() && axis(screen) != axis(&before), "a map without rates");
    terminal.keys(&["b"]);
    terminal.until("> nothing");
    terminal.until("pid ");
    terminal.keys(&["b", "Down", "Up", "Enter"]);
    terminal.until("by device");
    terminal.until("loop3");
    terminal.without("> device");
    terminal.keys(&["b"]);
    terminal.until("> device");
    terminal.keys(&["Escape"]);
    terminal.without("> device");
    terminal.keys(&["t"]);
    terminal.until(" 10us ");
    terminal.keys(&["w"]);
    terminal.until("time ");
    terminal.keys(&["?"]);
    terminal.until("Shift-Up");
    terminal.keys(&["Escape"]);
    terminal.without("Shift-Up");
    let before = terminal.until("every ");
    let every = |screen: &str| screen.split("every ").nth(1).unwrap().split(' ').next().unwrap().to_string();
    terminal.keys(&["+"]);
    let after = terminal.when(|screen| every(screen) != every(&before), "a shorter interval");
    terminal.keys(&["Escape"]);
    terminal.when(|screen| every(screen) == every(&before), &format!("the interval before {}", every(&after)));
    terminal.keys(&["Space"]);
    terminal.until("PAUSED");
}

#[test]
fn every_size_is_filled_and_none_is_left() {
    let Some(terminal) = Terminal::running(120, 40, &format!("-r {}", story())) else { return };
    for (columns, rows) in [(80, 24), (200, 60), (40, 10), (20, 5), (1, 1), (120, 40)] {
        terminal.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
        let filled = |screen: &str| {
            let last = screen.lines().last().unwrap_or_default();
            screen.lines().count() == rows && screen.starts_with("latscope ") && last.starts_with("? help")
        };
        terminal.when(|screen| columns < 40 || filled(screen), &format!("{columns}x{rows}"));
    }
}

#[test]
fn the_terminal_is_given_back_whatever_ends_it() {
    let Some(terminal) = Terminal::running(100, 30, &format!("-r {}", story())) else { return };
    let start = format!("{LATSCOPE} spectrogram -r {}", story());
    let again = |status: &str| {
        terminal.line(&format!("clear; {start}; echo ended $?"));
        terminal.until("? help");
        status.to_string()
    };
    terminal.keys(&["q"]);
    terminal.without("? help");
    terminal.is_clean();
    for (signal, status) in [("TERM", "ended 143"), ("HUP", "ended 129"), ("QUIT", "ended 131"), ("INT", "ended 130")] {
        let status = again(status);
        let killed = Command::new("kill").args([&format!("-{signal}"), &terminal.child()]).status().unwrap();
        assert!(killed.success());
        if signal == "INT" {
            // A shell that sees its command killed by SIGINT stops the line.
            terminal.without("? help");
        } else {
            terminal.until(&status);
        }
        terminal.is_clean();
    }
    again("");
    terminal.keys(&["C-z"]);
    terminal.until("Stopped");
    terminal.is_clean();
    terminal.line("fg");
    terminal.until("? help");
    terminal.keys(&["Q"]);
    let left = terminal.until("events in");
    assert!(left.contains("|100us"), "the picture stays: {left}");
    terminal.is_clean();
}

#[test]
fn rows_where_nobody_sits_or_plain_is_asked_for() {
    let rows = latscope(&["spectrogram", "-r", &story()]).success();
    assert!(rows.contains("perf script") && !rows.contains('\x1b'), "{rows}");
    let Some(terminal) = Terminal::open(100, 60) else { return };
    terminal.line(&format!("clear; {LATSCOPE} spectrogram --plain -r {}; echo ended $?", story()));
    let screen = terminal.until("ended 0");
    assert!(screen.contains("missing: 6 unpaired completions"), "{screen}");
    assert!(!Path::new("selection-1.lat").exists());
}

#[test]
fn another_split_keeps_the_history() {
    let _alone = crate::live::alone();
    if !is_root() {
        skipped!("live capture needs root");
        return;
    }
    let Some(terminal) = Terminal::open(120, 40) else { return };
    let Some(disk) = Loop::new(terminal.folder.path()) else {
        skipped!("no loop device can be made here");
        return;
    };
    let name = disk.0.trim_start_matches("/dev/").to_string();
    terminal.line(&format!("clear; {LATSCOPE} spectrogram -s block --by comm 'device = {name}'; echo ended $?"));
    let screen = terminal.when(|screen| screen.contains("event mode") || screen.contains("ended 3"), "a live capture");
    if screen.contains("ended 3") {
        skipped!("no live capture here:\n{screen}");
        return;
    }
    let rows = |screen: &str| screen.lines().filter(|line| line.contains('▀') || line.contains('▄')).count();
    let deadline = Instant::now() + Duration::from_secs(60);
    while rows(&terminal.screen()) < 6 {
        assert!(Instant::now() < deadline, "{}", terminal.screen());
        disk.read();
        std::thread::sleep(Duration::from_millis(600));
    }
    let before = rows(&terminal.screen());
    // By kind the kernel counts, by process it does not: there, and back, and to no split at all.
    for (keys, shown) in [
        (&["b", "Up", "Enter"][..], "by kind"),
        (&["b", "Down", "Enter"], "by comm"),
        (&["b", "Home", "Enter"], "histogram mode"),
    ] {
        terminal.keys(keys);
        terminal.until(shown);
        // Also after what came of the new capture.
        std::thread::sleep(Duration::from_millis(1500));
        terminal.when(|screen| rows(screen) >= before, &format!("{shown}: {before} rows"));
    }
}

/// A block device of our own.
struct Loop(String);

impl Loop {
    fn new(folder: &Path) -> Option<Loop> {
        let file = folder.join("disk");
        std::fs::write(&file, vec![7u8; 8 << 20]).unwrap();
        let out = Command::new("losetup").args(["-f", "--show"]).arg(&file).output().ok()?;
        out.status.success().then(|| Loop(String::from_utf8_lossy(&out.stdout).trim().to_string()))
    }

    /// Reads it, past the page cache.
    fn read(&self) {
        let input = format!("if={}", self.0);
        let read = Command::new("dd").args([&input, "of=/dev/null", "bs=4k", "count=500", "iflag=direct"]).output();
        assert!(read.unwrap().status.success());
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

#[test]
fn a_live_capture_is_watched_in_either_mode() {
    let _alone = crate::live::alone();
    if !is_root() {
        skipped!("live capture needs root");
        return;
    }
    let Some(terminal) = Terminal::open(120, 40) else { return };
    let Some(disk) = Loop::new(terminal.folder.path()) else {
        skipped!("no loop device can be made here");
        return;
    };
    let name = disk.0.trim_start_matches("/dev/").to_string();
    terminal.line(&format!("clear; {LATSCOPE} spectrogram -s block 'device = {name}'; echo ended $?"));
    let started = |screen: &str| screen.contains("histogram mode") || screen.contains("ended 3");
    let screen = terminal.when(started, "a live capture");
    if screen.contains("ended 3") {
        skipped!("no live capture here:\n{screen}");
        return;
    }
    // What waits for the capture to be attached reads again and again.
    let seen = |what: &dyn Fn(&str) -> bool| {
        let end = Instant::now() + Duration::from_secs(60);
        while !what(&terminal.screen()) {
            assert!(Instant::now() < end, "{}", terminal.screen());
            disk.read();
            std::thread::sleep(Duration::from_millis(300));
        }
    };
    seen(&|screen| screen.contains('▀') || screen.contains('▄'));
    terminal.drag((12, 8), (100, 39));
    terminal.until("m switches to event mode");
    let text = panel(&terminal.screen());
    assert!(text.contains(&name) && text.contains("read"), "{text}");
    assert!(text.contains("Only individual events can be compared with all others."), "{text}");
    terminal.keys(&["Escape"]);
    terminal.without("filter: (");
    terminal.keys(&["m"]);
    terminal.until("  event mode");
    // Until the capture has started and what was read is on the map.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !panel(&terminal.screen()).contains("dd ") {
        assert!(Instant::now() < deadline, "{}", terminal.screen());
        disk.read();
        std::thread::sleep(Duration::from_millis(700));
        terminal.drag((12, 8), (100, 39));
        std::thread::sleep(Duration::from_millis(500));
    }
    terminal.keys(&["Escape"]);
    terminal.without("filter: (");
    terminal.keys(&["/"]);
    terminal.typed(" and lat > 1ns");
    terminal.keys(&["Enter"]);
    // The kernel filters, too: another filter is another capture.
    terminal.until("Nothing was captured for");
    terminal.keys(&["q"]);
    terminal.until("ended 0");
    terminal.is_clean();
}
