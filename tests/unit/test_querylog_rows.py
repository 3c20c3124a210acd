"""Rows of logs from bytes: forms, parameters, times, prefixes, what SQL is, and how files are cut into rows."""

import csv
import gzip
import io
import json
import random
import tracemalloc
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playhead.errors import BadValue
from playhead.querylog import addresses, sql
from playhead.querylog.addresses import address_of
from playhead.querylog.cutting import LogForm, LongRow, cutter_of, form_of, rows_of
from playhead.querylog.located import located, place_in, topic_of
from playhead.querylog.log_time import time_us
from playhead.querylog.parameters import read_parameters
from playhead.querylog.rows import NotARow
from playhead.querylog.shapes import read_row
from playhead.querylog.stderr_prefix import prefix_of
from playhead.record import Record, Slice, TimestampType
from playhead.testing import exercise_source
from playhead.traffic.snapshot import NoSnapshot
from playhead.traffic.source import TrafficSource

DATA = Path(__file__).parent.parent / "data" / "querylog"
PREFIX = "%m|%u|%d|%c|"
FILES = sorted(each.name for each in DATA.iterdir())
LOGS = [name for name in FILES if name.startswith("pg")]
SCHEMES = {".csv": "csvlog", ".json": "jsonlog", ".log": "pglog"}
ROW = (DATA / "pg15_all_csvlog.csv").read_bytes().splitlines(keepends=True)[0]


def cut(data: bytes) -> list[bytes]:
    return [*rows_of(iter([data]), cutter_of(form_of(data[:500]), PREFIX))]


# --- parameters


def quoted(values: list[str | None]) -> str:
    """As the server writes them, by its documentation."""
    parts = []
    for number, value in enumerate(values, 1):
        text = (
            "NULL"
            if value is None
            else "'" + "".join(c * 2 if c == "'" else c for c in value) + "'"
        )
        parts.append(f"${number} = {text}")
    return ", ".join(parts)


AWKWARD = st.text(st.sampled_from("'a,$1 =\n\t\\\"N.é") | st.characters(exclude_categories=["Cs"]))


@given(st.lists(st.none() | AWKWARD, min_size=1), st.sampled_from(["parameters: ", "Parameters: "]))
def test_parameters_are_read_as_they_were(values: list[str | None], label: str) -> None:
    assert read_parameters(label + quoted(values)) == tuple(values)


@given(st.lists(st.none() | AWKWARD, min_size=1), st.data())
def test_parameters_that_are_not_whole_are_none_or_fewer(
    values: list[str | None], data: st.DataObject
) -> None:
    text = "parameters: " + quoted(values)
    at = data.draw(st.integers(0, len(text) - 1))
    found = read_parameters(text[:at])
    # A cut exactly between two parameters cannot be told from fewer parameters.
    assert (
        found is None
        or found == tuple(values)[: len(found)]
        or found[:-1] == tuple(values)[: len(found) - 1]
    )


@pytest.mark.parametrize(
    "detail",
    [None, "", "parameters: ", "prepare: PREPARE p AS SELECT 1", "parameters: $2 = '1'", "parameters: $1 = 1",
     "parameters: $1 = 'a' $2 = 'b'", "parameters: $1 = 'a',", "Key (id)=(1) already exists."],
)  # fmt: skip
def test_other_details_are_no_parameters(detail: str | None) -> None:
    assert read_parameters(detail) is None


# --- times and prefixes


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2021-08-04 12:00:00.250 UTC", 1_628_078_400.25),
        ("2021-08-04 14:00:00.250 CEST", 1_628_078_400.25),
        ("2021-08-04 12:00:00 GMT", 1_628_078_400.0),
        ("2021-08-04 17:30:00.000 +0530", 1_628_078_400.0),
        ("2021-08-04 15:00:00.000 +03", 1_628_078_400.0),
        ("2021-08-04 08:00:00.000 -04:00", 1_628_078_400.0),
    ],
)
def test_times(text: str, seconds: float) -> None:
    assert time_us(text) == round(seconds * 1_000_000)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2021-08-04",
        "2021-08-04 12:00:00.1 IST",
        "2021-13-04 12:00:00 UTC",
        "2021-08-04 12:00:00.x UTC",
    ],
)
def test_times_that_are_not_certain_are_refused(text: str) -> None:
    with pytest.raises(NotARow):
        time_us(text)


@pytest.mark.parametrize(
    ("prefix", "line"),
    [
        ("%m [%p] ", "2021-08-04 12:00:00.250 UTC [77] LOG:  statement: select 1"),
        ("%m|%u|%d|%c|", "2021-08-04 12:00:00.250 UTC|u|d|65.4d|LOG:  statement: select 1"),
        ("%n %c %l %e %a ", "1628078400.250 65.4d 3 00000 my app LOG:  statement: select 1"),
        (
            "%t:%r:%u@%d:[%p]:",
            "2021-08-04 12:00:00 UTC:10.0.0.1(5):u@d:[77]:LOG:  statement: select 1",
        ),
        ("%m [%p] %q%u@%d ", "2021-08-04 12:00:00.250 UTC [77] u@d LOG:  statement: select 1"),
        (
            "%m [%5p] %-8u %d%% ",
            "2021-08-04 12:00:00.250 UTC [   77] u        d% LOG:  statement: select 1",
        ),
    ],
)
def test_prefixes(prefix: str, line: str) -> None:
    row = read_row(line.encode(), prefixes=[prefix])
    assert row.time_us // 1_000_000 == 1_628_078_400
    assert row.message == "statement: select 1"
    assert row.session in ("77", "65.4d")
    if "%u" in prefix:
        assert (row.user, row.database) == ("u", "d")


def test_a_prefix_without_time_or_session_is_refused() -> None:
    for prefix in ("", "%m ", "[%p] ", "%m %p %Z"):
        with pytest.raises(BadValue):
            prefix_of(prefix)


# --- forms


def test_the_same_rows_in_every_form() -> None:
    of_csv = [read_row(row) for row in cut((DATA / "pg15_all_csvlog.csv").read_bytes())]
    for name in ("pg15_all_jsonlog.json", "fluentd_csvparser_pg15_all.jsonl"):
        others = [read_row(row) for row in cut((DATA / name).read_bytes())]
        assert len(others) == len(of_csv)
        for one, other in zip(of_csv, others, strict=True):
            code = other.sqlstate or "00000"  # A jsonlog leaves this one out.
            assert one == other._replace(sqlstate=code, tag=other.tag)
    kreplay = [read_row(row) for row in cut((DATA / "fluentd_kreplay_pg12_dur.jsonl").read_bytes())]
    plain = [read_row(row) for row in cut((DATA / "pg12_dur_csvlog.csv").read_bytes())]
    assert kreplay == plain


def test_wrapped_rows_and_maps_of_msgpack() -> None:
    row = cut((DATA / "pg15_all_csvlog.csv").read_bytes())[5]
    plain = read_row(row)
    text = row.decode().rstrip("\n")
    json_row = cut((DATA / "pg15_all_jsonlog.json").read_bytes())[5].decode()
    for inner in (text, json_row):
        expected = read_row(inner.encode())
        assert (
            read_row(json.dumps({"event": {"original": inner}, "message": "x"}).encode())
            == expected
        )
        assert read_row(json.dumps({"message": inner, "@timestamp": "…"}).encode()) == expected
        assert read_row(msgpack.packb({"message": inner})) == expected
    fluentd = json.loads(cut((DATA / "fluentd_csvparser_pg15_all.jsonl").read_bytes())[5])
    assert read_row(msgpack.packb(fluentd)) == plain
    old = {key.encode(): value.encode() for key, value in fluentd.items()}
    assert read_row(msgpack.packb(old, use_bin_type=False)) == plain


@pytest.mark.parametrize(
    "value",
    [b"", b"{}", b"{", b"[1]", b"null", b"hello", b"\xff\xfe", b"\x81\xa1a", b"\xde", b'{"session_id": 5}',
     b'{"session_id": "a.b", "log_time": "x", "error_severity": "LOG", "message": "m"}',
     b'{"message": "' + b'{\\"message\\": ' * 3 + b'"}', ROW[:-5], ROW + ROW, ROW.replace(b"UTC", b"XYZ", 1),
     ROW.replace(b"6b0110fd", b"6b\xff0110fd", 1), b'"' * 1_000],
)  # fmt: skip
def test_what_is_no_row_is_refused(value: bytes) -> None:
    with pytest.raises(NotARow):
        read_row(value)


def test_detail_that_was_torn_apart_and_cannot_be_joined_is_named() -> None:
    row = json.loads(cut((DATA / "fluentd_kreplay_pg12_dur.jsonl").read_bytes())[7])
    row["hint"] = row["hint"].replace("'", '"')
    assert read_row(json.dumps(row).encode()).is_torn


@settings(max_examples=300)
@given(st.binary(max_size=300))
def test_random_bytes_are_refused_or_read(value: bytes) -> None:
    with suppress(NotARow):
        read_row(value)


# --- rows of files


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_cut_into_the_same_rows_however_it_arrives(name: str) -> None:
    data = (DATA / name).read_bytes()
    whole = cut(data)
    assert b"".join(whole) == data
    if name.endswith(".csv"):
        assert len(whole) == len([*csv.reader(io.StringIO(data.decode(), newline=""))])
    seed = random.Random(3)
    for _ in range(5):
        cutter, found, at = cutter_of(form_of(data[:500]), PREFIX), [], 0
        while at < len(data):
            size = seed.choice((1, 7, 100, 5_000))
            found += cutter.take(data[at : at + size])
            at += size
        assert found + cutter.end() == whole
        assert cutter.held_bytes == 0


def test_a_row_that_ends_in_the_middle_takes_no_other_with_it() -> None:
    whole = cut((DATA / "pg15_csvlog_full.csv").read_bytes())
    for row, after in pairwise(whole):
        for at in range(1, len(row), 17):
            assert after in cut(row[:at] + b"\n" + after)


@pytest.mark.parametrize("form", ["csvlog", "jsonlog", "stderr"])
@pytest.mark.parametrize("line", [b'"', b"\t\n", b"x" * 999])
def test_a_row_that_is_too_long_is_not_kept(form: LogForm, line: bytes) -> None:
    """Whoever writes the log decides where it ends, and the memory is ours."""
    cutter, rows, most = replace(cutter_of(form, PREFIX), longest=100_000), [], 0
    start = ROW[:-1] + (b',"' if form == "csvlog" else b"")
    data = start + line * (1_000_000 // len(line)) + b'"\n' + ROW
    for at in range(0, len(data), 7_000):
        rows += cutter.take(data[at : at + 7_000])
        most = max(most, len(cutter._open))
    rows += filter(None, [cutter.rest()])
    assert sum(row.length for row in located(rows)) == len(data)
    assert most < 110_000
    if line != b"\t\n" or form == "csvlog":
        assert [type(row) for row in rows[:-1]] == [LongRow]
        assert rows[-1] == ROW


def test_no_part_of_a_row_that_is_too_long_is_a_row() -> None:
    """Its author could have written a part that looks like a row of somebody else."""
    at = "2026-11-23 11:00:00.000 UTC"
    forged = (
        f"{at},postgres,shop,99,,aaaa.bb,5,X,{at},3/2,0,LOG,00000,statement: drop table t,,,,,,,,,"
        "psql,client backend,,0,"
    )
    text = f"select 1 --\n{'x' * 1_500}\n{forged}"
    row = (
        f'{at},"app","shop",77,"10.0.0.1:5",6f.4d,2,"SELECT",{at},3/1,0,LOG,00000,"statement: {text}",'
        ',,,,,,,,",a","client backend",,0\n'
    ).encode()
    for size in range(1, 60):
        cutter, rows = replace(cutter_of("csvlog"), longest=1_000), []
        for start in range(0, len(row), size):
            rows += cutter.take(row[start : start + size])
        [found] = located(rows)
        assert (found.session, found.length) == (None, len(row))
        assert b"drop" not in found.value
        with pytest.raises(NotARow):
            read_row(found.value)


def test_many_short_lines_of_one_row_take_no_more_memory_than_their_bytes() -> None:
    cutter, data = cutter_of("csvlog"), b'"' + b"\n" * 200_000
    tracemalloc.start()
    try:
        for at in range(0, len(data), 50_000):
            assert cutter.take(data[at : at + 50_000]) == []
        assert tracemalloc.get_traced_memory()[0] < 600_000
    finally:
        tracemalloc.stop()


def test_a_row_inside_of_a_text_is_no_row() -> None:
    """Somebody stores rows of a log in a table, and the server logs that."""
    inner = ROW.decode().replace("'", "''").replace('"', '""')
    outer = ROW.replace(
        b"connection received: host=127.0.0.1 port=53096",
        f"statement: select '\n{inner}\n'".encode(),
    )
    assert cut(outer + ROW) == [outer, ROW]


@pytest.mark.parametrize("name", FILES)
def test_a_rows_address_is_what_the_whole_row_says(name: str) -> None:
    for each in cut((DATA / name).read_bytes()):
        row, address = read_row(each, prefixes=[PREFIX]), address_of(each, PREFIX)
        assert address == (row.session.encode(), row.database, row.time_us)


_TIMES = (
    "2026-03-29 00:59:59.999 UTC", "2026-03-29 00:59:59.9 UTC", "2026-03-29 00:59:59 UTC",
    "2026-03-29 00:59:59.999123 UTC", "2026-03-29 00:59:59.999 CET", "2026-03-29 00:59:59.998 CEST",
    "2026-03-29 00:59:59.999 IST", "2026-03-29 00:59:59.999 +05:30", "2026-02-30 00:59:59.999 UTC",
    "2026-03-29 00:59:60.999 UTC", "2026-03-29 00:59:59,999 UTC", "2026-03-29 00:59:59.+99 UTC",
)  # fmt: skip
_SENDERS = (
    '"app","shop",77,"10.0.0.1:5",6f.4d,', '"app","shop",77,"10.0.0.1:5",6f.4e,', ',,77,,6f.4d,',
    '"a,b","s,hop",77,"[local]",6f.4d,', '"a""","sh""op",77,"[local]",6f.4d,', '"app","shop",77,"10.0.0.1:5",,',
    '"app",shop,77,"10.0.0.1:5",6f.4d,', '"app","shÿ",77,"10.0.0.1:5",6f.4d,',
    '"' + "a" * 60 + '","shop",77,"10.0.0.1:5",6f.4d,', '"' + "a" * 60 + '","shop",77,"10.0.0.1:5",6f.4e,',
)  # fmt: skip


def test_what_is_known_of_earlier_rows_changes_no_address() -> None:
    """Each row is read with nothing known, and then after all others, twice and in another order."""
    rows = [f"{at},{who}1,rest,x".encode("latin-1") for at in _TIMES for who in _SENDERS]

    def address(row: bytes) -> object:
        try:
            return address_of(row)
        except NotARow as exc:
            return str(exc)

    expected = {}
    for row in rows:
        addresses._senders.clear()
        addresses._seconds.clear()
        expected[row] = address(row)
    assert len({*expected.values()}) > 30
    for order in (rows, rows[::-1], random.Random(1).sample(rows, len(rows))):
        assert {row: address(row) for row in order} == expected


def test_places_and_topics() -> None:
    assert topic_of("shop") == "pg_raw_shop"
    assert topic_of(None) == "pg_raw_unmatched"
    assert topic_of("a b/ä") == "pg_raw_a_b__"
    assert [place_in(((name, b"12"),)) for name in ("log.place", "other")] == [12, None]
    bad = [*located([b"nonsense\n", ROW])]
    assert (bad[0].session, bad[0].reason is None, bad[1].line, bad[1].start) == (None, False, 2, 9)


# --- as a source


def values(source: TrafficSource) -> dict[int, bytes | None]:
    """By place."""
    found = {}
    with source.open() as reader:
        for (topic, partition), bounds in source.bounds().items():
            for records in reader.read(Slice(topic, partition, bounds.earliest, bounds.stable_end)):
                for headers, value in zip(records.headers or (), records.values, strict=True):
                    found[place_in(headers) or 0] = value
    return found


@pytest.mark.parametrize("name", LOGS)
def test_every_byte_of_a_log_is_in_a_record(name: str) -> None:
    source = TrafficSource(SCHEMES[Path(name).suffix], str(DATA / name))  # type: ignore[arg-type]
    found = values(source)
    assert (
        b"".join((found[place] or b"") + b"\n" for place in sorted(found))
        == (DATA / name).read_bytes()
    )
    assert source.unread() == 0


def test_several_files_packed_ones_too_are_one_log_in_their_order(tmp_path: Path) -> None:
    names = ["pg18_csvlog_full.csv", "pg10_csvlog_full.csv", "pg15_csvlog_full.csv"]
    for number, name in enumerate(names):
        data = (DATA / name).read_bytes()
        (tmp_path / f"{number}.csv.gz").write_bytes(gzip.compress(data))
    # By the times of their first rows: 03:21:19, 03:21:38, 03:22:12.
    expected = b"".join((DATA / names[number]).read_bytes() for number in (2, 0, 1))
    for where in (tmp_path, tmp_path / "*.gz"):
        found = values(TrafficSource("csvlog", str(where)))
        assert b"".join((found[place] or b"") + b"\n" for place in sorted(found)) == expected
    with pytest.raises(NoSnapshot):
        TrafficSource("csvlog", str(tmp_path / "*.csv")).bounds()


def test_a_row_that_is_not_understood_is_a_record_and_is_named(tmp_path: Path) -> None:
    rows = cut((DATA / "pg15_all_csvlog.csv").read_bytes())
    rows[3] = b"2026-11-21 03:33:17.600 UTC,broken\n"
    (tmp_path / "a.csv").write_bytes(b"".join(rows))
    source = TrafficSource("csvlog", str(tmp_path / "a.csv"))
    assert source.unread() == 1
    assert len(values(source)) == len(rows)
    notes = [note.text for note in source.facts().notes]
    assert any("a.csv:4: " in text for text in notes)


def test_a_log_keeps_the_contract_of_sources() -> None:
    path = DATA / "pg15_csvlog_full.csv"
    numbers: Counter[str] = Counter()
    expected, at = [], 0
    for row in cut(path.read_bytes()):
        columns = next(csv.reader([row.decode()]))
        topic = f"pg_raw_{columns[2] or 'unmatched'}"
        time_ms = round(
            datetime.fromisoformat(columns[0].replace(" UTC", "+00:00")).timestamp() * 1_000
        )
        headers = (("log.place", str(at).encode()),)
        expected.append(
            Record(
                topic,
                0,
                numbers[topic],
                time_ms,
                TimestampType.CREATE_TIME,
                columns[5].encode(),
                row[:-1],
                headers,
            )
        )
        numbers[topic] += 1
        at += len(row)
    lacks = (
        "null key",
        "empty key",
        "null value",
        "empty value",
        "repeated header",
        "null header",
        "absent offset",
    )
    exercise_source(lambda: TrafficSource("csvlog", str(path)), expected, lacks=lacks)


# --- what SQL is


@pytest.mark.parametrize(
    ("text", "writes", "select_only"),
    [
        ("select 1", False, True),
        ("select count(*), now() from t where a = $1", False, True),
        ("select f(1)", True, False),
        ("select pg_catalog.lower('A')", False, True),
        ("select public.lower('A')", True, False),
        ("select nextval('s')", True, False),
        ("select * from t for update", True, False),
        ("with x as (delete from t returning 1) select * from x", True, False),
        ("select a into b from t", True, False),
        ("table t", False, True),
        ("explain delete from t", False, False),
        ("explain analyze delete from t", True, False),
        ("begin", False, False),
        ("set x = 1", False, False),
        ("select set_config('a', 'b', false)", True, False),
        ("select pg_advisory_lock(1)", True, False),
        ("select txid_current()", True, False),
        ("copy t to stdout", False, False),
        ("copy t to '/x'", True, False),
        ("copy t from stdin", True, False),
        ("execute p", True, False),
        ("commit prepared 'x'", True, False),
        ("select 1; insert into t values (1)", True, False),
        ("select 1;\0 delete from t", True, False),
        ("not sql at all", True, False),
        ("\ud800", True, False),
    ],
)
def test_what_may_write(text: str, writes: bool, select_only: bool) -> None:
    assert (sql.may_write(text), sql.is_select_only(text)) == (writes, select_only)


@pytest.mark.parametrize(
    ("text", "act", "open_behind"),
    [
        ("BEGIN", "begin", True),
        (" /* x */ start transaction isolation level serializable", "begin", True),
        ("commit;", "commit", False),
        ("END", "commit", False),
        ("commit and chain", "commit", True),
        ("ROLLBACK", "rollback", False),
        ("abort", "rollback", False),
        ("rollback to savepoint a", "none", None),
        ("savepoint a", "none", None),
        ("prepare transaction 'x'", "commit", False),
        ("commit prepared 'x'", "none", None),
        ("prepare p as select 1", "none", None),
        ("select 'begin; commit'", "none", None),
        ("begin; select 1; commit", "several", False),
        ("select 1; begin", "several", True),
    ],
)
def test_what_a_text_does_to_its_transaction(text: str, act: str, open_behind: bool | None) -> None:
    assert sql.transaction_act(text).value == act
    assert sql.leaves_open(text, before=None) is open_behind


@pytest.mark.parametrize(
    ("text", "alone"),
    [("vacuum t", True), ("create database d", True), ("call p()", True), ("do $$begin end$$", True),
     ("create index concurrently i on t(a)", True), ("create index i on t(a)", False), ("reindex table t", False),
     ("reindex table concurrently t", True), ("reindex database d", True), ("discard all", True),
     ("discard plans", False), ("insert into t values (1)", False)],
)  # fmt: skip
def test_what_runs_alone(text: str, alone: bool) -> None:
    assert sql.runs_alone(text) is alone


def test_texts_without_values() -> None:
    assert sql.normalized("select * from t where a = 'secret'") == "select * from t where a = $1"
    assert "secret" not in sql.normalized("selec 'secret'")
