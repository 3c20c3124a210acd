"""The shape of an SQL text: the text without the values of its literals, equal for all calls of a query.

Most statements of a log differ in values only. What is found out about one of them holds for all texts of its shape,
so it is found out once. Texts in which a value can change the meaning have no shape.
"""

import re
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, Final, Generic, TypeVar, cast

_BEGINS: Final = frozenset(("select", "insert", "update", "delete"))
_ODD: Final = (
    # Escapes, comments, names of another form; functions that run their text, or set what it names.
    "\\", "\0", "--", "/*", "u&", "playhead_ledger", "set_config", "_to_xml", "ts_stat", "ts_rewrite", "crosstab",
    "xpath_table", "connectby",
)  # fmt: skip
_BODY: Final = re.compile(r"\$(?![0-9])")
_VALUES: Final = re.compile(
    r"""("[^"]*")|('[^']*')|(?<![\w.$\u0080-\U0010ffff])[0-9]+(?:\.[0-9]+)?(?![\w.\u0080-\U0010ffff])"""
)
_MOST_KEPT: Final = 4_096
_MOST_LETTERS_KEPT: Final = 8 << 20
"""Of all texts in one cache: a log's author decides how long its texts are."""
T = TypeVar("T")

MOST_LETTERS: Final = 8 << 10
F = TypeVar("F", bound=Callable[..., Any])


def cached_if_short(kept: int) -> Callable[[F], F]:
    """Return a decorator that keeps the results for `kept` texts of at most `MOST_LETTERS`, and for fewer long ones."""

    def decorated(function: F) -> F:
        letters = 0

        def found_out(text: str, **named: Any) -> Any:
            nonlocal letters
            letters += len(text)
            if letters > _MOST_LETTERS_KEPT:
                cached.cache_clear()
                letters = len(text)
            return function(text, **named)

        cached = lru_cache(maxsize=kept)(found_out)

        @wraps(function)
        def call(text: str, **named: Any) -> Any:
            found = function if len(text) > MOST_LETTERS else cached
            return found(text, **named)

        call.cache_info, call.cache_clear = cached.cache_info, cached.cache_clear  # type: ignore[attr-defined]
        return cast("F", call)

    return decorated


# A statement is returned with the next row of its session, so the texts of all open sessions are asked for again.
@cached_if_short(256)
def shape_of(text: str) -> str | None:
    """Return the shape of a single query, INSERT, UPDATE or DELETE; None if its values may matter."""
    if len(text) > MOST_LETTERS or text[:6].lower() not in _BEGINS or _is_odd(text):
        return None
    shape = _VALUES.sub(_without_value, text)
    has_several = ";" in shape[:-1]
    return None if has_several else shape


def _is_odd(text: str) -> bool:
    lower = text.lower()
    # A loop over the words is quicker than a pattern of all of them, which is tried at every letter.
    for each in _ODD:
        if each in lower:
            return True
    return "$" in text and _BODY.search(text) is not None


def _without_value(found: "re.Match[str]") -> str:
    return found[1] or ("''" if found[2] else "0")


class ByShape(Generic[T]):
    """Keeps what was found out, by shape."""

    def __init__(self) -> None:
        self._kept: dict[str, T] = {}
        self._letters = 0

    def get(self, text: str) -> T | None:
        shape = shape_of(text)
        return None if shape is None else self._kept.get(shape)

    def keep(self, text: str, found: T) -> None:
        shape = shape_of(text)
        if shape is None:
            return
        self._letters += len(text)
        if len(self._kept) >= _MOST_KEPT or self._letters > _MOST_LETTERS_KEPT:
            self._kept.clear()
            self._letters = len(text)
        self._kept[shape] = found
