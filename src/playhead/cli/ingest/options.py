"""What `playhead ingest` can be told, and what it then means."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from playhead.cli.options import Parameters, Run
from playhead.endpoint import BadEndpoint, Endpoint, check_topic
from playhead.errors import BadValue
from playhead.grammar.duration import parse_duration_ms
from playhead.grammar.size import parse_size_bytes
from playhead.ingest.record_shape import Shape

if TYPE_CHECKING:
    from playhead.ingest.loop import Rule
    from playhead.kafka.produce.sender import Acks

_ACKS = ("0", "1", "all")
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_LEAST_MEMORY_BYTES = 1 << 20
_LARGEST_DATAGRAM_BYTES = 65_535
_OFTEN_ENOUGH_S = 0.2


def _text(flag: str, text: str, metavar: str) -> Any:
    return Annotated[str, typer.Option(flag, help=text, metavar=metavar)]


def _switch(flag: str, text: str) -> Any:
    return Annotated[bool, typer.Option(flag, help=text)]


RECORDS: Parameters = {
    "key": (
        Annotated[
            str | None,
            typer.Option(help="A JSON path, or bytes:0-4; no key.", metavar="PATH"),
        ],
        None,
    ),
    "timestamp": (_text("--timestamp", "A JSON path, or arrival.", "PATH"), "arrival"),
    "by_lines": (_switch("--lines", "Each line of a datagram is a record."), False),
    "with_peers": (_switch("--header-peer", "The sender's address as header `peer`."), False),
    "on_bad": (
        _text("--on-bad", "A record without key or time: skip, fail or dlq:TOPIC.", "RULE"),
        "skip",
    ),
}
SENDING: Parameters = {
    "acks": (_text("--acks", "Who must have a record: 0, 1 or all.", "ACKS"), "all"),
    "compression": (_text("--compression", f"{', '.join(_CODECS)}.", "CODEC"), "none"),
    "max_memory": (
        _text("--max-memory", "Of records that wait for the broker; then drop.", "SIZE"),
        "64MiB",
    ),
    "flush": (_text("--flush", "How long the end waits for the broker.", "DURATION"), "30s"),
}
LISTENING: Parameters = {
    "receive_buffer": (
        _text("--receive-buffer", "The kernel's, asked of it.", "SIZE"),
        "8MiB",
    ),
    "max_datagram": (
        _text("--max-datagram", "Longer ones are cut, and refused.", "SIZE"),
        "65535",
    ),
    "anywhere": (
        _switch("--listen-anywhere", "Allow an address that others can reach."),
        False,
    ),
    "allow": (
        Annotated[
            list[str] | None,
            typer.Option(
                "--allow", help="Who may send then: 10.1.0.0/16; repeatable.", metavar="NETWORK"
            ),
        ],
        None,
    ),
}
TELLING: Parameters = {
    "stats_every": (_text("--stats-every", "Figures on stderr.", "DURATION"), "5s"),
    "for_": (
        Annotated[
            str | None, typer.Option("--for", help="Stop after so long.", metavar="DURATION")
        ],
        None,
    ),
}


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
        raise _bad("--on-bad", values["on_bad"], "skip, fail or dlq:TOPIC")
    if graveyard:
        check_topic(graveyard)
    return Asked(
        Shape.parse(
            values["key"], values["timestamp"], run.configuration().get("timezone") or "UTC"
        ),
        cast("Rule", rule),
        graveyard or None,
        cast("Acks", _word("--acks", values["acks"], _ACKS)),
        _word("--compression", values["compression"], _CODECS),
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


def _word(flag: str, found: str, words: tuple[str, ...]) -> str:
    if found not in words:
        raise _bad(flag, found, ", ".join(words))
    return found


def _size(flag: str, text: str, *, least: int, most: int | None = None) -> int:
    found = parse_size_bytes(text, where=flag)
    if found < least or (most is not None and found > most):
        bounds = f"{least:,} bytes or more" if most is None else f"{least:,} to {most:,} bytes"
        raise _bad(flag, text, bounds)
    return found


def _seconds(flag: str, text: str) -> float:
    return parse_duration_ms(text, where=flag) / 1000


def _bad(flag: str, found: str, needed: str) -> BadValue:
    return BadValue(flag, found=found, needed=needed, where="the command line")
