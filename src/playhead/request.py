"""What was asked for: one replay's options as texts, so that they can be saved; and what they mean, read once."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from playhead.account import ErrorRule
from playhead.decoding import REGISTERED_FORMS, UNDECODED_FORMS
from playhead.endpoint import TOPIC_NAME, Endpoint
from playhead.errors import BadValue
from playhead.pace import Pace
from playhead.span import Span
from playhead.time_span import LATENESS_MS, ReadOn
from playhead.transform.transform import Transform

EXTRA_FIELDS_RULES = (None, "note", "fail")
"""What --extra-fields can say without naming a column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRules:
    """How records become rows of a table."""

    key: tuple[str, ...] = ()
    on_conflict: str | None = None
    version_column: str | None = None
    tombstones: str | None = None
    create: bool = False
    extra_fields: str | None = None
    """What becomes of fields that no column takes: `note`, `fail`, or a column that keeps them."""
    form: str = "json"
    """How values are taken: apart as JSON, or whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRules:
    """How records are written to a topic."""

    headers: tuple[str, ...] = ()
    provenance: bool = False
    partition: str = "auto"
    redrive: bool = False
    topic_map: Mapping[str, str] = field(default_factory=dict)
    """By source topic, where its records go when that is not where the target says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRules:
    """How records are written to files."""

    typed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficRules:
    """Which records captured traffic is read as."""

    filter: str | None = None
    """Which pairs, in the filter language."""
    times: str = "record"
    """Which time a record has: its own, or its pair's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySpec:
    """A request as values, with the rules of each kind of end."""

    source: Endpoint
    target: Endpoint
    span: Span
    lateness_ms: int
    read_on: ReadOn
    transform: Transform
    pace: Pace
    on_error: ErrorRule
    decode: str
    table: TableRules
    topic: TopicRules
    archive: ArchiveRules
    traffic: TrafficRules

    @property
    def is_transformed(self) -> bool:
        return not self.transform.changes_nothing

    def target_topic(self, topic: str) -> str:
        """Where the records of a topic go, in a Kafka target."""
        return self.topic.topic_map.get(topic) or self.target.name.replace("{topic}", topic)


@dataclass(frozen=True, kw_only=True)
class Request:
    """The sentence: source, span, transform, target, pace, and the rules. Texts are in the grammars' forms.

    It is what plans, ledgers and journals keep, so the texts stay as they were written. `spec` is what
    they mean. Nothing secret is in it: servers are named by the configuration, or by an address without
    a password.
    """

    source: str
    target: str
    span: str = "start..end"
    """As `str` of a `Span` gives it, so with the zone of each time; without one it would be UTC."""
    lateness_ms: int = LATENESS_MS
    read_on: str = "auto"
    """How far behind the end of a span by time: `end`, or a duration; `auto` looks how far it takes."""
    where: str | None = None
    select: str | None = None
    pace: str = "max"
    max_gap_ms: int | None = None
    key: tuple[str, ...] = ()
    on_conflict: str | None = None
    version_column: str | None = None
    tombstones: str | None = None
    on_error: str = "fail"
    decode: str = "json"
    create: bool = False
    extra_fields: str | None = None
    headers: tuple[str, ...] = ()
    provenance: bool = False
    partition: str = "auto"
    redrive: bool = False
    typed: bool = False
    filter: str | None = None
    """Which pairs of captured traffic, in the filter language."""
    times: str = "record"
    """Which time a captured record has: its own, or its pair's."""
    topic_map: tuple[str, ...] = ()
    """`captured=target`: a topic that does not go where the target says."""

    def __post_init__(self) -> None:
        # Refused here is what cannot be understood, and a password written out.
        _ = self.source_endpoint, self.target_endpoint

    @cached_property
    def source_endpoint(self) -> Endpoint:
        return Endpoint.parse(self.source)

    @cached_property
    def target_endpoint(self) -> Endpoint:
        return Endpoint.parse(self.target)

    @cached_property
    def spec(self) -> ReplaySpec:
        """What it means; a text that means nothing is refused. A saved request may have such a text."""
        transform = Transform(self.where, self.select)
        if self.extra_fields == "":
            raise BadValue(
                "--extra-fields", found="", needed="note, fail or a column of type jsonb"
            )
        return ReplaySpec(
            source=self.source_endpoint,
            target=self.target_endpoint,
            span=Span.parse(self.span),
            lateness_ms=self.lateness_ms,
            read_on=ReadOn.parse(self.read_on),
            transform=transform,
            pace=Pace.parse(self.pace, max_gap_ms=self.max_gap_ms),
            on_error=ErrorRule.parse(self.on_error),
            decode=self.decode,
            table=TableRules(
                key=self.key,
                on_conflict=self.on_conflict,
                version_column=self.version_column,
                tombstones=self.tombstones,
                create=self.create,
                extra_fields=self.extra_fields,
                form=_table_form(self.decode, transform),
            ),
            topic=TopicRules(
                headers=self.headers,
                provenance=self.provenance,
                partition=self.partition,
                redrive=self.redrive,
                topic_map=_topics_by_name(self.topic_map),
            ),
            archive=ArchiveRules(typed=self.typed),
            traffic=TrafficRules(filter=self.filter, times=self.times),
        )

    def from_anywhere(self) -> "Request":
        """With its folders by their whole paths, so that it means the same wherever it is read."""
        source, target = self.source_endpoint, self.target_endpoint
        return replace(self, source=str(source.from_anywhere()), target=str(target.from_anywhere()))

    def as_document(self) -> dict[str, Any]:
        return asdict(self)

    def said(self) -> dict[str, Any]:
        """What is not left as it is by default, so that an option of a later version changes nothing."""
        return {
            option.name: value
            for option in fields(self)
            if (value := getattr(self, option.name)) != option.default
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Request":
        known = {option.name for option in fields(cls)}
        unknown = set(document) - known
        if unknown:
            raise ValueError(f"unknown {', '.join(sorted(unknown))}")
        values: dict[str, Any] = dict(document)
        for option in fields(cls):
            if option.name in values:
                values[option.name] = _understood(option.name, values[option.name], option.default)
        return cls(**values)


def _topics_by_name(pairs: tuple[str, ...]) -> dict[str, str]:
    """The topic map as it was asked for; a pair that is none is refused."""
    topics: dict[str, str] = {}
    for text in pairs:
        name, equals, target = text.partition("=")
        if not (equals and TOPIC_NAME.fullmatch(name) and TOPIC_NAME.fullmatch(target)):
            needed = "CAPTURED=TARGET, two names of topics"
            raise BadValue("--topic-map", found=text, needed=needed)
        if topics.setdefault(name, target) != target:
            needed = f"one target; {name} has {topics[name]} already"
            raise BadValue("--topic-map", found=text, needed=needed)
    return topics


def _table_form(decode: str, transform: Transform) -> str:
    """How a table takes what `decode` has made of values."""
    if decode in UNDECODED_FORMS:
        return decode
    has_fields = any(output.replaces is None for output in transform.outputs())
    return "json" if decode in REGISTERED_FORMS or has_fields else "string"


def _understood(name: str, found: Any, default: Any) -> Any:
    """A value of a saved request; one of another kind would be noticed late, or never."""
    if isinstance(default, tuple):
        is_right = isinstance(found, list | tuple) and all(isinstance(each, str) for each in found)
        needed, found = "a list of texts", tuple(found) if is_right else found
    elif isinstance(default, bool):
        is_right, needed = isinstance(found, bool), "true or false"
    elif name.endswith("_ms"):
        is_right, needed = type(found) is int and found >= 0, "a number of milliseconds"
    else:
        is_right, needed = isinstance(found, str), "a text"
    if not is_right and not (found is None and default is None):
        raise ValueError(f"{name} is {found!r}; needed: {needed}")
    return found
