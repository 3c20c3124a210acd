"""A client that tells the end of a partition too early does not hide the records of a span behind it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError

from playhead.kafka.read import time_lookup

PLACE = ("src", 2)
LOG = {0: 1_000, 1: 1_000, 5: 3_000, 6: 3_000}
END = 7


class Told(NamedTuple):
    """What a client gives: a record, or the news that a partition ends at an offset."""

    at: int
    is_end: bool = False

    def topic(self) -> str:
        return PLACE[0]

    def partition(self) -> int:
        return PLACE[1]

    def offset(self) -> int:
        return self.at

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._PARTITION_EOF) if self.is_end else None

    def timestamp(self) -> tuple[int, int]:
        return 1, LOG[self.at]


class Lying:
    """In place of the client's consumer: reads the log, and tells an end of its own as often as it is let."""

    lies: Sequence[tuple[int, int]] = ()
    """Up to where each look gives records, and which end it tells."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._left: list[Told] = []

    def assign(self, places: Mapping[tuple[str, int], int]) -> None:
        (start,) = places.values()
        to, end = Lying.lies[0] if Lying.lies else (END, END)
        Lying.lies = Lying.lies[1:]
        held = [Told(at) for at in LOG if start <= at < to]
        self._left = [*held, Told(max(end, start), is_end=True)]

    def poll_or_fail(self, _: str) -> list[Told]:
        return [self._left.pop(0)]

    def unassign(self, _: Any) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("lies", "answer"),
    [
        ((), 5),
        (((2, 2),), 5),
        (((3, 3),), 5),
        (((0, END),), 5),
        (((2, END),), 5),
        (((1, END), (2, END)), 5),
        (((2, 2), (3, 3)), 5),
        (((2, 2), (6, 6)), 5),
        (((2, 3),) * 9, 2),
        (((2, 3), (2, END)), 5),
        (((2, END), (2, END)), END),
    ],
)
def test_an_end_that_is_told_too_early_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, lies: Sequence[int], answer: int
) -> None:
    monkeypatch.setattr(time_lookup, "PartitionConsumer", Lying)
    Lying.lies = lies
    found = time_lookup.first_records_at(
        None,  # type: ignore[arg-type]
        {PLACE: 0},
        {PLACE: END},
        instant_ms=2_000,
        patience_s=1,
    )
    assert found == {PLACE: answer}, "or a place before it; or what two clients say"
