"""A table that an earlier replay created and left without rows: it may be created again with other columns."""

from dataclasses import dataclass
from typing import Final

from playhead.errors import Refused
from playhead.postgres.create_table import NewTable
from playhead.postgres.ledger import Ledger
from playhead.postgres.session import Session, TableName
from playhead.postgres.table import Table, read_table
from playhead.postgres.terms import Replays

# What the catalog calls the types of the columns that we create.
_BASES: Final = {
    "boolean": "bool",
    "bigint": "int8",
    "integer": "int4",
    "double precision": "float8",
}
# Changes that a user has made to the table would be lost with it.
_UNTOUCHED = """
SELECT c.relacl IS NULL AND c.reloptions IS NULL AND pg_catalog.pg_has_role(c.relowner, 'USAGE')
       AND pg_catalog.obj_description(c.oid, 'pg_class') IS NULL
       AND (SELECT pg_catalog.count(*) = 1 FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid)
       AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k
                       WHERE c.oid IN (k.conrelid, k.confrelid) AND k.contype NOT IN ('p', 'n'))
       AND NOT EXISTS (SELECT FROM pg_catalog.pg_publication_rel p WHERE p.prrelid = c.oid)
FROM pg_catalog.pg_class c WHERE c.oid = $1::int8::oid
"""


@dataclass(frozen=True, slots=True)
class EmptyShells:
    """The tables of one database, and the ledger that knows which replay created which of them."""

    session: Session
    ledger: Ledger
    replays: Replays
    held_as: str
    """The name of a replay's lock; `{}` stands for its id."""

    def is_other(self, table: Table, wanted: NewTable) -> bool:
        """Whether it is an empty shell of ours, and the new plan wants other columns or another key."""
        is_alike = _shape(table) == _wanted(wanted)
        return not is_alike and self.makers(table) is not None

    def makers(self, table: Table) -> list[str] | None:
        """The replays that began with this very table; None where it is no empty shell of ours."""
        begun = self.replays.begun_with(table.place, table.oid)
        ours = any(
            NewTable.from_document(each).place == table.place
            and _wanted(NewTable.from_document(each)) == _shape(table)
            for terms in begun.values()
            for each in (terms.plan or {}).get("target", {}).get("needs", {}).get("tables", ())
        )
        if not ours or not self._is_untouched(table):
            return None
        has_written = any(
            entry.written for replay_id in begun for entry in self.ledger.entries(replay_id)
        )
        return None if has_written else [*begun]

    def _is_untouched(self, table: Table) -> bool:
        if table.kind != "r" or table.has_triggers or table.has_row_security:
            return False
        if self.session.run(_UNTOUCHED, (table.oid,)) != [(True,)]:
            return False
        exists = f"SELECT EXISTS (SELECT FROM {table.place.quoted})"  # noqa: S608 - quoted
        return self.session.run(exists) == [(False,)]

    def drop(self, place: TableName) -> None:
        """Drop it, inside a transaction that creates it again; refuse what is no empty shell any more."""
        table = read_table(self.session.run, place)
        if table is None:
            return
        self.session.run(f"LOCK TABLE {place.quoted} IN ACCESS EXCLUSIVE MODE")
        makers = self.makers(table)
        if makers is None:
            raise Refused(
                f"{place} was to be created again, because it was empty, and is not the same any more",
                hint="make a new plan",
            )
        for replay_id in makers:
            locked = self.session.run(
                "SELECT pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))",
                (self.held_as.replace("{}", replay_id),),
            )
            if locked != [(True,)]:
                raise Refused(
                    f"{place} is empty and would be created again, but replay {replay_id} is running into it",
                    hint=f"wait for it, or cancel it: playhead cancel {replay_id}",
                )
        self.session.run(f"DROP TABLE {place.quoted}")


def _shape(table: Table) -> tuple[list[tuple[str, str]], tuple[str, ...] | None]:
    """Columns and key, as they are; a column with anything of its own is none of ours."""
    columns = [
        (
            each.name,
            each.base if each.default is None and each.modifier < 0 and each.kind == "b" else "",
        )
        for each in table.columns
    ]
    return columns, table.primary_key


def _wanted(table: NewTable) -> tuple[list[tuple[str, str]], tuple[str, ...] | None]:
    columns = [(name, _BASES.get(kind, kind)) for name, kind in table.columns]
    return columns, table.key
