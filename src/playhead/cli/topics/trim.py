"""`playhead topics trim`: show the oldest records of a topic, then delete them."""

from typing import TYPE_CHECKING

from playhead.cli.confirm import answer
from playhead.cli.options import Run, command
from playhead.config.guards import Guard
from playhead.errors import UsageError
from playhead.options.shared import CONNECTION, TIME
from playhead.options.topics import TRIM

if TYPE_CHECKING:
    from playhead.kafka.admin.trim import Trim
    from playhead.source import Bounds, TopicPartition

_PATIENCE_S = 60.0


@command(TRIM, CONNECTION, TIME)
def trim(
    run: Run, topic: str, to: str | None, offsets: str | None, dry_run: bool, yes: bool
) -> None:
    """Delete the oldest records (Kafka's delete-records): show the offsets, then ask.

    A topic that is only compacted refuses it. The new start offsets are read again and compared.
    """
    from playhead.kafka.admin.client import Admin
    from playhead.kafka.admin.offsets import bounds_of, describe, places_of
    from playhead.kafka.admin.trim import carry_out

    if (to is None) == (offsets is None):
        raise UsageError("a trim needs either --to or --offsets", hint="--to now-7d")
    configuration = run.configuration()
    connection = configuration.kafka()
    with Admin(connection) as admin:
        held = bounds_of(admin, places_of(describe(admin, [topic])))
        trims = (
            _by_time(run, topic, to or "", held)
            if offsets is None
            else _by_offsets(topic, offsets, held)
        )
        rows = [each.row() for each in trims]
        deleted = sum(each.deleted for each in trims)
        run.output.emit({"topic": topic, "deleted": deleted, "partitions": rows}, rows)
        if not deleted:
            run.output.say("no record is before that position; nothing was deleted")
        elif dry_run:
            run.output.say(f"{deleted:,} offsets would be deleted; nothing was deleted")
        else:
            carry_out(admin, trims, Guard(configuration, answer(yes=yes)))
            run.output.say(
                f"{deleted:,} offsets were deleted, and the log starts at the expected offsets"
            )


def _by_offsets(topic: str, text: str, held: "dict[TopicPartition, Bounds]") -> "list[Trim]":
    from playhead.kafka.admin.trim import by_offsets
    from playhead.span import Span

    spans = Span.of(offsets=text).offsets
    named = {span.topic for span in spans} - {None, topic}
    if named:
        raise UsageError(f"--offsets names topic {named.pop()}, but the command trims {topic}")
    return by_offsets(spans, held)


def _by_time(run: Run, topic: str, to: str, held: "dict[TopicPartition, Bounds]") -> "list[Trim]":
    from playhead.cli.time_option import instant_ms
    from playhead.grammar.instant import show_ms
    from playhead.kafka.admin.trim import before
    from playhead.kafka.read.source import KafkaSource

    if to == "end":
        return before({place: each.high_watermark for place, each in held.items()}, held)
    configuration = run.configuration()
    to_ms = instant_ms("--to", to, configuration)
    run.output.say(f"all records before the first of {show_ms(to_ms)} or later")
    source = KafkaSource(configuration.kafka(), topics=(topic,), patience_s=_PATIENCE_S)
    return before(source.offsets_at(to_ms), held)
