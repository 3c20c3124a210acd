"""The terms of replays, in a table beside the ledger's, written before the first commit."""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from typing import ClassVar

from playhead.ledger import UNREADABLE
from playhead.postgres.answers import rows_of
from playhead.postgres.ledger import Ledger
from playhead.postgres.own_table import OwnTable
from playhead.postgres.session import Session, TableName
from playhead.tables.ledger import SqlReplays
from playhead.terms import Terms, Whereto

# json, not jsonb, which rejects some texts and loses the order.
_TABLE = """
CREATE TABLE IF NOT EXISTS {table} (
    replay text NOT NULL PRIMARY KEY,
    terms json NOT NULL,
    written_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
)
"""
_LONGEST_BYTES = 63


def beside(ledger: TableName) -> TableName:
    """Return the table for the terms of a ledger: `replays` beside `entries`, else NAME_replays."""
    if ledger.name == "entries":
        return TableName(ledger.schema, "replays")
    kept = ledger.name.encode()[: _LONGEST_BYTES - len("_replays")].decode(errors="ignore")
    return TableName(ledger.schema, f"{kept}_replays")


class Replays(SqlReplays):
    """The table of terms, through one session."""

    as_document: ClassVar[str] = "{}::text::json"
    own: OwnTable

    def __init__(self, session: Session, ledger: Ledger, ledger_table: TableName) -> None:
        super().__init__(session, ledger, OwnTable(session, beside(ledger_table), _TABLE))

    def begun_with(self, table: TableName, oid: int) -> dict[str, Terms]:
        """The replays, by id, whose records go to this very table; those that cannot be read are left out."""
        if not self.own.exists():
            return {}
        found = self._session.run(
            f"SELECT replay, terms::text FROM {self.own.place.quoted} WHERE terms::text LIKE $1",  # noqa: S608
            (f'%"oid {oid}"%',),
        )
        begun: dict[str, Terms] = {}
        for replay_id, text in rows_of(found, (str, str)):
            with suppress(*UNREADABLE):
                terms = Terms.from_json(text)
                if whereto(table, oid) in terms.places.values():
                    begun[replay_id] = terms
        return begun

    def _lock(self) -> None:
        self._session.run(
            "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))",
            (f"playhead terms {self.own.place}",),
        )


def places(session: Session, tables: Mapping[str, TableName]) -> dict[str, Whereto]:
    """Return the present tables; a missing one has no oid."""
    found: dict[str, Whereto] = {}
    for topic, table in tables.items():
        oid = session.rows(
            "SELECT c.oid::int8 FROM pg_catalog.pg_class c "
            "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = $1 AND c.relname = $2",
            (table.schema, table.name),
            kinds=[int],
        )
        found[topic] = whereto(table, oid[0][0] if oid else None)
    return found


def whereto(table: TableName, oid: int | None) -> Whereto:
    """A table as terms have it."""
    return Whereto(f"table {table}", "" if oid is None else f"oid {oid}")


def identity_of(session: Session) -> str:
    """The same text for one database, however it is addressed."""
    system, database = session.one(
        "SELECT system_identifier::text, pg_catalog.current_database()::text FROM pg_catalog.pg_control_system()",
        kinds=(str, str),
    )
    return f"postgres:{hashlib.sha256(f'{system}/{database}'.encode()).hexdigest()[:16]}"
