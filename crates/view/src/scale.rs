//! How a value becomes a place on an axis, or a rate a colour.

/// How values are laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scale {
    /// By their logarithm: every doubling is the same step.
    #[default]
    Log,
    /// By their square root.
    Sqrt,
    /// In proportion.
    Linear,
}

impl Scale {
    /// All scales.
    pub const ALL: &'static [Scale] = &[Scale::Log, Scale::Sqrt, Scale::Linear];

    /// The word for options.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Scale::Log => "log",
            Scale::Sqrt => "sqrt",
            Scale::Linear => "linear",
        }
    }

    /// The scale of this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Scale> {
        Scale::ALL.iter().copied().find(|scale| scale.word() == word)
    }
}
