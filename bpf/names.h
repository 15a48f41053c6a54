/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a file is called at this moment: its name, then those of the directories above it, across mounts up to the root
 * of its mount namespace. The walk is d_path()'s, which programs of this type may not call.
 */
#ifndef LATSCOPE_NAMES_H
#define LATSCOPE_NAMES_H

struct super_block {
	u32 s_dev;
	unsigned long s_magic;
} KERNEL;
struct inode {
	u16 i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	u32 i_rdev;
	u32 i_generation;
} KERNEL;
struct qstr {
	u32 len;
	const unsigned char *name;
} KERNEL;
struct seqcount {
	unsigned int sequence;
} KERNEL;
typedef struct seqcount seqcount_t;
struct seqcount_spinlock {
	seqcount_t seqcount;
} KERNEL;
typedef struct seqcount_spinlock seqcount_spinlock_t;
struct hlist_bl_node {
	struct hlist_bl_node **pprev;
} KERNEL;
struct dentry_operations;
struct dentry {
	seqcount_spinlock_t d_seq;
	struct hlist_bl_node d_hash;
	struct dentry *d_parent;
	struct qstr d_name;
	const struct dentry_operations *d_op;
} KERNEL;
struct vfsmount;
struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
} KERNEL;
struct file {
	struct inode *f_inode;
	struct path f_path;
	void *private_data;
} KERNEL;
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} KERNEL;
struct files_struct {
	struct fdtable *fdt;
} KERNEL;
struct sock_common {
	u16 skc_family;
} KERNEL;
struct sock {
	struct sock_common __sk_common;
} KERNEL;
struct socket {
	struct sock *sk;
} KERNEL;

/* Makes any pointer one that may be read without a helper; kernels before 6.2 do not have it. */
extern void *bpf_rdonly_cast(const void *object, u32 type) __ksym __weak;

#define READ(type, pointer, field)                                                                      \
	({                                                                                              \
		__typeof__(((type *)0)->field) read_value = 0;                                          \
		if (bpf_rdonly_cast)                                                                    \
			read_value =                                                                    \
				((type *)bpf_rdonly_cast(pointer, bpf_core_type_id_kernel(type)))->field; \
		else                                                                                    \
			bpf_core_read(&read_value, sizeof(read_value), &((type *)(pointer))->field);    \
		read_value;                                                                             \
	})

struct vfsmount {
	struct dentry *mnt_root;
} KERNEL;
struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
	void *mnt_ns;
} KERNEL;
struct dentry_operations {
	void *d_dname;
} KERNEL;
struct fs_struct {
	struct path root, pwd;
} KERNEL;

/* Directories and mounts on the way up, and the longest name of one. */
#define STEPS 100
#define NAME 256
/* The longest path that a call takes. */
#define GIVEN 4096
/* A path begins in the working directory. */
#define AT_FDCWD -100
/* An address in which errno values stand for pointers. */
#define IS_ERROR(pointer) ((unsigned long)(pointer) >= (unsigned long)-4095)

/*
 * Where records with texts are put together, for each kind of program one, as they may interrupt each other: the only
 * way to speak to a function that the verifier looks at on its own. Inlined, a walk would be verified for each state of
 * each caller.
 */
#ifndef OWN_DESKS
enum { AT_ABOUT, AT_ABOUT_REQUEST, AT_ENTER, AT_EXIT, AT_REQUESTS, AT_SUBMIT, AT_WAITING, AT_LEN };
#endif
struct desk {
	u64 mount; /* of the entry at which a walk begins */
	u64 dentry;
	u32 len; /* of the texts so far */
	u32 named;
	struct named_record to;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, AT_LEN);
	__type(key, u32);
	__type(value, struct desk);
} desks SEC(".maps");

/* A desk with nothing on it. */
static __always_inline struct desk *clean(u32 at)
{
	struct desk *desk = bpf_map_lookup_elem(&desks, &at);

	if (desk) {
		desk->len = 0;
		desk->named = 0;
	}
	return desk;
}

/* Appends a name and a slash; false when there is no room. */
static __always_inline bool append(struct dentry *dentry, struct desk *to)
{
	const unsigned char *name = READ(struct dentry, dentry, d_name.name);
	u32 at = to->len, letters = READ(struct dentry, dentry, d_name.len);

	if (letters >= NAME || at > TEXTS - NAME)
		return false;
	bpf_probe_read_kernel(to->to.texts + at, letters, name);
	at += letters;
	to->to.texts[at & (TEXTS - 1)] = '/';
	to->len = at + 1;
	return true;
}

/* Appends the names on the way up from the entry that lies on the desk. */
__noinline int walk(u32 which)
{
	struct desk *desk = bpf_map_lookup_elem(&desks, &which);
	struct dentry *dentry;
	struct mount *mount;

	if (!desk)
		return 0;
	dentry = (void *)desk->dentry;
	mount = (void *)desk->mount - bpf_core_field_offset(struct mount, mnt);
	for (u32 step = 0; step < STEPS; step++) {
		struct dentry *parent;
		u32 sequence, before;

		if (dentry == READ(struct mount, mount, mnt.mnt_root)) {
			struct mount *above = READ(struct mount, mount, mnt_parent);

			if (above == mount) {
				void *space = READ(struct mount, mount, mnt_ns);

				/* Unmounted meanwhile: nobody knows where it was. */
				if (!space || IS_ERROR(space))
					break;
				return 0;
			}
			dentry = READ(struct mount, mount, mnt_mountpoint);
			mount = above;
			continue;
		}
		before = desk->len;
		sequence = READ(struct dentry, dentry, d_seq.seqcount.sequence);
		parent = READ(struct dentry, dentry, d_parent);
		if (parent == dentry || !append(dentry, desk))
			break;
		/* It was renamed while we read: once more. */
		if (sequence & 1 || sequence != READ(struct dentry, dentry, d_seq.seqcount.sequence))
			desk->len = before;
		else
			dentry = parent;
	}
	desk->named |= NAMED_UNKNOWN;
	return 0;
}

/* Lays a file on the desk; whether there is a way up from it. */
static __always_inline bool lay_file(struct file *file, struct desk *desk)
{
	struct dentry *dentry = READ(struct file, file, f_path.dentry);
	struct vfsmount *mount = READ(struct file, file, f_path.mnt);
	const struct dentry_operations *operations = READ(struct dentry, dentry, d_op);
	bool is_root = READ(struct dentry, dentry, d_parent) == dentry;

	desk->mount = (u64)mount;
	desk->dentry = (u64)dentry;
	if (operations && READ(struct dentry_operations, operations, d_dname) &&
	    !(is_root && dentry == READ(struct vfsmount, mount, mnt_root))) {
		desk->named |= NAMED_PSEUDO;
		if (!append(dentry, desk))
			desk->named |= NAMED_UNKNOWN;
		return false;
	}
	if (!is_root && !READ(struct dentry, dentry, d_hash.pprev))
		desk->named |= NAMED_DELETED;
	desk->named |= NAMED_FILE;
	return true;
}

#endif
