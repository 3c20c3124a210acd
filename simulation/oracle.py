"""What must come out of a replay, said as plainly as can be; it shares no code with the product.

Everything is a function of the log and the request: no slices, no order of commits, no ledgers.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from simulation.cases import LARGEST, Case
from simulation.kafka_cluster import Stored

Row = tuple[Any, ...]


@dataclass(slots=True)
class Outcome:
    """What the target must hold, and what the proof must count."""

    by_partition: dict[int, list[Stored]] = field(default_factory=dict)
    """Records that must be in the topic, in the order of each source partition."""
    rows: list[Row] = field(default_factory=list)
    letters: list[tuple[int, int]] = field(default_factory=list)
    """Partition and offset of each dead letter."""
    refused: int = 0
    outside: int = 0
    """Visible records of the planned offsets that are not of the span."""
    fails: bool = False
    """Whether the replay must not succeed, because a record cannot be written and the rule is to stop."""


def outcome(case: Case, logs: Sequence[Sequence[Stored]]) -> Outcome:
    """From the visible records of each partition, all of which could be read when the plan was made."""
    found = Outcome()
    events: list[tuple[int, Stored]] = []
    for number, log in enumerate(logs):
        inside = [each for each in log if _is_inside(case, each.timestamp_ms)]
        found.by_partition[number] = inside
        events += [(number, each) for each in inside]
    if case.is_table:
        _into_table(case, events, found)
    return found


def _is_inside(case: Case, timestamp_ms: int) -> bool:
    start, end = case.span_ms
    return (start is None or timestamp_ms >= start) and (end is None or timestamp_ms < end)


def _into_table(case: Case, events: Sequence[tuple[int, Stored]], found: Outcome) -> None:
    kept: dict[Any, Row] = {}
    latest: dict[Any, tuple[int, int, int]] = {}
    for number, record in events:
        if record.value is None:
            _bury(case, number, record, kept, latest, found)
            continue
        document = None if len(record.value) > LARGEST else _document(record.value)
        if document is None or document["id"] in case.orphans:
            _refuse(case, number, record, found)
            continue
        key = document["id"] if case.rule else (number, record.offset)
        row = (document["id"], document["v"], record.timestamp_ms, number, record.offset)
        when = (record.timestamp_ms, number, record.offset)
        if case.rule == "newer":
            if key not in latest or latest[key] <= when:
                kept[key], latest[key] = row, when
        elif case.rule == "error" and key in kept:
            _refuse(case, number, record, found)
        elif case.rule != "ignore" or key not in kept:
            kept[key] = row
    found.rows = sorted(kept.values(), key=lambda row: (row[3], row[4]))


def _bury(
    case: Case,
    number: int,
    record: Stored,
    kept: dict[Any, Row],
    latest: dict[Any, tuple[int, int, int]],
    found: Outcome,
) -> None:
    """A tombstone."""
    if case.tombstones is None:
        _refuse(case, number, record, found)
    elif case.tombstones == "delete":
        key = int(record.key or b"")
        when = (record.timestamp_ms, number, record.offset)
        if case.rule != "newer" or key not in latest or latest[key] <= when:
            kept.pop(key, None)
            latest[key] = when


def _refuse(case: Case, number: int, record: Stored, found: Outcome) -> None:
    found.refused += 1
    found.fails = found.fails or case.on_error == "fail"
    if case.on_error.startswith("dlq:"):
        found.letters.append((number, record.offset))


def _document(value: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(value)
    except ValueError:
        return None
    is_good = isinstance(document, dict) and isinstance(document.get("id"), int)
    return document if is_good else None
