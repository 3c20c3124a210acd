"""The options of `playhead ingest`, parsed."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from playhead.cli.options import Run
from playhead.endpoint import BadEndpoint, Endpoint, check_topic
from playhead.errors import BadValue
from playhead.ingest.record_shape import RecordShape

if TYPE_CHECKING:
    from playhead.ingest.loop import Rule
    from playhead.kafka.produce.sender import Acks

_OFTEN_ENOUGH_S = 0.2


@dataclass(frozen=True, slots=True)
class Asked:
    """The parsed options."""

    shape: RecordShape
    rule: "Rule"
    dead_letters: str | None
    acks: "Acks"
    compression: str
    memory_bytes: int
    buffer_bytes: int
    datagram_bytes: int
    flush_s: float
    every_s: float
    for_s: float | None


def understood(run: Run) -> Asked:
    """Parse the options; raise an error about the first invalid one."""
    values = run.values
    rule, colon, dead_letters = values["on_bad"].partition(":")
    if rule not in ("skip", "fail", "dlq") or (rule == "dlq") != bool(dead_letters or colon):
        raise BadValue("--on-bad", found=values["on_bad"], needed="skip, fail or dlq:TOPIC")
    if dead_letters:
        check_topic(dead_letters)
    return Asked(
        RecordShape.parse(
            values["key"], values["timestamp"], run.configuration().get("timezone") or "UTC"
        ),
        cast("Rule", rule),
        dead_letters or None,
        cast("Acks", values["acks"]),
        values["compression"],
        values["max_memory"],
        values["receive_buffer"],
        values["max_datagram"],
        values["flush"] / 1000,
        max(values["stats_every"] / 1000, _OFTEN_ENOUGH_S),
        None if values["for_"] is None else values["for_"] / 1000,
    )


def topic_of(text: str) -> Endpoint:
    """Return the one topic that a target names."""
    endpoint = Endpoint.parse(text)
    if endpoint.system != "kafka":
        raise BadEndpoint(text, reason="datagrams go to a topic", hint="write kafka:TOPIC")
    if not endpoint.name or endpoint.is_pattern or set(endpoint.name) & set(",{}"):
        raise BadEndpoint(text, reason="it must name one topic", hint="write kafka:TOPIC")
    return endpoint
