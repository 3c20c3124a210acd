"""What `playhead ingest` can be told, and what it then means."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from playhead.cli.options import Run
from playhead.endpoint import BadEndpoint, Endpoint, check_topic
from playhead.errors import BadValue
from playhead.grammar.duration import parse_duration_ms
from playhead.grammar.size import parse_size_bytes
from playhead.ingest.record_shape import Shape

if TYPE_CHECKING:
    from playhead.ingest.loop import Rule
    from playhead.kafka.produce.sender import Acks

_LEAST_MEMORY_BYTES = 1 << 20
_LARGEST_DATAGRAM_BYTES = 65_535
_OFTEN_ENOUGH_S = 0.2


@dataclass(frozen=True, slots=True)
class Asked:
    """The options, understood."""

    shape: Shape
    rule: "Rule"
    graveyard: str | None
    acks: "Acks"
    compression: str
    memory_bytes: int
    buffer_bytes: int
    datagram_bytes: int
    flush_s: float
    every_s: float
    for_s: float | None


def understood(run: Run) -> Asked:
    """What the options say, or an error about the first that says nothing."""
    values = run.values
    rule, colon, graveyard = values["on_bad"].partition(":")
    if rule not in ("skip", "fail", "dlq") or (rule == "dlq") != bool(graveyard or colon):
        raise BadValue("--on-bad", found=values["on_bad"], needed="skip, fail or dlq:TOPIC")
    if graveyard:
        check_topic(graveyard)
    return Asked(
        Shape.parse(
            values["key"], values["timestamp"], run.configuration().get("timezone") or "UTC"
        ),
        cast("Rule", rule),
        graveyard or None,
        cast("Acks", values["acks"]),
        values["compression"],
        _size("--max-memory", values["max_memory"], least=_LEAST_MEMORY_BYTES),
        _size("--receive-buffer", values["receive_buffer"], least=1),
        _size("--max-datagram", values["max_datagram"], least=1, most=_LARGEST_DATAGRAM_BYTES),
        _seconds("--flush", values["flush"]),
        max(_seconds("--stats-every", values["stats_every"]), _OFTEN_ENOUGH_S),
        None if values["for_"] is None else _seconds("--for", values["for_"]),
    )


def topic_of(text: str) -> Endpoint:
    """The one topic that a target names."""
    endpoint = Endpoint.parse(text)
    if endpoint.system != "kafka":
        raise BadEndpoint(text, reason="datagrams go to a topic", hint="written kafka:TOPIC")
    if not endpoint.name or endpoint.is_pattern or set(endpoint.name) & set(",{}"):
        raise BadEndpoint(text, reason="it has to name one topic", hint="written kafka:TOPIC")
    return endpoint


def _size(flag: str, text: str, *, least: int, most: int | None = None) -> int:
    found = parse_size_bytes(text, where=flag)
    if found < least or (most is not None and found > most):
        bounds = f"{least:,} bytes or more" if most is None else f"{least:,} to {most:,} bytes"
        raise BadValue(flag, found=text, needed=bounds)
    return found


def _seconds(flag: str, text: str) -> float:
    return parse_duration_ms(text, where=flag) / 1000
