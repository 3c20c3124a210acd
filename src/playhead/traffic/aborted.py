"""Tells whether a record batch has control records, was aborted, or has the broker's timestamp."""

import base64
import re
from binascii import Error as NotBase64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from playhead.traffic.json_numbers import UnknownShape, number, one_of

_LOG_APPEND_BIT, _TRANSACTIONAL_BIT, _CONTROL_BIT = 8, 16, 32
_LOG_APPEND = re.compile(r"LOG_APPEND", re.ASCII)
_TRANSACTIONAL = re.compile(r"(?<!NO_)(?<!NOT_)(?<!NON_)TRANSACTIONAL", re.ASCII)
_CONTROL = re.compile(r"(?<!NO_)(?<!NOT_)(?<!NON_)CONTROL", re.ASCII)
# The key of a control record is a version and a type, two bytes each; type 0 is an abort.
_ABORT_KIND: Final = b"\x00\x00"

Set = Mapping[str, Any]


def is_control(set_: Set) -> bool:
    """Return whether it contains control records and no data records."""
    if set_.get("isControlBatch") is True or set_.get("isControl") is True:
        return True
    return _has(set_, _CONTROL_BIT, _CONTROL)


def sets_own_time(set_: Set) -> bool:
    """Return whether the broker set one timestamp for all its records (LogAppendTime)."""
    return _has(set_, _LOG_APPEND_BIT, _LOG_APPEND)


def _has(set_: Set, bit: int, name: re.Pattern[str]) -> bool:
    found = set_.get("attributes")
    if type(found) is int:
        return bool(found & bit)
    words = found if isinstance(found, list) else [found]
    return any(isinstance(each, str) and name.search(each) for each in words)


@dataclass(slots=True)
class Aborted:
    """Finds the aborted batches of one fetched partition, as a Kafka consumer with read_committed does."""

    _coming: list[tuple[int, int]] = field(default_factory=list)
    """First offset and producer id of aborted transactions ahead of the position; the next one is the last element."""
    _open: set[int] = field(default_factory=set)

    def learn(self, told: Any) -> None:
        """Add the aborted transactions of a Fetch response; raises `UnknownShape`."""
        if told is None:
            return
        if not isinstance(told, list) or not all(isinstance(each, dict) for each in told):
            raise UnknownShape("aborted transactions are not a list of objects")
        found = [(number(e.get("firstOffset")), number(e.get("producerId"))) for e in told]
        self._coming = sorted([*self._coming, *found], reverse=True)

    def covers(self, set_: Set, rows: Sequence[Any], base: int) -> bool:
        """Return whether the records of the next batch were aborted."""
        if not self._coming and not self._open:
            return False
        last = base + max(number(set_.get("lastOffsetDelta")), len(rows) - 1)
        while self._coming and self._coming[-1][0] <= last:
            self._open.add(self._coming.pop()[1])
        producer = number(set_.get("producerId"))
        if is_control(set_):
            if any(map(_is_abort, rows)):
                self._open.discard(producer)
            return False
        return producer in self._open and _has(set_, _TRANSACTIONAL_BIT, _TRANSACTIONAL)


def _is_abort(marker: Any) -> bool:
    if not isinstance(marker, dict):
        return False
    if "controlType" in marker:
        return marker["controlType"] in ("ABORT", 0)
    key = one_of(marker, ("key", "keyBase64", "keyBytes"))
    try:
        if isinstance(key, str):
            return base64.b64decode(key, validate=True)[2:4] == _ABORT_KIND
    except (NotBase64, ValueError):
        return False
    # A key of zero bytes is valid text too.
    return str(marker.get("keyString", "")).encode()[2:4] == _ABORT_KIND
