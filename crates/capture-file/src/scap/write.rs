//! Writes system calls as a capture that sysdig reads, also version 0.29.3: sections of version 1.2, events of version 2.
//!
//! What sysdig has to know of a thread or descriptor is an event that only changes its state (a clone, an open, a connect), right
//! before the first call that needs it. So a capture is written in one go, and is whole wherever it ends. The start of a call stands
//! right before its return: its time is right, its place is not that of a recording. Calls that did not return stand at the end.

use super::blocks::{FRAME, kind};
use super::event_types::EventTypes;
use super::fds;
use super::written_calls::Shape;
use hashbrown::HashMap;
use latscope_event::{Batch, Context, Field, MISSING_CODE, MISSING_I64, MISSING_U64, Mask, Unfinished};
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;

const EVENT: u32 = 0x216;
const EVENT_WITH_FLAGS: u32 = 0x217;
/// So much is remembered of threads and descriptors before it is written again.
const KNOWN_LIMIT: usize = 1 << 18;
/// What clone has for a thread of the same process, with its descriptors.
const THREAD: u32 = 1 << 13 | 1;

const CLONE_RETURNS: u16 = 223;
const PROCEXIT: u16 = 186;
const EXEC_RETURNS: u16 = 289;
const OPEN_RETURNS: u16 = 3;
const SOCKET: u16 = 18;
const BIND: u16 = 20;
const CONNECT: u16 = 22;
const PIPE_RETURNS: u16 = 61;
/// sysdig takes a start at 0 for none, so that times of a clock that starts there are written so much later.
const LATER_NS: i64 = 1_000_000_000;

/// Writes a capture (`.scap`), call by call.
pub struct ScapWriter<W: Write> {
    out: BufWriter<W>,
    types: &'static EventTypes,
    /// Shapes by the code of a name.
    shapes: Vec<Option<Shape>>,
    /// Process and name of each thread that was described; no name for a process that is known only by its threads, or as a child.
    threads: HashMap<i64, (i64, Option<Box<str>>)>,
    /// Type and path of each descriptor that was described, by process and number.
    fds: HashMap<(i64, i64), (Box<str>, Box<str>)>,
    later_ns: i64,
    block: Vec<u8>,
    written_bytes: u64,
    events: u64,
}

/// What of a batch is no system call.
fn not_a_call() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "a .scap holds system calls, but these events are not system calls; write a .lat or .parquet, or select calls with -s syscall",
    )
}

impl<W: Write> ScapWriter<W> {
    /// Starts a capture.
    ///
    /// # Errors
    /// When the header cannot be written.
    pub fn create(out: W, context: &Context) -> io::Result<ScapWriter<W>> {
        let mut writer = ScapWriter {
            out: BufWriter::new(out),
            types: EventTypes::get(),
            shapes: Vec::new(),
            threads: HashMap::new(),
            fds: HashMap::new(),
            later_ns: if context.clock.to_unix_ns.is_some() { 0 } else { LATER_NS },
            block: Vec::new(),
            written_bytes: 0,
            events: 0,
        };
        let section = [&super::MAGIC.to_le_bytes()[..], &1u16.to_le_bytes(), &2u16.to_le_bytes(), &[0xff; 8]].concat();
        writer.put(kind::SECTION, &section)?;
        let cpus = context.properties.get("cpus").and_then(|cpus| cpus.parse().ok()).unwrap_or(1u32);
        let mut host = context.host.clone().unwrap_or_default().into_bytes();
        host.resize(128, 0);
        host[127] = 0;
        let most_threads = 1u64 << 22;
        let machine = [&cpus.to_le_bytes()[..], &[0; 8], &most_threads.to_le_bytes(), &host, &[0; 32]].concat();
        writer.put(kind::MACHINE[0], &machine)?;
        // Without a list of processes sysdig takes those of this machine.
        writer.put(0x215, &[])?;
        writer.out.flush()?;
        Ok(writer)
    }

    /// Writes the calls that the mask lets through, all without a mask.
    ///
    /// # Errors
    /// When the disk is full or the pipe closed, or an event is no system call.
    pub fn write(&mut self, batch: &Batch, mask: Option<&Mask>) -> io::Result<()> {
        match mask {
            Some(mask) => mask.ones().try_for_each(|row| self.row(batch, row, true)),
            None => (0..batch.len()).try_for_each(|row| self.row(batch, row, true)),
        }
    }

    /// Hands on what is gathered. A live capture calls this when nothing happens.
    ///
    /// # Errors
    /// As [`ScapWriter::write`].
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// What the capture is written to.
    pub fn writer_mut(&mut self) -> &mut W {
        self.out.get_mut()
    }

    /// Bytes of the capture so far.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Calls of the capture so far.
    pub fn written_events(&self) -> u64 {
        self.events
    }

    /// Ends the capture with the calls that did not return, and gives the writer back.
    ///
    /// # Errors
    /// As [`ScapWriter::write`].
    pub fn finish(mut self, context: &Context) -> io::Result<W> {
        // Its codes are others.
        self.shapes.clear();
        let batch = Unfinished::rows(&context.unfinished);
        for row in (0..batch.len()).filter(|&row| is_call(&batch, row)) {
            self.row(&batch, row, false)?;
        }
        self.out.into_inner().map_err(io::IntoInnerError::into_error)
    }

    fn put(&mut self, kind: u32, body: &[u8]) -> io::Result<()> {
        let padding = body.len().next_multiple_of(4) - body.len();
        let length = u32::try_from(body.len() + padding + FRAME).map_err(io::Error::other)?;
        for part in [&kind.to_le_bytes()[..], &length.to_le_bytes(), body, &[0; 3][..padding], &length.to_le_bytes()] {
            self.out.write_all(part)?;
        }
        self.written_bytes += u64::from(length);
        Ok(())
    }

    /// An event; one of state changes only what sysdig knows.
    fn event(
        &mut self,
        is_state: bool,
        cpu: u16,
        time_ns: i64,
        tid: i64,
        code: u16,
        params: &[&[u8]],
    ) -> io::Result<()> {
        let mut block = std::mem::take(&mut self.block);
        block.clear();
        block.extend(cpu.to_le_bytes());
        if is_state {
            block.extend(1u32.to_le_bytes());
        }
        let bytes: usize = params.iter().map(|param| param.len().min(usize::from(u16::MAX))).sum();
        block.extend(time_ns.saturating_add(self.later_ns).max(1).to_le_bytes());
        block.extend(tid.to_le_bytes());
        block.extend(((26 + 2 * params.len() + bytes) as u32).to_le_bytes());
        block.extend(code.to_le_bytes());
        block.extend((params.len() as u32).to_le_bytes());
        params.iter().for_each(|param| block.extend((param.len().min(usize::from(u16::MAX)) as u16).to_le_bytes()));
        params.iter().for_each(|param| block.extend(&param[..param.len().min(usize::from(u16::MAX))]));
        let put = self.put(if is_state { EVENT_WITH_FLAGS } else { EVENT }, &block);
        self.block = block;
        put
    }

    /// Writes a call; one that did not return has no end.
    fn row(&mut self, batch: &Batch, row: usize, returns: bool) -> io::Result<()> {
        if !is_call(batch, row) {
            return Err(not_a_call());
        }
        let name_code = batch.codes(Field::Name).map_or(MISSING_CODE, |codes| codes[row]);
        let name = batch.text(Field::Name, row).unwrap_or_default();
        let shape = self.shape_of(name_code, name);
        let call = Call::new(batch, row);
        let has_result = !returns || call.result != MISSING_I64;
        let shape = if has_result { shape } else { shape.without_result() };
        self.describe_thread(&call)?;
        if call.fd >= 0 && !(shape.makes_fd && returns) {
            self.describe_fd(&call)?;
        }
        self.put_call(&call, shape, true)?;
        if returns {
            self.put_call(&call, shape, false)?;
            if name == "close" && call.result == 0 {
                self.fds.remove(&(call.pid, call.fd));
            } else if shape.makes_fd && call.result >= 0 {
                self.remember_fd(&call, call.result);
            } else if matches!(name, "clone" | "clone3" | "fork" | "vfork") && call.result > 0 {
                // sysdig knows the child by its parent's name; its own name may be another.
                self.threads.insert(call.result, (call.result, None));
            }
        }
        self.events += 1;
        Ok(())
    }

    fn shape_of(&mut self, name_code: u32, name: &str) -> Shape {
        let at = name_code as usize;
        if self.shapes.len() <= at {
            self.shapes.resize(at + 1, None);
        }
        *self.shapes[at].get_or_insert_with(|| Shape::find(name, self.types))
    }

    /// A thread that sysdig does not know, or knows by another name.
    fn describe_thread(&mut self, call: &Call) -> io::Result<()> {
        let Some(comm) = call.comm else { return Ok(()) };
        let known = self.threads.get(&call.tid);
        if known.is_some_and(|(pid, name)| *pid == call.pid && name.as_deref() == Some(comm)) {
            return Ok(());
        }
        let is_known = known.is_some();
        if self.threads.len() + self.fds.len() > KNOWN_LIMIT {
            self.threads.clear();
            self.fds.clear();
        }
        if call.pid != call.tid && !self.threads.contains_key(&call.pid) {
            // Its process has the table of descriptors.
            self.clone_event(call, call.pid, call.process)?;
            self.threads.insert(call.pid, (call.pid, None));
        }
        self.threads.insert(call.tid, (call.pid, Some(comm.into())));
        if is_known && call.tid == call.pid {
            return self.exec_event(call, comm);
        }
        if is_known {
            // A thread cannot exec and remain one.
            self.event(true, call.cpu, call.start_ns, call.tid, PROCEXIT, &[&[0; 8]])?;
        }
        self.clone_event(call, call.tid, comm)
    }

    /// The return of an exec in the main thread, which gives its process a new name and leaves it its descriptors.
    fn exec_event(&mut self, call: &Call, comm: &str) -> io::Result<()> {
        let comm = [comm.as_bytes(), b"\0"].concat();
        let (tid, pid, parent) = (call.tid.to_le_bytes(), call.pid.to_le_bytes(), 1i64.to_le_bytes());
        let (zero8, zero4): (&[u8], &[u8]) = (&[0; 8], &[0; 4]);
        let params: [&[u8]; 17] = [
            zero8,
            &comm,
            &[],
            &tid,
            &pid,
            &parent,
            b"\0",
            zero8,
            zero8,
            zero8,
            zero4,
            zero4,
            zero4,
            &comm,
            &[],
            &[],
            zero4,
        ];
        self.state(call, EXEC_RETURNS, &params)
    }

    /// The return of a clone in a child.
    fn clone_event(&mut self, call: &Call, tid: i64, comm: &str) -> io::Result<()> {
        let comm = [comm.as_bytes(), b"\0"].concat();
        let (tid_bytes, pid) = (tid.to_le_bytes(), call.pid.to_le_bytes());
        let parent = if tid == call.pid { 1i64 } else { call.pid }.to_le_bytes();
        let flags = if tid == call.pid { 0 } else { THREAD }.to_le_bytes();
        let (zero8, zero4): (&[u8], &[u8]) = (&[0; 8], &[0; 4]);
        let params: [&[u8]; 20] = [
            zero8,
            &comm,
            &[],
            &tid_bytes,
            &pid,
            &parent,
            b"\0",
            zero8,
            zero8,
            zero8,
            zero4,
            zero4,
            zero4,
            &comm,
            &[],
            &flags,
            zero4,
            zero4,
            &tid_bytes,
            &pid,
        ];
        self.event(true, call.cpu, call.start_ns, tid, CLONE_RETURNS, &params)
    }

    /// Keeps what sysdig knows of a descriptor; whether that is new.
    fn remember_fd(&mut self, call: &Call, fd: i64) -> bool {
        let (fd_type, path) = (call.fd_type.unwrap_or_default(), call.path);
        let is_known = |known: &(Box<str>, Box<str>)| (&*known.0, &*known.1) == (fd_type, path);
        if self.fds.get(&(call.pid, fd)).is_some_and(is_known) {
            return false;
        }
        self.fds.insert((call.pid, fd), (fd_type.into(), path.into()));
        true
    }

    /// A descriptor that sysdig does not know, or knows as something else.
    fn describe_fd(&mut self, call: &Call) -> io::Result<()> {
        let Some(fd_type) = call.fd_type.filter(|_| self.remember_fd(call, call.fd)) else { return Ok(()) };
        let fd = call.fd.to_le_bytes();
        let zero8: &[u8] = &[0; 8];
        match fd_type {
            // sysdig 0.29.3 takes devices for files, too.
            "file" | "directory" | "char" | "block" | "link" | "memfd" => {
                let name = [call.path.as_bytes(), b"\0"].concat();
                self.state(call, OPEN_RETURNS, &[&fd, &name, &call.open_flags(), &[0; 4], &[0; 4]])
            }
            "ipv4" | "ipv6" | "unix" | "netlink" => self.socket(call),
            "pipe" => self.state(call, PIPE_RETURNS, &[zero8, &fd, &fd, zero8]),
            "event" => self.state(call, 63, &[&fd]),
            "signalfd" => self.state(call, 127, &[&fd]),
            "timerfd" => self.state(call, 137, &[&fd]),
            "inotify" => self.state(call, 139, &[&fd]),
            // sysdig 0.29.3 has no calls for these.
            _ => Ok(()),
        }
    }

    fn state(&mut self, call: &Call, code: u16, params: &[&[u8]]) -> io::Result<()> {
        self.event(true, call.cpu, call.start_ns, call.tid, code, params)
    }

    fn socket(&mut self, call: &Call) -> io::Result<()> {
        let fd = call.fd.to_le_bytes();
        let [domain, kind, protocol] = call.socket().map(u32::to_le_bytes);
        self.state(call, SOCKET, &[&domain, &kind, &protocol])?;
        self.state(call, SOCKET + 1, &[&fd])?;
        let (tuple, address) = (call.tuple(), call.address());
        if !tuple.is_empty() {
            self.state(call, CONNECT, &[&fd])?;
            self.state(call, CONNECT + 1, &[&[0; 8], &tuple])?;
        } else if !address.is_empty() {
            self.state(call, BIND, &[&fd])?;
            self.state(call, BIND + 1, &[&[0; 8], &address])?;
        }
        Ok(())
    }

    /// Start or return of a call.
    fn put_call(&mut self, call: &Call, shape: Shape, is_start: bool) -> io::Result<()> {
        let params: Vec<Vec<u8>> = shape.params(is_start).map(|word| call.param(word, shape.number)).collect();
        let params: Vec<&[u8]> = params.iter().map(Vec::as_slice).collect();
        let (time_ns, code) = if is_start { (call.start_ns, shape.code) } else { (call.end_ns, shape.code + 1) };
        self.event(false, call.cpu, time_ns, call.tid, code, &params)
    }
}

/// Whether a row is a system call: what has a result, or else a name and a thread and no device.
fn is_call(batch: &Batch, row: usize) -> bool {
    let has = |field| batch.i64s(field).is_some_and(|values| values[row] != MISSING_I64);
    let is_of_device = [Field::Device, Field::Dev].iter().any(|&field| batch.text(field, row).is_some());
    batch.text(Field::Name, row).is_some() && (has(Field::Result) || has(Field::Tid) && !is_of_device)
}

/// A call to be written.
struct Call<'a> {
    tid: i64,
    pid: i64,
    ppid: i64,
    uid: i64,
    gid: i64,
    cpu: u16,
    start_ns: i64,
    end_ns: i64,
    fd: i64,
    result: i64,
    size: u64,
    offset: u64,
    comm: Option<&'a str>,
    process: &'a str,
    exe_path: &'a str,
    fd_type: Option<&'a str>,
    path: &'a str,
    protocol: Option<&'a str>,
}

impl Call<'_> {
    fn new(batch: &Batch, row: usize) -> Call<'_> {
        let i64_at = |field| batch.i64s(field).map_or(MISSING_I64, |values| values[row]);
        let u64_at = |field| batch.u64s(field).map_or(MISSING_U64, |values| values[row]);
        let text_at = |field| batch.text(field, row);
        let known = |id: i64, other: i64| if id == MISSING_I64 { other } else { id };
        let tid = known(i64_at(Field::Tid), known(i64_at(Field::Pid), 0));
        Call {
            tid,
            pid: known(i64_at(Field::Pid), tid),
            ppid: known(i64_at(Field::Ppid), 1),
            uid: i64_at(Field::Uid),
            gid: i64_at(Field::Gid),
            cpu: u16::try_from(i64_at(Field::Cpu)).unwrap_or(0),
            start_ns: batch.time()[row],
            end_ns: batch.time()[row].saturating_add_unsigned(batch.latency()[row]),
            fd: i64_at(Field::Fd),
            result: i64_at(Field::Result),
            size: u64_at(Field::Size),
            offset: u64_at(Field::Offset),
            comm: text_at(Field::Comm),
            process: text_at(Field::Process).unwrap_or_default(),
            exe_path: text_at(Field::ExePath).unwrap_or_default(),
            fd_type: text_at(Field::FdType),
            path: text_at(Field::Path).unwrap_or_default(),
            protocol: text_at(Field::L4Proto),
        }
    }

    /// A parameter by its word in the table of calls; `number` is that of a call without a type.
    fn param(&self, word: &str, number: u16) -> Vec<u8> {
        let known = |number: i64| if number == MISSING_I64 { 0 } else { number };
        let id = |id: i64| u32::try_from(id).unwrap_or(u32::MAX).to_le_bytes().to_vec();
        let text = |text: &str| [text.as_bytes(), b"\0"].concat();
        // The number of bytes that were asked for, as far as that is known.
        let size = if self.size == MISSING_U64 { 0 } else { self.size };
        match word {
            // A call without a known descriptor has none that exists.
            "fd" => if self.fd == MISSING_I64 { -1 } else { self.fd }.to_le_bytes().into(),
            "res" => known(self.result).to_le_bytes().into(),
            "res4" => (known(self.result) as u32).to_le_bytes().into(),
            "size4" => u32::try_from(size).unwrap_or(u32::MAX).to_le_bytes().into(),
            "size8" => size.to_le_bytes().into(),
            "moved" => (self.result.clamp(0, i64::from(u32::MAX)) as u32).to_le_bytes().into(),
            "offset" => if self.offset == MISSING_U64 { 0 } else { self.offset }.to_le_bytes().into(),
            "path" => text(self.path),
            "exepath" => text(self.exe_path),
            "comm" => text(self.comm.unwrap_or_default()),
            "nul" => text(""),
            "cwd" => fds::AT_FDCWD.to_le_bytes().into(),
            "flags" => self.open_flags().into(),
            "domain" => self.socket()[0].to_le_bytes().into(),
            "type" => self.socket()[1].to_le_bytes().into(),
            "protocol" => self.socket()[2].to_le_bytes().into(),
            "tuple" => self.tuple(),
            "address" => self.address(),
            "tid" => self.tid.to_le_bytes().into(),
            "pid" => self.pid.to_le_bytes().into(),
            "ppid" => self.ppid.to_le_bytes().into(),
            "uid" => id(self.uid),
            "gid" => id(self.gid),
            "number" => number.to_le_bytes().into(),
            "z1" => vec![0],
            "z2" => vec![0; 2],
            "z4" => vec![0; 4],
            "z8" => vec![0; 8],
            _ => Vec::new(),
        }
    }

    /// For reading, and of a directory what says so.
    fn open_flags(&self) -> [u8; 4] {
        if self.fd_type == Some("directory") { fds::O_DIRECTORY as u32 + 1 } else { 3 }.to_le_bytes()
    }

    /// Domain, type and protocol of the socket.
    fn socket(&self) -> [u32; 3] {
        let domain = match self.fd_type {
            Some("unix") => 1,
            Some("ipv6") => 10,
            Some("netlink") => 16,
            _ => 2,
        };
        let (kind, protocol) = match self.protocol {
            Some("udp") => (2, 17),
            Some("icmp") => (2, 1),
            Some("raw") => (3, 255),
            _ => (1, 0),
        };
        [domain, kind, protocol]
    }

    /// The two ends of the socket, as a parameter of connect; nothing where they are not known.
    fn tuple(&self) -> Vec<u8> {
        match self.fd_type {
            Some("unix") => [&[1][..], &[0; 16], self.path.as_bytes(), b"\0"].concat(),
            Some("ipv4" | "ipv6") => internet(self.path).unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// The one address of the socket, as a parameter of bind; nothing where it is not known.
    fn address(&self) -> Vec<u8> {
        match (self.fd_type, self.path.parse::<SocketAddr>()) {
            (Some("unix"), _) => [&[1][..], self.path.as_bytes(), b"\0"].concat(),
            (Some("ipv4" | "ipv6"), Ok(address)) => {
                let mut bytes = vec![if address.is_ipv4() { 2 } else { 10 }];
                put_address(address, &mut bytes);
                bytes
            }
            _ => Vec::new(),
        }
    }
}

/// The addresses in `client->server`, as a parameter of connect.
fn internet(path: &str) -> Option<Vec<u8>> {
    let (client, server) = path.split_once("->")?;
    let ends: [SocketAddr; 2] = [client.parse().ok()?, server.parse().ok()?];
    let mut tuple = vec![if ends[0].is_ipv4() { 2 } else { 10 }];
    ends.into_iter().for_each(|end| put_address(end, &mut tuple));
    (ends[0].is_ipv4() == ends[1].is_ipv4()).then_some(tuple)
}

fn put_address(address: SocketAddr, to: &mut Vec<u8>) {
    match address {
        SocketAddr::V4(address) => to.extend(address.ip().octets()),
        SocketAddr::V6(address) => to.extend(address.ip().octets()),
    }
    to.extend(address.port().to_le_bytes());
}
