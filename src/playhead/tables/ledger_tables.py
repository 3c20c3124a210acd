"""The tables of the ledger and of terms, in the database of the rows."""

from dataclasses import dataclass

from playhead.tables.sql import RowSession

_ENTRIES = """
CREATE TABLE IF NOT EXISTS playhead_entries (
    replay TEXT, topic TEXT, partition INTEGER, from_offset INTEGER, to_offset INTEGER, entry TEXT,
    PRIMARY KEY (replay, topic, partition, from_offset))
"""
_TERMS = """
CREATE TABLE IF NOT EXISTS playhead_replays (replay TEXT PRIMARY KEY, terms TEXT NOT NULL)
"""


@dataclass(frozen=True, slots=True)
class PlainTable:
    """One of the two; only the owner of the database can have made it."""

    session: RowSession
    quoted: str
    statement: str

    def __str__(self) -> str:
        return self.quoted

    def exists(self) -> bool:
        return self.session.has_table(self.quoted)

    def make(self) -> None:
        self.session.run(self.statement)


def ledger_of(session: RowSession) -> PlainTable:
    return PlainTable(session, "playhead_entries", _ENTRIES)


def terms_of(session: RowSession) -> PlainTable:
    return PlainTable(session, "playhead_replays", _TERMS)
