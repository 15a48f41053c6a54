/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What every program needs: the few kernel types it looks into, written out by hand (offsets come from the running
 * kernel's BTF, so only names and kinds of the fields matter), counters of losses, and the ring buffer's wake-ups.
 */
#ifndef LATSCOPE_CORE_H
#define LATSCOPE_CORE_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u16 __sum16;
typedef __u32 __wsum;

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef _Bool bool;
#define true 1
#define false 0

/* From linux/bpf.h, whose numbers are fixed. */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1, BPF_EXIST = 2 };
#define EEXIST 17
enum { BPF_F_NO_PREALLOC = 1, BPF_F_MMAPABLE = 1024 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2, BPF_RB_AVAIL_DATA = 0 };

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* A kernel type: the loader looks up where its fields are. */
#define KERNEL __attribute__((preserve_access_index))

/*
 * The configuration is one struct in a section of its own, so that the loader sets it as a whole and the verifier
 * takes its fields for constants: what is off costs nothing.
 */
#define CONFIG(type) const volatile type config SEC(".rodata.config") = {}

/*
 * Reads a field. Programs attached by BTF (`direct` is the constant true) load it; raw ones must ask a helper, which
 * costs more. `direct` is known when the function is inlined, so that only one of the two remains.
 */
#define FIELD(direct, pointer, field)                                                        \
	({                                                                                   \
		__typeof__((pointer)->field) field_value = 0;                                \
		if (direct)                                                                  \
			field_value = (pointer)->field;                                      \
		else                                                                         \
			bpf_core_read(&field_value, sizeof(field_value), &(pointer)->field); \
		field_value;                                                                 \
	})

/* The name of a process: that of its main thread, whatever the others call themselves. */
struct task_struct___named {
	struct task_struct___named *group_leader;
	char comm[16];
} KERNEL;
static __always_inline void read_process_name(void *task, u8 *to)
{
	struct task_struct___named *leader = 0;

	bpf_core_read(&leader, sizeof(leader), &((struct task_struct___named *)task)->group_leader);
	bpf_core_read(to, 16, &leader->comm);
}

/* Copies the name of a task that may be looked into; the helper for that of the present one takes longer. */
static __always_inline void put_name(const char *name, u8 *to)
{
	((u64 *)to)[0] = ((const u64 *)name)[0];
	((u64 *)to)[1] = ((const u64 *)name)[1];
}

/* Counters per CPU; what a slot counts is said by an enum of each object, which user space shares. */
#define COUNTERS 32
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, u32);
	__type(value, u64);
} counts SEC(".maps");

static __always_inline void count(u32 what)
{
	u64 *slot = bpf_map_lookup_elem(&counts, &what);

	if (slot)
		*slot += 1;
}

/*
 * Waking the reader costs far more than a record, so nobody does: it looks by itself, every few milliseconds, which is
 * why records are submitted with this flag.
 */
#define SUBMIT_FLAGS BPF_RB_NO_WAKEUP

#endif
