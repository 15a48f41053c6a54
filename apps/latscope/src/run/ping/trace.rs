//! Every request into a trace.

use crate::Failure;
use crate::output::{self, Output};
use latscope_capture_file::LatWriter;
use latscope_capture_probe::Capture;
use latscope_event::{Batch, Context, Tally, format_count, format_size};
use std::io;
use std::path::{Path, PathBuf};

/// A trace that is being written.
pub struct Trace {
    path: PathBuf,
    writer: LatWriter<Output>,
    events: u64,
}

impl Trace {
    pub fn create(path: &Path, capture: &Capture) -> Result<Trace, Failure> {
        if path.extension().is_none_or(|ending| ending != "lat") {
            let message = "--trace writes a trace, so the name must end in .lat; use latscope convert for other \
                           formats.";
            return Err(Failure::Usage(message.into()));
        }
        let start_ns = capture.start_unix_ns();
        let start = Context { tally: Tally::default(), span_ns: Some((start_ns, start_ns)), ..capture.account() };
        let out = output::open(Some(path))?.growing();
        let writer = LatWriter::create(out, capture.fields(), &start);
        let writer = writer.map_err(|error| failed(path, &error))?;
        Ok(Trace { path: path.to_path_buf(), writer, events: 0 })
    }

    pub fn write(&mut self, batch: &Batch) -> Result<(), Failure> {
        self.events += batch.len() as u64;
        self.writer.write(batch, None).map_err(|error| failed(&self.path, &error))
    }

    pub fn flush_if_due(&mut self) -> Result<(), Failure> {
        self.writer.flush_if_due().map_err(|error| failed(&self.path, &error))
    }

    pub fn finish(self, context: &Context) -> Result<(), Failure> {
        let written = self.writer.finish(context).and_then(Output::finish);
        let size = written.map_err(|error| failed(&self.path, &error))?;
        say!("latscope: {}: {} events, {}", self.path.display(), format_count(self.events), format_size(size));
        Ok(())
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::Input(format!("{}: Cannot be written: {error}.", path.display()))
}
