"""The request for one replay: its options as texts that can be saved, and their parsed values."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, TypeVar

from playhead.account import ErrorRule
from playhead.decoding import REGISTERED_FORMS, REPLAYED_FORMS, UNDECODED_FORMS
from playhead.endpoint import TOPIC_NAME, Endpoint
from playhead.errors import BadValue
from playhead.pace import Pace
from playhead.rule_words import CONFLICTS, PARTITIONS, TIMES, TOMBSTONES
from playhead.span import Span
from playhead.time_span import LATENESS_MS, ReadOn
from playhead.transform.transform import Transform

Rules = TypeVar("Rules", "TableRules", "TopicRules", "ArchiveRules", "TrafficRules")
EXTRA_FIELDS_RULES = (None, "note", "fail")
"""What --extra-fields can say without naming a column."""


def _one_of(words: tuple[str, ...], default: str | None = None) -> Any:
    """Return a field whose text is one of these words."""
    return field(default=default, metadata={"words": words})


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
    """How values are written: JSON fields into columns, or whole."""

    @property
    def extra_column(self) -> str | None:
        """The column that was named for the fields that no other one takes."""
        return None if self.extra_fields in EXTRA_FIELDS_RULES else self.extra_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRules:
    """How records are written to a topic."""

    headers: tuple[str, ...] = ()
    provenance: bool = False
    partition: str = "auto"
    redrive: bool = False
    topic_map: Mapping[str, str] = field(default_factory=dict)
    """The target topic of a source topic, where it differs from the target's own rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRules:
    """How records are written to files."""

    typed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficRules:
    """How captured traffic becomes records."""

    filter: str | None = None
    """Which pairs to read, in the filter language."""
    times: str = "record"
    """Which time a record has: its own, or its pair's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySpec:
    """A request as parsed values, with the rules of each kind of endpoint."""

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
        """Return the topic to which a Kafka target writes the records of `topic`."""
        return self.topic.topic_map.get(topic) or self.target.name.replace("{topic}", topic)


@dataclass(frozen=True, kw_only=True)
class Request:
    """The sentence: source, span, transform, target, pace, and the rules, as texts of the grammars.

    Plans, ledgers and journals store it, so the texts stay as they were written; `spec` has their parsed
    values. It contains no secrets: servers come from the configuration, or from an address without a
    password.
    """

    source: str
    target: str
    span: str = "start..end"
    """The text of `str(Span)`, with the zone of each time; a time without a zone is UTC."""
    lateness_ms: int = LATENESS_MS
    read_on: str = "auto"
    """How far to read past the end of a span by time: `end`, a duration, or `auto` (as far as needed)."""
    where: str | None = None
    select: str | None = None
    pace: str = "max"
    max_gap_ms: int | None = None
    key: tuple[str, ...] = ()
    on_conflict: str | None = _one_of(CONFLICTS)
    version_column: str | None = None
    tombstones: str | None = _one_of(TOMBSTONES)
    on_error: str = "fail"
    decode: str = _one_of(REPLAYED_FORMS, "json")
    create: bool = False
    extra_fields: str | None = None
    headers: tuple[str, ...] = ()
    provenance: bool = False
    partition: str = _one_of(PARTITIONS, "auto")
    redrive: bool = False
    typed: bool = False
    filter: str | None = None
    """Which pairs of captured traffic to read, in the filter language."""
    times: str = _one_of(TIMES, "record")
    """Which time a captured record has: its own, or its pair's."""
    topic_map: tuple[str, ...] = ()
    """`captured=target`: a topic whose records do not go where the target says."""

    def __post_init__(self) -> None:
        # Refuse unparsable texts and written-out passwords here: a ledger or a journal would keep them.
        for option in fields(self):
            value = _need_kind(option.name, getattr(self, option.name), option.default)
            object.__setattr__(self, option.name, value)
        _ = self.source_endpoint, self.target_endpoint

    @cached_property
    def source_endpoint(self) -> Endpoint:
        return Endpoint.parse(self.source)

    @cached_property
    def target_endpoint(self) -> Endpoint:
        return Endpoint.parse(self.target)

    @cached_property
    def spec(self) -> ReplaySpec:
        """The parsed values; refuses an invalid text, which a saved request may have."""
        self._need_known_words()
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
            table=self._rules(TableRules, form=_table_form(self.decode, transform)),
            topic=self._rules(TopicRules, topic_map=_topics_by_name(self.topic_map)),
            archive=self._rules(ArchiveRules),
            traffic=self._rules(TrafficRules),
        )

    def _rules(self, kind: type[Rules], **parsed: Any) -> Rules:
        """Return the rules of one kind of endpoint: what the request has under their names, or parsed of it."""
        names = {each.name for each in fields(kind)} - parsed.keys()
        return kind(**{name: getattr(self, name) for name in names}, **parsed)

    def _need_known_words(self) -> None:
        for option in fields(self):
            words, found = option.metadata.get("words"), getattr(self, option.name)
            if words is not None and found is not None and found not in words:
                flag = "--" + option.name.replace("_", "-")
                raise BadValue(flag, found=found, needed=" or ".join(words))

    def from_anywhere(self) -> "Request":
        """Return the request with absolute paths, so that it means the same in every folder."""
        source, target = self.source_endpoint, self.target_endpoint
        return replace(self, source=str(source.from_anywhere()), target=str(target.from_anywhere()))

    def as_document(self) -> dict[str, Any]:
        return asdict(self)

    def said(self) -> dict[str, Any]:
        """Return the options that differ from their defaults, so that options of later versions change nothing."""
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
        try:
            return cls(**document)
        except BadValue as exc:
            raise ValueError(str(exc)) from exc


def _topics_by_name(pairs: tuple[str, ...]) -> dict[str, str]:
    """Parse the topic map; refuse invalid pairs."""
    topics: dict[str, str] = {}
    for text in pairs:
        name, equals, target = text.partition("=")
        if not (equals and TOPIC_NAME.fullmatch(name) and TOPIC_NAME.fullmatch(target)):
            needed = "CAPTURED=TARGET, two topic names"
            raise BadValue("--topic-map", found=text, needed=needed)
        if topics.setdefault(name, target) != target:
            needed = f"one target for each topic; {name} already has {topics[name]}"
            raise BadValue("--topic-map", found=text, needed=needed)
    return topics


def _table_form(decode: str, transform: Transform) -> str:
    """Return how a table takes the values that `decode` produces."""
    if decode in UNDECODED_FORMS:
        return decode
    has_fields = any(output.replaces is None for output in transform.outputs())
    return "json" if decode in REGISTERED_FORMS or has_fields else "string"


def _need_kind(name: str, found: Any, default: Any) -> Any:
    """Check the type of a value, because a wrong one would be noticed late or never."""
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
        raise BadValue(name, found=found, needed=needed)
    return found
