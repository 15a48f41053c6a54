//! The kernel's older asynchronous I/O, one request at a time, as `ioping -A` uses it.

use std::io;
use std::os::fd::RawFd;

/// `struct iocb` on a little-endian machine.
#[repr(C)]
#[derive(Default)]
struct Iocb {
    data: u64,
    key: u32,
    rw_flags: i32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    result_fd: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Default)]
struct Event {
    data: u64,
    iocb: u64,
    result: i64,
    result2: i64,
}

/// A context of the kernel with room for one request.
pub struct Aio(libc::c_ulong);

impl Aio {
    pub fn new() -> io::Result<Aio> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes a context into a variable that is ours and zero, as it demands.
        match unsafe { libc::syscall(libc::SYS_io_setup, 1, &mut context) } {
            0 => Ok(Aio(context)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Reads or writes; the bytes moved, or a negative error number.
    pub fn make(&mut self, fd: RawFd, write: bool, buffer: &mut [u8], offset: u64, flags: i32) -> i64 {
        let mut request = Iocb {
            rw_flags: flags,
            opcode: u16::from(write),
            fd: fd as u32,
            buffer: buffer.as_mut_ptr() as u64,
            bytes: buffer.len() as u64,
            offset: offset as i64,
            ..Iocb::default()
        };
        let (mut list, mut event) = ([&raw mut request], Event::default());
        // SAFETY: request, list and buffer outlive the request, since its completion is waited for below.
        let submitted = unsafe { libc::syscall(libc::SYS_io_submit, self.0, 1, list.as_mut_ptr()) };
        if submitted != 1 {
            return -last_error();
        }
        loop {
            let no_limit = std::ptr::null_mut::<libc::timespec>();
            // SAFETY: there is room for the one event that is asked for.
            match unsafe { libc::syscall(libc::SYS_io_getevents, self.0, 1, 1, &mut event, no_limit) } {
                1 => return event.result,
                // A signal: the request is still in flight and uses our memory.
                _ if last_error() == i64::from(libc::EINTR) => {}
                _ => return -last_error(),
            }
        }
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        // SAFETY: the context is ours and has nothing in flight.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

fn last_error() -> i64 {
    i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}
