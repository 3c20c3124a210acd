"""The one place where Kafka clients are made; a simulation of the cluster puts its own makers here.

Time has no such place: code that waits calls `time.sleep`, `time.monotonic` and their like as
attributes of the module `time`, and `Thread`, `Event`, `Lock` as names of its own module, and the
simulation replaces these names.
"""

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from playhead.config import exposed_logins
from playhead.kafka.admin.errors import refused

make_consumer: Callable[..., Any] = Consumer
make_producer: Callable[..., Any] = Producer
make_admin: Callable[..., Any] = AdminClient


def consumer(settings: dict[str, Any]) -> Any:
    """A consumer, with librdkafka's settings."""
    return _made(make_consumer, settings)


def producer(settings: dict[str, Any], **more: Any) -> Any:
    """A producer, with librdkafka's settings; `logger` and such go to the client."""
    return _made(make_producer, settings, **more)


def admin(settings: dict[str, Any]) -> Any:
    """An admin client, with librdkafka's settings."""
    return _made(make_admin, settings)


def _made(make: Callable[..., Any], settings: Mapping[str, Any], **more: Any) -> Any:
    said = (str(settings.get(key, "")) for key in ("security.protocol", "bootstrap.servers"))
    exposed_logins.of_kafka(*said)
    try:
        return make(settings, **more)
    except KafkaException as exc:
        raise refused(exc.args[0], "making a Kafka client") from exc
