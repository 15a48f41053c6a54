//! Text that is safe on a terminal: names of files, commands and groups come from others, and may hold escape sequences.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a terminal shows the character, instead of obeying it: no control character (C0, DEL, C1), no line or paragraph separator,
/// and none that changes the direction of the text around it.
#[must_use]
pub fn is_printable(symbol: char) -> bool {
    let redirects =
        matches!(symbol, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !symbol.is_control() && !redirects
}

/// The text with U+FFFD instead of every character that is not [printable](is_printable), but for line feeds.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let shown = |symbol: char| symbol == '\n' || is_printable(symbol);
    if text.chars().all(shown) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|symbol| if shown(symbol) { symbol } else { char::REPLACEMENT_CHARACTER }).collect())
}

/// The JSON with `\u` sequences instead of what is not [printable](is_printable), but for line feeds. It holds the same values:
/// outside of texts JSON has no such character.
#[must_use]
pub fn escape_json(json: &str) -> Cow<'_, str> {
    let plain = |symbol: char| symbol == '\n' || is_printable(symbol);
    if json.chars().all(plain) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for symbol in json.chars() {
        if plain(symbol) {
            escaped.push(symbol);
        } else {
            // All of them are in the first plane of Unicode, so that there are no surrogates.
            let _ = write!(escaped, "\\u{:04x}", u32::from(symbol));
        }
    }
    Cow::Owned(escaped)
}

/// How a text starts that a spreadsheet would compute, and the mark that prevents it.
const FORMULA: [char; 7] = ['=', '+', '-', '@', '\t', '\r', '\''];

/// A text for a cell of CSV: with a `'` in front where a spreadsheet would take it for a formula, as OWASP advises, and where it starts
/// with `'` itself, so that taking one `'` away gives back the text.
#[must_use]
pub fn guard_formula(text: &str) -> Cow<'_, str> {
    // A sign alone, such as the `-` of what is not known, computes nothing.
    if text != "-" && text.starts_with(FORMULA) { Cow::Owned(format!("'{text}")) } else { Cow::Borrowed(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\u{1b}]0;x\u{7}\r\t\u{7f}\u{9b}2J\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}é日\n";

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        assert_eq!(printable(HOSTILE), "a�]0;x�����2J�����é日\n");
        assert!(matches!(printable("plain é\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn formulas_are_marked() {
        for text in ["=cmd()", "+1", "-1", "@a", "\tx", "\rx", "'quoted'"] {
            assert_eq!(guard_formula(text), format!("'{text}"));
        }
        assert!(matches!(guard_formula("a=b"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_keeps_its_values() {
        let escaped = escape_json("{\"a\":\"\u{202e}x\u{9b}\u{7f}é\"}\n").into_owned();
        assert_eq!(escaped, "{\"a\":\"\\u202ex\\u009b\\u007fé\"}\n");
    }
}
