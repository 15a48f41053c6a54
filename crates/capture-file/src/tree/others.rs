//! Files of a folder that could be read and are not: which of them are copies of each other is unknown.

use super::choice::named;
use crate::detect::format_of;
use crate::fio::name::plain_name;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Endings of what latscope and others write for it to read. Anything else is not opened: fio's own data lies there, too.
const ENDINGS: [&str; 9] = ["lat", "csv", "jsonl", "json", "parquet", "hlog", "data", "txt", "out"];

/// A sentence about those of the files that are of a known format: all that lie in the folder itself, and traces below it.
pub fn skipped_files_note<'a>(folder: &Path, files: impl Iterator<Item = &'a PathBuf>) -> Option<String> {
    let mut formats = BTreeMap::<&str, Vec<&PathBuf>>::new();
    for file in files {
        let plain = plain_name(file);
        let ending = plain.extension().unwrap_or_default();
        let is_near = file.parent() == Some(folder) && ENDINGS.iter().any(|&known| ending == known);
        if (is_near || ending == "lat") && file.is_file() {
            let format = format_of(file).ok().map(|format| format.name());
            format.into_iter().for_each(|format| formats.entry(format).or_default().push(file));
        }
    }
    let counts: Vec<_> = formats.iter().map(|(format, files)| format!("{} {format}", files.len())).collect();
    let files: Vec<_> = formats.into_values().flatten().collect();
    let (are, them) = if files.len() == 1 { ("file is", "it") } else { ("files are", "them") };
    (!files.is_empty()).then(|| {
        format!(
            "{} more {are} skipped ({}: {}); -r {}/* reads {them} too.",
            files.len(),
            counts.join(", "),
            named(files.iter()),
            folder.display().to_string().trim_end_matches('/')
        )
    })
}
