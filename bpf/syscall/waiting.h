/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What waits now: the calls that threads are in, and the requests of io_uring in flight. Run when it is asked for, so that
 * nothing is paid per call.
 */
#ifndef LATSCOPE_WAITING_H
#define LATSCOPE_WAITING_H

struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
	u64 session_id;
} KERNEL;
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} KERNEL;
struct task_struct___before_5_14 {
	long state;
} KERNEL;
enum bpf_func_id { BPF_FUNC_task_pt_regs = 175 };

/* Bits of task_struct.flags: threads of the kernel, of io_uring, and others that never make a call. */
#define PF_IO_WORKER 0x00000010
#define PF_USER_WORKER 0x00004000
#define PF_KTHREAD 0x00200000
/* Bits of task_struct.__state: asleep, whether a signal wakes it or not. */
#define ASLEEP 3

static __always_inline u64 state_of(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return ((struct task_struct___before_5_14 *)task)->state;
}

/*
 * The call that a thread sleeps in, by its registers, -1 when it is in none. A thread that runs may have left its call,
 * and its registers there are those of the last one.
 */
static __always_inline s64 sleeps_in(struct task_struct *task, u64 *arguments)
{
	struct pt_regs *regs;

	if (!bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return -1; /* kernels before 5.15 */
	if (task->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER) || !(state_of(task) & ASLEEP))
		return -1;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	take_arguments(regs, arguments);
	return (s32)number_of(regs);
}

static __always_inline void put_file(struct wait *to, struct file *file)
{
	struct identity is = {};
	struct inode *inode;
	struct super_block *sb;

	if (!file)
		return;
	identify(file, &is);
	put_identity(&to->record, &is);
	inode = READ(struct file, file, f_inode);
	sb = READ(struct inode, inode, i_sb);
	to->magic = READ(struct super_block, sb, s_magic);
}

/* Hands on what waits, with the name of its file. */
static __always_inline void put_wait(struct seq_file *to, struct wait *wait, struct file *file, u64 request)
{
	struct identity is = { .type = wait->record.file_type };
	struct desk *desk = clean(AT_WAITING);
	u32 len;

	if (!desk)
		return;
	if (file && is_named(&is) && lay_file(file, desk))
		walk(AT_WAITING);
	else if (request)
		take_path(request, &wait->record, desk);
	len = desk->len;
	if (len > TEXTS)
		return;
	wait->record.named = desk->named;
	if (len < wait->record.given_len)
		wait->record.given_len = 0;
	wait->record.names_len = len - wait->record.given_len;
	bpf_seq_write(to, wait, sizeof(*wait));
	if (len)
		bpf_seq_write(to, desk->to.texts, len);
}

SEC("iter/task")
int waiting(struct bpf_iter__task *about)
{
	struct task_struct *task = about->task;
	struct wait wait = {};
	struct doing here = {}, *in;
	struct file *file = 0;
	const volatile struct call *call;
	s64 asleep_in;
	bool knows_arguments;
	u32 number;

	if (!task || !is_pid_wanted(&config.threads, task->tgid) || is_foreign(task))
		return 0;
	asleep_in = sleeps_in(task, here.arguments);
	in = bpf_task_storage_get(&doing, task, 0, 0);
	if (in && in->start_ns) {
		/* The end of a call may be lost; then the thread waits in another one. */
		if (asleep_in >= 0 && bounded(asleep_in) != in->call)
			return 0;
		if (config.want_arguments || asleep_in < 0)
			here = *in;
		here.start_ns = in->start_ns;
		here.call = in->call;
	} else if (asleep_in >= 0)
		here.call = bounded(asleep_in); /* begun before anybody looked */
	else
		return 0;
	knows_arguments = config.want_arguments || asleep_in >= 0;
	number = bounded(here.call);
	call = &config.calls[number];
	if (!(call->flags & CALL_WANTED))
		return 0;
	describe(&wait.record, task, &here, number);
	if (!knows_arguments)
		wait.record.size = wait.record.offset = ~0ULL;
	if (here.start_ns)
		wait.record.latency_ns = bpf_ktime_get_ns() - here.start_ns;
	bpf_probe_read_kernel(wait.record.comm, sizeof(wait.record.comm), task->comm);
	read_process_name(task, wait.record.process);
	if (config.want_about) {
		struct known *told = bpf_task_storage_get(&known, task, 0, 0);

		if (told)
			wait.record.about = told->number;
	}
	wait.record.fd = -1;
	if (call->flags & CALL_FD && knows_arguments) {
		wait.record.fd = here.arguments[0];
		file = file_of(task->files, wait.record.fd);
		put_file(&wait, file);
	}
	put_wait(about->meta->seq, &wait, file, 0);
	return 0;
}

/* What is handed on for one task of a look. What does not fit is handed on for the next one. */
struct show {
	struct seq_file *seq;
	u64 look; /* differs between looks and tasks; the same when the kernel repeats a task for want of room */
	u32 texts_len;
	u16 number;
	u16 is_full;
};

/* The kernel has eight pages for a task. */
#define ROOM (8 * 4096 - TEXTS - sizeof(struct wait))

/* The look that has handed on all requests. */
u64 all_shown SEC(".bss.all_shown");

static long show_request(void *map, u64 *key, struct held *held, struct show *show)
{
	struct io_kiocb *request;
	struct wait wait = {};
	struct file *file;

	/* Handed on for another task of this look. */
	if (held->shown >> 32 == show->look >> 32 && held->shown != show->look)
		return 0;
	if (show->number * sizeof(wait) + show->texts_len > ROOM) {
		show->is_full = 1;
		return 1;
	}
	held->shown = show->look;
	wait.record = held->record;
	wait.record.latency_ns = bpf_ktime_get_ns() - wait.record.start_ns;
	request = (struct io_kiocb *)*key;
	file = READ(struct io_kiocb, request, file);
	put_file(&wait, file);
	put_wait(show->seq, &wait, file, *key);
	show->number++;
	show->texts_len += wait.record.given_len + wait.record.names_len;
	return 0;
}

/* Goes over the requests once for each task, since an iterator over a map may be refused where one over tasks is not. */
SEC("iter/task")
int requests_waiting(struct bpf_iter__task *about)
{
	struct task_struct *task = about->task;
	struct show show = { .seq = about->meta->seq };

	if (!task)
		return 0;
	show.look = about->meta->session_id << 32 | (u32)task->pid;
	if (all_shown >> 32 == show.look >> 32 && all_shown != show.look)
		return 0;
	bpf_for_each_map_elem(&requests, show_request, &show, 0);
	if (!show.is_full)
		all_shown = show.look;
	return 0;
}

#endif
