"""The engine's start-up cache: Java's ahead-of-time cache of the classes that our jobs load.

It halves the time to a first row. A training run in the background makes it once
(playhead.replay.engine_warmup). Its name contains everything it depends on, it is checked before it is
used, and a bad one never fails a start.
"""

import contextlib
import hashlib
import json
import os
import threading
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path

from playhead.host import paths, private_files
from playhead.host.detached import Detached
from playhead.host.runtimes import AOT_JAVA, command_of
from playhead.spark.jvm import JvmCommand

SWITCH = "PLAYHEAD_AOT_CACHE"
"""Environment variable: `off` neither uses nor makes a cache, `use` never makes one."""

_FORMAT = 1
_KEPT = 3
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
_REFUSED = "processing the AOT cache"


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache file, and the manifest beside it that describes it."""

    file: Path

    @property
    def note(self) -> Path:
        return self.file.with_suffix(".json")

    @property
    def options(self) -> list[str]:
        """The options with which a JVM uses it, without output on stdout."""
        return [f"-XX:AOTCache={self.file}", *_QUIET]

    def training_options(self, output: Path) -> list[str]:
        return [f"-XX:AOTCacheOutput={output}", *_QUIET]

    def is_there(self) -> bool:
        """Return whether file and manifest exist with the same size; the full check is `Check`."""
        note = self.read_note()
        return note is not None and self.file.exists() and self.file.stat().st_size == note.size

    def read_note(self) -> "CacheManifest | None":
        try:
            return CacheManifest(**json.loads(self.note.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def adopt(self, made: Path, trained_on: list[str]) -> None:
        """Move a finished cache into its place: first the file, then the manifest that makes it valid."""
        note = CacheManifest(_FORMAT, made.stat().st_size, _crc(made), trained_on)
        self.note.unlink(missing_ok=True)
        made.chmod(0o600)
        made.replace(self.file)
        new = self.note.with_suffix(f".{os.getpid()}.new")
        private_files.write(new, json.dumps(asdict(note)) + "\n")
        new.replace(self.note)
        self._drop_old_ones()

    def is_whole(self) -> bool:
        """Read all of it and compare, whatever was checked before."""
        note = self.read_note()
        try:
            return note is not None and _crc(self.file) == note.crc32
        except OSError:
            return False

    def was_checked(self) -> bool:
        """Return whether the file, by its time and number, is the one that was last checked."""
        try:
            return self._stamp.read_text(encoding="ascii") == self._seen()
        except OSError:
            return False

    def remember_check(self) -> None:
        with contextlib.suppress(
            OSError
        ):  # Without a stamp, a read-only cache is checked every time.
            private_files.write(self._stamp, self._seen())

    def _seen(self) -> str:
        status = self.file.stat()
        return f"{status.st_size} {status.st_mtime_ns} {status.st_ino}"

    @property
    def _stamp(self) -> Path:
        return self.file.with_suffix(".ok")

    def discard(self) -> None:
        self._stamp.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)
        self.file.unlink(missing_ok=True)

    def _drop_old_ones(self) -> None:
        newest_last = sorted(self.file.parent.glob("*.aot"), key=_changed_ns)
        for file in newest_last[:-_KEPT]:
            Cache(file).discard()


@dataclass(frozen=True, slots=True)
class CacheManifest:
    """The description of a valid cache, and what it was trained on."""

    format: int
    size: int
    crc32: int
    trained_on: list[str]


class Check:
    """Checks a whole cache while the JVM boots from it, unless this file was checked before.

    A damaged cache can crash the JVM at any later moment.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._is_whole = cache.was_checked()
        self._thread = threading.Thread(target=self._look, name="aot-check", daemon=True)
        if not self._is_whole:
            self._thread.start()

    def _look(self) -> None:
        self._is_whole = self._cache.is_whole()
        if self._is_whole:
            self._cache.remember_check()

    def is_whole(self) -> bool:
        if self._thread.ident is not None:
            self._thread.join()
        return self._is_whole


def cache_for(blueprint: JvmCommand) -> Cache | None:
    """Return the cache for this command; None if Java is too old, or caches are off."""
    if blueprint.java.feature_release < AOT_JAVA or os.environ.get(SWITCH) == "off":
        return None
    return Cache(paths.cache_dir() / "aot" / f"{_key(blueprint)}.aot")


def was_refused(log: Path) -> bool:
    """Return whether the JVM reported that the cache does not fit."""
    try:
        return _REFUSED in log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def start_training() -> None:
    """Make the cache in the background; see playhead.replay.engine_warmup."""
    if os.environ.get(SWITCH) == "use":
        return
    Detached([*command_of("playhead.replay.engine_warmup"), "--background"])


def _key(blueprint: JvmCommand) -> str:
    """Return a key of the runtime, every jar's path, size and time, and the options."""
    digest = hashlib.sha256(f"{_FORMAT} {blueprint.options}".encode())
    for file in (blueprint.java.home / "release", *blueprint.class_path):
        status = file.stat()
        digest.update(f"{file} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:20]


def _changed_ns(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:  # Another process has just removed it.
        return 0


def _crc(file: Path) -> int:
    value = 0
    with file.open("rb") as stream:
        while block := stream.read(1 << 22):
            value = zlib.crc32(block, value)
    return value
