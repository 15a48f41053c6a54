"""Where the program and the recorded inputs are."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

TESTDATA = Path(__file__).parents[2] / "testdata"


@pytest.fixture
def data() -> Callable[[str], str]:
    """Return the path of a recorded input."""
    return lambda name: str(TESTDATA / name)


@pytest.fixture
def program() -> Callable[..., str]:
    """Run the program and return what it prints."""
    latscope = os.environ.get("LATSCOPE")
    if latscope is None:
        pytest.skip("LATSCOPE does not name the program")

    def run(*arguments: str) -> str:
        return subprocess.run([latscope, *arguments], check=True, capture_output=True, text=True).stdout

    return run
