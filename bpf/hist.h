/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The bucket grid of latscope (crates/histogram, Grid): 2^power buckets to the octave, values below 2^(power+1) exact.
 * It also compiles for user space, where a test holds it against the Rust side.
 */
#ifndef LATSCOPE_HIST_H
#define LATSCOPE_HIST_H

/* The kernel's histograms end here: 2^42 ns is 73 minutes. What is longer counts in the last bucket. */
#define HIST_BITS 42
#define HIST_MAX_POWER 6
/* Number of buckets, and most of them that a histogram can have. */
#define HIST_LEN(power) ((u32)(HIST_BITS + 1 - (power)) << (power))
#define HIST_MAX_LEN HIST_LEN(HIST_MAX_POWER)

/* Position of the highest bit. Compare and shift: clang 14 crashes on __builtin_clzll for BPF. */
static inline __attribute__((always_inline)) u32 hist_log2(u64 value)
{
	u32 bit = 0;

	if (value >> 32) {
		bit += 32;
		value >>= 32;
	}
	if (value >> 16) {
		bit += 16;
		value >>= 16;
	}
	if (value >> 8) {
		bit += 8;
		value >>= 8;
	}
	if (value >> 4) {
		bit += 4;
		value >>= 4;
	}
	if (value >> 2) {
		bit += 2;
		value >>= 2;
	}
	return bit + (u32)(value >> 1);
}

/* The bucket of a value. */
static inline __attribute__((always_inline)) u32 hist_index(u64 value, u32 power)
{
	u32 shift, index;

	if (value < 2ULL << power)
		return value;
	shift = hist_log2(value) - power;
	index = (shift << power) + (u32)(value >> shift);
	return index < HIST_LEN(power) ? index : HIST_LEN(power) - 1;
}

/*
 * Every key has two histograms, one for odd epochs and one for even ones. User space goes on to the next epoch and then
 * reads that of the last one, into which nobody writes any more, but for programs that were running just then. Sums and
 * buckets only grow; minimum, maximum and count are those of one epoch, and the first event of the next begins them
 * anew, so that nobody but this CPU ever resets them. 32-bit counts of the buckets follow.
 */
struct hist {
	u64 sum_ns;
	u64 bytes;
	u64 min_ns;
	u64 max_ns;
	u32 epoch;
	u32 count;
};

/* Adds an event of `epoch`. */
static inline __attribute__((always_inline)) void hist_add(struct hist *hist, u64 value, u64 bytes, u32 epoch, u32 power)
{
	u32 *buckets = (u32 *)(hist + 1);

	hist->sum_ns += value;
	hist->bytes += bytes;
	buckets[hist_index(value, power)] += 1;
	/* Above zero, as a program may have been interrupted for longer than an epoch. */
	if ((s32)(epoch - hist->epoch) > 0) {
		hist->epoch = epoch;
		hist->count = 0;
		hist->min_ns = ~0ULL;
		hist->max_ns = 0;
	}
	hist->count += 1;
	if (value < hist->min_ns)
		hist->min_ns = value;
	if (value > hist->max_ns)
		hist->max_ns = value;
}

#endif
