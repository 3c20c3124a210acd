"""The bounds of partitions, asked in three questions between which a topic may be made again."""

import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import OffsetSpec

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import PlayheadError, Unavailable
from playhead.kafka.admin import offsets
from playhead.kafka.admin import open_transactions as module
from playhead.kafka.admin.answer_fields import Fields
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.offsets import Described, LogChanged, bounds_of
from playhead.kafka.admin.open_transactions import read_answer, request_of
from playhead.kafka.read import timeline
from playhead.source import Bounds, TopicPartition

_PLACE = ("laps", 0)


def _answering(monkeypatch: pytest.MonkeyPatch, *answers: int) -> None:
    left: Iterator[int] = iter(answers)

    def ask(*_: Any) -> Mapping[TopicPartition, SimpleNamespace]:
        return {_PLACE: SimpleNamespace(offset=next(left))}

    monkeypatch.setattr(offsets, "ask", ask)


def test_a_topic_that_was_made_again_between_two_questions_is_asked_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _answering(monkeypatch, 0, 33, 2, 0, 2, 2)
    assert bounds_of(None, [_PLACE]) == {_PLACE: Bounds(0, 2, 2)}  # type: ignore[arg-type]


def test_a_log_that_is_another_one_each_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    _answering(monkeypatch, *(0, 33, 2) * 3)
    with pytest.raises(LogChanged, match="laps:0: .* stable end 33, then end 2") as caught:
        bounds_of(None, [_PLACE])  # type: ignore[arg-type]
    # A live pipeline waits for it, as for a broker.
    assert isinstance(caught.value, Unavailable)


def test_records_that_came_between_two_questions_are_no_open_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _answering(monkeypatch, 0, 33, 40, 45)
    assert bounds_of(None, [_PLACE]) == {_PLACE: Bounds(0, 40, 40)}  # type: ignore[arg-type]
    _answering(monkeypatch, 0, 33, 40, 33)
    assert bounds_of(None, [_PLACE]) == {_PLACE: Bounds(0, 33, 40)}  # type: ignore[arg-type]


class _Late:
    """An admin whose topic has no leader for so many requests."""

    timeout_s = 5.0

    def __init__(self, code: int, late: int) -> None:
        self.asked, self._error, self._late = 0, KafkaException(KafkaError(code)), late

    @contextmanager
    def asking(self, _action: str) -> "Iterator[_Late]":
        yield self

    def list_offsets(self, wanted: Mapping[Any, Any], **_: Any) -> Mapping[Any, "_Late"]:
        self.asked += 1
        return dict.fromkeys(wanted, self)

    def result(self, _timeout_s: float) -> Any:
        if self.asked <= self._late:
            raise self._error
        return SimpleNamespace(offset=7)


def test_a_partition_that_has_no_leader_yet_is_asked_again() -> None:
    late = _Late(KafkaError.LEADER_NOT_AVAILABLE, 2)
    assert offsets.stable_ends(late, [_PLACE]) == {_PLACE: 7}  # type: ignore[arg-type]
    assert late.asked == 3
    gone = _Late(KafkaError.UNKNOWN_TOPIC_OR_PART, 2)
    with pytest.raises(KafkaException):
        offsets.stable_ends(gone, [_PLACE])  # type: ignore[arg-type]
    assert gone.asked == 1


class _Slow(_Late):
    """An admin whose requests end at their own limit, the first of them always, each with an error of the client."""

    timeout_s = 2.0

    def __init__(self, code: int, *, needs_s: float) -> None:
        super().__init__(code, 1)
        self._needs_s, self._limit_s = needs_s, 0.0

    def list_offsets(self, wanted: Mapping[Any, Any], **given: Any) -> Mapping[Any, "_Late"]:
        self._limit_s = given["request_timeout"]
        return super().list_offsets(wanted)

    def result(self, timeout_s: float) -> Any:
        time.sleep(min(self._needs_s, self._limit_s))
        if self._limit_s < self._needs_s:
            raise self._error
        return super().result(timeout_s)


@pytest.mark.parametrize("code", [KafkaError._NOENT, KafkaError._TIMED_OUT])
def test_a_request_that_waits_in_vain_is_given_up_early_and_the_next_one_has_more_time(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(offsets, "LEADER_REQUEST_S", 0.05)
    slow = _Slow(code, needs_s=0.3)
    assert offsets.stable_ends(slow, [_PLACE]) == {_PLACE: 7}  # type: ignore[arg-type]
    assert slow.asked == 4


def test_the_last_request_has_all_the_time_and_its_error_is_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offsets, "LEADER_REQUEST_S", 0.3)
    never, began = _Slow(KafkaError._TIMED_OUT, needs_s=99), time.monotonic()
    with pytest.raises(KafkaException):
        offsets.stable_ends(never, [_PLACE])  # type: ignore[arg-type]
    assert 2 < time.monotonic() - began < 6


class _Lossy(_Late):
    """An admin that loses the answers to so many requests, and says so by an offset of the client's own."""

    def __init__(self, late: int, *, offset: int = -1001, timeout_s: float = 5.0) -> None:
        super().__init__(KafkaError.NO_ERROR, late)
        self._offset, self.timeout_s = offset, timeout_s

    def result(self, _timeout_s: float) -> Any:
        return SimpleNamespace(offset=self._offset if self.asked <= self._late else 7)


@pytest.mark.parametrize(
    "ask",
    [
        offsets.log_starts,
        offsets.stable_ends,
        offsets.log_ends,
        lambda admin, places: offsets.entries_at(admin, places, 1_600),
    ],
    ids=["start", "stable", "end", "by time"],
)
def test_a_lost_answer_is_no_offset(ask: Any) -> None:
    lossy = _Lossy(2)
    assert ask(lossy, [_PLACE]) == {_PLACE: 7}
    assert lossy.asked == 3
    with pytest.raises(KafkaException) as caught:
        ask(_Lossy(99, timeout_s=0.0), [_PLACE])
    assert caught.value.args[0].code() == KafkaError._TRANSPORT


def test_a_timeline_counts_no_lost_answer() -> None:
    spec = OffsetSpec.latest()
    assert timeline._ask(_Lossy(0), [_PLACE], [spec])[0][_PLACE].offset == 7  # type: ignore[arg-type]
    with pytest.raises(KafkaException):
        timeline._ask(_Lossy(9), [_PLACE], [spec])  # type: ignore[arg-type]


def test_only_a_time_can_have_no_entry() -> None:
    assert offsets.entries_at(_Lossy(9, offset=-1), [_PLACE], 1_600) == {}  # type: ignore[arg-type]
    with pytest.raises(KafkaException):
        offsets.log_ends(_Lossy(9, offset=-1, timeout_s=0.0), [_PLACE])  # type: ignore[arg-type]


# --- who has one open


def test_leaders_are_asked_in_the_form_of_flexible_requests() -> None:
    asked = request_of([("laps", 0), ("laps", 258), ("a", 1)])
    laps = b"\x05laps\x03" + b"\0\0\0\0" + b"\0\0\1\2" + b"\0"
    assert asked == b"\0\x03" + laps + b"\x02a\x02\0\0\0\1\0" + b"\0"
    long = "t" * 200
    assert request_of([(long, 0)])[:4] == b"\0\x02\xc9\x01"


def _producer(start: int) -> bytes:
    return struct.pack(">qiiqiq", 7, 1, 3, 1_600, 0, start) + b"\0"


def test_their_answer_says_where_transactions_began() -> None:
    first = struct.pack(">ih", 0, 0) + b"\0" + b"\x03" + _producer(-1) + _producer(33) + b"\0"
    second = struct.pack(">ih", 1, 0) + b"\1" + b"\x01" + b"\1\5\2ab"
    answer = b"\0" + struct.pack(">i", 0) + b"\x02\x05laps\x03" + first + second + b"\0\0"
    assert [*read_answer(Fields(answer))] == [(("laps", 0), [33]), (("laps", 1), [])]


def test_a_leader_that_does_not_tell_is_an_error() -> None:
    refused = struct.pack(">ih", 0, 29) + b"\0" + b"\x01" + b"\0"
    answer = b"\0" + struct.pack(">i", 0) + b"\x02\x05laps\x02" + refused + b"\0\0"
    with pytest.raises(PlayheadError, match="laps:0"):
        [*read_answer(Fields(answer))]


def _asked(monkeypatch: pytest.MonkeyPatch, starts: dict[TopicPartition, int] | None) -> Any:
    described = {"laps": Described("id", (0,), {0: (1, "there:9092")})}
    monkeypatch.setattr(module, "describe_those", lambda *_: described)

    def first_open(*_: Any) -> Any:
        if starts is None:
            raise Unavailable("no login")
        return starts.items()

    monkeypatch.setattr(module, "_first_open", first_open)
    return module.open_transactions(None, None, {_PLACE: Bounds(0, 33, 40)})  # type: ignore[arg-type]


def test_only_a_transaction_that_began_before_the_end_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _asked(monkeypatch, {_PLACE: 33}) == {_PLACE}
    assert _asked(monkeypatch, {_PLACE: 40}) == set()
    assert _asked(monkeypatch, {}) == set()


def test_where_leaders_cannot_be_asked_a_stable_end_that_stands_still_tells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "stable_ends", lambda *_: {_PLACE: 33})
    assert _asked(monkeypatch, None) == {_PLACE}
    monkeypatch.setattr(module, "stable_ends", lambda *_: {_PLACE: 41})
    assert _asked(monkeypatch, None) == set()


class _Waiting:
    """A client that finds no leaders of a new topic before it has fetched anew where the topic is."""

    has_looked = False

    def create_topics(self, wanted: list[Any], **_: Any) -> dict[str, Any]:
        return {each.topic: SimpleNamespace(result=lambda _: None) for each in wanted}

    def list_offsets(self, wanted: Mapping[Any, Any], **_: Any) -> dict[Any, "_Waiting"]:
        return dict.fromkeys(wanted, self)

    def result(self, _: float) -> bool:
        if not self.has_looked:
            raise KafkaException(KafkaError(KafkaError._NOENT, "No leaders found"))
        return True

    def list_topics(self, topic: str, timeout: float) -> None:
        self.has_looked = True

    def poll(self, _: float) -> None:
        pass


def test_a_client_that_finds_no_leaders_fetches_anew_where_a_new_topic_is() -> None:
    admin = Admin(KafkaConnection({"bootstrap.servers": "127.0.0.1:1"}), timeout_s=1)
    admin._client = _Waiting()
    assert admin.create_topic("laps", partitions=2)
