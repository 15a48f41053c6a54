//! A text buffer for SVG that cannot produce malformed XML from foreign text.

use latscope_view::{Escaped, Escaping};
use std::fmt::{self, Write};

/// An SVG document in the making.
pub(crate) struct Svg {
    out: String,
}

impl Svg {
    pub fn new() -> Svg {
        Svg { out: String::with_capacity(64 << 10) }
    }

    /// Appends markup; foreign text goes through [`Escaped`].
    pub fn put(&mut self, markup: fmt::Arguments<'_>) {
        // Writing to a String does not fail.
        let _ = self.out.write_fmt(markup);
    }

    /// A line of text; `attributes` start with a blank.
    pub fn text(&mut self, x: f64, y: f64, attributes: &str, text: &str) {
        self.put(format_args!("<text x=\"{}\" y=\"{}\"{attributes}>{}</text>\n", Num(x), Num(y), Escaped(text)));
    }

    pub fn rect(&mut self, area: Area, attributes: &str) {
        let Area { x, y, width, height } = area;
        self.put(format_args!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{attributes}/>\n",
            Num(x),
            Num(y),
            Num(width),
            Num(height)
        ));
    }

    /// An area with a text that shows when the pointer rests on it; a `<title>`, so no script is needed.
    pub fn tip(&mut self, area: Area, text: fmt::Arguments<'_>) {
        let [x, y, width, height] = [area.x, area.y, area.width, area.height].map(Num);
        self.put(format_args!("<path d=\"M{x} {y}h{width}v{height}h-{width}z\"><title>"));
        // A picture has thousands of them: the text goes straight into the document.
        let _ = Escaping(&mut self.out).write_fmt(text);
        self.out.push_str("</title></path>\n");
    }

    pub fn finish(self) -> String {
        self.out
    }
}

/// A rectangle, pixels from the upper left corner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

impl Area {
    pub fn bottom(self) -> f64 {
        self.y + self.height
    }

    pub fn right(self) -> f64 {
        self.x + self.width
    }
}

/// A coordinate with at most one decimal.
pub(crate) struct Num(pub f64);

impl fmt::Display for Num {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 * 10.0).round() as i64;
        if tenths % 10 == 0 {
            fmt::Display::fmt(&(tenths / 10), f)
        } else {
            fmt::Display::fmt(&(tenths as f64 / 10.0), f)
        }
    }
}

/// Width of a text in pixels: no font is at hand, so a generous mean of the common sans-serif ones.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.58
}

/// The text cut to `limit` characters, with an ellipsis where something is left out.
pub(crate) fn shortened(text: &str, limit: usize) -> String {
    let text = text.replace(['\n', '\r', '\t'], " ");
    if text.chars().count() <= limit {
        return text;
    }
    text.chars().take(limit.saturating_sub(1)).chain(['…']).collect()
}

/// The text in lines of at most `limit` characters, broken at blanks where there are any, at most `lines` of them.
pub(crate) fn wrapped(text: &str, limit: usize, lines: usize) -> Vec<String> {
    let mut wrapped: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let word = shortened(word, limit);
        let full = wrapped.len() == lines;
        match wrapped.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= limit => {
                line.push(' ');
                line.push_str(&word);
            }
            Some(line) if full => {
                *line = shortened(&format!("{line} {word}"), limit);
                break;
            }
            _ => wrapped.push(word),
        }
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_broken_and_cut() {
        assert_eq!(wrapped("one two three four", 9, 9), ["one two", "three", "four"]);
        assert_eq!(wrapped("one two three four", 7, 1), ["one tw…"]);
        assert_eq!(wrapped("abcdefghijkl", 5, 3), ["abcd…"]);
        assert_eq!(shortened("a\nb", 5), "a b");
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!(
            (Num(3.0).to_string(), Num(-0.04).to_string(), Num(2.26).to_string()),
            ("3".into(), "0".into(), "2.3".into())
        );
    }
}
