"""What was asked for: one replay's options, as they were written, so that they can be saved and run again."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from playhead.decoding import REGISTERED_FORMS, UNDECODED_FORMS
from playhead.endpoint import TOPIC_NAME, Endpoint
from playhead.errors import BadValue
from playhead.transform.transform import Transform


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The sentence: source, span, transform, target, pace, and the rules. Texts are in the grammars' forms.

    Nothing secret is in it: servers are named by the configuration, or by an address without a password.
    """

    source: str
    target: str
    span: str = "start..end"
    lateness_ms: int = 600_000
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
        for text in (self.source, self.target):
            Endpoint.parse(text)  # refuses what cannot be understood, and a password written out

    def topics_by_name(self) -> dict[str, str]:
        """The topic map as it was asked for; a pair that is none is refused."""
        found: dict[str, str] = {}
        for text in self.topic_map:
            name, equals, target = text.partition("=")
            if not (equals and TOPIC_NAME.fullmatch(name) and TOPIC_NAME.fullmatch(target)):
                needed = "CAPTURED=TARGET, two names of topics"
                raise BadValue("--topic-map", found=text, needed=needed)
            if found.setdefault(name, target) != target:
                needed = f"one target; {name} has {found[name]} already"
                raise BadValue("--topic-map", found=text, needed=needed)
        return found

    def target_topic(self, topic: str) -> str:
        """Where the records of a topic go, in a Kafka target."""
        name = self.topics_by_name().get(topic)
        return self.target_endpoint.name.replace("{topic}", topic) if name is None else name

    @property
    def table_form(self) -> str:
        """How a table takes what `decode` has made of values: taken apart as JSON, or whole."""
        if self.decode in UNDECODED_FORMS:
            return self.decode
        outputs = Transform(select=self.select).outputs()
        has_fields = any(output.replaces is None for output in outputs)
        return "json" if self.decode in REGISTERED_FORMS or has_fields else "string"

    @property
    def source_endpoint(self) -> Endpoint:
        return Endpoint.parse(self.source)

    @property
    def target_endpoint(self) -> Endpoint:
        return Endpoint.parse(self.target)

    def from_anywhere(self) -> "Request":
        """With its folders by their whole paths, so that it means the same wherever it is read."""
        source, target = self.source_endpoint, self.target_endpoint
        return replace(self, source=str(source.from_anywhere()), target=str(target.from_anywhere()))

    def as_document(self) -> dict[str, Any]:
        return asdict(self)

    def said(self) -> dict[str, Any]:
        """What is not left as it is by default, so that an option of a later version changes nothing."""
        return {
            field.name: found
            for field in fields(self)
            if (found := getattr(self, field.name)) != field.default
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Request":
        known = {field.name for field in fields(cls)}
        unknown = set(document) - known
        if unknown:
            raise ValueError(f"unknown {', '.join(sorted(unknown))}")
        values: dict[str, Any] = dict(document)
        for field in fields(cls):
            if field.name in values:
                values[field.name] = _understood(field.name, values[field.name], field.default)
        return cls(**values)


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
