"""The records for which an expression raises: found one by one, rejected, and left out of the expressions."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from playhead.decoding import Decoder, Decoding, Kinds, reading
from playhead.errors import PlayheadError, Stopped
from playhead.record import Slice
from playhead.records import Records
from playhead.source import Source, TopicPartition
from playhead.task.slicer import KEPT, MAX_RECORDS, OUTSIDE, Filter

# Looked at behind the last one that was found: a poisoned topic has several, and each time is another job.
_FURTHER: Final = 50_000
# The record on which a plan tries the expressions: those that raise for it are refused there.
_PLAIN: Final = Records("", 0, [0], [0], [0], [b"0"], [b'{"id":0}'], [(("0", b""),)])
Reasons = Mapping[TopicPartition, Mapping[int, str]]
"""By partition and offset, why the expressions cannot be computed."""
WhyNot = Callable[[Records], str | None]
"""Says why the expressions raise for some of these records; None if they do not."""
# More are no stray records: the expression does not fit the topic, and each is searched for.
_MOST: Final = 1_000
_MOST_OF_SAMPLES: Final = 50
_BEFORE: Final = "an expression cannot be computed for it: "
_WIDER: Final = 4
# A part that raises, of which no record raises alone: the engine fails for another reason, or is broken.
_MOST_CONTRADICTIONS: Final = 3
_TOLD_EVERY_S: Final = 15.0
# A task's failure is at most a slice behind what it committed, and some records that were read ahead.
_LOOKED_AT: Final = 2 * MAX_RECORDS


class RecordsRaise(PlayheadError):
    """Expressions raise for records that are known now: the rest, without them, is another job."""

    def __init__(self, reason: str, count: int) -> None:
        records = "1 record" if count == 1 else f"{count:,} records"
        super().__init__(f"an expression cannot be computed for {records}: {reason}")


class TooManyRaise(PlayheadError):
    """Expressions raise for more records than are searched for: they do not fit the topic."""

    def __init__(self, records: str, reason: str) -> None:
        super().__init__(
            f"an expression cannot be computed for {records}; the last reason: {reason}",
            hint="change --select or --where so that they fit these records too, or leave the records out "
            "by a condition in --where; committed data stay",
        )


@dataclass(frozen=True)
class RejectingDecoding:
    """A decoding, or none, by which known records are rejected instead of being shown to the expressions."""

    inner: Decoding | None
    reasons: Reasons

    def open(self) -> "_RejectingDecoder":
        return _RejectingDecoder(None if self.inner is None else self.inner.open(), self.reasons)


@dataclass(frozen=True)
class _RejectingDecoder:
    inner: Decoder | None
    reasons: Reasons

    def decoded_first(self, records: Records, /) -> Records:
        if self.inner is None:
            found = replace(records, decoded=records.values, undecoded={})
        else:
            found = self.inner.decoded_first(records)
        return _marked(found, self.reasons)

    def kinds(self, runs: Iterable[Records], /) -> Kinds:
        return {} if self.inner is None else self.inner.kinds(runs)


def _marked(records: Records, reasons: Reasons) -> Records:
    known = reasons.get((records.topic, records.partition), {})
    rejected = {offset: known[offset] for offset in records.offsets if offset in known}
    if not rejected:
        return records
    return replace(records, decoded=records.readable, undecoded=rejected | dict(records.undecoded))


class RaisingRecords:
    """What is known of them; knows nothing at first, and says how a long search gets on."""

    def __init__(self, say: Callable[[str], None] = lambda _: None) -> None:
        self.say = say
        self._reasons: dict[TopicPartition, dict[int, str]] = {}
        self.fits_samples = False
        """Whether the expressions have been computed for a sample."""

    @property
    def count(self) -> int:
        return sum(map(len, self._reasons.values()))

    def refuse_too_many(self) -> None:
        """Refuse to continue a run in which more raised than are rejected."""
        if self.count > _MOST:
            raise TooManyRaise(f"more than {_MOST:,} records", self._last_reason())

    def _last_reason(self) -> str:
        last = [*self._reasons.values()][-1]
        return last[max(last)].removeprefix(_BEFORE)

    def rejecting(self, decoding: Decoding | None) -> Decoding:
        """Return a decoding by which the known ones are rejected."""
        return RejectingDecoding(decoding, self._reasons)

    def marked(self, records: Records) -> Records:
        """Return records with the known ones marked as those that cannot be decoded are."""
        return _marked(records, self._reasons)

    def say_search(self) -> None:
        """Say why it takes longer now."""
        self.say("an expression cannot be computed for some records: searching for them")

    def look(self, records: Records, why_not: WhyNot, most: int = _MOST) -> bool:
        """Note those among the records, but not many more than are rejected; return whether there are any."""
        known = self._reasons.get((records.topic, records.partition), {})
        rest = records.pick([i for i, at in enumerate(records.offsets) if at not in known])
        reason = why_not(rest) if len(rest) else None
        if reason is None:
            return False
        # An engine that fails for this one fails for each, and none of them is at fault.
        if why_not(_PLAIN) is not None:
            return False
        room = min(max(0, _MOST - self.count) + 1, most)
        found = dict(self._told(islice(_among(rest, why_not, reason), room)))
        if not found or why_not(_PLAIN) is not None:
            return False
        self._reasons[records.topic, records.partition] = {**known, **found}
        return True

    def _told(self, found: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
        """Say now and then how many are found: each costs some queries."""
        told = time.monotonic()
        for count, each in enumerate(found, self.count + 1):
            yield each
            if time.monotonic() - told >= _TOLD_EVERY_S:
                told = time.monotonic()
                self.say(f"{count:,} found so far")

    def note_fitting(self, samples: Sequence[Records]) -> None:
        """Note that the expressions can be computed for these samples."""
        self.fits_samples = self.fits_samples or any(map(len, samples))

    def computable(self, samples: Iterable[Records], why_not: WhyNot) -> list[Records]:
        """Return samples of which the expressions can be computed, with those marked for which they raise.

        What is behind too many of these is left out, because the search would take long. None is left of
        further samples if they have too many, and this is no error: an earlier sample shows that there are others.
        """
        kept = []
        for records in samples:
            left = _MOST_OF_SAMPLES - self.count
            if left > 0:
                self.look(records, why_not, left)
            marked = self.marked(records)
            if why_not(marked) is not None:
                known = self._reasons.get((records.topic, records.partition), {})
                stop = max(
                    (i + 1 for i, at in enumerate(records.offsets) if at in known), default=0
                )
                marked = marked.cut(0, stop)
            if any(at not in marked.undecoded for at in marked.offsets):
                kept.append(marked)
        self.note_fitting(kept)
        if not self.fits_samples and self.count:
            raise TooManyRaise("any of the sampled records", self._last_reason())
        return kept

    def look_in(
        self,
        source: Source,
        decoding: Decoding | None,
        works: Iterable[Iterable[Slice]],
        in_span: Filter,
        why_not: WhyNot,
    ) -> bool:
        """Note those near the start of each work; return whether there are any, and not too many.

        Also return so if a stop ends the search: the one who runs the rest looks for the stop first.
        """
        has_found = False
        self.say_search()
        with source.open() as connected, suppress(Stopped):
            reader = reading(connected, self.rejecting(decoding))
            for work in works:
                runs = (run for slice_ in work for run in reader.read(slice_))
                is_here = self._look_on(_first(runs, in_span), why_not)
                has_found = has_found or is_here
                if self.count > _MOST:
                    return False
            return has_found
        return True

    def _look_on(self, runs: Iterator[Records], why_not: WhyNot) -> bool:
        """Look up to some records behind the last one that is found."""
        has_found, left = False, 0
        for run in runs:
            if self.look(run, why_not):
                has_found, left = True, _FURTHER
            left -= len(run)
            if has_found and (left < 0 or self.count > _MOST):
                break
        return has_found


def _first(runs: Iterator[Records], in_span: Filter) -> Iterator[Records]:
    """Yield the first records that an expression reads."""
    count = 0
    for run in runs:
        verdicts = in_span.verdicts(run) or [KEPT] * len(run)
        kept = [
            index
            for index, (offset, verdict) in enumerate(zip(run.offsets, verdicts, strict=True))
            if verdict != OUTSIDE and offset not in run.undecoded
        ]
        yield run.pick(kept)
        count += len(run)
        if count >= _LOOKED_AT:
            return


def until_stopped(why_not: WhyNot, is_stopped: Callable[[], bool]) -> WhyNot:
    """Return the same, which ends a search when a stop is requested."""

    def asked(records: Records) -> str | None:
        if is_stopped():
            raise Stopped("stopped while records were searched for which an expression raises")
        return why_not(records)

    return asked


def _among(records: Records, why_not: WhyNot, reason: str | None) -> Iterator[tuple[int, str]]:
    """Yield those among records of which some raise for this reason; each has raised when it was alone.

    Behind each the parts grow from one record, because those that raise are often neighbours.
    """
    start, stop, contradictions = 0, len(records), 0
    while start < len(records):
        if reason is None:
            start, stop = stop, stop + _WIDER * (stop - start)
        elif stop - start > 1:
            start += _first_in(records.cut(start, stop), why_not)
            stop = start + 1
            contradictions += 1
        else:
            yield records.offsets[start], _BEFORE + reason
            start, stop, contradictions = stop, stop + 1, 0
        if contradictions > _MOST_CONTRADICTIONS:
            return
        stop = min(stop, len(records))
        reason = why_not(records.cut(start, stop)) if start < len(records) else None


def _first_in(records: Records, why_not: WhyNot) -> int:
    """Return the index of the first that raises, by halves; some do."""
    low, high = 0, len(records)
    while high - low > 1:
        middle = (low + high) // 2
        if why_not(records.cut(low, middle)) is None:
            low = middle
        else:
            high = middle
    return low
