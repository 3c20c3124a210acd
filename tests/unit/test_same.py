"""A topic that was made again under a live pipeline: nothing of the new one is committed under old offsets."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.absence import NOT_RECORDED, OneReason
from playhead.errors import Unavailable
from playhead.live.lag_watch import Watch
from playhead.live.log_cut import ReadLog
from playhead.live.progress import PipelineProgress
from playhead.record import Record
from playhead.records import Records
from playhead.source import Bounds
from playhead.task import round as rounds
from playhead.task.round import write
from playhead.task.same_topics import SameTopics
from playhead.task.slicer import ReadRun
from playhead.terms import OtherTerms
from playhead.testing import ListTarget
from tests.unit.replaying import TOPIC
from tests.unit.test_rounds import laps, ledger, round_of, slice_


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    rounds.let_go()
    yield
    rounds.let_go()


@dataclass
class Topics:
    """Where topics are made again; counts the connections that are open."""

    now: dict[str, str | None] = field(default_factory=lambda: {TOPIC: "first"})
    expect_topic_ids: dict[str, str] | None = field(default_factory=lambda: {TOPIC: "first"})
    is_away: bool = False
    connections: int = 0
    asked: int = 0

    @contextmanager
    def topic_ids(self) -> Iterator[Callable[[str], str | None]]:
        def found(topic: str) -> str | None:
            self.asked += 1
            if self.is_away:
                raise Unavailable("no broker")
            return self.now.get(topic)

        self.connections += 1
        yield found
        self.connections -= 1

    def absences(self) -> AbstractContextManager[OneReason]:
        return nullcontext(OneReason(NOT_RECORDED))

    def leader_epochs(self) -> dict[tuple[str, int], int]:
        return {}

    def bounds(self) -> dict[tuple[str, int], Bounds]:
        return {(TOPIC, 0): Bounds(0, 10, 10)}


def drawn(*records: Record, then: Callable[[], None] = lambda: None) -> Iterator[ReadRun]:
    """After the first run something happens."""
    for at, each in enumerate(records):
        yield Records.of([each]), None
        if at == 0:
            then()


def test_what_came_while_the_topic_was_made_again_is_not_committed():
    target, topics = ListTarget(), Topics()
    whole = round_of(target, slice_(0, 4), source=topics)
    assert write(whole, drawn(*laps(0, 4))).is_whole

    def made_again() -> None:
        topics.now[TOPIC] = "second"

    with pytest.raises(OtherTerms, match="has the id second; the ledger says first") as caught:
        write(round_of(target, slice_(4, 8), source=topics), drawn(*laps(4, 8), then=made_again))
    assert "--name" in (caught.value.hint or "")
    assert ledger(target) == [(0, 4, 4, 4)]
    assert topics.connections == 0


def test_no_offset_of_it_is_called_absent_either():
    target, topics = ListTarget(), Topics({TOPIC: "second"})
    with pytest.raises(OtherTerms):
        write(round_of(target, slice_(4, 8), source=topics), ())
    assert target.entries("live.laps") == []


def test_one_that_is_gone_is_refused_and_a_broker_that_is_away_waited_for():
    target, topics = ListTarget(), Topics({}, is_away=True)
    outcome = write(round_of(target, slice_(0, 4), source=topics), drawn(*laps(0, 4)))
    assert outcome.away == "no broker"
    topics.is_away = False
    with pytest.raises(OtherTerms, match="is gone"):
        write(round_of(target, slice_(0, 4), source=topics), drawn(*laps(0, 4)))
    assert not target.records


@pytest.mark.parametrize("expected", [None, {}, {TOPIC: ""}])
def test_a_source_without_ids_is_not_asked(expected):
    target, topics = ListTarget(), Topics(expect_topic_ids=expected)
    assert write(round_of(target, slice_(0, 4), source=topics), drawn(*laps(0, 4))).is_whole
    assert topics.asked == 0


def test_who_looks_from_outside_finds_it_too():
    topics, said = Topics({TOPIC: "second"}), list[str]()
    same = SameTopics("live.laps", topics)  # type: ignore[arg-type]
    read = ReadLog("laps", topics, {}, lambda _: None)  # type: ignore[arg-type]
    watch = Watch(topics, PipelineProgress({}), lambda _: None, said.append, same, read)  # type: ignore[arg-type]
    watch._look()
    assert isinstance(watch.refusal, OtherTerms)
    assert watch.lag is None
    topics.now[TOPIC] = "first"
    fresh = Watch(topics, PipelineProgress({}), lambda _: None, said.append, same, read)  # type: ignore[arg-type]
    fresh._look()
    assert (fresh.refusal, fresh.lag) == (None, 10)


def test_a_topic_that_a_start_does_not_read_is_named_once():
    topics, said, new = Topics({TOPIC: "first"}), list[str](), set[str]()
    same = SameTopics("live.laps", topics)  # type: ignore[arg-type]
    read = ReadLog("laps", topics, {}, lambda _: None)  # type: ignore[arg-type]
    watch = Watch(topics, PipelineProgress({}), lambda _: None, said.append, same, read)  # type: ignore[arg-type]
    watch.unread = lambda: new
    watch._look()
    assert said == []
    new |= {"b", "a"}
    watch._look()
    watch._look()
    later = "is new: it is read from its first record after the next start"
    assert said == [f"topic a {later}", f"topic b {later}"]
    assert watch.lag == 10


@given(st.lists(st.sampled_from(["read", "made again", "commit"]), max_size=12))
def test_at_whatever_moment_the_topic_is_made_again(steps):
    """Whatever the order, what is committed was read while the topic was the first one."""
    rounds.let_go()
    target, topics = ListTarget(), Topics()
    read: list[Record] = []
    at = generation = 0
    for step in steps:
        if step == "made again":
            generation += 1
            topics.now[TOPIC] = f"{generation} after the first"
        elif step == "read":
            read += laps(at + len(read), at + len(read) + 2)
        elif read:
            end = at + len(read)
            try:
                write(round_of(target, slice_(at, end), source=topics), [(Records.of(read), None)])
            except OtherTerms:
                assert generation
                break
            assert generation == 0
            at, read = end, []
    assert len(target.records) == at
