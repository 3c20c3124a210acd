"""Makes the two ends of a replay from what was asked and what is configured."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from playhead import secrets
from playhead.account import ErrorRule
from playhead.clusters import connection_of, guards_of
from playhead.context import Configuration
from playhead.decoding import Decoding
from playhead.endpoint import FILE_FORMS, TRAFFIC_FORMS, BadEndpoint, Endpoint, check_topic
from playhead.errors import Refused, UsageError
from playhead.job import Graveyard
from playhead.pace import Pace
from playhead.replay.decoded import decoding_of, table_form
from playhead.request import Request
from playhead.source import Source, SourceFacts
from playhead.target import Target

Form = Literal["parquet", "json", "csv"]
ConflictRule = Literal["ignore", "newer", "update", "error"] | None
PartitionRule = Literal["auto", "keep", "key", "any"]
Capture = Literal["rrpair", "extract", "gor", "har"]
Times = Literal["record", "pair"]
_UNSAID = (None, False, (), "auto")
_RULES_OF = (
    ("postgres", "tables", ("key", "on_conflict", "version_column", "tombstones")),
    ("kafka", "topics", ("headers", "provenance", "partition", "redrive")),
)


@dataclass(frozen=True, slots=True)
class Ends:
    """Both ends of a replay, where its dead letters go, and what makes its values readable."""

    source: Source
    target: Target
    graveyard: Graveyard | None
    decoding: Decoding | None = None


def ends(request: Request, configuration: Configuration, *, is_endless: bool = False) -> Ends:
    """Descriptions only: nothing is connected yet. A live pipeline has no end."""
    from_, to = request.source_endpoint, request.target_endpoint
    _refuse_itself(from_, to, request, configuration)
    _refuse_capture_options(from_, to, request)
    source = _source(from_, configuration, request)
    target = _target(to, from_, request, configuration)
    if is_endless and hasattr(target, "is_endless"):
        target = replace(target, is_endless=True)  # type: ignore[type-var]
    graveyard = _graveyard(request, configuration)
    return Ends(source, target, graveyard, decoding_of(request, configuration))


def _refuse_itself(
    from_: Endpoint, to: Endpoint, request: Request, configuration: Configuration
) -> None:
    of_one_cluster = _of_one_cluster(from_, to, configuration)
    if str(from_) == str(to) or (of_one_cluster and _same_name(from_, to)):
        raise Refused(
            f"{from_.shown()} would be replayed into itself",
            hint="name another topic or folder as the target",
        )
    letters = letters_end(request)
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
    """Whether both are topics of a cluster that is reached by the same brokers."""
    if not one.system == other.system == "kafka":
        return False
    if (one.context, one.address) == (other.context, other.address):
        return True
    found = [connection_of(end, configuration).bootstrap_servers for end in (one, other)]
    return found[0] == found[1]


def _reads(from_: Endpoint, topic: str) -> bool:
    """Whether a topic is one of those that the source names, or would find by its pattern."""
    if not from_.is_pattern:
        return topic in from_.name.split(",")
    return re.search(from_.name, topic) is not None


def _refuse_capture_options(from_: Endpoint, to: Endpoint, request: Request) -> None:
    """What would silently mean nothing."""
    if from_.system not in TRAFFIC_FORMS and (
        request.filter is not None or request.times != "record"
    ):
        flag = "--filter" if request.filter is not None else "--times"
        raise UsageError(
            f"{flag} goes with captured traffic, and {from_.shown()} is none",
            hint="--where chooses among records",
        )
    if request.topic_map and to.system != "kafka":
        raise UsageError(
            f"--topic-map names topics of a Kafka target, and {to.shown()} is none",
            hint="{topic} in the target's name stands for the captured topic's",
        )


def guards(request: Request, configuration: Configuration) -> Configuration:
    """The configuration that says whether what the request writes may be written."""
    written = (request.target_endpoint, letters_end(request))
    return guards_of([end for end in written if end is not None], configuration)


def refuse_idle_rules(request: Request) -> None:
    """Rules of another kind of target, which would silently mean nothing; plans of before have them still."""
    to = request.target_endpoint
    for system, kind, names in _RULES_OF:
        given = [name for name in names if getattr(request, name) not in _UNSAID]
        if given and to.system != system:
            flag = "--" + given[0].replace("_", "-")
            raise UsageError(
                f"{flag} is a rule for {kind}, and {to.shown()} is none", hint=f"leave {flag} out"
            )


def _source(end: Endpoint, configuration: Configuration, request: Request | None = None) -> Source:
    if end.system == "kafka":
        from playhead.kafka.source import KafkaSource

        if not end.name:
            raise BadEndpoint(str(end), reason="a source needs a topic")
        connection = connection_of(end, configuration)
        if end.is_pattern:
            return KafkaSource(connection, pattern=end.name)
        return KafkaSource(connection, topics=tuple(end.name.split(",")))
    if end.system in FILE_FORMS:
        from playhead.files.source import FilesSource

        return FilesSource(end.name, cast(Form, end.system))
    if end.system in TRAFFIC_FORMS:
        from playhead.traffic.source import TrafficSource

        kind = cast(Capture, end.system)
        if request is None:
            return TrafficSource(kind, end.name)
        return TrafficSource(kind, end.name, request.filter, cast(Times, request.times))
    raise BadEndpoint(
        str(end),
        reason=f"{end.system} cannot be a source",
        hint=f"sources are kafka, {', '.join((*FILE_FORMS, *TRAFFIC_FORMS))}",
    )


def as_source(request: Request, topics: Sequence[str], configuration: Configuration) -> Source:
    """What a replay of these topics has written, to be read; a table is no source."""
    end = request.target_endpoint
    if end.system == "kafka":
        copies = dict.fromkeys(request.target_topic(topic) for topic in topics)
        end = replace(end, name=",".join(copies), is_pattern=False)
    return _source(end, configuration)


def _target(
    end: Endpoint, from_: Endpoint, request: Request, configuration: Configuration
) -> Target:
    if end.system == "kafka":
        return _kafka_target(end, from_, request, configuration)
    if end.system == "postgres":
        from playhead.postgres.target import PostgresTarget

        url = (
            secrets.resolve(end.address, key="the target", where="its address")
            if end.address
            else configuration.need("database", needed_for=end.shown())
        )
        return PostgresTarget(
            url,
            end.name,
            key=request.key or None,
            on_conflict=cast(ConflictRule, request.on_conflict),
            version_column=request.version_column,
            tombstones=request.tombstones,
            decode=table_form(request),
            create=request.create,
        )
    if end.system not in FILE_FORMS:
        raise BadEndpoint(
            str(end),
            reason=f"{end.system} cannot be a target",
            hint=f"targets are kafka, postgres, {', '.join(FILE_FORMS)}",
        )
    from playhead.files.target import FilesTarget

    return FilesTarget(end.name, cast(Form, end.system), typed=request.typed)


def target_at(end: Endpoint, configuration: Configuration) -> Target:
    """A target by its endpoint alone, to be asked what its ledger knows."""
    if end.system == "kafka":
        from playhead.kafka.target import KafkaTarget

        return KafkaTarget(connection_of(end, configuration), end.name)
    unread = Endpoint("kafka", "any")
    request = Request(source=str(unread), target=str(end.from_anywhere()))
    return _target(request.target_endpoint, unread, request, configuration)


def _kafka_target(
    end: Endpoint, from_: Endpoint, request: Request, configuration: Configuration
) -> Target:
    from playhead.kafka.target import KafkaTarget

    if not end.name and not request.redrive:
        raise UsageError(
            f"target {str(end)!r} names no topic",
            hint="name one, or add --redrive to return dead letters to where they came from",
        )
    connection = connection_of(end, configuration)
    return KafkaTarget(
        connection,
        end.name,
        headers=request.headers,
        provenance=request.provenance,
        redrive=request.redrive,
        partition_rule=cast(PartitionRule, request.partition),
        create=True,
        is_paced=not Pace.parse(request.pace).is_max,
        moves_group=_of_one_cluster(from_, end, configuration),
        topic_map=tuple(request.topics_by_name().items()),
    )


def letters_end(request: Request) -> Endpoint | None:
    """Where dead letters go: beside the topic they come from; with files as the source, beside the target."""
    named = ErrorRule.parse(request.on_error).topic
    if named is None:
        return None
    found = Endpoint.parse(f"kafka:{named}")
    check_topic(found.name)
    ends = (request.source_endpoint, request.target_endpoint)
    beside = next((end for end in ends if end.system == "kafka"), None)
    if found.context or found.address or beside is None:
        return found
    return replace(found, address=beside.address, context=beside.context)


def _graveyard(request: Request, configuration: Configuration) -> Graveyard | None:
    end = letters_end(request)
    if end is None:
        return None
    from playhead.kafka.dead_letters import Graveyard as KafkaGraveyard

    return KafkaGraveyard(connection_of(end, configuration), end.name)


def expecting(source: Source, facts: SourceFacts) -> Source:
    """The source that has just the topics of a plan, and refuses one that was deleted and made again."""
    if hasattr(source, "expect_identity"):
        return replace(source, expect_identity=facts.identity)  # type: ignore[type-var]
    if not hasattr(source, "expect_topic_ids"):
        return source
    ids = {name: topic.topic_id for name, topic in facts.topics.items() if topic.topic_id}
    names = tuple(facts.topics)
    return replace(source, topics=names, pattern=None, expect_topic_ids=ids)  # type: ignore[type-var]
