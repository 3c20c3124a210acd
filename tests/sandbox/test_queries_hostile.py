"""What a log can have that is not plain: the verdict is `equal` only if the tables are."""

import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from playhead.plan import Plan
from playhead.terms import Terms
from tests.fix_commands import Playhead
from tests.postgres_pair import DURATIONS, Postgres, started
from tests.query_days import Client, Day

ROWS = "SELECT * FROM t ORDER BY 1, 2"


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Postgres, Postgres]]:
    with tempfile.TemporaryDirectory(prefix="playhead-queries-") as name:
        base = Postgres(Path(name) / "base")
        base.make()
        more = {"max_prepared_transactions": "5"}
        source = base.copy_to(Path(name) / "source", DURATIONS | more)
        target = base.copy_to(Path(name) / "target", more)
        with started(source, target):
            yield source, target


@pytest.fixture
def day(servers: tuple[Postgres, Postgres], playhead: Playhead, tmp_path: Path) -> Iterator[Day]:
    name = f"day_{uuid.uuid4().hex[:8]}"
    for server in servers:
        server.sql(f"CREATE DATABASE {name}")
    made = Day(*servers, name, tmp_path, playhead)
    made.before("CREATE TABLE t (a int, b text)")
    yield made
    for server in servers:
        server.sql(f"DROP DATABASE {name} WITH (FORCE)")


def expect_equal(day: Day, *more: str, rows: str = ROWS) -> None:
    done = day.replay(*more)
    assert done.code == 0, done.said
    assert day.same(rows), day.on(day.target, rows)


def test_a_new_connection_gets_settings_and_no_writes(day: Day) -> None:
    with day.client() as one, day.client() as two:
        one.run("SET search_path = public; INSERT INTO t VALUES (1, 'x')")
        two.run("INSERT INTO t VALUES (2, 'y')")
        one.run("INSERT INTO t VALUES (3, 'z')")
        two.run("INSERT INTO t VALUES (4, 'y')")
        one.run("INSERT INTO t VALUES (5, 'z')")
    expect_equal(day, "--max-connections", "1")


def test_a_table_is_not_dropped_before_the_reads_that_came_first(day: Day) -> None:
    day.before("CREATE TABLE old (a int)")
    with day.client() as reader, day.client() as migration:
        for _ in range(20):
            reader.run("SELECT count(*) FROM old RIGHT JOIN generate_series(1, 100000) ON true")
        migration.run("BEGIN", "DROP TABLE old", "INSERT INTO t VALUES (1, 'dropped')", "COMMIT")
        reader.run("SELECT count(*) FROM t")
    expect_equal(day)


def test_each_session_keeps_what_it_has_set(day: Day) -> None:
    x, y = "current_setting('app.x', true)", "current_setting('app.y', true)"
    day.before(
        "CREATE SCHEMA b; CREATE TABLE b.t (a int, b text)",
        f"ALTER TABLE t ALTER b SET DEFAULT concat({x}, {y})",
    )
    with day.client() as one, day.client() as two, day.client() as three:
        one.run("SET app.x = 'x'", "SET app.y = 'y'")
        two.run("SELECT set_config('search_path', 'b', false)")
        three.run("BEGIN", "SET search_path = b", "SELECT 1/0", "COMMIT")
        three.run("BEGIN", "SET search_path = b", "ROLLBACK")
        three.run("BEGIN", "SAVEPOINT s", "SET search_path = b", "ROLLBACK TO s", "COMMIT")
        for n in range(3):
            one.run(f"INSERT INTO t VALUES ({n})")
            two.run(f"INSERT INTO t VALUES ({n}, 'b')")
            three.run(f"INSERT INTO t VALUES ({n}, 'c')")
    both = "SELECT tableoid::regclass, * FROM b.t UNION ALL SELECT tableoid::regclass, * FROM t ORDER BY 1, 2, 3"
    expect_equal(day, "--max-connections", "1", rows=both)


@pytest.mark.parametrize(
    ("before", "texts"),
    [
        ("CREATE TABLE v (a int)", ["CREATE OR REPLACE TEMP VIEW v AS SELECT 42 AS a"]),
        (
            "CREATE SCHEMA b; CREATE TABLE b.v AS SELECT 42 AS a; CREATE TABLE v (a int)",
            ["DO $$ BEGIN PERFORM set_config('search_path', 'b, public', false); END $$"],
        ),
    ],
)
def test_a_connection_that_cannot_be_made_again_is_kept(
    day: Day, before: str, texts: list[str]
) -> None:
    day.before(before)
    with day.client() as one, day.client() as two, day.client() as three:
        one.run(*texts, "SELECT 1")
        for n in range(3):
            two.run(f"INSERT INTO t VALUES ({n}, 'two')")
            three.run(f"INSERT INTO t VALUES ({n}, 'three')")
            one.run("INSERT INTO t SELECT a, 'one' FROM v")
    expect_equal(day, "--max-connections", "2")


def test_several_transactions_of_one_text_and_chained_ones(day: Day) -> None:
    with day.client() as one:
        one.run("BEGIN", "INSERT INTO t VALUES (1, 'x')", "COMMIT AND CHAIN")
        one.run("INSERT INTO t VALUES (2, 'x')", "ROLLBACK AND CHAIN")
        one.run("INSERT INTO t VALUES (3, 'x')", "COMMIT")
        one.run(
            "BEGIN; INSERT INTO t VALUES (4, 'x'); COMMIT; BEGIN; INSERT INTO t VALUES (5, 'x')"
        )
        one.run(
            "ROLLBACK", "INSERT INTO t VALUES (6, 'x'); ROLLBACK; INSERT INTO t VALUES (7, 'x')"
        )
        one.run("BEGIN", "INSERT INTO t VALUES (8, 'x')")
        one.run("COMMIT; BEGIN; INSERT INTO t VALUES (9, 'x')", "COMMIT")
    expect_equal(day)


def test_a_chained_transaction_is_not_committed_after_a_kill(day: Day) -> None:
    with day.client() as one:
        one.run("BEGIN", "INSERT INTO t VALUES (1, 'x')", "COMMIT AND CHAIN")
        one.run("INSERT INTO t VALUES (2, 'x')", "SELECT 'here'", "ROLLBACK")
    log = f"csvlog:{day.log()}"
    assert day.replay(log=log, PLAYHEAD_ABORT_AT="queries.sent#4").code != 0
    done = day.replay(log=log)
    assert done.code == 0, done.said
    assert day.same(ROWS), day.on(day.target, ROWS)


def test_a_transaction_that_began_before_the_log_is_left_out_and_named(day: Day) -> None:
    with day.client() as one:
        one.run("BEGIN", "INSERT INTO t VALUES (0, 'x')")
        day.before()
        one.run("INSERT INTO t VALUES (1, 'x')", "INSERT INTO t VALUES (2, 'x')", "ROLLBACK")
        one.run("INSERT INTO t VALUES (3, 'x')")
    done = day.replay()
    assert done.code == 4
    assert done.report["verdict"].startswith("INCOMPLETE")
    assert [each["reason"] for each in done.report["skipped"] if each["count"] == 3] == [
        "cut-transaction"
    ]
    assert day.same(ROWS), day.on(day.target, ROWS)


@pytest.mark.parametrize(
    ("failing", "option", "code"),
    [("SELECT 1/0", "--skip-selects", 0), ("COPY gone FROM STDIN", "--literals", 4)],
)
def test_a_transaction_that_failed_fails_without_the_statement(
    day: Day, failing: str, option: str, code: int
) -> None:
    with day.client() as one:
        one.run("BEGIN", "INSERT INTO t VALUES (0, 'x')", failing, "COMMIT")
    done = day.replay(option)
    assert done.code == code, done.said
    assert day.same(ROWS), day.on(day.target, ROWS)


def test_a_filter_does_not_divide_a_transaction(day: Day) -> None:
    with day.client() as one:
        one.run("SET application_name = 'a'", "BEGIN", "INSERT INTO t VALUES (0, 'x')")
        one.run("SET application_name = 'b'", "COMMIT", "SET application_name = 'a'")
        one.run("INSERT INTO t VALUES (1, 'x')", "INSERT INTO t VALUES (2, 'x')")
    expect_equal(day, "--applications", "a")


def test_a_client_with_another_encoding(day: Day) -> None:
    with day.client() as one:
        one.run("SET client_encoding = 'LATIN1'")
        one.pg.exec_("INSERT INTO t VALUES (0, 'é')".encode("latin1"))
        one.run("BEGIN", "SET client_encoding = 'LATIN9'")
        one.pg.exec_("INSERT INTO t VALUES (1, '€')".encode("iso8859-15"))
        one.run("COMMIT", "SELECT set_config('client_encoding', 'UTF8', false)")
        one.run("INSERT INTO t VALUES (2, 'é')")
    expect_equal(day)


def test_backslashes_that_escape_and_bodies_with_semicolons(day: Day) -> None:
    with day.client() as one:
        one.run("CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END")
        one.run("CREATE RULE r AS ON DELETE TO t DO ALSO (SELECT 1; SELECT 2)")
        one.run("SET standard_conforming_strings = off")
        one.run("INSERT INTO t VALUES (0, 'it\\'s; COMMIT;')")
        one.run("INSERT INTO t VALUES (1, 'it\\'s; BEGIN')", "INSERT INTO t VALUES (2, 'x')")
    expect_equal(day)
    assert day.same("SELECT pg_get_functiondef('f'::regproc)")


def test_a_long_copy_to_the_client_ends(day: Day) -> None:
    with day.client() as one:
        one.run("COPY (SELECT repeat('x', 100) FROM generate_series(1, 100000)) TO STDOUT")
        while one.pg.get_copy_data(0)[0] > 0:
            pass
        while one.pg.get_result():
            pass
        one.run("INSERT INTO t VALUES (2, 'x')")
    expect_equal(day)


def test_prepared_statements_that_are_dropped_and_come_again(day: Day) -> None:
    with day.client() as one, day.client() as two:
        for n, end in enumerate(("DISCARD ALL", "DEALLOCATE p", "DEALLOCATE ALL")):
            one.pg.prepare(b"p", b"INSERT INTO t VALUES ($1, 'p')")
            one.pg.exec_prepared(b"p", [b"%d" % n])
            two.run(f"INSERT INTO t VALUES ({n}, 'two')")
            one.run(end)
        one.run("PREPARE q AS INSERT INTO t VALUES (7, 'q')", "EXECUTE q", "BEGIN")
        one.run("PREPARE r AS INSERT INTO t VALUES (8, 'q')", "ROLLBACK", "EXECUTE r")
        two.run("INSERT INTO t VALUES (9, '')")
        one.run("EXECUTE q", "EXECUTE r", "BEGIN", "INSERT INTO t VALUES (10, 'two')")
        one.run(f"PREPARE TRANSACTION '{day.name}'", f"COMMIT PREPARED '{day.name}'")
        one.run("INSERT INTO t VALUES (10, 'three')")
    expect_equal(day, "--max-connections", "1")


def inserts(day: Day) -> str:
    with day.client() as one:
        one.run("INSERT INTO t VALUES (0, 'x')", "INSERT INTO t VALUES (0, 'y')")
        one.run("INSERT INTO t VALUES (1, 'x')", "SELECT 1", "SELECT 1")
    return f"csvlog:{day.log()}"


def test_another_machine_resumes_with_the_ledger_and_its_marks(day: Day, tmp_path: Path) -> None:
    log, other = inserts(day), {"XDG_STATE_HOME": str(tmp_path / "other")}
    assert day.replay(log=log, PLAYHEAD_ABORT_AT="queries.sent#4").code != 0
    users = day.replay("--users", "me", log=log, **other)
    assert users.code != 0
    assert "users" in users.said
    assert day.replay(log=log, **other).code == 0
    assert day.same(ROWS), day.on(day.target, ROWS)
    third = {"XDG_STATE_HOME": str(tmp_path / "third")}
    assert day.replay(log=log, **third).code == 0
    assert day.same(ROWS), day.on(day.target, ROWS)
    fourth = {"XDG_STATE_HOME": str(tmp_path / "fourth")}
    assert "has changed since it was planned" in day.replay(**fourth).said


def test_a_changed_ledger_plays_nothing_that_the_command_did_not_allow(
    day: Day, tmp_path: Path
) -> None:
    log, other = inserts(day), {"XDG_STATE_HOME": str(tmp_path / "other")}
    assert day.replay(log=log, PLAYHEAD_ABORT_AT="queries.sent#4").code != 0
    [[text]] = day.on(day.target, "SELECT terms::text FROM playhead_ledger.replays")
    terms = Terms.from_json(str(text))
    plan = Plan.from_document(terms.plan or {})
    for name, told in (
        ("allow", 'allow is []; the ledger says ["copy-elsewhere"]'),
        ("server", ""),
    ):
        needs = dict(plan.target.needs)
        rules = needs["queries"] | {"allow": ["copy-elsewhere"]}
        needs |= {"queries": rules} if name == "allow" else {"server": "7"}
        hostile = replace(plan, target=replace(plan.target, needs=needs)).terms()
        kept = replace(terms, plan=hostile.plan).as_json().replace("'", "''")
        day.on(day.target, f"UPDATE playhead_ledger.replays SET terms = '{kept}'")
        refused = day.replay(log=log, **other)
        assert refused.code == 6, refused.said
        assert (told or 'the ledger says "7"') in refused.said
    more = day.replay("--allow", "copy-elsewhere", log=log)
    assert more.code == 2, more.said
    assert "allow is not given in its plan, and copy-elsewhere in this command" in more.said
    assert "databases is" in day.replay("--databases", "else", log=log).said
    done = day.replay(log=log)
    assert done.code == 0, done.said
    assert f"  databases {day.name}" in done.said, "the rules of a saved plan are shown"
    assert day.same(ROWS), day.on(day.target, ROWS)


def test_a_transaction_that_a_text_with_do_commits_is_played_once(day: Day) -> None:
    with day.client() as one:
        one.run("BEGIN", "INSERT INTO t VALUES (1, 'x')")
        one.run("DO $$ BEGIN PERFORM 1; END $$; COMMIT", "SELECT 1", "SELECT 2")
    log = f"csvlog:{day.log()}"
    assert day.replay(log=log, PLAYHEAD_ABORT_AT="queries.answered#3").code != 0
    done = day.replay(log=log)
    assert done.code == 0, done.said
    assert day.same(ROWS), day.on(day.target, ROWS)


def test_without_marks_no_machine_resumes(day: Day, tmp_path: Path) -> None:
    log, other = inserts(day), {"XDG_STATE_HOME": str(tmp_path / "other")}
    assert day.replay("--no-marks", log=log, PLAYHEAD_ABORT_AT="queries.sent#4").code != 0
    assert "without marks" in day.replay("--no-marks", log=log, **other).said
    assert "other terms" in day.replay(log=log, **other).said


@pytest.mark.parametrize("dropped", ["SCHEMA playhead_ledger", "TABLE playhead_ledger.marks"])
def test_without_its_ledger_a_replay_does_not_begin_again(day: Day, dropped: str) -> None:
    log = inserts(day)
    assert day.replay(log=log, PLAYHEAD_ABORT_AT="queries.sent#4").code != 0
    day.on(day.target, f"DROP {dropped} CASCADE")
    assert "no ledger or no marks" in day.replay(log=log).said


def test_a_failure_before_a_kill_is_not_forgotten(day: Day) -> None:
    day.on(day.target, "CREATE UNIQUE INDEX ON t (a)")
    log = inserts(day)
    assert day.replay(log=log, PLAYHEAD_ABORT_AT="queries.sent#4").code != 0
    done = day.replay(log=log)
    assert done.code == 4
    assert done.report["divergences"] == 1


def test_a_temporary_table_that_is_lost_with_a_kill_is_named(day: Day) -> None:
    with day.client() as one:
        one.run(
            "CREATE TEMP TABLE x (a int)",
            "INSERT INTO x VALUES (1)",
            "INSERT INTO t VALUES (0, 'x')",
        )
        one.run("SELECT 1", "SELECT 1", "INSERT INTO t VALUES (1, 'x')")
    log = f"csvlog:{day.log()}"
    assert day.replay(log=log, PLAYHEAD_ABORT_AT="queries.sent#4").code != 0
    done = day.replay(log=log)
    assert done.code == 4
    assert done.report["state_lost"] == 1


def crossing(day: Day) -> None:
    with day.client() as one, day.client() as two:
        for n in range(10):
            one.run("BEGIN", f"INSERT INTO t VALUES ({n}, 'q')")
            two.run("BEGIN", f"UPDATE t SET b = 'x' WHERE a < {n}", "COMMIT")
            one.run("COMMIT")


@pytest.mark.parametrize("order", ["session", "strict"])
def test_the_other_orders(day: Day, order: str) -> None:
    crossing(day)
    done = day.replay("--order", order)
    assert done.code == 0, done.said
    assert ("can differ" in done.report["verdict"]) is (order == "session")
    assert order == "session" or day.same(ROWS)


def test_checks_and_the_flags_of_the_older_tool(day: Day, tmp_path: Path) -> None:
    crossing(day)
    junit, host = tmp_path / "junit.xml", ["-H", "127.0.0.1", "-P", str(day.target.port)]
    login = [
        "-d",
        day.name,
        "-u",
        "app",
        "-p",
        "${OLDER_SECRET}",
        "-m",
        "50",
        "-i",
        "-1",
        "-a",
        "0",
    ]
    checks = ["--fail-if", "p95 > 100000x", "--fail-if", "divergences >= 0", "--junit", str(junit)]
    words = [
        "queries",
        "replay",
        f"csvlog:{day.log()}",
        *host,
        *login,
        "-b",
        "app.example:9092",
        *checks,
    ]
    done = day.playhead(
        *words, "--databases", day.name, "--id", day.name, "-y", OLDER_SECRET="a@b/c%d"
    )
    assert done.returncode == 4, done.stderr
    assert "divergences >= 0: true" in done.stderr
    assert "a@b" not in done.stderr + done.stdout
    assert "warning: other users" not in done.stderr
    assert day.same(ROWS)
    found = junit.read_text()
    assert 'tests="3" failures="1"' in found


@pytest.mark.parametrize("is_open", [False, True])
def test_ignored_errors_of_integrity_have_their_own_outcome(day: Day, *, is_open: bool) -> None:
    with day.client() as one:
        one.run(*["BEGIN"] * is_open, "INSERT INTO t VALUES (1, 'x')", "SELECT 2")
        one.run("INSERT INTO t VALUES (3, 'y')", *["COMMIT"] * is_open)
    log = f"csvlog:{day.log()}"
    day.on(day.target, "CREATE UNIQUE INDEX ON t (a)", "INSERT INTO t VALUES (1, 'old')")
    killed = "queries.answered#4" if is_open else "queries.answered#3"
    assert day.replay("-i", "-1", log=log, PLAYHEAD_ABORT_AT=killed).code != 0
    done = day.replay("-i", "-1", log=log)
    assert done.code == 0, done.said
    assert done.report["verdict"].startswith("equal, but the tables can differ")
    assert done.report["outcomes"]["ignored"] == (3 if is_open else 1)
    assert "expected_error" not in done.report["outcomes"]


def test_a_commit_that_could_not_be_serialized_is_not_committed(day: Day) -> None:
    day.before("INSERT INTO t VALUES (1, '10')")
    with day.client() as one, day.client() as two:
        for each in (one, two):
            each.run("BEGIN ISOLATION LEVEL SERIALIZABLE", "SELECT sum(a) FROM t")
        one.run("INSERT INTO t VALUES (3, 'one')")
        two.run("INSERT INTO t VALUES (4, 'two')")
        one.run("COMMIT")
        two.run("COMMIT")
    assert "40001" in day.log().read_text()
    expect_equal(day)


def test_what_a_failed_procedure_has_committed_is_missing(day: Day) -> None:
    day.before(
        "CREATE PROCEDURE p() LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO t VALUES (1, 'kept'); COMMIT; PERFORM 1/0; END $$"
    )
    with day.client() as one:
        one.run("CALL p()", "INSERT INTO t VALUES (2, 'x')")
    done = day.replay()
    assert done.code == 4
    assert [each["reason"] for each in done.report["skipped"]] == ["perhaps-committed"]
    assert done.report["verdict"].startswith("INCOMPLETE"), done.report["verdict"]


# --- locks that outlive a statement --------------------------------------------------------------


def test_a_lock_of_a_session_that_is_given_back_late_stops_nobody(day: Day) -> None:
    """The row of the one that waited comes first, because the other slept behind its unlock."""
    with day.client() as first, day.client() as second:
        first.run("SELECT pg_advisory_lock(1)", "INSERT INTO t VALUES (1, 'first')")
        texts = ("SELECT pg_advisory_lock(1)", "INSERT INTO t VALUES (2, 'second')")
        waiting = threading.Thread(target=second.run, args=texts)
        waiting.start()
        time.sleep(0.3)
        first.run("SELECT pg_advisory_unlock(1), pg_sleep(0.3)")
        waiting.join()
        second.run("SELECT pg_advisory_unlock(1)")
    done = day.replay()
    assert (done.code, done.report["let_pass"]) == (0, 1), done.said
    assert day.same(ROWS), day.on(day.target, ROWS)


def test_a_lock_of_a_prepared_transaction_stops_nobody(day: Day) -> None:
    """The row of the one that waited comes before that of COMMIT PREPARED, which let it go."""
    day.before("INSERT INTO t VALUES (1, '')")
    with day.client() as first, day.client() as second:
        first.run("BEGIN", "UPDATE t SET b = b || '1'", f"PREPARE TRANSACTION '{day.name}'")
        texts = ("BEGIN", "UPDATE t SET b = b || '2'", "COMMIT")
        waiting = threading.Thread(target=second.run, args=texts)
        waiting.start()
        time.sleep(0.3)
        first.run(f"COMMIT PREPARED '{day.name}'")
        waiting.join()
    log = day.log()
    lines = log.read_text().splitlines(keepends=True)
    let_go = next(at for at, line in enumerate(lines) if "COMMIT PREPARED" in line)
    waited = next(at for at, line in enumerate(lines) if "|| '2'" in line)
    lines.insert(min(let_go, waited), lines.pop(max(let_go, waited)) if let_go < waited else "")
    log.write_text("".join(lines))
    done = day.replay(log=f"csvlog:{log}")
    assert (done.code, done.report["let_pass"]) == (0, 1), done.said
    assert day.same(ROWS), day.on(day.target, ROWS)


@pytest.mark.parametrize(
    "point",
    [
        "queries.answered#4",
        *(
            pytest.param(f"queries.{step}#{n}", marks=pytest.mark.torture)
            for step in ("sent", "answered")
            for n in range(1, 8)
        ),
    ],
)
def test_a_run_killed_beside_a_prepared_transaction_leaves_none(day: Day, point: str) -> None:
    """The verdict may be that PREPARE or COMMIT PREPARED failed, because the killed run has done it."""
    with day.client() as one, day.client() as two:
        one.run("BEGIN", "INSERT INTO t VALUES (1, '')", f"PREPARE TRANSACTION '{day.name}'")
        two.run("INSERT INTO t VALUES (2, '')")
        one.run("INSERT INTO t VALUES (3, '')", f"COMMIT PREPARED '{day.name}'")
        two.run("INSERT INTO t VALUES (4, '')")
    log = f"csvlog:{day.log()}"
    assert day.replay(log=log, PLAYHEAD_ABORT_AT=point).code != 0
    assert day.replay(log=log).code in (0, 4)
    assert day.same(ROWS), day.on(day.target, ROWS)
    assert day.on(day.target, "SELECT gid FROM pg_prepared_xacts") == []


def test_options_in_the_url_are_those_of_every_session(day: Day) -> None:
    for _ in range(2):
        with day.client() as one:
            one.run("INSERT INTO t SELECT 1, current_setting('synchronous_commit')")
            one.run("INSERT INTO t SELECT 2, current_setting('work_mem')")
    options = "-csynchronous_commit%3Dlocal%20-cwork_mem%3D12345kB"
    day.replay("--to", f"{day.url(day.target)}?options={options}")
    expected = [("1", "local"), ("1", "local"), ("2", "12345kB"), ("2", "12345kB")]
    assert day.on(day.target, ROWS) == expected


# --- logs of which nothing can be played ---------------------------------------------------------


def test_a_log_in_german_is_not_equal(day: Day) -> None:
    with day.client() as one:
        one.run("INSERT INTO t VALUES (1, 'x')")
    text = day.log().read_text()
    for english, german in (
        ("duration: ", "Dauer: "),
        (" ms  statement: ", " ms  Anweisung: "),
        ("connection authorized: user=", "Verbindung autorisiert: Benutzer="),
    ):
        text = text.replace(english, german)
    log = day.folder / "german.csv"
    log.write_text(text)
    done = day.replay(log=f"csvlog:{log}")
    assert done.code == 4
    assert done.report["verdict"].startswith("INCOMPLETE"), done.report["verdict"]


def test_a_log_without_names_of_databases_is_not_equal_by_its_filter(day: Day) -> None:
    log = day.folder / "postgresql.log"
    said = "LOG:  duration: 0.100 ms  statement: INSERT INTO t VALUES (1, 'x')"
    log.write_text(f"2026-11-24 09:00:01.000 UTC [4711] {said}\n")
    done = day.replay(log=f"pglog:{log}")
    assert done.code == 4
    assert done.report["verdict"].endswith("filtered, no statement was played"), done.report


# --- what transactions read ---------------------------------------------------------------------


def test_a_transaction_reads_what_it_read_on_the_source(day: Day) -> None:
    """Others change the rows before, between and after; one of them thinks for a while before it commits."""
    day.before("CREATE TABLE n (id int PRIMARY KEY, v bigint)", "INSERT INTO n VALUES (1, 1)")
    change, read = "UPDATE n SET v = v * 3 + {}", "INSERT INTO t SELECT {}, sum(v) FROM n"
    with day.client() as reader, day.client() as writer, day.client() as thinker:
        for at in range(6):
            thinker.run("BEGIN", change.format(at))
            time.sleep(0.1)
            reader.run("BEGIN", read.format(10 * at), read.format(10 * at + 1))
            time.sleep(0.8)
            thinker.run("COMMIT")
            writer.run(change.format(7))
            reader.run(read.format(10 * at + 2), "COMMIT")
            writer.run(change.format(8))
    for run, pace in (("max", "max"), ("fast", "5x")):
        day.on(day.target, "TRUNCATE t", "UPDATE n SET v = 1")
        done = day.replay("--pace", pace, run=f"{day.name}-{run}")
        assert (done.code, done.report["forced"]) == (0, 0), done.said
        assert day.same(ROWS), day.on(day.target, ROWS)
        assert day.same("SELECT * FROM n")


def test_a_lock_that_a_savepoint_gave_back_stops_nobody(day: Day) -> None:
    """On the source one waited for the other; here it is the first to lock, and ends after the other."""
    day.on(day.source, "INSERT INTO t VALUES (1, '')")
    with day.client() as first, day.client() as second:
        first.run("BEGIN", "SAVEPOINT here", "SELECT pg_sleep(0.5)", "UPDATE t SET b = b || '1'")
        waiting = threading.Thread(target=second.run, args=("BEGIN", "UPDATE t SET b = b || '2'"))
        waiting.start()
        time.sleep(0.5)
        first.run("ROLLBACK TO here")
        waiting.join()
        second.run("COMMIT")
        first.run("UPDATE t SET b = b || '3'", "COMMIT")
    expect_equal(day)


@pytest.mark.parametrize("is_at_start", [False, True], ids=["durations", "starts"])
def test_a_batch_that_failed_before_its_sync_leaves_nothing(day: Day, is_at_start: bool) -> None:
    day.before(
        "CREATE TABLE u (a int PRIMARY KEY, b int REFERENCES u DEFERRABLE INITIALLY DEFERRED)"
    )
    with day.client() as client:
        if is_at_start:
            client.run("SET log_statement = 'all'; SET log_min_duration_statement = -1")
        client.batch("INSERT INTO t VALUES (1, 'kept')", "INSERT INTO t VALUES (2, 'kept')")
        client.batch("INSERT INTO t VALUES (3, 'gone')", "INSERT INTO t VALUES (4, 1 / 0)")
        client.batch("INSERT INTO u VALUES (1)", "INSERT INTO u VALUES (1)")
        client.batch("INSERT INTO u VALUES (2, 3)", "INSERT INTO t VALUES (5, 'gone')")
        client.batch("INSERT INTO u VALUES (3, 4)").run("INSERT INTO u VALUES (5, 6)")
        client.batch("INSERT INTO t VALUES (6, 'gone')", "SELECT FROM nowhere")
        client.batch("BEGIN", "INSERT INTO t VALUES (7, 'gone')", "SELECT 1 / 0", "COMMIT").run(
            "ROLLBACK"
        )
        client.run("INSERT INTO t VALUES (8, 'kept')", "SELECT 1 / 0")
        client.batch("INSERT INTO t VALUES (9, 'kept')")
        client.batch("SELECT 1 / 0")
        client.batch("BEGIN", "INSERT INTO t VALUES (10, 'kept')", "COMMIT")
        client.batch("INSERT INTO u VALUES (1)")
    both = "SELECT a, b FROM t UNION ALL SELECT a, b::text FROM u ORDER BY 1, 2"
    assert [row[0] for row in day.on(day.source, both)] == ["1", "1", "2", "8", "9", "10"]
    expect_equal(day, rows=both)


def test_only_one_table_is_played(day: Day) -> None:
    day.before("CREATE TABLE other (a int)")
    with day.client() as client:
        client.run(
            "BEGIN", "INSERT INTO t VALUES (1, 'x')", "INSERT INTO other VALUES (1)", "COMMIT"
        )
        client.run("INSERT INTO other VALUES (2)").bound("INSERT INTO t VALUES ($1, 'y')", "2")
        client.run(
            "BEGIN", "INSERT INTO t VALUES (3, 'z')", "INSERT INTO other VALUES (1 / 0)", "COMMIT"
        )
    done = day.replay("--tables", "t")
    assert done.code == 0, done.said
    assert day.same(ROWS)
    assert day.on(day.target, "SELECT * FROM other") == []
    assert "--tables" in done.said


def test_a_client_without_rights_gets_none_on_the_target(day: Day) -> None:
    """Its statements have no effect on the source and do not fail there; here the user of --to could do them."""
    stranger = f"stranger_{day.name}"
    for server in (day.source, day.target):
        day.on(server, f"CREATE ROLE {stranger} LOGIN")
    day.before()
    client = Client(day.url(day.source).replace("//app@", f"//{stranger}@"))
    client.run(f"GRANT ALL ON DATABASE postgres TO {stranger}")
    for text in (
        f"GRANT pg_execute_server_program TO {stranger}",
        "CREATE FUNCTION h(oid, text) RETURNS int LANGUAGE internal AS 'be_lo_export'",
        f"CREATE TEMP VIEW v AS TABLE pg_authid; UPDATE v SET rolsuper = true WHERE rolname = '{stranger}'",
    ):
        client.run(f"DO $$BEGIN {text}; EXCEPTION WHEN OTHERS THEN NULL; END$$")
    client.run("SELECT 1").close()
    done = day.replay()
    assert day.on(
        day.target,
        f"SELECT rolsuper, pg_has_role(oid, 'pg_execute_server_program', 'MEMBER'), "
        f"has_database_privilege(oid, 'postgres', 'CREATE'), to_regproc('h') "
        f"FROM pg_roles WHERE rolname = '{stranger}'",
    ) == [("f", "f", "f", None)]
    assert done.code == 4, done.said
    assert done.report["verdict"].startswith("INCOMPLETE")
    for server in (day.source, day.target):
        day.on(server, f"DROP ROLE {stranger}")
