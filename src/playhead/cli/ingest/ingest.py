"""`playhead ingest`: writes datagrams to a topic, in one small process without an engine."""

import time
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple

from playhead.cli.confirm import answer
from playhead.cli.options import Run, command
from playhead.cli.signals import first_signal
from playhead.config.context import connection_of, guards_of
from playhead.config.guards import Guard
from playhead.endpoint import Endpoint
from playhead.errors import UsageError
from playhead.grammar.size import show_size
from playhead.options.shared import CONNECTION
from playhead.options.traffic import INGEST, LISTENING, RECORDS, SENDING, TELLING

if TYPE_CHECKING:
    from playhead.ingest.loop import Ingest
    from playhead.ingest.record_shape import RecordShape
    from playhead.ingest.udp_socket import Listener
    from playhead.kafka.produce.nonblocking_sender import NonBlockingSender

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from playhead.endpoint import BadEndpoint, check_topic
from playhead.errors import BadValue
from playhead.ingest.record_shape import RecordShape

if TYPE_CHECKING:
    from playhead.ingest.loop import Rule
    from playhead.kafka.produce.sender import Acks

_LOOK_EVERY_S = 0.2
# Dead letters are few, but the largest must fit.
_LETTERS_SHARE = 4

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


@command(INGEST, RECORDS, SENDING, LISTENING, TELLING, CONNECTION)
def ingest(run: Run, address: str, target: str, dry_run: bool) -> None:
    """Receive UDP datagrams and write each as a record into a topic, until Ctrl-C.

    Every datagram is counted: delivered, refused, dropped, failed, or dropped by the kernel. Exit
    code 1 if a datagram that reached the port is in no topic.
    """
    from playhead.host.networks import Networks, need_allowed
    from playhead.ingest.loop import Ingest
    from playhead.ingest.udp_address import Address, need_loopback
    from playhead.ingest.udp_socket import Listener

    asked, endpoint = understood(run), topic_of(target)
    if asked.dead_letters == endpoint.name:
        raise UsageError(f"{endpoint.name} cannot be its own dead-letter topic")
    listen = Address.parse(address)
    networks = Networks.parse(run.values["allow"] or ())
    need_allowed(networks, anywhere=run.values["anywhere"])
    need_loopback(listen, anywhere=run.values["anywhere"])
    guard = Guard(guards_of([endpoint], run.configuration()), answer(yes=True))
    if not dry_run:
        # The command itself is the consent to write; only read-only and production can refuse it.
        guard.agree(f"writing datagrams from {listen} to {endpoint.name}", endpoint.name)
    # Before the broker is asked anything: datagrams are buffered from now on.
    with Listener(
        listen,
        buffer_bytes=asked.buffer_bytes,
        most_bytes=asked.datagram_bytes,
        with_peers=run.values["with_peers"],
        only=None if listen.is_loopback else networks,
    ) as listener:
        _say_what_will_be(run, asked, listener, endpoint)
        outlets = _outlets(run, asked, endpoint, dry_run=dry_run)
        if outlets is None:
            row = {"listen": str(listener.address), "topic": endpoint.name, "dry_run": True}
            run.output.emit(row, [row])
        else:
            ingest = Ingest(
                listener,
                outlets.shape,
                outlets.main,
                guard,
                on_bad=asked.rule,
                dead_letters=outlets.dead_letters,
                by_lines=run.values["by_lines"],
                flush_s=asked.flush_s,
            )
            _carry(run, asked, ingest)


def _say_what_will_be(run: Run, asked: Asked, listener: "Listener", endpoint: Endpoint) -> None:
    from playhead.kafka.produce.sender import ACKS

    say = run.output.say
    given = listener.buffer_bytes
    say(f"listening at {listener.address}, for {endpoint.shown()}: {asked.shape}")
    room = f"receive buffer {show_size(given)}"
    if given < asked.buffer_bytes:
        wanted = asked.buffer_bytes
        room += f", not {show_size(wanted)}: sysctl -w net.core.rmem_max={wanted} allows more"
    say(f"{room}; memory for waiting records {show_size(asked.memory_bytes)}")
    say(f"acks {asked.acks}: {ACKS[asked.acks]}")


class _Outlets(NamedTuple):
    """Where records and dead letters go, and which records the topic takes."""

    shape: "RecordShape"
    main: "NonBlockingSender"
    dead_letters: "NonBlockingSender | None" = None


def _outlets(run: Run, asked: Asked, endpoint: Endpoint, *, dry_run: bool) -> _Outlets | None:
    """Return the senders for records and for dead letters; None if nothing is to be sent."""
    from playhead.kafka.admin.client import Admin
    from playhead.kafka.admin.errors import Need, needing
    from playhead.kafka.admin.offsets import describe
    from playhead.kafka.produce.nonblocking_sender import NonBlockingSender, QueueLimits
    from playhead.kafka.write.dead_letters import create_topic
    from playhead.kafka.write.target_topics import look_up

    connection = connection_of(endpoint, run.configuration())
    with Admin(connection) as admin, needing(Need("Describe", "topic", endpoint.name)):
        describe(admin, [endpoint.name])
        found = look_up(admin, [endpoint.name])[endpoint.name]
        if found.sets_log_append_time:
            run.output.say(
                f"topic {endpoint.name} sets each record's time itself (LogAppendTime); --timestamp has no effect"
            )
        if dry_run:
            return None
        if asked.dead_letters is not None:
            create_topic(admin, asked.dead_letters)
    shape = asked.shape
    if not found.sets_log_append_time:
        before_ms, after_ms = map(found.limit_ms, ("before", "after"))
        shape = replace(shape, before_ms=before_ms, after_ms=after_ms)
    has_headers = bool(run.values["with_peers"])
    part = asked.memory_bytes // _LETTERS_SHARE if asked.dead_letters is not None else 0
    more = {"acks": asked.acks, "compression": asked.compression}
    main = NonBlockingSender(
        connection,
        endpoint.name,
        QueueLimits(asked.memory_bytes - part, has_headers),
        set_bytes=found.set_bytes,
        **more,  # type: ignore[arg-type]
    )
    if asked.dead_letters is None:
        return _Outlets(shape, main)
    letters = NonBlockingSender(connection, asked.dead_letters, QueueLimits(part, True))
    return _Outlets(shape, main, letters)


def _carry(run: Run, asked: Asked, ingest: "Ingest") -> None:
    began = time.monotonic()
    with first_signal(lambda _: ingest.stop()):
        try:
            # Print nothing here: a blocked terminal must not stop the receiver.
            receiving = Thread(target=ingest.run, name="ingest", daemon=True)
            run.output.say_while_heard("receiving; Ctrl-C ends the command")
            receiving.start()
            _watch(run, asked, ingest)
        finally:
            _report(run, ingest, time.monotonic() - began)
    _need_all(ingest)


def _watch(run: Run, asked: Asked, ingest: "Ingest") -> None:
    from playhead.ingest.status_lines import StatusFigures, StatusLines

    is_json = run.output.progress_form == "json"
    teller = (
        StatusFigures(asked.every_s)
        if is_json
        else StatusLines(asked.every_s, asked.memory_bytes, ingest.listener.buffer_bytes)
    )
    ends_s = None if asked.for_s is None else time.monotonic() + asked.for_s
    was_stopping = False
    while not ingest.ended.wait(_LOOK_EVERY_S):
        counts, now_s = ingest.counts(), time.monotonic()
        if ingest.is_stopping and not was_stopping:
            was_stopping = True
            left = f"{counts.waiting:,} records are not confirmed yet; waiting at most {asked.flush_s:g} s"
            run.output.say_while_heard(f"ending: {left}; Ctrl-C ends immediately")
        lines = teller.lines(counts, now_s, ingest.heard())
        if run.output.progress_form != "none":
            for line in lines:
                run.output.say_while_heard(line)
        if ends_s is not None and now_s >= ends_s:
            ingest.stop()


def _report(run: Run, ingest: "Ingest", took_s: float) -> None:
    """Print the final figures, whatever ended the run."""
    counts = ingest.counts()
    run.output.say_while_heard(counts.shown())
    row = {
        "listen": str(ingest.listener.address),
        "topic": ingest.outlet.topic,
        "seconds": round(took_s, 3),
        "receive_buffer_bytes": ingest.listener.buffer_bytes,
        **counts.as_document(),
    }
    plain = {name: value for name, value in row.items() if name != "refusals"}
    refused = ingest.first_refusal
    why = {"failures": ingest.failures(), "first_refusal": refused and str(refused)}
    run.output.emit(row | why, [plain])


def _need_all(ingest: "Ingest") -> None:
    from playhead.ingest.status_lines import NotAllArrived

    if ingest.error is not None:
        raise ingest.error
    counts = ingest.counts()
    if counts.lost:
        raise NotAllArrived(counts, reasons=ingest.failures())
