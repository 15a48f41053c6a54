use super::{Weight, quantity};
use clap::Args;
use latscope_histogram::Grid;
use latscope_series::Quantity;

/// What a view over time takes.
#[derive(Args, Debug)]
pub struct Fold {
    /// Length of an interval, e.g. 100ms or 1s [default: chosen from the duration of the trace]
    #[arg(short, long, value_name = "DURATION", help_heading = "Grouping")]
    pub interval: Option<String>,
    /// Group by these fields, e.g. device,kind
    #[arg(long, value_name = "FIELD", value_delimiter = ',', help_heading = "Grouping")]
    pub by: Vec<String>,
    /// What to add up: events, their latencies, or their bytes
    #[arg(long, value_enum, default_value = "count", help_heading = "Grouping")]
    pub weight: Weight,
    /// Which quantity to show: latency, size, offset, queue, service or lag
    ///
    /// Or any field that is a duration or a size, such as run, gc or spilled.
    #[arg(short = 'y', long = "y", value_name = "QUANTITY", value_parser = quantity, default_value = "latency", help_heading = "Grouping")]
    pub quantity: Quantity,
    /// Smallest value on the axis, e.g. 10us or 4k; smaller values get a row of their own
    #[arg(long, visible_alias = "minlat", value_name = "VALUE", help_heading = "Grouping")]
    pub min: Option<String>,
    /// Largest value on the axis; larger values get a row of their own
    #[arg(long, visible_alias = "maxlat", value_name = "VALUE", help_heading = "Grouping")]
    pub max: Option<String>,
    /// Do not let waiting requests raise percentiles, mean and maximum
    #[arg(long, help_heading = "Grouping")]
    pub completed_only: bool,
    /// Histogram buckets per octave: 1, 2, 4, 8, 16, 32 or 64 [default: 64]
    ///
    /// Fewer buckets take less memory, in the kernel too, and make smaller files. A percentile is within 1/N of the value at its
    /// rank.
    #[arg(long, value_name = "N", value_parser = precision, help_heading = "Grouping")]
    pub precision: Option<Grid>,
}

/// The grid with so many buckets to the octave.
pub fn precision(text: &str) -> Result<Grid, String> {
    let buckets: u32 = text.parse().map_err(|_| "it is not a number".to_string())?;
    let power = u8::try_from(buckets.trailing_zeros()).ok().filter(|_| buckets.is_power_of_two());
    let grid = power.and_then(Grid::with_power).filter(|&grid| grid <= Grid::FINE);
    grid.ok_or_else(|| "it is not 1, 2, 4, 8, 16, 32 or 64".to_string())
}
