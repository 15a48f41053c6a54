/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the programs and user space (crates/capture-bpf/src/stacks/shared.rs) share; the layout is tested. */
#ifndef LATSCOPE_STACKS_H
#define LATSCOPE_STACKS_H

#include "file_types.h"
#include "stacks/record.h"
#include "texts.h"
#include "wanted.h"

/* Bits of config.calls. */
enum {
	CALL_FD = 1, /* its first argument is a file descriptor */
	CALL_ASYNC = 2, /* it waits for completions of requests that the thread handed in before */
};

enum counter {
	COUNT_RING_FULL,
	COUNT_SEEN, /* tasks looked at by the sampler */
	COUNT_CAPPED, /* samples without a user stack, as others were drawn */
	COUNT_MOVED, /* samples without stacks, as the thread went on while it was looked at */
	COUNT_LOCKED, /* samples without a user stack, as somebody changes the memory map of the process */
	COUNT_COPIED, /* bytes of user stacks */
	COUNT_SHORT, /* waits below the threshold */
	COUNT_SHORT_NS, /* and their time */
	COUNT_LEFT_OUT, /* looks, waits and ticks in places that are left out */
	COUNT_UNKNOWN, /* samples and waits of threads about which nothing could be remembered */
	COUNT_LEN,
};

#define NO_THRESHOLD (~0ULL)

/* What the keys of `left_out` are. */
enum { NO_PLACES, PLACE_IS_GROUP, PLACE_IS_PROCESS };

struct config {
	u64 threshold_ns; /* of waits that the scheduler tells of; NO_THRESHOLD where it is not asked */
	struct wanted threads;
	u32 user_stacks;
	u32 all_threads; /* not only those that wait for I/O */
	u32 copies; /* user stacks that one pass copies at most, where more threads are drawn than was expected */
	u32 want_file;
	u32 places; /* what the keys of left_out are */
	u32 pad;
	u8 calls[CALLS];
};

#endif
