//! Colours by strength, for every depth of colour that terminals have.
//!
//! A ladder starts with a colour that stands out from black and from white and never reaches either, so that the
//! weakest cell differs from an empty one on dark and on light terminals.

use crate::{Cell, Color};
use latscope_view::Palette;

/// How many colours the terminal shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ColorDepth {
    /// All of red, green and blue.
    Truecolor,
    /// The 256 of xterm.
    #[default]
    Ansi256,
    /// The terminal's own 16.
    Ansi16,
    /// None: strength shows as characters.
    Mono,
}

/// xterm colours of PyLatencyMap's frequency map, then of its intensity map.
pub(crate) const PYLATENCYMAP: [[u8; 6]; 2] = [[51, 45, 39, 33, 27, 21], [226, 220, 214, 208, 202, 196]];

/// Characters by ink, weakest first.
const SHADES: [char; 9] = ['.', ':', '-', '=', '+', '*', '#', '%', '@'];

/// How many colours a palette has at this depth; `None` when it is continuous.
pub(crate) fn steps(palette: Palette, depth: ColorDepth) -> Option<usize> {
    match (depth, palette) {
        (ColorDepth::Mono, _) => Some(SHADES.len()),
        (ColorDepth::Ansi16, _) => Some(ladder16(palette).len()),
        (_, Palette::PyLatencyMap) => Some(6),
        _ => None,
    }
}

/// The colour of a strength from 0 (the weakest cell that is not empty) to 1. `hot` picks the second ladder of a palette
/// that has two.
pub(crate) fn color(palette: Palette, strength: f64, depth: ColorDepth, hot: bool) -> Color {
    let strength = if strength.is_finite() { strength.clamp(0.0, 1.0) } else { 1.0 };
    match (depth, palette) {
        (ColorDepth::Mono, _) => Color::Default,
        (ColorDepth::Ansi16, _) => Color::Indexed(step(ladder16(palette), strength)),
        (_, Palette::PyLatencyMap) => Color::Indexed(step(&PYLATENCYMAP[usize::from(hot)], strength)),
        (ColorDepth::Ansi256, _) | (_, Palette::Sysdig) => Color::Indexed(step(ladder256(palette), strength)),
        (ColorDepth::Truecolor, _) => {
            let [red, green, blue] = palette.on_any_ground(strength);
            Color::Rgb(red, green, blue)
        }
    }
}

/// Chosen by hand: the nearest colours of xterm's coarse cube are paler than their neighbours here and there, so
/// that brightness would not rise with strength.
fn ladder256(palette: Palette) -> &'static [u8] {
    match palette {
        Palette::Viridis => &[54, 24, 25, 30, 36, 41, 77, 113, 148, 184, 220],
        Palette::Inferno => &[53, 89, 125, 161, 166, 202, 208, 214, 220, 221],
        Palette::Turbo => &[55, 62, 27, 33, 38, 43, 48, 83, 154, 184, 214, 208, 202, 160, 88],
        Palette::Cividis => &[60, 66, 102, 144, 179, 185, 221],
        Palette::Classic => &[88, 124, 160, 196, 203, 210, 217, 223],
        Palette::Sysdig => &crate::sysdig::RAMP,
        Palette::PyLatencyMap => &PYLATENCYMAP[0],
    }
}

/// Of the terminal's own colours: none that may be its background (black, white and the greys).
fn ladder16(palette: Palette) -> &'static [u8] {
    match palette {
        Palette::Viridis => &[5, 4, 6, 2, 10, 11],
        Palette::Inferno => &[4, 5, 1, 9, 3, 11],
        Palette::Turbo => &[4, 12, 6, 2, 3, 9, 1],
        Palette::Cividis => &[4, 6, 3, 11],
        Palette::Classic => &[1, 9, 13, 11],
        Palette::Sysdig => &[2, 10, 11, 3, 9, 1],
        Palette::PyLatencyMap => &[6, 14, 12, 4, 13, 5],
    }
}

/// The character of a strength from 0 to 1, for terminals without colour.
pub(crate) fn shade(strength: f64) -> Cell {
    Cell::plain(step(&SHADES, strength))
}

fn step<T: Copy>(ladder: &[T], strength: f64) -> T {
    // A saturating cast, so that not-a-number lands on the first step.
    ladder[((strength * ladder.len() as f64) as usize).min(ladder.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weakest_colour_differs_from_any_background() {
        for &palette in Palette::TERMINAL.iter().chain(Palette::PICTURE) {
            for depth in [ColorDepth::Truecolor, ColorDepth::Ansi256, ColorDepth::Ansi16] {
                for strength in [0.0, 1e-9, 0.5, 1.0, f64::NAN, -1.0, 7.0] {
                    let found = color(palette, strength, depth, false);
                    let background = [0, 7, 8, 15, 16, 231].map(Color::Indexed).contains(&found);
                    assert!(!background && found != Color::Default, "{palette:?} {depth:?} {strength}: {found:?}");
                    if let Color::Rgb(r, g, b) = found {
                        let light = 0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b);
                        assert!((30.0..235.0).contains(&light), "{palette:?} {strength}: {found:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn brightness_rises_with_strength() {
        let light =
            |red: u8, green: u8, blue: u8| 299 * u32::from(red) + 587 * u32::from(green) + 114 * u32::from(blue);
        for palette in [Palette::Viridis, Palette::Inferno] {
            let lights =
                (0..=100).map(|at| match color(palette, f64::from(at) / 100.0, ColorDepth::Truecolor, false) {
                    Color::Rgb(red, green, blue) => light(red, green, blue),
                    _ => 0,
                });
            assert!(lights.is_sorted(), "{palette:?}");
            let cube = |index: u8| [0, 95, 135, 175, 215, 255][usize::from(index)];
            let lights = ladder256(palette).iter().map(|&index| {
                let index = index - 16;
                light(cube(index / 36), cube(index / 6 % 6), cube(index % 6))
            });
            assert!(lights.is_sorted(), "{palette:?} of 256");
        }
    }

    #[test]
    fn shades_rise_from_a_dot() {
        assert_eq!((shade(0.0).symbol, shade(0.5).symbol, shade(1.0).symbol), ('.', '+', '@'));
        assert_eq!(shade(f64::NAN).symbol, '.');
    }
}
