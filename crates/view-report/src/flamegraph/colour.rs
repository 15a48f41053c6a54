//! Colours of boxes. They are the same on light and dark ground, and their text is dark on all of them.

use latscope_event::FrameKind;
use latscope_view::{blend, hex};

/// A value of a field.
pub const DIMENSION: &str = "#d3d7dc";
/// Several frames in one.
pub const GATHERED: &str = "#e4e6ea";
/// Red for more, blue for less, grey for no difference.
const DIVERGING: [u32; 5] = [0x5b93d6, 0xa9c6ea, 0xe2e2e2, 0xf2b3a6, 0xe0705f];

/// The kinds of code with their words, as the legend lists them.
pub const KINDS: [(FrameKind, &str, u32); 5] = [
    (FrameKind::User, "program", 0xf4b860),
    (FrameKind::Inlined, "inlined", 0xf7dfa3),
    (FrameKind::Kernel, "kernel", 0xdd94ae),
    (FrameKind::Jit, "compiled at run time", 0x93cb8d),
    (FrameKind::Python, "Python", 0x8bbaea),
];

/// The colour of a frame of this kind: a little lighter or darker by its name, so that neighbours differ and the same function
/// looks the same everywhere.
pub fn of_kind(kind: FrameKind, name: &str) -> String {
    let base = KINDS.iter().find(|(known, ..)| *known == kind).map_or(0xf4b860, |(.., colour)| *colour);
    let hash = latscope_event::stack_hash(name);
    let towards = if hash & 8 == 0 { 0xffffff } else { 0x8a6a5a };
    hex(blend(&[base, towards], (hash >> 8 & 7) as f64 / 7.0 * 0.22))
}

/// From blue (-1) over grey (0) to red (1).
pub fn diverging(at: f64) -> String {
    hex(blend(&DIVERGING, (at.clamp(-1.0, 1.0) + 1.0) / 2.0))
}

/// A mean beside another one: a factor of eight is the strongest colour.
pub fn of_means(mean: f64, all: f64) -> String {
    if mean <= 0.0 || all <= 0.0 {
        return diverging(if mean > 0.0 { 1.0 } else { -1.0 });
    }
    diverging((mean / all).log2() / 3.0)
}
