//! Texts of a process, as codes of those that are asked for.

use latscope_event::{Batch, Field, FieldSet, MISSING_CODE};

/// Texts of a process as codes of the trace.
#[derive(Clone, Copy)]
pub struct Codes {
    pub comm: u32,
    pub exe: u32,
    pub exe_path: u32,
    pub args: u32,
    pub cmdline: u32,
    pub cwd: u32,
    pub container: u32,
}

/// Where nothing is known.
pub const NO_CODES: Codes = Codes {
    comm: MISSING_CODE,
    exe: MISSING_CODE,
    exe_path: MISSING_CODE,
    args: MISSING_CODE,
    cmdline: MISSING_CODE,
    cwd: MISSING_CODE,
    container: MISSING_CODE,
};

/// Texts of a process; those that are not known are empty.
pub struct Texts<'a> {
    pub comm: &'a [u8],
    pub exe: &'a [u8],
    pub exe_path: &'a [u8],
    /// Each with a NUL behind it.
    pub args: &'a [u8],
    pub cwd: &'a [u8],
    /// Each with a NUL behind it.
    pub cgroups: &'a [u8],
}

/// The code of a text, if its field is kept.
pub fn code(fields: FieldSet, batch: &mut Batch, field: Field, text: &[u8]) -> u32 {
    if fields.contains(field) && !text.is_empty() { batch.intern(field, text) } else { MISSING_CODE }
}

/// Texts with a NUL behind each as words.
fn words(texts: &[u8]) -> Vec<u8> {
    let texts = texts.strip_suffix(b"\0").unwrap_or(texts);
    texts.iter().map(|&byte| if byte == 0 { b' ' } else { byte }).collect()
}

/// Codes of the texts of a process, of those that are asked for.
pub fn describe(fields: FieldSet, batch: &mut Batch, texts: &Texts) -> Codes {
    let Texts { comm, exe, exe_path, args, cwd, cgroups } = *texts;
    let mut codes = Codes {
        comm: code(fields, batch, Field::Comm, comm),
        exe: code(fields, batch, Field::Exe, exe),
        exe_path: code(fields, batch, Field::ExePath, exe_path),
        cwd: code(fields, batch, Field::Cwd, cwd),
        ..NO_CODES
    };
    if fields.contains(Field::Args) || fields.contains(Field::Cmdline) {
        let args = words(args);
        codes.args = code(fields, batch, Field::Args, &args);
        let line = if args.is_empty() { comm.to_vec() } else { [comm, b" ", &args].concat() };
        codes.cmdline = code(fields, batch, Field::Cmdline, &line);
    }
    if fields.contains(Field::Container) && !cgroups.is_empty() {
        codes.container = batch.intern(Field::Container, container(cgroups));
    }
    codes
}

/// The identifier of the container whose control groups these are, as `container.id` has it: the first 12 digits; `host` outside
/// of containers.
fn container(cgroups: &[u8]) -> &[u8] {
    let paths = cgroups.split(|&byte| byte == 0).filter_map(|group| group.splitn(2, |&byte| byte == b'=').nth(1));
    for path in paths {
        for part in path.rsplit(|&byte| byte == b'/') {
            // `docker-<id>.scope`, `cri-containerd-<id>.scope`, `<id>`.
            let id = part.strip_suffix(b".scope").unwrap_or(part);
            let id = id.rsplit(|&byte| byte == b'-').next().unwrap_or_default();
            if id.len() == 64 && id.iter().all(u8::is_ascii_hexdigit) {
                return &id[..12];
            }
        }
        if let Some(at) = memchr::memmem::find(path, b"/lxc/") {
            let name = path[at + 5..].split(|&byte| byte == b'/').next().unwrap_or_default();
            if !name.is_empty() {
                return name;
            }
        }
    }
    b"host"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_found_in_control_groups() {
        let id = "0123456789abcdef".repeat(4);
        for (groups, found) in [
            (format!("cpu=/docker/{id}\0memory=/docker/{id}\0"), "0123456789ab"),
            (format!("cpu=/kubepods/pod1/cri-containerd-{id}.scope\0"), "0123456789ab"),
            ("cpu=/\0memory=/lxc/web/ns\0".into(), "web"),
            ("cpu=/user.slice\0memory=/\0".into(), "host"),
        ] {
            assert_eq!(container(groups.as_bytes()), found.as_bytes(), "{groups}");
        }
    }
}
