"""The rate at which a replay will work, by earlier runs of this machine that can be compared with it."""

from itertools import islice
from statistics import median

from playhead.replay.journal import Journal, JournalEntry
from playhead.request import Request

LEAST_RECORDS = 10_000
"""Of a run with fewer most of the time is spent on connections, which says nothing of the work."""
_MOST_RUNS_ASKED, _MOST_COMPARED = 100, 5


def known_rate(journal: Journal, request: Request, unreadable: list[str]) -> float | None:
    """Records a second of the latest comparable runs while their tasks worked; None without any.

    The start of the engine is not part of it. The IDs of runs that were met and cannot be read go to `unreadable`.
    """
    comparable = (
        rate
        for run in journal.latest(_MOST_RUNS_ASKED, unreadable)
        if _kind(run.plan.request) == _kind(request) and (rate := _rate_of(run)) is not None
    )
    rates = [*islice(comparable, _MOST_COMPARED)]
    return median(rates) if rates else None


def _kind(request: Request) -> tuple[object, ...]:
    """What makes the work of two replays alike."""
    systems = request.source_endpoint.system, request.target_endpoint.system
    is_transformed = bool(request.where or request.select)
    return *systems, request.pace, is_transformed, request.decode, request.on_conflict


def _rate_of(run: JournalEntry) -> float | None:
    took = (run.proof or {}).get("took") or {}
    records, seconds = took.get("records") or 0, took.get("run_s") or 0
    return records / seconds if records >= LEAST_RECORDS and seconds else None
