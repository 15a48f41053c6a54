//! The screen of a Spark application that runs, of what a driver answered.

use super::Terminal;
use crate::program::LATSCOPE;
use crate::spark_live::{answered, application, serving};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_screen_has_every_executor_and_stays_when_it_ends() {
    let is_silent = Arc::<AtomicBool>::default();
    let flag = Arc::clone(&is_silent);
    let url = serving(move |path| match path {
        _ if flag.load(Ordering::SeqCst) => Some((503, "garbage is collected".into())),
        "/executors" => Some((200, answered("end.executors"))),
        "/stages" => Some((200, answered("end.stages"))),
        other => application(other),
    });
    let Some(terminal) = Terminal::open(100, 40) else { return };
    terminal.line(&format!("clear; {LATSCOPE} spark -r {url} --follow -i 1s"));
    let screen = terminal.until("executor 1");
    for words in ["app-20261121011349-0000", "active tasks", "of 2 cores", "fetch wait", "executor 0", "driver"] {
        assert!(screen.contains(words), "{words}:\n{screen}");
    }
    is_silent.store(true, Ordering::SeqCst);
    terminal.until("does not answer");
    is_silent.store(false, Ordering::SeqCst);
    terminal.without("does not answer");
    terminal.keys(&["q"]);
    // The last screen stays above the prompt of the shell.
    let left = terminal.when(|screen| screen.lines().any(|line| line.trim_end() == "$"), "the prompt");
    assert!(left.contains("executor 1") && left.contains("active tasks"), "{left}");
}
