//! Palettes: names, and colours from dark to light.

/// The colours of cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Palette {
    /// Violet, green, yellow; even steps of brightness, readable with any colour vision.
    #[default]
    Viridis,
    /// Violet, red, yellow; even steps of brightness, readable with any colour vision.
    Inferno,
    /// Blue to yellow, made to look the same with and without red-green blindness.
    Cividis,
    /// Shades of red, as in the first published latency heat maps.
    Classic,
    /// Blue over green to red: more shades, less even.
    Turbo,
    /// The green to red of sysdig's spectrogram, with its dither.
    Sysdig,
    /// The six blues of PyLatencyMap for counts, its six oranges for time and bytes.
    PyLatencyMap,
}

/// Seventeen stops of turbo, computed from the published polynomial fit (CC0).
const TURBO: [u32; 17] = [
    0x422f85, 0x4a57db, 0x3c80f8, 0x2ba7f0, 0x25c9d4, 0x2ee4af, 0x47f689, 0x6dfe68, 0x9afa4e, 0xc7eb3b, 0xecd12e,
    0xffb025, 0xff891e, 0xf66018, 0xd6390f, 0xb01b06, 0x940c00,
];

impl Palette {
    /// Those that every step of which stands out from the paper of a picture.
    pub const PICTURE: &'static [Palette] = &[Palette::Viridis, Palette::Inferno, Palette::Cividis, Palette::Classic];

    /// Those that terminals of few colours have ladders for.
    pub const TERMINAL: &'static [Palette] =
        &[Palette::Viridis, Palette::Inferno, Palette::Turbo, Palette::Sysdig, Palette::PyLatencyMap];

    /// The word for options.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Palette::Viridis => "viridis",
            Palette::Inferno => "inferno",
            Palette::Cividis => "cividis",
            Palette::Classic => "classic",
            Palette::Turbo => "turbo",
            Palette::Sysdig => "sysdig",
            Palette::PyLatencyMap => "pylatencymap",
        }
    }

    /// The palette of this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Palette> {
        Palette::PICTURE.iter().chain(Palette::TERMINAL).copied().find(|palette| palette.word() == word)
    }

    /// The whole colour map, dark to light. Viridis, inferno and cividis are the maps of that name that
    /// matplotlib gave to the public domain (CC0).
    #[must_use]
    pub fn map(self) -> &'static [u32] {
        match self {
            Palette::Inferno => {
                &[0x000004, 0x1b0c41, 0x4a0c6b, 0x781c6d, 0xa52c60, 0xcf4446, 0xed6925, 0xfb9b06, 0xf7d13d, 0xfcffa4]
            }
            Palette::Viridis => {
                &[0x440154, 0x482878, 0x3e4989, 0x31688e, 0x26828e, 0x1f9e89, 0x35b779, 0x6ece58, 0xb5de2b, 0xfde725]
            }
            Palette::Cividis => {
                &[0x00204d, 0x00336f, 0x39486b, 0x575c6d, 0x707173, 0x8a8779, 0xa69d75, 0xc4b56c, 0xe4cf5b, 0xffea46]
            }
            Palette::Classic => &[0x5a0000, 0xb00000, 0xff0000, 0xff6a5c, 0xffb09a, 0xffd5b5],
            Palette::Turbo => &TURBO,
            // Of the 256 colours of terminals, as red, green and blue.
            Palette::Sysdig => &[0x00d700, 0xd7d700, 0xff8700, 0xd70000],
            Palette::PyLatencyMap => &[0x00ffff, 0x00d7ff, 0x00afff, 0x0087ff, 0x005fff, 0x0000ff],
        }
    }

    /// The colour at a part from 0 to 1 of that part of the colour map that stands out from black and from white: for terminals,
    /// whose background is not known.
    #[must_use]
    pub fn on_any_ground(self, at: f64) -> [u8; 3] {
        let (from, to) = match self {
            Palette::Viridis => (0.12, 1.0),
            Palette::Inferno => (0.22, 0.95),
            Palette::Cividis => (1.0 / 9.0, 1.0),
            Palette::Classic => (0.2, 1.0),
            Palette::Turbo | Palette::Sysdig | Palette::PyLatencyMap => (0.0, 1.0),
        };
        blend(self.map(), from + (to - from) * at.clamp(0.0, 1.0))
    }
}

/// The colour at a part from 0 to 1 of colours that lie evenly, red, green and blue.
#[must_use]
pub fn blend(colours: &[u32], at: f64) -> [u8; 3] {
    let place = at.clamp(0.0, 1.0) * (colours.len() - 1) as f64;
    let (left, part) =
        ((place as usize).min(colours.len() - 2), place - (place as usize).min(colours.len() - 2) as f64);
    [16, 8, 0].map(|shift| {
        let channel = |colour: u32| f64::from(colour >> shift & 255);
        (channel(colours[left]) * (1.0 - part) + channel(colours[left + 1]) * part).round() as u8
    })
}

/// `#rrggbb`.
#[must_use]
pub fn hex([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lead_back() {
        for &palette in Palette::PICTURE.iter().chain(Palette::TERMINAL) {
            assert_eq!(Palette::from_word(palette.word()), Some(palette));
            assert!(palette.map().len() > 1);
        }
    }

    #[test]
    fn colours_between_colours() {
        let of = |at| hex(blend(&[0x000000, 0x8040ff, 0xffffff], at));
        assert_eq!(
            [of(-1.0), of(0.25), of(0.5), of(1.0), of(7.0)],
            ["#000000", "#402080", "#8040ff", "#ffffff", "#ffffff"]
        );
    }
}
