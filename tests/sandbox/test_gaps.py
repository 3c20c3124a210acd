"""Gaps between a real topic and a real table: every offset that is not there is found, and nothing else."""

import json
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import Refused
from playhead.gaps.gap import Gaps
from playhead.gaps.missing import NoKeyColumns
from playhead.gaps.search import GapFinder, GapQuery
from playhead.postgres import offsets_held
from playhead.postgres.offsets_held import NoOffsets, TooManyGaps
from playhead.record import Slice
from playhead.request import Request
from playhead.source import Bounds
from playhead.testing.fixtures import MakeTopic
from tests.fix_commands import Playhead
from tests.fix_replay import T0_MS, Deck, new_name
from tests.sandbox.kafka_log import SOON_COMPACTED, Log

COLUMNS = "_topic text, _partition int, _offset bigint, seq int"
LAPS, PARTITIONS = 800, 4
EACH = LAPS // PARTITIONS


@pytest.fixture
def store(servers: Deck, schema: str) -> Deck:
    """A deck without an engine: what is asked of a table needs none."""
    return replace(servers, schema=schema)


@pytest.fixture(scope="module")
def tape(servers: Deck) -> str:
    """800 laps on 4 partitions, of the year 2021; nobody writes to it."""
    return servers.laps(LAPS, PARTITIONS)


def look(deck: Deck, topic: str, table: str, span: str = "start..end", **more: Any) -> Gaps:
    how = {name: more.pop(name) for name in ("settle_ms", "by", "is_quick") if name in more}
    asked = Request(source=f"kafka:{topic}", target=f"postgres:{table}", span=span, **more)
    return GapFinder(GapQuery(asked, **how), deck.configuration()).find()


def fill(deck: Deck, table: str, topic: str, per_partition: dict[int, Iterable[int]]) -> None:
    """Rows that say only where they come from."""
    for partition, offsets in per_partition.items():
        deck.sql(
            f"INSERT INTO {table} (_topic, _partition, _offset) "
            "SELECT %s, %s, o FROM unnest(%s::bigint[]) o",
            topic,
            partition,
            list(offsets),
        )


def places(found: Gaps, kind: str = "missing") -> list[tuple[int, int, int]]:
    return [
        (each.slice.partition, each.slice.from_offset, each.slice.to_offset)
        for each in found.found
        if each.kind == kind
    ]


def test_gaps_at_the_start_in_the_middle_at_the_end_and_of_a_whole_partition(
    store: Deck, tape: str
) -> None:
    table = store.table(COLUMNS)
    whole = range(EACH)
    fill(
        store,
        table,
        tape,
        {
            0: [o for o in whole if not (o < 5 or 70 <= o < 80 or o == 130)],
            1: whole[:-10],
            2: whole,
        },
    )
    found = look(store, tape, table)
    assert places(found) == [(0, 0, 5), (0, 70, 80), (0, 130, 131), (1, 190, 200), (3, 0, 200)]
    assert [each.records for each in found.found] == [5, 10, 1, 10, 200]
    assert (found.duplicates, found.absent, found.planned) == (0, 0, LAPS)
    middle = found.found[1]
    # A lap's number is its offset times the partitions, and a lap takes a second.
    assert (middle.first_ms, middle.last_ms) == (T0_MS + 280_000, T0_MS + 316_000)
    assert found.verdict().startswith("5 gaps: 226 records missing (28.25 %), 0 duplicates of 800 ")


def test_a_table_that_has_all_has_no_gap(store: Deck, tape: str) -> None:
    table = store.table(COLUMNS)
    fill(store, table, tape, dict.fromkeys(range(PARTITIONS), range(EACH)))
    fill(store, table, "another", {0: range(1_000, 1_010)})
    found = look(store, tape, table)
    assert (found.is_whole, found.found) == (True, ())
    assert (
        found.verdict() == f"0 missing, 0 duplicates of 800 offsets in postgres:{table}, by offsets"
    )


def test_rows_that_are_there_twice_hide_nothing(store: Deck, tape: str) -> None:
    table = store.table(COLUMNS)
    all_but_one = [o for o in range(EACH) if o != 64]
    fill(store, table, tape, dict.fromkeys(range(1, PARTITIONS), range(EACH)))
    fill(store, table, tape, {0: [*all_but_one, 63]})
    [(rows,)] = store.sql(f"SELECT count(*) FROM {table}")
    assert rows == LAPS
    found = look(store, tape, table)
    assert (places(found), found.duplicates) == ([(0, 64, 65)], 1)


@pytest.mark.parametrize(
    "columns",
    [
        COLUMNS,
        f"{COLUMNS}, PRIMARY KEY (_topic, _partition, _offset)",
        "_topic varchar(200), _partition text, _offset text, seq int",
        "_topic text, _partition smallint, _offset int, seq int",
        "_topic text, _partition jsonb, _offset numeric, seq int",
    ],
    ids=["plain", "keyed", "texts", "small", "odd"],
)
def test_any_offsets_leave_exactly_the_others(store: Deck, tape: str, columns: str) -> None:
    random = Random(columns)
    table = store.table(columns)
    there = {
        partition: {o for o in range(EACH) if random.random() < share}
        for partition, share in enumerate((0.5, 0.97, 0.03, 0.999))
    }
    casts = columns.split(", ")
    kinds = [each.split()[1].partition("(")[0] for each in casts[1:3]]
    for partition, offsets in there.items():
        store.sql(
            f"INSERT INTO {table} (_topic, _partition, _offset) SELECT %s, "
            f"%s::text::{kinds[0]}, o::text::{kinds[1]} FROM unnest(%s::bigint[]) o",
            tape,
            partition,
            sorted(offsets),
        )
    found = look(store, tape, table)
    missing = {
        (partition, offset)
        for partition, start, end in places(found)
        for offset in range(start, end)
    }
    assert missing == {
        (partition, offset)
        for partition in range(PARTITIONS)
        for offset in range(EACH)
        if offset not in there[partition]
    }


def test_only_the_span_is_looked_at(store: Deck, tape: str) -> None:
    table = store.table(COLUMNS)
    by_time = look(store, tape, table, f"{T0_MS + 100_000}..{T0_MS + 108_000}")
    assert places(by_time) == [(p, 25, 27) for p in range(PARTITIONS)]
    named = look(store, tape, table, "1:10-20,1:30-40,3:7-8")
    assert places(named) == [(1, 10, 20), (1, 30, 40), (3, 7, 8)]
    fill(store, table, tape, {1: range(15, 35)})
    assert places(look(store, tape, table, "1:10-20,1:30-40")) == [(1, 10, 15), (1, 35, 40)]


def test_many_named_spans_are_asked_for_at_once(store: Deck, tape: str) -> None:
    table = store.table(COLUMNS)
    fill(store, table, tape, {0: range(0, EACH, 2)})
    span = ",".join(f"0:{start}-{start + 2}" for start in range(0, EACH, 4))
    assert places(look(store, tape, table, span)) == [(0, o + 1, o + 2) for o in range(0, EACH, 4)]


def test_what_has_expired_is_said_and_is_not_replayed(servers: Deck, store: Deck) -> None:
    topic = servers.laps(60)
    servers.delete_before(topic, 0, 40)
    table = store.table(COLUMNS)
    fill(store, table, topic, {0: [*range(10, 30), *range(50, 60)]})
    found = look(store, topic, table, "0:0-60")
    assert places(found, "expired") == [(0, 0, 10), (0, 30, 40)]
    assert places(found) == [(0, 40, 50)]
    assert found.missing_slices() == [Slice(topic, 0, 40, 50)]
    assert places(look(store, topic, table), "expired") == []


def test_what_has_expired_of_a_span_by_time_is_said_as_well(servers: Deck, store: Deck) -> None:
    topic = servers.laps(60)
    span = f"{T0_MS + 10 * 1000}..{T0_MS + 50 * 1000}"
    table = store.table(f"{COLUMNS}, _timestamp timestamptz")
    fill(store, table, topic, {0: [*range(5, 15), *range(20, 60)]})
    store.sql(
        f"UPDATE {table} SET _timestamp = to_timestamp(({T0_MS} + {1000} * _offset) / 1000.0)"
    )
    assert places(look(store, topic, table, span), "expired") == []
    servers.delete_before(topic, 0, 30)
    found = look(store, topic, table, span)
    assert (places(found, "expired"), places(found)) == ([(0, 15, 20)], [])
    assert not found.is_whole
    store.sql(f"ALTER TABLE {table} DROP COLUMN _timestamp")
    [gap] = look(store, topic, table, span, is_quick=True).of("expired")
    assert gap.is_open
    fill(store, table, topic, {0: [*range(5), *range(15, 20)]})
    assert look(store, topic, table, span).is_whole


def test_markers_and_aborted_records_are_no_gaps(
    store: Deck, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    log = Log(kafka, topic := make_topic())

    def rows(count: int) -> list[tuple[int, None, bytes, tuple[()]]]:
        return [(T0_MS, None, b"v", ())] * count

    log.write(0, *rows(5))
    log.abort(0, *rows(3))
    log.commit(0, *rows(4))
    log.write(0, *rows(2))
    committed = [record.offset for record in log.records]
    table = store.table(COLUMNS)
    fill(store, table, topic, {0: committed})
    found = look(store, topic, table)
    assert (found.is_whole, found.absent) == (True, 3 + 1 + 1)
    assert [note.code for note in found.notes] == ["absent"]
    store.sql(f"DELETE FROM {table} WHERE _offset = %s", committed[5])
    found = look(store, topic, table)
    # Beside it there are aborted records and a marker, which are no part of the gap.
    assert places(found) == [(0, committed[5], committed[5] + 1)]
    store.sql(f"TRUNCATE {table}")
    [gap] = look(store, topic, table).found
    assert (gap.records, len(gap.slice)) == (11, 16)


def test_what_is_on_its_way_settles_first(
    store: Deck, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    log = Log(kafka, topic := make_topic())
    now = round(time.time() * 1_000)
    log.write(0, *[(T0_MS, None, b"old", ())] * 10, *[(now, None, b"new", ())] * 4)
    log.write(0, (T0_MS, None, b"came after the new ones", ()))
    table = store.table(COLUMNS)
    fill(store, table, topic, {0: range(7)})
    found = look(store, topic, table, settle_ms=600_000)
    assert (places(found), places(found, "settling")) == ([(0, 7, 10)], [(0, 10, 15)])
    fill(store, table, topic, {0: range(7, 10)})
    assert look(store, topic, table, settle_ms=600_000).is_whole
    assert places(look(store, topic, table, settle_ms=0)) == [(0, 10, 15)]


def test_a_quick_look_leaves_the_log_alone(store: Deck, tape: str) -> None:
    table = store.table(COLUMNS)
    found = look(store, tape, table, "1:10-20", is_quick=True)
    [gap] = found.found
    assert (gap.records, gap.first_ms, found.absent) == (None, None, None)
    assert found.verdict().startswith("1 gap: 10 offsets missing")


def test_rows_without_an_offset_may_be_what_seems_missing(store: Deck, tape: str) -> None:
    table = store.table(COLUMNS)
    fill(store, table, tape, dict.fromkeys(range(PARTITIONS), range(EACH)))
    store.sql(f"UPDATE {table} SET _offset = NULL WHERE _partition = 0 AND _offset = 3")
    found = look(store, tape, table)
    assert places(found) == [(0, 3, 4)]
    assert "unplaced" in {note.code for note in found.notes}


def test_a_table_of_one_topic_needs_no_column_for_it(store: Deck, tape: str) -> None:
    table = store.table("_partition int NOT NULL, _offset bigint NOT NULL")
    store.sql(
        f"INSERT INTO {table} SELECT p, o FROM generate_series(0, 3) p, generate_series(1, 199) o"
    )
    found = look(store, tape, table)
    assert places(found) == [(p, 0, 1) for p in range(PARTITIONS)]
    assert [note.code for note in found.notes] == ["untold"]


def test_a_view_can_be_asked_too(store: Deck, tape: str) -> None:
    table = store.table(COLUMNS)
    fill(store, table, tape, dict.fromkeys(range(PARTITIONS), range(EACH)))
    store.sql(f"CREATE VIEW {store.schema}.seen AS SELECT * FROM {table} WHERE _offset <> 9")
    assert places(look(store, tape, f"{store.schema}.seen")) == [(p, 9, 10) for p in range(4)]


def test_what_cannot_be_told_is_refused(
    store: Deck, servers: Deck, tape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NoOffsets, match="lacks _offset") as caught:
        look(store, tape, store.table("_partition int, seq int", "a"))
    assert "--by key --key COLS" in (caught.value.hint or "")
    with pytest.raises(NoOffsets, match="lacks _partition and _offset") as caught:
        look(store, tape, store.table("car text, seq int, PRIMARY KEY (car, seq)", "keyed"))
    assert "--by key --key car,seq;" in (caught.value.hint or "")
    with pytest.raises(Refused, match="there is no table"):
        look(store, tape, f"{store.schema}.no")
    for key in ("PRIMARY KEY (car, seq)", "UNIQUE (car, seq), PRIMARY KEY (_partition, _offset)"):
        table = store.table(
            f"_partition int, _offset bigint, car text, seq int, {key}", new_name("k")
        )
        with pytest.raises(NoKeyColumns) as keyless:
            look(store, tape, table, by="key")
        assert "--by key --key car,seq;" in (keyless.value.hint or "")
    other = servers.laps(4)
    with pytest.raises(Refused, match="cannot be distinguished"):
        look(store, f"{tape},{other}", store.table("_partition int, _offset bigint", "b"))
    with pytest.raises(Refused, match="no ledger of a replay of"):
        look(store, tape, store.table(COLUMNS, "c"), by="ledger")
    monkeypatch.setattr(offsets_held, "_MOST_RUNS", 3)
    table = store.table(COLUMNS, "d")
    fill(store, table, tape, {0: range(0, EACH, 64), 1: range(1, EACH, 64)})
    with pytest.raises(TooManyGaps, match="more than 3 separate gaps"):
        look(store, tape, table)


def test_the_bounds_are_those_of_the_first_look(store: Deck, servers: Deck) -> None:
    """So that a second look says of the same offsets whether they are there now."""
    topic = servers.laps(10)
    table = store.table(COLUMNS)
    asked = Request(source=f"kafka:{topic}", target=f"postgres:{table}")
    search = GapFinder(GapQuery(asked), store.configuration())
    assert places(search.find()) == [(0, 0, 10)]
    log = Log(servers.connection, topic)
    log.write(0, (T0_MS, None, b"later", ()))
    assert log.bounds() == Bounds(0, 11, 11)
    fill(store, table, topic, {0: range(10)})
    assert search.find().is_whole


# --- the command


def test_the_command_says_what_is_missing(
    store: Deck, tape: str, playhead: Playhead, tmp_path: Path
) -> None:
    table = store.table(COLUMNS)
    fill(store, table, tape, {p: [*range(50), *range(90, EACH)] for p in range(PARTITIONS)})
    words = ("gaps", f"kafka:{tape}", f"postgres:{table}")
    picture = tmp_path / "gaps.svg"
    done = playhead(*words, "-o", "json", "--picture", str(picture), **store.environment())
    assert done.returncode == 4, done.stderr
    told = json.loads(done.stdout)
    assert (told["missing"], told["is_whole"], len(told["gaps"])) == (160, False, 4)
    assert "4 gaps: 160 records missing (20.00 %)" in done.stderr
    assert "░" in done.stderr
    assert 'class="missing"' in picture.read_text()
    rows = playhead(*words, "-o", "csv", **store.environment())
    assert rows.returncode == 4
    assert rows.stdout.splitlines()[0] == (
        "topic,partition,from_offset,to_offset,offsets,records,first,last,share,state"
    )
    fill(store, table, tape, dict.fromkeys(range(PARTITIONS), range(50, 90)))
    done = playhead(*words, **store.environment())
    assert (done.returncode, done.stdout) == (0, "")
    assert "0 missing, 0 duplicates of 800 offsets" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--dry-run",), "add --replay"),
        (("--settle", "soon"), "--settle"),
        (("--by", "eye"), "offsets or key or ledger"),
        (("--by", "key"), "--by key --key COLS;"),
    ],
)
def test_words_that_say_nothing_are_refused(
    store: Deck, tape: str, playhead: Playhead, words: tuple[str, ...], said: str
) -> None:
    table = store.table(COLUMNS)
    done = playhead("gaps", f"kafka:{tape}", f"postgres:{table}", *words, **store.environment())
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr


def test_by_key_what_the_database_can_tell_is_told_before_the_engine_starts(
    store: Deck, tape: str, playhead: Playhead
) -> None:
    words = ("gaps", f"kafka:{tape}", "--by", "key", "--key", "seq")
    away = {**store.environment(), "DATABASE_URL": "postgresql://127.0.0.1:1/none"}
    done = playhead(*words, f"postgres:{store.table(COLUMNS)}", **away)
    assert (done.returncode, "check DATABASE_URL" in done.stderr) == (1, True), done.stderr
    gone = playhead(*words, f"postgres:{store.schema}.no", **store.environment())
    assert (gone.returncode, "there is no table" in gone.stderr) == (6, True), gone.stderr
    assert "the engine" not in done.stderr + gone.stderr


# --- compaction


@pytest.mark.torture
def test_what_was_compacted_away_is_no_gap(
    store: Deck, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic = make_topic(**SOON_COMPACTED)
    log = Log(kafka, topic)
    log.write(0, *[(T0_MS + n, b"key-%d" % (n % 10), b"%d" % n, ()) for n in range(2_000)])
    table = store.table(COLUMNS, new_name("t").replace("-", "_"))
    deadline = time.monotonic() + 120
    while len(there := [r.offset for r in store.records(topic)]) > 100:
        assert time.monotonic() < deadline, f"not compacted: {len(there)} records"
        log.write(0, (round(time.time() * 1_000), b"roll", b"another segment", ()))
        time.sleep(0.5)
    lost = there[3]
    fill(store, table, topic, {0: [offset for offset in there if offset != lost]})
    found = look(store, topic, table, f"0:0-{there[-1] + 1}", settle_ms=0)
    assert places(found) in ([(0, lost, lost + 1)], [])  # it may be compacted away meanwhile
    assert (found.absent or 0) >= 1_800
    assert "compacted away" in found.notes[-1].text


def test_rows_that_a_policy_hides_are_noted_and_never_filled(store: Deck, tape: str) -> None:
    table = store.table(COLUMNS)
    fill(store, table, tape, dict.fromkeys(range(PARTITIONS), range(EACH)))
    role = f"r_{store.schema[-8:]}"
    store.sql(
        f"""DO $$BEGIN CREATE ROLE "{role}" LOGIN PASSWORD 'p';
            EXCEPTION WHEN duplicate_object THEN NULL; END$$;
            GRANT USAGE ON SCHEMA "{store.schema}" TO "{role}";
            GRANT SELECT ON {table} TO "{role}";
            ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
            CREATE POLICY p ON {table} FOR SELECT USING (_offset < 190)"""
    )
    server = store.database_url.rpartition("@")[2]
    lowly = replace(store, database_url=f"postgresql://{role}:p@{server}")
    asked = Request(source=f"kafka:{tape}", target=f"postgres:{table}")
    search = GapFinder(GapQuery(asked), lowly.configuration())
    found = search.find()
    assert len(found.of("missing")) == PARTITIONS
    [note] = [note for note in found.notes if note.code == "row-security"]
    assert "has row security for this user, which may hide rows" in note.text
    with pytest.raises(Refused, match="a replay would write their records again") as caught:
        search.replay_of(found)
    assert "BYPASSRLS" in (caught.value.hint or "")
    owner = GapFinder(GapQuery(asked), store.configuration()).find()
    assert (owner.is_whole, owner.notes) == (True, ())
