"""Records of which a part cannot be read, and the limits of what is read of one."""

from collections.abc import Sequence
from itertools import chain

from confluent_kafka import Message

from playhead.record import Headers
from playhead.records import Records
from playhead.source import UnreadableRecord

MOST_OF_A_RECORD = 256 << 20
"""Bytes of a record. Compressed, they can be a thousandth of it, so a broker's limit does not bound them."""
BYTES_OF_A_HEADER = 128
"""What a header takes beside its name and value, which may be empty."""


class UnreadableHeader(UnreadableRecord):
    """A record has a header whose name is not UTF-8, which Kafka's protocol requires."""

    def __init__(self, rest: Records) -> None:
        super().__init__(rest, "a header's name is not UTF-8, and none of its headers can be read")


class RecordTooLarge(UnreadableRecord):
    """A record is larger than those that are read; nothing of it is kept but its time."""

    def __init__(self, rest: Records, size: int) -> None:
        said = f"key, value and headers have {size:,} bytes unpacked"
        super().__init__(_emptied(rest), f"{said}, and at most {MOST_OF_A_RECORD:,} are read")


class PackedTooFar(UnreadableRecord):
    """A record is in a record batch that unpacks to more than is unpacked at once."""

    def __init__(self, rest: Records, most: int) -> None:
        super().__init__(_emptied(rest), f"its record batch unpacks to more than {most:,} bytes")


def headers_of(found: list[Message]) -> tuple[list[Headers], int, UnreadableRecord | None]:
    """Return the headers and the bytes of all, or of those before the first that cannot be read, and the reason."""
    held: list[list[tuple[str, bytes | None]] | None] = []
    failure: UnreadableRecord | None = None
    try:
        # One after the other, so that the first missing result is the failure; asking again would
        # return an empty list.
        held.extend(map(Message.headers, found))
    except (SystemError, UnicodeDecodeError):
        bad = found[len(held)]
        size = _bytes_of([bad], [()])
        failure = UnreadableHeader(_alone(bad))
        if size > MOST_OF_A_RECORD:
            failure = RecordTooLarge(_alone(bad), size)
    headers: list[Headers] = [tuple(each) if each else () for each in held]
    size = _bytes_of(found[: len(headers)], headers)
    if size > MOST_OF_A_RECORD:
        for index, (each, its) in enumerate(zip(found, headers, strict=False)):
            own = _bytes_of([each], [its])
            if own > MOST_OF_A_RECORD:
                failure = RecordTooLarge(_alone(each), own)
                del headers[index:]
                break
    return headers, size + BYTES_OF_A_HEADER * sum(map(len, headers)), failure


def add_columns(run: Records, found: list[Message]) -> None:
    """Append everything but the headers."""
    # The client's ids of timestamp types are Kafka's plus one.
    kinds, instants = zip(*map(Message.timestamp, found), strict=True) if found else ((), ())
    run.offsets += map(Message.offset, found)
    run.timestamp_types += [kind - 1 for kind in kinds]
    run.timestamps_ms += instants
    run.keys += map(Message.key, found)
    run.values += map(Message.value, found)


def _emptied(rest: Records) -> Records:
    times = rest.timestamps_ms, rest.timestamp_types
    return Records(rest.topic, rest.partition, rest.offsets, *times, [None], [None], [()])


def _alone(found: Message) -> Records:
    """Return the record without its headers."""
    run = Records(str(found.topic()), found.partition(), headers=[()])
    add_columns(run, [found])
    return run


def _bytes_of(found: Sequence[Message], headers: Sequence[Headers]) -> int:
    """Return the bytes of values, keys and headers; a character of a header's name counts as one."""
    keys = map(Message.key, found)
    parts = chain.from_iterable(chain.from_iterable(headers))
    held = chain(filter(None, keys), filter(None, parts))
    return sum(map(len, found)) + sum(map(len, held))
