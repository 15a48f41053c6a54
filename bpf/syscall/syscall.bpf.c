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
#include "file.h"

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
} KERNEL;
struct pt_regs {
	unsigned long r10, r8, dx, si, di, orig_ax;
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
	struct identity closes;
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct doing);
} doing SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

_Static_assert(sizeof(struct key) == 8 && sizeof(struct sums) == 16, "as shared.rs has them");
#define HIST_BYTES (sizeof(struct sums) + 4 * HIST_MAX_LEN)
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
/* Calls that were counted, so that user space reads only their histograms of `by_call`. */
u8 touched[CALLS] SEC(".data.touched") = {};
/* A histogram of nothing, from which new ones are made: it does not fit on the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, HIST_BYTES);
} empty SEC(".maps");

static __always_inline bool pid_wanted(u32 pid)
{
	if (pid == config.own_pid)
		return false;
	if (!config.pids_len)
		return true;
	for (u32 at = 0; at < PIDS; at++)
		if (at < config.pids_len && config.pids[at] == pid)
			return true;
	return false;
}

static __always_inline bool among(const volatile u8 (*list)[COMM], u32 len, const u64 *name)
{
	if (!len)
		return true;
	for (u32 at = 0; at < COMMS; at++) {
		const volatile u64 *wanted = (const volatile u64 *)list[at];

		if (at < len && wanted[0] == name[0] && wanted[1] == name[1])
			return true;
	}
	return false;
}

static __always_inline bool names_wanted(const u64 *comm, const u64 *process)
{
	return among(config.comms, config.comms_len, comm) && among(config.processes, config.processes_len, process);
}

/* How many events this one stands for; 0 when it is not wanted. */
static __always_inline u32 weight_of(u64 latency_ns)
{
	if (latency_ns < config.min_latency_ns)
		return 0;
	if (!config.one_in || latency_ns >= config.slow_ns)
		return 1;
	return bpf_get_prandom_u32() % config.one_in ? 0 : config.one_in;
}

static __always_inline void add(u32 *hist, u64 latency_ns, u64 bytes)
{
	struct sums *sums = (struct sums *)hist;
	u32 *buckets = (u32 *)(sums + 1);

	sums->latency_ns += latency_ns;
	sums->bytes += bytes;
	buckets[hist_index(latency_ns, config.power)] += 1;
}

static __always_inline void add_by_file(struct key *key, u64 latency_ns, u64 bytes)
{
	u32 zero = 0, *hist = bpf_map_lookup_elem(&by_file, key);

	if (!hist) {
		void *fresh = bpf_map_lookup_elem(&empty, &zero);

		if (!fresh)
			return;
		bpf_map_update_elem(&by_file, key, fresh, BPF_NOEXIST);
		hist = bpf_map_lookup_elem(&by_file, key);
	}
	if (hist)
		add(hist, latency_ns, bytes);
	else
		count(COUNT_KEYS_FULL);
}

/* The last bits of a kernel device number are the minor one, wherever user space is told otherwise. */
static __always_inline void tally(u32 number, const struct identity *is, u64 latency_ns, s64 result)
{
	const volatile struct call *call = &config.calls[number];
	u64 bytes = call->flags & CALL_MOVES && result > 0 ? result : 0;

	if (config.mode == MODE_BY_CALL) {
		u32 slot = call->slot, *hist = bpf_map_lookup_elem(&by_call, &slot);

		if (!hist)
			return;
		add(hist, latency_ns, bytes);
		/* Looked at first, as a line that all CPUs write would be slow. */
		if (!touched[number])
			touched[number] = 1;
	} else {
		struct key key = { .dev = is->dev, .call = number, .file_type = is->type };

		add_by_file(&key, latency_ns, bytes);
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
static __always_inline s32 fd_of(u8 flags, const struct doing *in, s64 result)
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
	to->path_follows = 0;
}

/* What is known of a call that returned. */
struct outcome {
	u64 latency_ns;
	s64 result;
	u64 comm[2];
	u64 process[2];
	s32 fd;
	u32 weight;
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
	to->weight = out->weight;
	if (config.want_cgroup)
		to->cgroup = bpf_get_current_cgroup_id();
}

static __always_inline void emit(struct task_struct *task, const struct doing *in, u32 number, struct outcome *out)
{
	u32 path_at = config.calls[number].path_at;
	struct record *to;

	bpf_get_current_comm(out->comm, sizeof(out->comm));
	if (config.want_process)
		read_process_name(task, (u8 *)out->process);
	if (!names_wanted(out->comm, out->process))
		return;
	if (config.types && !(config.types >> out->is->type & 1))
		return;
	if (config.want_path && path_at < ARGUMENTS) {
		struct opened *opened = bpf_ringbuf_reserve(&events, sizeof(*opened), 0);

		if (!opened) {
			count(COUNT_RING_FULL);
			return;
		}
		fill(&opened->record, task, in, number, out);
		opened->record.path_follows = 1;
		/* The page was read a moment ago, or the call would have failed. */
		if (bpf_probe_read_user_str(opened->path, PATH, (void *)argument(in, path_at)) < 0)
			opened->path[0] = 0;
		bpf_ringbuf_submit(opened, SUBMIT_FLAGS);
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
	} else {
		struct pt_regs___arm64 *arm = (void *)regs;

		to[0] = arm->regs[0];
		to[1] = arm->regs[1];
		to[2] = arm->regs[2];
		to[3] = arm->regs[3];
		to[4] = arm->regs[4];
	}
}

/* The call that these registers asked for. */
static __always_inline u64 number_of(struct pt_regs *regs)
{
	if (bpf_core_field_exists(regs->orig_ax))
		return regs->orig_ax;
	return ((struct pt_regs___arm64 *)regs)->syscallno;
}

static __always_inline void enter(struct task_struct *task, struct pt_regs *regs, u64 raw)
{
	u32 number = bounded(raw);
	u8 flags = config.calls[number].flags;
	struct doing *in;

	if (!(flags & CALL_WANTED) || !pid_wanted(task->tgid))
		return;
	if (is_foreign(task)) {
		count(COUNT_FOREIGN);
		return;
	}
	if (flags & CALL_NEVER_RETURNS) {
		count(COUNT_NEVER_RETURNS);
		return;
	}
	in = bpf_task_storage_get(&doing, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!in) /* no memory: its return will count as unpaired */
		return;
	if (in->start_ns)
		count(COUNT_UNPAIRED_ENTER);
	in->call = number;
	if (config.want_arguments)
		take_arguments(regs, in->arguments);
	if (flags & CALL_CLOSES && config.want_file) {
		struct identity is = {};

		identify(file_of(task->files, in->arguments[0]), &is);
		in->closes = is;
	}
	in->start_ns = bpf_ktime_get_ns();
}

/* An exit that nobody entered: begun before us, or the enter was lost. */
static __always_inline void unpaired(struct task_struct *task, u8 flags, s64 result)
{
	if (!(flags & CALL_FORKS && result == 0) && !is_foreign(task))
		count(COUNT_UNPAIRED_EXIT);
}

static __always_inline void leave(struct task_struct *task, u64 raw, s64 result)
{
	struct identity is = {};
	u32 number = bounded(raw), weight;
	u8 flags = config.calls[number].flags;
	struct doing *in;
	u64 latency_ns;
	s32 fd = -1;
	/* Returning from a signal restores all registers, the number too: -1. */
	bool unnumbered = (s32)raw == -1;

	if ((!unnumbered && !(flags & CALL_WANTED)) || !pid_wanted(task->tgid))
		return;
	in = bpf_task_storage_get(&doing, task, 0, 0);
	if (!in || !in->start_ns || (!unnumbered && in->call != number)) {
		if (!unnumbered)
			unpaired(task, flags, result);
		return;
	}
	latency_ns = bpf_ktime_get_ns() - in->start_ns;
	number = bounded(in->call);
	flags = config.calls[number].flags;
	weight = weight_of(latency_ns);
	if (!weight)
		goto done;
	if (config.want_arguments)
		fd = fd_of(flags, in, result);
	if (config.want_file && flags & CALL_CLOSES)
		is = in->closes;
	else if (config.want_file && fd >= 0)
		identify(file_of(task->files, fd), &is);
	if (config.mode == MODE_EVENTS) {
		struct outcome out = { .latency_ns = latency_ns, .result = result, .fd = fd, .weight = weight, .is = &is };

		emit(task, in, number, &out);
	} else
		tally(number, &is, latency_ns, result);
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

/* The tracepoints of single calls, for which others pay next to nothing. */
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
	return 0;
}

SEC("tracepoint")
int one_exit(struct one_call *about)
{
	leave(bpf_get_current_task_btf(), about->number, about->result);
	return 0;
}

#include "uring.h"
#include "waiting.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
