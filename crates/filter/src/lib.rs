//! The filter language: which events of a trace to look at.
//!
//! A [`Filter`] is parsed once, bound to the clock of a trace ([`Filter::bind`]) and evaluated over whole batches
//! ([`BoundFilter::eval`]). The language is that of sysdig and falco with units, moments and a few spellings added;
//! `docs/reference/filter.md` describes it to its users.
#![forbid(unsafe_code)]

mod address;
mod bind;
mod comparison;
mod error;
mod eval;
mod fields;
mod glob;
mod lexer;
mod nearest;
mod necessary;
mod parser;
mod ranges;
mod slips;
mod sysdig;
mod text;
mod tree;
mod value;

pub use error::FilterError;
pub use eval::BoundFilter;
pub use fields::{FilterField, filter_fields};
pub use necessary::Necessary;

use latscope_event::{FieldSet, TraceStart};

/// A filter that is known to be well formed and well typed.
#[derive(Clone, Debug)]
pub struct Filter {
    expr: tree::Expr,
    text: String,
    /// Where each moment was written, for a caret when the clock of a trace cannot resolve it.
    moments: parser::Moments,
}

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// When the text is no filter, names something that is no field, or compares what cannot be compared.
    pub fn parse(text: &str) -> Result<Filter, FilterError> {
        let (expr, moments) = parser::parse(text).map_err(|error| error.within(text))?;
        Ok(Filter { expr, text: text.into(), moments })
    }

    /// The columns that the filter looks at.
    pub fn fields(&self) -> FieldSet {
        self.expr.fields()
    }

    /// What every event fulfils that the filter lets through, for a capture that can test it early.
    pub fn necessary(&self) -> Necessary {
        Necessary::new(&self.expr)
    }

    /// The filter on these columns alone that lets every event through which this one does; `None` where this one demands
    /// nothing of them.
    pub fn only_about(&self, fields: FieldSet) -> Option<Filter> {
        let expr = self.expr.only_about(fields)?;
        Some(Filter { text: expr.to_string(), expr, moments: self.moments.clone() })
    }

    /// The last moment at which an event that passes can have completed, on the clock of a trace; `None` where the filter
    /// sets no such bound.
    pub fn latest_end_ns(&self, trace: TraceStart) -> Option<i64> {
        i64::try_from(bind::ends(&self.expr, trace).1).ok()
    }

    /// What is left of a stretch of time, on the clock of a trace, when that is left out in which no event that passes can have
    /// completed; `None` where nothing is.
    pub fn clipped(&self, (from_ns, to_ns): (i64, i64), trace: TraceStart) -> Option<(i64, i64)> {
        let (first, last) = bind::ends(&self.expr, trace);
        let clip = |ns: i128| ns.clamp(i128::from(from_ns), i128::from(to_ns)) as i64;
        let is_left = first <= last && first <= i128::from(to_ns) && last >= i128::from(from_ns);
        is_left.then(|| (clip(first), clip(last)))
    }

    /// Makes the filter ready for a trace: moments become times on its clock, patterns are compiled. A bound filter
    /// remembers what it found out about the dictionaries of its trace, so bind again for the next trace.
    ///
    /// # Errors
    /// When the clock of the trace has no relation to a moment in the filter.
    pub fn bind(&self, trace: TraceStart) -> Result<BoundFilter, FilterError> {
        bind::lower(&self.expr, trace).map(BoundFilter::new).map_err(|(literal, sentence)| {
            let place = self.moments.iter().find(|(written, _)| Some(*written) == literal);
            let span = place.map_or(0..self.text.len(), |(_, span)| span.clone());
            FilterError::at(span, sentence).within(&self.text)
        })
    }
}

/// The column of this name: its own, an alias, or a field of the filter that is a column under another name.
pub fn column(name: &str) -> Option<latscope_event::Field> {
    latscope_event::Field::from_name(name).or_else(|| fields::find(name)?.column())
}

/// Filters are equal when they mean the same tree, however it was written.
impl PartialEq for Filter {
    fn eq(&self, other: &Filter) -> bool {
        self.expr == other.expr
    }
}

/// The filter with every bracket that is implied, and with the fields' own names; parses back to an equal filter.
impl std::fmt::Display for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.expr.fmt(f)
    }
}
