"""Makes the two ends of a replay from what was asked and what is configured."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from playhead.config.clusters import connection_of, guards_of
from playhead.config.context import Configuration
from playhead.decoding import Decoding
from playhead.endpoint import BadEndpoint, Endpoint, check_topic, system_of
from playhead.errors import Refused, UsageError
from playhead.replay.decode import decoding_of
from playhead.request import ReplaySpec, Request, TrafficRules
from playhead.source import Pinned, Source, SourceFacts
from playhead.systems import MakesSource, MakesTarget, ours
from playhead.target import LiveTarget, Target
from playhead.task.job import DeadLetters

_UNSAID = (None, False, (), "auto")
_RULES_OF = (
    ("table", "tables", ("key", "on_conflict", "version_column", "tombstones")),
    ("topic", "topics", ("headers", "provenance", "partition", "redrive")),
)


@dataclass(frozen=True, slots=True)
class Wiring:
    """Both ends of a replay, where its dead letters go, and what makes its values readable."""

    source: Source
    target: Target
    graveyard: DeadLetters | None
    decoding: Decoding | None = None


def ends(request: Request, configuration: Configuration, *, is_endless: bool = False) -> Wiring:
    """Descriptions only: nothing is connected yet. A live pipeline has no end."""
    spec = request.spec
    _refuse_itself(spec, configuration)
    _refuse_capture_options(spec)
    source = _source(spec.source, spec, configuration)
    target = _target(spec.target, spec, configuration)
    if is_endless and isinstance(target, LiveTarget):
        target = target.for_live()
    graveyard = _graveyard(spec, configuration)
    return Wiring(source, target, graveyard, decoding_of(spec, configuration))


def _refuse_itself(spec: ReplaySpec, configuration: Configuration) -> None:
    from_, to = spec.source, spec.target
    of_one_cluster = _of_one_cluster(from_, to, configuration)
    if str(from_) == str(to) or (of_one_cluster and _same_name(from_, to)):
        raise Refused(
            f"{from_.shown()} would be replayed into itself",
            hint="name another topic or folder as the target",
        )
    letters = letters_end(spec)
    if letters is None:
        return
    hint = f"choose another topic: --on-error dlq:{letters.name}-dlq"
    if _reads(from_, letters.name) and _of_one_cluster(from_, letters, configuration):
        raise Refused(
            f"dead letters would go to {letters.name}, which is the source",
            hint=hint,
        )
    if letters.name == to.name and _of_one_cluster(to, letters, configuration):
        raise Refused(f"dead letters would go to {letters.name}, which is the target", hint=hint)


def _same_name(one: Endpoint, other: Endpoint) -> bool:
    return (one.name, one.is_pattern) == (other.name, other.is_pattern)


def _of_one_cluster(one: Endpoint, other: Endpoint, configuration: Configuration) -> bool:
    """Whether both are of a server of which equal names are one thing."""
    system = system_of(one)
    return system is system_of(other) and system.is_same_server(one, other, configuration)


def _reads(from_: Endpoint, topic: str) -> bool:
    """Whether a topic is one of those that the source names, or would find by its pattern."""
    if not from_.is_pattern:
        return topic in from_.name.split(",")
    return re.search(from_.name, topic) is not None


def _refuse_capture_options(spec: ReplaySpec) -> None:
    """What would silently mean nothing."""
    if system_of(spec.source).kind != "capture" and spec.traffic != TrafficRules():
        flag = "--filter" if spec.traffic.filter is not None else "--times"
        raise UsageError(
            f"{flag} goes with captured traffic, and {spec.source.shown()} is none",
            hint="--where chooses among records",
        )
    if spec.topic.topic_map and system_of(spec.target).kind != "topic":
        raise UsageError(
            f"--topic-map names topics of a Kafka target, and {spec.target.shown()} is none",
            hint="{topic} in the target's name stands for the captured topic's",
        )


def guards(request: Request, configuration: Configuration) -> Configuration:
    """The configuration that says whether what the request writes may be written."""
    written = (request.target_endpoint, letters_end(request.spec))
    return guards_of([end for end in written if end is not None], configuration)


def refuse_idle_rules(spec: ReplaySpec) -> None:
    """Rules of another kind of target, which would silently mean nothing; plans of before have them still."""
    to = spec.target
    for kind, plural, names in _RULES_OF:
        rules = getattr(spec, kind)
        given = [name for name in names if getattr(rules, name) not in _UNSAID]
        if given and system_of(to).kind != kind:
            flag = "--" + given[0].replace("_", "-")
            raise UsageError(
                f"{flag} is a rule for {plural}, and {to.shown()} is none", hint=f"leave {flag} out"
            )


def _source(end: Endpoint, spec: ReplaySpec, configuration: Configuration) -> Source:
    system = system_of(end)
    if not isinstance(system, MakesSource):
        raise _cannot_be(end, MakesSource, "source")
    return system.source(end, spec, configuration)


def _target(end: Endpoint, spec: ReplaySpec, configuration: Configuration) -> Target:
    system = system_of(end)
    if not isinstance(system, MakesTarget):
        raise _cannot_be(end, MakesTarget, "target")
    return system.target(end, spec, configuration)


def _cannot_be(end: Endpoint, ability: type, what: str) -> BadEndpoint:
    able = [name for system in ours() if isinstance(system, ability) for name in system.examples]
    return BadEndpoint(
        str(end), reason=f"{end.system} cannot be a {what}", hint=f"{what}s are {', '.join(able)}"
    )


def as_source(spec: ReplaySpec, topics: Sequence[str], configuration: Configuration) -> Source:
    """What a replay of these topics has written, to be read; a table is no source."""
    end = spec.target
    if system_of(end).kind == "topic":
        copies = dict.fromkeys(spec.target_topic(topic) for topic in topics)
        end = replace(end, name=",".join(copies), is_pattern=False)
    return _source(end, spec, configuration)


def target_at(end: Endpoint, configuration: Configuration) -> Target:
    """A target by its endpoint alone, to be asked what its ledger knows."""
    text = str(end.from_anywhere())
    # The source is not asked for; only a redrive's target has no name.
    spec = Request(source=text, target=text, redrive=not end.name).spec
    return _target(spec.target, spec, configuration)


def letters_end(spec: ReplaySpec) -> Endpoint | None:
    """Where dead letters go: beside the topic they come from; with files as the source, beside the target."""
    named = spec.on_error.topic
    if named is None:
        return None
    found = Endpoint.parse(f"kafka:{named}")
    check_topic(found.name)
    beside = next((end for end in (spec.source, spec.target) if end.system == found.system), None)
    if found.context or found.address or beside is None:
        return found
    return replace(found, address=beside.address, context=beside.context)


def _graveyard(spec: ReplaySpec, configuration: Configuration) -> DeadLetters | None:
    end = letters_end(spec)
    if end is None:
        return None
    from playhead.kafka.write.dead_letters import DeadLetterTopic as KafkaGraveyard

    return KafkaGraveyard(connection_of(end, configuration), end.name)


def expecting(source: Source, facts: SourceFacts) -> Source:
    """The source that has just the topics of a plan, and refuses one that was deleted and made again."""
    return source.pinned(facts) if isinstance(source, Pinned) else source
