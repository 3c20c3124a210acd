"""`playhead extract`: prints values of a snapshot's pairs as CSV, or whole records."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from playhead.cli.options import Run, command
from playhead.cli.output import shown_csv
from playhead.errors import UsageError
from playhead.options.traffic import AS_CSV, EXTRACT

if TYPE_CHECKING:
    from playhead.traffic.extract import Extract
    from playhead.traffic.source import TrafficSource

_AT_ONCE = 1_000
# People know `extract data SNAPSHOT`.
_LEADING_WORD = "data"
# The purpose is CSV, on a terminal too.


@command(EXTRACT, AS_CSV, leading_word=_LEADING_WORD)
def extract(
    run: Run,
    snapshot: str | None,
    path: list[str],
    filter_: str | None,
    all_records: bool,
    snapshot_option: str | None,
) -> None:
    """Extract values from SNAPSHOT: one row for each pair with a value at every --path.

    A path can continue inside base64 and JSON texts; `#` and `*` return all elements as JSON. The last
    column is the pair's UUID. With --all-records, a row is a record: topic, partition, offset, times,
    key, value, headers. `playhead produce --format jsonl` accepts them as JSON Lines.
    """
    name = _one_snapshot(snapshot, snapshot_option)
    if all_records:
        if path:
            raise UsageError("--path and --all-records exclude each other")
        _records(run, name, filter_)
    else:
        if not path:
            raise UsageError(
                "found neither --path nor --all-records, needed one of them",
                hint="--path kafka.request.ProduceRequest.topics.0.name, or --all-records",
            )
        _values(run, name, path, filter_)


def _one_snapshot(given: str | None, named: str | None) -> str:
    if given == _LEADING_WORD and named is not None:
        given = None
    if (given is None) == (named is None):
        raise UsageError("found no snapshot, or two", hint="playhead extract SNAPSHOT --path …")
    return given or named or ""


def _values(run: Run, name: str, paths: list[str], filter_: str | None) -> None:
    from playhead.host.collector import seldom_collecting
    from playhead.traffic.extract import Extract
    from playhead.traffic.filter.parse import TrafficFilter
    from playhead.traffic.pair_path import Path
    from playhead.traffic.snapshot import find_snapshot

    parsed = [Path.parse(each) for each in paths]
    kept = None
    if filter_ is not None:
        kept = TrafficFilter.parse(filter_)
    snapshot = find_snapshot(name)
    if kept is not None:
        kept = TrafficFilter(kept.test, snapshot.id)
    asked = Extract(parsed, kept)
    with seldom_collecting():
        _emit(run, asked, asked.run(snapshot))
    for line in asked.told():
        run.output.say(line)
    _need_all(name, asked.unread)


def _need_all(name: str, unread: int) -> None:
    from playhead.traffic.extract import NotAllExtracted

    if unread:
        raise NotAllExtracted(name, unread=unread)


def _emit(run: Run, asked: "Extract", found: Iterable[list[str]]) -> None:
    if run.output.form == "csv":
        for text in _csv([asked.header], found):
            run.output.text(text)
    else:
        rows = [dict(zip(asked.header, row, strict=True)) for row in found]
        run.output.emit({"rows": rows}, rows)


def _csv(*parts: Iterable[Sequence[str]]) -> Iterator[str]:
    """Format rows as CSV, many at a time."""
    for part in parts:
        rest = iter(part)
        while rows := [*islice(rest, _AT_ONCE)]:
            yield shown_csv(rows).removesuffix("\n")


def _records(run: Run, name: str, filter_: str | None) -> None:
    from playhead.traffic.source import TrafficSource

    source = TrafficSource("rrpair", name, filter_)
    notes = source.facts().notes
    rows = 0
    for text, count in _written(run, source):
        run.output.text(text)
        rows += count
    run.output.say(f"{rows:,} records")
    for note in notes:
        run.output.say(f"{note.weight}: {note.text}")
    _need_all(name, source.unread())


def _written(run: Run, source: "TrafficSource") -> Iterator[tuple[str, int]]:
    """Return records as in archives: in the columns of their CSV, or as JSON Lines."""
    from playhead.cli.records.jsonl import lines
    from playhead.files.formats.csv_format import HEADER, rows_of
    from playhead.record import Slice

    if run.output.form not in ("csv", "jsonl"):
        raise UsageError("records are written only as csv or jsonl", hint="-o jsonl")
    if run.output.form == "csv":
        yield ",".join(HEADER), 0
    held = sorted((p, b) for p, b in source.bounds().items() if b.earliest < b.stable_end)
    with source.open() as reader:
        for place, bounds in held:
            for records in reader.read(Slice(*place, bounds.earliest, bounds.stable_end)):
                if run.output.form == "jsonl":
                    yield "\n".join(lines(records, {})), len(records)
                    continue
                rows = [
                    ["" if cell is None else str(cell) for cell in row] for row in rows_of(records)
                ]
                for text in _csv(rows):
                    yield text, len(records)
