/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A program that a thread runs when it goes back to user space (Linux 6.18): then its user stack, which it had all the time
 * that it waited in the kernel, can be copied, which from outside cannot be done without sleeping.
 */
#ifndef LATSCOPE_RETURN_H
#define LATSCOPE_RETURN_H

/* A type that is only announced would not match the kernel's. */
struct bpf_map {
	u32 id;
} KERNEL;
struct bpf_task_work {
	u64 __opaque;
} __attribute__((aligned(8)));
typedef int (*bpf_task_work_callback_t)(struct bpf_map *map, void *key, void *value);
extern int bpf_task_work_schedule_resume_impl(struct task_struct *task, struct bpf_task_work *work, void *map,
					      bpf_task_work_callback_t callback, void *aux) __ksym __weak;

/* Threads that will run it. */
struct returning {
	struct bpf_task_work work;
	u64 switches;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct returning);
} returning SEC(".maps");

/* Has a thread run `callback` when it goes back; nothing happens where the kernel cannot do it, or when it will already. */
#define ON_RETURN(task, tid, switched, callback)                                                            \
	do {                                                                                                \
		u32 return_key = tid;                                                                       \
		struct returning *return_of;                                                                \
                                                                                                            \
		if (!bpf_task_work_schedule_resume_impl)                                                    \
			break;                                                                              \
		return_of = bpf_map_lookup_elem(&returning, &return_key);                                   \
		if (!return_of) {                                                                           \
			struct returning return_new = {};                                                   \
                                                                                                            \
			bpf_map_update_elem(&returning, &return_key, &return_new, BPF_NOEXIST);             \
			return_of = bpf_map_lookup_elem(&returning, &return_key);                           \
		}                                                                                           \
		if (!return_of)                                                                             \
			break;                                                                              \
		return_of->switches = switched;                                                             \
		if (bpf_task_work_schedule_resume_impl(task, &return_of->work, &returning, callback, 0) < 0) \
			break;                                                                              \
	} while (0)

#endif
