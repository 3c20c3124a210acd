"""Decodes the fields of Kafka's protocol from bytes of others, and refuses bytes that do not fit."""

import math
import struct
import time
from typing import Final

from playhead.errors import Unavailable

_MOST_TAGS: Final = 1_000
"""The protocol has a handful; millions of them would take seconds."""


class BadAnswer(Unavailable):
    """Bytes that a broker sent do not have the form of the protocol."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"the broker sent an answer that cannot be read: {reason}",
            hint="check that the address is a Kafka broker, and what is between it and this machine",
        )


class Fields:
    """Decodes fields, one after the other; BadAnswer for what does not fit.

    TimeoutError from the time `until` on: millions of empty items take longer to decode than to send.
    """

    def __init__(self, data: bytes, *, until: float = math.inf) -> None:
        self._data, self._at, self._until = data, 0, until

    def int16(self) -> int:
        return self._take(">h")

    def int32(self) -> int:
        return self._take(">i")

    def int64(self) -> int:
        return self._take(">q")

    def is_true(self) -> bool:
        return self._take(">b") != 0

    def text(self) -> str:
        return self._decoded(self._size(self.int16()))

    def bytes_(self) -> bytes:
        return self._cut(self._size(self.int32()))

    def length(self, *, least: int = 1) -> int:
        """Return how many items follow, of `least` bytes or more each; 0 for a null array."""
        return self._fitting(self._size(self.int32()), least)

    def count(self, *, least: int = 1) -> int:
        """Return the same in the flexible form."""
        return self._fitting(max(0, self.unsigned() - 1), least)

    def compact_text(self) -> str:
        return self._decoded(self.count())

    def compact_bytes(self) -> bytes:
        return self._cut(self.count())

    def skip_tags(self) -> None:
        """Skip what later versions add to the fields."""
        tags = self.unsigned()
        if tags > _MOST_TAGS:
            raise BadAnswer(f"{tags:,} tagged fields, needed at most {_MOST_TAGS:,}")
        for _ in range(tags):
            self.unsigned()
            self._cut(self.unsigned())

    def unsigned(self) -> int:
        """Read a number of 32 bits, seven of them in a byte."""
        return self._varint(32)

    def skip_signed(self, *, bits: int = 32) -> None:
        self._varint(bits)

    def _take(self, form: str) -> int:
        if time.monotonic() > self._until:
            raise TimeoutError(
                f"only {self._at:,} of {len(self._data):,} bytes were decoded in time"
            )
        (value,) = struct.unpack(form, self._cut(struct.calcsize(form)))
        return int(value)

    def _varint(self, bits: int) -> int:
        # A number without an end would take the square of its length.
        value = 0
        for shift in range(0, bits, 7):
            byte = self._take(">B")
            value |= (byte & 0x7F) << shift
            if byte < 0x80 and not value >> bits:
                return value
        raise BadAnswer(f"a number of more than {bits} bits")

    def _size(self, size: int) -> int:
        """Return a length; -1 stands for null."""
        if size < -1:
            raise BadAnswer(f"a length of {size:,}")
        return max(0, size)

    def _fitting(self, items: int, least: int) -> int:
        left = len(self._data) - self._at
        if items * least > left:
            raise BadAnswer(f"{items:,} items, where {left:,} bytes are left")
        return items

    def _decoded(self, size: int) -> str:
        try:
            return self._cut(size).decode()
        except UnicodeDecodeError as exc:
            raise BadAnswer("a text that is not UTF-8") from exc

    def _cut(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise BadAnswer(f"it ends {end - len(self._data):,} bytes early")
        found, self._at = self._data[self._at : end], end
        return found
