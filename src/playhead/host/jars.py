"""Fetches the jars of the lock file by coordinate and SHA-256, and returns their paths.

Nothing is resolved here, and neither Ivy nor Maven is asked. A jar is used only if its bytes are the
locked ones, wherever they came from (our cache, the user's ~/.m2, the repository).
"""

import contextlib
import hashlib
import io
import os
import re
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any

from playhead.errors import BadValue, NotFetched, Refused
from playhead.host import paths, private_files
from playhead.host.folders import exposed, open_plain
from playhead.host.threads import call_within

LOCK = Path(__file__).with_name("jars.lock")
_VARIABLE = "PLAYHEAD_MAVEN_URL"
DEFAULT_REPOSITORY = "https://repo1.maven.org/maven2"
# A block that takes longer has less than a kilobyte a second.
_BLOCK, _BLOCK_WITHIN_S = 1 << 16, 60.0
_TIMEOUT_S = 30
_PID = re.compile(r"[0-9]{1,9}", re.ASCII)
_TRIES = 3
_one_at_a_time = threading.Lock()

Progress = Callable[[str, int, int], None]
"""Called with the last action, the bytes so far and the bytes in all."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of the lock file."""

    set_name: str
    coordinate: str
    size: int
    sha256: str

    @property
    def path(self) -> str:
        """The path of the jar in a Maven repository."""
        group, artifact, version = self.coordinate.split(":")
        return f"{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.jar"

    @property
    def file_name(self) -> str:
        return self.path.rpartition("/")[2]


def read_lock(lock: Path = LOCK) -> tuple[Jar, ...]:
    """Read every jar of the lock file, in its order."""
    rows = [
        line.split()
        for line in lock.read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    return tuple(Jar(name, coordinate, int(size), sha) for name, coordinate, size, sha in rows)


def repository() -> str:
    """Return the base URL of the repository; refuse one with a login.

    Python would look up its password in DNS as a part of the host's name.
    """
    url = os.environ.get(_VARIABLE) or DEFAULT_REPOSITORY
    if "@" in url:
        found, needed = f"…@{url.rpartition('@')[2]}", "https://host/path, without a login"
        raise BadValue(_VARIABLE, found=found, needed=needed, where="the environment")
    return url.rstrip("/")


def jar_dir() -> Path:
    return paths.cache_dir() / "jars"


def missing(*set_names: str) -> list[Jar]:
    """Return the jars of these sets that are not in the cache with the locked bytes."""
    return [jar for jar in _of(set_names) if not _is_whole(_cached(jar), jar)]


def ensure(*set_names: str, progress: Progress | None = None) -> list[Path]:
    """Return the paths of all jars of these sets; fetch missing ones.

    Sizes are checked on every call, checksums if a file is new or changed since its last check. The usual
    call costs one stat for each jar.
    """
    _expect_own(jar_dir())
    if missing(*set_names):
        with _one_at_a_time:  # Two threads would write the same file.
            _fetch_all(missing(*set_names), progress)
    return [_cached(jar) for jar in _of(set_names)]


def _expect_own(folder: Path) -> None:
    """Refuse a cache that another user could change: the changed jar would run as us."""
    reason = exposed(folder)
    if reason is not None:
        raise Refused(
            f"other users can change the cache of jars: {reason}",
            hint="set a folder of your own: XDG_CACHE_HOME=~/.cache",
        )


def _of(set_names: Iterable[str]) -> list[Jar]:
    names = set(set_names)
    return [jar for jar in read_lock(LOCK) if jar.set_name in names]


def _cached(jar: Jar) -> Path:
    return jar_dir() / jar.file_name


def _is_whole(file: Path, jar: Jar) -> bool:
    """Return whether the file has the locked bytes; a stamp beside it remembers the last full check."""
    try:
        status = file.stat()
    except OSError:
        return False
    if status.st_size != jar.size:
        return False
    stamp = file.with_name(file.name + ".ok")
    seen = f"{jar.sha256} {status.st_mtime_ns} {status.st_ino}"
    with contextlib.suppress(OSError):
        if stamp.read_text(encoding="ascii") == seen:
            return True
    if _sha256(file) != jar.sha256:
        return False
    with contextlib.suppress(OSError):  # Without a stamp, a read-only cache is checked every time.
        private_files.write(stamp, seen)
    return True


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class _Tally:
    """Adds up the progress of all fetching threads, by file, because a retry starts a file again."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total, self._progress = total, progress
        self._got: dict[str, int] = {}
        self._lock = threading.Lock()
        self.is_over = False

    def has(self, jar: Jar, count: int, origin: str = "") -> None:
        with self._lock:
            self._got[jar.coordinate] = min(count, jar.size)  # A server may send too much.
            if self._progress is not None:
                self._progress(jar.file_name + origin, sum(self._got.values()), self._total)


def _fetch_all(jars: list[Jar], progress: Progress | None) -> None:
    if not jars:
        return
    try:
        private_files.folder(jar_dir(), is_passed=True)
    except OSError as exc:
        raise NotFetched(jars[0].coordinate, url=_url(jars[0]), reason=str(exc)) from exc
    tally = _Tally(sum(jar.size for jar in jars), progress)
    with ThreadPoolExecutor(6, thread_name_prefix="fetch-jar") as pool:
        try:
            for fetched in as_completed([pool.submit(_fetch, jar, tally) for jar in jars]):
                fetched.result()
        except BaseException:
            # A server that does not answer one jar would take minutes for each of the others.
            tally.is_over = True
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _fetch(jar: Jar, tally: _Tally) -> None:
    target = _cached(jar)
    # Each process writes a file with its own name, so two that fetch at once cannot mix their
    # bytes; the final rename is atomic, and both rename equal bytes.
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        if _copied_from_maven(jar, part):
            tally.has(jar, jar.size, " (from ~/.m2)")
        else:
            _adopt_abandoned_part(target, part)
            _download(jar, part, tally)
        part.chmod(private_files.public_file_mode())
        part.replace(target)
    except OSError as exc:  # Such as a cache that is deleted now.
        raise NotFetched(jar.coordinate, url=_url(jar), reason=str(exc)) from exc
    finally:
        with contextlib.suppress(OSError):
            if part.stat().st_size == jar.size:
                part.unlink()  # Complete, but not the locked bytes: nothing to continue with.


def _copied_from_maven(jar: Jar, part: Path) -> bool:
    """Copy the jar from the user's ~/.m2 if it has the locked bytes there.

    The copy is what is checked: HOME may be another user's, who can exchange the file at any moment.
    """
    local = Path("~/.m2/repository").expanduser() / jar.path
    with contextlib.suppress(OSError):
        opened = open_plain(local.resolve(), os.O_RDONLY)
        with os.fdopen(opened, "rb") as original, private_files.opened(part, "wb") as copy:
            copy.write(original.read(jar.size + 1))
        if _sha256(part) == jar.sha256:
            return True
        part.unlink()
    return False


def _adopt_abandoned_part(target: Path, part: Path) -> None:
    """Continue with the part of this file that a dead process had fetched."""
    for other in target.parent.glob(f"{target.name}.*.part"):
        pid = other.name.split(".")[-2]
        if other != part and _PID.fullmatch(pid) and not _is_running(int(pid)):
            with contextlib.suppress(OSError):  # Another process may have taken it first.
                other.replace(part)
            return


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _url(jar: Jar) -> str:
    return f"{repository()}/{jar.path}"


def _download(jar: Jar, part: Path, tally: _Tally) -> None:
    url = _url(jar)
    reason = ""
    for _ in range(_TRIES):
        try:
            _continue_download(url, part, jar, tally)
        except urllib.error.HTTPError as exc:
            exc.close()  # The error is the response, and holds the connection.
            raise NotFetched(
                jar.coordinate, url=url, reason=f"HTTP {exc.code} {exc.reason}"
            ) from exc
        # ValueError: the text is not a URL; OverflowError: no machine has such a port.
        except (OSError, HTTPException, ValueError, OverflowError) as exc:
            reason = str(getattr(exc, "reason", exc))
            if tally.is_over:
                break
            continue
        if _sha256(part) == jar.sha256:
            return
        reason = "the server sent other bytes than the locked ones (SHA-256 differs)"
        part.unlink()
    raise NotFetched(jar.coordinate, url=url, reason=reason)


def _continue_download(url: str, part: Path, jar: Jar, tally: _Tally) -> None:
    have = part.stat().st_size if part.exists() else 0
    if have >= jar.size:
        part.unlink()
        have = 0
    request = urllib.request.Request(url, headers={"User-Agent": "playhead"})  # noqa: S310
    if have:
        request.add_header("Range", f"bytes={have}-")
    answer = _in_time(lambda: _opener().open(request, timeout=_TIMEOUT_S))
    goes_on = answer.status == HTTPStatus.PARTIAL_CONTENT
    with private_files.opened(part, "ab" if goes_on else "wb") as stream:
        # One extra byte proves that these are not the locked bytes.
        while block := _in_time(partial(answer.read, min(_BLOCK, jar.size + 1 - stream.tell()))):
            stream.write(block)
            tally.has(jar, stream.tell())
            if tally.is_over:
                raise ConnectionError("another jar could not be fetched")
    # After an error it is not closed here: a thread that was left behind may still read from it.
    answer.close()
    if part.stat().st_size < jar.size:
        raise ConnectionError(
            f"the connection ended after {part.stat().st_size} of {jar.size} bytes"
        )


def _in_time(call: Callable[[], Any]) -> Any:
    """Return the call's result; a server that sends a byte now and then would exceed the time of any wait."""
    return call_within(call, _BLOCK_WITHIN_S, name="the server's answer")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects without reading their bodies, which Python's own class reads whole."""

    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> Any:
        fp.close()
        return super().http_error_302(req, io.BytesIO(), code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_Redirects, urllib.request.HTTPSHandler(context=_tls()))


def _tls() -> ssl.SSLContext:
    """Return a context with the system's trust store, so that a company's proxy certificate is accepted."""
    return ssl.create_default_context()
