/*
 * A program whose account is exact: one thread reads a slow disk, one a fast one, one computes, and each knows for how long.
 * After each line of its input it prints how long they waited and computed so far, nanoseconds.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 4096
struct reader {
	const char *name, *path;
	ssize_t (*read)(int, void *, off_t);
	unsigned pause_us;
	volatile long waited_ns, since_ns;
};
static clockid_t computing;

static long now(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* The empty statements keep the calls from being jumps. */
__attribute__((noinline)) static ssize_t archive_scan(int fd, void *to, off_t at)
{
	ssize_t read = pread(fd, to, BLOCK, at);

	__asm__ volatile("");
	return read;
}

__attribute__((noinline)) static ssize_t index_lookup(int fd, void *to, off_t at)
{
	ssize_t read = pread(fd, to, BLOCK, at);

	__asm__ volatile("");
	return read;
}

__attribute__((noinline)) static unsigned compute_checksum(unsigned from)
{
	for (int round = 0; round < 100000; round++)
		from = from * 1664525 + 1013904223;
	__asm__ volatile("" : "+r"(from));
	return from;
}

static void *reads(void *about)
{
	struct reader *reader = about;
	int fd = open(reader->path, O_RDONLY | O_DIRECT);
	off_t end = lseek(fd, 0, SEEK_END) & ~(off_t)(BLOCK - 1), at = 0;
	void *to;

	if (fd < 0 || posix_memalign(&to, BLOCK, BLOCK))
		exit(1);
	prctl(PR_SET_NAME, reader->name);
	for (;; at = (at + BLOCK) % end) {
		reader->since_ns = now(CLOCK_MONOTONIC);
		if (reader->read(fd, to, at) != BLOCK)
			exit(1);
		reader->waited_ns += now(CLOCK_MONOTONIC) - reader->since_ns;
		reader->since_ns = 0;
		if (reader->pause_us)
			usleep(reader->pause_us);
	}
}

static void *computes(void *about)
{
	unsigned sum = 1;

	prctl(PR_SET_NAME, "computer");
	pthread_getcpuclockid(pthread_self(), &computing);
	for (;;) {
		for (int many = 0; many < 20; many++)
			sum = compute_checksum(sum);
		usleep(5000);
	}
	return about;
}

static long waited(const struct reader *reader)
{
	long since_ns = reader->since_ns;

	return reader->waited_ns + (since_ns ? now(CLOCK_MONOTONIC) - since_ns : 0);
}

int main(int count, char **paths)
{
	struct reader archiver = { .name = "archiver", .path = paths[1], .read = archive_scan };
	struct reader indexer = { .name = "indexer", .path = paths[2], .read = index_lookup, .pause_us = 2000 };
	pthread_t thread;

	pthread_create(&thread, 0, reads, &archiver);
	pthread_create(&thread, 0, reads, &indexer);
	if (count > 3)
		pthread_create(&thread, 0, computes, 0);
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF) {
		printf("%ld %ld %ld\n", waited(&archiver), waited(&indexer), count > 3 ? now(computing) : 0);
		fflush(stdout);
	}
	return 0;
}
