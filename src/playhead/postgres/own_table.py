"""A table of Playhead's own in the user's database: checks that it can be used, or creates it."""

from collections.abc import Sequence
from dataclasses import dataclass

from playhead.errors import PlayheadError
from playhead.postgres.answers import reading
from playhead.postgres.errors import RightMissing, StatementRefused
from playhead.postgres.session import Session, TableName
from playhead.tables.sql import named

_OF_ITS_NAME = """
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2
"""
# Superusers are members of every role for `pg_has_role`, so memberships are read. The one that the creator of a
# role gets since PostgreSQL 16 gives none of its rights: neither option is set.
_FOUND = """
WITH RECURSIVE mine AS (
    SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = current_user
    UNION
    SELECT m.roleid FROM pg_catalog.pg_auth_members m JOIN mine ON m.member = mine.oid
    WHERE NOT pg_catalog.to_jsonb(m) @> '{"inherit_option": false, "set_option": false}'::jsonb
), trusted AS (
    SELECT oid FROM mine
    UNION SELECT oid FROM pg_catalog.pg_roles WHERE rolsuper OR rolname = 'pg_database_owner'
    UNION SELECT datdba FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()
)
SELECT pg_catalog.pg_get_userbyid(n.nspowner)::text, n.nspowner IN (SELECT oid FROM trusted),
       c.relkind::text, pg_catalog.pg_get_userbyid(c.relowner)::text,
       c.relowner IN (SELECT oid FROM trusted), pg_catalog.concat_ws(', ',
           CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_rewrite WHERE ev_class = c.oid) THEN 'a rule' END,
           CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal)
                THEN 'a trigger' END,
           CASE WHEN c.relrowsecurity THEN 'row security' END,
           CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_inherits WHERE c.oid IN (inhrelid, inhparent))
                THEN 'a parent or child table' END),
       c.relpersistence = 'u'
FROM pg_catalog.pg_namespace n
LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = $2
WHERE n.nspname = $1
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

    def __str__(self) -> str:
        return str(self.place)

    @property
    def quoted(self) -> str:
        return self.place.quoted

    def exists(self) -> bool:
        """Return whether it exists; refuse one with which another user could run code as this one."""
        found = self._found()
        if found is None or found.kind is None:
            return False
        self._refuse_strange(found)
        return True

    def refuse_unusable(self, rights: Sequence[str]) -> None:
        """Return if this user has these rights on the table, or may create it."""
        found = self._found()
        if found is not None:
            self._refuse_strange(found)
        if found is None or found.kind is None:
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
                found = self._found()
                if found is None:
                    self.session.run(f"CREATE SCHEMA {named(self.place.schema)}")
                else:
                    self._refuse_strange(found)
                self.session.run(self.statement.format(table=self.place.quoted))
                self.exists()  # Another user may have been faster.
        except (RightMissing, StatementRefused) as exc:
            raise NoLedger(self.place, reason=exc.reason, hint=self._way_out()) from exc

    @property
    def _name(self) -> tuple[str, str]:
        return self.place.schema, self.place.name

    def _found(self) -> "_Found | None":
        """Return the schema with this table; None without the schema."""
        found = self.session.run(_FOUND, self._name)
        with reading():
            return _Found(*found[0]) if found else None

    def _refuse_strange(self, found: "_Found") -> None:
        """Refuse what can run code of another user: such code would have this user's rights."""
        schema, table = self.place.schema, self.place
        trusted = "this_user, a role of this user, a superuser or the owner of the database"
        if found.kind not in (None, "r"):
            reason, hint = f"it is not a table, and belongs to {found.owner}", f"drop {table}"
        elif not found.is_schema_trusted:
            reason = f"its schema {schema} belongs to {found.schema_owner}, who could run code as this user"
            hint = f"drop the schema; or, if it can be trusted, ALTER SCHEMA {schema} OWNER TO {trusted}"
        elif found.kind and not found.is_trusted:
            reason = f"the table belongs to {found.owner}, who could run code as this user"
            hint = f"drop {table}; or, if it can be trusted, ALTER TABLE {table} OWNER TO {trusted}"
        elif found.attached:
            reason = f"the table, which belongs to {found.owner}, has {found.attached}"
            hint = f"remove that from {table}: it could run code as this user"
        elif found.is_unlogged:
            reason = "the table is unlogged: a crash of the server empties it, and the rows that it accounts for stay"
            hint = f"ALTER TABLE {table} SET LOGGED"
        else:
            return
        raise NoLedger(self.place, reason=reason, hint=hint)

    def _can_be_made(self) -> bool:
        found = self.session.run(
            "SELECT CASE WHEN n.oid IS NULL "
            "THEN pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE') "
            "ELSE pg_catalog.has_schema_privilege(n.oid, 'CREATE') END "
            "FROM (VALUES ($1)) wanted (name) "
            "LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = wanted.name",
            (self.place.schema,),
        )
        return found == [(True,)]

    def _missing(self, rights: Sequence[str]) -> tuple[list[str], str]:
        """Return the rights that this user lacks, the schema's before the table's, and the user."""
        asked = ", ".join(f"pg_catalog.has_table_privilege(c.oid, '{each}')" for each in rights)
        user, usage, *has = self.session.one(
            f"SELECT current_user::text, pg_catalog.has_schema_privilege(n.oid, 'USAGE'), {asked} {_OF_ITS_NAME}",
            self._name,
            kinds=(str, bool, ...),
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


@dataclass(frozen=True, slots=True)
class _Found:
    """What the catalog knows of a table's name."""

    schema_owner: str
    is_schema_trusted: bool
    kind: str | None
    """None without a table or anything else of that name."""
    owner: str | None
    is_trusted: bool | None
    attached: str
    """What could run code although the owner is trusted."""
    is_unlogged: bool | None
