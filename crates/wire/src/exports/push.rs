//! Where to push, and pushing until it is taken.

use super::bulk;
use super::delta::Previous;
use super::metrics::Layouts;
use super::otlp;
use super::remote_write::{Batch, Shape, encode, headers};
use crate::stream::explain_failure;
use crate::{HttpAnswer, Poster, Url};
use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most values that wait to be sent.
const PENDING: usize = 400_000;
/// Series of one request.
const SERIES: usize = 1000;
/// The first wait before trying again, which doubles.
const RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// After so many answers that a server failed, the next request is tried: perhaps it is this one that makes it fail.
const ATTEMPTS: u32 = 10;

/// How something is pushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    /// Version 2 where the server takes it, else version 1.
    RemoteWrite,
    FixedRemoteWrite(u8, Shape),
    Otlp,
    OtlpDelta,
    /// Documents of Elasticsearch or OpenSearch.
    Bulk,
}

/// What may precede the scheme of a URL.
const PREFIXES: &[(&str, Format)] = &[
    ("remote-write", Format::RemoteWrite),
    ("remote-write-1", Format::FixedRemoteWrite(1, Shape::Native)),
    ("remote-write-2", Format::FixedRemoteWrite(2, Shape::Native)),
    ("classic", Format::FixedRemoteWrite(1, Shape::Classic)),
    ("vmrange", Format::FixedRemoteWrite(1, Shape::Vmrange)),
    ("otlp", Format::Otlp),
    ("otlp-delta", Format::OtlpDelta),
    ("elasticsearch", Format::Bulk),
    ("opensearch", Format::Bulk),
];

/// Where to push, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    format: Format,
    url: Url,
}

impl Target {
    /// Of a URL such as `http://127.0.0.1:9090/api/v1/write`, perhaps with a format before it: `vmrange+http://...`. Without one, a
    /// path that ends in `/v1/metrics` is OpenTelemetry's, every other one that of remote-write.
    ///
    /// # Errors
    /// A sentence for who typed it.
    pub fn parse(text: &str) -> Result<Target, String> {
        let scheme = text.split("://").next().unwrap_or_default();
        let (format, url) = match scheme.split_once('+') {
            None => (None, Url::parse(text)?),
            Some((prefix, _)) => {
                let known = PREFIXES.iter().find(|(known, _)| *known == prefix);
                let names: Vec<&str> = PREFIXES.iter().map(|(name, _)| *name).collect();
                let unknown = || format!("{prefix} is not a format. The formats are {}.", names.join(", "));
                (Some(known.ok_or_else(unknown)?.1), Url::parse(&text[prefix.len() + 1..])?)
            }
        };
        let is_otlp = url.path().split('?').next().is_some_and(|path| path.ends_with("/v1/metrics"));
        let format = format.unwrap_or(if is_otlp { Format::Otlp } else { Format::RemoteWrite });
        // The index stands in the path.
        let url = match format {
            Format::Bulk => {
                let path = url.path().trim_end_matches('/').trim_end_matches("/_bulk").to_string();
                let is_index = path.len() > 1 && !path[1..].contains(['/', '?']);
                if !is_index {
                    let example = "elasticsearch+http://127.0.0.1:9200/latscope";
                    return Err(format!("{text} has no index; add one, such as {example}."));
                }
                url.with_path(format!("{path}/_bulk"))
            }
            _ => url,
        };
        Ok(Target { format, url })
    }

    /// Where its requests go. Of documents, the answer need only have what went wrong.
    fn post_url(&self) -> Url {
        let url = self.url.clone();
        match self.format {
            Format::Bulk => {
                let path = format!("{}?filter_path=errors,items.*.status,items.*.error", url.path());
                url.with_path(path)
            }
            _ => url,
        }
    }

    fn layouts(&self) -> Layouts {
        let shape = match self.format {
            Format::FixedRemoteWrite(_, shape) => shape,
            _ => Shape::Native,
        };
        Layouts { exponential: shape == Shape::Native, le: shape == Shape::Classic, vmrange: shape == Shape::Vmrange }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

/// What becomes of pushing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The server takes what is sent.
    Works,
    /// It does not, and why; what is sent is kept.
    Fails(String),
    /// A request was refused and is dropped, and why.
    Dropped(String),
}

/// Pushes to one target.
pub struct Pusher {
    target: Target,
    poster: Poster,
    pending: Mutex<Pending>,
    arrived: Condvar,
}

#[derive(Default)]
struct Pending {
    batches: VecDeque<Batch>,
    values: usize,
    is_over: bool,
}

impl Pusher {
    /// For a target; `ca` has the certificates that are trusted.
    ///
    /// # Errors
    /// A sentence, when the file of certificates cannot be read or has no certificate.
    pub fn new(target: Target, ca: Option<&Path>) -> Result<Pusher, String> {
        let poster = Poster::new(target.post_url(), ca)?;
        Ok(Pusher { target, poster, pending: Mutex::default(), arrived: Condvar::new() })
    }

    /// Where it pushes.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The buckets that it sends.
    pub fn layouts(&self) -> Layouts {
        self.target.layouts()
    }

    /// Adds what is to be sent. Returns how many values were dropped for it.
    pub fn add(&self, batch: Batch) -> usize {
        let mut pending = self.pending();
        for part in batch.parts(SERIES).into_iter().filter(|part| part.len() > 0) {
            pending.values += part.len();
            pending.batches.push_back(part);
        }
        let mut dropped = 0;
        while pending.values > PENDING
            && let Some(oldest) = pending.batches.pop_front()
        {
            pending.values -= oldest.len();
            dropped += oldest.len();
        }
        self.arrived.notify_all();
        dropped
    }

    /// Nothing will be added any more.
    pub fn end(&self) {
        self.pending().is_over = true;
        self.arrived.notify_all();
    }

    /// Sends until there is nothing more; what cannot be sent at the end is lost after `patience`.
    pub fn run(&self, patience: Duration, report: &dyn Fn(Outcome)) {
        let mut sending = Sending { format: self.target.format, is_known: false, previous: Previous::default() };
        let (mut wait, mut failures, mut works, mut end) = (RETRY, 0, None, None);
        loop {
            let Some((batch, next, is_over)) = self.next() else { return };
            if is_over && *end.get_or_insert_with(|| Instant::now() + patience) <= Instant::now() {
                return report(Outcome::Dropped("what was left at the end was not taken".into()));
            }
            let tried = self.tried(&mut sending, &batch, failures, next.as_ref());
            let (sent, why) = match tried {
                Tried::Taken(count) => (count, None),
                Tried::Refused(why) => {
                    report(Outcome::Dropped(why));
                    self.remove(1);
                    (failures, wait) = (0, RETRY);
                    continue;
                }
                Tried::Failed { why, is_answer } => {
                    failures = if is_answer { failures + 1 } else { 0 };
                    (0, Some(why))
                }
            };
            match why {
                None => {
                    self.remove(sent);
                    (failures, wait) = (0, RETRY);
                    if works.replace(true) != Some(true) {
                        report(Outcome::Works);
                    }
                }
                Some(why) => {
                    if works.replace(false) != Some(false) {
                        report(Outcome::Fails(why));
                    }
                    self.sleep(if is_over { RETRY } else { wait });
                    wait = (wait * 2).min(LONGEST_RETRY);
                }
            }
        }
    }

    /// Sends a batch; where the server has failed with it often enough, the next one.
    fn tried(&self, sending: &mut Sending, batch: &Batch, failures: u32, next: Option<&Batch>) -> Tried {
        let Some(next) = next.filter(|_| failures >= ATTEMPTS) else { return sending.send(&self.poster, batch) };
        match sending.send(&self.poster, next) {
            Tried::Taken(_) => Tried::Taken(2),
            _ => sending.send(&self.poster, batch),
        }
    }

    /// The next two batches, and whether no more will be added; `None` when there is nothing more.
    fn next(&self) -> Option<(Batch, Option<Batch>, bool)> {
        let mut pending = self.pending();
        loop {
            if let Some(batch) = pending.batches.front() {
                return Some((batch.clone(), pending.batches.get(1).cloned(), pending.is_over));
            }
            if pending.is_over {
                return None;
            }
            pending = self.arrived.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn remove(&self, count: usize) {
        let mut pending = self.pending();
        for _ in 0..count {
            let values = pending.batches.pop_front().map_or(0, |batch| batch.len());
            pending.values -= values;
        }
    }

    /// Sleeps, but not beyond the end.
    fn sleep(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut pending = self.pending();
        let was_over = pending.is_over;
        while pending.is_over == was_over
            && let Some(left) = until.checked_duration_since(Instant::now())
        {
            pending = self.arrived.wait_timeout(pending, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Tried {
    /// So many batches are done with.
    Taken(usize),
    /// It will never be taken.
    Refused(String),
    /// It may be taken later; whether the server said so.
    Failed { why: String, is_answer: bool },
}

/// What is known of the server.
struct Sending {
    format: Format,
    /// Whether its version of remote-write is known.
    is_known: bool,
    previous: Previous,
}

impl Sending {
    fn send(&mut self, poster: &Poster, batch: &Batch) -> Tried {
        match self.format {
            Format::Otlp => judged(poster.post(&otlp::HEADERS, &otlp::encode(batch, None))),
            Format::OtlpDelta => {
                let mut previous = self.previous.clone();
                let tried = judged(poster.post(&otlp::HEADERS, &otlp::encode(batch, Some(&mut previous))));
                // What was refused will not come again.
                if !matches!(tried, Tried::Failed { .. }) {
                    self.previous = previous;
                }
                tried
            }
            Format::Bulk => {
                let mut previous = self.previous.clone();
                let body = bulk::encode(batch, &mut previous);
                let tried = if body.is_empty() { Tried::Taken(1) } else { taken(poster.post(&bulk::HEADERS, &body)) };
                if !matches!(tried, Tried::Failed { .. }) {
                    self.previous = previous;
                }
                tried
            }
            Format::FixedRemoteWrite(version, shape) => {
                judged(poster.post(&headers(version), &encode(batch, version, shape)))
            }
            Format::RemoteWrite => {
                let answer = poster.post(&headers(2), &encode(batch, 2, Shape::Native));
                if let Ok(answer) = &answer {
                    let counts =
                        ["samples", "histograms"].map(|what| format!("x-prometheus-remote-write-{what}-written"));
                    let has_counts = counts.iter().any(|name| answer.header(name).is_some());
                    // A server of version 1 answers that it took what it did not understand, or that it did not.
                    let is_old = !has_counts && matches!(answer.status, 200..=204 | 400 | 415);
                    if is_old && !self.is_known {
                        self.format = Format::FixedRemoteWrite(1, Shape::Native);
                        return self.send(poster, batch);
                    }
                    self.is_known |= has_counts;
                }
                judged(answer)
            }
        }
    }
}

/// What became of documents: a server answers for each of them.
fn taken(answer: std::io::Result<HttpAnswer>) -> Tried {
    match answer {
        Ok(answer) if answer.status == 200 => match bulk::taken(&answer.body) {
            bulk::Taken::All => Tried::Taken(1),
            bulk::Taken::Later(why) => Tried::Failed { why, is_answer: false },
            bulk::Taken::Refused(count, why) => Tried::Refused(format!("{count} documents: {why}")),
        },
        answer => judged(answer),
    }
}

fn judged(answer: std::io::Result<HttpAnswer>) -> Tried {
    match answer {
        Ok(answer) if (200..300).contains(&answer.status) => Tried::Taken(1),
        Ok(answer) => {
            let line = answer.first_line();
            let why = if line.is_empty() {
                format!("status {}", answer.status)
            } else {
                format!("status {}: {line}", answer.status)
            };
            match answer.status {
                429 | 500.. => Tried::Failed { why, is_answer: answer.status != 429 },
                _ => Tried::Refused(why),
            }
        }
        Err(error) => Tried::Failed { why: explain_failure(&error), is_answer: false },
    }
}

#[cfg(test)]
mod tests {
    use super::super::metrics::{HOSTS, Reading, Value};
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    fn batch(time_ms: i64) -> Batch {
        let mut batch = Batch::default();
        let value = Value::Number(1.0);
        batch.add(time_ms, Reading { metric: HOSTS, labels: Vec::new(), created_ms: 0, value });
        batch
    }

    /// A server that answers with these lines, one request each; returns the versions of remote-write that were asked of it.
    fn answering(answers: &'static [&'static str]) -> (Pusher, std::thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/api/v1/write", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let mut asked = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = Vec::new();
                let is_whole = |request: &[u8]| {
                    let text = String::from_utf8_lossy(request).into_owned();
                    let length = text.split("Content-Length: ").nth(1)?.split('\r').next()?.parse::<usize>().ok()?;
                    let head = request.windows(4).position(|four| four == b"\r\n\r\n")?;
                    (request.len() >= head + 4 + length).then_some(text)
                };
                let text = loop {
                    let mut part = [0; 1000];
                    let read = stream.read(&mut part).unwrap();
                    request.extend_from_slice(&part[..read]);
                    if let Some(text) = is_whole(&request) {
                        break text;
                    }
                };
                let version = text.split("Remote-Write-Version: ").nth(1).unwrap().split('\r').next().unwrap();
                asked.push(version.to_string());
                let _ = stream.write_all(format!("HTTP/1.1 {answer}\r\n\r\n").as_bytes());
            }
            asked
        });
        (Pusher::new(Target::parse(&url).unwrap(), None).unwrap(), server)
    }

    fn outcomes(pusher: &Pusher) -> Vec<Outcome> {
        let outcomes = Mutex::new(Vec::new());
        pusher.run(Duration::from_secs(60), &|outcome| outcomes.lock().unwrap().push(outcome));
        outcomes.into_inner().unwrap()
    }

    #[test]
    fn the_version_of_the_server_is_found() {
        let old = &["204 x\r\nContent-Length: 0", "204 x\r\nContent-Length: 0", "204 x"];
        let new = &["204 x\r\nX-Prometheus-Remote-Write-Samples-Written: 1", "200 x\r\nContent-Length: 0"];
        for (answers, expected) in [(&old[..], &["2.0.0", "0.1.0", "0.1.0"][..]), (new, &["2.0.0", "2.0.0"])] {
            let (pusher, server) = answering(answers);
            pusher.add(batch(1));
            pusher.add(batch(2));
            pusher.end();
            assert_eq!(outcomes(&pusher), [Outcome::Works]);
            assert_eq!(server.join().unwrap(), expected);
        }
    }

    #[test]
    fn what_may_pass_later_is_tried_again_and_else_dropped() {
        let answers = &[
            "503 x\r\nContent-Length: 0",
            "204 x",
            "204 x",
            "422 x\r\nContent-Length: 0",
            "429 x\r\nContent-Length: 0",
            "204 x",
        ];
        let (pusher, server) = answering(answers);
        (1..=3).for_each(|time_ms| assert_eq!(pusher.add(batch(time_ms)), 0));
        pusher.end();
        let fails = |why: &str| Outcome::Fails(why.into());
        let dropped = Outcome::Dropped("status 422".into());
        let expected = [fails("status 503"), Outcome::Works, dropped, fails("status 429"), Outcome::Works];
        assert_eq!(outcomes(&pusher), expected);
        assert_eq!(server.join().unwrap(), ["2.0.0", "2.0.0", "0.1.0", "0.1.0", "0.1.0", "0.1.0"]);
    }

    #[test]
    fn what_makes_a_server_fail_does_not_stop_the_others() {
        let (pusher, server) = answering(&["204 x", "204 x"]);
        let format = Format::FixedRemoteWrite(1, Shape::Native);
        let mut sending = Sending { format, is_known: false, previous: Previous::default() };
        let tried = pusher.tried(&mut sending, &batch(1), ATTEMPTS, Some(&batch(2)));
        assert!(matches!(tried, Tried::Taken(2)));
        let tried = pusher.tried(&mut sending, &batch(1), ATTEMPTS - 1, Some(&batch(2)));
        assert!(matches!(tried, Tried::Taken(1)));
        server.join().unwrap();
    }

    #[test]
    fn the_oldest_is_dropped_when_too_much_waits() {
        let (pusher, server) = answering(&[]);
        let many = || {
            let mut many = Batch::default();
            let labels = |number: usize| vec![("n".to_string(), number.to_string())];
            let value = Value::Number(1.0);
            (0..PENDING / 2).for_each(|number| {
                many.add(1, Reading { metric: HOSTS, labels: labels(number), created_ms: 0, value: value.clone() });
            });
            many
        };
        assert_eq!([pusher.add(many()), pusher.add(many()), pusher.add(batch(1))], [0, 0, SERIES]);
        server.join().unwrap();
    }

    #[test]
    fn the_format_is_part_of_the_url() {
        let format = |text: &str| Target::parse(text).unwrap().format;
        assert_eq!(format("http://127.0.0.1:9090/api/v1/write"), Format::RemoteWrite);
        assert_eq!(format("http://[::1]/opentelemetry/v1/metrics?x=y"), Format::Otlp);
        assert_eq!(format("otlp-delta+https://n1/"), Format::OtlpDelta);
        assert_eq!(format("vmrange+http://n1/api/v1/write"), Format::FixedRemoteWrite(1, Shape::Vmrange));
        for text in ["elasticsearch+http://n1:9200/latscope", "opensearch+http://n1:9200/latscope/_bulk"] {
            assert_eq!(Target::parse(text).unwrap().to_string(), "http://n1:9200/latscope/_bulk");
        }
        for text in ["elasticsearch+http://n1:9200", "elasticsearch+http://n1:9200/a/b", "opensearch+http://n1/_bulk"] {
            assert!(Target::parse(text).unwrap_err().contains("has no index; add one"), "{text}");
        }
        assert_eq!(Target::parse("vmrange+http://n1:1/x").unwrap().to_string(), "http://n1:1/x");
        assert!(
            Target::parse("influx+http://n1/")
                .unwrap_err()
                .contains("influx is not a format. The formats are remote-write,")
        );
        assert!(Target::parse("n1:9090").unwrap_err().contains("is not a URL"));
    }
}
