//! The table of calls that strace prints at the end with `-C`, and alone with `-c`.

/// The headings of its columns, of which `-U` chooses some.
const HEADINGS: [&[u8]; 9] =
    [b"%", b"time", b"seconds", b"usecs/call", b"calls", b"errors", b"syscall", b"shortest", b"longest"];

/// Whether a line has the headings of the table.
pub fn is_heading(line: &[u8]) -> bool {
    let mut words = line.split(|&byte| byte == b' ').map(<[u8]>::trim_ascii).filter(|word| !word.is_empty()).peekable();
    let has_columns = line.windows(7).any(|word| word == b"syscall") || line.windows(5).any(|word| word == b"calls");
    has_columns && words.peek().is_some() && words.all(|word| HEADINGS.contains(&word))
}

/// Follows the lines of a trace through its tables.
#[derive(Default)]
pub struct Tables {
    is_inside: bool,
}

impl Tables {
    /// Whether the next line, which is no call, belongs to a table.
    pub fn has(&mut self, line: &[u8]) -> bool {
        if is_heading(line) {
            self.is_inside = true;
            return true;
        }
        // The line of sums ends it.
        let is_row = self.is_inside;
        self.is_inside &= !line.trim_ascii_end().ends_with(b" total");
        is_row
    }

    /// A call follows.
    pub fn leave(&mut self) {
        self.is_inside = false;
    }
}
