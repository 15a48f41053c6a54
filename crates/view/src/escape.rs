//! Foreign text in XML and JSON.

use latscope_event::{escape_json, is_printable};
use std::fmt::{self, Write};

/// Text as XML content or attribute value. Characters that XML 1.0 forbids show as U+FFFD.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaping(f).write_str(self.0)
    }
}

/// Escapes what is written to it, as [`Escaped`].
#[derive(Debug)]
pub struct Escaping<'a, W>(pub &'a mut W);

impl<W: Write> Write for Escaping<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // Nearly all text is ours, and has nothing to escape; without a branch for each letter.
        let is_plain = |byte: u8| {
            (byte == b'\n') | ((b' '..=b'~').contains(&byte) & !matches!(byte, b'&' | b'<' | b'>' | b'"' | b'\''))
        };
        if text.bytes().fold(true, |all, byte| all & is_plain(byte)) {
            return self.0.write_str(text);
        }
        let mut plain = 0;
        for (at, letter) in text.char_indices() {
            let replacement = match letter {
                '&' => "&amp;",
                '<' => "&lt;",
                '>' => "&gt;",
                '"' => "&quot;",
                '\'' => "&#39;",
                '\n' => continue,
                '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => "\u{fffd}",
                // Would turn the rest of a line around.
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => "\u{fffd}",
                _ => continue,
            };
            self.0.write_str(&text[plain..at])?;
            self.0.write_str(replacement)?;
            plain = at + letter.len_utf8();
        }
        self.0.write_str(&text[plain..])
    }
}

/// A text as JSON, in quotes: the same text for every reader, with what a terminal would obey as escape sequences.
#[must_use]
pub fn json_text(text: &str) -> String {
    escape_json(&serde_json::Value::from(text).to_string()).into_owned()
}

/// Appends [`json_text`].
pub fn push_json_text(line: &mut Vec<u8>, text: &str) {
    if text.chars().all(is_printable) {
        // Writing to a Vec does not fail.
        let _ = serde_json::to_writer(line, text);
    } else {
        line.extend_from_slice(json_text(text).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_stays_text() {
        assert_eq!(
            Escaped("<a b=\"c\" d='e'> & \u{1}\u{fffe}\u{202e}µ").to_string(),
            "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt; &amp; \u{fffd}\u{fffd}\u{fffd}µ"
        );
    }

    #[test]
    fn a_text_in_json_is_the_same_text() {
        for text in ["", "plain é日", "\"\\\n\t\r\u{1}\u{7f}\u{9b}\u{202e}", "\\\""] {
            let mut json = Vec::new();
            push_json_text(&mut json, text);
            assert_eq!(serde_json::from_slice::<String>(&json).unwrap(), text);
            assert!(json.iter().all(|&byte| byte >= b' ' && byte != 0x7f));
        }
    }
}
