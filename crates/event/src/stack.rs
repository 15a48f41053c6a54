//! Call stacks as text, as the folded format of flame graphs has them: frames from the outermost to the innermost with a
//! semicolon between. A suffix says where code ran that is not the program's own (`_[k]` kernel, `_[j]` compiled at run
//! time, `_[i]` inlined), as `stackcollapse-perf.pl --all` writes it.

use std::borrow::Cow;

/// What stands for a missing stack in files of stacks.
pub const NO_STACK: &str = "[no stack]";

/// Where the code of a frame comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FrameKind {
    /// The program and its libraries.
    User,
    /// The kernel.
    Kernel,
    /// Compiled at run time.
    Jit,
    /// Inlined into the frame before it.
    Inlined,
    /// A function of Python, `py::NAME:FILE` as the interpreter names it for perf.
    Python,
}

impl FrameKind {
    /// What follows the name in the text of a stack.
    pub fn suffix(self) -> &'static str {
        match self {
            FrameKind::User | FrameKind::Python => "",
            FrameKind::Kernel => "_[k]",
            FrameKind::Jit => "_[j]",
            FrameKind::Inlined => "_[i]",
        }
    }
}

/// A frame of a stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Frame<'a> {
    /// The name without its suffix.
    pub name: &'a str,
    /// Where its code comes from.
    pub kind: FrameKind,
}

impl<'a> Frame<'a> {
    /// The frame of this part of a stack's text.
    pub fn parse(text: &'a str) -> Frame<'a> {
        for kind in [FrameKind::Kernel, FrameKind::Jit, FrameKind::Inlined] {
            if let Some(name) = text.strip_suffix(kind.suffix()) {
                return Frame { name, kind };
            }
        }
        let kind = if text.starts_with("py::") { FrameKind::Python } else { FrameKind::User };
        Frame { name: text, kind }
    }
}

/// Names longer than this are cut: nobody reads them, and a hostile symbol table may have megabytes.
const LONGEST_NAME: usize = 1024;
/// The bytes of the mark behind a name that was cut: `…#` and a number of 16 digits.
const CUT_MARK: usize = 20;

/// A name of at most a kilobyte: of a longer one its start, and a number that distinguishes it from others that start alike.
pub fn bounded_name(name: &str) -> Cow<'_, str> {
    if name.len() <= LONGEST_NAME {
        return Cow::Borrowed(name);
    }
    let end = (0..=LONGEST_NAME - CUT_MARK).rev().find(|&at| name.is_char_boundary(at)).unwrap_or(0);
    Cow::Owned(format!("{}…#{:016x}", &name[..end], stack_hash(name)))
}

/// The text of a frame with a [`bounded_name`] and its suffix.
pub fn bounded_frame(text: &str) -> Cow<'_, str> {
    let frame = Frame::parse(text);
    match bounded_name(frame.name) {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        Cow::Owned(name) => Cow::Owned(name + frame.kind.suffix()),
    }
}

/// The frames of a stack's text, the outermost first.
pub fn frames(stack: &str) -> impl DoubleEndedIterator<Item = Frame<'_>> {
    stack.split(';').filter(|text| !text.is_empty()).map(Frame::parse)
}

/// Adds a frame at the inner end of a stack's text. What would break the text is replaced, as the collapse scripts do it:
/// semicolons by colons, control characters by spaces; names over a kilobyte are cut, see
/// [`bounded_name`].
pub fn push_frame(stack: &mut String, name: &str, kind: FrameKind) {
    if !stack.is_empty() {
        stack.push(';');
    }
    let before = stack.len();
    for letter in bounded_name(name.trim()).chars() {
        stack.push(match letter {
            ';' => ':',
            letter if letter.is_control() => ' ',
            letter => letter,
        });
    }
    if stack.len() == before {
        stack.push_str("[unknown]");
    }
    // What stands for the kind of a frame is no part of a name.
    let marks = [FrameKind::Kernel, FrameKind::Jit, FrameKind::Inlined].map(FrameKind::suffix);
    if marks.iter().any(|mark| stack[before..].ends_with(mark)) {
        stack.pop();
        stack.push(')');
    }
    stack.push_str(kind.suffix());
}

/// A number for a stack that is the same on every host and in every run, FNV-1a of its text: names and offsets in modules
/// are in it, addresses are not.
pub fn stack_hash(stack: &str) -> u64 {
    stack.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_as_they_were_pushed() {
        let mut stack = String::new();
        push_frame(&mut stack, "main", FrameKind::User);
        push_frame(&mut stack, "py::scan:/srv/a b.py", FrameKind::Python);
        push_frame(&mut stack, "Ljava/lang/String;::x", FrameKind::Jit);
        push_frame(&mut stack, "io_schedule", FrameKind::Kernel);
        assert_eq!(stack, "main;py::scan:/srv/a b.py;Ljava/lang/String:::x_[j];io_schedule_[k]");
        let kinds: Vec<_> = frames(&stack).map(|frame| (frame.name, frame.kind)).collect();
        assert_eq!(kinds[1], ("py::scan:/srv/a b.py", FrameKind::Python));
        assert_eq!(kinds[3], ("io_schedule", FrameKind::Kernel));
    }

    #[test]
    fn hostile_names_stay_one_frame_of_bounded_length() {
        let mut stack = String::new();
        push_frame(&mut stack, &"\n;é".repeat(100_000), FrameKind::User);
        push_frame(&mut stack, "  ", FrameKind::Kernel);
        assert!(stack.len() < 1100, "{}", stack.len());
        assert_eq!(frames(&stack).count(), 2);
        assert_eq!(frames(&stack).next_back().unwrap().name, "[unknown]");
        for mark in ["_[k]", "_[j]", "_[i]"] {
            let mut stack = String::new();
            push_frame(&mut stack, &format!("tail{mark}"), FrameKind::User);
            push_frame(&mut stack, &format!("tail{mark}"), FrameKind::Kernel);
            let kinds: Vec<FrameKind> = frames(&stack).map(|frame| frame.kind).collect();
            assert_eq!(kinds, [FrameKind::User, FrameKind::Kernel], "{stack}");
        }
    }

    #[test]
    fn names_that_start_alike_stay_apart() {
        let names = ["a", "b"].map(|end| "L".repeat(5000) + end);
        let cut = [&names[0], &names[1]].map(|name| bounded_name(name).into_owned());
        assert!(cut[0] != cut[1] && cut.iter().all(|name| name.len() <= LONGEST_NAME), "{cut:?}");
        assert!(cut[0].ends_with(&format!("L…#{:016x}", stack_hash(&names[0]))), "{}", cut[0]);
        // What was cut is not cut again, nor is its suffix.
        let mut stack = String::new();
        push_frame(&mut stack, &names[0], FrameKind::Kernel);
        assert_eq!(stack, format!("{}_[k]", cut[0]));
        assert_eq!(bounded_frame(&stack), stack);
        assert_eq!(bounded_frame(&format!("{}_[k]", names[0])), stack);
        let whole = "é".repeat(LONGEST_NAME / 2);
        assert_eq!(bounded_name(&whole), whole);
    }

    /// Vectors of FNV-1a as published by its authors.
    #[test]
    fn hashes_are_those_of_fnv() {
        assert_eq!(stack_hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(stack_hash("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(stack_hash("foobar"), 0x8594_4171_f739_67e8);
    }
}
