"""The row of Kafka in the table of systems: how its endpoints are written, its source and its target."""

import re
from typing import ClassVar, cast

from playhead.config.context import Configuration, connection_of
from playhead.endpoint import BAD_PATTERN, BadEndpoint, Endpoint, check_pattern
from playhead.errors import UsageError
from playhead.request import ReplaySpec
from playhead.source import Source
from playhead.systems import MakesSource, MakesTarget, System
from playhead.target import Target

# The name of a topic, of several, or one with {topic}; None for a redrive, which needs no name.
_TOPICS = re.compile(r"[A-Za-z0-9._,-]*(\{topic\}[A-Za-z0-9._-]*)*")
_CONTEXT = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_SERVER = re.compile(r"[^\s@/]+:[0-9]{1,5}")
_EXAMPLE = "kafka:TOPIC, kafka:/REGEX/, kafka:CONTEXT/TOPIC or kafka://HOST:PORT/TOPIC"


class KafkaSystem(System, MakesSource, MakesTarget):
    """Topics of a cluster: the configured one, another context's, or one by its address."""

    kind = "topic"
    examples: ClassVar = {"kafka": _EXAMPLE}
    is_live_source = is_live_target = True

    def parse(self, text: str, scheme: str, rest: str) -> Endpoint:
        address = context = None
        if rest.startswith("//"):
            address, _, rest = rest[2:].partition("/")
            if not all(map(_SERVER.fullmatch, address.split(","))):
                raise BadEndpoint(text, reason="the address needs HOST:PORT", hint=_EXAMPLE)
        elif not rest.startswith("/") and "/" in rest:
            context, _, rest = rest.partition("/")
            if not _CONTEXT.fullmatch(context):
                reason = f"{context!r} is not a context name"
                raise BadEndpoint(text, reason=reason, hint=_EXAMPLE)
        if rest.startswith("/"):
            name = _pattern(text, rest)
            return Endpoint(scheme, name, address, is_pattern=True, context=context)
        if not _TOPICS.fullmatch(rest) or not all(rest.split(",")[1:]):
            raise BadEndpoint(text, reason=f"{rest!r} is not a topic name", hint=_EXAMPLE)
        return Endpoint(scheme, rest, address, context=context)

    def text(self, end: Endpoint) -> str:
        name = f"/{end.name}/" if end.is_pattern else end.name
        if end.context:
            return f"kafka:{end.context}/{name}"
        return f"kafka://{end.address}/{name}" if end.address else f"kafka:{name}"

    def is_same_server(self, one: Endpoint, other: Endpoint, configuration: Configuration) -> bool:
        """Return whether both endpoints' clusters have the same brokers."""
        if (one.context, one.address) == (other.context, other.address):
            return True
        servers = [connection_of(end, configuration).bootstrap_servers for end in (one, other)]
        return servers[0] == servers[1]

    def source(self, end: Endpoint, _spec: ReplaySpec, configuration: Configuration) -> Source:
        from playhead.kafka.read.source import KafkaSource

        if not end.name:
            raise BadEndpoint(str(end), reason="a source needs a topic")
        connection = connection_of(end, configuration)
        if end.is_pattern:
            return KafkaSource(connection, pattern=end.name)
        return KafkaSource(connection, topics=tuple(end.name.split(",")))

    def target(self, end: Endpoint, spec: ReplaySpec, configuration: Configuration) -> Target:
        from playhead.kafka.write.routing import PartitionRule
        from playhead.kafka.write.target import KafkaTarget

        rules = spec.topic
        if not end.name and not rules.redrive:
            raise UsageError(
                f"target {str(end)!r} names no topic",
                hint="name one, or add --redrive to return dead letters to where they came from",
            )
        from_ = spec.source
        return KafkaTarget(
            connection_of(end, configuration),
            end.name,
            headers=rules.headers,
            provenance=rules.provenance,
            redrive=rules.redrive,
            partition_rule=cast(PartitionRule, rules.partition),
            create=True,
            is_paced=not spec.pace.is_max,
            moves_group=from_.system == end.system
            and self.is_same_server(from_, end, configuration),
            topic_map=tuple(rules.topic_map.items()),
        )


def _pattern(text: str, rest: str) -> str:
    if len(rest) < 3 or not rest.endswith("/"):
        raise BadEndpoint(text, reason="write a pattern between two slashes")
    try:
        check_pattern(rest[1:-1])
    except BAD_PATTERN as exc:
        raise BadEndpoint(text, reason=f"invalid pattern: {exc}") from exc
    return rest[1:-1]


SYSTEM = KafkaSystem()
