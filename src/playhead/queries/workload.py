"""The content of a log, and the notes of a plan on it and on its target."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from playhead.note import Note, Weight
from playhead.plan import PartitionPlan
from playhead.queries.filters import REASONS
from playhead.queries.gate import Order
from playhead.queries.log import Log
from playhead.queries.tape import Tape
from playhead.querylog.counts import RowOutcome
from playhead.server import ServerFacts

_LEAST_TIMED: Final = 50
_NEVER_SHORTER_US: Final = 1_000
"""Among 50 statements, one is shorter: BEGIN, SET and COMMIT take some µs."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The content of a log, as read for a plan."""

    log: Log
    tape: Tape

    @property
    def skipped(self) -> Counter[str]:
        """Number of statements that are not played, by reason."""
        return self.tape.skipped


def notes_of(
    workload: Workload, order: Order, server: ServerFacts, beside: ServerFacts | None = None
) -> Iterator[Note]:
    """Yield notes on the parts of the log that cannot be played as on the source, and on the target."""
    counts, tape = workload.log.reader.counts, workload.tape
    for reason, count in sorted(workload.skipped.items()):
        weight: Weight = "info" if reason.startswith("filter") else "warn"
        yield Note(reason, f"{count:,} statements are not played: {REASONS[reason]}", weight)
    if counts.lost:
        yield Note("lost-rows", f"{counts.lost:,} rows of sessions are missing in the log")
    if workload.log.misplaced:
        text = f"{workload.log.misplaced:,} rows come after rows that were written later: "
        yield Note("misplaced-rows", f"{text}their order is unknown")
    if foreign := counts.rows[RowOutcome.ANOTHER_LANGUAGE]:
        text = f"{foreign:,} rows cannot be read: the server does not write English; "
        yield Note("language", f"{text}set lc_messages = 'C'")
    if others := counts.rows[RowOutcome.OTHER_SESSION]:
        text = f"{others:,} rows are of sessions with the ids of others, and are not played: "
        yield Note("two-servers", f"{text}play the log of one server at a time")
    if not tape.to_play:
        yield Note("nothing", "no statement of the log is played")
    for why, count in sorted(counts.not_rows.items()):
        yield Note("unread", f"{count:,} rows cannot be read: {why}")
    if counts.open_at_begin:
        text = f"{counts.open_at_begin:,} sessions were open before the log begins: "
        yield Note("open-before", f"{text}their settings, such as search_path, are unknown")
    if order == "commit" and tape.overlaps.plain:
        text = f"{tape.overlaps.plain:,} writes outside of transactions ran at the same time as others: "
        yield Note(
            "no-order",
            f"{text}if two of them change one row, the log does not show which came first",
        )
    if order == "commit" and tape.overlaps.mixed:
        text = f"{tape.overlaps.mixed:,} writes outside of transactions ran while a transaction wrote: "
        yield Note(
            "no-order-inside",
            f"{text}where both change one row, the log does not say which came first",
        )
    if order == "commit" and tape.uncertain_writes:
        text = f"{tape.uncertain_writes:,} writes outside of transactions have no end in the log: "
        yield Note("no-end", f"{text}set log_min_duration_statement = 0 to log the order")
    if tape.timed >= _LEAST_TIMED and tape.shortest_us >= _NEVER_SHORTER_US:
        text = f"no statement of the log took less than {tape.shortest_us / 1_000:g} ms: "
        yield Note(
            "threshold", f"{text}with log_min_duration_statement above 0, others are missing"
        )
    users = sorted(tape.users - {""})
    if {*users} - {server.user}:
        text = (
            f"all sessions log in as {server.user}; on the source they were {', '.join(users[:5])}"
        )
        yield Note("one-user", text, "info")
    yield from notes_of_server(server, "the target")
    if beside is not None:
        yield from notes_of_server(beside, "the server of --beside")
        if order != "strict":
            text = "with --order strict, both servers play one statement at a time and in one order; with"
            yield Note(
                "reads", f"{text} --order {order}, a read can see more on one of them", "info"
            )


def deleted_rows(partitions: Sequence[PartitionPlan]) -> Iterator[Note]:
    """Yield a note if a topic has lost earlier rows, on which the tables may depend."""
    gone = [each for each in partitions if each.from_offset == each.earliest > 0]
    if not gone:
        return
    places = ", ".join(f"{each.topic}:{each.partition} before {each.earliest}" for each in gone[:4])
    more = f" and {len(gone) - 4} more" if len(gone) > 4 else ""
    text = f"rows of the log were deleted from the topic and are not played: {places}{more}"
    yield Note("deleted-rows", text)


def notes_of_server(server: ServerFacts, name: str) -> Iterator[Note]:
    """Yield notes on what reaches beyond the database of a server, or comes from there."""
    if server.subscriptions:
        names = ", ".join(server.subscriptions)
        yield Note(
            "subscriptions",
            f"{name} subscribes to another server ({names}): its rows change too",
        )
    if server.foreign_servers:
        names = ", ".join(server.foreign_servers)
        yield Note(
            "foreign-servers",
            f"{name} has foreign servers ({names}): statements may write there",
        )
    if server.rights:
        text = f"{server.user} has rights beyond its database on {name} ({', '.join(server.rights)}): a text that "
        yield Note(
            "rights",
            f"{text}a block or a function puts together while it runs can use them. "
            "Play a log that you do not trust as a user without them",
            "info",
        )
    if server.is_standby:
        yield Note("standby", f"{name} is a standby: every write will fail")
