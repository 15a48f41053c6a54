//! A record of the blk tracer as text, as far as blkparse and ftrace print it alike: `ACT RWBS SECTOR + N [COMM]`.

use super::{Action, ActionRecord};
use crate::block_pairs::{NO_ID, padded};
use crate::cursor::Cursor;
use memchr::{memchr, memrchr};

const SECTOR_BYTES: u64 = 512;

/// What a text says.
#[derive(Debug)]
pub enum TextAction {
    /// Of a request or bio; time and thread are those of its line. With the name of the thread.
    Record(ActionRecord, [u8; 16]),
    /// Something else: plugs, timers, messages.
    Other,
}

/// `MA,MI`, as the kernel packs it.
pub fn device(at: &mut Cursor) -> Option<u32> {
    let major = u32::try_from(at.number()?).ok().filter(|&major| major < 1 << 12)?;
    at.byte(b',')?;
    let minor = u32::try_from(at.number()?).ok().filter(|&minor| minor < 1 << 20)?;
    Some(major << 20 | minor)
}

/// Understands what stands behind the device; `None` when it is no record.
pub fn parse(text: &[u8], dev: u32) -> Option<TextAction> {
    let mut at = Cursor(text);
    at.blanks();
    let mut action = at.until(b' ')?;
    at.blanks();
    // ftrace may print the control group before it.
    if action.contains(&b',') {
        action = at.until(b' ')?;
        at.blanks();
    }
    let action = match action {
        b"Q" => Action::Queue,
        b"G" => Action::Allocate,
        b"I" => Action::Insert,
        b"D" => Action::Issue,
        b"R" => Action::Requeue,
        b"C" => Action::Complete,
        b"M" => Action::BackMerge,
        b"F" => Action::FrontMerge,
        b"X" => Action::Split(0),
        b"A" => Action::Remap(0),
        b"P" | b"U" | b"UT" | b"S" | b"B" | b"m" => return Some(TextAction::Other),
        _ => return None,
    };
    let rwbs = at.letters().filter(|letters| letters[0].is_ascii_uppercase())?;
    at.blanks();
    let Place { sector, bytes, action, is_passthrough } = Place::parse(&mut at, action)?;
    let tail = match (memchr(b'[', at.0), memrchr(b']', at.0)) {
        (Some(open), Some(close)) if open < close => &at.0[open + 1..close],
        _ if matches!(action, Action::Remap(_)) => b"",
        _ => return None,
    };
    let ends = matches!(action, Action::Complete | Action::Requeue);
    let record = ActionRecord {
        time_ns: 0,
        sector,
        action,
        bytes,
        dev,
        tid: NO_ID,
        error: if ends { error(tail)? } else { 0 },
        is_passthrough,
        rwbs,
    };
    // A thread of which nobody recorded the name.
    let is_named = !ends && tail != b"(null)" && tail != b"<...>";
    Some(TextAction::Record(record, padded(if is_named { tail } else { b"" })))
}

/// What stands between the letters and the bracket.
struct Place {
    sector: u64,
    bytes: u32,
    action: Action,
    is_passthrough: bool,
}

impl Place {
    /// `SECTOR + N`, `SECTOR`, `SECTOR / REST`, `SECTOR + N <- (MA,MI) SECTOR`, `BYTES (COMMAND)`, `BYTES`, `(COMMAND)`, or nothing where
    /// a request has no data.
    fn parse(at: &mut Cursor, action: Action) -> Option<Place> {
        let has_number = !matches!(at.0.first(), Some(b'(' | b'['));
        let number = if has_number { at.number()? } else { 0 };
        at.blanks();
        let mut place = Place { sector: number, bytes: 0, action, is_passthrough: false };
        match at.0.first()? {
            b'+' => {
                at.byte(b'+')?;
                at.blanks();
                place.bytes = at.number()?.checked_mul(SECTOR_BYTES).and_then(|bytes| u32::try_from(bytes).ok())?;
            }
            b'/' => {
                at.byte(b'/')?;
                at.blanks();
                let rest = at.number()?;
                place.bytes = u32::try_from(rest.checked_sub(number)?.checked_mul(SECTOR_BYTES)?).unwrap_or(u32::MAX);
                place.action = Action::Split(rest);
            }
            // With -t, a time stands here; else it is the command that is passed through, and the number its bytes.
            b'(' if is_command(at.0) => {
                place = Place { sector: 0, bytes: u32::try_from(number).ok()?, action, is_passthrough: true };
                at.until(b')')?;
            }
            // A command of which the bytes are not known; what completes or comes back has its sector here.
            b'[' if has_number && !matches!(action, Action::Complete | Action::Requeue) => {
                place = Place { sector: 0, bytes: u32::try_from(number).ok()?, action, is_passthrough: true };
            }
            _ => {}
        }
        if let Action::Remap(_) = action {
            at.until(b'(')?;
            place.action = Action::Remap(device(at)?);
        }
        Some(place)
    }
}

/// Whether brackets hold bytes in hexadecimal, two digits each, and not a time.
fn is_command(text: &[u8]) -> bool {
    let inside = memchr(b')', text).map_or(text, |end| &text[1..end]);
    inside.split(|&byte| byte == b' ').all(|word| word.is_empty() || word.len() == 2 || word == b"..")
}

/// The kernel stores a negative number in 16 bits without sign.
fn error(text: &[u8]) -> Option<i32> {
    let number: i32 = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
    Some(if number > i32::from(i16::MAX) { number - (1 << 16) } else { number })
}
