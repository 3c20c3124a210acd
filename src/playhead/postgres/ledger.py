"""The ledger in a table of the target's database: what each replay has committed."""

import json
from typing import ClassVar

from playhead.ledger import Entry, joined
from playhead.postgres.merge_sql import named
from playhead.postgres.own_table import OwnTable
from playhead.postgres.session import Session, TableName, literal
from playhead.postgres.table import Table
from playhead.postgres.wanted_rows import number
from playhead.record import Slice
from playhead.tables.columns import OFFSET, PARTITION, TOPIC
from playhead.tables.ledger import SqlLedger, ledger_row

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


class Ledger(SqlLedger):
    """The ledger's table, through one session."""

    as_document: ClassVar[str] = "{}::text::jsonb"
    own: OwnTable

    def __init__(self, session: Session, table: TableName) -> None:
        super().__init__(session, OwnTable(session, table, _TABLE))

    def _lock(self, replay_id: str, slice_: Slice) -> None:
        self._session.run(
            "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))",
            (json.dumps(["playhead slice", replay_id, slice_.topic, slice_.partition]),),
        )

    def by_others(self, replay_id: str, table: Table) -> str:
        """Return the condition that another replay has committed the offset of `t`, a row of a table."""
        if not self.own.exists():
            return "false"
        return (
            f"EXISTS (SELECT FROM {self.own.quoted} l WHERE l.replay <> {literal(replay_id)} "
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
            "SELECT topic, partition, from_offset, to_offset, CAST(entry AS text) "  # noqa: S608
            f"FROM {self.own.quoted} WHERE replay = $1 AND topic = $2 "
            "AND partition = $3::int8 AND to_offset = $4",
            (replay_id, slice_.topic, slice_.partition, slice_.from_offset),
        )
        if not found:
            self.add(replay_id, entry)
            return
        whole = joined(self._entry(*found[0]), entry)
        self._session.run(
            f"UPDATE {self.own.quoted} SET to_offset = $5, entry = $6::text::jsonb, "  # noqa: S608
            "committed_at = pg_catalog.clock_timestamp() WHERE replay = $1 AND topic = $2 "
            "AND partition = $3::int8 AND from_offset = $4",
            ledger_row(replay_id, whole),
        )
