"""Watches a folder: a file that appears there triggers its standby, and moves on with what came of it."""

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
from playhead.host.folders import move, opened
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
# Who writes a file in place, and not aside, gets so long from its last change on to come to its end.
_SETTLES_WITHIN_S = 2.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 10.0
# A group may share the folder; not everybody, whatever the umask says.
_FOLDERS = 0o775
_NOBODY = "nobody"
_ENGINE = ("spark_master", "spark_remote", "spark_memory")


class WatchedAlready(Refused):
    """Another watcher has the folder."""

    def __init__(self, folder: Path, *, by: str) -> None:
        self.folder, self.by = folder, by
        super().__init__(
            f"{folder} is watched already ({by})",
            hint="one watcher for each folder; another folder gets one of its own",
        )


class FolderLost(PlayheadError):
    """The folder that is watched cannot be used, or no longer."""

    def __init__(self, folder: Path, *, reason: str) -> None:
        self.folder, self.reason = folder, reason
        super().__init__(
            f"cannot watch {folder}: {reason}",
            hint="it has to be a folder where this user may make, rename and remove files",
        )


class OtherEngine(Refused):
    """A process has one engine, and a standby wants another one than that."""

    def __init__(self, *, has: str, wanted: str) -> None:
        super().__init__(
            f"this watcher's engine is {has}, and the standby wants {wanted}",
            hint="let another watcher have its files, in another folder",
        )


class WatchStopped(Stopped):
    """The watcher was asked to stop while a run was under way; what is committed stays."""

    def __init__(self, claim: Claim) -> None:
        self.replay_id = claim.replay_id
        super().__init__(
            f"stopped while {claim.shown} was under way as replay {claim.replay_id}",
            hint=f"playhead standby watch {claim.file.parent} goes on with it",
        )


@dataclass
class Watch:
    """One watcher of one folder; takes what it finds one by one, in the order of its coming."""

    folder: Path
    play: Callable[[Planned], Proof] = Planned.run
    say: Callable[[str], None] = lambda _: None
    tell: Callable[[Mapping[str, Any]], None] = lambda _: None
    """Is given the outcome of each file."""
    patience_s: float = 120.0
    """How long a server may be away before there is a plan; then the run has a patience of its own."""
    warm: bool = False
    """Start the engine while a run is planned."""
    is_stopping: bool = False
    failed: int = 0
    _handle: int = field(default=-1, init=False)
    _current: str | None = field(default=None, init=False)
    _engine: str | None = field(default=None, init=False)

    def stop(self) -> None:
        """Stop at the next slice boundary; may be called by a signal's handler."""
        self.is_stopping = True
        self.heed()

    def heed(self) -> None:
        """Called now and then while a run is under way: it may have begun after it was asked to stop."""
        if self.is_stopping and self._current is not None:
            History().ask_to_stop(self._current)

    def run(self, *, once: bool = False) -> None:
        """Take files as they come, until somebody stops us; `once` takes those that are there."""
        try:
            # A folder is not made here: it may be a disk that is not mounted. What is done in it is
            # done by this handle: whoever may write there may also put a link in the place of anything.
            with opened(self.folder) as self._handle:
                lock = _lock_file(os.fstat(self._handle))
                with file_lock.held(lock, lambda by: WatchedAlready(self.folder, by=by)):
                    for place in (DONE, FAILED):
                        with opened(self._handle, place, mode=_FOLDERS):
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
        """What an earlier watcher has left behind comes first."""
        self._expect_folder()
        for running in sorted(self.folder.glob(f"[!.]*{RUNNING}")):
            return Claim.found(running)
        for dropped in dropped_files(self.folder):
            name = standby_of(dropped.name.removesuffix(REQUEST), Standbys().names())
            claim = Claim.of(dropped, new_id(name or _NOBODY))
            with suppress(FileNotFoundError):  # whoever dropped it has taken it back
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
        """The outcome first: a file that is still here is taken up again, and comes to the same end."""
        place = DONE if outcome["outcome"] == PROVED else FAILED
        text = json.dumps(outcome, indent=2, default=str, ensure_ascii=False) + "\n"
        self._expect_folder()
        with opened(self._handle, place) as handle:
            # Whoever dropped the file may be another user, and is to read it.
            write_whole(Path(claim.outcome), text, mode=0o644, folder=handle)
            abort_point("standby.outcome_written")
            with suppress(FileNotFoundError):  # somebody took it away meanwhile; the outcome stays
                move(claim.file.name, claim.name, self._handle, handle)
        abort_point("standby.put_away")

    def _expect_folder(self) -> None:
        """In a folder that has gone there is nothing to find, and nobody would hear of it."""
        if not os.path.samestat(self.folder.stat(), os.fstat(self._handle)):
            raise OSError(errno.ESTALE, "another folder is in its place")

    def _outcome(self, claim: Claim) -> dict[str, Any]:
        """What became of it; nothing of one file's troubles reaches the next."""
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
        """The run, begun or gone on with; servers that are away are waited for."""
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
            self.say(f"{claim.shown}: going on with replay {claim.replay_id}")
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
        """The standby and the span that a file means."""
        standbys = Standbys()
        name = standby_of(claim.stem, standbys.names())
        if name is None:
            raise MeansNoStandby(claim.shown, known=standbys.names())
        words = self._settled(claim)
        return name, str(span_of(words, timezone=zone_of(standbys.get(name))))

    def _settled(self, claim: Claim) -> dict[str, str]:
        while True:
            try:
                return read_words(claim.file, claim.shown, folder=self._handle)
            except NotARequest:
                if abs(time.time() - claim.file.lstat().st_mtime) > _SETTLES_WITHIN_S:
                    raise
            self._sleep(_LOOK_EVERY_S)

    def _sleep(self, seconds: float) -> None:
        if sleep_unless(lambda: self.is_stopping, seconds):
            raise Stopped("stopped before anything was written")


def dropped_files(folder: Path) -> Iterator[Path]:
    """Those that nobody has taken yet, in the order in which they were written."""
    found = []
    for file in folder.glob(f"[!.]*{REQUEST}"):
        with suppress(FileNotFoundError):
            if not file.is_dir():
                found.append((file.lstat().st_mtime_ns, file))
    yield from (file for _, file in sorted(found))


def _lock_file(folder: os.stat_result) -> Path:
    """Outside the folder: whoever may write there could put a link in a lock's place."""
    return paths.state_dir() / "watched" / f"{folder.st_dev}-{folder.st_ino}.lock"


def _reason(exc: OSError) -> str:
    if exc.errno in (errno.ELOOP, errno.ENOTDIR):
        return f"{exc.filename} is to be a folder, and no link"
    return exc.strerror or str(exc)


def _trigger(claim: Claim) -> str:
    return f"file {claim.shown}"


def _triggered(claim: Claim) -> Triggered | None:
    """The run that this file has triggered already; a name can be given to a file by anybody."""
    found = History().trigger_of(claim.replay_id)
    if found is not None and found.trigger != _trigger(claim):
        raise NotItsRun(claim.replay_id, claim.shown)
    return found


def _proof_of(triggered: Triggered | None) -> dict[str, Any] | None:
    """The proof of a run that had come to its end when its watcher died."""
    found = triggered.run if triggered is not None else None
    return dict(found.proof) if found and found.proof and found.state == PROVED else None


def _plain(text: str | None) -> str | None:
    """What may be written into a file: no secret, and no half of a character."""
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
