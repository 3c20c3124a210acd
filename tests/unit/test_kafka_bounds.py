"""The bounds of partitions, asked in three questions between which a topic may be made again."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from playhead.errors import Unavailable
from playhead.kafka.admin import offsets
from playhead.kafka.admin.offsets import LogChanged, bounds_of
from playhead.source import Bounds, TopicPartition

_PLACE = ("laps", 0)


def _answering(monkeypatch: pytest.MonkeyPatch, *answers: int) -> None:
    left: Iterator[int] = iter(answers)

    def ask(*_: Any) -> Mapping[TopicPartition, int]:
        return {_PLACE: next(left)}

    monkeypatch.setattr(offsets, "_ask", ask)


def test_a_topic_that_was_made_again_between_two_questions_is_asked_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _answering(monkeypatch, 0, 33, 2, 0, 2, 2)
    assert bounds_of(None, [_PLACE]) == {_PLACE: Bounds(0, 2, 2)}  # type: ignore[arg-type]


def test_a_log_that_is_another_one_each_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    _answering(monkeypatch, *(0, 33, 2) * 3)
    with pytest.raises(LogChanged, match="laps:0 .* up to 33, and then ended at 2") as caught:
        bounds_of(None, [_PLACE])  # type: ignore[arg-type]
    # A live pipeline waits for it, as for a broker.
    assert isinstance(caught.value, Unavailable)
