"""Live capture: what a block of code did is in the trace, and nothing is left behind."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

import latscope as lat

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


def test_wrong_captures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(lat.UsageError, match="block, io or syscall"):
        lat.record("tea", path=tmp_path / "a.lat")
    with pytest.raises(lat.UsageError, match="calls needs"):
        lat.record("block", calls="read", path=tmp_path / "a.lat")
    if os.geteuid() == 0:
        trace = lat.record("block", "50ms", path=tmp_path / "b.lat")
        assert (tmp_path / "b.lat").exists() and trace.events().num_columns >= 2
