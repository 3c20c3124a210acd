"""What the player knows of a statement before it plays: its role, its mark, what of its text is a value."""

import tempfile
import time
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from playhead.queries.filters import Filters
from playhead.queries.flags import Flag
from playhead.queries.gate import Role
from playhead.queries.outcome import Outcome
from playhead.queries.sending import outcome_of
from playhead.queries.settings import Change, Settings, changes_of
from playhead.queries.sql_text import read_sql
from playhead.queries.sql_tokens import without_values
from playhead.queries.tape import FORCE, FORCED, Tape, TapeWriter
from playhead.queries.transactions import (
    CUT,
    PERHAPS_KEPT,
    SEVERAL,
    TOO_MANY,
    UNDONE,
    UNDONE_LATE,
    row_line,
)
from playhead.querylog.logged import UNKNOWN_SQLSTATE
from playhead.querylog.rows import MOST_LINE
from playhead.querylog.sql import may_write
from playhead.querylog.statement import Act, Statement


def statements(texts: Iterable[str], session: str = "a.1") -> list[Statement]:
    return [
        Statement(session, at + 1, at, Act.QUERY, at * 1_000, text, done_place=at, duration_us=10)
        for at, text in enumerate(texts)
    ]


def tape_of(given: Sequence[Statement]) -> Tape:
    return TapeWriter(Filters().reason, "commit", writes=may_write).write(given)


def roles(*texts: str) -> list[Role]:
    tape = tape_of(statements(texts))
    return [tape.role(at) for at in range(len(tape))]


def test_the_roles_of_a_session() -> None:
    found = roles(
        "SELECT 1",
        "BEGIN",
        "INSERT INTO t VALUES ('; COMMIT')",
        "SAVEPOINT s",
        "ROLLBACK TO s",
        "COMMIT AND CHAIN",
        "UPDATE t SET a = 1",
        "ROLLBACK",
        "UPDATE t SET a = 1",
        "BEGIN; DELETE FROM t; COMMIT",
        "SELECT * FROM t FOR UPDATE",
        "SELECT a_function()",
    )
    body, end, write = Role.BODY, Role.END, Role.WRITE
    chained = [end, body]
    ends = [body, end, write, write, write, write]
    expected = [Role.READ, body, body, body, body, *chained, *ends]
    assert found == expected


def test_a_text_is_divided_behind_each_transaction() -> None:
    texts = [
        "BEGIN ISOLATION LEVEL SERIALIZABLE",
        "COMMIT AND CHAIN; INSERT INTO t VALUES (1)",
        "COMMIT; INSERT INTO t VALUES (2); ROLLBACK; INSERT INTO t VALUES (3)",
    ]
    tape = tape_of(statements(texts))
    begin = texts[0]
    played = [
        (begin, 1, 0),
        ("COMMIT", 2, 0),
        (begin, 2, 1),
        ("INSERT INTO t VALUES (1)", 2, 2),
        ("COMMIT", 3, 0),
        ("INSERT INTO t VALUES (2); ROLLBACK", 3, 1),
        ("INSERT INTO t VALUES (3)", 3, 2),
    ]
    steps = [tape.step(at) for at in range(len(tape))]
    assert [(each.sql, row_line(each.line), each.line & 0xFFFF) for each in steps] == played
    assert [each.commit_at for each in steps] == [-1, 0, -1, -1, 0, -1, -1]


def statement(line: int, text: str, **more: Any) -> Statement:
    return Statement("a.1", line, line, Act.QUERY, line, text, done_place=line, **more)


def reasons(filters: Filters, *given: Statement) -> list[str]:
    tape = TapeWriter(filters.reason, "commit").write(given)
    return [tape.reason(at) for at in range(len(tape))]


def test_a_transaction_that_began_before_the_log_is_left_out() -> None:
    given = [
        statement(1, "UPDATE t SET a = 1", in_transaction=True),
        statement(2, "ROLLBACK", in_transaction=True),
        statement(3, "UPDATE t SET a = 2"),
        statement(4, "BEGIN", in_transaction=True),
    ]
    assert reasons(Filters(), *given) == [CUT, CUT, "", ""]


def test_a_transaction_is_filtered_as_a_whole() -> None:
    given = [
        statement(1, "BEGIN", application="a"),
        statement(2, "COMMIT", application="b"),
        statement(3, "BEGIN", application="b"),
        statement(4, "COMMIT", application="a"),
    ]
    only = Filters(applications=("a",))
    assert reasons(only, *given) == ["", "", "filter-application", "filter-application"]


def test_without_its_end_a_transaction_is_left_out() -> None:
    given = [
        statement(1, "BEGIN"),
        statement(2, "UPDATE t SET a = 1"),
        statement(3, "SELECT dblink('x'); COMMIT"),
        statement(4, "UPDATE t SET a = 2"),
    ]
    assert reasons(Filters(), *given) == ["elsewhere"] * 3 + [""]


def test_several_transactions_that_failed_are_left_out() -> None:
    text = "BEGIN; SELECT 1; COMMIT; SELECT 1 / 0"
    assert reasons(Filters(), statement(1, text, expected_error="22012")) == [SEVERAL]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("CALL p()", PERHAPS_KEPT),
        ("DO $$ BEGIN INSERT INTO t VALUES (1); COMMIT; PERFORM 1/0; END $$", PERHAPS_KEPT),
        ("DO $$ BEGIN EXECUTE 'call p()'; END $$", PERHAPS_KEPT),
        ("DO LANGUAGE plpython3u $$ plpy.commit(); x $$", "elsewhere"),
        ("DO $$ BEGIN INSERT INTO t VALUES (1); PERFORM 1/0; END $$", "filter-failed"),
        ("VACUUM t", "filter-failed"),
    ],
)
def test_what_may_have_committed_before_it_failed_is_not_replayable(text: str, reason: str) -> None:
    assert reasons(Filters(), statement(1, text, expected_error="22012")) == [reason]
    # In a transaction they cannot commit.
    inside = [statement(1, "BEGIN"), statement(2, text, expected_error="22012")]
    assert PERHAPS_KEPT not in reasons(Filters(), *inside)


def test_what_failed_and_cannot_be_played_fails_in_its_transaction() -> None:
    given = [
        statement(1, "BEGIN"),
        statement(2, "UPDATE t SET a = $1", expected_error="23505", unplayable="no-parameters"),
        statement(3, "COMMIT"),
    ]
    tape = TapeWriter(Filters().reason, "commit").write(given)
    step = tape.step(1)
    assert step.sql == FORCE
    assert outcome_of(step, FORCED, 0, 0)[0] is Outcome.NOT_REPLAYABLE
    assert tape.stand_ins == {"no-parameters": 1}


@pytest.mark.parametrize(
    ("error", "sent"), [("40001", "ROLLBACK"), (UNKNOWN_SQLSTATE, "ROLLBACK"), ("23503", "COMMIT")]
)
def test_a_commit_that_failed_for_its_moment_is_rolled_back(error: str, sent: str) -> None:
    given = [
        statement(1, "BEGIN"),
        statement(2, "INSERT INTO t VALUES (1)"),
        statement(3, "COMMIT", expected_error=error),
        statement(4, "SELECT 1"),
    ]
    tape = tape_of(given)
    step = tape.step(2)
    assert (step.sql, step.commit_at < 0, tape.role(2)) == (sent, sent == "ROLLBACK", Role.END)
    assert tape.role(3) is Role.READ
    missing = Outcome.EXPECTED_ERROR if sent == "ROLLBACK" else Outcome.ERROR_MISSING
    assert outcome_of(step, None, 1, 0)[0] is missing


def test_an_error_without_its_sqlstate_in_the_log_is_any_error() -> None:
    """A log of stderr without %e has none."""
    given = statement(1, "INSERT INTO t VALUES (1)", expected_error=UNKNOWN_SQLSTATE)
    step = tape_of([given]).step(0)
    assert outcome_of(step, "23505", 0, 0) == (Outcome.EXPECTED_ERROR, "23505")
    assert outcome_of(step, None, 1, 0)[0] is Outcome.ERROR_MISSING


def test_an_error_outside_of_a_transaction_opens_none() -> None:
    failed = Statement("a.1", 1, 0, Act.QUERY, 0, "BEGIN; x", done_place=0, expected_error="42601")
    later = Statement("a.1", 2, 1, Act.QUERY, 1, "SELECT 1", done_place=1)
    tape = tape_of([failed, later])
    assert [tape.role(at) for at in range(2)] == [Role.WRITE, Role.READ]


@pytest.mark.parametrize(
    ("text", "flag", "is_set"),
    [
        ("VACUUM t", Flag.ALONE, True),
        ("CREATE INDEX CONCURRENTLY i ON t (a)", Flag.ALONE, True),
        ("BEGIN; UPDATE t SET a = 1; COMMIT", Flag.ALONE, False),
        ("ALTER TABLE a.b DETACH PARTITION c.d CONCURRENTLY", Flag.ALONE, True),
        ("CREATE TEMP TABLE t (a int)", Flag.STICKY, True),
        ("CREATE TEMP TABLE t (a int) ON COMMIT DROP", Flag.STICKY, False),
        ("SELECT temp FROM weather", Flag.STICKY, False),
        ("CREATE OR REPLACE TEMP VIEW v AS SELECT 1", Flag.STICKY, True),
        ("DO $$ BEGIN PERFORM set_config('a.b', 'x', false); END $$", Flag.STICKY, True),
        ("DO $$ BEGIN PERFORM set_config('a.b', 'x', true); END $$", Flag.STICKY, False),
        ("DO $$ BEGIN SET a.b = 'x'; END $$", Flag.STICKY, True),
        ("DO $$ BEGIN EXECUTE 'SET a.b = 1'; END $$", Flag.STICKY, True),
        ("DO $$ BEGIN SET LOCAL a.b = 'x'; END $$", Flag.STICKY, False),
        ("DO $$ BEGIN UPDATE t SET a = 1; END $$", Flag.STICKY, False),
        ("INSERT INTO t SELECT set_config('a.b', 'x', false)", Flag.STICKY, True),
        ("SELECT set_config('a.b', 'x', false)", Flag.STICKY, False),
        ("SET a.b = 'x'", Flag.STICKY, False),
        ("SELECT 1 -- vacuum", Flag.ALONE, False),
    ],
)
def test_flags(text: str, flag: int, is_set: bool) -> None:
    tape = tape_of(statements([text]))
    assert bool(tape.step(0).flags & flag) is is_set


def test_a_mark_goes_before_the_only_commit() -> None:
    text = "BEGIN; INSERT INTO t VALUES ('COMMIT; x'); /* COMMIT; */ COMMIT"
    step = tape_of(statements([text])).step(0)
    assert text[step.commit_at :] == "COMMIT"
    assert step.parts == 3


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("ALTER SYSTEM SET a = 1", "alter-system"),
        ("/* x */ create USER me", "role"),
        ("DROP DATABASE d", "database"),
        ("COPY t TO PROGRAM 'rm'", "copy-elsewhere"),
        ("COPY (SELECT 1) TO '/tmp/x'", "copy-elsewhere"),
        ("COPY t FROM STDIN", None),
        ("SELECT dblink ('x', 'DELETE')", "elsewhere"),
        ("SELECT 'ALTER SYSTEM'", None),
        ("CREATE USER MAPPING FOR me SERVER s", None),
        ("SELECT 1; DROP ROLE r", "role"),
        ("GRANT pg_execute_server_program TO me", "role"),
        ("GRANT SELECT ON t TO me", None),
        ("SELECT dblink_exec/* */ ('x')", "elsewhere"),
        ("SELECT pg_catalog.\"pg_read_file\"('x')", "elsewhere"),
        ("SELECT U&\"pg_re\\0061d_file\"('x')", "elsewhere"),
        ("SELECT pg_read_file FROM t", None),
        ("SELECT 'pg_read_file(1)'", None),
        ("DO $$ BEGIN COPY t TO PROGRAM 'rm'; END $$", "copy-elsewhere"),
        ("DO $$ BEGIN EXECUTE 'CREATE ROLE r'; END $$", "role"),
        ("DO 'BEGIN EXECUTE ''COPY t TO ''''/tmp/x''''''; END'", "copy-elsewhere"),
        ("DO $$ BEGIN PERFORM lo_export(1, 'x'); END $$", "elsewhere"),
        ("DO $$ BEGIN UPDATE t SET a = 1; END $$", None),
        ("DO LANGUAGE plpython3u $$ import os $$", "elsewhere"),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE c AS 'x', 'y'", "elsewhere"),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'", None),
        (
            "create function f() returns void as $f$ begin copy t to program 'x'; end $f$",
            "copy-elsewhere",
        ),
        ("CREATE AGGREGATE a(oid) (sfunc = lo_export, stype = int)", "elsewhere"),
        ("SELECT query_to_xml('COPY t TO PROGRAM ''x''', true, true, '')", "copy-elsewhere"),
        ("COPY t FROM $1", "copy-elsewhere"),
        ("DELETE FROM playhead_ledger.marks", "ledger"),
        ("INSERT INTO playhead_ledger.marks VALUES (1)", None),
    ],
)
def test_what_reaches_beyond_the_database(text: str, word: str | None) -> None:
    assert read_sql(text).outside == word


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SELECT 'it''s'", "SELECT ?"),
        (r"SELECT E'it\'s mine', 1", "SELECT ?, ?"),
        ("SELECT $a$secret$a$, 1.5e3", "SELECT ?, ?"),
        ("SELECT a1 FROM t2 -- secret", "SELECT a1 FROM t2"),
        ("UPDATE  t\nSET a = -12", "UPDATE t SET a = -?"),
        ("SELECT 1_000, 0xFF, .5, 1e-5", "SELECT ?, ?, ?, ?"),
        ("SELECT /* secret /* more */ */ 2", "SELECT ?"),
        ("SELECT $é$secret$é$", "SELECT ?"),
        ("SELECT 'secret", "SELECT"),
        ("SELECT $a$secret", "SELECT"),
        ("SELECT U&'secret'", "SELECT ?"),
    ],
)
def test_a_report_has_no_values(text: str, shown: str) -> None:
    assert without_values(text) == shown


def settings_after(*transactions: Sequence[str], is_undone: bool = False) -> list[str]:
    settings = Settings()
    for texts in transactions:
        for text in texts:
            settings.note(changes_of(read_sql(text), ()))
        settings.end(is_undone=is_undone)
    return settings.texts()


def test_with_escapes_a_quote_does_not_end_a_text() -> None:
    text = r"INSERT INTO t VALUES ('it\'s; COMMIT;')"
    assert len(read_sql(text, escapes=True).parts) == 1
    assert without_values(text, escapes=True) == "INSERT INTO t VALUES (?)"


@pytest.mark.parametrize(
    "text",
    [
        "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END",
        "CREATE RULE r AS ON INSERT TO t DO ALSO (DELETE FROM u; DELETE FROM v)",
    ],
)
def test_a_body_does_not_end_its_statement(text: str) -> None:
    [part] = read_sql(text).parts
    assert not part.closes


def test_a_new_connection_gets_the_last_settings() -> None:
    texts = [
        "SET a = 1",
        "SET SESSION a TO 2",
        "PREPARE p AS SELECT 1",
        "SET a.b = 1",
        "SET a.c = 2",
    ]
    last = ["SET SESSION a TO 2", "SET a.b = 1", "SET a.c = 2"]
    assert settings_after(texts) == [*last, "PREPARE p AS SELECT 1"]
    assert settings_after(texts, ["DEALLOCATE P"]) == last
    assert settings_after(texts, ["DISCARD ALL"], ["SET c = 1"]) == ["SET c = 1"]
    assert settings_after(texts, is_undone=True) == ["PREPARE p AS SELECT 1"]


@pytest.mark.parametrize(
    ("texts", "left"),
    [
        (["SET a = 1; INSERT INTO t VALUES (1)"], ["SET a = 1"]),
        (["SET LOCAL a = 1"], []),
        (["SET a = 1", "SAVEPOINT s", "SET a = 2", "ROLLBACK TO SAVEPOINT s"], ["SET a = 1"]),
        (["SAVEPOINT s", "SET a = 1", "SAVEPOINT s", "SET b = 2", "ROLLBACK TO s"], ["SET a = 1"]),
        (["SET a = 1", "SAVEPOINT s", "SAVEPOINT t", "SET b = 2", "ROLLBACK TO s"], ["SET a = 1"]),
        (
            [
                "SET a = 1",
                "SAVEPOINT s",
                "SAVEPOINT t",
                "SAVEPOINT s",
                "ROLLBACK TO t",
                "ROLLBACK TO s",
            ],
            ["SET a = 1"],
        ),
        (
            ["SAVEPOINT s", "SET a = 1", "PREPARE p AS SELECT 1", "ROLLBACK TO s", "SET b = 2"],
            ["SET b = 2", "PREPARE p AS SELECT 1"],
        ),
        (["SELECT set_config('a', 'b', false)"], ["SELECT set_config('a', 'b', false)"]),
        (["SELECT set_config('a', f(), false)"], []),
        (["PREPARE TRANSACTION 'x'"], []),
    ],
)
def test_only_what_sets_is_sent_again(texts: Sequence[str], left: Sequence[str]) -> None:
    assert settings_after(texts) == left


def test_a_transaction_of_many_savepoints_takes_as_long_as_it_has_statements() -> None:
    settings = Settings()
    for number in range(30_000):
        settings.note((Change("set", f"s.s{number}", "SET"), Change("savepoint", "a", "")))
        settings.note((Change("set", "b", "SET"), Change("back", "a", "")))
    began = time.process_time()
    settings.end(is_undone=False)
    assert time.process_time() - began < 5
    assert len(settings.texts()) == 30_000


def test_a_setting_with_parameters_is_sent_again_with_its_values() -> None:
    sql = read_sql("SELECT set_config('a', $1, false)")
    [change] = changes_of(sql, ("it's \\",))
    assert change.text == "SELECT set_config('a',  E'it''s \\\\', false)"


@pytest.mark.parametrize(
    ("expected", "found", "done", "outcome"),
    [
        (None, None, 1, Outcome.REPLAYED),
        (None, "23505", 0, Outcome.UNEXPECTED_ERROR),
        ("23505", "23505", 0, Outcome.EXPECTED_ERROR),
        ("23505", "42P01", 0, Outcome.UNEXPECTED_ERROR),
        ("23505", FORCED, 1, Outcome.ERROR_MISSING),
        ("22P02", FORCED, 0, Outcome.EXPECTED_ERROR),
        ("57014", FORCED, 1, Outcome.EXPECTED_ERROR),
        ("40P01", "23505", 0, Outcome.EXPECTED_ERROR),
    ],
)
def test_outcomes(expected: str | None, found: str | None, done: int, outcome: Outcome) -> None:
    given = Statement(
        "a.1", 1, 0, Act.QUERY, 0, "SELECT f()", done_place=0, expected_error=expected
    )
    step = tape_of([given]).step(0)
    assert outcome_of(step, found, done, 0)[0] is outcome


def test_what_is_not_played_has_a_reason() -> None:
    given = [
        Statement("a.1", 1, 0, Act.QUERY, 0, "DROP ROLE r", database="app", done_place=0),
        Statement("a.1", 3, 3, Act.QUERY, 0, "SELECT 1", database="app", done_place=3),
        Statement("b.1", 1, 1, Act.QUERY, 0, "SELECT 1", database="other", done_place=1),
        Statement(
            "a.1", 2, 2, Act.QUERY, 0, "COPY t FROM STDIN", database="app", unplayable="copy-data"
        ),
    ]
    filters = Filters(databases=("app",))
    tape = TapeWriter(filters.reason, "commit", writes=may_write).write(given)
    assert [tape.reason(at) for at in range(4)] == ["role", "", "filter-database", "copy-data"]
    assert tape.databases == {"app"}


def test_a_tape_has_no_name_that_could_stay_behind(tmp_path, monkeypatch) -> None:
    """A run that is killed takes it along, with all values of the log."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tape = tape_of(statements(["SELECT 'a secret'"] * 3))
    assert tape.step(2).sql == "SELECT 'a secret'"
    assert not list(tmp_path.iterdir())


@pytest.mark.slow  # parses a text of 70,000 statements
def test_a_text_of_too_many_transactions_has_no_line_of_the_next_row() -> None:
    tape = tape_of(statements(["COMMIT;" * 70_000, "INSERT INTO t VALUES (1)"]))
    assert [tape.reason(at) for at in range(len(tape))] == [TOO_MANY, ""]
    assert [row_line(tape.lines[at]) for at in range(len(tape))] == [1, 2]


def test_the_last_line_number_that_is_read_has_room_on_the_tape() -> None:
    text = "INSERT INTO t VALUES (1); COMMIT; INSERT INTO t VALUES (2)"
    tape = tape_of([Statement("a.1", MOST_LINE - 1, 0, Act.QUERY, 0, text, done_place=0)])
    assert [row_line(tape.lines[at]) for at in range(2)] == [MOST_LINE - 1] * 2


def timed(session: str, text: str, began: int, ended: int) -> Statement:
    more = {"duration_us": ended - began, "done_place": ended}
    return Statement(session, ended, ended, Act.QUERY, began, text, **more)  # type: ignore[arg-type]


UPDATE = "UPDATE t SET a = 1"


@pytest.mark.parametrize(
    ("given", "plain", "mixed"),
    [
        ([timed("a.1", UPDATE, 1, 9), timed("a.2", UPDATE, 2, 10)], 1, 0),
        # One session has an order, whatever the rounding of the log's times.
        ([timed("a.1", UPDATE, 1, 9), timed("a.1", UPDATE, 8, 10)], 0, 0),
        ([timed("a.1", UPDATE, 1, 3), timed("a.2", UPDATE, 4, 6)], 0, 0),
        # While the transaction is open; it ended while the write waited; it began while the write ran.
        (
            [timed("a.1", "BEGIN", 1, 2), timed("a.1", UPDATE, 3, 4), timed("a.2", UPDATE, 5, 6)],
            0,
            1,
        ),
        (
            [
                timed("a.1", "BEGIN", 1, 2),
                timed("a.1", UPDATE, 3, 4),
                timed("a.1", "COMMIT", 7, 8),
                timed("a.2", UPDATE, 5, 9),
                timed("a.2", UPDATE, 10, 11),
            ],
            0,
            1,
        ),
        (
            [timed("a.1", "BEGIN", 1, 2), timed("a.2", UPDATE, 3, 7), timed("a.1", UPDATE, 5, 8)],
            0,
            1,
        ),
        (
            [
                timed("a.1", "BEGIN", 1, 2),
                timed("a.1", UPDATE, 3, 4),
                timed("a.1", "SELECT dblink('x'); COMMIT", 5, 6),
                timed("a.2", UPDATE, 7, 8),
            ],
            0,
            0,
        ),
        # Neither what only reads, nor what was rolled back, nor the same session.
        (
            [
                timed("a.1", "BEGIN", 1, 2),
                timed("a.1", "SELECT 1", 3, 4),
                timed("a.2", UPDATE, 5, 6),
            ],
            0,
            0,
        ),
        (
            [
                timed("a.1", "BEGIN", 1, 2),
                timed("a.1", UPDATE, 3, 4),
                timed("a.1", "COMMIT", 5, 6),
                timed("a.1", UPDATE, 5, 9),
            ],
            0,
            0,
        ),
    ],
)
def test_writes_that_have_no_order_are_counted(
    given: list[Statement], plain: int, mixed: int
) -> None:
    overlaps = tape_of(given).overlaps
    assert (overlaps.plain, overlaps.mixed) == (plain, mixed)


def unsynced(line: int, text: str, of: str, **more: Any) -> Statement:
    return statement(line, text, **more)._replace(act=Act.EXECUTE, transaction=of, parameters=())


def test_what_an_error_before_the_sync_undoes_is_not_played() -> None:
    given = [
        unsynced(1, "INSERT INTO t VALUES (1)", "3/7"),
        unsynced(2, "INSERT INTO t VALUES (2)", "3/8"),
        unsynced(3, "INSERT INTO t VALUES (3)", "3/8"),
        unsynced(4, "INSERT INTO t VALUES (4)", "3/8", expected_error="23505"),
        unsynced(5, "INSERT INTO t VALUES (5)", "3/9", expected_error="23505"),
        unsynced(6, "INSERT INTO t VALUES (6)", ""),
        unsynced(7, "INSERT INTO t VALUES (7)", "", expected_error="23505"),
        unsynced(8, "INSERT INTO t VALUES (8)", "3/11"),
        unsynced(9, "", "3/11", expected_error="23503"),
        unsynced(10, "BEGIN", "3/12"),
        unsynced(11, "INSERT INTO t VALUES (9)", "3/12"),
        unsynced(12, "INSERT INTO t VALUES (10)", "3/12", expected_error="23505"),
        unsynced(13, "ROLLBACK", "3/12"),
    ]
    undone = [2, 3, 4, 8, 9]
    found = reasons(Filters(), *given)
    assert [at for at, reason in enumerate(found, 1) if reason] == undone
    assert {found[at - 1] for at in undone} == {UNDONE}


def test_what_was_played_before_the_log_showed_its_error_is_named() -> None:
    writer = TapeWriter(Filters().reason, "commit", is_growing=True)
    writer.add([unsynced(1, "INSERT INTO t VALUES (1)", "3/8")])
    writer.tape.numbers.seal(2)
    writer.add([unsynced(2, "INSERT INTO t VALUES (2)", "3/8", expected_error="23505")])
    assert [writer.tape.reason(at) for at in range(len(writer.tape))] == ["", UNDONE_LATE]


def test_statements_of_other_tables_and_queries_are_left_out_one_by_one() -> None:
    texts = [
        "BEGIN",
        "INSERT INTO orders VALUES (1)",
        "INSERT INTO shop.order_lines VALUES (1)",
        "UPDATE stock SET n = n - 1",
        "WITH stock AS (SELECT 1) SELECT * FROM stock, orders",
        "DROP TABLE stock, shop.stock",
        "SET search_path = shop",
        "SELECT f()",
        "COMMIT",
    ]
    given = statements(texts)
    left_out = "filter-table"
    of_orders = ["", "", "", left_out, "", left_out, "", "", ""]
    assert reasons(Filters(tables=("order*",)), *given) == of_orders
    of_schema = ["", left_out, "", left_out, left_out, left_out, "", "", ""]
    assert reasons(Filters(tables=("shop.order*",)), *given) == of_schema
    left_out = "filter-query"
    found = reasons(Filters(queries=("insert into orders values (?)", "update*")), *given)
    assert found == ["", "", left_out, "", left_out, left_out, "", left_out, ""]
    # An error inside of a transaction is played, because the source has rolled it back.
    failed = [*given[:3], given[3]._replace(expected_error="23514"), given[-1]]
    assert reasons(Filters(tables=("order*",)), *failed) == ["", "", "", "", ""]


@pytest.mark.parametrize(
    ("text", "alters"),
    [
        ("alter table t add c int", True),
        ("SELECT 1; DROP TABLE t", True),
        ("TRUNCATE t", True),
        ("CREATE TEMP TABLE t (a int)", False),
        ("CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1", False),
        ("SELECT 'DROP TABLE t'", False),
        ("INSERT INTO t VALUES (1)", False),
    ],
)
def test_what_changes_the_schema_waits_for_reads(text: str, alters: bool) -> None:
    tape = tape_of(statements(["SELECT 1"], "a.1") + statements([text], "b.1"))
    assert (1 in tape.numbers.reads_before) is alters
