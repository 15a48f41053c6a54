//! What a hub answers to views: from memory, and from what is on disk.

use super::{Hub, TURN};
use crate::clock::now_ns;
use crate::cluster::{Answer, HostsAnswer};
use crate::history::{HistoryRows, HistoryWriter, Query};
use crate::stream::Stream;
use crate::{Hello, Kind, PREFACE, Record, new_id};
use std::io::{self, BufWriter, Write};
use std::sync::{Arc, PoisonError};
use std::thread::{Builder, scope, sleep};
use std::time::{Duration, Instant};

/// A view that follows gets the last minute first, and a sign of life when nothing happens.
const FOLLOWED_NS: i64 = 60_000_000_000;
const HEARTBEAT: Duration = Duration::from_secs(5);

impl Hub {
    /// Sends a view what it asks for.
    pub(super) fn answer(&self, stream: &Stream, query: Query, is_over: &(dyn Fn() -> bool + Sync)) -> io::Result<()> {
        match query {
            Query { follow: true, .. } => self.answer_following(stream, query, is_over),
            query if query.has_span() => self.answer_span(stream, query),
            Query { by_host: true, .. } => self.answer_by_host(stream),
            _ => self.answer_all(stream, Answer::new(new_id()?)),
        }
    }

    /// Sends what is in memory.
    fn answer_all(&self, mut stream: &Stream, mut answer: Answer) -> io::Result<()> {
        loop {
            // Nobody waits for the lock while a part is sent.
            let part = self.cluster().answer(&mut answer, now_ns());
            match part {
                Some(part) => stream.write_all(&part)?,
                None => return Ok(()),
            }
        }
    }

    /// Sends intervals as they are closed, from the last minute on where no start is asked for, until the view or the hub ends.
    fn answer_following(
        &self,
        mut stream: &Stream,
        query: Query,
        is_over: &(dyn Fn() -> bool + Sync),
    ) -> io::Result<()> {
        let from_ns = if query.from_ns == i64::MIN { now_ns() - FOLLOWED_NS } else { query.from_ns };
        let (mut answer, mut by_host, mut sent) = (Answer::new(new_id()?), HostsAnswer::default(), None::<Instant>);
        stream.write_all(PREFACE)?;
        loop {
            let (mut part, hosts) = {
                let cluster = self.cluster();
                let part = match query.by_host {
                    true => {
                        let records = cluster.answer_closed_by_host(&mut by_host, from_ns);
                        records.iter().flat_map(|record| record.bytes()).copied().collect()
                    }
                    false => cluster.answer_closed(&mut answer, from_ns, now_ns()),
                };
                let is_due = !part.is_empty() || sent.is_none_or(|sent| sent.elapsed() >= HEARTBEAT);
                (part, is_due.then(|| cluster.latest_hosts(now_ns())))
            };
            if let Some(hosts) = hosts {
                part.extend_from_slice(hosts.record().bytes());
                stream.write_all(&part)?;
                sent = Some(Instant::now());
            }
            if is_over() {
                return stream.write_all(Record::new(Kind::Bye, b"").bytes());
            }
            sleep(TURN);
        }
    }

    /// Sends a stretch of time: what is complete in memory from there, all else from the disk, by host all of it.
    fn answer_span(&self, mut stream: &Stream, query: Query) -> io::Result<()> {
        let (mut before_ns, hub_ns) = (i64::MIN, self.cluster().width_ns());
        let mut width_ns = query.width_ns.filter(|asked| hub_ns > 0 && asked.is_multiple_of(hub_ns)).unwrap_or(hub_ns);
        stream.write_all(PREFACE)?;
        if let (Some(history), Some(journal)) = (&self.history, &self.journal) {
            let complete_ns = if query.by_host { i64::MAX } else { self.cluster().complete_ns(now_ns()) };
            // What cannot be written is in memory, where hosts are not apart.
            match journal.hangs() {
                false => {
                    journal.write(&self.cluster).or_else(|error| if query.by_host { Err(error) } else { Ok(()) })?
                }
                true if query.by_host => return Err(io::Error::other("the disk does not answer")),
                true => {}
            }
            let reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
            let locked = history.lock.lock().unwrap_or_else(PoisonError::into_inner);
            let journal_ns = Some(hub_ns).filter(|&ns| ns > 0);
            let tables = Arc::clone(&history.tables);
            let send = || {
                let rows = HistoryRows::open(&history.folder, tables, query, (complete_ns, journal_ns))?;
                let sent = (rows.before_ns(), rows.width_ns());
                send_rows(stream, rows, query.by_host).map(|()| sent)
            };
            // Reading tables needs more stack than a connection has.
            let sent = scope(|scope| {
                let sending = Builder::new().spawn_scoped(scope, send)?;
                sending.join().unwrap_or_else(|_| Err(io::Error::other("the history cannot be read")))
            });
            drop((locked, reading));
            (before_ns, width_ns) = sent?;
        }
        match hub_ns > 0 && before_ns < i64::MAX {
            true => {
                let span_ns = (query.from_ns.max(before_ns), query.to_ns);
                self.answer_all(stream, Answer::of_span(new_id()?, span_ns, width_ns, hub_ns))
            }
            false => stream.write_all(Record::new(Kind::Bye, b"").bytes()),
        }
    }

    /// Sends a view the last minute of each host.
    fn answer_by_host(&self, mut stream: &Stream) -> io::Result<()> {
        let records = self.recent();
        if records.is_empty() {
            return self.answer_all(stream, Answer::new(new_id()?));
        }
        stream.write_all(PREFACE)?;
        records.iter().try_for_each(|record| stream.write_all(record.bytes()))
    }
}

/// Sends what is on disk.
fn send_rows(stream: &Stream, mut rows: HistoryRows, by_host: bool) -> io::Result<()> {
    let hello = Hello {
        run: new_id()?,
        host: String::new(),
        source: rows.source().into(),
        filter: String::new(),
        width_ns: rows.width_ns(),
        fields: rows.fields().to_vec(),
        is_wall: true,
    };
    let mut writer = HistoryWriter::new(BufWriter::new(stream), hello, by_host);
    rows.by_ref().try_for_each(|row| writer.add(row?))?;
    writer.finish(&rows.tally, rows.hosts())
}
