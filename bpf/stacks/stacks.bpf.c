// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Where threads wait, and where they run: three programs, each of which may be missing.
 *
 * `sample` looks at all threads when it is asked to, and hands on those that wait, with their kernel stack and a copy of
 * their user stack. A wait that it has handed on before is only named again: as long as the switch counters of a thread
 * stand still, so does the thread. `switched` times all waits, and takes the stack of one that was long when it is over:
 * the thread still stands where it waited. `tick` is a timer on each CPU.
 */
#include "core.h"
#include "stacks/stacks.h"

struct named_record {
	struct stack_record record;
	u8 texts[TEXTS + USER_PAGES * PAGE];
};
#define OWN_DESKS
enum { AT_SAMPLE, AT_SWITCH, AT_TICK, AT_LEN };
#include "names.h"
#include "syscall/file.h"
#include "stack.h"

struct bpf_iter__task {
	struct task_struct *task;
} KERNEL;
#include "return.h"

#define ALL_DRAWN (~0U)

CONFIG(struct config);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

/* What is remembered of a thread; goes with it. */
struct known {
	u64 sampled; /* its switches when it was last sampled, and one; 0 when it is to be sampled anew */
	u64 out_ns; /* when it last left the CPU, of the scheduler's clock; 0 when nobody looked, or what came of it is told */
	u64 queued_ns; /* what it had waited for a CPU by then, of all its life */
	u32 sampled_state;
	u32 out_state;
	u32 outs; /* how often it had left the CPU by then */
	u32 out_iowait;
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct known);
} known SEC(".maps");

/* Control groups or processes of which the filter lets nothing through, as user space found out. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, u8);
} left_out SEC(".maps");

/* User stacks that the present pass has copied. Only one runs at a time. */
u32 copied SEC(".data.copied") = 0;
/* Of 2^32 threads that it sees in a wait for the first time, or again without a user stack, it copies the stacks of so many. */
u32 drawn SEC(".data.drawn") = ALL_DRAWN;

/* What to add to the scheduler's clock for the monotonic one, and when that was found out; 0 before any switch. */
volatile struct {
	u64 behind;
	u64 looked_ns;
} scheduler SEC(".data.scheduler") = {};
#define LOOK_NS 1000000

/*
 * The scheduler's clock at the last event of the CPU that a task is on or was put on. A switch and a wakeup have just set it, so they need
 * not read a clock of their own, which would take a third of the time of the whole program.
 */
static __always_inline u64 scheduler_clock(struct task_struct *task)
{
	if (!bpf_core_field_exists(struct cfs_rq, rq))
		return bpf_ktime_get_ns();
	return task->se.cfs_rq->rq->clock;
}

static __always_inline void look_at_clocks(u64 now)
{
	if (now - scheduler.looked_ns < LOOK_NS)
		return;
	scheduler.behind = bpf_ktime_get_ns() - now;
	scheduler.looked_ns = now;
}

/* A time of the scheduler's clock that is not later than `now` of the monotonic one, which it becomes; 0 stays. */
static __always_inline u64 monotonic(u64 stamp, u64 now)
{
	stamp = stamp ? stamp + scheduler.behind : 0;
	return stamp < now ? stamp : now;
}

/*
 * How long a thread has waited for a CPU in all its life, up to `now` of the scheduler's clock. That is the scheduler's own account: a
 * program at each wakeup would cost as much as the one at each switch. 0 where the kernel keeps no account (no CONFIG_SCHED_INFO).
 */
static __always_inline u64 queued_of(struct task_struct *task, u64 now)
{
	u64 since;

	if (!bpf_core_field_exists(struct task_struct, sched_info))
		return 0;
	since = task->sched_info.last_queued;
	/* Clocks of CPUs may differ. */
	return task->sched_info.run_delay + (since && now > since ? now - since : 0);
}

/* When the thread of a wait that began at `since` and is at `now` could run again; 0 when it cannot. Any clock. */
static __always_inline u64 woken_at(const struct known *is, u64 queued, u64 since, u64 now)
{
	u64 waited = queued - is->queued_ns;

	if (!waited)
		return 0;
	return now > since && now - since > waited ? now - waited : since;
}

static __always_inline void count_many(u32 what, u64 by)
{
	u64 *slot = bpf_map_lookup_elem(&counts, &what);

	if (slot)
		*slot += by;
}

/*
 * When the scheduler last put a thread on a CPU; for one that it is about to put there, the time before that. 0 where the kernel keeps no
 * account, or another clock.
 */
static __always_inline u64 arrived_at(struct task_struct *task)
{
	if (!bpf_core_field_exists(struct task_struct, sched_info) || !bpf_core_field_exists(struct cfs_rq, rq))
		return 0;
	return task->sched_info.last_arrival;
}

/* Whether a thread was seen to leave the CPU after its last run. It was not when the filter did not want the name that it had by then. */
static __always_inline bool was_seen_to_leave(struct task_struct *task, const struct known *is)
{
	return is->out_ns && is->out_ns >= arrived_at(task);
}

/*
 * Whether the wait of a thread that is put on a CPU cannot have reached the threshold, as its last run began within it. Nothing is looked
 * up then, and the wait is counted when the thread leaves the CPU, where what is remembered of it is at hand. That of a kernel
 * thread is counted now: it leaves many a time without anybody looking.
 */
static __always_inline bool was_here(struct task_struct *task, u64 now)
{
	return now - arrived_at(task) < config.threshold_ns && !is_kthread(task);
}

static __always_inline bool wanted(struct task_struct *task)
{
	u64 comm[COMM / 8] = {}, process[COMM / 8] = {};

	if (!is_pid_wanted(&config.threads, task->tgid))
		return false;
	if (config.threads.comms_len)
		bpf_probe_read_kernel(comm, sizeof(comm), task->comm);
	if (config.threads.processes_len)
		bpf_probe_read_kernel(process, sizeof(process), task->group_leader->comm);
	return are_names_wanted(&config.threads, comm, process);
}

/* Whether user space left out the place where a thread is. It knows a place from its first record on. */
static __always_inline bool is_left_out(struct task_struct *task)
{
	u64 place;

	if (config.places == NO_PLACES)
		return false;
	place = config.places == PLACE_IS_GROUP ? group_of(task) : process_start_of(task);
	if (!bpf_map_lookup_elem(&left_out, &place))
		return false;
	count(COUNT_LEFT_OUT);
	return true;
}

/* Counts a wait that was too short for a stack. Clocks of CPUs may differ. */
static __always_inline void count_short(u64 since, u64 until)
{
	count(COUNT_SHORT);
	count_many(COUNT_SHORT_NS, until > since ? until - since : 0);
}

/* A desk with a record about a thread that has neither stacks nor a file yet. */
static __always_inline struct desk *describe(struct task_struct *task, u32 at, u32 source)
{
	struct desk *desk = clean(at);

	if (desk)
		put_thread(task, &desk->to.record, source);
	return desk;
}

static __always_inline void put_kernel_stack(struct desk *desk, long len)
{
	if (len > 0 && len <= (long)(KERNEL_FRAMES * sizeof(u64))) {
		desk->to.record.kernel_len = len;
		desk->len = len;
	}
}

/* The device of the file of a call, and the way up from it. */
static __always_inline void put_file(struct task_struct *task, struct desk *desk, u64 fd, u32 at)
{
	struct stack_record *to = &desk->to.record;
	struct file *file = file_of(task->files, fd);
	struct identity is = {};
	u32 before = desk->len;

	to->fd = fd;
	if (!file)
		return;
	identify(file, &is);
	to->dev = is.dev;
	to->file_type = is.type;
	if (is_named(&is) && lay_file(file, desk))
		walk(at);
	to->named = desk->named;
	to->names_len = desk->len - before;
}

static __always_inline void put(struct desk *desk)
{
	u32 len = desk->len;

	if (len > TEXTS + USER_PAGES * PAGE)
		return;
	if (bpf_ringbuf_output(&events, &desk->to, sizeof(struct stack_record) + len, SUBMIT_FLAGS))
		count(COUNT_RING_FULL);
}

/* Copies a user stack to the desk. */
#define PUT_USER_STACK(desk, copy)                                                                              \
	do {                                                                                                    \
		u32 at = (desk)->len, len;                                                                      \
                                                                                                                \
		if (at > TEXTS)                                                                                 \
			break;                                                                                  \
		len = COPY_USER_STACK((desk)->to.texts + at, (desk)->to.record.sp, copy);                       \
		(desk)->to.record.user_pages = len / PAGE;                                                      \
		(desk)->to.record.user_len = len;                                                               \
		(desk)->len = at + len;                                                                         \
		count_many(COUNT_COPIED, len);                                                                  \
	} while (0)

/*
 * Copies the user stack of another thread, if chance draws it. That takes the lock of its memory map, for which a thread that changes the
 * map may wait as long as its disk does not answer: then it is left out.
 */
static __always_inline void copy_user_stack(struct task_struct *task, struct desk *desk)
{
	struct mm_struct *mm = task->mm;

	if (!mm)
		return;
	if (copied >= config.copies || (drawn != ALL_DRAWN && bpf_get_prandom_u32() >= drawn)) {
		count(COUNT_CAPPED);
		desk->to.record.flags |= FLAG_NO_COPY | FLAG_NOT_DRAWN;
		return;
	}
	copied++;
	if (IS_CHANGED(mm)) {
		count(COUNT_LOCKED);
		desk->to.record.flags |= FLAG_NO_COPY;
		return;
	}
	PUT_USER_STACK(desk, COPY_OF_TASK);
}

/* Of a file system in user space: who calls it sleeps as if it waited for a message (linux/magic.h). */
#define FUSE_FS 0x65735546

static __always_inline bool is_on_fuse(struct task_struct *task, u64 fd)
{
	struct file *file = file_of(task->files, fd);
	struct super_block *sb;
	struct inode *inode;

	if (!file)
		return false;
	inode = READ(struct file, file, f_inode);
	sb = READ(struct inode, inode, i_sb);
	return READ(struct super_block, sb, s_magic) == FUSE_FS;
}

/* Whether the sampler hands on threads like this one. */
static __always_inline bool is_sampled(struct task_struct *task, u32 state, bool runs)
{
	struct pt_regs *regs;
	u64 number, first;

	if (state & NOLOAD || task->exit_state)
		return false;
	if (!runs && state & DISK_SLEEP)
		return true;
	if (is_kthread(task))
		return false;
	if (config.all_threads)
		return true;
	if (runs || !(state & SLEEP))
		return false;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	if (bpf_core_field_exists(regs->orig_ax)) {
		number = regs->orig_ax;
		first = regs->di;
	} else {
		number = ((struct pt_regs___arm64 *)regs)->syscallno;
		first = ((struct pt_regs___arm64 *)regs)->regs[0];
	}
	if (number >= CALLS)
		return false;
	return config.calls[number] & CALL_ASYNC || (config.calls[number] & CALL_FD && is_on_fuse(task, first));
}

/*
 * The sampler changes what it looks at. On a busy machine a thread waits for the CPU that the sampler took: a thread that ran there, one
 * whose wait has ended since, or one that serves a request of a thread elsewhere, which waits longer for it then. So threads are handed
 * on as what they were when the sampler came, as far as their last change tells.
 */
static __always_inline void look_back(struct task_struct *task, u32 *state, bool *runs)
{
	struct task_struct *sampler = bpf_get_current_task_btf();
	u64 came = arrived_at(sampler), queued = came ? task->sched_info.last_queued : 0;
	struct known *is;
	struct rq *rq;

	if (!came || *runs)
		return;
	rq = task->se.cfs_rq->rq;
	if (*state) {
		/* It has left its CPU since; the clock of run times stands still during interrupts. */
		if (arrived_at(task) < came && (s64)(task->se.exec_start + (rq->clock - rq->clock_task) - came) > 0)
			*runs = true;
	} else if (queued <= came && rq == sampler->se.cfs_rq->rq && (queued == came || rq->nr_running <= 2)) {
		/* The sampler and this one are all that this CPU has to do. */
		*runs = true;
	} else if (queued > came && BPF_CORE_READ_BITFIELD(task, in_iowait)) {
		*state = DISK_SLEEP;
	} else if (queued > came) {
		/* Not looked up for each thread: that is a tenth of the time of a pass over sleeping ones. */
		is = bpf_task_storage_get(&known, task, 0, 0);
		if (is && is->out_state && was_seen_to_leave(task, is) && is->out_ns < came)
			*state = is->out_state;
	}
}

/* What was copied may be of two moments: only the state is sure. */
static __always_inline void drop_stacks(struct desk *desk)
{
	struct stack_record *to = &desk->to.record;

	desk->len = 0;
	to->flags |= FLAG_NO_COPY;
	to->kernel_len = to->names_len = to->user_len = 0;
	to->user_pages = to->named = to->file_type = 0;
	to->call = to->fd = -1;
	to->dev = 0;
}

SEC("iter.s/task")
int sample(struct bpf_iter__task *about)
{
	struct task_struct *task = about->task;
	u64 now, switches, first = 0;
	struct stack_record *to;
	struct known *is;
	struct desk *desk;
	bool runs;
	u32 state;

	if (!task)
		return 0;
	count(COUNT_SEEN);
	state = task->__state;
	/* Most threads sleep in calls without I/O, also when the sampler came. To look at more of each would be half the time of a pass. */
	if (!config.all_threads && (state & (SLEEP | DISK_SLEEP)) == SLEEP && !is_sampled(task, state, false))
		return 0;
	switches = switches_of(task);
	state = task->__state;
	runs = task->on_cpu;
	look_back(task, &state, &runs);
	if (!is_sampled(task, state, runs) || !wanted(task) || is_left_out(task))
		return 0;
	now = bpf_ktime_get_ns();
	is = bpf_task_storage_get(&known, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!is) {
		count(COUNT_UNKNOWN);
		return 0;
	}
	if (runs)
		state = 0;
	else if (config.threshold_ns != NO_THRESHOLD && !was_seen_to_leave(task, is) && scheduler.looked_ns) {
		/* It left the CPU before anybody looked: its wait counts from now on. */
		is->queued_ns = queued_of(task, now - scheduler.behind);
		is->out_state = state;
		is->out_iowait = BPF_CORE_READ_BITFIELD(task, in_iowait);
		is->out_ns = now - scheduler.behind;
	}
	if (is->sampled == switches + 1 && is->sampled_state == (state << 1 | runs)) {
		desk = clean(AT_SAMPLE);
		if (!desk)
			return 0;
		to = &desk->to.record;
		to->stamp_ns = now;
		to->switches = switches;
		to->tid = task->pid;
		to->pid = task->tgid;
		to->state = state;
		to->flags = FLAG_SAME | (runs ? FLAG_RUNNING : 0);
		to->source = FROM_SAMPLER;
		if (bpf_ringbuf_output(&events, to, __builtin_offsetof(struct stack_record, since_ns), SUBMIT_FLAGS))
			count(COUNT_RING_FULL);
		return 0;
	}
	desk = describe(task, AT_SAMPLE, FROM_SAMPLER);
	if (!desk)
		return 0;
	to = &desk->to.record;
	to->stamp_ns = now;
	to->state = state;
	to->since_ns = runs ? 0 : monotonic(is->out_ns, now);
	if (to->since_ns)
		to->woken_ns = woken_at(is, queued_of(task, now - scheduler.behind), to->since_ns, now);
	if (runs)
		to->flags |= FLAG_RUNNING;
	else {
		if (BPF_CORE_READ_BITFIELD(task, in_iowait))
			to->flags |= FLAG_IOWAIT;
		put_kernel_stack(desk, bpf_get_task_stack(task, desk->to.texts, KERNEL_FRAMES * sizeof(u64), 0));
		if (!(to->flags & FLAG_KTHREAD)) {
			first = put_registers(task, to);
			if (config.want_file && (u32)to->call < CALLS && config.calls[to->call] & CALL_FD)
				put_file(task, desk, first, AT_SAMPLE);
			if (config.user_stacks)
				copy_user_stack(task, desk);
		}
	}
	to->copied_ns = bpf_ktime_get_ns();
	if (!runs && (task->on_cpu || switches_of(task) != switches)) {
		count(COUNT_MOVED);
		drop_stacks(desk);
	}
	is->sampled = to->flags & FLAG_NO_COPY ? 0 : switches + 1;
	is->sampled_state = state << 1 | runs;
	put(desk);
	return 0;
}

struct returned_record {
	struct stack_record record;
	u8 user[USER_PAGES * PAGE];
};

/*
 * A thread goes back to user space: where it called from. Another may get the CPU in the middle of it, so the record has no
 * desk of the CPU; and it does not wait for pages, as the reader of the ring would have to wait, too.
 */
static int returned(struct bpf_map *map, void *key, void *value)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct returned_record *to = bpf_ringbuf_reserve(&events, sizeof(*to), 0);
	u32 tid = task->pid;

	bpf_map_delete_elem(&returning, &tid);
	if (!to) {
		count(COUNT_RING_FULL);
		return 0;
	}
	put_thread(task, &to->record, FROM_RETURN);
	to->record.stamp_ns = bpf_ktime_get_ns();
	to->record.state = 0;
	put_registers(task, &to->record);
	to->record.user_pages = COPY_USER_STACK(to->user, to->record.sp, COPY_OF_CURRENT) / PAGE;
	to->record.user_len = sizeof(to->user);
	to->record.copied_ns = bpf_ktime_get_ns();
	count_many(COUNT_COPIED, sizeof(to->user));
	bpf_ringbuf_submit(to, SUBMIT_FLAGS);
	return 0;
}

/* The wait of a thread that ended at `until` of the scheduler's clock, when its record is stamped. */
static __always_inline void put_times(struct stack_record *to, struct task_struct *task, const struct known *is, u64 until)
{
	to->state = is->out_state;
	if (is->out_iowait)
		to->flags |= FLAG_IOWAIT;
	to->since_ns = to->stamp_ns - (until > is->out_ns ? until - is->out_ns : 0);
	to->woken_ns = woken_at(is, queued_of(task, until), to->since_ns, to->stamp_ns);
	to->copied_ns = to->stamp_ns;
}

/* Hands on the wait of a thread that is over, or counts it. */
static __always_inline void put_wait(struct task_struct *task, const struct known *is, u64 now)
{
	struct stack_record *to;
	struct desk *desk;
	u64 first;

	if (!was_seen_to_leave(task, is) || is_left_out(task))
		return;
	if ((s64)(now - is->out_ns) < (s64)config.threshold_ns) {
		count_short(is->out_ns, now);
		return;
	}
	desk = describe(task, AT_SWITCH, FROM_SWITCH);
	if (!desk)
		return;
	to = &desk->to.record;
	to->stamp_ns = bpf_ktime_get_ns();
	put_times(to, task, is, now);
	put_kernel_stack(desk, bpf_get_task_stack(task, desk->to.texts, KERNEL_FRAMES * sizeof(u64), 0));
	if (!(to->flags & FLAG_KTHREAD)) {
		first = put_registers(task, to);
		if (config.want_file && (u32)to->call < CALLS && config.calls[to->call] & CALL_FD)
			put_file(task, desk, first, AT_SWITCH);
		if (config.user_stacks)
			ON_RETURN(task, to->tid, to->switches, returned);
	}
	put(desk);
}

/*
 * Hands on a wait of which nobody saw the end, when its thread leaves the CPU again: in virtual machines a switch to a thread is missed now and
 * then. When the wait ended is known from the account of the scheduler; where the thread stood is not.
 */
static __always_inline void put_unseen(struct task_struct *task, const struct known *is, u64 came)
{
	struct desk *desk = describe(task, AT_SWITCH, FROM_SWITCH);
	struct stack_record *to;

	if (!desk)
		return;
	to = &desk->to.record;
	to->flags |= FLAG_NO_COPY;
	to->stamp_ns = monotonic(came, bpf_ktime_get_ns());
	put_times(to, task, is, came);
	put(desk);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, bool preempt, struct task_struct *from, struct task_struct *next, unsigned int state)
{
	u64 now = scheduler_clock(from), came;
	struct known *is;
	u32 outs;

	look_at_clocks(now);
	if (from->pid && wanted(from) && (!is_kthread(from) || (!preempt && (state & (DISK_SLEEP | NOLOAD)) == DISK_SLEEP))) {
		is = bpf_task_storage_get(&known, from, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (is) {
			outs = from->nvcsw + from->nivcsw;
			/* What is still noted of the wait before is that it was short, or that this program did not run when it ended. */
			came = arrived_at(from);
			if (is->out_ns && came && !is_left_out(from)) {
				if ((s64)(came - is->out_ns) < (s64)config.threshold_ns)
					count_short(is->out_ns, came);
				else if (outs == is->outs + 1)
					put_unseen(from, is, came);
			}
			is->outs = outs;
			is->out_ns = now;
			is->queued_ns = queued_of(from, now);
			is->out_state = preempt ? 0 : state;
			is->out_iowait = BPF_CORE_READ_BITFIELD(from, in_iowait);
		} else
			count(COUNT_UNKNOWN);
	}
	if (!next->pid || was_here(next, now))
		return 0;
	is = bpf_task_storage_get(&known, next, 0, 0);
	if (is && is->out_ns) {
		put_wait(next, is, now);
		is->out_ns = 0;
	}
	return 0;
}

SEC("perf_event")
int tick(void *about)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct stack_record *to;
	struct desk *desk;

	if (!task->pid || !wanted(task) || is_left_out(task))
		return 0;
	desk = describe(task, AT_TICK, FROM_TIMER);
	if (!desk)
		return 0;
	to = &desk->to.record;
	to->stamp_ns = bpf_ktime_get_ns();
	to->state = 0;
	to->flags |= FLAG_RUNNING;
	put_kernel_stack(desk, bpf_get_stack(about, desk->to.texts, KERNEL_FRAMES * sizeof(u64), 0));
	if (!(to->flags & FLAG_KTHREAD)) {
		put_registers(task, to);
		/* Code in user space is in no call: its registers are those of an interrupt. */
		if (config.user_stacks)
			PUT_USER_STACK(desk, COPY_OF_CURRENT);
	}
	to->copied_ns = bpf_ktime_get_ns();
	put(desk);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
