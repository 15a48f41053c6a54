/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Stacks of those who issue requests. The issuer of a slow request is looked at when the request completes: if it still waits
 * in the call in which it issued it, for the first time since, it waits for it, and its stack is where. Otherwise it has moved
 * on, and what it does now is not to be taken for the cause; then only a stack that was taken at the issue can be had, which
 * costs some microseconds, so that one request in so many has one.
 */
#ifndef LATSCOPE_BLOCK_STACKS_H
#define LATSCOPE_BLOCK_STACKS_H

/* A request with the stack of its issuer, or the stack of an issue. */
struct stacked_record {
	struct block_record record;
	struct stack_record stack;
	u8 bytes[KERNEL_FRAMES * sizeof(u64) + USER_PAGES * PAGE];
};
/* Bytes of a kernel stack, which are whole words; the verifier does not know. */
#define KERNEL_MASK 0x3f8
/* Programs for completions may interrupt those for issues. */
enum { DESK_ISSUE, DESK_COMPLETION, DESKS };
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, DESKS);
	__type(key, u32);
	__type(value, struct stacked_record);
} stack_desks SEC(".maps");

/* Number of the last stack of an issue. */
u32 last_issued SEC(".data.last_issued") = 0;

extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym __weak;
extern void bpf_task_release(struct task_struct *task) __ksym __weak;
#include "return.h"

/* One number of several; the products do not wait for each other. */
#define MIX(a, b, c, d) ((a) * 0x9e3779b97f4a7c15 + (b) * 0xbf58476d1ce4e5b9 + (c) * 0x94d049bb133111eb + (d) * 0xd6e8feb86659fd93)

static __always_inline struct stacked_record *stack_desk(u32 which)
{
	return bpf_map_lookup_elem(&stack_desks, &which);
}

/*
 * The registers of a thread when it entered the kernel. The helper that knows takes longer than all that is done with them, and the
 * place is the same for all threads. A pointer becomes a number by being stored: on a desk, in a field that is filled last.
 */
static __always_inline struct pt_regs *regs_of(struct task_struct *task, u32 which)
{
	u64 stack = (u64)task->stack;
	u32 at = hot.regs_at;

	if (__builtin_expect(!at, 0)) {
		struct stacked_record *desk = stack_desk(which);

		if (desk) {
			*(volatile u64 *)&desk->record.queue_ns = bpf_task_pt_regs(task);
			at = *(volatile u64 *)&desk->record.queue_ns - stack;
			hot.regs_at = at;
		}
	}
	return (struct pt_regs *)(stack + at);
}

/*
 * Tells a wait of a thread from others: by how often it had waited, and by the system call: where it was made, with which stack,
 * which it is, and its second argument. Every request pays for each of them.
 */
static __always_inline u32 wait_of(struct task_struct *task, u64 waits, u32 desk)
{
	struct pt_regs *regs = regs_of(task, desk);
	u64 all;

	if (bpf_core_field_exists(regs->orig_ax)) {
		u64 call = READ(struct pt_regs, regs, orig_ax) << 32 ^ READ(struct pt_regs, regs, si);

		all = MIX(READ(struct pt_regs, regs, ip), READ(struct pt_regs, regs, sp), call, waits);
	} else {
		struct pt_regs___arm64 *arm = (void *)regs;
		u64 call = (u64)READ(struct pt_regs___arm64, arm, syscallno) << 32 ^ READ(struct pt_regs___arm64, arm, regs[1]);

		all = MIX(READ(struct pt_regs___arm64, arm, pc), READ(struct pt_regs___arm64, arm, sp), call, waits);
	}
	/* Not 0, which stands for no thread. */
	return (u32)(all >> 32) | 1;
}

static __always_inline bool put_kernel(struct task_struct *task, struct stacked_record *to)
{
	long len = bpf_get_task_stack(task, to->bytes, KERNEL_FRAMES * sizeof(u64), 0);

	if (len <= 0 || len > (long)(KERNEL_FRAMES * sizeof(u64)))
		return false;
	to->stack.kernel_len = len;
	return true;
}

/* Hands on where the present thread issues a request; the number of the stack, 0 when there is no room. */
static __always_inline u32 hand_on_issue(struct task_struct *task)
{
	struct stacked_record *to = stack_desk(DESK_ISSUE);
	u32 number, len;

	if (!to)
		return 0;
	put_thread(task, &to->stack, FROM_ISSUE);
	to->stack.stamp_ns = to->stack.copied_ns = bpf_ktime_get_ns();
	to->stack.state = 0;
	to->stack.flags |= FLAG_RUNNING;
	put_kernel(task, to);
	len = to->stack.kernel_len & KERNEL_MASK;
	if (!(to->stack.flags & FLAG_KTHREAD)) {
		put_registers(task, &to->stack);
		if (config.user_stacks && len <= KERNEL_FRAMES * sizeof(u64)) {
			u32 user = COPY_USER_STACK(to->bytes + len, to->stack.sp, COPY_OF_CURRENT);

			to->stack.user_pages = user / PAGE;
			to->stack.user_len = user;
			len += user;
		}
	}
	len += sizeof(struct stack_record);
	if (len > sizeof(*to) - sizeof(struct block_record))
		return 0;
	number = __sync_fetch_and_add(&last_issued, 1) + 1;
	to->record.letters = LETTERS_ISSUED;
	to->record.issued = number;
	to->record.texts_len = len;
	if (bpf_ringbuf_output(&events, to, sizeof(struct block_record) + len, SUBMIT_FLAGS))
		return 0;
	return number;
}

/* What is remembered of the present thread, which issues a request. */
static __always_inline void look_at_issue(struct task_struct *task, struct block_issuer *to)
{
	/* Threads of the kernel work for others, one request after the other. */
	if (!is_kthread(task))
		to->wait = wait_of(task, task->nvcsw + 1, DESK_ISSUE);
	if (config.issue_one_in && (config.issue_one_in == 1 || !(bpf_get_prandom_u32() % config.issue_one_in)))
		to->issued = hand_on_issue(task);
}

/* The first of the requests that this flush, which was just issued, is for; 0 when it is none that the kernel made of them. */
static __always_inline u64 flush_is_for(struct request *rq)
{
	struct blk_flush_queue *queue = BPF_CORE_READ(rq, mq_hctx, fq);
	u64 head, first = 0, link;

	if (!queue)
		return 0;
	head = (u64)queue + bpf_core_field_offset(struct blk_flush_queue, flush_queue);
	if (BPF_CORE_READ_BITFIELD_PROBED(queue, flush_running_idx))
		head += bpf_core_type_size(struct list_head);
	if (bpf_probe_read_kernel(&first, sizeof(first), (void *)head) || !first || first == head)
		return 0;
	if (bpf_core_field_exists(((struct request___before_6_6 *)0)->flush.list))
		link = bpf_core_field_offset(struct request___before_6_6, flush.list);
	else
		link = bpf_core_field_offset(struct request, queuelist);
	return first - link;
}

/*
 * The kernel makes one request of the flushes of several, and issues it from a thread of its own. Who submitted the first of
 * these waits for it, like the others.
 */
static __always_inline void look_at_flush(struct request *rq, struct block_issuer *to)
{
	u64 key = flush_is_for(rq);
	struct block_issuer *first = key ? bpf_map_lookup_elem(&in_flight, &key) : 0;

	if (!first || first->dev != to->dev)
		return;
	to->cgroup = first->cgroup;
	to->issued = first->issued;
	to->wait = first->wait;
	to->pid = first->pid;
	to->tid = first->tid;
	to->about = first->about;
	__builtin_memcpy(to->comm, first->comm, sizeof(to->comm));
	__builtin_memcpy(to->process, first->process, sizeof(to->process));
}

/*
 * Whether the issuer of a request that completed at this time is looked at, and why: enum looked. Every request pays for this, so
 * its time, multiplied, stands for a random number: requests at equal distances are spread evenly.
 */
static __always_inline u32 is_looked_at(u64 latency_ns, u64 end_ns, u32 fast_looks)
{
	if (latency_ns >= config.slow_stack_ns)
		return LOOKED_SLOW;
	return (u32)(end_ns * 0x9e3779b97f4a7c15 >> 32) < fast_looks ? LOOKED_FAST : LOOKED_NOT;
}

/* Whether a thread waits, in this call, and has done so once since it issued a request. */
static __always_inline bool waits_for(struct task_struct *task, const struct block_issuer *issued)
{
	u32 state = task->__state;

	return !task->on_cpu && state & (DISK_SLEEP | SLEEP) && !(state & NOLOAD) &&
	       wait_of(task, task->nvcsw, DESK_COMPLETION) == issued->wait;
}

struct returned_record {
	struct block_record record;
	struct stack_record stack;
	u8 user[USER_PAGES * PAGE];
};

/* A thread goes back to user space, see bpf/stacks/stacks.bpf.c. */
static int returned(struct bpf_map *map, void *key, void *value)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct returned_record *to = bpf_ringbuf_reserve(&events, sizeof(*to), 0);
	u32 tid = task->pid;

	bpf_map_delete_elem(&returning, &tid);
	if (!to)
		return 0;
	to->record.letters = LETTERS_RETURNED;
	to->record.texts_len = sizeof(*to) - sizeof(to->record);
	put_thread(task, &to->stack, FROM_RETURN);
	to->stack.stamp_ns = to->stack.copied_ns = bpf_ktime_get_ns();
	to->stack.state = 0;
	put_registers(task, &to->stack);
	to->stack.user_pages = COPY_USER_STACK(to->user, to->stack.sp, COPY_OF_CURRENT) / PAGE;
	to->stack.user_len = sizeof(to->user);
	bpf_ringbuf_submit(to, SUBMIT_FLAGS);
	return 0;
}

/* Copies the user stack of a thread that waits behind its kernel stack. */
static __always_inline void put_user(struct task_struct *task, struct stacked_record *to)
{
	struct mm_struct *mm = task->mm;
	u32 len = to->stack.kernel_len & KERNEL_MASK, user;

	if (!mm || IS_CHANGED(mm) || len > KERNEL_FRAMES * sizeof(u64))
		return;
	user = COPY_USER_STACK(to->bytes + len, to->stack.sp, COPY_OF_TASK);
	to->stack.user_pages = user / PAGE;
	to->stack.user_len = user;
}

/*
 * Puts the stack of the issuer of a request there, if it still waits for it. That of one that `hangs` is taken at once: it may never
 * return. Others show their user stack when they do.
 */
static __always_inline bool put_issuer(const struct block_issuer *issued, struct stacked_record *to, const bool hangs)
{
	struct task_struct *task;
	bool waits = false;

	if (!bpf_task_from_pid || !bpf_task_release || !issued->wait)
		return false;
	task = bpf_task_from_pid(issued->tid);
	if (!task)
		return false;
	if (waits_for(task, issued)) {
		put_thread(task, &to->stack, FROM_COMPLETION);
		to->stack.state = task->__state;
		to->stack.stamp_ns = bpf_ktime_get_ns();
		put_registers(task, &to->stack);
		if (put_kernel(task, to)) {
			if (hangs && config.user_stacks)
				put_user(task, to);
			/* A signal may have woken it meanwhile. */
			waits = waits_for(task, issued);
		}
		to->stack.copied_ns = bpf_ktime_get_ns();
		if (waits && !hangs && config.user_stacks)
			ON_RETURN(task, to->stack.tid, to->stack.switches, returned);
	}
	bpf_task_release(task);
	return waits;
}

/* A desk with the stack of the issuer of a request, which has completed, if it still waits for it; else null. */
static __always_inline struct stacked_record *stack_of_waiting(const struct block_issuer *issued)
{
	struct stacked_record *desk = stack_desk(DESK_COMPLETION);

	return desk && put_issuer(issued, desk, false) ? desk : 0;
}

/* The stack of the issuer of a request that user space asked for. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct stacked_record);
} hung SEC(".maps");

#endif
