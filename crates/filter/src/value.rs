//! Values as they are written, read by the type of the field that they are compared with.

use crate::address::Network;
use crate::fields::Kind;
use latscope_event::{TimeLiteral, parse_duration, parse_size};

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    Moment(TimeLiteral),
    Duration(u64),
    Bytes(u64),
    Number(i64),
    Text(String),
    Bool(bool),
    /// An address or a network.
    Network(Network),
}

impl Value {
    /// Reads a value of this kind.
    ///
    /// # Errors
    /// A phrase without a full stop: what the text is not.
    pub fn parse(kind: Kind, text: &str) -> Result<Value, String> {
        match kind {
            Kind::Time => TimeLiteral::parse(text).map(Value::Moment),
            Kind::Elapsed => duration(text.strip_prefix('+').unwrap_or(text)),
            Kind::Duration => duration(text),
            Kind::Bytes => {
                parse_size(text).or_else(|error| whole(text).ok_or(error)).map(Value::Bytes).map_err(|e| e.to_string())
            }
            Kind::Number => number(text).map(Value::Number).ok_or_else(|| format!("\"{text}\" is not a whole number")),
            Kind::Text => Ok(Value::Text(text.into())),
            Kind::Ip | Kind::Net => Network::parse(text, kind == Kind::Ip).map(Value::Network),
            Kind::Bool => match text.to_ascii_lowercase().as_str() {
                "true" | "1" => Ok(Value::Bool(true)),
                "false" | "0" => Ok(Value::Bool(false)),
                _ => Err(format!("\"{text}\" is neither true nor false")),
            },
        }
    }
}

impl Value {
    /// Whether it is less than another of its kind; moments cannot be known before the trace is known.
    pub fn is_below(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Duration(one), Value::Duration(other)) | (Value::Bytes(one), Value::Bytes(other)) => one < other,
            (Value::Number(one), Value::Number(other)) => one < other,
            (Value::Text(one), Value::Text(other)) => one < other,
            _ => false,
        }
    }
}

fn duration(text: &str) -> Result<Value, String> {
    parse_duration(text).map(Value::Duration).map_err(|error| error.to_string())
}

fn whole(text: &str) -> Option<u64> {
    number(text).and_then(|number| u64::try_from(number).ok())
}

/// A whole number: decimal, `0x` hexadecimal, or with a fraction or exponent that leaves it whole (`1e6`).
fn number(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let magnitude = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) if hex.starts_with(|c: char| c.is_ascii_hexdigit()) => i128::from_str_radix(hex, 16).ok()?,
        Some(_) => return None,
        None => match digits.replace('_', "").parse::<i128>() {
            Ok(number) => number,
            Err(_) => {
                let float = digits.parse::<f64>().ok().filter(|float| float.fract() == 0.0 && *float < 9e15)?;
                float as i128
            }
        },
    };
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

/// Whether a bare word looks like a number with a unit, so that a comparison of a text with it is a slip.
pub(crate) fn looks_numeric(text: &str) -> Option<&'static str> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+') {
        None
    } else if number(text).is_some() {
        Some("a number")
    } else if parse_duration(text).is_ok() {
        Some("a duration")
    } else if parse_size(text).is_ok() {
        Some("a size")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_any_base() {
        for (text, value) in [
            ("0", Some(0)),
            ("-2", Some(-2)),
            ("+7", Some(7)),
            ("0x10", Some(16)),
            ("-0x10", Some(-16)),
            ("1e3", Some(1000)),
            ("1_000", Some(1000)),
            ("2.0", Some(2)),
            ("2.5", None),
            ("", None),
            ("-", None),
            ("0x", None),
            ("0x+1", None),
            ("--1", None),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("inf", None),
            ("1e400", None),
        ] {
            assert_eq!(number(text), value, "{text}");
        }
    }
}
