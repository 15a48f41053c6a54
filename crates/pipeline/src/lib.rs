//! From what to read to events or a series: the one crate that assembles sources, filter and fold.
//!
//! A [`Reading`] says what to read: files, folders or the running kernel, which filter, which clocks. [`Pipeline::open`] looks
//! through folders and finds out formats. Then a consumer takes batches ([`Pipeline::each_batch`], [`Pipeline::fold`]), a whole
//! series ([`Pipeline::series`]), or intervals as they pass ([`Pipeline::intervals`]). Whether stored histograms, the kernel's
//! counts or single events answer is decided in one place ([`Pipeline::origin`]).
//!
//! Nothing is printed here: [`Observer`] gets notes and progress, [`Error`] says what went wrong, and both leave remedies to the
//! program that knows its options.
#![forbid(unsafe_code)]

#[cfg(test)]
#[macro_use]
#[path = "../../../tests/skip.rs"]
mod skip;

mod ages;
mod clocks;
mod compared;
mod control;
mod cube;
mod derived;
mod error;
mod executors;
mod files;
mod graphite;
mod group_filter;
mod intervals;
mod live;
mod marked;
mod named;
mod open;
mod pass;
mod pipeline;
mod postgres;
mod reading;
mod series;
mod sides;
mod spark;
mod spark_live;
mod stacks;
mod stalls;
mod starts;
mod stored;
mod stored_stream;
mod stream;
mod tags;
mod totals;
mod unfinished;
mod unlike;
mod workers;

pub use compared::{Compared, Explained, Question};
pub use control::{Control, Notice, Observer};
pub use cube::cube_fields;
pub use error::Error;
pub use executors::{Executor, Executors, OwnGroups};
pub use graphite::Graphite;
pub use group_filter::GroupFilter;
pub use intervals::Intervals;
pub use live::{Counting, Events, INTERVAL_NS, TURN, needs_events, now_ns};
pub use marked::Marked;
pub use pass::Pass;
pub use pipeline::{Origin, Pipeline};
pub use postgres::{Refusal, Server};
pub use reading::{Folding, Live, Mode, Reading, SourceChoice};
pub use series::{missing_groups, refuse_averages, too_large};
pub use sides::{Subject, Turn, Unknown, compare_sides, lacks_part};
pub use spark::SparkApplication;
pub use spark_live::{SparkCgroups, SparkLive};
pub use stacks::refuse_stacks;
pub use stalls::{Stalls, describe};
pub use tags::{TagSources, Tagging, tag};
pub use totals::totals_builder;
pub use unfinished::{RECORDING, continued, keep_passing};
pub use unlike::unlike;
