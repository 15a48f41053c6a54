"""Live capture: what a block of code did is in the trace, and nothing is left behind."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import latscope as lat
from latscope.live import remove

if TYPE_CHECKING:
    from collections.abc import Iterator

CALLS = 200


def capturing(source: str, filter: str, calls: str | None = "pread64") -> lat.Capture:
    """Capture, or skip where that does not work."""
    if os.geteuid() != 0:
        pytest.skip("live capture needs root")
    recording = lat.capture(source, filter=filter, calls=calls)
    try:
        recording.__enter__()
    except lat.Error as error:
        pytest.skip(f"live capture does not work here: {error}")
    return recording


def test_calls_of_a_block_of_code(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(CALLS * 7))
    recording = capturing("io", f"evt.type = pread64 and proc.pid = {os.getpid()}")
    with pytest.raises(lat.UsageError, match="not over"):
        _ = recording.trace
    handle = os.open(file, os.O_RDONLY)
    for at in range(CALLS):
        assert len(os.pread(handle, 7, at * 7)) == 7
    os.close(handle)
    recording.__exit__(None, None, None)
    trace = recording.trace
    events = trace.events()
    ours = [row for row in events.to_pylist() if row["size"] == 7]
    assert len(ours) == CALLS
    assert [row["offset"] for row in sorted(ours, key=lambda row: row["time_ns"])] == [at * 7 for at in range(CALLS)]
    path = Path(trace.paths[0])
    assert path.exists()
    del trace, recording
    gc.collect()
    assert not path.parent.exists()


def test_paths_are_those_of_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recording = lat.capture("block", path="a.lat")
    monkeypatch.chdir("/")
    assert recording._path == str(tmp_path / "a.lat")
    (tmp_path / "a.lat").write_text("kept")
    with pytest.raises(lat.UsageError, match="replace=True"), recording:
        pass
    assert (tmp_path / "a.lat").read_text() == "kept"


def test_folders_are_removed_by_their_maker(tmp_path: Path) -> None:
    remove(str(tmp_path), os.getpid() + 1)
    assert tmp_path.exists()
    remove(str(tmp_path), os.getpid())
    assert not tmp_path.exists()


def test_a_capture_stops_and_is_kept(tmp_path: Path) -> None:
    """Though a process that was forked in the block goes on, and the block was interrupted."""
    path = tmp_path / "c.lat"
    recording = lat.capture("block", path=path)
    if os.geteuid() != 0:
        pytest.skip("live capture needs root")
    forked = 0
    with contextlib.suppress(KeyboardInterrupt, lat.Error), recording:
        forked = os.fork()
        if forked == 0:
            time.sleep(30)
            os._exit(0)
        raise KeyboardInterrupt
    if not forked:
        pytest.skip("live capture does not work here")
    assert os.waitpid(forked, os.WNOHANG) == (0, 0)
    os.kill(forked, signal.SIGKILL)
    os.waitpid(forked, 0)
    assert path.exists() and recording.trace.events().num_columns >= 2


def test_wrong_captures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(lat.UsageError, match="use block, io, syscall or"):
        lat.record("tea", path=tmp_path / "a.lat")
    with pytest.raises(lat.UsageError, match="calls needs"):
        lat.record("block", calls="read", path=tmp_path / "a.lat")
    with pytest.raises(lat.UsageError, match=r"end the name in \.lat"):
        lat.record("block", "50ms", path=tmp_path / "a.parquet")
    if os.geteuid() == 0:
        trace = lat.record("block", "50ms", path=tmp_path / "b.lat")
        assert (tmp_path / "b.lat").exists() and trace.events().num_columns >= 2
        with pytest.raises(lat.Error, match=r"none/c\.lat: The trace cannot be written"):
            lat.record("block", "50ms", path=tmp_path / "none" / "c.lat")


def run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


@contextlib.contextmanager
def hanging(folder: Path) -> Iterator[Path]:
    """Make a loop device whose file is on a file system that is frozen: writes are issued and not answered."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("mkfs.ext4", "losetup", "fsfreeze", "dd"))):
        pytest.skip("a device that hangs needs root, mkfs.ext4, losetup and fsfreeze")
    file, mounted = folder / "disk", folder / "mounted"
    file.write_bytes(bytes(16 << 20))
    mounted.mkdir()
    with contextlib.ExitStack() as undo:
        try:
            run("mkfs.ext4", "-q", str(file))
            run("mount", "-o", "loop", str(file), str(mounted))
            undo.callback(run, "umount", str(mounted))
            (mounted / "inner").write_bytes(bytes(1 << 20))
            device = run("losetup", "-f", "--show", str(mounted / "inner"))
            undo.callback(run, "losetup", "-d", device)
            run("fsfreeze", "-f", str(mounted))
            undo.callback(run, "fsfreeze", "-u", str(mounted))
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no device that hangs can be made here: {error.stderr}")
        yield Path(device)


def test_a_device_that_hangs_meanwhile(tmp_path: Path) -> None:
    with hanging(tmp_path) as device:
        recording = lat.capture("block", filter=f"device = {device.name}")
        try:
            recording.__enter__()
        except lat.Error as error:
            pytest.skip(f"live capture does not work here: {error}")
        words = [
            "dd",
            "if=/dev/zero",
            f"of={device}",
            "bs=4k",
            "count=1",
            "oflag=direct",
            "conv=notrunc",
            "status=none",
        ]
        writing = subprocess.Popen(words)
        time.sleep(1.2)
        recording.__exit__(None, None, None)
    assert writing.wait(60) == 0
    trace = recording.trace
    assert len(trace.events()) == 0
    (row,) = trace.waiting(["device", "kind", "size", "comm"]).to_pylist()
    assert (row["device"], row["kind"], row["size"], row["comm"]) == (device.name, "write", 4096, "dd")
    assert 500_000_000 < row["age_ns"] < 60_000_000_000
    assert any("at least" in note for note in trace.notes)
    last = trace.percentiles([99], "100ms").to_pylist()[-1]
    assert (last["waiting"], last["count"]) == (1, 0) and last["oldest_ns"] == row["age_ns"]
    assert "waiting" in trace.heatmap() and trace.series().waiting == 1
    with pytest.raises(lat.UsageError, match="temporary file"):
        pickle.dumps(trace)


def test_stacks_of_waits() -> None:
    if os.geteuid() != 0:
        pytest.skip("live capture needs root")
    recording = lat.capture("offcpu=5ms", filter=f"proc.pid = {os.getpid()}")
    try:
        recording.__enter__()
    except lat.Error as error:
        pytest.skip(f"live capture does not work here: {error}")
    for _ in range(10):
        time.sleep(0.02)
    recording.__exit__(None, None, None)
    found = recording.trace.stacks(by="state")
    assert found["events"] >= 8 and any("nanosleep" in stack["stack"] for stack in found["stacks"])
    assert recording.trace.flamegraph().startswith("<svg")
    with pytest.raises(lat.UsageError, match="one of block, io and syscall"):
        lat.record("block,io", "50ms")
    with pytest.raises(lat.UsageError, match="needs the source block"):
        lat.record("io", "50ms", stacks="slow")
    with pytest.raises(lat.UsageError, match="read one with"):
        lat.record("spark", "50ms")


def test_a_capture_that_is_killed() -> None:
    recording = capturing("offcpu=1ms", f"proc.pid = {os.getpid()}", calls=None)
    assert recording._running is not None
    for _ in range(20):
        time.sleep(0.1)
    os.kill(recording._running.pid, signal.SIGKILL)
    with pytest.warns(RuntimeWarning, match="was killed"):
        recording.__exit__(None, None, None)
    assert any("was killed" in note for note in recording.notes)
    assert len(recording.trace.events()) > 5
    folder = Path(recording.trace.paths[0]).parent
    del recording
    gc.collect()
    assert not folder.exists()
