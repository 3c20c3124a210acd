"""Makes a failing schedule smaller: fewer records, fewer faults, simpler choices."""

from collections.abc import Callable, Sequence

Fails = Callable[[Sequence[int]], bool]


class _Tries:
    """What still fails, and how many more tries there are."""

    def __init__(self, choices: Sequence[int], fails: Fails, most: int) -> None:
        self.best, self._fails, self.left = list(choices), fails, most

    def take(self, candidate: list[int]) -> bool:
        if self.left <= 0 or candidate == self.best:
            return False
        self.left -= 1
        if not self._fails(candidate):
            return False
        self.best = candidate
        return True


def shrunk(choices: Sequence[int], fails: Fails, most: int = 3_000) -> list[int]:
    """The smallest list of choices found that fails as well."""
    tries = _Tries(choices, fails, most)
    _cut_the_end(tries)
    before: list[int] = []
    while tries.left > 0 and tries.best != before:
        before = list(tries.best)
        for size in (64, 16, 8, 4, 2, 1):
            _without_blocks(tries, size)
            _with_zeros(tries, size)
        _lower(tries)
    while tries.best and tries.best[-1] == 0:
        tries.best.pop()
    return tries.best


def _cut_the_end(tries: _Tries) -> None:
    low, high = 0, len(tries.best)
    while low < high and tries.left > 0:
        middle = (low + high) // 2
        if tries.take(tries.best[:middle]):
            high = middle
        else:
            low = middle + 1


def _without_blocks(tries: _Tries, size: int) -> None:
    at = len(tries.best) - size
    while at >= 0 and tries.left > 0:
        tries.take(tries.best[:at] + tries.best[at + size :])
        at -= size


def _with_zeros(tries: _Tries, size: int) -> None:
    at = 0
    while at < len(tries.best) and tries.left > 0:
        block = tries.best[at : at + size]
        if any(block):
            tries.take(tries.best[:at] + [0] * len(block) + tries.best[at + size :])
        at += size


def _lower(tries: _Tries) -> None:
    for at in range(len(tries.best)):
        if tries.left <= 0:
            return
        if at < len(tries.best) and tries.best[at] > 1:
            for lower in (1, tries.best[at] - 1):
                if tries.take([*tries.best[:at], lower, *tries.best[at + 1 :]]):
                    break
