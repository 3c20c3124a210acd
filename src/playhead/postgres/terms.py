"""The terms of replays, in a table beside the ledger's, written before the first commit."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from playhead.host.faults import abort_point
from playhead.ledger import UNREADABLE
from playhead.note import Note
from playhead.postgres.ledger import Ledger
from playhead.postgres.own_table import OwnTable
from playhead.postgres.session import Session, TableName
from playhead.terms import OtherTerms, Terms, Whereto, agreed, terms_at, without_terms

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


@dataclass(frozen=True, slots=True)
class SavedTerms:
    """The terms with which a replay begins or continues, and its tables."""

    terms: Terms
    make: Callable[[], None]
    """Creates missing tables; it is not called for a replay that continues."""
    tables: Mapping[str, TableName]
    """The table of each source topic now."""


class Replays:
    """The table of terms, through one session."""

    def __init__(self, session: Session, ledger: Ledger, ledger_table: TableName) -> None:
        self._session, self._ledger = session, ledger
        self._own = OwnTable(session, beside(ledger_table), _TABLE)

    def refuse_unusable(self, *, is_endless: bool) -> None:
        """Check the rights; a live pipeline also updates its terms with new topics."""
        self._own.refuse_unusable(
            ["SELECT", "INSERT", "UPDATE"] if is_endless else ["SELECT", "INSERT"]
        )

    def make(self) -> None:
        self._own.make()

    def begun_with(self, table: TableName, oid: int) -> dict[str, Terms]:
        """The replays, by id, whose records go to this very table; those that cannot be read are left out."""
        if not self._own.exists():
            return {}
        found = self._session.run(
            f"SELECT replay, terms::text FROM {self._own.place.quoted} WHERE terms::text LIKE $1",  # noqa: S608
            (f'%"oid {oid}"%',),
        )
        begun: dict[str, Terms] = {}
        for replay_id, text in found:
            with suppress(*UNREADABLE):
                terms = Terms.from_json(text)
                if whereto(table, oid) in terms.places.values():
                    begun[replay_id] = terms
        return begun

    def get(self, replay_id: str) -> Terms | None:
        """Return the terms of a replay; None if there are none, or no such table."""
        if not self._own.exists():
            return None
        found = self._session.run(
            f"SELECT terms::text FROM {self._own.place.quoted} WHERE replay = $1",  # noqa: S608
            (replay_id,),
        )
        return terms_at(replay_id, str(self._own.place), found[0][0]) if found else None

    def agree(self, replay_id: str, begun: SavedTerms) -> Sequence[Note]:
        """Write the terms and create tables in one transaction; or refuse different terms."""
        with self._session.transaction():
            self._session.run(
                "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))",
                (f"playhead terms {self._own.place}",),
            )
            kept = self.get(replay_id)
            is_old = kept is None and self._ledger.has_entries(replay_id)
            if kept is not None:
                agreed(replay_id, kept, self._now(begun, kept.places))
            if is_old:
                _refuse_gone(replay_id, self._now(begun, begun.tables))
            elif kept is None or kept.is_endless:
                begun.make()
            abort_point("postgres.terms.looked")
            self._keep(replay_id, kept, self._now(begun, begun.tables))
            abort_point("postgres.terms.written")
        abort_point("postgres.terms.committed")
        return (without_terms(replay_id),) if is_old else ()

    def _now(self, begun: SavedTerms, topics: Iterable[str]) -> Terms:
        """Return the terms with the present tables of some topics."""
        tables = {topic: begun.tables[topic] for topic in topics if topic in begun.tables}
        return replace(begun.terms, places=places(self._session, tables))

    def _keep(self, replay_id: str, kept: Terms | None, wanted: Terms) -> None:
        table, whole = self._own.place.quoted, agreed(replay_id, kept, wanted)
        statement = f"UPDATE {table} SET terms = $2::text::json WHERE replay = $1"  # noqa: S608
        if kept is None:
            statement = f"INSERT INTO {table} (replay, terms) VALUES ($1, $2::text::json)"  # noqa: S608
        if whole != kept:
            self._session.run(statement, (replay_id, whole.as_json()))


def places(session: Session, tables: Mapping[str, TableName]) -> dict[str, Whereto]:
    """Return the present tables; a missing one has no oid."""
    found: dict[str, Whereto] = {}
    for topic, table in tables.items():
        oid = session.run(
            "SELECT c.oid::int8 FROM pg_catalog.pg_class c "
            "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = $1 AND c.relname = $2",
            (table.schema, table.name),
        )
        found[topic] = whereto(table, oid[0][0] if oid else None)
    return found


def whereto(table: TableName, oid: int | None) -> Whereto:
    """A table as terms have it."""
    return Whereto(f"table {table}", "" if oid is None else f"oid {oid}")


def identity_of(session: Session) -> str:
    """The same text for one database, however it is addressed."""
    [(system, database)] = session.run(
        "SELECT system_identifier::text, pg_catalog.current_database()::text FROM pg_catalog.pg_control_system()"
    )
    return f"postgres:{hashlib.sha256(f'{system}/{database}'.encode()).hexdigest()[:16]}"


def _refuse_gone(replay_id: str, wanted: Terms) -> None:
    gone = [each.name for each in wanted.places.values() if not each.id]
    if gone:
        told = [f"the ledger has entries, and {name} is gone" for name in gone]
        raise OtherTerms(replay_id, differences=told, is_endless=wanted.is_endless)
