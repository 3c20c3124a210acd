"""Captured traffic onto topics, into tables and files: the records that were captured, with a proof."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import Stopped
from playhead.kafka.read.source import KafkaSource
from playhead.record import Record
from playhead.replay.engine import Engine
from playhead.source import UNREAD
from playhead.task.job import Job
from playhead.traffic.source import OtherCapture
from tests.capturing import DATA, SNAPSHOT, fetch, save
from tests.fix_archives import everything as archived
from tests.fix_replay import ODD_SETTINGS, Deck, contents, moved, small_slices, totals

FETCHED = '(command IS "Fetch")'


def captured(connection: KafkaConnection, topic: str, folder: Path, each: int = 3) -> Path:
    """A snapshot of a consumer that read a topic, a few records at a time, and some of them twice."""
    source, pairs = KafkaSource(connection, (topic,)), list[dict[str, Any]]()
    held: dict[int, list[Record]] = {}
    for record in sorted(everything_in(source), key=lambda r: (r.partition, r.offset)):
        held.setdefault(record.partition, []).append(record)
    longest = max(map(len, held.values()))
    for start in range(0, longest, each):
        parts = [(topic, p, rows[start : start + each]) for p, rows in held.items()]
        pairs.append(fetch(*(part for part in parts if part[2])))
    return save(folder / "raw.jsonl", [*pairs, pairs[-1]])


def everything_in(source: KafkaSource) -> list[Record]:
    from tests.capturing import everything

    return everything(source)


def test_what_a_consumer_read_arrives_on_a_fresh_topic(
    deck: Deck, oddities: str, tmp_path: Path
) -> None:
    raw = captured(deck.connection, oddities, tmp_path)
    copy = deck.topic("again", 2, **ODD_SETTINGS)
    planned = deck.plan(f"rrpair:{raw}", f"kafka:{copy}", partition="keep", filter=FETCHED)
    assert totals(planned.run()) == {"written": 10}
    assert contents(deck.records(copy)) == contents(deck.records(oddities))
    assert planned.verify().agrees
    # Played again, under the same id, nothing comes twice.
    deck.play_again(planned.plan)
    assert contents(deck.records(copy)) == contents(deck.records(oddities))


def test_topics_go_where_the_map_says(deck: Deck) -> None:
    names = {name: deck.topic(name, 4) for name in ("orders", "payments", "rest")}
    mapped = tuple(f"{name}={names[name]}" for name in ("orders", "payments"))
    proof = deck.play(
        f"rrpair:{SNAPSHOT}", f"kafka:{names['rest']}", topic_map=mapped, partition="keep"
    )
    assert totals(proof) == {"written": 10}
    found = {
        name: [(r.partition, r.key, r.value) for r in deck.records(t)] for name, t in names.items()
    }
    assert found["orders"] == [
        (0, b"1001", b'{"id":1001,"sku":"A-7"}'),
        (0, b"1002", b'{"id":1002,"note":"quote \\" comma, newline\\n"}'),
        (0, b"1001", None),
        (1, None, "no key, Zoë ✓".encode()),
    ]
    assert [value for _, _, value in found["payments"]] == [
        b'{"amount":"12.50"}',
        b'{"amount":"0"}',
    ]
    assert len(found["rest"]) == 4


def test_any_partition_and_the_time_of_the_pair(deck: Deck, laps: str, tmp_path: Path) -> None:
    raw = captured(deck.connection, laps, tmp_path)
    spread = deck.topic("spread", 5)
    planned = deck.plan(f"rrpair:{raw}", f"kafka:{spread}", partition="any", times="pair")
    assert totals(planned.run()) == {"written": 60}
    found = deck.records(spread)
    assert [sum(r.partition == p for r in found) for p in range(5)] == [12] * 5
    assert {record.timestamp_ms for record in found} == {1_772_445_600_000}
    assert {r.value for r in found} == {r.value for r in deck.records(laps)}
    assert planned.verify().agrees


def test_at_its_recorded_speed(deck: Deck, laps: str, tmp_path: Path) -> None:
    raw = captured(deck.connection, laps, tmp_path)
    copy = deck.topic("paced", 3)
    proof = deck.play(f"rrpair:{raw}", f"kafka:{copy}", pace="30x", partition="keep")
    assert contents(deck.records(copy)) == contents(deck.records(laps))
    assert proof.pace is not None
    assert proof.pace["early"] == 0
    assert proof.pace["wanted_per_second"] == pytest.approx(30, rel=0.1)


def test_into_a_table_and_into_files(deck: Deck, laps: str, tmp_path: Path) -> None:
    raw = captured(deck.connection, laps, tmp_path)
    table = deck.table("car text, seq int, _offset bigint")
    assert totals(deck.play(f"rrpair:{raw}", f"postgres:{table}")) == {"written": 60}
    assert sorted(deck.rows(table, "seq")) == [(n,) for n in range(60)]
    archive = str(tmp_path / "archive")
    assert totals(deck.play(f"rrpair:{raw}", f"parquet:{archive}")) == {"written": 60}
    assert archived(archive, "parquet") == deck.records(laps)


def test_what_is_not_understood_is_named_in_plan_and_proof(
    deck: Deck, laps: str, tmp_path: Path
) -> None:
    raw = captured(deck.connection, laps, tmp_path)
    lines = raw.read_text().splitlines()
    strange = json.loads(lines[1])
    strange["kafka"]["response"]["FetchResponse"]["topics"][0]["partitions"][0]["records"] = "QUJD"
    raw.write_text("\n".join([lines[0], json.dumps(strange), *lines[2:], "{cut"]))
    planned = deck.plan(f"rrpair:{raw}", f"kafka:{deck.topic('named', 3)}")
    proof = planned.run()
    assert proof.adds_up
    assert totals(proof)["absent"] == 3
    for told in (planned.plan.source.notes, proof.notes):
        unread = [note.text for note in told if note.code == UNREAD]
        assert len(unread) == 2
        assert "raw.jsonl:2: FetchResponse: the records are str and not decoded" in unread[0]
    assert any("they were not captured" in note.text for note in proof.notes)


def test_a_changed_snapshot_is_refused_on_resume(deck: Deck, laps: str, tmp_path: Path) -> None:
    raw = captured(deck.connection, laps, tmp_path)
    planned = deck.plan(f"rrpair:{raw}", f"kafka:{deck.topic('changed', 3)}")
    raw.write_text(raw.read_text().replace("car-1", "car-9"))
    with pytest.raises(OtherCapture, match="has changed since it was planned"):
        planned.run()


def test_the_recipe_without_a_producer_of_ones_own(deck: Deck) -> None:
    copy = deck.topic("recipe")
    source = f"extract:{DATA / 'extract_fetch_expected.csv'}"
    assert totals(deck.play(source, f"kafka:{copy}")) == {"written": 1}
    (only,) = deck.records(copy)
    assert (only.value, only.timestamp_ms) == (b'{"id":1001,"sku":"A-7"}', 1_772_445_600_205)
    bodies = deck.topic("bodies")
    assert totals(deck.play(f"gor:{DATA / 'requests.gor'}", f"kafka:{bodies}")) == {"written": 1}
    (only,) = moved(deck.records(bodies))
    assert only.headers[0] == ("http.method", b"POST")


def test_the_rows_of_a_log_arrive_in_a_topic_for_each_database(
    deck: Deck,
) -> None:
    log = DATA.parent / "querylog" / "pg15_csvlog_full.csv"
    prefix = f"{deck.topic('log', 1)}."
    proof = deck.play(f"csvlog:{log}", f"kafka:{prefix}{{topic}}")
    topics = [f"{prefix}pg_raw_{name}" for name in ("postgres", "shop", "unmatched")]
    found = [record for name in topics for record in deck.records(name)]
    assert totals(proof) == {"written": len(found)}
    by_place = {int(dict(each.headers)["log.place"] or b""): each for each in found}
    in_order = [by_place[place] for place in sorted(by_place)]
    assert b"".join((each.value or b"") + b"\n" for each in in_order) == log.read_bytes()
    assert all(each.key for each in found)


def test_stopped_and_resumed_each_record_arrives_once(
    deck: Deck, laps: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One partition first, as a run that was stopped leaves it; then the whole."""
    run_job = Engine.run_job

    def stopped_after_the_first(engine: Engine, job: Job) -> Any:
        run_job(engine, replace(job, tasks=((job.tasks[0][0],),)))
        raise Stopped("somebody asked")

    raw = captured(deck.connection, laps, tmp_path)
    copy = deck.topic("resumed", 3)
    with small_slices(4):
        planned = deck.plan(f"rrpair:{raw}", f"kafka:{copy}", partition="keep")
        with monkeypatch.context() as patch:
            patch.setattr(Engine, "run_job", stopped_after_the_first)
            with pytest.raises(Stopped):
                planned.run()
        assert 0 < len(deck.records(copy)) < len(deck.records(laps))
        deck.play_again(planned.plan)
    assert contents(deck.records(copy)) == contents(deck.records(laps))
