//! Histograms over time, by group: what every view is made of.
//!
//! By default an event counts in the interval in which it *completed* ([`CountBy::Completion`]). That is when its latency
//! is known, live as well as in a file, so an interval that has passed never changes. Percentiles of files count by overlap
//! instead ([`CountBy::Overlap`]): in every interval in which the event was in flight, in proportion to the time that it
//! spent there. Intervals start at whole multiples of their width since the clock's epoch, so series of different files and
//! hosts line up and merge exactly.
#![forbid(unsafe_code)]

mod budget;
mod build;
pub mod compare;
mod cube;
mod deviation;
mod different;
mod exact;
pub mod explain;
mod flow;
mod group;
mod interval;
mod interval_merger;
mod merge;
mod merged;
mod modes;
mod observed;
mod percentile;
mod period;
mod random;
mod runs;
mod sequential;
pub mod slow_places;
pub mod spark;
mod spark_metrics;
mod spark_timeline;
mod spark_waits;
mod stack_sums;
mod stacks;
mod support;
mod threshold;
mod usage;
mod waiting;
mod waiting_merge;
mod watch;

pub use budget::Budget;
pub use build::{SHARES, SeriesBuilder, Stretch};
pub use cube::{
    CUBE_ROWS, Cube, CubeAttribute, CubeBuilder, CubeColumn, CubeKey, CubeLimits, CubeSums, CubeValue, Exemplar,
    merge_cubes,
};
pub use deviation::Deviation;
pub use different::{Different, Peers, different};
pub use exact::{Exact, ExactBuilder};
pub use flow::Flow;
pub use group::Others;
pub use interval::{Interval, next_wider, round_multiples};
pub use interval_merger::IntervalMerger;
pub use merge::MergeError;
pub use merged::events_for;
pub use modes::{Mode, modes};
pub use percentile::{AskedPercentiles, ShownPercentile, ShownPercentiles};
pub use period::{Period, period};
pub use runs::Run;
pub use spark_metrics::{SparkCgroup, SparkExecutorNow, SparkMetric, SparkMetrics, SparkSample};
pub use spark_timeline::{
    SPARK_GROUPS, SPARK_MEMORY, SPARK_PARTS, SPARK_PEAKS, SparkColumn, SparkMemory, SparkTimeline,
};
pub use spark_waits::{SparkTaskWaits, SparkWait, SparkWaitSums, SparkWaits, waits_of_stages};
pub use stack_sums::{StackShares, StackSum, StackWidth, share_interval};
pub use stacks::{StackDifference, StackNode, StackTree, application_frame};
pub use support::Support;
pub use threshold::{Finding, HostCounts, Judged, Judgement, Part, Threshold};
pub use usage::{Usage, UsageOverTime, Used};
pub use waiting::{Raised, Waiter, Waiting};
pub use watch::{Exceeded, GroupInterval, Judging, Watch};

use latscope_event::{Field, FieldType, format_duration, format_size};
use latscope_histogram::{Grid, Histogram, Sparse, Totals};
use std::collections::BTreeMap;

/// What the histograms are of: the y axis of a heat map.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub enum Quantity {
    /// Latency, nanoseconds.
    #[default]
    Latency,
    /// Size, bytes.
    Size,
    /// Offset, bytes.
    Offset,
    /// Time waited before the issue, nanoseconds.
    Queue,
    /// Time that the target of a probe took, nanoseconds.
    Service,
    /// Time that a probe was late by the machine's doing, nanoseconds.
    Lag,
    /// Another field that is a duration or a number of bytes.
    Field(Field),
}

impl Quantity {
    /// The field that holds it.
    pub fn field(self) -> Field {
        match self {
            Quantity::Latency => Field::Latency,
            Quantity::Size => Field::Size,
            Quantity::Offset => Field::Offset,
            Quantity::Queue => Field::Queue,
            Quantity::Service => Field::Service,
            Quantity::Lag => Field::Lag,
            Quantity::Field(field) => field,
        }
    }

    /// Whether values are bytes; else they are nanoseconds.
    pub fn is_bytes(self) -> bool {
        self.field().field_type() == FieldType::Bytes
    }

    /// A value for the eye: a duration, or a size.
    pub fn shown(self, value: u64) -> String {
        if self.is_bytes() { format_size(value) } else { format_duration(value) }
    }

    /// What is compared of a side, and how a larger and a smaller value of it are called: a trace is slower, its GC time is higher.
    pub fn comparatives(self) -> (&'static str, &'static str) {
        if self == Quantity::Latency { ("slower", "faster") } else { ("higher", "lower") }
    }

    /// What the names of its values end in: `_ns` or `_bytes`.
    pub fn suffix(self) -> &'static str {
        if self.is_bytes() { "_bytes" } else { "_ns" }
    }

    /// The word for options and titles.
    pub fn word(self) -> &'static str {
        match self {
            Quantity::Latency => "latency",
            Quantity::Size => "size",
            Quantity::Offset => "offset",
            Quantity::Queue => "queue",
            Quantity::Service => "service",
            Quantity::Lag => "lag",
            Quantity::Field(field) => field.name().strip_suffix("_ns").unwrap_or(field.name()),
        }
    }

    /// The quantity of this word, or of the name of a field that is a duration or a number of bytes.
    pub fn from_word(word: &str) -> Option<Quantity> {
        use Quantity::{Lag, Latency, Offset, Queue, Service, Size};
        let field = Field::ALL.iter().copied().find(|&field| {
            let is_called = field.name() == word || Quantity::Field(field).word() == word;
            is_called && matches!(field.field_type(), FieldType::Duration | FieldType::Bytes)
        })?;
        let own = [Latency, Size, Offset, Queue, Service, Lag].into_iter().find(|own| own.field() == field);
        Some(own.unwrap_or(Quantity::Field(field)))
    }

    /// The grid for it. Offsets are looked at on a linear axis, where the last octave is half of the picture,
    /// so they get buckets finer than a pixel there.
    pub fn grid(self) -> Grid {
        match self {
            Quantity::Offset => Grid::with_power(11).unwrap_or(Grid::FINE),
            _ => Grid::FINE,
        }
    }
}

/// What a cell adds up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub enum Weight {
    /// Events (frequency).
    #[default]
    Count,
    /// Time spent: the exact sum of latencies (intensity), nanoseconds.
    Time,
    /// Bytes.
    Bytes,
}

impl Weight {
    /// The word for options and titles.
    pub fn word(self) -> &'static str {
        match self {
            Weight::Count => "count",
            Weight::Time => "time",
            Weight::Bytes => "bytes",
        }
    }
}

/// In which intervals an event counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub enum CountBy {
    /// Once, in the interval in which it completed.
    #[default]
    Completion,
    /// As [`CountBy::Completion`]; but a row of which only the stretch of time is known (of a histogram log) counts in every
    /// interval that it touches, so that counts are fractions.
    CompletionInParts,
    /// In every interval in which it was in flight, in proportion to the time that it spent there.
    Overlap,
}

impl CountBy {
    /// The count that one event adds up to: 1, or [`SHARES`] where it may be divided.
    pub fn per_event(self) -> u64 {
        if self == CountBy::Completion { 1 } else { SHARES }
    }
}

/// One interval of a series.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Slice {
    /// The groups that had events, ascending by group number, with their histograms.
    pub groups: Vec<(u32, Sparse)>,
    /// Bytes moved by the events of all groups that give their size.
    pub bytes: u64,
    /// Of a series of offsets: pairs of events of the same device and kind of which one starts where the other, not long
    /// before or after, ended. A sequential stream has one fewer than events.
    pub sequential: u64,
}

/// A histogram for each interval and group.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct HistogramSeries {
    /// What the histograms are of.
    pub quantity: Quantity,
    /// What their weights add up.
    pub weight: Weight,
    /// The fields that make a group.
    pub by: Vec<Field>,
    width_ns: u64,
    grid: Grid,
    groups: Vec<Vec<String>>,
    slices: BTreeMap<i64, Slice>,
    flow: Flow,
    count_by: CountBy,
    others: Option<Others>,
    /// Of how many intervals an interval was merged, where it was.
    lengths: BTreeMap<i64, u64>,
    /// When the runs were, where the intervals are whole runs.
    runs: runs::Spans,
    waits: waiting::Waits,
    /// Since when and until when events were observed, where that is known.
    observed_ns: Option<(i64, i64)>,
    /// For how much longer than their width intervals were observed, by the name of the host, or an empty one: of all of them.
    repeated: BTreeMap<i64, BTreeMap<String, u64>>,
    /// Sums of the squares of all values, where they were summed up.
    squares: Option<deviation::Squares>,
}

impl HistogramSeries {
    /// The label of a value that an event lacks.
    pub const NO_VALUE: &'static str = "-";

    /// An empty series.
    pub fn new(quantity: Quantity, weight: Weight, by: Vec<Field>, width_ns: u64) -> HistogramSeries {
        let grid = quantity.grid();
        let (groups, slices) = (Vec::new(), BTreeMap::new());
        let (flow, count_by) = (Flow::default(), CountBy::Completion);
        HistogramSeries {
            quantity,
            weight,
            by,
            width_ns: width_ns.max(1),
            grid,
            groups,
            slices,
            flow,
            count_by,
            others: None,
            lengths: BTreeMap::new(),
            runs: runs::Spans::default(),
            waits: waiting::Waits::default(),
            observed_ns: None,
            repeated: BTreeMap::new(),
            squares: None,
        }
    }

    /// Width of the intervals.
    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// In which intervals an event counts.
    pub fn count_by(&self) -> CountBy {
        self.count_by
    }

    /// The count that one event adds up to; see [`CountBy::per_event`].
    pub fn per_event(&self) -> u64 {
        self.count_by.per_event()
    }

    /// The same events on this grid, if one is given and it is coarser. Stored histograms that are put into the series
    /// later have no finer one.
    #[must_use]
    pub fn on_grid(mut self, grid: Option<Grid>) -> HistogramSeries {
        if let Some(grid) = grid {
            self.fold(grid);
        }
        self
    }

    /// The grid of all histograms.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Values of the group fields, by group number.
    pub fn groups(&self) -> &[Vec<String>] {
        &self.groups
    }

    /// The group that stands for all that were too many, where there is one.
    pub fn others(&self) -> Option<Others> {
        self.others
    }

    /// A group's name for legends and titles: its values joined by blanks; `all` without group fields.
    pub fn group_name(&self, group: u32) -> String {
        match self.groups.get(group as usize) {
            Some(values) if !values.is_empty() => values.join(" "),
            _ => "all".into(),
        }
    }

    /// The intervals that have events, ascending, by interval number: the interval starts at number x width.
    pub fn slices(&self) -> &BTreeMap<i64, Slice> {
        &self.slices
    }

    /// First and last interval number; `None` when empty.
    pub fn range(&self) -> Option<(i64, i64)> {
        Some((*self.slices.first_key_value()?.0, *self.slices.last_key_value()?.0))
    }

    /// Start of an interval, nanoseconds on the trace's clock.
    pub fn start_ns(&self, interval: i64) -> i64 {
        interval.saturating_mul(self.width_ns as i64)
    }

    /// The histogram of one interval, of one group or of all.
    pub fn at(&self, interval: i64, group: Option<u32>) -> Histogram {
        let mut sum = Histogram::new(self.grid, self.weight != Weight::Count);
        self.add_at(&mut sum, interval, group);
        sum
    }

    /// Adds the histogram of one interval, of one group or of all, to `sum`.
    pub fn add_at(&self, sum: &mut Histogram, interval: i64, group: Option<u32>) {
        let Some(slice) = self.slices.get(&interval) else { return };
        slice
            .groups
            .iter()
            .filter(|(of, _)| group.is_none_or(|group| group == *of))
            .for_each(|(_, sparse)| sum.add(sparse));
    }

    /// The histogram of the whole time, of one group or of all.
    pub fn total(&self, group: Option<u32>) -> Histogram {
        self.total_among(|of| group.is_none_or(|group| group == of))
    }

    /// The histogram of the whole time, of some of the groups.
    pub fn total_among(&self, is_in: impl Fn(u32) -> bool) -> Histogram {
        let mut sum = Histogram::new(self.grid, self.weight != Weight::Count);
        let all = self.slices.values().flat_map(|slice| &slice.groups);
        all.filter(|(group, _)| is_in(*group)).for_each(|(_, sparse)| sum.add(sparse));
        sum
    }

    /// Count, sum, minimum and maximum over the whole time, by group number.
    pub fn group_totals(&self) -> Vec<Totals> {
        let mut totals = vec![Totals::EMPTY; self.groups.len()];
        for (group, sparse) in self.slices.values().flat_map(|slice| &slice.groups) {
            totals[*group as usize] = totals[*group as usize].merged(sparse.totals());
        }
        totals
    }

    /// Mean number of events in flight in each interval from `first` to `last`, from the exact overlap of every event
    /// with every interval. Events that never completed are not in it.
    pub fn in_flight(&self, first: i64, last: i64) -> Vec<f64> {
        self.flow.mean(self.width_ns, first, last)
    }

    /// Puts a stored histogram into the series; histograms of the same interval and group add up.
    ///
    /// # Errors
    /// When the group has another number of values than the series has group fields.
    pub fn insert(&mut self, interval: i64, group: Vec<String>, sparse: &Sparse) -> Result<(), MergeError> {
        if group.len() != self.by.len() {
            return Err(MergeError::Groups);
        }
        let number = self.group_numbered(&group);
        self.squares = None;
        if sparse.grid() < self.grid {
            self.fold(sparse.grid());
        }
        self.slices.entry(interval).or_default().add(number, sparse.folded(self.grid));
        Ok(())
    }

    /// The number of a group, which it gets now if it has none.
    fn group_numbered(&mut self, group: &[String]) -> u32 {
        let known = self.groups.iter().position(|known| *known == group);
        let number = known.unwrap_or_else(|| {
            self.groups.push(group.to_vec());
            self.groups.len() - 1
        });
        number as u32
    }
}

impl Slice {
    /// Adds what another slice sums up beside its histograms.
    fn add_sums(&mut self, other: &Slice) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.sequential = self.sequential.saturating_add(other.sequential);
    }

    /// Adds a histogram to a group.
    fn add(&mut self, group: u32, sparse: Sparse) {
        match self.groups.binary_search_by_key(&group, |&(number, _)| number) {
            Ok(at) => self.groups[at].1.merge(&sparse),
            Err(at) => {
                // Most series have one group, and a vector would make room for four.
                if self.groups.is_empty() {
                    self.groups.reserve_exact(1);
                }
                self.groups.insert(at, (group, sparse));
            }
        }
    }
}
