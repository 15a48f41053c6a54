//! The letters of a block request (`WFS`), as the kernel's own tracepoints print them.

use super::layout::{CLASSES, MODES};
use crate::PushDown;
use latscope_event::kernel::block_kind;

/// How many combinations of letters there are.
pub const CODES: usize = CLASSES * MODES;

/// The letters of a code: class times [`MODES`] plus mode.
pub fn letters(code: usize) -> String {
    const CLASS: [&str; CLASSES] = ["R", "W", "F", "D", "DE", "N"];
    let mode = |bit: usize, letter| if code >> bit & 1 == 1 { letter } else { "" };
    let class = CLASS.get(code / MODES).copied().unwrap_or("N");
    [mode(0, "F"), class, mode(1, "F"), mode(2, "A"), mode(3, "S"), mode(4, "M"), mode(5, "U")].concat()
}

/// What a code is for, `Field::Kind`.
pub fn kind(code: usize) -> &'static str {
    block_kind(letters(code).as_bytes())
}

/// Whether a request only asks the device to write what it has cached.
pub fn is_flush(code: u32) -> bool {
    const FLUSH: usize = 2;
    code as usize / MODES == FLUSH
}

/// The codes that pass the conditions on names and kinds, a bit each.
pub fn wanted(push_down: &PushDown) -> [u64; CLASSES] {
    let passes = |list: &[String], text: &str| list.is_empty() || list.iter().any(|wanted| wanted == text);
    let mut bits = [0; CLASSES];
    for code in 0..CODES {
        if passes(&push_down.names, &letters(code)) && passes(&push_down.kinds, kind(code)) {
            bits[code / MODES] |= 1 << (code % MODES);
        }
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_read_as_the_kernel_prints_them() {
        let with_mode = |class: usize, mode: usize| letters(class * MODES + mode);
        assert_eq!(with_mode(0, 0), "R");
        assert_eq!(with_mode(0, 4), "RA");
        assert_eq!(with_mode(1, 8 | 16 | 2), "WFSM");
        assert_eq!(with_mode(1, 1 | 8), "FWS");
        assert_eq!(with_mode(2, 1), "FF");
        assert_eq!((kind(2 * MODES + 1), kind(MODES + 1), kind(4 * MODES)), ("flush", "write", "discard"));
    }

    #[test]
    fn a_write_with_a_flush_is_no_flush() {
        let modes = MODES as u32;
        assert!(is_flush(2 * modes + 1) && !is_flush(modes + 1) && !is_flush(3 * modes));
    }

    #[test]
    fn conditions_become_bits() {
        assert_eq!(wanted(&PushDown::default()), [u64::MAX; CLASSES]);
        let reads = PushDown { kinds: vec!["read".into()], ..PushDown::default() };
        assert_eq!(wanted(&reads), [u64::MAX, 0, 0, 0, 0, 0]);
        let one = PushDown { names: vec!["WS".into(), "nonsense".into()], ..PushDown::default() };
        assert_eq!(wanted(&one), [0, 1 << 8, 0, 0, 0, 0]);
        let none = PushDown { names: vec!["WS".into()], ..reads };
        assert_eq!(wanted(&none), [0; CLASSES]);
    }
}
