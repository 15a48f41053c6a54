//! What is wrong with a filter, and where.

use std::ops::Range;

/// A filter that is not understood.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct FilterError {
    message: String,
    filter: String,
    span: Range<usize>,
    nearest: Vec<&'static str>,
}

/// How much of a long filter is shown around the place.
const SHOWN: usize = 100;

impl FilterError {
    pub(crate) fn at(span: Range<usize>, message: impl Into<String>) -> FilterError {
        FilterError { message: message.into(), filter: String::new(), span, nearest: Vec::new() }
    }

    pub(crate) fn nearest_to(mut self, nearest: Vec<&'static str>) -> FilterError {
        self.nearest = nearest;
        self
    }

    pub(crate) fn within(mut self, filter: &str) -> FilterError {
        self.filter = filter.into();
        self
    }

    /// The bytes of the filter that are wrong; empty at its end when something is missing there.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// The names that were perhaps meant, the nearest first.
    pub fn nearest(&self) -> &[&'static str] {
        &self.nearest
    }

    /// The line of the filter, a line that points at the wrong place and, where a name was not known, a line with
    /// the nearest ones.
    pub fn caret(&self) -> String {
        let start = self.span.start.min(self.filter.len());
        let line_start = self.filter[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = self.filter[start..].find('\n').map_or(self.filter.len(), |at| start + at);
        let line: Vec<char> = self.filter[line_start..line_end].chars().collect();
        let column = self.filter[line_start..start].chars().count();
        let end = self.span.end.clamp(start, line_end);
        let width = self.filter[start..end].chars().count().max(1);

        let first = if column > SHOWN / 2 && line.len() > SHOWN { column - SHOWN / 2 } else { 0 };
        let last = line.len().min(first + SHOWN);
        let (before, after) = (if first > 0 { "…" } else { "" }, if last < line.len() { "…" } else { "" });
        // Control characters would move the caret, and a terminal should not see them anyway.
        let shown: String = line[first..last].iter().map(|&c| if c.is_control() { ' ' } else { c }).collect();
        let indent = " ".repeat(column - first + before.chars().count());
        let carets = "^".repeat(width.min((last + 1).saturating_sub(column)).max(1));
        let mut text = format!("{before}{shown}{after}\n{indent}{carets}");
        if let Some((last, others)) = self.nearest.split_last() {
            text += "\ndid you mean ";
            if !others.is_empty() {
                text += &format!("{} or ", others.join(", "));
            }
            text += &format!("{last}?");
        }
        text
    }
}
