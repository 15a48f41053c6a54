//! The block requests beneath system calls.

use super::{percent, sum, words};
use crate::Line;
use crate::cell::wrap;
use crate::table::{Align, Table};
use latscope_event::format_count;
use latscope_series::Quantity;
use latscope_series::explain::{Beneath, Requests};

/// A table: for how much of the time of the calls which requests were in flight.
pub fn lines(beneath: &Beneath, columns: usize) -> Vec<Line> {
    let [selection, baseline] = beneath.waiting_ns.map(|ns| sum(Quantity::Latency, ns));
    let text = format!(
        "Beneath these system calls: for how much of their time block requests were in flight (selection {selection}, \
         baseline {baseline})."
    );
    let mut lines = wrap(&text, columns);
    let mut table = Table::new([
        ("requests", Align::Left),
        ("count", Align::Right),
        ("covered", Align::Right),
        ("selection", Align::Right),
        ("baseline", Align::Right),
    ]);
    for one in &beneath.coverages {
        let name = match &one.requests {
            Requests::Any => "any".to_string(),
            Requests::OwnThread => "of the same thread".into(),
            Requests::With(conditions) => words(conditions),
        };
        let [here, there] = beneath.shares(one).map(percent);
        table.push(vec![name, format_count(one.count), sum(Quantity::Latency, one.covered_ns[0]), here, there]);
    }
    lines.push(table.heading(columns));
    lines.extend(table.take_lines(columns));
    lines.push(Line::default());
    lines
}
