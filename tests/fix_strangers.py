"""Another user of the machine: programs that run as one, when the tests run as root."""

import os
import pwd
import subprocess
from pathlib import Path

import pytest

# Not the sandbox's own user: what that one may do, another stranger may not.
STRANGER = next(
    (pwd.getpwnam(name) for name in ("daemon", "bin", "games") if os.geteuid() == 0), None
)
NEEDS_A_STRANGER = pytest.mark.skipif(
    STRANGER is None, reason="SECURITY TEST NOT RUN: only root can act as a second user"
)


def as_stranger(*command: str, folder: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """What a command does as the other user."""
    assert STRANGER is not None
    return subprocess.run(
        command,
        cwd=folder or "/",
        user=STRANGER.pw_uid,
        group=STRANGER.pw_gid,
        extra_groups=[],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def strangers_folder(path: Path) -> Path:
    """A folder of the other user's."""
    assert STRANGER is not None
    path.mkdir(parents=True)
    os.chown(path, STRANGER.pw_uid, STRANGER.pw_gid)
    return path
