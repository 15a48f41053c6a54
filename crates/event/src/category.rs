//! What system calls belong to, in the words of sysdig's `evt.category`.

/// Calls of each category, whatever they work on.
const BY_NAME: &[(&str, &str)] = &[
    (
        "file",
        "access faccessat faccessat2 chdir fchdir chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat chroot \
         copy_file_range creat open openat openat2 open_by_handle_at open_tree name_to_handle_at flock stat fstat lstat \
         newfstatat statx statfs fstatfs getcwd getdents getdents64 link linkat symlink symlinkat readlink readlinkat lseek \
         mkdir mkdirat mknod mknodat mount umount umount2 move_mount rename renameat renameat2 rmdir unlink unlinkat truncate \
         ftruncate fallocate fsync fdatasync sync syncfs sync_file_range fadvise64 readahead utime utimes utimensat futimesat \
         setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr removexattr lremovexattr \
         fremovexattr fsopen fsconfig fsmount fspick io_submit userfaultfd",
    ),
    ("net", "socket bind connect listen accept accept4 getsockname getpeername getsockopt setsockopt shutdown"),
    (
        "ipc",
        "pipe pipe2 socketpair eventfd eventfd2 futex futex_wait futex_wake futex_waitv inotify_init inotify_init1 \
         inotify_add_watch inotify_rm_watch shmget shmat shmdt shmctl msgget msgsnd msgrcv msgctl mq_open mq_unlink \
         mq_timedsend mq_timedreceive mq_notify mq_getsetattr process_vm_readv process_vm_writev",
    ),
    (
        "memory",
        "brk mmap munmap mprotect mremap msync madvise process_madvise mincore mlock mlock2 mlockall munlock munlockall \
         memfd_create remap_file_pages",
    ),
    (
        "process",
        "clone clone3 fork vfork execve execveat exit exit_group prctl arch_prctl ptrace setns unshare pivot_root getpid \
         getppid gettid getpgid getpgrp setpgid getsid setsid getrlimit setrlimit prlimit64 getrusage getpriority \
         setpriority capget capset sched_getaffinity sched_setaffinity sched_setscheduler sched_getscheduler \
         sched_setparam sched_getparam set_robust_list get_robust_list set_tid_address umask personality semget semop \
         semctl pidfd_open pidfd_getfd rseq",
    ),
    ("sleep", "nanosleep clock_nanosleep sched_yield"),
    ("system", "uname sysinfo sethostname setdomainname syslog reboot swapon swapoff keyctl add_key request_key"),
    (
        "signal",
        "kill tkill tgkill rt_sigaction rt_sigprocmask rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_tgsigqueueinfo \
         rt_sigsuspend rt_sigreturn signalfd signalfd4 pidfd_send_signal",
    ),
    (
        "user",
        "getuid geteuid getgid getegid getresuid getresgid setuid setgid setreuid setregid setresuid setresgid setfsuid \
         setfsgid getgroups setgroups quotactl",
    ),
    (
        "time",
        "clock_gettime clock_settime clock_getres clock_adjtime gettimeofday settimeofday adjtimex time times alarm \
         getitimer setitimer timer_create timer_settime timer_gettime timer_getoverrun timer_delete timerfd_create \
         timerfd_settime timerfd_gettime",
    ),
    (
        "wait",
        "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 pause wait4 \
         waitid",
    ),
    ("other", "bpf init_module finit_module delete_module seccomp"),
];

/// Calls that belong to what their descriptor is.
const BY_FILE: &str = "read pread64 preadv preadv2 readv recv recvfrom recvmsg recvmmsg write pwrite64 pwritev pwritev2 \
    writev send sendto sendmsg sendmmsg sendfile splice tee vmsplice close dup dup2 dup3 fcntl ioctl";

/// The category of a call by its name, and for one that reads, writes or closes by what its file descriptor is
/// (`Field::FdType`); `unknown` for a call without a category. Requests of io_uring are of the category of their call.
pub fn call_category(name: &str, fd_type: Option<&str>) -> &'static str {
    let operation = name.strip_prefix("io_uring_").unwrap_or(name);
    let base = match operation {
        "read" | "read_fixed" | "readv_fixed" | "read_multishot" if operation != name => "read",
        "write" | "write_fixed" | "writev_fixed" if operation != name => "write",
        "send_zc" | "sendmsg_zc" => "send",
        "recv_zc" => "recv",
        "poll_add" => "poll",
        _ => operation,
    };
    let among = |list: &str| list.split_ascii_whitespace().any(|one| one == base);
    if among(BY_FILE) {
        return match fd_type {
            Some("file" | "directory" | "char" | "block" | "link" | "memfd") => "file",
            Some("ipv4" | "ipv6") => "net",
            Some("unix" | "pipe" | "event" | "inotify") => "ipc",
            _ => "unknown",
        };
    }
    BY_NAME.iter().find(|(_, list)| among(list)).map_or("unknown", |(category, _)| category)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What sysdig 0.29.3 says of the calls in its public captures (`testdata/sysdig/categories.tsv`).
    #[test]
    fn categories_are_those_of_sysdig() {
        let mut compared = 0;
        for line in
            include_str!("../../../testdata/sysdig/categories.tsv").lines().filter(|line| !line.starts_with('#'))
        {
            let words: Vec<&str> = line.split('\t').collect();
            let [name, fd_type, theirs] = words[..] else { panic!("{line}") };
            let fd_type = Some(fd_type).filter(|fd_type| *fd_type != "<NA>");
            let name = match name {
                "pread" => "pread64",
                "umount" => "umount2",
                name => name,
            };
            assert_eq!(call_category(name, fd_type), theirs.to_lowercase(), "{line}");
            compared += 1;
        }
        assert!(compared > 150, "{compared}");
    }

    #[test]
    fn requests_of_io_uring_are_of_their_call() {
        assert_eq!(call_category("io_uring_read", Some("ipv4")), "net");
        assert_eq!(call_category("io_uring_openat", None), "file");
        assert_eq!(call_category("io_uring_send_zc", Some("ipv6")), "net");
        assert_eq!(call_category("io_uring_enter", None), "unknown");
        assert_eq!(call_category("no_such_call", None), "unknown");
    }
}
