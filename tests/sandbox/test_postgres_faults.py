"""Whatever happens to a commit, a table holds whole slices, each once, and the resume completes them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

import playhead
from playhead.account import Account
from playhead.errors import Unavailable
from playhead.host.faults import abort_points
from playhead.ledger import remaining
from playhead.postgres.errors import SliceNotWritten, TableChanged
from playhead.postgres.target import PostgresTarget
from playhead.record import Record, Slice
from playhead.records import Records
from playhead.sandbox import Endpoints, Sandbox
from playhead.target import AlreadyCommitted, Inspection
from playhead.testing import Aborted, armed
from playhead.testing.link_proxy import LinkProxy
from playhead.testing.target_case import terms
from tests.sandbox.postgres_table import Table, record

FOLDER = Path(playhead.__file__).parent
ROOT = Path(__file__).parents[2]
# Those of what `newer` remembers are passed in test_postgres_newer.
POINTS = sorted(
    name
    for name in abort_points(FOLDER)
    if name.startswith(("postgres.", "tables.terms_")) and not name.startswith("postgres.latest.")
)
REPLAY = "7f3a"
COLUMNS = "id int PRIMARY KEY, v text, _topic text, _partition int, _offset int8"
# Direct, apart (some rows are there), by the stage (tombstones).
SLICES = [Slice("cars", 0, 0, 20), Slice("cars", 0, 20, 40), Slice("cars", 0, 40, 60)]
WITHIN_S = 60
TERMS = ("terms_looked", "terms_written", "terms_committed")


def records_of(slice_: Slice) -> list[Record]:
    """The second slice replaces five rows of the first; the third deletes every even one there is."""
    if slice_.from_offset < 20:
        return [record(n, {"id": n, "v": "x"}) for n in range(slice_.from_offset, slice_.to_offset)]
    if slice_.from_offset < 40:
        span = range(slice_.from_offset, slice_.to_offset)
        return [record(n, {"id": n - 5, "v": "y"}) for n in span]
    gone = [record(40 + n // 2, None, key=b"%d" % n) for n in range(0, 36, 2)]
    odd = [record(n, {"id": n, "v": "z"}) for n in range(41, 60, 2)]
    return sorted([each for each in gone if each.offset % 2 == 0] + odd, key=lambda r: r.offset)


def target_of(url: str, schema: str) -> PostgresTarget:
    return PostgresTarget(
        url,
        f"{schema}.cars",
        on_conflict="update",
        tombstones="delete",
        ledger_table=f"{schema}.ledger",
    )


def run(url: str, schema: str) -> None:
    """The replay, from the start or on from where it died."""
    target = target_of(url, schema)
    target.prepare(REPLAY, Inspection(""), terms("cars"))
    left = remaining(SLICES, [entry.slice for entry in target.entries(REPLAY)])
    with target.hold(REPLAY), target.open(REPLAY) as writer:
        for slice_ in left:
            account, rows = Account(slice_), records_of(slice_)
            account.read = len(rows)
            writer.commit(account, [Records.of(rows)])


def expected(slices: int) -> dict[int, int]:
    """id to offset after so many slices, record by record."""
    rows: dict[int, int] = {}
    for slice_ in SLICES[:slices]:
        for each in records_of(slice_):
            if each.value is None:
                rows.pop(int(each.key or b""), None)
            else:
                rows[json.loads(each.value)["id"]] = each.offset
    return rows


def assert_whole_slices(table: Table) -> int:
    committed = [entry.slice for entry in target_of(table.url, table.schema).entries(REPLAY)]
    assert committed == SLICES[: len(committed)]
    assert dict(table.rows("id, _offset")) == expected(len(committed))
    return len(committed)


@pytest.fixture
def table(sandbox: Endpoints, schema: str) -> Table:
    return Table.made(sandbox.database_url, schema, COLUMNS)


def killed_at(table: Table, point: str) -> "subprocess.CompletedProcess[str]":
    code = "import sys; from tests.sandbox.test_postgres_faults import run; run(*sys.argv[1:])"
    environment = {**os.environ, "PYTHONPATH": f"{FOLDER.parent}:{ROOT}"}
    return subprocess.run(
        [sys.executable, "-c", code, table.url, table.schema],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        env={**environment, "PLAYHEAD_ABORT_AT": point},
    )


def test_each_way_is_taken_and_there_are_points_on_each(table: Table) -> None:
    assert len(POINTS) >= 11
    run(table.url, table.schema)
    assert assert_whole_slices(table) == 3
    entries = target_of(table.url, table.schema).entries(REPLAY)
    assert [entry.details["way"] for entry in entries] == ["direct", "apart", "staged"]
    counts = {"inserted": 15, "updated": 5, "left_alone": 0}
    same = {name: entries[0].details[name] for name in ("storage", "columns")}
    assert entries[1].details == {"way": "apart"} | same | counts


@pytest.mark.parametrize("point", POINTS)
def test_raised_at(table: Table, point: str) -> None:
    with armed(f"{point}=raise"), pytest.raises(Aborted):
        run(table.url, table.schema)
    assert_whole_slices(table)
    run(table.url, table.schema)
    assert assert_whole_slices(table) == 3


@pytest.mark.torture(one_of=3)
@pytest.mark.parametrize(
    "passing", [1, *(pytest.param(later, marks=pytest.mark.torture) for later in (2, 3))]
)
@pytest.mark.parametrize("point", POINTS)
def test_killed_at(table: Table, point: str, passing: int) -> None:
    dead = killed_at(table, f"{point}#{passing}")
    is_passed_once = point.split(".")[1] in ("direct", "apart", "stage", *TERMS)
    if not (is_passed_once and passing > 1):
        assert dead.returncode == -signal.SIGKILL, dead.stderr
    assert_whole_slices(table)
    run_when_let_go(table)
    assert assert_whole_slices(table) == 3


def run_when_let_go(table: Table) -> None:
    """The server may take a moment to notice that the dead one's session is gone."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        try:
            return run(table.url, table.schema)
        except Exception as exc:
            if "is running already" not in str(exc) or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def test_of_two_that_commit_one_slice_one_is_refused(table: Table) -> None:
    target = target_of(table.url, table.schema)
    run(table.url, table.schema)
    account, rows = Account(SLICES[0]), records_of(SLICES[0])
    account.read = len(rows)
    with target.open(REPLAY) as writer, pytest.raises(AlreadyCommitted):
        writer.commit(account, [Records.of(rows)])
    assert assert_whole_slices(table) == 3


def test_who_watches_keeps_one_connection_and_makes_another_when_it_is_lost(table: Table) -> None:
    run(table.url, table.schema)
    mark = f"watching {table.schema[-8:]}"  # PostgreSQL keeps 63 bytes of it
    target = replace(
        target_of(table.url, table.schema), url=f"{table.url}?application_name={quote(mark)}"
    )
    its_own = "FROM pg_stat_activity WHERE application_name = %s"
    with (
        psycopg.connect(table.url, autocommit=True) as onlooker,
        target.watch(REPLAY) as entries,
    ):

        def pids() -> list[int]:
            return [pid for (pid,) in onlooker.execute(f"SELECT pid {its_own}", (mark,))]

        assert [[each.slice for each in entries()] for _ in range(3)] == [SLICES] * 3
        [first] = pids()
        onlooker.execute("SELECT pg_terminate_backend(%s, 5000)", (first,))
        with pytest.raises(Unavailable):
            entries()
        assert [each.slice for each in entries()] == SLICES
        [second] = pids()
    assert first != second


def test_a_table_that_changes_in_between_is_not_written_to(table: Table) -> None:
    target = target_of(table.url, table.schema)
    with target.open(REPLAY) as writer:
        for number, slice_ in enumerate(SLICES[:2]):
            account, rows = Account(slice_), records_of(slice_)
            account.read = len(rows)
            if number == 0:
                writer.commit(account, [Records.of(rows)])
                table.run("ALTER TABLE {table} ALTER v TYPE varchar(3)")
                continue
            with pytest.raises(
                TableChanged, match="column v was text and is now character varying"
            ):
                writer.commit(account, [Records.of(rows)])


class TestTheServerGoesAway:
    @pytest.fixture
    def own(self, servers_folder: Path) -> Iterator[Sandbox]:
        folder = servers_folder / "own"
        sandbox = Sandbox(folder)
        with sandbox.running():
            yield sandbox

    @pytest.mark.torture
    @pytest.mark.parametrize("point", ["postgres.direct.copied", "postgres.ledger.added"])
    def test_stopped_immediately_before_a_commit(self, own: Sandbox, point: str) -> None:
        url = own.endpoints().database_url
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA IF EXISTS own CASCADE; CREATE SCHEMA own")
        table = Table.made(url, "own", COLUMNS)
        code = "import sys; from tests.sandbox.test_postgres_faults import run; run(*sys.argv[1:])"
        environment = {**os.environ, "PYTHONPATH": f"{FOLDER.parent}:{ROOT}"}
        child = subprocess.Popen(
            [sys.executable, "-c", code, url, "own"],
            env={**environment, "PLAYHEAD_ABORT_AT": f"{point}=stop"},
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            os.waitpid(child.pid, os.WUNTRACED)
            pid = own.status().database_pid
            assert pid is not None
            os.kill(pid, signal.SIGQUIT)
            deadline = time.monotonic() + WITHIN_S
            while own.status().database_pid is not None and time.monotonic() < deadline:
                time.sleep(0.05)
            os.kill(child.pid, signal.SIGCONT)
            _, said = child.communicate(timeout=WITHIN_S)
        finally:
            child.kill()
        assert "SliceNotWritten" in said, said
        own.up()
        assert assert_whole_slices(table) == 0
        run(url, "own")
        assert assert_whole_slices(table) == 3

    def test_the_link_is_cut_while_a_slice_is_written(
        self, table: Table, database_link: LinkProxy
    ) -> None:
        server = table.url.rpartition("@")[2].partition("/")[0]
        url = table.url.replace(server, database_link.address)
        target = target_of(url, table.schema)

        def cut_off() -> Iterator[Records]:
            yield Records.of(records_of(SLICES[0]))
            database_link.cut()

        account = Account(SLICES[0])
        account.read = 20
        with target.open(REPLAY) as writer, pytest.raises(Unavailable) as caught:
            writer.commit(account, cut_off())
        assert "playhead resume" in (caught.value.hint or "")
        database_link.restore()
        assert assert_whole_slices(table) == 0
        run(url, table.schema)
        assert assert_whole_slices(table) == 3


def test_a_full_disk_is_said_and_the_resume_goes_on_when_there_is_room(table: Table) -> None:
    """The server's own error, raised where it would be: by the statement that adds the rows."""
    table.run(
        f"""CREATE FUNCTION "{table.schema}".no_room() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE EXCEPTION 'could not extend file "base/1/2": No space left on device'
            USING ERRCODE = 'disk_full'; END $$;
            CREATE TRIGGER no_room BEFORE INSERT ON {{table}} FOR EACH ROW
            WHEN (NEW.id = 30) EXECUTE FUNCTION "{table.schema}".no_room()"""
    )
    with pytest.raises(SliceNotWritten, match="the server's disk is full: could not extend"):
        run(table.url, table.schema)
    assert assert_whole_slices(table) == 1
    table.run("DROP TRIGGER no_room ON {table}")
    run(table.url, table.schema)
    assert assert_whole_slices(table) == 3


@pytest.fixture
def small_disk(running_sandbox: Sandbox, servers_folder: Path) -> Iterator[Path]:
    """A real disk of 8 MB that the database can use; only root can make one."""
    folder = servers_folder / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "small", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs a user who may mount a file system")
    owner = running_sandbox.database.data.stat()
    os.chown(folder, owner.st_uid, owner.st_gid)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.torture
def test_a_disk_that_is_really_full(table: Table, small_disk: Path) -> None:
    name = f"{table.schema}_small"
    table.run(f"CREATE TABLESPACE \"{name}\" LOCATION '{small_disk}'")
    table.run(f'ALTER TABLE {{table}} SET TABLESPACE "{name}"')
    filler = small_disk / "filler"
    try:
        # As much as there is; a file system says so in the middle of a block.
        with pytest.raises(OSError, match="No space"):
            filler.write_bytes(bytes(9 << 20))
        with pytest.raises(SliceNotWritten, match="the server's disk is full: could not extend"):
            run(table.url, table.schema)
        assert assert_whole_slices(table) == 0
        filler.unlink()
        run(table.url, table.schema)
        assert assert_whole_slices(table) == 3
    finally:
        table.run("DROP TABLE {table}")
        table.run(f'DROP TABLESPACE "{name}"')
