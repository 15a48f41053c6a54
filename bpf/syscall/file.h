/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a file descriptor is: its type, its device, its inode. Loads only, so that it can be done for every call. */
#ifndef LATSCOPE_FILE_H
#define LATSCOPE_FILE_H

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

/* Types of files that have a name in a file system, or one like it. */
#define TYPES_NAMED                                                                                                 \
	(1 << TYPE_FILE | 1 << TYPE_DIRECTORY | 1 << TYPE_CHAR | 1 << TYPE_BLOCK | 1 << TYPE_PIPE | 1 << TYPE_LINK | \
	 1 << TYPE_MEMFD)

static __always_inline bool is_named(const struct identity *is)
{
	return TYPES_NAMED >> is->type & 1;
}

#endif
