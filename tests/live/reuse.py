"""Children, one after the other, with the same number: each waits once, under one of two names by turns. Prints how many had the number."""

import os
import time

NUMBER, CHILDREN, WAIT_S = 30000, 24, 0.15
same = 0
for child in range(CHILDREN):
    try:
        with open("/proc/sys/kernel/ns_last_pid", "w") as last:
            last.write(str(NUMBER - 1))
    except OSError:
        break
    pid = os.fork()
    if pid == 0:
        with open("/proc/self/comm", "w") as name:
            name.write(("reuse-a", "reuse-b")[child % 2])
        time.sleep(WAIT_S)
        os._exit(0)
    same += pid == NUMBER
    os.waitpid(pid, 0)
print(same)
