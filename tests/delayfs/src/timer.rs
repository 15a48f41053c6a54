//! Answers each request when it is due, any number of them at once.

use std::collections::BTreeMap;
use std::io::Error;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

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

impl Timer {
    pub fn start() -> Result<Timer, Error> {
        let shared = Arc::new(Shared::default());
        let timer = Timer(Arc::clone(&shared));
        thread::Builder::new().name("answers".to_string()).spawn(move || shared.run())?;
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
    fn run(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = Instant::now();
            let next = waiting.answers.first_key_value().map(|((due, _), _)| *due);
            waiting = match next {
                None => self.earlier.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some(due) if due > now => {
                    self.earlier.wait_timeout(waiting, due - now).unwrap_or_else(PoisonError::into_inner).0
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
