//! `.parquet`: events, or a series of histograms, for DuckDB, Polars, Spark, ClickHouse and ourselves.
//!
//! Both kinds carry the context as JSON in the file's key-value metadata, under the keys of the `.lat` schema, and use
//! no type that one of those programs cannot read: no unsigned integers, no nanosecond timestamps.

mod checksum;
mod groups;
mod read;
mod series;
mod write;

pub use read::{FILLS, parts, read};
pub use series::{open_series, write_series_parquet, write_table};
pub use write::ParquetWriter;

use crate::Detected;
use crate::arrow_columns::{context_json, io_error};
use crate::input::Input;
use ::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use groups::Groups;
use latscope_event::Context;
use std::io::{self, Write};

/// Metadata key of the description of a series; a file that has it holds histograms, not events.
const SERIES_KEY: &str = "latscope.series";

/// Distinguishes the two kinds of Parquet files from others, and from each other where the end of the file can be seen.
pub fn detect(input: &Input, of_series: bool) -> Detected {
    if !input.head().starts_with(b"PAR1") {
        return Detected::No;
    }
    // What the columns are stands at the end. In a pipe it is out of reach, and events are the likelier content.
    let series = input.unpacked_file().is_some_and(|file| {
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = guard::guarded(|| ArrowReaderMetadata::load(&file, options));
        matches!(metadata, Ok(Ok(metadata)) if value(&metadata, SERIES_KEY).is_some())
    });
    if series == of_series { Detected::Yes } else { Detected::No }
}

/// The value of a key in the metadata of a file.
fn value<'a>(metadata: &'a ArrowReaderMetadata, key: &str) -> Option<&'a str> {
    let pairs = metadata.metadata().file_metadata().key_value_metadata()?;
    pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
}

/// What both kinds have in common: zstd, statistics of pages with their index, dictionaries for texts only.
fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_dictionary_enabled(false)
}

/// Writes the context and these pairs into the metadata, and ends the file.
fn close<W: Write + Send>(groups: Groups<W>, context: &Context, pairs: &[(&str, String)]) -> io::Result<W> {
    let own = [
        (crate::lat::CONTEXT_KEY, context_json(context, true)?),
        (crate::lat::VERSION_KEY, crate::lat::VERSION.to_string()),
    ];
    groups.finish(&[&own, pairs].concat())
}

/// A Parquet error as what it mostly is: the disk is full, the pipe closed.
fn parquet_io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io_error(error.into()),
    }
}

/// Keeps panics of the Parquet library in.
///
/// It panics on some damaged files (negative offsets in the metadata, pages that end in the middle of a number), in more
/// places than could be checked beforehand without writing a second one. Nothing of it is used after a panic.
mod guard {
    use std::cell::Cell;
    use std::panic::{self, AssertUnwindSafe};
    use std::sync::Once;

    thread_local! {
        static GUARDED: Cell<bool> = const { Cell::new(false) };
    }

    /// Runs what calls into the library; a panic there is an error, and prints nothing.
    pub fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let others = panic::take_hook();
            panic::set_hook(Box::new(move |panic| {
                if !GUARDED.get() {
                    others(panic);
                }
            }));
        });
        GUARDED.set(true);
        let result = panic::catch_unwind(AssertUnwindSafe(work));
        GUARDED.set(false);
        result.map_err(|_| "its metadata or pages are inconsistent".to_string())
    }
}
