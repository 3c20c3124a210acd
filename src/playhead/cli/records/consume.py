"""`playhead consume`: records of a span to the terminal or into a pipe."""

import time
from typing import TYPE_CHECKING

from playhead.cli.options import Run, command
from playhead.cli.output import ReaderGone, tell
from playhead.cli.records.decode import decoders
from playhead.cli.records.record_output import Printer, RecordFilter, printer
from playhead.cli.replay.replay_options import lateness_ms, read_on, span
from playhead.cli.signals import Terminated
from playhead.errors import BadValue, UsageError
from playhead.grammar.instant import show_ms
from playhead.options.lines import CONSUME, CONSUME_SPAN, DECODING, SHOWN
from playhead.options.shared import CONNECTION, REGISTRY

if TYPE_CHECKING:
    from playhead.kafka.read.scan import Scan, Stretch
    from playhead.kafka.read.source import KafkaSource
    from playhead.note import Note
    from playhead.span import Resolved
    from playhead.traffic.filter.regex import Pattern

_TELL_TROUBLE_EVERY_S = 15.0
_AT_THE_END = "the end of the span"
_FROM_NOW = "from now on"
_NO_GROUP_NEEDED = (
    "--group starts at the offsets that a group has committed, and consume joins no group: without it, "
    "everything is read; `playhead groups list` lists the groups"
)
_STARTS = ("from_", "last", "offsets", "tail", "group")
"""Options that say where to begin, of which one counts."""


@command(CONSUME, CONSUME_SPAN, SHOWN, DECODING, CONNECTION, REGISTRY)
def consume(
    run: Run,
    topics: list[str],
    partition: list[int],
    grep: str | None,
    grep_key: str | None,
    most: int | None,
) -> None:
    """Print records: values as lines, more fields with --show, whole records with -o jsonl.

    Without a span, all records up to now. Stops at the end of the span, and prints how many offsets it
    scanned and why it stopped. Joins no group, commits nothing, and shows committed records only.
    """
    from playhead.kafka.read.scan import Scan

    picked = RecordFilter(_pattern("--grep", grep), _pattern("--grep-key", grep_key), most)
    decoded = decoders(run)
    shown = printer(run, decoded)
    source = _source(run, topics)
    resolved = _resolved(run)
    picked.from_ms, picked.to_ms = resolved.from_ms, resolved.to_ms
    found, notes = _stretches(run, source, resolved)
    if partition:
        found = _only(found, partition)
    scan = Scan(source.connection, found, source.patience_s)
    told = _told_start(run) or _told_span(resolved)
    planned = f": {scan.planned or 0:,} offsets"
    if scan.planned is None:
        planned = ": new records" if told == _FROM_NOW else ", then new records"
    run.output.say(f"reading {', '.join(topics)} {told}{planned}")
    if scan.planned is not None and resolved.to_ms is None and not resolved.offsets:
        run.output.say("it stops at the end of the log; --follow continues with new records")
    for note in notes:
        run.output.say(f"  {note.weight:<5} {note.text}")
    _read(run, scan, picked, shown)
    is_by_time = resolved.from_ms is not None or resolved.to_ms is not None
    if is_by_time and not (shown.count or picked.unlike or run.values["follow"]):
        from playhead.replay.samples import where_the_records_are

        run.output.say(where_the_records_are(source, source.bounds()).text)


def _read(run: Run, scan: "Scan", picked: RecordFilter, shown: Printer) -> None:
    began, why = time.monotonic(), "an error"
    told_at = 0.0
    try:
        shown.begin()
        for records in scan.run():
            if scan.trouble and time.monotonic() - told_at > _TELL_TROUBLE_EVERY_S:
                told_at = time.monotonic()
                tell(f"waiting: {scan.trouble}")
            indexes, is_full = picked.pick(records, shown.decoded)
            shown.show(records, indexes)
            if (trouble := shown.decoded.trouble) is not None:
                _stop_at(scan, trouble.topic, trouble.partition, trouble.offset)
                raise trouble
            if is_full:
                _stop_at(scan, records.topic, records.partition, records.offsets[indexes[-1]])
                why = f"--max {picked.most}"
                break
        else:
            why = _AT_THE_END
    except KeyboardInterrupt:
        why = "interrupted"
        raise
    except Terminated:  # Ended by a supervisor or a time limit, which is no error of the records.
        why = "terminated"
        raise
    except (BrokenPipeError, ReaderGone):
        why = "the reader of the output has closed it"
        raise ReaderGone from None
    finally:
        took_s = time.monotonic() - began
        if why != "the reader of the output has closed it":
            shown.end(scan.scanned, why)
        absent = scan.scanned - picked.seen if why == _AT_THE_END else 0
        _tell(run, scan, picked, shown, absent, f"stopped: {why} ({took_s:.1f} s)")


def _stop_at(scan: "Scan", topic: str, partition: int, offset: int) -> None:
    """Set the position: the rest of the run was read, but not filtered or printed."""
    for each in scan.stretches:
        if each.place == (topic, partition):
            each.at = offset + 1


def _tell(
    run: Run, scan: "Scan", picked: RecordFilter, shown: Printer, absent: int, stopped: str
) -> None:
    of = "" if scan.planned is None else f" of {scan.planned:,}"
    records = "record" if shown.count == 1 else "records"
    told = [f"{shown.count:,} {records} shown, {scan.scanned:,}{of} offsets scanned"]
    if absent:
        told.append(f"{absent:,} of them without a committed record")
    if picked.outside:
        told.append(f"{picked.outside:,} with times outside of the span left out")
    if picked.unlike:
        told.append(f"{picked.unlike:,} did not match")
    if shown.decoded.failed:
        told.append(f"{shown.decoded.failed:,} could not be decoded")
    run.output.say(f"{'; '.join(told)}; {stopped}")


def _source(run: Run, topics: list[str]) -> "KafkaSource":
    from playhead.kafka.read.source import KafkaSource

    connection = run.configuration().kafka()
    patterns = [name for name in topics if len(name) > 1 and name[0] == name[-1] == "/"]
    if not patterns:
        return KafkaSource(connection, topics=tuple(dict.fromkeys(topics)))
    if len(topics) > 1:
        raise UsageError("a /regex/ of topics must be the only topic")
    return KafkaSource(connection, pattern=patterns[0][1:-1])


def _resolved(run: Run) -> "Resolved":
    values = run.values
    given = ["--from-beginning"] if values["from_beginning"] else []
    given += [f"--{name.strip('_')}" for name in _STARTS if values[name] is not None]
    if len(given) > 1 and ("--tail" in given or "--group" in given or values["from_beginning"]):
        raise UsageError(f"{given[0]} and {given[1]} contradict each other")
    if values["from_beginning"]:
        values["from_"] = "start"
    asked = span(run)
    if values["follow"] and (values["to"] or values["for_"]):
        raise UsageError("--follow never ends, but --to or --for sets an end")
    return asked.resolve(time.time_ns())


def _stretches(
    run: Run, source: "KafkaSource", resolved: "Resolved"
) -> "tuple[list[Stretch], tuple[Note, ...]]":
    from playhead.kafka.admin.errors import Need, needing
    from playhead.kafka.read.scan import from_now, from_tail, stretches
    from playhead.time_span import ReadOn

    values = run.values
    asked = ReadOn.parse(read_on(run))
    topics = source.topics or (source.pattern or "",)
    with needing(*(Need("Read", "topic", topic) for topic in topics)):
        is_open = values["follow"]
        if values["tail"] is not None:
            return from_tail(source, values["tail"], is_open=is_open), ()
        if values["group"] is not None:
            return _from_group(source, values["group"], is_open=is_open)
        if is_open and not _says_from(run):
            return from_now(source), ()
        return stretches(
            source, resolved, lateness_ms=lateness_ms(run), read_on=asked, is_open=is_open
        )


def _from_group(
    source: "KafkaSource", group: str, *, is_open: bool
) -> "tuple[list[Stretch], tuple[Note, ...]]":
    """From the committed offsets; a partition in which nothing is committed is read from its start."""
    from playhead.kafka.admin.client import Admin
    from playhead.kafka.groups.describe import committed, need_groups
    from playhead.kafka.read.scan import from_offsets

    with Admin(source.connection) as admin:
        need_groups(admin, [group], hint=_NO_GROUP_NEEDED)
        offsets = {place: held.offset for place, held in committed(admin, group).items()}
    return from_offsets(source, offsets, group=group, is_open=is_open)


def _says_from(run: Run) -> bool:
    return any(run.values[name] is not None for name in _STARTS)


def _told_start(run: Run) -> str | None:
    """Where it begins, in words, where no span says so."""
    values = run.values
    if values["tail"] is not None:
        return f"from {values['tail']:,} offsets before the end"
    if values["group"] is not None:
        return f"from the offsets of group {values['group']}"
    return _FROM_NOW if values["follow"] and not _says_from(run) else None


def _only(found: "list[Stretch]", partitions: list[int]) -> "list[Stretch]":
    there = {each.partition for each in found}
    for number in partitions:
        if number not in there:
            needed = ", ".join(str(each) for each in sorted(there))
            raise BadValue("--partition", found=number, needed=needed, where="the topics")
    return [each for each in found if each.partition in partitions]


def _told_span(resolved: "Resolved") -> str:
    if resolved.offsets:
        return f"offsets {resolved}"
    start = "start" if resolved.from_ms is None else show_ms(resolved.from_ms)
    end = "end" if resolved.to_ms is None else show_ms(resolved.to_ms)
    return f"[{start}, {end})"


def _pattern(flag: str, text: str | None) -> "Pattern | None":
    """Compile an RE2 pattern, so that no record can make the search take exponential time."""
    if text is None:
        return None
    from playhead.traffic.filter.regex import BadPattern, Pattern

    try:
        return Pattern(text)
    except BadPattern as exc:
        needed = f"a regular expression of RE2 ({exc})"
        raise BadValue(flag, found=text, needed=needed) from exc
