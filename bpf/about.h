/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the process of an event is. A process is described once, by a record of its own in front of its first event, and
 * again when it has executed another program, changed its directory or its user, or got another parent. Events refer to
 * the description by its number, so that it is right however late user space reads, and after the process is gone.
 */
#ifndef LATSCOPE_ABOUT_H
#define LATSCOPE_ABOUT_H

struct mm_struct {
	unsigned long arg_start, arg_end;
	struct file *exe_file;
} KERNEL;
typedef struct {
	u32 val;
} kuid_t;
typedef struct {
	u32 val;
} kgid_t;
struct cred {
	kuid_t euid;
	kgid_t egid;
} KERNEL;
struct task_struct___about {
	struct task_struct___about *real_parent;
	const struct cred *cred;
	struct mm_struct *mm;
	struct fs_struct *fs;
	u64 self_exec_id;
	int tgid;
} KERNEL;

/* What a description depends on, and its number. */
struct known {
	u64 executions;
	u64 parent;
	u64 parent_executions;
	u64 directory;
	u32 uid;
	u32 gid;
	u32 number;
	u32 unused;
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct known);
} known SEC(".maps");
u32 last_about SEC(".data.last_about") = 0;

/* Hands a description on; its number, or 0 when there is no room. */
static __always_inline u32 tell_about(struct task_struct___about *task, const struct known *now, u32 which)
{
	struct desk *desk = clean(which);
	struct mm_struct *mm = task->mm;
	struct about *about;
	u32 number, len = 0, before;

	if (!desk)
		return 0;
	number = __sync_fetch_and_add(&last_about, 1) + 1;
	about = (struct about *)desk->to.texts;
	about->number = number;
	about->uid = now->uid;
	about->gid = now->gid;
	about->ppid = task->real_parent->tgid;
	read_process_name(task->real_parent, about->parent);
	if (mm) {
		u64 start = mm->arg_start, all = mm->arg_end - start;

		len = all < ABOUT_ARGUMENTS ? all : ABOUT_ARGUMENTS;
		if (len > ABOUT_ARGUMENTS)
			return 0;
		if (bpf_probe_read_user(desk->to.texts + sizeof(*about), len, (void *)start))
			len = 0; /* paged out: user space may still find them */
	}
	about->arguments_len = len;
	desk->len = sizeof(*about) + len;
	before = desk->len;
	if (mm && mm->exe_file && lay_file(mm->exe_file, desk))
		walk(which);
	about->executable_named = desk->named;
	about->executable_len = desk->len - before;
	before = desk->len;
	desk->named = 0;
	if (task->fs) {
		struct fs_struct *fs = task->fs;

		desk->mount = (u64)READ(struct fs_struct, fs, pwd.mnt);
		desk->dentry = (u64)READ(struct fs_struct, fs, pwd.dentry);
		desk->named = NAMED_FILE;
		walk(which);
	}
	about->directory_named = desk->named;
	about->directory_len = desk->len - before;
	desk->named = 0;
	return put_about(desk) ? number : 0;
}

/* The number of the description of the present task, 0 when there is no room for one. */
static __always_inline u32 about_task(void *current, u32 which)
{
	struct task_struct___about *task = current, *parent = task->real_parent;
	struct fs_struct *fs = task->fs;
	struct known now = {}, *before;

	now.executions = task->self_exec_id;
	now.parent = (u64)parent;
	now.parent_executions = parent->self_exec_id;
	if (fs)
		now.directory = (u64)READ(struct fs_struct, fs, pwd.dentry);
	now.uid = task->cred->euid.val;
	now.gid = task->cred->egid.val;
	before = bpf_task_storage_get(&known, current, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!before)
		return 0;
	if (before->number && before->executions == now.executions && before->parent == now.parent &&
	    before->parent_executions == now.parent_executions && before->directory == now.directory &&
	    before->uid == now.uid && before->gid == now.gid)
		return before->number;
	now.number = tell_about(task, &now, which);
	*before = now;
	return now.number;
}

#endif
