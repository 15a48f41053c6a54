//! Arrow data handed over without copying: by the stream of the Arrow PyCapsule interface.

use crate::raised::{Notes, raise};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use latscope_capture_file::ArrowBatches;
use latscope_event::FieldSet;
use latscope_pipeline::{Error, Pipeline};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// So many batches may wait to be taken.
const AHEAD: usize = 2;

type Failure = Arc<Mutex<Option<Error>>>;

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
        failure.map_or(Ok(()), |error| Err(raise(&error)))
    }
}

impl Stream {
    /// Of a single batch.
    pub fn of_batch(batch: RecordBatch) -> Stream {
        let schema = batch.schema();
        Stream::new(Box::new(RecordBatchIterator::new([Ok(batch)], schema)), Failure::default())
    }

    /// Of all events of a pipeline, in these columns; they are read while they are taken.
    pub fn of_events(pipeline: Pipeline, fields: FieldSet, notes: Notes) -> Stream {
        let (sender, receiver) = sync_channel(AHEAD);
        let (rows, failure) = (ArrowBatches::new(fields), Failure::default());
        let (schema, reported) = (rows.schema(), Arc::clone(&failure));
        std::thread::spawn(move || {
            // Where nobody takes them any more there is nobody to hear of it.
            if let Err(Stop::Failed(error)) = send(&pipeline, fields, rows, &sender, &notes) {
                let message = error.to_string();
                *reported.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                let _ = sender.send(Err(ArrowError::ComputeError(message)));
            }
        });
        Stream::new(Box::new(Rows { schema, receiver }), failure)
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
    receiver: Receiver<Sent>,
}

impl Iterator for Rows {
    type Item = Sent;

    fn next(&mut self) -> Option<Sent> {
        self.receiver.recv().ok()
    }
}

impl RecordBatchReader for Rows {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}
