//! What the words of `explain` mean.

use super::folding::fields;
use super::{Shape, shape};
use crate::{Failure, args};
use latscope_event::FieldSet;
use latscope_filter::Filter;
use latscope_pipeline::Question;
use std::path::PathBuf;

/// Plan of `explain`.
#[derive(Debug, PartialEq)]
pub struct Explain {
    pub question: Question,
    pub shape: Shape,
    pub output: Option<PathBuf>,
}

/// Plans `explain`.
pub fn plan(typed: args::Explain, selection: Option<Filter>) -> Result<Explain, Failure> {
    let against = super::filter(typed.against.as_deref().unwrap_or_default(), None)?;
    if against.is_some() && selection.is_none() {
        return Err(Failure::Usage("--against needs a selection; add a filter at the end.".into()));
    }
    if typed.input.follow {
        return Err(Failure::Usage("--follow cannot be combined with explain, which needs a complete trace.".into()));
    }
    let columns = if typed.columns.is_empty() { None } else { Some(fields("--columns", &typed.columns)?) };
    let table = args::Table { csv: false, json: typed.json };
    let columns = columns.map(FieldSet::from_iter);
    Ok(Explain {
        question: Question { selection, against, columns, seed: typed.seed, quantity: typed.quantity },
        shape: shape(table, &typed.output),
        output: typed.output,
    })
}
