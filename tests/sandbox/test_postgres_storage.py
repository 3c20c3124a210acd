"""Rows that vanish, or lose their columns, after a replay has written them are neither proved nor verified."""

import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from playhead.cli.app import main
from playhead.errors import EXIT_DIFFERENT, EXIT_REFUSED, PlayheadError
from playhead.files.target import FilesTarget
from playhead.record import Slice
from playhead.replay import api
from playhead.sandbox import Endpoints
from tests.fix_archives import commit, record, writing
from tests.sandbox.postgres_table import Table
from tests.unit.standbys import NoEngine

EACH = 10
PARTS = ("low", "high", "unused")
MADE = "CREATE TABLE {schema}.{part} PARTITION OF {{table}} FOR VALUES FROM ({start}) TO ({end})"


class Ends(PlayheadError):
    """What ends a run in its middle."""


class HalfAnEngine(NoEngine):
    """Plays the first of two partitions."""

    def run_job(self, job):
        super().run_job(replace(job, tasks=job.tasks[:1]))
        raise Ends("in the middle")


@pytest.fixture
def replay_id() -> str:
    return f"storage-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[type[NoEngine]]:
    """What plays; the last one counts."""
    kinds: list[type[NoEngine]] = [NoEngine]
    monkeypatch.setattr(api, "_engine", lambda configuration, *_, **__: kinds[-1](configuration))
    return kinds


@pytest.fixture
def on_tape(
    sandbox: Endpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engines
) -> Callable[[str], str]:
    """Ten records of each of two partitions, with these fields beside their id."""
    for name in ("STATE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setenv("DATABASE_URL", sandbox.database_url)
    monkeypatch.chdir(tmp_path)

    def write(fields: str) -> str:
        with writing(FilesTarget("tape", "json"), "tape") as writer:
            for partition in (0, 1):
                ids = range(partition * EACH, (partition + 1) * EACH)
                values = [b'{"id": %d%s}' % (id_, fields.encode()) for id_ in ids]
                kept = [
                    replace(record(n, value=value), partition=partition)
                    for n, value in enumerate(values)
                ]
                commit(writer, Slice("t", partition, 0, EACH), kept)
        return "json:tape"

    return write


@pytest.fixture
def tape(on_tape: Callable[[str], str]) -> str:
    return on_tape("")


@pytest.fixture
def laps(on_tape: Callable[[str], str]) -> str:
    return on_tape(', "lap": 0.1, "car": "HAM"')


def part(table: Table, name: str) -> str:
    start = PARTS.index(name) * EACH
    return MADE.format(schema=f'"{table.schema}"', part=name, start=start, end=start + EACH)


def partitioned(sandbox: Endpoints, schema: str) -> Table:
    table = Table.made(sandbox.database_url, schema, "id int PRIMARY KEY) PARTITION BY RANGE (id")
    for each in PARTS:
        table.run(part(table, each))
    return table


def code_of(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(words))
    return int(end.value.code or 0)


def half_played(tape: str, table: Table, replay_id: str, engines: list[type[NoEngine]]) -> None:
    engines.append(HalfAnEngine)
    assert code_of("replay", tape, target(table), "--id", replay_id, "--yes") == 1
    engines.pop()
    assert len(table.rows()) == EACH


def target(table: Table) -> str:
    return f"postgres:{table.schema}.{table.name}"


LOSSES = {
    "dropped": ["DROP TABLE {low}"],
    "made again": ["DROP TABLE {low}", "{part}"],
    "detached": ["ALTER TABLE {table} DETACH PARTITION {low}"],
    "emptied": ["TRUNCATE {low}"],
    "all emptied": ["TRUNCATE {table}"],
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_a_partition_whose_rows_are_gone(
    sandbox, schema, tape, replay_id, engines, capsys, loss: list[str]
):
    table = partitioned(sandbox, schema)
    half_played(tape, table, replay_id, engines)
    for statement in loss:
        named = statement.replace("{low}", f'"{schema}".low')
        table.run(named.replace("{part}", part(table, "low")))
    capsys.readouterr()
    for _ in range(2):
        assert code_of("resume", replay_id, "--yes") == EXIT_REFUSED
        said = capsys.readouterr().err
        assert f"rows of it are gone: {schema}.cars" in said
        assert "proved" not in said
    assert table.rows() == [], "nothing more is written beside what is missing"
    by_ledger = ("gaps", tape, target(table), "--by", "ledger", "--ledger", replay_id)
    assert code_of(*by_ledger) == EXIT_REFUSED
    assert "rows of it are gone" in capsys.readouterr().err


def test_a_finished_replay_is_not_proved_again(sandbox, schema, tape, replay_id, capsys):
    table = partitioned(sandbox, schema)
    assert code_of("replay", tape, target(table), "--id", replay_id, "--yes") == 0
    table.run(f'DROP TABLE "{schema}".high')
    assert code_of("resume", replay_id, "--yes") == EXIT_REFUSED
    assert "no longer has its partition of oid" in capsys.readouterr().err


def test_partitions_may_come_and_unused_ones_may_go(sandbox, schema, tape, replay_id, engines):
    table = partitioned(sandbox, schema)
    half_played(tape, table, replay_id, engines)
    table.run(f'DROP TABLE "{schema}".unused')
    table.run(f'CREATE TABLE "{schema}".more PARTITION OF {{table}} FOR VALUES FROM (99) TO (100)')
    table.run(f'DROP TABLE "{schema}".high')
    table.run(part(table, "high"))
    assert code_of("resume", replay_id, "--yes") == 0
    assert len(table.rows()) == 2 * EACH


def test_a_table_that_was_truncated(sandbox, schema, tape, replay_id, engines, capsys):
    table = Table.made(sandbox.database_url, schema, "id int PRIMARY KEY")
    half_played(tape, table, replay_id, engines)
    table.run("TRUNCATE {table}")
    assert code_of("resume", replay_id, "--yes") == EXIT_REFUSED
    assert f"has 0 rows, of {EACH} written" in capsys.readouterr().err
    assert table.rows() == []


def test_a_table_that_was_rewritten(sandbox, schema, tape, replay_id, engines, capsys):
    """VACUUM FULL keeps the rows; so many rows of others could hide a TRUNCATE, which is said."""
    table = Table.made(sandbox.database_url, schema, "id int PRIMARY KEY")
    half_played(tape, table, replay_id, engines)
    table.run("VACUUM FULL {table}")
    capsys.readouterr()
    assert code_of("resume", replay_id, "--yes") == 0
    said = capsys.readouterr().err
    assert f"{schema}.cars was rewritten or truncated after rows were committed" in said
    assert f"only playhead verify {replay_id}, which reads them, shows if all" in said
    table.run("DELETE FROM {table} WHERE id = 3")
    assert code_of("resume", replay_id, "--yes") == EXIT_REFUSED
    assert code_of("verify", replay_id) == EXIT_DIFFERENT


def test_an_unlogged_table_that_a_crash_would_have_emptied(
    sandbox, schema, tape, replay_id, engines, capsys
):
    table = Table.made(sandbox.database_url, schema, "id int PRIMARY KEY")
    table.run("ALTER TABLE {table} SET UNLOGGED")
    half_played(tape, table, replay_id, engines)
    table.run("DELETE FROM {table}")  # As a crash leaves it: the file is the same one.
    assert code_of("resume", replay_id, "--yes") == EXIT_REFUSED
    assert "is unlogged, and has 0 rows" in capsys.readouterr().err


def test_an_unlogged_partition_that_a_crash_would_have_emptied(
    sandbox, schema, tape, replay_id, engines, capsys
):
    table = partitioned(sandbox, schema)
    table.run(f'ALTER TABLE "{schema}".low SET UNLOGGED')
    half_played(tape, table, replay_id, engines)
    table.run(f'DELETE FROM "{schema}".low')
    assert code_of("resume", replay_id, "--yes") == EXIT_REFUSED
    assert "is unlogged, and has 0 rows" in capsys.readouterr().err


def test_an_unlogged_table_with_rows_of_others(sandbox, schema, tape, replay_id, engines, capsys):
    """As many rows as were written say nothing then: a crash may have emptied it before."""
    table = Table.made(sandbox.database_url, schema, "id int")
    table.run("ALTER TABLE {table} SET UNLOGGED")
    half_played(tape, table, replay_id, engines)
    table.run("DELETE FROM {table}")
    table.run("INSERT INTO {table} SELECT 100 + n FROM generate_series(1, 50) n")
    assert code_of("resume", replay_id, "--yes") == 0
    said = capsys.readouterr().err
    assert f"{schema}.cars is unlogged, and has rows of others too" in said
    assert f"only playhead verify {replay_id}, which reads them, shows if all" in said


def test_an_unlogged_table_with_as_many_rows_of_another_replay(
    sandbox, schema, tape, replay_id, engines, capsys
):
    table = Table.made(sandbox.database_url, schema, "id int")
    table.run("ALTER TABLE {table} SET UNLOGGED")
    half_played(tape, table, replay_id, engines)
    (written,) = table.run("SELECT count(*) FROM {table}")[0]
    table.run("DELETE FROM {table}")
    table.run(f"INSERT INTO {{table}} SELECT 100 + n FROM generate_series(1, {written}) n")
    table.run(
        "INSERT INTO playhead_ledger.replays (replay, terms) SELECT 'other-' || replay, terms "
        "FROM playhead_ledger.replays WHERE replay = %s",
        replay_id,
    )
    assert code_of("resume", replay_id, "--yes") == 0
    assert f"{schema}.cars is unlogged, and has rows of others too" in capsys.readouterr().err


LAPS = "id int PRIMARY KEY, lap float8, car text, note text, best float8"
ALTERED = {
    "dropped": ("ALTER TABLE {table} DROP COLUMN lap", "the column lap of {table} is gone"),
    "renamed": ("ALTER TABLE {table} RENAME lap TO t", "the column lap of {table} is gone"),
    "rounded": (
        "ALTER TABLE {table} ALTER lap TYPE real",
        "the column lap of {table} was double precision, and is real now",
    ),
    "cut": (
        "ALTER TABLE {table} ALTER car TYPE char(3)",
        "the column car of {table} was text, and is character(3) now",
    ),
    "dropped and added again": (
        "ALTER TABLE {table} DROP COLUMN lap, ADD lap float8 DEFAULT 0.1",
        "the column lap of {table} has another number now",
    ),
    "swapped": (
        (
            "ALTER TABLE {table} RENAME lap TO x; ALTER TABLE {table} RENAME best TO lap; "
            "ALTER TABLE {table} RENAME x TO best"
        ),
        "the column lap of {table} has another number now",
    ),
    "not ours": (
        "ALTER TABLE {table} DROP COLUMN lap, ADD lap float8 GENERATED ALWAYS AS (0.1) STORED",
        "the column lap of {table} is gone, or takes no values any more",
    ),
}


@pytest.mark.parametrize(("statement", "said"), ALTERED.values(), ids=ALTERED)
def test_a_column_that_is_not_what_it_was(
    sandbox, schema, laps, replay_id, engines, capsys, statement: str, said: str
):
    table = Table.made(sandbox.database_url, schema, LAPS)
    said = said.replace("{table}", f"{schema}.cars")
    half_played(laps, table, replay_id, engines)
    table.run(statement)
    capsys.readouterr()
    for _ in range(2):
        assert code_of("resume", replay_id, "--yes") == EXIT_REFUSED
        refused = capsys.readouterr().err
        assert "its table was altered since" in refused
        assert said in refused
    assert len(table.rows()) == EACH, "nothing more is written beside what is altered"


@pytest.mark.parametrize(("statement", "said"), ALTERED.values(), ids=ALTERED)
def test_an_altered_column_of_a_finished_replay(
    sandbox, schema, laps, replay_id, capsys, statement: str, said: str
):
    table = Table.made(sandbox.database_url, schema, LAPS)
    said = said.replace("{table}", f"{schema}.cars")
    assert code_of("replay", laps, target(table), "--id", replay_id, "--yes") == 0
    assert code_of("verify", replay_id) == 0
    table.run(statement)
    capsys.readouterr()
    assert code_of("verify", replay_id) == EXIT_DIFFERENT
    found = "".join(capsys.readouterr())
    # A renamed column has values that no record gave it, and another one lacks them.
    assert ("DIFFERENT: " if "RENAME" in statement else "CANNOT BE TOLD: ") in found
    assert said in found
    assert "the values that a replay wrote there cannot be compared" in found
    assert code_of("resume", replay_id, "--yes") == EXIT_REFUSED
    capsys.readouterr()
    by_ledger = ("gaps", laps, target(table), "--by", "ledger", "--ledger", replay_id)
    assert code_of(*by_ledger) == 0, "no offset is missing"
    assert said in "".join(capsys.readouterr())


TYPES = {
    "a domain of another schema": (
        'CREATE DOMAIN "{s}".money AS numeric(10,4); ALTER TABLE {table} ADD lap "{s}".money',
        (
            'CREATE SCHEMA "{s}_b"; CREATE DOMAIN "{s}_b".money AS numeric(10,1); '
            'ALTER TABLE {table} ALTER lap TYPE "{s}_b".money'
        ),
        "was numeric(10,4), and is numeric(10,1) now",
    ),
    "a row type made again": (
        'CREATE TYPE "{s}".pair AS (a float8, b int); ALTER TABLE {table} ADD pos "{s}".pair',
        (
            'ALTER TABLE {table} ALTER pos TYPE text; DROP TYPE "{s}".pair; '
            'CREATE TYPE "{s}".pair AS (a real, b int); '
            'ALTER TABLE {table} ALTER pos TYPE "{s}".pair USING pos::"{s}".pair'
        ),
        "was a double precision, b integer; float8; int4, and is a real, b integer; float4; int4",
    ),
    "an array of a domain": (
        'CREATE DOMAIN "{s}".m AS numeric(10,4); ALTER TABLE {table} ADD times "{s}".m[]',
        (
            'CREATE DOMAIN "{s}".n AS numeric(10,1); ALTER TABLE {table} ALTER times TYPE "{s}".n[] '
            'USING times::numeric[]::"{s}".n[]'
        ),
        "was numeric; numeric(10,4)[], and is numeric; numeric(10,1)[] now",
    ),
}


@pytest.mark.parametrize(("made", "altered", "said"), TYPES.values(), ids=TYPES)
def test_a_type_that_is_another_one_below_its_name(
    sandbox, schema, on_tape, replay_id, capsys, made: str, altered: str, said: str
):
    tape = on_tape(', "lap": 0.126, "pos": "(0.1234567890123,2)", "times": [0.126]')
    table = Table.made(sandbox.database_url, schema, "id int PRIMARY KEY")
    table.run(made.replace("{s}", schema))
    assert code_of("replay", tape, target(table), "--id", replay_id, "--yes") == 0
    assert code_of("verify", replay_id) == 0
    table.run(altered.replace("{s}", schema))
    capsys.readouterr()
    assert code_of("verify", replay_id) == EXIT_DIFFERENT
    found = "".join(capsys.readouterr())
    assert "CANNOT BE TOLD: " in found
    assert said in found
    assert code_of("resume", replay_id, "--yes") == EXIT_REFUSED


def test_a_type_that_has_another_name_is_the_same(sandbox, schema, laps, replay_id):
    table = Table.made(sandbox.database_url, schema, "id int PRIMARY KEY")
    table.run(f"""CREATE TYPE "{schema}"."Te.am" AS ENUM ('HAM')""")
    table.run(f'CREATE DOMAIN "{schema}".time AS float8')
    table.run(f'ALTER TABLE {{table}} ADD car "{schema}"."Te.am", ADD lap "{schema}".time')
    assert code_of("replay", laps, target(table), "--id", replay_id, "--yes") == 0
    table.run(f'ALTER TYPE "{schema}"."Te.am" RENAME TO team')
    table.run(f'ALTER DOMAIN "{schema}".time RENAME TO seconds')
    assert code_of("verify", replay_id) == 0
    assert code_of("resume", replay_id, "--yes") == 0


@pytest.mark.parametrize(
    ("was", "is_now"), [("int", "bigint"), ("varchar(3)", "text"), ("numeric(3,2)", "numeric(9,2)")]
)
def test_a_column_may_be_widened_before_a_resume(
    sandbox, schema, on_tape, replay_id, engines, was: str, is_now: str
):
    table = Table.made(sandbox.database_url, schema, f"id int PRIMARY KEY, n {was}")
    half_played(
        on_tape(', "n": 250' if was != "numeric(3,2)" else ', "n": 2.5'), table, replay_id, engines
    )
    table.run(f"ALTER TABLE {{table}} ALTER n TYPE {is_now}")
    assert code_of("resume", replay_id, "--yes") == 0
    assert code_of("verify", replay_id) == 0


def test_a_key_that_was_renamed(sandbox, schema, laps, replay_id, capsys):
    table = Table.made(sandbox.database_url, schema, LAPS)
    rules = ("--key", "id", "--on-conflict", "update", "--yes")
    assert code_of("replay", laps, target(table), "--id", replay_id, *rules) == 0
    with closing(sqlite3.connect("own.db")) as file, file:
        file.execute("CREATE TABLE laps (id PRIMARY KEY, lap, _topic, _partition, _offset)")
    assert code_of("replay", laps, "sqlite:own.db?table=laps", "--id", "file", *rules) == 0
    assert code_of("verify", replay_id) == code_of("verify", "file") == 0
    table.run("ALTER TABLE {table} RENAME id TO ident")
    with closing(sqlite3.connect("own.db")) as file, file:
        file.execute("ALTER TABLE laps RENAME COLUMN id TO ident")
    for each, name in ((replay_id, f"{schema}.cars"), ("file", "laps")):
        capsys.readouterr()
        assert code_of("verify", each) == EXIT_DIFFERENT
        found = "".join(capsys.readouterr())
        assert "CANNOT BE TOLD: 0 records read back" in found
        assert f"{name} has no column id any more: no row could be looked up" in found


def test_a_column_that_was_added_is_named_where_rows_differ(
    sandbox, schema, laps, replay_id, capsys
):
    table = Table.made(sandbox.database_url, schema, "id int PRIMARY KEY, lap float8")
    assert code_of("replay", laps, target(table), "--id", replay_id, "--yes") == 0
    table.run("ALTER TABLE {table} ADD car text")
    capsys.readouterr()
    assert code_of("verify", replay_id) == EXIT_DIFFERENT
    assert (
        "the run wrote nothing into car; differences in these columns are no fault of it"
        in "".join(capsys.readouterr())
    )


def test_columns_that_no_record_filled_may_change(sandbox, schema, laps, replay_id, engines):
    table = Table.made(sandbox.database_url, schema, LAPS)
    half_played(laps, table, replay_id, engines)
    table.run("ALTER TABLE {table} DROP COLUMN note, ADD more int, ALTER car SET NOT NULL")
    assert code_of("resume", replay_id, "--yes") == 0
    assert code_of("verify", replay_id) == 0


def test_the_schema_of_a_type_is_shown_or_not(sandbox, schema, laps, replay_id, monkeypatch):
    table = Table.made(sandbox.database_url, schema, "id int PRIMARY KEY")
    table.run(f"""CREATE TYPE "{schema}".team AS ENUM ('HAM')""")
    table.run(f'ALTER TABLE {{table}} ADD car "{schema}".team')
    assert code_of("replay", laps, target(table), "--id", replay_id, "--yes") == 0
    monkeypatch.setenv("PGOPTIONS", f"-csearch_path={schema}")
    assert code_of("verify", replay_id) == 0


def test_a_column_of_a_file_that_was_renamed(laps, replay_id, engines, capsys):
    with closing(sqlite3.connect("own.db")) as file, file:
        file.execute("CREATE TABLE laps (id, lap, car, _topic, _partition, _offset)")
    into = ("replay", laps, "sqlite:own.db?table=laps")
    assert code_of(*into, "--id", replay_id, "--yes") == 0
    assert code_of("verify", replay_id) == 0
    engines.append(HalfAnEngine)
    assert code_of(*into, "--id", f"{replay_id}-half", "--yes") == 1
    engines.pop()
    with closing(sqlite3.connect("own.db")) as file, file:
        file.execute("ALTER TABLE laps RENAME COLUMN lap TO t")
    capsys.readouterr()
    assert code_of("verify", replay_id) == EXIT_DIFFERENT
    found = "".join(capsys.readouterr())
    assert "CANNOT BE TOLD: " in found
    assert "the column lap of laps is gone" in found
    assert code_of("resume", f"{replay_id}-half", "--yes") == EXIT_REFUSED
    assert "the column lap of laps is gone" in capsys.readouterr().err
