"""Every decision of a schedule, drawn from one seed or read back from a list; 0 is the simplest of each."""

import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Choices:
    """Draws numbers below a bound and remembers them, so that a schedule can be played again and shrunk."""

    def __init__(self, seed: int | str | None = None, given: Sequence[int] | None = None) -> None:
        self._draw = random.Random(seed).random if given is None else None
        self._given = list(given or ())
        self.taken: list[int] = []

    def below(self, bound: int) -> int:
        """A number in `[0, bound)`; past the end of a given list it is always 0."""
        if bound <= 1:
            return 0
        if self._draw is not None:
            found = int(self._draw() * bound)
        else:
            at = len(self.taken)
            found = min(self._given[at], bound - 1) if at < len(self._given) else 0
        self.taken.append(found)
        return found

    def happens(self, one_in: int) -> bool:
        """Whether something happens that does so once in so many times; of 0 it never does, nothing is drawn."""
        if one_in <= 0:
            return False
        if self._draw is None:
            return self.below(one_in + 1) == 1
        found = int(self._draw() * (one_in + 1))
        self.taken.append(found)
        return found == 1

    def pick(self, items: Sequence[Item]) -> Item:
        """One of them; the first is the simplest."""
        return items[self.below(len(items))]
