//! What the process of an event is: the programs describe it once, in front of its first event (`bpf/about.h`).

mod accounts;

use crate::fd::Expected;
use crate::loader::Raw;
use crate::texts::{ABOUT_ARGUMENTS, About, named};
use accounts::Accounts;
use latscope_event::{Batch, Field, FieldSet, MISSING_CODE};
use std::collections::HashMap;

/// So many descriptions are kept twice over: those in use stay, older ones go.
const KEPT: usize = 1 << 15;

/// Descriptions of processes, by their number.
pub struct Processes {
    is_wanted: bool,
    young: HashMap<u32, Described>,
    old: HashMap<u32, Described>,
    /// Of processes that the programs have not described, by process; they may be gone any time.
    asked: HashMap<u32, Option<Described>>,
    /// Codes of command lines, by the name of the process and the code of its arguments.
    lines: HashMap<(Box<[u8]>, u32), u32>,
    accounts: Accounts,
    /// Events whose process is not known.
    pub unknown: u64,
}

/// A process, as codes of the batch.
#[derive(Clone, Copy)]
struct Described {
    ppid: u32,
    uid: u32,
    gid: u32,
    exe: u32,
    exe_path: u32,
    args: u32,
    cwd: u32,
    parent: u32,
    user: u32,
    group: u32,
}

/// What is known of a process, before it has codes.
#[derive(Default)]
struct Facts<'a> {
    ppid: u32,
    uid: u32,
    gid: u32,
    parent: &'a [u8],
    /// Each with a zero behind it.
    arguments: &'a [u8],
    exe_path: Option<&'a [u8]>,
    cwd: Option<&'a [u8]>,
}

impl Processes {
    /// For rows with these fields.
    pub fn new(fields: FieldSet) -> Processes {
        Processes {
            is_wanted: is_wanted(fields),
            young: HashMap::new(),
            old: HashMap::new(),
            asked: HashMap::new(),
            lines: HashMap::new(),
            accounts: Accounts::default(),
            unknown: 0,
        }
    }

    /// Takes in the description of a process, the texts of a record.
    pub fn learn(&mut self, pid: u32, texts: &[u8], batch: &mut Batch) {
        if texts.len() < About::SIZE {
            return;
        }
        let about = About::read(texts);
        let mut rest = &texts[About::SIZE..];
        let mut take = |len: u16| {
            let (taken, next) = rest.split_at(rest.len().min(len.into()));
            rest = next;
            taken
        };
        let (arguments, executable, directory) =
            (take(about.arguments_len), take(about.executable_len), take(about.directory_len));
        let (mut exe_path, mut cwd) = (Vec::new(), Vec::new());
        let facts = Facts {
            ppid: about.ppid,
            uid: about.uid,
            gid: about.gid,
            parent: until_nul(&about.parent),
            arguments,
            exe_path: path(executable, about.executable_named, &mut exe_path),
            cwd: path(directory, about.directory_named, &mut cwd),
        };
        // A command line that is paged out, or longer than the programs read, is asked for while the process lives.
        let asked = match arguments.len() {
            0 | ABOUT_ARGUMENTS if !executable.is_empty() => std::fs::read(format!("/proc/{pid}/cmdline")).ok(),
            _ => None,
        };
        let arguments = asked.as_deref().filter(|asked| asked.starts_with(facts.arguments)).unwrap_or(facts.arguments);
        let described = self.describe(&Facts { arguments, ..facts }, batch);
        if self.young.len() >= KEPT {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(about.number, described);
    }

    /// Appends the columns of the process with this description, whose name is `process`.
    pub fn push(&mut self, number: u32, pid: u32, process: &[u8], batch: &mut Batch) {
        if !self.is_wanted {
            return;
        }
        let Some(of) = self.find(number, pid, batch) else {
            self.unknown += 1;
            return;
        };
        for (field, value) in [(Field::Ppid, of.ppid), (Field::Uid, of.uid), (Field::Gid, of.gid)] {
            batch.push_i64(field, i64::from(value));
        }
        for (field, code) in [
            (Field::Exe, of.exe),
            (Field::ExePath, of.exe_path),
            (Field::Args, of.args),
            (Field::Cwd, of.cwd),
            (Field::Parent, of.parent),
            (Field::User, of.user),
            (Field::Group, of.group),
        ] {
            batch.push_code(field, code);
        }
        if batch.fields().contains(Field::Cmdline) {
            let line = self.line(process, of.args, batch);
            batch.push_code(Field::Cmdline, line);
        }
    }

    /// The code of a command line.
    fn line(&mut self, process: &[u8], args: u32, batch: &mut Batch) -> u32 {
        if process.is_empty() {
            return MISSING_CODE;
        }
        if self.lines.len() >= KEPT {
            self.lines.clear();
        }
        *self.lines.entry((process.into(), args)).or_insert_with(|| {
            let mut line = process.to_vec();
            if let Some(args) = batch.dictionary(Field::Args).text(args) {
                line.push(b' ');
                line.extend_from_slice(args.as_bytes());
            }
            batch.intern(Field::Cmdline, &line)
        })
    }

    fn find(&mut self, number: u32, pid: u32, batch: &mut Batch) -> Option<Described> {
        if let Some(&described) = self.young.get(&number) {
            return Some(described);
        }
        if let Some(&described) = self.old.get(&number) {
            self.young.insert(number, described);
            return Some(described);
        }
        if let Some(&asked) = self.asked.get(&pid) {
            return asked;
        }
        let described = self.ask(pid, batch);
        self.asked.insert(pid, described);
        described
    }

    /// Asks `/proc` about a process that lives.
    fn ask(&mut self, pid: u32, batch: &mut Batch) -> Option<Described> {
        let folder = format!("/proc/{pid}");
        let status = std::fs::read_to_string(format!("{folder}/status")).ok()?;
        let number = |key: &str, at: usize| -> Option<u32> {
            status.lines().find_map(|line| line.strip_prefix(key))?.split_whitespace().nth(at)?.parse().ok()
        };
        let ppid = number("PPid:", 0)?;
        let parent = std::fs::read_to_string(format!("/proc/{ppid}/comm")).unwrap_or_default();
        let arguments = std::fs::read(format!("{folder}/cmdline")).unwrap_or_default();
        let link = |name: &str| {
            Some(std::fs::read_link(format!("{folder}/{name}")).ok()?.into_os_string().into_encoded_bytes())
        };
        let (exe_path, cwd) = (link("exe"), link("cwd"));
        let facts = Facts {
            ppid,
            uid: number("Uid:", 1)?,
            gid: number("Gid:", 1)?,
            parent: parent.trim_end().as_bytes(),
            arguments: &arguments,
            exe_path: exe_path.as_deref(),
            cwd: cwd.as_deref(),
        };
        Some(self.describe(&facts, batch))
    }

    fn describe(&mut self, facts: &Facts, batch: &mut Batch) -> Described {
        let mut arguments = facts.arguments.strip_suffix(b"\0").unwrap_or(facts.arguments).split(|&byte| byte == 0);
        let exe = arguments.next().filter(|exe| !exe.is_empty());
        let args = arguments.collect::<Vec<_>>().join(&b' ');
        let mut code = |field: Field, text: Option<&[u8]>| text.map_or(MISSING_CODE, |text| batch.intern(field, text));
        let args = code(Field::Args, Some(&args[..]).filter(|args| !args.is_empty()));
        Described {
            ppid: facts.ppid,
            uid: facts.uid,
            gid: facts.gid,
            exe: code(Field::Exe, exe),
            exe_path: code(Field::ExePath, facts.exe_path),
            args,
            cwd: code(Field::Cwd, facts.cwd),
            parent: code(Field::Parent, Some(facts.parent).filter(|parent| !parent.is_empty())),
            user: code(Field::User, self.accounts.user(facts.uid).as_deref().map(str::as_bytes)),
            group: code(Field::Group, self.accounts.group(facts.gid).as_deref().map(str::as_bytes)),
        }
    }

    /// Processes that were asked about may be others by now.
    pub fn forget(&mut self) {
        self.asked.clear();
        self.accounts.forget();
    }
}

/// Whether descriptions of processes are needed for these fields.
pub fn is_wanted(fields: FieldSet) -> bool {
    fields.intersection(FieldSet::OF_PROCESS) != FieldSet::default()
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or(&[])
}

/// A path from the names on the way up; `None` where it is missing or unknown.
fn path<'a>(names: &[u8], bits: u8, to: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    if bits & named::UNKNOWN != 0 || bits & (named::FILE | named::PSEUDO) == 0 {
        return None;
    }
    Expected { given: &[], names, deleted: bits & (named::DELETED | named::PSEUDO) != 0 }.path(to);
    Some(to)
}

#[cfg(test)]
mod tests;
