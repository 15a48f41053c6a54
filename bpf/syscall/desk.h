/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What is laid on the desk of a CPU before an event is handed on: texts, the ends of a socket, arguments, paths. Included
 * by syscall.bpf.c behind what it uses.
 */
#ifndef LATSCOPE_DESK_H
#define LATSCOPE_DESK_H

/* Appends what is no text; false when there is no room. */
static __always_inline bool append_bytes(struct desk *desk, const void *bytes, u32 len)
{
	u32 at = desk->len;

	if (at > TEXTS - NAME)
		return false;
	bpf_probe_read_kernel(desk->to.texts + at, len, bytes);
	desk->len = at + len;
	return true;
}

/* Hands on a record with its texts, the ends of its socket and its arguments, null where there are none. */
static __always_inline void put_texts(struct desk *desk, u32 given_len, const struct ends *ends, const u64 *arguments)
{
	struct record *record = &desk->to.record;
	u32 len;

	record->given_len = given_len;
	record->names_len = desk->len - given_len;
	if (ends && append_bytes(desk, ends, sizeof(*ends)))
		desk->named |= NAMED_ENDS;
	if (arguments && append_bytes(desk, arguments, ARGUMENTS * sizeof(*arguments)))
		desk->named |= NAMED_ARGUMENTS;
	len = desk->len;
	if (len > TEXTS)
		return;
	record->named = desk->named;
	if (bpf_ringbuf_output(&events, &desk->to, sizeof(*record) + len, SUBMIT_FLAGS))
		count(COUNT_RING_FULL);
}

/* Lays the directory on the desk in which a path begins; whether there is a way up from it. */
static __always_inline bool lay_directory(struct task_struct *task, s32 fd, bool absolute, struct desk *desk)
{
	struct fs_struct *fs = task->fs;
	struct file *file;

	if (!absolute && fd != AT_FDCWD) {
		file = file_of(task->files, fd);
		if (!file)
			desk->named |= NAMED_UNKNOWN;
		return file && lay_file(file, desk);
	}
	if (!fs) {
		desk->named |= NAMED_UNKNOWN;
		return false;
	}
	desk->mount = (u64)(absolute ? READ(struct fs_struct, fs, root.mnt) : READ(struct fs_struct, fs, pwd.mnt));
	desk->dentry = (u64)(absolute ? READ(struct fs_struct, fs, root.dentry) : READ(struct fs_struct, fs, pwd.dentry));
	return true;
}

/* The path that a call was given: its bytes, 0 when it is about a descriptor. */
static __always_inline u32 take_given(u64 given, struct desk *desk)
{
	/* The page was read a moment ago, or the call would have failed. */
	s64 len = given ? bpf_probe_read_user_str(desk->to.texts, GIVEN, (void *)given) : 0;

	if (len < 0 || len >= GIVEN)
		desk->named |= NAMED_UNKNOWN;
	if (len <= 1 || len >= GIVEN)
		return 0;
	desk->len = len;
	return len;
}

/* Puts the name on the desk that the file had before it was closed. */
static __always_inline void take_closed(struct task_struct *task, const struct identity *is, struct desk *desk,
					struct ends *ends)
{
	bool is_socket = config.want_ends && has_ends(is->type);
	struct closing *left = is_named(is) || is_socket ? bpf_task_storage_get(&closing, task, 0, 0) : 0;
	u32 len;

	if (!left)
		return;
	if (is_socket) {
		bpf_probe_read_kernel(ends, sizeof(*ends), left->names);
		return;
	}
	len = left->len;
	if (len > CLOSING)
		return;
	bpf_probe_read_kernel(desk->to.texts, len, left->names);
	desk->len = len;
	desk->named = left->named;
}

#endif
