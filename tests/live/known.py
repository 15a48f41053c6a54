"""Does known I/O when a line comes on standard input, after it has said what it will be."""
import json, os, socket, sys

folder = sys.argv[1]
file = f"{folder}/known file"
fd = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
status = os.fstat(fd)
print(
    json.dumps(
        {
            "pid": os.getpid(),
            "file": file,
            "fd": fd,
            "dev": f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}",
            "client": client.getsockname()[1],
            "server": listener.getsockname()[1],
            "socket": client.fileno(),
        }
    ),
    flush=True,
)
for _ in sys.stdin:
    for _ in range(7):
        os.pwrite(fd, b"x" * 1000, 4096)
    for _ in range(3):
        try:
            os.open(f"{folder}/missing", os.O_RDONLY)
        except FileNotFoundError:
            pass
    for _ in range(5):
        client.send(b"13 bytes here")
        server.recv(13, socket.MSG_WAITALL)
    print("done", flush=True)
