//! Rows of counted stacks, which formats have that were made for flame graphs: so many samples, of no moment.

use crate::text_rows::Rows;
use crate::{Error, Position, ReadOptions, Sink};
use latscope_event::{
    Batch, Clock, Context, Field, FieldSet, Frame, FrameKind, MISSING_I64, NO_STACK, Note, push_frame,
};
use std::ops::ControlFlow;

/// What a counted stack can fill.
pub const FILLS: FieldSet = FieldSet::ALWAYS.with(&[Field::Kind, Field::Stack, Field::SampleWeight]);

/// So many samples of one stack.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample<'a> {
    /// The text of the stack, root first.
    pub stack: &'a str,
    /// How many; at least 1.
    pub count: u64,
    /// How long each of them took or waited, nanoseconds; 0 where only their number is known.
    pub latency_ns: u64,
    /// Tags, `key=value` and semicolons between them; empty for none.
    pub tags: &'a str,
    /// The state of the thread; empty if unknown.
    pub state: &'a str,
    /// The name of the thread; empty if unknown.
    pub comm: &'a str,
    /// What kind of event it is; a sample if empty.
    pub kind: &'a str,
    /// The device, and what was waited for; empty if unknown.
    pub device: &'a str,
    pub wait_class: &'a str,
    /// Process and thread, where they are known.
    pub ids: Option<(i64, i64)>,
}

/// The samples of a file in the making.
pub struct StackRows<'a, 'b> {
    pub rows: Rows<'a, 'b>,
}

impl<'a, 'b> StackRows<'a, 'b> {
    /// For a file of this kind that has these fields at most.
    pub fn new(
        what: &str,
        file: &str,
        fields: FieldSet,
        options: &ReadOptions,
        sink: &'a mut Sink<'b>,
    ) -> StackRows<'a, 'b> {
        let context = Context::new(format!("{what}, {file}"), Clock::unanchored("none"));
        StackRows { rows: Rows::new(context, Batch::new(options.fields.intersection(fields)), sink) }
    }

    /// Adds a row.
    pub fn add(&mut self, sample: &Sample) -> ControlFlow<()> {
        let rows = &mut self.rows;
        if rows.count == 0 {
            rows.context.cover(0);
            rows.context.note(Note::NoTimes);
        }
        let batch = &mut rows.batch;
        batch.push_i64(Field::Time, 0);
        batch.push_u64(Field::Latency, sample.latency_ns);
        let Sample { stack, tags, state, comm, kind, device, wait_class, .. } = *sample;
        let kind = if kind.is_empty() { "sample" } else { kind };
        for (field, text) in [
            (Field::Stack, if stack == NO_STACK { "" } else { stack }),
            (Field::Tags, tags),
            (Field::State, state),
            (Field::Comm, comm),
            (Field::Kind, kind),
            (Field::Device, device),
            (Field::WaitClass, wait_class),
        ] {
            batch.push_text(field, Some(text.as_bytes()).filter(|text| !text.is_empty()));
        }
        if let Some((pid, tid)) = sample.ids {
            batch.push_i64(Field::Pid, pid);
            batch.push_i64(Field::Tid, tid);
        }
        let weight = i64::try_from(sample.count).unwrap_or(i64::MAX);
        batch.push_i64(Field::SampleWeight, if weight > 1 { weight } else { MISSING_I64 });
        rows.end_row()
    }

    /// Hands on what is left; an error if there was nothing.
    pub fn finish(self, file: &str, nothing: &str) -> Result<Context, Error> {
        if self.rows.count == 0 {
            return Err(Error::new(file, Position::File, nothing));
        }
        Ok(self.rows.finish())
    }
}

/// Adds a frame as other programs write it, which may have a suffix already.
pub fn push_text_frame(stack: &mut String, text: &str, is_kernel: bool) {
    let frame = Frame::parse(text);
    let kind = if is_kernel && frame.kind == FrameKind::User { FrameKind::Kernel } else { frame.kind };
    push_frame(stack, frame.name, kind);
}
