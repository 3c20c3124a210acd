"""An id means one replay in PostgreSQL: whoever comes with another table, plan or machine is refused."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Thread

import psycopg
import pytest
from psycopg import sql

from playhead import Replay, files, postgres
from playhead.account import Account
from playhead.cli.app import main
from playhead.config.context import configure
from playhead.errors import PlayheadError, Refused
from playhead.files.target import FilesTarget
from playhead.postgres.create_table import NewTable
from playhead.postgres.own_table import NoLedger
from playhead.postgres.session import TableName
from playhead.postgres.target import PostgresTarget
from playhead.record import Slice
from playhead.records import Records
from playhead.replay import api
from playhead.sandbox import Endpoints
from playhead.source import SourceFacts
from playhead.target import Inspection, InspectRequest
from playhead.terms import NO_TERMS, NotBegunThere, OtherTerms
from playhead.testing.target_case import terms
from tests.fix_archives import commit, writing
from tests.fix_archives import record as on_tape
from tests.sandbox.postgres_table import Table, record
from tests.unit.standbys import NoEngine

COUNT = 20
COLUMNS = "id int PRIMARY KEY, v text"


@pytest.fixture
def replay_id() -> str:
    return f"terms-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Stand at a machine; each has heard of its own replays alone."""

    def go(machine: str) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / machine))

    go("here")
    return go


@pytest.fixture
def table(
    sandbox: Endpoints,
    schema: str,
    tmp_path: Path,
    on: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> Table:
    """Empty, with a tape of records for it, and commands that play it without an engine."""
    monkeypatch.setattr(api, "_engine", lambda configuration, *_, **__: NoEngine(configuration))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("DATABASE_URL", sandbox.database_url)
    monkeypatch.chdir(tmp_path)
    values = [b'{"id": %d, "v": "x"}' % n for n in range(COUNT)]
    with writing(FilesTarget("tape", "json"), "tape") as writer:
        kept = [on_tape(n, value=value) for n, value in enumerate(values)]
        commit(writer, Slice("t", 0, 0, COUNT), kept)
    return Table.made(sandbox.database_url, schema, COLUMNS)


def code_of(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(words))
    return int(end.value.code or 0)


def words(replay_id: str, table: str, *more: str) -> tuple[str, ...]:
    return ("replay", "json:tape", f"postgres:{table}", "--id", replay_id, "--yes", *more)


def made_again(table: Table) -> None:
    table.run("DROP TABLE {table}")
    table.run(f"CREATE TABLE {{table}} ({COLUMNS})")


def test_a_table_that_was_dropped_and_made_again(table, replay_id, on, capsys):
    name = f"{table.schema}.cars"
    assert code_of(*words(replay_id, name, "--create")) == 0
    assert len(table.rows()) == COUNT
    made_again(table)
    for machine in ("here", "elsewhere"):
        on(machine)
        capsys.readouterr()
        assert code_of(*words(replay_id, name, "--create")) == 6
        said = capsys.readouterr().err
        assert f"table {name} has oid" in said
        assert "it was dropped and created again" in said
    assert code_of("resume", replay_id, f"postgres:{name}", "--source", "json:tape", "--yes") == 6
    on("here")
    assert code_of("resume", replay_id, "--yes") == 6
    assert code_of("verify", replay_id) == 6
    assert table.rows() == []


def test_any_machine_verifies_by_the_plan_in_the_ledger(table, replay_id, on, capsys, sandbox):
    name = f"{table.schema}.cars"
    assert code_of(*words(replay_id, name)) == 0
    on("elsewhere")
    assert code_of("verify", replay_id) == 2, "this machine has never heard of it"
    assert code_of("verify", replay_id, f"postgres:{name}") == 6, "who wrote the ledger?"
    assert code_of("verify", replay_id, f"postgres:{name}", "--source", "json:else") == 2
    read = ("--source", "json:tape")
    assert code_of("verify", replay_id, f"postgres:{name}", *read) == 0
    assert f"verified: {COUNT} records" in capsys.readouterr().err
    table.run("UPDATE {table} SET v = 'y' WHERE id = 7")
    assert code_of("verify", replay_id, f"postgres:{name}", *read) == 4
    assert code_of("verify", replay_id, f"postgres:{name}", *read, "--from", "start") == 2
    assert code_of("verify", "nobody", f"postgres:{name}") == 2
    capsys.readouterr()
    Table.made(sandbox.database_url, table.schema, COLUMNS, "others")
    assert code_of("verify", replay_id, f"postgres:{table.schema}.others") == 2
    assert f"use postgres:{name} as TARGET" in capsys.readouterr().err
    made_again(table)
    assert code_of("verify", replay_id, f"postgres:{name}") == 6


@pytest.fixture
def shared(sandbox: Endpoints, schema: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    """The same table in another database, to whose ledger others may write; `$SHARED` is its password."""
    name = f"shared_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(sandbox.database_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        monkeypatch.setenv("SHARED", connection.info.password)
        url = psycopg.conninfo.make_conninfo(sandbox.database_url, dbname=name)
        with psycopg.connect(url, autocommit=True) as inside:
            inside.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        yield Table.made(url, schema, COLUMNS)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.mark.parametrize("is_hostile", [False, True], ids=["honest", "hostile"])
def test_a_plan_of_a_ledger_runs_in_the_database_that_the_command_names(
    table, shared, replay_id, on, capsys, monkeypatch, is_hostile
):
    """Another machine began it in a database that it had as its own, and so the plan names none."""
    name = f"{table.schema}.cars"
    here = psycopg.conninfo.conninfo_to_dict(shared.url)
    named = (
        f"postgresql://{here['user']}:${{SHARED}}@{here['host']}:{here['port']}/{here['dbname']}"
    )
    plan = Replay(files("tape", form="json"), postgres(name)).plan(
        configure({"database": named}), replay_id=replay_id
    ).plan  # fmt: skip
    if is_hostile:
        own = replace(plan.target, identity=table.target.identity())
        plan = replace(plan, target=own)
    PostgresTarget(shared.url, name).prepare(replay_id, plan.target, plan.terms())
    on("elsewhere")
    resume = ("resume", replay_id, f"{named}?table={name}", "--source", "json:tape", "--yes")
    assert code_of(*resume) == (6 if is_hostile else 0)
    said = capsys.readouterr().err
    shown = named.replace("${SHARED}", "********")
    assert f"  servers  database {shown}" in said
    assert table.rows() == []
    assert len(shared.rows()) == (0 if is_hostile else COUNT)
    assert code_of("resume", replay_id, "--yes") == (6 if is_hostile else 0), "it stays there"
    assert code_of("verify", replay_id, f"{named}?table={name}", "--source", "json:tape") == (
        6 if is_hostile else 0
    )
    assert table.rows() == []


@pytest.mark.parametrize("rule", [(), ("--on-conflict", "update")], ids=["append", "update"])
def test_rows_that_a_policy_hides_are_no_difference(table, replay_id, capsys, monkeypatch, rule):
    name, role = f"{table.schema}.cars", f"r_{table.schema[-30:]}"
    assert code_of(*words(replay_id, name, *rule)) == 0
    quoted, schema = sql.Identifier(role).as_string(), f'"{table.schema}", playhead_ledger'
    monkeypatch.setenv("LOWLY", f"postgresql://{role}:x@{table.url.rpartition('@')[2]}")
    as_role = ("--database", "${LOWLY}")
    table.run(f"CREATE ROLE {quoted} LOGIN PASSWORD 'x'")
    try:
        table.run(f"GRANT USAGE ON SCHEMA {schema} TO {quoted}")
        table.run(f"GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA {schema} TO {quoted}")
        table.run("ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        table.run("CREATE POLICY p ON {table} FOR SELECT USING (id < 15)")
        verify = ("verify", replay_id, *as_role)
        capsys.readouterr()
        assert code_of(*verify) == 4
        said = capsys.readouterr().err
        assert f"CANNOT BE TOLD: {COUNT} records read back, 5 differences" in said
        assert f"{name} has row security for this user, which may hide rows" in said
        assert "connect as the owner of the table, or as a user with BYPASSRLS" in said
        assert code_of("verify", "json:tape", f"postgres:{name}", *as_role) == 4
        assert "CANNOT BE TOLD" in capsys.readouterr().err
        assert code_of("verify", replay_id) == 0, "the owner sees all"
        table.run("UPDATE {table} SET v = 'y' WHERE id = 7")
        capsys.readouterr()
        assert code_of(*verify) == 4
        assert f"DIFFERENT: {COUNT} records read back, 6 differences" in capsys.readouterr().err
    finally:
        table.run(f"DROP OWNED BY {quoted}; DROP ROLE {quoted}")


def test_a_ledger_of_another_table_does_not_say_what_is_missing(
    table, replay_id, on, capsys, sandbox
):
    """It used to say that nothing is."""
    Table.made(sandbox.database_url, table.schema, COLUMNS, "others")
    name = f"{table.schema}.cars"
    assert code_of(*words(replay_id, name)) == 0
    gaps = ("gaps", "json:tape", f"postgres:{name}", "--by", "ledger")
    assert code_of(*gaps) == code_of(*gaps, "--ledger", replay_id) == 0
    other = ("gaps", "json:tape", f"postgres:{table.schema}.others", "--by", "ledger")
    capsys.readouterr()
    assert code_of(*other, "--ledger", replay_id) == 6
    assert f"the ledger says table {name}" in capsys.readouterr().err
    assert code_of(*gaps, "--ledger", "nobody") == 2
    assert "has no replay 'nobody'" in capsys.readouterr().err
    made_again(table)
    for more in ((), ("--ledger", replay_id)):
        assert code_of(*gaps, *more) == 6
        assert "it was dropped and created again" in capsys.readouterr().err


def test_a_table_that_is_gone_is_not_made_in_its_place(table, replay_id, on, capsys):
    name = f"{table.schema}.cars"
    table.run("DROP TABLE {table}")
    assert code_of(*words(replay_id, name, "--create")) == 0
    table.run("DROP TABLE {table}")
    for machine in ("here", "elsewhere"):
        on(machine)
        capsys.readouterr()
        assert code_of(*words(replay_id, name, "--create")) == 6
        assert f"table {name} is gone" in capsys.readouterr().err
    assert table.run("SELECT to_regclass(%s)", name) == [(None,)]


def test_the_same_id_into_another_table(table, replay_id, on, capsys, sandbox):
    other = Table.made(sandbox.database_url, table.schema, COLUMNS, "others")
    name = f"{table.schema}.cars"
    assert code_of(*words(replay_id, name)) == 0
    on("elsewhere")
    assert code_of(*words(replay_id, f"{table.schema}.others")) == 6
    assert "the ledger says" in capsys.readouterr().err
    asked = Replay(files("tape", form="json"), postgres(f"{table.schema}.others"))
    with pytest.raises(OtherTerms, match="target is"):
        asked.plan(configure({}), replay_id=replay_id)
    assert other.rows() == []
    assert code_of(*words(replay_id, name)) == 0, "the same one is finished, and shows its proof"
    assert len(table.rows()) == COUNT


def test_dropped_in_the_middle_of_a_run(table, replay_id):
    target = table.target
    target.prepare(replay_id, Inspection(""), terms("cars"))
    rows = [record(n, {"id": n}) for n in range(20)]

    def write(writer, start: int) -> None:
        account = Account(Slice("cars", 0, start, start + 10))
        account.read = 10
        writer.commit(account, [Records.of(rows[start : start + 10])])

    with target.open(replay_id) as writer:
        write(writer, 0)
        made_again(table)
        with pytest.raises(PlayheadError, match="dropped, or created again"):
            write(writer, 10)
    with target.open(replay_id) as writer, pytest.raises(OtherTerms, match="created again"):
        write(writer, 10)
    assert [each.slice.to_offset for each in target.entries(replay_id)] == [10]
    assert table.rows() == []


def write(target: PostgresTarget, replay_id: str, offset: int) -> None:
    with target.open(replay_id) as writer:
        account = Account(Slice("cars", 0, offset, offset + 1))
        account.read = 1
        writer.commit(account, [Records.of([record(offset, {"id": offset})])])


def test_another_database_that_answers_in_the_middle_of_a_run_gets_nothing(table, replay_id):
    # It has the table and a ledger of other replays, so that nothing else would refuse the records.
    target = table.target
    target.prepare(replay_id, Inspection(""), terms("cars"))
    write(target, replay_id, 0)
    table.run(f'DELETE FROM "{table.schema}".ledger_replays WHERE replay = %s', replay_id)
    with pytest.raises(NotBegunThere, match=f"does not know {replay_id}"):
        write(target, replay_id, 1)
    assert len(table.rows()) == 1
    assert [each.slice.to_offset for each in target.entries(replay_id)] == [1]


def test_of_machines_that_begin_at_once_one_wins(table, replay_id):
    start, won, refused = Barrier(6), [], []

    def prepare(plan: str) -> None:
        start.wait()
        try:
            table.target.prepare(replay_id, Inspection(""), terms("cars", digest=plan))
            won.append(plan)
        except OtherTerms:
            refused.append(plan)

    threads = [Thread(target=prepare, args=(f"plan {n % 3}",)) for n in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    kept = table.target.terms(replay_id)
    assert kept is not None
    assert sorted(won) == [kept.digest] * 2
    assert len(refused) == 4


def test_what_an_earlier_version_began_goes_on_and_keeps_its_table(table, replay_id):
    target = table.target
    target.prepare(replay_id, Inspection(""), terms("cars"))
    write(target, replay_id, 0)
    table.run(f'DELETE FROM "{table.schema}".ledger_replays')
    [note] = target.prepare(replay_id, Inspection(""), terms("cars"))
    assert note.code == NO_TERMS
    made_again(table)
    with pytest.raises(OtherTerms):
        target.prepare(replay_id, Inspection(""), terms("cars"))
    table.run(f'DELETE FROM "{table.schema}".ledger_replays')
    table.run("DROP TABLE {table}")
    statement = f'CREATE TABLE "{table.schema}".cars ({COLUMNS})'
    inspection = Inspection("", needs={"statements": [statement]})
    with pytest.raises(OtherTerms, match="is gone"):
        target.prepare(replay_id, inspection, terms("cars"))


def test_a_pipeline_needs_to_change_its_ledger(table):
    user = table.schema[-40:]
    role = sql.Identifier(user).as_string()
    url = psycopg.conninfo.make_conninfo(table.url, user=user, password="x")
    table.run(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
    place = f'"{table.schema}"'
    look = InspectRequest(SourceFacts("elsewhere", {}), {"cars": 1}, [])
    try:
        table.run(f"GRANT USAGE ON SCHEMA {place} TO {role}")
        table.run(f"GRANT INSERT, SELECT ON ALL TABLES IN SCHEMA {place} TO {role}")
        replay = table.with_options(url=url).target
        pipeline = table.with_options(url=url, is_endless=True).target
        assert isinstance(pipeline, PostgresTarget)
        replay.inspect(look)
        for name in ("ledger", "ledger_replays"):
            with pytest.raises(NoLedger, match="lacks the right UPDATE there") as caught:
                pipeline.inspect(look)
            assert caught.value.hint == f"GRANT UPDATE ON {table.schema}.{name} TO {user}"
            table.run(f"GRANT UPDATE ON {place}.{name} TO {role}")
        pipeline.inspect(look)
    finally:
        table.run(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_no_statement_of_a_plan_is_run(table, replay_id):
    """Columns are what it has: the statement is written here, and makes no other table than the target."""
    there = [("id", "integer"), ("v", "text")]
    table.run("DROP TABLE {table}")
    statement = f'CREATE TABLE "{table.schema}".evil (a int)'
    with pytest.raises(Refused, match="its statements are not run"):
        table.target.prepare(
            replay_id, Inspection("", needs={"statements": [statement]}), terms("cars")
        )
    evil, cars = (
        NewTable(TableName(table.schema, name), tuple(there), ("id",)) for name in ("evil", "cars")
    )
    needs = {"tables": [each.as_document() for each in (cars, evil)]}
    with pytest.raises(Refused, match="no record goes there"):
        table.target.prepare(replay_id, Inspection("", needs=needs), terms("cars"))
    assert table.target.terms(replay_id) is None
    listed = (
        "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename IN ('cars', 'evil')"
    )
    with psycopg.connect(table.url) as connection:
        assert connection.execute(listed, (table.schema,)).fetchall() == []
    table.target.prepare(
        replay_id, Inspection("", needs={"tables": [cars.as_document()]}), terms("cars")
    )
    assert table.rows() == []
