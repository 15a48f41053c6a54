//! A running Spark application, or one in a history server, over its REST API: read as the event log that it would write.
//!
//! The driver's page (port 4040) and a history server answer `/api/v1`. What they say is put in the words of
//! [`crate::spark_eventlog`], line by line, so that every view that reads a log reads an application. With `--follow` it is asked once
//! a second, and only for what may have changed.

mod answers;
mod application;
mod server;

pub use server::url_of;

use crate::follow::OnRestart;
use crate::{Error, Position};
use application::Application;
use latscope_wire::Url;
use server::Server;
use std::io::{self, Read};
use std::thread;
use std::time::{Duration, Instant};

/// How often an application is asked.
const TURN: Duration = Duration::from_secs(1);

/// The lines of the event log of an application.
pub struct Rest {
    name: String,
    application: Application,
    /// What was put in words and not yet read.
    lines: Vec<u8>,
    taken: usize,
    /// Reads until the application ends, and reports why it starts again; without it, reads once.
    follows: Option<OnRestart>,
    asked: Option<Instant>,
    is_over: bool,
}

impl Rest {
    /// Finds the application that a URL names.
    ///
    /// # Errors
    /// A sentence, when nobody answers, or the answer is not Spark's, or names none of several applications.
    pub fn open(name: &str, url: Url, follows: Option<OnRestart>) -> Result<Rest, Error> {
        let fail = |why: String| Error::new(name, Position::File, why);
        let (server, id) = Server::open(url).map_err(fail)?;
        let application = Application::new(server, id);
        Ok(Rest { name: name.into(), application, lines: Vec::new(), taken: 0, follows, asked: None, is_over: false })
    }

    /// Asks for what is new; the lines may be none.
    fn ask(&mut self) -> io::Result<()> {
        let is_first = self.asked.is_none();
        if let Some(asked) = self.asked {
            thread::sleep(TURN.saturating_sub(asked.elapsed()));
        }
        self.asked = Some(Instant::now());
        self.lines.clear();
        self.taken = 0;
        match self.application.ask(&mut self.lines) {
            Ok(is_over) => self.is_over = is_over || self.follows.is_none(),
            // What it said before it stopped counts.
            Err(why) if !is_first => {
                self.is_over = true;
                if let Some(report) = self.follows {
                    report(&format!(
                        "{} does not answer any more ({why}); what ended since its last answer is missing, and is in its event log.",
                        self.name
                    ));
                }
            }
            Err(why) => return Err(io::Error::other(why)),
        }
        Ok(())
    }
}

impl Read for Rest {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.lines.len() {
            if self.is_over {
                return Ok(0);
            }
            self.ask()?;
        }
        let count = buffer.len().min(self.lines.len() - self.taken);
        buffer[..count].copy_from_slice(&self.lines[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    /// A server that answers these paths, until the process ends; the address of one of its pages.
    fn serving(page: &str, answers: &'static [(&str, &str)]) -> Url {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}{page}", listener.local_addr().unwrap());
        thread::spawn(move || {
            for stream in listener.incoming().map(Result::unwrap) {
                let head: Vec<String> =
                    BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
                let path = head[0].split([' ', '?']).nth(1).unwrap();
                let found = answers.iter().find(|(known, _)| *known == path);
                let (status, body) = found.map_or((404, ""), |(_, body)| (200, body));
                write!(&stream, "HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
            }
        });
        Url::parse(&url).unwrap()
    }

    #[test]
    fn a_proxy_may_have_the_application_in_its_path() {
        const APP: &str = r#"{"id":"application_1_2","attempts":[{"attemptId":"1","completed":true}]}"#;
        const LIST: &str = r#"[{"id":"application_1_2","attempts":[{"attemptId":"1","completed":true}]}]"#;
        let url = serving(
            "/proxy/application_1_2/jobs/",
            &[
                ("/proxy/application_1_2/api/v1/applications", LIST),
                ("/proxy/application_1_2/api/v1/applications/application_1_2", APP),
                ("/proxy/application_1_2", "<html>"),
            ],
        );
        let mut lines = String::new();
        Rest::open("test", url, None).unwrap().read_to_string(&mut lines).unwrap();
        assert!(lines.contains(r#""App ID":"application_1_2""#), "{lines}");
    }

    #[test]
    fn numbers_at_the_end_of_their_range_are_numbers() {
        const JOB: &str = r#"{"jobId":9223372036854775807,"numCompletedStages":9223372036854775807,"numFailedStages":1,"status":"RUNNING"}"#;
        const APP: &str = r#"{"id":"a","attempts":[{"completed":false}]}"#;
        let url = serving(
            "/history/a",
            &[
                ("/api/v1/applications/a", APP),
                ("/api/v1/applications/a/jobs", r#"[{"jobId":9223372036854775807}]"#),
                ("/api/v1/applications/a/jobs/9223372036854775807", JOB),
            ],
        );
        let (server, id) = Server::open(url).unwrap();
        let mut application = Application::new(server, id);
        for _ in 0..3 {
            assert_eq!(application.ask(&mut Vec::new()), Ok(false));
        }
    }
}
