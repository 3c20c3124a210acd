"""Values of a schema registry on their way into tables, topics and archives: exact, judged, and refused as they are."""

import io
import json
import signal
import struct
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from google.protobuf import message_factory

from playhead.errors import PlayheadError, Unavailable
from playhead.record import Headers, Record, TimestampType
from playhead.schemas.registry import RegistryRefused, RegistryUnavailable
from playhead.schemas.schema_id import VALUE_HEADER
from tests.fix_archives import everything
from tests.fix_live import Live
from tests.fix_registry import TestRegistry
from tests.fix_replay import (
    LONG_TAPE,
    T0_MS,
    Deck,
    Performance,
    contents,
    ended,
    new_name,
    ran,
    totals,
    within,
)
from tests.fix_schemas import AVRO, CAR, CAR_TYPE, PROTO
from tests.spark.test_gaps import Command, look, places

COLUMNS = (
    "seq int8 PRIMARY KEY, price numeric, fixed numeric(20,2), again numeric, at_ms timestamptz, "
    "at_us timestamptz, local timestamp, day date, clock time, id uuid, speed float8, small float4, "
    "is_on bool, name text, raw bytea, kind text, either text, laps int[], tags jsonb, place jsonb"
)


def car(seq: int) -> dict[str, Any]:
    """Each with numbers, times and bytes that any way through a double or a millisecond would change."""
    return {
        "price": Decimal(f"-1234567890123456789.{seq:09d}"),
        "fixed": Decimal(seq) / 100,
        "again": None if seq % 2 else Decimal("0.01"),
        "at_ms": datetime(2021, 8, 4, 12, 30, 0, 5_000, UTC),
        "at_us": datetime(1908, 8, 4, 12, 30, 0, seq, UTC),
        "local": datetime(2021, 3, 28, 2, 30, 0, 7),
        "day": date(1969, 12, 31),
        "clock": time(23, 59, 59, 999_999),
        "id": uuid.UUID(int=seq),
        "seq": 2**53 + seq,
        "speed": 0.1,
        "small": 1.5 + seq,
        "is_on": seq % 3 == 0,
        "name": f"Ångström {seq}\n\"'",
        "raw": b"\x00\xff\\x",
        "kind": "B",
        "either": seq if seq % 2 else "text",
        "laps": [1, -2, seq],
        "tags": {"a": None, "b": 0.5},
        "place": {"toll": Decimal("0.123456789")},
    }


def row(seq: int) -> tuple[Any, ...]:
    """The car as the table's columns give it back."""
    held = car(seq)
    names = [name.split()[0] for name in COLUMNS.replace("numeric(20,2)", "numeric").split(", ")]
    return tuple(
        str(held[name])
        if name == "either"
        else {"toll": 0.123456789}
        if name == "place"
        else held[name]
        for name in names
    )


def avro(schema_id: int, seq: int, *, by_header: bool) -> tuple[bytes, Headers]:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, AVRO, car(seq))
    frame = struct.pack(">bI", 0, schema_id)
    if by_header:
        return stream.getvalue(), ((VALUE_HEADER, frame),)
    return frame + stream.getvalue(), ()


def tape(deck: Deck, *values: tuple[bytes | None, Headers]) -> str:
    """A topic of one partition with these values and headers."""
    topic = deck.topic("values", 1)
    kind = TimestampType.CREATE_TIME
    deck.write(
        [
            Record(topic, 0, at, T0_MS + 1_000 * at, kind, b"k%d" % at, value, headers)
            for at, (value, headers) in enumerate(values)
        ]
    )
    return topic


@pytest.fixture
def known(registry: TestRegistry, monkeypatch: pytest.MonkeyPatch) -> int:
    """The id of the cars' schema, at a registry that replays find."""
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", registry.url)
    return registry.register("cars-value", {"schema": json.dumps(CAR)})


GOOD = 6
BAD = [b'{"json": 1}', b"\0\0\0\0\x63?", b""]


def cars(deck: Deck, known: int) -> str:
    """Cars of both framings, among values that are none, and one that is no value."""
    good = [avro(known, seq, by_header=bool(seq % 2)) for seq in range(GOOD)]
    bad: list[tuple[bytes | None, Headers]] = [(value, ()) for value in BAD]
    cut, headers = good[0]
    return tape(deck, *good[:3], *bad, (cut[:-1], headers), *good[3:])


# --- tables


def test_avro_arrives_in_a_table_exactly_and_bad_records_go_where_they_should(
    deck: Deck, known: int, registry: TestRegistry
) -> None:
    topic, table, dead = cars(deck, known), deck.table(COLUMNS), new_name("dead")
    asked: dict[str, Any] = {"decode": "avro", "on_error": f"dlq:{dead}"}
    planned = deck.plan(f"kafka:{topic}", f"postgres:{table}", **asked)
    assert any("4 of 10 sampled records cannot be decoded" in n.text for n in planned.plan.notes)
    assert planned.plan.samples[0]["seq"] == 9007199254740992
    registry.asked.clear()
    assert totals(ran(planned)) == {"written": GOOD, "dead": 4}
    assert len(registry.asked) == 2, (
        "the schema, and the one that is not there, once in the one task"
    )
    assert deck.rows(table, rest="ORDER BY seq") == [row(seq) for seq in range(GOOD)]
    exact = deck.rows(table, "DISTINCT place->>'toll', at_us::text", "WHERE seq = 9007199254740993")
    assert exact == [("0.123456789", "1908-08-04 12:30:00.000001+00")]
    letters, originals = deck.records(dead), deck.records(topic)
    assert [each.value for each in letters] == [each.value for each in originals[3:7]]
    assert planned.verify().agrees
    without_run = deck.plan(f"kafka:{topic}", f"postgres:{table}", **asked).compare()
    assert without_run.unknown == 4
    assert not without_run.agrees
    with pytest.raises(PlayheadError, match="offset 3: cannot be decoded as avro: no schema id"):
        deck.play(f"kafka:{topic}", f"postgres:{table}", decode="avro", on_conflict="ignore")


def test_a_record_that_the_table_refuses_is_a_dead_letter_as_it_was_read(
    deck: Deck, known: int
) -> None:
    values = [avro(known, seq, by_header=False) for seq in range(3)]
    topic, dead = tape(deck, *values), new_name("dead")
    table = deck.table("seq int8 CHECK (seq <> 9007199254740993), name text")
    asked: dict[str, Any] = {"decode": "registry", "on_error": f"dlq:{dead}"}
    assert totals(deck.play(f"kafka:{topic}", f"postgres:{table}", **asked)) == {
        "written": 2, "dead": 1,
    }  # fmt: skip
    assert [each.value for each in deck.records(dead)] == [values[1][0]]


def test_a_table_is_made_of_what_a_schema_says(
    deck: Deck, registry: TestRegistry, known: int
) -> None:
    number = registry.register("p-value", {"schemaType": "PROTOBUF", "schema": PROTO})
    kind = message_factory.GetMessageClass(CAR_TYPE)
    made = [kind(i64=2**53 + n, u64=2**64 - 1, raw=b"\xff", times=[n]) for n in range(4)]
    for each in made:
        each.at.FromNanoseconds(1_628_080_200_000_005_000)
    bodies = [each.SerializeToString() for each in made]
    frame = struct.pack(">bI", 0, number) + b"\0"
    values: list[tuple[bytes | None, Headers]] = [(frame + body, ()) for body in bodies[:2]]
    values += [(body, ((VALUE_HEADER, frame),)) for body in bodies[2:]]
    topic, table = tape(deck, *values, (None, ())), f"{deck.schema}.made"
    asked: dict[str, Any] = {"decode": "protobuf", "create": True, "tombstones": "skip"}
    planned = deck.plan(f"kafka:{topic}", f"postgres:{table}", **asked)
    proof = ran(planned)
    assert totals(proof) == {"written": 5}
    assert proof.details["tombstones_skipped"] == 1
    types = dict(
        deck.sql(
            "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = %s",
            deck.schema,
        )
    )
    wanted = {
        "i64": "bigint",
        "u64": "numeric",
        "d": "double precision",
        "b": "boolean",
        "raw": "bytea",
        "times": "jsonb",
        "laps": "bigint",
        "at": "timestamp with time zone",
        "kind": "text",
    }
    assert {name: types.get(name) for name in wanted} == wanted
    at = datetime(2021, 8, 4, 12, 30, 0, 5, UTC)
    assert deck.rows(table, "i64, u64, raw, times, b, i32, laps, at", "ORDER BY i64") == [
        (2**53 + n, 2**64 - 1, b"\xff", [n], False, 0, None, at) for n in range(4)
    ]
    assert planned.verify().agrees


def test_a_field_that_a_protobuf_schema_lacks_is_counted_like_one_without_a_column(
    deck: Deck, registry: TestRegistry, known: int
) -> None:
    number = registry.register("p-value", {"schemaType": "PROTOBUF", "schema": PROTO})
    frame = struct.pack(">bI", 0, number) + b"\0"
    bodies = [message_factory.GetMessageClass(CAR_TYPE)(i64=n).SerializeToString() for n in (1, 2)]
    later = bodies[1] + b"\x98\x06\x05"  # The number 5 in a field 99.
    topic = tape(deck, (frame + bodies[0], ()), (frame + later, ()))
    columns = ", ".join(f'"{field.name}" text' for field in CAR_TYPE.fields)
    table, strict = deck.table(columns), deck.table(columns, "strict")
    asked: dict[str, Any] = {"decode": "protobuf"}

    proof = deck.play(f"kafka:{topic}", f"postgres:{table}", **asked)

    assert totals(proof) == {"written": 2}
    assert proof.extra_fields[topic].fields == {"#99": 1}
    asked |= {"extra_fields": "fail", "on_error": "skip"}
    assert totals(deck.play(f"kafka:{topic}", f"postgres:{strict}", **asked)) == {
        "written": 1, "skipped": 1,
    }  # fmt: skip
    assert deck.rows(strict, "i64") == [("1",)]


def test_plain_values_go_to_a_column_as_a_whole(deck: Deck) -> None:
    topic = tape(deck, *((struct.pack(">q", n - 1), ()) for n in range(3)), (b"short", ()))
    table = deck.table("_offset int8, value int8")
    proof = deck.play(f"kafka:{topic}", f"postgres:{table}", decode="long", on_error="skip")
    assert totals(proof) == {"written": 3, "skipped": 1}
    assert deck.rows(table, rest="ORDER BY 1") == [(0, -1), (1, 0), (2, 1)]
    some, fields = f"{deck.schema}.some", f"{deck.schema}.fields"
    asked: dict[str, Any] = {"decode": "long", "on_error": "skip", "where": "value >= 0"}
    proof = deck.play(f"kafka:{topic}", f"postgres:{some}", create=True, **asked)
    assert totals(proof) == {"written": 2, "filtered": 1, "skipped": 1}
    assert deck.rows(some, "value, pg_typeof(value)::text", "ORDER BY 1") == [
        (0, "bigint"), (1, "bigint"),
    ]  # fmt: skip
    select = "value::bigint * 2 AS twice, offset"
    deck.play(f"kafka:{topic}", f"postgres:{fields}", create=True, select=select, **asked)
    assert deck.rows(fields, '"twice", "offset"', "ORDER BY 1") == [(0, 1), (2, 2)]


# --- where and select


def test_where_looks_into_values_and_a_copy_keeps_their_bytes(deck: Deck, known: int) -> None:
    """Nobody can say of a value that cannot be decoded whether it is wanted."""
    topic, copy, dead = cars(deck, known), deck.topic("copy"), new_name("dead")
    asked: dict[str, Any] = {
        "decode": "avro",
        "where": "value:seq >= 9007199254740994 AND value:is_on::boolean IS NOT NULL",
        "on_error": f"dlq:{dead}",
    }
    planned = deck.plan(f"kafka:{topic}", f"kafka:{copy}", **asked)
    assert totals(ran(planned)) == {"written": 4, "filtered": 2, "dead": 4}
    originals = deck.records(topic)
    kept = [originals[2], *originals[7:]]
    assert contents(deck.records(copy)) == contents(kept)
    assert [each.value for each in deck.records(dead)] == [each.value for each in originals[3:7]]
    assert planned.verify().agrees


def test_select_makes_json_of_what_was_decoded(deck: Deck, known: int) -> None:
    topic, copy = cars(deck, known), deck.topic("copy")
    asked: dict[str, Any] = {"decode": "avro", "on_error": "skip"}
    select = "value:seq, value:price, value:place, hex(value_bytes) AS bytes"
    deck.play(f"kafka:{topic}", f"kafka:{copy}", select=select, **asked)
    made = [each.value or b"" for each in deck.records(copy)]
    found = [json.loads(each, parse_float=Decimal) for each in made]
    assert [each["seq"] for each in found] == [2**53 + n for n in range(GOOD)]
    assert [each["price"] for each in found] == [car(n)["price"] for n in range(GOOD)]
    assert {each["place"]["toll"] for each in found} == {Decimal("0.123456789")}
    assert [bytes.fromhex(each["bytes"]) for each in found[:2]] == [
        avro(known, n, by_header=bool(n))[0] for n in range(2)
    ]
    table = deck.table("seq int8, price numeric, at_us timestamptz")
    select = "value:seq, value:price, value:at_us"
    planned = deck.plan(f"kafka:{topic}", f"postgres:{table}", select=select, **asked)
    assert totals(ran(planned)) == {"written": GOOD, "skipped": 4}
    held = [(2**53 + n, car(n)["price"], car(n)["at_us"]) for n in range(GOOD)]
    assert deck.rows(table, rest="ORDER BY 1") == held
    assert planned.verify().agrees


# --- archives


def test_typed_columns_of_an_archive_and_its_bytes_stay(
    deck: Deck, spark: Any, registry: TestRegistry, known: int, tmp_path: Path
) -> None:
    number = registry.register("j-value", {"schemaType": "JSON", "schema": "{}"})
    frame = struct.pack(">bI", 0, number)
    documents = [b'{"car": "c%d", "n": %d, "x": 1.50}' % (n, n) for n in range(4)]
    topic = tape(deck, *((frame + each, ()) for each in documents), (frame + b"{", ()))
    root = str(tmp_path / "archive")
    asked: dict[str, Any] = {"decode": "json-schema", "typed": True, "on_error": "skip"}
    planned = deck.plan(f"kafka:{topic}", f"parquet:{root}", **asked)
    assert totals(ran(planned)) == {"written": 4, "skipped": 1}
    assert [each.value for each in everything(root)] == [frame + each for each in documents]
    [file] = Path(root).rglob("*.parquet")
    found = pq.read_table(file, columns=["value_car", "value_n", "value_x"]).to_pylist()
    assert found == [{"value_car": f"c{n}", "value_n": n, "value_x": 1.5} for n in range(4)]
    opened = spark.read.parquet(root).orderBy("offset").collect()
    assert [(row.topic, row.partition, row.value_car) for row in opened] == [
        (topic, 0, f"c{n}") for n in range(4)
    ]
    assert planned.verify().agrees
    table = deck.table("car text, n int")
    deck.play(f"parquet:{root}", f"postgres:{table}", decode="registry")
    assert deck.rows(table, rest="ORDER BY 2") == [(f"c{n}", n) for n in range(4)]


def test_gaps_are_found_and_closed_by_a_key_inside_of_such_values(deck: Deck, known: int) -> None:
    topic = tape(deck, *(avro(known, seq, by_header=bool(seq % 2)) for seq in range(GOOD)))
    table = deck.table(COLUMNS)
    ends = (f"kafka:{topic}", f"postgres:{table}")
    deck.play(*ends, decode="avro")
    deck.sql(f"DELETE FROM {table} WHERE seq IN ({2**53 + 1}, {2**53 + 4})")
    found = look(deck, *ends, by="key", key=("seq",), decode="avro")
    assert places(found) == [(0, 1, 2), (0, 4, 5)]
    Command(deck)(
        "gaps", *ends, "--by", "key", "--key", "seq", "--decode", "avro", "--replay", "--yes"
    )
    assert deck.rows(table, rest="ORDER BY seq") == [row(seq) for seq in range(GOOD)]


def test_a_live_pipeline_decodes_before_its_expressions_as_a_replay_does(
    deck: Deck, known: int, registry: TestRegistry, live: Live
) -> None:
    topic = cars(deck, known)
    asked: dict[str, Any] = {
        "decode": "avro",
        "where": "value:seq::bigint % 2 = 0",
        "select": "value:seq::bigint AS seq, upper(value:name) AS name",
    }
    tables = [deck.table("seq int8, name text", name) for name in ("one", "other")]
    graves = [new_name("dead") for _ in tables]
    deck.play(f"kafka:{topic}", f"postgres:{tables[0]}", on_error=f"dlq:{graves[0]}", **asked)
    to_live = (f"kafka:{topic}", f"postgres:{tables[1]}")
    it = live(*to_live, on_error=f"dlq:{graves[1]}", **asked).start().reads()
    within(lambda: len(deck.rows(tables[1])) == GOOD // 2, seconds=60, what=f"rows: {it.said}")
    replayed, lived = (deck.rows(table, rest="ORDER BY seq") for table in tables)
    assert lived == replayed
    assert [seq for seq, _ in lived] == [2**53, 2**53 + 2, 2**53 + 4]
    replayed_letters, letters = (deck.records(grave) for grave in graves)
    assert [each.value for each in letters] == [each.value for each in replayed_letters]
    assert len(letters) == 4
    # A registry that is away for a while is waited for, where a worker does not know the schema yet.
    registry.failing = 4
    value, headers = avro(known, 8, by_header=False)
    deck.write([Record(topic, 0, 0, T0_MS, TimestampType.CREATE_TIME, b"k", value, headers)])
    within(lambda: len(deck.rows(tables[1])) == GOOD // 2 + 1, seconds=60, what="the last row")
    assert it.stop()["state"] == "stopped"


# --- a registry that is away


def test_a_registry_that_is_away_is_waited_for_and_no_fault_of_records(
    deck: Deck, registry: TestRegistry, known: int
) -> None:
    topic = tape(deck, *(avro(known, seq, by_header=False) for seq in range(GOOD)))
    table, said = deck.table(COLUMNS), list[str]()
    planned = deck.plan(f"kafka:{topic}", f"postgres:{table}", decode="avro", on_error="skip")
    registry.failing = 4
    assert totals(ran(planned, say=said.append)) == {"written": GOOD}
    assert any("waiting" in each and "no schema registry" in each for each in said)
    registry.failing = 1_000
    with pytest.raises(RegistryUnavailable, match="no schema registry answered"):
        deck.plan(f"kafka:{topic}", f"postgres:{table}", decode="avro")
    with pytest.raises(Unavailable, match="gave up"):
        ran(planned_again(deck, topic, registry), patience_s=0.1)


def planned_again(deck: Deck, topic: str, registry: TestRegistry) -> Any:
    """Planned while the registry was there, to be run when it is not."""
    registry.failing = 0
    again = deck.plan(f"kafka:{topic}", f"postgres:{deck.table(COLUMNS, 'again')}", decode="avro")
    registry.failing = 1_000
    return again


def test_a_registry_that_lets_nobody_in_ends_it_and_no_record_is_to_blame(
    deck: Deck, registry: TestRegistry, known: int
) -> None:
    topic = tape(deck, avro(known, 0, by_header=False))
    registry.user = "me:secret"
    with pytest.raises(RegistryRefused, match="Unauthorized"):
        deck.plan(
            f"kafka:{topic}", f"postgres:{deck.table(COLUMNS)}", decode="avro", on_error="skip"
        )


@pytest.mark.torture
@pytest.mark.parametrize("kind", ["postgres", "staged"])
def test_killed_and_resumed_while_the_registry_is_down(
    perform: Callable[..., Performance],
    deck: Deck,
    registry: TestRegistry,
    known: int,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    fields = [
        {"name": "car", "type": "string"},
        {"name": "seq", "type": "int"},
        {"name": "speed", "type": "double"},
    ]
    schema = {"type": "record", "name": "Lap", "fields": fields}
    number = registry.register("laps-value", {"schema": json.dumps(schema)})
    written_with, count = fastavro.parse_schema(schema), LONG_TAPE
    topic = deck.topic("avro-laps", 2)
    records = []
    for seq in range(count):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, written_with, {"car": "c", "seq": seq, "speed": 0.5})
        value = struct.pack(">bI", 0, number) + stream.getvalue()
        stamp, place = T0_MS + seq, (seq % 2, seq // 2)
        records.append(Record(topic, *place, stamp, TimestampType.CREATE_TIME, None, value, ()))
    deck.write(records)
    it = perform(kind, topic, count)
    it.end.options = (*it.end.options, "--decode", "avro")
    monkeypatch.delenv("SCHEMA_REGISTRY_URL")
    killed = it.start("--pace", "400/s", "--schema-registry", registry.url)
    it.comes_to(0.3)
    it.kill()
    assert ended(killed).code == -signal.SIGKILL
    registry.failing, asked = 1_000_000, len(registry.asked)
    resumed = it.resume()
    within(lambda: len(registry.asked) > asked + 6, seconds=90, what="it asks, and asks again")
    so_far = it.end.numbers()
    assert len(so_far) == len(set(so_far)) < count
    registry.failing = 0
    done = ended(resumed)
    assert done.code == 0, done.err
    assert "waiting" in done.err
    it.is_whole(json.loads(done.out))


def test_a_document_that_no_expression_can_look_into_is_refused_and_not_filtered(
    deck: Deck,
) -> None:
    def nested(depth: int) -> bytes:
        return b'{"deep":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b',"car":1}'

    long = b'{"n":0.' + b"1" * 999 + b',"car":1}'
    values = (nested(1_000), nested(1_001), nested(100_000), long, b'{"car":1}', b'{"car":2}')
    topic, copy = tape(deck, *((value, ()) for value in values)), deck.topic("copy")
    wheres = ("value:car = 1", "value:car IS NULL", "value LIKE '%}'")
    for where, written in zip(wheres, ([0, 4], [], [0, 4, 5]), strict=True):
        copy = deck.topic("copy")
        asked: dict[str, Any] = {"where": where, "on_error": "skip"}
        planned = deck.plan(f"kafka:{topic}", f"kafka:{copy}", **asked)
        assert "3 of 6 sampled records cannot be" in str(planned.plan.notes)
        found = totals(ran(planned))
        assert found.get("skipped") == 3, where
        assert [each.value for each in deck.records(copy)] == [values[n] for n in written], where
        assert planned.verify().agrees


def test_a_value_whose_fields_cannot_be_selected_is_refused_and_not_emptied(deck: Deck) -> None:
    values = (
        b'{"s":"\\ud800","n":1}',
        b'{"n":1,"s":"cut sho',
        b"text",
        b'{"n":2,"s":"\xff"}',
        b'{"n":3,"s":"b"}',
        None,
        b'{"n":01,"s":"a"}',
        b"{}",
        b"other text",
        b'{"n":4} {"n":5}',
        b'{"n":6}]',
        b'{"n":7},',
        b'{"n":8},"s":"a"',
        b'{"n":9}}',
        b'{"n":10}}]',
        b'{"n":11}],[12',
        b'{"n":13},"":14',
        b'{"n":15,"n":16}',
        b'{"n":1e400}',
        b'{"n":1234567890123456789012345678901234567890}',
        b"44",
        b'[{"n":17}]',
        b'{"n":{"a":1,"a":2}}',
    )
    topic, dead = tape(deck, *((value, ()) for value in values)), deck.topic("dead")
    selects = {
        "value:n, value:s::string AS s": [
            b'{"n":3,"s":"b"}',
            None,
            b'{"n":null,"s":null}',
        ],
        "coalesce(value:n, 'none') AS n": None,
        "value:at::timestamp AS timestamp": None,
    }
    for select, written in selects.items():
        copy = deck.topic("copy")
        asked: dict[str, Any] = {"where": "value IS NULL OR value NOT LIKE 'other%'"}
        asked |= {"select": select, "on_error": f"dlq:{dead}"}
        planned = deck.plan(f"kafka:{topic}", f"kafka:{copy}", **asked)
        found = totals(ran(planned))
        assert found["filtered"] == 1
        assert planned.verify().agrees
        if written is None:
            assert (found["written"], found.get("dead", 0)) == (22, 0)
            continue
        assert "19 of 22 sampled records have no fields that can be selected" in str(
            planned.plan.notes
        )
        assert [each.value for each in deck.records(copy)] == written
        refused = [values[n] for n in (0, 1, 2, 3, 6, *range(9, 23))]
        assert found["dead"] == len(refused)
        assert [each.value for each in deck.records(dead)] == refused
