"""Files that trigger a run: which standby their name means, which span they say, and where they go."""

import errno
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playhead.errors import BadValue, UnknownKey, UsageError
from playhead.host.folders import open_plain
from playhead.span import Span

REQUEST, RUNNING, OUTCOME = ".json", ".running", ".outcome.json"
DONE, FAILED = "done", "failed"
WORDS = ("from", "to", "for", "last", "offsets", "span")
_LARGEST_BYTES = 65_536
# A file's name has 255 bytes, and an id and an ending come behind this.
_LONGEST_STEM_BYTES = 150


class NotARequest(UsageError):
    """A dropped file that says no span."""

    def __init__(self, file: str, *, reason: str) -> None:
        self.file, self.reason = file, reason
        super().__init__(
            f"{file}: {reason}",
            hint='needed such as {"from": "2021-08-04T12:30", "to": "13:30"} or {"last": "2h"}',
        )


class MeansNoStandby(UsageError):
    """A dropped file whose name begins with no standby's."""

    def __init__(self, file: str, *, known: Sequence[str]) -> None:
        self.file, self.known = file, tuple(known)
        there = f"standbys are {', '.join(known)}" if known else "there is none yet"
        super().__init__(
            f"{file} means no standby: its name is to be NAME.json or NAME-anything.json",
            hint=f"{there}; `playhead standby add` makes one",
        )


@dataclass(frozen=True, slots=True)
class Claim:
    """A dropped file that a watcher has taken: its name says which run it is, so one rename is enough."""

    file: Path
    stem: str
    """What it was called, without its ending."""
    replay_id: str

    @classmethod
    def of(cls, dropped: Path, replay_id: str) -> "Claim":
        stem = _shortened(dropped.name.removesuffix(REQUEST))
        return cls(dropped.with_name(f"{stem}.{replay_id}{RUNNING}"), stem, replay_id)

    @classmethod
    def found(cls, running: Path) -> "Claim":
        """One that an earlier watcher has left behind."""
        stem, _, replay_id = running.name.removesuffix(RUNNING).rpartition(".")
        return cls(running, stem or replay_id, replay_id)

    @property
    def shown(self) -> str:
        """The dropped file's name, in characters that everybody can write."""
        return os.fsencode(f"{self.stem}{REQUEST}").decode("utf-8", "replace")

    @property
    def name(self) -> str:
        """What the file is called where it ends up."""
        return f"{self.stem}.{self.replay_id}{REQUEST}"

    @property
    def outcome(self) -> str:
        """The name of what came of it."""
        return f"{self.stem}.{self.replay_id}{OUTCOME}"


def _shortened(stem: str) -> str:
    return os.fsdecode(os.fsencode(stem)[:_LONGEST_STEM_BYTES])


def standby_of(stem: str, names: Sequence[str]) -> str | None:
    """The standby that a file means: the longest name that it is, or that it begins with before a `-`."""
    fitting = [name for name in names if stem == name or stem.startswith(f"{name}-")]
    return max(fitting, key=len, default=None)


def read_words(file: Path, shown: str, *, folder: int | None = None) -> dict[str, str]:
    """What a dropped file says, by the words of a span's options; `folder` is a handle on where it lies."""
    try:
        content = _content(file if folder is None else file.name, shown, folder)
        found = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as exc:
        raise NotARequest(shown, reason=f"it is no JSON: {exc}") from exc
    if isinstance(found, str):
        found = {"span": found}
    if not isinstance(found, dict):
        raise NotARequest(shown, reason="it is JSON, but no object")
    return {name: _text(name, value, shown) for name, value in found.items() if value is not None}


def _content(file: Path | str, shown: str, folder: int | None) -> bytes:
    """Of a file and nothing else: a pipe would keep us waiting, a link lead somewhere else."""
    try:
        with os.fdopen(open_plain(file, os.O_RDONLY, folder=folder), "rb") as opened:
            if os.fstat(opened.fileno()).st_nlink > 1:
                raise NotARequest(shown, reason="it has a second name (a hard link)")
            content = opened.read(_LARGEST_BYTES + 1)
    except OSError as exc:
        odd = exc.errno in (errno.ELOOP, errno.EINVAL, errno.ENXIO)
        reason = "it is no plain file" if odd else exc.strerror or str(exc)
        raise NotARequest(shown, reason=reason) from exc
    if len(content) > _LARGEST_BYTES:
        raise NotARequest(shown, reason=f"it has over {_LARGEST_BYTES:,} bytes")
    return content


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in it")
    return found


def _text(name: str, value: object, shown: str) -> str:
    if name not in WORDS:
        raise UnknownKey(name, where=shown, known=WORDS)
    if isinstance(value, str):
        return value
    if type(value) is int:  # of an epoch
        return str(value)
    raise BadValue(name, found=value, needed="a text, or a number of an epoch", where=shown)


def span_of(words: Mapping[str, str | None], *, timezone: str) -> Span:
    """The span that somebody said; nothing said is no span: a standby does not run by itself."""
    said = {name: text for name, text in words.items() if text is not None}
    if not said:
        raise UsageError(
            "a standby is triggered with a span, and none was said",
            hint="from and to, last, or offsets; all there is: from start",
        )
    if "span" in said:
        if len(said) > 1:
            raise UsageError("span says all by itself, and other words stand beside it")
        return Span.parse(said["span"], timezone=timezone)
    options = ("from", "to", "for", "last", "offsets")
    return Span.of(*(said.get(name) for name in options), timezone=timezone)
