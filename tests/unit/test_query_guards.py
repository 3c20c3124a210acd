"""Whoever may send statements to the source cannot make a replay do what its guards refuse."""

import time
from collections.abc import Iterable
from typing import Any

import pytest

from playhead.pace import Pace
from playhead.queries.filters import UNCLEAR, Filters
from playhead.queries.flags import Flag
from playhead.queries.gate import Role
from playhead.queries.log import Log
from playhead.queries.player import Player
from playhead.queries.rules import Earlier, PlayRules
from playhead.queries.settling import Settling
from playhead.queries.tape import Tape, TapeWriter
from playhead.querylog.rows import LogRow, NotARow
from playhead.querylog.shapes import read_row
from playhead.querylog.sql import normalized, understand
from playhead.querylog.statement import Act, Statement
from tests.unit.test_querylog_statements import read_statements

ALTER = "ALTER SYSTEM SET a = 1"


def statements(texts: Iterable[str], *, errors: str | None = None, **more: str) -> list[Statement]:
    return [
        Statement(
            "a.1", at + 1, at, Act.QUERY, at * 1_000, text, done_place=at, duration_us=10,
            expected_error=errors, **more,  # type: ignore[arg-type]
        )
        for at, text in enumerate(texts)
    ]  # fmt: skip


def tape_of(*texts: str, filters: Filters | None = None, errors: str | None = None) -> Tape:
    return TapeWriter((filters or Filters()).reason, "commit").write(
        statements(texts, errors=errors)
    )


def reasons(*texts: str, filters: Filters | None = None) -> list[str]:
    tape = tape_of(*texts, filters=filters)
    return [tape.reason(at) for at in range(len(tape))]


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT 1 -- x\r; {ALTER}",
        "-- x\rCOPY t TO PROGRAM 'id'",
        f"SELECT $😀$x$😀$; {ALTER}",
        f"SELECT 0xe--'\n; {ALTER}; --'",
        f"SELECT 1e--'\n; {ALTER}; --'",
        "SELECT U&\"!0064blink_exec\" UESCAPE '!' (1, 2)",
        "CREATE FUNCTION h(oid) RETURNS int LANGUAGE internal STRICT AS 'be_lo_export'",
        "CREATE FUNCTION f(language internal) RETURNS int AS 'libc.so.6', 'system' LANGUAGE c",
        "ALTER LANGUAGE plpython3u RENAME TO plv8",
        "UPDATE pg_catalog.pg_authid SET rolsuper = true",
        "UPDATE pg_database SET datallowconn = false",
        "CREATE FOREIGN TABLE x (a text) SERVER s OPTIONS (program 'id')",
        "CREATE RULE r AS ON INSERT TO playhead_ledger.marks DO INSTEAD NOTHING",
        "SET search_path TO playhead_ledger",
        'DELETE FROM U&"playhead\\005fledger".marks',
        'EXPLAIN ANALYZE DELETE FROM U&"playhead\\005fledger".marks',
        'WITH x AS (DELETE FROM U&"playhead\\005fledger".marks RETURNING 1) SELECT * FROM x',
        f"CREATE FUNCTION begin() RETURNS int LANGUAGE sql AS 'select 1'; {ALTER}",
    ],
)
def test_it_is_not_played(text: str) -> None:
    assert any(reasons(text)), text


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("SELECT ('/etc/passwd'::text).pg_read_file", "elsewhere"),
        ("SELECT x.pg_read_file FROM unnest(ARRAY['/etc/passwd'::text]) AS x", "elsewhere"),
        ("SELECT x . /**/ \"lo_import\" FROM unnest(ARRAY['/etc/passwd'::text]) x", "elsewhere"),
        ("INSERT INTO t SELECT (1).pg_terminate_backend", "elsewhere"),
        ("SELECT x.ts_stat FROM unnest(ARRAY['select pg_read_file(''x'')']) AS x", "elsewhere"),
        ("DO $$BEGIN PERFORM ('/etc/passwd'::text).pg_read_file; END$$", "elsewhere"),
        (
            "SELECT ts_stat(q) FROM (VALUES (U&'copy t to pro!0067ram ''id''' UESCAPE '!')) v(q)",
            "copy-elsewhere",
        ),
        ("ALTER TABLE f OPTIONS (ADD program 'id')", "elsewhere"),
        ("ALTER TABLE IF EXISTS ONLY f ADD b int, OPTIONS (SET filename '/x')", "elsewhere"),
        ("DO $$BEGIN ALTER TABLE f OPTIONS (ADD program 'id'); END$$", "elsewhere"),
        ("UPDATE pg_foreign_table SET ftoptions = '{program=id}'", "elsewhere"),
        ("UPDATE pg_operator SET oprcode = 'lo_export'::regproc", "elsewhere"),
        ("CREATE OPERATOR ## (FUNCTION = ts_stat, RIGHTARG = text)", "elsewhere"),
        (
            "DO $$BEGIN CREATE OPERATOR ## (FUNCTION = lo_export, LEFTARG = oid, RIGHTARG = text); END$$",
            "elsewhere",
        ),
        ("GRANT ALTER SYSTEM ON PARAMETER archive_command TO u", "role"),
        ('GRANT SET ON PARAMETER "archive_command" TO u', "role"),
        (
            "CREATE FUNCTION f() RETURNS void LANGUAGE plperl AS $$run(\"COPY t TO PROGRAM 'id'\")$$",
            "copy-elsewhere",
        ),
    ],
)
def test_no_function_is_called_without_its_brackets(text: str, word: str) -> None:
    assert reasons(text) == [word]


# What fails for a client without rights; a block that ignores the error succeeds on the source, and acts here.
_NEEDS_RIGHTS = [
    ("GRANT pg_execute_server_program TO mallory", "role"),
    ('REVOKE "x" FROM mallory', "role"),
    ("GRANT SET ON PARAMETER archive_command TO mallory", "role"),
    ("GRANT ALL ON DATABASE other TO mallory", "database"),
    ('REVOKE CONNECT ON DATABASE "other" FROM PUBLIC', "database"),
    ("GRANT CREATE ON TABLESPACE other TO mallory", "database"),
    ("GRANT USAGE ON FOREIGN SERVER s TO mallory", "elsewhere"),
    ("CREATE SCHEMA s GRANT ALL ON DATABASE other TO mallory", "database"),
    ("DROP OWNED BY x", "role"),
    ("REASSIGN OWNED BY x TO mallory", "role"),
    ("LOAD '/tmp/x.so'", "elsewhere"),
    ("CREATE OR REPLACE TRUSTED PROCEDURAL LANGUAGE x HANDLER f", "elsewhere"),
    ("DROP LANGUAGE x", "elsewhere"),
    ("CREATE FUNCTION h(oid) RETURNS int LANGUAGE internal AS 'be_lo_export'", "elsewhere"),
    ("CREATE FUNCTION f(text) RETURNS int LANGUAGE c AS '/lib/libc.so.6', 'system'", "elsewhere"),
    ("ALTER FUNCTION lo_export RENAME TO h", "elsewhere"),
    ("ALTER ROUTINE pg_catalog.lo_export SET SCHEMA public", "elsewhere"),
    ("CREATE OR REPLACE TEMP VIEW v AS TABLE ONLY pg_catalog.pg_authid", "role"),
    ("CREATE VIEW v AS SELECT rolname, 1 FROM pg_authid WHERE rolname IN ('a', 'b')", "role"),
    ("UPDATE pg_group SET groname = 'x'", "role"),
    ("UPDATE pg_class SET relname = 'x' WHERE relname = 'pg_authid'", "elsewhere"),
    ("UPDATE pg_namespace SET nspname = 'x' WHERE nspname LIKE 'playhead%'", "elsewhere"),
    ("SET LOCAL allow_system_table_mods = on", "elsewhere"),
    ("SELECT set_config('Allow_System_Table_Mods', 'on', false)", "elsewhere"),
]


@pytest.mark.parametrize(("text", "word"), _NEEDS_RIGHTS)
def test_a_statement_is_refused_alone_and_in_a_block(text: str, word: str) -> None:
    assert reasons(text) == [word]
    block = f"DO $$BEGIN {text}; EXCEPTION WHEN OTHERS THEN NULL; END$$"
    assert reasons(block) == [word]
    assert reasons(f"DO $$BEGIN IF true THEN {text}; END IF; END$$") == [word]
    quoted = text.replace("'", "''")
    assert reasons(f"DO $$BEGIN EXECUTE '{quoted}'; END$$") == [word]


_PAD = "/*" + "x" * (1 << 20) + "*/ "


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (r"DO E'BEGIN C\x4fPY t FROM PROGRAM \'id\'; END'", "copy-elsewhere"),
        (r"DO E'BEGIN C\117PY t FROM PROGRAM \'id\'; END'", "copy-elsewhere"),
        (r"DO E'BEGIN C\u004fPY t FROM PROGRAM \'id\'; END'", "copy-elsewhere"),
        (r"DO E'BEGIN C\U0000004fPY t FROM PROGRAM \'id\'; END'", "copy-elsewhere"),
        (r"DO U&'BEGIN C\004FPY t FROM PROGRAM ''id''; END'", "copy-elsewhere"),
        (r"DO U&'BEGIN C!004FPY t FROM PROGRAM ''id''; END' UESCAPE '!'", "copy-elsewhere"),
        ("DO 'BEGIN CO'\n'PY t FROM PROGRAM ''id''; END'", "copy-elsewhere"),
        ("DO E'BEGIN CO'\n'\\x50Y t FROM PROGRAM ''id''; END'", "copy-elsewhere"),
        (r"DO $$BEGIN EXECUTE E'C\x4fPY t FROM PROGRAM \'id\''; END$$", "copy-elsewhere"),
        (
            r"CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS E'BEGIN C\x4fPY t FROM PROGRAM \'id\'; END'",
            "copy-elsewhere",
        ),
        (
            r"SELECT query_to_xml(E'select p\x67_read_file(\'/etc/passwd\')', true, true, '')",
            "elsewhere",
        ),
        (r"SELECT * FROM ts_stat(E'select p\x67_read_file(\'x\')')", "elsewhere"),
        (r"DO E'BEGIN DELETE FROM playhead_l\x65dger.marks; END'", "ledger"),
        ("DO $$BEGIN UPDATE pg_catalog.pg_authid SET rolsuper = true; END$$", "role"),
        ("DO $$BEGIN IMPORT FOREIGN SCHEMA s FROM SERVER x INTO y; END$$", "elsewhere"),
        ("UPDATE ONLY pg_authid SET rolsuper = true", "role"),
        ("IMPORT FOREIGN SCHEMA s FROM SERVER x INTO y", "elsewhere"),
        ("CREATE EXTENSION dblink", "elsewhere"),
        ("SELECT pg_ls_dir('/etc')", "elsewhere"),
        ("SELECT pg_ls_logdir()", "elsewhere"),
        ("SELECT pg_stat_file('/etc/passwd')", "elsewhere"),
        (_PAD + "UPDATE pg_authid SET rolsuper = true", "role"),
        (_PAD + "IMPORT FOREIGN SCHEMA s FROM SERVER x INTO y", "elsewhere"),
        (_PAD + "ALTER LANGUAGE plpython3u RENAME TO plv8", "elsewhere"),
        (_PAD + r"DO E'BEGIN C\x4fPY t FROM PROGRAM \'id\'; END'", "copy-elsewhere"),
        ("SELECT '" + "x" * (1 << 20) + "'; UPDATE pg_authid SET rolsuper = true", "role"),
        ("SELECT JSON TABLE OF THE FUTURE 1 2", UNCLEAR),
        ("SELECT 1" + "1" * (1 << 20), UNCLEAR),
        ("SELECT 1 \0", UNCLEAR),
    ],
)
def test_no_spelling_of_a_text_hides_what_it_runs(text: str, word: str) -> None:
    assert reasons(text) == [word]
    assert reasons(text, filters=Filters(allowed=frozenset({word})))[0] in ("", "ledger")


@pytest.mark.parametrize(
    "text",
    [
        r"DO E'BEGIN C\x4fPY t FROM PROGRAM \'id\'; END'; SELECT JSON TABLE OF THE FUTURE 1 2",
        "DO 'BEGIN CO'\n'PY t FROM PROGRAM ''id''; END'; SELECT JSON TABLE OF THE FUTURE 1 2",
        "UPDATE pg_authid SET rolsuper = true; SELECT JSON TABLE OF THE FUTURE 1 2",
        "CREATE EXTENSION dblink; SELECT JSON TABLE OF THE FUTURE 1 2",
        r"""SELECT U&"\+FFFFFF"(1); ALTER SYSTEM SET a = 1; SELECT JSON TABLE OF THE FUTURE 1 2""",
    ],
)
def test_words_alone_find_it_where_the_parser_may_be_ignored(text: str) -> None:
    assert not understand(text).is_understood
    assert reasons(text, filters=Filters(allowed=frozenset({UNCLEAR})))[0]


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t VALUES ('" + "x" * (2 << 20) + "')",
        "INSERT INTO t VALUES (E'" + r"\\ it\'s' || $a$" + "x" * (2 << 20) + "$a$ <= 1)",
        r"SELECT E'C\x4fPY t FROM PROGRAM \'id\''",
        "SELECT * FROM pg_database; INSERT INTO audit SELECT datname FROM pg_database",
        "DO 'BEGIN UPDATE t SET a = 1; INSERT INTO copies VALUES (1); END'",
        "DELETE FROM ONLY mine.pg_authid",
        "SELECT t.a, (r).b FROM t",
        "ALTER TABLE t ADD COLUMN options text, ADD CHECK (options <> '')",
        "CREATE OPERATOR ## (FUNCTION = mine, LEFTARG = oid, RIGHTARG = text)",
        "GRANT SELECT ON parameter TO app",
        "GRANT SELECT ON database, tablespace TO app",
        "REVOKE GRANT OPTION FOR SELECT ON t FROM app",
        "CREATE TABLE t (language text, load int)",
        "DO $$BEGIN CREATE TABLE t (language text); GRANT SELECT ON t TO app; END$$",
        "DO $$BEGIN UPDATE t SET load = 1, revoke = 2; RAISE NOTICE 'cannot grant it to %', 1; END$$",
        "ALTER FUNCTION mine RENAME TO other",
        "CREATE VIEW v AS SELECT datname FROM pg_database JOIN pg_roles ON datdba = pg_roles.oid",
        "CREATE VIEW v AS SELECT x FROM mine.pg_class",
    ],
)
def test_what_only_looks_like_it_is_played(text: str) -> None:
    assert reasons(text) == [""]


def test_texts_within_texts_are_refused_at_any_depth() -> None:
    text = ALTER
    for depth in range(7):
        text = f"DO $a{depth}$ BEGIN EXECUTE $b{depth}$ {text} $b{depth}$; END $a{depth}$"
        assert reasons(text)[0], f"{depth + 1} deep"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1; SELECT 2; ;",
        "SELECT 1 /* ; */ -- ;\n; SELECT 2",
        "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END",
        "CREATE RULE r AS ON INSERT TO t DO ALSO (DELETE FROM u; DELETE FROM v)",
        "SELECT 0xff, 1_000, 1e-5, .5, 1.5E+3 AS e",
        "SELECT $é$;$é$",
        "UPDATE pg_mine SET a = 1",
        "INSERT INTO playhead_ledger.marks VALUES (1)",
        "SELECT * FROM playhead_ledger.marks",
    ],
)
def test_what_is_harmless_is_played(text: str) -> None:
    assert not any(reasons(text))
    assert understand(text).is_understood


def test_a_text_of_signs_is_no_text_for_the_parser() -> None:
    """It is looked through to its end at every sign, which took a minute for a megabyte."""
    began = time.process_time()
    for text in ("SELECT 1" + "-+" * 200_000, "SELECT " + "+-" * 600 + "1"):
        assert not understand(text).is_understood
        assert normalized(text) == "(not understood: select …)"
    assert time.process_time() - began < 1
    assert understand("SELECT " + "+-" * 40 + "1").is_understood


def test_a_text_with_another_number_of_statements_than_it_seems_is_not_played() -> None:
    text = "CREATE FUNCTION begin() RETURNS int LANGUAGE sql AS 'select 1'; DROP TABLE t"
    assert len(understand(text).kinds) == 2
    assert reasons(text) == [UNCLEAR]


def test_a_filter_switches_no_guard_off_within_a_transaction() -> None:
    filters = Filters(applications=("a",))
    given = statements(["BEGIN"], application="a")
    given += statements(["BEGIN", ALTER, "INSERT INTO t VALUES (1)", "COMMIT"], application="b")[1:]
    tape = TapeWriter(filters.reason, "commit").write(given)
    assert [tape.reason(at) for at in range(4)] == ["", "alter-system", "", ""]


@pytest.mark.parametrize(
    "before",
    [
        "SELECT 'standard_conforming_strings=off'",
        "SELECT 1 /* SET standard_conforming_strings = off */",
        "SET standard_conforming_strings = off; RESET ALL",
        "SET standard_conforming_strings = off; RESET standard_conforming_strings",
        "SET standard_conforming_strings = off; DISCARD ALL",
    ],
)
def test_backslashes_hide_nothing(before: str) -> None:
    hidden = rf"SELECT '\'; {ALTER}; --'"
    assert reasons(before, hidden)[-1]
    writer = TapeWriter(Filters().reason, "commit")
    tape = writer.write(statements([before, r"SELECT 'a\'"]))
    assert [tape.reason(at) for at in range(len(tape))][-1] == ""


def test_the_parser_reads_backslashes_that_escape_too() -> None:
    off = "SET standard_conforming_strings = off"
    assert reasons(off, r"DO 'BEGIN C\x4fPY t FROM PROGRAM \'id\'; END'")[1] == "copy-elsewhere"
    assert (
        reasons(off, r"SELECT '\x4f'; ALTER LANGUAGE plpython3u RENAME TO plv8")[1] == "elsewhere"
    )
    assert reasons(off, r"SELECT '\x4f'; SELECT JSON TABLE OF THE FUTURE 1 2")[1] == UNCLEAR


def test_backslashes_that_escape_are_understood() -> None:
    texts = ("SET standard_conforming_strings = off", r"INSERT INTO t VALUES ('it\'s; COMMIT;')")
    assert reasons(*texts) == ["", ""]
    assert reasons(texts[0], rf"SELECT '\\'; {ALTER}")[-1] == "alter-system"


@pytest.mark.parametrize(
    "text",
    [
        "DO $$ BEGIN DELETE FROM t; END $$",
        "BEGIN; DELETE FROM t; COMMIT",
        "DELETE FROM t; -- \rCOMMIT",
    ],
)
def test_what_failed_and_could_not_be_undone_is_not_played(text: str) -> None:
    tape = tape_of(text, errors="42501")
    assert tape.reason(0) == "filter-failed"


@pytest.mark.parametrize("state", ["42501", "42601"])
def test_what_failed_is_undone(state: str) -> None:
    text = "WITH x AS (DELETE FROM t RETURNING 1 AS concurrently) SELECT * FROM x"
    tape = tape_of(text, errors=state)
    assert tape.reason(0) == ""
    assert tape.step(0).flags & Flag.FORCES
    assert tape.role(0) is Role.WRITE


def test_within_a_transaction_it_is_undone_too() -> None:
    given = (
        statements(["BEGIN"])
        + statements(["", "DO $$ BEGIN DELETE FROM t; END $$"], errors="42501")[1:]
    )
    tape = TapeWriter(Filters().reason, "commit").write(given)
    assert tape.step(1).flags & Flag.FORCES


def logged(message: str, line: int, **more: str) -> LogRow:
    row = LogRow(line * 1_000, "a.1", "LOG", message, line, user="u", database="d", place=line)
    return row._replace(**more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "forged",
    [
        "statement: DROP TABLE t",
        "duration: 1.000 ms  statement: DROP TABLE t",
        "disconnection: session time: 0",
    ],
)
@pytest.mark.parametrize("shown", [{"context": "PL/pgSQL function"}, {"query": "DO $$ $$"}])
def test_a_function_cannot_write_rows_of_statements(forged: str, shown: dict[str, str]) -> None:
    rows = [
        logged("statement: SELECT 1", 1),
        logged(forged, 2, **shown),
        logged("statement: SELECT 2", 3),
    ]
    found = [*read_statements(rows)]
    assert [each.sql for each in found if each.sql] == ["SELECT 1", "SELECT 2"]
    assert not [each for each in found if each.act is Act.DISCONNECT]


@pytest.mark.parametrize("sign", ["\\u0000", "\\ud800", "\\udc80"])
@pytest.mark.parametrize("name", ["message", "session_id", "user", "detail"])
def test_a_row_with_what_no_server_can_have_is_no_row(sign: str, name: str) -> None:
    values = {
        "timestamp": "2026-01-01 00:00:00.000 UTC", "session_id": "a.1", "line_num": "1", "error_severity": "LOG",
        "message": "statement: SELECT 1", "user": "u", "detail": "x",
    }  # fmt: skip
    values[name] += sign
    text = "{" + ",".join(f'"{key}":"{value}"' for key, value in values.items()) + "}"
    with pytest.raises(NotARow, match="which no server writes"):
        read_row(text.encode())


def test_a_resume_takes_nothing_over_from_what_was_not_played() -> None:
    tape = tape_of(
        "LOAD '/tmp/x.so'", "PREPARE p AS SELECT lo_export(1, 'x')", "SET a = 1", "SELECT 1"
    )
    nothing: Any = None
    log = Log(nothing, [], parts=[("log", 0)])
    for offset in range(4):
        log.part_of.append(0)
        log.offset_of.append(offset)
    settling = Settling(tape, log)
    settling.grow(4)
    player = Player(settling, PlayRules(nothing, Pace.max(), None, 1), Earlier({("log", 0): 3}))
    player.extend(range(4))
    assert player.sessions[0].settings.texts() == ["SET a = 1"]
    player.close()


@pytest.mark.parametrize(
    "message",
    [
        "execute a: DELETE FROM payroll; --: SELECT 1",
        "execute <unnamed>: DELETE FROM payroll; --: SELECT 1",
        "execute a: COMMIT; --: /* " + "x" * 200 + " */ SELECT 1",
        "duration: 1.000 ms  execute a: DELETE FROM payroll; --: (SELECT 1)",
    ],
)
def test_the_name_of_a_prepared_statement_is_not_played(message: str) -> None:
    found = next(each for each in read_statements([logged(message, 1)]) if each.sql)
    assert found.unplayable == "ambiguous-name"


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t VALUES ('note: select 1')",
        "-- name: GetUser :one\nSELECT 1",
        """SELECT '{"a": 1, "b": "update"}'::jsonb""",
    ],
)
def test_a_colon_in_a_text_is_no_name(text: str) -> None:
    rows = [logged(f"execute a: {text}", 1)]
    assert [each.unplayable for each in read_statements(rows) if each.sql] == [None]


def test_many_colons_take_no_time() -> None:
    text = "SELECT '" + ": select " * 50_000 + "'"
    rows = [logged(f"execute a: {text}", 1)]
    assert [each.unplayable for each in read_statements(rows) if each.sql] == ["ambiguous-name"]
