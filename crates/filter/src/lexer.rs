//! A cursor over the text of a filter. What a token is depends on where it stands (`<` after `evt.dir=` is a text),
//! so the parser asks for what it expects instead of reading a list of tokens.

use crate::FilterError;
use std::ops::Range;

/// A value as it was written.
#[derive(Clone, Debug)]
pub(crate) struct Literal {
    pub text: String,
    pub span: Range<usize>,
    pub quoted: bool,
}

pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// Whether the next value is a pattern, in which an escape that is not known keeps its backslash.
    pub is_pattern: bool,
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{8}' | '\r' | '\n')
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, at: 0, is_pattern: false }
    }

    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub fn skip_blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches(is_blank).len();
    }

    /// Position of the next thing that is no blank.
    pub fn position(&mut self) -> usize {
        self.skip_blanks();
        self.at
    }

    pub fn back_to(&mut self, position: usize) {
        self.at = position;
    }

    pub fn span_from(&self, start: usize) -> Range<usize> {
        start..self.at
    }

    /// What stands next, for a message about it: a word, a run of signs, or nothing at the end.
    pub fn next_span(&mut self) -> Range<usize> {
        let start = self.position();
        let first = self.rest().chars().next();
        let same = |c: char| match first {
            Some(first) if is_name(first) => is_name(c) || c == '.',
            _ => false,
        };
        let length: usize = self.rest().chars().take_while(|&c| same(c)).map(char::len_utf8).sum();
        start..start + length.max(first.map_or(0, char::len_utf8))
    }

    /// Takes a sign if it stands next.
    pub fn sign(&mut self, sign: &str) -> bool {
        self.skip_blanks();
        let found = self.rest().starts_with(sign);
        self.at += if found { sign.len() } else { 0 };
        found
    }

    /// Takes a word in upper or lower case if it stands next.
    pub fn keyword(&mut self, keyword: &str) -> bool {
        self.skip_blanks();
        let rest = self.rest();
        let found = rest.get(..keyword.len()).is_some_and(|word| word.eq_ignore_ascii_case(keyword))
            && !rest[keyword.len()..].starts_with(|c| is_name(c) || c == '.');
        self.at += if found { keyword.len() } else { 0 };
        found
    }

    /// Takes a name: letters, digits and underscores in parts with dots between them.
    pub fn name(&mut self) -> Option<(&'a str, Range<usize>)> {
        let start = self.position();
        let rest = self.rest();
        if !rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return None;
        }
        let length = rest.find(|c| !(is_name(c) || c == '.')).unwrap_or(rest.len());
        let length = rest[..length].trim_end_matches('.').len();
        self.at += length;
        Some((&rest[..length], self.span_from(start)))
    }

    /// Takes a value: quoted, or a run without blanks, brackets, commas, quotes and `=`. It also ends before `&&`
    /// and `||`, and before any of `stops`.
    pub fn value(&mut self, stops: &[char]) -> Result<Option<Literal>, FilterError> {
        let start = self.position();
        let rest = self.rest();
        if let Some(quote) = rest.chars().next().filter(|c| matches!(c, '"' | '\'')) {
            return self.quoted(quote).map(Some);
        }
        let ends =
            |c: char| is_blank(c) || matches!(c, '(' | ')' | '"' | '\'' | '=' | ',' | '\0') || stops.contains(&c);
        let mut length = rest.find(ends).unwrap_or(rest.len());
        for joiner in ["&&", "||"] {
            length = rest[..length].find(joiner).unwrap_or(length);
        }
        self.at += length;
        Ok((length > 0).then(|| Literal { text: rest[..length].into(), span: self.span_from(start), quoted: false }))
    }

    fn quoted(&mut self, quote: char) -> Result<Literal, FilterError> {
        let start = self.at;
        let mut text = String::new();
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            let wrong = |length: usize, message: &str| FilterError::at(start + at..start + at + length, message);
            if c == quote {
                self.at += at + 1;
                return Ok(Literal { text, span: self.span_from(start), quoted: true });
            }
            if c == '\0' {
                return Err(wrong(1, "A text cannot contain a NUL character."));
            }
            if c != '\\' {
                text.push(c);
                continue;
            }
            let Some((_, escape)) = chars.next() else { break };
            let c = match escape {
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                '\\' | '/' | '"' | '\'' => escape,
                'x' => {
                    let digits: String = chars.by_ref().take(2).map(|(_, digit)| digit).collect();
                    match u8::from_str_radix(&digits, 16) {
                        Ok(byte @ 1..=0x7f) if digits.len() == 2 && !digits.starts_with('+') => char::from(byte),
                        _ => {
                            return Err(wrong(
                                2 + digits.len(),
                                "After \\x two hexadecimal digits between 01 and 7f are expected; write other \
                                 characters as they are.",
                            ));
                        }
                    }
                }
                // In a pattern `\.` is a dot, with one backslash or with two.
                _ if self.is_pattern => {
                    text.push('\\');
                    escape
                }
                _ => {
                    return Err(wrong(
                        1 + escape.len_utf8(),
                        "This escape is not known; \\b \\f \\n \\r \\t \\\\ \\/ \\\" \\' and \\xNN are.",
                    ));
                }
            };
            text.push(c);
        }
        Err(FilterError::at(start..self.text.len(), format!("The text that starts here has no closing {quote}.")))
    }
}
