//! Tests of a text: compiled once, applied once for each entry of a dictionary.

use crate::address::AddressTest;
use crate::comparison::Comparison;
use crate::fields::Part;
use crate::glob::Glob;
use crate::ranges::Ranges;
use crate::tree::{Match, Transform};
use regex_lite::{Regex, RegexBuilder};
use std::borrow::Cow;

/// How large a compiled expression may get; a hostile one must not eat the memory.
const REGEX_LIMIT: usize = 1 << 20;

/// What is done to a text before it is tested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Part(Part),
    Transform(Transform),
}

#[derive(Clone, Debug)]
pub(crate) enum TextTest {
    Exists,
    Compare(Comparison, String),
    Between(String, String),
    /// Sorted.
    In(Vec<String>),
    Contains(String),
    ContainsAnyCase(String),
    StartsWith(String),
    EndsWith(String),
    Glob(Glob),
    Regex(Regex),
    /// Each path as the patterns of its components.
    PathPrefix(Vec<Vec<Glob>>),
    /// Number of bytes.
    Length(Ranges),
    Address(AddressTest),
}

impl TextTest {
    /// Compiles a match.
    ///
    /// # Errors
    /// A sentence, when the pattern is not valid.
    pub fn compile(operator: Match, text: &str) -> Result<TextTest, String> {
        Ok(match operator {
            Match::Contains => TextTest::Contains(text.into()),
            Match::ContainsAnyCase => TextTest::ContainsAnyCase(text.into()),
            Match::StartsWith => TextTest::StartsWith(text.into()),
            Match::EndsWith => TextTest::EndsWith(text.into()),
            Match::Glob => TextTest::Glob(Glob::new(text, false)?),
            Match::GlobAnyCase => TextTest::Glob(Glob::new(text, true)?),
            // Like sysdig, the expression has to match the whole text. It is compiled alone first, so that an
            // unbalanced bracket does not pair with one of ours.
            Match::Regex => RegexBuilder::new(text)
                .size_limit(REGEX_LIMIT)
                .build()
                .and_then(|_| RegexBuilder::new(&format!("\\A(?:{text})\\z")).size_limit(REGEX_LIMIT).build())
                .map(TextTest::Regex)
                .map_err(|error| format!("This regular expression is not valid: {error}."))?,
        })
    }

    /// Compiles path prefixes; each component may hold wildcards.
    ///
    /// # Errors
    /// A sentence, when a wildcard pattern is not valid.
    pub fn path_prefix(paths: &[String]) -> Result<TextTest, String> {
        let components = |path: &String| {
            let path = path.strip_suffix('/').unwrap_or(path);
            path.split('/').map(|part| Glob::new(part, false)).collect::<Result<Vec<_>, _>>()
        };
        Ok(TextTest::PathPrefix(paths.iter().map(components).collect::<Result<_, _>>()?))
    }

    /// Whether the text passes.
    pub fn matches(&self, text: &str) -> bool {
        match self {
            TextTest::Exists => true,
            TextTest::Compare(comparison, value) => comparison.holds(text.cmp(value)),
            TextTest::Between(from, to) => from.as_str() <= text && text <= to.as_str(),
            TextTest::In(values) => values.binary_search_by(|value| value.as_str().cmp(text)).is_ok(),
            TextTest::Contains(part) => text.contains(part),
            TextTest::ContainsAnyCase(part) => contains_any_case(text, part),
            TextTest::StartsWith(part) => text.starts_with(part),
            TextTest::EndsWith(part) => text.ends_with(part),
            TextTest::Glob(glob) => glob.matches(text),
            TextTest::Regex(regex) => regex.is_match(text),
            TextTest::PathPrefix(paths) => paths.iter().any(|path| {
                let mut parts = text.split('/');
                path.iter().all(|wanted| parts.next().is_some_and(|part| wanted.matches(part)))
            }),
            TextTest::Length(ranges) => ranges.holds(text.len() as u64),
            TextTest::Address(test) => test.matches(text),
        }
    }

    /// What one more text costs, in comparisons.
    pub fn cost(&self) -> u32 {
        match self {
            TextTest::Regex(_) => 20,
            TextTest::Glob(_) | TextTest::PathPrefix(_) | TextTest::Address(_) => 8,
            _ => 4,
        }
    }
}

/// Whether `text` holds `part`, upper and lower case of ASCII letters taken for the same.
pub(crate) fn contains_any_case(text: &str, part: &str) -> bool {
    part.is_empty() || text.as_bytes().windows(part.len()).any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
}

/// Whether the text passes after all steps; of a part that it has several of, whether any does.
pub(crate) fn passes(steps: &[Step], text: &str, test: &TextTest) -> bool {
    let passes = |steps, text| apply(steps, text).is_some_and(|text| test.matches(&text));
    match steps {
        [Step::Part(Part::Frame), steps @ ..] => latscope_event::frames(text).any(|frame| passes(steps, frame.name)),
        [Step::Part(Part::Pair), steps @ ..] => {
            text.split(';').filter(|pair| !pair.is_empty()).any(|pair| passes(steps, pair))
        }
        _ => passes(steps, text),
    }
}

/// The text after all steps, `None` when a step finds nothing (the directory of a name that has none).
pub(crate) fn apply<'t>(steps: &[Step], text: &'t str) -> Option<Cow<'t, str>> {
    let mut text = Cow::Borrowed(text);
    for step in steps {
        text = match (step, text) {
            (Step::Transform(Transform::Lower), text) => Cow::Owned(text.to_ascii_lowercase()),
            (Step::Transform(Transform::Upper), text) => Cow::Owned(text.to_ascii_uppercase()),
            (Step::Transform(Transform::Length), text) => text,
            (step, Cow::Borrowed(text)) => Cow::Borrowed(narrowed(*step, text)?),
            (step, Cow::Owned(text)) => Cow::Owned(narrowed(*step, &text)?.to_string()),
        }
    }
    Some(text)
}

/// A part of a text.
fn narrowed(step: Step, text: &str) -> Option<&str> {
    let Step::Part(part) = step else {
        return Some(text.rsplit('/').next().unwrap_or(text));
    };
    match part {
        Part::Directory => match text.rfind('/')? {
            0 => Some("/"),
            slash => Some(&text[..slash]),
        },
        Part::FileName => Some(text.rsplit('/').next().unwrap_or(text)),
        // Of the parts that a text has several of, `passes` gives each.
        Part::Frame | Part::Pair => Some(text),
        Part::Direction => matches!(text, "read" | "write").then_some(text),
        Part::TypeLetter => LETTERS.iter().find(|(name, _)| *name == text).map(|&(_, letter)| letter),
    }
}

/// The letters of sysdig's `fd.typechar`.
static LETTERS: &[(&str, &str)] = &[
    ("file", "f"),
    ("directory", "d"),
    ("ipv4", "4"),
    ("ipv6", "6"),
    ("unix", "u"),
    ("pipe", "p"),
    ("event", "e"),
    ("signalfd", "s"),
    ("eventpoll", "l"),
    ("inotify", "i"),
    ("timerfd", "t"),
    ("netlink", "n"),
    ("bpf", "b"),
    ("userfaultfd", "u"),
    ("io_uring", "r"),
    ("memfd", "m"),
    ("pidfd", "P"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn regex(pattern: &str, text: &str) -> bool {
        TextTest::compile(Match::Regex, pattern).unwrap().matches(text)
    }

    #[test]
    fn a_regular_expression_matches_the_whole_text() {
        assert!(regex("fio|dd", "dd") && !regex("fio|dd", "add") && regex(".*dd", "add"));
        for pattern in ["a)(b", "(", "[", "(a{1000}){1000}", "a)|(?:b"] {
            let error = TextTest::compile(Match::Regex, pattern).unwrap_err();
            assert!(error.starts_with("This regular expression is not valid: "), "{error}");
        }
    }

    #[test]
    fn path_prefixes_end_at_a_component() {
        let test = |path: &str, text: &str| TextTest::path_prefix(&[path.into()]).unwrap().matches(text);
        assert!(test("/var/run", "/var/run/a") && test("/var/run", "/var/run") && test("/var/run/", "/var/run/a"));
        assert!(!test("/var/run", "/var/running") && !test("/var/run", "/var"));
        assert!(test("/var/*/log", "/var/x/log/y") && !test("/var/*/log", "/var/x/y/log"));
        assert!(test("/", "/anything"));
    }

    #[test]
    fn parts_of_a_path() {
        let part = |part, text| apply(&[Step::Part(part)], text).map(Cow::into_owned);
        assert_eq!(part(Part::Directory, "/etc/passwd").as_deref(), Some("/etc"));
        assert_eq!(part(Part::Directory, "/passwd").as_deref(), Some("/"));
        assert_eq!(part(Part::Directory, "passwd"), None);
        assert_eq!(part(Part::FileName, "/etc/passwd").as_deref(), Some("passwd"));
        assert_eq!(part(Part::TypeLetter, "ipv4").as_deref(), Some("4"));
        assert_eq!(part(Part::Direction, "sync"), None);
        let steps = [Step::Transform(Transform::Basename), Step::Transform(Transform::Upper)];
        assert_eq!(apply(&steps, "/a/b.txt").as_deref(), Some("B.TXT"));
        assert_eq!(apply(&[steps[1], steps[0]], "/a/b.txt").as_deref(), Some("B.TXT"));
    }
}
