//! The selection as a command line, for another terminal.

use crate::args;
use base64::prelude::{BASE64_STANDARD, Engine};
use clap::ValueEnum;

/// The command that lists the events which the filter selects.
pub fn events(input: &args::Input, filter: &str) -> String {
    let mut words = vec!["latscope".to_string(), "events".into()];
    for file in &input.read {
        words.extend(["-r".into(), quoted(&file.display().to_string())]);
    }
    let mut option = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            words.extend([name.to_string(), quoted(&value)]);
        }
    };
    let name = |value: Option<clap::builder::PossibleValue>| value.map(|value| value.get_name().to_string());
    option("-s", name(input.source.and_then(|source| source.to_possible_value())));
    let files = &input.files;
    option("--format", files.format.clone());
    option("--unitstime", files.units_time.clone());
    option("--unitslat", files.units_latency.clone());
    let latency = (files.latency == args::Latency::Request).then_some(files.latency);
    option("--latency", name(latency.and_then(|latency| latency.to_possible_value())));
    option("--offsets", input.offsets.as_ref().map(|path| path.display().to_string()));
    option("--correct-omission", files.correct_omission.clone());
    option("--log-columns", files.log_columns.clone());
    if files.lenient {
        words.push("--lenient".into());
    }
    words.push(quoted(filter));
    words.join(" ")
}

/// A word as a shell takes it.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,+@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text.into() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// The sequence (OSC 52) that asks a terminal to put text into the clipboard.
pub fn clipboard(text: &str) -> String {
    format!("\x1b]52;c;{}\x1b\\", BASE64_STANDARD.encode(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn the_command_is_what_was_typed_with_the_filter() {
        let typed =
            "latscope spectrogram -r a.txt -r it's.txt --latency request -s block --lenient --offsets o kind = read";
        let typed = args::Arguments::parse_from(typed.split(' '));
        let args::Verb::Spectrogram(typed) = typed.verb else { unreachable!() };
        assert_eq!(
            events(&typed.input, "lat > 1ms and comm = \"it's\""),
            "latscope events -r a.txt -r 'it'\\''s.txt' -s block --latency request --offsets o --lenient 'lat > 1ms and comm = \"it'\\''s\"'"
        );
    }

    #[test]
    fn the_clipboard_gets_base64() {
        for (text, encoded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(clipboard(text), format!("\x1b]52;c;{encoded}\x1b\\"));
        }
    }
}
