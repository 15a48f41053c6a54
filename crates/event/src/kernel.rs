//! What the kernel's interface fixes, as every source of events needs it: names and shapes of system calls, errors,
//! and the letters of block requests.

pub use crate::category::call_category;
pub use crate::syscall_names::Machine;

/// Calls that wait for completions of requests that their thread handed in before.
pub const ASYNC_WAITS: [&str; 3] = ["io_getevents", "io_pgetevents", "io_uring_enter"];

/// Where a system call keeps what an event has of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallShape {
    /// What it is for: read, write, sync, open or other.
    pub kind: &'static str,
    /// Whether it does I/O, so that it counts when not all calls are asked for.
    pub is_io: bool,
    /// Where its file descriptor is.
    pub fd: FdFrom,
    /// Which argument holds the number of bytes asked for.
    pub size: Option<usize>,
    /// Which argument holds the position in the file.
    pub offset: Option<usize>,
    /// Whether it returns the number of bytes that it moved.
    pub moves: bool,
    /// Which argument holds the path of what it is about; of two, that of the file which is there before.
    pub path: Option<usize>,
    /// Which argument holds the descriptor of the directory in which a relative path starts. An empty path, where one is
    /// allowed, is the file of that descriptor.
    pub directory: Option<usize>,
}

/// Where a system call has its file descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FdFrom {
    /// It has none.
    Nowhere,
    /// In its first argument.
    Argument,
    /// It returns one.
    Result,
}

const PLAIN: CallShape = CallShape {
    kind: "other",
    is_io: false,
    fd: FdFrom::Nowhere,
    size: None,
    offset: None,
    moves: false,
    path: None,
    directory: None,
};

/// The name of the error that a kernel function returned; `None` when the result is no error (-4095 to -1).
pub fn error_name(result: i64) -> Option<&'static str> {
    (-4095..=-1).contains(&result).then(|| crate::syscall_names::error(result.unsigned_abs() as u32).unwrap_or("error"))
}

/// What the operation letters of a block request mean. A leading F is a preflush of what follows; `FF` and a lone F
/// are flushes.
pub fn block_kind(rwbs: &[u8]) -> &'static str {
    let letter = match rwbs {
        [b'F', next @ (b'R' | b'W' | b'D' | b'N'), ..] => next,
        [first, ..] => first,
        [] => &0,
    };
    match letter {
        b'R' => "read",
        b'W' => "write",
        b'D' => "discard",
        b'F' => "flush",
        _ => "other",
    }
}

/// Whether a system call of this name waits for storage whatever its descriptor is. Others may wait for other processes and
/// for messages: `read` of a pipe, `open` of a named one.
pub fn waits_for_storage(name: &[u8]) -> bool {
    let shape = call_shape(name);
    let takes_path = shape.is_io && shape.path.is_some() && shape.kind != "open";
    let of_files: [&[u8]; 13] = [
        b"pread64",
        b"preadv",
        b"preadv2",
        b"pwrite64",
        b"pwritev",
        b"pwritev2",
        b"getdents",
        b"getdents64",
        b"ftruncate",
        b"fallocate",
        b"fchmod",
        b"fchown",
        b"copy_file_range",
    ];
    takes_path || shape.kind == "sync" || of_files.contains(&name)
}

/// What is known of a call by its name. What it is for decides on `kind`; a call that both reads and writes is `other`.
pub fn call_shape(name: &[u8]) -> CallShape {
    let io = CallShape { is_io: true, ..PLAIN };
    let with_fd = CallShape { is_io: true, fd: FdFrom::Argument, ..PLAIN };
    let read = CallShape { kind: "read", moves: true, ..with_fd };
    let write = CallShape { kind: "write", moves: true, ..with_fd };
    let sync = CallShape { kind: "sync", ..with_fd };
    let path = CallShape { path: Some(0), ..io };
    let path_at = CallShape { path: Some(1), directory: Some(0), ..io };
    let open = CallShape { kind: "open", fd: FdFrom::Result, ..path };
    let open_at = CallShape { kind: "open", fd: FdFrom::Result, ..path_at };
    match name {
        b"read" | b"recvfrom" | b"recv" => CallShape { size: Some(2), ..read },
        b"pread64" => CallShape { size: Some(2), offset: Some(3), ..read },
        b"preadv" | b"preadv2" => CallShape { offset: Some(3), ..read },
        b"readv" | b"recvmsg" => read,
        b"write" | b"sendto" | b"send" => CallShape { size: Some(2), ..write },
        b"pwrite64" => CallShape { size: Some(2), offset: Some(3), ..write },
        b"pwritev" | b"pwritev2" => CallShape { offset: Some(3), ..write },
        b"writev" | b"sendmsg" => write,
        // These return messages, not bytes.
        b"recvmmsg" => CallShape { kind: "read", ..with_fd },
        b"sendmmsg" => CallShape { kind: "write", ..with_fd },
        b"sendfile" => CallShape { size: Some(3), moves: true, ..with_fd },
        b"splice" | b"copy_file_range" => CallShape { size: Some(4), moves: true, ..with_fd },
        b"tee" => CallShape { size: Some(2), moves: true, ..with_fd },
        b"vmsplice" => CallShape { moves: true, ..with_fd },
        b"fsync" | b"fdatasync" | b"syncfs" => sync,
        b"sync" => CallShape { kind: "sync", ..io },
        b"sync_file_range" => CallShape { offset: Some(1), size: Some(2), ..sync },
        b"msync" => CallShape { kind: "sync", size: Some(1), ..io },
        b"open" | b"creat" => open,
        b"openat" | b"openat2" => open_at,
        b"close" | b"fstat" | b"fstatfs" | b"io_uring_enter" | b"fchmod" | b"fchown" | b"ftruncate" | b"fallocate"
        | b"getdents" | b"getdents64" => with_fd,
        b"stat" | b"lstat" | b"statfs" | b"truncate" | b"access" | b"readlink" | b"unlink" | b"rmdir" | b"mkdir"
        | b"mknod" | b"rename" | b"link" | b"chmod" | b"chown" | b"lchown" | b"utime" | b"utimes" => path,
        b"newfstatat" | b"fstatat64" | b"statx" | b"faccessat" | b"faccessat2" | b"readlinkat" | b"unlinkat"
        | b"mkdirat" | b"mknodat" | b"renameat" | b"renameat2" | b"linkat" | b"fchmodat" | b"fchmodat2"
        | b"fchownat" | b"utimensat" | b"futimesat" => path_at,
        b"symlink" => CallShape { path: Some(1), ..io },
        b"symlinkat" => CallShape { path: Some(2), directory: Some(1), ..io },
        b"io_submit" | b"io_getevents" | b"io_pgetevents" => io,
        b"setxattr" | b"lsetxattr" | b"getxattr" | b"lgetxattr" | b"listxattr" | b"llistxattr" | b"removexattr"
        | b"lremovexattr" => path,
        b"fsetxattr" | b"fgetxattr" | b"flistxattr" | b"fremovexattr" => with_fd,
        b"setxattrat" | b"getxattrat" | b"listxattrat" | b"removexattrat" => path_at,
        b"chdir" | b"chroot" => CallShape { path: Some(0), ..PLAIN },
        b"name_to_handle_at" | b"open_tree" => CallShape { path: Some(1), directory: Some(0), ..PLAIN },
        b"ioctl" | b"lseek" | b"fcntl" | b"dup" | b"dup2" | b"dup3" | b"flock" | b"fchdir" | b"readahead"
        | b"fadvise64" | b"accept" | b"accept4" | b"connect" | b"bind" | b"listen" | b"shutdown" | b"getsockname"
        | b"getpeername" | b"setsockopt" | b"getsockopt" | b"epoll_wait" | b"epoll_pwait" | b"epoll_pwait2"
        | b"epoll_ctl" | b"timerfd_settime" | b"timerfd_gettime" | b"inotify_add_watch" | b"inotify_rm_watch" => {
            CallShape { fd: FdFrom::Argument, ..PLAIN }
        }
        _ => PLAIN,
    }
}
