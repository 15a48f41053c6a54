//! Paths, put together from the names that the kernel side found.

/// What the kernel reported of a name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected<'a> {
    /// The path as the program gave it, which ends at the first zero; empty when a descriptor was given.
    pub given: &'a [u8],
    /// Names on the way up from the file, or from the directory in which `given` starts, with a slash behind each.
    pub names: &'a [u8],
    /// The file is in no directory any more.
    pub deleted: bool,
}

impl Expected<'_> {
    /// Writes the absolute path.
    ///
    /// `.` and empty names of a given path are left out. `..` is resolved only at its start, where the directory above is
    /// known: behind a name that may be a symbolic link it stays as it is.
    pub fn path(&self, to: &mut Vec<u8>) {
        to.clear();
        let given = self.given.split(|&byte| byte == 0).next().unwrap_or(&[]);
        let mut parts = given.split(|&byte| byte == b'/').filter(|part| !matches!(*part, b"" | b".")).peekable();
        let mut above = self.names.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
        let absolute = given.first() == Some(&b'/');
        while parts.next_if(|part| *part == b"..").is_some() {
            if !absolute {
                above.next();
            }
        }
        for name in above.rev().chain(parts) {
            to.push(b'/');
            to.extend_from_slice(name);
        }
        if to.is_empty() {
            to.push(b'/');
        }
        if self.deleted && given.is_empty() {
            to.extend_from_slice(b" (deleted)");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(given: &str, names: &str) -> String {
        let mut to = Vec::new();
        Expected { given: given.as_bytes(), names: names.as_bytes(), deleted: false }.path(&mut to);
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn names_are_turned_round() {
        assert_eq!(path("", "c/b/a/"), "/a/b/c");
        assert_eq!(path("", ""), "/");
    }

    #[test]
    fn a_given_path_starts_where_it_says() {
        for (given, names, expected) in [
            ("x\0", "b/a/", "/a/b/x"),
            ("./x//y/.\0rest", "b/a/", "/a/b/x/y"),
            ("../x", "b/a/", "/a/x"),
            ("../../../x", "b/a/", "/x"),
            ("x/../y", "b/a/", "/a/b/x/../y"),
            (".", "b/a/", "/a/b"),
            ("/x/y/", "", "/x/y"),
            ("/../x", "jail/", "/jail/x"),
            ("/", "", "/"),
        ] {
            assert_eq!(path(given, names), expected, "{given} {names}");
        }
    }

    #[test]
    fn a_deleted_file_says_so_but_not_what_is_below_a_directory() {
        let mut to = Vec::new();
        Expected { given: b"", names: b"b/a/", deleted: true }.path(&mut to);
        assert_eq!(to, b"/a/b (deleted)");
        Expected { given: b"c\0", names: b"b/a/", deleted: true }.path(&mut to);
        assert_eq!(to, b"/a/b/c");
    }
}
