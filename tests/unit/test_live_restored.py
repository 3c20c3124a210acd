"""A ledger that lost all entries of a partition: the partition is read again from where the pipeline first began."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from playhead.errors import Refused, Unavailable
from playhead.inventory import HeldOffsets
from playhead.ledger import Entry
from playhead.live.lost_entries import SecondRowsUnknown
from playhead.live.progress import PipelineProgress
from playhead.live.query_loop import Queries
from playhead.live.runner import Runner
from playhead.live.start_offsets import Expired, StartOffsets
from playhead.record import Slice
from playhead.replay.pipelines import Pipeline, Pipelines
from playhead.source import Bounds

FIRST, SECOND, NEW = ("laps", 0), ("laps", 1), ("laps", 2)
PIPELINE = Pipeline("p", "kafka:laps", "postgres:laps", "c", "d", {}, "g", {}, 1)


@dataclass
class Held:
    """A table that has these offsets."""

    url: str = ""
    table: str = ""
    offsets: tuple[int, ...] = ()
    columns: tuple[str, ...] = ("_topic", "_partition", "_offset")
    known: tuple[Entry, ...] = ()
    may_not_be_read: bool = False

    def entries(self, _replay_id: str, /) -> tuple[Entry, ...]:
        return self.known

    def has_offsets(self, _topics: Sequence[str], /) -> bool:
        return "_offset" in self.columns

    def columns_there(self, _topics: Sequence[str], wanted: Sequence[str], /) -> tuple[str, ...]:
        return tuple(each for each in wanted if each in self.columns)

    def safest_conflict_rule(self, _topics: Sequence[str], _key: Sequence[str], /) -> None:
        return None

    def known_by_columns(self, _columns: tuple[str, ...], /) -> Any:
        return self

    def held_offsets(
        self, spans: Sequence[Slice], /, *, until_ms: int | None = None
    ) -> HeldOffsets:
        assert until_ms is None
        if self.may_not_be_read:
            raise Refused("GRANT SELECT")
        first = [each for each in spans if each.place == FIRST]
        there = [at for at in self.offsets if any(at in range(*_ends(each)) for each in first)]
        return HeldOffsets(rows=len(there))


def _ends(span: Slice) -> tuple[int, int]:
    return span.from_offset, span.to_offset


def queries(
    standing: PipelineProgress,
    *entries: Entry,
    starts: dict[str, int],
    rule: str | None = None,
    target: Held | None = None,
) -> Queries:
    mark = replace(PIPELINE, starts={"laps": starts})
    bounds = dict.fromkeys((FIRST, SECOND, NEW), Bounds(3, 100, 100))
    ground: Any = MagicMock(standing=standing, first_start=mark.start)
    ground.wish.name = "p"
    ground.wish.request.spec.table.on_conflict = rule
    ground.ends.target = target or Held()
    ground.ends.target.known = entries
    ground.ends.source.bounds.return_value = bounds
    return Queries(ground, MagicMock(), Path())


@pytest.fixture(autouse=True)
def same_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("playhead.live.query_loop.SameTopics", MagicMock())


def test_a_partition_that_the_ledger_lacks_is_read_from_its_first_start() -> None:
    standing = PipelineProgress({FIRST: 50, SECOND: 60}, {FIRST: 50, SECOND: 60})
    left = Entry(Slice("laps", 0, 5, 40), 35, 35)
    queries(standing, left, starts={"0": 5, "1": 20})._look_again()
    assert standing.at == {FIRST: 40, SECOND: 20, NEW: 3}
    assert standing.committed == {FIRST: 40}


def test_what_was_dropped_behind_lost_commits_is_read_again_with_them() -> None:
    standing = PipelineProgress({FIRST: 50, SECOND: 60, NEW: 9}, {FIRST: 50, SECOND: 60})
    for dropped in ([Slice("laps", 1, 60, 70)], [Slice("laps", 2, 3, 9)]):
        standing.give_up(dropped)
    asked = queries(standing, Entry(Slice("laps", 0, 5, 55), 50, 50), starts={"0": 5})
    asked._look_again()
    assert standing.at == {FIRST: 55, SECOND: 3, NEW: 9}, "of the others nothing was lost"
    assert standing.lost == [Slice("laps", 2, 3, 9)]
    # A start that follows a kill would continue from the group.
    asked.ground.move_group.assert_called_once_with(standing.at)


def test_lost_commits_that_have_expired_from_the_log_are_said() -> None:
    """The engine would only say that it cannot read there."""
    standing = PipelineProgress({FIRST: 50, SECOND: 60}, {FIRST: 50, SECOND: 60})
    left = Entry(Slice("laps", 0, 0, 2), 2, 2), Entry(Slice("laps", 1, 0, 60), 60, 60)
    asked = queries(standing, *left, starts={"0": 0})
    asked.ground.wish.accept_loss = False
    with pytest.raises(Expired, match=r"1 offsets expired .*laps:0:2-3"):
        asked._look_again()
    asked.ground.wish.accept_loss = True
    asked._look_again()
    assert standing.at == {FIRST: 3, SECOND: 60, NEW: 3}
    said = [call.args[0] for call in asked.ground.say.call_args_list]
    assert "LOST laps:0:2-3: expired before it was read" in said


def test_a_table_that_does_not_answer_is_not_asked_for_ever() -> None:
    class Slow(Held):
        def held_offsets(self, *_: Any, **__: Any) -> HeldOffsets:
            raise Unavailable("canceling statement due to statement timeout")

    standing = PipelineProgress({FIRST: 50, SECOND: 60}, {FIRST: 50, SECOND: 60})
    asked = queries(standing, starts={"0": 5}, target=Slow())
    for _ in range(2):
        with pytest.raises(Unavailable):
            asked._look_again()
    with pytest.raises(SecondRowsUnknown, match="statement timeout"):
        asked._look_again()
    assert standing.at == {FIRST: 50, SECOND: 60}


def went_back(target: Held, rule: str | None = None) -> PipelineProgress:
    standing = PipelineProgress({FIRST: 50, SECOND: 60}, {FIRST: 50, SECOND: 60})
    left = Entry(Slice("laps", 0, 5, 40), 35, 35), Entry(Slice("laps", 1, 20, 60), 40, 40)
    queries(standing, *left, starts={"0": 5}, rule=rule, target=target)._look_again()
    return standing


def test_rows_whose_entries_alone_are_gone_are_not_written_twice() -> None:
    with pytest.raises(Refused, match=r"pipeline p lost entries.* 3 rows of laps:0:40-50"):
        went_back(Held(offsets=(39, 40, 41, 49, 50)))


def test_rows_that_are_gone_too_are_written_again() -> None:
    assert went_back(Held(offsets=(39, 50))).at[FIRST] == 40
    assert went_back(Held(offsets=(40,)), rule="update").at[FIRST] == 40, "no row comes twice"
    # What the rows do not tell is not known.
    assert went_back(Held(offsets=(40,), may_not_be_read=True)).at[FIRST] == 40
    for columns in ((), ("_partition", "_offset")):
        assert went_back(Held(offsets=(40,), columns=columns)).at[FIRST] == 40


@pytest.mark.parametrize(
    ("skipped", "entries", "kept"),
    [
        ({}, (), {"0": 7, "1": 9}),
        ({FIRST: (7, 60)}, (), {"0": 60, "1": 9}),
        # It was added while the pipeline ran, and the ledger has all of it.
        ({}, (Entry(Slice("laps", 1, 3, 9), 6, 6),), {"0": 7, "1": 3}),
    ],
)
def test_the_first_start_stays_written_down(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    skipped: Any,
    entries: tuple[Entry, ...],
    kept: dict[str, int],
) -> None:
    pipelines = Pipelines(tmp_path)
    begun = StartOffsets({FIRST: 60, SECOND: 9}, {FIRST: 60}, skipped)
    monkeypatch.setattr("playhead.live.runner.beginning", lambda *_, **__: begun)
    monkeypatch.setattr("playhead.live.runner.topics_of", MagicMock())
    monkeypatch.setattr("playhead.spark.stream.last_ends", lambda _: None)
    wish: Any = SimpleNamespace(name="p", start="latest", accept_loss=False)
    runner = Runner(wish, MagicMock(copies_again=True), pipelines, print)
    monkeypatch.setattr(Runner, "_refuse_cut", lambda *_: None)
    known = replace(PIPELINE, starts={"laps": {"0": 7}})
    both = MagicMock()
    both.target.prepare.return_value = ()
    both.target.entries.return_value = entries
    runner._begin(both, replace(PIPELINE, starts=known.starts), known)
    found = pipelines.get("p")
    assert found is not None
    assert found.starts == {"laps": kept}
