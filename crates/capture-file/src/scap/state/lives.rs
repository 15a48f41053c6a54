//! How processes and threads come about: by clone and exec.

use super::{FDS_LIMIT, Open, State, Thread, flags, id, number};
use crate::scap::bytes::until_nul;
use crate::scap::event::Event;
use crate::scap::event_types::EventType;
use crate::scap::process::{Texts, describe};
use latscope_event::{Batch, MISSING_CODE, MISSING_I64};
use std::rc::Rc;

/// In the flags of a clone: the child is a thread of its parent's process.
const CLONE_THREAD: u64 = 1 << 13;

impl State {
    /// An exec returned: what its event describes replaces what was known.
    pub(super) fn executed(&mut self, event: &Event, kind: &EventType, open: Option<&Open>, batch: &mut Batch) {
        let mut new = self.described(event, kind, batch);
        if new.codes.exe_path == MISSING_CODE {
            new.codes.exe_path = open.and_then(|open| u32::try_from(open.extra).ok()).unwrap_or(MISSING_CODE);
        }
        let thread = self.thread(event.tid);
        if new.cwd.is_empty() {
            (new.cwd, new.codes.cwd) = (Rc::clone(&thread.cwd), thread.codes.cwd);
        }
        if new.codes.container == MISSING_CODE {
            new.codes.container = thread.codes.container;
        }
        (thread.codes, thread.cwd) = (new.codes, new.cwd);
        thread.written = MISSING_I64;
        // Events of exec do not carry all of these, and some are of another time.
        for (own, new) in [
            (&mut thread.pid, new.pid),
            (&mut thread.ptid, new.ptid),
            (&mut thread.uid, new.uid),
            (&mut thread.gid, new.gid),
        ] {
            if new != MISSING_I64 {
                *own = new;
            }
        }
    }

    /// A process as an event describes it.
    fn described(&self, event: &Event, kind: &EventType, batch: &mut Batch) -> Thread {
        let text = |name: &str| event.named(kind, name).map_or(&[][..], until_nul);
        let texts = |name: &str| event.named(kind, name).unwrap_or_default();
        let exe = text("exe");
        // The oldest captures have no name of the thread in their events.
        let comm = if kind.param("comm").is_some() { text("comm") } else { exe };
        let (args, cgroups) = (texts("args"), texts("cgroups"));
        let described = Texts { comm, exe, exe_path: text("trusted_exepath"), args, cwd: text("cwd"), cgroups };
        let codes = describe(self.fields, batch, &described);
        Thread {
            pid: number(event, kind, "pid"),
            ptid: number(event, kind, "ptid"),
            uid: id(event, kind, &["uid"]),
            gid: id(event, kind, &["gid"]),
            codes,
            cwd: Rc::from(text("cwd")),
            ..Thread::unknown()
        }
    }

    /// A clone returned: in the parent the number of the child, in the child 0. Whichever comes first makes the child known.
    pub(super) fn cloned(
        &mut self,
        event: &Event,
        kind: &EventType,
        open: Option<&Open>,
        result: i64,
        batch: &mut Batch,
    ) {
        if result < 0 {
            return;
        }
        let mut child = self.described(event, kind, batch);
        let is_thread = flags(event, kind) & CLONE_THREAD != 0;
        let vtid = number(event, kind, "vtid");
        let (tid, parent) = match result {
            0 => (event.tid, child.ptid),
            // The parent of a child in another PID namespace does not know its number.
            _ if vtid != MISSING_I64 && vtid != event.tid => return,
            tid => (tid, event.tid),
        };
        child.created_ns = event.time_ns;
        if let Some(known) = self.threads.get_mut(&tid) {
            let is_same = match result {
                0 => known.is_expected,
                _ => open.is_some_and(|open| known.created_ns >= open.time_ns),
            };
            if is_same {
                if result == 0 {
                    (known.codes, known.is_expected) = (child.codes, false);
                    (known.uid, known.gid) = (child.uid, child.gid);
                }
                return;
            }
        }
        child.is_expected = result != 0;
        if result != 0 {
            child.ptid = parent;
            child.pid = if is_thread { self.process(parent) } else { tid };
        }
        if child.pid == MISSING_I64 {
            child.pid = tid;
        }
        if let Some(known) = self.directory_thread(parent).filter(|_| child.cwd.is_empty()) {
            (child.cwd, child.codes.cwd) = (Rc::clone(&known.cwd), known.codes.cwd);
        }
        if let Some(known) = self.threads.get(&parent) {
            for (own, inherited) in
                [(&mut child.codes.container, known.codes.container), (&mut child.codes.exe_path, known.codes.exe_path)]
            {
                if *own == MISSING_CODE {
                    *own = inherited;
                }
            }
        }
        if child.pid == tid {
            self.copy_fds(parent, tid);
        }
        let written = self.threads.get(&parent).map_or(MISSING_I64, |parent| parent.written);
        *self.thread(tid) = Thread { written, ..child };
    }

    fn copy_fds(&mut self, parent: i64, child: i64) {
        let gone = self.fds.remove(&child).map_or(0, |table| table.len());
        self.fds_count -= gone;
        let Some(table) = self.fds.get(&self.process(parent)) else { return };
        if self.fds_count + table.len() > FDS_LIMIT {
            self.is_full = true;
            return;
        }
        self.fds_count += table.len();
        let copy = table.clone();
        self.fds.insert(child, copy);
    }
}
