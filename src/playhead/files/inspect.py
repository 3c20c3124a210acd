"""Inspects the place of an archive before anything is written."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from playhead.files.archive import Archive
from playhead.files.origins import Origins, replays_by_topic
from playhead.files.typed_columns import PREFIX, inferred, repeating
from playhead.json_objects import FIELDS_REPEATED
from playhead.note import Note
from playhead.source import TopicFacts
from playhead.target import Inspection, InspectRequest


def surveyed(archive: Archive, look: InspectRequest, *, typed: bool) -> Inspection:
    """Return what a replay would do here; refuse what cannot work."""
    there, free = archive.store.look()
    is_archive = there and archive.is_there()
    where = archive.store.identity
    notes = _notes(archive, look, free, is_archive=is_archive, is_there=there)
    if is_archive:
        ids = {name: facts.topic_id or "" for name, facts in look.source.topics.items()}
        origins_before(archive, look.partitions).refuse_another(ids)
    topics = {
        topic: _known(look.source.topics.get(topic, TopicFacts()), partitions)
        for topic, partitions in look.partitions.items()
    }
    if typed:
        before = archive.abouts() if is_archive else []
        for topic, known in topics.items():
            known["columns"] = columns = _columns(topic, before, look)
            notes += _notes_of_columns(topic, columns, look)
    needs = {"topics": topics, "is_new": not is_archive}
    return Inspection(where, tuple(notes), archive_made(archive, needs), needs)


def origins_before(
    archive: Archive, topics: Collection[str], replay_id: str | None = None
) -> Origins:
    """Return the origins of what other replays have archived of these topics."""
    names = [each for each in archive.entry_names() if each.slice.topic in topics]
    pairs = ((each.slice.topic, each.replay_id) for each in names if each.replay_id != replay_id)
    return Origins.of(archive, replays_by_topic(pairs))


def archive_made(archive: Archive, needs: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a sentence about the archive to create, unless it exists."""
    where, topics = archive.store.identity, needs.get("topics", {})
    if not (isinstance(topics, Mapping) and all(isinstance(e, Mapping) for e in topics.values())):
        raise TypeError(f"topics are {topics!r:.60}; needed: an object for each")
    return (f"an archive in {archive.format} at {where}",) if needs.get("is_new") else ()


def _columns(topic: str, before: list[Mapping[str, Any]], look: InspectRequest) -> dict[str, str]:
    """Return the topic's columns in the archive, so that all its files are alike; else new ones."""
    for about in before:
        if found := about.get(topic, {}).get("columns"):
            return dict(found)
    return inferred(value for run in look.samples if run.topic == topic for value in run.readable)


def _notes_of_columns(
    topic: str, columns: Mapping[str, str], look: InspectRequest
) -> Iterator[Note]:
    if not columns:
        text = f"no sampled value of {topic} is a JSON object: it gets no typed columns"
        yield Note("files.no-columns", text)
        return
    listed = ", ".join(f"{PREFIX}{name} {type_}" for name, type_ in columns.items())
    text = f"{topic} gets typed columns: {listed}; a value that does not fit is refused with its record"
    yield Note("files.columns", text, "info")
    if count := sum(repeating(run.readable, columns) for run in look.of(topic)):
        text = f"{count:,} of the sampled records of {topic} have two fields of one name: "
        yield Note(
            FIELDS_REPEATED, f"{text}a typed column has the last one, the column value has both"
        )


def _known(facts: TopicFacts, partitions: int) -> dict[str, Any]:
    return {
        "partitions": partitions,
        "sets_log_append_time": facts.sets_log_append_time,
        "is_compacted": facts.is_compacted,
    }


def _notes(
    archive: Archive, look: InspectRequest, free: int | None, *, is_archive: bool, is_there: bool
) -> list[Note]:
    notes = []
    needed = sum(sum(facts.bytes_by_partition.values()) for facts in look.source.topics.values())
    if free is not None and needed > free:
        text = (
            f"the topics take up to {needed} bytes, but {free} are free at {archive.store.identity}"
        )
        notes.append(Note("files.little-room", text))
    if is_archive:
        found = archive.entry_names()
        others = sorted({each.replay_id for each in found if each.slice.topic in look.partitions})
        if others:
            text = (
                f"the archive has records of these topics from {_listed(others)}; where slices overlap, other "
                "tools see an offset in two files, and a slice with the same offsets but other records, as of "
                "another span of times, stops this replay: use a separate folder for each selection"
            )
            notes.append(Note("files.other-replays", text, "info"))
    elif is_there and archive.store.files(""):
        text = f"{archive.store.identity} has other files, which are left alone"
        notes.append(Note("files.not-empty", text))
    return notes


def _listed(replays: list[str]) -> str:
    shown = ", ".join(replays[:3])
    return f"replay {shown}" + (f" and {len(replays) - 3} more" if len(replays) > 3 else "")
