"""Live capture of this machine, as root.

A process of its own captures, because the kernel leaves out what the capturing process does: here that is the capture alone,
and what the interpreter does is in the trace.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
import weakref
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latscope import _native
from latscope._native import Error, UsageError
from latscope.arguments import check, names, period
from latscope.trace import Trace, is_path

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike
    from types import TracebackType

    from latscope.arguments import Duration

TURN_S = 0.02
"""How often a capture looks whether its time is over."""


SERVE = "import json, sys; sys.path[:] = json.loads(sys.argv[-2]); from latscope.live import serve; serve()"
"""What the process runs: it finds modules where this one does."""


class KilledError(Error):
    """The process that captures ended without a word."""


class Capture:
    """A capture of what a block of code does to the machine; see :func:`capture`."""

    def __init__(
        self,
        source: str = "block",
        *,
        filter: str | None = None,
        calls: str | Iterable[str] | None = None,
        stacks: str | None = None,
        path: str | PathLike[str] | None = None,
        replace: bool = False,
    ) -> None:
        """Take what to capture."""
        if source is None:
            message = 'source=None: give a text such as "block".'
            raise UsageError(message)
        check(source=source, filter=filter, stacks=stacks, replace=replace)
        self._how = (source, filter, None if calls is None else names(calls))
        self._stacks = stacks
        self._path = None if path is None else absolute(path)
        if self._path is not None and Path(self._path).suffix != ".lat":
            message = f"path={path!r}: A capture is written in the format of latscope; end the name in .lat."
            raise UsageError(message)
        self._replace = replace
        self._folder: str | None = None
        self._maker = os.getpid()
        self._running: subprocess.Popen[str] | None = None
        self._notes: list[str] = []
        self._trace: Trace | None = None

    @property
    def trace(self) -> Trace:
        """The events, when the capture is over."""
        if self._trace is None:
            message = "The capture is not over; look at its trace after the with block."
            raise UsageError(message)
        return self._trace

    @property
    def notes(self) -> list[str]:
        """What was noted while it ran: sentences."""
        return list(self._notes)

    def __enter__(self) -> Capture:
        """Start. The capture has started when the block begins."""
        self._start(None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop, and read what was captured."""
        self._stop()
        self._end()

    def _start(self, for_ns: int | None) -> None:
        """Start the process that captures, and wait until it does."""
        if self._running is not None:
            message = "A capture runs once; make another."
            raise UsageError(message)
        if self._path is not None and not self._replace and os.path.lexists(self._path):
            message = f"{self._path}: The file exists; replace=True replaces it."
            raise UsageError(message)
        if self._path is None:
            self._folder = tempfile.mkdtemp(prefix="latscope-")
            self._path = str(Path(self._folder) / "capture.lat")
        source, filter, calls = self._how
        asked = [source, self._path, filter, calls, for_ns, self._stacks]
        command = [sys.executable, "-c", SERVE, json.dumps([str(entry) for entry in sys.path]), json.dumps(asked)]
        # In a session of its own, Ctrl-C of a terminal does not reach it.
        self._running = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            self._answer()
        except KilledError:
            self._discard()
            raise

    def _answer(self) -> dict[str, Any]:
        """Return what the process says next; raise what failed there."""
        if self._running is None or self._running.stdout is None:
            return {}
        line = self._running.stdout.readline()
        if not line:
            message = "The capture was killed."
            raise KilledError(message)
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            self._discard()
            raise (UsageError if answer["usage"] else Error)(answer["error"])
        return answer

    def _stop(self) -> None:
        """Ask the process to end. Processes that were forked meanwhile keep its standard input open, so a line says it."""
        if self._running is not None and self._running.stdin is not None and not self._running.stdin.closed:
            with contextlib.suppress(OSError):
                self._running.stdin.write("stop\n")
                self._running.stdin.flush()

    def _leave(self) -> None:
        """Ask the process to end, and wait for that."""
        self._stop()
        if self._running is not None:
            if self._running.stdin is not None:
                # Where it was killed, nobody takes what is in the buffer.
                with contextlib.suppress(OSError):
                    self._running.stdin.close()
            with self._running:
                pass

    def _discard(self) -> None:
        """End the process, and leave nothing of what it has captured."""
        self._leave()
        if self._folder is not None:
            remove(self._folder, self._maker)

    def _end(self) -> Trace:
        """Wait for the end of the process and return what it has captured."""
        try:
            self._notes = self._answer().get("notes", [])
        except KilledError:
            if not os.path.lexists(self._path or ""):
                self._discard()
                raise
            self._notes = ["The capture was killed; the trace has what was written until then."]
            # Who looks at no notes would take it for all that happened.
            warnings.warn(self._notes[0], RuntimeWarning, stacklevel=3)
        if self._running is not None:
            self._leave()
        self._trace = Trace(self._path or "")
        if self._folder is not None:
            # The file is needed as long as somebody may ask for its events.
            weakref.finalize(self._trace, remove, self._folder, self._maker)
            self._trace._is_temporary = True
        return self._trace


def absolute(path: str | PathLike[str]) -> str:
    """Return where a file is, wherever the caller goes meanwhile."""
    text = fspath(path) if isinstance(path, (str, os.PathLike)) else path
    if not isinstance(text, str) or "\0" in text or not is_path(text):
        message = f'path={path!r}: give a text such as "trace.lat".'
        raise UsageError(message)
    return str(Path(text).expanduser().absolute())


def remove(folder: str, maker: int) -> None:
    """Remove a temporary folder, in the process that made it: those that were forked from it end, too."""
    if os.getpid() == maker:
        shutil.rmtree(folder, ignore_errors=True)


def serve() -> None:
    """Capture in this process: what is the last argument, until its time is over or standard input has a line or ends."""
    # Ctrl-C is the parent's, which says when to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        running = _native.Capture(*json.loads(sys.argv[-1]))
        print(json.dumps({"started": True}), flush=True)
        while not running.is_over() and not select.select([sys.stdin], [], [], TURN_S)[0]:
            pass
        running.stop()
        print(json.dumps({"notes": running.notes}), flush=True)
    except Error as error:
        print(json.dumps({"error": str(error), "usage": isinstance(error, UsageError)}), flush=True)
    except BrokenPipeError:
        # Whoever asked does not wait for it any more; what is in the buffer goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def capture(
    source: str = "block",
    *,
    filter: str | None = None,
    calls: str | Iterable[str] | None = None,
    stacks: str | None = None,
    path: str | PathLike[str] | None = None,
    replace: bool = False,
) -> Capture:
    """Capture what happens while a block of code runs: ``with lat.capture("block") as c: ...``, then ``c.trace``.

    Sources are those of the program: ``block`` (requests to disks), ``io`` (calls that do I/O) or ``syscall``, and ``stacks``,
    ``offcpu`` and ``oncpu`` (threads that wait or run), alone or together, as in ``"block,stacks"``. ``stacks="slow=50ms"`` adds
    to block requests the stacks of those that issued them. The trace is kept at ``path``, where ``replace`` allows a file to
    exist, or as long as it is used.
    """
    return Capture(source, filter=filter, calls=calls, stacks=stacks, path=path, replace=replace)


def record(
    source: str = "block",
    duration: Duration = "10s",
    *,
    filter: str | None = None,
    calls: str | Iterable[str] | None = None,
    stacks: str | None = None,
    path: str | PathLike[str] | None = None,
    replace: bool = False,
) -> Trace:
    """Capture for a length of time and return the trace."""
    if duration is None:
        message = 'The capture needs a length of time, such as "10s"; for one of a block of code, use capture.'
        raise UsageError(message)
    for_ns = period(duration, "duration")
    recording = Capture(source, filter=filter, calls=calls, stacks=stacks, path=path, replace=replace)
    try:
        recording._start(for_ns)
        return recording._end()
    except BaseException:
        recording._discard()
        raise
