//! The selection as a command line, for another terminal.

use crate::plan::quoted;
use base64::prelude::{BASE64_STANDARD, Engine};

/// The command that lists the events which the filter selects, of what the other words read.
pub fn events(words: &[String], filter: &str) -> String {
    format!("{} {}", words.join(" "), quoted(filter))
}

/// The command that explains the events which `selection` selects among those that `within` lets through.
pub fn explain(words: &[String], within: &str, selection: &str) -> String {
    let mut words: Vec<String> =
        words.iter().map(|word| if word == "events" { "explain" } else { word }.into()).collect();
    if !within.trim().is_empty() {
        words.extend(["--filter".into(), quoted(within.trim())]);
    }
    events(&words, selection)
}

/// The sequence (OSC 52) that asks a terminal to put text into the clipboard.
pub fn clipboard(text: &str) -> String {
    format!("\x1b]52;c;{}\x1b\\", BASE64_STANDARD.encode(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clipboard_gets_base64() {
        for (text, encoded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(clipboard(text), format!("\x1b]52;c;{encoded}\x1b\\"));
        }
    }
}
