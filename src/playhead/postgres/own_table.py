"""A table of Playhead's own in the user's database: checks that it can be used, or creates it."""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from playhead.errors import PlayheadError
from playhead.postgres.errors import RightMissing, StatementRefused
from playhead.postgres.session import Session, TableName

_OF_ITS_NAME = """
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2
"""
_ALONE = "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))"


class NoLedger(PlayheadError):
    """The ledger's table cannot be created, or is something else."""

    def __init__(self, table: TableName, *, reason: str, hint: str) -> None:
        self.table, self.reason = table, reason
        super().__init__(f"no ledger in {table}: {reason}", hint=hint)


@dataclass(frozen=True, slots=True)
class OwnTable:
    """The table, through one session."""

    session: Session
    place: TableName
    statement: str
    """The statement that creates it; `{table}` is replaced by its name."""

    def exists(self) -> bool:
        return bool(self.session.run(f"SELECT {_OF_ITS_NAME}", self._name))

    def refuse_unusable(self, rights: Sequence[str]) -> None:
        """Return if this user has these rights on the table, or may create it."""
        if not self.exists():
            if not self._can_be_made():
                raise NoLedger(
                    self.place, reason="this user may not create it", hint=self._way_out()
                )
            return
        missing, user = self._missing(rights)
        if missing:
            on = f"SCHEMA {self.place.schema}" if missing == ["USAGE"] else str(self.place)
            raise NoLedger(
                self.place,
                reason=f"user {user} lacks the right {', '.join(missing)} there",
                hint=f"GRANT {', '.join(missing)} ON {on} TO {user}",
            )

    def make(self) -> None:
        """Create the table and its schema if they do not exist; concurrent calls are safe."""
        if self.exists():
            return
        try:
            with self.session.transaction():
                self.session.run(_ALONE, (f"playhead ledger {self.place}",))
                found = self.session.run(
                    "SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1", (self.place.schema,)
                )
                if not found:
                    schema = sql.Identifier(self.place.schema)
                    self.session.run(sql.SQL("CREATE SCHEMA {}").format(schema).as_string())
                self.session.run(self.statement.format(table=self.place.quoted))
        except (RightMissing, StatementRefused) as exc:
            raise NoLedger(self.place, reason=exc.reason, hint=self._way_out()) from exc

    @property
    def _name(self) -> tuple[str, str]:
        return self.place.schema, self.place.name

    def _can_be_made(self) -> bool:
        found = self.session.run(
            "SELECT CASE WHEN n.oid IS NULL "
            "THEN has_database_privilege(current_database(), 'CREATE') "
            "ELSE has_schema_privilege(n.oid, 'CREATE') END "
            "FROM (VALUES ($1)) wanted (name) "
            "LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = wanted.name",
            (self.place.schema,),
        )
        return found == [(True,)]

    def _missing(self, rights: Sequence[str]) -> tuple[list[str], str]:
        """Return the rights that this user lacks, the schema's before the table's, and the user."""
        asked = ", ".join(f"has_table_privilege(c.oid, '{each}')" for each in rights)
        [(user, usage, *has)] = self.session.run(
            f"SELECT current_user::text, has_schema_privilege(n.oid, 'USAGE'), {asked} {_OF_ITS_NAME}",
            self._name,
        )
        if not usage:
            return ["USAGE"], user
        return [each for each, is_there in zip(rights, has, strict=True) if not is_there], user

    def _way_out(self) -> str:
        made = " ".join(self.statement.format(table="NAME").split())
        return (
            f"ask an administrator to run: CREATE SCHEMA {self.place.schema} AUTHORIZATION "
            "this_user; or choose a table that this user may create, or one created with: "
            f"{made}"
        )
