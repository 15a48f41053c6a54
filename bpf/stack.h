/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A thread as a record with its stacks: what the probe of stacks and that of block requests share. */
#ifndef LATSCOPE_STACK_H
#define LATSCOPE_STACK_H

#include "stacks/record.h"

struct kernfs_node {
	u64 id;
} KERNEL;
struct cgroup {
	struct kernfs_node *kn;
} KERNEL;
struct css_set {
	struct cgroup *dfl_cgrp;
} KERNEL;
typedef struct {
	s64 counter;
} atomic_long_t;
struct rw_semaphore {
	atomic_long_t count;
} KERNEL;
struct mm_struct___locked {
	struct rw_semaphore mmap_lock;
} KERNEL;
struct rq {
	unsigned int nr_running;
	u64 clock, clock_task;
} KERNEL;
struct cfs_rq {
	struct rq *rq;
} KERNEL;
struct sched_entity {
	struct cfs_rq *cfs_rq;
	u64 exec_start;
} KERNEL;
struct sched_info {
	unsigned long long run_delay, last_arrival, last_queued;
} KERNEL;
struct task_struct {
	struct sched_entity se;
	struct sched_info sched_info;
	unsigned int __state;
	unsigned int flags;
	int on_cpu;
	int exit_state;
	int pid;
	int tgid;
	unsigned long nvcsw, nivcsw;
	void *stack;
	u64 start_boottime;
	u64 self_exec_id;
	unsigned in_iowait : 1;
	char comm[COMM];
	struct task_struct *group_leader;
	struct mm_struct *mm;
	struct files_struct *files;
	struct css_set *cgroups;
} KERNEL;
struct pt_regs {
	unsigned long bp, dx, si, di, orig_ax, ip, sp;
} KERNEL;
struct pt_regs___arm64 {
	u64 regs[31];
	u64 sp, pc;
	s32 syscallno;
} KERNEL;

/* Bits of task_struct.flags: threads of the kernel, of io_uring, and others that have no stack in user space. */
#define PF_IO_WORKER 0x00000010
#define PF_USER_WORKER 0x00004000
#define PF_KTHREAD 0x00200000
/* Bits of task_struct.__state. */
#define SLEEP 1
#define DISK_SLEEP 2
#define NOLOAD 0x400 /* it waits for work, not for a disk */

/* How often a thread was switched. Its start is in it, as a new thread with the number of an old one may have been switched as often. */
static __always_inline u64 switches_of(struct task_struct *task)
{
	return task->nvcsw + task->nivcsw + (task->start_boottime << 16);
}

static __always_inline bool is_kthread(struct task_struct *task)
{
	return task->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER);
}

static __always_inline u64 group_of(struct task_struct *task)
{
	return task->cgroups->dfl_cgrp->kn->id;
}

/* Of a process and of the program that it executes. */
static __always_inline u64 process_start_of(struct task_struct *task)
{
	return task->group_leader->start_boottime + task->self_exec_id;
}

/* Describes a thread, of which there are neither stacks nor a file yet. */
static __always_inline void put_thread(struct task_struct *task, struct stack_record *to, u32 source)
{
	struct task_struct *leader = task->group_leader;

	to->switches = switches_of(task);
	to->tid = task->pid;
	to->pid = task->tgid;
	to->flags = is_kthread(task) ? FLAG_KTHREAD : 0;
	to->source = source;
	to->named = 0;
	to->since_ns = 0;
	to->woken_ns = 0;
	to->process_start = process_start_of(task);
	to->cgroup = group_of(task);
	to->ip = to->sp = to->fp = to->lr = 0;
	bpf_probe_read_kernel(to->comm, sizeof(to->comm), task->comm);
	bpf_probe_read_kernel(to->process, sizeof(to->process), leader->comm);
	to->call = -1;
	to->fd = -1;
	to->dev = 0;
	to->cpu = bpf_get_smp_processor_id();
	to->file_type = 0;
	to->user_pages = 0;
	to->kernel_len = 0;
	to->names_len = 0;
	to->user_len = 0;
}

/* The registers that a thread has in user space, and the call that it is in; its first argument. */
static __always_inline u64 put_registers(struct task_struct *task, struct stack_record *to)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	u64 number;
	u64 first;

	if (bpf_core_field_exists(regs->orig_ax)) {
		to->ip = regs->ip;
		to->sp = regs->sp;
		to->fp = regs->bp;
		number = regs->orig_ax;
		first = regs->di;
	} else {
		struct pt_regs___arm64 *arm = (void *)regs;

		to->ip = arm->pc;
		to->sp = arm->sp;
		to->fp = arm->regs[29];
		to->lr = arm->regs[30];
		number = (u64)(s64)arm->syscallno;
		first = arm->regs[0];
	}
	if (number < CALLS)
		to->call = number;
	return first;
}

/* Copies pages of a user stack, from the one that `sp` is in, by `copy(to, from)`, until one is not there; how many bytes. */
#define COPY_USER_STACK(to, sp, copy)                                                                 \
	({                                                                                            \
		u64 copy_from = (sp) & ~(u64)(PAGE - 1);                                              \
		u32 copy_page;                                                                        \
                                                                                                      \
		for (copy_page = 0; copy_page < USER_PAGES; copy_page++)                              \
			if (copy((to) + copy_page * PAGE, (void *)(copy_from + copy_page * PAGE)))    \
				break;                                                                \
		copy_page * PAGE;                                                                     \
	})
/*
 * Whether the memory map of a process is being changed, by the word of its lock: a writer has it, others wait for it. To read the
 * memory of another process takes that lock, for which the reader would wait as long as the disk of the writer does not answer.
 */
#define CONTENDED 3
#define IS_CHANGED(mm) (((struct mm_struct___locked *)(mm))->mmap_lock.count.counter & CONTENDED)
#define COPY_OF_TASK(to, from) bpf_copy_from_user_task(to, PAGE, from, task, 0)
#define COPY_OF_CURRENT(to, from) bpf_probe_read_user(to, PAGE, from)

#endif
