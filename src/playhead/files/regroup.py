"""Regroups runs of records: the groups that are encoded together are the same for any runs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from playhead.account import Account
from playhead.printable import is_unicode
from playhead.records import Records

_MOST_RECORDS = 250_000
_MOST_BYTES = 64_000_000


@dataclass(slots=True)
class Group:
    """Records that can be written, optionally with their values as a table of typed columns."""

    records: Records
    typed: Any = None


def regrouped(
    runs: Iterable[Records], *, most_records: int = _MOST_RECORDS, most_bytes: int = _MOST_BYTES
) -> Iterator[Records]:
    """Yield groups with as many records as fit into both limits."""
    held: Records | None = None
    held_bytes = 0
    for run in runs:
        held = held or run.pick(())
        sizes, start = _sizes(run), 0
        total = sum(sizes)
        if len(held) + len(run) <= most_records and held_bytes + total <= most_bytes:
            held.extend(run)
            held_bytes += total
            continue
        for index, size in enumerate(sizes):
            count = len(held) + index - start
            if count and (count == most_records or held_bytes + size > most_bytes):
                held.extend(run.cut(start, index))
                yield held
                held, held_bytes, start = run.pick(()), 0, index
            held_bytes += size
        held.extend(run.cut(start, len(run)))
    if held:
        yield held


def sayable(account: Account, records: Records) -> Records:
    """Refuse records that no file can hold: those with header names that are not Unicode."""
    names = {name for headers in records.headers if headers for name, _ in headers}
    wrong = {name for name in names if not is_unicode(name)}
    if not wrong:
        return records
    kept = []
    for index, headers in enumerate(records.headers):
        found = wrong.intersection(name for name, _ in headers)
        if found:
            reason = f"the header name {min(found)!r} is not Unicode"
            account.refuse(records.record(index), kind="header", reason=reason)
        else:
            kept.append(index)
    return records.pick(kept)


def _sizes(run: Records) -> list[int]:
    keyed = zip(run.keys, run.values, strict=True)
    sizes = [(len(key) if key else 0) + (len(value) if value else 0) for key, value in keyed]
    for index, headers in enumerate(run.headers):
        if headers:
            sizes[index] += sum(len(name) + len(value or b"") for name, value in headers)
    return sizes
