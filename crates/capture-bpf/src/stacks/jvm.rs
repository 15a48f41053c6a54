//! Asks JVMs for the names of the code that they compiled.

use latscope_event::{Context, Note};
use latscope_unwind::request_jvm_map;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A JVM is asked again after this time, if code without a name is seen: it compiles more as it runs.
const AGAIN: Duration = Duration::from_secs(30);
/// So many processes are remembered.
const KEPT: usize = 1024;

/// The JVMs that were asked, and the outcome.
#[derive(Default)]
pub struct JvmMaps {
    asked: HashMap<u32, Instant>,
    outcome: Arc<Mutex<Outcome>>,
}

#[derive(Default)]
struct Outcome {
    asked: u64,
    written: u64,
    failure: String,
}

impl JvmMaps {
    /// Asks a process, unless it was asked a moment ago. It answers when all its threads can stop, which nobody waits for; what
    /// it writes is found with the next stack.
    pub fn ask(&mut self, pid: u32) {
        if self.asked.get(&pid).is_some_and(|asked| asked.elapsed() < AGAIN) {
            return;
        }
        if self.asked.len() >= KEPT {
            self.asked.retain(|_, asked| asked.elapsed() < AGAIN);
        }
        self.asked.insert(pid, Instant::now());
        let outcome = self.outcome.clone();
        std::thread::spawn(move || {
            let done = request_jvm_map(pid);
            let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
            outcome.asked += 1;
            match done {
                Ok(()) => outcome.written += 1,
                Err(error) => outcome.failure = error.to_string(),
            }
        });
    }

    /// Says in the context how it went.
    pub fn account(&self, context: &mut Context) {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        if outcome.asked > 0 {
            let Outcome { asked, written, ref failure } = *outcome;
            context.notes.retain(|note| !matches!(note, Note::JvmMaps { .. }));
            context.notes.push(Note::JvmMaps { asked, written, failure: failure.clone() });
        }
    }
}
