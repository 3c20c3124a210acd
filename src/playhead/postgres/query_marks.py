"""Marks: the rows which say, in the transaction of a statement, that the statement was played."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from playhead.errors import PlayheadError
from playhead.postgres.session import TableName

MARKS: Final = TableName("playhead_ledger", "marks")
TABLE_OF_MARKS: Final = """
CREATE TABLE IF NOT EXISTS {table} (
    run text NOT NULL,
    session text NOT NULL,
    line bigint NOT NULL,
    is_before boolean NOT NULL,
    divergent text
)
"""


class MarksRefused(PlayheadError):
    """A session of the log cannot write its marks, so a resume could play its statements twice."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"a mark cannot be written into {MARKS}: {reason}",
            hint=f"GRANT INSERT ON {MARKS} TO PUBLIC; GRANT USAGE ON SCHEMA {MARKS.schema} TO PUBLIC; or "
            "--no-marks, without which a killed run cannot be resumed",
        )


@dataclass(frozen=True, slots=True)
class Marks:
    """Writes that a statement was played into the transaction that plays it."""

    run: str

    def text(
        self,
        session: str,
        line: int,
        *,
        before: bool = False,
        divergent: Mapping[int, int] | None = None,
    ) -> str:
        named = ",".join(f"{at}:{int(outcome)}" for at, outcome in (divergent or {}).items())
        values = f"{line}, {str(before).lower()}, {_quoted(named) if named else 'NULL'}"
        return (
            f"INSERT INTO {MARKS} (run, session, line, is_before, divergent) VALUES "  # noqa: S608
            f"({_quoted(self.run)}, {_quoted(session)}, {values})"
        )

    def lock(self) -> str:
        return f"SELECT pg_catalog.pg_advisory_lock_shared({self.key()})"

    def key(self) -> str:
        """Return the key of that lock, in SQL."""
        return f"pg_catalog.hashtextextended({_quoted('playhead queries ' + self.run)}, 0)"

    def refused(self, reason: str) -> PlayheadError:
        return MarksRefused(reason)


def _quoted(text: str) -> str:
    # Without backslashes, so that standard_conforming_strings does not matter.
    return "'" + text.replace("\\", "/").replace("'", "''") + "'"
