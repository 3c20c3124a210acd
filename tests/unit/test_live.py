"""A live pipeline's own arithmetic: who it is, where it goes on, what it gives up, what it says when."""

import json
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playhead.endpoint import Endpoint
from playhead.errors import BadValue, Refused, UsageError
from playhead.extra_fields import ExtraFields
from playhead.ledger import Entry
from playhead.live import round_loop
from playhead.live.backoff import RepeatedNotice, server_backoff
from playhead.live.pipeline_spec import PipelineSpec, group_for, name_for, start_of, trigger_of
from playhead.live.progress import LedgerWentBack, PipelineProgress, still_lost
from playhead.live.round_loop import Rounds
from playhead.live.runner import Runner
from playhead.live.start_offsets import (
    BeyondTheEnd,
    Expired,
    KnownOffsets,
    LedgerForgotten,
    decided,
    ledger_ends,
    refuse_forgotten,
    told_of_passed,
)
from playhead.record import Slice
from playhead.replay.journal import Journal
from playhead.replay.pipelines import (
    RUNNING,
    STOPPED,
    MarkDamaged,
    OtherPipeline,
    Pipeline,
    Pipelines,
    UnknownPipeline,
    pipeline_id,
)
from playhead.request import Request
from playhead.source import Bounds, TopicPartition
from playhead.spark.stream import RoundUnreadable, ends_in, last_ends
from playhead.target import InUse
from playhead.task.round import Outcome, RoundWritten

PLACE = ("laps", 0)
OTHER = ("laps", 1)
PIPELINE = Pipeline(
    name="laps",
    source="kafka:laps",
    target="postgres:laps",
    cluster="c1",
    place="postgres:p1",
    topic_ids={"laps": "t1"},
    group="playhead.live.laps",
    request={},
    made_at_ms=1,
    starts={"laps": {"0": 7}},
)


def wish(**changes: object) -> PipelineSpec:
    asked = Request(source="kafka:laps", target="postgres:laps")
    given_ = {"name": "laps", "request": asked, "group": "playhead.live.laps", **changes}
    return PipelineSpec(**given_)  # type: ignore[arg-type]


# --- what is asked


@pytest.mark.parametrize(
    ("text", "ms"), [("200ms", 200), ("1s", 1000), ("10ms", 10), ("available-now", None)]
)
def test_triggers(text, ms):
    assert trigger_of(text) == ms
    assert wish(trigger_ms=ms).trigger == text


@pytest.mark.parametrize("text", ["0s", "1ms", "2h", "soon", "", "-1s"])
def test_triggers_that_are_none(text):
    with pytest.raises(UsageError):
        trigger_of(text)


def test_starts():
    assert [start_of(each, "g") for each in ("now", "start", "latest")] == [
        "latest",
        "earliest",
        "latest",
    ]
    assert start_of("group:other", "g") == "group:other"
    assert start_of("now-2h", "g") == "now-2h"
    for bad in ("group:", "group:g", "yesteryear"):
        with pytest.raises(UsageError):
            start_of(bad, "g")


def test_names():
    assert name_for(None, Endpoint.parse("postgres:public.telemetry")) == "public.telemetry"
    assert name_for(None, Endpoint.parse("kafka:copy-{topic}")) == "copy-topic"
    assert name_for("cars", Endpoint.parse("postgres:t")) == "cars"
    assert group_for(None, "cars") == "playhead.live.cars"
    for bad in ("", "a b", "../x", "x" * 56, "-x"):
        with pytest.raises(BadValue):
            name_for(bad, Endpoint.parse("postgres:t"))


def test_ends_that_a_pipeline_cannot_have():
    for source, target in (("parquet:/x", "postgres:t"), ("kafka:t", "parquet:/x")):
        with pytest.raises(Refused):
            wish(request=Request(source=source, target=target))


# --- who it is


def test_a_name_belongs_to_one_pipeline(tmp_path):
    pipelines = Pipelines(tmp_path)
    with pytest.raises(UnknownPipeline):
        pipelines.find("laps")
    pipelines.keep(PIPELINE)
    assert pipelines.find("laps") == PIPELINE
    assert pipelines.names() == ("laps",)
    # A topic that came later belongs to it as well.
    grown = replace(PIPELINE, topic_ids={"laps": "t1", "more": "t2"}, made_at_ms=2)
    pipelines.refuse_other(grown)
    for other in (
        replace(PIPELINE, cluster="c2"),
        replace(PIPELINE, place="postgres:p2"),
        replace(PIPELINE, target="postgres:other"),
        replace(PIPELINE, topic_ids={"laps": "t9"}),
        replace(PIPELINE, topic_ids={"turns": "t3"}),
    ):
        with pytest.raises(OtherPipeline, match="already exists here with another") as caught:
            pipelines.refuse_other(other)
        assert str(tmp_path) in str(caught.value.hint)


def test_a_mark_that_cannot_be_read_is_an_error_and_no_new_pipeline(tmp_path):
    pipelines = Pipelines(tmp_path)
    pipelines.keep(PIPELINE)
    for text in ("", "{", "[]", '{"name": "laps"}'):
        (pipelines.folder("laps") / "pipeline.json").write_text(text)
        with pytest.raises(MarkDamaged):
            pipelines.get("laps")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("group", None, "pipeline.group is None; needed: str"),
        ("starts", {"a": [1]}, "pipeline.starts is {'a': [1]}; needed: "),
        ("servers", 5, "pipeline.servers is 5; needed: "),
        ("request", "x", "pipeline.request is 'x'; needed: "),
        ("name", "other", "it is of 'other'"),
        ("of_a_later_version", 1, "unknown of_a_later_version"),
    ],
)
def test_a_mark_with_a_field_of_another_kind_is_refused_in_words(tmp_path, name, value, told):
    pipelines = Pipelines(tmp_path)
    pipelines.keep(PIPELINE)
    file = pipelines.folder("laps") / "pipeline.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {name: value}))
    with pytest.raises(MarkDamaged) as caught:
        pipelines.get("laps")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "status", [[], 5, None, {"state": []}, {"last_commit_ms": "x"}, {"last_commit_ms": 1e999}]
)
def test_a_status_of_another_kind_says_nothing(tmp_path, status):
    pipelines = Pipelines(tmp_path)
    pipelines.keep(PIPELINE)
    (pipelines.folder("laps") / "status.json").write_text(json.dumps(status))
    assert pipelines.status("laps") == {"state": STOPPED}


def test_an_infinite_number_is_no_offset(tmp_path):
    pipelines = Pipelines(tmp_path)
    pipelines.keep(PIPELINE)
    pipelines.committed_file("laps").write_text('{"offsets": 1e999}')
    (pipelines.folder("laps") / "read.json").write_text('{"read": [["t", 0, 1e999, 1]]}')
    assert (pipelines.committed("laps"), pipelines.read("laps")) == (0, {})


def test_one_that_died_without_a_word_has_stopped(tmp_path):
    pipelines, journal = Pipelines(tmp_path), Journal(tmp_path)
    pipelines.keep(PIPELINE)
    pipelines.note("laps", {"state": RUNNING, "records": 3})
    assert pipelines.status("laps") == {"state": STOPPED, "records": 3}
    assert pipelines.running_into("postgres:laps") == ()
    with journal.held(pipeline_id("laps")):
        assert pipelines.status("laps")["state"] == RUNNING
        assert pipelines.running_into("postgres:laps") == ("laps",)
        assert pipelines.running_into("postgres:other") == ()


# --- where it goes on


def entry(start: int, end: int, place: TopicPartition = PLACE) -> Entry:
    return Entry(Slice(*place, start, end), end - start, end - start)


BOUNDS = {PLACE: Bounds(2, 10, 10), OTHER: Bounds(0, 20, 20)}


def begun(
    *entries: Entry,
    pipeline: Pipeline | None = None,
    group: dict[TopicPartition, int] | None = None,
    **asked: object,
) -> dict[TopicPartition, int]:
    known = KnownOffsets(pipeline, ledger_ends(entries), group or {})
    found = decided(wish(**asked), BOUNDS, known, {PLACE: 5, OTHER: 6})
    return dict(found.starts)


def test_the_ledger_decides_then_what_was_written_down_then_all_there_is():
    assert begun() == {PLACE: 5, OTHER: 6}
    assert begun(group={PLACE: 9}) == {PLACE: 5, OTHER: 6}, "an old group is no pipeline"
    # It began before: a partition of which nobody knows anything is new, and read wholly.
    assert begun(pipeline=PIPELINE) == {PLACE: 7, OTHER: 0}
    assert begun(entry(0, 9), pipeline=PIPELINE) == {PLACE: 9, OTHER: 0}
    # A restored target lacks what the group has seen of a partition that was added while the pipeline ran.
    assert begun(entry(0, 9), pipeline=PIPELINE, group={OTHER: 15}) == {PLACE: 9, OTHER: 0}
    # Its folder is lost, and the group still knows where it stood in what the ledger does not have.
    assert begun(entry(0, 9), group={PLACE: 3, OTHER: 15}) == {PLACE: 9, OTHER: 15}


def test_what_was_given_up_is_not_read_again():
    there = entry(0, 4), entry(0, 3, OTHER)
    known = {"pipeline": PIPELINE, "group": {PLACE: 10, OTHER: 1}}
    assert begun(*there, **known, drop_when_down=True) == {PLACE: 10, OTHER: 3}
    assert begun(*there, **known) == {PLACE: 4, OTHER: 3}


def passed(*entries: Entry, **asked: Any) -> dict[TopicPartition, tuple[int, int]]:
    pipeline, group = asked.pop("pipeline", PIPELINE), asked.pop("group")
    known = KnownOffsets(pipeline, ledger_ends(entries), group)
    return dict(decided(wish(**asked), BOUNDS, known, {PLACE: 5, OTHER: 6}).passed)


def test_what_a_start_passes_over_is_said():
    """It was dropped, or a restored target lacks it: nobody knows which, so nobody may be silent."""
    there, group = (entry(0, 4), entry(0, 3, OTHER)), {PLACE: 10, OTHER: 1}
    assert passed(*there, group=group, drop_when_down=True) == {PLACE: (4, 10)}
    assert passed(*there, group=group) == {}
    # The ledger has nothing left of a partition.
    assert passed(there[1], group=group, drop_when_down=True) == {PLACE: (7, 10)}
    # On another machine, the group decides about a partition that the ledger lacks.
    assert passed(there[1], group=group, pipeline=None) == {PLACE: (2, 10)}
    assert passed(group=group, pipeline=None) == {}, "a new pipeline"
    line = told_of_passed(PLACE, (4, 10))
    assert line.startswith(
        "NOT READ laps:0:4-10: the group is beyond these offsets, and the ledger"
    )


def test_nothing_is_silently_short():
    with pytest.raises(Expired, match="laps:0:1-2"):
        begun(entry(0, 1), pipeline=PIPELINE)
    assert begun(entry(0, 1), pipeline=PIPELINE, accept_loss=True)[PLACE] == 2
    with pytest.raises(BeyondTheEnd):
        begun(entry(0, 11), pipeline=PIPELINE)


# --- how far it is


def outcome(*slices: Slice) -> Outcome:
    return Outcome(
        written=[
            RoundWritten(s.topic, s.partition, s.from_offset, s.to_offset, len(s), len(s), 5)
            for s in slices
        ]
    )


def test_what_is_due_is_what_lies_between_its_place_and_the_rounds_end():
    standing = PipelineProgress({PLACE: 3})
    ends = {PLACE: 8, OTHER: 2}
    assert standing.due(ends) == [Slice("laps", 0, 3, 8), Slice("laps", 1, 0, 2)]
    standing.note([outcome(Slice("laps", 0, 3, 6))])
    assert standing.due(ends) == [Slice("laps", 0, 6, 8), Slice("laps", 1, 0, 2)]
    standing.give_up(standing.due(ends))
    assert standing.due(ends) == []
    assert (standing.records, standing.lost_offsets) == (3, 4)
    assert standing.lag({PLACE: Bounds(0, 10, 12), OTHER: Bounds(0, 2, 2)}) == 2
    assert json.loads(json.dumps(standing.as_document()))["lost"] == ["laps:0:6-8", "laps:1:0-2"]


def test_only_written_records_count_as_written():
    standing = PipelineProgress({PLACE: 3})
    for start in (3, 6):
        part = RoundWritten(*PLACE, start, start + 3, 3, 1, 5, 2, 0, {"with_rounded_values": 1})
        standing.note([Outcome.from_document(Outcome(written=[part]).as_document())])
    said = standing.as_document()
    assert (said["records"], said["rejected"]) == (2, 4)
    assert said["details"] == {"with_rounded_values": 2}


def test_offsets_that_gave_no_record_without_a_reason_are_said():
    said: list[str] = []
    ground = SimpleNamespace(standing=PipelineProgress({PLACE: 3}), say=said.append)
    rounds = Rounds(ground, SimpleNamespace())  # type: ignore[arg-type]
    whole = RoundWritten(*PLACE, 3, 6, 3, 3, 5)
    rounds._noted([Outcome(written=[whole, RoundWritten(*PLACE, 6, 9, 1, 1, 5, unexplained=2)])])
    assert said == [
        "laps:0: 2 of the offsets 6-9 gave no record for an unknown reason; records may have been lost in the log"
    ]


def test_a_pipeline_that_is_fenced_continues_once_in_an_hour(monkeypatch: pytest.MonkeyPatch):
    """Once, a writer of its own may have come back that was taken for dead; twice, it is another run."""
    said: list[str] = []
    now_s = 100.0
    monkeypatch.setattr(round_loop.time, "monotonic", lambda: now_s)
    wish = SimpleNamespace(name="laps")
    standing = PipelineProgress({PLACE: 3})
    ground = SimpleNamespace(standing=standing, say=said.append, wish=wish, fenced_at=None)
    rounds = Rounds(ground, SimpleNamespace())  # type: ignore[arg-type]
    fenced = Outcome(writer_id="w", away="running already", is_fenced=True)
    assert rounds._noted([fenced]) == "running already"
    assert said == [
        "another writer of this pipeline has fenced this one; continuing, and ending if it happens again within an hour"
    ]
    now_s += 3_601
    rounds._noted([fenced])
    now_s += 3_599
    # Spark may have begun another query meanwhile.
    with pytest.raises(InUse):
        Rounds(ground, SimpleNamespace())._noted([fenced])  # type: ignore[arg-type]
    assert len(said) == 2


def test_fields_that_no_column_takes_are_said_when_another_one_occurs():
    said: list[str] = []
    ground = SimpleNamespace(standing=PipelineProgress({PLACE: 0}), say=said.append)
    rounds = Rounds(ground, SimpleNamespace())  # type: ignore[arg-type]
    for at, names in enumerate([(), ("s",), ("s",), ("n",)]):
        left = ExtraFields.counted([names]).as_details()
        part = RoundWritten(*PLACE, at, at + 1, 1, 1, 5, left_out=left)
        rounds._noted([Outcome.from_document(Outcome(written=[part]).as_document())])
    assert said == [
        "fields that no column takes are left out: s in 1",
        "fields that no column takes are left out: s in 2, n in 1",
    ]
    assert ground.standing.as_document()["extra_fields"]["records"] == 3


def test_a_ledger_that_went_back_is_noticed_and_one_that_is_ahead_is_followed():
    standing = PipelineProgress({PLACE: 3}, {PLACE: 3})
    standing.follow({PLACE: 5})
    assert standing.at == {PLACE: 5}
    with pytest.raises(LedgerWentBack, match="ends at 4"):
        standing.follow({PLACE: 4})
    standing.give_up([Slice("laps", 0, 5, 9)])
    standing.follow({PLACE: 5})
    assert standing.at == {PLACE: 9}


def test_what_is_committed_is_stored_while_a_pipeline_runs(tmp_path, monkeypatch):
    pipelines, standing = Pipelines(tmp_path), PipelineProgress({PLACE: 0}, {PLACE: 7})
    watch, planned = SimpleNamespace(objection=None), MagicMock()
    # A killed pipeline has no end at which it could store this: the watch does, with each status.
    monkeypatch.setattr(
        "playhead.live.runner.Watch",
        lambda _source, _standing, note, *_: nullcontext(note({}) or watch),
    )
    monkeypatch.setattr("playhead.live.runner.MovingGroup", MagicMock())
    source = SimpleNamespace(connection=None, names=lambda: ("old", "new"))
    monkeypatch.setattr("playhead.live.runner.topics_of", lambda _: source)
    monkeypatch.setattr("playhead.live.runner.SameTopics", MagicMock())
    monkeypatch.setattr("playhead.live.runner.ReadLog", MagicMock())
    monkeypatch.setattr("playhead.live.runner.Queries", MagicMock())
    wish = SimpleNamespace(name="p", group="g")
    planned.plan.source.topics = {"old": None}
    Runner(wish, planned, pipelines, print)._play(MagicMock(), standing, MagicMock())  # type: ignore[arg-type]
    assert pipelines.committed("p") == 7
    assert watch.unread() == {"new"}


def test_a_ledger_with_less_than_was_seen_is_refused_at_the_second_look(tmp_path):
    pipelines = Pipelines(tmp_path)
    assert pipelines.committed("p") == 0
    pipelines.note_committed("p", 12)
    known, file = pipelines.committed("p"), pipelines.committed_file("p")
    whole = [Entry(Slice("laps", 0, 0, 7), 7, 7), Entry(Slice("laps", 1, 0, 5), 5, 5)]
    looks = [whole, whole[:1]]
    refuse_forgotten("p", looks.pop, known=known, file=file)
    assert looks == [], "the first was short"
    with pytest.raises(LedgerForgotten, match="12 offsets .* but finds 7 now") as caught:
        refuse_forgotten("p", lambda: whole[:1], known=known, file=file)
    assert str(file) in (caught.value.hint or "")
    file.unlink()
    refuse_forgotten("p", list, known=pipelines.committed("p"), file=file)


@settings(deadline=None)
@given(st.lists(st.integers(1, 5), max_size=1_200), st.data())
def test_giving_up_for_hours_takes_no_more_room(lengths, data):
    standing = PipelineProgress({PLACE: 0})
    end = 0
    for length in lengths:
        end += length
        standing.give_up(standing.due({PLACE: end}))
    assert standing.lost_offsets == end
    assert len(standing.lost) <= 1_001
    done = data.draw(st.integers(0, end))
    left = still_lost(standing.lost, [Slice(*PLACE, 0, done)] if done else [])
    assert sum(map(len, left)) == end - done


def test_the_ledgers_end_is_where_its_last_entry_ends():
    found = ledger_ends([entry(0, 4), entry(9, 12), entry(3, 5, OTHER)])
    assert found == {PLACE: 12, OTHER: 5}


# --- waiting


def test_waits_grow_and_the_first_is_none():
    waits = server_backoff()
    taken = [waits.take() for _ in range(8)]
    assert taken[0] == 0
    assert taken == sorted(taken)
    assert max(taken) == 5
    waits.start_over()
    assert waits.take() == 0


def test_what_lasts_is_said_at_once_and_then_ever_more_seldom():
    now = 0.0
    told = RepeatedNotice(lambda: now)
    said = []
    for second in range(600):
        now = float(second)
        if told.is_time():
            said.append(second)
    gaps = [b - a for a, b in pairwise(said)]
    assert said[0] == 0
    assert gaps == sorted(gaps)
    assert (gaps[0], gaps[-1]) == (5, 60)
    assert told.since() == "STILL WAITING after 599 s"
    told.start_over()
    assert (told.lasted_s(), told.is_time()) == (0, True)


# --- what Spark wrote down


def test_the_ends_of_a_round_are_read_from_sparks_own_notes(tmp_path: Path):
    file = tmp_path / "offsets" / "3"
    file.parent.mkdir()
    file.write_text('v1\n{"batchWatermarkMs":0,"conf":{}}\n{"laps":{"0":8,"1":2}}')
    assert ends_in(file) == {PLACE: 8, OTHER: 2}
    assert last_ends(tmp_path) is None
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "3").write_text("v1\n{}")
    (tmp_path / "commits" / ".3.crc").write_text("")
    assert last_ends(tmp_path) == {PLACE: 8, OTHER: 2}
    for text in ("", "v1", "v1\n{}\n[1]", 'v1\n{}\n{"laps":3}', 'v1\n{}\n{"laps":{"0":"x"}}'):
        file.write_text(text)
        with pytest.raises(RoundUnreadable):
            ends_in(file)
