"""The engine's private folder, for its own files and those for its tasks."""

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
# A socket's path may have 107 bytes, 42 of which are its own name.
_LONGEST_OF_SOCKETS = 64


class EngineFolder:
    """A folder that is deleted with its engine; the next start removes those of killed processes."""

    def __init__(self) -> None:
        place = Path(os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir())
        expect_no_colon(place)
        _expect_own(place)
        _remove_left(place)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        # It is named after it is locked; otherwise another start would take it for an abandoned
        # one.
        unheld = self.path / f"{_LOCK}.new"
        self._lock: int | None = os.open(unheld, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unheld.rename(self.path / _LOCK)

    def settings(self) -> dict[str, str]:
        """The settings with which an engine on this machine uses the folder."""
        settings = {"spark.local.dir": str(self.path)}
        if len(os.fsencode(self.path)) <= _LONGEST_OF_SOCKETS:
            # Python's workers then use sockets in the folder, and no port is open for them.
            settings["spark.python.unix.domain.socket.enabled"] = "true"
            settings["spark.python.unix.domain.socket.dir"] = str(self.path)
        return settings

    @property
    def lock(self) -> int:
        """The open lock for the JVM to inherit: it may outlive this process for a while, and make folders here."""
        assert self._lock is not None  # noqa: S101
        return self._lock

    def remove(self) -> None:
        """Remove the folder with its content."""
        shutil.rmtree(self.path, ignore_errors=True)
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


def expect_no_colon(place: Path) -> None:
    """Refuse a place from which Kafka's client cannot read secrets: they would travel in the job."""
    if ":" in str(place):
        raise Refused(
            f"the folder for engines has a colon in its path: {place}; Kafka's client reads a path up to its "
            "first colon, and passwords would be in the engine's jobs instead of a file",
            hint="set TMPDIR, or SPARK_LOCAL_DIRS if it is set, to a folder without a colon",
        )


def _expect_own(place: Path) -> None:
    """Refuse a place in which another user could replace the folder and so run code in its tasks."""
    reason = exposed(place / _PREFIX)  # In a folder like /tmp, only a folder's owner can rename it.
    if reason is not None:
        raise Refused(
            f"other users can change the folder for engines: {reason}",
            hint="set TMPDIR, or SPARK_LOCAL_DIRS if it is set, to a folder of your own",
        )


def _remove_left(place: Path) -> None:
    for left in place.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            status = left.lstat()
            is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
            if is_ours and (left / _LOCK).exists() and not file_lock.is_held(left / _LOCK):
                shutil.rmtree(left, ignore_errors=True)
