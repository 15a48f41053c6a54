//! Answers each request when it is due, any number of them at once.

use crate::exact;
use std::collections::BTreeMap;
use std::io::Error;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

type Answer = Box<dyn FnOnce() + Send>;

/// The thread that answers.
pub struct Timer(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    earlier: Condvar,
}

/// By time and order of arrival.
#[derive(Default)]
struct Waiting {
    answers: BTreeMap<(Instant, u64), Answer>,
    arrived: u64,
}

/// How the thread waits.
#[derive(Clone, Copy)]
pub enum Wait {
    /// Asleep until an answer is due.
    Asleep,
    /// In real time, and awake for the last bit.
    Exact,
}

impl Timer {
    pub fn start(wait: Wait) -> Result<Timer, Error> {
        let shared = Arc::new(Shared::default());
        let timer = Timer(Arc::clone(&shared));
        let awake = match wait {
            Wait::Asleep => Duration::ZERO,
            Wait::Exact => exact::AWAKE,
        };
        let (sender, receiver) = std::sync::mpsc::channel();
        let body = move || {
            let ready = match wait {
                Wait::Asleep => Ok(()),
                Wait::Exact => exact::realtime(exact::ANSWERS),
            };
            if sender.send(ready).is_ok() {
                shared.run(awake);
            }
        };
        thread::Builder::new().name("answers".to_string()).spawn(body)?;
        receiver.recv().map_err(Error::other)??;
        Ok(timer)
    }

    /// Gives this answer then, never earlier.
    pub fn at(&self, due: Instant, answer: Answer) {
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let number = waiting.arrived;
        waiting.arrived += 1;
        waiting.answers.insert((due, number), answer);
        self.0.earlier.notify_one();
    }
}

impl Shared {
    fn run(&self, awake: Duration) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = Instant::now();
            let next = waiting.answers.first_key_value().map(|((due, _), _)| *due);
            waiting = match next {
                None => self.earlier.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some(due) if due > now && due - now <= awake => {
                    drop(waiting);
                    exact::spin_until(due);
                    self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
                }
                Some(due) if due > now => {
                    self.earlier.wait_timeout(waiting, due - now - awake).unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    let answer = waiting.answers.pop_first();
                    drop(waiting);
                    if let Some((_, answer)) = answer {
                        answer();
                    }
                    self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }
}
