"""The ledger in a table of the target's own database: what each replay has committed."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from playhead.errors import PlayheadError
from playhead.ledger import Entry, joined
from playhead.postgres.failures import NotAllowed, StatementRefused
from playhead.postgres.session import Place, Session
from playhead.record import Slice
from playhead.target import AlreadyCommitted

# Not "playhead": a user of that name would find its own unqualified tables in there.
DEFAULT = Place("playhead_ledger", "entries")
_TABLE = """
CREATE TABLE IF NOT EXISTS {table} (
    replay text NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    from_offset bigint NOT NULL,
    to_offset bigint NOT NULL,
    entry jsonb NOT NULL,
    committed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (replay, topic, partition, from_offset)
)
"""

_OF_ITS_NAME = """
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2
"""


class NoLedger(PlayheadError):
    """The ledger's table cannot be made, or is something else."""

    def __init__(self, table: Place, *, reason: str, hint: str) -> None:
        self.table, self.reason = table, reason
        super().__init__(f"no ledger in {table}: {reason}", hint=hint)


@dataclass(frozen=True, slots=True)
class Others:
    """What other slices of a replay and a topic have done to rows that were there."""

    wrote: bool
    replaced: bool
    deleted: bool


class Ledger:
    """The ledger's table, through one session."""

    def __init__(self, session: Session, table: Place) -> None:
        self._session, self._table = session, table

    def can_be_made(self) -> bool:
        """Whether it is there and can be written, or this user may make it."""
        if self.exists():
            return self._can_be_written()
        found = self._session.run(
            "SELECT CASE WHEN n.oid IS NULL "
            "THEN has_database_privilege(current_database(), 'CREATE') "
            "ELSE has_schema_privilege(n.oid, 'CREATE') END "
            "FROM (VALUES ($1)) wanted (name) "
            "LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = wanted.name",
            (self._table.schema,),
        )
        return found == [(True,)]

    def refuse_unmakable(self) -> None:
        if not self.can_be_made():
            reason = "this user may not make it, or not read and write it"
            raise NoLedger(self._table, reason=reason, hint=self._way_out())

    def exists(self) -> bool:
        return bool(self._session.run(f"SELECT {_OF_ITS_NAME}", self._name))

    def _can_be_written(self) -> bool:
        rights = "has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')"
        rights += " AND has_table_privilege(c.oid, 'INSERT')"
        return self._session.run(f"SELECT {rights} {_OF_ITS_NAME}", self._name) == [(True,)]

    @property
    def _name(self) -> tuple[str, str]:
        return self._table.schema, self._table.name

    def make(self) -> None:
        """Make the table, and its schema, where they are not there; runs at once do no harm."""
        if self.exists():
            return
        try:
            with self._session.transaction():
                self._session.run(
                    "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))",
                    (f"playhead ledger {self._table}",),
                )
                schema = sql.Identifier(self._table.schema)
                found = self._session.run(
                    "SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1", (self._table.schema,)
                )
                if not found:
                    self._session.run(sql.SQL("CREATE SCHEMA {}").format(schema).as_string())
                self._session.run(_TABLE.format(table=self._table.quoted))
        except (NotAllowed, StatementRefused) as exc:
            raise NoLedger(
                self._table,
                reason=exc.reason,
                hint=self._way_out(),
            ) from exc

    def entries(self, replay_id: str) -> list[Entry]:
        """In order; none when there is no such table."""
        if not self.exists():
            return []
        found = self._session.run(
            f"SELECT entry::text FROM {self._table.quoted} WHERE replay = $1",  # noqa: S608 - quoted
            (replay_id,),
        )
        return sorted((Entry.from_json(row[0]) for row in found), key=lambda entry: entry.slice)

    def refuse_overlap(self, replay_id: str, slice_: Slice) -> None:
        """Keep others of this replay off this partition until the transaction ends, and look."""
        self._session.run(
            "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))",
            (json.dumps(["playhead slice", replay_id, slice_.topic, slice_.partition]),),
        )
        found = self._session.run(
            f"SELECT from_offset, to_offset FROM {self._table.quoted} WHERE replay = $1 "  # noqa: S608
            "AND topic = $2 AND partition = $3::int8 AND from_offset < $4 AND to_offset > $5 LIMIT 1",
            (replay_id, slice_.topic, slice_.partition, slice_.to_offset, slice_.from_offset),
        )
        if found:
            committed = Slice(slice_.topic, slice_.partition, *found[0])
            raise AlreadyCommitted(replay_id, found=slice_, committed=committed)

    def others(self, replay_id: str, slice_: Slice) -> Others:
        """What may have come over the rows of a slice since; nothing, when there is no such table."""
        if not self.exists():
            return Others(wrote=False, replaced=False, deleted=False)
        [(wrote, replaced, deleted)] = self._session.run(
            f"SELECT count(*) > 0, {_any('updated')}, {_any('tombstones')} "  # noqa: S608 - ours
            f"FROM {self._table.quoted} "
            "WHERE replay = $1 AND topic = $2 AND (partition, from_offset) <> ($3::int8, $4::int8)",
            (replay_id, slice_.topic, slice_.partition, slice_.from_offset),
        )
        return Others(wrote, replaced, deleted)

    def extend(self, replay_id: str, entry: Entry) -> None:
        """Join it to the entry that ends where it begins; where there is none it is added.

        Only in a transaction that `refuse_overlap` has begun: nobody else changes that entry then.
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
        whole = joined(Entry.from_json(found[0][0]), entry)
        self._session.run(
            f"UPDATE {self._table.quoted} SET to_offset = $5, entry = $6::text::jsonb, "  # noqa: S608
            "committed_at = clock_timestamp() WHERE replay = $1 AND topic = $2 "
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

    def _way_out(self) -> str:
        return (
            f"somebody who may: CREATE SCHEMA {self._table.schema} AUTHORIZATION this_user; or name a "
            f"table that may be made, or that was made with: {' '.join(_TABLE.format(table='NAME').split())}"
        )


def _row(replay_id: str, entry: Entry) -> Sequence[object]:
    slice_ = entry.slice
    place = slice_.topic, slice_.partition, slice_.from_offset, slice_.to_offset
    return (replay_id, *place, entry.as_json())


def _any(detail: str) -> str:
    return f"coalesce(bool_or((entry->'details'->>'{detail}')::int8 > 0), false)"
