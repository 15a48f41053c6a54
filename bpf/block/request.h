/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the kernel keeps of a request, and what it is for. */
#ifndef LATSCOPE_REQUEST_H
#define LATSCOPE_REQUEST_H

struct gendisk {
	int major;
	int first_minor;
} KERNEL;

struct blk_mq_tag_set;
struct elevator_queue;

struct request_queue {
	struct gendisk *disk;
	struct blk_mq_tag_set *tag_set;
	struct elevator_queue *elevator;
} KERNEL;

enum mq_rq_state { MQ_RQ_IDLE, MQ_RQ_IN_FLIGHT, MQ_RQ_COMPLETE };

struct list_head {
	struct list_head *next;
} KERNEL;

/* Flushes of a hardware queue: one is under way for all requests of one of the lists, others gather in the other. */
struct blk_flush_queue {
	unsigned int flush_running_idx : 1;
	struct list_head flush_queue[2];
} KERNEL;
struct blk_mq_hw_ctx {
	struct blk_flush_queue *fq;
} KERNEL;

struct request {
	struct request_queue *q;
	struct blk_mq_hw_ctx *mq_hctx;
	struct list_head queuelist;
	enum mq_rq_state state;
	u32 cmd_flags;
	u32 rq_flags;
	u32 __data_len;
	u64 __sector;
	u64 start_time_ns;
	u64 io_start_time_ns;
} KERNEL;

/* Before 5.16 the disk hung on the request. */
struct request___before_5_16 {
	struct gendisk *rq_disk;
} KERNEL;

/* Before 6.6 requests that wait for a flush had a link of their own. */
struct request___before_6_6 {
	struct {
		struct list_head list;
	} flush;
} KERNEL;

enum rqf_flags {
	__RQF_IO_STAT = 8,
	__RQF_STATS = 11,
};

enum req_flag_bits {
	__REQ_SYNC = 11,
	__REQ_META = 12,
	__REQ_FUA = 17,
	__REQ_PREFLUSH = 18,
	__REQ_RAHEAD = 19,
	__REQ_ATOMIC = 27,
};

/* The device number of the whole disk, as the kernel has it; 0 for requests without one. */
static __always_inline u32 device_of(struct request *rq, const bool direct)
{
	struct gendisk *disk;

	if (bpf_core_field_exists(((struct request_queue *)0)->disk)) {
		struct request_queue *queue = FIELD(direct, rq, q);

		disk = FIELD(direct, queue, disk);
	} else {
		struct request___before_5_16 *old = (void *)rq;

		disk = FIELD(direct, old, rq_disk);
	}
	/* Fields of a disk that is none read as 0. */
	return (u32)FIELD(direct, disk, major) << 20 | (u32)FIELD(direct, disk, first_minor);
}

#define MODE(flags, bit, mode)                                                                     \
	(bpf_core_enum_value_exists(enum req_flag_bits, bit) &&                                    \
			 (flags) >> bpf_core_enum_value(enum req_flag_bits, bit) & 1 ? (mode) : 0)

static __always_inline u32 class_of(u32 flags)
{
	switch (flags & 0xff) {
	case 0:
		return READ;
	case 1:
		return WRITE;
	case 2:
		return FLUSH;
	case 3:
		return DISCARD;
	case 5:
		return ERASE;
	default:
		return OTHER;
	}
}

static __always_inline u32 letters_of(u32 flags)
{
	return class_of(flags) * MODES | MODE(flags, __REQ_PREFLUSH, PREFLUSH) | MODE(flags, __REQ_FUA, FUA) |
	       MODE(flags, __REQ_RAHEAD, AHEAD) | MODE(flags, __REQ_SYNC, SYNC) | MODE(flags, __REQ_META, META) |
	       MODE(flags, __REQ_ATOMIC, ATOMIC);
}

#endif
