"""Adds up what a comparison of source and target finds: checksums that ignore the order."""

import hashlib
from typing import Any

SHOWN = 20
"""How many differences of a slice are told one by one."""
_DIGEST_BYTES = 8


def digest_of(content: Any) -> int:
    """Return a number for one row or record; the sum of all is a checksum that does not depend on their order."""
    text = repr(content).encode("utf-8", "backslashreplace")
    return int.from_bytes(hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest())


def sum_text(total: int) -> str:
    """Return a sum of digests as text."""
    return f"{total % (1 << 8 * _DIGEST_BYTES):0{2 * _DIGEST_BYTES}x}"
