"""Names that another user of the database has taken: nothing of Playhead runs that user's code."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from playhead.cli.app import main
from playhead.files.target import FilesTarget
from playhead.postgres.own_table import NoLedger
from playhead.postgres.query_marks import MARKS
from playhead.postgres.replay_server import PostgresServer
from playhead.postgres.session import Session, open_copy_session, open_session
from playhead.postgres.target import PostgresTarget
from playhead.record import Slice
from playhead.records import Records
from playhead.replay import api
from playhead.sandbox import Endpoints
from playhead.source import SourceFacts
from playhead.target import Inspection, InspectRequest
from playhead.testing.target_case import terms
from tests.fix_archives import commit, writing
from tests.fix_archives import record as on_tape
from tests.sandbox.postgres_table import record
from tests.unit.standbys import NoEngine

LEDGER = """
CREATE SCHEMA playhead_ledger;
CREATE FUNCTION playhead_ledger.f() RETURNS text LANGUAGE plpgsql AS
$$BEGIN INSERT INTO public.called VALUES (current_user); RETURN 'x'; END$$;
"""
ENTRIES = """SELECT playhead_ledger.f() AS replay, ''::text AS topic, 0 AS partition, 0::int8 AS from_offset,
0::int8 AS to_offset, '{}'::jsonb AS entry, now() AS committed_at"""
REPLAYS = "SELECT playhead_ledger.f() AS replay, '{}'::json AS terms, now() AS written_at"
MARK = "SELECT playhead_ledger.f() AS run, '' AS session, 0::int8 AS line, false AS is_before, '' AS divergent"


@dataclass(frozen=True)
class Planted:
    """A database in which a second role may create schemas, as the sandbox's superuser sees it."""

    url: str
    stranger: str

    def run(self, statement: str, *, user: str = "") -> list[tuple[object, ...]]:
        given = {"user": user, "password": "x"} if user else {}
        url = conninfo.make_conninfo(self.url, **given)
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def plant(self, statement: str) -> None:
        self.run(statement, user=self.stranger)

    @property
    def target(self) -> PostgresTarget:
        return PostgresTarget(self.url, "public.laps")

    @property
    def calls(self) -> list[tuple[object, ...]]:
        return self.run("SELECT who FROM called")

    def inspect(self) -> None:
        rows = [Records.of([record(0, {"id": 1})])]
        self.target.inspect(InspectRequest(SourceFacts("elsewhere", {}), {"cars": 1}, rows))

    def refused(self, reason: str) -> None:
        """Whatever asks the ledger is refused, and nothing of the stranger's was called."""
        asked: list[Callable[[], object]] = [
            self.inspect,
            lambda: self.target.prepare("r", Inspection(""), terms()),
            lambda: self.target.entries("r"),
        ]
        for ask in asked:
            with pytest.raises(NoLedger, match=reason) as caught:
                ask()
            assert caught.value.hint
        assert self.calls == []


@pytest.fixture
def planted(sandbox: Endpoints) -> Iterator[Planted]:
    name = f"planted_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(sandbox.database_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'x'".encode())
        base = Planted(conninfo.make_conninfo(sandbox.database_url, dbname=name), name)
        try:
            connection.execute(f"GRANT CREATE, CONNECT ON DATABASE {name} TO {name}".encode())
            base.run(
                "CREATE TABLE public.laps (id int8 PRIMARY KEY); CREATE TABLE public.called (who text);"
                "GRANT INSERT ON public.called TO PUBLIC"
            )
            yield base
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
            connection.execute(f"DROP ROLE {name}".encode())


def test_views_are_no_ledger(planted: Planted) -> None:
    planted.plant(
        f"{LEDGER} CREATE VIEW playhead_ledger.entries AS {ENTRIES};"
        f"CREATE VIEW playhead_ledger.replays AS {REPLAYS};"
        f"CREATE VIEW playhead_ledger.marks AS {MARK}"
    )
    planted.refused("it is not a table, and belongs to planted_")
    control = PostgresServer(planted.url).control()
    try:
        for ask in (control.has_marks, lambda: control.marked("r"), lambda: control.terms("r")):
            with pytest.raises(NoLedger, match="it is not a table"):
                ask()
    finally:
        control.close()
    assert planted.calls == []


def test_a_strangers_schema_is_not_filled(planted: Planted) -> None:
    """Its owner could put something else in the place of our tables."""
    planted.plant("CREATE SCHEMA playhead_ledger")
    for ask in (planted.inspect, lambda: planted.target.prepare("r", Inspection(""), terms())):
        with pytest.raises(NoLedger, match="its schema playhead_ledger belongs to planted_"):
            ask()
    assert planted.target.entries("r") == []


def test_a_strangers_table_is_no_ledger(planted: Planted) -> None:
    planted.target.prepare("r", Inspection(""), terms())
    planted.run(f"ALTER TABLE playhead_ledger.entries OWNER TO {planted.stranger}")
    planted.run(f"ALTER TABLE playhead_ledger.replays OWNER TO {planted.stranger}")
    planted.refused("the table belongs to planted_.*, who could run code as this user")


def test_a_strangers_trigger_is_refused(planted: Planted) -> None:
    planted.target.prepare("r", Inspection(""), terms())
    planted.run(
        f"GRANT TRIGGER ON ALL TABLES IN SCHEMA playhead_ledger TO {planted.stranger};"
        f"GRANT USAGE ON SCHEMA playhead_ledger TO {planted.stranger}"
    )
    planted.plant(
        "CREATE SCHEMA mine; CREATE FUNCTION mine.f() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN INSERT INTO public.called VALUES (current_user); RETURN NEW; END$$"
    )
    for name in ("entries", "replays"):
        planted.plant(
            f"CREATE TRIGGER t BEFORE INSERT ON playhead_ledger.{name} FOR EACH ROW EXECUTE FUNCTION mine.f()"
        )
    planted.refused("has a trigger")


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("CREATE RULE r AS ON UPDATE TO {table} DO INSTEAD NOTHING", "has a rule"),
        ("ALTER TABLE {table} ENABLE ROW LEVEL SECURITY", "has row security"),
        ("CREATE TABLE child () INHERITS ({table})", "has a parent or child table"),
    ],
)
def test_what_could_run_code_is_refused(planted: Planted, statement: str, reason: str) -> None:
    planted.target.prepare("r", Inspection(""), terms())
    for name in ("entries", "replays"):
        planted.run(
            statement.format(table=f"playhead_ledger.{name}").replace("child", f"of_{name}")
        )
    planted.refused(reason)


def test_a_ledger_that_a_crash_would_empty_is_refused(planted: Planted) -> None:
    """Its rows would be gone, and those of the target not: a resume would write them again."""
    planted.target.prepare("r", Inspection(""), terms())
    for name in ("entries", "replays"):
        planted.run(f"ALTER TABLE playhead_ledger.{name} SET UNLOGGED")
    planted.refused("the table is unlogged")


def test_the_marks_too(planted: Planted) -> None:
    planted.target.prepare("r", Inspection(""), terms())
    planted.run(f"CREATE TABLE {MARKS} (run text)")
    planted.run(f"ALTER TABLE {MARKS} OWNER TO {planted.stranger}")
    control = PostgresServer(planted.url).control()
    try:
        with pytest.raises(NoLedger, match="the table belongs to"):
            control.prepare("r", terms())
    finally:
        control.close()


@pytest.mark.parametrize("owner", ["group", "database", "superuser"])
def test_a_ledger_of_someone_trusted_works(planted: Planted, owner: str) -> None:
    """As a user who is no superuser."""
    group = f"{planted.stranger}_g"
    planted.run(f"CREATE ROLE {group}")
    try:
        planted.target.prepare("r", Inspection(""), terms())
        if owner != "superuser":
            planted.run(
                f"ALTER SCHEMA playhead_ledger OWNER TO {group};"
                f"ALTER TABLE playhead_ledger.entries OWNER TO {group};"
                f"ALTER TABLE playhead_ledger.replays OWNER TO {group}"
            )
        planted.run(
            f"GRANT {group} TO {planted.stranger}"
            if owner == "group"
            else f"ALTER DATABASE {planted.stranger} OWNER TO {group}"
        )
        planted.run(
            f"GRANT USAGE ON SCHEMA playhead_ledger TO {planted.stranger};"
            f"GRANT ALL ON ALL TABLES IN SCHEMA playhead_ledger TO {planted.stranger};"
            f"GRANT ALL ON public.laps TO {planted.stranger}"
        )
        url = conninfo.make_conninfo(planted.url, user=planted.stranger, password="x")
        theirs = Planted(url, "")
        theirs.inspect()
        theirs.target.prepare("s", Inspection(""), terms())
        assert theirs.target.entries("s") == []
    finally:
        planted.run(
            f"REASSIGN OWNED BY {group} TO CURRENT_USER; DROP OWNED BY {group}; DROP ROLE {group}"
        )


TAKEN = {
    "has_database_privilege(name, text) RETURNS bool": "true",
    "has_table_privilege(oid, text) RETURNS bool": "true",
    "has_schema_privilege(oid, text) RETURNS bool": "true",
    "has_schema_privilege(name, text) RETURNS bool": "true",
    "current_setting(varchar) RETURNS text": "'0'",
    "set_config(varchar, varchar, bool) RETURNS text": "$2",
    "unnest(int2[]) RETURNS int2": "$1[1]",
    "array_to_json(text[]) RETURNS json": "'[]'",
    "format(text, name, name) RETURNS text": "$2",
    "format_type(oid, int4) RETURNS text": "'text'",
    "quote_literal(varchar) RETURNS text": "$1",
    "concat_ws(text, text) RETURNS text": "$2",
    "sum(int8) RETURNS numeric": "1",
    "get_bit(bit, int4) RETURNS int4": "1",
    "to_timestamp(numeric) RETURNS timestamptz": "now()",
    "lag(text) RETURNS text": "$1",
    "pg_input_is_valid(text, varchar) RETURNS bool": "true",
}
# PostgreSQL has none for exactly these types. The first is in the Arrow driver's query when it connects, and
# the second is for a server's types, which are compared with those that the driver read before.
OPERATORS = {
    "<>": ("regproc", "int4"),
    "=": ("oid", "int4"),
    "&": ("int8", "int4"),
    "/": ("int8", "numeric"),
}
COLUMNS = "(id int8 PRIMARY KEY, v varchar, n numeric, _partition int4, _offset int8, _timestamp timestamptz)"


def test_no_function_of_a_stranger_is_called(
    planted: Planted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted.run(
        f"DROP TABLE laps; CREATE TABLE public.laps {COLUMNS}; GRANT CREATE ON SCHEMA public TO PUBLIC"
    )
    for signature, result in TAKEN.items():
        planted.plant(
            f"CREATE FUNCTION public.{signature} LANGUAGE plpgsql AS "
            f"$f$BEGIN INSERT INTO public.called VALUES ('{signature}'); RETURN {result}; END$f$"
        )
    for sign, (left, right) in OPERATORS.items():
        planted.plant(
            f"CREATE FUNCTION public.f({left}, {right}) RETURNS bool LANGUAGE plpgsql AS "
            f"$f$BEGIN INSERT INTO public.called VALUES ('{left} {sign} {right}'); RETURN true; END$f$;"
            f"CREATE OPERATOR public.{sign} (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = public.f)"
        )
    played_without_engine(tmp_path, monkeypatch, planted.url)
    replay = ("replay", "json:tape", "postgres:public.laps", "--yes", "--id", "r")
    rules = ("--on-conflict", "update", "--key", "id", "--on-error", "skip")
    assert code_of(*replay, *rules, "--dry-run") == 0
    assert planted.run("SELECT to_regclass('playhead_ledger.entries')") == [(None,)]
    assert code_of(*replay, *rules) == 0
    assert code_of("verify", "r") == 0
    assert code_of("gaps", "json:tape", "postgres:public.laps") == 4, "five rows were replaced"
    assert code_of("gaps", "json:tape", "postgres:public.laps", "--by", "key", "--key", "id") == 0
    made = ("replay", "json:tape", "postgres:public.new", "--yes", "--id", "s", "--create")
    assert code_of(*made) == 0
    assert code_of("verify", "s") == 0
    assert planted.calls == []


@pytest.mark.parametrize("opens", [open_session, open_copy_session])
def test_statements_have_the_search_path_of_the_user(
    planted: Planted, opens: Callable[..., AbstractContextManager[Session]]
) -> None:
    def path(url: str) -> object:
        with opens(url, grant="") as session:
            return session.run("SELECT pg_catalog.current_setting('search_path')")[0][0]

    url = conninfo.make_conninfo(planted.url, user=planted.stranger, password="x")
    assert path(url) == '"$user", public'
    planted.run(f"ALTER ROLE {planted.stranger} SET search_path = role")
    assert path(url) == "role"
    assert path(conninfo.make_conninfo(url, options="-csearch_path=address")) == "address"


def played_without_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Go to a folder with a tape of records, which commands play in this process."""
    monkeypatch.setattr(api, "_engine", lambda configuration, *_, **__: NoEngine(configuration))
    for name in ("CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setenv("DATABASE_URL", url)
    monkeypatch.chdir(tmp_path)
    values = [b'{"id": %d, "v": "x", "n": 1.5}' % (n % 15) for n in range(20)]
    with writing(FilesTarget("tape", "json"), "tape") as writer:
        commit(
            writer, Slice("t", 0, 0, 20), [on_tape(n, value=each) for n, each in enumerate(values)]
        )


def code_of(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(words))
    return int(end.value.code or 0)


def test_the_creator_of_a_role_does_not_trust_it(planted: Planted) -> None:
    """Since PostgreSQL 16 the creator is a member, without any of its rights."""
    creator, created = f"{planted.stranger}_c", f"{planted.stranger}_d"
    planted.run(
        f"CREATE ROLE {creator} LOGIN PASSWORD 'x' CREATEROLE; GRANT ALL ON laps TO {creator}"
    )
    try:
        planted.run(f"CREATE ROLE {created}", user=creator)
        planted.run(f"CREATE SCHEMA playhead_ledger AUTHORIZATION {created}")
        theirs = Planted(conninfo.make_conninfo(planted.url, user=creator, password="x"), "")
        with pytest.raises(NoLedger, match=f"belongs to {created}"):
            theirs.inspect()
    finally:
        for role in (created, creator):
            planted.run(f"DROP OWNED BY {role}; DROP ROLE {role}")
