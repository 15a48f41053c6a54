//! How a request is made, one at a time.

use crate::aio::Aio;
use crate::{AfterWrite, Engine, Error, Probe};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Makes one request after the other.
pub struct Requests {
    how: How,
    flags: libc::c_int,
    after: AfterWrite,
}

enum How {
    Plain,
    WithFlags,
    Aio(Aio),
}

impl Requests {
    pub fn new(probe: &Probe) -> Result<Requests, Error> {
        let flag = |wanted, flag| if wanted { flag } else { 0 };
        let flags = flag(probe.work.nowait, libc::RWF_NOWAIT) | flag(probe.work.hipri, libc::RWF_HIPRI);
        let how = match probe.chosen_engine() {
            Engine::Aio => How::Aio(Aio::new().map_err(|source| Error::Engine { engine: "libaio", source })?),
            _ if flags != 0 => How::WithFlags,
            _ => How::Plain,
        };
        Ok(Requests { how, flags, after: probe.work.after_write })
    }

    /// Reads or writes `buffer`; the bytes moved, or a negative error number. A write ends when it is as durable as asked.
    #[inline(always)]
    pub fn make(&mut self, file: &File, write: bool, buffer: &mut [u8], offset: u64) -> i32 {
        loop {
            // A call that a signal came into is made again, and its time goes on.
            match self.once(file, write, buffer, offset) {
                result if result == -libc::EINTR => {}
                result => return result,
            }
        }
    }

    #[inline(always)]
    fn once(&mut self, file: &File, write: bool, buffer: &mut [u8], offset: u64) -> i32 {
        let fd = file.as_raw_fd();
        let (data, len, at) = (buffer.as_mut_ptr().cast::<libc::c_void>(), buffer.len(), offset as libc::off_t);
        let moved = match &mut self.how {
            How::Plain => plain(fd, write, data, len, at),
            How::WithFlags => {
                let part = libc::iovec { iov_base: data, iov_len: len };
                // SAFETY: as above; the list has one entry.
                unsafe {
                    if write {
                        libc::pwritev2(fd, &part, 1, at, self.flags)
                    } else {
                        libc::preadv2(fd, &part, 1, at, self.flags)
                    }
                }
            }
            How::Aio(aio) => {
                let moved = aio.make(fd, write, buffer, offset, self.flags);
                if moved < 0 {
                    return moved as i32;
                }
                moved as isize
            }
        };
        if moved < 0 {
            return -last_error();
        }
        if write && self.after != AfterWrite::None {
            // SAFETY: no memory is involved.
            let done = unsafe {
                match self.after {
                    AfterWrite::Fsync => libc::fsync(fd),
                    _ => libc::fdatasync(fd),
                }
            };
            if done < 0 {
                return -last_error();
            }
        }
        moved as i32
    }

    /// The call that reads or writes.
    pub fn name(&self) -> &'static str {
        match self.how {
            How::Plain => "pread",
            How::WithFlags => "preadv2",
            How::Aio(_) => "libaio",
        }
    }
}

/// The bare call: that of the C library costs a tenth more in a program with several threads, since there a thread could be
/// cancelled in it.
#[cfg(target_pointer_width = "64")]
#[inline]
fn plain(fd: libc::c_int, write: bool, data: *mut libc::c_void, len: usize, at: libc::off_t) -> isize {
    let call = if write { libc::SYS_pwrite64 } else { libc::SYS_pread64 };
    // SAFETY: the kernel reads or writes memory of the caller, within its length.
    unsafe { libc::syscall(call, fd, data, len, at) as isize }
}

#[cfg(not(target_pointer_width = "64"))]
fn plain(fd: libc::c_int, write: bool, data: *mut libc::c_void, len: usize, at: libc::off_t) -> isize {
    // SAFETY: as above.
    unsafe { if write { libc::pwrite(fd, data, len, at) } else { libc::pread(fd, data, len, at) } }
}

#[cold]
fn last_error() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// Memory for requests, aligned as direct I/O may ask for.
pub struct Buffer {
    data: *mut u8,
    layout: std::alloc::Layout,
}

impl Buffer {
    /// Of so many bytes, all touched, so that no request has to wait for a page.
    pub fn new(len: usize) -> Result<Buffer, Error> {
        let too_big = || Error::Settings(format!("There is no memory for requests of {len} bytes."));
        let layout = std::alloc::Layout::from_size_align(len.max(1), 4096).map_err(|_| too_big())?;
        // SAFETY: the layout has a size above zero.
        let data = unsafe { std::alloc::alloc_zeroed(layout) };
        if data.is_null() {
            return Err(too_big());
        }
        let mut buffer = Buffer { data, layout };
        // Zeroed memory may not be there yet.
        buffer.bytes().iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        Ok(buffer)
    }

    /// The memory.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the memory is ours alone, of this size, and was initialised.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.layout.size()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout.
        unsafe { std::alloc::dealloc(self.data, self.layout) };
    }
}

// SAFETY: the memory belongs to the buffer alone.
unsafe impl Send for Buffer {}
