"""The texts that the player adds to those of the log: marks, and what undoes a success that the source did not have."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from playhead.errors import PlayheadError

MARKS: Final = "playhead_ledger.marks"
FORCED: Final = "22P02"
"""The SQLSTATE of `FORCE`."""
FORCE: Final = "SELECT CAST('this failed on the source' AS pg_catalog.int4)"


class MarksRefused(PlayheadError):
    """A session of the log cannot write its marks, so a resume could play its statements twice."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"a mark cannot be written into {MARKS}: {reason}",
            hint=f"GRANT INSERT ON {MARKS} TO PUBLIC; GRANT USAGE ON SCHEMA playhead_ledger TO PUBLIC; or "
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
        """Return the statement of a mark; `before` one that must run alone, which may then stay in doubt.

        A mark also covers the lines before it, so it names those of them that did not do what they did on the
        source.
        """
        named = ",".join(f"{at}:{int(outcome)}" for at, outcome in (divergent or {}).items())
        values = f"{line}, {str(before).lower()}, {_quoted(named) if named else 'NULL'}"
        return (
            f"INSERT INTO {MARKS} (run, session, line, is_before, divergent) VALUES "  # noqa: S608
            f"({_quoted(self.run)}, {_quoted(session)}, {values})"
        )

    def lock(self) -> str:
        """Return the statement by which a later run knows whether this connection is still open."""
        return f"SELECT pg_catalog.pg_advisory_lock_shared({self.key()})"

    def key(self) -> str:
        return f"pg_catalog.hashtextextended({_quoted('playhead queries ' + self.run)}, 0)"


def _quoted(text: str) -> str:
    # Without backslashes, so that standard_conforming_strings does not matter.
    return "'" + text.replace("\\", "/").replace("'", "''") + "'"
