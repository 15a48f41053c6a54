// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The requests of a disk that wait now.
 *
 * Nothing is attached: user space runs `walk` about once a second, so that requests cost nothing. The disk is found by
 * its directory in sysfs, which user space has open: that works for a disk of which nothing ever completed. Then the
 * bitmaps of its tags tell which requests exist; only those are read, and all of it by helpers that bear any pointer.
 */
#include "core.h"
#include "hist.h"
#include "block/block.h"
#include "block/request.h"

struct inode {
	void *i_private;
} KERNEL;
struct file {
	struct inode *f_inode;
} KERNEL;
struct fdtable {
	u32 max_fds;
	struct file **fd;
} KERNEL;
struct files_struct {
	struct fdtable *fdt;
} KERNEL;
struct task_struct {
	struct files_struct *files;
} KERNEL;
struct kernfs_node {
	void *priv;
} KERNEL;
struct kobject {
	void *parent;
} KERNEL;
struct device {
	struct kobject kobj;
} KERNEL;
struct block_device {
	struct gendisk *bd_disk;
	struct device bd_device;
} KERNEL;
struct gendisk___with_queue {
	struct request_queue *queue;
} KERNEL;

struct sbitmap_word {
	unsigned long word;
	unsigned long cleared;
} KERNEL;
struct sbitmap {
	u32 shift;
	u32 map_nr;
	struct sbitmap_word *map;
} KERNEL;
struct sbitmap_queue {
	struct sbitmap sb;
} KERNEL;
struct blk_mq_tags {
	u32 nr_reserved_tags;
	struct sbitmap_queue bitmap_tags;
	struct request **rqs;
	struct request **static_rqs;
} KERNEL;
struct blk_mq_tag_set {
	u32 nr_hw_queues;
	struct blk_mq_tags **tags;
	struct blk_mq_tags *shared_tags;
} KERNEL;

/* The tags of a scheduler hang on it since 6.16. */
struct elevator_tags {
	u32 nr_hw_queues;
	struct blk_mq_tags *tags[];
} KERNEL;
struct elevator_queue {
	struct elevator_tags *et;
} KERNEL;

/* The map of the other object, shared: own stamps, and who began a request. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, struct block_issuer);
} in_flight SEC(".maps");

struct block_waiting found[WALK_ROOM] SEC(".bss.found");

/* So many steps in one go, each a word of a bitmap or a request. */
#define STEPS (1 << 14)

struct walk {
	struct block_walk asked;
	struct request_queue *queue;
	struct blk_mq_tags **sets; /* per hardware queue */
	struct sbitmap_word *map;
	struct request **requests;
	u32 sets_len;
	u32 map_len;
	u32 shift;
	u32 first; /* tag of the first bit */
};

/* The disk whose directory in sysfs the task has open as this descriptor. */
static __always_inline struct gendisk *disk_of(s32 fd)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files = BPF_CORE_READ(table, fd), *file = 0;
	struct kernfs_node *node;
	void *object;

	if (fd < 0 || (u32)fd >= BPF_CORE_READ(table, max_fds))
		return 0;
	if (bpf_probe_read_kernel(&file, sizeof(file), files + fd) || !file)
		return 0;
	node = BPF_CORE_READ(file, f_inode, i_private);
	object = BPF_CORE_READ(node, priv);
	if (!object)
		return 0;
	object -= bpf_core_field_offset(struct block_device, bd_device) + bpf_core_field_offset(struct device, kobj);
	return BPF_CORE_READ((struct block_device *)object, bd_disk);
}

/* Goes to the next hardware queue. */
static __always_inline bool next_queue(struct walk *walk)
{
	struct blk_mq_tags *tags = 0;

	if (walk->asked.queues >= walk->sets_len)
		return false;
	if (bpf_probe_read_kernel(&tags, sizeof(tags), walk->sets + walk->asked.queues))
		tags = 0;
	walk->asked.queues++;
	walk->map = BPF_CORE_READ(tags, bitmap_tags.sb.map);
	walk->map_len = BPF_CORE_READ(tags, bitmap_tags.sb.map_nr);
	walk->shift = BPF_CORE_READ(tags, bitmap_tags.sb.shift);
	walk->first = BPF_CORE_READ(tags, nr_reserved_tags);
	walk->requests = walk->asked.scheduler ? BPF_CORE_READ(tags, static_rqs) : BPF_CORE_READ(tags, rqs);
	return true;
}

static __always_inline void next_word(struct walk *walk)
{
	void *word = (void *)walk->map + (u64)walk->asked.words++ * bpf_core_type_size(struct sbitmap_word);

	walk->asked.busy = BPF_CORE_READ((struct sbitmap_word *)word, word) &
			   ~BPF_CORE_READ((struct sbitmap_word *)word, cleared);
}

#define HAS(flags, bit) \
	(!bpf_core_enum_value_exists(enum rqf_flags, bit) || \
	 (flags) >> bpf_core_enum_value(enum rqf_flags, bit) & 1)

/* What is known of who began a request. What an earlier request of the same address left was issued before this began. */
static __always_inline void add_issuer(struct block_waiting *to)
{
	struct block_issuer *issuer = bpf_map_lookup_elem(&in_flight, &to->request);

	if (!issuer || (issuer->issue_ns && issuer->issue_ns < to->start_ns))
		return;
	if (!to->start_ns)
		to->start_ns = issuer->start_ns;
	if (to->at_device && issuer->issue_ns)
		to->issue_ns = issuer->issue_ns;
	to->cgroup = issuer->cgroup;
	to->pid = issuer->pid;
	to->tid = issuer->tid;
	to->size += issuer->done;
	if (to->offset != NO_OFFSET)
		to->offset -= issuer->done;
	__builtin_memcpy(to->comm, issuer->comm, sizeof(to->comm));
	__builtin_memcpy(to->process, issuer->process, sizeof(to->process));
}

/* Looks at the request of one tag; whether it was the queue's, and the same before and after. */
static __always_inline bool read_request(struct walk *walk, struct request *rq, struct block_waiting *to)
{
	u64 start_ns = BPF_CORE_READ(rq, start_time_ns), issue_ns = BPF_CORE_READ(rq, io_start_time_ns);
	u32 state = BPF_CORE_READ(rq, state), flags = BPF_CORE_READ(rq, rq_flags), letters;
	u32 idle = bpf_core_enum_value(enum mq_rq_state, MQ_RQ_IDLE);
	u32 at_device = bpf_core_enum_value(enum mq_rq_state, MQ_RQ_IN_FLIGHT);

	if (BPF_CORE_READ(rq, q) != walk->queue || (state != idle && state != at_device))
		return false;
	letters = letters_of(BPF_CORE_READ(rq, cmd_flags));
	to->request = (u64)rq;
	to->start_ns = HAS(flags, __RQF_IO_STAT) || letters / MODES == FLUSH ? start_ns : 0;
	to->at_device = state == at_device;
	to->issue_ns = to->at_device && HAS(flags, __RQF_STATS) ? issue_ns : 0;
	to->offset = BPF_CORE_READ(rq, __sector);
	if (to->offset != NO_OFFSET)
		to->offset <<= 9;
	to->size = BPF_CORE_READ(rq, __data_len);
	to->dev = walk->asked.dev;
	to->letters = letters;
	to->cgroup = 0;
	to->pid = 0;
	to->tid = 0;
	to->pad = 0;
	__builtin_memset(to->comm, 0, sizeof(to->comm));
	__builtin_memset(to->process, 0, sizeof(to->process));
	add_issuer(to);
	return BPF_CORE_READ(rq, state) == state && BPF_CORE_READ(rq, start_time_ns) == start_ns;
}

static __always_inline void next_request(struct walk *walk)
{
	u32 bit = hist_log2(walk->asked.busy), place = walk->asked.found;
	u64 tag = walk->first + ((u64)(walk->asked.words - 1) << walk->shift) + bit;
	struct request *rq = 0;

	walk->asked.busy &= ~(1ULL << (bit & 63));
	if (bpf_probe_read_kernel(&rq, sizeof(rq), walk->requests + tag) || !rq)
		return;
	if (place < WALK_ROOM && read_request(walk, rq, &found[place]))
		walk->asked.found++;
}

static long step(u32 at, void *context)
{
	struct walk *walk = context;

	if (walk->asked.busy) {
		next_request(walk);
		return walk->asked.found >= WALK_ROOM;
	}
	if (walk->asked.queues && walk->asked.words < walk->map_len) {
		next_word(walk);
		return 0;
	}
	walk->asked.words = 0;
	if (next_queue(walk))
		return 0;
	walk->asked.end = WALK_DONE;
	return 1;
}

/* Finds the queue of the disk and its tags. */
static __always_inline u32 begin(struct walk *walk)
{
	struct gendisk *disk = disk_of(walk->asked.fd);
	struct request_queue *queue = BPF_CORE_READ((struct gendisk___with_queue *)disk, queue);
	struct blk_mq_tag_set *set;
	u32 dev = (u32)BPF_CORE_READ(disk, major) << 20 | (u32)BPF_CORE_READ(disk, first_minor);

	if (!queue || dev != walk->asked.dev || BPF_CORE_READ(queue, disk) != disk)
		return WALK_NO_DISK;
	walk->queue = queue;
	set = BPF_CORE_READ(queue, tag_set);
	if (!set)
		return WALK_NO_TAGS;
	if (walk->asked.scheduler) {
		struct elevator_queue *elevator = BPF_CORE_READ(queue, elevator);

		if (!bpf_core_field_exists(elevator->et) || !elevator)
			return WALK_NO_TAGS;
		walk->sets = (void *)BPF_CORE_READ(elevator, et) + bpf_core_field_offset(struct elevator_tags, tags);
		walk->sets_len = BPF_CORE_READ(elevator, et, nr_hw_queues);
	} else {
		walk->sets = BPF_CORE_READ(set, tags);
		walk->sets_len = BPF_CORE_READ(set, nr_hw_queues);
	}
	/* One set of tags for all hardware queues. */
	if (BPF_CORE_READ(set, shared_tags))
		walk->sets_len = 1;
	return WALK_MORE;
}

SEC("syscall")
int walk(struct block_walk *asked)
{
	struct walk walk = {};

	walk.asked = *asked;
	walk.asked.now_ns = bpf_ktime_get_ns();
	walk.asked.found = 0;
	walk.asked.end = begin(&walk);
	if (walk.asked.end == WALK_MORE) {
		/* Where it stopped: the queue it was in is entered again. */
		if (walk.asked.queues) {
			walk.asked.queues--;
			next_queue(&walk);
		}
		bpf_loop(STEPS, step, &walk, 0);
	}
	*asked = walk.asked;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
