//! What texts of a log say: why something failed, and what users call queries and jobs.

use serde::Deserialize;
use std::borrow::Cow;

/// Which memory of a JVM ran out, outside the heap or for want of progress of GC, by the message of an `OutOfMemoryError`.
const KINDS: [(&str, &str); 6] = [
    ("Metaspace", "OutOfMetaspace"),
    ("Compressed class space", "OutOfMetaspace"),
    ("native thread", "OutOfThreads"),
    ("irect buffer memory", "OutOfDirectMemory"),
    ("direct memory", "OutOfDirectMemory"),
    ("GC overhead limit exceeded", "GcOverheadLimit"),
];

#[derive(Deserialize, Debug)]
pub struct Reason<'a> {
    #[serde(rename = "Reason", borrow)]
    pub reason: Cow<'a, str>,
    #[serde(rename = "Class Name", borrow)]
    class: Option<Cow<'a, str>>,
    #[serde(rename = "Description", borrow)]
    description: Option<Cow<'a, str>>,
}

impl Reason<'_> {
    /// Why the task failed: what Spark calls it, or what lies behind an exception that want of memory caused.
    pub fn word(&self) -> &str {
        let class = self.class.as_deref().unwrap_or_default();
        let says = |words: &str| self.description.as_ref().is_some_and(|text| text.contains(words));
        match &*self.reason {
            "ExceptionFailure" if class.ends_with("OutOfDirectMemoryError") => "OutOfDirectMemory",
            "ExceptionFailure" if class.ends_with("OutOfMemoryError") => {
                KINDS.iter().find(|(words, _)| says(words)).map_or("OutOfMemory", |(_, word)| word)
            }
            "ExceptionFailure" if says("Python worker exited unexpectedly") => "PythonWorkerLost",
            "ExceptionFailure" if class.ends_with("PythonException") && self.is_want_of_memory() => "PythonOutOfMemory",
            reason => reason,
        }
    }

    /// Whether Python or what it loads had no more memory: each library words it in its own way.
    fn is_want_of_memory(&self) -> bool {
        const WORDS: [&str; 3] = ["MemoryError", "annot allocate memory", "std::bad_alloc"];
        let Some(text) = &self.description else { return false };
        // The loader adds why where it is something else.
        let mut maps = text.split("failed to map segment from shared object").skip(1);
        WORDS.iter().any(|words| text.contains(words)) || maps.any(|after| !after.starts_with(": "))
    }
}

/// Why something failed, of a message that may hold the stack of several programs: the exception with its first line.
pub fn essence(message: &str) -> &str {
    // A task that failed has words of Spark before its exception.
    let task = message.find("Lost task ").and_then(|at| Some(&message[at + message[at..].find("): ")? + 3..]));
    let text = task.unwrap_or(message).trim_start();
    let first = text.lines().next().unwrap_or_default();
    // Python has its exception at the end of the stack: after the lines that are indented.
    let python = text
        .find("Traceback (most recent call last)")
        .and_then(|at| text[at..].lines().skip(1).find(|line| !line.is_empty() && !line.starts_with([' ', '\t'])));
    python.unwrap_or(first).trim()
}

/// Texts of the user are cut here.
pub const LONGEST_TEXT: usize = 200;

/// The start of a text, as far as views show it.
pub fn shortened(text: &str) -> &str {
    let line = text.trim().lines().next().unwrap_or_default();
    line.char_indices().nth(LONGEST_TEXT).map_or(line, |(at, _)| &line[..at])
}

/// The name of a query or job: the first line of its description; of a batch of a streaming query, whose description has its name (if it
/// has one), identifiers and the number of the batch on lines of their own, the name and the batch.
pub fn described(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    let lines = || text.split(['\n', '\r']).flat_map(|line| line.split("<br/>")).map(str::trim);
    let value = |key: &str| lines().find_map(|line| line.strip_prefix(key));
    let (Some(id), Some(_), Some(batch)) = (value("id = "), value("runId = "), value("batch = ")) else {
        return Cow::Borrowed(shortened(text));
    };
    match lines().next().filter(|first| !first.starts_with("id = ")) {
        Some(name) => format!("{}, batch {}", shortened(name), shortened(batch)).into(),
        None => format!("streaming query {}, batch {}", id.split('-').next().unwrap_or(id), shortened(batch)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_for_want_of_memory_are_told_apart() {
        let out_of = |words: &str| {
            format!(
                r#"{{"Reason":"ExceptionFailure","Class Name":"java.lang.OutOfMemoryError","Description":"{words}"}}"#
            )
        };
        for (reason, word) in [
            (r#"{"Reason":"ExceptionFailure","Class Name":"java.lang.OutOfMemoryError"}"#.into(), "OutOfMemory"),
            (out_of("Java heap space"), "OutOfMemory"),
            (out_of("Metaspace"), "OutOfMetaspace"),
            (out_of("Compressed class space"), "OutOfMetaspace"),
            (out_of("unable to create native thread: possibly out of memory or process/resource limits reached"), "OutOfThreads"),
            (out_of("Direct buffer memory"), "OutOfDirectMemory"),
            (out_of("Cannot reserve 1048576 bytes of direct buffer memory (allocated: 1, limit: 2)"), "OutOfDirectMemory"),
            (out_of("GC overhead limit exceeded"), "GcOverheadLimit"),
            (
                r#"{"Reason":"ExceptionFailure","Class Name":"io.netty.util.internal.OutOfDirectMemoryError"}"#.into(),
                "OutOfDirectMemory",
            ),
            (
                r#"{"Reason":"ExceptionFailure","Class Name":"org.apache.spark.memory.SparkOutOfMemoryError"}"#.into(),
                "OutOfMemory",
            ),
            (
                r#"{"Reason":"ExceptionFailure","Description":"Python worker exited unexpectedly (crashed)"}"#.into(),
                "PythonWorkerLost",
            ),
            (
                r#"{"Reason":"ExceptionFailure","Class Name":"a.PythonException","Description":"x\nMemoryError"}"#.into(),
                "PythonOutOfMemory",
            ),
            (
                r#"{"Reason":"ExceptionFailure","Class Name":"a.PythonException","Description":"ImportError: arrays.so: failed to map segment from shared object\n"}"#.into(),
                "PythonOutOfMemory",
            ),
            (
                r#"{"Reason":"ExceptionFailure","Class Name":"a.PythonException","Description":"ImportError: arrays.so: failed to map segment from shared object: Operation not permitted"}"#.into(),
                "ExceptionFailure",
            ),
            (r#"{"Reason":"ExceptionFailure","Class Name":"java.lang.Error"}"#.into(), "ExceptionFailure"),
            (r#"{"Reason":"ExecutorLostFailure","Loss Reason":"OutOfMemoryError"}"#.into(), "ExecutorLostFailure"),
        ] {
            assert_eq!(serde_json::from_str::<Reason>(&reason).unwrap().word(), word, "{reason}");
        }
    }

    #[test]
    fn the_essence_of_a_message_is_its_exception() {
        let lost = "Job aborted due to stage failure: Task 5 in stage 3.0 failed 4 times, most recent failure: Lost task 5.3 in stage \
            3.0 (TID 19) (127.0.0.1 executor 0): ";
        let python = "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    \
            raise\nValueError: boom\n\n\tat org.apache.spark.A.b(A.scala:1)\n";
        let java = "java.lang.OutOfMemoryError: Java heap space\n\tat a.B.c(B.java:1)";
        for (message, expected) in [
            (format!("{lost}{python}"), "ValueError: boom"),
            (python.into(), "ValueError: boom"),
            (format!("{lost}{java}"), "java.lang.OutOfMemoryError: Java heap space"),
            (java.into(), "java.lang.OutOfMemoryError: Java heap space"),
            ("Job 3 cancelled".into(), "Job 3 cancelled"),
            ("Lost task ".into(), "Lost task"),
            ("Traceback (most recent call last):\n  x".into(), "Traceback (most recent call last):"),
        ] {
            assert_eq!(essence(&message), expected);
        }
    }

    #[test]
    fn batches_of_streaming_queries_have_the_name_of_the_query() {
        let ids = "id = 5a4e57dd-0001\nrunId = 77aa-2\nbatch = 3";
        assert_eq!(described(&format!("orders\n{ids}")), "orders, batch 3");
        assert_eq!(described(&format!("\n{ids}")), "streaming query 5a4e57dd, batch 3");
        assert_eq!(described(&format!("orders\n{ids}").replace('\n', "<br/>")), "orders, batch 3", "Spark 2");
        assert_eq!(described("count at a.py:1\nmore"), "count at a.py:1");
        assert_eq!(described("id = 3"), "id = 3");
    }
}
