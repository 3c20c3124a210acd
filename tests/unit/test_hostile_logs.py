"""What anybody who may send a query, or write to a topic of logs, can put into a log: nothing of it does harm."""

import json
import struct
import time
import tracemalloc
from typing import Any

import msgpack
import pytest

from playhead.cli.app import main
from playhead.errors import EXIT_USAGE
from playhead.queries.flags import _is_sticky
from playhead.queries.outside import outside_of_run
from playhead.queries.sql_text import read_sql
from playhead.queries.transactions import SessionOnTape
from playhead.querylog import sql
from playhead.querylog.cutting import CSV_ADDRESS, cutter_of
from playhead.querylog.given import prepared_first
from playhead.querylog.lines import Lines
from playhead.querylog.located import located, topic_of
from playhead.querylog.log_time import time_us
from playhead.querylog.logged import logged_in
from playhead.querylog.parameters import read_parameters
from playhead.querylog.rows import LogRow, NotARow
from playhead.querylog.sessions import Session
from playhead.querylog.shapes import read_row
from playhead.querylog.sql import may_write
from playhead.querylog.statement import Act, Statement

AT = "2026-11-23 11:00:00.000 UTC"


def csv_row(line: int, text: str, application: str = "psql") -> bytes:
    """As a server of version 15 writes it."""
    quoted, name = (each.replace('"', '""') for each in (text, application))
    return (
        f'{AT},"app","shop",77,"10.0.0.1:5",6f.4d,{line},"SELECT",{AT},3/1,0,LOG,00000,"{quoted}",'
        f',,,,,,,,"{name}","client backend",,0\n'
    ).encode()


FORGED = f"{AT},,,99,,aaaa.bb,5,,{AT},3/2,0,ERROR,42601,"


@pytest.mark.parametrize(
    ("text", "application"),
    [
        (f'select $$\n{FORGED}""\n$$', "psql"),
        (f'select $$\n{FORGED}"x"\n$$', "psql"),
        (f'select $$\n{FORGED}"""x\n$$', "psql"),
        (f"select 1 --\n{FORGED}", "psql"),
        (f"select 1 --\n{FORGED}", ',,,,,truncate accounts,,,a"'),
        (f"select 1 --\n{AT},app,shop,99,,aaaa.bb,5,,{AT},3/2,0,LOG,00000,", "psql"),
    ],
)
def test_no_text_of_a_statement_is_taken_for_a_row(text: str, application: str) -> None:
    data = csv_row(1, "select 1") + csv_row(2, text, application) + csv_row(3, "select 2")
    rows = [*located(cutter_of("csvlog").take(data))]
    assert [(row.session, row.reason) for row in rows] == [(b"6f.4d", None)] * 3
    assert read_row(rows[1].value).message == text


def test_a_row_that_was_never_completed_ends_where_the_next_one_begins() -> None:
    torn = csv_row(1, "select 1\nfrom cars")[:-60]
    background = (
        f'{AT},,,99,,aaaa.bb,5,,{AT},,0,LOG,00000,"checkpoint starting: time",,,,,,,,,"",,,0\n'
    )
    for behind in (csv_row(2, "select 2"), csv_row(2, '"a" is no column'), background.encode()):
        rows = cutter_of("csvlog").take(torn + b"\n" + behind)
        assert rows == [torn + b"\n", behind]


@pytest.mark.parametrize("text", ["select " + "/*" * 500_000, "select /*" + "/**/" * 200_000])
def test_no_comment_takes_the_parser_longer_than_its_text(text: str) -> None:
    begun = time.monotonic()
    assert sql.understand(text).may_write
    assert sql.normalized(text)
    assert sql.normalized(text)
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    "text",
    [
        "select 1" + "+1" * 200_000,
        "select 1" + "::a" * 200_000,
        "select 1" + " union select 1" * 50_000,
    ],
)
def test_no_statement_is_too_deep_for_its_parser(text: str) -> None:
    assert sql.understand(text).may_write
    assert sql.normalized(text)
    assert sql.normalized(text)


def test_no_comments_of_a_statement_take_longer_than_they_are_long() -> None:
    assert sql.first_word("/**/" * 20_000 + "1") == ""
    assert sql.first_word("/**/-- a\n" * 20_000 + "(/* b */ select") == "select"


def test_no_quotes_of_a_statement_take_longer_than_they_are_long() -> None:
    tags = " ".join(f"$a{number}$" for number in range(50_000))
    assert len(read_sql(f"select {tags}; delete from cars").parts) == 1
    assert len(read_sql("select $a$ ; $b$ ; $a$; select $$;$$; select $1;").parts) == 3
    assert may_write("select $a$; delete from cars")
    assert not may_write("select $a$; delete from cars $a$")


@pytest.mark.parametrize(
    "words",
    ["copy ", "alter table x ", "create operator x (", "update ", "delete from ", '"copy" '],
)
def test_no_words_of_a_body_take_longer_than_they_are_long(words: str) -> None:
    begun = time.process_time()
    for text in (f"DO $${words * 20_000}$$", f"{words * 20_000}"):
        read_sql(text)
    outside_of_run(words * 20_000)
    assert time.process_time() - begun < 3


def test_quotes_fill_no_more_memory_than_their_text() -> None:
    quotes = "''" * 500_000
    double = b'""' * 500_000

    def all_of_them() -> None:
        assert read_parameters(f"parameters: $1 = '{quotes}'") == (quotes[:500_000],)
        assert len(read_sql(f"select '{quotes}', E'{quotes}'").parts) == 1
        assert CSV_ADDRESS.match(AT.encode() + b',"' + double) is None

    tracemalloc.start()
    try:
        all_of_them()
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


def test_long_names_of_statements_fill_no_memory() -> None:
    """A client may choose names of any length, which the server logs."""
    tracemalloc.start()
    try:
        for number in range(100):
            name = f"{number}{'a' * 100_000}"
            assert logged_in(f"execute {name}: select 1").name == name
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()


def test_long_words_of_statements_fill_no_memory() -> None:
    tracemalloc.start()
    try:
        for number in range(50):
            [part] = read_sql(f"create x{number}{'a' * 100_000}").parts
            assert not part.opens
            assert not part.closes
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "beginning",
    [f"BEGIN /* {'a' * 50_000} */;", "BEGIN;" + "SET TRANSACTION READ ONLY;" * 2_000],
)
def test_what_begins_a_chain_of_transactions_is_not_repeated_at_any_length(beginning: str) -> None:
    text = beginning + "COMMIT AND CHAIN;" * 500
    statement = Statement("s", 1, 1, Act.QUERY, 0, text)
    pieces = [*SessionOnTape(0, escapes=False).pieces(statement, read_sql(text))]
    assert [piece.sql for piece in pieces[-2:]] == ["COMMIT", pieces[1].sql]
    assert sum(len(piece.sql) for piece in pieces) < 700_000


def test_times_of_any_length_fill_no_memory() -> None:
    long = "2026-11-23 11:00:00 +" + ":" * 100_000
    tracemalloc.start()
    try:
        for number in range(50):
            with pytest.raises(NotARow, match="not a log timestamp"):
                time_us(f"{long}{number % 10}")
            with pytest.raises(NotARow, match="not a log timestamp"):
                time_us(f"{long}{':' * number}2")
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()


def test_texts_that_prepare_fill_no_memory() -> None:
    session = Session("s", "1", is_from_beginning=False, lines=Lines(0))
    tracemalloc.start()
    try:
        for number in range(50):
            text = f"prepare p{number} as select '{'a' * 100_000}'"
            row = LogRow(0, "s", "LOG", "", detail=f"prepare: {text}")
            assert prepared_first(session, row, text) is text
            del text, row
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()


def test_no_temporary_tables_take_longer_than_their_text() -> None:
    tables, rest = "create temp table t (); " * 3_000, "x " * 60_000
    begun = time.process_time()
    assert not _is_sticky(f"{tables} on commit drop; {rest}")
    assert _is_sticky(f"{tables} on commit drop; into temp {rest}")
    assert time.process_time() - begun < 1


PAIR: dict[str, Any] = {
    "msgType": "rrpair",
    "l7protocol": "postgres",
    "ts": "2026-11-23T11:00:00.123Z",
    "netinfo": {"id": "c1", "startTime": "2026-11-23T10:00:00Z"},
    "postgres": {"request": {"query": {"query": "select 1"}}, "response": {}},
}


@pytest.mark.parametrize("messages", [1, 1.5, True, "text", {"error": {}}, [1], [[]]])
def test_a_pair_without_a_list_of_messages_has_no_error(messages: object) -> None:
    pair = PAIR | {"postgres": PAIR["postgres"] | {"response": {"r": {"messages": messages}}}}
    assert read_row(json.dumps(pair).encode()).severity == "LOG"


@pytest.mark.parametrize("duration", [-1, 10**12, 10**30])
def test_a_pair_does_not_last_longer_than_there_is_time(duration: int) -> None:
    with pytest.raises(NotARow):
        read_row(json.dumps(PAIR | {"duration": duration}).encode())


def test_a_row_whose_session_is_no_text_is_no_row() -> None:
    row = {"timestamp": AT, "session_id": "\ud800", "error_severity": "LOG", "message": "a"}
    (found,) = located([json.dumps(row).encode()])
    assert found.session is None
    assert found.reason
    assert "incomplete character" in found.reason


@pytest.mark.parametrize(
    ("database", "pattern"),
    [
        ("consumer_offsets", "__{db}"),
        ("ledger", "playhead.{db}"),
        (".ledger", "playhead{db}"),
        ("a" * 250, "x{db}"),
    ],
)
def test_no_database_leads_to_a_topic_that_is_not_of_logs(database: str, pattern: str) -> None:
    assert topic_of(database, pattern) == pattern.replace("{db}", "unmatched")


def test_no_database_is_named_like_another_to_a_broker() -> None:
    assert topic_of("a.b") == topic_of("a_b") == "pg_raw_a_b"
    assert topic_of("shop", "playhead.{db}") == "playhead.shop"


def test_a_database_does_not_name_the_whole_topic(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["queries", "ship", "/nowhere/*.csv", "kafka:{db}"])
    assert left.value.code == EXIT_USAGE
    assert "a topic must have a prefix" in capsys.readouterr().err


def times_with_one_hash(count: int) -> bytes:
    """Names of a map in msgpack: times, whose hash is that of a tuple of two numbers, which has no secret."""
    bits, made = (1 << 64) - 1, []
    back = [pow(each, -1, 1 << 64) for each in (11400714785074694791, 14029467366897019727)]

    def before(state: int, lane: int) -> int:
        state = state * back[0] & bits
        return (state >> 31 | state << 33) - lane * 14029467366897019727 & bits

    for nanoseconds in range(1, 20 * count):
        state = before(before(1, nanoseconds), 0) - 2870177450012600261
        seconds = state * back[1] & bits
        if seconds < (1 << 61) - 1:
            made.append(struct.pack(">BBbIq", 0xC7, 12, -1, nanoseconds, seconds) + b"\xc0")
    return struct.pack(">BI", 0xDF, count) + b"".join(made[:count])


def test_no_names_of_a_map_take_longer_than_they_are_long() -> None:
    data = times_with_one_hash(3_000)
    few = msgpack.unpackb(times_with_one_hash(9), strict_map_key=False)
    assert len(few) == 9
    assert len({hash(each) for each in few}) == 1
    begun = time.process_time()
    with pytest.raises(NotARow, match="neither text nor msgpack"):
        read_row(data)
    assert time.process_time() - begun < 0.5
