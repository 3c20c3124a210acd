"""Notes of a plan about times and the log: expired, unstable, out of order, set by the broker."""

from collections.abc import Sequence

from playhead.errors import Refused
from playhead.grammar.instant import show_ms
from playhead.note import Note
from playhead.plan import PartitionPlan
from playhead.record import TimestampType
from playhead.records import Records
from playhead.source import SourceFacts, TopicPartition
from playhead.span import Resolved
from playhead.time_span import OPEN_TRANSACTION

EXPIRED = "expired"
_MOST_SAID = 4
_MAY_BE_OF_THE_SPAN = (
    "; records of the span may be among them: when the transaction has ended, playhead gaps finds "
    "those that the target lacks, and gaps --replay writes them"
)


class MixedTimes(Refused):
    """A span by time covers records whose times have different meanings."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"a span by time is ambiguous here: {what}",
            hint="use --offsets instead, or replay the topics one by one",
        )


def timestamps(facts: SourceFacts, samples: Sequence[Records], resolved: Resolved) -> list[Note]:
    """Return notes on who set the records' times, for a span by time.

    Records keep the time they were written with; a topic's present setting applies only to new ones.
    Topics without records to replay do not matter.
    """
    if resolved.from_ms is None and resolved.to_ms is None:
        return []
    log_append = TimestampType.LOG_APPEND_TIME.value
    kinds: dict[str, set[bool]] = {}
    for records in samples:
        found = {kind == log_append for kind in records.timestamp_types}
        kinds[records.topic] = kinds.get(records.topic, set()) | found
    for topic, found in sorted(kinds.items()):
        if len(found) > 1:
            raise MixedTimes(f"topic {topic} has both producers' and the broker's times")
    by_broker = sorted(topic for topic, found in kinds.items() if found == {True})
    if by_broker and len(by_broker) < len(kinds):
        others = sorted(set(kinds) - set(by_broker))
        raise MixedTimes(
            f"{', '.join(by_broker[:3])} have the broker's times, {', '.join(others[:3])} producers'"
        )
    if by_broker:
        text = "the span is by the time at which records reached the broker (LogAppendTime)"
        return [Note("log-append-time", f"{', '.join(by_broker[:3])}: {text}", "info")]
    changed = [
        t for t in sorted(kinds) if t in facts.topics and facts.topics[t].sets_log_append_time
    ]
    if changed:
        text = (
            "the broker now sets the times of new records (LogAppendTime); the records of "
            "the span have their own"
        )
        return [Note("timestamp-type", f"{', '.join(changed[:3])}: {text}", "info")]
    return []


def expired(
    partitions: Sequence[PartitionPlan], samples: Sequence[Records], resolved: Resolved
) -> list[Note]:
    """Return a note if the span begins before the start of the log."""
    if resolved.from_ms is None:
        return []
    first_ms: dict[TopicPartition, int] = {}
    for records in samples:
        first_ms.setdefault((records.topic, records.partition), records.timestamps_ms[0])
    gone = [
        each
        for each in partitions
        if each.from_offset == each.earliest > 0
        and first_ms.get(each.place, resolved.from_ms + 1) > resolved.from_ms
    ]
    if not gone:
        return []
    places = ", ".join(f"{each.topic}:{each.partition} from {each.earliest}" for each in gone[:4])
    more = f" and {len(gone) - 4} more" if len(gone) > 4 else ""
    text = (
        f"the span begins at {show_ms(resolved.from_ms)}, but older records of it may already "
        f"be deleted: the log begins at {places}{more}"
    )
    return [Note(EXPIRED, text)]


def unstable(partitions: Sequence[PartitionPlan], resolved: Resolved) -> list[Note]:
    """Return notes on partitions whose span ends where a transaction is still open."""
    is_by_time = resolved.from_ms is not None or resolved.to_ms is not None
    more = _MAY_BE_OF_THE_SPAN if is_by_time else ""
    return [
        Note(
            OPEN_TRANSACTION,
            f"{each.topic}:{each.partition} ends at {each.stable_end}: a transaction is still open "
            f"there, and the {each.high_watermark - each.stable_end} offsets after it are not replayed{more}",
        )
        for each in partitions
    ]


def future(found: Sequence[tuple[TopicPartition, int, int]]) -> list[Note]:
    """Return notes on records with future times, which a pace would otherwise wait for."""
    notes = []
    for (topic, partition), offset, time_ms in found[:_MOST_SAID]:
        text = (
            f"{topic}:{partition} offset {offset} has a time in the future, "
            f"{show_ms(time_ms)}: such records are played with those before them, without "
            "waiting"
        )
        notes.append(Note("future", text))
    return notes
