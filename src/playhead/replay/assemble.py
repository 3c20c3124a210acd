"""Makes the source and the target of a replay from the request and the configuration."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from playhead.config.context import Configuration, connection_of, guards_of
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
    ("table", "tables", ("key", "on_conflict", "version_column", "tombstones", "extra_fields")),
    ("topic", "topics", ("headers", "provenance", "partition", "redrive")),
)


@dataclass(frozen=True, slots=True)
class Wiring:
    """The source, the target, the dead letters and the decoding of a replay."""

    source: Source
    target: Target
    dead_letters: DeadLetters | None
    decoding: Decoding | None = None


def ends(request: Request, configuration: Configuration, *, is_endless: bool = False) -> Wiring:
    """Describe both ends without connecting; a live pipeline is endless."""
    spec = request.spec
    _refuse_itself(spec, configuration)
    _refuse_capture_options(spec)
    source = _source(spec.source, spec, configuration)
    target = _target(spec.target, spec, configuration)
    if is_endless and isinstance(target, LiveTarget):
        target = target.for_live()
    dead_letters = _dead_letters(spec, configuration)
    return Wiring(source, target, dead_letters, decoding_of(spec, configuration))


def _refuse_itself(spec: ReplaySpec, configuration: Configuration) -> None:
    from_, to = spec.source, spec.target
    of_one_cluster = _of_one_cluster(from_, to, configuration)
    if str(from_) == str(to) or (of_one_cluster and _same_name(from_, to)):
        raise Refused(
            f"{from_.shown()} would be replayed into itself",
            hint="choose another topic or folder as the target",
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
    """Return whether equal names at both endpoints mean the same thing."""
    system = system_of(one)
    return system is system_of(other) and system.is_same_server(one, other, configuration)


def _reads(from_: Endpoint, topic: str) -> bool:
    """Return whether the source names this topic, or matches it by its pattern."""
    if not from_.is_pattern:
        return topic in from_.name.split(",")
    return re.search(from_.name, topic) is not None


def _refuse_capture_options(spec: ReplaySpec) -> None:
    """Refuse options for captured traffic that would have no effect."""
    if system_of(spec.source).kind != "capture" and spec.traffic != TrafficRules():
        flag = "--filter" if spec.traffic.filter is not None else "--times"
        raise UsageError(
            f"{flag} applies to captured traffic only; {spec.source.shown()} is not captured traffic",
            hint="filter records with --where",
        )
    if spec.topic.topic_map and system_of(spec.target).kind != "topic":
        raise UsageError(
            f"--topic-map applies to a Kafka target; {spec.target.shown()} is not a topic",
            hint="write {topic} in the target's name for the captured topic's name",
        )


def guards(request: Request, configuration: Configuration) -> Configuration:
    """Return the configuration whose guards apply to the request's target."""
    written = (request.target_endpoint, letters_end(request.spec))
    return guards_of([end for end in written if end is not None], configuration)


def refuse_idle_rules(spec: ReplaySpec) -> None:
    """Refuse rules for another kind of target, which would have no effect; old plans may contain some."""
    to = spec.target
    for kind, plural, names in _RULES_OF:
        rules = getattr(spec, kind)
        given = [name for name in names if getattr(rules, name) not in _UNSAID]
        if given and system_of(to).kind != kind:
            flag = "--" + given[0].replace("_", "-")
            raise UsageError(
                f"{flag} is a rule for {plural}; {to.shown()} is not a {kind}",
                hint=f"leave {flag} out",
            )
    if spec.table.extra_fields is not None and spec.table.form != "json":
        raise UsageError(
            f"--extra-fields is a rule for the fields of values, which --decode {spec.decode} takes whole",
            hint="leave --extra-fields out",
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
    """Return what a replay of these topics has written, as a source; a table cannot be one."""
    end = spec.target
    if system_of(end).kind == "topic":
        copies = dict.fromkeys(spec.target_topic(topic) for topic in topics)
        end = replace(end, name=",".join(copies), is_pattern=False)
    return _source(end, spec, configuration)


def target_at(end: Endpoint, configuration: Configuration) -> Target:
    """Return the target of an endpoint alone, to read its ledger."""
    text = str(end.from_anywhere())
    # The source does not matter; only a redrive's target has no name.
    spec = Request(source=text, target=text, redrive=not end.name).spec
    return _target(spec.target, spec, configuration)


def letters_end(spec: ReplaySpec) -> Endpoint | None:
    """Return the endpoint for dead letters: beside their source topic, or the target if the source is files."""
    named = spec.on_error.topic
    if named is None:
        return None
    found = Endpoint.parse(f"kafka:{named}")
    check_topic(found.name)
    beside = next((end for end in (spec.source, spec.target) if end.system == found.system), None)
    if found.context or found.address or beside is None:
        return found
    return replace(found, address=beside.address, context=beside.context)


def _dead_letters(spec: ReplaySpec, configuration: Configuration) -> DeadLetters | None:
    end = letters_end(spec)
    if end is None:
        return None
    from playhead.kafka.write.dead_letters import DeadLetterTopic

    return DeadLetterTopic(connection_of(end, configuration), end.name)


def expecting(source: Source, facts: SourceFacts) -> Source:
    """Bind the source to the topics of a plan; it refuses a topic that was deleted and created again."""
    return source.pinned(facts) if isinstance(source, Pinned) else source
