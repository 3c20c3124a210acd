"""Files that trigger a run: the standby of their name, the span of their content, and where they are moved."""

import errno
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playhead.errors import BadValue, UnknownKey, UsageError
from playhead.host.folders import open_plain
from playhead.plan import REPLAY_ID
from playhead.span import Span

REQUEST, RUNNING, OUTCOME = ".json", ".running", ".outcome.json"
DONE, FAILED = "done", "failed"
WORDS = ("from", "to", "for", "last", "offsets", "span")
_LARGEST_BYTES = 65_536
# A file name has 255 bytes at most, and an id and an ending are added.
_LONGEST_STEM_BYTES = 150


class NotARequest(UsageError):
    """A dropped file that does not contain a span."""

    def __init__(self, file: str, *, reason: str) -> None:
        self.file, self.reason = file, reason
        super().__init__(
            f"{file}: {reason}",
            hint='write for example {"from": "2021-08-04T12:30", "to": "13:30"} or {"last": "2h"}',
        )


class MeansNoStandby(UsageError):
    """A dropped file whose name does not begin with a standby's."""

    def __init__(self, file: str, *, known: Sequence[str]) -> None:
        self.file, self.known = file, tuple(known)
        there = f"standbys are {', '.join(known)}" if known else "there are no standbys yet"
        super().__init__(
            f"{file} matches no standby: the name must be NAME.json or NAME-anything.json",
            hint=f"{there}; add one with `playhead standby add`",
        )


@dataclass(frozen=True, slots=True)
class Claim:
    """A dropped file that a watcher has taken: its new name contains the run's id, so one rename is enough."""

    file: Path
    stem: str
    """The original name without its ending."""
    replay_id: str

    @classmethod
    def of(cls, dropped: Path, replay_id: str) -> "Claim":
        stem = _shortened(dropped.name.removesuffix(REQUEST))
        return cls(dropped.with_name(f"{stem}.{replay_id}{RUNNING}"), stem, replay_id)

    @classmethod
    def found(cls, running: Path) -> "Claim | None":
        """Return the claim of a file that an earlier watcher left; None for a name that no watcher makes.

        Everyone who can write in the folder can choose such a name: it may leave no room for the outcome's, or be
        the name of another file's outcome in the end.
        """
        stem, _, replay_id = running.name.removesuffix(RUNNING).rpartition(".")
        stem = stem or replay_id
        is_outcome = f".{replay_id}{REQUEST}" == OUTCOME
        if is_outcome or REPLAY_ID.fullmatch(replay_id) is None or stem != _shortened(stem):
            return None
        return cls(running, stem, replay_id)

    @property
    def shown(self) -> str:
        """The dropped file's name, in characters that are safe in any file."""
        return os.fsencode(f"{self.stem}{REQUEST}").decode("utf-8", "replace")

    @property
    def name(self) -> str:
        """The file's name at the end."""
        return f"{self.stem}.{self.replay_id}{REQUEST}"

    @property
    def outcome(self) -> str:
        """The name of the outcome file."""
        return f"{self.stem}.{self.replay_id}{OUTCOME}"


def _shortened(stem: str) -> str:
    return os.fsdecode(os.fsencode(stem)[:_LONGEST_STEM_BYTES])


def standby_of(stem: str, names: Sequence[str]) -> str | None:
    """Return the standby of a file: the longest name that it is, or that it begins with before a `-`."""
    fitting = [name for name in names if stem == name or stem.startswith(f"{name}-")]
    return max(fitting, key=len, default=None)


def read_words(file: Path, shown: str, *, folder: int | None = None) -> dict[str, str]:
    """Return the span options in a dropped file; `folder` is a handle on its folder."""
    try:
        content = _content(file if folder is None else file.name, shown, folder)
        found = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as exc:
        raise NotARequest(shown, reason=f"it is not JSON: {exc}") from exc
    if isinstance(found, str):
        found = {"span": found}
    if not isinstance(found, dict):
        raise NotARequest(shown, reason="it is JSON, but not an object")
    return {name: _text(name, value, shown) for name, value in found.items() if value is not None}


def _content(file: Path | str, shown: str, folder: int | None) -> bytes:
    """Return the content of a regular file only: a pipe would block, and a link lead elsewhere."""
    try:
        with os.fdopen(open_plain(file, os.O_RDONLY, folder=folder), "rb") as opened:
            if os.fstat(opened.fileno()).st_nlink > 1:
                raise NotARequest(shown, reason="it has a second name (a hard link)")
            content = opened.read(_LARGEST_BYTES + 1)
    except OSError as exc:
        odd = exc.errno in (errno.ELOOP, errno.EINVAL, errno.ENXIO)
        reason = "it is not a regular file" if odd else exc.strerror or str(exc)
        raise NotARequest(shown, reason=reason) from exc
    if len(content) > _LARGEST_BYTES:
        raise NotARequest(shown, reason=f"it has more than {_LARGEST_BYTES:,} bytes")
    return content


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice in it")
    return found


def _text(name: str, value: object, shown: str) -> str:
    if name not in WORDS:
        raise UnknownKey(name, where=shown, known=WORDS)
    if isinstance(value, str):
        return value
    if type(value) is int:  # Seconds, milliseconds and so on since 1970.
        return str(value)
    raise BadValue(name, found=value, needed="a text, or a number since 1970", where=shown)


def span_of(words: Mapping[str, str | None], *, timezone: str) -> Span:
    """Return the span of the options; refuse none, because a standby does not run by itself."""
    said = {name: text for name, text in words.items() if text is not None}
    if not said:
        raise UsageError(
            "a standby needs a span, and none was given",
            hint="give from and to, last, or offsets; for the whole log: from start",
        )
    if "span" in said:
        if len(said) > 1:
            raise UsageError("span is complete, but other options stand beside it")
        return Span.parse(said["span"], timezone=timezone)
    options = ("from", "to", "for", "last", "offsets")
    return Span.of(*(said.get(name) for name in options), timezone=timezone)
