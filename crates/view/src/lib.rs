//! What every view draws with, whether it is a picture or a screen: palettes, scales, round ticks, labels, escaping.
#![forbid(unsafe_code)]

mod escape;
mod label;
mod palette;
mod scale;
pub mod ticks;

pub use escape::{Escaped, Escaping, json_text, push_json_text};
pub use label::{quantity_title, rate_label, value_label, weight_label};
pub use palette::{Palette, blend, hex};
pub use scale::Scale;
