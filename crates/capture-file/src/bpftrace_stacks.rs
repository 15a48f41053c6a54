//! Maps of bpftrace whose keys have stacks, as it prints them, and as lines of JSON (`-f json`).
//!
//! ```text
//! @waits[fio,
//!     io_schedule+70
//!     __x64_sys_pread64+120
//! ,
//!     __libc_pread64+79
//!     main+22
//! ]: 12
//! ```

use crate::input::Input;
use crate::stack_rows::{self, Sample, StackRows};
use crate::text_rows::{Piece, each_line};
use crate::{Detected, Error, ReadOptions, Sink};
use latscope_event::{Anomaly, Context, Field, FieldSet, FrameKind, push_frame};
use std::ops::ControlFlow;

/// The fields of an entry: the first other text of its key is the thread's name, what more there is are tags.
pub const FILLS: FieldSet = stack_rows::FILLS.with(&[Field::Comm, Field::Tags]);

/// More than a key with two stacks has.
const KEY_BYTES: usize = 1 << 20;
const FRAMES_LIMIT: usize = 4096;
const TOO_LONG: &str = "a key that is longer than any";
const NO_COUNT: &str = "no count behind the key";
const NO_KEY: &str = "a line within a key that is no part of one";

/// A map whose key goes on with the frame in the next line.
pub fn detect(head: &[u8]) -> Detected {
    let lines = || head.split(|&byte| byte == b'\n');
    let is_open =
        |line: &[u8]| line.starts_with(b"@") && line.contains(&b'[') && !line.windows(2).any(|two| two == b"]:");
    let has_text = lines()
        .zip(lines().skip(1))
        .any(|(line, next)| is_open(line) && frame(&String::from_utf8_lossy(next)).is_some());
    let mut json = lines().filter(|line| line.starts_with(b"{"));
    let mut is_json = || {
        let has = |line: &[u8], word: &[u8]| memchr::memmem::find(line, word).is_some();
        json.any(|line| has(line, b"\"type\": \"map\"") && has(line, b"\\n    "))
    };
    if has_text || is_json() { Detected::Yes } else { Detected::No }
}

/// The name in a line of a stack: `    name+12`, or with `perf` as its mode a tab and `ffffffff81234567 name+12 (module)`.
fn frame(line: &str) -> Option<&str> {
    let text = line.trim_end();
    let name = text.trim_start();
    if name.is_empty() || text.len() - name.len() < 4 && !text.starts_with('\t') {
        return None;
    }
    let is_address = |word: &str| word.len() >= 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let name = match name.split_once(' ') {
        Some((address, name)) if text.starts_with('\t') && is_address(address) => name,
        _ => name,
    };
    let name = match name.rsplit_once(" (") {
        Some((name, module)) if module.ends_with(')') && has_offset(name) => name,
        _ => name,
    };
    Some(if has_offset(name) { name.rsplit_once('+').map_or(name, |(name, _)| name) } else { name })
}

fn has_offset(name: &str) -> bool {
    name.rsplit_once('+').is_some_and(|(_, digits)| {
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// A part of a key: a stack, of frames from the innermost on, or another text.
enum Part<'a> {
    Stack(Vec<&'a str>),
    Text(&'a str),
}

/// The parts of a key: commas are between them, and stacks have a line for each frame.
fn parts(key: &str) -> Vec<Part<'_>> {
    let (mut parts, mut rest) = (Vec::new(), key);
    loop {
        if let Some(mut lines) = rest.strip_prefix('\n') {
            let mut frames = Vec::new();
            while let Some((line, after)) = lines.split_once('\n')
                && let Some(name) = frame(line)
            {
                frames.extend((frames.len() < FRAMES_LIMIT).then_some(name));
                lines = after;
            }
            if let Some(name) = frame(lines) {
                frames.push(name);
                lines = "";
            }
            parts.push(Part::Stack(frames));
            rest = lines;
        } else {
            // Names of threads may have commas; what separates has a blank, a stack or nothing behind it, or is the only one.
            let end =
                rest.match_indices(',').map(|(at, _)| at).find(|&at| rest[at + 1..].starts_with([' ', '\n', ',']));
            let end = end.or_else(|| rest.find(',')).unwrap_or(rest.len());
            parts.push(Part::Text(rest[..end].trim()));
            rest = &rest[end..];
        }
        let Some(after) = rest.trim_start_matches(' ').strip_prefix(',') else { return parts };
        rest = after.trim_start_matches(' ');
    }
}

/// Whether the frames, the innermost first, are of the kernel.
fn is_of_kernel(frames: &[&str]) -> bool {
    let entries = [
        "entry_",
        "do_syscall",
        "__x64_sys",
        "__arm64_sys",
        "ret_from_fork",
        "asm_",
        "el0",
        "invoke_syscall",
        "start_secondary",
    ];
    let mut outer = frames.iter().rev().take(8);
    outer.any(|name| {
        entries.iter().any(|entry| name.starts_with(entry)) || *name == "kthread" || *name == "worker_thread"
    })
}

/// Buffers of the entry that is added.
#[derive(Default)]
struct Entry {
    stack: String,
    comm: String,
    tags: String,
}

impl Entry {
    /// Takes the key of a map; whether it has a stack.
    fn read(&mut self, map: &str, key: &str) -> bool {
        self.stack.clear();
        self.comm.clear();
        self.tags.clear();
        let (mut stacks, mut has_stack, mut has_empty) = (Vec::new(), false, false);
        let mut tag = |key: &str, value: &str| {
            let separator = if self.tags.is_empty() { "" } else { ";" };
            let value = value.replace(';', ":");
            self.tags.push_str(&format!("{separator}{key}={value}"));
        };
        if !map.is_empty() {
            tag("map", map);
        }
        for (number, part) in parts(key).into_iter().enumerate() {
            match part {
                Part::Stack(frames) => {
                    has_stack = true;
                    stacks.push(frames);
                }
                // A thread of the kernel has no stack of a program.
                Part::Text("") => has_empty = true,
                Part::Text(text) if self.comm.is_empty() && text.parse::<i64>().is_err() => self.comm.push_str(text),
                Part::Text(text) => tag(&format!("key{}", number + 1), text),
            }
        }
        // The program's code calls the kernel's, in whatever order they are printed.
        stacks.sort_by_key(|frames| is_of_kernel(frames));
        for frames in &stacks {
            let kind = if is_of_kernel(frames) { FrameKind::Kernel } else { FrameKind::User };
            frames.iter().rev().for_each(|name| push_frame(&mut self.stack, name, kind));
        }
        has_stack && (!self.stack.is_empty() || has_empty)
    }
}

/// The number of an entry; of a time it may be none, as statistics and histograms are not.
fn count(text: &str) -> Option<u64> {
    text.trim().parse::<u64>().ok().filter(|&count| count <= i64::MAX as u64)
}

/// Reads the file; see the crate's `read`.
pub fn read(input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let name = input.name.clone();
    let mut rows = StackRows::new("maps of bpftrace", &name, FILLS, options, sink);
    let (mut entry, mut pending, mut is_cut, mut others) = (Entry::default(), None::<String>, false, 0);
    let unit_ns = options.two_columns.latency_unit_ns;
    let mut add = |rows: &mut StackRows, map: &str, key: &str, count: u64| {
        if count == 0 {
            return ControlFlow::Continue(());
        }
        if !entry.read(map, key) {
            others += 1;
            return ControlFlow::Continue(());
        }
        let sample = Sample { stack: &entry.stack, comm: &entry.comm, tags: &entry.tags, ..Sample::default() };
        rows.add(&match unit_ns {
            Some(unit) => Sample { count: 1, latency_ns: count.saturating_mul(unit).min(i64::MAX as u64), ..sample },
            None => Sample { count, ..sample },
        })
    };
    each_line(input, |piece| {
        let Piece::Line(number, line) = piece else { return Ok(rows.rows.hand_on()) };
        let bytes = line.unwrap_or_default();
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches(['\n', '\r']);
        if line.is_err() {
            rows.rows.add_malformed(number, line, TOO_LONG);
            pending = None;
        } else if text.starts_with('{') {
            match json(text) {
                Ok(maps) => {
                    for (map, key, count) in maps {
                        if add(&mut rows, map.trim_start_matches('@'), &key, count).is_break() {
                            return Ok(ControlFlow::Break(()));
                        }
                    }
                }
                Err(why) => rows.rows.add_malformed(number, line, why),
            }
        } else if number > 1 && !bytes.ends_with(b"\n") && (text.starts_with('@') || pending.is_some()) {
            // A count that was cut would be another one.
            is_cut = true;
        } else if text.starts_with('@') || pending.is_some() && frame(text).is_none() {
            // The end of the key, unless a stack follows.
            let mut whole = match pending.take().filter(|_| !text.starts_with('@')) {
                Some(pending) => pending + "\n",
                None => String::new(),
            };
            whole.push_str(text);
            let Some((map, rest)) = whole.strip_prefix('@').and_then(|map| map.split_once('[')) else {
                return Ok(ControlFlow::Continue(()));
            };
            // Behind the last frame: a function may be called `operator[]: 3`.
            let last_line = rest.rfind('\n').map_or(0, |at| at + 1);
            match rest[last_line..].rfind("]:").map(|at| rest.split_at(last_line + at)) {
                Some((key, value)) => match count(&value[2..]) {
                    Some(count) => return Ok(add(&mut rows, map, key, count)),
                    // A histogram or statistics, whose lines follow.
                    None if value.trim() == "]:" => {}
                    None => rows.rows.add_malformed(number, line, NO_COUNT),
                },
                None if text.trim().is_empty() || whole.len() > KEY_BYTES => {
                    rows.rows.add_malformed(number, line, NO_KEY);
                }
                None => pending = Some(whole),
            }
        } else if let Some(whole) = &mut pending {
            if whole.len() + text.len() > KEY_BYTES {
                rows.rows.add_malformed(number, line, TOO_LONG);
                pending = None;
            } else {
                whole.push('\n');
                whole.push_str(text);
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    rows.rows.context.tally.add(Anomaly::OtherRecords, others);
    // Or there is a key without its end.
    rows.rows.context.tally.add(Anomaly::Truncated, u64::from(is_cut || pending.is_some()));
    rows.finish(&name, "No map with a stack found.")
}

/// Maps, keys and counts of a line: `{"type": "map", "data": {"@": {"\n    f+1\n,comm": 3}}}`.
fn json(text: &str) -> Result<Vec<(String, String, u64)>, &'static str> {
    let parsed: serde_json::Value = serde_json::from_str(text).map_err(|_| "no JSON")?;
    if parsed["type"] != "map" {
        return Ok(Vec::new());
    }
    let maps = parsed["data"].as_object().ok_or("a map without data")?;
    let mut found = Vec::new();
    for (map, entries) in maps {
        for (key, count) in entries.as_object().into_iter().flatten() {
            found.extend(
                count.as_u64().filter(|&count| count <= i64::MAX as u64).map(|count| (map.clone(), key.clone(), count)),
            );
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Row = (String, i64, String, String);

    fn rows_of(text: &[u8]) -> Option<(Vec<Row>, Context)> {
        let input = Input::from_bytes("test", text).unwrap();
        let mut rows = Vec::new();
        let context = read(input, &ReadOptions::new(FieldSet::EVERY), &mut |_, batch| {
            for row in 0..batch.len() {
                let text = |field| batch.text(field, row).unwrap_or("").to_string();
                let count = batch.i64s(Field::SampleWeight).unwrap()[row].max(1);
                rows.push((text(Field::Stack), count, text(Field::Comm), text(Field::Tags)));
            }
            ControlFlow::Continue(())
        });
        Some((rows, context.ok()?))
    }

    const TEXT: &str = "Attaching 3 probes...\n\n@n: 268\n@waits[rustc, \n    0x7f752bb17b47\n    f(int, char)+12\n, \n    io_schedule+7\n    do_syscall_64+113\n]: 7426\n\
        @waits[kworker/u8:2, , \n    submit_bio+1\n    ret_from_fork+2\n]: 3\n@[\n\tffffffff81234567 vfs_read+12 ([kernel])\n\t00007f0000000001 main+0x1f (/x/a b)\n]: 1\n\
        @c[\n    main+1\n, 42, a;b]: 2\n@hist[\n    main+1\n]:\n[0, 1)   5 |@@@ |\n\n@bad[\n    main+1\n]: soon\n";

    fn expected() -> Vec<Row> {
        let row = |stack: &str, count, comm: &str, tags: &str| (stack.into(), count, comm.into(), tags.into());
        vec![
            row("f(int, char);0x7f752bb17b47;do_syscall_64_[k];io_schedule_[k]", 7426, "rustc", "map=waits"),
            row("ret_from_fork_[k];submit_bio_[k]", 3, "kworker/u8:2", "map=waits"),
            row("main;vfs_read", 1, "", ""),
            row("main", 2, "a;b", "map=c;key2=42"),
        ]
    }

    #[test]
    fn keys_are_stacks_names_and_tags() {
        assert_eq!(detect(TEXT.as_bytes()), Detected::Yes);
        let (rows, context) = rows_of(TEXT.as_bytes()).unwrap();
        assert_eq!(rows, expected());
        assert_eq!(context.tally.get(Anomaly::UnparsedLines), 1);
    }

    #[test]
    fn json_has_the_same_keys() {
        let maps = serde_json::json!({"type": "map", "data": {"@waits": {
            "rustc,\n    0x7f752bb17b47\n    f(int, char)+12\n,\n    io_schedule+7\n    do_syscall_64+113\n": 7426,
            "kworker/u8:2,,\n    submit_bio+1\n    ret_from_fork+2\n": 3 }}});
        let text = format!("{{\"type\": \"attached_probes\", \"data\": {{\"probes\": 3}}}}\n{maps}\n");
        let text = text.replace("\"type\":\"map\"", "\"type\": \"map\"");
        assert_eq!(detect(text.as_bytes()), Detected::Yes);
        let (mut rows, _) = rows_of(text.as_bytes()).unwrap();
        rows.sort_by_key(|row| -row.1);
        assert_eq!(rows, expected()[..2]);
    }

    #[test]
    fn histograms_and_counters_are_none() {
        for text in [
            "@us[fio]:\n[4, 8)  3 |@@@|\n",
            "@n: 3\n",
            "@[fio]: 3\n",
            "{\"type\": \"map\", \"data\": {\"@\": 3}}\n",
            "",
        ] {
            assert_eq!(detect(text.as_bytes()), Detected::No, "{text}");
        }
    }

    #[test]
    fn an_entry_that_is_cut_is_none() {
        let (first, second) = ("@a[\n    main+1\n]: 7\n", "@a[\n    read+1\n    main+1\n]: 7426\n");
        for end in 0..=second.len() {
            let (rows, context) = rows_of(format!("{first}{}", &second[..end]).as_bytes()).unwrap();
            let counts = [Anomaly::Truncated, Anomaly::UnparsedLines].map(|anomaly| context.tally.get(anomaly));
            let is_cut = (1..second.len()).contains(&end);
            let expected = (1 + usize::from(end == second.len()), [u64::from(is_cut), 0]);
            assert_eq!((rows.len(), counts), expected, "{}", &second[..end]);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_maps_or_refused(bytes: Vec<u8>, cut in 0..600usize) {
            let _ = (detect(&bytes), rows_of(&bytes));
            let _ = rows_of(&TEXT.as_bytes()[..cut.min(TEXT.len())]);
            let _ = rows_of(&TEXT.as_bytes()[cut.min(TEXT.len())..]);
        }
    }
}
