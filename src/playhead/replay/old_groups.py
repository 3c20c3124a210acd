"""Removes the consumer groups `playhead.ID` of finished replays."""

import time
from collections.abc import Sequence
from contextlib import suppress

from playhead.config.context import Configuration, connection_of
from playhead.endpoint import system_of
from playhead.errors import PlayheadError
from playhead.plan import Plan
from playhead.replay.journal import Journal

KEPT_MS = 86_400_000
"""So long after its end the group of a replay can still be looked at."""
_MOST_LOOKED_AT = 1_000


def remove_group(plan: Plan, configuration: Configuration) -> list[str]:
    """The group of a replay, where it had one."""
    return _removed([plan.replay_id], plan, configuration) if _shows_group(plan) else []


def remove_old_groups(
    plan: Plan, configuration: Configuration, journal: Journal, *, now_ms: int | None = None
) -> list[str]:
    """Those of this machine's earlier runs in the same cluster; where that is not allowed they stay."""
    if not _shows_group(plan):
        return []
    until_ms = (time.time_ns() // 1_000_000 if now_ms is None else now_ms) - KEPT_MS
    old = journal.ended_before(until_ms, plan.target.identity, most=_MOST_LOOKED_AT)
    with suppress(PlayheadError):
        return _removed(old, plan, configuration)
    return []


def _shows_group(plan: Plan) -> bool:
    """Only within one cluster the group's progress is committed together with the records."""
    is_topic = system_of(plan.request.target_endpoint).kind == "topic"
    return is_topic and plan.source.identity == plan.target.identity


def _removed(replay_ids: Sequence[str], plan: Plan, configuration: Configuration) -> list[str]:
    if not replay_ids:
        return []
    from playhead.kafka.groups.describe import remove_groups

    return remove_groups(connection_of(plan.request.target_endpoint, configuration), replay_ids)
