"""Which rows of a log were written before a statement began, by the times of the rows."""

from collections import deque
from dataclasses import dataclass
from typing import Final

from playhead.querylog.statement import Statement

_LONG_US: Final = 100_000
_MOST: Final = 1_000
_HELD_UP_US: Final = 500_000
"""How long a busy server may take between the end of a statement and the writing of its row."""


@dataclass(slots=True)
class _Stretch:
    """Some rows that follow each other."""

    began_us: int
    written_us: int
    place: int
    """The last of them."""


class RowTimes:
    """The times of the last rows, in the order of the log."""

    def __init__(self) -> None:
        self._stretches: deque[_Stretch] = deque(maxlen=_MOST)

    def row_before(self, statement: Statement) -> int:
        """Return a row that was certainly written before a statement began, and note its own; -1 for none."""
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
