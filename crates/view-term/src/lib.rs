//! Views for a terminal as values: lines of cells with colours, and their encoding as ANSI text. Nothing here writes to
//! a terminal or asks one anything; the program says how wide it is and how many colours it has.
//!
//! The spectrogram shows when it was slow, the histogram how slow, the summary and the outliers what was slow.
#![forbid(unsafe_code)]

mod axis;
mod caption;
mod cell;
mod compare;
mod different;
mod explain;
mod histogram;
mod latency_map;
mod marks;
mod outliers;
mod palette;
mod percentiles;
mod rungs;
mod scale;
mod screen;
mod spark;
mod spark_metrics;
mod spark_timeline;
mod spark_waits;
mod spectrogram;
mod stacks;
mod summary;
mod svg;
mod sysdig;
mod table;

pub use caption::TimeLabels;
pub use cell::{Cell, Color, Line};
pub use compare::CompareTable;
pub use different::different_table;
pub use explain::{ExplanationView, SpotsView};
pub use histogram::{HistogramOptions, each_histogram_line, histogram, interval_histogram};
pub use latency_map::latency_maps;
pub use outliers::{Outlier, Outliers};
pub use palette::ColorDepth;
pub use percentiles::{PercentileOptions, Percentiles};
pub use screen::{Area, Drawn, Look, MapArea, Readout, Screen, Spot, readout, screen};
pub use spark::{SparkLevel, SparkReport};
pub use spark_metrics::{SparkMetricsTable, spark_gone_json, spark_metrics_json, spark_silent, spark_silent_json};
pub use spark_timeline::spark_screen;
pub use spark_waits::{spark_wait_json, spark_wait_lines};
pub use spectrogram::{GrowingSpectrogram, Orient, SpectrogramOptions, spectrogram, sysdig_spectrogram, sysdig_width};
pub use stacks::{StackRow, StacksTable};
pub use summary::{Summary, SummaryKey, SummaryRow};
pub use svg::svg_of_lines;
pub use sysdig::{SysdigSpectrogram, sysdig_column};
pub use table::{Align, Room, Table, csv_line};
