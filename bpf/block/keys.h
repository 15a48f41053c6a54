/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Numbers for keys, the first to come the least, by open addressing; an entry is key << 16 | number + 1, and none ever
 * goes. It also compiles for user space, where a test fills it.
 */
#ifndef LATSCOPE_KEYS_H
#define LATSCOPE_KEYS_H

#define KEY_BITS 12
#define KEY_PLACES (1 << KEY_BITS)
/* How far from its own place a key may be. */
#define KEY_TRIES 64
#define NO_NUMBER (~0U)

/*
 * Finds a place for a key that has none, here or behind. Another CPU may do the same at the same time: then both use
 * the number of the faster, and the slower one's is never used.
 */
static __attribute__((noinline)) u32 new_number(u64 key, u32 at, u64 *keys, u64 *given, u32 room)
{
	u64 number, there;
	u32 tries;

	if (*given >= room)
		return NO_NUMBER;
	number = __sync_fetch_and_add(given, 1);
	if (number >= room)
		return NO_NUMBER;
	for (tries = 0; tries < KEY_TRIES; tries++, at++) {
		there = __sync_val_compare_and_swap(&keys[at & (KEY_PLACES - 1)], 0, key << 16 | (number + 1));
		if (!there)
			return number;
		if (there >> 16 == key)
			return (there & 0xffff) - 1;
	}
	return NO_NUMBER;
}

/* The number of a key of up to 48 bits; NO_NUMBER when `room` of them are given away. */
static inline __attribute__((always_inline)) u32 number_of(u64 key, u64 *keys, u64 *given, u32 room)
{
	/* Fibonacci hashing: Knuth, The Art of Computer Programming 3, section 6.4. */
	u32 at = key * 0x9e3779b97f4a7c15ULL >> (64 - KEY_BITS), tries;

	for (tries = 0; tries < KEY_TRIES; tries++, at++) {
		u64 entry = keys[at & (KEY_PLACES - 1)];

		if (!entry)
			return new_number(key, at, keys, given, room);
		if (entry >> 16 == key)
			return (entry & 0xffff) - 1;
	}
	return NO_NUMBER;
}

#endif
