//! How the caller of a pipeline watches it and ends it early.

use latscope_capture_bpf::Source;
use latscope_event::{Field, format_count, format_duration};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Watches a pipeline while it runs. All methods may be called from several threads.
pub trait Observer: Send + Sync {
    /// Something that the user should know now, before there is a result.
    fn notice(&self, notice: &Notice);

    /// Bytes of the input that were read, and its size; 0 when that is unknown (a pipe).
    fn progress(&self, _read_bytes: u64, _size_bytes: u64) {}

    /// The input was read, or will not be read further.
    fn ended(&self) {}
}

/// Nobody watches.
impl Observer for () {
    fn notice(&self, _notice: &Notice) {}
}

/// The caller's hand on a pipeline. Clones share the flag and the observer.
#[derive(Clone)]
pub struct Control {
    cancelled: Arc<AtomicBool>,
    observer: Arc<dyn Observer>,
    /// Called with a sentence when a file that is followed was replaced or truncated.
    pub(crate) on_restart: fn(&str),
}

impl Default for Control {
    fn default() -> Control {
        Control::new(Arc::default(), Arc::new(()))
    }
}

impl Control {
    /// A pipeline ends when the flag is set: a file stops where it is, a capture ends, and the result is that of what was read.
    pub fn new(cancelled: Arc<AtomicBool>, observer: Arc<dyn Observer>) -> Control {
        Control { cancelled, observer, on_restart: |_| {} }
    }

    /// Calls this with a sentence when a file that is followed was replaced or truncated.
    #[must_use]
    pub fn on_restart(self, on_restart: fn(&str)) -> Control {
        Control { on_restart, ..self }
    }

    /// Whether the caller has ended it.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Passes a notice to the observer.
    pub(crate) fn notice(&self, notice: Notice) {
        self.observer.notice(&notice);
    }

    pub(crate) fn observer(&self) -> &dyn Observer {
        &*self.observer
    }
}

/// What a pipeline reports while it runs. [`fmt::Display`] gives a sentence without the remedies of a certain program.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// A capture has started.
    Capturing {
        /// What is captured.
        source: Source,
        /// Only these system calls.
        calls: Option<Vec<String>>,
    },
    /// There are events, and the filter, as it was parsed, lets none through.
    NoMatch {
        /// The filter.
        filter: String,
        /// The values that events have in the text fields of the filter, where these are few.
        values: Vec<(Field, Vec<String>)>,
        /// So many requests that it lets through have not completed; then the values are of no use.
        waiting: usize,
    },
    /// A request has been waiting for long.
    Waiting {
        /// Its age, nanoseconds.
        age_ns: u64,
        /// The request in words: `loop0 read 4KiB by dd`.
        request: String,
    },
    /// So many more requests have been waiting for long.
    MoreWaiting(usize),
    /// Histograms of whole jobs have no place in a view over time.
    JobsLeftOut {
        /// The first of the files.
        file: PathBuf,
        /// How many more there are.
        more: usize,
    },
    /// Files of a folder were left out, or several files hold the same I/Os: the sentence.
    Files(String),
    /// Files were given more than once; they are read once.
    Repeated {
        /// The first of the files.
        file: PathBuf,
        /// How many more there are.
        more: usize,
    },
    /// Files of different formats hold the same events, which count several times.
    SameEvents {
        /// Two of the files.
        files: [PathBuf; 2],
        /// How many more files do.
        more: usize,
    },
    /// A file of a folder cannot be read and is skipped.
    Skipped {
        /// The folder.
        folder: PathBuf,
        /// Why it cannot be read.
        why: String,
    },
    /// No event has these fields of the groups.
    Ungrouped(Vec<Field>),
    /// So many events lasted longer than any before: the intervals at their start had closed.
    CutEvents(u64),
    /// Events came after their interval had closed.
    LateEvents {
        /// How many.
        count: u64,
        /// Whether their intervals were handed on once more at the end.
        handed_on: bool,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Capturing { calls: Some(calls), .. } => write!(f, "capturing {}", calls.join(", ")),
            Notice::Capturing { source: Source::Block, .. } => f.write_str("capturing block requests"),
            Notice::Capturing { source: Source::Io, .. } => f.write_str("capturing system calls that do I/O"),
            Notice::Capturing { source: Source::Syscall, .. } => f.write_str("capturing all system calls"),
            Notice::Capturing { source, .. } => write!(f, "capturing {}", source.words()),
            Notice::NoMatch { filter, waiting: 1, .. } => {
                write!(f, "No event that matches the filter has completed, and 1 waits: {filter}")
            }
            Notice::NoMatch { filter, waiting: more @ 1.., .. } => {
                write!(f, "No event that matches the filter has completed, and {more} wait: {filter}")
            }
            Notice::NoMatch { filter, values, waiting: 0 } => {
                write!(f, "No event matches the filter: {filter}")?;
                let values = values.iter().map(|(field, texts)| format!("{}: {}", field.name(), texts.join(", ")));
                let values: Vec<String> = values.collect();
                if values.is_empty() { Ok(()) } else { write!(f, " (values in the input: {})", values.join("; ")) }
            }
            Notice::Waiting { age_ns, request } => {
                write!(f, "waiting for {} so far: {request}", format_duration(*age_ns))
            }
            Notice::MoreWaiting(count) => write!(f, "waiting: {count} more"),
            Notice::JobsLeftOut { file, more } => write!(
                f,
                "{}{}: skipped, so the I/Os of these jobs are missing: the histograms cover whole jobs, without \
                 times within the job.",
                file.display(),
                if *more > 0 { format!(" and {more} more") } else { String::new() }
            ),
            Notice::Files(sentence) => f.write_str(sentence),
            Notice::Repeated { file, more: 0 } => {
                write!(f, "{} given more than once (or through a link): read once.", file.display())
            }
            Notice::Repeated { file, more } => {
                write!(
                    f,
                    "{} and {more} more files given more than once (or through a link): read once.",
                    file.display()
                )
            }
            Notice::SameEvents { files: [first, second], more } => {
                let more = if *more > 0 { format!(" (and {more} more)") } else { String::new() };
                let (first, second) = (first.display(), second.display());
                write!(
                    f,
                    "{first} and {second}{more} seem to be the same trace in different formats: its events count once \
                           for each file."
                )
            }
            Notice::Skipped { folder, why } => write!(f, "{}: skipped: {why}", folder.display()),
            Notice::Ungrouped(fields) => {
                let names: Vec<_> = fields.iter().map(|field| field.name()).collect();
                write!(f, "no event has {}, a field of the groups.", names.join(" or "))
            }
            Notice::CutEvents(count) => write!(
                f,
                "{} of these events lasted longer than any before, so the intervals at their start were already \
                 closed; they count from the first open interval.",
                format_count(*count)
            ),
            Notice::LateEvents { count, handed_on } => write!(
                f,
                "{} events arrived after their interval had closed; {}.",
                format_count(*count),
                if *handed_on { "their intervals have a second line at the end" } else { "they are not shown" }
            ),
        }
    }
}
