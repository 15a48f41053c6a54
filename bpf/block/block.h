/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What crates/capture-bpf/src/block shares with the programs. No struct has padding. */
#ifndef LATSCOPE_BLOCK_H
#define LATSCOPE_BLOCK_H

#include "texts.h"
#include "stacks/record.h"

/* Slots of `counts`. */
enum counter {
	PARTIAL,        /* partial completions; the last one of a request is its event */
	FLUSH_PARENT,   /* the parent of a flush, which never went to the device itself */
	UNSTAMPED,      /* nobody knows when it was issued: left out */
	NEVER_ISSUED,   /* failed before it came to the device */
	REVERSED,       /* stamps in the wrong order, the difference taken as 0 */
	NO_ISSUER,      /* began before the capture, or found no place in `in_flight` */
	RING_FULL,
	KEYS_FULL,
	OWN_STAMPS,     /* the kernel's stamps were not usable, ours were */
	FAILED,         /* histogram mode: completed with an error */
	UNSEEN_END,     /* event mode: began again, and nobody saw it complete in between */
	BLOCK_COUNTERS,
};

/* A request as letters: what it is ... */
enum class { READ, WRITE, FLUSH, DISCARD, ERASE, OTHER, CLASSES };
/* ... and how, six bits. */
enum { PREFLUSH = 1, FUA = 2, AHEAD = 4, SYNC = 8, META = 16, ATOMIC = 32, MODES = 64 };

/* Kinds of the histograms' keys. */
enum kind { KIND_READ, KIND_WRITE, KIND_FLUSH, KIND_DISCARD, KIND_OTHER };

struct block_config {
	u64 min_latency_ns;      /* push-down and sample look at the latency that the user asked for */
	u64 slow_ns;             /* events at least this slow are kept, */
	u64 wanted[CLASSES];     /* by class, a bit for each of its MODES */
	u64 slow_stack_ns;       /* requests at least this slow have the stack of their issuer, if it still waits */
	u32 one_in;              /* of the others one in so many; 0: all */
	u32 events;              /* event mode, else histograms */
	u32 from_queue;          /* latency counts from when the request began to wait */
	u32 some_devices;        /* only those in `devices` */
	u32 some_pids;           /* only those in `pids` */
	u32 some_comms;          /* only those in `comms` */
	u32 issuer_at_issue;     /* there is no block_io_start: who issues counts as the issuer */
	u32 power;               /* of the histograms' grid */
	u32 ignore_stamps;       /* for tests: as if the kernel kept none */
	u32 some_processes;      /* only those in `processes` */
	u32 want_process;
	u32 want_about;
	u32 keys;                /* how many histograms there is room for */
	u32 issue_one_in;        /* of so many requests one has the stack of its issue; 0: none */
	u32 user_stacks;
	u32 pad;
};

/* An event. Times are CLOCK_MONOTONIC. */
struct block_record {
	u64 issue_ns;
	u64 latency_ns;
	u64 queue_ns;            /* NO_QUEUE when not known */
	u64 offset;              /* NO_OFFSET for requests without a place: flushes */
	u64 cgroup;
	u64 size;
	u32 dev;
	u32 pid;                 /* 0 when not known */
	u32 tid;
	u32 letters;             /* class << 6 | mode */
	s32 error;               /* below zero an errno, above a blk_status_t */
	u32 sample_weight;
	u8 comm[16];
	u8 process[16];          /* the name of the main thread */
	u32 about;               /* number of the description of the process, 0 when there is none */
	u32 cpu;
	u16 texts_len;           /* bytes behind it: LETTERS_ABOUT and the like; of a request struct stack_record and its kernel stack */
	u16 looked;              /* enum looked */
	u32 issued;              /* number of the stack of its issue, 0 when there is none */
};
/* Instead of a request: the record describes a process, struct about; the stack of an issue; or that of a thread that returns. */
#define LETTERS_ABOUT (~0U)
#define LETTERS_ISSUED (~1U)
#define LETTERS_RETURNED (~2U)
/*
 * Why somebody looked whether the issuer of a request still waits for it. LOOKED_KERNEL: it is slow, and no thread was looked at, as
 * a thread of the kernel issued it, or nobody saw who did.
 */
enum looked { LOOKED_NOT, LOOKED_SLOW, LOOKED_FAST, LOOKED_KERNEL };
#define NO_QUEUE (~0ULL)
#define NO_OFFSET (~0ULL)

/* A request in flight. */
struct block_issuer {
	u64 start_ns;            /* our own stamps: when it began to wait */
	u64 issue_ns;            /* and when the device got it, if anybody had to look */
	u64 cgroup;
	u32 done;                /* bytes of partial completions */
	u32 issued;              /* as in struct block_record */
	u32 dev;
	u32 letters;
	u32 wait;                /* tells the next wait of its thread in this call from others; 0 when no thread could wait for it */
	u32 pid;
	u32 tid;
	u32 about;
	u8 comm[16];
	u8 process[16];
};

/* A request that has not completed for long, and whether the stack of its issuer was found. */
struct block_hung {
	u64 request;
	u64 found;
};

/* What user space asks of the walk over the tags of a disk, and where the walk stopped: it goes on there when asked again. */
struct block_walk {
	u64 now_ns;              /* when it was walked */
	u64 busy;                /* tags of the present word that were not looked at yet */
	u32 dev;                 /* the number that the disk must have */
	s32 fd;                  /* its directory in sysfs, open in the process that asks */
	u32 queues;              /* hardware queues that were begun */
	u32 words;               /* words of the present queue's bitmap that were begun */
	u32 scheduler;           /* the tags of the scheduler, not those of the driver */
	u32 found;               /* how many of the places in `found` are filled */
	u32 end;                 /* enum walk_end */
	u32 pad;
};
enum walk_end { WALK_MORE, WALK_DONE, WALK_NO_DISK, WALK_NO_TAGS };

/* A request that has a tag. Times are CLOCK_MONOTONIC, 0 when not known. */
struct block_waiting {
	u64 request;             /* its address */
	u64 start_ns;            /* when it began to wait */
	u64 issue_ns;            /* when the device got it */
	u64 offset;              /* NO_OFFSET for requests without a place */
	u64 cgroup;
	u64 size;
	u32 dev;
	u32 letters;
	u32 pid;                 /* 0 when not known */
	u32 tid;
	u32 at_device;           /* the device has it */
	u32 pad;
	u8 comm[16];
	u8 process[16];
};
#define WALK_ROOM 64

/* A histogram, per CPU. */
struct block_hist {
	struct hist head;
	u32 buckets[HIST_MAX_LEN];
};

#endif
