"""Finds the rows of a log that were written before a statement began, by the times of the rows."""

from collections import deque
from dataclasses import dataclass
from typing import Final

from playhead.querylog.statement import Statement

_LONG_US: Final = 100_000
_MOST: Final = 1_000
_HELD_UP_US: Final = 500_000
"""Longest time between the end of a statement and the writing of its row on a busy server."""


@dataclass(slots=True)
class _Stretch:
    """Some adjacent rows."""

    began_us: int
    written_us: int
    place: int
    """The place of the last one."""


class RowTimes:
    """The times of the last rows, in the order of the log."""

    def __init__(self) -> None:
        self._stretches: deque[_Stretch] = deque(maxlen=_MOST)

    def row_before(self, statement: Statement) -> int:
        """Return a row that was certainly written before a statement began, -1 for none; add the statement's row."""
        if statement.duration_us is None or statement.done_place != statement.place:
            return -1
        found = -1
        for each in reversed(self._stretches):
            if each.written_us + _HELD_UP_US < statement.due_us:
                found = each.place
                break
        self._note(statement.due_us + statement.duration_us, statement.place)
        return found

    def _note(self, written_us: int, place: int) -> None:
        last = self._stretches[-1] if self._stretches else None
        if last is not None and written_us < last.began_us - _HELD_UP_US:
            self._stretches.clear()  # The clock was set back.
        elif last is not None and written_us < last.began_us + _LONG_US:
            last.written_us, last.place = max(last.written_us, written_us), place
            return
        self._stretches.append(_Stretch(written_us, written_us, place))
