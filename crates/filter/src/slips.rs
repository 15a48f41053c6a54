//! Values that are well formed and yet cannot be what was meant: a word of a closed list misspelt, a size in the wrong kilo.

use crate::fields::{Part, Source, Text};
use crate::nearest::nearest;
use crate::tree::Subject;
use crate::value::Value;
use latscope_event::Field;

const KINDS: &[&str] = &["read", "write", "flush", "discard", "trim", "sync", "open", "other"];
const DIRECTIONS: &[&str] = &["read", "write"];
const FD_TYPES: &[&str] = &[
    "file",
    "directory",
    "char",
    "block",
    "pipe",
    "link",
    "ipv4",
    "ipv6",
    "unix",
    "netlink",
    "socket",
    "event",
    "eventpoll",
    "signalfd",
    "timerfd",
    "inotify",
    "bpf",
    "userfaultfd",
    "io_uring",
    "memfd",
    "pidfd",
    "other",
];

/// Fails with a sentence, and the words that were perhaps meant, when a field can hardly be equal to this value.
pub(crate) fn check(subject: &Subject, written: &str, value: &Value) -> Result<(), (String, Vec<&'static str>)> {
    match (value, words_of(subject)) {
        (Value::Text(text), Some(words)) if !words.contains(&text.as_str()) => {
            let near = nearest(text, words.iter().copied());
            if near.is_empty() { Ok(()) } else { Err((format!("{subject} is never {text}."), near)) }
        }
        (Value::Text(text), _)
            if subject.field.source == Source::Text(Text::Column(Field::Dev)) && !is_number(text) =>
        {
            Err((format!("{subject} is a number such as 8:0; write device = {text}."), Vec::new()))
        }
        (Value::Bytes(bytes), _) => match kibibytes(written, *bytes) {
            Some(meant) => {
                let sentence = format!(
                    "{written} is {bytes} bytes, which is unlikely as the size of an I/O; write {bytes} or {meant}."
                );
                Err((sentence, Vec::new()))
            }
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// The only words that a field holds.
fn words_of(subject: &Subject) -> Option<&'static [&'static str]> {
    if !subject.transforms.is_empty() {
        return None;
    }
    match subject.field.source {
        Source::Text(Text::Column(Field::Kind)) => Some(KINDS),
        Source::Text(Text::Column(Field::FdType)) => Some(FD_TYPES),
        Source::Text(Text::Part(_, Part::Direction)) => Some(DIRECTIONS),
        _ => None,
    }
}

/// Whether a text is the number of a device, major:minor.
fn is_number(text: &str) -> bool {
    text.split_once(':').is_some_and(|(major, minor)| major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok())
}

/// What a size in powers of 1000 would be in powers of 1024, where it is no whole number of sectors.
fn kibibytes(written: &str, bytes: u64) -> Option<u64> {
    let lower = written.to_ascii_lowercase();
    let number = lower.strip_suffix('b').filter(|rest| rest.ends_with(['k', 'm', 'g', 't']))?;
    let meant = latscope_event::parse_size(number).ok()?;
    (!bytes.is_multiple_of(512) && meant.is_multiple_of(512)).then_some(meant)
}
