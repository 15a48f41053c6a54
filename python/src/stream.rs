//! Arrow data handed over without copying: by the stream of the Arrow PyCapsule interface.

use crate::raised::{Notes, TURN, raise};
use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use latscope_capture_file::ArrowBatches;
use latscope_event::FieldSet;
use latscope_pipeline::{Error, Pipeline};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, ThreadId};
use std::time::Instant;

/// So many batches may wait to be taken.
const AHEAD: usize = 2;

type Failure = Arc<Mutex<Option<PyErr>>>;

/// Record batches that can be taken once.
#[pyclass(frozen, module = "latscope._native")]
pub struct Stream {
    reader: Mutex<Option<Box<dyn RecordBatchReader + Send>>>,
    failure: Failure,
}

#[pymethods]
impl Stream {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol leaves it to us whether a wish can be met.
        drop(requested_schema);
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
        let reader =
            reader.ok_or_else(|| crate::raised::usage("These data were taken already; ask for them again."))?;
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
    }

    /// Raises why the stream ended early, if it did.
    fn finish(&self) -> PyResult<()> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or(Ok(()), Err)
    }
}

impl Stream {
    /// Of a single batch.
    pub fn of_batch(batch: RecordBatch) -> Stream {
        let schema = batch.schema();
        Stream::new(Box::new(RecordBatchIterator::new([Ok(batch)], schema)), Failure::default())
    }

    /// Of requests that wait: what is a latency of events is their age.
    pub fn of_waiting(batch: Option<RecordBatch>, schema: &Schema) -> Stream {
        let aged = |field: &Arc<Field>| match &field.name()[..] {
            "latency_ns" => Arc::new(Field::clone(field).with_name("age_ns")),
            _ => Arc::clone(field),
        };
        let schema = Arc::new(Schema::new(schema.fields().iter().map(aged).collect::<Vec<_>>()));
        let renamed = |batch: RecordBatch| RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec());
        let batches: Vec<Sent> = batch.into_iter().map(renamed).collect();
        Stream::new(Box::new(RecordBatchIterator::new(batches, Arc::clone(&schema))), Failure::default())
    }

    /// Of all events of a pipeline, in these columns, with the completion if that is asked for; they are read while they are taken.
    pub fn of_events(pipeline: Pipeline, fields: FieldSet, has_end: bool, notes: Notes) -> Stream {
        let (sender, receiver) = sync_channel(AHEAD);
        let (rows, failure) = (ArrowBatches::new(fields), Failure::default());
        let schema = if has_end { with_end(&rows.schema()) } else { rows.schema() };
        let reported = Arc::clone(&failure);
        let reading = std::thread::spawn(move || {
            // Where nobody takes them any more there is nobody to hear of it.
            if let Err(Stop::Failed(error)) = send(&pipeline, fields, rows, &sender, &notes) {
                // The C interface ends a text at a NUL, and a file may have one wherever it is quoted.
                let message = error.to_string().replace('\0', "\u{fffd}");
                *reported.lock().unwrap_or_else(PoisonError::into_inner) = Some(raise(&error));
                let _ = sender.send(Err(ArrowError::ComputeError(message)));
            }
        });
        let interrupt =
            Interrupt { thread: std::thread::current().id(), asked: Instant::now(), failure: Arc::clone(&failure) };
        Stream::new(Box::new(Rows { schema, has_end, receiver, reading: Some(reading), interrupt }), failure)
    }

    fn new(reader: Box<dyn RecordBatchReader + Send>, failure: Failure) -> Stream {
        Stream { reader: Mutex::new(Some(reader)), failure }
    }
}

/// Why no further batch is sent.
enum Stop {
    Failed(Error),
    Dropped,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}

type Sent = Result<RecordBatch, ArrowError>;

fn send(
    pipeline: &Pipeline,
    fields: FieldSet,
    mut rows: ArrowBatches,
    sender: &SyncSender<Sent>,
    notes: &Notes,
) -> Result<(), Stop> {
    let hand_on = |batch: Result<Option<RecordBatch>, ArrowError>| match batch.transpose() {
        None => Ok(()),
        Some(batch) => sender.send(batch).map_err(|_| Stop::Dropped),
    };
    let contexts = pipeline.each_batch(fields, |_, batch, mask, _| match hand_on(rows.add(batch, mask)) {
        Ok(()) => ControlFlow::Continue(()),
        Err(stop) => ControlFlow::Break(stop),
    })?;
    notes.note(&contexts);
    hand_on(rows.rest())
}

/// What is received from the thread that reads.
struct Rows {
    schema: SchemaRef,
    has_end: bool,
    receiver: Receiver<Sent>,
    reading: Option<JoinHandle<()>>,
    interrupt: Interrupt,
}

/// Asks Python whether somebody pressed Ctrl-C, as whoever takes the batches need not: on the thread that asked for them, since
/// another one might be waited for by one that holds the lock of the interpreter.
struct Interrupt {
    thread: ThreadId,
    asked: Instant,
    failure: Failure,
}

impl Interrupt {
    fn check(&mut self) -> Result<(), ArrowError> {
        if self.asked.elapsed() < TURN || std::thread::current().id() != self.thread {
            return Ok(());
        }
        self.asked = Instant::now();
        Python::attach(|py| py.check_signals()).map_err(|error| {
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            ArrowError::ComputeError("interrupted".to_string())
        })
    }
}

impl Iterator for Rows {
    type Item = Sent;

    fn next(&mut self) -> Option<Sent> {
        let received = loop {
            if let Err(error) = self.interrupt.check() {
                return Some(Err(error));
            }
            match self.receiver.recv_timeout(TURN) {
                Err(RecvTimeoutError::Timeout) => {}
                received => break received,
            }
        };
        match received {
            Ok(Ok(batch)) if self.has_end => Some(self.ended(&batch)),
            Ok(sent) => Some(sent),
            // Without this, a thread that failed would look like the end of the events.
            Err(_) => self.reading.take().and_then(|reading| reading.join().err()).map(|_| {
                Err(ArrowError::ComputeError("latscope failed; the reason is on standard error.".to_string()))
            }),
        }
    }
}

impl Rows {
    /// The batch with the completions as its last column.
    fn ended(&self, batch: &RecordBatch) -> Sent {
        let of = |name: &str| batch.column_by_name(name).and_then(|column| column.as_primitive_opt::<Int64Type>());
        let (Some(start), Some(latency)) = (of("time_ns"), of("latency_ns")) else {
            return Err(ArrowError::SchemaError("An event has a start and a latency.".to_string()));
        };
        let ends: Int64Array =
            start.iter().zip(latency.iter()).map(|(start, latency)| Some(start?.saturating_add(latency?))).collect();
        RecordBatch::try_new(self.schema(), batch.columns().iter().cloned().chain([Arc::new(ends) as _]).collect())
    }
}

/// A schema with the completion as its last column, in the unit of the start.
fn with_end(schema: &Schema) -> SchemaRef {
    let start = schema.fields().iter().find(|field| field.name() == "time_ns");
    let end = start.map(|start| Arc::new(Field::clone(start).with_name("end_ns").with_nullable(true)));
    Arc::new(Schema::new_with_metadata(
        schema.fields().iter().cloned().chain(end).collect::<Vec<_>>(),
        schema.metadata().clone(),
    ))
}

impl RecordBatchReader for Rows {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}
