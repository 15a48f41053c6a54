//! What waits for long, noted while it waits for views that print nothing before their end.

use crate::Notice;
use latscope_event::{Batch, Column, Field, MISSING_U64, Mask, Unfinished, Wait, format_size};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Between two looks at what waits.
const EVERY: Duration = Duration::from_secs(1);
/// A request is reported at this age, and again each time it is ten times as old as at its last report.
const FROM_NS: u64 = 1_000_000_000;
/// So many lines at a look; of a disk with a thousand requests a few are enough.
const LINES: usize = 3;

/// Notes what has waited for long, each request once in a while.
#[derive(Default)]
pub struct Stalls {
    looked: Option<Instant>,
    /// By start and description: the age at which it is reported again.
    reported: HashMap<(i64, String), u64>,
}

impl Stalls {
    /// The fields that describe a request.
    pub const FIELDS: [Field; 8] = [
        Field::Device,
        Field::Name,
        Field::Kind,
        Field::Size,
        Field::Path,
        Field::Comm,
        Field::State,
        Field::WaitClass,
    ];

    /// Whether it is time for the next look.
    pub fn is_due(&mut self) -> bool {
        let is_due = self.looked.is_none_or(|looked| looked.elapsed() >= EVERY);
        if is_due {
            self.looked = Some(Instant::now());
        }
        is_due
    }

    /// Looks at what waits: its time is the start, its latency the age.
    pub fn report(&mut self, batch: &Batch, mask: Option<&Mask>, notice: &mut dyn FnMut(Notice)) {
        let mut reported = HashMap::new();
        let is_stall = |row: &usize| Wait::of_row(batch, *row) == Wait::Counts;
        let rows = (0..batch.len()).filter(|&row| mask.is_none_or(|mask| mask.get(row))).filter(is_stall);
        let (mut lines, mut more) = (0, 0);
        for row in rows.filter(|&row| batch.latency()[row] >= FROM_NS) {
            let (age_ns, key) = (batch.latency()[row], (batch.time()[row], describe(batch, row)));
            let next_ns = self.reported.get(&key).copied().unwrap_or(FROM_NS);
            if age_ns < next_ns {
                reported.insert(key, next_ns);
                continue;
            }
            if lines < LINES {
                notice(Notice::Waiting { age_ns, request: key.1.clone() });
            }
            (lines, more) = (lines + 1, more + usize::from(lines >= LINES));
            reported.insert(key, age_ns.saturating_mul(10));
        }
        if more > 0 {
            notice(Notice::MoreWaiting(more));
        }
        // What ended is forgotten.
        self.reported = reported;
    }
}

/// A request in words: `loop0 read 4KiB by dd`.
pub fn describe(batch: &Batch, row: usize) -> String {
    let text = |field| batch.text(field, row).filter(|text| !text.is_empty());
    if text(Field::State).is_some() {
        return Unfinished::wait_of_thread(batch, row);
    }
    let mut words: Vec<String> = Vec::new();
    words.extend(text(Field::Device).map(str::to_string));
    // The flags of a block request say less than its direction, the name of a call more.
    let name = if batch.column(Field::Dev).is_some() { text(Field::Kind) } else { text(Field::Name) };
    words.extend(name.or(text(Field::Kind)).or(text(Field::Name)).map(str::to_string));
    if let Some(Column::U64(sizes)) = batch.column(Field::Size)
        && sizes[row] != MISSING_U64
    {
        words.push(format_size(sizes[row]));
    }
    words.extend(text(Field::Path).map(|path| format!("of {path}")));
    words.extend(text(Field::Comm).map(|comm| format!("by {comm}")));
    if words.is_empty() { "a request".into() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_event::FieldSet;

    #[test]
    fn waits_of_threads_have_their_call_thread_and_class() {
        let texts = [
            (Field::Device, "loop0"),
            (Field::Kind, "wait"),
            (Field::Name, "pread64"),
            (Field::Path, "/dev/loop0"),
            (Field::Comm, "dd"),
            (Field::WaitClass, "direct read"),
        ];
        for (state, words) in [
            (Some("disk sleep"), "pread64 of /dev/loop0 by dd, thread 7: direct read"),
            (None, "loop0 pread64 of /dev/loop0 by dd"),
        ] {
            let fields = texts.map(|(field, _)| field);
            let mut batch = Batch::new(FieldSet::ALWAYS.with(&fields).with(&[Field::Tid, Field::State]));
            batch.push_i64(Field::Time, 0);
            batch.push_u64(Field::Latency, 1);
            batch.push_i64(Field::Tid, 7);
            texts.iter().for_each(|(field, text)| batch.push_text(*field, Some(text.as_bytes())));
            batch.push_text(Field::State, state.map(str::as_bytes));
            batch.end_row();
            assert_eq!(describe(&batch, 0), words);
        }
    }
}
