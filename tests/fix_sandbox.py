"""A folder for a sandbox of a test's own."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from playhead.sandbox import Sandbox


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a test may bring a sandbox up; whatever runs in it is stopped."""
    with tempfile.TemporaryDirectory(prefix="playhead-box-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)  # the servers' user has to enter it
        yield Path(name) / "box"
        Sandbox(Path(name) / "box").down()
