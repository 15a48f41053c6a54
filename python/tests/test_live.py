"""Live capture: what a block of code did is in the trace, and nothing is left behind."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import time
from pathlib import Path

import pytest

import latscope as lat
from latscope.live import remove

CALLS = 200


def capturing(source: str, filter: str) -> lat.Capture:
    """Capture, or skip where that does not work."""
    if os.geteuid() != 0:
        pytest.skip("live capture needs root")
    recording = lat.capture(source, filter=filter, calls=["pread64"])
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
    with pytest.raises(lat.UsageError, match="block, io or syscall"):
        lat.record("tea", path=tmp_path / "a.lat")
    with pytest.raises(lat.UsageError, match="calls needs"):
        lat.record("block", calls="read", path=tmp_path / "a.lat")
    if os.geteuid() == 0:
        trace = lat.record("block", "50ms", path=tmp_path / "b.lat")
        assert (tmp_path / "b.lat").exists() and trace.events().num_columns >= 2
