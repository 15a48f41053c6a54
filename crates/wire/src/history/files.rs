//! The files of a folder of history, by their names alone.
//!
//! `STAMP.frames` is a file of the journal and `STAMP.runs` what was known when it was compacted; a stamp is about the time of its
//! first record, in milliseconds, and grows. `date=YYYY-MM-DD/host=NAME/WIDTH-FIRST-LAST.parquet` has what the journal from stamp
//! FIRST to LAST had.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Nanoseconds of a day.
pub const DAY_NS: i64 = 86_400_000_000_000;
/// All of them.
pub const ALL_DAYS: RangeInclusive<i64> = i64::MIN..=i64::MAX;
/// What the name of a file is that is being written.
pub const UNFINISHED: &str = ".tmp";
/// Longest name of a folder, bytes.
const NAME_BYTES: usize = 200;

/// A file of a table.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Table {
    /// Days since the epoch.
    pub day: i64,
    /// The name of its folder.
    pub host: String,
    /// Width of its intervals, nanoseconds.
    pub width_ns: u64,
    /// The stamps of the journal that it was made of.
    pub first: u64,
    pub last: u64,
}

/// All files of a folder.
#[derive(Default)]
pub struct Files {
    /// By stamp, ascending.
    pub segments: Vec<(u64, PathBuf)>,
    /// Tables that count.
    pub tables: Vec<Table>,
    /// What does not count, or not any more: tables of a compaction that was not committed, those that are part of another one, and
    /// files that were not written to their end.
    pub stale: Vec<PathBuf>,
}

impl Table {
    /// Where it is.
    pub fn path(&self, folder: &Path) -> PathBuf {
        let name = format!("{}-{:015}-{:015}.parquet", width_name(self.width_ns), self.first, self.last);
        folder.join(format!("date={}", date(self.day))).join(format!("host={}", self.host)).join(name)
    }

    fn has(&self, other: &Table) -> bool {
        self.first <= other.first && other.last <= self.last && self != other
    }
}

impl Files {
    /// Lists a folder, of tables those of these days.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn list(folder: &Path, days: RangeInclusive<i64>) -> io::Result<Files> {
        let mut files = Files { segments: segments(folder)?, ..Files::default() };
        let oldest = files.segments.first().map_or(u64::MAX, |&(stamp, _)| stamp);
        let mut tables = BTreeMap::<(i64, String, u64), Vec<Table>>::new();
        for (name, path) in entries(folder)? {
            if name.ends_with(UNFINISHED) {
                files.stale.push(path);
                continue;
            }
            let day = name.strip_prefix("date=").and_then(day).filter(|day| days.contains(day));
            let Some(day) = day else { continue };
            for (name, path) in entries(&path)? {
                let Some(host) = name.strip_prefix("host=") else { continue };
                for (name, path) in entries(&path)? {
                    match table(day, host, &name) {
                        _ if name.ends_with(UNFINISHED) => files.stale.push(path),
                        Some(table) if table.last < oldest => {
                            tables.entry((day, host.into(), table.width_ns)).or_default().push(table);
                        }
                        Some(_) => files.stale.push(path),
                        None => {}
                    }
                }
            }
        }
        for tables in tables.into_values() {
            for table in &tables {
                match tables.iter().any(|other| other.has(table)) {
                    true => files.stale.push(table.path(folder)),
                    false => files.tables.push(table.clone()),
                }
            }
        }
        files.tables.sort();
        Ok(files)
    }
}

/// Whether a folder has the files of a hub.
pub fn is_history(folder: &Path) -> bool {
    let is_ours = |(name, _): &(String, PathBuf)| {
        name.strip_prefix("date=").and_then(day).is_some() || stamp(name, ".frames").is_some()
    };
    folder.is_dir() && entries(folder).is_ok_and(|entries| entries.iter().any(is_ours))
}

/// The files of the journal, the oldest first.
pub(crate) fn segments(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    stamped(folder, ".frames")
}

/// The newest stamp that was given; 0: none.
pub(crate) fn stamps(folder: &Path) -> io::Result<u64> {
    let last = |files: Vec<(u64, PathBuf)>| files.last().map_or(0, |&(stamp, _)| stamp);
    Ok(last(stamped(folder, ".frames")?).max(last(stamped(folder, ".runs")?)))
}

/// Files `STAMP.ending`, ascending.
pub fn stamped(folder: &Path, ending: &str) -> io::Result<Vec<(u64, PathBuf)>> {
    let entries = entries(folder)?.into_iter();
    let mut found: Vec<_> = entries.filter_map(|(name, path)| Some((stamp(&name, ending)?, path))).collect();
    found.sort();
    Ok(found)
}

/// Lets the names in a folder survive a power failure.
pub fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn stamp(name: &str, ending: &str) -> Option<u64> {
    let digits = name.strip_suffix(ending)?;
    if digits.len() < 15 { None } else { digits.parse().ok() }
}

fn table(day: i64, host: &str, name: &str) -> Option<Table> {
    let mut parts = name.strip_suffix(".parquet")?.splitn(3, '-');
    let mut part = || parts.next();
    let (width_ns, first, last) = (named_width(part()?)?, part()?.parse().ok()?, part()?.parse().ok()?);
    Some(Table { day, host: host.into(), width_ns, first, last })
}

fn entries(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let named = |entry: std::fs::DirEntry| Some((entry.file_name().into_string().ok()?, entry.path()));
    match std::fs::read_dir(folder) {
        Ok(entries) => entries.filter_map(|entry| entry.map(named).transpose()).collect(),
        // A file, or a folder that was removed since it was listed.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::NotFound) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// `10s`, `500ms`, or nanoseconds.
fn width_name(width_ns: u64) -> String {
    match width_ns {
        ns if ns % 1_000_000_000 == 0 => format!("{}s", ns / 1_000_000_000),
        ns if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
        ns => format!("{ns}ns"),
    }
}

fn named_width(name: &str) -> Option<u64> {
    let units = [("ms", 1_000_000), ("ns", 1), ("s", 1_000_000_000u64)];
    let (digits, unit) = units.iter().find_map(|&(unit, ns)| Some((name.strip_suffix(unit)?, ns)))?;
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|&ns| ns > 0)
}

/// The name of the folder of a host: as it is, where that is a name of a file everywhere.
pub fn host_name(host: &str) -> String {
    let mut name = String::new();
    for byte in host.bytes() {
        match byte {
            b'-' | b'_' | b'.' => name.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => name.push(char::from(byte)),
            byte => name += &format!("%{byte:02X}"),
        }
    }
    if name.len() > NAME_BYTES {
        name.truncate(NAME_BYTES);
        name += &format!("-{:08x}", crc32fast::hash(host.as_bytes()));
    }
    name
}

/// `YYYY-MM-DD` of a day since the epoch, by Hinnant's algorithm.
pub fn date(day: i64) -> String {
    let day = day + 719_468;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (date, month) = (of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    format!("{:04}-{month:02}-{date:02}", year + era * 400 + i64::from(month <= 2))
}

/// The day of `YYYY-MM-DD`.
pub fn day(text: &str) -> Option<i64> {
    let mut parts = text.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, date) = (parts.next()??, parts.next()??, parts.next()??);
    if !(0..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&date) {
        return None;
    }
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5 + date - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_event::format_wall;

    #[test]
    fn days_have_their_dates() {
        for at in (-1000..60_000).step_by(17).chain([0, 19_782, 19_783, 20_512]) {
            let text = date(at);
            assert!(format_wall(at * DAY_NS + 1, 0, true).contains(&text) || at < 0, "{at}: {text}");
            assert_eq!(day(&text), Some(at));
        }
        assert!(day("2026-13-01").is_none() && day("x").is_none() && day("2026-01").is_none());
    }

    #[test]
    fn names_of_files_are_read_back() {
        for width_ns in [1, 1500, 250_000_000, 1_000_000_000, 60_000_000_000] {
            let host = host_name("db/1 \u{e9}..");
            let table = Table { day: 20_780, host: host.clone(), width_ns, first: 5, last: 1_795_000_000_123 };
            let path = table.path(Path::new("data"));
            let name = path.file_name().unwrap().to_str().unwrap();
            assert_eq!(super::table(20_780, &host, name), Some(table));
            assert!(path.starts_with("data/date=2026-11-23/host=db%2F1%20%C3%A9.."), "{}", path.display());
        }
        assert!(host_name(&"\u{e9}".repeat(128)).len() < 220);
    }
}
