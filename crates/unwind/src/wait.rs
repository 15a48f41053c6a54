//! What a thread waits for, from the functions of the kernel that it waits in. The rules are a table of data,
//! `wait_classes.txt`, which says how it is written.

use crate::kernel::base;
use std::sync::OnceLock;

struct Rule {
    class: &'static str,
    /// The first pattern has to be the innermost function.
    anchored: bool,
    /// From the inside to the outside; other functions may be between.
    patterns: Vec<&'static str>,
}

fn rules() -> &'static [Rule] {
    static RULES: OnceLock<Vec<Rule>> = OnceLock::new();
    RULES.get_or_init(|| {
        let lines = include_str!("wait_classes.txt").lines().map(|line| line.split('#').next().unwrap_or("").trim());
        let rule = |line: &'static str| {
            let (class, functions) = line.split_once(':')?;
            let functions = functions.trim();
            let anchored = functions.starts_with('^');
            let patterns = functions.trim_start_matches('^').split("<-").map(str::trim).collect();
            Some(Rule { class: class.trim(), anchored, patterns })
        };
        lines.filter_map(rule).collect()
    })
}

/// The classes that have a name, each once, in the order of the table. Other waits are called by their innermost function.
pub fn classes() -> Vec<&'static str> {
    let mut classes = Vec::new();
    for rule in rules() {
        if !classes.contains(&rule.class) {
            classes.push(rule.class);
        }
    }
    classes
}

/// The class of threads of the kernel that wait for work.
pub const IDLE: &str = "idle";

/// The class of threads that a signal or a debugger stopped, wherever they were.
pub const STOPPED: &str = "stopped";

/// Whether a function only hands a system call on: after a stop, some calls are started again beneath nothing else.
pub fn is_entry(function: &str) -> bool {
    matches!(
        function,
        "do_syscall_64" | "x64_sys_call" | "entry_SYSCALL_64_after_hwframe" | "invoke_syscall" | "do_el0_svc"
    )
}

fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(part), Some(_)) => name.contains(part.trim_end_matches('*')),
        (Some(end), None) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == pattern,
    }
}

/// What a stack of functions waits for, the innermost first and without the scheduler.
pub fn class<'a>(functions: &[&'a str]) -> &'a str {
    // The main function of a thread of the kernel that waits itself, not in something that it called, waits for work.
    if let [_, rest @ ..] = functions
        && rest.first().is_some_and(|&outer| matches!(base(outer), "kthread" | "ret_from_fork"))
    {
        return IDLE;
    }
    for rule in rules() {
        let mut patterns = rule.patterns.iter();
        let mut wanted = patterns.next();
        for (depth, function) in functions.iter().enumerate() {
            let Some(pattern) = wanted else { break };
            if matches(pattern, base(function)) {
                wanted = patterns.next();
            } else if depth == 0 && rule.anchored {
                break;
            }
        }
        if wanted.is_none() {
            return rule.class;
        }
    }
    functions.iter().map(|function| base(function)).find(|function| !function.is_empty()).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_in_the_reference() {
        let page = include_str!("../../../docs/reference/wait-classes.md");
        for class in classes() {
            assert!(page.contains(&format!("`{class}`")), "{class}");
        }
    }

    #[test]
    fn what_stops_a_thread_is_a_class() {
        assert!(classes().contains(&STOPPED) && classes().contains(&IDLE));
        assert!(is_entry("do_syscall_64") && !is_entry("do_nanosleep"));
    }

    /// Stacks as Linux 6.18 gives them, innermost first.
    #[test]
    fn stacks_of_a_kernel_have_their_classes() {
        for (stack, wanted) in [
            ("submit_bio_wait __blkdev_direct_IO_simple blkdev_read_iter vfs_read", "direct read"),
            ("__iomap_dio_rw iomap_dio_rw ext4_file_read_iter vfs_read", "direct read"),
            (
                "folio_wait_writeback __filemap_fdatawait_range filemap_fdatawait_keep_errors sync_inodes_sb __iterate_supers ksys_sync",
                "sync",
            ),
            ("__iomap_dio_rw iomap_dio_rw xfs_file_dio_read xfs_file_read_iter", "direct read"),
            ("__iomap_dio_rw iomap_dio_rw ext4_dio_write_iter vfs_write", "direct write"),
            ("submit_bio_wait __blkdev_direct_IO_simple blkdev_write_iter vfs_write", "direct write"),
            ("folio_wait_bit_common filemap_get_pages filemap_read vfs_read", "page-cache miss"),
            ("folio_wait_bit_common filemap_fault __do_fault handle_mm_fault", "mmap fault"),
            (
                "folio_wait_bit_common folio_wait_writeback __filemap_fdatawait_range file_write_and_wait_range ext4_sync_file do_fsync",
                "fsync data",
            ),
            ("jbd2_log_wait_commit ext4_sync_file do_fsync", "journal commit"),
            ("submit_bio_wait blkdev_issue_flush ext4_sync_file do_fsync", "device flush"),
            ("rq_qos_wait.isra.0 wbt_wait __rq_qos_throttle blk_mq_submit_bio", "writeback throttle"),
            ("blk_mq_get_tag __blk_mq_alloc_requests blk_mq_submit_bio", "device queue full"),
            ("balance_dirty_pages balance_dirty_pages_ratelimited_flags generic_perform_write", "dirty throttle"),
            ("read_events do_io_getevents __x64_sys_io_getevents", "libaio"),
            ("io_cqring_wait __do_sys_io_uring_enter", "io_uring"),
            (
                "folio_wait_bit folio_wait_writeback __filemap_fdatawait_range file_write_and_wait_range ext4_sync_file",
                "fsync data",
            ),
            (
                "__sync_dirty_buffer ext4_write_inode __writeback_single_inode generic_buffers_fsync_noflush",
                "fsync metadata",
            ),
            ("jbd2_journal_wait_updates jbd2_journal_commit_transaction kjournald2 kthread", "journal commit"),
            ("submit_bio_wait blkdev_issue_flush jbd2_cleanup_journal_tail __jbd2_log_wait_for_space", "journal space"),
            ("wait_transaction_locked add_transaction_credits start_this_handle jbd2__journal_start", "journal space"),
            ("do_get_write_access jbd2_journal_get_write_access __ext4_mark_inode_dirty ext4_unlink", "journal buffer"),
            ("rq_qos_wait wbt_wait blk_mq_submit_bio submit_bio_wait blkdev_issue_flush", "writeback throttle"),
            ("ext4_wait_block_bitmap ext4_mb_init_cache ext4_map_blocks ext4_writepages", "metadata read"),
            ("kjournald2 kthread ret_from_fork", "idle"),
            ("rcu_gp_fqs_loop rcu_gp_kthread kthread", "idle"),
            ("anon_pipe_read vfs_read ksys_read", "pipe read"),
            ("poll_schedule_timeout.constprop.0 do_select core_sys_select", "poll"),
            ("hrtimer_nanosleep common_nsleep __x64_sys_clock_nanosleep", "sleep"),
            ("do_wait kernel_wait4 do_syscall_64", "child process"),
            ("sigsuspend.isra.0 __x64_sys_rt_sigsuspend", "signal"),
            ("futex_do_wait __futex_wait futex_wait do_futex", "futex"),
            ("futex_wait_queue __futex_wait futex_wait do_futex", "futex"),
            ("worker_thread kthread ret_from_fork", "idle"),
            ("submit_bio_wait journal_x kthread ret_from_fork", "other block I/O"),
            ("io_schedule blkdev_direct_IO blkdev_read_iter aio_read", "direct read"),
            ("percpu_rwsem_wait vfs_write ksys_write", "frozen file system"),
            ("percpu_rwsem_wait mnt_want_write path_openat do_filp_open", "frozen file system"),
            ("percpu_rwsem_wait ext4_page_mkwrite do_page_mkwrite do_fault", "frozen file system"),
            ("percpu_rwsem_wait do_ftruncate do_sys_ftruncate", "frozen file system"),
            ("percpu_rwsem_wait cgroup_procs_write_start kernfs_fop_write_iter vfs_write", "kernel lock"),
            ("strange_function.constprop.0 do_syscall_64", "strange_function"),
            ("", ""),
        ] {
            let functions: Vec<&str> = stack.split_ascii_whitespace().collect();
            assert_eq!(class(&functions), wanted, "{stack}");
        }
    }
}
