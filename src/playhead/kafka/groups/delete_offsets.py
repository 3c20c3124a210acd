"""Deletes committed offsets through librdkafka itself, whose Python client has no call for that.

The library is the one that the client has loaded, with the connection's own properties, so that TLS and
SASL are as everywhere.
"""

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from functools import lru_cache
from typing import Any

from confluent_kafka import KafkaError, KafkaException, cimpl

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import MissingPiece
from playhead.source import Place

_PRODUCER = 0
_OK = 0
_ANY_OP = 0
_ERROR_TEXT = 512
_ANSWER_LATER_S = 1.0


class _Partition(ctypes.Structure):
    _fields_ = (
        ("topic", c_char_p),
        ("partition", c_int32),
        ("offset", c_int64),
        ("metadata", c_void_p),
        ("metadata_size", c_size_t),
        ("opaque", c_void_p),
        ("error", c_int),
        ("private", c_void_p),
    )


class _Partitions(ctypes.Structure):
    _fields_ = (("count", c_int), ("size", c_int), ("elements", POINTER(_Partition)))


_P, _LIST, _COUNT = c_void_p, POINTER(_Partitions), POINTER(c_size_t)
_FUNCTIONS: Mapping[str, tuple[Any, tuple[Any, ...]]] = {
    "conf_new": (_P, ()),
    "conf_destroy": (None, (_P,)),
    "conf_set": (c_int, (_P, c_char_p, c_char_p, c_char_p, c_size_t)),
    "new": (_P, (c_int, _P, c_char_p, c_size_t)),
    "destroy": (None, (_P,)),
    "queue_new": (_P, (_P,)),
    "queue_destroy": (None, (_P,)),
    "queue_poll": (_P, (_P, c_int)),
    "event_destroy": (None, (_P,)),
    "event_error": (c_int, (_P,)),
    "event_error_string": (c_char_p, (_P,)),
    "event_DeleteConsumerGroupOffsets_result": (_P, (_P,)),
    "AdminOptions_new": (_P, (_P, c_int)),
    "AdminOptions_destroy": (None, (_P,)),
    "AdminOptions_set_request_timeout": (c_int, (_P, c_int, c_char_p, c_size_t)),
    "topic_partition_list_new": (_LIST, (c_int,)),
    "topic_partition_list_destroy": (None, (_LIST,)),
    "topic_partition_list_add": (POINTER(_Partition), (_LIST, c_char_p, c_int32)),
    "DeleteConsumerGroupOffsets_new": (_P, (c_char_p, _LIST)),
    "DeleteConsumerGroupOffsets_destroy": (None, (_P,)),
    "DeleteConsumerGroupOffsets": (None, (_P, POINTER(_P), c_size_t, _P, _P)),
    "DeleteConsumerGroupOffsets_result_groups": (POINTER(_P), (_P, _COUNT)),
    "group_result_error": (_P, (_P,)),
    "group_result_partitions": (_LIST, (_P,)),
    "error_code": (c_int, (_P,)),
    "error_string": (c_char_p, (_P,)),
}


def forget(
    connection: KafkaConnection, group: str, places: Sequence[Place], *, timeout_s: float
) -> dict[Place, KafkaError]:
    """Delete what the group has committed for these; errors of single partitions are returned."""
    with _client(connection) as client, _queue(client) as queue, _asked(group, places) as asked:
        options = _library().AdminOptions_new(client, _ANY_OP)
        said = ctypes.create_string_buffer(_ERROR_TEXT)
        timeout_ms = round(timeout_s * 1000)
        _library().AdminOptions_set_request_timeout(options, timeout_ms, said, _ERROR_TEXT)
        one = (_P * 1)(asked)
        _library().DeleteConsumerGroupOffsets(client, one, 1, options, queue)
        _library().AdminOptions_destroy(options)
        answer = _library().queue_poll(queue, timeout_ms + round(_ANSWER_LATER_S * 1000))
        if not answer:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        try:
            return _refused(answer)
        finally:
            _library().event_destroy(answer)


def _refused(answer: int) -> dict[Place, KafkaError]:
    library = _library()
    if code := library.event_error(answer):
        raise KafkaException(KafkaError(code, _text(library.event_error_string(answer))))
    count = c_size_t()
    result = library.event_DeleteConsumerGroupOffsets_result(answer)
    groups = library.DeleteConsumerGroupOffsets_result_groups(result, byref(count))
    if error := library.group_result_error(groups[0]):
        text = _text(library.error_string(error))
        raise KafkaException(KafkaError(library.error_code(error), text))
    told = library.group_result_partitions(groups[0])
    if not told:
        return {}
    rows = told.contents.elements[: told.contents.count]
    return {(row.topic.decode(), row.partition): KafkaError(row.error) for row in rows if row.error}


def _text(said: bytes | None) -> str:
    return (said or b"").decode("utf-8", "replace")


class _Library:
    """librdkafka's functions without the prefix that they all have."""

    def __init__(self) -> None:
        library = ctypes.CDLL(cimpl.__file__)
        for name, (result, arguments) in _FUNCTIONS.items():
            try:
                function = getattr(library, f"rd_kafka_{name}")
            except AttributeError as exc:
                raise MissingPiece(
                    "librdkafka as a library of its own",
                    needed_for="deleting committed offsets",
                    hint="install confluent-kafka's own wheel: pip install --force-reinstall confluent-kafka",
                ) from exc
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)


@lru_cache(maxsize=1)
def _library() -> Any:
    return _Library()


@contextmanager
def _client(connection: KafkaConnection) -> Iterator[int]:
    said = ctypes.create_string_buffer(_ERROR_TEXT)
    settings = connection.for_librdkafka("client") | {"client.id": "playhead", "log_level": 0}
    conf = _library().conf_new()
    for name, value in settings.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if _library().conf_set(conf, name.encode(), text.encode(), said, _ERROR_TEXT) != _OK:
            _library().conf_destroy(conf)
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, _text(said.value)))
    client = _library().new(_PRODUCER, conf, said, _ERROR_TEXT)
    if not client:
        _library().conf_destroy(conf)
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, _text(said.value)))
    try:
        yield client
    finally:
        _library().destroy(client)


@contextmanager
def _queue(client: int) -> Iterator[int]:
    queue = _library().queue_new(client)
    try:
        yield queue
    finally:
        _library().queue_destroy(queue)


@contextmanager
def _asked(group: str, places: Sequence[Place]) -> Iterator[int]:
    partitions = _library().topic_partition_list_new(len(places))
    for topic, number in places:
        _library().topic_partition_list_add(partitions, topic.encode(), number)
    asked = _library().DeleteConsumerGroupOffsets_new(group.encode(), partitions)
    _library().topic_partition_list_destroy(partitions)
    try:
        yield asked
    finally:
        _library().DeleteConsumerGroupOffsets_destroy(asked)
