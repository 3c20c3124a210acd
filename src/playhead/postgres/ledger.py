"""The ledger in a table of the target's database: what each replay has committed."""

import json
from collections.abc import Sequence

from playhead.account import Account
from playhead.ledger import Entry, entry_at, joined
from playhead.postgres.merge_sql import literal, named
from playhead.postgres.own_table import OwnTable
from playhead.postgres.session import Session, TableName
from playhead.postgres.table import Table
from playhead.postgres.wanted_rows import number
from playhead.record import Slice
from playhead.tables.columns import OFFSET, PARTITION, TOPIC
from playhead.target import AlreadyCommitted
from playhead.task.commit_order import refuse_wrong_order

# Not "playhead": a user of that name would have this schema on the search path.
DEFAULT = TableName("playhead_ledger", "entries")
_TABLE = """
CREATE TABLE IF NOT EXISTS {table} (
    replay text NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    from_offset bigint NOT NULL,
    to_offset bigint NOT NULL,
    entry jsonb NOT NULL,
    committed_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    PRIMARY KEY (replay, topic, partition, from_offset)
)
"""


class Ledger:
    """The ledger's table, through one session."""

    def __init__(self, session: Session, table: TableName) -> None:
        self._session, self._table = session, table
        self._own = OwnTable(session, table, _TABLE)

    def refuse_unusable(self, *, is_endless: bool) -> None:
        """Return if the table can be written or created; a live pipeline also updates its entries."""
        self._own.refuse_unusable(
            ["SELECT", "INSERT", "UPDATE"] if is_endless else ["SELECT", "INSERT"]
        )

    def exists(self) -> bool:
        return self._own.exists()

    def make(self) -> None:
        """Create the table and its schema if they do not exist; concurrent calls are safe."""
        self._own.make()

    def has_entries(self, replay_id: str) -> bool:
        """Return whether a replay has committed anything."""
        if not self.exists():
            return False
        found = self._session.run(
            f"SELECT FROM {self._table.quoted} WHERE replay = $1 LIMIT 1",
            (replay_id,),
        )
        return bool(found)

    def entries(self, replay_id: str) -> list[Entry]:
        """Return the entries in order; none if the table does not exist."""
        if not self.exists():
            return []
        found = self._session.run(
            f"SELECT entry::text FROM {self._table.quoted} WHERE replay = $1",  # noqa: S608 - quoted
            (replay_id,),
        )
        return sorted((self._entry(row[0]) for row in found), key=lambda entry: entry.slice)

    def _entry(self, text: str) -> Entry:
        return entry_at(f"table {self._table}", text)

    def admit(self, replay_id: str, account: Account, *, is_ordered: bool) -> None:
        """Lock this partition of the replay until the transaction ends, and check the slice.

        Refuses a slice that overlaps a committed one and, if the order matters, one that is not
        next.
        """
        slice_ = account.slice
        self._session.run(
            "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))",
            (json.dumps(["playhead slice", replay_id, slice_.topic, slice_.partition]),),
        )
        if is_ordered:
            last = self._last(replay_id, slice_)
            refuse_wrong_order(replay_id, slice_, follows=account.follows, last=last)
            return
        found = self._session.run(
            f"SELECT from_offset, to_offset FROM {self._table.quoted} WHERE replay = $1 "  # noqa: S608
            "AND topic = $2 AND partition = $3::int8 AND from_offset < $4 AND to_offset > $5 LIMIT 1",
            (replay_id, slice_.topic, slice_.partition, slice_.to_offset, slice_.from_offset),
        )
        if found:
            committed = Slice(slice_.topic, slice_.partition, *found[0])
            raise AlreadyCommitted(replay_id, found=slice_, committed=committed)

    def _last(self, replay_id: str, slice_: Slice) -> Slice | None:
        """Return the last slice of its partition; slices do not overlap, so no other one ends later."""
        found = self._session.run(
            f"SELECT from_offset, to_offset FROM {self._table.quoted} WHERE replay = $1 "  # noqa: S608
            "AND topic = $2 AND partition = $3::int8 ORDER BY from_offset DESC LIMIT 1",
            (replay_id, slice_.topic, slice_.partition),
        )
        return Slice(slice_.topic, slice_.partition, *found[0]) if found else None

    def by_others(self, replay_id: str, table: Table) -> str:
        """Return the condition that another replay has committed the offset of `t`, a row of a table."""
        if not self.exists():
            return "false"
        return (
            f"EXISTS (SELECT FROM {self._table.quoted} l WHERE l.replay <> {literal(replay_id)} "
            f"AND l.topic = t.{named(TOPIC)}::text AND l.partition = {number(table, PARTITION)} "
            f"AND l.from_offset <= {number(table, OFFSET)} AND l.to_offset > {number(table, OFFSET)})"
        )

    def unless_others(self, replay_id: str, table: Table) -> str:
        """Return the condition that no other replay has committed it, as the rest of a WHERE."""
        return f" AND NOT {self.by_others(replay_id, table)}"

    def extend(self, replay_id: str, entry: Entry) -> None:
        """Join the entry with the one that ends at its start, or add it.

        Only in a transaction that `admit` has begun: no other one changes that entry then.
        """
        slice_ = entry.slice
        found = self._session.run(
            f"SELECT entry::text FROM {self._table.quoted} WHERE replay = $1 AND topic = $2 "  # noqa: S608
            "AND partition = $3::int8 AND to_offset = $4",
            (replay_id, slice_.topic, slice_.partition, slice_.from_offset),
        )
        if not found:
            self.add(replay_id, entry)
            return
        whole = joined(self._entry(found[0][0]), entry)
        self._session.run(
            f"UPDATE {self._table.quoted} SET to_offset = $5, entry = $6::text::jsonb, "  # noqa: S608
            "committed_at = pg_catalog.clock_timestamp() WHERE replay = $1 AND topic = $2 "
            "AND partition = $3::int8 AND from_offset = $4",
            _row(replay_id, whole),
        )

    def add(self, replay_id: str, entry: Entry) -> None:
        self._session.run(
            f"INSERT INTO {self._table.quoted} "  # noqa: S608
            "(replay, topic, partition, from_offset, to_offset, entry) "
            "VALUES ($1, $2, $3::int8::int4, $4, $5, $6::text::jsonb)",
            _row(replay_id, entry),
        )


def _row(replay_id: str, entry: Entry) -> Sequence[object]:
    slice_ = entry.slice
    place = slice_.topic, slice_.partition, slice_.from_offset, slice_.to_offset
    return (replay_id, *place, entry.as_json())
