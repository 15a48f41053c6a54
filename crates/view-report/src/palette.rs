//! Colours of pictures.

use latscope_view::{Palette, blend, hex};

/// The part of the colour map that stands out from a light and from a dark background: the colour of a single event has a
/// contrast of 3:1 at least, as WCAG 2.1 asks of graphics (1.4.11).
fn visible(palette: Palette) -> ([f64; 2], [f64; 2]) {
    match palette {
        Palette::Inferno => ([0.06, 0.65], [0.5, 1.0]),
        Palette::Viridis => ([0.0, 0.56], [0.36, 1.0]),
        Palette::Cividis => ([0.0, 0.59], [0.4, 1.0]),
        Palette::Classic => ([0.0, 0.54], [0.29, 1.0]),
        // Not made for pictures.
        Palette::Turbo | Palette::Sysdig | Palette::PyLatencyMap => ([0.0, 1.0], [0.0, 1.0]),
    }
}

/// `steps` colours from few to many: away from the background, so darker on light and lighter on dark.
pub(crate) fn ramp(palette: Palette, theme: Theme, steps: usize) -> Vec<[u8; 3]> {
    let (light, dark) = visible(palette);
    let [from, to] = if theme == Theme::Dark { dark } else { [light[1], light[0]] };
    let part = |step: usize| from + (to - from) * step as f64 / (steps.max(2) - 1) as f64;
    (0..steps).map(|step| blend(palette.map(), part(step))).collect()
}

/// Background of a picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Theme {
    /// Light, and dark where the viewer asks for that (`prefers-color-scheme`).
    #[default]
    Adaptive,
    /// White paper.
    Light,
    /// Dark screen.
    Dark,
}

/// Colours of everything but the cells.
pub(crate) struct Inks {
    /// Whether the picture changes its colours where the viewer prefers a dark one.
    pub adapt: bool,
    pub page: &'static str,
    pub plot: &'static str,
    pub text: &'static str,
    pub muted: &'static str,
    pub grid: &'static str,
    pub frame: &'static str,
    pub strip: &'static str,
    pub strip_line: &'static str,
    /// Something is missing here.
    pub alarm: &'static str,
    /// Lines over the cells, in order, and the halo that sets them off.
    pub lines: [&'static str; 6],
    pub halo: &'static str,
    /// The mean, wherever it is drawn.
    pub mean: &'static str,
    /// Things side by side, in order: Okabe and Ito's colours for any colour vision, darker or lighter for the ground.
    pub groups: [&'static str; 8],
}

impl Theme {
    /// The word for options.
    pub fn word(self) -> &'static str {
        match self {
            Theme::Adaptive => "adaptive",
            Theme::Light => "light",
            Theme::Dark => "dark",
        }
    }

    pub(crate) fn inks(self) -> Inks {
        match self {
            Theme::Adaptive => Inks { adapt: true, ..Theme::Light.inks() },
            Theme::Light => Inks {
                adapt: false,
                page: "#ffffff",
                plot: "#f6f7f9",
                text: "#1b1f24",
                muted: "#57606a",
                grid: "#dfe3e8",
                frame: "#b4bcc5",
                strip: "#c3d3e6",
                strip_line: "#3d6fa5",
                alarm: "#c1121f",
                lines: ["#0a6fd1", "#b3206e", "#111111", "#7a4fd0", "#8a5a00", "#5c6670"],
                halo: "#ffffff",
                mean: "#c8500a",
                groups: ["#0072b2", "#d55e00", "#008a63", "#b0568a", "#8a6d00", "#3a9ad0", "#6b4fbb", "#5c6670"],
            },
            Theme::Dark => Inks {
                adapt: false,
                page: "#0d1117",
                plot: "#161b22",
                text: "#e6edf3",
                muted: "#9198a1",
                grid: "#2a313a",
                frame: "#454d57",
                strip: "#24405f",
                strip_line: "#79b0ea",
                alarm: "#ff6b6b",
                lines: ["#58b4ff", "#ff9ad2", "#ffffff", "#c8a6ff", "#ffce70", "#b6c0ca"],
                halo: "#0d1117",
                mean: "#ff9d4d",
                groups: ["#4db5ff", "#ff8a3d", "#2fd6a3", "#f29bc9", "#e6c84a", "#9ad7ff", "#b9a3ff", "#b6c0ca"],
            },
        }
    }
}

impl Inks {
    fn all(&self) -> impl Iterator<Item = &'static str> {
        let single = [
            self.page,
            self.plot,
            self.text,
            self.muted,
            self.grid,
            self.frame,
            self.strip,
            self.strip_line,
            self.alarm,
            self.halo,
            self.mean,
        ];
        single.into_iter().chain(self.lines).chain(self.groups)
    }
}

/// A style sheet for a picture drawn in light colours: where the viewer prefers a dark one, its colours (and those of a ramp
/// of this palette) are exchanged by those for a dark ground, and what has the class `dark` is shown instead of `light`.
pub(crate) fn dark_style(map: Option<(Palette, usize)>) -> String {
    let colours = |theme: Theme| {
        let steps = map.iter().flat_map(|(palette, steps)| ramp(*palette, theme, *steps)).map(hex);
        theme.inks().all().map(str::to_string).chain(steps).collect::<Vec<_>>()
    };
    let mut rules = String::new();
    let mut known = std::collections::BTreeSet::new();
    for (light, dark) in colours(Theme::Light).into_iter().zip(colours(Theme::Dark)) {
        if known.insert(light.clone()) {
            rules += &format!("[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}\n");
        }
    }
    format!(
        "<style>.dark{{display:none}}\n@media (prefers-color-scheme:dark){{.light{{display:none}}.dark{{display:inline}}\n\
         {rules}}}</style>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rule of the style sheet exchanges a colour wherever it stands.
    #[test]
    fn every_light_ink_has_one_dark_ink() {
        let pairs: Vec<_> = Theme::Light.inks().all().zip(Theme::Dark.inks().all()).collect();
        for (light, dark) in &pairs {
            assert!(
                pairs.iter().all(|(other, to)| other != light || to == dark),
                "{light} is {dark} and something else"
            );
        }
    }

    fn luminance(colour: [u8; 3]) -> f64 {
        let [r, g, b] = colour.map(|channel| {
            let part = f64::from(channel) / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }

    #[test]
    fn more_is_always_further_from_the_background_and_the_least_is_visible() {
        for &palette in Palette::PICTURE {
            for theme in [Theme::Light, Theme::Dark] {
                let plot = u32::from_str_radix(&theme.inks().plot[1..], 16).unwrap();
                let background = luminance([16, 8, 0].map(|shift| (plot >> shift) as u8));
                let contrast = |colour| {
                    let (a, b) = (luminance(colour) + 0.05, background + 0.05);
                    a.max(b) / b.min(a)
                };
                let ramp = ramp(palette, theme, 64);
                assert!(contrast(ramp[0]) >= 3.0, "{palette:?} {theme:?} {}", contrast(ramp[0]));
                assert!(contrast(ramp[63]) > 6.0, "{palette:?} {theme:?} {}", contrast(ramp[63]));
                for pair in ramp.windows(2) {
                    assert!(contrast(pair[1]) >= contrast(pair[0]) - 1e-2, "{palette:?} {theme:?}");
                }
            }
        }
    }
}
