//! Host to cluster: an agent sends a histogram per interval and group, a hub merges them.
//!
//! The same records travel over a connection and lie in an agent's queue and in a hub's journal (`docs/formats/frames.md`). Each
//! has the run that it is from and its sequence number in that run, so it counts once, whatever is repeated and in which order it
//! comes.
#![forbid(unsafe_code)]

mod address;
pub mod alerts;
mod body;
mod certificate;
mod check;
mod clock;
mod closed;
mod cluster;
mod credentials;
mod dictionary;
mod durable;
pub mod exports;
mod gate;
pub mod history;
mod hub;
mod intake;
mod journal;
mod messages;
mod news;
mod places;
mod post;
mod queue;
mod ranges;
mod record;
mod reduce;
mod segments;
mod sender;
mod stream;
mod thin;
mod usage;
mod varint;

pub use address::{Address, Listener};
pub use body::{Data, Head, IntervalRow, Parts};
pub use check::check;
pub use clock::ClockState;
pub use closed::{Closed, Groups, Merged};
pub use cluster::{Counters, HostFacts, Limits, PUSHED};
pub use credentials::{Client, Credentials};
pub use dictionary::{Dictionary, GROUPS_LIMIT};
pub use history::Query;
pub use hub::{Change, Hub, Storage};
pub use messages::{Hello, HostState, Hosts, Id, Stored, new_id};
pub use news::{HostRow, News, OverInterval};
pub use post::{Answer as HttpAnswer, Poster, Url};
pub use queue::{Queue, QueueLimits};
pub use ranges::Ranges;
pub use record::{Found, Kind, PREFACE, Record, Records};
pub use reduce::Reducer;
pub use sender::{Progress, Sender, introduce};
pub use stream::Stream;
pub use usage::Usage;

/// Why bytes are no record of ours.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
pub enum Malformed {
    /// Fewer bytes than announced.
    #[error("it ends too early")]
    Short,
    /// More bytes than announced.
    #[error("it has bytes behind its end")]
    Long,
    /// A number beyond what is possible.
    #[error("a number exceeds its limit")]
    Number,
    /// A text that is too long, or not UTF-8.
    #[error("a text is too long or not UTF-8")]
    Text,
    /// Too many groups or fields, or none where there must be some.
    #[error("it has too many groups, fields or intervals, or none")]
    Amount,
    /// A group that no record described.
    #[error("it refers to a group that was not described")]
    Group,
    /// Buckets that make no histogram.
    #[error("its buckets do not form a histogram")]
    Histogram,
    /// A compressed part that is damaged or too large.
    #[error("its compressed part is damaged or too large")]
    Packed,
    /// A part of a later version.
    #[error("it has a part that this version does not know")]
    UnknownPart,
    /// A version that is not spoken here.
    #[error("it is of an unknown version")]
    Version,
}
