//! Pictures and tables of series as files: the SVG heat map, the chart of percentiles. Pure functions from a series to text.
#![forbid(unsafe_code)]

mod axis;
mod compare;
mod curve;
pub mod firefox;
mod flamegraph;
mod frame;
mod heatmap;
mod html;
mod page;
mod palette;
mod percentiles;
mod plot;
mod png;
pub mod rows;
mod spark;
mod spark_timeline;
pub mod stack_files;
mod svg;

pub use compare::{ComparePicture, CompareSide, compare};
pub use curve::{CurvePicture, CurvePoint, CurveSide, curve};
pub use flamegraph::{FlameColour, FlamegraphOptions, Flames, flamegraph};
pub use heatmap::{HeatmapError, HeatmapOptions, heatmap};
pub use html::{
    REPORT_TEMPLATE, ReportOptions, ReportSection, fit_report, live_report, report, report_data, report_keys,
    report_title,
};
pub use palette::Theme;
pub use percentiles::{PercentilesChart, PercentilesError, PercentilesOptions, percentiles};
pub use spark::{SparkPicture, spark};
pub use spark_timeline::{spark_page, spark_timeline};
