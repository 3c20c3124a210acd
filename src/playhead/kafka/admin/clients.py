"""The one place where Kafka clients are made; the simulation replaces its functions.

Time needs no such place: code that waits calls `time.sleep`, `time.monotonic` and so on as attributes of
the module `time`, and `Thread`, `Event`, `Lock` as names of its own module. The simulation replaces
these names.
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
    """Return a consumer with librdkafka's settings."""
    return _made(make_consumer, settings)


def producer(settings: dict[str, Any], **more: Any) -> Any:
    """Return a producer with librdkafka's settings; other arguments such as `logger` go to the client."""
    return _made(make_producer, settings, **more)


def admin(settings: dict[str, Any]) -> Any:
    """Return an admin client with librdkafka's settings."""
    return _made(make_admin, settings)


def _made(make: Callable[..., Any], settings: Mapping[str, Any], **more: Any) -> Any:
    said = (str(settings.get(key, "")) for key in ("security.protocol", "bootstrap.servers"))
    exposed_logins.of_kafka(*said)
    exposed_logins.of_http(
        "the client's secret for the token endpoint",
        str(settings.get("sasl.oauthbearer.token.endpoint.url", "")),
    )
    try:
        return make(settings, **more)
    except KafkaException as exc:
        raise refused(exc.args[0], "making a Kafka client") from exc
