// A planted path of calls that ends in a wait: archive_scan -> btree_descend (a few levels) -> block_read.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static volatile int sink;

__attribute__((noinline)) void block_read(int wait) {
    char byte[64];
    if (wait) {
        struct timespec time = {0, 200000};
        nanosleep(&time, NULL);
    } else if (read(0, byte, 1) < 0) {
        exit(1);
    }
    sink++;
}

__attribute__((noinline)) void btree_descend(int level, int wait) {
    volatile char page[333];
    page[level] = 1;
    if (level > 0) {
        btree_descend(level - 1, wait);
    } else {
        block_read(wait);
    }
    sink += page[level];
}

__attribute__((noinline)) void archive_scan(int level, int wait) {
    btree_descend(level, wait);
    sink++;
}

int main(int count, char **arguments) {
    (void)arguments;
    puts("ready");
    fflush(stdout);
    for (unsigned turn = 0; count > 1; turn++) {
        archive_scan(turn % 5, 1);
    }
    archive_scan(3, 0);
    return 0;
}
