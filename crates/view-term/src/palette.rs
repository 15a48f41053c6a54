//! Colours by strength, for every depth of colour that terminals have.
//!
//! A ladder begins with a colour that stands out from black and from white and never reaches either, so that the
//! weakest cell differs from an empty one on dark and on light terminals.

use crate::{Cell, Color};

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

/// A ladder of colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Palette {
    /// Violet to yellow, even to the eye and for colour-blind people.
    #[default]
    Viridis,
    /// Violet over red to yellow, as even.
    Inferno,
    /// Blue over green to red: more shades, less even.
    Turbo,
    /// The green to red of sysdig's spectrogram, with its dither.
    Sysdig,
    /// The six blues of PyLatencyMap for counts, its six oranges for time and bytes.
    PyLatencyMap,
}

/// Seventeen stops of viridis without its darkest eighth, computed from the published polynomial fit (CC0).
const VIRIDIS: [u32; 17] = [
    0x472b7a, 0x443d84, 0x3f4d8a, 0x385c8d, 0x306a8e, 0x29778e, 0x22848d, 0x1f918b, 0x209f88, 0x28ab82, 0x37b878,
    0x4dc36a, 0x6bce56, 0x8fd640, 0xb7dd2a, 0xdde31c, 0xfce721,
];

/// Of inferno, without its dark fifth and its white end; likewise.
const INFERNO: [u32; 17] = [
    0x490e63, 0x5d1269, 0x70176c, 0x831d6b, 0x952466, 0xa72c5e, 0xb93552, 0xc94044, 0xd84d35, 0xe55c26, 0xf06d19,
    0xf78010, 0xfa960e, 0xfaae15, 0xf7c728, 0xf4df47, 0xf4f475,
];

/// Of turbo; likewise.
const TURBO: [u32; 17] = [
    0x422f85, 0x4a57db, 0x3c80f8, 0x2ba7f0, 0x25c9d4, 0x2ee4af, 0x47f689, 0x6dfe68, 0x9afa4e, 0xc7eb3b, 0xecd12e,
    0xffb025, 0xff891e, 0xf66018, 0xd6390f, 0xb01b06, 0x940c00,
];

/// xterm colours of PyLatencyMap's frequency map, then of its intensity map.
pub(crate) const PYLATENCYMAP: [[u8; 6]; 2] = [[51, 45, 39, 33, 27, 21], [226, 220, 214, 208, 202, 196]];

/// Characters by ink, weakest first.
const SHADES: [char; 9] = ['.', ':', '-', '=', '+', '*', '#', '%', '@'];

impl Palette {
    /// All palettes.
    pub const ALL: &'static [Palette] =
        &[Palette::Viridis, Palette::Inferno, Palette::Turbo, Palette::Sysdig, Palette::PyLatencyMap];

    /// The word for `--palette`.
    pub fn name(self) -> &'static str {
        match self {
            Palette::Viridis => "viridis",
            Palette::Inferno => "inferno",
            Palette::Turbo => "turbo",
            Palette::Sysdig => "sysdig",
            Palette::PyLatencyMap => "pylatencymap",
        }
    }

    /// The palette of this name.
    pub fn from_name(name: &str) -> Option<Palette> {
        Palette::ALL.iter().copied().find(|palette| palette.name() == name)
    }

    /// How many colours the ladder has at this depth; `None` when it is continuous.
    pub(crate) fn steps(self, depth: ColorDepth) -> Option<usize> {
        match (depth, self) {
            (ColorDepth::Mono, _) => Some(SHADES.len()),
            (ColorDepth::Ansi16, _) => Some(self.ladder16().len()),
            (_, Palette::PyLatencyMap) => Some(6),
            _ => None,
        }
    }

    /// The colour of a strength from 0 (the weakest cell that is not empty) to 1. `hot` picks the second ladder of a
    /// palette that has two.
    pub(crate) fn color(self, strength: f64, depth: ColorDepth, hot: bool) -> Color {
        let strength = if strength.is_finite() { strength.clamp(0.0, 1.0) } else { 1.0 };
        let stops = match (depth, self) {
            (ColorDepth::Mono, _) => return Color::Default,
            (ColorDepth::Ansi16, _) => return Color::Indexed(step(self.ladder16(), strength)),
            (_, Palette::PyLatencyMap) => return Color::Indexed(step(&PYLATENCYMAP[usize::from(hot)], strength)),
            (_, Palette::Sysdig) => return Color::Indexed(step(self.ladder256(), strength)),
            (_, Palette::Viridis) => &VIRIDIS,
            (_, Palette::Inferno) => &INFERNO,
            (_, Palette::Turbo) => &TURBO,
        };
        if depth == ColorDepth::Truecolor {
            blend(stops, strength)
        } else {
            Color::Indexed(step(self.ladder256(), strength))
        }
    }

    /// Chosen by hand: the nearest colours of xterm's coarse cube are paler than their neighbours here and there, so
    /// that brightness would not rise with strength.
    fn ladder256(self) -> &'static [u8] {
        match self {
            Palette::Viridis => &[54, 24, 25, 30, 36, 41, 77, 113, 148, 184, 220],
            Palette::Inferno => &[53, 89, 125, 161, 166, 202, 208, 214, 220, 221],
            Palette::Turbo => &[55, 62, 27, 33, 38, 43, 48, 83, 154, 184, 214, 208, 202, 160, 88],
            Palette::Sysdig => &crate::sysdig::RAMP,
            Palette::PyLatencyMap => &PYLATENCYMAP[0],
        }
    }

    /// Of the terminal's own colours: none that may be its background (black, white and the greys).
    fn ladder16(self) -> &'static [u8] {
        match self {
            Palette::Viridis => &[5, 4, 6, 2, 10, 11],
            Palette::Inferno => &[4, 5, 1, 9, 3, 11],
            Palette::Turbo => &[4, 12, 6, 2, 3, 9, 1],
            Palette::Sysdig => &[2, 10, 11, 3, 9, 1],
            Palette::PyLatencyMap => &[6, 14, 12, 4, 13, 5],
        }
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

fn blend(stops: &[u32; 17], strength: f64) -> Color {
    let at = strength * 16.0;
    let low = (at as usize).min(15);
    let part = at - low as f64;
    let mix = |shift: u32| {
        let (from, to) = (f64::from(stops[low] >> shift & 255), f64::from(stops[low + 1] >> shift & 255));
        (from + (to - from) * part).round() as u8
    };
    Color::Rgb(mix(16), mix(8), mix(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weakest_colour_differs_from_any_background() {
        for &palette in Palette::ALL {
            for depth in [ColorDepth::Truecolor, ColorDepth::Ansi256, ColorDepth::Ansi16] {
                for strength in [0.0, 1e-9, 0.5, 1.0, f64::NAN, -1.0, 7.0] {
                    let color = palette.color(strength, depth, false);
                    let background = [0, 7, 8, 15, 16, 231].map(Color::Indexed).contains(&color);
                    assert!(!background && color != Color::Default, "{palette:?} {depth:?} {strength}: {color:?}");
                    if let Color::Rgb(r, g, b) = color {
                        let light = 0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b);
                        assert!((30.0..235.0).contains(&light), "{palette:?} {strength}: {color:?}");
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
            let lights = (0..=100).map(|at| match palette.color(f64::from(at) / 100.0, ColorDepth::Truecolor, false) {
                Color::Rgb(red, green, blue) => light(red, green, blue),
                _ => 0,
            });
            assert!(lights.is_sorted(), "{palette:?}");
            let cube = |index: u8| [0, 95, 135, 175, 215, 255][usize::from(index)];
            let lights = palette.ladder256().iter().map(|&index| {
                let index = index - 16;
                light(cube(index / 36), cube(index / 6 % 6), cube(index % 6))
            });
            assert!(lights.is_sorted(), "{palette:?} of 256");
        }
    }

    #[test]
    fn names_lead_back() {
        for &palette in Palette::ALL {
            assert_eq!(Palette::from_name(palette.name()), Some(palette));
        }
    }

    #[test]
    fn shades_rise_from_a_dot() {
        assert_eq!((shade(0.0).symbol, shade(0.5).symbol, shade(1.0).symbol), ('.', '+', '@'));
        assert_eq!(shade(f64::NAN).symbol, '.');
    }
}
