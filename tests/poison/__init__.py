"""Walks the kept poison: names, values, whole records and files of which each once did harm somewhere.

The data are JSON beside this module; README.md says what is in them and how a long one is written short.
"""

import base64
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playhead.record import Headers

# One word of a command line; the kernel takes no more.
_LONGEST_ARGUMENT = 128 * 1024
_USUAL_MS = 1_700_000_000_000
_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class PoisonName:
    """A text that may come as the name of a topic, group, field, header, column, file or option."""

    label: str
    text: str

    @property
    def can_be_argument(self) -> bool:
        """Whether a process can be given it: no NUL, and nothing that has no bytes in any way."""
        try:
            return b"\0" not in os.fsencode(self.text) and len(self.text) < _LONGEST_ARGUMENT
        except UnicodeEncodeError:
            return False


@dataclass(frozen=True, slots=True)
class PoisonRecord:
    """A record as a producer might send it; one without headers and key is a poison value."""

    label: str
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int = _USUAL_MS


@dataclass(frozen=True, slots=True)
class PoisonFile:
    """A file that somebody else wrote; `kind` says which command would read it."""

    label: str
    kind: str
    name: str
    content: bytes


def names() -> Iterator[PoisonName]:
    for each in _read("names.json"):
        yield PoisonName(each["label"], _text(each["text"]))


def records() -> Iterator[PoisonRecord]:
    """Every poison value as a record of its own, then those whose poison is elsewhere."""
    for each in _read("values.json"):
        yield PoisonRecord(each["label"], _bytes(each["value"]))
    for each in _read("records.json"):
        yield PoisonRecord(
            each["label"],
            _bytes(each.get("value")),
            _bytes(each.get("key")),
            tuple((_text(name), _bytes(held)) for name, held in each.get("headers", ())),
            each.get("timestamp_ms", _USUAL_MS),
        )


def files() -> Iterator[PoisonFile]:
    for each in _read("files.json"):
        content = _bytes(each["content"]) or b""
        yield PoisonFile(each["label"], each["kind"], each["name"], content)


def _read(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((_FOLDER / name).read_text(encoding="utf-8"))
    return found


def _text(written: Any) -> str:
    """A text, or a list of texts and of [text, times]."""
    if isinstance(written, str):
        return written
    return "".join(each if isinstance(each, str) else each[0] * each[1] for each in written)


def _bytes(written: Any) -> bytes | None:
    if written is None:
        return None
    if isinstance(written, dict):
        return base64.b64decode(written["base64"])
    return _text(written).encode("utf-8", "surrogatepass")
