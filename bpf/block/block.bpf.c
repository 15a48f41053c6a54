// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Requests to block devices.
 *
 * Latency comes from the stamps that the kernel keeps in the request, at completion: no map is needed for histograms.
 * Events need to know who began the request, as completion runs in whatever task it interrupted; for that the request
 * is remembered from block_io_start on, and when it was issued. Where the kernel does not stamp (iostats off, no
 * writeback throttling), user space sees UNSTAMPED count and attaches `issue` (and `start`) for histograms too.
 */
#include "core.h"
#include "hist.h"
#include "block/block.h"
#include "block/keys.h"
#include "block/request.h"

struct named_record {
	struct block_record record;
	u8 texts[TEXTS];
};
#include "names.h"
#include "stack.h"

CONFIG(struct block_config);

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u64); /* address of the request */
	__type(value, struct block_issuer);
} in_flight SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u8);
} devices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u8);
} pids SEC(".maps");

struct comm {
	u8 letters[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct comm);
	__type(value, u8);
} comms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct comm);
	__type(value, u8);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, struct block_hist);
} histograms SEC(".maps");

/* Which of the histograms a key has: a lookup in a hash map of the kernel would cost a fifth of the whole program. */
u64 keys[KEY_PLACES] SEC(".bss.keys");
/* How many of the histograms are given away. */
u64 given SEC(".bss.given");

/* Set when `issue` is attached, as requests have no stamps: `in_flight` has entries in histogram mode too. */
u32 fallback SEC(".data.fallback") = 0;

/* The epoch of the histograms, see hist.h. */
volatile u32 epoch SEC(".data.epoch") = 1;

/* Variables that every request reads, in one line of the cache. */
volatile struct {
	/*
	 * Set by user space when all is attached, and cleared before anything is detached: both take a while. Where stacks are wanted,
	 * the issuers of so many fast requests in 2^32 are looked at too, to compare the slow ones with.
	 */
	u32 running;
	/* Where in its kernel stack a task has its registers, once that is known. */
	u32 regs_at;
} hot SEC(".data.running") = {};

/*
 * Whether a stamp of the kernel is good: its flag says so. Kernels whose flags are macros, not an enum, clear the
 * stamps they do not set; newer ones leave there what an older request left.
 */
#define STAMP(direct, rq, flag, stamp)                                                               \
	({                                                                                           \
		u64 good_stamp = config.ignore_stamps ? 0 : FIELD(direct, rq, stamp);                \
		if (bpf_core_enum_value_exists(enum rqf_flags, flag) &&                              \
		    !(FIELD(direct, rq, rq_flags) >> bpf_core_enum_value(enum rqf_flags, flag) & 1)) \
			good_stamp = 0;                                                              \
		good_stamp;                                                                          \
	})

/* Hands on what is known of a process; whether there was room. */
static __always_inline bool put_about(struct desk *desk)
{
	struct block_record *record = &desk->to.record;
	u64 id = bpf_get_current_pid_tgid();
	u32 len = desk->len;

	if (len > TEXTS)
		return false;
	record->letters = LETTERS_ABOUT;
	record->pid = id >> 32;
	record->texts_len = len;
	return !bpf_ringbuf_output(&events, &desk->to, sizeof(*record) + len, SUBMIT_FLAGS);
}

#include "about.h"
#include "block/stacks.h"

static __always_inline bool wanted_device(u32 dev)
{
	return !config.some_devices || bpf_map_lookup_elem(&devices, &dev);
}

static __always_inline bool wanted_issuer(const struct block_issuer *issuer)
{
	return (!config.some_pids || bpf_map_lookup_elem(&pids, &issuer->pid)) &&
	       (!config.some_comms || bpf_map_lookup_elem(&comms, issuer->comm)) &&
	       (!config.some_processes || bpf_map_lookup_elem(&processes, issuer->process));
}

/* Remembers a request that begins to wait, and whose it is. */
static __always_inline void remember(struct request *rq, u64 issue_ns, bool with_issuer, const bool direct,
				     const bool stacked)
{
	struct block_issuer kept = {}, *issuer = &kept;
	struct task_struct *task = 0;
	u64 key = (u64)rq;

	if (!hot.running)
		return;
	if (issue_ns)
		issuer->issue_ns = issue_ns;
	else
		issuer->start_ns = bpf_ktime_get_ns();
	if (config.events) {
		/* Kernels without their own BTF know no task that may be looked into. */
		if (direct && with_issuer)
			task = bpf_get_current_task_btf();
		if (with_issuer && direct) {
			issuer->pid = task->tgid;
			issuer->tid = task->pid;
			put_name(task->comm, issuer->comm);
			if (config.want_process)
				put_name(task->group_leader->comm, issuer->process);
		} else if (with_issuer) {
			u64 id = bpf_get_current_pid_tgid();

			issuer->pid = id >> 32;
			issuer->tid = id;
			bpf_get_current_comm(issuer->comm, sizeof(issuer->comm));
			if (config.want_process)
				read_process_name((void *)bpf_get_current_task(), issuer->process);
		}
		if (with_issuer)
			issuer->cgroup = bpf_get_current_cgroup_id();
		issuer->dev = device_of(rq, direct);
		issuer->letters = letters_of(FIELD(direct, rq, cmd_flags));
		if (stacked && !with_issuer && issuer->letters / MODES == FLUSH)
			look_at_flush(rq, issuer);
		if (!wanted_device(issuer->dev) || !wanted_issuer(issuer)) {
			/* What an earlier request of the same address left: no program ran when that completed. */
			if (!bpf_map_delete_elem(&in_flight, &key))
				count(UNSEEN_END);
			return;
		}
		if (direct && with_issuer && config.want_about)
			issuer->about = about_task(task, AT_ABOUT);
		if (stacked && with_issuer)
			look_at_issue(task, issuer);
	}
	if (bpf_map_update_elem(&in_flight, &key, &kept, BPF_NOEXIST) == -EEXIST) {
		count(UNSEEN_END);
		bpf_map_update_elem(&in_flight, &key, &kept, BPF_ANY);
	}
	/* If there is no place, the event will be without its issuer, and count as such. */
}

static __always_inline int on_issue(struct request *rq, const bool direct, const bool stacked)
{
	u64 key = (u64)rq, now = bpf_ktime_get_ns();
	struct block_issuer *issuer = bpf_map_lookup_elem(&in_flight, &key);

	if (issuer)
		issuer->issue_ns = now;
	else
		remember(rq, now, !stacked && config.issuer_at_issue, direct, stacked);
	return 0;
}

static __always_inline void forget(struct request *rq)
{
	u64 key = (u64)rq;

	if (config.events || fallback)
		bpf_map_delete_elem(&in_flight, &key);
}

struct times {
	s64 latency_ns; /* as the user asked for it */
	u64 issue_ns;
	u64 device_ns;
	u64 queue_ns;
};

/* The times of a request that has just completed; false when one that is needed is not known. */
static __always_inline bool measure(struct request *rq, struct block_issuer *issuer, u32 class, struct times *times,
				    const bool direct)
{
	s64 now = bpf_ktime_get_ns(), device_ns, queue_ns = 0;
	s64 issue_ns = STAMP(direct, rq, __RQF_STATS, io_start_time_ns);
	s64 start_ns = STAMP(direct, rq, __RQF_IO_STAT, start_time_ns);
	bool reversed = false, own = false;

	/* The kernel's stamp is of a clock that it reads once for all that a task submits together, so ours is better. */
	if (issuer && issuer->issue_ns) {
		own = !issue_ns;
		issue_ns = issuer->issue_ns;
	}
	if (issuer && !start_ns) {
		start_ns = issuer->start_ns;
		own = true;
	}
	/* The request that a flush makes of itself never waits on its own: it has no start, and nobody saw one. */
	if (config.from_queue && !config.events && class != FLUSH) {
		if (!start_ns)
			return false;
		if (!issue_ns)
			issue_ns = start_ns;
	}
	if (!issue_ns)
		return false;
	if (own)
		count(OWN_STAMPS);

	/* The kernel reads its clock once for several requests, so stamps may be out of order by some microseconds. */
	device_ns = now - issue_ns;
	if (device_ns < 0) {
		device_ns = 0;
		reversed = true;
	}
	if (start_ns) {
		queue_ns = issue_ns - start_ns;
		if (queue_ns < 0) {
			queue_ns = 0;
			reversed = true;
		}
	}
	if (reversed)
		count(REVERSED);
	times->issue_ns = issue_ns;
	times->device_ns = device_ns;
	times->queue_ns = start_ns ? (u64)queue_ns : NO_QUEUE;
	times->latency_ns = config.from_queue ? device_ns + queue_ns : device_ns;
	return true;
}

static __always_inline struct block_hist *histogram_of(struct request *rq, u32 class, u32 now, const bool direct)
{
	u64 key = (u64)device_of(rq, direct) << 8;
	u32 number;

	key |= class <= DISCARD ? class : class == ERASE ? KIND_DISCARD : KIND_OTHER;
	/* NO_NUMBER stays beyond all of them. */
	number = number_of(key, keys, &given, config.keys) << 1 | (now & 1);
	return bpf_map_lookup_elem(&histograms, &number);
}

static __always_inline void add_to_histogram(struct request *rq, struct block_issuer *issuer, u32 class, u32 bytes,
					     s32 error, const bool direct)
{
	struct block_hist *hist;
	struct times times;
	u32 now = epoch;

	if (!measure(rq, issuer, class, &times, direct)) {
		count(error ? NEVER_ISSUED : UNSTAMPED);
		return;
	}
	hist = histogram_of(rq, class, now, direct);
	if (!hist) {
		count(KEYS_FULL);
		return;
	}
	hist_add(&hist->head, times.latency_ns, bytes, now, config.power);
	if (error)
		count(FAILED);
}

/* Whether the push-down lets a request through, as far as it can be told without its times. */
static __always_inline bool wanted(struct block_issuer *issuer, u32 dev, u32 letters)
{
	u32 class = letters / MODES;

	/* The compiler knows that this is always true, the verifier does not. */
	barrier_var(class);
	if (class >= CLASSES || !(config.wanted[class] >> (letters % MODES) & 1))
		return false;
	/* Who issues it was looked at when it began. */
	return wanted_device(dev) && (issuer || !(config.some_pids || config.some_comms || config.some_processes));
}

/* How many events this one stands for; 0 when it is too fast, or not in the sample. */
static __always_inline u32 sample_weight_of(u64 latency_ns)
{
	if (latency_ns < config.min_latency_ns)
		return 0;
	if (!config.one_in || latency_ns >= config.slow_ns)
		return 1;
	return bpf_get_prandom_u32() % config.one_in ? 0 : config.one_in;
}

/* Fills the record of a request, behind which there is nothing yet. */
static __always_inline void put_request(struct request *rq, struct block_issuer *issuer, const struct times *times,
					struct block_record *record, u32 dev, u32 letters, u32 bytes, s32 error,
					u32 sample_weight, const bool direct)
{
	record->issue_ns = times->issue_ns;
	record->latency_ns = times->device_ns;
	record->queue_ns = times->queue_ns;
	record->offset = FIELD(direct, rq, __sector);
	if (record->offset != NO_OFFSET)
		record->offset <<= 9;
	record->size = bytes;
	record->dev = dev;
	record->letters = letters;
	record->error = error;
	record->sample_weight = sample_weight;
	record->cpu = bpf_get_smp_processor_id();
	record->texts_len = 0;
	record->looked = LOOKED_NOT;
	record->issued = 0;
	record->about = issuer ? issuer->about : 0;
	if (issuer) {
		record->offset -= issuer->done;
		record->size += issuer->done;
		record->cgroup = issuer->cgroup;
		record->pid = issuer->pid;
		record->tid = issuer->tid;
		__builtin_memcpy(record->comm, issuer->comm, sizeof(record->comm));
		__builtin_memcpy(record->process, issuer->process, sizeof(record->process));
	} else {
		record->cgroup = 0;
		record->pid = 0;
		record->tid = 0;
		__builtin_memset(record->comm, 0, sizeof(record->comm));
		__builtin_memset(record->process, 0, sizeof(record->process));
	}
}

static __always_inline void emit(struct request *rq, struct block_issuer *issuer, u32 class, u32 bytes, s32 error,
				 u32 fast_looks, const bool direct, const bool stacked)
{
	u32 letters = letters_of(FIELD(direct, rq, cmd_flags)), dev = device_of(rq, direct), sample_weight;
	struct block_record *record;
	u32 looked = LOOKED_NOT;
	struct times times;

	if (!wanted(issuer, dev, letters))
		return;
	if (!measure(rq, issuer, class, &times, direct)) {
		count(error ? NEVER_ISSUED : UNSTAMPED);
		return;
	}
	sample_weight = sample_weight_of(times.latency_ns);
	if (!sample_weight)
		return;
	/* Requests that flushes make of themselves have no issuer. */
	if (!(issuer && issuer->pid) && class != FLUSH)
		count(NO_ISSUER);
	if (stacked && issuer && (looked = is_looked_at(times.latency_ns, times.issue_ns + times.device_ns, fast_looks))) {
		struct stacked_record *to = stack_of_waiting(issuer);

		if (to) {
			u32 len = sizeof(struct stack_record) + (to->stack.kernel_len & KERNEL_MASK);

			put_request(rq, issuer, &times, &to->record, dev, letters, bytes, error, sample_weight, direct);
			to->record.looked = looked;
			to->record.issued = issuer->issued;
			to->record.texts_len = len;
			if (bpf_ringbuf_output(&events, to, sizeof(struct block_record) + len, SUBMIT_FLAGS))
				count(RING_FULL);
			return;
		}
		if (!issuer->wait)
			looked = looked == LOOKED_SLOW ? LOOKED_KERNEL : LOOKED_NOT;
	}
	record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);
	if (!record) {
		count(RING_FULL);
		return;
	}
	put_request(rq, issuer, &times, record, dev, letters, bytes, error, sample_weight, direct);
	if (stacked && issuer) {
		record->looked = looked;
		record->issued = issuer->issued;
	}
	bpf_ringbuf_submit(record, SUBMIT_FLAGS);
}

/* Part of a request is done; the rest will complete later. */
static __always_inline void on_part(struct request *rq, struct block_issuer *issuer, u32 class, u32 bytes,
				    const bool direct)
{
	struct block_hist *hist;

	count(PARTIAL);
	if (issuer)
		issuer->done += bytes;
	if (config.events)
		return;
	hist = histogram_of(rq, class, epoch, direct);
	if (hist)
		hist->head.bytes += bytes;
}

static __always_inline int on_complete(struct request *rq, s32 error, u32 bytes, const bool direct, const bool stacked)
{
	u32 class = class_of(FIELD(direct, rq, cmd_flags)), left = FIELD(direct, rq, __data_len);
	struct block_issuer *issuer = 0;
	u32 running = hot.running;
	u64 key = (u64)rq;

	if (!running)
		return 0;
	if (config.events || fallback)
		issuer = bpf_map_lookup_elem(&in_flight, &key);
	if (bytes < left) {
		on_part(rq, issuer, class, bytes, direct);
		return 0;
	}
	if (class == WRITE && !bytes && !left)
		/* A write of nothing: its flush was a request of its own; what it had to write, if anything, too. */
		count(FLUSH_PARENT);
	else if (config.events)
		emit(rq, issuer, class, bytes, error, running, direct, stacked);
	else
		add_to_histogram(rq, issuer, class, bytes, error, direct);
	if (issuer)
		bpf_map_delete_elem(&in_flight, &key);
	return 0;
}

SEC("tp_btf/block_io_start")
int BPF_PROG(start, struct request *rq)
{
	remember(rq, 0, true, true, false);
	return 0;
}

SEC("tp_btf/block_io_start")
int BPF_PROG(start_stacked, struct request *rq)
{
	remember(rq, 0, true, true, true);
	return 0;
}

SEC("raw_tp/block_io_start")
int BPF_PROG(start_raw, struct request *rq)
{
	remember(rq, 0, true, false, false);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(issue, struct request *rq)
{
	return on_issue(rq, true, false);
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(issue_stacked, struct request *rq)
{
	return on_issue(rq, true, true);
}

SEC("raw_tp/block_rq_issue")
int BPF_PROG(issue_raw, struct request *rq)
{
	return on_issue(rq, false, false);
}

/* The request becomes part of another and is gone. */
SEC("tp_btf/block_rq_merge")
int BPF_PROG(merge, struct request *rq)
{
	forget(rq);
	return 0;
}

SEC("raw_tp/block_rq_merge")
int BPF_PROG(merge_raw, struct request *rq)
{
	forget(rq);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(complete, struct request *rq, int error, unsigned int bytes)
{
	return on_complete(rq, error, bytes, true, false);
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(complete_stacked, struct request *rq, int error, unsigned int bytes)
{
	return on_complete(rq, error, bytes, true, true);
}

SEC("raw_tp/block_rq_complete")
int BPF_PROG(complete_raw, struct request *rq, int error, unsigned int bytes)
{
	return on_complete(rq, error, bytes, false, false);
}

/* Takes the stack of the issuer of a request that has not completed, and may never. */
SEC("syscall")
int look_at_hung(struct block_hung *asked)
{
	u64 key = asked->request;
	u32 first = 0;
	struct stacked_record *to = bpf_map_lookup_elem(&hung, &first);
	struct block_issuer *issued = bpf_map_lookup_elem(&in_flight, &key), kept;

	asked->found = 0;
	if (!to || !issued)
		return 0;
	/* It may complete while pages of the stack are waited for. */
	kept = *issued;
	asked->found = put_issuer(&kept, to, true);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
