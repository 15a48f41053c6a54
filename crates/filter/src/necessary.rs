//! What a filter demands of every event, as far as it is plain enough for a capture to test before it builds an event.

use crate::address::INTERNET;
use crate::comparison::Comparison;
use crate::fields::{Bool, Number, Source, Text};
use crate::tree::{Expr, Term, Test};
use crate::value::Value;
use latscope_event::Field;
use std::collections::{BTreeMap, BTreeSet};

/// Conditions that every event fulfils which the filter lets through. There may be events that fulfil them and are not
/// let through.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Necessary {
    /// Its latency is at least this.
    pub min_latency_ns: u64,
    /// The field (a text, or a number as text) has one of these values. A device stands under [`Field::Device`], by
    /// name or as major:minor.
    pub any_of: BTreeMap<Field, BTreeSet<String>>,
}

impl Necessary {
    pub(crate) fn new(expr: &Expr) -> Necessary {
        match expr {
            Expr::And(parts) => parts.iter().map(Necessary::new).fold(Necessary::default(), Necessary::both),
            Expr::Or(parts) => parts.iter().map(Necessary::new).reduce(Necessary::either).unwrap_or_default(),
            Expr::Not(_) => Necessary::default(),
            Expr::Term(term) if term.subject.transforms.is_empty() => Necessary::of_term(term),
            Expr::Term(_) => Necessary::default(),
        }
    }

    fn of_term(Term { subject, test }: &Term) -> Necessary {
        let of = |field: Field, values: Vec<String>| Necessary {
            any_of: [(field, values.into_iter().collect())].into(),
            ..Necessary::default()
        };
        let listed = || -> Option<Vec<String>> {
            let values = match test {
                Test::Compare(Comparison::Eq, value) => std::slice::from_ref(value),
                Test::In(values) => values,
                _ => return None,
            };
            values.iter().map(plain).collect()
        };
        match subject.field.source {
            Source::Number(Number::Column(Field::Latency)) => {
                Necessary { min_latency_ns: least(test), ..Necessary::default() }
            }
            Source::Number(Number::Column(field @ (Field::Pid | Field::Tid)))
            | Source::Text(Text::Column(
                field @ (Field::Comm | Field::Process | Field::Name | Field::Kind | Field::FdType),
            )) => listed().map_or_else(Necessary::default, |values| of(field, values)),
            Source::Text(Text::Column(Field::Device | Field::Dev) | Text::Either(Field::Device, Field::Dev)) => {
                let number = |value: String| value.replace(',', ":");
                listed().map_or_else(Necessary::default, |values| {
                    of(Field::Device, values.into_iter().map(number).collect())
                })
            }
            Source::Address(..) | Source::Ip(..) => of(Field::FdType, INTERNET.map(str::to_owned).to_vec()),
            Source::Bool(Bool::Among(field, names))
                if matches!(test, Test::Compare(Comparison::Eq, Value::Bool(true))) =>
            {
                of(field, names.iter().map(ToString::to_string).collect())
            }
            _ => Necessary::default(),
        }
    }

    /// Of an event that passes two filters.
    fn both(mut self, other: Necessary) -> Necessary {
        self.min_latency_ns = self.min_latency_ns.max(other.min_latency_ns);
        for (field, values) in other.any_of {
            let mine = self.any_of.entry(field).or_insert_with(|| values.clone());
            let common: BTreeSet<_> = mine.intersection(&values).cloned().collect();
            // Without a common value no event passes; a capture takes an empty list for no condition, so one stays.
            if !common.is_empty() {
                *mine = common;
            }
        }
        self
    }

    /// Of an event that passes one of two filters.
    fn either(mut self, mut other: Necessary) -> Necessary {
        self.min_latency_ns = self.min_latency_ns.min(other.min_latency_ns);
        self.any_of.retain(|field, values| match other.any_of.remove(field) {
            Some(more) => {
                values.extend(more);
                true
            }
            None => false,
        });
        self
    }
}

/// A value as text, if it is one that compares as written.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The least latency that passes.
fn least(test: &Test) -> u64 {
    let of = |value: &Value| if let Value::Duration(ns) = value { *ns } else { 0 };
    match test {
        Test::Compare(Comparison::Eq | Comparison::Ge, value) | Test::Between(value, _) => of(value),
        Test::Compare(Comparison::Gt, value) => of(value).saturating_add(1),
        Test::In(values) => values.iter().map(of).min().unwrap_or(0),
        _ => 0,
    }
}
