//! `--config FILE` of `agent` and `hub`: a TOML file whose keys are long options becomes words as if they were typed, so that values
//! and unknown keys are judged as those are.

use std::ffi::OsString;
use toml::{Table, Value};

/// The commands that have it.
const COMMANDS: [&str; 2] = ["agent", "hub"];
/// Options that may be typed by one letter.
const SHORT: [(&str, &str); 3] = [("-i", "interval"), ("-s", "source"), ("-f", "force")];

/// What was typed, with the options of its file that were not typed.
///
/// # Errors
/// A sentence, where the file cannot be read.
pub fn expanded(words: Vec<OsString>) -> Result<Vec<OsString>, String> {
    let texts: Vec<&str> = words.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    let Some(path) = path(&texts) else { return Ok(words) };
    let text = std::fs::read_to_string(path).map_err(|error| format!("--config {path}: {error}."))?;
    let more = options(&text, &texts).map_err(|why| format!("--config {path}: {why}"))?;
    // Options stand before what was typed, behind the command: the filter may be last.
    let mut all = words;
    all.splice(2..2, more.into_iter().map(OsString::from));
    Ok(all)
}

/// The file that is named.
fn path<'a>(texts: &[&'a str]) -> Option<&'a str> {
    if !COMMANDS.contains(texts.get(1)?) {
        return None;
    }
    let named = texts.iter().find_map(|text| text.strip_prefix("--config="));
    named.or_else(|| texts.iter().position(|&text| text == "--config").and_then(|at| texts.get(at + 1).copied()))
}

fn options(text: &str, typed: &[&str]) -> Result<Vec<String>, String> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| format!("{}.", error.message()))?;
    let is_typed = |key: &str| {
        let long = format!("--{key}");
        let is_short = |text: &str| {
            SHORT.iter().any(|(short, name)| *name == key && text.starts_with(short) && !text.starts_with("--"))
        };
        typed.iter().any(|text| *text == long || text.starts_with(&format!("{long}=")) || is_short(text))
    };
    let mut words = Vec::new();
    for (key, value) in table.into_iter().filter(|(key, _)| !is_typed(key)) {
        if key == "config" {
            return Err("a file cannot name another one.".into());
        }
        let values = match value {
            Value::Array(values) => values,
            value => vec![value],
        };
        for value in values {
            words.extend(match value {
                Value::Boolean(true) => Some(format!("--{key}")),
                Value::Boolean(false) => None,
                Value::String(text) if key == "filter" => Some(text),
                Value::String(text) => Some(format!("--{key}={text}")),
                Value::Integer(number) => Some(format!("--{key}={number}")),
                _ => return Err(format!("{key} is not a text, a number, true or false, or a list of these.")),
            });
        }
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_options_that_were_not_typed() {
        let text =
            "hub = ['a', 'b']\ninterval = '2s'\nmax-groups = 7\nforce = true\nqueue = 'q'\nfilter = 'kind = read'";
        let words = options(text, &["latscope", "agent", "-i1s", "--queue=x"]).unwrap();
        assert_eq!(words, ["kind = read", "--force", "--hub=a", "--hub=b", "--max-groups=7"]);
        assert!(options("x = 1.5", &[]).unwrap_err().contains("x is not a text"));
        assert!(options("x", &[]).is_err());
        assert!(options("config = 'y'", &[]).is_err());
    }

    #[test]
    fn only_agents_and_hubs_have_a_file() {
        assert_eq!(path(&["latscope", "agent", "--config", "a.toml"]), Some("a.toml"));
        assert_eq!(path(&["latscope", "hub", "--config=b.toml"]), Some("b.toml"));
        assert_eq!(path(&["latscope", "summary", "--config", "a.toml"]), None);
        assert_eq!(path(&["latscope", "hub"]), None);
    }
}
