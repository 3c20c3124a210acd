"""Watches a folder: a file that appears triggers its standby, and is moved away with the outcome."""

import errno
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playhead import secrets
from playhead.errors import PlayheadError, Refused, Stopped, Unavailable
from playhead.grammar.instant import show_ms
from playhead.host import file_lock, paths
from playhead.host.atomic_file import write_whole
from playhead.host.clock import Backoff, sleep_unless
from playhead.host.faults import abort_point
from playhead.host.folders import make_durably, move, opened
from playhead.proof import Proof
from playhead.replay.api import Planned
from playhead.replay.journal import DONE as PROVED
from playhead.standby.history import History, Triggered
from playhead.standby.runner import NotItsRun, RunHooks, StandbyBusy, new_id, run, zone_of
from playhead.standby.store import Standbys
from playhead.standby.trigger_file import (
    DONE,
    FAILED,
    REQUEST,
    RUNNING,
    Claim,
    MeansNoStandby,
    NotARequest,
    read_words,
    span_of,
    standby_of,
)

_LOOK_EVERY_S = 0.2
# A writer that writes in place gets this long after its last change to finish.
_SETTLES_WITHIN_S = 2.0
_WAITS_AT_MOST_S = 30.0
"""A file that is written on and on must not keep the others waiting."""
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 10.0
# A group that shares the folder shares those inside; others may not, whatever the umask is.
_FOLDERS, _OF_GROUP = 0o755, 0o020
_NOBODY = "nobody"
_ENGINE = ("spark_master", "spark_remote", "spark_memory")


class WatchedAlready(Refused):
    """Another watcher uses the folder."""

    def __init__(self, folder: Path, *, by: str) -> None:
        self.folder, self.by = folder, by
        super().__init__(
            f"another process already watches {folder} ({by})",
            hint="watch another folder, or stop the other watcher",
        )


class FolderLost(PlayheadError):
    """The watched folder cannot be used, or not any longer."""

    def __init__(self, folder: Path, *, reason: str) -> None:
        self.folder, self.reason = folder, reason
        super().__init__(
            f"cannot watch {folder}: {reason}",
            hint="it must be a folder in which this user can create, rename and remove files",
        )


class OtherEngine(Refused):
    """A process has one engine, and a standby needs a different one."""

    def __init__(self, *, has: str, wanted: str) -> None:
        super().__init__(
            f"the standby needs the engine {wanted}, but this watcher's is {has}",
            hint="use another watcher with another folder for this standby",
        )


class WatchStopped(Stopped):
    """The watcher was asked to stop during a run; committed records stay."""

    def __init__(self, claim: Claim) -> None:
        self.replay_id = claim.replay_id
        super().__init__(
            f"stopped during {claim.shown}, replay {claim.replay_id}",
            hint=f"continue with: playhead standby watch {claim.file.parent}",
        )


@dataclass
class Watch:
    """Watches one folder; takes files one by one, in the order of their arrival."""

    folder: Path
    play: Callable[[Planned], Proof] = Planned.run
    say: Callable[[str], None] = lambda _: None
    tell: Callable[[Mapping[str, Any]], None] = lambda _: None
    """Receives the outcome of each file."""
    patience_s: float = 120.0
    """How long a server may be away before a plan exists; after that, the run's own patience applies."""
    warm: bool = False
    """Start the engine while a run is planned."""
    is_stopping: bool = False
    failed: int = 0
    _handle: int = field(default=-1, init=False)
    _current: str | None = field(default=None, init=False)
    _engine: str | None = field(default=None, init=False)

    def stop(self) -> None:
        """Stop at the next slice boundary; a signal handler may call it."""
        self.is_stopping = True
        self.heed()

    def heed(self) -> None:
        """Pass on a stop request to a run that began after it; called regularly."""
        if self.is_stopping and self._current is not None:
            History().ask_to_stop(self._current)

    def run(self, *, once: bool = False) -> None:
        """Take files until a stop is requested; with `once`, only those that exist."""
        try:
            # The folder is not created here: it may be an unmounted disk. All work uses this
            # handle, because a user who can write in the folder could replace a name by a link.
            with opened(self.folder) as self._handle:
                lock = _lock_file(os.fstat(self._handle))
                with file_lock.held(lock, lambda by: WatchedAlready(self.folder, by=by)):
                    mode = _FOLDERS | os.fstat(self._handle).st_mode & _OF_GROUP
                    for place in (DONE, FAILED):
                        make_durably(place, self._handle, mode=mode)
                        with opened(self._handle, place):
                            pass
                    self._until_stopped(once=once)
        except OSError as exc:
            raise FolderLost(self.folder, reason=_reason(exc)) from exc

    def _until_stopped(self, *, once: bool) -> None:
        while not self.is_stopping:
            claim = self._next()
            if claim is not None:
                self._take(claim)
            elif once:
                return
            else:
                time.sleep(_LOOK_EVERY_S)

    def _next(self) -> Claim | None:
        """Return the next file; those of an earlier watcher come first."""
        self._expect_folder()
        odd = []
        for running in sorted(self.folder.glob(f"[!.]*{RUNNING}")):
            if running.is_dir() and not running.is_symlink():
                continue  # left alone, as every folder is
            if (found := Claim.found(running)) is not None:
                return found
            odd.append(running)
        for dropped in (*odd, *dropped_files(self.folder)):
            name = standby_of(dropped.name.removesuffix(REQUEST), Standbys().names())
            claim = Claim.of(dropped, new_id(name or _NOBODY))
            with suppress(FileNotFoundError):  # The file was removed meanwhile.
                move(dropped.name, claim.file.name, self._handle, self._handle)
                abort_point("standby.claimed")
                return claim
        return None

    def _take(self, claim: Claim) -> None:
        self._current = claim.replay_id
        try:
            outcome = self._outcome(claim)
        finally:
            self._current = None
        self.failed += outcome["outcome"] != PROVED
        self._put_away(claim, outcome)
        self.tell(outcome)

    def _put_away(self, claim: Claim, outcome: Mapping[str, Any]) -> None:
        """Write the outcome before moving the file: a file that stays is taken again, with the same outcome."""
        place = DONE if outcome["outcome"] == PROVED else FAILED
        text = json.dumps(outcome, indent=2, default=str, ensure_ascii=False) + "\n"
        self._expect_folder()
        with opened(self._handle, place) as handle:
            # The file's author may be another user, and must be able to read the outcome.
            write_whole(Path(claim.outcome), text, mode=0o644, folder=handle)
            abort_point("standby.outcome_written")
            _put(claim, self._handle, handle)
        abort_point("standby.put_away")

    def _expect_folder(self) -> None:
        """Refuse to watch a folder that was removed or replaced."""
        if not os.path.samestat(self.folder.stat(), os.fstat(self._handle)):
            raise OSError(errno.ESTALE, "another folder has replaced it")

    def _outcome(self, claim: Claim) -> dict[str, Any]:
        """Return the outcome of a file; its errors do not affect the next file."""
        try:
            proof = _proof_of(_triggered(claim)) or self._ran(claim).as_document()
            abort_point("standby.proved")
            error, hint = None, None
            state = PROVED if proof["adds_up"] else "different"
        except PlayheadError as exc:
            if self.is_stopping and isinstance(exc, Stopped | Unavailable | StandbyBusy):
                raise WatchStopped(claim) from exc
            proof, state = None, "stopped" if isinstance(exc, Stopped) else "failed"
            error, hint = str(exc), exc.hint
        except Exception as exc:  # noqa: BLE001  the watcher outlives whatever becomes of one run
            proof, state = None, "failed"
            error, hint = f"{type(exc).__name__}: {exc}", "this is a fault of Playhead's"
        told = {"error": _plain(error), "hint": _plain(hint), "proof": proof}
        return _told(claim) | {"outcome": state, **told}

    def _ran(self, claim: Claim) -> Proof:
        """Start or resume the run; wait for unavailable servers."""
        until = time.monotonic() + self.patience_s
        backoff = Backoff(_FIRST_WAIT_S, _LONGEST_WAIT_S)
        while True:
            try:
                return self._run(claim)
            except Unavailable as exc:
                has_plan = History().get(claim.replay_id) is not None
                if has_plan or self.is_stopping or time.monotonic() + backoff.next_s > until:
                    raise
                self.say(f"{claim.shown}: waiting {backoff.next_s:g} s: {exc}")
            self._sleep(backoff.take())

    def _run(self, claim: Claim) -> Proof:
        triggered = _triggered(claim)
        face = RunHooks(
            play=self._played, keep_waiting=lambda: not self.is_stopping, warm=self.warm
        )
        if triggered is not None and triggered.run is not None:
            self.say(f"{claim.shown}: resuming replay {claim.replay_id}")
            name, span = triggered.standby, triggered.span
        else:
            name, span = self._asked(claim)
            self.say(f"{claim.shown}: standby {name} over {span} as replay {claim.replay_id}")
        return run(name, span, trigger=_trigger(claim), replay_id=claim.replay_id, face=face)

    def _played(self, planned: Planned) -> Proof:
        if self.is_stopping:
            raise Stopped("stopped before anything was written")
        wanted = ", ".join(f"{name} {planned.configuration.get(name)}" for name in _ENGINE)
        self._engine = self._engine or wanted
        if wanted != self._engine:
            raise OtherEngine(has=self._engine, wanted=wanted)
        return self.play(planned)

    def _asked(self, claim: Claim) -> tuple[str, str]:
        """Return the standby and the span of a file."""
        standbys = Standbys()
        name = standby_of(claim.stem, standbys.names())
        if name is None:
            raise MeansNoStandby(claim.shown, known=standbys.names())
        words = self._settled(claim)
        return name, str(span_of(words, timezone=zone_of(standbys.get(name))))

    def _settled(self, claim: Claim) -> dict[str, str]:
        until = time.monotonic() + _WAITS_AT_MOST_S
        while True:
            try:
                return read_words(claim.file, claim.shown, folder=self._handle)
            except NotARequest:
                if _is_settled(claim.file) or time.monotonic() > until:
                    raise
            self._sleep(_LOOK_EVERY_S)

    def _sleep(self, seconds: float) -> None:
        if sleep_unless(lambda: self.is_stopping, seconds):
            raise Stopped("stopped before anything was written")


def _put(claim: Claim, folder: int, place: int) -> None:
    """Move the file to its place. One that was removed meanwhile is not there, and its outcome stays.

    A folder that has taken its name stays too: no folder can replace a file, so one is there first.
    """
    is_new = False
    with suppress(FileExistsError):
        os.close(os.open(claim.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=place))
        is_new = True
    try:
        move(claim.file.name, claim.name, folder, place)
    except (FileNotFoundError, NotADirectoryError):
        if is_new:
            os.unlink(claim.name, dir_fd=place)


def _is_settled(file: Path) -> bool:
    try:
        return abs(time.time() - file.lstat().st_mtime) > _SETTLES_WITHIN_S
    except FileNotFoundError:  # Another user has removed it.
        return True


def dropped_files(folder: Path) -> Iterator[Path]:
    """Return the new files, in the order in which they were written."""
    found = []
    for file in folder.glob(f"[!.]*{REQUEST}"):
        with suppress(FileNotFoundError):
            if not file.is_dir():
                found.append((file.lstat().st_mtime_ns, file))
    yield from (file for _, file in sorted(found))


def _lock_file(folder: os.stat_result) -> Path:
    """Return a lock file outside the folder, where no other user can put a link."""
    return paths.state_dir() / "watched" / f"{folder.st_dev}-{folder.st_ino}.lock"


def _reason(exc: OSError) -> str:
    if exc.errno in (errno.ELOOP, errno.ENOTDIR):
        return f"{exc.filename} must be a folder, not a link"
    return exc.strerror or str(exc)


def _trigger(claim: Claim) -> str:
    return f"file {claim.shown}"


def _triggered(claim: Claim) -> Triggered | None:
    """Return the run that this file already triggered; anyone can choose a file's name."""
    found = History().trigger_of(claim.replay_id)
    if found is not None and found.trigger != _trigger(claim):
        raise NotItsRun(claim.replay_id, claim.shown)
    return found


def _proof_of(triggered: Triggered | None) -> dict[str, Any] | None:
    """Return the proof of a run that had ended when its watcher died."""
    found = triggered.run if triggered is not None else None
    return dict(found.proof) if found and found.proof and found.state == PROVED else None


def _plain(text: str | None) -> str | None:
    """Return a text that is safe in a file: without secrets and lone surrogates."""
    if text is None:
        return None
    return secrets.redact(text).encode("utf-8", "backslashreplace").decode()


def _told(claim: Claim) -> dict[str, Any]:
    found = History().trigger_of(claim.replay_id)
    triggered = found if found is not None and found.trigger == _trigger(claim) else None
    return {
        "file": claim.shown,
        "standby": triggered.standby if triggered else None,
        "replay_id": triggered.replay_id if triggered else None,
        "span": triggered.span if triggered else None,
        "triggered": show_ms(triggered.at_ms) if triggered else None,
        "ended": show_ms(time.time_ns() // 1_000_000),
    }
