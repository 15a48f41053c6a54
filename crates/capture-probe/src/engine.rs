//! How a request is made, one at a time.

use crate::aio::Aio;
use crate::{AfterWrite, Engine, Error, Probe};
use rustix::io::ReadWriteFlags;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::AsRawFd;

/// Makes one request after the other.
pub struct Requests {
    how: How,
    flags: ReadWriteFlags,
    after: AfterWrite,
}

enum How {
    Plain,
    WithFlags,
    Aio(Aio),
}

impl Requests {
    pub fn new(probe: &Probe) -> Result<Requests, Error> {
        let mut flags = ReadWriteFlags::empty();
        flags.set(ReadWriteFlags::NOWAIT, probe.work.nowait);
        flags.set(ReadWriteFlags::HIPRI, probe.work.hipri);
        let how = match probe.chosen_engine() {
            Engine::Aio => How::Aio(Aio::new().map_err(|source| Error::Engine { engine: "libaio", source })?),
            _ if !flags.is_empty() => How::WithFlags,
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
        // Bare calls: those of the C library cost a tenth more in a program with several threads, since there a thread could
        // be cancelled in them.
        let moved = match (&mut self.how, write) {
            (How::Plain, false) => rustix::io::pread(file, &mut *buffer, offset),
            (How::Plain, true) => rustix::io::pwrite(file, buffer, offset),
            (How::WithFlags, false) => rustix::io::preadv2(file, &mut [IoSliceMut::new(buffer)], offset, self.flags),
            (How::WithFlags, true) => rustix::io::pwritev2(file, &[IoSlice::new(buffer)], offset, self.flags),
            (How::Aio(aio), _) => {
                let moved = aio.make(file.as_raw_fd(), write, buffer, offset, self.flags.bits() as libc::c_int);
                if moved < 0 {
                    return moved as i32;
                }
                Ok(moved as usize)
            }
        };
        let flushed = match self.after {
            _ if !write || moved.is_err() => Ok(()),
            AfterWrite::None => Ok(()),
            AfterWrite::Fsync => rustix::fs::fsync(file),
            AfterWrite::Fdatasync => rustix::fs::fdatasync(file),
        };
        match flushed.and(moved) {
            Ok(bytes) => bytes as i32,
            Err(error) => -error.raw_os_error(),
        }
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

/// Memory for requests, aligned as direct I/O may ask for.
pub struct Buffer {
    /// As long as was asked for from `start` on.
    memory: Vec<u8>,
    /// Where the aligned part starts.
    start: usize,
}

/// No device asks for more.
const ALIGNMENT: usize = 4096;

impl Buffer {
    /// Of so many bytes, all touched, so that no request has to wait for a page.
    pub fn new(len: usize) -> Result<Buffer, Error> {
        let len = len.max(1);
        let mut memory: Vec<u8> = Vec::new();
        if memory.try_reserve_exact(len.saturating_add(ALIGNMENT)).is_err() {
            return Err(Error::Settings(format!("Not enough memory for requests of {len} bytes.")));
        }
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        memory.resize(start + len, 1);
        Ok(Buffer { memory, start })
    }

    /// The memory.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_as_long_as_asked_for() {
        for len in [1, 511, 512, 4096, 100_000] {
            let mut buffer = Buffer::new(len).unwrap();
            assert_eq!((buffer.bytes().len(), buffer.bytes().as_ptr() as usize % ALIGNMENT), (len, 0));
        }
        assert!(Buffer::new(usize::MAX).is_err_and(|error| error.to_string().contains("Not enough memory")));
    }
}
