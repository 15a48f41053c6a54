/*
 * A thread that hands a read to a slow disk and does not wait for it: it reads another disk meanwhile, on which it waits.
 * In the call that it makes next, it takes what is done.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BLOCK 4096

__attribute__((noinline)) static void submit_ahead(aio_context_t context, int fd, void *to)
{
	struct iocb request, *requests[] = { &request };

	memset(&request, 0, sizeof(request));
	request.aio_lio_opcode = IOCB_CMD_PREAD;
	request.aio_fildes = fd;
	request.aio_buf = (unsigned long)to;
	request.aio_nbytes = BLOCK;
	if (syscall(SYS_io_submit, context, 1, requests) != 1)
		exit(1);
	__asm__ volatile("");
}

__attribute__((noinline)) static void wait_elsewhere(int fd, void *to)
{
	if (pread(fd, to, BLOCK, 0) != BLOCK)
		exit(1);
	__asm__ volatile("");
}

__attribute__((noinline)) static void take_done(aio_context_t context)
{
	struct io_event event;

	if (syscall(SYS_io_getevents, context, 1, 1, &event, 0) != 1 || event.res != BLOCK)
		exit(1);
	__asm__ volatile("");
}

int main(int count, char **paths)
{
	int ahead = open(paths[1], O_RDONLY | O_DIRECT), elsewhere = open(paths[2], O_RDONLY | O_DIRECT);
	aio_context_t context = 0;
	void *to, *other;

	if (count < 3 || ahead < 0 || elsewhere < 0 || syscall(SYS_io_setup, 8, &context) ||
	    posix_memalign(&to, BLOCK, BLOCK) || posix_memalign(&other, BLOCK, BLOCK))
		return 1;
	prctl(PR_SET_NAME, "submitter");
	puts("ready");
	fflush(stdout);
	for (;;) {
		submit_ahead(context, ahead, to);
		wait_elsewhere(elsewhere, other);
		take_done(context);
	}
}
