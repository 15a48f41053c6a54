//! Which calls are written with parameters, and which parameters these are, from the table beside this file.

use super::event_types::EventTypes;

const TABLE: &str = include_str!("written_calls.tsv");
/// Calls with a larger number, which sysdig 0.29.3 does not know and does not survive, have no name.
const NUMBERS_KNOWN: u16 = 320;

/// How a call is written.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Of its start; that of its return is one more.
    pub code: u16,
    /// The parameters of its start and of its return, in words of the table; `None` for a call that has only a number.
    params: Option<(&'static str, &'static str)>,
    /// The number of a call without a type of its own.
    pub number: u16,
    /// Whether it makes the descriptor that it is about.
    pub makes_fd: bool,
}

impl Shape {
    /// The shape of a call, by the name that the kernel or sysdig has for it.
    pub fn find(name: &str, types: &EventTypes) -> Shape {
        let makes_fd = matches!(
            name,
            "open"
                | "openat"
                | "openat2"
                | "creat"
                | "socket"
                | "accept"
                | "accept4"
                | "eventfd"
                | "eventfd2"
                | "signalfd"
                | "signalfd4"
                | "timerfd_create"
                | "inotify_init"
                | "inotify_init1"
                | "userfaultfd"
        );
        let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
        let found = lines.map(|line| line.split('\t')).find_map(|mut columns| {
            let is_it = columns.next()?.split(',').any(|known| known == name);
            is_it.then_some((columns.next()?.parse().ok()?, columns.next()?, columns.next()?))
        });
        let number = types.number(name).filter(|&number| number <= NUMBERS_KNOWN).unwrap_or(0);
        match found {
            Some((code, start, end)) => Shape { code, params: Some((start, end)), number, makes_fd },
            None => Shape { code: 0, params: None, number, makes_fd: false },
        }
    }

    /// As a call that has only a number: what it returned is not known. Of some calls there is no such form.
    pub fn without_result(self) -> Shape {
        if self.number > 0 { Shape { code: 0, params: None, ..self } } else { self }
    }

    /// The words for the parameters of its start, or of its return.
    pub fn params(&self, is_start: bool) -> impl Iterator<Item = &'static str> + use<> {
        let (start, end) = self.params.unwrap_or(("number number", "number"));
        if is_start { start } else { end }.split_ascii_whitespace()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_the_table_are_those_of_the_types() {
        let types = EventTypes::get();
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let columns: Vec<&str> = line.split('\t').collect();
            let [names, code, start, end] = columns[..] else { panic!("{line}") };
            let code: u16 = code.parse().unwrap();
            let first = types.event(code).or(types.event(code + 1)).expect(line);
            assert!(names.split(',').any(|name| name.starts_with(first.name)) || first.name == "accept", "{line}");
            for (code, params) in [(code, start), (code + 1, end)] {
                // Later versions have more of them.
                let count = params.split_ascii_whitespace().count();
                assert!(types.event(code).is_none_or(|kind| count <= kind.params()), "{line}: {count}");
            }
        }
        assert_eq!(Shape::find("fsync", types).params(true).collect::<Vec<_>>(), ["number", "number"]);
        assert_eq!(Shape::find("pwrite64", types).code, 114);
    }
}
