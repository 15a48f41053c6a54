//! Requests that had not completed when the trace ended: what they were, and whether they count as waiting.

use crate::{Batch, Column, Field, FieldSet, FieldType, MISSING_CODE, MISSING_I64, MISSING_U64};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A request that was issued and not seen to complete.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unfinished {
    /// What it was, in words: device, kind, size, thread.
    pub what: String,
    /// When it was issued, nanoseconds on the trace's clock.
    pub start_ns: i64,
    /// How long it had waited when the trace ended, nanoseconds: its latency is at least this.
    pub at_least_ns: u64,
    /// Whether it counts as waiting.
    #[serde(default)]
    pub wait: Wait,
    /// Its other fields by name, as far as they are known. Traces of older versions have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Value>,
}

/// Whether an unfinished request counts as waiting when the trace ended, with its age as a lower bound of its latency.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// It counts.
    Counts,
    /// It counts, and is nothing to warn of: a thread waits for a timer, a lock or a message, as threads of idle programs do.
    Sleeps,
    /// It does not: its device completed requests that were issued later, and for longer than its slowest request took.
    LeftBehind,
    /// It does not: the trace lacks completions, so its own may be missing too.
    Lossy,
    /// It does not: calls of its kind also wait for other processes and for messages.
    Elsewhere,
    /// It does not: the trace does not say. Traces of older versions do not, nor does a version that knows other reasons.
    #[default]
    #[serde(other)]
    Unknown,
}

/// The value of a field.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number in the unit of the field.
    Number(i64),
    /// A text.
    Text(String),
}

impl Wait {
    /// How a row of a batch of what is in flight counts: a thread sleeps that neither is in disk sleep nor waits for asynchronous I/O
    /// or for FUSE.
    pub fn of_row(batch: &Batch, row: usize) -> Wait {
        let is_async = |name| crate::kernel::ASYNC_WAITS.contains(&name);
        match batch.text(Field::State, row) {
            None | Some("disk sleep") => Wait::Counts,
            Some(_) if batch.text(Field::Name, row).is_some_and(is_async) => Wait::Counts,
            // A file system in user space keeps its callers in a sleep that signals end.
            Some(_) if batch.text(Field::WaitClass, row) == Some("FUSE") => Wait::Counts,
            Some(_) => Wait::Sleeps,
        }
    }
}

impl Unfinished {
    /// A row of a batch of requests in flight, whose latency is the age of the request.
    pub fn from_row(what: String, wait: Wait, batch: &Batch, row: usize) -> Unfinished {
        let others = batch.fields().iter().filter(|&field| !FieldSet::ALWAYS.contains(field));
        let value = |field| match batch.column(field)? {
            Column::I64(values) => Some(values[row]).filter(|&value| value != MISSING_I64).map(Value::Number),
            Column::U64(values) => {
                let value = Some(values[row]).filter(|&value| value != MISSING_U64);
                value.map(|value| Value::Number(i64::try_from(value).unwrap_or(i64::MAX)))
            }
            Column::Text(_) => batch.text(field, row).map(|text| Value::Text(text.into())),
        };
        let values = others.filter_map(|field| Some((field.name().to_owned(), value(field)?))).collect();
        Unfinished { what, start_ns: batch.time()[row], at_least_ns: batch.latency()[row], wait, values }
    }

    /// The wait of a thread in words: `pread64 of /data/a by fio, thread 12: direct read`.
    pub fn wait_of_thread(batch: &Batch, row: usize) -> String {
        let text = |field| batch.text(field, row);
        let mut words = text(Field::Name).unwrap_or("a wait").to_string();
        if let Some(path) = text(Field::Path) {
            words += &format!(" of {path}");
        }
        if let Some(comm) = text(Field::Comm) {
            words += &format!(" by {comm}");
        }
        if let Some(tid) = batch.i64s(Field::Tid).map(|tids| tids[row]).filter(|&tid| tid != MISSING_I64) {
            words += &format!(", thread {tid}");
        }
        if let Some(class) = text(Field::WaitClass) {
            words += &format!(": {class}");
        }
        words
    }

    /// When it was last known to wait, nanoseconds on the trace's clock.
    pub fn end_ns(&self) -> i64 {
        self.start_ns.saturating_add_unsigned(self.at_least_ns)
    }

    /// Whether it counts as waiting.
    pub fn counts(&self) -> bool {
        matches!(self.wait, Wait::Counts | Wait::Sleeps)
    }

    /// Whether it counts as waiting for storage, so that views name it.
    pub fn is_stall(&self) -> bool {
        self.wait == Wait::Counts
    }

    /// Those that count as waiting, as rows whose latency is their age.
    pub fn batch(unfinished: &[Unfinished]) -> Batch {
        Unfinished::rows(unfinished.iter().filter(|request| request.counts()))
    }

    /// These as rows whose latency is their age.
    pub fn rows<'a>(unfinished: impl IntoIterator<Item = &'a Unfinished>) -> Batch {
        let unfinished: Vec<&Unfinished> = unfinished.into_iter().collect();
        let named = unfinished.iter().flat_map(|request| request.values.keys());
        let fields: FieldSet = named.filter_map(|name| Field::from_name(name)).collect();
        let mut batch = Batch::new(fields);
        for request in unfinished {
            batch.push_i64(Field::Time, request.start_ns);
            batch.push_u64(Field::Latency, request.at_least_ns);
            let others = batch.fields().iter().filter(|&field| !FieldSet::ALWAYS.contains(field));
            others.for_each(|field| request.push(&mut batch, field));
            batch.end_row();
        }
        batch
    }

    fn push(&self, batch: &mut Batch, field: Field) {
        let (number, text) = match self.values.get(field.name()) {
            Some(Value::Number(number)) => (Some(*number), None),
            Some(Value::Text(text)) => (None, Some(text)),
            None => (None, None),
        };
        match field.field_type() {
            FieldType::Time | FieldType::Number => batch.push_i64(field, number.unwrap_or(MISSING_I64)),
            FieldType::Duration | FieldType::Bytes => {
                batch.push_u64(field, number.and_then(|number| u64::try_from(number).ok()).unwrap_or(MISSING_U64));
            }
            FieldType::Text => {
                let code = text.map_or(MISSING_CODE, |text| batch.intern(field, text.as_bytes()));
                batch.push_code(field, code);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_sleeps_counts_and_is_no_stall() {
        let mut batch = Batch::new(FieldSet::ALWAYS.with(&[Field::State, Field::Name, Field::WaitClass]));
        for (state, name, class) in [
            ("disk sleep", "pread64", "direct read"),
            ("sleep", "io_getevents", "libaio"),
            ("sleep", "pread64", "FUSE"),
            ("sleep", "futex", "futex"),
            ("runnable", "", ""),
        ] {
            batch.push_i64(Field::Time, 0);
            batch.push_u64(Field::Latency, 1);
            batch.push_text(Field::State, Some(state.as_bytes()));
            batch.push_text(Field::Name, Some(name.as_bytes()));
            batch.push_text(Field::WaitClass, Some(class.as_bytes()));
            batch.end_row();
        }
        let requests: Vec<Unfinished> =
            (0..5).map(|row| Unfinished::from_row(String::new(), Wait::of_row(&batch, row), &batch, row)).collect();
        assert_eq!(requests.iter().map(Unfinished::is_stall).collect::<Vec<_>>(), [true, true, true, false, false]);
        assert!(requests.iter().all(Unfinished::counts) && Unfinished::batch(&requests).len() == 5);
        assert_eq!(Wait::of_row(&Batch::new(FieldSet::ALWAYS), 0), Wait::Counts, "requests have no state");
        // Versions that do not know it leave it out.
        assert_eq!(serde_json::to_string(&Wait::Sleeps).unwrap(), "\"sleeps\"");
    }

    fn sample() -> Batch {
        let mut batch = Batch::new(FieldSet::ALWAYS.with(&[Field::Device, Field::Size, Field::Pid, Field::Comm]));
        for (at, device, size) in [(5, Some(&b"sda"[..]), 4096), (9, None, MISSING_U64)] {
            batch.push_i64(Field::Time, at);
            batch.push_u64(Field::Latency, 100 - at as u64);
            batch.push_text(Field::Device, device);
            batch.push_u64(Field::Size, size);
            batch.push_i64(Field::Pid, if at == 5 { 7 } else { MISSING_I64 });
            batch.push_text(Field::Comm, Some(b"dd"));
            batch.end_row();
        }
        batch
    }

    #[test]
    fn rows_become_requests_and_rows_again() {
        let batch = sample();
        let wait = |row| if row == 0 { Wait::Counts } else { Wait::LeftBehind };
        let requests: Vec<_> =
            (0..2).map(|row| Unfinished::from_row(format!("request {row}"), wait(row), &batch, row)).collect();
        let rows = Unfinished::batch(&requests);
        assert_eq!((rows.time(), rows.latency()), (&[5][..], &[95][..]));
        assert_eq!((rows.text(Field::Device, 0), rows.text(Field::Comm, 0)), (Some("sda"), Some("dd")));
        assert_eq!((rows.u64s(Field::Size), rows.i64s(Field::Pid)), (Some(&[4096][..]), Some(&[7][..])));
    }
}
