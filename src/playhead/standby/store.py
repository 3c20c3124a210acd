"""A replay without its span under a name, and the folder of the user's configuration that keeps them."""

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
# A name begins the ids of its runs and the names of dropped files, so neither a dot nor a slash is in it.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,47}")
_FIELDS = ("name", "made_at_ms", "servers", "source_identity", "target_identity")


class BadName(UsageError):
    """A text that cannot be a standby's name."""

    def __init__(self, found: str) -> None:
        self.found = found
        super().__init__(
            f"{found!r} cannot be a standby's name",
            hint="letters, digits, - and _, at most 48, and no - or _ at its beginning",
        )


class UnknownStandby(UsageError):
    """No standby has such a name."""

    def __init__(self, found: str, *, known: list[str]) -> None:
        self.found, self.known = found, known
        near = get_close_matches(found, known, n=1)
        hint = (
            f"did you mean {near[0]}?" if near else "`playhead standby list` shows those there are"
        )
        super().__init__(f"there is no standby {found!r}", hint=hint)


class StandbyExists(Refused):
    """The name is taken."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"standby {name} is there already",
            hint=f"--replace puts this one in its place; `playhead standby show {name}` shows it",
        )


class StandbyUnreadable(PlayheadError):
    """A standby's file that cannot be read, or holds something else."""

    def __init__(self, name: str, file: Path, *, reason: str) -> None:
        self.name, self.file, self.reason = name, file, reason
        super().__init__(
            f"standby {name} cannot be read from {file}: {reason}",
            hint=f"mend the file, or make it anew: playhead standby add {name} … --replace",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedStandby:
    """A replay that waits for its span; nothing secret is in it."""

    name: str
    request: Request
    """Its span says nothing."""
    servers: Mapping[str, str] = field(default_factory=dict)
    """How its servers are named: a context by its name, addresses without passwords."""
    made_at_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    source_identity: str | None = None
    """What was found at the source's address when it was made; None when nobody looked."""
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
        """What `as_document` gave."""
        if document["version"] != VERSION:
            raise ValueError(
                f"it is of version {document['version']!r}, and this Playhead knows {VERSION}"
            )
        unknown = sorted(set(document) - {"version", "request", *_FIELDS})
        if unknown:
            raise ValueError(f"unknown {', '.join(unknown)}")
        if "span" in document["request"]:
            raise ValueError("its request has a span, and a standby waits for one")
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
    """All of a user's, a file for each."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or paths.standby_dir()

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def add(self, standby: SavedStandby, *, replace: bool = False) -> None:
        """Of two who add the same name at once one is refused, unless it wants to replace."""
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
        if not NAME.fullmatch(name):  # and no name that leads to another folder
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
        """What it has run stays in its history."""
        if not NAME.fullmatch(name):
            raise UnknownStandby(name, known=self.names())
        try:
            self.file(name).unlink()
        except FileNotFoundError as exc:
            raise UnknownStandby(name, known=self.names()) from exc
