"""Statements from the logs of eight server versions, compared with lists that were written while reading the files."""

import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from playhead.querylog.counts import RowOutcome
from playhead.querylog.cutting import cutter_of, form_of, rows_of
from playhead.querylog.logged import UNKNOWN_SQLSTATE
from playhead.querylog.rows import LogRow, NotARow
from playhead.querylog.shapes import read_row
from playhead.querylog.statement import Act, Statement
from playhead.querylog.statements import StatementReader

DATA = Path(__file__).parent.parent / "data" / "querylog"
PREFIX = "%m|%u|%d|%c|"
FILES = sorted(each.name for each in DATA.iterdir() if each.name != "README.md")
SMALL = [name for name in FILES if "full" not in name and "ddl" not in name]

# The small workload: what each session did, as `act: text | parameters | NAME=…, error=…, cannot=…`.
CHECKOUT = """
connect
query: BEGIN
execute: insert into orders(id, customer, note)\\n     values ($1, $2, $3) | 1001; Zoë O'Neil; said "hi",\\nthen left
execute: update stock set qty = qty - $1 where sku = $2 | 2; A-7
query: insert into orders(id, customer, note) values (1002, 'inline', $q$it's; "dollar"$q$)
query: COMMIT
query: BEGIN
execute: select qty from stock where sku = $1 | A-7 | name=_pg3_0
execute: select qty from stock where sku = $1 | B-2 | name=_pg3_0
query: COMMIT
query: BEGIN
query: COPY stock(sku, qty) FROM STDIN | | cannot=copy-data
query: COMMIT
disconnect
"""
REFUND = """
connect
query: BEGIN
execute: select id, status\\n  from orders\\n where customer = $1\\n for update | Max
execute: update orders set status = $1 where id = $2 | refunded; 900
execute: insert into orders(id) values ($1) | 900 | error=23505
query: ROLLBACK
query: BEGIN
query: BEGIN; update stock set qty = 0 where sku = 'B-2'; -- batch\\nCOMMIT
query: BEGIN
execute: select pg_sleep($1) | 3 | error=57014
cancel
query: ROLLBACK
disconnect
"""
# The big workload, by the session's application; `raw` and truncated parameters are in 13 and later.
APP_A = """
connect
query: BEGIN
query: create table acct(id int primary key, owner text, bal numeric(12,2), meta jsonb, raw bytea, ts timestamptz)
query: COMMIT
query: BEGIN
execute: insert into acct values ($1,$2,$3,$4,$5,$6) | 1; O'Brien, "Bob"; 10.50; {"k": "v, 'q'"}; \\x0001275c; NULL
execute: update acct set bal = bal - $1 where id = $2 | 1.25; 1
query: COMMIT
query: BEGIN
execute: select owner from acct where id = $1 | 0 | name=_pg3_0
execute: select owner from acct where id = $1 | 1 | name=_pg3_0
query: COMMIT
query: BEGIN
execute: insert into acct(id) values ($1) | 1 | error=23505
query: select 1 | | error=25P02
query: ROLLBACK
query: DEALLOCATE ALL
query: BEGIN
query: | | error=42601, cannot=no-text
query: ROLLBACK
query: BEGIN
query: BEGIN; SELECT 'it''s'; -- comment "x"\\nSELECT 2
query: DO $x$\\nBEGIN\\n  RAISE NOTICE 'hello "w"';\\nEND $x$
query: COMMIT
query: BEGIN
query: COPY acct(id,owner) FROM STDIN | | cannot=copy-data
query: COMMIT
query: BEGIN
query: COPY acct TO STDOUT
query: COMMIT
query: BEGIN
query: SAVEPOINT "_pg3_2"
execute: update acct set owner=$1 where id=$2 | x; 1
query: ROLLBACK TO "_pg3_2"
query: RELEASE "_pg3_2"
execute: DECLARE "cur1" CURSOR FOR select * from generate_series(1,$1) | 5
query: FETCH FORWARD 2 FROM "cur1"
query: CLOSE "cur1"
query: PREPARE pq(int) AS SELECT owner FROM acct WHERE id=$1
query: EXECUTE pq(1)
query: DEALLOCATE pq
query: COMMIT
query: BEGIN
query: select pg_sleep(5) | | error=57014
cancel
query: ROLLBACK
query: BEGIN
query: set local statement_timeout=100
execute: select pg_sleep($1) | 3 | error=57014
query: ROLLBACK
disconnect
"""
APP_B = """
connect
query: BEGIN
execute: insert into acct(id,owner,bal)\\n  values ($1, $2, $3)\\n  returning id | 2; line1\\nline2\ttab\\back; NULL
query: select count(*) from acct
query: ROLLBACK
disconnect
"""
APP_D = """
connect
query: BEGIN
execute: select $1::text | z'z
execute: select owner from acct where id=$1 | 1 | name=_pg3_0
query: select 1
query: COMMIT
disconnect
"""
APP_E = """
connect
query: BEGIN
execute: select $1::text | z
execute: select owner from acct where id=$1 | 1 | name=_pg3_0
query: select 1
execute: insert into acct(id) values ($1) | 1 | error=23505
query: ROLLBACK
query: DEALLOCATE ALL
disconnect
"""
APP_F = """
connect
query: BEGIN
execute: select $1::text, $2::text | abcde...; é€... | cannot=truncated-parameters
execute: insert into acct(id,owner) values ($1,$2) | 1; longl... | error=23505, cannot=truncated-parameters
disconnect
"""
RAW = """
connect
execute: select * from generate_series(1,$1::int) | 5 | name=S_1, portal=C_2
fetch: select * from generate_series(1,$1::int) | 5 | name=S_1, portal=C_2
query: | | error=22P02, cannot=no-text
query: BEGIN
disconnect
"""
CREATED = """
connect
query: create database shop
disconnect
"""
NOBODY = "connect | | error=28000\ndisconnect"
REFUSED = "connect | | error=42704\ndisconnect"
FUNCTION = (
    "create function f() returns int language plpgsql as $$ begin insert into t values (3,'n'); "
    "raise log 'inside'; return 1; end $$"
)
MODE_B = """
connect
query: BEGIN
query: create table t(a int, b text)
query: COMMIT
query: BEGIN
query: insert into t values (1,'a')
execute: insert into t values ($1,$2) | 2; b,c
query: FUNCTION
query: COMMIT
query: BEGIN
query: select f()
query: ROLLBACK
query: BEGIN
query: selec 1 | | error=42601
query: ROLLBACK
query: BEGIN
query: select 1/0 | | error=22012
query: ROLLBACK
query: BEGIN
execute: select 1/$1 | | error=22012, cannot=no-parameters
query: ROLLBACK
execute: BEGIN
execute: insert into t values ($1,$2) | 5; p1
execute: insert into t values ($1,$2) | 6; p2
query: COMMIT
disconnect
"""


def rows_in(name: str) -> list[LogRow]:
    data = (DATA / name).read_bytes()
    form = form_of(data[:500])
    cut = rows_of(iter([data]), cutter_of(form, PREFIX))
    return [read_row(row, place=place) for place, row in enumerate(cut, 1)]


def shown(each: Statement) -> str:
    """As the lists above are written."""
    parameters = "; ".join("NULL" if value is None else value for value in each.parameters or ())
    more = {
        "name": each.name,
        "portal": each.portal,
        "error": each.expected_error,
        "cannot": each.unplayable,
    }
    said = ", ".join(f"{name}={value}" for name, value in more.items() if value)
    text = (
        f"{each.act.value}: {each.sql}"
        if each.sql or (said and each.act is Act.QUERY)
        else each.act.value
    )
    parts = [text.rstrip(), parameters, said]
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return " | ".join(parts).replace("|  |", "| |").replace("\n", "\\n")


def by_session(statements: list[Statement]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in statements:
        found.setdefault(each.session, []).append(shown(each))
    return found


def listed(golden: str, *, without_sqlstate: bool = False) -> list[str]:
    lines = [line for line in golden.strip().splitlines() if line]
    return (
        [re.sub(r"error=(?!57014)\w+", f"error={UNKNOWN_SQLSTATE}", line) for line in lines]
        if without_sqlstate
        else lines
    )


def read_statements(
    rows: Iterable[LogRow], reader: StatementReader | None = None
) -> Iterator[Statement]:
    """The statements of a whole log; afterwards `reader.counts` has the outcome of each row."""
    reader = reader or StatementReader()
    for row in rows:
        yield from reader.read(row)
    yield from reader.end()


def statements_in(name: str) -> tuple[list[Statement], StatementReader, list[LogRow]]:
    reader, rows = StatementReader(), rows_in(name)
    return [*read_statements(rows, reader)], reader, rows


@pytest.mark.parametrize("name", SMALL)
def test_the_small_workload_is_the_same_in_every_form_version_and_mode(name: str) -> None:
    statements, reader, _ = statements_in(name)
    found = by_session(statements)
    is_stderr = name.endswith(".log")
    expected = [listed(each, without_sqlstate=is_stderr) for each in (CHECKOUT, REFUND)]
    assert sorted(found.values()) == sorted(expected)
    assert (reader.counts.lost, reader.counts.open_at_begin) == (0, 0)


@pytest.mark.parametrize("name", [name for name in FILES if "full" in name])
def test_the_big_workload_of_six_versions(name: str) -> None:
    statements, reader, _ = statements_in(name)
    is_old = name.startswith(("pg10", "pg12"))
    new = [REFUSED, REFUSED] if is_old else [APP_F, RAW, NOBODY]
    golden = [CREATED, APP_A, APP_B, APP_D, APP_E, *new]
    assert sorted(by_session(statements).values()) == sorted(listed(each) for each in golden)
    assert (reader.counts.lost, reader.counts.open_at_begin) == (0, 0)


@pytest.mark.parametrize("name", [name for name in FILES if "ddl" in name])
def test_definitions_by_statement_and_the_rest_by_duration(name: str) -> None:
    statements, _, _ = statements_in(name)
    assert by_session(statements).popitem()[1] == listed(MODE_B.replace("FUNCTION", FUNCTION))


@pytest.mark.parametrize("name", FILES)
def test_every_row_has_one_outcome(name: str) -> None:
    statements, reader, rows = statements_in(name)
    assert reader.counts.total == len(rows)
    assert reader.counts.statements == Counter(each.act.value for each in statements)
    played = sum(each.act in (Act.QUERY, Act.EXECUTE, Act.FETCH) for each in statements)
    assert reader.counts.rows[RowOutcome.STATEMENT] == played
    assert reader.counts.rows[RowOutcome.NOT_A_ROW] == 0


@pytest.mark.parametrize("name", FILES)
def test_places_times_and_transactions_hold_together(name: str) -> None:
    statements, _, rows = statements_in(name)
    last: dict[str, int] = {}
    for each in statements:
        assert 1 <= each.place <= len(rows)
        assert each.done_place is None or each.place <= each.done_place <= len(rows)
        assert each.due_us >= last.get(each.session, 0), "starts of a session never go back"
        last[each.session] = each.due_us
        if each.sql.upper() in ("BEGIN", "COMMIT", "ROLLBACK"):
            assert each.in_transaction
    numbers = [(each.session, each.line) for each in statements if each.act is not Act.CANCEL]
    assert len(numbers) == len(set(numbers))


def test_a_duration_is_the_statements_own_and_its_end_is_shown() -> None:
    statements, _, _ = statements_in("pg15_csvlog_full.csv")
    begin, first, *_ = [each for each in statements if each.application == "app-e" and each.sql]
    assert (begin.sql, begin.duration_us, begin.done_place) == ("BEGIN", 152, begin.place + 1)
    assert (first.sql, first.duration_us, first.done_place) == (
        "select $1::text",
        47,
        first.place + 1,
    )
    begin, *_ = [each for each in statements if each.application == "app-d" and each.sql]
    # 03:21:20.315 is its end.
    assert (begin.due_us % 1_000_000, begin.duration_us) == (315_000 - 75, 75)
    assert begin.done_place == begin.place


@pytest.mark.parametrize("name", FILES)
def test_what_a_shipper_sent_twice_counts_once(name: str) -> None:
    _, _, rows = statements_in(name)
    if rows[0].line is None:
        return
    once = [*read_statements(rows)]
    seed = random.Random(5)
    doubled: list[LogRow] = []
    for row in rows:
        doubled.append(row)
        if seed.random() < 0.3:
            doubled.extend(doubled[-seed.randrange(1, 6) :])
    reader = StatementReader()
    again = [*read_statements(doubled + doubled[-40:], reader)]
    assert [shown(each) for each in again] == [shown(each) for each in once]
    assert reader.counts.rows[RowOutcome.DUPLICATE] == len(doubled) + 40 - len(rows)
    assert reader.counts.lost == 0


def test_missing_rows_are_counted_as_lost_and_a_late_one_is_named() -> None:
    _, _, rows = statements_in("pg15_csvlog_full.csv")
    mine = [index for index, row in enumerate(rows) if row.application == "app-a"]
    gone = mine[5:8]
    reader = StatementReader()
    left = [row for index, row in enumerate(rows) if index not in gone]
    late = rows[gone[1]]
    [*read_statements([*left[:60], late, *left[60:]], reader)]
    assert reader.counts.lost == 3
    assert reader.counts.rows[RowOutcome.LATE] == 1
    assert reader.counts.total == len(rows) - 2


def test_a_session_that_was_open_when_the_log_begins() -> None:
    _, _, rows = statements_in("pg15_csvlog_full.csv")
    execute = next(i for i, row in enumerate(rows) if row.message == "statement: EXECUTE pq(1)")
    session = rows[execute].session
    reader = StatementReader()
    found = [*read_statements([row for row in rows[execute:] if row.session == session], reader)]
    assert found[0].act is Act.CONNECT
    assert found[0].line == 0
    # Its PREPARE was before the log, and stands beside EXECUTE.
    assert found[1].sql == "PREPARE pq(int) AS SELECT owner FROM acct WHERE id=$1;\nEXECUTE pq(1)"
    assert found[1].in_transaction
    assert (reader.counts.open_at_begin, reader.counts.lost) == (1, 0)


def row(message: str, line: int, **more: object) -> LogRow:
    fields = {"session": "65.1f", "user": "u", "database": "d", "tag": "idle", "sqlstate": "00000"}
    return LogRow(
        **{"time_us": line * 1_000, "severity": "LOG", "place": line} | fields | more,
        message=message,
        line=line,
    )  # type: ignore[arg-type]


def read(*rows: LogRow) -> tuple[list[Statement], StatementReader]:
    reader = StatementReader()
    return [*read_statements(rows, reader)], reader


def test_an_error_belongs_to_its_statement_also_behind_messages() -> None:
    found, reader = read(
        row("statement: select f()", 1),
        row("inside", 2, tag="SELECT"),
        row(
            "division by zero",
            3,
            severity="ERROR",
            sqlstate="22012",
            tag="SELECT",
            query="select f()",
        ),
        row("statement: select 2", 4),
        row("syntax error", 5, severity="ERROR", sqlstate="42601", query="selec"),
    )
    assert [(each.sql, each.expected_error) for each in found[1:]] == [
        ("select f()", "22012"), ("select 2", None), ("selec", "42601"),
    ]  # fmt: skip
    assert reader.counts.rows[RowOutcome.ERROR] == 1


def test_an_error_of_the_end_of_an_implicit_transaction_is_no_statement() -> None:
    found, reader = read(
        row("nothing", 1, severity="ERROR", sqlstate="42601", query="selec"),
        row("duration: 1.000 ms  execute s: insert into t values (1)", 2, tag="INSERT"),
        row("violates a constraint", 3, severity="ERROR", sqlstate="23503", tag="INSERT"),
    )
    assert [each.sql for each in found[1:]] == ["selec", "insert into t values (1)"]
    assert reader.counts.rows[RowOutcome.NO_STATEMENT] == 1


@pytest.mark.parametrize(
    ("values", "cannot"),
    [
        ("$1 = 'abc...'", "truncated-parameters"),
        ("$1 = 'abc...', $2 = 'abcdef'", "truncated-parameters"),
        # A longer one was not cut, so this one was not either.
        ("$1 = 'abc...', $2 = 'abcdefg'", None),
        ("$1 = 'a', $2 = NULL", None),
    ],
)
def test_a_value_that_may_be_cut_is_never_played_as_it_is(values: str, cannot: str | None) -> None:
    found, _ = read(
        row("execute <unnamed>: select $1, $2", 1, tag="SELECT", detail=f"parameters: {values}")
    )
    assert found[-1].unplayable == cannot
    old, _ = read(
        row(
            "execute <unnamed>: select $1", 1, detail=f"parameters: {values}", cuts_parameters=False
        )
    )
    assert old[-1].unplayable is None


def test_what_has_no_parameters_in_the_log() -> None:
    found, _ = read(
        row("execute <unnamed>: select $1", 1),
        row("execute <unnamed>: select '$1', $$ $1 $$", 2),
        row("execute <unnamed>: select $1", 3, detail="parameters: $1 = 'a"),
        row('fastpath function call: "lo_open" (OID 952)', 4),
        row("duration: 1.000 ms", 5),
        row("duration: 1.000 ms", 6, tag="SELECT"),
    )
    assert [each.unplayable for each in found[1:]] == [
        "no-parameters", None, "torn-parameters", "fastpath", "no-text",
    ]  # fmt: skip
    assert found[-2].duration_us == 1_000


def test_logs_without_line_numbers_give_a_process_id_that_comes_again_another_name() -> None:
    lines = [
        "2026-11-21 03:33:17.000 UTC [77] LOG:  connection received: host=[local]",
        "2026-11-21 03:33:17.001 UTC [77] LOG:  connection authorized: user=u database=d",
        "2026-11-21 03:33:17.002 UTC [77] LOG:  statement: select 1",
        "2026-11-21 03:33:18.000 UTC [77] LOG:  connection received: host=[local]",
        "2026-11-21 03:33:18.001 UTC [77] LOG:  connection authorized: user=u database=d",
        "2026-11-21 03:33:18.002 UTC [77] LOG:  statement: select 2",
    ]
    found = [*read_statements(read_row(line.encode(), place=n) for n, line in enumerate(lines))]
    assert [each.act.value for each in found] == [
        "connect",
        "query",
        "disconnect",
        "connect",
        "query",
    ]
    assert len({each.session for each in found}) == 2
    numbers = [(each.session, each.line) for each in found]
    assert len(set(numbers)) == len(numbers)


def test_a_statement_can_be_had_before_its_end_is_known() -> None:
    reader = StatementReader()
    assert reader.read(row("connection authorized: user=u database=d", 1)) == []
    reader.read(row("statement: COMMIT", 2))
    assert [each.sql for each in reader.release(1_000_000)] == ["COMMIT"]
    assert reader.read(row("duration: 1.000 ms", 3, tag="COMMIT")) == []
    assert reader.counts.rows[RowOutcome.JOINED] == 1


@pytest.mark.parametrize("backend", [None, "postmaster"])
def test_a_server_that_starts_has_ended_all_sessions(backend: str | None) -> None:
    reader = StatementReader()
    found = [*reader.read(row("statement: BEGIN", 1)), *reader.read(row("statement: SELECT 1", 2))]
    start = LogRow(
        9, "postmaster.1", "LOG", "starting PostgreSQL 18.1 on a machine", 1, backend=backend
    )
    found += reader.read(start)
    assert [each.act for each in found][-2:] == [Act.QUERY, Act.DISCONNECT]
    assert reader.read(start._replace(line=1)) == [], "it was there before"
    assert reader.counts.rows[RowOutcome.OTHER_PROCESS] == 1


def test_no_session_can_end_the_others() -> None:
    reader = StatementReader()
    reader.read(row("statement: BEGIN", 1))
    reader.read(row("starting PostgreSQL 18.1, says RAISE LOG", 2))
    assert not [
        each for each in reader.read(row("statement: SELECT 1", 3)) if each.act is Act.DISCONNECT
    ]


def test_it_is_known_whether_all_ends_are_logged() -> None:
    reader = StatementReader()
    assert not reader.ends_are_logged
    reader.read(row("duration: 1.000 ms  statement: SELECT 1", 1))
    assert reader.ends_are_logged
    assert reader.first_held() is None
    reader.read(row("statement: SELECT 2", 2)._replace(place=7))
    assert reader.ends_are_logged
    assert reader.first_held() == 7
    reader.read(row("statement: SELECT 3", 3)._replace(place=8))
    assert not reader.ends_are_logged, "the second one ended without a duration"
    assert reader.first_held() == 8


def test_another_language_and_other_processes_are_counted_as_such() -> None:
    _, reader = read(
        row("Syntaxfehler", 1, severity="FEHLER"),
        row("checkpoint starting", 1, session="66.2f", user=None, backend="checkpointer"),
        row(
            "terminating",
            1,
            session="67.3f",
            severity="ERROR",
            query="select 1",
            backend="parallel worker",
        ),
    )
    assert reader.counts.rows == {RowOutcome.ANOTHER_LANGUAGE: 1, RowOutcome.OTHER_PROCESS: 2}


def test_ten_thousand_sessions_leave_nothing_behind() -> None:
    reader = StatementReader()
    for number in range(10_000):
        name = f"65.{number:x}"
        reader.read(row("connection authorized: user=u database=d", 1, session=name))
        reader.read(row("statement: select 1", 2, session=name))
        reader.read(row("disconnection: session time: 0:00:00.001 user=u", 3, session=name))
    assert reader._sessions == {} == reader._processes


def test_damaged_rows_never_raise_anything_else() -> None:
    seed = random.Random(11)
    samples = [row for name in FILES for row in _raw(name)]
    reader, kept = StatementReader(), 0
    for _ in range(6_000):
        value = bytearray(seed.choice(samples))
        for _ in range(seed.randrange(1, 6)):
            at = seed.randrange(len(value) + 1)
            match seed.randrange(4):
                case 0:
                    value[at : at + 1] = bytes([seed.randrange(256)])
                case 1:
                    del value[at : at + seed.randrange(30)]
                case 2:
                    value[at:at] = seed.choice((b'"', b"'", b",", b"\0", b"\n", b"{", b"$1 = "))
                case _:
                    other = seed.choice(samples)
                    value[at:] = other[seed.randrange(len(other)) :]
        try:
            reader.read(read_row(bytes(value), place=1))
            kept += 1
        except NotARow as exc:
            reader.not_a_row(str(exc))
    reader.end()
    assert reader.counts.total == 6_000
    assert kept > 500


def _raw(name: str) -> list[bytes]:
    data = (DATA / name).read_bytes()
    return [*rows_of(iter([data]), cutter_of(form_of(data[:500]), PREFIX))]


def pair(kind: str, second: int, request: object, **more: object) -> LogRow:
    """As the capture tool writes it."""
    found = {
        "msgType": "rrpair", "l7protocol": "postgres", "ts": f"2026-03-02T10:00:{second:02}.61Z", "duration": 2,
        "netinfo": {"id": "4", "startTime": "2026-03-02T09:59:58.5Z"},
        "postgres": {"request": {kind: request}, "response": {}},
    }  # fmt: skip
    return read_row(json.dumps(found | more).encode(), place=second)


def test_captured_pairs_are_a_session() -> None:
    sample = DATA.parent / "traffic" / "rrpairs_raw.jsonl"
    lines = [
        line for line in sample.read_bytes().splitlines() if b'"l7protocol":"postgres"' in line
    ]
    bound = {
        "parameters": [{"asString": "a'b"}, {}],
        "parseRequest": {"query": "select $1, $2", "name": "s"},
    }
    error = {"execute": {"messages": [{"error": {"code": "23505", "message": "no"}}]}}
    failed = {"request": {"execute": {"bindRequest": bound}}, "response": error}
    found, reader = read(
        pair("startup", 0, {"user": "u", "database": "d"}),
        read_row(lines[0], place=1),
        pair("parse", 2, {"query": "select $1, $2"}),
        pair("execute", 3, {"bindRequest": bound}),
        pair("execute", 4, None, postgres=failed),
        pair("query", 5, {"query": "COMMIT"}),
        pair("terminate", 6, {}),
    )
    assert [shown(each) for each in found] == [
        "connect",
        "execute: UPDATE stock SET qty = qty - $1 WHERE sku = $2 | 2; A-7",
        "execute: select $1, $2 | a'b; NULL | name=s",
        "execute: select $1, $2 | a'b; NULL | error=23505",
        "query: COMMIT",
        "disconnect",
    ]
    assert {(each.user, each.database) for each in found} == {("u", "d")}
    # The sample was captured at 10:00:01.61 and took 2 ms.
    assert (found[1].due_us % 60_000_000, found[1].duration_us) == (1_610_000, 2_000)
    assert len({each.session for each in found}) == 1
    assert reader.counts.total == 7
    with pytest.raises(NotARow):
        read_row(b'{"msgType": "rrpair", "l7protocol": "kafka"}')
