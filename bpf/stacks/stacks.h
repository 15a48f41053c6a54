/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the programs and user space (crates/capture-bpf/src/stacks/shared.rs) share; the layout is tested. */
#ifndef LATSCOPE_STACKS_H
#define LATSCOPE_STACKS_H

#include "file_types.h"
#include "texts.h"

/* Frames of a kernel stack, and bytes of a user stack: whole pages from the one that the stack pointer is in. */
#define KERNEL_FRAMES 64
#define PAGE 4096
#define USER_PAGES 4

#define PIDS 16
#define COMMS 8
#define COMM 16
#define CALLS 512

/* Bits of config.calls. */
enum {
	CALL_FD = 1, /* its first argument is a file descriptor */
	CALL_ASYNC = 2, /* it waits for completions of requests that the thread handed in before */
};

enum counter {
	COUNT_RING_FULL,
	COUNT_SEEN, /* tasks looked at by the sampler */
	COUNT_CAPPED, /* samples without a user stack, as the pass had copied enough */
	COUNT_MOVED, /* samples dropped, as the thread went on while it was looked at */
	COUNT_LOCKED, /* samples without a user stack, as somebody changes the memory map of the process */
	COUNT_COPIED, /* bytes of user stacks */
	COUNT_SHORT, /* waits below the threshold */
	COUNT_SHORT_NS, /* and their time */
	COUNT_LEN,
};

struct config {
	u64 threshold_ns; /* of waits that the scheduler tells of */
	u8 comms[COMMS][COMM];
	u8 processes[COMMS][COMM];
	u32 pids[PIDS];
	u32 comms_len;
	u32 processes_len;
	u32 pids_len;
	u32 own_pid;
	u32 user_stacks;
	u32 all_threads; /* not only those that wait for I/O */
	u32 copies; /* user stacks that one pass copies at most */
	u32 want_file;
	u8 calls[CALLS];
};

/* Where a record comes from. */
enum { FROM_SAMPLER, FROM_SWITCH, FROM_TIMER, FROM_RETURN };

enum flag {
	FLAG_SAME = 1, /* the wait is known already: only the first fields are filled */
	FLAG_IOWAIT = 2, /* the scheduler counts the thread as waiting for I/O */
	FLAG_KTHREAD = 4,
	FLAG_RUNNING = 8, /* on a CPU */
	FLAG_NO_COPY = 16, /* its user stack is to be had in a later pass */
};

struct stack_record {
	u64 stamp_ns; /* when its state was read, when it got a CPU again, when the timer fired */
	u64 switches; /* of its context: equal numbers mean the same wait */
	u32 tid;
	u32 pid;
	u32 state; /* bits of task_struct.__state */
	u16 flags;
	u8 source;
	u8 named; /* bits of enum named */
	u64 since_ns; /* when it left the CPU, 0 where nobody looked */
	u64 woken_ns; /* when it could have run again, 0 where nobody looked */
	u64 copied_ns; /* when its stacks were copied */
	u64 process_start; /* of its process and of the program that it executes */
	u64 cgroup;
	u64 ip; /* in user space */
	u64 sp;
	u64 fp;
	u64 lr;
	u8 comm[COMM];
	u8 process[COMM]; /* the name of the main thread */
	s32 call; /* -1 when it is in none */
	s32 fd; /* -1 when there is none */
	u32 dev; /* of its file: major << 20 | minor; 0 when it lies on no device */
	u32 cpu;
	u8 file_type;
	u8 unused[1];
	u16 kernel_len; /* what follows, in bytes: addresses of the kernel stack, the innermost first, */
	u16 names_len; /* names from the file up to the root, a slash behind each, */
	u16 user_len; /* and the user stack from the start of the page of `sp` */
};

#endif
