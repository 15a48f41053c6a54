/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the programs and user space (crates/capture-bpf/src/syscall/shared.rs) share; the layout is tested. */
#ifndef LATSCOPE_SYSCALL_H
#define LATSCOPE_SYSCALL_H

#include "file_types.h"
#include "texts.h"
#include "wanted.h"

/* System calls by number, the last for all beyond; behind them the operations of io_uring. */
#define CALLS_NUMBERED 512
#define CALLS_URING 64
#define CALLS (CALLS_NUMBERED + CALLS_URING)

enum {
	CALL_WANTED = 1,
	CALL_FD = 2, /* its first argument is a file descriptor */
	CALL_RETURNS_FD = 4,
	CALL_MOVES = 8, /* it returns the bytes that it moved */
	CALL_CLOSES = 16, /* its file is gone when it returns */
	CALL_NEVER_RETURNS = 32,
	CALL_FORKS = 64, /* it returns in the child too, which did not enter it */
	CALL_AGAIN = 128, /* one request may complete many times */
	CALL_REQUESTS = 256, /* its files are those of the requests that it hands in (io_submit) */
	CALL_CONNECTS = 512, /* its second argument is the address of the other end (connect) */
	CALL_DATAGRAM = 1024, /* its fifth argument is the address of the other end, or null (sendto, recvfrom) */
	CALL_MESSAGE = 2048, /* its second argument is a message with the address of the other end (sendmsg, recvmsg) */
};
#define ARGUMENTS 6
/* Instead of a call: the record describes a process, struct about. */
#define CALL_ABOUT 0xffff


struct call {
	u16 flags;
	u16 slot; /* its histogram where calls alone are the keys */
	u8 size_at; /* the argument with the size, ARGUMENTS when there is none */
	u8 offset_at;
	u8 path_at; /* the path of what it is about; of a request of io_uring an enum uring_path */
	u8 directory_at; /* where a relative path begins; ARGUMENTS stands for the working directory */
};

/* Where requests of io_uring have their path. */
enum uring_path {
	PATH_NONE,
	PATH_OPEN,
	PATH_STATX,
	PATH_UNLINK,
	PATH_MKDIR,
	PATH_RENAME,
	PATH_LINK,
	PATH_SYMLINK,
};

enum { MODE_EVENTS, MODE_BY_CALL, MODE_BY_FILE };

enum counter {
	COUNT_RING_FULL,
	COUNT_UNPAIRED_EXIT,
	COUNT_UNPAIRED_ENTER,
	COUNT_NEVER_RETURNS,
	COUNT_FOREIGN, /* calls of 32-bit programs, whose numbers mean other calls */
	COUNT_KEYS_FULL,
	COUNT_URING_FULL, /* more requests in flight than the table holds */
	COUNT_URING_SILENT, /* requests that do not tell of their completion */
	COUNT_URING_ORPHAN, /* completions without a request */
	COUNT_URING_AGAIN, /* further completions of a request */
	COUNT_LEN,
};

struct config {
	struct call calls[CALLS];
	u64 min_latency_ns;
	u64 slow_ns; /* of what is faster, one in `one_in` is kept; 0 keeps all */
	u64 types; /* a bit for each wanted type of file; 0 wants all */
	struct wanted threads;
	u32 one_in;
	u32 mode;
	u32 power; /* of the grid */
	u32 want_arguments;
	u32 want_file;
	u32 want_cgroup;
	u32 want_path;
	u32 want_process;
	u32 want_about;
	u32 want_cpu;
	u32 want_ends;
	u32 want_call_args;
};

struct record {
	u64 start_ns;
	u64 latency_ns;
	s64 result;
	u64 size; /* as asked for; ~0 when it does not say */
	u64 offset;
	u64 inode; /* 0 when the file is not known */
	u64 cgroup;
	u8 comm[COMM];
	u8 process[COMM]; /* the name of the main thread */
	u32 pid;
	u32 tid;
	s32 fd; /* -1 when there is none */
	u32 dev; /* major << 20 | minor; 0 when it lies on no device */
	u32 generation; /* tells a file from an earlier one with its inode number */
	u32 sample_weight;
	u16 call;
	u8 file_type;
	u8 named; /* bits of enum named */
	u16 given_len; /* what follows: the path as the program gave it, with its zero, */
	u16 names_len; /* and names from a file or directory up to the root, a slash behind each */
	u32 about; /* number of the description of its process, 0 when there is none */
	u32 cpu;
};

/* The ends of a socket. Addresses of version 4 are the first four bytes. */
struct ends {
	u8 local[16];
	u8 remote[16];
	u16 local_port;
	u16 remote_port;
	u16 socket_type; /* SOCK_* */
	u16 protocol; /* IPPROTO_* */
	u32 net; /* number of the network namespace */
	u8 state; /* TCP_* */
	u8 unused[3];
};

/* A record with its texts. */
struct named_record {
	struct record record;
	u8 texts[TEXTS];
};

/* A call or request in progress; its start is 0 when it began before the capture. */
struct wait {
	struct record record;
	u64 magic; /* of its file system */
};

/* What a request of io_uring is told of its path, as far as it fits. */
#define REQUEST_PATH 2048

/* Key of a histogram by file. */
struct key {
	u32 dev;
	u16 call;
	u8 file_type;
	u8 half; /* of odd epochs, or of even ones */
};

#endif
