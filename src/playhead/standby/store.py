"""Saved standbys: a replay without its span under a name, one file each in the user's configuration."""

import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from playhead.errors import PlayheadError, Refused, UsageError
from playhead.host import paths, private_files
from playhead.host.atomic_file import write_new, write_whole
from playhead.host.faults import abort_point
from playhead.request import Request

VERSION = 1
# A name begins the ids of its runs and the names of dropped files, so it has no dot and no slash.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,47}")
_FIELDS = ("name", "made_at_ms", "servers", "source_identity", "target_identity")


class BadName(UsageError):
    """A text that is not a valid standby name."""

    def __init__(self, found: str) -> None:
        self.found = found
        super().__init__(
            f"{found!r} cannot be a standby's name",
            hint="use letters, digits, - and _, at most 48, beginning with a letter or digit",
        )


class UnknownStandby(UsageError):
    """There is no standby of this name."""

    def __init__(self, found: str, *, known: list[str]) -> None:
        self.found, self.known = found, known
        near = get_close_matches(found, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "`playhead standby list` lists the standbys"
        super().__init__(f"there is no standby {found!r}", hint=hint)


class StandbyExists(Refused):
    """A standby of this name exists."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"standby {name} already exists",
            hint=f"replace it with --replace; `playhead standby show {name}` shows it",
        )


class StandbyUnreadable(PlayheadError):
    """A standby's file cannot be read, or has other content."""

    def __init__(self, name: str, file: Path, *, reason: str) -> None:
        self.name, self.file, self.reason = name, file, reason
        super().__init__(
            f"standby {name} cannot be read from {file}: {reason}",
            hint=f"correct the file, or save the standby again: playhead standby add {name} … --replace",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedStandby:
    """A replay without its span; contains no secrets."""

    name: str
    request: Request
    """Its span is not used."""
    servers: Mapping[str, str] = field(default_factory=dict)
    """How its servers are named: a context's name, addresses without passwords."""
    made_at_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    source_identity: str | None = None
    """The source's identity when it was made; None if it was not checked."""
    target_identity: str | None = None

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise BadName(self.name)

    def as_document(self) -> dict[str, Any]:
        request = self.request.as_document()
        del request["span"]
        own = {name: getattr(self, name) for name in _FIELDS}
        return {"version": VERSION, **own, "servers": dict(self.servers), "request": request}

    @classmethod
    def from_document(cls, document: Any) -> "SavedStandby":
        """Read the document of `as_document`."""
        if document["version"] != VERSION:
            raise ValueError(
                f"it is of version {document['version']!r}; this Playhead knows {VERSION}"
            )
        unknown = sorted(set(document) - {"version", "request", *_FIELDS})
        if unknown:
            raise ValueError(f"unknown {', '.join(unknown)}")
        if "span" in document["request"]:
            raise ValueError("its request has a span, but a standby must not have one")
        own = {name: document[name] for name in _FIELDS}
        _need_kinds(own)
        return cls(request=Request.from_document(document["request"]), **own)


def _need_kinds(own: Mapping[str, Any]) -> None:
    servers = own["servers"]
    if not isinstance(servers, dict) or not all(isinstance(each, str) for each in servers.values()):
        raise TypeError("servers: needed names with texts")
    if type(own["made_at_ms"]) is not int:
        raise TypeError(f"made_at_ms is {own['made_at_ms']!r}; needed: a number of milliseconds")
    for name in ("source_identity", "target_identity"):
        if not isinstance(own[name], str | None):
            raise TypeError(f"{name} is {own[name]!r}; needed: a text or null")


class Standbys:
    """All standbys of a user, one file each."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or paths.standby_dir()

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def add(self, standby: SavedStandby, *, replace: bool = False) -> None:
        """Save a standby; of two processes that add the same name at once, one is refused unless it replaces."""
        file = self.file(standby.name)
        text = json.dumps(standby.as_document(), indent=2, ensure_ascii=False) + "\n"
        try:
            private_files.folder(self.folder)
            (write_whole if replace else write_new)(file, text)
        except FileExistsError as exc:
            raise StandbyExists(standby.name) from exc
        except OSError as exc:
            raise PlayheadError(
                f"standby {standby.name} could not be saved to {file}: {exc.strerror}"
            ) from exc
        abort_point("standby.saved")

    def get(self, name: str) -> SavedStandby:
        if not NAME.fullmatch(name):  # Refuse a name that leads to another folder.
            raise UnknownStandby(name, known=self.names())
        file = self.file(name)
        try:
            found = SavedStandby.from_document(json.loads(file.read_text(encoding="utf-8")))
            if found.name != name:
                raise ValueError(f"it is of {found.name!r}")
        except FileNotFoundError as exc:
            raise UnknownStandby(name, known=self.names()) from exc
        except KeyError as exc:
            raise StandbyUnreadable(name, file, reason=f"it has no {exc}") from exc
        except (OSError, ValueError, TypeError, AttributeError, RecursionError, UsageError) as exc:
            raise StandbyUnreadable(name, file, reason=str(exc)) from exc
        return found

    def names(self) -> list[str]:
        with suppress(FileNotFoundError):
            found = (file.stem for file in self.folder.glob("*.json"))
            return sorted(name for name in found if NAME.fullmatch(name))
        return []

    def remove(self, name: str) -> None:
        """Remove a standby; the history of its runs stays."""
        if not NAME.fullmatch(name):
            raise UnknownStandby(name, known=self.names())
        try:
            self.file(name).unlink()
        except FileNotFoundError as exc:
            raise UnknownStandby(name, known=self.names()) from exc
