"""Says what the rows of a table cannot tell: rows that a policy hides, and rows of another topic."""

from collections.abc import Collection

from playhead.errors import Refused
from playhead.gaps.gap import Gaps
from playhead.note import Note
from playhead.target import DescribesTables, TableFacts, Target

ROW_SECURITY = "row-security"


class HiddenRows(Refused):
    """Rows that only seem to be missing would be written a second time."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{reason}: a replay would write their records again",
            hint="connect as the owner of the table, or as a user with BYPASSRLS; or compare by the ledger: "
            "--by ledger",
        )


def facts_of_tables(target: Target, topics: Collection[str]) -> TableFacts:
    """Return what the target knows of its tables; of others there is nothing to say."""
    return target.table_facts(topics) if isinstance(target, DescribesTables) else TableFacts()


def policed(facts: TableFacts) -> list[Note]:
    """Return notes on tables whose row security may hide rows."""
    text = "has row security for this user, which may hide rows: some of what seems to be missing may be there"
    return [Note(ROW_SECURITY, f"{table} {text}") for table in facts.policed]


def refuse_hidden_rows(gaps: Gaps) -> None:
    """Refuse to fill gaps that may be rows which a policy hides."""
    for note in gaps.notes:
        if note.code == ROW_SECURITY:
            raise HiddenRows(note.text)
