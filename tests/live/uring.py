"""Makes requests of io_uring that name paths, one at a time, and prints for each [operation, path, failed]."""
import ctypes, json, mmap, os, struct, sys

folder = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)
SETUP, ENTER, GETEVENTS, AT_FDCWD = 425, 426, 1, -100
OPENAT, CLOSE, STATX, OPENAT2, RENAMEAT, UNLINKAT, MKDIRAT, SYMLINKAT, LINKAT = 18, 19, 21, 28, 35, 36, 37, 38, 39
ENTRIES = 8

parameters = ctypes.create_string_buffer(120)
ring = libc.syscall(SETUP, ENTRIES, parameters)
if ring < 0:
    print(json.dumps(os.strerror(ctypes.get_errno())))
    sys.exit(3)
submitted = struct.unpack_from("10I", parameters, 40)  # head, tail, mask, entries, flags, dropped, array
completed = struct.unpack_from("10I", parameters, 80)  # head, tail, mask, entries, overflow, cqes
shared = mmap.MAP_SHARED | mmap.MAP_POPULATE
sq = mmap.mmap(ring, submitted[6] + 4 * ENTRIES, shared, offset=0)
cq = mmap.mmap(ring, completed[5] + 16 * 2 * ENTRIES, shared, offset=0x8000000)
entries = mmap.mmap(ring, 64 * ENTRIES, shared, offset=0x10000000)
alive = []


def pointer(value):
    data = ctypes.create_string_buffer(value)
    alive.append(data)
    return ctypes.addressof(data)


def request(operation, fd, address, size=0, offset=0, flags=0, linked=0):
    tail = struct.unpack_from("I", sq, submitted[1])[0]
    at = tail & (ENTRIES - 1)
    # opcode flags ioprio fd | off | addr | len | flags | user_data
    entries[64 * at : 64 * at + 64] = struct.pack("=BBHiQQIIQ24x", operation, 0, 0, fd, offset, address, size, flags, 1)
    struct.pack_into("I", sq, submitted[6] + 4 * at, at)
    struct.pack_into("I", sq, submitted[1], tail + 1)
    assert libc.syscall(ENTER, ring, 1, 1, GETEVENTS, None, 0) == 1
    head = struct.unpack_from("I", cq, completed[0])[0]
    result = struct.unpack_from("=Qi", cq, completed[5] + 16 * (head & (2 * ENTRIES - 1)))[1]
    struct.pack_into("I", cq, completed[0], head + 1)
    return result


def made(operation, path, result):
    print(json.dumps([operation, path, result < 0]), flush=True)
    return result


os.chdir(folder)
os.mkdir("inside")
inside = os.open("inside", os.O_RDONLY)
new, create = b"inside/new file", os.O_RDWR | os.O_CREAT
fd = made("openat", f"{folder}/inside/new file", request(OPENAT, AT_FDCWD, pointer(new), 0o644, 0, create))
request(CLOSE, fd, 0)
how = pointer(struct.pack("=QQQ", os.O_RDONLY, 0, 0))
fd = made("openat2", f"{folder}/inside/new file", request(OPENAT2, inside, pointer(b"new file"), 24, how))
request(CLOSE, fd, 0)
made("openat", f"{folder}/inside/missing", request(OPENAT, inside, pointer(b"missing"), 0, 0, os.O_RDONLY))
absolute = f"{folder}/inside/new file"
buffer = pointer(bytes(256))
made("statx", absolute, request(STATX, AT_FDCWD, pointer(absolute.encode()), 0x7FF, buffer, 0))
made("renameat", absolute, request(RENAMEAT, inside, pointer(b"new file"), AT_FDCWD & 0xFFFFFFFF, pointer(b"moved"), 0))
made("linkat", f"{folder}/moved", request(LINKAT, AT_FDCWD, pointer(b"moved"), inside, pointer(b"second"), 0))
made("symlinkat", f"{folder}/inside/link", request(SYMLINKAT, inside, pointer(b"../moved"), 0, pointer(b"link"), 0))
fd = made("openat", f"{folder}/moved", request(OPENAT, inside, pointer(b"link"), 0, 0, os.O_RDONLY))
request(CLOSE, fd, 0)
made("mkdirat", f"{folder}/inside/below", request(MKDIRAT, inside, pointer(b"below"), 0o755))
made("unlinkat", f"{folder}/inside/second", request(UNLINKAT, inside, pointer(b"second"), 0, 0, 0))
made("unlinkat", f"{folder}/inside/below", request(UNLINKAT, AT_FDCWD, pointer(b"./inside/below"), 0, 0, 0x200))
made("unlinkat", f"{folder}/gone", request(UNLINKAT, AT_FDCWD, pointer(b"gone"), 0, 0, 0))
