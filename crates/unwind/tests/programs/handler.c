/* Waits in a handler of a signal that interrupted a function. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile int depth;

static __attribute__((noinline)) void wait_in_handler(void)
{
	char letter;

	puts("ready");
	fflush(stdout);
	depth += read(0, &letter, 1);
}

static void on_signal(int number)
{
	wait_in_handler();
	depth += number;
}

static __attribute__((noinline)) void interrupted(int more)
{
	if (more)
		interrupted(more - 1);
	else
		kill(getpid(), SIGUSR1);
	depth++;
}

int main(void)
{
	signal(SIGUSR1, on_signal);
	interrupted(2);
	return depth;
}
