"""Finds the records of a captured Fetch or Produce: one record set per batch."""

import base64
import re
from binascii import Error as NotBase64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from playhead.traffic.aborted import Aborted
from playhead.traffic.json_numbers import UnknownShape, is_number, number, one_of
from playhead.traffic.pair import Pair, as_text, field
from playhead.traffic.pair_path import canonical_uuid

TOPICS: Final = ("topics", "responses", "topicData")
PARTITIONS: Final = ("partitions", "partitionData", "partitionResponses")
PARTITION: Final = ("index", "partition", "partitionIndex", "id")
TOPIC: Final = ("name", "topic", "topicName")
RECORDS: Final = ("records", "recordSet", "recordBatches", "batches", "messages")
ROWS: Final = ("records", "messages")
BASE_OFFSET: Final = ("baseOffset", "firstOffset")
_SETS: Final = ("batches", "recordBatches")
_LARGEST_PARTITION = 9_999
MOST_OFFSET: Final = (1 << 62) - 1
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
ID_MARK: Final = "id:"
# Structured fields that contain no records.
_BESIDE_TOPICS: Final = {"nodeEndpoints", "forgottenTopicsData", "forgottenTopics"}
_BESIDE_RECORDS: Final = {
    "abortedTransactions",
    "divergingEpoch",
    "currentLeader",
    "snapshotId",
    "recordErrors",
}
_OF_A_SET: Final = {"attributes"}
_STRUCTURED: Final = (dict, list, str)
_WITH_RECORDS: Final = ("ShareFetchResponse", "FetchSnapshotResponse")


@dataclass(slots=True)
class RecordSet:
    """A record batch of one partition, as in the captured pair."""

    topic: str
    """The topic's name, or `id:` and its id if the pair has no name."""
    partition: int
    set: Mapping[str, Any]
    """The fields of the batch; empty if the records are not in a batch."""
    rows: Sequence[Any]
    is_produce: bool
    base: int | None
    """The base of the offset deltas; None if it is unknown."""
    append_ms: int = -1
    """The timestamp that the broker set for produced records; -1 if it set none."""
    located: int = -1
    """Number of objects under the key `records` of a partition before this one in the pair."""


@dataclass(slots=True)
class PairRecords:
    """The record sets of one pair, and the reasons why data could not be read."""

    lots: list[RecordSet]
    strange: list[str]
    refused: int = 0
    """Number of batches that the broker rejected when they were produced."""
    located: int = 0
    aborted: int = 0
    """Number of records of aborted transactions, which read_committed consumers do not get."""


def lots_of(pair: Pair) -> PairRecords:
    """Return the record sets of a pair of the Kafka protocol; never raises."""
    read = PairRecords([], [])
    kafka = pair.get("kafka")
    if not isinstance(kafka, dict):
        read.strange.append("there is no object `kafka`")
        return read
    request, response = kafka.get("request"), kafka.get("response")
    try:
        _of_fetch(read, field(response, "FetchResponse"))
        _of_produce(read, field(request, "ProduceRequest"), field(response, "ProduceResponse"))
        _need_known(pair, request, response)
    except UnknownShape as exc:
        read.strange.append(str(exc))
    return read


def _need_known(pair: Pair, request: Any, response: Any) -> None:
    command = as_text(pair.get("command"))
    for name in _WITH_RECORDS:
        if field(response, name):
            raise UnknownShape(f"{name}: records of this API are not supported")
    needed = {"Fetch": ("FetchResponse", response), "Produce": ("ProduceRequest", request)}
    if command in needed:
        name, carrier = needed[command]
        others = [each for each, value in _items(carrier) if type(value) in _STRUCTURED]
        others = [each for each in others if each not in ("apiKey", "clientId", "correlationId")]
        if others and name not in others:
            raise UnknownShape(f"the {command} has {others[0]} instead of {name}")
        if carrier is not None and not isinstance(carrier, dict):
            raise UnknownShape(f"the body of the {command} is not an object")


def _items(found: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(found, dict):
        yield from found.items()


def _of_fetch(read: PairRecords, response: Any) -> None:
    if response is None:
        return
    transactions: dict[tuple[str, int], Aborted] = {}
    for topic, partition, held in _partitions(read, response, "FetchResponse"):
        aborted = transactions.setdefault((topic, partition), Aborted())
        try:
            aborted.learn(held.get("abortedTransactions"))
        except UnknownShape as exc:
            read.strange.append(f"FetchResponse: {exc}")
            continue
        for lot in _sets(read, held, "FetchResponse"):
            lot.topic, lot.partition = topic, partition
            try:
                lot.base = number(one_of(lot.set, BASE_OFFSET))
                is_aborted = aborted.covers(lot.set, lot.rows, lot.base)
            except UnknownShape as exc:
                read.strange.append(f"FetchResponse: {exc}")
                continue
            if is_aborted:
                read.aborted += len(lot.rows)
            else:
                read.lots.append(lot)


def _of_produce(read: PairRecords, request: Any, response: Any) -> None:
    if request is None:
        return
    answers = _answers(read, response)
    for topic, partition, held in _partitions(read, request, "ProduceRequest"):
        answer = answers.get((topic, partition), _UNANSWERED)
        for lot in _sets(read, held, "ProduceRequest"):
            if answer.is_error:
                read.refused += 1
                continue
            lot.topic, lot.partition, lot.is_produce = topic, partition, True
            lot.base, lot.append_ms = answer.base, answer.append_ms
            if answer.base is not None:
                # A partition may be listed once per batch.
                answer.base += max(len(lot.rows), _length(lot.set))
            read.lots.append(lot)


def _length(set_: Mapping[str, Any]) -> int:
    try:
        return number(set_.get("lastOffsetDelta")) + 1
    except UnknownShape:
        return 0


@dataclass(slots=True)
class _Answer:
    is_error: bool
    base: int | None
    append_ms: int


_UNANSWERED: Final = _Answer(False, None, -1)


def _answers(read: PairRecords, response: Any) -> dict[tuple[str, int], _Answer]:
    found: dict[tuple[str, int], _Answer] = {}
    if response is None:
        return found
    for topic, partition, held in _partitions(read, response, "ProduceResponse"):
        if not isinstance(held, dict):
            continue
        try:
            code = one_of(held, ("errorCode", "error"))
            base = number(held.get("baseOffset"))
            # -1 means no time in old brokers and formats; an absent field means 0, which is not a time either.
            append_ms = max(-1, number(one_of(held, ("logAppendTimeMs", "logAppendTime"))) or -1)
        except UnknownShape as exc:
            read.strange.append(f"ProduceResponse: {exc}")
            continue
        is_error = code not in (None, 0, "0", "", "NONE", "NO_ERROR", "ERROR_NONE")
        found[topic, partition] = _Answer(is_error, base if base >= 0 else None, append_ms)
    return found


def _partitions(read: PairRecords, body: Any, where: str) -> Iterator[tuple[str, int, Any]]:
    """Yield topic, partition and its object; entries of another shape are counted and left out."""
    if not isinstance(body, dict):
        raise UnknownShape(f"{where} is not an object")
    topics = one_of(body, TOPICS)
    if topics is None:
        _refuse_others(body, _BESIDE_TOPICS, where)
        return
    if not isinstance(topics, list):
        raise UnknownShape(f"{where}: topics are not a list")
    for topic in topics:
        try:
            name = topic_of(topic)
            partitions = one_of(topic, PARTITIONS)
            if partitions is None:
                _refuse_others(topic, set(), f"{where}, a topic")
                continue
            if not isinstance(partitions, list):
                raise UnknownShape(f"{where}: partitions are not a list")
        except UnknownShape as exc:
            read.strange.append(str(exc))
            continue
        for held in partitions:
            try:
                yield name, _partition_of(held, where), held
            except UnknownShape as exc:
                read.strange.append(str(exc))


def _partition_of(held: Any, where: str) -> int:
    if not isinstance(held, dict):
        raise UnknownShape(f"{where}: a partition is not an object")
    found = number(one_of(held, PARTITION))
    if not 0 <= found <= _LARGEST_PARTITION:
        raise UnknownShape(f"{where}: partition {found} is not valid")
    return found


def topic_of(topic: Any) -> str:
    """Return the topic's name, or `id:` and its id if there is no name."""
    if not isinstance(topic, dict):
        raise UnknownShape("a topic is not an object")
    name = one_of(topic, TOPIC)
    if isinstance(name, str) and name:
        if not _TOPIC_NAME.fullmatch(name):
            raise UnknownShape(f"the topic name {name[:40]!r} is not valid")
        return name
    id_ = topic_id_of(topic)
    if id_ is None:
        raise UnknownShape("a topic has neither a name nor an id")
    return ID_MARK + id_


def topic_id_of(topic: Mapping[str, Any]) -> str | None:
    """Return the canonical topic id, from base64 of 16 bytes or from a UUID; None if there is none."""
    found = one_of(topic, ("topicId", "topic_id"))
    if not isinstance(found, str) or not found:
        return None
    try:
        id_ = str(UUID(canonical_uuid(found)))
    except ValueError:
        id_ = _from_url_safe(found)
    return id_ if UUID(id_).int else None


def _from_url_safe(found: str) -> str:
    """Decode Kafka's form of ids: URL-safe base64 without padding."""
    try:
        return str(UUID(bytes=base64.urlsafe_b64decode(found + "==")))
    except (NotBase64, ValueError):
        raise UnknownShape(f"the topic id {found[:40]!r} is not valid") from None


def _sets(read: PairRecords, held: Mapping[str, Any], where: str) -> Iterator[RecordSet]:
    found = one_of(held, RECORDS)
    if found is None or found == {} or found == [] or found == "":
        if found is None:
            try:
                _refuse_others(held, _BESIDE_RECORDS, f"{where}, a partition")
            except UnknownShape as exc:
                read.strange.append(str(exc))
        located = isinstance(found, dict) and "records" in held
        read.located += located
        return
    at = -1
    if isinstance(found, dict) and "records" in held:
        at = read.located
        read.located += 1
    try:
        yield from _sets_in(found, at)
    except UnknownShape as exc:
        read.strange.append(f"{where}: {exc}")


def _sets_in(found: Any, at: int) -> Iterator[RecordSet]:
    if isinstance(found, dict):
        yield from _set(found, at)
    elif isinstance(found, list):
        if not all(isinstance(each, dict) for each in found):
            raise UnknownShape("the records are not objects")
        with_rows = [isinstance(one_of(each, ROWS), list) for each in found]
        if any(with_rows):
            for each in found:
                yield from _set(each, -1)
        else:
            yield RecordSet("", 0, {}, found, False, None)
    else:
        raise UnknownShape(f"the records are {type(found).__name__} and not decoded")


def _set(found: Mapping[str, Any], at: int) -> Iterator[RecordSet]:
    rows = one_of(found, ROWS)
    if isinstance(rows, list):
        yield RecordSet("", 0, found, rows, False, None, located=at)
        return
    sets = one_of(found, _SETS)
    if isinstance(sets, list) and all(isinstance(each, dict) for each in sets):
        for each in sets:
            yield from _set(each, -1)
        return
    if rows is not None or sets is not None:
        raise UnknownShape("the records of a batch are not a list")
    # Compaction leaves batches without records, and empty lists are left out in captured traffic.
    _refuse_others(found, _OF_A_SET, "a batch without records")


def _refuse_others(found: Mapping[str, Any], known: set[str], where: str) -> None:
    for name, value in found.items():
        is_text = isinstance(value, str) and not is_number(value) and len(value) > 64
        if (is_text or (isinstance(value, dict | list) and value)) and name not in known:
            raise UnknownShape(f"{where} has an unknown field {name[:40]!r}")
