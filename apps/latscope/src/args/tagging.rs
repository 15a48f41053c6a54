//! Tags of the application.

use clap::Args;
use std::path::PathBuf;

/// What the application did meanwhile.
#[derive(Args, Clone, Debug, Default)]
pub struct Tagging {
    /// File of tags: lines of "TID FROM TO KEY=VALUE ...", or pid:PID
    ///
    /// Times are seconds or nanoseconds since 1970, or 2026-11-21T10:32:05Z; TO is - while it lasts. Live, the file may grow.
    /// Filters and --by have the fields tags and tag.
    #[arg(long, value_name = "FILE", help_heading = "Tags")]
    pub tag_file: Option<PathBuf>,
    /// Ask this PostgreSQL server what its backends do, e.g. "host=/var/run/postgresql user=postgres"
    #[arg(long, value_name = "WORDS", help_heading = "Tags")]
    pub tag_postgres: Option<String>,
    /// Tag whose value is the field tag, e.g. --tag wait_event --by tag
    #[arg(long, value_name = "KEY", help_heading = "Tags")]
    pub tag: Option<String>,
}
