//! Pictures and tables of series as files: the SVG heat map. Pure functions from a series to text.
#![forbid(unsafe_code)]

mod axis;
mod frame;
mod heatmap;
mod page;
mod palette;
mod png;
pub mod rows;
mod svg;
mod ticks;

pub use axis::Scale;
pub use heatmap::{ColorScale, HeatmapError, HeatmapOptions, heatmap};
pub use palette::{Palette, Theme};
