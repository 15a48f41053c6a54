//! Shell wildcards: `*` any text (slashes too), `?` one character, `[a-z]`, `[!a-z]`, `[[:digit:]]`, `\` takes the
//! next character as it is.

#[derive(Clone, PartialEq, Debug)]
enum Part {
    Any,
    One,
    Char(char),
    Class { negated: bool, ranges: Vec<(char, char)>, named: Vec<fn(char) -> bool> },
}

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(crate) struct Glob {
    parts: Vec<Part>,
    ignore_case: bool,
}

impl Glob {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// A sentence, when the pattern holds a ksh alternative such as `+(a|b)`.
    pub fn new(pattern: &str, ignore_case: bool) -> Result<Glob, &'static str> {
        let pattern: Vec<char> = pattern.chars().collect();
        let (mut parts, mut at) = (Vec::new(), 0);
        while let Some(&c) = pattern.get(at) {
            at += 1;
            if matches!(c, '?' | '*' | '+' | '@' | '!') && pattern.get(at) == Some(&'(') {
                return Err("Alternatives such as +(a|b) are not supported by glob; use regex, or write \\( for a \
                     parenthesis.");
            }
            parts.push(match c {
                '*' if parts.last() == Some(&Part::Any) => continue,
                '*' => Part::Any,
                '?' => Part::One,
                '[' => match class(&pattern, at) {
                    Some((class, end)) => {
                        at = end;
                        class
                    }
                    None => Part::Char('['),
                },
                '\\' if at < pattern.len() => {
                    at += 1;
                    Part::Char(pattern[at - 1])
                }
                c => Part::Char(c),
            });
        }
        Ok(Glob { parts, ignore_case })
    }

    /// Whether the whole text matches. Only the last `*` is ever tried again, so the time is at most the product of
    /// the lengths.
    pub fn matches(&self, text: &str) -> bool {
        let (mut part, mut rest) = (0, text);
        let mut retry: Option<(usize, &str)> = None;
        loop {
            if let Some(Part::Any) = self.parts.get(part) {
                part += 1;
                retry = Some((part, rest));
                continue;
            }
            let mut chars = rest.chars();
            match (self.parts.get(part), chars.next()) {
                (None, None) => return true,
                (Some(wanted), Some(c)) if self.fits(wanted, c) => {
                    part += 1;
                    rest = chars.as_str();
                }
                _ => {
                    let Some((after, from)) = retry else { return false };
                    let mut chars = from.chars();
                    if chars.next().is_none() {
                        return false;
                    }
                    (part, rest) = (after, chars.as_str());
                    retry = Some((after, rest));
                }
            }
        }
    }

    fn fits(&self, part: &Part, c: char) -> bool {
        let (lower, upper) = (c.to_ascii_lowercase(), c.to_ascii_uppercase());
        let either = |test: &dyn Fn(char) -> bool| test(c) || self.ignore_case && (test(lower) || test(upper));
        match part {
            Part::Any => false,
            Part::One => true,
            Part::Char(wanted) => either(&|c| c == *wanted),
            Part::Class { negated, ranges, named } => {
                let inside = either(&|c| {
                    ranges.iter().any(|&(from, to)| (from..=to).contains(&c)) || named.iter().any(|class| class(c))
                });
                inside != *negated
            }
        }
    }
}

/// The class whose `[` stands before `at`, and where it ends; `None` when it is never closed.
fn class(pattern: &[char], mut at: usize) -> Option<(Part, usize)> {
    let negated = matches!(pattern.get(at), Some('!' | '^'));
    at += usize::from(negated);
    let (mut ranges, mut named) = (Vec::new(), Vec::new());
    let first = at;
    loop {
        let mut c = *pattern.get(at)?;
        at += 1;
        if c == ']' && at > first + 1 {
            return Some((Part::Class { negated, ranges, named }, at));
        }
        if c == '[' && pattern.get(at) == Some(&':') {
            let length = pattern[at + 1..].iter().position(|&c| c == ':')?;
            let name: String = pattern[at + 1..at + 1 + length].iter().collect();
            if pattern.get(at + 2 + length) == Some(&']')
                && let Some(class) = named_class(&name)
            {
                named.push(class);
                at += length + 3;
                continue;
            }
        }
        if c == '\\' {
            c = *pattern.get(at)?;
            at += 1;
        }
        match (pattern.get(at), pattern.get(at + 1)) {
            (Some('-'), Some(&to)) if to != ']' => {
                ranges.push((c, to));
                at += 2;
            }
            _ => ranges.push((c, c)),
        }
    }
}

fn named_class(name: &str) -> Option<fn(char) -> bool> {
    Some(match name {
        "alnum" => |c: char| c.is_ascii_alphanumeric(),
        "alpha" => |c: char| c.is_ascii_alphabetic(),
        "blank" => |c: char| matches!(c, ' ' | '\t'),
        "digit" => |c: char| c.is_ascii_digit(),
        "lower" => |c: char| c.is_ascii_lowercase(),
        "punct" => |c: char| c.is_ascii_punctuation(),
        "space" => |c: char| c.is_ascii_whitespace(),
        "upper" => |c: char| c.is_ascii_uppercase(),
        "xdigit" => |c: char| c.is_ascii_hexdigit(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wildcards_as_the_shell_has_them() {
        for (pattern, text, expected) in [
            ("h*d", "httpd", true),
            ("h*d", "hd", true),
            ("h*d", "httpd2", false),
            ("/home/*/.ssh/*", "/home/a/b/.ssh/id", true),
            ("?", "é", true),
            ("?", "", false),
            ("*", "", true),
            ("", "", true),
            ("a[b-d]e", "ace", true),
            ("a[!b-d]e", "ace", false),
            ("a[^b-d]e", "axe", true),
            ("[]x]", "]", true),
            ("[[:digit:]]*", "7up", true),
            ("[a-]", "-", true),
            ("[abc", "[abc", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("a\\", "a\\", true),
        ] {
            assert_eq!(Glob::new(pattern, false).unwrap().matches(text), expected, "{pattern} {text}");
        }
        assert!(Glob::new("H*[d]", true).unwrap().matches("httpD"));
        assert!(Glob::new("+(a|b)", false).unwrap_err().contains("regex"));
    }

    /// The definition, word for word.
    fn by_definition(pattern: &[char], text: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('*', rest)) => (0..=text.len()).any(|at| by_definition(rest, &text[at..])),
            Some((&c, rest)) => !text.is_empty() && (c == '?' || c == text[0]) && by_definition(rest, &text[1..]),
        }
    }

    proptest! {
        #[test]
        fn the_shortcut_agrees_with_the_definition(pattern in "[ab*?]{0,8}", text in "[ab]{0,10}") {
            let expected =
                by_definition(&pattern.chars().collect::<Vec<_>>(), &text.chars().collect::<Vec<_>>());
            prop_assert_eq!(Glob::new(&pattern, false).unwrap().matches(&text), expected);
        }

        #[test]
        fn any_pattern_is_refused_or_compiled(pattern in "[\\[\\]:!^a-z*?\\\\(-]{0,16}", text in "\\PC{0,8}") {
            if let Ok(glob) = Glob::new(&pattern, true) {
                glob.matches(&text);
            }
        }
    }
}
