use latscope_event::{Field, FieldSet, format_duration_exact, format_size};
use latscope_filter::FilterError;
use latscope_series::MergeError;
use std::path::PathBuf;

/// Why a pipeline yields nothing. The sentences name no option of any program: remedies are the caller's.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("{0}")]
    Read(#[from] latscope_capture_file::Error),
    /// A live capture cannot start, or failed.
    #[error("{0}")]
    Capture(#[from] latscope_capture_bpf::Error),
    /// Samples of control groups cannot be used: a sentence.
    #[error("{0}.")]
    Usage(String),
    /// There are no tags: a sentence.
    #[error("{0}.")]
    Tags(String),
    /// The clock of a trace cannot resolve the filter's times; with a caret below the text.
    #[error("{error}\n{caret}", error = .0, caret = .0.caret())]
    Filter(#[from] FilterError),
    /// The filter asks for the past, and the capture is live.
    #[error("The filter selects events from the past, but a live capture only sees new ones.")]
    Past,
    /// The source has nothing of the devices that the filter asks for: a sentence for each.
    #[error("{}", .0.join("\n"))]
    NothingOf(Vec<String>),
    /// The view needs single events, and the capture may only count.
    #[error("This view needs single events; histogram mode has none.")]
    EventsWanted,
    /// The kernel cannot count what the view needs, and nothing else is allowed: why.
    #[error("Histogram mode cannot be used: {0}.")]
    NotCountable(String),
    /// The histograms take more memory than there may be.
    #[error("The histograms of all intervals and groups need more than {} of memory.", format_size(*.0))]
    TooLarge(u64),
    /// Derived fields need all events of a trace in memory, and these are too many.
    #[error(
        "{} is computed from all events of a trace, and these take more than {} of memory.", names(*.fields),
        format_size(*.limit_bytes)
    )]
    NotDerivable {
        /// The derived fields.
        fields: FieldSet,
        /// So much memory may be taken.
        limit_bytes: u64,
    },
    /// Derived fields are known only when a trace is over, and this one is watched while it grows.
    #[error("{} is computed from a complete trace, which a live or growing one is not.", names(*.0))]
    Incomplete(FieldSet),
    /// No event has the field that is to be shown.
    #[error("No event in this trace has {}, so there is nothing to show.", .0.name())]
    NoValues(Field),
    /// No request waited before its issue, as far as the trace knows.
    #[error("The trace has no queue times; also record block:block_io_start or block:block_rq_insert.")]
    NoQueueing,
    /// The rows are averages, from which no distribution can be made: the trace.
    #[error("{0}: The rows are averages over a window, which have no latency distribution.")]
    Averages(String),
    /// Intervals are whole jobs, and the view shows when something happened.
    #[error("{}: The histograms cover whole jobs, without times within the job, so there is nothing to draw over \
             time.", .0.display())]
    WholeJobs(PathBuf),
    /// A stored series is of another quantity or weight than is asked for.
    #[error(
        "{} has histograms of {stored}, which cannot be shown as {asked}.", .file.display()
    )]
    OtherSeries {
        /// The file.
        file: PathBuf,
        /// Its quantity and weight.
        stored: String,
        /// Those that are asked for.
        asked: String,
    },
    /// A stored series does not have a group.
    #[error("{} is not grouped by {}, only by: {}.", .file.display(), .field.name(), .has.join(", "))]
    NoGroup {
        /// The file.
        file: PathBuf,
        /// The field that is asked for.
        field: Field,
        /// The fields that it is grouped by.
        has: Vec<String>,
    },
    /// The intervals of a stored series differ.
    #[error("{}: Intervals of different widths in one file are not supported.", .0.display())]
    Widths(PathBuf),
    /// The asked interval is no multiple of the stored one, nanoseconds.
    #[error("The stored intervals are {} long; the interval must be a multiple of that.", format_duration_exact(*.0))]
    Width(u64),
    /// Histograms cannot be filtered by a field.
    #[error(
        "Stored histograms only have time, latency and their groups ({}), so they cannot be filtered by {}.", .has.join(", "), .field.name()
    )]
    NotFilterable {
        /// The field of the filter.
        field: Field,
        /// The fields that the histograms are grouped by.
        has: Vec<String>,
    },
    /// Series cannot be merged.
    #[error("The files cannot be merged: {0}.")]
    Merge(MergeError),
    /// Counts are larger than a histogram holds.
    #[error("{0}.")]
    Series(String),
    /// No event has a stack; so many events there are.
    #[error("{}", match .0 { 1 => "The only event has no stack.".into(), count => format!("None of {} events has a stack.", latscope_event::format_count(*count)) })]
    NoStacks(u64),
    /// Shares of time are asked for, and the stacks have no times.
    #[error("The stacks are counted without times, so there are no shares of time.")]
    NoStackTimes,
    /// The file of clock offsets is malformed.
    #[error("{0}")]
    Offsets(String),
    /// A file of this format is readable only when it is complete.
    #[error("{}: {format} can only be read when it is complete.", .file.display())]
    NotGrowing {
        /// The file.
        file: PathBuf,
        /// The name of its format.
        format: &'static str,
    },
}

/// The names of fields in a sentence.
fn names(fields: FieldSet) -> String {
    fields.iter().map(Field::name).collect::<Vec<_>>().join(", ")
}

impl Error {
    /// Whether the caller asked for what cannot be; else input or capture failed.
    pub fn is_usage(&self) -> bool {
        match self {
            Error::Capture(error) => matches!(error, latscope_capture_bpf::Error::Option(_)),
            Error::Filter(_) | Error::Past | Error::NothingOf(_) | Error::EventsWanted | Error::NotCountable(_) => true,
            Error::TooLarge(_) | Error::OtherSeries { .. } | Error::NoGroup { .. } | Error::Width(_) => true,
            Error::NotFilterable { .. } | Error::Merge(_) | Error::NotGrowing { .. } => true,
            Error::Read(_) | Error::NoValues(_) | Error::NoQueueing | Error::Averages(_) | Error::WholeJobs(_) => false,
            Error::Widths(_) | Error::Series(_) | Error::Offsets(_) | Error::Tags(_) | Error::Usage(_) => false,
            Error::NotDerivable { .. } | Error::Incomplete(_) | Error::NoStacks(_) | Error::NoStackTimes => false,
        }
    }
}
