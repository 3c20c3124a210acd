"""The terms of a replay: to what its ledger belongs, fixed before the first commit.

The target stores them beside the ledger, so that every machine and every interface sees the same
ones. Other terms are refused: the committed offsets would be those of another topic, or the rows those
of another table.
"""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

from playhead.errors import Refused
from playhead.grammar.field_types import need_kinds, need_shallow
from playhead.ledger import UNREADABLE
from playhead.note import Note

VERSION = 1
# A plan of thousands of gaps is compressed. One that does not fit into a record of a topic is left
# out; its digest still identifies it.
_MOST_PLAIN = 200_000
_MOST_PACKED = 700_000
_MOST_UNPACKED = 100_000_000
_SHOWN = 3
NO_TERMS = "ledger-without-terms"
_OTHER_WHERE = "other_where"
"""In the rules of a pipeline: a later start had another --where than the first one."""


class OtherTerms(Refused):
    """The target's ledger has this ID with other terms: another plan, source, target or rules."""

    def __init__(
        self, replay_id: str, *, differences: Sequence[str], is_endless: bool = False
    ) -> None:
        self.replay_id, self.differences = replay_id, tuple(differences)
        more = len(self.differences) - _SHOWN
        told = "; ".join(self.differences[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
        hint = (
            "choose another --name for a new pipeline; with --from earliest it starts at the log's start"
            if is_endless
            else "choose another --id for a new replay; the records of this ID stay in the target"
        )
        super().__init__(f"{replay_id} has other terms in the target's ledger: {told}", hint=hint)


class NotBegunThere(Refused):
    """The target's ledger does not know the running replay: another server answers at the address."""

    def __init__(self, replay_id: str, *, where: str) -> None:
        self.replay_id, self.where = replay_id, where
        super().__init__(
            f"the ledger of {where} does not know {replay_id}, which began under this address in another "
            "one; nothing was written to this one",
            hint="what was committed is in the first one; when the address leads there again, the same "
            "command continues",
        )


class UnknownTerms(Refused):
    """The ledger has terms that this version of Playhead does not understand."""

    def __init__(self, replay_id: str, *, where: str, reason: str) -> None:
        self.replay_id, self.where = replay_id, where
        super().__init__(
            f"the terms of replay {replay_id} in {where} cannot be read: {reason}",
            hint="a later version of Playhead may have written them; use that version",
        )


class Whereto(NamedTuple):
    """Where the records of a source topic go: a table or topic, with the id that identifies it."""

    name: str
    """As in `table public.laps`."""
    id: str
    """For example `oid 16390`; empty if it does not exist yet."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for a replay from its first commit to its last."""

    digest: str
    """The plan's digest; empty for a live pipeline, which has no end and plans at each start."""
    source: str
    """The source's identity."""
    topics: Mapping[str, str]
    """The source's topics with their ids; empty where the system has no ids."""
    target: str
    """The target's identity."""
    rules: Mapping[str, Any]
    """The request, without options that have their default."""
    plan: Mapping[str, Any] | None = None
    """The plan as a document, without samples, so that any machine can resume it."""
    places: Mapping[str, Whereto] = field(default_factory=dict)
    """Where the records of each source topic go; filled in by the target."""
    settled: Mapping[str, Any] = field(default_factory=dict)
    """Values that the target itself has fixed for the whole replay."""

    @property
    def is_endless(self) -> bool:
        return not self.digest

    def filters_others(self, where: str | None) -> bool:
        """Whether it may have filtered other records than this --where does; each start of a pipeline has its own."""
        return self.rules.get("where") != where or bool(self.rules.get(_OTHER_WHERE))

    def begun(self) -> "Terms":
        """Return the terms as they are written: without places that do not exist."""
        there = {topic: place for topic, place in self.places.items() if place.id}
        return replace(self, places=there)

    def as_json(self) -> str:
        """Return the terms as text; equal terms give equal texts."""
        document = {each.name: getattr(self, each.name) for each in fields(self)}
        document["version"] = VERSION
        document["places"] = {topic: list(place) for topic, place in self.places.items()}
        text = _text(document)
        if len(text) <= _MOST_PLAIN:
            return text
        plan = _text(self.plan) if self.plan is not None else ""
        if len(plan) > _MOST_PLAIN:
            packed = base64.b64encode(zlib.compress(plan.encode(), 9)).decode()
            document["plan"] = packed if len(packed) <= _MOST_PACKED else None
        return _text(document)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Terms":
        """Parse the text of `as_json`; anything else raises one of `ledger.UNREADABLE`."""
        document: dict[str, Any] = json.loads(text)
        version = document.pop("version")
        if version != VERSION:
            raise ValueError(f"terms of version {version!r}; this Playhead knows {VERSION}")
        if isinstance(document["plan"], str):
            document["plan"] = json.loads(_unpacked(document["plan"]))
        places = {topic: Whereto(*place) for topic, place in document["places"].items()}
        need_shallow(document)
        terms = cls(**document | {"places": places})
        need_kinds(terms, "terms")
        return terms


def terms_at(replay_id: str, where: str, text: str | bytes) -> Terms:
    """Parse the terms of a replay found at `where`, where other programs may also have written."""
    try:
        return Terms.from_json(text)
    except UNREADABLE as exc:
        raise UnknownTerms(replay_id, where=where, reason=str(exc)) from exc


def _unpacked(packed: str) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        plan = unpacking.decompress(base64.b64decode(packed), _MOST_UNPACKED)
    except zlib.error as exc:
        raise ValueError(f"the plan in the terms is damaged: {exc}") from exc
    if not unpacking.eof:
        raise ValueError(
            f"the plan in the terms is longer than {_MOST_UNPACKED} bytes, or cut short"
        )
    return plan


def agreed(replay_id: str, kept: Terms | None, wanted: Terms) -> Terms:
    """Return the terms for the ledger: the wanted ones if it has none, else its own; refuse terms that differ.

    A live pipeline may add topics that were unknown before.
    """
    if kept is None:
        return wanted.begun()
    differences = differing(kept, wanted)
    if differences:
        is_endless = kept.is_endless and wanted.is_endless
        raise OtherTerms(replay_id, differences=differences, is_endless=is_endless)
    if not kept.is_endless:
        return kept
    rules = kept.rules
    if rules.get("where") != wanted.rules.get("where"):
        rules = {**rules, _OTHER_WHERE: True}
    topics = {**wanted.topics, **kept.topics}
    places = {**wanted.begun().places, **kept.places}
    settled = {**wanted.settled, **kept.settled}
    for name, each in settled.items():
        if isinstance(each, Mapping) and isinstance(wanted.settled.get(name), Mapping):
            settled[name] = {**wanted.settled[name], **each}
    return replace(kept, rules=rules, topics=topics, places=places, settled=settled)


def differing(kept: Terms, wanted: Terms) -> list[str]:
    """Describe the differences between two terms; empty if they are equal."""
    if kept.is_endless != wanted.is_endless:
        kinds = {True: "a live pipeline", False: "a replay"}
        return [f"this is {kinds[wanted.is_endless]}, the ledger's is {kinds[kept.is_endless]}"]
    found = [] if kept.is_endless else differing_rules(kept.rules, wanted.rules)
    found += differing_ends(kept, wanted)
    if not found and kept.digest != wanted.digest:
        found.append(_differing_plans(kept, wanted))
    return [*dict.fromkeys(found)]


def differing_ends(kept: Terms, wanted: Terms) -> list[str]:
    """Describe the differences of source and target alone."""
    found = []
    if kept.source != wanted.source:
        found.append(f"the source is {wanted.source}; the ledger says {kept.source}")
    found += differing_topics(kept.topics, wanted.topics)
    return found + _differing_places(kept, wanted)


def differing_topics(kept: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Describe the source topics that have a different id now."""
    return [
        f"source topic {topic} has the id {found[topic]}; the ledger says {kept[topic]}: "
        "it was deleted and created again"
        for topic in sorted(kept.keys() & found.keys())
        if kept[topic] and found[topic] and kept[topic] != found[topic]
    ]


def differing_place(kept: Whereto | None, found: Whereto) -> str | None:
    """Describe the difference of a place to which records go; None without a difference."""
    if kept is None or kept == found:
        return None
    if not found.id:
        return f"target {found.name} is gone; the ledger says it was written to with {kept.id}"
    if kept.name != found.name:
        return f"the target is {found.name}; the ledger says {kept.name}"
    return f"target {found.name} has {found.id}; the ledger says {kept.id}: it was dropped and created again"


def refuse_other_place(replay_id: str, kept: Terms | None, topic: str, now: Whereto) -> None:
    """Refuse a place that is not the one to which the records of a topic went when the replay began."""
    if kept is not None and (told := differing_place(kept.places.get(topic), now)):
        raise OtherTerms(replay_id, differences=[told], is_endless=kept.is_endless)


def without_terms(replay_id: str) -> Note:
    """The note for a ledger that has entries of a replay, but no terms."""
    text = (
        f"an earlier version started the ledger of {replay_id} without writing terms: whether "
        "topics and tables are still the same ones is unknown; from now on the terms are "
        "stored"
    )
    return Note(NO_TERMS, text)


def differing_rules(kept: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Describe the options that differ."""
    return [
        f"{name} is {_said(wanted, name)}; the ledger says {_said(kept, name)}"
        for name in sorted({*kept, *wanted})
        if _text(kept.get(name)) != _text(wanted.get(name))
    ]


def _differing_places(kept: Terms, wanted: Terms) -> list[str]:
    """Describe changed places; a target with a new identity but equal places was moved or upgraded as a whole."""
    found = [
        told
        for topic, place in sorted(wanted.places.items())
        if (told := differing_place(kept.places.get(topic), place)) is not None
    ]
    if found and kept.target != wanted.target:
        found.append(f"the target's server is {wanted.target}; the ledger says {kept.target}")
    return found


def _differing_plans(kept: Terms, wanted: Terms) -> str:
    ours, theirs = _runs(wanted), _runs(kept)
    different = sorted(ours ^ theirs)
    if not different:
        return "the plan is a different one"
    run = different[0]
    if run in ours:
        return f"{run} is planned, and is not in the plan that the ledger has"
    return f"{run} is not planned, and is in the plan that the ledger has"


def _runs(terms: Terms) -> set[str]:
    return {
        f"{each['topic']}:{each['partition']}:{each['from_offset']}-{each['to_offset']}"
        for each in (terms.plan or {}).get("partitions", ())
    }


def _said(rules: Mapping[str, Any], name: str) -> str:
    return _text(rules[name]) if name in rules else "not said"


def _text(document: Any) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"))
