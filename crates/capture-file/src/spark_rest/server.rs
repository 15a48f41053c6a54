//! Where an application answers: the address that a browser shows, and what is asked there.

use super::answers::{App, Attempt, date};
use latscope_wire::{Poster, Url};
use serde::de::DeserializeOwned;
use std::cell::Cell;
use std::io::ErrorKind;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Most of an answer, bytes: a page of tasks, or the jobs that a driver keeps.
const ANSWER_BYTES: usize = 32 << 20;
/// Pages of the driver, whose address a user may have copied.
const PAGES: [&str; 7] = ["/jobs", "/stages", "/storage", "/environment", "/executors", "/SQL", "/api/v1"];
/// What a driver says until its pages are ready.
const STARTS: &[u8] = b"Spark is starting up";
/// It is asked again so many times, a second apart.
const PATIENCE: u32 = 30;
/// Time between two requests while the pages replace that answer and the API is not yet there.
const AGAIN: Duration = Duration::from_millis(200);
/// How long `--follow` waits for the API of a driver that did not say that it is starting.
const FOLLOWED: Duration = Duration::from_secs(5);
/// One that was seen to start may take so long in all.
const STARTING: Duration = Duration::from_secs(30);
/// Applications that an error names.
const NAMED: usize = 3;

/// Why there is no answer that makes sense.
#[derive(Debug)]
pub struct Failure {
    /// A sentence.
    pub why: String,
    /// Whether nobody listens there.
    pub is_refused: bool,
    /// Whether the server answers, and has no such application.
    pub is_gone: bool,
    /// Whether what it answers is not Spark's.
    is_foreign: bool,
}

impl Failure {
    /// The application is not there any more.
    pub fn gone() -> Failure {
        Failure { is_gone: true, ..Failure::from("The application is gone.".to_string()) }
    }

    fn foreign(why: String) -> Failure {
        Failure { is_foreign: true, ..Failure::from(why) }
    }
}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure { why, is_refused: false, is_gone: false, is_foreign: false }
    }
}

/// The URL that the name of an input is; `None` of the name of a file.
pub fn url_of(path: &Path) -> Option<Result<Url, String>> {
    let text = path.to_str()?;
    (text.starts_with("http://") || text.starts_with("https://")).then(|| Url::parse(text))
}

/// The REST API of one application.
pub struct Server {
    poster: Poster,
    /// Where the application itself is: `/api/v1/applications/ID`, behind what a proxy puts before it.
    app: String,
    /// What every other path starts with: the same, with the attempt where a cluster manager counts them.
    base: String,
    now_ms: Cell<i64>,
    /// Whether it said that it starts up.
    starts: Cell<bool>,
}

/// What the path of an address says: what is in front of `/api/v1`, the application, and its attempt.
fn parts(path: &str) -> (&str, Option<&str>, Option<&str>) {
    let path = path.split('?').next().unwrap_or_default();
    for mark in ["/api/v1/applications/", "/history/"] {
        if let Some((front, rest)) = path.split_once(mark) {
            let mut rest = rest.split('/').filter(|part| !part.is_empty());
            let (id, attempt) = (rest.next(), rest.next());
            return (front, id, attempt.filter(|attempt| attempt.bytes().all(|byte| byte.is_ascii_digit())));
        }
    }
    let page = PAGES.iter().filter_map(|page| path.find(page)).min();
    (path[..page.unwrap_or(path.len())].trim_end_matches('/'), None, None)
}

/// Whether an identifier can stand in a path as it is.
fn is_plain(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

impl Server {
    /// Finds the application; returns where it answers, and its identifier. One that is followed may be about to start.
    ///
    /// # Errors
    /// A sentence.
    pub fn open(url: Url, is_followed: bool) -> Result<(Server, String), Failure> {
        let whole = url.path().to_string();
        let (front, id, attempt) = parts(&whole);
        let poster = Poster::new(url, None)?;
        let base = format!("{front}/api/v1/applications");
        let mut server = Server { poster, app: String::new(), base, now_ms: Cell::new(0), starts: Cell::new(false) };
        let app = match id {
            Some(id) if is_plain(id) => server.first::<App>(&format!("/{id}"), is_followed)?.filter(|app| app.id == id),
            Some(_) => None,
            None => Some(server.only(is_followed)?),
        };
        let app = app.ok_or_else(|| format!("{} has no such application.", server.poster.url().server()))?;
        if !is_plain(&app.id) {
            return Err("The identifier of the application has characters that no version of Spark gives it."
                .to_string()
                .into());
        }
        server.base.push_str(&format!("/{}", app.id));
        server.app.clone_from(&server.base);
        // The newest attempt is the first.
        let newest = app.attempts.first().and_then(|attempt| attempt.attempt_id.clone());
        if let Some(attempt) = attempt.map(str::to_string).or(newest).filter(|attempt| is_plain(attempt)) {
            server.base.push_str(&format!("/{attempt}"));
        }
        Ok((server, app.id))
    }

    /// The one application that there is.
    fn only(&self, is_followed: bool) -> Result<App, Failure> {
        let server = self.poster.url().server();
        let mut apps: Vec<App> = self.first("", is_followed)?.ok_or_else(|| {
            format!("{server} has no REST API of Spark; give the address of a driver's page (port 4040) or of a history server.")
        })?;
        match apps.len() {
            0 => Err(format!("{server} has no application.").into()),
            1 => Ok(apps.remove(0)),
            count => {
                let named = apps.iter().map(|app| &*app.id).filter(|id| is_plain(id)).take(NAMED);
                let named: Vec<&str> = named.collect();
                let example = named.first().copied().unwrap_or("ID");
                Err(format!(
                    "{server} has {count} applications ({}{}); name one, as {server}/history/{example} does.",
                    named.join(", "),
                    if count > named.len() { " ..." } else { "" }
                )
                .into())
            }
        }
    }

    /// What the server says first; a driver that starts knows nothing of its API for a moment, or sends to its pages.
    fn first<T: DeserializeOwned>(&self, what: &str, is_followed: bool) -> Result<Option<T>, Failure> {
        let start = Instant::now();
        loop {
            let answer = self.ask::<T>(what);
            let may_come = match &answer {
                Ok(found) => found.is_none(),
                Err(failure) => failure.is_foreign,
            };
            let patience = match self.starts.get() {
                true => STARTING,
                false if is_followed => FOLLOWED,
                false => Duration::ZERO,
            };
            if !may_come || start.elapsed() >= patience {
                return answer;
            }
            thread::sleep(AGAIN);
        }
    }

    /// The attempt that is read, in what the server says of the application.
    pub fn attempt(&self, app: App) -> (String, Option<Attempt>) {
        let id = self.base.rsplit('/').next().map(str::to_string);
        let mut attempts = app.attempts;
        let at = attempts.iter().position(|attempt| attempt.attempt_id == id).unwrap_or(0);
        (app.name, (at < attempts.len()).then(|| attempts.swap_remove(at)))
    }

    /// When it last answered, by its own clock; 0 where it does not date its answers.
    pub fn now_ms(&self) -> i64 {
        self.now_ms.get()
    }

    /// The application itself.
    pub fn app(&self) -> Result<Option<App>, Failure> {
        self.ask_path(&self.app)
    }

    /// What the server says about something; none where it knows no such thing.
    ///
    /// # Errors
    /// A sentence, when there is no answer, or none that makes sense.
    pub fn ask<T: DeserializeOwned>(&self, what: &str) -> Result<Option<T>, Failure> {
        self.ask_path(&format!("{}{what}", self.base))
    }

    fn ask_path<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Failure> {
        let server = || self.poster.url().server();
        let mut answer = self.poster.get(path, ANSWER_BYTES);
        let mut asked = 0;
        while answer.as_ref().is_ok_and(|answer| answer.body.starts_with(STARTS)) {
            if asked == PATIENCE {
                return Err(format!("{} is starting up for {PATIENCE} s; try again when it is ready.", server()).into());
            }
            asked += 1;
            self.starts.set(true);
            thread::sleep(Duration::from_secs(1));
            answer = self.poster.get(path, ANSWER_BYTES);
        }
        let answer = answer.map_err(|error| Failure {
            is_refused: error.kind() == ErrorKind::ConnectionRefused,
            ..Failure::from(format!("The server does not answer: {error}."))
        })?;
        self.now_ms.set(self.now_ms.get().max(answer.header("date").and_then(date).unwrap_or(0)));
        match answer.status {
            200 => serde_json::from_slice(&answer.body).map(Some).map_err(|error| {
                Failure::foreign(format!("What {} answers to {path} is not Spark's: {error}.", server()))
            }),
            404 => Ok(None),
            status => {
                let why = format!("{} answers {path} with status {status}: {}", server(), answer.first_line());
                Err(Failure::foreign(why))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_a_browser() {
        let app = "app-20261121011349-0000";
        for (path, expected) in [
            ("/", ("", None, None)),
            ("/jobs/job/?id=3", ("", None, None)),
            ("/proxy/application_1_2/stages/", ("/proxy/application_1_2", None, None)),
            ("/history/app-20261121011349-0000/jobs/", ("", Some(app), None)),
            ("/history/app-20261121011349-0000/2/stages/", ("", Some(app), Some("2"))),
            ("/api/v1/applications", ("", None, None)),
            ("/gate/api/v1/applications/app-20261121011349-0000/1", ("/gate", Some(app), Some("1"))),
        ] {
            assert_eq!(parts(path), expected, "{path}");
        }
        assert!(url_of(Path::new("http:log")).is_none() && url_of(Path::new("app-1")).is_none());
        assert!(url_of(Path::new("http://x y/")).unwrap().is_err());
        assert!(is_plain(app) && !is_plain("") && !is_plain("a/../b") && !is_plain("a b"));
    }
}
