/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a file descriptor is: its type, its device, its inode. Loads only, so that it can be done for every call. */
#ifndef LATSCOPE_FILE_H
#define LATSCOPE_FILE_H

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

/* What the kernel calls its file systems (linux/magic.h, linux/pidfd.h). */
#define ANON_INODE_FS 0x09041934
#define TMPFS 0x01021994
#define HUGETLBFS 0x958458f6
#define PIDFS 0x50494446

/* Where `struct iocb` of linux/aio_abi.h has its descriptor. */
#define AIO_FILDES 20

struct identity {
	u64 inode;
	u32 dev;
	u32 generation;
	enum file_type type;
};

/* The open file behind a descriptor of this task, null when there is none. */
static __always_inline struct file *file_of(struct files_struct *files, u32 fd)
{
	struct fdtable *table;
	struct file **slots, *file = 0;

	if (!files)
		return 0;
	table = files->fdt;
	if (!table || fd >= table->max_fds)
		return 0;
	slots = table->fd;
	bpf_probe_read_kernel(&file, sizeof(file), slots + fd);
	return file;
}

/* Up to eight letters of a name from `skip` on, as a number. */
static __always_inline u64 letters(struct file *file, u32 skip, u32 len)
{
	struct dentry *dentry = READ(struct file, file, f_path.dentry);
	const unsigned char *name = READ(struct dentry, dentry, d_name.name);
	u64 word = 0;

	bpf_probe_read_kernel(&word, len, name + skip);
	return word;
}

#define WORD(a, b, c, d, e, f, g, h)                                                                     \
	((u64)(a) | (u64)(b) << 8 | (u64)(c) << 16 | (u64)(d) << 24 | (u64)(e) << 32 | (u64)(f) << 40 | \
	 (u64)(g) << 48 | (u64)(h) << 56)

/* Files without a file system are told by their names, `[eventfd]`. */
static __always_inline u32 anonymous_type(struct file *file)
{
	u64 word = letters(file, 1, 8);

	if (word == WORD('e', 'v', 'e', 'n', 't', 'f', 'd', ']'))
		return TYPE_EVENT;
	if (word == WORD('e', 'v', 'e', 'n', 't', 'p', 'o', 'l'))
		return TYPE_EVENTPOLL;
	if (word == WORD('s', 'i', 'g', 'n', 'a', 'l', 'f', 'd'))
		return TYPE_SIGNALFD;
	if (word == WORD('t', 'i', 'm', 'e', 'r', 'f', 'd', ']'))
		return TYPE_TIMERFD;
	if (word == WORD('u', 's', 'e', 'r', 'f', 'a', 'u', 'l'))
		return TYPE_USERFAULTFD;
	if (word == WORD('i', 'o', '_', 'u', 'r', 'i', 'n', 'g'))
		return TYPE_IO_URING;
	if ((u32)word == (u32)WORD('p', 'i', 'd', 'f', 0, 0, 0, 0))
		return TYPE_PIDFD;
	if ((u32)word << 8 == (u32)WORD(0, 'b', 'p', 'f', 0, 0, 0, 0))
		return TYPE_BPF;
	/* `inotify` has no brackets, and is one file system with all others. */
	if ((u32)word == (u32)WORD('n', 'o', 't', 'i', 0, 0, 0, 0) || (u32)word == (u32)WORD('i', 'n', 'o', 't', 0, 0, 0, 0))
		return TYPE_INOTIFY;
	return TYPE_OTHER;
}

static __always_inline u32 socket_type(struct file *file)
{
	void *socket = READ(struct file, file, private_data);
	struct sock *sock = READ(struct socket, socket, sk);

	switch (READ(struct sock, sock, __sk_common.skc_family)) {
	case 1:
		return TYPE_UNIX;
	case 2:
		return TYPE_IPV4;
	case 10:
		return TYPE_IPV6;
	case 16:
		return TYPE_NETLINK;
	}
	return TYPE_SOCKET;
}

static __always_inline void identify(struct file *file, struct identity *is)
{
	struct inode *inode;
	struct super_block *sb;
	unsigned long magic;

	if (!file)
		return;
	inode = READ(struct file, file, f_inode);
	sb = READ(struct inode, inode, i_sb);
	is->inode = READ(struct inode, inode, i_ino);
	is->generation = READ(struct inode, inode, i_generation);
	switch (READ(struct inode, inode, i_mode) >> 12) {
	case 1:
		is->type = TYPE_PIPE;
		return;
	case 2:
		is->type = TYPE_CHAR;
		return;
	case 4:
		is->type = TYPE_DIRECTORY;
		break;
	case 6:
		is->type = TYPE_BLOCK;
		is->dev = READ(struct inode, inode, i_rdev);
		return;
	case 10:
		is->type = TYPE_LINK;
		break;
	case 12:
		is->type = socket_type(file);
		return;
	default:
		magic = READ(struct super_block, sb, s_magic);
		if (magic == ANON_INODE_FS) {
			is->type = anonymous_type(file);
			return;
		}
		if (magic == PIDFS) {
			is->type = TYPE_PIDFD;
			return;
		}
		is->type = TYPE_FILE;
		if ((magic == TMPFS || magic == HUGETLBFS) &&
		    letters(file, 0, 6) == WORD('m', 'e', 'm', 'f', 'd', ':', 0, 0))
			is->type = TYPE_MEMFD;
	}
	is->dev = READ(struct super_block, sb, s_dev);
}

#endif
