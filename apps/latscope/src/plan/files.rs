//! Which files are read.

use crate::Failure;
use latscope_capture_file::{Format, said_twice, tree, tree_over_time, without_repeats};
use std::path::PathBuf;

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
                files.extend(tree.files);
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
