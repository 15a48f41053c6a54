//! The events in the blocks of a capture.

use super::blocks::Layout;
use super::bytes::Bytes;
use super::event_types::{EventType, EventTypes};

/// In the flags of a block: it only describes a process or descriptor that a later event needs.
const STATE_ONLY: u32 = 1;

/// One event.
#[derive(Clone, Copy)]
pub struct Event<'a> {
    /// Nanoseconds since 1970.
    pub time_ns: i64,
    pub tid: i64,
    pub code: u16,
    pub cpu: u16,
    /// Whether the filter of the capture did not select it: it is there for what it does to descriptors.
    pub is_state_only: bool,
    /// Lengths of the parameters and their bytes.
    rest: &'a [u8],
    layout: Layout,
    count: usize,
}

impl<'a> Event<'a> {
    /// The event in a block; `None` when it does not fit its block.
    #[inline]
    pub fn parse(layout: Layout, body: &'a [u8]) -> Option<Event<'a>> {
        let mut bytes = Bytes(body);
        let cpu = bytes.u16()?;
        let flags = if layout.has_flags { bytes.u32()? } else { 0 };
        let event = bytes.0;
        let (time_ns, tid, length, code) = (bytes.u64()?, bytes.i64()?, bytes.u32()?, bytes.u16()?);
        let count = if layout.has_count { bytes.u32()? as usize } else { 0 };
        let header = event.len() - bytes.0.len();
        // Some old types say that they are three bytes longer than they are.
        let end = (length as usize).min(event.len());
        let rest = event.get(header..end)?;
        Some(Event {
            time_ns: i64::try_from(time_ns).ok()?,
            tid,
            code,
            cpu,
            is_state_only: flags & STATE_ONLY != 0,
            rest,
            layout,
            count,
        })
    }

    fn lengths(&self, count: usize) -> Option<(&'a [u8], &'a [u8])> {
        self.rest.split_at_checked(count.checked_mul(if self.layout.is_large { 4 } else { 2 })?)
    }

    fn length(&self, lengths: &[u8], at: usize) -> Option<usize> {
        Some(match self.layout.is_large {
            true => u32::from_le_bytes(*lengths.get(at * 4..)?.first_chunk()?) as usize,
            false => usize::from(u16::from_le_bytes(*lengths.get(at * 2..)?.first_chunk()?)),
        })
    }

    /// Events of old captures do not have the number of their parameters: it is the largest of which the lengths are right.
    fn inferred(&self, kind: &EventType) -> usize {
        let fits = |&count: &usize| {
            let Some((lengths, data)) = self.lengths(count) else { return false };
            let sum = (0..count).filter_map(|at| self.length(lengths, at)).fold(0usize, usize::saturating_add);
            sum == data.len()
        };
        (0..=kind.params()).rev().find(fits).unwrap_or(0)
    }

    /// The bytes of a parameter; `None` where the event has fewer.
    #[inline]
    pub fn param(&self, at: usize) -> Option<&'a [u8]> {
        let count = match self.layout.has_count {
            true => self.count,
            false => self.inferred(EventTypes::get().event(self.code)?),
        };
        if at >= count {
            return None;
        }
        let (lengths, data) = self.lengths(count)?;
        let mut start = 0usize;
        for before in 0..at {
            start = start.checked_add(self.length(lengths, before)?)?;
        }
        data.get(start..start.checked_add(self.length(lengths, at)?)?)
    }

    /// The bytes of the parameter of this name.
    pub fn named(&self, kind: &EventType, name: &str) -> Option<&'a [u8]> {
        self.param(kind.param(name)?)
    }
}
