"""Two workers of one task, one that reads and one that writes, and what the one tells the other."""

from collections.abc import Iterator
from uuid import uuid4

import pyarrow as pa
import pytest

from playhead.account import ErrorRule
from playhead.errors import Unavailable
from playhead.record import Slice
from playhead.spark.run import _ReadTask, _StopSignal, _WriteTask
from playhead.task.job import Job
from playhead.task.slicer import Filter
from playhead.testing import ListSource, ListTarget
from tests.unit.replaying import TOPIC, record

SLICES = tuple(Slice(TOPIC, 0, n, n + 1) for n in range(100))


class Away(ListTarget):
    def open(self, _replay_id: str, /):
        raise Unavailable("the database is away")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def task(target: ListTarget) -> tuple[list[pa.RecordBatch], int]:
    """The reports, and how many parts were read for them, three for each slice."""
    source = ListSource([record(n) for n in range(100)])
    job = Job("r1", source, target, ((SLICES,),), Filter(None, None), ErrorRule("fail"))
    word, given = _StopSignal(uuid4().hex), 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal given
        for part in _ReadTask(job, word).work(iter([pa.record_batch([[0]], ["id"])])):
            given += 1
            yield part

    return list(_WriteTask(job, word).work(counted())), given


def test_for_who_cannot_write_no_more_is_read(tmp_path):
    """Or all the rest would be read before the run hears that somebody is away."""
    [report], given = task(Away())
    assert "the database is away" in report.column(0)[0].as_py()
    assert given <= 3
    assert not list(tmp_path.iterdir())


def test_for_who_can_write_all_is_read(tmp_path):
    target = ListTarget()
    [report], given = task(target)
    assert '"away": null' in report.column(0)[0].as_py()
    assert (len(target.records), given) == (100, 300)
    assert not list(tmp_path.iterdir())


def test_a_link_in_the_place_of_a_word_leads_nowhere(tmp_path):
    word, outside = _StopSignal("one", tmp_path), tmp_path / "outside"
    (tmp_path / "playhead-word-one-0").symlink_to(outside)
    word.give(0)
    assert not outside.exists()
    word.take_back(0)
    word.give(1)
    word.give(1)
    assert word.is_given(1)
    assert not word.is_given(0)
