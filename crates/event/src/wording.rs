//! Notes of traces together, and how they become words.

use crate::{Anomaly, Context, Note, Severity};

/// What can be noted of a trace, for finding the traces that have it.
enum Kind<'a> {
    Counted(Anomaly),
    Unfinished,
    Noted(&'a Note),
}

impl Kind<'_> {
    fn is_like(&self, other: &Kind) -> bool {
        match (self, other) {
            (Kind::Counted(one), Kind::Counted(other)) => one == other,
            (Kind::Unfinished, Kind::Unfinished) => true,
            (Kind::Noted(one), Kind::Noted(other)) => one.is_like(other),
            _ => false,
        }
    }

    fn of_trace(context: &Context) -> impl Iterator<Item = Kind<'_>> {
        let counted = context.tally.iter().map(|(anomaly, _)| Kind::Counted(anomaly));
        let unfinished = context.unfinished.first().map(|_| Kind::Unfinished);
        counted.chain(unfinished).chain(context.notes.iter().map(Kind::Noted))
    }
}

impl Context {
    /// Adds a note, unless the trace has one like it.
    pub fn note(&mut self, note: Note) {
        if !self.notes.iter().any(|known| known.is_like(&note)) {
            self.notes.push(note);
        }
    }

    /// What is noted of several traces, each kind once: a context for each set of traces that have the same kinds, named
    /// after them (`a and 7 more`), with what they have of these kinds added up and nothing else.
    pub fn noted(contexts: &[Context]) -> Vec<Context> {
        let mut kinds: Vec<(Kind, Vec<usize>)> = Vec::new();
        for (at, context) in contexts.iter().enumerate() {
            for kind in Kind::of_trace(context) {
                match kinds.iter_mut().find(|(known, _)| known.is_like(&kind)) {
                    Some((_, traces)) => traces.push(at),
                    None => kinds.push((kind, vec![at])),
                }
            }
        }
        let mut sets: Vec<Vec<usize>> = Vec::new();
        for (_, traces) in &kinds {
            if !sets.contains(traces) {
                sets.push(traces.clone());
            }
        }
        sets.sort();
        let noted = sets.iter().map(|set| {
            let is_of_set = |kind: Kind| kinds.iter().any(|(known, traces)| traces == set && known.is_like(&kind));
            let only = |at: &usize| {
                let mut context = contexts[*at].clone();
                context.tally.0.retain(|&anomaly, _| is_of_set(Kind::Counted(anomaly)));
                context.unfinished.retain(|_| is_of_set(Kind::Unfinished));
                context.notes.retain(|note| is_of_set(Kind::Noted(note)));
                context
            };
            // They are named as its source.
            Context { lacking: Vec::new(), ..Context::merged(&set.iter().map(only).collect::<Vec<_>>()) }
        });
        noted.collect()
    }
}

/// A note in words, as a view shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoteLine {
    /// The traces that have it: `a and 7 more`.
    pub source: String,
    /// What it does to the numbers.
    pub severity: Severity,
    /// The words.
    pub text: String,
}

/// How notes become words. The program words them, since it knows its options and the formats; by itself a view shows keys
/// and numbers.
#[derive(Clone, Copy, Debug)]
pub struct Wording(pub fn(&Context) -> Vec<(Severity, String)>);

impl Wording {
    /// What is noted of one trace, or of several merged into one; the worst first.
    pub fn lines(self, context: &Context) -> Vec<NoteLine> {
        let line = |(severity, text)| NoteLine { source: context.source.clone(), severity, text };
        (self.0)(context).into_iter().map(line).collect()
    }

    /// What is [noted](Context::noted) of several traces, each kind once.
    pub fn lines_of_all(self, contexts: &[Context]) -> Vec<NoteLine> {
        Context::noted(contexts).iter().flat_map(|context| self.lines(context)).collect()
    }
}

impl PartialEq for Wording {
    fn eq(&self, other: &Wording) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

impl Eq for Wording {}

impl Default for Wording {
    fn default() -> Wording {
        Wording(|context| {
            let counted = context.tally.iter().map(|(anomaly, count)| (anomaly.severity(), anomaly.key(), Some(count)));
            let unfinished = context.unfinished.first().map(|_| (Severity::Open, "longest_unfinished", None));
            let noted = context.notes.iter().map(|note| (Severity::Note, note.key(), None));
            let kinds = counted.filter(|&(severity, ..)| severity > Severity::Detail).chain(unfinished).chain(noted);
            let line = |(severity, key, count): (_, &str, Option<u64>)| match count {
                Some(count) => (severity, format!("{key}: {count}")),
                None => (severity, key.to_owned()),
            };
            kinds.map(line).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, KernelFeature, Unfinished, Wait};

    /// The words behind a key are free to change, keys are not: recordings hold them.
    #[test]
    fn keys_are_those_of_recordings() {
        let (names, why) = (vec!["a".to_string()], "b".to_string());
        for note in [
            Note::MalformedRow { line: 3, why: why.clone() },
            Note::UnknownColumns { names: names.clone() },
            Note::FieldsOfFilter { names: names.clone() },
            Note::UnusedOffsets { file: why.clone(), hosts: names },
            Note::Interrupted,
            Note::ImplausibleSpan { span_ns: 1 },
            Note::ImplausibleRate { per_s: 1 },
            Note::ImplausibleOverlap { in_flight: 1 },
            Note::NoHistogram { first: why.clone(), more: 1 },
            Note::KernelLacks { feature: KernelFeature::TagWalk },
            Note::TagsAsked { count: 1, every_ns: 2, took_ns: [3, 4], failure: why.clone() },
            Note::TagsReceived { lines: 2, malformed: 1, first: why.clone(), refused_writers: 1 },
            Note::TagUnknown { key: why.clone(), known: vec!["stage".into()] },
            Note::StackedDevices { devices: vec!["md0".into()], numbers: vec!["9:0".into()], left_out: 7 },
            Note::TrailingBytes { bytes: 1 },
            Note::UnrelatedClocks { first: why.clone(), clocks: ["wall".into(), "boot".into()] },
            Note::Damage { byte: 7, what: "a hole".into() },
            Note::NoTimes,
            Note::NoQueueTimes,
        ] {
            let json = serde_json::to_value(&note).unwrap();
            assert_eq!(json["kind"], note.key());
            assert_eq!(serde_json::from_value::<Note>(json).unwrap(), note);
        }
    }

    #[test]
    fn kinds_of_later_versions_are_read() {
        let read = |text: &str| serde_json::from_str::<Note>(text).unwrap();
        assert_eq!(read(r#"{"kind": "comet", "tail_ns": [1, 2]}"#), Note::Unknown);
        let feature = KernelFeature::Unknown;
        assert_eq!(read(r#"{"kind": "kernel_lacks", "feature": "comets"}"#), Note::KernelLacks { feature });
    }

    #[test]
    fn each_kind_is_noted_once_for_several_traces() {
        let trace = |name: &str, records: u64| {
            let mut context = Context::new(name, Clock::wall());
            context.tally.add(Anomaly::LostRecords, records);
            context
        };
        let mut traces = [trace("a", 5), trace("b", 0), trace("c", 7)];
        traces[2].tally.add(Anomaly::Requeue, 1);
        traces[0].note(Note::Interrupted);
        traces[0].note(Note::Interrupted);
        for (at, trace) in traces.iter_mut().enumerate() {
            trace.tally.add(Anomaly::UnparsedLines, at as u64);
            if at > 0 {
                trace.note(Note::MalformedRow { line: at as u64, why: "an x".into() });
            }
        }
        let waiting = |at_least_ns| Unfinished {
            what: "7:0 write".into(),
            start_ns: 0,
            at_least_ns,
            wait: Wait::Counts,
            values: Default::default(),
        };
        traces[0].unfinished.push(waiting(5_000_000));
        traces[2].unfinished.push(waiting(31_000_000));
        let noted = Context::noted(&traces);
        assert_eq!(
            noted.iter().map(|context| context.source.as_str()).collect::<Vec<_>>(),
            ["a", "a and 1 more", "b and 1 more", "c"]
        );
        let first = Note::MalformedRow { line: 1, why: "an x".into() };
        assert_eq!((&noted[0].notes[..], &noted[2].notes[..]), (&[Note::Interrupted][..], &[first][..]));
        assert_eq!(noted[1].unfinished.iter().map(|request| request.at_least_ns).max(), Some(31_000_000));
        let lines: Vec<String> = Wording::default().lines_of_all(&traces).into_iter().map(|line| line.text).collect();
        assert_eq!(
            lines,
            [
                "interrupted",
                "lost_records: 12",
                "longest_unfinished",
                "unparsed_lines: 3",
                "malformed_row",
                "requeue: 1"
            ]
        );
        for trace in &traces {
            assert_eq!(Wording::default().lines_of_all(std::slice::from_ref(trace)), Wording::default().lines(trace));
        }
    }
}
