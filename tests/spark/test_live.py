"""Live pipelines in this process: what comes in is there once, wherever it begins and whatever is lost."""

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from confluent_kafka.admin import NewPartitions

from playhead.checksum import checksum_of
from playhead.config.context import configure
from playhead.config.guards import CopiedBefore, Guard
from playhead.errors import PlayheadError, Refused
from playhead.gaps.search import GapFinder, GapQuery
from playhead.kafka.admin.topics import delete
from playhead.kafka.read.source import KafkaSource
from playhead.kafka.write.ledger_keys import transactional_id
from playhead.kafka.write.transactions import Transactions
from playhead.live.log_cut import ReadLogWasCut
from playhead.live.runner import PipelineInUse
from playhead.records import Records
from playhead.replay.pipelines import DROPPING, RUNNING, WAITING, OtherPipeline, pipeline_id
from playhead.request import Request
from playhead.terms import OtherTerms
from playhead.testing.link_proxy import LinkProxy
from tests.fix_live import COLUMNS, Live, Playing, whole
from tests.fix_replay import T0_MS, Deck, contents, lap, new_name, ran, within

TRANSFORMED = {
    "where": "value:seq::int % 2 = 0",
    "select": "value:seq::int AS seq, upper(value:car) AS car",
}


def numbers(deck: Deck, table: str) -> list[int]:
    return [n for (n,) in deck.rows(table, "seq", "ORDER BY 1")]


def come(deck: Deck, table: str, count: int) -> None:
    within(
        lambda: len(numbers(deck, table)) >= count,
        seconds=40,
        what=f"{count} rows in {table}",
    )


def more(deck: Deck, topic: str, start: int, end: int, partitions: int = 2) -> None:
    deck.write([lap(n, topic, partitions) for n in range(start, end)])


def through(url: str, link: LinkProxy) -> str:
    """The same database by way of a link."""
    server = url.rpartition("@")[2].partition("/")[0]
    return url.replace(server, link.address)


def test_what_comes_in_is_there_once_over_stops_and_starts(deck: Deck, live: Live) -> None:
    topic, table = deck.laps(30, 2), deck.table(COLUMNS)
    first = live(f"kafka:{topic}", f"postgres:{table}").start().reads()
    come(deck, table, 30)
    for start in range(30, 60, 10):
        more(deck, topic, start, start + 10)
        come(deck, table, start + 10)
    done = first.stop()
    assert (done["state"], done["records"], done["lost_offsets"]) == ("stopped", 60, 0)
    assert first.group() == {(topic, 0): 30, (topic, 1): 30}
    more(deck, topic, 60, 80)
    again = live(f"kafka:{topic}", f"postgres:{table}", name=first.name).start().reads()
    come(deck, table, 80)
    assert again.has_said("continuing from the ledger")
    again.stop()
    assert numbers(deck, table) == [*range(80)]
    assert whole(again.entries()) == {(topic, 0): (0, 40), (topic, 1): (0, 40)}


def test_what_a_restored_database_lacks_is_written_again(deck: Deck, live: Live) -> None:
    """Also of a partition of which the ledger had nothing yet."""
    topic, table = deck.topic("laps", 2), deck.table(f"{COLUMNS}, _topic text")
    it = live(f"kafka:{topic}", f"postgres:{table}", start="earliest").start().reads()
    first, second = ([lap(n, topic, 2) for n in range(start, 20, 2)] for start in (0, 1))
    deck.write(first[:5])
    come(deck, table, 5)
    ledger, of_it = "playhead_ledger.entries", f"replay = 'live.{it.name}'"
    with psycopg.connect(deck.database_url, autocommit=True) as database:
        database.execute(f"CREATE TABLE {table}_then AS TABLE {table}")
        database.execute(f"CREATE TABLE {table}_ledger AS SELECT * FROM {ledger} WHERE {of_it}")

        def restore() -> None:
            with database.transaction():
                for name, which in ((table, "true"), (ledger, of_it)):
                    database.execute(f"DELETE FROM {name} WHERE {which}")
                database.execute(f"INSERT INTO {table} TABLE {table}_then")
                database.execute(f"INSERT INTO {ledger} TABLE {table}_ledger")
            assert numbers(deck, table) == [0, 2, 4, 6, 8]

        deck.write([*first[5:], *second])
        come(deck, table, 20)
        restore()
        deck.write([lap(20, topic, 2)])
        come(deck, table, 21)
        # Nor does it wait for the next record.
        restore()
        come(deck, table, 21)
    assert it.has_said("continuing from there")
    it.stop()
    assert numbers(deck, table) == [*range(21)]
    assert whole(it.entries()) == {(topic, 0): (0, 11), (topic, 1): (0, 10)}


def test_a_transform_does_the_same_as_in_a_replay(deck: Deck, live: Live) -> None:
    topic = deck.laps(40, 2)
    one, other = deck.table(COLUMNS), deck.table(COLUMNS, "other")
    proof = deck.play(f"kafka:{topic}", f"postgres:{one}", **TRANSFORMED)
    it = live(f"kafka:{topic}", f"postgres:{other}", trigger="available-now", **TRANSFORMED)
    assert it.start().ended()["state"] == "done"
    rest = "ORDER BY seq"
    assert deck.rows(other, "*", rest) == deck.rows(one, "*", rest)
    assert sum(each.filtered for each in it.entries()) == 20
    held = sorted(it.entries(), key=lambda each: each.slice)
    assert checksum_of(each.checksum for each in held) == proof.checksum is not None, (
        "of what was read, and not of what it became"
    )
    assert it.status()["records"] == 20


def test_it_begins_where_it_is_told(deck: Deck, live: Live) -> None:
    topic = deck.laps(20, 2)
    group = new_name("g")
    with deck.admin() as admin:
        from playhead.kafka.groups.commit import commit
        from playhead.kafka.groups.plan import CommittedOffset

        commit(admin, group, {(topic, 0): CommittedOffset(9), (topic, 1): CommittedOffset(10)})
    for number, (start, needed) in enumerate(
        [
            ("latest", []),
            ("earliest", [*range(20)]),
            (str(T0_MS + 14_000), [*range(14, 20)]),
            (f"group:{group}", [18]),
        ]
    ):
        table = deck.table(COLUMNS, f"t{number}")
        target = f"postgres:{table}"
        it = live(f"kafka:{topic}", target, start=start, trigger="available-now")
        it.start().ended()
        assert numbers(deck, table) == needed, start
        assert it.group() == {(topic, 0): 10, (topic, 1): 10}, start


def test_into_a_topic_copies_are_exact_and_in_order(deck: Deck, live: Live) -> None:
    topic, copy = deck.laps(30, 2), deck.topic("copy", 2)
    it = live(f"kafka:{topic}", f"kafka:{copy}").start().reads()
    for start in range(30, 60, 10):
        within(lambda: len(deck.records(copy)) >= start, seconds=40, what="copies come")  # noqa: B023
        more(deck, topic, start, start + 10)
    within(lambda: len(deck.records(copy)) >= 60, seconds=40, what="all copies come")
    it.stop()
    assert contents(deck.records(copy)) == contents(deck.records(topic))
    assert whole(it.entries()) == {(topic, 0): (0, 30), (topic, 1): (0, 30)}


def test_a_pipeline_that_is_fenced_continues_once_and_then_ends(deck: Deck, live: Live) -> None:
    """A writer of its own that was taken for dead may fence it once; another run would do so again."""
    topic, copy = deck.laps(10, 1), deck.topic("copy", 1)
    it = live(f"kafka:{topic}", f"kafka:{copy}", start="earliest").start().reads()
    replay_id, end = pipeline_id(it.name), 10

    def has_come() -> bool:
        return it.failure is not None or len(deck.records(copy)) >= end

    # A round that opens a new connection is not fenced: Spark may take another worker, or a new one.
    while it.failure is None and end < 100:
        within(has_come, seconds=60, what=f"{end} copies come")
        Transactions(deck.connection, replay_id, transactional_id(replay_id, (topic, 0))).close()
        more(deck, topic, end, end + 5, 1)
        end += 5
    within(lambda: it.failure is not None, seconds=60, what=f"it ends: {it.said}")
    with pytest.raises(PipelineInUse, match="another run has fenced this one"):
        it.ended()
    assert it.has_said("another writer of this pipeline has fenced this one; continuing")
    again = live(f"kafka:{topic}", f"kafka:{copy}", name=it.name, trigger="available-now")
    again.start().ended()
    assert contents(deck.records(copy)) == contents(deck.records(topic))
    assert whole(again.entries()) == {(topic, 0): (0, end)}


def test_what_a_run_has_copied_while_it_was_stopped_is_not_written_again_unasked(
    deck: Deck, live: Live
) -> None:
    topic, copy = deck.laps(10, 2), deck.topic("copy", 2)
    ends = (f"kafka:{topic}", f"kafka:{copy}")
    it = live(*ends, start="earliest", trigger="available-now")
    it.start().ended()
    more(deck, topic, 10, 20)
    filled = deck.plan(*ends, span="0:5-10,1:5-10")
    ran(filled)
    with pytest.raises(CopiedBefore, match=f"{filled.plan.replay_id} copied 10 of these offsets"):
        it.start().ended()
    assert len(deck.records(copy)) == 20


def test_gaps_of_a_copy_know_the_pipeline_and_what_it_has_not_reached(
    deck: Deck, live: Live
) -> None:
    topic, copy = deck.laps(10, 2), deck.topic("copy", 2)
    it = live(f"kafka:{topic}", f"kafka:{copy}", start="earliest", trigger="available-now")
    it.start().ended()
    asked = GapQuery(Request(source=f"kafka:{topic}", target=f"kafka:{copy}"), settle_ms=0)
    assert GapFinder(asked, deck.configuration()).find().is_whole
    more(deck, topic, 10, 16)
    found = GapFinder(asked, deck.configuration()).find()
    assert sum(map(len, found.missing_slices())) == 6
    [note] = [each.text for each in found.notes if each.code == "not-reached"]
    assert f"pipeline {it.name} has not reached 6 of these offsets" in note


def test_a_partition_that_is_new_is_read_from_its_first_record(deck: Deck, live: Live) -> None:
    topic, table = deck.laps(10, 1), deck.table(COLUMNS)
    it = live(f"kafka:{topic}", f"postgres:{table}", start="latest").start().reads()
    with deck.admin() as admin, admin.asking("adding a partition") as client:
        client.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    deck.write([replace(lap(n, topic, 1), partition=1, offset=n - 10) for n in range(10, 15)])
    come(deck, table, 5)
    it.stop()
    assert numbers(deck, table) == [*range(10, 15)]
    assert whole(it.entries()) == {(topic, 1): (0, 5)}


def test_absent_offsets_count_and_leave_no_lag(deck: Deck, live: Live) -> None:
    from confluent_kafka import Producer

    topic, table = deck.topic("marked"), deck.table(COLUMNS)
    settings = {"bootstrap.servers": str(deck.connection.bootstrap_servers)}
    producer = Producer(settings | {"transactional.id": new_name("tx")})
    producer.init_transactions(30)
    for number in range(4):
        producer.begin_transaction()
        producer.produce(topic, json.dumps({"seq": number}), partition=0)
        producer.flush(30)
        # The last one is given up: nothing but absent offsets at the end.
        producer.abort_transaction(30) if number == 3 else producer.commit_transaction(30)
    it = live(f"kafka:{topic}", f"postgres:{table}", trigger="available-now")
    it.start().ended()
    [entry] = it.entries()
    assert (entry.slice.to_offset, entry.written, entry.absent) == (8, 3, 5)
    assert entry.absences == {"markers of transactions": 4, "records of aborted transactions": 1}
    assert entry.checksum == checksum_of([Records.of(deck.records(topic)).checksum()])
    assert it.group() == {(topic, 0): 8}


def test_whose_folder_it_is_and_what_is_lost_of_it(deck: Deck, live: Live, tmp_path: Path) -> None:
    topic, table = deck.laps(10, 2), deck.table(COLUMNS)
    ends_ = f"kafka:{topic}", f"postgres:{table}"
    first = live(*ends_).start().reads()
    come(deck, table, 10)
    second = live(*ends_, name=first.name).start()
    with pytest.raises(PipelineInUse):
        second.ended()
    elsewhere = live(*ends_, name=first.name, folder=tmp_path / "elsewhere").start()
    with pytest.raises(PipelineInUse):
        elsewhere.ended()
    first.stop()
    other = live(f"kafka:{deck.laps(1)}", ends_[1], name=first.name).start()
    with pytest.raises(OtherPipeline):
        other.ended()
    # Spark's notes are gone; then the whole folder: the ledger has it all.
    for lost in (first.pipelines.folder(first.name) / "stream", first.pipelines.folder(first.name)):
        shutil.rmtree(lost)
        start = len(numbers(deck, table))
        more(deck, topic, start, start + 6)
        again = live(*ends_, name=first.name, trigger="available-now", start="latest").start()
        again.ended()
        assert again.has_said("continuing from the ledger")
        assert again.has_said("Spark's checkpoint is missing")
        assert numbers(deck, table) == [*range(start + 6)]


def test_sparks_notes_that_say_otherwise_do_not_count(deck: Deck, live: Live) -> None:
    topic, table = deck.laps(10, 1), deck.table(COLUMNS)
    ends_ = f"kafka:{topic}", f"postgres:{table}"
    it = live(*ends_, trigger="available-now").start()
    it.ended()
    notes = it.pipelines.folder(it.name) / "stream" / "offsets"
    for file in notes.iterdir():
        if file.name.isdigit():
            file.write_text(file.read_text().replace('"0":10', '"0":12'))
    more(deck, topic, 10, 15, 1)
    again = live(*ends_, name=it.name, trigger="available-now").start()
    again.ended()
    assert again.has_said("which disagrees")
    assert numbers(deck, table) == [*range(15)]


def test_a_log_that_is_not_what_it_was_is_refused(deck: Deck, live: Live) -> None:
    topic, table = deck.laps(10, 1), deck.table(COLUMNS)
    ends_ = f"kafka:{topic}", f"postgres:{table}"
    it = live(*ends_, trigger="available-now")
    it.start().ended()
    more(deck, topic, 10, 20, 1)
    deck.delete_before(topic, 0, 15)
    with pytest.raises(Refused, match=f"{topic}:0:10-15"):
        live(*ends_, name=it.name, trigger="available-now").start().ended()
    again = live(*ends_, name=it.name, trigger="available-now", accept_loss=True)
    again.start().ended()
    assert again.has_said("LOST")
    assert numbers(deck, table) == [*range(10), *range(15, 20)]
    assert [(e.slice.from_offset, e.slice.to_offset) for e in again.entries()] == [
        (0, 10),
        (15, 20),
    ]


def test_a_log_that_lost_what_was_read_is_refused(
    deck: Deck, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another leader has other records from offset 7 on; what a broker says then, test_kafka_cut_log shows."""
    topic, table = deck.laps(10, 1), deck.table(COLUMNS)
    ends_ = f"kafka:{topic}", f"postgres:{table}"
    it = live(*ends_, trigger="available-now")
    it.start().ended()
    assert it.pipelines.read(it.name)[topic, 0][0] == 10
    monkeypatch.setattr(KafkaSource, "leader_epochs", lambda _: {(topic, 0): 9})
    monkeypatch.setattr(KafkaSource, "ends_of_epochs", lambda _, asked: dict.fromkeys(asked, 7))
    more(deck, topic, 10, 20, 1)
    with pytest.raises(ReadLogWasCut, match=f"{topic}:0:7-10"):
        live(*ends_, name=it.name, trigger="available-now").start().ended()
    again = live(*ends_, name=it.name, trigger="available-now", accept_loss=True)
    again.start().ended()
    assert again.has_said(f"LOST {topic}:0:7-10")
    assert numbers(deck, table) == [*range(20)]


def test_a_topic_that_was_made_again_is_not_read_on(deck: Deck, live: Live, tmp_path: Path) -> None:
    """Running, started again, and started where nobody knows it: none of the new records is skipped."""
    topic, table = deck.laps(10, 1), deck.table(COLUMNS)
    ends_ = f"kafka:{topic}", f"postgres:{table}"
    it = live(*ends_).start().reads()
    come(deck, table, 10)
    with deck.admin() as admin:
        delete(admin, topic, Guard(configure({})))
        admin.create_topic(topic, partitions=1)
    more(deck, topic, 0, 30, 1)
    with pytest.raises(
        PlayheadError, match=f"source topic {topic} has the id .*created again"
    ) as ended:
        it.ended()
    assert ended.value.exit_code == 6
    with pytest.raises(OtherPipeline):
        live(*ends_, name=it.name).start().ended()
    folder = tmp_path / "elsewhere"
    with pytest.raises(OtherTerms, match=f"source topic {topic} has the id"):
        live(*ends_, name=it.name, folder=folder).start().ended()
    assert numbers(deck, table) == [*range(10)]
    anew = live(
        f"kafka:{topic}", f"postgres:{deck.table(COLUMNS, 'anew')}", trigger="available-now"
    )
    anew.start().ended()
    assert deck.rows(f"{deck.schema}.anew", "count(*)") == [(30,)]


def test_while_the_database_is_away_it_waits_and_then_catches_up(
    deck: Deck, live: Live, database_link: LinkProxy
) -> None:
    topic, table = deck.laps(10, 2), deck.table(COLUMNS)
    url = through(deck.database_url, database_link)
    it = live(f"kafka:{topic}", f"postgres:{table}", database_url=url).start().reads()
    come(deck, table, 10)
    database_link.cut()
    more(deck, topic, 10, 40)
    is_in(it, WAITING)
    time.sleep(1)
    assert len(numbers(deck, table)) == 10
    database_link.restore()
    come(deck, table, 40)
    is_in(it, RUNNING)
    it.stop()
    assert it.has_said("no progress is lost")
    assert it.has_said("writing again after")
    assert numbers(deck, table) == [*range(40)]
    assert whole(it.entries()) == {(topic, 0): (0, 20), (topic, 1): (0, 20)}


def test_told_to_drop_it_loses_what_comes_meanwhile_and_says_so(
    deck: Deck, live: Live, database_link: LinkProxy
) -> None:
    topic, table = deck.laps(10, 1), deck.table(COLUMNS)
    url = through(deck.database_url, database_link)
    asked = f"kafka:{topic}", f"postgres:{table}"
    it = live(*asked, database_url=url, drop_when_down=True).start().reads()
    come(deck, table, 10)
    database_link.cut()
    more(deck, topic, 10, 30, 1)
    is_in(it, DROPPING)
    within(lambda: it.group() == {(topic, 0): 30}, seconds=20, what="the group reads on")
    database_link.restore()
    more(deck, topic, 30, 40, 1)
    come(deck, table, 20)
    done = it.stop()
    assert (done["lost_offsets"], done["lost"]) == (20, [f"{topic}:0:10-30"])
    assert it.has_said("DROPPING records that arrive")
    assert it.has_said("20 offsets are lost")
    assert numbers(deck, table) == [*range(10), *range(30, 40)]
    assert [(e.slice.from_offset, e.slice.to_offset) for e in it.entries()] == [(0, 10), (30, 40)]


def test_bad_records_by_the_rule(deck: Deck, live: Live) -> None:
    topic, dead = deck.laps(10, 1), deck.topic("dead")
    bad = replace(lap(10, topic, 1), value=b"no json")
    deck.write([bad, lap(11, topic, 1)])
    table = f"{deck.schema}.made"
    asked = {"create": True, "key": ("seq",), "trigger": "available-now"}
    it = live(f"kafka:{topic}", f"postgres:{table}", on_error=f"dlq:{dead}", **asked)
    it.start().ended()
    needed = [*range(10), 11]
    assert numbers(deck, table) == needed
    [letter] = deck.records(dead)
    assert letter.value == b"no json"
    [entry] = it.entries()
    assert (entry.written, entry.dead, len(entry.slice)) == (11, 1, 12)
    strict = live(f"kafka:{topic}", f"postgres:{table}", on_conflict="ignore", **asked)
    with pytest.raises(PlayheadError, match="offset 10"):
        strict.start().ended()
    assert strict.status()["state"] == "failed"
    assert numbers(deck, table) == needed


def test_a_table_that_is_altered_while_it_runs(deck: Deck, live: Live) -> None:
    topic, table = deck.laps(10, 1), deck.table("seq int, car text")
    it = live(f"kafka:{topic}", f"postgres:{table}").start().reads()
    come(deck, table, 10)
    deck.sql(f"ALTER TABLE {table} ALTER seq TYPE bigint, DROP car")
    more(deck, topic, 10, 20, 1)
    come(deck, table, 20)
    it.stop()
    assert numbers(deck, table) == [*range(20)]


def is_in(it: Playing, state: str) -> None:
    within(lambda: it.status().get("state") == state, seconds=30, what=f"{state}: {it.said}")
