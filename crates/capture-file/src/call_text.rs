//! A system call as strace and perf trace print it: `read(3</etc/passwd>, "root"..., 4096) = 832`.
//!
//! Arguments hold anything, so a line is read from its right end, and only the arguments that are asked for are looked at.

use crate::scan::leading_number;
use latscope_event::kernel::{CallShape, FdFrom};
use memchr::{memchr, memmem, memrchr, memrchr_iter};

/// The parts of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallText<'a> {
    /// Name of the call.
    pub name: &'a [u8],
    /// What stands between the parentheses; of a call that has not returned, as far as it was printed.
    pub arguments: &'a [u8],
    /// What stands behind `=`; empty for a call that has not returned.
    pub result: &'a [u8],
}

/// What a call returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Returned<'a> {
    /// The number, where one is printed: -1 for an error that has a name.
    pub value: Option<i64>,
    /// Name of the error.
    pub error: Option<&'a [u8]>,
    /// What a returned descriptor is, as `-y` prints it.
    file: Option<&'a [u8]>,
}

/// What is printed between angle brackets behind a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileText<'a> {
    /// Path, or address of a socket.
    pub path: Option<&'a [u8]>,
    /// As in `Field::FdType`.
    pub fd_type: Option<&'static str>,
}

/// Behind this many arguments nothing is looked for.
const MOST_ARGUMENTS: usize = 8;

impl<'a> CallText<'a> {
    /// A call with its result: `name(arguments) = result`.
    pub fn parse(text: &'a [u8]) -> Option<CallText<'a>> {
        let (front, result) = split_result(text)?;
        let call = CallText::parse_open(front)?;
        Some(CallText { result, ..call })
    }

    /// A call that has not returned: `name(arguments`.
    pub fn parse_open(text: &'a [u8]) -> Option<CallText<'a>> {
        let len = name_len(text);
        (len > 0 && text.get(len) == Some(&b'(')).then(|| CallText {
            name: &text[..len],
            arguments: &text[len + 1..],
            result: &[],
        })
    }

    /// The argument in this place, without the name that perf trace prints before it.
    pub fn argument(&self, at: usize) -> Option<&'a [u8]> {
        let mut rest = self.arguments;
        for _ in 0..at.min(MOST_ARGUMENTS) {
            let end = argument_len(rest);
            rest = rest.get(end + 1..)?;
        }
        let text = rest[..argument_len(rest)].trim_ascii();
        let key = name_len(text);
        let has_key = key > 0 && text.get(key..key + 2) == Some(b": ");
        Some(if has_key { &text[key + 2..] } else { text }).filter(|text| !text.is_empty())
    }

    /// A number in this place; negative ones as the kernel takes them.
    pub fn number(&self, at: usize) -> Option<u64> {
        let text = self.argument(at)?;
        let (number, len) = number(text)?;
        (len == text.len()).then_some(number as u64)
    }

    /// The argument with one of these names, where arguments are named, as perf trace does; it leaves out those that are 0.
    fn named(&self, keys: &[&[u8]]) -> Option<&'a [u8]> {
        let text = self.arguments.trim_ascii_start();
        let len = name_len(text);
        if len == 0 || text.get(len..len + 2) != Some(b": ") {
            return None;
        }
        let mut rest = text;
        for _ in 0..MOST_ARGUMENTS {
            let end = argument_len(rest);
            let argument = rest[..end].trim_ascii();
            let key = name_len(argument);
            if keys.contains(&&argument[..key])
                && let Some(value) = argument[key..].strip_prefix(b": ")
            {
                return Some(value);
            }
            match rest.get(end + 1..) {
                Some(next) => rest = next,
                None => break,
            }
        }
        Some(b"0")
    }

    fn named_number(&self, keys: &[&[u8]], at: usize) -> Option<u64> {
        match self.named(keys) {
            Some(text) => number(text).filter(|&(_, len)| len == text.len()).map(|(number, _)| number as u64),
            None => self.number(at),
        }
    }

    /// The number of bytes, which stands in this place.
    pub fn size(&self, at: usize) -> Option<u64> {
        self.named_number(&[b"count", b"len", b"size", b"nbytes", b"length"], at)
    }

    /// The position in the file, which stands in this place.
    pub fn offset(&self, at: usize) -> Option<u64> {
        self.named_number(&[b"pos", b"offset", b"off", b"pos_l"], at)
    }

    /// The descriptor in the first argument, and what `-y` prints of it.
    pub fn descriptor(&self) -> Option<(i64, Option<&'a [u8]>)> {
        match self.named(&[b"fd", b"fildes", b"oldfd", b"epfd", b"fd_in", b"out_fd", b"fdin", b"dfd", b"sockfd"]) {
            Some(text) => described(text),
            None => described(self.argument(0)?),
        }
    }

    /// Whether the call opens a directory, or is one that works on nothing else.
    pub fn is_of_directory(&self) -> bool {
        let flags = memrchr(b'"', self.arguments).map_or(&b""[..], |at| &self.arguments[at..]);
        matches!(self.name, b"getdents" | b"getdents64" | b"fchdir")
            || self.name.starts_with(b"open") && memmem::find(flags, b"O_DIRECTORY").is_some()
    }

    /// What the call returned.
    pub fn returned(&self) -> Returned<'a> {
        let text = self.result;
        let (value, len) = match number(text) {
            Some((value, len)) => (Some(value), len),
            None if text.starts_with(b"?") => (None, 1),
            None => return Returned::default(),
        };
        let rest = &text[len..];
        let file = rest.first().filter(|&&byte| byte == b'<').and_then(|_| bracketed(rest));
        let word = rest.trim_ascii_start();
        let end = word.iter().take_while(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()).count();
        let is_error = word.starts_with(b"E") && end > 1 && value.is_none_or(|value| value < 0);
        Returned { value, error: is_error.then_some(&word[..end]), file }
    }

    /// The file that the call is about, as far as it is printed; a path that is put together or has escapes is written to
    /// `joined`.
    pub fn file<'b>(&self, shape: &CallShape, joined: &'b mut Vec<u8>) -> FileText<'b>
    where
        'a: 'b,
    {
        match (shape.fd, shape.path) {
            (FdFrom::Argument, _) => {
                self.descriptor().and_then(|(_, text)| text).map(|text| file_text(text, joined)).unwrap_or_default()
            }
            (FdFrom::Result, _) if self.returned().file.is_some() => {
                self.returned().file.map(|text| file_text(text, joined)).unwrap_or_default()
            }
            (_, Some(at)) => self.named_file(at, shape.directory, joined),
            _ => FileText::default(),
        }
    }

    /// The file of a path among the arguments.
    fn named_file<'b>(&self, at: usize, directory: Option<usize>, joined: &'b mut Vec<u8>) -> FileText<'b> {
        let Some(quoted) = self.argument(at).and_then(|text| text.strip_prefix(b"\"")) else {
            return FileText::default();
        };
        joined.clear();
        // The descriptor of a directory, or AT_FDCWD, whose path -y prints, too.
        let start = directory.and_then(|at| {
            let text = self.argument(at)?;
            bracketed(&text[memchr(b'<', text)?..])
        });
        if let Some(start) = start.filter(|start| !quoted.starts_with(b"/") && start.starts_with(b"/")) {
            unescape(start, joined);
            if quoted.first() != Some(&b'"') && joined.last() != Some(&b'/') {
                joined.push(b'/');
            }
        }
        unescape(quoted, joined);
        FileText { path: (!joined.is_empty()).then_some(&joined[..]), fd_type: None }
    }
}

/// Length of the name of a call.
pub fn name_len(text: &[u8]) -> usize {
    let is_first = text.first().is_some_and(|byte| byte.is_ascii_lowercase() || *byte == b'_');
    let is_name = |byte: &&u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || **byte == b'_';
    if is_first { text.iter().take_while(is_name).count() } else { 0 }
}

/// Cuts at the last `) = `, in front of which blanks may fill a column.
fn split_result(text: &[u8]) -> Option<(&[u8], &[u8])> {
    for at in memrchr_iter(b'=', text) {
        let is_sign = text.get(at + 1) == Some(&b' ') && at > 1 && text[at - 1] == b' ';
        if is_sign {
            let front = text[..at].trim_ascii_end();
            if let Some(front) = front.strip_suffix(b")") {
                let result = text[at + 2..].trim_ascii();
                if is_result(result) {
                    return Some((front, result));
                }
            }
        }
    }
    None
}

/// Whether this may be all behind the `=` of a call: a number has brackets, a remark or the name of an error behind it, and no end
/// of brackets that start before it, as in a path that holds the text of a call.
fn is_result(text: &[u8]) -> bool {
    let Some((_, len)) = number(text) else { return true };
    let rest = &text[len..];
    let is_remark = rest.is_empty() || rest[0] == b'<' || matches!(rest, [b' ', b'E' | b'(' | b'<' | b'[', ..]);
    is_remark && (!rest.ends_with(b">") || memchr(b'<', rest).is_some())
}

/// A number, decimal or hexadecimal, and its length.
fn number(text: &[u8]) -> Option<(i64, usize)> {
    if let Some(digits) = text.strip_prefix(b"0x") {
        let len = digits.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let digits = std::str::from_utf8(&digits[..len]).ok()?;
        return Some((u64::from_str_radix(digits, 16).ok()? as i64, 2 + len));
    }
    let (sign, digits) = text.strip_prefix(b"-").map_or((0, text), |digits| (1, digits));
    let (value, len) = leading_number(digits).filter(|&(_, len)| len > 0)?;
    let value = value as i64;
    Some((if sign == 1 { value.wrapping_neg() } else { value }, sign + len))
}

/// A descriptor, and what stands in the brackets behind it.
fn described(text: &[u8]) -> Option<(i64, Option<&[u8]>)> {
    let (fd, len) = number(text)?;
    let file = (text.get(len) == Some(&b'<')).then(|| bracketed(&text[len..])).flatten();
    (len == text.len() || file.is_some()).then_some((fd, file))
}

/// What stands in the angle brackets that the text starts with.
fn bracketed(text: &[u8]) -> Option<&[u8]> {
    let len = bracket_len(text)?;
    Some(&text[1..len - 1])
}

/// Length of the angle brackets that the text starts with. Those in paths are escaped; devices have more of them inside
/// (`</dev/sda<block 8:0>>`), and the two ends of a socket have an arrow between them.
fn bracket_len(text: &[u8]) -> Option<usize> {
    let (mut depth, mut is_socket) = (0u32, false);
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'[' => is_socket = true,
            b'>' if is_socket && text[at - 1] == b'-' => {}
            b'>' if depth == 1 => return Some(at + 1),
            b'>' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Length of the first argument: up to a comma outside of quotes and brackets.
fn argument_len(text: &[u8]) -> usize {
    let (mut at, mut depth, mut has_open) = (0, 0u32, false);
    while at < text.len() {
        match text[at] {
            b'"' => at += quoted_len(&text[at + 1..]),
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            // Not the shift in `1<<4`.
            b'<' if text.get(at + 1) == Some(&b'<') => at += 1,
            // Where one is not closed, no other is looked at: that would cost as much for each.
            b'<' if !has_open => match bracket_len(&text[at..]) {
                Some(len) => at += len - 1,
                None => has_open = true,
            },
            b',' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// Length of a quoted text behind its first quote, with the last one.
fn quoted_len(text: &[u8]) -> usize {
    let mut from = 0;
    while let Some(near) = memchr(b'"', &text[from..]) {
        let at = from + near;
        let backslashes = text[..at].iter().rev().take_while(|&&byte| byte == b'\\').count();
        if backslashes % 2 == 0 {
            return at + 1;
        }
        from = at + 1;
    }
    text.len()
}

/// Appends a text up to its end or an unescaped quote, with the escapes of C resolved.
fn unescape(text: &[u8], to: &mut Vec<u8>) {
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next().filter(|&byte| byte != b'"') {
        if byte != b'\\' {
            to.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'n') => to.push(b'\n'),
            Some(b't') => to.push(b'\t'),
            Some(b'r') => to.push(b'\r'),
            Some(b'v') => to.push(0x0b),
            Some(b'f') => to.push(0x0c),
            Some(digit @ b'0'..=b'7') => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    let Some(digit) = bytes.next_if(|byte| (b'0'..=b'7').contains(byte)) else { break };
                    value = value * 8 + u32::from(digit - b'0');
                }
                to.push(value as u8);
            }
            Some(other) => to.push(other),
            None => {}
        }
    }
}

/// What a descriptor is, from the text in its brackets: a path, `TCP:[...]` and so on.
fn file_text<'b>(text: &[u8], joined: &'b mut Vec<u8>) -> FileText<'b> {
    joined.clear();
    if text.starts_with(b"/") {
        let inner = memchr(b'<', text);
        let fd_type = match inner.map(|at| &text[at..]) {
            Some(inner) if inner.starts_with(b"<char ") => "char",
            Some(inner) if inner.starts_with(b"<block ") => "block",
            _ if text.starts_with(b"/memfd:") => "memfd",
            _ => "file",
        };
        unescape(&text[..inner.unwrap_or(text.len())], joined);
        return FileText { path: Some(joined), fd_type: Some(fd_type) };
    }
    let kind_len = memchr(b':', text).unwrap_or(text.len());
    let (kind, rest) = text.split_at(kind_len);
    let inner = rest.strip_prefix(b":[").and_then(|rest| rest.strip_suffix(b"]")).unwrap_or_default();
    let fd_type = match kind {
        b"TCP" | b"UDP" | b"UDPLITE" | b"RAW" | b"PING" | b"SCTP" | b"DCCP" => "ipv4",
        b"TCPv6" | b"UDPv6" | b"UDPLITEv6" | b"RAWv6" | b"PINGv6" | b"SCTPv6" | b"DCCPv6" => "ipv6",
        b"NETLINK" => "netlink",
        b"pipe" => {
            joined.extend_from_slice(text);
            return FileText { path: Some(joined), fd_type: Some("pipe") };
        }
        b"socket" => "socket",
        b"anon_inode" => return FileText { path: None, fd_type: anonymous(rest) },
        _ if kind.starts_with(b"UNIX") => "unix",
        _ => return FileText::default(),
    };
    match fd_type {
        "ipv4" | "ipv6" if !inner.iter().all(u8::is_ascii_digit) => joined.extend_from_slice(inner),
        "unix" => {
            if let Some(at) = memmem::find(inner, b"\"") {
                unescape(&inner[at + 1..], joined);
            }
        }
        _ => {}
    }
    FileText { path: (!joined.is_empty()).then_some(&joined[..]), fd_type: Some(fd_type) }
}

/// What `anon_inode:[eventfd]` or `anon_inode:inotify` is.
fn anonymous(text: &[u8]) -> Option<&'static str> {
    let is = |word: &[u8]| memmem::find(text, word).is_some();
    let kinds: [(&[u8], &str); 6] = [
        (b"eventpoll", "eventpoll"),
        (b"eventfd", "event"),
        (b"timerfd", "timerfd"),
        (b"signalfd", "signalfd"),
        (b"inotify", "inotify"),
        (b"io_uring", "io_uring"),
    ];
    kinds.iter().find(|(word, _)| is(word)).map(|&(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_event::kernel::call_shape;

    fn call(text: &str) -> CallText<'_> {
        CallText::parse(text.as_bytes()).unwrap()
    }

    fn file(text: &str) -> (Option<String>, Option<&'static str>) {
        let call = CallText::parse(text.as_bytes()).unwrap_or_else(|| CallText::parse_open(text.as_bytes()).unwrap());
        let mut joined = Vec::new();
        let file = call.file(&call_shape(call.name), &mut joined);
        (file.path.map(|path| String::from_utf8_lossy(path).into_owned()), file.fd_type)
    }

    #[test]
    fn calls_are_cut_from_the_right() {
        let read = call(r#"read(3</a) = 7>, "x) = 5 \"", 832) = 832"#);
        assert_eq!((read.name, read.result), (&b"read"[..], &b"832"[..]));
        assert_eq!(read.number(2), Some(832));
        assert_eq!(read.descriptor(), Some((3, Some(&b"/a) = 7"[..]))));
        let open = call(r#"openat(AT_FDCWD</a>, "p) = 5 <0.1>", O_RDONLY) = 3</a/p) = 5 \0740.1\76>"#);
        assert_eq!((open.returned().value, open.number(0)), (Some(3), None));
        let read = call("read(buf: 0x55, count: 4096) = 7");
        assert_eq!((read.descriptor(), read.size(2), read.offset(3)), (Some((0, None)), Some(4096), Some(0)));
        let read = call("pread64(fd: 3</x>, buf: 0x55, count: 4096, pos: 512) = 7");
        assert_eq!(
            (read.descriptor(), read.size(2), read.offset(3)),
            (Some((3, Some(&b"/x"[..]))), Some(4096), Some(512))
        );
        assert_eq!(call("close(3)        = 0").returned().value, Some(0));
        assert_eq!(call("poll([{fd=3}], 1, 5) = 1 ([{fd=3, revents=POLLIN}])").returned().value, Some(1));
        let failed = call("openat(AT_FDCWD, \"x\", O_RDONLY) = -1 ENOENT (No such file or directory)").returned();
        assert_eq!((failed.value, failed.error), (Some(-1), Some(&b"ENOENT"[..])));
        let again = call("read(0, \"\", 1) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)").returned();
        assert_eq!((again.value, again.error), (None, Some(&b"ERESTARTSYS"[..])));
        assert_eq!(call("exit_group(0)     = ?").returned(), Returned::default());
        assert_eq!(call("mmap(NULL, 8192) = 0x7fbed6aa8000").returned().value, Some(0x7fbed6aa8000));
        for text in ["read(3", "= 3", "read = 3", "(3) = 3", "READ(3) = 3", "", "int x = f(3) = 3"] {
            assert_eq!(CallText::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn arguments_are_found_behind_anything() {
        let write = call(r#"pwrite64(3, "a,b\",(\\", 4096, 8192) = 4096"#);
        assert_eq!((write.number(2), write.number(3), write.number(4)), (Some(4096), Some(8192), None));
        let perf = call("read(fd: 4, buf: 0x7ffe37a20828, count: 832)                          = 832");
        assert_eq!((perf.descriptor(), perf.number(2)), (Some((4, None)), Some(832)));
        let nested = call("fallocate(3</a,b>, FALLOC_FL_KEEP_SIZE|1<<4, {a=1, b=[2, 3]}, 77) = 0");
        assert_eq!(nested.number(3), Some(77));
        assert_eq!(call("f(<<<<<<) = 0").argument(3), None);
    }

    #[test]
    fn files_are_named_as_far_as_they_are_printed() {
        for (text, path, fd_type) in [
            (r#"read(3</etc/a b>, "", 1) = 0"#, Some("/etc/a b"), Some("file")),
            (r#"write(1</dev/pts/0<char 136:0>>, "x", 1) = 1"#, Some("/dev/pts/0"), Some("char")),
            (r#"pread64(4</dev/vda<block 254:0>>, ""..., 4096, 0) = 4096"#, Some("/dev/vda"), Some("block")),
            (r#"read(3<pipe:[123]>, "", 1) = 0"#, Some("pipe:[123]"), Some("pipe")),
            (r#"read(3<socket:[123]>, "", 1) = 0"#, None, Some("socket")),
            (
                r#"write(5<TCP:[127.0.0.1:5->127.0.0.1:80]>, "x", 1) = 1"#,
                Some("127.0.0.1:5->127.0.0.1:80"),
                Some("ipv4"),
            ),
            (r#"write(5<TCPv6:[[::1]:5->[::1]:80]>, "x", 1) = 1"#, Some("[::1]:5->[::1]:80"), Some("ipv6")),
            (r#"write(5<UNIX-STREAM:[1->2,"/run/x"]>, "x", 1) = 1"#, Some("/run/x"), Some("unix")),
            (r#"read(5<anon_inode:[eventfd]>, "x", 8) = 8"#, None, Some("event")),
            (r#"read(3, "", 1) = 0"#, None, None),
            (r#"openat(AT_FDCWD</w>, "a\"\303\244\n", O_RDONLY) = 3</w/other>"#, Some("/w/other"), Some("file")),
            (r#"openat(AT_FDCWD</w>, "a\"\303\244\n", O_RDONLY) = 3"#, Some("/w/a\"ä\n"), None),
            (r#"openat(AT_FDCWD, "a", O_RDONLY) = -1 ENOENT (No such file)"#, Some("a"), None),
            (r#"openat(AT_FDCWD</w>, "/abs", O_RDONLY"#, Some("/abs"), None),
            (r#"newfstatat(3</etc/x>, "", {}, AT_EMPTY_PATH) = 0"#, Some("/etc/x"), None),
            (r#"symlink("target", "/link") = 0"#, Some("/link"), None),
            ("openat(dfd: CWD, filename: 0x813b20b1, flags: RDONLY|CLOEXEC)         = 4", None, None),
            (r#"openat(dfd: CWD, filename: "/etc/x", flags: RDONLY)         = 4"#, Some("/etc/x"), None),
            ("fsync(3</a\\74b\\76>) = 0", Some("/a<b>"), Some("file")),
            ("fsync(3</never closed) = 0", None, None),
        ] {
            assert_eq!(file(text), (path.map(str::to_string), fd_type), "{text}");
        }
    }
}
