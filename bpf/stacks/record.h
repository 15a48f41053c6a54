/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A thread at a moment, with its stacks: what user space gets of it (crates/capture-bpf/src/stacks/shared.rs). */
#ifndef LATSCOPE_STACK_RECORD_H
#define LATSCOPE_STACK_RECORD_H

/* Frames of a kernel stack, and bytes of a user stack: whole pages from the one that the stack pointer is in. */
#define KERNEL_FRAMES 64
#define PAGE 4096
#define USER_PAGES 4
#define COMM 16
#define CALLS 512

/* Where a record comes from. */
enum { FROM_SAMPLER, FROM_SWITCH, FROM_TIMER, FROM_RETURN, FROM_ISSUE, FROM_COMPLETION };

enum flag {
	FLAG_SAME = 1, /* the wait is known already: only the first fields are filled */
	FLAG_IOWAIT = 2, /* the scheduler counts the thread as waiting for I/O */
	FLAG_KTHREAD = 4,
	FLAG_RUNNING = 8, /* on a CPU */
	FLAG_NO_COPY = 16, /* its user stack is to be had in a later pass */
	FLAG_NOT_DRAWN = 32, /* so it is, as others were drawn in this one */
};

struct stack_record {
	u64 stamp_ns; /* when its state was read, when it got a CPU again, when the timer fired */
	u64 switches; /* of its context, and when it started: equal numbers mean the same wait */
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
	u8 user_pages; /* of what follows of the user stack, these are filled */
	u16 kernel_len; /* what follows, in bytes: addresses of the kernel stack, the innermost first, */
	u16 names_len; /* names from the file up to the root, a slash behind each, */
	u16 user_len; /* and the user stack from the start of the page of `sp` */
};

#endif
