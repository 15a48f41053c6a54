//! Which files are read.

use crate::Failure;
use latscope_capture_file::{Format, format_of, said_twice, tree, tree_over_time, without_repeats};
use std::path::{Path, PathBuf};

/// The files to read, each once: of a folder of results, those that are in it. Also, whether averages over windows were chosen
/// for a view over time though there are histograms of whole jobs.
pub fn files(typed: &[PathBuf], format: Option<Format>, over_time: bool) -> Result<(Vec<PathBuf>, bool), Failure> {
    let (mut files, mut takes_averages) = (Vec::new(), false);
    let look = if over_time { tree_over_time } else { tree };
    for path in typed {
        let tree = match format {
            None => look(path).map_err(|error| Failure::Input(error.to_string()))?,
            Some(_) => None,
        };
        match tree {
            None => files.push(path.clone()),
            Some(tree) => {
                tree.left_out.iter().for_each(|said| say!("latscope: {said}"));
                files.extend(readable(path, tree.files)?);
                takes_averages |= tree.prefers_averages;
            }
        }
    }
    let (files, again) = without_repeats(files);
    if let [first, others @ ..] = &again[..] {
        let others = if others.is_empty() { String::new() } else { format!(" and {} more files", others.len()) };
        say!("latscope: {}{others} given more than once (or by a link): read once.", first.display());
    }
    said_twice(&files).iter().for_each(|said| say!("latscope: {said}"));
    Ok((files, takes_averages))
}

/// Those of the files of a folder that can be read. Nobody named the others, so they are skipped with a sentence.
///
/// # Errors
/// When none can be read.
fn readable(folder: &Path, files: Vec<PathBuf>) -> Result<Vec<PathBuf>, Failure> {
    let mut refused = Vec::new();
    let mut files = files;
    files.retain(|file| format_of(file).map_err(|error| refused.push(error)).is_ok());
    if files.is_empty()
        && let Some(error) = refused.first()
    {
        return Err(Failure::Input(error.to_string()));
    }
    refused.iter().for_each(|error| say!("latscope: {}: skipped: {error}", folder.display()));
    Ok(files)
}
