"""Keeps what was found out about texts, but not the large ones: thousands of a megabyte would fill the memory."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, Final, TypeVar, cast

MOST_LETTERS: Final = 8 << 10
F = TypeVar("F", bound=Callable[..., Any])


def cached_if_short(kept: int) -> Callable[[F], F]:
    """Return a decorator that keeps the results for `kept` texts of at most `MOST_LETTERS`."""

    def decorated(function: F) -> F:
        cached = lru_cache(maxsize=kept)(function)

        @wraps(function)
        def call(text: str, **named: Any) -> Any:
            found = function if len(text) > MOST_LETTERS else cached
            return found(text, **named)

        call.cache_info, call.cache_clear = cached.cache_info, cached.cache_clear  # type: ignore[attr-defined]
        return cast("F", call)

    return decorated
