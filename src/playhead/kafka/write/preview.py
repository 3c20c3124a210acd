"""Shows records for people, as they would be sent to a topic."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from playhead.grammar.instant import show_ms
from playhead.kafka.write.dead_letter_headers import origin_of
from playhead.kafka.write.headers import HeaderRules
from playhead.record import Record
from playhead.records import Records


def preview_rows(
    records: Records, rules: HeaderRules, topic_for: Callable[[str], str] | None
) -> Sequence[Mapping[str, Any]]:
    """Return one row for each record; without `topic_for` they are dead letters on their way back."""
    return [_row(record, rules, topic_for) for record in records]


def _row(
    record: Record, rules: HeaderRules, topic_for: Callable[[str], str] | None
) -> Mapping[str, Any]:
    origin = origin_of(record) if topic_for is None else None
    topic = topic_for(record.topic) if topic_for is not None else origin and origin.topic
    return {
        "topic": topic,
        "timestamp": None if record.timestamp_ms < 0 else show_ms(record.timestamp_ms),
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(value)] for name, value in rules.apply(record.headers)],
    }


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")
