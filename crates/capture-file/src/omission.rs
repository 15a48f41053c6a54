//! Requests that a generator did not make because it waited for another ("coordinated omission").
//!
//! A generator that makes a request every `interval`, but none before the last is done, and then goes on as if nothing
//! had been, leaves out those that were due meanwhile: a stall of a second counts as one slow request, not as the hundred
//! that users would have made. They are put back as HdrHistogram does it (Gil Tene): beside a latency of L stand L - I,
//! L - 2I ... down to I. That is wrong for generators that catch up, such as fio, since theirs are in the trace.

use crate::{Error, Position, Sink};
use latscope_event::{Anomaly, Batch, Column, Context, Field};
use std::ops::ControlFlow;

/// So many requests are put back beside one: more is a mistake in the interval.
const MOST: u64 = 10_000_000;

/// Which generators of a format leave requests out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Omits {
    /// They catch up, or what made the events is not known.
    Never,
    Always,
    /// Those that say so in the context (`loop`).
    IfClosedLoop,
}

/// Reads as `inner` does without it, and hands on more events.
pub fn read(
    file: &str,
    omits: Omits,
    interval_ns: u64,
    sink: &mut Sink,
    inner: impl FnOnce(&mut Sink) -> Result<Context, Error>,
) -> Result<Context, Error> {
    let wrong = |message: &str| Error::new(file, Position::File, message);
    if omits == Omits::Never {
        return Err(wrong(
            "Coordinated omission can only be corrected for generators that skip requests, as ioping and latscope \
             ping do; others (fio) catch up, so their late requests are in the trace.",
        ));
    }
    let (mut added, mut refused) = (0u64, None);
    let mut more = |context: &Context, batch: &Batch| {
        let is_closed = || context.properties.get("loop").is_some_and(|kind| kind == "closed");
        if omits == Omits::IfClosedLoop && !is_closed() {
            refused = Some("Coordinated omission can only be corrected in traces of latscope ping without --rate.");
            return ControlFlow::Break(());
        }
        if batch.latency().iter().any(|&ns| ns / interval_ns.max(1) > MOST) {
            refused = Some("The interval is so short that one slow request would add millions; check it.");
            return ControlFlow::Break(());
        }
        let mut context = context.clone();
        context.tally.add(Anomaly::Omitted, added);
        expand(batch, interval_ns.max(1), &mut added, &mut |batch| sink(&context, batch))
    };
    let context = inner(&mut more);
    match refused {
        Some(message) => Err(wrong(message)),
        None => context.map(|mut context| {
            context.tally.add(Anomaly::Omitted, added);
            context
        }),
    }
}

/// Hands on the events and those that were left out, in batches of the usual size.
fn expand(
    batch: &Batch,
    interval_ns: u64,
    added: &mut u64,
    take: &mut dyn FnMut(&Batch) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let (mut rows, mut times, mut latencies) = (Vec::new(), Vec::new(), Vec::new());
    for (row, (&time, &latency)) in batch.time().iter().zip(batch.latency()).enumerate() {
        let mut late = 0;
        loop {
            rows.push(row);
            // Due later, done at the same moment.
            times.push(time.saturating_add_unsigned(late));
            latencies.push(latency - late);
            if rows.len() == Batch::ROWS {
                take(&picked(batch, &rows, &mut times, &mut latencies))?;
                rows.clear();
            }
            late += interval_ns;
            if late > latency || latency - late < interval_ns {
                break;
            }
            *added += 1;
        }
    }
    if rows.is_empty() { ControlFlow::Continue(()) } else { take(&picked(batch, &rows, &mut times, &mut latencies)) }
}

/// A batch of these rows with other times.
fn picked(batch: &Batch, rows: &[usize], times: &mut Vec<i64>, latencies: &mut Vec<u64>) -> Batch {
    let mut picked = batch.clone();
    picked.clear();
    let column = |field: Field| match (field, batch.column(field)?) {
        (Field::Time, _) => Some(Column::I64(std::mem::take(times))),
        (Field::Latency, _) => Some(Column::U64(std::mem::take(latencies))),
        (_, Column::I64(values)) => Some(Column::I64(rows.iter().map(|&row| values[row]).collect())),
        (_, Column::U64(values)) => Some(Column::U64(rows.iter().map(|&row| values[row]).collect())),
        (_, Column::Text(codes)) => Some(Column::Text(rows.iter().map(|&row| codes[row]).collect())),
    };
    let mut column = column;
    let columns: Vec<(Field, Column)> =
        batch.fields().iter().filter_map(|field| Some((field, column(field)?))).collect();
    picked.set_columns(columns);
    picked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_stands_for_those_that_waited() {
        let mut batch = Batch::new(latscope_event::FieldSet::default().with(&[Field::Size]));
        for (time, latency) in [(0, 5), (100, 350), (500, 99), (600, 200)] {
            batch.push_i64(Field::Time, time);
            batch.push_u64(Field::Latency, latency);
            batch.push_u64(Field::Size, 7);
            batch.end_row();
        }
        let (mut added, mut all) = (0, Vec::new());
        let _ = expand(&batch, 100, &mut added, &mut |batch| {
            all.extend(batch.time().iter().copied().zip(batch.latency().iter().copied()));
            assert!(batch.u64s(Field::Size).unwrap().iter().all(|&size| size == 7));
            ControlFlow::Continue(())
        });
        assert_eq!(all, [(0, 5), (100, 350), (200, 250), (300, 150), (500, 99), (600, 200), (700, 100)]);
        assert_eq!(added, 3);
    }

    #[test]
    fn a_long_stall_comes_in_several_batches() {
        let mut batch = Batch::new(latscope_event::FieldSet::default());
        batch.push_i64(Field::Time, 0);
        batch.push_u64(Field::Latency, 100_000);
        batch.end_row();
        let (mut added, mut batches, mut sum) = (0, 0, 0u64);
        let _ = expand(&batch, 1, &mut added, &mut |batch| {
            batches += 1;
            sum += batch.latency().iter().sum::<u64>();
            ControlFlow::Continue(())
        });
        assert_eq!((added, batches, sum), (99_999, 4, 100_000 * 100_001 / 2));
    }
}
