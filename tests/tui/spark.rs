//! The screen of a Spark application that runs, of what a driver answered.

use super::Terminal;
use crate::program::LATSCOPE;
use crate::spark_live::{answered, application, serving};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_screen_has_every_executor_and_stays_when_it_ends() {
    let [is_silent, is_over] = [(); 2].map(|()| Arc::<AtomicBool>::default());
    let (silent, over) = (Arc::clone(&is_silent), Arc::clone(&is_over));
    let url = serving(move |path| match path {
        _ if over.load(Ordering::SeqCst) => Some((404, String::new())),
        // A driver that is suspended: connections are open, and nothing comes.
        _ if silent.load(Ordering::SeqCst) => {
            while silent.load(Ordering::SeqCst) {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            None
        }
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
    // What nobody says is not known, and nobody is gone.
    let screen = terminal.until("no answer from");
    let active = screen.lines().find(|line| line.starts_with("active tasks")).unwrap();
    assert!(active.contains("now - ") && screen.contains("2 executors") && !screen.contains("gone"), "{screen}");
    is_silent.store(false, Ordering::SeqCst);
    terminal.without("no answer from");
    // A key is looked for while a driver is silent.
    is_silent.store(true, Ordering::SeqCst);
    terminal.until("no answer from");
    terminal.keys(&["q"]);
    // The last screen stays above the prompt of the shell.
    let is_prompt = |screen: &str| screen.lines().any(|line| line.trim_end() == "$");
    let left = terminal.when(is_prompt, "the prompt");
    assert!(left.contains("executor 1") && left.contains("active tasks"), "{left}");
    is_silent.store(false, Ordering::SeqCst);
    terminal.line(&format!("clear; {LATSCOPE} spark -r {url} --follow -i 1s"));
    terminal.until("asking");
    is_over.store(true, Ordering::SeqCst);
    let left = terminal.when(is_prompt, "the prompt");
    assert!(left.contains("2 executors  the application has ended"), "{left}");
}
