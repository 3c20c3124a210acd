"""Makes the two ends of a replay from what was asked and what is configured."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from playhead import secrets
from playhead.account import ErrorRule
from playhead.connection import KafkaConnection
from playhead.context import Configuration
from playhead.decoding import Decoding
from playhead.endpoint import FILE_FORMS, TRAFFIC_FORMS, BadEndpoint, Endpoint
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
    _refuse_itself(from_, to, request)
    _refuse_capture_options(from_, to, request)
    source = _source(from_, configuration, request)
    target = _target(to, from_, request, configuration)
    if is_endless and hasattr(target, "is_endless"):
        target = replace(target, is_endless=True)  # type: ignore[type-var]
    graveyard = _graveyard(request, from_, to, configuration)
    return Ends(source, target, graveyard, decoding_of(request, configuration))


def _refuse_itself(from_: Endpoint, to: Endpoint, request: Request) -> None:
    if str(from_) == str(to):
        raise Refused(
            f"{from_.shown()} would be replayed into itself",
            hint="name another topic or folder as the target",
        )
    rule = ErrorRule.parse(request.on_error)
    if rule.topic is not None and from_.system == "kafka" and _reads(from_, rule.topic):
        raise Refused(
            f"dead letters would go to {rule.topic}, which is the source",
            hint=f"choose another topic: --on-error dlq:{rule.topic}-dlq",
        )
    if rule.topic is not None and to.system == "kafka" and rule.topic == to.name:
        raise Refused(
            f"dead letters would go to {rule.topic}, which is the target",
            hint=f"choose another topic: --on-error dlq:{rule.topic}-dlq",
        )


def _reads(from_: Endpoint, topic: str) -> bool:
    """Whether a topic is one of those that the source names, or would find by its pattern."""
    if not from_.is_pattern:
        return topic in from_.name.split(",")
    return re.search(from_.name, topic) is not None


def connection_of(end: Endpoint, configuration: Configuration) -> KafkaConnection:
    """The configured cluster, or the one that the endpoint names."""
    connection = configuration.kafka()
    if not end.address:
        return connection
    return connection.with_bootstrap_servers(end.address, where=str(end))


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
    same_cluster = from_.system == "kafka" and from_.address == end.address
    return KafkaTarget(
        connection,
        end.name,
        headers=request.headers,
        provenance=request.provenance,
        redrive=request.redrive,
        partition_rule=cast(PartitionRule, request.partition),
        create=True,
        is_paced=not Pace.parse(request.pace).is_max,
        moves_group=same_cluster,
        topic_map=tuple(request.topics_by_name().items()),
    )


def _graveyard(
    request: Request, from_: Endpoint, to: Endpoint, configuration: Configuration
) -> Graveyard | None:
    rule = ErrorRule.parse(request.on_error)
    if rule.topic is None:
        return None
    from playhead.kafka.dead_letters import Graveyard as KafkaGraveyard

    # Beside the topic they come from; with files as the source, beside the target.
    beside = from_ if from_.system == "kafka" else to
    connection = connection_of(
        beside if beside.system == "kafka" else Endpoint("kafka", ""), configuration
    )
    return KafkaGraveyard(connection, rule.topic)


def expecting(source: Source, facts: SourceFacts) -> Source:
    """The source that has just the topics of a plan, and refuses one that was deleted and made again."""
    if hasattr(source, "expect_identity"):
        return replace(source, expect_identity=facts.identity)  # type: ignore[type-var]
    if not hasattr(source, "expect_topic_ids"):
        return source
    ids = {name: topic.topic_id for name, topic in facts.topics.items() if topic.topic_id}
    names = tuple(facts.topics)
    return replace(source, topics=names, pattern=None, expect_topic_ids=ids)  # type: ignore[type-var]
