/*
 * `reader DISK COUNT` reads so many blocks past the page cache, in a function whose name is chosen when it is compiled.
 * `reader FIRST SECOND DISK COUNT` has two such programs do so, one after the other, as processes of the same number, and
 * prints it; it exits with 77 where the kernel does not give numbers that are asked for.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK 4096

/* The empty statement keeps the call from being a jump. */
__attribute__((noinline)) static ssize_t READER(int fd, void *to, off_t at)
{
	ssize_t read = pread(fd, to, BLOCK, at);

	__asm__ volatile("");
	return read;
}

static int reads(const char *disk, int count)
{
	int fd = open(disk, O_RDONLY | O_DIRECT);
	off_t end = lseek(fd, 0, SEEK_END) & ~(off_t)(BLOCK - 1);
	void *to;

	if (fd < 0 || end == 0 || posix_memalign(&to, BLOCK, BLOCK))
		return 1;
	for (int at = 0; at < count; at++)
		if (READER(fd, to, (off_t)at * BLOCK % end) != BLOCK)
			return 1;
	return 0;
}

/* Runs a program as a process of this number, 0 for any; returns the number, or -1. */
static pid_t run(char *const program[], pid_t wanted)
{
	struct clone_args how = { .exit_signal = SIGCHLD };
	pid_t pid;
	int status;

	if (wanted) {
		how.set_tid = (unsigned long)&wanted;
		how.set_tid_size = 1;
	}
	pid = syscall(SYS_clone3, &how, sizeof(how));
	if (pid == 0) {
		execv(program[0], program);
		_exit(1);
	}
	if (pid > 0 && (waitpid(pid, &status, 0) != pid || status))
		exit(1);
	return pid;
}

int main(int argc, char *argv[])
{
	if (argc == 3)
		return reads(argv[1], atoi(argv[2]));
	for (int turn = 0; turn < 5; turn++) {
		char *first[] = { argv[1], argv[3], argv[4], NULL }, *second[] = { argv[2], argv[3], argv[4], NULL };
		pid_t pid = run(first, 0);

		if (pid > 0 && run(second, pid) == pid) {
			printf("%d\n", pid);
			return 0;
		}
		/* Somebody else got it: another turn. */
		if (errno != EEXIST)
			return 77;
	}
	return 77;
}
