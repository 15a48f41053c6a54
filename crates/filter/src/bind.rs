//! From the typed tree to what is evaluated: moments become numbers, comparisons become ranges or tests of a text,
//! fields that stand for more than one column become trees of their own, and the cheapest term comes first.

use crate::address::{AddressTest, EndTest, Ends, INTERNET, What};
use crate::comparison::Comparison;
use crate::eval::{Node, NumberAt, Pair, TextNode, TextsOf};
use crate::fields::{Bool, Number, Source, Text};
use crate::ranges::{Ranges, comparing};
use crate::text::{Step, TextTest};
use crate::tree::{Expr, Subject, Term, Test, Transform};
use crate::value::Value;
use latscope_event::{Field, TimeLiteral, TraceStart};

/// A moment that the clock of the trace does not know, and why.
type Unresolved = (Option<TimeLiteral>, String);
type Lowered<T> = Result<T, Unresolved>;

/// Prepares a tree for the trace with this clock.
pub(crate) fn lower(expr: &Expr, trace: TraceStart) -> Lowered<Node> {
    let all = |parts: &[Expr]| {
        let mut nodes = parts.iter().map(|part| lower(part, trace)).collect::<Lowered<Vec<_>>>()?;
        nodes.sort_by_key(Node::cost);
        Ok(nodes)
    };
    Ok(match expr {
        Expr::And(parts) => Node::And(all(parts)?),
        Expr::Or(parts) => Node::Or(all(parts)?),
        Expr::Not(inner) => not(lower(inner, trace)?),
        Expr::Term(term) => lower_term(term, trace)?,
    })
}

/// The first and the last moment at which an event that passes can have completed; the ends of all numbers where there is no
/// such bound, and the last before the first where none can pass.
pub(crate) fn ends(expr: &Expr, trace: TraceStart) -> (i128, i128) {
    const ANY: (i128, i128) = (i128::MIN, i128::MAX);
    const NONE: (i128, i128) = (i128::MAX, i128::MIN);
    match expr {
        Expr::And(parts) => {
            parts.iter().map(|part| ends(part, trace)).fold(ANY, |all, one| (all.0.max(one.0), all.1.min(one.1)))
        }
        Expr::Or(parts) => parts.iter().map(|part| ends(part, trace)).fold(NONE, hull),
        Expr::Not(_) => ANY,
        Expr::Term(Term { subject, test }) => {
            let ranges = match (subject.field.source, test) {
                (Source::Around, Test::Around(moment, ns)) => moment.resolve(trace).ok().map(|middle| {
                    let (middle, width) = (i128::from(middle), i128::from(*ns));
                    vec![(middle - width, middle + width)]
                }),
                (Source::Number(Number::End), Test::Compare(..) | Test::Between(..) | Test::In(_)) => {
                    ranges_of(test, trace).ok()
                }
                (Source::Number(Number::SinceStart), Test::Compare(..) | Test::Between(..) | Test::In(_)) => {
                    let ranges = ranges_of(test, trace).ok();
                    ranges.zip(start(trace).ok()).map(|(ranges, start)| moved(&ranges, start))
                }
                _ => None,
            };
            ranges.map_or(ANY, |ranges| ranges.into_iter().fold(NONE, hull))
        }
    }
}

fn hull(all: (i128, i128), one: (i128, i128)) -> (i128, i128) {
    (all.0.min(one.0), all.1.max(one.1))
}

/// Ranges of times since the start as ranges of times.
fn moved(ranges: &[(i128, i128)], start: i64) -> Vec<(i128, i128)> {
    let start = i128::from(start);
    ranges.iter().map(|(from, to)| (from.saturating_add(start), to.saturating_add(start))).collect()
}

fn not(node: Node) -> Node {
    Node::Not(Box::new(node))
}

fn lower_term(Term { subject, test }: &Term, trace: TraceStart) -> Lowered<Node> {
    match test {
        Test::CompareWith(comparison, other) => return pair(subject, Pair::Compare(*comparison), other, trace),
        Test::MatchWith(operator, other) => return pair(subject, Pair::Match(*operator), other, trace),
        _ => {}
    }
    match subject.field.source {
        Source::Around => {
            let Test::Around(moment, ns) = *test else { return Ok(Node::Const(false)) };
            let (middle, width) = (i128::from(resolve(moment, trace)?), i128::from(ns));
            let ranges = Ranges::signed(&[(middle - width, middle + width)]);
            Ok(Node::Number(NumberAt::End, ranges))
        }
        Source::Number(number) => {
            let wanted = ranges_of(test, trace)?;
            let at = number_at(number, subject, trace)?;
            Ok(match number {
                Number::One => Node::Const(Ranges::signed(&wanted).holds(crate::ranges::signed_key(1))),
                // Counted from the start: it is the ranges that move, not the value of every row.
                Number::SinceStart => Node::Number(NumberAt::End, Ranges::signed(&moved(&wanted, start(trace)?))),
                _ if at.is_unsigned() => Node::Number(at, Ranges::unsigned(&wanted)),
                _ => Node::Number(at, Ranges::signed(&wanted)),
            })
        }
        Source::Text(text) => Ok(lower_text(text, subject, text_test(subject, test, trace)?)),
        Source::Bool(source) => Ok(lower_bool(source, test)),
        Source::Address(ends, what) => {
            // The text of a socket is an address only where the file descriptor is one: files may have any name.
            let internet = TextTest::In(INTERNET.map(str::to_owned).to_vec());
            let internet = Node::Text(TextNode::new(Field::FdType, Vec::new(), internet));
            Ok(Node::And(vec![internet, lower_address(Field::Path, ends, what, test, trace)?]))
        }
        Source::Ip(field, what) => lower_address(field, Ends::Itself, what, test, trace),
    }
}

fn resolve(moment: TimeLiteral, trace: TraceStart) -> Lowered<i64> {
    moment.resolve(trace).map_err(|sentence| (Some(moment), sentence))
}

/// First moment of the trace.
fn start(trace: TraceStart) -> Lowered<i64> {
    TimeLiteral::SinceStart(0).resolve(trace).map_err(|sentence| (None, sentence))
}

fn number_at(number: Number, subject: &Subject, trace: TraceStart) -> Lowered<NumberAt> {
    Ok(match number {
        Number::Column(field) => NumberAt::Column(field),
        Number::End => NumberAt::End,
        Number::SinceStart => NumberAt::SinceStart(start(trace)?),
        Number::Seconds(base) | Number::Nanos(base) => {
            let start = if base == crate::fields::Clocked::SinceStart { start(trace)? } else { 0 };
            NumberAt::Part { base, start, nanos: matches!(number, Number::Nanos(_)) }
        }
        Number::Phase => NumberAt::Phase(subject.period_ns.unwrap_or(1)),
        Number::One => NumberAt::One,
    })
}

/// The numbers that pass a test.
fn ranges_of(test: &Test, trace: TraceStart) -> Lowered<Vec<(i128, i128)>> {
    let number = |value: &Value| {
        Ok(match value {
            Value::Moment(moment) => i128::from(resolve(*moment, trace)?),
            Value::Duration(value) | Value::Bytes(value) => i128::from(*value),
            Value::Number(value) => i128::from(*value),
            Value::Bool(value) => i128::from(*value),
            Value::Text(_) | Value::Network(_) => 0,
        })
    };
    Ok(match test {
        Test::Exists => vec![(i128::MIN, i128::MAX)],
        Test::Compare(comparison, value) => comparing(*comparison, number(value)?),
        Test::Between(from, to) => vec![(number(from)?, number(to)?)],
        Test::In(values) => {
            values.iter().map(|value| number(value).map(|value| (value, value))).collect::<Lowered<_>>()?
        }
        // The parser lets no test of a text come here.
        _ => Vec::new(),
    })
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        other => other.to_string(),
    }
}

fn text_test(subject: &Subject, test: &Test, trace: TraceStart) -> Lowered<TextTest> {
    if subject.transforms.last() == Some(&Transform::Length) {
        return Ok(TextTest::Length(Ranges::unsigned(&ranges_of(test, trace)?)));
    }
    let compiled = match test {
        Test::Compare(comparison, value) => Ok(TextTest::Compare(*comparison, text_of(value))),
        Test::Between(from, to) => Ok(TextTest::Between(text_of(from), text_of(to))),
        Test::In(values) => {
            let mut values: Vec<_> = values.iter().map(text_of).collect();
            values.sort_unstable();
            Ok(TextTest::In(values))
        }
        Test::Match(operator, text) => TextTest::compile(*operator, text),
        Test::PathPrefix(paths) => TextTest::path_prefix(paths),
        _ => Ok(TextTest::Exists),
    };
    compiled.map_err(|sentence| (None, sentence))
}

/// What happens to the text of a column before the test.
fn steps(text: Text, subject: &Subject) -> Vec<Step> {
    let part = match text {
        Text::Part(_, part) => Some(Step::Part(part)),
        _ => None,
    };
    part.into_iter().chain(subject.transforms.iter().map(|&transform| Step::Transform(transform))).collect()
}

fn lower_text(text: Text, subject: &Subject, test: TextTest) -> Node {
    let steps = steps(text, subject);
    let node = |field, test| Node::Text(TextNode::new(field, steps.clone(), test));
    let constant = |text, test: &TextTest| crate::text::apply(&steps, text).is_some_and(|text| test.matches(&text));
    match (text, test) {
        // None of them is that text, and there is one at all.
        (Text::Part(field, part), TextTest::Compare(Comparison::Ne, text)) if part.is_each() => {
            let equal = TextTest::Compare(Comparison::Eq, text);
            Node::And(vec![node(field, TextTest::Exists), not(node(field, equal))])
        }
        (Text::Column(field) | Text::Part(field, _), test) => node(field, test),
        (Text::Completed, test) => Node::Const(constant("<", &test)),
        (Text::Either(one, other), test) => match test {
            // Neither of the two names is that text, and there is a name at all.
            TextTest::Compare(Comparison::Ne, text) => {
                let equal = TextTest::Compare(Comparison::Eq, text);
                let exists = Node::Or(vec![node(one, TextTest::Exists), node(other, TextTest::Exists)]);
                Node::And(vec![exists, not(Node::Or(vec![node(one, equal.clone()), node(other, equal)]))])
            }
            test => Node::Or(vec![node(one, test.clone()), node(other, test)]),
        },
        (Text::Outcome, test) => {
            let success = constant("SUCCESS", &test);
            let named = node(Field::Error, test);
            if success { Node::Or(vec![named, not(failed())]) } else { named }
        }
    }
}

/// A test of the addresses in a text column.
fn lower_address(field: Field, ends: Ends, what: What, test: &Test, trace: TraceStart) -> Lowered<Node> {
    let (test, is_negated) = match test {
        Test::Compare(Comparison::Ne, value) => (&Test::Compare(Comparison::Eq, value.clone()), true),
        test => (test, false),
    };
    let test = match (test, what) {
        (Test::Exists, _) => EndTest::Exists,
        (test, What::Port) => EndTest::Port(Ranges::unsigned(&ranges_of(test, trace)?)),
        (Test::Compare(_, Value::Network(network)), _) => EndTest::Within(vec![*network]),
        (Test::In(values), _) => {
            let network = |value: &Value| if let Value::Network(network) = value { Some(*network) } else { None };
            EndTest::Within(values.iter().filter_map(network).collect())
        }
        // The parser lets no other test come here.
        _ => return Ok(Node::Const(false)),
    };
    let address = TextTest::Address(AddressTest { ends, test, is_negated });
    Ok(Node::Text(TextNode::new(field, Vec::new(), address)))
}

fn failed() -> Node {
    Node::Or(vec![
        Node::Number(NumberAt::Column(Field::Result), Ranges::signed(&comparing(Comparison::Lt, 0))),
        Node::Text(TextNode::new(Field::Error, Vec::new(), TextTest::Exists)),
    ])
}

fn lower_bool(source: Bool, test: &Test) -> Node {
    let ranges = ranges_of(test, TraceStart::default()).unwrap_or_default();
    let wanted = |truth: bool| Ranges::unsigned(&ranges).holds(u64::from(truth));
    let node = |truth: bool| match source {
        Bool::Failed if truth => failed(),
        Bool::Failed => not(failed()),
        Bool::MainThread => {
            let comparison = if truth { Comparison::Eq } else { Comparison::Ne };
            Node::Numbers(NumberAt::Column(Field::Pid), comparison, NumberAt::Column(Field::Tid))
        }
        Bool::Column(field) => {
            let texts = vec![truth.to_string()];
            Node::Text(TextNode::new(field, Vec::new(), TextTest::In(texts)))
        }
        Bool::Among(field, texts) => {
            let mut texts: Vec<_> = texts.iter().map(|text| text.to_string()).collect();
            texts.sort_unstable();
            let among = Node::Text(TextNode::new(field, Vec::new(), TextTest::In(texts)));
            let exists = Node::Text(TextNode::new(field, Vec::new(), TextTest::Exists));
            if truth { among } else { Node::And(vec![exists, not(among)]) }
        }
    };
    match (wanted(true), wanted(false)) {
        (true, true) => Node::Or(vec![node(true), node(false)]),
        (false, false) => Node::Const(false),
        (truth, _) => node(truth),
    }
}

/// Two fields of a row compared with each other.
fn pair(subject: &Subject, pair: Pair, other: &Subject, trace: TraceStart) -> Lowered<Node> {
    let number = |subject: &Subject| {
        Ok(match subject.field.source {
            Source::Number(number) => Some(number_at(number, subject, trace)?),
            Source::Text(text @ (Text::Column(field) | Text::Part(field, _)))
                if subject.transforms.last() == Some(&Transform::Length) =>
            {
                Some(NumberAt::Length(TextsOf::new(field, steps(text, subject))))
            }
            _ => None,
        })
    };
    let texts = |subject: &Subject| match subject.field.source {
        Source::Text(text @ (Text::Column(field) | Text::Part(field, _))) => {
            Some(TextsOf::new(field, steps(text, subject)))
        }
        _ => None,
    };
    if let (Some(one), Pair::Compare(comparison), Some(two)) = (number(subject)?, pair, number(other)?) {
        return Ok(Node::Numbers(one, comparison, two));
    }
    Ok(match (texts(subject), texts(other)) {
        (Some(one), Some(two)) => Node::Texts(one, pair, two),
        _ => Node::Const(false),
    })
}
