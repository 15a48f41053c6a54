//! From the text of a filter to its typed tree: recursive descent, with types checked where a test is read, so that
//! every message can point at its place.

use crate::comparison::Comparison;
use crate::fields::{self, Bool, FilterField, Kind, Number, Part, Source, Text};
use crate::lexer::{Cursor, Literal};
use crate::nearest::nearest;
use crate::text::TextTest;
use crate::tree::{Expr, Match, Subject, Term, Test, Transform};
use crate::value::{Value, looks_numeric};
use crate::{FilterError, sysdig};
use latscope_event::{TimeLiteral, parse_duration, parse_size};
use std::ops::Range;

/// How deep brackets, and `and`, `or` and `not`, may nest.
const DEPTH: usize = 100;

type Parsed<T> = Result<T, FilterError>;

/// The moments of a filter, and where each was written.
pub(crate) type Moments = Vec<(TimeLiteral, Range<usize>)>;

struct Parser<'a> {
    cursor: Cursor<'a>,
    depth: usize,
    moments: Moments,
}

/// What stands between a field and a value.
enum Operator {
    Exists,
    Compare(Comparison),
    Match(Match),
    In,
    PathPrefix,
    Between,
}

/// A field or a literal on the right of an operator.
enum Right {
    Subject(Subject),
    Literal(Literal),
}

/// The tree, and the moments in it.
pub(crate) fn parse(text: &str) -> Parsed<(Expr, Moments)> {
    let mut parser = Parser { cursor: Cursor::new(text), depth: 0, moments: Vec::new() };
    if parser.cursor.position() == text.len() {
        return Err(FilterError::at(0..text.len(), "The filter is empty; omit it to see all events."));
    }
    let expr = parser.any_of()?;
    let span = parser.cursor.next_span();
    if span.start < text.len() {
        let (before, word) = (text[..span.start].trim_end(), &text[span.clone()]);
        let is_unit = parse_duration(&format!("1{word}")).is_ok() || parse_size(&format!("1{word}")).is_ok();
        let message = if word == ")" {
            "This bracket has no opening bracket.".to_string()
        } else if before.ends_with(|c: char| c.is_ascii_digit()) && is_unit {
            "Write a unit directly after its number, as in 1ms, or put both in quotes.".to_string()
        } else {
            format!(
                "Expected \"and\" or \"or\" after a complete test, not {}; put text with blanks or signs in quotes.",
                shown(word)
            )
        };
        return Err(FilterError::at(span, message));
    }
    if expr.height() > DEPTH {
        return Err(too_deep(0..text.len()));
    }
    Ok((expr, parser.moments))
}

fn too_deep(span: Range<usize>) -> FilterError {
    FilterError::at(span, format!("The filter nests deeper than {DEPTH} levels."))
}

/// What was found instead, for a message.
fn shown(text: &str) -> String {
    if text.is_empty() { "the end".into() } else { format!("\"{}\"", text.escape_debug()) }
}

impl Parser<'_> {
    fn any_of(&mut self) -> Parsed<Expr> {
        let mut parts = vec![self.all_of()?];
        while self.cursor.sign("||") || self.cursor.keyword("or") {
            parts.push(self.all_of()?);
        }
        Ok(Expr::join(parts, false))
    }

    fn all_of(&mut self) -> Parsed<Expr> {
        let mut parts = vec![self.negation()?];
        while self.cursor.sign("&&") || self.cursor.keyword("and") {
            parts.push(self.negation()?);
        }
        Ok(Expr::join(parts, true))
    }

    fn negation(&mut self) -> Parsed<Expr> {
        let mut negated = false;
        while self.cursor.sign("!") || self.cursor.keyword("not") {
            negated = !negated;
        }
        let inner = self.check()?;
        Ok(if negated { Expr::Not(Box::new(inner)) } else { inner })
    }

    fn check(&mut self) -> Parsed<Expr> {
        let start = self.cursor.position();
        if !self.cursor.sign("(") {
            return self.term();
        }
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(too_deep(self.cursor.span_from(start)));
        }
        let inner = self.any_of()?;
        self.close(")", start)?;
        self.depth -= 1;
        Ok(inner)
    }

    /// Takes the closing bracket for the one at `open`.
    fn close(&mut self, bracket: &str, open: usize) -> Parsed<()> {
        if self.cursor.sign(bracket) {
            return Ok(());
        }
        let span = self.cursor.next_span();
        if span.is_empty() {
            return Err(FilterError::at(
                open..open + 1,
                format!("This bracket is not closed; \"{bracket}\" is missing."),
            ));
        }
        Err(FilterError::at(span, format!("Expected \"{bracket}\" here.")))
    }

    fn term(&mut self) -> Parsed<Expr> {
        let start = self.cursor.position();
        let subject = self.subject()?;
        let span = self.cursor.span_from(start);
        if subject.field.source == Source::Around {
            return self.around(subject, span);
        }
        let kind = subject.kind();
        let at = self.cursor.position();
        let operator = match self.operator()? {
            Some(operator) => operator,
            None if kind == Kind::Bool => {
                self.cursor.back_to(span.end);
                let test = Test::Compare(Comparison::Eq, Value::Bool(true));
                return Ok(Expr::Term(Term { subject, test }));
            }
            None => {
                let next = self.cursor.next_span();
                let message = format!(
                    "Expected a comparison after {subject}, which is {}, as in {subject} {}.",
                    kind.phrase(),
                    kind.example()
                );
                return Err(FilterError::at(if next.is_empty() { span } else { next }, message));
            }
        };
        check_operator(&operator, &subject, self.cursor.span_from(at))?;
        self.test(subject, operator)
    }

    fn subject(&mut self) -> Parsed<Subject> {
        let mut transforms = Vec::new();
        let mut opened = Vec::new();
        loop {
            let Some((name, span)) = self.cursor.name() else {
                let span = self.cursor.next_span();
                let found = shown(&self.cursor.rest()[..span.len()]);
                return Err(FilterError::at(span, format!("Expected the name of a field, not {found}.")));
            };
            let (start, field_end) = (span.start, span.end);
            if !self.cursor.sign("(") {
                self.cursor.back_to(field_end);
                let field = self.field(name, span.clone())?;
                let is_phase = field.source == Source::Number(Number::Phase);
                let period_ns = if is_phase { Some(self.period(span)?) } else { None };
                for open in opened.into_iter().rev() {
                    self.close(")", open)?;
                }
                if !transforms.is_empty() && field.kind() != Kind::Text {
                    let message = format!("{name} is {}; functions need text.", field.kind().phrase());
                    return Err(FilterError::at(start..field_end, message));
                }
                transforms.reverse();
                return Ok(Subject { field, period_ns, transforms });
            }
            opened.push(field_end);
            let known = Transform::NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            let Some(&(_, transform)) = known else {
                return Err(unknown_function(name, span));
            };
            if transform == Transform::Length && !transforms.is_empty() {
                return Err(FilterError::at(span, "len() is a number, not text, so no function can be applied to it."));
            }
            transforms.push(transform);
        }
    }

    fn field(&mut self, name: &str, span: Range<usize>) -> Parsed<&'static FilterField> {
        let Some(field) = fields::find(name) else {
            if let Some(sentence) = sysdig::not_recorded(name) {
                return Err(FilterError::at(span, sentence));
            }
            let message = if name.contains('.') {
                format!("{name} is not a field; \"latscope fields\" lists them all.")
            } else {
                format!("{name} is not a field, and macros are not supported; \"latscope fields\" lists the fields.")
            };
            return Err(FilterError::at(span, message).nearest_to(nearest(name, fields::names())));
        };
        let takes_argument = matches!(field.source, Source::Around | Source::Number(Number::Phase));
        if self.cursor.rest().starts_with('[') && !takes_argument {
            return Err(FilterError::at(span, format!("{name} takes no argument in square brackets.")));
        }
        Ok(field)
    }

    /// The period of `evt.phase[P]`.
    fn period(&mut self, span: Range<usize>) -> Parsed<u64> {
        let wanted = "Use the form evt.phase[P], where P is a duration, as in evt.phase[10s] < 1s.";
        let open = self.cursor.position();
        if !self.cursor.sign("[") {
            return Err(FilterError::at(span, wanted));
        }
        let Some(literal) = self.cursor.value(&[']'])? else {
            return Err(FilterError::at(self.cursor.next_span(), wanted));
        };
        let at = |sentence: String| FilterError::at(literal.span.clone(), sentence);
        let period_ns = parse_duration(&literal.text).map_err(|error| at(format!("{error}.")))?;
        if period_ns == 0 {
            return Err(at("A period is longer than 0.".into()));
        }
        self.close("]", open)?;
        Ok(period_ns)
    }

    /// `evt.around[T] = D`.
    fn around(&mut self, subject: Subject, span: Range<usize>) -> Parsed<Expr> {
        let wanted = "Use the form evt.around[MOMENT]=D, where D is in milliseconds or has a unit.";
        let open = self.cursor.position();
        if !subject.transforms.is_empty() || !self.cursor.sign("[") {
            return Err(FilterError::at(span, wanted));
        }
        let Some(literal) = self.cursor.value(&[']'])? else {
            return Err(FilterError::at(self.cursor.next_span(), wanted));
        };
        let moment = TimeLiteral::parse(&literal.text)
            .map_err(|error| FilterError::at(literal.span.clone(), format!("{error}.")))?;
        self.moments.push((moment, literal.span));
        self.close("]", open)?;
        if !self.cursor.sign("==") && !self.cursor.sign("=") {
            return Err(FilterError::at(self.cursor.next_span(), wanted));
        }
        let Some(literal) = self.cursor.value(&[])? else {
            return Err(FilterError::at(self.cursor.next_span(), wanted));
        };
        let bare = literal.text.parse::<f64>().is_ok();
        let text = if bare { format!("{}ms", literal.text) } else { literal.text };
        let ns = parse_duration(&text).map_err(|error| FilterError::at(literal.span, format!("{error}.")))?;
        Ok(Expr::Term(Term { subject, test: Test::Around(moment, ns) }))
    }

    fn operator(&mut self) -> Parsed<Option<Operator>> {
        for &(sign, comparison) in Comparison::SIGNS {
            if self.cursor.sign(sign) {
                return Ok(Some(Operator::Compare(comparison)));
            }
        }
        let start = self.cursor.position();
        for word in ["bcontains", "bstartswith"] {
            if self.cursor.keyword(word) {
                let message =
                    format!("{word} cannot be used, because the data that was read and written is not recorded.");
                return Err(FilterError::at(self.cursor.span_from(start), message));
            }
        }
        if let Some(&(_, operator)) = Match::NAMES.iter().find(|(name, _)| self.cursor.keyword(name)) {
            return Ok(Some(Operator::Match(operator)));
        }
        Ok(if self.cursor.keyword("exists") {
            Some(Operator::Exists)
        } else if self.cursor.keyword("in") || self.cursor.keyword("intersects") {
            // A field has one value, so both ask whether the list holds it.
            Some(Operator::In)
        } else if self.cursor.keyword("pmatch") {
            Some(Operator::PathPrefix)
        } else if self.cursor.keyword("between") {
            Some(Operator::Between)
        } else {
            None
        })
    }

    fn test(&mut self, subject: Subject, operator: Operator) -> Parsed<Expr> {
        let test = match operator {
            Operator::Exists => Test::Exists,
            Operator::Compare(comparison) => match self.quantified()? {
                Some((all, list)) => {
                    let test = |parser: &mut Self, literal| {
                        Ok(Test::Compare(comparison, parser.value(&subject, Some(comparison), literal)?))
                    };
                    return self.each(&subject, all, list, test);
                }
                None => match self.right(&subject)? {
                    Right::Subject(other) => Test::CompareWith(comparison, other),
                    Right::Literal(literal) => {
                        Test::Compare(comparison, self.value(&subject, Some(comparison), literal)?)
                    }
                },
            },
            Operator::Match(operator) => match self.patterns(operator)? {
                Some((all, list)) => {
                    return self.each(&subject, all, list, |_, literal| pattern(operator, &literal));
                }
                None => match self.pattern_or_field(operator, &subject)? {
                    Right::Literal(literal) => pattern(operator, &literal)?,
                    Right::Subject(_) if is_pattern(operator) => {
                        return Err(FilterError::at(
                            self.cursor.next_span(),
                            format!("The pattern of {operator} must be a literal, not a field."),
                        ));
                    }
                    Right::Subject(other) => Test::MatchWith(operator, other),
                },
            },
            Operator::Between => {
                let from = self.required(&subject, &[])?;
                if !self.cursor.keyword("and") && !self.cursor.sign("&&") {
                    return Err(FilterError::at(
                        self.cursor.next_span(),
                        "between needs two values, as in lat between 1ms and 5ms.",
                    ));
                }
                let to = self.required(&subject, &[])?;
                self.range(&subject, from, to)?
            }
            Operator::In => match self.list_or_range(&subject)? {
                InList::Range(test) => test,
                InList::Field(other) => Test::CompareWith(Comparison::Eq, other),
                InList::List(list) => {
                    let values = list.into_iter().map(|literal| self.value(&subject, None, literal));
                    Test::In(values.collect::<Parsed<_>>()?)
                }
            },
            Operator::PathPrefix => {
                let start = self.cursor.position();
                let InList::List(list) = self.list_or_range(&subject)? else {
                    let message = "pmatch needs a list of paths, as in fd.name pmatch (/etc, /var/log).";
                    return Err(FilterError::at(self.cursor.span_from(start), message));
                };
                let paths: Vec<_> = list.into_iter().map(|literal| literal.text).collect();
                TextTest::path_prefix(&paths)
                    .map_err(|sentence| FilterError::at(self.cursor.span_from(start), sentence))?;
                Test::PathPrefix(paths)
            }
        };
        Ok(Expr::Term(Term { subject, test }))
    }

    /// `oneof`, `anyof` or `allof` and a list, after an operator.
    fn quantified(&mut self) -> Parsed<Option<(bool, Vec<Literal>)>> {
        let start = self.cursor.position();
        let all = self.cursor.keyword("allof");
        if (all || self.cursor.keyword("anyof") || self.cursor.keyword("oneof")) && self.cursor.sign("(") {
            let list = self.list()?;
            if list.is_empty() {
                return Err(FilterError::at(self.cursor.span_from(start), "This list needs at least one value."));
            }
            return Ok(Some((all, list)));
        }
        self.cursor.back_to(start);
        Ok(None)
    }

    /// A list of texts or patterns.
    fn patterns(&mut self, operator: Match) -> Parsed<Option<(bool, Vec<Literal>)>> {
        self.cursor.is_pattern = is_pattern(operator);
        let list = self.quantified();
        self.cursor.is_pattern = false;
        list
    }

    /// A text, a pattern or a field.
    fn pattern_or_field(&mut self, operator: Match, subject: &Subject) -> Parsed<Right> {
        self.cursor.is_pattern = is_pattern(operator);
        let right = self.right(subject);
        self.cursor.is_pattern = false;
        right
    }

    /// The same test for each value of a list, joined.
    fn each(
        &mut self,
        subject: &Subject,
        all: bool,
        list: Vec<Literal>,
        mut test: impl FnMut(&mut Self, Literal) -> Parsed<Test>,
    ) -> Parsed<Expr> {
        let term = |literal| Ok(Expr::Term(Term { subject: subject.clone(), test: test(self, literal)? }));
        Ok(Expr::join(list.into_iter().map(term).collect::<Parsed<_>>()?, all))
    }

    /// What an operator compares with: `val(field)`, a transformed field, or a literal.
    fn right(&mut self, subject: &Subject) -> Parsed<Right> {
        if let Some(other) = self.other_field(subject)? {
            return Ok(Right::Subject(other));
        }
        self.required(subject, &[]).map(Right::Literal)
    }

    fn other_field(&mut self, subject: &Subject) -> Parsed<Option<Subject>> {
        let start = self.cursor.position();
        let transformed = match self.cursor.name() {
            Some((name, _)) if self.cursor.rest().starts_with('(') => {
                if !name.eq_ignore_ascii_case("val") && !Transform::NAMES.iter().any(|(known, _)| *known == name) {
                    return Err(unknown_function(name, self.cursor.span_from(start)));
                }
                !name.eq_ignore_ascii_case("val")
            }
            _ => {
                self.cursor.back_to(start);
                return Ok(None);
            }
        };
        let other = if transformed {
            self.cursor.back_to(start);
            self.subject()?
        } else {
            let open = self.cursor.position();
            self.cursor.sign("(");
            let other = self.subject()?;
            self.close(")", open)?;
            other
        };
        let span = self.cursor.span_from(start);
        if other.kind() != subject.kind() {
            let message = format!("{subject} is {} and {other} is {}.", subject.kind().phrase(), other.kind().phrase());
            return Err(FilterError::at(span, message));
        }
        for side in [subject, &other] {
            if !has_one_column(side.field.source) {
                return Err(FilterError::at(span, format!("{side} cannot be compared with another field.")));
            }
        }
        Ok(Some(other))
    }

    /// A literal that has to be there.
    fn required(&mut self, subject: &Subject, stops: &[char]) -> Parsed<Literal> {
        if let Some(literal) = self.cursor.value(stops)? {
            return Ok(literal);
        }
        let span = self.cursor.next_span();
        let found = shown(&self.cursor.rest()[..span.len()]);
        let message = format!("Expected a value to compare {subject} with, not {found}.");
        Err(FilterError::at(span, message))
    }

    fn value(&mut self, subject: &Subject, comparison: Option<Comparison>, literal: Literal) -> Parsed<Value> {
        let kind = subject.kind();
        let ordered = !matches!(comparison, None | Some(Comparison::Eq | Comparison::Ne));
        if kind == Kind::Text
            && ordered
            && !literal.quoted
            && let Some(what) = looks_numeric(&literal.text)
        {
            let message = format!(
                "{subject} is text and {} is {what}; put quotes around it to compare alphabetically.",
                literal.text
            );
            return Err(FilterError::at(literal.span, message));
        }
        let text = meant(subject, &literal.text);
        let value = Value::parse(kind, &text).map_err(|phrase| {
            let hint = match fields::find(&text) {
                Some(_) => format!("; write val({text}) to compare with that field"),
                None => format!("; {subject} is {}", kind.phrase()),
            };
            FilterError::at(literal.span.clone(), format!("{phrase}{hint}."))
        })?;
        if comparison.is_none_or(|comparison| matches!(comparison, Comparison::Eq | Comparison::Ne)) {
            crate::slips::check(subject, &text, &value)
                .map_err(|(sentence, nearest)| FilterError::at(literal.span.clone(), sentence).nearest_to(nearest))?;
        }
        if let Value::Moment(moment) = value {
            self.moments.push((moment, literal.span));
        }
        Ok(value)
    }

    fn range(&mut self, subject: &Subject, from: Literal, to: Literal) -> Parsed<Test> {
        let span = from.span.start..to.span.end;
        let from = self.value(subject, Some(Comparison::Ge), from)?;
        let to = self.value(subject, Some(Comparison::Le), to)?;
        if to.is_below(&from) {
            let message = format!("This range ends before it starts; write [{to}, {from}].");
            return Err(FilterError::at(span, message));
        }
        Ok(Test::Between(from, to))
    }

    fn list_or_range(&mut self, subject: &Subject) -> Parsed<InList> {
        let open = self.cursor.position();
        if self.cursor.sign("(") {
            return self.list().map(InList::List);
        }
        if has_order(subject.kind()) && self.cursor.sign("[") {
            let from = self.required(subject, &[']'])?;
            let comma = self.cursor.sign(",");
            let to = if comma { self.required(subject, &[']'])? } else { from.clone() };
            self.close("]", open)?;
            if !comma {
                let message = "A range has two ends, as in lat in [1ms, 5ms].";
                return Err(FilterError::at(self.cursor.span_from(open), message));
            }
            return self.range(subject, from, to).map(InList::Range);
        }
        self.cursor.back_to(open);
        if let Some(other) = self.other_field(subject)? {
            return Ok(InList::Field(other));
        }
        let message = "Expected a list in parentheses, as in (a, b); named lists are not supported.";
        Err(FilterError::at(self.cursor.next_span(), message))
    }

    /// The rest of a list whose bracket is open.
    fn list(&mut self) -> Parsed<Vec<Literal>> {
        let mut list = Vec::new();
        loop {
            match self.cursor.value(&[])? {
                Some(literal) => list.push(literal),
                None if list.is_empty() && self.cursor.sign(")") => return Ok(list),
                None => {
                    return Err(FilterError::at(self.cursor.next_span(), "Expected a value of the list."));
                }
            }
            if self.cursor.sign(")") {
                return Ok(list);
            }
            if !self.cursor.sign(",") {
                let message = "Expected a comma or the closing parenthesis after a value of a list.";
                return Err(FilterError::at(self.cursor.next_span(), message));
            }
        }
    }
}

/// What follows `in`.
enum InList {
    List(Vec<Literal>),
    Range(Test),
    Field(Subject),
}

fn unknown_function(name: &str, span: Range<usize>) -> FilterError {
    let known = Transform::NAMES.iter().map(|&(name, _)| name);
    let message = match name {
        "b64" | "join" | "concat" | "getopt" => {
            format!("{name}() cannot be used here; the functions are tolower, toupper, basename and len.")
        }
        "val" => "val() can only be used on the right of an operator, as in lat > val(queue_ns).".to_string(),
        _ => format!("{name} is not a function; the functions are tolower, toupper, basename and len."),
    };
    FilterError::at(span, message).nearest_to(nearest(name, known))
}

fn pattern(operator: Match, literal: &Literal) -> Parsed<Test> {
    TextTest::compile(operator, &literal.text).map_err(|sentence| FilterError::at(literal.span.clone(), sentence))?;
    Ok(Test::Match(operator, literal.text.clone()))
}

fn check_operator(operator: &Operator, subject: &Subject, span: Range<usize>) -> Parsed<()> {
    let kind = subject.kind();
    let allowed = match (operator, kind) {
        (Operator::Exists | Operator::In, _) | (_, Kind::Text) => true,
        (Operator::Compare(Comparison::Eq | Comparison::Ne), _) => true,
        (Operator::Compare(_) | Operator::Between, kind) => has_order(kind),
        (Operator::Match(_) | Operator::PathPrefix, _) => false,
    };
    let fits = if has_order(kind) { "= != < <= > >= in between exists" } else { "= != in exists" };
    if allowed {
        return Ok(());
    }
    let message = format!("This operator does not apply to {subject}, which is {}; use one of {fits}.", kind.phrase());
    Err(FilterError::at(span, message))
}

/// Whether a value can be less than another.
fn has_order(kind: Kind) -> bool {
    !matches!(kind, Kind::Bool | Kind::Ip | Kind::Net)
}

/// Whether each row holds one value of it in one place.
fn has_one_column(source: Source) -> bool {
    !matches!(
        source,
        Source::Text(Text::Either(..) | Text::Outcome | Text::Completed | Text::Part(_, Part::Frame | Part::Pair))
            | Source::Bool(Bool::Failed | Bool::MainThread | Bool::Among(..) | Bool::Column(_))
            | Source::Address(..)
            | Source::Ip(..)
            | Source::Around
    )
}

fn is_pattern(operator: Match) -> bool {
    matches!(operator, Match::Glob | Match::GlobAnyCase | Match::Regex)
}

/// What a value stands for: in the number of a device a comma is as good as a colon, and `/dev/sda` is `sda`.
fn meant(subject: &Subject, text: &str) -> String {
    let is_device = matches!(subject.field.name(), "dev" | "disk.dev" | "device");
    match text.strip_prefix("/dev/").filter(|name| is_device && !name.contains('/')) {
        Some(name) => name.into(),
        None if is_device && is_pair_of_numbers(text) => text.replacen(',', ":", 1),
        None => text.into(),
    }
}

fn is_pair_of_numbers(text: &str) -> bool {
    text.split_once(',').is_some_and(|(major, minor)| major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok())
}
