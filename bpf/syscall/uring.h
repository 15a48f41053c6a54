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

/* What requests keep that name a path. The kernel has copied the path itself. */
struct filename {
	const char *name;
} KERNEL;
struct io_open {
	int dfd;
	u32 file_slot;
	struct filename *filename;
} KERNEL;
struct io_statx {
	int dfd;
	struct filename *filename;
} KERNEL;
struct io_unlink {
	int dfd;
	struct filename *filename;
} KERNEL;
struct io_mkdir {
	int dfd;
	struct filename *filename;
} KERNEL;
struct io_rename {
	int old_dfd;
	struct filename *oldpath;
} KERNEL;
struct io_link {
	int old_dfd;
	int new_dfd;
	struct filename *oldpath;
	struct filename *newpath;
} KERNEL;

/* Bits of io_kiocb.flags, which are those of the submission (IOSQE_*). */
#define REQUEST_FIXED_FILE (1 << 0)
#define REQUEST_SILENT (1 << 6)

/* A request in flight. */
struct held {
	struct record record; /* the first, so that it is where the request is */
	u64 shown; /* the last look that it was handed on in */
};

/* Requests in flight, by their address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, struct held);
} requests SEC(".maps");

/* The paths of those that name one. */
struct path_of_request {
	u8 bytes[REQUEST_PATH]; /* struct named_record, as far as it fits */
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, struct path_of_request);
} request_paths SEC(".maps");

#define PATH_OF(type, request, directory, path)                          \
	({                                                                \
		given->directory_fd = READ(type, request, directory);     \
		given->name = READ(type, request, path);                  \
	})

struct given {
	s32 directory_fd;
	struct filename *name;
};

/* The path that a request names, and the directory where it begins. */
static __always_inline void path_of_request(struct io_kiocb *request, u32 path, struct given *given)
{
	switch (path) {
	case PATH_OPEN:
		PATH_OF(struct io_open, request, dfd, filename);
		break;
	case PATH_STATX:
		PATH_OF(struct io_statx, request, dfd, filename);
		break;
	case PATH_UNLINK:
		PATH_OF(struct io_unlink, request, dfd, filename);
		break;
	case PATH_MKDIR:
		PATH_OF(struct io_mkdir, request, dfd, filename);
		break;
	case PATH_RENAME:
		PATH_OF(struct io_rename, request, old_dfd, oldpath);
		break;
	case PATH_LINK:
		PATH_OF(struct io_link, request, old_dfd, oldpath);
		break;
	case PATH_SYMLINK: /* the link itself, as with the system call */
		PATH_OF(struct io_link, request, new_dfd, newpath);
		break;
	}
}

/* Remembers the path of a request until it completes, and how long its texts are. */
static __always_inline void keep_path(struct task_struct *task, struct io_kiocb *request, u32 path, struct record *record)
{
	struct desk *desk = clean(AT_SUBMIT);
	struct given given = {};
	const char *name = 0;
	u64 key = (u64)request;
	s64 len = 0;

	if (!desk)
		return;
	path_of_request(request, path, &given);
	if (given.name && !IS_ERROR(given.name))
		name = READ(struct filename, given.name, name);
	if (name)
		len = bpf_probe_read_kernel_str(desk->to.texts, GIVEN, name);
	if (len <= 1 || len >= GIVEN) {
		record->named = NAMED_UNKNOWN;
		return;
	}
	desk->len = len;
	if (lay_directory(task, given.directory_fd, desk->to.texts[0] == '/', desk))
		walk(AT_SUBMIT);
	if (desk->len > REQUEST_PATH - sizeof(struct record) || desk->named & NAMED_UNKNOWN ||
	    bpf_map_update_elem(&request_paths, &key, &desk->to, BPF_ANY)) {
		record->named = NAMED_UNKNOWN;
		return;
	}
	record->named = desk->named;
	record->given_len = len;
	record->names_len = desk->len - len;
}

/* Lays the path of a request on the desk. */
static __always_inline void take_path(u64 key, const struct record *record, struct desk *desk)
{
	struct path_of_request *kept = bpf_map_lookup_elem(&request_paths, &key);
	u32 len = record->given_len + record->names_len;

	desk->named = record->named;
	if (!kept || len > REQUEST_PATH - sizeof(*record))
		return;
	bpf_probe_read_kernel(desk->to.texts, len, kept->bytes + sizeof(*record));
	desk->len = len;
}

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
	struct held held = {};
	u64 key = (u64)request, flags;

	if (!(call->flags & CALL_WANTED) || !is_pid_wanted(&config.threads, task->tgid))
		return 0;
	flags = request->flags;
	if (flags & REQUEST_SILENT) {
		count(COUNT_URING_SILENT);
		return 0;
	}
	held.record.size = call->size_at < ARGUMENTS ? READ(struct io_rw, request, len) : ~0ULL;
	held.record.offset = call->offset_at < ARGUMENTS ? (u64)READ(struct io_rw, request, kiocb.ki_pos) : ~0ULL;
	held.record.pid = task->tgid;
	held.record.tid = task->pid;
	held.record.call = number;
	/* A registered file is told by its place in a table, which is no descriptor. */
	held.record.fd = -1;
	if (!call->path_at && !(flags & REQUEST_FIXED_FILE) && bpf_core_field_exists(request->cqe.fd))
		held.record.fd = request->cqe.fd;
	bpf_get_current_comm(held.record.comm, sizeof(held.record.comm));
	if (config.want_process)
		read_process_name(task, held.record.process);
	if (!are_names_wanted(&config.threads, (u64 *)held.record.comm, (u64 *)held.record.process))
		return 0;
	if (config.want_cgroup)
		held.record.cgroup = bpf_get_current_cgroup_id();
	if (config.want_about && config.mode == MODE_EVENTS)
		held.record.about = about_task(task, AT_ABOUT_REQUEST);
	if (config.want_path && config.mode == MODE_EVENTS && call->path_at)
		keep_path(task, request, call->path_at, &held.record);
	held.record.start_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&requests, &key, &held, BPF_ANY))
		count(COUNT_URING_FULL);
	return 0;
}

/* The file that a request has opened, if it has got a descriptor. */
static __always_inline struct file *opened_by(struct io_kiocb *request, s64 result)
{
	if (result < 0 || READ(struct io_open, request, file_slot))
		return 0;
	return file_of(bpf_get_current_task_btf()->files, result);
}

static __always_inline void fill_request(struct record *to, const struct record *from, u64 latency_ns, s64 result,
					 const struct identity *is, u32 sample_weight)
{
	*to = *from;
	put_identity(to, is);
	to->latency_ns = latency_ns;
	to->result = result;
	to->sample_weight = sample_weight;
	if (config.want_cpu)
		to->cpu = bpf_get_smp_processor_id();
}

static __always_inline void put_request(u64 key, struct record *from, u64 latency_ns, s64 result, struct file *file,
					const struct identity *is, u32 sample_weight)
{
	bool is_socket = config.want_ends && has_ends(is->type);
	struct record *to;

	if (config.types && !(config.types >> is->type & 1))
		return;
	if (config.want_path || is_socket) {
		struct desk *desk = clean(AT_REQUESTS);
		struct ends ends = {};
		u32 given_len = 0;

		if (!desk)
			return;
		fill_request(&desk->to.record, from, latency_ns, result, is, sample_weight);
		if (config.want_path && file && is_named(is)) {
			if (lay_file(file, desk))
				walk(AT_REQUESTS);
		} else if (from->given_len || from->named) {
			given_len = from->given_len;
			take_path(key, from, desk);
		}
		if (is_socket && file)
			take_ends(file, is->type, &ends);
		put_texts(desk, given_len, is_socket ? &ends : 0, 0);
		return;
	}
	to = bpf_ringbuf_reserve(&events, sizeof(*to), 0);
	if (!to) {
		count(COUNT_RING_FULL);
		return;
	}
	fill_request(to, from, latency_ns, result, is, sample_weight);
	bpf_ringbuf_submit(to, SUBMIT_FLAGS);
}

static __always_inline void complete(struct io_kiocb *request, s64 result)
{
	struct identity is = {};
	struct record *record;
	struct file *file;
	u64 key = (u64)request, latency_ns;
	u32 number, sample_weight, operation;

	if (!request)
		return;
	record = bpf_map_lookup_elem(&requests, &key);
	if (!record) {
		operation = READ(struct io_kiocb, request, opcode);
		if (operation >= CALLS_URING)
			return;
		number = CALLS_NUMBERED + operation;
		/* Whose it is cannot be told here, so that a list of processes makes them uncountable. */
		if (!(config.calls[number].flags & CALL_WANTED) || config.threads.pids_len || config.threads.comms_len ||
		    config.threads.processes_len)
			return;
		if (config.calls[number].flags & CALL_AGAIN)
			count(COUNT_URING_AGAIN);
		else if (bpf_get_current_pid_tgid() >> 32 != config.threads.own_pid)
			count(COUNT_URING_ORPHAN);
		return;
	}
	latency_ns = bpf_ktime_get_ns() - record->start_ns;
	sample_weight = sample_weight_of(latency_ns);
	if (sample_weight) {
		number = record->call;
		file = config.want_file ? READ(struct io_kiocb, request, file) : 0;
		if (config.want_file && number < CALLS && config.calls[number].path_at == PATH_OPEN) {
			file = opened_by(request, result);
			if (file)
				record->fd = result;
		}
		identify(file, &is);
		if (config.mode == MODE_EVENTS)
			put_request(key, record, latency_ns, result, file, &is, sample_weight);
		else if (number < CALLS)
			tally(number, &is, latency_ns, result);
	}
	if (config.want_path && record->given_len)
		bpf_map_delete_elem(&request_paths, &key);
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
