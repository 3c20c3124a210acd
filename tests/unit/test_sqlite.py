"""SQLite keeps the contract of every target, refuses what it cannot do, and leaves nothing open to others."""

import json
import os
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from playhead.account import Account, ErrorRule, RecordRefused
from playhead.config.context import configure
from playhead.endpoint import BadEndpoint, Endpoint
from playhead.errors import NoSuchColumn, PlayheadError, Refused, Unavailable
from playhead.ledger import NOT_KEPT, LedgerUnreadable
from playhead.record import Headers, Record, Slice, TimestampType
from playhead.records import Records
from playhead.replay.assemble import target_at
from playhead.request import Request, TableRules
from playhead.source import SourceFacts, TopicFacts
from playhead.sqlite import session
from playhead.sqlite.target import SqliteTarget, count_converted
from playhead.tables.row_table import RowTable
from playhead.target import Inspection, InspectRequest, OutOfOrder
from playhead.terms import NotBegunThere, OtherTerms
from playhead.testing import exercise_target, sample_records
from playhead.testing.target_case import compared, terms

WHOLE = TableRules(tombstones="null", form="bytes")
COLUMNS = "_topic, _partition, _offset, _timestamp, _key, _headers, value"
PLACE = ("_topic", "_partition", "_offset")


def rows(file: Path, what: str) -> list[Any]:
    connection = sqlite3.connect(file)
    try:
        return connection.execute(what).fetchall()
    finally:
        connection.commit()
        connection.close()


def everything(file: Path) -> list[Record]:
    found = rows(file, f"SELECT {COLUMNS} FROM kept") if file.exists() else []
    return [
        Record(*each[:4], TimestampType.CREATE_TIME, as_bytes(each[4]), each[6], headers(each[5]))
        for each in found
    ]


def as_bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def headers(text: str) -> Headers:
    pairs = json.loads(text)
    return tuple((n, v if v is None else v.encode("utf-8", "surrogateescape")) for n, v in pairs)


@pytest.mark.parametrize("rule", [None, "ignore", "update"])
def test_a_table_that_takes_every_record(tmp_path: Path, rule: str | None) -> None:
    file = tmp_path / "laps.db"
    key = f", PRIMARY KEY ({', '.join(PLACE)})" if rule else ""
    rows(file, f"CREATE TABLE kept ({COLUMNS}{key})")

    def damage() -> None:
        last = "SELECT max(_offset) FROM kept"
        rows(file, f"UPDATE kept SET value = x'00' WHERE _offset = ({last})")

    exercise_target(
        lambda: SqliteTarget(str(file), "kept", replace(WHOLE, on_conflict=rule)),
        lambda: everything(file),
        replaces=bool(rule),
        exclusive=True,
        damage=damage,
    )


def test_a_table_that_cannot_take_some(tmp_path: Path) -> None:
    file = tmp_path / "laps.db"
    rows(file, f"CREATE TABLE kept ({COLUMNS}, CHECK (value IS NULL OR value <> x'62'))")
    exercise_target(
        lambda: SqliteTarget(str(file), "kept", WHOLE),
        lambda: everything(file),
        exclusive=True,
        bad_record=replace(sample_records()[0], value=b"b"),
    )


def test_a_table_that_is_made(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "made.db"
    file.parent.mkdir(mode=0o700)
    exercise_target(
        lambda: SqliteTarget(str(file), "kept", replace(WHOLE, on_conflict="ignore", create=True)),
        lambda: everything(file) if file.exists() and rows(file, TABLES) else [],
        replaces=True,
        exclusive=True,
    )


TABLES = "SELECT 1 FROM sqlite_master WHERE name = 'kept'"


# --- what it does with values


def written(
    target: SqliteTarget,
    *values: bytes | None,
    replay_id: str = "r",
    rule: ErrorRule | None = None,
) -> dict[str, Any]:
    """One slice of the next offsets, with these values."""
    base = 10 * len(target.entries(replay_id))
    create = TimestampType.CREATE_TIME
    records = [Record("t", 0, base + n, 1, create, b"k", value) for n, value in enumerate(values)]
    samples = [Records.of(records)]
    seen = InspectRequest(SourceFacts("contract", {"t": TopicFacts()}), {"t": 1}, samples)
    target.prepare(replay_id, target.inspect(seen), terms("t"))
    account = Account(Slice("t", 0, base, base + 10), rule)
    account.read = len(records)
    with target.open(replay_id) as writer:
        writer.commit(account, samples)
        [*_, entry] = target.entries(replay_id)
        found = compared(writer, entry, samples)
    assert not found.different, found
    counts = {name: each for name, each in entry.details.items() if name != "columns"}
    return {"same": found.same, "unknown": found.unknown, **counts}


def test_fields_of_json_become_columns(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    target = SqliteTarget(str(file), "{topic}", TableRules(create=True))
    long = b'{"a": 9223372036854775807, "b": 1.5, "c": {"d": [1]}, "e": null, "f": "x", "g": true}'
    assert written(target, long) == {"same": 1, "unknown": 0}
    assert rows(file, "SELECT a, b, c, e, f, g, _topic, _key FROM t") == [
        (9223372036854775807, 1.5, '{"d": [1]}', None, "x", 1, "t", "k")
    ]


@pytest.mark.parametrize(
    "value", [b"[1]", b"{", b'{"a": NaN}', b'{"a": 9223372036854775808}', b'{"a": "\\ud800"}', None]
)
def test_a_value_that_can_be_no_row_is_refused(tmp_path: Path, value: bytes | None) -> None:
    target = SqliteTarget(str(tmp_path / "a.db"), "t", TableRules(create=True))
    written(target, b'{"a": 1}')
    with pytest.raises(RecordRefused):
        written(target, value)


def test_a_number_that_no_double_has_keeps_its_digits(tmp_path: Path) -> None:
    target = SqliteTarget(str(tmp_path / "a.db"), "t", TableRules(create=True))
    written(target, b'{"a": 0.1, "b": 1.50, "c": 0.12345678901234567891, "d": 1e999}')
    found = rows(tmp_path / "a.db", "SELECT a, b, c, d FROM t")
    assert found == [(0.1, 1.5, "0.12345678901234567891", "1e999")]


@pytest.mark.parametrize("exponent", ["1" + "0" * 21, "-1" + "0" * 21])
def test_a_number_beyond_every_exponent_keeps_its_digits(tmp_path: Path, exponent: str) -> None:
    target = SqliteTarget(str(tmp_path / "a.db"), "t", TableRules(create=True))
    written(target, f'{{"a": 1e{exponent}, "b": 0e{exponent}}}'.encode())
    found = rows(tmp_path / "a.db", "SELECT a, b FROM t")
    assert found == [(f"1e{exponent}", f"0e{exponent}")]


def test_what_is_nested_stays_the_text_that_it_is(tmp_path: Path) -> None:
    target = SqliteTarget(str(tmp_path / "a.db"), "t", TableRules(create=True))
    texts = [
        '{"a": 1, "a": [2]}',
        '[0.12345678901234567891, {"]": "\\"}"}]',
        '{"b": {"c": [[]]}, "a": "x"}',
    ]
    value = f'{{"a": {texts[0]}, "b\\n": {texts[1]}, "s": "{{", "d": [1], "d": {texts[2]}}}'
    written(target, value.encode())
    assert rows(tmp_path / "a.db", 'SELECT a, "b\n", s, d FROM t') == [
        (texts[0], texts[1], "{", texts[2])
    ]


def test_types_of_the_table_do_not_count_as_differences(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    columns = "a TEXT, b REAL, c INTEGER, _partition TEXT, _offset INTEGER"
    rows(file, f"CREATE TABLE t ({columns})")
    value = b'{"a": 5, "b": 7, "c": "8", "left out": 1}'
    assert written(SqliteTarget(str(file), "t"), value)["same"] == 1
    assert rows(file, "SELECT a, b, c FROM t") == [("5", 7.0, 8)]


@pytest.mark.parametrize(
    ("kind", "changed", "kept"),
    [
        ("INTEGER", "007", "7"),
        ("INTEGER", " 7", "seven 7"),
        ("NUMERIC", "1e3", "1000"),
        ("STRING", "+4912345", "ab12"),
        ("REAL", "1.50", "1.5"),
        ("TEXT", 0.30000000000000004, 0.5),
        ("INTEGER", "123456789012345678901234567890", 1.0),
        ("NUMERIC", "0.12345678901234567890", 0.5),
    ],
)
@pytest.mark.parametrize("rule", [None, "update"])
def test_values_that_a_declared_type_changes_are_counted(
    tmp_path: Path, kind: str, changed: Any, kept: Any, rule: str | None
) -> None:
    file = tmp_path / "a.db"
    rows(file, f"CREATE TABLE t (id PRIMARY KEY, a {kind}, _partition, _offset)")
    target = SqliteTarget(str(file), "t", TableRules(on_conflict=rule))
    values = [
        json.dumps({"id": n, "a": each}).encode() for n, each in enumerate((changed, kept, None))
    ]
    assert written(target, *values)["with_converted_values"] == 1
    samples = [Records.of(Record("t", 0, 0, 1, TimestampType.CREATE_TIME, b"k", v) for v in values)]
    seen = InspectRequest(SourceFacts("contract", {"t": TopicFacts()}), {"t": 1}, samples)
    [note] = [n for n in target.inspect(seen).notes if n.code == "target-values-converted"]
    assert note.text.startswith("1 of the sampled records have values that declared types of t")


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16le", "UTF-16be"])
def test_characters_that_a_database_does_not_hold_are_counted(
    tmp_path: Path, encoding: str
) -> None:
    file = tmp_path / "a.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA encoding = '{encoding}'")
        connection.execute("CREATE TABLE t (id, _partition, _offset)")
    values = [json.dumps({"id": each}).encode() for each in ("\ufffe", "a\uffffb", "\ufffd", "a")]
    found = written(SqliteTarget(str(file), "t"), *values)
    assert found.get("with_converted_values", 0) == (0 if encoding == "UTF-8" else 2)


def test_an_integer_of_many_digits_in_a_real_column_is_counted() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (a REAL)")
        many = [{"a": (1 << 53) + 1}, {"a": 1 << 60}, {"b": "007"}]
        t = RowTable("t", {"a": "REAL"}, (), "", TableRules())
        assert count_converted(session.Session(connection), t, many) == 1


@pytest.mark.parametrize("kind", ["INTEGER", "TEXT", "STRING"])
@pytest.mark.parametrize("bad", [1 << 63, -(1 << 63) - 1, 10**400, "\ud800 7"])
def test_a_value_that_no_column_takes_is_one_refused_record(
    tmp_path: Path, kind: str, bad: Any
) -> None:
    file = tmp_path / "a.db"
    rows(file, f"CREATE TABLE t (a {kind}, _partition INTEGER, _offset INTEGER)")
    target = SqliteTarget(str(file), "t")
    values = [json.dumps({"a": each}).encode() for each in (bad, "x")]
    held = [Record("t", 0, n, 1, TimestampType.CREATE_TIME, b"k", v) for n, v in enumerate(values)]
    seen = InspectRequest(
        SourceFacts("contract", {"t": TopicFacts()}), {"t": 1}, [Records.of(held)]
    )
    assert not [n for n in target.inspect(seen).notes if n.code == "target-values-converted"]
    target.prepare("r", Inspection(""), terms())
    account = Account(Slice("t", 0, 0, 2), ErrorRule.parse("skip"))
    account.read = 2
    with target.open("r") as writer:
        writer.commit(account, [Records.of(held)])
    assert account.refused_offsets == {0}
    assert rows(file, "SELECT a FROM t") == [("x",)]


def test_columns_without_a_type_change_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    rows(file, "CREATE TABLE t (a, b TEXT, c BLOB, _partition INTEGER, _offset INTEGER)")
    target = SqliteTarget(str(file), "t")
    values = b'{"a": "007", "b": "007", "c": "1e3"}', b'{"a": 1.0, "b": 7, "c": 1e3}'
    assert "with_converted_values" not in written(target, *values)


def test_of_one_key_the_last_record_stays_under_update_and_the_first_under_ignore(
    tmp_path: Path,
) -> None:
    for rule, kept in (("update", 3), ("ignore", 1)):
        file = tmp_path / f"{rule}.db"
        target = SqliteTarget(
            str(file),
            "t",
            TableRules(key=("id",), on_conflict=rule, tombstones="skip", create=True),
        )
        counts = written(target, b'{"id": 1, "v": 1}', None, b'{"id": 1, "v": 2}')
        # Left out by the rule that the user gave, and by nothing in the table.
        assert (counts["tombstones_skipped"], NOT_KEPT in counts) == (1, False)
        written(target, b'{"id": 1, "v": 3}')
        assert rows(file, "SELECT v FROM t") == [(kept,)]


def test_a_row_more_than_was_written_is_a_difference(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    rows(file, "CREATE TABLE t (a, _partition, _offset)")
    target = SqliteTarget(str(file), "t")
    written(target, b'{"a": 1}')
    rows(file, "INSERT INTO t SELECT * FROM t")
    record = Record("t", 0, 0, 1, TimestampType.CREATE_TIME, b"k", b'{"a": 1}')
    with target.open("r") as writer:
        found = writer.compare(*target.entries("r"), [Records.of([record])])
    assert (found.different, found.same) == (1, 1)
    assert [each.text for each in found.differences] == ["no record stands for a row"]
    assert found.expected_checksum != found.found_checksum


# --- what it refuses


def test_another_file_that_lies_there_in_the_middle_of_a_run_gets_nothing(tmp_path: Path) -> None:
    # It has the table and a ledger of other replays, so that nothing else would refuse the records.
    target = SqliteTarget(str(tmp_path / "a.db"), "t")
    rows(tmp_path / "a.db", "CREATE TABLE t (v)")
    written(target, b'{"v": 1}', replay_id="another")
    account = Account(Slice("t", 0, 0, 10))
    account.read = 1
    record = Record("t", 0, 0, 1, TimestampType.CREATE_TIME, b"k", b'{"v": 2}')
    with target.open("r") as writer, pytest.raises(NotBegunThere, match="does not know r"):
        writer.commit(account, [Records.of([record])])
    assert rows(tmp_path / "a.db", "SELECT v FROM t") == [(1,)]
    assert not target.entries("r")


@pytest.mark.parametrize(
    ("key", "trigger"),
    [
        ("k PRIMARY KEY ON CONFLICT ROLLBACK", "SELECT 1"),
        ("k", "SELECT RAISE(ROLLBACK, 'no') FROM t WHERE k = new.k"),
    ],
)
def test_a_table_that_ends_the_transaction_gets_no_part_of_a_slice(
    tmp_path: Path, key: str, trigger: str
) -> None:
    rows(tmp_path / "a.db", f"CREATE TABLE t ({key}, _partition, _offset)")
    rows(tmp_path / "a.db", f"CREATE TRIGGER x BEFORE INSERT ON t BEGIN {trigger}; END")
    target = SqliteTarget(str(tmp_path / "a.db"), "t")
    values = [b'{"k": 1}', b'{"k": 2}', b'{"k": 1}', b'{"k": 3}']
    with pytest.raises(PlayheadError, match="table t ended the transaction of a slice"):
        written(target, *values, rule=ErrorRule("skip"))
    assert rows(tmp_path / "a.db", "SELECT count(*) FROM t") == [(0,)]
    assert target.entries("r") == []


@pytest.mark.parametrize(
    ("check", "bad"),
    [
        ("abs(v) >= 0", b"-9223372036854775808"),
        ("'a' NOT LIKE v", b'"%s"' % (b"%" * 60_000)),
        ("date(v) IS NOT 1", b'"now"'),
    ],
)
@pytest.mark.parametrize("rule", [None, "update"])
def test_a_value_for_which_a_function_of_the_table_fails_is_one_rejected_record(
    tmp_path: Path, check: str, bad: bytes, rule: str | None
) -> None:
    rows(tmp_path / "a.db", f"CREATE TABLE t (k PRIMARY KEY, v, CHECK ({check}))")
    target = SqliteTarget(str(tmp_path / "a.db"), "t", TableRules(on_conflict=rule))
    values = [b'{"k": 1, "v": 1}', b'{"k": 2, "v": %s}' % bad, b'{"k": 3, "v": 3}']
    with pytest.raises(RecordRefused):
        written(target, *values)
    written(target, *values, rule=ErrorRule("skip"))
    assert rows(tmp_path / "a.db", "SELECT k FROM t") == [(1,), (3,)]


@pytest.mark.parametrize("rule", [None, "ignore", "update"])
def test_a_slice_that_comes_before_the_one_it_follows_is_refused(
    tmp_path: Path, rule: str | None
) -> None:
    rules = TableRules(on_conflict=rule, key=("id",) if rule else (), create=True)
    target = SqliteTarget(str(tmp_path / "a.db"), "t", rules)
    written(target, b'{"id": 1}')
    account = Account(Slice("t", 0, 20, 30))
    account.follows = 20
    with target.open("r") as writer, pytest.raises(OutOfOrder):
        writer.commit(account, [])
    assert target.is_ordered


@pytest.mark.parametrize(
    "change", ["topic = 'other'", "partition = 1", "from_offset = -1", "to_offset = to_offset + 1"]
)
def test_a_ledger_whose_columns_and_entry_differ_is_refused(tmp_path: Path, change: str) -> None:
    target = SqliteTarget(str(tmp_path / "a.db"), "t", TableRules(create=True))
    written(target, b'{"id": 1}')
    rows(tmp_path / "a.db", f"UPDATE playhead_entries SET {change}")
    with pytest.raises(LedgerUnreadable, match="table playhead_entries cannot be read: the row of"):
        target.entries("r")


def test_rules_that_it_cannot_keep_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    rows(file, "CREATE TABLE t (a, _partition, _offset)")
    rows(file, "CREATE VIEW v AS SELECT * FROM t")
    for rules in (TableRules(on_conflict="newer"), TableRules(tombstones="delete")):
        with pytest.raises(Refused, match="a SQLite table cannot do --"):
            SqliteTarget(str(file), "t", rules)
    seen = InspectRequest(SourceFacts("s", {"t": TopicFacts()}), {"t": 1}, [])
    for rules, table in (
        (TableRules(key=("a",), on_conflict="update"), "t"),
        (TableRules(on_conflict="ignore"), "t"),
        (TableRules(), "v"),
    ):
        with pytest.raises(Refused, match=f"records cannot be written to {table}"):
            SqliteTarget(str(file), table, rules).inspect(seen)
    for table in ("sqlite_master", "playhead_entries"):
        with pytest.raises(Refused, match="is reserved for SQLite or the ledger"):
            SqliteTarget(str(file), table).inspect(seen)
    with pytest.raises(Refused, match="there is no table tt") as caught:
        SqliteTarget(str(file), "tt").inspect(seen)
    assert (caught.value.hint or "").startswith("did you mean t? --create")
    with pytest.raises(NoSuchColumn, match="--key names the column b, but t has no such") as known:
        SqliteTarget(str(file), "t", TableRules(key=("b",))).inspect(seen)
    assert known.value.hint == "columns of t: a, _partition, _offset"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        pytest.param(r'{"a\u0000": 1}', r"field 'a\x00' has a character NUL", id="nul"),
        pytest.param(r'{"\ud800": 1}', r"field '\ud800' has half of a surrogate pair", id="half"),
        pytest.param('{"a": 1, "A": 2}', "field 'A' is to SQLite the same name as 'a'", id="case"),
        pytest.param(
            '{"_Key": 1}', "'_Key' is to SQLite the same name as '_key'", id="of-a-record"
        ),
        pytest.param(
            json.dumps({f"c{n}": 1 for n in range(1_985)}),
            "1,985 columns: with those for the record itself, the maximum is 1,990",
            id="columns",
        ),
    ],
)
def test_fields_that_can_be_no_columns_are_refused_in_the_plan(
    tmp_path: Path, value: str, told: str
) -> None:
    target = SqliteTarget(str(tmp_path / "a.db"), "t", TableRules(create=True))
    record = Record("t", 0, 0, 1, TimestampType.CREATE_TIME, None, value.encode())
    seen = InspectRequest(SourceFacts("s", {"t": TopicFacts()}), {"t": 1}, [Records.of([record])])
    with pytest.raises(Refused, match="table t cannot have") as caught:
        target.inspect(seen)
    assert told in caught.value.message
    assert "--extra-fields COLUMN" in (caught.value.hint or "")


@pytest.mark.parametrize("rule", [None, "ignore"])
def test_as_many_fields_as_columns_can_be_are_written_and_compared(
    tmp_path: Path, rule: str | None
) -> None:
    target = SqliteTarget(str(tmp_path / "a.db"), "t", TableRules(create=True, on_conflict=rule))
    wide = {f"c{n}": n for n in range(1_982)} | {"ä": 1, "Ä": 2, "_offset": 9}
    assert written(target, json.dumps(wide).encode())["same"] == 1
    assert rows(tmp_path / "a.db", "SELECT c1981, ä, Ä, _offset FROM t") == [(1981, 1, 2, 0)]


def test_a_record_without_its_key_is_no_row_that_comes_again_and_again(tmp_path: Path) -> None:
    rules = TableRules(key=("id",), on_conflict="update", create=True)
    target = SqliteTarget(str(tmp_path / "a.db"), "t", rules)
    written(target, b'{"id": 1}')
    for value in (b"{}", b'{"id": null}'):
        with pytest.raises(RecordRefused, match="it has no value for the key id"):
            written(target, value)


def test_fields_without_a_column_are_named_before_they_are_left_out(tmp_path: Path) -> None:
    rows(tmp_path / "a.db", "CREATE TABLE t (a)")
    record = Record("t", 0, 0, 1, TimestampType.CREATE_TIME, None, b'{"a": 1, "A": 2, "b": 3}')
    seen = InspectRequest(SourceFacts("s", {"t": TopicFacts()}), {"t": 1}, [Records.of([record])])
    notes = SqliteTarget(str(tmp_path / "a.db"), "t").inspect(seen).notes
    assert [note.code for note in notes] == ["target-unplaced", "target-left-out"]
    assert "no column for A, b: these fields are left out; --extra-fields COLUMN" in notes[1].text


def test_what_a_column_for_extra_fields_stores_is_what_the_value_says(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    rows(file, "CREATE TABLE t (id, rest, _partition INTEGER, _offset INTEGER)")
    target = SqliteTarget(str(file), "t", TableRules(extra_fields="rest"))
    extra = '"a": 0.1234567890123456789, "b": {"c": 1, "c": 2}, "d": 1e400, "é": "\\u00e9"'
    assert written(target, f'{{"id": 1, {extra}}}'.encode())["same"] == 1
    kept = f"{{{extra}}}".replace('"é"', '"\\u00e9"')
    assert rows(file, "SELECT rest FROM t") == [(kept,)]


def test_of_two_fields_of_one_name_the_last_counts_and_the_proof_says_so(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    rows(file, "CREATE TABLE t (a, b, rest, _partition INTEGER, _offset INTEGER)")
    target = SqliteTarget(str(file), "t", TableRules(extra_fields="rest"))
    values = [b'{"a": 1, "a": 2}', b'{"a": 3, "b": {"x": 1, "x": 2}}', b'{"c": 1, "d": 0, "c": 2}']
    told = [Record("t", 0, n, 1, TimestampType.CREATE_TIME, None, v) for n, v in enumerate(values)]
    seen = InspectRequest(SourceFacts("s", {"t": TopicFacts()}), {"t": 1}, [Records.of(told)])
    (note,) = target.inspect(seen).notes
    assert (note.code, note.text[:22]) == ("target-fields-repeated", "1 of the sampled recor")
    assert written(target, *values)["same"] == 3
    (entry,) = target.entries("r")
    assert entry.details["with_repeated_fields"] == 1
    kept = rows(file, "SELECT a, b, rest FROM t ORDER BY _offset")
    assert kept[:2] == [(2, None, None), (3, '{"x": 1, "x": 2}', None)]
    assert kept[2] == (None, None, '{"c": 1, "c": 2, "d": 0}')


def test_fields_without_a_column_are_counted_kept_or_refused(tmp_path: Path) -> None:
    file, value = tmp_path / "a.db", b'{"a": 1, "b": {"c": [2]}, "_offset": 9, "n": null}'
    rows(file, "CREATE TABLE t (a, rest, _partition, _offset)")
    noted = written(SqliteTarget(str(file), "t"), value, b'{"a": 2}', b'{"b": 1}')
    counts = {"records": 2, "fields": {"b": 2, "_offset": 1}, "others": 0}
    assert noted == {"same": 3, "unknown": 0, "extra_fields": counts}
    keeping = SqliteTarget(str(file), "t", TableRules(extra_fields="rest"))
    assert written(keeping, value, replay_id="s") == {"same": 1, "unknown": 0}
    kept = rows(file, "SELECT rest FROM t WHERE rest IS NOT NULL")
    assert kept == [('{"_offset": 9, "b": {"c": [2]}}',)]
    failing = SqliteTarget(str(file), "t", TableRules(extra_fields="fail"))
    with pytest.raises(RecordRefused, match=r"no column takes _offset, b \(--extra-fields fail\)"):
        written(failing, value, replay_id="f")
    with pytest.raises(Refused, match="t has no column more for --extra-fields"):
        written(SqliteTarget(str(file), "t", TableRules(extra_fields="more")), value)
    made = SqliteTarget(str(file), "made", TableRules(create=True, extra_fields="more"))
    assert written(made, b'{"a": 1}', replay_id="m") == {"same": 1, "unknown": 0}
    written(made, b'{"z": 1}', replay_id="m")
    assert rows(file, "SELECT more FROM made") == [(None,), ('{"z": 1}',)]


def test_the_folder_of_the_file_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine").chmod(0o755)
    written(
        SqliteTarget(str(tmp_path / "mine" / "a.db"), "t", TableRules(create=True)), b'{"a": 1}'
    )
    assert stat.S_IMODE((tmp_path / "mine").stat().st_mode) == 0o755


@pytest.mark.parametrize("name", ["t", "T"])
def test_a_table_made_in_the_place_of_another_is_known(tmp_path: Path, name: str) -> None:
    file = tmp_path / "a.db"
    rows(file, f"CREATE TABLE {name} (a, _partition, _offset)")
    target = SqliteTarget(str(file), "t")
    written(target, b'{"a": 1}')
    rows(file, "DROP TABLE t")
    rows(file, f"CREATE TABLE {name} (a, _partition, _offset)")
    with pytest.raises(OtherTerms, match="it was dropped and created again"):
        written(target, b'{"a": 2}')
    with (
        target.open("r") as writer,
        pytest.raises(OtherTerms, match="it was dropped and created again"),
    ):
        writer.commit(Account(Slice("t", 0, 50, 60)), [])


def test_a_plan_makes_no_table_that_no_record_goes_to(tmp_path: Path) -> None:
    target = SqliteTarget(str(tmp_path / "a.db"), "t", TableRules(create=True))
    needs = {"tables": [{"table": "other", "columns": ["a"], "key": ["a"]}]}
    with pytest.raises(Refused, match="no record goes to table other"):
        target.prepare("r", Inspection(target.identity(), needs=needs), terms("t"))
    evil = {"table": 't" (a); DROP TABLE x; --', "columns": ['a" TEXT); --'], "key": ["a"]}
    [statement] = target.creates({"tables": [evil]})
    assert statement == (
        'CREATE TABLE "t"" (a); DROP TABLE x; --" ("a"" TEXT); --", PRIMARY KEY ("a"))'
    )


# --- other users, and other programs


def test_the_file_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        written(
            SqliteTarget(str(tmp_path / "far" / "new" / "a.db"), "t", TableRules(create=True)),
            b'{"a": 1}',
        )
    finally:
        os.umask(before)
    made = [tmp_path / "far" / "new", *(tmp_path / "far" / "new").iterdir()]
    assert [stat.S_IMODE(each.stat().st_mode) & 0o077 for each in made] == [0] * len(made)
    assert not (tmp_path / "far").stat().st_mode & 0o066


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "open")
    for folder in ("open", "link"):
        with pytest.raises(Refused, match="other users could replace"):
            SqliteTarget(str(tmp_path / folder / "a.db"), "t").terms("r")
    assert not [*(tmp_path / "open").iterdir()]


def test_another_program_that_has_the_file_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_WAITS_S", 0.1)
    target = SqliteTarget(str(tmp_path / "a.db"), "t", TableRules(create=True))
    written(target, b'{"a": 1}')
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="another program has locked"):
        written(target, b'{"a": 2}')
    other.close()
    written(target, b'{"a": 2}')


def test_tasks_that_write_at_once_wait_for_each_other(tmp_path: Path) -> None:
    target = SqliteTarget(str(tmp_path / "a.db"), "t", TableRules(create=True))
    written(target, b'{"a": 1}')
    create = TimestampType.CREATE_TIME

    def task(partition: int) -> None:
        with target.open("r") as writer:
            for start in range(0, 200, 10):
                account = Account(Slice("t", partition, start, start + 10))
                records = [
                    Record("t", partition, n, 1, create, None, b"{}")
                    for n in range(start, start + 10)
                ]
                account.read = len(records)
                writer.commit(account, [Records.of(records)])

    with ThreadPoolExecutor() as tasks:
        for done in [tasks.submit(task, partition) for partition in range(1, 5)]:
            done.result()
    assert rows(tmp_path / "a.db", "SELECT count(*) FROM t") == [(801,)]
    assert len(target.entries("r")) == 81


# --- as it is written


def test_its_endpoint_reads_back_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    end = Endpoint.parse("sqlite:a b.db?table=raw.{topic}")
    assert (end.name, end.address) == ("raw.{topic}", "a b.db")
    for each in (end, Endpoint("sqlite", "a&b?c", "x?y.db"), end.from_anywhere()):
        assert Endpoint.parse(str(each)) == each
    assert end.from_anywhere().address == str(tmp_path / "a b.db")
    for wrong in ("sqlite:", "sqlite:a.db", "sqlite:a.db?table=", "sqlite:?table=t"):
        with pytest.raises(BadEndpoint, match="needs a file"):
            Endpoint.parse(wrong)
    assert target_at(end, configure({})).entries("r") == []
    assert not [*tmp_path.iterdir()], "a look makes no file"
    assert (
        Request(source="kafka:t", target=str(end)).from_anywhere().target_endpoint.name == end.name
    )
