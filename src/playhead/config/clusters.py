"""Which cluster an endpoint is on: the configured one, another context's, or one by its address."""

from collections.abc import Iterable

from playhead.config.context import Configuration, alone
from playhead.config.kafka_connection import KafkaConnection
from playhead.endpoint import Endpoint


def connection_of(end: Endpoint, configuration: Configuration) -> KafkaConnection:
    """Return the connection, with a login only if it was configured for that cluster."""
    return _configured_for(end, configuration).kafka(end.address)


def guards_of(written: Iterable[Endpoint], configuration: Configuration) -> Configuration:
    """Return the configuration whose guards apply to these endpoints: the first one with a guard."""
    all_of_them = [configuration, *(_configured_for(end, configuration) for end in written)]
    for guard in ("read_only", "production"):
        for each in all_of_them:
            if each.is_on(guard):
                return each
    return configuration


def _configured_for(end: Endpoint, configuration: Configuration) -> Configuration:
    return configuration if end.context is None else alone(end.context, str(end))
