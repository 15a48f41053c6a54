//! Tables of TOML with the lines that they are from, so that a mistake is named where it is.

use std::collections::BTreeMap;
use std::fmt;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What is wrong in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mistake {
    /// Counted from 1.
    pub line: usize,
    /// A sentence without its full stop.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}.", self.line, self.message)
    }
}

/// A table of a file.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    text: &'a str,
    table: &'a DeTable<'a>,
    start: usize,
    /// What it is called in messages.
    name: &'a str,
}

impl<'a> Table<'a> {
    /// The file itself.
    pub fn new(text: &'a str, table: &'a DeTable<'a>) -> Table<'a> {
        Table { text, table, start: 0, name: "the file" }
    }

    /// A mistake at a byte of the file.
    fn mistake(&self, at: usize, message: String) -> Mistake {
        let before = self.text.get(..at.min(self.text.len())).unwrap_or(self.text);
        Mistake { line: before.matches('\n').count() + 1, message }
    }

    /// A mistake about the table as a whole.
    pub fn wrong(&self, message: impl Into<String>) -> Mistake {
        self.mistake(self.start, format!("{}: {}", self.name, message.into()))
    }

    /// A mistake about one key.
    pub fn wrong_value(&self, key: &str, message: impl Into<String>) -> Mistake {
        let at = self.value(key).map_or(self.start, |value| value.span().start);
        self.mistake(at, format!("{key}: {}", message.into()))
    }

    /// Refuses all keys but these.
    pub fn only(&self, known: &[&str]) -> Result<(), Mistake> {
        for key in self.table.keys() {
            let name: &str = key.get_ref();
            if known.contains(&name) {
                continue;
            }
            let nearest = known.iter().min_by_key(|known| strsim::osa_distance(name, known));
            let is_near = |known: &&&str| strsim::osa_distance(name, known) <= (name.len() / 3).max(1);
            let hint = match nearest.filter(is_near) {
                Some(nearest) => format!("did you mean {nearest}"),
                None => format!("known are {}", known.join(", ")),
            };
            return Err(self.mistake(key.span().start, format!("unknown key {name} in {}; {hint}", self.name)));
        }
        Ok(())
    }

    fn value(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table.iter().find(|(known, _)| known.get_ref() == key).map(|(_, value)| value)
    }

    /// The tables of `[[key]]`.
    pub fn tables(&self, key: &'a str) -> Result<Vec<Table<'a>>, Mistake> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let Some(list) = value.get_ref().as_array() else {
            return Err(self.wrong_value(key, format!("write [[{key}]] for each of them")));
        };
        let table = |value: &'a Spanned<DeValue<'a>>| {
            let table = value.get_ref().as_table();
            let table = table.ok_or_else(|| self.wrong_value(key, format!("write [[{key}]] for each of them")))?;
            Ok(Table { text: self.text, table, start: value.span().start, name: key })
        };
        list.iter().map(table).collect()
    }

    /// A table in this one.
    pub fn table(&self, key: &'a str) -> Result<Option<Table<'a>>, Mistake> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let table =
            value.get_ref().as_table().ok_or_else(|| self.wrong_value(key, "a table is needed, { key = value }"))?;
        Ok(Some(Table { text: self.text, table, start: value.span().start, name: key }))
    }

    /// A text.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, Mistake> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let text = value.get_ref().as_str();
        text.map(Some).ok_or_else(|| self.wrong_value(key, "a text in quotes is needed"))
    }

    /// Whether a key is there.
    pub fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// A text, or a whole number as it is written.
    pub fn number(&self, key: &str) -> Result<Option<String>, Mistake> {
        match self.value(key).map(Spanned::get_ref) {
            Some(DeValue::Integer(number)) => Ok(Some(number.as_str().to_string())),
            _ => Ok(self.text(key)?.map(str::to_string)),
        }
    }

    /// A text that must be there.
    pub fn needed(&self, key: &str) -> Result<&'a str, Mistake> {
        let text = self.text(key)?.filter(|text| !text.trim().is_empty());
        text.ok_or_else(|| self.wrong(format!("{key} is missing")))
    }

    /// A truth value.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, Mistake> {
        let Some(value) = self.value(key) else { return Ok(None) };
        value.get_ref().as_bool().map(Some).ok_or_else(|| self.wrong_value(key, "true or false is needed"))
    }

    /// Texts: a list, or one alone.
    pub fn texts(&self, key: &str) -> Result<Vec<String>, Mistake> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        if let Some(one) = value.get_ref().as_str() {
            return Ok(vec![one.to_string()]);
        }
        let list = value.get_ref().as_array().into_iter().flatten();
        let texts: Option<Vec<String>> = list.map(|text| text.get_ref().as_str().map(str::to_string)).collect();
        let is_list = value.get_ref().is_array();
        let texts = texts.filter(|_| is_list);
        texts.ok_or_else(|| self.wrong_value(key, "a list of texts is needed, [\"a\", \"b\"]"))
    }

    /// Texts by name, such as labels.
    pub fn map(&self, key: &'a str) -> Result<BTreeMap<String, String>, Mistake> {
        let Some(table) = self.table(key)? else { return Ok(BTreeMap::new()) };
        let entry = |name: &'a Spanned<std::borrow::Cow<'a, str>>| {
            let name: &str = name.get_ref();
            let text = table.text(name)?.unwrap_or_default().to_string();
            let first = name.chars().next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
            // Others are refused by an Alertmanager.
            match first && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
                true => Ok((name.to_string(), text)),
                false => Err(self.wrong_value(key, format!("{name} is not a name: letters, digits and _ only"))),
            }
        };
        table.table.keys().map(entry).collect()
    }

    /// What a text means.
    pub fn parsed<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, Mistake> {
        let text = self.text(key)?;
        text.map(parse).transpose().map_err(|message| self.wrong_value(key, message))
    }
}
