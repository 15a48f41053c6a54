//! What libbpf prints, kept for our own errors.

use libbpf_rs::{PrintLevel, set_print};
use std::collections::VecDeque;
use std::sync::Mutex;

/// The end of a verifier's log says what it did not like.
const LINES_KEPT: usize = 6;

static LINES: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// From here on libbpf prints nothing; its last lines are kept. It also forgets what was reported before.
pub fn keep() {
    set_print(Some((PrintLevel::Info, take)));
    if let Ok(mut lines) = LINES.lock() {
        lines.clear();
    }
}

fn take(_: PrintLevel, message: String) {
    let Ok(mut lines) = LINES.lock() else { return };
    for line in message.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if lines.len() == LINES_KEPT {
            lines.pop_front();
        }
        lines.push_back(line.to_owned());
    }
}

/// The last lines that libbpf would have printed, as one.
pub fn last_lines() -> String {
    LINES.lock().map(|lines| Vec::from(lines.clone()).join("; ")).unwrap_or_default()
}
