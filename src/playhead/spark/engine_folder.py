"""The engine's own folder: what it writes for itself, and hands to its tasks, is nobody else's to read."""

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from playhead.errors import Refused
from playhead.host import file_lock
from playhead.host.folders import exposed

_PREFIX = "playhead-engine-"
_LOCK = "lock"
# A socket's path may have 107 bytes, of which its own name takes 42.
_LONGEST_OF_SOCKETS = 64


class EngineFolder:
    """A folder that goes with its engine; one that a killed process left is removed by the next start."""

    def __init__(self) -> None:
        place = Path(os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir())
        _expect_own(place)
        _remove_left(place)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        # It gets its name when it is held, or another start would take it for one that was left.
        unheld = self.path / f"{_LOCK}.new"
        self._lock: int | None = os.open(unheld, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unheld.rename(self.path / _LOCK)

    def settings(self) -> dict[str, str]:
        """What has an engine on this machine keep to the folder."""
        settings = {"spark.local.dir": str(self.path)}
        if len(os.fsencode(self.path)) <= _LONGEST_OF_SOCKETS:
            # Python's workers are then reached through the folder, and no port is open for them.
            settings["spark.python.unix.domain.socket.enabled"] = "true"
            settings["spark.python.unix.domain.socket.dir"] = str(self.path)
        return settings

    def remove(self) -> None:
        """With all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


def _expect_own(place: Path) -> None:
    """Whoever can put another folder in ours' place hands its tasks what he wants, and they run it."""
    reason = exposed(place / _PREFIX)  # of what lies in it: in /tmp only its owner can rename it
    if reason is not None:
        raise Refused(
            f"the folder for engines could be changed by another user: {reason}",
            hint="name one of your own in TMPDIR, or in SPARK_LOCAL_DIRS where that is set",
        )


def _remove_left(place: Path) -> None:
    for left in place.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            status = left.lstat()
            is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
            if is_ours and (left / _LOCK).exists() and not file_lock.is_held(left / _LOCK):
                shutil.rmtree(left, ignore_errors=True)
