//! A running Spark application, or one in a history server, over its REST API: read as the event log that it would write.
//!
//! The driver's page (port 4040) and a history server answer `/api/v1`. What they say is put in the words of
//! [`crate::spark_eventlog`], line by line, so that every view that reads a log reads an application. With `--follow` it is asked once
//! a second, and only for what may have changed.

mod answers;
mod application;
mod now;
mod server;

pub use now::{SparkNow, SparkNumbers, Unanswered};
pub use server::url_of;

use crate::follow::OnRestart;
use crate::{Error, Position};
use application::Application;
use latscope_wire::Url;
use server::{Failure, Server};
use std::io::{self, Read};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// How often an application is asked.
const TURN: Duration = Duration::from_secs(1);

/// An application whose server refuses so many turns in a row has ended: one that only hangs still listens.
const REFUSALS: u32 = 3;

/// Why an application that was followed ended in the middle of a job.
static BROKE_OFF: OnceLock<String> = OnceLock::new();

/// Why the first application that was followed and broke off did: a sentence. What it said before counts, but its driver died or was
/// stopped while jobs ran.
pub fn broke_off() -> Option<&'static str> {
    BROKE_OFF.get().map(String::as_str)
}

/// The lines of the event log of an application.
pub struct Rest {
    name: String,
    server: Server,
    /// Whether it did not answer the last time, and how often in a row it refused to.
    is_silent: bool,
    refusals: u32,
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
        let (server, id) = Server::open(url, follows.is_some()).map_err(|failure| fail(failure.why))?;
        Ok(Rest {
            name: name.into(),
            server,
            is_silent: false,
            refusals: 0,
            application: Application::new(id),
            lines: Vec::new(),
            taken: 0,
            follows,
            asked: None,
            is_over: false,
        })
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
        // A turn that fails in the middle is asked again as a whole.
        let mut application = self.application.clone();
        match (application.ask(&self.server, &mut self.lines), self.follows) {
            (Ok(is_over), report) => {
                self.application = application;
                self.is_over = is_over || report.is_none();
                self.refusals = 0;
                if let (true, Some(report)) = (std::mem::take(&mut self.is_silent), report) {
                    report(&format!("{} answers again.", self.name));
                }
            }
            (Err(failure), Some(report)) if !is_first => {
                self.lines.clear();
                self.fails(&failure, report);
            }
            (Err(failure), _) => return Err(io::Error::other(failure.why)),
        }
        Ok(())
    }

    /// Goes on, unless the application has ended: a driver that collects garbage, and a gate in front of it, answer again.
    fn fails(&mut self, failure: &Failure, report: OnRestart) {
        let (name, why) = (&self.name, failure.why.trim_end_matches('.'));
        self.refusals = if failure.is_refused { self.refusals + 1 } else { 0 };
        if failure.is_gone || self.refusals >= REFUSALS {
            self.is_over = true;
            let rest = "what ended since its last answer is missing, and is in its event log";
            match self.application.running_jobs() {
                0 => report(&format!("{name} does not answer any more ({why}); {rest}.")),
                jobs => drop(BROKE_OFF.set(format!(
                    "{name} does not answer any more ({why}), though {jobs} of its jobs ran: its driver died, or was stopped; {rest}."
                ))),
            }
        } else if !failure.is_refused && !std::mem::replace(&mut self.is_silent, true) {
            report(&format!("{name}: {why}; it is asked again until it answers, or until Ctrl-C."));
        }
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

    /// How many tasks, and how many jobs and stages, are said to be forgotten.
    fn forgotten(url: Url) -> (u64, u64) {
        let mut lines = String::new();
        Rest::open("test", url, None).unwrap().read_to_string(&mut lines).unwrap();
        let (mut tasks, mut parts) = (0, 0);
        for line in lines.lines().filter(|line| line.contains("LatscopeForgotten")) {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            tasks += event["Tasks"].as_u64().unwrap();
            parts += event["Parts"].as_u64().unwrap();
        }
        (tasks, parts)
    }

    /// Three jobs, a stage, and of three tasks one that could not be asked for and one without a start.
    #[test]
    fn what_a_driver_has_forgotten_counts() {
        const APP: &str = r#"{"id":"a","attempts":[{"completed":true,"startTimeEpoch":1000,"endTimeEpoch":9000}]}"#;
        const JOBS: &str = r#"[{"jobId":3,"status":"SUCCEEDED","stageIds":[5,6,7],"numCompletedStages":2,"numSkippedStages":1,
            "submissionTime":"2026-11-21T01:13:48.376GMT","completionTime":"2026-11-21T01:13:50.376GMT"}]"#;
        const STAGE: &str = r#"[{"stageId":5,"attemptId":0,"status":"COMPLETE","numTasks":3,"numCompleteTasks":3,
            "submissionTime":"2026-11-21T01:13:48.376GMT","completionTime":"2026-11-21T01:13:49.376GMT"}]"#;
        const TASKS: &str = r#"[{"taskId":9,"index":0,"status":"SUCCESS","duration":5,"launchTime":"2026-11-21T01:13:48.376GMT"},
            {"taskId":10,"index":1,"status":"SUCCESS","duration":5,"launchTime":"yesterday"}]"#;
        let url = serving(
            "/history/a",
            &[
                ("/api/v1/applications/a", APP),
                ("/api/v1/applications/a/environment", r#"{"sparkProperties":[["spark.ui.retainedJobs","1"]]}"#),
                ("/api/v1/applications/a/jobs", JOBS),
                ("/api/v1/applications/a/stages", "[]"),
                ("/api/v1/applications/a/stages/5", STAGE),
                ("/api/v1/applications/a/stages/5/0/taskList", TASKS),
            ],
        );
        assert_eq!(forgotten(url), (2, 3 + 1));
    }

    /// Each stage is tried twice, as by Spark 4.0.5 after an executor was killed: first it is skipped, or fails.
    #[test]
    fn attempts_that_failed_are_not_forgotten() {
        const APP: &str = r#"{"id":"a","attempts":[{"completed":true,"startTimeEpoch":1000,"endTimeEpoch":9000}]}"#;
        const ONE: &str = r#"[{"jobId":0,"status":"SUCCEEDED","stageIds":[2,3],"numCompletedStages":2,"numSkippedStages":1,"numFailedStages":1,
            "submissionTime":"2026-11-21T01:13:48.376GMT","completionTime":"2026-11-21T01:13:50.376GMT"}]"#;
        const TWO: &str = r#"[{"jobId":0,"status":"SUCCEEDED","stageIds":[2,3],"numCompletedStages":2,"numSkippedStages":1,"numFailedStages":2,
            "submissionTime":"2026-11-21T01:13:48.376GMT","completionTime":"2026-11-21T01:13:50.376GMT"}]"#;
        const SKIPPED: &str = r#"[{"stageId":2,"attemptId":0,"status":"SKIPPED"},{"stageId":2,"attemptId":1,"status":"COMPLETE",
            "submissionTime":"2026-11-21T01:13:48.976GMT","completionTime":"2026-11-21T01:13:49.376GMT"}]"#;
        const AGAIN: &str = r#"[{"stageId":3,"attemptId":0,"status":"FAILED",
            "submissionTime":"2026-11-21T01:13:48.376GMT","completionTime":"2026-11-21T01:13:48.876GMT"},
            {"stageId":3,"attemptId":1,"status":"COMPLETE",
            "submissionTime":"2026-11-21T01:13:49.376GMT","completionTime":"2026-11-21T01:13:50.376GMT"}]"#;
        const KNOWN: &[(&str, &str)] = &[
            ("/api/v1/applications/a", APP),
            ("/api/v1/applications/a/jobs", ONE),
            ("/api/v1/applications/a/stages/2", SKIPPED),
            ("/api/v1/applications/a/stages/3", AGAIN),
        ];
        const LACKING: &[(&str, &str)] = &[
            ("/api/v1/applications/a", APP),
            ("/api/v1/applications/a/jobs", TWO),
            ("/api/v1/applications/a/stages/2", SKIPPED),
            ("/api/v1/applications/a/stages/3", AGAIN),
        ];
        assert_eq!(forgotten(serving("/history/a", KNOWN)), (0, 0));
        assert_eq!(forgotten(serving("/history/a", LACKING)), (0, 1));
    }

    /// Results of the first stage are lost, and between two turns both are done again.
    #[test]
    fn what_is_done_again_between_two_turns_is_read() {
        const APP: &str = r#"{"id":"a","attempts":[{"completed":false,"startTimeEpoch":1000}]}"#;
        const RUNS: &str = r#"{"jobId":0,"status":"RUNNING","stageIds":[2,3],"numCompletedStages":1,"numFailedStages":1,
            "submissionTime":"2026-11-21T01:13:48.376GMT"}"#;
        const OVER: &str = r#"{"jobId":0,"status":"SUCCEEDED","stageIds":[2,3],"numCompletedStages":2,"numFailedStages":1,
            "submissionTime":"2026-11-21T01:13:48.376GMT","completionTime":"2026-11-21T01:13:50.376GMT"}"#;
        const ONCE: [&str; 2] = [
            r#"[{"stageId":2,"attemptId":0,"status":"COMPLETE",
                "submissionTime":"2026-11-21T01:13:48.376GMT","completionTime":"2026-11-21T01:13:48.476GMT"}]"#,
            r#"[{"stageId":3,"attemptId":0,"status":"FAILED",
                "submissionTime":"2026-11-21T01:13:48.476GMT","completionTime":"2026-11-21T01:13:48.876GMT"}]"#,
        ];
        const AGAIN: [&str; 2] = [
            r#"[{"stageId":2,"attemptId":1,"status":"COMPLETE",
                "submissionTime":"2026-11-21T01:13:48.976GMT","completionTime":"2026-11-21T01:13:49.376GMT"}]"#,
            r#"[{"stageId":3,"attemptId":1,"status":"COMPLETE",
                "submissionTime":"2026-11-21T01:13:49.376GMT","completionTime":"2026-11-21T01:13:50.376GMT"}]"#,
        ];
        const IDLE: &[(&str, &str)] = &[("/api/v1/applications/a", APP)];
        const FIRST: &[(&str, &str)] = &[
            ("/api/v1/applications/a", APP),
            ("/api/v1/applications/a/jobs/0", RUNS),
            ("/api/v1/applications/a/stages/2", ONCE[0]),
            ("/api/v1/applications/a/stages/3", ONCE[1]),
        ];
        const SECOND: &[(&str, &str)] = &[
            ("/api/v1/applications/a", APP),
            ("/api/v1/applications/a/jobs/0", OVER),
            ("/api/v1/applications/a/stages/2", AGAIN[0]),
            ("/api/v1/applications/a/stages/3", AGAIN[1]),
        ];
        let mut application = Application::new("a".into());
        // Its jobs are listed in the first turn, and asked for one by one in the next.
        let mut ended = Vec::new();
        for answers in [IDLE, FIRST, SECOND] {
            let (server, _) = Server::open(serving("/history/a", answers), false).unwrap();
            let mut words = Vec::new();
            application.ask(&server, &mut words).unwrap();
            let words = String::from_utf8(words).unwrap();
            let events = words.lines().filter(|line| line.contains("SparkListenerStageCompleted"));
            let events = events.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
            ended.extend(events.map(|event| {
                let info = &event["Stage Info"];
                (info["Stage ID"].as_i64().unwrap(), info["Stage Attempt ID"].as_i64().unwrap())
            }));
            assert!(!words.contains("LatscopeForgotten"), "{words}");
        }
        assert_eq!(ended, [(2, 0), (3, 0), (2, 1), (3, 1)]);
    }

    #[test]
    fn a_stage_that_was_cancelled_is_not_forgotten_while_its_tasks_run_on() {
        const APP: &str = r#"{"id":"a","attempts":[{"completed":false,"startTimeEpoch":1000}]}"#;
        const JOBS: &str = r#"[{"jobId":0,"status":"FAILED","stageIds":[1],"numFailedStages":1,
            "submissionTime":"2026-11-21T01:13:48.376GMT","completionTime":"2026-11-21T01:13:50.376GMT"}]"#;
        const STAGE: &str = r#"[{"stageId":1,"attemptId":0,"status":"FAILED","numTasks":2,"numActiveTasks":2,
            "submissionTime":"2026-11-21T01:13:48.376GMT","completionTime":"2026-11-21T01:13:50.376GMT"}]"#;
        let url = serving(
            "/history/a",
            &[
                ("/api/v1/applications/a", APP),
                ("/api/v1/applications/a/jobs", JOBS),
                ("/api/v1/applications/a/stages/1", STAGE),
            ],
        );
        assert_eq!(forgotten(url), (0, 0));
    }

    #[test]
    fn tasks_without_any_job_are_missing() {
        const APP: &str = r#"{"id":"a","attempts":[{"completed":true,"startTimeEpoch":1000,"endTimeEpoch":9000}]}"#;
        let url = serving(
            "/history/a",
            &[
                ("/api/v1/applications/a", APP),
                ("/api/v1/applications/a/jobs", "[]"),
                ("/api/v1/applications/a/allexecutors", r#"[{"id":"0","completedTasks":7,"failedTasks":1}]"#),
            ],
        );
        assert_eq!(forgotten(url), (8, 0));
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
        let (server, id) = Server::open(url, false).unwrap();
        let mut application = Application::new(id);
        for _ in 0..3 {
            assert!(matches!(application.ask(&server, &mut Vec::new()), Ok(false)));
        }
    }
}
