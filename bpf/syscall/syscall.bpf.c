// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * System calls and requests of io_uring, as events or as histograms.
 *
 * A call's start and arguments lie in the storage of its thread, which goes with the thread: nothing leaks, and the
 * child of a clone does not inherit its parent's stamp. Which calls are wanted, and where their arguments are, is a
 * table that user space fills by number, as numbers differ between machines.
 */
#include "core.h"
#include "hist.h"
#include "syscall.h"
#include "names.h"
#include "file.h"
#include "socket.h"

struct thread_info {
	unsigned long flags;
	u32 status; /* x86 only */
} KERNEL;
struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int flags;
	int pid;
	int tgid;
	char comm[COMM];
	struct files_struct *files;
	struct fs_struct *fs;
} KERNEL;
struct pt_regs {
	unsigned long r10, r9, r8, dx, si, di, orig_ax;
} KERNEL;
struct pt_regs___arm64 {
	u64 regs[31];
	s32 syscallno;
} KERNEL;
CONFIG(struct config);

/* The call that a thread is in. */
struct doing {
	u64 start_ns; /* 0 when it is in none */
	u64 arguments[ARGUMENTS];
	u32 call;
	u32 unused;
	struct file *file; /* behind its descriptor when it began: another thread may put another there */
	struct identity closes;
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct doing);
} doing SEC(".maps");

/* The name of the file that a thread is about to close. */
#define CLOSING 1024
struct closing {
	u32 len;
	u32 named;
	u8 names[CLOSING];
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct closing);
} closing SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

_Static_assert(sizeof(struct key) == 8 && sizeof(struct hist) == 40, "as shared.rs has them");
#define HIST_BYTES (sizeof(struct hist) + 4 * HIST_MAX_LEN)
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, HIST_BYTES);
} by_call SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(struct key));
	__uint(value_size, HIST_BYTES);
} by_file SEC(".maps");
/* The epoch of the histograms, see hist.h. */
volatile u32 epoch SEC(".data.epoch") = 1;
/* Calls that were counted, so that user space reads only their histograms of `by_call`. */
u8 touched[CALLS] SEC(".data.touched") = {};
/* A histogram of nothing, from which new ones are made: it does not fit on the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, HIST_BYTES);
} empty SEC(".maps");

/* Hands on what is known of a process; whether there was room. */
static __always_inline bool put_about(struct desk *desk)
{
	struct record *record = &desk->to.record;
	u32 len = desk->len;

	if (len > TEXTS)
		return false;
	record->call = CALL_ABOUT;
	record->pid = bpf_get_current_pid_tgid() >> 32;
	record->named = 0;
	record->given_len = 0;
	record->names_len = len;
	return !bpf_ringbuf_output(&events, &desk->to, sizeof(*record) + len, SUBMIT_FLAGS);
}

#include "about.h"

/* How many events this one stands for; 0 when it is not wanted. */
static __always_inline u32 sample_weight_of(u64 latency_ns)
{
	if (latency_ns < config.min_latency_ns)
		return 0;
	if (!config.one_in || latency_ns >= config.slow_ns)
		return 1;
	return bpf_get_prandom_u32() % config.one_in ? 0 : config.one_in;
}

static __always_inline void add_by_file(struct key *key, u64 latency_ns, u64 bytes, u32 now)
{
	struct hist *hist = bpf_map_lookup_elem(&by_file, key);
	u32 zero = 0;

	if (!hist) {
		void *fresh = bpf_map_lookup_elem(&empty, &zero);

		if (!fresh)
			return;
		bpf_map_update_elem(&by_file, key, fresh, BPF_NOEXIST);
		hist = bpf_map_lookup_elem(&by_file, key);
	}
	if (hist)
		hist_add(hist, latency_ns, bytes, now, config.power);
	else
		count(COUNT_KEYS_FULL);
}

/* The last bits of a kernel device number are the minor one, wherever user space is told otherwise. */
static __always_inline void tally(u32 number, const struct identity *is, u64 latency_ns, s64 result)
{
	const volatile struct call *call = &config.calls[number];
	u64 bytes = call->flags & CALL_MOVES && result > 0 ? result : 0;
	u32 now = epoch;

	if (config.mode == MODE_BY_CALL) {
		u32 slot = call->slot << 1 | (now & 1);
		struct hist *hist = bpf_map_lookup_elem(&by_call, &slot);

		if (!hist)
			return;
		hist_add(hist, latency_ns, bytes, now, config.power);
		/* Looked at first, as a line that all CPUs write would be slow. */
		if (!touched[number])
			touched[number] = 1;
	} else {
		struct key key = { .dev = is->dev, .call = number, .file_type = is->type, .half = now & 1 };

		add_by_file(&key, latency_ns, bytes, now);
	}
}

static __always_inline void put_identity(struct record *to, const struct identity *is)
{
	to->inode = is->inode;
	to->dev = is->dev;
	to->generation = is->generation;
	to->file_type = is->type;
}

static __always_inline u64 argument(const struct doing *in, u32 at)
{
	return at < ARGUMENTS ? in->arguments[at] : ~0ULL;
}

/* The descriptor of a call, -1 when it has none (so far). */
static __always_inline s32 fd_of(u16 flags, const struct doing *in, s64 result)
{
	if (flags & CALL_FD)
		return in->arguments[0];
	return flags & CALL_RETURNS_FD && result >= 0 ? result : -1;
}

static __always_inline void describe(struct record *to, struct task_struct *task, const struct doing *in, u32 number)
{
	const volatile struct call *call = &config.calls[number];

	to->start_ns = in->start_ns;
	to->size = argument(in, call->size_at);
	to->offset = argument(in, call->offset_at);
	to->cgroup = 0;
	to->pid = task->tgid;
	to->tid = task->pid;
	to->call = number;
	to->named = 0;
	to->given_len = 0;
	to->names_len = 0;
	to->about = 0;
	to->cpu = 0;
}

/* What is known of a call that returned. */
struct outcome {
	u64 latency_ns;
	s64 result;
	u64 comm[2];
	u64 process[2];
	s32 fd;
	u32 sample_weight;
	u32 about;
	struct file *file; /* null when it has none, or is closed */
	bool lost; /* another thread closed it meanwhile */
	const struct identity *is;
};

static __always_inline void fill(struct record *to, struct task_struct *task, const struct doing *in, u32 number,
				 const struct outcome *out)
{
	describe(to, task, in, number);
	put_identity(to, out->is);
	__builtin_memcpy(to->comm, out->comm, sizeof(out->comm));
	__builtin_memcpy(to->process, out->process, sizeof(out->process));
	to->latency_ns = out->latency_ns;
	to->result = out->result;
	to->fd = out->fd;
	to->sample_weight = out->sample_weight;
	to->about = out->about;
	if (config.want_cpu)
		to->cpu = bpf_get_smp_processor_id();
	if (config.want_cgroup)
		to->cgroup = bpf_get_current_cgroup_id();
}

#include "desk.h"

/* An event and what its file is called. */
static __always_inline void emit_named(struct task_struct *task, const struct doing *in, u32 number, struct outcome *out)
{
	const volatile struct call *call = &config.calls[number];
	struct desk *desk = clean(AT_EXIT);
	struct file *file = config.want_path && is_named(out->is) ? out->file : 0;
	bool is_socket = config.want_ends && has_ends(out->is->type);
	struct ends ends = {};
	u32 given_len = 0;
	bool up = false;

	if (!desk)
		return;
	fill(&desk->to.record, task, in, number, out);
	if (out->lost)
		desk->named = NAMED_UNKNOWN;
	/* What was opened is called what it is, not by the way that led there. */
	if (config.want_path && call->path_at < ARGUMENTS && !file) {
		s32 fd = call->directory_at < ARGUMENTS ? (s32)argument(in, call->directory_at) : AT_FDCWD;

		given_len = take_given(argument(in, call->path_at), desk);
		if (given_len)
			up = lay_directory(task, fd, desk->to.texts[0] == '/', desk);
		else if (out->result >= 0 && fd != AT_FDCWD)
			file = file_of(task->files, fd);
	}
	if (call->flags & CALL_CLOSES)
		take_closed(task, out->is, desk, &ends);
	else if (file)
		up = lay_file(file, desk);
	else if (is_socket && out->file) {
		take_ends(out->file, out->is->type, &ends);
		take_address(call->flags, in->arguments, out->result, &ends);
	}
	if (up)
		walk(AT_EXIT);
	put_texts(desk, given_len, is_socket ? &ends : 0, config.want_call_args ? in->arguments : 0);
}

static __always_inline void emit(struct task_struct *task, const struct doing *in, u32 number, struct outcome *out)
{
	struct record *to;

	bpf_get_current_comm(out->comm, sizeof(out->comm));
	if (config.want_process)
		read_process_name(task, (u8 *)out->process);
	if (!are_names_wanted(&config.threads, out->comm, out->process))
		return;
	if (config.types && !(config.types >> out->is->type & 1))
		return;
	/* Its description comes in front of the event. */
	if (config.want_about)
		out->about = about_task(task, AT_ABOUT);
	if (config.want_path || config.want_ends || config.want_call_args) {
		emit_named(task, in, number, out);
		return;
	}
	to = bpf_ringbuf_reserve(&events, sizeof(*to), 0);
	if (!to) {
		count(COUNT_RING_FULL);
		return;
	}
	fill(to, task, in, number, out);
	bpf_ringbuf_submit(to, SUBMIT_FLAGS);
}

/* Before its file is gone: what a call will close. */
static __always_inline void look_closing(struct task_struct *task, struct doing *in)
{
	struct file *file = file_of(task->files, in->arguments[0]);
	struct identity is = {};
	struct closing *left;
	struct desk *desk;
	u32 len;

	identify(file, &is);
	in->closes = is;
	if (config.mode != MODE_EVENTS || !file)
		return;
	if (config.want_ends && has_ends(is.type)) {
		struct ends ends = {};

		take_ends(file, is.type, &ends);
		left = bpf_task_storage_get(&closing, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (left)
			bpf_probe_read_kernel(left->names, sizeof(ends), &ends);
		return;
	}
	if (!config.want_path || !is_named(&is))
		return;
	left = bpf_task_storage_get(&closing, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	desk = clean(AT_ENTER);
	if (!left || !desk)
		return;
	if (lay_file(file, desk))
		walk(AT_ENTER);
	len = desk->len;
	left->named = desk->named;
	left->len = 0;
	if (len > CLOSING) {
		left->named = NAMED_UNKNOWN;
		return;
	}
	bpf_probe_read_kernel(left->names, len, desk->to.texts);
	left->len = len;
}

/* A 32-bit program's call on a 64-bit kernel. */
static __always_inline bool is_foreign(struct task_struct *task)
{
	if (bpf_core_field_exists(task->thread_info.status))
		return task->thread_info.status & 2; /* TS_COMPAT of x86 */
	return task->thread_info.flags & 1 << 22; /* TIF_32BIT of arm64 */
}

static __always_inline u32 bounded(u64 number)
{
	return number < CALLS_NUMBERED ? number : CALLS_NUMBERED - 1;
}

static __always_inline void take_arguments(struct pt_regs *regs, u64 *to)
{
	if (bpf_core_field_exists(regs->orig_ax)) {
		to[0] = regs->di;
		to[1] = regs->si;
		to[2] = regs->dx;
		to[3] = regs->r10;
		to[4] = regs->r8;
		to[5] = regs->r9;
	} else {
		struct pt_regs___arm64 *arm = (void *)regs;

		to[0] = arm->regs[0];
		to[1] = arm->regs[1];
		to[2] = arm->regs[2];
		to[3] = arm->regs[3];
		to[4] = arm->regs[4];
		to[5] = arm->regs[5];
	}
}

/* The call that these registers asked for. */
static __always_inline u64 number_of(struct pt_regs *regs)
{
	if (bpf_core_field_exists(regs->orig_ax))
		return regs->orig_ax;
	return ((struct pt_regs___arm64 *)regs)->syscallno;
}

/* One file of several is not the file of the call; more requests than these are not looked at. */
#define SEVERAL -1
#define UNREADABLE -2
#define REQUESTS_LOOKED_AT 64

/* The descriptor of all requests that io_submit hands in. */
static __always_inline s32 fd_of_requests(const struct doing *in)
{
	u64 len = in->arguments[1], list = in->arguments[2], request = 0;
	u32 fd = 0, first = 0;

	if (len > REQUESTS_LOOKED_AT)
		return UNREADABLE;
	for (u32 at = 0; at < REQUESTS_LOOKED_AT; at++) {
		if (at >= len)
			return len ? (s32)first : SEVERAL;
		if (bpf_probe_read_user(&request, sizeof(request), (void *)(list + at * sizeof(request))) ||
		    bpf_probe_read_user(&fd, sizeof(fd), (void *)(request + AIO_FILDES)))
			return UNREADABLE;
		if (!at)
			first = fd;
		else if (fd != first)
			return SEVERAL;
	}
	return first;
}

/* Whether the filter on names lets through what a task does, which counts as lost otherwise. */
static __always_inline bool task_wanted(struct task_struct *task)
{
	u64 comm[COMM / 8] = {}, process[COMM / 8] = {};

	if (!config.threads.comms_len && !config.threads.processes_len)
		return true;
	bpf_get_current_comm(comm, sizeof(comm));
	if (config.threads.processes_len)
		read_process_name(task, (u8 *)process);
	return are_names_wanted(&config.threads, comm, process);
}

static __always_inline void enter(struct task_struct *task, struct pt_regs *regs, u64 raw)
{
	u32 number = bounded(raw);
	u16 flags = config.calls[number].flags;
	struct doing *in;

	if (!(flags & CALL_WANTED) || !is_pid_wanted(&config.threads, task->tgid))
		return;
	if (is_foreign(task)) {
		if (task_wanted(task))
			count(COUNT_FOREIGN);
		return;
	}
	if (flags & CALL_NEVER_RETURNS) {
		if (task_wanted(task))
			count(COUNT_NEVER_RETURNS);
		return;
	}
	in = bpf_task_storage_get(&doing, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!in) /* no memory: its return will count as unpaired */
		return;
	if (in->start_ns && task_wanted(task))
		count(COUNT_UNPAIRED_ENTER);
	in->call = number;
	if (config.want_arguments)
		take_arguments(regs, in->arguments);
	if (flags & CALL_CLOSES && config.want_file)
		look_closing(task, in);
	else if (flags & CALL_REQUESTS && config.want_file)
		in->arguments[0] = fd_of_requests(in);
	if (flags & CALL_FD && config.want_file)
		in->file = file_of(task->files, in->arguments[0]);
	in->start_ns = bpf_ktime_get_ns();
}

/* An exit that nobody entered: begun before us, or the enter was lost. */
static __always_inline void unpaired(struct task_struct *task, u16 flags, s64 result)
{
	if (!(flags & CALL_FORKS && result == 0) && !is_foreign(task) && task_wanted(task))
		count(COUNT_UNPAIRED_EXIT);
}

static __always_inline void leave(struct task_struct *task, u64 raw, s64 result)
{
	struct identity is = {};
	struct outcome out = { .result = result, .fd = -1, .is = &is };
	u32 number = bounded(raw);
	u16 flags = config.calls[number].flags;
	struct doing *in;
	/* Returning from a signal restores all registers, the number too: -1. */
	bool unnumbered = (s32)raw == -1;

	if ((!unnumbered && !(flags & CALL_WANTED)) || !is_pid_wanted(&config.threads, task->tgid))
		return;
	in = bpf_task_storage_get(&doing, task, 0, 0);
	if (!in || !in->start_ns || (!unnumbered && in->call != number)) {
		if (!unnumbered)
			unpaired(task, flags, result);
		return;
	}
	out.latency_ns = bpf_ktime_get_ns() - in->start_ns;
	number = bounded(in->call);
	flags = config.calls[number].flags;
	out.sample_weight = sample_weight_of(out.latency_ns);
	if (!out.sample_weight)
		goto done;
	if (config.want_arguments)
		out.fd = fd_of(flags, in, result);
	if (config.want_file && flags & CALL_CLOSES)
		is = in->closes;
	else if (config.want_file && out.fd >= 0) {
		out.file = file_of(task->files, out.fd);
		if (flags & CALL_FD && out.file != in->file) {
			out.file = 0;
			out.lost = true;
		}
		identify(out.file, &is);
	} else if (flags & CALL_REQUESTS)
		out.lost = out.fd == UNREADABLE;
	if (config.mode == MODE_EVENTS)
		emit(task, in, number, &out);
	else
		tally(number, &is, out.latency_ns, result);
done:
	in->start_ns = 0;
}

SEC("tp_btf/sys_enter")
int any_enter(u64 *about)
{
	enter(bpf_get_current_task_btf(), (struct pt_regs *)about[0], about[1]);
	return 0;
}

SEC("tp_btf/sys_exit")
int any_exit(u64 *about)
{
	leave(bpf_get_current_task_btf(), number_of((struct pt_regs *)about[0]), about[1]);
	return 0;
}

/* The tracepoints of single calls, for which others pay next to nothing.
 * Their programs must return 1: after a 0, the kernel keeps the event from everybody's perf events on that tracepoint. */
struct one_call {
	u64 common;
	u32 number;
	u32 unused;
	s64 result; /* at the exit */
};

SEC("tracepoint")
int one_enter(struct one_call *about)
{
	struct task_struct *task = bpf_get_current_task_btf();

	enter(task, (void *)bpf_task_pt_regs(task), about->number);
	return 1;
}

SEC("tracepoint")
int one_exit(struct one_call *about)
{
	leave(bpf_get_current_task_btf(), about->number, about->result);
	return 1;
}

#include "uring.h"
#include "waiting.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
