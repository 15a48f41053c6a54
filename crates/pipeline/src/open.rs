//! What a reading stands for: the files of a folder, their formats, and where the numbers of a view come from.

use crate::{Control, Error, Folding, Mode, Notice, Origin, Pipeline, Reading, live};
use latscope_capture_file::{
    FioResults, Format, double_count_note, format_of, is_hub, is_over, is_pipe, one_of_each_recording, tree,
    tree_over_time, with_files_of_threads, without_repeats,
};
use std::path::{Path, PathBuf};

impl Pipeline {
    /// Looks through folders and finds out formats. No event is read.
    ///
    /// # Errors
    /// When a folder holds nothing that can be read.
    pub fn open(reading: Reading, control: Control) -> Result<Pipeline, Error> {
        if let Some(tagging) = &reading.tagging {
            tagging.open(reading.live.is_some()).map_err(Error::Tags)?;
        }
        let fio_results = FioResults::default();
        let Files { files, takes_averages, missing } = files(&reading, &control, &fio_results)?;
        let format = |file: &PathBuf| reading.format.or_else(|| format_of(file).ok());
        let formats = files.iter().map(format).collect();
        let missing = reading.missing + missing;
        Ok(Pipeline { reading: Reading { files, missing, ..reading }, control, formats, takes_averages, fio_results })
    }

    /// Where the histograms of a folding come from: decided here and nowhere else.
    ///
    /// # Errors
    /// [`Error::NotCountable`] when only the kernel may count and cannot.
    pub fn origin(&self, folding: &Folding) -> Result<Origin, Error> {
        match &self.reading.live {
            None if self.stored_file().is_some() => Ok(Origin::Stored),
            None => Ok(Origin::Events),
            Some(capture) => match (capture.mode, live::needs_events(&self.reading, capture, folding)) {
                (Mode::Event, _) | (Mode::Auto, Some(_)) => Ok(Origin::Events),
                (_, None) => Ok(Origin::Kernel),
                (Mode::Histogram, Some(why)) => Err(Error::NotCountable(why)),
            },
        }
    }

    /// Whether the input may grow while it is read, and its format can be read so.
    pub fn is_stream(&self) -> bool {
        let ([file], [format]) = (&self.reading.files[..], &self.formats[..]) else { return false };
        let is_file = file == Path::new("-") && Path::new("/dev/stdin").is_file();
        let grows = self.reading.follow || is_pipe(file) && !is_file;
        // What is not known yet is known when there is more of it.
        grows && (is_hub(file) || format.is_none_or(Format::is_read_as_it_grows))
    }

    /// Whether rows have to be seen at once: of a capture or a stream.
    pub fn is_watched(&self) -> bool {
        self.reading.live.is_some() || self.is_stream()
    }

    /// Whether the same events can be had once more.
    pub fn is_read_again(&self) -> bool {
        let is_once = self.reading.live.is_some() || self.reading.follow || self.is_cancelled();
        !is_once && !self.reading.files.iter().any(|file| is_pipe(file))
    }

    /// Whether the caller, or a signal that the caller had [`latscope_capture_file::end_when`] watch, has ended it.
    pub(crate) fn is_cancelled(&self) -> bool {
        is_over() || self.control.is_cancelled()
    }

    /// Refuses to follow what cannot be read before its end.
    ///
    /// # Errors
    /// [`Error::NotGrowing`] for such a format.
    pub fn require_growing(&self) -> Result<(), Error> {
        let ([file], [Some(format)]) = (&self.reading.files[..], &self.formats[..]) else { return Ok(()) };
        match !self.reading.follow || is_hub(file) || format.is_read_as_it_grows() {
            true => Ok(()),
            false => Err(Error::NotGrowing { file: file.clone(), format: format.name() }),
        }
    }
}

/// The files to read, each once.
struct Files {
    files: Vec<PathBuf>,
    /// Whether averages over windows were chosen for a view over time though there are histograms of whole jobs.
    takes_averages: bool,
    /// Jobs, hosts and files of folders whose events are missing.
    missing: u64,
}

/// Of a folder of results, the files that are in it.
fn files(reading: &Reading, control: &Control, beside: &FioResults) -> Result<Files, Error> {
    let (mut files, mut takes_averages, mut missing) = (Vec::new(), false, 0);
    let look = if reading.over_time { tree_over_time } else { tree };
    for path in &reading.files {
        // Whose columns are given are logs, and a folder of them is one, too.
        let is_plain = reading.format.is_none() || reading.fio_columns.is_some();
        let tree = if is_plain { look(path)? } else { None };
        match tree {
            None => files.push(path.clone()),
            Some(tree) => {
                tree.left_out.into_iter().for_each(|sentence| control.notice(Notice::Files(sentence)));
                let all = tree.files.len();
                let readable = readable(path, tree.files, control)?;
                missing += tree.missing + (all - readable.len()) as u64;
                files.extend(readable);
                takes_averages |= tree.prefers_averages;
            }
        }
    }
    let files = without_empty(files, control);
    let (files, again) = without_repeats(one_of_each_recording(with_files_of_threads(files)));
    if let [first, others @ ..] = &again[..] {
        control.notice(Notice::Repeated { file: first.clone(), more: others.len() });
    }
    double_count_note(&files, beside).into_iter().for_each(|sentence| control.notice(Notice::Files(sentence)));
    Ok(Files { files, takes_averages, missing })
}

/// Without the empty files of a journal, which a hub leaves that was killed, or whose disk was full; all of them where there is no other.
fn without_empty(files: Vec<PathBuf>, control: &Control) -> Vec<PathBuf> {
    let is_empty = |file: &PathBuf| {
        file.extension().is_some_and(|ending| ending == "frames")
            && file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0)
    };
    if files.iter().all(is_empty) {
        return files;
    }
    let (empty, files): (Vec<PathBuf>, Vec<PathBuf>) = files.into_iter().partition(is_empty);
    for file in empty {
        control.notice(Notice::Files(format!("{}: skipped: The file is empty.", file.display())));
    }
    files
}

/// Those of the files of a folder that can be read. Nobody named the others, so they are skipped with a sentence.
///
/// # Errors
/// When none can be read.
fn readable(folder: &Path, mut files: Vec<PathBuf>, control: &Control) -> Result<Vec<PathBuf>, Error> {
    let mut refused = Vec::new();
    files.retain(|file| format_of(file).map_err(|error| refused.push(error)).is_ok());
    if files.is_empty()
        && let Some(error) = refused.first()
    {
        return Err(error.clone().into());
    }
    let skipped =
        |error: latscope_capture_file::Error| Notice::Skipped { folder: folder.into(), why: error.to_string() };
    refused.into_iter().for_each(|error| control.notice(skipped(error)));
    Ok(files)
}
