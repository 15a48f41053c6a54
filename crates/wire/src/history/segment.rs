//! A file of the journal.

use crate::messages::Goodbye;
use crate::{Data, Dictionary, Found, Head, Hello, Id, IntervalRow, Kind, Malformed, PREFACE, Ranges, Record, Records};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

/// Reads a file of the journal.
pub struct Segment {
    records: Records<BufReader<File>>,
    runs: HashMap<Id, Run>,
    /// Parts that are no records.
    pub damaged: u64,
    /// The hosts that said that they end, so far, and when, nanoseconds since the epoch.
    pub ended: Vec<(Arc<Hello>, i64)>,
}

struct Run {
    hello: Arc<Hello>,
    groups: Dictionary,
}

/// Intervals of a host.
pub struct Piece {
    /// Who sent them.
    pub hello: Arc<Hello>,
    /// Where they start.
    pub head: Head,
    /// One after the other.
    pub rows: Vec<IntervalRow>,
}

impl Segment {
    /// Opens one.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(path: &Path) -> io::Result<Segment> {
        let mut file = BufReader::new(File::open(path)?);
        let mut preface = [0; PREFACE.len()];
        // A hub that was killed early leaves a part of the first line.
        let is_whole = file.read_exact(&mut preface).is_ok() && preface == PREFACE;
        let mut records = Records::of_file(file);
        if !is_whole {
            records.end();
        }
        Ok(Segment { records, runs: HashMap::new(), damaged: u64::from(!is_whole), ended: Vec::new() })
    }

    /// The next intervals that are wanted and not yet among those that were read; others are not unpacked.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn next(
        &mut self,
        seen: &mut HashMap<Id, Ranges>,
        wants: &dyn Fn(&Hello, &Head) -> bool,
    ) -> io::Result<Option<Piece>> {
        while let Some(found) = self.records.next()? {
            let piece = match found {
                Found::Record(record) => self.piece(&record, seen, wants),
                Found::Damaged(_) | Found::Cut(_) => Err(Malformed::Short),
            };
            match piece {
                Ok(Some(piece)) => return Ok(Some(piece)),
                Ok(None) => {}
                Err(_) => self.damaged += 1,
            }
        }
        Ok(None)
    }

    /// The labels of a group of a piece.
    pub fn labels(&self, piece: &Piece, group: u32) -> Option<&Arc<[String]>> {
        self.runs.get(&piece.hello.run)?.groups.get(group)
    }

    /// Hands on each record without unpacking it, and the head of those that have intervals.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn each_record(mut self, mut take: impl FnMut(Kind, Record, Option<Head>)) -> io::Result<()> {
        while let Some(found) = self.records.next()? {
            let Found::Record(record) = found else { continue };
            let Ok(kind) = record.kind() else { continue };
            let head = if kind == Kind::Data { Head::parse(&record).ok().map(|(head, _)| head) } else { None };
            take(kind, record, head);
        }
        Ok(())
    }

    fn piece(
        &mut self,
        record: &Record,
        seen: &mut HashMap<Id, Ranges>,
        wants: &dyn Fn(&Hello, &Head) -> bool,
    ) -> Result<Option<Piece>, Malformed> {
        match record.kind()? {
            Kind::Hello => {
                let hello = Hello::parse(record.payload())?;
                let new = || Run { hello: Arc::new(hello.clone()), groups: Dictionary::default() };
                self.runs.entry(hello.run).or_insert_with(new);
            }
            Kind::Dictionary => {
                let run = self.runs.get_mut(&Dictionary::run(record)?).ok_or(Malformed::Group)?;
                run.groups.add(record, run.hello.fields.len())?;
            }
            Kind::Bye => {
                let goodbye = Goodbye::parse(record.payload())?;
                let run = self.runs.get(&goodbye.run).ok_or(Malformed::Group)?;
                self.ended.push((Arc::clone(&run.hello), goodbye.end_ns));
            }
            Kind::Data => {
                let (head, _) = Head::parse(record)?;
                let run = self.runs.get(&head.run).ok_or(Malformed::Group)?;
                let seen = seen.entry(head.run).or_default();
                if seen.has_any(&head.sequences) {
                    return Ok(None);
                }
                seen.add(head.sequences.clone());
                if !wants(&run.hello, &head) {
                    return Ok(None);
                }
                let Data { head, rows } = Data::parse(record)?;
                return Ok(Some(Piece { hello: Arc::clone(&run.hello), head, rows }));
            }
            _ => {}
        }
        Ok(None)
    }
}
