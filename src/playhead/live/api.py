"""The calls that every interface makes for a live pipeline: plan, run, status, stop."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from playhead.config.context import Configuration
from playhead.errors import PlayheadError, Unavailable, UsageError
from playhead.host.clock import wait_until
from playhead.kafka.groups.plan import AffectedOffsets
from playhead.kafka.groups.record_times import first_times
from playhead.kafka.read.source import KafkaSource
from playhead.live.backoff import RepeatedNotice, server_backoff
from playhead.live.pipeline_spec import PipelineSpec
from playhead.live.start_offsets import group_offsets, ledger_ends, topics_of
from playhead.replay import api
from playhead.replay.api import Planned
from playhead.replay.assemble import Wiring, ends
from playhead.replay.engine import EngineUse
from playhead.replay.pipelines import MarkDamaged, Pipeline, Pipelines, pipeline_id
from playhead.request import Request
from playhead.source import Bounds, TopicPartition

_PATIENCE_S = 10.0
_LOOK_EVERY_S = 0.1


def plan(
    wish: PipelineSpec,
    configuration: Configuration,
    pipelines: Pipelines,
    say: Callable[[str], None],
    *,
    warm: bool = False,
) -> Planned:
    """Inspect both ends; a known pipeline waits for its servers, a new one fails at once.

    With `warm`, the engine starts meanwhile.
    """
    if configuration.get("spark_remote"):
        raise UsageError(
            "a live pipeline does not run through Spark Connect",
            hint="leave --spark-remote out, or name a cluster with --master",
        )
    own_id = pipeline_id(wish.name)
    asked = partial(api.plan, wish.request, configuration, replay_id=own_id, is_endless=True)
    if pipelines.get(wish.name) is None:
        return asked(use=EngineUse(is_warmed=warm, say=say))
    told, backoff = RepeatedNotice(), server_backoff()
    while True:
        try:
            return asked(use=EngineUse(say=say))
        except Unavailable as exc:
            if told.is_time():
                say(f"live {wish.name}: {told.since()} to start: {exc!s}")
            time.sleep(backoff.take())


def stop(name: str, pipelines: Pipelines, *, wait_s: float) -> dict[str, Any]:
    """Ask a pipeline on this machine to stop after its round, and wait for it."""
    pipelines.find(name)
    if not pipelines.journal.ask_to_stop(pipeline_id(name)):
        raise UsageError(
            f"pipeline {name} is not running on this machine; it is {pipelines.status(name)['state']}",
            hint="`playhead live --status` lists the running pipelines",
        )
    gone = wait_until(
        lambda: not pipelines.is_running(name),
        deadline_s=wait_s,
        every_s=_LOOK_EVERY_S,
    )
    if not gone:
        raise PlayheadError(
            f"pipeline {name} did not stop within {wait_s:g} s",
            hint="it stops after its current round; check with `playhead live --status`",
        )
    return {"name": name, "state": pipelines.status(name)["state"]}


def status(
    name: str, pipelines: Pipelines, configured: Callable[[Mapping[str, str]], Configuration]
) -> dict[str, Any]:
    """Return a pipeline's last status, and its present lag by the ledger and the log."""
    document, error = _look(name, pipelines, configured)
    if error is not None:
        raise error
    return document


def status_of_all(
    pipelines: Pipelines, configured: Callable[[Mapping[str, str]], Configuration]
) -> list[dict[str, Any]]:
    """Return the status of each pipeline; one that cannot be read has an `error` instead of its lag."""
    documents = []
    for name in pipelines.names():
        document, error = _look(name, pipelines, configured)
        documents.append(document if error is None else document | {"error": str(error)})
    return documents


def _look(
    name: str, pipelines: Pipelines, configured: Callable[[Mapping[str, str]], Configuration]
) -> tuple[dict[str, Any], PlayheadError | None]:
    """Return the status of a pipeline, and the error that interrupted the check."""
    said = pipelines.status(name)
    document: dict[str, Any] = {
        "name": name,
        "state": said.get("state"),
        "source": None,
        "target": None,
        "group": None,
        "lag": None,
        "lag_s": None,
        "committed_by": None,
        "remarks": [],
    }
    document |= {key: said.get(key) for key in _SAID}
    try:
        found = pipelines.find(name)
        document |= {"source": found.source, "target": found.target, "group": found.group}
        request = _request(found, pipelines)
        configuration = configured(found.servers)
    except PlayheadError as exc:
        return document, exc
    try:
        document |= _behind(found, ends(request, configuration))
    except PlayheadError as exc:
        document["remarks"].append(f"the lag is unknown: {exc!s}")
    return document, None


_SAID = (
    "away",
    "records",
    "rejected",
    "details",
    "extra_fields",
    "rounds",
    "lost_offsets",
    "lost",
    "last_commit_ms",
    "last_record_ms",
)


def _request(found: Pipeline, pipelines: Pipelines) -> Request:
    """Return the stored request, which another version may have written."""
    try:
        return Request.from_document(found.request)
    except (TypeError, ValueError) as exc:
        raise MarkDamaged(pipelines.folder(found.name), reason=str(exc)) from exc


def _behind(found: Pipeline, both: Wiring) -> dict[str, Any]:
    source = topics_of(both.source)
    bounds = source.bounds()
    remarks: list[str] = []
    group = group_offsets(source, found.group)
    try:
        at, by = ledger_ends(both.target.entries(pipeline_id(found.name))), "ledger"
        at |= {place: end for place, end in group.items() if place not in at}
    except PlayheadError as exc:
        at, by = group, "group"
        remarks.append(f"the ledger cannot be read, so these are the group's offsets: {exc!s}")
    partitions = _partitions(found, bounds, at)
    first = _waiting_since(source, bounds, partitions)
    return {
        "lag": sum(each["lag"] for each in partitions),
        "lag_s": max((time.time() - ms / 1000 for ms in first.values()), default=0.0),
        "committed_by": by,
        "partitions": partitions,
        "remarks": remarks,
    }


def _partitions(
    found: Pipeline, bounds: Mapping[TopicPartition, Bounds], at: Mapping[TopicPartition, int]
) -> list[dict[str, Any]]:
    rows = []
    for place, held in sorted(bounds.items()):
        noted = found.start(place)
        committed = at.get(place, held.earliest if noted is None else noted)
        row = {"topic": place[0], "partition": place[1], "committed": committed}
        rows.append(row | {"end": held.stable_end, "lag": max(0, held.stable_end - committed)})
    return rows


def _waiting_since(
    source: KafkaSource,
    bounds: Mapping[TopicPartition, Bounds],
    partitions: Sequence[Mapping[str, Any]],
) -> dict[TopicPartition, int]:
    """Return for each partition the time of the first uncommitted record."""
    reaches = {}
    for each in partitions:
        place: TopicPartition = each["topic"], each["partition"]
        if each["lag"]:
            first = max(each["committed"], bounds[place].earliest)
            reaches[place] = AffectedOffsets(first, bounds[place].stable_end)
    return first_times(source.connection, reaches, patience_s=_PATIENCE_S)
