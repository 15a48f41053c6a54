//! Live capture into a trace, while the interpreter does something else.

use crate::arguments::{filter, source};
use crate::raised::{Error as Raised, Notes, raise, usage};
use latscope_capture_bpf::{RequestStacks, Source, StackOptions, fills, usual};
use latscope_capture_file::LatWriter;
use latscope_event::{Batch, Context, Field, FieldSet, Mask};
use latscope_pipeline::{Control, Error, Live, Pipeline, Reading, TURN, keep_passing};
use pyo3::prelude::*;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// A capture that runs, or has run.
#[pyclass(frozen, module = "latscope._native")]
pub struct Capture {
    cancelled: Arc<AtomicBool>,
    /// The file that it writes.
    path: PathBuf,
    notes: Notes,
    running: Mutex<Option<JoinHandle<Result<(), Stop>>>>,
}

#[pymethods]
impl Capture {
    /// Starts a capture that writes to this file; it has started when this returns.
    #[new]
    #[pyo3(signature = (source, path, filter=None, calls=None, for_ns=None, stacks=None))]
    fn new(
        py: Python<'_>,
        source: &str,
        path: PathBuf,
        filter: Option<&str>,
        calls: Option<Vec<String>>,
        for_ns: Option<u64>,
        stacks: Option<&str>,
    ) -> PyResult<Capture> {
        let choice = self::source(source)?;
        let source = choice.captured().ok_or_else(|| usage("spark is for event logs; read one with lat.read."))?;
        if calls.is_some() && !matches!(source.alone(), Source::Io | Source::Syscall) {
            return Err(usage("calls needs the source io or syscall."));
        }
        if stacks.is_some() && source.alone() != Source::Block {
            return Err(usage("stacks is about requests to block devices and needs the source block."));
        }
        let requests = stacks.map(|words| RequestStacks::parse(words).map_err(|why| usage(format!("stacks: {why}."))));
        let stacks = StackOptions { requests: requests.transpose()?, ..choice.stack_options() };
        let live = Live { for_ns, calls, stacks, ..Live::new(source) };
        let reading = Reading { filter: self::filter(filter)?, live: Some(live), ..Reading::default() };
        let (cancelled, notes) = (Arc::new(AtomicBool::new(false)), Notes::default());
        let control = Control::new(Arc::clone(&cancelled), Arc::new(notes.clone()));
        let (sender, started) = channel();
        let file = path.clone();
        let thread = std::thread::spawn(move || capture(reading, source, control, file, &sender));
        let running = Mutex::new(Some(thread));
        let capture = Capture { cancelled, path, notes, running };
        // Where it could not start, the reason is how it ended.
        match py.detach(move || started.recv()) {
            Ok(()) => Ok(capture),
            Err(_) => capture.stop(py).map(|()| capture),
        }
    }

    /// What was noted while it ran.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.sentences()
    }

    /// Whether it has ended by itself.
    fn is_over(&self) -> bool {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it, and raises why it failed, if it did.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.cancelled.store(true, Ordering::Relaxed);
        let thread = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return Ok(()) };
        match py.detach(|| thread.join()) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Stop::Failed(error))) => Err(raise(&error)),
            Ok(Err(Stop::Written(error))) => {
                Err(Raised::new_err(format!("{}: The trace cannot be written: {error}.", self.path.display())))
            }
            Err(_) => Err(Raised::new_err("latscope failed; the reason is on standard error.")),
        }
    }
}

/// Why a capture ended early.
enum Stop {
    Failed(Error),
    Written(io::Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Written(error)
    }
}

fn capture(
    reading: Reading,
    source: Source,
    control: Control,
    path: PathBuf,
    started: &Sender<()>,
) -> Result<(), Stop> {
    let disks = FieldSet::default().with(&[Field::DiskModel, Field::Rotational]);
    let fields = usual(source).union(fills(source).intersection(reading.filter_fields().union(disks)));
    let pipeline = Pipeline::open(reading, control)?;
    let mut events = pipeline.capture(fields)?;
    events.bind()?;
    let mut writer = LatWriter::create(File::create(path)?, fields, events.context())?;
    // The caller may have been interrupted meanwhile, and wait no more.
    let _ = started.send(());
    let mut take = |_: &Context, batch: &Batch, mask: Option<&Mask>| {
        let written = writer.write(batch, mask).and_then(|()| writer.flush_if_due());
        written.map_or_else(|error| ControlFlow::Break(Stop::from(error)), ControlFlow::Continue)
    };
    while !events.is_over() {
        events.refresh()?;
        events.poll(TURN, &mut take)?;
    }
    let mut context = events.finish(&mut take)?;
    keep_passing(pipeline.reading(), &mut context);
    writer.finish(&context)?;
    Ok(())
}
