//! The typed tree of a filter, and how it is written.

use crate::comparison::Comparison;
use crate::fields::{FilterField, Kind};
use crate::value::Value;
use latscope_event::{FieldSet, TimeLiteral, format_duration_exact};
use std::fmt::{Display, Formatter, Result};

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Expr {
    /// At least two, none of them an `And`.
    And(Vec<Expr>),
    /// At least two, none of them an `Or`.
    Or(Vec<Expr>),
    Not(Box<Expr>),
    Term(Term),
}

/// A test of one field.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Term {
    pub subject: Subject,
    pub test: Test,
}

/// A field, and what is done to its value before it is tested.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Subject {
    pub field: &'static FilterField,
    /// The P of `evt.phase[P]`, nanoseconds.
    pub period_ns: Option<u64>,
    /// In the order in which they apply: the innermost first.
    pub transforms: Vec<Transform>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transform {
    Lower,
    Upper,
    Basename,
    /// Always the last one.
    Length,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Match {
    Contains,
    ContainsAnyCase,
    StartsWith,
    EndsWith,
    Glob,
    GlobAnyCase,
    Regex,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Test {
    Exists,
    Compare(Comparison, Value),
    Between(Value, Value),
    In(Vec<Value>),
    Match(Match, String),
    PathPrefix(Vec<String>),
    CompareWith(Comparison, Subject),
    MatchWith(Match, Subject),
    /// Completed within so many nanoseconds of a moment.
    Around(TimeLiteral, u64),
}

impl Expr {
    /// Joins what stands between `and`s or `or`s; a single one stays itself.
    pub fn join(mut parts: Vec<Expr>, all: bool) -> Expr {
        if parts.len() == 1 {
            return parts.remove(0);
        }
        let flat = parts.into_iter().flat_map(|part| match part {
            Expr::And(inner) if all => inner,
            Expr::Or(inner) if !all => inner,
            part => vec![part],
        });
        if all { Expr::And(flat.collect()) } else { Expr::Or(flat.collect()) }
    }

    /// How many `and`, `or` and `not` lie within each other.
    pub fn height(&self) -> usize {
        match self {
            Expr::And(parts) | Expr::Or(parts) => 1 + parts.iter().map(Expr::height).max().unwrap_or(0),
            Expr::Not(inner) => 1 + inner.height(),
            Expr::Term(_) => 0,
        }
    }

    /// What every event fulfils in these fields alone that this lets through; `None` where that is nothing.
    pub fn only_about(&self, fields: FieldSet) -> Option<Expr> {
        match self {
            Expr::And(parts) => {
                let parts: Vec<Expr> = parts.iter().filter_map(|part| part.only_about(fields)).collect();
                (!parts.is_empty()).then(|| Expr::join(parts, true))
            }
            Expr::Or(parts) => {
                let parts: Option<Vec<Expr>> = parts.iter().map(|part| part.only_about(fields)).collect();
                parts.map(|parts| Expr::join(parts, false))
            }
            // What may hold is not known to fail: only what is wholly about these fields can be turned around.
            Expr::Not(_) | Expr::Term(_) => {
                let own = self.fields();
                let is_about = own.iter().next().is_some() && own.iter().all(|field| fields.contains(field));
                is_about.then(|| self.clone())
            }
        }
    }

    pub fn fields(&self) -> FieldSet {
        match self {
            Expr::And(parts) | Expr::Or(parts) => {
                parts.iter().map(Expr::fields).fold(FieldSet::default(), FieldSet::union)
            }
            Expr::Not(inner) => inner.fields(),
            Expr::Term(Term { subject, test }) => match test {
                Test::CompareWith(_, other) | Test::MatchWith(_, other) => {
                    subject.field.fields().union(other.field.fields())
                }
                _ => subject.field.fields(),
            },
        }
    }
}

impl Subject {
    /// What its values are.
    pub fn kind(&self) -> Kind {
        if self.transforms.last() == Some(&Transform::Length) { Kind::Number } else { self.field.kind() }
    }
}

impl Transform {
    pub const NAMES: &'static [(&'static str, Transform)] = &[
        ("tolower", Transform::Lower),
        ("toupper", Transform::Upper),
        ("basename", Transform::Basename),
        ("len", Transform::Length),
    ];
}

impl Match {
    pub const NAMES: &'static [(&'static str, Match)] = &[
        ("contains", Match::Contains),
        ("icontains", Match::ContainsAnyCase),
        ("startswith", Match::StartsWith),
        ("endswith", Match::EndsWith),
        ("glob", Match::Glob),
        ("iglob", Match::GlobAnyCase),
        ("regex", Match::Regex),
    ];
}

fn name_of<T: PartialEq>(names: &[(&'static str, T)], wanted: &T) -> &'static str {
    names.iter().find(|(_, one)| one == wanted).map_or("", |(name, _)| name)
}

impl Display for Match {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(name_of(Match::NAMES, self))
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let (parts, joint) = match self {
            Expr::Term(term) => return term.fmt(f),
            Expr::Not(inner) => return write!(f, "not ({inner})"),
            Expr::And(parts) => (parts, " and "),
            Expr::Or(parts) => (parts, " or "),
        };
        for (at, part) in parts.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { joint })?;
            match part {
                Expr::Term(term) => term.fmt(f)?,
                Expr::Not(_) => part.fmt(f)?,
                _ => write!(f, "({part})")?,
            }
        }
        Ok(())
    }
}

impl Display for Subject {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for transform in self.transforms.iter().rev() {
            write!(f, "{}(", name_of(Transform::NAMES, transform))?;
        }
        f.write_str(self.field.name())?;
        if let Some(period_ns) = self.period_ns {
            write!(f, "[{}]", format_duration_exact(period_ns))?;
        }
        f.write_str(&")".repeat(self.transforms.len()))
    }
}

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Term { subject, test } = self;
        let other = |subject: &Subject| {
            // What has a transformer around it is known to be a field.
            if subject.transforms.is_empty() { format!("val({subject})") } else { subject.to_string() }
        };
        match test {
            Test::Exists => write!(f, "{subject} exists"),
            Test::Compare(comparison, value) => write!(f, "{subject} {} {value}", comparison.sign()),
            Test::Between(from, to) => write!(f, "{subject} between {from} and {to}"),
            Test::In(values) => write!(f, "{subject} in ({})", list(values)),
            Test::Match(operator, text) => write!(f, "{subject} {operator} {}", Written(text)),
            Test::PathPrefix(paths) => {
                write!(f, "{subject} pmatch ({})", list(paths.iter().map(|path| Written(path))))
            }
            Test::CompareWith(comparison, with) => write!(f, "{subject} {} {}", comparison.sign(), other(with)),
            Test::MatchWith(operator, with) => write!(f, "{subject} {operator} {}", other(with)),
            Test::Around(moment, ns) => write!(f, "{subject}[{moment}] = {}", format_duration_exact(*ns)),
        }
    }
}

fn list<T: Display>(values: impl IntoIterator<Item = T>) -> String {
    values.into_iter().map(|value| value.to_string()).collect::<Vec<_>>().join(", ")
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Value::Moment(moment) => moment.fmt(f),
            Value::Duration(ns) => f.write_str(&format_duration_exact(*ns)),
            Value::Bytes(bytes) => f.write_str(&latscope_event::format_size_exact(*bytes)),
            Value::Number(number) => number.fmt(f),
            Value::Bool(truth) => truth.fmt(f),
            Value::Network(network) => network.fmt(f),
            Value::Text(text) => Written(text).fmt(f),
        }
    }
}

/// A text as a filter holds it: bare where nothing in it could be taken for something else, else in quotes.
struct Written<'a>(&'a str);

impl Display for Written<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '/' | ':' | '-' | '+' | '@' | '%');
        // A text that starts like a number would be taken for one after `<`.
        if self.0.starts_with(|c: char| c.is_alphabetic() || matches!(c, '/' | '_')) && self.0.chars().all(plain) {
            return f.write_str(self.0);
        }
        f.write_str("\"")?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                c if c.is_ascii_control() => write!(f, "\\x{:02x}", c as u32)?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("\"")
    }
}
