"""`playhead produce`: lines, or JSON Lines of whole records, into a topic."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from playhead.cli.confirm import answer
from playhead.cli.options import Run, command, end
from playhead.cli.output import tell
from playhead.cli.records.record_lines import Reading, reading
from playhead.config.guards import Guard
from playhead.errors import EXIT_FAILED, PlayheadError, UsageError
from playhead.options.lines import DELIVERY, LINES, PRODUCE
from playhead.options.shared import CONNECTION

if TYPE_CHECKING:
    from playhead.kafka.produce.sender import Delivery, Sender


@command(PRODUCE, LINES, DELIVERY, CONNECTION)
def produce(run: Run, topic: str, file: Path | None, on_error: str, dry_run: bool) -> None:
    """Write lines from a file or stdin into a topic, and report which records failed.

    Each line is a value; --with names fields before it. JSON Lines are whole records, as from `consume
    -o jsonl`. Exit code 1 if a record failed.
    """
    lines = reading(run)
    configuration = run.configuration()
    delivery = _delivery(run)
    # The command itself is the consent to write; only read-only and production can refuse it.
    guard = Guard(configuration, answer(yes=True))
    if not dry_run:
        guard.agree(f"producing to {topic}", topic)
    connection = configuration.kafka()
    from playhead.kafka.admin.client import Admin
    from playhead.kafka.admin.errors import Need, needing
    from playhead.kafka.admin.offsets import describe
    from playhead.kafka.produce.sender import ACKS, Sender
    from playhead.kafka.write.target_topics import look_up

    with Admin(connection) as admin, needing(Need("Describe", "topic", topic)):
        describe(admin, [topic])
        found = look_up(admin, [topic])[topic]
    lines.partitions = found.partitions
    sender = None
    if not dry_run:
        run.output.say(f"acks {delivery.acks}: {ACKS[delivery.acks]}")
        sender = Sender(connection, topic, guard, delivery, found.set_bytes)
    began = time.monotonic()
    try:
        with _opened(run, file) as stream:
            _send(stream, lines, sender, skips=on_error == "skip")
    finally:
        for note in lines.notes():
            run.output.say(note)
        _tell(run, topic, lines, sender, time.monotonic() - began)
    if lines.bad or (sender and sender.failed):
        raise end(EXIT_FAILED)


def _send(stream: BinaryIO, lines: Reading, sender: "Sender | None", *, skips: bool) -> None:
    try:
        for number, line in enumerate(stream, 1):
            try:
                record = lines.record(line, number)
                if sender is not None:
                    sender.send(record)
            except PlayheadError as exc:
                if not skips or exc.exit_code != EXIT_FAILED or not _is_about_a_line(exc):
                    raise
                lines.skip(exc)
        if sender is not None:
            sender.finish()
    except BaseException:
        if sender is not None:
            sender.abandon()
        raise


def _is_about_a_line(exc: PlayheadError) -> bool:
    from playhead.kafka.produce.console_lines import BadLine
    from playhead.kafka.produce.sender import NotSendable

    return isinstance(exc, BadLine | NotSendable)


def _tell(run: Run, topic: str, lines: Reading, sender: "Sender | None", took_s: float) -> None:
    row = {
        "topic": topic,
        "lines": lines.read,
        "delivered": sender.delivered if sender else 0,
        "failed": sender.failed if sender else 0,
        "skipped": lines.bad,
        "transactions": sender.transactions if sender else 0,
        "seconds": round(took_s, 3),
    }
    run.output.emit(row | {"dry_run": sender is None}, [row])
    for number, reason in sender.failures if sender else ():
        tell(f"error: line {number} was not delivered: {reason}")
    for text in lines.complaints:
        tell(f"skipped: {text}")


@contextmanager
def _opened(run: Run, file: Path | None) -> Iterator[BinaryIO]:
    if file is None or str(file) == "-":
        if sys.stdin.isatty():
            run.output.say("each line becomes a record; end with Ctrl-D")
        yield sys.stdin.buffer
        return
    try:
        stream = file.open("rb")
    except OSError as exc:
        raise UsageError(f"cannot read {file}: {exc.strerror}") from exc
    with stream:
        yield stream


def _delivery(run: Run) -> "Delivery":
    import secrets

    from playhead.kafka.produce.sender import Delivery

    values = run.values
    acks = "all" if values["acks"] == "-1" else values["acks"]
    in_transactions = values["transaction"] or values["transaction_records"] is not None
    name = values["transactional_id"]
    if name is not None and not in_transactions:
        raise UsageError("--transactional-id without --transaction or --transaction-records")
    if values["transaction"] and values["transaction_records"] is not None:
        raise UsageError(
            "--transaction makes one transaction, --transaction-records many; use one of them"
        )
    if in_transactions and acks != "all":
        raise UsageError(f"a transaction needs acks all, not {acks}")
    return Delivery(
        acks,  # type: ignore[arg-type]
        values["compression"],
        (name or f"playhead-produce-{secrets.token_hex(4)}") if in_transactions else None,
        values["transaction_records"],
        values["delivery_timeout"],
    )
