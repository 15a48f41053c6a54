/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Requests of io_uring, from submission to the first completion. */
#ifndef LATSCOPE_URING_H
#define LATSCOPE_URING_H

struct io_cqe {
	s32 fd;
} KERNEL;
struct io_kiocb {
	struct file *file;
	u8 opcode;
	u64 flags;
	struct io_cqe cqe;
} KERNEL;
struct kiocb {
	s64 ki_pos;
} KERNEL;
struct io_rw {
	struct kiocb kiocb;
	u32 len;
} KERNEL;
struct io_uring_cqe {
	s32 res;
	u32 flags;
} KERNEL;

/* Bits of io_kiocb.flags, which are those of the submission (IOSQE_*). */
#define REQUEST_FIXED_FILE (1 << 0)
#define REQUEST_SILENT (1 << 6)

/* Requests in flight, by their address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, struct record);
} requests SEC(".maps");

static __always_inline u32 operation_of(struct io_kiocb *request)
{
	u32 operation = request->opcode;

	return CALLS_NUMBERED + (operation < CALLS_URING ? operation : CALLS_URING - 1);
}

SEC("tp_btf/io_uring_submit_req")
int uring_submit(u64 *about)
{
	struct io_kiocb *request = (struct io_kiocb *)about[0];
	struct task_struct *task = bpf_get_current_task_btf();
	u32 number = operation_of(request);
	const volatile struct call *call = &config.calls[number];
	struct record record = {};
	u64 key = (u64)request, flags;

	if (!(call->flags & CALL_WANTED) || !pid_wanted(task->tgid))
		return 0;
	flags = request->flags;
	if (flags & REQUEST_SILENT) {
		count(COUNT_URING_SILENT);
		return 0;
	}
	record.size = call->size_at < ARGUMENTS ? READ(struct io_rw, request, len) : ~0ULL;
	record.offset = call->offset_at < ARGUMENTS ? (u64)READ(struct io_rw, request, kiocb.ki_pos) : ~0ULL;
	record.pid = task->tgid;
	record.tid = task->pid;
	record.call = number;
	/* A registered file is told by its place in a table, which is no descriptor. */
	record.fd = -1;
	if (!(flags & REQUEST_FIXED_FILE) && bpf_core_field_exists(request->cqe.fd))
		record.fd = request->cqe.fd;
	bpf_get_current_comm(record.comm, sizeof(record.comm));
	if (config.want_process)
		read_process_name(task, record.process);
	if (!names_wanted((u64 *)record.comm, (u64 *)record.process))
		return 0;
	if (config.want_cgroup)
		record.cgroup = bpf_get_current_cgroup_id();
	record.start_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&requests, &key, &record, BPF_ANY))
		count(COUNT_URING_FULL);
	return 0;
}

static __always_inline void put_request(struct record *from, u64 latency_ns, s64 result, struct file *file,
					const struct identity *is, u32 weight)
{
	struct record *to;

	if (config.types && !(config.types >> is->type & 1))
		return;
	if (config.want_path) {
		struct desk *desk = clean(AT_REQUESTS);

		if (!desk)
			return;
		to = &desk->to.record;
		*to = *from;
		put_identity(to, is);
		to->latency_ns = latency_ns;
		to->result = result;
		to->weight = weight;
		if (file && is_named(is) && lay_file(file, desk))
			walk(AT_REQUESTS);
		put_texts(desk, 0);
		return;
	}
	to = bpf_ringbuf_reserve(&events, sizeof(*to), 0);
	if (!to) {
		count(COUNT_RING_FULL);
		return;
	}
	*to = *from;
	put_identity(to, is);
	to->latency_ns = latency_ns;
	to->result = result;
	to->weight = weight;
	bpf_ringbuf_submit(to, SUBMIT_FLAGS);
}

static __always_inline void complete(struct io_kiocb *request, s64 result)
{
	struct identity is = {};
	struct record *record;
	struct file *file;
	u64 key = (u64)request, latency_ns;
	u32 number, weight, operation;

	if (!request)
		return;
	record = bpf_map_lookup_elem(&requests, &key);
	if (!record) {
		operation = READ(struct io_kiocb, request, opcode);
		if (operation >= CALLS_URING)
			return;
		number = CALLS_NUMBERED + operation;
		/* Whose it is cannot be told here, so that a list of processes makes them uncountable. */
		if (!(config.calls[number].flags & CALL_WANTED) || config.pids_len || config.comms_len || config.processes_len)
			return;
		if (config.calls[number].flags & CALL_AGAIN)
			count(COUNT_URING_AGAIN);
		else if (bpf_get_current_pid_tgid() >> 32 != config.own_pid)
			count(COUNT_URING_ORPHAN);
		return;
	}
	latency_ns = bpf_ktime_get_ns() - record->start_ns;
	weight = weight_of(latency_ns);
	if (weight) {
		number = record->call;
		file = config.want_file ? READ(struct io_kiocb, request, file) : 0;
		identify(file, &is);
		if (config.mode == MODE_EVENTS)
			put_request(record, latency_ns, result, file, &is, weight);
		else if (number < CALLS)
			tally(number, &is, latency_ns, result);
	}
	bpf_map_delete_elem(&requests, &key);
}

SEC("tp_btf/io_uring_complete")
int uring_complete(u64 *about)
{
	struct io_uring_cqe *cqe = (struct io_uring_cqe *)about[2];

	complete((struct io_kiocb *)about[1], READ(struct io_uring_cqe, cqe, res));
	return 0;
}

/* Kernels before 6.15 pass what a completion says piece by piece. */
SEC("tp_btf/io_uring_complete")
int uring_complete_pieces(u64 *about)
{
	complete((struct io_kiocb *)about[1], (s32)about[3]);
	return 0;
}

#endif
