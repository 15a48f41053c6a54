//! What events may have in common, in the words of the filter language.

use latscope_event::{Field, format_duration_exact, format_size_exact};
use std::fmt::Write;

/// Something by which events differ.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Attribute {
    /// A field of the event.
    Field(Field),
    /// The folder of its path.
    Directory,
    /// The functions of its call stack: an event has each of them.
    Frame,
    /// Functions of the kernel, and those that only lead there.
    KernelFrame,
    /// Its tags, each `key=value` of them.
    Pair,
    /// When it completed, from the start of the trace.
    Time,
    /// Where in a second of the trace's clock it completed.
    InSecond,
    /// Where in the period of the selection it completed, on the trace's clock.
    InPeriod,
}

/// What names a cause comes first: of several attributes that select the same events, this one is printed.
const TELLING: [Attribute; 37] = [
    Attribute::Pair,
    Attribute::Frame,
    Attribute::Field(Field::Device),
    Attribute::Field(Field::Path),
    Attribute::Directory,
    Attribute::Field(Field::Job),
    Attribute::Field(Field::Stage),
    Attribute::Field(Field::Host),
    Attribute::Field(Field::Executor),
    Attribute::Field(Field::Trace),
    Attribute::Field(Field::Kind),
    Attribute::Field(Field::WaitClass),
    Attribute::Field(Field::Process),
    Attribute::Field(Field::Comm),
    Attribute::KernelFrame,
    Attribute::Field(Field::Error),
    Attribute::Field(Field::Size),
    Attribute::Field(Field::Spilled),
    Attribute::Field(Field::GcTime),
    Attribute::Field(Field::FetchWait),
    Attribute::Field(Field::Locality),
    Attribute::Field(Field::Queue),
    Attribute::Field(Field::Dispatcher),
    Attribute::Field(Field::Name),
    Attribute::Field(Field::ContainerName),
    Attribute::Field(Field::Container),
    Attribute::Field(Field::Cgroup),
    Attribute::Field(Field::Sequential),
    Attribute::Field(Field::Offset),
    Attribute::InPeriod,
    Attribute::InSecond,
    Attribute::Field(Field::InFlight),
    Attribute::Field(Field::Region),
    Attribute::Field(Field::SincePrevious),
    Attribute::Time,
    Attribute::Field(Field::RunTime),
    Attribute::Field(Field::Latency),
];

impl Attribute {
    /// The name that the filter language has for it.
    pub fn name(self) -> &'static str {
        match self {
            Attribute::Field(field) => field.name(),
            Attribute::Directory => "fd.directory",
            Attribute::Frame | Attribute::KernelFrame => "frame",
            Attribute::Pair => "tags.pair",
            Attribute::Time => "evt.reltime",
            Attribute::InSecond => "evt.rawtime.ns",
            Attribute::InPeriod => "evt.phase",
        }
    }

    /// The smaller, the more it says about a cause.
    pub(super) fn place(self) -> usize {
        TELLING.iter().position(|&known| known == self).unwrap_or(TELLING.len())
    }

    /// Whether it means something only on one device: offsets of different ones have nothing to do with each other.
    pub(super) fn is_of_a_device(self) -> bool {
        matches!(self, Attribute::Field(Field::Offset | Field::Region))
    }

    /// Whether it names the operation, its target, or the process.
    pub(super) fn is_a_name(self) -> bool {
        self.place() <= Attribute::Field(Field::Comm).place()
    }

    /// How much a difference in it counts in the ranking: what follows from slowness, and numbers that mean nothing to a reader,
    /// come after what may be a cause of it.
    pub(super) fn merit(self) -> f64 {
        use Field::{Cpu, InFlight, Offset, Pid, Ppid, Region, RunTime, SincePrevious, Tid};
        match self {
            Attribute::Field(Offset | Region) => 0.9,
            Attribute::Field(InFlight | SincePrevious | RunTime) | Attribute::Time => 0.9,
            Attribute::Field(Tid | Pid | Ppid | Cpu) | Attribute::KernelFrame => 0.95,
            _ => 1.0,
        }
    }

    /// Whether two attributes say much the same, so that both together say no more.
    pub(super) fn is_like(self, other: Attribute) -> bool {
        let family = |attribute| match attribute {
            Attribute::Field(Field::Tid | Field::Pid | Field::Comm | Field::Process) => 1,
            Attribute::Field(Field::Path) | Attribute::Directory => 2,
            Attribute::Field(Field::Offset | Field::Region) => 3,
            Attribute::Field(Field::Kind | Field::Name) => 4,
            Attribute::Time | Attribute::InSecond | Attribute::InPeriod => 5,
            Attribute::Frame | Attribute::KernelFrame => 6,
            _ => 0,
        };
        self == other || family(self) != 0 && family(self) == family(other)
    }
}

/// What all events of a finding have in common.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Condition {
    /// A text or an identifier.
    Is(Attribute, String),
    /// No value.
    Missing(Attribute),
    /// A number from here on, and below there, as far as given.
    Range(Attribute, Option<u64>, Option<u64>),
    /// Nanoseconds within a second, from here on and below there; the end may be before the start, in the next second.
    InSecond(u64, u64),
    /// Of a period of so many nanoseconds likewise.
    InPeriod(u64, u64, u64),
}

impl Condition {
    /// The most telling conditions first; of those that say much the same, one.
    pub(super) fn without_repetition(mut conditions: Vec<Condition>) -> Vec<Condition> {
        conditions.sort_by_key(|condition| condition.attribute().place());
        let mut kept: Vec<Condition> = Vec::new();
        for condition in conditions {
            if !kept.iter().any(|known| known.attribute().is_like(condition.attribute())) {
                kept.push(condition);
            }
        }
        kept
    }

    /// What it is about.
    pub fn attribute(&self) -> Attribute {
        match self {
            Condition::Is(attribute, _) | Condition::Missing(attribute) | Condition::Range(attribute, ..) => *attribute,
            Condition::InSecond(..) => Attribute::InSecond,
            Condition::InPeriod(..) => Attribute::InPeriod,
        }
    }

    /// The filter that lets exactly these events through; `None` for a text that no filter can hold.
    pub fn filter(&self) -> Option<String> {
        let name = self.attribute().name();
        Some(match self {
            Condition::Is(_, text) if text.contains('\0') => return None,
            Condition::Is(_, text) => format!("{name} = {}", quoted(text)),
            Condition::Missing(_) => format!("not {name} exists"),
            Condition::Range(_, None, None) => format!("{name} exists"),
            Condition::Range(attribute, from, to) => {
                let from = from.map(|from| format!("{name} >= {}", written(*attribute, from)));
                let to = to.map(|to| format!("{name} < {}", written(*attribute, to)));
                let bounds: Vec<String> = from.into_iter().chain(to).collect();
                if bounds.is_empty() { format!("{name} exists") } else { bounds.join(" and ") }
            }
            Condition::InSecond(from, to) if from < to => format!("{name} >= {from} and {name} < {to}"),
            Condition::InSecond(from, to) => format!("({name} >= {from} or {name} < {to})"),
            Condition::InPeriod(period, from, to) => {
                let [period, start, end] = [*period, *from, *to].map(format_duration_exact);
                match from < to {
                    true => format!("{name}[{period}] >= {start} and {name}[{period}] < {end}"),
                    false => format!("({name}[{period}] >= {start} or {name}[{period}] < {end})"),
                }
            }
        })
    }
}

/// The filter that lets through what fulfils all conditions; `None` where one has none.
pub fn filter_of(conditions: &[Condition]) -> Option<String> {
    conditions.iter().map(Condition::filter).collect::<Option<Vec<_>>>().map(|parts| parts.join(" and "))
}

/// A number as a filter has it: exact.
fn written(attribute: Attribute, value: u64) -> String {
    use latscope_event::FieldType::{Bytes, Duration};
    match attribute {
        Attribute::Field(field) if field.field_type() == Duration => format_duration_exact(value),
        Attribute::Field(field) if field.field_type() == Bytes => format_size_exact(value),
        Attribute::Time => format_duration_exact(value),
        _ => value.to_string(),
    }
}

/// A text as a filter has it: bare where nothing in it could be taken for something else, else in quotes.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./:-".contains(c);
    let number = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    if number || text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/') && text.chars().all(is_plain) {
        return text.into();
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii_control() => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_filters() {
        let device = Attribute::Field(Field::Device);
        let size = Attribute::Field(Field::Size);
        for (condition, filter) in [
            (Condition::Is(device, "loop0".into()), "device = loop0"),
            (Condition::Is(device, "254:0".into()), "device = \"254:0\""),
            (Condition::Is(Attribute::Field(Field::Tid), "17".into()), "tid = 17"),
            (Condition::Is(device, "a \"b\"\\\n\u{1}".into()), "device = \"a \\\"b\\\"\\\\\\n\\x01\""),
            (Condition::Missing(device), "not device exists"),
            (Condition::Range(size, None, None), "size exists"),
            (Condition::Range(size, Some(65536), None), "size >= 64KiB"),
            (
                Condition::Range(Attribute::Time, Some(1_500_000_000), Some(2_000_000_000)),
                "evt.reltime >= 1.5s and evt.reltime < 2s",
            ),
            (
                Condition::InPeriod(5_000_000_000, 4_900_000_000, 100_000_000),
                "(evt.phase[5s] >= 4.9s or evt.phase[5s] < 100ms)",
            ),
            (Condition::InSecond(9, 5), "(evt.rawtime.ns >= 9 or evt.rawtime.ns < 5)"),
        ] {
            assert_eq!(condition.filter().as_deref(), Some(filter));
        }
        assert_eq!(filter_of(&[Condition::Is(device, "\0".into())]), None);
    }
}
