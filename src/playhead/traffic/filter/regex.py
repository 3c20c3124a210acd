"""Matches regular expressions in linear time, with Arrow's RE2."""

from functools import lru_cache
from typing import Any

from playhead.errors import MissingPiece

_LONGEST = 4_096
_REMEMBERED, _LONGEST_REMEMBERED = 100_000, 200
"""Texts, and letters of each: a capture has many long texts that are all different."""


class BadPattern(ValueError):
    """A pattern that RE2 does not accept; the text has the reason."""


class Pattern:
    """Searches texts for a pattern; results for short texts are cached, because traffic repeats them."""

    def __init__(self, written: str) -> None:
        self.written = written
        if len(written) > _LONGEST:
            raise BadPattern(
                f"it has {len(written):,} characters; at most {_LONGEST:,} are allowed"
            )
        self._look("")
        self._remembered = lru_cache(maxsize=_REMEMBERED)(self._look)

    def found_in(self, text: str) -> bool:
        """Return whether the text contains the pattern."""
        return (self._remembered if len(text) <= _LONGEST_REMEMBERED else self._look)(text)

    def fits(self, held: bytes) -> bool:
        """Return whether the bytes contain the pattern; invalid UTF-8 is replaced first."""
        return self._look(held.decode("utf-8", "replace"))

    def _look(self, text: str) -> bool:
        try:
            import pyarrow as pa
            import pyarrow.compute as pc
        except ImportError as exc:
            hint = "pip install 'playhead[local]'"
            raise MissingPiece("pyarrow", needed_for="a regular expression", hint=hint) from exc
        try:
            texts = pa.array([text.encode("utf-8", "replace")], pa.string())
            found: Any = pc.match_substring_regex(texts, pattern=self.written)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
            reason = str(exc).rpartition("Invalid regular expression: ")[2]
            raise BadPattern(reason) from exc
        return bool(found[0].as_py())
